//! A packet as a queue sees it: lengths, codepoints and identities. The bytes stay where the world keeps them.

use serde::{Deserialize, Serialize};

use crate::{Ecn, Time};

/// Bytes of an Ethernet header without tags (IEEE 802.3, clause 3).
const ETHERNET_HEADER: u32 = 14;
/// The MTU of Ethernet, in bytes (RFC 894).
pub const ETHERNET_MTU: u32 = 1500;
/// Wire bytes of a full packet on Ethernet: 1514.
pub const FULL_PACKET: u32 = full_packet(ETHERNET_MTU);

/// Wire bytes of a full packet on a link with this MTU, in bytes: with an Ethernet header, without preamble, checksum
/// and gap, as the kernel's `psched_mtu` counts (include/net/pkt_sched.h).
pub const fn full_packet(mtu: u32) -> u32 {
    mtu.saturating_add(ETHERNET_HEADER)
}

/// A flow: one 5-tuple, both directions. Dense small integers, so that per-flow state is an array index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FlowId(pub u32);

impl FlowId {
    /// Packets that belong to no tracked flow: not IP, a full flow table, an unreadable header.
    pub const NONE: Self = Self(u32::MAX);
}

/// A cycle of a flow: one round trip as seen at the bottleneck, counted from zero in the life of the flow's entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CycleId(pub u32);

/// Which of CRQ's queues a packet's flow has earned (CRQ section III-B.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum QueueChoice {
    /// Everything that has not been shown to answer to congestion.
    #[default]
    Standard = 0,
    /// Flows that answer to congestion; with a queue of its own for those that answer to marks, the others: to losses.
    Responsive = 1,
    /// Flows that answer to marks (CRQ section V, "CRQ configuration space").
    #[serde(rename = "ecn-responsive")]
    EcnResponsive = 2,
}

impl QueueChoice {
    /// All of them, by number.
    pub const ALL: [Self; 3] = [Self::Standard, Self::Responsive, Self::EcnResponsive];

    /// As configurations and results name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Responsive => "responsive",
            Self::EcnResponsive => "ecn-responsive",
        }
    }
}

/// A packet in a queue. Plain data: copying it copies no packet bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Counts packets in order of arrival at the bottleneck; unique in a run.
    pub id: u64,
    /// Where the bytes are, for the world that owns them (a frame of shared memory, a simulator's slot). Opaque here.
    pub handle: u64,
    /// The flow it belongs to.
    pub flow: FlowId,
    /// Bytes on the wire, with the layer-2 header and any configured overhead.
    pub wire_bytes: u32,
    /// Segments inside: 1, or more for a super-packet (one mark on it is a mark on every segment).
    pub segments: u16,
    /// The codepoint it came with.
    pub ecn_in: Ecn,
    /// The codepoint it will leave with.
    pub ecn: Ecn,
    /// The cycle of its flow in which it arrived; signals that it gets are booked there.
    pub cycle: CycleId,
    /// The queue that its flow has earned.
    pub choice: QueueChoice,
    /// What the edge of the network says it is worth (Per Packet Value), for core-stateless AQMs: 1 to 65535, the more
    /// the later it is marked or dropped; 0 if it was not valued. 16 bits, as such values travel in headers.
    pub value: u16,
    /// Its source and destination hosts, for disciplines that share by host. Dense small numbers, 0 if not
    /// distinguished.
    pub hosts: [u16; 2],
    /// When it arrived at the queue.
    pub arrived: Time,
}

impl Packet {
    /// A one-segment packet of `wire_bytes` that arrives at `arrived`, Not-ECT, in the standard queue, without a
    /// value and with its hosts not distinguished.
    pub fn new(id: u64, flow: FlowId, wire_bytes: u32, arrived: Time) -> Self {
        Self {
            id,
            handle: id,
            flow,
            wire_bytes,
            segments: 1,
            ecn_in: Ecn::NotEct,
            ecn: Ecn::NotEct,
            cycle: CycleId(0),
            choice: QueueChoice::Standard,
            value: 0,
            hosts: [0; 2],
            arrived,
        }
    }

    /// The same packet as it comes from a sender that uses `ecn`.
    #[must_use]
    pub fn with_ecn(self, ecn: Ecn) -> Self {
        Self { ecn_in: ecn, ecn, ..self }
    }
}
