//! The files of a sweep: the table twice, as CSV and as Parquet, what it is made of beside it, and the page.
//!
//! Rows come in the order of the cells, whatever the order in which they ended, and from the cells' files alone: the
//! same sweep makes the same bytes, however many jobs ran it and however often it was stopped.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::means::COLUMNS;
use super::parquet::Parquet;
use super::record::Measured;
use super::summary::{self, Books, Summary};
use super::values::Datum;
use super::{FailedCell, Sweep, SweepError, SweepMeta, SweepResult, columns, page};
use crate::engine::{Kept, Made, Outcome, Store};
use weir_report::output::{self, OutputError, Part};

/// Writes all files of the cells that have a result.
pub(super) fn write(
    sweep: &Sweep,
    store: &Store,
    out: &Path,
    command: &str,
    made: Made,
) -> Result<SweepResult, SweepError> {
    std::fs::create_dir_all(out).map_err(|source| OutputError { path: out.to_owned(), source })?;
    let columns = columns::all(sweep);
    let failed = |path: PathBuf| move |source: io::Error| OutputError { path, source };
    let (csv_path, parquet_path) = (out.join("sweep.csv"), out.join("sweep.parquet"));
    let mut csv = csv::Writer::from_writer(Part::create(&csv_path).map_err(failed(csv_path.clone()))?);
    csv.write_record(columns.iter().map(|column| &column.name))
        .map_err(|error| failed(csv_path.clone())(error.into()))?;
    let mut parquet = Parquet::create(&parquet_path, &columns).map_err(failed(parquet_path.clone()))?;
    let mut books = Books::new(sweep);
    let (mut failures, mut missing, mut doubtful) = (Vec::new(), 0, 0);
    for cell in 0..sweep.cells() {
        let rows = match store.read::<Measured>(sweep.address(cell)) {
            Kept::Whole(Outcome::Measured(measured)) => {
                doubtful += usize::from(!measured.warnings.is_empty());
                books.measured(&measured);
                columns::measured(sweep, cell, &measured)
            }
            Kept::Whole(Outcome::Failed(error)) => {
                books.failed();
                let rows = vec![columns::failed(sweep, cell, &error)];
                failures.push(FailedCell { cell, what: sweep.describe(cell), error });
                rows
            }
            Kept::Nothing | Kept::Damaged => {
                missing += 1;
                Vec::new()
            }
        };
        for row in rows {
            csv.write_record(row.iter().map(field))
                .map_err(|error| failed(csv_path.clone())(error.into()))?;
            parquet.row(row).map_err(failed(parquet_path.clone()))?;
        }
        let place = sweep.cell(cell);
        if place.run + 1 == sweep.first_run(place.combination) + sweep.repeat() {
            books.close(place.combination);
        }
    }
    let csv =
        csv.into_inner().map_err(|error| failed(csv_path.clone())(io::Error::other(error.to_string())))?;
    let mut files =
        vec![csv.stage().map_err(failed(csv_path))?, parquet.finish().map_err(failed(parquet_path))?];

    let scenario = sweep.scenario(0)?;
    let seed_swept = sweep.axes().iter().flat_map(|axis| &axis.keys).any(|key| key.path == ["seed"]);
    let meta = SweepMeta {
        name: sweep.name().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command.to_owned(),
        world: sweep.world().name().to_owned(),
        seed: (!seed_swept).then_some(scenario.seed),
        repeat: sweep.repeat(),
        keys: sweep.keys(),
        combinations: sweep.combinations(),
        cells: sweep.cells(),
        missing_cells: missing,
        failed_cells: failures,
        doubtful_cells: doubtful,
        columns: columns::meta(&columns),
        file: sweep.text().to_owned(),
        scenario: serde_json::to_value(&scenario).expect("a scenario is plain data"),
    };
    let summaries = books.done;
    files.push(output::stage(&out.join("means.csv"), &|file| write_means(file, sweep, &summaries))?);
    let table = summary::table(sweep, &summaries);
    let result = SweepResult { meta, reused: made.reused, damaged: made.damaged, summaries, table };
    let json = serde_json::to_string_pretty(&result.meta).expect("metadata are plain data");
    for (name, text) in [("sweep.html", page::html(sweep, &result)), ("sweep.json", format!("{json}\n"))] {
        files.push(output::stage(&out.join(name), &|file| file.write_all(text.as_bytes()))?);
    }
    output::place(files)?;
    Ok(result)
}

/// A row for each number of each combination: its mean over the runs, and how far that can be trusted.
fn write_means(out: &mut Part, sweep: &Sweep, summaries: &[Summary]) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    let keys = sweep.keys();
    writer.write_record(keys.iter().map(|key| key.key.as_str()).chain(COLUMNS))?;
    for summary in summaries {
        for (of, measure, spread) in summary.means() {
            let numbers = [spread.mean, spread.deviation, spread.ci95, spread.min, spread.max];
            let numbers = numbers.iter().map(f64::to_string);
            let head = [of.to_owned(), measure.to_owned(), spread.runs.to_string()];
            writer.write_record(summary.values.iter().cloned().chain(head).chain(numbers))?;
        }
    }
    writer.flush()
}

/// A value as CSV has it. Numbers are as short as they can be to read back the same.
fn field(datum: &Datum) -> String {
    match datum {
        Datum::Missing => String::new(),
        Datum::Text(text) => text.clone(),
        Datum::Truth(truth) => truth.to_string(),
        Datum::Integer(number) => number.to_string(),
        Datum::Number(number) => number.to_string(),
    }
}
