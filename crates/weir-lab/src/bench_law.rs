//! What the responsiveness law costs in the kernel: nanoseconds for a packet, bytes for a flow, and throughput of a router
//! with and without it, in one run.
//!
//! Nanoseconds are those of BPF_PROG_TEST_RUN over packets of established flows: the median of repeated runs. The kernel's
//! own loop around the program is in them; the row `nothing` tells what it takes. Beside them stands the approach of the
//! CRQ paper's public prototype, several hash maps per packet, as `bpf/lookups.bpf.c` repeats it without its code.

use std::fmt::Write;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use libbpf_rs::ProgramInput;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use serde::Serialize;
use thiserror::Error;
use weir_core::{Duration, Rate};
use weir_law::Params;
use weir_law::live::{BUCKET_BYTES, BUCKET_FLOWS, FILTER_BYTES, WAITING_BYTES};
use weir_link::kernel::attach::{Place, Side};
use weir_link::kernel::{Held, KernelError, ProgramConfig, Programs, Role, TestPacket, identify};

use crate::bench_link::{self, BenchError, Forwarding};
use crate::host::Topology;

#[allow(missing_docs, unreachable_pub, dead_code, unsafe_op_in_unsafe_fn, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/lookups.skel.rs"));
}

/// Flows of each kind that packets are measured over.
const FLOWS: u16 = 64;
/// Packets of one measurement of one flow.
const REPEAT: u32 = 20_000;
/// Measurements of each flow; the median of all is the row.
const ROUNDS: usize = 5;
/// Pairs of runs with and without the classifier.
const PAIRS: usize = 5;
/// Out of reach, so that the processors are the limit.
const FORWARDING_RATE: Rate = Rate::from_bits_per_sec(10_000_000_000);
/// Entries of the table that is measured: that of `weir up`.
const TABLE: u32 = 65_536;

/// A row that could not be measured.
#[derive(Debug, Error)]
pub enum BenchLawError {
    /// The programs could not be loaded or run.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The yardstick could not be loaded or run.
    #[error("the comparison's program could not {what}: {source}")]
    Lookups {
        /// What failed.
        what: &'static str,
        /// Why.
        source: libbpf_rs::Error,
    },
    /// The router could not be measured.
    #[error(transparent)]
    Forwarding(#[from] BenchError),
}

/// One row.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// What was measured.
    pub name: String,
    /// `kernel`.
    pub world: &'static str,
    /// Time for a packet, the measuring loop included: of one program, or for `forwarding` of all processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns_per_packet: Option<f64>,
    /// Data packets of 1448 bytes that arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets_per_second: Option<f64>,
    /// Kernel memory for each flow that the table has room for, the waiting lines and the filter included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_flow: Option<f64>,
    /// The row that this one is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vs: Option<&'static str>,
    /// Beside that row: packets per second where both have them, else nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

/// All rows.
#[derive(Clone, Debug, Serialize)]
pub struct Bench {
    /// `law`.
    pub bench: &'static str,
    /// Kernel and processors.
    pub machine: String,
    /// What was measured.
    pub rows: Vec<Row>,
}

impl Bench {
    /// A table for people.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{:<24} {:>10} {:>11} {:>10} {:>22} {:>6}\n",
            "what", "ns/packet", "packets/s", "bytes/flow", "beside", "ratio"
        );
        let number = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        for row in &self.rows {
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{:<24} {:>10} {:>11} {:>10} {:>22} {:>6}",
                row.name,
                number(row.ns_per_packet, 0),
                number(row.packets_per_second, 0),
                number(row.bytes_per_flow, 0),
                row.vs.unwrap_or("-"),
                number(row.ratio, 2),
            );
        }
        text
    }
}

/// Measures all rows; throughput for `seconds` a run. `progress` hears how many steps are done, of how many, and which is
/// next. Stops between two steps when `stop` is set, with the rows so far.
///
/// # Errors
/// When the programs are refused or the router cannot be built.
pub fn run(
    seconds: Duration,
    stop: &AtomicBool,
    progress: &dyn Fn(usize, usize, &str),
) -> Result<Bench, BenchLawError> {
    let stopped = || stop.load(Ordering::Relaxed);
    let total = 2 + 2 * PAIRS;
    let mut bench = Bench { bench: "law", machine: bench_link::machine(), rows: Vec::new() };
    progress(0, total, "programs");
    bench.rows.extend(programs()?);
    progress(1, total, "look-ups");
    bench.rows.extend(lookups(&bench.rows)?);
    let [mut without, mut with] = [Vec::new(), Vec::new()];
    for pair in 0..PAIRS {
        // The order alternates, so that neither always has the warmer machine.
        for second in [false, true] {
            if stopped() {
                return Ok(bench);
            }
            let classified = second != (pair % 2 == 1);
            let name = if classified { "forwarding-classified" } else { "forwarding" };
            progress(2 + 2 * pair + usize::from(second), total, name);
            let runs = if classified { &mut with } else { &mut without };
            runs.extend(forwarding(name, classified, seconds, stop)?);
        }
    }
    bench.rows.extend(throughput(&without, &with));
    Ok(bench)
}

/// The middle one.
fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The programs of `weir up` on packets of flows that have an entry, and on packets that have none.
fn programs() -> Result<Vec<Row>, BenchLawError> {
    let config = ProgramConfig { can_mark: true, ..ProgramConfig::new(Params::default(), TABLE, 1, 1) };
    let programs = Programs::load(&config)?;
    let mut rows = Vec::new();
    for (name, role, make) in [
        ("tcp", Role::Forward, tcp as fn(u16) -> Vec<u8>),
        ("tcp-ack", Role::Reverse, tcp_ack),
        ("quic", Role::Forward, quic),
        ("quic-reverse", Role::Reverse, quic_reverse),
        ("udp", Role::Forward, udp),
        ("other", Role::Forward, icmp),
    ] {
        for flow in 0..FLOWS {
            establish(&programs, flow)?;
        }
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            for flow in 0..FLOWS {
                let frame = make(flow);
                let packet = TestPacket { frame: &frame, ..TestPacket::default() };
                times.push(programs.test_run(role, &packet, REPEAT)?.duration.as_nanos() as f64);
            }
        }
        let ns_per_packet = median(&mut times);
        rows.push(Row { name: name.to_owned(), world: "kernel", ns_per_packet, ..Row::default() });
    }
    let bytes = (BUCKET_BYTES + WAITING_BYTES) as f64 / BUCKET_FLOWS as f64;
    let bytes_per_flow = Some(bytes + FILTER_BYTES as f64 / f64::from(TABLE));
    rows.push(Row { name: "flow".to_owned(), world: "kernel", bytes_per_flow, ..Row::default() });
    Ok(rows)
}

/// Shows both directions of a TCP and a QUIC flow until they have an entry.
fn establish(programs: &Programs, flow: u16) -> Result<(), KernelError> {
    for frame in [tcp_ack(flow), quic_reverse(flow)] {
        programs.test_run(Role::Reverse, &TestPacket { frame: &frame, ..TestPacket::default() }, 1)?;
    }
    for frame in [tcp(flow), quic(flow)] {
        programs.test_run(Role::Forward, &TestPacket { frame: &frame, ..TestPacket::default() }, 16)?;
    }
    Ok(())
}

/// One measurement of a program of the yardstick.
type Timed = fn(&mut skeleton::LookupsSkel<'_>, ProgramInput<'_>) -> libbpf_rs::Result<std::time::Duration>;

/// The prototype's look-ups on the same packets, and the measuring itself.
fn lookups(ours: &[Row]) -> Result<Vec<Row>, BenchLawError> {
    let failed = |what| move |source| BenchLawError::Lookups { what, source };
    let mut storage = MaybeUninit::uninit();
    let open = skeleton::LookupsSkelBuilder::default().open(&mut storage).map_err(failed("be opened"))?;
    let mut loaded = open.load().map_err(failed("be loaded"))?;
    let mut time = |program: Timed, make: fn(u16) -> Vec<u8>| {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            for flow in 0..FLOWS {
                let frame = make(flow);
                // A first run makes the entries.
                for repeat in [8, REPEAT] {
                    let input = ProgramInput { data_in: Some(&frame), repeat, ..ProgramInput::default() };
                    let duration = program(&mut loaded, input).map_err(failed("run"))?;
                    if repeat == REPEAT {
                        times.push(duration.as_nanos() as f64);
                    }
                }
            }
        }
        Ok::<_, BenchLawError>(median(&mut times))
    };
    let of = |name: &str| ours.iter().find(|row| row.name == name).and_then(|row| row.ns_per_packet);
    let mut rows = Vec::new();
    let mut add = |name: &str, vs: Option<&'static str>, ns_per_packet: Option<f64>| {
        let ratio = vs.and_then(|vs| Some(ns_per_packet? / of(vs)?));
        rows.push(Row { name: name.to_owned(), world: "kernel", ns_per_packet, vs, ratio, ..Row::default() });
    };
    add("nothing", None, time(|it, input| Ok(it.progs.nothing.test_run(input)?.duration), tcp)?);
    for (kind, make) in [("tcp", tcp as fn(u16) -> Vec<u8>), ("quic", quic)] {
        add(
            &format!("look-ups {kind}"),
            Some(kind),
            time(|it, input| Ok(it.progs.classifier.test_run(input)?.duration), make)?,
        );
        let with_probes = time(|it, input| Ok(it.progs.with_probes.test_run(input)?.duration), make)?;
        add(&format!("look-ups {kind}, probes"), Some(kind), with_probes);
    }
    Ok(rows)
}

/// One run of a router; `None` if it was stopped.
fn forwarding(
    name: &'static str,
    classified: bool,
    seconds: Duration,
    stop: &AtomicBool,
) -> Result<Option<Forwarding>, BenchLawError> {
    let classify = move |topology: &Topology| -> Result<Box<dyn std::any::Any>, BenchError> {
        if !classified {
            return Ok(Box::new(()));
        }
        let device = &topology.bottleneck_client_iface;
        let attached = topology
            .bottleneck
            .enter(|| attach_to(device))?
            .map_err(|error| BenchError::Flow { row: name, message: error.to_string() })?;
        Ok(Box::new(attached))
    };
    Ok(bench_link::forwarding(name, FORWARDING_RATE, seconds, stop, &classify)?)
}

/// Puts the programs before the queue of `device`, in the network namespace of the calling thread, for as long as what it
/// returns is kept.
fn attach_to(device: &str) -> Result<(Programs, Held), KernelError> {
    let (ifindex, netns) = identify(device)?;
    let programs = Programs::load(&ProgramConfig::new(Params::default(), TABLE, ifindex, netns))?;
    let held = programs.hold(&[
        Place { role: Role::Reverse, ifindex, side: Side::Ingress },
        Place { role: Role::Forward, ifindex, side: Side::Egress },
    ])?;
    Ok((programs, held))
}

fn throughput(without: &[Forwarding], with: &[Forwarding]) -> Vec<Row> {
    let row = |name: &str, runs: &[Forwarding]| Row {
        name: name.to_owned(),
        world: "kernel",
        ns_per_packet: median(&mut runs.iter().map(|run| run.ns_per_packet).collect::<Vec<_>>()),
        packets_per_second: median(&mut runs.iter().map(|run| run.packets_per_second).collect::<Vec<_>>()),
        ..Row::default()
    };
    let plain = row("forwarding", without);
    let mut classified = row("forwarding-classified", with);
    classified.vs = Some("forwarding");
    classified.ratio =
        classified.packets_per_second.zip(plain.packets_per_second).map(|(with, without)| with / without);
    vec![plain, classified]
}

const SERVER: [u8; 4] = [10, 0, 0, 1];
const CLIENT: [u8; 4] = [10, 0, 0, 2];

/// An Ethernet frame with an IPv4 packet; checksums are nobody's business here.
fn frame(protocol: u8, from: [u8; 4], to: [u8; 4], transport: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let length = (20 + transport.len()) as u16;
    frame.extend([0x45, 0]);
    frame.extend(length.to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, protocol, 0, 0]);
    frame.extend(from);
    frame.extend(to);
    frame.extend(transport);
    frame
}

fn ports(from: u16, to: u16) -> Vec<u8> {
    [from.to_be_bytes(), to.to_be_bytes()].concat()
}

fn segment(from: u16, to: u16, seq: u32, ack: u32, payload: usize) -> Vec<u8> {
    let mut segment = ports(from, to);
    segment.extend(seq.to_be_bytes());
    segment.extend(ack.to_be_bytes());
    // 32 bytes of header, ACK; two NOPs and timestamps, as Linux sends them.
    segment.extend([0x80, 0x10, 0xff, 0xff, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1]);
    segment.resize(segment.len() + payload, 0);
    segment
}

fn datagram(from: u16, to: u16, first: u8) -> Vec<u8> {
    const PAYLOAD: u16 = 1200;
    let mut datagram = ports(from, to);
    datagram.extend((8 + PAYLOAD).to_be_bytes());
    datagram.extend([0, 0, first]);
    datagram.resize(usize::from(8 + PAYLOAD), 0);
    datagram
}

fn tcp(flow: u16) -> Vec<u8> {
    frame(6, SERVER, CLIENT, &segment(443, 40_000 + flow, 1, 1, 1448))
}

fn tcp_ack(flow: u16) -> Vec<u8> {
    frame(6, CLIENT, SERVER, &segment(40_000 + flow, 443, 1, 1, 0))
}

fn quic(flow: u16) -> Vec<u8> {
    frame(17, SERVER, CLIENT, &datagram(443, 50_000 + flow, 0x40))
}

fn quic_reverse(flow: u16) -> Vec<u8> {
    frame(17, CLIENT, SERVER, &datagram(50_000 + flow, 443, 0x40))
}

fn udp(flow: u16) -> Vec<u8> {
    frame(17, SERVER, CLIENT, &datagram(5001, 50_000 + flow, 0x00))
}

fn icmp(_: u16) -> Vec<u8> {
    frame(1, SERVER, CLIENT, &[0; 64])
}

#[cfg(test)]
mod tests {
    use weir_law::{Kind, Start, parse};

    use super::{Bench, Row, icmp, median, quic, quic_reverse, tcp, tcp_ack, udp};

    #[test]
    fn frames_are_what_they_are_called() {
        for (frame, kind) in [
            (tcp(3), Kind::Tcp),
            (tcp_ack(3), Kind::Tcp),
            (quic(3), Kind::Quic),
            (quic_reverse(3), Kind::Quic),
            (udp(3), Kind::Udp),
            (icmp(3), Kind::Other),
        ] {
            assert_eq!(parse(&frame, Start::Ethernet).kind(), kind);
        }
    }

    #[test]
    fn the_middle_one_counts() {
        assert_eq!(median(&mut [3.0, 1.0, 900.0]), Some(3.0));
        assert_eq!(median(&mut []), None);
    }

    #[test]
    fn a_table_has_a_line_for_each_row() {
        let row = Row { name: "tcp".into(), world: "kernel", ns_per_packet: Some(81.4), ..Row::default() };
        let bench = Bench { bench: "law", machine: "test".into(), rows: vec![row] };
        assert!(bench.table().lines().nth(1).unwrap().starts_with("tcp "));
        let json = serde_json::to_value(&bench).unwrap();
        assert_eq!(json["rows"][0]["ns_per_packet"], 81.4);
        assert!(json["rows"][0].get("bytes_per_flow").is_none());
    }
}
