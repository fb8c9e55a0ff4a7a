//! The border to `bpf/table.h`, as `ffi.rs` is to the law's: mirrors of its structures and safe wrappers. A test compares
//! sizes and offsets of both sides.

#![allow(unsafe_code)]

use crate::ffi::{Flow, Key, Outcome, Packet, Params, Plain};

/// Entries of a bucket.
pub(crate) const WAYS: usize = 8;

/// Mirrors `struct weir_entry`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) flow: Flow,
    pub(crate) pending: [u64; 2],
}

/// Mirrors `struct weir_bucket`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) version: u32,
    pub(crate) contended: u32,
    pub(crate) tag: [u16; WAYS],
    pub(crate) seen: [u32; WAYS],
    pub(crate) flags: [u8; WAYS],
    pub(crate) way: [Entry; WAYS],
}

/// Mirrors `struct weir_candidate`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) tag: u32,
    pub(crate) bytes: u32,
    pub(crate) seen: u32,
    pub(crate) flags: u32,
}

/// Mirrors `struct weir_waiting`.
pub(crate) type Waiting = [Candidate; 4];

/// Mirrors `struct weir_table_params`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableParams {
    pub(crate) seed: [u64; 2],
    pub(crate) bucket_mask: u32,
    pub(crate) waiting_mask: u32,
    pub(crate) admit_bytes: u32,
    pub(crate) admit_reverse: u32,
    pub(crate) idle_tcp: u32,
    pub(crate) idle_udp: u32,
    pub(crate) linger: u32,
    pub(crate) candidate_idle: u32,
    pub(crate) candidate_reverse_idle: u32,
    pub(crate) reserved: u32,
}

/// Mirrors `struct weir_counters`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) packets: [u64; 8],
    pub(crate) bytes: [u64; 8],
    pub(crate) queue_packets: [u64; 2],
    pub(crate) queue_bytes: [u64; 2],
    pub(crate) signal_packets: [u64; 2],
    pub(crate) signal_segments: [u64; 2],
    pub(crate) unowned_signals: u64,
    pub(crate) arrived_ce: u64,
    pub(crate) contended: u64,
    pub(crate) admitted: u64,
    pub(crate) expired: u64,
    pub(crate) evicted: u64,
    pub(crate) full: u64,
    pub(crate) waiting_full: u64,
    pub(crate) reopened: u64,
    pub(crate) switched: u64,
    pub(crate) late_signals: u64,
    pub(crate) ambiguous: u64,
}

// SAFETY: integers without padding, as the compared layouts show.
unsafe impl Plain for Bucket {}
// SAFETY: as above.
unsafe impl Plain for Candidate {}
// SAFETY: as above.
unsafe impl Plain for TableParams {}

/// Words of [`Counters`].
pub(crate) const COUNTERS: usize = size_of::<Counters>() / 8;

impl Counters {
    /// All counters in order.
    pub(crate) fn from_words(words: [u64; COUNTERS]) -> Self {
        // SAFETY: a structure of nothing but as many 64-bit words.
        unsafe { std::mem::transmute(words) }
    }

    /// The other way round.
    pub(crate) fn to_words(self) -> [u64; COUNTERS] {
        // SAFETY: as above.
        unsafe { std::mem::transmute(self) }
    }
}

unsafe extern "C" {
    fn weir_native_wants(law: *const Params, packet: *const Packet, reverse: u32) -> u32;
    fn weir_native_hash(params: *const TableParams, key: *const Key) -> u64;
    fn weir_native_way_of(bucket: *const Bucket, key: *const Key, hash: u64) -> u32;
    fn weir_native_may_go(params: *const TableParams, bucket: *const Bucket, way: u32, tick: u32) -> u32;
    fn weir_native_book(law: *const Params, entry: *mut Entry, kind: u32, cycle: u32, segments: u32);
    fn weir_native_count(counters: *mut Counters, packet: *const Packet, bytes: u32);
    fn weir_native_count_choice(counters: *mut Counters, choice: u32, bytes: u32);
    fn weir_native_count_signal(counters: *mut Counters, kind: u32, segments: u32);
    fn weir_native_table_forward(
        law: *const Params,
        params: *const TableParams,
        bucket: *mut Bucket,
        waiting: *mut Waiting,
        packet: *const Packet,
        key: *const Key,
        hash: u64,
        ascending: u32,
        now: u64,
        counters: *mut Counters,
        out: *mut Outcome,
    ) -> u32;
    fn weir_native_table_reverse(
        law: *const Params,
        params: *const TableParams,
        bucket: *mut Bucket,
        waiting: *mut Waiting,
        packet: *const Packet,
        key: *const Key,
        hash: u64,
        ascending: u32,
        now: u64,
        counters: *mut Counters,
    ) -> u32;
}

/// What stands still while packets come.
pub(crate) struct Settings<'a> {
    pub(crate) law: &'a Params,
    pub(crate) table: &'a TableParams,
}

/// A packet on its way to the table.
pub(crate) struct Visit<'a> {
    pub(crate) packet: &'a Packet,
    pub(crate) key: &'a Key,
    pub(crate) hash: u64,
    pub(crate) ascending: bool,
    pub(crate) now: u64,
}

pub(crate) fn wants(law: &Params, packet: &Packet, reverse: bool) -> bool {
    // SAFETY: both references are valid mirrors of the C structures.
    unsafe { weir_native_wants(law, packet, reverse.into()) != 0 }
}

pub(crate) fn hash(params: &TableParams, key: &Key) -> u64 {
    // SAFETY: both references are valid mirrors of the C structures.
    unsafe { weir_native_hash(params, key) }
}

/// The way that holds a key, if one does.
pub(crate) fn way_of(bucket: &Bucket, key: &Key, hash: u64) -> Option<usize> {
    // SAFETY: both references are valid mirrors of the C structures.
    let way = unsafe { weir_native_way_of(bucket, key, hash) } as usize;
    (way < WAYS).then_some(way)
}

/// Whether an entry has been idle for so long that another flow may have its place. `way` is one that is taken.
pub(crate) fn may_go(params: &TableParams, bucket: &Bucket, way: usize, tick: u32) -> bool {
    // SAFETY: both references are valid mirrors of the C structures; the C side masks the way.
    unsafe { weir_native_may_go(params, bucket, way as u32, tick) != 0 }
}

/// Puts a signal into an entry's mailbox.
pub(crate) fn book(law: &Params, entry: &mut Entry, kind: u32, cycle: u32, segments: u32) {
    // SAFETY: both references are valid mirrors of the C structures; the C side masks the kind.
    unsafe { weir_native_book(law, entry, kind, cycle, segments) }
}

pub(crate) fn count(counters: &mut Counters, packet: &Packet, bytes: u32) {
    // SAFETY: both references are valid mirrors of the C structures.
    unsafe { weir_native_count(counters, packet, bytes) }
}

pub(crate) fn count_choice(counters: &mut Counters, choice: u32, bytes: u32) {
    // SAFETY: the reference is a valid mirror of the C structure; the C side masks the choice.
    unsafe { weir_native_count_choice(counters, choice, bytes) }
}

pub(crate) fn count_signal(counters: &mut Counters, kind: u32, segments: u32) {
    // SAFETY: the reference is a valid mirror of the C structure; the C side masks the kind.
    unsafe { weir_native_count_signal(counters, kind, segments) }
}

/// Runs a forward packet; the way of its flow, if it has one.
pub(crate) fn forward(
    settings: &Settings<'_>,
    bucket: &mut Bucket,
    waiting: &mut Waiting,
    visit: &Visit<'_>,
    counters: &mut Counters,
    out: &mut Outcome,
) -> Option<usize> {
    // SAFETY: all references are valid mirrors of the C structures, and the C keeps none of them.
    let way = unsafe {
        weir_native_table_forward(
            settings.law,
            settings.table,
            bucket,
            waiting,
            visit.packet,
            visit.key,
            visit.hash,
            visit.ascending.into(),
            visit.now,
            counters,
            out,
        )
    } as usize;
    (way < WAYS).then_some(way)
}

/// Runs a reverse packet; the way of its flow, if it has one.
pub(crate) fn reverse(
    settings: &Settings<'_>,
    bucket: &mut Bucket,
    waiting: &mut Waiting,
    visit: &Visit<'_>,
    counters: &mut Counters,
) -> Option<usize> {
    // SAFETY: all references are valid mirrors of the C structures, and the C keeps none of them.
    let way = unsafe {
        weir_native_table_reverse(
            settings.law,
            settings.table,
            bucket,
            waiting,
            visit.packet,
            visit.key,
            visit.hash,
            visit.ascending.into(),
            visit.now,
            counters,
        )
    } as usize;
    (way < WAYS).then_some(way)
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use std::hash::{DefaultHasher, Hasher};

    use super::{Bucket, Candidate, Counters, Entry, TableParams, Waiting};
    use crate::ffi::Key;

    unsafe extern "C" {
        static weir_entry_layout: [u32; 4];
        static weir_bucket_layout: [u32; 7];
        static weir_candidate_layout: [u32; 5];
        static weir_table_params_layout: [u32; 11];
        static weir_counters_layout: [u32; 2];
    }

    macro_rules! layout {
        ($type:ty, $c:ident, $($field:ident),*) => {
            let ours = [size_of::<$type>(), $(offset_of!($type, $field)),*];
            // SAFETY: a constant array of the C side; its length is checked there against the same count.
            let theirs = unsafe { $c };
            assert_eq!(ours.map(|offset| offset as u32), theirs, stringify!($type));
        };
    }

    #[test]
    fn the_hash_is_siphash_1_3() {
        // The standard library's, which has both halves of the secret zero.
        for first in 0..=255 {
            let key = Key {
                low: std::array::from_fn(|i| first ^ i as u8),
                high: [first; 16],
                low_port: u16::from(first) << 7,
                high_port: 443,
                protocol: 6,
                ..Key::default()
            };
            let mut theirs = DefaultHasher::new();
            theirs.write(&key.low);
            theirs.write(&key.high);
            theirs.write(&key.low_port.to_ne_bytes());
            theirs.write(&key.high_port.to_ne_bytes());
            theirs.write(&[key.protocol, 0, 0, 0]);
            assert_eq!(super::hash(&TableParams::default(), &key), theirs.finish());
            let secret = TableParams { seed: [1, 0], ..TableParams::default() };
            assert_ne!(super::hash(&secret, &key), theirs.finish());
        }
    }

    #[test]
    fn layouts_are_those_of_the_c_side() {
        layout!(Entry, weir_entry_layout, key, flow, pending);
        layout!(Bucket, weir_bucket_layout, version, contended, tag, seen, flags, way);
        layout!(Candidate, weir_candidate_layout, tag, bytes, seen, flags);
        layout!(
            TableParams,
            weir_table_params_layout,
            seed,
            bucket_mask,
            waiting_mask,
            admit_bytes,
            admit_reverse,
            idle_tcp,
            idle_udp,
            linger,
            candidate_idle,
            candidate_reverse_idle
        );
        layout!(Counters, weir_counters_layout, ambiguous);
        // The promise of docs/table.md: 192 bytes per flow, what waits included.
        assert!(size_of::<Bucket>() + size_of::<Waiting>() <= 8 * 192);
    }
}
