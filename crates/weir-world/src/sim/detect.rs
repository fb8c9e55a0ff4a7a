//! Flows that look for fair queuing: their connections, and what they have found out.

use weir_cc::Setup;
use weir_core::{Duration, Seed, Time};
use weir_fq::{Finding, Shared};
use weir_report::result::DetectionResult;
use weir_scenario::Flow;

/// Payload bytes of a QUIC packet, as the simulator's endpoints send it.
const MSS: u32 = 1425;

/// With what the detector and the controllers of a flow begin; their draws are its own.
pub(super) fn setup(flow: &Flow, index: usize, seed: Seed) -> Setup {
    Setup {
        mss: MSS,
        initial_window: flow.end_options().initial_window,
        random: seed.stream(&format!("detector {index}")),
        rate: None,
    }
}

/// What a connection has found out when the run ended.
pub(super) fn result(flow: &str, shared: &Shared, end: Time) -> DetectionResult {
    let connection = shared.lock();
    let found = connection.findings();
    let since = |from: Option<Time>, to: Option<Time>| Some(to?.since(from?).as_secs_f64());
    let ends = found.changes.iter().skip(1).map(|(time, _)| *time).chain([end]);
    let fair = found.changes.iter().zip(ends).filter(|((_, finding), _)| *finding == Finding::FairQueued);
    let fair = fair.fold(Duration::ZERO, |sum, ((from, _), to)| sum + to.since(*from)).as_secs_f64();
    let decided = since(found.decided, Some(end)).unwrap_or(0.0);
    DetectionResult {
        flow: flow.to_owned(),
        detector: connection.detector().to_owned(),
        finding: found.verdict.finding.word().to_owned(),
        confidence: found.verdict.confidence,
        why: found.verdict.why.to_owned(),
        first_finding: found.changes.first().map(|(_, finding)| finding.word().to_owned()),
        first_s: since(found.began, found.decided),
        first_sent: found.sent.iter().sum(),
        first_lost: found.lost,
        detections: found.detections,
        changes: (found.changes.len() as u64).saturating_sub(1),
        controller: connection.controller().unwrap_or_default().to_owned(),
        fair_queued_time: if decided > 0.0 { fair / decided } else { 0.0 },
        history: found
            .changes
            .iter()
            .map(|(at, finding)| (at.as_secs_f64(), finding.word().to_owned()))
            .collect(),
    }
}
