//! Samples over time.

use serde::{Deserialize, Serialize};
use weir_core::Duration;

/// Samples over time, in bins of `interval_s`: bin `i` begins at `i * interval_s`.
///
/// The last bin ends with the run, so it is longer or shorter than the others by up to half: what begins less than half
/// an interval before the end counts with the bin before. A list may lack bins at its end, in which nothing happened.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    /// The width of a bin in seconds.
    pub interval_s: f64,
    /// When the last bin ends, in seconds.
    pub end_s: f64,
    /// Per queue, in the order of `queues`.
    pub queues: Vec<Vec<QueueBin>>,
    /// Per flow, in the order of `flows`, then per workload.
    pub flows: Vec<Vec<FlowBin>>,
    /// Round-trip times per flow as the sender's stack reports them: seconds into the run, milliseconds.
    pub rtt: Vec<Vec<(f64, f64)>>,
}

/// A queue in one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueBin {
    /// Packets that left.
    pub departed: u32,
    /// The sum of their sojourn times, in nanoseconds.
    pub sojourn_sum_ns: u64,
    /// The longest sojourn, in nanoseconds.
    pub sojourn_max_ns: u64,
    /// The largest backlog, in bytes.
    pub backlog_max_bytes: u64,
    /// Packets dropped.
    pub dropped: u32,
    /// Packets marked CE.
    pub marked: u32,
}

/// A flow in one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowBin {
    /// Wire bytes that left the bottleneck.
    pub departed_bytes: u64,
    /// Packets dropped.
    pub dropped: u32,
    /// Packets marked CE.
    pub marked: u32,
}

impl QueueBin {
    /// The mean sojourn time in milliseconds; none if nothing left.
    pub fn sojourn_mean_ms(&self) -> Option<f64> {
        (self.departed > 0).then(|| self.sojourn_sum_ns as f64 / f64::from(self.departed) / 1e6)
    }
}

/// Two bins as one.
trait Join {
    fn join(&mut self, other: &Self);
}

impl Join for QueueBin {
    fn join(&mut self, other: &Self) {
        self.departed += other.departed;
        self.sojourn_sum_ns += other.sojourn_sum_ns;
        self.sojourn_max_ns = self.sojourn_max_ns.max(other.sojourn_max_ns);
        self.backlog_max_bytes = self.backlog_max_bytes.max(other.backlog_max_bytes);
        self.dropped += other.dropped;
        self.marked += other.marked;
    }
}

impl Join for FlowBin {
    fn join(&mut self, other: &Self) {
        self.departed_bytes += other.departed_bytes;
        self.dropped += other.dropped;
        self.marked += other.marked;
    }
}

/// Puts all bins from `count` on into the one before.
fn cut<B: Join + Copy>(mut bins: Vec<B>, count: usize) -> Vec<B> {
    if let Some((kept, rest)) = bins.split_at_mut_checked(count)
        && let Some(last) = kept.last_mut()
    {
        rest.iter().for_each(|bin| last.join(bin));
        bins.truncate(count);
    }
    bins
}

impl Series {
    /// Of bins that were counted by the time alone, from a run that took `lasted`. What fell into a bin beyond it
    /// counts with the last.
    pub fn new(
        interval: Duration,
        lasted: Duration,
        queues: Vec<Vec<QueueBin>>,
        flows: Vec<Vec<FlowBin>>,
        rtt: Vec<Vec<(f64, f64)>>,
    ) -> Self {
        let (interval_s, end_s) = (interval.as_secs_f64(), lasted.as_secs_f64());
        let count = Self { interval_s, end_s, ..Self::default() }.bins();
        Self {
            interval_s,
            end_s,
            queues: queues.into_iter().map(|bins| cut(bins, count)).collect(),
            flows: flows.into_iter().map(|bins| cut(bins, count)).collect(),
            rtt,
        }
    }

    /// How many bins the run has.
    pub fn bins(&self) -> usize {
        if self.end_s > 0.0 { ((self.end_s / self.interval_s).round() as usize).max(1) } else { 0 }
    }

    /// When a bin begins, in seconds; of the number behind the last, when the run ends.
    pub fn begin_s(&self, bin: usize) -> f64 {
        if bin < self.bins() { whole_nanoseconds(bin as f64 * self.interval_s) } else { self.end_s }
    }

    /// How many seconds the bins from one number to before another take.
    pub fn span_s(&self, from: usize, to: usize) -> f64 {
        whole_nanoseconds(self.begin_s(to) - self.begin_s(from))
    }
}

/// Keeps `0.15000000000000002` out of the tables.
fn whole_nanoseconds(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e9
}

#[cfg(test)]
mod tests {
    use weir_core::Duration;

    use super::{FlowBin, QueueBin, Series};

    #[test]
    fn the_last_bin_ends_with_the_run_and_lacks_nothing() {
        let flow = FlowBin { departed_bytes: 1000, dropped: 1, marked: 2 };
        let queue = QueueBin {
            departed: 1,
            sojourn_sum_ns: 5,
            sojourn_max_ns: 7,
            backlog_max_bytes: 3,
            dropped: 1,
            marked: 2,
        };
        // Lasted, bins counted by the time alone: bins that remain, and the length of the last.
        for (lasted, counted, bins, length) in [
            (200, 4, 4, 50),
            (224, 5, 4, 74),
            (225, 5, 5, 25),
            (249, 5, 5, 49),
            (250, 6, 5, 50),
            (10, 1, 1, 10),
        ] {
            let made = Series::new(
                Duration::from_millis(50),
                Duration::from_millis(lasted),
                vec![vec![queue; counted]],
                vec![vec![flow; counted], vec![flow; 1], Vec::new()],
                Vec::new(),
            );
            assert_eq!(
                (made.bins(), made.queues[0].len(), made.flows[0].len()),
                (bins, bins, bins),
                "{lasted}"
            );
            assert_eq!((made.flows[1].len(), made.flows[2].len()), (1, 0));
            assert!((made.span_s(bins - 1, bins) * 1e3 - f64::from(length)).abs() < 1e-9, "{lasted}");
            assert!((made.span_s(0, bins) * 1e3 - lasted as f64).abs() < 1e-9, "{lasted}");
            let bytes: u64 = made.flows[0].iter().map(|bin| bin.departed_bytes).sum();
            assert_eq!(bytes, 1000 * counted as u64, "{lasted}");
            let last = made.queues[0][bins - 1];
            let of = counted - bins + 1;
            assert_eq!((last.departed as usize, last.sojourn_max_ns, last.marked as usize), (of, 7, 2 * of));
        }
        assert_eq!((Series::default().bins(), Series::default().span_s(0, 0)), (0, 0.0));
    }
}
