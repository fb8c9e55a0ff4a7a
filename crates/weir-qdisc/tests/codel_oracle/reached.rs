//! What the patterns led the oracle to: each branch of the rule, and each comparison at equality. A comparison of two
//! programs says nothing about a branch that neither took, so the suite demands a least number for each.

use crate::model::Kernel;

macro_rules! edges {
    ($($(#[$doc:meta])* $edge:ident at least $least:literal,)*) => {
        /// A branch of the rule, or a comparison that came out equal.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Edge {
            $($(#[$doc])* $edge,)*
        }

        const EDGES: &[(Edge, u64)] = &[$((Edge::$edge, $least),)*];
    };
}

edges! {
    /// The queue was at its limit.
    Overflow at least 10_000,
    /// The control law dropped a packet.
    Drop at least 10_000,
    /// The control law marked a packet.
    Mark at least 10_000,
    /// The packet to mark was CE already.
    AlreadyCe at least 10_000,
    /// The shallow threshold marked a packet.
    ThresholdMark at least 10_000,
    /// The dropping state was entered.
    Entry at least 3_000,
    /// It was entered with the last one's growth as its count.
    EntryWithMemory at least 500,
    /// There was growth, but too long ago.
    MemoryExpired at least 500,
    /// The growth was 16 intervals old to the tick.
    OnMemoryEnd at least 5,
    /// The dropping state ended between two drops of one dequeue.
    LeftBetweenDrops at least 1_000,
    /// A second drop in one dequeue.
    SecondDrop at least 10_000,
    /// The 257th drop of a dequeue was due (7.2).
    Cap at least 20,
    /// The law's step was less than a tick.
    StepOfZero at least 10_000,
    /// The sojourn was the target.
    OnTarget at least 500,
    /// The backlog was one MTU.
    OnMtu at least 5_000,
    /// Now was `first_above`.
    OnFirstAbove at least 500,
    /// `first_above` fell on tick zero.
    FirstAboveIsTickZero at least 5,
    /// Now was `drop_next`.
    OnDropNext at least 2_000,
    /// The sojourn was the shallow threshold.
    OnThreshold at least 500,
    /// The 32-bit clock wrapped between two calls.
    ClockWrap at least 5_000,
}

/// How often each edge was reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reached([u64; EDGES.len()]);

impl Reached {
    pub(crate) fn when(&mut self, edge: Edge, reached: bool) {
        self.0[edge as usize] += u64::from(reached);
    }

    pub(crate) fn times(&self, edge: Edge) -> u64 {
        self.0[edge as usize]
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, times) in self.0.iter_mut().zip(other.0) {
            *sum += times;
        }
    }

    /// The edges that were reached less often than the suite wants, with how often.
    pub(crate) fn missing(&self, kernel: Kernel) -> Vec<(Edge, u64)> {
        let wanted = EDGES.iter().filter(|(edge, _)| *edge != Edge::Cap || kernel == Kernel::V7_2);
        let short = wanted.filter(|(edge, least)| self.times(*edge) < *least);
        short.map(|(edge, _)| (*edge, self.times(*edge))).collect()
    }
}

impl std::fmt::Display for Reached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        EDGES.iter().try_for_each(|(edge, _)| write!(f, " {edge:?} {}", self.times(*edge)))
    }
}
