//! What others do to packets on the way: rates that change, a tunnel with an anti-replay window, and boxes that rewrite
//! the codepoint.

mod notation;

use notation::{at, hop, ms, rate, tcp};
use weir_core::{Duration, Ecn, Seed};
use weir_sim::{Amount, FlowId, FlowSpec, Kind, Network, RateSteps};

/// How long each flow sends.
const LENGTH: Amount = Amount::Time(Duration::from_secs(20));

fn network() -> Network<()> {
    Network::new(Seed { seed: 7, run: 0 }, ())
}

#[test]
fn a_link_keeps_to_each_of_its_rates_and_is_never_idle_meanwhile() {
    let steps = [("50mbit", 2000), ("5mbit", 1000), ("25mbit", 500)];
    let given: Vec<_> = steps.iter().map(|(text, time)| (rate(text), Some(ms(*time)))).collect();
    let mut network = network();
    let link = network.add_hop(hop("30mbit", "bfifo limit 1mb").steps(RateSteps::new(&given).unwrap()));
    let udp = FlowSpec::new(Kind::Datagrams(rate("60mbit")), &[link], ms(20)).unwrap();
    network.add_flow(udp.amount(Amount::Time(ms(10_000)))).unwrap();
    // Until there is a backlog.
    network.run_until(at(100));
    let (mut now, mut bytes) = (100, network.hop(link).bytes);
    let mut begin = 0;
    for (text, time) in steps.iter().cycle().take(6) {
        begin += time;
        network.run_until(at(begin));
        let sent = network.hop(link).bytes - bytes;
        let most = rate(text).bits_per_sec() * (begin - now) / 8000;
        // The packet under way at either end belongs to the rate that it began with.
        assert!(sent.abs_diff(most) <= 2 * 1514, "{text}: {sent} of {most}");
        (now, bytes) = (begin, network.hop(link).bytes);
    }
}

/// Goodput of Cubic and of Prague over 30 Mbit/s, and the packets that a tunnel has refused. While one waits for the 15
/// ms that the classic queue aims at, the link lets 37 others go.
fn in_a_tunnel(qdisc: &str, window: Option<u32>) -> ([u64; 2], u64) {
    let mut network = network();
    let link = hop("30mbit", qdisc);
    let link = network.add_hop(match window {
        Some(window) => link.replay_window(window),
        None => link,
    });
    // Two packets at a time are a queue to Prague at such a rate.
    let ends = weir_sim::EndOptions { min_burst: 1, ..weir_sim::EndOptions::default() };
    let flows: [FlowId; 2] = ["cubic", "prague"].map(|name| {
        network.add_flow(tcp(name, &[link], 20).amount(LENGTH).ecn(name == "prague").ends(ends)).unwrap()
    });
    network.run_until(at(25_000));
    (flows.map(|flow| network.flow(flow).bytes), network.hop(link).lost)
}

#[test]
fn a_tunnel_loses_what_another_queue_has_let_pass() {
    assert_eq!(in_a_tunnel("bfifo limit 1bdp", Some(1)).1, 0, "one queue keeps the order");
    let (free, none) = in_a_tunnel("dualpi2", None);
    let (wide, few) = in_a_tunnel("dualpi2", Some(8192));
    assert_eq!((free, none), (wide, few), "nobody falls behind that far");
    assert_eq!(few, 0);
    // l4s-tests, s9: in a window of 32 the classic queue's packets come too late, and Cubic takes them for lost.
    let (narrow, lost) = in_a_tunnel("dualpi2", Some(32));
    assert!(lost > 100, "{lost}");
    assert!(narrow[0] * 4 < free[0] * 3, "Cubic: {narrow:?} of {free:?}");
}

/// Goodput of Cubic through 20 Mbit/s, and what its sender has learnt of losses and of marks.
fn rewritten(ecn: bool, codepoint: Option<Ecn>, qdisc: &str) -> (u64, u64, u64) {
    let mut network = network();
    let link = network.add_hop(hop("20mbit", qdisc));
    let spec = tcp("cubic", &[link], 20).amount(LENGTH).ecn(ecn);
    let flow = match codepoint {
        Some(codepoint) => spec.remark(codepoint),
        None => spec,
    };
    let flow = network.add_flow(flow).unwrap();
    network.run_until(at(25_000));
    let report = network.flow(flow);
    (report.bytes, report.lost, report.marked)
}

#[test]
fn a_sender_keeps_to_its_largest_rate() {
    let mut network = network();
    let link = network.add_hop(hop("20mbit", "bfifo limit 1bdp"));
    let ends = weir_sim::EndOptions { max_rate: Some(rate("5mbit")), ..weir_sim::EndOptions::default() };
    let flow = network.add_flow(tcp("cubic", &[link], 20).amount(LENGTH).ends(ends)).unwrap();
    network.run_until(at(20_000));
    let bytes = network.flow(flow).bytes;
    let most = 5_000_000 / 8 * 20;
    assert!(bytes <= most + 20_000 && bytes > most * 97 / 100, "{bytes} of {most}");
    assert_eq!(network.flow(flow).lost, 0, "the link has room");
}

#[test]
fn a_rewritten_codepoint_decides_what_the_queue_does_and_not_what_the_sender_knows() {
    let (_, lost, marked) = rewritten(true, None, "codel ecn");
    assert!(marked > 10 && lost < marked, "{lost} {marked}");
    // Bleached: the queue drops.
    let (_, lost, marked) = rewritten(true, Some(Ecn::NotEct), "codel ecn");
    assert!(lost > 10 && marked == 0, "{lost} {marked}");
    // A sender that does not use ECN never learns of its marks, and only the limit of the queue holds it.
    let plain = rewritten(false, None, "codel ecn limit 300p");
    let gamed = rewritten(false, Some(Ecn::Ect1), "codel ecn limit 300p");
    assert!(plain.2 == 0 && gamed.2 == 0, "{plain:?} {gamed:?}");
    assert!(gamed.0 >= plain.0, "{plain:?} {gamed:?}");
}
