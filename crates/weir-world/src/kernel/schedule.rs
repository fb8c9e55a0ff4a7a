//! How late the kernel's shaper is: each departure beside the one of an exact link that got the same packets.
//!
//! The exact link begins a packet when the one before has ended, or when the packet comes, whichever is later. HTB may
//! be ahead of it by one burst (its tokens), and makes up for lateness up to one burst; what is beyond is capacity that
//! the link has lost. That is the generic cell rate algorithm (ITU-T I.371), seen from outside.

use weir_core::{Duration, Rate, Time};

/// The exact link of one rate.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    rate: Rate,
    remainder: u64,
    tolerance: Duration,
    /// When the link has sent all that has left so far.
    free: Time,
    /// Packets that wait.
    waiting: u64,
    /// Since when some have waited without a pause.
    since: Time,
    lost: Duration,
}

impl Schedule {
    /// A link of `rate` that makes up for lateness up to `burst` bytes.
    pub(super) fn new(rate: Rate, burst: u64) -> Self {
        Self {
            rate,
            remainder: 0,
            tolerance: rate.time_for(burst),
            free: Time::ZERO,
            waiting: 0,
            since: Time::ZERO,
            lost: Duration::ZERO,
        }
    }

    /// A packet has come into a queue.
    pub(super) fn arrived(&mut self, now: Time) {
        if self.waiting == 0 {
            self.since = now;
        }
        self.waiting += 1;
    }

    /// A waiting packet was dropped.
    pub(super) fn dropped(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// Since when packets have waited without a pause, or did at last.
    pub(super) fn since(&self) -> Time {
        self.since
    }

    /// When the exact link would begin the next packet that waits.
    pub(super) fn due(&self) -> Time {
        self.free.max(self.since)
    }

    /// A packet has left at `now`. Returns how late.
    pub(super) fn left(&mut self, bytes: u64, now: Time) -> Duration {
        self.waiting = self.waiting.saturating_sub(1);
        let mut due = self.due();
        let late = now.since(due);
        if late > self.tolerance {
            self.lost = self.lost + (late - self.tolerance);
            due = now - self.tolerance;
        }
        self.free = due + self.rate.serialize(bytes, &mut self.remainder);
        late
    }

    /// The capacity lost so far, in bytes.
    pub(super) fn lost_bytes(&self) -> u64 {
        self.rate.bytes_in(self.lost).0
    }
}

#[cfg(test)]
mod tests {
    use super::Schedule;
    use weir_core::{Duration, Rate, Time};

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    #[test]
    fn lateness_is_counted_from_the_exact_link() {
        // A byte per microsecond, and 2000 bytes to make up.
        let mut schedule = Schedule::new(Rate::from_bits_per_sec(8_000_000), 2000);
        (0..3).for_each(|_| schedule.arrived(at(100)));
        assert_eq!(schedule.left(1000, at(110)), Duration::from_micros(10));
        assert_eq!(schedule.left(1000, at(1600)), Duration::from_micros(500));
        // On time again.
        assert_eq!(schedule.left(1000, at(2100)), Duration::ZERO);
        assert_eq!(schedule.lost_bytes(), 0);
        // Idle time is nobody's fault, nor is being early.
        schedule.arrived(at(10_000));
        schedule.arrived(at(10_000));
        assert_eq!(schedule.left(1000, at(10_000)), Duration::ZERO);
        assert_eq!(schedule.left(1000, at(10_001)), Duration::ZERO);
        // Later than a burst: 3 ms late, 2 ms can be made up.
        schedule.arrived(at(20_000));
        assert_eq!(schedule.left(1000, at(23_000)), Duration::from_millis(3));
        assert_eq!(schedule.lost_bytes(), 1000);
    }
}
