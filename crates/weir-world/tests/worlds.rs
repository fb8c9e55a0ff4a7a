//! The same scenarios in worlds `sim`, `emu` and `kernel`: rates, waits and drops agree within the bounds that
//! docs/validation/worlds.md states.
//!
//! The real clock of a shared machine adds its own lateness to what `emu` and `kernel` measure, so this runs where time
//! is counted: in a guest of `weir vm run --clock counted`, whose clock counts instructions. There it is the same on
//! every host, and a difference between two worlds is one of Weir's. `tools/test-vm.sh` runs it so; elsewhere it is
//! skipped.

use std::fmt::Write;
use std::sync::atomic::AtomicBool;

use weir_report::result::RunResult;
use weir_scenario::Scenario;
use weir_testkit::skip::{root_and_turn, skip};
use weir_world::{EMU, KERNEL, RunOptions, SIM, World, run};

/// The variable that says that the clock counts instructions.
const COUNTED: &str = "WEIR_COUNTED";

/// What a quantity may differ from world `sim` by: a share of it, or so much, whichever is more.
#[derive(Clone, Copy)]
struct Bound {
    share: f64,
    least: f64,
}

/// Goodput of a flow, in Mbit/s.
const RATE: Bound = Bound { share: 0.05, least: 0.0 };
/// Mean wait in a queue, in milliseconds.
const WAIT: Bound = Bound { share: 0.15, least: 0.6 };
/// Packets that a queue dropped.
const DROPS: Bound = Bound { share: 0.25, least: 15.0 };
/// Both, of a flow of BBR, whose model takes the fastest bunch of packets in ten round trips for the link's rate: medians
/// over [`RUNS_BBR`] runs, of which a single one may have met a bunch that made it drop ten times as many.
const WAIT_BBR: Bound = Bound { share: 0.0, least: 6.0 };
const DROPS_BBR: Bound = Bound { share: 0.25, least: 40.0 };
const RUNS_BBR: usize = 5;

impl Bound {
    fn holds(self, here: f64, sim: f64) -> bool {
        (here - sim).abs() <= (self.share * sim).max(self.least)
    }
}

fn measure(scenario: &Scenario, world: &'static dyn World) -> RunResult {
    let stop = AtomicBool::new(false);
    run(scenario, &RunOptions { world, ..RunOptions::new(&stop) })
        .unwrap_or_else(|error| panic!("{} in {}: {error}", scenario.name, world.name()))
}

fn is_bbr(result: &RunResult) -> bool {
    result.flows.iter().any(|flow| flow.controller == "bbr")
}

/// What is compared, each with its name: rates of flows, waits and drops of queues. The median of each over `runs`.
fn numbers(runs: &[RunResult]) -> Vec<(String, Bound, f64)> {
    let all: Vec<_> = runs.iter().map(numbers_of_run).collect();
    let median = |row: usize| {
        let mut values: Vec<f64> = all.iter().map(|numbers| numbers[row].2).collect();
        values.sort_unstable_by(f64::total_cmp);
        values[values.len() / 2]
    };
    all[0].iter().enumerate().map(|(row, (what, bound, _))| (what.clone(), *bound, median(row))).collect()
}

fn numbers_of_run(result: &RunResult) -> Vec<(String, Bound, f64)> {
    let mut numbers = Vec::new();
    for flow in &result.flows {
        numbers.push((format!("{}, Mbit/s", flow.name), RATE, flow.goodput_bps / 1e6));
    }
    let (waits, dropped) = if is_bbr(result) { (WAIT_BBR, DROPS_BBR) } else { (WAIT, DROPS) };
    for queue in &result.queues {
        let wait = queue.sojourn_ns.mean().unwrap_or_default() / 1e6;
        numbers.push((format!("{}, mean wait in ms", queue.name), waits, wait));
        let drops = (queue.dropped + queue.overflowed) as f64;
        numbers.push((format!("{}, drops", queue.name), dropped, drops));
    }
    numbers
}

/// The verdict on each flow, and whether it was in the responsive queue for most of its life.
fn verdicts(result: &RunResult) -> Vec<(String, String, bool)> {
    let of = |flow: &weir_report::result::FlowResult| {
        (flow.name.clone(), flow.class_loss.clone(), flow.responsive_packets > 0.5)
    };
    result.flows.iter().map(of).collect()
}

/// Runs the scenarios in all three worlds and fails with a list of all that is apart.
fn compare(scenarios: &[(String, &str, &[String])]) {
    let Some(_turn) = root_and_turn() else { return };
    if std::env::var_os(COUNTED).is_none() {
        return skip("counted-clock", "the real clock's lateness would be compared");
    }
    let mut apart = String::new();
    println!("{:58} {:>9} {:>9} {:>9}", "", "sim", "emu", "kernel");
    for (name, bottleneck, flows) in scenarios {
        let text = format!(
            "name = '{name}'\nflow = [{}]\nbottleneck = {{ {bottleneck} }}\n",
            flows.iter().map(|flow| format!("{{ {flow} }}")).collect::<Vec<_>>().join(", ")
        );
        let scenario = Scenario::parse(&text, name).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let sim = measure(&scenario, SIM);
        // In virtual time each run is the same.
        let runs = if is_bbr(&sim) { RUNS_BBR } else { 1 };
        let [emu, kernel] =
            [EMU, KERNEL].map(|world| (0..runs).map(|_| measure(&scenario, world)).collect::<Vec<_>>());
        for result in emu.iter().chain(&kernel) {
            for warning in &result.health.warnings {
                println!("    {}: {warning}", result.meta.world);
            }
            // A single queue asks for no verdicts, and a flow alone may meet too few signals for one.
            let (of_sim, here) = (verdicts(&sim), verdicts(result));
            if sim.queues.len() > 1 && here != of_sim {
                let _ = writeln!(apart, "{name}, {}: {here:?}, in sim {of_sim:?}", result.meta.world);
            }
        }
        let rows = numbers(&[sim]).into_iter().zip(numbers(&emu)).zip(numbers(&kernel));
        for (((what, bound, sim), (_, _, emu)), (_, _, kernel)) in rows {
            println!("{:58} {sim:9.2} {emu:9.2} {kernel:9.2}", format!("{name}: {what}"));
            for (world, here) in [("emu", emu), ("kernel", kernel)] {
                if !bound.holds(here, sim) {
                    let _ = writeln!(apart, "{name}: {what}: {here:.2} in {world}, {sim:.2} in sim");
                }
            }
        }
    }
    assert!(apart.is_empty(), "\n{apart}");
}

/// One flow of each controller alone behind a queue.
fn alone(qdisc: &str) {
    let bottleneck = format!("rate = '20mbit', rtt = '20ms', qdisc = '{qdisc}'");
    let flows = ["cubic", "reno", "bbr"].map(|controller| {
        let flow = format!("name = 'flow', stack = 'tcp', controller = '{controller}', duration = '8s'");
        (format!("{qdisc}, {controller}"), [flow])
    });
    let scenarios: Vec<_> =
        flows.iter().map(|(name, flows)| (name.clone(), &*bottleneck, &flows[..])).collect();
    compare(&scenarios);
}

#[test]
fn a_flow_alone_behind_a_fifo_fares_alike() {
    alone("bfifo limit 1bdp");
}

#[test]
fn a_flow_alone_behind_codel_fares_alike() {
    alone("codel");
}

/// The law divides the same flows in the same way, and each queue has the same load. The datagrams come when the other
/// flow has its verdict: whether a flow gets out of a queue that they fill is chance.
#[test]
fn the_flows_of_a_crq_are_divided_alike() {
    let flows = [
        "name = 'cubic', stack = 'tcp', controller = 'cubic', duration = '10s'",
        "name = 'udp', stack = 'udp', rate = '12mbit', start = '2s', duration = '8s'",
    ];
    let bottleneck = "rate = '20mbit', rtt = '20ms', qdisc = 'crq standard bfifo responsive codel'";
    compare(&[("crq".to_owned(), bottleneck, &flows.map(str::to_owned))]);
}
