//! Flows of every kind through every queue: they complete, are counted, judged and treated as what they are.

use std::sync::atomic::AtomicBool;

use weir_link::IoKind;
use weir_report::result::RunResult;
use weir_world::{self as run, RunOptions};

use crate::{assert_completed, assert_sound, flow, measure, scenario};
use weir_testkit::skip::root_and_turn;

const MIB: u64 = 1 << 20;

#[test]
fn tcp_quic_and_udp_share_crq_and_each_gets_its_queue() {
    let Some(_turn) = root_and_turn() else { return };
    let result = measure(&scenario(
        "rate = '40mbit', rtt = '10ms', qdisc = { kind = 'crq' }",
        &[
            "name = 'one-way', stack = 'tcp', controller = 'cubic', bytes = '3mb'",
            "name = 'two-way', stack = 'tcp', controller = 'cubic', pattern = 'two-way', bytes = '3mb'",
            "name = 'quic', stack = 'quic', controller = 'cubic', bytes = '3mb'",
            "name = 'udp', stack = 'udp', rate = '15mbit'",
        ],
    ));
    assert_sound(&result);
    assert_eq!(result.meta.cut_short, None);
    for name in ["one-way", "two-way", "quic"] {
        let flow = flow(&result, name);
        assert_completed(flow, 3 * MIB);
        assert!(flow.goodput_bps <= 40e6, "{flow:?}");
        assert_eq!(flow.class_loss, "responsive", "{flow:?}");
        assert!(flow.responsive_packets > 0.5 && flow.responsive_packets <= 1.0, "{flow:?}");
        assert!(flow.rtt_p50_ms.is_some_and(|rtt| rtt >= 10.0), "{flow:?}");
        // One cycle per round trip, of the 10 ms base at least; as long as those that the sender saw, or two of them.
        let cycle_ms = flow.fct_s.unwrap_or_default() * 1e3 / flow.cycles as f64;
        let trips = cycle_ms / flow.rtt_p50_ms.unwrap_or_default();
        println!("{name}: {cycle_ms} ms per cycle, {trips} round trips");
        assert!(cycle_ms >= 9.0 && (0.4..4.0).contains(&trips), "{trips} round trips per cycle: {flow:?}");
        assert!(result.choices.iter().any(|choice| choice.flow == name && choice.queue == "responsive"));
    }
    let udp = flow(&result, "udp");
    assert_eq!((udp.responsive_packets, udp.responsive_time, udp.cycles), (0.0, 0.0, 0), "{udp:?}");
    assert_eq!((udp.class_loss.as_str(), udp.fct_s), ("unclassified", None));
    assert!(udp.received_bytes > 0 && udp.goodput_bps <= 15e6, "{udp:?}");
    assert!(result.choices.iter().all(|choice| choice.flow != "udp"));
    let names: Vec<_> = result.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["standard", "responsive"]);
    assert!(result.queues.iter().all(|queue| queue.departed > 0));
    for row in &result.assessments {
        assert!(row.votes_responsive + row.votes_unresponsive > 0 && row.signal == "loss", "{row:?}");
        assert!(row.window_before_bytes > 0 && row.signals > 0, "{row:?}");
    }
}

/// The delay lines make the round-trip time that the scenario names, for each flow its own. The least of what the
/// sender saw is what counts: the rest is queue.
#[test]
fn each_flow_has_its_own_round_trip_time() {
    let Some(_turn) = root_and_turn() else { return };
    let result = measure(&scenario(
        "rate = '50mbit', rtt = '8ms', qdisc = 'pfifo limit 100p'",
        &[
            "name = 'lone', stack = 'tcp', controller = 'cubic', bytes = '300kb'",
            "name = 'far', stack = 'tcp', controller = 'cubic', rtt = '60ms', start = '800ms', bytes = '300kb'",
            "name = 'near', stack = 'quic', controller = 'cubic', rtt = '0ms', start = '1600ms', bytes = '300kb'",
        ],
    ));
    assert_sound(&result);
    for (index, (name, rtt, start)) in
        [("lone", 8.0, 0.0), ("far", 60.0, 0.8), ("near", 0.0, 1.6)].into_iter().enumerate()
    {
        let flow = flow(&result, name);
        assert_completed(flow, 300 * 1024);
        let least = result.series.rtt[index].iter().map(|(_, rtt)| *rtt).fold(f64::INFINITY, f64::min);
        // What the machine adds, for threads wait for a processor, makes none the far one, nor that one another.
        let most = if rtt < 60.0 { 60.0 } else { 180.0 };
        assert!((rtt..most).contains(&least), "{name}: {least} ms");
        assert_eq!(flow.start_s, start);
        let first = result.series.flows[index].iter().position(|bin| bin.departed_bytes > 0);
        let began = first.map(|bin| bin as f64 * result.series.interval_s);
        // A bin begins up to 50 ms before what is in it; the next flow sets out 0.8 s later.
        assert!(began.is_some_and(|began| (start - 0.05..start + 0.8).contains(&began)), "{name}: {began:?}");
    }
}

#[test]
fn upward_flows_leave_only_acknowledgements_in_the_queue() {
    let Some(_turn) = root_and_turn() else { return };
    let result = measure(&scenario(
        "rate = '30mbit', rtt = '10ms', qdisc = 'bfifo limit 2bdp'",
        &[
            "name = 'down', stack = 'tcp', controller = 'cubic', bytes = '1mb'",
            "name = 'up tcp', stack = 'tcp', controller = 'cubic', direction = 'up', bytes = '2mb'",
            "name = 'up quic', stack = 'quic', controller = 'cubic', direction = 'up', bytes = '1mb'",
            "name = 'up udp', stack = 'udp', direction = 'up', rate = '5mbit', duration = '500ms'",
        ],
    ));
    assert_sound(&result);
    assert_completed(flow(&result, "down"), MIB);
    assert_completed(flow(&result, "up tcp"), 2 * MIB);
    assert_completed(flow(&result, "up quic"), MIB);
    let mean = |name: &str| {
        let index = result.flows.iter().position(|flow| flow.name == name).unwrap();
        let bytes: u64 = result.series.flows[index].iter().map(|bin| bin.departed_bytes).sum();
        bytes as f64 / result.flows[index].packets as f64
    };
    assert!(mean("down") > 1000.0, "{}", mean("down"));
    // QUIC's handshake is padded to full packets (RFC 9000 section 14.1), its acknowledgements are not.
    assert!(mean("up tcp") < 120.0 && mean("up quic") < 250.0, "{} {}", mean("up tcp"), mean("up quic"));
    let udp = flow(&result, "up udp");
    assert_eq!((udp.packets, udp.error.as_deref()), (0, None), "nothing of it comes down");
    assert!(udp.received_bytes > 0, "{udp:?}");
}

/// Flows that last for a time, as long as the others, and several of a kind.
#[test]
fn flows_end_by_time_with_the_others_and_in_numbers() {
    let Some(_turn) = root_and_turn() else { return };
    let result = measure(&scenario(
        "rate = '40mbit', rtt = '5ms', qdisc = 'codel limit 2bdp'",
        &[
            "name = 'timed', stack = 'tcp', controller = 'cubic', duration = '1500ms'",
            "name = 'timed quic', stack = 'quic', controller = 'newreno', start = '300ms', duration = '900ms'",
            "name = 'endless', stack = 'tcp', controller = 'reno'",
            "name = 'endless quic', stack = 'quic', controller = 'cubic'",
            "name = 'many', stack = 'tcp', controller = 'cubic', bytes = '100kb', count = 5",
        ],
    ));
    assert_sound(&result);
    assert_eq!(result.meta.cut_short, None);
    let names: Vec<_> = result.flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(names[4..], ["many 1", "many 2", "many 3", "many 4", "many 5"]);
    for flow in &result.flows {
        assert_eq!(flow.error, None, "{flow:?}");
        assert!(flow.received_bytes > 0 && flow.packets > 0, "{flow:?}");
        assert!(flow.goodput_bps > 0.0 && flow.goodput_bps < 40e6, "{flow:?}");
        assert_eq!(flow.fct_s.is_some(), flow.name.starts_with("many"), "{flow:?}");
    }
    for number in 1..=5 {
        assert_completed(flow(&result, &format!("many {number}")), 100 * 1024);
    }
    // The longest that has an end takes 1.5 s; then all end, the endless too, long before the timeout of five minutes.
    assert!((1.5..30.0).contains(&result.meta.wall_s), "{}", result.meta.wall_s);
    let no_end_is_doubtful = |warning: &String| !warning.contains("timeout") && !warning.contains("endless");
    assert!(result.health.warnings.iter().all(no_end_is_doubtful), "{:?}", result.health.warnings);
    // In words, a flow without a goal has not failed to reach it.
    let text = weir_report::summary::text(&[("test", &result)]);
    assert!(!text.contains("unfinished"), "{text}");
}

/// The two ways to move packets must measure the same.
#[test]
fn af_xdp_and_packet_sockets_agree() {
    let Some(_turn) = root_and_turn() else { return };
    let scenario = scenario(
        "rate = '30mbit', rtt = '10ms', qdisc = 'bfifo limit 1bdp'",
        &[
            "name = 'cubic', stack = 'tcp', controller = 'cubic', bytes = '4mb'",
            "name = 'udp', stack = 'udp', rate = '5mbit', duration = '500ms'",
        ],
    );
    let stop = AtomicBool::new(false);
    let run_by = |io| run::run(&scenario, &RunOptions { io, ..RunOptions::new(&stop) });
    let by_socket = run_by(IoKind::PacketSocket).unwrap();
    let by_xdp = match run_by(IoKind::Xdp) {
        Ok(result) => result,
        Err(error) => return weir_testkit::skip::skip("xdp", &error.to_string()),
    };
    assert!(by_socket.meta.io.starts_with("packet-socket"), "{}", by_socket.meta.io);
    assert!(by_xdp.meta.io.starts_with("xdp"), "{}", by_xdp.meta.io);
    for result in [&by_socket, &by_xdp] {
        assert_sound(result);
        assert_completed(flow(result, "cubic"), 4 * MIB);
        assert_eq!(flow(result, "cubic").class_loss, "responsive");
        assert_eq!(flow(result, "cubic").responsive_packets, 0.0, "there is no responsive queue");
    }
    let goodput = |result: &RunResult| flow(result, "cubic").goodput_bps;
    let ratio = goodput(&by_xdp) / goodput(&by_socket);
    assert!((0.6..1.67).contains(&ratio), "{ratio}");
    let cycles = |result: &RunResult| flow(result, "cubic").cycles as f64;
    let ratio = cycles(&by_xdp) / cycles(&by_socket);
    assert!((0.5..2.0).contains(&ratio), "{ratio}");
}

/// Time zero is when all is ready: a sender at a constant rate must not begin with what it missed while the network was
/// built.
#[test]
fn a_constant_rate_begins_without_a_burst() {
    let Some(_turn) = root_and_turn() else { return };
    let result = measure(&scenario(
        "rate = '100mbit', rtt = '4ms', qdisc = 'pfifo limit 1000p'",
        &["name = 'udp', stack = 'udp', rate = '8mbit', duration = '700ms'"],
    ));
    assert_sound(&result);
    let udp = flow(&result, "udp");
    assert_eq!((udp.dropped, udp.error.as_deref()), (0, None));
    // 8 Mbit/s for 0.7 s in packets of 1514 bytes.
    assert!((455..=470).contains(&udp.packets), "{udp:?}");
    let bins = &result.series.flows[0];
    let first = bins.iter().position(|bin| bin.departed_bytes > 0).unwrap();
    let begins: u64 = bins[first..].iter().take(2).map(|bin| bin.departed_bytes).sum();
    // 100 kB of 700 in two bins of 50 ms, of fourteen. Building the network takes longer than the whole run.
    assert!(begins <= 350_000, "{begins} bytes in the first two bins");
    assert!(first < 7, "it begins in bin {first}");
}
