//! The columns of a sweep's table: cell and keys, then what the flow came to, then the link.

use super::record::{Link, Measured};
use super::values::{Datum, Quantity};
use super::{ColumnMeta, Sweep};
use crate::result::FlowResult;

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
    Measure("rtt_p50_ms", Kind::Number, "median of the sender's smoothed round-trip time", |flow| {
        number(flow.rtt_p50_ms)
    }),
    Measure("rtt_p99_ms", Kind::Number, "99th percentile of the same", |flow| number(flow.rtt_p99_ms)),
    Measure("offered_packets", Kind::Integer, "packets of the flow offered to the queue", |flow| {
        count(flow.packets)
    }),
    Measure("dropped_packets", Kind::Integer, "of these dropped", |flow| count(flow.dropped)),
    Measure("marked_packets", Kind::Integer, "of these marked CE", |flow| count(flow.marked)),
    Measure("responsive_time", Kind::Number, "share of time in which the flow stood as responsive", |flow| {
        number(Some(flow.responsive_time))
    }),
    Measure("class_ecn", Kind::Text, "the law's verdict at the end, by marks", |flow| text(&flow.class_ecn)),
    Measure("class_loss", Kind::Text, "the law's verdict at the end, by losses", |flow| {
        text(&flow.class_loss)
    }),
];

const LINK: &[Measure<Link>] = &[
    Measure("run_duration_s", Kind::Number, "how long the run took, in the time of its world", |link| {
        number(Some(link.duration_s))
    }),
    Measure("queue_delay_mean_ms", Kind::Number, "mean sojourn time of all packets that departed", |link| {
        number(link.delay_mean_ms)
    }),
    Measure("queue_delay_p50_ms", Kind::Number, "median of the same, at most 3 % too high", |link| {
        number(link.delay_p50_ms)
    }),
    Measure(
        "queue_delay_p99_ms",
        Kind::Number,
        "99th percentile of the same, at most 3 % too high",
        |link| number(link.delay_p99_ms),
    ),
    Measure("queue_delay_max_ms", Kind::Number, "the longest", |link| number(link.delay_max_ms)),
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

const CELL: (&str, &str) = ("cell", "the cell's number, from 0");
const FLOW_INDEX: (&str, &str) = ("flow_index", "the [[flow]] of the scenario, from 0");
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
    columns.extend(LINK.iter().map(|Measure(name, kind, meaning, _)| new((name, meaning), *kind)));
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

/// The rows of a cell that was measured: one for each flow, or one of the link alone if there is no flow.
pub(super) fn measured(sweep: &Sweep, cell: usize, measured: &Measured) -> Vec<Vec<Datum>> {
    let head = head(sweep, cell);
    let row = |flow: Option<(&FlowResult, &usize)>| {
        let mut row = head.clone();
        row.push(flow.map_or(Datum::Missing, |(_, index)| count(*index as u64)));
        row.extend(FLOW.iter().map(|measure| flow.map_or(Datum::Missing, |(flow, _)| measure.3(flow))));
        row.extend(LINK.iter().map(|measure| measure.3(&measured.link)));
        let warnings = &measured.warnings;
        row.push(if warnings.is_empty() { Datum::Missing } else { Datum::Text(warnings.join("; ")) });
        let error = flow.and_then(|(flow, _)| flow.error.clone());
        row.push(error.map_or(Datum::Missing, Datum::Text));
        row
    };
    if measured.flows.is_empty() {
        return vec![row(None)];
    }
    measured.flows.iter().zip(&measured.of).map(|flow| row(Some(flow))).collect()
}

/// The row of a cell that failed: nothing is measured, of no flow.
pub(super) fn failed(sweep: &Sweep, cell: usize, error: &str) -> Vec<Datum> {
    let mut row = head(sweep, cell);
    row.extend(std::iter::repeat_n(Datum::Missing, 1 + FLOW.len() + LINK.len() + 1));
    row.push(text(error));
    row
}
