//! Flows that look for fair queuing on real packets: rows, tables and captures are those of world `sim`.

use std::sync::atomic::{AtomicBool, Ordering};

use weir_report::output;
use weir_world::{self as run, Progress, RunOptions};

use crate::{assert_sound, measure, scenario};
use weir_testkit::skip::root_and_turn;

const MIB: u64 = 1 << 20;

#[test]
fn a_flow_that_looks_for_fair_queuing_has_two_rows_and_a_verdict() {
    let Some(_turn) = root_and_turn() else { return };
    let result = measure(&scenario(
        "rate = '20mbit', rtt = '20ms', qdisc = 'fq_codel'",
        &[
            "name = 'before', stack = 'quic', controller = 'cubic', bytes = '500kb'",
            "name = 'twins', stack = 'quic', controller = 'cubic', detector = 'trains', bytes = '3mb'",
            "name = 'behind', stack = 'tcp', controller = 'cubic', bytes = '500kb'",
        ],
    ));
    assert_sound(&result);
    assert_eq!(result.health.warnings.iter().find(|warning| warning.contains("flow")), None);
    let names: Vec<_> = result.flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(names, ["before", "twins", "twins light", "behind"]);
    let [_, heavy, light, behind] = &result.flows[..] else { unreachable!() };
    assert_eq!(heavy.received_bytes + light.received_bytes, 3 * MIB);
    assert!(heavy.fct_s.is_some() && light.fct_s.is_none() && behind.fct_s.is_some(), "{heavy:?}");
    assert!(heavy.packets > light.packets && light.packets > 0, "{light:?}");
    assert!(heavy.rtt_p50_ms.is_some_and(|rtt| rtt >= 20.0), "{heavy:?}");
    let [found] = &result.detections[..] else { panic!("{:?}", result.detections) };
    println!("{found:?}");
    assert_eq!((found.flow.as_str(), found.detector.as_str()), ("twins", "trains"));
    assert!(found.first_s.is_some_and(|seconds| seconds > 0.0) && found.first_sent > 0, "{found:?}");
    assert!(!found.history.is_empty() && !found.controller.is_empty(), "{found:?}");
    let folder = tempfile::tempdir().unwrap();
    output::write(folder.path(), &result).unwrap();
    let table = std::fs::read_to_string(folder.path().join("detections.csv")).unwrap();
    assert!(table.lines().nth(1).is_some_and(|line| line.contains(",twins,trains,")), "{table}");
}

/// Behind one line of packets both rates get their share; behind a fair queue the faster does not get more.
#[test]
fn the_published_detector_tells_a_fair_queue_from_a_shared_one() {
    let Some(_turn) = root_and_turn() else { return };
    for (qdisc, finding, controller) in
        [("pfifo limit 50p", "shared", "cubic"), ("fq flow_limit 50p nofast_path", "fair-queued", "delay")]
    {
        let result = measure(&scenario(
            &format!("rate = '20mbit', rtt = '20ms', qdisc = '{qdisc}'"),
            &["name = 'twins', stack = 'quic', controller = 'cubic', detector = 'published', bytes = '6mb'"],
        ));
        assert_sound(&result);
        let [found] = &result.detections[..] else { panic!("{:?}", result.detections) };
        println!("{qdisc}: {found:?}");
        assert_eq!((&*found.finding, &*found.controller), (finding, controller), "{qdisc}");
    }
}

#[test]
fn a_stopped_detection_keeps_what_it_found() {
    let Some(_turn) = root_and_turn() else { return };
    let scenario = scenario(
        "rate = '10mbit', rtt = '10ms', qdisc = 'pfifo limit 50p'",
        &["name = 'twins', stack = 'quic', controller = 'cubic', detector = 'trains', bytes = '50mb'"],
    );
    let stop = AtomicBool::new(false);
    let progress = |now: Progress| stop.store(now.done > 0.05, Ordering::Relaxed);
    let result = run::run(&scenario, &RunOptions { progress: &progress, ..RunOptions::new(&stop) }).unwrap();
    assert_sound(&result);
    assert_eq!(result.meta.cut_short.as_deref(), Some("interrupted"));
    assert!(result.meta.wall_s < 15.0, "{}", result.meta.wall_s);
    assert_eq!(result.detections.len(), 1);
    assert!(result.flows[0].received_bytes > 0 && result.flows[0].error.is_none(), "{:?}", result.flows);
}
