//! What was found out of a path, as JSON and in words.

use serde::Serialize;
use weir_core::Duration;
use weir_fq::{Findings, SubFlow};
use weir_transport::{Departed, Lateness};

/// What was found out; `docs/reference/probe.md` says what each key means.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    finding: &'static str,
    confidence: f64,
    why: &'static str,
    rate_bits_per_second: Option<u64>,
    min_rtt_ms: Option<f64>,
    detector: &'static str,
    detections: u64,
    changes: usize,
    took_s: Option<f64>,
    heavy_packets: u64,
    light_packets: u64,
    lost_packets: u64,
    heavy_port: u16,
    light_port: u16,
    departures: &'static str,
    departures_dropped: u64,
    departures_note: Option<String>,
    late_us_p50: Option<f64>,
    late_us_p99: Option<f64>,
    late_us_max: Option<f64>,
}

impl Found {
    pub(super) fn new(
        findings: &Findings,
        detector: &'static str,
        ports: [u16; 2],
        lateness: Option<Lateness>,
        departed: &Departed,
    ) -> Self {
        let late =
            |of: fn(&Lateness) -> Duration| lateness.as_ref().map(|late| of(late).as_nanos() as f64 / 1e3);
        let took = findings.began.zip(findings.decided).map(|(began, decided)| decided.since(began));
        Self {
            finding: findings.verdict.finding.word(),
            confidence: findings.verdict.confidence,
            why: findings.verdict.why,
            rate_bits_per_second: findings.rate.map(weir_core::Rate::bits_per_sec),
            min_rtt_ms: findings.min_rtt.map(weir_core::Duration::as_millis_f64),
            detector,
            detections: findings.detections,
            changes: findings.changes.len().saturating_sub(1),
            took_s: took.map(weir_core::Duration::as_secs_f64),
            heavy_packets: findings.sent[SubFlow::Heavy.index()],
            light_packets: findings.sent[SubFlow::Light.index()],
            lost_packets: findings.lost,
            heavy_port: ports[0],
            light_port: ports[1],
            departures: departed.by,
            departures_dropped: departed.dropped,
            departures_note: departed.note.clone(),
            late_us_p50: late(|late| late.half),
            late_us_p99: late(|late| late.most),
            late_us_max: late(|late| late.worst),
        }
    }
}

/// A finding in a few words: `fair-queued (99.9 %, by order)`.
pub(super) fn in_short(findings: &Findings) -> String {
    let verdict = &findings.verdict;
    match (findings.detections, verdict.why) {
        (0, _) => "nothing found out yet".to_owned(),
        (_, "") => format!("{} whether it is fair-queued", verdict.finding.word()),
        (_, why) => format!("{} ({}, by {why})", verdict.finding.word(), percent(verdict.confidence)),
    }
}

/// A probability, never rounded up to certainty.
pub(super) fn percent(probability: f64) -> String {
    let percent = probability * 100.0;
    let digits = if percent >= 99.0 { 2 } else { 1 };
    let scale = 10_f64.powi(digits);
    format!("{:.*} %", digits as usize, (percent * scale).floor() / scale)
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn nothing_is_certain_by_rounding() {
        for (probability, words) in
            [(0.999_99, "99.99 %"), (0.9967, "99.67 %"), (0.5, "50.0 %"), (1.0, "100.00 %")]
        {
            assert_eq!(percent(probability), words);
        }
    }
}
