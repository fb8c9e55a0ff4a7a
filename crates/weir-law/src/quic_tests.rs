//! SpinTrap: edges of the spin bit, long headers, look-alikes, new connections.

use weir_core::{Bytes, QueueChoice};

use crate::law_testing::{Bench, comsys, paper};
use crate::testing::{CLIENT, SERVER, ethernet, ipv4, ipv6, long, opening, tagged, udp};
use crate::{Direction, Params, ParsedPacket, Preset, Signal, Start, parse};

fn datagram(parts: &[&[u8]]) -> ParsedPacket {
    parse(&ethernet(0x0800, &ipv4(17, 0, &udp(443, 50_000, &parts.concat()))), Start::Ethernet)
}

fn from_client(parts: &[&[u8]]) -> ParsedPacket {
    let mut packet = ipv4(17, 0, &udp(50_000, 443, &parts.concat()));
    packet[12..16].copy_from_slice(&CLIENT);
    packet[16..20].copy_from_slice(&SERVER);
    parse(&packet, Start::Ip)
}

#[test]
fn debounce() {
    const SPINS: [u8; 18] = [0, 0, 1, 0, 0, 1, 1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 1, 1];
    let edges = |params: Params, spin_debounce| {
        let mut bench = Bench::new(Params { spin_debounce, ..params });
        for spin in SPINS {
            bench.quic(spin == 1, 50);
        }
        bench.ended()
    };
    assert_eq!([1, 2, 3].map(|t| edges(comsys(), t)), [9, 4, 2], "the prototype's pattern");
    assert_eq!([1, 2, 3].map(|t| edges(paper(), t)), [9, 3, 2], "0 0 1 0 0 is no edge");
    assert_eq!(edges(Params { spin_from_accepted: false, ..paper() }, 2), 4);
    assert_eq!(edges(Params { spin_from_accepted: true, ..comsys() }, 2), 3);
    assert_eq!([16, 0].map(|t| edges(comsys(), t)), [0, 9], "out of range is clamped");
    assert_eq!(edges(comsys(), 255), 0);
}

#[test]
fn constant_spin() {
    let edges = |params, spin| {
        let mut bench = Bench::new(params);
        for _ in 0..10 {
            bench.quic(spin, 50);
        }
        bench.ended()
    };
    assert_eq!((edges(paper(), true), edges(paper(), false)), (0, 0));
    assert_eq!((edges(comsys(), true), edges(comsys(), false)), (1, 0), "one false edge");
    assert_eq!(edges(Params { first_spin_counts: true, ..comsys() }, true), 0);
    assert_eq!(edges(Params { first_spin_counts: false, ..paper() }, true), 1);
}

#[test]
fn the_packet_with_the_edge_is_the_first_of_the_new_cycle() {
    for params in [paper(), comsys()] {
        let mut bench = Bench::new(params);
        bench.quic(false, 1000);
        bench.quic(false, 1000);
        assert_eq!(bench.quic(true, 500).cycle.0, 1);
        assert_eq!(bench.heard.cycles[0].window, Bytes(2000));
        assert_eq!(bench.heard.cycles[0].packets, 2);
        assert_eq!(bench.view().windows[0], Bytes(500));
    }
}

#[test]
fn coalesced_short_headers() {
    let handshake = long(1, 2, None, 40);
    let edges = |params, first: u8| {
        let mut bench = Bench::new(params);
        // Bit 0x10 of the first short header is set: the prototype takes it for the starting spin.
        bench.packet(&datagram(&[&handshake, &[first; 30]]), Direction::Forward);
        bench.quic(false, 100);
        bench.quic(false, 100);
        let window =
            bench.view().windows[0].0 + bench.heard.cycles.iter().map(|end| end.window.0).sum::<u64>();
        (bench.ended(), window)
    };
    let whole = handshake.len() as u64 + 30;
    assert_eq!(edges(paper(), 0x40), (0, whole + 200));
    assert_eq!(edges(paper(), 0x60), (1, whole + 200), "spin 1 is read behind the long header");
    assert_eq!(edges(Params { coalesced_spin: false, ..paper() }, 0x60), (0, whole + 200));
    assert_eq!(edges(comsys(), 0x40), (0, 230), "only the short part counts");
    assert_eq!(edges(comsys(), 0x60), (0, 230));
    assert_eq!(edges(comsys(), 0x50), (1, 230), "a false edge from a scrambled bit");
    assert_eq!(edges(Params { long_header_counts: true, ..comsys() }, 0x40), (0, whole + 200));
}

#[test]
fn long_headers_of_a_responsive_flow() {
    let initial = long(1, 2, None, 400);
    let run = |params: Params| {
        let mut bench = Bench::new(Params { skip_first_cycle: false, ..params });
        bench.quic(false, 100);
        bench.windows(&[20_000, 10_000, 10_001, 1_000], Signal::Loss, &[20_000]);
        assert_eq!(bench.choice(), QueueChoice::Responsive);
        let stamp = bench.packet(&datagram(&[&initial]), Direction::Forward).1;
        (stamp.choice, bench.view().windows[0].0 > 1_000)
    };
    assert_eq!(run(paper()), (QueueChoice::Responsive, true));
    assert_eq!(run(comsys()), (QueueChoice::Standard, false));
    assert_eq!(run(Params { long_header_counts: true, ..comsys() }), (QueueChoice::Responsive, true));
    // Alone it makes an entry in the paper's law only.
    for (params, flows) in [(paper(), 1), (comsys(), 0)] {
        let mut bench = Bench::new(params);
        bench.packet(&datagram(&[&initial]), Direction::Forward);
        assert_eq!((bench.law.len(), bench.law.counters().excluded), (flows, 1 - flows as u64));
    }
}

#[test]
fn look_alikes_need_an_initial() {
    let edges = |params, initial: bool| {
        let mut bench = Bench::new(params);
        if initial {
            bench.packet(&from_client(&[&long(1, 0, Some(&[]), 1100)]), Direction::Reverse);
        }
        for spin in [false, true, false, true] {
            bench.quic(spin, 100);
        }
        (bench.ended(), bench.view().quic_initial)
    };
    assert_eq!(edges(paper(), false), (3, false));
    let strict = Params { quic_needs_initial: true, ..paper() };
    assert_eq!((edges(strict, false), edges(strict, true)), ((0, false), (3, true)));
    // UDP without the fixed bit is a flow of no cycles; the prototype does not see it.
    for (params, flows) in [(paper(), 1), (comsys(), 0)] {
        let mut bench = Bench::new(params);
        for byte in [0x00, 0x20, 0x00] {
            bench.packet(&datagram(&[&[byte; 50]]), Direction::Forward);
        }
        assert_eq!((bench.law.len(), bench.ended()), (flows, 0));
    }
}

/// Ends that agreed to it set the fixed bit at random (RFC 9287). A flow that does has the cycles of one that does not.
#[test]
fn a_greased_bit_hides_no_edge() {
    let cycles = |params: Params, greased: bool| {
        let mut bench = Bench::new(params);
        for packet in 0u32..200 {
            // Both ends begin with the fixed bit; the other direction's edge is between two of this one's.
            let chance = packet.wrapping_mul(0x9e37_79b9) >> 24;
            let fixed = if greased && packet > 4 { 0x40 & chance as u8 } else { 0x40 };
            let first = |spin: u32| fixed | (spin as u8 & 1) << 5 | (4 + chance as u8 % 28);
            bench.packet(&from_client(&[&[first((packet + 5) / 10); 40]]), Direction::Reverse);
            bench.packet(&opening(first(packet / 10), 900 + chance as usize), Direction::Forward);
        }
        bench.heard.cycles
    };
    let robust = Params::preset(Preset::Robust);
    assert!(robust.spin_needs_reverse);
    for params in [robust, paper()] {
        assert_eq!(cycles(params, false).len(), 19);
        assert_eq!(cycles(params, true), cycles(params, false));
    }
}

#[test]
fn what_shares_quics_ports_turns_no_edge() {
    let mut bench = Bench::new(paper());
    for _ in 0..3 {
        bench.quic(true, 500);
        // STUN (RFC 9443), then RTP.
        bench.packet(&opening(0x01, 100), Direction::Forward);
        bench.packet(&opening(0x80, 100), Direction::Forward);
    }
    assert_eq!((bench.ended(), bench.view().windows[0]), (0, Bytes(3 * 700)));
}

#[test]
fn udp_on_the_ports_of_a_tcp_flow_leaves_its_registers_alone() {
    let heard = |udp: bool| {
        let mut bench = Bench::new(Params { full_parser: true, ..comsys() });
        for segment in 0..40 {
            bench.fwd(1000 + segment * 1000, 1, 1000);
            bench.rev(1, 2000 + segment * 1000, 0);
            if udp {
                for first in [0x24, 0x04] {
                    bench.packet(&opening(first, 1), Direction::Forward);
                    bench.packet(&from_client(&[&[first]]), Direction::Reverse);
                }
            }
        }
        bench.heard.cycles.iter().map(|end| end.cycle).collect::<Vec<_>>()
    };
    assert!(heard(false).len() > 10);
    assert_eq!(heard(true), heard(false));
}

#[test]
fn frame_bytes_less_42() {
    let window = |params: Params, packet: &ParsedPacket| {
        let mut bench = Bench::new(Params { full_parser: true, ..params });
        bench.packet(packet, Direction::Forward);
        bench.view().windows[0].0
    };
    let bytes = [0x40; 100];
    let v4 = ethernet(0x0800, &ipv4(17, 0, &udp(443, 50_000, &bytes)));
    let v6 = parse(&ethernet(0x86dd, &ipv6(17, 0, &udp(443, 50_000, &bytes))), Start::Ethernet);
    let vlan = parse(&tagged(v4.clone(), 0x8100, 3), Start::Ethernet);
    let v4 = parse(&v4, Start::Ethernet);
    assert_eq!([&v4, &v6, &vlan].map(|packet| window(paper(), packet)), [100, 100, 100]);
    assert_eq!([&v4, &v6, &vlan].map(|packet| window(comsys(), packet)), [100, 120, 104]);
    let payload = Params { udp_bytes_from_frame: false, ..comsys() };
    assert_eq!(window(payload, &v6), 100);
}

#[test]
fn a_new_initial_starts_afresh() {
    let run = |params: Params| {
        let mut bench = Bench::new(params);
        let initial = long(1, 0, Some(&[]), 1100);
        bench.packet(&from_client(&[&initial]), Direction::Reverse);
        bench.packet(&datagram(&[&initial, &[0x40; 30]]), Direction::Forward);
        bench.packet(&from_client(&[&initial]), Direction::Reverse);
        assert_eq!(bench.law.counters().reopened, 0, "still one handshake");
        bench.packet(&from_client(&[&[0x40; 30]]), Direction::Reverse);
        bench.windows(&[20_000, 10_000, 10_001, 10_002], Signal::Loss, &[20_000]);
        let stamp = bench.cycle(9_000, &[]);
        assert_eq!(stamp.choice, QueueChoice::Responsive);
        bench.packet(&from_client(&[&initial]), Direction::Reverse);
        assert_eq!(bench.law.counters().reopened, 0, "the server has not answered");
        bench.packet(&datagram(&[&initial, &[0x40; 30]]), Direction::Forward);
        bench.signal(stamp.cycle, Signal::Loss, 1);
        let view = bench.view();
        (
            bench.law.counters().reopened,
            view.choice,
            view.cycles,
            view.votes.loss.responsive,
            view.late_signals,
        )
    };
    assert_eq!(run(paper()), (1, QueueChoice::Standard, 0, 0, 1));
    let (reopened, choice, cycles, responsive, late) = run(Params { reset_on_open: false, ..paper() });
    assert_eq!((reopened, choice, responsive, late), (0, QueueChoice::Responsive, 1, 0));
    assert!(cycles > 4);
}
