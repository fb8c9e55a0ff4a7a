//! What the sender's transport thought of the path, every 10 ms, in bounded memory.

use serde::Serialize;
use weir_core::{Duration, Time};

/// The most samples one flow keeps: 5 minutes at 10 ms. A longer flow keeps every second, then every fourth.
pub const MAX_SAMPLES: usize = 30_000;

const FIRST_INTERVAL: Duration = Duration::from_millis(10);

/// One look at the sender's transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RttSample {
    /// When, on the run's clock.
    #[serde(rename = "time_ns")]
    pub time: Time,
    /// The smoothed round-trip time in microseconds: TCP's `tcpi_rtt`, or QUIC's estimate (RFC 9002 section 5.3).
    pub rtt_us: u64,
    /// The congestion window in bytes.
    pub cwnd_bytes: u64,
    /// Bytes that the receiver has acknowledged. QUIC: bytes sent in packets that are not known lost, less precise.
    pub delivered_bytes: u64,
    /// Packets retransmitted (TCP's `tcpi_total_retrans`) or declared lost (QUIC) so far.
    pub lost_packets: u64,
    /// TCP: packets that were acknowledged with an ECN echo so far (`tcpi_delivered_ce`).
    /// QUIC: congestion events so far, for loss or marks.
    pub congestion_events: u64,
}

/// Collects samples when they are due, thinning them when there are too many.
#[derive(Debug)]
pub(super) struct Sampler {
    samples: Vec<RttSample>,
    interval: Duration,
    due: Time,
}

impl Sampler {
    pub(super) fn new() -> Self {
        Self { samples: Vec::new(), interval: FIRST_INTERVAL, due: Time::ZERO }
    }

    /// How long until the next sample is wanted; zero if now.
    pub(super) fn wait(&self, now: Time) -> Duration {
        self.due.since(now)
    }

    pub(super) fn push(&mut self, sample: RttSample) {
        if self.samples.len() >= MAX_SAMPLES {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.interval = self.interval * 2;
        }
        self.due = sample.time + self.interval;
        self.samples.push(sample);
    }

    pub(super) fn finish(self) -> Vec<RttSample> {
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, MAX_SAMPLES, RttSample, Sampler, Time};

    #[test]
    fn a_long_flow_is_thinned_not_cut() {
        let mut sampler = Sampler::new();
        let mut now = Time::ZERO;
        while now.as_nanos() < 3_600_000_000_000 {
            assert_eq!(sampler.wait(now), Duration::ZERO);
            sampler.push(RttSample {
                time: now,
                rtt_us: 1,
                cwnd_bytes: 1,
                delivered_bytes: 0,
                lost_packets: 0,
                congestion_events: 0,
            });
            now += sampler.wait(now);
        }
        let samples = sampler.finish();
        assert!(samples.len() <= MAX_SAMPLES && samples.len() > MAX_SAMPLES / 3, "{}", samples.len());
        let gaps: Vec<u64> =
            samples.windows(2).map(|pair| pair[1].time.since(pair[0].time).as_nanos()).collect();
        assert!(gaps.iter().all(|gap| gap % 10_000_000 == 0 && *gap <= 320_000_000));
        assert_eq!(samples[0].time, Time::ZERO);
    }
}
