//! The real clock, as nanoseconds since a start that all parts of a run share.

use std::time::Instant;

use weir_core::Time;

/// Reads CLOCK_MONOTONIC relative to a start.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// CLOCK_MONOTONIC at the start, in nanoseconds.
    origin: u64,
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid for writes; these clock ids always exist on Linux, so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The time since the system's start, which the kernel's programs read too (`bpf_ktime_get_ns`).
pub fn monotonic() -> Time {
    Time::from_nanos(read(libc::CLOCK_MONOTONIC))
}

impl Clock {
    /// A clock that is zero at `start`. `Instant` is CLOCK_MONOTONIC on Linux, so both count the same nanoseconds.
    #[allow(clippy::disallowed_methods, reason = "the clock's own start is read")]
    pub fn starting(start: Instant) -> Self {
        // The shorter of a few readings brackets the pair of clock reads best.
        let origin = (0..8)
            .map(|_| {
                let before = start.elapsed().as_nanos() as u64;
                let now = read(libc::CLOCK_MONOTONIC);
                let after = start.elapsed().as_nanos() as u64;
                (after - before, now.saturating_sub(before + (after - before) / 2))
            })
            .min()
            .map_or(0, |(_, origin)| origin);
        Self { origin }
    }

    /// The time now.
    pub fn now(&self) -> Time {
        self.at_monotonic(read(libc::CLOCK_MONOTONIC))
    }

    /// The time of a CLOCK_MONOTONIC reading, such as a stamp of the kernel's `bpf_ktime_get_ns`. Zero before the
    /// start.
    pub fn at_monotonic(&self, nanos: u64) -> Time {
        Time::from_nanos(nanos.saturating_sub(self.origin))
    }

    /// The CLOCK_MONOTONIC reading at `time`.
    pub fn to_monotonic(self, time: Time) -> u64 {
        self.origin.saturating_add(time.as_nanos())
    }

    /// CLOCK_REALTIME minus this clock at this moment, by which packet-socket stamps are converted. Changes when the
    /// system clock is stepped or slewed, so ask once per batch.
    pub fn realtime_offset(&self) -> i64 {
        read(libc::CLOCK_REALTIME) as i64 - self.now().as_nanos() as i64
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::Clock;
    use std::time::{Duration, Instant};

    #[test]
    fn the_clock_counts_from_its_start() {
        let start = Instant::now();
        std::thread::sleep(Duration::from_millis(5));
        let clock = Clock::starting(start);
        let (before, now, after) = (start.elapsed(), clock.now().as_nanos(), start.elapsed());
        // Both read the same clock; the origin is found to within the time of three clock reads.
        assert!(now + 20_000 >= before.as_nanos() as u64, "{now} {before:?}");
        assert!(now <= after.as_nanos() as u64 + 20_000, "{now} {after:?}");
        assert_eq!(clock.at_monotonic(0).as_nanos(), 0);
    }
}
