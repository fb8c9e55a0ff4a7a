//! Congestion controllers written in Python: a class whose `on_ack` sets `cwnd` and `pacing`.

use std::sync::Mutex;

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use weir_cc::catalog::{self, Entry};
use weir_cc::{Choice, Controller, EcnUse, Setup, Timeout};
use weir_core::{Duration, Rate, Time};

use crate::ack::{Ack, seconds};
use crate::slots::{CONTROLLERS, numbered};
use crate::watch::throw;

type Make = fn(&Choice, &Setup) -> Box<dyn Controller>;

macro_rules! of_number {
    ($number:literal) => {
        |_, setup| Box::new(Own::new($number, setup))
    };
}

const MAKE: [Make; crate::slots::MOST] = numbered!(of_number);

/// Makes a class known as a controller.
#[pyfunction]
pub(crate) fn register_controller(
    py: Python<'_>,
    name: &str,
    what: &str,
    class: Py<PyAny>,
    code: String,
) -> PyResult<()> {
    let what: &'static str = Box::leak(what.to_owned().into_boxed_str());
    ecn_of(class.bind(py))?;
    CONTROLLERS.put(py, name, class, code, |number, name| {
        catalog::register(Entry::new(name, what, MAKE[number])).map_err(|error| error.to_string())
    })
}

/// The names of all controllers, each with a few words.
#[pyfunction]
pub(crate) fn controllers() -> Vec<(&'static str, &'static str)> {
    catalog::all().map(|entry| (entry.name, entry.what)).collect()
}

/// How a class takes part in ECN.
fn ecn_of(class: &Bound<'_, PyAny>) -> PyResult<EcnUse> {
    let word: String = class.getattr("ecn")?.extract()?;
    match word.as_str() {
        "off" => Ok(EcnUse::Off),
        "classic" => Ok(EcnUse::Classic),
        "accurate" => Ok(EcnUse::Accurate),
        "scalable" => Ok(EcnUse::Scalable),
        _ => {
            let hint = weir_core::words::hint(&word, ["off", "classic", "accurate", "scalable"]);
            Err(PyValueError::new_err(format!("ecn: there is no '{word}'{hint}")))
        }
    }
}

/// A controller of a Python class.
struct Own {
    name: &'static str,
    mss: u32,
    ecn: EcnUse,
    object: Option<Py<PyAny>>,
    /// Why there is none. It is thrown where the controller has work to do: what only looks at it may be anywhere.
    failed: Mutex<Option<PyErr>>,
    window: u64,
    pacing: Option<Rate>,
    /// Congestion of packets sent before this has been answered.
    answered: Time,
}

impl Own {
    fn new(number: usize, setup: &Setup) -> Self {
        Python::attach(|py| {
            let (name, class) = CONTROLLERS.get(py, number);
            let ecn = ecn_of(class.bind(py)).unwrap_or_default();
            let window = u64::from(setup.initial_window) * u64::from(setup.mss);
            let (answered, failed) = (Time::ZERO, Mutex::new(None));
            let mut own =
                Self { name, mss: setup.mss, ecn, object: None, failed, window, pacing: None, answered };
            match own.begin(py, class.bind(py), setup) {
                Ok(object) => own.object = Some(object),
                Err(error) => own.failed = Mutex::new(Some(error)),
            }
            own
        })
    }

    fn begin(&mut self, py: Python<'_>, class: &Bound<'_, PyAny>, setup: &Setup) -> PyResult<Py<PyAny>> {
        let object = class.call0()?;
        object.setattr("mss", setup.mss)?;
        object.setattr("cwnd", f64::from(setup.initial_window))?;
        object.setattr("pacing", py.None())?;
        let seed = setup.random.clone().below(1 << 62);
        object.setattr("random", py.import("random")?.call_method1("Random", (seed,))?)?;
        object.call_method0("start")?;
        self.take(&object)?;
        Ok(object.unbind())
    }

    /// Takes what the object has set.
    fn take(&mut self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = object.py();
        let cwnd: f64 = object.getattr(intern!(py, "cwnd"))?.extract()?;
        if !cwnd.is_finite() || cwnd < 0.0 {
            let words = format!("controller '{}': cwnd is {cwnd}; give packets, such as 10.0", self.name);
            return Err(PyValueError::new_err(words));
        }
        // Fewer would never send again.
        self.window = (cwnd.max(1.0) * f64::from(self.mss)) as u64;
        let pacing: Option<f64> = object.getattr(intern!(py, "pacing"))?.extract()?;
        self.pacing = match pacing {
            None => None,
            Some(rate) if rate.is_finite() && rate >= 1.0 => Some(Rate::from_bits_per_sec(rate as u64)),
            Some(rate) => {
                let words =
                    format!("controller '{}': pacing is {rate}; give bit/s, at least 1, or None", self.name);
                return Err(PyValueError::new_err(words));
            }
        };
        Ok(())
    }

    /// Calls a method of the object.
    fn call(&mut self, method: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<()>) {
        let called = Python::attach(|py| {
            let Some(object) = self.object.as_ref().map(|object| object.clone_ref(py)) else {
                let failed = self.failed.get_mut().ok().and_then(Option::take);
                return failed.map_or(Ok(()), Err);
            };
            let object = object.bind(py);
            method(py, object)?;
            self.take(object)
        });
        if let Err(error) = called {
            throw(error);
        }
    }
}

impl Controller for Own {
    fn name(&self) -> &'static str {
        self.name
    }

    fn on_handshake(&mut self, rtt: Duration) {
        self.call(|py, object| object.call_method1(intern!(py, "on_handshake"), (seconds(rtt),)).map(drop));
    }

    fn on_ack(&mut self, ack: &weir_cc::Ack) {
        let lost = ack.lost.packets > 0 && ack.lost_sent >= self.answered;
        let marked = (ack.ce.packets > 0 || ack.echo) && ack.delivered_sent >= self.answered;
        let is_congestion = lost || marked;
        if is_congestion {
            self.answered = ack.now;
        }
        let ack = Ack::new(*ack, is_congestion);
        self.call(|py, object| object.call_method1(intern!(py, "on_ack"), (ack,)).map(drop));
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.answered = timeout.now;
        let now = timeout.now.as_nanos() as f64 / 1e9;
        self.call(|py, object| object.call_method1(intern!(py, "on_timeout"), (now,)).map(drop));
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn pacing(&self) -> Option<Rate> {
        self.pacing
    }

    fn ecn(&self) -> EcnUse {
        self.ecn
    }
}
