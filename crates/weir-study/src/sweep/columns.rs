//! The columns of a sweep's table: cell and keys, then what the flow or the workload came to, then the link.

use super::means::ratio;
use super::record::{Link, Measured, Queue};
use super::values::{Datum, Quantity};
use super::{ColumnMeta, Sweep};
use weir_report::result::{FlowResult, WorkloadResult};
use weir_scenario::Group;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Truth,
    Integer,
    Number,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Truth => "truth",
            Self::Integer => "integer",
            Self::Number => "number",
        }
    }

    fn of(quantity: Quantity) -> Self {
        match quantity {
            Quantity::Text => Self::Text,
            Quantity::Truth => Self::Truth,
            Quantity::Integer | Quantity::Rate | Quantity::Size | Quantity::Packets => Self::Integer,
            Quantity::Number | Quantity::Time | Quantity::Bdp => Self::Number,
        }
    }
}

/// A column.
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) meaning: &'static str,
}

/// A measured column: name, kind, meaning, and where its value comes from.
struct Measure<T: 'static>(&'static str, Kind, &'static str, fn(&T) -> Datum);

fn text(text: &str) -> Datum {
    Datum::Text(text.to_owned())
}

fn count(number: u64) -> Datum {
    Datum::Integer(number.min(i64::MAX as u64) as i64)
}

fn number(number: Option<f64>) -> Datum {
    number.filter(|number| number.is_finite()).map_or(Datum::Missing, Datum::Number)
}

const FLOW: &[Measure<FlowResult>] = &[
    Measure("flow", Kind::Text, "the flow's name", |flow| text(&flow.name)),
    Measure("stack", Kind::Text, "tcp, quic or udp", |flow| text(&flow.stack)),
    Measure("controller", Kind::Text, "congestion control", |flow| text(&flow.controller)),
    Measure("ecn", Kind::Truth, "whether the flow used ECN", |flow| Datum::Truth(flow.ecn)),
    Measure("start_s", Kind::Number, "when it set out", |flow| number(Some(flow.start_s))),
    Measure("fct_s", Kind::Number, "flow completion time", |flow| number(flow.fct_s)),
    Measure("received_bytes", Kind::Integer, "payload at the receiver", |flow| count(flow.received_bytes)),
    Measure("goodput_bps", Kind::Number, "the same over the flow's life", |flow| {
        number(Some(flow.goodput_bps))
    }),
    Measure("throughput_bps", Kind::Number, "wire bits per second that left the queue", |flow| {
        number(Some(flow.throughput_bps))
    }),
    Measure("sojourn_mean_ms", Kind::Number, "mean sojourn time of the flow's packets", |flow| {
        number(flow.sojourn_mean_ms)
    }),
    Measure("sojourn_p50_ms", Kind::Number, "median of the same", |flow| number(flow.sojourn_p50_ms)),
    Measure("sojourn_p99_ms", Kind::Number, "99th percentile of the same", |flow| {
        number(flow.sojourn_p99_ms)
    }),
    Measure("rtt_p50_ms", Kind::Number, "median of the sender's smoothed round-trip time", |flow| {
        number(flow.rtt_p50_ms)
    }),
    Measure("rtt_p99_ms", Kind::Number, "99th percentile of the same", |flow| number(flow.rtt_p99_ms)),
    Measure("offered_packets", Kind::Integer, "packets of the flow offered to the queue", |flow| {
        count(flow.packets)
    }),
    Measure("dropped_packets", Kind::Integer, "of these dropped", |flow| count(flow.dropped)),
    Measure("marked_packets", Kind::Integer, "of these marked CE", |flow| count(flow.marked)),
    Measure("mark_ratio", Kind::Number, "packets marked over packets offered", |flow| {
        number(ratio(flow.marked, flow.packets))
    }),
    Measure(
        "demoted_packets",
        Kind::Number,
        "share of packets offered to a queue of demoted flows",
        |flow| number(Some(flow.demoted_packets)),
    ),
    Measure("responsive_time", Kind::Number, "share of time in which the flow stood as responsive", |flow| {
        number(Some(flow.responsive_time))
    }),
    Measure("class_ecn", Kind::Text, "the law's verdict at the end, by marks", |flow| text(&flow.class_ecn)),
    Measure("class_loss", Kind::Text, "the law's verdict at the end, by losses", |flow| {
        text(&flow.class_loss)
    }),
];

type OfWorkload = fn(&WorkloadResult) -> Datum;

/// Those of [`FLOW`] that a workload has too, all its connections together.
const SHARED: &[(&str, OfWorkload)] = &[
    ("flow", |workload| text(&workload.name)),
    ("stack", |workload| text(&workload.stack)),
    ("controller", |workload| text(&workload.controller)),
    ("received_bytes", |workload| count(workload.received_bytes)),
    ("goodput_bps", |workload| number(Some(workload.goodput_bps))),
    ("throughput_bps", |workload| number(Some(workload.throughput_bps))),
    ("sojourn_mean_ms", |workload| number(workload.sojourn_mean_ms)),
    ("sojourn_p50_ms", |workload| number(workload.sojourn_p50_ms)),
    ("sojourn_p99_ms", |workload| number(workload.sojourn_p99_ms)),
    ("mark_ratio", |workload| number(ratio(workload.marked, workload.packets))),
    ("offered_packets", |workload| count(workload.packets)),
    ("dropped_packets", |workload| count(workload.dropped)),
    ("marked_packets", |workload| count(workload.marked)),
];

const WORKLOAD: &[Measure<WorkloadResult>] = &[
    Measure("workload", Kind::Text, "poisson, requests, video or on-off", |workload| text(&workload.kind)),
    Measure("requests", Kind::Integer, "requests made, or times of being on", |workload| {
        count(workload.requests)
    }),
    Measure("completed_requests", Kind::Integer, "of these answered in full", |workload| {
        count(workload.completed)
    }),
    Measure("response_mean_s", Kind::Number, "from a request to the last byte of its response", |workload| {
        number(workload.fct_mean_s)
    }),
    Measure("response_p50_s", Kind::Number, "median of the same", |workload| number(workload.fct_p50_s)),
    Measure("response_p99_s", Kind::Number, "99th percentile of the same", |workload| {
        number(workload.fct_p99_s)
    }),
    Measure("stalls", Kind::Integer, "how often a player had nothing more to show", |workload| {
        count(workload.stalls)
    }),
    Measure("stalled_s", Kind::Number, "for how long, all players together", |workload| {
        number(Some(workload.stalled_s))
    }),
];

const LINK: &[Measure<Link>] = &[
    Measure("run_duration_s", Kind::Number, "how long the run took, in the time of its world", |link| {
        number(Some(link.duration_s))
    }),
    Measure("queue_delay_mean_ms", Kind::Number, "mean sojourn time of all packets that departed", |link| {
        number(link.delay_mean_ms)
    }),
    Measure("queue_delay_p50_ms", Kind::Number, "median of the same, within 3 %", |link| {
        number(link.delay_p50_ms)
    }),
    Measure("queue_delay_p99_ms", Kind::Number, "99th percentile of the same, within 3 %", |link| {
        number(link.delay_p99_ms)
    }),
    Measure("queue_delay_max_ms", Kind::Number, "the longest", |link| number(link.delay_max_ms)),
    Measure(
        "queue_delay_over_target",
        Kind::Number,
        "the mean over what the discipline aims at: its target, or a threshold in time or BDP",
        |link| number(link.delay_over_target),
    ),
    Measure("link_departed_packets", Kind::Integer, "packets that left for the link", |link| {
        count(link.departed_packets)
    }),
    Measure("link_departed_bytes", Kind::Integer, "their wire bytes", |link| count(link.departed_bytes)),
    Measure("link_dropped_packets", Kind::Integer, "packets dropped for any reason", |link| {
        count(link.dropped_packets)
    }),
    Measure("link_marked_packets", Kind::Integer, "packets marked CE", |link| count(link.marked_packets)),
    Measure("link_utilisation", Kind::Number, "share of the capacity used while anything was sent", |link| {
        number(link.utilisation)
    }),
    Measure(
        "jain_index",
        Kind::Number,
        "Jain's index of the goodput of all flows, 1 if all are equal",
        |link| number(link.jain),
    ),
];

/// Queues of the bottleneck that have columns: as many as any discipline has.
const QUEUES: usize = 3;

/// Of each queue, behind `queue_0_`, `queue_1_`...
const QUEUE: &[Measure<Queue>] = &[
    Measure("name", Kind::Text, "the queue's name", |queue| text(&queue.name)),
    Measure("delay_mean_ms", Kind::Number, "mean sojourn time of what departed from it", |queue| {
        number(queue.delay_mean_ms)
    }),
    Measure("delay_p50_ms", Kind::Number, "median of the same", |queue| number(queue.delay_p50_ms)),
    Measure("delay_p99_ms", Kind::Number, "99th percentile of the same", |queue| number(queue.delay_p99_ms)),
    Measure("departed_packets", Kind::Integer, "packets that left it for the link", |queue| {
        count(queue.departed_packets)
    }),
    Measure("drop_ratio", Kind::Number, "packets dropped over packets offered", |queue| {
        number(queue.drop_ratio)
    }),
    Measure("mark_ratio", Kind::Number, "packets marked over packets offered", |queue| {
        number(queue.mark_ratio)
    }),
];

const RELATIVE: (&str, &str) =
    ("relative_throughput", "throughput over an equal share of the link's rate among all flows");
const CLASS: (&str, &str) = ("class_ratio", "mean throughput of the [[flow]] over that of the first");
const CELL: (&str, &str) = ("cell", "the cell's number, from 0");
const FLOW_INDEX: (&str, &str) = ("flow_index", "the [[flow]] of the scenario, or the [[workload]], from 0");
const RUN: (&str, &str) = ("run", "the number of the run");
const WARNINGS: (&str, &str) = ("warnings", "what makes the run doubtful");
const ERROR: (&str, &str) = ("error", "why the cell has no result, or what went wrong at the flow's ends");

/// All columns of a sweep's table.
pub(super) fn all(sweep: &Sweep) -> Vec<Column> {
    let new = |(name, meaning): (&str, &'static str), kind| Column { name: name.to_owned(), kind, meaning };
    let keys = sweep.axes().iter().flat_map(|axis| &axis.keys);
    let keys = keys.map(|key| Column { name: key.column(), kind: Kind::of(key.quantity), meaning: "" });
    let mut columns = vec![new(CELL, Kind::Integer)];
    columns.extend(keys);
    columns.extend([new(RUN, Kind::Integer), new(FLOW_INDEX, Kind::Integer)]);
    columns.extend(FLOW.iter().map(|Measure(name, kind, meaning, _)| new((name, meaning), *kind)));
    columns.extend([new(RELATIVE, Kind::Number), new(CLASS, Kind::Number)]);
    columns.extend(WORKLOAD.iter().map(|Measure(name, kind, meaning, _)| new((name, meaning), *kind)));
    columns.extend(LINK.iter().map(|Measure(name, kind, meaning, _)| new((name, meaning), *kind)));
    for place in 0..QUEUES {
        columns.extend(QUEUE.iter().map(|Measure(name, kind, meaning, _)| Column {
            name: format!("queue_{place}_{name}"),
            kind: *kind,
            meaning,
        }));
    }
    columns.extend([new(WARNINGS, Kind::Text), new(ERROR, Kind::Text)]);
    columns
}

/// The columns for the metadata.
pub(super) fn meta(columns: &[Column]) -> Vec<ColumnMeta> {
    let meta = |column: &Column| ColumnMeta {
        name: column.name.clone(),
        kind: column.kind.name(),
        meaning: column.meaning,
    };
    columns.iter().map(meta).collect()
}

/// What each row of a cell begins with.
fn head(sweep: &Sweep, cell: usize) -> Vec<Datum> {
    let place = sweep.cell(cell);
    let mut head = vec![count(cell as u64)];
    head.extend(sweep.chosen(place.combination).map(|(key, value)| value.datum(key.quantity)));
    head.push(count(place.run));
    head
}

/// Whose row it is: his place in the scenario and what came of him.
enum Of<'a> {
    Flow(usize, &'a FlowResult),
    Workload(usize, &'a WorkloadResult),
}

impl Of<'_> {
    /// The columns of flows and workloads.
    fn data(&self, measured: &Measured) -> Vec<Datum> {
        let none = Datum::Missing;
        match self {
            Self::Flow(index, flow) => std::iter::once(count(*index as u64))
                .chain(FLOW.iter().map(|measure| measure.3(flow)))
                .chain([number(measured.relative_throughput(flow)), number(measured.class_ratio(*index))])
                .chain(WORKLOAD.iter().map(|_| none.clone()))
                .collect(),
            Self::Workload(index, workload) => {
                let shared = |name| SHARED.iter().find(|(shared, _)| *shared == name);
                std::iter::once(count(*index as u64))
                    .chain(
                        FLOW.iter()
                            .map(|measure| shared(measure.0).map_or(none.clone(), |(_, of)| of(workload))),
                    )
                    .chain([none.clone(), none.clone()])
                    .chain(WORKLOAD.iter().map(|measure| measure.3(workload)))
                    .collect()
            }
        }
    }
}

/// The rows of a cell that was measured: one for each flow, then one for each workload.
pub(super) fn measured(sweep: &Sweep, cell: usize, measured: &Measured) -> Vec<Vec<Datum>> {
    let head = head(sweep, cell);
    let row = |of: Of| {
        let mut row = head.clone();
        row.extend(of.data(measured));
        row.extend(LINK.iter().map(|measure| measure.3(&measured.link)));
        for place in 0..QUEUES {
            let queue = measured.queues.get(place);
            row.extend(QUEUE.iter().map(|measure| queue.map_or(Datum::Missing, measure.3)));
        }
        let warnings = &measured.warnings;
        row.push(if warnings.is_empty() { Datum::Missing } else { Datum::Text(warnings.join("; ")) });
        let error = match of {
            Of::Flow(_, flow) => flow.error.clone(),
            Of::Workload(..) => None,
        };
        row.push(error.map_or(Datum::Missing, Datum::Text));
        row
    };
    let of_group = |(index, group): (usize, &Group)| {
        measured.flows.get(group.rows.clone()).into_iter().flatten().map(move |flow| Of::Flow(index, flow))
    };
    let flows = measured.groups.iter().enumerate().flat_map(of_group);
    let workloads = measured.workloads.iter().enumerate().map(|(index, one)| Of::Workload(index, one));
    flows.chain(workloads).map(row).collect()
}

/// The row of a cell that failed: nothing is measured, of no flow.
pub(super) fn failed(sweep: &Sweep, cell: usize, error: &str) -> Vec<Datum> {
    let mut row = head(sweep, cell);
    let columns = 1 + FLOW.len() + 2 + WORKLOAD.len() + LINK.len() + QUEUES * QUEUE.len() + 1;
    row.extend(std::iter::repeat_n(Datum::Missing, columns));
    row.push(text(error));
    row
}
