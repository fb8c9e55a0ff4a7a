//! What is kept of a cell: what its flows and its link came to, without samples over time.

use serde::{Deserialize, Serialize};
use weir_core::Histogram;

use weir_report::page;
use weir_report::result::{FlowResult, RunResult, WorkloadResult};
use weir_scenario::Scenario;

/// What was measured in a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) flows: Vec<FlowResult>,
    /// The flow of the scenario, from 0, that each of `flows` is one of.
    pub(super) of: Vec<usize>,
    /// In the order of the scenario, without their requests.
    #[serde(default)]
    pub(super) workloads: Vec<WorkloadResult>,
    pub(super) link: Link,
    /// What makes the run doubtful.
    pub(super) warnings: Vec<String>,
}

/// The bottleneck, all its queues together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Link {
    pub(super) duration_s: f64,
    pub(super) departed_packets: u64,
    pub(super) departed_bytes: u64,
    pub(super) dropped_packets: u64,
    pub(super) marked_packets: u64,
    pub(super) delay_mean_ms: Option<f64>,
    pub(super) delay_p50_ms: Option<f64>,
    pub(super) delay_p99_ms: Option<f64>,
    pub(super) delay_max_ms: Option<f64>,
    /// Share of the capacity that was used while anything was sent.
    pub(super) utilisation: Option<f64>,
    /// Jain's index of the flows' goodput.
    pub(super) jain: Option<f64>,
}

impl Measured {
    /// What is kept of a run.
    pub(super) fn of(scenario: &Scenario, result: &RunResult) -> Self {
        let of = scenario.flows.iter().enumerate();
        let of = of.flat_map(|(index, flow)| std::iter::repeat_n(index, flow.count as usize));
        let mut delay = Histogram::new();
        result.queues.iter().for_each(|queue| delay.merge(&queue.sojourn_ns));
        let ms = |at: f64| delay.quantile(at).map(|ns| ns as f64 / 1e6);
        let sum = |value: fn(&weir_report::result::QueueResult) -> u64| result.queues.iter().map(value).sum();
        Self {
            flows: result.flows.clone(),
            of: of.collect(),
            workloads: result
                .workloads
                .iter()
                .map(|one| WorkloadResult { list: Vec::new(), ..one.clone() })
                .collect(),
            link: Link {
                duration_s: result.meta.wall_s,
                departed_packets: sum(|queue| queue.departed),
                departed_bytes: sum(|queue| queue.departed_bytes),
                dropped_packets: sum(|queue| queue.dropped + queue.overflowed),
                marked_packets: sum(|queue| queue.marked),
                delay_mean_ms: delay.mean().map(|ns| ns / 1e6),
                delay_p50_ms: ms(0.5),
                delay_p99_ms: ms(0.99),
                delay_max_ms: ms(1.0),
                utilisation: page::utilisation(result),
                jain: page::jain(result),
            },
            warnings: result.health.warnings.clone(),
        }
    }
}
