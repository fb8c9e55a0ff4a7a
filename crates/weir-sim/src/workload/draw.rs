//! Distributions of sizes and times, drawn by inversion, one draw each. Logarithms and powers are `libm`'s, which give
//! the same bits on any machine.

use weir_core::{Duration, Random};

/// How many bytes a request asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// Always as many.
    Fixed(u64),
    /// Exponentially distributed with this mean.
    Exponential(f64),
    /// Pareto distributed, and what is above `cap` is cut to it: heavy-tailed for a shape below 2.
    Pareto {
        /// The mean before it is cut.
        mean: f64,
        /// The exponent; above 1, or there is no mean.
        shape: f64,
        /// The largest.
        cap: Option<f64>,
    },
    /// Pareto distributed by its smallest value, and what is above `cap` is cut to it. The cap bounds the mean also of a
    /// shape up to 1, which has none otherwise.
    ParetoFrom {
        /// The smallest.
        least: f64,
        /// The exponent; above 0.
        shape: f64,
        /// The largest.
        cap: f64,
    },
}

/// The smallest value of a Pareto distribution.
fn scale(mean: f64, shape: f64) -> f64 {
    mean * (shape - 1.0) / shape
}

impl Size {
    /// A size, in whole bytes and at least 1.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let bytes = match *self {
            Self::Fixed(bytes) => return bytes.max(1),
            Self::Exponential(mean) => mean * exponential(random),
            Self::Pareto { mean, shape, cap } => {
                let bytes = scale(mean, shape) * libm::pow(1.0 - random.unit(), -1.0 / shape);
                bytes.min(cap.unwrap_or(f64::MAX))
            }
            Self::ParetoFrom { least, shape, cap } => {
                (least * libm::pow(1.0 - random.unit(), -1.0 / shape)).min(cap)
            }
        };
        (bytes + 0.5).max(1.0) as u64
    }

    /// The mean of what is drawn, cut sizes included.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Fixed(bytes) => bytes.max(1) as f64,
            Self::Exponential(mean) => mean,
            Self::Pareto { mean, shape, cap } => {
                let (least, Some(cap)) = (scale(mean, shape), cap) else { return mean };
                if cap <= least {
                    return cap;
                }
                // The integral of the survival function up to the cap.
                mean - least * libm::pow(least / cap, shape - 1.0) / (shape - 1.0)
            }
            Self::ParetoFrom { least, cap, .. } if cap <= least => cap,
            Self::ParetoFrom { least, shape, cap } => {
                // The same integral, whose power is a logarithm for a shape of 1.
                let exponent = 1.0 - shape;
                let beyond = match exponent {
                    0.0 => libm::log(cap / least),
                    exponent => (libm::pow(cap / least, exponent) - 1.0) / exponent,
                };
                least * (1.0 + beyond)
            }
        }
    }
}

/// How long something lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Always as long.
    Fixed(Duration),
    /// Exponentially distributed with this mean.
    Exponential(Duration),
}

impl Span {
    /// A duration.
    pub fn draw(&self, random: &mut Random) -> Duration {
        match self {
            Self::Fixed(span) => *span,
            Self::Exponential(mean) => mean.scale(exponential(random)),
        }
    }
}

/// A draw with mean 1.
pub(crate) fn exponential(random: &mut Random) -> f64 {
    -libm::log(1.0 - random.unit())
}

#[cfg(test)]
mod tests {
    use weir_core::{Duration, Seed};

    use super::{Size, Span};

    /// Mean and standard error of `count` draws.
    fn sample(count: u32, mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..count {
            let value = draw();
            sum += value;
            squares += value * value;
        }
        let mean = sum / f64::from(count);
        (mean, ((squares / f64::from(count) - mean * mean) / f64::from(count)).sqrt())
    }

    #[test]
    fn means_are_within_four_standard_errors() {
        let mut random = Seed { seed: 11, run: 0 }.stream("sizes");
        for size in [
            Size::Fixed(5000),
            Size::Exponential(20_000.0),
            Size::Pareto { mean: 20_000.0, shape: 2.5, cap: None },
            Size::Pareto { mean: 20_000.0, shape: 1.2, cap: Some(1e6) },
            Size::Pareto { mean: 20_000.0, shape: 1.2, cap: Some(4_000.0) },
            Size::ParetoFrom { least: 1_000.0, shape: 0.9, cap: 1e6 },
            Size::ParetoFrom { least: 1_000.0, shape: 1.0, cap: 1e5 },
            Size::ParetoFrom { least: 5_000.0, shape: 1.2, cap: 1e5 },
            Size::ParetoFrom { least: 5_000.0, shape: 0.9, cap: 4_000.0 },
        ] {
            let (mean, error) = sample(200_000, || size.draw(&mut random) as f64);
            // Whole bytes: half a byte at most.
            assert!(
                (mean - size.mean()).abs() <= 4.0 * error + 0.5,
                "{size:?}: {mean} +- {error}, not {}",
                size.mean()
            );
        }
        let span = Span::Exponential(Duration::from_millis(30));
        let (mean, error) = sample(200_000, || span.draw(&mut random).as_secs_f64());
        assert!((mean - 0.03).abs() < 4.0 * error, "{mean} +- {error}");
        // The standard deviation of an exponential distribution is its mean.
        let deviation = error * 200_000f64.sqrt();
        assert!((deviation / mean - 1.0).abs() < 0.02, "{deviation}");
    }

    #[test]
    fn means_of_cut_tails_by_hand() {
        let mean = |least, shape, cap| Size::ParetoFrom { least, shape, cap }.mean();
        // 1000 (1 + ln 100); 1000 (1 + (1000^0.1 - 1) / 0.1).
        assert!((mean(1e3, 1.0, 1e5) - 5_605.170_2).abs() < 1e-3);
        assert!((mean(1e3, 0.9, 1e6) - 10_952.623_1).abs() < 1e-3, "{}", mean(1e3, 0.9, 1e6));
        // By mean and by least value it is one distribution: 6000 / 3.
        let by_mean = Size::Pareto { mean: 6_000.0, shape: 1.5, cap: Some(1e5) };
        assert!((mean(2e3, 1.5, 1e5) - by_mean.mean()).abs() < 1e-6);
        let draws = |size: Size| {
            let mut random = Seed::default().stream("x");
            [(); 50].map(|()| size.draw(&mut random))
        };
        assert_eq!(draws(by_mean), draws(Size::ParetoFrom { least: 2e3, shape: 1.5, cap: 1e5 }));
    }

    #[test]
    fn tails_are_as_heavy_as_asked_for() {
        let mut random = Seed { seed: 12, run: 0 }.stream("tail");
        let size = Size::Pareto { mean: 6000.0, shape: 1.5, cap: None };
        // The smallest is 2000; P(X > x) = (2000 / x)^1.5.
        let draws: Vec<u64> = (0..100_000).map(|_| size.draw(&mut random)).collect();
        assert!(draws.iter().all(|draw| *draw >= 2000));
        for (above, expected) in [(4000, 0.353_553), (20_000, 0.031_623), (200_000, 0.001)] {
            let share = draws.iter().filter(|draw| **draw > above).count() as f64 / 1e5;
            let error = (expected * (1.0 - expected) / 1e5_f64).sqrt();
            assert!((share - expected).abs() < 4.0 * error, "{above}: {share}, not {expected} +- {error}");
        }
    }
}
