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
    let utilisation = row.utilisation.unwrap();
    assert!((0.8..=1.01).contains(&utilisation), "{utilisation}");
    assert!(row.seconds.iter().all(|second| second.rate_bps <= 10.1e6), "{:?}", row.seconds);
    assert_eq!(row.queues.len(), 2, "each queue has its own row");
    let (link, own) = (row.delay_mean_ms.unwrap(), row.queues[0].mean_ms.unwrap());
    assert!((link - own).abs() < 1e-9, "{link} and {own}");
}

/// What a suite says of a flow of 3 s, and what of it it warns of, if all counts from `from_s` on.
fn measured_from(from_s: &str, qdisc: &str) -> Result<super::SuiteResult, String> {
    let read = |name: &str| {
        Ok(match name {
            "suite.toml" => format!(
                "title = 'x'\nsource = 'x'\nabout = 'x'\nqdiscs = ['{qdisc}']\n\
                 [[scenario]]\nfile = 'a.toml'\nsection = '1'\ntitle = 'x'\nlook = 'x'\nfrom_s = {from_s}\n"
            ),
            _ => "[bottleneck]\nrate = '10mbit'\nrtt = '20ms'\nqdisc = 'pfifo'\n\
                  [[flow]]\nstack = 'tcp'\ncontroller = 'cubic'\nduration = '3s'\n"
                .to_owned(),
        })
    };
    let suite = super::load("mine", "here/mine", &read).map_err(|error| error.to_string())?;
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let options = crate::engine::Options {
        out: folder.path().to_owned(),
        jobs: Some(1),
        retry_failed: true,
        run: RunOptions::new(&stop),
        progress: &|_| {},
    };
    Ok(super::run(&suite, &Plan::new(SIM), &options).unwrap())
}

#[test]
fn a_run_that_ends_before_it_counts_has_no_numbers_and_a_warning() {
    for (from_s, measures) in [("0", true), ("2.0", true), ("3.5", false), ("1000000", false)] {
        let result = measured_from(from_s, "codel").unwrap();
        let row = &result.rows[0];
        assert_eq!(row.utilisation.is_some(), measures, "{from_s}: {row:?}");
        assert_eq!(row.delay_mean_ms.is_some() && row.flows[0].rate_bps.is_some(), measures, "{row:?}");
        assert_eq!(row.dropped.is_some() && row.marked.is_some(), measures, "{row:?}");
        let warned = result.warnings.iter().any(|text| text.contains(&format!("before from_s = {from_s},")));
        assert_eq!(warned, !measures, "{:?}", result.warnings);
        let link = super::table::csv(&result.rows).lines().nth(1).unwrap().to_owned();
        assert_eq!(link.ends_with(",,,,,,,"), !measures, "{link}");
    }
    for from_s in ["-5", "-0.5", "nan", "inf"] {
        let message = measured_from(from_s, "codel").unwrap_err();
        assert!(message.contains("line 10") && message.contains("from_s"), "{message}");
    }
}

#[test]
fn a_queue_through_which_nothing_went_has_no_delay() {
    let result = measured_from("0", "dualpi2").unwrap();
    let [classic, l4s] = &result.rows[0].queues[..] else { panic!("{:?}", result.rows[0].queues) };
    assert!(classic.mean_ms.is_some_and(|ms| ms > 0.0) && classic.p99_ms.is_some(), "{classic:?}");
    assert_eq!((l4s.mean_ms, l4s.p99_ms), (None, None), "Cubic without ECN is not let in");
    let csv = super::table::csv(&result.rows);
    let row = csv.lines().find(|line| line.contains(&format!(",{},", l4s.name))).unwrap();
    assert!(row.ends_with(",,,,,,,"), "{row}");
    let json = serde_json::to_value(&result).unwrap();
    assert!(json["rows"][0]["queues"][1]["mean_ms"].is_null());
}

/// A suite of one scenario whose flow lasts so long, behind one discipline.
fn suite_of(duration: &str, qdisc: &str) -> super::Suite {
    let read = |name: &str| {
        let text = match name {
            "suite.toml" => {
                "title = 'x'\nsource = 'x'\nabout = 'x'\nqdiscs = ['QDISC']\n\
                 [[scenario]]\nfile = 'a.toml'\nsection = '1'\ntitle = 'x'\nlook = 'x'"
            }
            _ => {
                "[bottleneck]\nrate = '10gbit'\nrtt = '1ms'\nqdisc = 'pfifo'\n\
                 [[flow]]\nstack = 'tcp'\ncontroller = 'cubic'\nduration = 'DURATION'\n\
                 [measure]\ntimeout = '400000s'"
            }
        };
        Ok(text.replace("DURATION", duration).replace("QDISC", qdisc))
    };
    super::load("mine", "here/mine", &read).unwrap()
}

#[test]
fn only_what_a_discipline_is_at_fault_for_is_held_against_it() {
    let said = |duration: &str, qdisc: &str| {
        let plan = Plan { qdiscs: vec![qdisc.to_owned()], ..Plan::new(weir_world::SIM) };
        suite_of(duration, "codel").jobs(&plan).unwrap_err().to_string()
    };
    let message = said("300000s", "codel");
    let expected = "here/mine/a.toml: line 5: flow 1 ('TCP cubic'): the run would need ";
    assert!(message.starts_with(expected), "{message}");
    let message = said("1s", "pfifo limit 0p");
    let expected = "--qdisc \"pfifo limit 0p\": here/mine/a.toml: line 4: bottleneck.qdisc: limit: ";
    assert!(message.starts_with(expected), "{message}");
    let plan = Plan::new(weir_world::SIM);
    let message = suite_of("1s", "codle").jobs(&plan).unwrap_err().to_string();
    let expected = "here/mine/suite.toml: qdiscs: \"codle\": ";
    assert!(message.starts_with(expected), "{message}");
}
