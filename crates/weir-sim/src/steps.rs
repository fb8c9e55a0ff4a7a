//! Links whose rate changes at given times (RFC 7928 section 8.2.6): each rate holds for its time, then comes the next.
//! What is under way when the rate changes goes on at the rate that it began with.

use weir_core::{Duration, Rate, Time};

/// Rates, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateSteps {
    /// Each with the time at which it ends, counted from the first one's beginning.
    steps: Vec<(Rate, Duration)>,
    /// Where they begin anew; `None` if the last one stays.
    period: Option<Duration>,
}

/// Rates that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepsError {
    /// There are none.
    #[error("there is no rate; give at least one")]
    Empty,
    /// One of them lets nothing through.
    #[error("rate {0} is 0; to stop a link, give it a trace")]
    NoRate(usize),
    /// One of them holds for no time at all.
    #[error("rate {0} holds for no time; give it some or leave it out")]
    NoTime(usize),
    /// Only the last one may stay.
    #[error(
        "rate {0} holds for ever, so nothing after it ever comes; say for how long, or let it be the last"
    )]
    Endless(usize),
}

impl RateSteps {
    /// Each rate for so long. Without a time the last one stays; with one all begin anew after it.
    ///
    /// # Errors
    ///
    /// Where a rate or a time is missing or 0; rates are counted from 1.
    pub fn new(steps: &[(Rate, Option<Duration>)]) -> Result<Self, StepsError> {
        let mut end = Duration::ZERO;
        let mut ends = Vec::with_capacity(steps.len());
        for (index, &(rate, time)) in steps.iter().enumerate() {
            let number = index + 1;
            match time {
                _ if rate.bits_per_sec() == 0 => return Err(StepsError::NoRate(number)),
                Some(Duration::ZERO) => return Err(StepsError::NoTime(number)),
                None if number < steps.len() => return Err(StepsError::Endless(number)),
                Some(time) => end = end + time,
                None => {}
            }
            ends.push((rate, end));
        }
        let stays = steps.last().ok_or(StepsError::Empty)?.1.is_none();
        Ok(Self { steps: ends, period: (!stays).then_some(end) })
    }

    /// The rate at a time.
    pub fn at(&self, time: Time) -> Rate {
        let since = Duration::from_nanos(time.as_nanos());
        let since = match self.period {
            Some(period) => Duration::from_nanos(since.as_nanos() % period.as_nanos()),
            None => since,
        };
        let last = self.steps[self.steps.len() - 1].0;
        self.steps.iter().find(|(_, end)| since < *end).map_or(last, |(rate, _)| *rate)
    }

    /// The times from the start until `end` through which the rate is the same, with that rate; `None` if there are
    /// more than `most`.
    pub fn spans(&self, end: Time, most: usize) -> Option<Vec<(Time, Time, Rate)>> {
        let mut spans = Vec::new();
        let (mut round, mut from) = (Time::ZERO, Time::ZERO);
        while from < end {
            for (index, (rate, until)) in self.steps.iter().enumerate() {
                let stays = self.period.is_none() && index + 1 == self.steps.len();
                let to = if stays { end } else { (round + *until).min(end) };
                if from < to {
                    spans.push((from, to, *rate));
                    from = to;
                }
            }
            if spans.len() > most {
                return None;
            }
            round = from;
        }
        Some(spans)
    }

    /// The mean rate between two times, the first of which comes before the second.
    pub fn mean(&self, from: Time, to: Time) -> Rate {
        let bits = self.bits(to) - self.bits(from);
        Rate::from_bits_per_sec((bits / to.since(from).as_secs_f64()).round() as u64)
    }

    /// Bits that can have gone from the start until `end`.
    fn bits(&self, end: Time) -> f64 {
        let once = |end: u64| {
            let mut begin = 0;
            let mut bits = 0.0;
            for (index, (rate, until)) in self.steps.iter().enumerate() {
                let stays = self.period.is_none() && index + 1 == self.steps.len();
                let until = if stays { end } else { until.as_nanos().min(end) };
                bits += rate.bits_per_sec() as f64 * until.saturating_sub(begin) as f64 / 1e9;
                begin = begin.max(until);
            }
            bits
        };
        match self.period.map(Duration::as_nanos) {
            Some(period) => (end.as_nanos() / period) as f64 * once(period) + once(end.as_nanos() % period),
            None => once(end.as_nanos()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RateSteps, StepsError};
    use weir_core::{Duration, Rate, Time};

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn steps(steps: &[(u64, Option<u64>)]) -> Result<RateSteps, StepsError> {
        let one = |&(mbit, ms): &(u64, Option<u64>)| {
            (Rate::from_bits_per_sec(mbit * 1_000_000), ms.map(Duration::from_millis))
        };
        RateSteps::new(&steps.iter().map(one).collect::<Vec<_>>())
    }

    #[test]
    fn the_last_rate_stays_or_all_begin_anew() {
        let stays = steps(&[(50, Some(20)), (5, Some(10)), (25, None)]).unwrap();
        let rates = |steps: &RateSteps, times: &[u64]| -> Vec<u64> {
            times.iter().map(|ms| steps.at(at(*ms)).bits_per_sec() / 1_000_000).collect()
        };
        assert_eq!(rates(&stays, &[0, 19, 20, 29, 30, 100_000]), [50, 50, 5, 5, 25, 25]);
        assert_eq!(stays.mean(at(0), at(40)), Rate::from_bits_per_sec(32_500_000));
        assert_eq!(stays.mean(at(25), at(35)), Rate::from_bits_per_sec(15_000_000));
        assert_eq!(
            stays.spans(at(25), 2).unwrap(),
            [(at(0), at(20), stays.at(at(0))), (at(20), at(25), stays.at(at(20)))]
        );
        assert_eq!(stays.mean(at(0), at(10)), Rate::from_bits_per_sec(50 * 1_000_000));
        let again = steps(&[(100, Some(100)), (10, Some(300))]).unwrap();
        assert_eq!(rates(&again, &[99, 100, 399, 400, 499, 500, 800]), [100, 10, 10, 100, 100, 10, 100]);
        assert_eq!(again.mean(at(0), at(800)), Rate::from_bits_per_sec(32_500_000));
        assert_eq!(again.mean(at(0), at(500)), Rate::from_bits_per_sec(46 * 1_000_000));
    }

    #[test]
    fn spans_follow_the_rate() {
        let again = steps(&[(100, Some(100)), (10, Some(300))]).unwrap();
        assert_eq!(again.spans(at(1050), 5), None);
        let spans = again.spans(at(1050), 6).unwrap();
        assert_eq!(spans.len(), 6);
        assert!(spans.windows(2).all(|pair| pair[0].1 == pair[1].0));
        assert!(spans.iter().all(|(from, to, rate)| from < to && again.at(*from) == *rate));
        assert_eq!(spans[5], (at(900), at(1050), again.at(at(900))));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert_eq!(steps(&[]), Err(StepsError::Empty));
        assert_eq!(steps(&[(1, Some(1)), (0, None)]), Err(StepsError::NoRate(2)));
        assert_eq!(steps(&[(1, Some(0)), (2, None)]), Err(StepsError::NoTime(1)));
        assert_eq!(steps(&[(1, None), (2, None)]), Err(StepsError::Endless(1)));
    }
}
