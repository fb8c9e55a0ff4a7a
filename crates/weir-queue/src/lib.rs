//! What queue disciplines are made of: the trait [`Qdisc`], and the parts that several of them share. [`Ring`] is one
//! queue with a limit; [`Store`] holds many queues; [`Rounds`] says whose turn it is, over the lists of [`Links`];
//! [`FlowHash`] puts flows into queues; [`Timer`] does periodic work without a clock; [`Challenge`] finds flows that do not
//! give way.
//!
//! Nothing here does I/O or reads a clock: packets, time and randomness are passed in; packets and events come out.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod challenge;
mod flow_hash;
mod links;
mod ring;
mod rounds;
mod store;
mod timer;

pub use challenge::{Challenge, Finding, Treatment};
pub use flow_hash::FlowHash;
pub use links::{Links, List};
pub use ring::{QueueLimit, Ring};
pub use rounds::Rounds;
pub use store::{Fifo, Store};
pub use timer::Timer;

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
