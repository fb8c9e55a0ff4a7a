//! What a flow's two ends report, and how that becomes one result.

use serde::Serialize;
use weir_core::{Duration, Histogram, Time};

use super::{Detection, RttSample, Stack};
use weir_fq::Findings;

/// What one flow measured.
#[derive(Clone, Debug, Serialize)]
pub struct FlowResult {
    /// The flow's name.
    pub name: String,
    /// What carried it.
    pub stack: Stack,
    /// The sender's congestion controller; none for UDP.
    pub controller: Option<String>,
    /// How long the handshake took, on the client's clock.
    pub handshake: Option<Duration>,
    /// When the client sent its request (UDP: when the first datagram was due), on the run's clock.
    #[serde(rename = "started_ns")]
    pub started: Option<Time>,
    /// When the client had the last byte, or gave up.
    #[serde(rename = "finished_ns")]
    pub finished: Option<Time>,
    /// Flow completion time: from just after the handshake, when the client sends its request, to its last byte, as in
    /// the CRQ prototype. None unless the flow had a number of bytes to send and all arrived; UDP has none.
    pub fct: Option<Duration>,
    /// Payload bytes that the client received.
    pub bytes: u64,
    /// Whether the flow did what its specification said: all bytes, or the whole time.
    pub complete: bool,
    /// Whether ECN was in use at the end of the flow, as far as the sender's transport says.
    pub ecn: Option<bool>,
    /// Looks at the sender's transport.
    pub samples: Vec<RttSample>,
    /// The sender's short-header packets and spin edges; QUIC only.
    pub spin: Option<SpinCount>,
    /// Counts of a UDP flow.
    pub udp: Option<UdpResult>,
    /// If the sender's controller ignored all marks because the path is too long: the longest round trip on which it
    /// would have answered them. Known only in virtual time.
    pub ignored_marks_beyond: Option<Duration>,
    /// What it found out of fair queuing, if it was to. The numbers above are then the heavy sub-flow's.
    #[serde(skip)]
    pub detection: Option<Box<Detection>>,
    /// Why the flow did not run as specified.
    pub error: Option<String>,
}

/// How an end's spin bit behaved, counted on its own outgoing packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SpinCount {
    /// Packets with a short header.
    pub packets: u64,
    /// How often the bit differed from the packet before. A spinning end has about one per round trip, an end that
    /// sends random bits about one every two packets.
    pub edges: u64,
}

/// What a UDP flow's receiver saw.
#[derive(Clone, Debug, Serialize)]
pub struct UdpResult {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams that did not arrive.
    pub lost: u64,
    /// Datagrams that arrived after one with a higher number (RFC 4737 section 3).
    pub reordered: u64,
    /// Datagrams that arrived marked CE.
    pub ce: u64,
    /// From just before the send call to just after the receive call, in nanoseconds.
    pub one_way_delay_ns: Histogram,
    /// How far the sender was behind its schedule at worst: above a few milliseconds, the machine was too busy.
    pub latest: Duration,
}

/// What the sending end reports.
#[derive(Debug, Default)]
pub(super) struct ServerReport {
    pub(super) samples: Vec<RttSample>,
    pub(super) ecn: Option<bool>,
    pub(super) spin: Option<SpinCount>,
    pub(super) sent_datagrams: u64,
    pub(super) latest: Duration,
    pub(super) light: Option<Box<LightReport>>,
    pub(super) error: Option<String>,
}

/// What the sending end of a flow that looks for fair queuing reports besides.
#[derive(Debug, Default)]
pub(super) struct LightReport {
    pub(super) name: String,
    pub(super) detector: &'static str,
    pub(super) controller: Option<&'static str>,
    pub(super) findings: Findings,
    /// Of the light sub-flow.
    pub(super) samples: Vec<RttSample>,
}

/// What the receiving end reports.
#[derive(Debug, Default)]
pub(super) struct ClientReport {
    pub(super) handshake: Option<Duration>,
    pub(super) started: Option<Time>,
    pub(super) finished: Option<Time>,
    pub(super) fct: Option<Duration>,
    pub(super) bytes: u64,
    /// What came on a light sub-flow.
    pub(super) light_bytes: u64,
    pub(super) complete: bool,
    pub(super) udp: Option<UdpReceived>,
    pub(super) error: Option<String>,
}

/// What a UDP receiver counts.
#[derive(Debug, Default)]
pub(super) struct UdpReceived {
    pub(super) received: u64,
    pub(super) reordered: u64,
    pub(super) ce: u64,
    pub(super) delay: Histogram,
    pub(super) last: Option<Time>,
}

impl ServerReport {
    pub(super) fn failed(error: String) -> Self {
        Self { error: Some(error), ..Self::default() }
    }
}

impl ClientReport {
    pub(super) fn failed(error: String) -> Self {
        Self { error: Some(error), ..Self::default() }
    }
}

impl FlowResult {
    pub(super) fn new(
        name: String,
        stack: Stack,
        controller: Option<String>,
        server: ServerReport,
        client: ClientReport,
    ) -> Self {
        let error = match (server.error, client.error) {
            (Some(server), Some(client)) => Some(format!("server: {server}; client: {client}")),
            (Some(server), None) => Some(format!("server: {server}")),
            (None, Some(client)) => Some(format!("client: {client}")),
            (None, None) => None,
        };
        let udp = client.udp.map(|seen| UdpResult {
            sent: server.sent_datagrams,
            received: seen.received,
            lost: server.sent_datagrams.saturating_sub(seen.received),
            reordered: seen.reordered,
            ce: seen.ce,
            one_way_delay_ns: seen.delay,
            latest: server.latest,
        });
        let whole = Self {
            name,
            stack,
            controller,
            handshake: client.handshake,
            started: client.started,
            finished: client.finished,
            fct: client.fct,
            bytes: client.bytes,
            complete: client.complete && error.is_none(),
            ecn: server.ecn,
            samples: server.samples,
            spin: server.spin,
            udp,
            ignored_marks_beyond: None,
            detection: None,
            error,
        };
        let Some(seen) = server.light else { return whole };
        let LightReport { name, detector, controller, findings, samples } = *seen;
        let light =
            Self { name, bytes: client.light_bytes, samples, fct: None, error: None, ..whole.clone() };
        let detection = Detection { detector, controller, findings, light };
        Self { detection: Some(Box::new(detection)), ..whole }
    }
}
