//! What fair queuing promises, end to end: TCP flows of different controllers get equal rates, whatever they would take
//! from each other in one queue.

use std::fmt::Write as _;

use weir_core::{Duration, Seed, Time};
use weir_sim::{FlowSpec, HopSpec, Network};

const CONTROLLERS: [&str; 6] = ["reno", "cubic", "cubic-rfc9438", "bbr1", "bbr3", "dctcp"];

/// Goodput of each in Mbit/s over 20 s after 10 s, at 60 Mbit/s and 20 ms.
fn rates(qdisc: &str) -> Vec<f64> {
    let mut network = Network::new(Seed { seed: 1, run: 0 }, ());
    let rtt = Duration::from_millis(20);
    let hop = HopSpec::new("60mbit".parse().unwrap(), qdisc.parse().unwrap(), rtt).unwrap();
    let hop = network.add_hop(hop);
    let flows = CONTROLLERS.map(|name| network.add_flow(FlowSpec::tcp(name, hop, rtt).unwrap()).unwrap());
    network.run_until(Time::ZERO + Duration::from_secs(10));
    let before = flows.map(|flow| network.flow(flow).bytes);
    network.run_until(Time::ZERO + Duration::from_secs(30));
    let rate = |(flow, before)| (network.flow(flow).bytes - before) as f64 * 8.0 / 20.0 / 1e6;
    flows.into_iter().zip(before).map(rate).collect()
}

#[test]
fn controllers_of_all_kinds_get_equal_rates_behind_fair_queuing() {
    let mut table = String::from("qdisc        jain   util ");
    for name in CONTROLLERS {
        write!(table, "  {name:>13}").unwrap();
    }
    table.push('\n');
    for qdisc in ["bfifo limit 1bdp", "drr", "fq", "fq_codel", "fq_pie", "fq_pie ecn", "cake"] {
        let rates = rates(qdisc);
        let (jain, used) = (
            weir_core::jain(rates.iter().copied()).unwrap(),
            rates.iter().sum::<f64>() / 60.0 * 1514.0 / 1448.0,
        );
        write!(table, "{:11} {jain:.4}  {used:.3}", qdisc.trim_end_matches(" limit 1bdp")).unwrap();
        for rate in &rates {
            write!(table, "  {rate:13.2}").unwrap();
        }
        table.push('\n');
        // One queue for all is there to show that the flows would not share by themselves.
        let fair = !qdisc.starts_with("bfifo");
        assert_eq!(jain > 0.99, fair, "{qdisc}: {jain} {rates:?}");
        assert!(used > 0.99, "{qdisc}: {used}");
    }
    insta::assert_snapshot!(table);
}
