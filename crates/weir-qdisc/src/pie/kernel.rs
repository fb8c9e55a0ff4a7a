//! PIE's controller as in Linux: `pie_drop_early`, `pie_process_dequeue` and `pie_calculate_probability`, with or without
//! the estimator of the departure rate.

use weir_core::{Duration, Random, Time};

use super::{Control, PieKeys};

/// Nanoseconds in a tick of the kernel's packet scheduler, as a shift (`PSCHED_SHIFT`).
const TICK_SHIFT: u32 = 6;
const TICKS_PER_SEC: u64 = 1_000_000_000 >> TICK_SHIFT;
/// A probability of one (`MAX_PROB`).
pub(super) const ONE: u64 = u64::MAX >> 8;
/// The delay from which the probability grows by 2 % more at each update.
const HIGH_DELAY: u64 = 250_000_000 >> TICK_SHIFT;

/// The departure rate is measured over at least so many bytes, while at least so many wait (`QUEUE_THRESHOLD`).
const MEASURED_BYTES: u64 = 16_384;
/// Rates are in bytes of 2^-8 for a tick (`PIE_SCALE`).
const RATE_SCALE: u32 = 8;

/// What is known of the departure rate (`dq_rate_estimator`).
#[derive(Clone, Debug, Default, PartialEq)]
struct Departures {
    /// Bytes that have left in the measurement that is under way, and when it began, in ticks.
    measured: Option<(u64, u64)>,
    /// The average, weight 1/8; 0 before the first measurement.
    rate: u64,
}

impl Departures {
    /// A packet has left and `backlog` bytes stay. Returns the ticks of a measurement that ends with it.
    fn departed(&mut self, tick: u64, backlog: u64, wire_bytes: u32) -> Option<u64> {
        if backlog >= MEASURED_BYTES {
            self.measured.get_or_insert((0, tick));
        }
        let (bytes, since) = self.measured.as_mut()?;
        *bytes += u64::from(wire_bytes);
        let passed = tick - *since;
        if *bytes < MEASURED_BYTES || passed == 0 {
            return None;
        }
        let rate = (*bytes << RATE_SCALE) / passed;
        self.rate = if self.rate == 0 { rate } else { self.rate - (self.rate >> 3) + (rate >> 3) };
        // Below the threshold the last rate holds.
        self.measured = (backlog >= MEASURED_BYTES).then_some((0, tick));
        Some(passed)
    }

    /// How long `backlog` bytes take at the average, in ticks; nothing before there is one.
    fn delay(&self, backlog: u64) -> u64 {
        (backlog << RATE_SCALE).checked_div(self.rate).unwrap_or(0)
    }
}

const fn ticks(duration: Duration) -> u64 {
    duration.as_nanos() >> TICK_SHIFT
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KernelPie {
    target: u64,
    /// In sixteenths of a Hz.
    alpha: u64,
    beta: u64,
    burst: u64,
    bytemode: bool,
    mtu: u32,
    /// Of `ONE`, or somewhat more.
    pub(super) prob: u64,
    /// The sum of the probabilities of packets that were not dropped.
    accumulated: u64,
    pub(super) burst_left: u64,
    /// Sojourn time of the last packet that left, in ticks; with the estimator the delay at the last update.
    delay: u64,
    delay_before: u64,
    last_departure: Option<u64>,
    departures: Option<Departures>,
}

impl KernelPie {
    pub(crate) fn new(keys: &PieKeys, mtu: u32) -> Self {
        let sixteenths = |hertz: f64| (hertz * 16.0).round() as u64;
        Self {
            target: ticks(keys.target),
            alpha: sixteenths(keys.alpha),
            beta: sixteenths(keys.beta),
            burst: ticks(keys.burst),
            bytemode: keys.bytemode,
            mtu,
            prob: 0,
            accumulated: 0,
            burst_left: ticks(keys.burst),
            delay: 0,
            delay_before: 0,
            last_departure: None,
            departures: keys.dq_rate_estimator.then(Departures::default),
        }
    }

    /// The probability, of `ONE`.
    #[cfg(test)]
    pub(crate) fn prob(&self) -> u64 {
        self.prob
    }

    /// The gains for one tick of delay: smaller while the probability is low.
    pub(super) fn gains(&self) -> (u64, u64) {
        let scaled = |sixteenths: u64| (sixteenths * (ONE / TICKS_PER_SEC)) >> 4;
        let mut shift = 0;
        if self.prob < ONE / 10 {
            shift = 1;
            let mut power = 100;
            while power <= 1_000_000 && self.prob < ONE / power {
                shift += 2;
                power *= 10;
            }
        }
        (scaled(self.alpha) >> shift, scaled(self.beta) >> shift)
    }
}

impl Control for KernelPie {
    fn drops(&mut self, backlog: u64, wire_bytes: u32, random: &mut Random) -> bool {
        if self.burst_left > 0
            || (self.delay < self.target / 2 && self.prob < ONE / 5)
            || backlog < 2 * u64::from(self.mtu)
        {
            return false;
        }
        let prob = if self.bytemode && wire_bytes <= self.mtu {
            u64::from(wire_bytes) * (self.prob / u64::from(self.mtu))
        } else {
            self.prob
        };
        self.accumulated = if prob == 0 { 0 } else { self.accumulated.wrapping_add(prob) };
        if self.accumulated < ONE / 100 * 85 {
            return false;
        }
        if self.accumulated >= ONE / 2 * 17 {
            return true;
        }
        let drops = random.next_u64() >> 8 < prob;
        if drops {
            self.accumulated = 0;
        }
        drops
    }

    fn may_mark(&self) -> bool {
        self.prob <= ONE / 10
    }

    fn dropped(&mut self) {
        self.accumulated = 0;
    }

    fn departed(&mut self, sojourn: Duration, now: Time, backlog: u64, wire_bytes: u32) {
        // The kernel subtracts two readings of its clock, so that each is truncated alone.
        let tick = now.as_nanos() >> TICK_SHIFT;
        if let Some(departures) = &mut self.departures {
            let passed = departures.departed(tick, backlog, wire_bytes).unwrap_or(0);
            self.burst_left = self.burst_left.saturating_sub(passed);
            return;
        }
        let arrived = now.as_nanos().saturating_sub(sojourn.as_nanos()) >> TICK_SHIFT;
        self.delay = if backlog == 0 { 0 } else { tick - arrived };
        let passed = self.last_departure.map_or(0, |last| tick - last);
        self.last_departure = Some(tick);
        self.burst_left = self.burst_left.saturating_sub(passed);
    }

    fn update(&mut self, backlog: u64) {
        let (alpha, beta) = self.gains();
        if let Some(departures) = &self.departures {
            (self.delay_before, self.delay) = (self.delay, departures.delay(backlog));
        }
        let (delay, before) = (self.delay, self.delay_before);
        let far = delay.wrapping_sub(self.target);
        let growth = delay.wrapping_sub(before);
        let mut delta = alpha.wrapping_mul(far).wrapping_add(beta.wrapping_mul(growth)) as i64;
        if delta > (ONE / 50) as i64 && self.prob >= ONE / 10 {
            delta = (ONE / 100 * 2) as i64;
        }
        if delay > HIGH_DELAY {
            delta = delta.wrapping_add((ONE / 50) as i64);
        }
        let mut may_decay = delay > 0 || backlog == 0;
        let sum = self.prob.checked_add_signed(delta);
        self.prob = match sum {
            Some(prob) => prob,
            None if delta > 0 => {
                may_decay = false;
                ONE
            }
            None => 0,
        };
        if delay == 0 && before == 0 && may_decay {
            self.prob -= self.prob / 64;
        }
        let is_measured = self.departures.as_ref().is_none_or(|departures| departures.rate > 0);
        if delay < self.target / 2 && before < self.target / 2 && self.prob == 0 && is_measured {
            self.burst_left = self.burst;
            self.last_departure = None;
            self.accumulated = 0;
            self.departures = self.departures.as_ref().map(|_| Departures::default());
        }
        if self.departures.is_none() {
            self.delay_before = delay;
        }
    }
}
