//! `weirnet.assess`: a capture, judged as `weir assess` does.

use std::fs::File;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_assess::{KindReport, Options, Report};
use weir_law::Params;
use weir_report::tables::Kind;
use weir_study::sweep::Datum;

use crate::arrow::Table;
use crate::errors::{Fault, raise};
use crate::given::{self, Given};
use crate::rows::Growing;
use crate::watch::watch;

/// What a capture shows.
#[pyclass(frozen, module = "weirnet", name = "Assessment")]
pub(crate) struct Assessment {
    report: Report,
}

/// Judges the flows of a capture.
#[pyfunction]
#[pyo3(signature = (capture, *, preset="paper", set=None, flows=65_536))]
pub(crate) fn assess(
    py: Python<'_>,
    capture: PathBuf,
    preset: &str,
    set: Option<&Bound<'_, PyDict>>,
    flows: u32,
) -> PyResult<Assessment> {
    let params = parameters(py, preset, set)?;
    let (report, ended_by) = watch(py, None, |_| {
        let file = File::open(&capture).map_err(|error| {
            Fault::new("CaptureError", &format!("cannot open the capture {}: {error}", capture.display()))
        })?;
        let report = weir_assess::assess(file, &Options::new(params, flows.max(1) as usize));
        match &report.error {
            // What came before is worth something, as it is to the command.
            Some(error) if report.counters.packets == 0 => {
                Err(Fault::new("CaptureError", &format!("{}: {error}", capture.display())))
            }
            _ => Ok(report),
        }
    })?;
    match ended_by {
        None => Ok(Assessment { report }),
        Some(error) => Err(error),
    }
}

fn parameters(py: Python<'_>, preset: &str, set: Option<&Bound<'_, PyDict>>) -> PyResult<Params> {
    let mut table = match set {
        None => toml::Table::new(),
        Some(set) => toml::from_str(&Given::of(set.as_any())?.text)
            .map_err(|error| raise(py, "ScenarioError", &format!("set: {error}")))?,
    };
    if let Some(name) = table.keys().find(|name| !Params::FIELDS.contains(&name.as_str())) {
        let hint = weir_core::words::hint(name, Params::FIELDS);
        return Err(raise(py, "ScenarioError", &format!("set: there is no parameter '{name}'{hint}")));
    }
    let only = toml::Table::from_iter([("preset".to_owned(), preset.into())]);
    if only.clone().try_into::<Params>().is_err() {
        let words = format!("unknown preset '{preset}': use paper, comsys or robust");
        return Err(raise(py, "ScenarioError", &words));
    }
    table.extend(only);
    table.try_into().map_err(|error: toml::de::Error| {
        raise(py, "ScenarioError", &format!("set: {}", error.message().trim_end_matches('\n')))
    })
}

#[pymethods]
impl Assessment {
    /// What `weir assess --json` prints.
    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        given::from_json(py, &self.to_json())
    }

    /// The same as text.
    fn to_json(&self) -> String {
        serde_json::to_string_pretty(&self.report).expect("a report is plain data")
    }

    /// Why the capture could be read only in part; None if it was read to its end.
    #[getter]
    fn error(&self) -> Option<String> {
        self.report.error.as_ref().map(ToString::to_string)
    }

    /// A row per connection: the direction with more payload, and what the law says of it.
    #[getter]
    fn flows(&self, py: Python<'_>) -> PyResult<Table> {
        let text = |name: &str| (name.to_owned(), Kind::Text);
        let integer = |name: &str| (name.to_owned(), Kind::Integer);
        let number = |name: &str| (name.to_owned(), Kind::Number);
        let columns = [text("source"), text("destination"), text("stack"), integer("packets")]
            .into_iter()
            .chain([
                integer("payload_bytes"),
                number("mean_rate_bps"),
                integer("cycles"),
                number("rtt_p50_ms"),
            ])
            .chain(["loss", "mark"].into_iter().flat_map(|signal| {
                let named = |name: &str| format!("{signal}_{name}");
                [
                    integer(&named("signals")),
                    integer(&named("votes_responsive")),
                    integer(&named("votes_unresponsive")),
                    text(&named("verdict")),
                    number(&named("score")),
                ]
            }));
        let mut table = Growing::new("flows", columns);
        let count = |number: u64| Datum::Integer(i64::try_from(number).unwrap_or(i64::MAX));
        let maybe = |number: Option<f64>| number.map_or(Datum::Missing, Datum::Number);
        for flow in &self.report.flows {
            let data = &flow.data;
            let mut row = vec![
                Datum::Text(data.source.to_string()),
                Datum::Text(data.destination.to_string()),
                Datum::Text(flow.stack.name().to_owned()),
                count(data.packets),
                count(data.payload_bytes),
                maybe(data.mean_rate_bits_per_second),
                count(data.cycles),
                maybe(data.cycle_ms.map(|ms| ms.p50)),
            ];
            for KindReport { signals, votes, verdict, score, .. } in [&data.loss, &data.mark] {
                row.extend([
                    count(*signals),
                    count(votes.responsive.into()),
                    count(votes.unresponsive.into()),
                ]);
                row.extend([Datum::Text(verdict.name().to_owned()), maybe(*score)]);
            }
            table.row(py, &row)?;
        }
        table.finish(py, false)
    }

    fn __repr__(&self) -> String {
        let (packets, flows) = (self.report.counters.packets, self.report.flows.len());
        format!("<weirnet.Assessment: {packets} packets, {flows} flows>")
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.flows(py)?.into_pyobject(py)?.call_method0("_repr_html_").map(Bound::unbind)
    }
}
