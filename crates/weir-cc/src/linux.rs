//! What the kernel's TCP does around a window rule: the states Open, CWR, Recovery and Loss, one reduction per window
//! of data, and proportional rate reduction while it lasts. Sources: `net/ipv4/tcp_input.c` (`tcp_fastretrans_alert`,
//! `tcp_cwnd_reduction`, `tcp_enter_loss`, `tcp_cong_control`), RFC 6937 and RFC 9937 (PRR), RFC 3168 section 6.1.2.
//!
//! | kernel | here |
//! |---|---|
//! | an ECN echo in Open begins CWR, a loss begins Recovery; both reduce once until `snd_una` reaches `high_seq` (in CWR: passes it) | the same, in packets of the stream |
//! | a loss during CWR turns it into Recovery with the same `high_seq`; no second reduction, unless the rule makes one (`dctcp_state`) | the same, [`WindowRule::reduce_again`] |
//! | `snd_cwnd` while reducing: PRR with the slow-start reduction bound (RFC 6937); the threshold when it ends | the same |
//! | a recovery that ends while packets declared lost have not arrived is followed by the next, with a reduction of its own (`tcp_try_undo_recovery`, then `tcp_time_to_recover`: `lost_out`) | the same, [`Ack::missing`] |
//! | a loss found by a timer counts as one packet delivered and one lost (`tcp_rack_reo_timeout`) | the same |
//! | no growth while reducing (so DCTCP has no additive increase in a round with marks) | the same |
//! | growth only for cumulative acknowledgements (`tcp_may_raise_cwnd`), and only if the window bounded what was sent | the same; the transport says what bounded it |
//! | RTO: threshold reduced unless a reduction is under way, window of one packet, Loss until all that was outstanding has arrived | the same |
//! | undo of reductions found needless (DSACK, Eifel, F-RTO) | none: virtual paths reorder only if configured to |
//! | `tcp_cwnd_restart` after idling longer than an RTO (`tcp_slow_start_after_idle`, on by default) | the same, in [`Controller::on_sent`] |
//! | `CA_EVENT_TX_START` | [`WindowRule::resume`] |

use weir_core::{Duration, Time};

use crate::episode::State;
use crate::{Ack, Controller, EcnUse, Sent, Setup, Signal, Timeout, Window, WindowRule};

/// Proportional rate reduction (RFC 6937; the kernel always uses its slow-start reduction bound).
#[derive(Clone, Copy, Debug, Default)]
struct Reduction {
    /// The window when it began, in packets.
    prior_window: u64,
    /// Delivered since.
    delivered: u64,
    /// Sent since.
    sent: u64,
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
    /// Whether anything arrived since the last timeout.
    progress: bool,
    /// When the sender last sent something, and the timeout after which its window is stale.
    last_sent: Time,
    stale_after: Duration,
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
            progress: true,
            last_sent: Time::ZERO,
            stale_after: Duration::from_secs(1),
            initial: setup.initial_window,
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

    fn reducing(&self) -> bool {
        matches!(self.state, State::Cwr | State::Recovery)
    }

    fn begin_reduction(&mut self, signal: Signal, ack: &Ack) {
        self.reduction = Reduction { prior_window: u64::from(self.window.packets), ..Reduction::default() };
        self.window.threshold = self.rule.reduce(&self.window, signal, ack.now).max(2);
        self.window.credit = 0;
        self.high = ack.next;
    }

    /// `tcp_fastretrans_alert`: what this acknowledgement does to the state.
    fn change_state(&mut self, ack: &Ack) {
        let over = match self.state {
            State::Open => false,
            State::Cwr => ack.una > self.high,
            State::Recovery | State::Loss => ack.una >= self.high,
        };
        if over {
            if self.reducing() {
                self.window.packets = self.window.threshold;
            }
            self.state = State::Open;
        }
        let lost = ack.missing > 0;
        match self.state {
            State::Open if lost => {
                self.begin_reduction(Signal::Loss, ack);
                self.state = State::Recovery;
            }
            State::Cwr if lost => {
                if let Some(threshold) = self.rule.reduce_again(&self.window, ack.now) {
                    self.window.threshold = threshold.max(2);
                }
                self.state = State::Recovery;
            }
            State::Open if ack.echo && self.rule.ecn() != EcnUse::Off => {
                self.begin_reduction(Signal::Mark, ack);
                self.state = State::Cwr;
            }
            _ => {}
        }
    }

    /// `tcp_cwnd_reduction`: how many packets may be in flight after this acknowledgement.
    fn reduce_in_proportion(&mut self, ack: &Ack, advanced: bool) {
        let by_timer = ack.delivered.packets == 0;
        if by_timer && ack.lost.packets == 0 {
            return;
        }
        let delivered = u64::from(ack.delivered.packets).max(1);
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
        // The first packet of a reduction goes out at once: the retransmission.
        let send = send.max(u64::from(state.sent == 0));
        self.window.packets = (in_flight + send).min(u64::from(u32::MAX)) as u32;
    }

    /// `tcp_slow_start_after_idle_check` and `tcp_cwnd_restart`.
    fn restart(&mut self, idle: Duration) {
        let mut timeouts = idle.as_nanos() / self.stale_after.as_nanos().max(1);
        if timeouts == 0 {
            return;
        }
        let packets = self.window.packets;
        let floor = packets.min(self.initial);
        self.window.threshold = self.window.threshold.max(packets / 2 + packets / 4);
        while timeouts > 0 && self.window.packets > floor {
            self.window.packets = (self.window.packets / 2).max(floor);
            timeouts -= 1;
        }
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
        if sent.restarts && self.last_sent > Time::ZERO {
            if self.state == State::Open {
                self.restart(sent.now.since(self.last_sent));
            }
            self.rule.resume(self.last_sent, sent.now);
        }
        self.last_sent = sent.now;
    }

    fn on_ack(&mut self, ack: &Ack) {
        let advanced = ack.una > self.una;
        self.una = ack.una;
        self.progress |= advanced;
        // RFC 6298 with the kernel's floor of 200 ms; the exact timeout is the transport's affair.
        self.stale_after = Duration::from_nanos((ack.smoothed_rtt.as_nanos() * 2).max(200_000_000));
        self.rule.observe(ack, &mut self.window);
        self.change_state(ack);
        if self.reducing() {
            self.reduce_in_proportion(ack, advanced);
        } else if advanced && ack.delivered.packets > 0 && ack.window_limited {
            self.rule.grow(&mut self.window, ack.delivered.packets, ack);
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        if self.state.timeout_is_news(self.una >= self.high, self.progress) {
            self.window.threshold = self.rule.reduce(&self.window, Signal::Timeout, timeout.now).max(2);
        }
        self.rule.time_out(timeout.now);
        self.state = State::Loss;
        self.high = timeout.next;
        self.progress = false;
        self.window.packets = 1;
        self.window.credit = 0;
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
    use super::{Linux, State};
    use crate::testing::{Fate, Path, setup};
    use crate::{Controller, Cubic, Dctcp, EcnUse, Reno, Sent};
    use weir_core::Duration;

    #[test]
    fn a_loss_halves_the_window_over_one_round_trip() {
        let mut reno = Linux::new(Reno::new(EcnUse::Off), &setup());
        let mut path = Path::grown(&mut reno);
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
        let mut path = Path::grown(&mut reno);
        path.round(&mut reno, |index| index % 4 == 0);
        let threshold = reno.packets().threshold;
        assert!((40..=42).contains(&threshold), "{threshold}");
        path.round(&mut reno, |_| false);
        path.round(&mut reno, |_| false);
        assert_eq!((reno.state, reno.packets().threshold), (State::Open, threshold));
    }

    #[test]
    fn a_loss_while_reducing_for_a_mark_reduces_again_only_if_the_rule_says_so() {
        let mut reno = Linux::new(Reno::new(EcnUse::Classic), &setup());
        let mut dctcp = Linux::new(Dctcp::new(), &setup());
        let mut path = Path::grown(&mut reno);
        path.marked_round(&mut reno, |index| index == 10, |index| index == 0);
        assert_eq!((reno.state, reno.packets().threshold), (State::Recovery, 40));
        let mut path = Path::grown(&mut dctcp);
        path.marked_round(&mut dctcp, |index| index == 10, |index| index == 0);
        // Half of what proportional rate reduction had left by then.
        assert_eq!(dctcp.state, State::Recovery);
        assert!((35..39).contains(&dctcp.packets().threshold), "{}", dctcp.packets().threshold);
    }

    #[test]
    fn a_recovery_that_ends_with_something_missing_is_followed_by_another() {
        let mut reno = Linux::new(Reno::new(EcnUse::Off), &setup());
        let mut path = Path::grown(&mut reno);
        path.round(&mut reno, |index| index == 0 || index == 60);
        let (first, until) = (reno.packets().threshold, reno.high);
        assert_eq!((first, reno.state), (40, State::Recovery));
        // New data is lost before what was lost first has all been repaired.
        path.round(&mut reno, |index| index == 4);
        assert!(reno.high > until);
        assert_eq!((reno.packets().threshold, reno.state), (20, State::Recovery));
        for _ in 0..3 {
            path.round(&mut reno, |_| false);
        }
        assert_eq!((reno.packets().threshold, reno.state), (20, State::Open));
    }

    #[test]
    fn idling_halves_the_window_for_each_timeout_down_to_the_initial_one() {
        let mut reno = Linux::new(Reno::new(EcnUse::Off), &setup());
        let path = Path::grown(&mut reno);
        assert_eq!(reno.packets().packets, 80);
        // The timeout is 200 ms on this path; two of them have passed.
        let now = path.now() + Duration::from_millis(500);
        reno.on_sent(&Sent { now, bytes: setup().mss, in_flight: 1448, restarts: true });
        assert_eq!(reno.packets().packets, 20);
        let now = now + Duration::from_secs(9);
        reno.on_sent(&Sent { now, bytes: setup().mss, in_flight: 1448, restarts: true });
        assert_eq!(reno.packets().packets, 10);
    }

    #[test]
    fn what_was_lost_by_a_timeout_is_answered_once() {
        // Of the initial window nothing was acknowledged, of the other what came before it.
        for rounds in [0, 2] {
            let mut reno = Linux::new(Reno::new(EcnUse::Off), &setup());
            let mut path = Path::new(20);
            for _ in 0..rounds {
                path.round(&mut reno, |_| false);
            }
            let window = reno.packets().packets;
            path.round(&mut reno, |_| true);
            path.step(&mut reno, &mut || Fate::Arrives);
            assert_eq!((reno.state, reno.packets().threshold), (State::Loss, window / 2));
            for _ in 0..12 {
                path.round(&mut reno, |_| false);
                assert_eq!(reno.packets().threshold, window / 2, "after {rounds} round trips");
            }
            assert_eq!((reno.state, path.timeouts), (State::Open, 1));
        }
    }

    #[test]
    fn a_timeout_in_the_midst_of_a_recovery_resets_the_rule_without_another_reduction() {
        let mut cubic = Linux::new(Cubic::new(EcnUse::Off, setup().mss), &setup());
        let mut path = Path::grown(&mut cubic);
        path.round(&mut cubic, |index| index == 0);
        let threshold = cubic.packets().threshold;
        assert_eq!(cubic.state, State::Recovery);
        cubic.on_timeout(&path.timeout());
        assert_eq!((cubic.state, cubic.packets().threshold), (State::Loss, threshold));
        let rule = format!("{:?}", cubic.rule());
        assert!(rule.contains("last_max: 0,"), "{rule}");
    }

    #[test]
    fn a_timeout_begins_anew_with_one_packet() {
        let mut reno = Linux::new(Reno::new(EcnUse::Off), &setup());
        let mut path = Path::new(20);
        path.round(&mut reno, |_| false);
        reno.on_timeout(&path.timeout());
        assert_eq!(reno.window(), u64::from(setup().mss));
        assert_eq!(reno.packets().threshold, 10);
    }
}
