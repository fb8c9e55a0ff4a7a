//! The second reading of a capture: runs the law over the packets, in both directions, and gives it each signal right
//! after the packet that it belongs to.

use weir_core::{Ecn, FlowId, Time};

use super::Options;
use super::flows::{Conversation, Flows, Interface, direction};
use super::infer::{Found, LossEvidence};
use super::report::{FlowReport, Stack};
use super::tcp::Handshake;
use super::track::{Heard, Track};
use crate::capture::{Captured, Packet};
use weir_law::FlowKey;
use weir_law::Kind;
use weir_law::Params;
use weir_law::Signal;
use weir_law::{Direction, Law};

/// A connection while it is judged.
pub(super) struct Connection {
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

    fn kept(&self) -> usize {
        self.tracks[0].kept() + self.tracks[1].kept()
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
        let rtt = self.handshake.rtt();
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

/// Boxed, since a report is made where a connection of about the same size goes: a list that moves as it grows, beside
/// all open connections, would take three times the memory.
#[allow(clippy::vec_box, reason = "each takes the place of a boxed connection")]
pub(super) type Reports = Vec<Box<FlowReport>>;

/// Connections that are closed, and what all connections may keep.
struct Done {
    params: Params,
    reports: Reports,
    max_reports: usize,
    left_out: u64,
    /// Judgements that are listed.
    listed: usize,
    /// Lengths and windows of cycles that are kept for quantiles, of all open connections.
    sampled: usize,
}

impl Done {
    /// Ends the open connection of a flow, if there is one.
    fn close(&mut self, flow: &mut Conversation) {
        let Some(open) = flow.connection.take() else { return };
        self.sampled -= open.kept();
        let evidence = if open.tcp {
            flow.found().map(Found::evidence).unwrap_or_default().map(Some)
        } else {
            [None; 2]
        };
        if self.reports.len() < self.max_reports {
            self.reports.push(Box::new(open.finish(&self.params, evidence)));
        } else {
            self.left_out += 1;
        }
    }
}

/// Judges the flows of a capture.
pub(super) struct Judge {
    max_kept: usize,
    /// With the low and with the high end as the sender.
    laws: [Law; 2],
    done: Done,
}

impl Judge {
    /// With room for so many flows.
    pub(super) fn new(options: &Options, flows: usize) -> Self {
        let law = Law::new(options.params, flows);
        let done = Done {
            params: options.params,
            reports: Vec::new(),
            max_reports: options.max_reports,
            left_out: 0,
            listed: 0,
            sampled: 0,
        };
        Self { max_kept: options.max_kept.max(2), laws: [law.clone(), law], done }
    }

    /// Takes a packet that the first reading has had.
    pub(super) fn packet(&mut self, captured: &Captured<'_>, read: &Packet<'_>, flows: &mut Flows) {
        let packet = &read.headers;
        let Some(key) = packet.flow_key() else { return };
        let Some(at) = flows.find(&key) else { return };
        let (from, time) = (direction(packet, &key), captured.time);
        let signalled = flows.take(at, from, captured.number);
        let flow = &mut flows.list[at];
        if signalled.opens {
            self.done.close(flow);
        }
        let elsewhere = flow.is_elsewhere(from, Interface::of(captured));
        if signalled.copy || (elsewhere && key.protocol != 6) {
            flow.connection.get_or_insert_with(|| Box::new(Connection::new(&key, time))).tracks[from]
                .copies += 1;
            return;
        }
        let mut heard = Heard::default();
        let reopened = self.laws[from].counters().reopened;
        let answered = self.laws[1 - from].lookup(packet, Direction::Reverse, time);
        self.laws[1 - from].arrival(answered, packet, Direction::Reverse, time, &mut ());
        let law = &mut self.laws[from];
        let entry = law.lookup(packet, Direction::Forward, time);
        let stamp = law.arrival(entry, packet, Direction::Forward, time, &mut heard);
        // A law that counts arriving CE by itself must not get it a second time.
        let ce = u32::from(packet.ecn() == Ecn::Ce);
        let marks = signalled.marks + if law.params().count_arriving_ce { 0 } else { ce };
        for (signal, count) in [(Signal::Loss, signalled.losses), (Signal::Mark, marks)] {
            if count > 0 {
                law.signal(entry, stamp.cycle, signal, u16::try_from(count).unwrap_or(u16::MAX), time);
            }
        }
        let spun = flow.connection.as_ref().is_some_and(|open| open.tracks.iter().all(Track::spins));
        if spun && law.counters().reopened > reopened {
            self.done.close(flow);
        }
        let open = flow.connection.get_or_insert_with(|| Box::new(Connection::new(&key, time)));
        let track = &mut open.tracks[from];
        // Without the full parser an entry may be there for the answers alone.
        let unseen = !law.params().full_parser && law.flow(entry).is_none_or(|view| view.packets == 0);
        track.packet(time, packet, entry == FlowId::NONE || unseen);
        if heard.any() {
            let before = track.kept();
            let room = self.done.listed < self.max_kept / 4;
            self.done.listed += usize::from(track.heard(&heard, law.flow(entry).as_ref(), open.began, room));
            self.done.sampled = self.done.sampled + track.kept() - before;
        }
        track.signals(signalled.losses, signalled.marks + ce);
        if let Some(tcp) = packet.tcp() {
            open.handshake.packet(from, time, &tcp);
            open.tracks[1 - from].ece_packets += u64::from(!tcp.syn() && tcp.flags & 0x40 != 0);
        }
        open.quic_packets += u64::from(packet.kind() == Kind::Quic);
        open.initial |= packet.quic().is_some_and(|quic| quic.initial);
        if self.done.sampled > self.max_kept + 8 * flows.list.len() {
            self.thin(flows);
        }
    }

    /// Every connection keeps every second value for its quantiles, so that those that keep the most lose the most.
    fn thin(&mut self, flows: &mut Flows) {
        self.done.sampled = 0;
        for open in flows.list.iter_mut().filter_map(|flow| flow.connection.as_mut()) {
            open.tracks.iter_mut().for_each(Track::thin);
            self.done.sampled += open.kept();
        }
    }

    /// The reports, largest first, and how many connections there was no room for.
    pub(super) fn finish(mut self, flows: &mut Flows) -> (Reports, u64) {
        for flow in &mut flows.list {
            self.done.close(flow);
        }
        self.done.reports.sort_by(|a, b| {
            let bytes = |flow: &FlowReport| flow.data.payload_bytes + flow.other.payload_bytes;
            bytes(b).cmp(&bytes(a)).then(a.first_packet_ns.cmp(&b.first_packet_ns))
        });
        (self.done.reports, self.done.left_out)
    }
}
