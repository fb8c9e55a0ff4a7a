//! The door of a path: by it the host lets packets go at times of its own instead of noq's pacer's.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_cc::Sent;

/// The door of one path. Its two sides, the host and the path's bridge, are in one thread; the lock is never waited
/// for.
#[derive(Debug, Default)]
pub(crate) struct Door(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    shut: bool,
    knocked: bool,
    passed: Option<(u64, Sent)>,
}

impl Door {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The host opens or shuts it before it asks noq for a packet.
    pub(crate) fn set_shut(&self, shut: bool) {
        let mut state = self.state();
        state.shut = shut;
        state.knocked = false;
    }

    /// Whether no packet may go now.
    pub(crate) fn is_shut(&self) -> bool {
        self.state().shut
    }

    /// noq has a packet and may not send it; the answer is whether the door is why.
    pub(crate) fn knock(&self) -> bool {
        let mut state = self.state();
        state.knocked = state.shut;
        state.shut
    }

    /// Whether a packet waits before the shut door.
    pub(crate) fn is_wanted(&self) -> bool {
        self.state().knocked
    }

    /// noq has made a packet of this number.
    pub(crate) fn pass(&self, number: u64, sent: Sent) {
        self.state().passed = Some((number, sent));
    }

    /// The packet that noq has made since the last call, if it is one that counts as in flight.
    pub(crate) fn take(&self) -> Option<(u64, Sent)> {
        self.state().passed.take()
    }
}
