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
            self.variation = rtt / 2;
        } else {
            let variation = self.variation.as_nanos();
            let off = self.smoothed.as_nanos().abs_diff(rtt.as_nanos());
            self.variation = Duration::from_nanos(variation - variation / 4 + off / 4);
        }
        self.smoothed = Self::smooth(self.smoothed, rtt);
    }

    /// An eighth nearer to `sample`; `sample` if there was none before.
    #[inline]
    #[must_use]
    pub fn smooth(smoothed: Duration, sample: Duration) -> Duration {
        if smoothed == Duration::ZERO {
            return sample;
        }
        let smoothed = smoothed.as_nanos();
        Duration::from_nanos(smoothed - smoothed / 8 + sample.as_nanos() / 8)
    }
}
