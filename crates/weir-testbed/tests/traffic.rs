//! Hosts and traffic against the real kernel: network namespaces, TCP, QUIC and UDP, and packets captured on the way.
//!
//! Needs root. Without it, each test prints why it does nothing. A busy machine makes everything later, so times are
//! bounded from below, by each other, or by what was counted meanwhile.

#![allow(clippy::disallowed_methods, reason = "real packets take real time")]

#[path = "traffic/capture.rs"]
mod capture;
#[path = "traffic/cleanup.rs"]
mod cleanup;
#[path = "traffic/twins.rs"]
mod twins;

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration as StdDuration, Instant};

use weir_core::{Bytes, Duration, Ecn, Rate};
use weir_testbed::host::{Topology, TopologySpec};
use weir_testbed::traffic::{
    Amount, CONTROLLERS, Control, FlowResult, FlowSpec, QuicSpec, Stack, TcpSpec, Traffic, Transfer, UdpSpec,
};
use weir_testkit::skip::root_and_turn;

use capture::{Capture, Packet};

/// A queue of 100 kB before 50 Mbit/s: round trips of up to 16 ms.
const SLOW: &str = "qdisc add dev toclient root tbf rate 50mbit burst 10kb limit 100000";

fn routed(spec: &TopologySpec, tc: &[&str]) -> Topology {
    let lines: Vec<String> = tc.iter().map(|line| (*line).to_owned()).collect();
    Topology::build_forwarding(spec, &lines).unwrap()
}

fn flow(topology: &Topology, name: &str, amount: Amount, ecn: bool, traffic: Traffic) -> FlowSpec {
    let server = if ecn { topology.server_ecn_addr(0) } else { topology.server_addr(0) };
    FlowSpec {
        name: name.to_owned(),
        server: SocketAddr::new(server, 5000),
        client: SocketAddr::new(topology.client_addr(0), 6000),
        start: Duration::ZERO,
        amount,
        ecn,
        traffic,
    }
}

fn tcp(controller: &str, two_way: bool) -> Traffic {
    Traffic::Tcp(TcpSpec {
        controller: controller.to_owned(),
        registered: None,
        two_way,
        receive_window: None,
    })
}

fn launch(topology: &Topology, spec: &FlowSpec, control: &Control) -> Transfer {
    Transfer::launch(spec, &topology.server, &topology.client, control).unwrap()
}

fn run(topology: &Topology, spec: &FlowSpec) -> FlowResult {
    launch(topology, spec, &Control::default()).join()
}

#[test]
fn tcp_delivers_every_byte_with_each_controller_both_ways() {
    let Some(_turn) = root_and_turn() else { return };
    let topology = routed(&TopologySpec::default(), &[]);
    for controller in ["reno", "cubic", "bbr"] {
        for two_way in [false, true] {
            let spec =
                flow(&topology, "tcp", Amount::Bytes(Bytes(20_000_000)), false, tcp(controller, two_way));
            let capture = Capture::start(&topology.bottleneck, &topology.bottleneck_client_iface);
            let result = run(&topology, &spec);
            let packets = capture.finish();
            let back: Vec<_> = packets.iter().filter(|packet| packet.source_port == 6000).collect();
            let wire_bytes: usize = back.iter().map(|packet| packet.wire_bytes).sum();
            // By sequence numbers, as a late machine makes TCP send some of it twice; by where a packet ends, as the
            // last may be a super-packet that carries the FIN.
            let ahead = |packet: &&Packet| Some(packet.sequence_end?.wrapping_sub(back[0].sequence_end?));
            let covered = back.iter().filter_map(ahead).max().unwrap();
            println!("{controller} two-way {two_way}: {:?}, {} samples", result.fct, result.samples.len());
            assert_eq!(result.error, None);
            assert_eq!((result.bytes, result.complete, result.ecn), (20_000_000, true, Some(false)));
            assert!(result.fct.unwrap() > Duration::ZERO && result.handshake.is_some());
            assert!(!result.samples.is_empty());
            // Half of 20 MB comes back, or nothing but acknowledgements.
            assert_eq!(
                (10_000_000..10_001_000).contains(&covered),
                two_way,
                "{covered} of {wire_bytes} bytes"
            );
            assert_eq!(wire_bytes < 1_000_000, !two_way, "{wire_bytes} bytes");
            assert!(wire_bytes < 20_000_000, "{wire_bytes} bytes");
        }
    }
}

#[test]
fn a_tcp_flow_fills_a_slow_link_and_its_samples_show_the_queue() {
    let Some(_turn) = root_and_turn() else { return };
    let topology = routed(&TopologySpec::default(), &[SLOW]);
    let spec = flow(&topology, "tcp", Amount::Bytes(Bytes(6_000_000)), false, tcp("cubic", false));
    let result = run(&topology, &spec);
    assert_eq!(result.error, None);
    // 6 MB in 1514-byte frames of 1448 bytes at 50 Mbit/s take 1.004 s.
    let seconds = result.fct.unwrap().as_secs_f64();
    assert!(seconds >= 1.0, "{seconds}");
    let last = result.samples.last().unwrap();
    assert!(last.delivered_bytes > 5_000_000 && last.delivered_bytes <= 6_000_001, "{last:?}");
    // Looks are ten milliseconds apart, or more.
    let looks = result.samples.len();
    assert!(looks >= 10 && looks as f64 <= seconds * 100.0 + 2.0, "{looks} in {seconds} s");
    let highest = result.samples.iter().map(|sample| sample.rtt_us).max().unwrap();
    assert!(highest >= 8_000, "{highest} us; a full queue holds 16 ms");
    // What was under way by Little's law, at the rate that there was: most of the 100 kB of the queue, and not much
    // more.
    let rtt = result.samples.iter().map(|sample| sample.rtt_us).sum::<u64>() as f64 / looks as f64 / 1e6;
    let under_way = rtt * 6e6 / 1448.0 * 1514.0 / seconds;
    println!("{seconds} s, {looks} looks, {highest} us at most, {under_way} bytes under way");
    assert!((25e3..250e3).contains(&under_way), "{under_way} bytes");
}

#[test]
fn a_time_limited_flow_ends_on_time_and_quietly() {
    let Some(_turn) = root_and_turn() else { return };
    let topology = routed(&TopologySpec::default(), &[SLOW]);
    for traffic in [tcp("cubic", false), tcp("reno", true), Traffic::Quic(QuicSpec::new("cubic"))] {
        let timed = flow(&topology, "timed", Amount::Time(Duration::from_millis(500)), false, traffic);
        let spec = FlowSpec { start: Duration::from_millis(200), ..timed };
        let result = run(&topology, &spec);
        assert_eq!((result.error.as_deref(), result.complete, result.fct), (None, true, None));
        // Not before its time, nor by another order of it.
        let started = result.started.unwrap().as_secs_f64();
        assert!((0.2..2.0).contains(&started), "{started}");
        let ran = result.finished.unwrap().since(result.started.unwrap()).as_secs_f64();
        assert!((0.5..5.0).contains(&ran), "{ran}");
        // No more than 50 Mbit/s carry in that time and the queue holds.
        let most = 50e6 / 8.0 * ran + 110e3;
        let bytes = result.bytes as f64;
        println!("{:?}: from {started} s for {ran} s, {bytes} bytes of {most}", spec.traffic);
        assert!(bytes > 0.0 && bytes < most, "{:?} {bytes} of {most}", spec.traffic);
    }
}

#[test]
fn udp_keeps_its_rate() {
    let Some(_turn) = root_and_turn() else { return };
    let topology = routed(&TopologySpec::default(), &[]);
    let rate: Rate = "50mbit".parse().unwrap();
    for fixed_bit in [false, true] {
        let udp = UdpSpec { fixed_bit, ..UdpSpec::new(rate) };
        let spec = flow(&topology, "udp", Amount::Time(Duration::from_secs(1)), fixed_bit, Traffic::Udp(udp));
        let sent = || {
            let capture = Capture::start(&topology.bottleneck, &topology.bottleneck_client_iface);
            (run(&topology, &spec), capture.finish())
        };
        // A sender that the machine held up so long that it gave up says so; then it is another one's turn.
        let held_up =
            |result: &FlowResult| result.error.as_ref().is_some_and(|error| error.contains("too busy"));
        let (mut result, mut packets) = sent();
        for _ in 0..9 {
            if held_up(&result) {
                println!("again: {:?}", result.error);
                (result, packets) = sent();
            }
        }
        let counts = result.udp.as_ref().unwrap();
        println!("{counts:?}");
        assert_eq!(result.error, None);
        assert!(result.complete);
        // Exactly one second's worth, as the schedule is absolute.
        let due = 50_000_000u64.div_ceil(1514 * 8);
        assert_eq!(counts.sent, due);
        assert!(counts.received * 20 >= due * 19, "{counts:?}");
        assert_eq!(result.bytes, counts.received * 1472);
        assert_eq!((counts.received + counts.lost, counts.ce), (counts.sent, 0));
        assert_eq!(counts.one_way_delay_ns.count(), counts.received);
        assert!(counts.one_way_delay_ns.quantile(0.5).unwrap() < 500_000_000, "half of the flow's time");
        let data: Vec<_> = packets.iter().filter(|packet| packet.source_port == 5000).collect();
        assert!(data.len() as u64 >= due * 19 / 20, "{}", data.len());
        let ecn = if fixed_bit { Ecn::Ect0 } else { Ecn::NotEct };
        for packet in &data {
            assert_eq!((packet.wire_bytes, packet.ecn), (1514, ecn));
            assert_eq!(packet.payload[0], if fixed_bit { 0x40 } else { 0 });
        }
        // Evenly spread, by number and time stamp of each: a batch of 200 us ahead of its time at most, and no later
        // than the sender says of itself.
        let latest = counts.latest.as_nanos();
        for packet in &data {
            let field = |at: usize| u64::from_be_bytes(packet.payload[at..at + 8].try_into().unwrap());
            let (number, stamp) = (field(8), field(16));
            let due = number * 1514 * 8 * 20;
            assert!(
                stamp + 200_000 >= due && stamp <= due + latest,
                "{number}: {stamp} ns, due at {due} ns, {latest}"
            );
        }
    }
}

#[test]
fn udp_in_super_packets_keeps_its_rate_and_is_cut_up_for_the_link() {
    let Some(_turn) = root_and_turn() else { return };
    let topology = routed(&TopologySpec::default(), &[]);
    let udp = UdpSpec { super_packets: true, ..UdpSpec::new("50mbit".parse().unwrap()) };
    let spec = flow(&topology, "udp", Amount::Bytes(Bytes(1472 * 1000)), false, Traffic::Udp(udp));
    let result = run(&topology, &spec);
    let counts = result.udp.as_ref().unwrap();
    println!("{counts:?}");
    assert_eq!((result.error.as_deref(), counts.sent), (None, 1000));
    assert_eq!(counts.received + counts.lost, 1000);
    assert!(counts.received >= 950 && counts.reordered == 0, "{counts:?}");
    assert_eq!(result.bytes, counts.received * 1472);
}

#[test]
fn udp_counts_what_a_full_queue_drops() {
    let Some(_turn) = root_and_turn() else { return };
    let topology = routed(&TopologySpec::default(), &[SLOW]);
    let udp = UdpSpec::new("100mbit".parse().unwrap());
    let spec = flow(&topology, "udp", Amount::Time(Duration::from_secs(1)), false, Traffic::Udp(udp));
    let result = run(&topology, &spec);
    let counts = result.udp.unwrap();
    println!("{counts:?}");
    // Twice the link's rate, or what is caught up with in bursts: a full queue of 66 datagrams passes, and others do
    // not.
    assert!(counts.received > 66 && counts.lost * 3 > counts.sent, "{counts:?}");
    // No more than the link carries in that time, and queue and bucket hold.
    let seconds = result.finished.unwrap().since(result.started.unwrap()).as_secs_f64();
    let carried = counts.received as f64 * 1514.0;
    assert!(carried <= 50e6 / 8.0 * seconds + 115e3, "{carried} bytes in {seconds} s");
    assert_eq!(counts.received + counts.lost, counts.sent);
    assert!(counts.one_way_delay_ns.quantile(0.9).unwrap() > 12_000_000, "{counts:?}");
}

#[test]
fn quic_delivers_with_each_controller_and_spins_once_a_round_trip() {
    let Some(_turn) = root_and_turn() else { return };
    let topology = routed(&TopologySpec::default(), &[SLOW]);
    for (_, controller) in CONTROLLERS.iter().filter(|(stack, _)| *stack == Stack::Quic) {
        let capture = Capture::start(&topology.bottleneck, &topology.bottleneck_client_iface);
        // Without GSO each datagram is one packet in the capture.
        let quic = QuicSpec { gso: false, ..QuicSpec::new(controller) };
        let spec = flow(&topology, "quic", Amount::Bytes(Bytes(5_000_000)), true, Traffic::Quic(quic));
        let result = run(&topology, &spec);
        let packets = capture.finish();
        assert_eq!(
            (result.error.as_deref(), result.bytes, result.complete),
            (None, 5_000_000, true),
            "{controller}"
        );
        let spins = |port| -> Vec<_> {
            let short = |p: &&capture::Packet| p.source_port == port && p.payload[0] & 0x80 == 0;
            packets.iter().filter(short).map(|p| (p.time, p.payload[0] & 0x20 != 0)).collect()
        };
        let data = spins(5000);
        assert!(packets.iter().all(|packet| packet.wire_bytes <= 1452 + 42));
        // Where the bit changed; reordering is impossible here.
        let edges: Vec<Instant> =
            data.windows(2).filter(|pair| pair[0].1 != pair[1].1).map(|pair| pair[1].0).collect();
        let lasted = data.last().unwrap().0 - data[0].0;
        let mean_rtt = result.samples.iter().map(|s| s.rtt_us).sum::<u64>() / result.samples.len() as u64;
        let cycles = lasted.as_micros() as u64 / mean_rtt;
        println!(
            "{controller}: {} packets, {} edges in {lasted:?}, mean RTT {mean_rtt} us, so about {cycles} cycles; {:?}",
            data.len(),
            edges.len(),
            result.spin
        );
        assert!(edges.len() as u64 * 10 > cycles * 6, "{controller}: too few");
        // BBR keeps the queue so short that the mean over time says little about a cycle.
        assert!(*controller == "bbr3" || (edges.len() as u64) < cycles * 2, "{controller}: too many");
        // Random bits change in half of the packets, give or take one in a hundred. BBR keeps three packets in flight
        // here, and has had an edge every 2.9; the others have dozens.
        let longest = if *controller == "bbr3" { 4.0 / 9.0 } else { 1.0 / 3.0 };
        let share = edges.len() as f64 / data.len() as f64;
        assert!(
            share < longest,
            "{controller}: {share} of the packets change the bit, nearly as of random ones"
        );
        let counted = result.spin.unwrap();
        assert!(counted.edges.abs_diff(edges.len() as u64) <= 2 + edges.len() as u64 / 10, "{counted:?}");
        // The client spins too: random bits would differ in half of its packets.
        let acks = spins(6000);
        let client_edges = acks.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
        assert!(
            client_edges.abs_diff(edges.len()) <= 3 + edges.len() / 5,
            "{client_edges} and {}",
            edges.len()
        );
    }
}

#[test]
fn quic_survives_heavy_loss_with_datagrams_of_the_same_size() {
    let Some(_turn) = root_and_turn() else { return };
    // Room for four packets.
    let topology = routed(
        &TopologySpec::default(),
        &["qdisc add dev toclient root tbf rate 20mbit burst 2kb limit 6100"],
    );
    for controller in ["cubic", "bbr3"] {
        let capture = Capture::start(&topology.bottleneck, &topology.bottleneck_client_iface);
        let quic = QuicSpec { gso: false, ..QuicSpec::new(controller) };
        let spec = flow(&topology, "loss", Amount::Bytes(Bytes(1_000_000)), false, Traffic::Quic(quic));
        let result = run(&topology, &spec);
        let packets = capture.finish();
        assert_eq!((result.error.as_deref(), result.bytes), (None, 1_000_000));
        let last = result.samples.last().unwrap();
        println!("{controller}: {:?}, {last:?}", result.fct);
        assert!(last.lost_packets > 10, "{last:?}");
        let sizes: Vec<usize> =
            packets.iter().filter(|p| p.source_port == 5000).map(|p| p.wire_bytes).collect();
        let late = &sizes[sizes.len() / 2..];
        assert!(late.iter().filter(|size| **size == 1452 + 42).count() * 10 > late.len() * 8, "{late:?}");
    }
}

#[test]
fn quic_without_spin_sends_random_bits() {
    let Some(_turn) = root_and_turn() else { return };
    let topology = routed(&TopologySpec::default(), &[]);
    let quic = QuicSpec { spin: false, ..QuicSpec::new("cubic") };
    let spec = flow(&topology, "quic", Amount::Bytes(Bytes(5_000_000)), false, Traffic::Quic(quic));
    let result = run(&topology, &spec);
    assert_eq!(result.error, None);
    let spin = result.spin.unwrap();
    assert!(spin.edges * 5 > spin.packets * 2 && spin.edges * 5 < spin.packets * 3, "{spin:?}");
}

#[test]
fn data_is_ecn_capable_exactly_when_asked() {
    let Some(_turn) = root_and_turn() else { return };
    let topology = routed(&TopologySpec::default(), &[]);
    for ecn in [false, true] {
        for traffic in [tcp("cubic", false), Traffic::Quic(QuicSpec::new("cubic"))] {
            let capture = Capture::start(&topology.bottleneck, &topology.bottleneck_client_iface);
            let spec = flow(&topology, "ecn", Amount::Bytes(Bytes(1_000_000)), ecn, traffic);
            let result = run(&topology, &spec);
            let packets = capture.finish();
            assert_eq!((result.error.as_deref(), result.ecn), (None, Some(ecn)), "{:?}", spec.traffic);
            // Beyond the handshake: whatever carries much data.
            let data: Vec<_> =
                packets.iter().filter(|p| p.source_port == 5000 && p.wire_bytes > 1400).collect();
            assert!(data.len() > 10, "{}", data.len());
            let expected = if ecn { Ecn::Ect0 } else { Ecn::NotEct };
            assert!(data.iter().all(|packet| packet.ecn == expected), "{:?} {ecn}", spec.traffic);
            if !ecn {
                assert!(packets.iter().all(|packet| packet.ecn == Ecn::NotEct), "{:?}", spec.traffic);
            }
        }
    }
}

#[test]
fn upward_flows_use_ecn_by_the_same_addresses() {
    let Some(_turn) = root_and_turn() else { return };
    let topology = routed(&TopologySpec { ipv6: true, ..TopologySpec::default() }, &[]);
    for ecn in [false, true] {
        let down = flow(&topology, "up", Amount::Bytes(Bytes(1_000_000)), ecn, tcp("cubic", false));
        let server_v6 = if ecn { topology.server_ecn_addr_v6(0) } else { topology.server_addr_v6(0) };
        for (from, to) in
            [(down.client.ip(), down.server.ip()), (topology.client_addr_v6(0).unwrap(), server_v6.unwrap())]
        {
            // Now the client's host pushes and the server's host asks.
            let spec = FlowSpec {
                server: SocketAddr::new(from, 5000),
                client: SocketAddr::new(to, 0),
                ..down.clone()
            };
            let capture = Capture::start(&topology.bottleneck, &topology.bottleneck_server_iface);
            let launched = Transfer::launch(&spec, &topology.client, &topology.server, &Control::default());
            let result = launched.unwrap().join();
            let packets = capture.finish();
            assert_eq!((result.error.as_deref(), result.bytes), (None, 1_000_000), "ecn {ecn} from {from}");
            assert_eq!(result.ecn, Some(ecn));
            let expected = if ecn { Ecn::Ect0 } else { Ecn::NotEct };
            let data = packets.iter().filter(|p| p.source_port == 5000 && p.wire_bytes > 1400);
            assert!(data.into_iter().all(|packet| packet.ecn == expected));
        }
    }
}

#[test]
fn a_tcp_flow_to_the_wrong_address_does_not_measure_something_else() {
    let Some(_turn) = root_and_turn() else { return };
    let topology = routed(&TopologySpec::default(), &[]);
    let spec = flow(&topology, "tcp", Amount::Bytes(Bytes(1_000_000)), true, tcp("cubic", false));
    let wrong = FlowSpec { ecn: false, ..spec };
    let result = run(&topology, &wrong);
    assert!(result.error.as_ref().is_some_and(|error| error.contains("server_addr")), "{result:?}");
    assert!(!result.complete);
}

#[test]
fn ipv6_carries_the_same() {
    let Some(_turn) = root_and_turn() else { return };
    let topology = routed(&TopologySpec { ipv6: true, ..TopologySpec::default() }, &[]);
    let udp = Traffic::Udp(UdpSpec { payload: 1400, ..UdpSpec::new("20mbit".parse().unwrap()) });
    for ecn in [false, true] {
        for traffic in [tcp("cubic", true), Traffic::Quic(QuicSpec::new("newreno")), udp.clone()] {
            let server = if ecn { topology.server_ecn_addr_v6(0) } else { topology.server_addr_v6(0) };
            let v4 = flow(&topology, "v6", Amount::Bytes(Bytes(1_400_000)), ecn, traffic);
            let spec = FlowSpec {
                server: SocketAddr::new(server.unwrap(), 5000),
                client: SocketAddr::new(topology.client_addr_v6(0).unwrap(), 6000),
                ..v4
            };
            let result = run(&topology, &spec);
            assert_eq!((result.error.as_deref(), result.bytes), (None, 1_400_000), "{:?}", spec.traffic);
            assert!(result.ecn.is_none_or(|used| used == ecn));
        }
    }
}

#[test]
fn the_stop_switch_ends_every_kind_of_flow_long_before_its_time() {
    let Some(_turn) = root_and_turn() else { return };
    let topology = routed(&TopologySpec::default(), &[SLOW]);
    let control = Control::default();
    let udp = UdpSpec::new("10mbit".parse().unwrap());
    let kinds = [
        tcp("cubic", false),
        tcp("bbr", true),
        Traffic::Quic(QuicSpec::new("cubic")),
        Traffic::Udp(udp),
        twins::twins("trains"),
    ];
    let start = |index: usize, traffic: Traffic, start| {
        let long = flow(&topology, "long", Amount::Bytes(Bytes(1 << 40)), false, traffic);
        let spec = FlowSpec {
            // Twins take two ports.
            server: SocketAddr::new(long.server.ip(), 5100 + index as u16),
            client: SocketAddr::new(long.client.ip(), 6000 + index as u16),
            start,
            ..long
        };
        launch(&topology, &spec, &control)
    };
    let mut flows: Vec<Transfer> =
        kinds.iter().enumerate().map(|(index, kind)| start(index, kind.clone(), Duration::ZERO)).collect();
    let running = flows.len();
    // These have not set out yet.
    flows.extend(
        kinds
            .iter()
            .enumerate()
            .map(|(index, kind)| start(10 + index, kind.clone(), Duration::from_secs(60))),
    );
    let received =
        || -> Vec<u64> { flows.iter().map(|flow| flow.received().load(Ordering::Relaxed)).collect() };
    let launched = Instant::now();
    while received()[..running].contains(&0) {
        assert!(launched.elapsed() < StdDuration::from_secs(30), "{:?}", received());
        std::thread::sleep(StdDuration::from_millis(20));
    }
    let bytes = received();
    assert!(flows.iter().all(|flow| !flow.is_finished()));
    let stopped = Instant::now();
    control.stop();
    let results: Vec<FlowResult> = flows.into_iter().map(Transfer::join).collect();
    let took = stopped.elapsed();
    println!("stopped in {took:?}; bytes before {bytes:?}");
    // Some would set out after a minute, none would end.
    assert!(took < StdDuration::from_secs(20), "{took:?}");
    for (index, result) in results.iter().enumerate() {
        assert_eq!((result.error.as_deref(), result.complete), (None, false));
        assert_eq!(bytes[index] > 0, index < running, "{index}");
    }
}

#[test]
fn mistakes_are_told_before_anything_runs() {
    let Some(_turn) = root_and_turn() else { return };
    let topology = routed(&TopologySpec::default(), &[]);
    let control = Control::default();
    let refused = |traffic| {
        let spec = flow(&topology, "bad", Amount::Bytes(Bytes(1)), false, traffic);
        Transfer::launch(&spec, &topology.server, &topology.client, &control).unwrap_err().to_string()
    };
    let error = refused(tcp("cubik", false));
    assert!(error.contains("did you mean 'cubic'"), "{error}");
    let error = refused(Traffic::Quic(QuicSpec::new("vegas")));
    assert!(error.contains("known are newreno, cubic, bbr3, weir-reno"), "{error}");
    let error = refused(Traffic::Quic(QuicSpec { datagram: 1500, ..QuicSpec::new("cubic") }));
    assert!(error.contains("1200 to 1452"), "{error}");
    let error = refused(Traffic::Udp(UdpSpec { payload: 3, ..UdpSpec::new("1mbit".parse().unwrap()) }));
    assert!(error.contains("24 to"), "{error}");
    let error = refused(twins::twins("train"));
    assert!(error.contains("did you mean 'trains'"), "{error}");
    // The address is taken.
    let spec = flow(&topology, "first", Amount::Bytes(Bytes(1 << 40)), false, tcp("cubic", false));
    let first = launch(&topology, &spec, &control);
    let error =
        Transfer::launch(&spec, &topology.server, &topology.client, &control).unwrap_err().to_string();
    assert!(error.contains("listen on 10.77.1.1:5000"), "{error}");
    control.stop();
    first.join();
    // A bad tc line comes back with tc's own words.
    let lines = [
        "qdisc add dev toclient root tbf rate 1mbit burst 10kb limit 100000".to_owned(),
        "qdisc nonsense".to_owned(),
    ];
    let error = Topology::build_forwarding(&TopologySpec::default(), &lines).unwrap_err().to_string();
    assert!(
        error.contains("'tc qdisc nonsense' failed") && error.contains("nonsense\" is unknown"),
        "{error}"
    );
}

#[test]
fn a_topology_at_rest_is_silent_and_frames_carry_the_far_hosts_address() {
    let Some(_turn) = root_and_turn() else { return };
    let topology =
        Topology::build(&TopologySpec { server_addresses: 20, ..TopologySpec::default() }).unwrap();
    let captures = [
        Capture::start(&topology.bottleneck, &topology.bottleneck_server_iface),
        Capture::start(&topology.bottleneck, &topology.bottleneck_client_iface),
    ];
    std::thread::sleep(StdDuration::from_millis(1200));
    // Address 19 exists, and so does the way to the client without asking for it.
    topology
        .server
        .enter(|| {
            let socket = std::net::UdpSocket::bind((topology.server_addr(19), 5000)).unwrap();
            socket.send_to(b"hello", (topology.client_addr(0), 6000)).unwrap();
        })
        .unwrap();
    std::thread::sleep(StdDuration::from_millis(100));
    let [server_side, client_side] = captures.map(Capture::finish_frames);
    assert_eq!((server_side.len(), client_side.len()), (1, 0), "{server_side:?} {client_side:?}");
    assert_eq!(server_side[0][..6], [0x02, 0x57, 0x45, 0x49, 0x52, 4], "to the client");
    assert_eq!(server_side[0][6..12], [0x02, 0x57, 0x45, 0x49, 0x52, 1], "from the server");
}
