//! Flows over time: throughput and, beneath it on the same time axis, the round trip that their senders measure.

use std::fmt::Write;

use crate::result::{RunResult, Series};

use super::charts::{Frame, HOVERS, LINE_POINTS, gather, plot, runs};
use super::flow_legend;
use super::palette::FlowColours;
use super::plot::{Axis, Mark, Overlay, Plot, stacked};
use super::text::{escape, ms, number};

/// A chart for each run, with the flows that it has; labels stand above them. All share their axes. Returns HTML for
/// [`page`](super::page), empty if there are no runs.
pub fn over_time(results: &[(&str, &RunResult)]) -> String {
    if results.is_empty() {
        return String::new();
    }
    let frame = Frame::new(results);
    let colours = FlowColours::new(results);
    let samples = results.iter().flat_map(|(_, result)| result.series.rtt.iter().flatten());
    let longest = samples.fold(0.0, |longest, (_, rtt)| f64::max(longest, *rtt));
    let axis = Axis::from_zero(longest, "round trip, ms");
    let mut out = format!(
        "<section><h2>Throughput and round trip over time</h2><p class=\"note\">Above: wire bytes as they leave the \
         bottleneck; dashed, the rate of the link. Below: the sender's smoothed round trip; band: least to most.</p>\
         <ul class=\"legend\">{}</ul><div class=\"grid\">",
        flow_legend(results, &colours)
    );
    // A chart alone need not be as wide as the page.
    let class = if results.len() == 1 { " class=\"narrow\"" } else { "" };
    for (label, result) in results {
        let above = frame.throughput(label, result, &colours);
        let below = round_trips(label, result, &colours, (frame.time(), axis.clone()));
        let chart = stacked(&format!("Throughput and round trip over time, {label}"), vec![above, below]);
        // Writing to a string cannot fail.
        let _ = write!(out, "<figure{class}><figcaption>{}</figcaption>{chart}</figure>", escape(label));
    }
    out.push_str("</div></section>\n");
    out
}

/// The samples of a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    from_s: f64,
    to_s: f64,
    least_ms: f64,
    mean_ms: f64,
    most_ms: f64,
}

/// The samples of each stretch, of which there are at most `points` and which are whole bins; none where there is none.
fn stretches(samples: &[(f64, f64)], series: &Series, points: usize) -> Vec<Option<Stretch>> {
    let size = gather(series.bins(), points);
    let mut rest = samples;
    let stretch = |index: usize| {
        let (from_s, to_s) = (series.begin_s(index), series.begin_s((index + size).min(series.bins())));
        let (here, later) = rest.split_at(rest.partition_point(|(at, _)| *at < to_s));
        rest = later;
        let least_ms = here.iter().map(|(_, rtt)| *rtt).reduce(f64::min)?;
        let most_ms = here.iter().map(|(_, rtt)| *rtt).reduce(f64::max)?;
        let mean_ms = here.iter().map(|(_, rtt)| rtt).sum::<f64>() / here.len() as f64;
        Some(Stretch { from_s, to_s, least_ms, mean_ms, most_ms })
    };
    (0..series.bins()).step_by(size).map(stretch).collect()
}

/// The round trips of the run's flows that have a colour.
fn round_trips(label: &str, result: &RunResult, colours: &FlowColours, (time, axis): (Axis, Axis)) -> Plot {
    let (mut bands, mut lines, mut titles) = (Vec::new(), Vec::new(), Vec::<(f64, f64, String)>::new());
    for (flow, samples) in result.flows.iter().zip(&result.series.rtt) {
        let Some(colour) = colours.named(&flow.name) else { continue };
        let fine = stretches(samples, &result.series, LINE_POINTS);
        let middle = |stretch: &Stretch| (stretch.from_s + stretch.to_s) / 2.0;
        let band = runs(&fine, |at| at.as_ref().map(|at| (middle(at), at.least_ms, at.most_ms)));
        let line = runs(&fine, |at| at.as_ref().map(|at| (middle(at), at.mean_ms)));
        bands.push(Mark::Band { colour, opacity: 0.22, runs: band });
        lines.push(Mark::Line { colour, width: 1.75, runs: line });
        for stretch in stretches(samples, &result.series, HOVERS).into_iter().flatten() {
            let text = format!(
                "\n{}: mean {}, {} to {}",
                flow.name,
                ms(Some(stretch.mean_ms)),
                number(stretch.least_ms),
                ms(Some(stretch.most_ms))
            );
            match titles.iter_mut().find(|(from, _, _)| *from == stretch.from_s) {
                Some((_, _, title)) => title.push_str(&text),
                None => {
                    let span = format!("{} to {} s", number(stretch.from_s), number(stretch.to_s));
                    titles.push((stretch.from_s, stretch.to_s, span + &text));
                }
            }
        }
    }
    bands.append(&mut lines);
    let overlays = titles.into_iter().map(|(from, to, title)| Overlay::Hover { from, to, title }).collect();
    plot(format!("Round trip over time, {label}"), time, axis, bands, overlays)
}

#[cfg(test)]
mod tests {
    use super::{Stretch, stretches};
    use crate::result::Series;

    #[test]
    fn every_sample_is_in_one_stretch() {
        let series = Series { interval_s: 0.5, end_s: 2.0, ..Series::default() };
        let samples = [(0.1, 10.0), (0.6, 30.0), (0.9, 20.0), (1.9, 5.0)];
        let of = |from_s, to_s, [least_ms, mean_ms, most_ms]: [f64; 3]| {
            Some(Stretch { from_s, to_s, least_ms, mean_ms, most_ms })
        };
        assert_eq!(
            stretches(&samples, &series, 4),
            [of(0.0, 0.5, [10.0; 3]), of(0.5, 1.0, [20.0, 25.0, 30.0]), None, of(1.5, 2.0, [5.0; 3])]
        );
        assert_eq!(
            stretches(&samples, &series, 2),
            [of(0.0, 1.0, [10.0, 20.0, 30.0]), of(1.0, 2.0, [5.0; 3])]
        );
        assert_eq!(stretches(&[], &series, 4), [None; 4]);
    }
}
