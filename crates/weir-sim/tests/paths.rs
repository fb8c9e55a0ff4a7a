//! What must hold over several links, with queues for acknowledgements, impairments and traces; and that flows with
//! routes do what flows without do where both can.

mod books;
mod notation;

use std::sync::Arc;

use books::{Book, Books};
use notation::{at, hop, ms, rate, tcp};
use weir_core::{Duration, FlowId, Seed, Time};
use weir_sim::{Amount, FlowSpec, HopId, Impairment, Kind, Network, OPPORTUNITY_BYTES, Observer, Trace};

fn udp(link: &str, path: &[HopId]) -> FlowSpec {
    FlowSpec::new(Kind::Datagrams(rate(link)), path, ms(20)).unwrap()
}

/// Opportunities in bursts and pauses, 9 Mbit/s on average.
fn cellular() -> Arc<Trace> {
    let lines =
        (1..=400_u64).filter(|ms| ms % 20 > 4).flat_map(|ms| vec![ms; if ms % 7 == 0 { 2 } else { 1 }]);
    Arc::new(Trace::parse(&lines.map(|ms| format!("{ms}\n")).collect::<String>()).unwrap())
}

/// All that this file is about in one network: three links, the second with a queue for what goes back and the third
/// with a trace, jitter, loss and reordering, and traffic of all kinds, none of which is endless.
fn everything<O: Observer>(seed: Seed, observer: O) -> (Network<O>, Vec<HopId>, Vec<FlowId>) {
    let mut network = Network::new(seed, observer);
    let jitter = Impairment { jitter: ms(2), ..Impairment::default() };
    let lossy = Impairment { loss: 0.005, ..Impairment::default() };
    let one = network.add_hop(hop("20mbit", "codel ecn").delay(ms(3)).impairment(jitter));
    let two = network.add_hop(hop("16mbit", "fq_codel").delay(ms(1)).impairment(lossy));
    let back = network.add_back(two, hop("2mbit", "pfifo limit 60p").impairment(lossy));
    let late = Impairment { reorder: 0.01, reorder_delay: ms(4), ..Impairment::default() };
    let three = network.add_hop(hop("9mbit", "bfifo limit 60kb").trace(cellular()).impairment(late));
    network.impair_back(one, jitter);
    let all = [one, two, three];
    let specs = [
        tcp("cubic", &all, 20).amount(Amount::Bytes(3_000_000)),
        tcp("reno", &all, 40).ecn(true).amount(Amount::Bytes(2_000_000)),
        FlowSpec::new(Kind::Quic("bbr1".to_owned()), &[two, three], ms(30))
            .unwrap()
            .amount(Amount::Time(ms(6000))),
        tcp("cubic", &all, 20).two_way(true).amount(Amount::Bytes(1_000_000)),
        tcp("reno", &[two, three], 20).up(true).amount(Amount::Bytes(500_000)),
        udp("1mbit", &[one, two]).amount(Amount::Time(ms(5000))),
    ];
    let flows = specs.into_iter().map(|spec| network.add_flow(spec).unwrap()).collect();
    (network, vec![one, two, back, three], flows)
}

#[test]
fn all_of_it_is_the_same_for_a_seed_and_differs_for_another() {
    let reports = |run| {
        let (mut network, hops, flows) = everything(Seed { seed: 5, run }, ());
        network.run_until(at(20_000));
        let flows: Vec<_> = flows.into_iter().map(|flow| network.flow(flow)).collect();
        (flows, hops.into_iter().map(|hop| network.hop(hop)).collect::<Vec<_>>())
    };
    let one = reports(1);
    assert!(one == reports(1));
    assert!(one != reports(2));
}

#[test]
fn packets_are_conserved_from_link_to_link_and_each_queue_obeys() {
    let links = ["20mbit", "16mbit", "2mbit", "100gbit"];
    let books = Books(links.map(|link| Book::new(rate(link))).into());
    let (mut network, hops, flows) = everything(Seed { seed: 3, run: 0 }, books);
    // Long enough for all to be done and quiet.
    network.run_until(at(120_000));
    let reports: Vec<_> = flows.iter().map(|flow| network.flow(*flow)).collect();
    assert!(reports.iter().all(|report| report.finished.is_some()), "{reports:?}");
    for (report, bytes) in reports.iter().zip([3_000_000, 2_000_000, 0, 1_000_000, 500_000]) {
        assert!(bytes == 0 || report.bytes == bytes, "{report:?}");
    }
    assert_eq!(reports[3].answered, 500_000, "half comes back");
    let carried: Vec<_> = hops.iter().map(|hop| network.hop(*hop)).collect();
    assert!(hops.iter().all(|hop| network.drain_hop(*hop).is_empty()), "all is quiet");
    let books = network.into_observer();
    for (place, name) in ["first", "second", "back"].into_iter().enumerate() {
        books.0[place].check_link(Vec::new(), name);
    }
    books.0[3].check(Vec::new(), "with a trace");
    let total = |place: usize| books.0[place].audit.report([]).total;
    let of = |place: usize, flow: FlowId| books.0[place].audit.flow(flow);
    for flow in [0, 1, 3].map(|index| flows[index]) {
        assert_eq!(of(0, flow).departed, of(1, flow).arrived, "jitter loses nothing");
    }
    let sent_on: u64 = flows.iter().map(|flow| of(1, *flow).departed).sum();
    assert_eq!(
        sent_on - total(3).arrived - reports[5].packets,
        carried[1].lost,
        "all else comes to the third"
    );
    assert!(carried[1].lost > 10 && carried[2].lost > 5 && carried[3].lost == 0, "{carried:?}");
    assert!(carried[3].packets > 3000 && total(2).dropped > 0, "{carried:?} {:?}", total(2));
}

/// A flow whose only difference is that it has a route: it may lose, and never does.
fn with_route(network: &mut Network<()>, hop: HopId) {
    network.impair_back(hop, Impairment { loss: f64::MIN_POSITIVE, ..Impairment::default() });
}

#[test]
fn a_route_is_the_same_as_none_where_none_is_needed() {
    let shift = ms(8);
    for (kind, qdisc) in [
        (Kind::Tcp("cubic".to_owned()), "bfifo limit 1bdp"),
        (Kind::Tcp("dctcp".to_owned()), "codel ecn"),
        (Kind::Quic("bbr1".to_owned()), "bfifo limit 2bdp"),
        (Kind::Quic("cubic".to_owned()), "fq_codel"),
        (Kind::Datagrams(rate("25mbit")), "bfifo limit 1bdp"),
    ] {
        let report = |routed: bool| {
            let mut network = Network::new(Seed::default(), ());
            let hop = network.add_hop(hop("20mbit", qdisc));
            let spec = FlowSpec::new(kind.clone(), &[hop], ms(20)).unwrap().position(0.2).ecn(true);
            if routed {
                with_route(&mut network, hop);
            }
            // Without a route, the clock of the sender stands at the link, half of 16 ms away.
            let start = if routed { ms(100) } else { ms(100) + shift };
            let spec = spec.loss(0.001).start(start).amount(Amount::Bytes(10_000_000));
            let flow = network.add_flow(spec).unwrap();
            network.run_until(at(20_000));
            let mut report = network.flow(flow);
            let later = if routed { shift } else { Duration::ZERO };
            report.started = report.started.map(|time| time + later);
            report.samples.iter_mut().for_each(|sample| sample.time += later);
            if matches!(kind, Kind::Datagrams(_)) {
                // Some are lost, and the sender says when the others are waited for no longer.
                report.finished = report.finished.map(|time| time + later);
            }
            let asked = network.asked(flow).filter(|_| !matches!(kind, Kind::Datagrams(_)));
            (report, asked)
        };
        // When data was asked for is the same without any shift.
        let ((one, asked), (other, asked_without)) = (report(true), report(false));
        assert_eq!(asked, asked_without, "{kind:?}");
        for (one, other) in one.samples.iter().zip(&other.samples) {
            assert_eq!(one, other, "{kind:?}");
        }
        assert!(one == other, "{kind:?}: {} {}", one.bytes, other.bytes);
        let datagrams = matches!(kind, Kind::Datagrams(_));
        assert!(one.finished.is_some() && (datagrams || one.lost > 0), "{kind:?} {}", one.bytes);
    }
}

#[test]
fn a_second_hop_of_the_same_rate_never_queues() {
    let books = Books(vec![Book::new(rate("20mbit")), Book::new(rate("20mbit"))]);
    let mut network = Network::new(Seed::default(), books);
    let path = [0, 1].map(|_| network.add_hop(hop("20mbit", "bfifo limit 1bdp").delay(ms(5))));
    let flow = network.add_flow(tcp("cubic", &path, 10)).unwrap();
    network.run_until(at(10_000));
    let report = network.flow(flow);
    // Two links of 5 ms, there and back, and 10 ms of its own.
    let shortest = report.samples.iter().map(|sample| sample.rtt).min().unwrap();
    assert!(shortest >= ms(30) && shortest < ms(33), "{shortest}");
    let goodput = report.bytes as f64 * 8.0 / 10.0;
    assert!(goodput > 18.0e6 && goodput < 20.0e6 * 1448.0 / 1514.0, "{goodput}");
    let left: Vec<_> = path.iter().map(|hop| network.drain_hop(*hop)).collect();
    let books = network.into_observer();
    for (book, left) in books.0.iter().zip(left) {
        book.check_link(left, "equal hops");
    }
    assert!(books.0[0].area > 1e13, "the first queue is where they wait: {}", books.0[0].area);
    assert_eq!(books.0[1].area, 0.0, "nothing waits at the second");
}

#[test]
fn a_parking_lot_with_fair_queues_is_max_min_fair() {
    let mut network = Network::new(Seed::default(), ());
    let links =
        ["30mbit", "20mbit", "10mbit"].map(|link| network.add_hop(hop(link, "fq_codel").delay(ms(2))));
    let long = network.add_flow(tcp("cubic", &links, 20)).unwrap();
    let crossing = links.map(|link| network.add_flow(tcp("cubic", &[link], 20)).unwrap());
    network.run_until(at(5_000));
    let flows = [long, crossing[0], crossing[1], crossing[2]];
    let before = flows.map(|flow| network.flow(flow).bytes);
    network.run_until(at(35_000));
    let after = flows.map(|flow| network.flow(flow).bytes);
    // The last link is the narrowest: its two flows get 5 each, and who crosses the others takes what is left there.
    for ((before, after), share) in before.into_iter().zip(after).zip([5.0, 25.0, 15.0, 5.0]) {
        let expected = share * 1448.0 / 1514.0;
        let goodput = (after - before) as f64 * 8.0 / 30.0 / 1e6;
        assert!((0.93..=1.04).contains(&(goodput / expected)), "{goodput} of {expected}");
    }
}

#[test]
fn acknowledgements_wait_and_get_lost_where_their_way_is_narrow() {
    let run = |back: &str| {
        let books = Books(vec![Book::new(rate("20mbit")), Book::new(rate(back))]);
        let mut network = Network::new(Seed::default(), books);
        let down = network.add_hop(hop("20mbit", "fq_codel"));
        let up = network.add_back(down, hop(back, "pfifo limit 40p"));
        let flow = network.add_flow(tcp("cubic", &[down], 20)).unwrap();
        network.run_until(at(20_000));
        let report = network.flow(flow);
        let left = network.drain_hop(up);
        let books = network.into_observer();
        books.0[1].check_link(left, back);
        let acks = books.0[1].audit.flow(flow);
        assert!(books.0[1].left.iter().all(|(_, _, bytes)| *bytes == 66), "an acknowledgement has 66 bytes");
        let rtt = report.samples[report.samples.len() / 2..].iter().map(|sample| sample.rtt).min().unwrap();
        (report.bytes as f64 * 8.0 / 20.0 / 1e6, acks.dropped, acks.departed, rtt)
    };
    // 20 Mbit/s are 1651 packets a second, so 826 acknowledgements of 66 bytes: 436 kbit/s.
    let (goodput, dropped, departed, rtt) = run("1mbit");
    assert!(goodput > 18.0 && dropped == 0 && rtt < ms(32), "{goodput} {dropped} {rtt}");
    assert!((12_000..18_000).contains(&departed), "{departed}");
    // A tenth of that: a queue of 40 takes 211 ms, and most are lost.
    let (slow, dropped, departed, rtt) = run("100kbit");
    assert!(rtt > ms(150), "{rtt}");
    assert!((3_400..=3_788).contains(&departed), "at most 20 s of 100 kbit/s: {departed}");
    assert!(dropped > departed && slow < goodput, "{dropped} {slow}");
}

#[test]
fn a_trace_is_never_exceeded_and_fully_used_with_a_backlog() {
    let trace = cellular();
    // The lowest as well: small packets that share opportunities.
    for (flood, enough) in [("30mbit", true), ("4mbit", false)] {
        let books = Books(vec![Book::new(rate("100gbit"))]);
        let mut network = Network::new(Seed::default(), books);
        let link = network.add_hop(hop("9mbit", "bfifo limit 100kb").trace(Arc::clone(&trace)));
        let flows = [udp(flood, &[link]), tcp("cubic", &[link], 20).ecn(true)]
            .map(|spec| network.add_flow(spec).unwrap());
        network.run_until(at(10_000));
        assert!(flows.iter().all(|flow| network.flow(*flow).packets > 0 || enough));
        let left = network.drain_hop(link);
        let books = network.into_observer();
        books.0[0].check(left, flood);
        let mut sent = 0;
        let count = |end: Time| trace.opportunities(end) * u64::from(OPPORTUNITY_BYTES);
        for (time, _, bytes) in &books.0[0].left {
            sent += u64::from(bytes - 14);
            assert!(sent <= count(*time), "{sent} bytes until {time:?}");
        }
        let all = count(at(10_000));
        // With a backlog from the second opportunity on, all but the first and part of a packet is used.
        assert!(!enough || sent + 3 * u64::from(OPPORTUNITY_BYTES) >= all, "{sent} of {all}");
        assert!(sent > all * 8 / 10, "{sent} of {all}");
    }
}

#[test]
fn jitter_without_reordering_costs_no_retransmission_and_reordering_does() {
    let run = |impairment: Impairment| {
        let mut network = Network::new(Seed::default(), ());
        let link = network.add_hop(hop("20mbit", "bfifo limit 100bdp").impairment(impairment));
        let spec = tcp("reno", &[link], 40).amount(Amount::Bytes(4_000_000));
        let flow = network.add_flow(spec).unwrap();
        network.run_until(at(90_000));
        network.flow(flow)
    };
    let needed = 4_000_000_u64.div_ceil(1448);
    let still = run(Impairment::default());
    assert_eq!((still.lost, still.packets), (0, needed));
    let jitter = Impairment { jitter: ms(8), ..Impairment::default() };
    let kept = run(jitter);
    assert_eq!((kept.lost, kept.packets, kept.bytes), (0, needed, 4_000_000));
    let (least, most) = (
        kept.samples.iter().map(|sample| sample.rtt).min().unwrap(),
        still.samples.iter().map(|sample| sample.rtt).min().unwrap(),
    );
    assert!(least > ms(32) && most >= ms(40), "{least} {most}");
    let mixed = run(Impairment { jitter_reorders: true, ..jitter });
    assert!(
        mixed.lost > 0 && mixed.packets > needed && mixed.bytes == 4_000_000,
        "{} {}",
        mixed.lost,
        mixed.packets
    );
    let late = run(Impairment { reorder: 0.02, reorder_delay: ms(8), ..Impairment::default() });
    assert!(
        late.lost > 0 && late.packets > needed && late.bytes == 4_000_000,
        "{} {}",
        late.lost,
        late.packets
    );
}

#[test]
fn another_flow_leaves_what_links_do_to_the_first_alone() {
    let sent = |flows: u32, jitter: u64| {
        let mut network = Network::new(Seed { seed: 9, run: 0 }, ());
        let all = Impairment { jitter: ms(jitter), loss: 0.1, ..Impairment::default() };
        let path = [0, 1].map(|_| network.add_hop(hop("10gbit", "bfifo").delay(ms(4)).impairment(all)));
        let ids: Vec<_> = (0..flows)
            .map(|number| {
                // A two-way flow has two halves, which must not count as two flows.
                let spec =
                    if number == 1 { tcp("reno", &path, 20).two_way(true) } else { udp("5mbit", &path) };
                network.add_flow(spec).unwrap()
            })
            .collect();
        network.run_until(at(3000));
        (network.flow(ids[0]), ids.get(2).map(|id| network.flow(*id).packets))
    };
    let (alone, _) = sent(1, 2);
    let (first, third) = sent(7, 2);
    assert!(alone == first);
    // Jitter has draws of its own: without it the same packets are lost.
    assert_eq!(third, sent(7, 0).1);
    let lost = 1.0 - alone.packets as f64 / alone.sent as f64;
    assert!((0.16..0.22).contains(&lost), "two links lose 19 %: {lost}");
}

#[test]
fn data_upwards_meets_the_queue_of_that_direction() {
    let mut network = Network::new(Seed::default(), ());
    let link = network.add_hop(hop("50mbit", "fq_codel"));
    let up = network.add_back(link, hop("5mbit", "fq_codel"));
    let flow = network.add_flow(tcp("cubic", &[link], 20).up(true)).unwrap();
    network.run_until(at(10_000));
    let goodput = network.flow(flow).bytes as f64 * 8.0 / 10.0 / 1e6;
    assert!((4.5..=5.0 * 1448.0 / 1514.0).contains(&goodput), "{goodput}");
    assert!(
        network.hop(up).bytes > 5_500_000 && network.hop(link).bytes < 400_000,
        "acknowledgements go down"
    );
    // Without a queue there, nothing but the receiver's window holds it.
    let mut network = Network::new(Seed::default(), ());
    let link = network.add_hop(hop("50mbit", "fq_codel"));
    let flow = network.add_flow(tcp("cubic", &[link], 20).up(true).window(250_000)).unwrap();
    network.run_until(at(10_000));
    let goodput = network.flow(flow).bytes as f64 * 8.0 / 10.0 / 1e6;
    // 250 kB each 20 ms are 100 Mbit/s.
    assert!((90.0..=100.0).contains(&goodput), "{goodput}");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let mut network = Network::new(Seed::default(), ());
    let jitter = Impairment { jitter: ms(6), ..Impairment::default() };
    let link = network.add_hop(hop("50mbit", "fq_codel").impairment(jitter));
    let mut refused = |spec: FlowSpec| network.add_flow(spec).unwrap_err().to_string();
    assert!(refused(tcp("cubic", &[link], 20)).contains("jitter: 6ms on link 0 is more than the 5ms"));
    assert!(refused(tcp("cubic", &[link, link], 40)).contains("path: link 0"));
    let calls = FlowSpec::new(Kind::Datagrams(rate("1mbit")), &[link], ms(24)).unwrap();
    assert!(refused(calls.two_way(true)).contains("two-way"));
    assert!(network.add_flow(tcp("cubic", &[link], 24)).is_ok());
}
