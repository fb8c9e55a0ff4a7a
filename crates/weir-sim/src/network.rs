//! The network: links, flows, and what happens in which order.
//!
//! What cannot change any more, in a flow over one queue with constant delays, is not simulated event by event. A
//! sender stands at its link, and the way from the sender to the link is added to the way back: with a constant delay
//! that is the same flow, seen from another clock. What leaves the link will be received after a constant delay, so the
//! receiver takes it at once, with the time of its arrival, and the acknowledgement waits in line for its time at the
//! sender. A packet that meets one link so costs two events: its departure there, and its share of an acknowledgement.
//! Flows that need more have a route ([`crate::route`]), on which each packet and acknowledgement is an event wherever
//! it comes to.

mod aggregates;
mod links;
mod opportunities;
mod receivers;
mod routes;
mod senders;
mod workloads;

use weir_cc::EcnUse;
use weir_core::{Duration, FlowId, Random, Seed, Time};
use weir_fq::{Shared, SubFlow};

use crate::endpoint::{Feedback, ReceiverConfig};
use crate::engine::Agenda;
use crate::flow::{Amount, Flow, FlowReport, FlowSpec, Source, SpecError};
use crate::hop::{Hop, HopId, HopReport, HopSpec};
use crate::impairment::Impairment;
use crate::observer::{Observer, Opening};
use crate::route::Routed;
use crate::twins::Twin;
use crate::workload::{Workload, WorkloadId};
use routes::Travellers;

#[derive(Clone, Copy, Debug)]
enum Next {
    Start(u32),
    /// The handshake of a flow is at its links.
    Handshake(u32),
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
    /// Somebody comes with a request.
    Arrive(u32),
    /// The user of a connection asks for something, or its source begins to send.
    Ask(u32),
    /// The sender of a connection has a request.
    Serve(u32),
    /// The source of a connection falls silent.
    Off(u32),
    /// A link has sent its packet.
    Depart(u32),
    /// The discipline of a link may let a packet go.
    Ready(u32),
    /// The trace of a link lets it send.
    Opportunity(u32),
    /// A link has sent an aggregate.
    Aggregate(u32),
    /// A packet on a route has come to its next stop.
    Reach(u32),
}

/// A network in virtual time, watched by `O`.
pub struct Network<O> {
    seed: Seed,
    now: Time,
    agenda: Agenda<Next>,
    hops: Vec<Hop>,
    flows: Vec<Flow>,
    /// Flows that were added: the halves of a two-way flow are one.
    added: u32,
    travellers: Travellers,
    workloads: Vec<Workload>,
    observer: O,
    watches_return: bool,
    next_id: u64,
    /// Limited flows and workloads that are not done.
    unfinished: u32,
    events: u64,
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
            added: 0,
            travellers: Travellers::default(),
            workloads: Vec::new(),
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

    /// Gives a link a queue in the other direction, for flows that are added from now on. Delay is the link's.
    pub fn add_back(&mut self, link: HopId, spec: HopSpec) -> HopId {
        let id = self.add_hop(spec);
        self.hops[link.index()].back = Some(id);
        id
    }

    /// Lets things happen to packets that go over a link in the other direction, if there is no queue, for flows that
    /// are added from now on.
    pub fn impair_back(&mut self, link: HopId, impairment: Impairment) {
        self.hops[link.index()].back_impairment = impairment;
    }

    /// Adds a flow. Its draws are its own: adding one leaves the others' as they are.
    ///
    /// # Errors
    ///
    /// If its controller is not known, its path cannot be gone or varies a delay by more than there is, or if it is
    /// two-way and not TCP.
    pub fn add_flow(&mut self, spec: FlowSpec) -> Result<FlowId, SpecError> {
        let name = format!("flow {}", self.added);
        let answers = spec.answers()?;
        let index = self.insert(spec, self.seed.stream(&name), &name)?;
        if let Some(answers) = answers {
            let own = self.seed.stream(&format!("{name} back"));
            self.put(answers, own, Some(Routed::answering(index)))?;
        }
        self.added += 1;
        let flow = &self.flows[index as usize];
        let start = flow.start.max(self.now);
        self.unfinished += u32::from(!flow.is_done());
        match start.as_nanos().checked_sub(flow.round_trip().as_nanos()).map(Time::from_nanos) {
            Some(before) if before > self.now => self.agenda.add(before, Next::Handshake(index)),
            _ => self.shake_hands(index),
        }
        let flow = &self.flows[index as usize];
        self.agenda.add(start, Next::Start(index));
        if let Amount::Time(length) = flow.amount {
            self.agenda.add(start + length, Next::Stop(index));
        }
        self.open(index, start);
        Ok(FlowId(index))
    }

    /// Adds a connection of two sub-flows, which `shared` governs: `heavy` and `light`, both QUIC, over paths of the same delay.
    /// `heavy` says when it starts and how much both send together. Each packet is acknowledged.
    ///
    /// # Errors
    ///
    /// As [`add_flow`](Self::add_flow).
    pub fn add_twins(
        &mut self,
        heavy: FlowSpec,
        light: FlowSpec,
        shared: &Shared,
    ) -> Result<[FlowId; 2], SpecError> {
        let receiver =
            ReceiverConfig { every: 1, delay: Duration::ZERO, ..ReceiverConfig::quic(Feedback::Counted) };
        let start = heavy.start;
        let light = light.start(start).amount(Amount::Endless);
        let mut add = |spec: FlowSpec, sub_flow| {
            self.add_flow(spec.receiver(receiver).controller(Box::new(shared.gate(sub_flow))))
        };
        let heavy = add(heavy, SubFlow::Heavy)?;
        let light = add(light, SubFlow::Light)?;
        for (one, other, sub_flow) in [(heavy, light, SubFlow::Heavy), (light, heavy, SubFlow::Light)] {
            self.flows[one.0 as usize].twin = Some(Box::new(Twin::new(shared.clone(), sub_flow, other.0)));
        }
        Ok([heavy, light])
    }

    /// Makes a flow whose draws come from `own`, and on its route from streams named after `name`; nothing is to happen to it
    /// yet.
    fn insert(&mut self, spec: FlowSpec, own: Random, name: &str) -> Result<u32, SpecError> {
        let owner = self.flows.len() as u32;
        let routed = Routed::of(&spec, &self.hops, self.seed, owner, name, self.watches_return)?;
        self.put(spec, own, routed)
    }

    fn put(&mut self, spec: FlowSpec, own: Random, routed: Option<Routed>) -> Result<u32, SpecError> {
        let mut flow = Flow::new(spec, own, routed)?;
        if self.observer.watches_headers() {
            flow.receiver.keep_notes();
            if let Some(routed) = &mut flow.routed {
                routed.remember();
            }
        }
        self.flows.push(flow);
        Ok(self.flows.len() as u32 - 1)
    }

    /// Reports that a flow's connection opens, whose first data sets out at `data`.
    fn open(&mut self, index: u32, data: Time) {
        let flow = &self.flows[index as usize];
        let (ecn, offset) = match &flow.source {
            Source::Connection(sender) => (sender.controller.ecn(), sender.offset()),
            Source::Datagrams { .. } => (EcnUse::Off, 0),
        };
        let workload = flow.task.as_ref().map(|task| WorkloadId(task.workload));
        let ahead = flow.routed.as_ref().map_or(Duration::ZERO, |routed| routed.routes[0].first);
        let ([around, behind], flow) = (flow.rounds(), FlowId(index));
        let (now, data) = (self.now, data + ahead);
        self.observer.opening(&Opening { flow, workload, now, data, around, behind, ecn, offset });
    }

    /// What a flow has done so far.
    pub fn flow(&self, flow: FlowId) -> FlowReport {
        let flow = &self.flows[flow.0 as usize];
        let mut report = flow.report.clone();
        if let Some(other) = flow.routed.as_ref().and_then(|routed| routed.other) {
            report.answered = self.flows[other as usize].receiver.bytes;
        }
        report.bytes = flow.received();
        report.packets = flow.receiver.packets;
        if let Source::Connection(sender) = &flow.source {
            report.lost += sender.delivery.lost();
            report.marked = sender.echoes;
        }
        report
    }

    /// When the request for a flow's data left the receiver, at the earliest when the network began; with a SYN-ACK of
    /// its own, when that had come. On the clock of the links. Nobody asks for datagrams, nor a connection of two
    /// sub-flows, which the sender opens: of these, when the first packet left the sender. None before that.
    pub fn asked(&self, flow: FlowId) -> Option<Time> {
        self.flows[flow.0 as usize].asked()
    }

    /// If a flow's controller has ignored all marks because the path is too long: the longest round trip on which it
    /// would answer them.
    pub fn ignores_marks_beyond(&self, flow: FlowId) -> Option<Duration> {
        match &self.flows[flow.0 as usize].source {
            Source::Connection(sender) => sender.controller.ignores_marks_beyond(),
            Source::Datagrams { .. } => None,
        }
    }

    /// What a link has carried so far.
    pub fn hop(&self, hop: HopId) -> HopReport {
        self.hops[hop.index()].report
    }

    /// The observer.
    pub const fn observer(&self) -> &O {
        &self.observer
    }

    /// The observer, to be informed of links and flows.
    pub const fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// All links, those back too, in the order in which they were added.
    pub fn hops(&self) -> impl Iterator<Item = HopId> + use<O> {
        (0..self.hops.len() as u32).map(HopId)
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

    /// Whether all limited flows and workloads have done what they were to do.
    pub const fn is_done(&self) -> bool {
        self.unfinished == 0
    }

    /// Lets everything happen that is due until `end`, and sets the time to it.
    pub fn run_until(&mut self, end: Time) {
        while let Some((now, next)) = self.agenda.take(end) {
            self.step(now, next);
        }
        self.now = self.now.max(end);
    }

    /// The same, but no longer than until all limited flows and workloads are done. Returns whether they are.
    pub fn run_until_done(&mut self, latest: Time) -> bool {
        while !self.is_done()
            && let Some((now, next)) = self.agenda.take(latest)
        {
            self.step(now, next);
        }
        if !self.is_done() {
            self.now = self.now.max(latest);
        }
        self.is_done()
    }

    fn step(&mut self, now: Time, next: Next) {
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
            Next::Arrive(workload) => self.arrive(workload),
            Next::Ask(flow) => self.ask(flow),
            Next::Serve(flow) => self.serve(flow),
            Next::Off(flow) => self.off(flow),
            Next::Start(flow) => self.start(flow),
            Next::Handshake(flow) => self.shake_hands(flow),
            Next::Stop(flow) => self.stop(flow),
            Next::Opportunity(hop) => self.opportunity(hop),
            Next::Aggregate(hop) => self.aggregated(hop),
            Next::Reach(place) => self.reach(place),
        }
    }
}
