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
    let all = scenario.expanded_flows();
    let mut names = Vec::new();
    let mut next = 0;
    for flow in &scenario.flows {
        if let Some(first) = all.get(next).filter(|_| flow.count > 0) {
            let name = if flow.count > 1 { first.name.strip_suffix(" 1") } else { None };
            names.push(name.unwrap_or(&first.name).to_owned());
        }
        next += flow.count as usize;
    }
    names
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
    let mut next = 0;
    for (flow, name) in scenario.flows.iter().filter(|flow| flow.count > 0).zip(flow_names(scenario)) {
        let rows = next..next + flow.count as usize;
        next = rows.end;
        let most = |of: &dyn Fn(usize) -> Option<f64>| rows.clone().filter_map(of).reduce(f64::max);
        let mut add = |measure: &str, value: Option<f64>| {
            numbers.extend(value.map(|value| (name.clone(), measure.to_owned(), value)));
        };
        add("stall", most(&|row| stall(scenario, result, row)));
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
fn stall(scenario: &Scenario, result: &RunResult, row: usize) -> Option<f64> {
    let flow = scenario.expanded_flows().into_iter().nth(row)?;
    let series = &result.series;
    let (from, to) = scenario.measure.window_s(result.meta.wall_s);
    let start = flow.start.as_secs_f64();
    let end = flow.duration.map_or(f64::INFINITY, |duration| start + duration.as_secs_f64());
    let end = result.flows.get(row)?.fct_s.map_or(end, |took| end.min(start + took));
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
        let start = flow.start.as_secs_f64();
        let end = flow.duration.map_or(f64::INFINITY, |time| start + time.as_secs_f64());
        let life = end.min(result.meta.wall_s) - start;
        // A start that is drawn is not known here.
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
