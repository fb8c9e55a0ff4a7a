//! A figure as a table for a terminal.

use comfy_table::CellAlignment;
use weir_report::summary::{render, table};

use super::cell::Grid;
use super::{About, FigureResult, Plot};

/// A figure's cells: a row for each label of the first axis, and in each column the paper's value and ours.
pub(super) fn text(about: &About, result: &FigureResult) -> String {
    if matches!(about.plot, Plot::Own) {
        let scale = about.scale(result.quick, &result.variant);
        return format!("{}, variant {}{scale}: {} cells", result.figure, result.variant, result.rows.len());
    }
    let decimals = about.value.decimals;
    let grid = Grid::of(&result.rows);
    let mut out = table(&[]);
    let columns = grid.columns.iter().map(|column| column.join("\n"));
    out.set_header(std::iter::once(String::new()).chain(columns));
    for row in &grid.rows {
        let cells = grid.row(row).map(|cell| {
            let Some(cell) = cell else { return String::new() };
            let paper = match (cell.paper, &cell.paper_says) {
                (Some(paper), _) => format!("{paper:.decimals$}"),
                (None, Some(says)) => says.clone(),
                (None, None) => "-".to_owned(),
            };
            let ours = cell.measured.map_or_else(|| "?".to_owned(), |value| format!("{value:.decimals$}"));
            format!("{paper}\n{ours}{}", if cell.is_bound { "*" } else { "" })
        });
        out.add_row(std::iter::once(format!("{row}\n  ours")).chain(cells));
    }
    for column in out.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let scale = about.scale(result.quick, &result.variant);
    let mut text = format!(
        "{} ({}), variant {}{scale}; above the paper, below ours\n{}",
        result.figure,
        about.value.unit,
        result.variant,
        render(&out)
    );
    if result.rows.iter().any(|cell| cell.is_bound) {
        text += &format!("\n* some flows were cut off at the timeout: the {} is a bound", about.value.name);
    }
    text
}
