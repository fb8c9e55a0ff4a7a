//! Work that takes long: on a thread of its own, without the interpreter's lock, while the caller's thread looks for
//! Ctrl-C and passes progress on.

use std::any::Any;
use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use weir_study::Foreign;

use crate::errors::{Fault, raise};

/// How often the caller's thread looks.
const LOOK: Duration = Duration::from_millis(50);

/// How far the work is.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// 0 to 1.
    pub(crate) done: f64,
    /// The time that is left, if that is known.
    pub(crate) left: Option<Duration>,
    /// What is at work, in words.
    pub(crate) note: String,
}

/// A Python exception on its way out of code that cannot return it.
pub(crate) struct Thrown(pub(crate) PyErr);

thread_local! {
    /// Whether this is a thread of [`watch`], which takes what is thrown.
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Leaves whatever has called Python code that has thrown `error`. On its own thread [`watch`] takes it from there; on
/// others it is a sweep's cell that fails, with the exception's words.
pub(crate) fn throw(error: PyErr) -> ! {
    if IS_WORKER.get() {
        resume_unwind(Box::new(Thrown(error)));
    }
    resume_unwind(Box::new(Foreign(Python::attach(|py| words(py, &error)))))
}

/// An exception's class and message, and the line of Python that threw it.
fn words(py: Python<'_>, error: &PyErr) -> String {
    let mut place = None;
    let mut next = error.traceback(py).map(Bound::into_any);
    while let Some(traceback) = next.filter(|traceback| !traceback.is_none()) {
        let of =
            |path: [&str; 3]| path.iter().try_fold(traceback.clone(), |object, name| object.getattr(*name));
        let file = of(["tb_frame", "f_code", "co_filename"]).and_then(|file| file.extract::<String>());
        let line = traceback.getattr("tb_lineno").and_then(|line| line.extract::<u32>());
        place = file.ok().zip(line.ok());
        next = traceback.getattr("tb_next").ok();
    }
    let place = place.map_or_else(String::new, |(file, line)| format!(" ({file}, line {line})"));
    format!("{error}{place}")
}

/// What the work works with.
pub(crate) struct Worker<'a> {
    /// Set when the work shall end early.
    pub(crate) stop: &'a AtomicBool,
    latest: &'a Mutex<Option<Step>>,
}

impl Worker<'_> {
    /// Says how far the work is.
    pub(crate) fn tell(&self, step: Step) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(step);
    }
}

/// What came of the work, and what has ended it early: an exception of a signal's handler, such as KeyboardInterrupt,
/// or of `progress`.
pub(crate) type Watched<T> = (T, Option<PyErr>);

/// Does `work`. `progress` is called now and then with the part that is done, the seconds that are left or None, and
/// what is at work.
///
/// # Errors
/// What the work failed at, or what Python code that it called has thrown.
pub(crate) fn watch<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&Worker<'_>) -> Result<T, Fault> + Send,
) -> PyResult<Watched<T>> {
    let (stop, latest) = (AtomicBool::new(false), Mutex::new(None));
    let cancelled = cancellations(py)?;
    let mut ended_by = None;
    let result = py.detach(|| {
        thread::scope(|scope| {
            let (send, ended) = mpsc::channel::<()>();
            let worker = Worker { stop: &stop, latest: &latest };
            let spawned = thread::Builder::new().name("weir".to_owned()).spawn_scoped(scope, move || {
                // Dropped when the work ends, also by a panic.
                let _send = send;
                IS_WORKER.set(true);
                work(&worker)
            });
            let thread = spawned.map_err(|error| Outcome::NoThread(error.to_string()))?;
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if ended_by.is_some() {
                    continue;
                }
                let step = latest.lock().unwrap_or_else(PoisonError::into_inner).take();
                ended_by = Python::attach(|py| look(py, cancelled, progress.as_ref(), step)).err();
                stop.store(ended_by.is_some(), Ordering::Relaxed);
            }
            thread.join().map_err(Outcome::Panic)
        })
    });
    match result {
        Ok(Ok(done)) => Ok((done, ended_by)),
        Ok(Err(fault)) => Err(ended_by.unwrap_or_else(|| fault.raise(py))),
        Err(Outcome::NoThread(why)) => {
            Err(raise(py, "RunError", &format!("no thread could be started: {why}")))
        }
        Err(Outcome::Panic(payload)) => Err(ended_by.unwrap_or_else(|| thrown(py, payload))),
    }
}

/// Why there is no result.
enum Outcome {
    NoThread(String),
    Panic(Box<dyn Any + Send>),
}

/// What weirnet/_loop.py counts.
fn cancellations(py: Python<'_>) -> PyResult<u64> {
    py.import("weirnet._loop")?.call_method0("cancellations")?.extract()
}

fn look(py: Python<'_>, cancelled: u64, progress: Option<&Py<PyAny>>, step: Option<Step>) -> PyResult<()> {
    py.check_signals()?;
    if cancellations(py)? > cancelled {
        return Err(PyKeyboardInterrupt::new_err(()));
    }
    if let (Some(progress), Some(Step { done, left, note })) = (progress, step) {
        progress.call1(py, (done, left.map(|left| left.as_secs_f64()), note))?;
    }
    Ok(())
}

fn thrown(py: Python<'_>, payload: Box<dyn Any + Send>) -> PyErr {
    match payload.downcast::<Thrown>() {
        Ok(thrown) => thrown.0,
        Err(payload) => {
            let said = payload.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no words");
            raise(py, "WeirError", &format!("panicked: {said}; this is a fault of weir"))
        }
    }
}
