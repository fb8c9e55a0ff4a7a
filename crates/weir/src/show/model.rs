//! What `weir show` and `weir top` know of a bottleneck: plain values, as JSON has them. `docs/reference/show.md` lists
//! every field.

use std::fmt;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// Which way the packets go that a bottleneck queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    /// Out of the interface.
    Egress,
    /// In through the interface.
    Ingress,
}

impl Direction {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Egress => "egress",
            Self::Ingress => "ingress",
        }
    }
}

/// The queue that a flow has earned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum QueueName {
    Responsive,
    Standard,
}

impl QueueName {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Responsive => "responsive",
            Self::Standard => "standard",
        }
    }
}

/// Whether a bottleneck works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// All of its parts are there.
    Up,
    /// `weir up` or `weir down` has not come to its end.
    Unfinished,
    /// Something is missing or was replaced.
    Damaged,
}

impl State {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Unfinished => "unfinished",
            Self::Damaged => "damaged",
        }
    }
}

/// What is wrong with a bottleneck, and the command that mends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Fault {
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; to mend it: {}", self.what, self.remedy)
    }
}

/// What looks like a bottleneck of Weir's, but has no journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Lost {
    pub(crate) device: String,
    pub(crate) ifindex: u32,
    pub(crate) direction: Direction,
    pub(crate) queue_device: String,
    /// [`Lost::STATE`].
    pub(crate) state: &'static str,
    pub(crate) faults: [Fault; 1],
}

impl Lost {
    pub(crate) const STATE: &'static str = "lost";
}

/// An eBPF program of a bottleneck.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Program {
    /// What it is and where it belongs.
    pub(crate) what: String,
    /// By what it is attached: `tcx`, `clsact` or `tracepoint`; `None` if it is not.
    pub(crate) hook: Option<&'static str>,
}

/// One direction of one interface.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Bottleneck {
    pub(crate) device: String,
    pub(crate) ifindex: u32,
    pub(crate) direction: Direction,
    /// The device that has the queues: the interface, or the IFB device that its arrivals are sent to.
    pub(crate) queue_device: String,
    pub(crate) state: State,
    pub(crate) faults: Vec<Fault>,
    pub(crate) since_unix_s: Option<u64>,
    pub(crate) rate_bits_per_second: u64,
    /// How the rate is divided, in `weir up`'s words: weights of the standard and the responsive queue.
    pub(crate) share: String,
    /// `hard` or `borrow`.
    pub(crate) split: String,
    /// The preset and all parameters.
    pub(crate) law: Value,
    pub(crate) programs: Vec<Program>,
    /// Statistics of the shaper, in the words of `tc -s -j qdisc`.
    pub(crate) shaper: Option<Discipline>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) flow_table: Option<FlowTable>,
    pub(crate) counters: Counters,
    #[serde(skip)]
    pub(crate) flows: Vec<Flow>,
}

impl Bottleneck {
    /// The queue's statistics, where the kernel has that queue.
    pub(crate) fn queue(&self, name: QueueName) -> Option<&Queue> {
        self.queues.iter().find(|queue| queue.queue == name)
    }
}

/// One of the two queues.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Queue {
    pub(crate) queue: QueueName,
    pub(crate) classid: String,
    /// What the queue gets when both are busy.
    pub(crate) assured_bits_per_second: u64,
    /// What `weir up` set up, in its words.
    pub(crate) setup: String,
    /// CE marks that the kernel says it has put, where the discipline counts them.
    pub(crate) marks: Option<u64>,
    /// The kernel's discipline; `None` if it is gone.
    #[serde(flatten)]
    pub(crate) discipline: Option<Discipline>,
}

/// A queue discipline as `tc -s -j qdisc` prints it, whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct Discipline(pub(crate) Map<String, Value>);

/// Room for flows and what is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct FlowTable {
    pub(crate) flows: u64,
    pub(crate) capacity: u64,
    /// By the verdict that chooses the queue.
    pub(crate) responsive: u64,
    pub(crate) unresponsive: u64,
    pub(crate) unclassified: u64,
}

/// The programs' counters, by name, since `weir up`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters(pub(crate) Vec<(String, u64)>);

impl Counters {
    /// The counter of that name, 0 if there is none.
    pub(crate) fn get(&self, name: &str) -> u64 {
        self.0.iter().find(|(counter, _)| counter == name).map_or(0, |(_, value)| *value)
    }
}

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// What the law has found about one kind of signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Responsive,
    Unresponsive,
    Unclassified,
}

impl Verdict {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Responsive => "responsive",
            Self::Unresponsive => "unresponsive",
            Self::Unclassified => "unclassified",
        }
    }

    /// One letter for tables.
    pub(crate) const fn letter(self) -> char {
        match self {
            Self::Responsive => 'R',
            Self::Unresponsive => 'U',
            Self::Unclassified => '-',
        }
    }
}

/// A flow in the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Flow {
    pub(crate) device: String,
    pub(crate) direction: Direction,
    pub(crate) source: String,
    pub(crate) destination: String,
    /// `tcp` or `quic`.
    pub(crate) protocol: &'static str,
    pub(crate) loss_verdict: Verdict,
    pub(crate) ecn_verdict: Verdict,
    pub(crate) queue: QueueName,
    /// Cycles of the connection that have ended.
    pub(crate) cycles: u32,
    pub(crate) rtt_ms: Option<f64>,
    /// Forward payload.
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    /// Of the cycle that goes on and the two before it.
    pub(crate) window_bytes: [u64; 3],
    pub(crate) loss_segments: [u32; 3],
    pub(crate) mark_segments: [u32; 3],
    pub(crate) loss_votes: VoteCount,
    pub(crate) ecn_votes: VoteCount,
    pub(crate) late_signals: u32,
    pub(crate) withheld: u32,
    pub(crate) idle_s: f64,
    pub(crate) closing: bool,
}

/// Votes on one kind of signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct VoteCount {
    pub(crate) responsive: u32,
    pub(crate) unresponsive: u32,
}
