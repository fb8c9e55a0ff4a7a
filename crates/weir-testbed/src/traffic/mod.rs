//! Traffic that the command makes itself: kernel TCP, QUIC and constant-rate UDP between two namespaces.
//!
//! Every flow sends from the server to the client, as in the papers: the client asks for an amount, the server pushes
//! it. A flow is two threads, one in each [`Namespace`], that end within a second of [`Control::stop`]. No other
//! program is needed (the CRQ prototype drives iperf3 and its own tools by ssh), so a flow's numbers come from its
//! own sockets: the flow completion time from the client's clock, round-trip times and the congestion window from the
//! sender's transport every 10 ms. Both ends run on one machine and share CLOCK_MONOTONIC, so one-way delays are
//! exact.

mod controllers;
mod quic;
mod report;
mod samples;
mod socket;
mod tcp;
mod twins;
mod udp;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weir_core::{Bytes, Duration, Rate, Seed, Time};

use crate::host::{HostError, Namespace};
use report::{ClientReport, ServerReport};

pub use controllers::{
    CONTROLLERS, DCTCP, Named, UnknownController, catalogue_name, find_controller, kernel_gives_controller,
    kernel_has_controller, quic_controllers,
};
pub use quic::MAX_DATAGRAM;
pub use report::{FlowResult, SpinCount, UdpResult};
pub use samples::{MAX_SAMPLES, RttSample};
pub use twins::{Detection, TwinsSpec};
pub use udp::{MAX_PAYLOAD, MIN_PAYLOAD};

/// What carries a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stack {
    /// The kernel's TCP.
    Tcp,
    /// QUIC version 1 in user space (noq).
    Quic,
    /// Datagrams at a constant rate, without feedback.
    Udp,
}

/// When a flow has sent enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Amount {
    /// After this much payload.
    Bytes(Bytes),
    /// This long after its first byte could be sent. The client then closes, and bytes under way are not counted.
    Time(Duration),
}

/// One flow from the server to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// Appears in results, messages and thread names.
    pub name: String,
    /// The sender's address and port. TCP uses ECN or not by this address, see
    /// [`crate::host::Topology::server_ecn_addr`].
    pub server: SocketAddr,
    /// The receiver's address and port; port 0 lets the kernel choose, except for UDP.
    pub client: SocketAddr,
    /// When the client sets out, counted from [`Control`]'s epoch.
    pub start: Duration,
    /// When it has sent enough.
    pub amount: Amount,
    /// Whether data packets are to carry ECT(0). For TCP this only states what is expected: an established connection
    /// without ECN (or with it, if false) makes the flow end with an error instead of measuring something else.
    pub ecn: bool,
    /// What carries it, and how.
    pub traffic: Traffic,
}

/// What carries a flow, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Kernel TCP.
    Tcp(TcpSpec),
    /// QUIC.
    Quic(QuicSpec),
    /// QUIC over two 4-tuples, which looks for fair queuing.
    Twins(TwinsSpec),
    /// Constant-rate UDP.
    Udp(UdpSpec),
}

/// How a TCP flow behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpSpec {
    /// A controller that the kernel has, see [`CONTROLLERS`]; what results call it.
    pub controller: String,
    /// What the kernel calls it, if not the same.
    pub registered: Option<String>,
    /// Whether the client sends back half of what it reads, after each read, as in the CRQ prototype: the two-way
    /// pattern, in which data and acknowledgements share packets.
    pub two_way: bool,
    /// What the receiver's window lets be in flight at most, at both ends (`SO_RCVBUF`, of which the kernel allots twice
    /// as much and offers about half); if none, as much as the kernel gives.
    pub receive_window: Option<Bytes>,
}

/// How a QUIC flow behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuicSpec {
    /// noq's `cubic`, `newreno` or `bbr3`, see [`CONTROLLERS`], or one of weir-cc's, see [`find_controller`].
    pub controller: String,
    /// Where the controllers of weir-cc that make draws get them from, by the flow's name.
    pub seed: Seed,
    /// Whether both ends spin (RFC 9000 section 17.4). If not, both send random spin bits, as that section advises.
    pub spin: bool,
    /// Whether the sender hands the kernel several datagrams at once (UDP GSO), which costs less CPU. The interface
    /// then segments them before they reach the wire, unless its `tx-udp-segmentation` is on: a packet seen by a
    /// queue may then be many.
    pub gso: bool,
    /// UDP payload of full packets in bytes, 1200 to [`MAX_DATAGRAM`]; fixed for the whole flow, MTU discovery is off.
    pub datagram: u16,
    /// Flow-control windows and the sender's buffer: at least the bandwidth-delay product with the queue in it.
    pub window: Bytes,
}

impl QuicSpec {
    /// A spinning flow with GSO, 1452-byte datagrams and 64 MiB windows.
    pub fn new(controller: &str) -> Self {
        Self {
            controller: controller.to_owned(),
            seed: Seed::default(),
            spin: true,
            gso: true,
            datagram: MAX_DATAGRAM,
            window: Bytes(64 << 20),
        }
    }
}

/// How a UDP flow behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpSpec {
    /// Rate on the wire: IP packets plus 14 bytes of Ethernet header each, so that 500mbit loads a link with 500mbit.
    pub rate: Rate,
    /// Payload of each datagram in bytes, [`MIN_PAYLOAD`] to [`MAX_PAYLOAD`]; 1472 makes 1514 bytes on the wire over
    /// IPv4.
    pub payload: u16,
    /// Whether the first payload byte has QUIC's fixed bit (0x40) set, so that a classifier may take the flow for QUIC
    /// (as happens with iperf3, whose payload begins with a time stamp). Its spin bit (0x20) is always clear.
    pub fixed_bit: bool,
    /// The datagrams of each interval of this length, above 0, go together when it begins; if none, each goes at its
    /// time.
    pub bursts: Option<Duration>,
    /// Datagrams that are sent together go as one super-packet (`UDP_SEGMENT`, Linux 4.18), which the host's interface
    /// cuts up if it must.
    pub super_packets: bool,
}

impl UdpSpec {
    /// A flow of full-sized datagrams that no classifier takes for QUIC.
    pub fn new(rate: Rate) -> Self {
        Self { rate, payload: 1472, fixed_bit: false, bursts: None, super_packets: false }
    }
}

/// The clock and the stop switch that the flows of one run share.
#[derive(Clone, Debug)]
pub struct Control {
    /// Time zero; not set while the run is being prepared.
    epoch: Arc<OnceLock<Instant>>,
    stop: Arc<AtomicBool>,
}

impl Default for Control {
    fn default() -> Self {
        Self::new(clock())
    }
}

impl Control {
    /// A switch that is off, and a clock that reads zero at `epoch`.
    pub fn new(epoch: Instant) -> Self {
        let control = Self::held();
        control.begin_at(epoch);
        control
    }

    /// A switch that is off, and a clock that stands still: no flow sets out before [`Control::begin_at`]. Preparing
    /// many flows on a busy machine takes seconds, which must not be missing from the first ones' time.
    pub fn held() -> Self {
        Self { epoch: Arc::default(), stop: Arc::default() }
    }

    /// Starts a clock that stands still: it reads zero at `epoch`. One that runs stays as it is.
    pub fn begin_at(&self, epoch: Instant) {
        // The only error is that the clock runs already.
        let _ = self.epoch.set(epoch);
    }

    /// Time since the epoch; zero before it.
    pub fn now(&self) -> Time {
        self.at(clock())
    }

    /// What the clock reads at an instant; zero before its epoch.
    fn at(&self, instant: Instant) -> Time {
        let Some(epoch) = self.epoch.get() else { return Time::ZERO };
        let nanos = instant.saturating_duration_since(*epoch).as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Ends all flows under this switch within a second.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the flows are to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sleeps until `at`; false if it was stopped before.
    fn sleep_until(&self, at: Time) -> bool {
        while !self.is_stopped() {
            // Before the epoch, its own distance counts too; before it is set, there is nothing but to look again.
            let lead = self.epoch.get().map(|epoch| Duration::from(epoch.saturating_duration_since(clock())));
            let left = lead.map_or(HELD_POLL, |lead| lead + at.since(self.now()));
            if left == Duration::ZERO {
                return true;
            }
            sleep(left.min(POLL));
        }
        false
    }
}

#[allow(clippy::disallowed_methods, reason = "traffic runs on the real clock, and reads it here only")]
fn clock() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "flows set out at a time on the real clock")]
fn sleep(duration: Duration) {
    thread::sleep(duration.to_std());
}

/// How often a waiting thread looks whether the clock has started; a run begins at least so long after all is prepared.
pub const HELD_POLL: Duration = Duration::from_millis(5);
/// How often a waiting thread looks at the stop switch.
const POLL: Duration = Duration::from_millis(50);

/// A flow that could not be started.
#[derive(Debug, Error)]
pub enum TrafficError {
    /// The controller does not exist.
    #[error("flow '{flow}': {source}")]
    Controller {
        /// The flow's name.
        flow: String,
        /// Which, and what exists.
        source: UnknownController,
    },
    /// A value is out of range.
    #[error("flow '{flow}': {message}")]
    Spec {
        /// The flow's name.
        flow: String,
        /// What is wrong and what would be right.
        message: String,
    },
    /// A socket could not be set up.
    #[error("flow '{flow}': cannot {what}: {source}")]
    Socket {
        /// The flow's name.
        flow: String,
        /// What was tried.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A thread could not enter its namespace.
    #[error("flow '{flow}': {source}")]
    Host {
        /// The flow's name.
        flow: String,
        /// What failed.
        source: HostError,
    },
}

/// A flow under way.
#[derive(Debug)]
pub struct Transfer {
    name: String,
    stack: Stack,
    controller: Option<String>,
    received: Arc<AtomicU64>,
    server: JoinHandle<ServerReport>,
    client: JoinHandle<ClientReport>,
}

impl Transfer {
    /// Opens the sockets of both ends, so that the server listens when this returns, and starts both threads. The
    /// client sets out at [`FlowSpec::start`].
    ///
    /// # Errors
    /// [`TrafficError`] if the specification makes no sense, an address is taken, or the kernel lacks the controller.
    pub fn launch(
        spec: &FlowSpec,
        server: &Namespace,
        client: &Namespace,
        control: &Control,
    ) -> Result<Self, TrafficError> {
        if spec.server.is_ipv6() != spec.client.is_ipv6() {
            let message = format!("server {} and client {} differ in IP version", spec.server, spec.client);
            return Err(TrafficError::Spec { flow: spec.name.clone(), message });
        }
        let received = Arc::new(AtomicU64::new(0));
        let ends = Ends { spec, server, client, control, received: &received };
        let (stack, controller, (server, client)) = match &spec.traffic {
            Traffic::Tcp(tcp) => (Stack::Tcp, Some(tcp.controller.clone()), tcp::start(&ends, tcp)?),
            Traffic::Quic(quic) => {
                let controller = find_controller(Stack::Quic, &quic.controller)
                    .map_err(|source| TrafficError::Controller { flow: spec.name.clone(), source })?;
                (Stack::Quic, Some(controller.to_string()), quic::start(&ends, quic, controller)?)
            }
            Traffic::Twins(twins) => {
                (Stack::Quic, Some(twins.names.shared.clone()), twins::start(&ends, twins)?)
            }
            Traffic::Udp(udp) => (Stack::Udp, None, udp::start(&ends, udp)?),
        };
        Ok(Self { name: spec.name.clone(), stack, controller, received, server, client })
    }

    /// The flow's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Payload bytes that the client has received so far; may be read at any time, for rates.
    pub fn received(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.received)
    }

    /// Whether both ends are done, so that [`Transfer::join`] returns at once.
    pub fn is_finished(&self) -> bool {
        self.server.is_finished() && self.client.is_finished()
    }

    /// Waits for both ends and says what they measured. Within a second of [`Control::stop`] at the latest.
    pub fn join(self) -> FlowResult {
        let ended = |end: &str| format!("the {end} thread panicked");
        let server = self.server.join().unwrap_or_else(|_| ServerReport::failed(ended("server")));
        let client = self.client.join().unwrap_or_else(|_| ClientReport::failed(ended("client")));
        FlowResult::new(self.name, self.stack, self.controller, server, client)
    }
}

/// The two threads of a flow.
type Threads = (JoinHandle<ServerReport>, JoinHandle<ClientReport>);

/// What a stack needs to start a flow's two ends.
struct Ends<'a> {
    spec: &'a FlowSpec,
    server: &'a Namespace,
    client: &'a Namespace,
    control: &'a Control,
    received: &'a Arc<AtomicU64>,
}

impl Ends<'_> {
    /// Opens one end's socket inside its namespace.
    fn open<T: Send>(
        &self,
        namespace: &Namespace,
        what: impl FnOnce() -> String,
        open: impl FnOnce() -> io::Result<T> + Send,
    ) -> Result<T, TrafficError> {
        namespace
            .enter(open)
            .map_err(|source| self.host_error(source))?
            .map_err(|source| TrafficError::Socket { flow: self.spec.name.clone(), what: what(), source })
    }

    /// Starts both threads. If the second cannot start, the first is told to stop by dropping what it waits for.
    fn spawn(
        &self,
        server: impl FnOnce() -> ServerReport + Send + 'static,
        client: impl FnOnce() -> ClientReport + Send + 'static,
    ) -> Result<Threads, TrafficError> {
        let name = &self.spec.name;
        let client =
            self.client.spawn(&format!("{name} cli"), client).map_err(|source| self.host_error(source))?;
        let server =
            self.server.spawn(&format!("{name} srv"), server).map_err(|source| self.host_error(source))?;
        Ok((server, client))
    }

    fn spec_error(&self, message: String) -> TrafficError {
        TrafficError::Spec { flow: self.spec.name.clone(), message }
    }

    fn host_error(&self, source: HostError) -> TrafficError {
        TrafficError::Host { flow: self.spec.name.clone(), source }
    }
}
