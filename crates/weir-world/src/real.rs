//! What the worlds on real packets have in common: hosts, flows, the clock, and the wait until all has ended. Each
//! builds its own bottleneck between them ([`crate::emu`], [`crate::kernel`]).

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use weir_core::{Bytes, Duration, Seed, Time};
use weir_law::FlowKey;
use weir_link::IoError;
use weir_report::result::DetectionResult;
use weir_scenario::{Bottleneck, Direction, Flow, Hosts, Pattern, Refusal, Scenario};
use weir_testbed::host::{HostError, Topology, TopologySpec};
use weir_testbed::interfaces::InterfacesError;
use weir_testbed::traffic::{
    self, Amount, Control, FlowSpec, QuicSpec, Stack, TcpSpec, Traffic, TrafficError, TwinsSpec, UdpSpec,
};

use crate::dctcp::Dctcp;
use crate::detect;
use crate::run::{Progress, RunError, RunOptions};

/// The server port of the first flow; the others count up from it. The law and the recorder distinguish flows by it.
const FIRST_PORT: u16 = 20_000;
/// Where clients listen for UDP: below the ports that the kernel gives away (32768 on, `ip_local_port_range`), or a
/// QUIC client that started earlier might have taken one.
const FIRST_UDP_CLIENT_PORT: u16 = 30_000;
/// How often progress is reported and ends are looked for.
const TICK: std::time::Duration = std::time::Duration::from_millis(50);

impl From<HostError> for RunError {
    fn from(error: HostError) -> Self {
        Self::of_world(error)
    }
}

impl From<InterfacesError> for RunError {
    fn from(error: InterfacesError) -> Self {
        Self::of_world(error)
    }
}

impl From<TrafficError> for RunError {
    fn from(error: TrafficError) -> Self {
        Self::of_world(error)
    }
}

impl From<IoError> for RunError {
    fn from(error: IoError) -> Self {
        Self::of_world(InBottleneck(error))
    }
}

/// The bottleneck could not open its interfaces, or lost one.
#[derive(Debug, thiserror::Error)]
#[error("the bottleneck: {0}")]
struct InBottleneck(IoError);

/// What every world on real packets refuses.
pub(crate) fn check_real(scenario: &Scenario) -> Result<(), Refusal> {
    without_simulator(scenario)?;
    // With a detector they are all Weir's own.
    for (index, flow) in scenario.flows.iter().enumerate().filter(|(_, flow)| flow.detector.is_empty()) {
        flow.real_controller().map_err(|message| {
            Refusal::new(format!("flow.{index}.controller"), format!("{message}; or use --on sim"))
        })?;
    }
    Ok(())
}

/// Refuses what the simulator alone has.
pub(crate) fn without_simulator(scenario: &Scenario) -> Result<(), Refusal> {
    match scenario.needs_simulator() {
        Some(key) => Err(Refusal::new(key, "only world sim has it; use --on sim or remove the key")),
        None => Ok(()),
    }
}

/// Refuses what the kernel's own queues alone have.
pub(crate) fn without_kernel(scenario: &Scenario) -> Result<(), Refusal> {
    match scenario.needs_kernel() {
        Some(key) => {
            let message = "only worlds kernel and vm have it; use --on kernel or --on vm, or remove the key";
            Err(Refusal::new(key, message))
        }
        None => Ok(()),
    }
}

/// Refuses what takes each packet where none is followed.
pub(crate) fn check_followed(scenario: &Scenario) -> Result<(), Refusal> {
    let key = match &scenario.measure {
        _ if !scenario.bottleneck.super_packets => return Ok(()),
        measure if measure.pcap => "measure.pcap",
        measure if measure.from > Duration::ZERO => "measure.from",
        measure if measure.to.is_some() => "measure.to",
        _ => return Ok(()),
    };
    Err(Refusal::new(key, "packets are not followed with bottleneck.super_packets; remove one of the two"))
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

/// Stops the flows when it is dropped.
pub(crate) struct StopOnDrop(pub(crate) Control);

impl Drop for StopOnDrop {
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

/// A flow under way, with its place among the scenario's. One that looks for fair queuing is its light sub-flow as
/// well, which has the next place.
pub(crate) type Running = (usize, traffic::Transfer);

/// Starts all flows of the run of that number; each sets out at its own time.
pub(crate) fn launch(
    scenario: &Scenario,
    flows: &[Flow],
    dctcp: &Dctcp,
    topology: &Topology,
    control: &Control,
    run: u64,
) -> Result<Vec<Running>, RunError> {
    let hosts = Hosts::of(flows);
    let mut running = Vec::new();
    let mut is_light = false;
    for (index, flow) in flows.iter().enumerate() {
        if std::mem::replace(&mut is_light, !flow.detector.is_empty()) {
            continue;
        }
        let mut spec = flow_spec(scenario, flow, index, hosts.at(index), topology, run);
        if let Traffic::Tcp(tcp) = &mut spec.traffic {
            dctcp.name(tcp);
        }
        if let (Some(names), Some(light)) = (flow.detection(), flows.get(index + 1)) {
            spec.traffic = Traffic::Twins(TwinsSpec {
                names,
                light: light.name.clone(),
                port: port(index + 1),
                seed: Seed { seed: scenario.seed, run },
            });
        }
        let (server, client) = match flow.direction {
            Direction::Down => (&topology.server, &topology.client),
            Direction::Up => (&topology.client, &topology.server),
        };
        running.push((index, traffic::Transfer::launch(&spec, server, client, control)?));
    }
    Ok(running)
}

/// What the flows of a run came to.
pub(crate) struct Joined {
    pub(crate) flows: Vec<(Flow, traffic::FlowResult)>,
    pub(crate) detections: Vec<DetectionResult>,
}

/// Waits for all flows, which have been told to stop at `end`.
pub(crate) fn join(flows: Vec<Flow>, running: Vec<Running>, end: Duration) -> Joined {
    let mut joined = Joined { flows: Vec::new(), detections: Vec::new() };
    let mut results = Vec::new();
    for (_, transfer) in running {
        let result = transfer.join();
        let light = result.detection.as_ref().map(|found| {
            let names = [found.detector, found.controller.unwrap_or_default()];
            let end = Time::ZERO + end;
            joined.detections.push(detect::result(&result.name, names, &found.findings, end));
            found.light.clone()
        });
        results.push(result);
        results.extend(light);
    }
    joined.flows = flows.into_iter().zip(results).collect();
    joined
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
                registered: None,
                two_way: flow.pattern == Pattern::TwoWay,
                receive_window: flow.receive_window,
            }),
            Stack::Quic => Traffic::Quic(QuicSpec {
                window: window(scenario),
                seed: Seed { seed: scenario.seed, run },
                ..QuicSpec::new(&flow.controller)
            }),
            Stack::Udp => Traffic::Udp(UdpSpec {
                bursts: flow.bursts,
                super_packets: scenario.bottleneck.super_packets,
                ..UdpSpec::new(flow.rate.unwrap_or_default())
            }),
        },
    }
}

/// Waits until every flow that has an end has reached it, and reports how far that is. Returns why the run ended
/// earlier, if it did.
#[allow(clippy::disallowed_methods, reason = "progress is looked at in real time")]
pub(crate) fn watch(
    scenario: &Scenario,
    flows: &[Flow],
    running: &[Running],
    bottleneck_failed: &dyn Fn() -> bool,
    options: &RunOptions,
    start: Instant,
) -> Option<&'static str> {
    let received: Vec<_> = running.iter().map(|(_, transfer)| transfer.received()).collect();
    let has_end = |flow: &Flow| flow.bytes.is_some() || flow.duration.is_some();
    loop {
        let now = since(start);
        let mut left = Duration::ZERO;
        let mut unfinished = 0;
        for ((index, running), received) in running.iter().zip(&received) {
            let flow = &flows[*index];
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
