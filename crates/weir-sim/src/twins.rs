//! Two sub-flows of one connection, as a host of weir-fq: two flows in the network, which share its [`weir_fq::Connection`].
//!
//! | a QUIC connection with two paths (draft-ietf-quic-multipath) | here |
//! |---|---|
//! | packet numbers, loss detection and round-trip time of each path | a sender for each |
//! | the receiver tells when each packet arrived | the same, with the next acknowledgement that reaches the sender |
//! | what one path has lost may go again on the other | goes again on its own; a limited connection is done when so many different bytes have arrived on both |
//! | acknowledgement of each packet (ack frequency) | the same |

use std::collections::VecDeque;

use weir_core::Time;
use weir_fq::{Shared, SubFlow};

use crate::flow::Flow;

/// What a sub-flow has besides a flow.
pub(crate) struct Twin {
    pub(crate) shared: Shared,
    pub(crate) sub_flow: SubFlow,
    /// The flow of the other sub-flow.
    pub(crate) other: u32,
    /// Packets that have arrived of which the sender does not know yet: numbers, and when.
    arrivals: VecDeque<(u64, Time)>,
}

impl Twin {
    pub(crate) fn new(shared: Shared, sub_flow: SubFlow, other: u32) -> Self {
        Self { shared, sub_flow, other, arrivals: VecDeque::new() }
    }

    pub(crate) fn arrived(&mut self, number: u64, at: Time) {
        self.arrivals.push_back((number, at));
    }

    /// An acknowledgement of what had arrived at `heard` is at the sender.
    pub(crate) fn hear(&mut self, now: Time, heard: Time) {
        while let Some((number, at)) = self.arrivals.front().copied()
            && at <= heard
        {
            self.arrivals.pop_front();
            self.shared.lock().on_arrival(now, self.sub_flow, number, at);
        }
    }
}

impl Flow {
    /// If this is a sub-flow: the flow of the other.
    #[inline]
    pub(crate) fn sibling(&self) -> Option<u32> {
        self.twin.as_ref().map(|twin| twin.other)
    }
}
