//! Gives every packet of a simulated network to the law and to the recorder, as the bottleneck of the other worlds
//! does.

use std::collections::VecDeque;

use weir_core::{Audit, Duration, Event, EventSink, FlowId, Packet, Time};
use weir_law::Law;
use weir_sim::headers::{Transport, Wire};
use weir_sim::{Carried, HopId, Judge, Observer, Opening};

use super::wiretap::Wiretap;
use crate::real::port;
use crate::record::Recorder;
use weir_scenario::FULL_PACKET;

/// Who watches a run. Flows go by their numbers in the network.
pub(crate) struct Watcher {
    pub(crate) recorder: Recorder,
    /// The law, at the bottleneck, if anybody wants it.
    judge: Option<Judge>,
    pub(crate) tap: Option<Box<Wiretap>>,
    queues: Vec<Queue>,
    flows: Vec<Watched>,
    /// The flows of the scenario that open next.
    upcoming: VecDeque<Watched>,
    /// Flows of the scenario, before those of its workloads, and what carries the workloads.
    named: usize,
    stacks: Vec<Transport>,
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
    /// How long the links of its path before the bottleneck delay it, and those behind; none if it does not go by
    /// there.
    passes: Option<[Duration; 2]>,
}

/// The first link that is added.
const BOTTLENECK: HopId = HopId::FIRST;

impl Watcher {
    /// Of a network without links and flows, to which `named` flows and workloads of these `stacks` will be added.
    pub(crate) fn new(
        recorder: Recorder,
        law: Option<Law>,
        tap: Option<Wiretap>,
        named: usize,
        stacks: Vec<Transport>,
    ) -> Self {
        Self {
            recorder,
            judge: law.map(|law| Judge::new(law, BOTTLENECK)),
            tap: tap.map(Box::new),
            queues: Vec::new(),
            flows: Vec::new(),
            upcoming: VecDeque::new(),
            named,
            stacks,
        }
    }

    /// There is a further discipline, of the scenario's link of this number, whose queues the recorder numbers from
    /// `first`. The first of all is the bottleneck's.
    pub(crate) fn add_queue(&mut self, hop: HopId, link: usize, first: usize, flows: usize) {
        debug_assert!(!self.queues.is_empty() || hop == BOTTLENECK);
        self.queues.push(Queue { audit: Audit::with_capacity(flows), first, link });
    }

    /// A flow that is added next, in the order of these calls: the events at `counts` count for it. If it goes by the bottleneck, links delay it by so
    /// much before it and behind it.
    pub(crate) fn expect(&mut self, wire: Wire, counts: HopId, passes: Option<[Duration; 2]>) {
        self.upcoming.push_back(Watched { wire, counts, passes });
    }

    /// What each discipline did, in the order in which they were added.
    pub(crate) fn audits(&self) -> impl Iterator<Item = &Audit> {
        self.queues.iter().map(|queue| &queue.audit)
    }

    /// The law, which has its own numbers of flows.
    pub(crate) fn law(&self) -> Option<&Law> {
        self.judge.as_ref().map(Judge::law)
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
        if self.flows[event.packet.flow.0 as usize].counts == hop {
            self.recorder.flow_event(event);
        }
        if let Some(judge) = &mut self.judge {
            judge.event(hop, event);
        }
    }

    fn arriving(&mut self, _: HopId, packet: &mut Packet, carried: &Carried) {
        if let Some(tap) = &mut self.tap {
            tap.arriving(packet, carried);
        }
        let Some(judge) = &mut self.judge else { return };
        let wire = &self.flows[packet.flow.0 as usize].wire;
        judge.arriving(packet, carried, wire, &mut self.recorder);
        if self.recorder.has_news()
            && let Some(view) = judge.flow(packet.flow)
        {
            self.recorder.look(packet.flow, &view, packet.arrived);
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
            counts: BOTTLENECK,
            passes: Some([Duration::ZERO; 2]),
        });
        let Some(watched) = of_workload.or_else(|| self.upcoming.pop_front()) else { return };
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
                self.recorder.recognise(flow, &key);
            }
        }
        let Some(delays) = passes else { return };
        if let Some(judge) = &mut self.judge {
            judge.opening(opening, &wire, &mut self.recorder);
        }
        if let Some(tap) = &mut self.tap {
            tap.opens(opening, delays, &wire);
        }
    }

    fn watches_headers(&self) -> bool {
        self.tap.is_some() || self.judge.as_ref().is_some_and(Judge::watches_headers)
    }

    /// Also where nobody looks: packets that are watched have events of their own, and without them others of the same
    /// time go in another order. No run is to depend on who looks.
    fn watches_return(&self) -> bool {
        true
    }

    fn returning(&mut self, carried: &Carried, now: Time) {
        let wire = &self.flows[carried.flow.0 as usize].wire;
        if let Some(tap) = &mut self.tap {
            tap.returning(self.queues[carried.link.index()].link, carried, now, wire);
        }
        if let Some(judge) = &mut self.judge {
            judge.returning(carried, wire, now, &mut self.recorder);
        }
    }
}
