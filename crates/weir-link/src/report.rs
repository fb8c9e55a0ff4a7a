//! What a finished bottleneck says about itself: what it did with each flow's packets, and how far it can be trusted.

use serde::Serialize;
use weir_core::{AuditReport, Duration, FlowCount, FlowId, Histogram, Rate};

/// Packets of one direction. `received` = `sent` + `dropped` + `unsent` at the end of every run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DirectionCount {
    /// Came in from the interface.
    pub received: u64,
    /// Went out on the other interface.
    pub sent: u64,
    /// Dropped by the queue discipline.
    pub dropped: u64,
    /// Still in the delay line, in the queue, or on the link when the run ended.
    pub unsent: u64,
    /// Wire bytes that went out.
    pub sent_bytes: u64,
}

impl DirectionCount {
    /// Whether no packet was lost or invented.
    pub fn balances(&self) -> bool {
        self.received == self.sent + self.dropped + self.unsent
    }
}

/// How late packets left, in nanoseconds: real minus virtual departure time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lateness {
    /// Packets measured.
    pub packets: u64,
    /// Half the packets were at most this late.
    pub p50_ns: u64,
    /// 99 of 100 packets were at most this late.
    pub p99_ns: u64,
    /// The latest packet.
    pub max_ns: u64,
}

impl From<&Histogram> for Lateness {
    fn from(histogram: &Histogram) -> Self {
        Self {
            packets: histogram.count(),
            p50_ns: histogram.quantile(0.5).unwrap_or(0),
            p99_ns: histogram.quantile(0.99).unwrap_or(0),
            max_ns: histogram.max().unwrap_or(0),
        }
    }
}

/// One flow's forward packets at the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowReport {
    /// Its number.
    pub flow: FlowId,
    /// Its 5-tuple, as text; empty for packets of no flow.
    pub key: String,
    /// What the queue did with its packets.
    #[serde(flatten)]
    pub count: FlowCount,
    /// Packets of it still in the queue at the end.
    pub queued: u64,
}

/// The report of a finished [`Pipeline`](crate::Pipeline).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PipelineReport {
    /// The rate of the link.
    pub rate: Rate,
    /// From the server side to the client side, through the queue.
    pub forward: DirectionCount,
    /// Back.
    pub reverse: DirectionCount,
    /// Conservation and order in the queue.
    pub audit: AuditReport,
    /// Each flow.
    pub flows: Vec<FlowReport>,
    /// Packets in the delay lines at the end, forward and reverse.
    pub delayed: [u64; 2],
    /// Packets on the link at the end: 0 or 1.
    pub transmitting: u64,
    /// Lateness of packets that leave the link.
    pub lateness: Lateness,
    /// Lateness of packets that leave the reverse delay line.
    pub reverse_lateness: Lateness,
    /// The burst that the link may make up for, in bytes.
    pub burst_allowed: u64,
    /// The largest burst above the rate, measured on real departure times. At most `burst_allowed` and one packet.
    pub burst_highest: u64,
    /// The largest packet on the link, in wire bytes.
    pub largest_packet: u64,
    /// Capacity lost because the thread was later than the burst makes up for.
    pub late_loss: Duration,
    /// Marks that could not be written into the packet.
    pub unwritable_marks: u64,
    /// How often a frame was wanted and none was free.
    pub pool_exhausted: u64,
    /// Frames given back that were not taken. Anything but zero is a fault of the program.
    pub pool_misfreed: u64,
}

impl PipelineReport {
    /// Whether every check holds: conservation, order, the bound on the rate, and the frames.
    pub fn holds(&self) -> bool {
        self.forward.balances()
            && self.reverse.balances()
            && self.audit.holds()
            // The meter rounds what has leaked down, by at most a byte.
            && self.burst_highest <= self.burst_allowed + self.largest_packet + 1
            && self.pool_misfreed == 0
    }
}
