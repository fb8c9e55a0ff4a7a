//! What fair queuing promises, of every discipline that queues by flow: equal rates for flows that all want more,
//! however fast they send and however long their packets are, and short waits for a flow that sends little. The numbers
//! are kept as a snapshot.

mod support;

use std::fmt::Write;

use support::{Arrival, Tally, drive};
use weir_core::{Duration, Ecn, Event, EventKind, FlowId, Histogram, QueueChoice, Rate, Seed, Time};
use weir_qdisc::{BuildContext, QdiscConfig};

const LINK: Rate = Rate::from_bits_per_sec(20_000_000);
/// Flows that want more than their share of 2 Mbit/s: their rates in kbit/s and the length of their packets.
const GREEDY: [(u64, u32); 10] = [
    (2_500, 100),
    (3_000, 1514),
    (4_000, 300),
    (5_000, 575),
    (6_000, 1514),
    (8_000, 1000),
    (9_000, 1514),
    (10_000, 200),
    (12_000, 1400),
    (15_000, 1514),
];
/// Sends 100 bytes every 50 ms.
const SPARSE: FlowId = FlowId(10);
const SECONDS: u64 = 5;

fn arrivals(ecn: Ecn) -> Vec<Arrival> {
    let mut all: Vec<(u64, FlowId, u32)> = Vec::new();
    for (flow, (kbit, bytes)) in GREEDY.into_iter().enumerate() {
        let gap = u64::from(bytes) * 8_000_000 / kbit;
        let times = (0..SECONDS * 1_000_000_000 / gap).map(|packet| packet * gap);
        all.extend(times.map(|at| (at, FlowId(flow as u32), bytes)));
    }
    all.extend((0..SECONDS * 20).map(|packet| (packet * 50_000_000 + 7_000_000, SPARSE, 100)));
    all.sort_unstable();
    let mut last = 0;
    all.into_iter()
        .map(|(at, flow, bytes)| {
            let gap = at - std::mem::replace(&mut last, at);
            Arrival { gap, flow, bytes, ecn, choice: QueueChoice::Standard }
        })
        .collect()
}

struct Outcome {
    jain: f64,
    utilisation: f64,
    sparse: Histogram,
    tally: Tally,
}

/// What came of a discipline from the end of the first second on.
fn outcome(words: &str, ecn: Ecn) -> Outcome {
    let link = BuildContext { rate: LINK, rtt: Duration::from_millis(100), mtu: 1514, seed: Seed::default() };
    let mut queue = words.parse::<QdiscConfig>().unwrap().build(&link).unwrap();
    let (events, _) = drive(&mut *queue, LINK, &arrivals(ecn), false);
    let from = Time::ZERO + Duration::from_secs(1);
    let events: Vec<Event> = events.into_iter().filter(|event| event.time >= from).collect();
    let (mut bytes, mut sparse) = ([0u64; GREEDY.len()], Histogram::new());
    for event in events.iter().filter(|event| event.kind == EventKind::Dequeue) {
        match bytes.get_mut(event.packet.flow.0 as usize) {
            Some(bytes) => *bytes += u64::from(event.packet.wire_bytes),
            None => sparse.record(event.sojourn.as_nanos()),
        }
    }
    let (sum, squares) = bytes
        .iter()
        .fold((0.0, 0.0), |(sum, squares), &bytes| (sum + bytes as f64, squares + (bytes as f64).powi(2)));
    Outcome {
        jain: sum * sum / (bytes.len() as f64 * squares),
        utilisation: sum * 8.0 / (LINK.bits_per_sec() * (SECONDS - 1)) as f64,
        sparse,
        tally: Tally::of(&events),
    }
}

#[test]
fn backlogged_flows_get_equal_rates_and_a_sparse_flow_does_not_wait() {
    // The time of two packets of full length: one on the link, and one that went before by its deficit.
    let two_packets = 2 * LINK.time_for(1514).as_nanos();
    // A turn of each flow, of a quantum and what the turn before left (less than a packet), and the packet on the link.
    let round = LINK.time_for(21 * 1514).as_nanos();
    let mut table = String::from(
        "qdisc                  ecn     jain   util  drops  over   marks  sparse_p50_us  sparse_max_us\n",
    );
    for (words, ecn, wait) in [
        ("drr limit 100p", Ecn::NotEct, round),
        ("fq_codel", Ecn::NotEct, two_packets),
        ("fq_codel", Ecn::Ect0, two_packets),
        ("fq_codel limit 200p", Ecn::Ect0, two_packets),
        ("fq", Ecn::NotEct, two_packets),
        ("fq_pie", Ecn::NotEct, two_packets),
        ("fq_pie ecn", Ecn::Ect0, two_packets),
        ("cake", Ecn::NotEct, two_packets),
        ("cake", Ecn::Ect0, two_packets),
    ] {
        let Outcome { jain, utilisation, sparse, tally } = outcome(words, ecn);
        let us = |quantile| sparse.quantile(quantile).unwrap() / 1000;
        writeln!(
            table,
            "{words:22} {:6}  {jain:.4}  {utilisation:.3}  {:5}  {:5}  {:5}  {:13}  {:13}",
            format!("{ecn:?}"),
            tally.aqm_drops,
            tally.overflows,
            tally.marks,
            us(0.5),
            us(1.0),
        )
        .unwrap();
        assert!(jain > 0.99, "{words}: {jain}");
        assert!(utilisation > 0.99, "{words}: {utilisation}");
        assert_eq!(sparse.count(), (SECONDS - 1) * 20, "{words}: a sparse flow loses nothing");
        assert!(sparse.max().unwrap() <= wait, "{words}: {:?} above {wait}", sparse.max());
    }
    insta::assert_snapshot!(table);
}
