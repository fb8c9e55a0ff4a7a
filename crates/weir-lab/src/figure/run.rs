//! Runs a figure's jobs, several at a time where the processors allow, and keeps each run's data.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use thiserror::Error;

use super::{Figure, FigureResult, Job, Plan};
use crate::output::{self, OutputError};
use crate::result::RunResult;
use crate::run::{RunOptions, World, run as run_scenario};
use crate::vm::{self, VmError, VmOptions, VmRun};

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
    /// The time that the rest will take, from the runs so far; none before the first has ended.
    pub left: Option<Duration>,
    /// The run that has just ended.
    pub last: String,
}

/// Makes a figure. On interrupt, the cells that were filled until then are kept and the rest is missing.
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
    let results = match plan.world {
        World::Vm => run_in_guests(&jobs, options)?,
        World::Emu | World::Kernel | World::Sim => run_here(&jobs, plan, options)?,
    };
    let result = figure.reduce(plan, &jobs, &results);
    for (name, text) in [
        ("figure.json", serde_json::to_string_pretty(&result).expect("a figure is plain data")),
        ("figure.txt", result.table.clone()),
        ("figure.html", result.html.clone()),
    ] {
        let path = options.out.join(name);
        let written = std::fs::create_dir_all(&options.out).and_then(|()| std::fs::write(&path, text));
        written.map_err(|source| FigureError::Write { path, source })?;
    }
    Ok(result)
}

/// What each job came to, or why to nothing.
type Outcomes = Vec<Result<RunResult, String>>;

/// All jobs on this host, several at a time.
#[allow(clippy::disallowed_methods, reason = "progress is told in wall-clock time")]
fn run_here(jobs: &[Job], plan: &Plan, options: &FigureOptions) -> Result<Outcomes, FigureError> {
    let parallel = options.jobs.unwrap_or_else(|| fitting(jobs)).clamp(1, jobs.len());
    let share = share(parallel);
    let results: Vec<Mutex<Option<Result<RunResult, String>>>> =
        jobs.iter().map(|_| Mutex::new(None)).collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failed: Mutex<Option<OutputError>> = Mutex::new(None);
    let abandon = AtomicBool::new(false);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..parallel {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let stop = || options.run.stop.load(Ordering::Relaxed) || abandon.load(Ordering::Relaxed);
                    let Some(job) = jobs.get(index).filter(|_| !stop()) else { return };
                    let outcome = run_job(job, plan, share, options);
                    if let Ok(Err(error)) = outcome {
                        abandon.store(true, Ordering::Relaxed);
                        failed.lock().unwrap_or_else(|poison| poison.into_inner()).get_or_insert(error);
                        return;
                    }
                    let outcome = outcome.map(|written| written.expect("write errors have returned above"));
                    *results[index].lock().unwrap_or_else(|poison| poison.into_inner()) = Some(outcome);
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    let left = start.elapsed().mul_f64((jobs.len() - done) as f64 / done as f64);
                    (options.progress)(FigureProgress {
                        done,
                        total: jobs.len(),
                        left: Some(left),
                        last: job.name.clone(),
                    });
                }
            });
        }
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(|poison| poison.into_inner()) {
        return Err(error.into());
    }
    let results = results
        .into_iter()
        .map(|slot| slot.into_inner().unwrap_or_else(|poison| poison.into_inner()))
        .map(|outcome| outcome.unwrap_or_else(|| Err("interrupted before it ran".to_owned())))
        .collect();
    Ok(results)
}

/// All jobs in micro-VMs, one at a time in each.
#[allow(clippy::disallowed_methods, reason = "progress is told in wall-clock time")]
fn run_in_guests(jobs: &[Job], options: &FigureOptions) -> Result<Outcomes, FigureError> {
    let kernel = vm::Cache::of_user().and_then(|cache| cache.wanted(options.run.kernel.as_deref()))?;
    let runs: Vec<VmRun> =
        jobs.iter().map(|job| VmRun { scenario: &job.scenario, run: job.run, pcap: None }).collect();
    let start = Instant::now();
    let parts: Vec<Mutex<f64>> = jobs.iter().map(|_| Mutex::new(0.0)).collect();
    let progress = |now: vm::VmProgress| {
        *parts[now.index].lock().unwrap_or_else(|poison| poison.into_inner()) = now.done;
        let done: f64 =
            parts.iter().map(|part| *part.lock().unwrap_or_else(|poison| poison.into_inner())).sum();
        let left = (done > 0.0).then(|| start.elapsed().mul_f64((jobs.len() as f64 - done) / done));
        let last = jobs[now.index].name.clone();
        (options.progress)(FigureProgress { done: done as usize, total: jobs.len(), left, last });
    };
    let vm = VmOptions {
        guests: options.jobs.unwrap_or(1),
        progress: &progress,
        ..VmOptions::new(options.run.stop)?
    };
    let results = vm::run_scenarios(&kernel, &runs, &vm);
    let results = jobs.iter().zip(results).map(|(job, result)| match result {
        Ok(result) => Ok(Ok(keep(job, result, options)?)),
        Err(error) => Ok(Err(error.to_string())),
    });
    results.collect()
}

/// One run and its files. The outer error is the run's, the inner one the disk's. Samples over time are on disk by then
/// and dropped from memory: a figure may have a thousand runs.
fn run_job(
    job: &Job,
    plan: &Plan,
    share: u32,
    options: &FigureOptions,
) -> Result<Result<RunResult, OutputError>, String> {
    let run = RunOptions { world: plan.world, run: job.run, share, progress: &|_| {}, ..options.run.clone() };
    let result = run_scenario(&job.scenario, &run).map_err(|error| error.to_string())?;
    if result.meta.cut_short.as_deref() == Some("interrupted") {
        return Err("interrupted".to_owned());
    }
    Ok(keep(job, result, options))
}

/// Writes a run's files, and drops from memory what is only in them.
fn keep(job: &Job, mut result: RunResult, options: &FigureOptions) -> Result<RunResult, OutputError> {
    let folder: String =
        job.name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    output::write(&options.out.join("runs").join(folder), &result)?;
    result.series = Default::default();
    result.assessments = Vec::new();
    Ok(result)
}

/// What each of `parallel` bottlenecks asks of the processors, in thousandths of one: together 85 % of all; the kernel
/// keeps the rest for ordinary threads.
fn share(parallel: usize) -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    ((850 * processors / parallel) as u32).min(weir_link::DEFAULT_SHARE)
}

/// How many such runs fit on the processors: a user-space bottleneck and its endpoints take about one processor per
/// 300 Mbit/s when several run at once, and with more than three runs per processor packets leave late whatever the rate.
fn fitting(jobs: &[Job]) -> usize {
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
