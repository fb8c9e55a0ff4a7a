//! What may be set at the ends of a flow: super-packets, acknowledgements, the first window.

mod notation;

use notation::{at, hop, ms, tcp};
use weir_core::{Audit, Duration, Ecn, Event, EventKind, EventSink, FlowId, Packet, RateMeter, Seed, Time};
use weir_sim::{Amount, Carried, EndOptions, FlowSpec, HopId, LARGEST_GSO, Network, Observer};

const RATE: &str = "50mbit";

/// Counts packets and segments at one link.
struct Counts {
    audit: Audit,
    meter: RateMeter,
    /// Segments that came, that were dropped, that left, and that left marked.
    came: u64,
    dropped: u64,
    left: u64,
    left_marked: u64,
    left_packets: u64,
    acks: u64,
    longest: u16,
    first_burst: u64,
    /// Instants at which packets came into the queue, and the last.
    instants: u64,
    last: Time,
}

impl Counts {
    fn new() -> Self {
        Self {
            audit: Audit::with_capacity(8),
            meter: RateMeter::new(RATE.parse().unwrap()),
            came: 0,
            dropped: 0,
            left: 0,
            left_marked: 0,
            left_packets: 0,
            acks: 0,
            longest: 0,
            first_burst: 0,
            instants: 0,
            last: Time::MAX,
        }
    }
}

impl Observer for Counts {
    fn event(&mut self, _: HopId, event: &Event) {
        self.audit.event(event);
        if let EventKind::Drop(_) = event.kind {
            self.dropped += u64::from(event.packet.segments);
        }
        if event.kind == EventKind::Enqueue {
            self.instants += u64::from(event.time != self.last);
            self.last = event.time;
        }
    }

    fn arriving(&mut self, _: HopId, packet: &mut Packet, _: &Carried) {
        self.came += u64::from(packet.segments);
        self.longest = self.longest.max(packet.segments);
        self.first_burst += u64::from(packet.segments) * u64::from(self.acks == 0);
    }

    fn departed(&mut self, _: HopId, packet: &Packet, now: Time) {
        let segments = u64::from(packet.segments);
        self.left += segments;
        self.left_packets += 1;
        self.left_marked += if packet.ecn == Ecn::Ce { segments } else { 0 };
        self.meter.sent(now, u64::from(packet.wire_bytes));
    }

    fn watches_return(&self) -> bool {
        true
    }

    fn returning(&mut self, _: &Carried, _: Time) {
        self.acks += 1;
    }
}

#[test]
fn super_packets_are_conserved_segment_by_segment() {
    for qdisc in
        ["bfifo limit 2bdp", "codel ecn", "fq_codel", "pie ecn", "dualpi2", "cake", "crq split shared", "crq"]
    {
        let mut network = Network::new(Seed { seed: 3, run: 0 }, Counts::new());
        let hop = network.add_hop(hop(RATE, qdisc));
        let ends = EndOptions { gso: 16, ..EndOptions::default() };
        let flows: Vec<FlowId> = [("cubic", 20, 0.0), ("reno", 40, 0.002), ("bbr1", 10, 0.0)]
            .into_iter()
            .map(|(name, rtt, loss)| {
                let spec = tcp(name, &[hop], rtt).loss(loss).ends(ends);
                network.add_flow(spec).unwrap()
            })
            .collect();
        // Its last segment is a short one.
        let sized = FlowSpec::quic("cubic", hop, ms(30)).unwrap().amount(Amount::Bytes(100_001)).ends(ends);
        let sized = network.add_flow(sized.ecn(true)).unwrap();
        network.run_until(at(6000));
        let received: u64 = flows.iter().chain([&sized]).map(|flow| network.flow(*flow).packets).sum();
        let report = network.flow(sized);
        assert!(report.finished.is_some() && report.bytes == 100_001, "{qdisc}: {report:?}");
        let before = network.drain();
        let counts = network.into_observer();
        let audit = counts.audit.report(before);
        assert!(audit.holds(), "{qdisc}: {:?}", audit.unbalanced);
        assert!(counts.longest > 8 && counts.longest <= 16, "{qdisc}: {}", counts.longest);
        assert_eq!(counts.left, received, "{qdisc}: each segment that left has arrived");
        assert!(counts.left + counts.dropped <= counts.came, "{qdisc}");
        let inside = u64::from(LARGEST_GSO) * (audit.still_queued + 1);
        assert!(counts.left + counts.dropped + inside >= counts.came, "{qdisc}: segments are missing");
        assert!(counts.meter.highest() <= 16 * 1514, "{qdisc}: {}", counts.meter.highest());
    }
}

#[test]
fn one_mark_marks_all_segments() {
    let run = |gso| {
        let mut network = Network::new(Seed::default(), Counts::new());
        let hop = network.add_hop(hop(RATE, "codel ecn target 1ms interval 20ms"));
        let ends = EndOptions { gso, ..EndOptions::default() };
        let spec = FlowSpec::quic("reno", hop, ms(20)).unwrap().ecn(true).ends(ends);
        let flow = network.add_flow(spec.amount(Amount::Bytes(20_000_000))).unwrap();
        assert!(network.run_until_done(at(60_000)));
        // The last acknowledgements come home.
        let end = network.now() + ms(1000);
        network.run_until(end);
        let told = network.flow(flow).marked;
        let counts = network.into_observer();
        let marks = counts.audit.report([]).total.marked;
        assert!(marks > 5, "gso {gso}: {marks} marks");
        assert_eq!(told, counts.left_marked, "gso {gso}: the sender has heard of each marked segment");
        (counts.left_marked as f64 / marks as f64, counts.left as f64 / counts.left_packets as f64)
    };
    assert_eq!(run(1), (1.0, 1.0));
    let (marked, segments) = run(8);
    assert!(marked > 4.0 && marked <= 8.0, "{marked} segments a mark");
    assert!(segments > 4.0 && segments <= 8.0, "{segments} segments a packet");
}

#[test]
fn acknowledgements_are_as_sparse_as_asked_for() {
    let packets_per_ack = |ends: EndOptions| {
        let mut network = Network::new(Seed::default(), Counts::new());
        let hop = network.add_hop(hop(RATE, "pfifo limit 2000p"));
        let spec = tcp("cubic", &[hop], 20).ends(ends);
        let flow = network.add_flow(spec.amount(Amount::Bytes(10_000_000))).unwrap();
        assert!(network.run_until_done(at(60_000)));
        let (end, packets) = (network.now() + ms(1000), network.flow(flow).packets);
        network.run_until(end);
        (packets as f64 / network.into_observer().acks as f64 * 100.0).round() / 100.0
    };
    let options = EndOptions::default();
    // Quick acknowledgements at the beginning: 16 of 6906 packets.
    for (every, least, most) in [(1, 1.0, 1.0), (2, 1.98, 2.0), (8, 7.8, 8.0), (32, 29.0, 32.0)] {
        let ratio = packets_per_ack(EndOptions { ack_every: Some(every), ..options });
        assert!((least..=most).contains(&ratio), "every {every}: {ratio}");
    }
    // A packet takes 242 us on the link, so that in each millisecond there come four or five.
    let ratio = packets_per_ack(EndOptions { gro: ms(1), ..options });
    assert!((4.0..=5.2).contains(&ratio), "{ratio}");
    // A packet that would wait for three others, at a rate at which they do not come in time.
    let ratio = packets_per_ack(EndOptions {
        ack_every: Some(4),
        ack_delay: Some(Duration::from_micros(300)),
        ..options
    });
    assert!((1.8..=2.1).contains(&ratio), "{ratio}");
}

#[test]
fn packets_wait_for_others_to_go_with() {
    let together = |controller, rtt, defer| {
        let mut network = Network::new(Seed::default(), Counts::new());
        let hop = network.add_hop(hop(RATE, "codel"));
        let ends = EndOptions { defer, ..EndOptions::default() };
        let spec = tcp(controller, &[hop], rtt).ends(ends);
        network.add_flow(spec.amount(Amount::Bytes(20_000_000))).unwrap();
        assert!(network.run_until_done(at(60_000)));
        let took = network.now().as_secs_f64();
        let counts = network.into_observer();
        assert!((3.2..4.8).contains(&took), "{controller} {rtt} ms: {took} s");
        counts.came as f64 / counts.instants as f64
    };
    // What one acknowledgement of two lets go.
    let few = together("reno", 20, false);
    assert!((1.9..2.6).contains(&few), "{few}");
    // 1.2 times 50 Mbit/s make four in 1/1024 s, and 64 kB / 2^(1 ms / 512 us) eleven more; a third of the window goes
    // at once.
    for (rtt, least, most) in [(20, 2.8, 4.2), (1, 3.0, 15.0)] {
        let many = together("reno", rtt, true);
        assert!((least..most).contains(&many), "{rtt} ms: {many}");
    }
    // Who is paced sends a millisecond at once anyway.
    assert_eq!(together("bbr1", 20, true), together("bbr1", 20, false));
}

#[test]
fn the_first_window_is_what_was_asked_for() {
    for window in [1, 10, 40] {
        let mut network = Network::new(Seed::default(), Counts::new());
        let hop = network.add_hop(hop(RATE, "pfifo limit 2000p"));
        let ends = EndOptions { initial_window: window, ..EndOptions::default() };
        network.add_flow(tcp("reno", &[hop], 20).ends(ends)).unwrap();
        network.run_until(at(60));
        assert_eq!(network.observer().first_burst, u64::from(window));
    }
}

#[test]
fn all_of_it_gives_the_same_bytes_again() {
    let run = |number| {
        let mut network = Network::new(Seed { seed: 1, run: number }, ());
        let hop = network.add_hop(hop(RATE, "codel ecn"));
        let ends = EndOptions {
            tso_autosize: false,
            syn_fin: false,
            gso: 12,
            initial_window: 20,
            min_burst: 3,
            defer: true,
            host_fq: true,
            host_hz: 250,
            paced: false,
            max_rate: Some("20mbit".parse().unwrap()),
            ack_every: Some(6),
            ack_delay: Some(ms(5)),
            gro: Duration::from_micros(400),
        };
        let flows = ["cubic", "reno"].map(|name| {
            let spec = tcp(name, &[hop], 20).ends(ends).loss(0.001);
            network.add_flow(spec.ecn(true)).unwrap()
        });
        network.run_until(at(5000));
        flows.map(|flow| network.flow(flow))
    };
    assert_eq!(run(0), run(0));
    assert_ne!(run(0), run(1));
}

/// Keeps what is reported of its handshake.
struct Greeted(std::sync::Arc<std::sync::Mutex<Option<Duration>>>);

impl weir_cc::Controller for Greeted {
    fn name(&self) -> &'static str {
        "greeted"
    }

    fn on_handshake(&mut self, rtt: Duration) {
        *self.0.lock().unwrap() = Some(rtt);
    }

    fn on_ack(&mut self, _: &weir_cc::Ack) {}

    fn on_timeout(&mut self, _: &weir_cc::Timeout) {}

    fn window(&self) -> u64 {
        14_480
    }
}

#[test]
fn the_handshake_tells_the_round_trip_unless_it_meets_a_queue() {
    let told = |start: u64, beside: Option<&str>, delay: u64| {
        let mut network = Network::new(Seed::default(), ());
        let link = network.add_hop(hop("5mbit", "bfifo limit 2bdp").delay(ms(delay)));
        if let Some(beside) = beside {
            network.add_flow(tcp(beside, &[link], 20)).unwrap();
        }
        let told = std::sync::Arc::default();
        let greeted = tcp("reno", &[link], 20).start(ms(start));
        network.add_flow(greeted.controller(Box::new(Greeted(std::sync::Arc::clone(&told))))).unwrap();
        network.run_until(at(5_000));
        *told.lock().unwrap()
    };
    assert_eq!(told(0, None, 0), Some(ms(20)));
    assert_eq!(told(3_000, None, 0), Some(ms(20)));
    // Whose data set out at the same time have not met each other yet.
    assert_eq!(told(0, Some("cubic"), 0), Some(ms(20)));
    assert_eq!(told(3_000, Some("cubic"), 0), None);
    // The link's own delay counts twice.
    assert_eq!(told(3_000, None, 15), Some(ms(50)));
}
