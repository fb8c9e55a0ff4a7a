//! What flows that look for fair queuing have found out, the same in every world.

use weir_core::{Duration, Time};
use weir_fq::{Finding, Findings};
use weir_report::result::DetectionResult;

/// What a connection has found out when the run ended.
pub(crate) fn result(
    flow: &str,
    [detector, controller]: [&str; 2],
    found: &Findings,
    end: Time,
) -> DetectionResult {
    let since = |from: Option<Time>, to: Option<Time>| Some(to?.since(from?).as_secs_f64());
    let ends = found.changes.iter().skip(1).map(|(time, _)| *time).chain([end]);
    let fair = found.changes.iter().zip(ends).filter(|((_, finding), _)| *finding == Finding::FairQueued);
    let fair = fair.fold(Duration::ZERO, |sum, ((from, _), to)| sum + to.since(*from)).as_secs_f64();
    let decided = since(found.decided, Some(end)).unwrap_or(0.0);
    DetectionResult {
        flow: flow.to_owned(),
        detector: detector.to_owned(),
        finding: found.verdict.finding.word().to_owned(),
        confidence: found.verdict.confidence,
        why: found.verdict.why.to_owned(),
        first_finding: found.changes.first().map(|(_, finding)| finding.word().to_owned()),
        first_s: since(found.began, found.decided),
        first_sent: found.sent.iter().sum(),
        first_lost: found.lost,
        detections: found.detections,
        changes: (found.changes.len() as u64).saturating_sub(1),
        controller: controller.to_owned(),
        fair_queued_time: if decided > 0.0 { fair / decided } else { 0.0 },
        history: found
            .changes
            .iter()
            .map(|(at, finding)| (at.as_secs_f64(), finding.word().to_owned()))
            .collect(),
    }
}
