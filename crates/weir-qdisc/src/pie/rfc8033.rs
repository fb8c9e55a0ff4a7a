//! PIE's controller as RFC 8033 sections 4 and 5 and its appendix A have it, in real numbers.

use weir_core::{Duration, Random, Time};

use super::{Control, PieKeys};

/// Above this probability packets are dropped though they could be marked (section 5.1, `mark_ecnth`).
const MARK_AT_MOST: f64 = 0.1;
/// The delay from which the probability grows by 2 % more at each update, in seconds.
const HIGH_DELAY: f64 = 0.25;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rfc8033Pie {
    /// Times in seconds.
    target: f64,
    tupdate: f64,
    alpha: f64,
    beta: f64,
    max_burst: f64,
    bytemode: bool,
    mtu: u32,
    pub(super) prob: f64,
    accumulated: f64,
    pub(super) burst_left: f64,
    delay: f64,
    delay_before: f64,
}

impl Rfc8033Pie {
    pub(super) fn new(keys: &PieKeys, mtu: u32) -> Self {
        Self {
            target: keys.target.as_secs_f64(),
            tupdate: keys.tupdate.as_secs_f64(),
            alpha: keys.alpha,
            beta: keys.beta,
            max_burst: keys.burst.as_secs_f64(),
            bytemode: keys.bytemode,
            mtu,
            prob: 0.0,
            accumulated: 0.0,
            burst_left: keys.burst.as_secs_f64(),
            delay: 0.0,
            delay_before: 0.0,
        }
    }

    /// By how much a step of the probability is divided (section 4.2): less and less as it grows.
    pub(super) fn damping(prob: f64) -> f64 {
        const STEPS: [(f64, f64); 6] =
            [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];
        STEPS.iter().find(|(below, _)| prob < *below).map_or(1.0, |(_, by)| *by)
    }

    fn is_calm(&self) -> bool {
        self.delay < self.target / 2.0 && self.delay_before < self.target / 2.0
    }
}

impl Control for Rfc8033Pie {
    fn drops(&mut self, backlog: u64, wire_bytes: u32, random: &mut Random) -> bool {
        if self.prob == 0.0 && self.is_calm() {
            self.burst_left = self.max_burst;
        }
        if self.burst_left > 0.0
            || (self.delay_before < self.target / 2.0 && self.prob < 0.2)
            || backlog <= 2 * u64::from(self.mtu)
        {
            return false;
        }
        let scale = if self.bytemode { f64::from(wire_bytes) / f64::from(self.mtu) } else { 1.0 };
        let prob = self.prob * scale.min(1.0);
        self.accumulated = if self.prob == 0.0 { 0.0 } else { self.accumulated + prob };
        if self.accumulated < 0.85 {
            return false;
        }
        let drops = self.accumulated >= 8.5 || random.unit() < prob;
        if drops {
            self.accumulated = 0.0;
        }
        drops
    }

    fn may_mark(&self) -> bool {
        self.prob <= MARK_AT_MOST
    }

    fn dropped(&mut self) {
        self.accumulated = 0.0;
    }

    fn departed(&mut self, sojourn: Duration, _: Time, backlog: u64, _: u32) {
        self.delay = if backlog == 0 { 0.0 } else { sojourn.as_secs_f64() };
    }

    fn update(&mut self, _: u64) {
        let far = self.alpha * (self.delay - self.target) + self.beta * (self.delay - self.delay_before);
        let mut step = far / Self::damping(self.prob);
        if self.prob >= 0.1 {
            step = step.min(0.02);
        }
        if self.delay > HIGH_DELAY {
            step += 0.02;
        }
        self.prob += step;
        if self.delay == 0.0 && self.delay_before == 0.0 {
            self.prob *= 0.98;
        }
        self.prob = self.prob.clamp(0.0, 1.0);
        self.delay_before = self.delay;
        self.burst_left = (self.burst_left - self.tupdate).max(0.0);
    }
}
