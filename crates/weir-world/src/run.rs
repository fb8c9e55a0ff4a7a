//! Runs a scenario on real packets, in any world: what the worlds have in common. Each builds its hosts and its
//! bottleneck ([`crate::emu`], [`crate::kernel`]); flows, clock and results are the same.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use thiserror::Error;
use weir_core::{Bytes, Duration, Seed};
use weir_law::FlowKey;
use weir_link::{IoError, IoKind};

use crate::emu;
use crate::kernel::{self, KernelWorldError};
use crate::record::Recorder;
use crate::sim;
use crate::vm;
use weir_report::output::Target;
use weir_report::pcapng::PcapngError;
use weir_report::result::{Health, RunResult, WorkloadResult};
use weir_scenario::{Bottleneck, Direction, Flow, Hosts, Pattern, Refusal, Scenario};
use weir_testbed::edges::EdgeError;
use weir_testbed::host::{HostError, Topology, TopologySpec};
use weir_testbed::traffic::{
    self, Amount, Control, FlowSpec, QuicSpec, Stack, TcpSpec, Traffic, TrafficError, UdpSpec,
};
use weir_vm::VmError;

/// The server port of the first flow; the others count up from it. The law and the recorder tell flows apart by it.
const FIRST_PORT: u16 = 20_000;
/// Where clients listen for UDP: below the ports that the kernel gives away (32768 on, `ip_local_port_range`), or a QUIC
/// client that started earlier might have taken one.
const FIRST_UDP_CLIENT_PORT: u16 = 30_000;
/// Flows that the law keeps state for: all that a scenario can have, and room for strays.
pub(crate) const LAW_CAPACITY: usize = 4_096;
/// How often progress is told and ends are looked for.
const TICK: std::time::Duration = std::time::Duration::from_millis(50);

/// Where a scenario runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// Real packets through a queue in user space.
    #[default]
    Emu,
    /// Real packets through the kernel's own queues.
    Kernel,
    /// World `kernel` in a micro-VM with a kernel of its own.
    Vm,
    /// Virtual time.
    Sim,
}

impl World {
    /// `emu`, `kernel`, `vm` or `sim`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Emu => "emu",
            Self::Kernel => "kernel",
            Self::Vm => "vm",
            Self::Sim => "sim",
        }
    }
}

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
    /// The kernel's queues could not be set up or measured.
    #[error(transparent)]
    Kernel(#[from] KernelWorldError),
    /// The micro-VM did not come to a result.
    #[error(transparent)]
    Vm(#[from] VmError),
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
    /// Where to run it.
    pub world: World,
    /// The number of the run under the scenario's seed.
    pub run: u64,
    /// How packets are read and written in user space.
    pub io: IoKind,
    /// The kernel of a micro-VM, `6.1`; the newest of the cache if none is named.
    pub kernel: Option<String>,
    /// Thousandths of a processor for the bottleneck's thread; see [`LinkConfig::share`].
    pub share: u32,
    /// Where the capture goes, if one is wanted.
    pub pcap: Option<Target>,
    /// Where the trace goes, if one is wanted. World `sim` only.
    pub trace: Option<Target>,
    /// Runs in world `sim` also what is estimated to cost more than [`Cost::MOST`].
    pub large: bool,
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
    /// Run 0 in world `emu`, the best way to move packets, no capture, no progress.
    pub fn new(stop: &'a AtomicBool) -> Self {
        Self {
            world: World::Emu,
            run: 0,
            io: IoKind::Auto,
            kernel: None,
            share: weir_link::DEFAULT_SHARE,
            pcap: None,
            trace: None,
            large: false,
            stop,
            progress: &|_| {},
        }
    }
}

/// What is known of a run once it has ended.
pub(crate) struct Ended {
    pub(crate) world: World,
    /// How packets were moved and queued, in a line.
    pub(crate) io: String,
    pub(crate) flows: Vec<(Flow, traffic::FlowResult)>,
    /// The workloads, without what the bottleneck did to their packets, which is in the recorder behind the flows.
    pub(crate) workloads: Vec<WorkloadResult>,
    pub(crate) recorder: Box<Recorder>,
    /// What the bottleneck says of itself, and what it found doubtful.
    pub(crate) health: Health,
    pub(crate) law_counters: Vec<(String, u64)>,
    /// The kernel's queues with their counters at the end, as `tc -s -j qdisc show` prints them.
    pub(crate) qdiscs: Vec<serde_json::Value>,
    pub(crate) seed: Seed,
    /// None in virtual time.
    pub(crate) started_unix_s: Option<u64>,
    /// How long it took, in the time of its world.
    pub(crate) wall: Duration,
    pub(crate) cut_short: Option<&'static str>,
    /// Workloads with an end that had not reached it.
    pub(crate) cut_workloads: Vec<String>,
    /// Packets that the capture file could not take in time.
    pub(crate) capture_missed: u64,
    /// Packets that the hosts' interfaces dropped.
    pub(crate) host_drops: u64,
}

/// What a run in world `sim` costs, by an estimate that is made before it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Packets that are sent and acknowledged: a core simulates a few million in a second.
    pub packets: f64,
    /// Rows of all tables together.
    pub rows: f64,
    /// Bytes of memory.
    pub memory: f64,
    /// Bytes of a capture and a trace.
    pub disk: f64,
}

impl Cost {
    /// The most that a run costs unless a [larger one](RunOptions::large) is asked for: hours on one core, tables that a program can still read, the memory and the disk of a small machine.
    pub const MOST: Self = Self { packets: 1e10, rows: 2e7, memory: 8e9, disk: 1e11 };

    /// The estimate for `scenario`.
    pub fn of(scenario: &Scenario) -> Self {
        sim::cost::estimate(scenario)
    }

    /// Whether a run of `scenario` costs no more than this.
    ///
    /// # Errors
    /// The key that costs most.
    pub fn suffices(&self, scenario: &Scenario) -> Result<(), Refusal> {
        sim::affordable(scenario, self)
    }
}

/// Runs `scenario` in the world that `options` names. Everything that is made for it on the host is gone when this
/// returns, and when the process is killed.
///
/// # Errors
/// If the network, the bottleneck or a flow cannot be set up, or the bottleneck fails. A flow that fails under way is no
/// error: its result says what happened.
pub fn run(scenario: &Scenario, options: &RunOptions) -> Result<RunResult, RunError> {
    check(scenario, options.world)
        .and_then(|()| affordable(scenario, options.world, options.large))
        .map_err(|Refusal { key, message }| {
            RunError::Scenario(format!("{}: {message}", scenario.said_of_run(&key)))
        })?;
    match options.world {
        World::Emu => emu::run(scenario, options),
        World::Kernel => kernel::run(scenario, options),
        World::Vm => Ok(vm::run_scenario(scenario, options)?),
        World::Sim => sim::run(scenario, options),
    }
}

/// Whether `world` has what `scenario` asks for, as far as that can be told without running it; otherwise the key, as
/// [`Scenario::said`] takes it, and what is wrong.
pub fn check(scenario: &Scenario, world: World) -> Result<(), Refusal> {
    if world != World::Sim
        && let Some(key) = scenario.needs_simulator()
    {
        return Err(Refusal::new(key, "only world sim has it; use --on sim or remove the key".to_owned()));
    }
    match world {
        World::Sim => sim::check(scenario),
        World::Emu | World::Kernel => {
            for (index, flow) in scenario.flows.iter().enumerate() {
                flow.real_controller().map_err(|message| {
                    Refusal::new(format!("flow.{index}.controller"), format!("{message}; or use --on sim"))
                })?;
            }
            if world == World::Kernel { kernel::check(scenario) } else { Ok(()) }
        }
        // It is the guest's kernel that has to have them.
        World::Vm => Ok(()),
    }
}

/// Whether a run in `world` costs no more than it may: what runs on the real clock is bounded by that, and a `large` run by
/// nothing. Otherwise the key, as [`Scenario::said`] takes it, and what is wrong.
pub fn affordable(scenario: &Scenario, world: World, large: bool) -> Result<(), Refusal> {
    if world == World::Sim && !large { sim::affordable(scenario, &Cost::MOST) } else { Ok(()) }
}

/// When everything is ready: a moment shortly ahead, the same for all, and what it is in time since 1970.
#[allow(clippy::disallowed_methods, reason = "these worlds run on the real clock")]
pub(crate) fn time_zero() -> (Instant, std::time::Duration) {
    let lead = (traffic::HELD_POLL * 4).to_std();
    (Instant::now() + lead, SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + lead)
}

/// The wall-clock time since `start`.
#[allow(clippy::disallowed_methods, reason = "these worlds run on the real clock")]
pub(crate) fn since(start: Instant) -> Duration {
    Duration::from(Instant::now().saturating_duration_since(start))
}

/// Stops the flows when it goes.
pub(crate) struct Switch(pub(crate) Control);

impl Drop for Switch {
    fn drop(&mut self) {
        self.0.stop();
    }
}

pub(crate) fn port(index: usize) -> u16 {
    FIRST_PORT + index as u16
}

/// The hosts that a scenario with these flows needs.
pub(crate) fn topology_spec(scenario: &Scenario, flows: &[Flow]) -> TopologySpec {
    let [server_addresses, client_addresses] = Hosts::of(flows).counts();
    TopologySpec {
        server_addresses,
        client_addresses,
        tcp_buffer: window(scenario),
        ..TopologySpec::default()
    }
}

/// Room for what can be under way: the bandwidth-delay product, as much again in the queue, and a margin for flows that
/// overshoot both.
pub(crate) fn window(scenario: &Scenario) -> Bytes {
    let bdp = scenario.bottleneck.rate.bytes_in(longest_rtt(scenario)).0;
    Bytes(bdp.saturating_mul(4).saturating_add(16 << 20).clamp(16 << 20, 1 << 30))
}

pub(crate) fn longest_rtt(scenario: &Scenario) -> Duration {
    let of = |flow: &Flow| flow.rtt.unwrap_or(scenario.bottleneck.rtt) + scenario.link_delay(flow) * 2;
    scenario.flows.iter().map(of).max().unwrap_or_default().max(scenario.bottleneck.rtt)
}

/// The delays of each flow: before the queue, and before the law sees the acknowledgement.
pub(crate) fn delays(scenario: &Scenario, flows: &[Flow]) -> weir_link::DelayChoice {
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

/// Starts all flows of the run of that number; each sets out at its own time.
pub(crate) fn launch(
    scenario: &Scenario,
    flows: &[Flow],
    topology: &Topology,
    control: &Control,
    run: u64,
) -> Result<Vec<traffic::Flow>, RunError> {
    let hosts = Hosts::of(flows);
    let mut running = Vec::new();
    for (index, flow) in flows.iter().enumerate() {
        let spec = flow_spec(scenario, flow, index, hosts.at(index), topology, run);
        let (server, client) = match flow.direction {
            Direction::Down => (&topology.server, &topology.client),
            Direction::Up => (&topology.client, &topology.server),
        };
        running.push(traffic::Flow::launch(&spec, server, client, control)?);
    }
    Ok(running)
}

fn flow_spec(
    scenario: &Scenario,
    flow: &Flow,
    index: usize,
    hosts: [usize; 2],
    topology: &Topology,
    run: u64,
) -> FlowSpec {
    let [server, client] = hosts;
    let client = topology.client_addr(client);
    let server = if flow.ecn { topology.server_ecn_addr(server) } else { topology.server_addr(server) };
    let (from, to) = match flow.direction {
        Direction::Down => (server, client),
        Direction::Up => (client, server),
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
                two_way: flow.pattern == Pattern::TwoWay,
            }),
            Stack::Quic => Traffic::Quic(QuicSpec {
                window: window(scenario),
                seed: Seed { seed: scenario.seed, run },
                ..QuicSpec::new(&flow.controller)
            }),
            Stack::Udp => Traffic::Udp(UdpSpec::new(flow.rate.unwrap_or_default())),
        },
    }
}

/// Waits until every flow that has an end has reached it, and tells how far that is. Returns why the run ended before.
#[allow(clippy::disallowed_methods, reason = "progress is looked at in real time")]
pub(crate) fn watch(
    scenario: &Scenario,
    flows: &[Flow],
    running: &[traffic::Flow],
    bottleneck_failed: &dyn Fn() -> bool,
    options: &RunOptions,
    start: Instant,
) -> Option<&'static str> {
    let received: Vec<_> = running.iter().map(traffic::Flow::received).collect();
    let has_end = |flow: &Flow| flow.bytes.is_some() || flow.duration.is_some();
    loop {
        let now = since(start);
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
        if bottleneck_failed() {
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
