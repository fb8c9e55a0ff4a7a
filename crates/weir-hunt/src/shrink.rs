//! From what a hunt has found to what is behind it: genes go back to what the scenario has, flows go, numbers become
//! round, the run becomes short, as long as the effect stays.

use std::collections::BTreeSet;

use weir_scenario::Scenario;

use crate::draft::{Draft, end};
use crate::evaluate::{Evaluator, Value};
use crate::gene::Allele;
use crate::objective::flow_names;
use crate::{Hunt, HuntError};
use weir_study::sweep::Spread;

/// How much of the time is left where a run is cut.
const SHORTER: [f64; 2] = [0.5, 0.75];
/// Runs are not cut below this.
const LEAST_S: f64 = 2.0;

/// A candidate and what it came to.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) draft: Draft,
    pub(crate) spread: Spread,
}

/// What is held against each step.
pub(crate) struct Bound {
    /// Scores that are as good as what was found, up to the tolerance.
    least: f64,
}

impl Bound {
    /// All that keeps its distance from `neutral` but for a part.
    pub(crate) fn new(hunt: &Hunt, found: f64, neutral: f64) -> Self {
        let (found, neutral) = (hunt.objective.score(found), hunt.objective.score(neutral));
        Self { least: found - hunt.tolerance * (found - neutral).abs() }
    }
}

impl Hunt {
    /// The candidates' scenarios.
    pub(crate) fn scenarios(&self, drafts: &[Draft]) -> Vec<Result<Scenario, String>> {
        drafts.iter().map(|draft| self.scenario(draft).map_err(|error| error.to_string())).collect()
    }

    /// Takes away what can be taken away. `runs` is how many each step is judged by. What was reached is returned also
    /// where the command was interrupted.
    pub(crate) fn shrink(
        &self,
        found: Found,
        bound: &Bound,
        evaluator: &mut Evaluator<'_>,
    ) -> Result<Found, HuntError> {
        let mut least = found;
        loop {
            let before = least.draft.clone();
            while let Some(less) = self.first_of(self.without(&least.draft), bound, evaluator)? {
                least = less;
            }
            for gene in 0..self.genes.len() {
                for part in 0..self.genes[gene].parts.len() {
                    let round = self.rounder(&least.draft, gene, part);
                    least = self.first_of(round, bound, evaluator)?.unwrap_or(least);
                }
            }
            while let Some(less) = self.first_of(self.shorter(&least.draft), bound, evaluator)? {
                least = less;
            }
            if evaluator.is_stopped() || least.draft == before {
                return Ok(least);
            }
        }
    }

    /// The first of several candidates that is good enough.
    fn first_of(
        &self,
        drafts: Vec<Draft>,
        bound: &Bound,
        evaluator: &mut Evaluator<'_>,
    ) -> Result<Option<Found>, HuntError> {
        evaluator.total += drafts.len() * self.confirm as usize;
        let Some(values) = evaluator.values(&self.scenarios(&drafts), 0..self.confirm)? else {
            return Ok(None);
        };
        let good = drafts.into_iter().zip(values).find_map(|(draft, value)| match value {
            Value::Measured(spread) if self.objective.score(spread.mean) >= bound.least => {
                Some(Found { draft, spread })
            }
            _ => None,
        });
        Ok(good)
    }

    /// Without one flow, or without one gene.
    fn without(&self, draft: &Draft) -> Vec<Draft> {
        let mut all = Vec::new();
        if let Ok(scenario) = self.scenario(&Draft { without: Vec::new(), ..draft.clone() }) {
            let names = flow_names(&scenario);
            let named: BTreeSet<&String> =
                [Some(&self.objective.of), self.objective.beside.as_ref()].into_iter().flatten().collect();
            let is_named = |place: usize| {
                let before = scenario.flows[..place].iter().filter(|flow| flow.count > 0).count();
                names.get(before).is_some_and(|name| named.contains(name))
            };
            let others = (0..scenario.flows.len()).filter(|place| !is_named(*place));
            for place in others.filter(|place| !draft.without.contains(place)) {
                let mut less = draft.clone();
                less.without.push(place);
                for (gene, dropped) in self.genes.iter().zip(&mut less.dropped) {
                    *dropped |= gene.key.path.starts_with(&["flow".to_owned(), place.to_string()]);
                }
                all.push(less);
            }
        }
        for gene in (0..self.genes.len()).filter(|gene| !draft.dropped[*gene]) {
            let mut less = draft.clone();
            less.dropped[gene] = true;
            all.push(less);
        }
        all
    }

    /// With fewer digits in one number.
    fn rounder(&self, draft: &Draft, gene: usize, part: usize) -> Vec<Draft> {
        let allele = draft.alleles[gene][part];
        let Allele::Number(number) = allele else { return Vec::new() };
        if draft.dropped[gene] {
            return Vec::new();
        }
        let round = |digits| self.genes[gene].parts[part].rounded(number, digits);
        let mut rounds: Vec<Allele> = [1, 2].map(round).into_iter().collect();
        rounds.dedup();
        // What has fewer digits already stays.
        let rounds = rounds.into_iter().take_while(|round| *round != allele);
        let with = |round| {
            let mut less = draft.clone();
            less.alleles[gene][part] = round;
            less
        };
        rounds.map(with).collect()
    }

    /// With an earlier end.
    fn shorter(&self, draft: &Draft) -> Vec<Draft> {
        let Some(end) = self.scenario(draft).ok().and_then(|scenario| end(&scenario)) else {
            return Vec::new();
        };
        let whole = |part: f64| (end.as_secs_f64() * part).round();
        let ends = SHORTER.iter().map(|part| whole(*part)).filter(|end| *end >= LEAST_S);
        ends.filter(|seconds| *seconds < end.as_secs_f64())
            .map(|seconds| Draft {
                end: Some(weir_core::Duration::from_secs(seconds as u64)),
                ..draft.clone()
            })
            .collect()
    }
}
