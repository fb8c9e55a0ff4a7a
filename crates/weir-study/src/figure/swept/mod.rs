//! Figures over a sweep: a `figure.toml` says what the axes are called, which grids each variant has, what is drawn,
//! and what the paper says as bounds of numbers. A grid is a sweep's file, which `weir sweep` runs as well.
//!
//! Runs have no folders of their own: numbers, distributions and requests of each are kept under its address, and what
//! a figure beside this one has made is taken from there, so that figures of the same runs make them once.

mod beside;
mod cells;
mod claim;
mod draw;
mod extract;
mod file;

use std::path::Path;

use weir_report::output::OutputError;
use weir_world::{Clock, SIM};

use super::{About, Cell, Figure, Findings, Made, Place, Plan, built_in, text};
use crate::engine::{Job, Options, StudyError};
use cells::Combination;
use claim::Table;
use extract::{Extract, Extracts};
use file::File;

/// The figures, by their folders.
const FIGURES: &[&str] = &[
    "crq/udp-share",
    "law/attack",
    "dualq/3",
    "dualq/4",
    "dualq/7",
    "dualq/8",
    "dualq/9",
    "dualq/udp",
    "dualq/overload",
    "dualq/rtt",
    "dualq/protected",
    "scc/1",
    "scc/2",
    "scc/3",
    "scc/4",
    "scc/5",
    "scc/6",
    "scc/7",
    "scc/8",
    "scc/9",
    "scc/10",
    "scc/11",
    "scc/12",
    "scc/13",
    "scc/14",
    "scc/15",
    "scc/16",
    "scc/17",
    "scc/18",
];

/// All figures over sweeps.
pub(super) fn load() -> impl Iterator<Item = Swept> {
    FIGURES.iter().map(|id| Swept::of(built_in(id)))
}

/// The file of the grid that figures call so.
fn grid_text(name: &str) -> Option<&'static str> {
    #[cfg(test)]
    if name == "test" {
        return Some(include_str!("test_grid.toml"));
    }
    text(&format!("{name}.toml"))
}

/// A figure over a sweep.
pub(super) struct Swept {
    about: About,
    file: File,
}

impl Swept {
    fn of(mut file: File) -> Self {
        let published: Vec<_> = file.published.iter().flat_map(file::Published::claims).collect();
        file.claim.extend(published);
        let axes = file.axis.iter().map(|axis| axis.name.clone()).collect();
        Self { about: About { axes, ..file.about.clone() }, file }
    }

    fn runs(&self, plan: &Plan, one: &Combination) -> u32 {
        plan.runs_of(one.repeat.unwrap_or(self.file.runs), 1)
    }

    /// The combinations of a plan. Those of experiments are left out where only some cells are asked for.
    fn combinations(&self, plan: &Plan) -> Vec<Combination> {
        let mut all = cells::all(&self.file, &plan.variant, plan.quick);
        all.retain(|one| plan.wants(&one.name()));
        all
    }
}

impl Figure for Swept {
    fn about(&self) -> &About {
        &self.about
    }

    fn jobs(&self, plan: &Plan) -> Vec<Job> {
        let of = |one: Combination| {
            let (name, runs) = (one.name(), self.runs(plan, &one));
            let mut scenario = one.scenario;
            scenario.seed = plan.seed;
            let job = move |run| Job {
                name: format!("{name}, run {run}"),
                scenario: scenario.clone(),
                run: one.first_run + u64::from(run),
            };
            (0..runs).map(job).collect::<Vec<_>>()
        };
        self.combinations(plan).into_iter().flat_map(of).collect()
    }

    fn make(&self, plan: &Plan, jobs: &[Job], options: &Options) -> Result<Made, StudyError> {
        let (extracts, made) = extract::make(jobs, plan.world, options)?;
        let combinations = self.combinations(plan);
        let sim = self.in_sim(plan, jobs, options)?;
        let (findings, pictures) = self.reduce(plan, &combinations, &extracts, sim.as_ref());
        for (index, picture) in pictures.iter().enumerate() {
            write(&options.out.join(format!("figure-{}.svg", index + 1)), picture)?;
        }
        let is_doubt = |text: &&String| !self.file.expects.iter().any(|known| text.contains(known));
        let warn = |extracts: &Extracts, place: &str| {
            let each = jobs.iter().zip(extracts).flat_map(|(job, extract)| {
                let all = match extract {
                    Ok(extract) => extract.warnings.iter().filter(is_doubt).cloned().collect(),
                    Err(error) => vec![error.clone()],
                };
                all.into_iter().map(move |text| format!("{}{place}: {text}", job.name))
            });
            each.collect::<Vec<_>>()
        };
        let mut warnings = warn(&extracts, "");
        warnings.extend(sim.iter().flat_map(|sim| warn(sim, ", in sim")));
        Ok(Made {
            findings,
            warnings,
            continued: made.reused,
            damaged: made.damaged,
            missing: extracts.iter().filter(|one| one.is_err()).count(),
            batches: Vec::new(),
        })
    }
}

impl Swept {
    /// The same jobs in world `sim`, if this is another world and the figure compares the two.
    fn in_sim(&self, plan: &Plan, jobs: &[Job], options: &Options) -> Result<Option<Extracts>, StudyError> {
        if self.file.beside_sim.is_empty() || plan.world.clock() == Clock::Virtual {
            return Ok(None);
        }
        extract::make(jobs, SIM, options).map(|(extracts, _)| Some(extracts))
    }

    fn reduce(
        &self,
        plan: &Plan,
        combinations: &[Combination],
        extracts: &Extracts,
        sim: Option<&Extracts>,
    ) -> (Findings, Vec<String>) {
        let by_cell = |extracts| by_cell(extracts, combinations.iter().map(|one| self.runs(plan, one)));
        let table = Table { axes: &self.file.axis, combinations, runs: by_cell(extracts) };
        let sim = sim.map(by_cell);
        let cells = table.select(None, &Default::default()).into_iter().map(|index| {
            let labels = table.combinations[index].labels.iter().map(String::as_str);
            let mut cell = Cell::at(Place::new(&self.about, labels));
            cell.more = means(&table.runs[index]);
            if let Some(sim) = &sim {
                cell.more.extend(
                    means(&sim[index]).into_iter().map(|(name, mean)| (format!("sim: {name}"), mean)),
                );
            }
            cell
        });
        let cells = cells.collect();
        let is_first = self.about.variants.first().is_some_and(|first| first.name == plan.variant);
        let claims = self.file.claim.iter().filter(|claim| match claim.variants.as_slice() {
            [] => is_first,
            named => named.contains(&plan.variant),
        });
        // A claim is of all cells of the plan, also of those that `--only` leaves out.
        let all = self.combinations(&Plan { only: None, ..plan.clone() });
        let runs = all.iter().map(|one| if plan.wants(&one.name()) { self.runs(plan, one) } else { 0 });
        let whole = Table { axes: &self.file.axis, combinations: &all, runs: self::by_cell(extracts, runs) };
        let statements = claims.map(|claim| whole.statement(claim)).collect();
        let (mut html, pictures) = draw::all(&self.file.chart, &table);
        let mut text = String::new();
        if let Some(sim) = &sim {
            let beside = beside::beside(plan.world.name(), &self.file.beside_sim, &table, sim);
            html.push_str(&beside.html);
            text = beside.text;
        }
        (Findings { cells, statements, html, text }, pictures)
    }
}

/// The runs of each cell, where they have a result.
fn by_cell(extracts: &Extracts, runs: impl Iterator<Item = u32>) -> Vec<Vec<Option<&Extract>>> {
    let mut rest = extracts.iter().map(|run| run.as_ref().ok());
    runs.map(|runs| rest.by_ref().take(runs as usize).collect()).collect()
}

/// The mean of each number over the runs that have it, as `OF: MEASURE`.
fn means(runs: &[Option<&Extract>]) -> std::collections::BTreeMap<String, f64> {
    let mut sums = std::collections::BTreeMap::<String, (f64, f64)>::new();
    for (of, measure, value) in runs.iter().flatten().flat_map(|run| &run.numbers) {
        let sum = sums.entry(format!("{of}: {measure}")).or_default();
        *sum = (sum.0 + value, sum.1 + 1.0);
    }
    sums.into_iter().map(|(name, (sum, count))| (name, sum / count)).collect()
}

fn write(path: &Path, svg: &str) -> Result<(), StudyError> {
    std::fs::create_dir_all(path.parent().unwrap_or(path))
        .and_then(|()| std::fs::write(path, svg))
        .map_err(|source| StudyError::from(OutputError { path: path.to_owned(), source }))
}

#[cfg(test)]
mod tests;
