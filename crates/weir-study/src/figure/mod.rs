//! The papers' figures as commands: a setting, runs in a world, the paper's numbers and ours side by side.
//!
//! A figure over the values of some keys is a `figure.toml` and a sweep's file, and its line in `swept::FIGURES`: what
//! is drawn and what is said of it are in the file (`swept`). Any other is a file here that implements [`OfRuns`], a
//! `figure.toml` with its setting and the paper's numbers, and its lines in [`all`]. The table `about` ([`About`]) has
//! the names of its axes, as many as it needs, and how its values are written and drawn; table, page and JSON follow
//! from that.

mod about;
mod cell;
mod crq4;
mod crq5;
mod fq_accuracy;
mod fq_over_time;
mod fq_systematic;
mod law;
mod made;
mod page;
mod run;
mod setting;
mod swept;
mod table;

use std::borrow::Cow;
use std::collections::HashMap;

use include_dir::{Dir, File, include_dir};
use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_core::words::nearest;

use crate::batch::{self, Batch};
use crate::engine::{Job, Options, StudyError};
use weir_report::result::RunResult;
use weir_report::spread::mean;
use weir_world::{SIM, World};

pub use about::{About, Plot, Value, Variant};
pub use cell::{Cell, Place};
pub use made::{Outline, made};
pub use run::{FigureError, run};
pub use weir_report::statement::{Cause, Statement};
pub use weir_report::verdict::Verdict;

/// A figure of a paper.
pub trait Figure: Sync {
    /// What it is, in what settings it can be made, and what its cells hold.
    fn about(&self) -> &About;

    /// The runs that it takes. Cells that share a run share its scenario.
    fn jobs(&self, plan: &Plan) -> Vec<Job>;

    /// Makes the runs that have no result yet, and what they come to.
    ///
    /// # Errors
    /// If results cannot be written.
    fn make(&self, plan: &Plan, jobs: &[Job], options: &Options) -> Result<Made, StudyError>;
}

/// A figure whose runs each have a folder with their tables.
pub trait OfRuns: Sync {
    /// See [`Figure::about`].
    fn about(&self) -> &About;

    /// See [`Figure::jobs`]; those that [`Plan::only`] does not name are taken out of these.
    fn jobs(&self, plan: &Plan) -> Vec<Job>;

    /// What the runs come to: one result per job, in the same order, or why it failed. Samples over time are with them
    /// if the plot is [`Plot::Time`].
    fn reduce(&self, plan: &Plan, jobs: &[Job], results: &[Result<RunResult, String>]) -> Findings;

    /// Whether the same jobs run in world `sim` as well, to be compared.
    fn is_beside_sim(&self, _: &Plan) -> bool {
        false
    }

    /// What the comparison says: the results in the plan's world, and those in world `sim`.
    fn beside_sim(&self, _: &Plan, _: &[Job], _: [&[Result<RunResult, String>]; 2]) -> Vec<Statement> {
        Vec::new()
    }
}

impl<T: OfRuns> Figure for T {
    fn about(&self) -> &About {
        OfRuns::about(self)
    }

    fn jobs(&self, plan: &Plan) -> Vec<Job> {
        let mut jobs = OfRuns::jobs(self, plan);
        jobs.retain(|job| plan.wants(&job.name));
        jobs
    }

    fn make(&self, plan: &Plan, jobs: &[Job], options: &Options) -> Result<Made, StudyError> {
        let batch = batch::run(jobs, plan.world, options)?;
        let whole = |(job, result)| batch::whole(&options.out, job, result);
        let results = match OfRuns::about(self).plot {
            // Samples over time are in the runs' folders only.
            Plot::Time => Cow::Owned(jobs.iter().zip(&batch.results).map(whole).collect()),
            _ => Cow::Borrowed(&batch.results),
        };
        let mut findings = self.reduce(plan, jobs, &results);
        let mut warnings = batch::warnings(jobs, &batch.results);
        let mut batches = vec![batch];
        if self.is_beside_sim(plan) {
            let in_sim = |job: &Job| Job { name: format!("{}, in sim", job.name), ..job.clone() };
            let in_sim: Vec<Job> = jobs.iter().map(in_sim).collect();
            let sim = batch::run(&in_sim, SIM, options)?;
            findings.statements.extend(self.beside_sim(plan, jobs, [&batches[0].results, &sim.results]));
            warnings.extend(batch::warnings(&in_sim, &sim.results));
            batches.push(sim);
        }
        let sum = |count: fn(&Batch) -> usize| batches.iter().map(count).sum();
        Ok(Made {
            findings,
            warnings,
            continued: sum(|batch| batch.continued),
            damaged: sum(|batch| batch.damaged),
            missing: sum(|batch| batch.missing),
            batches,
        })
    }
}

/// A figure's runs, made.
pub struct Made {
    findings: Findings,
    warnings: Vec<String>,
    continued: usize,
    damaged: usize,
    missing: usize,
    /// To be closed when all is made and written; none where results stay.
    batches: Vec<Batch>,
}

/// How a figure is to be made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the runs go on.
    pub world: &'static dyn World,
    /// The variant's name.
    pub variant: String,
    /// A tenth of the rate and of the bytes.
    pub quick: bool,
    /// Runs per cell; none for the figure's own number.
    pub runs: Option<u32>,
    /// The seed of all runs.
    pub seed: u64,
    /// Only jobs whose name contains this.
    pub only: Option<String>,
}

impl Plan {
    /// Whether runs, or cells, of that name are asked for.
    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// Runs per cell, of which a figure has a number of its own, and another one where it is to be quick.
    fn runs_of(&self, full: u32, quick: u32) -> u32 {
        self.runs.unwrap_or(if self.quick { quick } else { full })
    }
}

/// What the runs of a figure come to.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Each names a place on all axes of [`About::axes`].
    pub cells: Vec<Cell>,
    /// What the paper says, and whether it held here.
    pub statements: Vec<Statement>,
    /// What the figure draws itself, if its plot is [`Plot::Own`].
    pub html: String,
    /// What stands below the table for the terminal.
    pub text: String,
}

/// A figure, made.
#[derive(Clone, Debug, Serialize)]
pub struct FigureResult {
    /// The figure's id.
    pub figure: String,
    /// The world it was made in.
    pub world: String,
    /// The seed of all runs.
    pub seed: u64,
    /// The variant's name.
    pub variant: String,
    /// Whether rate and bytes were a tenth of the paper's.
    pub quick: bool,
    /// Runs that an earlier command had made, which was stopped or had failed runs.
    pub continued: usize,
    /// Runs of an earlier command whose files were changed since; they ran again.
    #[serde(skip)]
    pub damaged: usize,
    /// Runs without result.
    pub missing: usize,
    /// The version that made it.
    pub version: &'static str,
    /// How long that took, in seconds on the wall clock; without runs of an earlier command.
    pub took_s: f64,
    /// What its runs are made of, as a checksum: build, world, kernel, scenarios, seeds, run numbers.
    pub made_of: String,
    /// One per cell.
    pub rows: Vec<Cell>,
    /// What the paper says, and whether it held here.
    pub statements: Vec<Statement>,
    /// Runs that failed or are doubtful, in words.
    pub warnings: Vec<String>,
    /// A table for the terminal.
    #[serde(skip)]
    pub table: String,
    /// The plot and the tables as a self-contained page.
    #[serde(skip)]
    pub html: String,
}

/// All figures: a line for each.
pub fn all() -> Vec<Box<dyn Figure>> {
    let mut all: Vec<Box<dyn Figure>> =
        vec![Box::new(built_in::<crq4::Crq4>("crq/4")), Box::new(built_in::<crq5::Crq5>("crq/5"))];
    all.extend(fq_over_time::load().map(|figure| Box::new(figure) as Box<dyn Figure>));
    all.push(Box::new(built_in::<fq_accuracy::Accuracy>("fq/accuracy")));
    all.push(Box::new(built_in::<fq_systematic::Systematic>("fq/systematic")));
    all.extend(law::load());
    all.extend(swept::load().map(|figure| Box::new(figure) as Box<dyn Figure>));
    all
}

/// The folder `figures`: settings of figures, and grids.
static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/figures");

/// A file of that folder.
fn text(path: &str) -> Option<&'static str> {
    FILES.get_file(path).and_then(File::contents_utf8)
}

/// The figure, or its setting, as the `figure.toml` in the folder `id` has it.
///
/// # Panics
/// If the file is not there or wrong; the tests load all.
fn built_in<T: DeserializeOwned>(id: &str) -> T {
    let path = format!("{id}/figure.toml");
    let text = text(&path).unwrap_or_else(|| panic!("there is no figures/{path}"));
    toml::from_str(text).unwrap_or_else(|error| panic!("figures/{path}: {error}"))
}

/// The figure called `id`.
///
/// # Errors
/// A message that names the nearest known figure.
pub fn find(id: &str) -> Result<Box<dyn Figure>, String> {
    let known: Vec<String> = all().iter().map(|figure| figure.about().id.clone()).collect();
    all().into_iter().find(|figure| figure.about().id == id).ok_or_else(|| {
        let near = nearest(id, known).map_or_else(String::new, |near| format!("did you mean '{near}'? "));
        format!("there is no figure '{id}'; {near}`weir figure list` shows all")
    })
}

/// The results of jobs by their names.
fn by_name<'a>(
    jobs: &'a [Job],
    results: &'a [Result<RunResult, String>],
) -> HashMap<&'a str, &'a Result<RunResult, String>> {
    jobs.iter().map(|job| job.name.as_str()).zip(results).collect()
}

#[cfg(test)]
mod tests {
    use super::{Plan, all, find};

    #[test]
    fn every_figure_plans_sound_scenarios_in_every_variant() {
        for figure in all() {
            let about = figure.about();
            for variant in &about.variants {
                for quick in [false, true] {
                    let plan = Plan {
                        world: weir_world::EMU,
                        variant: variant.name.clone(),
                        quick,
                        runs: None,
                        seed: 1,
                        only: None,
                    };
                    let jobs = figure.jobs(&plan);
                    assert!(!jobs.is_empty());
                    let mut names: Vec<_> = jobs.iter().map(|job| job.name.clone()).collect();
                    names.sort();
                    names.dedup();
                    assert_eq!(names.len(), jobs.len(), "names of {} are not unique", about.id);
                    // Of a grid of thousands some hundred.
                    for job in jobs.iter().step_by(1 + jobs.len() / 400) {
                        let text = toml::to_string(&job.scenario).unwrap();
                        weir_scenario::Scenario::parse(&text, &job.name).unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn a_misspelt_figure_gets_its_nearest() {
        let message = find("crq-5").err().unwrap();
        assert!(message.contains("did you mean 'crq/5'"), "{message}");
    }
}
