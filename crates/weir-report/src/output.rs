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
    part::create_anew(&probe).and_then(|_| fs::remove_file(&probe)).map_err(failed)
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
    let mut files = Vec::new();
    let mut file = |name: &str, fill: &dyn Fn(&mut Part) -> io::Result<()>| {
        files.push(stage(&dir.join(name), fill)?);
        Ok(())
    };
    file("flows.csv", &|out| flows(out, result))?;
    file("queues.csv", &|out| table(out, result.queues.iter().map(QueueRow::new), QueueRow::COLUMNS))?;
    file("sojourn.csv", &|out| table(out, sojourn(result), &["queue", "upper_ns", "count"]))?;
    file("flow_sojourn.csv", &|out| table(out, flow_sojourn(result), &["flow", "upper_ns", "count"]))?;
    file("queue_series.csv", &|out| table(out, queue_series(result), QueueBinRow::COLUMNS))?;
    file("flow_series.csv", &|out| {
        table(
            out,
            flow_series(result),
            &["time_s", "flow", "throughput_bps", "dropped_packets", "marked_packets"],
        )
    })?;
    file("rtt.csv", &|out| table(out, rtt(result), &["time_s", "flow", "rtt_ms"]))?;
    if !result.workloads.is_empty() {
        file("requests.csv", &|out| {
            table(out, requests(result), &["workload", "id", "start_s", "bytes", "fct_s"])
        })?;
    }
    if !result.detections.is_empty() {
        file("detections.csv", &|out| {
            let rows = result.detections.iter().flat_map(|found| {
                found
                    .history
                    .iter()
                    .map(move |(time_s, finding)| (*time_s, &found.flow, &found.detector, finding))
            });
            table(out, rows, &["time_s", "flow", "detector", "finding"])
        })?;
    }
    file("assessments.csv", &|out| {
        let columns = [
            "time_s",
            "flow",
            "signal",
            "cycle",
            "window_before_bytes",
            "window_after_bytes",
            "signals",
            "responsive",
            "votes_responsive",
            "votes_unresponsive",
            "class",
        ];
        table(out, &result.assessments, &columns)
    })?;
    file("choices.csv", &|out| table(out, &result.choices, &["time_s", "flow", "queue"]))?;
    let label = match result.meta.scenario.name.as_str() {
        "" => "run",
        name => name,
    };
    file("report.html", &|out| out.write_all(page::html(&[(label, result)]).as_bytes()))?;
    Ok(files)
}

/// Writes a page, such as one that compares runs, or another text to `path`: whole or not at all.
///
/// # Errors
/// If the file cannot be written.
pub fn write_page(path: &Path, html: &str) -> Result<(), OutputError> {
    place(vec![stage(path, &|out| out.write_all(html.as_bytes()))?]).map(drop)
}

/// Writes rows under `columns`, which are there even when there is no row.
fn table<R: Serialize>(
    out: impl Write,
    rows: impl IntoIterator<Item = R>,
    columns: &[&str],
) -> io::Result<()> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(out);
    writer.write_record(columns)?;
    for row in rows {
        writer.serialize(row)?;
    }
    writer.flush()
}

/// A flow's record is flat and its fields carry their units, so they are the columns; only `name` is called `flow`, as
/// in the other tables.
fn flows(out: &mut impl Write, result: &RunResult) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for flow in &result.flows {
        writer.serialize(flow)?;
    }
    let text = writer.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
    let rest = text.strip_prefix(b"name".as_slice()).unwrap_or(&text);
    out.write_all(b"flow")?;
    out.write_all(if rest.is_empty() { b"\n" } else { rest })
}

#[derive(Serialize)]
struct QueueRow<'a> {
    queue: &'a str,
    departed_packets: u64,
    departed_bytes: u64,
    overflowed_packets: u64,
    aqm_dropped_packets: u64,
    marked_packets: u64,
    sojourn_mean_ms: Option<f64>,
    sojourn_ms: [Option<f64>; 5],
}

impl<'a> QueueRow<'a> {
    const COLUMNS: &'static [&'static str] = &[
        "queue",
        "departed_packets",
        "departed_bytes",
        "overflowed_packets",
        "aqm_dropped_packets",
        "marked_packets",
        "sojourn_mean_ms",
        "sojourn_p25_ms",
        "sojourn_p50_ms",
        "sojourn_p90_ms",
        "sojourn_p99_ms",
        "sojourn_max_ms",
    ];

    fn new(queue: &'a crate::result::QueueResult) -> Self {
        let sojourn = &queue.sojourn_ns;
        Self {
            queue: &queue.name,
            departed_packets: queue.departed,
            departed_bytes: queue.departed_bytes,
            overflowed_packets: queue.overflowed,
            aqm_dropped_packets: queue.dropped,
            marked_packets: queue.marked,
            sojourn_mean_ms: sojourn.mean().map(|ns| ns / 1e6),
            sojourn_ms: [0.25, 0.5, 0.9, 0.99, 1.0].map(|at| sojourn.quantile(at).map(|ns| ns as f64 / 1e6)),
        }
    }
}

fn sojourn(result: &RunResult) -> impl Iterator<Item = (&str, u64, u64)> {
    result.queues.iter().flat_map(|queue| {
        queue.sojourn_ns.buckets().map(|(upper, count)| (queue.name.as_str(), upper, count))
    })
}

fn flow_sojourn(result: &RunResult) -> impl Iterator<Item = (&str, u64, u64)> {
    let buckets = result.series_names().zip(&result.flow_sojourn_ns);
    buckets.flat_map(|(name, sojourn)| sojourn.buckets().map(move |(upper, count)| (name, upper, count)))
}

#[derive(Serialize)]
struct QueueBinRow<'a> {
    time_s: f64,
    queue: &'a str,
    departed_packets: u32,
    sojourn_mean_ms: Option<f64>,
    sojourn_max_ms: Option<f64>,
    backlog_max_bytes: u64,
    dropped_packets: u32,
    marked_packets: u32,
}

impl QueueBinRow<'_> {
    const COLUMNS: &'static [&'static str] = &[
        "time_s",
        "queue",
        "departed_packets",
        "sojourn_mean_ms",
        "sojourn_max_ms",
        "backlog_max_bytes",
        "dropped_packets",
        "marked_packets",
    ];
}

fn queue_series(result: &RunResult) -> impl Iterator<Item = QueueBinRow<'_>> {
    result.queues.iter().zip(&result.series.queues).flat_map(|(queue, bins)| {
        whole(result, bins).map(|(time_s, _, bin)| QueueBinRow {
            time_s,
            queue: &queue.name,
            departed_packets: bin.departed,
            sojourn_mean_ms: bin.sojourn_mean_ms(),
            sojourn_max_ms: (bin.departed > 0).then_some(bin.sojourn_max_ns as f64 / 1e6),
            backlog_max_bytes: bin.backlog_max_bytes,
            dropped_packets: bin.dropped,
            marked_packets: bin.marked,
        })
    })
}

fn flow_series(result: &RunResult) -> impl Iterator<Item = (f64, &str, f64, u32, u32)> {
    result.series_names().zip(&result.series.flows).flat_map(move |(name, bins)| {
        whole(result, bins).map(move |(time_s, seconds, bin)| {
            (time_s, name, bin.departed_bytes as f64 * 8.0 / seconds, bin.dropped, bin.marked)
        })
    })
}

/// All bins of the run, also those in which nothing happened any more: when each begins, how long it is, and what it
/// holds.
fn whole<B: Copy + Default>(result: &RunResult, bins: &[B]) -> impl Iterator<Item = (f64, f64, B)> {
    let series = &result.series;
    (0..series.bins()).map(|index| {
        let bin = bins.get(index).copied().unwrap_or_default();
        (series.begin_s(index), series.span_s(index, index + 1), bin)
    })
}

fn requests(result: &RunResult) -> impl Iterator<Item = (&str, usize, f64, u64, Option<f64>)> {
    result.workloads.iter().flat_map(|workload| {
        let rows = workload.list.iter().enumerate();
        rows.map(|(id, request)| (workload.name.as_str(), id, request.start_s, request.bytes, request.fct_s))
    })
}

fn rtt(result: &RunResult) -> impl Iterator<Item = (f64, &str, f64)> {
    result
        .flows
        .iter()
        .zip(&result.series.rtt)
        .flat_map(|(flow, samples)| samples.iter().map(|(time, rtt)| (*time, flow.name.as_str(), *rtt)))
}
