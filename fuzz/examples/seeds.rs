//! Writes the inputs that the fuzzer begins with, where they are made by hand or by rule: `cargo run -p weir-fuzz
//! --example seeds`. Those that it found itself stand beside them.

use std::fs;
use std::path::Path;

use weir_testkit::captures::{Congestion, Frame, Point, Sender};

fn write(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), bytes).unwrap();
}

fn main() {
    captures_of_all_formats();
    frames_of_all_kinds();
    lives_of_flows();
    talks_of_two_ends();
}

fn short(congestion: Congestion, point: Point) -> Sender {
    Sender { congestion, point, rounds: 10, period: 4, window: 6, ..Sender::default() }
}

fn captures_of_all_formats() {
    let tcp = short(Congestion::Loss, Point::AfterBottleneck).tcp();
    let marked = short(Congestion::Mark, Point::AfterBottleneck).tcp();
    let quic = short(Congestion::Mark, Point::BeforeBottleneck).quic(|round, _| round % 2 == 1);
    for (big, nanos, link) in [
        (false, false, 1),
        (true, true, 1),
        (false, true, 0),
        (true, false, 101),
        (false, true, 108),
        (false, false, 113),
        (true, false, 276),
        (false, false, 12),
    ] {
        let few = &tcp[..tcp.len().min(40)];
        write(
            "captures",
            &format!("tcp-{}-{}-{link}.pcap", endian(big), unit(nanos)),
            &weir_testkit::captures::pcap(few, big, nanos, link),
        );
    }
    write("captures", "tcp-loss.pcap", &weir_testkit::captures::pcap(&tcp, false, true, 101));
    write("captures", "tcp-mark.pcapng", &weir_testkit::captures::pcapng(&marked, false, 101));
    write("captures", "quic.pcapng", &weir_testkit::captures::pcapng(&quic, true, 1));
    let mut modified = weir_testkit::captures::pcap(&[], false, false, 1);
    modified[..4].copy_from_slice(&0xa1b2_cd34u32.to_le_bytes());
    write("captures", "modified.pcap", &modified);
    write("captures", "blocks.pcapng", &blocks(&tcp));
    for (name, start) in
        [("gzip", &[0x1f, 0x8b, 8, 0][..]), ("zstd", &[0x28, 0xb5, 0x2f, 0xfd]), ("text", b"no capture")]
    {
        write("captures", name, start);
    }
}

fn endian(big: bool) -> &'static str {
    if big { "big" } else { "little" }
}

fn unit(nanos: bool) -> &'static str {
    if nanos { "ns" } else { "us" }
}

/// All kinds of blocks, two interfaces and two sections.
fn blocks(frames: &[Frame]) -> Vec<u8> {
    let mut out = weir_testkit::captures::section(false);
    out.extend(weir_testkit::captures::interface(1, Some(6), 5, false));
    out.extend(weir_testkit::captures::interface(101, Some(0x8a), 0, false));
    out.extend(weir_testkit::captures::block(0x0bad, &[0; 8], false));
    for (number, frame) in frames.iter().take(12).enumerate() {
        let units = frame.time / 1000;
        out.extend(match number % 4 {
            0 => weir_testkit::captures::enhanced(frame, 0, units, 1, false),
            1 => weir_testkit::captures::enhanced(frame, 1, units, 101, false),
            2 => weir_testkit::captures::obsolete(frame, 0, units, false),
            _ => weir_testkit::captures::simple(frame, false),
        });
    }
    out.extend(weir_testkit::captures::section(true));
    out.extend(weir_testkit::captures::interface(1, None, 0, true));
    for frame in frames.iter().skip(12).take(4) {
        out.extend(weir_testkit::captures::enhanced(frame, 0, frame.time / 1000, 1, true));
    }
    out
}

fn frames_of_all_kinds() {
    let tcp = weir_testkit::captures::Tcp {
        seq: 1,
        ack: 2,
        flags: 0x10,
        payload: 100,
        stamp: Some((3, 4)),
        sack: vec![(5, 6), (7, 8)],
        mss: Some(1460),
        ecn: 2,
    };
    let tcp = tcp.frame(0, weir_testkit::captures::SERVER, weir_testkit::captures::CLIENT).bytes;
    let spin = weir_testkit::captures::quic(0, true, 1_200, Some(true), 2).bytes;
    let initial = weir_testkit::captures::quic(0, false, 1_200, None, 0).bytes;
    for (name, frame) in [("tcp", &tcp), ("spin", &spin), ("initial", &initial)] {
        write("frame", &format!("ethernet-{name}"), &[&[0], &frame[..]].concat());
        write("frame", &format!("ip-{name}"), &[&[1], &frame[14..]].concat());
        write("frame", &format!("cut-{name}"), &[&[23], &frame[14..44]].concat());
        let tag = [0x81, 0, 0, 5];
        write("frame", &format!("tagged-{name}"), &[&[0], &frame[..12], &tag, &tag, &frame[12..]].concat());
        let pppoe = [0x88, 0x64, 0x11, 0, 0, 1, 0, 0, 0, 0x21];
        write("frame", &format!("pppoe-{name}"), &[&[0], &frame[..12], &pppoe, &frame[14..]].concat());
        write("frame", &format!("ipv6-{name}"), &[&[1], &ipv6(&frame[34..], frame[23], &[])[..]].concat());
        let headers = [[0, 0, 1, 4, 0, 0, 0, 0], [44, 0, 5, 2, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0, 9]];
        write(
            "frame",
            &format!("extended-{name}"),
            &[&[1], &ipv6(&frame[34..], frame[23], &headers)[..]].concat(),
        );
    }
    let mut options = tcp[14..].to_vec();
    options[0] = 0x46;
    options.splice(20..20, [1, 1, 1, 0]);
    write("frame", "ip-options", &[&[1], &options[..]].concat());
    for (name, at, with) in
        [("fragment", 6, 0x20), ("later-fragment", 7, 9), ("length", 3, 19), ("zero", 2, 0)]
    {
        let mut broken = tcp[14..].to_vec();
        broken[at] = with;
        write("frame", name, &[&[1], &broken[..]].concat());
    }
}

/// The same transport header behind IPv6 and these extension headers: hop-by-hop, destination, fragment.
fn ipv6(transport: &[u8], protocol: u8, headers: &[[u8; 8]]) -> Vec<u8> {
    const KINDS: [u8; 3] = [0, 60, 44];
    let length = (transport.len() + 8 * headers.len()) as u16;
    let mut out = vec![0x60, 0x20, 0, 0];
    out.extend(length.to_be_bytes());
    out.extend([if headers.is_empty() { protocol } else { KINDS[0] }, 64]);
    out.extend((0..32).map(|at| if at == 15 || at == 31 { at } else { 0 }));
    for (number, header) in headers.iter().enumerate() {
        let mut header = *header;
        header[0] = if number + 1 == headers.len() { protocol } else { KINDS[number + 1] };
        header[1] = 0;
        out.extend(header);
    }
    out.extend(transport);
    out
}

/// Steps of the live table, as `src/live/input.rs` reads them.
mod steps {
    pub(super) const ANSWER: [u8; 8] = [0, 0x80, 0, 0, 0, 0, 0, 0];
    pub(super) const ROUND: [u8; 8] = [12, 0, 20, 0, 50, 0, 0, 0];

    pub(super) fn data(flow: u8, bytes: u16) -> [u8; 8] {
        [0, flow, 0, 0, bytes as u8, (bytes >> 8) as u8, 0, 0]
    }

    pub(super) fn answer(flow: u8) -> [u8; 8] {
        [0, 0x80 | flow, 0, 0, 0, 0, 0, 0]
    }

    pub(super) fn flagged(flow: u8, flags: u8) -> [u8; 8] {
        [0, flow, flags, 0, 0, 0, 0, 0]
    }

    pub(super) fn quic(flow: u8, spin: bool, bytes: u16) -> [u8; 8] {
        [6, flow, 0, 0x40 | u8::from(spin) << 5, bytes as u8, (bytes >> 8) as u8, 0, 0]
    }

    pub(super) fn signal(flow: u8, mark: bool) -> [u8; 8] {
        [11, flow, mark.into(), 0, 1, 0, 0, 0]
    }
}

/// Rounds of a window; every third, one is lost, and the window halves for the next.
fn rounds(flow: u8, quic: bool, count: usize, mark: bool) -> Vec<[u8; 8]> {
    let mut out = Vec::new();
    for round in 0..count {
        let window = if round % 3 == 1 { 10 } else { 5 };
        for packet in 0..window {
            out.push(if quic { steps::quic(flow, round % 2 == 1, 1_400) } else { steps::data(flow, 1_400) });
            if round % 3 == 1 && packet == 0 {
                out.push(steps::signal(flow, mark));
            }
        }
        out.push(if quic { steps::quic(flow | 0x80, round % 2 == 1, 40) } else { steps::answer(flow) });
        out.push(steps::ROUND);
    }
    out
}

fn lives_of_flows() {
    let save = |name: &str, header: [u8; 16], steps: &[[u8; 8]]| {
        write("live", name, &[&header[..], steps.as_flattened()].concat());
    };
    let plain = [0; 16];
    for flow in 0..3 {
        save(&format!("tcp-{flow}"), plain, &rounds(flow, false, 12, false));
        save(&format!("quic-{flow}"), plain, &rounds(flow, true, 12, false));
    }
    let with = |at: usize, value: u8| {
        let mut header = plain;
        header[at] = value;
        header
    };
    save("marks", with(0, 4), &rounds(1, false, 12, true));
    save("comsys", with(0, 1), &rounds(0, false, 12, false));
    save("comsys-quic", with(0, 1), &rounds(0, true, 12, false));
    save("debounce", with(0, 8), &rounds(0, true, 12, false));
    save("wrap", with(15, 1), &rounds(2, false, 12, false));
    let crowd = |from: u8| [15, 0, 31, 0, from, 0, 0, 0];
    save("crowd", plain, &[crowd(0), steps::ROUND, crowd(40), [12, 0, 23, 0, 0, 1, 0, 0], crowd(80)]);
    let mut again = rounds(0, false, 6, false);
    again.extend([
        steps::flagged(0, 4),
        steps::flagged(0x80, 5),
        steps::data(0, 700),
        steps::flagged(0, 6),
        steps::ROUND,
    ]);
    again.extend(rounds(0, false, 4, false));
    save("closed-and-opened", with(9, 3), &again);
    let mut law = rounds(0, false, 6, false);
    law.push([14, 0, 4, 0, 0, 0, 0, 0]);
    law.extend(rounds(0, false, 6, true));
    save("another-law", plain, &law);
    let mut far = rounds(0, false, 4, false);
    // Far beyond, half of the number space away, anything: forward and reverse.
    for mode in [5, 6, 7] {
        far.extend([[0, 0, 0, mode, 100, 0, 9, 0], [0, 0x80, 0, mode << 3, 0, 0, 9, 0]]);
    }
    far.extend(rounds(0, false, 4, false));
    save("far", plain, &far);
    let mut spoilt = rounds(1, true, 4, false);
    spoilt.extend([
        [10, 1, 4, 0, 0, 0, 0, 0],
        [10, 1, 6, 44, 0, 0, 0, 0],
        [13, 0, 0, 0, 99, 0, 0, 0],
        steps::ANSWER,
    ]);
    spoilt.extend([[6, 1, 1, 0, 0, 2, 0, 0], [6, 1, 3, 0x60, 0, 2, 0, 0], [6, 1, 0, 0, 0, 2, 0, 0]]);
    save("spoilt", with(4, 1), &spoilt);
}

/// What the target `transport` begins with: the byte that says which of its halves, then something to read or a script.
fn talks_of_two_ends() {
    let file = [&[0, 1][..], &9_u64.to_be_bytes(), b"file.bin"].concat();
    for (name, bytes) in [
        ("message-file", &file[..]),
        ("message-path", &[&[0, 1][..], &[0; 8], b"../../etc/passwd"].concat()),
        ("message-have", &[&[0, 2][..], &[1; 40]].concat()),
        ("message-no", &[0, 9, 0x1b, b'[', b'2', b'J', 0xff]),
        ("report", &[0, 1, 0x80, 0, 1, 0, 4, 8, 3, 5, 0x40, 0x77, 9]),
        ("ack-of-path", &[0, 0x3f, 1, 5, 0, 0, 5, 1, 2, 7]),
        ("ack-of-many-ranges", &[0, 3, 5, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]),
    ] {
        write("transport", name, bytes);
    }
    let rounds = |count: usize| vec![6; count];
    for (name, script) in [
        ("connects", [&[0][..], &rounds(40)].concat()),
        ("two-connect", [&[0, 8][..], &rounds(60)].concat()),
        (
            "replay-from-elsewhere",
            [&[0][..], &rounds(20), &[0x24, 9], &rounds(5), &[0x24, 30], &rounds(9)].concat(),
        ),
        (
            "frames-of-sender",
            [&[0][..], &rounds(12), &[2, 0, 0, 0, 0x3f, 2, 1, 0, 3, 0xff], &rounds(9)].concat(),
        ),
        (
            "frames-of-receiver",
            [&[0][..], &rounds(12), &[1, 0, 0, 0, 0x31, 1, 1, 0, 1, 0xff], &rounds(9)].concat(),
        ),
        ("cut-off", [&[0][..], &rounds(8), &[0x14, 3, 0, 30, 0x14, 5, 0, 7], &rounds(9)].concat()),
        ("silence", [&[0][..], &rounds(12), &[3, 255], &rounds(3), &[0], &rounds(20)].concat()),
        ("first-packet-made-up", [&[0x0c, 24, 0xc0, 0, 0, 0, 1, 8][..], &[7; 18], &rounds(3)].concat()),
    ] {
        write("transport", name, &[&[128][..], &script].concat());
    }
}
