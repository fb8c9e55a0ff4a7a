//! Workloads: arrivals and sizes are what was asked for, what is offered below the link's rate is carried, and draws
//! are each workload's own.

mod notation;

use notation::{at, hop, ms, tcp};
use weir_core::{Duration, FlowId, Rate, Seed, Time};
use weir_sim::{
    Amount, EndOptions, FlowSpec, HopId, Kind, Network, Observer, Opening, Pattern, Request, Size, Span,
    WorkloadId, WorkloadSpec,
};

const RATE: &str = "50mbit";

fn network<O: Observer>(seed: u64, qdisc: &str, observer: O) -> (Network<O>, HopId) {
    let mut network = Network::new(Seed { seed, run: 0 }, observer);
    let hop = network.add_hop(hop(RATE, qdisc));
    (network, hop)
}

fn crowd(hop: HopId, rate: f64, size: Size, connections: u32) -> WorkloadSpec {
    let connection = tcp("cubic", &[hop], 20);
    WorkloadSpec::new(connection, Pattern::Poisson { rate, size, connections })
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let variance = values.map(|value| (value - mean) * (value - mean)).sum::<f64>() / (count - 1.0);
    (mean, (variance / count).sqrt())
}

#[test]
fn a_crowd_comes_as_often_and_asks_for_as_much_as_it_should() {
    let (mut network, hop) = network(5, "fq_codel", ());
    let size = Size::Pareto { mean: 12_000.0, shape: 1.3, cap: Some(500_000.0) };
    let workload = network.add_workload(crowd(hop, 200.0, size, 1000).length(ms(60_000))).unwrap();
    assert!(network.run_until_done(at(90_000)));
    let report = network.workload(workload);
    let requests = report.requests;
    // A Poisson count has its mean as its variance: 12000 +- 110.
    let count = requests.len() as f64;
    assert!((count - 12_000.0).abs() < 4.0 * 12_000f64.sqrt(), "{count}");
    let gaps = requests.windows(2).map(|pair| pair[1].start.since(pair[0].start).as_secs_f64());
    let (gap, error) = mean(gaps.clone());
    assert!((gap - 0.005).abs() < 4.0 * error, "{gap} +- {error}");
    // Exponential gaps: 1/e of them are longer than the mean.
    let longer = gaps.filter(|gap| *gap > 0.005).count() as f64 / count;
    let expected = libm::exp(-1.0);
    assert!((longer - expected).abs() < 4.0 * (expected * (1.0 - expected) / count).sqrt(), "{longer}");
    let (bytes, error) = mean(requests.iter().map(|request| request.bytes as f64));
    assert!((bytes - size.mean()).abs() < 4.0 * error + 0.5, "{bytes} +- {error}, not {}", size.mean());
    // A handshake of one round trip, the request and its response: two round trips at least.
    assert!(requests.iter().all(|request| request.finished.unwrap().since(request.start) >= ms(40)));
}

#[test]
fn connections_with_syn_and_fin_take_longer_where_these_are_lost() {
    // One packet in ten is lost on the way to the link; requests of one packet.
    let times = |syn_fin: bool, loss: f64| -> Vec<f64> {
        let (mut network, hop) = network(9, "pfifo limit 1000p", ());
        let ends = EndOptions { syn_fin, ..EndOptions::default() };
        let connection = tcp("cubic", &[hop], 20).loss(loss).ends(ends);
        let pattern = Pattern::Poisson { rate: 50.0, size: Size::Fixed(1_000), connections: 1000 };
        let spec = WorkloadSpec::new(connection, pattern).length(ms(40_000));
        let workload = network.add_workload(spec).unwrap();
        assert!(network.run_until_done(at(200_000)));
        let report = network.workload(workload);
        assert_eq!(report.received, 1_000 * report.requests.len() as u64, "SYN and FIN are no payload");
        let times = report.requests.iter().map(|request| request.finished.unwrap().since(request.start));
        times.map(|time| time.as_secs_f64()).collect()
    };
    let share = |times: &[f64], from: f64, to: f64| {
        times.iter().filter(|time| (from..to).contains(*time)).count() as f64 / times.len() as f64
    };
    for syn_fin in [false, true] {
        // A round trip for the handshake, half for the request, half for the response.
        let without = times(syn_fin, 0.0);
        assert_eq!(share(&without, 0.040, 0.042), 1.0, "{syn_fin}: {:?}", &without[..3]);
    }
    let plain = times(false, 0.1);
    assert_eq!(share(&plain, 1.0, 100.0), 0.0, "no handshake is lost");
    let queued = times(true, 0.1);
    let count = queued.len() as f64;
    let near = |share: f64, expected: f64| {
        assert!(
            (share - expected).abs() < 4.0 * (expected * (1.0 - expected) / count).sqrt(),
            "{share}, not {expected}"
        );
    };
    // A tenth loses its SYN-ACK, a hundredth twice.
    near(share(&queued, 1.0, 100.0), 0.1);
    near(share(&queued, 3.0, 100.0), 0.01);
    // Of the others a tenth loses its FIN, which waits for a probe; a FIN that arrives tells of lost data at once, but
    // these may be lost again.
    near(share(&queued, 0.1, 1.0), 0.9 * 0.109);
}

#[test]
fn what_is_offered_below_the_rate_is_carried() {
    for load in [0.3, 0.7, 0.9] {
        let (mut network, hop) = network(6, "pfifo limit 1000p", ());
        let size = Size::Exponential(30_000.0);
        // Wire bytes of a response of TCP: 66 more for each 1448 of payload, and for half a packet in the mean.
        let wire = 30_000.0 * 1514.0 / 1448.0 + 33.0;
        let rate = load * 50e6 / 8.0 / wire;
        let workload = network.add_workload(crowd(hop, rate, size, 5000)).unwrap();
        network.run_until(at(60_000));
        let report = network.workload(workload);
        let offered: u64 = report.requests.iter().map(|request| request.bytes).sum();
        let done = report.requests.iter().filter(|request| request.finished.is_some());
        let (carried, late) =
            (done.clone().map(|request| request.bytes).sum::<u64>(), report.requests.len() - done.count());
        assert!(carried as f64 / offered as f64 > 0.99, "{load}: {carried} of {offered}, {late} under way");
        // The time that the link is busy is the load. Compound Poisson: variance 2 / n of the sum of exponentials.
        let busy = network.hop(hop).busy.as_secs_f64() / 60.0;
        let error = load * (2.0 / report.requests.len() as f64).sqrt();
        // Retransmissions come on top.
        assert!(
            busy > load - 4.0 * error && busy < load + 4.0 * error + 0.02,
            "{load}: busy {busy} +- {error}"
        );
    }
}

#[test]
fn finished_connections_are_used_again() {
    let (mut network, hop) = network(7, "fq_codel", Openings::default());
    let workload =
        network.add_workload(crowd(hop, 1000.0, Size::Fixed(3000), 1000).requests(50_000)).unwrap();
    assert!(network.run_until_done(at(100_000)));
    let report = network.workload(workload);
    assert_eq!(report.requests.len(), 50_000);
    assert!(report.requests.iter().all(|request| request.finished.is_some()));
    // By Little's law a thousand a second with a life of some 60 ms are 60 at a time.
    assert!(report.connections < 150, "{} connections", report.connections);
    assert_eq!(report.waited, 0);
    let openings = network.observer();
    assert_eq!(openings.0.len(), 50_000, "each request opens a connection");
    let most = openings.0.iter().map(|opening| opening.flow.0).max().unwrap();
    assert!(most < report.connections + 1);
    // Numbers count on.
    let of_first: Vec<u64> =
        openings.0.iter().filter(|opening| opening.flow == FlowId(0)).map(|opening| opening.offset).collect();
    assert!(of_first.windows(2).all(|pair| pair[1] == pair[0] + 3000), "{:?}", &of_first[..5]);
}

#[derive(Default)]
struct Openings(Vec<Opening>);

impl Observer for Openings {
    fn opening(&mut self, opening: &Opening) {
        self.0.push(*opening);
    }
}

#[test]
fn requests_wait_where_connections_are_few() {
    let (mut network, hop) = network(8, "fq_codel", ());
    let workload = network.add_workload(crowd(hop, 200.0, Size::Fixed(3000), 4).requests(2000)).unwrap();
    assert!(network.run_until_done(at(100_000)));
    let report = network.workload(workload);
    assert_eq!(report.connections, 4);
    assert!(report.waited > 1500, "{}", report.waited);
    // Four at a time, about 60 ms each: in the order in which they came.
    let finished: Vec<Time> = report.requests.iter().map(|request| request.finished.unwrap()).collect();
    let early = finished.windows(8).filter(|seven| seven[7] < seven[0]).count();
    assert_eq!(early, 0);
    assert!(network.now().as_secs_f64() > 2000.0 / 200.0 * 1.8, "{}", network.now().as_secs_f64());
}

#[test]
fn users_think_between_response_and_request() {
    let (mut network, hop) = network(9, "fq_codel", ());
    let connection = tcp("cubic", &[hop], 20);
    let think = Span::Exponential(ms(200));
    let pattern = Pattern::Requests { users: 10, think, size: Size::Fixed(20_000) };
    let workload = network.add_workload(WorkloadSpec::new(connection, pattern).length(ms(60_000))).unwrap();
    assert!(network.run_until_done(at(90_000)));
    let report = network.workload(workload);
    assert_eq!(report.connections, 10);
    let times = report.requests.iter().map(|request| request.finished.unwrap().since(request.start));
    let (time, _) = mean(times.clone().map(Duration::as_secs_f64));
    // Each user: a response and a thought, again and again.
    let expected = 10.0 * 60.0 / (0.2 + time);
    let count = report.requests.len() as f64;
    // Gaps of standard deviation 0.2 around 0.2 + time.
    let error = count.sqrt() * 0.2 / (0.2 + time);
    assert!((count - expected).abs() < 4.0 * error + 10.0, "{count}, not {expected} +- {error}");
    // On an open connection with a large window: the request's way, the response's, and 14 packets of 242 us.
    let shortest = times.min().unwrap();
    assert!(shortest > ms(20) && shortest < ms(25), "{shortest}");
}

#[test]
fn players_hold_what_they_may_and_stall_where_the_link_is_too_slow() {
    let watch = |bitrate: &str| {
        let (mut network, hop) = network(10, "fq_codel", ());
        let connection = FlowSpec::quic("cubic", hop, ms(20)).unwrap();
        let bitrate: Rate = bitrate.parse().unwrap();
        let pattern = Pattern::Video { users: 4, segment: ms(2000), bitrate, buffer: ms(10_000) };
        let workload =
            network.add_workload(WorkloadSpec::new(connection, pattern).length(ms(60_000))).unwrap();
        network.run_until(at(100_000));
        let report = network.workload(workload);
        assert!(report.requests.iter().all(|request| request.bytes == bitrate.bytes_in(ms(2000)).0));
        (report.requests.len(), report.stalls, report.stalled)
    };
    // A segment each two seconds, and five to fill the buffer at first.
    let (requests, stalls, _) = watch("3mbit");
    assert!((4 * 33..=4 * 35).contains(&requests), "{requests}");
    assert_eq!(stalls, 0);
    // 80 Mbit/s of film over a link of 50: a share of 3/8 of the time is spent waiting.
    let (_, stalls, stalled) = watch("20mbit");
    let share = stalled.as_secs_f64() / 4.0 / 60.0;
    assert!(stalls > 40 && (0.30..0.50).contains(&share), "{stalls} stalls, {share}");
}

#[test]
fn sources_are_on_for_as_long_as_they_should() {
    let (mut network, hop) = network(11, "fq_codel", ());
    let connection = FlowSpec::new(Kind::Datagrams("6mbit".parse().unwrap()), &[hop], ms(20)).unwrap();
    let pattern = Pattern::OnOff { users: 3, on: Span::Exponential(ms(50)), off: Span::Exponential(ms(150)) };
    let spec = WorkloadSpec::new(connection, pattern).length(ms(120_000));
    let workload = network.add_workload(spec).unwrap();
    assert!(network.run_until_done(at(150_000)));
    let report = network.workload(workload);
    let count = report.requests.len() as f64;
    let cycles = 3.0 * 120.0 / 0.2;
    assert!((count - cycles).abs() < 4.0 * cycles.sqrt(), "{count}, not {cycles}");
    // 6 Mbit/s of packets of 1514 bytes with 1472 of payload; each time of being on begins with a packet.
    let (bytes, error) = mean(report.requests.iter().map(|request| request.bytes as f64));
    let expected = 0.05 * 6e6 / 8.0 * 1472.0 / 1514.0 + 1472.0 / 2.0;
    assert!((bytes - expected).abs() < 4.0 * error + 100.0, "{bytes} +- {error}, not {expected}");
    let sent: u64 = report.requests.iter().map(|request| request.bytes).sum();
    let received: u64 = (0..3).map(|flow| network.flow(FlowId(flow)).bytes).sum();
    assert_eq!(sent, received);
}

#[test]
fn greedy_sources_fill_the_link_while_they_are_on() {
    let (mut network, hop) = network(12, "fq_codel", ());
    let connection = tcp("cubic", &[hop], 10);
    let pattern = Pattern::OnOff { users: 1, on: Span::Fixed(ms(1000)), off: Span::Fixed(ms(1000)) };
    let workload = network.add_workload(WorkloadSpec::new(connection, pattern).length(ms(19_500))).unwrap();
    assert!(network.run_until_done(at(60_000)));
    let report = network.workload(workload);
    assert_eq!(report.requests.len(), 10);
    // 95.6 % of 50 Mbit/s is payload, less slow start.
    let rates = report.requests.iter().map(|request| request.bytes as f64 * 8.0 / 1e6);
    assert!(rates.clone().all(|rate| (40.0..50.0).contains(&rate)), "{:?}", rates.collect::<Vec<_>>());
    assert_eq!(
        report.requests.iter().map(|request| request.bytes).sum::<u64>(),
        network.flow(FlowId(0)).bytes
    );
}

#[test]
fn draws_are_each_workloads_own() {
    // Far below the link's rate, so that nothing moves the lossy flow but its own draws.
    let run = |before: bool, after: bool| {
        let (mut network, hop) = network(13, "pfifo", ());
        let datagrams = Kind::Datagrams("2mbit".parse().unwrap());
        let lossy =
            FlowSpec::new(datagrams, &[hop], ms(20)).unwrap().loss(0.1).amount(Amount::Time(ms(20_000)));
        let lossy = network.add_flow(lossy).unwrap();
        if before {
            network.add_flow(tcp("reno", &[hop], 20).amount(Amount::Bytes(50_000))).unwrap();
        }
        let size = Size::Pareto { mean: 8000.0, shape: 1.5, cap: None };
        let first = network.add_workload(crowd(hop, 20.0, size, 100).length(ms(20_000))).unwrap();
        if after {
            network.add_workload(crowd(hop, 30.0, size, 100).length(ms(20_000))).unwrap();
        }
        network.run_until(at(30_000));
        let wishes = |workload: WorkloadId| {
            let wish = |request: &Request| (request.start, request.bytes);
            network.workload(workload).requests.iter().map(wish).collect::<Vec<_>>()
        };
        (network.flow(lossy).packets, wishes(first))
    };
    let alone = run(false, false);
    assert!(alone.1.len() > 300 && alone.0 > 2000);
    assert!(alone == run(true, false), "a flow more");
    assert!(alone == run(false, true), "a workload more");
}

#[test]
fn the_same_seed_gives_the_same_requests() {
    let run = |seed| {
        let (mut network, hop) = network(seed, "codel ecn", ());
        let ends = EndOptions { gso: 8, initial_window: 20, ..EndOptions::default() };
        let connection = tcp("bbr1", &[hop], 20).loss(0.01).ends(ends);
        let size = Size::Exponential(40_000.0);
        let crowd = Pattern::Poisson { rate: 80.0, size, connections: 1000 };
        let one = network.add_workload(WorkloadSpec::new(connection, crowd)).unwrap();
        network.run_until(at(20_000));
        network.workload(one).requests.to_vec()
    };
    let requests = run(1);
    assert_eq!(requests, run(1));
    assert_ne!(requests, run(2));
    assert!(requests.iter().filter(|request| request.finished.is_some()).count() > 1000);
}
