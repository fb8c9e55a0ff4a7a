//! A QUIC connection over two 4-tuples, the two sub-flows of [`weir_fq`]: both carry user data while a detector finds out
//! whether the bottleneck is fair-queued; then one of them goes on under the controller that suits what was found.
//!
//! Over noq-proto, a QUIC state machine without I/O, with its multipath extension: two paths whose only difference is the
//! sender's port. Each path's congestion controller is a [`weir_fq::Gate`], which lets packets go at exact times; the
//! receiver reports when each packet has arrived.
//!
//! | module | what it is |
//! |---|---|
//! | `bridge`, `door` | noq's congestion controllers: weir-cc's, or gates |
//! | `marks`, `overheard`, `frames` | what noq does not tell of packets that it reads |
//! | `gates`, `sends` | the sending end: the sub-flows, their paths and their packets' times |
//! | `arrivals`, `report`, `receives` | the receiving end: when what has arrived |
//! | `streams`, `pipe` | messages and bulk data |
//! | `link`, `endpoint` | connections without I/O |
//! | `socket`, `run`, `clock` | sockets, the thread of an endpoint, its time |
//! | `identity` | certificates |
//! | `connect` | how both ends begin |

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod arrivals;
mod bridge;
mod clock;
#[allow(dead_code)]
mod connect;
mod door;
mod endpoint;
mod error;
mod frames;
mod gates;
mod identity;
mod link;
mod marks;
mod overheard;
mod pipe;
mod receives;
mod report;
mod run;
mod sends;
mod socket;
mod streams;

#[cfg(test)]
mod loopback_tests;

pub use bridge::Factory;
pub use error::Error;
pub use identity::{Fingerprint, Identity, Trust};
pub use marks::Marks;
pub use overheard::{Hear, Overheard};
