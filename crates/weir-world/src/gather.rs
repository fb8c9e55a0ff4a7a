//! Puts together what the endpoints, the bottleneck and the law know of a run into one result.

use std::fs;

use weir_core::{AuditReport, Duration, FlowId, Histogram, Time};
use weir_law::{Signal, Verdict};

use crate::cycles::Cycles;
use crate::record::{FlowRecord, Recorder};
use crate::run::Ended;
use crate::world::World;
use weir_report::result::{
    AssessmentRow, ChoiceRow, FlowResult, Health, Meta, QueueResult, RunResult, Series, WorkloadResult,
};
use weir_scenario::{FULL_PACKET, Flow, Pattern, Scenario};
use weir_testbed::traffic::{self, Stack};

/// A run is doubtful when packets left later than this share of the shortest round-trip time, at the 99th percentile...
const LATE_SHARE: f64 = 0.1;
/// ... and later than this, which no queue measurement here would notice.
const LATE_NS: u64 = 200_000;
/// A run is doubtful when the emulator gave up more than this share of the link's capacity.
const LOST_SHARE: f64 = 0.001;

/// The result of a run.
pub(crate) fn result(scenario: &Scenario, ended: Ended) -> RunResult {
    let flows = ended.flows.iter().map(|(flow, _)| &flow.name);
    let names: Vec<String> =
        flows.chain(ended.workloads.iter().map(|workload| &workload.name)).cloned().collect();
    let names_of_queues = scenario.queue_names();
    let recorder = &ended.recorder;
    let window = Window::of(scenario, ended.wall);
    let name_of =
        |flow| recorder.index(flow).map_or_else(|| "other".to_owned(), |index| names[index].clone());
    RunResult {
        meta: meta(scenario, &ended),
        flows: ended
            .flows
            .iter()
            .zip(&recorder.flows)
            .map(|((flow, seen), record)| {
                let result = flow_result(flow, seen, record, &window);
                // Another discipline's second queue says nothing of verdicts.
                let has_verdicts = scenario.bottleneck.qdisc.queue_names().contains(&"responsive");
                FlowResult {
                    responsive_packets: if has_verdicts { result.responsive_packets } else { 0.0 },
                    ..result
                }
            })
            .collect(),
        workloads: ended
            .workloads
            .iter()
            .zip(recorder.flows.iter().skip(ended.flows.len()))
            .zip(scenario.workloads.iter().zip(&ended.workload_ends))
            .map(|((workload, record), (asked, over))| {
                workload_result(workload, (asked.start, *over), record, &window)
            })
            .collect(),
        detections: ended.detections.clone(),
        queues: recorder
            .queues
            .iter()
            .zip(names_of_queues.into_iter().flatten())
            .map(|(queue, name)| QueueResult {
                name,
                sojourn_ns: queue.sojourn.clone(),
                departed: queue.departed,
                departed_bytes: queue.departed_bytes,
                overflowed: queue.overflowed,
                dropped: queue.dropped,
                marked: queue.marked,
            })
            .collect(),
        health: health(scenario, &ended),
        law_counters: ended.law_counters.clone(),
        assessments: recorder
            .assessments
            .iter()
            .flat_map(|assessment| {
                [Signal::Loss, Signal::Mark]
                    .into_iter()
                    .filter_map(|signal| assessment_row(assessment, signal, &name_of))
            })
            .collect(),
        choices: choices(recorder, name_of),
        standings: recorder
            .flows
            .iter()
            .take(ended.flows.len())
            .map(|record| record.stands.result())
            .collect(),
        cycles: recorder.cycles.clone().map(Cycles::into_rows).unwrap_or_default(),
        series: series(scenario, &ended),
        flow_sojourn_ns: recorder.flows.iter().map(|record| record.sojourn.clone()).collect(),
    }
}

/// Every change of a flow's queue, by the law or by a protected queue, in order of time.
fn choices(recorder: &Recorder, name_of: impl Fn(FlowId) -> String) -> Vec<ChoiceRow> {
    let row = |time: Time, flow, queue| ChoiceRow { time_s: time.as_secs_f64(), flow: name_of(flow), queue };
    let by_law = recorder.choices.iter().map(|change| row(change.time, change.flow, word(&change.to)));
    let by_queue = recorder.demotions.iter().map(|(time, flow, is_demoted)| {
        row(*time, *flow, if *is_demoted { "demoted" } else { "l4s" }.to_owned())
    });
    let mut all: Vec<ChoiceRow> = by_law.chain(by_queue).collect();
    all.sort_by(|one, other| one.time_s.total_cmp(&other.time_s));
    all
}

/// What totals count of a run.
struct Window {
    from_s: f64,
    to_s: f64,
    /// Whether it is less than all of it.
    is_part: bool,
}

impl Window {
    fn of(scenario: &Scenario, wall: Duration) -> Self {
        let (from_s, to_s) = scenario.measure.window_s(wall.as_secs_f64());
        Self { from_s, to_s, is_part: scenario.measure.has_window() }
    }

    /// How long a life from one time to another overlaps with it, in seconds.
    fn life_s(&self, from_s: f64, to_s: f64) -> f64 {
        (to_s.min(self.to_s) - from_s.max(self.from_s)).max(0.0)
    }

    /// How many of `received` bytes of payload count: the share of its wire bytes that left the queue in the window.
    /// No world asks a receiver in the middle of a run.
    fn received(&self, received: u64, record: &FlowRecord) -> u64 {
        let all: u64 = record.bins.iter().map(|bin| bin.departed_bytes).sum();
        match all {
            _ if !self.is_part => received,
            0 => 0,
            all => (u128::from(received) * u128::from(record.departed_bytes) / u128::from(all)) as u64,
        }
    }
}

/// Bits per second of so many bytes in so many seconds.
fn per_second(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

/// How long packets waited in queues, in milliseconds.
struct Waited {
    mean: Option<f64>,
    p50: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

impl Waited {
    fn of(record: &FlowRecord) -> Self {
        let quantile = |at| record.sojourn.quantile(at).map(|ns| ns as f64 / 1e6);
        Self {
            mean: record.sojourn.mean().map(|ns| ns / 1e6),
            p50: quantile(0.5),
            p99: quantile(0.99),
            max: quantile(1.0),
        }
    }
}

fn workload_result(
    workload: &WorkloadResult,
    (start, over): (Duration, Option<Time>),
    record: &FlowRecord,
    window: &Window,
) -> WorkloadResult {
    let (start, over) = (start.as_secs_f64(), over.map(Time::as_secs_f64));
    let life = match over {
        // The run ends when the last packet has left the queue, and that arrives later.
        Some(over) if !window.is_part => over - start,
        over => window.life_s(start, over.unwrap_or(window.to_s)),
    };
    let received_bytes = window.received(workload.received_bytes, record);
    let waited = Waited::of(record);
    WorkloadResult {
        received_bytes,
        goodput_bps: per_second(received_bytes, life),
        throughput_bps: per_second(record.departed_bytes, life),
        sojourn_mean_ms: waited.mean,
        sojourn_p50_ms: waited.p50,
        sojourn_p99_ms: waited.p99,
        packets: record.packets,
        dropped: record.dropped,
        marked: record.marked,
        ..workload.clone()
    }
}

/// The word by which serde calls a plain enum's value, so that tables and JSON agree.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Kernel and processors, of which results on the real clock depend.
fn machine() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    format!("Linux {}, {processors} processors", kernel.trim())
}

fn meta(scenario: &Scenario, ended: &Ended) -> Meta {
    Meta {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        world: ended.world.name().to_owned(),
        seed: ended.seed,
        started_unix_s: ended.started_unix_s,
        wall_s: ended.wall.as_secs_f64(),
        machine: (!ended.world.is_virtual()).then(machine),
        io: ended.io.clone(),
        scenario: scenario.clone(),
        // A scenario whose law cannot be has not run.
        law: scenario.law_params().unwrap_or_default(),
        qdisc: scenario.bottleneck.qdisc.to_string(),
        qdiscs: ended.qdiscs.clone(),
        cut_short: ended.cut_short.map(str::to_owned),
    }
}

fn flow_result(flow: &Flow, seen: &traffic::FlowResult, record: &FlowRecord, window: &Window) -> FlowResult {
    let mut rtt = Histogram::new();
    let counts = |time: f64| !window.is_part || (window.from_s <= time && time < window.to_s);
    seen.samples
        .iter()
        .filter(|sample| sample.rtt_us > 0 && counts(sample.time.as_secs_f64()))
        .for_each(|sample| rtt.record(sample.rtt_us));
    let waited = Waited::of(record);
    let millis = |quantile| rtt.quantile(quantile).map(|us| us as f64 / 1e3);
    let life = match (seen.started, seen.finished) {
        (Some(started), Some(finished)) if window.is_part => {
            window.life_s(started.as_secs_f64(), finished.as_secs_f64())
        }
        (Some(started), Some(finished)) => finished.since(started).as_secs_f64(),
        _ => 0.0,
    };
    let received_bytes = window.received(seen.bytes, record);
    let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    let since_verdict = record.cycles_before_verdict.map(|before| record.cycles - before);
    FlowResult {
        name: flow.name.clone(),
        stack: word(&flow.stack),
        controller: seen.controller.clone().unwrap_or_default(),
        pattern: if flow.pattern == Pattern::TwoWay { "two-way" } else { "one-way" }.to_owned(),
        ecn: flow.ecn,
        start_s: flow.start.as_secs_f64(),
        wanted_bytes: flow.bytes.map(|bytes| bytes.0),
        fct_s: seen.fct.map(|fct| fct.as_secs_f64()),
        completed_s: seen.fct.and(seen.finished).map(Time::as_secs_f64),
        received_bytes,
        goodput_bps: per_second(received_bytes, life),
        throughput_bps: per_second(record.departed_bytes, life),
        sojourn_mean_ms: waited.mean,
        sojourn_p50_ms: waited.p50,
        sojourn_p99_ms: waited.p99,
        sojourn_max_ms: waited.max,
        rtt_p50_ms: millis(0.5),
        rtt_p99_ms: millis(0.99),
        packets: record.packets,
        dropped: record.dropped,
        marked: record.marked,
        cycles: record.cycles,
        assessments: record.assessments,
        responsive_cycles: share(record.responsive_cycles, record.cycles),
        responsive_cycles_since_verdict: since_verdict
            .and_then(|cycles| share(record.responsive_cycles, cycles)),
        responsive_time: record.responsive_time_share(),
        responsive_packets: share(record.responsive_packets, record.packets).unwrap_or(0.0),
        demoted_packets: share(record.demoted_packets, record.packets).unwrap_or(0.0),
        class_ecn: word(&record.class.ecn),
        class_loss: word(&record.class.loss),
        error: seen.error.clone(),
    }
}

fn assessment_row(
    assessment: &weir_law::Assessment,
    signal: Signal,
    name_of: &impl Fn(weir_core::FlowId) -> String,
) -> Option<AssessmentRow> {
    let (vote, votes, signals, class) = match signal {
        Signal::Loss => (
            assessment.vote.loss,
            assessment.votes.loss,
            assessment.signals.loss,
            assessment.class_after.loss,
        ),
        Signal::Mark => {
            (assessment.vote.mark, assessment.votes.mark, assessment.signals.mark, assessment.class_after.ecn)
        }
    };
    (vote != Verdict::Unclassified).then(|| AssessmentRow {
        time_s: assessment.time.as_secs_f64(),
        flow: name_of(assessment.flow),
        signal: if signal == Signal::Loss { "loss" } else { "ecn" }.to_owned(),
        cycle: assessment.cycle.0,
        window_before_bytes: assessment.window_signalled.0,
        window_after_bytes: assessment.window.0,
        signals,
        responsive: vote == Verdict::Responsive,
        votes_responsive: votes.responsive,
        votes_unresponsive: votes.unresponsive,
        class: word(&class),
    })
}

/// Counters by name.
pub(crate) fn named(counters: &impl serde::Serialize) -> Vec<(String, u64)> {
    let counters = serde_json::to_value(counters).unwrap_or_default();
    let Some(counters) = counters.as_object() else { return Vec::new() };
    counters.iter().map(|(name, value)| (name.clone(), value.as_u64().unwrap_or(0))).collect()
}

fn series(scenario: &Scenario, ended: &Ended) -> Series {
    let recorder = &ended.recorder;
    let rtt = |seen: &traffic::FlowResult| {
        let points = seen.samples.iter().filter(|sample| sample.rtt_us > 0);
        points.map(|sample| (sample.time.as_secs_f64(), sample.rtt_us as f64 / 1e3)).collect()
    };
    Series::new(
        scenario.measure.interval,
        ended.wall,
        recorder.queues.iter().map(|queue| queue.bins.clone()).collect(),
        recorder.flows.iter().map(|flow| flow.bins.clone()).collect(),
        ended.flows.iter().map(|(_, seen)| rtt(seen)).collect(),
    )
}

/// The emulator's own error. Whatever makes a run doubtful becomes a sentence.
pub(crate) fn emulator_health(
    scenario: &Scenario,
    link: &weir_link::RunReport,
    recorder: &Recorder,
) -> Health {
    let pipeline = &link.pipeline;
    let audit = &pipeline.audit;
    let lost = scenario.bottleneck.rate.bytes_in(pipeline.late_loss).0;
    let mut health = Health {
        lateness_ns: recorder.lateness.clone(),
        capacity_lost_bytes: lost,
        ring_overflows: link.io.receive_overflows + link.io.interface_drops,
        frames_exhausted: link.io.out_of_frames + pipeline.pool_exhausted,
        requeued: 0,
        unheard: 0,
        cpu_s: (link.cpu_user + link.cpu_system).as_secs_f64(),
        largest_burst_bytes: pipeline.burst_highest,
        allowed_burst_bytes: pipeline.burst_allowed + pipeline.largest_packet + 1,
        arrived: audit.total.arrived,
        departed: audit.total.departed,
        dropped: audit.total.dropped,
        still_queued: audit.still_queued,
        unaccounted: audit.unbalanced.iter().map(|(_, missing)| missing.abs()).sum(),
        overtaken: audit.overtaken,
        warnings: Vec::new(),
    };
    warn_of_lateness(scenario, &mut health);
    let mut warn = |doubtful: bool, text: String| {
        if doubtful {
            health.warnings.push(text);
        }
    };
    let carried = pipeline.forward.sent_bytes.max(FULL_PACKET);
    warn(
        is_much(lost, carried),
        format!(
            "the emulator lost {lost} bytes of the link's capacity ({:.2} %)",
            100.0 * lost as f64 / carried as f64
        ),
    );
    warn(
        health.ring_overflows > 0,
        format!("receive rings lost {} packets before the bottleneck saw them", health.ring_overflows),
    );
    warn(health.frames_exhausted > 0, format!("{} packets found no free frame", health.frames_exhausted));
    warn(
        link.io.send_failures + link.io.oversized > 0,
        format!("{} packets could not be sent, {} were too long", link.io.send_failures, link.io.oversized),
    );
    warn(
        health.largest_burst_bytes > health.allowed_burst_bytes,
        format!(
            "{} bytes left in one burst; {} were allowed",
            health.largest_burst_bytes, health.allowed_burst_bytes
        ),
    );
    let balances = pipeline.forward.balances() && pipeline.reverse.balances();
    health.warnings.extend(audit_faults(audit, scenario.bottleneck.qdisc.may_reorder()));
    if !balances && audit.unbalanced.is_empty() {
        let text = "packets are not accounted for: more or fewer came to the link than left it, were dropped and are left";
        health.warnings.push(text.to_owned());
    }
    health
}

/// What the books on one queue discipline say that is the program's fault. Some disciplines `may_reorder`.
pub(crate) fn audit_faults(audit: &AuditReport, may_reorder: bool) -> Vec<String> {
    let mut faults = Vec::new();
    if !audit.unbalanced.is_empty() {
        let told = audit.unbalanced.iter().map(|(flow, missing)| match *flow {
            FlowId::NONE => format!("{missing} of no flow"),
            FlowId(flow) => format!("{missing} of flow {flow}"),
        });
        let told = told.collect::<Vec<_>>().join(", ");
        faults.push(format!("packets are not accounted for: {told}"));
    }
    if audit.overtaken > 0 && !may_reorder {
        faults.push(format!("{} packets overtook others of their flow", audit.overtaken));
    }
    faults
}

/// Whether a link that carried `carried` bytes lost too much of its capacity for its results to be believed.
pub(crate) fn is_much(lost: u64, carried: u64) -> bool {
    lost as f64 > LOST_SHARE * carried as f64
}

/// Warns if packets left so late that the endpoints saw another path than the scenario's.
pub(crate) fn warn_of_lateness(scenario: &Scenario, health: &mut Health) {
    let shortest =
        scenario.expanded_flows().iter().filter_map(|flow| flow.rtt).chain([scenario.bottleneck.rtt]).min();
    let limit = (shortest.unwrap_or_default().scale(LATE_SHARE).as_nanos()).max(LATE_NS);
    let late = health.lateness_ns.quantile(0.99).unwrap_or(0);
    if late > limit {
        health.warnings.push(format!(
            "1 in 100 packets left more than {:.2} ms late; lower the rate or free the processors",
            late as f64 / 1e6
        ));
    }
}

/// The longest round trip on which a flow's controller answers marks, if that is one of Weir's in this world and has
/// such a limit.
fn limit_of_marks(flow: &Flow, world: &dyn World) -> Option<Duration> {
    let entry = match flow.stack {
        Stack::Tcp | Stack::Quic if world.is_virtual() => {
            weir_cc::find(traffic::catalogue_name(&flow.controller)).ok()?
        }
        Stack::Quic => match traffic::find_controller(Stack::Quic, &flow.controller) {
            Ok(traffic::Named::Catalogue(entry)) => entry,
            _ => return None,
        },
        Stack::Tcp | Stack::Udp => return None,
    };
    entry.ignores_marks_beyond(flow.ecn)
}

/// Who was to answer marks and answered none, because the path is too long for the controller.
fn ignored_marks(scenario: &Scenario, ended: &Ended) -> Vec<String> {
    let records = &ended.recorder.flows;
    // Where a controller cannot be asked: no round trip is shorter than the path.
    let on_path = |flow: &Flow| {
        let limit = limit_of_marks(flow, ended.world)?;
        let rtt = flow.rtt.unwrap_or(scenario.bottleneck.rtt) + scenario.link_delay(flow) * 2;
        // A path at the limit is beyond it on real hosts, as packets take time as well.
        (rtt > limit || (rtt == limit && !ended.world.is_virtual())).then_some(limit)
    };
    let flows = ended.flows.iter().zip(records).filter_map(|((flow, seen), record)| {
        let of_path = || on_path(flow).filter(|_| !ended.world.is_virtual() && record.marked > 0);
        let limit = seen.ignored_marks_beyond.or_else(of_path)?;
        Some(("flow", flow.name.as_str(), flow.controller.as_str(), limit))
    });
    let works = scenario.workloads.iter().zip(records.iter().skip(ended.flows.len()));
    let works = works.filter(|(_, record)| record.marked > 0).filter_map(|(workload, _)| {
        Some(("workload", workload.label(), workload.controller.as_str(), on_path(&workload.connection())?))
    });
    let told = |(what, name, controller, limit): (&str, &str, &str, Duration)| {
        let plain = traffic::catalogue_name(controller);
        format!(
            "{what} '{name}' ignored its ECN marks: {plain} answers them only on paths of at most {limit}; with controller = \
             \"{plain}-ecn\" it answers on all"
        )
    };
    flows.chain(works).map(told).collect()
}

/// The bottleneck's health, and what hosts and flows add to it.
fn health(scenario: &Scenario, ended: &Ended) -> Health {
    let mut health = ended.health.clone();
    health.warnings.extend(ignored_marks(scenario, ended));
    let mut warn = |doubtful: bool, text: String| {
        if doubtful {
            health.warnings.push(text);
        }
    };
    warn(
        scenario.measure.from >= ended.wall,
        format!("the run ended before {}, from which on it was to be measured", scenario.measure.from),
    );
    warn(ended.host_drops > 0, format!("the hosts' interfaces dropped {} packets", ended.host_drops));
    warn(ended.capture_missed > 0, format!("the capture file lacks {} packets", ended.capture_missed));
    for (flow, seen) in &ended.flows {
        if let Some(error) = seen.error.as_ref().filter(|_| ended.cut_short.is_none()) {
            health.warnings.push(format!("flow '{}': {error}", flow.name));
        }
        let latest = seen.udp.as_ref().map_or(0, |udp| udp.latest.as_nanos());
        if flow.stack == Stack::Udp && latest > 100_000_000 {
            health.warnings.push(format!(
                "flow '{}' fell {} ms behind its rate",
                flow.name,
                latest / 1_000_000
            ));
        }
    }
    if ended.cut_short == Some("timeout") {
        let unfinished: Vec<_> = ended
            .flows
            .iter()
            .filter(|(flow, seen)| (flow.bytes.is_some() || flow.duration.is_some()) && !seen.complete)
            .map(|(flow, _)| flow.name.as_str())
            .chain(ended.cut_workloads.iter().map(String::as_str))
            .collect();
        health.warnings.push(format!("the timeout cut off {}", unfinished.join(", ")));
    }
    health
}

#[cfg(test)]
mod tests {
    use super::{AuditReport, FlowId, audit_faults};

    #[test]
    fn what_is_missing_and_what_overtook_are_told_apart() {
        let report = |unbalanced: &[(FlowId, i64)], overtaken| AuditReport {
            unbalanced: unbalanced.to_vec(),
            overtaken,
            ..AuditReport::default()
        };
        assert!(audit_faults(&report(&[], 0), false).is_empty());
        assert_eq!(audit_faults(&report(&[], 8), false), ["8 packets overtook others of their flow"]);
        assert!(audit_faults(&report(&[], 8), true).is_empty());
        let missing = [(FlowId(3), 2), (FlowId::NONE, -1)];
        let told = "packets are not accounted for: 2 of flow 3, -1 of no flow";
        assert_eq!(audit_faults(&report(&missing, 0), true), [told]);
        assert_eq!(audit_faults(&report(&missing, 8), false).len(), 2);
    }
}
