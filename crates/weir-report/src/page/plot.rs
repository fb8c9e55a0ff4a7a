//! Charts with two axes, as SVG: lines, bands, rules and dots, with titles that show on hovering.
//!
//! Axes, grid and shapes are drawn by plotters. It places everything on whole pixels and knows no hover titles, so
//! charts are drawn [`SCALE`] times too large and shown smaller, and dots, hover titles and texts below the axis are
//! laid over the finished drawing at places that plotters computed.

use std::fmt::Write;
use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::{
    Cartesian2d, ChartBuilder, ChartContext, Circle, DrawingAreaErrorKind, IntoDrawingArea, IntoFont,
    PathElement, Polygon, Ranged, SVGBackend,
};
use plotters::style::{Color, ShapeStyle};

use super::palette::{Colour, GRID, INK, MUTED};
use super::text::{escape, number};

/// Units of the drawing per unit of [`Plot::width`].
pub(super) const SCALE: u32 = 8;
/// Everything outside the plotting area: left (numbers and description), right, above.
const LEFT: u32 = 60;
const RIGHT: u32 = 14;
const TOP: u32 = 10;
/// Lines of text below: numbers and the description.
const BOTTOM: u32 = 43;
/// What is left below where nothing is written.
const GAP: u32 = 8;

/// An axis: what it covers and what is written along it.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    min: f64,
    max: f64,
    logarithmic: bool,
    ticks: Vec<f64>,
    description: String,
}

impl Axis {
    /// From `min` to at least `max`, in steps of 1, 2 or 5 times a power of ten.
    pub(super) fn linear(min: f64, max: f64, description: &str) -> Self {
        let span = if (max - min).is_finite() { (max - min).max(1e-9) } else { 1.0 };
        let max = min + span;
        let power = 10f64.powf((span / 5.0).log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| span / step <= 7.0);
        let step = step.unwrap_or(span);
        let first = (min / step).ceil() as i64;
        let ticks = (first..)
            .map(|index| index as f64 * step)
            .take_while(|tick| *tick <= max + step * 1e-6)
            .collect();
        Self { min, max, logarithmic: false, ticks, description: description.to_owned() }
    }

    /// Like [`Axis::linear`] from zero, ending on a tick.
    pub(super) fn from_zero(max: f64, description: &str) -> Self {
        let rough = Self::linear(0.0, max, description);
        let step = rough.ticks.get(1).copied().unwrap_or(rough.max);
        Self::linear(0.0, (rough.max / step - 1e-6).ceil() * step, description)
    }

    /// Logarithmic, from a 1, 2 or 5 below `min` to one above `max`.
    pub(super) fn logarithmic(min: f64, max: f64, description: &str) -> Self {
        let min = min.max(1e-6);
        let max = if max.is_finite() { max.max(min * 1.01) } else { min * 10.0 };
        let steps: Vec<f64> =
            (-7..10).flat_map(|power| [1.0, 2.0, 5.0].map(|factor| factor * 10f64.powi(power))).collect();
        let low = steps.iter().rposition(|step| *step <= min).unwrap_or(0);
        let high = steps.iter().position(|step| *step >= max).unwrap_or(steps.len() - 1);
        let decades_only = high - low > 8;
        let ticks = steps[low..=high].iter().copied();
        let is_decade = |tick: f64| (tick.log10() - tick.log10().round()).abs() < 1e-9;
        Self {
            min: steps[low],
            max: steps[high],
            logarithmic: true,
            ticks: ticks.filter(|tick| !decades_only || is_decade(*tick)).collect(),
            description: description.to_owned(),
        }
    }

    /// The same axis without numbers: its texts come from [`Overlay::Below`].
    pub(super) fn without_ticks(self) -> Self {
        Self { ticks: Vec::new(), ..self }
    }

    /// The same axis with nothing written along it.
    fn bare(self) -> Self {
        Self { description: String::new(), ..self.without_ticks() }
    }

    /// What it covers.
    pub(super) fn limits(&self) -> (f64, f64) {
        (self.min, self.max)
    }

    pub(super) fn ticks(&self) -> impl Iterator<Item = f64> {
        self.ticks.iter().copied()
    }

    /// A tick as it is written at the axis, with as many decimals as the steps need.
    pub(super) fn label(&self, tick: f64) -> String {
        if self.logarithmic {
            return if tick >= 0.999 { format!("{tick:.0}") } else { trim_zeros(number(tick)) };
        }
        let step = self.ticks.windows(2).map(|pair| pair[1] - pair[0]).next().unwrap_or(1.0);
        let decimals = (-(step.log10() + 1e-9).floor()).clamp(0.0, 6.0) as usize;
        format!("{tick:.decimals$}")
    }

    fn place(&self, value: f64) -> f64 {
        let inside = value.clamp(self.min, self.max);
        if self.logarithmic { inside.log10() } else { inside }
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let (low, high) = (self.place(self.min), self.place(self.max));
        let share = (self.place(*value) - low) / (high - low);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.min..self.max
    }
}

fn trim_zeros(text: String) -> String {
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Something drawn between the axes.
#[derive(Clone, Debug)]
pub(super) enum Mark {
    /// Lines through runs of points; a run of one point is a dot.
    Line { colour: Colour, width: f64, runs: Vec<Vec<(f64, f64)>> },
    /// The area between two lines: x, lower, upper.
    Band { colour: Colour, opacity: f64, runs: Vec<Vec<(f64, f64, f64)>> },
    /// A dashed level from one x to another.
    Rule { colour: Colour, from: f64, to: f64, y: f64 },
}

/// Something laid over the drawing.
#[derive(Clone, Debug)]
pub(super) enum Overlay {
    /// A title for a stretch of the x axis.
    Hover { from: f64, to: f64, title: String },
    /// A dot with a title.
    Dot { colour: Colour, x: f64, y: f64, title: String },
    /// A text beneath the axis, in line `line` from zero.
    Below { x: f64, line: u32, text: String, strong: bool },
}

/// A chart.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    /// What screen readers say.
    pub(super) title: String,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) marks: Vec<Mark>,
    pub(super) overlays: Vec<Overlay>,
}

type DrawError = Box<dyn std::error::Error + Send + Sync>;
type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Axis, Axis>>;

impl Plot {
    /// The chart as an `<svg>` element. What cannot be drawn becomes a paragraph that says so.
    pub(super) fn svg(&self) -> String {
        match self.content() {
            Ok(content) => element(&self.title, self.width, self.height, &content),
            Err(error) => not_drawn(&error),
        }
    }

    /// What is inside the element: drawing and overlays.
    fn content(&self) -> Result<String, DrawError> {
        let mut drawing = String::new();
        let overlay = self.draw(&mut drawing)?;
        // The drawing's own <svg> tag has a fixed size; ours scales with the page.
        let body = drawing.find("<svg").and_then(|at| drawing[at..].find('>').map(|end| at + end + 1));
        let body = body.map_or("", |start| drawing[start..].trim_end().trim_end_matches("</svg>"));
        Ok(format!("{body}{overlay}"))
    }

    /// How much is left for texts below.
    fn bottom(&self) -> u32 {
        let has_texts = self.overlays.iter().any(|overlay| matches!(overlay, Overlay::Below { .. }));
        let has_axis = !(self.x.ticks.is_empty() && self.x.description.is_empty());
        if has_texts || has_axis { BOTTOM } else { GAP }
    }

    fn draw(&self, out: &mut String) -> Result<String, DrawError> {
        let root =
            SVGBackend::with_string(out, (self.width * SCALE, self.height * SCALE)).into_drawing_area();
        let mut chart: Chart<'_> = ChartBuilder::on(&root)
            .margin_top(TOP * SCALE)
            .margin_right(RIGHT * SCALE)
            .x_label_area_size(self.bottom() * SCALE)
            .y_label_area_size(LEFT * SCALE)
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        let text = |size: f64, colour: Colour| {
            ("sans-serif", size * f64::from(SCALE) * 1.24).into_font().color(&colour.rgb())
        };
        let thin = ShapeStyle::from(GRID.rgb()).stroke_width(SCALE);
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(thin)
            .light_line_style(thin)
            .axis_style(ShapeStyle::from(MUTED.rgb()).stroke_width(SCALE))
            .set_all_tick_mark_size(4 * SCALE)
            .x_label_formatter(&|tick| self.x.label(*tick))
            .y_label_formatter(&|tick| self.y.label(*tick))
            .label_style(text(14.0, INK))
            .axis_desc_style(text(14.0, MUTED))
            .x_desc(&self.x.description)
            .y_desc(&self.y.description)
            .draw()?;
        for mark in &self.marks {
            self.draw_mark(&mut chart, mark)?;
        }
        let overlay = self.overlay(&chart);
        root.present()?;
        Ok(overlay)
    }

    fn draw_mark(
        &self,
        chart: &mut Chart<'_>,
        mark: &Mark,
    ) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        match mark {
            Mark::Line { colour, width, runs } => {
                let pixels = (width * f64::from(SCALE)).round() as u32;
                let style = ShapeStyle::from(colour.rgb()).stroke_width(pixels);
                chart.draw_series(
                    runs.iter().filter(|run| run.len() > 1).map(|run| PathElement::new(run.clone(), style)),
                )?;
                let lone = runs.iter().filter(|run| run.len() == 1);
                chart.draw_series(lone.map(|run| Circle::new(run[0], pixels, style.filled())))?;
            }
            Mark::Band { colour, opacity, runs } => {
                let style = colour.rgb().mix(*opacity).filled();
                chart.draw_series(runs.iter().filter(|run| run.len() > 1).map(|run| {
                    let upper = run.iter().map(|(x, _, high)| (*x, *high));
                    let lower = run.iter().rev().map(|(x, low, _)| (*x, *low));
                    Polygon::new(upper.chain(lower).collect::<Vec<_>>(), style)
                }))?;
            }
            Mark::Rule { colour, from, to, y } => {
                let style = ShapeStyle::from(colour.rgb()).stroke_width(SCALE * 3 / 2);
                let (range, dashes) = (self.x.max - self.x.min, 60.0);
                let first = (from - self.x.min) / range * dashes;
                let last = (to - self.x.min) / range * dashes;
                let dash = |index: i64| {
                    let edge = |at: f64| self.x.min + at.clamp(first, last) / dashes * range;
                    PathElement::new(vec![(edge(index as f64), *y), (edge(index as f64 + 0.6), *y)], style)
                };
                chart.draw_series((first.floor() as i64..last.ceil() as i64).map(dash))?;
            }
        }
        Ok(())
    }

    fn overlay(&self, chart: &Chart<'_>) -> String {
        let area = chart.plotting_area();
        let at = |x: f64, y: f64| area.map_coordinate(&(x, y));
        let (top, bottom) = (at(self.x.min, self.y.max).1, at(self.x.min, self.y.min).1);
        let scale = SCALE as i32;
        let mut svg = String::new();
        for overlay in &self.overlays {
            // Writing to a string cannot fail.
            let _ = match overlay {
                Overlay::Hover { from, to, title } => {
                    let (left, right) = (at(*from, self.y.min).0, at(*to, self.y.min).0);
                    write!(
                        svg,
                        "<rect class=\"hover\" x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\" fill=\"{}\" \
                         fill-opacity=\"0\"><title>{}</title></rect>",
                        (right - left).max(1),
                        bottom - top,
                        INK.hex(),
                        escape(title)
                    )
                }
                Overlay::Dot { colour, x, y, title } => {
                    let (x, y) = at(*x, *y);
                    write!(
                        svg,
                        "<circle cx=\"{x}\" cy=\"{y}\" r=\"{}\" fill=\"{}\" fill-opacity=\"0.75\"><title>{}</title></circle>",
                        scale * 7 / 2,
                        colour.hex(),
                        escape(title)
                    )
                }
                Overlay::Below { x, line, text, strong } => write!(
                    svg,
                    "<text x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"middle\" fill=\"{}\"{}>{}</text>",
                    at(*x, self.y.min).0,
                    bottom + scale * (16 + 15 * *line as i32),
                    scale * 12,
                    INK.hex(),
                    if *strong { " font-weight=\"bold\"" } else { "" },
                    escape(text)
                ),
            };
        }
        svg
    }
}

/// Charts of one width above each other, as one `<svg>` element. They share the x axis, which is that of the last.
pub(super) fn stacked(title: &str, mut plots: Vec<Plot>) -> String {
    let Some((last, above)) = plots.split_last_mut() else { return String::new() };
    for plot in above {
        plot.x = last.x.clone().bare();
        plot.height -= BOTTOM - GAP;
    }
    let (width, mut height, mut content) = (last.width, 0, String::new());
    for plot in &plots {
        match plot.content() {
            // Writing to a string cannot fail.
            Ok(inner) => {
                let _ = write!(content, "<g transform=\"translate(0 {})\">{inner}</g>", height * SCALE);
            }
            Err(error) => return not_drawn(&error),
        }
        height += plot.height;
    }
    element(title, width, height, &content)
}

fn element(title: &str, width: u32, height: u32, content: &str) -> String {
    format!(
        "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" \
         aria-label=\"{}\" font-family=\"sans-serif\">{content}</svg>",
        width * SCALE,
        height * SCALE,
        escape(title)
    )
}

fn not_drawn(error: &DrawError) -> String {
    format!("<p>This chart could not be drawn: {}</p>", escape(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::{Axis, INK, Mark, Overlay, Plot, stacked};

    #[test]
    fn axes_have_round_numbers_that_cover_the_data() {
        let axis = Axis::from_zero(93.0, "");
        assert_eq!(axis.limits(), (0.0, 100.0));
        assert_eq!(axis.ticks, [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        let axis = Axis::linear(0.0, 12.3, "");
        assert_eq!((axis.limits(), axis.ticks.last()), ((0.0, 12.3), Some(&12.0)));
        let axis = Axis::logarithmic(0.13, 47.0, "");
        assert_eq!(axis.limits(), (0.1, 50.0));
        assert_eq!(axis.ticks.iter().map(|tick| axis.label(*tick)).next_back().unwrap(), "50");
        assert_eq!(Axis::from_zero(0.3, "").label(0.1), "0.10");
    }

    #[test]
    fn empty_and_odd_data_still_make_a_chart() {
        for (low, high) in [(0.0, 0.0), (f64::NAN, f64::NAN), (1.0, f64::INFINITY)] {
            let plot = Plot {
                title: "a \"title\"".to_owned(),
                width: 300,
                height: 200,
                x: Axis::linear(0.0, 0.0, "x"),
                y: Axis::logarithmic(0.0, 0.0, "y"),
                marks: vec![Mark::Line { colour: INK, width: 1.0, runs: vec![vec![], vec![(low, high)]] }],
                overlays: vec![Overlay::Hover { from: low, to: high, title: "<".to_owned() }],
            };
            let svg = plot.svg();
            assert!(
                svg.starts_with("<svg") && svg.ends_with("</svg>") && svg.contains("<title>&lt;"),
                "{svg}"
            );
        }
    }
    #[test]
    fn charts_above_each_other_share_the_last_ones_axis() {
        let plot = |y: &str| Plot {
            title: String::new(),
            width: 300,
            height: 200,
            x: Axis::linear(0.0, 30.0, "time, s"),
            y: Axis::linear(0.0, 1.0, y),
            marks: Vec::new(),
            overlays: Vec::new(),
        };
        let svg = stacked("both", vec![plot("rate"), plot("delay")]);
        assert_eq!((svg.matches("<svg").count(), svg.matches("<g transform").count()), (1, 2));
        assert_eq!(svg.matches("time, s").count(), 1, "{svg}");
        assert!(svg.contains("rate") && svg.contains("delay"));
        // The upper one has no room for numbers below.
        assert!(svg.contains("viewBox=\"0 0 2400 2920\"") && svg.contains("translate(0 1320)"), "{svg}");
    }
}
