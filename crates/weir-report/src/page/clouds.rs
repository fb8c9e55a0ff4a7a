//! Points of several systems in one plane, each system as its mean and an ellipse of one standard deviation.

use std::fmt::Write;

use super::palette::{self, Colour};
use super::plot::{Axis, Mark, Overlay, Plot};
use super::tables::swatch;
use super::text::{escape, number};

/// What is less is drawn here.
const LEAST: f64 = 0.01;

/// x and y.
pub type Point = (f64, f64);

/// A system's points.
#[derive(Clone, Debug, Default)]
pub struct Cloud {
    /// What the legend calls it.
    pub name: String,
    /// One per look at it.
    pub points: Vec<Point>,
}

/// Mean and one standard deviation of each cloud, as an `<svg>` with a legend, for [`page`](super::page). The x axis is
/// logarithmic, and so are means and deviations along it. Colours repeat after eight.
pub fn clouds(title: &str, x: &str, y: &str, clouds: &[Cloud]) -> String {
    let (mut marks, mut overlays, mut legend) = (Vec::new(), Vec::new(), String::new());
    let (mut low, mut high, mut top) = (f64::INFINITY, LEAST, 0.0_f64);
    for (index, cloud) in clouds.iter().enumerate() {
        let colour: Colour = palette::line(index);
        let _ = write!(legend, "<li>{}{}</li>", swatch(colour), escape(&cloud.name));
        let points: Vec<Point> = cloud.points.iter().map(|(x, y)| (x.max(LEAST).log10(), *y)).collect();
        let Some((mean, outline)) = ellipse(&points) else { continue };
        let line = |(x, y): (f64, f64)| (10f64.powf(x), y.max(0.0));
        let (mean, outline): (Point, Vec<Point>) = (line(mean), outline.into_iter().map(line).collect());
        for (x, y) in &outline {
            (low, high, top) = (low.min(*x), high.max(*x), top.max(*y));
        }
        let title = format!("{}: {}, {}", cloud.name, number(mean.0), number(mean.1));
        overlays.push(Overlay::Dot { colour, x: mean.0, y: mean.1, title });
        marks.push(Mark::Line { colour, width: 2.0, runs: vec![outline] });
    }
    let plot = Plot {
        title: title.to_owned(),
        width: super::charts::WIDTH,
        height: 270,
        x: Axis::logarithmic(low.min(high), high, x),
        y: Axis::from_zero(top * 1.02, y),
        marks,
        overlays,
    };
    format!("<figure class=\"narrow\"><ul class=\"legend\">{legend}</ul>{}</figure>", plot.svg())
}

/// The mean of points and the ellipse whose axes are those of their covariance, one standard deviation long.
fn ellipse(points: &[Point]) -> Option<(Point, Vec<Point>)> {
    let count = points.len() as f64;
    if points.is_empty() {
        return None;
    }
    let sum = |part: &dyn Fn(&Point) -> f64| points.iter().map(part).sum::<f64>() / count;
    let mean = (sum(&|point| point.0), sum(&|point| point.1));
    let xx = sum(&|point| (point.0 - mean.0).powi(2));
    let yy = sum(&|point| (point.1 - mean.1).powi(2));
    let xy = sum(&|point| (point.0 - mean.0) * (point.1 - mean.1));
    let (middle, spread) = ((xx + yy) / 2.0, (((xx - yy) / 2.0).powi(2) + xy * xy).sqrt());
    let (long, short) = ((middle + spread).max(0.0).sqrt(), (middle - spread).max(0.0).sqrt());
    let turn = (2.0 * xy).atan2(xx - yy) / 2.0;
    let outline = (0..=72).map(|step| {
        let angle = f64::from(step) * std::f64::consts::TAU / 72.0;
        let (a, b) = (long * angle.cos(), short * angle.sin());
        (mean.0 + a * turn.cos() - b * turn.sin(), mean.1 + a * turn.sin() + b * turn.cos())
    });
    Some((mean, outline.collect()))
}

#[cfg(test)]
mod tests {
    use super::{Cloud, clouds, ellipse};

    #[test]
    fn an_ellipse_is_as_long_as_its_points_spread() {
        // Along a line: one axis is the standard deviation, the other nothing.
        let ((x, y), outline) = ellipse(&[(10.0, 20.0), (14.0, 24.0)]).unwrap();
        assert_eq!((x, y), (12.0, 22.0));
        let far = outline.iter().map(|(x, y)| (x - 12.0).hypot(y - 22.0)).fold(0.0, f64::max);
        assert!((far - 8f64.sqrt()).abs() < 1e-9, "{far}");
        assert!(outline.iter().all(|(x, y)| ((x - 12.0) - (y - 22.0)).abs() < 1e-9));
        assert!(ellipse(&[]).is_none());
    }

    #[test]
    fn every_cloud_is_in_the_legend_and_names_are_escaped() {
        let cloud = |name: &str| Cloud { name: name.to_owned(), points: vec![(1.0, 2.0), (2.0, 1.0)] };
        let html = clouds("t", "x", "y", &[cloud("<a>"), cloud("b"), Cloud::default()]);
        assert_eq!((html.matches("<circle").count(), html.matches("<li>").count()), (2, 3));
        assert!(html.contains("&lt;a&gt;") && !html.contains("<a>"));
    }
}
