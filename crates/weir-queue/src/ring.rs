//! The packet store that every discipline here is built on: a first-in first-out ring with a limit, which counts its
//! wire bytes and reports arrivals, departures and overflows. The kernel's counterpart is `struct qdisc_skb_head` with
//! `qstats.backlog` (`include/net/sch_generic.h`); unlike there, the limit is part of the ring, and the ring stamps the
//! arrival time itself.

use std::collections::VecDeque;

use weir_core::{
    Backlog, DropReason, Duration, Ecn, Event, EventKind, EventSink, MarkReason, Packet, QueueId, Time,
};

/// Packets for which a ring makes room at once; a longer ring grows by doubling while it fills for the first time.
const RESERVED: usize = 16_384;

/// How much a queue may hold, in the unit it counts. Configurations give it as a `Limit` of `weirnet-qdisc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// Packets, of whatever length (`pfifo`, `codel`: refused when the queue already holds that many).
    Packets(u32),
    /// Wire bytes (`bfifo`: refused when the packet would make it more).
    Bytes(u64),
}

/// A bounded FIFO of packets.
#[derive(Clone, Debug)]
pub struct Ring {
    packets: VecDeque<Packet>,
    bytes: u64,
    limit: QueueLimit,
    queue: QueueId,
}

impl Ring {
    /// An empty ring, the only queue of its discipline.
    pub fn new(limit: QueueLimit) -> Self {
        Self::of_queue(QueueId(0), limit)
    }

    /// A ring that is one of several queues of a discipline.
    pub fn of_queue(queue: QueueId, limit: QueueLimit) -> Self {
        let expected = match limit {
            QueueLimit::Packets(packets) => packets as usize,
            // Full-size packets fill a byte limit with few entries; small ones make the ring grow.
            QueueLimit::Bytes(bytes) => usize::try_from(bytes / 1024).unwrap_or(usize::MAX).saturating_add(1),
        };
        Self { packets: VecDeque::with_capacity(expected.min(RESERVED)), bytes: 0, limit, queue }
    }

    /// Takes the packet at the tail or drops it, and says which.
    pub fn offer(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        self.offer_marked(packet, None, now, events);
    }

    /// As [`offer`](Self::offer), and marks the packet if it is taken and `mark` gives a reason.
    pub fn offer_marked(
        &mut self,
        mut packet: Packet,
        mark: Option<MarkReason>,
        now: Time,
        events: &mut dyn EventSink,
    ) {
        packet.arrived = now;
        if !self.accepts(packet.wire_bytes) {
            return self.report(EventKind::Drop(DropReason::Overflow), &packet, now, events);
        }
        self.bytes += u64::from(packet.wire_bytes);
        self.packets.push_back(packet);
        self.report(EventKind::Enqueue, &packet, now, events);
        if let Some(reason) = mark {
            packet.ecn = Ecn::Ce;
            if let Some(tail) = self.packets.back_mut() {
                *tail = packet;
            }
            self.say(EventKind::Mark(reason), &packet, now, Duration::ZERO, self.backlog(), events);
        }
    }

    /// Drops a packet that arrives.
    pub fn refuse(&self, mut packet: Packet, reason: DropReason, now: Time, events: &mut dyn EventSink) {
        packet.arrived = now;
        self.report(EventKind::Drop(reason), &packet, now, events);
    }

    /// Marks a packet that has been taken from the head.
    pub fn mark(&self, packet: &mut Packet, reason: MarkReason, now: Time, events: &mut dyn EventSink) {
        packet.ecn = Ecn::Ce;
        self.report(EventKind::Mark(reason), packet, now, events);
    }

    /// How long the packet at the head has waited; zero for an empty ring.
    pub fn head_age(&self, now: Time) -> Duration {
        self.packets.front().map_or(Duration::ZERO, |head| now.since(head.arrived))
    }

    /// The packet at the head.
    pub fn head(&self) -> Option<&Packet> {
        self.packets.front()
    }

    /// Takes the packet at the head, silently: what becomes of it is for the discipline to say.
    pub fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.wire_bytes);
        Some(packet)
    }

    /// Takes the packet at the head and reports its departure.
    #[inline]
    pub fn depart(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        // Read where it lies: it is not taken apart on its way to the event and out.
        let head = self.packets.front()?;
        self.bytes -= u64::from(head.wire_bytes);
        let backlog = Backlog { packets: self.packets.len() as u32 - 1, bytes: self.bytes };
        self.say(EventKind::Dequeue, head, now, now.since(head.arrived), backlog, events);
        self.packets.pop_front()
    }

    /// What it holds.
    pub fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets.len() as u32, bytes: self.bytes }
    }

    /// Reports what happened to a packet that is no longer (or never was) in the ring.
    pub fn report(&self, kind: EventKind, packet: &Packet, now: Time, events: &mut dyn EventSink) {
        let mut backlog = self.backlog();
        if let EventKind::Mark(_) = kind {
            // A mark comes before the packet's departure, so the queue still holds it.
            backlog.packets += 1;
            backlog.bytes += u64::from(packet.wire_bytes);
        }
        let sojourn = match kind {
            EventKind::Enqueue => Duration::ZERO,
            _ => now.since(packet.arrived),
        };
        self.say(kind, packet, now, sojourn, backlog, events);
    }

    fn say(
        &self,
        kind: EventKind,
        packet: &Packet,
        now: Time,
        sojourn: Duration,
        backlog: Backlog,
        events: &mut dyn EventSink,
    ) {
        events.event(&Event { time: now, kind, packet: *packet, queue: self.queue, sojourn, backlog });
    }

    /// Whether the limit leaves room for a packet.
    pub fn accepts(&self, wire_bytes: u32) -> bool {
        match self.limit {
            QueueLimit::Packets(limit) => self.packets.len() < limit as usize,
            // No packet is empty on a wire. Counting one that claims to be as a byte keeps the ring bounded.
            QueueLimit::Bytes(limit) => {
                self.bytes.saturating_add(u64::from(wire_bytes)) <= limit
                    && (self.packets.len() as u64) < limit
            }
        }
    }
}
