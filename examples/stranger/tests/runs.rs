//! What another crate registers is used by name: in scenarios, in the harness, and in what errors propose.

use std::path::Path;

use stranger::{HeadDropKeys, register, run};
use weir_qdisc::QdiscConfig;
use weir_scenario::Scenario;
use weir_sim::Share;

const SCENARIO: &str = include_str!("../scenario.toml");

#[test]
fn a_scenario_runs_with_both() {
    let result = run(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scenario.toml")).unwrap();
    assert_eq!(result.meta.qdisc, "headdrop 15ms limit 1000");
    let [gentle, reno] = result.flows.as_slice() else { panic!("{:?}", result.flows) };
    assert_eq!([&*gentle.controller, &*reno.controller], ["gentle", "reno"]);
    // The link is used, and whoever gives way by less has more of it.
    assert!(gentle.goodput_bps + reno.goodput_bps > 17e6, "{gentle:?} {reno:?}");
    assert!(gentle.goodput_bps > 1.1 * reno.goodput_bps, "{gentle:?} {reno:?}");
    let [queue] = result.queues.as_slice() else { panic!("{:?}", result.queues) };
    assert!(queue.dropped > 0 && queue.sojourn_ns.quantile(1.0) < Some(16_000_000), "{queue:?}");
    assert!(result.health.warnings.is_empty() && result.health.unaccounted == 0, "{:?}", result.health);
    // What is stored with the results has every key, and is the same scenario.
    let stored = toml::to_string(&result.meta.scenario).unwrap();
    assert!(stored.contains("kind = \"headdrop\"") && stored.contains("limit = 1000"), "{stored}");
    assert_eq!(Scenario::parse(&stored, "stored.toml").unwrap(), result.meta.scenario);
}

#[test]
fn the_harness_has_both() {
    register();
    let shared =
        Share::new("20mbit", "20ms", "headdrop target 5ms").tcp("gentle").quic("gentle").run("10s").unwrap();
    assert!(shared.jain() > 0.8 && shared.utilisation > 0.85, "{shared}");
    assert!(shared.delay(1.0).as_millis_f64() < 5.5, "{shared}");
}

#[test]
fn errors_and_lists_know_both() {
    register();
    let error = |from: &str, to: &str| {
        let text = SCENARIO.replacen(from, to, 1);
        Scenario::parse(&text, "x.toml").unwrap_err().to_string()
    };
    assert!(error("headdrop target", "headrop target").contains("did you mean 'headdrop'?"));
    assert!(error("target 15ms", "tagret 15ms").contains("did you mean 'target'?"));
    assert!(error("target 15ms", "limit 0").contains("limit: must be at least 1 packet"));
    assert!(error("\"gentle\"", "\"gentel\"").contains("did you mean 'gentle'?"));
    assert!(QdiscConfig::kinds().contains(&"headdrop"));
    assert!(weir_cc::catalog::all().any(|entry| entry.name == "gentle"));
    let QdiscConfig::Registered(config) = "headdrop limit 7".parse().unwrap() else {
        panic!("not registered")
    };
    assert_eq!(config.keys::<HeadDropKeys>().map(|keys| keys.limit), Some(7));
}
