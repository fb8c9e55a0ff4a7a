//! PCC Vivace: gradient ascent on a utility of rate, growth of the round trip, and loss. Dong et al., "PCC Vivace: Online-Learning
//! Congestion Control", NSDI 2018.
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

use weir_core::{Rate, Time};

use crate::monitor::Interval;
use crate::pcc::{Trials, pairs};
use crate::{Ack, Controller, EcnUse, Sent, Setup};

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
#[derive(Clone, Debug)]
pub struct Vivace {
    trials: Trials,
    first_is_higher: [bool; 2],
    /// Steps in one direction, negative downwards.
    steps: i32,
    /// How often in a row the bound was reached.
    bounded: u32,
}

/// At `rate` Mbit/s, with the round trip growing by `slope` seconds per second and a share `loss` lost.
fn utility(rate: f64, slope: f64, loss: f64) -> f64 {
    let growth = if slope < NOISE { 0.0 } else { slope };
    rate.powf(EXPONENT) - LATENCY * rate * growth - LOSS * rate * loss
}

fn utility_of(interval: &Interval) -> f64 {
    utility(interval.rate / 1e6, interval.rtt_slope(), interval.loss())
}

impl Vivace {
    /// A connection that begins. `ecn` only says what its packets carry; it does not answer to marks.
    pub fn new(ecn: EcnUse, setup: &Setup) -> Self {
        Self { trials: Trials::new(ecn, setup), first_is_higher: [true; 2], steps: 0, bounded: 0 }
    }

    /// Moves the rate by a gradient in utility per Mbit/s.
    fn step(&mut self, gradient: f64) {
        let direction = if gradient > 0.0 { 1 } else { -1 };
        if self.steps.signum() != direction {
            (self.steps, self.bounded) = (0, 0);
        }
        self.steps = self.steps.saturating_add(direction);
        let count = f64::from(self.steps.abs());
        let amplified = if count <= 3.0 { count } else { 2.0 * count - 3.0 };
        let wanted = (amplified * gradient * 1e6).abs();
        let bound = (FIRST_BOUND + BOUND_STEP * f64::from(self.bounded)) * self.trials.rate;
        self.bounded = if wanted > bound { self.bounded + 1 } else { 0 };
        // Downwards no more than half at once, however often the bound was reached.
        let change = wanted.min(bound).min(0.5 * self.trials.rate) * f64::from(direction);
        self.trials.rate += change;
    }

    fn on_results(&mut self, results: [Interval; 4]) {
        let utilities = results.map(|interval| utility_of(&interval));
        if self.trials.is_starting() {
            if self.trials.start(utilities[0]) {
                return;
            }
        } else {
            let [one, two] = pairs(utilities, self.first_is_higher);
            let width = 2.0 * SHARE * self.trials.rate / 1e6;
            let gradients = [(one.0 - one.1) / width, (two.0 - two.1) / width];
            if gradients[0] * gradients[1] > 0.0 {
                self.step((gradients[0] + gradients[1]) / 2.0);
            }
        }
        self.first_is_higher = self.trials.try_pairs(SHARE);
    }
}

impl Controller for Vivace {
    fn name(&self) -> &'static str {
        "pcc-vivace"
    }

    fn on_sent(&mut self, sent: &Sent) {
        self.trials.on_sent(sent);
    }

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(results) = self.trials.on_ack(ack) {
            self.on_results(results);
        }
    }

    fn on_timeout(&mut self, _now: Time, _in_flight: u64) {}

    fn window(&self) -> u64 {
        self.trials.window()
    }

    fn pacing(&self) -> Option<Rate> {
        self.trials.pacing()
    }

    fn ecn(&self) -> EcnUse {
        self.trials.ecn
    }
}

#[cfg(test)]
mod tests {
    use super::{Vivace, utility};
    use crate::EcnUse;
    use crate::testing::{Path, setup};
    use weir_core::Duration;

    #[test]
    fn utility_is_the_papers() {
        assert!((utility(10.0, 0.0, 0.0) - 10f64.powf(0.9)).abs() < 1e-12);
        assert!((utility(10.0, 0.02, 0.0) - (10f64.powf(0.9) - 180.0)).abs() < 1e-9);
        assert!((utility(10.0, -0.5, 0.1) - (10f64.powf(0.9) - 11.35)).abs() < 1e-9);
        assert_eq!(utility(10.0, 0.009, 0.0), utility(10.0, 0.0, 0.0));
    }

    #[test]
    fn steps_are_amplified_and_bounded() {
        let mut vivace = Vivace::new(EcnUse::Off, &setup());
        vivace.trials.rate = 100e6;
        vivace.step(1.0);
        vivace.step(1.0);
        vivace.step(1.0);
        vivace.step(1.0);
        // 1 + 2 + 3 + 5 Mbit/s.
        assert!((vivace.trials.rate - 111e6).abs() < 1.0, "{}", vivace.trials.rate);
        // Down: 5 %, then 15 %.
        vivace.step(-1000.0);
        assert!((vivace.trials.rate - 111e6 * 0.95).abs() < 1.0);
        vivace.step(-1000.0);
        assert!((vivace.trials.rate - 111e6 * 0.95 * 0.85).abs() < 1.0);
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
