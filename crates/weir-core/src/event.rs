//! What a queue says it did. Statistics, metrics, traces, captures and the law's congestion signals all come from this
//! one stream.

use serde::Serialize;

use crate::{Duration, Packet, Time};

/// Which queue of a discipline an event is about. A single queue is 0; CRQ's are its `QueueChoice`: standard 0,
/// responsive 1, ECN-responsive 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct QueueId(pub u8);

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// The queue was at its limit (tail drop).
    Overflow,
    /// The queue was over its limit, and the packet was taken out of it to make room.
    Evicted,
    /// The AQM's control law chose it as it waited or left.
    Aqm,
    /// The AQM's control law refused it on arrival (the "early drop" of RED and PIE).
    Early,
    /// It was refused on arrival, whatever the queue was like, to see whether its flow answers.
    Challenge,
}

impl DropReason {
    /// Whether the packet never was in the queue: its `Drop` follows no `Enqueue`.
    pub const fn on_arrival(self) -> bool {
        match self {
            Self::Overflow | Self::Early | Self::Challenge => true,
            Self::Evicted | Self::Aqm => false,
        }
    }
}

/// Why a packet was marked CE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkReason {
    /// The AQM's control law chose it.
    Aqm,
    /// It met a queue above the shallow marking threshold (`ce_threshold`, `step_thresh`).
    CeThreshold,
    /// Whatever the queue was like, to see whether its flow answers.
    Challenge,
}

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// It was taken into the queue.
    Enqueue,
    /// It left the queue for the link.
    Dequeue,
    /// It will go no further. The world frees its bytes.
    Drop(DropReason),
    /// The queue marked it CE. Comes after the packet's `Enqueue` and before its `Dequeue`, also where marking is on
    /// arrival. As in the kernel's counters, a packet that came with CE can be marked too: its `ecn_in` shows that.
    Mark(MarkReason),
}

/// How much a queue holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Backlog {
    /// Packets waiting.
    pub packets: u32,
    /// Their wire bytes.
    pub bytes: u64,
}

/// One thing that happened to one packet in one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub time: Time,
    /// What.
    pub kind: EventKind,
    /// To which packet, as it is after the event.
    pub packet: Packet,
    /// In which queue.
    pub queue: QueueId,
    /// How long the packet had been in the queue; zero on arrival.
    pub sojourn: Duration,
    /// What the queue holds after the event.
    pub backlog: Backlog,
}

/// Takes events as they happen. Called on the packet path: implementors neither block nor allocate per packet.
pub trait EventSink {
    /// Takes one event.
    fn event(&mut self, event: &Event);
}

impl EventSink for () {
    fn event(&mut self, _: &Event) {}
}

impl EventSink for Vec<Event> {
    fn event(&mut self, event: &Event) {
        self.push(*event);
    }
}

/// Hands each event to one sink, then to the other.
#[derive(Debug)]
pub struct Fanout<'a, A: ?Sized, B: ?Sized>(pub &'a mut A, pub &'a mut B);

impl<A: EventSink + ?Sized, B: EventSink + ?Sized> EventSink for Fanout<'_, A, B> {
    fn event(&mut self, event: &Event) {
        self.0.event(event);
        self.1.event(event);
    }
}
