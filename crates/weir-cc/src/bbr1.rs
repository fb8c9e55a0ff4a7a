//! BBR as in mainline Linux, often called BBRv1: a model of the bottleneck's bandwidth (maximum over ten rounds) and
//! the path's shortest round trip (minimum over ten seconds), pacing around it, and two products of them in flight.
//! Marks mean nothing to it and losses little.
//!
//! | `net/ipv4/tcp_bbr.c` | here |
//! |---|---|
//! | STARTUP and its gain 739/256, DRAIN 88/256, eight phases 5/4, 3/4, 1 x 6 begun at random (not at 3/4), window gain 2 | the same |
//! | full pipe: three rounds without 25 % more | the same |
//! | PROBE_RTT: 4 packets for 200 ms and a round, after 10 s without a shorter round trip; samples of it count as limited | the same, times in ns and not jiffies |
//! | recovery: one round of packet conservation, the window restored at its end | the same |
//! | extra acknowledged: maximum of 5 to 10 rounds, at most 100 ms of bandwidth | the same |
//! | budget for segmentation offload: 3 goals, rounded to even, 2 more in the 5/4 phase | the same |
//! | long-term bandwidth for policers (loss 50/256 over 4 to 16 rounds, twice within 1/8 or 4 kbit/s, for 48 rounds) | the same |
//! | a timeout ends a round of the policer's model with a loss | the loss counts with the next acknowledgement that brings one |
//! | pacing 1 % low; at first by the gain and the window per round trip (or per ms) | the same |
//! | the handshake's round trip is the first of the shortest (`bbr_init`) | the same, where the handshake met no queue |
//! | a loss that is not repaired when a recovery ends begins the next, without a round of conservation | the same |
//! | packets in the network at the earliest departure time | the packets in flight now (and one goal when probing) |
//! | spurious loss undone; delayed ACKs not taken for the minimum | none: virtual receivers do not delay |

use weir_core::{Duration, Random, Rate, Time};

use crate::bbr::{
    Aggregation, BW_UNIT, GSO_MAX, Limited, MAX_HEADER, MIN_WINDOW, UNIT, bdp, bytes_per_second, micros,
    micros_of, pacing, packets, rate,
};
use crate::episode::{Episode, State};
use crate::filter::MaxFilter;
use crate::{Ack, Controller, EcnUse, RateSample, Sent, Setup, Timeout};

const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
const WINDOW_GAIN: u64 = UNIT * 2;
const CYCLE: [u64; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// Phases that a cycle may begin with.
const RANDOM_PHASES: u64 = 7;
const BW_ROUNDS: u64 = CYCLE.len() as u64 + 2;
const MIN_RTT_US: u64 = 10_000_000;
const PROBE_RTT_US: u64 = 200_000;
const FULL_GAIN: u64 = UNIT * 5 / 4;
const FULL_ROUNDS: u32 = 3;
/// Below this rate (bytes per second) packets are handed down one at a time.
const MIN_TSO_RATE: u64 = 1_200_000 / 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// The estimate of a policer's rate.
#[derive(Clone, Copy, Debug, Default)]
struct LongTerm {
    sampling: bool,
    in_use: bool,
    bw: u64,
    rounds: u32,
    since_ms: u64,
    delivered: u64,
    lost: u64,
}

impl LongTerm {
    const MIN_ROUNDS: u32 = 4;
    const MAX_ROUNDS: u32 = 48;
    const LOSS: u64 = 50;
    const RATIO: u64 = UNIT / 8;
    const DIFFERENCE: u64 = 4000 / 8;

    fn begin(&mut self, ack: &Ack) {
        self.since_ms = micros(ack.now) / 1000;
        self.delivered = ack.total_delivered;
        self.lost = ack.total_lost;
        self.rounds = 0;
    }

    fn reset(&mut self, ack: &Ack) {
        *self = Self::default();
        self.begin(ack);
    }
}

/// Mainline BBR.
#[derive(Clone, Debug)]
pub struct Bbr1 {
    mss: u32,
    /// Whether the clocks of the filters run; they begin with the connection's first packet.
    started: bool,
    initial: u32,
    ecn: EcnUse,
    random: Random,
    episode: Episode,
    mode: Mode,
    window: u32,
    prior_window: u32,
    prior_state: State,
    conserving: bool,
    pacing: u64,
    seen_rtt: bool,
    bw: MaxFilter,
    round: u64,
    round_start: bool,
    round_end: u64,
    min_rtt_us: Option<u64>,
    min_rtt_at: u64,
    probe_rtt_until: Option<u64>,
    probe_rtt_round: bool,
    idle_restart: bool,
    full_bw: u64,
    full_rounds: u32,
    full: bool,
    phase: usize,
    phase_at: u64,
    pacing_gain: u64,
    window_gain: u64,
    aggregation: Aggregation,
    limited: Limited,
    long_term: LongTerm,
    app_limited: bool,
}

impl Bbr1 {
    /// A connection that begins. `ecn` only says what its packets carry; it does not answer to marks.
    pub fn new(ecn: EcnUse, setup: &Setup) -> Self {
        let mss = setup.mss.max(1);
        let window = setup.initial_window.max(1);
        Self {
            mss,
            started: false,
            initial: window,
            ecn,
            random: setup.random.clone(),
            episode: Episode::default(),
            mode: Mode::Startup,
            window,
            prior_window: 0,
            prior_state: State::Open,
            conserving: false,
            // A nominal round trip of one millisecond, until there is a sample.
            pacing: pacing(u64::from(window) * BW_UNIT / 1000, HIGH_GAIN, mss),
            seen_rtt: false,
            bw: MaxFilter::default(),
            round: 0,
            round_start: false,
            round_end: 0,
            min_rtt_us: None,
            min_rtt_at: 0,
            probe_rtt_until: None,
            probe_rtt_round: false,
            idle_restart: false,
            full_bw: 0,
            full_rounds: 0,
            full: false,
            phase: 0,
            phase_at: 0,
            pacing_gain: HIGH_GAIN,
            window_gain: HIGH_GAIN,
            aggregation: Aggregation::default(),
            limited: Limited::default(),
            long_term: LongTerm::default(),
            app_limited: false,
        }
    }

    fn bw(&self) -> u64 {
        if self.long_term.in_use { self.long_term.bw } else { self.bw.get() }
    }

    fn bdp(&self, bw: u64, gain: u64) -> u32 {
        self.min_rtt_us.map_or(self.initial, |us| bdp(bw, us, gain))
    }

    /// Packets handed down at once.
    fn goal(&self) -> u32 {
        let bytes = (self.pacing >> 10).min(GSO_MAX - 1 - MAX_HEADER);
        let least = if self.pacing < MIN_TSO_RATE { 1 } else { 2 };
        ((bytes / u64::from(self.mss)) as u32).max(least).min(0x7f)
    }

    fn with_budget(&self, window: u32) -> u32 {
        let window = (window + 3 * self.goal()).next_multiple_of(2);
        if self.mode == Mode::ProbeBw && self.phase == 0 { window + 2 } else { window }
    }

    fn in_flight_for(&self, bw: u64, gain: u64) -> u32 {
        self.with_budget(self.bdp(bw, gain))
    }

    fn in_network(&self, in_flight: u32) -> u32 {
        if self.pacing_gain > UNIT { in_flight + self.goal() } else { in_flight }
    }

    fn start(&mut self, now: Time) {
        if !self.started {
            self.started = true;
            self.min_rtt_at = micros(now);
            self.aggregation.restart(now);
        }
    }

    fn save_window(&mut self) {
        let good = self.prior_state < State::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_window = if good { self.window } else { self.prior_window.max(self.window) };
    }

    fn begin_probe_bw(&mut self, now_us: u64) {
        self.mode = Mode::ProbeBw;
        self.phase = CYCLE.len() - 1 - self.random.below(RANDOM_PHASES) as usize;
        self.next_phase(now_us);
    }

    fn next_phase(&mut self, now_us: u64) {
        self.phase = (self.phase + 1) % CYCLE.len();
        self.phase_at = now_us;
    }

    fn update_bw(&mut self, ack: &Ack, sample: &RateSample) {
        if sample.prior_delivered >= self.round_end {
            self.round_end = ack.total_delivered;
            self.round += 1;
            self.round_start = true;
            self.conserving = false;
        }
        self.sample_long_term(ack, self.limited.covers(sample), ack.lost.packets > 0);
        let bw = u64::from(sample.delivered.packets) * BW_UNIT / micros_of(sample.interval).max(1);
        if !self.limited.covers(sample) || bw >= self.bw.get() {
            self.bw.update(BW_ROUNDS, self.round, bw);
        }
    }

    fn sample_long_term(&mut self, ack: &Ack, limited: bool, lost: bool) {
        let state = &mut self.long_term;
        if state.in_use {
            if self.mode == Mode::ProbeBw && self.round_start {
                state.rounds += 1;
                if state.rounds >= LongTerm::MAX_ROUNDS {
                    state.reset(ack);
                    self.begin_probe_bw(micros(ack.now));
                }
            }
            return;
        }
        if !state.sampling {
            if !lost {
                return;
            }
            state.begin(ack);
            state.sampling = true;
        }
        if limited {
            return state.reset(ack);
        }
        state.rounds += u32::from(self.round_start);
        if state.rounds < LongTerm::MIN_ROUNDS {
            return;
        }
        if state.rounds > 4 * LongTerm::MIN_ROUNDS {
            return state.reset(ack);
        }
        let lost_packets = ack.total_lost - state.lost;
        let delivered = ack.total_delivered - state.delivered;
        let elapsed_ms = (micros(ack.now) / 1000).saturating_sub(state.since_ms);
        if !lost || delivered == 0 || lost_packets << 8 < LongTerm::LOSS * delivered || elapsed_ms == 0 {
            return;
        }
        let bw = delivered * BW_UNIT / (elapsed_ms * 1000);
        if state.bw > 0 {
            let difference = bw.abs_diff(state.bw);
            if difference * UNIT <= LongTerm::RATIO * state.bw
                || bytes_per_second(difference, UNIT, self.mss, 0) <= LongTerm::DIFFERENCE
            {
                state.bw = (bw + state.bw) / 2;
                state.in_use = true;
                state.rounds = 0;
                return;
            }
        }
        state.bw = bw;
        state.begin(ack);
    }

    fn update_phase(&mut self, ack: &Ack) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let now_us = micros(ack.now);
        let full_length = now_us.saturating_sub(self.phase_at) > self.min_rtt_us.unwrap_or(u64::MAX);
        let in_flight = self.in_network(packets(ack.prior_in_flight, self.mss));
        let bw = self.bw.get();
        let over = match self.pacing_gain.cmp(&UNIT) {
            std::cmp::Ordering::Equal => full_length,
            std::cmp::Ordering::Greater => {
                full_length && (ack.lost.packets > 0 || in_flight >= self.in_flight_for(bw, self.pacing_gain))
            }
            std::cmp::Ordering::Less => full_length || in_flight <= self.in_flight_for(bw, UNIT),
        };
        if over {
            self.next_phase(now_us);
        }
    }

    fn check_full(&mut self, limited: bool) {
        if self.full || !self.round_start || limited {
            return;
        }
        if self.bw.get() >= (self.full_bw * FULL_GAIN) >> 8 {
            (self.full_bw, self.full_rounds) = (self.bw.get(), 0);
            return;
        }
        self.full_rounds += 1;
        self.full = self.full_rounds >= FULL_ROUNDS;
    }

    fn check_drain(&mut self, ack: &Ack) {
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
        }
        let in_flight = self.in_network(packets(ack.in_flight, self.mss));
        if self.mode == Mode::Drain && in_flight <= self.in_flight_for(self.bw.get(), UNIT) {
            self.begin_probe_bw(micros(ack.now));
        }
    }

    fn update_min_rtt(&mut self, ack: &Ack) {
        let now_us = micros(ack.now);
        let expired = now_us > self.min_rtt_at + MIN_RTT_US;
        if let Some(rtt) = ack.rtt {
            let rtt = micros_of(rtt);
            if expired || self.min_rtt_us.is_none_or(|shortest| rtt < shortest) {
                (self.min_rtt_us, self.min_rtt_at) = (Some(rtt), now_us);
            }
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_window();
            self.probe_rtt_until = None;
        }
        if self.mode == Mode::ProbeRtt {
            let in_flight = packets(ack.in_flight, self.mss);
            self.limited.extend(ack.total_delivered, in_flight);
            if self.probe_rtt_until.is_none() {
                if in_flight <= MIN_WINDOW {
                    self.probe_rtt_until = Some(now_us + PROBE_RTT_US);
                    self.probe_rtt_round = false;
                    self.round_end = ack.total_delivered;
                }
            } else {
                self.probe_rtt_round |= self.round_start;
                if self.probe_rtt_round {
                    self.check_probe_rtt_done(now_us);
                }
            }
        }
        if ack.delivered.packets > 0 {
            self.idle_restart = false;
        }
    }

    fn check_probe_rtt_done(&mut self, now_us: u64) {
        if self.probe_rtt_until.is_none_or(|until| now_us <= until) {
            return;
        }
        self.min_rtt_at = now_us;
        self.window = self.window.max(self.prior_window);
        if self.full {
            self.begin_probe_bw(now_us);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.window_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.long_term.in_use => (UNIT, WINDOW_GAIN),
            Mode::ProbeBw => (CYCLE[self.phase], WINDOW_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    fn set_pacing(&mut self, bw: u64, gain: u64, smoothed_us: u64) {
        if !self.seen_rtt && smoothed_us > 0 {
            self.seen_rtt = true;
            self.pacing = pacing(u64::from(self.window) * BW_UNIT / smoothed_us, HIGH_GAIN, self.mss);
        }
        let wanted = pacing(bw, gain, self.mss);
        if self.full || wanted > self.pacing {
            self.pacing = wanted;
        }
    }

    fn set_window(&mut self, ack: &Ack, bw: u64) {
        let acked = ack.delivered.packets;
        if acked > 0 && !self.recover_or_restore(ack, acked) {
            let extra = if self.full { self.aggregation.budget(bw) } else { 0 };
            let target = self.with_budget(self.bdp(bw, self.window_gain) + extra);
            if self.full {
                self.window = (self.window + acked).min(target);
            } else if self.window < target || ack.total_delivered < 10 {
                self.window += acked;
            }
            self.window = self.window.max(MIN_WINDOW);
        }
        if self.mode == Mode::ProbeRtt {
            self.window = self.window.min(MIN_WINDOW);
        }
    }

    /// Changes the window for the sake of loss recovery; says whether this is all that may be done to it now.
    fn recover_or_restore(&mut self, ack: &Ack, acked: u32) -> bool {
        let in_flight = packets(ack.in_flight, self.mss);
        let state = self.episode.state();
        if ack.lost.packets > 0 {
            self.window = self.window.saturating_sub(ack.lost.packets).max(1);
        }
        if state == State::Recovery && self.prior_state != State::Recovery {
            self.conserving = true;
            self.round_end = ack.total_delivered;
            self.window = in_flight + acked;
        } else if self.prior_state >= State::Recovery && state < State::Recovery {
            self.window = self.window.max(self.prior_window);
            self.conserving = false;
        }
        self.prior_state = state;
        if self.conserving {
            self.window = self.window.max(in_flight + acked);
        }
        self.conserving
    }
}

impl Controller for Bbr1 {
    fn name(&self) -> &'static str {
        "bbr1"
    }

    fn on_handshake(&mut self, rtt: Duration) {
        let us = micros_of(rtt).max(1);
        self.min_rtt_us = Some(us);
        self.seen_rtt = true;
        self.pacing = pacing(u64::from(self.window) * BW_UNIT / us, HIGH_GAIN, self.mss);
    }

    fn on_sent(&mut self, sent: &Sent) {
        self.start(sent.now);
        if !sent.restarts || !self.app_limited {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(sent.now);
        if self.mode == Mode::ProbeBw {
            self.set_pacing(self.bw(), UNIT, 0);
        } else if self.mode == Mode::ProbeRtt {
            self.check_probe_rtt_done(micros(sent.now));
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.app_limited = ack.app_limited;
        if self.episode.on_ack(ack, false) {
            self.save_window();
        }
        self.round_start = false;
        let sample = ack.rate.filter(|sample| micros_of(sample.interval) > 0);
        if let Some(sample) = &sample {
            self.update_bw(ack, sample);
            if ack.delivered.packets > 0 {
                let bw = self.bw();
                self.aggregation.update(ack, bw, self.round_start, false, self.window);
            }
        }
        self.update_phase(ack);
        self.check_full(sample.as_ref().is_some_and(|sample| self.limited.covers(sample)));
        self.check_drain(ack);
        self.update_min_rtt(ack);
        self.update_gains();
        let bw = self.bw();
        self.set_pacing(bw, self.pacing_gain, micros_of(ack.smoothed_rtt));
        self.set_window(ack, bw);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        if self.episode.state() != State::Loss {
            self.save_window();
        }
        self.episode.on_timeout(timeout);
        self.prior_state = State::Loss;
        self.full_bw = 0;
        self.conserving = false;
        self.window = packets(timeout.in_flight, self.mss) + 1;
    }

    fn window(&self) -> u64 {
        u64::from(self.window) * u64::from(self.mss)
    }

    fn pacing(&self) -> Option<Rate> {
        Some(rate(self.pacing))
    }

    fn ecn(&self) -> EcnUse {
        self.ecn
    }
}

#[cfg(test)]
mod tests;
