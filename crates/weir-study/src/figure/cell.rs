//! The cells of a figure, and how they make rows and columns.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{About, mean};
use weir_report::result::RunResult;
use weir_report::spread::Spread;

/// One cell of a figure.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cell {
    /// Where it is: in JSON a key for each axis.
    #[serde(flatten)]
    pub place: Place,
    /// What the paper has there; none where the paper gives no number.
    pub paper: Option<f64>,
    /// What the paper's text says of it, where it has no number.
    pub paper_says: Option<String>,
    /// The mean over the runs; none if none succeeded.
    pub measured: Option<f64>,
    /// One value per run.
    pub runs: Vec<f64>,
    /// Further values by name; in JSON keys of the cell.
    #[serde(flatten)]
    pub more: BTreeMap<String, f64>,
    /// What a reader must know of this cell: unfinished flows, failed runs.
    pub notes: Vec<String>,
    /// What [`Plot::Time`](super::Plot::Time) draws of it: a run with its samples, and with this cell's flows only.
    #[serde(skip)]
    pub over_time: Option<RunResult>,
    /// Whether the value is a bound, because some flows were cut off at the timeout.
    #[serde(skip)]
    pub is_bound: bool,
}

impl Cell {
    /// A cell that is still empty.
    pub fn at(place: Place) -> Self {
        Self { place, ..Self::default() }
    }

    /// The cell with the mean over its runs.
    pub fn averaged(mut self) -> Self {
        self.measured = mean(&self.runs);
        self
    }

    /// The mean over its runs with its confidence; none if none succeeded.
    pub(super) fn spread(&self) -> Option<Spread> {
        Spread::of(&self.runs)
    }
}

/// Where a cell is: each axis with the cell's label on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place(Vec<(String, String)>);

impl Place {
    /// The place with these labels on the axes of a figure, in their order.
    ///
    /// # Panics
    /// If there are more or fewer labels than axes.
    pub fn new<'a>(about: &About, labels: impl IntoIterator<Item = &'a str>) -> Self {
        let labels: Vec<_> = labels.into_iter().map(str::to_owned).collect();
        assert_eq!(about.axes.len(), labels.len(), "figure {} has the axes {:?}", about.id, about.axes);
        Self(about.axes.iter().cloned().zip(labels).collect())
    }

    /// The label on an axis; empty if there is no such axis.
    pub fn on(&self, axis: &str) -> &str {
        self.0.iter().find(|(name, _)| name == axis).map_or("", |(_, label)| label)
    }

    /// All labels, in the order of the axes.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, label)| label.as_str())
    }

    /// The row that the cell is in: its label on the first axis.
    pub fn row(&self) -> &str {
        self.labels().next().unwrap_or("")
    }

    /// The column that it is in: its labels on the others.
    pub fn column(&self) -> Vec<&str> {
        self.labels().skip(1).collect()
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (axis, label) in &self.0 {
            map.serialize_entry(axis, label)?;
        }
        map.end()
    }
}

/// Cells in rows and columns, each in order of first sight.
pub(super) struct Grid<'a> {
    pub(super) rows: Vec<&'a str>,
    /// Each with its label on all axes but the first.
    pub(super) columns: Vec<Vec<&'a str>>,
    cells: &'a [Cell],
}

impl<'a> Grid<'a> {
    pub(super) fn of(cells: &'a [Cell]) -> Self {
        let (mut rows, mut columns) = (Vec::new(), Vec::new());
        for Cell { place, .. } in cells {
            let (row, column) = (place.row(), place.column());
            if !rows.contains(&row) {
                rows.push(row);
            }
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        Self { rows, columns, cells }
    }

    /// The cells of a row, one for each column; none where none was made.
    pub(super) fn row(&self, row: &str) -> impl Iterator<Item = Option<&'a Cell>> {
        let is = move |cell: &Cell, column: &[&str]| cell.place.row() == row && cell.place.column() == column;
        self.columns.iter().map(move |column| self.cells.iter().find(|cell| is(cell, column)))
    }
}
