//! CRQ where no verdict pays: queues that share a link by the flows in them; and challenges.

mod support;

use std::collections::HashMap;

use proptest::prelude::*;
use support::{Arrival, drive};
use weir_core::{
    DropReason, Duration, Ecn, Event, EventKind, FlowId, MarkReason, Packet, QueueChoice, Rate, Seed, Time,
};
use weir_qdisc::{BuildContext, Qdisc, QdiscConfig};

const MTU: u32 = 1514;

fn build(words: &str) -> Box<dyn Qdisc> {
    build_with(words, Seed::default())
}

fn build_with(words: &str, seed: Seed) -> Box<dyn Qdisc> {
    let rate = Rate::from_bits_per_sec(100_000_000);
    let link = BuildContext { rate, rtt: Duration::from_millis(20), mtu: MTU, seed };
    words.parse::<QdiscConfig>().unwrap().build(&link).unwrap()
}

/// So many packets of each flow, in turns; a flow has packets of one length and one verdict.
fn fill(queue: &mut dyn Qdisc, flows: &[(u32, QueueChoice)], each: u64) {
    for turn in 0..each {
        for (flow, (bytes, choice)) in (0..).zip(flows) {
            let packet = Packet::new(turn * 1000 + u64::from(flow), FlowId(flow), *bytes, Time::ZERO);
            queue.enqueue(Packet { choice: *choice, ..packet }, Time::ZERO, &mut ());
        }
    }
}

/// A full packet of a flow with that verdict.
fn come(queue: &mut dyn Qdisc, flow: u32, choice: QueueChoice) {
    let packet = Packet::new(0, FlowId(flow), MTU, Time::ZERO);
    queue.enqueue(Packet { choice, ..packet }, Time::ZERO, &mut ());
}

fn verdict() -> impl Strategy<Value = QueueChoice> {
    prop_oneof![Just(QueueChoice::Standard), Just(QueueChoice::Responsive)]
}

proptest! {
    /// With fair queues in both classes all flows have the same, whatever was thought of each.
    #[test]
    fn no_verdict_gives_a_flow_more_than_another(
        flows in prop::collection::vec((200..=MTU, verdict()), 2..12),
    ) {
        let child = "drr flows 65536 quantum 1514b limit 100000p";
        let mut queue = build(&format!("crq standard {child} responsive {child} sharing flows split shared"));
        const EACH: u64 = 300;
        fill(&mut *queue, &flows, EACH);
        let mut sent = vec![0u64; flows.len()];
        let mut left = vec![EACH; flows.len()];
        // As long as each flow has a full packet waiting.
        while left.iter().zip(&flows).all(|(left, (bytes, _))| left * u64::from(*bytes) > 2 * u64::from(MTU)) {
            let packet = queue.dequeue(Time::ZERO, &mut ()).unwrap();
            sent[packet.flow.0 as usize] += u64::from(packet.wire_bytes);
            left[packet.flow.0 as usize] -= 1;
            let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
            // Deficit round robin in either class, and a packet between the classes.
            prop_assert!(most - least <= 4 * u64::from(MTU), "{sent:?} of {flows:?}");
        }
        prop_assert!(sent.iter().all(|sent| *sent > 10_000), "{sent:?}");
    }

    /// With queues that do not know flows each class has the part that its flows would have.
    #[test]
    fn a_class_has_its_flows_parts(standard in 1..20u32, responsive in 1..20u32) {
        let queue = "pfifo limit 100000p";
        let mut queue = build(&format!("crq standard {queue} responsive {queue} sharing flows split shared"));
        let of = |choice, count| std::iter::repeat_n((MTU, choice), count as usize);
        let flows: Vec<_> =
            of(QueueChoice::Standard, standard).chain(of(QueueChoice::Responsive, responsive)).collect();
        fill(&mut *queue, &flows, 100);
        let mut sent = [0u64; 2];
        for turn in 1..=50 * flows.len() as u64 {
            sent[queue.dequeue(Time::ZERO, &mut ()).unwrap().choice as usize] += 1;
            let total = u64::from(standard + responsive);
            let off = (sent[0] * total).abs_diff(turn * u64::from(standard));
            prop_assert!(off <= total, "{sent:?} for {standard}:{responsive}");
        }
    }

    /// A flow is asked neither often nor in a rhythm, and never by a small packet.
    #[test]
    fn challenges_keep_to_their_budget(
        gaps in prop::collection::vec((0..4u32, 1..2_000_000u64, prop_oneof![Just(90), Just(1514)]), 3000),
        marks in any::<bool>(),
        run in 0..100u64,
    ) {
        let child = if marks { "codel ecn target 1s interval 10s" } else { "pfifo limit 10000p" };
        let words = format!("crq standard {child} responsive {child} split shared challenge 200ms");
        let mut queue = build_with(&words, Seed { seed: 1, run });
        let arrivals: Vec<_> = gaps
            .into_iter()
            .map(|(flow, gap, bytes)| Arrival {
                gap, flow: FlowId(flow), bytes, ecn: Ecn::Ect0, choice: QueueChoice::Standard,
            })
            .collect();
        let (events, _) = drive(&mut *queue, Rate::from_bits_per_sec(100_000_000), &arrivals, true);
        let mut seen: HashMap<FlowId, (u32, Option<Time>)> = HashMap::new();
        for event in &events {
            let (large, last) = seen.entry(event.packet.flow).or_default();
            match event.kind {
                EventKind::Enqueue => *large += u32::from(event.packet.wire_bytes > 256),
                EventKind::Drop(DropReason::Challenge) | EventKind::Mark(MarkReason::Challenge) => {
                    prop_assert_eq!(matches!(event.kind, EventKind::Mark(_)), marks);
                    prop_assert!(event.packet.wire_bytes > 256);
                    prop_assert!(*large >= 100, "after {large} packets");
                    let gap = last.replace(event.time).map(|last| event.time.since(last));
                    prop_assert!(gap.is_none_or(|gap| gap >= Duration::from_millis(100)), "after {gap:?}");
                    *large = 0;
                }
                _ => {}
            }
        }
    }
}

fn steady(flows: u32, seconds: u64) -> Vec<Arrival> {
    let each = |_| {
        (0..flows).map(|flow| Arrival {
            gap: 1_000_000 / u64::from(flows),
            flow: FlowId(flow),
            bytes: MTU,
            ecn: Ecn::NotEct,
            choice: QueueChoice::Responsive,
        })
    };
    (0..seconds * 1000).flat_map(each).collect()
}

fn challenges(run: u64) -> Vec<Event> {
    let words = "crq standard bfifo responsive bfifo split shared challenge 1s";
    let mut queue = build_with(words, Seed { seed: 1, run });
    let (events, _) = drive(&mut *queue, Rate::from_bits_per_sec(100_000_000), &steady(4, 100), true);
    events.into_iter().filter(|event| event.kind == EventKind::Drop(DropReason::Challenge)).collect()
}

#[test]
fn a_steady_flow_is_challenged_as_often_as_was_asked_for_and_at_other_times_in_each_run() {
    let [one, other] = [0, 1].map(challenges);
    for flow in (0..4).map(FlowId) {
        let times = |events: &[Event]| {
            let of = events.iter().filter(|event| event.packet.flow == flow);
            of.map(|event| event.time).collect::<Vec<_>>()
        };
        let (one, other) = (times(&one), times(&other));
        // A hundred seconds of gaps with a mean of 1 s and a deviation of 0.29 s.
        assert!((85..=115).contains(&one.len()), "{}", one.len());
        assert!(one.iter().zip(&other).filter(|(one, other)| one == other).count() < 5);
    }
}

#[test]
fn many_small_flows_weigh_as_much_as_their_bytes_and_no_longer_than_a_round() {
    // A bulk flow in either class; the standard one has company of a hundred flows with an acknowledgement each.
    let queue = "pfifo limit 100000p";
    let mut queue = build(&format!("crq standard {queue} responsive {queue} sharing flows split shared"));
    for flow in 0..100 {
        let packet = Packet::new(u64::from(flow), FlowId(10 + flow), 66, Time::ZERO);
        queue.enqueue(packet, Time::ZERO, &mut ());
    }
    fill(&mut *queue, &[(MTU, QueueChoice::Standard), (MTU, QueueChoice::Responsive)], 1000);
    let mut sent = [0u64; 2];
    while queue.backlog().packets > 1000 {
        let packet = queue.dequeue(Time::ZERO, &mut ()).unwrap();
        sent[packet.choice as usize] += u64::from(packet.wire_bytes);
    }
    // They are served first, as 4.4 full packets, and count a round longer.
    let small = 100 * 66;
    assert!(sent[0] <= sent[1] + 2 * small + 2 * u64::from(MTU), "{sent:?}");
    assert!(sent[1] <= sent[0] + u64::from(MTU), "{sent:?}");
}

/// One full packet of each at first does not make them count as full packets later.
#[test]
fn small_flows_that_never_run_empty_weigh_as_much_as_their_bytes() {
    let queue = "pfifo limit 100000p";
    let mut queue = build(&format!("crq standard {queue} responsive {queue} sharing flows split shared"));
    fill(&mut *queue, &[(MTU, QueueChoice::Standard), (MTU, QueueChoice::Responsive)], 3000);
    let small = |queue: &mut dyn Qdisc, flow, bytes| {
        queue.enqueue(Packet::new(0, flow, bytes, Time::ZERO), Time::ZERO, &mut ());
    };
    // Twenty flows each send a full packet and an acknowledgement, and then one for each that leaves.
    for flow in (10..30).map(FlowId) {
        small(&mut *queue, flow, MTU);
        small(&mut *queue, flow, 66);
    }
    let mut sent = [0u64; 2];
    for turn in 0..20_000 {
        let packet = queue.dequeue(Time::ZERO, &mut ()).unwrap();
        if packet.flow.0 >= 10 {
            small(&mut *queue, packet.flow, 66);
        } else {
            come(&mut *queue, packet.flow.0, packet.choice);
        }
        // Until the full packets have left.
        if turn >= 10_000 {
            sent[packet.choice as usize] += u64::from(packet.wire_bytes);
        }
    }
    // A full packet to a full packet and twenty acknowledgements, twice.
    let ratio = sent[0] as f64 / sent[1] as f64;
    let most = 1.0 + 2.0 * 20.0 * 66.0 / f64::from(MTU);
    assert!((1.0..most + 0.1).contains(&ratio), "{ratio}: {sent:?}");
}

/// A sender whose queue always runs empty in between has no more of it than one whose queue never does.
#[test]
fn to_come_and_go_does_not_pay() {
    let link = Rate::from_bits_per_sec(100_000_000);
    let child = "fq_codel noecn target 1s interval 10s";
    let words = |rest: &str| format!("crq standard {child} responsive {child} {rest}");
    let parts = ["sharing flows split shared", "sharing equal split shared"].map(|rest| {
        let mut queue = build(&words(rest));
        // Four flows that always wait, and one that sends as soon as it has nothing waiting.
        for flow in 1..5 {
            for number in 0..2000u64 {
                let packet = Packet::new(number * 10 + u64::from(flow), FlowId(flow), MTU, Time::ZERO);
                queue.enqueue(Packet { choice: QueueChoice::Responsive, ..packet }, Time::ZERO, &mut ());
            }
        }
        let (mut now, mut rest, mut waits, mut sent) = (Time::ZERO, 0, false, 0);
        for turn in 0..5000u64 {
            if !waits {
                let packet = Packet::new(turn * 10, FlowId(0), MTU, now);
                queue.enqueue(packet, now, &mut ());
                waits = true;
            }
            let packet = queue.dequeue(now, &mut ()).unwrap();
            now += link.serialize(packet.wire_bytes.into(), &mut rest);
            if packet.flow == FlowId(0) {
                waits = false;
                sent += 1;
            }
        }
        sent
    });
    assert!((950..=1050).contains(&parts[0]), "a fifth of 5000, not {parts:?}");
    assert!(parts[1] > 2000, "half of them where classes share equally: {parts:?}");
}

/// Flows that send less than their part lift a class by little more than what they send: a bulk flow among them has
/// about what it has in one fair queue for all.
#[test]
fn company_of_small_flows_does_not_pay() {
    let link = Rate::from_bits_per_sec(20_000_000);
    let child = "fq_codel noecn target 1s interval 10s limit 100000p";
    let bulk = |words: &str| {
        // A packet of each of 20 flows in 24 ms, a fourth of an equal part; a bulk flow, and four in the other class.
        let mut arrivals = Vec::new();
        for turn in 0..4000u64 {
            let small = FlowId(10 + (turn % 20) as u32);
            let one = |flow, choice, gap| Arrival { gap, flow, bytes: MTU, ecn: Ecn::NotEct, choice };
            arrivals.push(one(small, QueueChoice::Standard, 1_200_000));
            for _ in 0..2 {
                arrivals.push(one(FlowId(0), QueueChoice::Standard, 0));
                arrivals.extend((1..5).map(|flow| one(FlowId(flow), QueueChoice::Responsive, 0)));
            }
        }
        let (events, _) = drive(&mut *build(words), link, &arrivals, false);
        let of_bulk = |event: &&Event| event.kind == EventKind::Dequeue && event.packet.flow == FlowId(0);
        events.iter().filter(of_bulk).count() as f64
    };
    let one = bulk(child);
    let two = bulk(&format!("crq standard {child} responsive {child} sharing flows split shared"));
    assert!((0.8..1.2).contains(&(two / one)), "{two} packets instead of {one}");
}

/// A flow counts in the queue that it has left for no longer than its packets' turn.
#[test]
fn flows_that_have_gone_to_the_other_class_do_not_count_in_theirs() {
    let child = "drr flows 65536 limit 100000p";
    let mut queue = build(&format!("crq standard {child} responsive {child} sharing flows split shared"));
    for _ in 0..2000 {
        come(&mut *queue, 0, QueueChoice::Standard);
    }
    // Four flows begin in the standard queue and are found to answer; they always have two packets waiting.
    let mut sent = [0u32; 5];
    for flow in 1..5 {
        come(&mut *queue, flow, QueueChoice::Standard);
        come(&mut *queue, flow, QueueChoice::Responsive);
    }
    for _ in 0..5000 {
        let packet = queue.dequeue(Time::ZERO, &mut ()).unwrap();
        sent[packet.flow.0 as usize] += 1;
        if packet.flow != FlowId(0) {
            come(&mut *queue, packet.flow.0, QueueChoice::Responsive);
        }
    }
    assert!(sent.iter().all(|sent| (950..=1050).contains(sent)), "{sent:?}");
}

/// A flow that has filled one queue and is then given to the other has a part of each, unless it must first drain the
/// one.
#[test]
fn a_flood_that_changes_class_has_one_part_with_drain() {
    let child = "drr flows 65536 limit 100000p";
    let parts = ["immediate", "drain"].map(|switching| {
        let words = format!("crq standard {child} responsive {child} sharing flows split shared");
        let mut queue = build(&format!("{words} switching {switching}"));
        for choice in [QueueChoice::Responsive, QueueChoice::Standard] {
            for _ in 0..2000 {
                come(&mut *queue, 0, choice);
            }
        }
        for flow in 1..5 {
            come(&mut *queue, flow, QueueChoice::Responsive);
            come(&mut *queue, flow, QueueChoice::Responsive);
        }
        let mut of_flood = 0;
        for _ in 0..3000 {
            let packet = queue.dequeue(Time::ZERO, &mut ()).unwrap();
            if packet.flow == FlowId(0) {
                of_flood += 1;
            } else {
                come(&mut *queue, packet.flow.0, QueueChoice::Responsive);
            }
        }
        of_flood
    });
    // Of six parts two, of five parts one.
    assert!((990..=1010).contains(&parts[0]) && (590..=610).contains(&parts[1]), "{parts:?}");
}
