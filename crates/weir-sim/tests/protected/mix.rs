//! Random mixes of honest flows and intruders at a protected dual queue, each drawn from its seed alone.

use std::fmt;

use weir_cc::{Ack, Controller, EcnUse, Timeout};
use weir_core::{Duration, Event, EventKind, FlowId, QueueId, Random, Rate, Seed, Time};
use weir_sim::{FlowSpec, HopId, HopSpec, Kind, Network, Observer};

/// The queue of those that have been demoted.
const DEMOTED: QueueId = QueueId(2);
/// How long a mix runs.
const LENGTH: Duration = Duration::from_secs(30);
/// The scalable controllers that are honest, and whether they run over QUIC as well.
const SCALABLE: [&str; 4] = ["prague", "dctcp", "bbr3", "bbr3-ecn"];
const DISCIPLINES: [&str; 3] = [
    "dualpi2 scalable any protect 5",
    "dualpi2 variant rfc9332 scalable any protect 5",
    "dualq_curvy scalable any protect 5",
];

/// Sends at a constant rate, with ECN, and answers to nothing.
struct Constant(Rate);

impl Controller for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }
    fn ecn(&self) -> EcnUse {
        EcnUse::Scalable
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

/// A flow of a mix.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// `tcp prague`, `udp 8mbit`.
    pub(crate) name: String,
    pub(crate) rtt: Duration,
    pub(crate) is_intruder: bool,
    /// When it came into the demoted queue first.
    pub(crate) demoted: Option<Time>,
}

/// A mix and what became of its flows.
#[derive(Debug)]
pub(crate) struct Mix {
    pub(crate) seed: u64,
    pub(crate) rate: Rate,
    pub(crate) discipline: String,
    pub(crate) flows: Vec<Member>,
}

impl Mix {
    /// Honest flows that were demoted.
    pub(crate) fn wronged(&self) -> usize {
        self.flows.iter().filter(|flow| !flow.is_intruder && flow.demoted.is_some()).count()
    }

    /// Intruders, and those of them that were demoted.
    pub(crate) fn intruders(&self) -> (usize, usize) {
        let all = self.flows.iter().filter(|flow| flow.is_intruder);
        (all.clone().count(), all.filter(|flow| flow.demoted.is_some()).count())
    }

    /// Draws the mix of this seed and runs it, with `more` words of the dual queue.
    ///
    /// # Errors
    /// If a name in this file, or a word in `more`, is none.
    pub(crate) fn run(seed: u64, more: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let seeds = Seed { seed, run: 0 };
        let mut draw = seeds.stream("mix");
        let between = |draw: &mut Random, from: f64, to: f64| from * libm::pow(to / from, draw.unit());
        let megabits = between(&mut draw, 10.0, 100.0);
        let rate = Rate::from_bits_per_sec((megabits * 1e6) as u64);
        let discipline = format!("{} {more}", DISCIPLINES[draw.below(3) as usize]).trim_end().to_owned();
        let mut network = Network::new(seeds, Watcher::default());
        let hop = network.add_hop(HopSpec::new(rate, discipline.parse()?, Duration::from_millis(20))?);
        let mut flows = Vec::new();
        let mut add = |draw: &mut Random, kind: Kind, own: Option<Rate>, ecn, name: String| {
            let rtt = Duration::from_micros(between(draw, 2_000.0, 100_000.0) as u64);
            let start = Duration::from_millis(draw.below(5_000));
            let mut spec = FlowSpec::new(kind, &[hop], rtt)?.ecn(ecn).start(start);
            if let Some(rate) = own {
                spec = spec.controller(Box::new(Constant(rate)));
            }
            network.add_flow(spec)?;
            let is_intruder = own.is_some() || name.starts_with("udp");
            flows.push(Member { name, rtt, is_intruder, demoted: None });
            Ok::<(), Box<dyn std::error::Error>>(())
        };
        let honest = 1 + draw.below(8);
        for _ in 0..honest {
            let controller = SCALABLE[draw.below(4) as usize];
            let is_quic = draw.below(4) == 0;
            let (kind, stack) = match is_quic {
                true => (Kind::Quic(controller.to_owned()), "quic"),
                false => (Kind::Tcp(controller.to_owned()), "tcp"),
            };
            add(&mut draw, kind, None, true, format!("{stack} {controller}"))?;
        }
        for _ in 0..draw.below(3) {
            add(&mut draw, Kind::Tcp("cubic".to_owned()), None, false, "tcp cubic".to_owned())?;
        }
        let intruders = draw.below(6);
        let part = between(&mut draw, 0.2, 0.8) / intruders.max(1) as f64;
        for _ in 0..intruders {
            let own = Rate::from_bits_per_sec((megabits * 1e6 * part) as u64);
            match draw.below(3) {
                0 => {
                    add(&mut draw, Kind::Quic("reno".to_owned()), Some(own), true, format!("quic at {own}"))?
                }
                _ => add(&mut draw, Kind::Datagrams(own), None, true, format!("udp at {own}"))?,
            }
        }
        network.run_until(Time::ZERO + LENGTH);
        for (flow, time) in network.into_observer().demoted {
            flows[flow.0 as usize].demoted = Some(time);
        }
        Ok(Self { seed, rate, discipline, flows })
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {} behind {}:", self.seed, self.rate, self.discipline)?;
        for flow in &self.flows {
            write!(f, " {} over {}", flow.name, flow.rtt)?;
            if let Some(time) = flow.demoted {
                write!(f, " (demoted at {:.1} s)", time.as_secs_f64())?;
            }
            f.write_str(",")?;
        }
        Ok(())
    }
}

/// Notes who comes into the demoted queue, and when first.
#[derive(Default)]
struct Watcher {
    demoted: Vec<(FlowId, Time)>,
}

impl Observer for Watcher {
    fn event(&mut self, _: HopId, event: &Event) {
        let arrives = matches!(event.kind, EventKind::Enqueue | EventKind::Drop(_));
        if event.queue == DEMOTED && arrives {
            let flow = event.packet.flow;
            if !self.demoted.iter().any(|(known, _)| *known == flow) {
                self.demoted.push((flow, event.time));
            }
        }
    }
}
