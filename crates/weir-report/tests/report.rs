//! The report and the files of a run, made from results that are computed here by a formula and measured by nobody.
//!
//! The pages stay in the build's directory for temporary files, to be looked at.

use std::collections::BTreeSet;
use std::path::PathBuf;

use weir_core::{Histogram, Random, Seed};
use weir_report::output;
use weir_report::page::{self, StripColumn, StripPanel};
use weir_report::result::{
    AssessmentRow, ChoiceRow, FlowBin, FlowResult, Health, Meta, QueueBin, QueueResult, RunResult, Series,
};
use weir_scenario::Scenario;

const INTERVAL_S: f64 = 0.05;
const LASTED_S: f64 = 20.0;
const LINK_BPS: f64 = 50e6;

/// A flow of the made-up run: its name and kind, its share of the link, whether it answers to congestion.
struct Sketch {
    name: &'static str,
    stack: &'static str,
    controller: &'static str,
    weight: f64,
    responsive: bool,
    start_s: f64,
    fct_s: Option<f64>,
}

const fn sketch(
    name: &'static str,
    stack: &'static str,
    controller: &'static str,
    weight: f64,
    responsive: bool,
    start_s: f64,
    fct_s: Option<f64>,
) -> Sketch {
    Sketch { name, stack, controller, weight, responsive, start_s, fct_s }
}

const WITHOUT: [Sketch; 5] = [
    sketch("TCP cubic", "tcp", "cubic", 1.0, true, 0.0, Some(17.2)),
    sketch("TCP reno", "tcp", "reno", 0.7, true, 0.5, Some(19.0)),
    sketch("QUIC cubic", "quic", "cubic", 0.9, true, 1.0, Some(17.9)),
    sketch("TCP bbr", "tcp", "bbr", 2.2, false, 2.0, Some(12.4)),
    sketch("UDP", "udp", "", 1.6, false, 4.0, None),
];

const WITH: [Sketch; 5] = [
    sketch("TCP cubic", "tcp", "cubic", 1.3, true, 0.0, Some(13.1)),
    sketch("TCP reno", "tcp", "reno", 1.1, true, 0.5, Some(13.9)),
    sketch("QUIC cubic", "quic", "cubic", 1.2, true, 1.0, Some(13.3)),
    sketch("TCP bbr", "tcp", "bbr", 1.0, false, 2.0, Some(15.8)),
    sketch("UDP", "udp", "", 1.0, false, 4.0, None),
];

fn scenario(name: &str) -> Scenario {
    let text = format!(
        "name = \"{name}\"\n[bottleneck]\nrate = \"50mbit\"\nrtt = \"20ms\"\nqdisc = \"bfifo limit 1bdp\"\n\
         [[flow]]\nstack = \"tcp\"\ncontroller = \"cubic\"\nbytes = \"30mb\"\n"
    );
    Scenario::parse(&text, "synthetic.toml").unwrap()
}

/// A queue whose delay swings like a sawtooth between `low` and `high` milliseconds.
fn queue(
    name: &str,
    bins: usize,
    low: f64,
    high: f64,
    gap: bool,
    packets: u32,
    random: &mut Random,
) -> (QueueResult, Vec<QueueBin>) {
    let mut sojourn_ns = Histogram::new();
    let mut series = Vec::new();
    for index in 0..bins {
        let mut bin = QueueBin::default();
        if !(gap && (index < 30 || (200..230).contains(&index))) {
            let phase = (index % 37) as f64 / 37.0;
            for _ in 0..packets {
                let ms = low + (high - low) * phase * (0.6 + 0.4 * random.unit()) + random.unit() * low;
                let ns = (ms * 1e6) as u64;
                sojourn_ns.record(ns);
                bin.departed += 1;
                bin.sojourn_sum_ns += ns;
                bin.sojourn_max_ns = bin.sojourn_max_ns.max(ns);
            }
            bin.dropped = u32::from(index % 37 == 36) * 3;
            bin.backlog_max_bytes = bin.sojourn_max_ns / 200;
        }
        series.push(bin);
    }
    let departed = sojourn_ns.count();
    let overflowed = series.iter().map(|bin| u64::from(bin.dropped)).sum();
    let departed_bytes = departed * 1514;
    (
        QueueResult {
            name: name.to_owned(),
            sojourn_ns,
            departed,
            departed_bytes,
            overflowed,
            dropped: 0,
            marked: 0,
        },
        series,
    )
}

fn result(name: &str, sketches: &[Sketch], isolate: bool) -> RunResult {
    let mut random = Seed::default().stream(name);
    let bins = (LASTED_S / INTERVAL_S) as usize;
    let (mut flows, mut series) =
        (Vec::new(), Series { interval_s: INTERVAL_S, end_s: LASTED_S, ..Series::default() });
    let (mut assessments, mut choices) = (Vec::new(), Vec::new());
    let active =
        |flow: &Sketch, time: f64| time >= flow.start_s && time < flow.start_s + flow.fct_s.unwrap_or(99.0);
    for flow in sketches {
        let rates = (0..bins).map(|index| {
            let time = index as f64 * INTERVAL_S;
            let total: f64 =
                sketches.iter().filter(|other| active(other, time)).map(|other| other.weight).sum();
            let share = if active(flow, time) { flow.weight / total } else { 0.0 };
            LINK_BPS * share * (0.85 + 0.15 * (time * 1.3 + flow.start_s).sin())
        });
        let bins: Vec<FlowBin> = rates
            .map(|rate| FlowBin { departed_bytes: (rate * INTERVAL_S / 8.0) as u64, ..FlowBin::default() })
            .collect();
        let received_bytes: u64 = bins.iter().map(|bin| bin.departed_bytes).sum();
        let (mut votes, mut time) = ([0, 0], flow.start_s + 0.4);
        while flow.stack != "udp" && active(flow, time) && time < 20.0 {
            let vote = random.unit() < if flow.responsive { 0.9 } else { 0.15 };
            votes[usize::from(vote)] += 1;
            let class = if votes[1] > votes[0] { "responsive" } else { "unresponsive" };
            assessments.push(AssessmentRow {
                time_s: time,
                flow: flow.name.to_owned(),
                signal: "loss".to_owned(),
                cycle: votes[0] + votes[1],
                window_before_bytes: 80_000,
                window_after_bytes: if vote { 56_000 } else { 81_000 },
                signals: 2,
                responsive: vote,
                votes_responsive: votes[1],
                votes_unresponsive: votes[0],
                class: class.to_owned(),
            });
            let queue = if class == "responsive" { "responsive" } else { "standard" };
            let last = choices.iter().rfind(|row: &&ChoiceRow| row.flow == flow.name);
            if last.map_or("standard", |row| row.queue.as_str()) != queue {
                choices.push(ChoiceRow { time_s: time, flow: flow.name.to_owned(), queue: queue.to_owned() });
            }
            time += 0.2 + random.unit() * 0.9;
        }
        let packets = received_bytes / 1514;
        flows.push(FlowResult {
            name: flow.name.to_owned(),
            stack: flow.stack.to_owned(),
            controller: flow.controller.to_owned(),
            pattern: "one-way".to_owned(),
            ecn: false,
            start_s: flow.start_s,
            wanted_bytes: flow.fct_s.map(|_| received_bytes),
            fct_s: flow.fct_s,
            completed_s: flow.fct_s.map(|fct| flow.start_s + fct),
            received_bytes,
            goodput_bps: received_bytes as f64 * 8.0 * 0.96 / flow.fct_s.unwrap_or(20.0 - flow.start_s),
            throughput_bps: (received_bytes as f64 * 8.0 / flow.fct_s.unwrap_or(20.0 - flow.start_s)).round(),
            sojourn_mean_ms: Some(4.5),
            sojourn_p50_ms: Some(4.0),
            sojourn_p99_ms: Some(21.0),
            sojourn_max_ms: Some(23.5),
            rtt_p50_ms: (flow.stack != "udp").then_some(34.2),
            rtt_p99_ms: (flow.stack != "udp").then_some(61.7),
            packets,
            dropped: packets / 300,
            marked: 0,
            cycles: u64::from(votes[0] + votes[1]) * 4,
            assessments: u64::from(votes[0] + votes[1]),
            responsive_cycles: (flow.stack != "udp").then_some(if flow.responsive { 0.93 } else { 0.07 }),
            responsive_cycles_since_verdict: None,
            responsive_time: if flow.responsive { 0.91 } else { 0.05 },
            responsive_packets: if flow.responsive && isolate { 0.9 } else { 0.0 },
            demoted_packets: 0.0,
            class_ecn: "unclassified".to_owned(),
            class_loss: if flow.responsive { "responsive" } else { "unresponsive" }.to_owned(),
            error: None,
        });
        series.flows.push(bins);
        series.rtt.push((0..40).map(|index| (f64::from(index) * 0.5, 30.0 + random.unit() * 20.0)).collect());
    }
    assessments.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
    choices.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
    let kinds: &[(&str, f64, f64, bool)] = match isolate {
        true => &[("standard", 5.0, 22.0, true), ("responsive", 0.1, 0.9, false)],
        false => &[("queue", 4.0, 21.0, false)],
    };
    let mut queues = Vec::new();
    for (name, low, high, gap) in kinds {
        let (queue, bins) = queue(name, bins, *low, *high, *gap, 200 / kinds.len() as u32, &mut random);
        queues.push(queue);
        series.queues.push(bins);
    }
    let mut lateness_ns = Histogram::new();
    (0..10_000).for_each(|_| lateness_ns.record(3_000 + random.below(40_000)));
    let departed: u64 = queues.iter().map(|queue| queue.departed).sum();
    let dropped: u64 = queues.iter().map(|queue| queue.overflowed).sum();
    let health = Health {
        lateness_ns,
        cpu_s: 4.1,
        largest_burst_bytes: 6_056,
        allowed_burst_bytes: 7_764,
        arrived: departed + dropped,
        departed,
        dropped,
        ..Health::default()
    };
    let meta = Meta {
        version: "0.1.0".to_owned(),
        world: "emu".to_owned(),
        seed: Seed { seed: 7, run: 0 },
        started_unix_s: Some(1_772_368_496),
        wall_s: LASTED_S,
        machine: Some("synthetic data, no machine".to_owned()),
        io: "xdp".to_owned(),
        scenario: scenario(name),
        law: weir_law::Params::default(),
        qdisc: if isolate { "crq limit 125kb" } else { "bfifo limit 125kb" }.to_owned(),
        qdiscs: Vec::new(),
        cut_short: None,
    };
    let law_counters = vec![("flows_tracked".to_owned(), flows.len() as u64), ("evictions".to_owned(), 0)];
    RunResult {
        meta,
        flows,
        workloads: Vec::new(),
        detections: Vec::new(),
        queues,
        health,
        law_counters,
        assessments,
        choices,
        standings: Vec::new(),
        cycles: Vec::new(),
        series,
        flow_sojourn_ns: Vec::new(),
    }
}

fn keep(name: &str, html: &str) {
    std::fs::write(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name), html).unwrap();
}

/// Every element that is opened is closed, in order. Text holds no angle brackets, which is checked too.
fn assert_well_formed(html: &str) {
    let void = BTreeSet::from(["meta", "br", "!doctype"]);
    let mut open: Vec<&str> = Vec::new();
    for part in html.split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap();
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap();
        assert!(!text.contains('>') || name == "style", "stray '>' in {text}");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order near {text:.80}");
        } else if !tag.ends_with('/') && !void.contains(name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

#[test]
fn flows_over_time_share_axes_and_keep_their_colours() {
    let whole = result("one run", &WITHOUT, false);
    let one = |name: &str| whole.of_flows(|flow| flow == name);
    let (cubic, bbr) = (one("TCP cubic"), one("TCP bbr"));
    assert_eq!((cubic.flows.len(), cubic.series.flows.len(), cubic.series.rtt.len()), (1, 1, 1));
    assert_eq!(bbr.series.flows[0], whole.series.flows[3]);
    assert!(bbr.assessments.iter().all(|row| row.flow == "TCP bbr") && !bbr.assessments.is_empty());
    let html = page::over_time(&[("Cubic <alone>", &cubic), ("BBR", &bbr)]);
    let page = page::page("Over time", &html);
    keep("over-time.html", &page);
    assert_well_formed(&page);
    assert_eq!(html.matches("role=\"img\"").count(), 2);
    // Each chart has its round trips, and the time once for both of its halves.
    assert_eq!([html.matches("round trip, ms").count(), html.matches("time, s").count()], [2, 2]);
    assert!(html.contains("<figcaption>Cubic &lt;alone&gt;</figcaption>"));
    assert!(html.contains("TCP cubic</li>") && html.contains("TCP bbr</li>") && !html.contains("TCP reno"));
    assert!(html.contains("\nTCP bbr: mean"));
}

#[test]
fn two_runs_are_compared_in_one_page_without_a_network() {
    let (without, with) = (result("without", &WITHOUT, false), result("with", &WITH, true));
    let html = page::html(&[("without CRQ", &without), ("with CRQ", &with)]);
    keep("compare.html", &html);
    assert_well_formed(&html);
    // Half the time would be +0.5: cubic's 17.2 s against 13.1 s is 1 - 13.1 / 17.2, bbr's 12.4 s against 15.8 s is
    // -1 + 12.4 / 15.8.
    assert!(
        html.contains("<b>with CRQ</b> against <b>without CRQ</b>: 3 flows completed sooner"),
        "no comparison"
    );
    assert!(html.contains("TCP reno: 19.0 s \u{2192} 13.9 s, FCT score +0.27"));
    for score in ["+0.24", "+0.26", "\u{2212}0.22"] {
        assert!(html.contains(&format!("<span class=\"num\">{score}</span>")), "{score}");
    }
    // Four kinds of chart for two runs.
    assert_eq!(html.matches("role=\"img\"").count(), 8);
    let quantile = |at| with.queues[1].sojourn_ns.quantile(at).unwrap() as f64 / 1e6;
    let wait = format!(
        "<b>{:.3} ms</b> in the responsive queue (99th percentile {:.3} ms)",
        quantile(0.5),
        quantile(0.99)
    );
    assert!(html.contains(&wait), "{wait}");
    // Each change of queue begins a stretch of the timeline.
    assert!(
        with.choices.iter().any(|choice| choice.queue == "standard"),
        "the sketch lets flows go back and forth"
    );
    for choice in &with.choices {
        let standing = if choice.queue == "responsive" { "responsive" } else { "unresponsive" };
        let decimals = (2.0 - choice.time_s.log10().floor()) as usize;
        let title = format!("{}: {standing} from {:.decimals$} to ", choice.flow, choice.time_s);
        assert!(html.contains(&title), "{title}");
    }
    // Nothing is fetched: the only addresses are the names of XML's vocabulary.
    let addresses: BTreeSet<&str> =
        html.match_indices("http").map(|(at, _)| html[at..].split('"').next().unwrap()).collect();
    assert_eq!(addresses, BTreeSet::from(["http://www.w3.org/2000/svg"]));
    assert!(!html.contains("<script") && !html.contains("url(") && !html.contains("@import"));
    assert!(!html.contains("Do not rely"), "a sound run needs no warning");
}

#[test]
fn names_cannot_inject_html_and_doubtful_runs_are_loud() {
    let mut run = result("without", &WITHOUT, false);
    let evil = "</title></text></svg><script>alert('1')</script>";
    let old = std::mem::replace(&mut run.flows[3].name, evil.to_owned());
    run.assessments.iter_mut().filter(|row| row.flow == old).for_each(|row| row.flow = evil.to_owned());
    run.choices.iter_mut().filter(|row| row.flow == old).for_each(|row| row.flow = evil.to_owned());
    run.flows[0].error = Some("connection <reset>".to_owned());
    run.flows[1].controller = evil.to_owned();
    run.queues[0].name = format!("\" onload=\"{evil}");
    run.meta.machine = Some(evil.to_owned());
    run.meta.qdisc = evil.to_owned();
    run.meta.scenario.name = evil.to_owned();
    run.meta.cut_short = Some(evil.to_owned());
    run.law_counters.push((evil.to_owned(), 1));
    run.health.warnings.push(format!("packets left up to 12 ms late {evil}"));
    run.health.unaccounted = -3;
    run.health.capacity_lost_bytes = 1_000_000;
    let html = page::html(&[(evil, &run)]);
    keep("doubtful.html", &html);
    assert_well_formed(&html);
    assert!(!html.contains("<script") && !html.contains("\" onload=\""));
    assert!(html.contains("Do not rely on these numbers") && html.contains("packets left up to 12 ms late"));
    assert!(html.contains("-3 unaccounted for") && html.contains("connection &lt;reset&gt;"));
}

#[test]
fn many_flows_stay_readable() {
    let names: Vec<&'static str> = (1..=40).map(|index| &*format!("TCP cubic {index}").leak()).collect();
    let sketches: Vec<Sketch> = names
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let weight = 1.0 + (index * 7 % 11) as f64 / 3.0;
            sketch(
                name,
                "tcp",
                "cubic",
                weight,
                index % 3 != 0,
                index as f64 * 0.1,
                Some(10.0 + index as f64 / 8.0),
            )
        })
        .collect();
    let run = result("many", &sketches, true);
    let html = page::html(&[("forty flows", &run)]);
    keep("many.html", &html);
    assert_well_formed(&html);
    assert!(html.contains("32 other flows, summed") && html.contains("16 more flows, with fewer bytes"));
    assert!(names.iter().all(|name| html.contains(&format!("{name}<br>"))), "each flow is in the table");
}

#[test]
fn the_link_is_used_by_what_leaves_its_own_queue() {
    let alone = result("alone", &WITHOUT, false);
    let mut beside = alone.clone();
    for name in ["reverse", "core"] {
        beside.queues.push(QueueResult { name: name.to_owned(), dropped: 1000, ..alone.queues[0].clone() });
        beside.series.queues.push(alone.series.queues[0].clone());
    }
    assert!(page::utilisation(&alone).is_some());
    assert_eq!(page::utilisation(&beside), page::utilisation(&alone));
    assert_eq!(beside.bottleneck_series().queues, alone.series.queues);
    let drops = |run: &RunResult| {
        let html = page::html(&[("run", run)]);
        let (_, behind) = html.split_once("<dt>packets dropped</dt>").unwrap();
        behind.split_once("<dt>Jain").unwrap().0.to_owned()
    };
    assert_eq!(drops(&beside), drops(&alone));
    // What is read from files has no trace, whose rate may be another than the scenario's.
    let mut read = alone;
    read.meta.scenario.bottleneck.trace = Some(PathBuf::from("cell.trace").into());
    assert_eq!(page::utilisation(&read), None);
}

#[test]
fn empty_runs_make_a_page() {
    let mut run = result("empty", &[], false);
    run.queues.clear();
    run.series = Series::default();
    run.health = Health::default();
    let html = page::html(&[("nothing", &run)]);
    keep("empty.html", &html);
    assert_well_formed(&html);
    assert!(html.contains("No packet crossed the bottleneck"));
    assert_well_formed(&page::html(&[]));
}

#[test]
fn figures_show_the_paper_beside_us() {
    let mut random = Seed::default().stream("strip");
    let panel = |title: &str, shift: f64, random: &mut Random| {
        let mut columns = Vec::new();
        for (group, level) in
            [("TCP cubic", 95.0), ("TCP reno", 90.0), ("QUIC cubic", 85.0), ("TCP bbr", 12.0)]
        {
            for label in ["10ms", "20ms", "50ms"] {
                let mut point = || (level - shift + random.unit() * 20.0 - 10.0).clamp(0.0, 100.0);
                let points = (0..10).map(|_| point()).collect();
                columns.push(StripColumn {
                    group: group.into(),
                    label: label.into(),
                    points,
                    paper: Some(level),
                });
            }
        }
        StripPanel { title: title.into(), columns }
    };
    let panels = [panel("FIFO, 1 BDP", 4.0, &mut random), panel("FQ-CoDel", 15.0, &mut random)];
    let strip = page::strip_plot(&panels, "score", (0.0, 100.0));
    assert_eq!(strip.matches("<circle").count(), 2 * 12 * 10);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let ours = vec![vec![Some(0.31), Some(0.22), Some(-0.4)], vec![Some(0.52), Some(0.1), None]];
    let paper = vec![vec![Some(0.30), Some(0.30), Some(0.1)], vec![Some(0.5), Some(0.02), Some(0.3)]];
    let rows = names(&["against TCP bbr", "against UDP"]);
    let table = page::heat_table(&rows, &names(&["10 ms", "20 ms", "50 ms"]), &ours, &paper, 0.05);
    let html = page::page("a figure", &format!("<h1>A figure</h1>{table}{strip}"));
    keep("figure.html", &html);
    assert_well_formed(&html);
}

#[test]
fn files_are_tidy_tables_and_nothing_half_written_is_left() {
    let run = result("with", &WITH, true);
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("a/b");
    let written = output::write(&dir, &run).unwrap();
    // Once more over the first.
    assert_eq!(output::write(&dir, &run).unwrap(), written);
    let found: BTreeSet<PathBuf> =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(found, written.iter().cloned().collect::<BTreeSet<_>>());

    let table = |name: &str| -> (Vec<String>, Vec<Vec<String>>) {
        let mut reader = csv::Reader::from_path(dir.join(name)).unwrap();
        let head = reader.headers().unwrap().iter().map(str::to_owned).collect();
        (head, reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect())
    };
    let bins = run.series.queues[0].len();
    let (head, rows) = table("queue_series.csv");
    assert_eq!(
        head.join(","),
        "time_s,queue,departed_packets,sojourn_mean_ms,sojourn_max_ms,backlog_max_bytes,dropped_packets,marked_packets"
    );
    assert_eq!(rows.len(), 2 * bins);
    assert_eq!(rows[3][..4], ["0.15", "standard", "0", ""], "an empty bin has no delay");
    assert_eq!(rows[bins + 3][1], "responsive");
    let (head, rows) = table("flow_series.csv");
    assert_eq!(head.join(","), "time_s,flow,throughput_bps,dropped_packets,marked_packets");
    let throughput = run.series.flows[1][20].departed_bytes as f64 * 8.0 / INTERVAL_S;
    assert_eq!(rows[bins + 20][2].parse::<f64>().unwrap(), throughput);
    let (head, rows) = table("flows.csv");
    let mut fields = csv::Writer::from_writer(Vec::new());
    fields.serialize(&run.flows[0]).unwrap();
    let fields = String::from_utf8(fields.into_inner().unwrap()).unwrap();
    let fields = fields.lines().next().unwrap().replacen("name", "flow", 1);
    assert_eq!(head.join(","), fields, "the columns are the fields of a flow");
    assert_eq!((rows.len(), rows[4][0].as_str(), rows[4][7].as_str()), (5, "UDP", ""));
    let (head, rows) = table("queues.csv");
    assert_eq!(head.len(), rows[0].len());
    assert_eq!(rows[1][11].parse::<f64>().unwrap(), run.queues[1].sojourn_ns.max().unwrap() as f64 / 1e6);
    let (_, rows) = table("sojourn.csv");
    let counted: u64 = rows.iter().map(|row| row[2].parse::<u64>().unwrap()).sum();
    assert_eq!(counted, run.queues.iter().map(|queue| queue.departed).sum::<u64>());
    for (name, rows, columns) in [
        ("assessments.csv", run.assessments.len(), 11),
        ("choices.csv", run.choices.len(), 3),
        ("rtt.csv", run.series.rtt.iter().map(Vec::len).sum(), 3),
    ] {
        let (head, found) = table(name);
        assert_eq!((found.len(), head.len()), (rows, columns), "{name}");
    }
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.join("run.json")).unwrap()).unwrap();
    assert_eq!(json["meta"]["seed"]["seed"], 7);
    assert_eq!(json["flows"].as_array().unwrap().len(), 5);
    assert!(json.get("series").is_none());

    let page = dir.join("compare.html");
    output::write_page(&page, "<p>").unwrap();
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "<p>");

    // Tables have their columns even without rows, and a directory that cannot be is an error that names it.
    let mut empty = run.clone();
    (empty.flows, empty.assessments) = (Vec::new(), Vec::new());
    output::write(&dir, &empty).unwrap();
    assert_eq!(table("assessments.csv").0.len(), 11);
    assert_eq!(table("flows.csv").0.join(","), fields);
    let error = output::write(&dir.join("run.json"), &run).unwrap_err();
    assert!(error.to_string().contains("run.json"), "{error}");
}

#[test]
fn a_run_is_read_back_as_it_was_written() {
    let written = result("read back", &WITH, true);
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let files = output::write(first.path(), &written).unwrap();
    let read = weir_report::read::read(first.path()).unwrap();
    assert_eq!(read.queues[0].sojourn_ns, written.queues[0].sojourn_ns);
    output::write(second.path(), &read).unwrap();
    for file in files {
        let again = second.path().join(file.file_name().unwrap());
        assert!(std::fs::read(&file).unwrap() == std::fs::read(&again).unwrap(), "{}", file.display());
    }
}
