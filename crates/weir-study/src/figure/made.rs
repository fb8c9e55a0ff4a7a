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
mod tests {
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
        for (statement, verdict) in result.statements.iter_mut().zip([Verdict::DoesNot, Verdict::CannotTell])
        {
            statement.verdict = verdict;
        }
        write(&result);
        assert_eq!(made(&plan).unwrap().verdicts, [0, 1, 1]);
        result.missing = 1;
        write(&result);
        assert_eq!(made(&plan), None, "a run is missing");
    }
}
