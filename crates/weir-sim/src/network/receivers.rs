//! The receiving ends: what arrives there, and the acknowledgements that go back.

use weir_core::{Ecn, FlowId, Packet, Time};
use weir_fq::SubFlow;

use super::{Network, Next};
use crate::endpoint::Arriving;
use crate::engine::Agenda;
use crate::flow::{Amount, Flow, Source};
use crate::observer::{Carried, Observer, Way};

impl Flow {
    /// The receiver acknowledges what waits, at `at`; the flow has no route. An acknowledgement that is `watched` is
    /// next at the bottleneck, another at the sender.
    #[inline]
    fn answer(&mut self, index: u32, at: Time, watched: bool, agenda: &mut Agenda<Next>) {
        let mut frame = self.receiver.acknowledge(at);
        frame.at += self.back;
        if watched {
            if self.returning.is_empty() {
                agenda.add(frame.at, Next::Return(index));
            }
            self.returning.push_back(frame);
        } else {
            frame.at += self.around;
            if self.acks.is_empty() {
                agenda.add(frame.at, Next::Ack(index));
            }
            self.acks.push_back(frame);
        }
    }

    /// Puts the receiver's timer on the agenda, if it is not there already.
    #[inline]
    fn await_reply(&mut self, index: u32, agenda: &mut Agenda<Next>) {
        let due = self.receiver.due();
        if due < self.receiver_timer {
            self.receiver_timer = due;
            agenda.add(due, Next::Reply(index));
        }
    }
}

impl<O: Observer> Network<O> {
    /// The receiver takes a packet that has left the last link.
    pub(super) fn deliver(&mut self, packet: &Packet) {
        let index = packet.flow.0;
        let flow = &mut self.flows[index as usize];
        let at = self.now + flow.tail;
        let payload = packet.wire_bytes - u32::from(packet.segments) * flow.header;
        let mut asks = None;
        if let Source::Connection(sender) = &flow.source {
            let arriving = Arriving {
                handle: packet.handle,
                segments: packet.segments,
                payload,
                size: sender.mss(),
                marked: packet.ecn == Ecn::Ce,
                sent: packet.arrived,
            };
            let due = flow.receiver.due();
            if due < at || flow.receiver.tells_apart(arriving.marked) {
                // An acknowledgement that was due before this packet arrives, or that must not be of this one too, goes
                // first.
                self.answer(index, due.min(at));
                return self.deliver(packet);
            }
            if let Some(twin) = &mut flow.twin {
                twin.arrived(flow.receiver.read(packet.handle).number, at);
            }
            asks = Some(flow.receiver.receive(at, arriving));
            if flow.control[0] && flow.opened == Time::MAX {
                // The SYN-ACK: the request goes with its acknowledgement.
                flow.opened = at;
            }
        } else {
            flow.receiver.packets += 1;
            flow.receiver.bytes += u64::from(payload);
        }
        if let Amount::Bytes(wanted) = flow.amount
            && flow.report.finished.is_none()
            && flow.receiver.bytes >= wanted + flow.control_bytes()
        {
            flow.report.finished = Some(at);
            self.unfinished -= 1;
        }
        if flow.twin.is_some() {
            self.see_twins(index, at);
        }
        let flow = &mut self.flows[index as usize];
        let has_task = flow.task.is_some();
        match asks {
            Some(true) if flow.routed.is_some() => self.send_ack(index, at),
            Some(true) => flow.answer(index, at, self.watches_return, &mut self.agenda),
            Some(false) => flow.await_reply(index, &mut self.agenda),
            None => {}
        }
        if has_task {
            self.arrived(index, at);
        }
    }

    /// A packet of a sub-flow has arrived: is the connection done?
    #[cold]
    fn see_twins(&mut self, index: u32, at: Time) {
        let flow = &self.flows[index as usize];
        let (Some(twin), Some(other)) = (&flow.twin, flow.sibling()) else { return };
        let heavy = if twin.sub_flow == SubFlow::Heavy { index } else { other };
        let bytes = flow.receiver.bytes + self.flows[other as usize].receiver.bytes;
        let flow = &mut self.flows[heavy as usize];
        if matches!(flow.amount, Amount::Bytes(wanted) if bytes >= wanted) {
            if flow.report.finished.is_none() {
                flow.report.finished = Some(at);
                self.unfinished -= 1;
            }
            self.hush(index);
            self.hush(other);
        }
    }

    /// The receiver's timer.
    pub(super) fn reply(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        if flow.receiver_timer <= self.now {
            flow.receiver_timer = Time::MAX;
        }
        let due = flow.receiver.due();
        if due <= self.now {
            self.answer(index, due);
        } else {
            flow.await_reply(index, &mut self.agenda);
        }
    }

    /// The receiver acknowledges what waits, at `at`.
    fn answer(&mut self, index: u32, at: Time) {
        let flow = &mut self.flows[index as usize];
        if flow.routed.is_some() {
            self.send_ack(index, at);
        } else {
            flow.answer(index, at, self.watches_return, &mut self.agenda);
        }
    }

    pub(super) fn pass_back(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        let Some(mut frame) = flow.returning.pop_front() else { return };
        if let Some(next) = flow.returning.front() {
            self.agenda.add(next.at, Next::Return(index));
        }
        let Source::Connection(sender) = &flow.source else { return };
        let note = flow.receiver.note(frame.index);
        let carried = Carried {
            flow: FlowId(index),
            link: flow.path[0],
            way: Way::Back,
            offset: 0,
            acknowledged: sender.writes.offset(frame.next),
            payload: 0,
            wire_bytes: flow.ack_bytes,
            segments: 1,
            ecn: Ecn::NotEct,
            sent: self.now - flow.back,
            echoed: note.echoed,
            spin: frame.spin,
            reduced: false,
            echo: frame.echo,
            marks: frame.ce,
            blocks: note.blocks.map(|(from, to)| {
                if from < to { (sender.writes.offset(from), sender.writes.offset(to)) } else { (0, 0) }
            }),
        };
        frame.at += flow.around;
        if flow.acks.is_empty() {
            self.agenda.add(frame.at, Next::Ack(index));
        }
        flow.acks.push_back(frame);
        self.observer.returning(&carried, self.now);
    }
}
