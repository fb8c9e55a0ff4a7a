use super::law::{ControlLaw, after, before, duration_ticks};
use super::{CeThreshold, Codel, CodelConfig, KernelVariant};
use crate::{Qdisc, QueueLimit};
use weir_core::{DropReason, Duration, Ecn, Event, EventKind, FlowId, MarkReason, Packet, Time};

/// A queue with a standing backlog: `count` packets of 1000 bytes that all came at time 0.
fn standing(config: CodelConfig, count: u64, ecn: Ecn) -> Codel {
    let mut queue = Codel::new(config);
    for id in 0..count {
        queue.enqueue(Packet::new(id, FlowId(0), 1000, Time::ZERO).with_ecn(ecn), Time::ZERO, &mut ());
    }
    queue
}

/// Dequeues at `tick`, the clock of the law: the packet's id and what happened besides the departure.
fn at_tick(queue: &mut Codel, tick: u64) -> (Option<u64>, Vec<(u64, EventKind)>) {
    let mut events: Vec<Event> = Vec::new();
    let packet = queue.dequeue(Time::from_nanos(tick << 10), &mut events);
    let others = events.iter().filter(|event| event.kind != EventKind::Dequeue);
    (packet.map(|packet| packet.id), others.map(|event| (event.packet.id, event.kind)).collect())
}

const AQM: EventKind = EventKind::Drop(DropReason::Aqm);
const MARK: EventKind = EventKind::Mark(MarkReason::Aqm);
const THRESHOLD: EventKind = EventKind::Mark(MarkReason::CeThreshold);

#[test]
fn the_clock_truncates_as_the_kernels() {
    // MS2TIME(5) and MS2TIME(100) of include/net/codel.h.
    assert_eq!(duration_ticks(Duration::from_millis(5)), 4882);
    assert_eq!(duration_ticks(Duration::from_millis(100)), 97656);
    assert_eq!(duration_ticks(Duration::from_nanos(1023)), 0);
    assert_eq!(duration_ticks(Duration::MAX), i32::MAX as u32);
    assert!(after(5, u32::MAX - 5) && before(u32::MAX - 5, 5) && !after(7, 7) && !before(7, 7));
}

#[test]
fn newton_follows_the_root() {
    let mut law = ControlLaw { root: u16::MAX, count: 1, ..ControlLaw::default() };
    // One step each from count 2 on: exact values of the recurrence, by hand for the first two.
    // r = 0xffff/65536: r^2 = 0.99997, r/2 * (3 - 2 * 0.99997) = 0.50002 -> 0x8000 after truncation or one above.
    let mut worst: f64 = 0.0;
    for count in 2..=1000 {
        law.count = count;
        law.newton_step();
        if count == 2 {
            assert!((0x8000..=0x8001).contains(&law.root), "{:#x}", law.root);
        }
        let exact = 65536.0 / f64::from(count).sqrt();
        if count >= 16 {
            worst = worst.max((f64::from(law.root) / exact - 1.0).abs());
        }
    }
    // The step lags behind at first (29 % below 1/sqrt(2) at count 2); from 16 on it is good to under two per cent.
    assert!(worst < 0.02, "{worst}");
}

#[test]
fn the_first_drop_comes_strictly_after_an_interval_above_target() {
    let mut queue = standing(CodelConfig::default(), 20, Ecn::NotEct);
    // Not above target, though by less than a tick.
    assert_eq!(at_tick(&mut queue, 4881), (Some(0), vec![]));
    assert_eq!(at_tick(&mut queue, 4882), (Some(1), vec![]));
    assert_eq!(queue.law.first_above, 4882 + 97656);
    assert_eq!(at_tick(&mut queue, 4882 + 97656), (Some(2), vec![]));
    assert_eq!(at_tick(&mut queue, 4882 + 97657), (Some(4), vec![(3, AQM)]));
    // 97656 * 65535 / 65536, truncated, after the drop.
    assert_eq!(queue.law.drop_next, 4882 + 97657 + 97654);
    let due = u64::from(queue.law.drop_next);
    assert_eq!(at_tick(&mut queue, due), (Some(6), vec![(5, AQM)]));
    assert_eq!(queue.law.count, 2);
}

#[test]
fn an_mtu_of_backlog_is_never_dropped() {
    let config = CodelConfig { mtu: 1000, ..CodelConfig::default() };
    for (packets, drops) in [(3, true), (2, false)] {
        let mut queue = standing(config, packets + 1, Ecn::NotEct);
        at_tick(&mut queue, 10_000);
        let (_, events) = at_tick(&mut queue, 200_000);
        // What counts is the backlog without the packet itself: 2000 bytes or 1000.
        assert_eq!(!events.is_empty(), drops, "{packets}");
    }
}

#[test]
fn a_pause_is_forgotten_only_after_sixteen_intervals() {
    for (pause, count) in [(16 * 97656 - 1, 9), (16 * 97656, 1)] {
        let mut queue = standing(CodelConfig::default(), 10, Ecn::NotEct);
        queue.law = ControlLaw {
            count: 10,
            last_count: 1,
            root: u16::MAX,
            first_above: 1,
            drop_next: 50_000,
            ..queue.law
        };
        at_tick(&mut queue, 50_000 + pause);
        assert_eq!((queue.law.count, queue.law.dropping), (count, true), "{pause}");
    }
}

#[test]
fn ecn_marks_instead_and_one_at_a_time() {
    let config = CodelConfig { ecn: true, ..CodelConfig::default() };
    for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
        let mut queue = standing(config, 10, ecn);
        at_tick(&mut queue, 10_000);
        assert_eq!(at_tick(&mut queue, 200_000), (Some(1), vec![(1, MARK)]), "{ecn:?}");
        // Five drops would be due by now; only one mark is made, and the schedule moves one step.
        let due = queue.law.drop_next;
        let mut events: Vec<Event> = Vec::new();
        let packet = queue.dequeue(Time::from_nanos(600_000 << 10), &mut events).unwrap();
        assert_eq!((packet.id, packet.ecn, packet.ecn_in), (2, Ecn::Ce, ecn));
        assert_eq!(events.iter().map(|event| event.kind).collect::<Vec<_>>(), [MARK, EventKind::Dequeue]);
        // The mark counts the packet as still queued, the departure does not.
        assert_eq!(events.iter().map(|event| event.backlog.packets).collect::<Vec<_>>(), [8, 7]);
        assert!(queue.law.drop_next.wrapping_sub(due) < 97656);
    }
    let mut queue = standing(config, 10, Ecn::NotEct);
    at_tick(&mut queue, 10_000);
    assert_eq!(at_tick(&mut queue, 200_000), (Some(2), vec![(1, AQM)]));
}

#[test]
fn the_threshold_marks_after_the_law_and_strictly_above() {
    let above = Duration::from_nanos(1000 << 10);
    for (ecn, ect1_only, law_marks, expected) in [
        (Ecn::Ect0, false, false, vec![(1, THRESHOLD)]),
        (Ecn::Ce, false, false, vec![(1, THRESHOLD)]),
        (Ecn::NotEct, false, false, vec![]),
        (Ecn::Ect0, true, false, vec![]),
        (Ecn::Ect1, true, false, vec![(1, THRESHOLD)]),
        (Ecn::Ce, true, false, vec![]),
        // What the law has just marked is CE, which any threshold but the selective one counts again.
        (Ecn::Ect1, false, true, vec![(1, MARK), (1, THRESHOLD)]),
        (Ecn::Ect1, true, true, vec![(1, MARK)]),
    ] {
        let config = CodelConfig {
            ecn: law_marks,
            ce_threshold: Some(CeThreshold { above, ect1_only }),
            ..CodelConfig::default()
        };
        let mut queue = standing(config, 5, ecn);
        if law_marks {
            queue.law.first_above = 1;
        }
        assert_eq!(at_tick(&mut queue.clone(), 1000).1, vec![], "not strictly above");
        let head = queue.ring.pop().unwrap();
        assert_eq!(head.id, 0);
        let tick = if law_marks { 5000 } else { 1001 };
        assert_eq!(at_tick(&mut queue, tick), (Some(1), expected), "{ecn:?} {ect1_only} {law_marks}");
    }
}

#[test]
fn the_kernels_differ_when_much_is_due_at_once() {
    let limit = QueueLimit::Packets(2000);
    let config = CodelConfig {
        target: Duration::from_micros(100),
        interval: Duration::from_micros(10),
        limit,
        ..Default::default()
    };
    for (kernel, sent, drops) in [(KernelVariant::Linux7_2, 258, 256), (KernelVariant::Linux6_12, 1998, 1996)]
    {
        let mut queue = standing(CodelConfig { kernel, ..config }, 2000, Ecn::NotEct);
        queue.law.dropping = true;
        queue.law.first_above = 1;
        queue.law.root = u16::MAX;
        queue.ring.pop();
        queue.ring.pop();
        let (id, events) = at_tick(&mut queue, 1_000_000);
        assert_eq!((id, events.len()), (Some(sent), drops), "{kernel:?}");
        // 7.2 sets the clock right after its quota; 6.12 goes on until an MTU is left.
        assert_eq!(after(queue.law.drop_next, 1_000_000), kernel == KernelVariant::Linux7_2);
    }
    // An interval of one tick: the step is nothing in 6.12, one tick in 7.2.
    let config = CodelConfig { interval: Duration::from_nanos(1024), ..config };
    for (kernel, step) in [(KernelVariant::Linux7_2, 1), (KernelVariant::Linux6_12, 0)] {
        let mut queue = Codel::new(CodelConfig { kernel, ..config });
        queue.law.root = 0x4000;
        assert_eq!(queue.law.control_law(&queue.params, 10), 10 + step);
    }
}

#[test]
fn the_limit_drops_at_the_door() {
    for (limit, taken) in [(QueueLimit::Packets(3), 3), (QueueLimit::Bytes(2999), 2)] {
        let mut queue = Codel::new(CodelConfig { limit, ..CodelConfig::default() });
        let mut events: Vec<Event> = Vec::new();
        for id in 0..5 {
            queue.enqueue(Packet::new(id, FlowId(0), 1000, Time::ZERO), Time::ZERO, &mut events);
        }
        let dropped =
            events.iter().filter(|event| event.kind == EventKind::Drop(DropReason::Overflow)).count();
        assert_eq!((queue.backlog().packets, dropped), (taken, 5 - taken as usize));
    }
}

#[test]
fn time_goes_around_the_32_bit_clock() {
    // The same story at time 0 and 20 ms before the wrap after 2^32 ticks.
    let story = |start: u64| {
        let mut queue = Codel::new(CodelConfig::default());
        let mut events: Vec<Event> = Vec::new();
        for step in 0..400u64 {
            let now = Time::from_nanos(start + step * 1_000_000);
            for copy in 0..2 {
                queue.enqueue(Packet::new(2 * step + copy, FlowId(0), 1000, now), now, &mut events);
            }
            queue.dequeue(now, &mut events);
        }
        events.iter().filter(|event| event.kind == AQM).map(|event| event.packet.id).collect::<Vec<_>>()
    };
    let drops = story(0);
    assert!(drops.len() > 3);
    assert_eq!(drops, story((1 << 42) - 20 * (1 << 20)));
}

#[test]
fn the_packet_after_the_first_drop_is_looked_at_too() {
    let config = CodelConfig { mtu: 1000, ..CodelConfig::default() };
    let mut queue = standing(config, 4, Ecn::NotEct);
    at_tick(&mut queue, 10_000);
    assert_eq!(at_tick(&mut queue, 200_000), (Some(2), vec![(1, AQM)]));
    // One packet is left behind it, which is an MTU: the delay no longer counts as above, though dropping has begun.
    assert_eq!((queue.law.first_above, queue.law.dropping), (0, true));
    assert_eq!(at_tick(&mut queue, 200_001), (Some(3), vec![]));
    assert!(!queue.law.dropping);

    // The threshold judges the packet that is sent, not the one that was dropped.
    let threshold = CeThreshold { above: Duration::from_millis(1), ect1_only: false };
    let mut queue = standing(CodelConfig { ce_threshold: Some(threshold), ..config }, 2, Ecn::Ect0);
    for id in 2..5 {
        let now = Time::from_nanos(200_000 << 10);
        queue.enqueue(Packet::new(id, FlowId(0), 1000, now).with_ecn(Ecn::Ect0), now, &mut ());
    }
    assert_eq!(at_tick(&mut queue, 10_000), (Some(0), vec![(0, THRESHOLD)]));
    assert_eq!(at_tick(&mut queue, 200_001), (Some(2), vec![(1, AQM)]));
}

#[test]
fn finding_the_queue_empty_ends_the_dropping() {
    let mut queue = standing(CodelConfig::default(), 1, Ecn::NotEct);
    queue.law = ControlLaw { dropping: true, count: 5, last_count: 2, ..ControlLaw::default() };
    queue.ring.pop();
    assert_eq!(at_tick(&mut queue, 1), (None, vec![]));
    assert_eq!((queue.law.dropping, queue.law.count, queue.law.last_count), (false, 5, 2));
}
