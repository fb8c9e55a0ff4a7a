use super::{Fq, FqConfig};
use crate::Qdisc;
use weir_core::{DropReason, Duration, Ecn, Event, EventKind, FlowId, MarkReason, Packet, Seed, Time};

fn fq(config: FqConfig) -> Fq {
    Fq::new(config, Seed::default().stream("fq"))
}

fn offer(queue: &mut Fq, flow: u32, packets: u32, now: Time) -> Vec<Event> {
    let mut events = Vec::new();
    for _ in 0..packets {
        let packet = Packet::new(0, FlowId(flow), 1514, now).with_ecn(Ecn::Ect0);
        queue.enqueue(packet, now, &mut events);
    }
    events
}

/// The flows of the departures until the queue is empty, with how many packets in a row.
fn drain(queue: &mut Fq, now: Time) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    while let Some(packet) = queue.dequeue(now, &mut ()) {
        match runs.last_mut() {
            Some((flow, packets)) if *flow == packet.flow.0 => *packets += 1,
            _ => runs.push((packet.flow.0, 1)),
        }
    }
    runs
}

#[test]
fn flows_begin_with_ten_packets_and_go_on_with_two() {
    let mut queue = fq(FqConfig::default());
    // Eight take the fast path, whoever they are; then there are flows.
    offer(&mut queue, 9, 8, Time::ZERO);
    offer(&mut queue, 1, 15, Time::ZERO);
    offer(&mut queue, 2, 14, Time::ZERO);
    // 15140 bytes are ten packets exactly; 3028 are two.
    assert_eq!(
        drain(&mut queue, Time::ZERO),
        [(9, 8), (1, 10), (2, 10), (1, 2), (2, 2), (1, 2), (2, 2), (1, 1)]
    );
}

#[test]
fn credit_is_refilled_after_a_rest_longer_than_the_delay() {
    for (rest, packets) in [(40_000_000, 1), (40_000_001, 2)] {
        let mut queue = fq(FqConfig { initial_quantum: 1515, ..FqConfig::default() });
        offer(&mut queue, 9, 8, Time::ZERO);
        // One packet leaves one byte of credit.
        offer(&mut queue, 1, 1, Time::ZERO);
        drain(&mut queue, Time::ZERO);
        let later = Time::from_nanos(rest);
        offer(&mut queue, 9, 8, later);
        offer(&mut queue, 1, 4, later);
        offer(&mut queue, 2, 4, later);
        let runs = drain(&mut queue, later);
        assert_eq!(runs[1], (1, packets), "{rest}");
        assert_eq!(runs[2], (2, 2));
    }
}

#[test]
fn the_fast_path_is_closed_while_a_flow_has_a_backlog() {
    let mut queue = fq(FqConfig::default());
    offer(&mut queue, 1, 9, Time::ZERO);
    for _ in 0..8 {
        queue.dequeue(Time::ZERO, &mut ());
    }
    // The ninth packet waits in its flow's queue: a tenth before it would overtake.
    offer(&mut queue, 1, 1, Time::ZERO);
    assert_eq!((queue.fast_path.backlog().packets, queue.active), (0, 1));
    drain(&mut queue, Time::ZERO);
    offer(&mut queue, 1, 1, Time::ZERO);
    assert_eq!((queue.fast_path.backlog().packets, queue.active), (1, 0));
}

#[test]
fn before_linux_6_7_each_packet_waits_with_those_of_its_flow() {
    let mut queue = fq(FqConfig { flow_limit: 2, fast_path: false, ..FqConfig::default() });
    for flow in [1, 2, 1, 2, 1, 2] {
        offer(&mut queue, flow, 1, Time::ZERO);
    }
    assert_eq!(drain(&mut queue, Time::ZERO), [(1, 2), (2, 2)]);
    // With it, a limit of two lets eight packets of both and two more of each in.
    let mut queue = fq(FqConfig { flow_limit: 2, ..FqConfig::default() });
    for _ in 0..9 {
        offer(&mut queue, 1, 1, Time::ZERO);
        offer(&mut queue, 2, 1, Time::ZERO);
    }
    assert_eq!(queue.backlog().packets, 8 + 2 + 2);
}

#[test]
fn limits_hold_for_a_flow_and_for_all() {
    let overflows = |events: Vec<Event>| {
        events.iter().filter(|event| event.kind == EventKind::Drop(DropReason::Overflow)).count()
    };
    let mut queue = fq(FqConfig { limit: 150, ..FqConfig::default() });
    assert_eq!(overflows(offer(&mut queue, 1, 8 + 100 + 3, Time::ZERO)), 3);
    assert_eq!(overflows(offer(&mut queue, 2, 50 + 4, Time::ZERO)), 4);
    assert_eq!(queue.backlog().packets, 158);
}

#[test]
fn packets_beyond_the_threshold_are_marked() {
    let mut queue = fq(FqConfig { ce_threshold: Some(Duration::from_millis(1)), ..FqConfig::default() });
    offer(&mut queue, 1, 10, Time::ZERO);
    let mut events: Vec<Event> = Vec::new();
    for _ in 0..9 {
        queue.dequeue(Time::from_nanos(1_000_000), &mut events);
    }
    assert_eq!(queue.dequeue(Time::from_nanos(1_000_001), &mut events).unwrap().ecn, Ecn::Ce);
    let marks = events.iter().filter(|event| event.kind == EventKind::Mark(MarkReason::CeThreshold));
    assert_eq!(marks.count(), 1);
}

#[test]
fn a_flow_that_is_never_found_empty_is_not_new_for_ever() {
    let mut queue = fq(FqConfig::default());
    offer(&mut queue, 9, 8, Time::ZERO);
    offer(&mut queue, 1, 60, Time::ZERO);
    for _ in 0..8 + 10 {
        queue.dequeue(Time::ZERO, &mut ());
    }
    // One packet of the same flow each time the link is free.
    let old = (0..40).filter(|_| {
        offer(&mut queue, 2, 1, Time::ZERO);
        queue.dequeue(Time::ZERO, &mut ()).unwrap().flow == FlowId(1)
    });
    // Ten for its initial credit; of the 30 that follow, two each in turn.
    assert!((14..=16).contains(&old.count()));
}
