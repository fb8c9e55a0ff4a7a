//! Runs the jobs that have no result yet, several at a time, and keeps each result as soon as the run has ended.
//!
//! A run that fails or panics is recorded and the others go on. A run that an interrupt cut short leaves nothing: the
//! same command makes it again, and those that have ended are taken from the store.

use std::any::Any;
use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use weir_report::output;
use weir_report::result::RunResult;
use weir_vm::Kernel;
use weir_world::RunOptions;
use weir_world::vm::{self, VmOptions, VmRun};

use super::{Job, Kept, Options, Outcome, Progress, Store, Study, StudyError, policy};

/// What a command found in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Jobs that had their result from an earlier command.
    pub reused: usize,
    /// Jobs whose stored result was not as it had been written, and that ran again.
    pub damaged: usize,
}

/// Runs the jobs that have no result in `store` yet. When stopped, what has ended is kept.
///
/// If results cannot be written, `stop` of the options is set, so that nothing else is measured in vain.
///
/// # Errors
/// If more runs at a time are asked for than fit, results cannot be written, or a job cannot be made.
pub fn run<S: Study>(study: &S, store: &Store, options: &Options) -> Result<Made, S::Error> {
    let world = study.origin().world;
    let parallel = policy::side_by_side(world, study.fastest(), options.jobs, policy::processors())?;
    output::check_writable(&options.out).map_err(StudyError::from)?;
    let (todo, made) = find_missing(study, store, options.retry_failed);
    let missing = todo.iter().map(|job| job.count).sum();
    let failed = Mutex::new(None);
    let work = Work { study, store, options, todo, missing, failed, start: now() };
    if made.reused > 0 {
        work.show(0.0, String::new());
    }
    match &study.origin().guest {
        Some(kernel) => work.in_guests(kernel, parallel)?,
        None => work.here(parallel),
    }
    match work.failed.into_inner().unwrap_or_else(|poison| poison.into_inner()) {
        Some(error) => Err(error),
        None => Ok(made),
    }
}

/// A job without result, and how many jobs have its address.
pub(crate) struct Missing {
    pub(crate) index: usize,
    pub(crate) count: usize,
}

/// The jobs that have no result in `store`, one of each address.
pub(crate) fn find_missing<S: Study>(study: &S, store: &Store, retry_failed: bool) -> (Vec<Missing>, Made) {
    let (mut todo, mut made) = (Vec::<Missing>::new(), Made::default());
    // Where in `todo` the first job of each address is, if it is there.
    let mut seen = HashMap::new();
    for index in 0..study.count() {
        let address = study.address(index);
        let place = match seen.entry(address) {
            Entry::Occupied(place) => place.into_mut(),
            Entry::Vacant(place) => {
                let has_result = match store.read(address) {
                    Kept::Nothing => false,
                    Kept::Damaged => {
                        made.damaged += 1;
                        false
                    }
                    Kept::Whole(Outcome::Failed(_)) => !retry_failed,
                    Kept::Whole(Outcome::Measured(kept)) => {
                        let whole = study.recall(index, *kept);
                        made.damaged += usize::from(!whole);
                        whole
                    }
                };
                if !has_result {
                    todo.push(Missing { index, count: 0 });
                }
                place.insert((!has_result).then(|| todo.len() - 1))
            }
        };
        match place {
            Some(place) => todo[*place].count += 1,
            None => made.reused += 1,
        }
    }
    (todo, made)
}

/// The wall clock.
#[allow(clippy::disallowed_methods, reason = "progress and run times are shown in wall-clock time")]
pub fn now() -> Instant {
    Instant::now()
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}

struct Work<'a, S: Study> {
    study: &'a S,
    store: &'a Store,
    options: &'a Options<'a>,
    todo: Vec<Missing>,
    /// Jobs without result, each that shares an address counted.
    missing: usize,
    /// What keeps results from being written, or a job from being made.
    failed: Mutex<Option<S::Error>>,
    start: Instant,
}

impl<S: Study> Work<'_, S> {
    fn is_stopped(&self) -> bool {
        self.options.run.stop.load(Ordering::Relaxed)
    }

    /// Ends all work for an error that concerns every run.
    fn give_up(&self, error: S::Error) {
        lock(&self.failed).get_or_insert(error);
        self.options.run.stop.store(true, Ordering::Relaxed);
    }

    /// All jobs on this host, `parallel` at a time.
    fn here(&self, parallel: usize) {
        let share = policy::share(parallel, policy::processors());
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..parallel.min(self.todo.len()) {
                scope.spawn(|| {
                    while let Some(missing) = self.todo.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if self.is_stopped() {
                            return;
                        }
                        match self.one(missing.index, share) {
                            Ok(Some(name)) => {
                                let done = done.fetch_add(missing.count, Ordering::Relaxed) + missing.count;
                                self.show(done as f64, name);
                            }
                            Ok(None) => return,
                            Err(error) => return self.give_up(error),
                        }
                    }
                });
            }
        });
    }

    /// Runs a job and keeps what comes of it. Returns its name, or nothing if it was interrupted.
    fn one(&self, index: usize, share: u32) -> Result<Option<String>, S::Error> {
        let job = self.study.job(index)?;
        let world = self.study.origin().world;
        let made = run_one(&job, &RunOptions { world, share, ..self.options.run.clone() });
        Ok(self.end(index, &job, made)?.then(|| job.into_owned().name))
    }

    /// Keeps what has come of a job. False if it was interrupted.
    fn end(&self, index: usize, job: &Job, made: Result<RunResult, String>) -> Result<bool, S::Error> {
        let outcome = match made {
            Ok(result) if result.meta.cut_short.as_deref() == Some("interrupted") => return Ok(false),
            Ok(result) => Outcome::Measured(Box::new(self.study.keep(index, job, result)?)),
            // What an interrupt breaks is not the run's fault.
            Err(_) if self.is_stopped() => return Ok(false),
            Err(error) => Outcome::Failed(error),
        };
        let written = self.store.write(self.study.address(index), self.study.origin(), job, &outcome);
        written.map_err(StudyError::from)?;
        Ok(true)
    }

    /// All jobs in `guests` micro-VMs at a time, one job at a time in each.
    fn in_guests(&self, kernel: &Kernel, guests: usize) -> Result<(), S::Error> {
        let jobs = self.todo.iter().map(|missing| self.study.job(missing.index));
        let jobs: Vec<Cow<'_, Job>> = jobs.collect::<Result<_, _>>()?;
        let runs: Vec<VmRun> =
            jobs.iter().map(|job| VmRun { scenario: &job.scenario, run: job.run, pcap: None }).collect();
        let parts: Vec<Mutex<f64>> = jobs.iter().map(|_| Mutex::new(0.0)).collect();
        let show = |place: usize, part: f64| {
            *lock(&parts[place]) = part;
            let done = parts.iter().zip(&self.todo).map(|(part, missing)| *lock(part) * missing.count as f64);
            self.show(done.sum(), jobs[place].name.clone());
        };
        let vm = VmOptions {
            guests,
            // Only a run that has ended is done.
            progress: &|now| show(now.index, now.done.min(0.99)),
            ..VmOptions::new(self.options.run.stop).map_err(StudyError::from)?
        };
        vm::run_scenarios(kernel, &runs, &vm, &|place, made| {
            let made = made.map_err(|error| error.to_string());
            match self.end(self.todo[place].index, &jobs[place], made) {
                Ok(true) => show(place, 1.0),
                Ok(false) => {}
                Err(error) => self.give_up(error),
            }
        });
        Ok(())
    }

    /// Shows that so many of the missing jobs are done; parts count.
    fn show(&self, done: f64, last: String) {
        let left = (done > 0.0).then(|| {
            let spent = now().saturating_duration_since(self.start);
            spent.mul_f64((self.missing as f64 - done).max(0.0) / done)
        });
        let total = self.study.count();
        let done = total - self.missing + done as usize;
        (self.options.progress)(Progress { done, total, left, last });
    }
}

/// Runs a job, with its run number. Where it fails, also by a panic, there is the reason.
pub(crate) fn run_one(job: &Job, options: &RunOptions) -> Result<RunResult, String> {
    let options = RunOptions { run: job.run, progress: &|_| {}, ..options.clone() };
    match catch_unwind(AssertUnwindSafe(|| weir_world::run(&job.scenario, &options))) {
        Ok(made) => made.map_err(|error| error.to_string()),
        Err(panic) => Err(match panic.downcast_ref::<Foreign>() {
            Some(Foreign(words)) => words.clone(),
            None => format!("{}; this is a fault of weir", said(panic.as_ref())),
        }),
    }
}

/// What code panics with that is no part of Weir, such as a controller that was registered: what went wrong, for people.
#[derive(Clone, Debug)]
pub struct Foreign(pub String);

/// What a panic says.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("no reason given"))
}
