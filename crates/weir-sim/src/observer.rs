//! What may be seen of a simulated network, and what an observer may decide: the queue that a packet's flow has earned.

use weir_cc::EcnUse;
use weir_core::{Duration, Ecn, Event, FlowId, Packet, Time};

use crate::hop::HopId;
use crate::workload::WorkloadId;

/// Which way a packet goes over a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Way {
    /// In the direction of the link.
    #[default]
    Forward,
    /// Against it.
    Back,
}

/// What is in a packet that passes a link, as a parser would read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// The flow.
    pub flow: FlowId,
    /// The link.
    pub link: HopId,
    /// Which way it goes over it.
    pub way: Way,
    /// Bytes of the stream, of the end that sends it, before those that it carries.
    pub offset: u64,
    /// Payload bytes; 0 for an acknowledgement alone.
    pub payload: u32,
    /// Bytes of the other end's stream before the first that is missing there.
    pub acknowledged: u64,
    /// Bytes on the wire, without the link's overhead.
    pub wire_bytes: u32,
    /// Segments, of a super-packet more than one.
    pub segments: u16,
    /// The codepoint that it comes with.
    pub ecn: Ecn,
    /// When it was sent, by the clock of its sender: TCP's timestamp value.
    pub sent: Time,
    /// When the packet was sent whose timestamp it echoes (RFC 7323). Of acknowledgements, and of data of a flow that
    /// meets more than one queue and constant delays, only if [`Observer::watches_headers`].
    pub echoed: Time,
    /// QUIC's spin bit.
    pub spin: bool,
    /// The sender has answered an ECN echo (TCP's CWR).
    pub reduced: bool,
    /// An acknowledgement's ECN echo (TCP's ECE).
    pub echo: bool,
    /// Packets with CE that the sender of an acknowledgement has received (accurate ECN, QUIC's counts).
    pub marks: u64,
    /// An acknowledgement's SACK blocks in bytes of the stream, empty ones at the end (RFC 2018), after a duplicate if
    /// there is one (RFC 2883). Only if [`Observer::watches_headers`].
    pub blocks: [(u64, u64); 3],
}

/// A connection that opens: before its first packet, and again each time that a workload uses its ports once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The flow.
    pub flow: FlowId,
    /// The workload that it works for, if it works for one.
    pub workload: Option<WorkloadId>,
    /// The time.
    pub now: Time,
    /// When its first data is at its first link.
    pub data: Time,
    /// From the first link to the sender and back.
    pub around: Duration,
    /// From the last link to the receiver and back.
    pub behind: Duration,
    /// How it takes part in ECN; datagrams: [`EcnUse::Off`].
    pub ecn: EcnUse,
    /// Bytes that earlier connections on its ports have carried: its own count on from there.
    pub offset: u64,
}

/// Watches a network, and may judge what arrives.
pub trait Observer {
    /// Something happened to a packet in the queue of `hop`.
    fn event(&mut self, _hop: HopId, _event: &Event) {}

    /// A packet is about to be queued at `hop`. What is set in [`Packet::choice`] and [`Packet::cycle`] stays with it.
    fn arriving(&mut self, _hop: HopId, _packet: &mut Packet, _carried: &Carried) {}

    /// Whether [`arriving`](Self::arriving) and [`returning`](Self::returning) are wanted; it costs an event for each
    /// acknowledgement.
    fn watches_return(&self) -> bool {
        false
    }

    /// A connection opens.
    fn opening(&mut self, _opening: &Opening) {}

    /// Whether it wants to know all that is in a header, to write it down. Asked when a flow is added.
    fn watches_headers(&self) -> bool {
        false
    }

    /// A packet goes back over a link where there is no queue in that direction: at the moment at which it would have
    /// come to one.
    fn returning(&mut self, _carried: &Carried, _now: Time) {}

    /// A packet has left `hop` altogether.
    fn departed(&mut self, _hop: HopId, _packet: &Packet, _now: Time) {}

    /// The packet of `flow` that was reported last, by [`departed`](Self::departed) or [`returning`](Self::returning),
    /// is lost behind that link.
    fn lost(&mut self, _flow: FlowId, _now: Time) {}
}

impl Observer for () {}
