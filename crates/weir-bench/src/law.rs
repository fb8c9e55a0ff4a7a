//! What the responsiveness law costs in the kernel: nanoseconds for a packet, bytes for a flow, and throughput of a
//! router with and without it, in one run.
//!
//! Nanoseconds are those of BPF_PROG_TEST_RUN over packets of established flows: the median of repeated runs. The
//! kernel's own loop around the program is in them: the row `nothing` shows what the loop takes, and a run of `nothing`
//! after each run of a program shows the program's own part. Beside them stands the approach of the CRQ paper's public
//! prototype, several hash maps per packet, as `bpf/lookups.bpf.c` repeats it without its code. The router is that of
//! `forward.rs`.

use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;

use libbpf_rs::ProgramInput;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use thiserror::Error;
use weir_core::Duration;
use weir_kernel::{KernelError, ProgramConfig, Programs, Role, TestPacket};
use weir_law::Params;
use weir_law::live::{BUCKET_BYTES, BUCKET_FLOWS, FILTER_BYTES, WAITING_BYTES};

use super::forward::{self, Measured, RouterError, TRAFFIC};
use super::frames::{icmp, quic, quic_reverse, tcp, tcp_ack, udp};
use super::{Bench, Row, machine, median, quantile};

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
    Router(#[from] RouterError),
}

/// Measures all rows; the router for `seconds`. `progress` hears how much is done, of how much, and what is next. Stops
/// between two steps when `stop` is set, with the rows so far.
///
/// # Errors
/// When the programs are refused or the router cannot be built.
pub fn run(
    seconds: Duration,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize, &str) + Sync),
) -> Result<Bench<Row>, BenchLawError> {
    let mut bench = Bench { bench: "law", machine: machine(), rows: Vec::new() };
    let total = 100;
    progress(0, total, "programs");
    let mut storage = MaybeUninit::uninit();
    let mut yardstick = Yardstick::load(&mut storage)?;
    bench.rows.extend(programs(&mut yardstick)?);
    progress(5, total, "look-ups");
    bench.rows.extend(lookups(&mut yardstick, &bench.rows)?);
    let part = |part: f64| progress(10 + (part * 90.0) as usize, total, "forwarding");
    bench.rows.extend(throughput(&forward::run(TABLE, seconds, stop, &part)?));
    Ok(bench)
}

/// The programs of `weir up` on packets of flows that have an entry, and on packets that have none.
fn programs(yardstick: &mut Yardstick<'_>) -> Result<Vec<Row>, BenchLawError> {
    let config = ProgramConfig { can_mark: true, ..ProgramConfig::new(Params::default(), TABLE, 1, 1) };
    let programs = Programs::load(&config)?;
    let (mut rows, mut nothing) = (Vec::new(), Vec::new());
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
        let (mut times, mut own) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            for flow in 0..FLOWS {
                let frame = make(flow);
                let packet = TestPacket { frame: &frame, ..TestPacket::default() };
                let time = programs.test_run(role, &packet, REPEAT)?.duration.as_nanos() as f64;
                let empty = yardstick.run(NOTHING, &frame, REPEAT)?;
                times.push(time);
                own.push(time - empty);
                nothing.push(empty);
            }
        }
        rows.push(Row { own_ns_per_packet: median(&own), ..row(name, &times) });
    }
    rows.push(row("nothing", &nothing));
    let bytes = (BUCKET_BYTES + WAITING_BYTES) as f64 / BUCKET_FLOWS as f64;
    let bytes_per_flow = Some(bytes + FILTER_BYTES as f64 / f64::from(TABLE));
    rows.push(Row { name: "flow".to_owned(), world: "kernel", bytes_per_flow, ..Row::default() });
    Ok(rows)
}

/// Shows both directions of a TCP and a QUIC flow until they have an entry: payload makes a candidate, an answer lets
/// it stay, and its next packet admits it.
fn establish(programs: &Programs, flow: u16) -> Result<(), KernelError> {
    let run = |role, frame: &[u8], count| {
        programs.test_run(role, &TestPacket { frame, ..TestPacket::default() }, count).map(drop)
    };
    for (forward, reverse) in [(tcp(flow), tcp_ack(flow)), (quic(flow), quic_reverse(flow))] {
        run(Role::Forward, &forward, 16)?;
        run(Role::Reverse, &reverse, 1)?;
        run(Role::Forward, &forward, 1)?;
    }
    Ok(())
}

/// A program's row.
fn row(name: &str, times: &[f64]) -> Row {
    Row { name: name.to_owned(), world: "kernel", ns_per_packet: median(times), ..Row::default() }
}

/// One measurement of a program of the yardstick.
type Timed = fn(&mut skeleton::LookupsSkel<'_>, ProgramInput<'_>) -> libbpf_rs::Result<std::time::Duration>;

/// The measuring itself.
const NOTHING: Timed = |it, input| Ok(it.progs.nothing.test_run(input)?.duration);

/// The programs that others are compared with.
struct Yardstick<'o>(skeleton::LookupsSkel<'o>);

impl<'o> Yardstick<'o> {
    fn load(storage: &'o mut MaybeUninit<libbpf_rs::OpenObject>) -> Result<Self, BenchLawError> {
        let failed = |what| move |source| BenchLawError::Lookups { what, source };
        let open = skeleton::LookupsSkelBuilder::default().open(storage).map_err(failed("be opened"))?;
        Ok(Self(open.load().map_err(failed("be loaded"))?))
    }

    /// Nanoseconds for a packet.
    fn run(&mut self, program: Timed, frame: &[u8], repeat: u32) -> Result<f64, BenchLawError> {
        let input = ProgramInput { data_in: Some(frame), repeat, ..ProgramInput::default() };
        let duration = program(&mut self.0, input);
        let duration = duration.map_err(|source| BenchLawError::Lookups { what: "run", source })?;
        Ok(duration.as_nanos() as f64)
    }
}

/// The prototype's look-ups on the same packets, beside our rows.
fn lookups(yardstick: &mut Yardstick<'_>, ours: &[Row]) -> Result<Vec<Row>, BenchLawError> {
    let classifier: Timed = |it, input| Ok(it.progs.classifier.test_run(input)?.duration);
    let with_probes: Timed = |it, input| Ok(it.progs.with_probes.test_run(input)?.duration);
    let mut rows = Vec::new();
    for (kind, make) in [("tcp", tcp as fn(u16) -> Vec<u8>), ("quic", quic)] {
        let beside = ours.iter().find(|row| row.name == kind).and_then(|row| row.ns_per_packet);
        for (what, program) in [("", classifier), (", probes", with_probes)] {
            let mut times = Vec::new();
            for _ in 0..ROUNDS {
                for flow in 0..FLOWS {
                    let frame = make(flow);
                    // The first run makes the entries.
                    yardstick.run(program, &frame, 8)?;
                    times.push(yardstick.run(program, &frame, REPEAT)?);
                }
            }
            let row = row(&format!("look-ups {kind}{what}"), &times);
            let ratio = row.ns_per_packet.zip(beside).map(|(theirs, ours)| theirs / ours);
            rows.push(Row { vs: Some(kind), ratio, ..row });
        }
    }
    Ok(rows)
}

/// The router's rows, each without and with the law.
fn throughput(measured: &Measured) -> Vec<Row> {
    let row = |name: &str, times: &[f64]| {
        let packets_per_second = median(times).map(|ns| 1e9 / ns);
        Row { packets_per_second, ..row(name, times) }
    };
    let mut rows = vec![row("generator", &measured.generator)];
    for (traffic, pairs) in TRAFFIC.iter().zip(&measured.pairs) {
        let [plain_name, law_name] = traffic.names;
        let plain: Vec<f64> = pairs.iter().map(|pair| pair.without).collect();
        let law: Vec<f64> = pairs.iter().map(|pair| pair.with).collect();
        let ratios: Vec<f64> = plain.iter().zip(&law).map(|(plain, law)| plain / law).collect();
        rows.push(row(plain_name, &plain));
        let spread = quantile(&ratios, 0.25).zip(quantile(&ratios, 0.75)).map(|(low, high)| [low, high]);
        rows.push(Row { vs: Some(plain_name), ratio: median(&ratios), spread, ..row(law_name, &law) });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::forward::{Measured, Pair, TRAFFIC};
    use super::throughput;

    #[test]
    fn pairs_are_compared_with_each_other() {
        // The machine got slower from pair to pair; the law always cost a quarter more.
        let pair = |slower: f64| Pair { without: 400.0 * slower, with: 500.0 * slower };
        let pairs = TRAFFIC.map(|_| [1.0, 2.0, 7.0].map(pair).to_vec());
        let rows = throughput(&Measured { generator: vec![50.0], pairs, ..Measured::default() });
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names[0], "generator");
        assert_eq!(names[1..], TRAFFIC.iter().flat_map(|traffic| traffic.names).collect::<Vec<_>>());
        assert_eq!((rows[2].ns_per_packet, rows[2].packets_per_second), (Some(1000.0), Some(1e6)));
        assert_eq!((rows[2].vs, rows[2].ratio), (Some("forwarding"), Some(0.8)));
        assert_eq!(rows[2].spread, Some([0.8, 0.8]));
    }
}
