//! Challenges: rare signals at moments that no flow can foresee, which say more of a flow than those of a queue. A
//! sender that gives way only when it expects to be watched, or whose own rhythm falls in with the queue's, is asked
//! at other times, too.
//!
//! Each flow is asked at intervals of its own, drawn evenly from half to one and a half of the mean; and not more often
//! than once in a hundred of its packets. Small packets are left alone: acknowledgements have no sender that answers.

use weir_core::{Duration, Packet, Random, Time};

/// A flow's packets from one challenge to the next, at least.
const FEWEST_PACKETS: u32 = 100;
/// Wire bytes of the smallest packet that can be one: more than a bare acknowledgement with all its options.
const SMALLEST: u32 = 256;

/// When flows are challenged, and how.
#[derive(Clone, Debug)]
pub struct Challenges {
    mean: Duration,
    marks: bool,
    random: Random,
}

impl Challenges {
    /// Once in `mean` and flow on the average; by CE where the packet can carry it and `marks` allows it, else by a
    /// drop.
    pub fn new(mean: Duration, marks: bool, random: Random) -> Self {
        Self { mean, marks, random }
    }

    pub(super) fn next(&mut self, now: Time) -> Time {
        let half = self.mean / 2;
        now + half + Duration::from_nanos(self.random.below(self.mean.as_nanos()))
    }

    pub(super) fn may_be(&self, packet: &Packet) -> bool {
        packet.wire_bytes >= SMALLEST && !(self.marks && packet.ecn == weir_core::Ecn::Ce)
    }

    pub(super) fn is_within_budget(&self, packets: u32) -> bool {
        packets > FEWEST_PACKETS
    }

    /// Whether this packet is marked rather than dropped.
    pub(super) fn marks(&self, packet: &Packet) -> bool {
        self.marks && packet.ecn.is_capable()
    }
}
