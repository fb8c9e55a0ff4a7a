//! This kernel's verifier takes every program with every kind of settings. Prints what that cost it, and what a packet
//! costs: `cargo test --release -p weirnet-kernel --test kernel_verifier -- --nocapture`.

use weir_kernel::{LinkLayer, ProgramConfig, Programs, Role, TestPacket};
use weir_law::{Params, Preset};
use weir_testkit::skip::is_root;

/// The kernel's own limit (BPF_COMPLEXITY_LIMIT_INSNS, include/linux/bpf_verifier.h), with room for other versions.
const MOST_VERIFIED: u32 = 500_000;

#[test]
fn every_program_is_accepted_with_every_kind_of_settings() {
    if !is_root() {
        return;
    }
    let all =
        Params { spin_debounce: 3, spin_from_accepted: false, byte_counters: true, ..Params::default() };
    let laws = [
        ("paper", Params::preset(Preset::Paper)),
        ("comsys", Params::preset(Preset::Comsys)),
        ("robust", Params::preset(Preset::Robust)),
        ("sack", Params { sack_completes_half: true, ignore_optimistic_acks: true, ..Params::default() }),
        ("mixed", all),
    ];
    for (name, params) in laws {
        for link_layer in [LinkLayer::Ethernet, LinkLayer::Ip] {
            for told in [false, true] {
                let config = ProgramConfig {
                    link_layer,
                    can_mark: true,
                    events: told,
                    test_clock: told,
                    ..ProgramConfig::new(params, 4096, 1, 1)
                };
                let programs = match Programs::load(&config) {
                    Ok(programs) => programs,
                    Err(error) => panic!("{name} {link_layer:?}: {error}"),
                };
                let costs = programs.costs().unwrap();
                let names: Vec<&str> = costs.iter().map(|cost| cost.name.as_str()).collect();
                for wanted in ["forward", "reverse", "redirect", "lost", "left"] {
                    assert!(names.contains(&wanted), "{wanted} is not among {names:?}");
                }
                for cost in costs {
                    assert!(cost.verified < MOST_VERIFIED, "{name} {link_layer:?}: {cost:?}");
                    let with = if told { ", with events and the test clock" } else { "" };
                    println!(
                        "{name:7} {link_layer:8?} {:9} {:6} instructions, {:7} verified{with}",
                        cost.name, cost.instructions, cost.verified
                    );
                }
            }
        }
    }
}

fn ipv4(protocol: u8, reverse: bool, transport: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    frame.extend(((20 + transport.len()) as u16).to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, protocol, 0, 0]);
    let ends = [[10, 0, 0, 1], [10, 0, 0, 2]];
    frame.extend(ends[usize::from(reverse)]);
    frame.extend(ends[usize::from(!reverse)]);
    frame.extend(transport);
    frame
}

fn tcp(reverse: bool, seq: u32, ack: u32, payload: usize) -> Vec<u8> {
    let ports = if reverse { [0x17, 0x70, 0x13, 0x88] } else { [0x13, 0x88, 0x17, 0x70] };
    let mut segment = ports.to_vec();
    segment.extend(seq.to_be_bytes());
    segment.extend(ack.to_be_bytes());
    segment.extend([0x80, 0x10, 1, 0xf4, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    segment.resize(segment.len() + payload, 0);
    ipv4(6, reverse, &segment)
}

fn udp(reverse: bool, first: u8) -> Vec<u8> {
    let ports = if reverse { [0x17, 0x71, 0x13, 0x89] } else { [0x13, 0x89, 0x17, 0x71] };
    let mut datagram = ports.to_vec();
    datagram.extend([0x04, 0xb8, 0, 0, first]);
    datagram.resize(8 + 1200, 0);
    ipv4(17, reverse, &datagram)
}

#[test]
fn what_a_packet_costs_is_printed() {
    if !is_root() {
        return;
    }
    for preset in [Preset::Paper, Preset::Robust, Preset::Comsys] {
        let config = ProgramConfig::new(Params::preset(preset), 65_536, 1, 1);
        let programs = Programs::load(&config).unwrap();
        let mut arp = vec![0xff; 12];
        arp.extend([8, 6]);
        arp.resize(60, 0);
        let rows = [
            ("tcp", tcp(false, 1000, 1, 1400), tcp(true, 1, 2400, 0)),
            ("quic", udp(false, 0x40), udp(true, 0x40)),
            ("udp", udp(false, 0), udp(true, 0)),
            ("icmp", ipv4(1, false, &[8; 64]), ipv4(1, true, &[0; 64])),
            ("arp", arp.clone(), arp),
        ];
        for (name, forward, reverse) in rows {
            let run = |role, frame: &[u8], repeat| {
                programs.test_run(role, &TestPacket { frame, ..TestPacket::default() }, repeat).unwrap()
            };
            // Enough payload, an answer, and then one more packet give the flow its entry.
            run(Role::Forward, &forward, 10);
            run(Role::Reverse, &reverse, 1);
            run(Role::Forward, &forward, 1);
            let median = |role, frame: &[u8]| {
                let mut each: Vec<_> = (0..9).map(|_| run(role, frame, 100_000).duration).collect();
                each.sort();
                each[each.len() / 2]
            };
            let bare = median(Role::Redirect, &forward);
            let (forward, reverse) = (median(Role::Forward, &forward), median(Role::Reverse, &reverse));
            println!(
                "{preset:?} {name}: forward {} ns, reverse {} ns, with the {} ns of an empty test run",
                forward.as_nanos(),
                reverse.as_nanos(),
                bare.as_nanos()
            );
            assert!(forward.as_nanos() > 0 && reverse.as_nanos() > 0);
        }
    }
}
