//! What a QUIC sender does around a window rule: one reduction per recovery period, at once (RFC 9002 section 7.3 and
//! Appendix B).
//!
//! | RFC 9002 Appendix B | here |
//! |---|---|
//! | a loss or a higher CE count begins a recovery period, unless the packet was sent before the present one began | the same |
//! | the window is reduced at once | the same |
//! | no growth for packets sent before the recovery period began | the same, by the newest packet of an acknowledgement |
//! | persistent congestion: the smallest window, two packets | the same, when the transport says so |
//! | no growth when the sender was not limited by the window | the same |
//! | a pause of the application is no time in which CUBIC grows (RFC 9438 section 5.8) | the same, [`WindowRule::resume`] |

use weir_core::Time;

use crate::{Ack, Controller, EcnUse, Sent, Setup, Signal, Timeout, Window, WindowRule};

/// `kMinimumWindow`, in packets.
const MINIMUM: u32 = 2;

/// A window rule under QUIC's loss recovery.
#[derive(Clone, Debug)]
pub struct Rfc9002<R> {
    rule: R,
    mss: u32,
    window: Window,
    /// When the present recovery period began; packets sent until then belong to the congestion that began it.
    recovery: Option<Time>,
    /// When the sender last sent something.
    last_sent: Time,
}

impl<R: WindowRule> Rfc9002<R> {
    /// A connection that begins.
    pub fn new(rule: R, setup: &Setup) -> Self {
        Self {
            rule,
            mss: setup.mss.max(1),
            window: Window::new(setup.initial_window),
            recovery: None,
            last_sent: Time::ZERO,
        }
    }

    /// The rule, to be asked for its state.
    pub const fn rule(&self) -> &R {
        &self.rule
    }

    /// The window, in packets.
    pub const fn packets(&self) -> Window {
        self.window
    }

    fn is_old(&self, sent: Time) -> bool {
        self.recovery.is_some_and(|began| sent <= began)
    }

    fn reduce(&mut self, signal: Signal, now: Time) {
        self.recovery = Some(now);
        self.window.threshold = self.rule.reduce(&self.window, signal, now).max(MINIMUM);
        self.window.packets = self.window.threshold;
        self.window.credit = 0;
    }
}

impl<R: WindowRule> Controller for Rfc9002<R> {
    fn name(&self) -> &'static str {
        self.rule.name()
    }

    fn on_sent(&mut self, sent: &Sent) {
        if sent.restarts && self.last_sent > Time::ZERO {
            self.rule.resume(self.last_sent, sent.now);
        }
        self.last_sent = sent.now;
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.rule.observe(ack, &mut self.window);
        if ack.lost.packets > 0 && !self.is_old(ack.lost_sent) {
            self.reduce(Signal::Loss, ack.now);
        } else if ack.ce.packets > 0 && self.rule.ecn() != EcnUse::Off && !self.is_old(ack.delivered_sent) {
            self.reduce(Signal::Mark, ack.now);
        }
        if ack.delivered.packets > 0 && ack.window_limited && !self.is_old(ack.delivered_sent) {
            self.rule.grow(&mut self.window, ack.delivered.packets, ack);
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.reduce(Signal::Timeout, timeout.now);
        self.rule.time_out(timeout.now);
        self.window.packets = MINIMUM;
        self.recovery = None;
    }

    fn window(&self) -> u64 {
        u64::from(self.window.packets) * u64::from(self.mss)
    }

    fn ecn(&self) -> EcnUse {
        self.rule.ecn()
    }
}

#[cfg(test)]
mod tests {
    use super::Rfc9002;
    use crate::testing::{MSS, Path, setup};
    use crate::{Ack, Controller, EcnUse, Reno, Sent, Signal, Window, WindowRule};
    use weir_core::{Duration, Time};

    /// Notes the pauses that it is told of.
    #[derive(Default)]
    struct Pauses(Vec<(Time, Time)>);

    impl WindowRule for Pauses {
        fn name(&self) -> &'static str {
            "pauses"
        }

        fn ecn(&self) -> EcnUse {
            EcnUse::Off
        }

        fn grow(&mut self, _: &mut Window, _: u32, _: &Ack) {}

        fn reduce(&mut self, window: &Window, _: Signal, _: Time) -> u32 {
            window.packets
        }

        fn resume(&mut self, since: Time, now: Time) {
            self.0.push((since, now));
        }
    }

    #[test]
    fn the_rule_hears_of_pauses_of_the_application() {
        let mut quic = Rfc9002::new(Pauses::default(), &setup());
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        for (second, restarts) in [(1, true), (2, false), (9, true)] {
            quic.on_sent(&Sent { now: at(second), bytes: MSS, in_flight: u64::from(MSS), restarts });
        }
        assert_eq!(quic.rule().0, [(at(2), at(9))]);
    }

    #[test]
    fn a_loss_halves_the_window_at_once_and_only_once() {
        let mut reno = Rfc9002::new(Reno::new(EcnUse::Off), &setup());
        let mut path = Path::grown(&mut reno);
        assert_eq!(reno.packets().packets, 80);
        path.round(&mut reno, |index| index % 4 == 0);
        let reduced = reno.packets().packets;
        assert!((40..=42).contains(&reduced), "{reduced}");
        path.round(&mut reno, |_| false);
        assert!((reduced..=reduced + 1).contains(&reno.packets().packets));
    }
}
