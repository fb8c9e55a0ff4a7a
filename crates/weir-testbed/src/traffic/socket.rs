//! The few socket calls that the standard library lacks: options, binding before connecting, polling with a deadline.

use std::io;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use weir_transport::RawAddress;

/// A closed-on-exec socket of `kind` (`SOCK_STREAM`, `SOCK_DGRAM`, perhaps with `SOCK_NONBLOCK`) bound to `addr`.
pub(super) fn bound(addr: SocketAddr, kind: libc::c_int) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
    // SAFETY: socket takes no pointers.
    let fd = check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor is new and owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    if kind & libc::SOCK_STREAM != 0 {
        // The same address serves the next run while the last one's connections are in TIME-WAIT.
        set(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    }
    let raw = RawAddress::new(addr);
    // SAFETY: pointer and length describe the address in `raw`.
    check(unsafe { libc::bind(fd, raw.as_ptr(), raw.length()) })?;
    Ok(socket)
}

/// Starts to connect; on a non-blocking stream socket the result is known when it becomes writable.
pub(super) fn connect(socket: &OwnedFd, addr: SocketAddr) -> io::Result<()> {
    let raw = RawAddress::new(addr);
    // SAFETY: pointer and length describe the address in `raw`.
    match check(unsafe { libc::connect(socket.as_raw_fd(), raw.as_ptr(), raw.length()) }) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
        result => result.map(|_| ()),
    }
}

/// Sets an integer option.
pub(super) fn set(
    socket: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, ptr::from_ref(&value).cast(), len) })
        .map(|_| ())
}

/// Sets an option whose value is bytes.
pub(super) fn set_bytes(
    socket: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &[u8],
) -> io::Result<()> {
    let len = value.len() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), len) })
        .map(|_| ())
}

/// Reads an option into `value`, plain data that any bytes are valid for; the rest stays as it was if the kernel has
/// less.
///
/// # Safety
/// `T` must be valid for every bit pattern.
pub(super) unsafe fn get<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &mut T,
) -> io::Result<()> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`; the caller vouches for the bits.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, ptr::from_mut(value).cast(), &mut len) })
        .map(|_| ())
}

/// The error that an asynchronous connect ended with.
pub(super) fn pending_error(socket: &OwnedFd) -> io::Result<()> {
    let mut code: libc::c_int = 0;
    // SAFETY: an integer is valid for every bit pattern.
    unsafe { get(socket, libc::SOL_SOCKET, libc::SO_ERROR, &mut code)? };
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

/// Makes closing the socket a reset, so that nothing of an aborted flow lingers.
pub(super) fn reset_on_close(socket: &OwnedFd) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let len = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: pointer and length describe `linger`. Failure only means a slower close.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            ptr::from_ref(&linger).cast(),
            len,
        )
    };
}

/// Waits for `events` or the timeout; returns what is ready, zero if nothing.
pub(super) fn poll(socket: &OwnedFd, events: libc::c_short, timeout: Duration) -> io::Result<libc::c_short> {
    let mut entry = libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 };
    let timeout =
        libc::timespec { tv_sec: timeout.as_secs() as libc::time_t, tv_nsec: timeout.subsec_nanos().into() };
    // SAFETY: one entry, a valid timeout, no signal mask.
    match check(unsafe { libc::ppoll(&mut entry, 1, &timeout, ptr::null()) }) {
        Ok(_) => Ok(entry.revents),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        Err(error) => Err(error),
    }
}

/// The result of a call that returns -1 and sets errno on failure.
pub(super) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The same for calls that return a size.
pub(super) fn check_size(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
