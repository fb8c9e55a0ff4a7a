//! UDP sockets that tell when, whereto and how marked each datagram came in.

use std::cell::Cell;
use std::io;
use std::mem::{MaybeUninit, size_of, size_of_val};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use noq_proto::EcnCodepoint;

use crate::address::RawAddress;
use crate::clock::now;
use crate::departures::Timing;
use crate::stamps::Stamps;

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

/// A UDP socket that never waits.
pub(crate) struct Socket {
    socket: UdpSocket,
    is_v6: bool,
    is_connected: bool,
    spare: BytesMut,
    stamps: Stamps,
    /// The kernel cuts datagrams apart (`UDP_SEGMENT`); until it has refused to.
    segments: Cell<bool>,
    /// Who lets packets go at their times, if they carry any.
    timing: Option<Arc<Timing>>,
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
        let it = Self {
            socket,
            is_v6,
            is_connected: peer.is_some(),
            spare: BytesMut::new(),
            stamps: Stamps::new(),
            segments: Cell::new(true),
            timing: None,
        };
        // The kernel may allow others less than root.
        for (forced, name) in
            [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            let _ =
                it.set(libc::SOL_SOCKET, forced, BUFFER).or_else(|_| it.set(libc::SOL_SOCKET, name, BUFFER));
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

    /// With packets that carry times, if that is how they are let go.
    pub(crate) fn timed(self, timing: &Arc<Timing>) -> io::Result<Self> {
        let Some((clockid, flags)) = timing.option() else { return Ok(self) };
        match self.set(libc::SOL_SOCKET, libc::SO_TXTIME, libc::sock_txtime { clockid, flags }) {
            Ok(()) => Ok(Self { timing: Some(Arc::clone(timing)), ..self }),
            // A kernel, or a user, that may not.
            Err(error) if timing.refused(&error) => Ok(self),
            Err(error) => Err(error),
        }
    }

    /// Hears which packets the qdisc has dropped for their times (`net/sched/sch_etf.c`). Until these messages are
    /// read, the socket seems to have news.
    pub(crate) fn hear_qdisc(&self) {
        /// `SO_EE_ORIGIN_TXTIME` (linux/errqueue.h).
        const ORIGIN_TXTIME: u8 = 6;
        let Some(timing) = &self.timing else { return };
        loop {
            // SAFETY: plain data, for which zeros are valid.
            let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
            let mut control = Control([MaybeUninit::uninit(); 256]);
            header.msg_control = (&raw mut control).cast();
            header.msg_controllen = size_of_val(&control);
            // SAFETY: the header points to a buffer of the length that it tells; the payload is not asked for.
            let length =
                unsafe { libc::recvmsg(self.fd(), &raw mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
            if length < 0 {
                return;
            }
            // SAFETY: the kernel has filled the control buffer, inside which the macros stay.
            unsafe {
                let mut message = libc::CMSG_FIRSTHDR(&raw const header);
                while let Some(head) = message.as_ref() {
                    let is_error = matches!(
                        (head.cmsg_level, head.cmsg_type),
                        (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
                    );
                    if is_error {
                        let error =
                            libc::CMSG_DATA(message).cast::<libc::sock_extended_err>().read_unaligned();
                        if error.ee_origin == ORIGIN_TXTIME {
                            timing.dropped();
                        }
                    }
                    message = libc::CMSG_NXTHDR(&raw const header, message);
                }
            }
        }
    }

    fn set<T>(&self, level: libc::c_int, name: libc::c_int, value: T) -> io::Result<()> {
        let (at, size) = ((&raw const value).cast(), size_of_val(&value) as libc::socklen_t);
        // SAFETY: pointer and length are of a whole value.
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
        let mut name = RawAddress::room();
        // SAFETY: plain data, for which zeros are valid.
        let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut control = Control([MaybeUninit::uninit(); 256]);
        let mut part = libc::iovec { iov_base: self.spare.as_mut_ptr().cast(), iov_len: LARGEST };
        header.msg_name = name.as_mut_ptr();
        header.msg_namelen = name.length();
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
            from: name.address().ok_or_else(|| io::Error::other("a datagram of no IP address"))?,
            to: None,
            ecn: None,
            at: now(),
            bytes,
        };
        read_control(&header, &mut self.stamps, &mut datagram);
        Ok(Some(datagram))
    }

    /// Sends datagrams of one flow, all of them of `segment` bytes but perhaps the last: in one call, which the kernel
    /// answers for less than half of what as many calls take.
    pub(crate) fn send_all(
        &self,
        to: SocketAddr,
        source: Option<IpAddr>,
        ecn: Option<EcnCodepoint>,
        bytes: &[u8],
        segment: usize,
        at: Option<Instant>,
    ) -> io::Result<()> {
        let timing = self.timing.as_deref();
        let stamp = timing.and_then(|timing| timing.stamp(at));
        if bytes.len() <= segment {
            return match self.send(to, source, ecn, bytes, None, stamp) {
                Err(error) if stamp.is_some() && timing.is_some_and(|timing| timing.refused(&error)) => {
                    self.send(to, source, ecn, bytes, None, None)
                }
                result => result,
            };
        }
        if self.segments.get() {
            match self.send(to, source, ecn, bytes, u16::try_from(segment).ok(), stamp) {
                // A kernel or an interface that does not do it (udp(7)).
                Err(error) if matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL)) => {
                    self.segments.set(false);
                }
                result => return result,
            }
        }
        bytes.chunks(segment).try_for_each(|bytes| self.send(to, source, ecn, bytes, None, stamp))
    }

    /// Sends a datagram, or `bytes` as datagrams of so many bytes each, from `source` if that is told, with a
    /// time for the qdisc if there is one. Where the kernel's buffer is full it waits a little.
    fn send(
        &self,
        to: SocketAddr,
        source: Option<IpAddr>,
        ecn: Option<EcnCodepoint>,
        bytes: &[u8],
        segment: Option<u16>,
        stamp: Option<u64>,
    ) -> io::Result<()> {
        let name = if self.is_v6 { RawAddress::mapped(to) } else { RawAddress::new(to) };
        // SAFETY: plain data, for which zeros are valid.
        let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut control = Control([MaybeUninit::zeroed(); 256]);
        let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        if !self.is_connected {
            header.msg_name = name.as_ptr().cast_mut().cast();
            header.msg_namelen = name.length();
        }
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = (&raw mut control).cast();
        header.msg_controllen = size_of_val(&control);
        let used = write_control(&header, to, source, ecn, segment, stamp, self.is_v6);
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
fn read_control(header: &libc::msghdr, stamps: &mut Stamps, datagram: &mut Datagram) {
    // SAFETY: the kernel has filled the header's control buffer; the macros stay inside the length that it tells, and
    // what each message holds is read without regard to alignment.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(head) = message.as_ref() {
            let data = libc::CMSG_DATA(message);
            match (head.cmsg_level, head.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let stamp = data.cast::<libc::timespec>().read_unaligned();
                    let since =
                        Duration::new(stamp.tv_sec.max(0) as u64, stamp.tv_nsec.clamp(0, 999_999_999) as u32);
                    datagram.at = stamps.instant(since, datagram.at);
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
    segment: Option<u16>,
    stamp: Option<u64>,
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
    if let Some(segment) = segment {
        add(libc::SOL_UDP, libc::UDP_SEGMENT, (&raw const segment).cast(), size_of::<u16>());
    }
    if let Some(stamp) = stamp {
        add(libc::SOL_SOCKET, libc::SCM_TXTIME, (&raw const stamp).cast(), size_of::<u64>());
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
        sender.send(target, source, Some(EcnCodepoint::Ect0), b"hello", None, None).unwrap();
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

    #[test]
    fn datagrams_that_are_sent_together_arrive_apart() {
        let mut receiver = Socket::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let target = receiver.local_addr().unwrap();
        let sender = Socket::bind("127.0.0.1:0".parse().unwrap(), Some(target)).unwrap();
        let sent: Vec<u8> = (0..250).collect();
        for _ in 0..2 {
            sender.send_all(target, None, None, &sent, 100, None).unwrap();
            let mut arrived = Vec::new();
            for _ in 0..1000 {
                arrived.extend(receiver.receive().unwrap().map(|datagram| datagram.bytes.to_vec()));
                if arrived.len() == 3 {
                    break;
                }
                sleep(Duration::from_millis(1));
            }
            assert_eq!(arrived.iter().map(Vec::len).collect::<Vec<_>>(), [100, 100, 50]);
            assert_eq!(arrived.concat(), sent);
            // The second time as where the kernel cannot do it.
            sender.segments.set(false);
        }
    }
}
