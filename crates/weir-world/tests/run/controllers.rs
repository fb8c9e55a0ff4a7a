//! weir-cc's controllers on real packets: each of them over QUIC.

use weir_report::result::RunResult;
use weir_testbed::traffic::quic_controllers;

use crate::{assert_completed, assert_sound, flow, measure, scenario};
use weir_testkit::skip::root_and_turn;

/// A flow alone over QUIC, once more (and once more) if a busy machine held it up: `enough` judges its share of the
/// link.
fn alone(bottleneck: &str, controller: &str, bytes: u64, enough: impl Fn(f64) -> bool) -> RunResult {
    let scenario = scenario(
        bottleneck,
        &[&format!("name = 'flow', stack = 'quic', controller = '{controller}', bytes = {bytes}")],
    );
    let rate = scenario.bottleneck.rate.bits_per_sec() as f64;
    let mut tries = 0;
    loop {
        tries += 1;
        let result = measure(&scenario);
        assert_sound(&result);
        let (flow, queue) = (flow(&result, "flow"), &result.queues[0]);
        assert_completed(flow, bytes);
        assert_eq!(flow.controller, controller);
        let share = flow.goodput_bps / rate;
        println!(
            "{controller}: {share:.2} of the link, {} marked and {} dropped of {}, sojourn {:.1} ms",
            flow.marked,
            flow.dropped,
            flow.packets,
            queue.sojourn_ns.mean().unwrap() / 1e6
        );
        // Payload is 93 % of the wire's bytes.
        assert!(share < 0.95, "{controller}: {share}");
        if enough(share) {
            return result;
        }
        assert!(tries < 3, "{controller}: {share} of the link in the last of three tries");
    }
}

#[test]
fn each_of_the_catalogue_carries_quic_and_uses_an_empty_link() {
    let Some(_turn) = root_and_turn() else { return };
    for controller in quic_controllers() {
        // Attacks and trials of rates waste some of it.
        let least = match controller.as_str() {
            "saw-tooth" | "dip" | "pcc-allegro" | "pcc-vivace" | "pcc-published" => 0.2,
            _ => 0.5,
        };
        alone("rate = '10mbit', rtt = '20ms', qdisc = 'bfifo limit 2bdp'", &controller, 3_000_000, |share| {
            share > least
        });
    }
}

#[test]
fn scalable_controllers_hear_of_marks() {
    let Some(_turn) = root_and_turn() else { return };
    // Nothing but marks signals this queue before it holds 600 ms.
    let bottleneck = "rate = '20mbit', rtt = '20ms', qdisc = 'step threshold 30ms limit 1000p'";
    for controller in ["dctcp", "dctcp-rfc8257", "prague"] {
        let result = alone(bottleneck, controller, 1_500_000, |share| share > 0.1);
        let late = result.queues[0].sojourn_ns.quantile(0.9).unwrap() as f64 / 1e6;
        let flow = flow(&result, "flow");
        assert!(flow.marked > 20 && flow.dropped == 0, "{flow:?}");
        // Half of what it could hold.
        assert!(late < 300.0, "{controller}: {late} ms");
    }
}

#[test]
fn prague_is_scalable_on_the_wire() {
    let Some(_turn) = root_and_turn() else { return };
    let result = measure(&scenario(
        "rate = '10mbit', rtt = '20ms', qdisc = 'dualpi2'",
        &[
            "name = 'prague', stack = 'quic', controller = 'prague', bytes = '512kb'",
            "name = 'classic', stack = 'quic', controller = 'weir-reno', bytes = '256kb'",
        ],
    ));
    assert_sound(&result);
    assert_completed(flow(&result, "prague"), 512 << 10);
    // DualPI2 takes ECT(1) into its second queue, and nothing else but CE.
    let (prague, l4s) = (flow(&result, "prague"), &result.queues[1]);
    assert_eq!(l4s.name, "l4s");
    assert!(l4s.departed * 100 > prague.packets * 95, "{} of {}", l4s.departed, prague.packets);
    assert!(l4s.departed <= prague.packets, "{} of {}", l4s.departed, prague.packets);
    assert!(prague.marked > 0, "{prague:?}");
}
