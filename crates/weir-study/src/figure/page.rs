//! A figure as a page: the plot, the paper's statements put to the test, what a reader must know.

use std::fmt::Write;

use super::FigureResult;
use weir_report::page::{self, StripColumn, StripPanel};

/// A page with a point per run: for figures of scores.
pub(super) fn scores(title: &str, paper: &str, result: &FigureResult) -> String {
    let mut panels: Vec<StripPanel> = Vec::new();
    // Columns of one flow stand together, whatever the order of the cells.
    let mut cells: Vec<_> = result.rows.iter().collect();
    let first = |row: &str| result.rows.iter().position(|cell| cell.row == row);
    cells.sort_by_key(|cell| first(&cell.row));
    for cell in cells {
        let panel = match panels.iter_mut().position(|panel| panel.title == cell.column) {
            Some(index) => &mut panels[index],
            None => {
                panels.push(StripPanel { title: cell.column.clone(), columns: Vec::new() });
                panels.last_mut().expect("one was just pushed")
            }
        };
        panel.columns.push(StripColumn {
            group: cell.row.clone(),
            label: cell.rtt.clone(),
            points: cell.runs.clone(),
            paper: cell.paper,
        });
    }
    whole(title, paper, result, &page::strip_plot(&panels, "responsiveness score", (0.0, 100.0)))
}

/// A page with the paper's table and ours: for figures of numbers.
pub(super) fn heat(title: &str, paper: &str, result: &FigureResult, tolerance: f64) -> String {
    let (rows, columns) = super::axes(result);
    let names: Vec<String> = columns.iter().map(|(column, rtt)| format!("{column}, {rtt}")).collect();
    let table = |value: fn(&super::Cell) -> Option<f64>| -> Vec<Vec<Option<f64>>> {
        rows.iter()
            .map(|row| {
                columns.iter().map(|column| super::cell(result, row, column).and_then(value)).collect()
            })
            .collect()
    };
    let body =
        page::heat_table(&rows, &names, &table(|cell| cell.measured), &table(|cell| cell.paper), tolerance);
    whole(title, paper, result, &body)
}

fn whole(title: &str, paper: &str, result: &FigureResult, plot: &str) -> String {
    let escape = page::escape;
    let scale = if result.quick { ", a tenth of the rate and of the bytes" } else { "" };
    let mut body = format!(
        "<header><h1>{}</h1><p class=\"subtitle\">{}. Variant {}{scale}; world {}, seed {}, weir {}.</p></header>\n{plot}",
        escape(title),
        escape(paper),
        escape(&result.variant),
        escape(&result.world),
        result.seed,
        env!("CARGO_PKG_VERSION"),
    );
    body.push_str("<section><h2>What the paper says, put to the test</h2><div class=\"scroll\"><table><thead><tr><th>statement</th><th>paper</th><th>measured</th><th></th></tr></thead><tbody>");
    for statement in &result.statements {
        let _ = write!(
            body,
            "<tr><td style=\"text-align:left;white-space:normal\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&statement.text),
            escape(&statement.paper),
            escape(&statement.measured),
            if statement.holds { "\u{2713} holds" } else { "\u{2717} does not hold" }
        );
    }
    body.push_str("</tbody></table></div></section>");
    let notes: Vec<String> = result
        .rows
        .iter()
        .flat_map(|cell| {
            cell.notes.iter().map(move |note| format!("{}, {}, {}: {note}", cell.row, cell.column, cell.rtt))
        })
        .chain(result.warnings.iter().cloned())
        .collect();
    if !notes.is_empty() {
        body.push_str("<section><h2>What to know of single cells and runs</h2><ul>");
        for note in notes {
            let _ = write!(body, "<li>{}</li>", escape(&note));
        }
        body.push_str("</ul></section>");
    }
    page::page(title, &body)
}
