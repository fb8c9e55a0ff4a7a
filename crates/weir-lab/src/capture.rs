//! The capture of a run: packets come through a ring of fixed size and a thread of their own writes them, so that the
//! disk never holds up the packet path.

use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use crate::pcapng::{LINK_ETHERNET, PcapngError, PcapngWriter};
use crate::record::{Captured, SNAPLEN, Tap};
use crate::run::RunError;

/// What a capture's interfaces are called.
pub(crate) const INTERFACES: [&str; 2] = ["to the client, after the queue", "to the server"];
/// Packets between the bottleneck and the capture file.
const TAP_PACKETS: usize = 1 << 15;

/// The thread that writes the capture, off the packet path.
pub(crate) struct Capture {
    path: PathBuf,
    thread: JoinHandle<Result<(), PcapngError>>,
}

impl Capture {
    /// `began` is time zero in seconds since 1970, set before the first packet.
    pub(crate) fn start(
        path: &Path,
        began: Arc<OnceLock<std::time::Duration>>,
    ) -> Result<(Self, Tap), RunError> {
        let failed = |source| RunError::Capture { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| failed(error.into()))?;
        }
        let mut writer =
            PcapngWriter::create(path, &INTERFACES, LINK_ETHERNET, SNAPLEN as u32).map_err(failed)?;
        let (to, from) = sync_channel::<Captured>(TAP_PACKETS);
        let thread = std::thread::spawn(move || {
            for packet in from {
                let interface = u32::from(packet.direction == weir_law::Direction::Reverse);
                let since_1970 = began.get().copied().unwrap_or_default();
                let time = since_1970.as_nanos() as u64 + packet.time.as_nanos();
                writer.packet(
                    interface,
                    time,
                    packet.length,
                    &packet.bytes[..usize::from(packet.kept)],
                    None,
                )?;
            }
            writer.finish().map(drop)
        });
        Ok((Self { path: path.to_owned(), thread }, Tap { to, missed: 0 }))
    }

    /// Waits until all is on disk. The tap must be gone by now, or this waits for ever.
    pub(crate) fn finish(self) -> Result<(), RunError> {
        let written = self.thread.join().map_err(|_| RunError::Panic("capture"))?;
        written.map_err(|source| RunError::Capture { path: self.path, source })
    }
}
