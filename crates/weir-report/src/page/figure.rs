//! Charts for figures of the papers: a table of the paper's numbers beside ours, and points per run against a
//! reference.

use std::fmt::Write;

use super::palette::{RESPONSIVE, STANDARD};
use super::plot::{Axis, Mark, Overlay, Plot};
use super::text::{escape, number};

/// A table with the paper's number, ours and the difference in each cell, coloured by how well they agree: within
/// `tolerance` (in the unit of the numbers), within twice that, or beyond. The sign in each cell says the same without
/// colour. `ours` and `paper` are rows of cells; a cell that is missing or `None` shows a dash and has no colour.
/// Returns HTML for [`page`](super::page).
pub fn heat_table(
    rows: &[String],
    columns: &[String],
    ours: &[Vec<Option<f64>>],
    paper: &[Vec<Option<f64>>],
    tolerance: f64,
) -> String {
    let mut out = "<div class=\"scroll\"><table class=\"heat\"><thead><tr><th></th>".to_owned();
    for column in columns {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(column));
    }
    out.push_str("</tr></thead><tbody>");
    let cell = |table: &[Vec<Option<f64>>], row: usize, column: usize| {
        table
            .get(row)
            .and_then(|cells| cells.get(column))
            .copied()
            .flatten()
            .filter(|value| value.is_finite())
    };
    for (row, name) in rows.iter().enumerate() {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(name));
        for column in 0..columns.len() {
            let (paper, ours) = (cell(paper, row, column), cell(ours, row, column));
            let show = |value: Option<f64>| value.map_or_else(|| "\u{2013}".to_owned(), tidy);
            let (class, difference) = match (paper, ours) {
                (Some(paper), Some(ours)) => {
                    let difference = ours - paper;
                    let sign = if difference < 0.0 { "\u{2212}" } else { "+" };
                    let (class, mark) = agreement(difference, tolerance);
                    (class, format!("{sign}{} {mark}", tidy(difference.abs())))
                }
                _ => ("none", String::new()),
            };
            let _ = write!(
                out,
                "<td class=\"{class}\">{} / <b>{}</b><br><small>{difference}</small></td>",
                show(paper),
                show(ours)
            );
        }
        out.push_str("</tr>");
    }
    let tolerance = tidy(tolerance);
    let _ = write!(
        out,
        "</tbody></table></div><p class=\"note\">paper / <b>ours</b>, and the difference: \u{2713} within {tolerance}, ~ \
         within twice that, \u{2717} beyond.</p>"
    );
    out
}

fn agreement(difference: f64, tolerance: f64) -> (&'static str, &'static str) {
    match difference.abs() {
        // What the numbers' own rounding in floating point adds must not decide.
        size if size <= tolerance * (1.0 + 1e-9) => ("agrees", "\u{2713}"),
        size if size <= 2.0 * tolerance * (1.0 + 1e-9) => ("near", "~"),
        _ => ("differs", "\u{2717}"),
    }
}

/// At most two decimals, fewer for large numbers, none that are zero; a real minus sign.
fn tidy(value: f64) -> String {
    let size = value.abs();
    let text = if size >= 100.0 { format!("{size:.0}") } else { format!("{size:.2}") };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if value < 0.0 && text != "0" { format!("\u{2212}{text}") } else { text.to_owned() }
}

/// One column of a strip plot: the runs of one case.
#[derive(Clone, Debug, Default)]
pub struct StripColumn {
    /// What neighbouring columns have in common, such as stack and controller; written once below them.
    pub group: String,
    /// What distinguishes them, such as the round-trip time.
    pub label: String,
    /// One value per run.
    pub points: Vec<f64>,
    /// What the paper reports, if it reports this case.
    pub paper: Option<f64>,
}

/// One panel of a strip plot, such as a queue discipline.
#[derive(Clone, Debug, Default)]
pub struct StripPanel {
    /// Written above it.
    pub title: String,
    /// From left to right; columns of a group stand together.
    pub columns: Vec<StripColumn>,
}

/// Panels with a point per run, the median of each column as a line, and the paper's number as a dashed one. All share
/// the y axis from `range.0` to `range.1`, described as `y`. Returns HTML for [`page`](super::page): an `<svg>` per
/// panel and a legend.
pub fn strip_plot(panels: &[StripPanel], y: &str, range: (f64, f64)) -> String {
    let mut out = "<div class=\"grid\">".to_owned();
    for panel in panels {
        let _ = write!(
            out,
            "<figure><figcaption>{}</figcaption>{}</figure>",
            escape(&panel.title),
            strip(panel, y, range)
        );
    }
    let _ = write!(
        out,
        "</div><p class=\"note\">{} one run; line: median of the runs; {} the paper. Hover a point for its value.</p>",
        super::tables::swatch(RESPONSIVE),
        super::tables::swatch(STANDARD)
    );
    out
}

fn strip(panel: &StripPanel, y: &str, range: (f64, f64)) -> String {
    let columns = &panel.columns;
    let (mut marks, mut overlays) = (Vec::new(), Vec::new());
    let unit = unit(columns);
    for (index, column) in columns.iter().enumerate() {
        let middle = index as f64 + 0.5;
        let text = column.label.strip_suffix(unit).unwrap_or(&column.label).trim_end().to_owned();
        overlays.push(Overlay::Below { x: middle, line: 0, text, strong: false });
        if let Some(paper) = column.paper {
            marks.push(Mark::Line {
                colour: STANDARD,
                width: 3.0,
                runs: vec![
                    vec![(middle - 0.4, paper), (middle - 0.14, paper)],
                    vec![(middle + 0.14, paper), (middle + 0.4, paper)],
                ],
            });
        }
        let mut sorted: Vec<f64> = column.points.iter().copied().filter(|point| point.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        if let Some(median) = median(&sorted) {
            let run = vec![(middle - 0.28, median), (middle + 0.28, median)];
            marks.push(Mark::Line { colour: RESPONSIVE, width: 2.0, runs: vec![run] });
        }
        for (run, value) in column.points.iter().enumerate().filter(|(_, value)| value.is_finite()) {
            // Points of equal value would hide each other, so they are spread over the column in order.
            let spread = (run as f64 + 0.5) / column.points.len() as f64 - 0.5;
            let paper = column.paper.map_or_else(String::new, |paper| format!(" (paper: {})", number(paper)));
            let title =
                format!("{} {}, run {}: {}{paper}", column.group, column.label, run + 1, number(*value));
            overlays.push(Overlay::Dot { colour: RESPONSIVE, x: middle + spread * 0.4, y: *value, title });
        }
    }
    // Labels need some 40 pixels each, and 8 for each letter of what a group has in common.
    let (mut start, mut place) = (0, 42);
    while start < columns.len() {
        let same = columns[start..].iter().take_while(|column| column.group == columns[start].group).count();
        let x = start as f64 + same as f64 / 2.0;
        let group = &columns[start].group;
        let text = if unit.is_empty() { group.clone() } else { format!("{group}, {unit}") };
        place = place.max((8 * text.chars().count()).div_ceil(same));
        overlays.push(Overlay::Below { x, line: 1, text, strong: true });
        start += same;
    }
    let x = Axis::linear(0.0, columns.len().max(1) as f64, "").without_ticks();
    // Wide panels take the whole width of the page.
    let width = ((80 + place * columns.len()) as u32).clamp(super::charts::WIDTH, 4000);
    Plot {
        title: panel.title.clone(),
        width,
        height: 270,
        x,
        y: Axis::linear(range.0, range.1, y),
        marks,
        overlays,
    }
    .svg()
}

/// The last word of all labels, if they share it and are too long for their places with it; it then stands once for each
/// group.
fn unit(columns: &[StripColumn]) -> &str {
    const LETTERS: usize = 6;
    let mut words = columns.iter().map(|column| column.label.rsplit_once(' ').map(|(_, word)| word));
    let first = words.next().flatten();
    let is_long = columns.iter().any(|column| column.label.len() > LETTERS);
    first.filter(|first| is_long && words.all(|word| word == Some(first))).unwrap_or_default()
}

fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::{StripColumn, StripPanel, heat_table, strip_plot};

    #[test]
    fn cells_are_coloured_by_agreement() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let ours = vec![vec![Some(0.30), Some(0.10)], vec![Some(-0.65), None]];
        let paper = vec![vec![Some(0.35), Some(0.20)], vec![Some(0.0), Some(0.5)]];
        let html = heat_table(&names(&["a", "<b>"]), &names(&["10 ms", "50 ms"]), &ours, &paper, 0.05);
        for expected in [
            "<td class=\"agrees\">0.35 / <b>0.3</b><br><small>\u{2212}0.05 \u{2713}</small>",
            "<td class=\"near\">0.2 / <b>0.1</b>",
            "<td class=\"differs\">0 / <b>\u{2212}0.65</b>",
            "<td class=\"none\">0.5 / <b>\u{2013}</b>",
            "&lt;b&gt;",
        ] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
    }

    #[test]
    fn every_run_is_a_point_and_groups_are_named_once() {
        let column = |label: &str, points: &[f64]| StripColumn {
            group: "TCP <cubic>".to_owned(),
            label: label.to_owned(),
            points: points.to_vec(),
            paper: Some(90.0),
        };
        let columns = vec![column("10 ms", &[80.0, 85.0, f64::NAN]), column("50 ms", &[99.0])];
        let html = strip_plot(&[StripPanel { title: "FIFO".to_owned(), columns }], "score", (0.0, 100.0));
        assert_eq!(html.matches("<circle").count(), 3);
        assert_eq!(html.matches(">TCP &lt;cubic&gt;</text>").count(), 1);
        assert!(html.contains("run 2: 85.0 (paper: 90.0)") && !html.contains("<cubic>"));
        // Too long for its place.
        let columns = vec![column("1 packets", &[80.0]), column("26 packets", &[99.0])];
        let html = strip_plot(&[StripPanel { title: "FIFO".to_owned(), columns }], "score", (0.0, 100.0));
        for text in
            [">1</text>", ">26</text>", ">TCP &lt;cubic&gt;, packets</text>", "26 packets, run 1: 99.0"]
        {
            assert!(html.contains(text), "{text}: {html}");
        }
    }
}
