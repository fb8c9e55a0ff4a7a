//! All cells of a sweep, each checked before any runs.
//!
//! Combinations are numbered with the last axis fastest. A cell's scenario is made anew from the texts each time it is
//! needed, so that a million cells need no room but that of their addresses.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use weir_core::Rate;

use super::file::{File, Files, Texts};
use super::record::Measured;
use super::splice::{Splice, splice};
use super::values::Datum;
use super::{Axis, ColumnMeta, Fault, Key, SweepError, SweptKey, Value, columns};
use crate::engine::{self, Address, Kept, Origin, Outcome, Store};
use weir_scenario::toml_file;
use weir_scenario::toml_place;
use weir_scenario::{Refusal, Scenario};
use weir_world::{Cost, World, check};

/// What a run costs before its first packet, in packets: some 0.2 ms.
const FIXED_COST: u64 = 500;

/// A sweep whose cells can all run.
pub struct Sweep {
    file: File,
    /// The numbers of the combinations that are not excluded.
    combinations: Vec<usize>,
    addresses: Vec<Address>,
    /// What a run of each combination is expected to cost: packets, or nanoseconds where packets are real.
    costs: Vec<u64>,
    /// The traces that its scenarios name, where they are.
    traces: BTreeSet<PathBuf>,
    origin: Origin,
    /// Of all combinations.
    fastest: Rate,
    /// Cells may cost whatever they do.
    large: bool,
}

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    /// Its place among the combinations.
    pub(super) combination: usize,
    /// The number of its run.
    pub(super) run: u64,
}

/// How far the first runs of combinations are apart that draw independently.
pub(crate) const APART: u64 = 1_000_000;

impl Sweep {
    /// Reads a sweep and the scenario that it names, and checks every cell. `most` is how many cells there may be; in
    /// a `large` sweep each may cost more than [`Cost::MOST`](weir_world::Cost::MOST).
    ///
    /// # Errors
    /// If a file cannot be read, or a cell cannot run. The error has file and line.
    pub fn load(path: &Path, most: u64, large: bool) -> Result<Self, SweepError> {
        Self::parse(toml_file::read(path)?, path, most, large)
    }

    /// As [`load`](Self::load), of a text; `path` is what errors call it, and a scenario's file is looked for from
    /// there.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn parse(text: String, path: &Path, most: u64, large: bool) -> Result<Self, SweepError> {
        let mut sweep = Self::unchecked(File::parse(text, path, most, Files::Disk)?, large)?;
        if sweep.combinations.is_empty() {
            return Err(SweepError::Nothing(path.display().to_string()));
        }
        sweep.check_all()?;
        Ok(sweep)
    }

    /// The combinations of a file, of which none has been looked at.
    pub(super) fn unchecked(file: File, large: bool) -> Result<Self, SweepError> {
        let all: usize = file.axes.iter().map(|axis| axis.len).product();
        let mut sweep = Self {
            combinations: Vec::new(),
            addresses: Vec::new(),
            costs: Vec::new(),
            traces: BTreeSet::new(),
            origin: Origin::new(file.world, None)?,
            fastest: Rate::default(),
            large,
            file,
        };
        sweep.combinations = (0..all).filter(|number| !sweep.is_excluded(*number)).collect();
        Ok(sweep)
    }

    /// The same cells with code that is no part of Weir, such as a controller that was registered: what another `code`
    /// has measured is not found. The text must change whenever the code does.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn with_code(mut self, code: &str) -> Result<Self, SweepError> {
        self = self.also(code.to_owned());
        self.check_all()?;
        Ok(self)
    }

    /// The same with code whose cells are not asked for yet.
    pub(super) fn also(mut self, code: String) -> Self {
        self.origin.also = code;
        self
    }

    /// Looks at every combination: whether it can run, what it costs, and what its cells are kept under.
    fn check_all(&mut self) -> Result<(), SweepError> {
        self.addresses.clear();
        self.costs.clear();
        for combination in 0..self.combinations.len() {
            let scenario = self.scenario(combination)?;
            self.fastest = self.fastest.max(scenario.bottleneck.rate);
            self.costs.push(if self.file.world.is_virtual() {
                FIXED_COST + Cost::of(&scenario).packets as u64
            } else {
                scenario.end().as_nanos()
            });
            let folder = self.file.texts.folder();
            self.traces.extend(scenario.traces().map(|trace| folder.join(trace.path())));
            let described = self.origin.describe(&scenario);
            let first = self.first_run(combination);
            let runs = first..first + self.file.repeat;
            let addresses = runs.map(|run| engine::address::<Measured>(&described, run));
            self.addresses.extend(addresses);
        }
        Ok(())
    }

    /// The columns of its table.
    pub fn columns(&self) -> Vec<ColumnMeta> {
        columns::meta(&columns::all(self))
    }

    /// The rows of its table, as `sweep.csv` has them, from the results that are kept in `out`.
    pub fn rows(&self, out: &Path) -> impl Iterator<Item = Vec<Datum>> + '_ {
        let store = Store::new(out);
        (0..self.cells()).flat_map(move |cell| match store.read::<Measured>(self.address(cell)) {
            Kept::Whole(Outcome::Measured(measured)) => columns::measured(self, cell, &measured),
            Kept::Whole(Outcome::Failed(error)) => vec![columns::failed(self, cell, &error)],
            Kept::Nothing | Kept::Damaged => Vec::new(),
        })
    }

    /// What it is called: `name`, or the file's name without `.toml`.
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// Whether its cells may cost whatever they do.
    pub(super) fn is_large(&self) -> bool {
        self.large
    }

    /// Where its cells run.
    pub fn world(&self) -> &'static dyn World {
        self.file.world
    }

    /// Runs of each combination.
    pub fn repeat(&self) -> u64 {
        self.file.repeat
    }

    /// How many combinations there are.
    pub fn combinations(&self) -> usize {
        self.combinations.len()
    }

    /// How many cells there are.
    pub fn cells(&self) -> usize {
        self.addresses.len()
    }

    /// The keys, in the order of the table.
    pub fn keys(&self) -> Vec<SweptKey> {
        let axes = self.file.axes.iter().enumerate();
        axes.flat_map(|(axis, keys)| {
            keys.keys.iter().map(move |key| SweptKey {
                key: key.name.clone(),
                axis,
                column: key.column(),
                values: key.values.iter().map(|value| value.label.clone()).collect(),
            })
        })
        .collect()
    }

    /// The values of a cell and its run, for people.
    pub fn describe(&self, cell: usize) -> String {
        let Cell { combination, run } = self.cell(cell);
        let values = self.chosen(combination).map(|(key, value)| format!("{} = {}", key.name, value.label));
        values.chain([format!("run {run}")]).collect::<Vec<_>>().join(", ")
    }

    /// How many of these cells have a result in `out`, or in one of the others.
    pub fn done(&self, cells: &[usize], out: &Path, others: &[PathBuf]) -> usize {
        let store = Store::with(out, others);
        let is_there = |cell: &&usize| matches!(store.read::<Measured>(self.address(**cell)), Kept::Whole(_));
        cells.iter().filter(is_there).count()
    }

    pub(super) fn axes(&self) -> &[Axis] {
        &self.file.axes
    }

    pub(super) fn text(&self) -> &str {
        &self.file.texts.sweep
    }

    pub(super) fn texts(&self) -> &Texts {
        &self.file.texts
    }

    pub(super) fn traces(&self) -> &BTreeSet<PathBuf> {
        &self.traces
    }

    /// What a cell is expected to cost, beside others.
    pub(super) fn cost(&self, cell: usize) -> u64 {
        self.costs[self.cell(cell).combination]
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(super) fn fastest(&self) -> Rate {
        self.fastest
    }

    pub(super) fn address(&self, cell: usize) -> &Address {
        &self.addresses[cell]
    }

    /// The cell of that number.
    pub(super) fn cell(&self, cell: usize) -> Cell {
        let repeat = self.file.repeat as usize;
        let combination = cell / repeat;
        Cell { combination, run: self.first_run(combination) + (cell % repeat) as u64 }
    }

    /// The number of a combination's first run. All draw the same under one number.
    pub(crate) fn first_run(&self, combination: usize) -> u64 {
        if self.file.independent { self.combinations[combination] as u64 * APART } else { 0 }
    }

    /// The places of a combination's values, one for each axis.
    pub(crate) fn places(&self, combination: usize) -> Vec<usize> {
        places(&self.file.axes, self.combinations[combination])
    }

    /// Each key with its value.
    pub(super) fn chosen(&self, combination: usize) -> impl Iterator<Item = (&Key, &Value)> {
        let places = self.places(combination);
        self.file
            .axes
            .iter()
            .zip(places)
            .flat_map(|(axis, place)| axis.keys.iter().map(move |key| (key, &key.values[place])))
    }

    fn is_excluded(&self, number: usize) -> bool {
        let places = places(&self.file.axes, number);
        let fits = |(axis, values): &(usize, Vec<usize>)| values.contains(&places[*axis]);
        self.file.excluded.iter().any(|together| together.iter().all(fits))
    }

    /// The scenario of a combination, checked for the sweep's world.
    ///
    /// # Errors
    /// If it cannot run there.
    pub(crate) fn scenario(&self, combination: usize) -> Result<Scenario, SweepError> {
        let chosen: Vec<(&Key, &Value)> = self.chosen(combination).collect();
        scenario_with(&self.file.texts, &chosen, self.file.world, self.large)
    }

    /// The same cells in a world that no file names.
    #[cfg(test)]
    pub(super) fn in_world(mut self, world: &'static dyn World) -> Self {
        (self.file.world, self.origin.world) = (world, world);
        self
    }
}

/// The scenario of `texts` with a value for each of some keys, checked for a world.
///
/// # Errors
/// If it cannot run there.
pub fn scenario_with(
    texts: &Texts,
    chosen: &[(&Key, &Value)],
    world: &'static dyn World,
    large: bool,
) -> Result<Scenario, SweepError> {
    let offset = texts.offset();
    let splices: Vec<Splice<'_>> = chosen
        .iter()
        .map(|(key, value)| Splice { path: &key.path, literal: &value.literal, at: value.at })
        .collect();
    let read = |table: toml::Spanned<toml::de::DeTable<'_>>| {
        let read = Scenario::deserialize(toml::Deserializer::from(table.clone()));
        let mut scenario = read.map_err(|error| {
            let fault = Fault::toml(error);
            // A discipline is read as a whole; the key that was put into it is where to look.
            let inside = chosen.iter().find(|(key, _)| {
                let mut above = (1..key.path.len()).map(|steps| key.path[..steps].join("."));
                above.any(|path| toml_place::span(&table, &path).start == fault.at)
            });
            Fault { at: inside.map_or(fault.at, |(_, value)| offset + value.at), ..fault }
        })?;
        // It is the sweep that has a name, and no result depends on it.
        scenario.name.clear();
        let checked = scenario
            .complete_by(texts.folder(), &|path| texts.files.trace(path))
            .and_then(|()| scenario.check())
            .and_then(|()| check(&scenario, world, large));
        let wrong = checked.err();
        let wrong = wrong.or_else(|| {
            let remedy = "a sweep keeps no packets; run this one scenario with `weir run --pcap`";
            scenario.measure.pcap.then(|| Refusal::new("measure.pcap", remedy))
        });
        match wrong {
            None => Ok(scenario),
            Some(Refusal { key, message }) => {
                // A key that is swept is where to change it, also where the error names the table around it.
                let swept = chosen.iter().find(|(swept, _)| {
                    let path = swept.path.join(".");
                    path.strip_prefix(&key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                });
                let at = match swept {
                    Some((_, value)) => offset + value.at,
                    None => toml_place::span(&table, &key).start,
                };
                let with = chosen.iter().map(|(key, value)| format!("{} = {}", key.name, value.label));
                let with = with.collect::<Vec<_>>().join(", ");
                let with = if with.is_empty() { with } else { format!(" (with {with})") };
                Err(Fault::new(at, format!("{}: {message}{with}", scenario.said(&key))))
            }
        }
    };
    let scenario = texts.table().and_then(|table| splice(table, &splices, offset, read));
    scenario.map_err(|fault| texts.error(fault))
}

/// The places of a combination's values: the digits of its number, the last axis fastest.
fn places(axes: &[Axis], number: usize) -> Vec<usize> {
    let mut rest = number;
    let mut places: Vec<usize> = axes
        .iter()
        .rev()
        .map(|axis| {
            let place = rest % axis.len;
            rest /= axis.len;
            place
        })
        .collect();
    places.reverse();
    places
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
