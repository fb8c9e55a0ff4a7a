//! One AF_XDP socket: its four rings and the system calls around them (linux/if_xdp.h; net/xdp/xsk.c and
//! Documentation/networking/af_xdp.rst in the kernel tree).
//!
//! All that is unsafe about AF_XDP is here. Like libxdp's xsk.h in what it does, without its global caches: a ring
//! keeps its own copy of the side that this process moves, and looks at the kernel's side once per batch.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_void, sockaddr_xdp, xdp_desc, xdp_mmap_offsets, xdp_ring_offset, xdp_umem_reg};

use weir_netdev::device::{get_option, set_option};

/// A ring shared with the kernel, of `T` = frame addresses or descriptors.
pub(crate) struct Ring<T: Copy> {
    map: NonNull<c_void>,
    bytes: usize,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// The side that this process moves: producer of fill and transmit rings, consumer of the others.
    mine: u32,
    /// The last seen value of the other side.
    theirs: u32,
}

impl<T: Copy> Ring<T> {
    fn map(socket: &OwnedFd, offset: libc::off_t, layout: &xdp_ring_offset, size: u32) -> io::Result<Self> {
        let bytes = layout.desc as usize + size as usize * size_of::<T>();
        // SAFETY: maps the socket's ring of exactly this size at an address of the kernel's choice.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket.as_raw_fd(),
                offset,
            )
        };
        let start = match NonNull::new(map) {
            Some(start) if map != libc::MAP_FAILED => start,
            _ => return Err(io::Error::last_os_error()),
        };
        // SAFETY: the kernel reported where in this mapping its counters and entries are; all lie within `bytes`,
        // aligned for their types.
        unsafe {
            Ok(Self {
                map: start,
                bytes,
                producer: start.byte_add(layout.producer as usize).cast(),
                consumer: start.byte_add(layout.consumer as usize).cast(),
                flags: start.byte_add(layout.flags as usize).cast(),
                entries: start.byte_add(layout.desc as usize).cast(),
                size,
                mine: 0,
                theirs: 0,
            })
        }
    }

    fn counter(&self, counter: NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: points into the mapping, which lives as long as `self`; the kernel accesses it atomically too.
        unsafe { counter.as_ref() }
    }

    fn slot(&self, index: u32) -> *mut T {
        // SAFETY: sizes are powers of two, so the masked index is below `size` and the entry within the mapping.
        unsafe { self.entries.as_ptr().add((index & (self.size - 1)) as usize) }
    }

    /// Free places for this process to write to. Looks at the kernel's side only when fewer than `wanted` are known.
    pub(crate) fn room(&mut self, wanted: u32) -> u32 {
        let known = self.size - self.mine.wrapping_sub(self.theirs);
        if known >= wanted {
            return known;
        }
        self.theirs = self.counter(self.consumer).load(Ordering::Acquire);
        self.size - self.mine.wrapping_sub(self.theirs)
    }

    /// Writes one entry; to be called only with room. Seen by the kernel after [`publish`](Self::publish).
    pub(crate) fn write(&mut self, entry: T) {
        // SAFETY: with room, the kernel does not read this entry until the producer has moved past it.
        unsafe { self.slot(self.mine).write(entry) };
        self.mine = self.mine.wrapping_add(1);
    }

    /// Makes what was written visible to the kernel.
    pub(crate) fn publish(&mut self) {
        self.counter(self.producer).store(self.mine, Ordering::Release);
    }

    /// Entries that the kernel has not yet consumed.
    pub(crate) fn unconsumed(&self) -> u32 {
        self.mine.wrapping_sub(self.counter(self.consumer).load(Ordering::Acquire))
    }

    /// Reads one entry that the kernel has produced, if there is one. Its place is the kernel's again after
    /// [`release`](Self::release).
    pub(crate) fn read(&mut self) -> Option<T> {
        if self.mine == self.theirs {
            self.theirs = self.counter(self.producer).load(Ordering::Acquire);
            if self.mine == self.theirs {
                return None;
            }
        }
        // SAFETY: the producer has moved past this entry and the consumer has not, so it is ours to read.
        let entry = unsafe { self.slot(self.mine).read() };
        self.mine = self.mine.wrapping_add(1);
        Some(entry)
    }

    /// Gives the places of what was read back to the kernel.
    pub(crate) fn release(&mut self) {
        self.counter(self.consumer).store(self.mine, Ordering::Release);
    }

    /// Whether the kernel sleeps on this ring and wants a system call (`XDP_RING_NEED_WAKEUP`).
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.counter(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

impl<T: Copy> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `map`, which nothing outside `self` points into.
        unsafe { libc::munmap(self.map.as_ptr(), self.bytes) };
    }
}

/// A socket bound to one queue of one interface.
pub(crate) struct XskSocket {
    pub(crate) fill: Ring<u64>,
    pub(crate) completion: Ring<u64>,
    pub(crate) receive: Ring<xdp_desc>,
    pub(crate) transmit: Ring<xdp_desc>,
    // Last, so that the rings are unmapped first.
    fd: OwnedFd,
}

// SAFETY: the pointers lead into mappings that the socket owns; no thread but the owner uses them.
unsafe impl Send for XskSocket {}

/// Where a socket's frames come from.
pub(crate) enum Umem<'a> {
    /// Register this region.
    Region(*mut u8, usize, usize),
    /// Share the region of another socket.
    Of(&'a XskSocket),
}

impl XskSocket {
    /// Makes a socket with rings of `size` entries (a power of two) and binds it.
    pub(crate) fn bind(
        interface: u32,
        queue: u32,
        umem: &Umem<'_>,
        size: u32,
        copy: bool,
    ) -> io::Result<Self> {
        // SAFETY: makes a new descriptor and touches no memory.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was made just now and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut address = sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_USE_NEED_WAKEUP | if copy { libc::XDP_COPY } else { 0 },
            sxdp_ifindex: interface,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        match umem {
            Umem::Region(start, bytes, chunk) => {
                // SAFETY: xdp_umem_reg is plain data for which zeros mean "none".
                let mut registration: xdp_umem_reg = unsafe { std::mem::zeroed() };
                registration.addr = *start as u64;
                registration.len = *bytes as u64;
                registration.chunk_size = *chunk as u32;
                set_option(&fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)?;
            }
            Umem::Of(other) => {
                // The mode is the first socket's; naming another flag beside this one is refused.
                address.sxdp_flags = libc::XDP_SHARED_UMEM;
                address.sxdp_shared_umem_fd = other.fd.as_raw_fd() as u32;
            }
        }
        for ring in
            [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING]
        {
            set_option(&fd, libc::SOL_XDP, ring, &size)?;
        }
        // SAFETY: xdp_mmap_offsets is plain integers.
        let mut offsets: xdp_mmap_offsets = unsafe { std::mem::zeroed() };
        get_option(&fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
        let socket = Self {
            fill: Ring::map(&fd, libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, &offsets.fr, size)?,
            completion: Ring::map(
                &fd,
                libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t,
                &offsets.cr,
                size,
            )?,
            receive: Ring::map(&fd, libc::XDP_PGOFF_RX_RING, &offsets.rx, size)?,
            transmit: Ring::map(&fd, libc::XDP_PGOFF_TX_RING, &offsets.tx, size)?,
            fd,
        };
        // In copy mode a sent frame is an skb that counts against the send buffer. 8 MB is more than both rings hold;
        // being refused costs retries and nothing else.
        let buffer: c_int = 8 << 20;
        let _ = set_option(&socket.fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &buffer);
        // SAFETY: `address` is a valid sockaddr_xdp of the given length.
        let bound = unsafe {
            libc::bind(
                socket.fd.as_raw_fd(),
                std::ptr::from_ref(&address).cast(),
                size_of::<sockaddr_xdp>() as libc::socklen_t,
            )
        };
        if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(socket) }
    }

    /// The descriptor, for polling and for the socket map.
    pub(crate) fn raw_fd(&self) -> c_int {
        self.fd.as_raw_fd()
    }

    /// Tells the kernel that there is something to send.
    pub(crate) fn kick(&self) -> io::Result<()> {
        // SAFETY: sends no data of its own; null pointers with zero lengths are what the interface asks for.
        let result = unsafe {
            libc::sendto(self.raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Tells the kernel that the fill ring has frames again.
    pub(crate) fn wake_receive(&self) {
        // SAFETY: receives no data; null pointers with zero lengths are what the interface asks for.
        unsafe {
            libc::recvfrom(
                self.raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
    }

    /// Whether the driver reads and writes the frames itself.
    pub(crate) fn zero_copy(&self) -> bool {
        let mut options = libc::xdp_options { flags: 0 };
        get_option(&self.fd, libc::SOL_XDP, libc::XDP_OPTIONS, &mut options).is_ok()
            && options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0
    }

    /// The kernel's counters: (dropped for other reasons than a full ring, receive ring full, attempts that found the
    /// fill ring empty).
    pub(crate) fn drops(&self) -> (u64, u64, u64) {
        // SAFETY: xdp_statistics is plain integers.
        let mut statistics: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        match get_option(&self.fd, libc::SOL_XDP, libc::XDP_STATISTICS, &mut statistics) {
            Ok(()) => (statistics.rx_dropped, statistics.rx_ring_full, statistics.rx_fill_ring_empty_descs),
            Err(_) => (0, 0, 0),
        }
    }
}
