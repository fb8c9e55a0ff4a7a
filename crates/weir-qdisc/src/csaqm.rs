//! CSAQM, a core-stateless AQM: marks packets by the value that the edge of the network gave them, and so shares the
//! link without knowing a flow. Sources: the scalable-CC paper section III; S. Nádas et al., "Towards a Congestion
//! Control-Independent Core-Stateless AQM", ANRW 2018.
//!
//! | paper | here |
//! |---|---|
//! | packets carry a value from the edge of the network | [`Packet::value`]; with [`CsaqmConfig::edge`], packets without one get it here ([`edge`](crate::edge)) |
//! | the congestion threshold value: if more is queued than the target, the value above which packets of as many bytes as the target are queued; else none | the same |
//! | the target is a delay; bytes by the link's rate | the same |
//! | every 5 ms, by a timer | at the first call after, before it changes what is queued: the same |
//! | packets below the threshold are marked as they leave | the same; Not-ECT packets are dropped there |
//! | the order of arrival is kept; tail drop when the buffer is full | the same |
//! | 16-bit values (other implementations: some dozen bins) | a histogram with a bin for each value |

mod keys;

pub use keys::{CsaqmKeys, EdgeWord};

use weir_core::{
    Backlog, DropReason, Duration, Ecn, EventKind, EventSink, MarkReason, Packet, Random, Rate, Time,
};

use crate::Qdisc;
use crate::edge::{BucketLevels, BucketMarker, EdgeKind, RateMarker};
use weir_queue::{QueueLimit, Ring};

/// Parameters of [`Csaqm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsaqmConfig {
    /// The link's rate, by which the target is turned into bytes.
    pub rate: Rate,
    /// The delay above which packets are marked: K round trips in the paper, K from 0.05 to 2.
    pub target: Duration,
    /// How often the threshold is computed (paper: 5 ms). At least 1 ns is taken.
    pub update: Duration,
    /// Where the queue overflows (paper: 500 ms of the rate).
    pub limit: QueueLimit,
    /// How packets without a value are valued here, as at an edge; if `None`, they are below every threshold.
    pub edge: Option<EdgeKind>,
}

impl CsaqmConfig {
    /// The paper's: a target of 5 ms (K = 1 at its shorter round trip), 5 ms between updates, a buffer of 500 ms, and
    /// an edge of random rates.
    pub fn paper(rate: Rate) -> Self {
        Self {
            rate,
            target: Duration::from_millis(5),
            update: Duration::from_millis(5),
            limit: QueueLimit::Bytes(rate.bytes_in(BUFFER).0),
            edge: Some(EdgeKind::Rate(Duration::from_millis(50))),
        }
    }
}

/// Where the paper's queue overflows, as time at the rate.
const BUFFER: Duration = Duration::from_millis(500);

/// Bytes queued by value, in two levels so that a threshold is found in a few hundred steps.
#[derive(Clone, Debug)]
struct Values {
    fine: Vec<u64>,
    coarse: [u64; 256],
}

impl Values {
    fn new() -> Self {
        Self { fine: vec![0; 1 << 16], coarse: [0; 256] }
    }

    fn add(&mut self, packet: &Packet) {
        self.fine[usize::from(packet.value)] += u64::from(packet.wire_bytes);
        self.coarse[usize::from(packet.value >> 8)] += u64::from(packet.wire_bytes);
    }

    fn remove(&mut self, packet: &Packet) {
        self.fine[usize::from(packet.value)] -= u64::from(packet.wire_bytes);
        self.coarse[usize::from(packet.value >> 8)] -= u64::from(packet.wire_bytes);
    }

    /// The greatest value such that packets of it and above are at least `bytes`; 0 if all are less.
    fn threshold(&self, bytes: u64) -> u16 {
        let mut above = 0;
        for (high, coarse) in self.coarse.iter().enumerate().rev() {
            if above + coarse < bytes {
                above += coarse;
                continue;
            }
            for value in (high << 8..(high + 1) << 8).rev() {
                above += self.fine[value];
                if above >= bytes {
                    return value as u16;
                }
            }
        }
        0
    }
}

/// The states of flows at an edge.
#[derive(Clone, Debug)]
enum Edge {
    Rate(Duration, Vec<RateMarker>),
    Buckets(Box<BucketLevels>, Vec<Option<BucketMarker>>),
}

/// Flows beyond this number share one state.
const MAX_FLOWS: usize = 1 << 22;

impl Edge {
    fn new(kind: EdgeKind) -> Self {
        match kind {
            EdgeKind::Rate(average) => Self::Rate(average, Vec::new()),
            EdgeKind::Buckets(depth) => Self::Buckets(Box::new(BucketLevels::new(depth)), Vec::new()),
        }
    }

    fn value(&mut self, packet: &Packet, now: Time, random: &mut Random) -> u16 {
        // Place 0 is for packets of no flow.
        let index = (packet.flow.0 as usize).wrapping_add(1) & u32::MAX as usize;
        let index = if index >= MAX_FLOWS { 0 } else { index };
        match self {
            Self::Rate(average, flows) => {
                if index >= flows.len() {
                    flows.resize_with(index + 1, RateMarker::default);
                }
                flows[index].value(packet.wire_bytes, now, *average, random)
            }
            Self::Buckets(levels, flows) => {
                if index >= flows.len() {
                    flows.resize_with(index + 1, || None);
                }
                flows[index].get_or_insert_with(|| BucketMarker::new(levels, now)).value(
                    levels,
                    packet.wire_bytes,
                    now,
                )
            }
        }
    }
}

/// A core-stateless AQM.
#[derive(Clone, Debug)]
pub struct Csaqm {
    ring: Ring,
    values: Values,
    edge: Option<Edge>,
    random: Random,
    /// Wire bytes that may go unmarked.
    target: u64,
    update: Duration,
    next_update: Time,
    threshold: u16,
}

impl Csaqm {
    /// An empty queue; `random` is for the edge.
    pub fn new(config: CsaqmConfig, random: Random) -> Self {
        Self {
            ring: Ring::new(config.limit),
            values: Values::new(),
            edge: config.edge.map(Edge::new),
            random,
            target: config.rate.bytes_in(config.target).0,
            update: config.update.max(Duration::from_nanos(1)),
            next_update: Time::ZERO,
            threshold: 0,
        }
    }

    /// The congestion threshold value: packets of less are marked as they leave. 0 when none are.
    pub fn threshold(&self) -> u16 {
        self.threshold
    }

    fn update(&mut self, now: Time) {
        if now < self.next_update {
            return;
        }
        // Only the last of several updates that are due matters; the next keeps the beat.
        let missed = now.since(self.next_update).as_nanos() / self.update.as_nanos();
        self.next_update += self.update * (missed + 1);
        let congested = self.ring.backlog().bytes > self.target;
        self.threshold = if congested { self.values.threshold(self.target) } else { 0 };
    }
}

impl Qdisc for Csaqm {
    fn enqueue(&mut self, mut packet: Packet, now: Time, events: &mut dyn EventSink) {
        self.update(now);
        if let (0, Some(edge)) = (packet.value, &mut self.edge) {
            packet.value = edge.value(&packet, now, &mut self.random);
        }
        if self.ring.accepts(packet.wire_bytes) {
            self.values.add(&packet);
        }
        self.ring.offer(packet, now, events);
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        self.update(now);
        loop {
            let mut packet = self.ring.pop()?;
            self.values.remove(&packet);
            if packet.value < self.threshold {
                if !packet.ecn.is_capable() {
                    self.ring.report(EventKind::Drop(DropReason::Aqm), &packet, now, events);
                    continue;
                }
                packet.ecn = Ecn::Ce;
                self.ring.report(EventKind::Mark(MarkReason::Aqm), &packet, now, events);
            }
            self.ring.report(EventKind::Dequeue, &packet, now, events);
            return Some(packet);
        }
    }

    fn backlog(&self) -> Backlog {
        self.ring.backlog()
    }
}

#[cfg(test)]
mod tests;
