use super::{Direction, Setup};
use crate::keys::Keys;
use crate::words;
use weir_law::MainSignal;
use weir_qdisc::config::SplitKind;

fn setup(line: &str) -> Setup {
    Setup::from_keys(words::parse(&line.split(' ').collect::<Vec<_>>()).unwrap()).unwrap()
}

fn refusal(line: &str) -> String {
    let keys = words::parse(&line.split(' ').collect::<Vec<_>>()).unwrap();
    Setup::from_keys(keys).unwrap_err().to_string()
}

#[test]
fn a_setup_survives_its_journal() {
    for line in [
        "eth0 rate 500mbit",
        "eth0 rate 10gbit direction both ingress_rate 1gbit standard bfifo limit 1bdp responsive fq_codel sharing 30:70 split shared",
        "eth0 rate 50mbit preset comsys set mss=1460 set tie=keep set full_cycles=true flows 1000 ecn replace",
    ] {
        let setup = setup(line);
        let text = serde_json::to_string(&setup).unwrap();
        assert_eq!(serde_json::from_str::<Setup>(&text).unwrap(), setup, "{text}");
    }
}

#[test]
fn both_queues_must_mark_for_ecn_to_lead() {
    let main = |line: &str| setup(line).law.main_signal;
    assert_eq!(main("eth0 rate 1mbit queues codel/codel ecn"), MainSignal::Ecn);
    assert_eq!(main("eth0 rate 1mbit queues fq_codel/fq_codel"), MainSignal::Ecn);
    assert_eq!(main("eth0 rate 1mbit queues codel/codel"), MainSignal::Loss);
    assert_eq!(main("eth0 rate 1mbit queues bfifo/codel ecn"), MainSignal::Loss);
    assert_eq!(main("eth0 rate 1mbit ecn set main_signal=loss"), MainSignal::Loss);
    assert!(setup("eth0 rate 1mbit queues bfifo/codel ecn").can_mark());
    assert!(!setup("eth0 rate 1mbit standard fq_codel noecn responsive codel").can_mark());
}

#[test]
fn shares_add_up_to_the_rate() {
    let setup = setup("eth0 rate 1000003bit sharing 1:2 direction both ingress_rate 1mbit");
    for direction in [Direction::Egress, Direction::Ingress] {
        let [standard, responsive] = setup.shares(direction);
        let all = standard.bits_per_sec() + responsive.bits_per_sec();
        assert_eq!(all, setup.rate_of(direction).bits_per_sec());
    }
}

#[test]
fn shares_are_lent_unless_the_split_is_hard() {
    for line in ["eth0 rate 1mbit", "eth0 rate 1mbit split shared"] {
        assert_eq!(setup(line).split, SplitKind::Shared, "{line}");
    }
    assert_eq!(setup("eth0 rate 1mbit split hard").split, SplitKind::Hard);
}

#[test]
fn a_class_is_told_by_what_it_is_sure_of() {
    let assured = |line: &str| setup(line).assured(Direction::Egress).map(|rate| rate.bits_per_sec());
    assert_eq!(assured("eth0 rate 10mbit sharing 1:3"), [2_500_000, 7_500_000]);
    assert_eq!(assured("eth0 rate 10mbit sharing strict"), [8_000; 2], "both live on what they borrow");
    // A byte a second is the least that a class can have.
    assert_eq!(assured("eth0 rate 8kbit sharing 1000:1 queues bfifo/bfifo"), [7992, 8]);
}

#[test]
fn limits_are_of_the_interface() {
    let setup = setup("eth0 rate 1mbit standard bfifo limit 1400b responsive pfifo limit 1bdp");
    let error = setup.clone().with_mtu(1500).unwrap_err().to_string();
    assert_eq!(
        error,
        "standard queue: limit: 1400b is 1400 bytes here, less than one packet of 1514; give more, such as 15140b \
         (at 500kbit and MTU 1500)"
    );
    // Less than the least: the remedy is for what an interface usually has.
    let error = refusal("eth0 rate 1mbit standard bfifo limit 20b");
    assert!(error.ends_with("give more, such as 15140b (at 500kbit and MTU 1500)"), "{error}");
    let small = setup.clone().with_mtu(1280).unwrap();
    assert_eq!(small.mtu, 1280);
    // 6250 bytes are no packet of 9000.
    let packets = |mtu| {
        let setup = Setup { mtu, ..setup.clone() };
        let tree = setup.tree(Direction::Egress).map_err(|error| error.to_string());
        tree.map(|tree| tree.branches()[0].words.clone())
    };
    assert_eq!(packets(576).unwrap(), "pfifo limit 10");
    let large = Setup { mtu: 9000, queues: small.queues.clone(), ..setup.clone() };
    assert!(large.tree(Direction::Egress).unwrap_err().to_string().contains("less than one packet of 9014"));
}

#[test]
fn an_mtu_beyond_what_ip_fills_is_that() {
    let setup = setup("eth0 rate 1mbit").with_mtu(u32::MAX).unwrap();
    let lines = setup.tree(super::Direction::Egress).unwrap().lines("eth0").join("\n");
    assert!(lines.contains("quantum 65550"), "{lines}");
}

#[test]
fn flags_go_over_the_file() {
    let below = Keys {
        rate: Some("1mbit".parse().unwrap()),
        dev: Some("eth9".into()),
        flows: Some(100),
        ..Keys::default()
    };
    let above = words::parse(&["eth0", "rate", "2mbit", "set", "mss=1000"]).unwrap();
    let keys = above.over(below);
    assert_eq!((keys.dev.as_deref(), keys.flows), (Some("eth0"), Some(100)));
    let setup = Setup::from_keys(keys).unwrap();
    assert_eq!((setup.rate, setup.law.mss), ("2mbit".parse().unwrap(), 1000));
}

#[test]
fn what_cannot_work_is_refused_by_key() {
    for (line, says) in [
        ("eth0", "no rate is given"),
        ("rate 1mbit", "no device is given"),
        ("eth0 rate 1kbit", "rate: 1kbit is not from 8kbit"),
        ("a/b rate 1mbit", "dev: 'a/b' cannot be the name"),
        ("eth0 rate 1mbit ingress_rate 1mbit", "ingress_rate: only what is sent is shaped"),
        ("eth0 rate 1mbit queues bfifo/pfifo ecn", "ecn: neither queue"),
        ("eth0 rate 1mbit flows 3", "flows: 3 is not"),
        (
            "eth0 rate 1mbit queues bfifo/codel limit 10p",
            "limit: a bfifo cannot be limited to 10p; use a pfifo",
        ),
        ("eth0 rate 1mbit standard bfifo limit 80b", "standard queue: limit: 80b is 80 bytes here"),
        ("eth0 rate 1mbit standard bfifo limit 4gb", "the kernel counts up to 4294967295"),
        ("eth0 rate 1mbit sharing 0:5", "sharing: '0:5' is not STANDARD:RESPONSIVE in weights"),
        ("eth0 rate 1mbit sharing 1:2:3", "sharing: '1:2:3' is not"),
        (
            "eth0 rate 8kbit sharing 1:1000 queues bfifo/bfifo",
            "sharing: '1:1000' of rate 8kbit leaves the standard queue 7bit",
        ),
        ("eth0 rate 1mbit sharing strict split hard", "split: strict priority"),
        ("eth0 rate 1mbit sharing flows", "sharing: the weights of HTB's classes do not follow flows"),
        ("eth0 rate 1mbit standard cake unlimited limit 10p", "'limit' is not a word of cake"),
        ("eth0 rate 1mbit queues cake/codel", "unlimited: HTB shapes here"),
    ] {
        let said = refusal(line);
        assert!(said.contains(says), "{line}: {said}");
    }
}
