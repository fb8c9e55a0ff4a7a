//! Runs a suite: its jobs as a batch, then the rows, the table and the page.

use serde::Serialize;

use super::{Plan, Row, Suite, SuiteError, page, table};
use crate::batch;
use crate::engine::{Options, StudyError};
use weir_report::output;

/// A suite, run.
#[derive(Clone, Debug, Serialize)]
pub struct SuiteResult {
    /// The suite's name.
    pub suite: String,
    /// The world it ran in.
    pub world: String,
    /// The version of Weir.
    pub version: String,
    /// Runs that an earlier command had made, which was stopped or had failed runs.
    pub continued: usize,
    /// Runs of an earlier command whose files were changed since; they ran again.
    #[serde(skip)]
    pub damaged: usize,
    /// Runs without result.
    #[serde(skip)]
    pub missing: usize,
    /// One per scenario and discipline.
    pub rows: Vec<Row>,
    /// Runs that failed or are doubtful, in words.
    pub warnings: Vec<String>,
    /// A table for the terminal.
    #[serde(skip)]
    pub table: String,
}

/// Runs a suite and writes `suite.json`, `suite.csv`, `suite.html` and each run's files to the folder of the options.
/// On interrupt, what has ended is kept, and the same command goes on from there.
///
/// # Errors
/// If a discipline or the choice of scenarios makes no sense, or data cannot be written. A run that fails is
/// no error: its row says so.
pub fn run(suite: &Suite, plan: &Plan, options: &Options) -> Result<SuiteResult, SuiteError> {
    let planned = suite.jobs(plan)?;
    let jobs: Vec<_> = planned.iter().map(|(_, _, job)| job.clone()).collect();
    let batch = batch::run(&jobs, plan.world, options)?;
    let mut warnings = batch::warnings(&jobs, &batch.results);
    let rows = planned.iter().zip(&batch.results).map(|((index, qdisc, job), result)| {
        let entry = &suite.about.entries[*index];
        match batch::whole(&options.out, job, result) {
            Ok(result) => {
                let row = Row::measure(&entry.section, &entry.title, qdisc, &result, entry.from_s);
                if row.utilisation.is_none() {
                    warnings.push(format!(
                        "{}: the run ended after {:.1} s, before from_s = {}, from which on it was to be measured; \
                         lower from_s or let its flows last longer",
                        job.name, result.meta.wall_s, entry.from_s
                    ));
                }
                row
            }
            Err(why) => Row::failed(&entry.section, &entry.title, qdisc, why),
        }
    });
    let rows: Vec<Row> = rows.collect();
    let mut result = SuiteResult {
        suite: suite.id.clone(),
        world: plan.world.name().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        continued: batch.continued,
        damaged: batch.damaged,
        missing: batch.missing,
        table: table::text(&rows),
        rows,
        warnings,
    };
    result.warnings.sort();
    let json = serde_json::to_string_pretty(&result).expect("a result is plain data");
    let (csv, html) = (table::csv(&result.rows), page::html(suite, &result, &planned));
    let texts = [("suite.csv", csv.as_str()), ("suite.html", &html), ("suite.json", &json)];
    output::write_together(&options.out, &texts).map_err(StudyError::from)?;
    batch.close()?;
    Ok(result)
}
