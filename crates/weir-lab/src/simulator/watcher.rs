//! Gives every packet of a simulated network to the law and to the recorder, as the bottleneck of the other worlds does.

use weir_core::{Audit, Ecn, Event, EventKind, EventSink, FlowId, Packet, Time};
use weir_law::{Direction, Law, Signal};
use weir_link::Observer as _;
use weir_sim::{Carried, HopId, Observer, Way};

use super::wire::Wire;
use crate::record::Recorder;
use crate::scenario::FULL_PACKET;

/// Who watches a run. Flows go by their numbers in the network.
pub(crate) struct Watcher {
    pub(crate) recorder: Recorder,
    pub(crate) law: Law,
    /// The link at which the law watches.
    bottleneck: HopId,
    queues: Vec<Queue>,
    flows: Vec<Watched>,
}

/// A queue discipline of the network.
struct Queue {
    audit: Audit,
    /// The recorder's number of its first queue.
    first: usize,
}

#[derive(Clone, Copy)]
struct Watched {
    wire: Wire,
    /// The queue whose events count for the flow.
    counts: HopId,
    /// The law's number.
    judged: FlowId,
}

impl Watcher {
    /// Of a network without links and flows.
    pub(crate) fn new(recorder: Recorder, law: Law) -> Self {
        Self { recorder, law, bottleneck: HopId::default(), queues: Vec::new(), flows: Vec::new() }
    }

    /// There is a further discipline, whose queues the recorder numbers from `first`. The first of all is the bottleneck's.
    pub(crate) fn add_queue(&mut self, hop: HopId, first: usize, flows: usize) {
        if self.queues.is_empty() {
            self.bottleneck = hop;
        }
        self.queues.push(Queue { audit: Audit::with_capacity(flows), first });
    }

    /// There is a further flow, of which the events at `counts` count, and which goes by the bottleneck or not. The law sees
    /// its handshake.
    pub(crate) fn add_flow(&mut self, flow: FlowId, wire: Wire, counts: HopId, passes: bool) {
        let watched = Watched { wire, counts, judged: FlowId::NONE };
        // The number before it may be that of the other half of a two-way flow, which no packet bears.
        self.flows.resize(flow.0 as usize + 1, watched);
        let any = wire.packet(&Carried { wire_bytes: FULL_PACKET as u32, segments: 1, ..Carried::default() });
        if let Some(key) = any.flow_key() {
            self.recorder.new_flow(flow, &key, Time::ZERO);
        }
        for (way, packet) in wire.handshake().into_iter().flatten().filter(|_| passes) {
            self.judge(flow, &packet, way, Time::ZERO);
        }
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

    fn watches_return(&self) -> bool {
        true
    }

    fn returning(&mut self, carried: &Carried, now: Time) {
        if carried.link != self.bottleneck {
            return;
        }
        let parsed = self.flows[carried.flow.0 as usize].wire.packet(carried);
        self.judge(carried.flow, &parsed, carried.way, now);
    }
}
