//! The sending ends: when they start and stop, what they send, and what acknowledgements and timers do to them.

use weir_core::{Duration, FlowId, Packet, Time};

use super::links::{Around, At};
use super::{Network, Next};
use crate::endpoint::{AckFrame, Sender};
use crate::flow::{Amount, Flow, SAMPLE_INTERVAL, Sample, Source};
use crate::hop::HopId;
use crate::observer::{Carried, Observer};

/// A flow of so many datagrams is over so long after the last was sent, whatever is missing.
const LAST_DATAGRAM: Duration = Duration::from_secs(2);

impl<O: Observer> Network<O> {
    pub(super) fn start(&mut self, index: u32) {
        let now = self.now;
        let flow = &mut self.flows[index as usize];
        flow.report.started = Some(now);
        match &mut flow.source {
            Source::Connection(sender) => {
                let bytes = match flow.amount {
                    Amount::Bytes(bytes) => Some(bytes),
                    Amount::Endless | Amount::Time(_) => None,
                };
                match flow.control {
                    [true, closes] => sender.open(bytes, closes),
                    [false, _] => sender.writes.write(bytes),
                }
                self.send(index);
            }
            Source::Datagrams { until, .. } => {
                if let Amount::Time(length) = flow.amount {
                    *until = now + length;
                }
                self.datagram(index);
            }
        }
    }

    /// The ends of a connection learn the round trip from their handshake. It is not simulated: if there is a queue on
    /// the way, it reports nothing, and the first data will.
    pub(super) fn shake_hands(&mut self, index: u32) {
        let flow = &self.flows[index as usize];
        let rtt = flow.round_trip();
        let waits = |hop: HopId| self.hops[hop.index()].qdisc.backlog().packets > 0;
        if flow.path.iter().any(|hop| waits(*hop) || self.hops[hop.index()].back.is_some_and(waits)) {
            return;
        }
        let other = flow.routed.as_ref().and_then(|routed| routed.other);
        for half in [Some(index), other].into_iter().flatten() {
            if let Some(sender) = self.sender(half) {
                sender.shake_hands(rtt);
            }
        }
    }

    pub(super) fn stop(&mut self, index: u32) {
        let now = self.now;
        self.hush(index);
        if let Some(other) = self.flows[index as usize].sibling() {
            self.hush(other);
        }
        let flow = &mut self.flows[index as usize];
        if flow.report.finished.is_none() {
            flow.report.finished = Some(now);
            self.unfinished -= 1;
        }
    }

    /// From now on it sends nothing new.
    pub(super) fn hush(&mut self, index: u32) {
        let now = self.now;
        match &mut self.flows[index as usize].source {
            Source::Connection(sender) => sender.stop(),
            Source::Datagrams { until, .. } => *until = now,
        }
    }

    pub(super) fn datagram(&mut self, index: u32) {
        let now = self.now;
        let id = self.next_id;
        let flow = &mut self.flows[index as usize];
        let Source::Datagrams { pace, ecn, number, until, ticks } = &mut flow.source else {
            return;
        };
        *ticks = false;
        if now >= *until {
            return;
        }
        let packet = Flow::datagram(id, FlowId(index), *ecn, *number, now);
        *number += 1;
        let [due, sent] = pace.after(now, packet.wire_bytes);
        // A burst brings nothing forward that is due only when the flow is over.
        let again = if due < *until { sent } else { sent.max(due) };
        let done = matches!(flow.amount, Amount::Bytes(bytes)
            if *number * u64::from(packet.wire_bytes - flow.header) >= bytes);
        if done {
            // It ends with the last that arrives, or without those that were lost.
            self.agenda.add(now + LAST_DATAGRAM, Next::Stop(index));
        } else {
            *ticks = true;
            self.agenda.add(again, Next::Datagram(index));
        }
        self.emit(index, packet);
    }

    fn sender(&mut self, index: u32) -> Option<&mut Sender> {
        match &mut self.flows[index as usize].source {
            Source::Connection(sender) => Some(sender),
            Source::Datagrams { .. } => None,
        }
    }

    /// Sends what the flow may send now, and sets its timers.
    #[inline]
    pub(super) fn send(&mut self, index: u32) {
        self.send_alone(index);
        if let Some(other) = self.flows[index as usize].sibling() {
            self.send_by_turns([other, index]);
        }
    }

    /// What one sub-flow has heard or sent may let the other send.
    #[cold]
    fn send_by_turns(&mut self, flows: [u32; 2]) {
        for index in flows.into_iter().cycle() {
            let sent = self.flows[index as usize].report.sent;
            self.send_alone(index);
            if self.flows[index as usize].report.sent == sent {
                return;
            }
        }
    }

    fn send_alone(&mut self, index: u32) {
        let now = self.now;
        let flow = &self.flows[index as usize];
        if flow.gso > 1 || flow.routed.is_some() || flow.treatment.is_some() || self.watches_return {
            self.send_bursts(index);
        } else {
            self.send_straight(index);
        }
        let flow = &mut self.flows[index as usize];
        let Source::Connection(sender) = &mut flow.source else { return };
        if let Some(due) = sender.timer_before(flow.timer) {
            flow.timer = due;
            self.agenda.add(due.max(now), Next::Timer(index));
        }
        if let Some(due) = sender.paced_until(now)
            && due < flow.pacing
        {
            flow.pacing = due;
            self.agenda.add(due, Next::Pace(index));
        }
    }

    /// One by one, to a link where nobody watches them come.
    #[inline(always)]
    fn send_straight(&mut self, index: u32) {
        let now = self.now;
        let flow = &mut self.flows[index as usize];
        let Source::Connection(sender) = &mut flow.source else { return };
        let id = flow.path[0];
        let link = &mut self.hops[id.index()];
        let sink = At { hop: id, observer: &mut self.observer };
        let mut around = Around { now, agenda: &mut self.agenda, sink };
        while let Some(out) = sender.poll(now) {
            let packet = out.packet(self.next_id, FlowId(index), now);
            self.next_id += 1;
            flow.report.sent += 1;
            link.enqueue(Packet { hosts: flow.hosts, ..packet }, &mut around);
        }
    }

    /// With generic segmentation offload: what continues goes as one packet.
    fn send_bursts(&mut self, index: u32) {
        let (now, most) = (self.now, self.flows[index as usize].gso);
        let mut held = None;
        while let Some(burst) = self.sender(index).and_then(|sender| sender.gather(now, &mut held, most)) {
            self.emit(index, burst.packet(self.next_id, FlowId(index), now));
        }
    }

    /// Puts a packet of the flow onto its path.
    fn emit(&mut self, index: u32, mut packet: Packet) {
        self.next_id += 1;
        let flow = &mut self.flows[index as usize];
        flow.report.sent += u64::from(packet.segments);
        packet.hosts = flow.hosts;
        if let Some(treatment) = &mut flow.treatment {
            let Some(treated) = treatment.apply(packet) else { return };
            packet = treated;
        }
        if flow.routed.is_some() {
            return self.set_out(index, packet);
        }
        let hop = flow.path[0];
        if self.watches_return {
            self.announce(hop, &mut packet);
        }
        self.enqueue(hop, packet);
    }

    /// Lets the observer see a packet that comes to its link, and judge it.
    fn announce(&mut self, hop: HopId, packet: &mut Packet) {
        let flow = &self.flows[packet.flow.0 as usize];
        let data = flow.receiver.read(packet.handle);
        let payload = packet.wire_bytes - u32::from(packet.segments) * flow.header;
        let carried = Carried {
            flow: packet.flow,
            link: hop,
            offset: match &flow.source {
                Source::Connection(sender) => sender.writes.offset(data.sequence),
                Source::Datagrams { .. } => data.sequence * u64::from(payload),
            },
            payload,
            wire_bytes: packet.wire_bytes,
            segments: packet.segments,
            ecn: packet.ecn,
            sent: packet.arrived,
            echoed: flow.heard,
            spin: data.spin,
            reduced: data.reduced,
            ..Carried::default()
        };
        self.observer.arriving(hop, packet, &carried);
    }

    /// The first acknowledgement in line has come to the sender.
    pub(super) fn acknowledge(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        if let Some(next) = flow.acks.get(1) {
            self.agenda.add(next.at, Next::Ack(index));
        }
        let Some(frame) = flow.acks.front() else { return };
        flow.heard = frame.at - (flow.back + flow.around);
        if let Some(twin) = &mut flow.twin {
            twin.hear(self.now, flow.heard);
        }
        flow.source.hear(self.now, frame);
        flow.acks.pop_front();
        self.go_on(index);
    }

    /// An acknowledgement has come to the sender by a route.
    pub(super) fn take_ack(&mut self, index: u32, frame: &AckFrame) {
        let flow = &mut self.flows[index as usize];
        flow.heard = frame.at;
        if let Some(twin) = &mut flow.twin {
            twin.hear(self.now, flow.heard);
        }
        flow.source.hear(self.now, frame);
        self.go_on(index);
    }

    /// What a sender does that has heard from its receiver.
    #[inline(always)]
    fn go_on(&mut self, index: u32) {
        self.sample(index);
        self.send(index);
        let flow = &mut self.flows[index as usize];
        if flow.task.is_some() {
            self.release(index);
        } else if flow.report.finished.is_some() && flow.acks.is_empty() {
            flow.fit();
        }
    }

    pub(super) fn timer(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        if flow.timer <= self.now {
            flow.timer = Time::MAX;
        }
        let Source::Connection(sender) = &mut flow.source else { return };
        if sender.timer() <= self.now {
            sender.timeout(self.now);
            self.sample(index);
        }
        self.send(index);
    }

    #[inline]
    fn sample(&mut self, index: u32) {
        if self.now >= self.flows[index as usize].sample_due {
            self.look_at(index);
        }
    }

    #[inline(never)]
    fn look_at(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        let Source::Connection(sender) = &flow.source else { return };
        flow.sample_due = self.now + SAMPLE_INTERVAL;
        flow.report.samples.push(Sample {
            time: self.now,
            rtt: sender.rtt.smoothed,
            window: sender.controller.window(),
            delivered: flow.report.bytes + sender.delivery.delivered_bytes(),
            lost: flow.report.lost + sender.delivery.lost(),
            marked: sender.echoes,
        });
    }
}
