//! Traffic for the tests of the live table, here and in the kernel: packets of any flow, and senders that go through
//! whole round trips.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod attacks;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use weir_core::{CycleId, Duration, QueueChoice, Time};
use weir_law::live::{LiveConfig, LiveOutcome, LiveTable, open_seed};
use weir_law::{Direction, Params, ParsedPacket, Signal, Start, parse_cut};

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;

/// Payload of a full TCP segment.
pub const SEGMENT: u32 = 1460;

/// A table with a seed.
pub fn table(flows: u32) -> LiveTable {
    let params = Params::default();
    LiveTable::new(params, &LiveConfig { seed: open_seed(7), ..LiveConfig::new(&params, flows) })
}

/// The headers of a packet on an IP link, and its length there.
pub type Frame = (Vec<u8>, u32);

/// A table that takes such packets: the native one, or that of the kernel's programs.
pub trait Table {
    /// Runs a packet.
    fn arrive(&mut self, frame: &Frame, direction: Direction, now: Time) -> LiveOutcome;
    /// Books a signal on a packet that was stamped with `cycle`.
    fn tell(&mut self, frame: &Frame, cycle: CycleId, signal: Signal, segments: u16);
    /// Whether a packet's flow has an entry.
    fn knows(&self, frame: &Frame) -> bool;
    /// Entries that are taken, and entries in all.
    fn taken(&self) -> (usize, usize);
    /// Bytes that it takes.
    fn memory(&self) -> usize;
    /// Called once per second of an attack's time, for what a table wants to know of itself.
    fn check(&mut self) {}
}

impl Table for LiveTable {
    fn arrive(&mut self, frame: &Frame, direction: Direction, now: Time) -> LiveOutcome {
        send(self, &parsed(frame), direction, now)
    }

    fn tell(&mut self, frame: &Frame, cycle: CycleId, signal: Signal, segments: u16) {
        self.signal(&parsed(frame), cycle, signal, segments);
    }

    fn knows(&self, frame: &Frame) -> bool {
        self.flow_of(&parsed(frame)).is_some()
    }

    fn taken(&self) -> (usize, usize) {
        (self.len(), self.capacity())
    }

    fn memory(&self) -> usize {
        self.bytes()
    }
}

fn parsed((bytes, wire): &Frame) -> ParsedPacket {
    parse_cut(bytes, *wire, Start::Ip)
}

/// An IP header with room for `rest`; `payload` more bytes are said to follow, but are not there.
fn ip(from: SocketAddr, to: SocketAddr, protocol: u8, rest: &[u8], payload: u32, ecn: u8) -> Frame {
    let length = rest.len() as u32 + payload;
    let mut out = Vec::with_capacity(40 + rest.len());
    match (from, to) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => {
            let total = 20 + length;
            // As BIG TCP does it: no length where it does not fit.
            let told = u16::try_from(total).unwrap_or(0).to_be_bytes();
            out.extend([0x45, ecn, told[0], told[1], 0, 0, 0, 0, 64, protocol, 0, 0]);
            out.extend(from.ip().octets());
            out.extend(to.ip().octets());
            out.extend(rest);
            (out, total)
        }
        (SocketAddr::V6(from), SocketAddr::V6(to)) => {
            let told = u16::try_from(length).unwrap_or(0).to_be_bytes();
            out.extend([0x60, ecn << 4, 0, 0, told[0], told[1], protocol, 64]);
            out.extend(from.ip().octets());
            out.extend(to.ip().octets());
            out.extend(rest);
            (out, 40 + length)
        }
        _ => panic!("both ends have one family"),
    }
}

fn ports(from: SocketAddr, to: SocketAddr) -> [u8; 4] {
    let (from, to) = (from.port().to_be_bytes(), to.port().to_be_bytes());
    [from[0], from[1], to[0], to[1]]
}

/// A TCP segment.
pub fn tcp_frame(from: SocketAddr, to: SocketAddr, (seq, ack): (u32, u32), flags: u8, payload: u32) -> Frame {
    let mut header = Vec::with_capacity(20);
    header.extend(ports(from, to));
    header.extend(seq.to_be_bytes());
    header.extend(ack.to_be_bytes());
    header.extend([0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    ip(from, to, 6, &header, payload, 2)
}

pub fn tcp(from: SocketAddr, to: SocketAddr, numbers: (u32, u32), flags: u8, payload: u32) -> ParsedPacket {
    parsed(&tcp_frame(from, to, numbers, flags, payload))
}

/// A datagram of `payload` bytes with a short header.
pub fn quic_frame(from: SocketAddr, to: SocketAddr, spin: bool, payload: u32) -> Frame {
    datagram(from, to, &[0x40 | u8::from(spin) << 5], payload)
}

pub fn quic(from: SocketAddr, to: SocketAddr, spin: bool, payload: u32) -> ParsedPacket {
    parsed(&quic_frame(from, to, spin, payload))
}

pub fn initial(from: SocketAddr, to: SocketAddr, payload: u32) -> ParsedPacket {
    parsed(&initial_frame(from, to, payload))
}

/// A datagram with an Initial packet of version 1 that fills it.
pub fn initial_frame(from: SocketAddr, to: SocketAddr, payload: u32) -> Frame {
    let rest = (0x4000 | (payload - 17) as u16).to_be_bytes();
    let start = [0xc0, 0, 0, 0, 1, 4, 1, 2, 3, 4, 3, 9, 9, 9, 0, rest[0], rest[1]];
    datagram(from, to, &start, payload)
}

fn datagram(from: SocketAddr, to: SocketAddr, start: &[u8], payload: u32) -> Frame {
    let mut header = Vec::with_capacity(8 + start.len());
    header.extend(ports(from, to));
    header.extend(((8 + payload) as u16).to_be_bytes());
    header.extend([0, 0]);
    header.extend(start);
    ip(from, to, 17, &header, payload - start.len() as u32, 2)
}

/// An end of a flow; different numbers are different ends of one family.
pub fn end(v6: bool, number: u32, port: u16) -> SocketAddr {
    if v6 {
        let low = u128::from(number);
        return (Ipv6Addr::from(0x2001_0db8 << 96 | low), port).into();
    }
    (Ipv4Addr::from(0x0a00_0000 | number & 0x00ff_ffff), port).into()
}

/// What carries a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    Tcp,
    Quic,
}

/// A sender and its receiver. Each call of [`Peer::cycle`] is one round trip.
#[derive(Clone, Debug)]
pub struct Peer {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub carrier: Carrier,
    pub seq: u32,
    pub ack: u32,
    pub spin: bool,
}

impl Peer {
    pub fn new(carrier: Carrier, from: SocketAddr, to: SocketAddr) -> Self {
        Self { from, to, carrier, seq: 1000, ack: 5000, spin: false }
    }

    /// The next forward packet.
    pub fn data_frame(&mut self, payload: u32) -> Frame {
        match self.carrier {
            Carrier::Quic => quic_frame(self.from, self.to, self.spin, payload),
            Carrier::Tcp => {
                let frame = tcp_frame(self.from, self.to, (self.seq, self.ack), ACK, payload);
                self.seq = self.seq.wrapping_add(payload);
                frame
            }
        }
    }

    pub fn data(&mut self, payload: u32) -> ParsedPacket {
        parsed(&self.data_frame(payload))
    }

    /// What the receiver says when all of it has come.
    pub fn answer_frame(&self) -> Frame {
        match self.carrier {
            Carrier::Quic => quic_frame(self.to, self.from, self.spin, 40),
            Carrier::Tcp => tcp_frame(self.to, self.from, (self.ack, self.seq), ACK, 0),
        }
    }

    pub fn answer(&self) -> ParsedPacket {
        parsed(&self.answer_frame())
    }

    /// A round trip of `window` bytes in packets of at most `most`; then the answer. `signals` are for its first
    /// packet. Returns what the last packet found.
    pub fn cycle(
        &mut self,
        table: &mut impl Table,
        window: u32,
        most: u32,
        signals: &[Signal],
        now: Time,
    ) -> LiveOutcome {
        self.spin = !self.spin;
        let (mut left, mut last) = (window, None);
        while left > 0 {
            let frame = self.data_frame(left.min(most));
            left -= left.min(most);
            let found = table.arrive(&frame, Direction::Forward, now);
            if last.is_none() {
                for signal in signals {
                    table.tell(&frame, found.cycle, *signal, 1);
                }
            }
            last = Some(found);
        }
        table.arrive(&self.answer_frame(), Direction::Reverse, now + Duration::from_millis(1));
        last.unwrap_or(LiveOutcome {
            known: false,
            cycle: CycleId(0),
            choice: QueueChoice::Standard,
            ended: None,
        })
    }

    /// Round trips `every` apart that lose a packet in every third and halve the window then, until the flow has earned
    /// the responsive queue. Returns when.
    pub fn earn(&mut self, table: &mut impl Table, mut now: Time, every: Duration) -> Time {
        for round in 0..12 {
            let (window, lost) =
                if round % 3 == 1 { (20, [Signal::Loss].as_slice()) } else { (10, [].as_slice()) };
            let found = self.cycle(table, window * SEGMENT, SEGMENT, lost, now);
            now += every;
            if found.choice == QueueChoice::Responsive {
                return now;
            }
        }
        panic!("{self:?} earned nothing");
    }
}

/// Runs a packet; its bytes are those of an IP link.
pub fn send(table: &mut LiveTable, packet: &ParsedPacket, direction: Direction, now: Time) -> LiveOutcome {
    let bytes = packet.ip_bytes().0 as u32;
    table.arrival(packet, bytes, direction, now)
}
