//! The bytes of a packet's headers: Ethernet, IPv4 with its checksum, and TCP with time stamps, SACK and ECN, UDP, or
//! what QUIC shows without keys. Checksums are those of a payload of zeros.

use weir_cc::EcnUse;
use weir_core::{Ecn, Time};

use super::wire::{CLIENT, SERVER, Transport, Wire, stamp};
use crate::observer::Carried;

/// Bytes of the longest [`Headers`]: TCP with 40 bytes of options.
pub const LONGEST: usize = ETHERNET + IPV4 + 60;
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const UDP: usize = 8;

/// UDP payload of a packet that opens a QUIC connection (RFC 9000 section 14.1).
const QUIC_INITIAL: u32 = 1200;
const SYN: u16 = 0x02;
const ACK: u16 = 0x10;
const ECE: u16 = 0x40;
const CWR: u16 = 0x80;
/// Accurate ECN's third bit (RFC 9768), the last one of the octet before.
const AE: u16 = 0x100;
/// What a counter of accurate ECN begins with (RFC 9768 section 3.2.1).
const FIRST_COUNT: u64 = 5;

/// A packet's headers, and how long it is with its payload.
#[derive(Clone, Copy, Debug)]
pub struct Headers {
    bytes: [u8; LONGEST],
    kept: usize,
    pub(super) length: u32,
}

impl Headers {
    /// Bytes of the whole frame, payload included, without checksum. Of a super-packet more than 65535.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// The headers, from Ethernet's on.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.kept]
    }
}

/// What a TCP connection agreed on about ECN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TcpEcn {
    #[default]
    Off,
    /// ECE and CWR (RFC 3168), also as DCTCP uses them (RFC 8257).
    Classic,
    /// A count of marks in three bits (RFC 9768).
    Accurate,
}

impl From<EcnUse> for TcpEcn {
    fn from(ecn: EcnUse) -> Self {
        match ecn {
            EcnUse::Off => Self::Off,
            EcnUse::Classic | EcnUse::Accurate => Self::Classic,
            EcnUse::Scalable => Self::Accurate,
        }
    }
}

/// A count of marks in the bits of accurate ECN.
fn count(marks: u64) -> u16 {
    let count = (FIRST_COUNT + marks) as u16 & 7;
    ((count & 1) * ECE) + ((count >> 1 & 1) * CWR) + ((count >> 2) * AE)
}

/// What stands in a TCP header beside ports.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tcp {
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u16,
    pub(super) stamps: [Time; 2],
    pub(super) blocks: [(u32, u32); 3],
}

impl Tcp {
    /// A packet of an open connection, with data or not: the numbers before its data and of what it waits for, and what
    /// it has received selectively.
    pub(super) fn open(
        [seq, ack]: [u32; 2],
        ecn: TcpEcn,
        carried: &Carried,
        blocks: [(u32, u32); 3],
    ) -> Self {
        let flag = |set: bool, flag: u16| u16::from(set) * flag;
        let flags = match ecn {
            TcpEcn::Off => 0,
            TcpEcn::Classic => flag(carried.echo, ECE) | flag(carried.reduced, CWR),
            TcpEcn::Accurate => count(carried.marks),
        };
        Self { seq, ack, flags: ACK | flags, stamps: [carried.sent, carried.echoed], blocks }
    }

    /// The three packets with which a connection begins, of the end that asks and of the one that answers by turns.
    pub(super) fn handshake([client, server]: [u32; 2], ecn: TcpEcn, times: [Time; 3]) -> [Self; 3] {
        let flags = match ecn {
            TcpEcn::Off => [0, 0, 0],
            TcpEcn::Classic => [ECE | CWR, ECE, 0],
            // Neither SYN came with a mark, nor its answer (RFC 9768 section 3.1.1).
            TcpEcn::Accurate => [AE | CWR | ECE, CWR, CWR],
        };
        let [asked, answered, done] = times;
        let next = |number: u32| number.wrapping_add(1);
        let of = |seq, ack, flags, stamps| Self { seq, ack, flags, stamps, ..Self::default() };
        [
            of(client, 0, SYN | flags[0], [asked, Time::ZERO]),
            of(server, next(client), SYN | ACK | flags[1], [answered, asked]),
            of(next(client), next(server), ACK | flags[2], [done, answered]),
        ]
    }

    /// The header's options, up to 40 bytes, and how many.
    fn options(&self) -> ([u8; 40], usize) {
        let mut bytes = [1; 40];
        let mut at = 0;
        let mut put = |value: &[u8]| {
            bytes[at..at + value.len()].copy_from_slice(value);
            at += value.len();
        };
        if self.flags & SYN != 0 {
            // Largest segment 1460, SACK permitted, windows in units of 2^10.
            put(&[2, 4, 0x05, 0xb4, 4, 2]);
        } else {
            put(&[1, 1]);
        }
        put(&[8, 10]);
        let stamps = self.stamps.map(|time| stamp(time).to_be_bytes());
        put(&stamps[0]);
        put(&stamps[1]);
        if self.flags & SYN != 0 {
            put(&[1, 3, 3, 10]);
        }
        let blocks = self.blocks.iter().take_while(|(from, to)| from != to).count();
        if blocks > 0 {
            put(&[1, 1, 5, 2 + 8 * blocks as u8]);
            for (from, to) in &self.blocks[..blocks] {
                put(&from.to_be_bytes());
                put(&to.to_be_bytes());
            }
        }
        (bytes, at)
    }
}

/// What QUIC shows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Quic {
    /// The first packets of a connection, up to 1200 bytes (RFC 9000 section 17.2.2).
    Initial,
    /// All later ones.
    Short { spin: bool },
}

/// A segment of TCP.
pub(super) fn tcp(wire: &Wire, down: bool, ecn: Ecn, tcp: &Tcp, payload: u32) -> Headers {
    let (options, count) = tcp.options();
    let mut header = [0; 60];
    header[4..8].copy_from_slice(&tcp.seq.to_be_bytes());
    header[8..12].copy_from_slice(&tcp.ack.to_be_bytes());
    header[12] = ((5 + count / 4) as u8) << 4 | (tcp.flags >> 8) as u8;
    header[13] = tcp.flags as u8;
    header[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
    header[20..20 + count].copy_from_slice(&options[..count]);
    packet(wire, down, ecn, 16, &mut header[..20 + count], payload)
}

/// A datagram of QUIC with `payload` bytes behind the UDP header.
pub(super) fn quic(wire: &Wire, down: bool, ecn: Ecn, quic: Quic, payload: u32) -> Headers {
    let mut header = [0; UDP + 25];
    let used = match quic {
        Quic::Short { spin } => {
            header[UDP] = 0x40 | u8::from(spin) << 5;
            UDP + 1
        }
        Quic::Initial => {
            header[UDP..UDP + 5].copy_from_slice(&[0xc0, 0, 0, 0, 1]);
            // Connection ids of eight bytes, by the client's port; no token; a length of two bytes.
            let [high, low] = wire.client_port().to_be_bytes();
            header[UDP + 5..UDP + 14].copy_from_slice(&[8, 0, 0, 0, 0, 0, 0, high, low]);
            header[UDP + 14] = 0;
            let rest = (payload - 18) as u16;
            header[UDP + 15] = 0;
            header[UDP + 16..UDP + 18].copy_from_slice(&(0x4000 | rest).to_be_bytes());
            UDP + 18
        }
    };
    udp_length(&mut header, payload);
    packet(wire, down, ecn, 6, &mut header[..used], payload - (used - UDP) as u32)
}

/// A packet that opens a connection of QUIC.
pub(crate) fn initial(wire: &Wire, down: bool) -> Headers {
    quic(wire, down, Ecn::NotEct, Quic::Initial, QUIC_INITIAL)
}

/// A datagram.
pub(super) fn udp(wire: &Wire, down: bool, ecn: Ecn, payload: u32) -> Headers {
    let mut header = [0; UDP];
    udp_length(&mut header, payload);
    packet(wire, down, ecn, 6, &mut header, payload)
}

fn udp_length(header: &mut [u8], payload: u32) {
    header[4..6].copy_from_slice(&(UDP as u16 + payload as u16).to_be_bytes());
}

/// Puts IPv4 and Ethernet in front. `checksum` is where the transport's stands in `header`.
fn packet(wire: &Wire, down: bool, ecn: Ecn, checksum: usize, header: &mut [u8], payload: u32) -> Headers {
    let mut bytes = [0; LONGEST];
    let kept = ETHERNET + IPV4 + header.len();
    let (from, to) = if down { (SERVER, CLIENT) } else { (CLIENT, SERVER) };
    // Addresses that nobody's hardware has.
    bytes[..6].copy_from_slice(&[2, 0, to[0], to[1], to[2], to[3]]);
    bytes[6..12].copy_from_slice(&[2, 0, from[0], from[1], from[2], from[3]]);
    bytes[12] = 0x08;
    let length = (IPV4 + header.len()) as u32 + payload;
    let protocol = if wire.transport() == Transport::Tcp { 6 } else { 17 };
    let ip = &mut bytes[ETHERNET..ETHERNET + IPV4];
    ip[0] = 0x45;
    ip[1] = ecn.bits();
    ip[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    // Do not fragment.
    ip[6] = 0x40;
    ip[8] = 64;
    ip[9] = protocol;
    ip[12..16].copy_from_slice(&from);
    ip[16..20].copy_from_slice(&to);
    let sum = internet_checksum(ip, 0);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let ports = wire.ports(down);
    header[..2].copy_from_slice(&ports[0].to_be_bytes());
    header[2..4].copy_from_slice(&ports[1].to_be_bytes());
    let addresses = internet_sum(&bytes[ETHERNET + 12..ETHERNET + 20], 0);
    let pseudo = addresses + u32::from(protocol) + length - IPV4 as u32;
    let sum = internet_checksum(header, pseudo);
    header[checksum..checksum + 2].copy_from_slice(&sum.to_be_bytes());
    bytes[ETHERNET + IPV4..kept].copy_from_slice(header);
    Headers { bytes, kept, length: ETHERNET as u32 + length }
}

/// The sum of 16-bit words (RFC 1071).
fn internet_sum(bytes: &[u8], start: u32) -> u32 {
    bytes.chunks(2).fold(start, |sum, pair| {
        sum + u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]))
    })
}

fn internet_checksum(bytes: &[u8], start: u32) -> u16 {
    let mut sum = internet_sum(bytes, start);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use weir_core::{Duration, Ecn, Time};
    use weir_law::{Kind, Start, parse_cut};

    use super::{ETHERNET, IPV4, Quic, Tcp, TcpEcn, Transport, Wire, initial, internet_sum, quic, tcp, udp};
    use crate::observer::Carried;

    /// The ones' complement sum over a segment and its pseudo-header, which is -0 where the checksum is right.
    fn sums_up(bytes: &[u8], protocol: u8) -> bool {
        let length = u32::from(u16::from_be_bytes([bytes[ETHERNET + 2], bytes[ETHERNET + 3]])) - IPV4 as u32;
        let pseudo = internet_sum(&bytes[ETHERNET + 12..ETHERNET + 20], u32::from(protocol) + length);
        let header = internet_sum(&bytes[ETHERNET..ETHERNET + IPV4], 0);
        let segment = internet_sum(&bytes[ETHERNET + IPV4..], pseudo);
        [header, segment].iter().all(|sum| (sum & 0xffff) + (sum >> 16) == 0xffff)
    }

    #[test]
    fn the_parser_reads_tcp_with_its_options() {
        let wire = Wire::new(Transport::Tcp, false, 20_000, 0);
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let blocks = [(5000, 6000), (7000, 8000), (0, 0)];
        let carried = Carried { marks: 9, sent: at(17), echoed: at(15), ..Carried::default() };
        let ack = Tcp::open([1, 4000], TcpEcn::Accurate, &carried, blocks);
        let frame = tcp(&wire, false, Ecn::NotEct, &ack, 0);
        assert!(sums_up(frame.bytes(), 6));
        let parsed = parse_cut(frame.bytes(), frame.length, Start::Ethernet);
        let read = parsed.tcp().unwrap();
        assert_eq!((parsed.kind(), parsed.payload_bytes().0, read.seq, read.ack), (Kind::Tcp, 0, 1, 4000));
        assert_eq!((read.timestamps, read.sack_right), (Some((17, 15)), Some(8000)));
        // 5 + 9 marks, modulo 8, is 6: AE and CWR.
        assert_eq!((read.flags, frame.bytes()[ETHERNET + IPV4 + 12] & 1), (0x90, 1));
        let [syn, answer, _] = Tcp::handshake([3, 8], TcpEcn::Classic, [at(1), at(2), at(3)]);
        for (packet, flags) in [(syn, 0xc2), (answer, 0x52)] {
            let frame = tcp(&wire, packet.seq == 8, Ecn::NotEct, &packet, 0);
            assert!(sums_up(frame.bytes(), 6));
            assert_eq!(parse_cut(frame.bytes(), frame.length, Start::Ethernet).tcp().unwrap().flags, flags);
        }
        let carried = Carried { reduced: true, sent: at(1), ..Carried::default() };
        let data = Tcp::open([1, 4], TcpEcn::Classic, &carried, [(0, 0); 3]);
        let frame = tcp(&wire, true, Ecn::Ect0, &data, 45 * 1448);
        let parsed = parse_cut(frame.bytes(), frame.length, Start::Ethernet);
        assert_eq!((parsed.payload_bytes().0, parsed.tcp().unwrap().flags), (45 * 1448, 0x90));
        assert_eq!((parsed.ecn(), frame.bytes().len()), (Ecn::Ect0, 66));
    }

    #[test]
    fn the_parser_reads_quic_and_datagrams() {
        let wire = Wire::new(Transport::Quic, false, 20_000, 0);
        let initial = initial(&wire, false);
        let parsed = parse_cut(initial.bytes(), initial.length, Start::Ethernet);
        assert!(sums_up(initial.bytes(), 17));
        assert_eq!((parsed.kind(), initial.length), (Kind::Quic, 42 + 1200));
        assert!(parsed.quic().unwrap().initial);
        let short = quic(&wire, true, Ecn::Ce, Quic::Short { spin: true }, 1452);
        let parsed = parse_cut(short.bytes(), short.length, Start::Ethernet);
        assert_eq!((parsed.quic().unwrap().spin, parsed.payload_bytes().0), (Some(true), 1452));
        let wire = Wire::new(Transport::Udp, false, 20_000, 0);
        let datagram = udp(&wire, true, Ecn::NotEct, 1472);
        assert!(sums_up(datagram.bytes(), 17));
        let parsed = parse_cut(datagram.bytes(), datagram.length, Start::Ethernet);
        assert_eq!((parsed.kind(), parsed.payload_bytes().0), (Kind::Udp, 1472));
    }
}
