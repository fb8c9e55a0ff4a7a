//! How fast the simulator is on one core, what a flow takes of memory, and the first of the scenarios in ns-3.
//!
//! A run goes on in parts of virtual time, and each part is timed by itself. Of the parts, the one in the middle makes
//! the row: `packets_per_second` by the clock on the wall, `ns_per_packet` by processor time.

use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;
use weir_core::{Duration, Seed, Time};
use weir_sim::{Amount, FlowSpec, HopId, HopSpec, Network, SpecError};

use super::ns3::{Hosts, Ns3Error, Program};
use super::{Bench, Row, machine, median, now, quantile};

/// Round-trip time of all flows without queues.
const RTT: Duration = Duration::from_millis(20);
/// Slow start is over by then.
const WARM_UP: Duration = Duration::from_secs(5);
/// Flows of the rows that measure memory.
const MANY: u32 = 1_000_000;
/// How often ns-3 and the simulator take turns.
const ROUNDS: u64 = 8;
/// Payload of each of them: three packets.
const SHORT: u64 = 4_000;
/// The scenario that is in ns-3 too.
const CUBIC: &str = "10 cubic, codel";
const NS3: &str = "10 cubic, codel, ns-3";
/// There with each host on a link of its own.
const DUMBBELL: &str = "10 cubic, codel, ns-3 dumbbell";

/// A row that could not be measured.
#[derive(Debug, Error)]
pub enum BenchSimError {
    /// A flow or a link could not be made.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Flows did not come to their end.
    #[error("{left} of {MANY} flows were not done after {seconds:.0} s of virtual time")]
    Unfinished {
        /// How many.
        left: usize,
        /// After how long.
        seconds: f64,
    },
}

/// Flows over one link.
struct Setting {
    name: &'static str,
    rate: &'static str,
    qdisc: &'static str,
    flows: &'static [(&'static str, u32)],
    /// Virtual time of a part.
    part: Duration,
}

const SETTINGS: [Setting; 3] = [
    Setting {
        name: CUBIC,
        rate: "100mbit",
        qdisc: "codel",
        flows: &[("cubic", 10)],
        part: Duration::from_secs(10),
    },
    Setting {
        name: "5 dctcp, 5 cubic, dualpi2",
        rate: "100mbit",
        qdisc: "dualpi2 scalable any",
        flows: &[("dctcp", 5), ("cubic", 5)],
        part: Duration::from_secs(10),
    },
    Setting {
        name: "100 cubic, codel, 10gbit",
        rate: "10gbit",
        qdisc: "codel",
        flows: &[("cubic", 100)],
        part: Duration::from_millis(100),
    },
];

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Part {
    /// Full packets delivered.
    pub(super) packets: f64,
    /// On the wall, and of the processor.
    pub(super) real_ns: f64,
    pub(super) processor_ns: f64,
}

/// The row that parts of a run make.
pub(super) fn row(name: &str, world: &'static str, parts: &[Part]) -> Row {
    let ns: Vec<f64> = parts.iter().map(|part| part.processor_ns / part.packets).collect();
    let per_second: Vec<f64> = parts.iter().map(|part| part.packets * 1e9 / part.real_ns).collect();
    Row {
        name: name.to_owned(),
        world,
        ns_per_packet: median(&ns),
        packets_per_second: median(&per_second),
        ..Row::default()
    }
}

/// Measures all rows, each throughput for `seconds`. `progress` hears how much is done, of how much, and what is next.
/// Stops between two parts of a run when `stop` is set, with the rows so far.
///
/// # Errors
/// When a network cannot be built, or flows do not come to their end.
pub fn run(
    seconds: Duration,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize, &str) + Sync),
) -> Result<Bench<Row>, BenchSimError> {
    let mut bench = Bench { bench: "sim", machine: machine(), rows: Vec::new() };
    let total = SETTINGS.len() + 3;
    progress(0, total, "idle flows");
    // First, while the process has no memory of another row's to use again.
    let memory = many(stop)?;
    for (done, setting) in SETTINGS.iter().enumerate() {
        progress(done + 1, total, setting.name);
        if !stop.load(Ordering::Relaxed) {
            bench.rows.push(throughput(setting, seconds, stop)?);
        }
    }
    bench.rows.extend(memory);
    progress(SETTINGS.len() + 1, total, NS3);
    if !stop.load(Ordering::Relaxed) {
        let program = Program::compile();
        for (done, (name, hosts)) in [(NS3, Hosts::Shared), (DUMBBELL, Hosts::Own)].into_iter().enumerate() {
            progress(SETTINGS.len() + 1 + done, total, name);
            bench.rows.push(match &program {
                Ok(program) => beside(program, name, hosts, seconds, stop)?,
                Err(error) => unmeasured(name, error),
            });
        }
    }
    Ok(bench)
}

fn unmeasured(name: &str, why: &Ns3Error) -> Row {
    Row { name: name.to_owned(), world: "ns-3", note: Some(why.to_string()), ..Row::default() }
}

/// Measures ns-3 and the same scenario here alternately, for `seconds` each in total.
fn beside(
    program: &Program,
    name: &str,
    hosts: Hosts,
    seconds: Duration,
    stop: &AtomicBool,
) -> Result<Row, BenchSimError> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let ours = throughput(&SETTINGS[0], seconds / ROUNDS, stop)?.ns_per_packet;
        match program.run(hosts, seconds / ROUNDS, stop) {
            Ok(parts) => rounds.push((ours, parts)),
            Err(error) => return Ok(unmeasured(name, &error)),
        }
    }
    Ok(compared(name, &rounds))
}

/// How much more of the processor's time a packet takes in ns-3, round by round, so that a slow moment of the machine
/// strikes both. By the processor's time, since a part of ns-3's run is less likely to have the processor for itself
/// the longer it is.
fn compared(name: &str, rounds: &[(Option<f64>, Vec<Part>)]) -> Row {
    let ratios: Vec<f64> = rounds
        .iter()
        .filter_map(|(ours, parts)| Some(row(name, "ns-3", parts).ns_per_packet? / (*ours)?))
        .collect();
    let all: Vec<Part> = rounds.iter().flat_map(|(_, parts)| parts).copied().collect();
    Row {
        vs: (!ratios.is_empty()).then_some(CUBIC),
        ratio: median(&ratios),
        spread: quantile(&ratios, 0.25).zip(quantile(&ratios, 0.75)).map(|(low, high)| [low, high]),
        ..row(name, "ns-3", &all)
    }
}

fn network(rate: &str, qdisc: &str) -> Result<(Network<()>, HopId), BenchSimError> {
    let mut network = Network::new(Seed::default(), ());
    let rate = rate.parse().expect("a rate of this file");
    let qdisc = qdisc.parse().expect("a discipline of this file");
    let hop = network.add_hop(HopSpec::new(rate, qdisc, RTT).map_err(SpecError::Qdisc)?);
    Ok((network, hop))
}

fn throughput(setting: &Setting, seconds: Duration, stop: &AtomicBool) -> Result<Row, BenchSimError> {
    let (mut network, hop) = network(setting.rate, setting.qdisc)?;
    for (controller, count) in setting.flows {
        for _ in 0..*count {
            network.add_flow(FlowSpec::tcp(controller, hop, RTT)?)?;
        }
    }
    network.run_until(Time::ZERO + WARM_UP);
    let mut parts = Vec::new();
    let began = now(libc::CLOCK_MONOTONIC);
    let (mut real, mut processor) = (began, now(libc::CLOCK_THREAD_CPUTIME_ID));
    let mut packets = network.hop(hop).packets;
    while real - began < seconds.as_nanos() as f64 && !stop.load(Ordering::Relaxed) {
        network.run_until(network.now() + setting.part);
        let (end, used) = (now(libc::CLOCK_MONOTONIC), now(libc::CLOCK_THREAD_CPUTIME_ID));
        let sent = network.hop(hop).packets;
        parts.push(Part {
            packets: (sent - packets) as f64,
            real_ns: end - real,
            processor_ns: used - processor,
        });
        (real, processor, packets) = (end, used, sent);
    }
    let simulated = network.now().since(Time::ZERO + WARM_UP).as_nanos() as f64;
    let row = row(setting.name, "sim", &parts);
    if parts.is_empty() {
        return Ok(row);
    }
    // With the slower parts too: this is how long a user waits.
    Ok(Row { vs: Some("the clock"), ratio: Some(simulated / (real - began)), ..row })
}

/// Memory of a million flows that are set up, and of a million that have run and are done.
fn many(stop: &AtomicBool) -> Result<Vec<Row>, BenchSimError> {
    let (mut network, hop) = network("10gbit", "codel")?;
    let before = resident();
    let per_flow = || before.zip(resident()).map(|(before, now)| (now - before) / f64::from(MANY));
    let spec = |number: u64| -> Result<FlowSpec, SpecError> {
        let start = Duration::from_micros(1_000 + 10 * number);
        Ok(FlowSpec::tcp("cubic", hop, RTT)?.amount(Amount::Bytes(SHORT)).start(start))
    };
    let mut flows = Vec::new();
    for number in 0..u64::from(MANY) {
        flows.push(network.add_flow(spec(number)?)?);
    }
    let idle = Row {
        name: "1000000 flows idle".to_owned(),
        world: "sim",
        bytes_per_flow: per_flow(),
        ..Row::default()
    };
    let (real, processor) = (now(libc::CLOCK_MONOTONIC), now(libc::CLOCK_THREAD_CPUTIME_ID));
    while network.now() < Time::ZERO + Duration::from_secs(60) && !stop.load(Ordering::Relaxed) {
        if network.run_until_done(network.now() + Duration::from_millis(100)) {
            break;
        }
    }
    let part = Part {
        packets: network.hop(hop).packets as f64,
        real_ns: now(libc::CLOCK_MONOTONIC) - real,
        processor_ns: now(libc::CLOCK_THREAD_CPUTIME_ID) - processor,
    };
    let left = flows.iter().filter(|flow| network.flow(**flow).finished.is_none()).count();
    if left > 0 && !stop.load(Ordering::Relaxed) {
        return Err(BenchSimError::Unfinished { left, seconds: network.now().as_secs_f64() });
    }
    let name = format!("1000000 flows of {SHORT} bytes");
    Ok(vec![idle, Row { bytes_per_flow: per_flow(), ..row(&name, "sim", &[part]) }])
}

/// Bytes of this process that are in memory.
fn resident() -> Option<f64> {
    let sizes = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: f64 = sizes.split(' ').nth(1)?.parse().ok()?;
    // SAFETY: asks for a constant.
    Some(pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as f64)
}

#[cfg(test)]
mod tests {
    use super::{CUBIC, NS3, Part, compared, row};

    #[test]
    fn the_part_in_the_middle_makes_a_row() {
        let part = |real_ns, processor_ns| Part { packets: 100.0, real_ns, processor_ns };
        // The machine was busy with something else in one part, and slow in another.
        let parts = [part(20_000.0, 10_000.0), part(11_000.0, 10_900.0), part(50_000.0, 30_000.0)];
        let row = row("x", "sim", &parts);
        assert_eq!((row.packets_per_second, row.ns_per_packet), (Some(100.0 * 1e9 / 20_000.0), Some(109.0)));
        assert_eq!(super::row("x", "sim", &[]).packets_per_second, None);
    }

    #[test]
    fn ns3_is_compared_round_by_round() {
        let round = |ours, theirs| {
            let part = Part { packets: 1.0, real_ns: theirs, processor_ns: theirs };
            (Some(ours), vec![part, part])
        };
        // The machine was slow in the second round.
        let rounds = [round(100.0, 20_000.0), round(300.0, 60_000.0), round(100.0, 21_000.0)];
        let row = compared(NS3, &rounds);
        assert_eq!((row.vs, row.ratio, row.ns_per_packet), (Some(CUBIC), Some(200.0), Some(21_000.0)));
        let row = compared(NS3, &[]);
        assert!(row.ratio.is_none() && row.vs.is_none() && row.ns_per_packet.is_none());
    }
}
