//! A scenario: whatever the text, it is read or refused with a line, and what is read says the same when it is
//! written and read again. Small ones also run in world `sim`.

use std::sync::atomic::AtomicBool;

use weir_core::Duration;
use weir_scenario::toml_file::FileError;
use weir_scenario::{Scenario, ScenarioError};
use weir_world::{RunOptions, run as run_scenario};

/// Where no trace is: its folder does not exist.
const PATH: &str = "/nonexistent/fuzz/scenario.toml";

pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if crate::names_a_file(text) {
        return;
    }
    match Scenario::parse(text, PATH) {
        Err(error) => refused(&error, text),
        Ok(scenario) => {
            if is_tiny(&scenario) {
                simulate(&scenario);
            }
        }
    }
}

/// An error has a place.
fn refused(error: &ScenarioError, text: &str) {
    match error {
        ScenarioError::Value { line, key, message, .. } => {
            assert!((1..=1 + text.matches('\n').count()).contains(line), "line {line}: {error}");
            assert!(!key.is_empty() && !message.is_empty(), "{error}");
        }
        ScenarioError::File(FileError::Syntax { message, .. }) => has_line(message),
        ScenarioError::File(FileError::Read { .. }) => panic!("only the text was to be read: {error}"),
    }
}

/// The parser's own errors show the line, unless the text as a whole lacks something.
pub(crate) fn has_line(message: &str) {
    assert!(message.contains("line ") || message.contains("missing field"), "no line in: {message}");
}

/// Whether a run of it is a matter of milliseconds: few packets, few flows.
fn is_tiny(scenario: &Scenario) -> bool {
    const MOST_BITS: u64 = 2_000_000;
    let timeout = scenario.measure.timeout;
    let rate = scenario.bottleneck.rate.bits_per_sec();
    let flows: u64 = scenario.flows.iter().map(|flow| u64::from(flow.count)).sum();
    // Retransmissions after a timeout come at most every 200 ms; a full window begins with ten packets.
    let least = Duration::from_millis(1);
    let long = timeout <= Duration::from_secs(2) && scenario.measure.interval >= Duration::from_millis(10);
    let udp = |flow: &weir_scenario::Flow| flow.rate.is_none_or(|rate| rate.bits_per_sec() <= MOST_BITS);
    long && rate <= MOST_BITS
        && scenario.bottleneck.rtt >= least
        && flows <= 8
        && scenario.flows.iter().all(|flow| udp(flow) && flow.rtt.is_none_or(|rtt| rtt >= least))
        && scenario.workloads.is_empty()
        && scenario.links.is_empty()
        && scenario.bottleneck.rates.is_empty()
        && scenario.bottleneck.reverse.is_none()
        && !scenario.measure.pcap
        && !scenario.measure.trace
}

fn simulate(scenario: &Scenario) {
    let stop = AtomicBool::new(false);
    let options = RunOptions { world: weir_world::SIM, ..RunOptions::new(&stop) };
    if let Ok(result) = run_scenario(scenario, &options) {
        let health = &result.health;
        assert_eq!(health.unaccounted, 0, "packets are not accounted for");
        assert_eq!(
            health.arrived,
            health.departed + health.dropped + health.still_queued,
            "packets in are packets out, dropped and queued"
        );
    }
}
