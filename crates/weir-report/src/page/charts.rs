//! The charts of a run: queue delay and throughput over time, and how the delay is distributed.
//!
//! Bins are gathered before drawing, never skipped, so that a mean stays the mean of all packets and a maximum stays
//! the maximum however long the run was.

use crate::result::{FlowBin, QueueBin, RunResult, Series};

use super::palette::{self, FlowColours, MUTED, REST};
use super::plot::{Axis, Mark, Overlay, Plot};
use super::text::{bps, ms, number, percent};

/// The size of a chart in CSS pixels before it is scaled to its place.
pub(super) const WIDTH: u32 = 560;
const HEIGHT: u32 = 270;
/// The most points of a line, and stretches with a title of their own.
pub(super) const LINE_POINTS: usize = 500;
const RATE_POINTS: usize = 160;
pub(super) const HOVERS: usize = 120;

/// What the charts of all runs in a report share, so that they can be compared by eye.
pub(super) struct Frame {
    /// The end of the longest run in seconds.
    end_s: f64,
    delay: Axis,
    delay_logarithmic: Axis,
    rate: Axis,
}

/// Some bins as one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct DelayPoint {
    from_s: f64,
    to_s: f64,
    mean_ms: Option<f64>,
    max_ms: f64,
    dropped: u64,
    marked: u64,
}

pub(super) fn gather(total: usize, points: usize) -> usize {
    total.div_ceil(points).max(1)
}

fn delay_points(bins: &[QueueBin], series: &Series, points: usize) -> Vec<DelayPoint> {
    let size = gather(series.bins(), points);
    let chunks = bins.chunks(size).enumerate();
    chunks
        .map(|(index, chunk)| {
            let departed: u64 = chunk.iter().map(|bin| u64::from(bin.departed)).sum();
            let sum: u64 = chunk.iter().map(|bin| bin.sojourn_sum_ns).sum();
            let from = index * size;
            DelayPoint {
                from_s: series.begin_s(from),
                to_s: series.begin_s(from + chunk.len()),
                mean_ms: (departed > 0).then(|| sum as f64 / departed as f64 / 1e6),
                max_ms: chunk.iter().map(|bin| bin.sojourn_max_ns).max().unwrap_or(0) as f64 / 1e6,
                dropped: chunk.iter().map(|bin| u64::from(bin.dropped)).sum(),
                marked: chunk.iter().map(|bin| u64::from(bin.marked)).sum(),
            }
        })
        .collect()
}

/// Mean rate in bit/s of each `size` bins of the run, up to the last in which something was sent.
fn rates(bins: &[FlowBin], series: &Series, size: usize) -> Vec<f64> {
    let rate = |(index, chunk): (usize, &[FlowBin])| {
        let bytes: u64 = chunk.iter().map(|bin| bin.departed_bytes).sum();
        let (from, to) = (index * size, ((index + 1) * size).min(series.bins()));
        bytes as f64 * 8.0 / series.span_s(from, to)
    };
    bins.chunks(size).enumerate().map(rate).collect()
}

impl Frame {
    pub(super) fn new(results: &[(&str, &RunResult)]) -> Self {
        let runs = || results.iter().map(|(_, result)| *result);
        let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        let queues = || runs().flat_map(|run| &run.queues);
        let points = || {
            runs().flat_map(|run| {
                run.series.queues.iter().flat_map(|bins| delay_points(bins, &run.series, LINE_POINTS))
            })
        };
        let max_ms = largest(&mut points().map(|point| point.max_ms));
        let smallest = points().filter_map(|point| point.mean_ms).fold(f64::INFINITY, f64::min);
        // A twentieth of the typical delay of the fastest queue is too little to look at.
        let typical =
            queues().filter_map(|queue| queue.sojourn_ns.quantile(0.5)).min().unwrap_or(0) as f64 / 1e6;
        let floor = smallest.clamp(typical / 20.0, max_ms.max(typical / 20.0)).max(1e-3);
        let description = "queue delay, ms";
        let delay = if max_ms > 40.0 * typical {
            Axis::logarithmic(floor, max_ms, description)
        } else {
            Axis::from_zero(max_ms, description)
        };
        let quantile = |at: f64| {
            queues().filter_map(move |queue| queue.sojourn_ns.quantile(at)).map(|ns| ns as f64 / 1e6)
        };
        let low = quantile(0.01).fold(f64::INFINITY, f64::min).clamp(1e-3, 1e9);
        let high = largest(&mut quantile(1.0));
        let rate = largest(&mut runs().map(|run| {
            let size = gather(run.series.bins(), RATE_POINTS);
            let flow = |bins: &Vec<FlowBin>| largest(&mut rates(bins, &run.series, size).into_iter());
            let spans = run.meta.scenario.bottleneck.rate_spans(run.series.end_s);
            let link = largest(&mut spans.into_iter().map(|span| span.2));
            largest(&mut run.series.flows.iter().map(flow)).max(link)
        }));
        Self {
            end_s: largest(&mut runs().map(|run| run.series.end_s)),
            delay,
            delay_logarithmic: Axis::logarithmic(low, high, description),
            rate: Axis::from_zero(rate * 1.02 / 1e6, "Mbit/s"),
        }
    }

    pub(super) fn time(&self) -> Axis {
        Axis::linear(0.0, self.end_s, "time, s")
    }

    /// Queue delay over time: a line for the mean, a band up to the longest.
    pub(super) fn delay_over_time(&self, label: &str, result: &RunResult) -> Plot {
        let (mut marks, mut lines) = (Vec::new(), Vec::new());
        for (queue, bins) in result.queues.iter().zip(&result.series.queues) {
            let colour = palette::queue(&queue.name);
            let points = delay_points(bins, &result.series, LINE_POINTS);
            let runs = runs(&points, |point| {
                let x = (point.from_s + point.to_s) / 2.0;
                point.mean_ms.map(|mean| (x, mean, point.max_ms))
            });
            let line = runs.iter().map(|run| run.iter().map(|(x, mean, _)| (*x, *mean)).collect()).collect();
            marks.push(Mark::Band { colour, opacity: 0.22, runs });
            lines.push(Mark::Line { colour, width: 1.75, runs: line });
        }
        marks.append(&mut lines);
        let gathered: Vec<_> =
            result.series.queues.iter().map(|bins| delay_points(bins, &result.series, HOVERS)).collect();
        let longest = gathered.iter().max_by_key(|points| points.len()).map_or(&[][..], Vec::as_slice);
        let hover = |(index, span): (usize, &DelayPoint)| {
            let mut title = format!("{} to {} s", number(span.from_s), number(span.to_s));
            for (queue, points) in result.queues.iter().zip(&gathered) {
                let Some(point) = points.get(index) else { continue };
                let mean = point.mean_ms.map_or_else(|| "empty".to_owned(), |mean| ms(Some(mean)));
                title.push_str(&format!("\n{}: mean {mean}, max {}", queue.name, ms(Some(point.max_ms))));
                title.push_str(&format!(", {} dropped, {} marked", point.dropped, point.marked));
            }
            Overlay::Hover { from: span.from_s, to: span.to_s, title }
        };
        let overlays = longest.iter().enumerate().map(hover).collect();
        plot(format!("Queue delay over time, {label}"), self.time(), self.delay.clone(), marks, overlays)
    }

    /// The share of packets that waited at most so long.
    pub(super) fn delay_distribution(&self, label: &str, result: &RunResult) -> Plot {
        let (low, high) = self.delay_logarithmic.limits();
        let mut marks = Vec::new();
        for queue in &result.queues {
            let total = queue.sojourn_ns.count() as f64;
            let mut seen = 0;
            let steps = queue.sojourn_ns.buckets().map(|(upper, count)| {
                seen += count;
                (upper as f64 / 1e6, seen as f64 / total * 100.0)
            });
            let run: Vec<_> = std::iter::once((low, 0.0)).chain(steps).chain([(high, 100.0)]).collect();
            if total > 0.0 {
                marks.push(Mark::Line { colour: palette::queue(&queue.name), width: 2.0, runs: vec![run] });
            }
        }
        let step = |index: usize| low * (high / low).powf(index as f64 / HOVERS as f64);
        let hover = |index: usize| {
            let (from, to) = (step(index), step(index + 1));
            let mut title = format!("at most {} ms", number(to));
            for queue in &result.queues {
                let within: u64 = queue
                    .sojourn_ns
                    .buckets()
                    .take_while(|(upper, _)| *upper as f64 <= to * 1e6)
                    .map(|(_, count)| count)
                    .sum();
                let share = within as f64 / queue.sojourn_ns.count() as f64;
                title.push_str(&format!("\n{}: {} of packets", queue.name, percent(share)));
            }
            Overlay::Hover { from, to, title }
        };
        let overlays = (0..HOVERS).map(hover).collect();
        let share = Axis::linear(0.0, 100.0, "packets, %");
        plot(
            format!("Distribution of queue delay, {label}"),
            self.delay_logarithmic.clone(),
            share,
            marks,
            overlays,
        )
    }

    /// Throughput per flow over time: lines for the flows with a colour, one grey line for the sum of the others.
    pub(super) fn throughput(&self, label: &str, result: &RunResult, colours: &FlowColours) -> Plot {
        let series = &result.series;
        let size = gather(series.bins(), RATE_POINTS);
        let count = series.bins().div_ceil(size);
        let at = |index: usize| {
            (series.begin_s(index * size), series.begin_s(((index + 1) * size).min(series.bins())))
        };
        let mut others = vec![0.0; count];
        let (mut marks, mut named) = (Vec::new(), Vec::new());
        for (flow, bins) in result.flows.iter().zip(&result.series.flows) {
            let rates = rates(bins, series, size);
            match colours.named(&flow.name) {
                Some(colour) => named.push((flow.name.as_str(), colour, rates)),
                None => others.iter_mut().zip(rates).for_each(|(sum, rate)| *sum += rate),
            }
        }
        let unnamed = result.flows.iter().filter(|flow| colours.named(&flow.name).is_none()).count();
        let others_name = others_name(unnamed);
        if unnamed > 0 {
            named.insert(0, (&others_name, REST, others));
        }
        for (from, to, bps) in result.meta.scenario.bottleneck.rate_spans(self.end_s) {
            marks.push(Mark::Rule { colour: MUTED, from, to, y: bps / 1e6 });
        }
        for (_, colour, rates) in &named {
            // A flow's line begins and ends with its traffic.
            let first = rates.iter().position(|rate| *rate > 0.0).unwrap_or(rates.len());
            let last = rates.iter().rposition(|rate| *rate > 0.0).map_or(first, |last| last + 1);
            let points = (first..last).map(|index| {
                let (from, to) = at(index);
                ((from + to) / 2.0, rates[index] / 1e6)
            });
            marks.push(Mark::Line { colour: *colour, width: 2.0, runs: vec![points.collect()] });
        }
        let step = gather(count, HOVERS);
        let hover = |index: usize| {
            let (from, _) = at(index);
            let (_, to) = at((index + step).min(count) - 1);
            let mut title = format!("{} to {} s", number(from), number(to));
            for (name, _, rates) in &named {
                let rates = rates.get(index..(index + step).min(rates.len())).unwrap_or(&[]);
                if rates.iter().any(|rate| *rate > 0.0) {
                    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
                    title.push_str(&format!("\n{name}: {}", bps(mean)));
                }
            }
            Overlay::Hover { from, to, title }
        };
        let overlays = (0..count).step_by(step).map(hover).collect();
        plot(
            format!("Throughput per flow over time, {label}"),
            self.time(),
            self.rate.clone(),
            marks,
            overlays,
        )
    }
}

/// A chart of the size that all have.
pub(super) fn plot(title: String, x: Axis, y: Axis, marks: Vec<Mark>, overlays: Vec<Overlay>) -> Plot {
    Plot { title, width: WIDTH, height: HEIGHT, x, y, marks, overlays }
}

/// What stands for the flows without a colour.
pub(super) fn others_name(count: usize) -> String {
    if count == 1 { "1 other flow".to_owned() } else { format!("{count} other flows, summed") }
}

/// Runs of neighbouring points that exist. A queue that is only empty now and then stays one line: gaps up to a
/// hundredth of the points are bridged.
pub(super) fn runs<P, T>(points: &[P], value: impl Fn(&P) -> Option<T>) -> Vec<Vec<T>> {
    let bridge = points.len() / 100 + 1;
    let mut runs: Vec<Vec<T>> = Vec::new();
    let mut gap = usize::MAX;
    for point in points {
        match value(point) {
            Some(value) => {
                match runs.last_mut().filter(|_| gap <= bridge) {
                    Some(run) => run.push(value),
                    None => runs.push(vec![value]),
                }
                gap = 0;
            }
            None => gap = gap.saturating_add(1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::{delay_points, rates, runs};
    use crate::result::{FlowBin, QueueBin, Series};

    fn bin(departed: u32, mean_ns: u64, max_ns: u64) -> QueueBin {
        QueueBin {
            departed,
            sojourn_sum_ns: u64::from(departed) * mean_ns,
            sojourn_max_ns: max_ns,
            dropped: 1,
            ..QueueBin::default()
        }
    }

    #[test]
    fn gathering_weighs_packets_and_keeps_maxima() {
        let bins = [bin(30, 1_000_000, 2_000_000), bin(10, 5_000_000, 9_000_000), bin(0, 0, 0)];
        let lasting = |end_s: f64| Series { interval_s: 0.5, end_s, ..Series::default() };
        let points = delay_points(&bins, &lasting(1.5), 2);
        assert_eq!(points.len(), 2);
        assert_eq!((points[0].mean_ms, points[0].max_ms, points[0].dropped), (Some(2.0), 9.0, 2));
        assert_eq!((points[1].from_s, points[1].to_s, points[1].mean_ms), (1.0, 1.5, None));
        let flow = [1000, 3000, 500].map(|departed_bytes| FlowBin { departed_bytes, ..FlowBin::default() });
        assert_eq!(rates(&flow, &lasting(1.5), 2), [32_000.0, 8_000.0]);
        // The last bin is as long as the run.
        assert_eq!(rates(&flow, &lasting(1.25), 2), [32_000.0, 16_000.0]);
        assert_eq!(delay_points(&bins, &lasting(1.7), 2)[1].to_s, 1.7);
    }

    #[test]
    fn long_gaps_break_a_line_and_short_ones_do_not() {
        let there = |there: bool| bin(u32::from(there), 1, 1);
        let series = Series { interval_s: 1.0, end_s: 200.0, ..Series::default() };
        let bins: Vec<_> = (0..200).map(|index| there(!(50..60).contains(&index) && index != 100)).collect();
        let lengths: Vec<_> =
            runs(&delay_points(&bins, &series, 500), |point| point.mean_ms).iter().map(Vec::len).collect();
        assert_eq!(lengths, [50, 139]);
    }
}
