//! A host between senders and a receiver of UDP: it may lose, hold and hear datagrams, and change as a path does.
#![allow(clippy::disallowed_methods, reason = "runs on the real clock")]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_core::{Random, Seed};

/// What it does to datagrams, in both directions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rough {
    /// One of so many is lost, at random; of none, none.
    pub lose: Option<u64>,
    /// One of so many, at random, goes on so much later, so that others pass it.
    pub hold: Option<(u64, Duration)>,
}

/// Datagrams and their bytes, by the sender's port.
type Counts = HashMap<u16, (u64, u64)>;

/// A relay, until it is dropped.
pub struct Relay {
    /// Where senders reach it.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    lost: AtomicU64,
    held: AtomicU64,
    /// Nanoseconds that every datagram takes longer, either way.
    longer: AtomicU64,
    /// From where senders seem to come; set once for each time that they are to move.
    moved: Mutex<Option<IpAddr>>,
    counts: Mutex<Counts>,
    heard: Mutex<Vec<Vec<u8>>>,
}

/// Datagrams from senders that are kept.
const KEPT: usize = 500;
/// The kernel's buffer of a socket: a slow moment of this process is no loss of the path.
const BUFFER: libc::c_int = 4 << 20;

impl Relay {
    /// Listens at a free port of `at`, passes datagrams on to the receiver, and back what it answers.
    pub fn start(at: IpAddr, receiver: SocketAddr, rough: Rough) -> Self {
        let front = open(at);
        let address = front.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let hop = Hop {
            front,
            receiver,
            rough,
            shared: Arc::clone(&shared),
            from: receiver.ip(),
            backs: Vec::new(),
            waiting: BinaryHeap::new(),
            order: 0,
            random: Seed { seed: 1, run: 0 }.stream("relay"),
        };
        let thread = Some(std::thread::spawn(move || hop.run()));
        Self { address, shared, thread }
    }

    /// The first datagrams that came from senders.
    pub fn heard(&self) -> Vec<Vec<u8>> {
        self.shared.heard.lock().unwrap().clone()
    }

    /// What has come from a port.
    pub fn count(&self, port: u16) -> (u64, u64) {
        self.shared.counts.lock().unwrap().get(&port).copied().unwrap_or_default()
    }

    /// Datagrams that it has lost, and that it has held.
    pub fn lost_and_held(&self) -> (u64, u64) {
        (self.shared.lost.load(Ordering::Relaxed), self.shared.held.load(Ordering::Relaxed))
    }

    /// To the receiver, all senders come from new ports of this address from now on, as when a router between both has
    /// lost its table of addresses.
    pub fn move_senders(&self, to: IpAddr) {
        *self.shared.moved.lock().unwrap() = Some(to);
    }

    /// The path is so much longer from now on, in each direction.
    pub fn lengthen(&self, by: Duration) {
        self.shared.longer.store(by.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn open(at: IpAddr) -> UdpSocket {
    let socket = UdpSocket::bind((at, 0)).unwrap();
    socket.set_nonblocking(true).unwrap();
    let value = BUFFER;
    let (value, length) = ((&raw const value).cast(), size_of_val(&value) as libc::socklen_t);
    for name in [libc::SO_RCVBUF, libc::SO_SNDBUF, libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
        // SAFETY: pointer and length are of a whole integer. The kernel may allow less, and the last two to root alone.
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, value, length) };
    }
    socket
}

/// Whereto a datagram goes: to the receiver from this sender, or to this sender.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    On(SocketAddr),
    Back(SocketAddr),
}

/// When a datagram goes on, its place among those of the same time, whereto, and what is in it.
type Waiting = (Instant, u64, Way, Vec<u8>);

struct Hop {
    front: UdpSocket,
    receiver: SocketAddr,
    rough: Rough,
    shared: Arc<Shared>,
    /// From where senders seem to come.
    from: IpAddr,
    /// Senders, and the sockets from which their datagrams go on.
    backs: Vec<(SocketAddr, UdpSocket)>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    order: u64,
    random: Random,
}

impl Hop {
    fn run(mut self) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.wait();
            let moved = self.shared.moved.lock().unwrap().take();
            if let Some(to) = moved {
                self.from = to;
                // Each gets a new socket with its next datagram.
                self.backs.clear();
            }
            self.read();
            self.pass();
        }
    }

    /// The place of a sender's socket.
    fn back(&mut self, sender: SocketAddr) -> usize {
        self.backs.iter().position(|(of, _)| *of == sender).unwrap_or_else(|| {
            let back = open(self.from);
            back.connect(self.receiver).unwrap();
            self.backs.push((sender, back));
            self.backs.len() - 1
        })
    }

    fn wait(&self) {
        let longest = Duration::from_millis(20);
        let due = self.waiting.peek().map(|Reverse((due, ..))| due.saturating_duration_since(Instant::now()));
        let time = due.unwrap_or(longest).min(longest);
        let timeout = libc::timespec { tv_sec: 0, tv_nsec: libc::c_long::from(time.subsec_nanos() as i32) };
        let sockets = self.backs.iter().map(|(_, back)| back).chain([&self.front]);
        let mut entries: Vec<_> = sockets
            .map(|socket| libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 })
            .collect();
        let count = entries.len() as libc::nfds_t;
        // SAFETY: as many entries as are told, a valid timeout, no signal mask.
        unsafe { libc::ppoll(entries.as_mut_ptr(), count, &raw const timeout, std::ptr::null()) };
    }

    fn read(&mut self) {
        let mut buffer = [0; 2048];
        while let Ok((length, from)) = self.front.recv_from(&mut buffer) {
            let datagram = &buffer[..length];
            let mut counts = self.shared.counts.lock().unwrap();
            let count = counts.entry(from.port()).or_default();
            (count.0, count.1) = (count.0 + 1, count.1 + length as u64);
            drop(counts);
            let mut heard = self.shared.heard.lock().unwrap();
            if heard.len() < KEPT {
                heard.push(datagram.to_vec());
            }
            drop(heard);
            self.take(Way::On(from), datagram);
        }
        for place in 0..self.backs.len() {
            // An error is that nobody listens there now.
            while let Ok(length) = self.backs[place].1.recv(&mut buffer) {
                self.take(Way::Back(self.backs[place].0), &buffer[..length]);
            }
        }
    }

    fn take(&mut self, way: Way, datagram: &[u8]) {
        if self.rough.lose.is_some_and(|one_in| self.random.below(one_in) == 0) {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut due = Instant::now() + Duration::from_nanos(self.shared.longer.load(Ordering::Relaxed));
        if let Some((one_in, time)) = self.rough.hold
            && self.random.below(one_in) == 0
        {
            self.shared.held.fetch_add(1, Ordering::Relaxed);
            due += time;
        }
        self.order += 1;
        self.waiting.push(Reverse((due, self.order, way, datagram.to_vec())));
    }

    fn pass(&mut self) {
        while self.waiting.peek().is_some_and(|Reverse((due, ..))| *due <= Instant::now()) {
            let Some(Reverse((_, _, way, datagram))) = self.waiting.pop() else { return };
            // What cannot be sent is lost.
            let _ = match way {
                Way::On(sender) => {
                    let place = self.back(sender);
                    self.backs[place].1.send(&datagram)
                }
                Way::Back(sender) => self.front.send_to(&datagram, sender),
            };
        }
    }
}
