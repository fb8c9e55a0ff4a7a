//! The headers that a simulated packet would have: just enough for the law's parser, which reads frames.

use weir_core::Ecn;
use weir_law::{ParsedPacket, Start, parse_cut};
use weir_sim::{Carried, Way};

use weir_testbed::traffic::Stack;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const TCP: usize = 32;
const UDP: usize = 8;
pub(super) const SERVER: [u8; 4] = [10, 0, 0, 1];
pub(super) const CLIENT: [u8; 4] = [10, 0, 1, 1];
const CLIENT_PORT: u16 = 40_000;
const ACK: u8 = 0x10;
const SYN: u8 = 0x02;
/// Kinds of options (RFC 9293 section 3.1, RFC 2018 section 3).
const NOP: u8 = 1;
const SACK: u8 = 5;

/// Headers of one flow's packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    stack: Stack,
    /// Data goes from the client to the server.
    up: bool,
    /// Of the end that sends the data, and of the other one.
    ports: [u16; 2],
}

impl Wire {
    /// Of a flow that is told apart by the port of the end that sends the data. The other ends count up from a port of their
    /// own.
    pub(crate) fn new(stack: Stack, up: bool, port: u16, index: usize) -> Self {
        Self { stack, up, ports: [port, CLIENT_PORT.wrapping_add(index as u16)] }
    }

    pub(super) fn stack(&self) -> Stack {
        self.stack
    }

    /// Which way the end that asks for data sends: down if the data goes up.
    pub(super) fn asks_down(&self) -> bool {
        self.up
    }

    /// The port of the end that asks for data.
    pub(super) fn client_port(&self) -> u16 {
        self.ports[1]
    }

    /// The ports of a packet's source and destination.
    pub(super) fn ports(&self, down: bool) -> [u16; 2] {
        let [data, other] = self.ports;
        if down != self.up { [data, other] } else { [other, data] }
    }

    /// Bytes of a packet's frame: a super-packet counts on the wire with the headers of all its segments, but has them once.
    pub(super) fn frame_bytes(&self, carried: &Carried) -> u32 {
        let header = ETHERNET + IPV4 + if self.stack == Stack::Tcp { TCP } else { UDP };
        carried.wire_bytes - (u32::from(carried.segments) - 1) * header as u32
    }

    /// A packet as it passes a link.
    pub(crate) fn packet(&self, carried: &Carried) -> ParsedPacket {
        // TCP's first byte of data is 1.
        let number = |offset: u64| (offset as u32).wrapping_add(1);
        let numbers = [number(carried.offset), number(carried.acknowledged)];
        let told = carried.blocks.into_iter().filter(|(from, to)| from < to);
        // The one that the law looks at, and all that there is room for.
        let block = told.max_by_key(|(_, to)| *to).map(|(from, to)| [number(from), number(to)]);
        self.frame(carried.way, numbers, ACK, block, carried.spin, carried.ecn, self.frame_bytes(carried))
    }

    /// The packets with which a connection of TCP begins: that of the end that asks for data, and the answer; and which way
    /// they go. `first` is the number before the first byte of data.
    pub(crate) fn handshake(&self, first: u32) -> Option<[(Way, ParsedPacket); 2]> {
        let bytes = (ETHERNET + IPV4 + TCP) as u32;
        let (asks, answers) = if self.up { (Way::Forward, Way::Back) } else { (Way::Back, Way::Forward) };
        let frame =
            |way, numbers, flags| (way, self.frame(way, numbers, flags, None, false, Ecn::NotEct, bytes));
        (self.stack == Stack::Tcp).then(|| [frame(asks, [0, 0], SYN), frame(answers, [first, 1], SYN | ACK)])
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of a header")]
    fn frame(
        &self,
        way: Way,
        [seq, ack]: [u32; 2],
        flags: u8,
        block: Option<[u32; 2]>,
        spin: bool,
        ecn: Ecn,
        wire_bytes: u32,
    ) -> ParsedPacket {
        let down = way == Way::Forward;
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
                if let Some([from, to]) = block {
                    // In the place of timestamps, so that the header stays as long as the simulator counts it.
                    l4[20..24].copy_from_slice(&[NOP, NOP, SACK, 10]);
                    l4[24..28].copy_from_slice(&from.to_be_bytes());
                    l4[28..32].copy_from_slice(&to.to_be_bytes());
                }
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
    use weir_core::Ecn;
    use weir_law::Kind;
    use weir_sim::{Carried, Way};

    use super::{Stack, Wire};

    #[test]
    fn the_parser_reads_what_was_written() {
        let data = Carried {
            offset: 1448,
            payload: 1448,
            wire_bytes: 1514,
            segments: 1,
            ecn: Ecn::Ect0,
            spin: true,
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
            let tcp = Wire::new(Stack::Tcp, up, 20_000, 3);
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
            assert_eq!((sack.payload_bytes().0, ack.tcp().unwrap().sack_right), (0, None));
            let [(asks, syn), (answers, both)] = tcp.handshake(0).unwrap();
            assert!(syn.tcp().unwrap().syn() && !syn.tcp().unwrap().has_ack());
            assert!(both.tcp().unwrap().syn() && both.tcp().unwrap().has_ack());
            assert_eq!((asks, answers), (turn(answer).way, turn(data).way));
            let quic = Wire::new(Stack::Quic, up, 20_000, 3);
            let packet = quic.packet(&turn(Carried { wire_bytes: 1494, ..data }));
            assert_eq!(packet.kind(), Kind::Quic);
            assert_eq!(packet.quic().and_then(|quic| quic.spin), Some(true));
            assert_eq!(Wire::new(Stack::Udp, up, 20_000, 3).packet(&turn(data)).kind(), Kind::Udp);
        }
    }
}
