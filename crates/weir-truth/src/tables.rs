//! The tables of figure `law/accuracy`: what became of each class, and how often the law is right by controller, queue
//! and transport; and the first of them as a picture.

use std::collections::BTreeMap;
use std::fmt::Write;

use weir_report::page::{Positions, SpreadLine, SpreadPoint, escape, spread_chart, spread_legend};
use weir_report::summary::{render, table};

use crate::seen::{Flow, Seen};
use crate::tally::Tally;
use crate::truth::classes;

/// A table for the terminal and the page.
#[derive(Clone, Debug)]
pub struct Grid {
    /// What it is of.
    pub title: String,
    /// Of its columns.
    pub header: Vec<String>,
    /// Each with as many cells.
    pub rows: Vec<Vec<String>>,
}

/// All tables.
pub fn all(presets: &[&str], flows: &[Flow]) -> Vec<Grid> {
    let mut grids: Vec<Grid> = presets.iter().map(|preset| confusion(preset, flows)).collect();
    grids.push(parts("Right by controller", presets, flows, |flow| flow.seen.controller.clone()));
    grids.push(parts("Right by queue", presets, flows, |flow| flow.queue.clone()));
    grids.push(parts("Right by transport", presets, flows, |flow| flow.seen.transport.to_owned()));
    grids
}

/// The share of right verdicts by class, with its interval, for the page.
pub fn chart(presets: &[&str], flows: &[Flow]) -> String {
    let of = |preset: &str, class: &str| {
        let here = flows.iter().filter(|flow| flow.preset == preset && flow.seen.class == class);
        Tally::of(here.map(|flow| &flow.seen))
    };
    let is_there = |class: &&str| flows.iter().any(|flow| flow.seen.class == *class);
    let there: Vec<&str> = classes().filter(is_there).collect();
    let line = |preset: &&str| {
        let tallies = there.iter().map(|class| of(preset, class)).enumerate();
        let point = |(place, tally): (usize, Tally)| {
            let share = tally.percent(tally.right);
            SpreadPoint::within(place, share, tally.interval(tally.right), tally.words())
        };
        let points = tallies.filter(|(_, tally)| tally.flows > 0).map(point);
        SpreadLine { name: (*preset).to_owned(), points: points.collect() }
    };
    let lines: Vec<SpreadLine> = presets.iter().map(line).collect();
    let positions = Positions::Names(there.iter().map(|class| (*class).to_owned()).collect());
    let names: Vec<String> = lines.iter().map(|line| line.name.clone()).collect();
    format!(
        "<section><h2>Right verdicts by class</h2>{}{}<p class=\"note\">Dot: share of flows with the right verdict; \
         bar: 95 % confidence. Hover a dot for its numbers.</p></section>",
        spread_chart("Right verdicts by class", &positions, "right (%)", 100.0, &lines),
        if names.len() > 1 { spread_legend(&names) } else { String::new() }
    )
}

fn some(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// What the law made of each class.
fn confusion(preset: &str, flows: &[Flow]) -> Grid {
    let header = [
        "class",
        "flows",
        "right %",
        "95 %",
        "responsive %",
        "unresponsive %",
        "unclassified %",
        "never judged %",
        "round trips",
        "right time %",
    ];
    let rows = classes().filter_map(|class| {
        let here = flows.iter().filter(|flow| flow.preset == preset && flow.seen.class == class);
        let tally = Tally::of(here.map(|flow| &flow.seen));
        let share = |of: u64| format!("{:.1}", tally.percent(of));
        let [low, high] = tally.interval(tally.right);
        (tally.flows > 0).then(|| {
            vec![
                class.to_owned(),
                tally.flows.to_string(),
                share(tally.right),
                format!("{low:.1} to {high:.1}"),
                share(tally.responsive),
                share(tally.unresponsive),
                share(tally.unclassified()),
                share(tally.never),
                some(tally.round_trips(), 1),
                some(tally.right_time(), 1),
            ]
        })
    });
    Grid { title: format!("Preset {preset}"), header: header.map(str::to_owned).into(), rows: rows.collect() }
}

/// How often the law is right about parts of the flows. Those that ask for less than a share are left out.
fn parts(title: &str, presets: &[&str], flows: &[Flow], part: impl Fn(&Flow) -> String) -> Grid {
    let mut all: BTreeMap<String, BTreeMap<&str, Vec<&Flow>>> = BTreeMap::new();
    for flow in flows.iter().filter(|flow| flow.seen.class != "meek") {
        all.entry(part(flow)).or_default().entry(flow.preset).or_default().push(flow);
    }
    let rows = all.into_iter().map(|(part, by_preset)| {
        let of = |preset: &&str| {
            let flows = by_preset.get(*preset).into_iter().flatten();
            Tally::of(flows.map(|flow| &flow.seen)).words()
        };
        std::iter::once(part).chain(presets.iter().map(of)).collect()
    });
    let header = std::iter::once("").chain(presets.iter().copied()).map(str::to_owned);
    Grid {
        title: format!("{title} (95 % interval) of flows"),
        header: header.collect(),
        rows: rows.collect(),
    }
}

/// The parts of the flows, by controller, queue or transport, that have `least` flows or more and in which less than so
/// many percent are right: the worst first, each in words.
pub fn weakest<'a>(flows: impl Iterator<Item = &'a Flow>, least: u64, percent: f64) -> Vec<String> {
    let mut parts: BTreeMap<&str, Vec<&Seen>> = BTreeMap::new();
    for Flow { queue, seen, .. } in flows {
        for part in [seen.controller.as_str(), queue, seen.transport] {
            parts.entry(part).or_default().push(seen);
        }
    }
    let tallies = parts.into_iter().map(|(part, seen)| (part, Tally::of(seen)));
    let mut weak: Vec<(f64, String)> = tallies
        .filter(|(_, tally)| tally.flows >= least)
        .map(|(part, tally)| (tally.percent(tally.right), format!("{part} {}", tally.words())))
        .filter(|(share, _)| *share < percent)
        .collect();
    weak.sort_by(|one, other| one.0.total_cmp(&other.0));
    weak.into_iter().map(|(_, words)| words).collect()
}

/// For the terminal.
pub fn text(grids: &[Grid]) -> String {
    let one = |grid: &Grid| {
        let header: Vec<&str> = grid.header.iter().map(String::as_str).collect();
        let mut out = table(&header);
        grid.rows.iter().for_each(|row| {
            out.add_row(row);
        });
        format!("{}\n{}", grid.title, render(&out))
    };
    grids.iter().map(one).collect::<Vec<_>>().join("\n\n")
}

/// For the page.
pub fn html(grids: &[Grid]) -> String {
    let mut html = String::new();
    for grid in grids {
        let _ =
            write!(html, "<section><h2>{}</h2><div class=\"scroll\"><table><thead><tr>", escape(&grid.title));
        for title in &grid.header {
            let _ = write!(html, "<th>{}</th>", escape(title));
        }
        html.push_str("</tr></thead><tbody>");
        for row in &grid.rows {
            html.push_str("<tr>");
            for cell in row {
                let _ = write!(html, "<td>{}</td>", escape(cell));
            }
            html.push_str("</tr>");
        }
        html.push_str("</tbody></table></div></section>");
    }
    html
}
