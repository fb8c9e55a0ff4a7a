//! A connection of two sub-flows in the simulator: what its detector asks for is what is sent, and what it finds decides.

use weir_cc::{Choice, Controller, EcnUse, Family, Setup};
use weir_core::{Duration, Rate, Seed, Time};
use weir_fq::{
    Connection, Departure, Detector, Finding, Findings, Options, Outcome, Packet, Shared, SubFlow, Verdict,
};
use weir_sim::{Amount, FlowReport, FlowSpec, HopSpec, Network};

/// Sends trains of four heavy packets and a light one behind them, and says fair-queued once a light one has overtaken.
#[derive(Default)]
struct Overtaken {
    next: Option<Departure>,
    sent: u64,
    trains: u32,
    waiting: u32,
    last_heavy: Time,
    outcome: Option<Outcome>,
    departures: Vec<(SubFlow, Time)>,
}

impl Detector for Overtaken {
    fn name(&self) -> &'static str {
        "overtaken"
    }

    fn begin(&mut self, now: Time, _rtt: Duration) {
        self.next = Some(Departure { sub_flow: SubFlow::Heavy, at: now });
    }

    fn next(&self) -> Option<Departure> {
        self.next
    }

    fn on_sent(&mut self, packet: &Packet) {
        let Some(next) = self.next.filter(|next| next.sub_flow == packet.sub_flow) else { return };
        assert_eq!(packet.sent, next.at, "sent exactly when it was asked for");
        self.departures.push((packet.sub_flow, packet.sent));
        self.sent += 1;
        self.waiting += 1;
        self.next = match self.sent % 5 {
            0 => None,
            4 => Some(Departure { sub_flow: SubFlow::Light, at: packet.sent }),
            _ => Some(Departure { sub_flow: SubFlow::Heavy, at: packet.sent + Duration::from_micros(10) }),
        };
    }

    fn on_arrival(&mut self, now: Time, packet: &Packet, at: Time) {
        self.waiting -= 1;
        match packet.sub_flow {
            SubFlow::Heavy => self.last_heavy = at,
            SubFlow::Light => {
                self.trains += 1;
                let finding = if self.waiting > 1 { Finding::FairQueued } else { Finding::Shared };
                let verdict = Verdict { finding, confidence: 0.9, why: "order" };
                self.outcome = Some(Outcome { verdict, rate: None });
            }
        }
        if self.waiting == 0 && self.outcome.is_none() {
            self.next = Some(Departure { sub_flow: SubFlow::Heavy, at: now });
        }
    }

    fn timer(&self) -> Option<Time> {
        None
    }

    fn on_timer(&mut self, _now: Time) {}

    fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }
}

fn run(qdisc: &str, amount: Amount, seconds: u64) -> (Findings, &'static str, [FlowReport; 2]) {
    let rate: Rate = "10mbit".parse().unwrap();
    let rtt = Duration::from_millis(20);
    let mut network = Network::new(Seed::default(), ());
    let hop = network.add_hop(HopSpec::new(rate, qdisc.parse().unwrap(), rtt).unwrap());
    let setup = Setup { mss: 1425, initial_window: 10, random: Seed::default().stream("fq"), rate: None };
    let make = move |name: &str| -> Box<dyn Controller> {
        weir_cc::find(name).unwrap().make(&Choice { family: Family::Quic, ecn: false }, &setup)
    };
    let shared = Shared::new(Connection::new(Options {
        detector: Box::new(Overtaken::default()),
        choose: Box::new(move |chosen| {
            make(if chosen.outcome.verdict.finding == Finding::FairQueued { "copa" } else { "cubic" })
        }),
        again: None,
        isolation: None,
        ecn: EcnUse::Off,
    }));
    let spec = || FlowSpec::quic("reno", hop, rtt).unwrap();
    let flows = network.add_twins(spec().amount(amount), spec(), &shared).unwrap();
    network.run_until_done(Time::ZERO + Duration::from_secs(seconds));
    let connection = shared.lock();
    let controller = connection.controller().expect("a controller was chosen");
    (connection.findings().clone(), controller, flows.map(|flow| network.flow(flow)))
}

#[test]
fn sub_flows_are_two_flows_to_a_fair_queue() {
    let (found, controller, [heavy, light]) = run("drr", Amount::Bytes(2_000_000), 20);
    assert_eq!((found.verdict.finding, controller), (Finding::FairQueued, "copa"));
    assert_eq!((found.sent, found.lost), ([1, 4], 0));
    assert!(found.decided.unwrap().since(found.began.unwrap()) < Duration::from_millis(60));
    assert!(heavy.finished.is_some());
    // A packet of user data went on the light one, and no more than a window too many was sent.
    assert_eq!(light.bytes, 1425);
    assert!((2_000_000..2_100_000).contains(&(heavy.bytes + light.bytes)), "{}", heavy.bytes);
}

#[test]
fn they_stand_behind_each_other_in_a_shared_one() {
    let (found, controller, [heavy, light]) =
        run("pfifo limit 100p", Amount::Time(Duration::from_secs(5)), 20);
    assert_eq!((found.verdict.finding, controller), (Finding::Shared, "cubic"));
    assert_eq!(found.changes.len(), 1);
    assert!(heavy.bytes > 4_000_000, "{}", heavy.bytes);
    assert_eq!((light.bytes, light.sent), (1425, 1));
}
