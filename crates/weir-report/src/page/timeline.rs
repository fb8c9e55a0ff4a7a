//! The verdict timeline: a row per flow, coloured by where the law had put it, with a tick for each vote.
//!
//! Drawn by hand: it is rectangles and one path per row, and plotting libraries have no such chart.

use std::fmt::Write;

use weir_law::MainSignal;

use crate::result::RunResult;

use super::charts::{Frame, WIDTH};
use super::palette::{Colour, FlowColours, GRID, INK, MUTED, RESPONSIVE, STANDARD, UNJUDGED};
use super::text::{escape, number, percent, shorten};

/// The most rows; further flows are only in the table.
pub(super) const ROWS: usize = 24;
const LEFT: f64 = 130.0;
const RIGHT: f64 = 14.0;
const ROW: f64 = 25.0;
const BAR: f64 = 9.0;
const TICK: f64 = 5.0;

/// How a flow stood from one moment to another.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    from_s: f64,
    to_s: f64,
    standing: Standing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Unjudged,
    Unresponsive,
    Responsive,
}

impl Standing {
    fn colour(self) -> Colour {
        match self {
            Standing::Unjudged => UNJUDGED,
            Standing::Unresponsive => STANDARD,
            Standing::Responsive => RESPONSIVE,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Standing::Unjudged => "not judged yet",
            Standing::Unresponsive => "unresponsive",
            Standing::Responsive => "responsive",
        }
    }
}

/// Where the flow begins and ends: its start and its completion, or the last time that the bottleneck carried it.
fn life(result: &RunResult, flow: usize) -> (f64, f64) {
    let start = result.flows[flow].start_s;
    let series = &result.series;
    let bins = series.flows.get(flow).map_or(&[][..], Vec::as_slice);
    let last = bins.iter().rposition(|bin| bin.departed_bytes > 0);
    let last = last.map_or(0.0, |last| series.begin_s(last + 1));
    let end = result.flows[flow].completed_s.unwrap_or(last);
    (start, end.max(start))
}

/// The flow's standing by its main signal's votes and its changes of queue. The queue counts where they differ: it is
/// what the flow felt.
fn stretches(result: &RunResult, flow: usize, signal: Option<&str>) -> Vec<Stretch> {
    let name = &result.flows[flow].name;
    let (start, end) = life(result, flow);
    let votes = result
        .assessments
        .iter()
        .filter(|row| row.flow == *name && signal.is_none_or(|signal| row.signal == signal));
    let votes = votes.map(|row| (row.time_s, None, row.class == "unresponsive"));
    let choices = result.choices.iter().filter(|row| row.flow == *name);
    let choices =
        choices.map(|row| (row.time_s, Some(!["standard", "demoted"].contains(&row.queue.as_str())), false));
    let mut events: Vec<(f64, Option<bool>, bool)> = votes.chain(choices).collect();
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut queue, mut judged) = (false, false);
    let mut out: Vec<Stretch> = vec![Stretch { from_s: start, to_s: end, standing: Standing::Unjudged }];
    for (time, choice, unresponsive) in events {
        queue = choice.unwrap_or(queue);
        judged |= unresponsive || queue;
        let standing = match (queue, judged) {
            (true, _) => Standing::Responsive,
            (false, true) => Standing::Unresponsive,
            (false, false) => Standing::Unjudged,
        };
        let time = time.clamp(start, end);
        if let Some(last) = out.last_mut().filter(|last| last.standing != standing) {
            last.to_s = time;
            out.push(Stretch { from_s: time, to_s: end, standing });
        }
    }
    out.retain(|stretch| stretch.to_s > stretch.from_s);
    out
}

/// The flows that get a row: those with most bytes, in the scenario's order.
fn rows(result: &RunResult) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..result.flows.len()).collect();
    rows.sort_by_key(|flow| std::cmp::Reverse(result.flows[*flow].received_bytes));
    rows.truncate(ROWS);
    rows.sort_unstable();
    rows
}

/// The timeline as an `<svg>` element.
pub(super) fn svg(frame: &Frame, label: &str, result: &RunResult, colours: &FlowColours) -> String {
    let signal = match result.meta.scenario.main_signal() {
        MainSignal::Ecn => Some("ecn"),
        MainSignal::Loss => Some("loss"),
        MainSignal::Both => None,
    };
    let rows = rows(result);
    let time = frame.time();
    let (_, end) = time.limits();
    let width = f64::from(WIDTH);
    let x = |seconds: f64| LEFT + (seconds / end).clamp(0.0, 1.0) * (width - LEFT - RIGHT);
    let bottom = 6.0 + rows.len() as f64 * ROW;
    let height = bottom + 44.0;
    let mut svg = format!(
        "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"Verdicts over time, {}\" font-family=\"sans-serif\">",
        escape(label)
    );
    // Writing to a string cannot fail.
    for tick in time.ticks() {
        let x = x(tick);
        let _ = write!(
            svg,
            "<path d=\"M{x:.1} 4V{bottom}\" stroke=\"{}\"/><text x=\"{x:.1}\" y=\"{}\" font-size=\"14\" \
             text-anchor=\"middle\" fill=\"{}\">{}</text>",
            GRID.hex(),
            bottom + 16.0,
            INK.hex(),
            time.label(tick)
        );
    }
    let middle = (LEFT + width - RIGHT) / 2.0;
    let _ = write!(
        svg,
        "<text x=\"{middle}\" y=\"{}\" font-size=\"14\" text-anchor=\"middle\" fill=\"{}\">time, s</text>",
        bottom + 36.0,
        MUTED.hex()
    );
    for (row, flow) in rows.into_iter().enumerate() {
        let top = 6.0 + row as f64 * ROW;
        row_svg(&mut svg, result, flow, signal, top, &x, colours);
    }
    svg.push_str("</svg>");
    svg
}

fn row_svg(
    svg: &mut String,
    result: &RunResult,
    flow: usize,
    signal: Option<&str>,
    top: f64,
    x: &dyn Fn(f64) -> f64,
    colours: &FlowColours,
) {
    let record = &result.flows[flow];
    let bar = top + (ROW - BAR) / 2.0;
    // Writing to a string cannot fail.
    let _ = write!(
        svg,
        "<rect x=\"2\" y=\"{}\" width=\"8\" height=\"8\" rx=\"2\" fill=\"{}\"/><text x=\"15\" y=\"{}\" \
         font-size=\"13\" fill=\"{}\">{}<title>{}</title></text>",
        top + (ROW - 8.0) / 2.0,
        colours.of(&record.name).hex(),
        top + ROW / 2.0 + 4.3,
        INK.hex(),
        escape(&shorten(&record.name, 16)),
        escape(&record.name)
    );
    for stretch in stretches(result, flow, signal) {
        let (from, to) = (x(stretch.from_s), x(stretch.to_s));
        let _ = write!(
            svg,
            "<rect x=\"{from:.1}\" y=\"{bar}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{}\"><title>{}: {} from {} to {} s\n\
             responsive {} of its time</title></rect>",
            (to - from).max(0.8),
            stretch.standing.colour().hex(),
            escape(&record.name),
            stretch.standing.name(),
            number(stretch.from_s),
            number(stretch.to_s),
            percent(record.responsive_time)
        );
    }
    // One tick per half pixel is as much as can be seen.
    for (responsive, colour, from) in
        [(true, RESPONSIVE, bar - TICK - 0.5), (false, STANDARD, bar + BAR + 0.5)]
    {
        let votes = result
            .assessments
            .iter()
            .filter(|row| row.flow == record.name && row.responsive == responsive)
            .filter(|row| signal.is_none_or(|signal| row.signal == signal));
        let mut places: Vec<i64> = votes.map(|row| (x(row.time_s) * 2.0).round() as i64).collect();
        places.dedup();
        if !places.is_empty() {
            let path = places.iter().map(|place| format!("M{} {from}v{TICK}", *place as f64 / 2.0));
            let _ = write!(svg, "<path d=\"{}\" stroke=\"{}\"/>", path.collect::<String>(), colour.hex());
        }
    }
}

/// Whether the law judged or moved anything, so that there is something to show.
pub(super) fn has_content(result: &RunResult) -> bool {
    !result.assessments.is_empty() || !result.choices.is_empty()
}

/// How many flows have no row.
pub(super) fn left_out(result: &RunResult) -> usize {
    result.flows.len().saturating_sub(ROWS)
}
