//! What a reader learns at a glance: a few sentences and numbers per run, and what changed from the first run to
//! another.

use crate::result::{FlowResult, RunResult, fct_score};
use weir_scenario::WorkloadKind;

use super::text::{bps, count, dash, escape, ns_as_ms, number, percent, seconds};

/// Flows of two runs with the same name that completed in both.
pub(super) struct Pair<'a> {
    pub(super) baseline: &'a FlowResult,
    pub(super) system: &'a FlowResult,
    /// The FCT score: positive if the flow completed sooner in `system`.
    pub(super) score: f64,
}

/// The flows that completed in both runs, in the first run's order.
pub(super) fn pairs<'a>(baseline: &'a RunResult, system: &'a RunResult) -> Vec<Pair<'a>> {
    let pair = |baseline: &'a FlowResult| {
        let system = system.flows.iter().find(|flow| flow.name == baseline.name)?;
        let score = fct_score(baseline.fct_s?, system.fct_s?);
        score.is_finite().then_some(Pair { baseline, system, score })
    };
    baseline.flows.iter().filter_map(pair).collect()
}

/// A score as it is written: with its sign, two decimals.
pub(super) fn score(value: f64) -> String {
    let value = if value.abs() < 0.005 { 0.0 } else { value };
    let sign = match value {
        _ if value > 0.0 => "+",
        _ if value < 0.0 => "\u{2212}",
        _ => "",
    };
    format!("{sign}{:.2}", value.abs())
}

/// The first and the last second, from the start, in which the bottleneck carried anything.
fn busy(result: &RunResult) -> Option<(f64, f64)> {
    let series = result.bottleneck_series();
    let carries = |index: &usize| {
        series.flows.iter().any(|bins| bins.get(*index).is_some_and(|bin| bin.departed_bytes > 0))
    };
    let (first, last) = (0..series.bins()).find(carries).zip((0..series.bins()).rfind(carries))?;
    Some((series.begin_s(first), series.begin_s(last + 1)))
}

/// The share of the bottleneck's capacity that was used while anything was sent over it.
pub fn utilisation(result: &RunResult) -> Option<f64> {
    let bytes: u64 = result.bottleneck_queues().iter().map(|queue| queue.departed_bytes).sum();
    let (first, last) = busy(result)?;
    let scenario = &result.meta.scenario;
    let (from, to) = match scenario.measure.has_window() {
        false => (first, last),
        true => {
            let (from, to) = scenario.measure.window_s(result.meta.wall_s);
            (first.max(from), last.min(to))
        }
    };
    // Of a run that was read from its files the trace is not known, only its path.
    let is_known = scenario.bottleneck.trace.as_ref().is_none_or(|file| file.trace().is_some());
    let capacity = scenario.bottleneck.mean_bps(from, to) * (to - from);
    (from < to && is_known && capacity > 0.0).then(|| bytes as f64 * 8.0 / capacity)
}

/// Jain's fairness index of the flows' goodput.
pub fn jain(result: &RunResult) -> Option<f64> {
    weir_core::jain(result.flows.iter().map(|flow| flow.goodput_bps))
}

fn offered_and_lost(result: &RunResult) -> (u64, u64, u64) {
    // A packet that crosses several links must not count several times.
    let queues = result.bottleneck_queues();
    let sum = |value: fn(&crate::result::QueueResult) -> u64| queues.iter().map(value).sum::<u64>();
    let lost = sum(|queue| queue.dropped + queue.overflowed);
    (sum(|queue| queue.departed) + lost, lost, sum(|queue| queue.marked))
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 { dash() } else { percent(part as f64 / whole as f64) }
}

/// The run in two or three sentences.
pub(super) fn sentences(result: &RunResult) -> String {
    let mut out = String::new();
    let waits: Vec<String> = result
        .queues
        .iter()
        .filter(|queue| queue.sojourn_ns.count() > 0)
        .map(|queue| {
            let quantile = |at| ns_as_ms(queue.sojourn_ns.quantile(at));
            let place = match queue.name.as_str() {
                "queue" => "the queue".to_owned(),
                name => format!("the {} queue", escape(name)),
            };
            format!("<b>{}</b> in {place} (99th percentile {})", quantile(0.5), quantile(0.99))
        })
        .collect();
    match waits.as_slice() {
        [] => out.push_str("No packet crossed the bottleneck."),
        waits => out.push_str(&format!("A typical packet waited {}.", waits.join(" and "))),
    }
    if let Some(window) = result.meta.scenario.measure.window_words() {
        out.push_str(&format!(" Totals count {window}."));
    }
    let completed: Vec<&FlowResult> = result.flows.iter().filter(|flow| flow.fct_s.is_some()).collect();
    let last = completed.iter().filter_map(|flow| flow.completed_s).reduce(f64::max);
    match completed.len() {
        // Flows that were to last a time, or as long as the others, have nothing to complete, nor have datagrams.
        0 if result.flows.iter().all(|flow| flow.wanted_bytes.is_none() || flow.stack == "udp") => {}
        0 => out.push_str(" No flow completed."),
        1 => out.push_str(&format!(" One flow completed, at {}.", seconds(last))),
        many => out.push_str(&format!(" {many} flows completed, the last at {}.", seconds(last))),
    }
    // A source that is on and off gets no answers.
    let asking = result.workloads.iter().filter(|workload| workload.kind != WorkloadKind::OnOff.name());
    let (asked, answered) = asking.fold((0, 0), |(asked, answered), workload| {
        (asked + workload.requests, answered + workload.completed)
    });
    if asked > 0 {
        out.push_str(&format!(" {} of {} requests were answered.", count(answered), count(asked)));
    }
    if let Some(why) = &result.meta.cut_short {
        out.push_str(&format!(" <b class=\"bad\">The run was cut short: {}.</b>", escape(why)));
    }
    out
}

/// The numbers of a run as name and value, both HTML.
pub(super) fn numbers(result: &RunResult) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for queue in result.queues.iter().filter(|queue| queue.sojourn_ns.count() > 0) {
        let quantile = |at: f64| queue.sojourn_ns.quantile(at).map_or(0.0, |ns| ns as f64 / 1e6);
        let name =
            if queue.name == "queue" { "delay".to_owned() } else { format!("{} delay", escape(&queue.name)) };
        let value = format!("{} <small>/ {} ms</small>", number(quantile(0.5)), number(quantile(0.99)));
        out.push((format!("{name}, p50 / p99"), value));
    }
    let (offered, lost, marked) = offered_and_lost(result);
    out.push(("link used".to_owned(), utilisation(result).map_or_else(dash, percent)));
    out.push(("packets dropped".to_owned(), share(lost, offered)));
    out.push(("packets marked".to_owned(), share(marked, offered)));
    if let Some(jain) = jain(result) {
        out.push(("Jain\u{2019}s index of goodput".to_owned(), format!("{jain:.2}")));
    }
    let total: f64 = result.flows.iter().map(|flow| flow.goodput_bps).sum();
    if result.flows.len() == 1 {
        out.push(("goodput".to_owned(), bps(total)));
    }
    out
}

/// What changed from one run to another, in a sentence; none if no flow completed in both.
pub(super) fn comparison(baseline: (&str, &RunResult), system: (&str, &RunResult)) -> Option<String> {
    let pairs = pairs(baseline.1, system.1);
    let best = pairs.iter().max_by(|a, b| a.score.total_cmp(&b.score))?;
    let worst = pairs.iter().min_by(|a, b| a.score.total_cmp(&b.score))?;
    let (sooner, later) = (
        pairs.iter().filter(|pair| pair.score > 0.01).count(),
        pairs.iter().filter(|pair| pair.score < -0.01).count(),
    );
    let flows = |count: usize| if count == 1 { "1 flow".to_owned() } else { format!("{count} flows") };
    let change = |pair: &Pair<'_>| {
        let (from, to) = (seconds(pair.baseline.fct_s), seconds(pair.system.fct_s));
        format!("{}: {from} \u{2192} {to}, FCT score {}", escape(&pair.baseline.name), score(pair.score))
    };
    let mut out = format!("<b>{}</b> against <b>{}</b>: ", escape(system.0), escape(baseline.0));
    let mut parts = Vec::new();
    if sooner > 0 {
        parts.push(format!("{} completed sooner (most {})", flows(sooner), change(best)));
    }
    if later > 0 {
        parts.push(format!("{} completed later (most {})", flows(later), change(worst)));
    }
    let same = pairs.len() - sooner - later;
    if same > 0 {
        parts.push(format!("{} took as long, within a hundredth of the score", flows(same)));
    }
    out.push_str(&parts.join("; "));
    out.push('.');
    Some(out)
}
