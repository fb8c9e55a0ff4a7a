//! Links that do not send one packet after the other.

use std::fmt::{self, Write};
use std::sync::Arc;

use weir_core::{Duration, Random, Rate, Seed};
use weir_sim::{Aggregates, HopSpec, OPPORTUNITY_BYTES, Trace};

/// What kind of link the bottleneck is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Link {
    /// A packet at a time.
    #[default]
    Wire,
    /// The rate is that on the air.
    WiFi(Aggregates),
    /// The rate is the mean of a trace.
    Cellular,
}

/// Packets that a block acknowledgement of 802.11n has bits for.
const BLOCK: u32 = 64;
/// Length of a trace.
const LENGTH_MS: u64 = 60_000;
/// The rate changes so often, each time by a factor of this standard deviation, and stays within this factor of the
/// mean.
const STEP_MS: u64 = 20;
const STEP: f64 = 0.1;
const FARTHEST: f64 = 4.0;

impl Link {
    /// A Wi-Fi link: 0.2 to 5 ms of waiting in front of aggregates of 1 to 5 ms.
    pub(crate) fn wifi(random: &mut Random) -> Self {
        let micros = |random: &mut Random, from, to| {
            Duration::from_micros(super::cases::logarithmic(random, from, to) as u64)
        };
        let (gap, longest) = (micros(random, 200.0, 5e3), micros(random, 1e3, 5e3));
        Self::WiFi(Aggregates { packets: BLOCK, longest, gap })
    }

    /// The row of the tables.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Wire => "wire",
            Self::WiFi(_) => "wi-fi",
            Self::Cellular => "cellular",
        }
    }

    pub(crate) fn apply(self, spec: HopSpec, rate: Rate, seed: Seed) -> HopSpec {
        match self {
            Self::Wire => spec,
            Self::WiFi(aggregates) => spec.aggregates(aggregates),
            Self::Cellular => spec.trace(Arc::new(cellular(rate, &mut seed.stream("trace")))),
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WiFi(Aggregates { longest, gap, .. }) => write!(f, "wi-fi {longest} after {gap}"),
            _ => f.write_str(self.word()),
        }
    }
}

/// A trace like those that Winstein, Sivaraman and Balakrishnan fitted their model to ("Stochastic Forecasts Achieve
/// High Throughput and Low Delay over Cellular Networks", NSDI 2013): opportunities are a Poisson process whose rate
/// takes a random walk.
fn cellular(rate: Rate, random: &mut Random) -> Trace {
    let mean = rate.bits_per_sec() as f64 / 8.0 / f64::from(OPPORTUNITY_BYTES) / 1000.0;
    let mut text = String::new();
    let (mut walk, mut next) = (0.0, 0.0);
    for step in 0..LENGTH_MS / STEP_MS {
        // The sum of twelve even draws has a variance of one.
        let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        walk = (walk + STEP * normal).clamp(-libm::log(FARTHEST), libm::log(FARTHEST));
        let each_ms = mean * libm::exp(walk);
        let end = ((step + 1) * STEP_MS) as f64;
        next = f64::max(next, end - STEP_MS as f64);
        while next < end {
            let _ = writeln!(text, "{}", next as u64 + 1);
            next += -libm::log(1.0 - random.unit()) / each_ms;
        }
    }
    Trace::parse(&text).expect("times that do not go back")
}
