//! The time of an endpoint: nanoseconds of the monotonic clock since it began.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use weir_core::{Duration, Time};

/// Now: the one place where the clock is read. What does no I/O gets the time passed in.
#[allow(clippy::disallowed_methods, reason = "time enters here")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The same by the clock of the day, by which the kernel stamps arrivals: since 1970.
#[allow(clippy::disallowed_methods, reason = "time enters here")]
pub(crate) fn today() -> std::time::Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Lets the calling thread rest. Not for the thread of an endpoint, which sleeps between its sockets and its timers.
#[allow(clippy::disallowed_methods, reason = "waits for what another host does")]
pub(crate) fn sleep(time: std::time::Duration) {
    std::thread::sleep(time);
}

/// What turns instants into times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: Instant,
}

impl Clock {
    /// A clock that shows zero at `epoch`.
    pub(crate) const fn new(epoch: Instant) -> Self {
        Self { epoch }
    }

    /// What it shows at an instant; zero before its epoch.
    pub(crate) fn time(&self, at: Instant) -> Time {
        Time::ZERO + Duration::from(at.saturating_duration_since(self.epoch))
    }

    /// When it shows a time.
    pub(crate) fn instant(&self, time: Time) -> Instant {
        /// As far as anybody waits: no clock overflows by it.
        const FAR: u64 = 1 << 60;
        self.epoch + std::time::Duration::from_nanos(time.as_nanos().min(FAR))
    }
}
