//! BBR from version 2 on: besides the model of version 1, upper bounds of what is in flight, found by probing until
//! losses or marks get too many, and lower bounds that yield to losses and marks in between. One type for versions 2
//! and 3, which differ by [`Bbr3Params`].
//!
//! | `google/bbr`, `tcp_bbr.c` (v3) and `tcp_bbr2.c` (v2) | here |
//! |---|---|
//! | STARTUP, DRAIN, PROBE_BW with DOWN, CRUISE, REFILL, UP, and PROBE_RTT; gains in 1/256 | the same |
//! | round trips by delivery, a second count for losses; bandwidth maximum of the last two probing cycles | the same |
//! | loss or mark rate too high while probing (2 % of what was in flight, 50 %): `inflight_hi` = max(in flight at sending, 0.7 of the target) | the same |
//! | between probes: `bw_lo` and `inflight_lo` times 0.7 for a round with losses (not below what was delivered), `inflight_lo` times 1 - alpha/3 for one with marks | the same |
//! | mark rate alpha: gain 1/16 once a round, begins at 1 | the same |
//! | next probe after 2 to 3 s, or as many rounds as packets in flight, at most 62 to 63 | the same |
//! | 15 % headroom below `inflight_hi` in CRUISE and PROBE_RTT | the same |
//! | PROBE_RTT every 5 s for 200 ms and a round at half the product | the same, times in ns and not jiffies |
//! | each lost packet is judged by itself while probing, and the excess found to the packet | the newest of those declared lost at once ([`Ack::loss`]) |
//! | the handshake's round trip is the first of the shortest | the same, where the handshake met no queue |
//! | packets in the network at the earliest departure time | the packets in flight now (and one goal when probing up) |
//! | fast path when limited by the application (saves CPU) | none |
//! | undo of spurious losses, tail loss probes, PLB | none |
//! | ECT(0) with a DCTCP-like receiver | [`EcnUse::Accurate`] |

mod probe;
mod signals;

use weir_core::{Duration, Random, Rate, Time};

use crate::bbr::{
    Aggregation, BW_UNIT, GSO_MAX, Limited, MAX_HEADER, MIN_WINDOW, NONE, UNIT, bdp, micros, micros_of,
    pacing, packets, rate,
};
use crate::bbr3_params::Bbr3Params;
use crate::episode::{Episode, State};
use crate::{Ack, Controller, EcnUse, RateSample, Sent, Setup, Timeout};

const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
const WINDOW_GAIN: u64 = 2 * UNIT;
const UP_GAIN: u64 = UNIT * 5 / 4;
const FULL_GAIN: u64 = UNIT * 5 / 4;
const FULL_ROUNDS: u32 = 3;
/// A loss cuts to 1 - 0.3.
const LOSS_CUT: u64 = UNIT - UNIT * 30 / 100;
/// Losses are too many above this share.
const LOSS_THRESHOLD: u64 = UNIT * 2 / 100;
const ECN_FACTOR: u64 = UNIT / 3;
const ECN_THRESHOLD: u64 = UNIT / 2;
const ECN_GAIN: u64 = UNIT / 16;
const FULL_ECN_ROUNDS: u32 = 2;
const HEADROOM: u64 = UNIT * 15 / 100;
const MIN_RTT_US: u64 = 10_000_000;
const PROBE_RTT_INTERVAL_US: u64 = 5_000_000;
const PROBE_RTT_US: u64 = 200_000;
const PROBE_RTT_GAIN: u64 = UNIT / 2;
const PROBE_WAIT_US: u64 = 2_000_000;
const PROBE_WAIT_RANDOM_US: u64 = 1_000_000;
const PROBE_ROUNDS: u32 = 63;
const PROBE_ROUNDS_RANDOM: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw(Phase),
    ProbeRtt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Up,
    Down,
    Cruise,
    Refill,
}

/// What the acknowledgements that arrive say of the last probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feedback {
    None,
    Refilling,
    Starting,
    Arriving,
    Stopping,
}

/// What one acknowledgement was found to mean.
#[derive(Clone, Copy, Debug, Default)]
struct Context {
    bw: u64,
    /// Packets delivered in the sample.
    delivered: u32,
    ce: u32,
    lost: u32,
    in_flight_at_send: u32,
    limited: bool,
    /// The sample can be used.
    valid: bool,
}

/// BBR, version 2 or 3.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    params: Bbr3Params,
    mss: u32,
    /// Whether the clocks of the filters run; they begin with the connection's first packet.
    started: bool,
    initial: u32,
    random: Random,
    episode: Episode,
    prior_state: State,
    mode: Mode,
    window: u32,
    prior_window: u32,
    pacing: u64,
    pacing_gain: u64,
    window_gain: u64,
    seen_rtt: bool,
    app_limited: bool,
    idle_restart: bool,
    aggregation: Aggregation,
    limited: Limited,
    // Rounds.
    round_end: u64,
    round_start: bool,
    loss_round_end: u64,
    loss_round_start: bool,
    // The path.
    bw_max: [u64; 2],
    bw_latest: u64,
    bw_lo: u64,
    in_flight_latest: u32,
    in_flight_lo: u32,
    in_flight_hi: u32,
    min_rtt_us: Option<u64>,
    min_rtt_at: u64,
    probe_rtt_min_us: u64,
    probe_rtt_min_at: u64,
    probe_rtt_until: Option<u64>,
    probe_rtt_round: bool,
    full: bool,
    full_now: bool,
    full_bw: u64,
    full_rounds: u32,
    // Congestion.
    loss_in_round: bool,
    loss_in_cycle: bool,
    loss_events: u32,
    ecn_in_round: bool,
    ecn_in_cycle: bool,
    ecn_eligible: bool,
    ecn_alpha: u64,
    ecn_rounds: u32,
    delivered_ce: u64,
    alpha_delivered: u64,
    alpha_ce: u64,
    // Probing.
    feedback: Feedback,
    cycle_us: u64,
    wait_us: u64,
    rounds_since_probe: u32,
    probe_samples: bool,
    probe_too_high: bool,
    probe_stopped: bool,
    up_rounds: u32,
    up_per: u32,
    up_acked: u32,
}

impl Bbr3 {
    /// A connection that begins.
    pub fn new(params: Bbr3Params, setup: &Setup) -> Self {
        let mss = setup.mss.max(1);
        let window = setup.initial_window.max(1);
        let gain = u64::from(params.startup_pacing_gain);
        Self {
            params,
            mss,
            started: false,
            initial: window.min(127),
            random: setup.random.clone(),
            episode: Episode::default(),
            prior_state: State::Open,
            mode: Mode::Startup,
            window,
            prior_window: 0,
            pacing: pacing(u64::from(window) * BW_UNIT / 1000, gain, mss),
            pacing_gain: gain,
            window_gain: u64::from(params.startup_window_gain),
            seen_rtt: false,
            app_limited: false,
            idle_restart: false,
            aggregation: Aggregation::default(),
            limited: Limited::default(),
            round_end: 0,
            round_start: false,
            loss_round_end: 1,
            loss_round_start: false,
            bw_max: [0; 2],
            bw_latest: 0,
            bw_lo: u64::MAX,
            in_flight_latest: 0,
            in_flight_lo: NONE,
            in_flight_hi: NONE,
            min_rtt_us: None,
            min_rtt_at: 0,
            probe_rtt_min_us: u64::MAX,
            probe_rtt_min_at: 0,
            probe_rtt_until: None,
            probe_rtt_round: false,
            full: false,
            full_now: false,
            full_bw: 0,
            full_rounds: 0,
            loss_in_round: false,
            loss_in_cycle: false,
            loss_events: 0,
            ecn_in_round: false,
            ecn_in_cycle: false,
            ecn_eligible: false,
            ecn_alpha: UNIT,
            ecn_rounds: 0,
            delivered_ce: 0,
            alpha_delivered: 0,
            alpha_ce: 0,
            feedback: Feedback::None,
            cycle_us: 0,
            wait_us: 0,
            rounds_since_probe: 0,
            probe_samples: false,
            probe_too_high: false,
            probe_stopped: false,
            up_rounds: 0,
            up_per: NONE,
            up_acked: 0,
        }
    }

    fn max_bw(&self) -> u64 {
        self.bw_max[0].max(self.bw_max[1])
    }

    fn bw(&self) -> u64 {
        self.max_bw().min(self.bw_lo)
    }

    fn bdp(&self, bw: u64, gain: u64) -> u32 {
        self.min_rtt_us.map_or(self.initial, |us| bdp(bw, us, gain))
    }

    /// Packets handed down at once: more on short paths.
    fn goal(&self) -> u32 {
        let halvings = self.min_rtt_us.unwrap_or(u64::MAX) >> 9;
        let by_rtt = if halvings < 32 { GSO_MAX >> halvings } else { 0 };
        let bytes = ((self.pacing >> 10) + by_rtt).min(GSO_MAX - 1 - MAX_HEADER);
        ((bytes / u64::from(self.mss)) as u32).max(2)
    }

    fn with_budget(&self, window: u32) -> u32 {
        let window = window.max(3 * self.goal()).max(MIN_WINDOW);
        if self.mode == Mode::ProbeBw(Phase::Up) { window + 2 } else { window }
    }

    fn in_flight_for(&self, bw: u64, gain: u64) -> u32 {
        self.with_budget(self.bdp(bw, gain))
    }

    fn in_network(&self, in_flight: u32) -> u32 {
        if self.pacing_gain > UNIT { in_flight + self.goal() } else { in_flight }
    }

    fn target_in_flight(&self) -> u32 {
        self.in_flight_for(self.bw(), UNIT).min(self.window)
    }

    fn probe_rtt_window(&self) -> u32 {
        self.bdp(self.bw(), PROBE_RTT_GAIN).max(MIN_WINDOW)
    }

    fn with_headroom(&self) -> u32 {
        if self.in_flight_hi == NONE {
            return NONE;
        }
        let headroom = ((u64::from(self.in_flight_hi) * HEADROOM) >> 8).max(1) as u32;
        self.in_flight_hi.saturating_sub(headroom).max(MIN_WINDOW)
    }

    fn is_probing(&self) -> bool {
        matches!(self.mode, Mode::Startup | Mode::ProbeBw(Phase::Refill | Phase::Up))
    }

    fn start(&mut self, now: Time) {
        if !self.started {
            self.started = true;
            (self.min_rtt_at, self.probe_rtt_min_at) = (micros(now), micros(now));
            self.aggregation.restart(now);
        }
    }

    fn save_window(&mut self) {
        let good = self.prior_state < State::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_window = if good { self.window } else { self.prior_window.max(self.window) };
    }

    // The shortest round trip.

    fn update_min_rtt(&mut self, ack: &Ack) {
        let now_us = micros(ack.now);
        let probe_expired = now_us > self.probe_rtt_min_at + PROBE_RTT_INTERVAL_US;
        if let Some(rtt) = ack.rtt {
            let rtt = micros_of(rtt);
            let renewed = self.params.min_rtt_inclusive && rtt == self.probe_rtt_min_us;
            if probe_expired || renewed || rtt < self.probe_rtt_min_us {
                (self.probe_rtt_min_us, self.probe_rtt_min_at) = (rtt, now_us);
            }
        }
        let expired = now_us > self.min_rtt_at + MIN_RTT_US;
        if self.probe_rtt_min_us < u64::MAX
            && (expired || self.min_rtt_us.is_none_or(|shortest| self.probe_rtt_min_us <= shortest))
        {
            (self.min_rtt_us, self.min_rtt_at) = (Some(self.probe_rtt_min_us), self.probe_rtt_min_at);
        }
        if probe_expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_window();
            self.probe_rtt_until = None;
            self.feedback = Feedback::Stopping;
            self.round_end = ack.total_delivered;
        }
        if self.mode == Mode::ProbeRtt {
            let in_flight = packets(ack.in_flight, self.mss);
            self.limited.extend(ack.total_delivered, in_flight);
            if self.probe_rtt_until.is_none() {
                if in_flight <= self.probe_rtt_window() {
                    self.probe_rtt_until = Some(now_us + PROBE_RTT_US);
                    self.probe_rtt_round = false;
                    self.round_end = ack.total_delivered;
                }
            } else {
                self.probe_rtt_round |= self.round_start;
                if self.probe_rtt_round {
                    self.check_probe_rtt_done(now_us, ack.total_delivered);
                }
            }
        }
        if ack.delivered.packets > 0 {
            self.idle_restart = false;
        }
    }

    fn check_probe_rtt_done(&mut self, now_us: u64, delivered: u64) {
        if self.probe_rtt_until.is_none_or(|until| now_us <= until) {
            return;
        }
        self.probe_rtt_min_at = now_us;
        self.window = self.window.max(self.prior_window);
        self.bw_lo = u64::MAX;
        self.in_flight_lo = NONE;
        if self.full {
            self.start_down(now_us, delivered);
            self.start_cruise();
        } else {
            self.mode = Mode::Startup;
        }
    }

    // What is sent.

    fn update_gains(&mut self) {
        let params = &self.params;
        let startup_window = u64::from(params.startup_window_gain);
        (self.pacing_gain, self.window_gain) = match self.mode {
            Mode::Startup => (u64::from(params.startup_pacing_gain), startup_window),
            Mode::Drain => (DRAIN_GAIN, startup_window),
            Mode::ProbeBw(Phase::Up) => (UP_GAIN, WINDOW_GAIN + u64::from(params.up_window_gain)),
            Mode::ProbeBw(Phase::Down) => (u64::from(params.down_gain), WINDOW_GAIN),
            Mode::ProbeBw(Phase::Cruise | Phase::Refill) => (UNIT, WINDOW_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    fn set_pacing(&mut self, bw: u64, gain: u64, smoothed_us: u64) {
        if !self.seen_rtt && smoothed_us > 0 {
            self.seen_rtt = true;
            let startup = u64::from(self.params.startup_pacing_gain);
            self.pacing = pacing(u64::from(self.window) * BW_UNIT / smoothed_us, startup, self.mss);
        }
        let wanted = pacing(bw, gain, self.mss);
        if self.full || wanted > self.pacing {
            self.pacing = wanted;
        }
    }

    fn set_window(&mut self, acked: u32, bw: u64) {
        if acked > 0 {
            let target = self.bdp(bw, self.window_gain) + self.aggregation.budget(bw);
            let target = self.with_budget(target);
            if self.full {
                self.window = (self.window + acked).min(target);
            } else if self.window < target || self.window < 2 * self.initial {
                self.window += acked;
            }
            self.window = self.window.max(MIN_WINDOW);
        }
        if self.mode == Mode::ProbeRtt {
            self.window = self.window.min(self.probe_rtt_window());
        }
        let cap = match self.mode {
            Mode::ProbeRtt | Mode::ProbeBw(Phase::Cruise) => self.with_headroom(),
            Mode::ProbeBw(_) => self.in_flight_hi,
            Mode::Startup | Mode::Drain => NONE,
        };
        self.window = self.window.min(cap.min(self.in_flight_lo).max(MIN_WINDOW));
    }
}

impl Controller for Bbr3 {
    fn name(&self) -> &'static str {
        self.params.name
    }

    fn on_handshake(&mut self, rtt: Duration) {
        let us = micros_of(rtt).max(1);
        (self.min_rtt_us, self.probe_rtt_min_us) = (Some(us), us);
        self.seen_rtt = true;
        self.pacing = pacing(u64::from(self.window) * BW_UNIT / us, self.pacing_gain, self.mss);
    }

    fn on_sent(&mut self, sent: &Sent) {
        self.start(sent.now);
        if !sent.restarts || !self.app_limited {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(sent.now);
        match self.mode {
            Mode::ProbeBw(_) => self.set_pacing(self.bw(), UNIT, 0),
            Mode::ProbeRtt => self.check_probe_rtt_done(micros(sent.now), self.round_end),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.app_limited = ack.app_limited;
        let before = self.episode.state();
        let recovers = self.episode.on_ack(ack, false);
        let state = self.episode.state();
        if before == State::Loss && state != State::Loss {
            self.window = self.window.max(self.prior_window);
        }
        if recovers {
            self.save_window();
        }
        if ack.lost.packets > 0 {
            self.note_losses(ack);
        }
        self.delivered_ce += u64::from(ack.ce.packets);
        self.update_round(ack);
        self.ecn_in_round |= self.ecn_eligible && ack.ce.packets > 0;
        let context = self.context(ack);
        self.update_signals(ack, &context);
        if context.valid {
            let bw = self.bw();
            self.aggregation.update(ack, bw, self.round_start, !self.full, self.window);
        }
        self.check_losses_in_startup(ack, &context);
        self.check_full(&context);
        self.check_drain(ack);
        self.update_phase(ack, &context);
        self.update_min_rtt(ack);
        self.update_gains();
        let bw = self.bw();
        self.set_pacing(bw, self.pacing_gain, micros_of(ack.smoothed_rtt));
        self.set_window(ack.delivered.packets, bw);
        if self.loss_round_start {
            (self.bw_latest, self.in_flight_latest) = (context.bw, context.delivered);
        }
        self.prior_state = state;
        self.loss_in_cycle |= context.lost > 0;
        self.ecn_in_cycle |= context.ce > 0;
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        if self.episode.state() != State::Loss {
            self.save_window();
        }
        self.episode.on_timeout(timeout);
        self.prior_state = State::Loss;
        self.reset_full(0);
        if !self.is_probing() && self.in_flight_lo == NONE {
            self.in_flight_lo = self.window.max(self.prior_window);
        }
        self.window = packets(timeout.in_flight, self.mss) + 1;
    }

    fn window(&self) -> u64 {
        u64::from(self.window) * u64::from(self.mss)
    }

    fn pacing(&self) -> Option<Rate> {
        Some(rate(self.pacing))
    }

    fn ecn(&self) -> EcnUse {
        if self.params.ecn { EcnUse::Accurate } else { EcnUse::Off }
    }

    fn ignores_marks_beyond(&self) -> Option<Duration> {
        let limited = self.params.ecn && self.params.ecn_max_rtt > Duration::ZERO;
        (limited && !self.ecn_eligible).then_some(self.params.ecn_max_rtt)
    }
}

#[cfg(test)]
mod tests;
