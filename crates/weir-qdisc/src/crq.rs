//! CRQ's queues: traffic that answers to congestion is kept apart from all other (CRQ section III-B). Two children, or
//! three with a queue of its own for flows that answer to marks (section V), of any kind; the queue of a packet is the
//! verdict stamped on it (`Packet::choice`), so the assessment of flows lives elsewhere (the law). Events of the
//! children pass through with the queue's id: standard 0, responsive 1, ECN-responsive 2.
//!
//! | CRQ prototype (two HTB classes, CRQ section III-C) | here |
//! |---|---|
//! | the flow's class decides per packet, at once | [`Switching::Immediate`]; [`Switching::Drain`] keeps flows in order |
//! | classes without a common parent: half the rate each, nothing lent | [`Split::Hard`] |
//! | - (the paper names priorities and other shares as options, section V) | [`Split::Shared`], weights, [`Sharing::StrictPriority`] |
//! | HTB burst of 100 kB | two packets, configurable |
//! | HTB's rounded rates | exact shares |
//! | untracked packets have no class and fall to the default, standard | the same |

use weir_core::{Backlog, Event, EventKind, EventSink, FlowId, Packet, QueueChoice, QueueId, Rate, Time};

use crate::Qdisc;
use crate::keys::ConfigError;
use crate::share::{Balance, HardSplit, Weights};

/// How the queues divide the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// The same for each: of two queues half (the paper's evaluation, CRQ section IV).
    #[default]
    Equal,
    /// In proportion to weights above zero.
    Weighted {
        /// Weight of the standard queue.
        standard: u32,
        /// Weight of the responsive queue.
        responsive: u32,
        /// Weight of the ECN-responsive queue; 0 if there is none.
        ecn_responsive: u32,
    },
    /// The ECN-responsive queue always goes first, then the responsive one. The standard queue may starve.
    StrictPriority,
}

impl Sharing {
    /// The weights for that many queues; `None` with strict priority, where each queue may have the whole link.
    ///
    /// # Errors
    ///
    /// A weight of zero, or too many or too few.
    pub(crate) fn weights(self, queues: usize) -> Result<Option<Weights>, ConfigError> {
        match self {
            Self::Equal => Ok(Some(Weights::new([1, 1, u32::from(queues > 2)]))),
            Self::Weighted { standard, responsive, .. } if standard == 0 || responsive == 0 => {
                Err(ConfigError::ZeroWeight { standard, responsive })
            }
            Self::Weighted { ecn_responsive, .. } if (ecn_responsive > 0) != (queues > 2) => {
                let example = if queues > 2 { "30:30:40" } else { "30:70" };
                let reason =
                    format!("{self} are not weights above 0 of {queues} queues; give such as {example}");
                Err(ConfigError::refused("sharing", reason))
            }
            Self::Weighted { standard, responsive, ecn_responsive } => {
                Ok(Some(Weights::new([standard, responsive, ecn_responsive])))
            }
            Self::StrictPriority => Ok(None),
        }
    }

    /// The part of a link of `rate` that `queue` of so many is meant to have: its share, or all of it with strict
    /// priority.
    ///
    /// # Errors
    ///
    /// If the weights are not of so many queues.
    pub fn rate_of(self, queue: QueueChoice, queues: usize, rate: Rate) -> Result<Rate, ConfigError> {
        Ok(self.weights(queues)?.map_or(rate, |weights| weights.share(rate, queue)))
    }
}

/// What becomes of the share that a queue does not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// The other queues use it: the link is never idle while a packet waits.
    Shared,
    /// It is lost: no queue ever sends more than its share of `rate`, as in the paper's prototype.
    Hard {
        /// The link's rate, of which the queues get shares. Above zero.
        rate: Rate,
        /// Wire bytes that a queue may send at once after a pause; at least `mtu`. In any window a queue sends at most
        /// its share and one burst (and what a packet is longer than `mtu`). The buckets start full of credit.
        ///
        /// Two packets are the least with which a link that serialises for two queues can give them their full
        /// shares; a world that comes late for its packets needs more.
        burst: u32,
        /// Wire bytes of the longest ordinary packet.
        mtu: u32,
    },
}

/// What happens to a flow's packets when its verdict changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Switching {
    /// The next packet goes to the new queue and may overtake those in the old one (paper and prototype).
    #[default]
    Immediate,
    /// Packets go on to the old queue as long as it holds any packet of the flow, so no flow is reordered. A flow that
    /// never lets its backlog run out never switches.
    Drain,
}

/// Parameters of [`Crq`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrqConfig {
    /// How the queues divide the link.
    pub sharing: Sharing,
    /// What becomes of unused shares.
    pub split: Split,
    /// How flows change queues.
    pub switching: Switching,
}

/// What the switching did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrqCounters {
    /// Times that a flow's packets began to go to the other queue.
    pub switches: u64,
    /// Packets that went to their flow's old queue because it was not drained.
    pub held_back: u64,
}

/// Flows beyond this number are not tracked: their packets are treated as of no flow.
const MAX_FLOWS: usize = 1 << 22;

/// Where a flow's packets are.
#[derive(Clone, Copy, Debug, Default)]
struct FlowState {
    /// Its packets in the queues.
    queued: u32,
    /// The queue that its last packet was given to; `None` before the first.
    queue: Option<QueueChoice>,
}

#[derive(Clone, Debug, Default)]
struct FlowTable {
    flows: Vec<FlowState>,
    counters: CrqCounters,
}

impl FlowTable {
    fn state(&mut self, flow: FlowId) -> Option<&mut FlowState> {
        let index = flow.0 as usize;
        if index >= MAX_FLOWS {
            return None;
        }
        if index >= self.flows.len() {
            self.flows.resize_with(index + 1, FlowState::default);
        }
        self.flows.get_mut(index)
    }

    /// Chooses among `queues` that of an arriving packet and counts it there. Without a queue for them, flows that
    /// answer to marks are responsive.
    fn assign(&mut self, packet: &Packet, queues: usize, switching: Switching) -> QueueChoice {
        let earned = match packet.choice {
            QueueChoice::EcnResponsive if queues < 3 => QueueChoice::Responsive,
            choice => choice,
        };
        let Some(state) = self.state(packet.flow) else {
            return QueueChoice::Standard;
        };
        let queue = match (switching, state.queue) {
            (Switching::Drain, Some(old)) if state.queued > 0 => old,
            _ => earned,
        };
        let switched = state.queue.is_some_and(|old| old != queue);
        state.queue = Some(queue);
        state.queued += 1;
        self.counters.switches += u64::from(switched);
        self.counters.held_back += u64::from(queue != earned);
        queue
    }

    /// A packet is gone: sent, dropped inside or refused at the door.
    fn left(&mut self, flow: FlowId) {
        if let Some(state) = self.state(flow) {
            state.queued = state.queued.saturating_sub(1);
        }
    }
}

/// Passes a child's events on under its queue's id, and takes note of packets that are gone.
struct Tagged<'a> {
    queue: QueueChoice,
    flows: &'a mut FlowTable,
    events: &'a mut dyn EventSink,
}

impl EventSink for Tagged<'_> {
    fn event(&mut self, event: &Event) {
        if let EventKind::Dequeue | EventKind::Drop(_) = event.kind {
            self.flows.left(event.packet.flow);
        }
        self.events.event(&Event { queue: QueueId(self.queue as u8), ..*event });
    }
}

#[derive(Clone, Debug)]
enum Scheduler {
    Shared(Balance),
    Hard(HardSplit),
    Priority,
}

/// The queues under one roof.
pub struct Crq {
    /// Standard, responsive and perhaps ECN-responsive.
    queues: Vec<Box<dyn Qdisc>>,
    scheduler: Scheduler,
    switching: Switching,
    flows: FlowTable,
}

impl Crq {
    /// A dual queue over two children.
    ///
    /// # Errors
    ///
    /// A weight of zero, weights of another number of queues, a hard split with strict priority, at rate zero or with a
    /// burst below one packet.
    pub fn new(
        config: CrqConfig,
        standard: Box<dyn Qdisc>,
        responsive: Box<dyn Qdisc>,
    ) -> Result<Self, ConfigError> {
        Self::over(config, vec![standard, responsive])
    }

    /// The same with a third child, for flows that answer to marks.
    ///
    /// # Errors
    ///
    /// As [`Crq::new`].
    pub fn with_ecn_responsive(
        config: CrqConfig,
        standard: Box<dyn Qdisc>,
        responsive: Box<dyn Qdisc>,
        ecn_responsive: Box<dyn Qdisc>,
    ) -> Result<Self, ConfigError> {
        Self::over(config, vec![standard, responsive, ecn_responsive])
    }

    fn over(config: CrqConfig, queues: Vec<Box<dyn Qdisc>>) -> Result<Self, ConfigError> {
        let scheduler = match (config.sharing.weights(queues.len())?, config.split) {
            (None, Split::Shared) => Scheduler::Priority,
            (None, Split::Hard { .. }) => return Err(ConfigError::StrictHardSplit),
            (Some(weights), Split::Shared) => Scheduler::Shared(Balance::new(weights)),
            (Some(_), Split::Hard { rate, .. }) if rate.bits_per_sec() == 0 => {
                return Err(ConfigError::ZeroRate);
            }
            (Some(_), Split::Hard { burst, mtu, .. }) if burst < mtu => {
                return Err(ConfigError::BurstTooSmall { burst: u64::from(burst), mtu });
            }
            (Some(weights), Split::Hard { rate, burst, mtu }) => {
                Scheduler::Hard(HardSplit::new(weights, rate, burst, mtu))
            }
        };
        Ok(Self { queues, scheduler, switching: config.switching, flows: FlowTable::default() })
    }

    /// What the switching did so far.
    pub fn counters(&self) -> CrqCounters {
        self.flows.counters
    }

    /// What one of the queues holds; nothing if it does not exist.
    pub fn queue_backlog(&self, queue: QueueChoice) -> Backlog {
        self.queues.get(queue as usize).map_or_else(Backlog::default, |queue| queue.backlog())
    }

    fn waits(&self, queue: QueueChoice) -> bool {
        self.queue_backlog(queue).packets > 0
    }

    fn may_send(&self, queue: QueueChoice, now: Time) -> bool {
        self.waits(queue)
            && match &self.scheduler {
                Scheduler::Hard(split) => split.may_send(queue, now),
                Scheduler::Shared(_) | Scheduler::Priority => true,
            }
    }
}

impl Qdisc for Crq {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        let queue = self.flows.assign(&packet, self.queues.len(), self.switching);
        let mut events = Tagged { queue, flows: &mut self.flows, events };
        self.queues[queue as usize].enqueue(packet, now, &mut events);
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        let waits = QueueChoice::ALL.map(|queue| self.waits(queue));
        let order = match &mut self.scheduler {
            Scheduler::Shared(balance) => balance.order(waits),
            Scheduler::Hard(split) => split.order(now),
            Scheduler::Priority => {
                [QueueChoice::EcnResponsive, QueueChoice::Responsive, QueueChoice::Standard]
            }
        };
        for queue in order {
            // A queue that is asked in vain (an AQM may drop all it has) leaves the turn to the next.
            if !self.may_send(queue, now) {
                continue;
            }
            let mut events = Tagged { queue, flows: &mut self.flows, events: &mut *events };
            let Some(packet) = self.queues[queue as usize].dequeue(now, &mut events) else {
                continue;
            };
            match &mut self.scheduler {
                Scheduler::Shared(balance) => balance.sent(queue, packet.wire_bytes),
                Scheduler::Hard(split) => split.sent(queue, now, packet.wire_bytes),
                Scheduler::Priority => {}
            }
            return Some(packet);
        }
        None
    }

    fn next_ready(&self, now: Time) -> Option<Time> {
        QueueChoice::ALL
            .into_iter()
            .zip(&self.queues)
            .filter_map(|(queue, child)| {
                let ready = child.next_ready(now)?;
                Some(match &self.scheduler {
                    Scheduler::Hard(split) => ready.max(split.ready(queue, now)),
                    Scheduler::Shared(_) | Scheduler::Priority => ready,
                })
            })
            .min()
    }

    fn backlog(&self) -> Backlog {
        self.queues.iter().map(|queue| queue.backlog()).fold(Backlog::default(), |sum, queue| Backlog {
            packets: sum.packets + queue.packets,
            bytes: sum.bytes + queue.bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Crq, CrqConfig, CrqCounters, Sharing, Split, Switching};
    use crate::keys::ConfigError;
    use crate::{Pfifo, Qdisc};
    use weir_core::{
        DropReason, Event, EventKind, FlowId, Packet, QueueChoice, QueueChoice::*, QueueId, Rate, Time,
    };

    fn crq(sharing: Sharing, split: Split, switching: Switching, limit: u32) -> Result<Crq, ConfigError> {
        let config = CrqConfig { sharing, split, switching };
        Crq::new(config, Box::new(Pfifo::new(limit)), Box::new(Pfifo::new(limit)))
    }

    fn packet(id: u64, flow: FlowId, choice: QueueChoice) -> Packet {
        Packet { choice, ..Packet::new(id, flow, 1000, Time::ZERO) }
    }

    fn drain(queue: &mut Crq) -> Vec<u64> {
        std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut ())).map(|packet| packet.id).collect()
    }

    #[test]
    fn switching_at_once_may_reorder_and_draining_may_not() {
        for (switching, expected, counters) in [
            (Switching::Immediate, [2, 3, 0, 1], CrqCounters { switches: 1, held_back: 0 }),
            (Switching::Drain, [0, 1, 2, 3], CrqCounters { switches: 0, held_back: 2 }),
        ] {
            let mut queue = crq(Sharing::StrictPriority, Split::Shared, switching, 10).unwrap();
            for (id, choice) in [Standard, Standard, Responsive, Responsive].into_iter().enumerate() {
                queue.enqueue(packet(id as u64, FlowId(3), choice), Time::ZERO, &mut ());
            }
            assert_eq!(drain(&mut queue), expected, "{switching:?}");
            assert_eq!(queue.counters(), counters);
            // The old queue is empty now, so both put the next packet into the new one.
            queue.enqueue(packet(9, FlowId(3), Responsive), Time::ZERO, &mut ());
            assert_eq!(queue.queue_backlog(Responsive).packets, 1);
            assert_eq!(queue.counters().switches, 1);
        }
    }

    #[test]
    fn a_packet_refused_at_the_door_does_not_hold_its_flow() {
        let mut queue = crq(Sharing::Equal, Split::Shared, Switching::Drain, 1).unwrap();
        let mut events: Vec<Event> = Vec::new();
        queue.enqueue(packet(0, FlowId(0), Standard), Time::ZERO, &mut events);
        queue.enqueue(packet(1, FlowId(1), Standard), Time::ZERO, &mut events);
        assert_eq!(events[1].kind, EventKind::Drop(DropReason::Overflow));
        queue.enqueue(packet(2, FlowId(1), Responsive), Time::ZERO, &mut events);
        assert_eq!((events[2].kind, events[2].queue), (EventKind::Enqueue, QueueId(1)));
        assert_eq!(queue.counters(), CrqCounters { switches: 1, held_back: 0 });
    }

    #[test]
    fn packets_of_no_flow_are_standard() {
        let mut queue = crq(Sharing::Equal, Split::Shared, Switching::Drain, 5).unwrap();
        for flow in [FlowId::NONE, FlowId(u32::MAX - 1)] {
            queue.enqueue(packet(0, flow, Responsive), Time::ZERO, &mut ());
        }
        assert_eq!((queue.queue_backlog(Standard).packets, queue.backlog().packets), (2, 2));
        assert_eq!(queue.counters(), CrqCounters::default());
    }

    #[test]
    fn contradictions_are_refused() {
        let hard = |rate, burst| Split::Hard { rate: Rate::from_bits_per_sec(rate), burst, mtu: 1514 };
        let now = Switching::Immediate;
        let error = |sharing, split| crq(sharing, split, now, 1).err().unwrap().to_string();
        assert!(error(Sharing::StrictPriority, hard(1, 1514)).contains("split"));
        assert!(error(Sharing::Equal, hard(0, 1514)).contains("rate"));
        assert!(error(Sharing::Equal, hard(1, 1513)).contains("burst"));
        assert!(
            error(Sharing::Weighted { standard: 0, responsive: 2, ecn_responsive: 0 }, Split::Shared)
                .contains("weight")
        );
        assert!(crq(Sharing::Equal, hard(1, 1514), now, 1).is_ok());
    }

    #[test]
    fn flows_that_answer_to_marks_have_a_queue_of_their_own_if_there_is_one() {
        let fifo = || Box::new(Pfifo::new(10));
        let config =
            CrqConfig { sharing: Sharing::Equal, split: Split::Shared, switching: Switching::Immediate };
        let two = Crq::new(config, fifo(), fifo()).unwrap();
        let three = Crq::with_ecn_responsive(config, fifo(), fifo(), fifo()).unwrap();
        for (mut queue, queues) in [(two, [0, 1, 1]), (three, [0, 1, 2])] {
            let mut events: Vec<Event> = Vec::new();
            for (id, choice) in QueueChoice::ALL.into_iter().enumerate() {
                queue.enqueue(packet(id as u64, FlowId(id as u32), choice), Time::ZERO, &mut events);
            }
            assert_eq!(events.iter().map(|event| event.queue.0).collect::<Vec<_>>(), queues);
            for choice in QueueChoice::ALL {
                let holds = queues.iter().filter(|queue| **queue == choice as u8).count();
                assert_eq!(queue.queue_backlog(choice).packets as usize, holds);
            }
            assert_eq!(queue.backlog().packets, 3);
            assert_eq!(drain(&mut queue).len(), 3);
        }
        let weighted = Sharing::Weighted { standard: 1, responsive: 1, ecn_responsive: 0 };
        let config = CrqConfig { sharing: weighted, ..config };
        let error = Crq::with_ecn_responsive(config, fifo(), fifo(), fifo()).err().unwrap().to_string();
        assert!(error.contains("1:1") && error.contains("30:30:40"), "{error}");
        let three = Sharing::Weighted { standard: 1, responsive: 1, ecn_responsive: 2 };
        assert!(
            crq(three, Split::Shared, Switching::Immediate, 1).err().unwrap().to_string().contains("30:70")
        );
    }

    #[test]
    fn a_hard_split_says_when_to_come_back() {
        let split = Split::Hard { rate: Rate::from_bits_per_sec(8_000_000), burst: 2000, mtu: 1000 };
        let mut queue = crq(Sharing::Equal, split, Switching::Immediate, 10).unwrap();
        for id in 0..3 {
            queue.enqueue(packet(id, FlowId(0), Standard), Time::ZERO, &mut ());
        }
        assert_eq!(drain(&mut queue), [0, 1]);
        // 1000 bytes at 4 Mbit/s, with the responsive half idle and not lent.
        let ready = queue.next_ready(Time::ZERO).unwrap();
        assert_eq!(ready, Time::from_nanos(2_000_000));
        assert!(queue.dequeue(Time::from_nanos(1_999_999), &mut ()).is_none());
        assert_eq!(queue.dequeue(ready, &mut ()).unwrap().id, 2);
        assert_eq!(queue.next_ready(ready), None);
    }
}
