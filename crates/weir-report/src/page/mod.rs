//! The report: one HTML page that shows a run, or several side by side, and opens from disk without a network.
//!
//! Charts are SVG in the page, made here and not by scripts, so the page prints, works where scripts are forbidden, and
//! shows the same in ten years. All text that comes from a scenario is escaped. Runs that are compared share axes and
//! colours.

mod charts;
mod clouds;
mod distribution;
mod figure;
mod matrix;
mod over_time;
mod palette;
mod picture;
mod plot;
mod spread;
mod summary;
mod tables;
mod text;
mod timeline;

use std::fmt::Write;

pub use clouds::{Cloud, Point, clouds};
pub use distribution::{Completions, completions, distributions};
pub use figure::{StripColumn, StripPanel, heat_table, strip_plot};
pub use matrix::Matrix;
pub use over_time::over_time;
pub use picture::picture;

use crate::result::RunResult;
use charts::Frame;
use palette::{FlowColours, RESPONSIVE, REST, STANDARD, UNJUDGED};
pub use spread::{MOST_LINES, Positions, SpreadLine, SpreadPoint, spread_chart, spread_legend};
pub use summary::{jain, utilisation};
use tables::swatch;
pub use text::escape;

const STYLE: &str = include_str!("style.css");

/// A complete page around `body`, which is HTML; `title` is text. For figures made of [`heat_table`], [`strip_plot`]
/// and [`over_time`].
pub fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    let dark = palette::dark_rules();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"weir {}\">\n<title>{title}</title>\n\
         <style>\n{STYLE}@media screen and (prefers-color-scheme: dark) {{{dark}}}\n</style>\n</head>\n<body>\n\
         {body}\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// A page that shows the runs and, from the second on, compares each with the first. Labels are what readers call the
/// runs, such as "without CRQ" and "with CRQ".
pub fn html(results: &[(&str, &RunResult)]) -> String {
    let Some((_, first)) = results.first() else {
        return page("Weir report", "<h1>Weir report</h1><p>There is no run to show.</p>");
    };
    let colours = FlowColours::new(results);
    let frame = Frame::new(results);
    let title = title(results);
    let mut body = format!(
        "<header><h1>{}</h1><p class=\"subtitle\">{}</p></header>\n",
        escape(&title),
        subtitle(first)
    );
    body.push_str(&warnings(results));
    body.push_str(&comparisons(results));
    body.push_str(&cards(results));
    body.push_str(&scores(results, &colours));
    body.push_str(&sections(results, &frame, &colours));
    let multiple = results.len() > 1;
    body.push_str("\n<section><h2>Flows</h2>");
    body.push_str(
        "<p class=\"note\">FCT: flow completion time, from request to last byte. Score: share of cycles in which the flow \
         stood as responsive by its main signal, 0 to 100. Votes: judgements of the law, loss and ECN together.</p>",
    );
    for (label, result) in results {
        if multiple {
            let _ = write!(body, "<h3>{}</h3>", escape(label));
        }
        body.push_str(&tables::flows(result, &colours));
    }
    body.push_str(&tables::workloads(results));
    body.push_str(&tables::detections(results));
    body.push_str("</section>\n<section><h2>Queues</h2>");
    body.push_str(&tables::queues(results));
    body.push_str("</section>\n<section><h2>Can this run be trusted?</h2>");
    if results.iter().any(|(_, result)| !result.meta.is_virtual()) {
        body.push_str(
            "<p class=\"note\">What the emulator says about its own error. A run that missed its schedule says so at the top of \
             the page.</p>",
        );
    }
    body.push_str("<div class=\"grid\">");
    for (label, result) in results {
        let heading = if multiple { format!("<h3>{}</h3>", escape(label)) } else { String::new() };
        let _ = write!(body, "<div class=\"card\">{heading}{}</div>", tables::health(result));
    }
    body.push_str("</div></section>\n<section><h2>How to run it again</h2><div class=\"grid\">");
    for (label, result) in results {
        let heading = if multiple { format!("<h3>{}</h3>", escape(label)) } else { String::new() };
        let _ = write!(body, "<div class=\"card\">{heading}{}</div>", provenance(result));
    }
    body.push_str("</div></section>\n");
    let _ = write!(
        body,
        "<footer>Made by weir {}. This page needs no network.</footer>",
        escape(&first.meta.version)
    );
    page(&title, &body)
}

fn title(results: &[(&str, &RunResult)]) -> String {
    match results {
        [(label, _)] => (*label).to_owned(),
        several => several.iter().map(|(label, _)| *label).collect::<Vec<_>>().join(" / "),
    }
}

fn subtitle(result: &RunResult) -> String {
    let bottleneck = &result.meta.scenario.bottleneck;
    let flows = result.flows.len();
    let mut parts = vec![
        format!("bottleneck {}", bottleneck.rate_words()),
        format!("round trip {}", bottleneck.rtt),
        format!("{flows} flow{}", if flows == 1 { "" } else { "s" }),
        format!("world {}", result.meta.world),
    ];
    parts.extend(result.meta.started_unix_s.map(text::date));
    escape(&parts.join(" \u{b7} "))
}

/// What makes any of the runs doubtful, before everything else.
fn warnings(results: &[(&str, &RunResult)]) -> String {
    let doubtful = |(label, result): &(&str, &RunResult)| {
        let prefix = if results.len() > 1 { format!("<b>{}</b>: ", escape(label)) } else { String::new() };
        let items =
            result.health.warnings.iter().map(|warning| format!("<li>{prefix}{}</li>", escape(warning)));
        items.collect::<String>()
    };
    let items: String = results.iter().map(doubtful).collect();
    if items.is_empty() {
        return items;
    }
    format!(
        "<section class=\"warning\" role=\"alert\"><h2>\u{26a0} Do not rely on these numbers</h2><ul>{items}</ul></section>\n"
    )
}

fn comparisons(results: &[(&str, &RunResult)]) -> String {
    let Some((baseline, systems)) = results.split_first() else { return String::new() };
    let sentences = systems.iter().filter_map(|system| summary::comparison(*baseline, *system));
    sentences.map(|sentence| format!("<p class=\"comparison\">{sentence}</p>\n")).collect()
}

fn cards(results: &[(&str, &RunResult)]) -> String {
    let mut out = "<div class=\"grid cards\">".to_owned();
    for (label, result) in results {
        // A run alone has its name in the page's heading.
        let heading = if results.len() > 1 { format!("<h3>{}</h3>", escape(label)) } else { String::new() };
        let _ = write!(
            out,
            "<section class=\"card\">{heading}<p>{}</p><p><small>{}</small></p><dl class=\"numbers\">",
            summary::sentences(result),
            escape(&result.meta.qdisc)
        );
        for (name, value) in summary::numbers(result) {
            let _ = write!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>");
        }
        out.push_str("</dl></section>");
    }
    out.push_str("</div>\n");
    out
}

fn scores(results: &[(&str, &RunResult)], colours: &FlowColours) -> String {
    let Some((baseline, systems)) = results.split_first() else { return String::new() };
    let mut out = String::new();
    for system in systems {
        let pairs = summary::pairs(baseline.1, system.1);
        if !pairs.is_empty() {
            out.push_str(&tables::scores(baseline.0, system.0, &pairs, colours));
        }
    }
    if out.is_empty() {
        return out;
    }
    let heading = "<section><h2>Who completes sooner?</h2><p class=\"note\">FCT score of each flow against the first run: 0 is \
         parity, positive is sooner, +0.5 is half the time, \u{2212}0.5 twice the time.</p>";
    format!("{heading}{out}</section>\n")
}

/// The charts: a row of runs per kind, or all kinds of the only run side by side.
fn sections(results: &[(&str, &RunResult)], frame: &Frame, colours: &FlowColours) -> String {
    let section = |heading: &str, note: &str, legend: String, draw: &dyn Fn(&str, &RunResult) -> String| {
        let text =
            format!("<h2>{heading}</h2><p class=\"note\">{note}</p><ul class=\"legend\">{legend}</ul>");
        if let [(label, result)] = results {
            return format!("<figure>{text}{}</figure>\n", draw(label, result));
        }
        let figure = |(label, result): &(&str, &RunResult)| {
            format!("<figure><figcaption>{}</figcaption>{}</figure>", escape(label), draw(label, result))
        };
        let figures: String = results.iter().map(figure).collect();
        format!("<section>{text}<div class=\"grid\">{figures}</div></section>\n")
    };
    let mut out = section(
        "How long do packets wait?",
        "Queue delay over time. Line: mean of the packets; band: up to the longest wait. Hover for numbers, drops and marks.",
        queue_legend(results),
        &|label, result| frame.delay_over_time(label, result).svg(),
    );
    out.push_str(&section(
        "How often do they wait that long?",
        "The share of packets that waited at most so long; steep and left is good.",
        queue_legend(results),
        &|label, result| frame.delay_distribution(label, result).svg(),
    ));
    out.push_str(&section(
        "Who gets the link?",
        "Throughput per flow in wire bytes as they leave the bottleneck; the dashed line is the rate of the link.",
        flow_legend(results, colours),
        &|label, result| frame.throughput(label, result, colours).svg(),
    ));
    if results.iter().any(|(_, result)| timeline::has_content(result)) {
        let keys = [(RESPONSIVE, "responsive"), (STANDARD, "unresponsive"), (UNJUDGED, "not judged yet")];
        let mut legend: String =
            keys.iter().map(|(colour, name)| format!("<li>{}{name}</li>", swatch(*colour))).collect();
        legend.push_str("<li>ticks above: votes for responsive; below: for unresponsive</li>");
        let left_out = results.iter().map(|(_, result)| timeline::left_out(result)).max().unwrap_or(0);
        let mut note = "How the law judged each flow over time.".to_owned();
        if left_out > 0 {
            let _ = write!(
                note,
                " The {} flows with most bytes; {left_out} more are in the table.",
                timeline::ROWS
            );
        }
        let draw = |label: &str, result: &RunResult| timeline::svg(frame, label, result, colours);
        out.push_str(&section("Who answers to congestion?", &note, legend, &draw));
    }
    if results.len() == 1 { format!("<div class=\"grid only\">{out}</div>\n") } else { out }
}

/// Queues that share a colour, because they are never in one run, share an entry.
fn queue_legend(results: &[(&str, &RunResult)]) -> String {
    let mut entries: Vec<(palette::Colour, Vec<&str>)> = Vec::new();
    for queue in results.iter().flat_map(|(_, result)| &result.queues) {
        let colour = palette::queue(&queue.name);
        match entries.iter_mut().find(|(known, _)| *known == colour) {
            Some((_, names)) if !names.contains(&queue.name.as_str()) => names.push(&queue.name),
            Some(_) => {}
            None => entries.push((colour, vec![&queue.name])),
        }
    }
    let entry = |(colour, names): &(palette::Colour, Vec<&str>)| {
        format!("<li>{}{}</li>", swatch(*colour), escape(&names.join(" / ")))
    };
    entries.iter().map(entry).collect()
}

fn flow_legend(results: &[(&str, &RunResult)], colours: &FlowColours) -> String {
    let mut names: Vec<&str> = Vec::new();
    for flow in results.iter().flat_map(|(_, result)| &result.flows) {
        if !names.contains(&flow.name.as_str()) {
            names.push(&flow.name);
        }
    }
    let others = names.iter().filter(|name| colours.named(name).is_none()).count();
    let mut legend: String = names
        .iter()
        .filter_map(|name| {
            colours.named(name).map(|colour| format!("<li>{}{}</li>", swatch(colour), escape(name)))
        })
        .collect();
    if others > 0 {
        let _ = write!(legend, "<li>{}{}</li>", swatch(REST), charts::others_name(others));
    }
    legend
}

fn provenance(result: &RunResult) -> String {
    let meta = &result.meta;
    let facts = [
        ("version", Some(format!("weir {}", meta.version))),
        ("world", Some(meta.world.clone())),
        ("seed", Some(format!("{}, run {}", meta.seed.seed, meta.seed.run))),
        ("started", meta.started_unix_s.map(text::date)),
        ("took", Some(text::seconds(Some(meta.wall_s)))),
        ("machine", meta.machine.clone()),
        ("packets by", Some(meta.io.clone())),
        ("queue discipline", Some(meta.qdisc.clone())),
    ];
    let mut out = "<dl class=\"facts\">".to_owned();
    for (name, value) in facts {
        let Some(value) = value else { continue };
        let _ = write!(out, "<dt>{name}</dt><dd>{}</dd>", escape(&value));
    }
    out.push_str("</dl>");
    match toml::to_string_pretty(&meta.scenario) {
        Ok(scenario) => {
            let _ = write!(
                out,
                "<details><summary>The scenario</summary><pre>{}</pre></details>",
                escape(&scenario)
            );
        }
        Err(error) => {
            let _ = write!(
                out,
                "<p class=\"bad\">The scenario cannot be shown: {}</p>",
                escape(&error.to_string())
            );
        }
    }
    out
}
