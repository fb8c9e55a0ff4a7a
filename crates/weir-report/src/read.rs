//! Reads a run back from the files that [`output::write`](crate::output::write) made of it.
//!
//! `run.json` holds all but the tables; judgements, choices and samples over time come from theirs. What a table gives
//! as a rate or in milliseconds becomes the integer again that it was made from.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::result::{FlowBin, QueueBin, RunResult, Series};
use thiserror::Error;
use weir_core::Histogram;

/// A file of a run that is missing or is not what it should be.
#[derive(Debug, Error)]
#[error("{path}: {source}")]
pub struct ReadError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl ReadError {
    fn new(path: &Path, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { path: path.to_owned(), source: error.into() }
    }
}

/// Reads the run whose files are in `dir`.
///
/// # Errors
/// If a file is missing or cannot be read as what it should be.
pub fn read(dir: &Path) -> Result<RunResult, ReadError> {
    let path = dir.join("run.json");
    let text = fs::read_to_string(&path).map_err(|error| ReadError::new(&path, error))?;
    let mut result: RunResult = serde_json::from_str(&text).map_err(|error| ReadError::new(&path, error))?;
    result.assessments = table(&dir.join("assessments.csv"))?;
    result.choices = table(&dir.join("choices.csv"))?;
    let queue_bins: Vec<QueueRow> = table(&dir.join("queue_series.csv"))?;
    let flow_bins: Vec<FlowRow> = table(&dir.join("flow_series.csv"))?;
    let waits: Vec<SojournRow> = table(&dir.join("flow_sojourn.csv"))?;
    let rtts: Vec<RttRow> = table(&dir.join("rtt.csv"))?;
    let empty = Series {
        interval_s: result.meta.scenario.measure.interval.as_secs_f64(),
        end_s: result.meta.wall_s,
        ..Series::default()
    };
    result.series = Series {
        queues: result
            .queues
            .iter()
            .map(|queue| queue_bins.iter().filter(|row| row.queue == queue.name).map(QueueRow::bin).collect())
            .collect(),
        flows: result
            .series_names()
            .map(|name| {
                let rows = flow_bins.iter().filter(|row| row.flow == name).enumerate();
                rows.map(|(index, row)| row.bin(empty.span_s(index, index + 1))).collect()
            })
            .collect(),
        rtt: result
            .flows
            .iter()
            .map(|flow| {
                let rows = rtts.iter().filter(|row| row.flow == flow.name);
                rows.map(|row| (row.time_s, row.rtt_ms)).collect()
            })
            .collect(),
        ..empty
    };
    result.flow_sojourn_ns = result
        .series_names()
        .map(|name| {
            let rows = waits.iter().filter(|row| row.flow == name);
            Histogram::of_buckets(rows.map(|row| (row.upper_ns, row.count)))
        })
        .collect();
    Ok(result)
}

fn table<R: DeserializeOwned>(path: &Path) -> Result<Vec<R>, ReadError> {
    let file = File::open(path).map_err(|error| ReadError::new(path, error))?;
    let rows: Result<Vec<R>, csv::Error> = csv::Reader::from_reader(file).into_deserialize().collect();
    rows.map_err(|error| ReadError::new(path, error))
}

#[derive(Deserialize)]
struct QueueRow {
    queue: String,
    departed_packets: u32,
    sojourn_mean_ms: Option<f64>,
    sojourn_max_ms: Option<f64>,
    backlog_max_bytes: u64,
    dropped_packets: u32,
    marked_packets: u32,
}

impl QueueRow {
    fn bin(&self) -> QueueBin {
        let ns =
            |ms: Option<f64>, times: u32| (ms.unwrap_or_default() * 1e6 * f64::from(times)).round() as u64;
        QueueBin {
            departed: self.departed_packets,
            sojourn_sum_ns: ns(self.sojourn_mean_ms, self.departed_packets),
            sojourn_max_ns: ns(self.sojourn_max_ms, 1),
            backlog_max_bytes: self.backlog_max_bytes,
            dropped: self.dropped_packets,
            marked: self.marked_packets,
        }
    }
}

#[derive(Deserialize)]
struct FlowRow {
    flow: String,
    throughput_bps: f64,
    dropped_packets: u32,
    marked_packets: u32,
}

impl FlowRow {
    fn bin(&self, seconds: f64) -> FlowBin {
        FlowBin {
            departed_bytes: (self.throughput_bps * seconds / 8.0).round() as u64,
            dropped: self.dropped_packets,
            marked: self.marked_packets,
        }
    }
}

#[derive(Deserialize)]
struct SojournRow {
    flow: String,
    upper_ns: u64,
    count: u64,
}

#[derive(Deserialize)]
struct RttRow {
    time_s: f64,
    flow: String,
    rtt_ms: f64,
}
