//! Runs in a list, each with a folder of its tables. Suites and figures are batches.
//!
//! The store holds the checksums of a run's files, which are in `runs/NAME`. It is there until every run has a result:
//! a batch that is complete measures anew when it is made again.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use weir_core::Rate;
use weir_report::output::{self, OutputError};
use weir_report::read;
use weir_report::result::RunResult;
use weir_world::World;

use crate::engine::{self, Address, Job, Kept, Made, Options, Origin, Outcome, Store, Study, StudyError};

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
    let list = List::new(jobs, world, options)?;
    let store = Store::new(&options.out);
    let options = Options { retry_failed: true, ..options.clone() };
    let Made { reused, damaged } = engine::run(&list, &store, &options)?;
    let List { addresses, results, .. } = list;
    let results: Vec<Result<RunResult, String>> = results
        .into_iter()
        .zip(&addresses)
        .map(|(result, address)| {
            let result = result.into_inner().unwrap_or_else(|poison| poison.into_inner());
            result.ok_or_else(|| match store.read::<Files>(address) {
                Kept::Whole(Outcome::Failed(error)) => error,
                _ => "interrupted before it ended".to_owned(),
            })
        })
        .collect();
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
    let addresses = jobs.iter().map(|job| engine::address(&origin.describe(&job.scenario), job.run));
    Ok(engine::checksum(&addresses.collect::<Vec<Address>>().concat()))
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

/// The jobs of a batch.
struct List<'a> {
    jobs: &'a [Job],
    out: &'a Path,
    origin: Origin,
    addresses: Vec<Address>,
    /// The jobs of each address, mostly one.
    same: HashMap<Address, Vec<usize>>,
    /// What is known of each job without samples: a figure may have a thousand runs.
    results: Vec<Mutex<Option<RunResult>>>,
}

impl<'a> List<'a> {
    fn new(jobs: &'a [Job], world: &'static dyn World, options: &'a Options) -> Result<Self, StudyError> {
        let origin = Origin::new(world, options.run.kernel.as_deref())?;
        let address = |job: &Job| engine::address(&origin.describe(&job.scenario), job.run);
        let addresses: Vec<Address> = jobs.iter().map(address).collect();
        let mut same = HashMap::<Address, Vec<usize>>::new();
        let mut folders = HashMap::new();
        for (index, (job, address)) in jobs.iter().zip(&addresses).enumerate() {
            same.entry(*address).or_default().push(index);
            let first = *folders.entry(folder(&options.out, job)).or_insert(index);
            if addresses[first] != *address {
                return Err(StudyError::Names(jobs[first].name.clone(), job.name.clone()));
            }
        }
        let results = jobs.iter().map(|_| Mutex::new(None)).collect();
        Ok(Self { jobs, out: &options.out, origin, addresses, same, results })
    }

    /// The jobs whose result is that of this one, itself among them.
    fn same(&self, index: usize) -> impl Iterator<Item = usize> {
        self.same[&self.addresses[index]].iter().copied()
    }

    fn folder(&self, index: usize) -> PathBuf {
        folder(self.out, &self.jobs[index])
    }

    /// Remembers a result for all jobs that have it.
    fn remember(&self, index: usize, mut result: RunResult) {
        result.series = Default::default();
        result.assessments = Vec::new();
        for index in self.same(index) {
            let mut slot = self.results[index].lock().unwrap_or_else(|poison| poison.into_inner());
            *slot = Some(result.clone());
        }
    }
}

impl Study for List<'_> {
    type Kept = Files;
    type Error = StudyError;

    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn count(&self) -> usize {
        self.jobs.len()
    }

    fn address(&self, index: usize) -> &Address {
        &self.addresses[index]
    }

    fn fastest(&self) -> Rate {
        self.jobs.iter().map(|job| job.scenario.bottleneck.rate).max().unwrap_or_default()
    }

    fn job(&self, index: usize) -> Result<Cow<'_, Job>, StudyError> {
        Ok(Cow::Borrowed(&self.jobs[index]))
    }

    fn keep(&self, index: usize, _: &Job, result: RunResult) -> Result<Files, StudyError> {
        let mut files = Files::new();
        for index in self.same(index) {
            for path in output::write(&self.folder(index), &result)? {
                let sum = sum_of(&path).map_err(|source| OutputError { path: path.clone(), source })?;
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                files.insert(name, sum);
            }
        }
        self.remember(index, result);
        Ok(files)
    }

    fn recall(&self, index: usize, files: Files) -> bool {
        let is_whole = |index: usize| {
            let folder = self.folder(index);
            files.iter().all(|(name, sum)| sum_of(&folder.join(name)).is_ok_and(|found| found == *sum))
        };
        let whole = !files.is_empty() && self.same(index).all(is_whole);
        let result = whole.then(|| read::read(&self.folder(index)).ok()).flatten();
        result.map(|result| self.remember(index, result)).is_some()
    }
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
