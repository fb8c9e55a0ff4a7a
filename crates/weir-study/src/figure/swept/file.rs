//! The file of a figure over a sweep: its axes, its grids, what is drawn, and what is said of the numbers.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::About;

/// A `figure.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct File {
    pub(super) about: About,
    /// Runs of each cell, if its grid does not `repeat` cells itself.
    pub(super) runs: u32,
    pub(super) axis: Vec<AxisFile>,
    /// The grids of each variant, by their files in `figures`. The first is what the figure is about; the
    /// others are experiments that show causes.
    pub(super) grids: BTreeMap<String, Vec<String>>,
    pub(super) quick: Quick,
    /// Warnings that have one of these texts in them say what an experiment is about, and make no run doubtful.
    #[serde(default)]
    pub(super) expects: Vec<String>,
    /// What is compared with world `sim` where the figure is made on real packets.
    #[serde(default)]
    pub(super) beside_sim: Vec<Compared>,
    pub(super) chart: Vec<Chart>,
    #[serde(default)]
    pub(super) claim: Vec<Claim>,
    /// Tables of numbers that somebody has published.
    #[serde(default)]
    pub(super) published: Vec<Published>,
}

/// An axis of the figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AxisFile {
    pub(super) name: String,
    /// The key of the sweep whose values it has, any of those that vary together; several where grids have other ones.
    pub(super) key: Labels,
    /// What the values are called, in their order; as the sweep has them if empty.
    #[serde(default)]
    pub(super) labels: Vec<String>,
    /// The same in other grids, by their names.
    #[serde(default)]
    pub(super) labels_in: BTreeMap<String, Vec<String>>,
}

/// What `--quick` leaves.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Quick {
    /// All durations are multiplied by it.
    pub(super) shorter: f64,
    /// The same in other grids, by their names.
    #[serde(default)]
    pub(super) shorter_in: BTreeMap<String, f64>,
    /// Labels by axis; all of an axis that is not named.
    #[serde(default)]
    pub(super) only: BTreeMap<String, Vec<String>>,
}

/// Some cells: for each axis named, the labels that count. All cells if none is named.
pub(super) type Where = BTreeMap<String, Labels>;

/// One label or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Labels {
    One(String),
    Several(Vec<String>),
}

impl Labels {
    pub(super) fn has(&self, label: &str) -> bool {
        match self {
            Self::One(one) => one == label,
            Self::Several(several) => several.iter().any(|one| one == label),
        }
    }
}

/// A number that each run of a cell has.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Measure {
    /// A `[[flow]]`, a `[[workload]]`, `queue NAME` or `link`.
    pub(super) of: String,
    /// As `means.csv` of a sweep calls it.
    pub(super) measure: String,
    /// It is multiplied by this.
    #[serde(default = "one")]
    pub(super) scale: f64,
}

impl Measure {
    /// What it cannot be above.
    pub(super) fn limit(&self) -> f64 {
        /// Shares, and an index that is 1 if all are equal.
        const AT_MOST_ONE: [&str; 5] =
            ["class_jain_index", "drop_ratio", "jain_index", "link_utilisation", "mark_ratio"];
        if AT_MOST_ONE.contains(&self.measure.as_str()) { self.scale } else { f64::INFINITY }
    }
}

/// A number that is compared between two worlds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Compared {
    pub(super) name: String,
    #[serde(default)]
    pub(super) unit: String,
    pub(super) of: String,
    pub(super) measure: String,
    #[serde(default = "one")]
    pub(super) scale: f64,
    /// The number is over this one of the same run.
    pub(super) over: Option<Measure>,
    #[serde(default = "two")]
    pub(super) decimals: usize,
}

fn one() -> f64 {
    1.0
}

fn two() -> usize {
    2
}

/// What is drawn. `panels`, `rows`, `columns`, `lines` and `across` name axes; there is a panel for each combination of
/// labels on `panels`.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Chart {
    /// Means with their confidence over an axis, a line for each measure and combination of labels on `lines`.
    Lines {
        title: String,
        across: String,
        #[serde(default)]
        lines: Vec<String>,
        #[serde(default)]
        panels: Vec<String>,
        #[serde(default, rename = "where")]
        cells: Where,
        of: Vec<Measure>,
        /// Not the number itself, but how much smaller it is than in the same run of the cell with these labels: an FCT
        /// score, from -1 to 1.
        #[serde(default)]
        score_over: BTreeMap<String, String>,
        y: String,
    },
    /// A number in each cell of two axes, coloured from `from` to `to`.
    Matrix {
        title: String,
        rows: String,
        columns: String,
        #[serde(default)]
        panels: Vec<String>,
        #[serde(default, rename = "where")]
        cells: Where,
        of: Measure,
        /// The number is over this one.
        over: Option<Measure>,
        from: f64,
        to: f64,
        #[serde(default)]
        logarithmic: bool,
        #[serde(default = "two")]
        decimals: usize,
    },
    /// The distribution of queue delay, a line for each of `of` (flows and workloads) and combination of labels on
    /// `lines`. All runs count.
    Delay {
        title: String,
        #[serde(default)]
        lines: Vec<String>,
        #[serde(default)]
        panels: Vec<String>,
        #[serde(default, rename = "where")]
        cells: Where,
        of: Vec<String>,
    },
    /// Time to completion over size of the requests of workloads, beside what an empty link would take with a handshake
    /// of a round trip before. Of the first run.
    Completion {
        title: String,
        #[serde(default)]
        panels: Vec<String>,
        #[serde(default, rename = "where")]
        cells: Where,
        of: Vec<String>,
    },
}

/// How the numbers of many cells become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Fold {
    #[default]
    Mean,
    Least,
    Most,
}

/// Bounds of a number, both included.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bounds {
    pub(super) least: Option<f64>,
    pub(super) most: Option<f64>,
}

impl Bounds {
    pub(super) fn hold(self, value: f64) -> bool {
        self.least.is_none_or(|least| value >= least) && self.most.is_none_or(|most| value <= most)
    }
}

/// Another number of the same run: by what it differs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Over {
    pub(super) of: Option<String>,
    pub(super) measure: Option<String>,
    /// In another grid.
    pub(super) grid: Option<String>,
    /// The cell with these labels instead of its own.
    #[serde(default, rename = "at")]
    pub(super) labels: BTreeMap<String, String>,
}

/// A sentence of the paper as bounds of a number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    pub(super) text: String,
    pub(super) paper: String,
    /// Where the paper says it.
    pub(super) at: Option<String>,
    pub(super) of: String,
    pub(super) measure: String,
    #[serde(default = "one")]
    pub(super) scale: f64,
    /// The grid, if it is not the figure's own.
    pub(super) grid: Option<String>,
    #[serde(default, rename = "where")]
    pub(super) cells: Where,
    /// The number of each cell is over this one.
    pub(super) over: Option<Over>,
    /// The axis for whose every label it is said: the cells with each must come to a number within the bounds.
    pub(super) each: Option<String>,
    #[serde(default)]
    pub(super) fold: Fold,
    /// The number is the part of cells in percent for which this holds.
    pub(super) within: Option<Bounds>,
    pub(super) least: Option<f64>,
    pub(super) most: Option<f64>,
    #[serde(default)]
    pub(super) unit: String,
    #[serde(default = "two")]
    pub(super) decimals: usize,
    /// The variants of which it is said; the first alone if empty.
    #[serde(default)]
    pub(super) variants: Vec<String>,
    pub(super) cause: Option<CauseFile>,
}

/// A table of published numbers: each is a claim that ours is near it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Published {
    /// Where they are from.
    at: String,
    #[serde(default, rename = "where")]
    cells: Where,
    /// The variants that are compared; the first alone if none is named.
    #[serde(default)]
    variants: Vec<String>,
    /// The axes whose labels a row begins with.
    axes: Vec<String>,
    columns: Vec<Column>,
    /// Labels, then a number for each column, or a text where there is none.
    rows: Vec<Vec<toml::Value>>,
}

/// A column of published numbers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Column {
    name: String,
    unit: String,
    of: String,
    measure: String,
    #[serde(default = "one")]
    scale: f64,
    /// How near ours must be, as a part of the number.
    part: Option<f64>,
    /// Or in its unit.
    by: Option<f64>,
}

impl Published {
    /// A claim for each number.
    pub(super) fn claims(&self) -> Vec<Claim> {
        let row = |row: &Vec<toml::Value>| {
            let (labels, numbers) = row.split_at(self.axes.len().min(row.len()));
            let labels: Vec<&str> = labels.iter().filter_map(toml::Value::as_str).collect();
            let mut cells = self.cells.clone();
            let named = self.axes.iter().zip(&labels);
            cells.extend(named.map(|(axis, label)| (axis.clone(), Labels::One((*label).to_owned()))));
            let place = labels.join(", ");
            let claim = |(column, number): (&Column, &toml::Value)| {
                let number = number.as_float().or(number.as_integer().map(|number| number as f64))?;
                let (near, words) = match (column.part, column.by) {
                    (Some(part), _) => (number * part, format!("{:.0} %", part * 100.0)),
                    (None, by) => (by.unwrap_or(0.0), format!("{} {}", by.unwrap_or(0.0), column.unit)),
                };
                Some(Claim {
                    text: format!("{place}: {} within {words}", column.name),
                    paper: format!("{number} {}", column.unit),
                    at: Some(self.at.clone()),
                    of: column.of.clone(),
                    measure: column.measure.clone(),
                    scale: column.scale,
                    grid: None,
                    cells: cells.clone(),
                    over: None,
                    each: None,
                    fold: Fold::Mean,
                    within: None,
                    least: Some(number - near),
                    most: Some(number + near),
                    unit: column.unit.clone(),
                    decimals: 2,
                    variants: self.variants.clone(),
                    cause: None,
                })
            };
            self.columns.iter().zip(numbers).filter_map(claim).collect::<Vec<_>>()
        };
        self.rows.iter().flat_map(row).collect()
    }
}

/// An experiment that shows why a claim does not hold: the same number elsewhere.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CauseFile {
    pub(super) text: String,
    /// The grid, if it is another.
    pub(super) grid: Option<String>,
    /// The cells; labels of axes that are not named are the claim's.
    #[serde(default, rename = "where")]
    pub(super) cells: Where,
}
