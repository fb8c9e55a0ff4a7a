//! Fixed frames of shared memory in which packets stay from the moment the kernel hands them over until it takes them
//! back. The region is the UMEM of the AF_XDP sockets (Linux `Documentation/networking/af_xdp.rst`), so a packet is
//! never copied in user space; the packet-socket path uses the same frames so that everything above the I/O is the same
//! code.
//!
//! Unlike the UMEM of libxdp, the pool also knows where in each frame its packet begins and how long it is, because the
//! queue hands around nothing but a frame's number.

use std::io;
use std::ptr::NonNull;

use thiserror::Error;

/// Bytes of one frame. A power of two, as AF_XDP's aligned mode wants, and the smallest that holds an Ethernet frame
/// of 1500 + 14 + two VLAN tags behind the 256 bytes of headroom that the kernel keeps.
pub const FRAME_SIZE: usize = 2048;

/// Bytes that the kernel leaves free in front of a received packet (`XDP_PACKET_HEADROOM`, linux/bpf.h).
pub const HEADROOM: usize = 256;

/// Frames of a pool unless chosen otherwise: 128 MiB, or a 100 ms queue of full-sized packets at 8 Gbit/s.
pub const DEFAULT_FRAMES: u32 = 65_536;

/// The number of a frame in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameIndex(pub u32);

/// A pool that could not be made.
#[derive(Debug, Error)]
pub enum PoolError {
    /// The number of frames is zero or too large.
    #[error("a frame pool holds 64 to 4194304 frames, not {0}")]
    Count(u32),
    /// The memory could not be mapped.
    #[error("no memory for {frames} frames ({bytes} bytes): {source}; use fewer frames")]
    Memory {
        /// Frames asked for.
        frames: u32,
        /// Bytes asked for.
        bytes: usize,
        /// What the kernel said.
        source: io::Error,
    },
}

#[derive(Clone, Copy, Default)]
struct Extent {
    offset: u16,
    length: u16,
    taken: bool,
}

/// A region of frames and the stack of those that are free.
pub struct FramePool {
    region: NonNull<u8>,
    extents: Vec<Extent>,
    free: Vec<u32>,
    exhausted: u64,
    misfreed: u64,
}

// SAFETY: the pool owns its mapping and nothing in it depends on the thread that made it.
unsafe impl Send for FramePool {}

impl FramePool {
    /// Maps a pool of `frames` frames, on huge pages where the kernel grants them.
    ///
    /// # Errors
    /// When the count is out of range or the memory is not to be had.
    pub fn new(frames: u32) -> Result<Self, PoolError> {
        if !(64..=1 << 22).contains(&frames) {
            return Err(PoolError::Count(frames));
        }
        let bytes = frames as usize * FRAME_SIZE;
        // SAFETY: an anonymous private mapping at an address of the kernel's choice touches no memory of ours.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        let region = match NonNull::new(address.cast::<u8>()) {
            Some(region) if address != libc::MAP_FAILED => region,
            _ => return Err(PoolError::Memory { frames, bytes, source: io::Error::last_os_error() }),
        };
        // SAFETY: the advice names exactly the mapping made above; being refused costs speed and nothing else.
        unsafe { libc::madvise(address, bytes, libc::MADV_HUGEPAGE) };
        Ok(Self {
            region,
            extents: vec![Extent::default(); frames as usize],
            // The lowest numbers are on top, so that a run that needs few frames touches few pages.
            free: (0..frames).rev().collect(),
            exhausted: 0,
            misfreed: 0,
        })
    }

    /// Frames of the pool.
    pub fn capacity(&self) -> u32 {
        self.extents.len() as u32
    }

    /// Frames that are free.
    pub fn available(&self) -> u32 {
        self.free.len() as u32
    }

    /// How often a frame was wanted and none was free. On the AF_XDP path the kernel then finds its fill ring empty
    /// and drops.
    pub fn exhausted(&self) -> u64 {
        self.exhausted
    }

    /// How often a frame was given back that was not taken: a programming error that is counted rather than obeyed.
    pub fn misfreed(&self) -> u64 {
        self.misfreed
    }

    /// Takes a free frame; `None` when there is none.
    pub fn take(&mut self) -> Option<FrameIndex> {
        match self.free.pop() {
            Some(index) => {
                self.extents[index as usize] = Extent { offset: HEADROOM as u16, length: 0, taken: true };
                Some(FrameIndex(index))
            }
            None => {
                self.exhausted += 1;
                None
            }
        }
    }

    /// Gives a frame back.
    pub fn free(&mut self, frame: FrameIndex) {
        match self.extents.get_mut(frame.0 as usize) {
            Some(extent) if extent.taken => {
                extent.taken = false;
                self.free.push(frame.0);
            }
            _ => self.misfreed += 1,
        }
    }

    /// Says where in its frame a packet lies. What would reach beyond the frame is cut off.
    pub fn set_extent(&mut self, frame: FrameIndex, offset: usize, length: usize) {
        if let Some(extent) = self.extents.get_mut(frame.0 as usize) {
            let offset = offset.min(FRAME_SIZE);
            extent.offset = offset as u16;
            extent.length = length.min(FRAME_SIZE - offset) as u16;
        }
    }

    /// Where the packet of a frame begins, from the start of the whole region. AF_XDP calls this its address.
    pub fn address(&self, frame: FrameIndex) -> u64 {
        frame.0 as u64 * FRAME_SIZE as u64 + u64::from(self.extents[frame.0 as usize].offset)
    }

    /// The packet in a frame; empty for a number outside the pool.
    pub fn bytes(&self, frame: FrameIndex) -> &[u8] {
        let Some(extent) = self.extents.get(frame.0 as usize) else { return &[] };
        // SAFETY: `set_extent` keeps offset + length within the frame, the frame lies within the mapping, and shared
        // access to the pool keeps others from writing.
        unsafe {
            let start = self.region.as_ptr().add(frame.0 as usize * FRAME_SIZE + extent.offset as usize);
            std::slice::from_raw_parts(start, extent.length as usize)
        }
    }

    /// The packet in a frame, to be changed; empty for a number outside the pool.
    pub fn bytes_mut(&mut self, frame: FrameIndex) -> &mut [u8] {
        let Some(extent) = self.extents.get(frame.0 as usize) else { return &mut [] };
        // SAFETY: as in `bytes`; exclusive access to the pool makes this the only reference.
        unsafe {
            let start = self.region.as_ptr().add(frame.0 as usize * FRAME_SIZE + extent.offset as usize);
            std::slice::from_raw_parts_mut(start, extent.length as usize)
        }
    }

    /// The whole frame, headroom and all; empty for a number outside the pool.
    pub fn frame_mut(&mut self, frame: FrameIndex) -> &mut [u8] {
        if frame.0 as usize >= self.extents.len() {
            return &mut [];
        }
        // SAFETY: the frame lies within the mapping and exclusive access makes this the only reference.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.region.as_ptr().add(frame.0 as usize * FRAME_SIZE),
                FRAME_SIZE,
            )
        }
    }

    /// Copies a packet into a free frame; `None` when no frame is free or the packet does not fit.
    pub fn insert(&mut self, packet: &[u8]) -> Option<FrameIndex> {
        if packet.len() > FRAME_SIZE - HEADROOM {
            return None;
        }
        let frame = self.take()?;
        self.set_extent(frame, HEADROOM, packet.len());
        self.bytes_mut(frame).copy_from_slice(packet);
        Some(frame)
    }

    /// Start and length of the region, to be registered as a UMEM.
    pub(crate) fn region(&self) -> (*mut u8, usize) {
        (self.region.as_ptr(), self.extents.len() * FRAME_SIZE)
    }
}

impl Drop for FramePool {
    fn drop(&mut self) {
        let (start, bytes) = self.region();
        // SAFETY: exactly the mapping made in `new`; no reference into it outlives the pool. A kernel that still has
        // it as a UMEM holds its own pin on the pages.
        unsafe { libc::munmap(start.cast(), bytes) };
    }
}

impl std::fmt::Debug for FramePool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FramePool {{ {} of {} frames free }}", self.available(), self.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::{FRAME_SIZE, FrameIndex, FramePool, HEADROOM};

    #[test]
    fn frames_hold_packets_and_come_back() {
        let mut pool = FramePool::new(64).unwrap();
        let frames: Vec<_> = (0..64u8).map(|n| pool.insert(&[n; 100]).unwrap()).collect();
        assert_eq!(pool.insert(&[1]), None);
        assert_eq!(pool.exhausted(), 1);
        for (n, frame) in frames.iter().enumerate() {
            assert_eq!(pool.bytes(*frame), &[n as u8; 100]);
            assert_eq!(pool.address(*frame), n as u64 * FRAME_SIZE as u64 + HEADROOM as u64);
        }
        frames.iter().for_each(|frame| pool.free(*frame));
        assert_eq!((pool.available(), pool.misfreed()), (64, 0));
        pool.free(frames[0]);
        pool.free(FrameIndex(1000));
        assert_eq!((pool.available(), pool.misfreed()), (64, 2));
    }

    #[test]
    fn nothing_reaches_beyond_a_frame() {
        let mut pool = FramePool::new(64).unwrap();
        let frame = pool.take().unwrap();
        pool.set_extent(frame, 2000, 1500);
        assert_eq!(pool.bytes(frame).len(), 48);
        pool.set_extent(frame, 70_000, 1500);
        assert!(pool.bytes_mut(frame).is_empty());
        assert!(pool.bytes(FrameIndex(64)).is_empty());
        assert_eq!(pool.insert(&[0; 1793]), None);
        assert!(FramePool::new(3).is_err());
    }
}
