//! Figures that are there already.

use std::fs;
use std::sync::atomic::AtomicBool;

use weir_world::RunOptions;

use super::super::{Plan, find, run};
use super::{FigureResult, Outline, Verdict, made};
use crate::engine::Options;

#[test]
fn a_figure_is_taken_as_it_is_if_whole_and_of_the_same_scenarios() {
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let options = Options::new(folder.path(), RunOptions::new(&stop));
    let figure = find("fq/2").unwrap();
    let variant = figure.about().variants[0].name.clone();
    let plan = Plan { world: weir_world::SIM, variant, quick: false, runs: None, seed: 1, only: None };
    let made = |plan: &Plan| made(figure.as_ref(), plan, &options).unwrap();
    assert_eq!(made(&plan), None, "nothing is there");

    let mut result = run(figure.as_ref(), &plan, &options).unwrap();
    let kept = made(&plan).expect("the figure is whole");
    assert_eq!(kept.verdicts.iter().sum::<usize>(), 2);
    // JSON may lose the last bit of a number.
    assert!((kept.took_s - result.took_s).abs() < 1e-9);
    assert_eq!(Outline { took_s: result.took_s, ..kept }, Outline::from(&result));
    assert_eq!(made(&Plan { seed: 2, ..plan.clone() }), None, "its scenarios have another seed");
    assert_eq!(made(&Plan { quick: true, ..plan.clone() }), None, "its scenarios have another rate");

    let write = |result: &FigureResult| {
        fs::write(folder.path().join("figure.json"), serde_json::to_string(result).unwrap()).unwrap();
    };
    for (statement, verdict) in result.statements.iter_mut().zip([Verdict::DoesNot, Verdict::CannotTell]) {
        statement.verdict = verdict;
    }
    write(&result);
    assert_eq!(made(&plan).unwrap().verdicts, [0, 1, 1]);
    result.missing = 1;
    write(&result);
    assert_eq!(made(&plan), None, "a run is missing");
}
