//! What things cost here: tables of measurements made in one run, so that the rows of one may be compared.

mod forward;
mod frames;
pub mod law;
pub mod link;

use serde::Serialize;

/// A line of a table for people.
pub trait Line {
    /// What stands above each cell.
    const HEADINGS: &'static [&'static str];

    /// One for each heading.
    fn cells(&self) -> Vec<String>;
}

/// What was measured, and where.
#[derive(Clone, Debug, Serialize)]
pub struct Bench<Row> {
    /// Its name: `weir bench NAME`.
    pub bench: &'static str,
    /// Kernel and processors.
    pub machine: String,
    /// The measurements.
    pub rows: Vec<Row>,
}

impl<Row: Line> Bench<Row> {
    /// A table for people: names to the left, numbers to the right.
    pub fn table(&self) -> String {
        let mut lines = vec![Row::HEADINGS.iter().map(|heading| (*heading).to_owned()).collect()];
        lines.extend(self.rows.iter().map(Row::cells));
        let width =
            |column: usize| lines.iter().map(|line: &Vec<String>| line[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..Row::HEADINGS.len()).map(width).collect();
        let mut text = String::new();
        for line in &lines {
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                text += &if column == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
            }
            text.push('\n');
        }
        text
    }
}

/// Kernel and processors, for a reader of the numbers.
fn machine() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("Linux {}, {processors} processors", kernel.trim())
}

/// A number that may be missing.
fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

/// The value that a part of all is below, 0 to 1.
fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(((sorted.len() as f64 * part) as usize).min(sorted.len().saturating_sub(1))).copied()
}

/// The middle one.
fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::{median, quantile};

    #[test]
    fn the_middle_one_counts() {
        assert_eq!(median(&[3.0, 1.0, 900.0]), Some(3.0));
        assert_eq!(median(&[]), None);
        assert_eq!(quantile(&[4.0, 3.0, 2.0, 1.0], 0.25), Some(2.0));
        assert_eq!(quantile(&[4.0, 3.0], 1.0), Some(4.0));
    }
}
