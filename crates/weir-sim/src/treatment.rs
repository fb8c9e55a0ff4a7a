//! What happens to a flow's packets on their way to the first link, for experiments with losses and marks that no queue
//! makes.

use weir_core::{Ecn, Packet, Random};

use crate::flow::FlowSpec;

/// What is done to each packet of one flow.
pub(crate) struct Treatment {
    random: Random,
    loss: f64,
    mark: f64,
    remark: Option<Ecn>,
}

impl Treatment {
    /// Of a flow whose draws come from `random`; nothing, if its packets stay as they are.
    pub(crate) fn of(spec: &FlowSpec, random: Random) -> Option<Box<Self>> {
        let FlowSpec { loss, mark, remark, .. } = *spec;
        (loss > 0.0 || mark > 0.0 || remark.is_some()).then(|| Box::new(Self { random, loss, mark, remark }))
    }

    /// Treats a packet; nothing is left of one that is lost.
    pub(crate) fn apply(&mut self, mut packet: Packet) -> Option<Packet> {
        if self.loss > 0.0 && self.random.unit() < self.loss {
            return None;
        }
        if let Some(codepoint) = self.remark {
            packet = packet.with_ecn(codepoint);
        }
        if self.mark > 0.0 && packet.ecn.is_capable() && self.random.unit() < self.mark {
            packet.ecn_in = Ecn::Ce;
            packet.ecn = Ecn::Ce;
        }
        Some(packet)
    }
}
