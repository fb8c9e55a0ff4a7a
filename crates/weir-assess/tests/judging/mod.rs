//! Frames as a capture, judged.

use std::io::Cursor;

use weir_assess::{Options, Report, assess};
use weir_law::{Params, Preset};
use weir_testkit::captures::{Frame, pcap};

/// What is said of these frames, in the order of their times.
pub(crate) fn judged_by(frames: &[Frame], preset: Preset) -> Report {
    let mut frames = frames.to_vec();
    frames.sort_by_key(|frame| frame.time);
    let options = Options { params: Params::preset(preset), ..Options::default() };
    let report = assess(Cursor::new(pcap(&frames, false, true, 1)), &options);
    assert!(report.error.is_none(), "{:?}", report.error);
    report
}
