//! Paths on which a response function is measured.

use weir_cc::{Ack, Controller, EcnUse, Setup, Timeout};
use weir_core::{Duration, Ecn, Packet, Rate, Seed, Time};
use weir_sim::{
    Carried, EndOptions, Feedback, FlowId, FlowSpec, HopId, HopSpec, Network, Observer, ReceiverConfig,
};

/// A rate that limits nothing: a packet takes 12 ns.
pub(crate) const UNLIMITED: Rate = Rate::from_bits_per_sec(1_000_000_000_000);
const MSS: u32 = 1448;

/// What a flow did: its mean window in packets (by Little's law) and the share of its packets that were marked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) window: f64,
    pub(crate) marked: f64,
}

/// Where marks come from, beside the queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Signals {
    None,
    /// Each packet is lost with this probability.
    Lost(f64),
    /// Each packet is marked with this probability.
    Marked(f64),
    /// Every so many packets one is marked. Senders with classic ECN answer it as a loss.
    EveryMarked(u64),
}

/// Marks every so many packets one; none if zero.
struct Marker {
    every: u64,
    seen: u64,
}

impl Observer for Marker {
    fn watches_return(&self) -> bool {
        self.every > 0
    }

    fn arriving(&mut self, _: HopId, packet: &mut Packet, _: &Carried) {
        self.seen += 1;
        if self.seen.is_multiple_of(self.every) {
            (packet.ecn, packet.ecn_in) = (Ecn::Ce, Ecn::Ce);
        }
    }
}

/// A path, a controller, and for how long to look.
pub(crate) struct Trial<'a> {
    pub(crate) controller: &'a str,
    /// In place of the one of that name.
    pub(crate) own: Option<Box<dyn Controller>>,
    pub(crate) rate: Rate,
    pub(crate) qdisc: &'a str,
    pub(crate) rtt: Duration,
    pub(crate) signals: Signals,
    /// Packets for an acknowledgement.
    pub(crate) every: u32,
    /// For every trial other draws.
    pub(crate) run: u64,
    pub(crate) warm_up: Duration,
    pub(crate) length: Duration,
}

impl Trial<'_> {
    pub(crate) fn measure(self) -> Measured {
        let every = if let Signals::EveryMarked(every) = self.signals { every } else { 0 };
        let mut network = Network::new(Seed { seed: 1, run: self.run }, Marker { every, seen: 0 });
        let hop = network.add_hop(HopSpec::new(self.rate, self.qdisc.parse().unwrap(), self.rtt).unwrap());
        let feedback = match self.controller {
            "prague" => Feedback::AccEcn,
            name if name.starts_with("dctcp") => Feedback::Dctcp,
            _ => Feedback::Classic,
        };
        let receiver = ReceiverConfig { every: self.every, feedback, ..ReceiverConfig::default() };
        // Formulas have packets one by one.
        let ends = EndOptions { defer: false, ..EndOptions::default() };
        let mut spec = FlowSpec::tcp(self.controller, hop, self.rtt).unwrap().ends(ends).receiver(receiver);
        match self.signals {
            Signals::Lost(p) => spec = spec.loss(p),
            Signals::Marked(p) => spec = spec.mark(p),
            Signals::EveryMarked(_) => spec = spec.ecn(true),
            Signals::None => {}
        }
        if let Some(own) = self.own {
            spec = spec.controller(own);
        }
        let flow = network.add_flow(spec).unwrap();
        let before = at(&mut network, flow, Time::ZERO + self.warm_up);
        let after = at(&mut network, flow, Time::ZERO + self.warm_up + self.length);
        let samples = &after.samples[before.samples.len()..];
        let rtt = samples.iter().map(|sample| sample.rtt.as_secs_f64()).sum::<f64>() / samples.len() as f64;
        let packets = (after.packets - before.packets) as f64;
        Measured {
            window: packets / self.length.as_secs_f64() * rtt,
            marked: (after.marked - before.marked) as f64 / packets,
        }
    }
}

fn at(network: &mut Network<Marker>, flow: FlowId, time: Time) -> weir_sim::FlowReport {
    network.run_until(time);
    network.flow(flow)
}

pub(crate) fn setup() -> Setup {
    Setup { mss: MSS, initial_window: 10, random: Seed::default().stream("controller"), rate: None }
}

/// The sender of the derivation of W = 2/p: every round trip its window grows by one packet and shrinks by half of
/// alpha, whether there was a mark in it or not.
pub(crate) struct EveryRound {
    window: f64,
    alpha: f64,
    acked: f64,
    marked: f64,
    round_end: u64,
}

impl EveryRound {
    pub(crate) const fn new() -> Self {
        Self { window: 10.0, alpha: 1.0, acked: 0.0, marked: 0.0, round_end: 0 }
    }
}

impl Controller for EveryRound {
    fn name(&self) -> &'static str {
        "every round trip"
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.acked += f64::from(ack.delivered.packets);
        self.marked += f64::from(ack.ce.packets);
        if ack.una > self.round_end {
            self.alpha += (self.marked / self.acked - self.alpha) / 16.0;
            self.window = (self.window * (1.0 - self.alpha / 2.0) + 1.0).max(2.0);
            (self.acked, self.marked, self.round_end) = (0.0, 0.0, ack.next);
        }
    }

    fn on_timeout(&mut self, _: &Timeout) {}

    fn window(&self) -> u64 {
        self.window as u64 * u64::from(MSS)
    }

    fn ecn(&self) -> EcnUse {
        EcnUse::Accurate
    }
}

/// The sender of the square-root laws: its window grows by a packet in every round trip, also while it reduces, and has
/// this factor left after a loss or mark, once in a window of data.
pub(crate) struct SawTooth {
    window: f64,
    factor: f64,
    ecn: EcnUse,
    reduced_until: u64,
}

impl SawTooth {
    pub(crate) const fn new(factor: f64, ecn: EcnUse) -> Self {
        Self { window: 10.0, factor, ecn, reduced_until: 0 }
    }
}

impl Controller for SawTooth {
    fn name(&self) -> &'static str {
        "saw-tooth"
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.window += f64::from(ack.delivered.packets) / self.window;
        if (ack.echo || ack.lost.packets > 0) && ack.una > self.reduced_until {
            self.window = (self.window * self.factor).max(2.0);
            self.reduced_until = ack.next;
        }
    }

    fn on_timeout(&mut self, _: &Timeout) {}

    fn window(&self) -> u64 {
        self.window as u64 * u64::from(MSS)
    }

    fn ecn(&self) -> EcnUse {
        self.ecn
    }
}
