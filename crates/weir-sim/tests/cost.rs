//! What a packet and a flow cost, in numbers that do not depend on the machine: events, allocations and bytes.

use weir_core::{Duration, Seed, Time};
use weir_sim::{Amount, FlowId, FlowSpec, HopId, HopSpec, Network};
use weir_testkit::counting::{Counting, allocations, held};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const RTT: Duration = Duration::from_millis(20);

fn network(rate: &str, qdisc: &str) -> (Network<()>, HopId) {
    let mut network = Network::new(Seed::default(), ());
    let hop = network.add_hop(HopSpec::new(rate.parse().unwrap(), qdisc.parse().unwrap(), RTT).unwrap());
    (network, hop)
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

#[test]
fn a_packet_is_a_departure_and_its_share_of_an_acknowledgement() {
    let (mut network, hop) = network("100mbit", "codel");
    for _ in 0..10 {
        network.add_flow(FlowSpec::tcp("cubic", hop, RTT).unwrap()).unwrap();
    }
    network.run_until(at(10));
    let packets = network.hop(hop).packets;
    assert!(packets > 80_000, "{packets}");
    // An acknowledgement for every second packet, a few more around losses, and timers now and then.
    let events = network.events() as f64 / packets as f64;
    assert!((1.5..1.65).contains(&events), "{events}");
}

#[test]
fn packets_allocate_nothing() {
    for qdisc in ["codel", "dualpi2 scalable any", "fq_codel", "pie ecn", "bfifo limit 1bdp"] {
        let (mut network, hop) = network("20mbit", qdisc);
        for name in ["cubic", "dctcp", "reno", "bbr1"] {
            network.add_flow(FlowSpec::tcp(name, hop, RTT).unwrap()).unwrap();
        }
        network.add_flow(FlowSpec::quic("cubic", hop, RTT).unwrap().ecn(true)).unwrap();
        // A line that is longer than ever before and the record of looks at a sender that is full double their room; by
        // then that is rare. Between those nothing is allocated at all.
        network.run_until(at(30));
        let start = allocations();
        let packets = network.hop(hop).packets;
        let quiet = (31..=40).filter(|second| {
            let before = allocations();
            network.run_until(at(*second));
            allocations() == before
        });
        let quiet = quiet.count();
        let packets = network.hop(hop).packets - packets;
        assert!(packets > 16_000, "{qdisc}: {packets}");
        let made = allocations() - start;
        assert!(quiet >= 7 && made <= 5, "{qdisc}: {made}, {quiet} seconds without");
    }
}

#[test]
fn a_flow_takes_little_memory_before_and_after_it_has_run() {
    // As many as fill the list of them to its end.
    const FLOWS: u64 = 1 << 14;
    let (mut network, hop) = network("10gbit", "codel");
    let before = held();
    let flows: Vec<FlowId> = (0..FLOWS)
        .map(|number| {
            let start = Duration::from_micros(40 * number);
            let spec = FlowSpec::tcp("cubic", hop, RTT).unwrap();
            network.add_flow(spec.amount(Amount::Bytes(40_000)).start(start)).unwrap()
        })
        .collect();
    let per_flow = |now: i64| (now - before) as f64 / FLOWS as f64;
    let idle = per_flow(held());
    assert!(idle < 1_450.0, "{idle} bytes");
    assert!(network.run_until_done(at(30)));
    // The last acknowledgements are still on their way then.
    network.run_until(network.now() + Duration::from_secs(1));
    let done = per_flow(held());
    assert!(done < 1_700.0, "{done} bytes");
    assert!(flows.into_iter().all(|flow| network.flow(flow).bytes == 40_000));
}
