//! Frames of the flows that `weir bench law` measures with: TCP data and acknowledgements, QUIC, other UDP, and ICMP.

/// The addresses that the first server and the first client of a topology have.
const SERVER: [u8; 4] = [10, 77, 1, 1];
const CLIENT: [u8; 4] = [10, 77, 2, 1];

/// An Ethernet header and an IPv4 header.
pub(super) const ENVELOPE: usize = 14 + 20;

/// An Ethernet frame with an IPv4 packet that must not be fragmented, as Linux sends TCP. The transport's checksum is
/// left out.
fn frame(protocol: u8, from: [u8; 4], to: [u8; 4], transport: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let length = (20 + transport.len()) as u16;
    frame.extend([0x45, 0]);
    frame.extend(length.to_be_bytes());
    frame.extend([0, 1, 0x40, 0, 64, protocol, 0, 0]);
    frame.extend(from);
    frame.extend(to);
    let checksum = checksum(&frame[14..]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(transport);
    frame
}

/// The sum of 16-bit words in the order of the wire; an odd octet is the upper half of one.
pub(super) fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum()
}

/// The Internet checksum (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let sum = sum(header);
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

fn ports(from: u16, to: u16) -> Vec<u8> {
    [from.to_be_bytes(), to.to_be_bytes()].concat()
}

fn segment(from: u16, to: u16, seq: u32, ack: u32, payload: usize) -> Vec<u8> {
    let mut segment = ports(from, to);
    segment.extend(seq.to_be_bytes());
    segment.extend(ack.to_be_bytes());
    // 32 bytes of header, ACK; two NOPs and timestamps, as Linux sends them.
    segment.extend([0x80, 0x10, 0xff, 0xff, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1]);
    segment.resize(segment.len() + payload, 0);
    segment
}

fn datagram(from: u16, to: u16, first: u8) -> Vec<u8> {
    const PAYLOAD: u16 = 1200;
    let mut datagram = ports(from, to);
    datagram.extend((8 + PAYLOAD).to_be_bytes());
    datagram.extend([0, 0, first]);
    datagram.resize(usize::from(8 + PAYLOAD), 0);
    datagram
}

const SEGMENT: u16 = 1448;

pub(super) fn tcp(flow: u16) -> Vec<u8> {
    frame(6, SERVER, CLIENT, &segment(443, 40_000 + flow, 1, 1, SEGMENT.into()))
}

pub(super) fn tcp_ack(flow: u16) -> Vec<u8> {
    frame(6, CLIENT, SERVER, &segment(40_000 + flow, 443, 1, 1 + u32::from(SEGMENT), 0))
}

pub(super) fn quic(flow: u16) -> Vec<u8> {
    frame(17, SERVER, CLIENT, &datagram(443, 50_000 + flow, 0x40))
}

pub(super) fn quic_reverse(flow: u16) -> Vec<u8> {
    frame(17, CLIENT, SERVER, &datagram(50_000 + flow, 443, 0x40))
}

pub(super) fn udp(flow: u16) -> Vec<u8> {
    frame(17, SERVER, CLIENT, &datagram(5001, 50_000 + flow, 0x00))
}

pub(super) fn icmp(_: u16) -> Vec<u8> {
    frame(1, SERVER, CLIENT, &[0; 64])
}

#[cfg(test)]
mod tests {
    use weir_law::{Kind, Start, parse};

    use super::{ENVELOPE, checksum, icmp, quic, quic_reverse, tcp, tcp_ack, udp};

    #[test]
    fn frames_are_what_they_are_called() {
        for (frame, kind) in [
            (tcp(3), Kind::Tcp),
            (tcp_ack(3), Kind::Tcp),
            (quic(3), Kind::Quic),
            (quic_reverse(3), Kind::Quic),
            (udp(3), Kind::Udp),
            (icmp(3), Kind::Other),
        ] {
            assert_eq!(parse(&frame, Start::Ethernet).kind(), kind);
        }
    }

    #[test]
    fn routers_find_nothing_wrong_with_them() {
        assert_eq!(checksum(&tcp(3)[14..ENVELOPE]), 0);
        // The example of RFC 1071 section 3, whose sum is ddf2.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }
}
