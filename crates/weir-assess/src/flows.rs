//! The flows of a capture and what is kept of each: first what `infer` finds, then what the law says. What one flow may
//! keep depends on it; what all of them keep together is bounded by [`super::Options::max_kept`].

use std::collections::HashMap;

use weir_core::{Ecn, Time};

use super::infer::{Found, Inference, Segment, Signalled};
use super::judge::Connection;
use super::report::CaptureCounters;
use super::tcp::TcpOptions;
use crate::capture::{Captured, Packet};
use weir_law::FlowKey;
use weir_law::ParsedPacket;

/// What the first reading has of a flow.
#[derive(Debug)]
enum Inferred {
    /// It is no TCP, or had no signals.
    Nothing,
    /// It is being read.
    Open(Box<Inference>),
    /// It was read to its end.
    Ended(Box<Found>),
}

/// A pair of addresses and ports: what was inferred, and the connection that is being judged.
pub(super) struct Conversation {
    inferred: Inferred,
    /// Where its packets were captured in the last section with any, by direction; for QUIC and UDP, whose copies show
    /// by nothing else.
    interfaces: [Option<Interface>; 2],
    pub(super) connection: Option<Box<Connection>>,
}

/// The number of an interface, in a section that gives it its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    section: u32,
    number: u32,
}

impl Interface {
    pub(super) const fn of(captured: &Captured<'_>) -> Self {
        Self { section: captured.section, number: captured.interface }
    }

    /// Whether this is known to be another one. Where sections differ, the same one may have another number.
    pub(super) const fn is_other(self, than: Self) -> bool {
        self.section == than.section && self.number != than.number
    }
}

impl Conversation {
    /// Whether packets of this direction have been captured on another interface before, in the same section.
    pub(super) fn is_elsewhere(&mut self, from: usize, interface: Interface) -> bool {
        match self.interfaces[from] {
            Some(first) if first.section == interface.section => interface.is_other(first),
            _ => {
                self.interfaces[from] = Some(interface);
                false
            }
        }
    }

    pub(super) fn found(&mut self) -> Option<&mut Found> {
        match &mut self.inferred {
            Inferred::Nothing => None,
            Inferred::Open(inference) => Some(inference.found()),
            Inferred::Ended(found) => Some(found),
        }
    }
}

/// The direction of a packet: 0 from the low end of the key to the high end, 1 back.
pub(super) fn direction(packet: &ParsedPacket, key: &FlowKey) -> usize {
    usize::from(packet.source() != Some(key.low))
}

/// The flows in order of first sight, and how much is kept of them.
pub(super) struct Flows {
    index: HashMap<FlowKey, u32>,
    pub(super) list: Vec<Conversation>,
    max_flows: usize,
    max_kept: usize,
    /// Segments, holes and repairs of all flows.
    segments: usize,
    /// Signals of all flows.
    signals: usize,
    last: Time,
}

impl Flows {
    pub(super) fn new(max_flows: usize, max_kept: usize) -> Self {
        Self {
            index: HashMap::new(),
            list: Vec::new(),
            max_flows: max_flows.min(u32::MAX as usize),
            max_kept: max_kept.max(2),
            segments: 0,
            signals: 0,
            last: Time::ZERO,
        }
    }

    /// The first reading: takes a packet, and infers what it shows.
    pub(super) fn packet(
        &mut self,
        captured: &Captured<'_>,
        read: &Packet<'_>,
        counters: &mut CaptureCounters,
    ) {
        counters.backwards += u64::from(captured.time < self.last);
        self.last = captured.time;
        let packet = &read.headers;
        let Some(key) = packet.flow_key() else { return };
        let tcp = packet.tcp();
        let at = match self.index.get(&key) {
            Some(at) => *at as usize,
            None if self.list.len() >= self.max_flows => {
                counters.left_out += 1;
                return;
            }
            None => {
                let inferred = if tcp.is_some() { Inferred::Open(Box::default()) } else { Inferred::Nothing };
                self.index.insert(key, self.list.len() as u32);
                self.list.push(Conversation { inferred, interfaces: [None; 2], connection: None });
                self.list.len() - 1
            }
        };
        let (Some(tcp), Inferred::Open(inference)) = (tcp, &mut self.list[at].inferred) else { return };
        let options =
            packet.l4_offset().and_then(|at| read.frame.get(at..)).map(TcpOptions::read).unwrap_or_default();
        let segment = Segment {
            packet: captured.number,
            time: captured.time,
            interface: Interface::of(captured),
            tcp: &tcp,
            options: &options,
            payload: u32::try_from(packet.payload_bytes().0).unwrap_or(u32::MAX),
        };
        let before = (inference.kept(), inference.found().kept());
        inference.packet(direction(packet, &key), &segment, packet.ecn() == Ecn::Ce);
        self.segments = self.segments + inference.kept() - before.0;
        self.signals = self.signals + inference.found().kept() - before.1;
        if self.segments > self.max_kept {
            self.halve();
        }
    }

    /// Every flow forgets the older half of its segments, so that those that keep the most lose the most.
    fn halve(&mut self) {
        self.segments = 0;
        for flow in &mut self.list {
            if let Inferred::Open(inference) = &mut flow.inferred {
                inference.halve();
                self.segments += inference.kept();
            }
        }
    }

    /// Whether so many signals are kept that the second reading has to take some of them out.
    pub(super) const fn full(&self) -> bool {
        self.signals > self.max_kept
    }

    /// Whether the second reading should go on taking them out.
    pub(super) const fn crowded(&self) -> bool {
        self.signals > self.max_kept / 2
    }

    /// Makes ready for packets to be judged, of which number `behind` is the first.
    pub(super) fn settle(&mut self, behind: u64) {
        self.signals = 0;
        for flow in &mut self.list {
            if let Inferred::Open(inference) = &mut flow.inferred {
                inference.settle(behind);
                self.signals += inference.found().kept();
            }
        }
    }

    /// Ends the first reading.
    pub(super) fn end(&mut self, behind: u64) {
        for flow in &mut self.list {
            let inferred = std::mem::replace(&mut flow.inferred, Inferred::Nothing);
            flow.inferred = match inferred {
                Inferred::Open(inference) => match inference.finish(behind) {
                    found if found.is_empty() => Inferred::Nothing,
                    found => Inferred::Ended(Box::new(found)),
                },
                other => other,
            };
        }
    }

    /// The second reading: finds the flow of a packet.
    pub(super) fn find(&self, key: &FlowKey) -> Option<usize> {
        self.index.get(key).map(|at| *at as usize)
    }

    /// The second reading: takes out what a packet of the flow at `at` turned out to mean.
    pub(super) fn take(&mut self, at: usize, from: usize, number: u64) -> Signalled {
        let Some(found) = self.list[at].found() else { return Signalled::default() };
        let before = found.kept();
        let signalled = found.take(from, number);
        self.signals = self.signals.saturating_sub(before - found.kept());
        signalled
    }
}
