//! Links that send by turns with others and then several packets at once, as Wi-Fi does.
//!
//! | IEEE 802.11n and later | here |
//! |---|---|
//! | an aggregate (A-MPDU) of up to 64 packets, one for each bit of its block acknowledgement, and of some milliseconds at most | [`Aggregates::packets`], [`Aggregates::longest`] |
//! | the sender waits until the air is free, then for an interframe space and a random number of slots | [`Aggregates::gap`]: the mean of an exponential distribution, which stands for the other stations too |
//! | the driver hands the hardware an aggregate while the one before is on the air | it is taken from the queue when the wait for the air begins |
//! | packets are handed on once the aggregate is complete and in order | the same, all at one time |
//! | what is damaged goes with the next aggregate, and what is behind it waits at the receiver | left out |
//!
//! Source of the numbers: IEEE 802.11-2020, sections 10.12 and 10.23; the queue ahead of the hardware as in
//! Høiland-Jørgensen et al., "Ending the Anomaly", USENIX ATC 2017.

use weir_core::{Duration, Packet, Random};

/// How a link makes up aggregates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aggregates {
    /// Packets of one at most; one is sent in any case.
    pub packets: u32,
    /// Time on the air at most, but for a single packet.
    pub longest: Duration,
    /// Mean wait for the air in front of each.
    pub gap: Duration,
}

/// A link that does so.
pub(crate) struct Aggregating {
    pub(crate) how: Aggregates,
    pub(crate) random: Random,
    /// The aggregate that waits for the air or is on it.
    pub(crate) packets: Vec<Packet>,
}

impl Aggregating {
    pub(crate) fn new(how: Aggregates, random: Random) -> Self {
        Self { how, random, packets: Vec::with_capacity(how.packets.max(1) as usize) }
    }

    /// Whether an aggregate takes another packet, with so much time on the air.
    pub(crate) fn takes_more(&self, air: Duration) -> bool {
        self.packets.is_empty() || self.packets.len() < self.how.packets as usize && air < self.how.longest
    }
}
