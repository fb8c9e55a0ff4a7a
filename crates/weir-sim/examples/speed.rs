use std::time::Instant;
use weir_core::{Duration, Seed, Time};
use weir_sim::{FlowSpec, HopSpec, Network};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let qdisc = args.get(1).map_or("codel", |s| s);
    let flows: u32 = args.get(2).map_or(10, |s| s.parse().unwrap());
    let rate = args.get(3).map_or("100mbit", |s| s);
    let secs: u64 = args.get(4).map_or(100, |s| s.parse().unwrap());
    let cc = args.get(5).map_or("reno", |s| s);
    let rtt: Duration = "20ms".parse().unwrap();
    let mut network = Network::new(Seed::default(), ());
    let hop = network.add_hop(HopSpec::new(rate.parse().unwrap(), qdisc.parse().unwrap(), rtt).unwrap());
    let ids: Vec<_> =
        (0..flows).map(|_| network.add_flow(FlowSpec::tcp(cc, hop, rtt).unwrap()).unwrap()).collect();
    let began = Instant::now();
    network.run_until(Time::ZERO + Duration::from_secs(secs));
    let took = began.elapsed().as_secs_f64();
    let packets = network.hop(hop).packets;
    println!(
        "{packets} packets in {took:.3} s: {:.0} a second; {} events, busy {:.4}",
        packets as f64 / took,
        network.events(),
        network.hop(hop).busy.as_secs_f64() / secs as f64
    );
    for id in ids.iter().take(10) {
        let r = network.flow(*id);
        let s = r.samples.last().unwrap();
        println!(
            "{} sent {} lost {} rate {:.3} Mbit/s rtt {} cwnd {}",
            id.0,
            r.sent,
            r.lost,
            r.bytes as f64 * 8.0 / secs as f64 / 1e6,
            s.rtt,
            s.window / 1448
        );
    }
}
