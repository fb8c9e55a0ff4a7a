//! A link with its queue.

use weir_core::{Duration, Packet, Rate, Seed, Time};
use weir_qdisc::{BuildContext, ConfigError, Qdisc, QdiscConfig};

/// A link of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HopId(pub(crate) u32);

impl HopId {
    /// Its place among the network's links, in the order in which they were added.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Wire bytes of the longest ordinary packet on Ethernet.
pub(crate) const MTU: u32 = 1514;

/// A link that is to be made.
#[derive(Clone, Debug)]
pub struct HopSpec {
    pub(crate) rate: Rate,
    pub(crate) qdisc: QdiscConfig,
    pub(crate) context: BuildContext,
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
        Ok(Self { rate, qdisc, context })
    }
}

/// What a link has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopReport {
    /// Packets that left.
    pub packets: u64,
    /// Their wire bytes.
    pub bytes: u64,
    /// Time spent sending.
    pub busy: Duration,
}

pub(crate) struct Hop {
    pub(crate) qdisc: Box<dyn Qdisc>,
    pub(crate) rate: Rate,
    /// Of a nanosecond, kept so that the rate does not drift.
    pub(crate) remainder: u64,
    pub(crate) transmitting: Option<Packet>,
    /// The discipline is to be asked again then.
    pub(crate) held: Time,
    pub(crate) report: HopReport,
}

impl Hop {
    pub(crate) fn new(spec: &HopSpec, seed: Seed) -> Result<Self, ConfigError> {
        let context = BuildContext { seed, ..spec.context };
        Ok(Self {
            qdisc: spec.qdisc.build(&context)?,
            rate: spec.rate,
            remainder: 0,
            transmitting: None,
            held: Time::MAX,
            report: HopReport::default(),
        })
    }
}
