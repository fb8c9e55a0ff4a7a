//! A coupled dual queue with its L4S queue protected from flows that do not answer to marks: those that a
//! [`Challenge`] finds go to a third queue, *demoted*. CRQ section V proposes it ("extending the static classification
//! based on ECT(1) use with our responsiveness assessment"); queue and test are Weir's own.
//!
//! - **Why not the Classic queue.** Traffic that does not give way drives the Classic controller up, and the coupling
//!   marks all L4S flows with it. The demoted queue is coupled to nothing.
//! - **Share.** While the dual queue waits, the demoted queue has a fixed part of the bytes and no more; what the dual
//!   queue leaves idle it gets. Its turn comes when the L4S queue is empty, or after four turns owed: a packet between two
//!   of the L4S queue is delay that marks those behind.
//! - **Its AQM.** Tail drop at 25 ms of its share, at least four full packets: who does not answer needs no control law,
//!   and who does gets losses.
//! - **A flow that is tried.** Its packets are marked as they leave, where the dual queue has not done so, and those that
//!   the challenge drops are refused at the door.

use weir_core::{
    Backlog, DropReason, Duration, Ecn, Event, EventKind, EventSink, MarkReason, Packet, QueueId, Time,
};
use weir_queue::{Challenge, QueueLimit, Ring, Treatment};

use crate::Qdisc;
use crate::keys::{BuildContext, ConfigError};
use crate::pi2::Scalable;

/// The names of the queues, in the order of their ids.
pub(crate) const NAMES: &[&str] = &["classic", "l4s", "demoted"];

const L4S: QueueId = QueueId(1);
const DEMOTED: QueueId = QueueId(2);
/// Packets owed to the demoted queue from which it does not wait for the L4S queue to be empty.
const OWED: i64 = 4;
/// How long the demoted queue may be, at its share of the link.
const LONGEST: Duration = Duration::from_millis(25);

/// A dual queue and the queue of those that have been demoted from it.
pub(crate) struct Protected {
    dual: Box<dyn Qdisc>,
    scalable: Scalable,
    demoted: Ring,
    /// Per cent of the bytes that the demoted queue has while both wait.
    share: i64,
    /// Bytes owed to the demoted queue, times 100. Above zero it may have its turn.
    credit: i64,
    /// The credit above which it has its turn.
    patience: i64,
    challenge: Challenge,
    /// What the L4S queue held at its last event.
    l4s: Backlog,
}

impl Protected {
    /// Protects the L4S queue of `dual`, to which `scalable` packets go; `share` is the demoted queue's, in per cent.
    ///
    /// # Errors
    ///
    /// A share that is not from 1 to 50.
    pub(crate) fn over(
        dual: Box<dyn Qdisc>,
        scalable: Scalable,
        share: u8,
        context: &BuildContext,
    ) -> Result<Box<dyn Qdisc>, ConfigError> {
        if !(1..=50).contains(&share) {
            return Err(ConfigError::refused("protect", format!("{share} % is not from 1 to 50")));
        }
        let bytes = context.rate.bytes_in(LONGEST).0 * u64::from(share) / 100;
        let limit = QueueLimit::Bytes(bytes.max(4 * u64::from(context.mtu)));
        Ok(Box::new(Self {
            dual,
            scalable,
            demoted: Ring::of_queue(DEMOTED, limit),
            share: i64::from(share),
            credit: 0,
            patience: OWED * 100 * i64::from(context.mtu),
            challenge: Challenge::new(context.rate),
            l4s: Backlog::default(),
        }))
    }

    /// Hands out a packet of one of the two.
    fn take(&mut self, is_demoted: bool, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        if is_demoted {
            return self.demoted.depart(now, events);
        }
        let Self { dual, challenge, l4s, .. } = self;
        let mut leaving = Leaving { challenge, l4s, was_marked: false, events };
        let mut packet = dual.dequeue(now, &mut leaving)?;
        if self.scalable.is(packet.ecn_in) && self.challenge.is_tried(packet.flow) {
            packet.ecn = Ecn::Ce;
        }
        Some(packet)
    }
}

impl Qdisc for Protected {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        let treatment = if self.scalable.is(packet.ecn_in) {
            self.challenge.arrives(packet.flow, packet.wire_bytes, now, &mut |_, _| ())
        } else {
            Treatment::Pass
        };
        match treatment {
            Treatment::Demote => self.demoted.offer(packet, now, events),
            Treatment::Drop => events.event(&Event {
                time: now,
                kind: EventKind::Drop(DropReason::Early),
                packet: Packet { arrived: now, ..packet },
                queue: L4S,
                sojourn: Duration::ZERO,
                backlog: self.l4s,
            }),
            Treatment::Pass | Treatment::Mark => {
                let Self { dual, challenge, l4s, .. } = self;
                let mut entering = Entering { challenge, l4s, events };
                dual.enqueue(packet, now, &mut entering);
            }
        }
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        let waits = (self.dual.backlog().packets > 0, self.demoted.backlog().packets > 0);
        let is_demoted = match waits {
            (true, true) => self.credit > if self.l4s.packets > 0 { self.patience } else { 0 },
            (_, demoted) => demoted,
        };
        // The dual queue may drop all it has.
        let (is_demoted, packet) = [is_demoted, !is_demoted]
            .into_iter()
            .find_map(|is_demoted| Some((is_demoted, self.take(is_demoted, now, events)?)))?;
        if waits == (true, true) {
            let weight = if is_demoted { self.share - 100 } else { self.share };
            self.credit += weight * i64::from(packet.wire_bytes);
        }
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        let (dual, demoted) = (self.dual.backlog(), self.demoted.backlog());
        Backlog { packets: dual.packets + demoted.packets, bytes: dual.bytes + demoted.bytes }
    }
}

/// Remembers what the L4S queue holds, and tells the challenge what it has no room for.
struct Entering<'a> {
    challenge: &'a mut Challenge,
    l4s: &'a mut Backlog,
    events: &'a mut dyn EventSink,
}

impl EventSink for Entering<'_> {
    fn event(&mut self, event: &Event) {
        if event.queue == L4S {
            *self.l4s = event.backlog;
            if matches!(event.kind, EventKind::Drop(_)) {
                self.challenge.marked();
            }
        }
        self.events.event(event);
    }
}

/// Tells the challenge what the L4S queue marks, and has packets of a flow that is tried leave with a mark.
struct Leaving<'a> {
    challenge: &'a mut Challenge,
    l4s: &'a mut Backlog,
    /// Whether the packet that comes next to leave was marked.
    was_marked: bool,
    events: &'a mut dyn EventSink,
}

impl EventSink for Leaving<'_> {
    fn event(&mut self, event: &Event) {
        if event.queue != L4S {
            return self.events.event(event);
        }
        *self.l4s = event.backlog;
        match event.kind {
            EventKind::Mark(_) if self.was_marked => {}
            EventKind::Mark(_) => {
                self.was_marked = true;
                self.challenge.marked();
            }
            EventKind::Drop(_) => self.challenge.marked(),
            EventKind::Dequeue => {
                if !self.was_marked && self.challenge.is_tried(event.packet.flow) {
                    let packet = Packet { ecn: Ecn::Ce, ..event.packet };
                    let held = Backlog {
                        packets: event.backlog.packets + 1,
                        bytes: event.backlog.bytes + u64::from(packet.wire_bytes),
                    };
                    let kind = EventKind::Mark(MarkReason::Aqm);
                    self.events.event(&Event { kind, packet, backlog: held, ..*event });
                    return self.events.event(&Event { packet, ..*event });
                }
            }
            EventKind::Enqueue => {}
        }
        self.events.event(event);
    }
}

#[cfg(test)]
mod tests;
