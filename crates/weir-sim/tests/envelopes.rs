//! The scenarios that ns-3 validates its TCP with (`examples/tcp/tcp-validation.cc`, which has the envelopes): one flow at
//! 50 Mbit/s behind CoDel. Its frames are of 1502 bytes (PPP) for a payload of 1448, so the link here is as much faster as
//! frames are longer; its flows begin after 5 s, here at once. docs/sim.md tells what lies outside and why.

use std::fmt::Write as _;

use weir_core::{Duration, Rate, Seed, Time};
use weir_sim::{FlowReport, FlowSpec, HopSpec, Network};

const LINK: Rate = Rate::from_bits_per_sec(50_000_000 * 1514 / 1502);
const MSS: f64 = 1448.0;
/// How often ns-3 takes the throughput.
const LOOK: Duration = Duration::from_millis(200);

/// What a flow has done at each look.
fn looks(controller: &str, qdisc: &str, rtt: u64, seconds: u64) -> Vec<FlowReport> {
    let mut network = Network::new(Seed::default(), ());
    let rtt = Duration::from_millis(rtt);
    let hop = network.add_hop(HopSpec::new(LINK, qdisc.parse().unwrap(), rtt).unwrap());
    let flow =
        network.add_flow(FlowSpec::tcp(controller, hop, rtt).unwrap().ecn(qdisc.contains("ecn"))).unwrap();
    let look = |number| {
        network.run_until(Time::ZERO + LOOK * number);
        network.flow(flow)
    };
    (0..=seconds * 5).map(look).collect()
}

/// Throughput up to each look in Mbit/s of payload, and the time of the look in seconds.
fn throughputs(looks: &[FlowReport]) -> Vec<(f64, f64)> {
    let rate = |(number, pair): (usize, &[FlowReport])| {
        let bytes = (pair[1].bytes - pair[0].bytes) as f64;
        ((number + 1) as f64 * LOOK.as_secs_f64(), bytes * 8.0 / LOOK.as_secs_f64() / 1e6)
    };
    looks.windows(2).enumerate().map(rate).collect()
}

#[test]
fn dctcp_at_10_ms_fills_the_link_within_half_a_second_and_is_marked_by_its_law() {
    let looks = looks("dctcp-rfc8257", "codel ecn ce_threshold 1ms", 10, 15);
    for (time, rate) in throughputs(&looks).into_iter().filter(|(time, _)| *time > 0.65) {
        assert!((48.0..49.0).contains(&rate), "{rate} Mbit/s at {time} s");
    }
    // Alpha there is between 0.055 and 0.09, a third of what DCTCP's authors derive for this window: sqrt(2 / W), W about 46.
    let (from, to) = (&looks[10], &looks[75]);
    let marked = (to.marked - from.marked) as f64 / (to.packets - from.packets) as f64;
    assert!((0.12..0.21).contains(&marked), "{marked}");
}

#[test]
fn dctcp_at_80_ms_climbs_for_half_a_minute() {
    let looks = looks("dctcp-rfc8257", "codel ecn ce_threshold 1ms", 80, 40);
    for (time, rate) in throughputs(&looks) {
        let highest = if time < 9.0 { 20.0 } else { 48.0 };
        assert!(time > 25.0 || rate < highest, "{rate} Mbit/s at {time} s");
    }
    let late: Vec<f64> =
        throughputs(&looks).into_iter().filter(|(time, _)| *time > 27.0).map(|(_, rate)| rate).collect();
    let mean = late.iter().sum::<f64>() / late.len() as f64;
    assert!((47.5..48.5).contains(&mean), "{mean}");
}

/// The highest windows, in packets, before each fall by a fifth within a second, with their times in seconds.
fn peaks(report: &FlowReport) -> Vec<(f64, f64)> {
    let mut peaks: Vec<(f64, f64)> = Vec::new();
    let mut top = (0.0, 0.0);
    for sample in &report.samples {
        let (time, window) = (sample.time.as_secs_f64(), sample.window as f64 / MSS);
        if window > top.1 {
            top = (time, window);
        } else if window < 0.8 * top.1 {
            if peaks.last().is_none_or(|(last, _)| top.0 > last + 1.0) {
                peaks.push(top);
            }
            top = (time, window);
        }
    }
    peaks
}

#[test]
fn cubic_at_50_ms_rises_to_the_same_windows_at_the_same_times() {
    let mut table = String::from("qdisc      peak  there_s  packets  here_s  packets\n");
    for (qdisc, there) in [
        ("codel", [(0.459, 511.0), (9.28, 236.0), (13.05, 234.0)]),
        ("codel ecn", [(0.459, 511.0), (9.35, 236.0), (13.06, 234.0)]),
    ] {
        let report = looks("cubic", qdisc, 50, 15).pop().unwrap();
        let here = peaks(&report);
        for (number, ((time, packets), (at, window))) in there.into_iter().zip(&here).enumerate() {
            writeln!(table, "{qdisc:9} {:5} {time:8.2} {packets:8.0} {at:7.2} {window:8.0}", number + 1)
                .unwrap();
            // Slow start ends a round trip earlier here, and with it all that follows.
            if number > 0 {
                assert!((at - time).abs() < 0.45 && (window / packets - 1.0).abs() < 0.05, "{here:?}");
            }
        }
        let settled = |sample: &&weir_sim::Sample| (0.795..1.0).contains(&sample.time.as_secs_f64());
        assert!(report.samples.iter().filter(settled).all(|sample| sample.window as f64 / MSS < 190.0));
    }
    insta::assert_snapshot!(table);
}
