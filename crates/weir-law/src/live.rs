//! The flow table of a live link, natively: `bpf/table.h`, which the kernel's programs run on the same lines.
//!
//! [`Law`](crate::Law) remembers every flow of a capture; [`LiveTable`] is for links whose flows others choose. Memory is
//! fixed, a flow gets an entry only after both directions and enough payload were seen, idle entries make room, and full
//! buckets keep what they have. `docs/table.md` tells the model. [`LiveFlow`] and [`LiveCounters`] are also the reading
//! side of a table that the kernel fills.

use std::net::SocketAddr;

use serde::Serialize;
use weir_core::{Bytes, CycleId, Duration, FlowId, QueueChoice, Time};

use crate::events::{Assessment, Class, CycleEnd, SignalPair, Verdict, Votes, choice_from_raw};
use crate::ffi;
use crate::flow::FlowKey;
use crate::law::Direction;
use crate::live_ffi::{self, Bucket, Settings, TableParams, Visit, WAYS, Waiting};
use crate::parsed::{ParsedPacket, endpoint};
use crate::{LawSink, Params, Signal};

/// Table time: 2^20 ns, about 1.05 ms, modulo 2^32.
const TICK_SHIFT: u32 = 20;

const ASCENDING: u8 = 0x01;
const CLOSING: u8 = 0x02;
/// `enum weir_kind`.
const QUIC: u8 = 5;

/// IP protocol numbers.
const TCP_PROTOCOL: u8 = 6;
const UDP_PROTOCOL: u8 = 17;

/// Bytes of kernel memory of a bucket of eight entries, and of the line in which its flows wait for one.
pub const BUCKET_BYTES: usize = size_of::<Bucket>();
/// See [`BUCKET_BYTES`].
pub const WAITING_BYTES: usize = size_of::<Waiting>();
/// Entries of a bucket.
pub const BUCKET_FLOWS: usize = WAYS;
/// Bytes of the filter that tells most plain UDP apart; one to a table.
pub const FILTER_BYTES: usize = size_of::<live_ffi::Filter>();
/// 64-bit words of the hash function's secret.
pub const SEED_WORDS: usize = live_ffi::SEED_WORDS;

/// A secret of the hash function that everybody can work out from `number` (SplitMix64; Steele, Lea, Flood 2014): the same
/// in each run, for tables whose keys nobody chooses against them.
pub const fn open_seed(number: u64) -> [u64; SEED_WORDS] {
    let (mut seed, mut state, mut at) = ([0; SEED_WORDS], number, 0);
    while at < SEED_WORDS {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        seed[at] = mixed ^ mixed >> 31;
        at += 1;
    }
    seed
}

/// How a live table believes and forgets. Times are kept in steps of about 1.05 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveConfig {
    /// Flows that the table has room for; rounded up so that the number of buckets is a power of two.
    pub flows: u32,
    /// Forward payload before a flow gets an entry: none below the law's minimum window, since it could not be judged.
    pub admit_bytes: u32,
    /// Whether it must have been seen in both directions.
    pub admit_reverse: bool,
    /// After how long without a packet a TCP entry may go.
    pub idle_tcp: Duration,
    /// The same for UDP.
    pub idle_udp: Duration,
    /// The same after FIN or RST.
    pub linger: Duration,
    /// How long a flow that was seen in one direction waits.
    pub candidate_idle: Duration,
    /// How long one that was seen in both waits.
    pub candidate_reverse_idle: Duration,
    /// The secret of the hash function: eleven random words.
    pub seed: [u64; SEED_WORDS],
    /// Number of the present law among those of the table's life, modulo 256: what an entry that was kept by another law
    /// has counted is forgotten.
    pub law: u8,
}

impl LiveConfig {
    /// The defaults of a live link for `flows` flows under `params`. The seed is
    /// [`open_seed`]`(0)`: draw one where others choose keys.
    pub fn new(params: &Params, flows: u32) -> Self {
        Self {
            flows,
            admit_bytes: params.mss.saturating_mul(params.min_window_segments),
            admit_reverse: true,
            idle_tcp: Duration::from_secs(300),
            idle_udp: Duration::from_secs(60),
            linger: Duration::from_secs(10),
            candidate_idle: Duration::from_secs(5),
            candidate_reverse_idle: Duration::from_secs(30),
            seed: open_seed(0),
            law: 0,
        }
    }

    /// The same table for another law: flows, verdicts and votes stay, cycles begin anew with each flow's next packet.
    #[must_use]
    pub fn under(&self, params: &Params) -> Self {
        let Self { admit_bytes, .. } = Self::new(params, self.flows);
        Self { admit_bytes, law: self.law.wrapping_add(1), ..*self }
    }

    /// Buckets of the table; as many lines are there for flows that wait for an entry.
    pub fn buckets(&self) -> u32 {
        self.flows.clamp(1, 1 << 24).div_ceil(WAYS as u32).next_power_of_two()
    }

    /// Flows that the table has room for: `flows`, rounded up.
    pub fn capacity(&self) -> u32 {
        self.buckets() * WAYS as u32
    }

    /// Bytes of memory that the table takes, whatever is in it.
    pub fn bytes(&self) -> u64 {
        u64::from(self.buckets()) * (BUCKET_BYTES + WAITING_BYTES) as u64 + FILTER_BYTES as u64
    }

    fn raw(&self) -> TableParams {
        let ticks = |time: Duration| (time.as_nanos() >> TICK_SHIFT).min(i32::MAX as u64) as u32;
        TableParams {
            seed: self.seed,
            bucket_mask: self.buckets() - 1,
            waiting_mask: self.buckets() - 1,
            admit_bytes: self.admit_bytes,
            admit_reverse: self.admit_reverse.into(),
            idle_tcp: ticks(self.idle_tcp),
            idle_udp: ticks(self.idle_udp),
            linger: ticks(self.linger),
            candidate_idle: ticks(self.candidate_idle),
            candidate_reverse_idle: ticks(self.candidate_reverse_idle),
            law: self.law.into(),
        }
    }

    /// The bytes of `struct weir_table_params`, for programs that read them from a map.
    pub fn to_c_bytes(&self) -> Vec<u8> {
        ffi::to_bytes(&self.raw())
    }

    /// Bytes of `struct weir_table_params`.
    pub const C_BYTES: usize = size_of::<TableParams>();

    /// From the same bytes, with times as the table keeps them; `None` if there are not [`C_BYTES`](Self::C_BYTES) of
    /// them.
    pub fn from_c_bytes(bytes: &[u8]) -> Option<Self> {
        ffi::from_bytes(bytes).map(|raw| Self::from_raw(&raw))
    }

    fn from_raw(raw: &TableParams) -> Self {
        let time = |ticks: u32| Duration::from_nanos(u64::from(ticks) << TICK_SHIFT);
        Self {
            flows: raw.bucket_mask.saturating_add(1).saturating_mul(WAYS as u32),
            admit_bytes: raw.admit_bytes,
            admit_reverse: raw.admit_reverse != 0,
            idle_tcp: time(raw.idle_tcp),
            idle_udp: time(raw.idle_udp),
            linger: time(raw.linger),
            candidate_idle: time(raw.candidate_idle),
            candidate_reverse_idle: time(raw.candidate_reverse_idle),
            seed: raw.seed,
            law: raw.law as u8,
        }
    }
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Packets, a super-packet as one.
    pub packets: u64,
    /// Frame bytes, as the device counts them.
    pub bytes: u64,
}

/// What the table did (`struct weir_counters`). Packets are counted in both directions unless said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LiveCounters {
    /// TCP.
    pub tcp: Count,
    /// UDP that looks like QUIC.
    pub quic: Count,
    /// Other UDP.
    pub udp: Count,
    /// Other transports.
    pub other: Count,
    /// Not IP.
    pub not_ip: Count,
    /// Fragments other than first ones.
    pub fragment: Count,
    /// A header was cut short or out of reach.
    pub truncated: Count,
    /// Lengths that contradict each other.
    pub malformed: Count,
    /// Forward packets that were sent to the standard queue.
    pub to_standard: Count,
    /// Forward packets that were sent to the responsive queue.
    pub to_responsive: Count,
    /// Fragments, first ones too: only those have ports, and none is judged.
    pub ambiguous: u64,
    /// Packets that the queues dropped.
    pub loss_packets: u64,
    /// Their segments: a super-packet has several.
    pub loss_segments: u64,
    /// Packets that the queues marked with CE.
    pub mark_packets: u64,
    /// Their segments.
    pub mark_segments: u64,
    /// Signals on packets of flows without an entry.
    pub unowned_signals: u64,
    /// Signals that came when their packet's cycle could no longer be judged. Those that waited together count once.
    pub late_signals: u64,
    /// Packets that came with CE.
    pub arrived_ce: u64,
    /// Packets that were not judged because another processor held their bucket for too long.
    pub contended: u64,
    /// Entries made for new flows.
    pub admitted: u64,
    /// Entries that were found idle by a packet of their own flow, and began anew.
    pub expired: u64,
    /// Entries that made room for another flow, being idle or closed.
    pub evicted: u64,
    /// Packets of flows fit for an entry that found none.
    pub full: u64,
    /// Packets of new flows that found no place to wait.
    pub waiting_full: u64,
    /// Connections that began on the entry of an earlier one.
    pub reopened: u64,
    /// Changes of a flow's queue by a judgement; expiry and reopening are counted by themselves.
    pub switched: u64,
}

/// 64-bit words of the kernel's counters.
pub const COUNTER_WORDS: usize = live_ffi::COUNTERS;

impl LiveCounters {
    /// From the words of `struct weir_counters`, summed over processors.
    pub fn from_words(words: [u64; COUNTER_WORDS]) -> Self {
        Self::from_raw(&live_ffi::Counters::from_words(words))
    }

    fn from_raw(raw: &live_ffi::Counters) -> Self {
        // By enum weir_kind.
        let [not_ip, truncated, fragment, tcp, udp, quic, other, malformed] =
            std::array::from_fn(|kind| Count { packets: raw.packets[kind], bytes: raw.bytes[kind] });
        let [to_standard, to_responsive] = std::array::from_fn(|queue| Count {
            packets: raw.queue_packets[queue],
            bytes: raw.queue_bytes[queue],
        });
        Self {
            tcp,
            quic,
            udp,
            other,
            not_ip,
            fragment,
            truncated,
            malformed,
            to_standard,
            to_responsive,
            ambiguous: raw.ambiguous,
            loss_packets: raw.signal_packets[0],
            loss_segments: raw.signal_segments[0],
            mark_packets: raw.signal_packets[1],
            mark_segments: raw.signal_segments[1],
            unowned_signals: raw.unowned_signals,
            late_signals: raw.late_signals,
            arrived_ce: raw.arrived_ce,
            contended: raw.contended,
            admitted: raw.admitted,
            expired: raw.expired,
            evicted: raw.evicted,
            full: raw.full,
            waiting_full: raw.waiting_full,
            reopened: raw.reopened,
            switched: raw.switched,
        }
    }
}

/// What carries a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP that looks like QUIC.
    Quic,
}

/// An entry of a live table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveFlow {
    /// Its identity.
    pub key: FlowKey,
    /// The end whose packets go through the queue.
    pub source: SocketAddr,
    /// The end that they go to.
    pub destination: SocketAddr,
    /// What carries it.
    pub transport: Transport,
    /// Verdicts for both kinds of signal.
    pub class: Class,
    /// The queue that it has earned.
    pub choice: QueueChoice,
    /// The cycle it is in.
    pub cycle: CycleId,
    /// Cycles of the present connection that have ended.
    pub cycles: u32,
    /// Length of the last whole cycle, at most 4.29 s.
    pub rtt: Option<Duration>,
    /// Forward payload since the entry was made.
    pub bytes: Bytes,
    /// Forward packets since the entry was made.
    pub packets: u64,
    /// Windows of the cycles n (so far), n-1 and n-2.
    pub windows: [Bytes; 3],
    /// Signals booked to the same cycles; those that wait in the mailbox are not among them yet.
    pub signals: SignalPair<[u32; 3]>,
    /// Votes for both kinds of signal.
    pub votes: SignalPair<Votes>,
    /// Signals that came too late to be judged.
    pub late_signals: u16,
    /// Judgements not made although there was a signal.
    pub withheld: u16,
    /// When it was last seen in either direction, in steps of 2^20 ns modulo 2^32 of the table's clock.
    pub seen: u32,
    /// FIN or RST was seen, and no data since.
    pub closing: bool,
}

impl LiveFlow {
    /// Time since it was last seen, by the table's clock: none if that was after `now`. Wraps after 26 days.
    pub fn idle(&self, now: Time) -> Duration {
        let ticks = ((now.as_nanos() >> TICK_SHIFT) as u32).wrapping_sub(self.seen);
        Duration::from_nanos(if ticks > u32::MAX / 2 { 0 } else { u64::from(ticks) << TICK_SHIFT })
    }
}

/// The version of a bucket as the kernel has it in memory: odd while it is being written, another one afterwards. `None`
/// if it is not as long as a bucket.
pub fn version_of(bucket: &[u8]) -> Option<u32> {
    ffi::from_bytes(bucket).map(|bucket: Bucket| bucket.version)
}

/// The flows of one bucket as the kernel has it in memory, whose present law is number `law` ([`LiveConfig::law`]); none if
/// it is not as long as a bucket.
pub fn flows_of(bucket: &[u8], params: &Params, law: u8) -> Vec<LiveFlow> {
    ffi::from_bytes(bucket).map_or_else(Vec::new, |bucket| entries(&bucket, &params.to_raw(), law).collect())
}

fn entries<'a>(bucket: &'a Bucket, params: &'a ffi::Params, law: u8) -> impl Iterator<Item = LiveFlow> + 'a {
    (0..WAYS).filter(|way| bucket.tag[*way] != 0).map(move |way| view(bucket, way, params, law))
}

fn view(bucket: &Bucket, way: usize, params: &ffi::Params, law: u8) -> LiveFlow {
    let (entry, flags) = (&bucket.way[way], bucket.flags[way]);
    let (key, raw) = (&entry.key, &mut entry.flow.clone());
    // What another law has counted would be misread.
    live_ffi::take_over(raw, law);
    // Before the first packet that tells, there is only the protocol.
    let quic = raw.kind == QUIC || raw.kind == 0 && key.protocol == UDP_PROTOCOL;
    let (low, high) = (endpoint(key.low, key.low_port), endpoint(key.high, key.high_port));
    let (source, destination) = if flags & ASCENDING != 0 { (low, high) } else { (high, low) };
    let counted = |kind| [0, 1, 2].map(|age| ffi::counted(params, raw, kind, age));
    LiveFlow {
        // The key itself has no protocol where the law does not tell them apart.
        key: FlowKey { protocol: if quic { UDP_PROTOCOL } else { TCP_PROTOCOL }, ..FlowKey::from_raw(key) },
        source,
        destination,
        transport: if quic { Transport::Quic } else { Transport::Tcp },
        class: Class { loss: Verdict::from_raw(raw.verdict[0]), ecn: Verdict::from_raw(raw.verdict[1]) },
        choice: choice_from_raw(ffi::choice(params, raw) as u8),
        cycle: CycleId(raw.cycle),
        cycles: raw.cycle.wrapping_sub(raw.first_cycle),
        rtt: (raw.last_rtt != 0).then(|| Duration::from_nanos(raw.last_rtt.into())),
        bytes: Bytes(raw.bytes),
        packets: raw.packets,
        windows: raw.window.map(|bytes| Bytes(bytes.into())),
        signals: SignalPair { loss: counted(0), mark: counted(1) },
        votes: SignalPair { loss: Votes::from_raw(raw.votes[0]), mark: Votes::from_raw(raw.votes[1]) },
        late_signals: raw.late_signals,
        withheld: raw.withheld,
        seen: bucket.seen[way],
        closing: flags & CLOSING != 0,
    }
}

/// An ended cycle as the kernel writes it to its ring of events (`struct weir_event` of `bpf/crq_maps.h`).
#[derive(Clone, Copy, Debug)]
pub struct LiveEvent {
    /// When, on the kernel's monotonic clock.
    pub time: Time,
    /// The flow.
    pub key: FlowKey,
    outcome: ffi::Outcome,
}

/// Bytes of an event's key, and of the outcome that ends it.
const KEY_BYTES: usize = size_of::<ffi::Key>();
const OUTCOME_BYTES: usize = size_of::<ffi::Outcome>();

impl LiveEvent {
    /// From the record's bytes; `None` if it is not as long as one.
    pub fn from_bytes(record: &[u8]) -> Option<Self> {
        let time = u64::from_ne_bytes(record.get(..8)?.try_into().ok()?);
        let key = ffi::from_bytes(record.get(8..8 + KEY_BYTES)?)?;
        let outcome = ffi::from_bytes(record.get(record.len().checked_sub(OUTCOME_BYTES)?..)?)?;
        Some(Self { time: Time::from_nanos(time), key: FlowKey::from_raw(&key), outcome })
    }

    /// Tells `sink` of the cycle, the judgement and the change of queue, in this order, as [`Law::arrival`] does. Times
    /// are moved back by `origin`.
    ///
    /// [`Law::arrival`]: crate::Law::arrival
    pub fn report(&self, flow: FlowId, origin: Time, sink: &mut dyn LawSink) {
        let shift = |time: u64| Time::from_nanos(time.saturating_sub(origin.as_nanos()));
        let mut outcome = self.outcome;
        outcome.end.started = shift(outcome.end.started).as_nanos();
        outcome.end.ended = shift(outcome.end.ended).as_nanos();
        crate::law::report(flow, &outcome, shift(self.time.as_nanos()), sink);
    }
}

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

    /// Runs a packet of `wire_bytes` bytes: forward before it is queued, or reverse. Forward packets of unknown flows and
    /// of no flow go to the standard queue.
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

    /// Books a signal that the bottleneck gave to a packet that was stamped with `cycle` and had `segments` segments. It
    /// counts from the flow's next packet on.
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
        self.buckets.iter().flat_map(|bucket| entries(bucket, &self.law, self.table.law as u8))
    }

    /// The flow of a packet, if it has an entry.
    pub fn flow_of(&self, packet: &ParsedPacket) -> Option<LiveFlow> {
        let (key, _) = ffi::key(packet.raw(), self.params.key_has_protocol);
        let hash = live_ffi::hash(&self.table, &key);
        let bucket = &self.buckets[live_ffi::bucket_of(&self.table, hash)];
        live_ffi::way_of(bucket, &key, hash).map(|way| view(bucket, way, &self.law, self.table.law as u8))
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

    /// Whether the filter counts just the entries there are: what tells plain UDP of no flow must not wear off.
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
        self.waiting[index].iter().flat_map(ffi::to_bytes).collect()
    }

    /// The counters as the kernel's programs keep them.
    pub fn counter_words(&self) -> [u64; COUNTER_WORDS] {
        self.counters.to_words()
    }
}
