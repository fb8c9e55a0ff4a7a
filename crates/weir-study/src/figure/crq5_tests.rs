//! How near a score must be to the paper's.

use super::super::{Verdict, built_in};
use super::{Cell, Crq5, Place, statements};

/// What is said of drop-tail at 5 ms if each score of two runs is as far from the paper's.
fn verdict(difference: f64) -> Verdict {
    let Crq5 { about, published, pair, .. } = built_in("crq/5");
    let cell = |(row, scores): (&String, &Vec<f64>)| Cell {
        paper: Some(scores[0]),
        runs: vec![scores[0] + difference; 2],
        ..Cell::at(Place::new(&about, [row.as_str(), &pair[0].name, "5ms"]))
    };
    let said = statements(&published.iter().map(cell).collect::<Vec<_>>());
    said.into_iter().find(|said| said.paper == "0.66, 0.64, 0.70").unwrap().verdict
}

#[test]
fn scores_off_by_more_than_a_tenth_are_not_the_papers() {
    assert_eq!(verdict(0.09), Verdict::Holds);
    assert_eq!(verdict(0.11), Verdict::DoesNot);
    assert_eq!(verdict(-0.11), Verdict::DoesNot);
}
