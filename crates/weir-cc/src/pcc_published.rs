//! The controller that the program of Bachl, Fabini and Zseby ("Detecting Fair Queuing for Better Congestion Control",
//! arXiv 2010.08362) falls back to where it finds a shared queue, and that the paper calls PCC: the control loop of PCC
//! Vivace with a utility of rate and loss alone (CN-TU/PCC-Uspace, 6e3f6d6, "PCC_CLASSIC").
//!
//! | program | here |
//! |---|---|
//! | utility T^0.9 - T x 11.35 L; T^0.9 - T x L with up to 3 % of loss; T in Mibit/s | the same |
//! | T is the rate measured, of N packets over N - 1 gaps; gradients are over the rates asked for | the same |
//! | two pairs of intervals at 0.95 and 1.05 of the rate, in random order; both must agree | the same |
//! | the first pair gives the gradient; a step of it times 1 Mibit/s, from the rate between | the same |
//! | a step times a + 1, from a = 3 on 2 a - 2, from 6 on 4 a - 14, from 9 on 9 a - 50 | the same |
//! | a grows by 0.5, from 3 on by 1, with each step in the last one's direction; not after the first one or two that follow a turn | the same |
//! | a step is at most 5 % of the rate, and 6 % more for each step in a row that was as long as allowed | the same |
//! | steps of 0.5 Mibit/s at least; they do not lead below 2 Mibit/s | the same |
//! | after a step, one interval; its gradient against the last result is the next step, while the direction stays | the same |
//! | else the rate goes back 2 %, and pairs follow | the same |
//! | intervals of 1.5 mean round trips, in which a sample is a quarter; nothing bounds what is in flight | the same |
//! | where a step has led to the rate of a trial, rounding of 1e-8 is the width that a gradient is taken over | the same |
//! | an interval of a single packet is repeated | it counts |
//! | begins at the goodput that the detection has measured | at [`Setup::rate`](crate::Setup); without, doubles from 1 Mbit/s until the utility falls |

use crate::monitor::Interval;
use crate::pcc::{Ascent, Pcc, Sender, Trials, pairs};

const MIBIT: f64 = 1_048_576.0;
const EXPONENT: f64 = 0.9;
const LOSS: f64 = 11.35;
/// Weight of the loss while there is little.
const LITTLE_LOSS: f64 = 1.0;
/// Share lost up to which that is so.
const LITTLE: f64 = 0.03;
/// Trials are this share of the rate off.
const SHARE: f64 = 0.05;
const LEAST_STEP: f64 = 0.5 * MIBIT;
const LEAST_RATE: f64 = 2.0 * MIBIT;
const FIRST_BOUND: f64 = 0.05;
const BOUND_STEP: f64 = 0.06;
/// Rates that differ by a smaller share are the same but for rounding.
const SAME: f64 = 1e-6;
/// A step of 5 % leads to the rate of the trial at 5 %. With the single precision of the program's factors it leads a
/// little higher, up (4.8e-8) as down (1.1e-8); by so little it divides what the utilities differ by chance.
const WIDTH_OF_SAME: f64 = 1e-8;
/// By what the rate goes back before pairs are tried again.
const BACK: f64 = 0.02;

/// The published fallback.
pub type PccPublished = Pcc<LossAscent>;

/// A rate in bits per second, and its utility.
#[derive(Clone, Copy, Debug)]
struct Point {
    rate: f64,
    utility: f64,
}

impl Point {
    fn of(interval: &Interval) -> Self {
        Self { rate: interval.rate, utility: LossAscent::utility(interval) }
    }
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Probing { first_is_higher: [bool; 2] },
    Moving { upwards: bool, last: Point },
}

/// By what it decides.
#[derive(Clone, Debug)]
pub struct LossAscent {
    stage: Stage,
    steps: Steps,
}

impl Default for LossAscent {
    fn default() -> Self {
        Self { stage: Stage::Probing { first_is_higher: [true; 2] }, steps: Steps::default() }
    }
}

/// How long steps are.
#[derive(Clone, Debug, Default)]
struct Steps {
    /// The last one, bits per second.
    last: f64,
    amplifier: f64,
    /// Steps in a row that were as long as allowed.
    bounded: u32,
    /// Steps that do not raise the amplifier, since the direction has turned.
    calm: u32,
}

/// At `rate` Mibit/s with a share `loss` lost.
fn utility(rate: f64, loss: f64) -> f64 {
    let weight = if loss <= LITTLE { LITTLE_LOSS } else { LOSS };
    libm::pow(rate, EXPONENT) - rate * weight * loss
}

impl Steps {
    /// The step at `rate` from the utilities of two rates, bits per second.
    fn step(&mut self, rate: f64, one: Point, other: Point) -> f64 {
        let mut width = one.rate - other.rate;
        if width.abs() < SAME * rate {
            width = WIDTH_OF_SAME * rate;
        }
        let gradient = MIBIT * (one.utility - other.utility) / width;
        let goes_on = (gradient > 0.0) == (self.last > 0.0);
        if !goes_on {
            (self.amplifier, self.bounded) = (0.0, 0);
            self.calm = (self.calm + 1).min(2);
        }
        let amplified = gradient * MIBIT * amplification(self.amplifier);
        if goes_on && self.calm == 0 {
            self.amplifier += if self.amplifier < 3.0 { 0.5 } else { 1.0 };
        }
        if goes_on {
            self.calm = self.calm.saturating_sub(1);
        }
        let bound = (FIRST_BOUND + BOUND_STEP * f64::from(self.bounded)) * rate;
        self.bounded =
            if amplified.abs() > bound { self.bounded + 1 } else { self.bounded.saturating_sub(1) };
        let step = amplified.abs().min(bound).max(LEAST_STEP).copysign(amplified);
        // A gradient of zero counts as one downwards; the program takes no step there.
        let step = if amplified == 0.0 { 0.0 } else { step };
        step.max(LEAST_RATE - rate)
    }
}

fn amplification(amplifier: f64) -> f64 {
    match amplifier {
        a if a < 3.0 => a + 1.0,
        a if a < 6.0 => 2.0 * a - 2.0,
        a if a < 9.0 => 4.0 * a - 14.0,
        a => 9.0 * a - 50.0,
    }
}

impl LossAscent {
    fn go_on(&mut self, trials: &mut Trials, step: f64, upwards: bool, last: Point) {
        self.steps.last = step;
        trials.rate += step;
        trials.try_rates(&[trials.rate]);
        self.stage = Stage::Moving { upwards, last };
    }
}

impl Ascent for LossAscent {
    const NAME: &'static str = "pcc-published";

    const SENDER: Sender =
        Sender { least: 0.0, in_flight: None, fewest: 0.0, round_trips: (1.5, 1.5), own_mean: true };

    fn utility(interval: &Interval) -> f64 {
        utility(interval.sent_rate() / MIBIT, interval.loss())
    }

    fn probe(&mut self, trials: &mut Trials) {
        self.stage = Stage::Probing { first_is_higher: trials.try_pairs(SHARE) };
    }

    fn on_results(&mut self, trials: &mut Trials, results: [Interval; 4]) {
        let points = results.map(|interval| Point::of(&interval));
        match self.stage {
            Stage::Probing { first_is_higher } => {
                let [one, two] = pairs(points, first_is_higher);
                let upwards = one.0.utility > one.1.utility;
                if upwards != (two.0.utility > two.1.utility) {
                    return self.probe(trials);
                }
                let step = self.steps.step(trials.rate, one.0, one.1);
                let best = if upwards { two.0 } else { two.1 };
                self.go_on(trials, step, upwards, best);
            }
            Stage::Moving { upwards, last } => {
                let step = self.steps.step(trials.rate, points[0], last);
                if (step > 0.0) == (self.steps.last > 0.0) {
                    return self.go_on(trials, step, upwards, points[0]);
                }
                trials.rate /= if upwards { 1.0 + BACK } else { 1.0 - BACK };
                self.probe(trials);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MIBIT, PccPublished, Point, Steps, amplification, utility};
    use crate::EcnUse;
    use crate::testing::{Fate, Path, random, setup};
    use weir_core::Duration;

    #[test]
    fn utility_is_the_programs() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        near(utility(10.0, 0.0), libm::pow(10.0, 0.9));
        near(utility(10.0, 0.03), libm::pow(10.0, 0.9) - 0.3);
        near(utility(10.0, 0.04), libm::pow(10.0, 0.9) - 4.54);
        assert!(utility(50.0, 0.1) < 0.0);
    }

    #[test]
    fn amplification_is_piecewise() {
        let found = [0.0, 2.5, 3.0, 5.0, 6.0, 8.0, 9.0, 10.0].map(amplification);
        assert_eq!(found, [1.0, 3.5, 4.0, 8.0, 10.0, 18.0, 31.0, 40.0]);
    }

    /// Two points of which the higher rate is better by `gradient` per Mibit/s.
    fn slope(gradient: f64) -> [Point; 2] {
        [1.0, 2.0].map(|rate| Point { rate: rate * MIBIT, utility: gradient * rate })
    }

    fn take(steps: &mut Steps, rate: f64, gradient: f64) -> f64 {
        let [one, other] = slope(gradient);
        let step = steps.step(rate * MIBIT, other, one);
        steps.last = step;
        step / MIBIT
    }

    #[test]
    fn steps_are_amplified_after_a_calm_one_and_turned_back() {
        let mut steps = Steps::default();
        // The first turns upwards, the second is calm, then the amplifier grows by halves.
        let found = [(); 5].map(|()| take(&mut steps, 1000.0, 2.0));
        assert_eq!(found, [2.0, 2.0, 2.0, 3.0, 4.0]);
        // Two turns in a row: two calm steps.
        assert_eq!(take(&mut steps, 1000.0, -2.0), -2.0);
        assert_eq!(take(&mut steps, 1000.0, 2.0), 2.0);
        let found = [(); 4].map(|()| take(&mut steps, 1000.0, 2.0));
        assert_eq!(found, [2.0, 2.0, 2.0, 3.0]);
    }

    #[test]
    fn steps_are_bounded_above_and_below() {
        let mut steps = Steps::default();
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        near(take(&mut steps, 100.0, 1000.0), 5.0);
        near(take(&mut steps, 100.0, 1000.0), 11.0);
        near(take(&mut steps, 100.0, 1000.0), 17.0);
        near(take(&mut steps, 100.0, 0.01), 0.5);
        near(take(&mut steps, 100.0, 1000.0), 17.0);
        near(take(&mut steps, 100.0, -1000.0), -5.0);
        // Not below 2 Mibit/s.
        near(take(&mut steps, 2.2, -0.1), -0.2);
    }

    #[test]
    fn at_the_same_rate_chance_decides() {
        for (utility, step) in [(5.001, 5.0), (4.999, -5.0)] {
            let point = |utility| Point { rate: 100.0 * MIBIT, utility };
            let found = Steps::default().step(100.0 * MIBIT, point(utility), point(5.0)) / MIBIT;
            assert!((found - step).abs() < 1e-9, "{found}");
        }
    }

    #[test]
    fn it_fills_the_path_and_the_queue() {
        // Up to 3 % of loss weighs little, and a step that went too far is taken back by 2 % only: it overflows the
        // queue.
        for p in [0.0, 0.01] {
            let mut pcc = PccPublished::new(EcnUse::Off, &setup());
            let mut path = Path::bottleneck(30, 2_000, 60);
            let mut random = random("losses");
            let mut fate = || if random.unit() < p { Fate::Lost } else { Fate::Arrives };
            path.run(&mut pcc, Duration::from_secs(20), &mut fate);
            let (delivered, lost) = (path.delivered(), path.lost());
            path.run(&mut pcc, Duration::from_secs(30), &mut fate);
            let rate = (path.delivered() - delivered) as f64 / 30.0;
            let share = (path.lost() - lost) as f64 / (path.delivered() - delivered) as f64;
            assert!(rate > 0.9 * 2_000.0, "{p}: {rate}");
            assert!((0.02..0.15).contains(&share), "{p}: {share}");
        }
    }
}
