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

use super::{About, Cell, Figure, Findings, Made, Place, Plan};
use crate::engine::{Job, Options, StudyError};
use cells::Combination;
use claim::Table;
use extract::{Extract, Extracts};
use file::File;

/// The files of figures.
const FILES: &[&str] = &[
    include_str!("../../../figures/crq/udp-share/figure.toml"),
    include_str!("../../../figures/law/attack/figure.toml"),
    include_str!("../../../figures/dualq/3/figure.toml"),
    include_str!("../../../figures/dualq/4/figure.toml"),
    include_str!("../../../figures/dualq/7/figure.toml"),
    include_str!("../../../figures/dualq/8/figure.toml"),
    include_str!("../../../figures/dualq/9/figure.toml"),
    include_str!("../../../figures/dualq/udp/figure.toml"),
    include_str!("../../../figures/dualq/overload/figure.toml"),
    include_str!("../../../figures/dualq/rtt/figure.toml"),
    include_str!("../../../figures/dualq/protected/figure.toml"),
    include_str!("../../../figures/scc/1/figure.toml"),
    include_str!("../../../figures/scc/2/figure.toml"),
    include_str!("../../../figures/scc/3/figure.toml"),
    include_str!("../../../figures/scc/4/figure.toml"),
    include_str!("../../../figures/scc/5/figure.toml"),
    include_str!("../../../figures/scc/6/figure.toml"),
    include_str!("../../../figures/scc/7/figure.toml"),
    include_str!("../../../figures/scc/8/figure.toml"),
    include_str!("../../../figures/scc/9/figure.toml"),
    include_str!("../../../figures/scc/10/figure.toml"),
    include_str!("../../../figures/scc/11/figure.toml"),
    include_str!("../../../figures/scc/12/figure.toml"),
    include_str!("../../../figures/scc/13/figure.toml"),
    include_str!("../../../figures/scc/14/figure.toml"),
    include_str!("../../../figures/scc/15/figure.toml"),
    include_str!("../../../figures/scc/16/figure.toml"),
    include_str!("../../../figures/scc/17/figure.toml"),
    include_str!("../../../figures/scc/18/figure.toml"),
];

/// Grids by the names that figures call them.
const GRIDS: &[(&str, &str)] = &[
    ("crq/udp-share", include_str!("../../../figures/crq/udp-share.toml")),
    ("law/attack-wide", include_str!("../../../figures/law/attack-wide.toml")),
    ("law/attack-narrow", include_str!("../../../figures/law/attack-narrow.toml")),
    ("dualq/curve", include_str!("../../../figures/dualq/curve.toml")),
    ("dualq/one-queue", include_str!("../../../figures/dualq/one-queue.toml")),
    ("dualq/long", include_str!("../../../figures/dualq/long.toml")),
    ("dualq/long-real", include_str!("../../../figures/dualq/long-real.toml")),
    ("dualq/long-ecn", include_str!("../../../figures/dualq/long-ecn.toml")),
    ("dualq/long-prague", include_str!("../../../figures/dualq/long-prague.toml")),
    ("dualq/long-bbr3", include_str!("../../../figures/dualq/long-bbr3.toml")),
    ("dualq/dynamic", include_str!("../../../figures/dualq/dynamic.toml")),
    ("dualq/dynamic-open", include_str!("../../../figures/dualq/dynamic-open.toml")),
    ("dualq/udp", include_str!("../../../figures/dualq/udp.toml")),
    ("dualq/overload", include_str!("../../../figures/dualq/overload.toml")),
    ("dualq/rtt", include_str!("../../../figures/dualq/rtt.toml")),
    ("dualq/protected", include_str!("../../../figures/dualq/protected.toml")),
    ("dualq/protected-scalable", include_str!("../../../figures/dualq/protected-scalable.toml")),
    ("scc/mono-dctcp", include_str!("../../../figures/scc/mono-dctcp.toml")),
    ("scc/mono-dctcp-real", include_str!("../../../figures/scc/mono-dctcp-real.toml")),
    ("scc/mono-dctcp-small", include_str!("../../../figures/scc/mono-dctcp-small.toml")),
    ("scc/mono-bbr2", include_str!("../../../figures/scc/mono-bbr2.toml")),
    ("scc/mono-bbr2-50", include_str!("../../../figures/scc/mono-bbr2-50.toml")),
    ("scc/multi", include_str!("../../../figures/scc/multi.toml")),
    ("scc/multi-50", include_str!("../../../figures/scc/multi-50.toml")),
    ("scc/multi-10g", include_str!("../../../figures/scc/multi-10g.toml")),
    ("scc/multi-10g-50", include_str!("../../../figures/scc/multi-10g-50.toml")),
    ("scc/rtt-dctcp", include_str!("../../../figures/scc/rtt-dctcp.toml")),
    ("scc/rtt-bbr2", include_str!("../../../figures/scc/rtt-bbr2.toml")),
    ("scc/rtt-multi", include_str!("../../../figures/scc/rtt-multi.toml")),
    ("scc/rtt-multi-small", include_str!("../../../figures/scc/rtt-multi-small.toml")),
    ("scc/mono-dctcp-50", include_str!("../../../figures/scc/mono-dctcp-50.toml")),
    ("scc/mono-dctcp-gro", include_str!("../../../figures/scc/mono-dctcp-gro.toml")),
    ("scc/mono-cubic-small", include_str!("../../../figures/scc/mono-cubic-small.toml")),
    ("scc/mono-prague", include_str!("../../../figures/scc/mono-prague.toml")),
    ("scc/mono-bbr3", include_str!("../../../figures/scc/mono-bbr3.toml")),
    ("scc/multi-newer", include_str!("../../../figures/scc/multi-newer.toml")),
    #[cfg(test)]
    ("test", include_str!("test_grid.toml")),
];

/// All figures over sweeps.
///
/// # Panics
/// If a file that is built in is wrong; the tests load them.
pub(super) fn load() -> impl Iterator<Item = Swept> {
    FILES.iter().map(|text| Swept::parse(text).unwrap_or_else(|error| panic!("{error}")))
}

fn grid_text(name: &str) -> Option<&'static str> {
    GRIDS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// A figure over a sweep.
pub(super) struct Swept {
    about: About,
    file: File,
}

impl Swept {
    fn parse(text: &str) -> Result<Self, toml::de::Error> {
        let mut file: File = toml::from_str(text)?;
        let published: Vec<_> = file.published.iter().flat_map(file::Published::claims).collect();
        file.claim.extend(published);
        let axes = file.axis.iter().map(|axis| axis.name.clone()).collect();
        Ok(Self { about: About { axes, ..file.about.clone() }, file })
    }

    fn runs(&self, plan: &Plan) -> u32 {
        plan.runs_of(self.file.runs, 1)
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
        let runs = self.runs(plan);
        let of = |one: Combination| {
            let name = one.name();
            let mut scenario = one.scenario;
            scenario.seed = plan.seed;
            let job = move |run| Job {
                name: format!("{name}, run {run}"),
                scenario: scenario.clone(),
                run: u64::from(run),
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
            write(&options.out.join(format!("figure-{}.svg", index + 1)), &picture.svg)?;
        }
        let warn = |extracts: &Extracts, place: &str| {
            let each = jobs.iter().zip(extracts).flat_map(|(job, extract)| {
                let all = match extract {
                    Ok(extract) => extract.warnings.clone(),
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
    ) -> (Findings, Vec<draw::Drawn>) {
        let runs = (self.runs(plan) as usize).max(1);
        let table = Table { axes: &self.file.axis, combinations, runs: by_cell(extracts, runs) };
        let sim = sim.map(|sim| by_cell(sim, runs));
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
        let statements = claims.map(|claim| table.statement(claim)).collect();
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
fn by_cell(extracts: &Extracts, runs: usize) -> Vec<Vec<Option<&Extract>>> {
    extracts.chunks(runs).map(|runs| runs.iter().map(|run| run.as_ref().ok()).collect()).collect()
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
