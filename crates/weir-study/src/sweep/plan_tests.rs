//! What a sweep's file says, and what is refused.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::{MOST_CELLS, Sweep, SweepError};
use super::APART;

const SCENARIO: &str = r#"
[bottleneck]
rate = "10mbit"
rtt = "20ms"
qdisc = "codel ecn limit 100p"
[[flow]]
name = "bulk.1"
stack = "tcp"
controller = "cubic"
bytes = "1mb"
[[flow]]
stack = "udp"
rate = "1mbit"
"#;

/// A sweep over SCENARIO, which stands in a file of its own.
fn load(text: &str, most: u64) -> Result<Sweep, SweepError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("base.toml"), SCENARIO).unwrap();
    let path = folder.path().join("s.toml");
    std::fs::write(&path, format!("scenario = \"base.toml\"\n{text}")).unwrap();
    Sweep::load(&path, most, false)
}

fn error(text: &str) -> String {
    match load(text, MOST_CELLS) {
        Ok(_) => panic!("{text} is no error"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn combinations_draw_alike_or_each_by_itself() {
    let runs = |independent| {
        let excluded = "[[exclude]]\n\"seed\" = 1\n\"bottleneck.rtt\" = \"2ms\"";
        let axes = "[sweep]\n\"seed\" = [1, 2]\n\"bottleneck.rtt\" = [\"1ms\", \"2ms\"]";
        let text = format!("repeat = 2\nindependent = {independent}\n{axes}\n{excluded}\n");
        let sweep = load(&text, MOST_CELLS).unwrap();
        (0..sweep.cells()).map(|cell| sweep.cell(cell).run).collect::<Vec<_>>()
    };
    assert_eq!(runs(false), [0, 1, 0, 1, 0, 1]);
    // The second is excluded, and the others keep their numbers.
    assert_eq!(runs(true), [0, 1, 2 * APART, 2 * APART + 1, 3 * APART, 3 * APART + 1]);
}

#[test]
fn values_come_where_their_keys_lead() {
    let sweep = load(
        r#"
[sweep]
flow."bulk.1".controller = ["reno"]
"flow.1.rate" = ["2mbit"]
"bottleneck.qdisc.target" = ["2ms"]
"measure.timeout" = ["9s"]
law.spin_debounce = [3]
seed = [7]
"#,
        MOST_CELLS,
    )
    .unwrap();
    let scenario = sweep.scenario(0).unwrap();
    assert_eq!(scenario.flows[0].controller, "reno");
    assert_eq!(scenario.flows[1].rate.unwrap().bits_per_sec(), 2_000_000);
    assert_eq!(scenario.bottleneck.qdisc, "codel ecn limit 100p target 2ms".parse().unwrap());
    assert_eq!((scenario.measure.timeout.as_nanos(), scenario.seed), (9_000_000_000, 7));
    assert_eq!(scenario.law_params().unwrap().spin_debounce, 3);
    assert_eq!(scenario.flows[0].name, "bulk.1", "what is not swept stays");
}

#[test]
fn a_key_of_a_queue_that_is_swept_itself_goes_into_each() {
    let text = r#"
[sweep]
"bottleneck.qdisc" = ["codel", { kind = "codel", ecn = true }]
"bottleneck.qdisc.limit" = { from = "1bdp", to = "2bdp", factor = 2 }
"#;
    let sweep = load(text, MOST_CELLS).unwrap();
    let queues: Vec<_> =
        (0..sweep.combinations()).map(|number| sweep.scenario(number).unwrap().bottleneck.qdisc).collect();
    let expected = ["codel limit 1bdp", "codel limit 2bdp", "codel ecn limit 1bdp", "codel ecn limit 2bdp"];
    assert_eq!(queues, expected.map(|words| words.parse().unwrap()));
}

#[test]
fn what_is_excluded_does_not_run() {
    let axes =
        "[sweep]\n\"bottleneck.rtt\" = [\"5ms\", \"10ms\"]\n\"flow.0.controller\" = [\"reno\", \"cubic\"]\n";
    let all = |text: &str| {
        let sweep = load(&format!("{axes}{text}"), MOST_CELLS).unwrap();
        (0..sweep.cells()).map(|cell| sweep.describe(cell)).collect::<Vec<_>>()
    };
    assert_eq!(all("").len(), 4);
    let left = all("[[exclude]]\n\"bottleneck.rtt\" = \"5000us\"\n\"flow.0.controller\" = \"cubic\"\n");
    assert_eq!(left.len(), 3);
    assert!(!left.contains(&"bottleneck.rtt = 5ms, flow.0.controller = cubic, run 0".to_owned()), "{left:?}");
    assert_eq!(
        all("[[exclude]]\n\"bottleneck.rtt\" = [\"5ms\"]\n[[exclude]]\n\"flow.0.controller\" = \"cubic\"\n")
            .len(),
        1
    );
    // A value may stand several times in a list of keys that go together.
    let zip = "[[zip]]\n\"bottleneck.rate\" = [\"1mbit\", \"1000kbit\", \"5mbit\"]\n\"seed\" = [1, 2, 3]\n";
    let left = all(&format!("{zip}[[exclude]]\n\"bottleneck.rate\" = \"1mbit\"\n"));
    assert_eq!((left.len(), left.iter().all(|cell| cell.contains("bottleneck.rate = 5mbit"))), (4, true));
    let message = error(&format!("{axes}[exclude]\n\"bottleneck.rtt\" = [\"5ms\", \"10ms\"]\n"));
    assert!(message.contains("leaves nothing"), "{message}");
}

#[test]
fn errors_have_file_line_and_remedy() {
    for (text, says) in [
        ("[sweep]\n\"bottleneck.rat\" = [\"1mbit\"]", ["s.toml: line 3: ", "did you mean `rate`?"]),
        (
            "[sweep]\n\n\"bottleneck.rate\" = [\"1mbit\",\n \"0mbit\"]",
            ["s.toml: line 5: ", "is missing or 0"],
        ),
        ("[sweep]\n\"bottleneck.rate\" = [\"1mbits\"]", ["s.toml: line 3: ", "unknown unit"]),
        ("[sweep]\n\"bottleneck.rate\" = [\"5ms\"]", ["s.toml: line 3: ", "is not a rate"]),
        ("[sweep]\n\"bottleneck.rate\" = \"5ms\"", ["s.toml: line 3: ", "give a list"]),
        ("[sweep]\n\"bottleneck.rate.x\" = [\"5ms\"]", ["s.toml: line 3: ", "no keys"]),
        ("[sweep]\n\"bottleneck.rate\" = []", ["s.toml: line 3: ", "at least one"]),
        ("[sweep]\n\"bottleneck.rate\" = [\"1mbit\", \"1mbit\"]", ["s.toml: line 3: ", "twice"]),
        ("[sweep]\n\"flow.0.controller\" = [\"cubik\"]", ["s.toml: line 3: ", "did you mean 'cubic'"]),
        ("[sweep]\n\"flow.bulk.controller\" = [\"reno\"]", ["s.toml: line 3: ", "`flow.bulk.1`"]),
        ("[sweep]\n\"flow.2.controller\" = [\"reno\"]", ["s.toml: line 3: ", "from flow.0 to flow.1"]),
        (
            "[sweep]\n\"bottleneck.qdisc.limit\" = [\"2p\",\n\"0.01bdp\"]",
            ["s.toml: line 4: ", "bottleneck.qdisc: limit"],
        ),
        ("[sweep]\n\"bottleneck.qdisc.targett\" = [\"2ms\"]", ["s.toml: line 3: ", "target"]),
        ("[sweep]\nlaw.spin_debonce = [3]", ["s.toml: line 3: ", "did you mean `spin_debounce`?"]),
        ("repeat = 0", ["s.toml: line 2: ", "from 1"]),
        ("independent = 1", ["s.toml: line 2: ", "true or false"]),
        ("world = \"simm\"", ["s.toml: line 2: ", "did you mean \"sim\"?"]),
        ("repaet = 3", ["s.toml: line 2: ", "did you mean `repeat`?"]),
        ("[sweep]\nrepeat = 3", ["s.toml: line 3: ", "above [sweep]"]),
        ("[[zip]]\n\"seed\" = [1, 2]\n\"bottleneck.rtt\" = [\"1ms\"]", ["s.toml: line 4: ", "equally many"]),
        ("[sweep]\n\"seed\" = [1, 2]\n[[zip]]\n\"seed\" = [3]", ["s.toml: line 5: ", "line 3 already"]),
        ("[sweep]\n\"seed\" = { from = 1, to = 1000000000, step = 1 }", ["s.toml: line 3: ", "--max-cells"]),
        (
            "repeat = 1000000\n[sweep]\n\"seed\" = { from = 1, to = 1000, step = 1 }",
            ["s.toml: line 3: ", "make 1000000000 cells"],
        ),
        ("[sweep]\n\"seed\" = [1]\n[[exclude]]\n\"seed\" = 2", ["s.toml: line 5: ", "never is 2"]),
        ("[sweep]\n\"seed\" = [1]\n[[exclude]]\n\"sed\" = 1", ["s.toml: line 5: ", "did you mean \"seed\""]),
        ("[sweep]\n\"measure.pcap\" = [true]", ["s.toml: line 3: ", "weir run --pcap"]),
        ("[sweep]\n\"flow.0.path\" = [[\"core\"]]", ["s.toml: line 3: ", "takes a list"]),
        ("world = \"emu\"\n[sweep]\n\"flow.0.gso\" = [4]", ["s.toml: line 4: ", "--on sim"]),
        ("[sweep]\n\"flow.0.bytes\" = [\"0b\"]", ["s.toml: line 3: ", "at least 1 byte"]),
        ("[sweep\n", ["s.toml: line 2: ", "]"]),
    ] {
        let message = error(text);
        for says in says {
            assert!(message.contains(says), "{text}\n{message}");
        }
    }
}

#[test]
fn an_error_of_the_scenario_has_the_line_of_its_file() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to, says) in [
        ("\"10mbit\"", "\"0mbit\"", "base.toml: line 3: bottleneck.rate"),
        ("limit 100p", "limit 0p", "base.toml: line 5: bottleneck.qdisc"),
        ("\"cubic\"", "\"cubik\"", "base.toml: line 9: flow 1 ('bulk.1'): controller"),
        ("stack = \"udp\"", "stak = \"udp\"", "base.toml: line 12: "),
        ("[bottleneck]", "[bottleneck", "base.toml: line 2: "),
    ] {
        std::fs::write(folder.path().join("base.toml"), SCENARIO.replacen(from, to, 1)).unwrap();
        let path = folder.path().join("s.toml");
        std::fs::write(&path, "scenario = \"base.toml\"\n[sweep]\n\"seed\" = [1]\n").unwrap();
        let message = Sweep::load(&path, MOST_CELLS, false).err().unwrap().to_string();
        assert!(message.contains(says), "{says}: {message}");
    }
    std::fs::remove_file(folder.path().join("base.toml")).unwrap();
    let message = Sweep::load(&folder.path().join("s.toml"), MOST_CELLS, false).err().unwrap().to_string();
    assert!(message.contains("cannot read") && message.contains("base.toml"), "{message}");
}

#[test]
fn the_examples_can_run() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sweeps");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        Sweep::load(&file, MOST_CELLS, false).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Products and zips: every combination once, the last axis fastest, zipped keys together.
    #[test]
    fn every_combination_comes_once(rtts in 1u64..5, seeds in 1u64..5, zipped in 1u64..5, repeat in 1u64..4, zip_first: bool) {
        let list = |count: u64, value: &dyn Fn(u64) -> String| (1..=count).map(value).collect::<Vec<_>>().join(", ");
        let sweep = format!(
            "[sweep]\n\"bottleneck.rtt\" = [{}]\n\"seed\" = [{}]\n",
            list(rtts, &|at| format!("\"{at}ms\"")),
            list(seeds, &|at| at.to_string()),
        );
        let zip = format!(
            "[[zip]]\n\"bottleneck.rate\" = [{}]\n\"flow.1.count\" = [{}]\n",
            list(zipped, &|at| format!("\"{at}mbit\"")),
            list(zipped, &|at| at.to_string()),
        );
        let text = if zip_first { format!("repeat = {repeat}\n{zip}{sweep}") } else { format!("repeat = {repeat}\n{sweep}{zip}") };
        let sweep = load(&text, MOST_CELLS).unwrap();
        prop_assert_eq!(sweep.cells() as u64, rtts * seeds * zipped * repeat);
        let mut addresses = BTreeSet::new();
        let mut seen = Vec::new();
        for cell in 0..sweep.cells() {
            prop_assert!(addresses.insert(*sweep.address(cell)), "two cells with one address");
            let place = sweep.cell(cell);
            let scenario = sweep.scenario(place.combination).unwrap();
            let rate = scenario.bottleneck.rate.bits_per_sec() / 1_000_000;
            prop_assert_eq!(rate, u64::from(scenario.flows[1].count), "the zip is apart");
            let rtt = scenario.bottleneck.rtt.as_nanos() / 1_000_000;
            let order = if zip_first { [rate, rtt, scenario.seed] } else { [rtt, scenario.seed, rate] };
            seen.push((order, place.run));
        }
        let mut sorted = seen.clone();
        sorted.sort_unstable();
        sorted.dedup();
        prop_assert_eq!(seen, sorted);
    }
}
