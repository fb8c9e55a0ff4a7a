//! FQ: fair queuing of flows with credits, without an AQM. Source: the kernel's `net/sched/sch_fq.c`, which was made to
//! pace what a host sends; here it is what it does to packets that it forwards, which carry no departure time.
//!
//! | kernel | here |
//! |---|---|
//! | a queue for each local socket; forwarded packets by 5-tuple hash and `orphan_mask` (1023) | all by a keyed hash of the [`FlowId`](weir_core::FlowId) into `flows` queues, 1024 |
//! | `buckets`: search trees in which flows are looked up | none needed: a hash is a queue |
//! | flows idle for 3 s may be forgotten, and so get `initial_quantum` once more | never forgotten |
//! | departure times (EDT, `SO_TXTIME`), pacing rates, `maxrate`, `horizon`, `offload_horizon` | left out: every packet may go at once |
//! | new flows first; credit above zero lets a flow send, and is renewed by `quantum` at the end of a turn | the same |
//! | a flow begins with `initial_quantum`; after `refill_delay` of rest it has at least `quantum` | the same; times in ns, not jiffies |
//! | an empty new flow always passes through the old flows | the same |
//! | fast path: packets that find no flow with a backlog, and fewer than 8 of their kind, are queued in front, free of credit (since Linux 6.7) | the same, unless `fast_path` is off |
//! | `limit` for each of three priority bands, not counting the fast path; `flow_plimit` a flow | one band: the packet model has no priority, and its weight is without effect |
//! | `ce_threshold`: marks what waited longer since it was due; not on the fast path | the same, ECN-capable packets only are counted |
//! | drops arriving packets only | the same |

mod keys;

pub use keys::FqKeys;

use weir_core::{Backlog, DropReason, Duration, Ecn, EventKind, EventSink, MarkReason, Packet, Random, Time};

use crate::Qdisc;
use weir_queue::FlowHash;
use weir_queue::{Fifo, Store};
use weir_queue::{Links, List};

/// Packets that the fast path holds before packets are distinguished by flow (`fq_fastpath_check`).
const FAST_PATH: u32 = 8;

/// Parameters of [`Fq`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqConfig {
    /// Packets in all flows' queues together (kernel default 10000).
    pub limit: u32,
    /// Packets in one flow's queue (kernel default 100).
    pub flow_limit: u32,
    /// Wire bytes of credit for each turn (kernel default two MTUs with header: 3028). At least one byte is taken.
    pub quantum: u32,
    /// Wire bytes of credit with which a flow begins (kernel default ten MTUs with header: 15140).
    pub initial_quantum: u32,
    /// After how long a rest a flow has at least one quantum of credit again (kernel default 40 ms).
    pub refill_delay: Duration,
    /// Queues that flows are hashed into (1024 in the kernel for forwarded packets).
    pub flows: u32,
    /// Marks packets that waited longer; none by default (4294 s in the kernel).
    pub ce_threshold: Option<Duration>,
    /// Up to eight packets, of whatever flow, share a queue in front while no flow has a backlog. Linux before 6.7 has
    /// no such path.
    pub fast_path: bool,
}

impl Default for FqConfig {
    /// The kernel's defaults (`fq_init`) on Ethernet.
    fn default() -> Self {
        Self {
            limit: 10_000,
            flow_limit: 100,
            quantum: 2 * weir_core::FULL_PACKET,
            initial_quantum: 10 * weir_core::FULL_PACKET,
            refill_delay: Duration::from_millis(40),
            flows: 1024,
            ce_threshold: None,
            fast_path: true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In no list, since then.
    Detached(Time),
    New,
    Old,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    queue: Fifo,
    /// Wire bytes that it may still send.
    credit: i64,
    place: Place,
}

/// Fair queuing with credits.
#[derive(Clone, Debug)]
pub struct Fq {
    store: Store,
    flows: Vec<Flow>,
    fast_path: Fifo,
    links: Links,
    new: List,
    old: List,
    /// Flows with a backlog.
    active: u32,
    hash: FlowHash,
    config: FqConfig,
    quantum: i64,
}

impl Fq {
    /// Empty queues; `random` gives the key of the hash.
    pub fn new(config: FqConfig, mut random: Random) -> Self {
        let flows = config.flows.max(1) as usize;
        let flow = Flow {
            queue: Fifo::default(),
            credit: i64::from(config.initial_quantum),
            place: Place::Detached(Time::ZERO),
        };
        Self {
            store: Store::new(config.limit as usize + FAST_PATH as usize),
            flows: vec![flow; flows],
            fast_path: Fifo::default(),
            links: Links::new(flows),
            new: List::default(),
            old: List::default(),
            active: 0,
            hash: FlowHash::new(&mut random),
            config,
            quantum: i64::from(config.quantum.max(1)),
        }
    }

    fn queue_in_turn(&mut self, mut packet: Packet, now: Time, events: &mut dyn EventSink) {
        let index = self.hash.queue(packet.flow, self.flows.len() as u32);
        let flow = &mut self.flows[index];
        if flow.queue.backlog().packets >= self.config.flow_limit {
            packet.arrived = now;
            return self.store.report(EventKind::Drop(DropReason::Overflow), &packet, now, events);
        }
        if let Place::Detached(since) = flow.place {
            self.links.append(&mut self.new, index);
            flow.place = Place::New;
            if now.since(since) > self.config.refill_delay {
                flow.credit = flow.credit.max(self.quantum);
            }
        }
        self.active += u32::from(flow.queue.is_empty());
        self.store.push(&mut flow.queue, packet, now, events);
    }

    /// The flow that sends next.
    fn turn(&mut self, now: Time) -> Option<usize> {
        loop {
            let index = self.new.first().or(self.old.first())?;
            let list = if self.new.is_empty() { &mut self.old } else { &mut self.new };
            let flow = &mut self.flows[index];
            if flow.credit > 0 && !flow.queue.is_empty() {
                return Some(index);
            }
            self.links.remove(list, index);
            if flow.credit <= 0 {
                flow.credit += self.quantum;
            } else if flow.place == Place::Old {
                flow.place = Place::Detached(now);
                continue;
            }
            flow.place = Place::Old;
            self.links.append(&mut self.old, index);
        }
    }
}

impl Qdisc for Fq {
    fn enqueue(&mut self, mut packet: Packet, now: Time, events: &mut dyn EventSink) {
        let held = self.store.backlog().packets;
        let fast = self.fast_path.backlog().packets;
        if held - fast >= self.config.limit {
            packet.arrived = now;
            self.store.report(EventKind::Drop(DropReason::Overflow), &packet, now, events);
        } else if self.config.fast_path && (held == 0 || (self.active == 0 && fast < FAST_PATH)) {
            self.store.push(&mut self.fast_path, packet, now, events);
        } else {
            self.queue_in_turn(packet, now, events);
        }
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        if let Some(packet) = self.store.pop(&mut self.fast_path) {
            self.store.report(EventKind::Dequeue, &packet, now, events);
            return Some(packet);
        }
        let index = self.turn(now)?;
        let flow = &mut self.flows[index];
        let mut packet = self.store.pop(&mut flow.queue)?;
        flow.credit -= i64::from(packet.wire_bytes);
        self.active -= u32::from(flow.queue.is_empty());
        if self.config.ce_threshold.is_some_and(|above| now.since(packet.arrived) > above)
            && packet.ecn.is_capable()
        {
            packet.ecn = Ecn::Ce;
            self.store.report(EventKind::Mark(MarkReason::CeThreshold), &packet, now, events);
        }
        self.store.report(EventKind::Dequeue, &packet, now, events);
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.store.backlog()
    }
}

#[cfg(test)]
mod tests;
