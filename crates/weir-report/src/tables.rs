//! The tables of a run: their names, their columns with what each holds, and their rows. The CSV files of
//! [`output`](crate::output) are made of them, and so is what other programs read without files.

use serde::Serialize;

use crate::result::RunResult;

/// What a column holds. Any value may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name or words.
    Text,
    /// True or false.
    Truth,
    /// A count.
    Integer,
    /// A quantity.
    Number,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, with the unit.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
}

/// Takes tables.
pub trait Tables {
    /// What can go wrong.
    type Error;

    /// Takes a table. Each row is a struct or a tuple of as many values as there are columns, in their order.
    ///
    /// # Errors
    /// If the table cannot be taken.
    fn table<R: Serialize>(
        &mut self,
        name: &'static str,
        columns: &'static [Column],
        rows: impl Iterator<Item = R>,
    ) -> Result<(), Self::Error>;
}

/// Hands over all tables of a run. A run without workloads has no `requests`, one without detectors no `detections`.
///
/// # Errors
/// If `to` cannot take one.
pub fn each<T: Tables>(result: &RunResult, to: &mut T) -> Result<(), T::Error> {
    to.table("flows", FLOWS, result.flows.iter())?;
    to.table("queues", QUEUES, result.queues.iter().map(QueueRow::new))?;
    to.table("sojourn", SOJOURN, sojourn(result))?;
    to.table("flow_sojourn", FLOW_SOJOURN, flow_sojourn(result))?;
    to.table("queue_series", QUEUE_SERIES, queue_series(result))?;
    to.table("flow_series", FLOW_SERIES, flow_series(result))?;
    to.table("rtt", RTT, rtt(result))?;
    if !result.workloads.is_empty() {
        to.table("requests", REQUESTS, requests(result))?;
    }
    if !result.detections.is_empty() {
        let rows = result.detections.iter().flat_map(|found| {
            let history = found.history.iter();
            history.map(move |(time_s, finding)| (*time_s, &found.flow, &found.detector, finding))
        });
        to.table("detections", DETECTIONS, rows)?;
    }
    to.table("assessments", ASSESSMENTS, result.assessments.iter())?;
    to.table("choices", CHOICES, result.choices.iter())
}

const fn text(name: &'static str) -> Column {
    Column { name, kind: Kind::Text }
}

const fn truth(name: &'static str) -> Column {
    Column { name, kind: Kind::Truth }
}

const fn integer(name: &'static str) -> Column {
    Column { name, kind: Kind::Integer }
}

const fn number(name: &'static str) -> Column {
    Column { name, kind: Kind::Number }
}

/// A flow's record is flat and its fields carry their units, so they are the columns; only `name` is called `flow`, as
/// in the other tables.
const FLOWS: &[Column] = &[
    text("flow"),
    text("stack"),
    text("controller"),
    text("pattern"),
    truth("ecn"),
    number("start_s"),
    integer("wanted_bytes"),
    number("fct_s"),
    number("completed_s"),
    integer("received_bytes"),
    number("goodput_bps"),
    number("throughput_bps"),
    number("sojourn_mean_ms"),
    number("sojourn_p50_ms"),
    number("sojourn_p99_ms"),
    number("sojourn_max_ms"),
    number("rtt_p50_ms"),
    number("rtt_p99_ms"),
    integer("packets"),
    integer("dropped"),
    integer("marked"),
    integer("cycles"),
    integer("assessments"),
    number("responsive_cycles"),
    number("responsive_cycles_since_verdict"),
    number("responsive_time"),
    number("responsive_packets"),
    number("demoted_packets"),
    text("class_ecn"),
    text("class_loss"),
    text("error"),
];

const QUEUES: &[Column] = &[
    text("queue"),
    integer("departed_packets"),
    integer("departed_bytes"),
    integer("overflowed_packets"),
    integer("aqm_dropped_packets"),
    integer("marked_packets"),
    number("sojourn_mean_ms"),
    number("sojourn_p25_ms"),
    number("sojourn_p50_ms"),
    number("sojourn_p90_ms"),
    number("sojourn_p99_ms"),
    number("sojourn_max_ms"),
];

const SOJOURN: &[Column] = &[text("queue"), integer("upper_ns"), integer("count")];
const FLOW_SOJOURN: &[Column] = &[text("flow"), integer("upper_ns"), integer("count")];

const QUEUE_SERIES: &[Column] = &[
    number("time_s"),
    text("queue"),
    integer("departed_packets"),
    number("sojourn_mean_ms"),
    number("sojourn_max_ms"),
    integer("backlog_max_bytes"),
    integer("dropped_packets"),
    integer("marked_packets"),
];

const FLOW_SERIES: &[Column] = &[
    number("time_s"),
    text("flow"),
    number("throughput_bps"),
    integer("dropped_packets"),
    integer("marked_packets"),
];

const RTT: &[Column] = &[number("time_s"), text("flow"), number("rtt_ms")];

const REQUESTS: &[Column] =
    &[text("workload"), integer("id"), number("start_s"), integer("bytes"), number("fct_s")];

const DETECTIONS: &[Column] = &[number("time_s"), text("flow"), text("detector"), text("finding")];

const ASSESSMENTS: &[Column] = &[
    number("time_s"),
    text("flow"),
    text("signal"),
    integer("cycle"),
    integer("window_before_bytes"),
    integer("window_after_bytes"),
    integer("signals"),
    truth("responsive"),
    integer("votes_responsive"),
    integer("votes_unresponsive"),
    text("class"),
];

const CHOICES: &[Column] = &[number("time_s"), text("flow"), text("queue")];

#[derive(Serialize)]
struct QueueRow<'a> {
    queue: &'a str,
    departed_packets: u64,
    departed_bytes: u64,
    overflowed_packets: u64,
    aqm_dropped_packets: u64,
    marked_packets: u64,
    sojourn_mean_ms: Option<f64>,
    sojourn_ms: [Option<f64>; 5],
}

impl<'a> QueueRow<'a> {
    fn new(queue: &'a crate::result::QueueResult) -> Self {
        let sojourn = &queue.sojourn_ns;
        Self {
            queue: &queue.name,
            departed_packets: queue.departed,
            departed_bytes: queue.departed_bytes,
            overflowed_packets: queue.overflowed,
            aqm_dropped_packets: queue.dropped,
            marked_packets: queue.marked,
            sojourn_mean_ms: sojourn.mean().map(|ns| ns / 1e6),
            sojourn_ms: [0.25, 0.5, 0.9, 0.99, 1.0].map(|at| sojourn.quantile(at).map(|ns| ns as f64 / 1e6)),
        }
    }
}

fn sojourn(result: &RunResult) -> impl Iterator<Item = (&str, u64, u64)> {
    result.queues.iter().flat_map(|queue| {
        queue.sojourn_ns.buckets().map(|(upper, count)| (queue.name.as_str(), upper, count))
    })
}

fn flow_sojourn(result: &RunResult) -> impl Iterator<Item = (&str, u64, u64)> {
    let buckets = result.series_names().zip(&result.flow_sojourn_ns);
    buckets.flat_map(|(name, sojourn)| sojourn.buckets().map(move |(upper, count)| (name, upper, count)))
}

#[derive(Serialize)]
struct QueueBinRow<'a> {
    time_s: f64,
    queue: &'a str,
    departed_packets: u32,
    sojourn_mean_ms: Option<f64>,
    sojourn_max_ms: Option<f64>,
    backlog_max_bytes: u64,
    dropped_packets: u32,
    marked_packets: u32,
}

fn queue_series(result: &RunResult) -> impl Iterator<Item = QueueBinRow<'_>> {
    result.queues.iter().zip(&result.series.queues).flat_map(|(queue, bins)| {
        whole(result, bins).map(|(time_s, _, bin)| QueueBinRow {
            time_s,
            queue: &queue.name,
            departed_packets: bin.departed,
            sojourn_mean_ms: bin.sojourn_mean_ms(),
            sojourn_max_ms: (bin.departed > 0).then_some(bin.sojourn_max_ns as f64 / 1e6),
            backlog_max_bytes: bin.backlog_max_bytes,
            dropped_packets: bin.dropped,
            marked_packets: bin.marked,
        })
    })
}

fn flow_series(result: &RunResult) -> impl Iterator<Item = (f64, &str, f64, u32, u32)> {
    result.series_names().zip(&result.series.flows).flat_map(move |(name, bins)| {
        whole(result, bins).map(move |(time_s, seconds, bin)| {
            (time_s, name, bin.departed_bytes as f64 * 8.0 / seconds, bin.dropped, bin.marked)
        })
    })
}

/// All bins of the run, also those in which nothing happened any more: when each begins, how long it is, and what it
/// holds.
fn whole<B: Copy + Default>(result: &RunResult, bins: &[B]) -> impl Iterator<Item = (f64, f64, B)> {
    let series = &result.series;
    (0..series.bins()).map(|index| {
        let bin = bins.get(index).copied().unwrap_or_default();
        (series.begin_s(index), series.span_s(index, index + 1), bin)
    })
}

fn requests(result: &RunResult) -> impl Iterator<Item = (&str, usize, f64, u64, Option<f64>)> {
    result.workloads.iter().flat_map(|workload| {
        let rows = workload.list.iter().enumerate();
        rows.map(|(id, request)| (workload.name.as_str(), id, request.start_s, request.bytes, request.fct_s))
    })
}

fn rtt(result: &RunResult) -> impl Iterator<Item = (f64, &str, f64)> {
    result
        .flows
        .iter()
        .zip(&result.series.rtt)
        .flat_map(|(flow, samples)| samples.iter().map(|(time, rtt)| (*time, flow.name.as_str(), *rtt)))
}
