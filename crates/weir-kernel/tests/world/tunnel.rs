//! Two TUN devices, which know no Ethernet header, with threads in place of the cable between them.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use weir_testkit::world::Namespace;

pub(crate) const NEAR: &str = "10.88.0.1";
pub(crate) const FAR: &str = "10.88.0.2";
/// `TUNSETIFF`, `IFF_TUN | IFF_NO_PI` (linux/if_tun.h).
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUN_NO_PI: libc::c_short = 0x1001;

/// `t0` with [`NEAR`] at one end, `t1` with [`FAR`] at the other. They go with it.
pub(crate) struct Tunnel {
    stop: Arc<AtomicBool>,
    ways: Vec<JoinHandle<()>>,
}

impl Tunnel {
    pub(crate) fn new(near: &Namespace, far: &Namespace) -> Self {
        let near = end(near, "t0", NEAR);
        let far = end(far, "t1", FAR);
        let stop = Arc::new(AtomicBool::new(false));
        let (back, forth) = (far.try_clone().unwrap(), near.try_clone().unwrap());
        let ways = [(near, far), (back, forth)].map(|(from, to)| {
            let stop = stop.clone();
            std::thread::spawn(move || carry(from, to, &stop))
        });
        Self { stop, ways: ways.into() }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.ways.drain(..).for_each(|way| way.join().unwrap());
    }
}

fn end(namespace: &Namespace, name: &'static str, address: &str) -> File {
    let file = namespace.enter(move || {
        let file =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun");
        let file = file.unwrap();
        // SAFETY: zeros are a valid request.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as _;
        }
        request.ifr_ifru.ifru_flags = TUN_NO_PI;
        // SAFETY: the request is writable and its name terminated.
        let made = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, &raw mut request) };
        assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
        file
    });
    namespace.sh(&format!("ip addr add {address}/24 dev {name}; ip link set {name} up; ip link set lo up"));
    file
}

/// Carries packets until it is told to stop.
fn carry(mut from: File, mut to: File, stop: &AtomicBool) {
    let mut packet = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        let mut wait = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure is given.
        unsafe { libc::poll(&raw mut wait, 1, 50) };
        while let Ok(length) = from.read(&mut packet) {
            // What a full queue does not take is lost, as on any cable.
            let _ = to.write(&packet[..length]);
        }
    }
}

/// How many of so many ICMP echo requests to an address are answered.
pub(crate) fn echoes(to: &str, count: u8) -> usize {
    // SAFETY: takes no pointers.
    let raw = unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP) };
    assert!(raw >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: it was made just now; sending to and receiving from addresses works as with UDP.
    let socket = unsafe { UdpSocket::from_raw_fd(raw) };
    socket.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
    let mut answer = [0; 256];
    let mut answered = || {
        // Behind the IP header: type 0 is an answer, others are what this host is asked.
        std::iter::from_fn(|| socket.recv(&mut answer).ok().map(|length| (length, answer[20])))
            .any(|(_, kind)| kind == 0)
    };
    (0..count)
        .filter(|number| {
            // Type 8, code 0, checksum, identifier, number: ones' complement over three words.
            let checksum = !(0x0800u16 + u16::from(*number));
            let [high, low] = checksum.to_be_bytes();
            socket.send_to(&[8, 0, high, low, 0, 0, 0, *number], (to, 0)).unwrap();
            answered()
        })
        .count()
}
