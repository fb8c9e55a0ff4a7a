//! The rules of judgement: windows, the 90 % criterion, votes, booking of signals, queue changes. Cycles come from the
//! spin bit, one packet each. A rule that the prototype has differently is shown in both ways.

use weir_core::{Bytes, CycleId, FlowId, QueueChoice};

use crate::law_testing::{Bench, comsys, paper};
use crate::testing::{ethernet, ipv4, udp};
use crate::{
    Class, Direction, Judgement, MainSignal, Params, Preset, Signal, Start, Tie, Verdict, parse, parse_cut,
};

use Signal::{Loss, Mark};

/// Votes of one signal kind after cycles with `windows`, of which those of `signalled` bytes got the signal.
fn votes(params: Params, windows: &[usize], signal: Signal, signalled: &[usize]) -> (u32, u32) {
    let mut bench = Bench::new(params);
    bench.quic(false, 100);
    bench.windows(windows, signal, signalled);
    let votes = bench.view().votes;
    let votes = if signal == Loss { votes.loss } else { votes.mark };
    (votes.responsive, votes.unresponsive)
}

#[test]
fn ninety_per_cent_two_cycles_later() {
    for signal in [Loss, Mark] {
        for params in [paper(), comsys()] {
            // The last packet ends the cycle of W[n].
            assert_eq!(votes(params, &[10_000, 5_000, 9_000, 100], signal, &[10_000]), (1, 0));
            assert_eq!(votes(params, &[10_000, 5_000, 9_001, 100], signal, &[10_000]), (0, 1));
            assert_eq!(
                votes(params, &[10_000, 20_000, 9_000, 100], signal, &[10_000]),
                (1, 0),
                "W[n-1] does not count"
            );
            assert_eq!(
                votes(params, &[10_000, 5_000, 9_000], signal, &[10_000]),
                (0, 0),
                "not before its end"
            );
            assert_eq!(
                votes(params, &[10_000, 5_000, 9_000, 100], signal, &[]),
                (0, 0),
                "not without a signal"
            );
        }
    }
    let half = Params { response_numerator: 1, response_denominator: 2, ..paper() };
    assert_eq!(votes(half, &[10_000, 5_000, 5_000, 100], Loss, &[10_000]), (1, 0));
    assert_eq!(votes(half, &[10_000, 5_000, 5_001, 100], Loss, &[10_000]), (0, 1));
}

#[test]
fn an_assessment_tells_its_inputs() {
    let mut bench = Bench::new(paper());
    bench.quic(false, 100);
    bench.cycle(10_000, &[Loss, Loss, Mark]);
    bench.cycle(7_000, &[]);
    bench.cycle(8_000, &[]);
    bench.cycle(100, &[]);
    let [told] = bench.heard.assessments[..] else { panic!("one assessment") };
    assert_eq!((told.cycle, told.signalled), (CycleId(3), CycleId(1)));
    assert_eq!(
        (told.window, told.window_between, told.window_signalled),
        (Bytes(8_000), Bytes(7_000), Bytes(10_000))
    );
    assert_eq!((told.signals.loss, told.signals.mark), (2, 1));
    assert_eq!((told.vote.loss, told.vote.mark), (Verdict::Responsive, Verdict::Responsive));
    assert_eq!((told.class_before.index(), told.class_after.index()), (0, 4));
    assert_eq!(told.time, bench.now);
    let cycles: Vec<_> =
        bench.heard.cycles.iter().map(|end| (end.cycle.0, end.window.0, end.first)).collect();
    assert_eq!(cycles, [(0, 100, true), (1, 10_000, false), (2, 7_000, false), (3, 8_000, false)]);
    assert!(bench.heard.cycles[1..].iter().all(|end| end.duration.as_nanos() == 1_000_000));
    assert_eq!((bench.heard.cycles[1].signals.loss, bench.heard.cycles[3].judgement), (2, Judgement::Voted));
    let view = bench.view();
    assert_eq!((view.cycles, view.bytes, view.packets), (4, Bytes(25_200), 5));
    assert_eq!(view.rtt.unwrap().as_nanos(), 1_000_000);
    assert_eq!(view.source.port(), 443);
    assert_eq!(bench.law.flows().count(), 1);
}

#[test]
fn minimum_window() {
    // Paper: W[n-2] counts and must be larger than four segments.
    assert_eq!(votes(paper(), &[6_001, 100, 100, 100], Loss, &[6_001]), (1, 0));
    assert_eq!(votes(paper(), &[6_000, 100, 100, 100], Loss, &[6_000]), (0, 0));
    let inclusive = Params { min_window_inclusive: true, ..paper() };
    assert_eq!(votes(inclusive, &[6_000, 100, 100, 100], Loss, &[6_000]), (1, 0));
    // Prototype: W[n] counts, so a flow that backed off below the minimum gets no credit.
    assert_eq!(votes(comsys(), &[9_000, 100, 5_999, 100], Loss, &[9_000]), (0, 0));
    assert_eq!(votes(comsys(), &[9_000, 100, 6_000, 100], Loss, &[9_000]), (1, 0));
    let exclusive = Params { min_window_inclusive: false, ..comsys() };
    assert_eq!(votes(exclusive, &[9_000, 100, 6_000, 100], Loss, &[9_000]), (0, 0));
    let signalled = Params { min_window_on_signalled: true, ..comsys() };
    assert_eq!(votes(signalled, &[9_000, 100, 100, 100], Loss, &[9_000]), (1, 0));
    assert_eq!(votes(Params { mss: 500, ..paper() }, &[2_001, 100, 100, 100], Loss, &[2_001]), (1, 0));
    assert_eq!(
        votes(Params { min_window_segments: 10, ..paper() }, &[15_000, 1, 1, 1], Loss, &[15_000]),
        (0, 0)
    );

    let mut bench = Bench::new(paper());
    bench.quic(false, 100);
    bench.windows(&[5_000, 100, 100, 100], Loss, &[5_000]);
    assert_eq!((bench.heard.cycles[3].judgement, bench.view().withheld), (Judgement::SmallWindow, 1));
    assert!(bench.heard.assessments.is_empty());
}

/// `docs/reference/law.md`: what belongs to the comparison of two windows is nothing to the judge.
#[test]
fn the_judge_heeds_no_setting_of_the_comparison() {
    let told = |params: Params| {
        let mut bench = Bench::new(params);
        bench.quic(false, 100);
        for window in [10_000, 9_000, 8_500, 7_000].repeat(12) {
            bench.cycle(window, if window == 10_000 { &[Loss] } else { &[] });
        }
        bench
            .heard
            .assessments
            .iter()
            .map(|told| (told.cycle, told.vote, told.class_after))
            .collect::<Vec<_>>()
    };
    let judge = Params { whole_conduct: true, ..paper() };
    assert!(!told(judge).is_empty());
    for change in [
        |params| Params { min_window_segments: 10, ..params },
        |params| Params { response_numerator: 1, ..params },
        |params| Params { mss: 3000, ..params },
    ] {
        assert_eq!(told(change(judge)), told(judge));
        assert_ne!(told(change(paper())), told(paper()));
    }
}

#[test]
fn the_first_cycle_is_partial() {
    let run = |params| {
        let mut bench = Bench::new(params);
        let stamp = bench.quic(false, 10_000);
        bench.signal(stamp.cycle, Loss, 1);
        bench.windows(&[100, 7_000, 100], Loss, &[]);
        (bench.heard.assessments.len(), bench.heard.cycles[2].judgement)
    };
    assert_eq!(run(paper()), (0, Judgement::PartialCycle));
    assert_eq!(run(Params { skip_first_cycle: false, ..paper() }), (1, Judgement::Voted));
    assert_eq!(run(comsys()), (1, Judgement::Voted));
}

#[test]
fn the_majority_decides_and_ties() {
    // Every cycle is signalled; reset_on_switch off so that each gives a vote.
    let after = |tie, windows: &[usize]| {
        let mut bench = Bench::new(Params { tie, reset_on_switch: false, ..paper() });
        bench.quic(false, 100);
        for window in windows {
            bench.cycle(*window, &[Loss]);
        }
        let view = bench.view();
        ((view.votes.loss.responsive, view.votes.loss.unresponsive), view.class.loss)
    };
    let down_then_flat = [20_000, 20_000, 10_000, 10_000, 10_000, 10_000];
    assert_eq!(after(Tie::Responsive, &down_then_flat[..4]), ((1, 0), Verdict::Responsive));
    assert_eq!(after(Tie::Responsive, &down_then_flat[..5]), ((2, 0), Verdict::Responsive));
    assert_eq!(
        after(Tie::Responsive, &down_then_flat),
        ((2, 1), Verdict::Responsive),
        "one slip is outvoted"
    );
    let tie = [20_000, 15_000, 10_000, 15_000, 1];
    assert_eq!(after(Tie::Responsive, &tie), ((1, 1), Verdict::Responsive));
    assert_eq!(after(Tie::Unresponsive, &tie), ((1, 1), Verdict::Unresponsive));
    assert_eq!(after(Tie::Keep, &tie), ((1, 1), Verdict::Responsive));
    let reversed = [10_000, 20_000, 10_000, 10_000, 1];
    assert_eq!(after(Tie::Keep, &reversed), ((1, 1), Verdict::Unresponsive));
    assert_eq!(after(Tie::Responsive, &reversed), ((1, 1), Verdict::Responsive));
}

#[test]
fn nine_classes_and_the_main_signal() {
    let mut seen = std::collections::BTreeSet::new();
    for (loss, mark) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)] {
        for main_signal in [MainSignal::Loss, MainSignal::Ecn, MainSignal::Both] {
            let mut bench = Bench::new(paper().with_main_signal(main_signal));
            bench.quic(false, 100);
            for (kind, verdict) in [(Loss, loss), (Mark, mark)] {
                if verdict != 0 {
                    bench.cycle(20_000, &[kind]);
                    bench.cycle(20_000, &[]);
                    bench.cycle(if verdict == 1 { 10_000 } else { 20_000 }, &[]);
                    bench.cycle(20_000, &[]);
                }
            }
            let class = bench.view().class;
            assert_eq!((class.loss as u8, class.ecn as u8), (loss, mark));
            assert_eq!(class.index(), 3 * mark + loss);
            assert_eq!(Class::from_index(class.index()), Some(class));
            let earned = match (main_signal, loss, mark) {
                (MainSignal::Both, _, 1) => QueueChoice::EcnResponsive,
                (MainSignal::Loss | MainSignal::Both, 1, _) | (MainSignal::Ecn, _, 1) => {
                    QueueChoice::Responsive
                }
                _ => QueueChoice::Standard,
            };
            assert_eq!(bench.choice(), earned, "{main_signal:?}");
            seen.insert(class.index());
        }
    }
    assert_eq!(seen.len(), 9);
    assert_eq!(Class::from_index(9), None);
}

#[test]
fn a_signal_belongs_to_its_packets_cycle() {
    // The packet of cycle 1 is dropped while cycle 2 is current.
    let run = |params| {
        let mut bench = Bench::new(params);
        bench.quic(false, 100);
        let stamp = bench.cycle(20_000, &[]);
        bench.cycle(10_000, &[]);
        bench.signal(stamp.cycle, Loss, 1);
        let booked = [0, 1].map(|age| bench.law.booked(FlowId(0), age).unwrap().loss);
        bench.windows(&[10_000, 10_000, 10_000], Loss, &[]);
        let votes = bench.view().votes.loss;
        (booked, votes.responsive, votes.unresponsive)
    };
    assert_eq!(run(paper()), ([0, 1], 1, 0));
    assert_eq!(run(Params { book_by_packet: false, ..paper() }), ([1, 0], 0, 1));
    assert_eq!(run(comsys()), ([1, 0], 0, 1));
    assert_eq!(run(Params { book_by_packet: true, ..comsys() }), ([0, 1], 1, 0));
}

#[test]
fn late_signals_are_counted() {
    let mut bench = Bench::new(paper());
    bench.quic(false, 100);
    let stamp = bench.cycle(20_000, &[]);
    bench.windows(&[20_000, 20_000], Loss, &[]);
    bench.signal(stamp.cycle, Loss, 1);
    assert_eq!(bench.view().late_signals, 0, "its cycle is judged at the end of this one");
    bench.cycle(20_000, &[]);
    bench.signal(stamp.cycle, Loss, 1);
    bench.signal(CycleId(77), Loss, 1);
    assert_eq!((bench.view().late_signals, bench.law.counters().late_signals), (2, 2));
    bench.law.signal(FlowId::NONE, CycleId(0), Mark, 1, bench.now);
    assert_eq!(bench.law.counters().untracked_signals, 1);
}

#[test]
fn a_queue_change_forgets_signals() {
    // Marks in every cycle, windows that halve each time: the first verdict at the end of cycle 3 changes the queue.
    // With the reset the next can come at the end of cycle 6, for the signal of cycle 4; without it already at that
    // of 4.
    let judged = |params: Params| {
        let mut bench = Bench::new(params.with_main_signal(MainSignal::Ecn));
        bench.quic(false, 100);
        for exponent in 0..8 {
            bench.cycle(60_000 >> exponent.min(2), &[Mark]);
        }
        assert_eq!(bench.heard.changes.first().map(|change| (change.cycle, change.to)), {
            Some((CycleId(4), QueueChoice::Responsive))
        });
        bench.heard.assessments.iter().map(|told| told.cycle.0).collect::<Vec<_>>()
    };
    assert_eq!(judged(paper()), [3, 6, 7]);
    assert_eq!(judged(Params { reset_on_switch: false, ..paper() }), [3, 4, 5, 6, 7]);
    let no_first = |params| Params { skip_first_cycle: true, ..params };
    assert_eq!(judged(no_first(comsys())), [3, 6, 7]);

    // A packet of cycle 3 that still waits in the old queue is dropped after the change.
    let mut bench = Bench::new(paper());
    bench.quic(false, 100);
    bench.cycle(20_000, &[Loss]);
    bench.cycle(10_000, &[]);
    let stamp = bench.cycle(10_000, &[]);
    bench.cycle(10_000, &[]);
    assert_eq!(bench.choice(), QueueChoice::Responsive);
    bench.signal(stamp.cycle, Loss, 1);
    assert_eq!(bench.view().late_signals, 1);
    assert_eq!(bench.heard.changes.len(), 1);
}

#[test]
fn the_packet_that_ends_the_cycle_goes_by_the_new_verdict() {
    let mut bench = Bench::new(paper());
    bench.quic(false, 100);
    bench.windows(&[20_000, 10_000, 10_001], Loss, &[20_000]);
    assert_eq!(bench.choice(), QueueChoice::Standard);
    let stamp = bench.cycle(500, &[]);
    assert_eq!((stamp.choice, stamp.cycle), (QueueChoice::Responsive, CycleId(4)));
}

#[test]
fn byte_counters_carry_and_saturate() {
    let booked = |params, signal, count| {
        let mut bench = Bench::new(params);
        bench.quic(false, 100);
        for _ in 0..count {
            bench.signal(CycleId(0), signal, 1);
        }
        [0, 1, 2].map(|age| {
            let pair = bench.law.booked(FlowId(0), age).unwrap();
            if signal == Loss { pair.loss } else { pair.mark }
        })
    };
    assert_eq!(booked(comsys(), Loss, 300), [44, 1, 0]);
    assert_eq!(booked(comsys(), Loss, 70_300), [156, 18, 1]);
    assert_eq!(booked(comsys(), Mark, 300), [255, 0, 0]);
    assert_eq!(booked(paper(), Loss, 300), [300, 0, 0]);
    assert_eq!(booked(paper(), Loss, 70_300), [65_535, 0, 0]);
    assert_eq!(booked(Params { byte_counters: false, ..comsys() }, Loss, 300), [300, 0, 0]);
    // The ghost is judged: 65,536 losses in one cycle are a signal of the cycle two before.
    let ghosts = |params| {
        let mut bench = Bench::new(params);
        bench.quic(false, 100);
        bench.windows(&[9_000, 9_000], Loss, &[]);
        let stamp = bench.cycle(9_000, &[]);
        for _ in 0..65_536 {
            bench.signal(stamp.cycle, Loss, 1);
        }
        bench.cycle(100, &[]);
        bench.heard.assessments.len()
    };
    assert_eq!((ghosts(comsys()), ghosts(paper())), (1, 0));
}

#[test]
fn super_packets_weigh_their_segments() {
    let booked = |params| {
        let mut bench = Bench::new(params);
        bench.quic(false, 100);
        bench.signal(CycleId(0), Loss, 44);
        bench.signal(CycleId(0), Mark, 44);
        let pair = bench.law.booked(FlowId(0), 0).unwrap();
        (pair.loss, pair.mark)
    };
    assert_eq!(booked(paper()), (44, 44));
    assert_eq!(booked(comsys()), (1, 1));
    assert_eq!(booked(Params { count_segments: true, ..comsys() }), (44, 44));
}

#[test]
fn marks_from_upstream() {
    let booked = |params| {
        let mut bench = Bench::new(params);
        let packet = parse(&ethernet(0x0800, &ipv4(17, 3, &udp(443, 50_000, &[0x40; 50]))), Start::Ethernet);
        bench.packet(&packet, Direction::Forward);
        bench.law.booked(FlowId(0), 0).unwrap().mark
    };
    assert_eq!((booked(paper()), booked(comsys())), (0, 1));
    assert_eq!(booked(Params { count_arriving_ce: false, ..comsys() }), 0);
}

#[test]
fn arithmetic_above_429_megabytes() {
    // Super-packets without a length: the window is the frame's. 9 x 500,000,000 exceeds 32 bits.
    let run = |params: Params| {
        let mut bench = Bench::new(Params { first_spin_counts: true, ..params });
        let big = |spin: bool, bytes: u32| {
            let mut frame = ipv4(17, 0, &udp(443, 50_000, &[0x40 | u8::from(spin) << 5; 20]));
            frame[2..4].fill(0);
            parse_cut(&frame, bytes + 28, Start::Ip)
        };
        bench.packet(&big(false, 100), Direction::Forward);
        for (window, spin) in [(500_000_000, true), (1_000, false), (400_000_000, true), (1_000, false)] {
            let stamp = bench.packet(&big(spin, window), Direction::Forward).1;
            if window == 500_000_000 {
                bench.signal(stamp.cycle, Loss, 1);
            }
        }
        let votes = bench.view().votes.loss;
        (votes.responsive, votes.unresponsive)
    };
    assert_eq!(run(paper()), (1, 0));
    assert_eq!(run(Params { wide_arithmetic: false, ..paper() }), (0, 1));
    assert_eq!(run(comsys()), (0, 1));
    assert_eq!(run(Params { wide_arithmetic: true, ..comsys() }), (1, 0));
}

#[test]
fn losses_choose_for_flows_that_cannot_be_marked() {
    // The packets here are Not-ECT.
    let choice = |preset| {
        let params = Params::preset(preset).with_main_signal(MainSignal::Ecn);
        // One direction alone is seen here.
        let mut bench = Bench::new(Params { spin_needs_reverse: false, ..params });
        bench.windows(&[1000, 20_000, 10_000, 10_001, 10_002], Signal::Loss, &[20_000]);
        bench.cycle(9_000, &[]);
        bench.choice()
    };
    assert_eq!(choice(Preset::Robust), QueueChoice::Responsive);
    assert_eq!(choice(Preset::Paper), QueueChoice::Standard);
}
