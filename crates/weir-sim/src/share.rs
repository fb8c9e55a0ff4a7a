//! A shared link in a few lines, for tests of one's own controller.
//!
//! ```
//! use weir_cc::{Ack, EcnUse, Linux, Signal, Window, WindowRule};
//! use weir_core::{Duration, Time};
//! use weir_sim::Share;
//!
//! /// Reno that gives way by 30 percent only.
//! struct Mine;
//!
//! impl WindowRule for Mine {
//!     fn name(&self) -> &'static str {
//!         "mine"
//!     }
//!     fn ecn(&self) -> EcnUse {
//!         EcnUse::Off
//!     }
//!     fn grow(&mut self, window: &mut Window, acked: u32, _: &Ack) {
//!         let left = if window.in_slow_start() { window.slow_start(acked) } else { acked };
//!         window.avoid(window.packets, left);
//!     }
//!     fn reduce(&mut self, window: &Window, _: Signal, _: Time) -> u32 {
//!         window.packets * 7 / 10
//!     }
//! }
//!
//! // From here on the body of a `#[test]`.
//! let shared = Share::new("50mbit", "40ms", "codel")
//!     .own(|setup| Box::new(Linux::new(Mine, setup)))
//!     .tcp("cubic")
//!     .run("60s")?;
//! assert!(shared.jain() > 0.85, "{shared}");
//! assert!(shared.delay(0.5) < Duration::from_millis(10), "{shared}");
//! assert!(shared.utilisation > 0.95, "{shared}");
//! # Ok::<(), weir_sim::ShareError>(())
//! ```

use std::fmt;

use thiserror::Error;
use weir_cc::{Controller, Setup};
use weir_core::{
    Duration, Event, EventKind, FlowId, Histogram, Packet, ParseUnitError, QueueChoice, Rate, Seed, Time,
};
use weir_law::{Law, Params};
use weir_qdisc::{ConfigError, QdiscConfig};

use crate::flow::{FlowReport, FlowSpec, Kind, SpecError};
use crate::guard::{Guard, Runaway, Told};
use crate::headers::{Transport, Wire};
use crate::hop::{HopId, HopSpec};
use crate::judge::Judge;
use crate::network::Network;
use crate::observer::{Carried, Observer, Opening};

/// TCP payload of a full packet, as [`FlowSpec::tcp`] sends it.
const MSS: u32 = 1448;
/// Port of the first flow's sender.
const FIRST_PORT: u16 = 20_000;

/// Makes a controller of one's own.
type Make = Box<dyn FnOnce(&Setup) -> Box<dyn Controller>>;

/// A link and the flows that are to share it. [`run`](Share::run) reports what is wrong in any of the words.
pub struct Share<'a> {
    rate: &'a str,
    rtt: &'a str,
    qdisc: &'a str,
    seed: Seed,
    ecn: bool,
    flows: Vec<(Kind, Option<Make>)>,
    /// The first rate of datagrams that is none.
    wrong: Option<ParseUnitError>,
}

/// A link that cannot be shared so.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ShareError {
    /// A rate or a time is not one.
    #[error(transparent)]
    Unit(#[from] ParseUnitError),
    /// The discipline is none, or does not fit the link.
    #[error("qdisc: {0}")]
    Qdisc(#[from] ConfigError),
    /// A flow that cannot be.
    #[error(transparent)]
    Flow(#[from] SpecError),
    /// Nobody shares it.
    #[error(
        "no flow shares the link: add one with tcp(\"cubic\"), quic(..), udp(..) or own(..) before run(..)"
    )]
    NoFlows,
    /// It is shared for no time.
    #[error("run(\"{0}\") lets no time pass, in which nothing is shared: run for a time such as 60s")]
    NoTime(String),
    /// A controller of one's own has run away.
    #[error(transparent)]
    Runaway(#[from] Runaway),
}

impl<'a> Share<'a> {
    /// A link of `rate` (`50mbit`) and round-trip time `rtt` without queue (`40ms`) behind a discipline (`codel ecn`),
    /// all written as in a scenario. Where it is a `crq`, the law judges the flows as its preset `paper` does, and each
    /// goes to the queue that it earns ([`Shared::choice`]).
    pub fn new(rate: &'a str, rtt: &'a str, qdisc: &'a str) -> Self {
        Self { rate, rtt, qdisc, seed: Seed::default(), ecn: false, flows: Vec::new(), wrong: None }
    }

    /// A TCP flow with the controller called `name` in the catalogue.
    #[must_use]
    pub fn tcp(mut self, name: &str) -> Self {
        self.flows.push((Kind::Tcp(name.to_owned()), None));
        self
    }

    /// A QUIC flow with the controller called `name` in the catalogue.
    #[must_use]
    pub fn quic(mut self, name: &str) -> Self {
        self.flows.push((Kind::Quic(name.to_owned()), None));
        self
    }

    /// Datagrams at a constant `rate` (`10mbit`) of wire bytes, without feedback.
    #[must_use]
    pub fn udp(mut self, rate: &str) -> Self {
        match rate.parse() {
            Ok(rate) => self.flows.push((Kind::Datagrams(rate), None)),
            Err(error) => self.wrong = self.wrong.or(Some(error)),
        }
        self
    }

    /// A TCP flow with a controller of one's own.
    #[must_use]
    pub fn own(mut self, make: impl FnOnce(&Setup) -> Box<dyn Controller> + 'static) -> Self {
        self.flows.push((Kind::Tcp("reno".to_owned()), Some(Box::new(make))));
        self
    }

    /// The controllers of the catalogue use ECN; one's own says so itself.
    #[must_use]
    pub fn ecn(self) -> Self {
        Self { ecn: true, ..self }
    }

    /// Other random draws than those of seed 0.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed: Seed { seed, run: 0 }, ..self }
    }

    /// Lets all flows send from the start, for `time` (`60s`) of virtual time.
    ///
    /// # Errors
    /// If a word is wrong; the message says which and what would be right. If there is no flow, or no time passes. If a
    /// controller of one's own has run away: with more than a million packets in flight beside 16 times what the path
    /// holds, or a timer that wakes it 100,000 times in a millisecond; the message says which, and what it returned.
    pub fn run(self, time: &str) -> Result<Shared, ShareError> {
        let (rate, rtt): (Rate, Duration) = (self.rate.parse()?, self.rtt.parse()?);
        let word = time;
        let time: Duration = time.parse()?;
        let qdisc: QdiscConfig = self.qdisc.parse()?;
        if let Some(wrong) = self.wrong {
            return Err(wrong.into());
        }
        if self.flows.is_empty() {
            return Err(ShareError::NoFlows);
        }
        if time == Duration::ZERO {
            return Err(ShareError::NoTime(word.to_owned()));
        }
        let judge =
            qdisc.asks_law().then(|| Judge::new(Law::new(Params::default(), self.flows.len()), HopId::FIRST));
        let wires = self.flows.iter().enumerate();
        let wires = wires
            .map(|(index, (kind, _))| {
                let transport = match kind {
                    Kind::Tcp(_) => Transport::Tcp,
                    Kind::Quic(_) => Transport::Quic,
                    Kind::Datagrams(_) => Transport::Udp,
                };
                Wire::new(transport, false, FIRST_PORT.wrapping_add(index as u16), index)
            })
            .collect();
        let mut network = Network::new(
            self.seed,
            Watcher { sojourns: Histogram::new(), busy: Duration::ZERO, sending: None, judge, wires },
        );
        let hop = network.add_hop(HopSpec::new(rate, qdisc, rtt)?);
        let mut flows = Vec::new();
        let told = Told::default();
        for (index, (kind, own)) in self.flows.into_iter().enumerate() {
            let mut spec = FlowSpec::new(kind, &[hop], rtt)?.ecn(self.ecn);
            if let Some(make) = own {
                let random = self.seed.stream(&format!("controller {index}"));
                let own = make(&Setup { mss: MSS, initial_window: 10, random, rate: None });
                spec = spec.controller(Box::new(Guard::new(own, MSS, rate, rtt, &told)));
            }
            flows.push(network.add_flow(spec)?);
        }
        network.run_until(Time::ZERO + time);
        if let Some(runaway) = told.get() {
            return Err(runaway.clone().into());
        }
        let now = network.now();
        let reports = flows.iter().map(|flow| network.flow(*flow)).collect();
        let Watcher { sojourns, busy, sending, judge, .. } = network.into_observer();
        // What is being sent at the end counts until then.
        let busy = busy + sending.map_or(Duration::ZERO, |since| now.since(since));
        let utilisation = busy.as_secs_f64() / time.as_secs_f64();
        let choice = |flow| judge.as_ref().and_then(|judge| judge.flow(flow)).map(|view| view.choice);
        let choices = flows.into_iter().map(|flow| choice(flow).unwrap_or_default()).collect();
        Ok(Shared { flows: reports, utilisation, choices, time, sojourn: sojourns })
    }
}

/// Records sojourn times of packets that left and for how long the link was sending, and has flows judged.
struct Watcher {
    sojourns: Histogram,
    /// Of packets that have been sent.
    busy: Duration,
    /// Since when one is being sent.
    sending: Option<Time>,
    judge: Option<Judge>,
    wires: Vec<Wire>,
}

impl Watcher {
    fn wire(&self, flow: FlowId) -> Wire {
        self.wires[flow.0 as usize]
    }
}

impl Observer for Watcher {
    fn event(&mut self, hop: HopId, event: &Event) {
        if event.kind == EventKind::Dequeue {
            self.sojourns.record(event.sojourn.as_nanos());
            self.sending = Some(event.time);
        }
        if let Some(judge) = &mut self.judge {
            judge.event(hop, event);
        }
    }

    fn departed(&mut self, _: HopId, _: &Packet, now: Time) {
        self.busy = self.busy + self.sending.take().map_or(Duration::ZERO, |since| now.since(since));
    }

    fn opening(&mut self, opening: &Opening) {
        let wire = self.wire(opening.flow);
        if let Some(judge) = &mut self.judge {
            judge.opening(opening, &wire, &mut ());
        }
    }

    fn arriving(&mut self, _: HopId, packet: &mut Packet, carried: &Carried) {
        let wire = self.wire(packet.flow);
        if let Some(judge) = &mut self.judge {
            judge.arriving(packet, carried, &wire, &mut ());
        }
    }

    fn returning(&mut self, carried: &Carried, now: Time) {
        let wire = self.wire(carried.flow);
        if let Some(judge) = &mut self.judge {
            judge.returning(carried, &wire, now, &mut ());
        }
    }

    fn watches_return(&self) -> bool {
        self.judge.is_some()
    }

    fn watches_headers(&self) -> bool {
        self.judge.as_ref().is_some_and(Judge::watches_headers)
    }
}

/// How a link was shared.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The flows, in the order in which they were named.
    pub flows: Vec<FlowReport>,
    /// Share of the time in which the link was sending, at most 1.
    pub utilisation: f64,
    choices: Vec<QueueChoice>,
    time: Duration,
    sojourn: Histogram,
}

impl Shared {
    /// Payload bits per second of a flow over the whole time.
    ///
    /// # Panics
    /// If there are not so many flows.
    pub fn goodput(&self, flow: usize) -> f64 {
        self.flows[flow].bytes as f64 * 8.0 / self.time.as_secs_f64()
    }

    /// The queue of a `crq` that a flow has earned at the end. [`QueueChoice::Standard`] behind another
    /// discipline, where no law watches, and for datagrams without feedback, which get no verdict.
    ///
    /// # Panics
    /// If there are not so many flows.
    pub fn choice(&self, flow: usize) -> QueueChoice {
        self.choices[flow]
    }

    /// Jain's fairness index of the goodputs: 1 for equal ones, 1/n where one of n flows has all; 0, which is no value
    /// of the index, where several flows have nothing. One flow alone has 1.
    pub fn jain(&self) -> f64 {
        let alone = f64::from(self.flows.len() == 1);
        weir_core::jain(self.flows.iter().map(|flow| flow.bytes as f64)).unwrap_or(alone)
    }

    /// The time in the queue that a share `quantile` (0 to 1) of the packets did not exceed, up to 1/32.
    pub fn delay(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.sojourn.quantile(quantile).unwrap_or(0))
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for flow in 0..self.flows.len() {
            write!(f, "{:.2} Mbit/s, ", self.goodput(flow) / 1e6)?;
        }
        let (half, most) = (self.delay(0.5), self.delay(0.99));
        write!(
            f,
            "Jain {:.3}, link {:.1} % used, delay {half} median {most} p99",
            self.jain(),
            self.utilisation * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use weir_cc::{Ack, Controller, Timeout};
    use weir_core::{QueueChoice, Rate};

    use super::Share;

    #[test]
    fn equals_share_equally_and_the_same_again() {
        let run = || Share::new("20mbit", "20ms", "fq_codel").tcp("reno").quic("cubic").run("10s").unwrap();
        let shared = run();
        assert!(shared.jain() > 0.99 && shared.utilisation > 0.95, "{shared}");
        assert_eq!(shared.to_string(), run().to_string());
    }

    #[test]
    fn errors_say_which_word_is_wrong() {
        let error = |rate, qdisc, flow| {
            Share::new(rate, "20ms", qdisc).tcp(flow).run("1s").map(|_| ()).unwrap_err().to_string()
        };
        assert!(error("20mbits", "codel", "reno").contains("20mbits"));
        assert!(error("20mbit", "codle", "reno").contains("codle"));
        assert!(error("20mbit", "codel", "renno").contains("reno"));
        let rate = Share::new("20mbit", "20ms", "codel").udp("3mbits").run("1s").map(|_| ()).unwrap_err();
        assert!(rate.to_string().contains("3mbits"), "{rate}");
    }

    #[test]
    fn a_share_of_nothing_is_an_error() {
        let link = || Share::new("20mbit", "20ms", "codel");
        let error = |share: Share<'_>, time| share.run(time).map(|_| ()).unwrap_err().to_string();
        assert!(error(link().tcp("cubic"), "0s").contains("run(\"0s\") lets no time pass"));
        assert!(error(link(), "1s").contains("no flow shares the link"));
        // Of two flows that nothing arrived of, nothing is shared; one alone is treated fairly.
        let nothing = Share::new("1bit", "20ms", "codel").tcp("cubic").tcp("cubic").run("1s").unwrap();
        assert_eq!((nothing.flows[0].bytes, nothing.jain()), (0, 0.0));
        assert_eq!(link().tcp("cubic").run("1s").unwrap().jain(), 1.0);
    }

    #[test]
    fn no_link_is_used_for_longer_than_it_runs() {
        // The one's first packet takes 12112 s; the other, without delay, is never idle but at the beginning.
        for (rate, rtt, least) in [("1bit", "40ms", 0.9), ("50mbit", "0ms", 0.999), ("20mbit", "20ms", 0.9)] {
            let shared = Share::new(rate, rtt, "codel").tcp("cubic").run("1s").unwrap();
            assert!((least..=1.0).contains(&shared.utilisation), "{rate} {rtt}: {}", shared.utilisation);
        }
    }

    /// Sends at a constant rate, whatever is lost.
    struct Constant(Rate);

    impl Controller for Constant {
        fn name(&self) -> &'static str {
            "constant"
        }
        fn on_ack(&mut self, _: &Ack) {}
        fn on_timeout(&mut self, _: &Timeout) {}
        fn window(&self) -> u64 {
            1 << 30
        }
        fn pacing(&self) -> Option<Rate> {
            Some(self.0)
        }
    }

    #[test]
    fn behind_a_crq_only_who_answers_losses_is_in_the_responsive_queue() {
        // They are found out after some tens of seconds, as a quarter of all packets is lost until then.
        // The sender at a constant rate overruns its half of the link, and what it shares with the datagrams.
        let run = |qdisc| {
            Share::new("20mbit", "20ms", qdisc)
                .tcp("cubic")
                .quic("reno")
                .own(|_| Box::new(Constant(Rate::from_bits_per_sec(9_000_000))))
                .udp("3mbit")
                .run("400s")
                .unwrap()
        };
        let shared = run("crq standard bfifo responsive codel");
        let choices = [0, 1, 2, 3].map(|flow| shared.choice(flow));
        let (responsive, standard) = (QueueChoice::Responsive, QueueChoice::Standard);
        assert_eq!(choices, [responsive, responsive, standard, standard], "{shared}");
        // The two have their half of the link to themselves; in one queue the constant rates would leave 8 Mbit/s.
        let together = shared.goodput(0) + shared.goodput(1);
        assert!(together > 8.5e6, "{shared}");
        let unjudged = run("bfifo");
        assert!((0..4).all(|flow| unjudged.choice(flow) == standard), "{unjudged}");
    }
}
