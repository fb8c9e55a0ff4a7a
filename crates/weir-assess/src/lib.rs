//! Judges the flows of a capture as a network with the responsiveness law would (CRQ paper section III-A).
//!
//! A bottleneck knows which direction it queues and which packets it dropped or marked; a capture does not say. So each
//! flow is judged in both directions, by two laws with the roles swapped, and the signals are those that the capture
//! shows: CE on the packets, and TCP's losses as `infer` finds them. A loss is known only when it is repaired, often a
//! round trip later, but counts for the cycle of the packet that was lost: hence the input is read twice. The first
//! reading finds the signals, the second runs the law and gives each signal right after its packet.
//!
//! The first reading runs ahead to the end of the input, or until it has found as many signals as are kept; then the
//! second one follows and takes them out. So memory is bounded by the flows that are kept and does not grow with the
//! input.

pub mod capture;
mod flows;
mod infer;
mod input;
mod judge;
mod plausible;
mod report;
mod signals;
mod space;
mod tcp;
mod track;

use std::cell::RefCell;
use std::io::{Read, Seek};

pub use infer::LossEvidence;
pub use report::{
    AssessmentRow, CaptureCounters, DirectionReport, EcnCounts, FlowReport, KindReport, Remark, Report,
    SpinReport, Spread, Stack,
};

use crate::capture::{CaptureError, CaptureReader};
use flows::Flows;
use input::{Place, counted};
use judge::{Judge, Reports};
use weir_law::Params;

/// How to assess, and how much memory to take for it.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The law's settings.
    pub params: Params,
    /// Flows, by addresses and ports, that are distinguished: 2 kB each, and 1 kB more with many judgements. Packets of
    /// further flows are counted and left out.
    pub max_flows: usize,
    /// Connections in the report, 1.5 kB each; reused addresses and ports make more of them than `max_flows`. More are
    /// counted and left out.
    pub max_reports: usize,
    /// What all flows together keep at a time: so many unacknowledged segments, so many signals, so many values for
    /// quantiles (and eight for each flow), and a quarter as many listed judgements (and eight for each direction).
    /// About 500 bytes each.
    pub max_kept: usize,
}

impl Options {
    /// With these settings, and room for `flows` flows.
    pub fn new(params: Params, flows: usize) -> Self {
        let twice = flows.saturating_mul(2);
        Self { params, max_flows: flows, max_reports: twice, max_kept: twice.max(1 << 19) }
    }
}

impl Default for Options {
    /// The law's default settings, and 65,536 flows.
    fn default() -> Self {
        Self::new(Params::default(), 65_536)
    }
}

/// Assesses the capture in `input`, from where it stands on. It is read by two readers in turn, which seek. A damaged
/// capture gives a report of what came before the damage, with the error in it.
pub fn assess<R: Read + Seek>(mut input: R, options: &Options) -> Report {
    let mut counters = CaptureCounters::default();
    let mut flows = Flows::new(options.max_flows, options.max_kept);
    let (reports, error) = match input.stream_position() {
        Ok(start) => {
            let input = RefCell::new(input);
            both_readings(|| Place::new(&input, start), options, &mut counters, &mut flows)
        }
        Err(source) => (Vec::new(), Some(CaptureError::NotSeekable { source })),
    };
    Report { params: options.params, counters, flows: reports, error }
}

/// Reads ahead and follows in turn; `place` makes a reader of the input from its start.
fn both_readings<R: Read>(
    place: impl Fn() -> R,
    options: &Options,
    counters: &mut CaptureCounters,
    flows: &mut Flows,
) -> (Reports, Option<CaptureError>) {
    let mut error = None;
    let mut ahead = CaptureReader::new(place()).map_err(|first| error = Some(first)).ok();
    let mut following: Option<(CaptureReader<R>, Judge)> = None;
    let mut judged = 0;
    loop {
        while !flows.full()
            && let Some(reader) = &mut ahead
        {
            match reader.next() {
                Ok(Some(captured)) => {
                    if let Some(packet) = counted(&captured, counters) {
                        flows.packet(&captured, &packet, counters);
                    }
                }
                end => {
                    error = end.err();
                    ahead = None;
                }
            }
        }
        let ended = ahead.is_none();
        if ended {
            flows.end(judged);
        } else {
            flows.settle(judged);
        }
        if judged == counters.packets {
            break;
        }
        let (reader, judge) = match &mut following {
            Some(following) => following,
            None => match CaptureReader::new(place()) {
                Ok(reader) => {
                    let room = if ended { flows.list.len() } else { options.max_flows };
                    following.insert((reader, Judge::new(options, room)))
                }
                Err(second) => return (Vec::new(), Some(second)),
            },
        };
        while judged < counters.packets && (ended || flows.crowded()) {
            match reader.next() {
                Ok(Some(captured)) => {
                    if let Some(packet) = captured.packet() {
                        judge.packet(&captured, &packet, flows);
                    }
                    judged += 1;
                }
                // The input has changed between the readings.
                end => {
                    error = Some(end.err().unwrap_or(CaptureError::Changed { offset: reader.offset() }));
                    ahead = None;
                    counters.packets = judged;
                }
            }
        }
        if ended {
            break;
        }
    }
    let Some((_, judge)) = following else { return (Vec::new(), error) };
    let (reports, left_out) = judge.finish(flows);
    counters.connections_left_out = left_out;
    (reports, error)
}
