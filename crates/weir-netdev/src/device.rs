//! Questions to an interface in the network namespace of the calling thread: its index, its queues, its drop counters.

use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::c_int;

use thiserror::Error;

/// Reads the numbers of queues (linux/ethtool.h, `struct ethtool_channels`: command, four maxima, then receive,
/// transmit, other, combined).
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// A socket for ioctls on interfaces of this namespace.
pub fn control_socket() -> io::Result<OwnedFd> {
    // SAFETY: makes a new descriptor and touches no memory.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was made just now and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// There is no interface of that name in this network namespace.
#[derive(Clone, Debug, Error)]
#[error("there is no interface '{0}' in this network namespace; `ip link` lists those that are")]
pub struct NoInterface(
    /// The name.
    pub String,
);

/// The index of an interface.
///
/// # Errors
/// If there is none of that name.
pub fn index(name: &str) -> Result<u32, NoInterface> {
    let missing = || NoInterface(name.to_owned());
    let text = CString::new(name).map_err(|_| missing())?;
    // SAFETY: `text` is a terminated string that outlives the call.
    match unsafe { libc::if_nametoindex(text.as_ptr()) } {
        0 => Err(missing()),
        index => Ok(index),
    }
}

/// An ioctl on the interface `name`.
fn interface_ioctl(
    socket: &OwnedFd,
    name: &str,
    request: libc::c_ulong,
    ifreq: &mut libc::ifreq,
) -> io::Result<()> {
    if name.len() >= ifreq.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in ifreq.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: `ifreq` is valid for reads and writes. Where it points on, its maker vouches for what is there.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), request as _, std::ptr::from_mut(ifreq)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Asks the driver of `name`. Every ethtool request is a struct that begins with a 32-bit command.
///
/// # Safety
/// `request` is at least as long as what the kernel reads and writes for the command in its first word.
pub unsafe fn ethtool(socket: &OwnedFd, name: &str, request: &mut [u32]) -> io::Result<()> {
    // SAFETY: ifreq is plain data for which zeros are valid.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    ifreq.ifr_ifru.ifru_data = request.as_mut_ptr().cast();
    interface_ioctl(socket, name, libc::SIOCETHTOOL as libc::c_ulong, &mut ifreq)
}

/// The hardware address of an interface, as text.
pub fn address(socket: &OwnedFd, name: &str) -> io::Result<String> {
    // SAFETY: ifreq is plain data for which zeros are valid.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    interface_ioctl(socket, name, libc::SIOCGIFHWADDR as libc::c_ulong, &mut ifreq)?;
    // SAFETY: the kernel has filled in the address, and any bytes are valid for it.
    let bytes = unsafe { ifreq.ifr_ifru.ifru_hwaddr.sa_data };
    Ok(bytes[..6].iter().map(|byte| format!("{:02x}", *byte as u8)).collect::<Vec<_>>().join(":"))
}

/// Receive queues of an interface; one if its driver does not say.
pub fn receive_queues(name: &str) -> u32 {
    let mut channels = [0u32; 9];
    channels[0] = ETHTOOL_GCHANNELS;
    let asked = control_socket().and_then(|socket| {
        // SAFETY: nine words are what the command reads and writes.
        unsafe { ethtool(&socket, name, &mut channels) }
    });
    if asked.is_err() { 1 } else { (channels[5] + channels[8]).max(1) }
}

/// Packets that an interface says it dropped, receiving and sending (`/proc/net/dev`, `drop` of both halves).
pub fn drops(name: &str) -> u64 {
    let Ok(table) = std::fs::read_to_string("/proc/thread-self/net/dev") else { return 0 };
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
    let columns: Vec<u64> =
        line.unwrap_or_default().split_whitespace().map(|column| column.parse().unwrap_or(0)).collect();
    columns.get(3).copied().unwrap_or(0) + columns.get(11).copied().unwrap_or(0)
}

/// Sets a socket option to a plain value.
pub fn set_option<T: Copy>(socket: &OwnedFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    // SAFETY: `value` is readable for its size and the kernel copies it during the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads a socket option of plain integers into `value`.
pub fn get_option<T: Copy>(socket: &OwnedFd, level: c_int, option: c_int, value: &mut T) -> io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is writable for `length` bytes and the kernel writes no more than that.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, std::ptr::from_mut(value).cast(), &mut length)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A packet socket that receives nothing until it is bound.
pub fn packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: makes a new descriptor and touches no memory.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was made just now and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds a packet socket to all frames of an interface.
pub fn bind_packet_socket(socket: &OwnedFd, index: u32) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain data for which zeros are valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as i32;
    // SAFETY: `address` is a valid sockaddr_ll of the given length.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            std::ptr::from_ref(&address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes an interface take in frames for any address for as long as this packet socket is open.
pub fn be_promiscuous(socket: &OwnedFd, index: u32) -> io::Result<()> {
    let membership = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

#[cfg(test)]
mod tests {
    use super::{drops, index, receive_queues};

    #[test]
    fn loopback_answers() {
        assert_eq!(index("lo").unwrap(), 1);
        assert!(index("no-such-link").unwrap_err().to_string().contains("no-such-link"));
        assert!(index("nul\0").is_err());
        assert!(receive_queues("lo") >= 1);
        // No packet to oneself is ever dropped by the loopback device.
        assert_eq!(drops("lo"), 0);
    }
}
