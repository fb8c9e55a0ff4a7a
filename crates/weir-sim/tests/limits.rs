//! What would keep virtual time from going on, or overflow, is refused.

use weir_core::{Duration, Rate, Seed, Time};
use weir_sim::{
    Amount, EndOptions, FlowSpec, HopSpec, Kind, MOST_ARRIVALS, Network, Pattern, Size, SpecError,
    WorkloadSpec,
};

const RTT: Duration = Duration::from_millis(10);

fn link(rate: &str) -> HopSpec {
    HopSpec::new(rate.parse().unwrap(), "pfifo limit 100p".parse().unwrap(), RTT).unwrap()
}

#[test]
fn a_crowd_comes_at_a_rate_that_time_can_follow() {
    let mut network = Network::new(Seed::default(), ());
    let hop = network.add_hop(link("20mbit"));
    let mut add = |rate: f64| {
        let pattern = Pattern::Poisson { rate, size: Size::Fixed(1), connections: 1 };
        network.add_workload(WorkloadSpec::new(FlowSpec::tcp("reno", hop, RTT).unwrap(), pattern))
    };
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e18, MOST_ARRIVALS * 1.01] {
        assert!(matches!(add(rate), Err(SpecError::Arrivals { .. })), "{rate}");
    }
    assert!(add(MOST_ARRIVALS).is_ok() && add(1e-300).is_ok());
}

#[test]
fn datagrams_come_at_a_rate_that_time_can_follow() {
    let mut network = Network::new(Seed::default(), ());
    let hop = network.add_hop(link("20mbit"));
    let spec = |rate: u64| FlowSpec::new(Kind::Datagrams(Rate::from_bits_per_sec(rate)), &[hop], RTT);
    for rate in [12_000_000_000_001, 100_000_000_000_000, u64::MAX] {
        assert!(matches!(spec(rate), Err(SpecError::TooFast(_))), "{rate}");
    }
    assert!(spec(12_000_000_000_000).is_ok());
}

#[test]
fn datagrams_that_are_lost_are_waited_for_for_two_seconds() {
    let mut network = Network::new(Seed::default(), ());
    let hop = network.add_hop(link("20mbit"));
    let spec = |rate: &str| {
        FlowSpec::new(Kind::Datagrams(rate.parse().unwrap()), &[hop], RTT)
            .unwrap()
            .amount(Amount::Bytes(5_000_000))
    };
    // 5 MB at 30 Mbit/s take 1.37 s with their headers, and a third of them is lost.
    let flow = network.add_flow(spec("30mbit")).unwrap();
    network.run_until(Time::ZERO + Duration::from_secs(60));
    let report = network.flow(flow);
    let took = report.finished.expect("it is over").since(Time::ZERO);
    assert!((3.3..3.5).contains(&took.as_secs_f64()), "{took:?}");
    assert!(report.bytes < 4_000_000, "{report:?}");
    assert!(network.is_done());
}

#[test]
fn an_overhead_beyond_the_longest_packet_counts_as_that() {
    let mut network = Network::new(Seed::default(), ());
    let hop = network.add_hop(link("100mbit").overhead(u32::MAX));
    let ends = EndOptions { gso: 45, ..EndOptions::default() };
    let flow = network.add_flow(FlowSpec::tcp("reno", hop, RTT).unwrap().ends(ends)).unwrap();
    network.run_until(Time::ZERO + Duration::from_secs(10));
    let report = network.hop(hop);
    assert!(network.flow(flow).packets > 100, "{report:?}");
    // 1514 bytes and 65,535.
    assert!(report.bytes > 60_000 * report.packets, "{report:?}");
}

#[test]
fn datagrams_in_bursts_are_no_more_than_fit_into_their_time() {
    // One each 12.112 ms: the first at once, the 496th after 5.995 s, whatever goes together.
    for every in [None, Some(1), Some(1_000), Some(4_000), Some(5_000), Some(30_000)] {
        let mut network = Network::new(Seed::default(), ());
        let hop = network.add_hop(link("100mbit"));
        let spec = FlowSpec::new(Kind::Datagrams("1mbit".parse().unwrap()), &[hop], RTT).unwrap();
        let spec = match every {
            Some(every) => spec.bursts(Duration::from_millis(every), "100mbit".parse().unwrap()),
            None => spec,
        };
        let flow = network.add_flow(spec.amount(Amount::Time(Duration::from_secs(6)))).unwrap();
        network.run_until(Time::ZERO + Duration::from_secs(20));
        assert_eq!(network.flow(flow).sent, 496, "{every:?}");
    }
}
