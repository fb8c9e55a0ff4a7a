//! Parser vectors for each header case, with smoltcp's wire formats as an independent reader and writer.

use std::net::SocketAddr;

use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use smoltcp::wire;
use weir_core::{Bytes, Ecn};

use crate::testing::*;
use crate::{Kind, ParsedPacket, Quic, Start, parse, parse_cut, write_ce};

fn segment() -> Segment {
    Segment { ports: (443, 50_000), seq: 1000, ack: 77, flags: 0x18, options: vec![], payload: 100 }
}

fn eth4(payload: &[u8]) -> ParsedPacket {
    parse(&ethernet(0x0800, payload), Start::Ethernet)
}

#[test]
fn tcp_over_ipv4() {
    let packet = eth4(&ipv4(6, 0xb8 | 2, &tcp(&segment())));
    assert_eq!(packet.kind(), Kind::Tcp);
    assert_eq!(packet.source(), Some("192.0.2.1:443".parse().unwrap()));
    assert_eq!(packet.destination(), Some("198.51.100.7:50000".parse().unwrap()));
    assert_eq!((packet.ip_version(), packet.protocol()), (Some(4), 6));
    assert_eq!((packet.ecn(), packet.ecn_offset(), packet.l3_offset()), (Ecn::Ect0, Some(15), Some(14)));
    assert_eq!(
        (packet.ip_bytes(), packet.payload_bytes(), packet.l4_offset()),
        (Bytes(140), Bytes(100), Some(34))
    );
    let tcp = packet.tcp().unwrap();
    assert_eq!((tcp.seq, tcp.ack, tcp.flags, tcp.window), (1000, 77, 0x18, 0x2000));
    assert!(tcp.has_ack() && !tcp.syn() && !tcp.fin() && !tcp.rst());
    assert_eq!((tcp.timestamps, tcp.sack_right, packet.quic()), (None, None, None));
}

#[test]
fn both_directions_have_one_key() {
    let (there, back) = (forward(1, 1, 10), reverse(1, 1, 10));
    assert_eq!(there.flow_key(), back.flow_key());
    let key = there.flow_key().unwrap();
    assert_eq!(key.to_string(), "tcp 192.0.2.1:443 198.51.100.7:50000");
    assert_ne!(short(false, 10).flow_key(), there.flow_key());
    // One address on both ends: ports decide the order.
    let same = |from, to| {
        let mut bytes = ipv4(17, 0, &udp(from, to, &[0; 4]));
        bytes.copy_within(12..16, 16);
        parse(&bytes, Start::Ip).flow_key().unwrap()
    };
    assert_eq!(same(1, 2), same(2, 1));
    assert_eq!(same(1, 2).low.port(), 1);
}

#[test]
fn vlan_qinq_and_pppoe() {
    let inner = ethernet(0x0800, &ipv4(6, 1, &tcp(&segment())));
    let one = tagged(inner.clone(), 0x8100, 5);
    let two = tagged(one.clone(), 0x88a8, 6);
    let three = tagged(two.clone(), 0x88a8, 7);
    for (frame, offset) in [(&one, 19), (&two, 23)] {
        let packet = parse(frame, Start::Ethernet);
        assert_eq!((packet.kind(), packet.ecn_offset(), packet.ecn()), (Kind::Tcp, Some(offset), Ecn::Ect1));
    }
    assert_eq!(parse(&three, Start::Ethernet).kind(), Kind::NotIp);

    let pppoe = |code: u8, protocol: u16, packet: &[u8]| {
        let mut bytes = vec![0x11, code, 0, 1];
        bytes.extend(((packet.len() + 2) as u16).to_be_bytes());
        bytes.extend(protocol.to_be_bytes());
        bytes.extend(packet);
        ethernet(0x8864, &bytes)
    };
    let v4 = parse(&pppoe(0, 0x0021, &ipv4(6, 2, &tcp(&segment()))), Start::Ethernet);
    assert_eq!((v4.kind(), v4.ecn_offset()), (Kind::Tcp, Some(23)));
    let v6 = parse(&tagged(pppoe(0, 0x0057, &ipv6(6, 2, &tcp(&segment()))), 0x8100, 7), Start::Ethernet);
    assert_eq!((v6.kind(), v6.ecn_offset(), v6.ecn()), (Kind::Tcp, Some(27), Ecn::Ect0));
    assert_eq!(parse(&pppoe(0, 0xc021, &[0; 40]), Start::Ethernet).kind(), Kind::NotIp);
    assert_eq!(
        parse(&pppoe(0xa7, 0x0021, &ipv4(6, 2, &tcp(&segment()))), Start::Ethernet).kind(),
        Kind::NotIp
    );
    assert_eq!(parse(&ethernet(0x0806, &[0; 28]), Start::Ethernet).kind(), Kind::NotIp);
}

#[test]
fn bare_ip() {
    let v4 = ipv4(6, 3, &tcp(&segment()));
    let packet = parse(&v4, Start::Ip);
    assert_eq!((packet.kind(), packet.ecn_offset(), packet.ecn()), (Kind::Tcp, Some(1), Ecn::Ce));
    assert_eq!(parse(&ipv6(17, 0, &udp(1, 2, &[0; 9])), Start::Ip).kind(), Kind::Udp);
    assert_eq!(parse(&[0x50; 60], Start::Ip).kind(), Kind::NotIp);
    assert_eq!(parse(&[], Start::Ip).kind(), Kind::Truncated);
}

#[test]
fn ipv4_options_and_fragments() {
    let packet = eth4(&ipv4_options(6, 0, 0, &[1; 40], &tcp(&segment())));
    assert_eq!(
        (packet.kind(), packet.payload_bytes(), packet.l4_offset()),
        (Kind::Tcp, Bytes(100), Some(74))
    );
    let first = eth4(&ipv4_options(6, 0, 0x2000, &[], &tcp(&segment())));
    assert_eq!((first.kind(), first.is_first_fragment()), (Kind::Tcp, true));
    let later = eth4(&ipv4_options(6, 2, 0x2001, &[], &tcp(&segment())));
    assert_eq!((later.kind(), later.flow_key(), later.ecn()), (Kind::Fragment, None, Ecn::Ect0));
    assert!(!eth4(&ipv4_options(6, 0, 0x4000, &[], &tcp(&segment()))).is_first_fragment());
}

#[test]
fn ipv6_extension_headers() {
    let tcp = tcp(&segment());
    let chain = |types: &[u8], last: u8| {
        let mut bytes = Vec::new();
        for (i, _) in types.iter().enumerate() {
            bytes.extend([*types.get(i + 1).unwrap_or(&last), 0, 0, 0, 0, 0, 0, 0]);
        }
        bytes.extend(&tcp);
        parse(&ethernet(0x86dd, &ipv6(*types.first().unwrap_or(&last), 0, &bytes)), Start::Ethernet)
    };
    for types in [&[][..], &[0], &[0, 60, 43, 60], &[44], &[0, 43, 44, 60, 60]] {
        let packet = chain(types, 6);
        assert_eq!((packet.kind(), packet.payload_bytes()), (Kind::Tcp, Bytes(100)), "{types:?}");
        assert_eq!(packet.l4_offset(), Some(54 + 8 * types.len()));
    }
    assert_eq!(packet_source(&chain(&[], 6)), "[2001:db8::1]:443");
    assert_eq!(chain(&[0, 60, 60, 60, 60, 60, 60], 6).kind(), Kind::Other);
    assert_eq!(chain(&[0], 59).kind(), Kind::Other);
    assert_eq!(chain(&[], 58).kind(), Kind::Other);
    // A longer header, then one that claims more than the packet has.
    let mut long = vec![6, 1];
    long.resize(16, 0);
    long.extend(&tcp);
    assert_eq!(parse(&ipv6(60, 0, &long), Start::Ip).payload_bytes(), Bytes(100));
    long[1] = 255;
    assert_eq!(parse(&ipv6(60, 0, &long), Start::Ip).kind(), Kind::Malformed);
    // Fragment header with an offset, and with only "more" set.
    let mut fragment = vec![6, 0, 0, 8, 0, 0, 0, 1];
    fragment.extend(&tcp);
    assert_eq!(parse(&ipv6(44, 0, &fragment), Start::Ip).kind(), Kind::Fragment);
    fragment[3] = 1;
    let first = parse(&ipv6(44, 0, &fragment), Start::Ip);
    assert_eq!((first.kind(), first.is_first_fragment()), (Kind::Tcp, true));
}

fn packet_source(packet: &ParsedPacket) -> String {
    packet.source().map(|source: SocketAddr| source.to_string()).unwrap_or_default()
}

#[test]
fn tcp_options() {
    let with = |options: &[u8]| {
        let segment = Segment { options: options.to_vec(), ..segment() };
        eth4(&ipv4(6, 0, &tcp(&segment))).tcp().unwrap()
    };
    let ts = [1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 5];
    assert_eq!(with(&ts).timestamps, Some((9, 5)));
    // Two blocks, the second reaches further; then a D-SACK block below the acknowledgement, which does not count.
    let block = |left: u32, right: u32| [left.to_be_bytes(), right.to_be_bytes()].concat();
    let sack = |blocks: &[Vec<u8>]| [vec![1, 1, 5, 2 + 8 * blocks.len() as u8], blocks.concat()].concat();
    assert_eq!(with(&sack(&[block(100, 200), block(300, 400)])).sack_right, Some(400));
    assert_eq!(with(&sack(&[block(20, 40), block(100, 200)])).sack_right, Some(200));
    assert_eq!(with(&sack(&[block(100, 200), block(20, 40)])).sack_right, Some(200));
    let wrapped = Segment {
        ack: u32::MAX - 10,
        options: sack(&[block(5, 9), block(u32::MAX - 5, u32::MAX)]),
        ..segment()
    };
    assert_eq!(eth4(&ipv4(6, 0, &tcp(&wrapped))).tcp().unwrap().sack_right, Some(9));
    let both = [ts.to_vec(), sack(&[block(100, 200), block(300, 500), block(600, 700)])].concat();
    assert_eq!((with(&both).timestamps, with(&both).sack_right), (Some((9, 5)), Some(700)));
    // Lies: lengths of 0 and beyond the header, an end before the timestamps.
    assert_eq!(with(&[8, 0, 0, 0]).timestamps, None);
    assert_eq!(with(&[8, 10, 0, 0]).timestamps, None);
    assert_eq!(with(&[5, 34, 0, 0]).sack_right, None);
    assert_eq!(with(&[&[0, 0, 0, 0], &ts[..]].concat()).timestamps, None);
    assert_eq!(with(&[1; 40]).timestamps, None);
}

#[test]
fn header_lies() {
    let good = ethernet(0x0800, &ipv4(6, 0, &tcp(&segment())));
    let lie = |offset: usize, value: u8| {
        let mut frame = good.clone();
        frame[offset] = value;
        parse(&frame, Start::Ethernet).kind()
    };
    assert_eq!(lie(14, 0x44), Kind::Malformed, "ihl 4");
    assert_eq!(lie(14, 0x65), Kind::Malformed, "version 6 under the type of 4");
    assert_eq!(lie(46, 0x40), Kind::Malformed, "data offset 4");
    let total = |bytes: u16| {
        let mut frame = good.clone();
        frame[16..18].copy_from_slice(&bytes.to_be_bytes());
        parse(&frame, Start::Ethernet)
    };
    assert_eq!(total(19).kind(), Kind::Malformed);
    assert_eq!(total(39).kind(), Kind::Malformed);
    assert_eq!((total(40).kind(), total(40).payload_bytes()), (Kind::Tcp, Bytes(0)));
    assert_eq!(lie(46, 0xf0), Kind::Tcp, "60 bytes of header are inside 140");
    let mut frame = good.clone();
    frame[16..18].copy_from_slice(&60u16.to_be_bytes());
    frame[46] = 0xf0;
    assert_eq!(parse(&frame, Start::Ethernet).kind(), Kind::Malformed, "60 bytes of header in 40");
    let mut short_udp = ipv4(17, 0, &udp(1, 2, &[0; 10]));
    short_udp[25] = 7;
    assert_eq!(parse(&short_udp, Start::Ip).kind(), Kind::Malformed);
    assert_eq!(parse(&ipv4(17, 0, &[0; 7]), Start::Ip).kind(), Kind::Malformed);
}

#[test]
fn super_packets_and_cut_frames() {
    let mut big = ethernet(0x0800, &ipv4(6, 0, &tcp(&Segment { payload: 100_000, ..segment() })));
    big[16..18].fill(0);
    assert_eq!(parse(&big, Start::Ethernet).payload_bytes(), Bytes(100_000));
    assert_eq!(parse_cut(&big[..96], big.len() as u32, Start::Ethernet).payload_bytes(), Bytes(100_000));
    let mut big6 = ipv6(6, 0, &tcp(&Segment { payload: 90_000, ..segment() }));
    big6[4..6].fill(0);
    assert_eq!(parse(&big6, Start::Ip).payload_bytes(), Bytes(90_000));
    // Cut by a snap length: lengths are those of the header, timestamps go, the segment stays.
    let full = ethernet(
        0x0800,
        &ipv4(6, 0, &tcp(&Segment { options: vec![1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 5], ..segment() })),
    );
    let cut = parse_cut(&full[..54], full.len() as u32, Start::Ethernet);
    assert_eq!(
        (cut.kind(), cut.payload_bytes(), cut.tcp().unwrap().timestamps),
        (Kind::Tcp, Bytes(100), None)
    );
    for length in 0..54 {
        let kind = parse(&full[..length], Start::Ethernet).kind();
        assert_eq!(kind, Kind::Truncated, "{length}");
    }
}

#[test]
fn no_length_is_believed_beyond_the_frame() {
    let (tcp, datagram) = (tcp(&Segment { payload: 6, ..segment() }), udp(443, 50_000, &[0x40; 18]));
    let tag = |frame: Vec<u8>| tagged(frame, 0x8100, 5);
    for (transport, header, protocol) in [(&tcp, 20, 6), (&datagram, 8, 17)] {
        let (v4, v6) = (ipv4(protocol, 0, transport), ipv6(protocol, 0, transport));
        for (frame, start, ip, fixed) in [
            (v4.clone(), Start::Ip, 0, 20),
            (ethernet(0x0800, &v4), Start::Ethernet, 14, 20),
            (tag(ethernet(0x0800, &v4)), Start::Ethernet, 18, 20),
            (v6.clone(), Start::Ip, 0, 40),
            (ethernet(0x86dd, &v6), Start::Ethernet, 14, 40),
            (tag(ethernet(0x86dd, &v6)), Start::Ethernet, 18, 40),
        ] {
            let payload = transport.len() - header;
            let says = |length: u16, udp_length: Option<u16>| {
                let mut frame = frame.clone();
                let at = ip + if fixed == 20 { 2 } else { 4 };
                frame[at..at + 2].copy_from_slice(&length.to_be_bytes());
                if let (17, Some(length)) = (protocol, udp_length) {
                    frame[ip + fixed + 4..][..2].copy_from_slice(&length.to_be_bytes());
                }
                frame
            };
            let lengths = |frame: &[u8], wire: usize| {
                let packet = parse_cut(frame, wire as u32, start);
                assert_eq!(packet.kind(), if protocol == 6 { Kind::Tcp } else { Kind::Quic });
                (packet.ip_bytes().0 as usize, packet.payload_bytes().0 as usize)
            };
            let whole = (fixed + header + payload, payload);
            let lie = says(u16::MAX, Some(u16::MAX));
            assert_eq!(lengths(&lie, lie.len()), whole, "{start:?} {ip} {fixed}");
            // A capture that cut what was as long; one byte less on the wire; a super-packet without a length.
            let outer = usize::from(u16::MAX) + if fixed == 20 { 0 } else { 40 };
            let all = (outer, outer - fixed - header);
            assert_eq!(lengths(&lie, ip + outer), all);
            assert_eq!(lengths(&lie, ip + outer - 1), (all.0 - 1, all.1 - 1));
            assert_eq!(lengths(&says(0, None), ip + 200_000), (200_000, 200_000 - fixed - header));
            // What pads a frame is not of the packet.
            assert_eq!(lengths(&[&frame[..], &[0; 30]].concat(), frame.len() + 30), whole);
            // A datagram that says less or more than its IP packet is as long as that: it was sent.
            for length in [8, u16::MAX] {
                assert_eq!(
                    lengths(
                        &says((whole.0 - if fixed == 20 { 0 } else { 40 }) as u16, Some(length)),
                        frame.len()
                    ),
                    whole
                );
            }
        }
    }
}

fn quic_of(payload: &[u8]) -> Option<Quic> {
    eth4(&ipv4(17, 0, &udp(443, 50_000, payload))).quic()
}

#[test]
fn quic_short_headers_and_look_alikes() {
    assert_eq!(short(true, 30).quic(), Some(Quic { long: false, initial: false, spin: Some(true) }));
    assert_eq!(short(false, 30).quic(), Some(Quic { long: false, initial: false, spin: Some(false) }));
    assert_eq!(quic_of(&[0x3f; 30]), None);
    assert_eq!(quic_of(&[]), None);
}

#[test]
fn quic_coalesced_packets() {
    let spun = [0x61, 1, 2, 3, 4, 5, 6, 7, 8, 9];
    let initial = long(1, 0, Some(&[7; 20]), 40);
    let handshake = long(1, 2, None, 60);
    let seen = |parts: &[&[u8]]| quic_of(&parts.concat()).unwrap();
    let spin = Some(true);
    assert_eq!(seen(&[&initial]), Quic { long: true, initial: true, spin: None });
    assert_eq!(seen(&[&initial, &handshake, &spun]), Quic { long: true, initial: true, spin });
    assert_eq!(seen(&[&handshake, &spun]), Quic { long: true, initial: false, spin });
    assert_eq!(seen(&[&long(1, 1, None, 30), &spun]), Quic { long: true, initial: false, spin });
    // Version 2 turns the types: Initial is 1, Retry 0.
    let v2 = 0x6b33_43cf;
    assert_eq!(seen(&[&long(v2, 1, Some(&[]), 40), &spun]), Quic { long: true, initial: true, spin });
    assert_eq!(seen(&[&long(v2, 0, None, 40), &spun]), Quic { long: true, initial: false, spin: None });
    // Unknown version, Version Negotiation, Retry and padding end the walk.
    for odd in [long(0xfaceb002, 0, Some(&[]), 40), long(0, 0, None, 40), long(1, 3, None, 40)] {
        assert_eq!(seen(&[&odd, &spun]), Quic { long: true, initial: false, spin: None });
    }
    assert_eq!(seen(&[&initial, &[0; 40], &spun]), Quic { long: true, initial: true, spin: None });
    // A connection ID that is too long, and lengths beyond the datagram.
    let mut lie = initial.clone();
    lie[5] = 21;
    assert_eq!(seen(&[&lie, &spun]).spin, None);
    assert_eq!(seen(&[&initial[..60], &[]]).spin, None);
    // More packets than are followed.
    assert_eq!(seen(&[&handshake, &handshake, &handshake, &spun]).spin, spin);
    assert_eq!(seen(&[&handshake, &handshake, &handshake, &handshake, &spun]).spin, None);
}

#[test]
fn ce_is_written_and_the_checksum_mended() {
    for tos in 0..=255u8 {
        let mut frame = ethernet(0x0800, &ipv4(6, tos, &tcp(&segment())));
        let before = frame.clone();
        let packet = parse(&frame, Start::Ethernet);
        let done = write_ce(&mut frame, &packet);
        assert_eq!(done, tos & 3 != 0);
        assert_eq!(checksum(&frame[14..34]), 0, "tos {tos}");
        assert_eq!(parse(&frame, Start::Ethernet).ecn().bits(), if done { 3 } else { 0 });
        if !done || tos & 3 == 3 {
            assert_eq!(frame, before);
        }
        let mut frame = ethernet(0x86dd, &ipv6(6, tos, &tcp(&segment())));
        let packet = parse(&frame, Start::Ethernet);
        assert_eq!(packet.ecn(), Ecn::from_bits(tos));
        assert_eq!(write_ce(&mut frame, &packet), tos & 3 != 0);
        let class = frame[14] << 4 | frame[15] >> 4;
        assert_eq!(class, if tos & 3 == 0 { tos } else { tos | 3 });
    }
    let packet = eth4(&ipv4(6, 2, &tcp(&segment())));
    assert!(!write_ce(&mut [0; 20], &packet), "too short to be that frame");
    assert!(!write_ce(&mut [0; 60], &parse(&[0; 60], Start::Ethernet)));
}

/// Frames written by smoltcp, or by hand where it has no writer, to be mutated.
fn valid_frames() -> impl Strategy<Value = (Vec<u8>, Start)> {
    let tcp_segment = (any::<u32>(), any::<u32>(), any::<u8>(), 0usize..1500, 0usize..3).prop_map(
        |(seq, ack, flags, payload, with)| {
            let options = match with {
                0 => vec![],
                1 => vec![1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 5],
                _ => vec![1, 1, 5, 18, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0],
            };
            (6, tcp(&Segment { ports: (443, 50_000), seq, ack, flags, options, payload }))
        },
    );
    let quic = (0usize..40, any::<bool>()).prop_map(|(rest, spin)| {
        let parts =
            [long(1, 0, Some(&[1; 5]), rest), long(1, 2, None, rest), vec![0x40 | u8::from(spin) << 5; 30]];
        (17, udp(443, 50_000, &parts.concat()))
    });
    let transport = prop_oneof![tcp_segment, quic, Just((1u8, vec![8; 40]))];
    (transport, any::<u8>(), 0usize..6).prop_map(|((protocol, bytes), tos, layers)| match layers {
        0 => (ipv4(protocol, tos, &bytes), Start::Ip),
        1 => (ethernet(0x0800, &ipv4_options(protocol, tos, 0, &[1; 8], &bytes)), Start::Ethernet),
        2 => (tagged(ethernet(0x0800, &ipv4(protocol, tos, &bytes)), 0x8100, 7), Start::Ethernet),
        3 => (ethernet(0x86dd, &ipv6(protocol, tos, &bytes)), Start::Ethernet),
        4 => {
            let chain = [vec![60, 0, 0, 0, 0, 0, 0, 0], vec![protocol, 0, 0, 0, 0, 0, 0, 0], bytes].concat();
            (ethernet(0x86dd, &ipv6(0, tos, &chain)), Start::Ethernet)
        }
        _ => (ethernet(0x0800, &ipv4(protocol, tos, &bytes)), Start::Ethernet),
    })
}

/// What must hold of any bytes whatever.
fn check_bounds(frame: &[u8], start: Start) {
    let packet = parse(frame, start);
    for offset in [packet.ecn_offset(), packet.l3_offset()].into_iter().flatten() {
        assert!(offset < frame.len());
    }
    if let Some(offset) = packet.l4_offset() {
        assert!(packet.flow_key().is_none() || offset + 8 <= frame.len());
    }
    assert!(packet.payload_bytes() <= packet.ip_bytes());
    assert_eq!(packet.flow_key().is_some(), matches!(packet.kind(), Kind::Tcp | Kind::Udp | Kind::Quic));
    let mut marked = frame.to_vec();
    if write_ce(&mut marked, &packet) {
        assert_eq!(parse(&marked, start).ecn(), Ecn::Ce);
    } else {
        assert_eq!(marked, frame);
    }
}

proptest! {
    #[test]
    fn random_bytes_stay_in_bounds(frame in proptest::collection::vec(any::<u8>(), 0..200), ip in any::<bool>()) {
        check_bounds(&frame, if ip { Start::Ip } else { Start::Ethernet });
    }

    #[test]
    fn mutated_frames_stay_in_bounds(
        (mut frame, start) in valid_frames(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<proptest::sample::Index>(),
    ) {
        check_bounds(&frame, start);
        for (at, value) in changes {
            let at = at.index(frame.len().min(120));
            frame[at] = value;
        }
        check_bounds(&frame, start);
        check_bounds(&frame[..cut.index(frame.len())], start);
    }

    /// Whatever smoltcp makes of a valid frame, we make of it too.
    #[test]
    fn smoltcp_agrees((frame, start) in valid_frames()) {
        let packet = parse(&frame, start);
        let mut ip = if start == Start::Ip { &frame[..] } else { wire::EthernetFrame::new_checked(&frame[..]).unwrap().payload() };
        if start == Start::Ethernet && frame[12..14] == [0x81, 0] {
            ip = &ip[4..];
        }
        let (source, destination, protocol, transport, tos);
        if ip[0] >> 4 == 4 {
            let v4 = wire::Ipv4Packet::new_checked(ip).unwrap();
            (source, destination) = (wire::IpAddress::from(v4.src_addr()), wire::IpAddress::from(v4.dst_addr()));
            (protocol, transport, tos) = (u8::from(v4.next_header()), v4.payload(), v4.ecn());
        } else {
            let v6 = wire::Ipv6Packet::new_checked(ip).unwrap();
            (source, destination) = (wire::IpAddress::from(v6.src_addr()), wire::IpAddress::from(v6.dst_addr()));
            let mut next = u8::from(v6.next_header());
            let mut at = 0;
            while next == 0 || next == 60 {
                let header = wire::Ipv6ExtHeader::new_checked(&v6.payload()[at..]).unwrap();
                next = u8::from(header.next_header());
                at += 8 + 8 * usize::from(header.header_len());
            }
            (protocol, transport, tos) = (next, &v6.payload()[at..], v6.traffic_class() & 3);
        }
        prop_assert_eq!(packet.protocol(), protocol);
        prop_assert_eq!(packet.ecn().bits(), tos);
        prop_assert_eq!(packet.ip_bytes().0 as usize, ip.len());
        let ends = |from: u16, to: u16| {
            (Some(SocketAddr::new(source.into(), from)), Some(SocketAddr::new(destination.into(), to)))
        };
        match protocol {
            6 => {
                let theirs = wire::TcpPacket::new_checked(transport).unwrap();
                let ours = packet.tcp().unwrap();
                prop_assert_eq!((packet.source(), packet.destination()), ends(theirs.src_port(), theirs.dst_port()));
                prop_assert_eq!(ours.seq as i32, theirs.seq_number().0);
                prop_assert_eq!(ours.ack as i32, theirs.ack_number().0);
                prop_assert_eq!((ours.syn(), ours.fin(), ours.rst(), ours.has_ack()),
                    (theirs.syn(), theirs.fin(), theirs.rst(), theirs.ack()));
                prop_assert_eq!(ours.window, theirs.window_len());
                prop_assert_eq!(packet.payload_bytes().0 as usize, theirs.payload().len());
                let mut options = theirs.options();
                let (mut stamps, mut sack) = (None, None);
                while !options.is_empty() {
                    let (rest, option) = wire::TcpOption::parse(options).unwrap();
                    match option {
                        wire::TcpOption::TimeStamp { tsval, tsecr } => stamps = Some((tsval, tsecr)),
                        wire::TcpOption::SackRange(ranges) => {
                            sack = ranges.iter().flatten().map(|range| range.1)
                                .max_by_key(|right| right.wrapping_sub(ours.ack) as i32);
                        }
                        wire::TcpOption::EndOfList => break,
                        _ => {}
                    }
                    options = rest;
                }
                prop_assert_eq!((ours.timestamps, ours.sack_right), (stamps, sack));
            }
            17 => {
                let theirs = wire::UdpPacket::new_checked(transport).unwrap();
                prop_assert_eq!((packet.source(), packet.destination()), ends(theirs.src_port(), theirs.dst_port()));
                prop_assert_eq!(packet.payload_bytes().0 as usize, theirs.payload().len());
                let quic = packet.quic().unwrap();
                prop_assert!(quic.long && quic.initial);
                prop_assert_eq!(quic.spin, Some(frame[frame.len() - 1] & 0x20 != 0));
            }
            _ => prop_assert_eq!(packet.kind(), Kind::Other),
        }
    }
}
