//! What a scenario may say, and what its errors say.

use std::path::Path;

use weir_core::Seed;

use super::{FileError, Scenario, ScenarioError, reference};

const GOOD: &str = r#"
        [bottleneck]
        rate = "100mbit"
        rtt = "5ms"
        qdisc = "bfifo limit 1bdp"
        [[flow]]
        stack = "tcp"
        controller = "cubic"
        bytes = "10mb"
        count = 2
        [[flow]]
        stack = "udp"
        rate = "50mbit"
        start = "1s"
    "#;

const LINK: &str = "[[link]]\nname = \"core\"\nrate = \"1mbit\"\nqdisc = \"pfifo\"";

fn error(change: impl Fn(&str) -> String) -> String {
    match Scenario::parse(&change(GOOD), "x.toml") {
        Err(error @ (ScenarioError::File(FileError::Syntax { .. }) | ScenarioError::Value { .. })) => {
            error.to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_good_scenario_reads_and_writes() {
    let scenario = Scenario::parse(GOOD, "x.toml").unwrap();
    let names: Vec<_> = scenario.expanded_flows().into_iter().map(|flow| flow.name).collect();
    assert_eq!(names, ["TCP cubic 1", "TCP cubic 2", "UDP"]);
    let thrice = scenario.flows[1].clone();
    let thrice = Scenario { flows: vec![thrice.clone(), thrice.clone(), thrice], ..scenario.clone() };
    let names: Vec<_> = thrice.expanded_flows().into_iter().map(|flow| flow.name).collect();
    assert_eq!(names, ["UDP", "UDP #2", "UDP #3"]);
    let again = Scenario::parse(&toml::to_string(&scenario).unwrap(), "y.toml").unwrap();
    assert_eq!(scenario, again);
}

#[test]
fn each_block_of_flows_has_a_name_and_rows_of_its_own() {
    let text = "[bottleneck]\nrate = '1mbit'\nrtt = '20ms'\nqdisc = 'pfifo'\n\
        [[flow]]\nstack = 'quic'\ncontroller = 'cubic'\ndetector = 'trains'\nduration = '1s'\ncount = 2\n\
        [[flow]]\nstack = 'quic'\ncontroller = 'cubic'\nduration = '1s'\n\
        [[flow]]\nstack = 'quic'\ncontroller = 'cubic'\nduration = '1s'\ncount = 2\n\
        [[flow]]\nname = 'QUIC cubic #2'\nstack = 'quic'\ncontroller = 'cubic'\nduration = '1s'\n";
    let scenario = Scenario::parse(text, "x.toml").unwrap();
    let flows = scenario.expanded_flows();
    let names = |places: &mut dyn Iterator<Item = usize>| -> Vec<&str> {
        places.map(|place| flows[place].name.as_str()).collect()
    };
    let groups = scenario.groups();
    let of: Vec<(&str, Vec<&str>)> =
        groups.iter().map(|group| (group.name.as_str(), names(&mut group.flows()))).collect();
    assert_eq!(
        of,
        [
            ("QUIC cubic", vec!["QUIC cubic 1", "QUIC cubic 2"]),
            ("QUIC cubic #2", vec!["QUIC cubic #2"]),
            ("QUIC cubic #3", vec!["QUIC cubic #3 1", "QUIC cubic #3 2"]),
            ("QUIC cubic #2 #2", vec!["QUIC cubic #2 #2"]),
        ]
    );
    let rows = names(&mut groups[0].rows.clone());
    assert_eq!(rows, ["QUIC cubic 1", "QUIC cubic 1 light", "QUIC cubic 2", "QUIC cubic 2 light"]);
    assert_eq!(
        groups.iter().flat_map(|group| group.rows.clone()).collect::<Vec<_>>(),
        (0..8).collect::<Vec<_>>()
    );
}

#[test]
fn a_workload_has_no_flows_name() {
    let workload = "[[workload]]\nkind = \"poisson\"\nstack = \"tcp\"\ncontroller = \"cubic\"\nload = 0.1\nsize = \"10kb\"\nname =";
    for name in ["TCP cubic", "TCP cubic 2", "UDP"] {
        let message = error(|good| format!("{good}\n{workload} \"{name}\""));
        assert!(message.contains("name: a flow is called") && message.contains("another name"), "{message}");
    }
    let message = error(|good| format!("{good}\n{workload} \"web\"\n{workload} \"web\""));
    assert!(message.contains("name: another workload is called so"), "{message}");
}

#[test]
fn the_mean_rate_of_a_trace_is_the_traces() {
    let text = GOOD.replace("limit 1bdp\"", "limit 1bdp\"\ntrace = \"t\"");
    let mut scenario: Scenario = toml::from_str(&text).unwrap();
    // Nothing in the first of two seconds, 12 Mbit/s of IP packets in the second.
    let lines: String = (1000..2000).map(|ms| format!("{}\n", ms + 1)).collect();
    scenario.complete_by(Path::new(""), &|_| Ok(lines.clone())).unwrap();
    let mbit = |from, to| (scenario.bottleneck.mean_bps(from, to) / 1e6 * 1500.0 / 1514.0).round();
    assert_eq!([mbit(0.0, 2.0), mbit(0.0, 1.0), mbit(1.0, 2.0), mbit(1.0, 4.0)], [6.0, 0.0, 12.0, 8.0]);
}

#[test]
fn starts_are_drawn_from_seed_run_and_name() {
    let text = GOOD.replace("count = 2", "count = 2\nstart = \"1s\"\nstart_spread = \"500ms\"");
    let scenario = Scenario::parse(&text, "x.toml").unwrap();
    let starts = |scenario: &Scenario, run| -> Vec<u64> {
        let flows = scenario.flows_of_run(Seed { seed: 1, run });
        flows.iter().map(|flow| flow.start.as_nanos()).collect()
    };
    let first = starts(&scenario, 0);
    assert!(first[..2].iter().all(|start| (1_000_000_000..1_500_000_000).contains(start)), "{first:?}");
    assert_ne!(first[0], first[1]);
    assert_eq!(first[2], 1_000_000_000, "the other flow has no spread");
    assert_eq!(starts(&scenario, 0), first);
    assert_ne!(starts(&scenario, 1), first);
    // A further flow shifts none.
    let mut more = scenario.clone();
    more.flows[0].count = 3;
    assert_eq!(starts(&more, 0)[..2], first[..2]);
    // Over many runs the whole spread is used, evenly.
    let many: Vec<u64> = (0..1000).map(|run| starts(&scenario, run)[0] - 1_000_000_000).collect();
    let mean = many.iter().sum::<u64>() / 1000;
    assert!((230_000_000..270_000_000).contains(&mean), "{mean}");
}

#[test]
fn a_light_sub_flow_starts_with_its_heavy_one() {
    let text =
        GOOD.replace("stack = \"tcp\"", "start_spread = \"1s\"\ndetector = \"trains\"\nstack = \"quic\"");
    let flows = Scenario::parse(&text, "x.toml").unwrap().flows_of_run(Seed::default());
    assert_eq!((flows.len(), flows[1].name.as_str()), (5, "QUIC cubic 1 light"));
    assert_eq!(flows[0].start, flows[1].start);
    assert_eq!(flows[2].start, flows[3].start);
    assert_ne!(flows[0].start, flows[2].start);
}

#[test]
fn none_of_a_flow_is_no_flow() {
    let none = GOOD.replace("start = \"1s\"", "count = 0");
    let scenario = Scenario::parse(&none, "x.toml").unwrap();
    assert_eq!(scenario.expanded_flows().len(), 2);
    assert!(scenario.has_end());
    let again = Scenario::parse(&toml::to_string(&scenario).unwrap(), "y.toml").unwrap();
    assert_eq!(scenario, again);
}

#[test]
fn errors_name_the_place_and_the_remedy() {
    let unknown = error(|good| good.replace("stack = \"udp\"", "stak = \"udp\""));
    assert!(unknown.contains("line 12") && unknown.contains("did you mean `stack`?"), "{unknown}");
    for (from, to, says) in [
        ("100mbit", "0mbit", "bottleneck.rate: is missing or 0; give a rate such as 10mbit"),
        ("100mbit", "100mbits", "'100mbits' is not a rate"),
        ("cubic", "cubik", "did you mean 'cubic'"),
        ("rate = \"50mbit\"", "", "a UDP flow needs a rate"),
        ("count = 2", "count = -1", "invalid value: integer `-1`"),
        ("count = 2", "count = 0", "no flow has 'bytes' or 'duration'"),
        ("count = 2", "start_spread = 0", "start_spread: must be above 0"),
        ("\"1s\"", "\"1s\"\nstart_spread = \"299s\"", "measure.timeout: flow 'UDP' starts at 300s"),
        (
            "[bottleneck]",
            "measure.from = \"300s\"\n[bottleneck]",
            "measure.from: 300s is when the run has ended",
        ),
        (
            "[bottleneck]",
            "measure = { from = \"3s\", to = \"3s\" }\n[bottleneck]",
            "measure.to: must be later than from, which is 3s",
        ),
        (
            "[bottleneck]",
            "measure.to = \"301s\"\n[bottleneck]",
            "measure.to: 301s is after the end of the run",
        ),
        ("10mb", "0b", "bytes: must be at least 1 byte"),
        (
            "limit 1bdp\"",
            "limit 1bdp\"\nposition = 1.5",
            "position: must lie between 0 and 1: 0 is at the client",
        ),
        ("limit 1bdp\"", "limit 1bdp\"\nposition = nan", "position: must lie between 0 and 1"),
        (
            "limit 1bdp\"",
            "limit 1bdp\"\nburst = \"1513b\"",
            "burst: must be at least 1514 bytes, one full packet",
        ),
        (
            "limit 1bdp\"",
            "limit 1bdp\"\noverhead = 65536",
            "overhead: must be at most 65535, the longest packet",
        ),
        ("\"5ms\"", "\"100001s\"", "bottleneck.rtt: 100001s is more than 100000s"),
        ("\"5ms\"", "\"5\"", "the unit is missing"),
        ("limit 1bdp", "limit 0.001bdp", "bottleneck.qdisc"),
        ("\"1s\"", "\"400s\"", "measure.timeout: flow 'UDP' starts at 400s"),
        ("bytes = \"10mb\"", "", "no flow has 'bytes' or 'duration'"),
        ("count = 2", "gso = 46", "gso: must lie between 1 and 45"),
        ("count = 2", "initial_window = 0", "initial_window: must lie between 1 and 1000000"),
        ("count = 2", "min_burst = 0", "min_burst: must be at least 1"),
        ("count = 2", "max_rate = \"0mbit\"", "max_rate: must be above 0"),
        ("count = 2", "ack_every = 0", "ack_every: must be at least 1"),
        ("count = 2", "ack_delay = \"1s\"", "ack_delay: must be at most 500ms"),
        ("count = 2", "gro = \"1s\"", "gro: must be at most 100ms"),
        ("stack = \"tcp\"", "stack = \"quic\"\ndefer = true", "defer: only TCP flows have it"),
        ("start = \"1s\"", "gso = 2", "gso: only TCP and QUIC flows have it"),
        ("limit 1bdp\"", "limit 1bdp\"\njitter = \"2ms\"", "bottleneck.jitter: 2ms is more than the 1.25ms"),
        ("limit 1bdp\"", "limit 1bdp\"\njitter = 2", "invalid type: integer `2`"),
        ("limit 1bdp\"", "limit 1bdp\"\nloss = \"1\"", "'1' is not a share; give a percentage"),
        ("limit 1bdp\"", "limit 1bdp\"\nreorder = \"1%\"", "the time is missing"),
        ("limit 1bdp\"", "limit 1bdp\"\ntrace = \"no.trace\"", "bottleneck.trace: cannot read no.trace"),
        ("limit 1bdp\"", "limit 1bdp\"\nreverse.rate = \"1mbit\"", "bottleneck.reverse.qdisc: is missing"),
        ("limit 1bdp\"", "limit 1bdp\"\nreverse.qdisc = \"pfifo\"", "bottleneck.reverse.rate: a queue needs"),
        (
            "limit 1bdp\"",
            "limit 1bdp\"\nreverse = { rate = \"1mbit\", qdisc = \"crq\" }",
            "bottleneck.reverse.qdisc: crq asks the law",
        ),
        ("limit 1bdp\"", "limit 1bdp\"\nreverse.delay = \"1ms\"", "unknown field `delay`"),
        ("limit 1bdp\"", "limit 1bdp\"\nrates = [\"5mbit 2s\"]", "give 50mbit for 20s"),
        (
            "limit 1bdp\"",
            "limit 1bdp\"\nrates = [\"5mbit\", \"1mbit\"]",
            "bottleneck.rates: rate 1 holds for ever",
        ),
        ("limit 1bdp\"", "limit 1bdp\"\nrates = [\"5bit\"]", "bottleneck.rates: 5bit is below 1kbit"),
        (
            "limit 1bdp\"",
            "limit 1bdp\"\nrates = [\"5mbit\"]\ntrace = \"x\"",
            "bottleneck.trace: cannot read x",
        ),
        ("limit 1bdp\"", "limit 1bdp\"\nreplay_window = 0", "bottleneck.replay_window: must be at least 1"),
        ("count = 2", "remark = \"ect2\"", "did you mean `ect"),
        ("count = 2", "path = [\"core\"]", "path: there is no link 'core'; there are bottleneck"),
        ("count = 2", "path = []", "path: is empty; name at least one link"),
        ("count = 2", "path = [\"bottleneck\", \"bottleneck\"]", "'bottleneck' is named twice"),
        (
            "[bottleneck]",
            format!("{LINK}\n[bottleneck]").as_str(),
            "link 1 ('core'): is on the path of no flow",
        ),
        (
            "[bottleneck]",
            format!("{}\n[bottleneck]", LINK.replace("1mbit", "1bit")).as_str(),
            "link 1 ('core'): rate: 1bit is below 1kbit",
        ),
        (
            "[bottleneck]",
            format!("{}\n[bottleneck]", LINK.replace("core", "bottleneck")).as_str(),
            "link 1 ('bottleneck'): there is another link of this name",
        ),
        (
            "[bottleneck]",
            format!("{}\n[bottleneck]", LINK.replace("pfifo", "crq")).as_str(),
            "link 1 ('core'): qdisc: crq asks the law",
        ),
        (
            "[bottleneck]",
            format!("{}\n[bottleneck]", LINK.replace("pfifo", "bfifo limit 1b")).as_str(),
            "link 1 ('core'): qdisc: ",
        ),
        ("[bottleneck]", "law.preset = \"papr\"\n[bottleneck]", "did you mean `paper`?"),
        ("[bottleneck]", "law.spin_debonce = 3\n[bottleneck]", "did you mean `spin_debounce`?"),
        ("[bottleneck]", "law.spin_debounce = 99\n[bottleneck]", "law: spin_debounce = 99 is out of range"),
    ] {
        let message = error(|good| good.replacen(from, to, 1));
        assert!(message.contains(says), "{from} -> {to}: {message}");
    }
}

#[test]
fn rates_by_turns_read_and_write_and_have_a_mean() {
    let rates = "rates = [\"50mbit for 20s\", \"10mbit for 20s\"]";
    let good = GOOD.replace("rate = \"100mbit\"", rates).replace("bytes = \"10mb\"", "duration = \"30s\"");
    let scenario = Scenario::parse(&good, "x.toml").unwrap();
    // 20 s of the one and 10 s of the other.
    assert_eq!(scenario.bottleneck.rate.bits_per_sec(), 36_666_667);
    assert_eq!(scenario.needs_simulator().as_deref(), Some("bottleneck.rates"));
    let again = Scenario::parse(&toml::to_string(&scenario).unwrap(), "y.toml").unwrap();
    assert_eq!(scenario, again);
}

#[test]
fn a_bad_rate_by_turns_is_named_whether_or_not_there_is_a_rate() {
    for (rates, says) in [
        (r#"["50mbit for 2s", "0mbit for 1s"]"#, "bottleneck.rates: rate 2 is 0; "),
        (
            r#"["50mbit for 2s", "900bit for 1s"]"#,
            "bottleneck.rates: 900bit is below 1kbit, which is rate 2; ",
        ),
        (r#"["10mbit for 0s", "5mbit"]"#, "bottleneck.rates: rate 1 holds for no time; "),
        (r#"["50mbit", "10mbit for 1s"]"#, "bottleneck.rates: rate 1 holds for ever"),
    ] {
        for (rate, line) in [("", 3), ("rate = \"100mbit\"\n", 4)] {
            let message =
                error(|good| good.replacen("rate = \"100mbit\"", &format!("{rate}rates = {rates}"), 1));
            assert!(message.starts_with(&format!("x.toml: line {line}: {says}")), "{rates}: {message}");
        }
    }
    for rate in ["", "rate = \"100mbit\"\n"] {
        let message = error(|good| good.replacen("rate = \"100mbit\"", &format!("{rate}rates = []"), 1));
        assert!(message.contains("rates: there is none; give at least one"), "{message}");
        assert!(message.contains("rates = []"), "the parser shows the line: {message}");
    }
}

#[test]
fn a_value_that_makes_no_sense_has_its_line() {
    for (from, to, line) in [
        ("100mbit", "0mbit", 3),
        ("limit 1bdp", "limit 0.001bdp", 5),
        ("cubic", "cubik", 8),
        ("count = 2", "gso = 46", 10),
        ("rate = \"50mbit\"", "rate = \"0bit\"", 13),
        ("rate = \"50mbit\"", "", 11),
        ("[bottleneck]", "law.spin_debounce = 99\n[bottleneck]", 2),
    ] {
        let message = error(|good| good.replacen(from, to, 1));
        assert!(message.starts_with(&format!("x.toml: line {line}: ")), "{from} -> {to}: {message}");
    }
}

/// The tables of the reference pages are those of the declarations. With `WEIR_WRITE_PAGES` in the environment they
/// become so.
#[test]
#[allow(clippy::disallowed_methods, reason = "the pages are files")]
fn the_reference_pages_list_the_keys_as_they_are_declared() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let mut tables: Vec<_> = reference().into_iter().collect();
    for name in ["scenario.md", "paths.md", "workloads.md"] {
        let page = std::fs::read_to_string(folder.join(name)).unwrap();
        let mut wanted = page.clone();
        tables.retain(|(table, rows)| {
            let begin = format!("<!-- keys of {table} -->\n");
            let Some(at) = wanted.find(&begin).map(|at| at + begin.len()) else { return true };
            let end = at + wanted[at..].find("<!-- end -->").unwrap();
            wanted.replace_range(at..end, rows);
            false
        });
        if std::env::var_os("WEIR_WRITE_PAGES").is_some() {
            std::fs::write(folder.join(name), wanted).unwrap();
            continue;
        }
        let differs = page.lines().zip(wanted.lines()).find(|(page, wanted)| page != wanted);
        assert!(
            page == wanted,
            "docs/reference/{name} is not as the keys are declared; \
             `WEIR_WRITE_PAGES=1 cargo test -p weirnet-scenario` mends it: {differs:?}"
        );
    }
    let left: Vec<_> = tables.iter().map(|(table, _)| table).collect();
    assert!(left.is_empty(), "no page has a place for {left:?}");
}

/// Of each table that stands alone, every key that only world `sim` has is refused by the others, by its name.
#[test]
fn what_only_the_simulator_has_is_found_by_its_name() {
    for (given, key) in [
        ("gso = 2", "flow.0.gso"),
        ("remark = \"ect1\"", "flow.0.remark"),
        ("path = [\"bottleneck\"]", "flow.0.path"),
        ("defer = false", "flow.0.defer"),
    ] {
        let scenario = Scenario::parse(&GOOD.replacen("count = 2", given, 1), "x.toml").unwrap();
        assert_eq!(scenario.needs_simulator().as_deref(), Some(key));
    }
    let traced = format!("{GOOD}\n[measure]\ntrace = true");
    let traced = Scenario::parse(&traced, "x.toml").unwrap();
    assert_eq!(traced.needs_simulator().as_deref(), Some("measure.trace"));
    assert_eq!(Scenario::parse(GOOD, "x.toml").unwrap().needs_simulator(), None);
}
