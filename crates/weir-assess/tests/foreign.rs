//! Packets in a flow's name that are not its own, and packets of its own that look like those: forged and damaged ones,
//! gaps in the capture, and ports that are used again.

mod judging;

use weir_assess::{DirectionReport, LossEvidence, Report};
use weir_law::{Preset, Verdict};
use weir_testkit::captures::*;

use judging::judged_by;

fn judged(frames: &[Frame]) -> Report {
    judged_by(frames, Preset::Paper)
}

fn only(report: &Report) -> &DirectionReport {
    assert_eq!(report.flows.len(), 1, "{:#?}", report.flows);
    &report.flows[0].data
}

fn doubts(direction: &DirectionReport) -> Vec<&'static str> {
    direction.doubts.iter().map(|doubt| doubt.code).collect()
}

/// What is sent in the server's name.
fn forged(time: u64, seq: u32, flags: u8, payload: u32) -> Frame {
    Tcp { seq, ack: 1, flags, payload, ..Tcp::default() }.frame(time, SERVER, CLIENT)
}

/// What is sent in the client's name.
fn forged_answer(time: u64, seq: u32, ack: u32, flags: u8) -> Frame {
    Tcp { seq, ack, flags, ..Tcp::default() }.frame(time, CLIENT, SERVER)
}

/// Between two packets in the twelfth round trip.
const AMID: u64 = EPOCH + 12 * RTT + 2_500_000;

#[test]
fn one_foreign_packet_changes_no_verdict() {
    for point in [Point::BeforeBottleneck, Point::AfterBottleneck] {
        for preset in [Preset::Paper, Preset::Robust] {
            let sender = Sender { point, ..Sender::default() };
            let frames = sender.tcp();
            let alone = judged_by(&frames, preset);
            let alone = only(&alone);
            assert_eq!(alone.loss.signals, u64::from(sender.signals()));
            let at = |offset: u32| sender.isn.wrapping_add(offset);
            let foreign = [
                ("data ahead", forged(AMID, at(1 << 29), ACK, 1)),
                ("data far ahead", forged(AMID, at(3 << 29), ACK, 1)),
                ("data behind", forged(AMID, at(3 << 30), ACK, 1_448)),
                ("an answer to another SYN", forged(AMID, at(1 << 28), SYN | ACK, 0)),
                ("an acknowledgement ahead", forged_answer(AMID, 1, at(1 << 29), ACK)),
                ("an acknowledgement far behind", forged_answer(AMID, 1, at(3 << 30), ACK)),
            ];
            for (what, packet) in foreign {
                let report = judged_by(&[&frames[..], &[packet]].concat(), preset);
                let data = only(&report);
                assert_eq!((data.loss, data.mark), (alone.loss, alone.mark), "{what}");
                let expected = LossEvidence { implausible: 1, ..alone.inferred.unwrap() };
                assert_eq!(data.inferred, Some(expected), "{what}");
                assert!(doubts(data).contains(&"implausible"), "{what}: {:?}", data.doubts);
            }
        }
    }
}

#[test]
fn a_damaged_number_is_the_loss_of_one_segment() {
    let sender = Sender::default();
    let mut frames = sender.tcp();
    let from_server = |frame: &Frame| frame.bytes[26..30] == SERVER.0 && frame.wire > 1_000;
    for bit in [18, 25, 28, 31] {
        let at = (0..frames.len()).filter(|at| from_server(&frames[*at])).nth(300).unwrap();
        let whole = frames[at].clone();
        // The receiver drops it for its checksum, and the sender repairs that a round trip later.
        frames[at].bytes[38 + 3 - bit / 8] ^= 1 << (bit % 8);
        let repair = Frame { time: whole.time + RTT, ..whole.clone() };
        let report = judged(&[&frames[..], &[repair]].concat());
        frames[at] = whole;
        let seen = only(&report).inferred.unwrap();
        let lost = seen.after_capture_point + seen.before_capture_point;
        assert!(lost.abs_diff(u64::from(sender.signals())) <= 1, "bit {bit}: {seen:?}");
        // One that is not far behind could be an old packet.
        assert_eq!(seen.implausible, u64::from(bit > 18), "bit {bit}");
        assert_eq!(only(&report).loss.verdict, Verdict::Responsive, "bit {bit}");
    }
}

/// Whoever forges a whole row of packets, answers included, is believed until the connection goes on.
#[test]
fn a_forged_row_is_not_believed_for_long() {
    for stamps in [true, false] {
        let sender = Sender { stamps, ..Sender::default() };
        for offset in [1 << 29, 3 << 29, 3 << 30] {
            let mut frames = sender.tcp();
            let there = sender.isn.wrapping_add(offset);
            for number in 0..20 {
                let seq = there.wrapping_add(number * 1_000);
                frames.push(forged(AMID + u64::from(number), seq, ACK, 1_000));
                frames.push(forged_answer(AMID + u64::from(number), 1, seq.wrapping_add(1_000), ACK));
            }
            let report = judged(&frames);
            let seen = only(&report).inferred.unwrap();
            let lost = seen.after_capture_point + seen.before_capture_point;
            assert!(lost.abs_diff(u64::from(sender.signals())) <= 1, "{offset}: {seen:?}");
            assert_eq!(only(&report).loss.verdict, Verdict::Responsive);
        }
    }
}

#[test]
fn ports_used_again_without_a_syn_go_on_anywhere() {
    for (first_isn, second_isn) in [(3_000_000_000, 2_000_000_000), (1_000, 40_000_000), (40_000_000, 1_000)]
    {
        let first = Sender { rounds: 40, isn: first_isn, ..Sender::default() };
        let second = Sender { isn: second_isn, start: EPOCH + 60_000 * MS, rounds: 60, ..first };
        let frames = [&first.tcp()[..], &second.tcp()[3..]].concat();
        let report = judged(&frames);
        let seen = only(&report).inferred.unwrap();
        assert_eq!(seen.after_capture_point, u64::from(first.signals() + second.signals()), "{seen:?}");
        assert_eq!((seen.needless, seen.implausible), (0, 0), "{first_isn} {second_isn}");
    }
}

#[test]
fn what_the_capture_missed_is_a_gap_however_long() {
    let sender = Sender::default();
    let whole = sender.tcp();
    let missed = |from: u32, to: u32| {
        let within = EPOCH + u64::from(from) * RTT..EPOCH + u64::from(to) * RTT;
        whole.iter().filter(|frame| !within.contains(&frame.time)).cloned().collect::<Vec<Frame>>()
    };
    let whole = judged(&whole);
    for rounds in [1, 5, 20] {
        let report = judged(&missed(18, 18 + rounds));
        let (seen, all) = (only(&report).inferred.unwrap(), only(&whole).inferred.unwrap());
        let lost = all.after_capture_point - seen.after_capture_point;
        assert_eq!(lost, u64::from(rounds / 10), "{rounds}: those in the gap alone: {seen:?}");
        assert_eq!((seen.before_capture_point, seen.implausible), (0, 0), "{rounds}: {seen:?}");
        let bytes = only(&whole).payload_bytes - only(&report).payload_bytes;
        assert!(seen.missed_bytes.abs_diff(bytes) <= 4 * u64::from(MSS), "{rounds}: {seen:?} {bytes}");
        assert!(doubts(only(&report)).contains(&"missed-bytes"));
    }
}

/// Data in a connection without handshake; `at` in milliseconds.
fn data(at: u64, seq: u32, payload: u32) -> Frame {
    let stamp = Some((at as u32, 1));
    Tcp { seq, ack: 1, flags: ACK, payload, stamp, ..Tcp::default() }.frame(EPOCH + at * MS, SERVER, CLIENT)
}

fn answer(at: u64, ack: u32, sack: &[(u32, u32)]) -> Frame {
    Tcp { seq: 1, ack, flags: ACK, sack: sack.to_vec(), ..Tcp::default() }.frame(
        EPOCH + at * MS,
        CLIENT,
        SERVER,
    )
}

/// More than 64 kB are lost in a row, and repaired.
#[test]
fn a_burst_of_losses_is_no_foreign_packet() {
    let lost = 100;
    let repairs: Vec<Frame> =
        (0..lost).map(|number| data(100 + number, 1_000 + number as u32 * 1_000, 1_000)).collect();
    let behind = |number: u64| data(2 + number / 4, (1 + lost as u32 + number as u32) * 1_000, 1_000);
    // Either the receiver says that it has what came behind them, or many come behind them.
    let told = [
        vec![data(0, 0, 1_000), answer(1, 1_000, &[])],
        (0..3).map(behind).collect(),
        vec![answer(30, 1_000, &[(101_000, 104_000)])],
    ];
    let many = [vec![data(0, 0, 1_000), answer(1, 1_000, &[])], (0..12).map(behind).collect()];
    let silent = [vec![data(0, 0, 1_000)], (0..12).map(behind).collect()];
    for before in [told.concat(), many.concat(), silent.concat()] {
        let report = judged(&[before, repairs.clone()].concat());
        let seen = only(&report).inferred.unwrap();
        assert_eq!((seen.before_capture_point, seen.implausible), (lost, 0), "{seen:?}");
    }
}

/// A sender that goes back behind what was acknowledged here, as one does whose acknowledgements are lost further on.
#[test]
fn old_packets_move_nothing() {
    let mut frames: Vec<Frame> = (0..300).map(|n| data(u64::from(n), n * 1_000, 1_000)).collect();
    frames.extend((1..=300).map(|n| answer(u64::from(n), n * 1_000, &[])));
    frames.extend((0..150).map(|n| data(600 + u64::from(n), n * 1_000, 1_000)));
    frames.extend((0..150u32).map(|n| answer(601 + u64::from(n), 300_000, &[])));
    frames.extend((300..310).map(|n| data(900 + u64::from(n), n * 1_000, 1_000)));
    // One more that was lost behind the capture point.
    frames.push(data(1_500, 305_000, 1_000));
    let report = judged(&frames);
    let seen = only(&report).inferred.unwrap();
    let expected = LossEvidence { needless: 150, after_capture_point: 1, ..LossEvidence::default() };
    assert_eq!(seen, expected);
}
