//! What the versions of PCC share: a rate that is tried in monitor intervals, doubled at first until the utility falls;
//! not doubled where the path's rate is known ([`Setup::rate`]). The utility counts in Mbit/s.

use weir_core::{Duration, Random, Rate, Time};

use crate::monitor::{Interval, MeanRtt, Monitor};
use crate::{Ack, Controller, EcnUse, Sent, Setup, Timeout};

/// In what the senders of the versions differ.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    /// Bits per second that it never goes below.
    pub(crate) least: f64,
    /// What may be in flight, in products of rate and smoothed round trip.
    pub(crate) in_flight: Option<f64>,
    /// Fewest packets of an interval.
    pub(crate) fewest: f64,
    /// Length of an interval in round trips, drawn between these.
    pub(crate) round_trips: (f64, f64),
    /// These are of a mean of which each sample is a quarter, not of the transport's smoothed round trip.
    pub(crate) own_mean: bool,
}

impl Sender {
    /// The papers', with the least rate and the cap of the authors' later program.
    pub(crate) const AUTHORS: Self =
        Self { least: 500e3, in_flight: Some(2.5), fewest: 10.0, round_trips: (1.7, 2.2), own_mean: false };
}

/// By what a version of PCC decides.
pub trait Ascent: Default + Send + Sync {
    /// What it is called in scenarios.
    const NAME: &'static str;

    /// How it sends.
    const SENDER: Sender = Sender::AUTHORS;

    /// Of an interval.
    fn utility(interval: &Interval) -> f64;

    /// Plans the first trials around the rate.
    fn probe(&mut self, trials: &mut Trials);

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
    /// A connection that begins, with trials around the rate of `setup` if that has one. `ecn` only says what its
    /// packets carry; it does not answer to marks.
    pub fn new(ecn: EcnUse, setup: &Setup) -> Self {
        Self { trials: Trials::new(ecn, setup, A::SENDER), ascent: A::default() }
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
        let trials = &mut self.trials;
        if trials.on_ack(ack) {
            if trials.start.is_some() {
                trials.try_rates(&[trials.rate]);
            } else {
                self.ascent.probe(trials);
            }
        }
        let Some(results) = trials.results(ack.now) else { return };
        if trials.start.is_none() {
            self.ascent.on_results(trials, results);
        } else if !trials.start(A::utility(&results[0])) {
            self.ascent.probe(trials);
        }
    }

    fn on_timeout(&mut self, _: &Timeout) {}

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
    sender: Sender,
    pub(crate) ecn: EcnUse,
    pub(crate) random: Random,
    /// Bits per second between trials.
    pub(crate) rate: f64,
    sending: f64,
    smoothed: Duration,
    mean: MeanRtt,
    round_trips: f64,
    monitor: Monitor,
    /// Utility of the last step of the start; `None` once it is over.
    start: Option<f64>,
}

impl Trials {
    fn new(ecn: EcnUse, setup: &Setup, sender: Sender) -> Self {
        let rate = setup.rate.map_or(1e6, |rate| rate.bits_per_sec() as f64).max(sender.least);
        Self {
            mss: setup.mss.max(1),
            sender,
            ecn,
            random: setup.random.clone(),
            rate,
            sending: rate,
            smoothed: Duration::ZERO,
            mean: MeanRtt::default(),
            round_trips: sender.round_trips.0,
            monitor: Monitor::default(),
            start: setup.rate.is_none().then_some(f64::NEG_INFINITY),
        }
    }

    pub(crate) fn on_sent(&mut self, sent: &Sent) {
        let least_bits = self.sender.fewest * f64::from(self.mss) * 8.0;
        let rtt = if self.sender.own_mean { self.mean.get() } else { self.smoothed };
        let of_rtt = rtt.scale(self.round_trips);
        self.monitor.on_sent(sent, |rate| of_rtt.max(Duration::from_nanos((least_bits / rate * 1e9) as u64)));
        self.sending = self.monitor.sending(sent).unwrap_or(self.rate);
    }

    /// Takes note of an acknowledgement. Whether it is the first with a round-trip time, so that intervals can begin.
    fn on_ack(&mut self, ack: &Ack) -> bool {
        let first = self.smoothed == Duration::ZERO && ack.smoothed_rtt > Duration::ZERO;
        self.smoothed = ack.smoothed_rtt;
        self.mean.on_ack(ack);
        self.monitor.on_ack(ack);
        first
    }

    /// The trials' results, when they are there.
    fn results(&self, now: Time) -> Option<[Interval; 4]> {
        let results = self.monitor.results(now)?;
        let mut copy = [Interval::default(); 4];
        copy[..results.len()].copy_from_slice(results);
        Some(copy)
    }

    /// Tries these rates in turn, each for an interval.
    pub(crate) fn try_rates(&mut self, rates: &[f64]) {
        self.rate = self.rate.max(self.sender.least);
        let (least, most) = self.sender.round_trips;
        self.round_trips = least + (most - least) * self.random.unit();
        self.monitor.plan(rates);
    }

    /// Two pairs of trials around the rate, each pair in random order; says which of each pair is the higher.
    pub(crate) fn try_pairs(&mut self, share: f64) -> [bool; 2] {
        let first_is_higher = [0, 1].map(|_| self.random.below(2) == 0);
        let signs = first_is_higher.map(|first| if first { [1.0, -1.0] } else { [-1.0, 1.0] });
        let rates = [signs[0][0], signs[0][1], signs[1][0], signs[1][1]];
        self.rate = self.rate.max(self.sender.least);
        self.try_rates(&rates.map(|sign| self.rate * (1.0 + sign * share)));
        first_is_higher
    }

    /// While the start lasts: doubles, or goes back a step and ends it. True while it goes on.
    fn start(&mut self, utility: f64) -> bool {
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

    pub(crate) fn window(&self) -> u64 {
        let Some(products) = self.sender.in_flight else { return u64::MAX };
        let bytes = products * self.sending.max(self.rate) / 8.0 * self.smoothed.as_secs_f64();
        (bytes as u64).max(self.sender.fewest as u64 * u64::from(self.mss))
    }

    pub(crate) fn pacing(&self) -> Option<Rate> {
        Some(Rate::from_bits_per_sec(self.sending as u64))
    }
}

/// What the higher and the lower trial of both pairs gave.
pub(crate) fn pairs<T: Copy>(results: [T; 4], first_is_higher: [bool; 2]) -> [(T, T); 2] {
    [0, 1].map(|pair| {
        let (first, second) = (results[2 * pair], results[2 * pair + 1]);
        if first_is_higher[pair] { (first, second) } else { (second, first) }
    })
}

#[cfg(test)]
mod tests {
    use super::{Ascent, Pcc};
    use crate::testing::{Fate, Path, setup};
    use crate::{Allegro, Controller, EcnUse, PccPublished, Setup, Vivace};
    use weir_core::Rate;

    /// The first rates at which one sends that is told of 20 Mbit/s.
    fn first_rates<A: Ascent>(mut pcc: Pcc<A>) -> [u64; 3] {
        let mut path = Path::bottleneck(30, 2_000, 60);
        let mut rates = Vec::new();
        while rates.len() < 3 {
            path.step(&mut pcc, &mut || Fate::Arrives);
            let rate = pcc.pacing().unwrap().bits_per_sec();
            if rates.last() != Some(&rate) {
                rates.push(rate);
            }
        }
        rates[1..].sort_unstable();
        [rates[0], rates[1], rates[2]]
    }

    #[test]
    fn those_that_know_the_rate_begin_with_pairs_around_it() {
        let setup = Setup { rate: Some(Rate::from_bits_per_sec(20_000_000)), ..setup() };
        let five_percent = [20_000_000, 19_000_000, 21_000_000];
        assert_eq!(first_rates(Vivace::new(EcnUse::Off, &setup)), five_percent);
        assert_eq!(first_rates(PccPublished::new(EcnUse::Off, &setup)), five_percent);
        assert_eq!(first_rates(Allegro::new(EcnUse::Off, &setup)), [20_000_000, 19_800_000, 20_200_000]);
    }
}
