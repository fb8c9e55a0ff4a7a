//! Cells that run in other processes, such as the workers of a cluster.
//!
//! A worker is sent a [parcel](Sweep::parcel): the sweep's text and those of the files that it names, so that it needs
//! no folder. It makes a cell's scenario from these as the sender would, runs it, and returns what would have been
//! stored: the text of the cell's file with its checksum, which covers the cell's address and so the scenario, the run
//! number and the program. [`Sweep::keep`] stores it if that is the address which the cell has here. Nothing else has
//! to be compared.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use weir_report::output::OutputError;
use weir_scenario::toml_file::FileError;
use weir_world::RunOptions;

use super::file::{File, Files};
use super::record::Measured;
use super::run::{Cells, job};
use super::{Sweep, SweepError};
use crate::engine::{self, Made, Outcome, Store, StudyError};

/// All that a worker must know.
#[derive(Serialize, Deserialize)]
struct Parcel {
    /// The program whose results are wanted.
    weir: String,
    also: String,
    large: bool,
    path: String,
    sweep: String,
    /// Scenario and traces, by path.
    files: BTreeMap<String, String>,
}

/// A sweep of another process, of which some cells run here.
pub struct Away(Sweep);

/// What a command has to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Cells without result, one of those that have the same.
    pub cells: Vec<usize>,
    /// How many cells have a result.
    pub reused: usize,
    /// Cells whose stored result is not as it was written.
    pub damaged: usize,
}

impl Sweep {
    /// What a worker needs to run cells of this sweep.
    ///
    /// # Errors
    /// If a trace can no longer be read.
    pub fn parcel(&self) -> Result<Vec<u8>, SweepError> {
        let texts = self.texts();
        let mut files = BTreeMap::new();
        for path in self.traces() {
            let path_text = path.display().to_string();
            let failed = |source| FileError::Read { path: path_text.clone(), source };
            files.insert(path_text.clone(), texts.files.trace(path).map_err(failed)?);
        }
        files.extend(texts.scenario.clone());
        let parcel = Parcel {
            weir: engine::build()?.to_owned(),
            also: self.origin().also.clone(),
            large: self.is_large(),
            path: texts.path.clone(),
            sweep: texts.sweep.clone(),
            files,
        };
        Ok(serde_json::to_vec(&parcel).expect("texts are plain data"))
    }

    /// The cells that have no result in `out`. Those that failed have one, unless they shall run again.
    pub fn missing(&self, out: &Path, retry_failed: bool) -> Missing {
        let (missing, Made { reused, damaged }) =
            engine::find_missing(&Cells::all(self), &Store::new(out), retry_failed);
        Missing { cells: missing.into_iter().map(|missing| missing.index).collect(), reused, damaged }
    }

    /// Stores in `out` what [`Away::run`] has made of a cell. False if it is of no such cell or was changed on its way.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&self, out: &Path, cell: usize, text: &[u8]) -> Result<bool, OutputError> {
        Store::new(out).take::<Measured>(self.address(cell), text)
    }

    /// Stores in `out` that a cell could not run.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep_failed(&self, out: &Path, cell: usize, why: &str) -> Result<(), SweepError> {
        let (job, outcome) = (job(self, cell)?, Outcome::<Measured>::Failed(why.to_owned()));
        Ok(Store::new(out).write(self.address(cell), self.origin(), &job, &outcome)?)
    }
}

impl Away {
    /// Opens a [parcel](Sweep::parcel).
    ///
    /// # Errors
    /// If it is of another program: its cells would be others.
    pub fn open(parcel: &[u8]) -> Result<Self, SweepError> {
        let ours = engine::build()?;
        let other = |theirs: String| StudyError::Build { theirs, ours: ours.to_owned() };
        // Another program may write parcels of another form.
        let parcel: Parcel = serde_json::from_slice(parcel).map_err(|_| other("another one".to_owned()))?;
        if parcel.weir != ours {
            return Err(other(parcel.weir).into());
        }
        let path = PathBuf::from(parcel.path);
        let file = File::parse(parcel.sweep, &path, u64::MAX, Files::Sent(parcel.files))?;
        Ok(Self(Sweep::unchecked(file, parcel.large)?.also(parcel.also)))
    }

    /// Runs a cell. Returns what [`Sweep::keep`] takes, or nothing if `stop` was set meanwhile. A cell that fails, also
    /// by a panic, is a result like any other.
    ///
    /// # Errors
    /// If the sweep has no such cell.
    pub fn run(&self, cell: usize, stop: &AtomicBool) -> Result<Option<Vec<u8>>, SweepError> {
        let (job, origin) = (job(&self.0, cell)?, self.0.origin());
        let options = RunOptions { world: origin.world, large: self.0.is_large(), ..RunOptions::new(stop) };
        let outcome = match engine::run_one(&job, &options) {
            Ok(result) if result.meta.cut_short.as_deref() == Some("interrupted") => return Ok(None),
            Ok(result) => Outcome::Measured(Box::new(Measured::of(&job.scenario, &result))),
            Err(error) => Outcome::Failed(error),
        };
        let address = engine::address::<Measured>(&origin.describe(&job.scenario), job.run);
        Ok(Some(engine::text(&address, origin, &job, &outcome)))
    }
}
