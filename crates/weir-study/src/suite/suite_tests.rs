//! What a suite's file says.

use std::sync::atomic::AtomicBool;

use weir_world::{RunOptions, SIM};

use super::{Plan, Row, all, find};

#[test]
fn every_suite_that_comes_with_weir_is_sound() {
    let suites = all().unwrap();
    assert!(!suites.is_empty());
    for suite in suites {
        let jobs = suite.jobs(&Plan::new(weir_world::EMU)).unwrap();
        let mut names: Vec<_> = jobs.iter().map(|(_, _, job)| job.name.clone()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), jobs.len(), "names of {} are not unique", suite.id);
    }
}

#[test]
fn what_is_misspelt_is_told_before_anything_runs() {
    let message = find("rfc7982").unwrap_err().to_string();
    assert!(message.contains("did you mean 'rfc7928'"), "{message}");
    let suite = find("rfc7928").unwrap();
    let plan = Plan { qdiscs: vec!["codle".to_owned()], ..Plan::new(weir_world::EMU) };
    let message = suite.jobs(&plan).unwrap_err().to_string();
    assert!(message.contains("codle"), "{message}");
    for only in [&["no such thing"][..], &["8.2.3", "no such thing"]] {
        let only = only.iter().map(|text| (*text).to_owned()).collect();
        let message = suite.jobs(&Plan { only, ..Plan::new(weir_world::EMU) }).unwrap_err().to_string();
        assert!(message.starts_with("--only \"no such thing\""), "{message}");
    }
}

#[test]
fn several_texts_choose_what_has_any_of_them() {
    let suite = find("rfc7928").unwrap();
    let chosen = |only: &[&str]| {
        let only = only.iter().map(|text| (*text).to_owned()).collect();
        let jobs = suite.jobs(&Plan { only, ..Plan::new(weir_world::EMU) }).unwrap();
        let mut entries: Vec<usize> = jobs.iter().map(|(entry, _, _)| *entry).collect();
        entries.dedup();
        entries
    };
    let [first, last] = [0, suite.scenarios.len() - 1];
    let name = |index: usize| suite.scenarios[index].name.as_str();
    assert_eq!(
        (chosen(&[name(first)]), chosen(&[name(last), name(first)])),
        (vec![first], vec![first, last])
    );
    assert_eq!(chosen(&[]).len(), suite.scenarios.len());
}

#[test]
fn another_link_does_not_count_for_the_bottleneck() {
    let suite = find("rfc7928").unwrap();
    let only = vec!["Two AQMs in a row".to_owned()];
    let plan = Plan { only, qdiscs: vec!["codel".to_owned()], ..Plan::new(SIM) };
    let (_, _, mut job) = suite.jobs(&plan).unwrap().remove(0);
    job.scenario.flows.iter_mut().for_each(|flow| flow.duration = flow.duration.map(|time| time / 5));
    let result = SIM.run(&job.scenario, &RunOptions::new(&AtomicBool::new(false))).unwrap();
    let row = Row::measure("10", "", "codel", &result, 10.0);
    assert!((0.8..=1.01).contains(&row.utilisation), "{}", row.utilisation);
    assert!(row.seconds.iter().all(|second| second.rate_bps <= 10.1e6), "{:?}", row.seconds);
    assert_eq!(row.queues.len(), 2, "each queue has its own row");
    let own = row.queues[0].mean_ms;
    assert!((row.delay_mean_ms - own).abs() < 1e-9, "{} and {own}", row.delay_mean_ms);
}
