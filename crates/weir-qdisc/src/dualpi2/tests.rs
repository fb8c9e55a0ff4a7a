use super::{Credit, Decide, Decision, DualPi2Keys, kernel, rfc9332};
use crate::config::QdiscConfig;
use crate::dual::Dual;
use crate::keys::BuildContext;
use crate::pi::ONE;
use crate::pi2::Scalable;
use weir_core::{DropReason, Duration, Ecn, Event, EventKind, FlowId, MarkReason, Packet, Rate, Seed, Time};
use weir_queue::QueueLimit;

const LINK: BuildContext = BuildContext {
    rate: Rate::from_bits_per_sec(12_000_000),
    rtt: Duration::from_millis(20),
    mtu: 1514,
    seed: Seed { seed: 1, run: 0 },
};

fn packet(ecn: Ecn) -> Packet {
    Packet::new(0, FlowId(0), 1500, Time::ZERO).with_ecn(ecn)
}

/// Queues that hold `packets` of each kind.
fn queues(packets: u64) -> Dual {
    let mut dual = Dual::new(QueueLimit::Packets(1000), None, Scalable::Ect1);
    for _ in 0..packets {
        dual.offer(packet(Ecn::NotEct), Time::ZERO, &mut ());
        dual.offer(packet(Ecn::Ect1), Time::ZERO, &mut ());
    }
    dual
}

/// The shares of marks and drops among packets of one codepoint that waited 100 us.
fn shares(law: &mut impl Decide, ecn: Ecn) -> (f64, f64) {
    let queues = queues(10);
    let (mut marks, mut drops) = (0, 0);
    for _ in 0..100_000 {
        let packet = packet(ecn);
        let decision = if queues.is_l4s(&packet) {
            law.l4s(&packet, Duration::from_micros(100), &queues)
        } else {
            law.classic(&packet, &queues)
        };
        match decision {
            Decision::Drop => drops += 1,
            Decision::Mark(..) => marks += 1,
            Decision::Send => {}
        }
    }
    (f64::from(marks) / 1e5, f64::from(drops) / 1e5)
}

fn kernel_law(prob: f64, keys: &DualPi2Keys) -> kernel::KernelDualPi2 {
    let mut law = kernel::KernelDualPi2::new(keys, (0.16, 3.2), LINK.seed.stream("test"), &LINK);
    law.pi.prob = (prob * f64::from(ONE)) as u32;
    law
}

fn rfc_law(prob: f64, keys: &DualPi2Keys) -> rfc9332::Rfc9332DualPi2 {
    let mut law = rfc9332::Rfc9332DualPi2::new(keys, (0.15, 3.0), &LINK);
    law.prob = prob;
    law
}

/// Marks and drops of ECT(1), ECT(0) and Not-ECT.
fn all_shares(mut law: impl Decide) -> [(f64, f64); 3] {
    [Ecn::Ect1, Ecn::Ect0, Ecn::NotEct].map(|ecn| shares(&mut law, ecn))
}

fn assert_near(got: [(f64, f64); 3], expected: [(f64, f64); 3]) {
    for (got, expected) in got.into_iter().zip(expected) {
        let is_near = |a: f64, b: f64| (a - b).abs() < 0.006;
        assert!(is_near(got.0, expected.0) && is_near(got.1, expected.1), "{got:?}, not {expected:?}");
    }
}

#[test]
fn both_variants_mark_l4s_with_k_p_and_classic_with_its_square() {
    let keys = DualPi2Keys::default();
    for prob in [0.05, 0.2, 0.45] {
        let square = prob * prob;
        let expected = [(2.0 * prob, 0.0), (square, 0.0), (0.0, square)];
        assert_near(all_shares(kernel_law(prob, &keys)), expected);
        assert_near(all_shares(rfc_law(prob, &keys)), expected);
    }
}

#[test]
fn overload_drops_with_the_square_whatever_the_codepoint() {
    let keys = DualPi2Keys::default();
    let prob: f64 = 0.6;
    let square = prob * prob;
    let expected = [(1.0 - square, square), (0.0, square), (0.0, square)];
    assert_near(all_shares(kernel_law(prob, &keys)), expected);
    assert_near(all_shares(rfc_law(prob, &keys)), expected);
}

#[test]
fn without_drops_on_overload_p_ends_where_every_l4s_packet_is_marked() {
    let keys = DualPi2Keys { drop_overload: false, ..DualPi2Keys::default() };
    let mut law = kernel_law(0.0, &keys);
    let mut rfc = rfc_law(0.0, &keys);
    for _ in 0..1000 {
        law.update(Duration::from_secs(1));
        rfc.update(Duration::from_secs(1));
    }
    assert_eq!(law.pi.prob, ONE / 2);
    let expected = [(1.0, 0.0), (0.25, 0.0), (0.0, 0.25)];
    assert_near(all_shares(law), expected);
    assert_near(all_shares(rfc), expected);
}

#[test]
fn the_kernels_step_is_strict_and_a_coupled_mark_comes_first() {
    let keys = DualPi2Keys::default();
    let decide = |law: &mut kernel::KernelDualPi2, nanos, packets| match law.l4s(
        &packet(Ecn::Ect1),
        Duration::from_nanos(nanos),
        &queues(packets),
    ) {
        Decision::Mark(reason) => Some(reason),
        _ => None,
    };
    let step = MarkReason::CeThreshold;
    let mut law = kernel_law(0.0, &keys);
    assert_eq!(decide(&mut law, 1_000_000, 5), None);
    assert_eq!(decide(&mut law, 1_000_001, 5), Some(step));
    let mut law = kernel_law(0.5, &keys);
    assert_eq!(decide(&mut law, 1_000_001, 5), Some(MarkReason::Aqm));
    // Less than two full packets wait (one of 1500 bytes in each queue are 3000 of 3028): the step alone.
    assert_eq!(decide(&mut law, 1_000_001, 1), Some(step));
    let keys = DualPi2Keys { step: Some("5p".parse().unwrap()), ..keys };
    assert_eq!(decide(&mut kernel_law(0.0, &keys), 1_000_000_000, 5), None);
    assert_eq!(decide(&mut kernel_law(0.0, &keys), 0, 6), Some(step));
}

#[test]
fn rfc_9332_marks_on_a_line_and_spaces_marks_evenly() {
    let mut law = rfc_law(0.0, &DualPi2Keys::default());
    let native =
        |law: &rfc9332::Rfc9332DualPi2, us, packets| law.native(Duration::from_micros(us), &queues(packets));
    for (us, expected) in [(800, 0.0), (1000, 0.5), (1100, 0.75), (1200, 1.0), (5000, 1.0)] {
        assert!((native(&law, us, 2) - expected).abs() < 1e-9, "{us}");
    }
    assert_eq!(native(&law, 5000, 0), 0.0);
    // At 0.25 every fourth, once the sum has passed one.
    let hits: Vec<_> = (0..17).map(|_| law.recurs(1, 0.25)).collect();
    let at: Vec<_> = hits.iter().enumerate().filter(|(_, hit)| **hit).map(|(index, _)| index).collect();
    assert_eq!(at, [4, 8, 12, 16]);
}

#[test]
fn an_update_of_rfc_9332_by_hand() {
    let mut law = rfc_law(0.1, &DualPi2Keys::default());
    // 0.15 x (20 - 15) ms + 3 x 20 ms.
    law.update(Duration::from_millis(20));
    assert!((law.prob - (0.1 + 0.15 * 0.005 + 3.0 * 0.020)).abs() < 1e-12);
    law.update(Duration::from_millis(10));
    assert!((law.prob - (0.1 + 0.15 * 0.005 + 3.0 * 0.020 - 0.15 * 0.005 - 3.0 * 0.010)).abs() < 1e-12);
}

#[test]
fn credit_starts_with_l4s_and_gives_classic_its_tenth() {
    let mut credit = Credit::new((10, 90), 1514);
    assert_eq!(credit.bytes, -121_120);
    let mut sent = [0; 2];
    for _ in 0..10_000 {
        let is_l4s = !credit.is_classics_turn();
        credit.sent(is_l4s, 1514);
        sent[usize::from(is_l4s)] += 1;
    }
    assert_eq!(sent, [1000, 9000]);
    let mut credit = Credit::new((10, 90), 1514);
    // Eight packets take the credit to zero, which is still not above.
    (0..8).for_each(|_| credit.sent(true, 1514));
    assert!(credit.bytes == 0 && !credit.is_classics_turn());
    credit.sent(true, 1514);
    assert!(credit.is_classics_turn());
    // The Classic packet then costs as much as nine of those brought.
    credit.sent(false, 1514);
    assert_eq!(credit.bytes, -121_120);
}

/// Half as much again as the link carries, for ten seconds, from senders that do not answer.
fn flood(words: &str, ecn: Ecn) -> (f64, f64) {
    let mut queue = words.parse::<QdiscConfig>().unwrap().build(&LINK).unwrap();
    let mut events: Vec<Event> = Vec::new();
    for id in 0..15_000 {
        let now = Time::from_nanos(id * 666_667);
        let packet = Packet::new(id, FlowId(0), 1500, now).with_ecn(ecn);
        queue.enqueue(packet, now, &mut events);
        if id % 3 != 0 {
            queue.dequeue(now, &mut events);
        }
    }
    let late: Vec<_> = events.iter().filter(|event| event.time.as_nanos() > 5_000_000_000).collect();
    let arrived = late.iter().filter(|event| event.kind == EventKind::Enqueue).count() as f64;
    let dropped = late.iter().filter(|event| event.kind == EventKind::Drop(DropReason::Aqm)).count() as f64;
    let sent: Vec<_> = late.iter().filter(|event| event.kind == EventKind::Dequeue).collect();
    let mean = sent.iter().map(|event| event.sojourn.as_millis_f64()).sum::<f64>() / sent.len() as f64;
    (dropped / arrived, mean)
}

#[test]
fn overload_of_either_queue_is_held_at_the_target() {
    // The authors' measurements of unresponsive load in either class (arXiv 2209.01078): 15 ms.
    for words in ["dualpi2", "dualpi2 variant rfc9332"] {
        for ecn in [Ecn::Ect1, Ecn::Ect0, Ecn::NotEct] {
            let (drops, delay) = flood(words, ecn);
            assert!((0.32..0.35).contains(&drops), "{words}, {ecn:?}: {drops}");
            assert!((13.5..16.5).contains(&delay), "{words}, {ecn:?}: {delay} ms");
        }
    }
}

#[test]
fn what_cannot_work_is_refused() {
    for (words, key) in [
        ("dualpi2 coupling 0", "coupling: 0 is not a whole number from 1 to 255"),
        ("dualpi2 variant rfc9332 coupling 0", "coupling: 0 is not a whole number from 1 to 255"),
        ("dualpi2 tupdate 0", "tupdate"),
        ("dualpi2 c_protection 101", "c_protection"),
        ("dualpi2 alpha 2000", "alpha"),
        ("crq standard dualpi2", "standard"),
    ] {
        let error = words.parse::<QdiscConfig>().unwrap().build(&LINK).err().unwrap().to_string();
        assert!(error.starts_with(key), "{words}: {error}");
    }
}
