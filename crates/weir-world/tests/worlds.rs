//! One TCP flow in worlds `emu` and `sim`: the kernel's controllers on real packets beside `weir-cc` in virtual time, the queue
//! the same code. Takes two minutes of real time and a machine with nothing else to do, so it runs only when asked for:
//!
//! ```text
//! cargo test -p weir-world --test worlds -- --ignored --nocapture
//! ```
//!
//! docs/validation/worlds.md has what it printed.

use std::sync::atomic::AtomicBool;

use weir_report::result::RunResult;
use weir_scenario::Scenario;
use weir_world::{RunOptions, World, run};

fn measure(qdisc: &str, controller: &str, world: &'static dyn World) -> RunResult {
    let text = format!(
        "flow = [{{ stack = 'tcp', controller = '{controller}', duration = '15s' }}]\n\
         bottleneck = {{ rate = '20mbit', rtt = '20ms', qdisc = '{qdisc}' }}\n"
    );
    let scenario = Scenario::parse(&text, "worlds").unwrap();
    let stop = AtomicBool::new(false);
    run(&scenario, &RunOptions { world, ..RunOptions::new(&stop) }).unwrap()
}

/// Goodput in Mbit/s, mean wait in ms, packets dropped.
fn numbers(result: &RunResult) -> (f64, f64, u64) {
    let queue = &result.queues[0];
    (
        result.flows[0].goodput_bps / 1e6,
        queue.sojourn_ns.mean().unwrap_or_default() / 1e6,
        queue.dropped + queue.overflowed,
    )
}

#[test]
#[ignore = "takes two minutes of real time, and measures nothing on a busy machine"]
fn one_flow_fares_alike_in_emu_and_sim() {
    // SAFETY: takes nothing and cannot fail.
    assert_eq!(unsafe { libc::geteuid() }, 0, "network namespaces need root");
    println!("queue  flow   Mbit/s emu    sim  wait ms emu    sim  drops emu  sim");
    let mut apart = Vec::new();
    for qdisc in ["bfifo limit 1bdp", "codel"] {
        for controller in ["cubic", "reno", "bbr"] {
            let real = measure(qdisc, controller, weir_world::EMU);
            let (goodput, wait, drops) = numbers(&real);
            let (goodput_sim, wait_sim, drops_sim) = numbers(&measure(qdisc, controller, weir_world::SIM));
            let kind = qdisc.split(' ').next().unwrap_or_default();
            println!(
                "{kind:6} {controller:6} {goodput:10.2} {goodput_sim:6.2} {wait:12.2} {wait_sim:6.2} {drops:10} {drops_sim:4}"
            );
            for warning in &real.health.warnings {
                println!("    {warning}");
            }
            if (goodput_sim / goodput - 1.0).abs() > 0.05 {
                apart.push(format!("{qdisc}, {controller}: {goodput:.2} and {goodput_sim:.2} Mbit/s"));
            }
        }
    }
    assert!(apart.is_empty(), "{apart:?}");
}
