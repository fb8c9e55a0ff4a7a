//! The same scenes as a kernel ran them: Linux 7.2.12 and 7.2.13 in a micro-VM with HTB and netem, in bunches or one
//! packet at a time, goodput over 25 s after 10 s and the age of the first packet in the queue, looked at many times a
//! second; and the testbed of the DualPI2 authors (arXiv 2209.01078, data in olgaalb/dualpi2eval).
//! docs/validation/linux.md says what differs and why.

#[path = "kernel/scene.rs"]
mod scene;

use std::fmt::Write as _;

use scene::{Scene, Seen};
use weir_core::Duration;

/// What a kernel's flows got.
struct Row {
    what: &'static str,
    qdisc: &'static str,
    link: (&'static str, u64),
    /// Whether packets waited there for others to go with.
    defer: bool,
    /// Controllers, how many flows of each, and Mbit/s of one flow there.
    flows: &'static [(&'static str, usize, f64)],
    /// There: Classic and low-latency queue, mean age of the first packet in ms.
    delay: Option<(f64, f64)>,
    /// There: marks by the kernel's counters, in per cent of packets. DualPI2 counts a packet twice if coupling and step
    /// both mark it, Weir once.
    marked: Option<f64>,
}

const HOME: (&str, u64) = ("40mbit", 7);
const SHORT: (&str, u64) = ("100mbit", 5);
const SLOW: (&str, u64) = ("20mbit", 20);
const DUAL: &str = "dualpi2 scalable any";

/// One by one, behind DualPI2 at 40 Mbit/s and 7 ms, with nothing but rates to compare: what a row does not say.
const PLAIN: Row =
    Row { what: "", qdisc: DUAL, link: HOME, defer: false, flows: &[], delay: None, marked: None };

const ROWS: &[Row] = &[
    // `dualpi2` under 7.2.12: the means of two to six boots, of one with ten flows of each kind.
    Row {
        what: "coupled, 1 + 1 (five boots there: 13.57-14.30, 23.95-24.68)",
        defer: true,
        flows: &[("cubic", 1, 13.956), ("dctcp", 1, 24.30)],
        delay: Some((14.9, 0.255)),
        marked: Some(11.85),
        ..PLAIN
    },
    Row {
        what: "coupled, Reno",
        defer: true,
        flows: &[("reno", 1, 14.35), ("dctcp", 1, 23.905)],
        delay: Some((14.7, 0.255)),
        marked: Some(12.05),
        ..PLAIN
    },
    Row {
        what: "coupled, 5 + 5",
        defer: true,
        flows: &[("cubic", 5, 2.272), ("dctcp", 5, 5.381)],
        delay: Some((15.1, 0.335)),
        marked: Some(50.7),
        ..PLAIN
    },
    Row {
        what: "coupled, 10 + 10",
        defer: true,
        flows: &[("cubic", 10, 0.954), ("dctcp", 10, 2.871)],
        delay: Some((15.06, 0.40)),
        marked: Some(84.96),
        ..PLAIN
    },
    Row {
        what: "coupled, one by one, 1 + 1 (six boots there: 11.92-12.70, 25.56-26.34)",
        flows: &[("cubic", 1, 12.37), ("dctcp", 1, 25.887)],
        delay: Some((15.0, 0.265)),
        marked: Some(10.85),
        ..PLAIN
    },
    Row {
        what: "coupled, one by one, Reno",
        flows: &[("reno", 1, 12.98), ("dctcp", 1, 25.27)],
        delay: Some((14.85, 0.255)),
        marked: Some(11.2),
        ..PLAIN
    },
    Row {
        what: "coupled, one by one, 5 + 5",
        flows: &[("cubic", 5, 2.118), ("dctcp", 5, 5.532)],
        delay: Some((14.97, 0.323)),
        marked: Some(49.4),
        ..PLAIN
    },
    Row {
        what: "PIE",
        qdisc: "pie target 20ms ecn",
        flows: &[("cubic", 1, 2.846), ("dctcp", 1, 35.454)],
        ..PLAIN
    },
    Row {
        what: "FQ-CoDel",
        qdisc: "fq_codel",
        flows: &[("cubic", 1, 19.101), ("dctcp", 1, 19.101)],
        ..PLAIN
    },
    // The mean of three boots of 7.2.12 in Weir's world `vm`: cubic 1.87 to 2.64.
    Row {
        what: "RED",
        qdisc: "red min 120kb max 360kb limit 1500kb burst 220 ecn",
        defer: true,
        flows: &[("cubic", 1, 2.233), ("dctcp", 1, 36.02)],
        ..PLAIN
    },
    Row {
        what: "step by sojourn time, 2",
        qdisc: "fq_codel flows 1 ce_threshold 850us target 1s interval 2s",
        link: SHORT,
        flows: &[("dctcp", 2, 47.644)],
        marked: Some(18.5),
        ..PLAIN
    },
    Row {
        what: "the same, 10",
        qdisc: "fq_codel flows 1 ce_threshold 850us target 1s interval 2s",
        link: SHORT,
        flows: &[("dctcp", 10, 9.359)],
        marked: Some(46.0),
        ..PLAIN
    },
    Row {
        what: "step at 5 ms",
        qdisc: "fq_codel flows 1 ce_threshold 5ms target 1s interval 2s",
        link: SHORT,
        flows: &[("dctcp", 2, 47.772)],
        ..PLAIN
    },
    Row {
        what: "step by RED, 10.6 kB",
        qdisc: "step threshold 10600b",
        link: SHORT,
        flows: &[("dctcp", 2, 47.607)],
        ..PLAIN
    },
    Row {
        what: "step by RED, 3.1 kB",
        qdisc: "step threshold 3100b",
        link: SHORT,
        flows: &[("dctcp", 2, 44.26)],
        ..PLAIN
    },
    Row {
        what: "CAKE",
        qdisc: "cake",
        link: SHORT,
        flows: &[("cubic", 1, 48.934), ("bbr1", 1, 46.771)],
        ..PLAIN
    },
    // 7.2.12 in Weir's world `vm`, the mean of four boots: cubic 2.34 to 2.64. One of fq_codel.
    Row {
        what: "CoDel",
        qdisc: "codel",
        link: SLOW,
        defer: true,
        flows: &[("cubic", 1, 2.483), ("bbr1", 1, 16.29)],
        ..PLAIN
    },
    Row {
        what: "FQ-CoDel, BBR",
        qdisc: "fq_codel",
        link: SLOW,
        defer: true,
        flows: &[("cubic", 1, 9.536), ("bbr1", 1, 9.494)],
        ..PLAIN
    },
];

/// Whether `here` differs from `there` by no more than `within` of it.
fn assert_within(what: &str, here: f64, there: f64, within: f64) {
    assert!((here / there - 1.0).abs() <= within, "{what}: {here:.3} here, {there:.3} there");
}

#[test]
fn flows_fare_as_in_linux_7_2() {
    let mut table = String::from("what\n    flows             there   here    diff\n");
    for row in ROWS {
        let scene = Scene {
            rate: row.link.0,
            qdisc: row.qdisc,
            flows: row.flows.iter().flat_map(|(name, count, _)| vec![(*name, row.link.1); *count]).collect(),
            defer: row.defer,
            jitter: None,
            seconds: 25,
        };
        let seen = scene.mean_of(16);
        writeln!(table, "{}", row.what).unwrap();
        let mut line = |name: &str, there: f64, here: f64, within: f64| {
            writeln!(table, "    {name:16} {there:6.2} {here:6.2}  {:+5.1} %", 100.0 * (here / there - 1.0))
                .unwrap();
            assert_within(&format!("{}: {name}", row.what), here, there, within);
        };
        let mut rates = seen.rates.iter();
        for (name, count, there) in row.flows {
            let here = rates.by_ref().take(*count).sum::<f64>() / *count as f64;
            line(&format!("{count} {name}"), *there, here, 0.1);
        }
        if let Some((classic, low)) = row.delay {
            line("classic queue ms", classic, seen.head[0], 0.2);
            line("low queue ms", low, seen.head[1], 0.2);
        }
        if let Some(there) = row.marked {
            let within = if row.qdisc == DUAL { 0.15 } else { 0.1 };
            line("marked %", there, seen.marked, within);
        }
    }
    insta::assert_snapshot!(table);
}

/// One Prague and one Cubic flow of the round trips given, at 40 Mbit/s; there: Mbit/s of each, mean wait in each queue
/// in ms, per cent marked and dropped. Zero: no such flow.
const AUTHORS: &[(u64, u64, [f64; 6])] = &[
    (5, 0, [39.6, 0.0, 0.52, 0.0, 6.45, 0.0]),
    (5, 5, [19.9, 19.7, 0.32, 14.9, 6.34, 0.13]),
    (5, 10, [22.2, 17.4, 0.34, 14.5, 5.91, 0.11]),
    (5, 20, [25.6, 14.0, 0.34, 13.5, 5.36, 0.10]),
    (5, 50, [31.0, 8.5, 0.41, 9.7, 4.93, 0.09]),
    (5, 100, [33.8, 5.6, 0.44, 6.6, 5.15, 0.09]),
    (100, 5, [9.1, 30.5, 0.31, 14.7, 3.79, 0.06]),
    (100, 20, [14.7, 24.9, 0.30, 13.2, 2.51, 0.03]),
    (100, 50, [19.8, 19.6, 0.30, 10.5, 1.97, 0.02]),
    (100, 100, [25.3, 14.0, 0.34, 9.5, 1.62, 0.02]),
];

#[test]
fn prague_and_cubic_share_as_on_the_testbed_of_the_dualpi2_authors() {
    let mut table = String::from(
        "rtt_ms    prague      cubic       low ms     classic ms   marked %     dropped %\n\
         L/C     there here  there here  there here  there here  there here  there here\n",
    );
    for (prague, cubic, there) in AUTHORS {
        let mut flows = vec![("prague-2022", *prague)];
        flows.extend((*cubic > 0).then_some(("cubic", *cubic)));
        let jitter = Some(Duration::from_micros(180));
        // Two at 100 ms take a minute to settle.
        let seconds = if (*prague, *cubic) == (100, 100) { 240 } else { 60 };
        let scene = Scene { rate: "40mbit", qdisc: "dualpi2", flows, defer: false, jitter, seconds };
        let Seen { rates, waited, marked, dropped, .. } = scene.mean_of(16);
        // Rates there are of wire bytes.
        let wire = |index: usize| rates.get(index).map_or(0.0, |rate| rate * 1514.0 / 1448.0);
        let here = [wire(0), wire(1), waited[1], waited[0], marked, dropped];
        write!(table, "{prague:3}/{cubic:3}").unwrap();
        if *cubic > 0 {
            let what = |name| format!("{prague}/{cubic} ms: {name}");
            assert_within(&what("prague"), here[0], there[0], 0.1);
            assert_within(&what("cubic"), here[1], there[1], 0.1);
            assert_within(&what("low"), here[2], there[2], 0.2);
            assert_within(&what("classic"), here[3], there[3], 0.2);
            assert_within(&what("marked"), here[4], there[4], 0.2);
        }
        for (there, here) in there.iter().zip(here) {
            write!(table, " {there:5.2} {here:5.2}").unwrap();
        }
        table.push('\n');
    }
    insta::assert_snapshot!(table);
}
