//! FQ-CoDel: a CoDel queue for each flow, served by deficit round robin in which new flows go first. Sources: the
//! kernel's `net/sched/sch_fq_codel.c` and, for the law, `include/net/codel_impl.h`; RFC 8290 is the specification.
//!
//! | kernel | here |
//! |---|---|
//! | a hash of the 5-tuple, keyed at boot, scaled to `flows` (`reciprocal_scale`) | a keyed hash of the [`FlowId`](weir_core::FlowId), scaled likewise |
//! | flows of one hash share a queue, its law and its turn | the same |
//! | packets that cannot be dissected share one queue | packets of no flow share one queue |
//! | filters and `skb->priority` may choose the queue | not modelled |
//! | new flow: end of the new list, deficit of one quantum; served while the deficit is above zero | the same |
//! | an empty new flow goes to the old list if that holds a flow, else leaves; an empty old flow leaves | the same |
//! | CoDel a flow; what it takes for the backlog is that of the whole qdisc | the same: a lone standing packet of a flow is dropped while other flows are backlogged |
//! | CoDel as in [`codel`](super::codel), ECN on | the same |
//! | over `limit` packets: from the head of the flow with most bytes, `drop_batch` packets or half its bytes | the same; first of equals |
//! | drops for room add to that flow's `count` | the same |
//! | over `memory_limit` of `truesize` likewise | the same, counted in wire bytes, which are less |
//! | an empty root qdisc is bypassed (`TCQ_F_CAN_BYPASS`) | never bypassed |
//! | one decision a super-packet | the same |
//!
//! RFC 8290 differs as [`codel`](super::codel) differs from RFC 8289, and in that it drops single packets from the
//! fattest flow and names the batch as an option (section 4.1.2).

mod keys;

pub use keys::FqCodelKeys;

use weir_core::{Backlog, DropReason, Duration, EventKind, EventSink, Packet, Random, Time};

use crate::codel::law::{ControlLaw, Params, Source};
use crate::{CeThreshold, CodelConfig, KernelVariant, Qdisc, QueueLimit};
use weir_queue::FlowHash;
use weir_queue::Rounds;
use weir_queue::{Fifo, Store};

/// Parameters of [`FqCodel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodelConfig {
    /// Packets in all queues together (kernel default 10240).
    pub limit: u32,
    /// Queues that flows are hashed into, 1 to 65536 (kernel default 1024).
    pub flows: u32,
    /// Wire bytes that a flow may send in a round: 256 and more (kernel default 1514, the MTU with its header).
    pub quantum: u32,
    /// Acceptable standing sojourn time, as [`CodelConfig::target`] (kernel default 5 ms).
    pub target: Duration,
    /// As [`CodelConfig::interval`] (kernel default 100 ms).
    pub interval: Duration,
    /// Mark packets of ECN-capable senders where others are dropped (kernel default on).
    pub ecn: bool,
    /// The shallow marking threshold; none by default.
    pub ce_threshold: Option<CeThreshold>,
    /// Wire bytes in all queues together (kernel default 32 MiB of buffers).
    pub memory_limit: u64,
    /// Packets dropped at most for each packet that is one too many (kernel default 64).
    pub drop_batch: u32,
    /// Nothing is dropped by the law while the whole backlog is at most this many wire bytes (1514 on Ethernet).
    pub mtu: u32,
    /// Which kernel's CoDel to follow.
    pub kernel: KernelVariant,
}

impl Default for FqCodelConfig {
    /// The kernel's defaults (`fq_codel_init`) on Ethernet.
    fn default() -> Self {
        let codel = CodelConfig::default();
        Self {
            limit: 10 * 1024,
            flows: 1024,
            quantum: codel.mtu,
            target: codel.target,
            interval: codel.interval,
            ecn: true,
            ce_threshold: None,
            memory_limit: 32 << 20,
            drop_batch: 64,
            mtu: codel.mtu,
            kernel: codel.kernel,
        }
    }
}

impl FqCodelConfig {
    fn codel(&self) -> CodelConfig {
        CodelConfig {
            target: self.target,
            interval: self.interval,
            limit: QueueLimit::Packets(self.limit),
            ecn: self.ecn,
            ce_threshold: self.ce_threshold,
            mtu: self.mtu,
            kernel: self.kernel,
        }
    }
}

/// The least quantum that the kernel takes.
const MIN_QUANTUM: u32 = 256;

#[derive(Clone, Debug, Default)]
struct Flow {
    queue: Fifo,
    law: ControlLaw,
}

/// A CoDel queue a flow.
#[derive(Clone, Debug)]
pub struct FqCodel {
    store: Store,
    flows: Vec<Flow>,
    rounds: Rounds,
    hash: FlowHash,
    params: Params,
    limit: u32,
    memory_limit: u64,
    drop_batch: u32,
}

/// One flow's queue as its law sees it, with the backlog of all.
struct Watched<'a> {
    store: &'a mut Store,
    queue: &'a mut Fifo,
}

impl Source for Watched<'_> {
    fn head(&self) -> Option<&Packet> {
        self.store.head(self.queue)
    }

    fn pop(&mut self) -> Option<Packet> {
        self.store.pop(self.queue)
    }

    fn backlog_bytes(&self) -> u64 {
        self.store.backlog().bytes
    }

    fn report(&self, kind: EventKind, packet: &Packet, now: Time, events: &mut dyn EventSink) {
        self.store.report(kind, packet, now, events);
    }
}

impl FqCodel {
    /// Empty queues; `random` gives the key of the hash.
    pub fn new(config: FqCodelConfig, mut random: Random) -> Self {
        let flows = config.flows.max(1) as usize;
        Self {
            store: Store::new(config.limit as usize + 1),
            flows: vec![Flow::default(); flows],
            rounds: Rounds::new(flows, config.quantum.max(MIN_QUANTUM)),
            hash: FlowHash::new(&mut random),
            params: Params::new(&config.codel()),
            limit: config.limit,
            memory_limit: config.memory_limit,
            drop_batch: config.drop_batch.max(1),
        }
    }

    /// Drops from the head of the flow with most bytes: half of them, in at most a batch of packets.
    fn make_room(&mut self, now: Time, events: &mut dyn EventSink) {
        // Backwards, because the last of equals wins a `max_by_key`.
        let Some(fattest) = self.flows.iter_mut().rev().max_by_key(|flow| {
            let Backlog { packets, bytes } = flow.queue.backlog();
            (bytes, packets)
        }) else {
            return;
        };
        let half = fattest.queue.backlog().bytes / 2;
        let (mut dropped, mut drops) = (0, 0);
        while let Some(packet) = self.store.pop(&mut fattest.queue) {
            self.store.report(EventKind::Drop(DropReason::Evicted), &packet, now, events);
            dropped += u64::from(packet.wire_bytes);
            drops += 1;
            if drops == self.drop_batch || dropped >= half {
                break;
            }
        }
        fattest.law.count_drops(drops);
    }
}

impl Qdisc for FqCodel {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        let index = self.hash.queue(packet.flow, self.flows.len() as u32);
        self.store.push(&mut self.flows[index].queue, packet, now, events);
        self.rounds.arrived(index);
        let backlog = self.store.backlog();
        if backlog.packets > self.limit || backlog.bytes > self.memory_limit {
            self.make_room(now, events);
        }
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        loop {
            let index = self.rounds.next()?;
            let Flow { queue, law } = &mut self.flows[index];
            let mut source = Watched { store: &mut self.store, queue };
            match law.dequeue(&self.params, &mut source, now, events) {
                Some(packet) => {
                    self.rounds.sent(index, packet.wire_bytes);
                    return Some(packet);
                }
                None => self.rounds.found_empty(index),
            }
        }
    }

    fn backlog(&self) -> Backlog {
        self.store.backlog()
    }
}

#[cfg(test)]
mod tests;
