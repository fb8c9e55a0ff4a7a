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
    /// noq has asked for the window, and not said that it is full.
    asked: bool,
    passed: Option<Passed>,
}

/// A packet that noq has made, of those that count as in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    /// Its number on its path.
    pub(crate) number: u64,
    pub(crate) sent: Sent,
    /// noq did not ask whether the window has room for it: what probes for a lost tail (RFC 9002 section 7.5) or
    /// answers a path challenge goes at once, so that no gate holds it back.
    pub(crate) forced: bool,
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
        state.asked = false;
    }

    /// noq asks whether it may send a packet, which depends on the window; whether the door is shut.
    pub(crate) fn ask(&self) -> bool {
        let mut state = self.state();
        state.asked = true;
        state.shut
    }

    /// noq has a packet and may not send it; the answer is whether the door is why.
    pub(crate) fn knock(&self) -> bool {
        let mut state = self.state();
        state.asked = false;
        state.knocked = state.shut;
        state.shut
    }

    /// Whether a packet waits before the shut door.
    pub(crate) fn is_wanted(&self) -> bool {
        self.state().knocked
    }

    /// noq has made a packet of this number.
    pub(crate) fn pass(&self, number: u64, sent: Sent) {
        let mut state = self.state();
        let forced = !std::mem::take(&mut state.asked);
        state.passed = Some(Passed { number, sent, forced });
    }

    /// The packet that noq has made since the last call, if it is one that counts as in flight.
    pub(crate) fn take(&self) -> Option<Passed> {
        self.state().passed.take()
    }
}
