//! The operator's model: what is known of the bottlenecks that `weir up` made, as plain values that serialise to JSON.
//! `weir show`, `weir top` and exporters read it; `docs/show.md` lists every field.
//!
//! [`Model::of`] takes one snapshot: the journal of `weir up`, the pinned programs and their maps, and the kernel's
//! statistics by `tc`. It reads only.

mod read;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;
use weir_core::QueueChoice;
use weir_law::{Verdict, Votes};
use weir_netdev::iproute::Discipline;
use weir_qdisc::Sharing;
use weir_qdisc::config::SplitKind;

use super::setup::Direction;
use super::show::{AttachedProgram, Fault, Lost};

pub use read::ModelError;

/// What is up in the calling thread's network namespace, at one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Model {
    /// The bottlenecks, by interface and direction.
    pub bottlenecks: Vec<Bottleneck>,
    /// What looks like a bottleneck of Weir's, but has no journal.
    pub lost: Vec<Lost>,
}

/// Whether a bottleneck works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// All of its parts are there.
    Up,
    /// `weir up` or `weir down` has not come to its end.
    Unfinished,
    /// Something is missing or was replaced.
    Damaged,
}

impl State {
    /// As JSON has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Unfinished => "unfinished",
            Self::Damaged => "damaged",
        }
    }
}

/// One direction of one interface.
#[derive(Clone, Debug, Serialize)]
pub struct Bottleneck {
    /// The interface, by the name that it has, or had last if it is gone.
    pub device: String,
    /// Its index.
    pub ifindex: u32,
    /// Which way its packets go.
    pub direction: Direction,
    /// The device that has the queues: the interface, or the IFB device that its arrivals are sent to.
    pub queue_device: String,
    /// Whether it works.
    pub state: State,
    /// What is not as it was set up.
    pub faults: Vec<Fault>,
    /// Who may keep packets from its programs.
    pub warnings: Vec<String>,
    /// When `weir up` came to its end, in seconds since 1970; where it did not, when it began.
    pub since_unix_s: Option<u64>,
    /// The rate of the link, in bits per second.
    pub rate_bits_per_second: u64,
    /// How the rate is divided: `equal`, `strict`, or weights of the standard and the responsive queue.
    pub sharing: Sharing,
    /// Whether a queue may use what the other leaves: `shared`, else `hard`.
    pub split: SplitKind,
    /// The preset and all parameters.
    pub law: Value,
    /// Its programs.
    pub programs: Vec<AttachedProgram>,
    /// Statistics of the shaper, in the words of `tc -s -j qdisc`.
    pub shaper: Option<Discipline>,
    /// The two queues, the responsive one first.
    pub queues: Vec<Queue>,
    /// The table of flows; `None` if the programs are gone.
    pub flow_table: Option<FlowTable>,
    /// What the programs counted.
    pub counters: Counters,
    /// The flows, in no order. Not part of the JSON of a bottleneck, for they may be many.
    #[serde(skip)]
    pub flows: Vec<Flow>,
}

impl Bottleneck {
    /// The queue's statistics, where the kernel has that queue.
    pub fn queue(&self, name: QueueChoice) -> Option<&Queue> {
        self.queues.iter().find(|queue| queue.queue == name)
    }
}

/// One of the two queues.
#[derive(Clone, Debug, Serialize)]
pub struct Queue {
    /// Which.
    pub queue: QueueChoice,
    /// The class of HTB that it stands under, such as `57e1:1`.
    pub classid: String,
    /// What the queue gets when both are busy.
    pub assured_bits_per_second: u64,
    /// What `weir up` set up, in its words.
    pub setup: String,
    /// CE marks that the kernel says it has put, where the discipline counts them.
    pub marks: Option<u64>,
    /// The kernel's discipline; `None` if it is gone.
    #[serde(flatten)]
    pub discipline: Option<Discipline>,
}

/// Room for flows and what is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlowTable {
    /// Flows that have an entry.
    pub flows: u64,
    /// Flows that there is room for.
    pub capacity: u64,
    /// Flows that answer, by the verdict that chooses the queue.
    pub responsive: u64,
    /// Flows that do not.
    pub unresponsive: u64,
    /// Flows of which it is not known.
    pub unclassified: u64,
}

/// The programs' counters, by name, since `weir up`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(pub Vec<(String, u64)>);

impl Counters {
    /// The counter of that name, 0 if there is none.
    pub fn get(&self, name: &str) -> u64 {
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

/// A flow in the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flow {
    /// The interface of its bottleneck.
    pub device: String,
    /// Which way its data go.
    pub direction: Direction,
    /// Address and port that its data come from.
    pub source: String,
    /// Address and port that they go to.
    pub destination: String,
    /// `tcp` or `quic`.
    pub protocol: &'static str,
    /// What it is by its answers to losses.
    pub loss_verdict: Verdict,
    /// What it is by its answers to CE marks.
    pub ecn_verdict: Verdict,
    /// The queue that it has earned.
    pub queue: QueueChoice,
    /// Cycles of the connection that have ended.
    pub cycles: u32,
    /// The last round-trip time, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// Forward payload, in bytes.
    pub bytes: u64,
    /// Forward packets.
    pub packets: u64,
    /// Payload of the cycle that goes on and of the two before it, in bytes.
    pub window_bytes: [u64; 3],
    /// Segments that the queues dropped, in the same cycles.
    pub loss_segments: [u32; 3],
    /// Segments that the queues marked, in the same cycles.
    pub mark_segments: [u32; 3],
    /// Votes by losses that still count.
    pub loss_votes: Votes,
    /// Votes by marks that still count.
    pub ecn_votes: Votes,
    /// Signals that came when their cycle was past.
    pub late_signals: u32,
    /// Judgements that were not taken as votes.
    pub withheld: u32,
    /// Seconds since its last packet.
    pub idle_s: f64,
    /// Whether its connection is being closed.
    pub closing: bool,
}
