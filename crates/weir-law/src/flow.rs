//! A flow as the law knows it: its key, and a view of its state.

use std::fmt;
use std::net::SocketAddr;

use serde::Serialize;
use weir_core::{Bytes, CycleId, Duration, QueueChoice, Time};

use crate::events::{Class, SignalPair, Votes};
use crate::ffi;
use crate::parsed::endpoint;

/// The identity of a flow. Ends are ordered by address and port, so both directions have one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct FlowKey {
    /// IP protocol number: 6 TCP, 17 UDP. Where the law is set not to distinguish them, that of the first packet.
    pub protocol: u8,
    /// The end with the lower address, or of one address the lower port.
    pub low: SocketAddr,
    /// The other end.
    pub high: SocketAddr,
}

impl FlowKey {
    pub(crate) fn from_raw(raw: &ffi::Key) -> Self {
        Self {
            protocol: raw.protocol,
            low: endpoint(raw.low, raw.low_port),
            high: endpoint(raw.high, raw.high_port),
        }
    }
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            6 => write!(f, "tcp {} {}", self.low, self.high),
            17 => write!(f, "udp {} {}", self.low, self.high),
            other => write!(f, "{other} {} {}", self.low, self.high),
        }
    }
}

/// What the law knows of a flow at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FlowView {
    /// Its identity.
    pub key: FlowKey,
    /// The end whose packets go through the bottleneck's queue.
    pub source: SocketAddr,
    /// The end that they go to.
    pub destination: SocketAddr,
    /// Verdicts for both kinds of signal.
    pub class: Class,
    /// The queue that it has earned.
    pub choice: QueueChoice,
    /// The cycle it is in.
    pub cycle: CycleId,
    /// Cycles of the present connection that have ended, the first and partial one included.
    pub cycles: u32,
    /// Windows of the cycles n (so far), n-1 and n-2.
    pub windows: [Bytes; 3],
    /// Votes for both kinds of signal.
    pub votes: SignalPair<Votes>,
    /// Forward payload since the entry was made.
    pub bytes: Bytes,
    /// Forward packets since the entry was made.
    pub packets: u64,
    /// Length of the last whole cycle, at most 4.29 s; `None` before there is one.
    pub rtt: Option<Duration>,
    /// When its last forward packet arrived.
    pub last_seen: Time,
    /// Signals that came when their packet's cycle could no longer be judged.
    pub late_signals: u32,
    /// Judgements not made although there was a signal: window below the minimum, or first cycle.
    pub withheld: u32,
    /// An Initial packet was seen, so that it is QUIC for certain.
    pub quic_initial: bool,
}
