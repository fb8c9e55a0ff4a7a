//! The phases of PROBE_BW, and the upper bound of what is in flight that they move.

use super::*;

impl Bbr3 {
    pub(super) fn start_down(&mut self, now_us: u64, delivered: u64) {
        self.reset_signals();
        self.up_per = NONE;
        self.rounds_since_probe = self.random.below(PROBE_ROUNDS_RANDOM) as u32;
        self.wait_us = PROBE_WAIT_US + self.random.below(PROBE_WAIT_RANDOM_US);
        self.cycle_us = now_us;
        self.feedback = Feedback::Stopping;
        self.round_end = delivered;
        self.mode = Mode::ProbeBw(Phase::Down);
    }

    pub(super) fn start_cruise(&mut self) {
        if self.in_flight_lo != NONE {
            self.in_flight_lo = self.in_flight_lo.min(self.in_flight_hi);
        }
        self.mode = Mode::ProbeBw(Phase::Cruise);
    }

    pub(super) fn start_refill(&mut self, up_rounds: u32, delivered: u64) {
        self.bw_lo = u64::MAX;
        self.in_flight_lo = NONE;
        self.up_rounds = up_rounds;
        self.up_acked = 0;
        self.probe_stopped = false;
        self.feedback = Feedback::Refilling;
        self.round_end = delivered;
        self.mode = Mode::ProbeBw(Phase::Refill);
    }

    pub(super) fn start_up(&mut self, now_us: u64, delivered: u64, bw: u64) {
        self.feedback = Feedback::Starting;
        self.round_end = delivered;
        self.cycle_us = now_us;
        if self.params.full_by_sample {
            self.reset_full(bw);
        }
        self.mode = Mode::ProbeBw(Phase::Up);
        self.raise_slope();
    }

    pub(super) fn raise_slope(&mut self) {
        let growth = 1u32 << self.up_rounds.min(30);
        self.up_rounds = (self.up_rounds + 1).min(30);
        self.up_per = (self.window / growth).max(1);
    }

    /// Bounds by what probing found. True if that began another phase.
    pub(super) fn adapt_upper_bounds(&mut self, ack: &Ack, context: &Context) -> bool {
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
                self.push_upward(ack.window_limited, ack.delivered.packets);
            }
        }
        false
    }

    pub(super) fn push_upward(&mut self, window_limited: bool, acked: u32) {
        if !window_limited || self.window < self.in_flight_hi {
            if self.params.up_counts_anew {
                self.up_acked = 0;
            }
            return;
        }
        self.up_acked += acked;
        if self.up_acked >= self.up_per {
            let steps = self.up_acked / self.up_per;
            self.up_acked -= steps * self.up_per;
            self.in_flight_hi = self.in_flight_hi.saturating_add(steps);
        }
        if self.round_start {
            self.raise_slope();
        }
    }

    pub(super) fn has_elapsed(&self, now_us: u64, us: u64) -> bool {
        now_us > self.cycle_us.saturating_add(us)
    }

    pub(super) fn is_time_to_probe(&mut self, ack: &Ack) -> bool {
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

    pub(super) fn update_phase(&mut self, ack: &Ack, context: &Context) {
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

    pub(super) fn is_probe_done(&mut self, ack: &Ack, context: &Context, in_flight: u32) -> bool {
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
}
