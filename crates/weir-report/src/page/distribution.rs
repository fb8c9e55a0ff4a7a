//! Distributions of several things in one chart, and times to completion over sizes.

use weir_core::Histogram;

use super::charts::plot;
use super::palette;
use super::plot::{Axis, Mark, Overlay};
use super::text::{number, percent};

/// Places at which a chart tells its numbers when they are hovered.
const HOVERS: usize = 60;

/// The share of packets that waited at most so long, a line for each histogram of nanoseconds. `limits` are the ends of
/// the x axis in milliseconds, so that charts side by side can share theirs. Returns an `<svg>`; the legend is
/// [`spread_legend`](super::spread_legend) of the same names.
pub fn distributions(title: &str, limits: (f64, f64), lines: &[(String, &Histogram)]) -> String {
    let x = Axis::logarithmic(limits.0.max(1e-3), limits.1, "queue delay, ms");
    let (low, high) = x.limits();
    let mut marks = Vec::new();
    for (index, (_, histogram)) in lines.iter().enumerate().filter(|(_, (_, one))| one.count() > 0) {
        let total = histogram.count() as f64;
        let mut seen = 0;
        let steps = histogram.buckets().map(|(upper, count)| {
            seen += count;
            ((upper as f64 / 1e6).max(low), seen as f64 / total * 100.0)
        });
        let run: Vec<_> = std::iter::once((low, 0.0)).chain(steps).chain([(high, 100.0)]).collect();
        marks.push(Mark::Line { colour: palette::line(index), width: 2.0, runs: vec![run] });
    }
    let step = |index: usize| low * (high / low).powf(index as f64 / HOVERS as f64);
    let hover = |index: usize| {
        let (from, to) = (step(index), step(index + 1));
        let mut title = format!("at most {} ms", number(to));
        for (name, histogram) in lines.iter().filter(|(_, one)| one.count() > 0) {
            let within = histogram.buckets().take_while(|(upper, _)| *upper as f64 <= to * 1e6);
            let within: u64 = within.map(|(_, count)| count).sum();
            title.push_str(&format!(
                "\n{name}: {} of packets",
                percent(within as f64 / histogram.count() as f64)
            ));
        }
        Overlay::Hover { from, to, title }
    };
    let overlays = (0..HOVERS).map(hover).collect();
    plot(title.to_owned(), x, Axis::linear(0.0, 100.0, "packets, %"), marks, overlays).svg()
}

/// Dots of one colour: bytes and seconds.
pub type Completions<'a> = (String, &'a [(u64, f64)]);

/// Time to completion over size, both logarithmic, with a line for what would be ideal: `ideal` gives the seconds that
/// so many bytes take. Returns an `<svg>`; the legend is [`spread_legend`](super::spread_legend).
pub fn completions(title: &str, of: &[Completions<'_>], ideal: impl Fn(f64) -> f64) -> String {
    let all = || of.iter().flat_map(|(_, points)| points.iter());
    let (least, most) = all().fold((f64::INFINITY, 1.0_f64), |(least, most), (bytes, _)| {
        (least.min(*bytes as f64), most.max(*bytes as f64))
    });
    let (least, most) = (least.min(most).max(1.0), most);
    let longest = all().map(|(_, seconds)| *seconds).fold(ideal(most), f64::max);
    let shortest = all().map(|(_, seconds)| *seconds).fold(ideal(least), f64::min);
    let x = Axis::logarithmic(least, most, "bytes");
    let y = Axis::logarithmic(shortest * 1e3, longest * 1e3, "time to completion, ms");
    let (low, high) = x.limits();
    let line = (0..=HOVERS).map(|index| {
        let bytes = low * (high / low).powf(index as f64 / HOVERS as f64);
        (bytes, ideal(bytes) * 1e3)
    });
    let marks = vec![Mark::Line { colour: palette::INK, width: 1.5, runs: vec![line.collect()] }];
    let dots = of.iter().enumerate().flat_map(|(index, (name, points))| {
        points.iter().map(move |(bytes, seconds)| Overlay::Dot {
            colour: palette::line(index),
            x: *bytes as f64,
            y: seconds * 1e3,
            title: format!("{name}: {bytes} bytes in {} ms", number(seconds * 1e3)),
        })
    });
    plot(title.to_owned(), x, y, marks, dots.collect()).svg()
}

#[cfg(test)]
mod tests {
    use weir_core::Histogram;

    use super::{completions, distributions};

    #[test]
    fn lines_end_at_all_packets_and_tell_their_shares() {
        let mut histogram = Histogram::new();
        (1..=100).for_each(|ms| histogram.record(ms * 1_000_000));
        let svg = distributions(
            "t",
            (0.1, 200.0),
            &[("a <b>".to_owned(), &histogram), ("unseen".to_owned(), &Histogram::new())],
        );
        let all = format!("a &lt;b&gt;: {} of packets", super::percent(1.0));
        assert!(svg.contains(&all) && !svg.contains("unseen"), "{svg}");
    }

    #[test]
    fn every_request_is_a_dot_and_an_empty_link_a_line() {
        let points = [(1000, 0.01), (1_000_000, 0.5)];
        let svg = completions("t", &[("web".to_owned(), &points)], |bytes| 0.014 + bytes * 8.0 / 40e6);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains("web: 1000000 bytes in 500 ms"), "{svg}");
        assert!(completions("t", &[], |_| 0.01).starts_with("<svg"));
    }
}
