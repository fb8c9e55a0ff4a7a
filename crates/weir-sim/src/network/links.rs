//! Links: packets are queued, sent one at a time at the rate, and leave.

use weir_core::{Duration, Event, EventKind, EventSink, FlowId, Packet, Time};

use super::{Network, Next};
use crate::engine::Agenda;
use crate::hop::{Hop, HopId};
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

/// What a link acts upon beside itself.
pub(super) struct Around<'a, O> {
    pub(super) now: Time,
    pub(super) agenda: &'a mut Agenda<Next>,
    pub(super) sink: At<'a, O>,
}

impl Hop {
    /// Queues a packet, which an idle link sends at once.
    #[inline(always)]
    pub(super) fn enqueue<O: Observer>(&mut self, mut packet: Packet, around: &mut Around<'_, O>) {
        packet.wire_bytes += u32::from(packet.segments) * self.overhead;
        if let Some(replay) = &mut self.replay {
            replay.enter(packet.id, packet.segments);
        }
        self.qdisc.enqueue(packet, around.now, &mut around.sink);
        if self.transmitting.is_none() {
            self.wake(around);
        }
    }

    #[inline(never)]
    fn wake<O: Observer>(&mut self, around: &mut Around<'_, O>) {
        self.begin(around);
    }

    /// Keeps the books of a packet that has left, which goes on without the link's overhead. Returns whether it comes
    /// out of the tunnel, if there is one.
    #[inline]
    pub(super) fn leave<O: Observer>(&mut self, packet: &mut Packet, around: &mut Around<'_, O>) -> bool {
        self.report.packets += 1;
        self.report.bytes += u64::from(packet.wire_bytes);
        around.sink.observer.departed(around.sink.hop, packet, around.now);
        packet.wire_bytes -= u32::from(packet.segments) * self.overhead;
        let arrives = self.replay.as_mut().is_none_or(|replay| replay.takes(packet.id));
        self.report.lost += u64::from(!arrives);
        arrives
    }

    /// Sends the next packet; nothing is being sent.
    #[inline(always)]
    fn begin<O: Observer>(&mut self, around: &mut Around<'_, O>) {
        if self.aggregating.is_some() {
            return self.aggregate(around);
        }
        let Around { now, agenda, sink } = around;
        let (now, id) = (*now, sink.hop);
        if self.opportunities.is_some() {
            return self.await_opportunity(id, now, agenda);
        }
        match self.qdisc.dequeue(now, sink) {
            Some(packet) => {
                if let Some(steps) = &self.steps {
                    let rate = steps.at(now);
                    if rate != self.rate {
                        // What remains is of a nanosecond at the rate before.
                        (self.rate, self.remainder) = (rate, 0);
                    }
                }
                let took = self.rate.serialize(u64::from(packet.wire_bytes), &mut self.remainder);
                self.report.busy = self.report.busy + took;
                self.transmitting = Some(packet);
                agenda.add(now + took, Next::Depart(id.0));
            }
            None => {
                self.remainder = 0;
                if let Some(ready) = self.qdisc.next_ready(now) {
                    // A discipline that has dropped all it had leaves nothing to wait for; one that shapes does.
                    let ready = ready.max(now + Duration::from_nanos(1));
                    if ready < self.held {
                        self.held = ready;
                        agenda.add(ready, Next::Ready(id.0));
                    }
                }
            }
        }
    }
}

impl<O: Observer> Network<O> {
    /// Empties the queues, and returns whose packets were in them.
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

    #[inline]
    pub(super) fn enqueue(&mut self, hop: HopId, packet: Packet) {
        let (link, mut around) = self.link(hop);
        link.enqueue(packet, &mut around);
    }

    /// Lets a link send its next packet, if it is idle.
    pub(super) fn begin(&mut self, index: u32) {
        let (link, mut around) = self.link(HopId(index));
        if link.transmitting.is_none() {
            link.begin(&mut around);
        }
    }

    /// A link, and what it acts upon.
    #[inline]
    pub(super) fn link(&mut self, id: HopId) -> (&mut Hop, Around<'_, O>) {
        let sink = At { hop: id, observer: &mut self.observer };
        (&mut self.hops[id.index()], Around { now: self.now, agenda: &mut self.agenda, sink })
    }

    pub(super) fn depart(&mut self, index: u32) {
        let (link, mut around) = self.link(HopId(index));
        let Some(mut packet) = link.transmitting else { return };
        link.transmitting = None;
        let arrives = link.leave(&mut packet, &mut around);
        link.begin(&mut around);
        self.hand_on(index, &packet, arrives);
    }

    /// Hands on a packet that has left a link, if it `arrives` at its end.
    #[inline]
    pub(super) fn hand_on(&mut self, index: u32, packet: &Packet, arrives: bool) {
        if !arrives {
            self.observer.lost(packet.flow, self.now);
        } else if self.flows[packet.flow.0 as usize].routed.is_some() {
            self.leave_queue(HopId(index), packet);
        } else {
            self.deliver(packet);
        }
    }
}
