//! `weirnet.run`: a scenario, run as `weir run` does.

use std::path::PathBuf;
use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_report::output::{self, Folder};
use weir_report::result::RunResult;
use weir_report::{page, summary};
use weir_scenario::Scenario;
use weir_world::{self as world, RunOptions};

use crate::arrow::{Table, escaped};
use crate::errors::{Fault, raise};
use crate::given::{self, Given};
use crate::rows;
use crate::slots;
use crate::watch::{Step, watch};

/// Names the command that micro-VMs are given.
#[pyfunction]
pub(crate) fn set_program(weir: PathBuf) {
    world::vm::set_program(weir);
}

/// A run's result.
#[pyclass(frozen, module = "weirnet", name = "Run")]
pub(crate) struct Run {
    result: RunResult,
    tables: OnceLock<Vec<Py<Table>>>,
}

/// Runs a scenario.
#[pyfunction]
#[pyo3(signature = (
    scenario, *, on="sim", seed=None, run=0, out=None, pcap=false, trace=false, large=false, kernel=None,
    progress=None,
))]
#[allow(
    clippy::too_many_arguments,
    reason = "they are keyword arguments of Python, and the options of the command"
)]
pub(crate) fn run(
    py: Python<'_>,
    scenario: &Bound<'_, PyAny>,
    on: &str,
    seed: Option<u64>,
    run: u64,
    out: Option<PathBuf>,
    pcap: bool,
    trace: bool,
    large: bool,
    kernel: Option<String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Run> {
    let world = given::world(py, on)?;
    let given = Given::of(scenario)?;
    let change = |scenario: &mut Scenario| {
        if given.is_dict && scenario.name == given::DICT {
            scenario.name = given.stem();
        }
        scenario.seed = seed.unwrap_or(scenario.seed);
        scenario.measure.pcap |= pcap;
        scenario.measure.trace |= trace;
    };
    let check = |scenario: &Scenario| world::check(scenario, world, large);
    let scenario = Scenario::parse_with(&given.text, &given.path, change, check)
        .map_err(|error| Fault::from(error).raise(py))?;
    slots::check_world(py, &scenario, world)?;
    let out = given::folder(out);
    if out.is_none() && (scenario.measure.pcap || scenario.measure.trace) {
        let what = if scenario.measure.pcap { "pcap" } else { "trace" };
        return Err(raise(
            py,
            "ScenarioError",
            &format!("{what}: it is a file; say in which folder with out="),
        ));
    }
    let (result, ended_by) = watch(py, progress, |worker| {
        if let Some(out) = &out {
            output::check_writable(out)?;
        }
        let mut folder = out.as_deref().map(Folder::new);
        let mut target =
            |wanted: bool, name| folder.as_mut().filter(|_| wanted).map(|folder| folder.target(name));
        let options = RunOptions {
            world,
            kernel,
            run,
            pcap: target(scenario.measure.pcap, "packets.pcapng"),
            trace: target(scenario.measure.trace, "packets.tr"),
            large,
            progress: &|now| {
                worker.tell(Step { done: now.done, left: now.left, note: scenario.name.clone() })
            },
            ..RunOptions::new(worker.stop)
        };
        let result =
            world::run(&scenario, &options).map_err(|error| Fault::of_run(&scenario.name, &error))?;
        if let Some(folder) = folder {
            folder.write(&result)?;
        }
        Ok(result)
    })?;
    let run = Run { result, tables: OnceLock::new() };
    match ended_by {
        None => Ok(run),
        Some(error) => Err(interrupted(py, error, run)),
    }
}

/// What has ended a call early, with what was done until then if it was Ctrl-C.
pub(crate) fn interrupted<T: pyo3::PyClass + Into<pyo3::PyClassInitializer<T>>>(
    py: Python<'_>,
    error: PyErr,
    result: T,
) -> PyErr {
    if !error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) {
        return error;
    }
    let ended = raise(py, "Interrupted", "interrupted; the attribute `result` has what was done until then");
    match Py::new(py, result).and_then(|result| ended.value(py).setattr("result", result)) {
        Ok(()) => ended,
        Err(error) => error,
    }
}

impl Run {
    fn all(&self, py: Python<'_>) -> PyResult<&[Py<Table>]> {
        if self.tables.get().is_none() {
            let tables = rows::of_run(py, &self.result)?;
            let tables = tables.into_iter().map(|table| Py::new(py, table)).collect::<PyResult<_>>()?;
            // Another thread may have been faster.
            let _ = self.tables.set(tables);
        }
        Ok(self.tables.get().map_or(&[], Vec::as_slice))
    }

    fn json(&self) -> String {
        serde_json::to_string_pretty(&self.result).expect("a result is plain data")
    }
}

#[pymethods]
impl Run {
    /// The tables by name.
    #[getter]
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for table in self.all(py)? {
            dict.set_item(table.get().name.as_str(), table)?;
        }
        Ok(dict)
    }

    fn __getattr__(&self, py: Python<'_>, name: &str) -> PyResult<Py<Table>> {
        let table = self.all(py)?.iter().find(|table| table.get().name == name);
        table.map(|table| table.clone_ref(py)).ok_or_else(|| {
            let names: Vec<String> =
                self.all(py).unwrap_or(&[]).iter().map(|table| table.get().name.clone()).collect();
            let hint = weir_core::words::hint(name, names);
            pyo3::exceptions::PyAttributeError::new_err(format!("this run has no '{name}'{hint}"))
        })
    }

    fn __dir__(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let own = ["meta", "name", "save", "page", "tables", "to_json", "warnings", "was_interrupted"];
        let tables = self.all(py)?.iter().map(|table| table.get().name.clone());
        Ok(own.into_iter().map(str::to_owned).chain(tables).collect())
    }

    /// The scenario's name.
    #[getter]
    fn name(&self) -> &str {
        &self.result.meta.scenario.name
    }

    /// What `run.json` holds beside the tables.
    #[getter]
    fn meta<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        given::from_json(py, &self.json())
    }

    /// What makes the run doubtful, in words.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.result.health.warnings.clone()
    }

    /// Whether it ended before its flows had, for Ctrl-C.
    #[getter]
    fn was_interrupted(&self) -> bool {
        self.result.meta.cut_short.as_deref() == Some("interrupted")
    }

    /// The text of `run.json`.
    fn to_json(&self) -> String {
        self.json() + "\n"
    }

    /// The text of `report.html`.
    fn page(&self) -> String {
        page::html(&[(self.label(), &self.result)])
    }

    /// Writes all files that the command writes, and returns their paths.
    fn save(&self, py: Python<'_>, out: PathBuf) -> PyResult<Vec<PathBuf>> {
        py.detach(|| output::write(&out, &self.result)).map_err(|error| Fault::from(error).raise(py))
    }

    fn __str__(&self) -> String {
        summary::text(&[(self.label(), &self.result)])
    }

    fn __repr__(&self) -> String {
        let meta = &self.result.meta;
        let (name, world, seed) = (&meta.scenario.name, &meta.world, meta.seed);
        format!("<weirnet.Run '{name}' in world {world}, seed {}, run {}>", seed.seed, seed.run)
    }

    fn _repr_html_(&self) -> String {
        let warnings = self.result.health.warnings.iter();
        let warnings = warnings.map(|text| format!("<p><b>Doubtful:</b> {}</p>", escaped(text)));
        format!("<pre>{}</pre>{}", escaped(&self.__str__()), warnings.collect::<String>())
    }
}

impl Run {
    fn label(&self) -> &str {
        match self.result.meta.scenario.name.as_str() {
            "" => "run",
            name => name,
        }
    }
}

/// How far many runs are, in a step.
pub(crate) fn step(now: &weir_study::Progress) -> Step {
    let done = now.done as f64 / now.total.max(1) as f64;
    Step { done, left: now.left, note: format!("{}/{} runs; {}", now.done, now.total, now.last) }
}
