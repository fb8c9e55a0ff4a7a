//! The kernel's stamps of arrivals, which are of the clock of the day, as instants of the monotonic clock.

use std::time::{Duration, Instant};

use crate::clock::{now, today};

/// Older than this, a stamp is not believed: the clock of the day was set meanwhile.
const OLDEST: Duration = Duration::from_secs(10);

/// Turns stamps into instants.
///
/// Both clocks run at one pace, so they stay equally far apart until the clock of the day is set. To learn how far, they
/// are read one after the other, and the result is too large by the time between the two readings: nanoseconds, or
/// milliseconds if the thread had to wait for a processor. So the smallest result counts. Equal stamps thus become
/// equal instants, and later stamps are not turned into earlier instants.
pub(crate) struct Stamps {
    base: Instant,
    /// What the clock of the day showed at `base`, or a little more; before it was read, more than any clock shows.
    apart: Duration,
}

impl Stamps {
    /// For what is stamped from here on.
    pub(crate) fn new() -> Self {
        let mut it = Self { base: now(), apart: Duration::MAX };
        (0..3).for_each(|_| it.read());
        it
    }

    /// When the clock of the day showed `stamp`, for a datagram that was read at `read`; `read` if that cannot be told.
    pub(crate) fn instant(&mut self, stamp: Duration, read: Instant) -> Instant {
        self.read();
        self.turn(stamp)
            .filter(|at| read.checked_duration_since(*at).is_some_and(|age| age < OLDEST))
            .unwrap_or(read)
    }

    fn read(&mut self) {
        let (before, today) = (now(), today());
        self.compare(before, today, now());
    }

    /// Learns what the clock of the day showed between two instants.
    fn compare(&mut self, before: Instant, today: Duration, after: Instant) {
        let since = |at: Instant| at.saturating_duration_since(self.base);
        let (least, most) = (today.saturating_sub(since(after)), today.saturating_sub(since(before)));
        // Less than it can be is from before the clock of the day was set forward.
        self.apart = if self.apart < least { most } else { self.apart.min(most) };
    }

    fn turn(&self, stamp: Duration) -> Option<Instant> {
        self.base.checked_add(stamp.checked_sub(self.apart)?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Stamps;
    use crate::clock::{now, today};

    const DAY: Duration = Duration::from_secs(1_800_000_000);

    fn micros(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn a_thread_that_waits_between_two_readings_changes_no_instant() {
        let base = now();
        let mut stamps = Stamps { base, apart: Duration::MAX };
        // The clocks are read so many microseconds apart.
        let mut last = base;
        for (n, apart) in [(1_u64, 3_u64), (2, 1), (3, 5_000), (4, 1), (5, 2)] {
            let before = base + micros(n * 10_000);
            stamps.compare(before, DAY + micros(n * 10_000 + apart), before + micros(apart));
            let at = stamps.turn(DAY + micros(9_000)).unwrap();
            assert!(at >= last, "a stamp became an earlier instant");
            last = at;
        }
        assert_eq!(last, base + micros(8_999));
    }

    #[test]
    fn a_clock_that_was_set_is_followed() {
        let base = now();
        let mut stamps = Stamps { base, apart: Duration::MAX };
        let hour = Duration::from_secs(3_600);
        for (n, day) in [(1, DAY), (2, DAY + hour), (3, DAY - hour), (4, DAY)] {
            let before = base + micros(n * 1_000);
            stamps.compare(before, day + micros(n * 1_000), before);
            assert_eq!(stamps.turn(day + micros(n * 1_000 - 100)), Some(before - micros(100)));
        }
    }

    #[test]
    fn a_stamp_that_cannot_be_is_not_believed() {
        let mut stamps = Stamps::new();
        let read = now() + Duration::from_secs(60);
        let today = today();
        for stamp in [Duration::ZERO, today - Duration::from_secs(60), today + Duration::from_secs(3_600)] {
            assert_eq!(stamps.instant(stamp, read), read);
        }
    }
}
