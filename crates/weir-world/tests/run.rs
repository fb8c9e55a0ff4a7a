//! Whole runs on real packets: scenarios small enough to take a second or two each, and what must hold of every result.
//!
//! Needs root. Without it, each test that sends packets prints why it does nothing. Times on a shared machine vary, so
//! bounds that depend on them are ratios with room; counts are exact.

#![allow(clippy::disallowed_methods, reason = "real packets take real time")]

#[path = "run/capture.rs"]
mod capture;
#[path = "run/controllers.rs"]
mod controllers;
#[path = "run/detection.rs"]
mod detection;
#[path = "run/ecn.rs"]
mod ecn;
#[path = "run/ends.rs"]
mod ends;
#[path = "run/flows.rs"]
mod flows;
#[path = "run/hosts.rs"]
mod hosts;

use std::sync::atomic::AtomicBool;

use weir_report::result::{FlowResult, RunResult};
use weir_scenario::Scenario;
use weir_world::{self as run, RunOptions};

/// A scenario from the lines of its bottleneck and its flows, each flow a line of an inline table.
fn scenario(bottleneck: &str, flows: &[&str]) -> Scenario {
    let flows: Vec<String> = flows.iter().map(|flow| format!("{{ {flow} }}")).collect();
    let text = format!(
        "flow = [{}]\nbottleneck = {{ {bottleneck} }}\n[measure]\ntimeout = \"20s\"\n",
        flows.join(", ")
    );
    Scenario::parse(&text, "test").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn measure(scenario: &Scenario) -> RunResult {
    let stop = AtomicBool::new(false);
    run::run(scenario, &RunOptions::new(&stop)).unwrap()
}

fn flow<'a>(result: &'a RunResult, name: &str) -> &'a FlowResult {
    result.flows.iter().find(|flow| flow.name == name).unwrap_or_else(|| panic!("no flow '{name}'"))
}

/// What holds of every run, however busy the machine: each packet is accounted for by queue and by flow, none overtakes
/// another of its flow in one queue, and the link is never faster than it is said to be.
fn assert_sound(result: &RunResult) {
    let health = &result.health;
    assert_eq!((health.unaccounted, health.overtaken), (0, 0), "{health:?}");
    assert_eq!(health.arrived, health.departed + health.dropped + health.still_queued);
    let sum = |of: fn(&weir_report::result::QueueResult) -> u64| result.queues.iter().map(of).sum::<u64>();
    assert_eq!(sum(|queue| queue.departed), health.departed);
    assert_eq!(sum(|queue| queue.dropped + queue.overflowed), health.dropped);
    assert_eq!(sum(|queue| queue.sojourn_ns.count()), health.departed);
    let by_flow = |of: fn(&FlowResult) -> u64| result.flows.iter().map(of).sum::<u64>();
    // A socket that has closed answers late packets with ICMP (RFC 1122 section 4.1.3.1), which belongs to no flow.
    let strays = health.arrived - by_flow(|flow| flow.packets);
    assert!(strays <= 10, "{strays} packets belong to no flow of the scenario");
    assert!((health.dropped.saturating_sub(strays)..=health.dropped).contains(&by_flow(|flow| flow.dropped)));
    assert_eq!(by_flow(|flow| flow.marked), sum(|queue| queue.marked));
    assert!(
        health.largest_burst_bytes > 0 && health.largest_burst_bytes <= health.allowed_burst_bytes,
        "{health:?}"
    );
    let carried = sum(|queue| queue.departed_bytes) as f64 * 8.0;
    let rate = result.meta.scenario.bottleneck.rate.bits_per_sec() as f64;
    let burst = health.allowed_burst_bytes as f64 * 8.0;
    assert!(carried <= rate * result.meta.wall_s + burst, "{carried} bit in {} s", result.meta.wall_s);
    for (name, queue, bins) in
        result.queues.iter().zip(&result.series.queues).map(|(queue, bins)| (&queue.name, queue, bins))
    {
        let departed: u64 = bins.iter().map(|bin| u64::from(bin.departed)).sum();
        let lost: u64 = bins.iter().map(|bin| u64::from(bin.dropped)).sum();
        assert_eq!((departed, lost), (queue.departed, queue.dropped + queue.overflowed), "bins of {name}");
    }
}

/// A flow that did what it was asked to.
fn assert_completed(flow: &FlowResult, bytes: u64) {
    assert_eq!(flow.error, None, "{}", flow.name);
    assert_eq!(flow.received_bytes, bytes, "{}", flow.name);
    assert!(flow.fct_s.is_some_and(|fct| fct > 0.0), "{flow:?}");
}
