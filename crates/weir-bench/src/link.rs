//! What it costs to send packets through the user-space bottleneck, beside the kernel's own forwarding, in one run.
//!
//! Four Cubic flows of the kernel's TCP go from a server through the bottleneck to a client, all on this machine. Each
//! row has another bottleneck in the middle: CoDel behind AF_XDP, CoDel behind packet sockets, or the kernel's routing
//! with HTB and a bfifo, once as hosts usually are (64 kB super-packets go through, and one look at the queue moves 44
//! segments) and once with the same single frames that the user-space bottleneck gets. The second is the like-for-like
//! comparison, the first is what seeing every packet gives up. Unlike iperf3 across a testbed, sender, bottleneck and
//! receiver share the CPUs, and the cost is all of theirs together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use serde::Serialize;
use thiserror::Error;
use weir_core::{Duration, Rate};
use weir_law::{Law, Params};
use weir_link::{IoError, IoKind, Link, LinkConfig, PipelineConfig, RunReport, RunResult, Unobserved};
use weir_qdisc::{Codel, CodelConfig};

use super::{Bench, Line, machine, number};
use weir_testbed::host::{HostError, Topology, TopologySpec};
use weir_testbed::interfaces::{self, InterfacesError};
use weir_testbed::traffic::{Amount, Control, FlowSpec, TcpSpec, Traffic, TrafficError, Transfer};

/// Flows of each row.
const FLOWS: usize = 4;
/// Payload of a full TCP segment with timestamps.
const SEGMENT: u64 = 1448;
/// Slow start is over by then.
const WARM_UP: Duration = Duration::from_secs(1);
/// The target rate, and one that is out of reach, for the most that each path can do.
const RATES: [Rate; 2] = [Rate::from_bits_per_sec(2_000_000_000), Rate::from_bits_per_sec(10_000_000_000)];
/// One way; long enough that the delay lines hold packets.
const DELAY: Duration = Duration::from_millis(1);

/// A row that could not be measured.
#[derive(Debug, Error)]
pub enum BenchLinkError {
    /// The hosts could not be built.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A flow could not be started.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// The interfaces could not be made fit for the bottleneck.
    #[error(transparent)]
    Interfaces(#[from] InterfacesError),
    /// The bottleneck could not be opened or lost an interface.
    #[error(transparent)]
    Link(#[from] IoError),
    /// A flow did not do what it should have.
    #[error("in row '{row}', {message}")]
    Flow {
        /// The row.
        row: &'static str,
        /// What went wrong.
        message: String,
    },
}

/// What is in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Middle {
    Emulated(IoKind),
    Kernel { frames: bool },
}

const ROWS: [(&str, Middle); 4] = [
    ("kernel-htb", Middle::Kernel { frames: false }),
    ("kernel-htb-frames", Middle::Kernel { frames: true }),
    ("xdp", Middle::Emulated(IoKind::Xdp)),
    ("packet-socket", Middle::Emulated(IoKind::PacketSocket)),
];
/// The row that the others are compared with.
const BESIDE: &str = "kernel-htb-frames";

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was in the middle.
    pub name: &'static str,
    /// `emu` or `kernel`.
    pub world: &'static str,
    /// The rate that the link was set to.
    pub rate: Rate,
    /// Data packets of 1448 bytes of payload that arrived.
    pub packets_per_second: f64,
    /// Their payload.
    pub goodput_bits_per_second: f64,
    /// CPU time of the whole machine for each of them: both hosts, both directions, and whatever else ran.
    pub ns_per_packet: f64,
    /// CPU time of the bottleneck's thread for each packet of either direction, with what the kernel does for the
    /// receiving host within its sending calls.
    pub bottleneck_ns_per_packet: Option<f64>,
    /// Packets lost in rings.
    pub ring_overflows: Option<u64>,
    /// Packets that the hosts' interfaces dropped.
    pub host_drops: u64,
    /// Half the packets left at most so late.
    pub lateness_p50_ns: Option<u64>,
    /// 99 of 100 packets left at most so late.
    pub lateness_p99_ns: Option<u64>,
    /// Whether all checks of the run held.
    pub holds: Option<bool>,
    /// The row of the same rate that this one is compared with.
    pub vs: Option<&'static str>,
    /// Cost beside that row: its `ns_per_packet` is 1.
    pub ratio: Option<f64>,
}

impl Line for Row {
    const HEADINGS: &[&str] = &[
        "bottleneck",
        "rate",
        "packets/s",
        "Mbit/s good",
        "ns/packet",
        "ratio",
        "own ns",
        "lost",
        "p50 us",
        "p99 us",
    ];

    fn cells(&self) -> Vec<String> {
        let micros = |nanos: Option<u64>| number(nanos.map(|nanos| nanos as f64 / 1e3), 0);
        vec![
            self.name.to_owned(),
            self.rate.to_string(),
            format!("{:.0}", self.packets_per_second),
            format!("{:.0}", self.goodput_bits_per_second / 1e6),
            format!("{:.0}", self.ns_per_packet),
            number(self.ratio, 2),
            number(self.bottleneck_ns_per_packet, 0),
            (self.ring_overflows.unwrap_or(0) + self.host_drops).to_string(),
            micros(self.lateness_p50_ns),
            micros(self.lateness_p99_ns),
        ]
    }
}

/// Measures all rows, `seconds` each. `progress` hears how many rows are done, of how many, and which is next. Stops
/// between two looks at the clock when `stop` is set, with the rows so far.
///
/// # Errors
/// When a row cannot be set up or a flow fails.
pub fn run(
    seconds: Duration,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize, &str) + Sync),
) -> Result<Bench<Row>, BenchLinkError> {
    let machine = machine();
    let mut rows: Vec<Row> = Vec::new();
    let total = RATES.len() * ROWS.len();
    for rate in RATES {
        for (name, middle) in ROWS {
            progress(rows.len(), total, name);
            let Some(mut row) = measure(name, middle, rate, seconds, stop)? else {
                return Ok(Bench { bench: "link", machine, rows });
            };
            let beside = rows.iter().find(|other| other.rate == rate && other.name == BESIDE);
            if let Some(beside) = beside {
                row.vs = Some(BESIDE);
                row.ratio = Some(row.ns_per_packet / beside.ns_per_packet);
            }
            rows.push(row);
        }
    }
    Ok(Bench { bench: "link", machine, rows })
}

/// A bottleneck in user space, under way.
struct Emulated {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<RunResult, IoError>>,
}

fn emulate(topology: &Topology, io: IoKind, rate: Rate) -> Result<Emulated, BenchLinkError> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let config = LinkConfig {
        io,
        ..LinkConfig::between(&topology.bottleneck_server_iface, &topology.bottleneck_client_iface)
    };
    let (ready, opened) = std::sync::mpsc::channel();
    let thread = topology.bottleneck.spawn("bottleneck", move || {
        let link = Link::open(config)?;
        // Nobody listens only if the bench has failed already.
        let _ = ready.send(());
        let pipeline = PipelineConfig {
            rate,
            burst: None,
            overhead: 0,
            law: Some(Law::new(Params::default(), 1024)),
            delays: Box::new(|_, _| (DELAY, DELAY)),
            frames: 0,
        };
        link.run(pipeline, Box::new(Codel::new(CodelConfig::default())), Box::new(Unobserved), &stopped)
    })?;
    // An error here means that the thread has ended; its result says why.
    let _ = opened.recv();
    Ok(Emulated { stop, thread })
}

impl Emulated {
    fn finish(self, row: &'static str) -> Result<RunReport, BenchLinkError> {
        self.stop.store(true, Ordering::Relaxed);
        let message = "the bottleneck's thread panicked".to_owned();
        let result = self.thread.join().map_err(|_| BenchLinkError::Flow { row, message })?;
        Ok(result?.report)
    }
}

/// HTB at the link's rate, with a bfifo of 10 ms.
fn htb(topology: &Topology, rate: Rate) -> Result<(), HostError> {
    let dev = &topology.bottleneck_client_iface;
    let limit = rate.bytes_in(Duration::from_millis(10)).0;
    topology.bottleneck.tc(&[
        format!("qdisc add dev {dev} root handle 1: htb default 1"),
        format!("class add dev {dev} parent 1: classid 1:1 htb rate {rate} burst {}", limit / 10),
        format!("qdisc add dev {dev} parent 1:1 bfifo limit {limit}"),
    ])
}

/// `None` if it was stopped.
fn measure(
    name: &'static str,
    middle: Middle,
    rate: Rate,
    seconds: Duration,
    stop: &AtomicBool,
) -> Result<Option<Row>, BenchLinkError> {
    let spec = TopologySpec::default();
    let topology = match middle {
        Middle::Emulated(_) => Topology::build(&spec)?,
        Middle::Kernel { .. } => Topology::build_forwarding(&spec, &[])?,
    };
    let single_frames = middle != (Middle::Kernel { frames: false });
    let _offloads = if single_frames { interfaces::prepare(&topology)? } else { Vec::new() };
    let emulated = match middle {
        Middle::Emulated(io) => Some(emulate(&topology, io, rate)?),
        Middle::Kernel { .. } => {
            htb(&topology, rate)?;
            None
        }
    };
    let control = Control::default();
    let flows: Vec<Transfer> = (0..FLOWS)
        .map(|n| {
            let spec = FlowSpec {
                name: format!("flow {n}"),
                server: SocketAddr::new(topology.server_addr(0), 5001 + n as u16),
                client: SocketAddr::new(topology.client_addr(0), 0),
                start: Duration::ZERO,
                amount: Amount::Time(seconds + WARM_UP * 3),
                ecn: false,
                traffic: Traffic::Tcp(TcpSpec {
                    controller: "cubic".to_owned(),
                    registered: None,
                    two_way: false,
                    receive_window: None,
                }),
            };
            Transfer::launch(&spec, &topology.server, &topology.client, &control)
        })
        .collect::<Result<_, _>>()?;
    let received: Vec<Arc<AtomicU64>> = flows.iter().map(Transfer::received).collect();
    let bytes = || received.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum::<u64>();
    pause(WARM_UP, stop);
    let (began, bytes_before, busy_before) = (control.now(), bytes(), busy());
    pause(seconds, stop);
    let (wall, bytes, busy) =
        (control.now().since(began).as_secs_f64(), bytes() - bytes_before, busy() - busy_before);
    control.stop();
    let results: Vec<_> = flows.into_iter().map(Transfer::join).collect();
    let report = emulated.map(|emulated| emulated.finish(name)).transpose()?;
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    if bytes == 0 {
        let errors: Vec<_> = results.into_iter().filter_map(|result| result.error).collect();
        let message = format!("no data arrived ({})", errors.join("; "));
        return Err(BenchLinkError::Flow { row: name, message });
    }
    let host_drops = interfaces::host_drops(&topology)?;
    let packets = bytes as f64 / SEGMENT as f64;
    let lateness = report.as_ref().map(|report| report.pipeline.lateness);
    Ok(Some(Row {
        name,
        world: if report.is_some() { "emu" } else { "kernel" },
        rate,
        packets_per_second: packets / wall,
        goodput_bits_per_second: bytes as f64 * 8.0 / wall,
        ns_per_packet: busy.as_nanos() as f64 / packets,
        bottleneck_ns_per_packet: report.as_ref().map(|report| {
            (report.cpu_user + report.cpu_system).as_nanos() as f64 / report.io.sent.max(1) as f64
        }),
        ring_overflows: report.as_ref().map(|report| report.io.receive_overflows),
        host_drops,
        lateness_p50_ns: lateness.map(|lateness| lateness.p50_ns),
        lateness_p99_ns: lateness.map(|lateness| lateness.p99_ns),
        holds: report.as_ref().map(RunReport::holds),
        vs: None,
        ratio: None,
    }))
}

/// Waits, looking at the switch now and then.
#[allow(clippy::disallowed_methods, reason = "a measurement takes real time")]
fn pause(duration: Duration, stop: &AtomicBool) {
    let step = Duration::from_millis(50);
    let mut left = duration;
    while left > Duration::ZERO && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(left.min(step).to_std());
        left = if left > step { left - step } else { Duration::ZERO };
    }
}

/// CPU time that the machine has spent on anything but idling, over all processors (`cpu` line of `/proc/stat`,
/// proc(5); `USER_HZ` is 100 on all that Linux runs on here).
fn busy() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<u64> = ticks.map(|ticks| ticks.parse().unwrap_or(0)).collect();
    // user, nice, system, (idle, iowait,) irq, softirq
    let busy: u64 = [0, 1, 2, 5, 6].iter().filter_map(|column| ticks.get(*column)).sum();
    Duration::from_millis(busy * 10)
}

#[cfg(test)]
mod tests {
    use super::super::Bench;
    use super::Row;
    use weir_core::Rate;

    #[test]
    fn a_table_has_a_line_for_each_row() {
        let row = Row {
            name: "xdp",
            world: "emu",
            rate: Rate::from_bits_per_sec(2_000_000_000),
            packets_per_second: 165_000.4,
            goodput_bits_per_second: 1.9e9,
            ns_per_packet: 9_000.0,
            bottleneck_ns_per_packet: Some(3_000.0),
            ring_overflows: Some(2),
            host_drops: 1,
            lateness_p50_ns: Some(40_000),
            lateness_p99_ns: None,
            holds: Some(false),
            vs: Some("kernel-htb-frames"),
            ratio: Some(1.5),
        };
        let bench = Bench { bench: "link", machine: "test".into(), rows: vec![row] };
        let table = bench.table();
        let line: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(line, ["xdp", "2gbit", "165000", "1900", "9000", "1.50", "3000", "3", "40", "-"]);
        let json = serde_json::to_value(&bench).unwrap();
        assert_eq!(json["rows"][0]["ratio"], 1.5);
    }
}
