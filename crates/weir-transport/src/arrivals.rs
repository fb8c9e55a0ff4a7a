//! What a receiver overhears of its packets: which have arrived, and when.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use noq_proto::PathId;
use weir_core::Time;

use crate::frames::look;
use crate::overheard::Hear;
use crate::report::{Arrival, PATHS};

/// The arrivals of a connection that its host has not taken yet. All sides are in one thread; the lock is never waited
/// for.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    state: Arc<Mutex<State>>,
    /// Bytes of frames that arrived on the first path, and on others.
    bytes: Arc<[AtomicU64; 2]>,
}

#[derive(Debug, Default)]
struct State {
    now: Time,
    heard: Vec<Arrival>,
}

impl Arrivals {
    /// None yet; bytes are counted there.
    pub(crate) fn new(bytes: Arc<[AtomicU64; 2]>) -> Self {
        Self { state: Arc::default(), bytes }
    }

    /// The datagram that noq is about to read has arrived at this time.
    pub(crate) fn set_time(&self, now: Time) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).now = now;
    }

    /// Hands over what has arrived.
    pub(crate) fn take(&self, mut each: impl FnMut(Arrival)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.heard.drain(..).for_each(&mut each);
    }
}

impl Hear for Arrivals {
    fn packet(&self, path: PathId, number: u64, frames: &[u8]) {
        // To report what only acknowledges reports would never end.
        if !look(frames, |_| ()) {
            return;
        }
        self.bytes[usize::from(path != PathId::ZERO)].fetch_add(frames.len() as u64, Ordering::Relaxed);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = (0..PATHS as u8).find(|number| path_of(*number) == path);
        if let Some(path) = numbers {
            let at = state.now;
            state.heard.push(Arrival { path, number, at });
        }
    }
}

/// The path of a number below [`PATHS`].
pub(crate) fn path_of(number: u8) -> PathId {
    PathId::from(number)
}
