//! What a suite's file says.

use super::{Plan, all, find};

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
