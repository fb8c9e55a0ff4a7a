//! A QUIC connection over two 4-tuples, the two sub-flows of [`weir_fq`]: both carry user data while a detector finds
//! out whether the bottleneck is fair-queued; then one of them goes on under the controller that suits what was found.
//!
//! Over noq-proto, a QUIC state machine without I/O, with its multipath extension: two paths whose only difference is
//! the sender's port. Each path's congestion controller is a [`weir_fq::Gate`], which lets packets go at exact times;
//! the receiver reports when each packet has arrived.
//!
//! | module | what it is |
//! |---|---|
//! | `bridge`, `door` | noq's congestion controllers: weir-cc's, or gates |
//! | `marks`, `overheard`, `frames` | what noq does not tell of packets that it reads |
//! | `gates`, `sends` | the sending end: the sub-flows, their paths and their packets' times |
//! | `arrivals`, `report`, `receives` | the receiving end: when what has arrived |
//! | `streams`, `pipe` | messages and bulk data |
//! | `link`, `endpoint` | connections without I/O |
//! | `address`, `socket`, `run` | sockets and the thread of an endpoint |
//! | `clock`, `stamps` | its time, and that of arrivals |
//! | `departures` | who lets packets go at their times |
//! | `identity` | certificates |
//! | `connect` | how both ends begin |
//! | `messages`, `digest`, `partial` | what both ends agree on |
//! | `sender`, `receiver`, `probe` | files, and looks at a path |
//! | `qlog` | what detections do, for tools that read qlog |
//! | `load` | bytes that mean nothing, for measuring networks |

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod address;
mod arrivals;
mod bridge;
mod clock;
mod connect;
mod departures;
mod digest;
mod door;
mod endpoint;
mod error;
mod frames;
mod gates;
mod identity;
mod link;
mod load;
mod marks;
mod messages;
mod overheard;
mod partial;
mod pipe;
mod probe;
mod qlog;
mod receiver;
mod receives;
#[cfg(any(test, feature = "rehearsal"))]
pub mod rehearsal;
mod report;
mod run;
mod sender;
mod sends;
mod socket;
mod stamps;
mod streams;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod loopback_tests;

pub use address::RawAddress;
pub use bridge::Factory;
pub use connect::{DATAGRAM, Lateness, Peer, SPACING};
pub use departures::{Departed, Departures};
pub use error::Error;
pub use identity::{Fingerprint, Identity, Trust};
pub use load::{Inflow, Look, Sink, Source};
pub use marks::Marks;
pub use overheard::{Hear, Overheard};
pub use probe::{ProbeJob, Probed, probe};
pub use qlog::Qlog;
pub use receiver::{Listener, Notice, Receiver, ReceiverOptions};
pub use sender::{SendJob, SendProgress, Sent, send};
