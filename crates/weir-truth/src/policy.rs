//! By what measure a sender answers: what is asked of it, and what that makes of those of which it can be argued.

use std::collections::BTreeMap;

use serde::Deserialize;
use weir_core::Duration;
use weir_law::Verdict;

const FILE: &str = include_str!("../figures/law/accuracy/policy.toml");

/// The policy: `figures/law/accuracy/policy.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Of each kind of signal.
    pub demand: Vec<Demand>,
    /// What the measurement has made of controllers whose construction does not say what they are: verdicts by
    /// controller and signal.
    judged: BTreeMap<String, BySignal>,
}

/// What is asked of a sender that gets signals of one kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demand {
    /// `loss` or `ecn`.
    pub signal: String,
    /// Of its packets so many get a signal, in percent.
    pub percent: f64,
    /// What its rate may be at most, as a part of that without signals...
    pub rate: f64,
    /// ...after so many round trips.
    pub round_trips: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BySignal {
    loss: Verdict,
    ecn: Verdict,
}

impl Policy {
    /// The policy as its file has it.
    ///
    /// # Panics
    /// If the file that is built in is wrong; the tests load it.
    pub fn load() -> Self {
        toml::from_str(FILE).expect("figures/law/accuracy/policy.toml is sound")
    }

    /// What a controller is by policy where one kind of signal judges it; none of those that are what they are by
    /// construction.
    pub fn right(&self, controller: &str, signal: &str) -> Option<Verdict> {
        let judged = self.judged.get(controller)?;
        Some(if signal == "ecn" { judged.ecn } else { judged.loss })
    }

    /// The demand for a kind of signal.
    pub fn demand(&self, signal: &str) -> Option<&Demand> {
        self.demand.iter().find(|demand| demand.signal == signal)
    }
}

impl Demand {
    /// What a rate after that time, as a part of that without signals, makes of a sender.
    pub fn verdict(&self, rate: f64) -> Verdict {
        if rate <= self.rate { Verdict::Responsive } else { Verdict::Unresponsive }
    }

    /// The time that it has on a path with that round trip.
    pub fn time(&self, rtt: Duration) -> Duration {
        rtt * u64::from(self.round_trips)
    }
}

#[cfg(test)]
mod tests {
    use super::Policy;
    use crate::truth::Class;

    #[test]
    fn the_policy_says_what_construction_does_not() {
        let policy = Policy::load();
        for controller in
            ["bbr1", "bbr2", "bbr2-ecn", "bbr3", "bbr3-ecn", "copa", "pcc-allegro", "pcc-vivace"]
        {
            for signal in ["loss", "ecn"] {
                assert!(policy.right(controller, signal).is_some(), "{controller}, {signal}");
                assert!(policy.demand(signal).is_some());
            }
        }
        for controller in policy.judged.keys() {
            let class = Class::of(controller).expect("the policy knows controllers of mixes");
            assert_eq!(class.right(), None, "{controller} is what it is by construction");
        }
    }
}
