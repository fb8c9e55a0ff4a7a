//! Judges the flows of a capture as a network with the responsiveness law would (CRQ paper section III-A).
//!
//! A bottleneck knows which direction it queues and which packets it dropped or marked; a capture does not say. So each
//! flow is judged in both directions, by two laws with the roles swapped, and the signals are those that the capture
//! shows: CE on the packets, and TCP's losses as `infer` finds them. A loss is known only when it is repaired, often a
//! round trip later, but counts for the cycle of the packet that was lost: hence two passes over the file. The first finds
//! the signals, the second runs the law and gives each signal right after its packet.
//!
//! Memory grows with the flows, each of which is bounded, and not with the length of the file.

mod infer;
mod report;
mod tcp;
mod track;

use std::collections::HashMap;
use std::io::{Read, Seek};

use weir_core::{Ecn, FlowId, Time};

pub use infer::LossEvidence;
pub use report::{
    AssessmentRow, CaptureCounters, DirectionReport, EcnCounts, FlowReport, KindReport, Remark, Report,
    SpinReport, Spread, Stack,
};

use crate::capture::{CaptureError, CaptureReader, Captured, Link};
use crate::events::Signal;
use crate::flow::FlowKey;
use crate::law::{Direction, Law};
use crate::params::Params;
use crate::parsed::{Kind, ParsedPacket, parse_cut};
use infer::{Found, Inference, Segment};
use tcp::{Handshake, TcpOptions};
use track::{Heard, Track};

/// How to assess.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The law's settings.
    pub params: Params,
    /// Addresses and ports that are told apart; packets of more are counted and left out.
    pub max_flows: usize,
    /// Connections in the report; reused addresses and ports make more of them than `max_flows`.
    pub max_reports: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { params: Params::default(), max_flows: 65_536, max_reports: 262_144 }
    }
}

/// Assesses the capture in `input`, which is read twice from its start. A damaged file gives a report of what came before
/// the damage, with the error in it.
pub fn assess<R: Read + Seek>(mut input: R, options: &Options) -> Report {
    let mut counters = CaptureCounters::default();
    let mut signals = Signals::default();
    let first = pass(&mut input, u64::MAX, |captured, packet, view| {
        count(&mut counters, captured, packet);
        if let Some(packet) = packet {
            signals.packet(captured, packet, view, options.max_flows, &mut counters);
        }
    });
    let mut judge = Judge::new(signals, options);
    let second = match &first {
        Err(CaptureError::NotSeekable { .. }) => Ok(()),
        _ => pass(&mut input, counters.packets, |captured, packet, _| {
            if let Some(packet) = packet {
                judge.packet(captured, packet);
            }
        }),
    };
    Report { params: options.params, counters, flows: judge.finish(), error: first.err().or(second.err()) }
}

/// Hands out at most `limit` packets, with their headers and the bytes that these were read from.
fn pass<R: Read + Seek>(
    input: &mut R,
    limit: u64,
    mut each: impl FnMut(&Captured<'_>, Option<&ParsedPacket>, &[u8]),
) -> Result<(), CaptureError> {
    input.rewind().map_err(|source| CaptureError::NotSeekable { source })?;
    let mut reader = CaptureReader::new(input)?;
    let mut count = 0;
    while count < limit
        && let Some(captured) = reader.next()?
    {
        match captured.view() {
            Some((frame, wire_bytes, start)) => {
                each(&captured, Some(&parse_cut(frame, wire_bytes, start)), frame);
            }
            None => each(&captured, None, &[]),
        }
        count += 1;
    }
    Ok(())
}

fn count(counters: &mut CaptureCounters, captured: &Captured<'_>, packet: Option<&ParsedPacket>) {
    counters.packets += 1;
    counters.without_time += u64::from(!captured.timed);
    if let Link::Other(link) = captured.link {
        counters.other_link = Some(link);
    }
    let Some(packet) = packet else {
        counters.other_links += 1;
        return;
    };
    match packet.kind() {
        Kind::NotIp => counters.not_ip += 1,
        Kind::Truncated => counters.truncated += 1,
        Kind::Malformed => counters.malformed += 1,
        Kind::Fragment => counters.fragments += 1,
        Kind::Other => counters.other_protocols += 1,
        Kind::Tcp | Kind::Udp | Kind::Quic => {}
    }
}

/// The direction of a packet: 0 from the low end of the key to the high end, 1 back.
fn direction(packet: &ParsedPacket, key: &FlowKey) -> usize {
    usize::from(packet.source() != Some(key.low))
}

/// The first pass: signals by flow.
#[derive(Default)]
struct Signals {
    index: HashMap<FlowKey, usize>,
    keys: Vec<FlowKey>,
    /// For TCP flows.
    inferences: Vec<Option<Box<Inference>>>,
    last: Time,
}

impl Signals {
    fn packet(
        &mut self,
        captured: &Captured<'_>,
        packet: &ParsedPacket,
        frame: &[u8],
        max_flows: usize,
        counters: &mut CaptureCounters,
    ) {
        counters.backwards += u64::from(captured.time < self.last);
        self.last = captured.time;
        let Some(key) = packet.flow_key() else { return };
        let tcp = packet.tcp();
        let at = match self.index.get(&key) {
            Some(at) => *at,
            None if self.keys.len() >= max_flows => {
                counters.left_out += 1;
                return;
            }
            None => {
                self.index.insert(key, self.keys.len());
                self.keys.push(key);
                self.inferences.push(tcp.is_some().then(Box::default));
                self.keys.len() - 1
            }
        };
        let (Some(tcp), Some(inference)) = (tcp, &mut self.inferences[at]) else { return };
        let options =
            packet.l4_offset().and_then(|at| frame.get(at..)).map(TcpOptions::read).unwrap_or_default();
        let segment = Segment {
            packet: captured.number,
            time: captured.time,
            interface: captured.interface,
            tcp: &tcp,
            options: &options,
            payload: u32::try_from(packet.payload_bytes().0).unwrap_or(u32::MAX),
        };
        inference.packet(direction(packet, &key), &segment, packet.ecn() == Ecn::Ce);
    }
}

/// A connection while it is read in the second pass.
struct Connection {
    handshake: Handshake,
    tracks: [Track; 2],
    began: Time,
    tcp: bool,
    initial: bool,
    quic_packets: u64,
}

impl Connection {
    fn new(key: &FlowKey, began: Time) -> Self {
        Self {
            handshake: Handshake::default(),
            tracks: [Track::new(key.low, key.high), Track::new(key.high, key.low)],
            began,
            tcp: key.protocol == 6,
            initial: false,
            quic_packets: 0,
        }
    }

    fn finish(self, params: &Params, evidence: [Option<LossEvidence>; 2]) -> FlowReport {
        let [low, high] = self.tracks;
        let packets = [low.packets, high.packets];
        let stack = match () {
            () if self.tcp => Stack::Tcp,
            () if self.initial => Stack::Quic,
            // Bytes of other protocols have the fixed bit by chance: ask for nearly all.
            () if self.quic_packets * 10 >= (packets[0] + packets[1]) * 9 => Stack::MaybeQuic,
            () => Stack::Udp,
        };
        let last = low.span().1.max(high.span().1);
        let first = low.span().0.into_iter().chain(high.span().0).min().unwrap_or(self.began);
        let low_first = low.payload_bytes >= high.payload_bytes;
        let rtt = self.handshake.rtt;
        let low = low.finish(stack, params, packets[1], evidence[0], rtt);
        let high = high.finish(stack, params, packets[0], evidence[1], rtt);
        let (data, other) = if low_first { (low, high) } else { (high, low) };
        FlowReport {
            stack,
            first_packet_ns: first,
            duration_ms: last.since(first).as_millis_f64(),
            handshake_rtt_ms: rtt.map(weir_core::Duration::as_millis_f64),
            data,
            other,
        }
    }
}

/// A flow's key in the second pass: its signals and the connection that is being read.
struct Slot {
    key: FlowKey,
    found: Found,
    /// Where its packets were captured, by direction; for QUIC and UDP, whose copies show by nothing else.
    interfaces: [Option<u32>; 2],
    connection: Option<Connection>,
}

/// The second pass.
struct Judge {
    params: Params,
    max_reports: usize,
    /// With the low and with the high end as the sender.
    laws: [Law; 2],
    index: HashMap<FlowKey, usize>,
    slots: Vec<Slot>,
    done: Vec<FlowReport>,
}

impl Judge {
    fn new(signals: Signals, options: &Options) -> Self {
        let law = Law::new(options.params, signals.keys.len());
        let slots = signals.keys.into_iter().zip(signals.inferences).map(|(key, inference)| Slot {
            key,
            found: inference.map_or_else(Found::default, |inference| inference.finish()),
            interfaces: [None; 2],
            connection: None,
        });
        Self {
            params: options.params,
            max_reports: options.max_reports,
            laws: [law.clone(), law],
            index: signals.index,
            slots: slots.collect(),
            done: Vec::new(),
        }
    }

    fn packet(&mut self, captured: &Captured<'_>, packet: &ParsedPacket) {
        let Some(at) = packet.flow_key().and_then(|key| self.index.get(&key)) else { return };
        let slot = &mut self.slots[*at];
        let (from, time) = (direction(packet, &slot.key), captured.time);
        let signalled = slot.found.signalled[from].remove(&captured.number).unwrap_or_default();
        if signalled.opens {
            close(slot, &mut self.done, &self.params, self.max_reports);
        }
        let elsewhere = *slot.interfaces[from].get_or_insert(captured.interface) != captured.interface;
        if signalled.copy || (elsewhere && slot.key.protocol != 6) {
            let key = slot.key;
            slot.connection.get_or_insert_with(|| Connection::new(&key, time)).tracks[from].copies += 1;
            return;
        }
        let mut heard = Heard::default();
        let reopened = self.laws[from].counters().reopened;
        let answered = self.laws[1 - from].lookup(packet, Direction::Reverse, time);
        self.laws[1 - from].arrival(answered, packet, Direction::Reverse, time, &mut ());
        let law = &mut self.laws[from];
        let flow = law.lookup(packet, Direction::Forward, time);
        let stamp = law.arrival(flow, packet, Direction::Forward, time, &mut heard);
        // A law that counts arriving CE by itself must not be told again.
        let ce = u32::from(packet.ecn() == Ecn::Ce);
        let marks = signalled.marks + if law.params().count_arriving_ce { 0 } else { ce };
        for (signal, count) in [(Signal::Loss, signalled.losses), (Signal::Mark, marks)] {
            if count > 0 {
                law.signal(flow, stamp.cycle, signal, u16::try_from(count).unwrap_or(u16::MAX), time);
            }
        }
        let spun = slot.connection.as_ref().is_some_and(|open| open.tracks.iter().all(Track::spins));
        if spun && law.counters().reopened > reopened {
            close(slot, &mut self.done, &self.params, self.max_reports);
        }
        let key = slot.key;
        let open = slot.connection.get_or_insert_with(|| Connection::new(&key, time));
        let track = &mut open.tracks[from];
        // Without the full parser an entry may be there for the answers alone.
        let unseen = !self.params.full_parser && law.flow(flow).is_none_or(|view| view.packets == 0);
        track.packet(time, packet, flow == FlowId::NONE || unseen);
        if heard.any() {
            track.heard(&heard, law.flow(flow).as_ref(), open.began);
        }
        track.signals(signalled.losses, signalled.marks + ce);
        if let Some(tcp) = packet.tcp() {
            open.handshake.packet(from, time, &tcp);
            open.tracks[1 - from].ece_packets += u64::from(!tcp.syn() && tcp.flags & 0x40 != 0);
        }
        open.quic_packets += u64::from(packet.kind() == Kind::Quic);
        open.initial |= packet.quic().is_some_and(|quic| quic.initial);
    }

    fn finish(mut self) -> Vec<FlowReport> {
        for slot in &mut self.slots {
            close(slot, &mut self.done, &self.params, self.max_reports);
        }
        self.done.sort_by(|a, b| {
            let bytes = |flow: &FlowReport| flow.data.payload_bytes + flow.other.payload_bytes;
            bytes(b).cmp(&bytes(a)).then(a.first_packet_ns.cmp(&b.first_packet_ns))
        });
        self.done
    }
}

/// Ends the open connection of a flow, if there is one.
fn close(slot: &mut Slot, done: &mut Vec<FlowReport>, params: &Params, max_reports: usize) {
    let Some(open) = slot.connection.take() else { return };
    let evidence = if open.tcp { slot.found.evidence.pop_front() } else { None };
    if done.len() < max_reports {
        done.push(open.finish(params, evidence.map_or([None; 2], |evidence| evidence.map(Some))));
    }
}
