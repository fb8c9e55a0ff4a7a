//! Both ends of a sweep on a cluster: `Home`, where its cells are kept, and `Away`, where they run. What lies between
//! is `weirnet._cluster`.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use weir_study::sweep::{self as sweeps, MOST_CELLS, Missing};

use crate::errors::{Fault, raise};
use crate::given::{self, Given};
use crate::slots;
use crate::study::{RESULTS, Sweep, folder_name, take};

/// A sweep and the folder of its cells.
#[pyclass(frozen, module = "weirnet._weirnet", name = "Home")]
pub(crate) struct Home {
    sweep: sweeps::Sweep,
    out: PathBuf,
    missing: Missing,
}

#[pymethods]
impl Home {
    #[new]
    #[pyo3(signature = (sweep, *, out=None, take=Vec::new(), retry_failed=false, large=false, max_cells=MOST_CELLS))]
    fn new(
        py: Python<'_>,
        sweep: &Bound<'_, PyAny>,
        out: Option<PathBuf>,
        take: Vec<PathBuf>,
        retry_failed: bool,
        large: bool,
        max_cells: u64,
    ) -> PyResult<Self> {
        let given = Given::of(sweep)?;
        let code = slots::code();
        let made = py.detach(|| -> Result<Self, Fault> {
            let mut sweep = sweeps::Sweep::parse(given.text.clone(), &given.path, max_cells, large)?;
            if !sweep.world().is_virtual() {
                let (name, world) = (sweep.name(), sweep.world().name());
                let words = format!(
                    "sweep '{name}': world = \"{world}\": a cluster runs cells in world sim alone; \
                     `weir sweep --shard` runs a part of them on each machine"
                );
                return Err(Fault::new("ScenarioError", &words));
            }
            slots::check_cluster(&given.text)?;
            if !code.is_empty() {
                sweep = sweep.with_code(&code)?;
            }
            let out =
                given::folder(out).unwrap_or_else(|| Path::new(RESULTS).join(folder_name(sweep.name())));
            weir_report::output::check_writable(&out)?;
            let damaged = self::take(&sweep, &take, &out)?;
            let mut missing = sweep.missing(&out, retry_failed);
            missing.damaged += damaged;
            Ok(Self { sweep, out, missing })
        });
        made.map_err(|fault| fault.raise(py))
    }

    /// The folder.
    #[getter]
    fn out(&self) -> &Path {
        &self.out
    }

    /// How many cells there are.
    #[getter]
    fn cells(&self) -> usize {
        self.sweep.cells()
    }

    /// The cells that have no result, one of those that have the same.
    #[getter]
    fn missing(&self) -> Vec<usize> {
        self.missing.cells.clone()
    }

    /// What a worker needs.
    fn parcel<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let parcel = self.sweep.parcel().map_err(|error| Fault::from(error).raise(py))?;
        Ok(PyBytes::new(py, &parcel))
    }

    /// Cells in batches that cost about the same, of `mean` cells in the mean.
    fn batches(&self, cells: Vec<usize>, mean: usize) -> Vec<Vec<usize>> {
        self.sweep.batches(&cells, mean)
    }

    /// How many packets these cells are expected to take.
    fn expected(&self, cells: Vec<usize>) -> f64 {
        self.sweep.expected(&cells)
    }

    /// Stores what a worker has made of a cell; false if it is not that, or not whole.
    fn keep(&self, py: Python<'_>, cell: usize, text: &[u8]) -> PyResult<bool> {
        py.detach(|| self.sweep.keep(&self.out, cell, text)).map_err(|error| Fault::from(error).raise(py))
    }

    /// Stores that a cell could not run.
    fn fail(&self, py: Python<'_>, cell: usize, why: &str) -> PyResult<()> {
        self.sweep.keep_failed(&self.out, cell, why).map_err(|error| Fault::from(error).raise(py))
    }

    /// Writes tables and page from what is stored. Without `rows` the result has no `table`, which may be large.
    fn finish(&self, py: Python<'_>, command: &str, rows: bool) -> PyResult<Sweep> {
        let made = py.detach(|| -> Result<Sweep, Fault> {
            let result = sweeps::write(&self.sweep, &self.out, command, &self.missing)?;
            let rows = if rows { self.sweep.rows(&self.out).collect() } else { Vec::new() };
            Ok(Sweep::of(result, rows, self.out.clone()))
        });
        made.map_err(|fault| fault.raise(py))
    }
}

/// A sweep whose cells are kept elsewhere.
#[pyclass(frozen, module = "weirnet._weirnet", name = "Away")]
pub(crate) struct Away(sweeps::Away);

#[pymethods]
impl Away {
    #[new]
    fn new(py: Python<'_>, parcel: &[u8]) -> PyResult<Self> {
        let away = py.detach(|| sweeps::Away::open(parcel));
        away.map(Self).map_err(|error| Fault::from(error).raise(py))
    }

    /// Runs cells one after the other; what came of each is what [`Home::keep`] takes.
    fn run<'py>(&self, py: Python<'py>, cells: Vec<usize>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        // Nobody asks a worker to stop: it ends, and another runs its cells.
        let stop = AtomicBool::new(false);
        let run = |cell: usize| {
            let text = py.detach(|| self.0.run(cell, &stop)).map_err(|error| Fault::from(error).raise(py))?;
            let text = text.ok_or_else(|| raise(py, "RunError", "the run was interrupted"))?;
            Ok(PyBytes::new(py, &text))
        };
        cells.into_iter().map(run).collect()
    }
}
