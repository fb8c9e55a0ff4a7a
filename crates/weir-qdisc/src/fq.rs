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
mod tests {
    use super::{Fq, FqConfig};
    use crate::Qdisc;
    use weir_core::{DropReason, Duration, Ecn, Event, EventKind, FlowId, MarkReason, Packet, Seed, Time};

    fn fq(config: FqConfig) -> Fq {
        Fq::new(config, Seed::default().stream("fq"))
    }

    fn offer(queue: &mut Fq, flow: u32, packets: u32, now: Time) -> Vec<Event> {
        let mut events = Vec::new();
        for _ in 0..packets {
            let packet = Packet::new(0, FlowId(flow), 1514, now).with_ecn(Ecn::Ect0);
            queue.enqueue(packet, now, &mut events);
        }
        events
    }

    /// The flows of the departures until the queue is empty, with how many packets in a row.
    fn drain(queue: &mut Fq, now: Time) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        while let Some(packet) = queue.dequeue(now, &mut ()) {
            match runs.last_mut() {
                Some((flow, packets)) if *flow == packet.flow.0 => *packets += 1,
                _ => runs.push((packet.flow.0, 1)),
            }
        }
        runs
    }

    #[test]
    fn flows_begin_with_ten_packets_and_go_on_with_two() {
        let mut queue = fq(FqConfig::default());
        // Eight take the fast path, whoever they are; then there are flows.
        offer(&mut queue, 9, 8, Time::ZERO);
        offer(&mut queue, 1, 15, Time::ZERO);
        offer(&mut queue, 2, 14, Time::ZERO);
        // 15140 bytes are ten packets exactly; 3028 are two.
        assert_eq!(
            drain(&mut queue, Time::ZERO),
            [(9, 8), (1, 10), (2, 10), (1, 2), (2, 2), (1, 2), (2, 2), (1, 1)]
        );
    }

    #[test]
    fn credit_is_refilled_after_a_rest_longer_than_the_delay() {
        for (rest, packets) in [(40_000_000, 1), (40_000_001, 2)] {
            let mut queue = fq(FqConfig { initial_quantum: 1515, ..FqConfig::default() });
            offer(&mut queue, 9, 8, Time::ZERO);
            // One packet leaves one byte of credit.
            offer(&mut queue, 1, 1, Time::ZERO);
            drain(&mut queue, Time::ZERO);
            let later = Time::from_nanos(rest);
            offer(&mut queue, 9, 8, later);
            offer(&mut queue, 1, 4, later);
            offer(&mut queue, 2, 4, later);
            let runs = drain(&mut queue, later);
            assert_eq!(runs[1], (1, packets), "{rest}");
            assert_eq!(runs[2], (2, 2));
        }
    }

    #[test]
    fn the_fast_path_is_closed_while_a_flow_has_a_backlog() {
        let mut queue = fq(FqConfig::default());
        offer(&mut queue, 1, 9, Time::ZERO);
        for _ in 0..8 {
            queue.dequeue(Time::ZERO, &mut ());
        }
        // The ninth packet waits in its flow's queue: a tenth before it would overtake.
        offer(&mut queue, 1, 1, Time::ZERO);
        assert_eq!((queue.fast_path.backlog().packets, queue.active), (0, 1));
        drain(&mut queue, Time::ZERO);
        offer(&mut queue, 1, 1, Time::ZERO);
        assert_eq!((queue.fast_path.backlog().packets, queue.active), (1, 0));
    }

    #[test]
    fn before_linux_6_7_each_packet_waits_with_those_of_its_flow() {
        let mut queue = fq(FqConfig { flow_limit: 2, fast_path: false, ..FqConfig::default() });
        for flow in [1, 2, 1, 2, 1, 2] {
            offer(&mut queue, flow, 1, Time::ZERO);
        }
        assert_eq!(drain(&mut queue, Time::ZERO), [(1, 2), (2, 2)]);
        // With it, a limit of two lets eight packets of both and two more of each in.
        let mut queue = fq(FqConfig { flow_limit: 2, ..FqConfig::default() });
        for _ in 0..9 {
            offer(&mut queue, 1, 1, Time::ZERO);
            offer(&mut queue, 2, 1, Time::ZERO);
        }
        assert_eq!(queue.backlog().packets, 8 + 2 + 2);
    }

    #[test]
    fn limits_hold_for_a_flow_and_for_all() {
        let overflows = |events: Vec<Event>| {
            events.iter().filter(|event| event.kind == EventKind::Drop(DropReason::Overflow)).count()
        };
        let mut queue = fq(FqConfig { limit: 150, ..FqConfig::default() });
        assert_eq!(overflows(offer(&mut queue, 1, 8 + 100 + 3, Time::ZERO)), 3);
        assert_eq!(overflows(offer(&mut queue, 2, 50 + 4, Time::ZERO)), 4);
        assert_eq!(queue.backlog().packets, 158);
    }

    #[test]
    fn packets_beyond_the_threshold_are_marked() {
        let mut queue = fq(FqConfig { ce_threshold: Some(Duration::from_millis(1)), ..FqConfig::default() });
        offer(&mut queue, 1, 10, Time::ZERO);
        let mut events: Vec<Event> = Vec::new();
        for _ in 0..9 {
            queue.dequeue(Time::from_nanos(1_000_000), &mut events);
        }
        assert_eq!(queue.dequeue(Time::from_nanos(1_000_001), &mut events).unwrap().ecn, Ecn::Ce);
        let marks = events.iter().filter(|event| event.kind == EventKind::Mark(MarkReason::CeThreshold));
        assert_eq!(marks.count(), 1);
    }

    #[test]
    fn a_flow_that_is_never_found_empty_is_not_new_for_ever() {
        let mut queue = fq(FqConfig::default());
        offer(&mut queue, 9, 8, Time::ZERO);
        offer(&mut queue, 1, 60, Time::ZERO);
        for _ in 0..8 + 10 {
            queue.dequeue(Time::ZERO, &mut ());
        }
        // One packet of the same flow each time the link is free.
        let old = (0..40).filter(|_| {
            offer(&mut queue, 2, 1, Time::ZERO);
            queue.dequeue(Time::ZERO, &mut ()).unwrap().flow == FlowId(1)
        });
        // Ten for its initial credit; of the 30 that follow, two each in turn.
        assert!((14..=16).contains(&old.count()));
    }
}
