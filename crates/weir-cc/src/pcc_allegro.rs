//! PCC Allegro: tries rates a little higher and lower and goes where the utility of throughput and loss is larger. Dong
//! et al., "PCC: Re-architecting Congestion Control for Consistent High Performance", NSDI 2015.
//!
//! | paper | here |
//! |---|---|
//! | utility T sigmoid(L - 0.05) - x L, T = x (1 - L), sigmoid with alpha 100 (section 2.2) | the same |
//! | start: the rate doubles per interval until the utility falls, then goes back a step (3.2) | the same |
//! | decision: two pairs of intervals at 1 +- eps in random order; both must agree; eps from 0.01 by 0.01 to 0.05 (3.2) | the same |
//! | adjustment: n eps_min in that direction, n = 1, 2, 3..., until the utility falls; then back a step (3.2) | the same |
//! | an interval: 10 packets or 1.7 to 2.2 round trips, the longer (3.1) | the same |
//! | sends on while feedback is awaited | the same, at the base rate; a step takes its interval and its feedback |
//! | nothing bounds what is in flight | 2.5 products of rate and round trip, and a least rate of 0.5 Mbit/s, as the authors' later program |

use crate::monitor::Interval;
use crate::pcc::{Ascent, Pcc, Trials, pairs};

/// `eps_min`.
const STEP: f64 = 0.01;
/// `eps_max`.
const LARGEST: f64 = 0.05;
const ALPHA: f64 = 100.0;
/// Loss that the utility turns against.
const LOSS: f64 = 0.05;

#[derive(Clone, Copy, Debug)]
enum Stage {
    Deciding { share: f64, first_is_higher: [bool; 2] },
    Moving { direction: f64, steps: f64, last: f64, before: f64 },
}

/// PCC Allegro.
pub type Allegro = Pcc<Decisions>;

/// By what Allegro decides.
#[derive(Clone, Debug)]
pub struct Decisions(Stage);

impl Default for Decisions {
    fn default() -> Self {
        Self(Stage::Deciding { share: STEP, first_is_higher: [true; 2] })
    }
}

/// At `rate` Mbit/s with a share `loss` lost.
fn utility(rate: f64, loss: f64) -> f64 {
    let sigmoid = 1.0 / (1.0 + libm::exp(ALPHA * (loss - LOSS)));
    rate * (1.0 - loss) * sigmoid - rate * loss
}

impl Decisions {
    fn decide(&mut self, trials: &mut Trials, share: f64) {
        let first_is_higher = trials.try_pairs(share);
        self.0 = Stage::Deciding { share, first_is_higher };
    }

    fn go_on(&mut self, trials: &mut Trials, direction: f64, steps: f64, last: f64) {
        let before = trials.rate;
        trials.rate *= 1.0 + direction * steps * STEP;
        trials.try_rates(&[trials.rate]);
        self.0 = Stage::Moving { direction, steps, last, before };
    }
}

impl Ascent for Decisions {
    const NAME: &'static str = "pcc-allegro";

    fn utility(interval: &Interval) -> f64 {
        utility(interval.rate / 1e6, interval.loss())
    }

    fn probe(&mut self, trials: &mut Trials) {
        self.decide(trials, STEP);
    }

    fn on_results(&mut self, trials: &mut Trials, results: [Interval; 4]) {
        let utilities = results.map(|interval| Self::utility(&interval));
        match self.0 {
            Stage::Deciding { share, first_is_higher } => {
                let [one, two] = pairs(utilities, first_is_higher);
                let higher = [one.0 > one.1, two.0 > two.1];
                if higher[0] != higher[1] {
                    return self.decide(trials, (share + STEP).min(LARGEST));
                }
                let direction = if higher[0] { 1.0 } else { -1.0 };
                let best = if higher[0] { (one.0 + two.0) / 2.0 } else { (one.1 + two.1) / 2.0 };
                trials.rate *= 1.0 + direction * share;
                self.go_on(trials, direction, 1.0, best);
            }
            Stage::Moving { direction, steps, last, before } => {
                if utilities[0] >= last {
                    self.go_on(trials, direction, steps + 1.0, utilities[0]);
                } else {
                    trials.rate = before;
                    self.decide(trials, STEP);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Allegro, utility};
    use crate::EcnUse;
    use crate::testing::{Fate, Path, random, setup};
    use weir_core::Duration;

    #[test]
    fn utility_grows_with_the_rate_and_turns_at_five_percent() {
        assert!((utility(10.0, 0.0) - 10.0 / (1.0 + libm::exp(-5.0))).abs() < 1e-12);
        assert!((utility(10.0, 0.05) - (9.5 / 2.0 - 0.5)).abs() < 1e-12);
        assert!(utility(10.0, 0.1) < 0.0);
    }

    #[test]
    fn it_finds_the_rate_of_a_path_with_random_losses() {
        for p in [0.0, 0.01] {
            let mut allegro = Allegro::new(EcnUse::Off, &setup());
            let mut path = Path::bottleneck(30, 2_000, 60);
            let mut random = random("losses");
            let mut fate = || if random.unit() < p { Fate::Lost } else { Fate::Arrives };
            path.run(&mut allegro, Duration::from_secs(20), &mut fate);
            let (delivered, lost) = (path.delivered(), path.lost());
            path.run(&mut allegro, Duration::from_secs(30), &mut fate);
            let rate = (path.delivered() - delivered) as f64 / 30.0;
            let share = (path.lost() - lost) as f64 / (path.delivered() - delivered) as f64;
            assert!(rate > 0.85 * 2_000.0, "{p}: {rate}");
            assert!(share < 0.06, "{p}: {share}");
        }
    }
}
