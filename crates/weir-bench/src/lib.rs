//! What things cost here: tables of measurements made in one run, so that the rows of one may be compared.

pub mod doctor;
mod forward;
mod frames;
pub mod law;
pub mod link;
mod ns3;
pub mod sim;

use serde::Serialize;

/// A line of a table for people.
pub trait Line {
    /// What stands above each cell.
    const HEADINGS: &'static [&'static str];

    /// One for each heading.
    fn cells(&self) -> Vec<String>;
}

/// What something costs: a row of `weir bench law` and `weir bench sim`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// What was measured.
    pub name: String,
    /// Where: `kernel`, `sim` or `ns-3`.
    pub world: &'static str,
    /// Processor time for a packet: of one program, the measuring loop included, for `forwarding` of the router with
    /// the generator, for a simulator the median of parts of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns_per_packet: Option<f64>,
    /// Of a program, what is its own part of that: the difference to a program that does nothing, run right after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_ns_per_packet: Option<f64>,
    /// Packets that one processor forwards in a second of its time; packets that a simulator delivers in a second of
    /// the clock on the wall, in the fastest part of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets_per_second: Option<f64>,
    /// Memory for each flow: of the kernel's table, the waiting lines and the filter included, or what a process has
    /// grown by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_flow: Option<f64>,
    /// The row that this one is compared with, or the clock on the wall.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vs: Option<&'static str>,
    /// Beside that row: of a router packets per second (the median of all pairs), else nanoseconds; beside the clock on
    /// the wall, the time that was simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Half of all pairs had a ratio from the first to the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<[f64; 2]>,
    /// Why there is no number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Line for Row {
    const HEADINGS: &[&str] =
        &["what", "ns/packet", "own ns", "packets/s", "bytes/flow", "beside", "ratio", "half of all", ""];

    fn cells(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            number(self.ns_per_packet, 0),
            number(self.own_ns_per_packet, 0),
            number(self.packets_per_second, 0),
            number(self.bytes_per_flow, 0),
            self.vs.unwrap_or("-").to_owned(),
            number(self.ratio, 3),
            self.spread.map_or_else(|| "-".to_owned(), |[low, high]| format!("{low:.3}-{high:.3}")),
            self.note.clone().unwrap_or_default(),
        ]
    }
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
        let mut lines: Vec<Vec<String>> =
            vec![Row::HEADINGS.iter().map(|heading| (*heading).to_owned()).collect()];
        lines.extend(self.rows.iter().map(Row::cells));
        let width =
            |column: usize| lines.iter().map(|line: &Vec<String>| line[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..Row::HEADINGS.len()).map(width).collect();
        let mut text = String::new();
        for line in &lines {
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                text += &if column == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
            }
            text.truncate(text.trim_end().len());
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

/// A clock in nanoseconds.
fn now(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec; the clocks that are asked for exist everywhere.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
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
    use super::{Bench, Row, median, quantile};

    #[test]
    fn a_table_has_a_line_for_each_row() {
        let row = Row { name: "tcp".into(), world: "kernel", ns_per_packet: Some(81.4), ..Row::default() };
        let bench = Bench { bench: "law", machine: "test".into(), rows: vec![row] };
        let table = bench.table();
        assert!(table.lines().nth(1).unwrap().starts_with("tcp "));
        assert!(table.lines().all(|line| line == line.trim_end()));
        let json = serde_json::to_value(&bench).unwrap();
        assert_eq!(json["rows"][0]["ns_per_packet"], 81.4);
        assert!(json["rows"][0].get("bytes_per_flow").is_none());
    }

    #[test]
    fn the_middle_one_counts() {
        assert_eq!(median(&[3.0, 1.0, 900.0]), Some(3.0));
        assert_eq!(median(&[]), None);
        assert_eq!(quantile(&[4.0, 3.0, 2.0, 1.0], 0.25), Some(2.0));
        assert_eq!(quantile(&[4.0, 3.0], 1.0), Some(4.0));
    }
}
