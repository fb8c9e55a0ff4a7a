//! A packet capture by hand: a packet socket inside a namespace, and just enough parsing for IPv4 over Ethernet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use weir_core::Ecn;
use weir_testbed::host::Namespace;

/// An IPv4 packet with UDP or TCP.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) time: Instant,
    pub(crate) source_port: u16,
    pub(crate) ecn: Ecn,
    pub(crate) wire_bytes: usize,
    /// The sequence number after the last byte of payload. TCP only.
    pub(crate) sequence_end: Option<u32>,
    /// UDP only, at least one byte: zeros if there is no payload.
    pub(crate) payload: Vec<u8>,
}

type Frames = Vec<(Instant, usize, Vec<u8>)>;

pub(crate) struct Capture {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Frames>,
}

impl Capture {
    /// Captures what passes an interface in either direction from now on.
    pub(crate) fn start(namespace: &Namespace, iface: &str) -> Self {
        let socket = namespace.enter(|| open(iface)).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        Self { stop, thread: std::thread::spawn(move || capture(socket, &seen)) }
    }

    fn stop(self) -> Frames {
        // What is under way at the end of a flow still counts.
        std::thread::sleep(std::time::Duration::from_millis(50));
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }

    /// The frames' first bytes.
    pub(crate) fn finish_frames(self) -> Vec<Vec<u8>> {
        self.stop().into_iter().map(|(.., frame)| frame).collect()
    }

    /// The TCP and UDP packets.
    pub(crate) fn finish(self) -> Vec<Packet> {
        self.stop().into_iter().filter_map(parse).collect()
    }
}

fn open(iface: &str) -> libc::c_int {
    let name = std::ffi::CString::new(iface).unwrap();
    let all = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: plain system calls; the address is a sockaddr_ll of its own size.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, i32::from(all));
        assert!(fd >= 0);
        let mut addr: libc::sockaddr_ll = std::mem::zeroed();
        addr.sll_family = libc::AF_PACKET as u16;
        addr.sll_protocol = all;
        addr.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
        assert!(addr.sll_ifindex > 0, "{iface}");
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        assert_eq!(libc::bind(fd, (&raw const addr).cast(), len), 0);
        for (name, value) in [(libc::SO_RCVBUFFORCE, 64 << 20), (libc::SO_RCVTIMEO, 0)] {
            let timeout = libc::timeval { tv_sec: 0, tv_usec: 20_000 };
            let set = if name == libc::SO_RCVTIMEO {
                let len = size_of::<libc::timeval>() as libc::socklen_t;
                libc::setsockopt(fd, libc::SOL_SOCKET, name, (&raw const timeout).cast(), len)
            } else {
                libc::setsockopt(fd, libc::SOL_SOCKET, name, (&raw const value).cast(), 4)
            };
            assert_eq!(set, 0);
        }
        fd
    }
}

fn capture(fd: libc::c_int, stop: &AtomicBool) -> Frames {
    let mut frames = Vec::new();
    let mut buffer = [0u8; 128];
    loop {
        let stopped = stop.load(Ordering::Relaxed);
        // SAFETY: the buffer is as long as said.
        let len = unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_TRUNC) };
        match usize::try_from(len) {
            Ok(len) => frames.push((Instant::now(), len, buffer[..len.min(buffer.len())].to_vec())),
            // What had come until then is in the socket, however late this thread is.
            Err(_) if stopped => break,
            Err(_) => {}
        }
    }
    // SAFETY: nobody else uses the descriptor.
    unsafe { libc::close(fd) };
    frames
}

fn parse((time, wire_bytes, frame): (Instant, usize, Vec<u8>)) -> Option<Packet> {
    let ip = frame.get(14..)?;
    if frame[12..14] != [0x08, 0x00] || ip.len() < 28 {
        return None;
    }
    let ip_header = usize::from(ip[0] & 0xf) * 4;
    let transport = &ip[ip_header..];
    let (sequence_end, payload) = match ip[9] {
        17 => (None, transport.get(8..).filter(|payload| !payload.is_empty()).unwrap_or(&[0]).to_vec()),
        6 => (
            Some(sequence_end(transport, usize::from(u16::from_be_bytes([ip[2], ip[3]])) - ip_header)?),
            Vec::new(),
        ),
        _ => return None,
    };
    let source_port = u16::from_be_bytes([transport[0], transport[1]]);
    Some(Packet { time, source_port, ecn: Ecn::from_bits(ip[1]), wire_bytes, sequence_end, payload })
}

/// Of a TCP segment of `len` bytes, header included.
fn sequence_end(segment: &[u8], len: usize) -> Option<u32> {
    let sequence = u32::from_be_bytes(segment.get(4..8)?.try_into().ok()?);
    let header = usize::from(segment.get(12)? >> 4) * 4;
    Some(sequence.wrapping_add(u32::try_from(len.checked_sub(header)?).ok()?))
}
