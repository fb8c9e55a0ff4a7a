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

mod challenge;
mod flows;

use weir_core::{
    Backlog, DropReason, Duration, Ecn, Event, EventKind, EventSink, Packet, QueueChoice, QueueId, Rate, Time,
};

use crate::Qdisc;
use crate::keys::ConfigError;
use crate::share::{Balance, ByFlows, HardSplit, Weights};
pub use challenge::Challenges;
use flows::{FlowTable, Tagged};

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
    /// In proportion to the flows that wait in each, so that no verdict gives a flow more than another has.
    /// A flow with packets in two queues counts in both: only [`Switching::Drain`] rules that out.
    Flows,
}

impl Sharing {
    /// The weights for that many queues; `None` with strict priority and by flows, where each queue may have the whole
    /// link.
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
            Self::StrictPriority | Self::Flows => Ok(None),
        }
    }

    /// The part of a link of `rate` that `queue` of so many is meant to have: its share, or all of it with strict
    /// priority and by flows.
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
    /// Wire bytes of a full packet, from which on a flow counts as one.
    pub mtu: u32,
}

/// What the switching did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrqCounters {
    /// Times that a flow's packets began to go to the other queue.
    pub switches: u64,
    /// Packets that went to their flow's old queue because it was not drained.
    pub held_back: u64,
}

#[derive(Clone, Debug)]
enum Scheduler {
    Shared(Balance),
    Flows(ByFlows),
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
    challenges: Option<Challenges>,
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
            (None, Split::Shared) if config.sharing == Sharing::Flows => Scheduler::Flows(ByFlows::default()),
            (None, Split::Shared) => Scheduler::Priority,
            (None, Split::Hard { .. }) => return Err(ConfigError::NoFixedShares(config.sharing)),
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
        Ok(Self {
            queues,
            scheduler,
            switching: config.switching,
            flows: FlowTable::new(config.mtu),
            challenges: None,
        })
    }

    /// The same that challenges its flows.
    #[must_use]
    pub fn challenging(self, challenges: Challenges) -> Self {
        Self { challenges: Some(challenges), ..self }
    }

    /// What the switching did so far.
    pub fn counters(&self) -> CrqCounters {
        self.flows.counters
    }

    /// What one of the queues holds; nothing if it does not exist.
    pub fn queue_backlog(&self, queue: QueueChoice) -> Backlog {
        self.queues.get(queue as usize).map_or_else(Backlog::default, |queue| queue.backlog())
    }

    /// Drops a packet at the door, to challenge its flow.
    fn refuse(&self, packet: Packet, queue: QueueChoice, now: Time, events: &mut dyn EventSink) {
        events.event(&Event {
            time: now,
            kind: EventKind::Drop(DropReason::Challenge),
            packet: Packet { arrived: now, ..packet },
            queue: QueueId(queue as u8),
            sojourn: Duration::ZERO,
            backlog: self.queue_backlog(queue),
        });
    }

    fn waits(&self, queue: QueueChoice) -> bool {
        self.queue_backlog(queue).packets > 0
    }

    fn may_send(&self, queue: QueueChoice, now: Time) -> bool {
        self.waits(queue)
            && match &self.scheduler {
                Scheduler::Hard(split) => split.may_send(queue, now),
                Scheduler::Shared(_) | Scheduler::Flows(_) | Scheduler::Priority => true,
            }
    }
}

impl Qdisc for Crq {
    fn enqueue(&mut self, mut packet: Packet, now: Time, events: &mut dyn EventSink) {
        let queue = self.flows.assign(&packet, self.queues.len(), self.switching);
        let mut marked = None;
        if let Some(challenges) = &mut self.challenges
            && self.flows.is_challenge(&packet, challenges, now)
        {
            if !challenges.marks(&packet) {
                return self.refuse(packet, queue, now, events);
            }
            packet.ecn = Ecn::Ce;
            marked = Some(packet.id);
        }
        let mut events = Tagged { queue, flows: &mut self.flows, marked, events };
        self.queues[queue as usize].enqueue(packet, now, &mut events);
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        let waits = QueueChoice::ALL.map(|queue| self.waits(queue));
        let order = match &mut self.scheduler {
            Scheduler::Shared(balance) => balance.order(waits),
            Scheduler::Flows(balance) => balance.order(waits),
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
            // What the queue's flows weigh while this one is still among them.
            let weight = self.flows.weight(queue);
            let mut events = Tagged { queue, flows: &mut self.flows, marked: None, events: &mut *events };
            let Some(packet) = self.queues[queue as usize].dequeue(now, &mut events) else {
                continue;
            };
            match &mut self.scheduler {
                Scheduler::Shared(balance) => balance.sent(queue, packet.wire_bytes),
                Scheduler::Flows(balance) => {
                    balance.sent(queue, packet.wire_bytes, weight);
                    // Whoever comes while this packet is on the link comes behind it.
                    let backlogs = self.queues.iter().map(|queue| queue.backlog().packets > 0);
                    let mut waits = [false; QueueChoice::ALL.len()];
                    waits.iter_mut().zip(backlogs).for_each(|(waits, is_so)| *waits = is_so);
                    self.flows.advance(balance.round(waits));
                }
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
                    Scheduler::Shared(_) | Scheduler::Flows(_) | Scheduler::Priority => ready,
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
mod tests;
