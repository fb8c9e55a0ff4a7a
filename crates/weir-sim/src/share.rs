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
use weir_core::{Duration, Event, EventKind, Histogram, ParseUnitError, Rate, Seed, Time};
use weir_qdisc::{ConfigError, QdiscConfig};

use crate::flow::{FlowReport, FlowSpec, Kind, SpecError};
use crate::hop::{HopId, HopSpec};
use crate::network::Network;
use crate::observer::Observer;

/// TCP payload of a full packet, as [`FlowSpec::tcp`] sends it.
const MSS: u32 = 1448;

/// Makes a controller of one's own.
type Make = Box<dyn FnOnce(&Setup) -> Box<dyn Controller>>;

/// A link and the flows that are to share it. What is wrong in any of the words is told by [`run`](Share::run).
pub struct Share<'a> {
    rate: &'a str,
    rtt: &'a str,
    qdisc: &'a str,
    seed: Seed,
    ecn: bool,
    flows: Vec<(Kind, Option<Make>)>,
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
    /// The discipline divides flows by the law's verdicts, and no law watches here.
    #[error(
        "qdisc: a crq divides flows by how they answer congestion, and nothing judges that here: all of them would be in its \
         standard queue; give the words of one of its queues, or write a scenario and run it with `weir run --on sim`"
    )]
    Unjudged,
    /// A flow that cannot be.
    #[error(transparent)]
    Flow(#[from] SpecError),
}

impl<'a> Share<'a> {
    /// A link of `rate` (`50mbit`) and round-trip time `rtt` without queue (`40ms`) behind a discipline (`codel ecn`), all
    /// written as in a scenario. No law watches it, so it cannot be a `crq`.
    pub fn new(rate: &'a str, rtt: &'a str, qdisc: &'a str) -> Self {
        Self { rate, rtt, qdisc, seed: Seed::default(), ecn: false, flows: Vec::new() }
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
    /// If a word is wrong; the message says which and what would be right.
    pub fn run(self, time: &str) -> Result<Shared, ShareError> {
        let (rate, rtt): (Rate, Duration) = (self.rate.parse()?, self.rtt.parse()?);
        let time: Duration = time.parse()?;
        let qdisc: QdiscConfig = self.qdisc.parse()?;
        if matches!(qdisc, QdiscConfig::Crq(_)) {
            return Err(ShareError::Unjudged);
        }
        let mut network = Network::new(self.seed, Sojourns::default());
        let hop = network.add_hop(HopSpec::new(rate, qdisc, rtt)?);
        let mut flows = Vec::new();
        for (index, (kind, own)) in self.flows.into_iter().enumerate() {
            let mut spec = FlowSpec::new(kind, &[hop], rtt)?.ecn(self.ecn);
            if let Some(make) = own {
                let random = self.seed.stream(&format!("controller {index}"));
                spec = spec.controller(make(&Setup { mss: MSS, initial_window: 10, random }));
            }
            flows.push(network.add_flow(spec)?);
        }
        network.run_until(Time::ZERO + time);
        let flows: Vec<FlowReport> = flows.into_iter().map(|flow| network.flow(flow)).collect();
        let utilisation = network.hop(hop).busy.as_secs_f64() / time.as_secs_f64();
        Ok(Shared { flows, utilisation, time, sojourn: network.into_observer().0 })
    }
}

/// Sojourn times of packets that left.
#[derive(Default)]
struct Sojourns(Histogram);

impl Observer for Sojourns {
    fn event(&mut self, _: HopId, event: &Event) {
        if event.kind == EventKind::Dequeue {
            self.0.record(event.sojourn.as_nanos());
        }
    }
}

/// How a link was shared.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The flows, in the order in which they were named.
    pub flows: Vec<FlowReport>,
    /// Share of the time in which the link was sending.
    pub utilisation: f64,
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

    /// Jain's fairness index of the goodputs: 1 for equal ones, 1/n where one flow has all.
    pub fn jain(&self) -> f64 {
        weir_core::jain(self.flows.iter().map(|flow| flow.bytes as f64)).unwrap_or(1.0)
    }

    /// The time in the queue that a share `quantile` (0 to 1) of the packets did not exceed; at most 1/32 too high.
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
        // Without a law a crq would be its standard queue.
        for crq in ["crq", "crq standard bfifo responsive codel"] {
            let error = error("20mbit", crq, "cubic");
            assert!(error.contains("crq") && error.contains("weir run --on sim"), "{error}");
        }
    }
}
