//! The engine of many runs. Sweeps, suites and figures give it jobs; it runs those that have no result yet, side by
//! side as far as they do not disturb each other, and keeps each result as soon as the run has ended.
//!
//! | part | what it decides |
//! |---|---|
//! | `address` | when two results are the same one: build, world, kernel, scenario, traces, run, what is kept |
//! | `store` | where a result is kept, and whether it is as it was written |
//! | `policy` | how many runs go on at the same time |
//! | `work` | what runs, and what becomes of a run that fails, panics or is interrupted |
//! | `list` | what is known of each job, where all jobs are in a list |

mod address;
mod list;
mod policy;
mod store;
mod work;

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use weir_core::Rate;
use weir_report::output::OutputError;
use weir_report::result::RunResult;
use weir_scenario::Scenario;
use weir_vm::VmError;
use weir_world::RunOptions;

pub use address::{Address, Origin, address};
pub(crate) use address::{build, checksum};
pub(crate) use list::addresses;
pub use list::{Each, Keeper, List, Unknown};
pub(crate) use store::text;
pub use store::{CELLS, Kept, Outcome, Store};
pub use work::{Foreign, Made, now, run};
pub(crate) use work::{find_missing, run_one};

/// One run.
#[derive(Clone, Debug)]
pub struct Job {
    /// Names the run among all; a suite or a figure calls the folder of its tables so.
    pub name: String,
    /// What runs.
    pub scenario: Scenario,
    /// The number of the run under the scenario's seed.
    pub run: u64,
}

/// How many runs go.
#[derive(Clone)]
pub struct Options<'a> {
    /// Where results, tables and page go.
    pub out: PathBuf,
    /// Runs at the same time, at least 1; none for as many as do not disturb each other. On the real clock more than
    /// that are refused.
    pub jobs: Option<usize>,
    /// Makes runs again whose stored result says that they failed. Suites and figures always do.
    pub retry_failed: bool,
    /// How each run goes. World, run number and share are set for each.
    pub run: RunOptions<'a>,
    /// Called now and then, from any thread.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

impl<'a> Options<'a> {
    /// Into the folder `out`, as many runs at a time as do not disturb each other, without progress.
    pub fn new(out: impl Into<PathBuf>, run: RunOptions<'a>) -> Self {
        Self { out: out.into(), jobs: None, retry_failed: false, run, progress: &|_| {} }
    }
}

/// How far all runs are.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Runs that have a result.
    pub done: usize,
    /// All runs.
    pub total: usize,
    /// An estimate of the time that the rest takes; none before there is anything to go by.
    pub left: Option<Duration>,
    /// The run that has just ended, or that is at work; empty before the first.
    pub last: String,
}

/// Runs that could not be made at all. A run that fails is no error: its result says so.
#[derive(Debug, Error)]
pub enum StudyError {
    /// No micro-VM could be started.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// Results could not be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// More runs at a time than do not disturb each other, or none.
    #[error("--jobs {jobs}: {why}")]
    Jobs {
        /// What was asked for.
        jobs: usize,
        /// What is wrong with it, and what would be right.
        why: String,
    },
    /// What results are addressed by could not be read.
    #[error(
        "cannot read {path}: {source}; results are kept under the program's checksum and the kernel's release"
    )]
    Origin {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another program wants results, which would not be its own.
    #[error("the sweep is run by weir {theirs}, and this is weir {ours}; use the same package on both sides")]
    Build {
        /// Version and checksum of the program that wants them.
        theirs: String,
        /// Of this one.
        ours: String,
    },
    /// A folder has no results that could be taken from it.
    #[error("--take {path}: {why}")]
    Take {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it, and what would be right.
        why: String,
    },
    /// Two runs would write to one folder.
    #[error("the runs '{0}' and '{1}' would have the same folder; give one of them another name")]
    Names(String, String),
}

/// Jobs in one world, and what is kept of each.
pub trait Study: Sync {
    /// What is kept of a run in the store.
    type Kept: Serialize + DeserializeOwned;
    /// What can go wrong.
    type Error: From<StudyError> + Send;

    /// Who measures, and where.
    fn origin(&self) -> &Origin;

    /// How many jobs there are; they are numbered from 0.
    fn count(&self) -> usize;

    /// What a job's result is kept under. Jobs with the same address are made once.
    fn address(&self, index: usize) -> &Address;

    /// The rate of the fastest bottleneck.
    fn fastest(&self) -> Rate;

    /// A job. It may be made anew each time.
    ///
    /// # Errors
    /// Where what it is made of is gone.
    fn job(&self, index: usize) -> Result<Cow<'_, Job>, Self::Error>;

    /// Takes what is to be kept from the result of a run that has just ended, and writes what is kept elsewhere.
    ///
    /// # Errors
    /// If it cannot be written.
    fn keep(&self, index: usize, job: &Job, result: RunResult) -> Result<Self::Kept, Self::Error>;

    /// Takes up what an earlier command has kept. False if what was kept elsewhere is not as it was written.
    fn recall(&self, index: usize, kept: Self::Kept) -> bool;
}
