//! Copa's two modes in a network: low delay with a queue of its own, a fair share beside a flow that fills the queue,
//! and low delay again when that is gone.

use weir_core::{Duration, FlowId, Seed, Time};
use weir_sim::{Amount, FlowSpec, HopSpec, Network};

const SECOND: u64 = 1_000_000_000;

fn at(second: u64) -> Time {
    Time::from_nanos(second * SECOND)
}

/// A buffer of 80 ms.
fn network(megabit: u64) -> (Network<()>, weir_sim::HopId) {
    let mut network = Network::new(Seed::default(), ());
    let rate = format!("{megabit}mbit").parse().unwrap();
    let hop = HopSpec::new(rate, "bfifo limit 2bdp".parse().unwrap(), Duration::from_millis(40)).unwrap();
    let hop = network.add_hop(hop);
    (network, hop)
}

fn copa(hop: weir_sim::HopId) -> FlowSpec {
    FlowSpec::tcp("copa", hop, Duration::from_millis(40)).unwrap()
}

/// Mean of the smoothed round-trip times in milliseconds between two times.
fn rtt(network: &Network<()>, flow: FlowId, from: u64, to: u64) -> f64 {
    let report = network.flow(flow);
    let within = report.samples.iter().filter(|sample| (at(from)..at(to)).contains(&sample.time));
    let times: Vec<f64> = within.map(|sample| sample.rtt.as_secs_f64() * 1e3).collect();
    times.iter().sum::<f64>() / times.len() as f64
}

#[test]
fn alone_and_among_its_like_delay_stays_low() {
    for (megabit, flows) in [(20, 1), (40, 1), (40, 2)] {
        let (mut network, hop) = network(megabit);
        let flows: Vec<_> = (0..flows).map(|_| network.add_flow(copa(hop)).unwrap()).collect();
        network.run_until(at(40));
        let bytes: u64 = flows.iter().map(|flow| network.flow(*flow).bytes).sum();
        let mean = rtt(&network, flows[0], 10, 40);
        println!("{}: {} bytes, mean RTT {mean:.1} ms", flows.len(), bytes);
        assert!(bytes * 8 > 40 * megabit * 1_000_000 * 85 / 100, "{bytes}");
        // The queue holds 80 ms.
        assert!((40.0..56.0).contains(&mean), "{mean}");
    }
}

#[test]
fn beside_cubic_it_gets_a_fair_share_and_leaves_no_queue_behind() {
    let (mut network, hop) = network(20);
    let flow = network.add_flow(copa(hop)).unwrap();
    let cubic = FlowSpec::tcp("cubic", hop, Duration::from_millis(40)).unwrap();
    let cubic = network.add_flow(cubic.amount(Amount::Time(Duration::from_secs(60)))).unwrap();
    network.run_until(at(10));
    let before = [flow, cubic].map(|flow| network.flow(flow).bytes);
    network.run_until(at(60));
    let after = [flow, cubic].map(|flow| network.flow(flow).bytes);
    let [copa, cubic] = [0, 1].map(|flow| (after[flow] - before[flow]) as f64);
    let share = copa / (copa + cubic);
    let beside = rtt(&network, flow, 20, 60);
    network.run_until(at(90));
    let alone = rtt(&network, flow, 75, 90);
    println!("share {share:.2}, mean RTT {beside:.1} ms beside Cubic and {alone:.1} ms after it");
    // In its default mode alone it would keep two packets in a queue of twice the path's product.
    assert!((0.3..0.7).contains(&share), "{share}");
    assert!(beside > 80.0, "{beside}");
    assert!(alone < 75.0, "{alone}");
}
