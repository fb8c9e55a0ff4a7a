//! Sentences of a paper as bounds of a number, over some cells, in each run.

use super::cells::Combination;
use super::extract::Extract;
use super::file::{AxisFile, Claim, Fold, Where};
use crate::figure::{Cause, Statement, Verdict};
use weir_report::spread::Spread;

/// The combinations of a figure and what their runs came to, a row for each combination and a column for each run.
pub(super) struct Table<'a> {
    pub(super) axes: &'a [AxisFile],
    pub(super) combinations: &'a [Combination],
    pub(super) runs: Vec<Vec<Option<&'a Extract>>>,
}

impl Table<'_> {
    /// The combinations of the figure's own grid, or of another, that have these labels.
    pub(super) fn select(&self, grid: Option<&str>, cells: &Where) -> Vec<usize> {
        let is_of = |one: &Combination| grid.map_or(one.is_main, |grid| one.grid == grid);
        let all = self.combinations.iter().enumerate();
        all.filter(|(_, one)| is_of(one) && one.is_in(self.axes, cells)).map(|(index, _)| index).collect()
    }

    /// What a combination is called by its labels on some axes.
    pub(super) fn name(&self, index: usize, axes: impl IntoIterator<Item = usize>) -> String {
        let labels = axes.into_iter().map(|axis| (&self.axes[axis], &self.combinations[index].labels[axis]));
        // A grid need not have every axis.
        let there = labels.filter(|(_, label)| !label.is_empty());
        let named = there.map(|(axis, label)| match label.starts_with(|c: char| c.is_ascii_digit()) {
            // A number alone does not say what it is.
            true => format!("{} {label}", axis.name),
            false => label.clone(),
        });
        named.collect::<Vec<_>>().join(", ")
    }

    /// The combination that a claim holds this one against, if there is one.
    fn other(&self, claim: &Claim, combination: usize) -> Option<usize> {
        let over = claim.over.as_ref()?;
        let mut labels = self.combinations[combination].labels.clone();
        for (name, label) in &over.labels {
            let place = self.axes.iter().position(|axis| axis.name == *name)?;
            labels[place].clone_from(label);
        }
        let grid = over.grid.as_ref().unwrap_or(&self.combinations[combination].grid);
        self.combinations.iter().position(|one| one.labels == labels && one.grid == *grid)
    }

    /// The number of a claim in a run of a combination.
    fn number(&self, claim: &Claim, combination: usize, run: usize) -> Option<f64> {
        let own = self.runs[combination].get(run).copied().flatten()?;
        let value = own.number(&claim.of, &claim.measure)? * claim.scale;
        let Some(over) = &claim.over else { return Some(value) };
        let other = self.runs[self.other(claim, combination)?].get(run).copied().flatten()?;
        let of = over.of.as_deref().unwrap_or(&claim.of);
        let measure = over.measure.as_deref().unwrap_or(&claim.measure);
        let ratio = value / (other.number(of, measure)? * claim.scale);
        // Something over nothing is more than any bound; nothing over nothing is no number.
        (!ratio.is_nan()).then_some(ratio)
    }

    /// A claim's number in each run that has all of its cells.
    fn values(&self, claim: &Claim, selected: &[usize]) -> Vec<f64> {
        let runs = selected.iter().map(|index| self.runs[*index].len()).max().unwrap_or(0);
        let of_run = |run: usize| {
            let is_there = |index: usize| self.runs[index].get(run).is_some_and(Option::is_some);
            let has_both = |index: &usize| is_there(*index) && self.other(claim, *index).is_none_or(is_there);
            // A number that a cell cannot have, such as a delay of a class without flows, is no loss.
            if !selected.iter().all(has_both) {
                return None;
            }
            let cells: Vec<f64> =
                selected.iter().filter_map(|index| self.number(claim, *index, run)).collect();
            if cells.is_empty() {
                return None;
            }
            let count = cells.len() as f64;
            if let Some(bounds) = claim.within {
                let holds = cells.iter().filter(|value| bounds.hold(**value)).count();
                return Some(100.0 * holds as f64 / count);
            }
            Some(match claim.fold {
                Fold::Mean => cells.iter().sum::<f64>() / count,
                Fold::Least => cells.into_iter().fold(f64::INFINITY, f64::min),
                Fold::Most => cells.into_iter().fold(f64::NEG_INFINITY, f64::max),
            })
        };
        (0..runs).filter_map(of_run).collect()
    }

    /// What the runs say of a claim.
    pub(super) fn statement(&self, claim: &Claim) -> Statement {
        let judged = self.judge(claim, claim.grid.as_deref(), &claim.cells);
        let cause = claim.cause.as_ref().filter(|_| judged.verdict != Verdict::Holds).map(|cause| {
            let mut cells = claim.cells.clone();
            cells.extend(cause.cells.clone());
            let judged = self.judge(claim, cause.grid.as_deref().or(claim.grid.as_deref()), &cells);
            Cause { text: cause.text.clone(), measured: judged.measured(), verdict: judged.verdict }
        });
        Statement {
            text: claim.text.clone(),
            paper: claim.paper.clone(),
            at: claim.at.clone(),
            measured: judged.measured(),
            verdict: judged.verdict,
            interval: judged.interval,
            cause,
        }
    }

    /// A claim of some cells, or of those with each label of an axis, which must all hold.
    fn judge(&self, claim: &Claim, grid: Option<&str>, cells: &Where) -> Judged {
        let selected = self.select(grid, cells);
        let each = claim.each.as_ref().and_then(|each| self.axes.iter().position(|axis| axis.name == *each));
        let Some(each) = each else { return Judged::of(claim, &self.values(claim, &selected)) };
        let mut parts: Vec<(&str, Vec<usize>)> = Vec::new();
        for index in selected {
            let label = self.combinations[index].labels[each].as_str();
            match parts.iter_mut().find(|(other, _)| *other == label) {
                Some((_, part)) => part.push(index),
                None => parts.push((label, vec![index])),
            }
        }
        let parts: Vec<(&str, Judged)> = parts
            .into_iter()
            .map(|(label, part)| (label, Judged::of(claim, &self.values(claim, &part))))
            .collect();
        if parts.is_empty() {
            return Judged::of(claim, &[]);
        }
        let number: Vec<String> =
            parts.iter().map(|(label, part)| format!("{label} {}", part.number)).collect();
        Judged {
            number: number.join(", "),
            runs: parts.iter().map(|(_, part)| part.runs).min().unwrap_or_default(),
            verdict: Verdict::of_all(parts.iter().map(|(_, part)| part.verdict)),
            interval: None,
        }
    }
}

/// What the runs come to.
struct Judged {
    /// In words, a mean with its confidence.
    number: String,
    runs: usize,
    verdict: Verdict,
    interval: Option<[f64; 2]>,
}

impl Judged {
    /// Of a number in each run.
    fn of(claim: &Claim, values: &[f64]) -> Self {
        let runs = values.len();
        let without_bound = values.iter().filter(|value| value.is_infinite()).count();
        if without_bound > 0 {
            // A mean says nothing of these.
            let verdict = if claim.most.is_some() { Verdict::DoesNot } else { Verdict::CannotTell };
            return Self {
                number: format!("without bound in {without_bound},"),
                runs,
                verdict,
                interval: None,
            };
        }
        let Some(spread) = Spread::of(values) else {
            return Self {
                number: "not measured".to_owned(),
                runs,
                verdict: Verdict::CannotTell,
                interval: None,
            };
        };
        let unit = if claim.within.is_some() { "% of cells" } else { &claim.unit };
        let number = spread.words(claim.decimals);
        Self {
            number: if unit.is_empty() { number } else { format!("{number} {unit}") },
            runs,
            verdict: Verdict::of(&spread, claim.least, claim.most),
            interval: spread.interval(),
        }
    }

    fn measured(&self) -> String {
        let number = &self.number;
        match self.runs {
            0 => number.clone(),
            1 => format!("{number} in one run"),
            runs => format!("{number} over {runs} runs"),
        }
    }
}
