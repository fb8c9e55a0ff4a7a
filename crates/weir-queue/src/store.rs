//! Packets of many queues in one slab: the store of disciplines that keep a queue per flow. Like the kernel's
//! `sk_buff` lists (`flow_queue_add` and `dequeue_head` in `net/sched/sch_fq_codel.c`) it links packets into singly
//! linked queues; unlike there, the links live beside the packets, so that a thousand empty queues cost eight bytes
//! each and nothing is allocated once the slab has grown to the largest backlog.

use weir_core::{Backlog, Duration, Ecn, Event, EventKind, EventSink, MarkReason, Packet, QueueId, Time};

/// Packets for which a store makes room at once; a larger backlog makes it grow by doubling, once.
const RESERVED: usize = 16_384;
/// No packet.
const NIL: u32 = u32::MAX;

/// One queue: which packets of the store are its, and how much that is.
#[derive(Clone, Copy, Debug)]
pub struct Fifo {
    head: u32,
    tail: u32,
    backlog: Backlog,
}

impl Default for Fifo {
    fn default() -> Self {
        Self { head: NIL, tail: NIL, backlog: Backlog { packets: 0, bytes: 0 } }
    }
}

impl Fifo {
    /// Whether it has no packet.
    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// What it holds.
    pub fn backlog(&self) -> Backlog {
        self.backlog
    }
}

#[derive(Clone, Debug)]
struct Node {
    packet: Packet,
    /// The next packet of its queue, or the next free node.
    next: u32,
}

/// The packets of all queues of one discipline.
#[derive(Clone, Debug)]
pub struct Store {
    nodes: Vec<Node>,
    free: u32,
    backlog: Backlog,
}

impl Store {
    /// A store that will hold about `packets` at most.
    pub fn new(packets: usize) -> Self {
        Self { nodes: Vec::with_capacity(packets.min(RESERVED)), free: NIL, backlog: Backlog::default() }
    }

    /// What all queues hold together.
    pub fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Puts `packet` at the tail of `queue`, stamps its arrival and reports it.
    pub fn push(&mut self, queue: &mut Fifo, mut packet: Packet, now: Time, events: &mut dyn EventSink) {
        packet.arrived = now;
        let node = Node { packet, next: NIL };
        let index = self.free;
        let index = if let Some(free) = self.nodes.get_mut(index as usize) {
            self.free = std::mem::replace(free, node).next;
            index
        } else {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        };
        match self.nodes.get_mut(queue.tail as usize) {
            Some(tail) => tail.next = index,
            None => queue.head = index,
        }
        queue.tail = index;
        for backlog in [&mut queue.backlog, &mut self.backlog] {
            backlog.packets += 1;
            backlog.bytes += u64::from(packet.wire_bytes);
        }
        self.report(EventKind::Enqueue, &packet, now, events);
    }

    /// Marks the packet that was just put at the tail of `queue`.
    pub fn mark_arrival(&mut self, queue: &Fifo, reason: MarkReason, now: Time, events: &mut dyn EventSink) {
        let Some(Node { packet, .. }) = self.nodes.get_mut(queue.tail as usize) else { return };
        packet.ecn = Ecn::Ce;
        events.event(&Event {
            time: now,
            kind: EventKind::Mark(reason),
            packet: *packet,
            queue: QueueId(0),
            sojourn: Duration::ZERO,
            backlog: self.backlog,
        });
    }

    /// The packet at the head of `queue`.
    pub fn head(&self, queue: &Fifo) -> Option<&Packet> {
        self.nodes.get(queue.head as usize).map(|node| &node.packet)
    }

    /// Takes the packet at the head of `queue`, silently: what becomes of it is for the discipline to say.
    pub fn pop(&mut self, queue: &mut Fifo) -> Option<Packet> {
        let index = queue.head;
        let node = self.nodes.get_mut(index as usize)?;
        let packet = node.packet;
        queue.head = std::mem::replace(&mut node.next, self.free);
        self.free = index;
        if queue.head == NIL {
            queue.tail = NIL;
        }
        for backlog in [&mut queue.backlog, &mut self.backlog] {
            backlog.packets -= 1;
            backlog.bytes -= u64::from(packet.wire_bytes);
        }
        Some(packet)
    }

    /// Reports what happened to a packet that is no longer (or never was) in the store. All queues of a discipline
    /// speak as one: queue 0, with their common backlog.
    pub fn report(&self, kind: EventKind, packet: &Packet, now: Time, events: &mut dyn EventSink) {
        let mut backlog = self.backlog;
        if let EventKind::Mark(_) = kind {
            // The packet is on its way out, and departs after its mark: the queue still holds it.
            backlog.packets += 1;
            backlog.bytes += u64::from(packet.wire_bytes);
        }
        let sojourn = match kind {
            EventKind::Enqueue => Duration::ZERO,
            _ => now.since(packet.arrived),
        };
        events.event(&Event { time: now, kind, packet: *packet, queue: QueueId(0), sojourn, backlog });
    }
}

#[cfg(test)]
mod tests {
    use super::{Fifo, Store};
    use weir_core::{Backlog, FlowId, Packet, Time};

    #[test]
    fn queues_keep_their_own_order_and_share_the_room() {
        let mut store = Store::new(4);
        let mut queues = [Fifo::default(), Fifo::default()];
        let now = Time::from_nanos(7);
        // Three times over, so that nodes are used again in another order.
        for round in 0..3 {
            for id in 0..6 {
                let packet = Packet::new(id, FlowId(0), 100 + id as u32, Time::ZERO);
                store.push(&mut queues[id as usize % 2], packet, now, &mut ());
            }
            assert_eq!(store.backlog(), Backlog { packets: 6, bytes: 615 });
            assert_eq!(queues[1].backlog(), Backlog { packets: 3, bytes: 309 });
            assert_eq!(store.head(&queues[1]).map(|packet| packet.id), Some(1));
            for queue in if round == 1 { [1, 0] } else { [0, 1] } {
                let ids: Vec<_> = std::iter::from_fn(|| store.pop(&mut queues[queue])).collect();
                assert!(ids.iter().map(|packet| packet.id).eq((0..3).map(|id| 2 * id + queue as u64)));
                assert!(ids.iter().all(|packet| packet.arrived == now));
                assert!(queues[queue].is_empty() && store.head(&queues[queue]).is_none());
            }
            assert_eq!(store.backlog(), Backlog::default());
        }
        assert_eq!(store.nodes.len(), 6);
    }
}
