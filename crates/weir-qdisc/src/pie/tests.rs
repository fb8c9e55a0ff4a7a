use super::{Control, PieKeys, kernel, rfc8033};
use crate::config::QdiscConfig;
use crate::keys::BuildContext;
use weir_core::{DropReason, Duration, Ecn, Event, EventKind, FlowId, Packet, Rate, Seed, Time};

const MTU: u32 = 1514;

fn kernel_law(prob: u64) -> kernel::KernelPie {
    let mut law = kernel::KernelPie::new(&PieKeys::default(), MTU);
    (law.prob, law.burst_left) = (prob, 0);
    law
}

fn rfc_law(prob: f64) -> rfc8033::Rfc8033Pie {
    let mut law = rfc8033::Rfc8033Pie::new(&PieKeys::default(), MTU);
    law.prob = prob;
    law
}

/// Lets a packet leave after `millis` with others behind it.
fn leave(law: &mut impl Control, millis: u64) {
    law.departed(Duration::from_millis(millis), Time::from_nanos(1_000_000_000), 100_000, MTU);
}

#[test]
fn the_auto_tuning_is_the_table_of_rfc_8033() {
    // Section 4.2: below each probability, steps are divided by so much.
    for (prob, divisor) in [
        (0.0, 2048),
        (0.000_000_9, 2048),
        (0.000_001_1, 512),
        (0.000_009, 512),
        (0.000_011, 128),
        (0.000_09, 128),
        (0.000_11, 32),
        (0.000_9, 32),
        (0.001_1, 8),
        (0.009, 8),
        (0.011, 2),
        (0.09, 2),
        (0.11, 1),
        (1.0, 1),
    ] {
        assert_eq!(rfc8033::Rfc8033Pie::damping(prob), f64::from(divisor), "{prob}");
        let mut law = kernel::KernelPie::new(&PieKeys::default(), MTU);
        law.prob = (prob * kernel::ONE as f64) as u64;
        let (alpha, beta) = law.gains();
        law.prob = kernel::ONE;
        let (full_alpha, full_beta) = law.gains();
        assert_eq!((alpha, beta), (full_alpha / divisor as u64, full_beta / divisor as u64), "{prob}");
    }
}

#[test]
fn the_kernels_gains_are_its_integers() {
    let law = kernel_law(kernel::ONE);
    // (2^56 - 1) / 15625000 ticks = 4611686018; x 2 / 16 and x 20 / 16.
    assert_eq!(law.gains(), (576_460_752, 5_764_607_522));
}

#[test]
fn an_update_by_hand() {
    // 35 ms after 25 ms, at a probability of 20 %: 0.125 x 20 ms + 1.25 x 10 ms = 1.5 %.
    let mut rfc = rfc8033::Rfc8033Pie::new(&PieKeys::default(), MTU);
    leave(&mut rfc, 25);
    rfc.update(0);
    leave(&mut rfc, 35);
    rfc.prob = 0.2;
    rfc.update(0);
    assert!((rfc.prob - 0.215).abs() < 1e-12, "{}", rfc.prob);
    let mut law = kernel::KernelPie::new(&PieKeys::default(), MTU);
    leave(&mut law, 25);
    law.update(1);
    leave(&mut law, 35);
    law.prob = kernel::ONE / 5;
    law.update(1);
    let prob = law.prob as f64 / kernel::ONE as f64;
    assert!((prob - 0.215).abs() < 1e-6, "{prob}");
    // Steps end at 2 %, and 2 % more above 250 ms.
    for (millis, expected) in [(200, 0.22), (260, 0.24)] {
        let mut law = kernel_law(kernel::ONE / 5);
        leave(&mut law, millis);
        law.update(1);
        assert!((law.prob as f64 / kernel::ONE as f64 - expected).abs() < 1e-9, "{millis}");
        let mut rfc = rfc_law(0.2);
        leave(&mut rfc, millis);
        rfc.update(1);
        assert!((rfc.prob - expected).abs() < 1e-12, "{millis}");
    }
}

/// A law with the estimator, from which packets of 1024 bytes left at 100 microseconds each while 20 kB waited.
fn estimating() -> kernel::KernelPie {
    let mut law = kernel::KernelPie::new(&PieKeys { dq_rate_estimator: true, ..PieKeys::default() }, MTU);
    for step in 0..17 {
        law.departed(Duration::from_secs(9), Time::from_nanos(6_400 + step * 102_400), 20_000, 1024);
    }
    law
}

#[test]
fn the_departure_rate_makes_the_delay() {
    let mut law = estimating();
    // Sixteen packets in fifteen gaps of 1600 ticks: (16384 << 8) / 24000 = 174.76; sojourn times do not count.
    law.update(20_000);
    let delay: i64 = (20_000 << 8) / 174;
    let (alpha, beta) = kernel::KernelPie::new(&PieKeys::default(), MTU).gains();
    let target: i64 = 15_000_000 >> 6;
    assert_eq!(law.prob as i64, alpha as i64 * (delay - target) + beta as i64 * delay);
    // The measurement took 24000 ticks off the burst allowance.
    assert_eq!(law.burst_left, (150_000_000 >> 6) - 24_000);
    // At half the rate the average moves by an eighth: 174 - 21 + 84 / 8.
    for step in 0..16 {
        law.departed(Duration::ZERO, Time::from_nanos(1_644_800 + (step + 1) * 204_800), 20_000, 1024);
    }
    law.prob = kernel::ONE / 2;
    law.update(16_300);
    let (alpha, beta) = law.gains();
    let now: i64 = (16_300 << 8) / 163;
    let wanted = (kernel::ONE / 2) as i64 + alpha as i64 * (now - target) + beta as i64 * (now - delay);
    assert_eq!(law.prob as i64, wanted);
}

#[test]
fn a_short_queue_keeps_the_last_departure_rate_and_none_is_no_delay() {
    let mut law = kernel::KernelPie::new(&PieKeys { dq_rate_estimator: true, ..PieKeys::default() }, MTU);
    for step in 0..100 {
        law.departed(Duration::from_secs(1), Time::from_nanos(step * 1_000_000), 16_383, MTU);
    }
    law.update(16_383);
    assert_eq!((law.prob, law.burst_left), (0, 150_000_000 >> 6), "nothing was measured");
    let mut law = estimating();
    // The measurement under way ends below the threshold, and no other begins.
    for step in 0..100 {
        law.departed(Duration::ZERO, Time::from_nanos(1_644_800 + (step + 1) * 102_400), 10_000, 1024);
    }
    law.update(10_000);
    let burst = law.burst_left;
    law.departed(Duration::ZERO, Time::from_nanos(1_000_000_000), 10_000, 1024);
    assert_eq!(law.burst_left, burst);
}

#[test]
fn an_idle_queue_forgets() {
    let mut law = kernel_law(kernel::ONE / 2);
    law.burst_left = 0;
    law.update(0);
    // -0.125 x 15 ms, then 1/64 less.
    let expected = (0.5 - 0.125 * 0.015) * 63.0 / 64.0;
    assert!((law.prob as f64 / kernel::ONE as f64 - expected).abs() < 1e-6);
    let updates = (0..10_000).take_while(|_| {
        law.update(0);
        law.prob > 0
    });
    assert!(updates.count() < 1000);
    assert_eq!(law.burst_left, 150_000_000 >> 6);
    let mut rfc = rfc_law(0.5);
    rfc.update(0);
    assert!((rfc.prob - (0.5 - 0.125 * 0.015) * 0.98).abs() < 1e-12);
}

#[test]
fn only_the_kernels_variant_estimates() {
    let link = BuildContext {
        rate: Rate::from_bits_per_sec(10_000_000),
        rtt: Duration::from_millis(10),
        mtu: MTU,
        seed: Seed::default(),
    };
    let build = |words: &str| words.parse::<QdiscConfig>().unwrap().build(&link).map(drop);
    assert!(build("pie dq_rate_estimator").is_ok());
    let refused = build("pie dq_rate_estimator variant rfc8033").unwrap_err().to_string();
    assert!(refused.contains("dq_rate_estimator"), "{refused}");
}

#[test]
fn drops_are_spaced_by_the_accumulated_probability() {
    let mut random = Seed::default().stream("test");
    let mut law = kernel_law(kernel::ONE / 10);
    leave(&mut law, 20);
    let (mut since, mut shortest, mut longest, mut drops) = (0, u32::MAX, 0, 0);
    for _ in 0..100_000 {
        since += 1;
        if law.drops(100_000, MTU, &mut random) {
            (shortest, longest, drops) = (shortest.min(since), longest.max(since), drops + 1);
            law.dropped();
            since = 0;
        }
    }
    // Eight packets pass after each drop; then a coin of 10 % for each, and the 85th for certain.
    assert_eq!(shortest, 9);
    assert!(longest <= 86, "{longest}");
    assert!((5_300..5_800).contains(&drops), "{drops}");
    // Two full packets are left alone.
    law.prob = kernel::ONE;
    assert!((0..100).all(|_| !law.drops(2 * u64::from(MTU) - 1, MTU, &mut random)));
}

/// Half as much again as the link carries.
fn flood(words: &str, ecn: Ecn, seconds: u64) -> Vec<Event> {
    let rate = Rate::from_bits_per_sec(12_000_000);
    let link = BuildContext { rate, rtt: Duration::from_millis(100), mtu: MTU, seed: Seed::default() };
    let mut queue = words.parse::<QdiscConfig>().unwrap().build(&link).unwrap();
    let mut events: Vec<Event> = Vec::new();
    for id in 0..seconds * 1500 {
        let now = Time::from_nanos(id * 666_667);
        queue.enqueue(Packet::new(id, FlowId(0), 1500, now).with_ecn(ecn), now, &mut events);
        if id % 3 != 0 {
            queue.dequeue(now, &mut events);
        }
    }
    events
}

#[test]
fn both_variants_find_the_probability_that_holds_the_target() {
    // The kernel's takes ten seconds: its probability passes one as the queue first fills, and comes back slowly.
    for words in ["pie", "pie variant rfc8033"] {
        let events = flood(words, Ecn::NotEct, 30);
        let late: Vec<_> = events.iter().filter(|event| event.time.as_nanos() > 20_000_000_000).collect();
        let count = |kind: fn(EventKind) -> bool| late.iter().filter(|event| kind(event.kind)).count() as f64;
        let drops = count(|kind| kind == EventKind::Drop(DropReason::Early));
        let arrived = drops + count(|kind| kind == EventKind::Enqueue);
        assert!((0.31..0.36).contains(&(drops / arrived)), "{words}: {}", drops / arrived);
        let waits: Vec<_> = late
            .iter()
            .filter(|event| event.kind == EventKind::Dequeue)
            .map(|event| event.sojourn.as_millis_f64())
            .collect();
        let mean = waits.iter().sum::<f64>() / waits.len() as f64;
        assert!((12.0..18.0).contains(&mean), "{words}: {mean} ms");
    }
}

#[test]
fn marks_end_where_the_probability_passes_a_tenth() {
    for words in ["pie ecn", "pie ecn variant rfc8033"] {
        let events = flood(words, Ecn::Ect0, 10);
        let first = |kind: fn(EventKind) -> bool| events.iter().position(|event| kind(event.kind));
        let mark = first(|kind| matches!(kind, EventKind::Mark(_))).unwrap();
        let drop = first(|kind| kind == EventKind::Drop(DropReason::Early)).unwrap();
        assert!(mark < drop, "{words}");
        assert!(events[drop..].iter().filter(|event| matches!(event.kind, EventKind::Mark(_))).count() < 300);
    }
}

#[test]
fn a_burst_is_let_through() {
    for words in ["pie", "pie variant rfc8033"] {
        let events = flood(words, Ecn::NotEct, 10);
        let drop = events.iter().find(|event| matches!(event.kind, EventKind::Drop(_))).unwrap();
        assert!(drop.time.as_nanos() > 150_000_000, "{words}: {:?}", drop.time);
    }
}
