//! Constant-rate UDP: traffic that answers to nothing, the papers' unresponsive load.
//!
//! Deadlines are absolute and carry the remainder of each division, so the long-run rate is exact; datagrams go out
//! in batches of at most eight (`sendmmsg`) that span at most 200 microseconds, where iperf3 paces with a timer of
//! its own and bursts by default. Each datagram carries a number and a time stamp; the receiver counts loss,
//! reordering, CE marks and one-way delay. A sender that falls behind its schedule catches up, and says how far
//! behind it was; if it cannot by the end of its time, that is an error.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_core::{Duration, Ecn, Rate, Time};

use super::report::{ClientReport, ServerReport, UdpReceived};
use super::socket::{self, check};
use super::{Amount, Control, Ends, POLL, Threads, TrafficError, UdpSpec};

/// The smallest payload in bytes: what this module writes into each datagram.
pub const MIN_PAYLOAD: u16 = HEADER as u16;
/// The largest payload in bytes that is sent over IPv4.
pub const MAX_PAYLOAD: u16 = 65_507;

/// First byte, padding to eight, number, time stamp: both big-endian, the latter in nanoseconds of the run's clock.
const HEADER: usize = 24;
/// The most datagrams in one system call.
const BATCH: usize = 8;
/// The longest time that one batch spans.
const BATCH_SPAN: Duration = Duration::from_micros(200);
/// How many datagrams the receiver takes in one system call.
const RECEIVE_BATCH: usize = 64;
/// After the last datagram was sent, how long the receiver waits for one more: above any queue's sojourn time.
const GRACE: Duration = Duration::from_secs(2);
/// How long a sender that fell behind may go on after its time.
const OVERTIME: Duration = Duration::from_millis(100);
/// Set in [`Sent`] once the sender is done.
const DONE: u64 = 1 << 63;

/// What the two threads tell each other: the number of datagrams sent, with [`DONE`] at the end.
type Sent = Arc<AtomicU64>;

pub(super) fn start(ends: &Ends<'_>, spec: &UdpSpec) -> Result<Threads, TrafficError> {
    let flow = ends.spec;
    if !(MIN_PAYLOAD..=MAX_PAYLOAD).contains(&spec.payload) {
        let message = format!("payload is {} bytes; it must be {MIN_PAYLOAD} to {MAX_PAYLOAD}", spec.payload);
        return Err(ends.spec_error(message));
    }
    if spec.rate == Rate::default() || flow.client.port() == 0 {
        return Err(ends.spec_error("a UDP flow needs a rate above zero and a client port".to_owned()));
    }
    let ipv6 = flow.server.is_ipv6();
    let receiver = ends.open(
        ends.client,
        || format!("bind to {}", flow.client),
        || {
            let socket = socket::bound(flow.client, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK)?;
            socket::set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 16 << 20)?;
            match ipv6 {
                false => socket::set(&socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?,
                true => socket::set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?,
            }
            Ok(socket)
        },
    )?;
    let sender = ends.open(
        ends.server,
        || format!("send from {} to {}", flow.server, flow.client),
        || {
            let socket = socket::bound(flow.server, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK)?;
            socket::set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 4 << 20)?;
            let tos = libc::c_int::from(if flow.ecn { Ecn::Ect0 } else { Ecn::NotEct }.bits());
            match ipv6 {
                false => socket::set(&socket, libc::IPPROTO_IP, libc::IP_TOS, tos)?,
                true => socket::set(&socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, tos)?,
            }
            socket::connect(&socket, flow.client)?;
            if spec.super_packets {
                socket::set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, libc::c_int::from(spec.payload))?;
            }
            Ok(socket)
        },
    )?;
    let sent = Sent::default();
    let pacer = Pacer {
        control: ends.control.clone(),
        spec: spec.clone(),
        wire_bytes: u64::from(spec.payload) + if ipv6 { 62 } else { 42 },
        start: Time::ZERO + flow.start,
        amount: flow.amount,
        sent: Arc::clone(&sent),
    };
    let serve = move || {
        let mut report = ServerReport::default();
        report.error = pacer.run(&sender, &mut report.latest).err().map(|error| error.to_string());
        report.sent_datagrams = pacer.sent.fetch_or(DONE, Ordering::Release) & !DONE;
        report
    };
    let (control, received) = (ends.control.clone(), Arc::clone(ends.received));
    let (started, whole) = (Time::ZERO + flow.start, flow.amount);
    let fetch = move || {
        let mut report = ClientReport { started: Some(started), ..ClientReport::default() };
        let mut seen = UdpReceived::default();
        let result = collect(&receiver, &control, &sent, &received, &mut seen);
        report.error = result.err().map(|error| error.to_string());
        report.bytes = received.load(Ordering::Relaxed);
        report.finished = seen.last.or(Some(control.now()));
        let stopped_early = match whole {
            Amount::Time(duration) => control.now() < started + duration,
            Amount::Bytes(_) => control.is_stopped(),
        };
        report.complete = !stopped_early;
        report.udp = Some(seen);
        report
    };
    ends.spawn(serve, fetch)
}

/// The sender's side of a flow.
struct Pacer {
    control: Control,
    spec: UdpSpec,
    wire_bytes: u64,
    start: Time,
    amount: Amount,
    sent: Sent,
}

impl Pacer {
    fn run(&self, socket: &OwnedFd, latest: &mut Duration) -> io::Result<()> {
        // Sleeping is exact to 50 us by default (prctl(2), PR_SET_TIMERSLACK), two packets at 500 Mbit/s.
        // SAFETY: takes no pointers and concerns this thread only.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        let payload = usize::from(self.spec.payload);
        let (total, end) = match self.amount {
            Amount::Bytes(bytes) => (bytes.0.div_ceil(payload as u64), Time::MAX),
            Amount::Time(duration) => (u64::MAX, self.start + duration),
        };
        let mut buffers = vec![0u8; payload * BATCH];
        buffers
            .chunks_exact_mut(payload)
            .for_each(|buffer| buffer[0] = if self.spec.fixed_bit { 0x40 } else { 0 });
        let mut batch = Batch::new(&mut buffers, payload);
        let span =
            (BATCH_SPAN.as_nanos() / self.spec.rate.time_for(self.wire_bytes).as_nanos().max(1)).max(1);
        let batch_limit = if self.spec.bursts.is_some() { BATCH as u64 } else { span.min(BATCH as u64) };
        // All of a super-packet is one IP packet.
        let fitting = u64::from(MAX_PAYLOAD / self.spec.payload);
        let batch_limit = if self.spec.super_packets { batch_limit.min(fitting) } else { batch_limit };
        let (mut deadline, mut remainder, mut number) = (self.start, 0, 0u64);
        if !self.control.sleep_until(Time::from_nanos(deadline.as_nanos().saturating_sub(POLL.as_nanos()))) {
            return Ok(());
        }
        while number < total && deadline < end && !self.control.is_stopped() {
            let now = self.control.now();
            let due = self.due(deadline);
            if due > now {
                // Short enough to notice the stop switch.
                nanosleep(due.since(now).min(POLL));
                continue;
            }
            *latest = (*latest).max(now.since(due));
            if now.since(end) > OVERTIME {
                let behind = now.since(deadline);
                return Err(io::Error::other(format!(
                    "this machine is too slow or too busy for {}: {behind} behind at the end; lower the rate",
                    self.spec.rate
                )));
            }
            // The batch: what is due now, and what falls due within its span.
            let mut count = 0;
            while count < batch_limit
                && number + count < total
                && deadline < end
                && self.is_within(deadline, now)
            {
                batch.stamp(count as usize, number + count, now);
                deadline += self.spec.rate.serialize(self.wire_bytes, &mut remainder);
                count += 1;
            }
            batch.send(socket, count as usize, self.spec.super_packets, &self.control)?;
            number += count;
            self.sent.store(number, Ordering::Relaxed);
        }
        Ok(())
    }

    /// When the datagram of this deadline is sent: with bursts, when its interval begins.
    fn due(&self, deadline: Time) -> Time {
        let Some(every) = self.spec.bursts else { return deadline };
        let into = deadline.since(self.start).as_nanos() % every.as_nanos().max(1);
        Time::from_nanos(deadline.as_nanos() - into)
    }

    /// Whether a datagram goes with those that are sent now. Of a burst only its own do.
    fn is_within(&self, deadline: Time, now: Time) -> bool {
        match self.spec.bursts {
            Some(_) => self.due(deadline) <= now,
            None => deadline < now + BATCH_SPAN,
        }
    }
}

fn nanosleep(duration: Duration) {
    let request = libc::timespec {
        tv_sec: (duration.as_nanos() / 1_000_000_000) as libc::time_t,
        tv_nsec: (duration.as_nanos() % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: a valid time and no place for the rest: the caller looks at the clock and sleeps again.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &request, ptr::null_mut()) };
}

/// Message headers over buffers of equal size, made once.
struct Batch<'a> {
    buffers: &'a mut [u8],
    payload: usize,
    headers: Vec<libc::mmsghdr>,
    _vectors: Vec<libc::iovec>,
}

impl<'a> Batch<'a> {
    fn new(buffers: &'a mut [u8], payload: usize) -> Self {
        let mut vectors: Vec<libc::iovec> = buffers
            .chunks_exact_mut(payload)
            .map(|buffer| libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() })
            .collect();
        let header = |vector: &mut libc::iovec| {
            // SAFETY: mmsghdr is plain data for which zeros are valid.
            let mut header: libc::mmsghdr = unsafe { zeroed() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header
        };
        let headers = vectors.iter_mut().map(header).collect();
        Self { buffers, payload, headers, _vectors: vectors }
    }

    fn stamp(&mut self, index: usize, number: u64, now: Time) {
        let buffer = &mut self.buffers[index * self.payload..][..HEADER];
        buffer[8..16].copy_from_slice(&number.to_be_bytes());
        buffer[16..24].copy_from_slice(&now.as_nanos().to_be_bytes());
    }

    /// Sends the first `count` buffers, all `at_once` or one by one, waiting while the socket's buffer is full.
    fn send(&mut self, socket: &OwnedFd, count: usize, at_once: bool, control: &Control) -> io::Result<()> {
        let mut done = 0;
        while done < count && !control.is_stopped() {
            let sent = if at_once {
                let all = &self.buffers[..count * self.payload];
                // SAFETY: a valid buffer of that length, which a C int holds.
                let sent = unsafe { libc::send(socket.as_raw_fd(), all.as_ptr().cast(), all.len(), 0) };
                check(sent as libc::c_int).map(|_| count)
            } else {
                let rest = &mut self.headers[done..count];
                // SAFETY: the headers point to buffers and vectors that live as long as `self`.
                check(unsafe {
                    libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), rest.len() as libc::c_uint, 0)
                })
                .map(|sent| sent as usize)
            };
            match sent {
                Ok(sent) => done += sent,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => {
                        socket::poll(socket, libc::POLLOUT, POLL.to_std())?;
                    }
                    // A full queue on the interface drops the datagram, as on any link.
                    Some(libc::ENOBUFS) => done += if at_once { count } else { 1 },
                    // An earlier datagram met a closed port: reported once, then forgotten.
                    Some(libc::ECONNREFUSED | libc::EINTR) => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }
}

/// Space for the TOS or traffic-class control message, aligned as the kernel's macros want it.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct ControlSpace([u8; 64]);

/// Receives until the sender is done and all arrived, or none did for [`GRACE`].
fn collect(
    socket: &OwnedFd,
    control: &Control,
    sent: &AtomicU64,
    received: &AtomicU64,
    seen: &mut UdpReceived,
) -> io::Result<()> {
    let mut heads = [[0u8; HEADER]; RECEIVE_BATCH];
    let mut spaces = [ControlSpace([0; 64]); RECEIVE_BATCH];
    let mut vectors: Vec<libc::iovec> = heads
        .iter_mut()
        .map(|head| libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: HEADER })
        .collect();
    let mut messages: Vec<libc::mmsghdr> = Vec::with_capacity(RECEIVE_BATCH);
    for (vector, space) in vectors.iter_mut().zip(&mut spaces) {
        // SAFETY: mmsghdr is plain data for which zeros are valid.
        let mut message: libc::mmsghdr = unsafe { zeroed() };
        message.msg_hdr.msg_iov = vector;
        message.msg_hdr.msg_iovlen = 1;
        message.msg_hdr.msg_control = ptr::from_mut(space).cast();
        messages.push(message);
    }
    let (mut next, mut last) = (0u64, control.now());
    while !control.is_stopped() {
        let progress = sent.load(Ordering::Acquire);
        let done = progress & DONE != 0;
        if done && (seen.received >= progress & !DONE || control.now().since(last) > GRACE) {
            break;
        }
        if socket::poll(socket, libc::POLLIN, POLL.to_std())? == 0 {
            if !done {
                last = control.now();
            }
            continue;
        }
        for message in &mut messages {
            message.msg_hdr.msg_controllen = size_of::<ControlSpace>();
        }
        // MSG_TRUNC: only the head is copied, the length returned is the datagram's.
        // SAFETY: the messages point to buffers, vectors and control space that outlive the call.
        let count = check(unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                RECEIVE_BATCH as libc::c_uint,
                libc::MSG_TRUNC,
                ptr::null_mut(),
            )
        });
        let count = match count {
            Ok(count) => count as usize,
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => continue,
            Err(error) => return Err(error),
        };
        let now = control.now();
        last = now;
        seen.last = Some(now);
        for (index, message) in messages[..count].iter().enumerate() {
            if (message.msg_len as usize) < HEADER {
                continue;
            }
            // SAFETY: the kernel has filled the head through this pointer, and nothing else refers to it now.
            let head: [u8; HEADER] = unsafe { ptr::read(vectors[index].iov_base.cast()) };
            let field =
                |at: usize| head[at..at + 8].iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
            let (number, stamp) = (field(8), Time::from_nanos(field(16)));
            seen.received += 1;
            if number < next {
                seen.reordered += 1;
            }
            next = next.max(number.saturating_add(1));
            seen.delay.record(now.since(stamp).as_nanos());
            if ecn_of(&message.msg_hdr) == Ecn::Ce {
                seen.ce += 1;
            }
            received.fetch_add(message.msg_len.into(), Ordering::Relaxed);
        }
    }
    Ok(())
}

/// The ECN codepoint that the kernel passed along: one byte for IPv4, an integer for IPv6.
fn ecn_of(header: &libc::msghdr) -> Ecn {
    // SAFETY: the kernel has filled `msg_controllen` bytes of control messages; the macros stay within them.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            match ((*message).cmsg_level, (*message).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) => return Ecn::from_bits(*libc::CMSG_DATA(message)),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    return Ecn::from_bits(
                        ptr::read_unaligned(libc::CMSG_DATA(message).cast::<libc::c_int>()) as u8,
                    );
                }
                _ => message = libc::CMSG_NXTHDR(header, message),
            }
        }
    }
    Ecn::NotEct
}
