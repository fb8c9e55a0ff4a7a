//! What may be seen of a running bottleneck, and the fan-out of a queue's events to all that live on them: the law (its
//! congestion signals), the audit, the frame pool (a dropped packet's frame is free again) and the observer.

use std::any::Any;

use weir_core::{Audit, Event, EventKind, EventSink, FlowId, Time};
use weir_law::{Direction, FlowKey, LawSink, Watch};

use crate::frame::{FrameIndex, FramePool};
use crate::pipeline::Departure;

/// Watches a bottleneck. Called on the packet path: implementors neither block nor allocate per packet.
///
/// Being [`Any`], an observer that comes back from a finished run can be turned into what it was:
/// `let any: Box<dyn Any> = observer; any.downcast::<Mine>()`.
pub trait Observer: EventSink + LawSink + Any + Send {
    /// A frame came in, before any delay. `frame` is as it is on the wire, without checksum.
    fn received(&mut self, _frame: &[u8], _direction: Direction, _now: Time) {}

    /// A flow was seen for the first time, in either direction.
    fn new_flow(&mut self, _flow: FlowId, _key: &FlowKey, _now: Time) {}

    /// A packet has left: `departure.due` is when it should have, `real` when it did. `frame` carries the marks that it
    /// got.
    fn departed(&mut self, _departure: &Departure, _frame: &[u8], _real: Time) {}
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl EventSink for Unobserved {
    fn event(&mut self, _: &Event) {}
}

impl LawSink for Unobserved {}

impl Observer for Unobserved {}

/// Where the events of the queue discipline go.
pub(crate) struct Fan<'a> {
    pub(crate) watch: Option<&'a mut Watch>,
    pub(crate) audit: &'a mut Audit,
    pub(crate) pool: &'a mut FramePool,
    pub(crate) observer: &'a mut dyn Observer,
}

impl EventSink for Fan<'_> {
    fn event(&mut self, event: &Event) {
        self.audit.event(event);
        self.observer.event(event);
        if let Some(watch) = &mut self.watch {
            watch.event(event);
        }
        if matches!(event.kind, EventKind::Drop(_)) {
            self.pool.free(FrameIndex(event.packet.handle as u32));
        }
    }
}

/// Lists the packets that a queue still holds, while it is emptied at the end of a run.
#[derive(Debug, Default)]
pub(crate) struct Leftovers(pub(crate) Vec<(FlowId, FrameIndex)>);

impl EventSink for Leftovers {
    fn event(&mut self, event: &Event) {
        // A discipline may well drop while it is emptied (CoDel does). Until now the packet was in the queue.
        if matches!(event.kind, EventKind::Drop(_) | EventKind::Dequeue) {
            self.0.push((event.packet.flow, FrameIndex(event.packet.handle as u32)));
        }
    }
}
