//! Queue disciplines without I/O: packets, time and randomness are passed in; packets and events come out. The same
//! code queues real packets in user space and virtual ones in the simulator.
//!
//! To add a discipline: write one file with a type that implements [`Qdisc`] and one for its keys that implements
//! [`config::Keys`], and enter it in `config/registry.rs`; from another crate, call [`config::register`].

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod config;
pub mod edge;

mod cake;
mod codel;
mod crq;
mod csaqm;
mod curve;
mod curvy_red;
mod drr;
mod dual;
mod dualpi2;
mod dualq_curvy;
mod fifo;
mod flow_hash;
mod fq;
mod fq_codel;
mod fq_pie;
mod keys;
mod limit;
mod links;
mod pi;
mod pi2;
mod pie;
mod red;
mod ring;
mod rounds;
mod share;
mod step;
mod store;
mod timer;

pub use cake::{Cake, CakeConfig, HostIsolation};
pub use codel::{CeThreshold, Codel, CodelConfig, KernelVariant};
pub use config::{BuildContext, ConfigError, QdiscConfig};
pub use crq::{Crq, CrqConfig, CrqCounters, Sharing, Split, Switching};
pub use csaqm::{Csaqm, CsaqmConfig};
pub use drr::{Drr, DrrConfig};
pub use fifo::{Bfifo, Pfifo};
pub use fq::{Fq, FqConfig};
pub use fq_codel::{FqCodel, FqCodelConfig};
pub use limit::Limit;
pub use ring::QueueLimit;

use weir_core::{Backlog, EventSink, Packet, Time};

/// A queue discipline.
///
/// Every packet given to [`enqueue`](Qdisc::enqueue) leaves exactly once: by [`dequeue`](Qdisc::dequeue) or by a
/// `Drop` event. Within one queue the packets of a flow keep their order.
pub trait Qdisc: Send {
    /// Takes a packet that arrives at `now`, or drops it; says which by an event.
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink);

    /// Hands out the packet that the link sends next. `now` never goes back between calls.
    ///
    /// `None` with a backlog means that the discipline holds packets back (a hard split): ask again at
    /// [`next_ready`](Qdisc::next_ready).
    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet>;

    /// The earliest time at which [`dequeue`](Qdisc::dequeue) may return a packet: `now` for a work-conserving
    /// discipline with a backlog, later for one that shapes, `None` when it is empty.
    fn next_ready(&self, now: Time) -> Option<Time> {
        (self.backlog().packets > 0).then_some(now)
    }

    /// What the discipline holds.
    fn backlog(&self) -> Backlog;
}
