//! What the assessment of a capture says: plain data for JSON and tables. Units are in the names.

use std::borrow::Cow;
use std::net::SocketAddr;

use serde::{Serialize, Serializer};
use weir_core::{Ecn, Time};

use super::infer::LossEvidence;
use crate::capture::CaptureError;
use weir_law::Params;
use weir_law::{Verdict, Votes};

/// The assessment of a capture.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The law's settings.
    pub params: Params,
    /// What was in the file.
    pub counters: CaptureCounters,
    /// The flows, largest first.
    pub flows: Vec<Box<FlowReport>>,
    /// Why the file could not be read to its end. All packets before that are in the report.
    pub error: Option<CaptureError>,
}

/// What was in the file, and what of it belongs to no flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CaptureCounters {
    /// Packets that were read.
    pub packets: u64,
    /// Frames that are not IP.
    pub not_ip: u64,
    /// Packets with a header cut short.
    pub truncated: u64,
    /// Packets whose lengths contradict each other.
    pub malformed: u64,
    /// Fragments other than first ones; they have no ports.
    pub fragments: u64,
    /// IP packets of other protocols than TCP and UDP.
    pub other_protocols: u64,
    /// Packets that were read inside of MPLS, GRE or IP in IP.
    pub tunnelled: u64,
    /// IEEE 802.11 data that is encrypted.
    pub wifi_encrypted: u64,
    /// Other IEEE 802.11 frames without an IP packet that can be read: management, control, fragments, aggregates.
    pub wifi_other: u64,
    /// MPLS without IP or Ethernet behind the labels.
    pub mpls: u64,
    /// GRE without IP, or with options that are not read.
    pub gre: u64,
    /// PPP that carries no plain IP: control, compressed or multilink.
    pub ppp: u64,
    /// Packets in more layers than are opened.
    pub too_deep: u64,
    /// Packets of link types that are not read.
    pub other_links: u64,
    /// One of those link types (its LINKTYPE value).
    pub other_link: Option<u16>,
    /// Packets without a time of their own; they got that of the packet before.
    pub without_time: u64,
    /// Packets with an earlier time than the packet before.
    pub backwards: u64,
    /// Packets of flows beyond the number that is kept.
    pub left_out: u64,
    /// Connections beyond the number that is reported.
    pub connections_left_out: u64,
}

/// What a flow looks like from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stack {
    /// TCP.
    Tcp,
    /// QUIC: an Initial packet of version 1 or 2 was seen.
    Quic,
    /// UDP with QUIC's fixed bit, without an Initial: QUIC from before the capture, another version, or neither.
    MaybeQuic,
    /// Other UDP.
    Udp,
}

impl Stack {
    /// The name in tables and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Quic => "QUIC",
            Self::MaybeQuic => "QUIC?",
            Self::Udp => "UDP",
        }
    }
}

impl Serialize for Stack {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One connection, or all that was seen of one.
#[derive(Clone, Debug, Serialize)]
pub struct FlowReport {
    /// What it looks like.
    pub stack: Stack,
    /// Nanoseconds since 1970 of its first packet.
    pub first_packet_ns: Time,
    /// From its first to its last packet.
    pub duration_ms: f64,
    /// From the SYN to the end of TCP's three-way handshake: the round trip without payload.
    pub handshake_rtt_ms: Option<f64>,
    /// The direction with the larger payload.
    pub data: DirectionReport,
    /// The other direction, judged likewise.
    pub other: DirectionReport,
}

/// One direction of a flow, judged as if it went through a bottleneck where the capture was made.
#[derive(Clone, Debug, Serialize)]
pub struct DirectionReport {
    /// The sender.
    pub source: SocketAddr,
    /// The receiver.
    pub destination: SocketAddr,
    /// Packets, without the copies.
    pub packets: u64,
    /// Packets that the capture has twice, from a second interface for example; left out of all other numbers.
    pub copies: u64,
    /// Bytes behind the TCP or UDP header.
    pub payload_bytes: u64,
    /// Bytes from the IP header on.
    pub ip_bytes: u64,
    /// Payload over the time from this direction's first to its last packet.
    pub mean_rate_bits_per_second: Option<f64>,
    /// Packets by ECN codepoint.
    pub ecn: EcnCounts,
    /// Segments from the receiver with ECE, SYNs aside: it echoes marks.
    pub ece_packets: u64,
    /// Segments of this direction with CWR, SYNs aside: the sender answers the echo.
    pub cwr_packets: u64,
    /// Cycles that ended, the first and partial one included.
    pub cycles: u64,
    /// Length of the whole cycles: the round trip time as the law saw it.
    pub cycle_ms: Option<Spread>,
    /// Payload bytes per whole cycle.
    pub window_bytes: Option<Spread>,
    /// How the losses were inferred; TCP only.
    pub inferred: Option<LossEvidence>,
    /// Judged by losses.
    pub loss: KindReport,
    /// Judged by CE marks.
    pub mark: KindReport,
    /// Signals not judged because the window was below the minimum, in cycles.
    pub withheld_small_window: u64,
    /// Signals not judged because they fell into the first, partial cycle, in cycles.
    pub withheld_partial_cycle: u64,
    /// QUIC's spin bit.
    pub spin: Option<SpinReport>,
    /// The judgements with their inputs.
    pub assessments: Vec<AssessmentRow>,
    /// Judgements beyond the number that is listed.
    pub assessments_left_out: u64,
    /// Why there is no verdict; empty if there is one.
    pub not_judged: Vec<Remark>,
    /// What makes the result doubtful.
    pub doubts: Vec<Remark>,
}

/// Packets by ECN codepoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EcnCounts {
    /// Not ECN-capable.
    pub not_ect: u64,
    /// ECT(0).
    pub ect0: u64,
    /// ECT(1).
    pub ect1: u64,
    /// Congestion experienced.
    pub ce: u64,
}

impl EcnCounts {
    pub(super) fn count(&mut self, ecn: Ecn) {
        match ecn {
            Ecn::NotEct => self.not_ect += 1,
            Ecn::Ect0 => self.ect0 += 1,
            Ecn::Ect1 => self.ect1 += 1,
            Ecn::Ce => self.ce += 1,
        }
    }
}

/// Quantiles of a quantity over the cycles; exact up to 4096 cycles, from an even sample of them beyond or where all
/// flows together have very many; extremes always.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

/// The outcome for one kind of signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct KindReport {
    /// Signals: lost segments, or packets that were marked.
    pub signals: u64,
    /// The votes.
    pub votes: Votes,
    /// What the majority says.
    pub verdict: Verdict,
    /// Share of all cycles at whose end the flow was classified as responsive (the paper's responsiveness score).
    pub score: Option<f64>,
    /// The same over the cycles from the first verdict on.
    pub score_since_verdict: Option<f64>,
}

/// The spin bit of one direction's short-header packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SpinReport {
    /// Short-header packets.
    pub packets: u64,
    /// Changes of the bit from packet to packet.
    pub edges: u64,
    /// The bit of the last one.
    pub value: bool,
}

impl SpinReport {
    /// Every other packet an edge is what a random bit gives; a spinning one has an edge per round trip.
    pub(super) const fn looks_random(&self) -> bool {
        self.packets >= 20 && self.edges * 5 >= self.packets * 2
    }
}

/// A judgement: did the window shrink in the two cycles after a signal?
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AssessmentRow {
    /// Since the flow's first packet.
    pub time_ms: f64,
    /// The cycle n that ended, counted from the flow's entry.
    pub cycle: u32,
    /// W\[n-2\], of the cycle with the signals.
    pub window_signalled_bytes: u64,
    /// W\[n-1\]; it does not count.
    pub window_between_bytes: u64,
    /// W\[n\].
    pub window_bytes: u64,
    /// Lost segments in cycle n-2.
    pub losses: u32,
    /// Marked packets in cycle n-2.
    pub marks: u32,
    /// The vote by losses; unclassified if there were none.
    pub loss_vote: Verdict,
    /// The vote by marks; unclassified if there were none.
    pub mark_vote: Verdict,
}

/// A reason or a doubt: a fixed code for programs and words for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// Never changes its meaning.
    pub code: &'static str,
    /// In plain words.
    pub text: Cow<'static, str>,
}

/// An even sample of a long series: every value until there are 4096, then every second, and so on.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    kept: Vec<u64>,
    every: u64,
    seen: u64,
    min: u64,
    max: u64,
}

impl Default for Sample {
    fn default() -> Self {
        Self { kept: Vec::new(), every: 1, seen: 0, min: u64::MAX, max: 0 }
    }
}

impl Sample {
    const ROOM: usize = 4096;

    pub(super) fn push(&mut self, value: u64) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if self.seen.is_multiple_of(self.every) {
            if self.kept.len() == Self::ROOM {
                self.thin();
            }
            if self.seen.is_multiple_of(self.every) {
                self.kept.push(value);
            }
        }
        self.seen += 1;
    }

    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Keeps every second value, and of those to come half as many.
    pub(super) fn thin(&mut self) {
        let mut odd = false;
        self.kept.retain(|_| {
            odd = !odd;
            odd
        });
        self.kept.shrink_to_fit();
        self.every *= 2;
    }

    /// Quantiles in units of `unit`; `None` without values.
    pub(super) fn spread(mut self, unit: f64) -> Option<Spread> {
        self.kept.sort_unstable();
        let at = |quantile: f64| {
            let rank = (quantile * self.kept.len() as f64).ceil() as usize;
            self.kept.get(rank.saturating_sub(1)).copied()
        };
        let scaled = |value: u64| value as f64 / unit;
        Some(Spread {
            min: scaled(self.min),
            p50: scaled(at(0.5)?),
            p99: scaled(at(0.99)?),
            max: scaled(self.max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Sample;

    #[test]
    fn quantiles_are_exact_for_few_and_close_for_many() {
        let of = |count: u64| {
            let mut sample = Sample::default();
            (1..=count).for_each(|value| sample.push(value));
            sample.spread(1.0)
        };
        assert_eq!(of(0), None);
        let few = of(100).unwrap();
        assert_eq!((few.min, few.p50, few.p99, few.max), (1.0, 50.0, 99.0, 100.0));
        let many = of(1_000_000).unwrap();
        assert_eq!((many.min, many.max), (1.0, 1_000_000.0));
        assert!((many.p50 - 500_000.0).abs() < 1_000.0 && (many.p99 - 990_000.0).abs() < 1_000.0, "{many:?}");
    }
}
