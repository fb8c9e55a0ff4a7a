//! What must hold in any network: the same seed gives the same result, packets do not vanish, links keep to their rate and
//! are never idle with a backlog, and Little's law.

use std::collections::HashMap;

use weir_core::{Audit, Duration, Event, EventKind, EventSink, FlowId, Packet, RateMeter, Seed, Time};
use weir_qdisc::QdiscConfig;
use weir_sim::{Amount, FlowReport, FlowSpec, HopId, HopSpec, Kind, Network, Observer};

const RATE: &str = "20mbit";

fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

fn hop(qdisc: &str) -> HopSpec {
    HopSpec::new(RATE.parse().unwrap(), qdisc.parse().unwrap(), ms(20)).unwrap()
}

/// Three kinds of traffic over one link.
fn mixed<O: Observer>(seed: Seed, qdisc: &str, observer: O) -> (Network<O>, Vec<FlowId>) {
    let mut network = Network::new(seed, observer);
    let hop = network.add_hop(hop(qdisc));
    let mut flows = Vec::new();
    for (name, rtt, loss) in [("cubic", 20, 0.0), ("reno", 50, 0.001), ("bbr1", 10, 0.0)] {
        let spec = FlowSpec::tcp(name, hop, ms(rtt)).unwrap().loss(loss).start(ms(rtt));
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
    network.run_until(Time::ZERO + ms(10_000));
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
        let hop = network
            .add_hop(HopSpec::new("10gbit".parse().unwrap(), "bfifo".parse().unwrap(), ms(20)).unwrap());
        let ids: Vec<_> = (0..flows)
            .map(|_| {
                let rate = Kind::Datagrams("5mbit".parse().unwrap());
                network.add_flow(FlowSpec::new(rate, &[hop], ms(20)).unwrap().loss(0.1)).unwrap()
            })
            .collect();
        network.run_until(Time::ZERO + ms(3000));
        network.flow(ids[0])
    };
    let alone = sent(1);
    assert_eq!(alone, sent(7));
    let lost = 1.0 - alone.packets as f64 / alone.sent as f64;
    assert!((0.07..0.13).contains(&lost), "{lost}");
}

/// Keeps the books of one link.
struct Books {
    audit: Audit,
    meter: RateMeter,
    /// Bytes times nanoseconds in the queue, by the backlog and by sojourn times.
    area: f64,
    sojourns: f64,
    backlog: u64,
    changed: Time,
    busy_end: Time,
    idled_with_backlog: u32,
    arrivals: HashMap<u64, (Time, u32)>,
}

impl Observer for Books {
    fn event(&mut self, _: HopId, event: &Event) {
        self.audit.event(event);
        self.area += self.backlog as f64 * event.time.since(self.changed).as_nanos() as f64;
        self.changed = event.time;
        let packet = &event.packet;
        match event.kind {
            EventKind::Enqueue => {
                self.backlog += u64::from(packet.wire_bytes);
                self.arrivals.insert(packet.id, (event.time, packet.wire_bytes));
            }
            EventKind::Dequeue | EventKind::Drop(_) => {
                if let Some((at, bytes)) = self.arrivals.remove(&packet.id) {
                    self.backlog -= u64::from(bytes);
                    self.sojourns += f64::from(bytes) * event.time.since(at).as_nanos() as f64;
                }
            }
            EventKind::Mark(_) => {}
        }
        if event.kind == EventKind::Dequeue {
            // The link was free from the end of the packet before until now: was there anything to send meanwhile?
            let waited = event.time.since(self.busy_end);
            if waited > Duration::ZERO && event.sojourn > Duration::ZERO {
                self.idled_with_backlog += 1;
            }
        }
    }

    fn departed(&mut self, _: HopId, packet: &Packet, now: Time) {
        self.busy_end = now;
        self.meter.sent(now, u64::from(packet.wire_bytes));
    }
}

#[test]
fn packets_are_conserved_links_keep_their_rate_and_littles_law_holds() {
    for qdisc in all_disciplines() {
        let books = Books {
            audit: Audit::with_capacity(8),
            meter: RateMeter::new(RATE.parse().unwrap()),
            area: 0.0,
            sojourns: 0.0,
            backlog: 0,
            changed: Time::ZERO,
            busy_end: Time::ZERO,
            idled_with_backlog: 0,
            arrivals: HashMap::new(),
        };
        let (mut network, flows) = mixed(Seed { seed: 3, run: 0 }, qdisc, books);
        network.run_until(Time::ZERO + ms(8000));
        let received: u64 = flows.iter().map(|flow| network.flow(*flow).packets).sum();
        let left = network.drain();
        let books = network.into_observer();
        let report = books.audit.report(left);
        assert!(report.holds(), "{qdisc}: {:?}", report.unbalanced);
        // One packet may be on the link.
        assert!(
            report.total.departed.abs_diff(received + report.still_queued) <= 1 + report.still_queued,
            "{qdisc}"
        );
        assert!(books.meter.highest() <= 1514, "{qdisc}: {} bytes above the rate", books.meter.highest());
        assert_eq!(books.idled_with_backlog, 0, "{qdisc}");
        // Bytes that are still queued have not handed in their time yet.
        let ratio = books.sojourns / books.area;
        assert!((0.97..=1.03).contains(&ratio), "{qdisc}: {ratio}");
    }
}
