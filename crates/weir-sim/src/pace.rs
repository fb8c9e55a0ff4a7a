//! When datagrams at a constant rate are sent: each at its time, or in bursts.

use weir_core::{Duration, Rate, Time};

/// The clock of a source of datagrams. Remainders are kept, so that the rate in the long run is exact.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    rate: Rate,
    remainder: u64,
    bursts: Option<Bursts>,
}

/// The datagrams of each interval go together when it begins.
#[derive(Clone, Debug)]
struct Bursts {
    every: Duration,
    line: Rate,
    /// When the interval began whose datagrams are being sent, and the time of the next datagram were it paced; none
    /// before the first.
    now: Option<(Time, Time)>,
}

impl Pace {
    /// Datagrams at `rate`; with `bursts` those of so long an interval at once, back to back at a line's rate.
    pub(crate) fn new(rate: Rate, bursts: Option<(Duration, Rate)>) -> Self {
        let bursts = bursts.map(|(every, line)| Bursts { every, line, now: None });
        Self { rate, remainder: 0, bursts }
    }

    /// The datagram after one of `bytes`, sent at `now`: when it is due by the rate alone, and when it is sent.
    pub(crate) fn after(&mut self, now: Time, bytes: u32) -> [Time; 2] {
        let apart = self.rate.serialize(u64::from(bytes), &mut self.remainder);
        let Some(bursts) = &mut self.bursts else { return [now + apart; 2] };
        let (mut began, due) = bursts.now.unwrap_or((now, now));
        let due = due + apart;
        let whole = due.since(began).as_nanos() / bursts.every.as_nanos().max(1);
        began += Duration::from_nanos(whole * bursts.every.as_nanos());
        bursts.now = Some((began, due));
        [due, began.max(now + bursts.line.time_for(u64::from(bytes)))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(mut pace: Pace, count: usize) -> Vec<u64> {
        let first = Time::from_nanos(500);
        std::iter::successors(Some(first), |now| Some(pace.after(*now, 1250)[1]))
            .take(count)
            .map(|time| time.since(first).as_nanos())
            .collect()
    }

    #[test]
    fn the_datagrams_of_each_interval_go_back_to_back_when_it_begins() {
        let rate = Rate::from_bits_per_sec;
        // 0.4 ms apart at 25 Mbit/s: three are due in the first millisecond, two in the second, three in the third.
        assert_eq!(sent(Pace::new(rate(25_000_000), None), 4), [0, 400_000, 800_000, 1_200_000]);
        let bursts = Some((Duration::from_millis(1), rate(1_000_000_000)));
        let times = sent(Pace::new(rate(25_000_000), bursts), 9);
        let expected = [0, 10_000, 20_000, 1_000_000, 1_010_000, 2_000_000, 2_010_000, 2_020_000, 3_000_000];
        assert_eq!(times, expected);
        // A line that is full has no pauses.
        let times = sent(Pace::new(rate(1_000_000_000), bursts), 300);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 10_000), "{times:?}");
    }
}
