//! What is kept of a cell: what its flows and its link came to, without samples over time.

use serde::{Deserialize, Serialize};
use weir_core::{Duration, Histogram};

use super::means::ratio;
use weir_report::page;
use weir_report::result::{FlowResult, QueueResult, RunResult, WorkloadResult};
use weir_report::spread::mean;
use weir_scenario::{Bottleneck, Group, Scenario};

/// What was measured in a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) flows: Vec<FlowResult>,
    /// The `[[flow]]` of the scenario, and which of `flows` are of each.
    pub(super) groups: Vec<Group>,
    /// In the order of the scenario, without their requests.
    #[serde(default)]
    pub(super) workloads: Vec<WorkloadResult>,
    pub(super) link: Link,
    /// The bottleneck's queues.
    #[serde(default)]
    pub(super) queues: Vec<Queue>,
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
    /// The mean delay over what the queue discipline aims at.
    pub(super) delay_over_target: Option<f64>,
    /// Rate of the link in the mean of the time that counts, in bit/s.
    pub(super) rate_bps: f64,
    /// Share of the capacity that was used while anything was sent.
    pub(super) utilisation: Option<f64>,
    /// Jain's index of the flows' goodput.
    pub(super) jain: Option<f64>,
}

/// One queue of the bottleneck.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Queue {
    pub(super) name: String,
    pub(super) delay_mean_ms: Option<f64>,
    pub(super) delay_p50_ms: Option<f64>,
    pub(super) delay_p99_ms: Option<f64>,
    pub(super) departed_packets: u64,
    /// Packets dropped for any reason, over packets offered.
    pub(super) drop_ratio: Option<f64>,
    /// Packets marked, over packets offered.
    pub(super) mark_ratio: Option<f64>,
}

impl Queue {
    fn of(queue: &QueueResult) -> Self {
        let ms = |at: f64| queue.sojourn_ns.quantile(at).map(|ns| ns as f64 / 1e6);
        let dropped = queue.dropped + queue.overflowed;
        let offered = queue.departed + dropped;
        Self {
            name: queue.name.clone(),
            delay_mean_ms: queue.sojourn_ns.mean().map(|ns| ns / 1e6),
            delay_p50_ms: ms(0.5),
            delay_p99_ms: ms(0.99),
            departed_packets: queue.departed,
            drop_ratio: ratio(dropped, offered),
            mark_ratio: ratio(queue.marked, offered),
        }
    }
}

/// The delay that a queue discipline aims at, unless it is none.
fn target_ms(bottleneck: &Bottleneck) -> Option<f64> {
    let time = bottleneck.qdisc.target(bottleneck.rtt)?;
    (time > Duration::ZERO).then_some(time.as_secs_f64() * 1e3)
}

impl Measured {
    /// The flows of a `[[flow]]`, without their light sub-flows.
    pub(super) fn flows_of(&self, group: usize) -> impl Iterator<Item = &FlowResult> {
        self.groups[group].flows().filter_map(|row| self.flows.get(row))
    }

    /// A flow's throughput over an equal share of the link's rate among all flows; a light sub-flow is none of them.
    pub(super) fn relative_throughput(&self, flow: &FlowResult) -> Option<f64> {
        let flows = self.groups.iter().flat_map(Group::flows).count();
        let share = self.link.rate_bps / flows as f64;
        (share > 0.0).then(|| flow.throughput_bps / share)
    }

    /// The mean throughput of a `[[flow]]`.
    fn class_rate(&self, group: usize) -> Option<f64> {
        mean(&self.flows_of(group).map(|flow| flow.throughput_bps).collect::<Vec<f64>>())
    }

    /// The mean throughput of a `[[flow]]` over that of the first of the scenario.
    pub(super) fn class_ratio(&self, group: usize) -> Option<f64> {
        let (own, first) = (self.class_rate(group)?, self.class_rate(0)?);
        (first > 0.0).then(|| own / first)
    }

    /// Jain's index of the mean throughputs of each `[[flow]]`: how alike classes fare, whatever is among the flows of
    /// each. None of one class.
    pub(super) fn class_jain(&self) -> Option<f64> {
        weir_core::jain((0..self.groups.len()).filter_map(|group| self.class_rate(group)))
    }

    /// What is kept of a run.
    pub(super) fn of(scenario: &Scenario, result: &RunResult) -> Self {
        let mut delay = Histogram::new();
        let queues = result.bottleneck_queues();
        queues.iter().for_each(|queue| delay.merge(&queue.sojourn_ns));
        let ms = |at: f64| delay.quantile(at).map(|ns| ns as f64 / 1e6);
        let (from, to) = scenario.measure.window_s(result.meta.wall_s);
        let sum = |value: fn(&QueueResult) -> u64| queues.iter().map(value).sum();
        Self {
            flows: result.flows.clone(),
            groups: scenario.groups(),
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
                delay_over_target: target_ms(&scenario.bottleneck)
                    .zip(delay.mean())
                    .map(|(target, delay)| delay / 1e6 / target),
                rate_bps: if to > from { scenario.bottleneck.mean_bps(from, to) } else { 0.0 },
                utilisation: page::utilisation(result),
                jain: page::jain(result),
            },
            queues: queues.iter().map(Queue::of).collect(),
            warnings: result.health.warnings.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::target_ms;
    use weir_scenario::Scenario;

    #[test]
    fn the_target_is_the_delay_that_the_keys_name() {
        let target = |qdisc: &str| {
            let text = format!(
                "[bottleneck]\nrate = '10mbit'\nrtt = '40ms'\nqdisc = '{qdisc}'\n[[flow]]\nstack = 'tcp'\n\
                 controller = 'cubic'\nduration = '1s'\n"
            );
            target_ms(&Scenario::parse(&text, "x.toml").unwrap().bottleneck)
        };
        assert_eq!(target("pie target 20ms"), Some(20.0));
        assert_eq!(target("codel"), Some(5.0));
        assert_eq!(target("pi2 target 850us"), Some(0.85));
        assert_eq!(target("step threshold 0.25bdp"), Some(10.0));
        assert_eq!(target("step threshold 65p"), None);
        assert_eq!(target("bfifo"), None);
    }
}
