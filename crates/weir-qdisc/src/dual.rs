//! The two queues of a coupled dual-queue AQM under one limit: Classic (0) and L4S (1). RFC 9332 section 2.4: the
//! buffer is shared, so that neither queue can be starved of memory by a fixed division.

use weir_core::{Backlog, DropReason, EventSink, Packet, QueueId, Time};

use crate::pi2::Scalable;
use weir_queue::{QueueLimit, Ring};

/// The names of the queues, in the order of their ids.
pub(crate) const NAMES: &[&str] = &["classic", "l4s"];

#[derive(Clone, Debug)]
pub(crate) struct Dual {
    pub(crate) classic: Ring,
    pub(crate) l4s: Ring,
    limit: QueueLimit,
    scalable: Scalable,
}

impl Dual {
    pub(crate) fn new(limit: QueueLimit, scalable: Scalable) -> Self {
        Self {
            classic: Ring::of_queue(QueueId(0), limit),
            l4s: Ring::of_queue(QueueId(1), limit),
            limit,
            scalable,
        }
    }

    /// Whether a packet belongs into the L4S queue, by the codepoint it came with.
    pub(crate) const fn is_l4s(&self, packet: &Packet) -> bool {
        self.scalable.is(packet.ecn_in)
    }

    pub(crate) fn ring(&self, is_l4s: bool) -> &Ring {
        if is_l4s { &self.l4s } else { &self.classic }
    }

    pub(crate) fn ring_mut(&mut self, is_l4s: bool) -> &mut Ring {
        if is_l4s { &mut self.l4s } else { &mut self.classic }
    }

    /// Whether both queues together leave room for a packet.
    pub(crate) fn accepts(&self, wire_bytes: u32) -> bool {
        let backlog = self.backlog();
        match self.limit {
            QueueLimit::Packets(limit) => backlog.packets < limit,
            // As in a single ring, a packet of no bytes counts as one.
            QueueLimit::Bytes(limit) => {
                backlog.bytes.saturating_add(u64::from(wire_bytes)) <= limit
                    && u64::from(backlog.packets) < limit
            }
        }
    }

    /// Takes the packet at the tail of its queue or drops it, and says which.
    pub(crate) fn offer(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        let is_l4s = self.is_l4s(&packet);
        if self.accepts(packet.wire_bytes) {
            self.ring_mut(is_l4s).offer(packet, now, events);
        } else {
            self.ring(is_l4s).refuse(packet, DropReason::Overflow, now, events);
        }
    }

    pub(crate) fn backlog(&self) -> Backlog {
        let (classic, l4s) = (self.classic.backlog(), self.l4s.backlog());
        Backlog { packets: classic.packets + l4s.packets, bytes: classic.bytes + l4s.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::Dual;
    use crate::pi2::Scalable;
    use weir_core::{DropReason, Ecn, Event, EventKind, FlowId, Packet, QueueId, Time};
    use weir_queue::QueueLimit;

    #[test]
    fn codepoints_choose_the_queue_and_both_share_the_limit() {
        let mut dual = Dual::new(QueueLimit::Bytes(4000), Scalable::Ect1);
        let mut events: Vec<Event> = Vec::new();
        for (id, ecn) in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce, Ecn::Ect1].into_iter().enumerate() {
            let packet = Packet::new(id as u64, FlowId(0), 1000, Time::ZERO).with_ecn(ecn);
            dual.offer(packet, Time::ZERO, &mut events);
        }
        let queues: Vec<_> = events.iter().map(|event| (event.queue, event.kind)).collect();
        let enqueued = |queue| (QueueId(queue), EventKind::Enqueue);
        let dropped = (QueueId(1), EventKind::Drop(DropReason::Overflow));
        assert_eq!(queues, [enqueued(0), enqueued(0), enqueued(1), enqueued(1), dropped]);
        assert_eq!((dual.backlog().packets, dual.l4s.backlog().bytes), (4, 2000));
    }
}
