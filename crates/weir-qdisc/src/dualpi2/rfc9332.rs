//! DualPI2's decisions as in RFC 9332 appendix A with its handling of overload, in real numbers.

use weir_core::{Duration, MarkReason, Packet};

use super::{Decision, DualPi2Keys};
use crate::dual::Dual;
use crate::keys::BuildContext;
use crate::step::Above;

/// The line of the L4S queue's own marking: from `minTh`, and how long it is, in seconds.
const MIN_TH: f64 = 800e-6;
const RANGE: f64 = 400e-6;

#[derive(Clone, Debug)]
pub(super) struct Rfc9332DualPi2 {
    /// p', 0 to 1.
    pub(super) prob: f64,
    /// Delay at the last update, in seconds.
    last: f64,
    target: f64,
    alpha: f64,
    beta: f64,
    coupling: f64,
    /// What p' is kept to.
    most: f64,
    drop_overload: bool,
    step: Option<Above>,
    /// What the probabilities have added up to since the last hit, in the Classic and the L4S queue.
    counts: [f64; 2],
}

impl Rfc9332DualPi2 {
    pub(super) fn new(keys: &DualPi2Keys, (alpha, beta): (f64, f64), context: &BuildContext) -> Self {
        let coupling = f64::from(keys.coupling);
        Self {
            prob: 0.0,
            last: 0.0,
            target: keys.target.as_secs_f64(),
            alpha,
            beta,
            coupling,
            most: if keys.drop_overload { 1.0 } else { 1.0 / coupling },
            drop_overload: keys.drop_overload,
            step: keys.step.map(|step| step.resolve(context)),
            counts: [0.0; 2],
        }
    }

    /// Hits as often as the likelihoods add up to one (`recur`).
    pub(super) fn recurs(&mut self, queue: usize, likelihood: f64) -> bool {
        let count = &mut self.counts[queue];
        *count += likelihood;
        let hit = *count > 1.0;
        if hit {
            *count -= 1.0;
        }
        hit
    }

    /// The L4S queue's own probability (`laqm`).
    pub(super) fn native(&self, sojourn: Duration, queues: &Dual) -> f64 {
        let left = queues.l4s.backlog();
        match self.step {
            Some(Above::Sojourn(most)) => f64::from(u8::from(sojourn > most)),
            Some(above) => f64::from(u8::from(above.is_queue_above(left))),
            // A packet that leaves its queue empty was the only one: `Th_len` is one packet.
            None if left.packets == 0 => 0.0,
            None => ((sojourn.as_secs_f64() - MIN_TH) / RANGE).clamp(0.0, 1.0),
        }
    }

    /// Whether p_C is at its ceiling of 1/k^2, beyond which the Classic queue drops whatever the codepoint.
    fn is_saturated(&self) -> bool {
        self.prob >= 1.0 / self.coupling
    }
}

impl super::Decide for Rfc9332DualPi2 {
    fn update(&mut self, delay: Duration) -> bool {
        let (prob, last) = (self.prob, self.last);
        let delay = delay.as_secs_f64();
        let step = self.alpha * (delay - self.target) + self.beta * (delay - last);
        self.prob = (prob + step).clamp(0.0, self.most);
        self.last = delay;
        let is_same = self.prob == prob && delay == last;
        is_same || (self.prob == self.most && prob == self.most && delay >= self.target)
    }

    fn l4s(&mut self, _: &Packet, sojourn: Duration, queues: &Dual) -> Decision {
        let coupled = self.coupling * self.prob;
        if coupled >= 1.0 && self.drop_overload {
            return if self.recurs(1, self.prob * self.prob) {
                Decision::Drop
            } else {
                Decision::Mark(MarkReason::Aqm)
            };
        }
        let native = self.native(sojourn, queues);
        let reason = if native > coupled { MarkReason::CeThreshold } else { MarkReason::Aqm };
        if self.recurs(1, native.max(coupled)) { Decision::Mark(reason) } else { Decision::Send }
    }

    fn classic(&mut self, packet: &Packet, _: &Dual) -> Decision {
        if !self.recurs(0, self.prob * self.prob) {
            Decision::Send
        } else if !packet.ecn.is_capable() || (self.is_saturated() && self.drop_overload) {
            Decision::Drop
        } else {
            Decision::Mark(MarkReason::Aqm)
        }
    }
}
