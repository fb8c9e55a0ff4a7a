//! Runs that end before their flows do, or cannot begin.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_core::Duration as SimDuration;
use weir_report::output;
use weir_world::{self as run, RunOptions};

use crate::{assert_sound, flow, measure, scenario};
use weir_testkit::skip::root_and_turn;

#[test]
fn a_starved_flow_is_cut_off_and_the_result_says_so() {
    let Some(_turn) = root_and_turn() else { return };
    let mut scenario = scenario(
        "rate = '10mbit', rtt = '5ms', qdisc = 'bfifo limit 1bdp'",
        &[
            "name = 'starved', stack = 'tcp', controller = 'cubic', bytes = '20mb'",
            "name = 'long', stack = 'quic', controller = 'cubic', duration = '60s'",
            "name = 'done', stack = 'tcp', controller = 'cubic', bytes = '50kb'",
            // Late enough for a timeout or two of what is to be done.
            "name = 'flood', stack = 'udp', rate = '20mbit', start = '1200ms'",
        ],
    );
    scenario.measure.timeout = SimDuration::from_millis(1_800);
    let result = measure(&scenario);
    assert_sound(&result);
    assert_eq!(result.meta.cut_short.as_deref(), Some("timeout"));
    let starved = flow(&result, "starved");
    assert_eq!(starved.fct_s, None);
    assert!(starved.received_bytes > 0 && starved.received_bytes < 20 << 20, "{starved:?}");
    assert!(starved.goodput_bps > 0.0 && starved.goodput_bps < 10e6, "{starved:?}");
    assert!(flow(&result, "done").fct_s.is_some());
    let said = result.health.warnings.iter().find(|warning| warning.starts_with("the timeout")).unwrap();
    assert_eq!(said, "the timeout cut off starved, long");
    // The long one would go on for a minute.
    assert!((1.8..30.0).contains(&result.meta.wall_s), "{}", result.meta.wall_s);
    let text = weir_report::summary::text(&[("test", &result)]);
    assert_eq!(text.matches("unfinished").count(), 1, "{text}");
}

#[test]
fn a_stopped_run_keeps_what_it_measured() {
    let Some(_turn) = root_and_turn() else { return };
    let scenario = scenario(
        "rate = '10mbit', rtt = '5ms', qdisc = 'bfifo limit 1bdp'",
        &["name = 'cubic', stack = 'tcp', controller = 'cubic', bytes = '50mb'"],
    );
    let stop = AtomicBool::new(false);
    let told = AtomicBool::new(false);
    let progress = |now: run::Progress| {
        assert!((0.0..=1.0).contains(&now.done), "{now:?}");
        told.store(true, Ordering::Relaxed);
        // A hundredth of the 42 s that it takes.
        stop.store(now.done > 0.01, Ordering::Relaxed);
    };
    let result = run::run(&scenario, &RunOptions { progress: &progress, ..RunOptions::new(&stop) }).unwrap();
    assert!(told.load(Ordering::Relaxed));
    assert!(result.meta.wall_s < 20.0, "{}", result.meta.wall_s);
    assert_sound(&result);
    assert_eq!(result.meta.cut_short.as_deref(), Some("interrupted"));
    assert!(flow(&result, "cubic").received_bytes > 0);
    let folder = tempfile::tempdir().unwrap();
    let written = output::write(folder.path(), &result).unwrap();
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        written.len(),
        "whole files and nothing else"
    );
}

#[test]
fn a_run_that_was_stopped_before_it_began_has_a_result() {
    let Some(_turn) = root_and_turn() else { return };
    let scenario = scenario(
        "rate = '10mbit', rtt = '5ms', qdisc = 'bfifo limit 1bdp'",
        &["stack = 'tcp', controller = 'cubic', bytes = '50mb', start = '5s'"],
    );
    let stop = AtomicBool::new(true);
    let result = run::run(&scenario, &RunOptions::new(&stop)).unwrap();
    assert_eq!(result.meta.cut_short.as_deref(), Some("interrupted"));
    assert_eq!((result.flows[0].received_bytes, result.flows[0].packets), (0, 0));
    output::write(tempfile::tempdir().unwrap().path(), &result).unwrap();
}

#[test]
fn a_capture_that_cannot_be_written_ends_the_run_at_once() {
    let Some(_turn) = root_and_turn() else { return };
    let scenario = scenario(
        "rate = '10mbit', rtt = '5ms', qdisc = 'bfifo limit 1bdp'",
        &["stack = 'tcp', controller = 'cubic', duration = '10s'"],
    );
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let options = RunOptions { pcap: Some("/proc/no/packets.pcapng".into()), ..RunOptions::new(&stop) };
    let error = run::run(&scenario, &options).unwrap_err().to_string();
    assert!(error.contains("/proc/no/packets.pcapng") && error.contains("--out"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(10), "not before the flow has ended");
}

#[test]
fn places_that_cannot_be_written_are_found_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    for bad in [file.clone(), file.join("below"), "/proc/none/deeper".into()] {
        let error = output::check_writable(&bad).unwrap_err().to_string();
        assert!(error.contains(&bad.display().to_string()), "{error}");
    }
    let missing = folder.path().join("a/b/c");
    output::check_writable(&missing).unwrap();
    output::check_writable(folder.path()).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "the check leaves nothing");
}
