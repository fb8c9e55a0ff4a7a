//! The headers that a simulated packet would have: just enough for the law's parser, which reads frames.

use weir_core::{Ecn, Packet};
use weir_law::{ParsedPacket, Start, parse_cut};
use weir_sim::Carried;

use crate::traffic::Stack;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const TCP: usize = 32;
const UDP: usize = 8;
pub(super) const SERVER: [u8; 4] = [10, 0, 0, 1];
pub(super) const CLIENT: [u8; 4] = [10, 0, 1, 1];
const CLIENT_PORT: u16 = 40_000;
const ACK: u8 = 0x10;
const SYN: u8 = 0x02;

/// Headers of one flow's packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    stack: Stack,
    server_port: u16,
    client_port: u16,
}

impl Wire {
    /// Of a flow that is told apart by the server's port. Clients count up from a port of their own.
    pub(crate) fn new(stack: Stack, server_port: u16, index: usize) -> Self {
        Self { stack, server_port, client_port: CLIENT_PORT.wrapping_add(index as u16) }
    }

    pub(super) fn stack(&self) -> Stack {
        self.stack
    }

    pub(super) fn client_port(&self) -> u16 {
        self.client_port
    }

    /// The ports of a packet's source and destination.
    pub(super) fn ports(&self, down: bool) -> [u16; 2] {
        if down { [self.server_port, self.client_port] } else { [self.client_port, self.server_port] }
    }

    /// A packet with data, from the server to the client.
    pub(crate) fn data(&self, carried: &Carried, packet: &Packet) -> ParsedPacket {
        // TCP's first byte of data is 1.
        let numbers = (carried.offset as u32).wrapping_add(1);
        self.frame(true, numbers, 1, ACK, carried.spin, packet.ecn, self.frame_bytes(packet))
    }

    /// Bytes of a packet's frame: a super-packet counts on the wire with the headers of all its segments, but has them once.
    pub(super) fn frame_bytes(&self, packet: &Packet) -> u32 {
        let header = ETHERNET + IPV4 + if self.stack == Stack::Tcp { TCP } else { UDP };
        packet.wire_bytes - (u32::from(packet.segments) - 1) * header as u32
    }

    /// An acknowledgement, from the client to the server.
    pub(crate) fn acknowledgement(&self, carried: &Carried) -> ParsedPacket {
        let acknowledged = (carried.offset as u32).wrapping_add(1);
        self.frame(false, 1, acknowledged, ACK, carried.spin, Ecn::NotEct, (ETHERNET + IPV4 + TCP) as u32)
    }

    /// The packets with which a connection of TCP begins: the client's, and the server's answer.
    /// `server` is the number before the server's first byte of data.
    pub(crate) fn handshake(&self, server: u32) -> Option<[ParsedPacket; 2]> {
        let bytes = (ETHERNET + IPV4 + TCP) as u32;
        (self.stack == Stack::Tcp).then(|| {
            [
                self.frame(false, 0, 0, SYN, false, Ecn::NotEct, bytes),
                self.frame(true, server, 1, SYN | ACK, false, Ecn::NotEct, bytes),
            ]
        })
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of a header")]
    fn frame(
        &self,
        down: bool,
        seq: u32,
        ack: u32,
        flags: u8,
        spin: bool,
        ecn: Ecn,
        wire_bytes: u32,
    ) -> ParsedPacket {
        let mut frame = [0; ETHERNET + IPV4 + TCP];
        frame[12] = 0x08;
        let ip = &mut frame[ETHERNET..];
        ip[0] = 0x45;
        ip[1] = ecn as u8;
        let length = (wire_bytes as u16).saturating_sub(ETHERNET as u16);
        ip[2..4].copy_from_slice(&length.to_be_bytes());
        ip[8] = 64;
        ip[9] = if self.stack == Stack::Tcp { 6 } else { 17 };
        let (from, to) = if down { (SERVER, CLIENT) } else { (CLIENT, SERVER) };
        ip[12..16].copy_from_slice(&from);
        ip[16..20].copy_from_slice(&to);
        let ports = self.ports(down);
        let l4 = &mut ip[IPV4..];
        l4[0..2].copy_from_slice(&ports[0].to_be_bytes());
        l4[2..4].copy_from_slice(&ports[1].to_be_bytes());
        let used = match self.stack {
            Stack::Tcp => {
                l4[4..8].copy_from_slice(&seq.to_be_bytes());
                l4[8..12].copy_from_slice(&ack.to_be_bytes());
                l4[12] = ((TCP / 4) as u8) << 4;
                l4[13] = flags;
                l4[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
                TCP
            }
            Stack::Quic | Stack::Udp => {
                l4[4..6].copy_from_slice(&length.saturating_sub(IPV4 as u16).to_be_bytes());
                if self.stack == Stack::Quic {
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
    use weir_core::{Ecn, FlowId, Packet, Time};
    use weir_law::Kind;
    use weir_sim::Carried;

    use super::{Stack, Wire};

    #[test]
    fn the_parser_reads_what_was_written() {
        let carried = Carried { offset: 1448, payload: 1448, spin: true, ..Carried::default() };
        let full = Packet::new(0, FlowId(0), 1514, Time::ZERO).with_ecn(Ecn::Ect0);
        let tcp = Wire::new(Stack::Tcp, 20_000, 3);
        let data = tcp.data(&carried, &full);
        assert_eq!((data.kind(), data.ecn()), (Kind::Tcp, Ecn::Ect0));
        assert_eq!(data.tcp().map(|tcp| (tcp.seq, tcp.ack)), Some((1449, 1)));
        let super_packet = Packet { segments: 45, wire_bytes: 45 * 1514, ..full };
        assert_eq!(tcp.data(&carried, &super_packet).payload_bytes().0, 45 * 1448);
        let ack = tcp.acknowledgement(&carried);
        assert_eq!(ack.tcp().map(|tcp| (tcp.seq, tcp.ack)), Some((1, 1449)));
        assert_eq!(ack.flow_key(), data.flow_key());
        let [syn, answer] = tcp.handshake(0).unwrap();
        assert!(syn.tcp().unwrap().syn() && !syn.tcp().unwrap().has_ack());
        assert!(answer.tcp().unwrap().syn() && answer.tcp().unwrap().has_ack());
        let quic = Wire::new(Stack::Quic, 20_000, 3).data(&carried, &Packet { wire_bytes: 1494, ..full });
        assert_eq!(quic.kind(), Kind::Quic);
        assert_eq!(quic.quic().and_then(|quic| quic.spin), Some(true));
        assert_eq!(Wire::new(Stack::Udp, 20_000, 3).data(&carried, &full).kind(), Kind::Udp);
    }
}
