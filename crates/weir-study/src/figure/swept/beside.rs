//! Real packets beside virtual ones: what a figure that is made on real packets says of the same cells in world `sim`.
//!
//! The scenarios, seeds and run numbers are the same; only who sends, and on which clock, differs. On the real clock a
//! run that carries a warning has met a machine that was late, so such runs do not count where a cell has others.

use std::fmt::Write;

use weir_report::page;
use weir_report::summary::{render, table};

use super::claim::Table;
use super::extract::Extract;
use super::file::Compared;
use weir_report::spread::Spread;

/// What is told of runs with warnings.
const LATE: &str = "Runs with warnings do not count; * where all have some.";

/// One number of one cell in both worlds.
struct Pair {
    real: Option<Spread>,
    virtual_time: Option<Spread>,
}

impl Pair {
    /// What real packets have over what virtual ones have.
    fn ratio(&self) -> Option<f64> {
        let (real, other) = (self.real?, self.virtual_time?);
        (other.mean != 0.0).then(|| real.mean / other.mean)
    }
}

/// A row for each cell, as HTML for the page and as text for the terminal.
pub(super) struct Beside {
    pub(super) html: String,
    pub(super) text: String,
}

/// The numbers of `compared` in both worlds. `sim` has a row of runs for each combination, as the table has.
pub(super) fn beside(
    world: &str,
    compared: &[Compared],
    table: &Table,
    sim: &[Vec<Option<&Extract>>],
) -> Beside {
    let row = |index: usize| {
        let (runs, is_clean) = counting(&table.runs[index]);
        let pairs = compared.iter().map(|number| pair(number, &runs, &sim[index])).collect();
        (table.name(index, 0..table.axes.len()) + if is_clean { "" } else { "*" }, pairs)
    };
    let rows: Vec<(String, Vec<Pair>)> = (0..table.combinations.len()).map(row).collect();
    Beside { html: html(world, compared, &rows), text: text(world, compared, &rows) }
}

/// The runs without warnings, or all where each has one; and whether they are without.
fn counting<'a>(runs: &[Option<&'a Extract>]) -> (Vec<Option<&'a Extract>>, bool) {
    let clean: Vec<_> =
        runs.iter().copied().filter(|run| run.is_some_and(|run| run.warnings.is_empty())).collect();
    if clean.is_empty() { (runs.to_vec(), false) } else { (clean, true) }
}

fn pair(number: &Compared, real: &[Option<&Extract>], sim: &[Option<&Extract>]) -> Pair {
    let Compared { of, measure, scale, over, .. } = number;
    let of = |run: &&Extract| run.scaled(of, measure, *scale, over.as_ref());
    let spread =
        |runs: &[Option<&Extract>]| Spread::of(&runs.iter().flatten().filter_map(of).collect::<Vec<_>>());
    Pair { real: spread(real), virtual_time: spread(sim) }
}

/// The mean, and the smallest and the largest of several runs.
fn words(spread: Option<Spread>, decimals: usize) -> String {
    match spread {
        None => "-".to_owned(),
        Some(Spread { runs: 1, mean, .. }) => format!("{mean:.decimals$}"),
        Some(Spread { mean, min, max, .. }) => {
            format!("{mean:.decimals$} ({min:.decimals$} to {max:.decimals$})")
        }
    }
}

fn title(number: &Compared) -> String {
    if number.unit.is_empty() { number.name.clone() } else { format!("{}, {}", number.name, number.unit) }
}

fn ratio_words(pair: &Pair) -> String {
    pair.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
}

fn html(world: &str, compared: &[Compared], rows: &[(String, Vec<Pair>)]) -> String {
    let mut html = format!(
        "<section><h2>World {world} beside world sim</h2><p class=\"note\">The same scenarios in both: the mean over \
         the runs, the smallest and the largest in brackets, and the mean of {world} over that of sim. {LATE}</p>\
         <div class=\"scroll\"><table><thead><tr><th>cell</th>"
    );
    for number in compared {
        let _ = write!(html, "<th>{}: {world}</th><th>sim</th><th>ratio</th>", page::escape(&title(number)));
    }
    html.push_str("</tr></thead><tbody>");
    for (name, pairs) in rows {
        let _ = write!(html, "<tr><td>{}</td>", page::escape(name));
        for (number, pair) in compared.iter().zip(pairs) {
            let of = |spread| words(spread, number.decimals);
            let (real, sim, ratio) = (of(pair.real), of(pair.virtual_time), ratio_words(pair));
            let _ = write!(html, "<td>{real}</td><td>{sim}</td><td>{ratio}</td>");
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div></section>\n");
    html
}

fn text(world: &str, compared: &[Compared], rows: &[(String, Vec<Pair>)]) -> String {
    let mut out = table(&[]);
    let heads = compared.iter().map(|number| format!("{}\n{world}, sim", title(number)));
    out.set_header(std::iter::once(String::new()).chain(heads));
    for (name, pairs) in rows {
        let cells = compared.iter().zip(pairs).map(|(number, pair)| {
            let mean = |spread: Option<Spread>| match spread {
                None => "-".to_owned(),
                Some(spread) => format!("{:.*}", number.decimals, spread.mean),
            };
            format!("{}, {}", mean(pair.real), mean(pair.virtual_time))
        });
        out.add_row(std::iter::once(name.clone()).chain(cells));
    }
    format!("{}\n{LATE}", render(&out))
}
