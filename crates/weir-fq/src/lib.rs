//! Fair-queuing detection without I/O: a sender finds out at the start of a connection whether the bottleneck of its
//! path keeps flows apart, and chooses its congestion controller by that. Bachl, Fabini and Zseby, "Detecting Fair
//! Queuing for Better Congestion Control" (arXiv 2010.08362), and what goes beyond it.
//!
//! A connection has two sub-flows, which differ in a port and so are two flows to a queue: one of them
//! [`SubFlow::Heavy`], the other [`SubFlow::Light`]. Both carry user data. The host, a simulator or a QUIC stack,
//! numbers the packets of each, finds out what is lost, and sends again; it gives each sub-flow a [`Gate`] as its
//! congestion controller and tells [`Connection::on_arrival`] when packets arrived at the other end. While a
//! [`Detector`] works, the gates let single packets through at the times that it asks for. Afterwards the heavy
//! sub-flow is under the chosen controller, and the light one sends a packet now and then by which a change shows,
//! until the bottleneck is looked at again.
//!
//! To add a detector: one file with a type that implements [`Detector`], and its entry in [`catalog::DETECTORS`].

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod catalog;
mod connection;
mod detector;
mod doubling;
mod flying;
mod gate;
mod isolation;
mod lookout;
mod shortest;
#[cfg(test)]
mod toy;
mod trains;

pub use connection::{Choose, Chosen, Connection, Findings, Options};
pub use detector::{Departure, Detector, Finding, Outcome, Packet, SubFlow, Testimony, Verdict};
pub use doubling::{Doubling, DoublingParams, Jitter, Measure, Pace};
pub use gate::{Gate, Shared};
pub use isolation::Isolation;
pub use trains::{Trains, TrainsParams};
