//! What a run of a suite comes to: rates, delays, fairness, and how rate and delay go together second by second.

use serde::Serialize;

use weir_report::result::{FlowBin, QueueBin, RunResult, Series};
use weir_scenario::Direction;

/// A scenario with a discipline.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// The scenario's number where it comes from.
    pub section: String,
    /// What it is.
    pub title: String,
    /// The discipline, in words.
    pub qdisc: String,
    /// Why there are no numbers, if there are none.
    pub failed: Option<String>,
    /// Wire bits per second through the bottleneck, over the link's rate; nothing of a run that ended before that counts.
    pub utilisation: Option<f64>,
    /// Mean sojourn over all packets of all queues of the bottleneck, in milliseconds; none where no packet left.
    pub delay_mean_ms: Option<f64>,
    /// Jain's index of the rates of those flows through the queue that answer to congestion and have no end of their
    /// own in bytes; none of fewer than two.
    pub jain: Option<f64>,
    /// Packets dropped by the bottleneck, over packets offered to it; none where none was.
    pub dropped: Option<f64>,
    /// Packets marked by it, over the same.
    pub marked: Option<f64>,
    /// Per flow, then per workload.
    pub flows: Vec<FlowRow>,
    /// Per queue.
    pub queues: Vec<QueueRow>,
    /// Second by second.
    #[serde(skip)]
    pub seconds: Vec<Second>,
}

/// A flow of a [`Row`].
#[derive(Clone, Debug, Serialize)]
pub struct FlowRow {
    /// Its name.
    pub name: String,
    /// Wire bits per second; nothing of a run that ended before they count.
    pub rate_bps: Option<f64>,
}

/// A queue of a [`Row`].
#[derive(Clone, Debug, Serialize)]
pub struct QueueRow {
    /// Its name.
    pub name: String,
    /// Mean sojourn in milliseconds; none where no packet left.
    pub mean_ms: Option<f64>,
    /// 99th percentile over the whole run, warming up included.
    pub p99_ms: Option<f64>,
}

/// One second of a run.
#[derive(Clone, Copy, Debug)]
pub struct Second {
    /// Wire bits per second.
    pub rate_bps: f64,
    /// Mean sojourn in milliseconds; none where no packet left.
    pub delay_ms: Option<f64>,
}

impl Row {
    /// A run that failed.
    pub(super) fn failed(section: &str, title: &str, qdisc: &str, why: String) -> Self {
        Self {
            section: section.to_owned(),
            title: title.to_owned(),
            qdisc: qdisc.to_owned(),
            failed: Some(why),
            ..Self::default()
        }
    }

    /// Measures a run with its samples, from `from_s` seconds on.
    pub(super) fn measure(section: &str, title: &str, qdisc: &str, result: &RunResult, from_s: f64) -> Self {
        let (series, scenario) = (&result.series, &result.meta.scenario);
        let (skip, bins) = ((from_s / series.interval_s).round() as usize, series.bins());
        // A run that ended before then has nothing to show.
        let span = (skip < bins).then(|| series.span_s(skip, bins));
        let per_second = |bytes: u64| span.map(|span| bytes as f64 * 8.0 / span);
        let late = |bins: &[QueueBin]| -> Vec<QueueBin> { bins.iter().skip(skip).copied().collect() };
        let queues: Vec<Vec<QueueBin>> = result.series.queues.iter().map(|bins| late(bins)).collect();
        let flows: Vec<FlowRow> = result
            .series_names()
            .zip(&result.series.flows)
            .map(|(name, bins)| FlowRow {
                name: name.to_owned(),
                rate_bps: per_second(bytes(bins.iter().skip(skip))),
            })
            .collect();
        let link = result.bottleneck_series();
        let all: Vec<QueueBin> = link.queues.iter().flat_map(|bins| late(bins)).collect();
        let departed: u64 = all.iter().map(|bin| u64::from(bin.departed)).sum();
        let sum = |part: fn(&QueueBin) -> u32| all.iter().map(|bin| u64::from(part(bin))).sum::<u64>() as f64;
        let (dropped, marked) = (sum(|bin| bin.dropped), sum(|bin| bin.marked));
        let offered = departed as f64 + dropped;
        let share = |part: f64| (offered > 0.0).then(|| part / offered);
        let elastic = result
            .flows
            .iter()
            .zip(&flows)
            .zip(scenario.expanded_flows())
            .filter(|((flow, _), _)| flow.stack != "udp" && flow.wanted_bytes.is_none())
            .filter(|(_, asked)| asked.direction == Direction::Down && scenario.passes_bottleneck(asked))
            .filter_map(|((_, row), _)| row.rate_bps);
        let began = skip as f64 * series.interval_s;
        let rate = span.map(|span| scenario.bottleneck.mean_bps(began, began + span));
        let carried = per_second(bytes(link.flows.iter().flat_map(|bins| bins.iter().skip(skip))));
        Self {
            section: section.to_owned(),
            title: title.to_owned(),
            qdisc: qdisc.to_owned(),
            failed: None,
            utilisation: carried.zip(rate).map(|(carried, rate)| carried / rate),
            delay_mean_ms: mean_ms(&all),
            jain: weir_core::jain(elastic),
            dropped: share(dropped),
            marked: share(marked),
            queues: result
                .queues
                .iter()
                .zip(&queues)
                .map(|(queue, bins)| QueueRow {
                    name: queue.name.clone(),
                    mean_ms: mean_ms(bins),
                    p99_ms: queue.sojourn_ns.quantile(0.99).map(|ns| ns as f64 / 1e6),
                })
                .collect(),
            flows,
            seconds: seconds(&link, skip),
        }
    }
}

fn bytes<'a>(bins: impl Iterator<Item = &'a FlowBin>) -> u64 {
    bins.map(|bin| bin.departed_bytes).sum()
}

fn mean_ms(bins: &[QueueBin]) -> Option<f64> {
    let departed: u64 = bins.iter().map(|bin| u64::from(bin.departed)).sum();
    let sojourn: u64 = bins.iter().map(|bin| bin.sojourn_sum_ns).sum();
    (departed > 0).then(|| sojourn as f64 / departed as f64 / 1e6)
}

fn seconds(series: &Series, skip: usize) -> Vec<Second> {
    let step = ((1.0 / series.interval_s).round() as usize).max(1);
    (skip..series.bins())
        .step_by(step)
        .filter(|at| at + step <= series.bins())
        .map(|at| {
            let queues = series.queues.iter().flat_map(|bins| bins.iter().skip(at).take(step));
            let within: Vec<QueueBin> = queues.copied().collect();
            let sent: u64 = series.flows.iter().map(|bins| bytes(bins.iter().skip(at).take(step))).sum();
            Second { rate_bps: sent as f64 * 8.0 / series.span_s(at, at + step), delay_ms: mean_ms(&within) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{FlowBin, QueueBin, Series, seconds};

    #[test]
    fn a_second_holds_the_bins_of_all_queues_and_flows() {
        let queue = QueueBin { departed: 2, sojourn_sum_ns: 4_000_000, ..QueueBin::default() };
        let flow = FlowBin { departed_bytes: 1_000, ..FlowBin::default() };
        let series = |end_s: f64| Series {
            interval_s: 0.5,
            end_s,
            queues: vec![vec![queue; 5]; 2],
            flows: vec![vec![flow; 5]; 2],
            rtt: Vec::new(),
        };
        let whole = seconds(&series(2.5), 1);
        assert_eq!(whole.len(), 2);
        assert!(whole.iter().all(|second| (second.rate_bps, second.delay_ms) == (32_000.0, Some(2.0))));
        // A last bin of half the length.
        let rates: Vec<f64> = seconds(&series(2.25), 1).iter().map(|second| second.rate_bps).collect();
        assert_eq!(rates, [32_000.0, 32_000.0 / 0.75]);
    }
}
