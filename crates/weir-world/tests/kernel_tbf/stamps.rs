//! When packets pass an interface, by the kernel's own time stamps.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    In,
    Out,
}

/// A datagram that passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    /// The first four bytes that it carries.
    pub(crate) number: u32,
    /// Since 1970.
    pub(crate) nanos: u64,
    /// On the wire.
    pub(crate) bytes: usize,
}

/// Hears the datagrams to a port that pass an interface in one direction: those that come in as the interface gets
/// them, those that go out as they leave its queue (`dev_queue_xmit_nit`, net/core/dev.c).
pub(crate) struct Stamps {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Stamp>>,
}

impl Stamps {
    /// From now on, in the calling thread's namespace.
    pub(crate) fn start(device: &str, direction: Direction, port: u16) -> Self {
        let socket = open(device);
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        Self { stop, thread: std::thread::spawn(move || listen(&socket, direction, port, &seen)) }
    }

    /// All that have passed until now.
    pub(crate) fn finish(self) -> Vec<Stamp> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn open(device: &str) -> OwnedFd {
    let name = std::ffi::CString::new(device).unwrap();
    let all = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: plain system calls; the address is a sockaddr_ll of its own size, and the descriptor is nobody else's.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, i32::from(all));
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        let socket = OwnedFd::from_raw_fd(fd);
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = all;
        address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
        assert!(address.sll_ifindex > 0, "{device}");
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        assert_eq!(libc::bind(fd, (&raw const address).cast(), length), 0);
        set(&socket, libc::SO_RCVBUFFORCE, &(64i32 << 20));
        set(&socket, libc::SO_TIMESTAMPNS, &1i32);
        set(&socket, libc::SO_RCVTIMEO, &libc::timeval { tv_sec: 0, tv_usec: 20_000 });
        socket
    }
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            std::ptr::from_ref(value).cast(),
            length,
        )
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

fn listen(socket: &OwnedFd, direction: Direction, port: u16, stop: &AtomicBool) -> Vec<Stamp> {
    let mut stamps = Vec::new();
    loop {
        let stopped = stop.load(Ordering::Relaxed);
        match receive(socket) {
            Some((goes, nanos, bytes, frame)) => {
                let number = number(&frame, port).filter(|_| goes == direction);
                stamps.extend(number.map(|number| Stamp { number, nanos, bytes }));
            }
            // What had come until then is in the socket, however late this thread is.
            None if stopped => return stamps,
            None => {}
        }
    }
}

/// The next packet: its direction, its time, its length and its first bytes. None after a while without.
fn receive(socket: &OwnedFd) -> Option<(Direction, u64, usize, [u8; 64])> {
    let mut frame = [0u8; 64];
    let mut control = [0u64; 16];
    let mut part = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
    let mut address = MaybeUninit::<libc::sockaddr_ll>::zeroed();
    // SAFETY: all pointers are to what stands above, with its own lengths; zero is a value of both structures.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_name = address.as_mut_ptr().cast();
        message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        let bytes =
            usize::try_from(libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_TRUNC)).ok()?;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        assert!(!header.is_null() && (*header).cmsg_type == libc::SCM_TIMESTAMPNS, "no time stamp");
        let time = libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned();
        let goes = match address.assume_init().sll_pkttype {
            libc::PACKET_OUTGOING => Direction::Out,
            _ => Direction::In,
        };
        Some((goes, time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64, bytes, frame))
    }
}

/// What a datagram over IPv4 to that port begins with.
fn number(frame: &[u8; 64], port: u16) -> Option<u32> {
    let is_udp = frame[12..14] == [0x08, 0x00] && frame[14] == 0x45 && frame[23] == 17;
    let to = u16::from_be_bytes([frame[36], frame[37]]);
    (is_udp && to == port).then(|| u32::from_be_bytes([frame[42], frame[43], frame[44], frame[45]]))
}
