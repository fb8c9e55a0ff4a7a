//! The capture and the trace that a simulated run writes, read again.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use weir_assess::{DirectionReport, Options, Report, Stack, assess};
use weir_law::Verdict;
use weir_report::result::{FlowResult, RunResult};
use weir_scenario::Scenario;
use weir_world::{RunOptions, run};

/// Runs with a capture and a trace in `folder`.
pub(crate) fn run_in(folder: &Path, scenario: &Scenario) -> RunResult {
    let stop = AtomicBool::new(false);
    let options = RunOptions {
        world: weir_world::SIM,
        pcap: Some(folder.join("deep/packets.pcapng").into()),
        trace: Some(folder.join("packets.tr").into()),
        ..RunOptions::new(&stop)
    };
    run(scenario, &options).unwrap()
}

pub(crate) fn assessed(folder: &Path, scenario: &Scenario) -> Report {
    let file = File::open(folder.join("deep/packets.pcapng")).unwrap();
    assess(file, &Options { params: scenario.law_params().unwrap(), ..Options::default() })
}

fn data(report: &Report, port: u16) -> (&DirectionReport, Stack) {
    let flow = report.flows.iter().find(|flow| flow.data.source.port() == port);
    flow.map(|flow| (&flow.data, flow.stack)).unwrap_or_else(|| panic!("no data from port {port}"))
}

pub(crate) fn word(verdict: Verdict) -> String {
    serde_json::to_value(verdict).unwrap().as_str().unwrap().to_owned()
}

/// Flows by name, stack, controller and ECN.
fn scenario(qdisc: &str, flows: &[(&str, &str, &str, bool)]) -> Scenario {
    let mut text = format!("[bottleneck]\nrate = '30mbit'\nrtt = '20ms'\nqdisc = '{qdisc}'\n");
    for (name, stack, controller, ecn) in flows {
        text += &format!("[[flow]]\nname = '{name}'\nstack = '{stack}'\nduration = '12s'\necn = {ecn}\n");
        text += &match *stack {
            "udp" => format!("rate = '{controller}'\n"),
            _ => format!("controller = '{controller}'\n"),
        };
    }
    Scenario::parse(&text, "test.toml").unwrap()
}

const MARKED: [(&str, &str, &str, bool); 4] = [
    ("marked", "tcp", "cubic", true),
    ("not capable", "tcp", "reno", false),
    ("quic", "quic", "cubic", true),
    ("call", "udp", "2mbit", false),
];

#[test]
fn a_capture_is_judged_as_the_run_was() {
    let scalable = [("dctcp", "tcp", "dctcp", true), ("prague", "tcp", "prague", true)];
    let deaf =
        [("cubic", "tcp", "cubic", false), ("reno", "tcp", "reno", false), ("bbr", "tcp", "bbr1", false)];
    let mut judged = 0;
    for (qdisc, flows) in [
        ("codel ecn target 2ms interval 20ms limit 10000p", MARKED.as_slice()),
        // A short queue: behind a long one cycles are shorter, and windows others.
        ("bfifo limit 0.1bdp", MARKED.as_slice()),
        ("dualpi2 scalable any", &scalable),
        ("crq split shared", &scalable),
        ("fq_codel ecn", &deaf),
    ] {
        let scenario = scenario(qdisc, flows);
        let folder = tempfile::tempdir().unwrap();
        let result = run_in(folder.path(), &scenario);
        let report = assessed(folder.path(), &scenario);
        let counters = report.counters;
        assert!(report.error.is_none(), "{qdisc}: {:?}", report.error);
        assert_eq!(
            (counters.malformed, counters.truncated, counters.not_ip, counters.backwards),
            (0, 0, 0, 0)
        );
        assert_eq!(report.flows.len(), flows.len(), "{qdisc}: one connection each");
        let trace = std::fs::read_to_string(folder.path().join("packets.tr")).unwrap();
        for (index, flow) in result.flows.iter().enumerate() {
            let port = 20_000 + index as u16;
            judged += compare(qdisc, flow, data(&report, port), holes(&trace, port));
        }
    }
    assert!(judged >= 9, "{judged} verdicts were compared");
}

/// How many packets of a flow were dropped for the first time: a retransmission that is lost again leaves no further
/// hole.
fn holes(trace: &str, port: u16) -> u64 {
    let sender = format!("10.0.0.1:{port}>");
    let dropped = trace.lines().filter(|line| line.starts_with('d') && line.contains(&sender));
    let sequences = dropped.filter_map(|line| line.split(' ').find(|word| word.starts_with("seq=")));
    sequences.collect::<HashSet<_>>().len() as u64
}

/// What the run and its capture say of a flow, of which packets left so many `holes`. Returns how many verdicts there
/// were to compare.
fn compare(qdisc: &str, flow: &FlowResult, (seen, stack): (&DirectionReport, Stack), holes: u64) -> u32 {
    let what = format!("{qdisc}, {}", flow.name);
    let expected = match flow.stack.as_str() {
        "tcp" => Stack::Tcp,
        "quic" => Stack::Quic,
        _ => Stack::Udp,
    };
    assert_eq!(stack, expected, "{what}");
    // What is marked on arrival may still be queued at the end.
    assert!(
        (flow.marked.saturating_sub(30)..=flow.marked).contains(&seen.ecn.ce),
        "{what}: {} CE",
        seen.ecn.ce
    );
    // The server's answer to the handshake is one packet more; what is queued at the end has not left.
    let left = flow.packets - flow.dropped + u64::from(stack != Stack::Udp);
    assert!((left.saturating_sub(300)..=left).contains(&seen.packets), "{what}: {} of {left}", seen.packets);
    if stack == Stack::Udp {
        return 0;
    }
    println!(
        "{what}: marks {} and {}, losses {} and {}; {} drops, {holes} holes, {} inferred; {} and {} cycles",
        flow.class_ecn,
        word(seen.mark.verdict),
        flow.class_loss,
        word(seen.loss.verdict),
        flow.dropped,
        seen.loss.signals,
        flow.cycles,
        seen.cycles,
    );
    assert_eq!(word(seen.mark.verdict), flow.class_ecn, "{what}");
    // BBR answers losses by no rule: in runs of this kind 57 to 86 votes are for it and 77 to 105 against, and the last
    // ones decide.
    let obeys = flow.name != "bbr";
    if stack == Stack::Tcp {
        assert!(!obeys || word(seen.loss.verdict) == flow.class_loss, "{what}");
        assert!(
            seen.loss.signals.abs_diff(holes) * 12 <= holes,
            "{what}: {} losses inferred, {holes} packets dropped for the first time",
            seen.loss.signals
        );
    }
    u32::from(flow.class_ecn != "unclassified")
        + u32::from(obeys && stack == Stack::Tcp && flow.class_loss != "unclassified")
}

#[test]
fn a_trace_has_every_event() {
    let scenario = scenario("codel ecn target 2ms interval 20ms limit 30p", &MARKED);
    let folder = tempfile::tempdir().unwrap();
    let result = run_in(folder.path(), &scenario);
    let text = std::fs::read_to_string(folder.path().join("packets.tr")).unwrap();
    let mut signs: HashMap<&str, u64> = HashMap::new();
    let mut reasons: HashMap<&str, u64> = HashMap::new();
    let mut before = "";
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [sign, time, link, ..] = words[..] else { panic!("{line}") };
        *signs.entry(if link == "back" { "back" } else { sign }).or_default() += 1;
        if let Some(reason) = words[words.len() - 1].strip_prefix("reason=") {
            *reasons.entry(if sign == "m" { "marked" } else { reason }).or_default() += 1;
        }
        assert!(time.len() > before.len() || time >= before, "{line} comes after {before}");
        before = time;
    }
    let queue = &result.queues[0];
    let refused = reasons["overflow"];
    assert_eq!(signs["+"] + refused, result.health.arrived);
    assert_eq!((signs["-"], signs["d"], signs["m"]), (queue.departed, result.health.dropped, queue.marked));
    assert!(queue.departed - signs["r"] <= 1, "at most one packet is on the link at the end");
    assert_eq!((refused, reasons["aqm"], reasons["marked"]), (queue.overflowed, queue.dropped, queue.marked));
    assert!(refused > 0 && queue.dropped > 0 && queue.marked > 0 && signs["back"] > 1000, "{signs:?}");
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with("+ 0.000000000 0 10.0.0.1:20003>10.0.1.1:40003 udp id=0 seq=0 len=1472 "),
        "{first}"
    );
}

#[test]
fn files_are_the_same_to_the_byte_and_without_them_the_run_is_the_same() {
    let scenario = scenario("dualpi2", &MARKED);
    let run = || {
        let folder = tempfile::tempdir().unwrap();
        let result = run_in(folder.path(), &scenario);
        let file = |name| std::fs::read(folder.path().join(name)).unwrap();
        (serde_json::to_string(&result).unwrap(), file("deep/packets.pcapng"), file("packets.tr"))
    };
    let (one, again) = (run(), run());
    assert!(one == again);
    let stop = AtomicBool::new(false);
    let options = RunOptions { world: weir_world::SIM, ..RunOptions::new(&stop) };
    let without = weir_world::run(&scenario, &options).unwrap();
    assert_eq!(one.0, serde_json::to_string(&without).unwrap());
    // Headers only: a small part of what went over the link.
    let carried: u64 = without.queues.iter().map(|queue| queue.departed_bytes).sum();
    assert!((one.1.len() as u64) < carried / 5, "{} bytes of {carried}", one.1.len());
}

#[test]
fn files_that_cannot_be_written_are_an_error() {
    let scenario = scenario("dualpi2", &MARKED);
    let stop = AtomicBool::new(false);
    let folder = tempfile::tempdir().unwrap();
    // What is no file is not replaced by one.
    let directory = folder.path().join("packets.pcapng");
    std::fs::create_dir(&directory).unwrap();
    for path in [directory.as_path(), Path::new("/proc/no/such")] {
        let options =
            RunOptions { world: weir_world::SIM, pcap: Some(path.into()), ..RunOptions::new(&stop) };
        let error = run(&scenario, &options).unwrap_err().to_string();
        assert!(error.contains("cannot write /") && error.contains("--out"), "{error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
