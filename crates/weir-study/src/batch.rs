//! Runs in a list, each with a folder of its tables. Suites and figures are batches.
//!
//! The store holds the checksums of a run's files, which are in `runs/NAME`. It is there until every run has a result:
//! a batch that is complete measures anew when it is made again.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use weir_report::output::{self, OutputError};
use weir_report::read;
use weir_report::result::RunResult;
use weir_world::World;

use crate::engine::{self, Address, Job, Keeper, List, Made, Options, Origin, Store, StudyError};

/// What has come of a batch.
pub(crate) struct Batch {
    /// One per job, in the same order: its result without samples over time, which are in its folder, or why there is
    /// none.
    pub(crate) results: Vec<Result<RunResult, String>>,
    /// Runs that an earlier command had made, which was stopped or had failed runs.
    pub(crate) continued: usize,
    /// Runs that an earlier command had made and whose files were changed since; they ran again.
    pub(crate) damaged: usize,
    /// Runs without result.
    pub(crate) missing: usize,
    store: Store,
    addresses: Vec<Address>,
}

impl Batch {
    /// What was made of the results is written too: the store goes, unless runs are missing.
    pub(crate) fn close(self) -> Result<(), StudyError> {
        if self.missing == 0 { Ok(self.store.forget(&self.addresses)?) } else { Ok(()) }
    }
}

/// Runs all jobs in `world`. On interrupt, what has ended is kept; the same jobs in the same folder then take those
/// runs from there ([`Batch::continued`]). Runs that failed are made again.
///
/// # Errors
/// As [`engine::run`], if two jobs have one folder, or if there is no guest to run in. A run that fails is no error:
/// its result says so.
pub(crate) fn run(jobs: &[Job], world: &'static dyn World, options: &Options) -> Result<Batch, StudyError> {
    let origin = Origin::new(world, options.run.kernel.as_deref())?;
    let list = List::new(jobs, &origin, Folders { out: &options.out });
    let addresses = list.addresses().to_vec();
    let mut folders = HashMap::new();
    for (index, job) in jobs.iter().enumerate() {
        let first = *folders.entry(folder(&options.out, job)).or_insert(index);
        if addresses[first] != addresses[index] {
            return Err(StudyError::Names(jobs[first].name.clone(), job.name.clone()));
        }
    }
    let store = Store::new(&options.out);
    let options = Options { retry_failed: true, ..options.clone() };
    let (results, Made { reused, damaged }) = list.make(&store, &options)?;
    let results: Vec<_> =
        results.into_iter().map(|result| result.map_err(|unknown| unknown.to_string())).collect();
    let missing = results.iter().filter(|result| result.is_err()).count();
    Ok(Batch { results, continued: reused, damaged, missing, store, addresses })
}

/// What all runs of a batch are made of, in hexadecimal digits: build, world, kernel, scenarios, seeds, run numbers.
///
/// # Errors
/// If this program cannot be identified, or there is no guest to run in.
pub(crate) fn made_of(
    jobs: &[Job],
    world: &'static dyn World,
    options: &Options,
) -> Result<String, StudyError> {
    let origin = Origin::new(world, options.run.kernel.as_deref())?;
    Ok(engine::checksum(&engine::addresses::<RunResult>(jobs, &origin).concat()))
}

/// The result of a job as [`Batch::results`] has it, with its samples over time from its folder in `out`.
///
/// # Errors
/// Why there is no result, or why the folder cannot be read.
pub(crate) fn whole(out: &Path, job: &Job, result: &Result<RunResult, String>) -> Result<RunResult, String> {
    result.as_ref().map_err(Clone::clone)?;
    read::read(&folder(out, job)).map_err(|error| error.to_string())
}

/// The files of a run by name, with their checksums.
type Files = BTreeMap<String, String>;

/// Keeps the tables of each run in a folder, of which the store has the checksums.
struct Folders<'a> {
    out: &'a Path,
}

impl Keeper for Folders<'_> {
    type Kept = Files;
    type Known = RunResult;

    fn keep(&self, jobs: &[&Job], result: RunResult) -> Result<(Files, RunResult), StudyError> {
        let mut files = Files::new();
        for job in jobs {
            for path in output::write(&folder(self.out, job), &result)? {
                let sum = sum_of(&path).map_err(|source| OutputError { path: path.clone(), source })?;
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                files.insert(name, sum);
            }
        }
        Ok((files, without_samples(result)))
    }

    fn recall(&self, jobs: &[&Job], files: Files) -> Option<RunResult> {
        let is_whole = |job: &&Job| {
            let folder = folder(self.out, job);
            files.iter().all(|(name, sum)| sum_of(&folder.join(name)).is_ok_and(|found| found == *sum))
        };
        let whole = !files.is_empty() && jobs.iter().all(is_whole);
        let result = whole.then(|| read::read(&folder(self.out, jobs[0])).ok()).flatten();
        result.map(without_samples)
    }
}

/// A figure may have a thousand runs: samples over time are in their folders only.
fn without_samples(mut result: RunResult) -> RunResult {
    result.series = Default::default();
    result.assessments = Vec::new();
    result
}

/// Where a run's files are.
pub(crate) fn folder(out: &Path, job: &Job) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    out.join("runs").join(job.name.chars().map(plain).collect::<String>())
}

fn sum_of(path: &Path) -> io::Result<String> {
    fs::read(path).map(|bytes| engine::checksum(&bytes))
}

/// What a reader must know of the runs: those that failed, and those that were late.
pub(crate) fn warnings(jobs: &[Job], results: &[Result<RunResult, String>]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (job, result) in jobs.iter().zip(results) {
        match result {
            Ok(result) => {
                warnings.extend(result.health.warnings.iter().map(|text| format!("{}: {text}", job.name)))
            }
            Err(error) => warnings.push(format!("{}: {error}", job.name)),
        }
    }
    warnings
}
