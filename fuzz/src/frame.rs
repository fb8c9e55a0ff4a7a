//! One frame: the parser reads nothing behind it (the address sanitizer sees to that, the frame is a heap block of
//! its own length), what it tells is consistent, and the fast path reads the same or declines.

use weir_core::Ecn;
use weir_law::{Kind, ParsedPacket, Start, glance, parse_cut, write_ce};

/// The first octet chooses what comes first (bit 0: IP), and whether the wire had more (bits 1 to 5, of 2^n bytes).
pub(crate) fn run(input: &[u8]) {
    let Some((first, frame)) = input.split_first() else { return };
    let start = if first & 1 == 0 { Start::Ethernet } else { Start::Ip };
    let more = match first >> 1 & 0x1f {
        0 => 0,
        bits => 1u64 << bits,
    };
    let wire = u32::try_from(frame.len() as u64 + more).unwrap_or(u32::MAX);
    check(&frame.to_vec().into_boxed_slice(), wire, start);
}

/// Reads one frame both ways.
pub(crate) fn check(frame: &[u8], wire: u32, start: Start) -> ParsedPacket {
    let packet = parse_cut(frame, wire, start);
    if let Some(quick) = glance(frame, wire, start) {
        assert_eq!(quick, packet.as_glanced(&quick), "the fast path reads otherwise");
    }
    consistent(&packet, frame.len());
    let mut marked = frame.to_vec();
    if write_ce(&mut marked, &packet) {
        assert_eq!(parse_cut(&marked, wire, start).ecn(), Ecn::Ce, "a mark that does not show");
    } else {
        assert_eq!(marked, frame, "changed a packet that it did not mark");
    }
    packet
}

fn consistent(packet: &ParsedPacket, length: usize) {
    let inside = |at: Option<usize>, bytes: usize| at.is_none_or(|at| at + bytes <= length);
    assert!(inside(packet.l3_offset(), 20) && inside(packet.ecn_offset(), 1), "IP outside the frame");
    let has_ports = matches!(packet.kind(), Kind::Tcp | Kind::Udp | Kind::Quic);
    assert_eq!(packet.flow_key().is_some(), has_ports);
    assert_eq!(packet.tcp().is_some(), packet.kind() == Kind::Tcp);
    assert_eq!(packet.quic().is_some(), packet.kind() == Kind::Quic);
    assert!(packet.payload_bytes() <= packet.ip_bytes(), "more payload than packet");
    if has_ports {
        let transport = if packet.kind() == Kind::Tcp { 20 } else { 8 };
        assert!(
            packet.l4_offset().is_some() && inside(packet.l4_offset(), transport),
            "ports outside the frame"
        );
        let key = packet.flow_key();
        let ends = [packet.source(), packet.destination()];
        assert!(key.is_some_and(
            |key| ends == [Some(key.low), Some(key.high)] || ends == [Some(key.high), Some(key.low)]
        ));
    }
}
