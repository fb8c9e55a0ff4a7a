//! Monitor intervals: a stretch of time in which a sender keeps one rate, and what became of the packets sent in it
//! (PCC, NSDI 2015 section 3.1).

use weir_core::{Duration, Time};

use crate::{Ack, Sent};

/// Most intervals that are planned at once.
pub(crate) const MOST: usize = 4;

/// One interval.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// Payload bits per second.
    pub(crate) rate: f64,
    began: Time,
    /// When its newest packet was sent.
    newest: Time,
    end: Time,
    sent: u64,
    acked: u64,
    lost: u64,
    // Sums for the mean and the slope of round-trip times over the time of sending, in seconds.
    samples: f64,
    times: f64,
    rtts: f64,
    times_squared: f64,
    times_rtts: f64,
}

impl Interval {
    /// Share of what was sent that was lost.
    pub(crate) fn loss(&self) -> f64 {
        self.lost as f64 / (self.acked + self.lost).max(1) as f64
    }

    /// Bits per second as a sender of PCC measures them: of N packets, from the first to the last, so over N - 1 gaps;
    /// those asked for of a lone packet.
    pub(crate) fn sent_rate(&self) -> f64 {
        let length = self.newest.since(self.began).as_secs_f64();
        if length > 0.0 { self.sent as f64 * 8.0 / length } else { self.rate }
    }

    /// Mean round-trip time, seconds; `None` without samples.
    pub(crate) fn mean_rtt(&self) -> Option<f64> {
        (self.samples > 0.0).then(|| self.rtts / self.samples)
    }

    /// By how much the round-trip time grew, seconds per second, by linear regression.
    pub(crate) fn rtt_slope(&self) -> f64 {
        let spread = self.samples * self.times_squared - self.times * self.times;
        if self.samples < 2.0 || spread <= 0.0 {
            return 0.0;
        }
        (self.samples * self.times_rtts - self.times * self.rtts) / spread
    }

    fn covers(&self, sent: Time) -> bool {
        self.began <= sent && sent < self.end
    }
}

/// A mean of the round trips of which each is a quarter when it is new, as the senders of PCC have it
/// (CN-TU/PCC-Uspace).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MeanRtt(Duration);

impl MeanRtt {
    /// Takes note of an acknowledgement's sample; without one of its own before, the transport's serves.
    pub(crate) fn on_ack(&mut self, ack: &Ack) {
        let sample = ack.rtt.unwrap_or(ack.smoothed_rtt);
        let first = self.0 == Duration::ZERO;
        self.0 = if first { sample } else { (self.0 * 3 + ack.rtt.unwrap_or(self.0)) / 4 };
    }

    /// The mean; zero before the first sample.
    pub(crate) const fn get(self) -> Duration {
        self.0
    }
}

/// Runs a plan of intervals and collects their results.
#[derive(Clone, Debug, Default)]
pub(crate) struct Monitor {
    intervals: [Interval; MOST],
    planned: usize,
    started: usize,
    give_up_after: Duration,
}

impl Monitor {
    /// Will send at these rates in turn (at most [`MOST`]), from the next packet on.
    pub(crate) fn plan(&mut self, rates: &[f64]) {
        *self = Self::default();
        for (interval, rate) in self.intervals.iter_mut().zip(rates) {
            interval.rate = *rate;
            self.planned += 1;
        }
    }

    /// A packet was sent; if it begins an interval, that will last `length` (of its rate).
    pub(crate) fn on_sent(&mut self, sent: &Sent, length: impl FnOnce(f64) -> Duration) {
        let running = self.started.checked_sub(1).map(|index| self.intervals[index]);
        let over = running.is_none_or(|interval| sent.now >= interval.end);
        if over && self.started < self.planned {
            let interval = &mut self.intervals[self.started];
            let length = length(interval.rate);
            interval.began = sent.now;
            interval.end = sent.now + length;
            // Feedback that is not there after a few more intervals will not come.
            self.give_up_after = length * 4;
            self.started += 1;
        }
        if let Some(interval) = self.intervals[..self.started].last_mut()
            && interval.covers(sent.now)
        {
            interval.sent += u64::from(sent.bytes);
            interval.newest = sent.now;
        }
    }

    /// The rate of the interval in which a packet was sent, if in one.
    pub(crate) fn sending(&self, sent: &Sent) -> Option<f64> {
        let running = self.intervals[..self.started].last()?;
        running.covers(sent.now).then_some(running.rate)
    }

    /// Takes note of an acknowledgement; its packets count for the interval in which the newest of them was sent.
    pub(crate) fn on_ack(&mut self, ack: &Ack) {
        for interval in &mut self.intervals[..self.started] {
            if ack.delivered.packets > 0 && interval.covers(ack.delivered_sent) {
                interval.acked += ack.delivered.bytes;
                if let Some(rtt) = ack.rtt {
                    let time = ack.delivered_sent.since(interval.began).as_secs_f64();
                    let rtt = rtt.as_secs_f64();
                    interval.samples += 1.0;
                    interval.times += time;
                    interval.rtts += rtt;
                    interval.times_squared += time * time;
                    interval.times_rtts += time * rtt;
                }
            }
            if ack.lost.packets > 0 && interval.covers(ack.lost_sent) {
                interval.lost += ack.lost.bytes;
            }
        }
    }

    /// The plan's intervals, once it is known what became of all of their packets.
    pub(crate) fn results(&self, now: Time) -> Option<&[Interval]> {
        let intervals = &self.intervals[..self.planned];
        let done = self.planned > 0
            && self.started == self.planned
            && intervals.iter().all(|interval| {
                now >= interval.end
                    && (interval.acked + interval.lost >= interval.sent
                        || now.since(interval.end) > self.give_up_after)
            });
        done.then_some(intervals)
    }
}

#[cfg(test)]
mod tests {
    use super::{Interval, Monitor};
    use crate::Sent;
    use weir_core::{Duration, Time};

    #[test]
    fn the_slope_is_that_of_a_line() {
        let mut interval = Interval::default();
        for step in 0..10 {
            let (time, rtt) = (f64::from(step) * 0.01, 0.05 + f64::from(step) * 0.002);
            interval.samples += 1.0;
            interval.times += time;
            interval.rtts += rtt;
            interval.times_squared += time * time;
            interval.times_rtts += time * rtt;
        }
        assert!((interval.rtt_slope() - 0.2).abs() < 1e-9);
        assert!((interval.mean_rtt().unwrap() - 0.059).abs() < 1e-9);
    }

    #[test]
    fn packets_are_counted_over_the_gaps_between_them() {
        let mut monitor = Monitor::default();
        monitor.plan(&[5e6]);
        for ms in [10, 11, 12, 13, 14] {
            let now = Time::from_nanos(ms * 1_000_000);
            monitor.on_sent(&Sent { now, bytes: 1000, in_flight: 1000, restarts: false }, |_| {
                Duration::from_millis(9)
            });
            let expected = if ms == 10 { 5e6 } else { 8e6 * (ms - 9) as f64 / (ms - 10) as f64 };
            assert!((monitor.intervals[0].sent_rate() - expected).abs() < 1.0);
        }
    }
}
