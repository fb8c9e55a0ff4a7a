//! CUBIC by the letter of RFC 9438, in its real numbers. The kernel's is [`Cubic`](crate::Cubic).
//!
//! | RFC 9438 | here |
//! |---|---|
//! | C 0.4, beta 0.7 (section 4.6, also for ECN) | the same |
//! | target W(t + RTT), held within [cwnd, 1.5 cwnd] (4.2); growth (target - cwnd) / cwnd per segment (4.4, 4.5) | the same |
//! | Reno-friendly: W_est grows by 3 (1 - beta) / (1 + beta) = 0.529 segments per window, by 1 once W_est reaches the window before the reduction (4.3) | the same |
//! | fast convergence (4.7) | the same |
//! | after a timeout and after a slow start without loss: K = 0, W_max = the window (4.8, 4.10) | the same |
//! | t does not count while the application limits the sender (5.8) | by [`WindowRule::resume`] |
//! | spurious events (4.9) | none |
//! | HyStart++ (4.10, recommended) | none: slow start ends by a loss or mark |

use weir_core::Time;

use crate::{Ack, EcnUse, Signal, Window, WindowRule};

const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// Growth of the Reno-friendly estimate per window.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// The rule of RFC 9438.
#[derive(Clone, Copy, Debug)]
pub struct Cubic9438 {
    ecn: EcnUse,
    fast_convergence: bool,
    /// The window with its fraction.
    exact: f64,
    /// `W_max`; zero if there was no reduction since the start or a timeout.
    max: f64,
    /// `cwnd_prior`.
    prior: f64,
    estimate: f64,
    /// `K`, seconds.
    k: f64,
    epoch: Option<Time>,
}

impl Cubic9438 {
    /// The rule for a sender that takes part in ECN as `ecn` says.
    pub const fn new(ecn: EcnUse) -> Self {
        Self {
            ecn,
            fast_convergence: true,
            exact: 0.0,
            max: 0.0,
            prior: 0.0,
            estimate: 0.0,
            k: 0.0,
            epoch: None,
        }
    }

    /// The same without fast convergence, which the response function of section 5.1 does not have.
    #[must_use]
    pub const fn without_fast_convergence(self) -> Self {
        Self { fast_convergence: false, ..self }
    }

    fn cubic(&self, seconds: f64) -> f64 {
        C * (seconds - self.k).powi(3) + self.max
    }
}

impl WindowRule for Cubic9438 {
    fn name(&self) -> &'static str {
        "cubic-rfc9438"
    }

    fn ecn(&self) -> EcnUse {
        self.ecn
    }

    fn grow(&mut self, window: &mut Window, acked: u32, ack: &Ack) {
        let mut acked = acked;
        if window.in_slow_start() {
            acked = window.slow_start(acked);
            if acked == 0 {
                return;
            }
        }
        let packets = f64::from(window.packets);
        if !(packets..packets + 1.0).contains(&self.exact) {
            self.exact = packets;
        }
        let epoch = *self.epoch.get_or_insert_with(|| {
            if self.max == 0.0 {
                self.max = packets;
                self.prior = packets;
            }
            self.k = libm::cbrt((self.max - packets).max(0.0) / C);
            self.estimate = packets;
            ack.now
        });
        let acked = f64::from(acked);
        let alpha = if self.estimate >= self.prior { 1.0 } else { ALPHA };
        self.estimate += alpha * acked / self.exact;
        let since = ack.now.since(epoch).as_secs_f64();
        if self.cubic(since) < self.estimate {
            self.exact = self.exact.max(self.estimate);
        } else {
            let ahead = self.cubic(since + ack.smoothed_rtt.as_secs_f64());
            let target = ahead.clamp(self.exact, 1.5 * self.exact);
            self.exact += (target - self.exact) / self.exact * acked;
        }
        self.exact = self.exact.min(f64::from(1 << 26));
        window.packets = self.exact as u32;
    }

    fn reduce(&mut self, window: &Window, _signal: Signal, _now: Time) -> u32 {
        let packets = f64::from(window.packets);
        self.prior = packets;
        let converges = self.fast_convergence && packets < self.max;
        self.max = if converges { packets * (1.0 + BETA) / 2.0 } else { packets };
        self.epoch = None;
        ((packets * BETA) as u32).max(2)
    }

    fn time_out(&mut self, _now: Time) {
        (self.epoch, self.max) = (None, 0.0);
    }

    fn resume(&mut self, since: Time, now: Time) {
        if let Some(epoch) = &mut self.epoch {
            *epoch = (*epoch + now.since(since)).min(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ALPHA, Cubic9438};
    use crate::{EcnUse, Signal, Window, WindowRule};
    use weir_core::Time;

    #[test]
    fn the_curve_passes_through_the_reduced_window_and_the_maximum() {
        let mut cubic = Cubic9438::new(EcnUse::Off);
        let window = Window { packets: 1000, threshold: 1000, credit: 0 };
        assert_eq!(cubic.reduce(&window, Signal::Loss, Time::ZERO), 700);
        cubic.k = libm::cbrt((cubic.max - 700.0) / 0.4);
        assert!((cubic.k - 9.0856).abs() < 1e-3);
        assert!((cubic.cubic(0.0) - 700.0).abs() < 1e-6);
        assert!((cubic.cubic(cubic.k) - 1000.0).abs() < 1e-9);
        assert!((ALPHA - 0.5294).abs() < 1e-4);
        // Fast convergence.
        let window = Window { packets: 800, ..window };
        assert_eq!(cubic.reduce(&window, Signal::Loss, Time::ZERO), 560);
        assert!((cubic.max - 680.0).abs() < 1e-9);
    }
}
