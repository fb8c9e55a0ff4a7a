//! Ethernet frames for tests.
#![allow(dead_code)] // Each test file uses some of it.

use weir_core::Ecn;

fn ipv4(ecn: Ecn, protocol: u8, transport: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
    let mut header = vec![0x45, ecn.bits()];
    header.extend((20 + transport.len() as u16).to_be_bytes());
    header.extend([0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let checksum = !sum(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(header);
    frame.extend(transport);
    frame
}

fn sum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The sum over the IPv4 header: all ones if its checksum is right.
pub(crate) fn header_sum(frame: &[u8]) -> u16 {
    sum(&frame[14..34])
}

/// A UDP frame of `length` bytes from port 9000 to `port`; shorter than its headers it gets no shorter.
pub(crate) fn udp(port: u16, ecn: Ecn, length: usize) -> Vec<u8> {
    let payload = length.saturating_sub(42);
    let mut transport = 9000u16.to_be_bytes().to_vec();
    transport.extend(port.to_be_bytes());
    transport.extend((8 + payload as u16).to_be_bytes());
    transport.extend([0, 0]);
    transport.extend(vec![0; payload]);
    ipv4(ecn, 17, &transport)
}

/// A TCP segment with data from port `from` to port `to`.
pub(crate) fn tcp(from: u16, to: u16, sequence: u32, payload: usize) -> Vec<u8> {
    let mut transport = from.to_be_bytes().to_vec();
    transport.extend(to.to_be_bytes());
    transport.extend(sequence.to_be_bytes());
    transport.extend(1u32.to_be_bytes());
    transport.extend([0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    transport.extend(vec![0; payload]);
    ipv4(Ecn::Ect0, 6, &transport)
}
