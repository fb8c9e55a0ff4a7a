//! A connection that was told its queue is its own, where it is, and where it is not.

use weir_cc::{Choice, Controller, EcnUse, Family, Setup};
use weir_core::{Duration, Rate, Seed, Time};
use weir_fq::{
    Connection, Departure, Detector, Finding, Findings, Isolation, Options, Outcome, Packet, Shared, Verdict,
};
use weir_sim::{Amount, FlowSpec, HopSpec, Network};

/// Says fair-queued the first time, and what is so when asked again.
struct Said {
    now: Option<Finding>,
    truth: Finding,
    rate: Rate,
}

impl Detector for Said {
    fn name(&self) -> &'static str {
        "said"
    }

    fn begin(&mut self, _now: Time, _rtt: Duration) {
        self.now = Some(if self.now.is_none() { Finding::FairQueued } else { self.truth });
    }

    fn next(&self) -> Option<Departure> {
        None
    }

    fn on_sent(&mut self, _packet: &Packet) {}

    fn on_arrival(&mut self, _now: Time, _packet: &Packet, _at: Time) {}

    fn timer(&self) -> Option<Time> {
        None
    }

    fn on_timer(&mut self, _now: Time) {}

    fn outcome(&self) -> Option<Outcome> {
        let verdict = Verdict { finding: self.now?, confidence: 1.0, why: "order" };
        Some(Outcome { verdict, rate: Some(self.rate) })
    }
}

/// A connection of 5 Mbit/s to begin with over 20 Mbit/s, and Cubics that begin and end every few seconds.
fn run(qdisc: &str, truth: Finding, rtt_ms: u64, cubics: u64, seed: u64) -> (Findings, &'static str, u64) {
    let rate: Rate = "20mbit".parse().unwrap();
    let rtt = Duration::from_millis(rtt_ms);
    let seed = Seed { seed, run: 0 };
    let mut network = Network::new(seed, ());
    let hop = network.add_hop(HopSpec::new(rate, qdisc.parse().unwrap(), rtt).unwrap());
    let setup = Setup { mss: 1425, initial_window: 10, random: seed.stream("fq"), rate: None };
    let shared = Shared::new(Connection::new(Options {
        detector: Box::new(Said { now: None, truth, rate: Rate::from_bits_per_sec(5_000_000) }),
        choose: Box::new(move |chosen| -> Box<dyn Controller> {
            let fair = chosen.outcome.verdict.finding == Finding::FairQueued;
            let setup = Setup { rate: chosen.outcome.rate, ..setup.clone() };
            let choice = Choice { family: Family::Quic, ecn: false };
            weir_cc::find(if fair { "share" } else { "cubic" }).unwrap().make(&choice, &setup)
        }),
        again: None,
        isolation: Some(Isolation::default()),
        ecn: EcnUse::Off,
    }));
    for cubic in 0..cubics {
        let spec = FlowSpec::tcp("cubic", hop, rtt).unwrap().start(Duration::from_secs(2 + 5 * cubic));
        network.add_flow(spec.amount(Amount::Time(Duration::from_secs(9)))).unwrap();
    }
    let spec = || FlowSpec::quic("reno", hop, rtt).unwrap();
    let [heavy, _] = network.add_twins(spec(), spec(), &shared).unwrap();
    network.run_until(Time::ZERO + Duration::from_secs(30));
    let bytes = network.flow(heavy).bytes;
    let connection = shared.lock();
    (connection.findings().clone(), connection.controller().unwrap(), bytes)
}

#[test]
fn somebody_else_in_the_queue_is_noticed_within_seconds() {
    for rtt in [10, 30, 80] {
        for seed in [1, 2, 3] {
            let (found, controller, bytes) = run("pfifo limit 100p", Finding::Shared, rtt, 5, seed);
            assert_eq!((found.alarms, controller), (1, "cubic"), "{rtt} ms, seed {seed}");
            let findings: Vec<_> = found.changes.iter().map(|(_, finding)| *finding).collect();
            assert_eq!(findings, [Finding::FairQueued, Finding::Unknown, Finding::Shared]);
            // The first Cubic begins at 2 s.
            let noticed = found.changes[1].0;
            assert!(noticed < Time::ZERO + Duration::from_secs(6), "{rtt} ms, seed {seed}: {noticed:?}");
            assert!(bytes > 15_000_000, "{rtt} ms, seed {seed}: {bytes}");
        }
    }
}

#[test]
fn a_queue_of_its_own_is_rarely_mistaken() {
    // A flow that begins and takes its share step by step looks like one in the same queue; it takes a detection to tell.
    let mut alarms = 0;
    for qdisc in ["fq flow_limit 100p", "fq_codel", "drr limit 50p", "cake"] {
        for rtt in [10, 30, 80] {
            for (cubics, seed) in [(0, 1), (5, 1), (5, 2)] {
                let (found, controller, bytes) = run(qdisc, Finding::FairQueued, rtt, cubics, seed);
                let what = format!("{qdisc}, {rtt} ms, {cubics} Cubics, seed {seed}");
                assert_eq!(controller, "share", "{what}");
                assert!(
                    found.alarms <= cubics && bytes > 25_000_000,
                    "{what}: {} alarms, {bytes}",
                    found.alarms
                );
                alarms += found.alarms;
            }
        }
    }
    assert!(alarms <= 8, "{alarms} of 120 flows that began");
}

#[test]
fn nobody_else_in_a_shared_queue_is_no_harm() {
    let (found, controller, _) = run("pfifo limit 100p", Finding::Shared, 30, 0, 1);
    assert_eq!((found.alarms, controller), (0, "share"));
}

#[test]
fn what_is_found_again_and_again_is_doubted() {
    // As behind a narrow fair queue and then a shared one, in which the queue is.
    let (found, _, bytes) = run("pfifo limit 100p", Finding::FairQueued, 30, 5, 1);
    assert!((2..8).contains(&found.alarms), "{} alarms", found.alarms);
    let mut fair = Duration::ZERO;
    for change in found.changes.windows(2).filter(|change| change[0].1 == Finding::FairQueued) {
        fair = fair + change[1].0.since(change[0].0.max(Time::ZERO + Duration::from_secs(2)));
    }
    // The Cubics are there for 27 s.
    assert!(fair < Duration::from_secs(9), "{fair}");
    assert!(bytes > 12_000_000, "{bytes}");
}
