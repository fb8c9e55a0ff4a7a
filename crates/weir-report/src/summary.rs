//! Results as tables for a terminal.

use comfy_table::{CellAlignment, Table, presets};

use crate::result::{DetectionResult, FlowResult, Health, RunResult, fct_score};

/// The columns of a table with a row per workload.
pub const WORKLOAD_HEAD: [&str; 12] = [
    "workload",
    "requests",
    "completed",
    "FCT mean",
    "p50",
    "p90",
    "p99",
    "received",
    "goodput",
    "dropped",
    "marked",
    "stalls",
];

/// Tables of one run, or of several with the first as the baseline.
pub fn text(results: &[(&str, &RunResult)]) -> String {
    let mut parts = Vec::new();
    if let [(before, baseline), (after, system)] = results {
        parts.push(comparison(before, baseline, after, system));
    }
    for (label, result) in results {
        let title = if results.len() > 1 {
            format!("{label}: {}", result.meta.qdisc)
        } else {
            result.meta.qdisc.clone()
        };
        parts.push(format!("{title}{}\n{}", window(result), flows(result)));
        if !result.detections.is_empty() {
            parts.push(detections(result));
        }
        if !result.workloads.is_empty() {
            parts.push(workloads(result));
        }
        parts.push(queues(result));
        parts.push(health(result));
    }
    parts.join("\n\n")
}

/// What the totals count, unless that is the whole run.
fn window(result: &RunResult) -> String {
    let window = result.meta.scenario.measure.window_words();
    window.map_or_else(String::new, |window| format!("\ncounted {window}"))
}

/// An empty table, its columns but the first to the right.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.to_vec());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Trailing blanks are noise where tables are compared or pasted.
pub fn render(table: &Table) -> String {
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// A flow's completion time; a flow that was to last for a time, or as long as the others, has none to reach, and nobody
/// waits for datagrams.
fn completion(flow: &FlowResult) -> String {
    match flow.fct_s {
        Some(fct) => format!("{fct:.2} s"),
        None if flow.wanted_bytes.is_some() && flow.stack != "udp" => "unfinished".to_owned(),
        None => "-".to_owned(),
    }
}

fn percent(value: f64) -> String {
    format!("{:.0} %", value * 100.0)
}

fn mbit(bits_per_second: f64) -> String {
    format!("{:.1} Mbit/s", bits_per_second / 1e6)
}

fn millis(nanos: Option<u64>) -> String {
    nanos.map_or_else(|| "-".to_owned(), |nanos| format!("{:.2} ms", nanos as f64 / 1e6))
}

/// What is known of a flow's packets, if they were followed.
fn followed(result: &RunResult, known: String) -> String {
    if result.meta.scenario.bottleneck.super_packets { "-".to_owned() } else { known }
}

/// Flow completion times side by side; the score is positive where `after` is better.
fn comparison(before: &str, baseline: &RunResult, after: &str, system: &RunResult) -> String {
    let (fct_before, fct_after) = (format!("FCT {before}"), format!("FCT {after}"));
    let mut out =
        table(&["flow", &fct_before, &fct_after, "FCT score", "responsive time", "responsive packets"]);
    for flow in &baseline.flows {
        let Some(other) = system.flows.iter().find(|other| other.name == flow.name) else { continue };
        let score = match (flow.fct_s, other.fct_s) {
            (Some(before), Some(after)) => format!("{:+.2}", fct_score(before, after)),
            _ => "-".to_owned(),
        };
        out.add_row([
            flow.name.clone(),
            completion(flow),
            completion(other),
            score,
            followed(system, percent(other.responsive_time)),
            followed(system, percent(other.responsive_packets)),
        ]);
    }
    render(&out)
}

fn flows(result: &RunResult) -> String {
    let mut out = table(&[
        "flow",
        "FCT",
        "goodput",
        "RTT p50",
        "packets",
        "dropped",
        "marked",
        "responsive time",
        "loss",
        "ECN",
    ]);
    for flow in &result.flows {
        out.add_row([
            flow.name.clone(),
            completion(flow),
            mbit(flow.goodput_bps),
            flow.rtt_p50_ms.map_or_else(|| "-".to_owned(), |rtt| format!("{rtt:.2} ms")),
            followed(result, flow.packets.to_string()),
            followed(result, flow.dropped.to_string()),
            followed(result, flow.marked.to_string()),
            followed(result, percent(flow.responsive_time)),
            flow.class_loss.clone(),
            flow.class_ecn.clone(),
        ]);
    }
    render(&out)
}

/// What the columns of the tables of detections are called.
pub(crate) const DETECTION_HEAD: [&str; 8] =
    ["detection", "detector", "finding", "confidence", "by", "after", "packets lost", "controller"];

/// The cells of a row of detections, under [`DETECTION_HEAD`].
pub(crate) fn detection(found: &DetectionResult) -> [String; 8] {
    let dash = || "-".to_owned();
    [
        found.flow.clone(),
        found.detector.clone(),
        found.finding.clone(),
        format!("{:.1} %", found.confidence * 100.0),
        if found.why.is_empty() { dash() } else { found.why.clone() },
        found.first_s.map_or_else(dash, |time| format!("{time:.3} s")),
        format!("{} of {}", found.first_lost, found.first_sent),
        if found.controller.is_empty() { dash() } else { found.controller.clone() },
    ]
}

fn detections(result: &RunResult) -> String {
    let mut out = table(&DETECTION_HEAD);
    for found in &result.detections {
        out.add_row(detection(found));
    }
    render(&out)
}

fn workloads(result: &RunResult) -> String {
    // A terminal has no room for what goodput shows as well.
    let head = WORKLOAD_HEAD.into_iter().filter(|name| *name != "received");
    let mut out = table(&head.collect::<Vec<_>>());
    let time = |fct: Option<f64>| fct.map_or_else(|| "-".to_owned(), |fct| format!("{fct:.3} s"));
    for workload in &result.workloads {
        out.add_row([
            workload.name.clone(),
            workload.requests.to_string(),
            workload.completed.to_string(),
            time(workload.fct_mean_s),
            time(workload.fct_p50_s),
            time(workload.fct_p90_s),
            time(workload.fct_p99_s),
            mbit(workload.goodput_bps),
            workload.dropped.to_string(),
            workload.marked.to_string(),
            if workload.kind == "video" { workload.stalls.to_string() } else { "-".to_owned() },
        ]);
    }
    render(&out)
}

fn queues(result: &RunResult) -> String {
    let mut out =
        table(&["queue", "delay p50", "delay p99", "packets", "overflowed", "dropped by AQM", "marked"]);
    for queue in &result.queues {
        out.add_row([
            queue.name.clone(),
            millis(queue.sojourn_ns.quantile(0.5)),
            millis(queue.sojourn_ns.quantile(0.99)),
            queue.departed.to_string(),
            queue.overflowed.to_string(),
            queue.dropped.to_string(),
            queue.marked.to_string(),
        ]);
    }
    render(&out)
}

fn health(result: &RunResult) -> String {
    let health = &result.health;
    let Health { arrived, departed, dropped, still_queued, .. } = health;
    let conserved = format!("{arrived} in = {departed} out + {dropped} dropped + {still_queued} queued");
    if result.meta.is_virtual() {
        return format!("{conserved}, in {:.1} s of virtual time.", result.meta.wall_s);
    }
    format!(
        "Packets left late by p50 {}, p99 {}, max {}; {conserved}; {} used {:.1} s of CPU in {:.1} s ({}).",
        millis(health.lateness_ns.quantile(0.5)),
        millis(health.lateness_ns.quantile(0.99)),
        millis(health.lateness_ns.max()),
        if result.meta.world == "emu" { "emulator" } else { "delays and measuring" },
        health.cpu_s,
        result.meta.wall_s,
        result.meta.io,
    )
}
