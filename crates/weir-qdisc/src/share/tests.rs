use super::{Balance, HardSplit, Weights};
use weir_core::{QueueChoice, QueueChoice::*, Rate, Time};

#[test]
fn weights_are_reduced_and_share_a_rate() {
    let weights = Weights::new([30, 70, 0]);
    assert_eq!((weights.of(Standard), weights.of(Responsive), weights.sum()), (3, 7, 10));
    assert_eq!(weights.share(Rate::from_bits_per_sec(1_000_000_005), Responsive).bits_per_sec(), 700_000_003);
    assert_eq!(Weights::new([u32::MAX, u32::MAX, 0]).sum(), 2);
}

#[test]
fn an_idle_queue_saves_nothing_up() {
    let mut balance = Balance::new(Weights::new([1, 1, 0]));
    for _ in 0..100 {
        balance.order([true, false, false]);
        balance.sent(Standard, 1500);
    }
    // One packet ahead, not a hundred: the responsive queue goes first once, then they take turns.
    let order: Vec<_> = (0..4)
        .map(|_| {
            let order = balance.order([true, true, false]);
            let first = order.into_iter().find(|queue| *queue != EcnResponsive).unwrap();
            balance.sent(first, 1500);
            first
        })
        .collect();
    assert_eq!(order, [Responsive, Responsive, Standard, Responsive]);
}

#[test]
fn a_full_bucket_lets_one_burst_go() {
    // 8 Mbit/s split 1:1 is one byte per 2 us and queue.
    let mut split = HardSplit::new(Weights::new([5, 5, 0]), Rate::from_bits_per_sec(8_000_000), 3000, 1500);
    let now = Time::ZERO;
    for _ in 0..2 {
        assert!(split.may_send(Standard, now));
        split.sent(Standard, now, 1500);
    }
    assert!(!split.may_send(Standard, now));
    assert!(split.may_send(Responsive, now));
    let ready = split.ready(Standard, now);
    assert_eq!(ready, Time::from_nanos(1500 * 2000));
    assert!(split.may_send(Standard, ready));
    assert!(!split.may_send(Standard, Time::from_nanos(ready.as_nanos() - 1)));
    assert_eq!(split.order(now), [Responsive, Standard, EcnResponsive]);
}

#[test]
fn three_queues_get_their_weights() {
    let weights = Weights::new([10, 20, 50]);
    let rate = Rate::from_bits_per_sec(8_000_000);
    let shares = QueueChoice::ALL.map(|queue| weights.share(rate, queue).bits_per_sec());
    assert_eq!(shares, [1_000_000, 2_000_000, 5_000_000]);
    let mut balance = Balance::new(weights);
    let mut split = HardSplit::new(weights, rate, 2000, 1000);
    let (mut shared, mut hard) = ([0; 3], [0; 3]);
    for packet in 0..8_000 {
        let first = balance.order([true; 3])[0];
        balance.sent(first, 1000);
        shared[first as usize] += 1;
        // A packet takes the link 1 ms.
        let now = Time::from_nanos(packet * 1_000_000);
        let first = split.order(now).into_iter().find(|queue| split.may_send(*queue, now));
        let first = first.expect("earliest deadline first fills the link");
        split.sent(first, now, 1000);
        hard[first as usize] += 1;
    }
    assert_eq!(shared, [1_000, 2_000, 5_000]);
    for (got, want) in hard.into_iter().zip([1_000_i32, 2_000, 5_000]) {
        assert!((got - want).abs() <= 2, "{hard:?}");
    }
}

#[test]
fn of_three_queues_an_idle_one_neither_saves_nor_loses() {
    let mut balance = Balance::new(Weights::new([1, 1, 1]));
    for _ in 0..100 {
        let order = balance.order([true, false, true]);
        let first = order.into_iter().find(|queue| *queue != Responsive).unwrap();
        balance.sent(first, 1500);
    }
    let order: Vec<_> = (0..6)
        .map(|_| {
            let first = balance.order([true; 3])[0];
            balance.sent(first, 1500);
            first
        })
        .collect();
    for queue in QueueChoice::ALL {
        // Two each; who was a packet ahead before has one less.
        let turns = order.iter().filter(|first| **first == queue).count();
        assert!((1..=3).contains(&turns), "{order:?}");
    }
}
