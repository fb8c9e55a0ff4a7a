//! Random packets, signals and settings: the law keeps its invariants whatever comes.

use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use weir_core::{CycleId, Duration, FlowId, Time};

use crate::law_testing::Heard;
use crate::testing::{Segment, ethernet, ipv4, long, opening, short, tcp, udp};
use crate::{
    Direction, Judgement, Law, Params, ParsedPacket, Preset, Signal, Start, UNBOOKED, Verdict, Votes, parse,
};

#[derive(Clone, Debug)]
enum Operation {
    Packet(Box<ParsedPacket>, bool),
    /// Which cycle back from the current one (may be out of range), kind, segments.
    Signal(u32, bool, u16),
}

fn packet() -> impl Strategy<Value = ParsedPacket> {
    let near = prop_oneof![0u32..5000, Just(0xc000_0000u32), (u32::MAX - 5000)..=u32::MAX, any::<u32>()];
    let stamp = prop_oneof![0u32..20, (u32::MAX - 20)..=u32::MAX, any::<u32>()];
    let stamps = (stamp.clone(), stamp)
        .prop_map(|(value, echo)| [&[1, 1, 8, 10], &value.to_be_bytes()[..], &echo.to_be_bytes()].concat());
    let sack = (stamps.clone(), near.clone(), near.clone()).prop_map(|(stamps, from, to)| {
        [&stamps[..], &[1, 1, 5, 10], &from.to_be_bytes()[..], &to.to_be_bytes()].concat()
    });
    let options = prop_oneof![1 => Just(Vec::new()), 4 => stamps, 1 => sack];
    let tcp = (near.clone(), near, any::<u8>(), 0usize..3000, any::<bool>(), options).prop_map(
        |(seq, ack, flags, payload, turned, options)| {
            let ports = if turned { (50_000, 443) } else { (443, 50_000) };
            let segment = Segment { ports, seq, ack, flags: flags | 0x10, options, payload };
            parse(&ethernet(0x0800, &ipv4(6, flags, &tcp(&segment))), Start::Ethernet)
        },
    );
    let quic = (any::<bool>(), 1usize..20_000).prop_map(|(spin, payload)| short(spin, payload));
    let greased = (0u8..0x40, 1usize..20_000).prop_map(|(first, payload)| opening(first, payload));
    let handshake = any::<u8>().prop_map(|first| {
        let payload = [long(1, first & 3, Some(&[]), 50), vec![first; 30]].concat();
        parse(&ethernet(0x0800, &ipv4(17, first, &udp(443, 50_000, &payload))), Start::Ethernet)
    });
    prop_oneof![6 => tcp, 7 => quic, 3 => greased, 2 => handshake]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => (packet(), any::<bool>()).prop_map(|(packet, reverse)| Operation::Packet(Box::new(packet), reverse)),
        1 => (0u32..5, any::<bool>(), any::<u16>()).prop_map(|(back, mark, segments)| Operation::Signal(back, mark, segments)),
    ]
}

/// A preset with some of its switches turned, by way of the settings' own text form.
fn params() -> impl Strategy<Value = Params> {
    (0usize..3, any::<u64>(), 1u8..=16, any::<bool>()).prop_map(|(preset, turned, spin_debounce, wild)| {
        let preset = [Preset::Paper, Preset::Comsys, Preset::Robust][preset];
        let mut value = serde_json::to_value(Params::preset(preset)).expect("settings as JSON");
        let fields = value.as_object_mut().expect("a table");
        for (i, field) in fields.values_mut().filter(|field| field.is_boolean()).enumerate() {
            if wild && turned >> i & 1 == 1 {
                *field = serde_json::Value::Bool(field == &serde_json::Value::Bool(false));
            }
        }
        if fields["byte_counters"] == true {
            fields["whole_conduct"] = false.into();
        }
        let spin_debounce = if wild { spin_debounce } else { 1 };
        Params { spin_debounce, ..serde_json::from_value(value).expect("settings from JSON") }
    })
}

fn total(votes: Votes) -> u32 {
    votes.responsive + votes.unresponsive
}

proptest! {
    #[test]
    fn invariants(params in params(), operations in proptest::collection::vec(operation(), 1..200)) {
        let mut law = Law::new(params, 8);
        let mut heard = Heard::default();
        let mut now = Time::ZERO;
        let mut signals = [0u64; 2];
        for operation in &operations {
            now += Duration::from_micros(100);
            match operation {
                Operation::Packet(packet, reverse) => {
                    let direction = if *reverse { Direction::Reverse } else { Direction::Forward };
                    let flow = law.lookup(packet, direction, now);
                    let before = law.flow(flow).map(|view| view.cycle);
                    let stamp = law.arrival(flow, packet, direction, now, &mut heard);
                    if let (Some(before), Some(after)) = (before, law.flow(flow)) {
                        prop_assert!(after.cycle >= before, "cycles only count up");
                        prop_assert!(after.cycle.0 - before.0 <= 2);
                        let unbooked = after.cycle.0.wrapping_sub(UNBOOKED);
                        prop_assert!(stamp.cycle == after.cycle || stamp.cycle.0 == unbooked);
                    }
                    signals[1] += u64::from(params.count_arriving_ce && packet.ecn().bits() == 3);
                }
                Operation::Signal(back, mark, segments) => {
                    let current = law.flow(FlowId(0)).map_or(0, |view| view.cycle.0);
                    let kind = if *mark { Signal::Mark } else { Signal::Loss };
                    law.signal(FlowId(0), CycleId(current.wrapping_sub(*back)), kind, *segments, now);
                    signals[usize::from(*mark)] += 1;
                }
            }
        }
        let counters = law.counters();
        for (_, view) in law.flows() {
            prop_assert!(view.class.index() < 9);
            for (votes, verdict) in [(view.votes.loss, view.class.loss), (view.votes.mark, view.class.ecn)] {
                prop_assert!(verdict == Verdict::Unclassified || total(votes) > 0);
                // The judge wants to be sure, and remembers more than votes.
                if params.whole_conduct {
                    continue;
                }
                prop_assert_eq!(verdict == Verdict::Unclassified, total(votes) == 0);
                if votes.responsive > votes.unresponsive {
                    prop_assert_eq!(verdict, Verdict::Responsive);
                } else if votes.responsive < votes.unresponsive {
                    prop_assert_eq!(verdict, Verdict::Unresponsive);
                }
            }
            prop_assert!(view.withheld as usize <= heard.cycles.len());
        }
        for (signalled, votes) in [
            (signals[0], heard.assessments.iter().filter(|told| told.vote.loss != Verdict::Unclassified).count()),
            (signals[1], heard.assessments.iter().filter(|told| told.vote.mark != Verdict::Unclassified).count()),
        ] {
            // The judge has one verdict for both kinds.
            let signalled = if params.whole_conduct { signals[0] + signals[1] } else { signalled };
            prop_assert!(signalled > 0 || votes == 0, "no verdict without a signal");
        }
        prop_assert!(counters.late_signals + counters.untracked_signals <= signals[0] + signals[1]);
        prop_assert_eq!(counters.packets, operations.iter().filter(|o| matches!(o, Operation::Packet(..))).count() as u64);
        let voted = heard.cycles.iter().filter(|end| end.judgement == Judgement::Voted).count();
        prop_assert_eq!(voted, heard.assessments.len());
        for told in heard.assessments.iter().filter(|_| !params.whole_conduct) {
            prop_assert!(told.signals.loss + told.signals.mark > 0);
            prop_assert_eq!(told.vote.loss != Verdict::Unclassified, told.signals.loss > 0);
            prop_assert_eq!(told.vote.mark != Verdict::Unclassified, told.signals.mark > 0);
        }
    }

    /// The same operations give the same verdicts, whatever the hash secret.
    #[test]
    fn repeatable(params in params(), operations in proptest::collection::vec(operation(), 1..60), seed in any::<u64>()) {
        let run = |seed| {
            let mut law = Law::with_seed(params, 8, seed);
            for operation in &operations {
                match operation {
                    Operation::Packet(packet, reverse) => {
                        let direction = if *reverse { Direction::Reverse } else { Direction::Forward };
                        let flow = law.lookup(packet, direction, Time::ZERO);
                        law.arrival(flow, packet, direction, Time::ZERO, &mut ());
                    }
                    Operation::Signal(cycle, _, segments) => {
                        law.signal(FlowId(0), CycleId(*cycle), Signal::Loss, *segments, Time::ZERO);
                    }
                }
            }
            law.flows().collect::<Vec<_>>()
        };
        prop_assert_eq!(run(0), run(seed));
    }
}

#[test]
fn a_full_table_counts_and_keeps_what_it_has() {
    let mut law = Law::new(Params::default(), 3);
    let from =
        |port: u16| parse(&ethernet(0x0800, &ipv4(17, 0, &udp(port, 9, &[0x40; 30]))), Start::Ethernet);
    let mut find = |port| law.lookup(&from(port), Direction::Forward, Time::ZERO);
    assert_eq!([1, 2, 1, 3, 4, 5, 2].map(&mut find), [0, 1, 0, 2, u32::MAX, u32::MAX, 1].map(FlowId));
    assert_eq!((law.len(), law.counters().table_full), (3, 2));
    assert_eq!(
        law.arrival(FlowId::NONE, &from(4), Direction::Forward, Time::ZERO, &mut ()),
        Default::default()
    );
    assert!(law.flow(FlowId(3)).is_none() && Law::new(Params::default(), 0).is_empty());
}

#[test]
fn a_table_holds_its_capacity() {
    let mut law = Law::with_seed(Params::default(), 5000, 99);
    let ids: Vec<_> = (0..5000u32)
        .map(|i| {
            let mut packet = ipv4(17, 0, &udp(i as u16, 9, &[0x40; 30]));
            packet[15] = (i >> 8) as u8;
            law.lookup(&parse(&packet, Start::Ip), Direction::Forward, Time::ZERO)
        })
        .collect();
    assert_eq!(ids, (0..5000).map(FlowId).collect::<Vec<_>>());
}

#[test]
fn what_has_no_flow_is_counted() {
    let mut law = Law::new(Params::default(), 4);
    let good = ipv4(6, 0, &tcp(&Segment { payload: 10, ..Segment::default() }));
    let mut fragment = good.clone();
    fragment[7] = 9;
    let mut lie = good.clone();
    lie[3] = 3;
    for (frame, start) in [
        (ethernet(0x0806, &[0; 30]), Start::Ethernet),
        (good[..30].to_vec(), Start::Ip),
        (fragment, Start::Ip),
        (lie, Start::Ip),
        (ipv4(1, 0, &[8; 30]), Start::Ip),
    ] {
        assert_eq!(law.lookup(&parse(&frame, start), Direction::Forward, Time::ZERO), FlowId::NONE);
    }
    let counters = law.counters();
    assert_eq!((counters.packets, counters.not_ip, counters.truncated), (5, 1, 1));
    assert_eq!((counters.fragments, counters.malformed, counters.other), (1, 1, 1));
}
