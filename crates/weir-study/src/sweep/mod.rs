//! A sweep: one scenario with ranges of values for some of its keys, every combination run on all cores, and one table
//! with a row per run and flow.
//!
//! A *cell* is one combination of values under one run number. Its result is kept under a hash of everything that it
//! depends on, so a sweep that was stopped, or whose ranges were changed, runs only what is missing.

mod away;
mod columns;
mod file;
mod means;
mod page;
mod parquet;
mod plan;
mod record;
mod run;
mod shard;
mod splice;
mod summary;
mod tables;
mod take;
mod values;

use serde::Serialize;
use thiserror::Error;

use crate::engine::StudyError;
use values::{Quantity, Value};
use weir_report::output::OutputError;
use weir_scenario::toml_file::FileError;
use weir_scenario::with_nearest_key;

pub use away::{Away, Missing};
pub(crate) use means::{Numbers, all_numbers as numbers};
pub(crate) use plan::APART;
pub use plan::Sweep;
pub use run::{ShardResult, run, run_shard, write};
pub use shard::{Shard, ShardError};
pub use summary::{FlowSummary, Summary};
pub use take::Taken;
pub use values::Datum;
pub use weir_report::spread::Spread;

/// How a file names keys of a scenario and their values, for other files that do.
pub mod grammar {
    pub use super::file::Texts;
    pub use super::means::{Numbers, all_numbers as numbers, measures};
    pub use super::plan::scenario_with;
    pub use super::splice::steps;
    pub use super::values::{Quantity, Steps, Value, common};
    pub use super::{Fault, Key};
}

/// Cells that a sweep has at most by default.
pub const MOST_CELLS: u64 = 1_000_000;

/// A sweep that could not be made.
#[derive(Debug, Error)]
pub enum SweepError {
    /// A file could not be read.
    #[error(transparent)]
    Read(#[from] FileError),
    /// Something in a file makes no sense.
    #[error("{path}: line {line}: {message}")]
    Value {
        /// The file: the sweep's or its scenario's.
        path: String,
        /// The line, counted from 1.
        line: usize,
        /// The key that it is about, such as `sweep.seed`; empty if that is the whole of the file.
        key: String,
        /// What is wrong and what would be right.
        message: String,
    },
    /// Results could not be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// No combination of values is left to run.
    #[error("{0}: [[exclude]] leaves nothing to run; remove one")]
    Nothing(String),
    /// The cells could not be run.
    #[error(transparent)]
    Study(#[from] StudyError),
}

/// A sweep, made.
#[derive(Clone, Debug, Serialize)]
pub struct SweepResult {
    /// What ran.
    #[serde(flatten)]
    pub meta: SweepMeta,
    /// Cells that had their result from an earlier command.
    #[serde(skip)]
    pub reused: usize,
    /// Cells whose stored result was not as it had been written, and that ran again.
    #[serde(skip)]
    pub damaged: usize,
    /// Each combination's means over its runs, in the order of the table.
    #[serde(skip)]
    pub summaries: Vec<Summary>,
    /// The same as a table for a terminal.
    #[serde(skip)]
    pub table: String,
}

/// What ran, for `sweep.json`.
#[derive(Clone, Debug, Serialize)]
pub struct SweepMeta {
    /// What it is called.
    pub name: String,
    /// The version of Weir.
    pub version: String,
    /// The command line.
    pub command: String,
    /// `sim`, `emu` or `kernel`.
    pub world: String,
    /// The scenario's seed; none if it is swept.
    pub seed: Option<u64>,
    /// Runs of each combination, numbered from 0.
    pub repeat: u64,
    /// The keys, in the order of the table.
    pub keys: Vec<SweptKey>,
    /// Combinations of values, without those that are excluded.
    pub combinations: usize,
    /// Combinations and runs.
    pub cells: usize,
    /// Cells that have no result: the sweep was interrupted.
    pub missing_cells: usize,
    /// Cells that failed, by number and with the reason.
    pub failed_cells: Vec<FailedCell>,
    /// Cells whose results are doubtful; their rows say why.
    pub doubtful_cells: usize,
    /// The columns of `sweep.csv` and `sweep.parquet`, with their units.
    pub columns: Vec<ColumnMeta>,
    /// The sweep's file, word for word.
    pub file: String,
    /// The scenario of the first combination, defaults filled in; what differs in the others is in the table.
    pub scenario: serde_json::Value,
}

/// A key and its values.
#[derive(Clone, Debug, Serialize)]
pub struct SweptKey {
    /// As the file has it.
    pub key: String,
    /// The axis, counted from 0; keys of one `[[zip]]` share theirs.
    pub axis: usize,
    /// Its column in the tables.
    pub column: String,
    /// In order.
    pub values: Vec<String>,
}

/// A cell without result.
#[derive(Clone, Debug, Serialize)]
pub struct FailedCell {
    /// Its number in the table, from 0.
    pub cell: usize,
    /// Its values and run, for people.
    pub what: String,
    /// What went wrong.
    pub error: String,
}

/// A column of the table.
#[derive(Clone, Debug, Serialize)]
pub struct ColumnMeta {
    /// Its name, with the unit.
    pub name: String,
    /// `text`, `truth`, `integer` or `number`.
    pub kind: &'static str,
    /// What it means; empty for a swept key.
    pub meaning: &'static str,
}

/// One key of the scenario and its values.
#[derive(Clone, Debug)]
pub struct Key {
    /// As the file has it.
    pub name: String,
    /// Its steps.
    pub path: Vec<String>,
    /// In order.
    pub values: Vec<Value>,
    /// What all of them are.
    pub quantity: Quantity,
    /// Its place in the file.
    pub at: usize,
}

/// Keys that vary together, mostly one.
#[derive(Clone, Debug)]
struct Axis {
    keys: Vec<Key>,
    /// How many values each has.
    len: usize,
}

/// Something wrong at a byte of a file.
#[derive(Debug)]
pub struct Fault {
    /// The byte.
    pub at: usize,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Fault {
    /// At that byte.
    pub fn new(at: usize, message: String) -> Self {
        Self { at, message }
    }

    /// What is wrong with the TOML.
    pub fn toml(error: toml::de::Error) -> Self {
        let message = with_nearest_key(error.message()).replace('\n', "; ");
        Self::new(error.span().map_or(0, |span| span.start), message)
    }
}

impl Key {
    /// Its column's name.
    fn column(&self) -> String {
        let suffix = self.quantity.suffix();
        if self.name.ends_with(suffix.trim_start_matches('_')) {
            self.name.clone()
        } else {
            format!("{}{suffix}", self.name)
        }
    }
}

impl Axis {
    /// What people call it.
    fn name(&self) -> String {
        self.keys.iter().map(|key| key.name.as_str()).collect::<Vec<_>>().join(" / ")
    }

    /// What people call one of its values.
    fn label(&self, place: usize) -> String {
        self.keys.iter().map(|key| key.values[place].label.as_str()).collect::<Vec<_>>().join(" / ")
    }
}
