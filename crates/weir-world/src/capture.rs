//! The capture of a run: packets come through a ring of fixed size and a thread of their own writes them, so that the
//! disk never holds up the packet path.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use crate::record::{Captured, SNAPLEN, Tap};
use crate::run::RunError;
use weir_report::output::{Part, Target};
use weir_report::pcapng::{LINK_ETHERNET, PcapngError, PcapngWriter};

/// What a capture's interfaces are called.
pub(crate) const INTERFACES: [&str; 2] = ["to the client, after the queue", "to the server"];
/// Packets between the bottleneck and the capture file.
const TAP_PACKETS: usize = 1 << 15;

/// The thread that writes the capture, off the packet path.
pub(crate) struct Capture {
    target: Target,
    thread: JoinHandle<Result<Part, PcapngError>>,
}

impl Capture {
    /// `began` is time zero in seconds since 1970, set before the first packet.
    pub(crate) fn start(
        target: &Target,
        began: Arc<OnceLock<std::time::Duration>>,
    ) -> Result<(Self, Tap), RunError> {
        let failed = |source| RunError::Capture { path: target.path().to_owned(), source };
        let part = target.create().map_err(|error| failed(error.into()))?;
        let mut writer =
            PcapngWriter::new(part, &INTERFACES, LINK_ETHERNET, SNAPLEN as u32).map_err(failed)?;
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
            writer.finish()
        });
        Ok((Self { target: target.clone(), thread }, Tap { to, missed: 0 }))
    }

    /// Waits until all is on disk. The tap must be gone by now, or this waits for ever.
    pub(crate) fn finish(self) -> Result<(), RunError> {
        let written = self.thread.join().map_err(|_| RunError::Panic("capture"))?;
        written
            .and_then(|part| Ok(self.target.finish(part)?))
            .map_err(|source| RunError::Capture { path: self.target.path().to_owned(), source })
    }
}
