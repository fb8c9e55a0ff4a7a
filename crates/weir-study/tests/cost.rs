//! What runs are estimated to cost beside what they cost, and that all that comes with Weir may run.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use weir_scenario::Scenario;
use weir_study::figure::{self, Plan};
use weir_study::suite;
use weir_world::{Cost, RunOptions};

/// The cost of a run that has ended: packets that came to a queue, and rows of tables.
fn taken(scenario: &Scenario) -> (f64, f64) {
    let stop = AtomicBool::new(false);
    let options = RunOptions { world: weir_world::SIM, ..RunOptions::new(&stop) };
    let result = weir_world::run(scenario, &options).unwrap();
    let series = &result.series;
    let lists = [
        series.queues.iter().map(Vec::len).sum::<usize>(),
        series.flows.iter().map(Vec::len).sum(),
        series.rtt.iter().map(Vec::len).sum(),
        result.workloads.iter().map(|workload| workload.list.len()).sum(),
        result.assessments.len(),
        result.choices.len(),
    ];
    (result.health.arrived as f64, lists.iter().sum::<usize>() as f64)
}

#[test]
fn a_run_takes_what_was_reckoned_within_a_small_factor() {
    let link = |keys: &str| {
        format!("[bottleneck]\nrate = '20mbit'\nrtt = '10ms'\nqdisc = 'codel ecn limit 1bdp'\n{keys}\n")
    };
    let tcp = "stack = 'tcp'\ncontroller = 'dctcp'\necn = true\n";
    let crowd = format!("[[workload]]\nduration = '5s'\n{}", tcp.replace("dctcp", "cubic"));
    for flows in [
        "[[flow]]\nstack = 'udp'\nrate = '60mbit'\nduration = '4s'\n".to_owned(),
        format!("[[flow]]\n{tcp}duration = '5s'\n[[flow]]\nstack = 'udp'\nrate = '1mbit'\n"),
        format!("[[flow]]\n{tcp}duration = '5s'\ncount = 20\n[[flow]]\n{tcp}start = '1s'\npattern = 'two-way'\n"),
        format!("[[flow]]\n{tcp}bytes = '10mb'\n[measure]\ntimeout = '20s'\n"),
        format!("[[flow]]\n{tcp}bytes = '10mb'\ndirection = 'up'\n[measure]\ntimeout = '20s'\n"),
        format!("{crowd}kind = 'poisson'\nload = 0.7\nsize = '30kb'\n"),
        format!("{crowd}kind = 'poisson'\narrivals = 2000\nsize = 100\nconnections = 5000\n"),
        format!("{crowd}kind = 'requests'\nthink = '0s'\nsize = 1\nusers = 50\n"),
        format!("{crowd}kind = 'video'\nsegment = '100ms'\nbitrate = '4mbit'\nbuffer = '10s'\nusers = 3\n"),
        format!("{crowd}kind = 'on-off'\non = '10ms'\noff = '10ms'\nusers = 3\n"),
        "[[workload]]\nduration = '5s'\nkind = 'on-off'\nstack = 'udp'\nrate = '10mbit'\non = '1ms'\noff = '1ms'\n".to_owned(),
    ] {
        let scenario = Scenario::parse(&link(&flows), "x.toml").unwrap();
        let (cost, (packets, rows)) = (Cost::of(&scenario), taken(&scenario));
        let shares = [cost.packets / packets, cost.rows / rows];
        println!("{shares:.2?} of {packets} packets and {rows} rows\n{flows}");
        // Retransmissions, and round trips that are longer than without a queue. Nobody knows when bytes have arrived.
        let most = if flows.contains("bytes") { 1e3 } else { 30.0 };
        assert!(shares.iter().all(|share| (0.9..most).contains(share)), "{shares:.2?}: {cost:?}\n{flows}");
    }
}

#[test]
fn all_that_comes_with_weir_is_well_below_what_a_run_may_cost() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let files = |folder: &str| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|kind| kind == "toml")).collect()
    };
    let files = [files("examples"), files("demo")].concat();
    let mut scenarios: Vec<Scenario> = files.iter().map(|path| Scenario::load(path).unwrap()).collect();
    scenarios.extend(suite::all().unwrap().into_iter().flat_map(|suite| suite.scenarios));
    for figure in figure::all() {
        for variant in &figure.about().variants {
            let plan = Plan {
                world: weir_world::SIM,
                variant: variant.name.clone(),
                quick: false,
                runs: Some(1),
                seed: 1,
                only: None,
            };
            scenarios.extend(figure.jobs(&plan).into_iter().map(|job| job.scenario));
        }
    }
    assert!(scenarios.len() > 100);
    let half = Cost {
        packets: Cost::MOST.packets / 2.0,
        rows: Cost::MOST.rows / 2.0,
        memory: Cost::MOST.memory / 2.0,
        disk: Cost::MOST.disk / 2.0,
    };
    for scenario in scenarios {
        if let Err(refusal) = half.suffices(&scenario) {
            panic!("{}: {refusal}", scenario.name);
        }
    }
}

#[test]
fn many_flows_with_bytes_may_run_to_the_usual_timeout() {
    let text = |rate: &str, count: u32| {
        format!(
            "[bottleneck]\nrate = '{rate}'\nrtt = '20ms'\nqdisc = 'fq_codel'\n[[flow]]\nstack = 'tcp'\n\
             controller = 'cubic'\nbytes = '10mb'\ncount = {count}\n"
        )
    };
    for (rate, count) in [("1gbit", 1000), ("10gbit", 500), ("100gbit", 20), ("100mbit", 2000)] {
        let scenario = Scenario::parse(&text(rate, count), "x.toml").unwrap();
        Cost::MOST.suffices(&scenario).unwrap();
    }
}
