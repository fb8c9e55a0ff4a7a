//! Frames built by hand for the tests.

use crate::{ParsedPacket, Start, parse};

pub(crate) const SERVER: [u8; 4] = [192, 0, 2, 1];
pub(crate) const CLIENT: [u8; 4] = [198, 51, 100, 7];
pub(crate) const SERVER6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
pub(crate) const CLIENT6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

pub(crate) fn ethernet(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Puts `tag` (TPID and TCI) between the addresses and the type of an Ethernet frame.
pub(crate) fn tagged(mut frame: Vec<u8>, tpid: u16, vlan: u16) -> Vec<u8> {
    let tag: Vec<u8> = tpid.to_be_bytes().into_iter().chain(vlan.to_be_bytes()).collect();
    frame.splice(12..12, tag);
    frame
}

pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    let sum: u32 =
        bytes.chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], *c.get(1).unwrap_or(&0)]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// An IPv4 packet from the server to the client; `options` are a multiple of four bytes.
pub(crate) fn ipv4_options(protocol: u8, tos: u8, fragment: u16, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let header = 20 + options.len();
    let mut packet = vec![0x40 | (header / 4) as u8, tos];
    packet.extend(((header + payload.len()) as u16).to_be_bytes());
    packet.extend([0x12, 0x34]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(SERVER);
    packet.extend(CLIENT);
    packet.extend(options);
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(payload);
    packet
}

pub(crate) fn ipv4(protocol: u8, tos: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_options(protocol, tos, 0, &[], payload)
}

pub(crate) fn ipv6(next: u8, class: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60 | class >> 4, class << 4, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend(SERVER6);
    packet.extend(CLIENT6);
    packet.extend(payload);
    packet
}

pub(crate) fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    datagram.extend(((8 + payload.len()) as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    datagram
}

/// What varies in a TCP segment of the tests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segment {
    pub(crate) ports: (u16, u16),
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    pub(crate) options: Vec<u8>,
    pub(crate) payload: usize,
}

pub(crate) fn tcp(segment: &Segment) -> Vec<u8> {
    let header = 20 + segment.options.len().next_multiple_of(4);
    let mut bytes = [segment.ports.0.to_be_bytes(), segment.ports.1.to_be_bytes()].concat();
    bytes.extend(segment.seq.to_be_bytes());
    bytes.extend(segment.ack.to_be_bytes());
    bytes.extend([(header as u8 / 4) << 4, segment.flags]);
    bytes.extend([0x20, 0, 0, 0, 0, 0]);
    bytes.extend(&segment.options);
    bytes.resize(header + segment.payload, 0);
    bytes
}

/// A segment from server port 443 to client port 50000, parsed; an ACK always.
pub(crate) fn forward(seq: u32, ack: u32, payload: usize) -> ParsedPacket {
    let segment = Segment { ports: (443, 50_000), seq, ack, flags: 0x10, options: vec![], payload };
    parse(&ethernet(0x0800, &ipv4(6, 0, &tcp(&segment))), Start::Ethernet)
}

/// A segment of the other direction.
pub(crate) fn reverse_with(segment: &Segment) -> ParsedPacket {
    let segment = Segment { ports: (50_000, 443), ..segment.clone() };
    let mut packet = ipv4(6, 0, &tcp(&segment));
    packet[12..16].copy_from_slice(&CLIENT);
    packet[16..20].copy_from_slice(&SERVER);
    parse(&packet, Start::Ip)
}

pub(crate) fn reverse(seq: u32, ack: u32, payload: usize) -> ParsedPacket {
    reverse_with(&Segment { seq, ack, flags: 0x10, payload, ..Segment::default() })
}

/// A short-header QUIC datagram from server port 443 with `payload` bytes of UDP payload.
pub(crate) fn short(spin: bool, payload: usize) -> ParsedPacket {
    opening(0x40 | u8::from(spin) << 5, payload)
}

/// The same with `first` as the first byte of `payload`.
pub(crate) fn opening(first: u8, payload: usize) -> ParsedPacket {
    let mut bytes = vec![0; payload];
    bytes[0] = first;
    parse(&ethernet(0x0800, &ipv4(17, 0, &udp(443, 50_000, &bytes))), Start::Ethernet)
}

/// A long-header packet of QUIC: `kind` are the type bits, `rest` what follows the length field.
pub(crate) fn long(version: u32, kind: u8, token: Option<&[u8]>, rest: usize) -> Vec<u8> {
    let mut bytes = vec![0xc0 | kind << 4];
    bytes.extend(version.to_be_bytes());
    bytes.extend([8, 1, 2, 3, 4, 5, 6, 7, 8, 4, 9, 9, 9, 9]);
    if let Some(token) = token {
        bytes.push(token.len() as u8);
        bytes.extend(token);
    }
    bytes.extend((0x4000 | rest as u16).to_be_bytes());
    bytes.resize(bytes.len() + rest, 0xaa);
    bytes
}
