//! Packets that are no ordinary ones: fragments, sizes from jumbo frames to super-packets, headers cut at every length,
//! tags and extension headers, and random bytes.

use weir_core::{Bytes, QueueChoice, Seed};
use weir_kernel::TestPacket;
use weir_law::Direction;
use weir_law::live::LiveCounters;

use super::pair::{Pair, SHORTEST};
use super::{LiveFlow, ROUND, Signal, ethernet, headers, known, table};
use weir_testkit::traffic::attacks::{FORWARD, REVERSE, START, peer};
use weir_testkit::traffic::{
    ACK, Carrier, Frame, Peer, SEGMENT, Table, end, initial_frame, quic_frame, tcp_frame,
};

const NOW: u64 = START.as_nanos() + 1_000_000_000;

fn v6_peer(number: u32) -> Peer {
    Peer::new(Carrier::Tcp, end(true, number, 443), end(true, 0x20_0000 + number, 50_000))
}

/// Puts an extension header between an IPv6 header and what follows; the header's first octet becomes what follows.
fn extended((packet, wire): &Frame, kind: u8, header: &[u8]) -> Frame {
    let mut out = packet.clone();
    let length = u16::from_be_bytes([out[4], out[5]]) + header.len() as u16;
    out[4..6].copy_from_slice(&length.to_be_bytes());
    let follows = std::mem::replace(&mut out[6], kind);
    out.splice(40..40, header.iter().copied());
    out[40] = follows;
    (out, wire + header.len() as u32)
}

/// A fragment of a packet: its offset in units of eight octets, and whether more follow.
fn fragment(frame: &Frame, offset: u16, more: bool) -> Frame {
    let mut frame = frame.clone();
    if frame.0[0] >> 4 == 4 {
        let field = (u16::from(more) << 13 | offset).to_be_bytes();
        frame.0[6..8].copy_from_slice(&field);
        return frame;
    }
    let field = (offset << 3 | u16::from(more)).to_be_bytes();
    extended(&frame, 44, &[0, 0, field[0], field[1], 0, 0, 0, 7])
}

#[test]
fn fragments_are_not_judged_and_leave_no_trace() {
    let Some(mut pair) = table(64) else { return };
    let mut count = 0;
    let mut now = START;
    let mut peers = [peer(Carrier::Tcp, 1), peer(Carrier::Quic, 2), v6_peer(3)];
    for one in &mut peers {
        now = one.earn(&mut pair, now, ROUND);
        let before = known(&pair, one).unwrap();
        let (forward, reverse) = (one.data_frame(1400), one.answer_frame());
        for (offset, more) in [(0, true), (100, true), (175, false)] {
            let piece = fragment(&forward, offset, more);
            let found = pair.arrive(&piece, FORWARD, now);
            assert_eq!((found.known, found.choice), (false, QueueChoice::Standard));
            pair.tell(&piece, found.cycle, Signal::Loss, 1);
            pair.arrive(&fragment(&reverse, offset, more), REVERSE, now);
            count += 1;
        }
        assert_eq!(known(&pair, one), Some(before), "nothing of it moved");
        assert_eq!(pair.arrive(&one.data_frame(1400), FORWARD, now).choice, QueueChoice::Responsive);
    }
    let counters = pair.counters();
    assert_eq!((counters.ambiguous, counters.unowned_signals), (2 * count, count));
    // What is whole although it looks like one: a packet that must not be fragmented, and an atomic fragment (RFC
    // 6946).
    let mut whole = peers[0].data_frame(1400);
    whole.0[6] = 0x40;
    assert_eq!(pair.arrive(&whole, FORWARD, now).choice, QueueChoice::Responsive);
    let atomic = fragment(&peers[2].data_frame(1400), 0, false);
    assert_eq!(pair.arrive(&atomic, FORWARD, now).choice, QueueChoice::Responsive);
    // A flood of pieces of flows that nobody knows.
    for number in 0..5000 {
        let other = peer(Carrier::Quic, 1000 + number).data_frame(1400);
        for piece in [fragment(&other, 0, true), fragment(&other, 100, false)] {
            pair.arrive(&piece, FORWARD, now);
            pair.arrive(&piece, REVERSE, now);
        }
    }
    assert_eq!((pair.flows().len(), pair.candidates().0), (3, 0));
    pair.compare("fragments");
}

#[test]
fn large_packets_count_in_full() {
    let Some(mut pair) = table(64) else { return };
    for (number, mut one) in [peer(Carrier::Tcp, 1), v6_peer(2)].into_iter().enumerate() {
        one.cycle(&mut pair, 5 * SEGMENT, SEGMENT, &[], START);
        one.cycle(&mut pair, 1000, SEGMENT, &[], START);
        // More than Ethernet's MTU; super-packets; one that has no length, as with BIG TCP, so that its frame's counts.
        // A test run takes no frame beyond a page. kernel_large.rs has those that are larger.
        let headers = if number == 0 { 54 } else { 74 };
        for (payload, packets, segments, told) in
            [(3000, 3, 1, true), (2 * SEGMENT, 2, 2, true), (3500 - headers, 1, 3, false)]
        {
            for _ in 0..packets {
                let mut data = one.data_frame(payload);
                let mut frame = ethernet(&data);
                if !told {
                    let length = if number == 0 { 2..4 } else { 4..6 };
                    data.0[length].fill(0);
                    frame = ethernet(&data);
                }
                let segment_bytes = if segments > 1 { SEGMENT } else { 0 };
                let time = START.as_nanos();
                let packet =
                    TestPacket { frame: &frame, time, segments, segment_bytes, ..TestPacket::default() };
                let found = pair.packet_of(&packet, FORWARD).unwrap();
                pair.signal(&frame, found.cycle.0, Signal::Loss, segments as u16);
            }
            pair.arrive(&one.answer_frame(), REVERSE, START);
            let flow = known(&pair, &one).unwrap();
            assert_eq!(flow.windows[0], Bytes(u64::from(payload * packets)), "{flow:?}");
            assert_eq!(flow.signals.loss[0], segments * packets, "{flow:?}");
        }
    }
    assert_eq!(pair.counters().loss_segments, 2 * (3 + 4 + 3));
    pair.compare("large");
}

/// An Ethernet frame whose IP packet stands behind `tags`, which end with its type or PPP protocol.
fn behind(tags: &[u8], (packet, _): &Frame) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(tags);
    frame.extend(packet);
    frame
}

const VLAN: [u8; 6] = [0x81, 0, 0, 5, 8, 0];
const QINQ_V6: [u8; 10] = [0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x86, 0xdd];
const PPPOE: [u8; 10] = [0x88, 0x64, 0x11, 0, 0, 1, 5, 0, 0, 0x21];
const PPPOE_V6: [u8; 10] = [0x88, 0x64, 0x11, 0, 0, 1, 5, 0, 0, 0x57];

/// One frame of each kind of header chain, and the length from which on its flow is recognised; `None` if at none.
fn chains() -> Vec<(&'static str, Vec<u8>, Option<usize>)> {
    let v4 = peer(Carrier::Tcp, 1).data_frame(SEGMENT);
    let v6 = v6_peer(2).data_frame(SEGMENT);
    let udp = |one: Peer| quic_frame(one.from, one.to, true, 1200);
    let datagram = udp(peer(Carrier::Quic, 3));
    // An Initial of connection IDs and a token, in front of a short header.
    let (from, to) = (end(false, 3, 443), end(false, 0x20_0003, 50_000));
    let mut coalesced = initial_frame(from, to, 300);
    coalesced.0[43..45].copy_from_slice(&[0x40, 20]);
    coalesced.0.extend([7; 20]);
    coalesced.0.extend([0x60; 40]);
    // Timestamps and three SACK blocks fill the 40 octets.
    let mut options = tcp_frame(from, to, (1, 1), ACK, 0);
    options.0[32] = 0xf0;
    options.0[2..4].copy_from_slice(&60u16.wrapping_add(20).to_be_bytes());
    options.0.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1, 5, 26]);
    options.0.extend([9; 24]);
    let mut with_ip_options = v4.clone();
    with_ip_options.0[0] = 0x46;
    with_ip_options.0.splice(20..20, [1, 1, 1, 0]);
    let padding = [0, 0, 1, 4, 0, 0, 0, 0];
    let long = [0, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let chained = extended(&extended(&extended(&v6, 60, &padding), 43, &long), 0, &padding);
    let mut endless = v6.clone();
    for _ in 0..8 {
        endless = extended(&endless, 60, &padding);
    }
    // More than the packet has.
    let overlong = extended(&v6, 60, &[0, 255, 1, 4, 0, 0, 0, 0]);
    vec![
        ("IPv4 TCP", headers(&v4), Some(14 + 40)),
        ("IPv6 TCP", headers(&v6), Some(14 + 60)),
        ("QUIC", headers(&datagram), Some(14 + 28)),
        ("IP options", headers(&with_ip_options), Some(14 + 44)),
        ("TCP options", headers(&options), Some(14 + 40)),
        ("VLAN", behind(&VLAN, &v4), Some(18 + 40)),
        ("VLAN, coalesced", behind(&VLAN, &coalesced), Some(18 + 28)),
        ("QinQ, IPv6", behind(&QINQ_V6, &v6), Some(22 + 60)),
        ("PPPoE", behind(&PPPOE, &datagram), Some(22 + 28)),
        ("PPPoE, IPv6", behind(&PPPOE_V6, &v6), Some(22 + 60)),
        ("extension headers", behind(&QINQ_V6, &chained), Some(22 + 40 + 32 + 20)),
        ("eight extension headers", behind(&QINQ_V6, &endless), None),
        ("overlong extension header", behind(&QINQ_V6, &overlong), None),
        (
            "PPPoE, another code",
            [&behind(&PPPOE, &v4)[..15], &[9], &behind(&PPPOE, &v4)[16..]].concat(),
            None,
        ),
    ]
}

/// Packets of both directions that were recognised as TCP or UDP.
fn told(pair: &Pair) -> u64 {
    let counters = pair.counters();
    counters.tcp.packets + counters.quic.packets + counters.udp.packets
}

#[test]
fn headers_cut_at_every_length_harm_nothing() {
    let Some(mut pair) = table(64) else { return };
    let mut bystander = peer(Carrier::Tcp, 50);
    bystander.earn(&mut pair, START, ROUND);
    let before = known(&pair, &bystander).unwrap();
    for (name, frame, whole) in chains() {
        for length in 14..=frame.len() {
            let cut = &frame[..length];
            let mut taken = true;
            for direction in [FORWARD, REVERSE] {
                let (count, cut_before) = (told(&pair), pair.counters().truncated.packets);
                if pair.packet(cut, direction, NOW).is_none() {
                    let ip = 14 + if frame[12] == 8 { 20 } else { 40 };
                    let plain = matches!(frame[12..14], [8, 0] | [0x86, 0xdd]);
                    assert!(plain && length < ip.min(SHORTEST), "{name}: refused {length}");
                    taken = false;
                    continue;
                }
                let is_told = whole.is_some_and(|whole| length >= whole);
                assert_eq!(told(&pair) - count, u64::from(is_told), "{name} {length} {direction:?}");
                if whole.is_some() && !is_told && length > 22 {
                    assert_eq!(
                        pair.counters().truncated.packets,
                        cut_before + 1,
                        "{name} {length}: cut short"
                    );
                }
            }
            // A signal on what is cut short finds no flow, or its own.
            if taken {
                pair.signal(cut, 0, Signal::Loss, 1);
            }
        }
        pair.compare(name);
    }
    assert_eq!(known(&pair, &bystander), Some(before));
}

/// Frames of random bytes, of which most begin as IP does so that they reach the headers behind.
#[test]
fn random_bytes_corrupt_nothing() {
    let Some(mut pair) = table(64) else { return };
    let mut random = Seed { seed: 1, run: 0 }.stream("bytes");
    let mut old = [peer(Carrier::Tcp, 1), peer(Carrier::Quic, 2)];
    for one in &mut old {
        one.earn(&mut pair, START, ROUND);
    }
    let before: Vec<LiveFlow> = old.iter().map(|one| known(&pair, one).unwrap()).collect();
    let starts: [&[u8]; 8] = [
        &[8, 0, 0x45, 0, 0, 200, 0, 0, 0, 0, 64, 6],
        &[8, 0, 0x45, 0, 0, 200, 0, 0, 0, 0, 64, 17],
        &[8, 0, 0x4f],
        &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 200, 6, 64],
        &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 200, 0, 64],
        &[0x81, 0, 0, 1, 0x88, 0x64, 0x11, 0, 0, 0, 0, 0, 0, 0x21, 0x45],
        &[0x81, 0, 0, 1, 0x86, 0xdd],
        &[],
    ];
    let mut taken = 0;
    for packet in 0..100_000u64 {
        let mut frame: Vec<u8> = (0..14 + random.below(200)).map(|_| random.next_u64() as u8).collect();
        let start = *random.choose(&starts).unwrap();
        let room = (frame.len() - 12).min(start.len());
        frame[12..12 + room].copy_from_slice(&start[..room]);
        let direction = if packet % 2 == 0 { Direction::Forward } else { Direction::Reverse };
        let found = pair.packet(&frame, direction, NOW + packet * 10_000);
        taken += u32::from(found.is_some());
        if packet % 100 == 0 && found.is_some() {
            pair.signal(&frame, random.next_u64() as u32, Signal::Mark, 1);
        }
        if packet % 5000 == 0 {
            pair.compare("random bytes");
        }
    }
    pair.compare("random bytes");
    let counters = pair.counters();
    println!("random bytes: {taken} frames, {counters:?}");
    let LiveCounters { tcp, quic, udp, other, not_ip, fragment, truncated, malformed, .. } = counters;
    let kinds = [tcp, quic, udp, other, not_ip, fragment, truncated, malformed];
    assert!(kinds.iter().all(|kind| kind.packets > 1000), "{counters:?}");
    assert!(taken > 80_000 && counters.ambiguous > 1000, "{counters:?}");
    assert_eq!((pair.flows().len(), counters.evicted), (2, 0));
    let after: Vec<LiveFlow> = old.iter().map(|one| known(&pair, one).unwrap()).collect();
    assert_eq!(after, before);
}
