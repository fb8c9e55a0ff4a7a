//! The scenarios that ns-3 validates its TCP with (`examples/tcp/tcp-validation.cc`, which has the envelopes): one flow
//! at 50 Mbit/s behind CoDel. Its frames are of 1502 bytes (PPP) for a payload of 1448, so the link here is as much
//! faster as frames are longer; its flows begin after 5 s, here at once. Where ns-3 and the simulator differ, Linux
//! 7.2.12 is asked, in the same scenario in world `vm`. docs/validation/ns3.md has the results.

mod notation;

use std::fmt::Write as _;

use notation::ms;
use weir_cc::{Controller, Cubic, EcnUse, HyStartLimits, Linux, Setup};
use weir_core::{Duration, Rate, Seed, Time};
use weir_sim::{EndOptions, FlowReport, FlowSpec, HopSpec, Network};

const LINK: Rate = Rate::from_bits_per_sec(50_000_000 * 1514 / 1502);
const MSS: f64 = 1448.0;
/// How often ns-3 takes the throughput.
const LOOK: Duration = Duration::from_millis(200);
/// How far from Linux.
const WITHIN: f64 = 0.2;

/// A controller, and whether its packets wait for others to go with, as in Linux.
type Sender = (&'static str, bool);

/// What a flow has done at each look.
fn looks(sender: Sender, qdisc: &str, rtt: Duration, seconds: u64) -> Vec<FlowReport> {
    looks_of(None, sender, qdisc, rtt, seconds)
}

/// The same with a controller in place of the one of that name.
fn looks_of(
    own: Option<Box<dyn Controller>>,
    (controller, defer): Sender,
    qdisc: &str,
    rtt: Duration,
    seconds: u64,
) -> Vec<FlowReport> {
    let mut network = Network::new(Seed::default(), ());
    let hop = network.add_hop(HopSpec::new(LINK, qdisc.parse().unwrap(), rtt).unwrap());
    let mut spec = FlowSpec::tcp(controller, hop, rtt).unwrap().ecn(qdisc.contains("ecn"));
    if let Some(own) = own {
        spec = spec.controller(own);
    }
    let flow = network.add_flow(spec.ends(EndOptions { defer, ..EndOptions::default() })).unwrap();
    let look = |number| {
        network.run_until(Time::ZERO + LOOK * number);
        network.flow(flow)
    };
    (0..=seconds * 5).map(look).collect()
}

/// Whether it is as in Linux.
fn assert_as_there(what: &str, here: f64, there: f64) {
    assert!((here / there - 1.0).abs() < WITHIN, "{what}: {here:.4} here, {there:.4} in Linux");
}

/// Throughput up to each look in Mbit/s of payload, and the time of the look in seconds.
fn throughputs(looks: &[FlowReport]) -> Vec<(f64, f64)> {
    let rate = |(number, pair): (usize, &[FlowReport])| {
        let bytes = (pair[1].bytes - pair[0].bytes) as f64;
        ((number + 1) as f64 * LOOK.as_secs_f64(), bytes * 8.0 / LOOK.as_secs_f64() / 1e6)
    };
    looks.windows(2).enumerate().map(rate).collect()
}

const STEP: &str = "codel ecn ce_threshold 1ms";

/// The share of packets that are marked from two seconds on.
fn marked(looks: &[FlowReport]) -> f64 {
    let (from, to) = (&looks[10], looks.last().unwrap());
    (to.marked - from.marked) as f64 / (to.packets - from.packets) as f64
}

/// The mean throughput after `from` seconds.
fn mean_after(looks: &[FlowReport], from: f64) -> f64 {
    let late: Vec<f64> =
        throughputs(looks).into_iter().filter(|(time, _)| *time > from).map(|(_, rate)| rate).collect();
    late.iter().sum::<f64>() / late.len() as f64
}

#[test]
fn dctcp_at_10_ms_fills_the_link_within_half_a_second_and_is_marked_by_its_law() {
    let at_once = looks(("dctcp-rfc8257", false), STEP, ms(10), 15);
    for (time, rate) in throughputs(&at_once).into_iter().filter(|(time, _)| *time > 0.65) {
        assert!((48.0..49.0).contains(&rate), "{rate} Mbit/s at {time} s");
    }
    // DCTCP's authors derive sqrt(2 / W) for this window, W about 46: 0.2.
    let marked_at_once = marked(&at_once);
    assert!((0.12..0.21).contains(&marked_at_once), "{marked_at_once}");
    // ns-3's alpha is between 0.055 and 0.09.
    let marked = marked(&looks(("dctcp-rfc8257", true), STEP, ms(10), 15));
    assert!((0.055..0.09).contains(&marked), "{marked}");
}

#[test]
fn dctcp_at_10_ms_is_marked_as_in_linux() {
    // There: two runs of the first and one of each other. A wait is a whole number of packets and what is left of the
    // round trip, so a tenth of a millisecond more or less changes how many wait for 1 ms.
    let there = [(10_000, 0.0599), (10_050, 0.0760), (10_100, 0.0763), (10_150, 0.0791), (10_200, 0.0783)];
    let here =
        there.map(|(micros, _)| marked(&looks(("dctcp", true), STEP, Duration::from_micros(micros), 15)));
    let mean = |shares: [f64; 5]| shares.iter().sum::<f64>() / 5.0;
    assert_as_there("marked", mean(here), mean(there.map(|(_, share)| share)));
    // There with net.ipv4.tcp_tso_win_divisor = 255, which lets every packet go at once.
    assert_as_there("marked at once", marked(&looks(("dctcp", false), STEP, ms(10), 15)), 0.142);
}

#[test]
fn dctcp_at_80_ms_climbs_for_half_a_minute() {
    let at_once = looks(("dctcp-rfc8257", false), STEP, ms(80), 40);
    for (time, rate) in throughputs(&at_once) {
        let highest = if time < 9.0 { 20.0 } else { 48.0 };
        assert!(time > 25.0 || rate < highest, "{rate} Mbit/s at {time} s");
    }
    let mean = mean_after(&at_once, 27.0);
    assert!((47.5..48.5).contains(&mean), "{mean}");
    let mean = mean_after(&looks(("dctcp", true), STEP, ms(80), 40), 27.0);
    assert_as_there("Mbit/s", mean, 44.9);
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
    let mut table =
        String::from("qdisc      waits  peak  ns-3_s  packets  linux_s  packets  here_s  packets\n");
    // Linux without ECN has another peak in between, as CoDel does not drop a second packet of the first one.
    for (qdisc, ns3, linux) in [
        (
            "codel",
            [(0.459, 511.0), (9.28, 236.0), (13.05, 234.0)],
            [(0.385, 285.0), (8.36, 235.0), (12.35, 234.0)],
        ),
        (
            "codel ecn",
            [(0.459, 511.0), (9.35, 236.0), (13.06, 234.0)],
            [(0.384, 294.0), (9.30, 235.0), (13.26, 234.0)],
        ),
    ] {
        for defer in [false, true] {
            let report = looks(("cubic", defer), qdisc, ms(50), 15).pop().unwrap();
            let here = peaks(&report);
            for (number, (ns3, (linux, here))) in ns3.into_iter().zip(linux.into_iter().zip(here)).enumerate()
            {
                writeln!(
                    table,
                    "{qdisc:9}  {defer:5} {:5} {:7.2} {:8.0} {:8.2} {:8.0} {:7.2} {:8.0}",
                    number + 1,
                    ns3.0,
                    ns3.1,
                    linux.0,
                    linux.1,
                    here.0,
                    here.1
                )
                .unwrap();
                assert_as_there(&format!("{qdisc} {defer}: packets"), here.1, linux.1);
                assert_as_there(&format!("{qdisc} {defer}: seconds"), here.0, linux.0);
                // Its slow start ends a round trip later, and with it all that follows.
                if number > 0 && !defer {
                    assert!((here.0 - ns3.0).abs() < 0.45 && (here.1 / ns3.1 - 1.0).abs() < 0.05, "{here:?}");
                }
            }
            let settled = |sample: &&weir_sim::Sample| (0.795..1.0).contains(&sample.time.as_secs_f64());
            assert!(report.samples.iter().filter(settled).all(|sample| sample.window as f64 / MSS < 190.0));
        }
    }
    insta::assert_snapshot!(table);
}

/// Its slow start is what sets ns-3's Cubic apart.
#[test]
fn cubic_rises_as_in_ns_3_with_the_hystart_of_ns_3() {
    let limits = HyStartLimits { low_window: 0, train_shift: 0, delay_shift: 0, longest_ms: 1000 };
    for (qdisc, ecn, later) in
        [("codel", EcnUse::Off, (9.28, 236.0)), ("codel ecn", EcnUse::Classic, (9.35, 236.0))]
    {
        let setup =
            Setup { mss: 1448, initial_window: 10, random: Seed::default().stream("cubic"), rate: None };
        let own = Linux::new(Cubic::new(ecn, 1448).hystart(limits), &setup);
        let report = looks_of(Some(Box::new(own)), ("cubic", false), qdisc, ms(50), 15).pop().unwrap();
        let here = peaks(&report);
        println!("{qdisc}: {here:.2?}");
        let is_near = |here: (f64, f64), there: (f64, f64), packets: f64| {
            (here.0 - there.0).abs() < 0.45 && (here.1 / there.1 - 1.0).abs() < packets
        };
        assert!(is_near(here[0], (0.459, 511.0), 0.1), "{here:?}");
        assert!(here.iter().any(|peak| is_near(*peak, later, 0.05)), "{here:?}");
    }
}
