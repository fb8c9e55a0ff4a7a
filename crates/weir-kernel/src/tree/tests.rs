use super::{build, burst, change, quanta};
use crate::qdisc::{Qdisc, Qdiscs};
use crate::setup::{Direction, Setup};
use crate::words;

fn setup(line: &str) -> Setup {
    Setup::from_keys(words::parse(&line.split(' ').collect::<Vec<_>>()).unwrap()).unwrap()
}

fn built(line: &str) -> String {
    let steps = build("eth0", &setup(line), Direction::Egress, false).unwrap();
    steps.iter().map(|step| format!("{step}\n")).collect()
}

#[test]
fn the_lines_are_those_of_the_contract() {
    assert_eq!(
        built("eth0 rate 500mbit standard bfifo responsive codel ecn target 5ms split hard"),
        "\
tc qdisc add dev eth0 root handle 57e1: htb default 2
tc class add dev eth0 parent 57e1: classid 57e1:ffff htb rate 500000000bit ceil 500000000bit burst 62500b cburst 62500b quantum 200000
tc class add dev eth0 parent 57e1:ffff classid 57e1:1 htb rate 250000000bit ceil 250000000bit burst 31250b cburst 31250b quantum 31250
tc qdisc add dev eth0 parent 57e1:1 handle 57e2: codel limit 1000 target 5000us interval 100000us ecn
tc class add dev eth0 parent 57e1:ffff classid 57e1:2 htb rate 250000000bit ceil 250000000bit burst 31250b cburst 31250b quantum 31250
tc qdisc add dev eth0 parent 57e1:2 handle 57e3: bfifo limit 3125000
"
    );
    let borrowing = built("eth0 rate 500mbit sharing 1:3");
    assert!(borrowing.contains("classid 57e1:1 htb rate 375000000bit ceil 500000000bit"), "{borrowing}");
    assert!(borrowing.contains("classid 57e1:2 htb rate 125000000bit ceil 500000000bit"), "{borrowing}");
}

#[test]
fn bursts_and_turns_fit_every_rate_and_packet() {
    for (mtu, proportional) in [(68, 2400), (576, 330), (1280, 150), (1500, 132), (9000, 22), (65_536, 3)] {
        let full = u64::from(weir_core::full_packet(mtu));
        for bits in [8_000, 1_000_000, 50_000_000, 1_000_000_000, 10_000_000_000, 400_000_000_000u64] {
            for (s, r) in [(1, 1), (1, 3), (1, 1000), (1000, 1), (30, 70)] {
                let share = |weight: u64| weir_core::Rate::from_bits_per_sec(bits * weight / (s + r));
                let [standard, responsive] = quanta([share(s), share(r)], full);
                for quantum in [standard, responsive] {
                    assert!((full..=200_000).contains(&quantum), "{mtu} {bits} {s}/{r}: {quantum}");
                }
                // Both fit between a packet and HTB's limit, and turns are as the shares.
                if s.max(r) <= proportional * s.min(r) && bits > 8_000 {
                    let (a, b) = (standard as f64 / responsive as f64, s as f64 / r as f64);
                    assert!((a / b - 1.0).abs() < 0.02, "{mtu} {bits} {s}/{r}: {standard}/{responsive}");
                }
            }
            assert!(burst(weir_core::Rate::from_bits_per_sec(bits), full) >= 2 * full);
        }
    }
    assert_eq!(burst(weir_core::Rate::from_bits_per_sec(10_000_000_000), 1514), 1_250_000);
}

/// The steps from a setup with MTU 1500 to one with 9000, all queues being there.
fn followed(line: &str) -> String {
    let before = setup(line);
    let after = before.clone().with_mtu(9000).unwrap();
    let leaf = |kind: crate::LeafKind, handle| Qdisc {
        kind: kind.name().to_owned(),
        handle,
        parent: 0,
        sized: false,
        shared_block: None,
        options: None,
    };
    let seen = [
        leaf(before.queues.responsive.kind(), super::RESPONSIVE_HANDLE),
        leaf(before.queues.standard.kind(), super::STANDARD_HANDLE),
    ];
    let seen = seen.into_iter().collect();
    for same in [&before, &after] {
        assert_eq!(change("eth0", same, Some(same), Direction::Egress, &seen).unwrap(), []);
    }
    let steps = change("eth0", &after, Some(&before), Direction::Egress, &seen).unwrap();
    steps.iter().map(|step| format!("{step}\n")).collect()
}

#[test]
fn an_mtu_is_followed() {
    assert_eq!(
        followed("eth0 rate 1mbit queues bfifo/pie"),
        "\
tc class replace dev eth0 parent 57e1:ffff classid 57e1:1 htb rate 500000bit ceil 1000000bit burst 18028b cburst 18028b quantum 9014
tc class replace dev eth0 parent 57e1:ffff classid 57e1:2 htb rate 500000bit ceil 1000000bit burst 18028b cburst 18028b quantum 9014
tc qdisc change dev eth0 parent 57e1:2 handle 57e3: bfifo limit 18028
tc class replace dev eth0 parent 57e1: classid 57e1:ffff htb rate 1000000bit ceil 1000000bit burst 18028b cburst 18028b quantum 200000
"
    );
    // Where a millisecond is more than two packets, only what keeps the MTU is made anew.
    for kind in ["codel", "fq_codel", "fq", "fq_pie"] {
        let lines = followed(&format!("eth0 rate 500mbit queues {kind}/pfifo"));
        assert!(lines.starts_with("tc qdisc del dev eth0 parent 57e1:2 handle 57e3:\n"), "{lines}");
        assert_eq!(lines.lines().count(), 2, "{lines}");
    }
    assert_eq!(followed("eth0 rate 500mbit standard red responsive cake unlimited"), "");
}

#[test]
fn nothing_new_changes_nothing() {
    let same = setup("eth0 rate 500mbit");
    let steps = change("eth0", &same, Some(&same), Direction::Egress, &Qdiscs::default()).unwrap();
    // Only the queues, which are not there.
    assert_eq!(steps.len(), 2);
    assert!(steps.iter().all(|step| step.to_string().starts_with("tc qdisc add")));
}
