use crate::Qdisc;
use crate::config::QdiscConfig;
use crate::keys::BuildContext;
use weir_core::{Duration, Ecn, Event, EventKind, FlowId, MarkReason, Packet, Rate, Seed, Time};

fn build(words: &str) -> Box<dyn Qdisc> {
    let rate = Rate::from_bits_per_sec(100_000_000);
    let link = BuildContext { rate, rtt: Duration::from_millis(10), mtu: 1514, seed: Seed::default() };
    words.parse::<QdiscConfig>().unwrap().build(&link).unwrap()
}

fn offer(queue: &mut dyn Qdisc, id: u64, ecn: Ecn, at: Time) {
    queue.enqueue(Packet::new(id, FlowId(0), 1514, at).with_ecn(ecn), at, &mut ());
}

/// The share of L4S packets that is marked, each while a classic packet has stood at the head for `ms`, and the
/// share of classic packets that is dropped after `ms`.
fn coupled(words: &str, ms: u64) -> (f64, f64) {
    let mut queue = build(words);
    let mut events: Vec<Event> = Vec::new();
    for round in 0..100_000u64 {
        let from = Time::from_nanos(round * 10_000_000_000);
        let to = from + Duration::from_millis(ms);
        offer(&mut *queue, round, Ecn::NotEct, from);
        offer(&mut *queue, round, Ecn::Ect1, to);
        let start = events.len();
        while queue.dequeue(to, &mut events).is_some() {}
        if round < 1000 {
            // Until the average has settled.
            events.truncate(start);
        }
    }
    let share = |kind: fn(EventKind) -> bool| {
        events.iter().filter(|event| kind(event.kind)).count() as f64 / 99_000.0
    };
    (share(|kind| kind == EventKind::Mark(MarkReason::Aqm)), share(|kind| matches!(kind, EventKind::Drop(_))))
}

#[test]
fn worked_points_of_the_paper() {
    for (ms, marks, drops) in [(20, 0.32, 0.0016), (50, 0.8, 0.01), (63, 1.0, 0.0159), (100, 1.0, 0.04)] {
        let (marked, dropped) = coupled("dualq_curvy", ms);
        assert!((marked - marks).abs() < 0.006, "{ms} ms: {marked}");
        assert!((dropped - drops).abs() < 0.002, "{ms} ms: {dropped}");
    }
}

#[test]
fn worked_points_of_rfc_9332() {
    // (q - 0.5 ms) / 250 ms, and the square of half of it: p_C = (p_CL / k)^2 with k = 2. Beyond the time shift the
    // classic packet goes first, which changes neither.
    for (ms, marks) in [(20, 0.078), (50, 0.198), (100, 0.398), (251, 1.0)] {
        let (marked, dropped) = coupled("dualq_curvy variant rfc9332", ms);
        assert!((marked - marks).abs() < 0.006, "{ms} ms: {marked}");
        assert!((dropped - (marks / 2.0) * (marks / 2.0)).abs() < 0.004, "{ms} ms: {dropped}");
    }
}

#[test]
fn curviness_is_the_exponent_of_either_curve() {
    // After 100 ms 0.2 of the classic range, to the power of 1, 2 and 4; L4S is marked in full.
    for (curviness, drops) in [(1, 0.2), (2, 0.04), (4, 0.0016)] {
        let (marked, dropped) = coupled(&format!("dualq_curvy curviness {curviness}"), 100);
        assert_eq!(marked, 1.0);
        assert!((dropped - drops).abs() < 0.004, "{curviness}: {dropped}");
    }
    // With half the slope, 125 ms: (50 / 125)^2.
    let (marked, dropped) = coupled("dualq_curvy range_l 125ms curviness_l 2", 50);
    assert!((marked - 0.16).abs() < 0.006, "{marked}");
    assert!((dropped - 0.01).abs() < 0.002, "{dropped}");
}

#[test]
fn schedulers_differ() {
    let first = |words, classic_ms, l4s_ms| {
        let mut queue = build(words);
        let now = Time::ZERO + Duration::from_secs(1);
        offer(&mut *queue, 0, Ecn::NotEct, now - Duration::from_millis(classic_ms));
        offer(&mut *queue, 1, Ecn::Ect1, now - Duration::from_millis(l4s_ms));
        queue.dequeue(now, &mut ()).unwrap().id
    };
    assert_eq!(first("dualq_curvy", 400, 1), 1);
    assert_eq!(first("dualq_curvy variant rfc9332", 50, 0), 1);
    assert_eq!(first("dualq_curvy variant rfc9332", 51, 0), 0);
    assert_eq!(first("dualq_curvy tshift 10ms", 51, 2), 0);
}

#[test]
fn the_l4s_queue_marks_above_its_own_threshold() {
    let marks = |words, gap_us: u64| {
        let mut queue = build(words);
        let mut events: Vec<Event> = Vec::new();
        for id in 0..8 {
            offer(&mut *queue, id, Ecn::Ect1, Time::ZERO);
        }
        for step in 0..8 {
            queue.dequeue(Time::from_nanos(step * gap_us * 1000), &mut events);
        }
        let marks = events.iter().filter(|event| event.kind == EventKind::Mark(MarkReason::CeThreshold));
        marks.map(|event| event.packet.id).collect::<Vec<_>>()
    };
    // Seven and six packets stay behind the first two, five behind the third.
    assert_eq!(marks("dualq_curvy", 1), [0, 1]);
    assert_eq!(marks("dualq_curvy variant rfc9332", 200), [6, 7]);
}
