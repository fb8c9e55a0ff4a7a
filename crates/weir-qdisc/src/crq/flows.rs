//! The flows in CRQ's queues: which queue each is in, and how many flows each queue would serve if all had queues of
//! their own. Their table grows with the numbers that flows have; nothing is allocated for a packet of a known one.
//!
//! A flow counts by what it could use: up to a full packet by the bytes that it has queued, and beyond that as one. So
//! a flow of many small packets counts only as long as they wait, and a sender that adds small flows adds little.
//!
//! A flow that comes back to a queue that it had emptied has missed its turn meanwhile. `fq_codel` makes up for that
//! by letting it go first as a new flow, up to a quantum, once in a round; here its class is not charged for its
//! packet, up to a full one, once in a round. Without that a class whose flows run empty at times, because they answer
//! and keep their queues short, would fall behind one whose flows never do.

use weir_core::{
    Duration, Event, EventKind, EventSink, FlowId, MarkReason, Packet, QueueChoice, QueueId, Time,
};

use super::challenge::Challenges;
use super::{CrqCounters, Switching};

/// Flows beyond this number are not tracked: their packets are treated as of no flow.
const MAX_FLOWS: usize = 1 << 22;
/// Queues at most.
const MOST: usize = QueueChoice::ALL.len();

/// A turn of every flow, in the unit of [`FlowTable::round`].
const ROUND: u64 = 1 << crate::share::ROUND_BITS;

/// Where a flow's packets are.
#[derive(Clone, Copy, Debug, Default)]
struct FlowState {
    /// Its wire bytes in each queue.
    bytes: [u64; MOST],
    /// When it may be challenged next, if it ever was considered.
    challenge: Option<Time>,
    /// Its packets since then.
    since: u32,
    /// The round in which its class was last given a packet of it.
    given: u64,
    /// Its packets in the queues.
    queued: u32,
    /// The queue that its last packet was given to; `None` before the first.
    queue: Option<QueueChoice>,
}

#[derive(Clone, Debug)]
pub(super) struct FlowTable {
    flows: Vec<FlowState>,
    /// All packets of no tracked flow, as if they were of one.
    untracked: [u64; MOST],
    /// The bytes of each queue's flows, of each at most a full packet.
    weights: [u64; MOST],
    /// Bytes for which each queue is not to be charged.
    given: [u64; MOST],
    /// Turns that a flow which always waits has had, in parts of [`ROUND`].
    pub(super) round: u64,
    /// Wire bytes of a full packet.
    full: u64,
    pub(super) counters: CrqCounters,
}

impl FlowTable {
    pub(super) fn new(full: u32) -> Self {
        Self {
            flows: Vec::new(),
            untracked: [0; MOST],
            weights: [0; MOST],
            given: [0; MOST],
            round: 0,
            full: full.max(1).into(),
            counters: CrqCounters::default(),
        }
    }

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

    /// Chooses among `queues` that of an arriving packet. Without a queue for them, flows that answer to marks are
    /// responsive.
    pub(super) fn assign(&mut self, packet: &Packet, queues: usize, switching: Switching) -> QueueChoice {
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
        self.counters.switches += u64::from(switched);
        self.counters.held_back += u64::from(queue != earned);
        queue
    }

    /// How much the flows of a queue could use: full packets in bytes, one for each flow at most.
    pub(super) fn weight(&self, queue: QueueChoice) -> u64 {
        self.weights[queue as usize]
    }

    /// What a queue is charged for a packet that it sends.
    pub(super) fn charged(&mut self, queue: QueueChoice, bytes: u32) -> u32 {
        let given = &mut self.given[queue as usize];
        let free = (*given).min(bytes.into()) as u32;
        *given -= u64::from(free);
        bytes - free
    }

    /// Whether a packet that arrives is a challenge to its flow.
    pub(super) fn is_challenge(&mut self, packet: &Packet, challenges: &mut Challenges, now: Time) -> bool {
        if !challenges.may_be(packet) {
            return false;
        }
        let Some(state) = self.state(packet.flow) else { return false };
        state.since = state.since.saturating_add(1);
        let due = *state.challenge.get_or_insert_with(|| challenges.next(now));
        let is_one = now >= due && challenges.is_within_budget(state.since);
        if is_one {
            state.challenge = Some(challenges.next(now));
            state.since = 0;
        }
        is_one
    }

    /// A packet came into a queue.
    fn came(&mut self, packet: &Packet, queue: QueueChoice) {
        let (index, bytes, full, round) =
            (queue as usize, u64::from(packet.wire_bytes), self.full, self.round);
        let mut is_back = false;
        let held = match self.state(packet.flow) {
            Some(state) => {
                state.queued += 1;
                let held = &mut state.bytes[index];
                if *held == 0 && round >= state.given + ROUND {
                    state.given = round;
                    is_back = true;
                }
                held
            }
            None => &mut self.untracked[index],
        };
        let before = *held;
        *held += bytes;
        self.weights[index] += (before + bytes).min(full) - before.min(full);
        if is_back {
            self.given[index] += bytes.min(full);
        }
    }

    /// A packet left a queue.
    fn left(&mut self, packet: &Packet, queue: QueueChoice) {
        let (index, bytes, full) = (queue as usize, u64::from(packet.wire_bytes), self.full);
        let held = match self.state(packet.flow) {
            Some(state) => {
                state.queued = state.queued.saturating_sub(1);
                &mut state.bytes[index]
            }
            None => &mut self.untracked[index],
        };
        let before = *held;
        *held = before.saturating_sub(bytes);
        let less = before.min(full) - (*held).min(full);
        self.weights[index] = self.weights[index].saturating_sub(less);
        if self.weights[index] == 0 {
            self.given[index] = 0;
        }
    }
}

/// Passes a child's events on under its queue's id, and takes note of what comes and goes.
pub(super) struct Tagged<'a> {
    pub(super) queue: QueueChoice,
    pub(super) flows: &'a mut FlowTable,
    /// The packet that is marked as it comes in, to challenge its flow.
    pub(super) marked: Option<u64>,
    pub(super) events: &'a mut dyn EventSink,
}

impl EventSink for Tagged<'_> {
    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::Enqueue => self.flows.came(&event.packet, self.queue),
            EventKind::Dequeue => self.flows.left(&event.packet, self.queue),
            EventKind::Drop(reason) if !reason.on_arrival() => self.flows.left(&event.packet, self.queue),
            EventKind::Drop(_) | EventKind::Mark(_) => {}
        }
        let event = Event { queue: QueueId(self.queue as u8), ..*event };
        self.events.event(&event);
        if event.kind == EventKind::Enqueue && self.marked == Some(event.packet.id) {
            let kind = EventKind::Mark(MarkReason::Challenge);
            self.events.event(&Event { kind, sojourn: Duration::ZERO, ..event });
        }
    }
}
