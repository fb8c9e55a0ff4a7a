//! Gathers what a report says of one direction while the packets pass, and puts "not judged" into words.

use std::net::SocketAddr;

use weir_core::{Duration, Time};

use super::infer::LossEvidence;
use super::report::{
    AssessmentRow, DirectionReport, EcnCounts, KindReport, Remark, Sample, SpinReport, Stack,
};
use weir_law::FlowView;
use weir_law::Params;
use weir_law::ParsedPacket;
use weir_law::{Assessment, CycleEnd, Judgement, LawSink, Verdict, Votes};

/// Judgements listed per direction.
const MAX_ASSESSMENTS: usize = 10_000;
/// Judgements listed per direction where all flows together have too many.
const SURE_ASSESSMENTS: usize = 8;

/// What the law said of one packet: at most one cycle and one judgement.
#[derive(Debug, Default)]
pub(super) struct Heard {
    cycle: Option<CycleEnd>,
    assessment: Option<Assessment>,
}

impl Heard {
    /// Whether a cycle ended.
    pub(super) const fn any(&self) -> bool {
        self.cycle.is_some()
    }
}

impl LawSink for Heard {
    fn cycle(&mut self, end: &CycleEnd) {
        self.cycle = Some(*end);
    }

    fn assessment(&mut self, assessment: &Assessment) {
        self.assessment = Some(*assessment);
    }
}

#[derive(Debug, Default)]
struct Kind {
    signals: u64,
    votes: Votes,
    verdict: Verdict,
    responsive_cycles: u64,
    cycles_since_verdict: u64,
}

impl Kind {
    fn cycle(&mut self, votes: Votes, verdict: Verdict) {
        (self.votes, self.verdict) = (votes, verdict);
        self.responsive_cycles += u64::from(verdict == Verdict::Responsive);
        if verdict != Verdict::Unclassified || self.cycles_since_verdict > 0 {
            self.cycles_since_verdict += 1;
        }
    }

    fn report(&self, cycles: u64) -> KindReport {
        let share = |of: u64| (of > 0).then(|| self.responsive_cycles as f64 / of as f64);
        KindReport {
            signals: self.signals,
            votes: self.votes,
            verdict: self.verdict,
            score: share(cycles),
            score_since_verdict: share(self.cycles_since_verdict),
        }
    }
}

/// One direction of a flow while it is read.
#[derive(Debug)]
pub(super) struct Track {
    source: SocketAddr,
    destination: SocketAddr,
    pub(super) packets: u64,
    pub(super) copies: u64,
    pub(super) payload_bytes: u64,
    ip_bytes: u64,
    first: Option<Time>,
    last: Time,
    ecn: EcnCounts,
    pub(super) ece_packets: u64,
    cwr_packets: u64,
    excluded: u64,
    cycles: u64,
    lengths: Sample,
    windows: Sample,
    loss: Kind,
    mark: Kind,
    small_window: u64,
    partial_cycle: u64,
    spin: Option<SpinReport>,
    assessments: Vec<AssessmentRow>,
    assessments_left_out: u64,
}

impl Track {
    pub(super) fn new(source: SocketAddr, destination: SocketAddr) -> Self {
        Self {
            source,
            destination,
            packets: 0,
            copies: 0,
            payload_bytes: 0,
            ip_bytes: 0,
            first: None,
            last: Time::ZERO,
            ecn: EcnCounts::default(),
            ece_packets: 0,
            cwr_packets: 0,
            excluded: 0,
            cycles: 0,
            lengths: Sample::default(),
            windows: Sample::default(),
            loss: Kind::default(),
            mark: Kind::default(),
            small_window: 0,
            partial_cycle: 0,
            spin: None,
            assessments: Vec::new(),
            assessments_left_out: 0,
        }
    }

    /// Counts a packet of this direction. `excluded` says that the law's settings do not let it see the packet.
    pub(super) fn packet(&mut self, time: Time, packet: &ParsedPacket, excluded: bool) {
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.last = self.last.max(time);
        self.packets += 1;
        self.payload_bytes += packet.payload_bytes().0;
        self.ip_bytes += packet.ip_bytes().0;
        self.ecn.count(packet.ecn());
        self.excluded += u64::from(excluded);
        if let Some(tcp) = packet.tcp() {
            self.cwr_packets += u64::from(!tcp.syn() && tcp.flags & 0x80 != 0);
        }
        if let Some(spin) = packet.quic().and_then(|quic| quic.spin) {
            let seen = self.spin.get_or_insert(SpinReport { value: spin, ..SpinReport::default() });
            seen.packets += 1;
            seen.edges += u64::from(seen.value != spin);
            seen.value = spin;
        }
    }

    /// Counts signals that were given to the law.
    pub(super) fn signals(&mut self, losses: u32, marks: u32) {
        self.loss.signals += u64::from(losses);
        self.mark.signals += u64::from(marks);
    }

    /// Takes what the law said; `view` is the flow's state after it, and `room` says that more judgements can be
    /// listed. Returns whether one was.
    pub(super) fn heard(&mut self, heard: &Heard, view: Option<&FlowView>, began: Time, room: bool) -> bool {
        let Some(end) = heard.cycle else { return false };
        self.cycles += 1;
        if !end.first {
            self.lengths.push(end.duration.as_nanos());
            self.windows.push(end.window.0);
        }
        match end.judgement {
            Judgement::SmallWindow => self.small_window += 1,
            Judgement::PartialCycle => self.partial_cycle += 1,
            Judgement::NoSignal | Judgement::Voted => {}
        }
        if let Some(view) = view {
            self.loss.cycle(view.votes.loss, view.class.loss);
            self.mark.cycle(view.votes.mark, view.class.ecn);
        }
        let Some(assessment) = heard.assessment else { return false };
        if self.assessments.len() >= if room { MAX_ASSESSMENTS } else { SURE_ASSESSMENTS } {
            self.assessments_left_out += 1;
            return false;
        }
        self.assessments.push(AssessmentRow {
            time_ms: assessment.time.since(began).as_millis_f64(),
            cycle: assessment.cycle.0,
            window_signalled_bytes: assessment.window_signalled.0,
            window_between_bytes: assessment.window_between.0,
            window_bytes: assessment.window.0,
            losses: assessment.signals.loss,
            marks: assessment.signals.mark,
            loss_vote: assessment.vote.loss,
            mark_vote: assessment.vote.mark,
        });
        true
    }

    /// Lengths and windows of cycles that are kept for quantiles.
    pub(super) fn kept(&self) -> usize {
        self.lengths.kept() + self.windows.kept()
    }

    /// Keeps every second one of them.
    pub(super) fn thin(&mut self) {
        self.lengths.thin();
        self.windows.thin();
    }

    pub(super) const fn spins(&self) -> bool {
        self.spin.is_some()
    }

    pub(super) const fn span(&self) -> (Option<Time>, Time) {
        (self.first, self.last)
    }

    /// Closes the direction. `answers` are packets of the other one.
    pub(super) fn finish(
        self,
        stack: Stack,
        params: &Params,
        answers: u64,
        inferred: Option<LossEvidence>,
        handshake: Option<Duration>,
    ) -> DirectionReport {
        let seconds = self.first.map_or(0.0, |first| self.last.since(first).as_secs_f64());
        let not_judged = self.not_judged(stack, params, answers);
        let doubts = self.doubts(inferred.as_ref(), handshake);
        DirectionReport {
            source: self.source,
            destination: self.destination,
            packets: self.packets,
            copies: self.copies,
            payload_bytes: self.payload_bytes,
            ip_bytes: self.ip_bytes,
            mean_rate_bits_per_second: (seconds > 0.0).then(|| self.payload_bytes as f64 * 8.0 / seconds),
            ecn: self.ecn,
            ece_packets: self.ece_packets,
            cwr_packets: self.cwr_packets,
            cycles: self.cycles,
            cycle_ms: self.lengths.spread(1e6),
            window_bytes: self.windows.spread(1.0),
            inferred,
            loss: self.loss.report(self.cycles),
            mark: self.mark.report(self.cycles),
            withheld_small_window: self.small_window,
            withheld_partial_cycle: self.partial_cycle,
            spin: self.spin,
            assessments: self.assessments,
            assessments_left_out: self.assessments_left_out,
            not_judged,
            doubts,
        }
    }

    fn not_judged(&self, stack: Stack, params: &Params, answers: u64) -> Vec<Remark> {
        let remark = |code, text: &'static str| vec![Remark { code, text: text.into() }];
        let worded = |code, text: String| vec![Remark { code, text: text.into() }];
        if self.loss.verdict != Verdict::Unclassified || self.mark.verdict != Verdict::Unclassified {
            return Vec::new();
        }
        if self.payload_bytes == 0 {
            return remark("no-payload", "no payload in this direction");
        }
        if self.excluded == self.packets {
            return remark("excluded", "the parser of this parameter set does not read its packets");
        }
        match stack {
            Stack::Udp => return remark("not-quic", "UDP that is not QUIC has no cycles"),
            Stack::Tcp if answers == 0 => {
                return remark("one-direction", "one direction only: no acknowledgements in the capture");
            }
            Stack::Tcp => {}
            Stack::Quic | Stack::MaybeQuic => match self.spin {
                None => {
                    return remark("no-short-header", "no QUIC packets with a short header, so no spin bit");
                }
                Some(spin) if spin.edges == 0 => {
                    let text =
                        format!("spin bit constant: {} in {} packets", u8::from(spin.value), spin.packets);
                    return worded("spin-constant", text);
                }
                Some(spin) if spin.looks_random() => {
                    let text =
                        format!("spin bit looks random: {} edges in {} packets", spin.edges, spin.packets);
                    return worded("spin-random", text);
                }
                Some(_) => {}
            },
        }
        if self.loss.signals + self.mark.signals == 0 {
            return match stack {
                Stack::Tcp => remark("no-signal", "no loss or mark visible"),
                _ => remark("no-signal", "no mark visible, and losses of QUIC cannot be seen in a capture"),
            };
        }
        let mut out = Vec::new();
        if self.small_window > 0 {
            let limit = u64::from(params.mss) * u64::from(params.min_window_segments);
            let text = format!("windows below {limit} B in {} cycles with a signal", self.small_window);
            out.extend(worded("small-window", text));
        }
        if self.partial_cycle > 0 {
            out.extend(remark("first-cycle", "signal in the first cycle, whose beginning was not seen"));
        }
        if out.is_empty() {
            out.extend(remark("too-short", "no two whole cycles after a signal"));
        }
        out
    }

    fn doubts(&self, inferred: Option<&LossEvidence>, handshake: Option<Duration>) -> Vec<Remark> {
        let mut out = Vec::new();
        let mut doubt = |code, text: String| out.push(Remark { code, text: text.into() });
        if let Some(spin) = self.spin.filter(SpinReport::looks_random) {
            let text = format!("spin bit looks random: {} edges in {} packets", spin.edges, spin.packets);
            doubt("spin-random", text);
        }
        if self.copies > 0 {
            let text = format!("{} packets are in the capture twice: the copies were left out", self.copies);
            doubt("copies", text);
        }
        let median = self.lengths.clone().spread(1.0).map_or(0.0, |spread| spread.p50);
        if let Some(handshake) = handshake.map(|rtt| rtt.as_nanos() as f64)
            && median > 0.0
            && median < handshake * 0.6
        {
            let text = "cycles are shorter than the handshake's round trip, as near a receiver that sends no data: \
                        the judgement may come before the answer";
            doubt("half-cycles", text.to_owned());
        }
        let Some(inferred) = inferred else { return out };
        if inferred.missed_bytes > 0 {
            let text = format!(
                "{} B were acknowledged but not captured: windows are too small",
                inferred.missed_bytes
            );
            doubt("missed-bytes", text);
        }
        if inferred.implausible > 0 {
            let text = format!(
                "{} packets have sequence numbers far from all others, as forged or damaged ones do: the search for \
                 losses left them out",
                inferred.implausible
            );
            doubt("implausible", text);
        }
        if inferred.forgotten > 0 {
            let text = format!("{} segments or signals were too many to keep", inferred.forgotten);
            doubt("forgotten", text);
        }
        out
    }
}
