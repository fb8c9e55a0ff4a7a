//! How many packets the receiver says were marked: noq tells its controllers only that there were some, but scalable
//! controllers answer to how many. The count is in the receiver's ACK frames (RFC 9000 section 19.3.2), so each
//! packet's frames are looked at once it is decrypted, just before noq reads them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use noq_proto::PathId;

use crate::frames::look;
use crate::overheard::Hear;

/// The count of a connection's first path so far. Written and read in one thread.
#[derive(Clone, Debug, Default)]
pub struct Marks(Arc<AtomicU64>);

impl Marks {
    /// Packets that arrived marked CE, by the newest ACK frame.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Hear for Marks {
    fn begin(&self) {
        // A client that comes back after a handshake that timed out begins anew.
        self.0.store(0, Ordering::Relaxed);
    }

    fn packet(&self, _: PathId, _: u64, frames: &[u8]) {
        look(frames, |acknowledged| {
            if let (0, Some(marks)) = (acknowledged.path, acknowledged.marked) {
                self.0.fetch_max(marks, Ordering::Relaxed);
            }
        });
    }
}
