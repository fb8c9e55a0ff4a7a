//! How much a live table remembers, and when it forgets.

use weir_core::Duration;

use super::{BUCKET_BYTES, FILTER_BYTES, SEED_WORDS, TICK_SHIFT, WAITING_BYTES};
use crate::Params;
use crate::ffi;
use crate::live_ffi::{TableParams, WAYS, prepare_hash};

/// A secret of the hash function that everybody can work out from `number` (SplitMix64; Steele, Lea, Flood 2014): the
/// same in each run, for tables whose keys nobody chooses against them.
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
    /// How long twice `admit_bytes` of payload keep a place among those that wait, less as much less; and for how long
    /// a flow that was seen in one direction may be silent beyond that.
    pub candidate_idle: Duration,
    /// The same silence of one that was seen in both.
    pub candidate_reverse_idle: Duration,
    /// The secret of the hash function: eleven random words.
    pub seed: [u64; SEED_WORDS],
    /// Number of the present law among those of the table's life, modulo 256: what an entry that was kept by another
    /// law has counted is forgotten.
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

    pub(super) fn raw(&self) -> TableParams {
        let ticks = |time: Duration| (time.as_nanos() >> TICK_SHIFT).min(i32::MAX as u64) as u32;
        let mut raw = TableParams {
            seed: self.seed,
            ipv4_sum: 0,
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
        };
        prepare_hash(&mut raw);
        raw
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

    pub(super) fn from_raw(raw: &TableParams) -> Self {
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
