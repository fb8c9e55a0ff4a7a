//! Links with a trace: what they send at each of its opportunities. See [`crate::Trace`].

use weir_core::Time;

use super::Network;
use super::Next;
use crate::engine::Agenda;
use crate::hop::{Hop, HopId, MTU};
use crate::observer::Observer;
use crate::trace::OPPORTUNITY_BYTES;

/// Bytes that a trace does not count: Ethernet's header.
const UNCOUNTED: u32 = MTU - OPPORTUNITY_BYTES;

impl Hop {
    /// Puts the next opportunity on the agenda, if there is something to send.
    pub(super) fn await_opportunity(&mut self, id: HopId, now: Time, agenda: &mut Agenda<Next>) {
        let Some(state) = &mut self.opportunities else { return };
        let busy = self.transmitting.is_some() || self.qdisc.backlog().packets > 0;
        if busy && !state.awaited {
            state.awaited = true;
            state.schedule.skip(now);
            agenda.add(state.schedule.next(), Next::Opportunity(id.0));
        }
    }
}

impl<O: Observer> Network<O> {
    /// An opportunity has come.
    pub(super) fn opportunity(&mut self, index: u32) {
        let mut bytes = OPPORTUNITY_BYTES;
        if let Some(state) = &mut self.hops[index as usize].opportunities {
            state.awaited = false;
            state.schedule.take();
        }
        while bytes > 0 {
            let (link, mut around) = self.link(HopId(index));
            let Some(state) = &mut link.opportunities else { return };
            if link.transmitting.is_none() {
                let Some(packet) = link.qdisc.dequeue(around.now, &mut around.sink) else { break };
                state.left = packet.wire_bytes.saturating_sub(u32::from(packet.segments) * UNCOUNTED);
                link.transmitting = Some(packet);
            }
            let part = state.left.min(bytes);
            state.left -= part;
            bytes -= part;
            if state.left > 0 {
                break;
            }
            if let Some(mut packet) = link.transmitting.take() {
                let arrives = link.leave(&mut packet, &mut around);
                self.hand_on(index, &packet, arrives);
            }
        }
        self.hops[index as usize].await_opportunity(HopId(index), self.now, &mut self.agenda);
    }
}
