//! What a hunt looks for: a number of a run, and whether it should be low or high.

use serde::{Deserialize, Serialize};
use weir_law::Verdict;
use weir_report::result::RunResult;
use weir_scenario::{Flow, Scenario};
use weir_truth::policy::Policy;
use weir_truth::seen::{self, Case};
use weir_truth::truth::Class;

use weir_study::sweep::grammar::{self, Numbers};

/// Which end of a measure is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Want {
    /// The less, the worse.
    Low,
    /// The more, the worse.
    High,
}

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Objective {
    /// `utilisation`, `delay`, `share`, `stall`, `wrong`, or a measure of `means.csv`.
    pub measure: String,
    /// Of which flow or workload, `queue NAME` or `link`.
    pub of: String,
    /// The flow or workload that a share is held against; none for the link's rate.
    pub beside: Option<String>,
    /// Which end is looked for.
    pub want: Want,
}

/// Measures with a name of their own: the name, which end is the worst, and whether they are of a flow.
pub(crate) const NAMED: [(&str, Want, bool); 5] = [
    ("utilisation", Want::Low, false),
    ("delay", Want::High, false),
    ("share", Want::Low, true),
    ("stall", Want::High, true),
    ("wrong", Want::High, true),
];

/// What numbers of the whole bottleneck are of.
pub(crate) const LINK: &str = "link";

/// The names of the flows, `[[flow]]` by `[[flow]]`, as `means.csv` has them.
pub(crate) fn flow_names(scenario: &Scenario) -> Vec<String> {
    let groups = scenario.groups().into_iter().filter(|group| !group.rows.is_empty());
    groups.map(|group| group.name).collect()
}

/// All that a number can be of.
pub(crate) fn owners(scenario: &Scenario) -> Vec<String> {
    let queues = scenario.bottleneck.qdisc.queue_names();
    let queues = queues.iter().map(|name| format!("queue {name}"));
    let workloads = scenario.workloads.iter().map(|workload| workload.label().to_owned());
    flow_names(scenario).into_iter().chain(workloads).chain(queues).chain([LINK.to_owned()]).collect()
}

/// The numbers of a run: those of a sweep, and what only hunts ask for.
pub(crate) fn numbers(scenario: &Scenario, result: &RunResult) -> Numbers {
    let mut numbers = grammar::numbers(scenario, result);
    let wrong = wrong(scenario, result);
    let flows = scenario.expanded_flows();
    for group in scenario.groups() {
        let most = |of: &dyn Fn(usize) -> Option<f64>| group.flows().filter_map(of).reduce(f64::max);
        let mut add = |measure: &str, value: Option<f64>| {
            numbers.extend(value.map(|value| (group.name.clone(), measure.to_owned(), value)));
        };
        add("stall", most(&|row| stall(&flows[row], result, row)));
        add("wrong", most(&|row| wrong.get(row).copied().flatten()));
    }
    let (from, to) = scenario.measure.window_s(result.meta.wall_s);
    if to > from {
        let rate = scenario.bottleneck.mean_bps(from, to);
        numbers.push((LINK.to_owned(), "rate_bps".to_owned(), rate));
    }
    numbers
}

/// The longest time in which nothing of a flow left the bottleneck, in seconds, to the width of a bin; of the time that
/// it had and that counts.
fn stall(flow: &Flow, result: &RunResult, row: usize) -> Option<f64> {
    let series = &result.series;
    let (from, to) = result.meta.scenario.measure.window_s(result.meta.wall_s);
    let seen = result.flows.get(row)?;
    // When it set out, which may be drawn.
    let start = seen.start_s;
    let end = flow.duration.map_or(f64::INFINITY, |duration| start + duration.as_secs_f64());
    let end = seen.completed_s.map_or(end, |completed| end.min(completed));
    let (from, to) = (from.max(start), to.min(end));
    let bins = series.flows.get(row)?;
    let (mut longest, mut since) = (0.0f64, from);
    for bin in 0..series.bins() {
        let (begin, until) = (series.begin_s(bin), series.begin_s(bin + 1));
        if until <= from || begin >= to {
            continue;
        }
        if bins.get(bin).is_some_and(|bin| bin.departed_bytes > 0) {
            longest = longest.max(begin - since);
            since = until;
        }
    }
    (to > from).then(|| longest.max(to - since))
}

/// Of each flow, the share of its time in which the law's verdict was wrong; none of those of which it is not known what
/// they are.
fn wrong(scenario: &Scenario, result: &RunResult) -> Vec<Option<f64>> {
    let policy = Policy::load();
    let scenario = Scenario { flows: scenario.expanded_flows(), ..scenario.clone() };
    let truths = scenario.flows.iter().map(|flow| Class::of(&flow.controller).unwrap_or(Class::Udp));
    let case = Case {
        name: String::new(),
        truths: truths.collect(),
        queue: String::new(),
        preset: "",
        looked_at: scenario.flows.len(),
        scenario,
    };
    let seen = seen::of_run(&case, result, &policy);
    let of = |(index, flow): (usize, &Flow)| {
        // What the law has nothing to judge by, it is not wrong about.
        let Some(seen) = seen.iter().find(|seen| seen.index == index) else {
            return Class::of(&flow.controller).map(|_| 0.0);
        };
        let standing = &result.standings[index];
        let wrong = match seen.right {
            Verdict::Responsive => standing.unresponsive_s,
            _ => standing.responsive_s,
        };
        let start = result.flows.get(index)?.start_s;
        let end = flow.duration.map_or(f64::INFINITY, |time| start + time.as_secs_f64());
        let life = end.min(result.meta.wall_s) - start;
        (life > 0.0).then(|| (wrong / life).min(1.0))
    };
    case.scenario.flows.iter().enumerate().map(of).collect()
}

impl Objective {
    /// The number that is looked for; none if the run does not have it.
    pub(crate) fn of(&self, numbers: &Numbers) -> Option<f64> {
        let number = |of: &str, measure: &str| {
            let found = numbers.iter().find(|(owner, name, _)| owner == of && name == measure);
            found.map(|(_, _, value)| *value).filter(|value| value.is_finite())
        };
        match self.measure.as_str() {
            "utilisation" => number(LINK, "link_utilisation"),
            "delay" if self.of == LINK => number(LINK, "queue_delay_p99_ms"),
            "delay" => number(&self.of, "sojourn_p99_ms").or_else(|| number(&self.of, "queue_delay_p99_ms")),
            "share" => {
                let own = number(&self.of, "goodput_bps")?;
                let other = match &self.beside {
                    Some(beside) => number(beside, "goodput_bps")?,
                    None => number(LINK, "rate_bps")?,
                };
                (other > 0.0).then(|| own / other)
            }
            measure => number(&self.of, measure),
        }
    }

    /// The number so that more is worse.
    pub(crate) fn score(&self, value: f64) -> f64 {
        match self.want {
            Want::Low => -value,
            Want::High => value,
        }
    }

    /// In words: `low share of bulk beside other`.
    pub fn words(&self) -> String {
        let want = match self.want {
            Want::Low => "low",
            Want::High => "high",
        };
        let beside = self.beside.as_ref().map_or_else(String::new, |beside| format!(" beside {beside}"));
        format!("{want} {} of {}{beside}", self.measure, self.of)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use weir_scenario::Scenario;
    use weir_world::{RunOptions, SIM};

    use super::{LINK, flow_names, numbers, wrong};

    const SCENARIO: &str = "[bottleneck]\nrate = '10mbit'\nrtt = '20ms'\nqdisc = 'bfifo limit 1bdp'\n\
        [measure]\ninterval = '10ms'\n[[flow]]\nname = 'bulk'\nstack = 'tcp'\ncontroller = 'cubic'\nduration = '2s'\n";

    fn number(scenario: &Scenario, run: u64, of: &str, measure: &str) -> Option<f64> {
        let stop = AtomicBool::new(false);
        let result = SIM.run(scenario, &RunOptions { run, ..RunOptions::new(&stop) }).unwrap();
        let numbers = numbers(scenario, &result);
        numbers.into_iter().find(|(whose, name, _)| whose == of && name == measure).map(|(.., value)| value)
    }

    #[test]
    fn a_flow_does_not_stall_before_it_has_set_out() {
        let scenario = Scenario::parse(&format!("{SCENARIO}start_spread = '1s'\n"), "h.toml").unwrap();
        for run in 0..3 {
            let stall = number(&scenario, run, "bulk", "stall").unwrap();
            assert!(stall < 0.1, "{stall} s in run {run}");
        }
    }

    #[test]
    fn a_flow_that_is_misjudged_all_its_time_is_so_from_its_drawn_start_on() {
        let others = "start_spread = '1s'\n[[flow]]\nstack = 'udp'\nrate = '1mbit'\nduration = '4s'\n";
        let text = SCENARIO.replace("duration = '2s'\n", others);
        let scenario = Scenario::parse(&text, "h.toml").unwrap();
        let mut result = SIM.run(&scenario, &RunOptions::new(&AtomicBool::new(false))).unwrap();
        let start = result.flows[0].start_s;
        assert!(start > 0.0);
        result.standings[0].unresponsive_s = result.meta.wall_s - start;
        assert_eq!(wrong(&scenario, &result)[0], Some(1.0));
    }

    #[test]
    fn a_flow_behind_one_with_a_detector_has_its_own_numbers() {
        let probe = "[[flow]]\nname = 'probe'\nstack = 'quic'\ncontroller = 'cubic'\ndetector = 'trains'\n\
            duration = '1s'\n[[flow]]\nname = 'bulk'\n";
        let text = SCENARIO.replace("[[flow]]\nname = 'bulk'\n", probe);
        let scenario = Scenario::parse(&text, "h.toml").unwrap();
        assert_eq!(flow_names(&scenario), ["probe", "bulk"]);
        let goodput = number(&scenario, 0, "bulk", "goodput_bps").unwrap();
        assert!(goodput > 1e6, "{goodput}");
        // It has data after the other's end, and no gap.
        assert!(number(&scenario, 0, "bulk", "stall").unwrap() < 0.2);
        assert!(number(&scenario, 0, LINK, "link_utilisation").unwrap() > 0.5);
    }
}
