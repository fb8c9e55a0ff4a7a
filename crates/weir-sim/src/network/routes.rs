//! Packets on routes: from stop to stop, and what the ends do with them. The ways into here are never in line, so that
//! flows without a route pay no more for them than a look.

use weir_core::{FlowId, Packet, Time};

use super::{Network, Next};
use crate::flow::{Amount, Source};
use crate::hop::HopId;
use crate::observer::{Carried, Observer};
use crate::route::{Alone, Answer, Rider, Routed, Stop};

/// A packet between two stops.
#[derive(Clone, Copy)]
pub(super) struct Traveller {
    packet: Packet,
    /// Which of the flow's routes it is on, and to which stop it goes.
    direction: u8,
    stop: u8,
}

/// Packets between stops, each in a place of its own that is given away again when it is free.
#[derive(Default)]
pub(super) struct Travellers {
    places: Vec<Traveller>,
    free: Vec<u32>,
}

impl Travellers {
    fn insert(&mut self, traveller: Traveller) -> u32 {
        if let Some(place) = self.free.pop() {
            self.places[place as usize] = traveller;
            return place;
        }
        self.places.push(traveller);
        self.places.len() as u32 - 1
    }

    fn take(&mut self, place: u32) -> Traveller {
        self.free.push(place);
        self.places[place as usize]
    }
}

impl<O: Observer> Network<O> {
    fn routed(&mut self, flow: u32) -> Option<&mut Routed> {
        self.flows[flow as usize].routed.as_deref_mut()
    }

    /// A packet with data of half `index` sets out.
    #[inline(never)]
    pub(super) fn set_out(&mut self, index: u32, mut packet: Packet) {
        let Some(&mut Routed { owner, other, direction, .. }) = self.routed(index) else { return };
        if let Some(other) = other {
            self.ride(index, other, &packet);
        }
        let flow = &mut self.flows[index as usize];
        if let (Some(routed), Source::Connection(_)) = (&mut flow.routed, &flow.source)
            && routed.echoes.remembers()
        {
            let number = flow.receiver.read(packet.handle).number;
            routed.echoes.push(number, flow.heard);
        }
        packet.flow = FlowId(owner);
        self.begin_route(packet, direction);
    }

    /// Data of a two-way flow takes along what its end has to acknowledge.
    fn ride(&mut self, index: u32, other: u32, packet: &Packet) {
        let now = self.now;
        let number = self.flows[index as usize].receiver.read(packet.handle).number;
        let receiver = &mut self.flows[other as usize].receiver;
        let answer = (receiver.due() != Time::MAX).then(|| {
            let frame = receiver.acknowledge(now);
            Answer { frame, note: receiver.note(frame.index) }
        });
        let (next, marks) = (receiver.next(), receiver.marks());
        if let Some(routed) = self.routed(other) {
            routed.riders.push(number, Rider { next, marks, answer });
        }
    }

    /// An acknowledgement alone, for what half `index` has sent and is acknowledged at `at`, sets out.
    #[inline(never)]
    pub(super) fn send_ack(&mut self, index: u32, at: Time) {
        let id = self.next_id;
        self.next_id += 1;
        let flow = &mut self.flows[index as usize];
        let frame = flow.receiver.acknowledge(at);
        let (bytes, note) = (flow.ack_bytes, flow.receiver.note(frame.index));
        let Some(&mut Routed { owner, other, direction, .. }) = self.routed(index) else { return };
        let sent = other.map_or(0, |other| match &self.flows[other as usize].source {
            Source::Connection(sender) => sender.offset(),
            Source::Datagrams { .. } => 0,
        });
        if let Some(routed) = self.routed(index) {
            routed.acks.push(u64::from(frame.index), Alone { answer: Answer { frame, note }, sent });
        }
        let packet =
            Packet { handle: u64::from(frame.index), ..Packet::new(id, FlowId(owner), bytes, self.now) };
        self.begin_route(packet, 1 - direction);
    }

    fn begin_route(&mut self, packet: Packet, direction: usize) {
        let now = self.now;
        let Some(routed) = self.routed(packet.flow.0) else { return };
        let at = now + routed.routes[direction].first;
        self.travel(packet, direction, 0, at);
    }

    fn travel(&mut self, packet: Packet, direction: usize, stop: usize, at: Time) {
        let traveller = Traveller { packet, direction: direction as u8, stop: stop as u8 };
        let place = self.travellers.insert(traveller);
        self.agenda.add(at, Next::Reach(place));
    }

    /// A packet has come to its next stop, or to the end of its route.
    pub(super) fn reach(&mut self, place: u32) {
        let Traveller { mut packet, direction, stop } = self.travellers.take(place);
        let (direction, stop) = (usize::from(direction), usize::from(stop));
        let Some(routed) = self.routed(packet.flow.0) else { return };
        let Some(&Stop { queue, .. }) = routed.routes[direction].stops.get(stop) else {
            return self.at_end(packet, direction);
        };
        // Disciplines and audits count on numbers in order of arrival, and who comes here may have been overtaken.
        packet.id = self.next_id;
        self.next_id += 1;
        packet.arrived = self.now;
        packet.ecn_in = packet.ecn;
        if self.watches_return {
            let carried = self.carried(&packet, direction, stop);
            match queue {
                Some(queue) => self.observer.arriving(queue, &mut packet, &carried),
                None => self.observer.returning(&carried, self.now),
            }
        }
        match queue {
            Some(queue) => self.enqueue(queue, packet),
            None => self.leave_stop(packet, direction, stop),
        }
    }

    /// A packet of a flow with routes has left the queue `hop`.
    #[inline(never)]
    pub(super) fn leave_queue(&mut self, hop: HopId, packet: &Packet) {
        let Some(routed) = self.routed(packet.flow.0) else { return };
        if let Some((direction, stop)) = routed.find(hop) {
            self.leave_stop(*packet, direction, stop);
        }
    }

    fn leave_stop(&mut self, packet: Packet, direction: usize, stop: usize) {
        let now = self.now;
        let Some(routed) = self.routed(packet.flow.0) else { return };
        let here = &mut routed.routes[direction].stops[stop];
        let at = match &mut here.dice {
            Some(dice) => dice.roll(now, here.onward),
            None => Some(now + here.onward),
        };
        if let Some(at) = at {
            return self.travel(packet, direction, stop + 1, at);
        }
        match (here.queue, here.link) {
            (Some(queue), _) => self.hops[queue.index()].report.lost += 1,
            (None, link) => self.hops[link.index()].report.lost_back += 1,
        }
        self.observer.lost(packet.flow, now);
    }

    /// Which half's data a packet has that goes in this direction, and which half's data it may acknowledge. If it has
    /// no data, the first is none.
    fn halves(&mut self, packet: &Packet, direction: usize) -> (Option<u32>, Option<u32>) {
        let owner = packet.flow.0;
        let header = self.flows[owner as usize].header;
        let Some(&mut Routed { other, .. }) = self.routed(owner) else { return (None, None) };
        match (other, direction) {
            (None, 0) => (Some(owner), None),
            (None, _) => (None, Some(owner)),
            (Some(other), direction) => {
                let (own, against) = if direction == 0 { (owner, other) } else { (other, owner) };
                ((packet.wire_bytes > header).then_some(own), Some(against))
            }
        }
    }

    fn at_end(&mut self, packet: Packet, direction: usize) {
        match self.halves(&packet, direction) {
            (Some(own), against) => {
                let number = self.flows[own as usize].receiver.read(packet.handle).number;
                if let Some(routed) = self.routed(own) {
                    routed.echoes.take(number);
                }
                if let Some(against) = against
                    && let Some(frame) = self.routed(against).and_then(|routed| routed.take_rider(number))
                {
                    self.take_ack(against, &frame);
                }
                let flow = &self.flows[own as usize];
                let sent = match &flow.source {
                    Source::Connection(sender) => sender.sent_at(number),
                    Source::Datagrams { .. } => None,
                };
                let arrived = sent.unwrap_or(packet.arrived);
                self.deliver(&Packet { flow: FlowId(own), arrived, ..packet });
                if against.is_some() && own == packet.flow.0 {
                    self.write_back(own);
                }
            }
            (None, Some(against)) => {
                let number = packet.handle as u32;
                if let Some(frame) = self.routed(against).and_then(|routed| routed.take_ack(number)) {
                    self.take_ack(against, &frame);
                }
            }
            (None, None) => {}
        }
    }

    /// The receiver of a two-way flow writes half of what it can read.
    fn write_back(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        let (received, next) = (flow.receiver.bytes, flow.receiver.next());
        let wanted = match flow.amount {
            Amount::Bytes(bytes) => bytes,
            Amount::Endless | Amount::Time(_) => u64::MAX,
        };
        let Source::Connection(sender) = &flow.source else { return };
        let mss = u64::from(sender.mss());
        let Some(routed) = flow.routed.as_deref_mut() else { return };
        let Some(other) = routed.other else { return };
        let mut owed = (next * mss).min(received) / 2 - routed.answered;
        if received < wanted {
            owed -= owed % mss;
        }
        if owed == 0 {
            return;
        }
        routed.answered += owed;
        let now = self.now;
        let half = &mut self.flows[other as usize];
        half.report.started.get_or_insert(now);
        if let Source::Connection(sender) = &mut half.source {
            sender.writes.write(Some(owed));
        }
        self.send(other);
    }

    /// What a parser would read of a packet that has come to a stop.
    fn carried(&mut self, packet: &Packet, direction: usize, stop: usize) -> Carried {
        let (own, against) = self.halves(packet, direction);
        let routed = |half: u32| self.flows[half as usize].routed.as_deref();
        let (link, way) = routed(packet.flow.0).map_or_else(Default::default, |routed| {
            let stop = &routed.routes[direction].stops[stop];
            (stop.link, stop.way)
        });
        let mut carried = Carried {
            flow: packet.flow,
            link,
            way,
            wire_bytes: packet.wire_bytes,
            segments: packet.segments,
            ecn: packet.ecn,
            ..Carried::default()
        };
        // What acknowledges nothing new has no answer; an acknowledgement alone always has.
        let mut answer = None;
        if let Some(own) = own {
            let flow = &self.flows[own as usize];
            let data = flow.receiver.read(packet.handle);
            carried.payload = packet.wire_bytes - u32::from(packet.segments) * flow.header;
            carried.spin = data.spin;
            carried.reduced = data.reduced;
            let echo = flow.routed.as_ref().and_then(|routed| routed.echoes.get(data.number));
            carried.echoed = echo.copied().unwrap_or(Time::ZERO);
            match &flow.source {
                Source::Connection(sender) => {
                    carried.offset = sender.writes.offset(data.sequence);
                    carried.sent = sender.sent_at(data.number).unwrap_or(self.now);
                }
                Source::Datagrams { .. } => carried.offset = data.sequence * u64::from(carried.payload),
            }
            if let Some((against, routed)) = against.and_then(|half| Some((half, routed(half)?)))
                && let Some(rider) = routed.riders.get(data.number)
            {
                carried.acknowledged = self.offset(against, rider.next);
                (carried.echo, carried.marks) = rider.marks;
                answer = rider.answer;
            }
        } else if let Some(routed) = against.and_then(routed)
            && let Some(alone) = routed.acks.get(u64::from(packet.handle as u32))
        {
            carried.offset = alone.sent;
            carried.spin = alone.answer.frame.spin;
            carried.sent = alone.answer.frame.at;
            answer = Some(alone.answer);
        }
        if let (Some(against), Some(Answer { frame, note })) = (against, answer) {
            carried.acknowledged = self.offset(against, frame.next);
            carried.echo = frame.echo;
            carried.marks = frame.ce;
            carried.echoed = note.echoed;
            carried.blocks = note.blocks.map(|(from, to)| {
                if from < to { (self.offset(against, from), self.offset(against, to)) } else { (0, 0) }
            });
        }
        carried
    }

    /// Bytes before a packet of a half's stream.
    fn offset(&self, half: u32, packet: u64) -> u64 {
        match &self.flows[half as usize].source {
            Source::Connection(sender) => sender.writes.offset(packet),
            Source::Datagrams { .. } => 0,
        }
    }
}
