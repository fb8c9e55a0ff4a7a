//! What every part of Weir shares: integer time, rates and sizes with units, packets as a queue sees them, the typed
//! event stream, histograms, named random streams, and what to answer to words that are not known.
//!
//! Nothing here does I/O or reads a clock. Time, randomness and packets are passed in and decisions are handed back;
//! that is why one queue discipline serves a real link, user space and virtual time.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod audit;
mod confidence;
mod ecn;
mod event;
mod fairness;
mod histogram;
mod packet;
mod random;
mod time;
mod units;
pub mod words;

pub use audit::{Audit, AuditReport, FlowCount, RateMeter};
pub use confidence::wilson;
pub use ecn::Ecn;
pub use event::{Backlog, DropReason, Event, EventKind, EventSink, Fanout, MarkReason, QueueId};
pub use fairness::jain;
pub use histogram::Histogram;
pub use packet::{CycleId, ETHERNET_MTU, FULL_PACKET, FlowId, Packet, QueueChoice, full_packet};
pub use random::{Random, Seed};
pub use time::{Duration, Time};
pub use units::{Bytes, ParseUnitError, Rate};
