//! A figure as a table for a terminal.

use comfy_table::CellAlignment;
use weir_report::summary::{render, table};

use super::{FigureResult, axes, cell};

/// A figure's cells: a row per flow, and per column and round-trip time the paper's value and ours.
pub(super) fn table_of(result: &FigureResult, unit: &str, decimals: usize) -> String {
    let (rows, columns) = axes(result);
    let mut out = table(&[]);
    out.set_header(
        std::iter::once(String::new()).chain(columns.iter().map(|(column, rtt)| format!("{column}\n{rtt}"))),
    );
    for row in &rows {
        let cells = columns.iter().map(|column| {
            let Some(cell) = cell(result, row, column) else { return String::new() };
            let paper = match (cell.paper, &cell.paper_says) {
                (Some(paper), _) => format!("{paper:.decimals$}"),
                (None, Some(says)) => says.clone(),
                (None, None) => "-".to_owned(),
            };
            let ours = cell.measured.map_or_else(|| "?".to_owned(), |value| format!("{value:.decimals$}"));
            let bound = if cell.notes.iter().any(|note| note.contains("bound")) { "*" } else { "" };
            format!("{paper}\n{ours}{bound}")
        });
        out.add_row(std::iter::once(format!("{row}\n  ours")).chain(cells));
    }
    for column in out.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let scale = if result.quick { ", a tenth of the rate and of the bytes" } else { "" };
    let mut text = format!(
        "{} ({unit}), variant {}{scale}; above the paper, below ours\n{}",
        result.figure,
        result.variant,
        render(&out)
    );
    if result.rows.iter().any(|cell| cell.notes.iter().any(|note| note.contains("bound"))) {
        text += "\n* some flows were cut off at the timeout: the score is a bound";
    }
    text
}
