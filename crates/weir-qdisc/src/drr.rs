//! DRR, deficit round robin: a queue for each flow, served in turns that let each flow send a quantum of bytes a round.
//! Sources: M. Shreedhar and G. Varghese, "Efficient Fair Queuing Using Deficit Round Robin", IEEE/ACM Transactions on
//! Networking 4(3), 1996; the kernel's `net/sched/sch_drr.c`, whose rule of deficits is followed.
//!
//! | kernel | here |
//! |---|---|
//! | classes made by hand, packets put into them by filters | `flows` queues by a keyed hash, as with the `flow` filter and a divisor |
//! | each class has a qdisc of its own, `pfifo` by default | each flow has a drop-tail queue of `limit` packets |
//! | a quantum for each class, the MTU with header by default | one quantum for all, the same |
//! | a class that becomes active joins the end with a deficit of one quantum | the same |
//! | the head packet is sent if it is no longer than the deficit, else the deficit grows and the turn ends | the same |
//! | a class that runs empty leaves; its deficit is forgotten | the same |
//! | a packet that no filter takes is dropped | packets of no flow share one queue |
//!
//! The paper steals buffers of the longest queue when memory runs out; here, as in the kernel, each queue is bounded on
//! its own, so flows take no room from each other.

mod keys;

pub use keys::DrrKeys;

use weir_core::{Backlog, DropReason, EventKind, EventSink, Packet, Random, Time};

use crate::Qdisc;
use weir_queue::FlowHash;
use weir_queue::{Fifo, Store};
use weir_queue::{Links, List};

/// Parameters of [`Drr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrrConfig {
    /// Wire bytes that a flow may send in a round (kernel default 1514, the MTU with its header). At least one byte is
    /// taken. Below the longest packet, rounds are needed to save up for it.
    pub quantum: u32,
    /// Packets that one flow may have queued (default 1000, a `pfifo` on an Ethernet device).
    pub limit: u32,
    /// Queues that flows are hashed into (default 1024).
    pub flows: u32,
}

impl Default for DrrConfig {
    fn default() -> Self {
        Self { quantum: weir_core::FULL_PACKET, limit: 1000, flows: 1024 }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    queue: Fifo,
    deficit: u64,
}

/// Deficit round robin over flows.
#[derive(Clone, Debug)]
pub struct Drr {
    store: Store,
    flows: Vec<Flow>,
    links: Links,
    active: List,
    hash: FlowHash,
    quantum: u64,
    limit: u32,
}

impl Drr {
    /// Empty queues; `random` gives the key of the hash.
    pub fn new(config: DrrConfig, mut random: Random) -> Self {
        let flows = config.flows.max(1) as usize;
        Self {
            store: Store::new(config.limit as usize),
            flows: vec![Flow::default(); flows],
            links: Links::new(flows),
            active: List::default(),
            hash: FlowHash::new(&mut random),
            quantum: u64::from(config.quantum.max(1)),
            limit: config.limit,
        }
    }
}

impl Qdisc for Drr {
    fn enqueue(&mut self, mut packet: Packet, now: Time, events: &mut dyn EventSink) {
        let index = self.hash.queue(packet.flow, self.flows.len() as u32);
        let flow = &mut self.flows[index];
        if flow.queue.backlog().packets >= self.limit {
            packet.arrived = now;
            return self.store.report(EventKind::Drop(DropReason::Overflow), &packet, now, events);
        }
        if flow.queue.is_empty() {
            flow.deficit = self.quantum;
            self.links.append(&mut self.active, index);
        }
        self.store.push(&mut flow.queue, packet, now, events);
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        loop {
            let index = self.active.first()?;
            let flow = &mut self.flows[index];
            let bytes = u64::from(self.store.head(&flow.queue)?.wire_bytes);
            if bytes > flow.deficit {
                flow.deficit += self.quantum;
                self.links.remove(&mut self.active, index);
                self.links.append(&mut self.active, index);
                continue;
            }
            flow.deficit -= bytes;
            let packet = self.store.pop(&mut flow.queue)?;
            if flow.queue.is_empty() {
                self.links.remove(&mut self.active, index);
            }
            self.store.report(EventKind::Dequeue, &packet, now, events);
            return Some(packet);
        }
    }

    fn backlog(&self) -> Backlog {
        self.store.backlog()
    }
}

#[cfg(test)]
mod tests {
    use super::{Drr, DrrConfig};
    use crate::Qdisc;
    use weir_core::{DropReason, Event, EventKind, FlowId, Packet, Seed, Time};

    fn drr(quantum: u32, limit: u32) -> Drr {
        Drr::new(DrrConfig { quantum, limit, flows: 1024 }, Seed::default().stream("drr"))
    }

    fn offer(queue: &mut Drr, packets: &[(u32, u32)]) -> Vec<Event> {
        let mut events = Vec::new();
        for (id, (flow, bytes)) in packets.iter().enumerate() {
            queue.enqueue(Packet::new(id as u64, FlowId(*flow), *bytes, Time::ZERO), Time::ZERO, &mut events);
        }
        events
    }

    fn drain(queue: &mut Drr) -> Vec<u64> {
        std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut ())).map(|packet| packet.id).collect()
    }

    #[test]
    fn what_a_round_leaves_is_saved_for_the_next() {
        // As in the paper's example: quantum 500, the first queue holds 200, 750 and 20 bytes (and here 500 more). The
        // first round sends 200 and keeps 300; the second has 800 and sends 750 and 20.
        let mut queue = drr(500, 10);
        offer(&mut queue, &[(1, 200), (1, 750), (1, 20), (1, 500), (2, 500), (2, 500), (2, 500)]);
        // 30 are left of the second round, so the 500 wait for the third.
        assert_eq!(drain(&mut queue), [0, 4, 1, 2, 5, 3, 6]);
    }

    #[test]
    fn a_flow_that_ran_empty_has_saved_nothing() {
        let mut queue = drr(1000, 10);
        offer(&mut queue, &[(1, 100)]);
        assert_eq!(drain(&mut queue), [0]);
        offer(&mut queue, &[(1, 600), (1, 600), (2, 600)]);
        assert_eq!(drain(&mut queue), [0, 2, 1]);
    }

    #[test]
    fn a_quantum_below_the_packet_saves_up_over_rounds() {
        let mut queue = drr(0, 10);
        offer(&mut queue, &[(1, 1500), (2, 1499)]);
        assert_eq!(drain(&mut queue), [1, 0]);
    }

    #[test]
    fn a_full_flow_takes_no_room_from_others() {
        let mut queue = drr(1514, 2);
        let events = offer(&mut queue, &[(1, 100), (1, 100), (1, 100), (2, 100)]);
        let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
        let overflow = EventKind::Drop(DropReason::Overflow);
        assert_eq!(kinds, [EventKind::Enqueue, EventKind::Enqueue, overflow, EventKind::Enqueue]);
        assert_eq!(events[3].backlog.packets, 3);
    }

    #[test]
    fn flows_that_collide_share_one_turn() {
        let mut queue =
            Drr::new(DrrConfig { quantum: 100, limit: 10, flows: 1 }, Seed::default().stream("drr"));
        offer(&mut queue, &[(1, 100), (1, 100), (2, 100)]);
        assert_eq!(drain(&mut queue), [0, 1, 2]);
    }
}
