//! The two ends of a QUIC flow.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration as StdDuration;

use noq::congestion::ControllerFactory;
use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use noq::rustls::{self, RootCertStore};
use noq::udp::EcnCodepoint;
use noq::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, PathId, Runtime, ServerConfig,
    TokioRuntime, TransportConfig, VarInt,
};
use weir_core::{Duration, Time};
use weir_transport::{Marks, Overheard};

use super::{IDLE_TIMEOUT, KEEP_ALIVE, Outgoing, QuicSpec, SPINNING_SEED, Wire, window};
use crate::traffic::report::{ClientReport, ServerReport};
use crate::traffic::samples::{RttSample, Sampler};
use crate::traffic::{Amount, Control};

/// The name in the certificate; nothing resolves it.
pub(super) const NAME: &str = "weir.invalid";
const ALPN: &[u8] = b"weir";
/// A request for as much as fits into the time.
const WITHOUT_END: u64 = u64::MAX;
/// How often an end looks at the stop switch.
const TICK: StdDuration = StdDuration::from_millis(10);
/// How long an end stays to answer retransmissions after its flow is over.
const GOODBYE: StdDuration = StdDuration::from_secs(2);

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// How an end's transport behaves, with controllers from `factory`.
pub(super) fn transport(
    spec: &QuicSpec,
    factory: Arc<dyn ControllerFactory + Send + Sync>,
) -> Result<TransportConfig, String> {
    let window = window(spec.window);
    let receive = VarInt::from_u64(window).map_err(|error| error.to_string())?;
    let mut config = TransportConfig::default();
    config
        .congestion_controller_factory(factory)
        .stream_receive_window(receive)
        .receive_window(receive)
        .send_window(window)
        .max_idle_timeout(Some(IDLE_TIMEOUT.try_into().map_err(|error| format!("{error}"))?))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .initial_mtu(spec.datagram)
        .min_mtu(spec.datagram)
        .mtu_discovery_config(None)
        .allow_spin(spec.spin)
        .enable_segmentation_offload(spec.gso);
    Ok(config)
}

/// A key pair made for one flow; the client accepts this certificate and no other.
pub(super) struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Identity {
    pub(super) fn new() -> Result<Self, String> {
        let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])
            .map_err(|error| format!("cannot make a certificate: {error}"))?;
        let certificate = CertificateDer::from(made.cert);
        Ok(Self { certificate, key: PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()) })
    }

    pub(super) fn server(&self, transport: TransportConfig, marks: Marks) -> Result<ServerConfig, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = self.key.clone_key().into();
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|tls| tls.with_no_client_auth().with_single_cert(vec![self.certificate.clone()], key))
            .map_err(|error| error.to_string())?;
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let crypto = QuicServerConfig::try_from(tls).map_err(|error| error.to_string())?;
        let mut config =
            ServerConfig::with_crypto(Arc::new(Overheard { inner: Arc::new(crypto), ear: Arc::new(marks) }));
        config.transport_config(Arc::new(transport));
        Ok(config)
    }

    pub(super) fn client(&self, transport: TransportConfig) -> Result<ClientConfig, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).map_err(|error| error.to_string())?;
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let crypto = QuicClientConfig::try_from(tls).map_err(|error| error.to_string())?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport));
        Ok(config)
    }
}

/// Runs one end to its finish in this thread.
pub(super) fn run<T>(end: impl Future<Output = T>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(end);
    runtime.shutdown_timeout(StdDuration::from_millis(100));
    Ok(result)
}

pub(super) fn open(
    socket: UdpSocket,
    server: Option<ServerConfig>,
    seed: [u8; 32],
    ecn: Option<EcnCodepoint>,
    outgoing: &Arc<Outgoing>,
) -> io::Result<Endpoint> {
    let inner = TokioRuntime.wrap_udp_socket(socket)?;
    let wire = Box::new(Wire { inner, ecn, outgoing: Arc::clone(outgoing) });
    let mut config = EndpointConfig::default();
    config.rng_seed(Some(seed));
    Endpoint::new_with_abstract_socket(config, server, wire, Arc::new(TokioRuntime))
}

/// Resolves when the run is stopped.
async fn until_stopped(control: &Control) {
    while !control.is_stopped() {
        tokio::time::sleep(TICK).await;
    }
}

/// `future`, or `None` if the run is stopped before.
async fn unless_stopped<T>(control: &Control, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        result = future => Some(result),
        () = until_stopped(control) => None,
    }
}

/// Gives the other end time to learn that all is over.
async fn leave(endpoint: &Endpoint, control: &Control) {
    let idle = tokio::time::timeout(GOODBYE, endpoint.wait_idle());
    let _ = unless_stopped(control, idle).await;
    endpoint.close(VarInt::from_u32(0), b"over");
}

/// The sending end.
pub(super) struct Server {
    pub(super) control: Control,
    pub(super) config: ServerConfig,
    pub(super) ecn: Option<EcnCodepoint>,
}

impl Server {
    pub(super) fn run(self, socket: UdpSocket) -> ServerReport {
        let outgoing = Arc::new(Outgoing::default());
        let mut report = match run(self.serve(socket, &outgoing)) {
            Ok(report) => report,
            Err(error) => ServerReport::failed(format!("cannot start a runtime: {error}")),
        };
        report.spin = Some(outgoing.spin());
        report.ecn = Some(outgoing.ect());
        report
    }

    async fn serve(&self, socket: UdpSocket, outgoing: &Arc<Outgoing>) -> ServerReport {
        let endpoint = match open(socket, Some(self.config.clone()), SPINNING_SEED, self.ecn, outgoing) {
            Ok(endpoint) => endpoint,
            Err(error) => return ServerReport::failed(format!("cannot open the endpoint: {error}")),
        };
        let mut report = ServerReport::default();
        // A client whose handshake timed out comes back with a new connection.
        while let Some(Some(incoming)) = unless_stopped(&self.control, endpoint.accept()).await {
            let Some(connected) = unless_stopped(&self.control, incoming.into_future()).await else { break };
            let Ok(connection) = connected else { continue };
            let sampler = tokio::spawn(watch(connection.clone(), self.control.clone()));
            let result = push(&connection).await;
            connection.close(VarInt::from_u32(0), b"done");
            report.samples = sampler.await.unwrap_or_default();
            report.error = result.err().filter(|_| !self.control.is_stopped());
            break;
        }
        leave(&endpoint, &self.control).await;
        report
    }
}

/// Samples a connection until it is closed, and closes it when the run is stopped.
async fn watch(connection: Connection, control: Control) -> Vec<RttSample> {
    let mut sampler = Sampler::new();
    while connection.close_reason().is_none() {
        if control.is_stopped() {
            connection.close(VarInt::from_u32(1), b"stopped");
            break;
        }
        let now = control.now();
        if sampler.wait(now) == Duration::ZERO
            && let Some(stats) = connection.path_stats(PathId::ZERO)
        {
            sampler.push(RttSample {
                time: now,
                rtt_us: u64::try_from(stats.rtt.as_micros()).unwrap_or(u64::MAX),
                cwnd_bytes: stats.cwnd,
                delivered_bytes: stats.sent_bytes.saturating_sub(stats.lost_bytes),
                lost_packets: stats.lost_packets,
                congestion_events: stats.congestion_events,
            });
        }
        tokio::time::sleep(sampler.wait(control.now()).to_std().min(TICK)).await;
    }
    sampler.finish()
}

/// Reads the request and sends that much.
async fn push(connection: &Connection) -> Result<(), String> {
    let (mut send, mut receive) = connection.accept_bi().await.map_err(whole)?;
    let mut request = [0; 8];
    receive.read_exact(&mut request).await.map_err(whole)?;
    let wanted = u64::from_be_bytes(request);
    let enough = |error: Option<ConnectionError>| match error {
        // The client closes when it has enough.
        Some(ConnectionError::ApplicationClosed(_)) => Ok(()),
        Some(error) => Err(error.to_string()),
        None => Ok(()),
    };
    let mut left = wanted;
    while left > 0 {
        let count = usize::try_from(left).unwrap_or(ZEROS.len()).min(ZEROS.len());
        // A static chunk: the send buffer refers to it and copies nothing.
        if let Err(error) = send.write_chunk(ZEROS[..count].into()).await {
            return if wanted == WITHOUT_END { enough(connection.close_reason()) } else { Err(whole(error)) };
        }
        left -= count as u64;
    }
    send.finish().map_err(|error| error.to_string())?;
    // Resolves when everything is acknowledged, or the connection is over.
    match send.stopped().await {
        Ok(_) => Ok(()),
        Err(_) => enough(connection.close_reason()),
    }
}

/// An error with its causes: "connection lost" alone does not say why.
fn whole(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The receiving end.
pub(super) struct Client {
    pub(super) control: Control,
    pub(super) config: ClientConfig,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) server: SocketAddr,
    pub(super) start: Time,
    pub(super) amount: Amount,
    pub(super) received: Arc<AtomicU64>,
}

impl Client {
    pub(super) fn run(self, socket: UdpSocket) -> ClientReport {
        if !self.control.sleep_until(self.start) {
            return ClientReport::default();
        }
        let mut report = ClientReport::default();
        let result = run(self.fetch(socket, &mut report));
        let result = result.unwrap_or_else(|error| Err(format!("cannot start a runtime: {error}")));
        report.error = result.err().filter(|_| !self.control.is_stopped());
        report
    }

    async fn fetch(&self, socket: UdpSocket, report: &mut ClientReport) -> Result<(), String> {
        let outgoing = Arc::new(Outgoing::default());
        let endpoint = open(socket, None, SPINNING_SEED, self.ecn, &outgoing)
            .map_err(|error| format!("cannot open the endpoint: {error}"))?;
        let begun = self.control.now();
        let connection = loop {
            let connecting = endpoint
                .connect_with(self.config.clone(), self.server, NAME)
                .map_err(|error| format!("cannot connect to {}: {error}", self.server))?;
            match unless_stopped(&self.control, connecting).await {
                Some(Ok(connection)) => break connection,
                // Every handshake packet of a minute was lost: once more, until the run is over.
                Some(Err(ConnectionError::TimedOut)) => {}
                Some(Err(error)) => return Err(format!("cannot connect to {}: {error}", self.server)),
                None => return Ok(()),
            }
        };
        let started = self.control.now();
        report.handshake = Some(started.since(begun));
        report.started = Some(started);
        let (wanted, end) = match self.amount {
            Amount::Bytes(bytes) => (bytes.0, Time::MAX),
            Amount::Time(duration) => (WITHOUT_END, started + duration),
        };
        let result = unless_stopped(&self.control, self.read(&connection, wanted, end, report)).await;
        let finished = *report.finished.get_or_insert(self.control.now());
        if report.complete && matches!(self.amount, Amount::Bytes(_)) {
            report.fct = Some(finished.since(started));
        }
        connection.close(VarInt::from_u32(0), b"done");
        leave(&endpoint, &self.control).await;
        result.unwrap_or(Ok(()))
    }

    async fn read(
        &self,
        connection: &Connection,
        wanted: u64,
        end: Time,
        report: &mut ClientReport,
    ) -> Result<(), String> {
        let (mut send, receive) = connection.open_bi().await.map_err(whole)?;
        send.write_all(&wanted.to_be_bytes()).await.map_err(whole)?;
        send.finish().map_err(|error| error.to_string())?;
        // Bytes are only counted, so their order does not matter. Ordered, noq gives up on a stream with more than 1024
        // gaps, which slow start leaves behind at a large bandwidth-delay product.
        let mut receive = receive.into_unordered();
        let over =
            tokio::time::sleep(end.since(self.control.now()).to_std().min(StdDuration::from_secs(1 << 30)));
        tokio::pin!(over);
        loop {
            let chunk = tokio::select! {
                chunk = receive.read_chunk(1 << 20) => chunk.map_err(whole)?,
                () = &mut over => {
                    report.complete = true;
                    return Ok(());
                }
            };
            let Some(chunk) = chunk else {
                return match report.bytes == wanted {
                    true => {
                        report.complete = true;
                        Ok(())
                    }
                    false => Err(format!("the server closed after {} of {wanted} bytes", report.bytes)),
                };
            };
            report.bytes += chunk.bytes.len() as u64;
            self.received.fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed);
            if report.bytes >= wanted {
                report.finished.get_or_insert(self.control.now());
            }
        }
    }
}
