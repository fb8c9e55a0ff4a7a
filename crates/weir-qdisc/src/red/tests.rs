use super::{ADAPT, Action, PER_CENT, RedKeys, RedParams, Vars, idle_table, weight};
use crate::config::QdiscConfig;
use crate::keys::{BuildContext, Keys};
use weir_core::{DropReason, Duration, Ecn, Event, EventKind, FlowId, Packet, Rate, Seed, Time};

const LINK: BuildContext = BuildContext {
    rate: Rate::from_bits_per_sec(10_000_000),
    rtt: Duration::from_millis(100),
    mtu: 1514,
    seed: Seed { seed: 1, run: 0 },
};

fn law(words: &str) -> RedParams {
    let QdiscConfig::Red(keys) = words.parse().unwrap() else { panic!("not red") };
    keys.law(400_000, &LINK).unwrap()
}

#[test]
fn weights_are_those_of_the_table_in_red_h() {
    // The kernel's comment: with min = 32 packets, these weights bear bursts of so many packets.
    for (log, burst) in [(4, 46), (5, 57), (6, 75), (7, 101)] {
        let most = (32..1000).filter(|burst| weight(32_000, *burst, 1000) == Some(log)).max();
        assert_eq!(most, Some(burst), "2^-{log}");
    }
    assert_eq!(weight(40_000, 30, 1000), None);
}

#[test]
fn defaults_are_those_of_tc() {
    let law = law("red limit 400000b");
    assert_eq!((law.max, law.min), (100_000, 33_333));
    assert_eq!(law.max_p, 85_899_345);
    assert_eq!(law.max_p_per_byte, 85_899_345 / 66_667);
}

#[test]
fn the_average_is_a_shift_and_an_add() {
    let law = law("red min 2000b max 4000b burst 3");
    assert_eq!(law.wlog, 2);
    let mut vars = Vars { is_busy: true, ..Vars::default() };
    // By hand, scaled by 4: 0 + 1000; 1000 - 250 + 1000; 1750 - 437 + 3000.
    let scaled = [1000, 1000, 3000].map(|backlog| {
        law.average(&mut vars, backlog, Time::ZERO);
        vars.average
    });
    assert_eq!(scaled, [1000, 1750, 4313]);
}

#[test]
fn a_pause_lets_the_average_decay_as_packets_would() {
    let (wlog, avpkt, rate) = (5, 1000, Rate::from_bits_per_sec(8_000_000));
    let law = RedParams::new(10_000, 20_000, wlog, PER_CENT, idle_table(wlog, avpkt, rate));
    // A packet takes 1 ms; 220 of them are 220 x -ln(31/32) = 6.98 shifts. A cell is 2.048 ms; the first
    // 16 cells have no whole shift, and leave a half.
    let vars = Vars { average: 1 << 20, ..Vars::default() };
    for (packets, expected) in [(0u64, 1.0), (1, 0.51171875), (10, 0.5), (44, 0.5), (220, 1.0 / 64.0)] {
        let left = law.after_pause(&vars, Time::from_nanos(packets * 1_000_000)) as f64 / f64::from(1 << 20);
        assert!((left - expected).abs() < 1e-5, "{packets}: {left}");
    }
    assert_eq!(law.after_pause(&vars, Time::from_nanos(u64::MAX)), 0);
}

#[test]
fn marks_are_spaced_evenly_up_to_the_inverse_of_the_probability() {
    // Half way between the thresholds at max_P 10 %: 5 %, so one to twenty arrivals from mark to mark.
    let law = law("red min 10000b max 20000b probability 0.1 burst 15");
    let mut random = Seed { seed: 3, run: 0 }.stream("test");
    let mut vars = Vars { average: 15_000 << law.wlog, is_busy: true, ..Vars::default() };
    assert_eq!(law.action(&mut vars, &mut random), Action::Pass);
    let mut spaces = [0u32; 22];
    let (mut marks, mut since) = (0, 0usize);
    for _ in 0..200_000 {
        since += 1;
        if law.action(&mut vars, &mut random) == Action::Probably {
            spaces[since.min(21)] += 1;
            (marks, since) = (marks + 1, 0);
        }
    }
    // Uniform from 1 to 20: a mean of 10.5 arrivals, none above 20 but for the rounding of max_P.
    assert!((18_700..19_400).contains(&marks), "{marks}");
    assert!(spaces[1..=20].iter().all(|count| count.abs_diff(marks / 20) < marks / 100), "{spaces:?}");
    assert_eq!(spaces[21], 0);
}

/// How often a packet is marked while the average is so many bytes, of 100,000.
fn marked(law: &RedParams, average: u64) -> usize {
    let mut random = Seed { seed: 3, run: 0 }.stream("test");
    let mut vars = Vars { average: average << law.wlog, is_busy: true, ..Vars::default() };
    (0..100_000).filter(|_| law.action(&mut vars, &mut random) == Action::Probably).count()
}

#[test]
fn the_probability_holds_whatever_is_between_the_thresholds() {
    let idle = || idle_table(9, 1000, LINK.rate);
    // Near `max` twice the probability, as the spaces are uniform; 2 %, up to those of a quarter of 100 Gbit/s x 100 ms.
    for max in [40_000, 4_000_000, 312_500_000u64] {
        let law = RedParams::new(max / 3, max, 9, 85_899_345, idle());
        let marks = marked(&law, max - 1);
        assert!((3_750..4_150).contains(&marks), "{max}: {marks}");
    }
    // 1 in 10,000 of a megabyte.
    let law = RedParams::new(1_000_000, 2_000_000, 9, 429_497, idle());
    assert!((10..=30).contains(&marked(&law, 1_999_999)));
}

#[test]
fn a_probability_of_zero_marks_from_max_on_alone() {
    let law = law("red min 10000b max 20000b probability 0 burst 15");
    assert_eq!(marked(&law, 19_999), 0);
    let mut vars = Vars { average: 20_000 << law.wlog, is_busy: true, ..Vars::default() };
    assert_eq!(law.action(&mut vars, &mut Seed::default().stream("test")), Action::Surely);
}

fn flood(words: &str, ecn: Ecn) -> [usize; 4] {
    let mut queue = words.parse::<QdiscConfig>().unwrap().build(&LINK).unwrap();
    let mut events: Vec<Event> = Vec::new();
    for id in 0..4000 {
        let now = Time::from_nanos(id * 1_000_000);
        queue.enqueue(Packet::new(id, FlowId(0), 1500, now).with_ecn(ecn), now, &mut events);
        if id % 2 == 0 {
            queue.dequeue(now, &mut events);
        }
    }
    let count = |wanted: fn(&EventKind) -> bool| events.iter().filter(|event| wanted(&event.kind)).count();
    [
        count(|kind| matches!(kind, EventKind::Mark(_))),
        count(|kind| *kind == EventKind::Drop(DropReason::Early)),
        count(|kind| *kind == EventKind::Drop(DropReason::Overflow)),
        count(|kind| *kind == EventKind::Enqueue),
    ]
}

#[test]
fn flags_decide_between_marks_and_drops() {
    let red = "red min 15kb max 45kb limit 200kb";
    let [marks, early, over, _] = flood(red, Ecn::Ect0);
    assert!(marks == 0 && early > 1000 && over == 0, "{marks} {early} {over}");
    // Nothing keeps a queue that marks from growing to its limit.
    let [marks, early, over, _] = flood(&format!("{red} ecn"), Ecn::Ect0);
    assert!(marks > 1000 && early == 0 && over > 1000, "{marks} {early} {over}");
    let [marks, early, over, _] = flood(&format!("{red} ecn harddrop"), Ecn::Ect0);
    assert!(marks > 10 && early > 1000 && over == 0, "{marks} {early} {over}");
    let [marks, early, over, _] = flood(&format!("{red} ecn"), Ecn::NotEct);
    assert!(marks == 0 && early > 1000 && over == 0, "{marks} {early} {over}");
    let [marks, early, over, _] = flood(&format!("{red} ecn nodrop"), Ecn::NotEct);
    assert!(marks == 0 && early == 0 && over > 1000, "{marks} {early} {over}");
}

#[test]
fn adaptive_moves_the_probability_towards_the_middle_fifth() {
    let mut law = law("red min 10000b max 20000b probability 0.02 burst 15");
    let busy = |average: u64, law: &RedParams| Vars {
        average: average << law.wlog,
        is_busy: true,
        ..Vars::default()
    };
    let at = Time::ZERO + ADAPT;
    // 2 % of 2^32 are 85899345; a quarter is less than 1 %.
    law.adapt(&busy(16_001, &law), at);
    assert_eq!(law.max_p, 85_899_345 + 21_474_836);
    assert!(law.adapt(&busy(15_000, &law), at));
    assert_eq!(law.max_p, 107_374_181);
    law.adapt(&busy(13_999, &law), at);
    assert_eq!(law.max_p, 107_374_181 / 10 * 9);
    for _ in 0..100 {
        law.adapt(&busy(19_000, &law), at);
    }
    assert!(law.max_p > 50 * PER_CENT && law.max_p <= 51 * PER_CENT);
    for _ in 0..100 {
        law.adapt(&busy(0, &law), at);
    }
    assert!(law.max_p < PER_CENT && law.max_p >= PER_CENT / 10 * 9);
}

#[test]
fn contradictions_are_refused() {
    for (words, key) in [
        ("red limit 100p", "limit"),
        ("red min 5p", "min"),
        ("red min 20kb max 10kb", "max"),
        ("red probability 1.5", "probability"),
        ("red avpkt 0", "avpkt"),
        ("red nodrop", "nodrop: without ecn"),
        ("red min 20kb max 60kb burst 3", "burst"),
    ] {
        let error = words.parse::<QdiscConfig>().unwrap().build(&LINK).err().unwrap().to_string();
        assert!(error.starts_with(key), "{words}: {error}");
    }
    // A link of which a BDP is less than twelve packets, and what the message says to do about it.
    let slow = BuildContext { rate: Rate::from_bits_per_sec(1_000_000), ..LINK };
    let built = |words: &str| words.parse::<QdiscConfig>().unwrap().build(&slow).map(|_| ());
    let error = built("red limit 2500b").unwrap_err().to_string();
    assert!(error.starts_with("min: 208 bytes") && error.contains("avpkt 1000"), "{error}");
    for words in ["red limit 13kb", "red limit 2500b avpkt 200", "red min 1001b max 2kb"] {
        assert_eq!(built(words), Ok(()), "{words}");
    }
    let error = built("red min 20kb max 60kb burst 20").unwrap_err().to_string();
    assert!(error.ends_with("give more, from 21 on, or a smaller min"), "{error}");
    for words in ["red min 20kb max 60kb burst 21", "red min 20000b max 60kb burst 20"] {
        assert_eq!(built(words), Ok(()), "{words}");
    }
    let error = built("red min 1001b max 2kb burst 1000000").unwrap_err().to_string();
    assert!(error.ends_with("give fewer, or a larger min"), "{error}");
    assert!(!RedKeys::default().marks());
}
