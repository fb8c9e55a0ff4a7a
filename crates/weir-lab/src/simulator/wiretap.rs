//! Writes packets down as they pass: a capture and a trace. Time is virtual, so nothing is lost to a slow disk.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use weir_core::{Duration, Ecn, Event, EventKind, MarkReason, Packet, Time};
use weir_sim::{Carried, Opening};

use super::headers::{self, Headers, LONGEST, Quic, Tcp, TcpEcn};
use super::trace::{self, Trace};
use super::wire::Wire;
use crate::capture::INTERFACES;
use crate::pcapng::{LINK_ETHERNET, PcapngError, PcapngWriter};
use crate::run::{RunError, RunOptions};
use crate::traffic::Stack;

/// What QUIC's headers and an acknowledgement need behind the UDP header.
const QUIC_ACK: u32 = 27 + 12;
/// The interface towards the client, and the one towards the server.
const DOWN: u32 = 0;
const UP: u32 = 1;

/// What a connection is on the wire.
#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    ecn: TcpEcn,
    /// The client's first sequence number; it counts connections on the same ports.
    client: u32,
}

/// Where packets are written down.
pub(super) struct Wiretap {
    pcap: Option<(PathBuf, PcapngWriter)>,
    trace: Option<(PathBuf, Trace)>,
    connections: Vec<Connection>,
    /// What is in the packets that are queued, and why they were marked.
    inside: HashMap<u64, (Carried, Option<MarkReason>)>,
    /// Packets that open connections, still to come, in the order of their times.
    opening: BTreeMap<(Time, u64), (u32, Headers)>,
    asked: u64,
    /// The first failure; nothing is written after it.
    failed: Option<RunError>,
}

impl Wiretap {
    /// A tap that writes what `options` ask for; none if that is nothing.
    pub(super) fn create(options: &RunOptions) -> Result<Option<Self>, RunError> {
        let pcap = options.pcap.as_deref().map(capture).transpose()?;
        let trace = options.trace.as_deref().map(tracing).transpose()?;
        Ok((pcap.is_some() || trace.is_some()).then(|| Self {
            pcap,
            trace,
            connections: Vec::new(),
            inside: HashMap::new(),
            opening: BTreeMap::new(),
            asked: 0,
            failed: None,
        }))
    }

    /// A connection opens. Its handshake is not queued, but stands in the capture at the times that it would have.
    pub(super) fn opens(&mut self, opening: &Opening, wire: &Wire) {
        let index = opening.flow.0 as usize;
        if index >= self.connections.len() {
            self.connections.resize(index + 1, Connection::default());
        }
        let connection = &mut self.connections[index];
        connection.ecn = opening.ecn.into();
        connection.client = connection.client.wrapping_add(1);
        let Connection { ecn, client } = *connection;
        let before = |back: Duration| opening.data - back;
        let (around, rtt) = (opening.around, opening.around + opening.behind);
        let times = [before(around + rtt), before(rtt), before(around)].map(|time| time.max(opening.now));
        let packets = match wire.stack() {
            Stack::Udp => return,
            Stack::Quic => [false, true, false].map(|down| headers::initial(wire, down)),
            Stack::Tcp => {
                let [syn, answer, done] = Tcp::handshake([client, opening.offset as u32], ecn, times);
                [(syn, false), (answer, true), (done, false)]
                    .map(|(packet, down)| headers::tcp(wire, down, Ecn::NotEct, &packet, 0))
            }
        };
        for ((time, packet), interface) in times.into_iter().zip(packets).zip([UP, DOWN, UP]) {
            self.asked += 1;
            self.opening.insert((time, self.asked), (interface, packet));
        }
    }

    pub(super) fn arriving(&mut self, packet: &Packet, carried: &Carried) {
        self.inside.insert(packet.id, (*carried, None));
    }

    /// Something happened in a queue.
    pub(super) fn event(&mut self, link: usize, event: &Event, wire: &Wire) {
        let Some((carried, why)) = self.inside.get_mut(&event.packet.id) else { return };
        let carried = *carried;
        match event.kind {
            EventKind::Mark(reason) => *why = Some(reason),
            EventKind::Drop(_) => drop(self.inside.remove(&event.packet.id)),
            EventKind::Enqueue | EventKind::Dequeue => {}
        }
        self.tell(|trace| trace.event(link, event, wire, &carried));
    }

    /// A packet has left the link.
    pub(super) fn departed(&mut self, link: usize, packet: &Packet, now: Time, wire: &Wire) {
        let Some((carried, why)) = self.inside.remove(&packet.id) else { return };
        self.tell(|trace| trace.departed(link, packet, now, wire, &carried));
        if self.pcap.is_none() {
            return;
        }
        let headers = match wire.stack() {
            Stack::Tcp => {
                let Connection { ecn, client } = self.connection(packet);
                let stamps = [carried.sent, carried.echoed];
                // A connection's first byte of data follows its SYN.
                let seq = (carried.offset as u32).wrapping_add(1);
                let data = Tcp::data(seq, client.wrapping_add(1), ecn, carried.reduced, stamps);
                headers::tcp(wire, true, packet.ecn, &data, carried.payload)
            }
            Stack::Quic => {
                let short = Quic::Short { spin: carried.spin };
                headers::quic(wire, true, packet.ecn, short, wire.frame_bytes(&carried) - 42)
            }
            Stack::Udp => headers::udp(wire, true, packet.ecn, carried.payload),
        };
        self.write(DOWN, now, &headers, why.map(trace::mark_reason));
    }

    /// An acknowledgement passes on its way back.
    pub(super) fn returning(&mut self, carried: &Carried, now: Time, wire: &Wire) {
        self.tell(|trace| trace.returning(now, wire, carried));
        if self.pcap.is_none() {
            return;
        }
        let headers = match wire.stack() {
            Stack::Tcp => {
                let Connection { ecn, client } =
                    self.connections.get(carried.flow.0 as usize).copied().unwrap_or_default();
                let number = |offset: u64| (offset as u32).wrapping_add(1);
                let blocks = carried
                    .blocks
                    .map(|(from, to)| if from < to { (number(from), number(to)) } else { (0, 0) });
                let numbers = [client.wrapping_add(1), number(carried.acknowledged)];
                let stamps = [carried.sent, carried.echoed];
                let ack = Tcp::acknowledgement(numbers, ecn, carried.echo, carried.marks, stamps, blocks);
                headers::tcp(wire, false, Ecn::NotEct, &ack, 0)
            }
            Stack::Quic | Stack::Udp => {
                headers::quic(wire, false, Ecn::NotEct, Quic::Short { spin: carried.spin }, QUIC_ACK)
            }
        };
        self.write(UP, now, &headers, None);
    }

    /// Completes the files.
    pub(super) fn finish(mut self) -> Result<(), RunError> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        if let Some((path, writer)) = self.pcap {
            writer.finish().map_err(|source| failure(&path, source))?;
        }
        if let Some((path, trace)) = self.trace {
            trace.finish().map_err(|error| failure(&path, error.into()))?;
        }
        Ok(())
    }

    fn connection(&self, packet: &Packet) -> Connection {
        self.connections.get(packet.flow.0 as usize).copied().unwrap_or_default()
    }

    fn tell(&mut self, write: impl FnOnce(&mut Trace) -> io::Result<()>) {
        if let Some((path, trace)) = &mut self.trace
            && self.failed.is_none()
            && let Err(error) = write(trace)
        {
            self.failed = Some(failure(path, error.into()));
        }
    }

    /// Writes what opened connections until now, and a packet.
    fn write(&mut self, interface: u32, now: Time, headers: &Headers, comment: Option<&str>) {
        while let Some(first) = self.opening.first_entry()
            && first.key().0 <= now
        {
            let ((time, _), (side, packet)) = first.remove_entry();
            self.put(side, time, &packet, None);
        }
        self.put(interface, now, headers, comment);
    }

    fn put(&mut self, interface: u32, time: Time, headers: &Headers, comment: Option<&str>) {
        if let Some((path, writer)) = &mut self.pcap
            && self.failed.is_none()
            && let Err(source) =
                writer.packet(interface, time.as_nanos(), headers.length, headers.bytes(), comment)
        {
            self.failed = Some(failure(path, source));
        }
    }
}

fn failure(path: &Path, source: PcapngError) -> RunError {
    RunError::Capture { path: path.to_owned(), source }
}

fn capture(path: &Path) -> Result<(PathBuf, PcapngWriter), RunError> {
    folder(path)?;
    let writer = PcapngWriter::create(path, &INTERFACES, LINK_ETHERNET, LONGEST as u32);
    Ok((path.to_owned(), writer.map_err(|source| failure(path, source))?))
}

fn tracing(path: &Path) -> Result<(PathBuf, Trace), RunError> {
    folder(path)?;
    Ok((path.to_owned(), Trace::create(path).map_err(|error| failure(path, error.into()))?))
}

fn folder(path: &Path) -> Result<(), RunError> {
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(|error| failure(path, error.into()))
}
