//! Means over the runs of each combination, with the confidence that they have: `means.csv`, a row for each number.
//!
//! The interval is Student's t for the mean of independent runs: each run draws its own numbers under one seed.

use super::record::{Link, Measured, Queue};
use weir_report::result::{FlowResult, RunResult, WorkloadResult};
use weir_report::spread::{Spread, mean};
use weir_scenario::{Group, Scenario};

/// The columns of `means.csv` behind those of the keys.
pub(super) const COLUMNS: [&str; 8] = ["of", "measure", "runs", "mean", "deviation", "ci95", "min", "max"];

/// One number of one run: of what, called what, and its value.
pub(super) type Number = (String, &'static str, f64);

/// One number over the runs of a combination.
#[derive(Clone, Debug)]
pub(super) struct Mean {
    pub(super) of: String,
    pub(super) measure: &'static str,
    pub(super) spread: Spread,
}

type Of<T> = fn(&T) -> Option<f64>;

const FLOW: &[(&str, Of<FlowResult>)] = &[
    ("goodput_bps", |flow| Some(flow.goodput_bps)),
    ("throughput_bps", |flow| Some(flow.throughput_bps)),
    ("sojourn_mean_ms", |flow| flow.sojourn_mean_ms),
    ("sojourn_p50_ms", |flow| flow.sojourn_p50_ms),
    ("sojourn_p99_ms", |flow| flow.sojourn_p99_ms),
    ("rtt_p50_ms", |flow| flow.rtt_p50_ms),
    ("fct_s", |flow| flow.fct_s),
    ("drop_ratio", |flow| ratio(flow.dropped, flow.packets)),
    ("mark_ratio", |flow| ratio(flow.marked, flow.packets)),
    ("demoted_packets", |flow| Some(flow.demoted_packets)),
];

const WORKLOAD: &[(&str, Of<WorkloadResult>)] = &[
    ("goodput_bps", |workload| Some(workload.goodput_bps)),
    ("throughput_bps", |workload| Some(workload.throughput_bps)),
    ("sojourn_mean_ms", |workload| workload.sojourn_mean_ms),
    ("sojourn_p99_ms", |workload| workload.sojourn_p99_ms),
    ("response_mean_s", |workload| workload.fct_mean_s),
    ("response_p50_s", |workload| workload.fct_p50_s),
    ("response_p99_s", |workload| workload.fct_p99_s),
    ("drop_ratio", |workload| ratio(workload.dropped, workload.packets)),
    ("mark_ratio", |workload| ratio(workload.marked, workload.packets)),
];

const QUEUE: &[(&str, Of<Queue>)] = &[
    ("queue_delay_mean_ms", |queue| queue.delay_mean_ms),
    ("queue_delay_p50_ms", |queue| queue.delay_p50_ms),
    ("queue_delay_p99_ms", |queue| queue.delay_p99_ms),
    ("drop_ratio", |queue| queue.drop_ratio),
    ("mark_ratio", |queue| queue.mark_ratio),
];

const LINK: &[(&str, Of<Link>)] = &[
    ("link_utilisation", |link| link.utilisation),
    ("jain_index", |link| link.jain),
    ("queue_delay_mean_ms", |link| link.delay_mean_ms),
    ("queue_delay_p99_ms", |link| link.delay_p99_ms),
    ("queue_delay_over_target", |link| link.delay_over_target),
];

/// Of the link too, but made of the rates of its flows.
const CLASSES: &str = "class_jain_index";

/// The names of all measures.
pub fn measures() -> impl Iterator<Item = &'static str> {
    let flow = FLOW.iter().map(|(name, _)| *name).chain(["relative_throughput", "class_ratio"]);
    let workload = WORKLOAD.iter().map(|(name, _)| *name);
    let queue = QUEUE.iter().map(|(name, _)| *name);
    flow.chain(workload).chain(queue).chain(LINK.iter().map(|(name, _)| *name)).chain([CLASSES])
}

/// A part of a whole; none of nothing.
pub(super) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// All numbers of a run: of each `[[flow]]` (the mean of those alike), each workload, each queue, and the link.
pub(super) fn numbers(measured: &Measured) -> Vec<Number> {
    let mut numbers: Vec<Number> = Vec::new();
    for (group, Group { name, .. }) in measured.groups.iter().enumerate() {
        let alike = || measured.flows_of(group);
        let mut add = |measure: &'static str, value: Option<f64>| {
            numbers.extend(value.map(|value| (name.clone(), measure, value)));
        };
        for (measure, of) in FLOW {
            add(measure, mean(&alike().filter_map(of).collect::<Vec<f64>>()));
        }
        let relative: Vec<f64> = alike().filter_map(|flow| measured.relative_throughput(flow)).collect();
        add("relative_throughput", mean(&relative));
        add("class_ratio", measured.class_ratio(group));
    }
    for workload in &measured.workloads {
        let values = WORKLOAD.iter().filter_map(|(measure, of)| Some((*measure, of(workload)?)));
        numbers.extend(values.map(|(measure, value)| (workload.name.clone(), measure, value)));
    }
    for queue in &measured.queues {
        let name = format!("queue {}", queue.name);
        let values = QUEUE.iter().filter_map(|(measure, of)| Some((*measure, of(queue)?)));
        numbers.extend(values.map(|(measure, value)| (name.clone(), measure, value)));
    }
    let values = LINK.iter().filter_map(|(measure, of)| Some((*measure, of(&measured.link)?)));
    let values = values.chain(measured.class_jain().map(|value| (CLASSES, value)));
    numbers.extend(values.map(|(measure, value)| ("link".to_owned(), measure, value)));
    numbers
}

/// All numbers of a run with their names.
pub type Numbers = Vec<(String, String, f64)>;

/// The same of a run that is not a cell of a sweep.
pub fn all_numbers(scenario: &Scenario, result: &RunResult) -> Numbers {
    let numbers = numbers(&Measured::of(scenario, result));
    numbers.into_iter().map(|(of, measure, value)| (of, measure.to_owned(), value)).collect()
}

/// Each number over all `runs` in which it could be measured, in the order in which they name them.
pub(super) fn over(runs: &[Vec<Number>]) -> Vec<Mean> {
    let mut means: Vec<(String, &'static str, Vec<f64>)> = Vec::new();
    for (of, measure, value) in runs.iter().flatten() {
        match means.iter_mut().find(|(known, name, _)| (known, *name) == (of, *measure)) {
            Some((.., values)) => values.push(*value),
            None => means.push((of.clone(), measure, vec![*value])),
        }
    }
    let mean = |(of, measure, values): (String, &'static str, Vec<f64>)| {
        Some(Mean { of, measure, spread: Spread::of(&values)? })
    };
    means.into_iter().filter_map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::over;

    #[test]
    fn a_number_that_one_run_lacks_is_a_mean_of_the_others() {
        let number = |of: &str, value| (of.to_owned(), "x", value);
        let means = over(&[vec![number("a", 1.0), number("b", 5.0)], vec![number("a", 3.0)]]);
        let seen: Vec<_> =
            means.iter().map(|mean| (mean.of.as_str(), mean.spread.runs, mean.spread.mean)).collect();
        assert_eq!(seen, [("a", 2, 2.0), ("b", 1, 5.0)]);
        // Two runs, one degree of freedom: 12.7062 x sqrt(2) / sqrt(2).
        assert!((means[0].spread.ci95 - 12.7062).abs() < 1e-4, "{}", means[0].spread.ci95);
        assert_eq!(means[1].spread.ci95, 0.0, "one run says nothing of its spread");
    }
}
