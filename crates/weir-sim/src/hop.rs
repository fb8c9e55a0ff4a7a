//! A link with its queue.

use std::sync::Arc;

use weir_core::{Duration, Packet, Rate, Seed, Time};
use weir_qdisc::{BuildContext, ConfigError, Qdisc, QdiscConfig};

use crate::aggregates::{Aggregates, Aggregating};
use crate::impairment::Impairment;
use crate::replay::Replay;
use crate::steps::RateSteps;
use crate::trace::{Schedule, Trace};

/// A link of a network, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HopId(pub(crate) u32);

impl HopId {
    /// The link that is added to a network first.
    pub const FIRST: Self = Self(0);

    /// Its place among the network's links, in the order in which they were added.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Wire bytes of the longest ordinary packet on Ethernet.
pub(crate) const MTU: u32 = weir_core::FULL_PACKET;

/// A link that is to be made.
#[derive(Clone, Debug)]
pub struct HopSpec {
    pub(crate) rate: Rate,
    pub(crate) qdisc: QdiscConfig,
    pub(crate) context: BuildContext,
    overhead: u32,
    delay: Duration,
    trace: Option<Arc<Trace>>,
    steps: Option<RateSteps>,
    aggregates: Option<Aggregates>,
    replay_window: Option<u32>,
    impairment: Impairment,
}

impl HopSpec {
    /// A link of `rate` in wire bits with a queue in front; limits in BDP are of `rtt`.
    ///
    /// # Errors
    ///
    /// If the queue cannot be built for such a link; a rate of zero.
    pub fn new(rate: Rate, qdisc: QdiscConfig, rtt: Duration) -> Result<Self, ConfigError> {
        let context = BuildContext { rate, rtt, mtu: MTU, seed: Seed::default() };
        qdisc.build(&context)?;
        Ok(Self {
            rate,
            qdisc,
            context,
            overhead: 0,
            delay: Duration::ZERO,
            trace: None,
            steps: None,
            aggregates: None,
            replay_window: None,
            impairment: Impairment::default(),
        })
    }

    /// So many bytes more for each packet, in the queue and on the link: at most 65,535, the longest IP packet.
    #[must_use]
    pub fn overhead(self, overhead: u32) -> Self {
        Self { overhead: overhead.min(u32::from(u16::MAX)), ..self }
    }

    /// A packet needs this long from the end of the link's transmission to what comes next, in both directions. It
    /// comes on top of a flow's own round-trip time.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Sends when the trace lets it. The rate is then only what the discipline computes with.
    #[must_use]
    pub fn trace(self, trace: Arc<Trace>) -> Self {
        Self { trace: Some(trace), ..self }
    }

    /// Sends at these rates by turns. The link's own rate is then only what the discipline computes with.
    #[must_use]
    pub fn steps(self, steps: RateSteps) -> Self {
        Self { steps: Some(steps), ..self }
    }

    /// Sends several packets at once, at its rate while they are on the air. Neither a trace nor steps of the rate
    /// count then.
    #[must_use]
    pub fn aggregates(self, aggregates: Aggregates) -> Self {
        Self { aggregates: Some(aggregates), ..self }
    }

    /// All packets go through one tunnel, from before the queue to behind the link, whose end loses those that come out
    /// so many packets behind the newest or more (anti-replay, RFC 4303 section 3.4.3).
    #[must_use]
    pub fn replay_window(self, packets: u32) -> Self {
        Self { replay_window: Some(packets), ..self }
    }

    /// What happens to packets on the link.
    #[must_use]
    pub fn impairment(self, impairment: Impairment) -> Self {
        Self { impairment, ..self }
    }
}

/// What a link has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopReport {
    /// Packets that left.
    pub packets: u64,
    /// Their wire bytes.
    pub bytes: u64,
    /// Time spent sending. Of a link with a trace: none.
    pub busy: Duration,
    /// Packets that left and were lost on the link, or were refused by the end of a tunnel.
    pub lost: u64,
    /// Packets that were lost on the way back, if there is no queue.
    pub lost_back: u64,
}

/// What a link with a trace knows of its packet.
pub(crate) struct Opportunities {
    pub(crate) schedule: Schedule,
    /// Bytes of the packet that have not gone yet.
    pub(crate) left: u32,
    /// The next opportunity is on the agenda.
    pub(crate) awaited: bool,
}

pub(crate) struct Hop {
    pub(crate) qdisc: Box<dyn Qdisc>,
    pub(crate) rate: Rate,
    /// Its rates by turns, if it has not one for good.
    pub(crate) steps: Option<Box<RateSteps>>,
    /// Of a nanosecond, kept so that the rate does not drift.
    pub(crate) remainder: u64,
    pub(crate) transmitting: Option<Packet>,
    /// The discipline is to be asked again then.
    pub(crate) held: Time,
    pub(crate) report: HopReport,
    pub(crate) overhead: u32,
    pub(crate) delay: Duration,
    pub(crate) impairment: Impairment,
    /// The tunnel that all packets go through.
    pub(crate) replay: Option<Box<Replay>>,
    pub(crate) opportunities: Option<Box<Opportunities>>,
    pub(crate) aggregating: Option<Box<Aggregating>>,
    /// The queue of the other direction.
    pub(crate) back: Option<HopId>,
    /// What happens to packets there, if there is no queue.
    pub(crate) back_impairment: Impairment,
}

impl Hop {
    pub(crate) fn new(spec: &HopSpec, seed: Seed) -> Result<Self, ConfigError> {
        let context = BuildContext { seed, ..spec.context };
        Ok(Self {
            qdisc: spec.qdisc.build(&context)?,
            rate: spec.rate,
            steps: spec.steps.clone().map(Box::new),
            remainder: 0,
            transmitting: None,
            held: Time::MAX,
            report: HopReport::default(),
            overhead: spec.overhead,
            delay: spec.delay,
            impairment: spec.impairment,
            replay: spec.replay_window.map(|window| Box::new(Replay::new(window))),
            opportunities: spec.trace.as_ref().map(|trace| {
                let schedule = Schedule::new(Arc::clone(trace));
                Box::new(Opportunities { schedule, left: 0, awaited: false })
            }),
            aggregating: spec.aggregates.map(|how| Box::new(Aggregating::new(how, seed.stream("air")))),
            back: None,
            back_impairment: Impairment::default(),
        })
    }
}
