//! The thread of an endpoint: it reads its sockets, sends what is due at the time that it is due, and sleeps in
//! between.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use noq_proto::{FourTuple, Transmit};

use crate::Error;
use crate::clock::now;
use crate::endpoint::{Answer, Endpoint};
use crate::pipe::Waker;
use crate::socket::Socket;

/// The kernel wakes a thread some tens of microseconds late, so the thread rises this much earlier for a departure and
/// waits awake.
const AWAKE: Duration = Duration::from_micros(60);
/// Datagrams that are read or sent before the other is looked at.
const BATCH: usize = 32;
/// Bytes that the kernel takes for datagrams at once.
const MOST_BYTES: usize = 65_000;
/// The longest sleep, after which the stop switch is looked at.
const SLEEP: Duration = Duration::from_millis(500);

/// A socket, and what noq knows it by if it is not the first.
pub(crate) struct Door {
    pub(crate) socket: Socket,
    pub(crate) label: Option<IpAddr>,
}

/// A running thread of an endpoint.
pub(crate) struct Running {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    waker: Waker,
}

impl Running {
    /// Starts the thread. It ends when it is stopped, or if `until_empty` once no connection is left.
    pub(crate) fn start(
        endpoint: Endpoint,
        sockets: Vec<Door>,
        waker: Waker,
        until_empty: bool,
    ) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut thread = Thread {
            endpoint,
            sockets,
            waker: waker.clone(),
            stop: Arc::clone(&stop),
            until_empty,
            refused: 0,
            refused_since: None,
            told: now(),
            batch: Vec::with_capacity(BATCH * 1500),
        };
        let thread = std::thread::Builder::new()
            .name("weir-transport".to_owned())
            .spawn(move || thread.run())
            .map_err(|error| Error::Local(format!("cannot start a thread: {error}")))?;
        Ok(Self { thread: Some(thread), stop, waker })
    }

    /// Waits until the thread has ended by itself.
    pub(crate) fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        self.join();
    }
}

struct Thread {
    endpoint: Endpoint,
    sockets: Vec<Door>,
    waker: Waker,
    stop: Arc<AtomicBool>,
    until_empty: bool,
    /// How often the other host has said that nobody listens, and since when, if nothing else was heard since.
    refused: u32,
    refused_since: Option<Instant>,
    /// The newest time that the endpoint was told.
    told: Instant,
    /// Room for a [`Batch`].
    batch: Vec<u8>,
}

/// Datagrams of one flow that go together: the first one's circumstances, and the bytes of all.
struct Batch {
    transmit: Option<Transmit>,
    bytes: Vec<u8>,
}

impl Batch {
    /// Whether a datagram may go with the others: all before the last are of one size.
    fn takes(&self, next: &Transmit) -> bool {
        self.transmit.as_ref().is_none_or(|first| {
            (first.destination, first.src_ip, first.ecn) == (next.destination, next.src_ip, next.ecn)
                && next.size <= first.size
                && self.bytes.len().is_multiple_of(first.size)
                && self.bytes.len() + next.size <= MOST_BYTES
        })
    }

    fn push(&mut self, transmit: Transmit, datagram: &[u8]) {
        self.transmit.get_or_insert(transmit);
        self.bytes.extend_from_slice(datagram);
    }
}

impl Thread {
    fn run(&mut self) {
        rise_on_time();
        let mut buffer = Vec::with_capacity(2048);
        let mut stopping = None;
        loop {
            let received = self.receive(&mut buffer);
            let now = self.tell(now());
            self.endpoint.drive(now);
            let sent = self.send(&mut buffer);
            if self.until_empty && self.endpoint.is_empty() {
                return;
            }
            if self.stop.load(Ordering::Relaxed) {
                // The goodbye is sent at once; who misses it notices by itself.
                if stopping.is_some() {
                    return;
                }
                stopping = Some(());
                self.endpoint.stop();
                continue;
            }
            if received < BATCH && sent < BATCH {
                self.wait();
            }
        }
    }

    /// Reads what has come in; how many datagrams at most from one socket.
    fn receive(&mut self, buffer: &mut Vec<u8>) -> usize {
        let mut most = 0;
        for index in 0..self.sockets.len() {
            self.sockets[index].socket.hear_qdisc();
            for count in 1..=BATCH {
                let Door { socket, label } = &mut self.sockets[index];
                let datagram = match socket.receive() {
                    Ok(Some(datagram)) => datagram,
                    Ok(None) => break,
                    Err(error) => {
                        self.on_error(&error);
                        break;
                    }
                };
                most = most.max(count);
                self.refused_since = None;
                let is_server = label.is_none() && self.sockets.len() == 1;
                let label = self.sockets[index].label;
                let local = if is_server { datagram.to } else { label };
                buffer.clear();
                let path = FourTuple::new(datagram.from, local);
                // As if it were read when it came: what this thread is late by is not the path's doing.
                let now = self.tell(datagram.at);
                let answer =
                    self.endpoint.on_datagram(now, datagram.at, path, datagram.ecn, datagram.bytes, buffer);
                if let Answer::Send(transmit) = answer {
                    self.out(&Transmit { ecn: None, ..transmit }, &buffer[..transmit.size], None);
                }
            }
        }
        most
    }

    /// A time for the endpoint, for which time never goes back.
    fn tell(&mut self, time: Instant) -> Instant {
        self.told = self.told.max(time);
        self.told
    }

    /// Sends what may go now; how many datagrams. Those of one flow go in one call, but what a detector has asked for
    /// goes alone, at its time.
    fn send(&mut self, buffer: &mut Vec<u8>) -> usize {
        let mut batch = Batch { transmit: None, bytes: std::mem::take(&mut self.batch) };
        let mut count = 0;
        while count < BATCH {
            buffer.clear();
            let made = self.tell(now());
            let Some((handle, transmit)) = self.endpoint.transmit(made, buffer) else { break };
            count += 1;
            // The time that the sender counts with is that of the call.
            let sent = self.tell(now());
            let alone = self.endpoint.departing(handle, sent);
            let datagram = &buffer[..transmit.size];
            if alone.is_some() || !batch.takes(&transmit) {
                self.out_all(&mut batch);
            }
            if alone.is_some() {
                self.out(&transmit, datagram, alone);
            } else {
                batch.push(transmit, datagram);
            }
        }
        self.out_all(&mut batch);
        self.batch = batch.bytes;
        count
    }

    /// Sends a batch, which is then empty.
    fn out_all(&mut self, batch: &mut Batch) {
        if let Some(transmit) = batch.transmit.take() {
            self.out(&transmit, &batch.bytes, None);
        }
        batch.bytes.clear();
    }

    /// Sends datagrams of a flow, of the size of `transmit` but perhaps the last; `at` is when one leaves whose time
    /// matters.
    fn out(&mut self, transmit: &Transmit, bytes: &[u8], at: Option<Instant>) {
        let Transmit { destination, src_ip, ecn, size, .. } = *transmit;
        let labelled = self.sockets.iter().find(|door| door.label.is_some() && door.label == src_ip);
        let (door, source) = match labelled {
            Some(door) => (door, None),
            None => (&self.sockets[0], src_ip),
        };
        // What cannot be sent is as good as lost, which QUIC is made for.
        if let Err(error) = door.socket.send_all(destination, source, ecn, bytes, size, at) {
            self.on_error(&error);
        }
    }

    /// A socket has failed: of a sender, there is somebody who wants to know.
    fn on_error(&mut self, error: &io::Error) {
        /// Once may be by chance, or a forged message.
        const OFTEN: u32 = 2;
        /// Whoever sends no more than such messages for so long has gone.
        const GONE: Duration = Duration::from_secs(1);
        if !self.until_empty {
            return;
        }
        match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                self.refused += 1;
                if self.refused >= OFTEN {
                    self.endpoint.fail_unconnected_with(Error::Nobody);
                }
                let now = now();
                if now.duration_since(*self.refused_since.get_or_insert(now)) > GONE {
                    self.endpoint.lose("nobody listens there any more");
                }
            }
            io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => {}
            _ => {
                let why = Error::Local(format!("cannot send: {error}"));
                self.endpoint.fail_unconnected_with(|_| why.clone());
            }
        }
    }

    /// Sleeps until a datagram, the waker, or the next time.
    fn wait(&self) {
        let (due, is_exact) = self.endpoint.timer().unzip();
        let is_exact = is_exact == Some(true);
        let left = || due.map_or(SLEEP, |due| due.saturating_duration_since(now()));
        if is_exact && left() <= AWAKE {
            while !left().is_zero() {
                std::hint::spin_loop();
            }
            return;
        }
        let sleep = left().saturating_sub(if is_exact { AWAKE } else { Duration::ZERO }).min(SLEEP);
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let second = self.sockets.get(1).map_or(-1, |door| door.socket.fd());
        let mut entries = [entry(self.waker.fd()), entry(self.sockets[0].socket.fd()), entry(second)];
        let timeout = libc::timespec {
            tv_sec: sleep.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(sleep.subsec_nanos() as i32),
        };
        // SAFETY: three entries, of which the kernel skips negative descriptors; a valid timeout; no signal mask.
        unsafe {
            libc::ppoll(
                entries.as_mut_ptr(),
                entries.len() as libc::nfds_t,
                &raw const timeout,
                std::ptr::null(),
            )
        };
        if entries[0].revents != 0 {
            self.waker.clear();
        }
    }
}

/// Asks the kernel to wake this thread on time: by default it may be 50 microseconds late to wake several threads at
/// once.
fn rise_on_time() {
    // SAFETY: sets a number of this thread; if it fails, timers are a little later.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0_u64, 0_u64, 0_u64) };
}
