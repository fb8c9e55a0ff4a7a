//! The receiving ends: what arrives there, and the acknowledgements that go back.

use weir_core::{Ecn, FlowId, Packet, Time};

use super::{Network, Next};
use crate::endpoint::Arriving;
use crate::flow::{Amount, Source};
use crate::observer::{Carried, Observer, Way};

impl<O: Observer> Network<O> {
    /// The receiver takes a packet that has left the last link.
    pub(super) fn deliver(&mut self, packet: &Packet) {
        let index = packet.flow.0;
        let flow = &mut self.flows[index as usize];
        let at = self.now + flow.tail;
        let payload = packet.wire_bytes - u32::from(packet.segments) * flow.header;
        if let Source::Connection(sender) = &flow.source {
            let arriving = Arriving {
                data: flow.receiver.read(packet.handle),
                segments: packet.segments,
                payload,
                size: sender.mss(),
                marked: packet.ecn == Ecn::Ce,
                sent: packet.arrived,
            };
            let due = flow.receiver.due();
            if due < at {
                // An acknowledgement that was due before this packet arrives goes out first.
                self.answer(index, due);
            } else if flow.receiver.tells_apart(arriving.marked) {
                self.answer(index, at);
            }
            let flow = &mut self.flows[index as usize];
            if flow.receiver.receive(at, &arriving) {
                self.answer(index, at);
            } else {
                self.await_reply(index);
            }
        } else {
            flow.receiver.packets += 1;
            flow.receiver.bytes += u64::from(payload);
        }
        let flow = &mut self.flows[index as usize];
        if let Amount::Bytes(wanted) = flow.amount
            && flow.report.finished.is_none()
            && flow.receiver.bytes >= wanted
        {
            flow.report.finished = Some(at);
            self.unfinished -= 1;
        }
        if flow.task.is_some() {
            self.arrived(index, at);
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
            self.await_reply(index);
        }
    }

    /// Puts the receiver's timer on the agenda, if it is not there already.
    fn await_reply(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        let due = flow.receiver.due();
        if due < flow.receiver_timer {
            flow.receiver_timer = due;
            self.agenda.add(due, Next::Reply(index));
        }
    }

    /// The receiver acknowledges what waits, at `at`.
    fn answer(&mut self, index: u32, at: Time) {
        let flow = &mut self.flows[index as usize];
        if flow.routed.is_some() {
            return self.send_ack(index, at);
        }
        let mut frame = flow.receiver.acknowledge(at);
        frame.at += flow.back;
        if self.watches_return {
            if flow.returning.is_empty() {
                self.agenda.add(frame.at, Next::Return(index));
            }
            flow.returning.push_back(frame);
        } else {
            frame.at += flow.around;
            if flow.acks.is_empty() {
                self.agenda.add(frame.at, Next::Ack(index));
            }
            flow.acks.push_back(frame);
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
