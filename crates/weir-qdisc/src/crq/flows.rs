//! The flows in CRQ's queues: which queue each is in, and how many flows each queue would serve if all had queues of
//! their own. Their table grows with the numbers that flows have; nothing is allocated for a packet of a known one.
//!
//! A flow counts by what it could use: up to a full packet by the bytes that it has queued, and beyond that as one. So
//! a flow of many small packets counts only as long as they wait, and a sender that adds small flows adds little.
//!
//! A flow whose queue gets shorter than that, or empty, counts as much as it did until the time by which its packets
//! would have left if all flows were served at the same moment, bit by bit: a round for each full packet (the virtual
//! finish time of Demers, Keshav and Shenker, SIGCOMM 1989). So its class falls behind neither when its flows run empty
//! at times, because they answer and keep their queues short, nor does it gain by flows that send little: each counts
//! for as much as it sends.

use std::collections::VecDeque;

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
    /// What it counts in each queue.
    counts: [u32; MOST],
    /// Whether it is among those that have less in a queue than they count there.
    lingers: [bool; MOST],
    /// The round by which its packets in each queue would have left.
    finish: [u64; MOST],
    /// Its packets in the queues.
    queued: u32,
    /// The queue that its last packet was given to; `None` before the first.
    queue: Option<QueueChoice>,
}

#[derive(Clone, Debug)]
pub(super) struct FlowTable {
    flows: Vec<FlowState>,
    /// All packets of no tracked flow, as if they were of one.
    untracked: FlowState,
    /// What the flows of each queue count together.
    weights: [u64; MOST],
    /// Flows that have less in a queue than they count there, and until when at least; each once a queue, each at most a
    /// round ahead, so that none is found more than a round late.
    lingering: VecDeque<(FlowId, QueueChoice, u64)>,
    /// Turns that a flow which always waits has had, in parts of [`ROUND`].
    round: u64,
    /// Wire bytes of a full packet.
    full: u32,
    pub(super) counters: CrqCounters,
}

impl FlowTable {
    pub(super) fn new(full: u32) -> Self {
        Self {
            flows: Vec::new(),
            untracked: FlowState::default(),
            weights: [0; MOST],
            lingering: VecDeque::new(),
            round: 0,
            full: full.max(1),
            counters: CrqCounters::default(),
        }
    }

    /// The state of a tracked flow.
    fn state(&mut self, flow: FlowId) -> Option<&mut FlowState> {
        ((flow.0 as usize) < MAX_FLOWS).then(|| self.any_state(flow))
    }

    /// The state of a flow, or that of all that are not tracked.
    fn any_state(&mut self, flow: FlowId) -> &mut FlowState {
        let index = flow.0 as usize;
        if index >= MAX_FLOWS {
            return &mut self.untracked;
        }
        if index >= self.flows.len() {
            self.flows.resize_with(index + 1, FlowState::default);
        }
        &mut self.flows[index]
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
        let (at, full, round) = (queue as usize, self.full, self.round);
        let turns = self.turns(packet);
        let state = self.any_state(packet.flow);
        state.finish[at] = state.finish[at].max(round) + turns;
        state.queued += 1;
        state.bytes[at] += u64::from(packet.wire_bytes);
        let counts = (state.bytes[at].min(full.into()) as u32).max(state.counts[at]);
        let more = counts - std::mem::replace(&mut state.counts[at], counts);
        self.weights[at] += u64::from(more);
    }

    /// How many rounds a packet takes.
    fn turns(&self, packet: &Packet) -> u64 {
        u64::from(packet.wire_bytes) * ROUND / u64::from(self.full)
    }

    /// A packet left a queue, by the link or not.
    fn left(&mut self, packet: &Packet, queue: QueueChoice, is_sent: bool) {
        let (at, round) = (queue as usize, self.round);
        let turns = if is_sent { 0 } else { self.turns(packet) };
        let state = self.any_state(packet.flow);
        state.finish[at] = state.finish[at].saturating_sub(turns);
        state.queued = state.queued.saturating_sub(1);
        state.bytes[at] = state.bytes[at].saturating_sub(packet.wire_bytes.into());
        if state.bytes[at] < state.counts[at].into() {
            // What it got ahead of others is theirs within a round.
            state.finish[at] = state.finish[at].min(round + ROUND);
            let finish = state.finish[at];
            if !std::mem::replace(&mut state.lingers[at], true) {
                self.lingering.push_back((packet.flow, queue, finish));
            }
        }
    }

    /// It is `round` now: flows whose packets would have left by now count as what they have queued.
    pub(super) fn advance(&mut self, round: u64) {
        self.round = round;
        while let Some((flow, queue, finish)) = self.lingering.front().copied()
            && finish <= round
        {
            self.lingering.pop_front();
            let at = queue as usize;
            let state = self.any_state(flow);
            if state.bytes[at] < state.counts[at].into() && state.finish[at] > round {
                // More of it came meanwhile.
                let finish = state.finish[at].min(round + ROUND);
                self.lingering.push_back((flow, queue, finish));
                continue;
            }
            state.lingers[at] = false;
            let counts = state.bytes[at].min(state.counts[at].into()) as u32;
            let less = std::mem::replace(&mut state.counts[at], counts) - counts;
            self.weights[at] -= u64::from(less);
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
            EventKind::Dequeue => self.flows.left(&event.packet, self.queue, true),
            EventKind::Drop(reason) if !reason.on_arrival() => {
                self.flows.left(&event.packet, self.queue, false);
            }
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
