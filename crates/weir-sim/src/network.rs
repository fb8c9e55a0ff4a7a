//! The network: links, flows, and what happens in which order.
//!
//! What cannot change any more is not simulated event by event. A sender stands at its first link, and the way from the
//! sender to the link is added to the way back: with a constant delay that is the same flow, seen from another clock. What
//! leaves the last link will be received after a constant delay, so the receiver takes it at once, with the time of its
//! arrival, and the acknowledgement waits in line for its time at the sender. A packet that meets one link so costs two
//! events: its departure there, and its share of an acknowledgement.

use weir_core::{Duration, Ecn, Event, EventKind, EventSink, FlowId, Packet, Seed, Time};

use crate::endpoint::AckFrame;
use crate::engine::Agenda;
use crate::flow::{Amount, Flow, FlowReport, FlowSpec, SAMPLE_INTERVAL, Sample, Source, SpecError};
use crate::hop::{Hop, HopId, HopReport, HopSpec};
use crate::observer::{Carried, Observer};

#[derive(Clone, Copy, Debug)]
enum Next {
    Start(u32),
    Stop(u32),
    /// The sender of a flow may be allowed to send by its pacing.
    Pace(u32),
    Timer(u32),
    /// The receiver of a flow has held an acknowledgement back for long enough.
    Reply(u32),
    /// The first of a flow's acknowledgements is at the bottleneck.
    Return(u32),
    /// The first of a flow's acknowledgements is at the sender.
    Ack(u32),
    /// A flow of datagrams sends.
    Datagram(u32),
    /// A link has sent its packet.
    Depart(u32),
    /// The discipline of a link may let a packet go.
    Ready(u32),
}

/// A network in virtual time, watched by `O`.
pub struct Network<O> {
    seed: Seed,
    now: Time,
    agenda: Agenda<Next>,
    hops: Vec<Hop>,
    flows: Vec<Flow>,
    observer: O,
    watches_return: bool,
    next_id: u64,
    /// Limited flows that are not done.
    unfinished: u32,
    events: u64,
}

/// Passes a discipline's events on with the link's name.
struct At<'a, O> {
    hop: HopId,
    observer: &'a mut O,
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
    /// A network without links and flows; all random draws come from `seed`.
    pub fn new(seed: Seed, observer: O) -> Self {
        Self {
            seed,
            now: Time::ZERO,
            agenda: Agenda::new(),
            hops: Vec::new(),
            flows: Vec::new(),
            watches_return: observer.watches_return(),
            observer,
            next_id: 0,
            unfinished: 0,
            events: 0,
        }
    }

    /// Adds a link. Its discipline's draws are its own.
    ///
    /// # Panics
    ///
    /// Never: a [`HopSpec`] has been built once.
    pub fn add_hop(&mut self, spec: HopSpec) -> HopId {
        let id = HopId(self.hops.len() as u32);
        let seed = Seed { run: self.seed.run ^ (u64::from(id.0) << 32), ..self.seed };
        self.hops.push(Hop::new(&spec, seed).expect("a spec that was built once can be built again"));
        id
    }

    /// Adds a flow. Its draws are its own: adding one leaves the others' as they are.
    ///
    /// # Errors
    ///
    /// If its controller is not known.
    pub fn add_flow(&mut self, spec: FlowSpec) -> Result<FlowId, SpecError> {
        let index = self.flows.len() as u32;
        let flow = Flow::new(spec, self.seed.stream(&format!("flow {index}")))?;
        self.unfinished += u32::from(!flow.is_done());
        self.agenda.add(flow.start.max(self.now), Next::Start(index));
        if let Amount::Time(length) = flow.amount {
            self.agenda.add(flow.start.max(self.now) + length, Next::Stop(index));
        }
        self.flows.push(flow);
        Ok(FlowId(index))
    }

    /// What a flow has done so far.
    pub fn flow(&self, flow: FlowId) -> FlowReport {
        let flow = &self.flows[flow.0 as usize];
        let mut report = flow.report.clone();
        report.bytes = flow.receiver.bytes;
        report.packets = flow.receiver.packets;
        if let Source::Connection(sender) = &flow.source {
            report.lost = sender.delivery.lost();
            report.marked = sender.echoes;
        }
        report
    }

    /// What a link has carried so far.
    pub fn hop(&self, hop: HopId) -> HopReport {
        self.hops[hop.index()].report
    }

    /// The observer.
    pub const fn observer(&self) -> &O {
        &self.observer
    }

    /// Empties the queues, and tells whose packets were in them.
    pub fn drain(&mut self) -> Vec<FlowId> {
        let mut left = Vec::new();
        for hop in &mut self.hops {
            let mut now = self.now;
            while hop.qdisc.backlog().packets > 0 {
                // A discipline may well drop while it is emptied (CoDel does).
                let mut gone = Gone(&mut left);
                if hop.qdisc.dequeue(now, &mut gone).is_none() {
                    now = hop.qdisc.next_ready(now).unwrap_or(now).max(now + Duration::from_micros(1));
                }
            }
        }
        left
    }

    /// Ends the network and hands its observer back.
    pub fn into_observer(self) -> O {
        self.observer
    }

    /// The time.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Events so far.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Whether all limited flows have done what they were to do.
    pub const fn is_done(&self) -> bool {
        self.unfinished == 0
    }

    /// Lets everything happen that is due until `end`, and sets the time to it.
    pub fn run_until(&mut self, end: Time) {
        while self.agenda.next().is_some_and(|next| next <= end) {
            self.step();
        }
        self.now = self.now.max(end);
    }

    /// The same, but no longer than until all limited flows are done. Tells whether they are.
    pub fn run_until_done(&mut self, latest: Time) -> bool {
        while !self.is_done() && self.agenda.next().is_some_and(|next| next <= latest) {
            self.step();
        }
        if !self.is_done() {
            self.now = self.now.max(latest);
        }
        self.is_done()
    }

    fn step(&mut self) {
        let Some((now, next)) = self.agenda.take() else { return };
        self.now = now;
        self.events += 1;
        match next {
            Next::Ack(flow) => self.acknowledge(flow),
            Next::Depart(hop) => self.depart(hop),
            Next::Ready(hop) => {
                let hop_state = &mut self.hops[hop as usize];
                if hop_state.held <= now {
                    hop_state.held = Time::MAX;
                }
                self.begin(hop);
            }
            Next::Pace(flow) => {
                if self.flows[flow as usize].pacing <= now {
                    self.flows[flow as usize].pacing = Time::MAX;
                }
                self.send(flow);
            }
            Next::Timer(flow) => self.timer(flow),
            Next::Reply(flow) => self.reply(flow),
            Next::Return(flow) => self.pass_back(flow),
            Next::Datagram(flow) => self.datagram(flow),
            Next::Start(flow) => self.start(flow),
            Next::Stop(flow) => self.stop(flow),
        }
    }

    fn start(&mut self, index: u32) {
        let now = self.now;
        let flow = &mut self.flows[index as usize];
        flow.report.started = Some(now);
        match &mut flow.source {
            Source::Connection(sender) => {
                sender.write(match flow.amount {
                    Amount::Bytes(bytes) => Some(bytes),
                    Amount::Endless | Amount::Time(_) => None,
                });
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

    fn stop(&mut self, index: u32) {
        let now = self.now;
        let flow = &mut self.flows[index as usize];
        match &mut flow.source {
            Source::Connection(sender) => sender.stop(),
            Source::Datagrams { until, .. } => *until = now,
        }
        if flow.report.finished.is_none() {
            flow.report.finished = Some(now);
            self.unfinished -= 1;
        }
    }

    fn datagram(&mut self, index: u32) {
        let now = self.now;
        let id = self.next_id;
        let flow = &mut self.flows[index as usize];
        let Source::Datagrams { rate, remainder, ecn, number, until } = &mut flow.source else { return };
        if now >= *until {
            return;
        }
        let packet = Flow::datagram(id, FlowId(index), *ecn, *number, now);
        *number += 1;
        let again = now + rate.serialize(u64::from(packet.wire_bytes), remainder);
        let done = matches!(flow.amount, Amount::Bytes(bytes)
            if *number * u64::from(packet.wire_bytes - flow.header) >= bytes);
        if !done {
            self.agenda.add(again, Next::Datagram(index));
        }
        self.emit(index, packet, now);
    }

    /// Sends what the flow may send now, and sets its timers.
    fn send(&mut self, index: u32) {
        let now = self.now;
        loop {
            let flow = &mut self.flows[index as usize];
            let Source::Connection(sender) = &mut flow.source else { return };
            let Some(out) = sender.poll(now) else { break };
            let packet = Packet {
                handle: out.data.pack(),
                ..Packet::new(self.next_id, FlowId(index), out.wire_bytes, now).with_ecn(out.ecn)
            };
            self.emit(index, packet, now);
        }
        let flow = &mut self.flows[index as usize];
        let Source::Connection(sender) = &mut flow.source else { return };
        let due = sender.timer();
        if due < flow.timer {
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

    /// Puts a packet of the flow onto its path.
    fn emit(&mut self, index: u32, mut packet: Packet, sent: Time) {
        self.next_id += 1;
        let flow = &mut self.flows[index as usize];
        flow.report.sent += 1;
        packet.hosts = flow.hosts;
        if flow.loss > 0.0 && flow.random.unit() < flow.loss {
            return;
        }
        if flow.mark > 0.0 && packet.ecn.is_capable() && flow.random.unit() < flow.mark {
            packet.ecn_in = Ecn::Ce;
            packet.ecn = Ecn::Ce;
        }
        let hop = flow.path[0];
        if self.watches_return {
            let data = flow.receiver.read(packet.handle);
            let mss = u64::from(match &flow.source {
                Source::Connection(sender) => sender.mss(),
                Source::Datagrams { .. } => packet.wire_bytes - flow.header,
            });
            let carried = Carried {
                flow: packet.flow,
                offset: data.sequence * mss,
                payload: packet.wire_bytes - flow.header,
                sent,
                echoed: Time::ZERO,
                spin: data.spin,
            };
            self.observer.arriving(hop, &mut packet, &carried);
        }
        self.enqueue(hop, packet);
    }

    fn enqueue(&mut self, hop: HopId, packet: Packet) {
        let state = &mut self.hops[hop.index()];
        let mut sink = At { hop, observer: &mut self.observer };
        state.qdisc.enqueue(packet, self.now, &mut sink);
        if state.transmitting.is_none() {
            self.begin(hop.0);
        }
    }

    /// Lets an idle link send its next packet.
    fn begin(&mut self, index: u32) {
        let hop = &mut self.hops[index as usize];
        if hop.transmitting.is_some() {
            return;
        }
        let mut sink = At { hop: HopId(index), observer: &mut self.observer };
        match hop.qdisc.dequeue(self.now, &mut sink) {
            Some(packet) => {
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

    fn depart(&mut self, index: u32) {
        let hop = &mut self.hops[index as usize];
        let Some(packet) = hop.transmitting.take() else { return };
        hop.report.packets += 1;
        hop.report.bytes += u64::from(packet.wire_bytes);
        self.observer.departed(HopId(index), &packet, self.now);
        self.begin(index);
        self.deliver(packet);
    }

    /// The receiver takes a packet that has left the last link.
    fn deliver(&mut self, packet: Packet) {
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
    fn reply(&mut self, index: u32) {
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

    fn pass_back(&mut self, index: u32) {
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

    fn acknowledge(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        let Some(frame) = flow.acks.pop_front() else { return };
        if let Some(next) = flow.acks.front() {
            self.agenda.add(next.at, Next::Ack(index));
        }
        if let Source::Connection(sender) = &mut flow.source {
            sender.acknowledge(self.now, &frame);
        }
        self.sample(index);
        self.send(index);
    }

    fn timer(&mut self, index: u32) {
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

    fn sample(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        if self.now < flow.sample_due {
            return;
        }
        let Source::Connection(sender) = &flow.source else { return };
        flow.sample_due = self.now + SAMPLE_INTERVAL;
        flow.report.samples.push(Sample {
            time: self.now,
            rtt: sender.rtt.smoothed,
            window: sender.controller.window(),
            delivered: sender.delivery.delivered_bytes(),
            lost: sender.delivery.lost(),
            marked: sender.echoes,
        });
    }
}
