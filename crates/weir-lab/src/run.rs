//! Runs a scenario on real packets: builds the hosts, starts the bottleneck and the flows, and gathers what all of them
//! measured.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use thiserror::Error;
use weir_core::{Bytes, Duration, Seed};
use weir_law::{FlowKey, Law};
use weir_link::{DEFAULT_STEP, IoError, IoKind, Link, LinkConfig, PipelineConfig};
use weir_qdisc::QdiscConfig;

use crate::edges::{self, EdgeError};
use crate::gather;
use crate::host::{HostError, Topology, TopologySpec};
use crate::pcapng::{PcapngError, PcapngWriter};
use crate::record::{Captured, Recorder, SNAPLEN, Tap};
use crate::result::RunResult;
use crate::scenario::{self, Bottleneck, Flow, Scenario};
use crate::traffic::{
    self, Amount, Control, FlowSpec, QuicSpec, Stack, TcpSpec, Traffic, TrafficError, UdpSpec,
};

/// The server port of the first flow; the others count up from it. The law and the recorder tell flows apart by it.
const FIRST_PORT: u16 = 20_000;
/// Where clients listen for UDP: below the ports that the kernel gives away (32768 on, `ip_local_port_range`), or a QUIC
/// client that started earlier might have taken one.
const FIRST_UDP_CLIENT_PORT: u16 = 30_000;
/// Flows that the law keeps state for: all that a scenario can have, and room for strays.
const LAW_CAPACITY: usize = 4_096;
/// Packets between the bottleneck and the capture file.
const TAP_PACKETS: usize = 1 << 15;
/// Departures gather no longer than this, whatever the round-trip time.
const LONGEST_STEP: Duration = Duration::from_micros(200);
/// How often progress is told and ends are looked for.
const TICK: std::time::Duration = std::time::Duration::from_millis(50);

/// A run that could not be made or finished.
#[derive(Debug, Error)]
pub enum RunError {
    /// The scenario asks for what cannot be.
    #[error("{0}")]
    Scenario(String),
    /// The network could not be built.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The interfaces could not be made fit for the bottleneck.
    #[error(transparent)]
    Edges(#[from] EdgeError),
    /// The bottleneck could not open its interfaces, or lost one.
    #[error("the bottleneck: {0}")]
    Link(#[from] IoError),
    /// A flow could not be started.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// The capture could not be written.
    #[error("cannot write {path}: {source}; choose another folder with --out")]
    Capture {
        /// The file.
        path: PathBuf,
        /// Why.
        source: PcapngError,
    },
    /// A thread of the run panicked: a fault of the program.
    #[error("the {0} stopped unexpectedly; this is a fault of weir")]
    Panic(&'static str),
}

/// How to run a scenario.
#[derive(Clone)]
pub struct RunOptions<'a> {
    /// The number of the run under the scenario's seed.
    pub run: u64,
    /// How packets are read and written.
    pub io: IoKind,
    /// Thousandths of a processor for the bottleneck's thread; see [`LinkConfig::share`].
    pub share: u32,
    /// Where the capture goes, if one is wanted.
    pub pcap: Option<PathBuf>,
    /// Ends the run early; what was measured until then is the result.
    pub stop: &'a AtomicBool,
    /// Told now and then how far the run is.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// 0 to 1.
    pub done: f64,
    /// An estimate of the time that it will still take; none before there is anything to go by.
    pub left: Option<std::time::Duration>,
}

impl<'a> RunOptions<'a> {
    /// Run 0, the best way to move packets, no capture, no progress.
    pub fn new(stop: &'a AtomicBool) -> Self {
        Self {
            run: 0,
            io: IoKind::Auto,
            share: weir_link::DEFAULT_SHARE,
            pcap: None,
            stop,
            progress: &|_| {},
        }
    }
}

/// What is known of a run once it has ended.
pub(crate) struct Ended {
    pub(crate) flows: Vec<(Flow, traffic::FlowResult)>,
    pub(crate) link: weir_link::RunReport,
    pub(crate) recorder: Box<Recorder>,
    pub(crate) law: Option<Law>,
    pub(crate) seed: Seed,
    pub(crate) started_unix_s: u64,
    pub(crate) wall: Duration,
    pub(crate) cut_short: Option<&'static str>,
    /// Packets that the capture file could not take in time.
    pub(crate) capture_missed: u64,
    /// Packets that the hosts' interfaces dropped.
    pub(crate) host_drops: u64,
}

/// Runs `scenario` in world `emu`. Everything that is made for it on the host is gone when this returns, and when the
/// process is killed.
///
/// # Errors
/// If the network, the bottleneck or a flow cannot be set up, or the bottleneck fails. A flow that fails under way is no
/// error: its result says what happened.
#[allow(clippy::disallowed_methods, reason = "this world runs on the real clock")]
pub fn run(scenario: &Scenario, options: &RunOptions) -> Result<RunResult, RunError> {
    let flows = scenario.expanded_flows();
    let spec = TopologySpec { tcp_buffer: window(scenario), ..TopologySpec::default() };
    let topology = Topology::build(&spec)?;
    // A killed run has left journals, but no interfaces to restore. One that cannot be read is somebody else's.
    let _ = weir_link::offload::recover();
    let _offloads = edges::prepare(&topology)?;
    let began = Arc::new(OnceLock::new());
    let capture = options.pcap.as_deref().map(|path| Capture::start(path, Arc::clone(&began))).transpose()?;
    let (capture, tap) = capture.unzip();

    let mut link = RunningLink::prepare(scenario, &topology, options, tap)?;
    // Flows end when `control` is dropped at the latest, the bottleneck when `link` is: also where `?` leaves early.
    let control = Switch(Control::held());
    let running = launch(scenario, &flows, &topology, &control.0)?;
    // Everything is ready: time zero is soon, and the same for all.
    let lead = (traffic::HELD_POLL * 4).to_std();
    let start = Instant::now() + lead;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + lead;
    began.get_or_init(|| since_1970);
    link.begin_at(start);
    control.0.begin_at(start);
    let cut_short = watch(scenario, &flows, &running, &link, options, start);
    control.0.stop();
    let results: Vec<_> = running.into_iter().map(traffic::Flow::join).collect();
    let finished = link.stop()?;
    let host_drops = edges::host_drops(&topology)?;
    let wall = Duration::from(Instant::now().saturating_duration_since(start));

    let mut recorder = Recorder::from_observer(finished.observer).ok_or(RunError::Panic("recorder"))?;
    let missed = recorder.tap.take().map_or(0, |tap| tap.missed);
    capture.map(Capture::finish).transpose()?;
    let ended = Ended {
        flows: flows.into_iter().zip(results).collect(),
        link: finished.report,
        recorder,
        law: finished.law,
        seed: Seed { seed: scenario.seed, run: options.run },
        started_unix_s: since_1970.as_secs(),
        wall,
        cut_short,
        capture_missed: missed,
        host_drops,
    };
    Ok(gather::result(scenario, ended))
}

/// Stops the flows when it goes.
struct Switch(Control);

impl Drop for Switch {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The bottleneck's thread.
struct RunningLink {
    stop: Arc<AtomicBool>,
    begin: Option<SyncSender<Instant>>,
    thread: Option<JoinHandle<Result<weir_link::RunResult, IoError>>>,
}

impl RunningLink {
    /// Opens the bottleneck's interfaces. It moves packets from [`RunningLink::begin_at`] on.
    fn prepare(
        scenario: &Scenario,
        topology: &Topology,
        options: &RunOptions,
        tap: Option<Tap>,
    ) -> Result<Self, RunError> {
        let bottleneck = &scenario.bottleneck;
        let params = scenario.law_params().map_err(RunError::Scenario)?;
        let qdisc = bottleneck
            .qdisc
            .build(&scenario.build_context())
            .map_err(|error| RunError::Scenario(format!("bottleneck.qdisc: {error}")))?;
        let queues = if matches!(bottleneck.qdisc, QdiscConfig::Crq(_)) { 2 } else { 1 };
        let flows = scenario.expanded_flows();
        let ports = (0..flows.len()).map(port).collect();
        let recorder = Recorder::new(ports, queues, scenario.measure.interval, params.main_signal, tap);
        let config = LinkConfig {
            io: options.io,
            share: Some(options.share),
            step: step(scenario),
            frames: frames(scenario),
            ..LinkConfig::between(&topology.bottleneck_server_iface, &topology.bottleneck_client_iface)
        };
        let pipeline = PipelineConfig {
            rate: bottleneck.rate,
            burst: bottleneck.burst,
            overhead: bottleneck.overhead,
            law: Some(Law::new(params, LAW_CAPACITY)),
            delays: delays(scenario, &flows),
            frames: config.frames,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (is_open, opened) = sync_channel(1);
        let (begin, begun) = sync_channel(1);
        let flag = Arc::clone(&stop);
        let thread = topology.bottleneck.spawn("bottleneck", move || {
            let mut link = Link::open(config)?;
            // Nobody waits any more only if the run was given up; `flag` is set then.
            let _ = is_open.send(());
            if let Ok(start) = begun.recv() {
                link.begin_at(start);
            }
            link.run(pipeline, qdisc, Box::new(recorder), &flag)
        })?;
        let mut running = Self { stop, begin: Some(begin), thread: Some(thread) };
        if opened.recv().is_err() {
            // The thread has ended without opening: its result says why.
            running.join()?;
            return Err(RunError::Panic("bottleneck"));
        }
        Ok(running)
    }

    /// Lets packets through; `start` is time zero.
    fn begin_at(&mut self, start: Instant) {
        if let Some(begin) = self.begin.take() {
            // A thread that has ended says why when it is joined.
            let _ = begin.send(start);
        }
    }

    fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops the bottleneck and hands over what it measured.
    fn stop(mut self) -> Result<weir_link::RunResult, RunError> {
        self.stop.store(true, Ordering::Relaxed);
        self.join()
    }

    fn join(&mut self) -> Result<weir_link::RunResult, RunError> {
        let thread = self.thread.take().ok_or(RunError::Panic("bottleneck"))?;
        Ok(thread.join().map_err(|_| RunError::Panic("bottleneck"))??)
    }
}

impl Drop for RunningLink {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.begin = None;
        if let Some(thread) = self.thread.take() {
            // Its result is of no use: the run failed elsewhere.
            let _ = thread.join();
        }
    }
}

/// How long departures gather: a fiftieth of the shortest round-trip time, which no flow notices and saves wake-ups.
fn step(scenario: &Scenario) -> Duration {
    let shortest = scenario.flows.iter().filter_map(|flow| flow.rtt).chain([scenario.bottleneck.rtt]).min();
    (shortest.unwrap_or_default() / 50).clamp(DEFAULT_STEP, LONGEST_STEP)
}

fn port(index: usize) -> u16 {
    FIRST_PORT + index as u16
}

/// Room for what can be under way: the bandwidth-delay product, as much again in the queue, and a margin for flows that
/// overshoot both.
fn window(scenario: &Scenario) -> Bytes {
    let bdp = scenario.bottleneck.rate.bytes_in(longest_rtt(scenario)).0;
    Bytes((4 * bdp + (16 << 20)).clamp(16 << 20, 1 << 30))
}

fn longest_rtt(scenario: &Scenario) -> Duration {
    let own = scenario.flows.iter().filter_map(|flow| flow.rtt).max().unwrap_or_default();
    own.max(scenario.bottleneck.rtt)
}

/// Frames for what the delay lines, the queue and the rings hold, in packets of full size, six times over: overload and
/// acknowledgements need frames too.
fn frames(scenario: &Scenario) -> u32 {
    let bdp = scenario.bottleneck.rate.bytes_in(longest_rtt(scenario)).0 / scenario::FULL_PACKET;
    (6 * bdp + 16_384).clamp(16_384, 262_144) as u32
}

/// The delays of each flow: before the queue, and before the law sees the acknowledgement.
fn delays(scenario: &Scenario, flows: &[Flow]) -> weir_link::DelayChoice {
    let Bottleneck { rtt, position, .. } = scenario.bottleneck;
    let split = move |rtt: Duration| {
        let behind = rtt.scale(position);
        (rtt - behind, behind)
    };
    let of_port: Vec<_> = flows.iter().map(|flow| split(flow.rtt.unwrap_or(rtt))).collect();
    Box::new(move |key: Option<&FlowKey>, _| {
        let ports = key.map_or([0, 0], |key| [key.low.port(), key.high.port()]);
        let index = |port: &u16| port.checked_sub(FIRST_PORT).map(usize::from);
        ports.iter().filter_map(index).find_map(|index| of_port.get(index).copied()).unwrap_or_default()
    })
}

/// Starts all flows; each sets out at its own time.
fn launch(
    scenario: &Scenario,
    flows: &[Flow],
    topology: &Topology,
    control: &Control,
) -> Result<Vec<traffic::Flow>, RunError> {
    let mut running = Vec::new();
    for (index, flow) in flows.iter().enumerate() {
        let spec = flow_spec(scenario, flow, index, topology);
        let (server, client) = match flow.direction {
            scenario::Direction::Down => (&topology.server, &topology.client),
            scenario::Direction::Up => (&topology.client, &topology.server),
        };
        running.push(traffic::Flow::launch(&spec, server, client, control)?);
    }
    Ok(running)
}

fn flow_spec(scenario: &Scenario, flow: &Flow, index: usize, topology: &Topology) -> FlowSpec {
    let server = if flow.ecn { topology.server_ecn_addr(0) } else { topology.server_addr(0) };
    let (from, to) = match flow.direction {
        scenario::Direction::Down => (server, topology.client_addr(0)),
        scenario::Direction::Up => (topology.client_addr(0), server),
    };
    let client_port = if flow.stack == Stack::Udp { FIRST_UDP_CLIENT_PORT + index as u16 } else { 0 };
    // Flows without an end of their own last until the run ends.
    let amount = match (flow.bytes, flow.duration) {
        (Some(bytes), _) => Amount::Bytes(bytes),
        (None, Some(duration)) => Amount::Time(duration),
        (None, None) => Amount::Time(scenario.measure.timeout * 2),
    };
    FlowSpec {
        name: flow.name.clone(),
        server: SocketAddr::new(from, port(index)),
        client: SocketAddr::new(to, client_port),
        start: flow.start,
        amount,
        ecn: flow.ecn,
        traffic: match flow.stack {
            Stack::Tcp => Traffic::Tcp(TcpSpec {
                controller: flow.controller.clone(),
                two_way: flow.pattern == scenario::Pattern::TwoWay,
            }),
            Stack::Quic => {
                Traffic::Quic(QuicSpec { window: window(scenario), ..QuicSpec::new(&flow.controller) })
            }
            Stack::Udp => Traffic::Udp(UdpSpec::new(flow.rate.unwrap_or_default())),
        },
    }
}

/// Waits until every flow that has an end has reached it, and tells how far that is. Returns why the run ended before.
#[allow(clippy::disallowed_methods, reason = "this world runs on the real clock")]
fn watch(
    scenario: &Scenario,
    flows: &[Flow],
    running: &[traffic::Flow],
    link: &RunningLink,
    options: &RunOptions,
    start: Instant,
) -> Option<&'static str> {
    let received: Vec<_> = running.iter().map(traffic::Flow::received).collect();
    let has_end = |flow: &Flow| flow.bytes.is_some() || flow.duration.is_some();
    loop {
        let now = Duration::from(Instant::now().saturating_duration_since(start));
        let mut left = Duration::ZERO;
        let mut unfinished = 0;
        for ((flow, running), received) in flows.iter().zip(running).zip(&received) {
            if has_end(flow) && !running.is_finished() {
                unfinished += 1;
                left = left.max(time_left(flow, now, received.load(Ordering::Relaxed)));
            }
        }
        if unfinished == 0 {
            return None;
        }
        if options.stop.load(Ordering::Relaxed) {
            return Some("interrupted");
        }
        if now >= scenario.measure.timeout {
            return Some("timeout");
        }
        if link.is_finished() {
            return Some("the bottleneck failed");
        }
        let left = left.min(scenario.measure.timeout - now);
        let done = now.as_secs_f64() / (now + left).as_secs_f64().max(1e-9);
        (options.progress)(Progress { done, left: Some(left.to_std()) });
        std::thread::sleep(TICK);
    }
}

/// How long a flow will still take at the rate that it has had so far.
fn time_left(flow: &Flow, now: Duration, received: u64) -> Duration {
    let running = now - flow.start;
    match (flow.bytes, flow.duration) {
        (Some(bytes), _) => {
            let share = received as f64 / bytes.0.max(1) as f64;
            if share > 0.001 { running.scale((1.0 - share).max(0.0) / share) } else { Duration::MAX }
        }
        (None, Some(duration)) => flow.start + duration - now,
        (None, None) => Duration::ZERO,
    }
}

/// The thread that writes the capture, off the packet path.
struct Capture {
    path: PathBuf,
    thread: JoinHandle<Result<(), PcapngError>>,
}

impl Capture {
    /// `began` is time zero in seconds since 1970, set before the first packet.
    fn start(path: &Path, began: Arc<OnceLock<std::time::Duration>>) -> Result<(Self, Tap), RunError> {
        let failed = |source| RunError::Capture { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| failed(error.into()))?;
        }
        let interfaces = ["to the client, after the queue", "to the server"];
        const ETHERNET: u16 = 1;
        let mut writer = PcapngWriter::create(path, &interfaces, ETHERNET, SNAPLEN as u32).map_err(failed)?;
        let (to, from) = sync_channel::<Captured>(TAP_PACKETS);
        let thread = std::thread::spawn(move || {
            for packet in from {
                let interface = u32::from(packet.direction == weir_law::Direction::Reverse);
                let since_1970 = began.get().copied().unwrap_or_default();
                let time = since_1970.as_nanos() as u64 + packet.time.as_nanos();
                writer.packet(
                    interface,
                    time,
                    packet.length,
                    &packet.bytes[..usize::from(packet.kept)],
                    None,
                )?;
            }
            writer.finish().map(drop)
        });
        Ok((Self { path: path.to_owned(), thread }, Tap { to, missed: 0 }))
    }

    /// Waits until all is on disk. The tap must be gone by now, or this waits for ever.
    fn finish(self) -> Result<(), RunError> {
        let written = self.thread.join().map_err(|_| RunError::Panic("capture"))?;
        written.map_err(|source| RunError::Capture { path: self.path, source })
    }
}
