//! Round-trip time estimation (RFC 6298, RFC 9002 section 5), for transports that keep no estimate of their own.

use weir_core::Duration;

/// What is known of the round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtt {
    /// Smoothed by 1/8; zero before the first sample.
    pub smoothed: Duration,
    /// Mean deviation, smoothed by 1/4.
    pub variation: Duration,
    /// The shortest sample; [`Duration::MAX`] before the first.
    pub shortest: Duration,
    /// The last sample.
    pub latest: Duration,
}

impl Default for Rtt {
    fn default() -> Self {
        Self {
            smoothed: Duration::ZERO,
            variation: Duration::ZERO,
            shortest: Duration::MAX,
            latest: Duration::ZERO,
        }
    }
}

impl Rtt {
    /// Takes note of a sample.
    #[inline]
    pub fn sample(&mut self, rtt: Duration) {
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
