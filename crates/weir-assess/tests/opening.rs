//! How connections open: handshakes that take more than three packets, and SYNs that open nothing.

mod judging;

use weir_assess::{DirectionReport, FlowReport, Report};
use weir_law::{Preset, Verdict};
use weir_testkit::captures::*;

use judging::judged_by;

fn only(report: &Report) -> &FlowReport {
    assert_eq!(report.flows.len(), 1, "{:#?}", report.flows);
    &report.flows[0]
}

fn same_losses(one: &DirectionReport, other: &DirectionReport, what: &str) {
    assert_eq!((one.loss, one.inferred), (other.loss, other.inferred), "{what}");
}

/// The answer to the SYN is lost behind the capture point and sent again after a second, or what acknowledges it comes
/// a second late: neither makes the round trip longer, within half of which a repair is none.
#[test]
fn what_the_handshake_waits_for_is_no_round_trip() {
    for point in [Point::BeforeBottleneck, Point::AfterBottleneck] {
        for stamps in [true, false] {
            let frames = Sender { point, stamps, ..Sender::default() }.tcp();
            let alone = judged_by(&frames, Preset::Paper);
            let at = |frame: &Frame, time: u64| Frame { time, ..frame.clone() };

            let mut again = frames.clone();
            again[0].time -= 1_000 * MS;
            again.push(at(&frames[1], EPOCH - 999 * MS));
            let report = judged_by(&again, Preset::Paper);
            same_losses(&only(&report).data, &only(&alone).data, "the answer again");
            assert_eq!(only(&report).handshake_rtt_ms, Some(40.0));

            let mut asked_again = frames.clone();
            asked_again.push(at(&frames[0], EPOCH - 1_000 * MS));
            asked_again.push(at(&frames[1], EPOCH - 999 * MS));
            let report = judged_by(&asked_again, Preset::Paper);
            same_losses(&only(&report).data, &only(&alone).data, "the SYN again");
            assert_eq!(only(&report).handshake_rtt_ms, Some(40.0));

            let mut late = frames.clone();
            late[..2].iter_mut().for_each(|frame| frame.time -= 1_000 * MS);
            let report = judged_by(&late, Preset::Paper);
            same_losses(&only(&report).data, &only(&alone).data, "the acknowledgement late");
            assert_eq!(only(&report).handshake_rtt_ms, Some(1_040.0), "it did take that");
        }
    }
}

fn syn(time: u64, from: ([u8; 4], u16), to: ([u8; 4], u16), seq: u32) -> Frame {
    Tcp { seq, flags: SYN, mss: Some(500), ..Tcp::default() }.frame(time, from, to)
}

/// Between two packets in the fortieth round trip.
const AMID: u64 = EPOCH + 40 * RTT + 2_500_000;

#[test]
fn a_syn_that_nobody_answers_opens_nothing() {
    for congestion in [Congestion::Loss, Congestion::Mark] {
        for preset in [Preset::Paper, Preset::Robust] {
            let frames = Sender { congestion, ..Sender::default() }.tcp();
            let alone = judged_by(&frames, preset);
            let alone = only(&alone);
            for (from, to) in [(SERVER, CLIENT), (CLIENT, SERVER)] {
                let report = judged_by(&[&frames[..], &[syn(AMID, from, to, 123_456_789)]].concat(), preset);
                let flow = only(&report);
                same_losses(&flow.data, &alone.data, "a SYN");
                assert_eq!((flow.data.mark, flow.data.doubts.len()), (alone.data.mark, 0));
                assert_eq!(flow.handshake_rtt_ms, alone.handshake_rtt_ms);
                assert_eq!(flow.data.assessments, alone.data.assessments);
            }
            // Nor does an answer with another number, to the SYN that was answered.
            let ack = u32::from_be_bytes(frames[1].bytes[42..46].try_into().unwrap());
            let forged = Tcp { seq: 1, ack, flags: SYN | ACK, ..Tcp::default() };
            let report = judged_by(&[&frames[..], &[forged.frame(AMID, SERVER, CLIENT)]].concat(), preset);
            let flow = only(&report);
            assert_eq!((flow.data.loss, flow.data.mark), (alone.data.loss, alone.data.mark));
            assert_eq!(flow.handshake_rtt_ms, alone.handshake_rtt_ms);
        }
    }
}

/// The SYN is sent again with another number, as by a client that gave up and came back: what is answered opens.
#[test]
fn the_answered_one_of_two_syns_opens() {
    let first = Sender { rounds: 40, ..Sender::default() };
    let second = Sender { isn: 12_345, start: EPOCH + 10_000 * MS, responsive: false, ..first };
    let forged = syn(second.start + MS / 2, CLIENT, SERVER, 99);
    let early = syn(second.start - 3_000 * MS, CLIENT, SERVER, 77);
    for stray in [vec![], vec![early]] {
        let report = judged_by(&[first.tcp(), second.tcp(), stray].concat(), Preset::Paper);
        assert_eq!(report.flows.len(), 2);
        for flow in &report.flows {
            let sender = if flow.first_packet_ns.as_nanos() == first.start { first } else { second };
            assert_eq!(flow.data.inferred.unwrap().after_capture_point, u64::from(sender.signals()));
            let verdict = if sender.responsive { Verdict::Responsive } else { Verdict::Unresponsive };
            assert_eq!((flow.data.loss.verdict, flow.handshake_rtt_ms), (verdict, Some(40.0)));
        }
    }
    // One that comes between a SYN and its answer hides it, and the connections stay one.
    let report = judged_by(&[first.tcp(), second.tcp(), vec![forged]].concat(), Preset::Paper);
    let seen = only(&report).data.inferred.unwrap();
    assert_eq!(seen.after_capture_point, u64::from(first.signals() + second.signals()), "{seen:?}");
}

/// Where the capture has one direction alone there are no answers: data that goes on from a SYN bears it out.
#[test]
fn one_direction_opens_by_what_follows_the_syn() {
    let sent = |time: u64, seq: u32| {
        Tcp { seq, flags: ACK, payload: 500, ..Tcp::default() }.frame(time, CLIENT, SERVER)
    };
    let connection = |start: u64, isn: u32| {
        let data = (0..10).map(move |n| sent(start + (1 + u64::from(n)) * MS, isn + 1 + n * 500));
        std::iter::once(syn(start, CLIENT, SERVER, isn)).chain(data).collect::<Vec<Frame>>()
    };
    let (first, second) = (connection(EPOCH, 1_000), connection(EPOCH + 1_000 * MS, 900_000_000));
    assert_eq!(judged_by(&[first.clone(), second].concat(), Preset::Paper).flows.len(), 2);
    let lone = syn(EPOCH + 1_000 * MS, CLIENT, SERVER, 900_000_000);
    let report =
        judged_by(&[first, vec![lone], vec![sent(EPOCH + 2_000 * MS, 6_001)]].concat(), Preset::Paper);
    assert_eq!(only(&report).data.payload_bytes, 11 * 500);
}
