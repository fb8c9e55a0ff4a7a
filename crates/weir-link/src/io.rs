//! Where packets come from and go to: two interfaces, one on the server's side and one on the client's, by AF_XDP or by
//! packet sockets. Both paths use the same frames and give the same results; they differ in cost.

use std::io;

use serde::Serialize;
use thiserror::Error;
use weir_core::{Duration, Time};
use weir_law::Direction;
use weir_netdev::device::NoInterface;

use crate::frame::{FrameIndex, FramePool, PoolError};
use crate::packet_socket::PacketSockets;
use crate::pipeline::Departure;
use crate::xdp::XdpSockets;
use weir_netdev::clock::Clock;

/// Packets that one look at an interface takes at most.
pub const BATCH: usize = 64;

/// Which path packets take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IoKind {
    /// AF_XDP where it is to be had, packet sockets elsewhere.
    #[default]
    Auto,
    /// AF_XDP or an error.
    Xdp,
    /// Packet sockets.
    PacketSocket,
}

/// An interface that could not be used, or is not there any more.
#[derive(Debug, Error)]
pub enum IoError {
    /// There is none of that name in this network namespace.
    #[error(transparent)]
    NoInterface(#[from] NoInterface),
    /// It went away, or down, while it was used.
    #[error("interface '{0}' is gone or down; the bottleneck cannot go on without it")]
    Vanished(String),
    /// A step of setting up or using it failed.
    #[error("{what} on '{interface}': {source}{hint}")]
    Failed {
        /// What was tried.
        what: &'static str,
        /// On which interface.
        interface: String,
        /// What the kernel said.
        source: io::Error,
        /// What to change, if that is known.
        hint: &'static str,
    },
    /// Frames of further receive queues would pass by the bottleneck.
    #[error(
        "'{interface}' has {queues} receive queues, and AF_XDP serves at most {most}: give it fewer by \
         `ethtool -L {interface}`, or use packet sockets"
    )]
    TooManyQueues {
        /// Of which interface.
        interface: String,
        /// How many it has.
        queues: u32,
        /// How many it may have.
        most: u32,
    },
    /// The XDP program could not be loaded.
    #[error(
        "the XDP program does not load: {0}; use packet sockets, or a kernel from 5.10 with CONFIG_XDP_SOCKETS"
    )]
    Program(String),
    /// The frame pool could not be made.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

impl IoError {
    /// A failed step with the usual remedy for its error.
    pub(crate) fn from_io(what: &'static str, interface: &str, source: io::Error) -> Self {
        let hint = match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                "; this needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF (run as root)"
            }
            Some(libc::EBUSY) => {
                "; another program uses this queue or has an XDP program there (`ip link` shows it)"
            }
            Some(libc::ENOBUFS | libc::ENOMEM) => "; use fewer frames or raise the memlock limit",
            Some(libc::ENXIO | libc::ENETDOWN | libc::ENODEV) => "; is the interface up?",
            _ => "",
        };
        Self::Failed { what, interface: interface.to_owned(), source, hint }
    }
}

/// A packet that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Where its bytes are.
    pub frame: FrameIndex,
    /// Forward if it came in on the server's side.
    pub direction: Direction,
    /// When the kernel got it, or when it was read if the kernel did not say.
    pub at: Time,
}

/// What the rings of both interfaces lost, and what they were asked twice for. All counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IoStatistics {
    /// Packets taken in.
    pub received: u64,
    /// Packets handed to the kernel to be sent.
    pub sent: u64,
    /// Packets that the kernel dropped because a receive ring was full or had no frame.
    pub receive_overflows: u64,
    /// Of these, for want of a frame (`rx_fill_ring_empty_descs` counts attempts, so this may exceed the drops).
    pub out_of_frames: u64,
    /// Packets too long for a frame: super-packets that an offload let through. They cannot be forwarded.
    pub oversized: u64,
    /// Packets that came without checksum. They are completed in software.
    pub partial_checksums: u64,
    /// Times the kernel asked to send again.
    pub send_retries: u64,
    /// Packets that the kernel took and then could not send.
    pub send_failures: u64,
    /// Packets that an interface says it dropped on receiving or sending, over both.
    pub interface_drops: u64,
}

impl IoStatistics {
    /// Whether every packet that came was taken in and every packet sent went out.
    pub fn lossless(&self) -> bool {
        self.receive_overflows == 0
            && self.oversized == 0
            && self.send_failures == 0
            && self.interface_drops == 0
    }
}

/// Two interfaces.
pub trait PacketIo {
    /// Stamps arrivals by another clock from now on.
    fn set_clock(&mut self, clock: Clock);

    /// Takes in what has come, at most [`BATCH`] packets an interface, and appends it to `out` in order of arrival for
    /// each side. Also gives frames that were sent back to the pool.
    ///
    /// # Errors
    /// When an interface is gone.
    fn receive(&mut self, pool: &mut FramePool, out: &mut Vec<Received>) -> Result<(), IoError>;

    /// Sends frames in order and returns how many the kernel has taken; the others are to be offered again. The bytes
    /// of a frame that was taken stay readable until the next [`receive`](Self::receive).
    ///
    /// # Errors
    /// When an interface is gone.
    fn send(&mut self, pool: &mut FramePool, departures: &[Departure]) -> Result<usize, IoError>;

    /// Waits until a packet comes, but no longer than `timeout`.
    ///
    /// # Errors
    /// When an interface is gone.
    fn wait(&mut self, timeout: Duration) -> Result<(), IoError>;

    /// Whether both interfaces are still there. A socket does not always report it by itself.
    ///
    /// # Errors
    /// When an interface is gone.
    fn check(&mut self) -> Result<(), IoError>;

    /// What was lost so far.
    fn statistics(&mut self) -> IoStatistics;

    /// Which path this is: `xdp driver zero-copy`, `xdp driver copy`, `xdp skb copy` or `packet-socket`.
    fn describe(&self) -> String;
}

/// Opens both interfaces in the network namespace of the calling thread.
///
/// # Errors
/// When an interface does not exist, or neither path can be had.
pub fn open(
    kind: IoKind,
    server: &str,
    client: &str,
    pool: &mut FramePool,
    clock: Clock,
) -> Result<Box<dyn PacketIo>, IoError> {
    match kind {
        IoKind::Xdp => Ok(Box::new(XdpSockets::open(server, client, pool, clock)?)),
        IoKind::PacketSocket => Ok(Box::new(PacketSockets::open(server, client, clock)?)),
        IoKind::Auto => match XdpSockets::open(server, client, pool, clock) {
            Ok(sockets) => Ok(Box::new(sockets)),
            Err(error @ (IoError::NoInterface(_) | IoError::Vanished(_))) => Err(error),
            Err(_) => Ok(Box::new(PacketSockets::open(server, client, clock)?)),
        },
    }
}

/// What [`wait_readable`] asks of a socket.
pub(crate) const fn readable(socket: libc::c_int) -> libc::pollfd {
    libc::pollfd { fd: socket, events: libc::POLLIN, revents: 0 }
}

/// Waits on sockets. Returns whether any has an error pending.
pub(crate) fn wait_readable(sockets: &mut [libc::pollfd], timeout: Duration) -> bool {
    let timeout = libc::timespec {
        tv_sec: (timeout.as_nanos() / 1_000_000_000) as libc::time_t,
        tv_nsec: (timeout.as_nanos() % 1_000_000_000) as libc::c_long,
    };
    let count = sockets.len() as libc::nfds_t;
    // SAFETY: `sockets` has `count` entries and `timeout` outlives the call; a null signal mask is allowed.
    let ready = unsafe { libc::ppoll(sockets.as_mut_ptr(), count, &timeout, std::ptr::null()) };
    // After a failure, such as a signal, the answers are of an earlier call.
    ready > 0
        && sockets.iter().any(|poll| poll.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use weir_core::Duration;

    use super::{readable, wait_readable};

    #[test]
    fn all_sockets_are_waited_for() {
        let pairs: Vec<_> = (0..128).map(|_| UnixStream::pair().unwrap()).collect();
        let mut sockets: Vec<_> = pairs.iter().map(|(own, _)| readable(own.as_raw_fd())).collect();
        assert!(!wait_readable(&mut sockets, Duration::ZERO));
        pairs[127].1.shutdown(std::net::Shutdown::Both).unwrap();
        assert!(wait_readable(&mut sockets, Duration::ZERO));
        assert!(sockets[..127].iter().all(|socket| socket.revents == 0));
    }
}
