//! AF_XDP on two interfaces with one UMEM: a frame that came in on one side is sent from the same memory on the other,
//! and user space copies nothing.
//!
//! The program of `bpf/xsk.bpf.c` hands each frame of a receive queue to that queue's socket. It is attached by a bpf
//! link, so it goes when this process goes, however that happens. Unlike libxdp's dispatcher it shares the hook with no
//! other program; where one is attached already, opening fails and says so.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libc::xdp_desc;
use weir_core::{Duration, Time};
use weir_law::Direction;

use crate::frame::{FRAME_SIZE, FrameIndex, FramePool};
use crate::io::{BATCH, IoError, IoStatistics, PacketIo, Received, readable, wait_readable};
use crate::pipeline::Departure;
use crate::xsk::{Umem, XskSocket};
use weir_netdev::clock::Clock;
use weir_netdev::device;

#[allow(missing_docs, unreachable_pub, dead_code, unsafe_op_in_unsafe_fn, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/xsk.skel.rs"));
}

/// Ring entries: as many packets as come in 10 ms at 4 Gbit/s.
const RING: u32 = 4096;

/// Queues of one interface that can be served; the size of the program's map.
const QUEUES: u32 = 64;

/// Kicks in a row that may bring nothing before what is left in the transmit ring waits for the next round.
const KICKS: u32 = 16;

/// The kernel frees the queue of a closed socket some time after (net/xdp/xsk_buff_pool.c, `xp_put_pool`). Who opens it
/// again at once finds it busy, and tries as often, 5 ms apart.
const RELEASE_ATTEMPTS: u32 = 60;

/// One interface: a socket per receive queue, all frames sent through the first.
struct Interface {
    name: String,
    index: u32,
    sockets: Vec<XskSocket>,
    /// Detaches the program when closed. `None` never stays after opening.
    attachment: Option<OwnedFd>,
    /// Keeps the interface promiscuous while it is open.
    _promiscuous: OwnedFd,
    driver_mode: bool,
    drops_at_start: u64,
    last_stamp: Time,
}

/// Both interfaces.
pub struct XdpSockets {
    interfaces: [Interface; 2],
    /// All sockets of both, as they are waited for.
    polled: Vec<libc::pollfd>,
    clock: Clock,
    ring: u32,
    zero_copy: bool,
    statistics: IoStatistics,
}

fn attach(name: &str, index: u32, sockets: &[XskSocket]) -> Result<(OwnedFd, bool), IoError> {
    let program = |error: libbpf_rs::Error| IoError::Program(format!("{error:#}"));
    let mut storage = MaybeUninit::uninit();
    let open = skeleton::XskSkelBuilder::default().open(&mut storage).map_err(program)?;
    let skeleton = open.load().map_err(program)?;
    let map = skeleton.maps.sockets.as_fd().as_raw_fd();
    for (queue, socket) in (0u32..).zip(sockets) {
        let fd = socket.raw_fd() as u32;
        // SAFETY: key and value are 32-bit integers as the map declares, and live through the call.
        let result = unsafe {
            libbpf_sys::bpf_map_update_elem(
                map,
                std::ptr::from_ref(&queue).cast(),
                std::ptr::from_ref(&fd).cast(),
                0,
            )
        };
        if result < 0 {
            return Err(IoError::from_io(
                "handing frames to a socket",
                name,
                io::Error::from_raw_os_error(-result),
            ));
        }
    }
    let program = skeleton.progs.redirect.as_fd().as_raw_fd();
    let link = |mode: u32| {
        let options = libbpf_sys::bpf_link_create_opts {
            sz: size_of::<libbpf_sys::bpf_link_create_opts>() as _,
            flags: mode,
            ..Default::default()
        };
        // SAFETY: both descriptors are open, the options are of the stated size, and the call makes a new descriptor.
        let fd = unsafe { libbpf_sys::bpf_link_create(program, index as i32, libbpf_sys::BPF_XDP, &options) };
        if fd < 0 {
            Err(io::Error::from_raw_os_error(-fd))
        } else {
            // SAFETY: the descriptor was made just now and has no other owner.
            Ok(unsafe { OwnedFd::from_raw_fd(fd) })
        }
    };
    match link(libbpf_sys::XDP_FLAGS_DRV_MODE) {
        Ok(fd) => Ok((fd, true)),
        Err(_) => match link(libbpf_sys::XDP_FLAGS_SKB_MODE) {
            Ok(fd) => Ok((fd, false)),
            Err(error) => Err(IoError::from_io("attaching the XDP program", name, error)),
        },
    }
}

/// How many receive queues the interface has, if all can be served.
fn served_queues(name: &str) -> Result<u32, IoError> {
    let queues = device::receive_queues(name);
    if queues > QUEUES {
        return Err(IoError::TooManyQueues { interface: name.to_owned(), queues, most: QUEUES });
    }
    Ok(queues)
}

impl Interface {
    fn open(name: &str, queues: u32, umem: &Umem<'_>, ring: u32, copy: bool) -> Result<Self, IoError> {
        let index = device::index(name)?;
        let mut sockets: Vec<XskSocket> = Vec::new();
        for queue in 0..queues {
            let mut attempts = RELEASE_ATTEMPTS;
            let socket = loop {
                let shared = sockets.first().map(Umem::Of);
                match XskSocket::bind(index, queue, shared.as_ref().unwrap_or(umem), ring, copy) {
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) && attempts > 0 => {
                        attempts -= 1;
                        std::thread::park_timeout(std::time::Duration::from_millis(5));
                    }
                    result => break result,
                }
            };
            sockets.push(socket.map_err(|error| IoError::from_io("opening an AF_XDP socket", name, error))?);
        }
        let promiscuous = device::packet_socket()
            .and_then(|socket| device::be_promiscuous(&socket, index).map(|()| socket))
            .map_err(|error| IoError::from_io("listening to all frames", name, error))?;
        Ok(Self {
            name: name.to_owned(),
            index,
            sockets,
            attachment: None,
            _promiscuous: promiscuous,
            driver_mode: false,
            drops_at_start: device::drops(name),
            last_stamp: Time::ZERO,
        })
    }
}

impl XdpSockets {
    /// Opens `server` and `client` in the network namespace of the calling thread, over the frames of `pool`.
    ///
    /// # Errors
    /// When an interface is missing, AF_XDP is not to be had on one of them, or another XDP program is attached.
    pub fn open(server: &str, client: &str, pool: &mut FramePool, clock: Clock) -> Result<Self, IoError> {
        // Both names are looked up before anything is opened.
        for name in [server, client] {
            device::index(name)?;
        }
        let [of_server, of_client] = [served_queues(server)?, served_queues(client)?];
        // All rings together, four a queue, must not be able to hold every frame.
        let ring = (pool.capacity() / (8 * (of_server + of_client))).clamp(4, RING);
        let ring = if ring.is_power_of_two() { ring } else { ring.next_power_of_two() / 2 };
        let (start, bytes) = pool.region();
        let open = |copy| -> Result<[Interface; 2], IoError> {
            let first =
                Interface::open(server, of_server, &Umem::Region(start, bytes, FRAME_SIZE), ring, copy)?;
            let second = Interface::open(client, of_client, &Umem::Of(&first.sockets[0]), ring, copy)?;
            Ok([first, second])
        };
        // Left to itself the kernel takes zero-copy where the first interface can. If the second cannot, both copy.
        let mut interfaces = match open(false) {
            Err(IoError::Failed { .. }) => open(true)?,
            other => other?,
        };
        let zero_copy = interfaces[0].sockets[0].zero_copy();
        let sockets = interfaces.iter().flat_map(|interface| &interface.sockets);
        let polled = sockets.map(|socket| readable(socket.raw_fd())).collect();
        // Frames first, the program last: nothing is redirected to a socket that has nowhere to put it.
        for interface in &mut interfaces {
            interface.sockets.iter_mut().for_each(|socket| refill(socket, pool, ring));
        }
        for interface in &mut interfaces {
            let (link, driver_mode) = attach(&interface.name, interface.index, &interface.sockets)?;
            interface.attachment = Some(link);
            interface.driver_mode = driver_mode;
        }
        let statistics = IoStatistics::default();
        Ok(Self { interfaces, polled, clock, ring, zero_copy, statistics })
    }
}

/// Puts free frames into a fill ring until it is full.
fn refill(socket: &mut XskSocket, pool: &mut FramePool, size: u32) {
    let room = socket.fill.room(size);
    // In small steps, so that the counters that the kernel reads do not bounce for each packet.
    if room < 32.min(size) {
        return;
    }
    for _ in 0..room.min(pool.available()) {
        let Some(frame) = pool.take() else { break };
        socket.fill.write(u64::from(frame.0) * FRAME_SIZE as u64);
    }
    socket.fill.publish();
    if socket.fill.needs_wakeup() {
        socket.wake_receive();
    }
}

impl PacketIo for XdpSockets {
    fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    fn receive(&mut self, pool: &mut FramePool, out: &mut Vec<Received>) -> Result<(), IoError> {
        let now = self.clock.now();
        for (interface, direction) in self.interfaces.iter_mut().zip([Direction::Forward, Direction::Reverse])
        {
            for socket in &mut interface.sockets {
                while let Some(address) = socket.completion.read() {
                    pool.free(FrameIndex((address / FRAME_SIZE as u64) as u32));
                }
                socket.completion.release();
                let mut taken = 0;
                while taken < BATCH
                    && let Some(descriptor) = socket.receive.read()
                {
                    taken += 1;
                    let frame = FrameIndex((descriptor.addr / FRAME_SIZE as u64) as u32);
                    let offset = (descriptor.addr % FRAME_SIZE as u64) as usize;
                    let at = stamp(pool, frame, offset)
                        .map(|nanos| self.clock.at_monotonic(nanos))
                        .filter(|at| *at <= now && *at >= interface.last_stamp)
                        .unwrap_or(now);
                    interface.last_stamp = at;
                    pool.set_extent(frame, offset, descriptor.len as usize);
                    out.push(Received { frame, direction, at });
                }
                if taken > 0 {
                    socket.receive.release();
                    self.statistics.received += taken as u64;
                }
                if pool.available() == 0 && socket.fill.room(1) == self.ring {
                    // Counted by the pool as well: the kernel is about to drop for want of frames.
                    let _ = pool.take();
                }
                refill(socket, pool, self.ring);
            }
        }
        Ok(())
    }

    fn send(&mut self, pool: &mut FramePool, departures: &[Departure]) -> Result<usize, IoError> {
        let mut accepted = 0;
        for departure in departures {
            let socket = &mut self.interfaces[1 - (departure.direction as usize & 1)].sockets[0];
            if socket.transmit.room(1) == 0 {
                break;
            }
            let frame = departure.frame();
            let len = pool.bytes(frame).len() as u32;
            socket.transmit.write(xdp_desc { addr: pool.address(frame), len, options: 0 });
            accepted += 1;
        }
        for interface in &mut self.interfaces {
            let socket = &mut interface.sockets[0];
            socket.transmit.publish();
            let mut left = socket.transmit.unconsumed();
            let mut idle = 0;
            // In copy mode the kernel sends within the call, a few dozen at a time (`max_tx_budget`).
            while left > 0 && idle < KICKS && socket.transmit.needs_wakeup() {
                if let Err(error) = socket.kick() {
                    match error.raw_os_error() {
                        Some(libc::EAGAIN) => {}
                        // A packet that was taken and then refused by the device (`__xsk_generic_xmit`).
                        Some(libc::EBUSY) => self.statistics.send_failures += 1,
                        Some(libc::ENOBUFS | libc::EINTR) => {}
                        Some(libc::ENXIO | libc::ENETDOWN | libc::ENODEV) => {
                            return Err(IoError::Vanished(interface.name.clone()));
                        }
                        _ => return Err(IoError::from_io("sending", &interface.name, error)),
                    }
                }
                let now_left = socket.transmit.unconsumed();
                if now_left == left {
                    idle += 1;
                    self.statistics.send_retries += 1;
                } else {
                    idle = 0;
                }
                left = now_left;
            }
        }
        self.statistics.sent += accepted as u64;
        Ok(accepted)
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), IoError> {
        if wait_readable(&mut self.polled, timeout) {
            self.check()?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), IoError> {
        for interface in &self.interfaces {
            match device::index(&interface.name) {
                Ok(index) if index == interface.index => {}
                _ => return Err(IoError::Vanished(interface.name.clone())),
            }
        }
        Ok(())
    }

    fn statistics(&mut self) -> IoStatistics {
        let mut statistics = self.statistics;
        for interface in &self.interfaces {
            for socket in &interface.sockets {
                let (dropped, ring_full, fill_empty) = socket.drops();
                statistics.receive_overflows += dropped + ring_full;
                statistics.out_of_frames += fill_empty;
            }
            statistics.interface_drops +=
                device::drops(&interface.name).saturating_sub(interface.drops_at_start);
        }
        statistics
    }

    fn describe(&self) -> String {
        let mode =
            if self.interfaces.iter().all(|interface| interface.driver_mode) { "driver" } else { "skb" };
        format!("xdp {mode} {}", if self.zero_copy { "zero-copy" } else { "copy" })
    }
}

/// Reads and wipes the arrival time that the XDP program wrote in front of a packet, so that a frame whose next packet
/// comes without one does not show an old one.
fn stamp(pool: &mut FramePool, frame: FrameIndex, offset: usize) -> Option<u64> {
    let bytes = pool.frame_mut(frame);
    let stamp = bytes.get_mut(offset.checked_sub(8)?..offset)?;
    let nanos = u64::from_ne_bytes(stamp.try_into().ok()?);
    stamp.fill(0);
    (nanos != 0).then_some(nanos)
}

impl std::fmt::Debug for XdpSockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "XdpSockets {{ {} and {}, {} }}",
            self.interfaces[0].name,
            self.interfaces[1].name,
            self.describe()
        )
    }
}
