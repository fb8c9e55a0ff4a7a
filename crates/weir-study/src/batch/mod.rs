//! Many runs as one: several at a time where the processors allow, each run's data kept as soon as it has ended, and an
//! interrupted batch goes on where it was. Figures and suites are batches.

mod unfinished;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use thiserror::Error;

pub use unfinished::UNFINISHED;
use unfinished::Unfinished;
pub(crate) use unfinished::folder;
use weir_report::output::{self, OutputError};
use weir_report::result::RunResult;
use weir_scenario::Scenario;
use weir_vm::{Kernel, VmError};
use weir_world::vm::{self, VmOptions, VmRun};
use weir_world::{Clock, RunOptions, World, run as run_scenario};

/// One run of a batch.
#[derive(Clone, Debug)]
pub struct Job {
    /// Names the run: also the folder of its data.
    pub name: String,
    /// What runs.
    pub scenario: Scenario,
    /// The number of the run under the seed.
    pub run: u64,
}

/// A batch that could not be made.
#[derive(Debug, Error)]
pub enum BatchError {
    /// No micro-VM could be started.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// Data could not be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The batch's own files could not be written.
    #[error("cannot write {path}: {source}; choose another folder with --out")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// How a batch's runs go.
pub struct BatchOptions<'a> {
    /// Where each run's tables go.
    pub out: PathBuf,
    /// Runs at the same time; none to choose by world, rate and processors.
    pub jobs: Option<usize>,
    /// How packets are read and written.
    pub run: RunOptions<'a>,
    /// Called now and then, from any thread.
    pub progress: &'a (dyn Fn(BatchProgress) + Sync),
}

/// How far a batch is.
#[derive(Clone, Debug)]
pub struct BatchProgress {
    /// Runs that have ended.
    pub done: usize,
    /// All runs.
    pub total: usize,
    /// The time that the rest will take, from the runs so far; none before that can be told.
    pub left: Option<Duration>,
    /// The run that has just ended, or that is at work; empty before the first.
    pub last: String,
}

/// What has come of a batch.
pub(crate) struct Batch {
    /// One per job, in the same order: its result without samples over time, which are in its folder, or why there is none.
    pub(crate) results: Vec<Result<RunResult, String>>,
    /// Runs that an earlier command had made, which was stopped or had failed runs.
    pub(crate) continued: usize,
    unfinished: Unfinished,
}

impl Batch {
    /// What was made of the results is written too: the list of an unfinished batch goes, unless runs are missing.
    pub(crate) fn close(self) -> Result<(), BatchError> {
        if self.results.iter().all(Result::is_ok) { self.unfinished.finish() } else { Ok(()) }
    }
}

/// Runs all jobs in `world`. On interrupt, what has ended is kept; the same jobs in the same folder then take those runs
/// from there ([`Batch::continued`]).
///
/// If data cannot be written, `stop` of the options is set, so that nothing else is measured in vain.
///
/// # Errors
/// If data cannot be written, or there is no guest to run in. A run that fails is no error: its result says so.
pub(crate) fn run(
    jobs: &[Job],
    world: &'static dyn World,
    options: &BatchOptions,
) -> Result<Batch, BatchError> {
    let kernel = match world.clock() {
        Clock::Guest => {
            Some(weir_vm::Cache::of_user().and_then(|cache| cache.wanted(options.run.kernel.as_deref()))?)
        }
        Clock::Real | Clock::Virtual => None,
    };
    let mut books = Books::open(jobs, world, kernel.as_ref(), options)?;
    match &kernel {
        Some(kernel) => run_in_guests(&books, kernel)?,
        None => run_here(&books),
    }
    let results = books.outcomes()?;
    Ok(Batch { results, continued: jobs.len() - books.todo.len(), unfinished: books.unfinished })
}

/// What each job came to, or why to nothing.
type Outcomes = Vec<Result<RunResult, String>>;

/// What has come of the jobs until now.
struct Books<'a> {
    jobs: &'a [Job],
    world: &'static dyn World,
    options: &'a BatchOptions<'a>,
    unfinished: Unfinished,
    /// The places of the jobs that no earlier command has done.
    todo: Vec<usize>,
    outcomes: Vec<Mutex<Option<Result<RunResult, String>>>>,
    failed: Mutex<Option<BatchError>>,
    start: Instant,
}

impl<'a> Books<'a> {
    #[allow(clippy::disallowed_methods, reason = "progress is told in wall-clock time")]
    fn open(
        jobs: &'a [Job],
        world: &'static dyn World,
        kernel: Option<&Kernel>,
        options: &'a BatchOptions<'a>,
    ) -> Result<Self, BatchError> {
        let unfinished = Unfinished::open(&options.out, world, kernel)?;
        let known: Vec<_> = jobs.iter().map(|job| unfinished.result(job).map(without_samples)).collect();
        let todo: Vec<usize> = (0..jobs.len()).filter(|index| known[*index].is_none()).collect();
        let outcomes = known.into_iter().map(|result| Mutex::new(result.map(Ok))).collect();
        let failed = Mutex::new(None);
        let books = Self { jobs, world, options, unfinished, todo, outcomes, failed, start: Instant::now() };
        if books.todo.len() < jobs.len() {
            books.tell(0.0, String::new());
        }
        Ok(books)
    }

    fn stopped(&self) -> bool {
        self.options.run.stop.load(Ordering::Relaxed)
    }

    /// A job has ended. Its files are written here and what is only in them dropped from memory: a figure may have a
    /// thousand runs.
    fn end(&self, index: usize, outcome: Result<RunResult, String>) {
        let job = &self.jobs[index];
        let kept = outcome.map(|result| {
            output::write(&unfinished::folder(&self.options.out, job), &result)?;
            self.unfinished.add(job)?;
            Ok(without_samples(result))
        });
        let outcome = match kept {
            Ok(Err(error)) => {
                self.options.run.stop.store(true, Ordering::Relaxed);
                self.failed.lock().unwrap_or_else(|poison| poison.into_inner()).get_or_insert(error);
                return;
            }
            Ok(Ok(result)) => Ok(result),
            Err(error) => Err(error),
        };
        *self.outcomes[index].lock().unwrap_or_else(|poison| poison.into_inner()) = Some(outcome);
    }

    /// Tells that so many of the jobs to do are done; parts count.
    #[allow(clippy::disallowed_methods, reason = "the time left is of the real clock")]
    fn tell(&self, done: f64, last: String) {
        let todo = self.todo.len();
        let left = (done > 0.0).then(|| self.start.elapsed().mul_f64((todo as f64 - done).max(0.0) / done));
        let total = self.jobs.len();
        (self.options.progress)(BatchProgress { done: total - todo + done as usize, total, left, last });
    }

    /// What each job came to.
    fn outcomes(&mut self) -> Result<Outcomes, BatchError> {
        if let Some(error) = self.failed.get_mut().unwrap_or_else(|poison| poison.into_inner()).take() {
            return Err(error);
        }
        let outcomes = self.outcomes.drain(..);
        Ok(outcomes
            .map(|slot| slot.into_inner().unwrap_or_else(|poison| poison.into_inner()))
            .map(|outcome| outcome.unwrap_or_else(|| Err("interrupted before it ran".to_owned())))
            .collect())
    }
}

/// All jobs on this host, several at a time.
fn run_here(books: &Books<'_>) {
    let todo: Vec<&Job> = books.todo.iter().map(|index| &books.jobs[*index]).collect();
    let parallel =
        books.options.jobs.unwrap_or_else(|| fitting(books.world, &todo)).clamp(1, todo.len().max(1));
    let share = share(parallel);
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..parallel {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = todo.get(index).filter(|_| !books.stopped()) else { return };
                    books.end(books.todo[index], run_job(job, books.world, share, books.options));
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    books.tell(done as f64, job.name.clone());
                }
            });
        }
    });
}

/// All jobs in micro-VMs, one at a time in each.
fn run_in_guests(books: &Books<'_>, kernel: &Kernel) -> Result<(), BatchError> {
    let todo: Vec<&Job> = books.todo.iter().map(|index| &books.jobs[*index]).collect();
    let runs: Vec<VmRun> =
        todo.iter().map(|job| VmRun { scenario: &job.scenario, run: job.run, pcap: None }).collect();
    let parts: Vec<Mutex<f64>> = todo.iter().map(|_| Mutex::new(0.0)).collect();
    let tell = |index: usize, part: f64| {
        *parts[index].lock().unwrap_or_else(|poison| poison.into_inner()) = part;
        let done = parts.iter().map(|part| *part.lock().unwrap_or_else(|poison| poison.into_inner())).sum();
        books.tell(done, todo[index].name.clone());
    };
    let vm = VmOptions {
        guests: books.options.jobs.unwrap_or(1),
        // Only a run that has ended is done.
        progress: &|now| tell(now.index, now.done.min(0.99)),
        ..VmOptions::new(books.options.run.stop)?
    };
    vm::run_scenarios(kernel, &runs, &vm, &|index, outcome| {
        books.end(books.todo[index], outcome.map_err(|error| error.to_string()));
        tell(index, 1.0);
    });
    Ok(())
}

/// One run.
fn run_job(
    job: &Job,
    world: &'static dyn World,
    share: u32,
    options: &BatchOptions,
) -> Result<RunResult, String> {
    let run = RunOptions { world, run: job.run, share, progress: &|_| {}, ..options.run.clone() };
    let result = run_scenario(&job.scenario, &run).map_err(|error| error.to_string())?;
    if result.meta.cut_short.as_deref() == Some("interrupted") {
        return Err("interrupted".to_owned());
    }
    Ok(result)
}

fn without_samples(mut result: RunResult) -> RunResult {
    result.series = Default::default();
    result.assessments = Vec::new();
    result
}

/// What each of `parallel` bottlenecks asks of the processors, in thousandths of one: together 85 % of all; the kernel
/// keeps the rest for ordinary threads.
fn share(parallel: usize) -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    ((850 * processors / parallel) as u32).min(weir_link::DEFAULT_SHARE)
}

/// How many such runs fit on the processors: a user-space bottleneck and its endpoints take about one processor per
/// 300 Mbit/s when several run at once, and with more than three runs per processor packets leave late whatever the rate.
fn fitting(world: &dyn World, jobs: &[&Job]) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if world.is_virtual() {
        return processors;
    }
    let processors = processors as f64;
    let fastest = jobs.iter().map(|job| job.scenario.bottleneck.rate.bits_per_sec()).max().unwrap_or(1);
    ((processors * 150e6 / fastest as f64) as usize).clamp(1, 3 * processors as usize)
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
