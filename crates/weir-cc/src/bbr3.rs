//! BBR from version 2 on: besides the model of version 1, upper bounds of what is in flight, found by probing until losses
//! or marks get too many, and lower bounds that yield to losses and marks in between. One type for versions 2 and 3, which
//! differ by [`Bbr3Params`].
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
//! | packets in the network at the earliest departure time | the packets in flight now (and one goal when probing up) |
//! | fast path when limited by the application (saves CPU) | none |
//! | undo of spurious losses, tail loss probes, PLB | none |
//! | ECT(0) with a DCTCP-like receiver | [`EcnUse::Accurate`] |

use weir_core::{Random, Rate, Time};

use crate::bbr::{
    Aggregation, BW_SCALE, BW_UNIT, GSO_MAX, Limited, MAX_HEADER, MIN_WINDOW, NONE, UNIT, bdp, micros,
    micros_of, pacing, packets, rate,
};
use crate::bbr3_params::Bbr3Params;
use crate::episode::{Episode, State};
use crate::{Ack, Controller, EcnUse, RateSample, Sent, Setup};

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

    fn save_window(&mut self) {
        let good = self.prior_state < State::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_window = if good { self.window } else { self.prior_window.max(self.window) };
    }

    // What an acknowledgement brings.

    fn context(&self, ack: &Ack) -> Context {
        let Some(sample) = ack.rate.filter(|sample| micros_of(sample.interval) > 0) else {
            return Context::default();
        };
        let bw = (u64::from(sample.delivered.packets) * BW_UNIT).div_ceil(micros_of(sample.interval));
        Context {
            bw,
            delivered: sample.delivered.packets,
            ce: sample.delivered_ce,
            lost: sample.lost,
            in_flight_at_send: packets(sample.in_flight_at_send, self.mss),
            limited: self.limited.covers(&sample),
            valid: ack.delivered.packets > 0,
        }
    }

    fn update_round(&mut self, ack: &Ack) {
        let sample = ack.rate.filter(|sample| micros_of(sample.interval) > 0);
        self.round_start = sample.is_some_and(|sample: RateSample| sample.prior_delivered >= self.round_end);
        if self.round_start {
            self.round_end = ack.total_delivered;
            self.rounds_since_probe = (self.rounds_since_probe + 1).min(255);
            self.update_ecn_alpha(ack);
        }
    }

    fn update_ecn_alpha(&mut self, ack: &Ack) {
        let limit = micros_of(self.params.ecn_max_rtt);
        if self.params.ecn && (limit == 0 || self.min_rtt_us.is_some_and(|us| us <= limit)) {
            self.ecn_eligible = true;
        }
        let delivered = ack.total_delivered - self.alpha_delivered;
        if !self.ecn_eligible || delivered == 0 {
            return;
        }
        let share = ((self.delivered_ce - self.alpha_ce) << 8) / delivered;
        self.ecn_alpha = (((UNIT - ECN_GAIN) * self.ecn_alpha >> 8) + (ECN_GAIN * share >> 8)).min(UNIT);
        (self.alpha_delivered, self.alpha_ce) = (ack.total_delivered, self.delivered_ce);
        if !self.full {
            self.ecn_rounds = if share >= ECN_THRESHOLD { self.ecn_rounds + 1 } else { 0 };
            if self.ecn_rounds >= FULL_ECN_ROUNDS {
                self.startup_too_high();
            }
        }
    }

    fn startup_too_high(&mut self) {
        self.full = true;
        self.in_flight_hi = self.in_flight_for(self.max_bw(), UNIT).max(self.in_flight_latest);
    }

    /// Losses, each as it is found, before the rest of the acknowledgement.
    fn note_losses(&mut self, ack: &Ack) {
        if !self.loss_in_round {
            self.loss_round_end = ack.total_delivered;
        }
        self.loss_in_round = true;
        self.loss_in_cycle = true;
        let Some(loss) = ack.loss.filter(|_| self.probe_samples) else { return };
        let context = Context {
            lost: loss.lost,
            in_flight_at_send: packets(loss.in_flight_at_send, self.mss),
            limited: loss.app_limited,
            ..Context::default()
        };
        if self.is_too_high(&context) {
            let at = in_flight_before_excess(context.in_flight_at_send, context.lost);
            self.handle_too_high(at, context.limited, micros(ack.now), ack.total_delivered);
        }
    }

    fn is_too_high(&self, context: &Context) -> bool {
        let in_flight = u64::from(context.in_flight_at_send);
        if in_flight > 0 && u64::from(context.lost) > (in_flight * LOSS_THRESHOLD) >> 8 {
            return true;
        }
        let marked = u64::from(context.ce);
        let threshold = (u64::from(context.delivered) * ECN_THRESHOLD) >> 8;
        let much = marked > threshold || self.params.ecn_inclusive && marked == threshold;
        self.ecn_eligible && marked > 0 && much
    }

    fn handle_too_high(&mut self, in_flight: u32, limited: bool, now_us: u64, delivered: u64) {
        self.probe_too_high = true;
        self.probe_samples = false;
        if !limited {
            let target = (u64::from(self.target_in_flight()) * LOSS_CUT) >> 8;
            self.in_flight_hi = in_flight.max(target as u32);
        }
        if self.mode == Mode::ProbeBw(Phase::Up) {
            self.start_down(now_us, delivered);
        }
    }

    fn update_signals(&mut self, ack: &Ack, context: &Context) {
        self.loss_round_start = false;
        if !context.valid {
            return;
        }
        self.bw_latest = self.bw_latest.max(context.bw);
        self.in_flight_latest = self.in_flight_latest.max(context.delivered);
        if ack.rate.is_some_and(|sample| sample.prior_delivered >= self.loss_round_end) {
            self.loss_round_end = ack.total_delivered;
            self.loss_round_start = true;
        }
        if !context.limited || context.bw >= self.max_bw() {
            self.bw_max[1] = self.bw_max[1].max(context.bw);
        }
        self.loss_in_round |= ack.lost.packets > 0;
        if self.loss_round_start {
            self.adapt_lower_bounds();
            self.loss_in_round = false;
            self.ecn_in_round = false;
        }
    }

    fn adapt_lower_bounds(&mut self) {
        if self.is_probing() {
            return;
        }
        let mut by_marks = NONE;
        if self.ecn_in_round {
            if self.in_flight_lo == NONE {
                self.in_flight_lo = self.window;
            }
            let cut = UNIT - ((self.ecn_alpha * ECN_FACTOR) >> 8);
            by_marks = ((u64::from(self.in_flight_lo) * cut) >> 8) as u32;
        }
        if self.loss_in_round {
            if self.bw_lo == u64::MAX {
                self.bw_lo = self.max_bw();
            }
            if self.in_flight_lo == NONE {
                self.in_flight_lo = self.window;
            }
            self.bw_lo = self.bw_latest.max((self.bw_lo * LOSS_CUT) >> 8);
            let cut = ((u64::from(self.in_flight_lo) * LOSS_CUT) >> 8) as u32;
            self.in_flight_lo = self.in_flight_latest.max(cut);
        }
        self.in_flight_lo = self.in_flight_lo.min(by_marks);
        self.bw_lo = self.bw_lo.max(1);
    }

    fn check_losses_in_startup(&mut self, ack: &Ack, context: &Context) {
        if self.full {
            return;
        }
        if ack.lost.packets > 0 {
            self.loss_events = (self.loss_events + 1).min(15);
        }
        if self.loss_round_start {
            if self.episode.state() == State::Recovery
                && self.loss_events >= self.params.full_losses
                && self.is_too_high(context)
            {
                return self.startup_too_high();
            }
            self.loss_events = 0;
        }
    }

    fn reset_full(&mut self, bw: u64) {
        (self.full_bw, self.full_rounds, self.full_now) = (bw, 0, false);
    }

    fn check_full(&mut self, context: &Context) {
        let by_sample = self.params.full_by_sample;
        if self.full_now || context.limited || !by_sample && (self.full || !self.round_start) {
            return;
        }
        let bw = if by_sample { context.bw } else { self.max_bw() };
        if bw >= (self.full_bw * FULL_GAIN) >> 8 {
            return self.reset_full(bw);
        }
        if self.round_start {
            self.full_rounds += 1;
            self.full_now = self.full_rounds >= FULL_ROUNDS;
            self.full |= self.full_now;
        }
    }

    fn check_drain(&mut self, ack: &Ack) {
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
            self.reset_signals();
        }
        let in_flight = self.in_network(packets(ack.in_flight, self.mss));
        if self.mode == Mode::Drain && in_flight <= self.in_flight_for(self.max_bw(), UNIT) {
            self.start_down(micros(ack.now), ack.total_delivered);
        }
    }

    fn reset_signals(&mut self) {
        self.loss_in_round = false;
        self.ecn_in_round = false;
        self.loss_in_cycle = false;
        self.ecn_in_cycle = false;
        self.bw_latest = 0;
        self.in_flight_latest = 0;
    }

    // The phases of PROBE_BW.

    fn start_down(&mut self, now_us: u64, delivered: u64) {
        self.reset_signals();
        self.up_per = NONE;
        self.rounds_since_probe = self.random.below(PROBE_ROUNDS_RANDOM) as u32;
        self.wait_us = PROBE_WAIT_US + self.random.below(PROBE_WAIT_RANDOM_US);
        self.cycle_us = now_us;
        self.feedback = Feedback::Stopping;
        self.round_end = delivered;
        self.mode = Mode::ProbeBw(Phase::Down);
    }

    fn start_cruise(&mut self) {
        if self.in_flight_lo != NONE {
            self.in_flight_lo = self.in_flight_lo.min(self.in_flight_hi);
        }
        self.mode = Mode::ProbeBw(Phase::Cruise);
    }

    fn start_refill(&mut self, up_rounds: u32, delivered: u64) {
        self.bw_lo = u64::MAX;
        self.in_flight_lo = NONE;
        self.up_rounds = up_rounds;
        self.up_acked = 0;
        self.probe_stopped = false;
        self.feedback = Feedback::Refilling;
        self.round_end = delivered;
        self.mode = Mode::ProbeBw(Phase::Refill);
    }

    fn start_up(&mut self, now_us: u64, delivered: u64, bw: u64) {
        self.feedback = Feedback::Starting;
        self.round_end = delivered;
        self.cycle_us = now_us;
        if self.params.full_by_sample {
            self.reset_full(bw);
        }
        self.mode = Mode::ProbeBw(Phase::Up);
        self.raise_slope();
    }

    fn raise_slope(&mut self) {
        let growth = 1u32 << self.up_rounds.min(30);
        self.up_rounds = (self.up_rounds + 1).min(30);
        self.up_per = (self.window / growth).max(1);
    }

    /// Bounds by what probing found. True if that began another phase.
    fn adapt_upper_bounds(&mut self, ack: &Ack, context: &Context) -> bool {
        if self.feedback == Feedback::Starting && self.round_start {
            self.feedback = Feedback::Arriving;
        }
        let in_probe_bw = matches!(self.mode, Mode::ProbeBw(_));
        if self.feedback == Feedback::Stopping && self.round_start {
            self.probe_samples = false;
            self.feedback = Feedback::None;
            if in_probe_bw && !context.limited && self.bw_max[1] > 0 {
                self.bw_max = [self.bw_max[1], 0];
            }
            if in_probe_bw && self.probe_stopped && !self.probe_too_high {
                self.start_refill(0, ack.total_delivered);
                return true;
            }
        }
        if self.is_too_high(context) {
            if self.probe_samples {
                let at = context.in_flight_at_send;
                self.handle_too_high(at, context.limited, micros(ack.now), ack.total_delivered);
            }
        } else if self.in_flight_hi != NONE {
            self.in_flight_hi = self.in_flight_hi.max(context.in_flight_at_send);
            if self.mode == Mode::ProbeBw(Phase::Up) {
                self.push_upward(ack);
            }
        }
        false
    }

    fn push_upward(&mut self, ack: &Ack) {
        if !ack.window_limited || self.window < self.in_flight_hi {
            return;
        }
        self.up_acked += ack.delivered.packets;
        if self.up_acked >= self.up_per {
            let steps = self.up_acked / self.up_per;
            self.up_acked -= steps * self.up_per;
            self.in_flight_hi = self.in_flight_hi.saturating_add(steps);
        }
        if self.round_start {
            self.raise_slope();
        }
    }

    fn has_elapsed(&self, now_us: u64, us: u64) -> bool {
        now_us > self.cycle_us.saturating_add(us)
    }

    fn is_time_to_probe(&mut self, ack: &Ack) -> bool {
        if self.params.ecn_reprobe_gain > 0
            && self.ecn_eligible
            && self.ecn_in_cycle
            && !self.loss_in_cycle
            && self.episode.state() == State::Open
        {
            let step = (u64::from(self.in_flight_hi) * u64::from(self.params.ecn_reprobe_gain)) >> 8;
            self.start_refill(step.max(1).ilog2(), ack.total_delivered);
            return true;
        }
        let rounds = self.target_in_flight().min(PROBE_ROUNDS);
        if self.has_elapsed(micros(ack.now), self.wait_us) || self.rounds_since_probe >= rounds {
            self.start_refill(0, ack.total_delivered);
            return true;
        }
        false
    }

    fn update_phase(&mut self, ack: &Ack, context: &Context) {
        if !self.full || self.adapt_upper_bounds(ack, context) {
            return;
        }
        let Mode::ProbeBw(phase) = self.mode else { return };
        let in_flight = self.in_network(packets(ack.prior_in_flight, self.mss));
        let bw = self.max_bw();
        let now_us = micros(ack.now);
        match phase {
            Phase::Cruise => {
                self.is_time_to_probe(ack);
            }
            Phase::Refill if self.round_start => {
                self.probe_samples = true;
                self.start_up(now_us, ack.total_delivered, context.bw);
            }
            Phase::Refill => {}
            Phase::Up => {
                if self.is_probe_done(ack, context, in_flight) {
                    self.probe_too_high = false;
                    self.start_down(now_us, ack.total_delivered);
                }
            }
            Phase::Down => {
                if !self.is_time_to_probe(ack)
                    && in_flight <= self.with_headroom()
                    && in_flight <= self.in_flight_for(bw, UNIT)
                {
                    self.start_cruise();
                }
            }
        }
    }

    fn is_probe_done(&mut self, ack: &Ack, context: &Context, in_flight: u32) -> bool {
        if self.probe_too_high && in_flight >= self.in_flight_hi {
            self.probe_stopped = true;
            return true;
        }
        if !self.params.full_by_sample {
            return self.has_elapsed(micros(ack.now), self.min_rtt_us.unwrap_or(0))
                && in_flight >= self.in_flight_for(self.max_bw(), UP_GAIN);
        }
        if ack.window_limited && self.window >= self.in_flight_hi {
            self.reset_full(context.bw);
            return false;
        }
        self.full_now
    }

    // The shortest round trip.

    fn update_min_rtt(&mut self, ack: &Ack) {
        let now_us = micros(ack.now);
        let probe_expired = now_us > self.probe_rtt_min_at + PROBE_RTT_INTERVAL_US;
        if let Some(rtt) = ack.rtt {
            let rtt = micros_of(rtt);
            if probe_expired || rtt < self.probe_rtt_min_us {
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

/// How many packets were in flight when losses reached the threshold, for a packet sent with `in_flight` in flight that is
/// the last of `lost`.
fn in_flight_before_excess(in_flight: u32, lost: u32) -> u32 {
    let (Some(before), Some(lost_before)) = (in_flight.checked_sub(1), lost.checked_sub(1)) else {
        return NONE;
    };
    let budget = (u64::from(before) * LOSS_THRESHOLD + UNIT - 1) >> 8;
    let prefix = (budget.saturating_sub(u64::from(lost_before)) << 8) / (UNIT - LOSS_THRESHOLD);
    before.saturating_add(prefix as u32)
}

impl Controller for Bbr3 {
    fn name(&self) -> &'static str {
        self.params.name
    }

    fn on_sent(&mut self, sent: &Sent) {
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
        self.episode.on_ack(ack, false);
        let state = self.episode.state();
        if before < State::Recovery && state == State::Recovery {
            self.save_window();
        } else if before == State::Loss && state != State::Loss {
            self.window = self.window.max(self.prior_window);
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

    fn on_timeout(&mut self, _now: Time, in_flight: u64) {
        if self.episode.state() != State::Loss {
            self.save_window();
        }
        self.episode.on_timeout();
        self.prior_state = State::Loss;
        self.reset_full(0);
        if !self.is_probing() && self.in_flight_lo == NONE {
            self.in_flight_lo = self.window.max(self.prior_window);
        }
        self.window = packets(in_flight, self.mss) + 1;
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
}

#[cfg(test)]
mod tests {
    use super::{
        BW_SCALE, Bbr3, Bbr3Params, DRAIN_GAIN, ECN_FACTOR, HEADROOM, LOSS_CUT, LOSS_THRESHOLD, Mode, Phase,
        in_flight_before_excess,
    };
    use crate::Controller;
    use crate::testing::{Fate, Path, random, setup};
    use weir_core::Duration;

    const BOTH: [Bbr3Params; 2] = [Bbr3Params::V2, Bbr3Params::V3];

    #[test]
    fn fractions_are_the_kernels() {
        assert_eq!((LOSS_CUT, LOSS_THRESHOLD, ECN_FACTOR, HEADROOM, DRAIN_GAIN), (180, 5, 85, 38, 88));
        assert_eq!(BW_SCALE, 24);
        let mut bbr = Bbr3::new(Bbr3Params::V3, &setup());
        bbr.in_flight_hi = 100;
        assert_eq!(bbr.with_headroom(), 86);
        bbr.in_flight_hi = 4;
        assert_eq!(bbr.with_headroom(), 4);
    }

    #[test]
    fn the_excess_is_found_to_the_packet() {
        // 99 in flight before: a budget of ceil(99 * 5 / 256) = 2 losses.
        assert_eq!(in_flight_before_excess(100, 1), 99 + 2 * 256 / 251);
        assert_eq!(in_flight_before_excess(100, 2), 99 + 256 / 251);
        assert_eq!(in_flight_before_excess(100, 3), 99);
        assert_eq!(in_flight_before_excess(1000, 5), 999 + 16 * 256 / 251);
    }

    #[test]
    fn marks_cut_a_third_of_alpha_and_losses_three_tenths() {
        let mut bbr = Bbr3::new(Bbr3Params { ecn: true, ..Bbr3Params::V3 }, &setup());
        bbr.mode = Mode::ProbeBw(Phase::Cruise);
        bbr.window = 100;
        bbr.ecn_alpha = 128;
        bbr.ecn_in_round = true;
        bbr.adapt_lower_bounds();
        // 256 - (128 * 85 >> 8) = 214.
        assert_eq!((bbr.in_flight_lo, bbr.bw_lo), (83, u64::MAX));
        bbr.ecn_in_round = false;
        bbr.loss_in_round = true;
        bbr.bw_max = [1000, 0];
        bbr.adapt_lower_bounds();
        assert_eq!((bbr.in_flight_lo, bbr.bw_lo), (58, 703));
        // Never below what is being delivered.
        bbr.in_flight_latest = 57;
        bbr.bw_latest = 700;
        bbr.adapt_lower_bounds();
        assert_eq!((bbr.in_flight_lo, bbr.bw_lo), (57, 700));
    }

    #[test]
    fn both_fill_the_pipe_and_keep_the_queue_short() {
        for params in BOTH {
            // 50 Mbit/s of full packets, 40 ms: a BDP of 173 packets.
            let mut bbr = Bbr3::new(params, &setup());
            let mut path = Path::bottleneck(40, 4_317, 2_000);
            path.rate_over(&mut bbr, Duration::from_secs(2));
            assert!(matches!(bbr.mode, Mode::ProbeBw(_)), "{}: {:?}", params.name, bbr.mode);
            (path.rtt_sum, path.rtt_count) = (0, 0);
            let rate = path.rate_over(&mut bbr, Duration::from_secs(20));
            assert!(rate > 0.95 * 4_317.0, "{}: {rate}", params.name);
            assert!(path.mean_rtt() < 46.0, "{}: {}", params.name, path.mean_rtt());
            assert_eq!(path.lost(), 0);
        }
    }

    #[test]
    fn a_shallow_buffer_bounds_what_is_in_flight() {
        for params in BOTH {
            let mut bbr = Bbr3::new(params, &setup());
            // A BDP of 200 packets and 20 of buffer.
            let mut path = Path::bottleneck(20, 10_000, 20);
            path.run(&mut bbr, Duration::from_secs(3), &mut || Fate::Arrives);
            let (lost, delivered) = (path.lost(), path.delivered());
            let rate = path.rate_over(&mut bbr, Duration::from_secs(20));
            let share = (path.lost() - lost) as f64 / (path.delivered() - delivered) as f64;
            assert!(bbr.in_flight_hi < 300, "{}: {}", params.name, bbr.in_flight_hi);
            assert!(share < 0.01, "{}: {share}", params.name);
            assert!(rate > 8_500.0, "{}: {rate}", params.name);
        }
    }

    #[test]
    fn more_than_two_percent_of_losses_slow_it_and_one_percent_do_not() {
        for params in BOTH {
            let rates = [0.005, 0.10].map(|p| {
                let mut bbr = Bbr3::new(params, &setup());
                let mut path = Path::bottleneck(40, 4_317, 2_000);
                let mut random = random("losses");
                let mut fate = || if random.unit() < p { Fate::Lost } else { Fate::Arrives };
                path.run(&mut bbr, Duration::from_secs(20), &mut fate);
                path.delivered() as f64 / 20.0
            });
            assert!(rates[0] > 0.8 * 4_317.0, "{}: {rates:?}", params.name);
            assert!(rates[1] < 0.5 * rates[0], "{}: {rates:?}", params.name);
        }
    }

    #[test]
    fn marks_count_on_short_paths_or_where_the_limit_is_lifted() {
        let paths = [(4, Duration::from_millis(5)), (20, Duration::from_millis(5)), (20, Duration::ZERO)];
        let counted = paths.map(|(rtt_ms, limit)| {
            let params = Bbr3Params { ecn: true, ecn_max_rtt: limit, ..Bbr3Params::V3 };
            let mut bbr = Bbr3::new(params, &setup());
            assert_eq!(bbr.ecn().codepoint(), weir_core::Ecn::Ect0);
            let mut path = Path::bottleneck(rtt_ms, 20_000, 2_000).marking_from(10);
            path.rate_over(&mut bbr, Duration::from_secs(3));
            path.rate_over(&mut bbr, Duration::from_secs(3));
            bbr.ecn_alpha < 256 && bbr.ecn_eligible
        });
        assert_eq!(counted, [true, false, true]);
    }
}
