//! A bottleneck to test with.

use serde_json::{Map, Value, json};
use weir_qdisc::Sharing;
use weir_qdisc::config::SplitKind;

use weir_core::QueueChoice;
use weir_kernel::model::{Bottleneck, Counters, Flow, FlowTable, Queue, State};
use weir_kernel::{AttachedProgram, Direction};
use weir_law::{Verdict, Votes};
use weir_netdev::iproute::Discipline;

/// 3 h 12 min after [`bottleneck`] began.
pub(crate) const NOW: f64 = 1_000_011_520.0;

fn discipline(value: Value) -> Discipline {
    match value {
        Value::Object(object) => Discipline(object),
        _ => Discipline(Map::new()),
    }
}

fn program(what: &str, hook: &'static str) -> AttachedProgram {
    AttachedProgram { what: what.to_owned(), hook: Some(hook) }
}

/// One with two busy queues and three flows.
pub(crate) fn bottleneck() -> Bottleneck {
    let counters = [("tcp_packets", 16_000), ("admitted", 3), ("full", 0), ("loss_segments", 15)];
    Bottleneck {
        device: "eth0".to_owned(),
        ifindex: 2,
        direction: Direction::Egress,
        queue_device: "eth0".to_owned(),
        state: State::Up,
        faults: Vec::new(),
        warnings: Vec::new(),
        since_unix_s: Some(1_000_000_000),
        rate_bits_per_second: 20_000_000,
        sharing: Sharing::Equal,
        split: SplitKind::Hard,
        law: json!({"preset": "paper", "main_signal": "loss", "set": {}}),
        programs: vec![
            program("forward at the egress of eth0", "tcx"),
            program("reverse at the ingress of eth0", "tcx"),
            program("lost (drops) of eth0", "tracepoint"),
        ],
        shaper: Some(discipline(json!({"kind": "htb", "handle": "57e1:", "root": true, "bytes": 25_125_000,
            "packets": 16_750, "drops": 15, "overlimits": 900, "requeues": 0, "backlog": 30_280, "qlen": 20}))),
        queues: vec![
            Queue {
                queue: QueueChoice::Responsive,
                classid: "57e1:1".to_owned(),
                assured_bits_per_second: 10_000_000,
                setup: "bfifo".to_owned(),
                marks: None,
                discipline: Some(discipline(json!({"kind": "bfifo", "handle": "57e2:", "parent": "57e1:1",
                    "options": {"limit": 30_720}, "bytes": 23_625_000, "packets": 15_750, "drops": 12,
                    "overlimits": 0, "requeues": 0, "backlog": 30_280, "qlen": 20}))),
            },
            Queue {
                queue: QueueChoice::Standard,
                classid: "57e1:2".to_owned(),
                assured_bits_per_second: 10_000_000,
                setup: "codel".to_owned(),
                marks: Some(17),
                discipline: Some(discipline(json!({"kind": "codel", "handle": "57e3:", "parent": "57e1:2",
                    "options": {"limit": 1000, "ecn": true}, "bytes": 1_500_000, "packets": 1000, "drops": 3,
                    "overlimits": 0, "requeues": 0, "backlog": 0, "qlen": 0, "ecn_mark": 17}))),
            },
        ],
        flow_table: Some(FlowTable {
            flows: 3,
            capacity: 65_536,
            responsive: 1,
            unresponsive: 1,
            unclassified: 1,
        }),
        counters: Counters(counters.map(|(name, value)| (name.to_owned(), value)).to_vec()),
        flows: vec![answering(), ignoring(), young()],
    }
}

fn flow(source: &str, destination: &str) -> Flow {
    Flow {
        device: "eth0".to_owned(),
        direction: Direction::Egress,
        source: source.to_owned(),
        destination: destination.to_owned(),
        protocol: "tcp",
        loss_verdict: Verdict::Unclassified,
        ecn_verdict: Verdict::Unclassified,
        queue: QueueChoice::Standard,
        cycles: 0,
        rtt_ms: None,
        bytes: 0,
        packets: 0,
        window_bytes: [0; 3],
        loss_segments: [0; 3],
        mark_segments: [0; 3],
        loss_votes: Votes::default(),
        ecn_votes: Votes::default(),
        late_signals: 0,
        withheld: 0,
        idle_s: 0.0,
        closing: false,
    }
}

/// Answers to loss.
pub(crate) fn answering() -> Flow {
    Flow {
        loss_verdict: Verdict::Responsive,
        queue: QueueChoice::Responsive,
        cycles: 120,
        rtt_ms: Some(21.4),
        bytes: 23_000_000,
        packets: 15_333,
        window_bytes: [12_000, 52_500, 50_900],
        loss_segments: [0, 2, 0],
        loss_votes: Votes { responsive: 9, unresponsive: 1 },
        late_signals: 1,
        withheld: 2,
        idle_s: 0.001,
        ..flow("10.0.0.1:40000", "10.0.1.1:443")
    }
}

/// Does not.
pub(crate) fn ignoring() -> Flow {
    Flow {
        loss_verdict: Verdict::Unresponsive,
        cycles: 88,
        rtt_ms: Some(20.1),
        bytes: 1_400_000,
        packets: 960,
        window_bytes: [0, 104_000, 99_100],
        loss_segments: [4, 6, 0],
        loss_votes: Votes { responsive: 0, unresponsive: 7 },
        idle_s: 0.1,
        closing: true,
        ..flow("10.0.0.2:40000", "10.0.1.1:443")
    }
}

/// QUIC over IPv6 that has only just begun, with a mark.
pub(crate) fn young() -> Flow {
    Flow {
        protocol: "quic",
        ecn_verdict: Verdict::Responsive,
        cycles: 4,
        bytes: 9000,
        packets: 8,
        mark_segments: [0, 1, 0],
        ecn_votes: Votes { responsive: 1, unresponsive: 0 },
        idle_s: 9.0,
        ..flow("[fd00::1]:4433", "[fd00::2:10]:50000")
    }
}
