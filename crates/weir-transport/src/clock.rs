//! The time of an endpoint: nanoseconds of the monotonic clock since it began.

use std::time::Instant;

use weir_core::{Duration, Time};

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
