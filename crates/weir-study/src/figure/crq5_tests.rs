//! How near a score must be to the paper's.

use super::super::{Verdict, built_in};
use super::{Cell, Crq5, Place, statements};

/// What is said of drop-tail at 5 ms, by what the paper has of it, if two runs have `score` where the paper has another.
fn verdict(paper: &str, score: impl Fn(f64) -> f64) -> Verdict {
    verdict_of(paper, |_, paper| vec![score(paper); 2])
}

/// The same with the scores of each kind of flow.
fn verdict_of(paper: &str, runs: impl Fn(&str, f64) -> Vec<f64>) -> Verdict {
    let Crq5 { about, published, pair, .. } = built_in("crq/5");
    let cell = |(row, scores): (&String, &Vec<f64>)| Cell {
        paper: Some(scores[0]),
        runs: runs(row, scores[0]),
        ..Cell::at(Place::new(&about, [row.as_str(), &pair[0].name, "5ms"]))
    };
    let said = statements(&published.iter().map(cell).collect::<Vec<_>>());
    said.into_iter().find(|said| said.paper == paper).unwrap().verdict
}

#[test]
fn scores_off_by_more_than_a_tenth_are_not_the_papers() {
    let near = |difference| verdict("0.66, 0.64, 0.70", |paper| paper + difference);
    assert_eq!(near(0.09), Verdict::Holds);
    assert_eq!(near(0.11), Verdict::DoesNot);
    assert_eq!(near(-0.11), Verdict::DoesNot);
}

#[test]
fn parity_is_not_sooner() {
    assert_eq!(verdict("0.16 to 0.76", |_| 0.0), Verdict::DoesNot);
    assert_eq!(verdict("0.16 to 0.76", |_| 0.01), Verdict::Holds);
}

#[test]
fn of_every_setting_nothing_holds_while_one_is_missing() {
    let without_bbr = |score: f64| {
        verdict_of("0.16 to 0.76", |row, _| if row.contains("BBR") { Vec::new() } else { vec![score; 2] })
    };
    assert_eq!(without_bbr(0.5), Verdict::CannotTell);
    assert_eq!(without_bbr(-0.5), Verdict::DoesNot, "one is enough");
}
