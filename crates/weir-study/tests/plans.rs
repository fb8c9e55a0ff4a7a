//! What a figure draws at random comes from its seed alone.

use weir_study::Job;
use weir_study::figure::{self, Plan};

fn jobs(id: &str, seed: u64) -> Vec<Job> {
    let plan = Plan {
        world: weir_world::EMU,
        variant: "paper".to_owned(),
        quick: true,
        runs: Some(3),
        seed,
        only: None,
    };
    figure::find(id).unwrap().jobs(&plan)
}

/// The flows of the mixes: controllers and patterns in order, one list per job.
fn mixes(seed: u64) -> Vec<(String, Vec<String>)> {
    let name = |flow: &weir_scenario::Flow| flow.name.clone();
    jobs("crq/5", seed)
        .iter()
        .filter(|job| job.name.contains("Multiple flows"))
        .map(|job| (job.name.clone(), job.scenario.flows.iter().map(name).collect()))
        .collect()
}

#[test]
fn the_same_seed_draws_the_same_mixes_and_another_draws_others() {
    assert!(!mixes(1).is_empty());
    assert_eq!(mixes(1), mixes(1));
    for ((name, one), (same_name, other)) in mixes(1).iter().zip(&mixes(2)) {
        assert_eq!(name, same_name, "names do not depend on the seed");
        assert_ne!(one, other, "{name}");
    }
}

/// A score compares two runs: both must carry the same flows, whatever the queues; the runs of a cell must not.
#[test]
fn queues_that_are_compared_face_the_same_mix_and_runs_differ() {
    let mixes = mixes(7);
    let run_of = |name: &str| name.rsplit_once("run ").unwrap().1.to_owned();
    for (name, flows) in &mixes {
        for (other_name, other) in &mixes {
            assert_eq!(run_of(name) == run_of(other_name), flows == other, "{name} and {other_name}");
        }
    }
}

#[test]
fn every_job_is_planned_the_same_again() {
    for id in ["crq/4", "crq/5"] {
        let (first, second) = (jobs(id, 3), jobs(id, 3));
        assert_eq!(first.len(), second.len());
        for (one, other) in first.iter().zip(&second) {
            assert_eq!((&one.name, one.run, &one.scenario), (&other.name, other.run, &other.scenario));
            assert_eq!(one.scenario.seed, 3);
        }
    }
}

#[test]
fn only_keeps_what_it_names() {
    let plan = |only: &str| Plan {
        world: weir_world::EMU,
        variant: "paper".to_owned(),
        quick: true,
        runs: Some(1),
        seed: 1,
        only: Some(only.to_owned()),
    };
    let figure = figure::find("crq/4").unwrap();
    let all = jobs("crq/4", 1);
    let some = figure.jobs(&plan("TCP Cubic (u)"));
    assert!(!some.is_empty() && some.len() < all.len());
    assert!(some.iter().all(|job| job.name.contains("TCP Cubic (u)")));
    assert!(figure.jobs(&plan("no such cell")).is_empty());
}
