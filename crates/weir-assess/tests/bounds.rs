//! What judging a capture costs, whatever is in it: time by the packet, and memory by the flow. Time is a ratio to that
//! of an ordinary capture, in time on a processor; memory is counted by the allocator.

use std::io::{Cursor, Write};

use weir_assess::{Options, Report, assess};
use weir_law::Params;
use weir_testkit::captures::*;
use weir_testkit::counting::{Counting, peak_of};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The report, and the most bytes that were allocated on the way to it.
fn weighed(file: Vec<u8>, options: &Options) -> (Report, i64) {
    peak_of(|| assess(Cursor::new(file), options))
}

/// Nanoseconds on a processor of this thread (`/proc/thread-self/schedstat`).
fn processor_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

fn segment(number: u64, seq: u32, payload: u32) -> Frame {
    let tcp = Tcp { seq, ack: 1, flags: ACK, payload, ..Tcp::default() };
    tcp.frame(EPOCH + number * 10_000, SERVER, CLIENT)
}

fn answer(number: u64, ack: u32, sack: &[(u32, u32)]) -> Frame {
    let tcp = Tcp { seq: 1, ack, flags: ACK, sack: sack.to_vec(), ..Tcp::default() };
    tcp.frame(EPOCH + number * 10_000, CLIENT, SERVER)
}

/// Packets in each of the captures below.
const PACKETS: u32 = 60_000;

/// A capture from the sequence number and length of each packet's payload.
fn sequences(of: impl Fn(u32) -> (u32, u32)) -> Vec<u8> {
    let frames: Vec<Frame> = (0..PACKETS)
        .map(|number| {
            let (seq, payload) = of(number);
            segment(number.into(), seq, payload)
        })
        .collect();
    pcap(&frames, false, true, 1)
}

fn per_packet(file: Vec<u8>) -> u64 {
    // The first of two warms up.
    let time = |file: Vec<u8>| {
        let before = processor_time();
        let report = assess(Cursor::new(file), &Options::default());
        assert_eq!((report.counters.packets, report.error.is_none()), (PACKETS.into(), true));
        processor_time() - before
    };
    time(file.clone()).min(time(file)) / u64::from(PACKETS)
}

#[test]
fn no_order_of_sequence_numbers_makes_a_packet_dear() {
    let usual = per_packet({
        let frames: Vec<Frame> = (0..PACKETS)
            .map(|number| match number % 3 {
                2 => answer(number.into(), (number / 3).saturating_sub(30) * 2_000, &[]),
                half => segment(number.into(), (number / 3 * 2 + half) * 1_000, 1_000),
            })
            .collect();
        pcap(&frames, false, true, 1)
    });
    let scattered = |number: u32, among: u32| number.wrapping_mul(2_654_435_761) % among;
    let window = 16_000;
    let captures: [(&str, Vec<u8>); 11] = [
        ("descending, a hole before each", sequences(|n| (1_000_000_000 - n * 2_000, 1_000))),
        ("ascending, a hole before each", sequences(|n| (n * 2_000, 1_000))),
        (
            "holes, then filled from the last to the first",
            sequences(
                |n| if n < 30_000 { (n * 2_000, 1_000) } else { ((60_000 - n) * 2_000 + 1_000, 1_000) },
            ),
        ),
        (
            "one hole, cut in the middle again and again",
            sequences(|n| {
                if n < 2 { (n * 1_000_000_000, 1_000) } else { (scattered(n, 1 << 20) * 900 + 2_000, 10) }
            }),
        ),
        (
            "one hole that a row of packets confirms, cut in the middle again and again",
            sequences(|n| match n {
                0 => (0, 1_000),
                n if n < 10 => (16_000_000 + n * 1_000, 1_000),
                n => (scattered(n, 1 << 20) * 15 + 2_000, 10),
            }),
        ),
        ("each somewhere else", sequences(|n| (n.wrapping_mul(2_654_435_761), 1_000))),
        (
            "rows of eight, each row somewhere else",
            sequences(|n| ((n / 8).wrapping_mul(2_654_435_761).wrapping_add(n % 8 * 1_000), 1_000)),
        ),
        (
            "a window sent again, half a segment off, from its end to its beginning",
            sequences(|n| match n {
                n if n < window => (n * 1_000, 1_000),
                n => ((window - 2 - n % (window - 2)) * 1_000 + 500, 1_000),
            }),
        ),
        (
            "a window sent again in pieces, in any order",
            sequences(|n| match n {
                n if n < window => (n * 1_000, 1_000),
                n => (scattered(n, window * 1_000 - 100), 100),
            }),
        ),
        (
            "a window of single bytes sent again as a whole, again and again",
            sequences(|n| if n < window { (n, 1) } else { (0, window) }),
        ),
        ("the same, acknowledged one by one", {
            let frames: Vec<Frame> = (0..PACKETS)
                .map(|n| match n {
                    n if n < window => segment(n.into(), n + 1, 1),
                    n if n < 2 * window => answer(n.into(), 0, &[(n - window + 1, n - window + 2)]),
                    n => segment(n.into(), 0, window),
                })
                .collect();
            pcap(&frames, false, true, 1)
        }),
    ];
    let mut dear = Vec::new();
    for (name, file) in captures {
        let took = per_packet(file);
        println!("{name}: {took} ns a packet, usual {usual} ns");
        if took > usual * 8 {
            dear.push(format!("{name}: {took} ns a packet, beside {usual} ns of an ordinary one"));
        }
    }
    assert!(dear.is_empty(), "{dear:#?}");
}

/// Captures of `flows` flows of one direction, nothing of which is acknowledged: `each` packets of every flow, in turn,
/// every 50th of them sent again.
fn unanswered(flows: u32, each: u32) -> Vec<u8> {
    let mut frames = Vec::new();
    for round in 0..each {
        for flow in 0..flows {
            let seq = if round % 50 == 49 { round - 40 } else { round } * 1_000;
            let tcp = Tcp { seq, ack: 1, flags: ACK, payload: 1_000, ..Tcp::default() };
            let port = 1_024 + (flow % 60_000) as u16;
            let number = u64::from(round * flows + flow);
            frames.push(tcp.frame(
                EPOCH + number * 10_000,
                SERVER,
                ([10, 0, 0, (flow / 60_000) as u8], port),
            ));
        }
    }
    pcap(&frames, false, true, 1)
}

/// Captures of `flows` flows that halve at each loss, side by side, with one loss in ten round trips.
fn answered(flows: u32, rounds: u32) -> Vec<u8> {
    let mut frames = Vec::new();
    for flow in 0..flows {
        let start = EPOCH + u64::from(flow) * 1_000;
        let sender = Sender { rounds, window: 8, isn: flow * 1_000_003, start, ..Sender::default() };
        for mut frame in sender.tcp() {
            let client = if frame.bytes[26..30] == CLIENT.0 { 34 } else { 36 };
            frame.bytes[client..client + 2].copy_from_slice(&(1_024 + flow as u16).to_be_bytes());
            frames.push(frame);
        }
    }
    frames.sort_by_key(|frame| frame.time);
    pcap(&frames, false, true, 1)
}

/// Connections one after the other on the same ports, `flows` at a time.
fn reused(flows: u32, each: u32) -> Vec<u8> {
    let mut frames = Vec::new();
    for connection in 0..flows * each {
        let port = 1_024 + (connection % flows) as u16;
        let (time, isn) = (EPOCH + u64::from(connection) * MS, connection * 77_777);
        let syn = Tcp { seq: isn, flags: SYN, ..Tcp::default() };
        let data = Tcp { seq: isn + 1, flags: ACK, payload: 500, ..Tcp::default() };
        frames.push(syn.frame(time, (CLIENT.0, port), SERVER));
        frames.push(data.frame(time + 1, (CLIENT.0, port), SERVER));
    }
    pcap(&frames, false, true, 1)
}

#[test]
fn memory_is_bounded_by_the_flows_and_not_by_what_they_send() {
    const KEPT: usize = 4_096;
    let options = |flows| Options { max_kept: KEPT, ..Options::new(Params::default(), flows) };
    // What is said of `Options`, and the reader's buffers.
    let room = |flows: u32| 2_200 * i64::from(flows) + 300 * KEPT as i64 + 400_000;
    let mut over = Vec::new();
    for (name, flows, file) in [
        ("few packets", 4_000, unanswered(4_000, 3)),
        ("unanswered", 1_000, unanswered(1_000, 10)),
        ("unanswered", 1_000, unanswered(1_000, 100)),
        ("answered", 500, answered(500, 10)),
        ("answered", 500, answered(500, 80)),
    ] {
        let bytes = file.len();
        let (report, most) = weighed(file, &options(flows as usize));
        assert_eq!((report.flows.len(), report.counters.left_out), (flows as usize, 0));
        println!("{flows} flows, {name}, {bytes} B: {} B a flow", most / i64::from(flows));
        if most > room(flows) {
            over.push(format!("{flows} flows, {name}, {bytes} B: {most} B, more than {}", room(flows)));
        }
    }
    // Connections are reported up to twice the flows, and the rest is counted.
    for each in [4, 40] {
        let (report, most) = weighed(reused(500, each), &options(500));
        assert_eq!(report.flows.len(), 1_000);
        assert_eq!(report.counters.connections_left_out, u64::from(500 * each - 1_000));
        println!("500 flows of {each} connections: {} B a flow", most / 500);
        if most > room(500) + 1_500 * 500 {
            over.push(format!("500 flows of {each} connections: {most} B"));
        }
    }
    assert!(over.is_empty(), "{over:#?}");
}

#[test]
fn a_packed_capture_takes_a_window_however_much_comes_out() {
    let mut file = section(false);
    file.extend(block(0x0bad_cafe, &vec![0; 64 << 20], false));
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(&file).unwrap();
    let packed = packer.finish().unwrap();
    drop(file);
    let shrunk = packed.len();
    let (report, most) = weighed(packed, &Options::default());
    assert!(report.error.is_none(), "{:?}", report.error);
    assert!(shrunk < 1 << 20 && most < 400_000, "{shrunk} B packed, {most} B");
}
