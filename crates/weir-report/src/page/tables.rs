//! The tables of a report: scores, flows, queues, and the run's own error.

use std::fmt::Write;

use crate::result::{FlowResult, Health, RunResult};
use crate::summary::{DETECTION_HEAD, WORKLOAD_HEAD, detection};

use super::palette::{self, Colour, FlowColours};
use super::summary::{self, Pair};
use super::text::{bps, bytes, count, dash, escape, nanoseconds, ns_as_ms, number, percent, seconds};
use super::timeline::ROWS;

/// A small square in a colour, for legends and rows.
pub(super) fn swatch(colour: Colour) -> String {
    format!(
        "<svg class=\"chart swatch\" viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect width=\"10\" height=\"10\" \
         rx=\"2\" fill=\"{}\"/></svg>",
        colour.hex()
    )
}

/// A table in a box that scrolls sideways. Cells are HTML; the first column is a heading for its row.
pub(super) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut out = "<div class=\"scroll\"><table><thead><tr>".to_owned();
    for cell in head {
        out.push_str(&format!("<th scope=\"col\">{cell}</th>"));
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            let (tag, scope) = if index == 0 { ("th", " scope=\"row\"") } else { ("td", "") };
            out.push_str(&format!("<{tag}{scope}>{cell}</{tag}>"));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    out
}

/// FCT scores of the flows that completed in both runs, and their mean.
pub(super) fn scores(baseline: &str, system: &str, pairs: &[Pair<'_>], colours: &FlowColours) -> String {
    let bar = |value: f64| {
        let (side, width) = (if value < 0.0 { "later" } else { "sooner" }, value.abs().min(1.0) * 50.0);
        format!(
            "<span class=\"num\">{}</span><span class=\"diverging\"><i class=\"{side}\" style=\"width:{width:.1}%\"></i>\
             </span>",
            summary::score(value)
        )
    };
    let row = |pair: &Pair<'_>| {
        let name = &pair.baseline.name;
        let first = format!("{}{}", swatch(colours.of(name)), escape(name));
        vec![first, bar(pair.score), seconds(pair.baseline.fct_s), seconds(pair.system.fct_s)]
    };
    let mean = pairs.iter().map(|pair| pair.score).sum::<f64>() / pairs.len().max(1) as f64;
    let mean = (pairs.len() > 1).then(|| vec!["mean".to_owned(), bar(mean), String::new(), String::new()]);
    let columns = [baseline, system].map(|label| format!("FCT<br>{}", escape(label)));
    let (shown, hidden) = pairs.split_at(pairs.len().min(ROWS));
    let head = ["flow", "FCT score", &columns[0], &columns[1]];
    let mut out = table(&head, mean.into_iter().chain(shown.iter().map(row)));
    if !hidden.is_empty() {
        let _ = write!(out, "<details><summary>{} more flows</summary>", hidden.len());
        out.push_str(&table(&head, hidden.iter().map(row)));
        out.push_str("</details>");
    }
    out
}

fn part(part: u64, whole: u64) -> String {
    match (part, whole) {
        (0, _) | (_, 0) => count(part),
        _ => format!("{}<br><small>{}</small>", count(part), percent(part as f64 / whole as f64)),
    }
}

fn meter(share: f64) -> String {
    let width = share.clamp(0.0, 1.0) * 100.0;
    format!(
        "<span class=\"num\">{}</span><span class=\"meter\"><i style=\"width:{width:.1}%\"></i></span>",
        percent(share)
    )
}

fn flow_row(flow: &FlowResult, colours: &FlowColours) -> Vec<String> {
    let mut kind = format!("{} {}", flow.stack, flow.controller);
    if flow.pattern != "one-way" {
        kind.push_str(&format!(", {}", flow.pattern));
    }
    if flow.ecn {
        kind.push_str(", ECN");
    }
    let rtt = match (flow.rtt_p50_ms, flow.rtt_p99_ms) {
        (None, None) => dash(),
        (median, tail) => {
            let show = |value: Option<f64>| value.map_or_else(dash, number);
            format!("{}<br><small>/</small> {} ms", show(median), show(tail))
        }
    };
    let error =
        flow.error.as_ref().map(|error| format!("<div class=\"bad\">\u{26a0} {}</div>", escape(error)));
    vec![
        format!(
            "{}{}<br><small>{}</small>{}",
            swatch(colours.of(&flow.name)),
            escape(&flow.name),
            escape(kind.trim()),
            error.unwrap_or_default()
        ),
        seconds(Some(flow.start_s)),
        seconds(flow.fct_s),
        bytes(flow.received_bytes),
        bps(flow.goodput_bps),
        rtt,
        part(flow.dropped, flow.packets),
        part(flow.marked, flow.packets),
        count(flow.assessments),
        flow.responsive_cycles.map_or_else(dash, |share| format!("{:.0}", share * 100.0)),
        meter(flow.responsive_time),
        percent(flow.responsive_packets),
        format!(
            "<small>ECN</small> {}<br><small>loss</small> {}",
            escape(&flow.class_ecn),
            escape(&flow.class_loss)
        ),
    ]
}

/// A row per flow: what its endpoints saw, what the bottleneck did, what the law made of it.
pub(super) fn flows(result: &RunResult, colours: &FlowColours) -> String {
    const HEAD: [&str; 13] = [
        "flow",
        "start",
        "FCT",
        "received",
        "goodput",
        "RTT<br>p50 / p99",
        "dropped",
        "marked",
        "votes",
        "score<br><small>0\u{2013}100</small>",
        "time<br>responsive",
        "packets in<br>resp. queue",
        "class at<br>the end",
    ];
    let mut order: Vec<&FlowResult> = result.flows.iter().collect();
    if order.len() > ROWS {
        order.sort_by_key(|flow| std::cmp::Reverse(flow.received_bytes));
    }
    let (shown, hidden) = order.split_at(order.len().min(ROWS));
    let mut out = table(&HEAD, shown.iter().map(|flow| flow_row(flow, colours)));
    if !hidden.is_empty() {
        let _ = write!(out, "<details><summary>{} more flows, with fewer bytes</summary>", hidden.len());
        out.push_str(&table(&HEAD, hidden.iter().map(|flow| flow_row(flow, colours))));
        out.push_str("</details>");
    }
    out
}

/// A row per flow of every run that looked for fair queuing; empty if there is none.
pub(super) fn detections(results: &[(&str, &RunResult)]) -> String {
    let rows: Vec<_> = results
        .iter()
        .flat_map(|(label, result)| {
            result.detections.iter().map(move |found| {
                let mut row = detection(found).map(|cell| escape(&cell)).to_vec();
                if results.len() > 1 {
                    row[0].push_str(&format!("<br><small>{}</small>", escape(label)));
                }
                row
            })
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("</section>\n<section><h2>Fair-queuing detection</h2>{}", table(&DETECTION_HEAD, rows))
}

/// A row per workload of every run; empty if there is none.
pub(super) fn workloads(results: &[(&str, &RunResult)]) -> String {
    let rows = results.iter().flat_map(|(label, result)| {
        result.workloads.iter().map(move |workload| {
            let kind = format!("{}, {} {}", workload.kind, workload.stack, workload.controller);
            let place = if results.len() > 1 { format!(", {}", escape(label)) } else { String::new() };
            let stalls = if workload.kind == "video" {
                format!("{}<br><small>{}</small>", count(workload.stalls), seconds(Some(workload.stalled_s)))
            } else {
                dash()
            };
            vec![
                format!("{}<br><small>{}{place}</small>", escape(&workload.name), escape(kind.trim())),
                count(workload.requests),
                part(workload.completed, workload.requests),
                seconds(workload.fct_mean_s),
                seconds(workload.fct_p50_s),
                seconds(workload.fct_p90_s),
                seconds(workload.fct_p99_s),
                bytes(workload.received_bytes),
                bps(workload.goodput_bps),
                part(workload.dropped, workload.packets),
                part(workload.marked, workload.packets),
                stalls,
            ]
        })
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("</section>\n<section><h2>Workloads</h2>{}", table(&WORKLOAD_HEAD, rows))
}

/// A row per queue of every run.
pub(super) fn queues(results: &[(&str, &RunResult)]) -> String {
    let rows = results.iter().flat_map(|(label, result)| {
        result.queues.iter().map(move |queue| {
            let offered = queue.departed + queue.dropped + queue.overflowed;
            let quantile = |at| ns_as_ms(queue.sojourn_ns.quantile(at));
            let place = if results.len() > 1 {
                format!("<br><small>{}</small>", escape(label))
            } else {
                String::new()
            };
            vec![
                format!("{}{}{place}", swatch(palette::queue(&queue.name)), escape(&queue.name)),
                quantile(0.5),
                quantile(0.9),
                quantile(0.99),
                ns_as_ms(queue.sojourn_ns.max()),
                count(queue.departed),
                bytes(queue.departed_bytes),
                part(queue.overflowed, offered),
                part(queue.dropped, offered),
                part(queue.marked, offered),
            ]
        })
    });
    let head = [
        "queue",
        "delay p50",
        "p90",
        "p99",
        "max",
        "packets",
        "bytes",
        "dropped, full",
        "dropped by AQM",
        "marked CE",
    ];
    table(&head, rows)
}

/// What the run says about its own error. Every check that fails is marked.
pub(super) fn health(result: &RunResult) -> String {
    let health = &result.health;
    let lateness = |at| nanoseconds(health.lateness_ns.quantile(at));
    let cpu = if result.meta.wall_s > 0.0 {
        format!("{:.1} s, {} of a core", health.cpu_s, percent(health.cpu_s / result.meta.wall_s))
    } else {
        format!("{:.1} s", health.cpu_s)
    };
    let losses = format!("{} / {}", count(health.ring_overflows), count(health.frames_exhausted));
    let burst =
        format!("{} of {} allowed", bytes(health.largest_burst_bytes), bytes(health.allowed_burst_bytes));
    let of_real_time: [(&str, String, bool); 4] = [
        (
            "packets left late by (p50 / p99 / max)",
            format!("{} / {} / {}", lateness(0.5), lateness(0.99), lateness(1.0)),
            true,
        ),
        (
            "link capacity lost to lateness",
            bytes(health.capacity_lost_bytes),
            health.capacity_lost_bytes == 0,
        ),
        (
            "largest burst above the link\u{2019}s rate",
            burst,
            health.largest_burst_bytes <= health.allowed_burst_bytes,
        ),
        (
            "packets lost to the emulator itself (ring full / no frame)",
            losses,
            health.ring_overflows == 0 && health.frames_exhausted == 0,
        ),
    ];
    let may_reorder = result.meta.scenario.qdiscs().iter().any(|(qdisc, _)| qdisc.may_reorder());
    let mut rows = vec![
        ("packets conserved", conservation(health), conserved(health)),
        ("overtaken within a flow and queue", count(health.overtaken), health.overtaken == 0 || may_reorder),
    ];
    match result.meta.is_virtual() {
        true => rows.push(("time", "virtual: no packet is late or lost to the machine".to_owned(), true)),
        false => {
            rows.splice(..0, of_real_time);
            rows.push(("CPU of the emulator", cpu, true));
        }
    }
    let mut out = "<dl class=\"health\">".to_owned();
    for (name, value, fine) in rows {
        let (class, sign) = if fine { ("good", "\u{2713}") } else { ("bad", "\u{2717}") };
        let _ =
            write!(out, "<div><dt>{name}</dt><dd class=\"{class}\"><span>{sign}</span> {value}</dd></div>");
    }
    out.push_str("</dl>");
    if !result.law_counters.is_empty() {
        out.push_str("<details><summary>Counts of the law\u{2019}s table</summary>");
        let rows = result.law_counters.iter().map(|(name, value)| vec![escape(name), count(*value)]);
        out.push_str(&table(&["counter", "count"], rows));
        out.push_str("</details>");
    }
    out
}

fn conserved(health: &Health) -> bool {
    health.unaccounted == 0 && health.arrived == health.departed + health.dropped + health.still_queued
}

fn conservation(health: &Health) -> String {
    let parts = format!(
        "{} in = {} out + {} dropped + {} queued",
        count(health.arrived),
        count(health.departed),
        count(health.dropped),
        count(health.still_queued)
    );
    match conserved(health) {
        true => parts,
        false => {
            format!("{} \u{2014} {} unaccounted for", parts.replace('=', "\u{2260}"), health.unaccounted)
        }
    }
}
