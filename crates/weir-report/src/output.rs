//! The files of a run: tidy CSV tables (one row per sample, units in column names), everything else as JSON beside
//! them, and the report.
//!
//! All files are complete under other names before the first takes its own, and `run.json` takes its own last: a run
//! that is cut off, or a full disk, leaves the files of the run before, or a folder without `run.json`.

mod part;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;

use crate::page;
use crate::result::RunResult;
use crate::tables::{Column, Tables};
pub use part::Target;
pub use part::{Part, Staged};

/// The longest name of a file or directory (`NAME_MAX`).
const LONGEST_NAME: usize = 255;

/// A result that could not be written.
#[derive(Debug, Error)]
#[error("cannot write {path}: {source}; results need a directory that can be written and room on the disk")]
pub struct OutputError {
    /// The file or directory.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// Finds out whether [`write()`] could write to `dir`, before a run whose results would be lost. Makes nothing that
/// stays: of a directory that is still missing, the nearest one that exists is tried.
///
/// # Errors
/// If no file can be made there.
pub fn check_writable(dir: &Path) -> Result<(), OutputError> {
    // The parent of a relative path's first part is "", which is where we are.
    let here = |path: &Path| if path.as_os_str().is_empty() { PathBuf::from(".") } else { path.to_owned() };
    let failed = |source| OutputError { path: dir.to_owned(), source };
    if dir.iter().any(|name| name.len() > LONGEST_NAME) {
        return Err(failed(io::Error::from_raw_os_error(libc::ENAMETOOLONG)));
    }
    let nearest = dir.ancestors().map(here).find(|path| path.symlink_metadata().is_ok());
    let probe =
        nearest.unwrap_or_else(|| PathBuf::from(".")).join(format!(".weir.{}.part", std::process::id()));
    part::create_anew(&probe).map_err(failed)?;
    match fs::remove_file(&probe) {
        // Another machine, whose process has the same number, has looked at the same time.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(failed),
    }
}

/// The folder of a run. What the run itself writes waits there, under other names, for [`write`](Self::write). Unless
/// that comes to an end, the folder stays as it was.
#[derive(Debug)]
pub struct Folder {
    dir: PathBuf,
    /// Directories that are made for it, from the innermost.
    missing: Vec<PathBuf>,
    waiting: Vec<Staged>,
}

impl Folder {
    /// The folder `dir`, which need not be there. Makes nothing.
    pub fn new(dir: &Path) -> Self {
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && path.symlink_metadata().is_err();
        let missing = dir.ancestors().take_while(is_missing).map(Path::to_owned).collect();
        Self { dir: dir.to_owned(), missing, waiting: Vec::new() }
    }

    /// Where the run may write the file of that name.
    pub fn target(&mut self, name: &str) -> Target {
        let target = Target::that_waits(self.dir.join(name));
        self.waiting.push(target.waiting());
        target
    }

    /// Writes all files of `result`. Files of an earlier run are replaced, all together: `run.json` is the last.
    /// Returns the paths in order of writing.
    ///
    /// | file | a row is |
    /// |---|---|
    /// | `flows.csv`, `queues.csv` | a flow, a queue |
    /// | `sojourn.csv` | a bucket of a queue's sojourn times: at most `upper_ns`, how often |
    /// | `flow_sojourn.csv` | a bucket of the sojourn times of a flow's or workload's packets |
    /// | `queue_series.csv`, `flow_series.csv` | a queue, a flow, in one bin of time that begins at `time_s`; idle ones too |
    /// | `rtt.csv` | a round-trip time as a sender measured it |
    /// | `requests.csv` | a request of a workload, if the scenario has one |
    /// | `assessments.csv`, `choices.csv` | a judgement of the law, a flow's change of queue |
    /// | `report.html` | the same for eyes |
    /// | `run.json` | everything but the tables: configuration, seed, version, totals, health |
    ///
    /// # Errors
    /// If the directory or a file cannot be written. Files of an earlier run stay as they are, unless a file cannot be
    /// moved to its place: then there is no `run.json`.
    pub fn write(mut self, result: &RunResult) -> Result<Vec<PathBuf>, OutputError> {
        fs::create_dir_all(&self.dir).map_err(|source| OutputError { path: self.dir.clone(), source })?;
        let mut files = tables(&self.dir, result)?;
        // What the run did not write, because it does not in its world, does not wait.
        let waiting = std::mem::take(&mut self.waiting);
        files.splice(0..0, waiting.into_iter().filter(Staged::is_there));
        files.push(stage(&self.dir.join("run.json"), &|out| {
            serde_json::to_writer_pretty(&mut *out, result)?;
            out.write_all(b"\n")
        })?);
        place(files)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.waiting.clear();
        for dir in &self.missing {
            // Only an empty one goes.
            let _ = fs::remove_dir(dir);
        }
    }
}

/// Writes all files of `result` into `dir`, as [`Folder::write`] does.
///
/// # Errors
/// As there.
pub fn write(dir: &Path, result: &RunResult) -> Result<Vec<PathBuf>, OutputError> {
    Folder::new(dir).write(result)
}

/// Moves files that are complete to their places, the last one last.
pub fn place(files: Vec<Staged>) -> Result<Vec<PathBuf>, OutputError> {
    part::place_together(files).map_err(|(path, source)| OutputError { path, source })
}

/// Writes texts that belong together to files in `dir`, which is made if it is missing: all of them or none. The last
/// one says that they are of one making.
pub fn write_together(dir: &Path, texts: &[(&str, &str)]) -> Result<(), OutputError> {
    fs::create_dir_all(dir).map_err(|source| OutputError { path: dir.to_owned(), source })?;
    let files =
        texts.iter().map(|(name, text)| stage(&dir.join(name), &|out| out.write_all(text.as_bytes())));
    place(files.collect::<Result<_, _>>()?).map(drop)
}

/// A complete file beside its place.
pub fn stage(path: &Path, fill: &dyn Fn(&mut Part) -> io::Result<()>) -> Result<Staged, OutputError> {
    let write = || {
        let mut part = Part::create(path)?;
        fill(&mut part)?;
        part.stage()
    };
    write().map_err(|source| OutputError { path: path.to_owned(), source })
}

/// Everything but `run.json`.
fn tables(dir: &Path, result: &RunResult) -> Result<Vec<Staged>, OutputError> {
    let mut files = Files { dir, staged: Vec::new() };
    crate::tables::each(result, &mut files)?;
    let label = match result.meta.scenario.name.as_str() {
        "" => "run",
        name => name,
    };
    let page =
        stage(&dir.join("report.html"), &|out| out.write_all(page::html(&[(label, result)]).as_bytes()))?;
    files.staged.push(page);
    Ok(files.staged)
}

/// Tables as CSV files of their names.
struct Files<'a> {
    dir: &'a Path,
    staged: Vec<Staged>,
}

impl Tables for Files<'_> {
    type Error = OutputError;

    fn table<R: Serialize>(
        &mut self,
        name: &'static str,
        columns: &'static [Column],
        rows: impl Iterator<Item = R>,
    ) -> Result<(), OutputError> {
        let path = self.dir.join(format!("{name}.csv"));
        let failed = |source: io::Error| OutputError { path: path.clone(), source };
        let mut part = Part::create(&path).map_err(failed)?;
        write_csv(&mut part, columns, rows).map_err(failed)?;
        self.staged.push(part.stage().map_err(failed)?);
        Ok(())
    }
}

/// Writes a page, such as one that compares runs, or another text to `path`: whole or not at all.
///
/// # Errors
/// If the file cannot be written.
pub fn write_page(path: &Path, html: &str) -> Result<(), OutputError> {
    place(vec![stage(path, &|out| out.write_all(html.as_bytes()))?]).map(drop)
}

/// Writes rows under the names of `columns`, which are there even when there is no row.
///
/// # Errors
/// If `out` cannot take them.
pub fn write_csv<R: Serialize>(
    out: impl Write,
    columns: &[Column],
    rows: impl Iterator<Item = R>,
) -> io::Result<()> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(out);
    writer.write_record(columns.iter().map(|column| column.name))?;
    for row in rows {
        writer.serialize(row)?;
    }
    writer.flush()
}
