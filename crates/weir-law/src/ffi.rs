//! The border to the C of `bpf/packet.h` and `bpf/law.h`, compiled natively by `build.rs`: mirrors of its structures
//! and safe wrappers. This is the only unsafe code of the crate. A test compares sizes and offsets of both sides.

#![allow(unsafe_code)]

/// What the parser read. Mirrors `struct weir_packet`.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) src: [u8; 16],
    pub(crate) dst: [u8; 16],
    pub(crate) tcp_seq: u32,
    pub(crate) tcp_ack: u32,
    pub(crate) tsval: u32,
    pub(crate) tsecr: u32,
    pub(crate) sack_right: u32,
    pub(crate) ip_bytes: u32,
    pub(crate) payload_bytes: u32,
    pub(crate) frame_bytes: u32,
    pub(crate) quic_short_bytes: u32,
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
    pub(crate) tcp_window: u16,
    pub(crate) l3_offset: u16,
    pub(crate) l4_offset: u16,
    pub(crate) ecn_offset: u16,
    pub(crate) kind: u8,
    pub(crate) protocol: u8,
    pub(crate) ip_version: u8,
    pub(crate) ecn: u8,
    pub(crate) tcp_flags: u8,
    pub(crate) tcp_options: u8,
    pub(crate) quic_flags: u8,
    pub(crate) quic_first: u8,
    pub(crate) layers: u8,
    pub(crate) reserved: [u8; 7],
}

/// Both ends of a flow in canonical order. Mirrors `struct weir_key`.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) low: [u8; 16],
    pub(crate) high: [u8; 16],
    pub(crate) low_port: u16,
    pub(crate) high_port: u16,
    pub(crate) protocol: u8,
    pub(crate) reserved: [u8; 3],
}

/// Settings of the law; [`crate::Params`] is the documented face. Mirrors `struct weir_law_params`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Params {
    pub(crate) mss: u32,
    pub(crate) min_window_segments: u32,
    pub(crate) response_numerator: u32,
    pub(crate) response_denominator: u32,
    pub(crate) main_signal: u8,
    pub(crate) tie: u8,
    pub(crate) spin_debounce: u8,
    pub(crate) spin_from_accepted: u8,
    pub(crate) first_spin_counts: u8,
    pub(crate) coalesced_spin: u8,
    pub(crate) long_header_counts: u8,
    pub(crate) quic_needs_initial: u8,
    pub(crate) full_cycles: u8,
    pub(crate) modular_sequence: u8,
    pub(crate) marker_needs_data: u8,
    pub(crate) second_marker_on_match: u8,
    pub(crate) sack_completes_half: u8,
    pub(crate) first_bytes_count: u8,
    pub(crate) skip_first_cycle: u8,
    pub(crate) min_window_on_signalled: u8,
    pub(crate) min_window_inclusive: u8,
    pub(crate) wide_arithmetic: u8,
    pub(crate) book_by_packet: u8,
    pub(crate) byte_counters: u8,
    pub(crate) count_segments: u8,
    pub(crate) count_arriving_ce: u8,
    pub(crate) udp_bytes_from_frame: u8,
    pub(crate) reset_on_switch: u8,
    pub(crate) reset_on_open: u8,
    pub(crate) full_parser: u8,
    pub(crate) key_has_protocol: u8,
    pub(crate) ignore_optimistic_acks: u8,
    pub(crate) plausible_sequence: u8,
    pub(crate) lapse_round_trips: u8,
    pub(crate) verdict_lapses: u8,
    pub(crate) votes_kept: u8,
    pub(crate) spin_needs_reverse: u8,
    pub(crate) loss_without_ecn: u8,
    pub(crate) timestamp_cycles: u8,
    pub(crate) cycle_guard: u8,
    pub(crate) whole_conduct: u8,
    pub(crate) unused: [u8; 3],
}

/// State of one flow. Mirrors `struct weir_flow`; of its unions the fields that most settings and TCP use.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) kind: u8,
    pub(crate) law: u8,
    pub(crate) verdict: [u8; 2],
    pub(crate) state: u16,
    pub(crate) withheld: u16,
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    pub(crate) cycle: u32,
    pub(crate) cycle_packets: u32,
    pub(crate) right_edge: u32,
    pub(crate) highest_ack: u32,
    pub(crate) marker: u32,
    pub(crate) second_marker: u32,
    pub(crate) isn: u32,
    pub(crate) syn: u32,
    pub(crate) next_look: u32,
    pub(crate) window: [u32; 3],
    pub(crate) cycle_started: u64,
    pub(crate) first_cycle: u32,
    pub(crate) signal_floor: u32,
    pub(crate) loss: [u16; 3],
    pub(crate) mark: [u16; 3],
    pub(crate) votes: [[u16; 2]; 2],
    pub(crate) last_rtt: u32,
    pub(crate) late_signals: u16,
    pub(crate) looks: u8,
    pub(crate) shortest: u8,
    pub(crate) newest: u32,
    /// `struct weir_conduct`, which nothing here looks into.
    pub(crate) conduct: [[u16; 12]; 3],
}

/// A cycle that ended. Mirrors `struct weir_cycle_end`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CycleEnd {
    pub(crate) started: u64,
    pub(crate) ended: u64,
    pub(crate) cycle: u32,
    pub(crate) window: u32,
    pub(crate) packets: u32,
    pub(crate) losses: u32,
    pub(crate) marks: u32,
    pub(crate) first: u32,
}

/// A judgement with its inputs. Mirrors `struct weir_assessment`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Assessment {
    pub(crate) cycle: u32,
    pub(crate) window: u32,
    pub(crate) window_between: u32,
    pub(crate) window_signalled: u32,
    pub(crate) signals: [u32; 2],
    pub(crate) votes: [[u32; 2]; 2],
    pub(crate) vote: [u8; 2],
    pub(crate) class_before: u8,
    pub(crate) class_after: u8,
    pub(crate) choice_before: u8,
    pub(crate) choice_after: u8,
    pub(crate) judgement: u8,
    pub(crate) reserved: u8,
}

/// What a forward packet did. Mirrors `struct weir_outcome`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) end: CycleEnd,
    pub(crate) assessed: Assessment,
    pub(crate) cycle: u32,
    pub(crate) ended: u8,
    pub(crate) choice: u8,
    pub(crate) reset: u8,
    pub(crate) lapsed: u8,
}

/// A structure that the kernel has in its memory too.
///
/// # Safety
/// Integers only and no padding, so that any bytes are a value, and all bytes of a value are written.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: as the compared layouts show.
unsafe impl Plain for Key {}
// SAFETY: as above; four words and 40 octets.
unsafe impl Plain for Params {}
// SAFETY: as above.
unsafe impl Plain for Outcome {}

/// A structure from the kernel's memory; `None` if that is not as long as one.
pub(crate) fn from_bytes<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: the length is checked, any bytes make a value, and the read does not ask for alignment.
    (bytes.len() == size_of::<T>()).then(|| unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}

/// A structure as it lies in memory.
pub(crate) fn to_bytes<T: Plain>(value: &T) -> Vec<u8> {
    // SAFETY: all bytes of the value are written; the slice ends with the borrow.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }.to_vec()
}

unsafe extern "C" {
    fn weir_native_parse(data: *const u8, length: usize, frame_bytes: u32, start: u32, out: *mut Packet);
    fn weir_native_glance(
        data: *const u8,
        length: usize,
        frame_bytes: u32,
        start: u32,
        out: *mut Packet,
    ) -> u32;
    fn weir_native_key(packet: *const Packet, with_protocol: u32, key: *mut Key) -> u32;
    fn weir_native_paper(params: *mut Params);
    fn weir_native_comsys(params: *mut Params);
    fn weir_native_robust(params: *mut Params);
    fn weir_native_fast_applies(params: *const Params) -> u32;
    fn weir_native_opens(params: *const Params, packet: *const Packet, reverse: u32) -> u32;
    fn weir_native_forward(
        params: *const Params,
        flow: *mut Flow,
        packet: *const Packet,
        now: u64,
        out: *mut Outcome,
    );
    fn weir_native_reverse(params: *const Params, flow: *mut Flow, packet: *const Packet) -> u32;
    fn weir_native_signal(
        params: *const Params,
        flow: *mut Flow,
        kind: u32,
        cycle: u32,
        segments: u32,
    ) -> u32;
    fn weir_native_choice(params: *const Params, flow: *const Flow) -> u32;
    fn weir_native_counted(params: *const Params, flow: *const Flow, kind: u32, age: u32) -> u32;
}

pub(crate) fn parse(frame: &[u8], frame_bytes: u32, start: u32) -> Packet {
    let mut out = Packet::default();
    // SAFETY: the pointer and length are those of one slice, `out` is a valid mirror of the C structure.
    unsafe { weir_native_parse(frame.as_ptr(), frame.len(), frame_bytes, start, &mut out) };
    out
}

/// What the fast path reads of a frame, unless it declines.
pub(crate) fn glance(frame: &[u8], frame_bytes: u32, start: u32) -> Option<Packet> {
    let mut out = Packet::default();
    // SAFETY: the pointer and length are those of one slice, `out` is a valid mirror of the C structure.
    let taken = unsafe { weir_native_glance(frame.as_ptr(), frame.len(), frame_bytes, start, &mut out) } != 0;
    taken.then_some(out)
}

/// The key, and whether the packet goes from its low end to its high end.
pub(crate) fn key(packet: &Packet, with_protocol: bool) -> (Key, bool) {
    let mut out = Key::default();
    // SAFETY: both references are valid mirrors of the C structures.
    let ascending = unsafe { weir_native_key(packet, with_protocol.into(), &mut out) };
    (out, ascending != 0)
}

pub(crate) fn paper() -> Params {
    let mut out = Params::default();
    // SAFETY: `out` is a valid mirror of the C structure.
    unsafe { weir_native_paper(&mut out) };
    out
}

pub(crate) fn comsys() -> Params {
    let mut out = Params::default();
    // SAFETY: `out` is a valid mirror of the C structure.
    unsafe { weir_native_comsys(&mut out) };
    out
}

pub(crate) fn robust() -> Params {
    let mut out = Params::default();
    // SAFETY: `out` is a valid mirror of the C structure.
    unsafe { weir_native_robust(&mut out) };
    out
}

/// Whether a packet of an unknown flow gets an entry.
pub(crate) fn opens(params: &Params, packet: &Packet, reverse: bool) -> bool {
    // SAFETY: both references are valid mirrors of the C structures.
    unsafe { weir_native_opens(params, packet, reverse.into()) != 0 }
}

pub(crate) fn forward(params: &Params, flow: &mut Flow, packet: &Packet, now: u64) -> Outcome {
    let mut out = Outcome::default();
    // SAFETY: all references are valid mirrors of the C structures, and the C keeps none of them.
    unsafe { weir_native_forward(params, flow, packet, now, &mut out) };
    out
}

/// Returns whether the packet opened a new connection on a used entry.
pub(crate) fn reverse(params: &Params, flow: &mut Flow, packet: &Packet) -> bool {
    // SAFETY: all references are valid mirrors of the C structures, and the C keeps none of them.
    unsafe { weir_native_reverse(params, flow, packet) != 0 }
}

/// Returns whether the signal was booked; otherwise it came too late.
pub(crate) fn signal(params: &Params, flow: &mut Flow, kind: u32, cycle: u32, segments: u32) -> bool {
    // SAFETY: both references are valid mirrors of the C structures.
    unsafe { weir_native_signal(params, flow, kind, cycle, segments) != 0 }
}

pub(crate) fn fast_applies(params: &Params) -> bool {
    // SAFETY: the reference is a valid mirror of the C structure.
    unsafe { weir_native_fast_applies(params) != 0 }
}

pub(crate) fn choice(params: &Params, flow: &Flow) -> u32 {
    // SAFETY: both references are valid mirrors of the C structures.
    unsafe { weir_native_choice(params, flow) }
}

/// Signals of `kind` booked to the cycle `age` before the current one, as the law would read them.
pub(crate) fn counted(params: &Params, flow: &Flow, kind: u32, age: u32) -> u32 {
    // SAFETY: both references are valid mirrors of the C structures; the C checks `age`.
    unsafe { weir_native_counted(params, flow, kind, age) }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::{Assessment, CycleEnd, Flow, Key, Outcome, Packet, Params};

    unsafe extern "C" {
        static weir_packet_layout: [u32; 28];
        static weir_key_layout: [u32; 7];
        static weir_law_params_layout: [u32; 43];
        static weir_flow_layout: [u32; 31];
        static weir_cycle_end_layout: [u32; 9];
        static weir_assessment_layout: [u32; 14];
        static weir_outcome_layout: [u32; 8];
    }

    macro_rules! layout {
        ($type:ty, $c:ident, $($field:ident),*) => {
            let ours = [size_of::<$type>(), $(std::mem::offset_of!($type, $field)),*];
            // SAFETY: a constant array of the C side; its length is checked there against the same count.
            let theirs = unsafe { $c };
            assert_eq!(ours.map(|offset| offset as u32), theirs, stringify!($type));
        };
    }

    #[test]
    fn layouts_are_those_of_the_c_side() {
        layout!(
            Packet,
            weir_packet_layout,
            src,
            dst,
            tcp_seq,
            tcp_ack,
            tsval,
            tsecr,
            sack_right,
            ip_bytes,
            payload_bytes,
            frame_bytes,
            quic_short_bytes,
            src_port,
            dst_port,
            tcp_window,
            l3_offset,
            l4_offset,
            ecn_offset,
            kind,
            protocol,
            ip_version,
            ecn,
            tcp_flags,
            tcp_options,
            quic_flags,
            quic_first,
            layers,
            reserved
        );
        layout!(Key, weir_key_layout, low, high, low_port, high_port, protocol, reserved);
        layout!(
            Params,
            weir_law_params_layout,
            mss,
            min_window_segments,
            response_numerator,
            response_denominator,
            main_signal,
            tie,
            spin_debounce,
            spin_from_accepted,
            first_spin_counts,
            coalesced_spin,
            long_header_counts,
            quic_needs_initial,
            full_cycles,
            modular_sequence,
            marker_needs_data,
            second_marker_on_match,
            sack_completes_half,
            first_bytes_count,
            skip_first_cycle,
            min_window_on_signalled,
            min_window_inclusive,
            wide_arithmetic,
            book_by_packet,
            byte_counters,
            count_segments,
            count_arriving_ce,
            udp_bytes_from_frame,
            reset_on_switch,
            reset_on_open,
            full_parser,
            key_has_protocol,
            ignore_optimistic_acks,
            plausible_sequence,
            lapse_round_trips,
            verdict_lapses,
            votes_kept,
            spin_needs_reverse,
            loss_without_ecn,
            timestamp_cycles,
            cycle_guard,
            whole_conduct,
            unused
        );
        // The last is QUIC's, which begins where TCP's second field does.
        let ours = [
            size_of::<Flow>(),
            offset_of!(Flow, cycle_started),
            offset_of!(Flow, bytes),
            offset_of!(Flow, packets),
            offset_of!(Flow, cycle),
            offset_of!(Flow, first_cycle),
            offset_of!(Flow, signal_floor),
            offset_of!(Flow, cycle_packets),
            offset_of!(Flow, window),
            offset_of!(Flow, loss),
            offset_of!(Flow, mark),
            offset_of!(Flow, votes),
            offset_of!(Flow, marker),
            offset_of!(Flow, right_edge),
            offset_of!(Flow, highest_ack),
            offset_of!(Flow, second_marker),
            offset_of!(Flow, isn),
            offset_of!(Flow, syn),
            offset_of!(Flow, next_look),
            offset_of!(Flow, looks),
            offset_of!(Flow, last_rtt),
            offset_of!(Flow, late_signals),
            offset_of!(Flow, withheld),
            offset_of!(Flow, state),
            offset_of!(Flow, verdict),
            offset_of!(Flow, kind),
            offset_of!(Flow, law),
            offset_of!(Flow, shortest),
            offset_of!(Flow, newest),
            offset_of!(Flow, conduct),
            offset_of!(Flow, highest_ack),
        ];
        // SAFETY: a constant array of the C side; its length is checked there against the same count.
        assert_eq!(ours.map(|offset| offset as u32), unsafe { weir_flow_layout }, "Flow");
        layout!(
            CycleEnd,
            weir_cycle_end_layout,
            started,
            ended,
            cycle,
            window,
            packets,
            losses,
            marks,
            first
        );
        layout!(
            Assessment,
            weir_assessment_layout,
            cycle,
            window,
            window_between,
            window_signalled,
            signals,
            votes,
            vote,
            class_before,
            class_after,
            choice_before,
            choice_after,
            judgement,
            reserved
        );
        layout!(Outcome, weir_outcome_layout, end, assessed, cycle, ended, choice, reset, lapsed);
        assert_eq!(size_of::<Flow>(), 192);
    }
}
