//! Makes a sweep: its cells by the engine, then tables and page.

use std::borrow::Cow;
use std::path::Path;

use serde::Serialize;
use weir_core::Rate;
use weir_report::result::RunResult;
use weir_world::RunOptions;

use super::record::Measured;
use super::shard::Shard;
use super::{FailedCell, Missing, Sweep, SweepError, SweepResult, tables};
use crate::engine::{self, Address, Job, Kept, Made, Options, Origin, Outcome, Store, Study};

/// Makes a sweep: runs the cells that have no result in the folder yet, then writes tables and page there. A cell that
/// fails, also by a panic, is no error: its rows say so. When stopped, what has ended is kept and written, and the same
/// sweep in the same folder goes on from there. `command` is what the metadata call the command.
///
/// If results cannot be written, `stop` of the options is set.
///
/// # Errors
/// If more jobs are asked for than fit on the real clock, or results cannot be written.
pub fn run(sweep: &Sweep, options: &Options, command: &str) -> Result<SweepResult, SweepError> {
    let made = run_cells(&Cells::all(sweep), options)?;
    tables::write(sweep, &Store::new(&options.out), &options.out, command, made)
}

/// What came of a shard.
#[derive(Clone, Debug, Serialize)]
pub struct ShardResult {
    /// What the sweep is called.
    pub name: String,
    /// The version of Weir.
    pub version: String,
    /// Which shard, as `I/N`.
    pub shard: String,
    /// Cells of the shard, and of the sweep.
    pub cells: usize,
    /// Cells of the sweep.
    pub of_cells: usize,
    /// Cells of the shard that have no result: it was interrupted.
    pub missing_cells: usize,
    /// Its cells that failed, by number and with the reason.
    pub failed_cells: Vec<FailedCell>,
    /// Its cells whose results are doubtful.
    pub doubtful_cells: usize,
    /// Cells that had their result from an earlier command.
    #[serde(skip)]
    pub reused: usize,
    /// Cells whose stored result was not as it had been written, and that ran again.
    #[serde(skip)]
    pub damaged: usize,
}

/// Runs the cells of a shard that have no result in the folder yet, as [`run`] does, and writes no tables: other shards
/// may be at work in the same folder.
///
/// # Errors
/// As [`run`].
pub fn run_shard(sweep: &Sweep, shard: Shard, options: &Options) -> Result<ShardResult, SweepError> {
    let cells = Cells { sweep, only: Some(sweep.shard(shard)) };
    let Made { reused, damaged } = run_cells(&cells, options)?;
    let store = Store::new(&options.out);
    store.create()?;
    let (mut failed_cells, mut missing_cells, mut doubtful_cells) = (Vec::new(), 0, 0);
    for cell in (0..cells.count()).map(|index| cells.cell(index)) {
        match store.read::<Measured>(sweep.address(cell)) {
            Kept::Whole(Outcome::Measured(measured)) => {
                doubtful_cells += usize::from(!measured.warnings.is_empty());
            }
            Kept::Whole(Outcome::Failed(error)) => {
                failed_cells.push(FailedCell { cell, what: sweep.describe(cell), error });
            }
            Kept::Nothing | Kept::Damaged => missing_cells += 1,
        }
    }
    Ok(ShardResult {
        name: sweep.name().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        shard: shard.to_string(),
        cells: cells.count(),
        of_cells: sweep.cells(),
        missing_cells,
        failed_cells,
        doubtful_cells,
        reused,
        damaged,
    })
}

/// Writes tables and page from the cells that have a result in `out`, whoever has run them: `made` says how many an
/// earlier command had, and how many were damaged.
///
/// # Errors
/// If they cannot be written.
pub fn write(
    sweep: &Sweep,
    out: &Path,
    command: &str,
    Missing { reused, damaged, .. }: &Missing,
) -> Result<SweepResult, SweepError> {
    let made = Made { reused: *reused, damaged: *damaged };
    tables::write(sweep, &Store::new(out), out, command, made)
}

fn run_cells(cells: &Cells<'_>, options: &Options) -> Result<Made, SweepError> {
    let run = RunOptions { large: cells.sweep.is_large(), ..options.run.clone() };
    engine::run(cells, &Store::new(&options.out), &Options { run, ..options.clone() })
}

/// A cell as a job.
pub(super) fn job(sweep: &Sweep, cell: usize) -> Result<Job, SweepError> {
    let place = sweep.cell(cell);
    let scenario = sweep.scenario(place.combination)?;
    Ok(Job { name: sweep.describe(cell), scenario, run: place.run })
}

/// The cells of a sweep, or some of them, as jobs.
pub(super) struct Cells<'a> {
    sweep: &'a Sweep,
    only: Option<Vec<usize>>,
}

impl<'a> Cells<'a> {
    pub(super) fn all(sweep: &'a Sweep) -> Self {
        Self { sweep, only: None }
    }

    fn cell(&self, index: usize) -> usize {
        self.only.as_ref().map_or(index, |only| only[index])
    }
}

impl Study for Cells<'_> {
    type Kept = Measured;
    type Error = SweepError;

    fn origin(&self) -> &Origin {
        self.sweep.origin()
    }

    fn count(&self) -> usize {
        self.only.as_ref().map_or(self.sweep.cells(), Vec::len)
    }

    fn address(&self, index: usize) -> &Address {
        self.sweep.address(self.cell(index))
    }

    fn fastest(&self) -> Rate {
        self.sweep.fastest()
    }

    fn job(&self, index: usize) -> Result<Cow<'_, Job>, SweepError> {
        job(self.sweep, self.cell(index)).map(Cow::Owned)
    }

    fn keep(&self, _: usize, job: &Job, result: RunResult) -> Result<Measured, SweepError> {
        Ok(Measured::of(&job.scenario, &result))
    }

    /// A cell is in the store alone.
    fn recall(&self, _: usize, _: Measured) -> bool {
        true
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
