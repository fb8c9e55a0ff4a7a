//! Packet sockets on two interfaces, for where AF_XDP is not to be had: frames come through a ring that the kernel
//! copies into (TPACKET_V2, Documentation/networking/packet_mmap.rst) and leave by `sendmmsg` past the interface's
//! qdisc.
//!
//! TPACKET_V2 rather than V3, whose blocks are handed over when full or after a millisecond at the earliest: too late
//! for a queue. Against `recvmmsg` the ring saves the system call and reports VLAN tags, missing checksums and true
//! lengths without control messages; it costs one copy in user space, from the ring into the frame.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_void, tpacket2_hdr};
use weir_core::{Duration, Time};
use weir_law::Direction;

use crate::checksum;
use crate::frame::{FRAME_SIZE, FrameIndex, FramePool, HEADROOM};
use crate::io::{BATCH, IoError, IoStatistics, PacketIo, Received, readable, wait_readable};
use crate::pipeline::Departure;
use weir_netdev::clock::Clock;
use weir_netdev::device;

/// Slots of a receive ring, and bytes of a slot. 1.5 kB frames and all headers before them fit.
const SLOTS: usize = 8192;
const SLOT: usize = 2048;
const BLOCK: usize = 1 << 16;

/// The ring that the kernel copies packets into.
struct Ring {
    map: NonNull<c_void>,
    next: usize,
}

// SAFETY: the mapping belongs to the ring alone.
unsafe impl Send for Ring {}

/// What the ring says of a packet besides its bytes.
struct Slot<'a> {
    bytes: &'a [u8],
    /// Length on the wire; more than `bytes` has if it did not fit.
    length: usize,
    status: u32,
    /// CLOCK_REALTIME of arrival.
    realtime: i64,
    tag: Option<[u8; 4]>,
}

impl Ring {
    fn new(socket: &OwnedFd) -> io::Result<Self> {
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: (SLOTS * SLOT / BLOCK) as u32,
            tp_frame_size: SLOT as u32,
            tp_frame_nr: SLOTS as u32,
        };
        device::set_option(
            socket,
            libc::SOL_PACKET,
            libc::PACKET_VERSION,
            &libc::tpacket_versions::TPACKET_V2,
        )?;
        device::set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        // SAFETY: maps the socket's ring, whose size was just agreed, at an address of the kernel's choice.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                SLOTS * SLOT,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(map) {
            Some(map) if map.as_ptr() != libc::MAP_FAILED => Ok(Self { map, next: 0 }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the slot lies within the mapping and begins with the 32-bit status word that the kernel also accesses
        // atomically.
        unsafe { AtomicU32::from_ptr(self.map.byte_add(self.next * SLOT).as_ptr().cast()) }
    }

    /// The oldest packet, if there is one. Its slot goes back to the kernel with [`release`](Self::release).
    fn peek(&self) -> Option<Slot<'_>> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: a slot with TP_STATUS_USER is ours until released. The header lies at its start, the packet at
        // `tp_mac`; both are checked to lie within the slot.
        unsafe {
            let slot = self.map.byte_add(self.next * SLOT);
            let header = slot.cast::<tpacket2_hdr>().as_ref();
            let start = usize::from(header.tp_mac).min(SLOT);
            let length = (header.tp_snaplen as usize).min(SLOT - start);
            let tag = (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
                let kind =
                    if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { header.tp_vlan_tpid } else { 0x8100 };
                let (kind, tag) = (kind.to_be_bytes(), header.tp_vlan_tci.to_be_bytes());
                [kind[0], kind[1], tag[0], tag[1]]
            });
            Some(Slot {
                bytes: std::slice::from_raw_parts(slot.byte_add(start).as_ptr().cast::<u8>(), length),
                length: header.tp_len as usize,
                status,
                realtime: i64::from(header.tp_sec) * 1_000_000_000 + i64::from(header.tp_nsec),
                tag,
            })
        }
    }

    fn release(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % SLOTS;
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`.
        unsafe { libc::munmap(self.map.as_ptr(), SLOTS * SLOT) };
    }
}

struct Interface {
    name: String,
    index: u32,
    ring: Ring,
    socket: OwnedFd,
    drops_at_start: u64,
    overflows: u64,
    last_stamp: Time,
}

impl Interface {
    fn open(name: &str) -> Result<Self, IoError> {
        let index = device::index(name)?;
        let failed = |what| move |error| IoError::from_io(what, name, error);
        // Protocol zero: nothing comes in before the ring is there and the socket is bound.
        let socket = device::packet_socket().map_err(failed("opening a packet socket"))?;
        let ring = Ring::new(&socket).map_err(failed("making a receive ring"))?;
        let one: c_int = 1;
        for (what, option) in [
            ("ignoring own packets", libc::PACKET_IGNORE_OUTGOING),
            ("sending past the qdisc", libc::PACKET_QDISC_BYPASS),
        ] {
            device::set_option(&socket, libc::SOL_PACKET, option, &one).map_err(failed(what))?;
        }
        let buffer: c_int = 8 << 20;
        // Being refused a larger buffer costs retries and nothing else.
        let _ = device::set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &buffer);
        device::be_promiscuous(&socket, index).map_err(failed("listening to all frames"))?;
        device::bind_packet_socket(&socket, index).map_err(failed("binding a packet socket"))?;
        Ok(Self {
            name: name.to_owned(),
            index,
            ring,
            socket,
            drops_at_start: device::drops(name),
            overflows: 0,
            last_stamp: Time::ZERO,
        })
    }

    fn overflows(&mut self) -> u64 {
        // Reading sets the kernel's counters back to zero.
        let mut counters = [0u32; 2];
        if device::get_option(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut counters).is_ok()
        {
            self.overflows += u64::from(counters[1]);
        }
        self.overflows
    }
}

/// Both interfaces.
pub struct PacketSockets {
    interfaces: [Interface; 2],
    clock: Clock,
    /// Frames sent, given back at the next look at the interfaces.
    done: Vec<FrameIndex>,
    statistics: IoStatistics,
}

impl PacketSockets {
    /// Opens `server` and `client` in the network namespace of the calling thread.
    ///
    /// # Errors
    /// When an interface is missing or packet sockets are not allowed.
    pub fn open(server: &str, client: &str, clock: Clock) -> Result<Self, IoError> {
        Ok(Self {
            interfaces: [Interface::open(server)?, Interface::open(client)?],
            clock,
            done: Vec::with_capacity(4 * BATCH),
            statistics: IoStatistics::default(),
        })
    }

    fn free_sent(&mut self, pool: &mut FramePool) {
        self.done.drain(..).for_each(|frame| pool.free(frame));
    }
}

/// Copies a packet from its slot into a frame, with its VLAN tag back in place and its checksum complete.
fn store(slot: &Slot<'_>, pool: &mut FramePool, frame: FrameIndex, statistics: &mut IoStatistics) {
    let tag = slot.tag.as_ref().map_or(&[][..], |tag| &tag[..]);
    let at = slot.bytes.len().min(12);
    pool.set_extent(frame, HEADROOM, slot.bytes.len() + tag.len());
    let bytes = pool.bytes_mut(frame);
    bytes[..at].copy_from_slice(&slot.bytes[..at]);
    bytes[at..at + tag.len()].copy_from_slice(tag);
    bytes[at + tag.len()..].copy_from_slice(&slot.bytes[at..]);
    if slot.status & libc::TP_STATUS_CSUMNOTREADY != 0 {
        statistics.partial_checksums += 1;
        checksum::complete(bytes);
    }
}

impl PacketIo for PacketSockets {
    fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    fn receive(&mut self, pool: &mut FramePool, out: &mut Vec<Received>) -> Result<(), IoError> {
        self.free_sent(pool);
        let now = self.clock.now();
        let offset = self.clock.realtime_offset();
        let statistics = &mut self.statistics;
        for (interface, direction) in self.interfaces.iter_mut().zip([Direction::Forward, Direction::Reverse])
        {
            for _ in 0..BATCH {
                let Some(slot) = interface.ring.peek() else { break };
                let fits = slot.length == slot.bytes.len()
                    && slot.length + slot.tag.map_or(0, |_| 4) <= FRAME_SIZE - HEADROOM;
                if fits {
                    let Some(frame) = pool.take() else {
                        // It stays in the ring until a frame is free; if the ring fills up the kernel counts the drops.
                        statistics.out_of_frames += 1;
                        break;
                    };
                    store(&slot, pool, frame, statistics);
                    let at = Time::from_nanos(slot.realtime.saturating_sub(offset).max(0) as u64);
                    let at = at.clamp(interface.last_stamp.min(now), now);
                    interface.last_stamp = at;
                    out.push(Received { frame, direction, at });
                    statistics.received += 1;
                } else {
                    statistics.oversized += 1;
                }
                interface.ring.release();
            }
        }
        Ok(())
    }

    fn send(&mut self, pool: &mut FramePool, departures: &[Departure]) -> Result<usize, IoError> {
        let mut accepted = 0;
        // Runs of packets to one side go out in one call.
        while accepted < departures.len() {
            let side = departures[accepted].direction;
            let run =
                departures[accepted..].iter().take(BATCH).take_while(|next| next.direction == side).count();
            let interface = &self.interfaces[1 - (side as usize & 1)];
            let frames = departures[accepted..accepted + run].iter().map(Departure::frame);
            match send_run(&interface.socket, pool, frames) {
                Ok(sent) => {
                    self.done.extend(departures[accepted..accepted + sent].iter().map(Departure::frame));
                    accepted += sent;
                    if sent < run {
                        self.statistics.send_retries += 1;
                    }
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => {
                        self.statistics.send_retries += 1;
                        break;
                    }
                    // Longer than the interface takes: asking again would not help.
                    Some(libc::EMSGSIZE) => {
                        self.statistics.send_failures += 1;
                        self.done.push(departures[accepted].frame());
                        accepted += 1;
                    }
                    Some(libc::ENXIO | libc::ENETDOWN | libc::ENODEV) => {
                        return Err(IoError::Vanished(interface.name.clone()));
                    }
                    _ => return Err(IoError::from_io("sending", &interface.name, error)),
                },
            }
        }
        self.statistics.sent += accepted as u64;
        Ok(accepted)
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), IoError> {
        let mut sockets = self.interfaces.each_ref().map(|interface| readable(interface.socket.as_raw_fd()));
        if wait_readable(&mut sockets, timeout) { self.check() } else { Ok(()) }
    }

    fn check(&mut self) -> Result<(), IoError> {
        for interface in &self.interfaces {
            match device::index(&interface.name) {
                Ok(index) if index == interface.index => {}
                _ => return Err(IoError::Vanished(interface.name.clone())),
            }
            // Reading the pending error clears it; an interface that went down is one.
            let mut error: c_int = 0;
            let _ = device::get_option(&interface.socket, libc::SOL_SOCKET, libc::SO_ERROR, &mut error);
            if error == libc::ENETDOWN {
                return Err(IoError::Vanished(interface.name.clone()));
            }
        }
        Ok(())
    }

    fn statistics(&mut self) -> IoStatistics {
        let mut statistics = self.statistics;
        for interface in &mut self.interfaces {
            statistics.receive_overflows += interface.overflows();
            statistics.interface_drops +=
                device::drops(&interface.name).saturating_sub(interface.drops_at_start);
        }
        statistics
    }

    fn describe(&self) -> String {
        "packet-socket".to_owned()
    }
}

/// Sends at most [`BATCH`] frames in one system call. Returns how many went.
fn send_run(
    socket: &OwnedFd,
    pool: &mut FramePool,
    frames: impl Iterator<Item = FrameIndex>,
) -> io::Result<usize> {
    // SAFETY: iovec and mmsghdr are plain data for which zeros mean "none".
    let (mut vectors, mut messages): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    let mut count = 0;
    for (frame, (vector, message)) in frames.zip(vectors.iter_mut().zip(&mut messages)) {
        let bytes = pool.bytes_mut(frame);
        vector.iov_base = bytes.as_mut_ptr().cast();
        vector.iov_len = bytes.len();
        message.msg_hdr.msg_iov = vector;
        message.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    // SAFETY: `count` messages point to vectors and frames that live through the call; the kernel only reads them.
    let sent =
        unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count, libc::MSG_DONTWAIT as _) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

impl std::fmt::Debug for PacketSockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PacketSockets {{ {} and {} }}", self.interfaces[0].name, self.interfaces[1].name)
    }
}

const _: () = assert!(size_of::<tpacket2_hdr>() <= 64 && (SLOTS * SLOT).is_multiple_of(BLOCK));
