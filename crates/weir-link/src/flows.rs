//! Which flow a packet belongs to, and which delay lines that flow's packets take.
//!
//! Flows are numbered here, in the order in which they come in, and not by the law: its presets leave some flows out
//! (the prototype knows no plain UDP), and these need a delay and have counts all the same.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use weir_core::{Duration, FlowId};
use weir_law::{FlowKey, ParsedPacket};

use crate::delay::DelayLines;

/// Chooses the forward delay (before the queue) and the reverse delay (before the law sees the acknowledgement) of a
/// flow. Asked once per flow, and once at the start with `(None, FlowId::NONE)` for the packets that belong to none.
pub type DelayChoice = Box<dyn FnMut(Option<&FlowKey>, FlowId) -> (Duration, Duration) + Send>;

/// Flows that are distinguished. The packets of later ones belong to none.
const MOST: usize = 1 << 20;

#[derive(Clone, Copy)]
struct Known {
    key: FlowKey,
    lines: [u16; 2],
    hosts: [u16; 2],
}

/// The flows seen so far.
pub(crate) struct Flows {
    known: Vec<Known>,
    none: [u16; 2],
    numbers: HashMap<FlowKey, FlowId>,
    hosts: HashMap<IpAddr, u16>,
    choice: DelayChoice,
}

/// What is known of a packet when it comes in.
pub(crate) struct Identity {
    pub(crate) flow: FlowId,
    /// The delay line of its direction.
    pub(crate) line: u16,
    /// The 5-tuple, if this is the first packet of the flow.
    pub(crate) new: Option<FlowKey>,
}

fn lines(delays: &mut [DelayLines; 2], chosen: (Duration, Duration)) -> [u16; 2] {
    [delays[0].line(chosen.0), delays[1].line(chosen.1)]
}

impl Flows {
    pub(crate) fn new(mut choice: DelayChoice, delays: &mut [DelayLines; 2]) -> Self {
        let none = lines(delays, choice(None, FlowId::NONE));
        Self {
            known: Vec::with_capacity(1024),
            none,
            numbers: HashMap::with_capacity(1024),
            hosts: HashMap::with_capacity(64),
            choice,
        }
    }

    /// Finds the flow of a packet of direction `side`. Allocates for a new flow at most, never for a known one.
    pub(crate) fn identify(
        &mut self,
        packet: &ParsedPacket,
        side: usize,
        delays: &mut [DelayLines; 2],
    ) -> Identity {
        let none = Identity { flow: FlowId::NONE, line: self.none[side], new: None };
        let Some(key) = packet.flow_key() else { return none };
        if let Some(&flow) = self.numbers.get(&key) {
            return Identity { flow, line: self.known[flow.0 as usize].lines[side], new: None };
        }
        if self.known.len() == MOST {
            return none;
        }
        let flow = FlowId(self.known.len() as u32);
        let lines = lines(delays, (self.choice)(Some(&key), flow));
        self.numbers.insert(key, flow);
        let ends = [packet.source(), packet.destination()].map(|end| self.host(end));
        // From the host whose packets the queue takes.
        let hosts = if side == 0 { ends } else { [ends[1], ends[0]] };
        self.known.push(Known { key, lines, hosts });
        Identity { flow, line: lines[side], new: Some(key) }
    }

    /// The number of a host, counted from 1 in the order of first sight; 0 once there are too many to distinguish.
    fn host(&mut self, end: Option<SocketAddr>) -> u16 {
        let Some(address) = end.map(|end| end.ip()) else { return 0 };
        if let Some(number) = self.hosts.get(&address) {
            return *number;
        }
        let Ok(number) = u16::try_from(self.hosts.len() + 1) else { return 0 };
        self.hosts.insert(address, number);
        number
    }

    /// The numbers of a flow's hosts, the one before the queue first; 0 if it belongs to none.
    pub(crate) fn hosts(&self, flow: FlowId) -> [u16; 2] {
        self.known.get(flow.0 as usize).map_or([0; 2], |known| known.hosts)
    }

    /// The 5-tuple of a flow.
    pub(crate) fn key(&self, flow: FlowId) -> Option<FlowKey> {
        self.known.get(flow.0 as usize).map(|known| known.key)
    }

    /// How many flows there are.
    pub(crate) fn len(&self) -> u32 {
        self.known.len() as u32
    }
}
