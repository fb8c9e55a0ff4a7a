//! The table's columns: heads, cells, order of rows, and which fit into a terminal's width.

use std::cmp::Ordering;

use super::sample::Row;
use crate::show::numbers::{per_second, short, three};
use weir_core::QueueChoice;
use weir_kernel::model::Flow;
use weir_law::Verdict;

/// A column of the flow table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Source,
    Destination,
    Protocol,
    Class,
    Queue,
    Rate,
    Rtt,
    Loss,
    Mark,
    Votes,
    LossRate,
    MarkRate,
    Cycles,
    Idle,
}

/// Addresses with ports are cut to no less.
const LEAST_END: usize = 16;
/// An IPv4 address with its port.
const FULL_END: usize = 21;

/// Three numbers of three digits.
const WIDEST_SIGNALS: usize = 11;

/// Three counts, thousands as such.
fn three_of(counts: [u32; 3]) -> String {
    let short = |count: u32| if count < 1000 { count.to_string() } else { format!("{}k", count / 1000) };
    counts.map(short).join("/")
}

impl Column {
    /// All, in the table's order, which is that of importance too.
    pub(crate) const ALL: [Self; 14] = [
        Self::Source,
        Self::Destination,
        Self::Protocol,
        Self::Class,
        Self::Queue,
        Self::Rate,
        Self::Rtt,
        Self::Loss,
        Self::Mark,
        Self::Votes,
        Self::LossRate,
        Self::MarkRate,
        Self::Cycles,
        Self::Idle,
    ];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Source => "SOURCE",
            Self::Destination => "DESTINATION",
            Self::Protocol => "PROTO",
            Self::Class => "CLASS",
            Self::Queue => "QUEUE",
            Self::Rate => "RATE",
            Self::Rtt => "RTTms",
            Self::Loss => "LOST",
            Self::Mark => "CE",
            Self::Votes => "VOTES",
            Self::LossRate => "LOST/s",
            Self::MarkRate => "CE/s",
            Self::Cycles => "CYCLES",
            Self::Idle => "IDLE s",
        }
    }

    /// What it means, for the help.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Source => "where the queued packets come from",
            Self::Destination => "where they go",
            Self::Protocol => "tcp or quic",
            Self::Class => "answers to loss/to marks: R does, U does not, - not known",
            Self::Queue => "resp(onsive) or stand(ard)",
            Self::Rate => "payload, bit/s since the look before",
            Self::Rtt => "length of the last whole cycle, ms",
            Self::Loss => "lost segments of this cycle and the two before",
            Self::Mark => "marked segments of these cycles",
            Self::Votes => "votes for:against, of the signal that chooses the queue",
            Self::LossRate => "lost segments per second, last two whole cycles",
            Self::MarkRate => "marked segments per second, likewise",
            Self::Cycles => "round trips seen",
            Self::Idle => "time since its last packet, s",
        }
    }

    /// Columns other than the two ends have a fixed width.
    pub(crate) const fn width(self) -> usize {
        match self {
            Self::Source | Self::Destination => FULL_END,
            Self::Protocol | Self::Class | Self::Queue | Self::Rate | Self::Rtt => 5,
            Self::Loss | Self::Mark | Self::Votes => 7,
            Self::LossRate | Self::MarkRate | Self::Cycles | Self::Idle => 6,
        }
    }

    /// Text stands left, numbers right.
    pub(crate) const fn is_text(self) -> bool {
        matches!(self, Self::Source | Self::Destination | Self::Protocol | Self::Class | Self::Queue)
    }

    /// Segments lost or marked widen their columns, within limits.
    fn width_with(self, signals: usize) -> usize {
        match self {
            Self::Loss | Self::Mark => signals.clamp(self.width(), WIDEST_SIGNALS),
            _ => self.width(),
        }
    }

    /// The cell of a row. `by_mark` if marks choose the queue.
    pub(crate) fn cell(self, row: &Row, by_mark: bool) -> String {
        let flow = &row.flow;
        let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        match self {
            Self::Source => flow.source.clone(),
            Self::Destination => flow.destination.clone(),
            Self::Protocol => flow.protocol.to_owned(),
            Self::Class => format!("{}/{}", letter(flow.loss_verdict), letter(flow.ecn_verdict)),
            Self::Queue => match flow.queue {
                QueueChoice::Responsive | QueueChoice::EcnResponsive => "resp".to_owned(),
                QueueChoice::Standard => "stand".to_owned(),
            },
            Self::Rate => or_none(row.bits_per_second.map(short)),
            Self::Rtt => or_none(flow.rtt_ms.map(three)),
            Self::Loss => three_of(flow.loss_segments),
            Self::Mark => three_of(flow.mark_segments),
            Self::Votes => {
                let votes = if by_mark { flow.ecn_votes } else { flow.loss_votes };
                format!("{}:{}", votes.responsive, votes.unresponsive)
            }
            Self::LossRate => or_none(row.losses_per_second.map(per_second)),
            Self::MarkRate => or_none(row.marks_per_second.map(per_second)),
            Self::Cycles => flow.cycles.to_string(),
            Self::Idle if flow.idle_s >= 9.95 => format!("{:.0}", flow.idle_s),
            Self::Idle => format!("{:.1}", flow.idle_s),
        }
    }

    /// How two rows are ordered by this column: texts from A, numbers from the largest.
    pub(crate) fn compare(self, a: &Row, b: &Row, by_mark: bool) -> Ordering {
        let (one, two) = (&a.flow, &b.flow);
        let numbers = |read: &dyn Fn(&Row) -> Option<f64>| {
            let value = |row| read(row).unwrap_or(f64::NEG_INFINITY);
            value(b).total_cmp(&value(a))
        };
        let sum = |values: [u32; 3]| Some(values.into_iter().map(f64::from).sum());
        match self {
            Self::Source => one.source.cmp(&two.source),
            Self::Destination => one.destination.cmp(&two.destination),
            Self::Protocol => one.protocol.cmp(two.protocol),
            Self::Class => {
                let rank = |flow: &Flow| [flow.loss_verdict, flow.ecn_verdict].map(rank);
                rank(one).cmp(&rank(two))
            }
            Self::Queue => one.queue.name().cmp(two.queue.name()),
            Self::Rate => numbers(&|row| row.bits_per_second),
            Self::Rtt => numbers(&|row| row.flow.rtt_ms),
            Self::Loss => numbers(&|row| sum(row.flow.loss_segments)),
            Self::Mark => numbers(&|row| sum(row.flow.mark_segments)),
            Self::Votes => numbers(&|row| {
                let votes = if by_mark { row.flow.ecn_votes } else { row.flow.loss_votes };
                Some(f64::from(votes.responsive) - f64::from(votes.unresponsive))
            }),
            Self::LossRate => numbers(&|row| row.losses_per_second),
            Self::MarkRate => numbers(&|row| row.marks_per_second),
            Self::Cycles => numbers(&|row| Some(row.flow.cycles.into())),
            Self::Idle => numbers(&|row| Some(row.flow.idle_s)),
        }
    }

    fn at(self) -> usize {
        Self::ALL.iter().position(|column| *column == self).unwrap_or(0)
    }

    /// The column after (or before) this one, round and round.
    pub(crate) fn step(self, forward: bool) -> Self {
        let count = Self::ALL.len();
        Self::ALL[(self.at() + if forward { 1 } else { count - 1 }) % count]
    }
}

/// The columns that fit into `width`, with their widths. The ends always do; of the others the first `skipped` are left
/// out, and then as many are taken as leave the ends readable. `rows` are those of the table.
pub(crate) fn fit(width: usize, rows: &[Row], skipped: usize) -> Vec<(Column, usize)> {
    let flows = || rows.iter().map(|row| &row.flow);
    let ends = flows().map(|flow| flow.source.len().max(flow.destination.len())).max();
    let signals = flows().flat_map(|flow| [flow.loss_segments, flow.mark_segments]);
    let signals = signals.map(|counts| three_of(counts).len()).max();
    fit_lengths(width, ends.unwrap_or(0), signals.unwrap_or(0), skipped)
}

fn fit_lengths(width: usize, ends: usize, signals: usize, skipped: usize) -> Vec<(Column, usize)> {
    const ESSENTIAL: usize = 9;
    let ends = ends.max(Column::Destination.title().len());
    let mut fitting = vec![Column::Source, Column::Destination];
    let mut taken = 0;
    for column in Column::ALL.into_iter().skip(2 + skipped) {
        // What matters most may shorten the ends; the rest may not.
        let essential = column.at() < ESSENTIAL + skipped;
        let end = ends.min(if essential { LEAST_END } else { FULL_END });
        if taken + 1 + column.width_with(signals) + 2 * end + 1 > width {
            break;
        }
        taken += 1 + column.width_with(signals);
        fitting.push(column);
    }
    let end = (width.saturating_sub(taken + 1) / 2).min(ends);
    fitting
        .into_iter()
        .map(|column| match column {
            Column::Source | Column::Destination => (column, end),
            _ => (column, column.width_with(signals)),
        })
        .collect()
}

/// `text` in `width` characters; what is cut off is cut off at the front, where addresses differ least.
pub(crate) fn clipped(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    match width {
        0 => String::new(),
        _ => std::iter::once('…').chain(text.chars().skip(count - (width - 1))).collect(),
    }
}

/// One letter for a verdict.
const fn letter(verdict: Verdict) -> char {
    match verdict {
        Verdict::Responsive => 'R',
        Verdict::Unresponsive => 'U',
        Verdict::Unclassified => '-',
    }
}

/// The order of verdicts in a sorted table.
const fn rank(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Responsive => 0,
        Verdict::Unresponsive => 1,
        Verdict::Unclassified => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::{Column, clipped, fit_lengths, three_of};

    fn width(columns: &[(Column, usize)]) -> usize {
        columns.iter().map(|(_, width)| width).sum::<usize>() + columns.len() - 1
    }

    #[test]
    fn eighty_characters_hold_what_matters_most() {
        let columns = fit_lengths(80, 21, 5, 0);
        assert_eq!(columns.len(), 9);
        assert_eq!(columns.last().unwrap().0, Column::Mark);
        assert_eq!((width(&columns), columns[0].1), (79, 16));
        // Short addresses leave room for more.
        assert!(fit_lengths(80, 11, 5, 0).len() > 9);
        assert_eq!(fit_lengths(200, 21, 5, 0).len(), Column::ALL.len());
    }

    #[test]
    fn columns_never_exceed_the_width() {
        for terminal in 20..220 {
            for ends in [5, 14, 21, 47] {
                for skipped in 0..12 {
                    let columns = fit_lengths(terminal, ends, ends / 2, skipped);
                    assert!(width(&columns) <= terminal, "{terminal} {ends} {skipped}: {columns:?}");
                }
            }
        }
        // What is left out at the left makes room at the right.
        assert!(fit_lengths(80, 21, 5, 4).iter().any(|(column, _)| *column == Column::Votes));
        assert_eq!(fit_lengths(80, 21, 5, 11).last().unwrap().0, Column::Idle);
    }

    #[test]
    fn many_signals_have_more_room() {
        assert_eq!(three_of([562, 1999, 0]), "562/1k/0");
        let mark = |signals| fit_lengths(120, 21, signals, 0)[8];
        assert_eq!([5, 9, 40].map(mark), [(Column::Mark, 7), (Column::Mark, 9), (Column::Mark, 11)]);
    }

    #[test]
    fn sorting_goes_round_all_columns() {
        let mut column = Column::Source;
        for _ in Column::ALL {
            assert_eq!(column.step(true).step(false), column);
            column = column.step(true);
        }
        assert_eq!(column, Column::Source);
    }

    #[test]
    fn addresses_keep_their_ends() {
        assert_eq!(clipped("192.168.100.200:51234", 16), "…8.100.200:51234");
        assert_eq!(clipped("10.0.0.1:80", 16), "10.0.0.1:80");
        assert_eq!((clipped("abc", 1), clipped("abc", 0)), ("…".to_owned(), String::new()));
    }
}
