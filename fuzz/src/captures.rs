//! A capture file: the reader and the assessment of its flows. libFuzzer's limits on time and memory hold for each
//! input.

use std::io::Cursor;

use weir_assess::capture::CaptureReader;
use weir_assess::{Options, assess};
use weir_law::{Params, Preset};

use crate::frame;

/// The presets take turns by the length of the file, so that a file alone tells which.
pub(crate) fn run(input: &[u8]) {
    let preset = [Preset::Paper, Preset::Comsys, Preset::Robust][input.len() % 3];
    let packets = read(input);
    let options = Options { max_kept: 4096, ..Options::new(Params::preset(preset), 256) };
    let report = assess(Cursor::new(input), &options);
    assert_eq!(report.counters.packets, packets, "the assessment reads other packets than the reader");
    assert!(report.flows.len() <= options.max_reports);
    let told: u64 = report.flows.iter().map(|flow| flow.data.packets + flow.other.packets).sum();
    assert!(told <= packets, "{told} packets of flows in a file of {packets}");
    serde_json::to_vec(&report).expect("a report is JSON");
}

/// Reads all packets and their headers; tells how many there are.
fn read(input: &[u8]) -> u64 {
    let Ok(mut reader) = CaptureReader::new(Cursor::new(input)) else { return 0 };
    let mut packets = 0;
    while let Ok(Some(captured)) = reader.next() {
        assert_eq!(captured.number, packets);
        assert!(captured.wire_bytes as usize >= captured.frame.len());
        if let Some((frame, wire, start)) = captured.view() {
            frame::check(&frame.to_vec().into_boxed_slice(), wire, start);
        }
        packets += 1;
    }
    assert!(reader.offset() <= input.len() as u64);
    packets
}
