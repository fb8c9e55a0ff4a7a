//! A sweep as a page: for each setting of the keys from the third on, goodput and delay over the first key, with a
//! line for each value of the second.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::summary::{FLOWS, Summary, flow_names, identical};
use super::{Spread, Sweep, SweepResult};
use weir_report::page::{self, MOST_LINES, Positions, SpreadLine, SpreadPoint, escape};

const MBIT: &str = "Mbit/s";

/// Settings that are drawn; more are for a tool that reads the table.
const SETTINGS: usize = 24;

type Of = Box<dyn Fn(&Summary) -> Option<Spread>>;

/// Something that is drawn: its name, its unit, and where it comes from.
struct Measure {
    name: String,
    unit: &'static str,
    value: Of,
}

/// The page.
pub(super) fn html(sweep: &Sweep, result: &SweepResult) -> String {
    let meta = &result.meta;
    let runs = |count: u64| if count == 1 { "1 run each".to_owned() } else { format!("{count} runs each") };
    let mut body = format!(
        "<header><h1>{}</h1><p class=\"subtitle\">{} combinations, {}; world {}, {}weir {}.</p></header>\n",
        escape(&meta.name),
        meta.combinations,
        runs(meta.repeat),
        escape(&meta.world),
        meta.seed.map_or_else(String::new, |seed| format!("seed {seed}, ")),
        escape(&meta.version),
    );
    let lacking = [
        (meta.missing_cells, "cells have not run: the sweep was interrupted"),
        (meta.failed_cells.len(), "cells failed; the table says why"),
        (meta.doubtful_cells, "cells are doubtful; the table says why"),
    ];
    let lacking: String = lacking
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("<li>{count} of {} {what}</li>", meta.cells))
        .collect();
    if !lacking.is_empty() {
        let _ = writeln!(
            body,
            "<section class=\"warning\" role=\"alert\"><h2>\u{26a0} Not complete</h2><ul>{lacking}</ul></section>"
        );
    }
    let spread = if meta.repeat > 1 && !result.summaries.iter().all(|summary| summary.identical_runs) {
        "Dot: mean over the runs; bar: standard deviation to both sides. "
    } else {
        ""
    };
    let identical = identical(&result.summaries).map_or_else(String::new, |text| format!("{text} "));
    let _ = write!(
        body,
        "<p class=\"note\">{spread}{identical}Hover a dot for its numbers. All numbers are in <code>sweep.csv</code> and <code>sweep.parquet</code>.</p>"
    );
    body.push_str(&charts(sweep, &result.summaries));
    let _ = write!(
        body,
        "<section><h2>How to run it again</h2><details><summary>The sweep</summary><pre>{}</pre></details>\
         <details><summary>The scenario of its first combination</summary><pre>{}</pre></details></section>\n\
         <footer>Made by weir {}. This page needs no network.</footer>",
        escape(&meta.file),
        escape(&serde_json::to_string_pretty(&meta.scenario).unwrap_or_default()),
        escape(&meta.version)
    );
    page::page(&meta.name, &body)
}

fn measures(summaries: &[Summary]) -> Vec<Measure> {
    let names = flow_names(summaries);
    let mut all: Vec<Measure> = Vec::new();
    let mut add = |name: String, unit, value: Of| all.push(Measure { name, unit, value });
    if names.len() <= FLOWS {
        for (index, name) in names.iter().enumerate() {
            let of = move |summary: &Summary| scaled(summary.flows.get(index)?.goodput_bps, 1e-6);
            add(format!("Goodput of {name}"), MBIT, Box::new(of));
        }
    } else {
        add("Goodput of all flows".to_owned(), MBIT, Box::new(|summary| scaled(summary.goodput_bps, 1e-6)));
        add("Jain\u{2019}s index".to_owned(), "1: all equal", Box::new(|summary| summary.jain_index));
    }
    add("Queue delay, mean".to_owned(), "ms", Box::new(|summary| summary.queue_delay_mean_ms));
    add("Queue delay, 99th percentile".to_owned(), "ms", Box::new(|summary| summary.queue_delay_p99_ms));
    all
}

fn scaled(spread: Option<Spread>, by: f64) -> Option<Spread> {
    spread.map(|spread| Spread {
        mean: spread.mean * by,
        deviation: spread.deviation * by,
        ci95: spread.ci95 * by,
        min: spread.min * by,
        max: spread.max * by,
        ..spread
    })
}

fn charts(sweep: &Sweep, summaries: &[Summary]) -> String {
    let axes = sweep.axes();
    let positions = positions(sweep);
    let lines: Vec<String> = axes
        .get(1)
        .map_or_else(|| vec![String::new()], |axis| (0..axis.len).map(|place| axis.label(place)).collect());
    // By the places of the keys from the third on.
    let mut settings: BTreeMap<&[usize], Vec<&Summary>> = BTreeMap::new();
    for summary in summaries {
        settings.entry(summary.places.get(2..).unwrap_or_default()).or_default().push(summary);
    }
    let measures = measures(summaries);
    // Goodputs share their axis, so that flows can be compared.
    let most = |unit: &str, name: &str| {
        let shared = measures.iter().filter(|other| other.name == name || unit == MBIT && other.unit == unit);
        let spreads =
            shared.flat_map(|other| summaries.iter().filter_map(move |summary| (other.value)(summary)));
        spreads.map(|spread| spread.mean + spread.deviation).fold(0.0, f64::max)
    };
    let most: Vec<f64> = measures.iter().map(|measure| most(measure.unit, &measure.name)).collect();
    let mut out = String::new();
    for (rest, of) in settings.iter().take(SETTINGS) {
        let named = axes
            .iter()
            .skip(2)
            .zip(*rest)
            .map(|(axis, place)| format!("{} = {}", axis.name(), axis.label(*place)));
        let heading = named.collect::<Vec<_>>().join(", ");
        let _ = write!(out, "<section><h2>{}</h2>", escape(&heading));
        if let Some(axis) = axes.get(1) {
            let _ = write!(
                out,
                "<p class=\"note\">Lines: {}</p>{}",
                escape(&axis.name()),
                page::spread_legend(&lines)
            );
        }
        out.push_str("<div class=\"grid\">");
        for (measure, most) in measures.iter().zip(&most) {
            let lines: Vec<SpreadLine> = lines
                .iter()
                .enumerate()
                .take(MOST_LINES)
                .map(|(line, name)| SpreadLine { name: name.clone(), points: points(of, line, measure) })
                .collect();
            let title = format!("{} {heading}", measure.name);
            let chart = page::spread_chart(title.trim(), &positions, measure.unit, *most, &lines);
            let _ = write!(out, "<figure><figcaption>{}</figcaption>{chart}</figure>", escape(&measure.name));
        }
        out.push_str("</div></section>\n");
    }
    for (count, limit, what) in [
        (lines.len(), MOST_LINES, "values of the second key"),
        (settings.len(), SETTINGS, "settings of the other keys"),
    ] {
        if count > limit {
            let _ = write!(out, "<p class=\"note\">{} more {what} are in the table only.</p>", count - limit);
        }
    }
    out
}

/// The dots of one line.
fn points(summaries: &[&Summary], line: usize, measure: &Measure) -> Vec<SpreadPoint> {
    let of_line = summaries.iter().filter(|summary| summary.places.get(1).copied().unwrap_or(0) == line);
    of_line
        .filter_map(|summary| {
            let spread = summary.spread((measure.value)(summary))?;
            let position = summary.places.first().copied().unwrap_or(0);
            Some(SpreadPoint::of_runs(position, spread.mean, spread.deviation, spread.runs))
        })
        .collect()
}

/// The first key: at a scale if its values are numbers.
fn positions(sweep: &Sweep) -> Positions {
    match sweep.axes().first() {
        None => Positions::Names(vec![sweep.name().to_owned()]),
        Some(axis) => match axis.keys.as_slice() {
            [key] if key.quantity.is_number() && axis.len > 1 => {
                let (places, unit) = key.quantity.scale(&key.values);
                let unit = if unit.is_empty() { unit.to_owned() } else { format!(" ({unit})") };
                Positions::Scale(places, format!("{}{unit}", key.name))
            }
            _ => Positions::Names((0..axis.len).map(|place| axis.label(place)).collect()),
        },
    }
}
