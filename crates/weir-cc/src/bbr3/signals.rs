//! What BBR makes of an acknowledgement: round trips, bandwidth samples, losses and marks, the lower bounds that yield
//! to them, and whether the pipe is full.

use super::*;

impl Bbr3 {
    pub(super) fn context(&self, ack: &Ack) -> Context {
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

    pub(super) fn update_round(&mut self, ack: &Ack) {
        let sample = ack.rate.filter(|sample| micros_of(sample.interval) > 0);
        self.round_start = sample.is_some_and(|sample: RateSample| sample.prior_delivered >= self.round_end);
        if self.round_start {
            self.round_end = ack.total_delivered;
            self.rounds_since_probe = (self.rounds_since_probe + 1).min(255);
            self.update_ecn_alpha(ack);
        }
    }

    pub(super) fn update_ecn_alpha(&mut self, ack: &Ack) {
        let limit = micros_of(self.params.ecn_max_rtt);
        if self.params.ecn && (limit == 0 || self.min_rtt_us.is_some_and(|us| us <= limit)) {
            self.ecn_eligible = true;
        }
        let delivered = ack.total_delivered - self.alpha_delivered;
        if !self.ecn_eligible || delivered == 0 {
            return;
        }
        let share = ((self.delivered_ce - self.alpha_ce) << 8) / delivered;
        self.ecn_alpha = ((((UNIT - ECN_GAIN) * self.ecn_alpha) >> 8) + ((ECN_GAIN * share) >> 8)).min(UNIT);
        (self.alpha_delivered, self.alpha_ce) = (ack.total_delivered, self.delivered_ce);
        if !self.full {
            self.ecn_rounds = if share >= ECN_THRESHOLD { self.ecn_rounds + 1 } else { 0 };
            if self.ecn_rounds >= FULL_ECN_ROUNDS {
                self.startup_too_high();
            }
        }
    }

    pub(super) fn startup_too_high(&mut self) {
        self.full = true;
        let latest = if self.params.startup_latest { self.in_flight_latest } else { 0 };
        self.in_flight_hi = self.in_flight_for(self.max_bw(), UNIT).max(latest);
    }

    /// Losses, each as it is found, before the rest of the acknowledgement.
    pub(super) fn note_losses(&mut self, ack: &Ack) {
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

    pub(super) fn is_too_high(&self, context: &Context) -> bool {
        let in_flight = u64::from(context.in_flight_at_send);
        if in_flight > 0 && u64::from(context.lost) > (in_flight * LOSS_THRESHOLD) >> 8 {
            return true;
        }
        let marked = u64::from(context.ce);
        let threshold = (u64::from(context.delivered) * ECN_THRESHOLD) >> 8;
        let much = marked > threshold || self.params.ecn_inclusive && marked == threshold;
        self.ecn_eligible && marked > 0 && much
    }

    pub(super) fn handle_too_high(&mut self, in_flight: u32, limited: bool, now_us: u64, delivered: u64) {
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

    pub(super) fn update_signals(&mut self, ack: &Ack, context: &Context) {
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

    pub(super) fn adapt_lower_bounds(&mut self) {
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

    pub(super) fn check_losses_in_startup(&mut self, ack: &Ack, context: &Context) {
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

    pub(super) fn reset_full(&mut self, bw: u64) {
        (self.full_bw, self.full_rounds, self.full_now) = (bw, 0, false);
    }

    pub(super) fn check_full(&mut self, context: &Context) {
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

    pub(super) fn check_drain(&mut self, ack: &Ack) {
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
            self.reset_signals();
        }
        let in_flight = self.in_network(packets(ack.in_flight, self.mss));
        if self.mode == Mode::Drain && in_flight <= self.in_flight_for(self.max_bw(), UNIT) {
            self.start_down(micros(ack.now), ack.total_delivered);
        }
    }

    pub(super) fn reset_signals(&mut self) {
        self.loss_in_round = false;
        self.ecn_in_round = false;
        self.loss_in_cycle = false;
        self.ecn_in_cycle = false;
        self.bw_latest = 0;
        self.in_flight_latest = 0;
    }
}

/// How many packets were in flight when losses reached the threshold, for a packet sent with `in_flight` in flight that
/// is the last of `lost`.
pub(super) fn in_flight_before_excess(in_flight: u32, lost: u32) -> u32 {
    let (Some(before), Some(lost_before)) = (in_flight.checked_sub(1), lost.checked_sub(1)) else {
        return NONE;
    };
    let budget = (u64::from(before) * LOSS_THRESHOLD + UNIT - 1) >> 8;
    let prefix = (budget.saturating_sub(u64::from(lost_before)) << 8) / (UNIT - LOSS_THRESHOLD);
    before.saturating_add(prefix as u32)
}
