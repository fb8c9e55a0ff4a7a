//! The addresses of a flow, and its packets as the law's parser would read them: it reads frames, so just enough of one
//! is written for it.

use std::net::{Ipv4Addr, SocketAddrV4};

use weir_core::{Ecn, Time};
use weir_law::{ParsedPacket, Start, parse_cut};

use crate::observer::{Carried, Way};

const ETHERNET: usize = 14;
const IPV4: usize = 20;
/// TCP with timestamps: what the simulator counts for each header of TCP.
const TCP: usize = 32;
/// A SACK option of one block, padded.
const BLOCK: usize = 12;
const UDP: usize = 8;
pub(crate) const SERVER: [u8; 4] = [10, 0, 0, 1];
pub(crate) const CLIENT: [u8; 4] = [10, 0, 1, 1];
const CLIENT_PORT: u16 = 40_000;
const ACK: u8 = 0x10;
const SYN: u8 = 0x02;
/// Kinds of options (RFC 9293 section 3.1, RFC 2018 section 3, RFC 7323 section 3.2).
const NOP: u8 = 1;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// TCP's clock at a time: it counts milliseconds, as Linux's does.
pub(super) fn stamp(time: Time) -> u32 {
    (time.as_nanos() / 1_000_000) as u32
}

/// The transport protocol of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// QUIC, of which an observer sees ports, the kind of header and the spin bit.
    Quic,
    /// UDP without feedback.
    Udp,
}

/// What all packets of one flow have in their headers: IPv4 from 10.0.0.1, the server, to 10.0.1.1, the client, and
/// ports that identify it.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    transport: Transport,
    /// Data goes from the client to the server.
    up: bool,
    /// Of the end that sends the data, and of the other one.
    ports: [u16; 2],
}

impl Wire {
    /// Of a flow whose data goes from the client to the server if it is `up`. `port` is that of the end that sends the
    /// data; that of the other end is 40000 and `index`, modulo 2^16.
    pub fn new(transport: Transport, up: bool, port: u16, index: usize) -> Self {
        Self { transport, up, ports: [port, CLIENT_PORT.wrapping_add(index as u16)] }
    }

    /// The transport protocol.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Source and destination of a packet that goes down, from the server to the client, or up.
    pub fn ends(&self, down: bool) -> [SocketAddrV4; 2] {
        let addresses = if down { [SERVER, CLIENT] } else { [CLIENT, SERVER] };
        let ports = self.ports(down);
        [0, 1].map(|end| SocketAddrV4::new(Ipv4Addr::from(addresses[end]), ports[end]))
    }

    /// Whether the end that asks for data sends down: it does if the data goes up.
    pub fn asks_down(&self) -> bool {
        self.up
    }

    /// The port of the end that asks for data.
    pub(crate) fn client_port(&self) -> u16 {
        self.ports[1]
    }

    /// The ports of a packet's source and destination.
    pub(crate) fn ports(&self, down: bool) -> [u16; 2] {
        let [data, other] = self.ports;
        if down != self.up { [data, other] } else { [other, data] }
    }

    /// Bytes of a packet's frame: a super-packet counts on the wire with the headers of all its segments, but has them
    /// once.
    pub fn frame_bytes(&self, carried: &Carried) -> u32 {
        let header = ETHERNET + IPV4 + if self.transport == Transport::Tcp { TCP } else { UDP };
        carried.wire_bytes - (u32::from(carried.segments) - 1) * header as u32
    }

    /// A packet as it passes a link, with timestamps. Of SACK blocks it has the one that the law looks at; that makes the
    /// packet longer than the simulator counts.
    pub fn packet(&self, carried: &Carried) -> ParsedPacket {
        // TCP's first byte of data is 1.
        let number = |offset: u64| (offset as u32).wrapping_add(1);
        let numbers = [number(carried.offset), number(carried.acknowledged)];
        let told = carried.blocks.into_iter().filter(|(from, to)| from < to);
        let block = told.max_by_key(|(_, to)| *to).map(|(from, to)| [number(from), number(to)]);
        let stamps = [stamp(carried.sent), stamp(carried.echoed)];
        let bytes = self.frame_bytes(carried);
        self.frame(carried.way, numbers, ACK, stamps, block, carried.spin, carried.ecn, bytes)
    }

    /// The packets with which a connection of TCP begins: that of the end that asks for data, and the answer; and which
    /// way they go. `first` is the sequence number before that of the first byte of data. `None` of other transports.
    pub fn handshake(&self, first: u32) -> Option<[(Way, ParsedPacket); 2]> {
        let bytes = (ETHERNET + IPV4 + TCP) as u32;
        let (asks, answers) = if self.up { (Way::Forward, Way::Back) } else { (Way::Back, Way::Forward) };
        let frame = |way, numbers, flags| {
            (way, self.frame(way, numbers, flags, [0, 0], None, false, Ecn::NotEct, bytes))
        };
        (self.transport == Transport::Tcp)
            .then(|| [frame(asks, [0, 0], SYN), frame(answers, [first, 1], SYN | ACK)])
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of a header")]
    fn frame(
        &self,
        way: Way,
        [seq, ack]: [u32; 2],
        flags: u8,
        stamps: [u32; 2],
        block: Option<[u32; 2]>,
        spin: bool,
        ecn: Ecn,
        wire_bytes: u32,
    ) -> ParsedPacket {
        let down = way == Way::Forward;
        let mut frame = [0; ETHERNET + IPV4 + TCP + BLOCK];
        let more = if block.is_some() { BLOCK } else { 0 };
        let wire_bytes = wire_bytes + more as u32;
        frame[12] = 0x08;
        let ip = &mut frame[ETHERNET..];
        ip[0] = 0x45;
        ip[1] = ecn as u8;
        let length = (wire_bytes as u16).saturating_sub(ETHERNET as u16);
        ip[2..4].copy_from_slice(&length.to_be_bytes());
        ip[8] = 64;
        ip[9] = if self.transport == Transport::Tcp { 6 } else { 17 };
        let (from, to) = if down { (SERVER, CLIENT) } else { (CLIENT, SERVER) };
        ip[12..16].copy_from_slice(&from);
        ip[16..20].copy_from_slice(&to);
        let ports = self.ports(down);
        let l4 = &mut ip[IPV4..];
        l4[0..2].copy_from_slice(&ports[0].to_be_bytes());
        l4[2..4].copy_from_slice(&ports[1].to_be_bytes());
        let used = match self.transport {
            Transport::Tcp => {
                l4[4..8].copy_from_slice(&seq.to_be_bytes());
                l4[8..12].copy_from_slice(&ack.to_be_bytes());
                l4[12] = (((TCP + more) / 4) as u8) << 4;
                l4[13] = flags;
                l4[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
                let mut option = |at: usize, kind: u8, [first, second]: [u32; 2]| {
                    l4[at..at + 4].copy_from_slice(&[NOP, NOP, kind, 10]);
                    l4[at + 4..at + 8].copy_from_slice(&first.to_be_bytes());
                    l4[at + 8..at + 12].copy_from_slice(&second.to_be_bytes());
                };
                option(20, TIMESTAMPS, stamps);
                if let Some(block) = block {
                    option(TCP, SACK, block);
                }
                TCP + more
            }
            Transport::Quic | Transport::Udp => {
                l4[4..6].copy_from_slice(&length.saturating_sub(IPV4 as u16).to_be_bytes());
                if self.transport == Transport::Quic {
                    l4[UDP] = 0x40 | u8::from(spin) << 5;
                }
                UDP + 1
            }
        };
        parse_cut(&frame[..ETHERNET + IPV4 + used], wire_bytes, Start::Ethernet)
    }
}

#[cfg(test)]
mod tests {
    use weir_core::{Duration, Ecn, Time};
    use weir_law::Kind;

    use super::{Transport, Wire};
    use crate::observer::{Carried, Way};

    #[test]
    fn the_parser_reads_what_was_written() {
        let data = Carried {
            offset: 1448,
            payload: 1448,
            wire_bytes: 1514,
            segments: 1,
            ecn: Ecn::Ect0,
            spin: true,
            sent: Time::ZERO + Duration::from_micros(9_999),
            echoed: Time::ZERO + Duration::from_millis(7),
            ..Carried::default()
        };
        let answer = Carried {
            way: Way::Back,
            offset: 0,
            payload: 0,
            acknowledged: 1448,
            wire_bytes: 66,
            ecn: Ecn::NotEct,
            ..data
        };
        for up in [false, true] {
            // What is data and what answers it is the same; the ways are not.
            let turn = |carried: Carried| match (up, carried.way) {
                (false, _) => carried,
                (true, Way::Forward) => Carried { way: Way::Back, ..carried },
                (true, Way::Back) => Carried { way: Way::Forward, ..carried },
            };
            let tcp = Wire::new(Transport::Tcp, up, 20_000, 3);
            let first = tcp.packet(&turn(data));
            assert_eq!((first.kind(), first.ecn(), first.payload_bytes().0), (Kind::Tcp, Ecn::Ect0, 1448));
            assert_eq!(first.tcp().map(|tcp| (tcp.seq, tcp.ack)), Some((1449, 1)));
            let many = Carried { wire_bytes: 45 * 1514, segments: 45, ..data };
            assert_eq!(tcp.packet(&turn(many)).payload_bytes().0, 45 * 1448);
            let ack = tcp.packet(&turn(answer));
            assert_eq!(ack.tcp().map(|tcp| (tcp.seq, tcp.ack)), Some((1, 1449)));
            assert_eq!((ack.flow_key(), ack.payload_bytes().0), (first.flow_key(), 0));
            let told = Carried { blocks: [(9000, 9500), (2896, 5792), (8688, 20272)], ..turn(answer) };
            let sack = tcp.packet(&told);
            assert_eq!(sack.tcp().and_then(|tcp| tcp.sack_right), Some(20273));
            assert_eq!(sack.tcp().and_then(|tcp| tcp.timestamps), Some((9, 7)));
            assert_eq!((sack.payload_bytes().0, ack.tcp().unwrap().sack_right), (0, None));
            let [(asks, syn), (answers, both)] = tcp.handshake(0).unwrap();
            assert!(syn.tcp().unwrap().syn() && !syn.tcp().unwrap().has_ack());
            assert!(both.tcp().unwrap().syn() && both.tcp().unwrap().has_ack());
            assert_eq!((asks, answers), (turn(answer).way, turn(data).way));
            let quic = Wire::new(Transport::Quic, up, 20_000, 3);
            let packet = quic.packet(&turn(Carried { wire_bytes: 1494, ..data }));
            assert_eq!(packet.kind(), Kind::Quic);
            assert_eq!(packet.quic().and_then(|quic| quic.spin), Some(true));
            assert_eq!(Wire::new(Transport::Udp, up, 20_000, 3).packet(&turn(data)).kind(), Kind::Udp);
        }
    }
}
