//! One detection in one condition.

use weir_cc::{Choice, EcnUse, Family, Setup};
use weir_core::{Duration, Rate, Time};
use weir_fq::{Connection, Finding, Options, Shared, Trains, TrainsParams, catalog::Names};
use weir_sim::{EndOptions, FlowId, FlowSpec, HopId, HopSpec, Kind, Network, Pattern, Span, WorkloadSpec};

use crate::cases::{Case, Cross};

/// What a detection came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) finding: Finding,
    pub(crate) confidence: f64,
    pub(crate) why: &'static str,
    /// From the first packet to the verdict; none if there was none in time.
    pub(crate) took: Option<Duration>,
    pub(crate) sent: u64,
    pub(crate) lost: u64,
}

/// A detection that takes longer has failed.
const LONGEST: Duration = Duration::from_secs(20);
/// Payload of a full QUIC packet of the simulator.
pub(crate) const MSS: u32 = 1425;

/// What a connection did in [`CONTROL`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// Bytes of IP that arrived, in Mbit/s.
    pub(crate) mbit: f64,
    /// Mean over time of the smoothed round trip, in ms.
    pub(crate) rtt: f64,
    /// Of the packets sent.
    pub(crate) lost: f64,
}

/// How long a connection is looked at.
const CONTROL: Duration = Duration::from_secs(30);
/// IP, UDP and QUIC headers of a packet.
pub(crate) const HEADERS: u32 = 20 + 8 + 27;

/// A network in which a connection with the detector begins.
struct Set {
    network: Network<()>,
    shared: Shared,
    flows: [FlowId; 2],
    start: Duration,
}

/// A connection with the detector of this name and its controllers in a shared and a fair queue; `trains@24us` are trains
/// whose packets are 24 us apart.
pub(crate) fn connection(detector: &str, shared: &str, fair: Option<&str>, setup: &Setup) -> Connection {
    let Some((name, spacing)) = detector.split_once('@') else {
        let fair = fair.map(str::to_owned);
        let names = Names { detector: detector.to_owned(), shared: shared.to_owned(), fair, again: None };
        return names.connection(setup, Duration::ZERO).unwrap_or_else(|error| panic!("{error}"));
    };
    assert_eq!(name, "trains", "only trains have a spacing");
    let spacing = spacing.parse().unwrap_or_else(|error| panic!("{error}"));
    let setup = setup.clone();
    Connection::new(Options {
        detector: Box::new(Trains::new(TrainsParams { spacing, ..TrainsParams::default() })),
        choose: Box::new(move |_| {
            let cubic = weir_cc::find("cubic").expect("a controller");
            cubic.make(&Choice { family: Family::Quic, ecn: false }, &setup)
        }),
        again: None,
        isolation: None,
        ecn: EcnUse::Off,
    })
}

fn set(case: &Case, detector: &str, fair: Option<&str>) -> Set {
    let &Case { rate, rtt, lead, seed, .. } = case;
    let mut random = seed.stream("start");
    let mut network = Network::new(seed, ());
    let qdisc = case.qdisc.parse().unwrap_or_else(|error| panic!("{}: {error}", case.qdisc));
    let spec = HopSpec::new(rate, qdisc, rtt).unwrap_or_else(|error| panic!("{case}: {error}"));
    let hop = network.add_hop(case.link.apply(spec.impairment(case.impairment), rate, seed));
    if case.reverse {
        let back = "pfifo limit 1bdp".parse().expect("a queue");
        let limited = rtt.max(rate.time_for(10 * 1514));
        network.add_back(hop, HopSpec::new(rate, back, limited).expect("a queue of some packets"));
        let flow = FlowSpec::tcp("cubic", hop, rtt).expect("a flow");
        network.add_flow(flow.up(true)).expect("a flow");
    }
    add_cross(&mut network, case, hop);
    // Not in step with the cross traffic.
    let start = lead + rtt + rtt.scale(random.unit());
    let setup = Setup { mss: MSS, initial_window: 10, random: seed.stream("detector"), rate: None };
    let shared = Shared::new(connection(detector, "cubic", fair, &setup));
    // A packet at a time: pairs would not fit into a buffer of one.
    let ends = EndOptions { min_burst: 1, ..EndOptions::default() };
    let spec = || FlowSpec::quic("reno", hop, rtt).expect("a flow").hosts([1, 2]).start(start).ends(ends);
    let flows = network.add_twins(spec(), spec(), &shared).unwrap_or_else(|error| panic!("{case}: {error}"));
    Set { network, shared, flows, start }
}

/// Tries the detector in the condition.
pub(crate) fn run(case: &Case, detector: &str) -> Found {
    let rtt = case.rtt;
    let Set { mut network, shared, start, .. } = set(case, detector, None);
    let step = (rtt / 2).max(Duration::from_millis(5));
    let mut now = Time::ZERO + start;
    while now < Time::ZERO + start + LONGEST {
        now += step;
        network.run_until(now);
        if shared.lock().findings().decided.is_some() {
            break;
        }
    }
    // What was lost until then is declared a little later.
    network.run_until(now + rtt * 3);
    let connection = shared.lock();
    let findings = connection.findings();
    let first = findings.changes.first().map_or(Finding::Unknown, |(_, finding)| *finding);
    Found {
        finding: first,
        confidence: findings.verdict.confidence,
        why: findings.verdict.why,
        took: findings.began.zip(findings.decided).map(|(began, decided)| decided.since(began)),
        sent: findings.sent.iter().sum(),
        lost: findings.lost,
    }
}

/// What the detections of a minute came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) detections: u64,
    /// Changes of the finding after the first.
    pub(crate) changes: usize,
    pub(crate) last: Finding,
    /// Bytes of IP that arrived, in Mbit/s.
    pub(crate) mbit: f64,
}

/// Lets a connection detect again and again for a minute.
pub(crate) fn again(case: &Case, detector: &str) -> Kept {
    const MINUTE: Duration = Duration::from_secs(60);
    let Set { mut network, shared, flows, start } = set(case, detector, None);
    network.run_until(Time::ZERO + start + MINUTE);
    let packets = flows.map(|flow| network.flow(flow).bytes).iter().sum::<u64>() as f64 / f64::from(MSS);
    let connection = shared.lock();
    let findings = connection.findings();
    Kept {
        detections: findings.detections,
        changes: findings.changes.len().saturating_sub(1),
        last: findings.verdict.finding,
        mbit: packets * f64::from(8 * (MSS + HEADERS)) / MINUTE.as_secs_f64() / 1e6,
    }
}

/// Lets a connection detect, and send for a while.
pub(crate) fn control(case: &Case, detector: &str, fair: Option<&str>) -> Held {
    let Set { mut network, flows, start, .. } = set(case, detector, fair);
    network.run_until(Time::ZERO + start + CONTROL);
    let [heavy, light] = flows.map(|flow| network.flow(flow));
    let packets = (heavy.bytes + light.bytes) as f64 / f64::from(MSS);
    let samples = heavy.samples.iter().filter(|sample| sample.rtt > Duration::ZERO);
    let (mut sum, mut count) = (0.0, 0.0);
    for sample in samples {
        sum += sample.rtt.as_millis_f64();
        count += 1.0;
    }
    let sent = (heavy.sent + light.sent) as f64;
    Held {
        mbit: packets * f64::from(8 * (MSS + HEADERS)) / CONTROL.as_secs_f64() / 1e6,
        rtt: sum / f64::max(count, 1.0),
        lost: (heavy.lost + light.lost) as f64 / sent,
    }
}

fn add_cross(network: &mut Network<()>, case: &Case, hop: HopId) {
    let &Case { rate, rtt, cross, seed, .. } = case;
    let mut random = seed.stream("cross");
    match cross {
        Cross::None => {}
        Cross::Tcp(flows, controller) => {
            for flow in 0..flows {
                // One has the round trip of the connection that is tried, as in the paper.
                let rtt = if flow == 0 { rtt } else { rtt.scale(1.0 + 2.0 * random.unit()) };
                let start = if flow == 0 { Duration::ZERO } else { Duration::from_millis(random.below(500)) };
                let spec = FlowSpec::tcp(controller, hop, rtt).expect("a flow");
                network.add_flow(spec.start(start).hosts([2 + flow as u16, 2])).expect("a flow");
            }
        }
        Cross::OnOff(flows, share) => {
            let each = Rate::from_bits_per_sec((rate.scale(share).bits_per_sec() / u64::from(flows)).max(1));
            for flow in 0..flows {
                let spec = FlowSpec::new(Kind::Datagrams(each), &[hop], rtt).expect("a flow");
                let spec = spec.hosts([2 + flow as u16, 2]);
                let span = Span::Exponential(Duration::from_millis(50 + random.below(450)));
                let pattern = Pattern::OnOff { users: 1, on: span, off: span };
                network.add_workload(WorkloadSpec::new(spec, pattern)).expect("a workload");
            }
        }
    }
}
