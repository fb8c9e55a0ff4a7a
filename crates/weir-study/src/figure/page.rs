//! A figure as a page: the plot, the paper's statements put to the test, what a reader must know.

use std::fmt::Write;

use super::cell::Grid;
use super::{About, Cause, Cell, FigureResult, Plot, Statement, Verdict};
use weir_report::page::{self, StripColumn, StripPanel};

/// The page of a figure.
pub(super) fn html(about: &About, result: &FigureResult, own: &str) -> String {
    let plot = match &about.plot {
        Plot::Points { y, from, to } => points(result, y, (*from, *to)),
        Plot::Heat { tolerance } => heat(result, *tolerance),
        Plot::Time => over_time(result),
        Plot::Own => own.to_owned(),
    };
    whole(about, result, &plot)
}

/// A point per run: a panel for each label of the second axis.
fn points(result: &FigureResult, y: &str, range: (f64, f64)) -> String {
    let mut panels: Vec<StripPanel> = Vec::new();
    // Columns of one row stand together, whatever the order of the cells.
    let mut cells: Vec<_> = result.rows.iter().collect();
    let first = |row: &str| result.rows.iter().position(|cell| cell.place.row() == row);
    cells.sort_by_key(|cell| first(cell.place.row()));
    for cell in cells {
        let mut labels = cell.place.column().into_iter();
        let title = labels.next().unwrap_or("");
        let panel = match panels.iter_mut().position(|panel| panel.title == title) {
            Some(index) => &mut panels[index],
            None => {
                panels.push(StripPanel { title: title.to_owned(), columns: Vec::new() });
                panels.last_mut().expect("one was just pushed")
            }
        };
        panel.columns.push(StripColumn {
            group: cell.place.row().to_owned(),
            label: labels.collect::<Vec<_>>().join(", "),
            points: cell.runs.clone(),
            paper: cell.paper,
        });
    }
    page::strip_plot(&panels, y, range)
}

/// The paper's table and ours.
fn heat(result: &FigureResult, tolerance: f64) -> String {
    let grid = Grid::of(&result.rows);
    let rows: Vec<String> = grid.rows.iter().map(|row| (*row).to_owned()).collect();
    let columns: Vec<String> = grid.columns.iter().map(|column| column.join(", ")).collect();
    let table = |value: fn(&Cell) -> Option<f64>| -> Vec<Vec<Option<f64>>> {
        grid.rows.iter().map(|row| grid.row(row).map(|cell| cell.and_then(value)).collect()).collect()
    };
    page::heat_table(&rows, &columns, &table(|cell| cell.measured), &table(|cell| cell.paper), tolerance)
}

/// A chart for each cell that has a run to show.
fn over_time(result: &FigureResult) -> String {
    let drawn = result.rows.iter().filter_map(|cell| {
        Some((cell.place.labels().collect::<Vec<_>>().join(", "), cell.over_time.as_ref()?))
    });
    let drawn: Vec<_> = drawn.collect();
    page::over_time(&drawn.iter().map(|(label, run)| (label.as_str(), *run)).collect::<Vec<_>>())
}

fn whole(about: &About, result: &FigureResult, plot: &str) -> String {
    let escape = page::escape;
    let (title, paper) = (about.title.as_str(), about.paper.as_str());
    let scale = about.scale(result.quick, &result.variant);
    let mut body = format!(
        "<header><h1>{}</h1><p class=\"subtitle\">{}. Variant {}{scale}; world {}, seed {}, {:.1} s of run time, weir {}.</p></header>\n{plot}",
        escape(title),
        escape(paper),
        escape(&result.variant),
        escape(&result.world),
        result.seed,
        result.took_s,
        result.version,
    );
    body.push_str(
        "<section><h2>What the paper says, put to the test</h2><div class=\"scroll\"><table><thead><tr>\
         <th>statement</th><th class=\"words\">paper</th><th class=\"words\">measured</th><th></th>\
         </tr></thead><tbody>",
    );
    for statement in &result.statements {
        body.push_str(&row(statement));
    }
    body.push_str("</tbody></table></div></section>");
    let notes: Vec<String> = result
        .rows
        .iter()
        .flat_map(|cell| {
            let place = cell.place.labels().collect::<Vec<_>>().join(", ");
            cell.notes.iter().map(move |note| format!("{place}: {note}"))
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

/// A statement with its verdict; the cause below it, if it has one.
fn row(statement: &Statement) -> String {
    let escape = page::escape;
    let verdict = |verdict: Verdict| format!("{} {}", verdict.sign(), verdict.words());
    let paper = match &statement.at {
        Some(at) => format!("{} ({at})", statement.paper),
        None => statement.paper.clone(),
    };
    let cause = statement.cause.as_ref().map_or_else(String::new, |cause| {
        let Cause { text, measured, .. } = cause;
        format!(
            "<br><small>Cause: {}: {}, {}</small>",
            escape(text),
            escape(measured),
            verdict(cause.verdict)
        )
    });
    format!(
        "<tr><td class=\"words\">{}{cause}</td><td class=\"words\">{}</td>\
         <td class=\"words\">{}</td><td>{}</td></tr>",
        escape(&statement.text),
        escape(&paper),
        escape(&statement.measured),
        verdict(statement.verdict)
    )
}
