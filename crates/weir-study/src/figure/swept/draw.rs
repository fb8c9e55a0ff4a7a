//! The charts of a swept figure.

use std::collections::BTreeMap;
use std::fmt::Write;

use weir_core::{FULL_PACKET, Histogram};
use weir_report::page::{self, MOST_LINES, Matrix, Positions, SpreadLine, SpreadPoint};
use weir_report::result::fct_score;

use super::cells::Combination;
use super::claim::Table;
use super::extract::Extract;
use super::file::{Chart, Measure, Where};
use weir_report::spread::Spread;

/// A chart with its caption.
struct Drawn {
    caption: String,
    svg: String,
}

/// What stands above the charts of one entry.
struct Head<'a> {
    title: &'a str,
    note: String,
    legend: Vec<String>,
}

/// All charts as sections of the page, and each as a picture of its own.
pub(super) fn all(charts: &[Chart], table: &Table) -> (String, Vec<String>) {
    let (mut html, mut pictures) = (String::new(), Vec::new());
    for chart in charts {
        let (head, drawn) = match chart {
            Chart::Lines { title, across, lines, panels, cells, of, score_over, y } => {
                lines_chart(table, title, across, lines, panels, cells, of, score_over, y)
            }
            Chart::Matrix { .. } => matrix(table, chart),
            Chart::Delay { title, lines, panels, cells, of } => delay(table, title, lines, panels, cells, of),
            Chart::Completion { title, panels, cells, of } => completion(table, title, panels, cells, of),
        };
        if drawn.is_empty() {
            continue;
        }
        let _ = write!(html, "<section><h2>{}</h2>", page::escape(head.title));
        let _ = write!(html, "<p class=\"note\">{}</p>", page::escape(&head.note));
        if !head.legend.is_empty() {
            html.push_str(&page::spread_legend(&head.legend));
        }
        html.push_str("<div class=\"grid\">");
        for one in &drawn {
            let _ = write!(
                html,
                "<figure><figcaption>{}</figcaption>{}</figure>",
                page::escape(&one.caption),
                one.svg
            );
        }
        html.push_str("</div></section>\n");
        pictures.extend(drawn.iter().map(|one| page::picture(&one.caption, &head.legend, &one.svg)));
    }
    (html, pictures)
}

impl Table<'_> {
    fn axis(&self, name: &str) -> usize {
        self.axes
            .iter()
            .position(|axis| axis.name == name)
            .unwrap_or_else(|| panic!("there is no axis {name}"))
    }

    /// The labels on an axis among these combinations: by their numbers, or in order of first sight.
    fn labels(&self, selected: &[usize], axis: usize) -> Vec<String> {
        let mut labels: Vec<String> = Vec::new();
        for index in selected {
            let label = &self.combinations[*index].labels[axis];
            if !labels.contains(label) {
                labels.push(label.clone());
            }
        }
        let numbers: Option<Vec<f64>> = labels.iter().map(|label| leading_number(label)).collect();
        if numbers.is_some_and(|numbers| are_apart(&numbers)) {
            let number = |label: &String| leading_number(label).unwrap_or_default();
            labels.sort_by(|a, b| number(a).total_cmp(&number(b)));
        }
        labels
    }

    /// The combinations of labels on some axes, each with what it is called and those that have it.
    fn groups(&self, selected: &[usize], axes: &[String]) -> Vec<(String, Vec<usize>)> {
        let axes: Vec<usize> = axes.iter().map(|name| self.axis(name)).collect();
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for index in selected {
            let name = self.name(*index, axes.iter().copied());
            match groups.iter_mut().find(|(known, _)| *known == name) {
                Some((_, members)) => members.push(*index),
                None => groups.push((name, vec![*index])),
            }
        }
        groups
    }

    /// A measure, or what it is over another one, over the runs of a combination.
    fn spread(&self, index: usize, measure: &Measure, over: Option<&Measure>) -> Option<Spread> {
        let runs = self.runs[index].iter().flatten();
        Spread::of(
            &runs
                .filter_map(|run| run.scaled(&measure.of, &measure.measure, measure.scale, over))
                .collect::<Vec<_>>(),
        )
    }

    /// The score of a measure over the runs of a combination, against the same runs of the one with other labels.
    fn score(&self, index: usize, measure: &Measure, labels: &BTreeMap<String, String>) -> Option<Spread> {
        let own = &self.combinations[index];
        let mut wanted = own.labels.clone();
        for (name, label) in labels {
            wanted[self.axis(name)].clone_from(label);
        }
        let is_it = |one: &Combination| one.labels == wanted && one.grid == own.grid;
        let baseline = self.combinations.iter().position(is_it)?;
        let number = |run: &Option<&Extract>| run.as_ref()?.number(&measure.of, &measure.measure);
        let pairs = self.runs[baseline].iter().zip(&self.runs[index]);
        let scores: Vec<f64> =
            pairs.filter_map(|(baseline, own)| Some(fct_score(number(baseline)?, number(own)?))).collect();
        Spread::of(&scores)
    }

    /// The delays of a flow or a workload, of all runs of some combinations.
    fn delays(&self, selected: &[usize], of: &str) -> Histogram {
        let mut all = Histogram::new();
        let runs = selected.iter().flat_map(|index| self.runs[*index].iter().flatten());
        runs.flat_map(|run| &run.delays).filter(|(name, _)| name == of).for_each(|(_, one)| all.merge(one));
        all
    }
}

fn title_of(title: &str, panel: &str) -> String {
    if panel.is_empty() { title.to_owned() } else { format!("{title}: {panel}") }
}

#[allow(clippy::too_many_arguments, reason = "the keys of a chart")]
fn lines_chart<'a>(
    table: &Table,
    title: &'a str,
    across: &str,
    lines: &[String],
    panels: &[String],
    cells: &Where,
    of: &[Measure],
    score_over: &BTreeMap<String, String>,
    y: &str,
) -> (Head<'a>, Vec<Drawn>) {
    let selected = table.select(None, cells);
    let across_axis = table.axis(across);
    let places = table.labels(&selected, across_axis);
    let numbers: Option<Vec<f64>> = places.iter().map(|label| leading_number(label)).collect();
    let positions = match numbers {
        Some(numbers) if places.len() > 1 && are_apart(&numbers) => {
            let unit = common_unit(&places).map(|unit| format!(" ({unit})")).unwrap_or_default();
            Positions::Scale(numbers, format!("{across}{unit}"))
        }
        _ => Positions::Names(places.clone()),
    };
    let mut names: Vec<String> = Vec::new();
    let mut drawn = Vec::new();
    let mut most = 0.0_f64;
    let mut made = Vec::new();
    for (panel, members) in table.groups(&selected, panels) {
        let mut all = Vec::new();
        for (line, members) in table.groups(&members, lines) {
            for measure in of {
                let name = match (line.is_empty(), of.len() > 1) {
                    (false, false) => line.clone(),
                    (true, _) => measure.of.clone(),
                    (false, true) => format!("{line}: {}", measure.of),
                };
                let point = |index: &usize| {
                    let position = places
                        .iter()
                        .position(|label| *label == table.combinations[*index].labels[across_axis])?;
                    let spread = match score_over.is_empty() {
                        true => table.spread(*index, measure, None)?,
                        false => table.score(*index, measure, score_over)?,
                    };
                    Some(SpreadPoint::of_runs(position, spread.mean, spread.ci95, spread.runs))
                };
                let points: Vec<SpreadPoint> = members.iter().filter_map(point).collect();
                if points.is_empty() {
                    // A class that this variant does not have.
                    continue;
                }
                // An axis ends where a measure does, also if an interval goes further.
                let limit = if score_over.is_empty() { measure.limit() } else { f64::INFINITY };
                most = points.iter().map(|point| point.top().min(limit)).fold(most, f64::max);
                if !names.contains(&name) {
                    names.push(name.clone());
                }
                all.push(SpreadLine { name, points });
            }
        }
        made.push((panel, all));
    }
    for (panel, mut all) in made {
        // Lines have their colours by the legend's order.
        all.sort_by_key(|line| names.iter().position(|name| *name == line.name));
        let caption = title_of(title, &panel);
        let svg = page::spread_chart(&caption, &positions, y, most, &all);
        drawn.push(Drawn { caption, svg });
    }
    names.truncate(MOST_LINES);
    let note = "Dot: mean over the runs; bar: 95 % confidence. Hover a dot for its numbers.".to_owned();
    (Head { title, note, legend: if names.len() > 1 { names } else { Vec::new() } }, drawn)
}

/// Whether no two are equal, as those of "5/10" and "5/20" are.
fn are_apart(numbers: &[f64]) -> bool {
    numbers.iter().enumerate().all(|(index, number)| !numbers[..index].contains(number))
}

/// The number that a label begins with.
fn leading_number(label: &str) -> Option<f64> {
    label[..number_end(label)].parse().ok()
}

/// The word that follows the number in every label.
fn common_unit(labels: &[String]) -> Option<&str> {
    let mut units = labels.iter().map(|label| label[number_end(label)..].strip_prefix(' '));
    let first = units.next()??;
    units.all(|unit| unit == Some(first)).then_some(first)
}

fn number_end(label: &str) -> usize {
    label.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(label.len())
}

fn matrix<'a>(table: &Table, chart: &'a Chart) -> (Head<'a>, Vec<Drawn>) {
    let Chart::Matrix { title, rows, columns, panels, cells, of, over, from, to, logarithmic, decimals } =
        chart
    else {
        unreachable!("it is a matrix")
    };
    let selected = table.select(None, cells);
    let (row_axis, column_axis) = (table.axis(rows), table.axis(columns));
    let value = |index: usize| table.spread(index, of, over.as_ref());
    // What the matrix is about may not exist on a whole row: the rate of a class without flows.
    let is_there = |index: &usize| value(*index).is_some();
    let there: Vec<usize> = selected.iter().copied().filter(is_there).collect();
    let (row_names, column_names) = (table.labels(&there, row_axis), table.labels(&there, column_axis));
    let mut drawn = Vec::new();
    for (panel, members) in table.groups(&selected, panels) {
        let cell = |row: &String, column: &String| {
            let is_it = |index: &&usize| {
                let labels = &table.combinations[**index].labels;
                labels[row_axis] == *row && labels[column_axis] == *column
            };
            let spread = value(*members.iter().find(is_it)?)?;
            let title = format!(
                "{rows} {row}, {columns} {column}: {:.4} \u{b1} {:.4} over {} runs",
                spread.mean, spread.ci95, spread.runs
            );
            Some((spread.mean, title))
        };
        let caption = title_of(title, &panel);
        let matrix = Matrix {
            title: caption.clone(),
            rows: (rows, &row_names),
            columns: (columns, &column_names),
            cells: row_names
                .iter()
                .map(|row| column_names.iter().map(|column| cell(row, column)).collect())
                .collect(),
            range: (*from, *to),
            logarithmic: *logarithmic,
            decimals: *decimals,
        };
        drawn.push(Drawn { caption, svg: matrix.svg() });
    }
    let note = format!("Means over the runs, coloured from {from} to {to}. Hover a cell for its confidence.");
    (Head { title, note, legend: Vec::new() }, drawn)
}

fn delay<'a>(
    table: &Table,
    title: &'a str,
    lines: &[String],
    panels: &[String],
    cells: &Where,
    of: &[String],
) -> (Head<'a>, Vec<Drawn>) {
    let selected = table.select(None, cells);
    let mut names: Vec<String> = Vec::new();
    let mut made = Vec::new();
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for (panel, members) in table.groups(&selected, panels) {
        let mut all = Vec::new();
        for (line, members) in table.groups(&members, lines) {
            for whose in of {
                let histogram = table.delays(&members, whose);
                let name = if line.is_empty() { whose.clone() } else { format!("{line}: {whose}") };
                let ms = |at| histogram.quantile(at).map(|ns| ns as f64 / 1e6);
                low = ms(0.01).into_iter().fold(low, f64::min);
                high = ms(1.0).into_iter().fold(high, f64::max);
                if !names.contains(&name) {
                    names.push(name.clone());
                }
                all.push((name, histogram));
            }
        }
        made.push((panel, all));
    }
    let empty = Histogram::new();
    let drawn = made.iter().map(|(panel, all)| {
        let of_name =
            |name: &String| all.iter().find(|(known, _)| known == name).map_or(&empty, |(_, one)| one);
        let lines: Vec<(String, &Histogram)> =
            names.iter().map(|name| (name.clone(), of_name(name))).collect();
        let caption = title_of(title, panel);
        let svg = page::distributions(&caption, (low.clamp(0.01, high.max(0.01)), high), &lines);
        Drawn { caption, svg }
    });
    let drawn: Vec<Drawn> = if high > 0.0 { drawn.collect() } else { Vec::new() };
    let note = "The share of packets that waited at most so long, all runs together.".to_owned();
    (Head { title, note, legend: names }, drawn)
}

fn completion<'a>(
    table: &Table,
    title: &'a str,
    panels: &[String],
    cells: &Where,
    of: &[String],
) -> (Head<'a>, Vec<Drawn>) {
    let selected = table.select(None, cells);
    let mut drawn = Vec::new();
    for (panel, members) in table.groups(&selected, panels) {
        let Some(first) = members.first() else { continue };
        let bottleneck = &table.combinations[*first].scenario.bottleneck;
        let ideal = |bytes: f64| {
            let packet = f64::from(FULL_PACKET);
            // Headers of Ethernet, IP and TCP with time stamps, in every full packet.
            let wire = bytes * packet / (packet - 66.0);
            2.0 * bottleneck.rtt.as_secs_f64() + wire * 8.0 / bottleneck.rate.bits_per_sec() as f64
        };
        let points = |whose: &String| {
            let runs = members.iter().filter_map(|index| table.runs[*index].first().copied().flatten());
            let lists = runs.flat_map(|run| &run.requests).filter(|(name, _)| name == whose);
            lists.flat_map(|(_, list)| list.iter().copied()).collect::<Vec<_>>()
        };
        let points: Vec<(String, Vec<(u64, f64)>)> =
            of.iter().map(|whose| (whose.clone(), points(whose))).collect();
        if points.iter().all(|(_, list)| list.is_empty()) {
            continue;
        }
        let lists: Vec<_> = points.iter().map(|(name, list)| (name.clone(), list.as_slice())).collect();
        let caption = title_of(title, &panel);
        drawn.push(Drawn { svg: page::completions(&caption, &lists, ideal), caption });
    }
    let note = "A dot per request of the first run, at most 400 of each workload and cell. Line: what an empty link takes \
                after a handshake, two round trips and the bytes."
        .to_owned();
    (Head { title, note, legend: of.to_vec() }, drawn)
}

#[cfg(test)]
mod tests {
    use super::common_unit;

    #[test]
    fn a_unit_that_all_labels_have_is_that_of_the_axis() {
        let unit = |labels: &[&str]| {
            let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
            common_unit(&labels).map(str::to_owned)
        };
        assert_eq!(unit(&["50 Mbit/s", "0.5 Mbit/s"]).as_deref(), Some("Mbit/s"));
        for labels in [&["0.05", "1"][..], &["5/10", "5/20"], &["1 in L", "2 in C"], &[]] {
            assert_eq!(unit(labels), None);
        }
    }
}
