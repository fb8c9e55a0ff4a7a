//! Links whose rate changes: traces in mahimahi's format, which many measurements of mobile networks come in.
//!
//! | source | here |
//! |---|---|
//! | a line is a millisecond, at which 1500 bytes may be delivered; lines do not go back; several may have the same (`mm-link(1)`) | [`Trace::parse`] |
//! | after the last line the trace begins anew, and its times count from there | [`Schedule`] |
//! | an opportunity carries what is left of a packet and those after it; what nobody needs is lost | the network's links |
//! | a packet counts as its IP packet | the same: wire bytes without Ethernet's header |
//!
//! Blank lines and lines that begin with `#` are skipped, which mahimahi's reader refuses.

use std::sync::Arc;

use thiserror::Error;
use weir_core::{Duration, Rate, Time};

/// Bytes of IP packets that one line of a trace lets through.
pub const OPPORTUNITY_BYTES: u32 = 1500;

/// When a link may deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Milliseconds from the beginning, in order.
    lines: Vec<u32>,
}

/// A trace that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TraceError {
    /// A line is no time.
    #[error("line {line}: '{text}' is not a time; a line is a whole number of milliseconds below 2^32")]
    NoTime {
        /// Counted from 1.
        line: usize,
        /// What it says, or how it begins.
        text: String,
    },
    /// A line lies before the one above it.
    #[error("line {line}: {time} ms is before the line above; sort the lines by time")]
    Back {
        /// Counted from 1.
        line: usize,
        /// Milliseconds.
        time: u32,
    },
    /// There is nothing in it, or it takes no time.
    #[error("the last line must be later than 0 ms, as the trace is repeated from there")]
    NoLength,
}

impl Trace {
    /// Reads a trace.
    ///
    /// # Errors
    ///
    /// If a line is not a number of milliseconds or goes back in time, or if the trace has no length.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut lines: Vec<u32> = Vec::new();
        for (index, text) in text.lines().enumerate() {
            let (line, text) = (index + 1, text.trim());
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let time: u32 = text.parse().map_err(|_| TraceError::NoTime { line, text: shown(text) })?;
            if lines.last().is_some_and(|before| time < *before) {
                return Err(TraceError::Back { line, time });
            }
            lines.push(time);
        }
        if lines.last().is_none_or(|last| *last == 0) {
            return Err(TraceError::NoLength);
        }
        Ok(Self { lines })
    }

    /// Its mean rate, in bits of IP packets.
    pub fn rate(&self) -> Rate {
        let bits = self.lines.len() as u128 * u128::from(OPPORTUNITY_BYTES) * 8;
        Rate::from_bits_per_sec((bits * 1_000_000_000 / u128::from(self.period().as_nanos())) as u64)
    }

    /// Its mean rate from one time to a later one, in bits of IP packets.
    pub fn mean(&self, from: Time, to: Time) -> Rate {
        // What may go at `to` itself is of the time behind it.
        let before = |time: Time| match time.as_nanos().checked_sub(1) {
            Some(last) => self.opportunities(Time::from_nanos(last)),
            None => 0,
        };
        let bits = u128::from(before(to) - before(from)) * u128::from(OPPORTUNITY_BYTES) * 8;
        Rate::from_bits_per_sec((bits * 1_000_000_000 / u128::from(to.as_nanos() - from.as_nanos())) as u64)
    }

    /// After how long it begins anew.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.lines.last().copied().map_or(1, u64::from))
    }

    /// Opportunities from the beginning until `end`, that moment included.
    pub fn opportunities(&self, end: Time) -> u64 {
        let (whole, rest) = self.split(end);
        whole * self.lines.len() as u64 + self.lines.partition_point(|line| at(*line) <= rest) as u64
    }

    /// How often the trace has been gone through at `time`, and the rest. At the very end of a round the next has
    /// begun.
    fn split(&self, time: Time) -> (u64, Duration) {
        let (time, period) = (time.as_nanos(), self.period().as_nanos());
        (time / period, Duration::from_nanos(time % period))
    }
}

/// A line for a message: it may be long, and need not be text.
fn shown(text: &str) -> String {
    const LONGEST: usize = 20;
    let is_longer = text.chars().nth(LONGEST).is_some();
    let begin: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if is_longer { format!("{begin}...") } else { begin }
}

fn at(line: u32) -> Duration {
    Duration::from_millis(u64::from(line))
}

/// Where a link is in its trace.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    trace: Arc<Trace>,
    /// When this round began.
    began: Time,
    next: usize,
}

impl Schedule {
    pub(crate) fn new(trace: Arc<Trace>) -> Self {
        Self { trace, began: Time::ZERO, next: 0 }
    }

    /// The next opportunity that has not been taken.
    pub(crate) fn next(&self) -> Time {
        self.began + at(self.trace.lines[self.next])
    }

    /// The next opportunity is taken.
    pub(crate) fn take(&mut self) {
        self.next += 1;
        if self.next == self.trace.lines.len() {
            self.next = 0;
            self.began += self.trace.period();
        }
    }

    /// Lets those go by that lie before `now`.
    pub(crate) fn skip(&mut self, now: Time) {
        if self.next() >= now {
            return;
        }
        let (_, rest) = self.trace.split(now);
        // At the end of a round, its last lines are still open.
        let began = now - rest;
        if began > self.began && rest == Duration::ZERO {
            self.began = began - self.trace.period();
            self.next = self.trace.lines.partition_point(|line| at(*line) < self.trace.period());
            return;
        }
        self.began = began;
        self.next = self.trace.lines.partition_point(|line| at(*line) < rest);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Schedule, Trace, TraceError};
    use weir_core::{Duration, Time};

    fn ms(number: u64) -> Time {
        Time::ZERO + Duration::from_millis(number)
    }

    #[test]
    fn a_trace_reads_and_says_what_is_wrong_with_it() {
        let trace = Trace::parse("# two packets at once\n1\n1\n\n5\n10\n").unwrap();
        assert_eq!(trace.rate().to_string(), "4.8mbit");
        assert_eq!(trace.period(), Duration::from_millis(10));
        // Two at 1 ms, one at 5 ms, one at 10 ms.
        let mean = |from, to| trace.mean(ms(from), ms(to)).to_string();
        assert_eq!(
            [mean(0, 5), mean(5, 10), mean(0, 11), mean(2, 4)],
            ["4.8mbit", "2.4mbit", "4.363636mbit", "0bit"]
        );
        for (text, says) in
            [("1\nx\n", "line 2: 'x'"), ("3\n2\n", "line 2: 2 ms"), ("", "0 ms"), ("0\n", "0 ms")]
        {
            let message = Trace::parse(text).unwrap_err().to_string();
            assert!(message.contains(says), "{text}: {message}");
        }
        assert_eq!(Trace::parse("-1"), Err(TraceError::NoTime { line: 1, text: "-1".to_owned() }));
    }

    #[test]
    fn it_begins_anew_and_skips_what_has_gone_by() {
        for text in ["1\n1\n5\n10\n", "0\n3\n10\n10\n", "4\n"] {
            let trace = Arc::new(Trace::parse(text).unwrap());
            let mut plain = Schedule::new(Arc::clone(&trace));
            let all: Vec<Time> = (0..40)
                .map(|_| {
                    let next = plain.next();
                    plain.take();
                    next
                })
                .collect();
            assert!(all.is_sorted());
            let end = *all.last().unwrap();
            for from in 0..end.as_nanos() / 1_000_000 {
                let mut schedule = Schedule::new(Arc::clone(&trace));
                schedule.skip(ms(from));
                let expected = all.iter().filter(|at| **at >= ms(from)).take(3);
                for at in expected {
                    assert_eq!(schedule.next(), *at, "{text:?} from {from}");
                    schedule.take();
                }
                let before = all.iter().filter(|at| **at <= ms(from)).count() as u64;
                assert_eq!(trace.opportunities(ms(from)), before, "{text:?} until {from}");
            }
        }
    }
}
