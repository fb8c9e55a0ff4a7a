//! The cells of a swept figure: each combination of its grids with its labels on the figure's axes.

use std::path::Path;

use weir_scenario::Scenario;

use super::file::{AxisFile, File, Where};
use super::grid_text;
use crate::sweep::{MOST_CELLS, Sweep};

/// A combination of values.
#[derive(Clone, Debug)]
pub(super) struct Combination {
    /// Whether it is of the figure's first grid, and not of an experiment.
    pub(super) is_main: bool,
    pub(super) grid: String,
    /// One for each axis of the figure; empty on an axis that the grid does not have.
    pub(super) labels: Vec<String>,
    pub(super) scenario: Scenario,
    /// The number of its first run.
    pub(super) first_run: u64,
    /// How many runs it has in full, if its grid says so itself.
    pub(super) repeat: Option<u32>,
}

impl Combination {
    /// Whether all its labels are among those wanted.
    pub(super) fn is_in(&self, axes: &[AxisFile], cells: &Where) -> bool {
        cells.iter().all(|(name, wanted)| {
            let place = axes.iter().position(|axis| axis.name == *name);
            place.is_some_and(|place| wanted.has(&self.labels[place]))
        })
    }

    /// For people, and for `--only`.
    pub(super) fn name(&self) -> String {
        let labels = self.labels.iter().filter(|label| !label.is_empty()).map(String::as_str);
        let labels = labels.collect::<Vec<_>>().join(", ");
        if self.is_main { labels } else { format!("{}: {labels}", self.grid) }
    }
}

/// All combinations of a variant, in the order of its grids; with `quick` those that it leaves, made shorter.
///
/// # Panics
/// If a grid or a key that the file names does not exist; the tests load every file.
pub(super) fn all(file: &File, variant: &str, quick: bool) -> Vec<Combination> {
    let grids = file.grids.get(variant).map_or(&[][..], Vec::as_slice);
    let mut all = Vec::new();
    for (index, name) in grids.iter().enumerate() {
        let path = format!("figures/{name}.toml");
        let text = grid_text(name).unwrap_or_else(|| panic!("there is no grid {name}")).to_owned();
        let sweep = Sweep::parse(text, Path::new(&path), MOST_CELLS, true);
        let sweep = sweep.unwrap_or_else(|error| panic!("{error}"));
        let keys = sweep.keys();
        let find = |axis: &AxisFile| keys.iter().find(|key| axis.key.has(&key.key));
        for combination in 0..sweep.combinations() {
            let places = sweep.places(combination);
            let label = |axis: &AxisFile| {
                let Some(key) = find(axis) else { return String::new() };
                let place = places[key.axis];
                let labels = axis.labels_in.get(name).unwrap_or(&axis.labels);
                // Another grid may have values of its own.
                let named = labels.len() == key.values.len();
                if named { labels[place].clone() } else { key.values[place].clone() }
            };
            let labels: Vec<String> = file.axis.iter().map(label).collect();
            let is_left = file.axis.iter().zip(&labels).all(|(axis, label)| {
                let only = file.quick.only.get(&axis.name).filter(|_| quick);
                label.is_empty() || only.is_none_or(|only| only.contains(label))
            });
            if !is_left {
                continue;
            }
            let mut scenario = sweep.scenario(combination).unwrap_or_else(|error| panic!("{error}"));
            if quick {
                let by = file.quick.shorter_in.get(name).copied().unwrap_or(file.quick.shorter);
                shorten(&mut scenario, by);
            }
            let first_run = sweep.first_run(combination);
            let repeat = u32::try_from(sweep.repeat()).ok().filter(|repeat| *repeat > 1);
            let (is_main, grid) = (index == 0, name.clone());
            all.push(Combination { is_main, grid, labels, scenario, first_run, repeat });
        }
    }
    all
}

/// Makes all durations of a scenario shorter.
fn shorten(scenario: &mut Scenario, by: f64) {
    for flow in &mut scenario.flows {
        flow.duration = flow.duration.map(|duration| duration.scale(by));
        flow.start = flow.start.scale(by);
    }
    for workload in &mut scenario.workloads {
        workload.duration = workload.duration.map(|duration| duration.scale(by));
    }
    scenario.measure.from = scenario.measure.from.scale(by);
    scenario.measure.to = scenario.measure.to.map(|to| to.scale(by));
}
