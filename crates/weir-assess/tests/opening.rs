//! How connections open: handshakes that take more than three packets, and SYNs that open nothing.

use std::io::Cursor;

use weir_assess::{DirectionReport, FlowReport, Options, Report, assess};
use weir_law::{Params, Preset};
use weir_testkit::captures::*;

fn judged_by(frames: &[Frame], preset: Preset) -> Report {
    let mut frames = frames.to_vec();
    frames.sort_by_key(|frame| frame.time);
    let options = Options { params: Params::preset(preset), ..Options::default() };
    let report = assess(Cursor::new(pcap(&frames, false, true, 1)), &options);
    assert!(report.error.is_none(), "{:?}", report.error);
    report
}

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
