//! What must hold in any network: the same seed gives the same result, packets do not vanish, links keep to their rate
//! and are never idle with a backlog, and Little's law.

mod books;
mod notation;

use books::{Book, Books};
use notation::{at, hop, ms, tcp};
use weir_core::{FlowId, Seed};
use weir_qdisc::QdiscConfig;
use weir_sim::{Amount, FlowReport, FlowSpec, Kind, Network, Observer};

const RATE: &str = "20mbit";

/// Three kinds of traffic over one link.
fn mixed<O: Observer>(seed: Seed, qdisc: &str, observer: O) -> (Network<O>, Vec<FlowId>) {
    let mut network = Network::new(seed, observer);
    let hop = network.add_hop(hop(RATE, qdisc));
    let mut flows = Vec::new();
    for (name, rtt, loss) in [("cubic", 20, 0.0), ("reno", 50, 0.001), ("bbr1", 10, 0.0)] {
        let spec = tcp(name, &[hop], rtt).loss(loss).start(ms(rtt));
        flows.push(network.add_flow(spec).unwrap());
    }
    let quic = FlowSpec::quic("cubic", hop, ms(30)).unwrap().amount(Amount::Bytes(500_000)).ecn(true);
    flows.push(network.add_flow(quic).unwrap());
    let calls = FlowSpec::new(Kind::Datagrams("2mbit".parse().unwrap()), &[hop], ms(20)).unwrap();
    flows.push(network.add_flow(calls.amount(Amount::Time(ms(6000)))).unwrap());
    (network, flows)
}

/// The disciplines above, and every other that there is as it is by default.
fn all_disciplines() -> Vec<&'static str> {
    let named = |kind: &&&str| QDISCS.iter().any(|words| words.split(' ').next() == Some(**kind));
    let mut all = QDISCS.to_vec();
    all.extend(QdiscConfig::KINDS.iter().filter(|kind| !named(kind)));
    all
}

fn reports(seed: Seed, qdisc: &str) -> Vec<FlowReport> {
    let (mut network, flows) = mixed(seed, qdisc, ());
    network.run_until(at(10_000));
    flows.into_iter().map(|flow| network.flow(flow)).collect()
}

const QDISCS: [&str; 8] = [
    "bfifo limit 1bdp",
    "codel ecn",
    "fq_codel",
    "pie ecn",
    "red limit 400kb min 30kb max 90kb avpkt 1000 burst 55 ecn",
    "dualpi2",
    "cake",
    "crq split shared",
];

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_gives_others() {
    for qdisc in all_disciplines() {
        let one = reports(Seed { seed: 5, run: 1 }, qdisc);
        assert_eq!(one, reports(Seed { seed: 5, run: 1 }, qdisc), "{qdisc}");
        assert_ne!(
            one,
            reports(Seed { seed: 5, run: 2 }, qdisc),
            "{qdisc}: the second flow's losses are drawn"
        );
        // Some of the others let a sender that answers starve beside senders that do not (STEP).
        if QDISCS.contains(&qdisc) {
            assert!(one.iter().all(|report| report.bytes > 100_000), "{qdisc}: {one:?}");
            assert!(one[3].finished.is_some() && one[3].bytes == 500_000, "{qdisc}");
        }
    }
}

#[test]
fn another_flow_leaves_the_draws_of_the_first_alone() {
    // Far below the link's rate, so that nothing but its own losses can move the first flow.
    let sent = |flows: u32| {
        let mut network = Network::new(Seed { seed: 9, run: 0 }, ());
        let hop = network.add_hop(hop("10gbit", "bfifo"));
        let ids: Vec<_> = (0..flows)
            .map(|_| {
                let rate = Kind::Datagrams("5mbit".parse().unwrap());
                network.add_flow(FlowSpec::new(rate, &[hop], ms(20)).unwrap().loss(0.1)).unwrap()
            })
            .collect();
        network.run_until(at(3000));
        network.flow(ids[0])
    };
    let alone = sent(1);
    assert_eq!(alone, sent(7));
    let lost = 1.0 - alone.packets as f64 / alone.sent as f64;
    assert!((0.07..0.13).contains(&lost), "{lost}");
}

#[test]
fn packets_are_conserved_links_keep_their_rate_and_littles_law_holds() {
    for qdisc in all_disciplines() {
        let books = Books(vec![Book::new(RATE.parse().unwrap())]);
        let (mut network, flows) = mixed(Seed { seed: 3, run: 0 }, qdisc, books);
        network.run_until(at(8000));
        let received: u64 = flows.iter().map(|flow| network.flow(*flow).packets).sum();
        let left = network.drain();
        let books = network.into_observer();
        let report = books.0[0].audit.report(left.iter().copied());
        // One packet may be on the link.
        assert!(
            report.total.departed.abs_diff(received + report.still_queued) <= 1 + report.still_queued,
            "{qdisc}"
        );
        books.0[0].check_link(left, qdisc);
    }
}
