//! Runs the scenario of this crate, or that of the file that is named, and prints what each flow and the queue did.

use std::path::Path;

fn main() -> anyhow::Result<()> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/scenario.toml");
    let file = std::env::args().nth(1).unwrap_or_else(|| own.to_owned());
    let result = stranger::run(Path::new(&file))?;
    println!("{}", result.meta.qdisc);
    for flow in &result.flows {
        let mbps = flow.goodput_bps / 1e6;
        println!("{:12} {mbps:6.2} Mbit/s, {} of {} packets dropped", flow.name, flow.dropped, flow.packets);
    }
    for queue in &result.queues {
        let longest = queue.sojourn_ns.quantile(1.0).unwrap_or(0) as f64 / 1e6;
        println!("{:12} {longest:6.2} ms at most in the queue", queue.name);
    }
    Ok(())
}
