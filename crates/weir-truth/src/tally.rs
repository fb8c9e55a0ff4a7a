//! Flows counted by verdict, with the intervals that their number gives.

use std::collections::BTreeMap;

use weir_core::wilson;
use weir_law::Verdict;

use crate::seen::Seen;

/// Flows of one kind.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// All of them.
    pub flows: u64,
    /// Of these with the right verdict at the end.
    pub right: u64,
    /// Found to be responsive.
    pub responsive: u64,
    /// Found to be unresponsive.
    pub unresponsive: u64,
    /// Never judged.
    pub never: u64,
    round_trips: Vec<f64>,
    right_times: Vec<f64>,
}

impl Tally {
    /// Of these flows.
    pub fn of<'a>(flows: impl IntoIterator<Item = &'a Seen>) -> Self {
        let mut tally = Self::default();
        flows.into_iter().for_each(|seen| tally.add(seen));
        tally
    }

    fn add(&mut self, seen: &Seen) {
        self.flows += 1;
        self.right += u64::from(seen.is_right());
        self.responsive += u64::from(seen.verdict == Verdict::Responsive);
        self.unresponsive += u64::from(seen.verdict == Verdict::Unresponsive);
        self.never += u64::from(!seen.is_ever_judged);
        self.round_trips.extend(seen.round_trips);
        self.right_times.extend(seen.right_time);
    }

    /// Without a verdict at the end.
    pub fn unclassified(&self) -> u64 {
        self.flows - self.responsive - self.unresponsive
    }

    /// So many of the flows, in percent.
    pub fn percent(&self, of: u64) -> f64 {
        100.0 * of as f64 / self.flows.max(1) as f64
    }

    /// Wilson's interval at 95 % of so many of the flows, in percent.
    pub fn interval(&self, of: u64) -> [f64; 2] {
        let (low, high) = wilson(of, self.flows);
        [100.0 * low, 100.0 * high]
    }

    /// The median time from the first signal to the first right verdict, in round trips, of those that got one.
    pub fn round_trips(&self) -> Option<f64> {
        let mut sorted = self.round_trips.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }

    /// The mean share of the time with a verdict in which it was right, in percent.
    pub fn right_time(&self) -> Option<f64> {
        let times = &self.right_times;
        (!times.is_empty()).then(|| 100.0 * times.iter().sum::<f64>() / times.len() as f64)
    }

    /// As `98.2 % (96.9 to 99.0) of 612`.
    pub fn words(&self) -> String {
        if self.flows == 0 {
            return "-".to_owned();
        }
        let [low, high] = self.interval(self.right);
        format!("{:.1} % ({low:.1} to {high:.1}) of {}", self.percent(self.right), self.flows)
    }

    /// All that is known of the flows, by name.
    pub fn values(&self) -> BTreeMap<String, f64> {
        let [low, high] = self.interval(self.right);
        let values = [
            ("flows", self.flows as f64),
            ("right", self.right as f64),
            ("responsive", self.responsive as f64),
            ("unresponsive", self.unresponsive as f64),
            ("unclassified", self.unclassified() as f64),
            ("right_percent", self.percent(self.right)),
            ("unclassified_percent", self.percent(self.unclassified())),
            ("never_judged_percent", self.percent(self.never)),
            ("ci95", (high - low) / 2.0),
            ("ci95_low", low),
            ("ci95_high", high),
        ];
        let more = [("round_trips", self.round_trips()), ("right_time_percent", self.right_time())];
        let more = more.into_iter().filter_map(|(key, value)| Some((key, value?)));
        values.into_iter().chain(more).map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use weir_law::Verdict;

    use super::{Seen, Tally};

    fn seen(verdict: Verdict, round_trips: Option<f64>) -> Seen {
        Seen {
            index: 0,
            class: "aimd",
            right: Verdict::Responsive,
            signal: "loss",
            controller: "reno".to_owned(),
            transport: "QUIC",
            verdict,
            is_ever_judged: verdict != Verdict::Unclassified,
            round_trips,
            right_time: round_trips.map(|_| 0.5),
        }
    }

    #[test]
    fn flows_are_counted_by_verdict() {
        let flows = [
            seen(Verdict::Responsive, Some(3.0)),
            seen(Verdict::Responsive, Some(5.0)),
            seen(Verdict::Unresponsive, Some(9.0)),
            seen(Verdict::Unclassified, None),
        ];
        let tally = Tally::of(&flows);
        assert_eq!(
            (tally.flows, tally.right, tally.unresponsive, tally.unclassified(), tally.never),
            (4, 2, 1, 1, 1)
        );
        assert_eq!((tally.round_trips(), tally.right_time()), (Some(5.0), Some(50.0)));
        assert_eq!(tally.words(), "50.0 % (15.0 to 85.0) of 4");
    }
}
