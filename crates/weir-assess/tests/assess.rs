//! Captures of senders whose behaviour is known, judged; and captures that are damaged, hostile or odd.

use std::io::{self, Cursor, Read, Seek, SeekFrom};

use proptest::prelude::*;
use weir_assess::capture::{CaptureError, CaptureReader};
use weir_assess::{DirectionReport, Options, Report, Stack, assess};
use weir_law::{Params, Preset, Verdict};
use weir_testkit::captures::*;

fn judge(file: Vec<u8>) -> Report {
    assess(Cursor::new(file), &Options::default())
}

fn judged(frames: &[Frame]) -> Report {
    let report = judge(pcap(frames, false, true, 1));
    assert!(report.error.is_none(), "{:?}", report.error);
    report
}

fn only(report: &Report) -> &DirectionReport {
    assert_eq!(report.flows.len(), 1, "{:#?}", report.flows);
    &report.flows[0].data
}

fn codes(direction: &DirectionReport) -> Vec<&'static str> {
    direction.not_judged.iter().map(|remark| remark.code).collect()
}

#[test]
fn tcp_that_halves_is_responsive_wherever_it_is_captured() {
    for point in [Point::BeforeBottleneck, Point::AfterBottleneck] {
        for stamps in [true, false] {
            let sender = Sender { point, stamps, ..Sender::default() };
            let report = judged(&sender.tcp());
            let data = only(&report);
            assert_eq!(report.flows[0].stack, Stack::Tcp);
            assert_eq!(report.flows[0].handshake_rtt_ms, Some(40.0));
            assert_eq!(data.source, "192.0.2.1:443".parse().unwrap());
            let seen = data.inferred.unwrap();
            let lost = u64::from(sender.signals());
            let (before, after) = if point == Point::AfterBottleneck { (lost, 0) } else { (0, lost) };
            assert_eq!((seen.before_capture_point, seen.after_capture_point), (before, after), "{seen:?}");
            assert_eq!((seen.reordered, seen.needless, seen.missed_bytes), (0, 0, 0));
            assert_eq!(data.loss.signals, lost);
            assert_eq!(data.loss.verdict, Verdict::Responsive);
            assert_eq!(
                (data.loss.votes.responsive, data.loss.votes.unresponsive),
                (sender.signals(), 0),
                "{data:#?}"
            );
            assert_eq!(data.mark.verdict, Verdict::Unclassified);
            assert!(data.not_judged.is_empty() && data.doubts.is_empty(), "{data:#?}");
            let cycle = data.cycle_ms.unwrap();
            assert!((39.0..=41.0).contains(&cycle.p50), "{cycle:?}");
            assert!(data.loss.score.unwrap() > 0.85);
            assert_eq!(data.loss.score_since_verdict, Some(1.0));
            for row in &data.assessments {
                assert!(row.window_bytes * 10 <= row.window_signalled_bytes * 9, "{row:?}");
                assert_eq!(row.losses, 1);
            }
        }
    }
}

#[test]
fn tcp_that_does_not_answer_is_unresponsive() {
    for point in [Point::BeforeBottleneck, Point::AfterBottleneck] {
        let sender = Sender { responsive: false, point, ..Sender::default() };
        let report = judged(&sender.tcp());
        let data = only(&report);
        assert_eq!(data.loss.verdict, Verdict::Unresponsive, "{data:#?}");
        assert_eq!((data.loss.votes.responsive, data.loss.votes.unresponsive), (0, sender.signals()));
        assert_eq!(data.loss.score, Some(0.0));
    }
}

#[test]
fn marks_are_seen_as_ce_and_by_the_receivers_echo() {
    for responsive in [true, false] {
        for point in [Point::BeforeBottleneck, Point::AfterBottleneck] {
            let sender = Sender { responsive, point, congestion: Congestion::Mark, ..Sender::default() };
            let report = judged(&sender.tcp());
            let data = only(&report);
            let marks = u64::from(sender.signals());
            let echoed = if point == Point::BeforeBottleneck { marks } else { 0 };
            assert_eq!(data.inferred.unwrap().marks_by_echo, echoed);
            assert_eq!(data.ecn.ce, marks - echoed);
            assert!(data.ece_packets > marks && data.cwr_packets == marks, "{data:#?}");
            assert_eq!(data.mark.signals, marks);
            let verdict = if responsive { Verdict::Responsive } else { Verdict::Unresponsive };
            assert_eq!((data.mark.verdict, data.loss.verdict), (verdict, Verdict::Unclassified), "{data:#?}");
        }
    }
}

#[test]
fn quic_is_judged_by_marks_and_spin() {
    for responsive in [true, false] {
        let sender = Sender { responsive, ..Sender::default() };
        let report = judged(&sender.quic(|round, _| round % 2 == 1));
        let data = only(&report);
        assert_eq!(report.flows[0].stack, Stack::Quic);
        assert_eq!(data.mark.signals, u64::from(sender.signals()));
        let verdict = if responsive { Verdict::Responsive } else { Verdict::Unresponsive };
        assert_eq!(data.mark.verdict, verdict, "{data:#?}");
        assert!((data.cycle_ms.unwrap().p50 - 40.0).abs() < 0.01);
    }
}

#[test]
fn what_is_not_judged_says_why() {
    let sender = Sender::default();
    let constant = judged(&sender.quic(|_, _| true));
    assert_eq!(codes(only(&constant)), ["spin-constant"]);
    let random = judged(&sender.quic(|_, number| {
        let mixed = (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) & 1 == 1
    }));
    assert!(only(&random).doubts.iter().any(|doubt| doubt.code == "spin-random"));
    let forward: Vec<Frame> =
        sender.tcp().into_iter().filter(|frame| frame.bytes[26..30] == SERVER.0).collect();
    assert_eq!(codes(only(&judged(&forward))), ["one-direction"]);
    let calm = judged(&Sender { period: 1_000, rounds: 8, ..sender }.tcp());
    assert_eq!(codes(only(&calm)), ["no-signal"]);
    let narrow = pcap(&Sender { window: 12, responsive: false, rounds: 40, ..sender }.tcp(), false, true, 1);
    assert_eq!(only(&judge(narrow.clone())).loss.verdict, Verdict::Unresponsive);
    let params = Params { min_window_segments: 20, ..Params::default() };
    let small = assess(Cursor::new(narrow), &Options { params, ..Options::default() });
    assert_eq!(codes(only(&small)), ["small-window"], "{small:#?}");
    assert!(only(&small).not_judged[0].text.contains("30000 B"));
    let quic = judged(&Sender { period: 1_000, rounds: 5, ..sender }.quic(|round, _| round % 2 == 1));
    assert!(only(&quic).not_judged[0].text.contains("losses of QUIC cannot be seen"));
    assert_eq!(codes(&quic.flows[0].other), ["no-signal"]);
    // The prototype's parser needs untagged IPv4: turn the frames into VLAN ones.
    let tagged: Vec<Frame> = sender
        .tcp()
        .into_iter()
        .map(|mut frame| {
            frame.bytes.splice(12..12, [0x81, 0, 0, 5]);
            Frame { wire: frame.wire + 4, ..frame }
        })
        .collect();
    let file = pcap(&tagged, false, true, 1);
    let comsys =
        assess(Cursor::new(file), &Options { params: Params::preset(Preset::Comsys), ..Options::default() });
    assert_eq!(codes(only(&comsys)), ["excluded"]);
    assert_eq!(only(&judged(&tagged)).loss.verdict, Verdict::Responsive);
}

#[test]
fn all_formats_and_links_tell_the_same() {
    let frames = Sender { rounds: 40, ..Sender::default() }.tcp();
    let reference = serde_json::to_value(&judged(&frames).flows).unwrap();
    for big in [false, true] {
        let mut files = vec![pcap(&frames, big, true, 1), pcap(&frames, big, false, 1)];
        for link in [0, 1, 12, 14, 101, 108, 113, 228, 276] {
            files.push(pcap(&frames, big, true, link));
            files.push(pcapng(&frames, big, link));
        }
        // Two sections, the second of the other byte order with two interfaces: one in microseconds with an offset, one
        // with the obsolete block. Sender times are whole microseconds.
        let mut file = section(big);
        file.extend(interface(1, Some(9), 0, big));
        file.extend(block(0x0bad_cafe, &[7; 40], big));
        let (first, second) = frames.split_at(frames.len() / 2);
        first.iter().for_each(|frame| file.extend(enhanced(frame, 0, frame.time, 1, big)));
        file.extend(section(!big));
        file.extend(interface(1, None, 1_000, !big));
        file.extend(interface(1, Some(0x80 | 30), -1_000, !big));
        for (at, frame) in second.iter().enumerate() {
            let micros = frame.time / 1_000 - 1_000_000_000;
            match at % 2 {
                0 => file.extend(enhanced(frame, 0, micros, 1, !big)),
                _ => file.extend(obsolete(frame, 0, micros, !big)),
            }
        }
        files.push(file);
        for (at, file) in files.into_iter().enumerate() {
            let report = judge(file);
            assert!(report.error.is_none(), "{at} {:?}", report.error);
            assert_eq!(serde_json::to_value(&report.flows).unwrap(), reference, "file {at}");
        }
    }
}

#[test]
fn time_stamps_of_any_resolution() {
    let frame = quic(0, true, 100, Some(true), 0);
    let read = |resolution: u8, offset: i64, units: u64| {
        let mut file = section(true);
        file.extend(interface(1, Some(resolution), offset, true));
        file.extend(enhanced(&frame, 0, units, 1, true));
        let mut reader = CaptureReader::new(Cursor::new(file)).unwrap();
        let packet = reader.next().unwrap().unwrap();
        assert!(packet.timed);
        packet.time.as_nanos()
    };
    assert_eq!(read(0, 0, 3), 3_000_000_000);
    assert_eq!(read(3, 5, 1), 5_001_000_000);
    assert_eq!(read(12, 0, 5_000), 5);
    assert_eq!(read(127, 0, u64::MAX), 0);
    assert_eq!(read(0x80 | 1, 0, 3), 1_500_000_000);
    assert_eq!(read(0x80 | 30, 0, 1 << 30), 1_000_000_000);
    assert_eq!(read(0xff, 0, u64::MAX), 0);
    assert_eq!(read(0, 0, u64::MAX), u64::MAX);
    assert_eq!(read(9, -10, 3_000_000_000), 0);
    assert_eq!(read(6, i64::MIN, 1), 0);
    assert_eq!(read(6, i64::MAX, 1), u64::MAX);
    let mut file = section(false);
    file.extend(interface(1, None, 0, false));
    file.extend(simple(&frame, false));
    let report = judge(file);
    assert_eq!((report.counters.without_time, report.flows.len()), (1, 1));
}

/// A data segment or an acknowledgement in a connection without handshake; `at` in milliseconds.
fn data(at: u64, seq: u32, payload: u32, stamp: u32) -> Frame {
    let segment = Tcp { seq, ack: 1, flags: ACK, payload, stamp: Some((stamp, 1)), ..Tcp::default() };
    segment.frame(EPOCH + at * MS, SERVER, CLIENT)
}

fn answer(at: u64, ack: u32, sack: &[(u32, u32)]) -> Frame {
    let segment = Tcp { seq: 1, ack, flags: ACK, sack: sack.to_vec(), stamp: Some((1, 1)), ..Tcp::default() };
    segment.frame(EPOCH + at * MS, CLIENT, SERVER)
}

#[test]
fn look_alikes_of_losses_are_none() {
    let seen = |frames: &[Frame]| {
        let report = judged(frames);
        let data = only(&report);
        (data.loss.signals, data.inferred.unwrap(), data.copies)
    };
    // 1000 comes late but was sent first.
    let (lost, evidence, _) = seen(&[
        data(0, 0, 1_000, 5),
        data(1, 2_000, 1_000, 5),
        data(1, 3_000, 1_000, 6),
        data(90, 1_000, 1_000, 4),
    ]);
    assert_eq!((lost, evidence.reordered), (0, 1));
    // The same hole filled by a newer packet is a loss.
    let (lost, evidence, _) = seen(&[
        data(0, 0, 1_000, 5),
        data(1, 2_000, 1_000, 5),
        data(1, 3_000, 1_000, 6),
        data(90, 1_000, 1_000, 90),
    ]);
    assert_eq!((lost, evidence.before_capture_point), (1, 1));
    // Keep-alive: one byte that is acknowledged.
    let (lost, evidence, _) =
        seen(&[data(0, 0, 1_000, 5), answer(40, 1_000, &[]), data(9_000, 999, 1, 9_005)]);
    assert_eq!((lost, evidence.needless), (0, 1));
    // A retransmission of what was seen and not acknowledged is a loss, until the receiver says that it had it.
    let twice = [data(0, 0, 1_000, 5), data(1, 1_000, 1_000, 6), data(300, 0, 1_000, 300)];
    let (lost, evidence, _) = seen(&twice);
    assert_eq!((lost, evidence.after_capture_point), (1, 1));
    let spurious = [&twice[..], &[answer(310, 2_000, &[]), answer(320, 2_000, &[(0, 1_000)])]].concat();
    let (lost, evidence, _) = seen(&spurious);
    assert_eq!((lost, evidence.after_capture_point, evidence.needless), (0, 0, 1));
    // What the receiver had selectively acknowledged was not lost.
    let (lost, evidence, _) = seen(&[
        data(0, 0, 1_000, 5),
        data(1, 1_000, 1_000, 6),
        answer(40, 0, &[(1_000, 2_000)]),
        data(300, 1_000, 1_000, 300),
    ]);
    assert_eq!((lost, evidence.needless), (0, 1));
    // However the blocks that say so grow: to the left, to the right, or into each other.
    let grown = [
        vec![
            answer(40, 0, &[(3_000, 4_000)]),
            answer(41, 0, &[(2_000, 4_000)]),
            answer(42, 0, &[(1_000, 4_000)]),
        ],
        vec![
            answer(40, 0, &[(1_000, 2_000)]),
            answer(41, 0, &[(1_000, 3_000)]),
            answer(42, 0, &[(1_000, 4_000)]),
        ],
        vec![
            answer(40, 0, &[(1_000, 2_000)]),
            answer(41, 0, &[(3_000, 4_000), (1_000, 2_000)]),
            answer(42, 0, &[(1_000, 4_000)]),
        ],
    ];
    for blocks in grown {
        let sent = |at: u64| (0..4u32).map(move |n| data(at + u64::from(n), n * 1_000, 1_000, at as u32 + n));
        let frames: Vec<Frame> = sent(0).chain(blocks).chain(sent(300)).collect();
        let (lost, evidence, _) = seen(&frames);
        assert_eq!((lost, evidence.after_capture_point, evidence.needless), (1, 1, 3));
    }
    // The capture's own copy.
    let (lost, _, copies) = seen(&[data(0, 0, 1_000, 5), data(0, 0, 1_000, 5), data(1, 1_000, 1_000, 6)]);
    assert_eq!((lost, copies), (0, 1));
    // Packets that the capture missed: acknowledged, never seen.
    let (lost, evidence, _) =
        seen(&[data(0, 0, 1_000, 5), answer(40, 9_000, &[]), data(41, 9_000, 1_000, 46)]);
    assert_eq!((lost, evidence.missed_bytes), (0, 8_000));
}

#[test]
fn copies_on_a_second_interface_are_left_out() {
    let frames = Sender { rounds: 40, ..Sender::default() }.tcp();
    let alone = judged(&frames);
    let mut file = section(false);
    file.extend(interface(1, Some(9), 0, false));
    file.extend(interface(1, Some(9), 0, false));
    let mut both: Vec<(u64, u32, &Frame)> = frames.iter().map(|frame| (frame.time, 0, frame)).collect();
    // The lost ones never reach the second interface; the others come out 25 ms later.
    both.extend(frames.iter().map(|frame| (frame.time + 25 * MS, 1, frame)));
    both.sort_by_key(|(time, on, _)| (*time, *on));
    both.iter().for_each(|(time, on, frame)| file.extend(enhanced(frame, *on, *time, 1, false)));
    let report = judge(file);
    let (once, twice) = (only(&alone), only(&report));
    assert_eq!((twice.payload_bytes, twice.loss.votes), (once.payload_bytes, once.loss.votes));
    assert_eq!(twice.copies, once.packets - 1, "all with payload");
    assert!(twice.doubts.iter().any(|doubt| doubt.code == "copies"));
}

/// One capture after the other in a file, the second with an interface more: what it numbers 1 was 0 in the first.
#[test]
fn interfaces_of_two_sections_say_nothing_of_each_other() {
    let sender = Sender { rounds: 30, stamps: false, ..Sender::default() };
    let udp = (0..400u32).map(|number| {
        let mut frame = quic(EPOCH + u64::from(number) * MS, number % 3 > 0, 100, Some(true), 0);
        frame.bytes[42] = 0x80;
        frame
    });
    for frames in [sender.tcp(), sender.quic(|round, _| round % 2 == 1), udp.collect()] {
        let alone = judged(&frames);
        for split in (10..frames.len()).step_by(29) {
            let (first, second) = frames.split_at(split);
            let mut file = section(false);
            file.extend(interface(1, Some(9), 0, false));
            first.iter().for_each(|frame| file.extend(enhanced(frame, 0, frame.time, 1, false)));
            file.extend(section(false));
            file.extend(interface(0, Some(9), 0, false));
            file.extend(interface(1, Some(9), 0, false));
            second.iter().for_each(|frame| file.extend(enhanced(frame, 1, frame.time, 1, false)));
            let report = judge(file);
            let (whole, parts) = (only(&alone), only(&report));
            assert_eq!((parts.packets, parts.copies), (whole.packets, 0), "split at {split}");
            assert_eq!((parts.loss, parts.mark), (whole.loss, whole.mark), "split at {split}");
        }
    }
}

#[test]
fn a_reused_port_is_another_flow() {
    let first = Sender { rounds: 40, ..Sender::default() };
    let second = Sender { isn: 12_345, start: EPOCH + 10_000 * MS, responsive: false, ..first };
    let report = judged(&[first.tcp(), second.tcp()].concat());
    assert_eq!(report.flows.len(), 2);
    let verdict_of = |sender: &Sender| {
        let flow = report.flows.iter().find(|flow| flow.first_packet_ns.as_nanos() == sender.start).unwrap();
        assert_eq!(flow.data.inferred.unwrap().after_capture_point, u64::from(sender.signals()));
        flow.data.loss.verdict
    };
    assert_eq!((verdict_of(&first), verdict_of(&second)), (Verdict::Responsive, Verdict::Unresponsive));
}

#[test]
fn more_flows_than_are_kept_are_counted() {
    let frames = Sender { rounds: 10, ..Sender::default() }.tcp();
    let mut others: Vec<Frame> = frames.clone();
    others.iter_mut().for_each(|frame| {
        let client = if frame.bytes[26..30] == CLIENT.0 { 34 } else { 36 };
        frame.bytes[client] ^= 1;
    });
    let file = pcap(&[frames.clone(), others].concat(), false, true, 1);
    let report = assess(Cursor::new(file), &Options { max_flows: 1, ..Options::default() });
    assert_eq!((report.flows.len(), report.counters.left_out), (1, frames.len() as u64));
}

#[test]
fn odd_packets_are_counted() {
    let mut fragment = data(1, 0, 1_000, 5);
    fragment.bytes[20..22].copy_from_slice(&[0, 9]);
    let mut icmp = data(2, 0, 1_000, 5);
    icmp.bytes[23] = 1;
    let mut arp = data(3, 0, 1_000, 5);
    arp.bytes[12..14].copy_from_slice(&[8, 6]);
    let mut cut = data(0, 0, 1_000, 5);
    cut.bytes.truncate(40);
    let counters = judged(&[fragment, icmp, arp, cut]).counters;
    let odd = (
        counters.fragments,
        counters.other_protocols,
        counters.not_ip,
        counters.truncated,
        counters.backwards,
    );
    assert_eq!(odd, (1, 1, 1, 1, 1));
    let mut udp = quic(EPOCH, true, 100, Some(true), 0);
    udp.bytes[42] = 0x80;
    assert_eq!(codes(only(&judged(&[udp]))), ["not-quic"]);
    let netlink = judge(pcap(&[data(0, 0, 10, 1)], false, true, 253));
    assert_eq!((netlink.counters.other_links, netlink.counters.other_link), (1, Some(253)));
    let mut arp = pcap(&[data(0, 0, 10, 1)], false, true, 113);
    arp[24 + 16 + 14..24 + 16 + 16].copy_from_slice(&[8, 6]);
    assert_eq!(judge(arp).counters.not_ip, 1);
}

#[test]
fn a_file_cut_anywhere_keeps_what_came_before() {
    let frames = Sender { rounds: 2, window: 2, ..Sender::default() }.tcp();
    type Writer = fn(&[Frame]) -> Vec<u8>;
    let write: [Writer; 2] = [|frames| pcap(frames, true, false, 1), |frames| pcapng(frames, true, 1)];
    for write in write {
        let file = write(&frames);
        // Where the header ends, and each packet.
        let ends: Vec<usize> = (0..=frames.len()).map(|count| write(&frames[..count]).len()).collect();
        assert_eq!(ends[frames.len()], file.len());
        for cut in 0..file.len() {
            let report = judge(file[..cut].to_vec());
            let whole = ends.iter().filter(|end| **end <= cut).count().saturating_sub(1);
            assert_eq!(report.counters.packets, whole as u64, "cut at {cut}");
            assert_eq!(report.flows.is_empty(), whole == 0);
            let at_an_end = ends.contains(&cut);
            match &report.error {
                None => assert!(at_an_end || cut == 28, "no error for a cut at {cut}"),
                Some(CaptureError::Empty) => assert_eq!(cut, 0),
                Some(error @ CaptureError::Truncated { missing, .. }) => {
                    assert!(!at_an_end && *missing > 0);
                    let begins = if cut < ends[0] { error.offset() } else { ends[whole] as u64 };
                    assert_eq!(error.offset(), begins);
                    assert!(error.to_string().starts_with(&format!("byte {begins}: ")));
                }
                Some(other) => panic!("cut at {cut}: {other}"),
            }
        }
    }
}

#[test]
fn hostile_files_give_errors_that_name_the_byte() {
    let good = pcapng(&[data(0, 0, 10, 1)], false, 1);
    let with = |tail: Vec<u8>| {
        let report = judge([good.clone(), tail].concat());
        assert_eq!((report.counters.packets, report.flows.len()), (1, 1));
        let error = report.error.expect("an error");
        assert_eq!(error.offset(), good.len() as u64, "{error}");
        error
    };
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    assert!(matches!(with(words(&[6, 0xffff_fffc, 0])), CaptureError::TooLong { length: 0xffff_fffc, .. }));
    assert!(matches!(with(words(&[6, 0, 0])), CaptureError::Malformed { .. }));
    assert!(matches!(with(words(&[6, 13, 0, 0])), CaptureError::Malformed { .. }));
    assert!(matches!(with(words(&[99, 8, 0])), CaptureError::Malformed { .. }));
    assert!(matches!(with(words(&[99, 0xffff_fff0, 0])), CaptureError::Truncated { .. }));
    // A packet of an unknown interface, one longer than its block, two block lengths that differ, a short block.
    let mut packet = enhanced(&data(0, 0, 10, 1), 7, 0, 1, false);
    assert!(matches!(with(packet.clone()), CaptureError::Malformed { .. }));
    packet[8] = 0;
    packet[20..24].copy_from_slice(&[0xff; 4]);
    assert!(matches!(with(packet.clone()), CaptureError::Malformed { .. }));
    packet[20..24].copy_from_slice(&[200, 0, 0, 0]);
    assert!(matches!(with(packet.clone()), CaptureError::Malformed { .. }));
    let last = packet.len() - 4;
    packet[last] ^= 4;
    assert!(matches!(with(packet), CaptureError::Malformed { .. }));
    assert!(matches!(with(block(6, &[0; 8], false)), CaptureError::Malformed { .. }));
    assert!(matches!(with(block(2, &[0; 16], false)), CaptureError::Malformed { .. }));
    assert!(matches!(with(block(0x0a0d_0d0a, &[0; 16], false)), CaptureError::Malformed { .. }));

    let mut huge = pcap(&[data(0, 0, 10, 1), data(1, 10, 10, 1)], false, false, 1);
    let second = 24 + 16 + data(0, 0, 10, 1).bytes.len();
    huge[second + 8..second + 12].copy_from_slice(&0x7fff_ffffu32.to_le_bytes());
    let report = judge(huge);
    assert_eq!(report.counters.packets, 1);
    assert!(
        matches!(report.error, Some(CaptureError::TooLong { offset, length: 0x7fff_ffff, .. }) if offset == second as u64)
    );
}

#[test]
fn what_is_no_capture_is_named() {
    let message = |file: &[u8]| judge(file.to_vec()).error.unwrap().to_string();
    assert_eq!(message(b""), "the file is empty: there is no capture in it");
    let xz = "this is xz inside, which is not read: xzcat FILE | weir assess -";
    assert_eq!(message(&[0xfd, b'7', b'z', b'X', b'Z', 0]), xz);
    assert!(message(b"hello, world").contains("68656c6c"));
    assert!(message(&[0xa1, 0xb2]).starts_with("byte 0: "));
}

#[test]
fn a_pipe_is_refused_with_advice() {
    struct Pipe;
    impl Read for Pipe {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }
    }
    impl Seek for Pipe {
        fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
            Err(io::Error::from_raw_os_error(29))
        }
    }
    let report = assess(Pipe, &Options::default());
    assert!(report.error.unwrap().to_string().contains("save it to a file first"));
}

/// With room for few signals the second reading takes them out in between, and the report is the same.
#[test]
fn the_readings_may_take_turns() {
    let marked = Sender { congestion: Congestion::Mark, rounds: 1_000, ..Sender::default() };
    let second = Sender { isn: 12_345, start: EPOCH + 60_000 * MS, responsive: false, ..marked };
    let told_by_echo = pcap(&[marked.tcp(), second.tcp()].concat(), false, true, 1);
    let mut copied = section(false);
    copied.extend(interface(1, Some(9), 0, false));
    copied.extend(interface(1, Some(9), 0, false));
    for frame in (Sender { rounds: 100, ..Sender::default() }).tcp() {
        [0, 1].into_iter().for_each(|on| copied.extend(enhanced(&frame, on, frame.time, 1, false)));
    }
    for (file, flows) in [(told_by_echo, 2), (copied, 1)] {
        let whole = judge(file.clone());
        assert_eq!(whole.flows.len(), flows);
        let signals: u64 = whole.flows.iter().map(|flow| flow.data.mark.signals + flow.data.copies).sum();
        let max_kept = 60;
        assert!(signals > 3 * max_kept as u64, "{signals}");
        let in_turns = assess(Cursor::new(file), &Options { max_kept, ..Options::default() });
        assert_eq!(whole.counters, in_turns.counters);
        for (whole, in_turns) in whole.flows.iter().zip(&in_turns.flows) {
            let (whole, in_turns) = (&whole.data, &in_turns.data);
            assert_eq!((whole.loss, whole.mark), (in_turns.loss, in_turns.mark));
            assert_eq!((whole.inferred, whole.copies), (in_turns.inferred, in_turns.copies));
            assert_eq!(whole.payload_bytes, in_turns.payload_bytes);
            // The values for quantiles are thinned, and their extremes are not.
            assert_eq!(whole.cycle_ms.unwrap().max, in_turns.cycle_ms.unwrap().max);
        }
    }
}

#[test]
fn the_report_is_json() {
    let report =
        judge(pcap(&Sender { rounds: 40, ..Sender::default() }.tcp(), false, false, 1)[..50_000].to_vec());
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["flows"][0]["stack"], "TCP");
    assert_eq!(json["flows"][0]["data"]["loss"]["verdict"], "responsive");
    assert!(json["flows"][0]["data"]["assessments"][0]["window_signalled_bytes"].is_u64());
    assert!(json["error"]["offset"].as_u64().unwrap() < 50_000);
    assert_eq!(json["params"]["min_window_segments"], 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn damage_never_panics(
        ng in any::<bool>(),
        big in any::<bool>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let frames = Sender { rounds: 4, window: 8, ..Sender::default() }.tcp();
        let mut file = if ng { pcapng(&frames, big, 1) } else { pcap(&frames, big, true, 1) };
        for (at, value) in changes {
            let at = at.index(file.len());
            file[at] = value;
        }
        let length = file.len() as u64;
        let report = judge(file);
        prop_assert!(report.counters.packets <= frames.len() as u64 * 8);
        if let Some(error) = report.error {
            prop_assert!(error.offset() <= length);
        }
    }

    #[test]
    fn any_segments_in_any_order_never_panic(
        segments in proptest::collection::vec(
            (any::<bool>(), any::<u32>(), any::<u32>(), any::<u8>(), 0u32..70_000, 0u64..200,
             proptest::collection::vec((any::<u32>(), any::<u32>()), 0..4), any::<bool>()),
            0..200,
        ),
        near in any::<bool>(),
    ) {
        let mut time = EPOCH;
        let frames: Vec<Frame> = segments.into_iter().map(|(down, seq, ack, flags, payload, gap, sack, stamped)| {
            time += gap * MS;
            let (seq, ack) = if near { (seq % 100_000, ack % 100_000) } else { (seq, ack) };
            let sack = sack.into_iter().map(|(l, r)| if near { (l % 100_000, r % 100_000) } else { (l, r) }).collect();
            let segment = Tcp { seq, ack, flags, payload: payload.min(65_000), sack, stamp: stamped.then_some((ack, seq)), ..Tcp::default() };
            if down { segment.frame(time, SERVER, CLIENT) } else { segment.frame(time, CLIENT, SERVER) }
        }).collect();
        let report = judge(pcap(&frames, false, true, 1));
        prop_assert!(report.error.is_none());
        let counted: u64 = report.flows.iter()
            .map(|flow| flow.data.packets + flow.other.packets + flow.data.copies + flow.other.copies).sum();
        prop_assert_eq!(counted, frames.len() as u64);
    }
}
