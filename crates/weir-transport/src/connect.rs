//! How both ends begin.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use noq_proto::congestion::NewRenoConfig;
use noq_proto::{AckFrequencyConfig, ClientConfig, EndpointConfig, IdleTimeout, TransportConfig, VarInt};
use ring::rand::{SecureRandom, SystemRandom};
use weir_cc::Setup;
use weir_core::{Duration as Span, Seed};
use weir_fq::{Connection, Shared};

use crate::Error;
use crate::bridge::INITIAL;
use crate::clock::{Clock, now};
use crate::departures::{Departed, Departures, Timing};
use crate::endpoint::{Accept, Endpoint, Server};
use crate::gates::Gates;
use crate::identity::{Expected, Identity, Trust};
use crate::link::Role;
use crate::load::Looks;
use crate::marks::Marks;
use crate::overheard::Overheard;
use crate::pipe::Waker;
use crate::qlog::Qlog;
use crate::run::{Door, Running};
use crate::sends::{Late, Sends};
use crate::socket::Socket;
use crate::streams::{BLOCK, BLOCKS, Conversation};

/// The UDP payload of a full packet: what most tunnels let through.
pub const DATAGRAM: u16 = 1350;
/// Twice what a link of 1 Gbit/s takes for a packet.
pub const SPACING: Span = Span::from_micros(25);
/// Paths that a connection may have: two, and those that are opened in place of one that failed.
const PATHS: u32 = 4;
/// Bytes that one sender may have under way or unread; of all senders together 32 times that.
const WINDOW: u32 = 16 << 20;
/// A quiet connection is over after this; the other end is asked for a sign of life long before.
const IDLE: Duration = Duration::from_secs(15);
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Bytes of reports that wait to be sent, or to be read.
const REPORTS: usize = 64 << 10;
/// Reports are small and at most a thousand a second; losses must not hold them up.
const REPORT_WINDOW: u64 = 256 << 10;
/// The name that is asked for where the certificate's fingerprint is what counts.
const ANY_NAME: &str = "weir.invalid";

/// A receiver, and how a sender reaches it.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Where it listens.
    pub address: SocketAddr,
    /// How the sender knows it.
    pub trust: Trust,
    /// The name that its certificate must have, where an authority vouches for it.
    pub name: Option<String>,
    /// The UDP payload of a full packet, 1200 to 1452 bytes.
    pub datagram: u16,
    /// The packets of a detector's trains go at least so far apart. Twice what the host's own link takes for a packet
    /// keeps them out of the host's own queue, which may be fair itself (Linux's `fq_codel` is).
    pub spacing: Span,
    /// Who lets the packets of a detector go at their times.
    pub departures: Departures,
    /// Where it is written what detections do.
    pub qlog: Option<Qlog>,
}

impl Peer {
    /// One that is known by its certificate's fingerprint, with packets and trains for most hosts.
    pub const fn new(address: SocketAddr, trust: Trust) -> Self {
        let departures = Departures::Auto;
        Self { address, trust, name: None, datagram: DATAGRAM, spacing: SPACING, departures, qlog: None }
    }

    /// With what detectors and controllers for it begin. Their draws differ from call to call.
    pub fn setup(&self) -> Setup {
        let mut seed = [0; 8];
        // Without the system's randomness, any will do here.
        let _ = SystemRandom::new().fill(&mut seed);
        let random = Seed { seed: u64::from_ne_bytes(seed), run: 0 }.stream("sender");
        Setup { mss: u32::from(self.datagram), initial_window: INITIAL, random, rate: None }
    }
}

/// How late the packets left that a detector had asked for at a time, one of two, one of a hundred, and all together:
/// by the time just before the call that sends. What the kernel lets go is not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lateness {
    /// Of half of them at most.
    pub half: Span,
    /// Of 99 in 100 at most.
    pub most: Span,
    /// Of all.
    pub worst: Span,
}

impl Sending {
    /// Who has let packets go at their times so far.
    pub(crate) fn departed(&self) -> Departed {
        self.timing.told()
    }

    /// How late packets have left so far; none before the first.
    pub(crate) fn lateness(&self) -> Option<Lateness> {
        let late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |nanos: Option<u64>| nanos.map(Span::from_nanos);
        Some(Lateness {
            half: at(late.quantile(0.5))?,
            most: at(late.quantile(0.99))?,
            worst: at(late.max())?,
        })
    }
}

/// A sender's connection.
pub(crate) struct Sending {
    pub(crate) conversation: Conversation,
    pub(crate) shared: Shared,
    pub(crate) late: Late,
    pub(crate) timing: Arc<Timing>,
    pub(crate) running: Running,
    /// The sender's ports: of the heavy sub-flow, and of the light one.
    pub(crate) ports: [u16; 2],
    /// What is known of both paths.
    pub(crate) looks: Looks,
}

/// Connects, and waits until the connection is up, or `stop` says that nobody waits for it.
pub(crate) fn connect(
    peer: &Peer,
    connection: Connection,
    stop: &dyn Fn() -> bool,
) -> Result<Sending, Error> {
    let any = match peer.address {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let (sending, expected) = begin(peer, [SocketAddr::new(any, 0); 2], connection)?;
    match sending.conversation.wait_connected(stop) {
        Ok(()) => Ok(sending),
        Err(error) => Err(expected.mismatch().unwrap_or(error)),
    }
}

/// Begins to connect, the heavy sub-flow from the first address and the light one from the second.
pub(crate) fn begin(
    peer: &Peer,
    from: [SocketAddr; 2],
    connection: Connection,
) -> Result<(Sending, Expected), Error> {
    let remote = peer.address;
    let local = |error: std::io::Error| Error::Local(format!("cannot open a socket to {remote}: {error}"));
    let expected = Expected::new(&peer.trust)?;
    let waker = Waker::new().map_err(local)?;
    let label = Endpoint::label(remote);
    let timing = Arc::new(Timing::find(peer.departures, remote.ip())?);
    let bind = |from, label| {
        let socket = Socket::bind(from, Some(remote))?.timed(&timing)?;
        let port = socket.local_addr()?.port();
        Ok((Door { socket, label }, port))
    };
    let (first, heavy) = bind(from[0], None).map_err(local)?;
    let (second, light) = bind(from[1], Some(label)).map_err(local)?;

    let Connecting { endpoint, conversation, shared, late, looks } =
        sender(peer, connection, &expected, waker.clone(), &timing, now())?;
    let running = Running::start(endpoint, vec![first, second], waker, true)?;
    Ok((Sending { conversation, shared, late, timing, running, ports: [heavy, light], looks }, expected))
}

/// A sender's endpoint, and what is known of its connection.
pub(crate) struct Connecting {
    pub(crate) endpoint: Endpoint,
    pub(crate) conversation: Conversation,
    pub(crate) shared: Shared,
    pub(crate) late: Late,
    pub(crate) looks: Looks,
}

/// A sender's endpoint that connects.
pub(crate) fn sender(
    peer: &Peer,
    connection: Connection,
    expected: &Expected,
    waker: Waker,
    timing: &Arc<Timing>,
    now: Instant,
) -> Result<Connecting, Error> {
    let (remote, clock) = (peer.address, Clock::new(now));
    let label = Endpoint::label(remote);
    let shared = Shared::new(connection);
    let (begun, marks) = (Arc::new(AtomicBool::new(false)), Marks::default());
    let gates = Arc::new(Gates::new(&shared, &begun, &marks, clock));
    let crypto = Overheard { inner: Arc::clone(&expected.crypto), ear: Arc::new(marks) };
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(sender_transport(peer.datagram, Arc::clone(&gates))));
    let (late, looks) = (Late::default(), Looks::default());
    let log = peer.qlog.as_ref().map(|qlog| qlog.begin(clock));
    let sends = Sends::new(shared.clone(), gates, begun, clock, peer.spacing, label, looks.clone());
    let sends = sends.watched(log, Arc::clone(&late)).timed(timing);
    let role = Role::Sends(Box::new(sends));
    let mut endpoint = Endpoint::new(EndpointConfig::default(), None, waker, clock);
    let name = peer.name.as_deref().unwrap_or(ANY_NAME);
    let conversation = endpoint.connect(now, config, remote, name, role)?;
    Ok(Connecting { endpoint, conversation, shared, late, looks })
}

/// A receiver's endpoint, which hands over each connection as it begins.
pub(crate) fn receiver(
    identity: &Identity,
    datagram: u16,
    accept: Accept,
    waker: Waker,
    now: Instant,
) -> Result<Endpoint, Error> {
    let server = Server::new(identity.server()?, receiver_transport(datagram), accept);
    Ok(Endpoint::new(identity.endpoint(), Some(server), waker, Clock::new(now)))
}

/// Listens, and hands over each connection as it begins.
pub(crate) fn listen(
    local: SocketAddr,
    identity: &Identity,
    datagram: u16,
    accept: Accept,
) -> Result<(Running, SocketAddr), Error> {
    let failed = |error: std::io::Error| Error::Local(format!("cannot listen at {local}: {error}"));
    let waker = Waker::new().map_err(failed)?;
    let socket = Socket::bind(local, None).map_err(failed)?;
    let bound = socket.local_addr().map_err(failed)?;
    let endpoint = receiver(identity, datagram, accept, waker.clone(), now())?;
    let running = Running::start(endpoint, vec![Door { socket, label: None }], waker, false)?;
    Ok((running, bound))
}

/// What both ends have in common.
fn transport(datagram: u16) -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .max_concurrent_multipath_paths(PATHS)
        .max_idle_timeout(IdleTimeout::try_from(IDLE).ok())
        // Datagrams are of one size: a smaller one would look like another packet to the bottleneck.
        .initial_mtu(datagram)
        .min_mtu(datagram)
        .mtu_discovery_config(None)
        .enable_segmentation_offload(false)
        // So that a bottleneck with CRQ can judge it (RFC 9000 section 17.4).
        .allow_spin(true)
        .datagram_receive_buffer_size(Some(REPORTS))
        .datagram_send_buffer_size(REPORTS);
    config
}

fn sender_transport(datagram: u16, gates: Arc<Gates>) -> TransportConfig {
    let mut config = transport(datagram);
    // As RFC 9000 section 13.2.2 has it. Arrivals are reported apart, so a lone packet's acknowledgement may wait: the
    // probe timer reckons with that, and a shorter one would send probes whenever the receiver is busy.
    let mut acks = AckFrequencyConfig::default();
    acks.ack_eliciting_threshold(VarInt::from_u32(1)).max_ack_delay(Some(Duration::from_millis(5)));
    config
        .congestion_controller_factory(gates)
        .ack_frequency_config(Some(acks))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .default_path_keep_alive_interval(Some(KEEP_ALIVE))
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .send_window(u64::from(WINDOW));
    config
}

fn receiver_transport(datagram: u16) -> TransportConfig {
    let mut config = transport(datagram);
    let mut reno = NewRenoConfig::default();
    reno.initial_window(REPORT_WINDOW);
    // Reports are many and small; to acknowledge each would cost more than they do.
    let mut acks = AckFrequencyConfig::default();
    acks.ack_eliciting_threshold(VarInt::from_u32(20)).max_ack_delay(Some(Duration::from_millis(20)));
    config
        .congestion_controller_factory(Arc::new(reno))
        .ack_frequency_config(Some(acks))
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(BLOCKS))
        .stream_receive_window(VarInt::from_u32(BLOCK as u32))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(u64::from(WINDOW));
    config
}
