//! A matrix of numbers, coloured by their size.

use std::fmt::Write;

use super::palette::{INK, MUTED, RESPONSIVE};
use super::plot::SCALE;
use super::text::escape;

/// The least width of a cell and its height, the least room for the names of rows, that for the names of columns, and
/// that for the title along the rows.
const WIDTH: usize = 46;
const HEIGHT: usize = 24;
const SIDE: usize = 34;
const TOP: usize = 34;
const TITLE: usize = 22;

/// A matrix.
pub struct Matrix<'a> {
    /// What it is called by who cannot see it.
    pub title: String,
    /// What rows and columns are, each with the names of all.
    pub rows: (&'a str, &'a [String]),
    /// See `rows`.
    pub columns: (&'a str, &'a [String]),
    /// A number in each row and column, with what is told when it is hovered; none where there is no cell.
    pub cells: Vec<Vec<Option<(f64, String)>>>,
    /// From which number to which the colour goes from that of the ground to the full one.
    pub range: (f64, f64),
    /// Whether it does so by the logarithm.
    pub logarithmic: bool,
    /// Digits behind the point.
    pub decimals: usize,
}

/// The room that the longest of these names needs, `least` if they need less.
fn room(names: &[String], least: usize) -> usize {
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    least.max(longest * 13 / 2 + 8)
}

impl Matrix<'_> {
    /// How full the colour of a number is.
    fn shade(&self, value: f64) -> f64 {
        let place = |value: f64| if self.logarithmic { value.max(1e-9).ln() } else { value };
        let (from, to) = (place(self.range.0), place(self.range.1));
        if to > from { ((place(value) - from) / (to - from)).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// As an `<svg>` element, in the units of other charts. The first row is at the top.
    pub fn svg(&self) -> String {
        let (side, wide) = (room(self.rows.1, SIDE), room(self.columns.1, WIDTH));
        let (left, top) = (side + TITLE, TOP);
        let width = left + wide * self.columns.1.len() + 2;
        let height = top + HEIGHT * self.rows.1.len() + 2;
        let (ink, muted, full) = (INK.hex(), MUTED.hex(), RESPONSIVE.hex());
        let mut svg = format!(
            "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" \
             aria-label=\"{}\" font-family=\"sans-serif\" font-size=\"11\" text-anchor=\"middle\">\
             <g transform=\"scale({SCALE})\">",
            SCALE as usize * width,
            SCALE as usize * height,
            escape(&self.title)
        );
        // Writing to a string cannot fail.
        let mut text = |x: usize, y: usize, colour: &str, turn: &str, text: &str| {
            let _ = write!(svg, "<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\"{turn}>{}</text>", escape(text));
        };
        let (middle_x, middle_y) =
            (left + wide * self.columns.1.len() / 2, top + HEIGHT * self.rows.1.len() / 2);
        text(middle_x, 12, &muted, "", self.columns.0);
        let turn = format!(" transform=\"rotate(-90 12 {middle_y})\"");
        text(12, middle_y, &muted, &turn, self.rows.0);
        for (index, name) in self.columns.1.iter().enumerate() {
            text(left + wide * index + wide / 2, top - 6, &ink, "", name);
        }
        for (index, name) in self.rows.1.iter().enumerate() {
            text(TITLE + side / 2, top + HEIGHT * index + HEIGHT / 2 + 4, &ink, "", name);
        }
        for (row, cells) in self.cells.iter().enumerate() {
            for (column, cell) in cells.iter().enumerate() {
                let Some((value, title)) = cell else { continue };
                let (x, y) = (left + wide * column, top + HEIGHT * row);
                let _ = write!(
                    svg,
                    "<g><title>{}</title><rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"{full}\" \
                     fill-opacity=\"{:.2}\"/><text x=\"{}\" y=\"{}\" fill=\"{ink}\">{value:.*}</text></g>",
                    escape(title),
                    wide - 1,
                    HEIGHT - 1,
                    0.06 + 0.6 * self.shade(*value),
                    x + wide / 2,
                    y + HEIGHT / 2 + 4,
                    self.decimals
                );
            }
        }
        svg.push_str("</g></svg>");
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::Matrix;

    #[test]
    fn a_cell_that_is_not_there_is_left_out_and_colours_follow_the_numbers() {
        let names = ["0".to_owned(), "<1>".to_owned()];
        let cell = |value: f64| Some((value, format!("{value} & more")));
        let matrix = Matrix {
            title: "a".to_owned(),
            rows: ("r", &names),
            columns: ("c", &names),
            cells: vec![vec![None, cell(1.0)], vec![cell(10.0), cell(100.0)]],
            range: (1.0, 100.0),
            logarithmic: true,
            decimals: 1,
        };
        let svg = matrix.svg();
        assert_eq!(svg.matches("<rect").count(), 3);
        assert!(
            svg.contains(">10.0</text>") && svg.contains("&lt;1&gt;") && svg.contains("10 &amp; more"),
            "{svg}"
        );
        let shades = [1.0, 10.0, 100.0, 1e6].map(|value| matrix.shade(value));
        assert_eq!(shades.map(|shade| (shade * 10.0).round() as u32), [0, 5, 10, 10]);
        let matrix = Matrix { range: (1.0, 1.0), ..matrix };
        assert_eq!(matrix.shade(5.0), 0.0);
        let long = ["a name of 28 letters or more".to_owned(), "b".to_owned()];
        let wide = Matrix { rows: ("r", &long), columns: ("c", &long), ..matrix };
        assert!(svg.contains("viewBox=\"0 0 1200 672\"") && wide.svg().contains("viewBox=\"0 0 4752 672\""));
    }
}
