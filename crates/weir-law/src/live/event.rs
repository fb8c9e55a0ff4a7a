//! Ended cycles as the kernel's programs report them.

use weir_core::{FlowId, Time};

use crate::LawSink;
use crate::ffi;
use crate::flow::FlowKey;

/// An ended cycle as the kernel writes it to its ring of events (`struct weir_event` of `bpf/crq_maps.h`).
#[derive(Clone, Copy, Debug)]
pub struct LiveEvent {
    /// When, on the kernel's monotonic clock.
    pub time: Time,
    /// The flow.
    pub key: FlowKey,
    outcome: ffi::Outcome,
}

/// Bytes of an event's key, and of the outcome that ends it.
const KEY_BYTES: usize = size_of::<ffi::Key>();
const OUTCOME_BYTES: usize = size_of::<ffi::Outcome>();

impl LiveEvent {
    /// From the record's bytes; `None` if it is not as long as one.
    pub fn from_bytes(record: &[u8]) -> Option<Self> {
        let time = u64::from_ne_bytes(record.get(..8)?.try_into().ok()?);
        let key = ffi::from_bytes(record.get(8..8 + KEY_BYTES)?)?;
        let outcome = ffi::from_bytes(record.get(record.len().checked_sub(OUTCOME_BYTES)?..)?)?;
        Some(Self { time: Time::from_nanos(time), key: FlowKey::from_raw(&key), outcome })
    }

    /// Reports the cycle, the judgement and the change of queue to `sink`, in this order, as [`Law::arrival`] does.
    /// Times are moved back by `origin`.
    ///
    /// [`Law::arrival`]: crate::Law::arrival
    pub fn report(&self, flow: FlowId, origin: Time, sink: &mut dyn LawSink) {
        let shift = |time: u64| Time::from_nanos(time.saturating_sub(origin.as_nanos()));
        let mut outcome = self.outcome;
        outcome.end.started = shift(outcome.end.started).as_nanos();
        outcome.end.ended = shift(outcome.end.ended).as_nanos();
        crate::law::report(flow, &outcome, shift(self.time.as_nanos()), sink);
    }
}
