//! FQ-PIE: a PIE queue for each flow, served by deficit round robin in which new flows go first. Source: the kernel's
//! `net/sched/sch_fq_pie.c`, with the controller of [`pie`](crate::pie) in the kernel's integers.
//!
//! | kernel | here |
//! |---|---|
//! | a hash of the 5-tuple, keyed at boot, scaled to `flows` | a keyed hash of the [`FlowId`](weir_core::FlowId), scaled likewise; packets of no flow share one queue |
//! | flows of one hash share a queue, its controller and its turn | the same |
//! | turns as in [`fq_codel`](crate::fq_codel) | the same |
//! | each flow's controller sees its own backlog and its own packets' delay | the same |
//! | the timer moves 2048 controllers at a time, the rest a jiffy later | all at once; controllers at rest are left out |
//! | `tupdate` in jiffies; the first half a second after the queue was made | to the nanosecond; from the start, as in `pie` |
//! | drops on arrival only: by the controller, and at `limit` packets in all queues | the same |
//! | `memory_limit` is counted and drops nothing | left out |
//! | marks while the flow's probability is at most `ecn_prob` (10 %) | the same, 10 % |
//! | delay from departure rates (`dq_rate_estimator`) | timestamps, the kernel's default |
//! | burst allowance of 150 ms | `burst`, the same by default |

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_core::{
    Backlog, Bytes, DropReason, Duration, EventKind, EventSink, MarkReason, Packet, Random, Time,
};

use crate::keys::checked_flows;
use crate::keys::{BuildContext, ConfigError, Keys, Word, join, write_unusual};
use crate::pie::PieKeys;
use crate::pie::kernel::KernelPie;
use crate::pie::{CONTROL_WORDS, Control};
use crate::{Limit, Qdisc};
use weir_queue::FlowHash;
use weir_queue::Rounds;
use weir_queue::Timer;
use weir_queue::{Fifo, Store};

/// Keys of `kind = "fq_pie"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FqPieKeys {
    /// Of all queues together, in packets or BDP (kernel default 10240 packets).
    pub limit: Limit,
    /// Queues that flows are hashed into, 1 to 65536 (kernel default 1024).
    pub flows: u32,
    /// What a flow may send in a round; the link's MTU with header by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantum: Option<Bytes>,
    /// As [`PieKeys::target`].
    pub target: Duration,
    /// As [`PieKeys::tupdate`].
    pub tupdate: Duration,
    /// As [`PieKeys::alpha`].
    pub alpha: f64,
    /// As [`PieKeys::beta`].
    pub beta: f64,
    /// As [`PieKeys::burst`], for each flow.
    pub burst: Duration,
    /// Mark rather than drop where the sender takes part in ECN, while the flow's probability is at most 10 %.
    pub ecn: bool,
    /// As [`PieKeys::bytemode`].
    pub bytemode: bool,
}

impl Default for FqPieKeys {
    /// `fq_pie_init` and `pie_params_init`.
    fn default() -> Self {
        let pie = PieKeys::default();
        Self {
            limit: Limit::Packets(10 * 1024),
            flows: 1024,
            quantum: None,
            target: pie.target,
            tupdate: pie.tupdate,
            alpha: pie.alpha,
            beta: pie.beta,
            burst: pie.burst,
            ecn: pie.ecn,
            bytemode: pie.bytemode,
        }
    }
}

impl FqPieKeys {
    /// Those of each flow's controller.
    pub fn pie(&self) -> PieKeys {
        PieKeys {
            target: self.target,
            tupdate: self.tupdate,
            alpha: self.alpha,
            beta: self.beta,
            burst: self.burst,
            limit: self.limit,
            ecn: self.ecn,
            bytemode: self.bytemode,
            ..PieKeys::default()
        }
    }
}

impl Keys for FqPieKeys {
    const WORDS: &'static [Word] = &join::<3, 8, 11>(
        [Word::value("limit", "10240p"), Word::value("flows", "1024"), Word::value("quantum", "1514b")],
        CONTROL_WORDS,
    );

    fn target(&self, _rtt: Duration) -> Option<Duration> {
        Some(self.target)
    }

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        Ok(Box::new(FqPie::new(self, context)?))
    }

    fn marks(&self) -> bool {
        self.ecn
    }
}

impl fmt::Display for FqPieKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::default();
        self.pie().describe(f, "fq_pie", |f| {
            write_unusual(f, "limit", &self.limit, &usual.limit)?;
            write_unusual(f, "flows", &self.flows, &usual.flows)?;
            self.quantum.map_or(Ok(()), |quantum| write!(f, " quantum {quantum}"))
        })
    }
}

#[derive(Clone, Debug)]
struct Flow {
    queue: Fifo,
    law: KernelPie,
    /// Whether it is among [`FqPie::awake`].
    awake: bool,
}

/// A PIE queue a flow.
#[derive(Clone, Debug)]
struct FqPie {
    store: Store,
    flows: Vec<Flow>,
    rounds: Rounds,
    hash: FlowHash,
    timer: Timer,
    /// Flows whose controllers an update may move.
    awake: Vec<u32>,
    random: Random,
    limit: u32,
    ecn: bool,
}

impl FqPie {
    fn new(keys: &FqPieKeys, context: &BuildContext) -> Result<Self, ConfigError> {
        keys.pie().check()?;
        let (flows, limit) = (checked_flows(keys.flows)?, context.packets("limit", keys.limit, "fq_pie")?);
        let quantum = context.quantum("quantum", keys.quantum, context.mtu, 1)?;
        let mut random = context.seed.stream("fq_pie");
        let flow =
            Flow { queue: Fifo::default(), law: KernelPie::new(&keys.pie(), context.mtu), awake: false };
        Ok(Self {
            store: Store::new(limit as usize),
            flows: vec![flow; flows as usize],
            rounds: Rounds::new(flows as usize, quantum),
            hash: FlowHash::new(&mut random),
            timer: Timer::new(keys.tupdate, keys.tupdate),
            awake: Vec::with_capacity(flows as usize),
            random,
            limit,
            ecn: keys.ecn,
        })
    }

    fn run_timer(&mut self, now: Time) {
        let Self { timer, awake, flows, .. } = self;
        timer.run(now, |_| {
            let mut at_rest = true;
            awake.retain(|index| {
                let Flow { queue, law, awake } = &mut flows[*index as usize];
                let before = law.clone();
                law.update(queue.backlog().bytes);
                let moved = *law != before;
                at_rest &= !moved;
                *awake = moved || !queue.is_empty();
                *awake
            });
            at_rest
        });
    }
}

impl Qdisc for FqPie {
    fn enqueue(&mut self, mut packet: Packet, now: Time, events: &mut dyn EventSink) {
        self.run_timer(now);
        let index = self.hash.queue(packet.flow, self.flows.len() as u32);
        let Flow { queue, law, awake } = &mut self.flows[index];
        if !std::mem::replace(awake, true) {
            self.awake.push(index as u32);
        }
        let full = self.store.backlog().packets >= self.limit;
        let mut mark = false;
        if full || law.drops(queue.backlog().bytes, packet.wire_bytes, &mut self.random) {
            mark = !full && self.ecn && law.may_mark() && packet.ecn.is_capable();
            if !mark {
                law.dropped();
                packet.arrived = now;
                let reason = if full { DropReason::Overflow } else { DropReason::Early };
                return self.store.report(EventKind::Drop(reason), &packet, now, events);
            }
        }
        self.store.push(queue, packet, now, events);
        if mark {
            self.store.mark_arrival(queue, MarkReason::Aqm, now, events);
        }
        self.rounds.arrived(index);
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        self.run_timer(now);
        loop {
            let index = self.rounds.next()?;
            let Flow { queue, law, .. } = &mut self.flows[index];
            let Some(packet) = self.store.pop(queue) else {
                self.rounds.found_empty(index);
                continue;
            };
            self.rounds.sent(index, packet.wire_bytes);
            law.departed(now.since(packet.arrived), now, queue.backlog().bytes, packet.wire_bytes);
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
    use super::{FqPie, FqPieKeys};
    use crate::{BuildContext, Limit, Qdisc};
    use weir_core::{
        DropReason, Duration, Ecn, Event, EventKind, FlowId, MarkReason, Packet, Rate, Seed, Time,
    };

    const LINK: Rate = Rate::from_bits_per_sec(10_000_000);
    const EARLY: EventKind = EventKind::Drop(DropReason::Early);

    fn fq_pie(keys: &FqPieKeys) -> FqPie {
        let link =
            BuildContext { rate: LINK, rtt: Duration::from_millis(100), mtu: 1514, seed: Seed::default() };
        FqPie::new(keys, &link).unwrap()
    }

    /// Sends 10 Mbit/s of flow 1 and 1 Mbit/s of flow 2 over 10 Mbit/s for four seconds.
    fn overload(keys: &FqPieKeys, ecn: Ecn) -> Vec<Event> {
        let (mut queue, mut events) = (fq_pie(keys), Vec::new());
        let (mut free, mut remainder) = (Time::ZERO, 0);
        for id in 0..4000u64 {
            let now = Time::from_nanos(id * 1_000_000);
            while free <= now && queue.backlog().packets > 0 {
                let packet = queue.dequeue(free, &mut events).unwrap();
                free += LINK.serialize(packet.wire_bytes.into(), &mut remainder);
            }
            free = free.max(now);
            for (flow, bytes) in [(1, 1250), (2, 125)] {
                let packet = Packet::new(2 * id + flow - 1, FlowId(flow as u32), bytes, now);
                queue.enqueue(packet.with_ecn(ecn), now, &mut events);
            }
        }
        events
    }

    #[test]
    fn each_flow_answers_for_itself() {
        let events = overload(&FqPieKeys::default(), Ecn::NotEct);
        let early = |flow| {
            events.iter().filter(|event| event.kind == EARLY && event.packet.flow == FlowId(flow)).count()
        };
        assert!(early(1) > 10, "{}", early(1));
        assert_eq!(early(2), 0);
    }

    #[test]
    fn packets_are_marked_as_they_come_and_counted_in_the_backlog() {
        let events = overload(&FqPieKeys { ecn: true, ..FqPieKeys::default() }, Ecn::Ect0);
        let marks: Vec<&[Event]> =
            events.windows(2).filter(|pair| pair[1].kind == EventKind::Mark(MarkReason::Aqm)).collect();
        assert!(marks.len() > 2, "{}", marks.len());
        for pair in marks {
            assert_eq!((pair[0].kind, pair[0].packet.id), (EventKind::Enqueue, pair[1].packet.id));
            assert_eq!(pair[0].backlog, pair[1].backlog);
            assert_eq!((pair[0].packet.ecn, pair[1].packet.ecn), (Ecn::Ect0, Ecn::Ce));
            let left = events
                .iter()
                .find(|event| event.kind == EventKind::Dequeue && event.packet.id == pair[1].packet.id);
            assert!(left.is_none_or(|event| event.packet.ecn == Ecn::Ce));
        }
    }

    #[test]
    fn the_limit_is_that_of_all_queues() {
        let mut queue = fq_pie(&FqPieKeys { limit: Limit::Packets(3), ..FqPieKeys::default() });
        let mut events: Vec<Event> = Vec::new();
        for id in 0..4 {
            queue.enqueue(Packet::new(id, FlowId(id as u32), 100, Time::ZERO), Time::ZERO, &mut events);
        }
        assert_eq!(events[3].kind, EventKind::Drop(DropReason::Overflow));
        assert_eq!((events[3].packet.id, queue.backlog().packets), (3, 3));
    }

    #[test]
    fn controllers_that_came_to_rest_are_left_alone() {
        let mut queue = fq_pie(&FqPieKeys::default());
        let mut now = Time::ZERO;
        for id in 0..3000 {
            queue.enqueue(Packet::new(id, FlowId(1), 1500, now), now, &mut ());
            now += Duration::from_millis(1);
            if id % 2 == 0 {
                queue.dequeue(now, &mut ());
            }
        }
        while queue.dequeue(now, &mut ()).is_some() {}
        assert_eq!(queue.awake.len(), 1);
        let law = |queue: &FqPie| queue.flows[queue.hash.queue(FlowId(1), 1024)].law.prob();
        assert!(law(&queue) > 0);
        // Some minutes, far more than it takes to forget.
        queue.dequeue(now + Duration::from_secs(600), &mut ());
        assert_eq!((queue.awake.len(), law(&queue)), (0, 0));
    }
}
