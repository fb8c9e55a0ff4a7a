//! Workloads: users and applications that ask for data again and again.
//!
//! | pattern | who asks | over what |
//! |---|---|---|
//! | [`Pattern::Poisson`] | a crowd: arrivals do not wait for each other | a connection for each request |
//! | [`Pattern::Requests`] | users, each of whom thinks between a response and the next request | a connection for each user |
//! | [`Pattern::Video`] | players, each of which asks for a segment when its buffer has room for one | the same |
//! | [`Pattern::OnOff`] | sources that send for a while and are silent for a while | the same |
//!
//! A connection that has done its work is used again with a new controller, so that a million requests take as many
//! objects as there are requests at the same time. Each kind of draw of each workload has a random stream of its own.

mod draw;
mod state;

use weir_core::{Duration, Rate, Time};

pub(crate) use draw::exponential;
pub use draw::{Size, Span};
pub(crate) use state::{Task, Workload};

use crate::flow::FlowSpec;

/// A workload of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkloadId(pub(crate) u32);

impl WorkloadId {
    /// Its place among the network's workloads, in the order in which they were added.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Requests per second of a crowd at most: beyond, many would come in the same nanosecond.
pub const MOST_ARRIVALS: f64 = 1e9;

/// Who asks, when, and for how much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Requests come at random.
    Poisson {
        /// Requests per second in the mean; above 0, at most [`MOST_ARRIVALS`].
        rate: f64,
        /// Bytes of a response.
        size: Size,
        /// Connections at the same time; requests beyond wait for one, in order.
        connections: u32,
    },
    /// Users who wait for each response, and then think.
    Requests {
        /// How many users.
        users: u32,
        /// From a response to the next request; each user also begins with one.
        think: Span,
        /// Bytes of a response.
        size: Size,
    },
    /// Players of a stream of one bit rate.
    Video {
        /// How many players.
        users: u32,
        /// How much of the film a request asks for; above 0.
        segment: Duration,
        /// Bits of a second of film.
        bitrate: Rate,
        /// How much film a player holds at most; at least one segment.
        buffer: Duration,
    },
    /// Sources that are on and off by turns, first off: TCP and QUIC send what they can while on, datagrams come at
    /// their rate.
    OnOff {
        /// How many sources.
        users: u32,
        /// How long they send.
        on: Span,
        /// How long they are silent.
        off: Span,
    },
}

/// A workload that is to be made.
pub struct WorkloadSpec {
    pub(crate) connection: FlowSpec,
    pub(crate) pattern: Pattern,
    pub(crate) start: Duration,
    pub(crate) length: Option<Duration>,
    pub(crate) requests: Option<u64>,
}

impl WorkloadSpec {
    /// An endless workload over connections such as `connection`, whose own start, amount and controller of one's own
    /// do not matter.
    pub fn new(connection: FlowSpec, pattern: Pattern) -> Self {
        Self { connection, pattern, start: Duration::ZERO, length: None, requests: None }
    }

    /// Begins this long after the start.
    #[must_use]
    pub fn start(self, start: Duration) -> Self {
        Self { start, ..self }
    }

    /// Nothing is asked for after this time from the workload's start.
    #[must_use]
    pub fn length(self, length: Duration) -> Self {
        Self { length: Some(length), ..self }
    }

    /// So many requests in all.
    #[must_use]
    pub fn requests(self, requests: u64) -> Self {
        Self { requests: Some(requests), ..self }
    }
}

/// One request, or one time of being on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When the user wished for it: connections open, and requests travel, after that.
    pub start: Time,
    /// Payload bytes asked for; of an on-off source, sent.
    pub bytes: u64,
    /// When the last byte arrived; `None` if it did not, and for on-off sources, whom nobody has asked.
    pub finished: Option<Time>,
}

/// What a workload has done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkloadReport<'a> {
    /// All requests, in the order of their start.
    pub requests: &'a [Request],
    /// Payload bytes received, each counted once.
    pub received: u64,
    /// Nothing will be asked for any more, and all that was asked for has arrived.
    pub done: bool,
    /// When that was: the last had arrived and, unless there was no request left to make, the workload's time was up.
    /// None if it is not done, or has neither a time nor a number of requests.
    pub ended: Option<Time>,
    /// Connections that exist.
    pub connections: u32,
    /// Requests that had to wait for a connection.
    pub waited: u64,
    /// How often a player had nothing more to show.
    pub stalls: u64,
    /// For how long, all players together. A stall that lasts is not in it.
    pub stalled: Duration,
}
