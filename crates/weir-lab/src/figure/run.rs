//! Runs a figure's jobs, several at a time where the processors allow, and keeps each run's data as soon as it has ended.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use thiserror::Error;

use super::unfinished::{self, Unfinished};
use super::{Figure, FigureResult, Job, Plan};
use crate::output::{self, OutputError};
use crate::result::RunResult;
use crate::run::{RunOptions, World, run as run_scenario};
use crate::vm::{self, Kernel, VmError, VmOptions, VmRun};

/// A figure that could not be made.
#[derive(Debug, Error)]
pub enum FigureError {
    /// The variant does not exist.
    #[error("figure {figure} has no variant '{variant}'; it has {known}")]
    Variant {
        /// The figure.
        figure: String,
        /// What was asked for.
        variant: String,
        /// What there is.
        known: String,
    },
    /// The figure is not made in that world.
    #[error("figure {figure} cannot be made in world {world}; it can in {known}")]
    World {
        /// The figure.
        figure: String,
        /// What was asked for.
        world: &'static str,
        /// What there is.
        known: String,
    },
    /// No cell is left.
    #[error(
        "no cell of the figure has '{0}' in its name; `--only` takes a part of a name such as \"CoDel drop, 5ms\""
    )]
    Nothing(String),
    /// No micro-VM could be started.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// Data could not be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The figure's own files could not be written.
    #[error("cannot write {path}: {source}; choose another folder with --out")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// How a figure's runs go.
pub struct FigureOptions<'a> {
    /// Where each run's tables and the figure's page go.
    pub out: PathBuf,
    /// Runs at the same time; none to choose by rate and processors.
    pub jobs: Option<usize>,
    /// How packets are read and written. The world is the plan's.
    pub run: RunOptions<'a>,
    /// Called now and then, from any thread.
    pub progress: &'a (dyn Fn(FigureProgress) + Sync),
}

/// How far a figure is.
#[derive(Clone, Debug)]
pub struct FigureProgress {
    /// Runs that have ended.
    pub done: usize,
    /// All runs.
    pub total: usize,
    /// The time that the rest will take, from the runs so far; none before that can be told.
    pub left: Option<Duration>,
    /// The run that has just ended, or that is at work; empty before the first.
    pub last: String,
}

/// Makes a figure. On interrupt, the cells that were filled until then are kept and the rest is missing; the same figure
/// made in the same folder then takes the runs that have ended from there ([`FigureResult::continued`]).
///
/// If data cannot be written, `stop` of the options is set, so that nothing else is measured in vain.
///
/// # Errors
/// If the plan names a variant or cells that there are not, or data cannot be written. A run that fails is no error: its
/// cell says so.
pub fn run(figure: &dyn Figure, plan: &Plan, options: &FigureOptions) -> Result<FigureResult, FigureError> {
    let about = figure.about();
    if about.variants.iter().all(|variant| variant.name != plan.variant) {
        let known: Vec<_> = about.variants.iter().map(|variant| variant.name.as_str()).collect();
        return Err(FigureError::Variant {
            figure: about.id,
            variant: plan.variant.clone(),
            known: known.join(", "),
        });
    }
    if !about.worlds.contains(&plan.world.name()) {
        return Err(FigureError::World {
            figure: about.id,
            world: plan.world.name(),
            known: about.worlds.join(", "),
        });
    }
    let jobs = figure.jobs(plan);
    if jobs.is_empty() {
        return Err(FigureError::Nothing(plan.only.clone().unwrap_or_default()));
    }
    let kernel = match plan.world {
        World::Vm => {
            Some(vm::Cache::of_user().and_then(|cache| cache.wanted(options.run.kernel.as_deref()))?)
        }
        World::Emu | World::Kernel | World::Sim => None,
    };
    let mut books = Books::open(&jobs, plan, kernel.as_ref(), options)?;
    match &kernel {
        Some(kernel) => run_in_guests(&books, kernel)?,
        None => run_here(&books, plan),
    }
    let results = books.outcomes()?;
    let mut result = figure.reduce(plan, &jobs, &results);
    result.continued = jobs.len() - books.todo.len();
    for (name, text) in [
        ("figure.json", serde_json::to_string_pretty(&result).expect("a figure is plain data")),
        ("figure.txt", result.table.clone()),
        ("figure.html", result.html.clone()),
    ] {
        let path = options.out.join(name);
        let written = std::fs::create_dir_all(&options.out).and_then(|()| std::fs::write(&path, text));
        written.map_err(|source| FigureError::Write { path, source })?;
    }
    if results.iter().all(Result::is_ok) {
        books.unfinished.finish()?;
    }
    Ok(result)
}

/// What each job came to, or why to nothing.
type Outcomes = Vec<Result<RunResult, String>>;

/// What has come of the jobs until now.
struct Books<'a> {
    jobs: &'a [Job],
    options: &'a FigureOptions<'a>,
    unfinished: Unfinished,
    /// The places of the jobs that no earlier command has done.
    todo: Vec<usize>,
    outcomes: Vec<Mutex<Option<Result<RunResult, String>>>>,
    failed: Mutex<Option<FigureError>>,
    start: Instant,
}

impl<'a> Books<'a> {
    #[allow(clippy::disallowed_methods, reason = "progress is told in wall-clock time")]
    fn open(
        jobs: &'a [Job],
        plan: &Plan,
        kernel: Option<&Kernel>,
        options: &'a FigureOptions<'a>,
    ) -> Result<Self, FigureError> {
        let unfinished = Unfinished::open(&options.out, plan.world, kernel)?;
        let known: Vec<_> = jobs.iter().map(|job| unfinished.result(job).map(without_samples)).collect();
        let todo: Vec<usize> = (0..jobs.len()).filter(|index| known[*index].is_none()).collect();
        let outcomes = known.into_iter().map(|result| Mutex::new(result.map(Ok))).collect();
        let failed = Mutex::new(None);
        let books = Self { jobs, options, unfinished, todo, outcomes, failed, start: Instant::now() };
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
    fn tell(&self, done: f64, last: String) {
        let todo = self.todo.len();
        let left = (done > 0.0).then(|| self.start.elapsed().mul_f64((todo as f64 - done).max(0.0) / done));
        let total = self.jobs.len();
        (self.options.progress)(FigureProgress { done: total - todo + done as usize, total, left, last });
    }

    /// What each job came to.
    fn outcomes(&mut self) -> Result<Outcomes, FigureError> {
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
fn run_here(books: &Books<'_>, plan: &Plan) {
    let todo: Vec<&Job> = books.todo.iter().map(|index| &books.jobs[*index]).collect();
    let parallel = books.options.jobs.unwrap_or_else(|| fitting(&todo)).clamp(1, todo.len().max(1));
    let share = share(parallel);
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..parallel {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = todo.get(index).filter(|_| !books.stopped()) else { return };
                    books.end(books.todo[index], run_job(job, plan, share, books.options));
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    books.tell(done as f64, job.name.clone());
                }
            });
        }
    });
}

/// All jobs in micro-VMs, one at a time in each.
fn run_in_guests(books: &Books<'_>, kernel: &Kernel) -> Result<(), FigureError> {
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
fn run_job(job: &Job, plan: &Plan, share: u32, options: &FigureOptions) -> Result<RunResult, String> {
    let run = RunOptions { world: plan.world, run: job.run, share, progress: &|_| {}, ..options.run.clone() };
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
fn fitting(jobs: &[&Job]) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let fastest = jobs.iter().map(|job| job.scenario.bottleneck.rate.bits_per_sec()).max().unwrap_or(1);
    ((processors * 150e6 / fastest as f64) as usize).clamp(1, 3 * processors as usize)
}

/// What a reader must know of the runs: those that failed, and those that were late.
pub(super) fn warnings(jobs: &[Job], results: &[Result<RunResult, String>]) -> Vec<String> {
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
