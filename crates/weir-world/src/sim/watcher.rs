//! Gives every packet of a simulated network to the law and to the recorder, as the bottleneck of the other worlds does.

use weir_core::{Audit, Duration, Ecn, Event, EventKind, EventSink, FlowId, Packet, Time};
use weir_law::{Direction, Law, Signal, Start, parse_cut};
use weir_link::Observer as _;
use weir_sim::{Carried, HopId, Observer, Opening, Way};

use super::headers;
use super::wire::Wire;
use super::wiretap::Wiretap;
use crate::real::port;
use crate::record::Recorder;
use weir_scenario::FULL_PACKET;
use weir_testbed::traffic::Stack;

/// Who watches a run. Flows go by their numbers in the network.
pub(crate) struct Watcher {
    pub(crate) recorder: Recorder,
    pub(crate) law: Law,
    pub(crate) tap: Option<Box<Wiretap>>,
    /// The law looks at SACK blocks, which endpoints note only where somebody reads them.
    reads_sack: bool,
    /// The link at which the law watches.
    bottleneck: HopId,
    queues: Vec<Queue>,
    flows: Vec<Watched>,
    /// The flow of the scenario that opens next.
    upcoming: Option<Watched>,
    /// Flows of the scenario, before those of its workloads, and the workloads' stacks.
    named: usize,
    stacks: Vec<Stack>,
}

/// A queue discipline of the network.
struct Queue {
    audit: Audit,
    /// The recorder's number of its first queue.
    first: usize,
    /// Its link's number among the scenario's.
    link: usize,
}

#[derive(Clone, Copy)]
struct Watched {
    wire: Wire,
    /// The queue whose events count for the flow.
    counts: HopId,
    /// How long the links of its path before the bottleneck delay it, and those behind; none if it does not go by there.
    passes: Option<[Duration; 2]>,
    /// The law's number.
    judged: FlowId,
}

impl Watcher {
    /// Of a network without links and flows, to which `named` flows and workloads of these `stacks` will be added.
    pub(crate) fn new(
        recorder: Recorder,
        law: Law,
        tap: Option<Wiretap>,
        named: usize,
        stacks: Vec<Stack>,
    ) -> Self {
        Self {
            recorder,
            reads_sack: law.params().sack_completes_half,
            law,
            tap: tap.map(Box::new),
            bottleneck: HopId::default(),
            queues: Vec::new(),
            flows: Vec::new(),
            upcoming: None,
            named,
            stacks,
        }
    }

    /// There is a further discipline, of the scenario's link of this number, whose queues the recorder numbers from `first`.
    /// The first of all is the bottleneck's.
    pub(crate) fn add_queue(&mut self, hop: HopId, link: usize, first: usize, flows: usize) {
        if self.queues.is_empty() {
            self.bottleneck = hop;
        }
        self.queues.push(Queue { audit: Audit::with_capacity(flows), first, link });
    }

    /// The flow that is added next: the events at `counts` count for it. If it goes by the bottleneck, links delay it by so
    /// much before it and behind it.
    pub(crate) fn expect(&mut self, wire: Wire, counts: HopId, passes: Option<[Duration; 2]>) {
        self.upcoming = Some(Watched { wire, counts, passes, judged: FlowId::NONE });
    }

    /// What each discipline did, in the order in which they were added.
    pub(crate) fn audits(&self) -> impl Iterator<Item = &Audit> {
        self.queues.iter().map(|queue| &queue.audit)
    }

    fn judge(
        &mut self,
        flow: FlowId,
        parsed: &weir_law::ParsedPacket,
        way: Way,
        now: Time,
    ) -> weir_law::Stamp {
        let direction = match way {
            Way::Forward => Direction::Forward,
            Way::Back => Direction::Reverse,
        };
        let id = self.law.lookup(parsed, direction, now);
        self.flows[flow.0 as usize].judged = id;
        let mut sink = weir_link::Renamed(&mut self.recorder, flow);
        self.law.arrival(id, parsed, direction, now, &mut sink)
    }
}

impl Observer for Watcher {
    fn event(&mut self, hop: HopId, event: &Event) {
        let queue = &mut self.queues[hop.index()];
        if let Some(tap) = &mut self.tap {
            tap.event(queue.link, event, &self.flows[event.packet.flow.0 as usize].wire);
        }
        queue.audit.event(event);
        self.recorder.queue_event(queue.first, event);
        let packet = &event.packet;
        let flow = &self.flows[packet.flow.0 as usize];
        if flow.counts == hop {
            self.recorder.flow_event(event);
        }
        if hop != self.bottleneck {
            return;
        }
        let signal = match event.kind {
            EventKind::Drop(_) => Signal::Loss,
            // A packet that came with CE has its signal from somebody else.
            EventKind::Mark(_) if packet.ecn_in != Ecn::Ce => Signal::Mark,
            _ => return,
        };
        self.law.signal(flow.judged, packet.cycle, signal, packet.segments, event.time);
    }

    fn arriving(&mut self, _: HopId, packet: &mut Packet, carried: &Carried) {
        if let Some(tap) = &mut self.tap {
            tap.arriving(packet, carried);
        }
        if carried.link != self.bottleneck {
            return;
        }
        let wire = self.flows[packet.flow.0 as usize].wire;
        let parsed = wire.packet(carried);
        let stamp = self.judge(packet.flow, &parsed, carried.way, packet.arrived);
        if carried.way == Way::Forward {
            packet.cycle = stamp.cycle;
            packet.choice = stamp.choice;
        }
    }

    fn departed(&mut self, hop: HopId, packet: &Packet, now: Time) {
        if let Some(tap) = &mut self.tap {
            let link = self.queues[hop.index()].link;
            tap.departed(link, packet, now, &self.flows[packet.flow.0 as usize].wire);
        }
    }

    fn lost(&mut self, flow: FlowId, now: Time) {
        if let Some(tap) = &mut self.tap {
            tap.lost(now, &self.flows[flow.0 as usize].wire);
        }
    }

    fn opening(&mut self, opening: &Opening) {
        let flow = opening.flow;
        let index = flow.0 as usize;
        let of_workload = opening.workload.map(|workload| Watched {
            wire: Wire::new(self.stacks[workload.index()], false, port(index), index),
            counts: self.bottleneck,
            passes: Some([Duration::ZERO; 2]),
            judged: FlowId::NONE,
        });
        let Some(watched) = of_workload.or_else(|| self.upcoming.take()) else { return };
        if index >= self.flows.len() {
            // The number before it may be that of the other half of a two-way flow, which no packet bears.
            self.flows.resize(index + 1, watched);
        }
        self.flows[index] = watched;
        let Watched { wire, passes, .. } = watched;
        if let Some(workload) = opening.workload {
            self.recorder.book(flow, self.named + workload.index());
        } else {
            let any = Carried { wire_bytes: FULL_PACKET as u32, segments: 1, ..Carried::default() };
            if let Some(key) = wire.packet(&any).flow_key() {
                self.recorder.new_flow(flow, &key, opening.now);
            }
        }
        let Some(delays) = passes else { return };
        for (way, packet) in wire.handshake(opening.offset as u32).into_iter().flatten() {
            self.judge(flow, &packet, way, opening.now);
        }
        if wire.stack() == Stack::Quic && opening.workload.is_some() {
            // So that the law does not take one request's connection for the next one's.
            for (down, way) in [(false, Way::Back), (true, Way::Forward)] {
                let initial = headers::initial(&wire, down);
                let parsed = parse_cut(initial.bytes(), initial.length, Start::Ethernet);
                self.judge(flow, &parsed, way, opening.now);
            }
        }
        if let Some(tap) = &mut self.tap {
            tap.opens(opening, delays, &wire);
        }
    }

    fn watches_headers(&self) -> bool {
        self.tap.is_some() || self.reads_sack
    }

    fn watches_return(&self) -> bool {
        true
    }

    fn returning(&mut self, carried: &Carried, now: Time) {
        let wire = self.flows[carried.flow.0 as usize].wire;
        if let Some(tap) = &mut self.tap {
            tap.returning(self.queues[carried.link.index()].link, carried, now, &wire);
        }
        if carried.link == self.bottleneck {
            self.judge(carried.flow, &wire.packet(carried), carried.way, now);
        }
    }
}
