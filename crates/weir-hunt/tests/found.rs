//! What hunts have found (`examples/hunts/found`): each scenario still shows its effect, and does not without what it is
//! laid to.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use weir_report::result::{FlowResult, RunResult, Standing};
use weir_scenario::Scenario;
use weir_world::{RunOptions, SIM};

fn found(name: &str) -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hunts/found");
    Scenario::load(&folder.join(format!("{name}.toml"))).unwrap()
}

/// Three runs, each with random numbers of its own.
fn runs(scenario: &Scenario) -> Vec<RunResult> {
    let stop = AtomicBool::new(false);
    let run =
        |run| weir_world::run(scenario, &RunOptions { world: SIM, run, ..RunOptions::new(&stop) }).unwrap();
    (0..3).map(run).collect()
}

fn place(result: &RunResult, name: &str) -> usize {
    result.flows.iter().position(|flow| flow.name == name).unwrap()
}

fn mean(results: &[RunResult], number: impl Fn(&RunResult) -> f64) -> f64 {
    results.iter().map(number).sum::<f64>() / results.len() as f64
}

fn flow<'r>(result: &'r RunResult, name: &str) -> &'r FlowResult {
    &result.flows[place(result, name)]
}

fn standing<'r>(result: &'r RunResult, name: &str) -> &'r Standing {
    &result.standings[place(result, name)]
}

/// Goodput over the link's rate.
fn share(results: &[RunResult], name: &str) -> f64 {
    mean(results, |run| flow(run, name).goodput_bps / run.meta.scenario.bottleneck.rate.bits_per_sec() as f64)
}

#[test]
fn bursts_of_a_tenth_of_the_link_take_most_of_it_from_reno_and_cubic() {
    for name in ["shrew-reno", "shrew-cubic"] {
        let with = found(name);
        let asked: u64 = with
            .flows
            .iter()
            .map(|flow| flow.rate.map_or(0, |rate| rate.bits_per_sec()) * u64::from(flow.count))
            .sum();
        assert!(asked * 10 <= with.bottleneck.rate.bits_per_sec(), "{name}: {asked} bit/s");
        let mut without = with.clone();
        without.flows.retain(|flow| flow.name == "victim");
        let mut even = with.clone();
        even.flows.iter_mut().for_each(|flow| flow.bursts = None);
        let [with, without, even] = [with, without, even].map(|scenario| share(&runs(&scenario), "victim"));
        assert!(
            with < 0.5 && without > 0.75 && even > 0.65,
            "{name}: {with}, alone {without}, without bursts {even}"
        );
    }
}

#[test]
fn bbr_starves_the_flow_beside_it() {
    let with = found("bbr-starves");
    let mut without = with.clone();
    let other = with.flows.iter().find(|flow| flow.name == "other").unwrap().controller.clone();
    without.flows.iter_mut().for_each(|flow| flow.controller.clone_from(&other));
    let [with, without] = [with, without].map(|scenario| {
        let results = runs(&scenario);
        share(&results, "other") / share(&results, "bbr")
    });
    assert!(with < 0.2 && without > 3.0 * with, "{with}, of two {other} {without}");
}

#[test]
fn the_published_law_takes_a_shrinking_round_trip_for_an_answer() {
    let with = found("law-confound");
    assert!(with.flows.iter().any(|flow| flow.name == "fixed" && flow.controller == "constant-rate"));
    let responsive = |scenario: &Scenario| {
        mean(&runs(scenario), |run| {
            let standing = standing(run, "fixed");
            standing.responsive_s / (standing.responsive_s + standing.unresponsive_s).max(1e-9)
        })
    };
    let mut robust = with.clone();
    robust.law.insert("preset".to_owned(), "robust".into());
    let [paper, robust] = [with, robust].map(|scenario| responsive(&scenario));
    assert!(paper > 0.8 && robust < 0.5, "paper {paper}, robust {robust}");
}

#[test]
fn the_robust_law_takes_a_full_receive_window_for_no_answer() {
    let with = found("law-honest");
    let mut without = with.clone();
    let honest = without.flows.iter_mut().find(|flow| flow.name == "honest").unwrap();
    assert!(honest.receive_window.is_some() && honest.controller == "cubic");
    honest.receive_window = None;
    let unresponsive = |scenario: &Scenario| {
        mean(&runs(scenario), |run| {
            let standing = standing(run, "honest");
            standing.unresponsive_s / (standing.responsive_s + standing.unresponsive_s).max(1e-9)
        })
    };
    let [with, without] = [with, without].map(|scenario| unresponsive(&scenario));
    assert!(with > 0.6 && without < 0.3, "{with}, without the window {without}");
}

#[test]
fn vivace_stays_where_the_narrow_link_has_left_it() {
    let vivace = found("trace");
    assert!(vivace.flows[0].controller == "pcc-vivace" && !vivace.bottleneck.rates.is_empty());
    let mut cubic = vivace.clone();
    cubic.flows[0].controller = "cubic".to_owned();
    let mut steady = vivace.clone();
    steady.bottleneck.rates.clear();
    let [vivace, cubic, steady] =
        [vivace, cubic, steady].map(|scenario| mean(&runs(&scenario), |run| flow(run, "bulk").goodput_bps));
    assert!(
        vivace < 0.4 * cubic && steady > 0.8 * 10e6,
        "{vivace}, Cubic {cubic}, at a steady 10 Mbit/s {steady}"
    );
}
