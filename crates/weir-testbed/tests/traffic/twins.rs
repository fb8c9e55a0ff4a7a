//! Flows that look for fair queuing, over one connection of two sub-flows.

use weir_core::{Bytes, Duration, Ecn, Seed};
use weir_fq::Finding;
use weir_fq::catalog::Names;
use weir_testbed::host::TopologySpec;
use weir_testbed::traffic::{Amount, Traffic, TwinsSpec};
use weir_testkit::skip::root_and_turn;

use crate::capture::Capture;
use crate::{SLOW, flow, routed, run};

/// A flow whose light sub-flow sends from this port.
pub(crate) const LIGHT: u16 = 5_001;

pub(crate) fn twins(detector: &str) -> Traffic {
    let names = Names { detector: detector.into(), shared: "cubic".into(), fair: None, again: None };
    Traffic::Twins(TwinsSpec { names, light: "light".into(), port: LIGHT, seed: Seed::default() })
}

#[test]
fn both_sub_flows_deliver_and_trains_find_the_queue_shared() {
    const BYTES: u64 = 3_000_000;
    let Some(_turn) = root_and_turn() else { return };
    let topology = routed(&TopologySpec::default(), &[SLOW]);
    let spec = flow(&topology, "heavy", Amount::Bytes(Bytes(BYTES)), false, twins("trains"));
    let capture = Capture::start(&topology.bottleneck, &topology.bottleneck_client_iface);
    let result = run(&topology, &spec);
    let packets = capture.finish();
    let on = |port: u16| packets.iter().filter(|packet| packet.source_port == port).count();
    assert_eq!((result.error.as_deref(), result.complete, result.ecn), (None, true, Some(false)));
    let found = result.detection.as_ref().unwrap();
    println!("{:?}, {} and {} packets", found.findings, on(5_000), on(LIGHT));
    assert_eq!(found.findings.verdict.finding, Finding::Shared);
    assert_eq!((found.detector, found.controller), ("trains", Some("cubic")));
    assert_eq!(found.light.name, "light");
    assert_eq!(result.bytes + found.light.bytes, BYTES, "each byte is one sub-flow's");
    assert!(on(5_000) > on(LIGHT) && on(LIGHT) > 0);
    assert!(packets.iter().all(|packet| packet.ecn == Ecn::NotEct));
    // Times are on the run's clock.
    let (began, decided) = (found.findings.began.unwrap(), found.findings.decided.unwrap());
    let (started, finished) = (result.started.unwrap(), result.finished.unwrap());
    // The thread that sends learns a moment later than the connection's own that both paths stand.
    assert!(began < decided && started < decided && decided < finished, "{started:?} {began:?} {decided:?}");
    assert_eq!(result.fct, Some(finished.since(started)));
    for samples in [&result.samples, &found.light.samples] {
        assert!(samples.iter().any(|sample| sample.rtt_us > 0 && sample.delivered_bytes > 0));
    }
}

#[test]
fn a_time_is_kept_by_both_sub_flows() {
    let Some(_turn) = root_and_turn() else { return };
    let topology = routed(&TopologySpec::default(), &[SLOW]);
    let spec = flow(&topology, "heavy", Amount::Time(Duration::from_millis(600)), false, twins("trains"));
    let result = run(&topology, &spec);
    assert_eq!((result.error.as_deref(), result.complete, result.fct), (None, true, None));
    let life = result.finished.unwrap().since(result.started.unwrap());
    assert!(life >= Duration::from_millis(600), "{life}");
    assert!(result.bytes > 0, "{result:?}");
}
