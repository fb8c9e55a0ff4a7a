//! `weirnet.sweep` and `weirnet.figure`: many runs, as `weir sweep` and `weir figure` make them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pyo3::prelude::*;
use weir_report::tables::Kind;
use weir_study::figure::{FigureResult, Plan};
use weir_study::sweep::{Datum, MOST_CELLS, SweepResult};
use weir_study::{Options, figure as papers, sweep as sweeps};
use weir_world::RunOptions;

use crate::arrow::{Table, escaped};
use crate::errors::{Fault, raise};
use crate::given::{self, Given};
use crate::rows::Growing;
use crate::run::{interrupted, step};
use crate::slots;
use crate::watch::{Worker, watch};

/// Where results go by default, as the command's.
pub(crate) const RESULTS: &str = "results";

/// What came of a sweep.
#[pyclass(frozen, module = "weirnet", name = "Sweep")]
pub(crate) struct Sweep {
    result: SweepResult,
    rows: Vec<Vec<Datum>>,
    out: PathBuf,
    table: OnceLock<Py<Table>>,
    means: OnceLock<Py<Table>>,
}

/// Runs a sweep.
#[pyfunction]
#[pyo3(signature = (
    sweep, *, out=None, take=Vec::new(), jobs=None, retry_failed=false, large=false, max_cells=MOST_CELLS,
    progress=None,
))]
#[allow(
    clippy::too_many_arguments,
    reason = "they are keyword arguments of Python, and the options of the command"
)]
pub(crate) fn sweep(
    py: Python<'_>,
    sweep: &Bound<'_, PyAny>,
    out: Option<PathBuf>,
    take: Vec<PathBuf>,
    jobs: Option<usize>,
    retry_failed: bool,
    large: bool,
    max_cells: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Sweep> {
    let given = Given::of(sweep)?;
    let code = slots::code();
    let (made, ended_by) = watch(py, progress, |worker| {
        // A dict is called as one; its folder is a sweep's.
        let mut sweep = sweeps::Sweep::parse(given.text.clone(), &given.path, max_cells, large)?;
        if !code.is_empty() {
            sweep = sweep.with_code(&code)?;
        }
        slots::check_sweep(&given.text, sweep.world())?;
        let out = given::folder(out).unwrap_or_else(|| Path::new(RESULTS).join(folder_name(sweep.name())));
        let damaged = self::take(&sweep, &take, &out)?;
        let options = Options {
            out: out.clone(),
            jobs,
            retry_failed,
            run: RunOptions::new(worker.stop),
            progress: &|now| worker.tell(step(&now)),
        };
        let mut result = sweeps::run(&sweep, &options, "weirnet.sweep")?;
        result.damaged += damaged;
        let rows: Vec<Vec<Datum>> = sweep.rows(&out).collect();
        Ok(Sweep::of(result, rows, out))
    })?;
    match ended_by {
        None => Ok(made),
        Some(error) => Err(interrupted(py, error, made)),
    }
}

/// Takes results from other folders. Returns how many were not as they were written and have to run again.
pub(crate) fn take(sweep: &sweeps::Sweep, from: &[PathBuf], out: &Path) -> Result<usize, Fault> {
    Ok(sweep.take(from, out)?.iter().map(|taken| taken.damaged).sum())
}

impl Sweep {
    pub(crate) fn of(result: SweepResult, rows: Vec<Vec<Datum>>, out: PathBuf) -> Self {
        Self { result, rows, out, table: OnceLock::new(), means: OnceLock::new() }
    }
}

/// A name as a folder's; as the command has it.
pub(crate) fn folder_name(name: &str) -> String {
    let named: String = name.chars().map(|c| if c.is_alphanumeric() || c == '.' { c } else { '-' }).collect();
    if named.starts_with('.') { format!("-{named}") } else { named }
}

fn kind(name: &str) -> Kind {
    match name {
        "text" => Kind::Text,
        "truth" => Kind::Truth,
        "integer" => Kind::Integer,
        _ => Kind::Number,
    }
}

#[pymethods]
impl Sweep {
    /// `sweep.csv`: a row per run and flow.
    #[getter]
    fn table(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        if self.table.get().is_none() {
            let columns = self.result.meta.columns.iter();
            let mut table =
                Growing::new("sweep", columns.map(|column| (column.name.clone(), kind(column.kind))));
            for row in &self.rows {
                table.row(py, row)?;
            }
            let _ = self.table.set(Py::new(py, table.finish(py, true)?)?);
        }
        self.table.get().map(|table| table.clone_ref(py)).ok_or_else(|| raise(py, "WeirError", "no table"))
    }

    /// `means.csv`: a row for each number of each combination.
    #[getter]
    fn means(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        if self.means.get().is_none() {
            let text = |name: &str| (name.to_owned(), Kind::Text);
            let number = |name: &str| (name.to_owned(), Kind::Number);
            let keys = self.result.meta.keys.iter().map(|key| text(&key.key));
            let columns = keys
                .chain([text("of"), text("measure"), ("runs".to_owned(), Kind::Integer)])
                .chain(["mean", "deviation", "ci95", "min", "max"].map(number));
            let mut table = Growing::new("means", columns);
            for summary in &self.result.summaries {
                for (of, measure, spread) in summary.means() {
                    let values = summary.values.iter().cloned().map(Datum::Text);
                    let head = [Datum::Text(of.to_owned()), Datum::Text(measure.to_owned())];
                    let numbers = [spread.mean, spread.deviation, spread.ci95, spread.min, spread.max];
                    let row = values
                        .chain(head)
                        .chain([Datum::Integer(spread.runs as i64)])
                        .chain(numbers.map(Datum::Number));
                    table.row(py, &row.collect::<Vec<_>>())?;
                }
            }
            let _ = self.means.set(Py::new(py, table.finish(py, true)?)?);
        }
        self.means.get().map(|table| table.clone_ref(py)).ok_or_else(|| raise(py, "WeirError", "no table"))
    }

    /// What `sweep.json` holds.
    #[getter]
    fn meta<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        given::from_json(py, &serde_json::to_string(&self.result.meta).expect("metadata are plain data"))
    }

    /// The sweep's name.
    #[getter]
    fn name(&self) -> &str {
        &self.result.meta.name
    }

    /// The folder with cells, tables and page.
    #[getter]
    fn out(&self) -> &Path {
        &self.out
    }

    /// The keys that are swept, in the order of the table.
    #[getter]
    fn keys(&self) -> Vec<&str> {
        self.result.meta.keys.iter().map(|key| key.key.as_str()).collect()
    }

    /// How many cells there are.
    #[getter]
    fn cells(&self) -> usize {
        self.result.meta.cells
    }

    /// Cells that had their result from an earlier call.
    #[getter]
    fn reused(&self) -> usize {
        self.result.reused
    }

    /// Cells whose stored result was not as it had been written, and that ran again.
    #[getter]
    fn damaged(&self) -> usize {
        self.result.damaged
    }

    /// Cells without result.
    #[getter]
    fn missing(&self) -> usize {
        self.result.meta.missing_cells
    }

    /// Cells that failed, each with its number, its values and the reason.
    #[getter]
    fn failed(&self) -> Vec<(usize, &str, &str)> {
        let failed = self.result.meta.failed_cells.iter();
        failed.map(|cell| (cell.cell, cell.what.as_str(), cell.error.as_str())).collect()
    }

    /// Cells that are doubtful; the column `warnings` says why.
    #[getter]
    fn doubtful(&self) -> usize {
        self.result.meta.doubtful_cells
    }

    /// What `weir sweep --json` prints.
    fn to_json(&self) -> String {
        let mut json = serde_json::to_value(&self.result.meta).expect("metadata are plain data");
        json["summary"] = serde_json::to_value(&self.result.summaries).expect("summaries are plain data");
        format!("{json:#}")
    }

    fn __str__(&self) -> &str {
        &self.result.table
    }

    fn __repr__(&self) -> String {
        let meta = &self.result.meta;
        format!("<weirnet.Sweep '{}': {} cells in {}>", meta.name, meta.cells, self.out.display())
    }

    fn _repr_html_(&self) -> String {
        let meta = &self.result.meta;
        let notes = [
            (self.result.reused, "had their result from an earlier call"),
            (meta.missing_cells, "are missing; the same call goes on from here"),
            (meta.failed_cells.len(), "failed; .failed says why"),
            (meta.doubtful_cells, "are doubtful; the column warnings says why"),
        ];
        let notes = notes.iter().filter(|(count, _)| *count > 0);
        let notes: String =
            notes.map(|(count, what)| format!("<p>{count} of {} cells {what}</p>", meta.cells)).collect();
        format!("<pre>{}</pre>{notes}", escaped(&self.result.table))
    }
}

/// A paper's figure, made.
#[pyclass(frozen, module = "weirnet", name = "Figure")]
pub(crate) struct Figure {
    result: FigureResult,
    out: PathBuf,
}

/// Makes a paper's figure.
#[pyfunction]
#[pyo3(signature = (
    id, *, on="sim", out=None, variant=None, quick=false, runs=None, seed=1, only=None, jobs=None, kernel=None,
    progress=None,
))]
#[allow(
    clippy::too_many_arguments,
    reason = "they are keyword arguments of Python, and the options of the command"
)]
pub(crate) fn figure(
    py: Python<'_>,
    id: &str,
    on: &str,
    out: Option<PathBuf>,
    variant: Option<String>,
    quick: bool,
    runs: Option<u32>,
    seed: u64,
    only: Option<String>,
    jobs: Option<usize>,
    kernel: Option<String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Figure> {
    let world = given::world(py, on)?;
    let figure = papers::find(id).map_err(|message| raise(py, "ScenarioError", &message))?;
    let variant = variant.unwrap_or_else(|| figure.about().variant_in(world.name()).name.clone());
    let plan = Plan { world, variant, quick, runs, seed, only };
    let out = given::folder(out).unwrap_or_else(|| Path::new(RESULTS).join(id.replace('/', "-")));
    let (made, ended_by) = watch(py, progress, |worker: &Worker<'_>| {
        weir_report::output::check_writable(&out)?;
        let options = Options {
            out: out.clone(),
            jobs,
            retry_failed: true,
            run: RunOptions { kernel, ..RunOptions::new(worker.stop) },
            progress: &|now| worker.tell(step(&now)),
        };
        let result = papers::run(figure.as_ref(), &plan, &options)?;
        Ok(Figure { result, out: out.clone() })
    })?;
    match ended_by {
        None => Ok(made),
        Some(error) => Err(interrupted(py, error, made)),
    }
}

/// The figures that there are: `weir figure list --json`.
#[pyfunction]
pub(crate) fn figures(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let about: Vec<_> = papers::all().iter().map(|figure| figure.about().clone()).collect();
    given::from_json(
        py,
        &serde_json::to_string(&about).map_err(|error| Fault::new("WeirError", &error).raise(py))?,
    )
}

#[pymethods]
impl Figure {
    /// The figure's id.
    #[getter]
    fn id(&self) -> &str {
        &self.result.figure
    }

    /// What `figure.json` holds: rows, statements, warnings and what they were made of.
    #[getter]
    fn meta<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        given::from_json(py, &serde_json::to_string(&self.result).expect("a figure is plain data"))
    }

    /// A row per cell: its place on each axis, the paper's value and the mean of ours.
    #[getter]
    fn table(&self, py: Python<'_>) -> PyResult<Table> {
        let cells = &self.result.rows;
        let axes: Vec<String> = cells
            .first()
            .and_then(|cell| serde_json::to_value(&cell.place).ok())
            .and_then(|place| Some(place.as_object()?.keys().cloned().collect()))
            .unwrap_or_default();
        let numbers = ["paper", "measured"].map(|name| (name.to_owned(), Kind::Number));
        let columns = axes.iter().map(|axis| (axis.clone(), Kind::Text)).chain(numbers);
        let mut table = Growing::new("figure", columns.chain([("runs".to_owned(), Kind::Integer)]));
        for cell in cells {
            let place = serde_json::to_value(&cell.place).unwrap_or_default();
            let words = |axis: &String| match &place[axis] {
                serde_json::Value::String(text) => Datum::Text(text.clone()),
                serde_json::Value::Null => Datum::Missing,
                other => Datum::Text(other.to_string()),
            };
            let number = |value: Option<f64>| value.map_or(Datum::Missing, Datum::Number);
            let row = axes.iter().map(words).chain([number(cell.paper), number(cell.measured)]);
            table.row(py, &row.chain([Datum::Integer(cell.runs.len() as i64)]).collect::<Vec<_>>())?;
        }
        table.finish(py, true)
    }

    /// What the paper says and whether it held: text, paper, measured, holds.
    #[getter]
    fn statements<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        given::from_json(
            py,
            &serde_json::to_string(&self.result.statements).expect("statements are plain data"),
        )
    }

    /// Runs that failed or are doubtful, in words.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.result.warnings.clone()
    }

    /// Runs without result.
    #[getter]
    fn missing(&self) -> usize {
        self.result.missing
    }

    /// The folder with table, plot and the runs' data.
    #[getter]
    fn out(&self) -> &Path {
        &self.out
    }

    /// The page with plot and tables.
    fn page(&self) -> &str {
        &self.result.html
    }

    fn __str__(&self) -> &str {
        &self.result.table
    }

    fn __repr__(&self) -> String {
        let FigureResult { figure, world, variant, .. } = &self.result;
        format!("<weirnet.Figure {figure} in world {world}, variant {variant}>")
    }

    fn _repr_html_(&self) -> String {
        let statements = self.result.statements.iter().map(|statement| {
            let verdict = escaped(statement.verdict.words());
            let (text, measured) = (escaped(&statement.text), escaped(&statement.measured));
            format!("<li>{verdict}: {text} (measured: {measured})</li>")
        });
        format!("<pre>{}</pre><ul>{}</ul>", escaped(&self.result.table), statements.collect::<String>())
    }
}
