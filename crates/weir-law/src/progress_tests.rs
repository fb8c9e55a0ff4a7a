//! Cycles always make progress again. Whatever has become of a flow's state, honest traffic ends a cycle within the
//! time that `bpf/law.h` promises: every combination of edges, flags and counts is tried, with a value for each way in
//! which the law's comparisons can come out.

use weir_core::Duration;

use crate::ffi::{self, Flow};
use crate::testing::{Segment, ethernet, forward, ipv4, reverse, reverse_with, short, tcp};
use crate::{Direction, Params, ParsedPacket, Preset, Start, parse};

/// The sequence number that the honest sender is at, and the receiver's own. Near the wrap, so that both signs occur.
const SEQ: u32 = 0xffff_f000;
const BACK: u32 = 0x0000_2000;
/// From there, one value on each side of every bound that is compared with: slack, largest flight, half of the numbers.
const OFFSETS: [u32; 13] = [
    0,
    1,
    1000,
    0xffff,
    0x1_0001,
    0x4000_0000,
    0x4001_0001,
    0x7fff_ffff,
    0x8000_0000,
    0xbfff_ffff,
    0xfffe_fffe,
    0xffff_0001,
    0xffff_ffff,
];

const SEEN_FORWARD: u16 = 0x0001;
const HAS_MARKER: u16 = 0x0002;
const HAS_ACK: u16 = 0x0004;
const HALF_DONE: u16 = 0x0008;
const HAS_EDGE: u16 = 0x0010;
const HAS_SPIN: u16 = 0x0020;
const REVERSE_SPIN: u16 = 0x1000;
const REVERSE_SPUN: u16 = 0x2000;
const DOUBTED: u16 = 0x8000;
/// TCP's, in the place of QUIC's.
const MARKER_STAMPED: u16 = 0x0020;
const IS_STAMP: u16 = 0x1000;
const HAS_NEWEST: u16 = 0x2000;

/// The receiver's clock at first, and milliseconds.
const CLOCK: u32 = 0xffff_e000;

/// A round trip of the traffic here.
const RTT: Duration = Duration::from_millis(300);
/// Eight looks, each at most four round trips apart; then one until the first acknowledgement, one for the cycle, and
/// what two-way data take.
const ROUNDS: u32 = 8 * 4 + 5;

/// A round trip: what goes forward, and what comes back.
type Round = (Vec<ParsedPacket>, Vec<ParsedPacket>);

fn laws() -> [Params; 2] {
    [Preset::Paper, Preset::Robust].map(Params::preset)
}

/// How many rounds of traffic it takes until a cycle ends.
fn rounds_until_a_cycle_ends(law: &ffi::Params, mut flow: Flow, rounds: &[Round]) -> Option<usize> {
    let start = u64::from(flow.next_look) << 20;
    rounds.iter().zip(0..).position(|((there, back), number)| {
        let now = start + number * RTT.as_nanos();
        let ended = there.iter().any(|packet| ffi::forward(law, &mut flow, packet.raw(), now).ended != 0);
        for packet in back {
            ffi::reverse(law, &mut flow, packet.raw());
        }
        ended
    })
}

/// A flow in the midst of its life. Number by number it has been looked at as often as can be, with a round trip that
/// is unknown, too short or too long.
fn flow(kind: u8, state: u16, number: u32) -> Flow {
    let last_rtt = [0, 1_000_000, u32::MAX][number as usize / 8 % 3];
    let looks = (number % 8) as u8;
    // Its cycle began a moment ago, and it has never had shorter ones than can be.
    let (shortest, cycle_started) = ([0, 0x50, u8::MAX][number as usize / 24 % 3], 4_999_999 << 20);
    let began = Flow { next_look: 5_000_000, cycle: 40, first_cycle: 3, cycle_started, ..Flow::default() };
    Flow { kind, state, looks, last_rtt, shortest, ..began }
}

#[test]
fn tcp_cycles_end_again_from_every_state() {
    // Two segments and one acknowledgement in each round trip, with data of the receiver's or without.
    let packets = |two_way: bool| -> Vec<Round> {
        (0..ROUNDS)
            .map(|number| {
                let (seq, back) = (SEQ.wrapping_add(number * 2000), BACK + number * 100 * u32::from(two_way));
                let there = vec![forward(seq, back, 1000), forward(seq.wrapping_add(1000), back, 1000)];
                let bytes = if two_way { 100 } else { 0 };
                (there, vec![reverse(back, seq.wrapping_add(2000), bytes)])
            })
            .collect()
    };
    let (one_way, two_way) = (packets(false), packets(true));
    let flags = [HAS_MARKER, HAS_ACK, HALF_DONE, HAS_EDGE, DOUBTED];
    let (mut most, mut count) = (0, 0u32);
    for law in laws().map(Params::to_raw) {
        for bits in 0..1u16 << flags.len() {
            let set = (0..flags.len()).filter(|bit| bits >> bit & 1 == 1).map(|bit| flags[bit]);
            let state = set.fold(SEEN_FORWARD, |all, flag| all | flag);
            for right_edge in OFFSETS {
                for highest_ack in OFFSETS {
                    for marker in OFFSETS {
                        // What the second half waits for counts only while it is open.
                        let seconds = if state & HALF_DONE != 0 { &OFFSETS[..] } else { &OFFSETS[..1] };
                        for second in seconds {
                            let start = Flow {
                                right_edge: SEQ.wrapping_add(right_edge),
                                highest_ack: SEQ.wrapping_add(highest_ack),
                                marker: SEQ.wrapping_add(marker),
                                second_marker: BACK.wrapping_add(*second),
                                ..flow(3, state, count)
                            };
                            for traffic in [&one_way, &two_way] {
                                let took = rounds_until_a_cycle_ends(&law, start, traffic);
                                let Some(took) = took else { panic!("no cycle ends: {start:?}") };
                                most = most.max(took);
                                count += 1;
                            }
                        }
                    }
                }
            }
        }
    }
    println!("{count} starts; the longest took {most} round trips");
}

/// A segment of either direction with timestamps.
fn stamped(direction: Direction, seq: u32, ack: u32, payload: usize, stamps: [u32; 2]) -> ParsedPacket {
    let [value, echo] = stamps.map(u32::to_be_bytes);
    let options = [&[1, 1, 8, 10], &value[..], &echo[..]].concat();
    let segment = Segment { ports: (443, 50_000), seq, ack, flags: 0x10, options, payload };
    match direction {
        Direction::Forward => parse(&ethernet(0x0800, &ipv4(6, 0, &tcp(&segment))), Start::Ethernet),
        Direction::Reverse => reverse_with(&segment),
    }
}

#[test]
fn tcp_cycles_end_again_whatever_was_thought_of_the_other_direction() {
    // As above, in one way; with timestamps, without, and with those of one end alone.
    let packets = |ends: [bool; 2]| -> Vec<Round> {
        (0..ROUNDS)
            .map(|number| {
                let seq = SEQ.wrapping_add(number * 2000);
                let clock = CLOCK.wrapping_add(number * 300);
                let there = [seq, seq.wrapping_add(1000)].map(|seq| match ends[0] {
                    true => stamped(Direction::Forward, seq, BACK, 1000, [clock, clock.wrapping_sub(150)]),
                    false => forward(seq, BACK, 1000),
                });
                let (ack, clock) = (seq.wrapping_add(2000), clock.wrapping_add(150));
                let back = match ends[1] {
                    true => stamped(Direction::Reverse, BACK, ack, 0, [clock, clock]),
                    false => reverse(BACK, ack, 0),
                };
                (there.to_vec(), vec![back])
            })
            .collect()
    };
    let traffic = [[true, true], [true, false], [false, true], [false, false]].map(packets);
    let flags = [HAS_MARKER, HAS_ACK, HALF_DONE, HAS_EDGE, DOUBTED, MARKER_STAMPED, IS_STAMP, HAS_NEWEST];
    let law = Params::preset(Preset::Robust).to_raw();
    let (mut most, mut count) = (0, 0u32);
    for bits in 0..1u16 << flags.len() {
        let set = (0..flags.len()).filter(|bit| bits >> bit & 1 == 1).map(|bit| flags[bit]);
        let state = set.fold(SEEN_FORWARD, |all, flag| all | flag);
        for edges in [0, 1000, 0x7fff_ffff] {
            for (newest, second) in OFFSETS.iter().flat_map(|one| OFFSETS.map(|other| (*one, other))) {
                // Of numbers, or of the clock.
                let back = if state & IS_STAMP != 0 { CLOCK } else { BACK };
                let start = Flow {
                    right_edge: SEQ.wrapping_add(edges),
                    highest_ack: SEQ,
                    marker: SEQ.wrapping_add(edges),
                    second_marker: back.wrapping_add(second),
                    newest: back.wrapping_add(newest),
                    ..flow(3, state, count)
                };
                for rounds in &traffic {
                    let took = rounds_until_a_cycle_ends(&law, start, rounds);
                    let Some(took) = took else { panic!("no cycle ends: {start:?}") };
                    most = most.max(took);
                    count += 1;
                }
            }
        }
    }
    println!("{count} starts; the longest took {most} round trips");
}

#[test]
fn quic_cycles_end_again_from_every_state() {
    // The receiver turns its bit between any two turns of the sender's.
    let rounds: Vec<Round> = (0..ROUNDS)
        .map(|number| (vec![short(number % 2 == 1, 1000); 20], vec![short(number % 2 == 1, 40)]))
        .collect();
    let (mut most, mut count) = (0, 0u32);
    for law in laws() {
        for spin_debounce in [1, 2, 16] {
            let law = Params { spin_debounce, ..law }.to_raw();
            for bits in 0..8u16 {
                let flag = |bit: u16, flag: u16| if bits >> bit & 1 == 1 { flag } else { 0 };
                let state = SEEN_FORWARD | flag(0, HAS_SPIN) | flag(1, REVERSE_SPIN) | flag(2, REVERSE_SPUN);
                for (spin, run, register) in (0..=1u8).flat_map(|spin| {
                    (0..=16u8).flat_map(move |run| [0, 1, 0x5555_5555, u32::MAX].map(|all| (spin, run, all)))
                }) {
                    let start = Flow {
                        // What lies there for QUIC: the register, then the accepted bit and the run.
                        right_edge: register,
                        highest_ack: u32::from_ne_bytes([spin, run, 0, 0]),
                        ..flow(5, state, count)
                    };
                    let took = rounds_until_a_cycle_ends(&law, start, &rounds);
                    let Some(took) = took else { panic!("no cycle ends: {start:?}") };
                    most = most.max(took);
                    count += 1;
                }
            }
        }
    }
    println!("{count} starts; the longest took {most} round trips");
    assert!(most <= 5, "{most}");
}
