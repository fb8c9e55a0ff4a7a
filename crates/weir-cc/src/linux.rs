//! What the kernel's TCP does around a window rule: the states Open, CWR, Recovery and Loss, one reduction per window of
//! data, and proportional rate reduction while it lasts. Sources: `net/ipv4/tcp_input.c` (`tcp_fastretrans_alert`,
//! `tcp_cwnd_reduction`, `tcp_enter_loss`, `tcp_cong_control`), RFC 6937 and RFC 9937 (PRR), RFC 3168 section 6.1.2.
//!
//! | kernel | here |
//! |---|---|
//! | an ECN echo in Open begins CWR, a loss begins Recovery; both reduce once until `snd_una` passes `high_seq` | the same, in packets of the stream |
//! | a loss during CWR goes on with the reduction that is under way | the same |
//! | PRR decides what may be sent; the window is the threshold when it ends | the same |
//! | no growth while reducing (so DCTCP has no additive increase in a round with marks) | the same |
//! | growth only if the window bounded what was sent (`tcp_is_cwnd_limited`) | the same, as the transport says |
//! | RTO: threshold reduced, window of one packet, Loss until all that was outstanding has arrived | the same |
//! | undo of reductions found needless (DSACK, Eifel, F-RTO) | none: virtual paths reorder only if told to |
//! | `tcp_cwnd_restart` after idling longer than an RTO (`tcp_slow_start_after_idle`, on by default) | the same, in [`Controller::on_sent`] |

use weir_core::{Rate, Time};

use crate::{Ack, Controller, EcnUse, Sent, Setup, Signal, Window, WindowRule};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// A reduction for a mark.
    Cwr,
    /// A reduction for a loss.
    Recovery,
    /// After a timeout.
    Loss,
}

/// Proportional rate reduction (RFC 6937; the kernel always uses its slow-start reduction bound).
#[derive(Clone, Copy, Debug, Default)]
struct Reduction {
    prior_window: u64,
    delivered: u64,
    sent: u64,
    /// What may be in flight.
    allowed: u64,
}

/// A window rule under the kernel's TCP.
#[derive(Clone, Debug)]
pub struct Linux<R> {
    rule: R,
    mss: u32,
    window: Window,
    state: State,
    /// The reduction ends when the stream has arrived up to here.
    high: u64,
    reduction: Reduction,
    una: u64,
    next: u64,
    /// When the sender last had something in flight, and the timeout after which its window is stale.
    busy: Time,
    stale_after: weir_core::Duration,
    initial: u32,
}

impl<R: WindowRule> Linux<R> {
    /// A connection that begins.
    pub fn new(rule: R, setup: &Setup) -> Self {
        Self {
            rule,
            mss: setup.mss.max(1),
            window: Window::new(setup.initial_window),
            state: State::Open,
            high: 0,
            reduction: Reduction::default(),
            una: 0,
            next: 0,
            busy: Time::ZERO,
            stale_after: weir_core::Duration::from_secs(1),
            initial: setup.initial_window,
        }
    }

    /// The rule, to be asked for its state.
    pub const fn rule(&self) -> &R {
        &self.rule
    }

    /// The window as the rule sees it, in packets.
    pub const fn packets(&self) -> Window {
        self.window
    }

    fn reducing(&self) -> bool {
        matches!(self.state, State::Cwr | State::Recovery)
    }

    fn begin_reduction(&mut self, signal: Signal, ack: &Ack) {
        self.reduction = Reduction {
            prior_window: u64::from(self.window.packets),
            allowed: ack.in_flight.div_ceil(u64::from(self.mss)),
            ..Reduction::default()
        };
        self.window.threshold = self.rule.reduce(&self.window, signal, ack.now).max(2);
        self.window.credit = 0;
        self.high = ack.next;
    }

    /// How many packets may be in flight after this acknowledgement.
    fn reduce_in_proportion(&mut self, ack: &Ack, advanced: bool) {
        let delivered = u64::from(ack.delivered.packets);
        let in_flight = ack.in_flight.div_ceil(u64::from(self.mss));
        let threshold = u64::from(self.window.threshold);
        let state = &mut self.reduction;
        state.delivered += delivered;
        let send = if in_flight > threshold {
            (threshold * state.delivered).div_ceil(state.prior_window.max(1)).saturating_sub(state.sent)
        } else {
            let owed = state.delivered.saturating_sub(state.sent).max(delivered);
            let owed = if advanced && ack.lost.packets == 0 { owed + 1 } else { owed };
            owed.min(threshold - in_flight)
        };
        // The first packet of a reduction goes out at once: the retransmission (RFC 6937 section 3).
        let send = send.max(u64::from(state.sent == 0));
        state.allowed = in_flight + send;
    }
}

impl<R: WindowRule> Controller for Linux<R> {
    fn name(&self) -> &'static str {
        self.rule.name()
    }

    fn on_sent(&mut self, sent: &Sent) {
        if self.reducing() {
            self.reduction.sent += 1;
        }
        if sent.restarts && self.state == State::Open && self.busy > Time::ZERO {
            let idle = sent.now.since(self.busy);
            let mut timeouts = idle.as_nanos() / self.stale_after.as_nanos().max(1);
            if timeouts > 0 {
                let floor = self.window.packets.min(self.initial);
                self.window.threshold = self.window.threshold.max(self.window.packets / 4 * 3);
                while timeouts > 0 && self.window.packets > floor {
                    self.window.packets = (self.window.packets / 2).max(floor);
                    timeouts -= 1;
                }
            }
            self.rule.resume(self.busy, sent.now);
        }
        self.busy = sent.now;
    }

    fn on_ack(&mut self, ack: &Ack) {
        let advanced = ack.una > self.una;
        self.una = ack.una;
        self.next = ack.next;
        self.busy = ack.now;
        // RFC 6298 with the kernel's floor of 200 ms; the exact timeout is the transport's affair.
        self.stale_after =
            weir_core::Duration::from_nanos((ack.smoothed_rtt.as_nanos() * 2).max(200_000_000));
        self.rule.observe(ack, &mut self.window);

        if self.state != State::Open && ack.una >= self.high {
            if self.reducing() {
                self.window.packets = self.window.threshold;
            }
            self.state = State::Open;
        }
        if ack.lost.packets > 0 && matches!(self.state, State::Open | State::Cwr) {
            if self.state == State::Open {
                self.begin_reduction(Signal::Loss, ack);
            } else {
                self.high = ack.next;
            }
            self.state = State::Recovery;
        } else if ack.echo && self.state == State::Open && self.rule.ecn() != EcnUse::Off {
            self.begin_reduction(Signal::Mark, ack);
            self.state = State::Cwr;
        }
        if self.reducing() {
            self.reduce_in_proportion(ack, advanced);
        } else if ack.delivered.packets > 0 && ack.window_limited {
            self.rule.grow(&mut self.window, ack.delivered.packets, ack);
        }
    }

    fn on_timeout(&mut self, now: Time, _in_flight: u64) {
        if self.state != State::Loss {
            if !self.reducing() || self.una >= self.high {
                self.window.threshold = self.rule.reduce(&self.window, Signal::Timeout, now).max(2);
            }
            self.state = State::Loss;
            self.high = self.next;
        }
        self.window.packets = 1;
        self.window.credit = 0;
    }

    fn window(&self) -> u64 {
        let packets = if self.reducing() { self.reduction.allowed } else { u64::from(self.window.packets) };
        packets * u64::from(self.mss)
    }

    fn pacing(&self) -> Option<Rate> {
        None
    }

    fn ecn(&self) -> EcnUse {
        self.rule.ecn()
    }
}

#[cfg(test)]
mod tests {
    use super::{Linux, State};
    use crate::testing::{Path, setup};
    use crate::{Controller, EcnUse, Reno};

    #[test]
    fn a_loss_halves_the_window_over_one_round_trip() {
        let mut reno = Linux::new(Reno::new(EcnUse::Off), &setup());
        let mut path = Path::new(20);
        // Slow start to 80 packets, then one loss.
        for _ in 0..3 {
            path.round(&mut reno, |_| false);
        }
        assert_eq!(reno.packets().packets, 80);
        let sent = path.round(&mut reno, |index| index == 0);
        assert_eq!(reno.state, State::Recovery);
        // PRR lets one packet out for every two that arrive.
        assert!((38..=43).contains(&sent), "{sent}");
        path.round(&mut reno, |_| false);
        // What arrived before the loss was known grew the window by a packet or three.
        assert_eq!(reno.state, State::Open);
        assert!((40..=42).contains(&reno.packets().threshold));
        let after = path.round(&mut reno, |_| false);
        assert!((40..=43).contains(&after), "{after}");
        let next = path.round(&mut reno, |_| false);
        assert_eq!(next, after + 1, "one packet more a round trip");
    }

    #[test]
    fn many_losses_of_one_window_are_one_reduction() {
        let mut reno = Linux::new(Reno::new(EcnUse::Off), &setup());
        let mut path = Path::new(20);
        for _ in 0..3 {
            path.round(&mut reno, |_| false);
        }
        path.round(&mut reno, |index| index % 4 == 0);
        let threshold = reno.packets().threshold;
        assert!((40..=42).contains(&threshold), "{threshold}");
        path.round(&mut reno, |_| false);
        path.round(&mut reno, |_| false);
        assert_eq!((reno.state, reno.packets().threshold), (State::Open, threshold));
    }

    #[test]
    fn a_timeout_begins_anew_with_one_packet() {
        let mut reno = Linux::new(Reno::new(EcnUse::Off), &setup());
        let mut path = Path::new(20);
        path.round(&mut reno, |_| false);
        reno.on_timeout(path.now(), 0);
        assert_eq!(reno.window(), u64::from(setup().mss));
        assert_eq!(reno.packets().threshold, 10);
    }
}
