//! The responsiveness law: does a flow answer to the congestion signals that a bottleneck gives it?
//!
//! The safe face of `bpf/law.h` and `bpf/packet.h`, which are compiled once for the kernel and once into this crate, so
//! that the simulator, the user-space bottleneck, the capture reader and the kernel run the same lines. The law is
//! SpinTrap (QUIC) and TCPTrap (TCP) of Kunze et al., "Congestion-Responsive Queuing for Internet Flows", NOMS 2025;
//! `docs/model/law.md` has the model and where the paper, its public prototype and Weir differ.
//!
//! A bottleneck calls [`parse`] and [`Watch::arriving`] for each packet before it queues it and passes the events of
//! its queue discipline to the same [`Watch`], which stamps packets and books drops and marks. [`Law`] below it is for
//! those who have no queue, such as a reader of captures. [`LawSink`] hears of cycles, assessments and queue changes.
//! Nothing here does I/O, reads a clock or allocates per packet.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod events;
mod ffi;
mod flow;
mod law;
pub mod live;
mod live_ffi;
mod params;
mod parsed;
mod table;
mod watch;

#[cfg(test)]
mod guard_tests;
#[cfg(test)]
mod hash_tests;
#[cfg(test)]
mod judgement_tests;
#[cfg(test)]
mod law_testing;
#[cfg(test)]
mod params_tests;
#[cfg(test)]
mod parsed_tests;
#[cfg(test)]
mod plausible_tests;
#[cfg(test)]
mod progress_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod quic_tests;
#[cfg(test)]
mod tcp_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod timestamp_tests;
#[cfg(test)]
mod watch_tests;

pub use events::{
    Assessment, ChoiceCause, ChoiceChange, Class, CycleEnd, Judgement, LawSink, Signal, SignalPair, Verdict,
    Votes,
};
pub use flow::{FlowKey, FlowView};
pub use law::{Counters, Direction, Law, Stamp, UNBOOKED};
pub use params::{MainSignal, Params, ParamsError, Preset, Tie};
pub use parsed::{Kind, ParsedPacket, Quic, Start, Tcp, glance, parse, parse_cut, write_ce};
pub use watch::Watch;
