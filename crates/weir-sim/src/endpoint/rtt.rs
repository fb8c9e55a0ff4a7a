//! Round-trip time estimation (RFC 6298, RFC 9002 section 5).

use weir_core::Duration;

/// What is known of the round-trip time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    pub(crate) smoothed: Duration,
    pub(crate) variation: Duration,
    pub(crate) shortest: Duration,
    pub(crate) latest: Duration,
}

impl Rtt {
    pub(crate) fn new() -> Self {
        Self {
            smoothed: Duration::ZERO,
            variation: Duration::ZERO,
            shortest: Duration::MAX,
            latest: Duration::ZERO,
        }
    }

    pub(crate) fn sample(&mut self, rtt: Duration) {
        self.latest = rtt;
        self.shortest = self.shortest.min(rtt);
        if self.smoothed == Duration::ZERO {
            self.smoothed = rtt;
            self.variation = rtt / 2;
            return;
        }
        let (smoothed, rtt) = (self.smoothed.as_nanos(), rtt.as_nanos());
        let variation = self.variation.as_nanos();
        self.variation = Duration::from_nanos(variation - variation / 4 + smoothed.abs_diff(rtt) / 4);
        self.smoothed = Duration::from_nanos(smoothed - smoothed / 8 + rtt / 8);
    }
}
