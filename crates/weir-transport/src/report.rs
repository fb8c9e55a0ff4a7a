//! Reports of arrivals: QUIC's acknowledgements say what has arrived, but not when, nor in which order across paths. So
//! the receiver tells both, in DATAGRAM frames (RFC 9221).
//!
//! A report is a list of arrivals, oldest first, in QUIC's variable-length integers (RFC 9000 section 16):
//!
//! | field | meaning |
//! |---|---|
//! | kind | 1 |
//! | base | nanoseconds of the receiver's clock |
//! | then for each arrival: time | nanoseconds since the last one (the first: since the base), signed |
//! | number | packet number less the last one of its path (the first: less 0), signed; times 4, plus the path's number |
//!
//! Signed integers are folded: 0, -1, 1, -2... become 0, 1, 2, 3...

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use weir_core::{Duration, Time};

use crate::frames::{get, put};

/// The paths that can be told apart; packets of others are not reported.
pub(crate) const PATHS: usize = 4;

const KIND: u64 = 1;
/// No clock that begins with its endpoint shows this many nanoseconds, which are 36 years.
const FAR: u64 = 1 << 60;

/// A packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// The number of its path, below [`PATHS`].
    pub(crate) path: u8,
    /// Its number on the path.
    pub(crate) number: u64,
    /// When, by the receiver's clock.
    pub(crate) at: Time,
}

const fn fold(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

const fn unfold(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The arrivals of a report; none of what cannot be read.
pub(crate) fn read(mut report: &[u8]) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    if get(&mut report) != Some(KIND) {
        return arrivals;
    }
    let Some(mut at) = get(&mut report).and_then(|base| i64::try_from(base).ok()) else { return arrivals };
    let mut last = [0_i64; PATHS];
    while let (Some(time), Some(packet)) = (get(&mut report), get(&mut report)) {
        at = at.saturating_add(unfold(time));
        let path = (packet % PATHS as u64) as u8;
        let number = last[usize::from(path)].saturating_add(unfold(packet / PATHS as u64));
        last[usize::from(path)] = number;
        if let (Ok(at @ 0..FAR), Ok(number)) = (u64::try_from(at), u64::try_from(number)) {
            arrivals.push(Arrival { path, number, at: Time::from_nanos(at) });
        }
    }
    arrivals
}

/// The arrivals of a connection that are still to be told. Each is told in two reports, so that one may be lost.
#[derive(Debug, Default)]
pub(crate) struct Reporter {
    arrivals: VecDeque<Arrival>,
    /// Of these, from the front, told once.
    told: usize,
    last: Time,
    /// A packet has arrived that ends something: a pair or a train.
    is_end: bool,
}

impl Reporter {
    /// Reports are this far apart: a millisecond makes news hardly older, and a thousand reports a second cost little
    /// beside acknowledgements.
    const APART: Duration = Duration::from_millis(1);
    /// The same once a packet of the light sub-flow has arrived. It has few, each of them ends a pair or a train, and
    /// on a short path the sender would wait longer for the report than for the packet.
    const APART_AT_END: Duration = Duration::from_micros(200);
    /// Arrivals that are kept at most; of more, the oldest are not told.
    const MOST: usize = 512;
    /// The longest that an arrival can be in a report.
    const LONGEST: usize = 16;

    /// A packet has arrived.
    pub(crate) fn push(&mut self, arrival: Arrival) {
        if self.arrivals.len() == Self::MOST {
            self.arrivals.pop_front();
            self.told = self.told.saturating_sub(1);
        }
        self.is_end |= arrival.path != 0;
        self.arrivals.push_back(arrival);
    }

    /// When the next report is due; none without news.
    pub(crate) fn due(&self) -> Option<Time> {
        let apart = if self.is_end { Self::APART_AT_END } else { Self::APART };
        (self.told < self.arrivals.len()).then(|| self.last + apart)
    }

    /// A report of at most `room` bytes; none without news.
    pub(crate) fn report(&mut self, now: Time, room: usize) -> Option<Bytes> {
        // What was told and does not fit beside the news is not told again.
        let most = room.saturating_sub(Self::LONGEST) / Self::LONGEST;
        let news = self.arrivals.len() - self.told;
        if news == 0 || most == 0 {
            return None;
        }
        (self.last, self.is_end) = (now, false);
        let skipped = (self.told + news.min(most)).saturating_sub(most).min(self.told);
        self.arrivals.drain(..skipped);
        self.told -= skipped;
        let count = self.arrivals.len().min(most);
        let mut report = BytesMut::with_capacity(room);
        let base = self.arrivals[0].at.as_nanos() as i64;
        put(&mut report, KIND);
        put(&mut report, base as u64);
        let (mut at, mut last) = (base, [0_i64; PATHS]);
        for arrival in self.arrivals.iter().take(count) {
            let (time, number) = (arrival.at.as_nanos() as i64, arrival.number as i64);
            let path = usize::from(arrival.path) % PATHS;
            put(&mut report, fold(time - at));
            let number_and_path = fold(number - last[path]).saturating_mul(PATHS as u64) | path as u64;
            put(&mut report, number_and_path);
            (at, last[path]) = (time, number);
        }
        // What was told twice is done with.
        self.arrivals.drain(..self.told);
        self.told = count - self.told;
        Some(report.freeze())
    }
}

#[cfg(test)]
mod tests {
    use weir_core::Time;

    use super::{Arrival, Reporter, fold, read, unfold};

    fn arrival(number: u64) -> Arrival {
        Arrival {
            path: (number % 3) as u8,
            number: number * 7,
            at: Time::from_nanos(5_000_000_000 - number * 999),
        }
    }

    #[test]
    fn signed_integers_come_back() {
        for value in [0, -1, 1, 12_345, -12_345, i64::MAX >> 2, i64::MIN >> 2] {
            assert_eq!(unfold(fold(value)), value);
        }
    }

    #[test]
    fn each_arrival_is_told_twice_while_there_is_room() {
        let mut reporter = Reporter::default();
        let mut told = Vec::new();
        for round in 0..4 {
            for number in 0..10 {
                reporter.push(arrival(round * 10 + number));
            }
            assert!(reporter.due().is_some());
            told.push(read(&reporter.report(Time::from_nanos(round), 1200).unwrap()));
            assert_eq!((reporter.due(), reporter.report(Time::ZERO, 1200)), (None, None));
        }
        let expected = |from: u64, to: u64| (from..to).map(arrival).collect::<Vec<_>>();
        assert_eq!(told, [expected(0, 10), expected(0, 20), expected(10, 30), expected(20, 40)]);
    }

    #[test]
    fn news_go_before_what_was_told() {
        let mut reporter = Reporter::default();
        for number in 0..1000 {
            reporter.push(arrival(number));
        }
        let mut told = Vec::new();
        while let Some(report) = reporter.report(Time::ZERO, 1200) {
            assert!(report.len() <= 1200);
            told.extend(read(&report));
        }
        told.dedup();
        let expected: Vec<_> = (1000 - Reporter::MOST as u64..1000).map(arrival).collect();
        assert!(expected.iter().all(|arrival| told.contains(arrival)));
        assert!(told.len() >= expected.len());
    }

    #[test]
    fn nonsense_is_read_as_little() {
        for report in [&[][..], &[2, 0], &[1], &[1, 5, 7], &[1, 0xff, 0xff], &[1, 5, 3, 4]] {
            assert!(read(report).is_empty(), "{report:?}");
        }
    }
}
