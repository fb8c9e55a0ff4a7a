//! How a hunt looks for the worst: each way asks for the scores of many points at a time, and never twice differently
//! for one seed.
//!
//! A point has a number from 0 to 1 for each coordinate; higher scores are better, and a point may have none. The
//! points of one question do not depend on each other's scores, so that as many run side by side as the machine has
//! processors, and the search is the same whatever their number.

use serde::{Deserialize, Serialize};
use weir_core::{Random, Seed};

use crate::cma::Cma;

/// Gives the scores of points, or none when the search has to end.
pub(crate) type Ask<'a> = dyn FnMut(&[Vec<f64>]) -> Option<Vec<Option<f64>>> + 'a;

/// Points by lot that are asked for together.
const LOTS: usize = 24;

/// A way to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Search {
    /// Evolution strategy with covariance matrix adaptation.
    #[default]
    CmaEs,
    /// Points by lot.
    Random,
}

impl Search {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::CmaEs, Self::Random];

    /// What the file calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CmaEs => "cma-es",
            Self::Random => "random",
        }
    }

    /// Asks for points of so many coordinates until `ask` has had enough.
    pub(crate) fn run(self, coordinates: usize, seed: u64, ask: &mut Ask<'_>) {
        let mut random = Seed { seed, run: 0 }.stream("hunt");
        match self {
            Self::Random => while ask(&lots(coordinates, &mut random)).is_some() {},
            Self::CmaEs => cma_es(coordinates, &mut random, ask),
        }
    }
}

fn lots(coordinates: usize, random: &mut Random) -> Vec<Vec<f64>> {
    (0..LOTS).map(|_| (0..coordinates).map(|_| random.unit()).collect()).collect()
}

/// A generation whose scores differ by less than this part of all that have been seen has nothing more to find.
const FLAT: f64 = 0.03;

/// A cloud around the middle of all ranges; once nothing more comes of it another one, of twice as many points, around the
/// best of some lots.
fn cma_es(coordinates: usize, random: &mut Random, ask: &mut Ask<'_>) {
    // (48)
    let mut size = 4 + (3.0 * libm::log(coordinates as f64)).floor() as usize;
    let mut begin = vec![0.5; coordinates];
    let mut all = Range::default();
    loop {
        let mut cloud = Cma::new(begin, size);
        loop {
            let Some((points, range)) = ranked(cloud.ask(random), ask) else { return };
            cloud.tell(&points);
            all = all.with(range);
            if cloud.is_over() || range.length() < FLAT * all.length() {
                break;
            }
        }
        let Some((points, range)) = ranked(lots(coordinates, random), ask) else { return };
        all = all.with(range);
        begin = points[0].clone();
        size *= 2;
    }
}

/// From the lowest to the highest of some scores.
#[derive(Clone, Copy)]
struct Range {
    low: f64,
    high: f64,
}

impl Default for Range {
    fn default() -> Self {
        Self { low: f64::INFINITY, high: f64::NEG_INFINITY }
    }
}

impl Range {
    fn with(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    fn length(self) -> f64 {
        (self.high - self.low).max(0.0)
    }
}

/// The points, the best first and those without a score last, and the range of the scores. A point beyond the ranges has
/// the score of the nearest one within, less the more the farther it is: a range's length away as much as the best and
/// the worst differ by.
fn ranked(points: Vec<Vec<f64>>, ask: &mut Ask<'_>) -> Option<(Vec<Vec<f64>>, Range)> {
    let inside = |point: &Vec<f64>| -> Vec<f64> { point.iter().map(|unit| unit.clamp(0.0, 1.0)).collect() };
    let beyond =
        |point: &[f64]| -> f64 { point.iter().map(|unit| (unit - unit.clamp(0.0, 1.0)).powi(2)).sum() };
    let scores = ask(&points.iter().map(inside).collect::<Vec<_>>())?;
    let range = scores
        .iter()
        .flatten()
        .fold(Range::default(), |range, score| range.with(Range { low: *score, high: *score }));
    let value = |score: &Option<f64>, point: &[f64]| match score {
        Some(score) => score - range.length() * beyond(point),
        None => f64::NEG_INFINITY,
    };
    let mut all: Vec<(f64, Vec<f64>)> =
        scores.iter().zip(points).map(|(score, point)| (value(score, &point), point)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    Some((all.into_iter().map(|(_, point)| point).collect(), range))
}

#[cfg(test)]
mod tests {
    use super::Search;

    /// Everything that a search asks for within `budget` points, of a function of two numbers and one of three values.
    fn asked(search: Search, seed: u64, budget: usize) -> (Vec<Vec<f64>>, f64) {
        let (mut all, mut best) = (Vec::new(), f64::NEG_INFINITY);
        let mut ask = |points: &[Vec<f64>]| {
            let score = |point: &Vec<f64>| {
                let bowl = -(point[0] - 0.7).powi(2) - (point[1] - 0.2).powi(2);
                let kind = (point[2] * 3.0).floor().min(2.0);
                // Half of a corner has no score.
                (point[0] + point[1] < 1.8).then_some(bowl - (kind - 1.0).abs())
            };
            let scores: Vec<Option<f64>> = points.iter().map(score).collect();
            best = scores.iter().flatten().copied().fold(best, f64::max);
            all.extend_from_slice(points);
            (all.len() < budget).then_some(scores)
        };
        search.run(3, seed, &mut ask);
        (all, best)
    }

    #[test]
    fn a_search_is_the_same_for_its_seed_and_stays_inside() {
        for search in Search::ALL {
            let (points, _) = asked(search, 7, 300);
            assert!(points.len() >= 300, "{search:?} ended after {}", points.len());
            assert!(points.iter().flatten().all(|unit| (0.0..=1.0).contains(unit)), "{search:?}");
            assert_eq!(asked(search, 7, 300).0, points, "{search:?}");
            assert_ne!(asked(search, 8, 300).0, points, "{search:?}");
        }
    }

    #[test]
    fn who_learns_comes_nearer_than_lots_do() {
        let mean = |search| (0..5).map(|seed| asked(search, seed, 300).1).sum::<f64>() / 5.0;
        let (found, lots) = (mean(Search::CmaEs), mean(Search::Random));
        assert!(found > lots && found > -1e-4, "{found}, by lot {lots}");
    }
}
