//! What the two versions of PCC share: a rate that is tried in monitor intervals, doubled at first until the utility
//! falls. The utility counts in Mbit/s.

use weir_core::{Duration, Random, Rate, Time};

use crate::monitor::{Interval, Monitor};
use crate::{Ack, Controller, EcnUse, Sent, Setup};

/// Bits per second that it never goes below: that of the authors' program.
pub(crate) const LEAST: f64 = 500e3;
/// What may be in flight, in products of rate and smoothed round trip (the program's cap).
const IN_FLIGHT: f64 = 2.5;
/// Fewest packets of an interval.
const FEWEST: f64 = 10.0;

/// By what a version of PCC decides.
pub trait Ascent: Default + Send + Sync {
    /// What it is called in scenarios.
    const NAME: &'static str;

    /// Takes the results of the last trials, and says which rates are tried next.
    fn on_results(&mut self, trials: &mut Trials, results: [Interval; 4]);
}

/// A version of PCC.
#[derive(Clone, Debug)]
pub struct Pcc<A> {
    pub(crate) trials: Trials,
    pub(crate) ascent: A,
}

impl<A: Ascent> Pcc<A> {
    /// A connection that begins. `ecn` only says what its packets carry; it does not answer to marks.
    pub fn new(ecn: EcnUse, setup: &Setup) -> Self {
        Self { trials: Trials::new(ecn, setup), ascent: A::default() }
    }
}

impl<A: Ascent> Controller for Pcc<A> {
    fn name(&self) -> &'static str {
        A::NAME
    }

    fn on_sent(&mut self, sent: &Sent) {
        self.trials.on_sent(sent);
    }

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(results) = self.trials.on_ack(ack) {
            self.ascent.on_results(&mut self.trials, results);
        }
    }

    fn on_timeout(&mut self, _now: Time, _in_flight: u64) {}

    fn window(&self) -> u64 {
        self.trials.window()
    }

    fn pacing(&self) -> Option<Rate> {
        self.trials.pacing()
    }

    fn ecn(&self) -> EcnUse {
        self.trials.ecn
    }
}

/// A sender that tries rates.
#[derive(Clone, Debug)]
pub struct Trials {
    mss: u32,
    pub(crate) ecn: EcnUse,
    pub(crate) random: Random,
    /// Bits per second between trials.
    pub(crate) rate: f64,
    sending: f64,
    smoothed: Duration,
    round_trips: f64,
    monitor: Monitor,
    /// Utility of the last step of the start; `None` once it is over.
    start: Option<f64>,
}

impl Trials {
    pub(crate) fn new(ecn: EcnUse, setup: &Setup) -> Self {
        Self {
            mss: setup.mss.max(1),
            ecn,
            random: setup.random.clone(),
            rate: 1e6,
            sending: 1e6,
            smoothed: Duration::ZERO,
            round_trips: 2.0,
            monitor: Monitor::default(),
            start: Some(f64::NEG_INFINITY),
        }
    }

    pub(crate) fn on_sent(&mut self, sent: &Sent) {
        let least_bits = FEWEST * f64::from(self.mss) * 8.0;
        let of_rtt = self.smoothed.scale(self.round_trips);
        self.monitor.on_sent(sent, |rate| of_rtt.max(Duration::from_nanos((least_bits / rate * 1e9) as u64)));
        self.sending = self.monitor.sending(sent).unwrap_or(self.rate);
    }

    /// Takes note of an acknowledgement; the trials' results when they are there.
    pub(crate) fn on_ack(&mut self, ack: &Ack) -> Option<[Interval; 4]> {
        if self.smoothed == Duration::ZERO && ack.smoothed_rtt > Duration::ZERO {
            self.smoothed = ack.smoothed_rtt;
            self.try_rates(&[self.rate]);
        }
        self.smoothed = ack.smoothed_rtt;
        self.monitor.on_ack(ack);
        let results = self.monitor.results(ack.now)?;
        let mut copy = [Interval::default(); 4];
        copy[..results.len()].copy_from_slice(results);
        Some(copy)
    }

    /// Tries these rates in turn, each for 1.7 to 2.2 round trips.
    pub(crate) fn try_rates(&mut self, rates: &[f64]) {
        self.rate = self.rate.max(LEAST);
        self.round_trips = 1.7 + 0.5 * self.random.unit();
        self.monitor.plan(rates);
    }

    /// Two pairs of trials around the rate, each pair in random order; says which of each pair is the higher.
    pub(crate) fn try_pairs(&mut self, share: f64) -> [bool; 2] {
        let first_is_higher = [0, 1].map(|_| self.random.below(2) == 0);
        let signs = first_is_higher.map(|first| if first { [1.0, -1.0] } else { [-1.0, 1.0] });
        let rates = [signs[0][0], signs[0][1], signs[1][0], signs[1][1]];
        self.rate = self.rate.max(LEAST);
        self.try_rates(&rates.map(|sign| self.rate * (1.0 + sign * share)));
        first_is_higher
    }

    /// While the start lasts: doubles, or goes back a step and ends it. True while it goes on.
    pub(crate) fn start(&mut self, utility: f64) -> bool {
        let Some(last) = self.start else { return false };
        if utility > last {
            self.start = Some(utility);
            self.rate *= 2.0;
            self.try_rates(&[self.rate]);
            return true;
        }
        self.rate /= 2.0;
        self.start = None;
        false
    }

    /// Whether it is still looking for the rate to begin with.
    pub(crate) const fn is_starting(&self) -> bool {
        self.start.is_some()
    }

    pub(crate) fn window(&self) -> u64 {
        let product = IN_FLIGHT * self.sending.max(self.rate) / 8.0 * self.smoothed.as_secs_f64();
        (product as u64).max(FEWEST as u64 * u64::from(self.mss))
    }

    pub(crate) fn pacing(&self) -> Option<Rate> {
        Some(Rate::from_bits_per_sec(self.sending as u64))
    }
}

/// Utilities of the higher and the lower trial of both pairs.
pub(crate) fn pairs(utilities: [f64; 4], first_is_higher: [bool; 2]) -> [(f64, f64); 2] {
    [0, 1].map(|pair| {
        let (first, second) = (utilities[2 * pair], utilities[2 * pair + 1]);
        if first_is_higher[pair] { (first, second) } else { (second, first) }
    })
}
