//! TCPTrap: cycles from sequence numbers and acknowledgements, and every slip of the prototype beside the paper's rule.

use weir_core::{Bytes, QueueChoice};

use crate::law_testing::{Bench, comsys, paper};
use crate::testing::{Segment, ethernet, forward, ipv4, ipv4_options, ipv6, short, tagged, tcp};
use crate::{ChoiceCause, Direction, Params, ParsedPacket, Signal, Start, parse};

/// How many cycles ended after each forward segment of one-way data with an ACK for everything in between.
fn one_way(params: Params, start: u32, ack_lag: u32) -> Vec<usize> {
    let mut bench = Bench::new(params);
    let mut ended = Vec::new();
    for i in 0..6u32 {
        bench.fwd(start.wrapping_add(i * 1000), 1, 1000);
        ended.push(bench.ended());
        bench.rev(1, start.wrapping_add((i + 1) * 1000).wrapping_sub(ack_lag), 0);
    }
    ended
}

#[test]
fn one_way_data_has_half_cycles() {
    // Each ACK covers the marker, so each next segment opens a cycle: the reverse sequence number stands still.
    assert_eq!(one_way(paper(), 1000, 0), [0, 1, 2, 3, 4, 5]);
    // ACKs that lag one segment: every other one.
    assert_eq!(one_way(paper(), 1000, 1000), [0, 0, 1, 1, 2, 2]);
    assert_eq!(one_way(Params { full_cycles: false, ..paper() }, 1000, 1000), [0, 0, 1, 1, 2, 2]);
}

#[test]
fn two_way_data_has_full_cycles() {
    let ended = |params: Params| {
        let mut bench = Bench::new(params);
        bench.fwd(1000, 500, 1000);
        bench.rev(500, 1000, 100); // older data of the client, does not match
        bench.rev(600, 2000, 100); // matches; its data ends at 700
        bench.fwd(2000, 600, 1000); // acknowledges 600 only: the second half is open
        let half = bench.ended();
        bench.fwd(3000, 700, 1000);
        (half, bench.ended())
    };
    assert_eq!(ended(paper()), (0, 1));
    assert_eq!(ended(Params { full_cycles: false, ..paper() }), (1, 1), "half cycles");
    assert_eq!(ended(comsys()), (1, 1), "the precedence slip makes half cycles of all");
    // From the cycle's first reverse packet but one (the first only makes the entry): 600 + 100, too.
    assert_eq!(ended(Params { full_cycles: true, first_bytes_count: true, ..comsys() }), (0, 1));
}

#[test]
fn where_the_second_half_starts() {
    let ended = |params: Params| {
        let mut bench = Bench::new(params);
        bench.fwd(1000, 500, 1000);
        bench.rev(500, 1000, 0); // makes the prototype's entry
        bench.rev(500, 1000, 100); // first reverse packet of the cycle: ends at 600
        bench.rev(600, 2000, 100); // the match: ends at 700
        bench.fwd(2000, 600, 1000);
        bench.ended()
    };
    assert_eq!(ended(paper()), 0);
    let first = Params { second_marker_on_match: false, plausible_sequence: false, ..paper() };
    assert_eq!(ended(first), 1, "a shorter second half");
    let fixed = Params { full_cycles: true, ..comsys() };
    assert_eq!(ended(fixed), 1);
    assert_eq!(ended(Params { second_marker_on_match: true, ..fixed }), 0);
}

#[test]
fn sequence_numbers_wrap() {
    let start = u32::MAX - 2500;
    assert_eq!(one_way(paper(), start, 1000), one_way(paper(), 1000, 1000));
    assert_eq!(one_way(Params { modular_sequence: true, ..comsys() }, start, 0), one_way(comsys(), 1000, 0));
    // Plain compares: the marker has wrapped, the ACKs have not, and each packet ends a cycle.
    let run = |params: Params| {
        let mut bench = Bench::new(Params { first_bytes_count: true, ..params });
        bench.fwd(u32::MAX - 1999, 1, 1000);
        bench.rev(1, u32::MAX - 999, 0);
        bench.fwd(u32::MAX - 999, 1, 1200); // ends a cycle; the next marker is 200
        let before = bench.ended();
        for i in 0..5 {
            bench.fwd(200 + i * 1000, 1, 1000);
        }
        (before, bench.ended())
    };
    assert_eq!(run(paper()), (1, 1));
    assert_eq!(run(comsys()), (1, 6));
    assert_eq!(run(Params { modular_sequence: false, full_cycles: false, ..paper() }), (1, 6));
    assert_eq!(run(Params { modular_sequence: true, ..comsys() }), (1, 1));
    // The wrap rule itself: marker in the last quarter, ACK in the first. It alone asks for the second half.
    let wrapped = |params: Params| {
        let mut bench = Bench::new(params);
        bench.fwd(u32::MAX - 1999, 1, 1000);
        bench.rev(1, 1, 0);
        bench.rev(1, 1500, 50);
        bench.fwd(5000, 1, 1000);
        let open = bench.ended();
        bench.fwd(6000, 51, 1000);
        (open, bench.ended())
    };
    assert_eq!(wrapped(comsys()), (0, 1));
    assert_eq!(wrapped(Params { modular_sequence: true, ..comsys() }), (1, 1));
}

#[test]
fn markers_carry_new_data() {
    // An upload: pure ACKs in the forward direction.
    let acks = |params| {
        let mut bench = Bench::new(params);
        for i in 0..6u32 {
            let timestamps = vec![1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 5];
            let segment = Segment {
                ports: (443, 50_000),
                seq: 1000,
                ack: i * 500,
                flags: 0x10,
                options: timestamps,
                payload: 0,
            };
            bench.packet(
                &parse(&ethernet(0x0800, &ipv4(6, 0, &tcp(&segment))), Start::Ethernet),
                Direction::Forward,
            );
            bench.rev(i * 500, 1000, 500);
        }
        bench.ended()
    };
    assert_eq!((acks(paper()), acks(comsys())), (0, 5));
    assert_eq!(acks(Params { marker_needs_data: true, ..comsys() }), 0);
    // A retransmission ends no cycle and is no marker, but its bytes count.
    let resent = |params| {
        let mut bench = Bench::new(params);
        bench.fwd(1000, 1, 1000);
        bench.fwd(2000, 1, 1000);
        bench.rev(1, 2000, 0);
        bench.fwd(1000, 1, 1000);
        let after = bench.ended();
        let bytes = bench.view().windows[0];
        bench.fwd(3000, 1, 1000);
        (after, bytes, bench.ended())
    };
    assert_eq!(resent(paper()), (0, Bytes(3000), 1));
    let any_marker = Params { marker_needs_data: false, ..paper() };
    assert_eq!(resent(any_marker), (1, Bytes(1000), 1), "cut short, and the next waits for another ACK");
    assert_eq!(resent(Params { full_cycles: false, ..any_marker }), (1, Bytes(1000), 2));
}

#[test]
fn sack_can_stand_in_for_the_acknowledgement() {
    let ended = |sack_completes_half| {
        let mut bench = Bench::new(Params { sack_completes_half, ..paper() });
        bench.fwd(1000, 1, 1000); // the marker ends at 2000
        bench.fwd(2000, 1, 1000);
        let block = [1, 1, 5, 10, 0, 0, 0x07, 0xd0, 0, 0, 0x0b, 0xb8]; // 2000..3000
        bench.rev_with(&Segment {
            seq: 1,
            ack: 1000,
            flags: 0x10,
            options: block.to_vec(),
            ..Segment::default()
        });
        bench.fwd(3000, 1, 1000);
        bench.ended()
    };
    assert_eq!((ended(false), ended(true)), (0, 1));
}

#[test]
fn the_first_packets_bytes() {
    let window = |params, ack_first: bool| {
        let mut bench = Bench::new(params);
        if ack_first {
            bench.rev(1, 1000, 0);
        }
        for i in 0..3 {
            bench.fwd(1000 + i * 1000, 1, 1000);
        }
        bench.view().windows[0].0
    };
    assert_eq!([false, true].map(|first| window(paper(), first)), [3000, 3000]);
    assert_eq!([false, true].map(|first| window(comsys(), first)), [1000, 2000]);
    assert_eq!(window(Params { first_bytes_count: true, ..comsys() }, false), 3000);
}

#[test]
fn a_loss_stretches_the_cycle() {
    // The cumulative ACK stands at the hole: the marker beyond it is not matched until the repair.
    let mut bench = Bench::new(paper());
    bench.fwd(1000, 1, 1000);
    bench.rev(1, 2000, 0);
    bench.fwd(2000, 1, 1000); // opens cycle 1, is lost
    for i in 0..5 {
        bench.fwd(3000 + i * 1000, 1, 1000);
        bench.rev(1, 2000, 0);
    }
    assert_eq!(bench.ended(), 1);
    bench.fwd(2000, 1, 1000);
    bench.rev(1, 8000, 0);
    bench.fwd(8000, 1, 1000);
    assert_eq!((bench.ended(), bench.heard.cycles[1].window), (2, Bytes(7000)));
}

#[test]
fn reverse_without_ack_flag_is_no_evidence() {
    let mut bench = Bench::new(paper());
    bench.fwd(1000, 1, 1000);
    bench.rev_with(&Segment { seq: 1, ack: 2000, flags: 0x04, ..Segment::default() });
    bench.fwd(2000, 1, 1000);
    assert_eq!(bench.ended(), 0);
}

#[test]
fn a_syn_starts_afresh() {
    let syn = |seq| Segment { seq, flags: 0x02, ..Segment::default() };
    let syn_ack = |seq: u32, ack: u32| {
        let segment = Segment { ports: (443, 50_000), seq, ack, flags: 0x12, options: vec![], payload: 0 };
        parse(&ethernet(0x0800, &ipv4(6, 0, &tcp(&segment))), Start::Ethernet)
    };
    let run = |params| {
        let mut bench = Bench::new(params);
        bench.rev_with(&syn(100));
        bench.packet(&syn_ack(900, 101), Direction::Forward);
        let mut seq = 901u32;
        for window in [1000, 20_000, 10_000, 10_000, 1000] {
            let stamp = bench.fwd(seq, 101, window as usize);
            if window == 20_000 {
                bench.signal(stamp.cycle, Signal::Loss, 1);
            }
            seq += window;
            bench.rev(101, seq, 0);
        }
        assert_eq!(bench.choice(), QueueChoice::Responsive);
        assert_eq!(bench.law.counters().reopened, 0);
        bench.rev_with(&syn(100));
        bench.packet(&syn_ack(900, 101), Direction::Forward);
        assert_eq!(bench.law.counters().reopened, 0, "a repeated handshake segment is old news");
        bench.packet(&syn_ack(5_000_000, 777_001), Direction::Forward);
        bench.rev_with(&syn(777_000));
        bench.packet(&syn_ack(5_000_000, 1), Direction::Forward);
        assert_eq!(bench.law.counters().reopened, 0, "nobody has answered that SYN");
        bench.packet(&syn_ack(5_000_000, 777_001), Direction::Forward);
        let changes = bench.heard.changes.iter().filter(|change| change.cause == ChoiceCause::Opened).count();
        (
            bench.law.counters().reopened,
            bench.choice(),
            bench.view().votes.loss.responsive,
            changes,
            bench.law.len(),
        )
    };
    assert_eq!(run(paper()), (1, QueueChoice::Standard, 0, 1, 1));
    let kept = run(Params { reset_on_open: false, ..paper() });
    assert_eq!((kept.0, kept.1, kept.3, kept.4), (0, QueueChoice::Responsive, 0, 1));
}

#[test]
fn what_the_prototype_does_not_see() {
    let segment =
        Segment { ports: (443, 50_000), seq: 1, ack: 1, flags: 0x10, options: vec![], payload: 500 };
    let plain = ethernet(0x0800, &ipv4(6, 0, &tcp(&segment)));
    let bare = ethernet(0x0800, &ipv4(6, 0, &tcp(&Segment { payload: 0, ..segment.clone() })));
    let seen = |params: Params, frame: &[u8]| {
        let mut bench = Bench::new(params);
        bench.packet(&parse(frame, Start::Ethernet), Direction::Forward);
        bench.law.len()
    };
    let frames = [
        tagged(plain.clone(), 0x8100, 3),
        ethernet(0x86dd, &ipv6(6, 0, &tcp(&segment))),
        ethernet(0x0800, &ipv4_options(6, 0, 0, &[1; 4], &tcp(&segment))),
        bare,
    ];
    assert_eq!((seen(paper(), &plain), seen(comsys(), &plain)), (1, 1));
    for frame in frames {
        assert_eq!((seen(paper(), &frame), seen(comsys(), &frame)), (1, 0));
        assert_eq!(seen(Params { full_parser: true, ..comsys() }, &frame), 1);
    }
    // Reverse packets are read properly, but IPv4 TCP only.
    let mut bench = Bench::new(comsys());
    bench.rev(1, 1, 0);
    assert_eq!(bench.law.len(), 1);
}

#[test]
fn tcp_and_udp_of_one_address_pair() {
    let flows = |params| {
        let mut bench = Bench::new(params);
        let packets: [ParsedPacket; 2] = [forward(1, 1, 100), short(false, 100)];
        for packet in &packets {
            bench.packet(packet, Direction::Forward);
        }
        (bench.law.len(), bench.view().key == packets[0].flow_key().unwrap())
    };
    assert_eq!((flows(paper()), flows(comsys())), ((2, true), (1, true)));
    assert_eq!(flows(Params { key_has_protocol: true, ..comsys() }), (2, true));
}
