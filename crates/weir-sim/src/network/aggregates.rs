//! Links that send several packets at once. See [`crate::Aggregates`].

use weir_core::Duration;

use super::links::Around;
use super::{Network, Next};
use crate::hop::{Hop, HopId};
use crate::observer::Observer;
use crate::workload::Span;

impl Hop {
    /// Makes up an aggregate of what waits, if none is under way.
    pub(super) fn aggregate<O: Observer>(&mut self, around: &mut Around<'_, O>) {
        let Some(state) = &mut self.aggregating else { return };
        if !state.packets.is_empty() {
            return;
        }
        let mut air = Duration::ZERO;
        while state.takes_more(air)
            && let Some(packet) = self.qdisc.dequeue(around.now, &mut around.sink)
        {
            air = air + self.rate.time_for(u64::from(packet.wire_bytes));
            state.packets.push(packet);
        }
        if !state.packets.is_empty() {
            self.report.busy = self.report.busy + air;
            let wait = Span::Exponential(state.how.gap).draw(&mut state.random);
            around.agenda.add(around.now + wait + air, Next::Aggregate(around.sink.hop.0));
        }
    }
}

impl<O: Observer> Network<O> {
    /// An aggregate is complete at the other end.
    pub(super) fn aggregated(&mut self, index: u32) {
        let Some(state) = &mut self.hops[index as usize].aggregating else { return };
        let mut packets = std::mem::take(&mut state.packets);
        for packet in &mut packets {
            let (link, mut around) = self.link(HopId(index));
            let arrives = link.leave(packet, &mut around);
            self.hand_on(index, packet, arrives);
        }
        packets.clear();
        let (link, mut around) = self.link(HopId(index));
        // The same allocation again, unless what was handed on has already led to another aggregate.
        if let Some(state) = link.aggregating.as_mut().filter(|state| state.packets.is_empty()) {
            state.packets = packets;
        }
        link.aggregate(&mut around);
    }
}
