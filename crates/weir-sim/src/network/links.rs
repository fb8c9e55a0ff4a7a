//! Links: packets are queued, sent one at a time at the rate, and leave.

use weir_core::{Duration, Event, EventKind, EventSink, FlowId, Packet};

use super::{Network, Next};
use crate::hop::HopId;
use crate::observer::Observer;

/// Passes a discipline's events on with the link's name.
pub(super) struct At<'a, O> {
    pub(super) hop: HopId,
    pub(super) observer: &'a mut O,
}

impl<O: Observer> EventSink for At<'_, O> {
    fn event(&mut self, event: &Event) {
        self.observer.event(self.hop, event);
    }
}

/// Lists whose packets leave a queue.
struct Gone<'a>(&'a mut Vec<FlowId>);

impl EventSink for Gone<'_> {
    fn event(&mut self, event: &Event) {
        if matches!(event.kind, EventKind::Drop(_) | EventKind::Dequeue) {
            self.0.push(event.packet.flow);
        }
    }
}

impl<O: Observer> Network<O> {
    /// Empties the queues, and tells whose packets were in them.
    pub fn drain(&mut self) -> Vec<FlowId> {
        self.hops().flat_map(|hop| self.drain_hop(hop)).collect()
    }

    /// The same of one queue.
    pub fn drain_hop(&mut self, hop: HopId) -> Vec<FlowId> {
        let mut left = Vec::new();
        let hop = &mut self.hops[hop.index()];
        let mut now = self.now;
        while hop.qdisc.backlog().packets > 0 {
            // A discipline may well drop while it is emptied (CoDel does).
            let mut gone = Gone(&mut left);
            if hop.qdisc.dequeue(now, &mut gone).is_none() {
                now = hop.qdisc.next_ready(now).unwrap_or(now).max(now + Duration::from_micros(1));
            }
        }
        left
    }

    pub(super) fn enqueue(&mut self, hop: HopId, mut packet: Packet) {
        let state = &mut self.hops[hop.index()];
        packet.wire_bytes += u32::from(packet.segments) * state.overhead;
        if let Some(replay) = &mut state.replay {
            replay.enter(packet.id, packet.segments);
        }
        let mut sink = At { hop, observer: &mut self.observer };
        state.qdisc.enqueue(packet, self.now, &mut sink);
        if state.transmitting.is_none() {
            self.begin(hop.0);
        }
    }

    /// Lets an idle link send its next packet.
    pub(super) fn begin(&mut self, index: u32) {
        let hop = &mut self.hops[index as usize];
        if hop.transmitting.is_some() {
            return;
        }
        if hop.opportunities.is_some() {
            return self.await_opportunity(index);
        }
        let mut sink = At { hop: HopId(index), observer: &mut self.observer };
        match hop.qdisc.dequeue(self.now, &mut sink) {
            Some(packet) => {
                if let Some(steps) = &hop.steps {
                    let rate = steps.at(self.now);
                    if rate != hop.rate {
                        // What remains is of a nanosecond at the rate before.
                        (hop.rate, hop.remainder) = (rate, 0);
                    }
                }
                let took = hop.rate.serialize(u64::from(packet.wire_bytes), &mut hop.remainder);
                hop.report.busy = hop.report.busy + took;
                hop.transmitting = Some(packet);
                self.agenda.add(self.now + took, Next::Depart(index));
            }
            None => {
                hop.remainder = 0;
                if let Some(ready) = hop.qdisc.next_ready(self.now) {
                    // A discipline that has dropped all it had leaves nothing to wait for; one that shapes does.
                    let ready = ready.max(self.now + Duration::from_nanos(1));
                    if ready < hop.held {
                        hop.held = ready;
                        self.agenda.add(ready, Next::Ready(index));
                    }
                }
            }
        }
    }

    pub(super) fn depart(&mut self, index: u32) {
        let Some(mut packet) = self.hops[index as usize].transmitting.take() else { return };
        self.left(index, &mut packet);
        self.begin(index);
        self.hand_on(index, &packet);
    }

    /// Keeps the books of a packet that has left the link. As it goes on, it is without the link's overhead.
    pub(super) fn left(&mut self, index: u32, packet: &mut Packet) {
        let hop = &mut self.hops[index as usize];
        hop.report.packets += 1;
        hop.report.bytes += u64::from(packet.wire_bytes);
        self.observer.departed(HopId(index), packet, self.now);
        packet.wire_bytes -= u32::from(packet.segments) * hop.overhead;
    }

    #[inline]
    pub(super) fn hand_on(&mut self, index: u32, packet: &Packet) {
        let hop = &mut self.hops[index as usize];
        if hop.replay.as_mut().is_some_and(|replay| !replay.takes(packet.id)) {
            hop.report.lost += 1;
            self.observer.lost(packet.flow, self.now);
            return;
        }
        if self.flows[packet.flow.0 as usize].routed.is_some() {
            self.leave_queue(HopId(index), packet);
        } else {
            self.deliver(packet);
        }
    }
}
