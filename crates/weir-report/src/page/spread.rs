//! Charts of means over repeated runs, or of shares: a dot for each with how sure it is, joined where the x axis is a
//! scale.

use std::fmt::Write;

use super::charts::WIDTH;
use super::palette::{self, Colour};
use super::plot::{Axis, Mark, Overlay, Plot};
use super::tables::swatch;
use super::text::{escape, shorten};

/// What stands along the x axis.
pub enum Positions {
    /// Numbers on a scale, described by a text.
    Scale(Vec<f64>, String),
    /// Names side by side.
    Names(Vec<String>),
}

/// A dot.
#[derive(Clone, Debug)]
pub struct SpreadPoint {
    position: usize,
    value: f64,
    bar: [f64; 2],
    words: String,
}

impl SpreadPoint {
    /// The mean of `runs` at its place among the positions, and how much to either side of it is marked, such as their
    /// standard deviation.
    pub fn of_runs(position: usize, mean: f64, deviation: f64, runs: usize) -> Self {
        let words = match runs {
            0 | 1 => format!("{mean:.3}"),
            _ => format!("{mean:.3} \u{b1} {deviation:.3} over {runs} runs"),
        };
        Self { position, value: mean, bar: [mean - deviation, mean + deviation], words }
    }

    /// A value at its place among the positions, the interval that it is known to be in, and both in words.
    pub const fn within(position: usize, value: f64, interval: [f64; 2], words: String) -> Self {
        Self { position, value, bar: interval, words }
    }

    /// How far up its bar goes.
    pub const fn top(&self) -> f64 {
        self.bar[1]
    }
}

/// Dots of one colour.
pub struct SpreadLine {
    /// What the legend calls it.
    pub name: String,
    /// Its dots, in order of position.
    pub points: Vec<SpreadPoint>,
}

/// How many lines a chart can have.
pub const MOST_LINES: usize = palette::NAMED_FLOWS;

/// A chart of `lines`, described as `y`, which begins at zero. `most` is what the y axis must at least reach, so that
/// charts side by side can share theirs.
pub fn spread_chart(title: &str, positions: &Positions, y: &str, most: f64, lines: &[SpreadLine]) -> String {
    let (mut marks, mut overlays) = (Vec::new(), Vec::new());
    let x = axis(positions, &mut overlays);
    for (index, line) in lines.iter().take(MOST_LINES).enumerate() {
        let colour = palette::line(index);
        // Beside each other where they share a name, on the scale where the place is a number.
        let aside = (index as f64 + 0.5) / lines.len().min(MOST_LINES) as f64 - 0.5;
        let at = |position: usize| match positions {
            Positions::Scale(places, _) => places[position],
            Positions::Names(_) => position as f64 + 0.5 + aside * 0.5,
        };
        if let Positions::Scale(..) = positions {
            let mut run: Vec<(f64, f64)> =
                line.points.iter().map(|point| (at(point.position), point.value)).collect();
            run.sort_by(|a, b| a.0.total_cmp(&b.0));
            marks.push(Mark::Line { colour, width: 2.0, runs: vec![run] });
        }
        for point in &line.points {
            let (x, low, high) = (at(point.position), bottom(point), point.top());
            if high > low {
                marks.push(Mark::Line { colour, width: 1.5, runs: vec![vec![(x, low), (x, high)]] });
            }
            overlays.push(dot(colour, x, line, point, positions));
        }
    }
    let plot = Plot {
        title: title.to_owned(),
        width: WIDTH,
        height: 270,
        x,
        y: match least(lines) {
            least if least < 0.0 => Axis::linear(least, most.max(1e-6), y),
            _ => Axis::from_zero(most.max(1e-6), y),
        },
        marks,
        overlays,
    };
    plot.svg()
}

/// Where the bar of a point ends below. What is not below zero has no part there.
fn bottom(point: &SpreadPoint) -> f64 {
    point.bar[0].max(point.value.min(0.0))
}

/// The lowest that is drawn.
fn least(lines: &[SpreadLine]) -> f64 {
    lines.iter().flat_map(|line| &line.points).map(bottom).fold(0.0, f64::min)
}

/// The x axis; names are written below it.
fn axis(positions: &Positions, overlays: &mut Vec<Overlay>) -> Axis {
    match positions {
        Positions::Scale(places, description) => {
            let min = places.iter().copied().fold(f64::INFINITY, f64::min);
            let max = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            // Over a decade or more, small values would all lie at the left.
            if min > 0.0 && max / min >= 8.0 {
                Axis::logarithmic(min, max, description)
            } else {
                Axis::linear(min.min(0.0), max, description)
            }
        }
        Positions::Names(names) => {
            // A name may be as wide as two places, as neighbours stand in different lines; 7 units for a letter.
            let letters = (2 * WIDTH as usize / names.len().max(1) / 7).max(4);
            for (index, name) in names.iter().enumerate() {
                let line = if names.len() > 3 { (index % 2) as u32 } else { 0 };
                let text = shorten(name, letters);
                overlays.push(Overlay::Below { x: index as f64 + 0.5, line, text, strong: false });
            }
            Axis::linear(0.0, names.len().max(1) as f64, "").without_ticks()
        }
    }
}

fn dot(colour: Colour, x: f64, line: &SpreadLine, point: &SpreadPoint, positions: &Positions) -> Overlay {
    let place = match positions {
        Positions::Scale(places, description) => format!("{description} {}", places[point.position]),
        Positions::Names(names) => names[point.position].clone(),
    };
    let name = if line.name.is_empty() { place } else { format!("{}, {place}", line.name) };
    Overlay::Dot { colour, x, y: point.value, title: format!("{name}: {}", point.words) }
}

/// Which colour is which line.
pub fn spread_legend(names: &[String]) -> String {
    let mut out = "<ul class=\"legend\">".to_owned();
    for (index, name) in names.iter().take(MOST_LINES).enumerate() {
        let _ = write!(out, "<li>{}{}</li>", swatch(palette::line(index)), escape(name));
    }
    out.push_str("</ul>");
    out
}

#[cfg(test)]
mod tests {
    use super::{Positions, SpreadLine, SpreadPoint, spread_chart, spread_legend};

    #[test]
    fn every_mean_is_a_dot_and_tells_its_spread() {
        let point = |position, mean, runs| SpreadPoint::of_runs(position, mean, 0.5, runs);
        let line = |name: &str| SpreadLine {
            name: name.to_owned(),
            points: vec![point(0, 3.0, 10), point(1, 4.0, 1)],
        };
        let names = Positions::Names(vec!["pie".to_owned(), "<codel>".to_owned()]);
        let chart = spread_chart("t", &names, "ms", 5.0, &[line("a"), line("b")]);
        assert_eq!(chart.matches("<circle").count(), 4);
        assert!(
            chart.contains("a, pie: 3.000 \u{b1} 0.500 over 10 runs") && !chart.contains("<codel>"),
            "{chart}"
        );
        let scale = Positions::Scale(vec![5.0, 160.0], "rtt (ms)".to_owned());
        let chart = spread_chart("t", &scale, "ms", 5.0, &[line("")]);
        assert!(chart.contains("rtt (ms) 160: 4.000<"), "{chart}");
        assert_eq!(spread_legend(&["x".to_owned()]).matches("<li>").count(), 1);
        let share = SpreadPoint::within(0, 98.0, [90.0, 99.0], "98 of 100".to_owned());
        let line = SpreadLine { name: "a".to_owned(), points: vec![share] };
        let chart = spread_chart("t", &names, "%", 100.0, &[line]);
        assert!(chart.contains("a, pie: 98 of 100<"), "{chart}");
    }
}
