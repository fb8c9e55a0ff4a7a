//! The border to `bpf/table.h`, as `ffi.rs` is to the law's: mirrors of its structures and safe wrappers. A test
//! compares sizes and offsets of both sides.

#![allow(unsafe_code)]

use crate::ffi::{Flow, Key, Outcome, Packet, Params, Plain};

/// Entries of a bucket.
pub(crate) const WAYS: usize = 8;

/// Mirrors `struct weir_entry`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) pending: [u64; 2],
    pub(crate) key: Key,
    pub(crate) flow: Flow,
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
    pub(crate) until: u32,
}

/// Mirrors `struct weir_waiting`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) way: [Candidate; 4],
    pub(crate) challenge: u32,
    pub(crate) mark: u32,
}

/// Words of the hash function's secret.
pub(crate) const SEED_WORDS: usize = 11;

/// Counts of `struct weir_filter`.
pub(crate) const FILTER: usize = 16_384;

/// Mirrors `struct weir_filter`.
pub(crate) type Filter = [u32; FILTER];

/// Mirrors `struct weir_table_params`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableParams {
    pub(crate) seed: [u64; SEED_WORDS],
    pub(crate) ipv4_sum: u64,
    pub(crate) bucket_mask: u32,
    pub(crate) waiting_mask: u32,
    pub(crate) admit_bytes: u32,
    pub(crate) admit_reverse: u32,
    pub(crate) idle_tcp: u32,
    pub(crate) idle_udp: u32,
    pub(crate) linger: u32,
    pub(crate) candidate_idle: u32,
    pub(crate) candidate_reverse_idle: u32,
    pub(crate) law: u32,
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
    pub(crate) lapsed: u64,
    pub(crate) late_signals: u64,
    pub(crate) ambiguous: u64,
}

// SAFETY: integers without padding, as the compared layouts show.
unsafe impl Plain for Bucket {}
// SAFETY: as above.
unsafe impl Plain for Waiting {}
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
    fn weir_native_hash(params: *const TableParams, key: *const Key) -> u32;
    fn weir_native_hash_prepare(params: *mut TableParams);
    #[cfg(test)]
    fn weir_native_hash_ipv4(params: *const TableParams, key: *const Key) -> u32;
    fn weir_native_filter_of(one_port: u32, other_port: u32) -> u32;
    fn weir_native_is_filtered(key: *const Key) -> u32;
    fn weir_native_filter_passes(filter: *const Filter, packet: *const Packet) -> u32;
    fn weir_native_bucket_of(params: *const TableParams, hash: u32) -> u32;
    #[cfg(test)]
    fn weir_native_tag_of(hash: u32) -> u32;
    fn weir_native_way_of(bucket: *const Bucket, key: *const Key, hash: u32) -> u32;
    fn weir_native_take_over(flow: *mut Flow, law: u32);
    fn weir_native_may_go(params: *const TableParams, bucket: *const Bucket, way: u32, tick: u32) -> u32;
    fn weir_native_book(
        law: *const Params,
        entry: *mut Entry,
        kind: u32,
        cycle: u32,
        segments: u32,
        counters: *mut Counters,
    );
    fn weir_native_count(counters: *mut Counters, packet: *const Packet, bytes: u32);
    fn weir_native_count_choice(counters: *mut Counters, choice: u32, bytes: u32);
    fn weir_native_count_signal(counters: *mut Counters, kind: u32, segments: u32);
    fn weir_native_table_forward(
        law: *const Params,
        params: *const TableParams,
        bucket: *mut Bucket,
        waiting: *mut Waiting,
        filter: *mut Filter,
        packet: *const Packet,
        key: *const Key,
        hash: u32,
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
        filter: *mut Filter,
        packet: *const Packet,
        key: *const Key,
        hash: u32,
        ascending: u32,
        now: u64,
        counters: *mut Counters,
    ) -> u32;
    fn weir_native_short_cut(
        law: *const Params,
        params: *const TableParams,
        bucket: *mut Bucket,
        packet: *const Packet,
        key: *const Key,
        hash: u32,
        reverse: u32,
        now: u64,
        cycle: *mut u32,
        choice: *mut u32,
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
    pub(crate) hash: u32,
    pub(crate) ascending: bool,
    pub(crate) now: u64,
}

pub(crate) fn wants(law: &Params, packet: &Packet, reverse: bool) -> bool {
    // SAFETY: both references are valid mirrors of the C structures.
    unsafe { weir_native_wants(law, packet, reverse.into()) != 0 }
}

/// Fills in what hashes need besides the secret.
pub(crate) fn prepare_hash(params: &mut TableParams) {
    // SAFETY: a valid mirror of the C structure.
    unsafe { weir_native_hash_prepare(params) }
}

/// As [`hash`], of a key whose addresses are IPv4.
#[cfg(test)]
pub(crate) fn hash_ipv4(params: &TableParams, key: &Key) -> u32 {
    // SAFETY: both references are valid mirrors of the C structures.
    unsafe { weir_native_hash_ipv4(params, key) }
}

pub(crate) fn hash(params: &TableParams, key: &Key) -> u32 {
    // SAFETY: both references are valid mirrors of the C structures.
    unsafe { weir_native_hash(params, key) }
}

/// The index of the bucket, and of the waiting line, for a hash.
pub(crate) fn bucket_of(params: &TableParams, hash: u32) -> usize {
    // SAFETY: the reference is a valid mirror of the C structure.
    unsafe { weir_native_bucket_of(params, hash) as usize }
}

/// The tag of a hash in its bucket.
#[cfg(test)]
pub(crate) fn tag_of(hash: u32) -> u32 {
    // SAFETY: from number to number.
    unsafe { weir_native_tag_of(hash) }
}

/// Which count of the filter an entry is in, if in any.
pub(crate) fn filter_of(key: &Key) -> Option<usize> {
    // SAFETY: the reference is a valid mirror of the C structure; the others are numbers.
    unsafe {
        (weir_native_is_filtered(key) != 0)
            .then(|| weir_native_filter_of(key.low_port.into(), key.high_port.into()) as usize)
    }
}

/// Whether a packet is worth a key and a bucket.
pub(crate) fn filter_passes(filter: &Filter, packet: &Packet) -> bool {
    // SAFETY: both references are valid mirrors of the C structures.
    unsafe { weir_native_filter_passes(filter, packet) != 0 }
}

/// The way that holds a key, if one does.
pub(crate) fn way_of(bucket: &Bucket, key: &Key, hash: u32) -> Option<usize> {
    // SAFETY: both references are valid mirrors of the C structures.
    let way = unsafe { weir_native_way_of(bucket, key, hash) } as usize;
    (way < WAYS).then_some(way)
}

/// Whether an entry has been idle for so long that another flow may have its place. `way` is one that is taken.
pub(crate) fn may_go(params: &TableParams, bucket: &Bucket, way: usize, tick: u32) -> bool {
    // SAFETY: both references are valid mirrors of the C structures; the C side masks the way.
    unsafe { weir_native_may_go(params, bucket, way as u32, tick) != 0 }
}

/// Makes a flow that of law number `law`, as its next packet will.
pub(crate) fn take_over(flow: &mut Flow, law: u8) {
    // SAFETY: the reference is a valid mirror of the C structure.
    unsafe { weir_native_take_over(flow, law.into()) }
}

/// Puts a signal into an entry's mailbox.
pub(crate) fn book(
    law: &Params,
    entry: &mut Entry,
    kind: u32,
    cycle: u32,
    segments: u32,
    counters: &mut Counters,
) {
    // SAFETY: all references are valid mirrors of the C structures; the C side masks the kind.
    unsafe { weir_native_book(law, entry, kind, cycle, segments, counters) }
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
    filter: &mut Filter,
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
            filter,
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
    filter: &mut Filter,
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
            filter,
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

/// What the fast path did with a packet.
pub(crate) enum ShortCut {
    /// Nothing.
    Declined,
    /// It works with another key or hash.
    OtherKey,
    /// The packet is of the entry at `way`; the rest is for forward packets.
    Taken { way: usize, cycle: u32, choice: u32 },
}

/// Runs a packet the fast way.
pub(crate) fn short_cut(
    settings: &Settings<'_>,
    bucket: &mut Bucket,
    visit: &Visit<'_>,
    reverse: bool,
) -> ShortCut {
    let (mut cycle, mut choice) = (0, 0);
    // SAFETY: all references are valid mirrors of the C structures, and the C keeps none of them.
    let way = unsafe {
        weir_native_short_cut(
            settings.law,
            settings.table,
            bucket,
            visit.packet,
            visit.key,
            visit.hash,
            reverse.into(),
            visit.now,
            &mut cycle,
            &mut choice,
        )
    } as usize;
    match way {
        WAYS => ShortCut::Declined,
        way if way < WAYS => ShortCut::Taken { way, cycle, choice },
        _ => ShortCut::OtherKey,
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::{Bucket, Candidate, Counters, Entry, Filter, TableParams, WAYS, Waiting};

    unsafe extern "C" {
        static weir_entry_layout: [u32; 4];
        static weir_bucket_layout: [u32; 7];
        static weir_candidate_layout: [u32; 4];
        static weir_waiting_layout: [u32; 4];
        static weir_table_params_layout: [u32; 13];
        static weir_counters_layout: [u32; 2];
        static weir_filter_layout: [u32; 1];
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
    fn no_signal_is_booked_ahead_of_its_cycle() {
        let law = crate::Params::default().to_raw();
        for now in [3, 4, 5, 6, 0x7fff, 0x8001, u32::MAX] {
            for back in 0..=6 {
                for kind in 0..2 {
                    let (mut entry, mut counters) = (Entry::default(), Counters::default());
                    entry.flow.cycle = now;
                    let stamp = now.wrapping_sub(back) & 0x7fff;
                    super::book(&law, &mut entry, kind, stamp, 1, &mut counters);
                    let late = back > 2;
                    assert_eq!(counters.late_signals, u64::from(late), "{back} before {now}");
                    assert_eq!(entry.flow.late_signals, u16::from(late));
                    assert_eq!(entry.pending[kind as usize] == 0, late);
                    // A cycle may have ended elsewhere before the signal was there: it is not the new one's.
                    let lane = entry.pending[kind as usize] >> (16 * (now.wrapping_add(1) & 3));
                    assert_eq!(lane & 0xffff, 0, "{back} before {now}");
                }
            }
        }
        // Where signals go to the cycle that is current when they are heard of, none is late.
        let law = crate::Params::preset(crate::Preset::Comsys).to_raw();
        let (mut entry, mut counters) = (Entry::default(), Counters::default());
        entry.flow.cycle = 100;
        super::book(&law, &mut entry, 0, 7, 1, &mut counters);
        assert_eq!((entry.pending[0], counters.late_signals), (1, 0));
    }

    #[test]
    fn layouts_are_those_of_the_c_side() {
        layout!(Entry, weir_entry_layout, key, flow, pending);
        layout!(Bucket, weir_bucket_layout, version, contended, tag, seen, flags, way);
        layout!(Candidate, weir_candidate_layout, tag, bytes, until);
        layout!(Waiting, weir_waiting_layout, way, challenge, mark);
        layout!(Filter, weir_filter_layout,);
        layout!(
            TableParams,
            weir_table_params_layout,
            seed,
            ipv4_sum,
            bucket_mask,
            waiting_mask,
            admit_bytes,
            admit_reverse,
            idle_tcp,
            idle_udp,
            linger,
            candidate_idle,
            candidate_reverse_idle,
            law
        );
        layout!(Counters, weir_counters_layout, ambiguous);
        // The promise of docs/model/flow-table.md: 264 bytes per flow at most in a table for 65,536, what waits and the
        // filter included.
        let flows = 65_536;
        let bytes = flows / WAYS * (size_of::<Bucket>() + size_of::<Waiting>()) + size_of::<Filter>();
        assert!(bytes <= flows * 264, "{bytes}");
    }
}
