//! DualPI2's decisions as in Linux: `must_drop`, `do_step_aqm` and the controller of [`crate::pi`].

use weir_core::{Duration, MarkReason, Packet, Random};

use super::{Decision, DualPi2Keys};
use crate::dual::Dual;
use crate::keys::BuildContext;
use crate::pi::{ONE, Pi, roll};
use crate::step::Above;
use crate::step::Threshold;

#[derive(Clone, Debug)]
pub(super) struct KernelDualPi2 {
    pub(super) pi: Pi,
    random: Random,
    coupling: u64,
    drop_overload: bool,
    step: Above,
    mtu: u64,
}

impl KernelDualPi2 {
    pub(super) fn new(
        keys: &DualPi2Keys,
        (alpha, beta): (f64, f64),
        random: Random,
        context: &BuildContext,
    ) -> Self {
        let most = if keys.drop_overload { ONE } else { ONE / u32::from(keys.coupling) };
        let step = keys.step.unwrap_or(Threshold::Sojourn(Duration::from_millis(1)));
        Self {
            pi: Pi::new(keys.target, alpha, beta, most),
            random,
            coupling: u64::from(keys.coupling),
            drop_overload: keys.drop_overload,
            step: step.resolve(context),
            mtu: u64::from(context.mtu),
        }
    }

    /// k p', which passes `ONE` on overload.
    fn coupled(&self) -> u64 {
        u64::from(self.pi.prob) * self.coupling
    }

    fn is_overloaded(&self) -> bool {
        self.coupled() > u64::from(ONE)
    }

    /// With two coins: p'^2.
    fn rolls_square(&mut self) -> bool {
        roll(&mut self.random, self.pi.prob) && roll(&mut self.random, self.pi.prob)
    }

    fn is_almost_empty(&self, queues: &Dual) -> bool {
        queues.backlog().bytes < 2 * self.mtu
    }
}

impl super::Decide for KernelDualPi2 {
    fn update(&mut self, delay: Duration) -> bool {
        self.pi.update(delay)
    }

    fn l4s(&mut self, packet: &Packet, sojourn: Duration, queues: &Dual) -> Decision {
        let coupled = if self.is_almost_empty(queues) {
            false
        } else if self.is_overloaded() {
            if self.drop_overload && self.rolls_square() {
                return Decision::Drop;
            }
            true
        } else {
            let prob = self.coupled() as u32;
            roll(&mut self.random, prob)
        };
        let is_above = match self.step {
            Above::Sojourn(most) => sojourn > most,
            above => above.is_queue_above(queues.l4s.backlog()),
        };
        if (coupled || is_above) && !packet.ecn.is_capable() {
            return Decision::Drop;
        }
        match (coupled, is_above) {
            (true, _) => Decision::Mark(MarkReason::Aqm),
            (false, true) => Decision::Mark(MarkReason::CeThreshold),
            (false, false) => Decision::Send,
        }
    }

    fn classic(&mut self, packet: &Packet, queues: &Dual) -> Decision {
        if self.is_almost_empty(queues) || !self.rolls_square() {
            Decision::Send
        } else if self.is_overloaded() || !packet.ecn.is_capable() {
            Decision::Drop
        } else {
            Decision::Mark(MarkReason::Aqm)
        }
    }
}
