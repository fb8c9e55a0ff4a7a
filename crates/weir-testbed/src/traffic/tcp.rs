//! Kernel TCP flows: the client asks for a number of bytes, the server pushes exactly that many.
//!
//! The pattern is the CRQ prototype's (1 MiB writes; a two-way client reads up to 128 KiB and writes half of it back
//! before it reads on), without its in-band end marker: the length stands in the request. A one-way client lets the
//! kernel discard what it reads (`MSG_TRUNC`, tcp(7)), so that copying does not limit it. Both ends are non-blocking
//! and poll, so the server can drain what a two-way client writes while it sends, and nothing can deadlock.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_core::{Duration, Time};

use super::report::{ClientReport, ServerReport};
use super::samples::{RttSample, Sampler};
use super::socket::{self, check, check_size};
use super::{Amount, Control, Ends, POLL, TcpSpec, Threads, TrafficError, UnknownController};

/// Bytes given to the kernel in one write.
const WRITE: usize = 1 << 20;
/// Bytes discarded in one read of a one-way flow.
const DISCARD: usize = 16 << 20;
/// Bytes read at once by a two-way client.
const TWO_WAY_READ: usize = 128 << 10;
/// A request for as much as fits into the time.
const WITHOUT_END: u64 = u64::MAX;
/// How long the client waits for the server's goodbye after the flow's time is over.
const GOODBYE: Duration = Duration::from_secs(2);

static ZEROS: [u8; WRITE] = [0; WRITE];

pub(super) fn start(ends: &Ends<'_>, spec: &TcpSpec) -> Result<Threads, TrafficError> {
    let (server_addr, client_addr) = (ends.spec.server, ends.spec.client);
    let controller = spec.registered.as_ref().unwrap_or(&spec.controller).as_str();
    let listener = ends.open(
        ends.server,
        || format!("listen on {server_addr}"),
        || {
            let listener = socket::bound(server_addr, libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
            // SAFETY: listen takes no pointers.
            check(unsafe { libc::listen(listener.as_raw_fd(), 8) })?;
            Ok(listener)
        },
    )?;
    let client = ends.open(
        ends.client,
        || format!("bind to {client_addr}"),
        || {
            let client = socket::bound(client_addr, libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
            socket::set(&client, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
            Ok(client)
        },
    )?;
    // Before the handshake, which settles the window's scale. Accepted connections inherit it.
    if let Some(window) = spec.receive_window {
        let bytes = libc::c_int::try_from(window.0).unwrap_or(libc::c_int::MAX / 2);
        for end in [&listener, &client] {
            socket::set(end, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes).map_err(|source| {
                let what = format!("set a receive window of {window}");
                TrafficError::Socket { flow: ends.spec.name.clone(), what, source }
            })?;
        }
    }
    // Accepted connections inherit the listener's controller.
    for end in [&listener, &client] {
        socket::set_bytes(end, libc::IPPROTO_TCP, libc::TCP_CONGESTION, controller.as_bytes()).map_err(
            |source| {
                let flow = ends.spec.name.clone();
                match source.raw_os_error() {
                    Some(libc::ENOENT) => {
                        TrafficError::Controller { flow, source: UnknownController::absent(controller) }
                    }
                    _ => TrafficError::Socket {
                        flow,
                        what: format!("use congestion control '{controller}'"),
                        source,
                    },
                }
            },
        )?;
    }
    let (control, ecn) = (ends.control.clone(), ends.spec.ecn);
    let serve = move || {
        let mut report = ServerReport::default();
        let mut sampler = Sampler::new();
        let result = serve(&listener, &control, ecn, &mut sampler, &mut report.ecn);
        report.error = error_unless_stopped(result, &control);
        report.samples = sampler.finish();
        report
    };
    let download = Download {
        control: ends.control.clone(),
        server: server_addr,
        start: Time::ZERO + ends.spec.start,
        amount: ends.spec.amount,
        two_way: spec.two_way,
        received: Arc::clone(ends.received),
    };
    let fetch = move || {
        let mut report = ClientReport::default();
        let result = download.run(&client, &mut report);
        report.error = error_unless_stopped(result, &download.control);
        if report.error.is_some() || download.control.is_stopped() {
            socket::reset_on_close(&client);
        }
        report
    };
    ends.spawn(serve, fetch)
}

/// Why an end failed. Not if the run was stopped: the first end to notice resets the connection under the other.
fn error_unless_stopped(result: io::Result<()>, control: &Control) -> Option<String> {
    result.err().filter(|_| !control.is_stopped()).map(|error| error.to_string())
}

/// The flow was told to stop, which is an error to no one.
fn stopped() -> io::Result<()> {
    Ok(())
}

/// Accepts one connection, reads the request, and pushes that many bytes.
fn serve(
    listener: &OwnedFd,
    control: &Control,
    expect_ecn: bool,
    sampler: &mut Sampler,
    ecn: &mut Option<bool>,
) -> io::Result<()> {
    let socket = loop {
        if control.is_stopped() {
            return stopped();
        }
        if socket::poll(listener, libc::POLLIN, POLL.to_std())? == 0 {
            continue;
        }
        // SAFETY: the peer's address is not asked for.
        let fd = check(unsafe {
            libc::accept4(
                listener.as_raw_fd(),
                ptr::null_mut(),
                ptr::null_mut(),
                libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
            )
        })?;
        // SAFETY: the descriptor is new and owned by nobody else.
        break unsafe { OwnedFd::from_raw_fd(fd) };
    };
    let uses_ecn = tcp_info(&socket)?.options & TCPI_OPT_ECN != 0;
    *ecn = Some(uses_ecn);
    if uses_ecn != expect_ecn {
        socket::reset_on_close(&socket);
        let (is, other) =
            if uses_ecn { ("uses", "server_addr") } else { ("does not use", "server_ecn_addr") };
        return Err(io::Error::other(format!("the connection {is} ECN; give the flow a {other}")));
    }
    let result = push(&socket, control, sampler);
    if result.is_err() || control.is_stopped() {
        socket::reset_on_close(&socket);
    }
    result
}

fn push(socket: &OwnedFd, control: &Control, sampler: &mut Sampler) -> io::Result<()> {
    let mut request = [0u8; 8];
    let mut asked = 0;
    let (mut left, mut without_end, mut closed) = (0u64, false, false);
    while !control.is_stopped() {
        let now = control.now();
        let wait = sampler.wait(now);
        if asked == request.len() && wait == Duration::ZERO {
            sampler.push(sample(socket, now)?);
        }
        let sending = if left > 0 { libc::POLLOUT } else { 0 };
        let ready = socket::poll(
            socket,
            libc::POLLIN | sending,
            wait.max(Duration::from_millis(1)).min(POLL).to_std(),
        )?;
        if ready & (libc::POLLIN | libc::POLLHUP | libc::POLLERR) != 0 {
            let read = if asked < request.len() {
                receive(socket, request[asked..].as_mut_ptr(), request.len() - asked, 0)
            } else {
                receive(socket, ptr::null_mut(), DISCARD, libc::MSG_TRUNC)
            };
            match read {
                Ok(Some(0)) => {
                    // The client has enough. With bytes left it had a time to fill, and what is queued is of no use.
                    if left > 0 {
                        socket::reset_on_close(socket);
                    }
                    return match (asked == request.len(), left > 0 && !without_end) {
                        (false, _) => Err(io::Error::other("the client closed before it asked for anything")),
                        (true, true) => {
                            Err(io::Error::other(format!("the client closed with {left} bytes left")))
                        }
                        (true, false) => Ok(()),
                    };
                }
                Ok(Some(count)) if asked < request.len() => {
                    asked += count;
                    if asked == request.len() {
                        left = u64::from_be_bytes(request);
                        without_end = left == WITHOUT_END;
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset && without_end => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if ready & libc::POLLOUT != 0 {
            let count = usize::try_from(left).unwrap_or(WRITE).min(WRITE);
            left -= send(socket, &ZEROS[..count])? as u64;
        }
        if asked == request.len() && left == 0 && !closed {
            closed = true;
            // SAFETY: shutdown takes no pointers.
            check(unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) })?;
        }
    }
    stopped()
}

/// The client's side of a flow.
struct Download {
    control: Control,
    server: SocketAddr,
    start: Time,
    amount: Amount,
    two_way: bool,
    received: Arc<AtomicU64>,
}

impl Download {
    fn run(&self, socket: &OwnedFd, report: &mut ClientReport) -> io::Result<()> {
        let control = &self.control;
        if !control.sleep_until(self.start) {
            return stopped();
        }
        let begun = control.now();
        socket::connect(socket, self.server)?;
        loop {
            if control.is_stopped() {
                return stopped();
            }
            if socket::poll(socket, libc::POLLOUT, POLL.to_std())? != 0 {
                break;
            }
        }
        socket::pending_error(socket)?;
        let started = control.now();
        report.handshake = Some(started.since(begun));
        report.started = Some(started);
        let (wanted, end) = match self.amount {
            Amount::Bytes(bytes) => (bytes.0, Time::MAX),
            Amount::Time(duration) => (WITHOUT_END, started + duration),
        };
        // Eight bytes always fit into the empty buffer of a new connection.
        send(socket, &wanted.to_be_bytes())?;
        let result = self.read(socket, wanted, end, report);
        report.finished.get_or_insert(control.now());
        if report.complete && matches!(self.amount, Amount::Bytes(_)) {
            report.fct = report.finished.map(|finished| finished.since(started));
        }
        result
    }

    /// Reads what was asked for; in a two-way flow, also writes half of it back.
    fn read(&self, socket: &OwnedFd, wanted: u64, end: Time, report: &mut ClientReport) -> io::Result<()> {
        let chunk = if self.two_way { TWO_WAY_READ } else { DISCARD };
        let mut owed = 0;
        loop {
            let now = self.control.now();
            if self.control.is_stopped() {
                return stopped();
            }
            if report.bytes >= wanted && report.finished.is_none() {
                report.complete = true;
                report.finished = Some(now);
            }
            if now >= end {
                report.complete = true;
                report.finished = Some(now);
                return self.say_goodbye(socket);
            }
            if report.complete && owed == 0 {
                return Ok(());
            }
            // What is owed goes first, as with the prototype's blocking write: the client does not read meanwhile.
            let event = if owed > 0 { libc::POLLOUT } else { libc::POLLIN };
            let ready = socket::poll(socket, event, end.since(now).min(POLL).to_std())?;
            if ready == 0 {
                continue;
            }
            if owed > 0 {
                match send(socket, &ZEROS[..owed]) {
                    Ok(count) => owed -= count,
                    // The server may go once all its bytes are acknowledged, whatever is still owed to it.
                    Err(_) if report.complete => return Ok(()),
                    Err(error) => return Err(error),
                }
                continue;
            }
            match receive(socket, ptr::null_mut(), chunk, libc::MSG_TRUNC)? {
                Some(0) => {
                    let bytes = report.bytes;
                    return Err(io::Error::other(format!(
                        "the server closed after {bytes} of {wanted} bytes"
                    )));
                }
                Some(count) => {
                    report.bytes += count as u64;
                    self.received.fetch_add(count as u64, Ordering::Relaxed);
                    if self.two_way {
                        owed += count / 2;
                    }
                }
                None => {}
            }
        }
    }

    /// Closes our half and discards what is still under way, so that no packet meets a closed port and calls forth
    /// resets.
    fn say_goodbye(&self, socket: &OwnedFd) -> io::Result<()> {
        // SAFETY: shutdown takes no pointers.
        check(unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) })?;
        let until = self.control.now() + GOODBYE;
        while self.control.now() < until && !self.control.is_stopped() {
            if socket::poll(socket, libc::POLLIN, POLL.to_std())? != 0
                && !matches!(receive(socket, ptr::null_mut(), DISCARD, libc::MSG_TRUNC), Ok(Some(1..) | None))
            {
                break;
            }
        }
        Ok(())
    }
}

/// Sends what the socket takes now, perhaps nothing.
fn send(socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: pointer and length describe `bytes`.
    let sent = check_size(unsafe {
        libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL)
    });
    match sent {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        result => result,
    }
}

/// Receives what is there now: `None` if nothing, zero at the end. With `MSG_TRUNC` the kernel writes nothing.
fn receive(socket: &OwnedFd, buffer: *mut u8, len: usize, flags: libc::c_int) -> io::Result<Option<usize>> {
    // SAFETY: callers pass a buffer of `len` bytes, or MSG_TRUNC, with which TCP leaves the buffer alone (tcp(7)).
    match check_size(unsafe { libc::recv(socket.as_raw_fd(), buffer.cast(), len, flags) }) {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// The connection negotiated ECN (include/uapi/linux/tcp.h).
const TCPI_OPT_ECN: u8 = 8;

/// The kernel's `struct tcp_info` as far as it is used here (include/uapi/linux/tcp.h); libc's lacks the later fields.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct TcpInfo {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    window_scales: u8,
    flags: u8,
    rto_us: u32,
    ato_us: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt_us: u32,
    rttvar_us: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
    delivered: u32,
    delivered_ce: u32,
}

fn tcp_info(socket: &OwnedFd) -> io::Result<TcpInfo> {
    let mut info = TcpInfo::default();
    // SAFETY: TcpInfo is integers only.
    unsafe { socket::get(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)? };
    Ok(info)
}

fn sample(socket: &OwnedFd, time: Time) -> io::Result<RttSample> {
    let info = tcp_info(socket)?;
    Ok(RttSample {
        time,
        rtt_us: info.rtt_us.into(),
        cwnd_bytes: u64::from(info.snd_cwnd) * u64::from(info.snd_mss),
        delivered_bytes: info.bytes_acked,
        lost_packets: info.total_retrans.into(),
        congestion_events: info.delivered_ce.into(),
    })
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::TcpInfo;

    #[test]
    fn tcp_info_is_laid_out_as_the_kernel_has_it() {
        // Counted by hand in include/uapi/linux/tcp.h; the fields are part of the ABI.
        assert_eq!(
            [
                offset_of!(TcpInfo, rtt_us),
                offset_of!(TcpInfo, total_retrans),
                offset_of!(TcpInfo, bytes_acked)
            ],
            [68, 100, 120]
        );
        assert_eq!([offset_of!(TcpInfo, delivery_rate), offset_of!(TcpInfo, delivered_ce)], [160, 196]);
    }
}
