//! The law with its flow table: what a bottleneck calls for every packet and for every signal it gives.

use serde::Serialize;
use weir_core::{Bytes, CycleId, Duration, FlowId, QueueChoice, Time};

use crate::events::{
    Assessment, ChoiceCause, ChoiceChange, Class, CycleEnd, Judgement, LawSink, Signal, SignalPair, Verdict,
    Votes, choice_from_raw,
};
use crate::ffi;
use crate::flow::{FlowKey, FlowView};
use crate::params::Params;
use crate::parsed::{Kind, ParsedPacket, endpoint};
use crate::table::{Entry, Found, Table};

/// How far behind its flow's cycle a packet is stamped that nothing bears out (`WEIR_UNBOOKED` of `bpf/law_state.h`): a
/// signal on it comes late.
pub const UNBOOKED: u32 = 0x4000;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Through the bottleneck's queue.
    Forward,
    /// The other way; only its acknowledgements matter.
    Reverse,
}

/// What a packet takes with it into the queue: signals that it gets are booked to this cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The cycle that the packet arrived in.
    pub cycle: CycleId,
    /// The queue for the packet.
    pub choice: QueueChoice,
}

/// What the law could not do, and how much it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Packets looked up.
    pub packets: u64,
    /// Packets of new flows that found the table full; they go to the standard queue unjudged.
    pub table_full: u64,
    /// Frames that are not IP.
    pub not_ip: u64,
    /// Packets with a header cut short.
    pub truncated: u64,
    /// Packets whose lengths contradict each other.
    pub malformed: u64,
    /// Fragments other than first ones.
    pub fragments: u64,
    /// IP packets of other protocols.
    pub other: u64,
    /// TCP or UDP packets that the settings exclude (`full_parser`, `long_header_counts`).
    pub excluded: u64,
    /// Signals that came when their packet's cycle could no longer be judged.
    pub late_signals: u64,
    /// Signals on packets of no flow.
    pub untracked_signals: u64,
    /// Connections that began on the entry of an earlier one.
    pub reopened: u64,
    /// Verdicts that ended because their flow's activity ended no cycles.
    pub lapsed: u64,
}

/// The responsiveness law for all flows of one bottleneck.
#[derive(Clone, Debug)]
pub struct Law {
    params: Params,
    raw: ffi::Params,
    table: Table,
    counters: Counters,
}

impl Law {
    /// A law with settings `params` and room for `capacity` flows (about 260 bytes each, taken at once, at most 2^30).
    pub fn new(params: Params, capacity: usize) -> Self {
        Self::with_seed(params, capacity, 0)
    }

    /// The same, with a secret for the table's hash function: for live links, where others choose the keys. Ids and
    /// verdicts do not depend on it.
    pub fn with_seed(params: Params, capacity: usize, seed: u64) -> Self {
        Self {
            params,
            raw: params.to_raw(),
            table: Table::new(capacity, seed),
            counters: Counters::default(),
        }
    }

    /// The settings.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// Finds the packet's flow or makes an entry for it. [`FlowId::NONE`] for what has no flow, is excluded by the
    /// settings or finds the table full; each is counted. Ids count up from 0 in order of first sight.
    pub fn lookup(&mut self, packet: &ParsedPacket, direction: Direction, now: Time) -> FlowId {
        self.counters.packets += 1;
        let missed = match packet.kind() {
            Kind::NotIp => &mut self.counters.not_ip,
            Kind::Truncated => &mut self.counters.truncated,
            Kind::Malformed => &mut self.counters.malformed,
            Kind::Fragment => &mut self.counters.fragments,
            Kind::Other => &mut self.counters.other,
            Kind::Tcp | Kind::Udp | Kind::Quic => return self.lookup_key(packet, direction, now),
        };
        *missed += 1;
        FlowId::NONE
    }

    fn lookup_key(&mut self, packet: &ParsedPacket, direction: Direction, now: Time) -> FlowId {
        let reverse = direction == Direction::Reverse;
        let (key, ascending) = ffi::key(packet.raw(), self.params.key_has_protocol);
        match self.table.find(&key) {
            Found::Entry(flow) => flow,
            _ if !ffi::opens(&self.raw, packet.raw(), reverse) => {
                self.counters.excluded += 1;
                FlowId::NONE
            }
            Found::Free(slot) => {
                let flow = self.table.insert(slot, key, ascending != reverse, packet.protocol());
                if let Some(entry) = self.table.get_mut(flow) {
                    entry.last_seen = now.as_nanos();
                }
                flow
            }
            Found::Full => {
                self.counters.table_full += 1;
                FlowId::NONE
            }
        }
    }

    /// Takes note of a packet before it is queued. `flow` comes from [`Law::lookup`] of the same packet. Keep the stamp
    /// with the packet; that of a reverse packet or of no flow says standard queue and the flow's present cycle.
    pub fn arrival(
        &mut self,
        flow: FlowId,
        packet: &ParsedPacket,
        direction: Direction,
        now: Time,
        sink: &mut dyn LawSink,
    ) -> Stamp {
        let Some(entry) = self.table.get_mut(flow) else { return Stamp::default() };
        let before = choice_from_raw(ffi::choice(&self.raw, &entry.flow) as u8);
        let mut left = |cause, cycle| {
            if before != QueueChoice::Standard {
                let to = QueueChoice::Standard;
                sink.choice(&ChoiceChange { flow, time: now, cycle, from: before, to, cause });
            }
        };
        if direction == Direction::Reverse {
            let reopened = ffi::reverse(&self.raw, &mut entry.flow, packet.raw());
            let cycle = CycleId(entry.flow.cycle);
            if reopened {
                self.counters.reopened += 1;
                left(ChoiceCause::Opened, cycle);
            }
            return Stamp { cycle, choice: QueueChoice::Standard };
        }
        entry.last_seen = now.as_nanos();
        let outcome = ffi::forward(&self.raw, &mut entry.flow, packet.raw(), now.as_nanos());
        let cycle = CycleId(outcome.cycle);
        if outcome.reset != 0 {
            self.counters.reopened += 1;
            left(ChoiceCause::Opened, cycle);
        }
        if outcome.lapsed != 0 {
            self.counters.lapsed += 1;
            left(ChoiceCause::Lapsed, cycle);
        }
        if outcome.ended != 0 {
            report(flow, &outcome, now, sink);
        }
        Stamp { cycle, choice: choice_from_raw(outcome.choice) }
    }

    /// Books a signal that the bottleneck gave to a packet of `flow` which was stamped with `cycle`; `segments` are the
    /// packet's (1 unless it is a super-packet).
    pub fn signal(&mut self, flow: FlowId, cycle: CycleId, signal: Signal, segments: u16, _now: Time) {
        let Some(entry) = self.table.get_mut(flow) else {
            self.counters.untracked_signals += 1;
            return;
        };
        if !ffi::signal(&self.raw, &mut entry.flow, signal.raw(), cycle.0, segments.into()) {
            self.counters.late_signals += 1;
        }
    }

    /// What is known of a flow.
    pub fn flow(&self, flow: FlowId) -> Option<FlowView> {
        self.table.get(flow).map(|entry| self.view(entry))
    }

    /// All flows in order of first sight.
    pub fn flows(&self) -> impl Iterator<Item = (FlowId, FlowView)> + '_ {
        (0..).map(FlowId).zip(self.table.entries().iter().map(|entry| self.view(entry)))
    }

    /// How many flows have an entry.
    pub fn len(&self) -> usize {
        self.table.entries().len()
    }

    /// Whether no flow has an entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What could not be done so far.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Signals booked to the flow's current cycle (`age` 0) and the two before it.
    pub fn booked(&self, flow: FlowId, age: u32) -> Option<SignalPair<u32>> {
        let entry = self.table.get(flow)?;
        Some(SignalPair {
            loss: ffi::counted(&self.raw, &entry.flow, 0, age),
            mark: ffi::counted(&self.raw, &entry.flow, 1, age),
        })
    }

    fn view(&self, entry: &Entry) -> FlowView {
        let (raw, key) = (&entry.flow, FlowKey { protocol: entry.protocol, ..FlowKey::from_raw(&entry.key) });
        let (low, high) =
            (endpoint(entry.key.low, entry.key.low_port), endpoint(entry.key.high, entry.key.high_port));
        let (source, destination) = if entry.ascending { (low, high) } else { (high, low) };
        FlowView {
            key,
            source,
            destination,
            class: Class { loss: Verdict::from_raw(raw.verdict[0]), ecn: Verdict::from_raw(raw.verdict[1]) },
            choice: choice_from_raw(ffi::choice(&self.raw, raw) as u8),
            cycle: CycleId(raw.cycle),
            cycles: raw.cycle.wrapping_sub(raw.first_cycle),
            windows: raw.window.map(|bytes| Bytes(bytes.into())),
            votes: SignalPair { loss: Votes::kept(raw.votes[0]), mark: Votes::kept(raw.votes[1]) },
            bytes: Bytes(raw.bytes),
            packets: raw.packets,
            rtt: (raw.last_rtt != 0).then(|| Duration::from_nanos(raw.last_rtt.into())),
            last_seen: Time::from_nanos(entry.last_seen),
            late_signals: raw.late_signals.into(),
            withheld: raw.withheld.into(),
            quic_initial: raw.state & 0x0040 != 0,
        }
    }
}

/// Reports an ended cycle, the judgement and the change of queue to the sink, in this order.
pub(crate) fn report(flow: FlowId, outcome: &ffi::Outcome, time: Time, sink: &mut dyn LawSink) {
    let end = CycleEnd::from_raw(flow, outcome);
    sink.cycle(&end);
    if end.judgement != Judgement::Voted {
        return;
    }
    let assessed = &outcome.assessed;
    sink.assessment(&Assessment::from_raw(flow, time, assessed));
    if assessed.choice_before != assessed.choice_after {
        let (from, to) = (choice_from_raw(assessed.choice_before), choice_from_raw(assessed.choice_after));
        let cause = ChoiceCause::Vote;
        sink.choice(&ChoiceChange { flow, time, cycle: CycleId(outcome.cycle), from, to, cause });
    }
}
