//! A stretch of a sub-flow at one rate, and what became of its packets.

use weir_core::{Duration, Time};

use super::Measure;

/// Packets between a first and a last moment.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    packets: u64,
    bytes: u64,
    /// Bytes of the packet at `first`.
    first_bytes: u64,
    first: Time,
    last: Time,
}

impl Stretch {
    fn add(&mut self, bytes: u32, at: Time) {
        let bytes = u64::from(bytes);
        if self.packets == 0 {
            (self.first, self.last, self.first_bytes) = (at, at, bytes);
        } else if at < self.first {
            (self.first, self.first_bytes) = (at, bytes);
        }
        self.last = self.last.max(at);
        self.packets += 1;
        self.bytes += bytes;
    }

    fn length(&self) -> Duration {
        self.last.since(self.first)
    }
}

fn bits_per_sec(bytes: u64, length: Duration) -> f64 {
    bytes as f64 * 8.0 / length.as_secs_f64()
}

/// An interval that runs, or whose feedback is awaited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    /// A packet sent later does not belong to it.
    pub(super) end: Time,
    rate: f64,
    sent: Stretch,
    arrived: Stretch,
    lost: u64,
    lost_bytes: u64,
}

impl Interval {
    pub(super) fn new(end: Time, rate: f64) -> Self {
        Self { end, rate, sent: Stretch::default(), arrived: Stretch::default(), lost: 0, lost_bytes: 0 }
    }

    pub(super) fn on_sent(&mut self, bytes: u32, now: Time) {
        self.sent.add(bytes, now);
    }

    pub(super) fn on_arrival(&mut self, bytes: u32, at: Time) {
        self.arrived.add(bytes, at);
    }

    pub(super) fn on_loss(&mut self, bytes: u32) {
        self.lost += 1;
        self.lost_bytes += u64::from(bytes);
    }

    /// Whether it is known what became of all of its packets.
    pub(super) const fn is_known(&self) -> bool {
        self.arrived.packets + self.lost >= self.sent.packets
    }

    /// Whether its packets left at more than one moment.
    pub(super) fn has_length(&self) -> bool {
        self.sent.length() > Duration::ZERO
    }

    pub(super) fn measured(&self) -> Measured {
        let (sent, arrived) = (&self.sent, &self.arrived);
        // The program's: N packets over N - 1 gaps. Of a lone packet there is only the rate that it was to have.
        let sent_rate = if self.has_length() { bits_per_sec(sent.bytes, sent.length()) } else { self.rate };
        let survived = 1.0 - self.lost_bytes as f64 / sent.bytes.max(1) as f64;
        let rates = if self.has_length() && arrived.length() > Duration::ZERO {
            let [tx, rx] = [sent, arrived]
                .map(|stretch| bits_per_sec(stretch.bytes - stretch.first_bytes, stretch.length()));
            (tx, rx)
        } else {
            (self.rate, self.rate * survived)
        };
        Measured { lost: self.lost > 0, sent_rate, survived, tx: rates.0, rx: rates.1 }
    }
}

/// What came out of an interval. Rates are in bits of payload per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) lost: bool,
    sent_rate: f64,
    survived: f64,
    tx: f64,
    rx: f64,
}

impl Measured {
    /// Of what was sent, what got through.
    pub(super) fn share(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Losses => self.survived,
            Measure::Rates => self.rx / self.tx,
        }
    }

    /// At which rate it got through.
    pub(super) fn goodput(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Losses => self.sent_rate * self.survived,
            Measure::Rates => self.rx,
        }
    }
}
