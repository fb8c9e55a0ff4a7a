//! What a run leaves: one record that the tables, the JSON, the report and the figures are all made from.

use serde::{Deserialize, Serialize};
use weir_core::{Histogram, Seed};
use weir_law::Params;

use weir_scenario::Scenario;

mod series;

pub use series::{FlowBin, QueueBin, Series};

/// Everything that was measured in one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// What ran, where and when.
    pub meta: Meta,
    /// One record per flow of the scenario, in its order.
    pub flows: Vec<FlowResult>,
    /// One record per workload of the scenario, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadResult>,
    /// One record per flow that looked for fair queuing, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detections: Vec<DetectionResult>,
    /// One record per queue: those of the bottleneck, of its other direction, and of the other links.
    pub queues: Vec<QueueResult>,
    /// How far the run kept to its schedule, and whether every packet is accounted for.
    pub health: Health,
    /// Counts by the law's table, by name.
    pub law_counters: Vec<(String, u64)>,
    /// Every judgement with its inputs, in order of time.
    #[serde(skip)]
    pub assessments: Vec<AssessmentRow>,
    /// Every change of a flow's queue, in order of time.
    #[serde(skip)]
    pub choices: Vec<ChoiceRow>,
    /// How each flow stood with the law, one per flow, in their order.
    #[serde(default)]
    pub standings: Vec<Standing>,
    /// Every cycle of every flow, if they were asked for: by flow, in order of time.
    #[serde(skip)]
    pub cycles: Vec<CycleRow>,
    /// Samples over time.
    #[serde(skip)]
    pub series: Series,
    /// Sojourn times in the queue that counts for it, in nanoseconds, per flow and then per workload.
    #[serde(skip)]
    pub flow_sojourn_ns: Vec<Histogram>,
}

impl RunResult {
    /// Whose bins [`Series::flows`] holds, in its order: the flows, then the workloads.
    pub fn series_names(&self) -> impl Iterator<Item = &str> {
        let flows = self.flows.iter().map(|flow| flow.name.as_str());
        flows.chain(self.workloads.iter().map(|workload| workload.name.as_str()))
    }

    /// The queues of the bottleneck, towards the client.
    pub fn bottleneck_queues(&self) -> &[QueueResult] {
        let own = self.meta.scenario.bottleneck.qdisc.queue_names().len();
        &self.queues[..own.min(self.queues.len())]
    }

    /// The samples of the bottleneck: its queues, and what goes over it.
    pub fn bottleneck_series(&self) -> Series {
        let scenario = &self.meta.scenario;
        let mut elsewhere = scenario.expanded_flows();
        elsewhere.retain(|flow| !scenario.passes_bottleneck(flow));
        let passes = |name: &str| elsewhere.iter().all(|flow| flow.name != name);
        let flows = self.series_names().zip(&self.series.flows).filter(|(name, _)| passes(name));
        let queues = self.series.queues.iter().take(self.bottleneck_queues().len());
        Series {
            queues: queues.cloned().collect(),
            flows: flows.map(|(_, bins)| bins.clone()).collect(),
            rtt: Vec::new(),
            ..self.series
        }
    }

    /// The same with some flows only, as if the others and all workloads had not been looked at.
    #[must_use]
    pub fn of_flows(&self, wanted: impl Fn(&str) -> bool) -> Self {
        fn pick<T: Clone>(all: &[T], places: &[usize]) -> Vec<T> {
            places.iter().filter_map(|place| all.get(*place).cloned()).collect()
        }
        let places: Vec<usize> =
            (0..self.flows.len()).filter(|place| wanted(&self.flows[*place].name)).collect();
        let series = Series {
            flows: pick(&self.series.flows, &places),
            rtt: pick(&self.series.rtt, &places),
            ..self.series.clone()
        };
        let mut result = Self {
            flows: pick(&self.flows, &places),
            workloads: Vec::new(),
            standings: pick(&self.standings, &places),
            cycles: Vec::new(),
            flow_sojourn_ns: pick(&self.flow_sojourn_ns, &places),
            series,
            ..self.clone()
        };
        result.detections.retain(|detection| wanted(&detection.flow));
        result.assessments.retain(|row| wanted(&row.flow));
        result.choices.retain(|row| wanted(&row.flow));
        result
    }
}

/// What ran, where and when.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Meta {
    /// The version of Weir.
    pub version: String,
    /// The world: `emu`, `kernel`, `vm` or `sim`.
    pub world: String,
    /// Seed and run number.
    pub seed: Seed,
    /// Seconds since 1970 at the start; none in virtual time, whose results are the same whenever they are made.
    pub started_unix_s: Option<u64>,
    /// Seconds that the run took, in the time of its world.
    pub wall_s: f64,
    /// Kernel release and processor count of the host; none in virtual time, whose results are the same on any.
    pub machine: Option<String>,
    /// How packets were read and written, and how the thread was scheduled, such as
    /// `xdp driver copy, deadline scheduling`; in world `kernel` also by what they were delayed.
    pub io: String,
    /// The complete scenario, defaults filled in.
    pub scenario: Scenario,
    /// All settings that the law had, those too that follow from preset and queue discipline.
    pub law: Params,
    /// The queue discipline in a line.
    pub qdisc: String,
    /// World `kernel`: the kernel's queues with their counters at the end, as `tc -s -j qdisc show` prints them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub qdiscs: Vec<serde_json::Value>,
    /// Why the run ended before its flows had, if it did: `timeout` or `interrupted`.
    pub cut_short: Option<String>,
}

impl Meta {
    /// Whether time was virtual: then nothing can be late, and nothing depends on the machine.
    pub fn is_virtual(&self) -> bool {
        self.world == "sim"
    }
}

/// One flow: what its endpoints saw, what the bottleneck did to it, what the law made of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowResult {
    /// The flow's name.
    pub name: String,
    /// `tcp`, `quic` or `udp`.
    pub stack: String,
    /// Congestion control; empty for UDP.
    pub controller: String,
    /// `one-way` or `two-way`.
    pub pattern: String,
    /// Whether it used ECN.
    pub ecn: bool,
    /// Start, seconds into the run.
    pub start_s: f64,
    /// Payload bytes that it had to transfer; none for a flow that ends otherwise.
    pub wanted_bytes: Option<u64>,
    /// Flow completion time in seconds, from request to last byte at the receiver; none if it did not complete, or had
    /// no number of bytes to transfer.
    pub fct_s: Option<f64>,
    /// When that last byte was there, seconds into the run: the handshake comes between `start_s` and the request.
    #[serde(default)]
    pub completed_s: Option<f64>,
    /// Bytes of payload that the receiver got.
    pub received_bytes: u64,
    /// Mean payload rate over the flow's life in bit/s.
    pub goodput_bps: f64,
    /// Wire bits per second that left the queue, over the flow's life.
    #[serde(default)]
    pub throughput_bps: f64,
    /// Sojourn time of its packets in the queue, in milliseconds: mean, median, 99th percentile, the longest.
    #[serde(default)]
    pub sojourn_mean_ms: Option<f64>,
    /// See `sojourn_mean_ms`.
    #[serde(default)]
    pub sojourn_p50_ms: Option<f64>,
    /// See `sojourn_mean_ms`.
    #[serde(default)]
    pub sojourn_p99_ms: Option<f64>,
    /// See `sojourn_mean_ms`.
    #[serde(default)]
    pub sojourn_max_ms: Option<f64>,
    /// Round-trip time as the sender measured it, in milliseconds: median and 99th percentile.
    pub rtt_p50_ms: Option<f64>,
    /// See `rtt_p50_ms`.
    pub rtt_p99_ms: Option<f64>,
    /// Packets offered to the bottleneck's queue.
    pub packets: u64,
    /// Of these dropped.
    pub dropped: u64,
    /// Of these marked CE.
    pub marked: u64,
    /// Cycles that the law saw.
    pub cycles: u64,
    /// Assessments, loss and ECN together.
    pub assessments: u64,
    /// Share of cycles, of all, in which the flow stood as responsive by the main signal; the paper's score / 100.
    pub responsive_cycles: Option<f64>,
    /// The same over the cycles from the first verdict on.
    pub responsive_cycles_since_verdict: Option<f64>,
    /// Share of the flow's time (from its first packet to its last) in which it stood as responsive.
    pub responsive_time: f64,
    /// Share of the flow's packets that entered the responsive queue.
    pub responsive_packets: f64,
    /// Share of the flow's packets that entered the queue of demoted flows, behind a discipline that has one.
    #[serde(default)]
    pub demoted_packets: f64,
    /// The class at the end, ECN and loss: `unclassified`, `responsive` or `unresponsive`.
    pub class_ecn: String,
    /// See `class_ecn`.
    pub class_loss: String,
    /// What went wrong at the endpoints, if anything did.
    pub error: Option<String>,
}

/// How a flow stood with the law, by what its queue is chosen by: the verdict on the main signal, or that on losses
/// where it sends nothing that could be marked and the law's `loss_without_ecn` says so.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// At the end: `unclassified`, `responsive` or `unresponsive`.
    pub verdict: String,
    /// Whether it sent packets that could be marked.
    pub ecn_capable: bool,
    /// Packets offered to the queue, those of super-packets one by one.
    pub segments: u64,
    /// Wire bytes offered to the queue.
    pub arrived_bytes: u64,
    /// When the bottleneck first dropped a packet of it, in seconds into the run.
    pub first_loss_s: Option<f64>,
    /// When it first marked one.
    pub first_mark_s: Option<f64>,
    /// When it first stood as responsive.
    pub first_responsive_s: Option<f64>,
    /// When it first stood as unresponsive.
    pub first_unresponsive_s: Option<f64>,
    /// How long it stood as responsive.
    pub responsive_s: f64,
    /// How long it stood as unresponsive.
    pub unresponsive_s: f64,
}

/// A cycle of a flow, with the signals that its packets got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CycleRow {
    /// The flow, by its place among the scenario's.
    pub flow: u32,
    /// The cycle's number.
    pub cycle: u32,
    /// When it began.
    pub start_ns: u64,
    /// How long it lasted.
    pub duration_ns: u64,
    /// Payload bytes that arrived in it.
    pub window_bytes: u64,
    /// Packets that arrived in it.
    pub packets: u32,
    /// Of these dropped, as far as that happened within two further cycles; segments.
    pub losses: u32,
    /// The same of marks.
    pub marks: u32,
    /// Whether its beginning was not seen.
    pub first: bool,
}

/// What a flow found out about fair queuing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DetectionResult {
    /// The flow's name.
    pub flow: String,
    /// The detector.
    pub detector: String,
    /// At the end: `fair-queued`, `shared` or `unknown`.
    pub finding: String,
    /// The probability that it is right, by the detector's own model.
    pub confidence: f64,
    /// The signal that weighed most: `order`, `loss`, `delay` or `share`.
    pub why: String,
    /// What the first detection found; none if it has not ended.
    pub first_finding: Option<String>,
    /// How long that took, in seconds from the first packet.
    pub first_s: Option<f64>,
    /// Packets that were sent until then, on both sub-flows.
    pub first_sent: u64,
    /// Of these, lost.
    pub first_lost: u64,
    /// Detections that have ended.
    pub detections: u64,
    /// How often a later one found something else than the one before.
    pub changes: u64,
    /// The controller at the end; empty if there was none.
    pub controller: String,
    /// Share of the time since the first detection in which the finding was `fair-queued`.
    pub fair_queued_time: f64,
    /// Each change of the finding, with its time in seconds into the run.
    #[serde(skip)]
    pub history: Vec<(f64, String)>,
}

/// One workload: what was asked for, how long it took, what the bottleneck did to its packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadResult {
    /// The workload's name.
    pub name: String,
    /// `poisson`, `requests`, `video` or `on-off`.
    pub kind: String,
    /// `tcp`, `quic` or `udp`.
    pub stack: String,
    /// Congestion control; empty for UDP.
    pub controller: String,
    /// Requests made, or times of being on.
    pub requests: u64,
    /// Requests that were answered in full.
    pub completed: u64,
    /// Payload bytes asked for, or sent by sources.
    pub asked_bytes: u64,
    /// Payload bytes that arrived.
    pub received_bytes: u64,
    /// The same per second of the workload's life, in bit/s.
    pub goodput_bps: f64,
    /// Time from a request to the last byte of its response in seconds: mean, quantiles, largest.
    pub fct_mean_s: Option<f64>,
    /// See `fct_mean_s`.
    pub fct_p50_s: Option<f64>,
    /// See `fct_mean_s`.
    pub fct_p90_s: Option<f64>,
    /// See `fct_mean_s`.
    pub fct_p99_s: Option<f64>,
    /// See `fct_mean_s`.
    pub fct_max_s: Option<f64>,
    /// Connections that were there at the same time at most.
    pub connections: u32,
    /// Requests that had to wait for a connection.
    pub waited: u64,
    /// How often a player had nothing more to show.
    pub stalls: u64,
    /// For how long, all players together, in seconds.
    pub stalled_s: f64,
    /// Wire bits per second that left the queue, over the workload's life.
    #[serde(default)]
    pub throughput_bps: f64,
    /// Sojourn time of its packets in the queue, in milliseconds: mean, median, 99th percentile.
    #[serde(default)]
    pub sojourn_mean_ms: Option<f64>,
    /// See `sojourn_mean_ms`.
    #[serde(default)]
    pub sojourn_p50_ms: Option<f64>,
    /// See `sojourn_mean_ms`.
    #[serde(default)]
    pub sojourn_p99_ms: Option<f64>,
    /// Packets offered to the bottleneck's queue.
    pub packets: u64,
    /// Of these dropped.
    pub dropped: u64,
    /// Of these marked CE.
    pub marked: u64,
    /// All requests, in order of time.
    #[serde(skip)]
    pub list: Vec<RequestRow>,
}

/// A request of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestRow {
    /// When, seconds into the run.
    pub start_s: f64,
    /// Payload bytes of the response.
    pub bytes: u64,
    /// Until its last byte had arrived; none if it had not, and for on-off sources.
    pub fct_s: Option<f64>,
}

/// One queue of the bottleneck.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QueueResult {
    /// `queue` when there is one, else as the discipline calls it: `standard`, `responsive`.
    pub name: String,
    /// Sojourn times of packets that left for the link, in nanoseconds.
    pub sojourn_ns: Histogram,
    /// Packets that left for the link.
    pub departed: u64,
    /// Their wire bytes.
    pub departed_bytes: u64,
    /// Packets dropped because the queue was full.
    pub overflowed: u64,
    /// Packets dropped by the AQM.
    pub dropped: u64,
    /// Packets marked CE.
    pub marked: u64,
}

/// The run's own error, and the checks that hold on every run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Health {
    /// How late packets left after the moment that the model gave them, in nanoseconds.
    pub lateness_ns: Histogram,
    /// Bytes of link capacity given up because the emulator was later than one burst.
    pub capacity_lost_bytes: u64,
    /// Packets that a receive ring could not take; in world `kernel`, records that the measuring ring could not take.
    pub ring_overflows: u64,
    /// Packets refused because all frames were in use.
    pub frames_exhausted: u64,
    /// World `kernel`: packets that the driver gave back and HTB sent again.
    pub requeued: u64,
    /// World `kernel`: arrivals, departures and drops that the kernel counted without announcing them; the times of
    /// those packets are guesses.
    pub unheard: u64,
    /// CPU seconds used by the emulator's thread; in world `kernel` by those that delay and listen.
    pub cpu_s: f64,
    /// The largest burst above the link's rate, in bytes, by real departure times.
    pub largest_burst_bytes: u64,
    /// What it may be: the configured burst and one packet.
    pub allowed_burst_bytes: u64,
    /// Packets offered to the queue.
    pub arrived: u64,
    /// Packets that left for the link.
    pub departed: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets still queued at the end.
    pub still_queued: u64,
    /// Packets of any flow that are not accounted for.
    pub unaccounted: i64,
    /// Packets that overtook one of their flow inside one queue.
    pub overtaken: u64,
    /// What makes this run doubtful, in words; empty if nothing does.
    pub warnings: Vec<String>,
}

/// One judgement of the law.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AssessmentRow {
    /// When, seconds into the run.
    pub time_s: f64,
    /// The flow's name.
    pub flow: String,
    /// `loss` or `ecn`.
    pub signal: String,
    /// The cycle that ended.
    pub cycle: u32,
    /// The window two cycles earlier, in which the signal fell, in bytes.
    pub window_before_bytes: u64,
    /// The window of the cycle that ended, in bytes.
    pub window_after_bytes: u64,
    /// How many signals fell.
    pub signals: u32,
    /// Whether this vote says responsive.
    pub responsive: bool,
    /// Votes so far.
    pub votes_responsive: u32,
    /// Votes so far.
    pub votes_unresponsive: u32,
    /// The class that follows for this signal.
    pub class: String,
}

/// A flow that changes queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChoiceRow {
    /// When, seconds into the run.
    pub time_s: f64,
    /// The flow's name.
    pub flow: String,
    /// `standard` or `responsive`, by the law; `demoted` or `l4s`, by a protected dual queue.
    pub queue: String,
}

/// The FCT score of a system against a baseline (CRQ section IV-C): 0 for parity, positive when `system` completes
/// sooner, in (-1, 1).
pub fn fct_score(baseline_s: f64, system_s: f64) -> f64 {
    if baseline_s > system_s { 1.0 - system_s / baseline_s } else { -1.0 + baseline_s / system_s }
}

#[cfg(test)]
mod tests {
    use super::fct_score;

    #[test]
    fn scores_are_those_of_the_paper() {
        assert_eq!(fct_score(10.0, 5.0), 0.5);
        assert_eq!(fct_score(10.0, 40.0), -0.75);
        assert_eq!(fct_score(3.0, 3.0), 0.0);
    }
}
