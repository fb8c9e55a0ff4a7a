//! The receiving ends: what arrives there, and the acknowledgements that go back.

use weir_core::{Ecn, FlowId, Packet, Time};

use super::{Network, Next};
use crate::endpoint::AckFrame;
use crate::flow::{Amount, Source};
use crate::observer::{Carried, Observer};

impl<O: Observer> Network<O> {
    /// The receiver takes a packet that has left the last link.
    pub(super) fn deliver(&mut self, packet: Packet) {
        let index = packet.flow.0;
        let flow = &mut self.flows[index as usize];
        let at = self.now + flow.tail;
        let bytes = packet.wire_bytes - flow.header;
        let marked = packet.ecn == Ecn::Ce;
        if let Source::Datagrams { .. } = flow.source {
            flow.receiver.packets += 1;
            flow.receiver.bytes += u64::from(bytes);
        } else {
            // An acknowledgement that was due before this packet arrives goes out first.
            if flow.receiver.due() < at {
                let due = flow.receiver.due();
                let frame = flow.receiver.acknowledge(due);
                self.answer(index, frame);
            }
            let flow = &mut self.flows[index as usize];
            let data = flow.receiver.read(packet.handle);
            let mut frames = [None, None];
            let mut count = 0;
            flow.receiver.receive(at, data, bytes, marked, |frame| {
                frames[count] = Some(frame);
                count += 1;
            });
            for frame in frames.into_iter().flatten() {
                self.answer(index, frame);
            }
            let flow = &mut self.flows[index as usize];
            let due = flow.receiver.due();
            if due < flow.receiver_timer {
                flow.receiver_timer = due;
                self.agenda.add(due, Next::Reply(index));
            }
        }
        let flow = &mut self.flows[index as usize];
        if let Amount::Bytes(wanted) = flow.amount
            && flow.report.finished.is_none()
            && flow.receiver.bytes >= wanted
        {
            flow.report.finished = Some(at);
            self.unfinished -= 1;
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
            let frame = flow.receiver.acknowledge(due);
            self.answer(index, frame);
        } else if due < flow.receiver_timer {
            flow.receiver_timer = due;
            self.agenda.add(due, Next::Reply(index));
        }
    }

    /// Sends an acknowledgement on its way; `frame.at` is when it leaves the receiver.
    fn answer(&mut self, index: u32, mut frame: AckFrame) {
        let flow = &mut self.flows[index as usize];
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
        let mss = match &flow.source {
            Source::Connection(sender) => u64::from(sender.mss()),
            Source::Datagrams { .. } => 0,
        };
        let carried = Carried {
            flow: FlowId(index),
            offset: frame.next * mss,
            payload: 0,
            sent: self.now - flow.back,
            echoed: Time::ZERO,
            spin: frame.spin,
        };
        frame.at += flow.around;
        if flow.acks.is_empty() {
            self.agenda.add(frame.at, Next::Ack(index));
        }
        flow.acks.push_back(frame);
        self.observer.returning(&carried, self.now);
    }
}
