//! UDP sockets that tell when, whereto and how marked each datagram came in.

use std::io;
use std::mem::{MaybeUninit, size_of, size_of_val};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant, UNIX_EPOCH};

use bytes::BytesMut;
use noq_proto::EcnCodepoint;

use crate::clock::{now, today};

/// A datagram that has arrived.
pub(crate) struct Datagram {
    pub(crate) from: SocketAddr,
    /// The address of this host that it was sent to.
    pub(crate) to: Option<IpAddr>,
    pub(crate) ecn: Option<EcnCodepoint>,
    /// When the kernel got it.
    pub(crate) at: Instant,
    pub(crate) bytes: BytesMut,
}

/// The largest datagram that is read; QUIC here has none over 1500 bytes.
const LARGEST: usize = 2048;
/// Buffers of the kernel: a slow moment of this process must lose nothing.
const BUFFER: libc::c_int = 4 << 20;
/// Older than this, the kernel's time of an arrival is not believed: the clock of the day was set meanwhile.
const OLDEST: Duration = Duration::from_secs(10);

/// A UDP socket that never waits.
pub(crate) struct Socket {
    socket: UdpSocket,
    is_v6: bool,
    is_connected: bool,
    spare: BytesMut,
}

/// Room for control messages, aligned as they are.
#[repr(align(8))]
struct Control(#[allow(dead_code, reason = "the kernel reads and writes it")] [MaybeUninit<u8>; 256]);

impl Socket {
    /// A socket bound to `local`, and connected if it has but one peer.
    pub(crate) fn bind(local: SocketAddr, peer: Option<SocketAddr>) -> io::Result<Self> {
        let socket = UdpSocket::bind(local)?;
        if let Some(peer) = peer {
            socket.connect(peer)?;
        }
        socket.set_nonblocking(true)?;
        let is_v6 = local.is_ipv6();
        let it = Self { socket, is_v6, is_connected: peer.is_some(), spare: BytesMut::new() };
        // The kernel may allow less.
        for (level, name, value) in
            [(libc::SOL_SOCKET, libc::SO_RCVBUF, BUFFER), (libc::SOL_SOCKET, libc::SO_SNDBUF, BUFFER)]
        {
            let _ = it.set(level, name, value);
        }
        it.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        // Datagrams are never fragmented (RFC 9000 section 14). A v6 socket may carry IPv4, too.
        if is_v6 {
            it.set(libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
            it.set(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
            it.set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
        }
        for (name, value) in
            [(libc::IP_RECVTOS, 1), (libc::IP_PKTINFO, 1), (libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)]
        {
            let result = it.set(libc::IPPROTO_IP, name, value);
            if !is_v6 {
                result?;
            }
        }
        Ok(it)
    }

    fn set(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        let (at, size) = ((&raw const value).cast(), size_of_val(&value) as libc::socklen_t);
        // SAFETY: pointer and length are of a whole integer.
        match unsafe { libc::setsockopt(self.fd(), level, name, at, size) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The next datagram; none if there is none yet.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Datagram>> {
        if self.spare.len() < LARGEST {
            self.spare = BytesMut::zeroed(64 * LARGEST);
        }
        // SAFETY: plain data, for which zeros are valid.
        let (mut name, mut header): (libc::sockaddr_storage, libc::msghdr) =
            unsafe { (MaybeUninit::zeroed().assume_init(), MaybeUninit::zeroed().assume_init()) };
        let mut control = Control([MaybeUninit::uninit(); 256]);
        let mut part = libc::iovec { iov_base: self.spare.as_mut_ptr().cast(), iov_len: LARGEST };
        header.msg_name = (&raw mut name).cast();
        header.msg_namelen = size_of_val(&name) as libc::socklen_t;
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = (&raw mut control).cast();
        header.msg_controllen = size_of_val(&control);
        // SAFETY: the header points to buffers of the lengths that it tells, all alive.
        let length = unsafe { libc::recvmsg(self.fd(), &raw mut header, 0) };
        let Ok(length) = usize::try_from(length) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            };
        };
        let bytes = self.spare.split_to(length);
        let mut datagram = Datagram {
            from: address(&name).ok_or_else(|| io::Error::other("a datagram of no IP address"))?,
            to: None,
            ecn: None,
            at: now(),
            bytes,
        };
        read_control(&header, &mut datagram);
        Ok(Some(datagram))
    }

    /// Sends a datagram, from `source` if that is told. Where the kernel's buffer is full it waits a little.
    pub(crate) fn send(
        &self,
        to: SocketAddr,
        source: Option<IpAddr>,
        ecn: Option<EcnCodepoint>,
        bytes: &[u8],
    ) -> io::Result<()> {
        let (mut name, length) = raw_address(to, self.is_v6);
        // SAFETY: plain data, for which zeros are valid.
        let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut control = Control([MaybeUninit::zeroed(); 256]);
        let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        if !self.is_connected {
            header.msg_name = (&raw mut name).cast();
            header.msg_namelen = length;
        }
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = (&raw mut control).cast();
        header.msg_controllen = size_of_val(&control);
        let used = write_control(&header, to, source, ecn, self.is_v6);
        header.msg_controllen = used;
        if used == 0 {
            header.msg_control = std::ptr::null_mut();
        }
        loop {
            // SAFETY: the header points to buffers of the lengths that it tells, all alive.
            if unsafe { libc::sendmsg(self.fd(), &raw const header, libc::MSG_NOSIGNAL) } >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => {
                    let mut entry = libc::pollfd { fd: self.fd(), events: libc::POLLOUT, revents: 0 };
                    // SAFETY: one entry.
                    if unsafe { libc::poll(&raw mut entry, 1, 100) } == 0 {
                        return Err(error);
                    }
                }
                _ => return Err(error),
            }
        }
    }
}

/// Reads the control messages of a datagram into it.
fn read_control(header: &libc::msghdr, datagram: &mut Datagram) {
    let now = datagram.at;
    // SAFETY: the kernel has filled the header's control buffer; the macros stay inside the length that it tells, and what
    // each message holds is read without regard to alignment.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(head) = message.as_ref() {
            let data = libc::CMSG_DATA(message);
            match (head.cmsg_level, head.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let stamp = data.cast::<libc::timespec>().read_unaligned();
                    datagram.at = instant_of(stamp, now);
                }
                (libc::IPPROTO_IP, libc::IP_TOS) => datagram.ecn = EcnCodepoint::from_bits(data.read() & 3),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    let class = data.cast::<libc::c_int>().read_unaligned();
                    datagram.ecn = EcnCodepoint::from_bits(class as u8 & 3);
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    let to = Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes());
                    datagram.to = Some(IpAddr::V4(to));
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    datagram.to = Some(IpAddr::V6(Ipv6Addr::from(info.ipi6_addr.s6_addr)).to_canonical());
                }
                _ => {}
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
}

/// Writes the control messages of a datagram; the length of what was written.
fn write_control(
    header: &libc::msghdr,
    to: SocketAddr,
    source: Option<IpAddr>,
    ecn: Option<EcnCodepoint>,
    is_v6: bool,
) -> usize {
    let mut used = 0;
    // SAFETY: the header's control buffer is zeroed and far larger than all messages together.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
    let mut add = |level, kind, value: *const u8, size: usize| {
        if message.is_null() {
            return;
        }
        // SAFETY: as above; `value` is of `size` bytes.
        unsafe {
            (*message).cmsg_level = level;
            (*message).cmsg_type = kind;
            (*message).cmsg_len = libc::CMSG_LEN(size as u32) as _;
            std::ptr::copy_nonoverlapping(value, libc::CMSG_DATA(message), size);
            used += libc::CMSG_SPACE(size as u32) as usize;
            message = libc::CMSG_NXTHDR(header, message);
        }
    };
    if let Some(ecn) = ecn {
        let class = ecn as libc::c_int;
        let at = (&raw const class).cast();
        if to.ip().to_canonical().is_ipv4() {
            add(libc::IPPROTO_IP, libc::IP_TOS, at, size_of::<libc::c_int>());
        } else {
            add(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, at, size_of::<libc::c_int>());
        }
    }
    match source {
        Some(IpAddr::V4(source)) if !is_v6 => {
            let source = libc::in_addr { s_addr: u32::from_ne_bytes(source.octets()) };
            let none = libc::in_addr { s_addr: 0 };
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: source, ipi_addr: none };
            add(libc::IPPROTO_IP, libc::IP_PKTINFO, (&raw const info).cast(), size_of_val(&info));
        }
        Some(source) if is_v6 => {
            let source = match source {
                IpAddr::V4(source) => source.to_ipv6_mapped(),
                IpAddr::V6(source) => source,
            };
            let address = libc::in6_addr { s6_addr: source.octets() };
            let info = libc::in6_pktinfo { ipi6_addr: address, ipi6_ifindex: 0 };
            add(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, (&raw const info).cast(), size_of_val(&info));
        }
        _ => {}
    }
    used
}

/// When something happened that the clock of the day has stamped, if that is not long before `now`.
fn instant_of(stamp: libc::timespec, now: Instant) -> Instant {
    let since = Duration::new(stamp.tv_sec.max(0) as u64, stamp.tv_nsec.clamp(0, 999_999_999) as u32);
    let today = today();
    let age = today.duration_since(UNIX_EPOCH).ok().and_then(|today| today.checked_sub(since));
    age.filter(|age| *age < OLDEST).and_then(|age| now.checked_sub(age)).unwrap_or(now)
}

fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let at: *const libc::sockaddr_storage = name;
    match libc::c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which of the two it is; the storage is large enough and aligned for both.
            let v4 = unsafe { at.cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(v4.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { at.cast::<libc::sockaddr_in6>().read() };
            let (ip, port) = (Ipv6Addr::from(v6.sin6_addr.s6_addr), u16::from_be(v6.sin6_port));
            Some(match ip.to_ipv4_mapped() {
                Some(ip) => SocketAddr::V4(SocketAddrV4::new(ip, port)),
                None => SocketAddr::V6(SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id)),
            })
        }
        _ => None,
    }
}

/// An address in the form that the kernel reads from sockets of the family.
fn raw_address(address: SocketAddr, is_v6: bool) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: plain data, for which zeros are valid.
    let mut name: libc::sockaddr_storage = unsafe { MaybeUninit::zeroed().assume_init() };
    let at: *mut libc::sockaddr_storage = &mut name;
    let (ip, scope) = match address {
        SocketAddr::V4(v4) if !is_v6 => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is large enough and aligned for every family.
            unsafe { at.cast::<libc::sockaddr_in>().write(raw) };
            return (name, size_of_val(&raw) as libc::socklen_t);
        }
        SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped(), 0),
        SocketAddr::V6(v6) => (*v6.ip(), v6.scope_id()),
    };
    let raw = libc::sockaddr_in6 {
        sin6_family: libc::AF_INET6 as libc::sa_family_t,
        sin6_port: address.port().to_be(),
        sin6_flowinfo: 0,
        sin6_addr: libc::in6_addr { s6_addr: ip.octets() },
        sin6_scope_id: scope,
    };
    // SAFETY: as above.
    unsafe { at.cast::<libc::sockaddr_in6>().write(raw) };
    (name, size_of_val(&raw) as libc::socklen_t)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use noq_proto::EcnCodepoint;

    use super::Socket;
    use crate::clock::{now, sleep};

    /// Sends one datagram from an address to another, and how it arrived.
    fn pass(from: &str, to: &str, source: Option<&str>) -> Option<super::Datagram> {
        let mut receiver = Socket::bind(to.parse().unwrap(), None).ok()?;
        let sender = Socket::bind(from.parse().unwrap(), None).unwrap();
        let mut target = receiver.local_addr().unwrap();
        if target.ip().is_unspecified() {
            target.set_ip("127.0.0.1".parse().unwrap());
        }
        let source = source.map(|source| source.parse().unwrap());
        sender.send(target, source, Some(EcnCodepoint::Ect0), b"hello").unwrap();
        (0..1000).find_map(|_| {
            sleep(Duration::from_millis(1));
            receiver.receive().unwrap()
        })
    }

    #[test]
    fn a_datagram_tells_its_circumstances() {
        for (from, to) in [("0.0.0.0:0", "0.0.0.0:0"), ("[::]:0", "[::]:0"), ("[::]:0", "127.0.0.1:0")] {
            let before = now();
            let Some(datagram) = pass(from, to, Some("127.0.0.5")) else {
                weir_testkit::skip::skip("ipv6", "sockets of both families");
                continue;
            };
            assert_eq!(&datagram.bytes[..], b"hello");
            assert_eq!(datagram.from.ip().to_string(), "127.0.0.5", "{from} {to}");
            assert_eq!(datagram.to.unwrap().to_string(), "127.0.0.1");
            assert_eq!(datagram.ecn, Some(EcnCodepoint::Ect0));
            // The stamp is the kernel's, from before the receiver has looked.
            let seen = now();
            assert!(before <= datagram.at && datagram.at <= seen);
        }
    }
}
