//! The flow table of a live link, natively: `bpf/table.h`, which the kernel's programs run on the same lines.
//!
//! [`Law`](crate::Law) remembers every flow of a capture; [`LiveTable`] is for links whose flows others choose. Memory
//! is fixed, a flow gets an entry only after both directions and enough payload were seen, idle entries make room, and
//! full buckets keep what they have. `docs/model/flow-table.md` has the model. [`LiveFlow`] and [`LiveCounters`] are
//! also the reading side of a table that the kernel fills.

mod both_ways;
mod config;
mod counters;
mod event;
mod flow;

use weir_core::{CycleId, FlowId, QueueChoice, Time};

pub use config::{LiveConfig, open_seed};
pub use counters::{COUNTER_WORDS, Count, LiveCounters};
pub use event::LiveEvent;
pub use flow::{LiveFlow, Transport, flows_of, version_of};

use crate::events::{Assessment, CycleEnd, choice_from_raw};
use crate::ffi;
use crate::law::Direction;
use crate::live_ffi::{self, Bucket, Settings, TableParams, Visit, WAYS, Waiting};
use crate::parsed::ParsedPacket;
use crate::{Params, Signal};

/// Table time: 2^20 ns, about 1.05 ms, modulo 2^32.
const TICK_SHIFT: u32 = 20;

/// Bytes of kernel memory of a bucket of eight entries, and of the line in which its flows wait for one.
pub const BUCKET_BYTES: usize = size_of::<Bucket>();
/// See [`BUCKET_BYTES`].
pub const WAITING_BYTES: usize = size_of::<Waiting>();
/// Entries of a bucket.
pub const BUCKET_FLOWS: usize = WAYS;
/// Bytes of the filter that recognises most plain UDP of no flow; one to a table.
pub const FILTER_BYTES: usize = size_of::<live_ffi::Filter>();
/// 64-bit words of the hash function's secret.
pub const SEED_WORDS: usize = live_ffi::SEED_WORDS;
/// What a packet found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveOutcome {
    /// Whether its flow has an entry.
    pub known: bool,
    /// The cycle that it is stamped with; 0 without an entry.
    pub cycle: CycleId,
    /// The queue for it.
    pub choice: QueueChoice,
    /// The cycle that it ended, and the judgement on it.
    pub ended: Option<(CycleEnd, Assessment)>,
}

/// The flow table of a live link.
#[derive(Clone, Debug)]
pub struct LiveTable {
    params: Params,
    law: ffi::Params,
    table: TableParams,
    buckets: Vec<Bucket>,
    waiting: Vec<Waiting>,
    filter: Box<live_ffi::Filter>,
    counters: live_ffi::Counters,
}

impl LiveTable {
    /// An empty table; all memory is taken at once.
    pub fn new(params: Params, config: &LiveConfig) -> Self {
        let buckets = config.buckets() as usize;
        Self {
            params,
            law: params.to_raw(),
            table: config.raw(),
            buckets: vec![Bucket::default(); buckets],
            waiting: vec![Waiting::default(); buckets],
            filter: Box::new([0; live_ffi::FILTER]),
            counters: live_ffi::Counters::default(),
        }
    }

    /// The settings of the law.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// Goes on with another law, as [`LiveConfig::under`] says.
    pub fn change_law(&mut self, params: Params) {
        let config = LiveConfig::from_raw(&self.table).under(&params);
        (self.params, self.law, self.table) = (params, params.to_raw(), config.raw());
    }

    /// Runs a packet of `wire_bytes` bytes: forward before it is queued, or reverse. Forward packets of unknown flows
    /// and of no flow go to the standard queue.
    pub fn arrival(
        &mut self,
        packet: &ParsedPacket,
        wire_bytes: u32,
        direction: Direction,
        now: Time,
    ) -> LiveOutcome {
        let reverse = direction == Direction::Reverse;
        live_ffi::count(&mut self.counters, packet.raw(), wire_bytes);
        let mut out = ffi::Outcome::default();
        let known = self.visit(packet, reverse, now, &mut out);
        let choice = choice_from_raw(out.choice);
        if !reverse {
            live_ffi::count_choice(&mut self.counters, out.choice.into(), wire_bytes);
        }
        LiveOutcome {
            known,
            cycle: CycleId(out.cycle),
            choice,
            ended: (out.ended != 0).then(|| {
                let end = CycleEnd::from_raw(FlowId::NONE, &out);
                (end, Assessment::from_raw(FlowId::NONE, now, &out.assessed))
            }),
        }
    }

    fn visit(&mut self, packet: &ParsedPacket, reverse: bool, now: Time, out: &mut ffi::Outcome) -> bool {
        if !live_ffi::wants(&self.law, packet.raw(), reverse)
            || !live_ffi::filter_passes(&self.filter, packet.raw())
        {
            return false;
        }
        let (key, ascending) = ffi::key(packet.raw(), self.params.key_has_protocol);
        let hash = live_ffi::hash(&self.table, &key);
        let index = live_ffi::bucket_of(&self.table, hash);
        let (bucket, waiting) = (&mut self.buckets[index], &mut self.waiting[index]);
        let settings = Settings { law: &self.law, table: &self.table };
        let visit = Visit { packet: packet.raw(), key: &key, hash, ascending, now: now.as_nanos() };
        let way = if reverse {
            live_ffi::reverse(&settings, bucket, waiting, &mut self.filter, &visit, &mut self.counters)
        } else {
            live_ffi::forward(&settings, bucket, waiting, &mut self.filter, &visit, &mut self.counters, out)
        };
        way.is_some()
    }

    /// Books a signal that the bottleneck gave to a packet that was stamped with `cycle` and had `segments` segments.
    /// It counts from the flow's next packet on.
    pub fn signal(&mut self, packet: &ParsedPacket, cycle: CycleId, signal: Signal, segments: u16) {
        live_ffi::count_signal(&mut self.counters, signal.raw(), segments.into());
        // As in the kernel: whatever the reverse direction would be looked up for.
        if !live_ffi::wants(&self.law, packet.raw(), true) {
            self.counters.unowned_signals += 1;
            return;
        }
        let (key, _) = ffi::key(packet.raw(), self.params.key_has_protocol);
        let hash = live_ffi::hash(&self.table, &key);
        let bucket = &mut self.buckets[live_ffi::bucket_of(&self.table, hash)];
        match live_ffi::way_of(bucket, &key, hash) {
            Some(way) => live_ffi::book(
                &self.law,
                &mut bucket.way[way],
                signal.raw(),
                cycle.0,
                segments.into(),
                &mut self.counters,
            ),
            None => self.counters.unowned_signals += 1,
        }
    }

    /// The flows that have an entry, in no particular order.
    pub fn flows(&self) -> impl Iterator<Item = LiveFlow> + '_ {
        self.buckets.iter().flat_map(|bucket| flow::entries(bucket, &self.law, self.table.law as u8))
    }

    /// The flow of a packet, if it has an entry.
    pub fn flow_of(&self, packet: &ParsedPacket) -> Option<LiveFlow> {
        let (key, _) = ffi::key(packet.raw(), self.params.key_has_protocol);
        let hash = live_ffi::hash(&self.table, &key);
        let bucket = &self.buckets[live_ffi::bucket_of(&self.table, hash)];
        live_ffi::way_of(bucket, &key, hash)
            .map(|way| flow::view(bucket, way, &self.law, self.table.law as u8))
    }

    /// Entries that are taken, idle ones included.
    pub fn len(&self) -> usize {
        self.buckets.iter().flat_map(|bucket| bucket.tag).filter(|tag| *tag != 0).count()
    }

    /// Whether no flow has an entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries that another flow could have at time `now`.
    pub fn reclaimable(&self, now: Time) -> usize {
        let tick = (now.as_nanos() >> TICK_SHIFT) as u32;
        self.buckets
            .iter()
            .flat_map(|bucket| (0..WAYS).map(move |way| (bucket, way)))
            .filter(|(bucket, way)| {
                bucket.tag[*way] != 0 && live_ffi::may_go(&self.table, bucket, *way, tick)
            })
            .count()
    }

    /// Flows that the table has room for.
    pub fn capacity(&self) -> usize {
        self.buckets.len() * WAYS
    }

    /// Bytes that the table takes, whatever is in it.
    pub fn bytes(&self) -> usize {
        self.buckets.len() * (BUCKET_BYTES + WAITING_BYTES) + FILTER_BYTES
    }

    /// Whether the filter counts just the entries there are: it must not recognise less plain UDP of no flow over time.
    pub fn filter_is_exact(&self) -> bool {
        let mut counts = vec![0; live_ffi::FILTER];
        for bucket in &self.buckets {
            for way in (0..WAYS).filter(|way| bucket.tag[*way] != 0) {
                if let Some(at) = live_ffi::filter_of(&bucket.way[way].key) {
                    counts[at] += 1;
                }
            }
        }
        counts == *self.filter
    }

    /// What it did so far.
    pub fn counters(&self) -> LiveCounters {
        LiveCounters::from_raw(&self.counters)
    }

    /// The bytes of bucket `index` as the kernel's programs keep it, for comparison with theirs.
    pub fn bucket_bytes(&self, index: usize) -> Vec<u8> {
        ffi::to_bytes(&self.buckets[index])
    }

    /// The same of the line in which flows wait for a place in that bucket.
    pub fn waiting_bytes(&self, index: usize) -> Vec<u8> {
        ffi::to_bytes(&self.waiting[index])
    }

    /// The counters as the kernel's programs keep them.
    pub fn counter_words(&self) -> [u64; COUNTER_WORDS] {
        self.counters.to_words()
    }
}
