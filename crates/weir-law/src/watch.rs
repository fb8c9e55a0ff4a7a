//! The law at one queue: joins [`Law`] to the stream of events of a queue discipline.
//!
//! A packet is judged before it is queued and takes the cycle and the queue that the law gives it along. Each event
//! that is a congestion signal is booked to that cycle; one that comes too late for it is counted
//! ([`Counters::late_signals`](crate::Counters)).
//!
//! A bottleneck numbers its flows itself, for the law leaves some out (one preset has no plain UDP). What the law
//! finds is reported under the bottleneck's numbers, so that all events of a run have the same flow numbers.

use weir_core::{Ecn, Event, EventKind, EventSink, FlowId, Packet, Time};

use crate::events::{Assessment, ChoiceChange, CycleEnd, LawSink, Signal};
use crate::flow::FlowView;
use crate::law::{Direction, Law, Stamp};
use crate::parsed::ParsedPacket;

/// Joins a [`Law`] to a queue. Pass it each packet and, as an [`EventSink`], each event of the queue.
///
/// ```
/// use weir_core::{Event, EventSink, FlowId, Packet, Time};
/// use weir_law::{Law, Params, Start, Watch, parse};
///
/// let mut watch = Watch::new(Law::new(Params::default(), 100));
/// let frame = [0; 60];
/// let mut packet = Packet::new(0, FlowId(0), 60, Time::ZERO);
/// watch.arriving(&mut packet, &parse(&frame, Start::Ethernet), &mut ());
/// // Now the packet is queued, and the discipline's events come back.
/// assert_eq!(watch.law().counters().not_ip, 1);
/// ```
#[derive(Clone, Debug)]
pub struct Watch {
    law: Law,
    /// The law's number of each of the bottleneck's flows.
    numbers: Vec<FlowId>,
}

impl Watch {
    /// Watches with `law`. Memory grows with the highest [`FlowId`] that the bottleneck uses, so these count up from 0;
    /// a packet of a known flow takes none.
    pub fn new(law: Law) -> Self {
        Self { law, numbers: Vec::with_capacity(1024) }
    }

    /// A packet is about to be queued, at [`Packet::arrived`]: judges it and sets [`Packet::cycle`] and
    /// [`Packet::choice`]. `parsed` are its headers. `sink` hears what the law finds.
    pub fn arriving(&mut self, packet: &mut Packet, parsed: &ParsedPacket, sink: &mut dyn LawSink) {
        let Stamp { cycle, choice } =
            self.judge(packet.flow, parsed, Direction::Forward, packet.arrived, sink);
        packet.cycle = cycle;
        packet.choice = choice;
    }

    /// A packet of `flow` goes by that this queue does not take: all of the reverse direction, and what a network sends
    /// forward without queueing it.
    pub fn passing(
        &mut self,
        flow: FlowId,
        parsed: &ParsedPacket,
        direction: Direction,
        now: Time,
        sink: &mut dyn LawSink,
    ) {
        self.judge(flow, parsed, direction, now, sink);
    }

    fn judge(
        &mut self,
        flow: FlowId,
        parsed: &ParsedPacket,
        direction: Direction,
        now: Time,
        sink: &mut dyn LawSink,
    ) -> Stamp {
        let number = self.law.lookup(parsed, direction, now);
        if flow != FlowId::NONE {
            let index = flow.0 as usize;
            if index >= self.numbers.len() {
                self.numbers.resize(index + 1, FlowId::NONE);
            }
            self.numbers[index] = number;
        }
        self.law.arrival(number, parsed, direction, now, &mut Renamed { sink, flow })
    }

    fn number(&self, flow: FlowId) -> FlowId {
        self.numbers.get(flow.0 as usize).copied().unwrap_or(FlowId::NONE)
    }

    /// What the law knows of the bottleneck's flow of this number; `None` if it leaves the flow out.
    pub fn flow(&self, flow: FlowId) -> Option<FlowView> {
        self.law.flow(self.number(flow))
    }

    /// The law, which has its own numbers of flows.
    pub const fn law(&self) -> &Law {
        &self.law
    }

    /// The law, once nothing more is to be watched.
    pub fn into_law(self) -> Law {
        self.law
    }
}

impl EventSink for Watch {
    fn event(&mut self, event: &Event) {
        let packet = &event.packet;
        let signal = match event.kind {
            EventKind::Drop(_) => Signal::Loss,
            // A packet that came with CE has its signal from another queue.
            EventKind::Mark(_) if packet.ecn_in != Ecn::Ce => Signal::Mark,
            EventKind::Mark(_) | EventKind::Enqueue | EventKind::Dequeue => return,
        };
        // Also of a packet without a flow: the law counts the signals that it cannot book.
        self.law.signal(self.number(packet.flow), packet.cycle, signal, packet.segments, event.time);
    }
}

/// Gives what the law finds in one packet the number that its flow has at the bottleneck.
struct Renamed<'a> {
    sink: &'a mut dyn LawSink,
    flow: FlowId,
}

impl LawSink for Renamed<'_> {
    fn cycle(&mut self, end: &CycleEnd) {
        self.sink.cycle(&CycleEnd { flow: self.flow, ..*end });
    }

    fn assessment(&mut self, assessment: &Assessment) {
        self.sink.assessment(&Assessment { flow: self.flow, ..*assessment });
    }

    fn choice(&mut self, change: &ChoiceChange) {
        self.sink.choice(&ChoiceChange { flow: self.flow, ..*change });
    }
}
