//! The rate limiter: a link that serialises one packet after the other, in virtual time, and a bound on how much of a
//! thread's lateness it makes up for.
//!
//! In virtual time this is an exact link: a packet that begins at t has left at t + bytes / rate, and what is left of a
//! nanosecond is carried on. In real time a thread wakes late. Packets whose time has passed then leave back to back,
//! up to a burst; what is beyond the burst is capacity that the link has lost, and is reported. The bound is kept by
//! the generic cell rate algorithm (ITU-T I.371, virtual scheduling) on real departure times, so that no window of any
//! length carries more than rate x window + burst + one packet. `tbf` and `htb` bound bursts by tokens in the same way
//! but know no virtual departure time, so a late timer there shifts what the queue discipline sees.

use weir_core::{Bytes, Duration, Rate, Time};

/// A serialising link.
#[derive(Clone, Debug)]
pub(crate) struct Limiter {
    rate: Rate,
    remainder: u64,
    /// How far ahead of its due time real output may run: the burst as a time.
    tolerance: Duration,
    /// When the link will have sent, at its rate, all that has left so far (the algorithm's theoretical arrival time).
    horizon: Time,
    real_remainder: u64,
    /// The same if the packets decided on but not yet confirmed leave now.
    pending: Pending,
    late_loss: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    horizon: Time,
    remainder: u64,
}

/// The burst that a limiter of `rate` gets by default: four milliseconds of output, at least two packets.
///
/// A thread wakes up to a scheduling tick (4 ms at 250 Hz) late now and then. What it makes up for in a burst leaves
/// late but is not lost to the link; with a millisecond, shared machines lost up to 0.15 % of the capacity.
pub fn default_burst(rate: Rate) -> Bytes {
    Bytes(rate.bytes_in(Duration::from_millis(4)).0.max(2 * u64::from(weir_core::FULL_PACKET)))
}

impl Limiter {
    pub(crate) fn new(rate: Rate, burst: Bytes) -> Self {
        Self {
            rate,
            remainder: 0,
            tolerance: rate.time_for(burst.0),
            horizon: Time::ZERO,
            real_remainder: 0,
            pending: Pending::default(),
            late_loss: Duration::ZERO,
        }
    }

    /// How long the link needs for a packet. Call once per packet, in order.
    pub(crate) fn serialize(&mut self, bytes: u32) -> Duration {
        self.rate.serialize(u64::from(bytes), &mut self.remainder)
    }

    /// Whether a packet due at `due` may leave at the real time `now`. If not, the new due time: the link has lost the
    /// difference.
    pub(crate) fn gate(&mut self, due: Time, now: Time) -> Result<(), Time> {
        let earliest = self.pending.horizon - self.tolerance;
        if earliest <= now {
            return Ok(());
        }
        self.late_loss = self.late_loss + earliest.since(due);
        Err(earliest)
    }

    /// Books a packet that was let through at `now`.
    pub(crate) fn decided(&mut self, bytes: u32, now: Time) {
        let time = self.rate.serialize(u64::from(bytes), &mut self.pending.remainder);
        self.pending.horizon = self.pending.horizon.max(now) + time;
    }

    /// Books the real departure of a packet. Until all that was decided is confirmed, the bound is the stricter one.
    pub(crate) fn departed(&mut self, bytes: u32, real: Time) {
        let time = self.rate.serialize(u64::from(bytes), &mut self.real_remainder);
        self.horizon = self.horizon.max(real) + time;
        self.pending.horizon = self.pending.horizon.max(self.horizon);
    }

    /// Capacity lost because the thread was later than the burst makes up for.
    pub(crate) fn late_loss(&self) -> Duration {
        self.late_loss
    }
}

#[cfg(test)]
mod tests {
    use super::{Limiter, default_burst};
    use weir_core::{Bytes, Duration, Rate, RateMeter, Time};

    const RATE: Rate = Rate::from_bits_per_sec(8_000_000);

    #[test]
    fn a_punctual_link_is_never_held_up() {
        let mut limiter = Limiter::new(RATE, Bytes(3000));
        let mut due = Time::ZERO;
        for _ in 0..1000 {
            due += limiter.serialize(1000);
            assert_eq!(limiter.gate(due, due), Ok(()));
            limiter.decided(1000, due);
            limiter.departed(1000, due);
        }
        assert_eq!(limiter.late_loss(), Duration::ZERO);
        assert_eq!(due, Time::from_nanos(1_000_000_000));
    }

    #[test]
    fn a_late_link_bursts_once_and_loses_the_rest() {
        let mut limiter = Limiter::new(RATE, Bytes(3000));
        let mut meter = RateMeter::new(RATE);
        let now = Time::from_nanos(100_000_000);
        let mut due = Time::ZERO;
        let mut sent = 0;
        // A hundred packets are due, a millisecond each; only the burst and one packet may leave.
        loop {
            due += limiter.serialize(1000);
            match limiter.gate(due, now) {
                Ok(()) => {
                    limiter.decided(1000, now);
                    limiter.departed(1000, now + Duration::from_micros(5));
                    meter.sent(now + Duration::from_micros(5), 1000);
                    sent += 1;
                }
                Err(later) => {
                    // The wait is counted from the real departures.
                    assert_eq!(later, now + Duration::from_micros(5));
                    break;
                }
            }
        }
        assert_eq!(sent, 3);
        assert_eq!(limiter.late_loss(), Duration::from_micros(96_005));
        assert!(meter.highest() <= 4001, "{}", meter.highest());
    }

    #[test]
    fn the_default_burst_is_four_milliseconds_and_two_packets() {
        assert_eq!(default_burst(Rate::from_bits_per_sec(1_000_000_000)), Bytes(500_000));
        assert_eq!(default_burst(Rate::from_bits_per_sec(1_000_000)), Bytes(3028));
    }
}
