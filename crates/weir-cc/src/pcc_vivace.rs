//! PCC Vivace: gradient ascent on a utility of rate, growth of the round trip, and loss. Dong et al., "PCC Vivace:
//! Online-Learning Congestion Control", NSDI 2018.
//!
//! | paper | here |
//! |---|---|
//! | utility x^0.9 - 900 x max(0, dRTT/dt) - 11.35 x L, x in Mbit/s (section 4) | the same |
//! | gradient from intervals at 1 +- 0.05 (5) | two pairs in random order, which must agree, as in the program |
//! | step: gradient times 1, amplified by the number of steps in one direction: k up to 3, then 2 k - 3 (5) | the same |
//! | step bounded by a share of the rate: 0.05, more by 0.1 each time it was reached (5) | the same |
//! | growth of the round trip within noise ignored (5) | below 0.01 |
//! | start by doubling until the utility falls | the same |
//! | 2.5 products in flight, 0.5 Mbit/s at least (program) | the same |

use crate::monitor::Interval;
use crate::pcc::{Ascent, Pcc, Trials, pairs};

const EXPONENT: f64 = 0.9;
const LATENCY: f64 = 900.0;
const LOSS: f64 = 11.35;
/// Trials are this share of the rate off.
const SHARE: f64 = 0.05;
const FIRST_BOUND: f64 = 0.05;
const BOUND_STEP: f64 = 0.1;
/// Slopes of the round trip below it are noise.
const NOISE: f64 = 0.01;

/// PCC Vivace.
pub type Vivace = Pcc<Gradient>;

/// By what Vivace decides.
#[derive(Clone, Debug, Default)]
pub struct Gradient {
    first_is_higher: [bool; 2],
    /// Steps in one direction, negative downwards.
    steps: i32,
    /// How often in a row the bound was reached.
    bounded: u32,
}

/// At `rate` Mbit/s, with the round trip growing by `slope` seconds per second and a share `loss` lost.
fn utility(rate: f64, slope: f64, loss: f64) -> f64 {
    let growth = if slope < NOISE { 0.0 } else { slope };
    libm::pow(rate, EXPONENT) - LATENCY * rate * growth - LOSS * rate * loss
}

impl Gradient {
    /// Moves the rate by a gradient in utility per Mbit/s.
    fn step(&mut self, rate: &mut f64, gradient: f64) {
        let direction = if gradient > 0.0 { 1 } else { -1 };
        if self.steps.signum() != direction {
            (self.steps, self.bounded) = (0, 0);
        }
        self.steps = self.steps.saturating_add(direction);
        let count = f64::from(self.steps.abs());
        let amplified = if count <= 3.0 { count } else { 2.0 * count - 3.0 };
        let wanted = (amplified * gradient * 1e6).abs();
        let bound = (FIRST_BOUND + BOUND_STEP * f64::from(self.bounded)) * *rate;
        self.bounded = if wanted > bound { self.bounded + 1 } else { 0 };
        // Downwards no more than half at once, however often the bound was reached.
        let change = wanted.min(bound).min(0.5 * *rate) * f64::from(direction);
        *rate += change;
    }
}

impl Ascent for Gradient {
    const NAME: &'static str = "pcc-vivace";

    fn utility(interval: &Interval) -> f64 {
        utility(interval.rate / 1e6, interval.rtt_slope(), interval.loss())
    }

    fn probe(&mut self, trials: &mut Trials) {
        self.first_is_higher = trials.try_pairs(SHARE);
    }

    fn on_results(&mut self, trials: &mut Trials, results: [Interval; 4]) {
        let utilities = results.map(|interval| Self::utility(&interval));
        let [one, two] = pairs(utilities, self.first_is_higher);
        let width = 2.0 * SHARE * trials.rate / 1e6;
        let gradients = [(one.0 - one.1) / width, (two.0 - two.1) / width];
        if gradients[0] * gradients[1] > 0.0 {
            self.step(&mut trials.rate, (gradients[0] + gradients[1]) / 2.0);
        }
        self.probe(trials);
    }
}

#[cfg(test)]
mod tests {
    use super::{Gradient, Vivace, utility};
    use crate::EcnUse;
    use crate::testing::{Path, setup};
    use weir_core::Duration;

    #[test]
    fn utility_is_the_papers() {
        assert!((utility(10.0, 0.0, 0.0) - libm::pow(10.0, 0.9)).abs() < 1e-12);
        assert!((utility(10.0, 0.02, 0.0) - (libm::pow(10.0, 0.9) - 180.0)).abs() < 1e-9);
        assert!((utility(10.0, -0.5, 0.1) - (libm::pow(10.0, 0.9) - 11.35)).abs() < 1e-9);
        assert_eq!(utility(10.0, 0.009, 0.0), utility(10.0, 0.0, 0.0));
    }

    #[test]
    fn steps_are_amplified_and_bounded() {
        let (mut gradient, mut rate) = (Gradient::default(), 100e6);
        for _ in 0..4 {
            gradient.step(&mut rate, 1.0);
        }
        // 1 + 2 + 3 + 5 Mbit/s.
        assert!((rate - 111e6).abs() < 1.0, "{rate}");
        // Down: 5 %, then 15 %.
        gradient.step(&mut rate, -1000.0);
        assert!((rate - 111e6 * 0.95).abs() < 1.0);
        gradient.step(&mut rate, -1000.0);
        assert!((rate - 111e6 * 0.95 * 0.85).abs() < 1.0);
    }

    #[test]
    fn it_fills_the_path_with_little_queue() {
        let mut vivace = Vivace::new(EcnUse::Off, &setup());
        let mut path = Path::bottleneck(30, 2_000, 300);
        path.rate_over(&mut vivace, Duration::from_secs(30));
        (path.rtt_sum, path.rtt_count) = (0, 0);
        let lost = path.lost();
        let rate = path.rate_over(&mut vivace, Duration::from_secs(30));
        assert!(rate > 0.85 * 2_000.0, "{rate}");
        assert!(path.mean_rtt() < 60.0, "{}", path.mean_rtt());
        assert_eq!(path.lost(), lost);
    }
}
