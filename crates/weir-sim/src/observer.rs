//! What may be seen of a simulated network, and what an observer may decide: the queue that a packet's flow has earned.

use weir_core::{Event, FlowId, Packet, Time};

use crate::hop::HopId;

/// What is in a packet that passes the bottleneck, as a parser would read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The flow.
    pub flow: FlowId,
    /// The sender's end of the bytes of the stream that it carries; for an acknowledgement, of what it acknowledges.
    pub offset: u64,
    /// Payload bytes; 0 for an acknowledgement.
    pub payload: u32,
    /// When it was sent, by the clock of its sender: TCP's timestamp value.
    pub sent: Time,
    /// When the newest packet was sent that its sender had received: TCP's timestamp echo.
    pub echoed: Time,
    /// QUIC's spin bit.
    pub spin: bool,
}

/// Watches a network, and may judge what arrives.
pub trait Observer {
    /// Something happened to a packet in the queue of `hop`.
    fn event(&mut self, _hop: HopId, _event: &Event) {}

    /// A packet is about to be queued at `hop`. What is set in [`Packet::choice`] and [`Packet::cycle`] stays with it.
    fn arriving(&mut self, _hop: HopId, _packet: &mut Packet, _carried: &Carried) {}

    /// Whether [`returning`](Self::returning) is wanted; it costs an event for each acknowledgement.
    fn watches_return(&self) -> bool {
        false
    }

    /// An acknowledgement passes the bottleneck on its way back.
    fn returning(&mut self, _carried: &Carried, _now: Time) {}

    /// A packet has left `hop` altogether.
    fn departed(&mut self, _hop: HopId, _packet: &Packet, _now: Time) {}
}

impl Observer for () {}
