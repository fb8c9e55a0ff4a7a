//! What an earlier command has made of a figure, so that many figures go on where they were stopped.

use std::fs;

use serde_json::Value;

use super::{Figure, FigureError, FigureResult, Plan, Verdict};
use crate::batch;
use crate::engine::Options;

/// A figure in a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outline {
    /// Statements that hold, do not, and of which it cannot be told.
    pub verdicts: [usize; 3],
    /// Seconds on the wall clock.
    pub took_s: f64,
    /// Runs without result.
    pub missing: usize,
    /// What a reader must know of runs.
    pub warnings: usize,
}

impl From<&FigureResult> for Outline {
    fn from(result: &FigureResult) -> Self {
        let count = |verdict| result.statements.iter().filter(|one| one.verdict == verdict).count();
        Self {
            verdicts: [Verdict::Holds, Verdict::DoesNot, Verdict::CannotTell].map(count),
            took_s: result.took_s,
            missing: result.missing,
            warnings: result.warnings.len(),
        }
    }
}

/// What the folder of `options` has of the figure, if it is whole and of the same build, scenarios, seeds and runs.
///
/// # Errors
/// If this program cannot be identified, or there is no guest to run in.
pub fn made(figure: &dyn Figure, plan: &Plan, options: &Options) -> Result<Option<Outline>, FigureError> {
    let made_of = batch::made_of(&figure.jobs(plan), plan.world, options)?;
    let text = fs::read(options.out.join("figure.json")).ok();
    let kept: Option<Value> = text.and_then(|text| serde_json::from_slice(&text).ok());
    Ok(kept.and_then(|kept| outline(&kept, &made_of)))
}

fn outline(kept: &Value, made_of: &str) -> Option<Outline> {
    let statements = kept["statements"].as_array()?;
    let is_same = kept["made_of"].as_str() == Some(made_of) && kept["missing"].as_u64() == Some(0);
    let count = |holds: Option<bool>| statements.iter().filter(|one| one["holds"].as_bool() == holds).count();
    is_same.then_some(Outline {
        verdicts: [count(Some(true)), count(Some(false)), count(None)],
        took_s: kept["took_s"].as_f64()?,
        missing: 0,
        warnings: kept["warnings"].as_array()?.len(),
    })
}

#[cfg(test)]
#[path = "made_tests.rs"]
mod tests;
