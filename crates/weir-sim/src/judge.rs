//! The law at one link of a network: shows it every packet with the headers that it would have.

use weir_core::{Event, EventSink, FlowId, Packet, Time};
use weir_law::{Direction, FlowView, Law, LawSink, ParsedPacket, Start, Watch, parse_cut};

use crate::headers::{self, Transport, Wire};
use crate::hop::HopId;
use crate::observer::{Carried, Opening, Way};

/// Judges the flows that go by a link, for an [`Observer`](crate::Observer) that passes on what it sees. Packets
/// forward over the link, which its queue takes, are stamped with the verdict on their flow. `sink` hears what the law
/// finds, with the network's numbers of flows.
#[derive(Clone, Debug)]
pub struct Judge {
    watch: Watch,
    link: HopId,
}

impl Judge {
    /// Judges at `link` with `law`. That may be [`HopId::FIRST`] of a network without links.
    pub fn new(law: Law, link: HopId) -> Self {
        Self { watch: Watch::new(law), link }
    }

    /// What [`Observer::watches_headers`](crate::Observer::watches_headers) has to answer for this law: whether it
    /// looks at SACK blocks or timestamps, which endpoints note only where somebody reads them.
    pub fn watches_headers(&self) -> bool {
        let params = self.watch.law().params();
        params.sack_completes_half || params.timestamp_cycles
    }

    /// A connection over the link opens. Handshakes are not simulated; the law sees their packets at once.
    pub fn opening(&mut self, opening: &Opening, wire: &Wire, sink: &mut dyn LawSink) {
        for (way, packet) in wire.handshake(opening.offset as u32).into_iter().flatten() {
            self.pass(opening.flow, &packet, way, opening.now, sink);
        }
        if wire.transport() == Transport::Quic && opening.workload.is_some() {
            // So that the law does not take one request's connection for the next one's.
            for (down, way) in [(false, Way::Back), (true, Way::Forward)] {
                let initial = headers::initial(wire, down);
                let parsed = parse_cut(initial.bytes(), initial.length(), Start::Ethernet);
                self.pass(opening.flow, &parsed, way, opening.now, sink);
            }
        }
    }

    /// A packet is about to be queued, there or at another link.
    pub fn arriving(&mut self, packet: &mut Packet, carried: &Carried, wire: &Wire, sink: &mut dyn LawSink) {
        if carried.link != self.link {
            return;
        }
        let parsed = wire.packet(carried);
        match carried.way {
            Way::Forward => self.watch.arriving(packet, &parsed, sink),
            Way::Back => self.pass(packet.flow, &parsed, Way::Back, packet.arrived, sink),
        }
    }

    /// A packet goes back over a link, there or another one, where there is no queue in that direction.
    pub fn returning(&mut self, carried: &Carried, wire: &Wire, now: Time, sink: &mut dyn LawSink) {
        if carried.link == self.link {
            self.pass(carried.flow, &wire.packet(carried), carried.way, now, sink);
        }
    }

    fn pass(&mut self, flow: FlowId, parsed: &ParsedPacket, way: Way, now: Time, sink: &mut dyn LawSink) {
        let direction = match way {
            Way::Forward => Direction::Forward,
            Way::Back => Direction::Reverse,
        };
        self.watch.passing(flow, parsed, direction, now, sink);
    }

    /// Something happened in the queue of `hop`, there or at another link.
    pub fn event(&mut self, hop: HopId, event: &Event) {
        if hop == self.link {
            self.watch.event(event);
        }
    }

    /// What the law knows of a flow; `None` if it leaves the flow out.
    pub fn flow(&self, flow: FlowId) -> Option<FlowView> {
        self.watch.flow(flow)
    }

    /// The law.
    pub const fn law(&self) -> &Law {
        self.watch.law()
    }
}
