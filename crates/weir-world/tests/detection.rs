//! Flows that look for fair queuing find the same behind the same queue in worlds `sim`, `emu` and `kernel`, as
//! docs/validation/worlds.md states.
//!
//! As with `worlds.rs`, the worlds on the real clock are compared where time is counted (`tools/test-vm.sh`): there a
//! guest's kernel also has the disciplines. A host that is too busy to send a train on time measures itself.

use std::fmt::Write;
use std::sync::atomic::AtomicBool;

use weir_report::result::{DetectionResult, RunResult};
use weir_scenario::Scenario;
use weir_testkit::skip::{root_and_turn, skip};
use weir_world::{EMU, KERNEL, RunOptions, SIM, World, check, run};

/// The variable that says that the clock counts instructions.
const COUNTED: &str = "WEIR_COUNTED";

/// Queues that serve flows by turns, as worlds `sim` and `emu` have them and as the kernel's has them, if it has.
const FAIR: [[&str; 2]; 7] = [
    ["fq nofast_path flow_limit 50p", ""],
    ["fq flow_limit 50p", "fq flow_limit 50p"],
    ["fq_codel", "fq_codel"],
    ["fq_pie", "fq_pie"],
    ["cake unlimited", "cake unlimited"],
    ["cake unlimited isolation flows", "cake unlimited isolation flows"],
    ["drr", ""],
];
/// And those in which all stand in one line.
const SHARED: [[&str; 2]; 6] = [
    ["pfifo limit 50p", "pfifo limit 50p"],
    ["bfifo limit 1bdp", "bfifo limit 1bdp"],
    ["codel", "codel"],
    ["pie", "pie"],
    ["red limit 150kb min 10kb max 30kb burst 20", "red limit 150kb min 10kb max 30kb burst 20"],
    ["dualpi2", ""],
];

/// What the time to the verdict may be more than in world `sim`: a share of it or so many seconds, whichever is more.
/// It may be less: how full the queue of another flow is when a train comes is chance.
const TIME: (f64, f64) = (0.5, 0.25);
/// What packets that were lost until then may differ by, in world `emu`. In `kernel` a detection now and then sends trains of
/// hundreds of packets, of which many are lost; docs/validation/worlds.md has such a run.
const LOST: (f64, f64) = (0.5, 30.0);
/// The least part of the goodput in `sim` that a flow alone has. What two flows get of one queue in two seconds is chance.
const GOODPUT: f64 = 0.8;

fn holds((share, least): (f64, f64), here: f64, sim: f64) -> bool {
    (here - sim).abs() <= (share * sim).max(least)
}

/// A flow that looks for fair queuing, alone or beside a Cubic that began before.
fn scenario(qdisc: &str, has_cross: bool) -> Scenario {
    let (start, cross) = match has_cross {
        true => ("2s", "{ name = 'cross', stack = 'tcp', controller = 'cubic' }, "),
        false => ("0s", ""),
    };
    let text = format!(
        "bottleneck = {{ rate = '20mbit', rtt = '20ms', qdisc = '{qdisc}' }}\n\
         flow = [{cross}{{ name = 'detecting', stack = 'quic', controller = 'cubic', detector = 'trains', \
         start = '{start}', duration = '2s' }}]\n"
    );
    Scenario::parse(&text, qdisc).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// What was found, and the goodput of both sub-flows in Mbit/s.
struct Found {
    detection: DetectionResult,
    goodput: f64,
}

impl Found {
    fn of(result: &RunResult) -> Self {
        let own = result.flows.iter().filter(|flow| flow.name.starts_with("detecting"));
        let goodput = own.map(|flow| flow.goodput_bps / 1e6).sum();
        Self { detection: result.detections[0].clone(), goodput }
    }

    fn finding(&self) -> &str {
        self.detection.first_finding.as_deref().unwrap_or("none")
    }

    fn seconds(&self) -> f64 {
        self.detection.first_s.unwrap_or(f64::INFINITY)
    }

    fn told(&self) -> String {
        let DetectionResult { first_lost, first_sent, .. } = &self.detection;
        let (finding, seconds) = (self.finding(), self.seconds());
        format!("{finding:>11} {seconds:6.3} {first_lost:4} of {first_sent:4} {:5.1}", self.goodput)
    }
}

fn measure(scenario: &Scenario, world: &'static dyn World) -> Option<Found> {
    check(scenario, world, false).ok()?;
    let stop = AtomicBool::new(false);
    let result = run(scenario, &RunOptions { world, ..RunOptions::new(&stop) })
        .unwrap_or_else(|error| panic!("{} in {}: {error}", scenario.name, world.name()));
    for warning in &result.health.warnings {
        println!("    {}: {warning}", result.meta.world);
    }
    Some(Found::of(&result))
}

/// Runs the detector behind queues in all three worlds, and fails with a list of all that is apart.
fn compare(queues: &[[&str; 2]], right: &str) {
    let Some(_turn) = root_and_turn() else { return };
    if std::env::var_os(COUNTED).is_none() {
        return skip("counted-clock", "the real clock's lateness would be compared");
    }
    let mut apart = String::new();
    for &[qdisc, of_kernel] in queues {
        for has_cross in [false, true] {
            let name = format!("{qdisc}, {}", if has_cross { "Cubic" } else { "alone" });
            let sim = measure(&scenario(qdisc, has_cross), SIM).expect("sim has all of them");
            println!("{name:60} sim    {}", sim.told());
            if sim.finding() != right {
                let _ = writeln!(apart, "{name}: {} in sim", sim.finding());
            }
            for (world, qdisc) in [(EMU, qdisc), (KERNEL, of_kernel)] {
                if qdisc.is_empty() {
                    continue;
                }
                let Some(here) = measure(&scenario(qdisc, has_cross), world) else {
                    let _ = writeln!(apart, "{name}: {} refuses it", world.name());
                    continue;
                };
                println!("{name:60} {:6} {}", world.name(), here.told());
                let lost = [&here, &sim].map(|found| found.detection.first_lost as f64);
                let agrees = here.finding() == sim.finding()
                    && (here.seconds() < sim.seconds() || holds(TIME, here.seconds(), sim.seconds()))
                    && (world.name() == KERNEL.name() || holds(LOST, lost[0], lost[1]))
                    && (has_cross || here.goodput >= GOODPUT * sim.goodput);
                if !agrees {
                    let _ =
                        writeln!(apart, "{name}: {} in {}, {} in sim", here.told(), world.name(), sim.told());
                }
            }
        }
    }
    assert!(apart.is_empty(), "\n{apart}");
}

#[test]
fn trains_find_fair_queues_alike() {
    compare(&FAIR, "fair-queued");
}

#[test]
fn trains_find_shared_queues_alike() {
    compare(&SHARED, "shared");
}
