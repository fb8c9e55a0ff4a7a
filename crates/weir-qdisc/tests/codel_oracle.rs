//! Runs the crate's CoDel beside an oracle (a second, plain transcription of Linux's rule that shares no code with it)
//! over thousands of random patterns, and demands the same step for every packet: the same decision in the same call,
//! the same order, codepoint, sojourn time and backlog. Against a vacuous oracle stand hand-computed numbers of its
//! arithmetic; against weak patterns stand deliberate slips in the oracle, each of which the patterns must expose.
//!
//! A failure prints the seed and a shrunk pattern. `WEIR_SEED=n` runs under another seed.

#[path = "codel_oracle/model.rs"]
mod model;
#[path = "codel_oracle/patterns.rs"]
mod patterns;
#[path = "codel_oracle/reached.rs"]
mod reached;
#[path = "codel_oracle/slips.rs"]
mod slips;

use std::fmt::Write as _;

use model::{Act, Kernel, KernelCodel, Params, Step, Threshold, law_step, newton, ticks};
use patterns::{Op, Pattern, pattern};
use reached::{Edge, Reached};
use slips::{SLIPS, Slip};
use weir_core::{Duration, Ecn, Event, EventKind, FlowId, MarkReason, Packet, Rate, Seed, Time};
use weir_qdisc::config::CodelKeys;
use weir_qdisc::{
    BuildContext, CeThreshold, Codel, CodelConfig, KernelVariant, Limit, Qdisc, QdiscConfig, QueueLimit,
};

/// Patterns per kernel version in the comparison.
const PATTERNS: u64 = 8_000;

#[allow(clippy::disallowed_methods, reason = "the environment may name a seed")]
fn seed() -> u64 {
    match std::env::var("WEIR_SEED") {
        Ok(text) => text.parse().expect("WEIR_SEED must be an unsigned number"),
        Err(_) => 20_120_506,
    }
}

fn config(params: &Params) -> CodelConfig {
    CodelConfig {
        target: Duration::from_nanos(params.target),
        interval: Duration::from_nanos(params.interval),
        limit: QueueLimit::Packets(params.limit),
        ecn: params.ecn,
        ce_threshold: params.ce_threshold.map(|threshold| CeThreshold {
            above: Duration::from_nanos(threshold.nanos),
            ect1_only: threshold.ect1_only,
        }),
        mtu: params.mtu,
        kernel: match params.kernel {
            Kernel::V6_12 => KernelVariant::Linux6_12,
            Kernel::V7_2 => KernelVariant::Linux7_2,
        },
    }
}

/// What the oracle does with the calls.
fn expected(params: Params, slip: Option<Slip>, ops: &[Op]) -> (Vec<Step>, Reached) {
    let mut oracle = KernelCodel::new(params, slip);
    let mut steps = Vec::with_capacity(ops.len() * 2);
    for op in ops {
        match *op {
            Op::Arrive { at, len, ecn } => oracle.arrive(at, len, ecn, &mut steps),
            Op::Ask { at } => {
                oracle.ask(at, &mut steps);
            }
        }
    }
    (steps, oracle.reached)
}

/// What the crate's discipline does with the same calls. Checks on the way what holds for any discipline: an event
/// carries the time of its call, `dequeue` returns the packet of its last event, `backlog` agrees with the last event.
fn actual(params: Params, ops: &[Op]) -> Vec<Step> {
    run(&mut Codel::new(config(&params)), ops)
}

fn run(codel: &mut dyn Qdisc, ops: &[Op]) -> Vec<Step> {
    let mut steps = Vec::with_capacity(ops.len() * 2);
    let mut events: Vec<Event> = Vec::new();
    let mut ids = 0..;
    for (call, op) in (0..).zip(ops) {
        events.clear();
        let at = match *op {
            Op::Arrive { at, len, ecn } => {
                let at = Time::from_nanos(at);
                let id = ids.next().unwrap_or(u64::MAX);
                codel.enqueue(Packet::new(id, FlowId(0), len, at).with_ecn(ecn), at, &mut events);
                assert_eq!(events.len(), 1, "an arrival is one event: {events:?}");
                at
            }
            Op::Ask { at } => {
                let at = Time::from_nanos(at);
                let packet = codel.dequeue(at, &mut events);
                let passed = events.last().filter(|event| event.kind == EventKind::Dequeue);
                assert_eq!(
                    packet,
                    passed.map(|event| event.packet),
                    "the packet is not the event's: {events:?}"
                );
                at
            }
        };
        for event in &events {
            assert_eq!(event.time, at);
            steps.push(step(call, event));
        }
        if let Some(event) = events.last() {
            assert_eq!(codel.backlog(), event.backlog);
        }
        assert_eq!(codel.next_ready(at), (codel.backlog().packets > 0).then_some(at));
    }
    steps
}

fn step(call: u32, event: &Event) -> Step {
    Step {
        call,
        act: match event.kind {
            EventKind::Enqueue => Act::Taken,
            EventKind::Dequeue => Act::Passed,
            EventKind::Drop(weir_core::DropReason::Overflow) => Act::Overflowed,
            EventKind::Drop(_) => Act::Dropped,
            EventKind::Mark(MarkReason::Aqm) => Act::Marked,
            EventKind::Mark(MarkReason::CeThreshold) => Act::ThresholdMarked,
            EventKind::Mark(MarkReason::Challenge) => panic!("CoDel challenges nobody"),
        },
        id: event.packet.id,
        ecn: event.packet.ecn,
        sojourn: event.sojourn.as_nanos(),
        backlog: (event.backlog.packets, event.backlog.bytes),
    }
}

fn agree(params: Params, ops: &[Op]) -> bool {
    expected(params, None, ops).0 == actual(params, ops)
}

/// The smallest sequence of calls, found by leaving out ever shorter runs, on which the two still disagree.
fn shrink(params: Params, ops: &[Op]) -> Vec<Op> {
    let mut ops = ops.to_vec();
    let mut run = ops.len() / 2;
    while run > 0 {
        let mut start = 0;
        while start < ops.len() {
            let end = (start + run).min(ops.len());
            let fewer: Vec<Op> = ops[..start].iter().chain(&ops[end..]).copied().collect();
            if agree(params, &fewer) {
                start = end;
            } else {
                ops = fewer;
            }
        }
        run /= 2;
    }
    ops
}

fn disagreement(seed: u64, index: u64, pattern: &Pattern) -> String {
    let ops = shrink(pattern.params, &pattern.ops);
    let (wanted, _) = expected(pattern.params, None, &ops);
    let got = actual(pattern.params, &ops);
    let mut text = format!(
        "CoDel and the oracle disagree: WEIR_SEED={seed}, pattern {index} ({:?}), {:?}\n{} calls remain:\n",
        pattern.shape,
        pattern.params,
        ops.len()
    );
    let first = wanted.iter().zip(&got).position(|(a, b)| a != b).unwrap_or(wanted.len().min(got.len()));
    for op in ops.iter().take(400) {
        let (Op::Arrive { at, .. } | Op::Ask { at }) = *op;
        let _ = writeln!(text, "  tick {:>10} {op:?}", ticks(at));
    }
    let _ = writeln!(text, "oracle: {:?}\ncrate:  {:?}", wanted.get(first), got.get(first));
    text
}

#[test]
fn codel_takes_the_kernels_decision_for_every_packet() {
    let seed = seed();
    let (mut packets, mut decided) = (0u64, 0u64);
    for kernel in [Kernel::V6_12, Kernel::V7_2] {
        let mut reached = Reached::default();
        for index in 0..PATTERNS {
            let pattern = pattern(seed, index, kernel);
            let (wanted, edges) = expected(pattern.params, None, &pattern.ops);
            let got = actual(pattern.params, &pattern.ops);
            assert!(wanted == got, "{}", disagreement(seed, index, &pattern));
            packets += pattern.ops.iter().filter(|op| matches!(op, Op::Arrive { .. })).count() as u64;
            decided += got.iter().filter(|step| step.act != Act::Taken).count() as u64;
            reached.add(&edges);
        }
        println!("{kernel:?}:{reached}");
        let missing = reached.missing(kernel);
        assert!(missing.is_empty(), "{kernel:?}: the patterns came too seldom to {missing:?}");
    }
    println!("{packets} packets, {decided} steps beyond arrival compared");
    assert!(packets > 1_000_000, "only {packets} packets were compared");
}

#[test]
fn every_slip_is_exposed() {
    let seed = seed();
    let mut missed = Vec::new();
    for &(slip, kernel) in SLIPS {
        let exposed = (0..PATTERNS).find(|&index| {
            let pattern = pattern(seed, index, kernel);
            let slipped = expected(pattern.params, Some(slip), &pattern.ops).0;
            // Where the true oracle too is at odds with the crate, the slip is not what shows.
            slipped != actual(pattern.params, &pattern.ops) && agree(pattern.params, &pattern.ops)
        });
        match exposed {
            Some(index) => println!("{slip:?}: pattern {index}"),
            None => missed.push(slip),
        }
    }
    assert!(missed.is_empty(), "no pattern distinguishes these from the crate's CoDel: {missed:?}");
}

/// The way from a configuration to the discipline keeps every setting: the same patterns through `QdiscConfig`.
#[test]
fn a_configured_codel_is_the_same() {
    let seed = seed();
    let mut compared = 0;
    for kernel in [Kernel::V6_12, Kernel::V7_2] {
        for index in 0..400 {
            let pattern = pattern(seed, index, kernel);
            let params = pattern.params;
            let whole = |nanos: u64| nanos.is_multiple_of(1_000) && (1_000..60_000_000_000).contains(&nanos);
            if params.limit == 0 || params.mtu < 1_514 || !whole(params.target) || !whole(params.interval) {
                continue;
            }
            let direct = config(&params);
            let keys = CodelKeys {
                target: direct.target,
                interval: direct.interval,
                limit: Limit::Packets(params.limit),
                ecn: params.ecn,
                ce_threshold: direct.ce_threshold.map(|threshold| threshold.above),
                ce_threshold_ect1: direct.ce_threshold.is_some_and(|threshold| threshold.ect1_only),
                kernel: direct.kernel,
            };
            let context = BuildContext {
                rate: Rate::from_bits_per_sec(100_000_000),
                rtt: Duration::from_millis(20),
                mtu: params.mtu,
                seed: Seed::default(),
            };
            let mut codel = QdiscConfig::Codel(keys).build(&context).expect("settings that tc takes");
            let got = run(codel.as_mut(), &pattern.ops);
            assert!(got == actual(params, &pattern.ops), "pattern {index}: {params:?}");
            compared += 1;
        }
    }
    assert!(compared > 200, "only {compared} patterns compared");
}

#[test]
fn the_two_kernels_differ() {
    let seed = seed();
    let differ = |index: &u64| {
        let newer = pattern(seed, *index, Kernel::V7_2);
        let older = Params { kernel: Kernel::V6_12, ..newer.params };
        actual(newer.params, &newer.ops) != actual(older, &newer.ops)
    };
    let found = (0..PATTERNS).filter(differ).take(3).count();
    assert_eq!(found, 3, "the patterns do not distinguish 6.12 from 7.2");
}

/// A stall whose length goes, in fine steps, through that after which exactly 256 drops are due at once: the cap of 7.2
/// acts on the 257th. An overloaded queue is asked four times: above target, entering, after the stall, and soon after.
#[test]
fn the_cap_acts_on_the_drop_after_the_last_one_it_allows() {
    let interval = 20_000_000;
    let (mut below, mut exactly, mut above) = (0, 0, 0);
    for stall in 0..400 {
        let params = Params {
            kernel: Kernel::V7_2,
            target: 1_000_000,
            interval,
            ce_threshold: None,
            ecn: false,
            mtu: 1_514,
            limit: 10_000,
        };
        let entered = 2 * interval + 5_000_000;
        let late = entered + 29 * interval + stall * interval / 100;
        let soon = (1..20).map(|i| late + i * 400_000);
        let asks = [2_000_000, entered, late].into_iter().chain(soon).map(|at| Op::Ask { at });
        let arrivals = (0..800).map(|_| Op::Arrive { at: 0, len: 100, ecn: Ecn::Ect0 });
        let ops: Vec<Op> = arrivals.chain(asks).collect();
        let (wanted, reached) = expected(params, None, &ops);
        let drops = wanted.iter().filter(|step| step.call == 802 && step.act == Act::Dropped).count();
        match (drops, reached.times(Edge::Cap)) {
            (256, 0) => exactly += 1,
            (256, _) => above += 1,
            (_, caps) => {
                assert!(drops < 256 && caps == 0, "{drops}");
                below += 1;
            }
        }
        let got = actual(params, &ops);
        let first = wanted.iter().zip(&got).find(|(a, b)| a != b);
        assert!(wanted == got, "stall {stall}, {drops} drops: {first:?}");
    }
    assert!(below > 50 && exactly > 0 && above > 50, "{below} {exactly} {above}");
}

/// An instant overload of 150 000 packets and an interval of nine ticks: 6.12's law soon steps by nothing, so that one
/// dequeue drops all but an MTU's worth and drives the count where the inverse root is a few units; 7.2 drops 256.
#[test]
fn a_deep_queue_drives_the_count_far() {
    let arrivals = (0..150_000).map(|i| Op::Arrive { at: i, len: 64, ecn: Ecn::NotEct });
    let later = (0..400).map(|i| Op::Ask { at: 1_000_000 + i * 30_000 });
    let again = (0..600).flat_map(|i| {
        let at = 20_000_000 + i * 5_000;
        [Op::Arrive { at, len: 1_000, ecn: Ecn::NotEct }, Op::Arrive { at, len: 1_000, ecn: Ecn::Ect0 }]
    });
    let rest = (0..300).map(|i| Op::Ask { at: 23_500_000 + i * 10_000 });
    let ops: Vec<Op> = arrivals.chain(later).chain(again).chain(rest).collect();
    for (kernel, most) in [(Kernel::V6_12, 149_000), (Kernel::V7_2, 256)] {
        let params = Params {
            kernel,
            target: 100_000,
            interval: 10_000,
            ce_threshold: None,
            ecn: true,
            mtu: 1_514,
            limit: 1 << 20,
        };
        let wanted = expected(params, None, &ops).0;
        let got = actual(params, &ops);
        let first = wanted.iter().zip(&got).find(|(a, b)| a != b);
        assert!(wanted == got, "{kernel:?}: {first:?}");
        let mut drops = vec![0u32; ops.len()];
        wanted.iter().filter(|step| step.act == Act::Dropped).for_each(|step| drops[step.call as usize] += 1);
        let in_one_call = drops.iter().max().copied().unwrap_or(0);
        assert!(in_one_call >= most && (kernel == Kernel::V6_12 || in_one_call == most), "{in_one_call}");
    }
}

/// By hand, from x' = x/2 * (3 - count * x^2) in units of 2^-16, fractions cut off. Start: 0xFFFF = 1 - 2^-16.
///
/// | count | x         | x^2       | 3 - count x^2 | x' * 65536 |
/// |-------|-----------|-----------|---------------|------------|
/// | 1     | 0.9999847 | 0.9999695 | 2.0000305     | 65535.99   |
/// | 2     | 0.9999847 | 0.9999695 | 1.0000610     | 32769.50   |
/// | 3     | 0.5000153 | 0.2500153 | 2.2499542     | 36864.37   |
/// | 4     | 0.5625000 | 0.3164063 | 1.7343750     | 31968.00   |
/// | 5     | 0.4877930 | 0.2379420 | 1.8102901     | 28935.68   |
///
/// The true roots are 65536, 46341, 37837, 32768 and 29309: one step per count lags, and that lag is part of the rule.
#[test]
fn newton_steps_are_the_hand_computed_ones() {
    let mut inverse = 0xffff;
    let steps = [1, 2, 3, 4, 5].map(|count| {
        inverse = newton(inverse, count);
        inverse
    });
    assert_eq!(steps, [65_535, 32_769, 36_864, 31_968, 28_935]);

    // Repeated at one count, the steps converge to the true root, from below as truncation wants it.
    for count in [2u32, 3, 10, 1_000] {
        let root = 65_536.0 / f64::from(count).sqrt();
        let settled = (0..12).fold((root * 0.6) as u16, |inverse, _| newton(inverse, count));
        assert!((root - 3.0..=root).contains(&f64::from(settled)), "{count}: {settled} {root}");
    }
    assert_eq!(newton(0, 7), 0);
}

#[test]
fn the_control_law_and_the_clock_are_the_hand_computed_ones() {
    // 5 ms is 4882.8 ticks and 100 ms 97656.25: the fractions go.
    assert_eq!([ticks(5_000_000), ticks(100_000_000)], [4_882, 97_656]);
    // After 2^42 ns the clock starts again.
    assert_eq!([ticks((1 << 42) - 1), ticks(1 << 42), ticks((1 << 42) + 1_024)], [u32::MAX, 0, 1]);
    // 97656 * 65535 / 65536 = 97654.5; half an interval plus a bit: 97656 * 32769 / 65536 = 48829.49.
    assert_eq!(law_step(97_656, 0xffff), 97_654);
    assert_eq!(law_step(97_656, 32_769), 48_829);
    // An interval of 9 ticks (10 us) leaves no step from inverse 7281 (count 81) down: 9 * 7281 / 65536 < 1.
    assert_eq!([law_step(9, 7_282), law_step(9, 7_281)], [1, 0]);
}

/// A standing queue by hand: 100 packets of 1514 bytes at time zero, one asked for every 10 ms, target 5 ms, interval
/// 100 ms. Ask 1 (10 ms, tick 9765) is the first above target, so drops are allowed after tick 107421. Ask 11 (110 ms)
/// only just equals that; ask 12 (tick 117187) drops packet 11. drop_next = 117187 + 97654 = 214841: ask 22 (214843)
/// drops packet 22. Count 2, step 48829, 263670: ask 27 (263671) drops packet 28.
#[test]
fn a_standing_queue_is_dropped_from_as_computed_by_hand() {
    let params = Params {
        kernel: Kernel::V6_12,
        target: 5_000_000,
        interval: 100_000_000,
        ce_threshold: None,
        ecn: false,
        mtu: 1_514,
        limit: 1_000,
    };
    let arrivals = (0..100).map(|_| Op::Arrive { at: 0, len: 1_514, ecn: Ecn::NotEct });
    let ops: Vec<Op> = arrivals.chain((1..=30).map(|i| Op::Ask { at: i * 10_000_000 })).collect();
    let by_hand = [(12, 11), (22, 22), (27, 28)];
    let drops = |steps: &[Step]| -> Vec<(u32, u64)> {
        let dropped = steps.iter().filter(|step| step.act == Act::Dropped);
        dropped.map(|step| (step.call - 99, step.id)).collect()
    };
    assert_eq!(drops(&expected(params, None, &ops).0), by_hand);
    assert_eq!(drops(&actual(params, &ops)), by_hand);

    // With ECN the same asks mark instead, packets in order, none lost; the shallow threshold marks all above it.
    let ecn = Params { ecn: true, ..params };
    let ops: Vec<Op> = ops
        .into_iter()
        .map(|op| match op {
            Op::Arrive { at, len, .. } => Op::Arrive { at, len, ecn: Ecn::Ect1 },
            ask => ask,
        })
        .collect();
    let marks = |params: Params, act: Act| -> Vec<(u32, u64)> {
        let steps = expected(params, None, &ops).0;
        assert_eq!(steps, actual(params, &ops));
        steps.iter().filter(|step| step.act == act).map(|step| (step.call - 99, step.id)).collect()
    };
    assert_eq!(marks(ecn, Act::Marked), [(12, 11), (22, 21), (27, 26)]);
    let threshold = Some(Threshold { nanos: 280_000_000, ect1_only: true });
    // 280 ms is tick 273437, and ask 28 is at that very tick: not above.
    assert_eq!(
        marks(Params { ce_threshold: threshold, ..params }, Act::ThresholdMarked),
        [(29, 31), (30, 32)]
    );
}
