//! The capture that a run writes, read again by the assessment: two ways to the same judgement.

use std::fs::File;
use std::sync::atomic::AtomicBool;

use weir_assess::{DirectionReport, Options, Report, Stack, assess};
use weir_law::Verdict;
use weir_report::result::RunResult;
use weir_scenario::Scenario;
use weir_world::{self as run, RunOptions};

use crate::{assert_completed, assert_sound, flow, scenario};
use weir_testkit::skip::root_and_turn;

/// Runs with a capture and assesses it by the law that the run used.
fn run_and_assess(scenario: &Scenario) -> (RunResult, Report) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/packets.pcapng");
    let stop = AtomicBool::new(false);
    let options = RunOptions { pcap: Some(path.as_path().into()), ..RunOptions::new(&stop) };
    let result = run::run(scenario, &options).unwrap();
    let report = assess(
        File::open(&path).unwrap(),
        &Options { params: scenario.law_params().unwrap(), ..Options::default() },
    );
    (result, report)
}

/// The direction towards the client of the flow with the server's port.
fn data(report: &Report, port: u16) -> (&DirectionReport, Stack) {
    report
        .flows
        .iter()
        .flat_map(|flow| [(&flow.data, flow.stack), (&flow.other, flow.stack)])
        .find(|(direction, _)| direction.source.port() == port)
        .unwrap_or_else(|| panic!("no flow from port {port}"))
}

fn word(verdict: Verdict) -> String {
    serde_json::to_value(verdict).unwrap().as_str().unwrap().to_owned()
}

/// Of the round trip of 10 ms, what lies behind the queue: nearly all. Where that is half of it, a cycle seen behind
/// the queue is a fifth shorter than one seen before it, and more than a quarter of a Cubic flow's votes say that it
/// does not respond.
const BEHIND_MS: f64 = 9.0;

#[test]
fn a_capture_tells_what_the_run_told() {
    let Some(_turn) = root_and_turn() else { return };
    let (result, report) = run_and_assess(&scenario(
        "rate = '30mbit', rtt = '10ms', position = 0.9, qdisc = 'codel ecn target 2ms interval 20ms limit 10000p'",
        &[
            "name = 'marked', stack = 'tcp', controller = 'cubic', ecn = true, bytes = '6mb'",
            "name = 'lossy', stack = 'tcp', controller = 'cubic', bytes = '6mb'",
            "name = 'quic', stack = 'quic', controller = 'cubic', ecn = true, bytes = '6mb'",
            "name = 'udp', stack = 'udp', rate = '3mbit', duration = '1400ms'",
        ],
    ));
    assert_sound(&result);
    assert!(report.error.is_none(), "{:?}", report.error);
    assert_eq!((report.counters.malformed, report.counters.truncated, report.counters.not_ip), (0, 0, 0));
    assert_eq!(report.counters.backwards, 0, "each departure is later than the one before");
    assert_eq!(report.flows.len(), 4, "nothing but the scenario's flows is on the wire");
    let ends = report.flows.iter().flat_map(|flow| [flow.data.source, flow.data.destination]);
    assert!(ends.clone().all(|end| end.is_ipv4()));
    assert!(ends.count() == 8);
    // Nine packets in ten waited less.
    let waited_ms = result.queues[0].sojourn_ns.quantile(0.9).unwrap() as f64 / 1e6;
    for (port, name, stack) in
        [(20_000, "marked", Stack::Tcp), (20_001, "lossy", Stack::Tcp), (20_002, "quic", Stack::Quic)]
    {
        let (seen, kind) = data(&report, port);
        let flow = flow(&result, name);
        assert_completed(flow, 6 << 20);
        assert_eq!(kind, stack);
        assert_eq!(seen.ecn.ce, flow.marked, "{name}: CE in the capture, marks in the run");
        assert_eq!(
            seen.packets,
            flow.packets - flow.dropped,
            "{name}: what left the queue is in the capture"
        );
        assert_eq!(word(seen.mark.verdict), flow.class_ecn, "{name}");
        // A spin bit turns once a round trip, wherever one looks. TCP's cycle before the queue is from a packet's
        // arrival to its acknowledgement, and behind the queue from its departure: shorter by the time that it has
        // waited.
        let longest = match stack {
            Stack::Tcp => 1.0 + waited_ms / BEHIND_MS,
            _ => 1.02,
        };
        let ratio = seen.cycles as f64 / flow.cycles as f64;
        assert!((0.98..longest).contains(&ratio), "{name}: {} and {} cycles", seen.cycles, flow.cycles);
    }
    let (lossy, _) = data(&report, 20_001);
    let flow_lossy = flow(&result, "lossy");
    assert_eq!(word(lossy.loss.verdict), flow_lossy.class_loss);
    let ratio = lossy.loss.signals as f64 / flow_lossy.dropped as f64;
    assert!(
        (0.5..2.0).contains(&ratio),
        "{} losses inferred, {} dropped",
        lossy.loss.signals,
        flow_lossy.dropped
    );
    let (udp, kind) = data(&report, 20_003);
    assert_eq!(
        (kind, udp.packets),
        (Stack::Udp, flow(&result, "udp").packets - flow(&result, "udp").dropped)
    );
    assert_eq!(udp.loss.verdict, Verdict::Unclassified);
}

/// Under overload more packets are dropped than leave, and flows without feedback fill the file: it must stay readable.
#[test]
fn a_capture_of_an_overload_is_whole() {
    let Some(_turn) = root_and_turn() else { return };
    let (result, report) = run_and_assess(&scenario(
        "rate = '10mbit', rtt = '5ms', qdisc = { kind = 'crq' }",
        &[
            "name = 'flood', stack = 'udp', rate = '40mbit', duration = '1s'",
            "name = 'cubic', stack = 'tcp', controller = 'cubic', bytes = '300kb'",
        ],
    ));
    assert_sound(&result);
    let flood = flow(&result, "flood");
    // Half of the link is 5 Mbit/s of its 40.
    assert!(flood.dropped * 2 > flood.packets, "{flood:?}");
    assert!(
        !result.health.warnings.iter().any(|warning| warning.contains("capture")),
        "{:?}",
        result.health.warnings
    );
    assert!(report.error.is_none());
    let (seen, _) = data(&report, 20_000);
    let queued = result.health.still_queued;
    assert!((flood.packets - flood.dropped - queued..=flood.packets - flood.dropped).contains(&seen.packets));
}
