//! A router of the kernel, with and without the law's programs before its queue, at the same time in the same tree.
//!
//! The generator is the kernel's own: BPF_PROG_TEST_RUN with live frames (Linux 5.18) makes frames and hands them to the
//! network stack as if an interface had received them, all in the calling thread. From there on they take the way of every
//! forwarded packet: routing, the hook before the queue, HTB, bfifo, the interface. At the far end of the interface they
//! are consumed. There is no sender that could wait for a socket, no receiver that could be late, no acknowledgement that
//! sets a pace: the thread's processor time is the router's and the generator's, whatever else the machine does.
//!
//! Both arms are the same router: the programs are attached for one visit and gone for the next. The visits alternate every
//! few hundredths of a second, and each pair is compared by itself, so that a slower moment of the machine strikes both.
//! All packets take the standard class, by the law's word or by HTB's default, and every one has to come out.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, ProgramInput, TC_INGRESS, TcHookBuilder};
use thiserror::Error;
use weir_core::Duration;
use weir_law::Params;
use weir_link::kernel::attach::{Place, Side};
use weir_link::kernel::{KernelError, ProgramConfig, Programs, Role, identify};

use super::frames::{ENVELOPE, tcp, tcp_ack};
use super::now;
use crate::host::{HostError, Namespace, Topology, TopologySpec};

#[allow(missing_docs, unreachable_pub, dead_code, unsafe_op_in_unsafe_fn, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/generate.skel.rs"));
}

use skeleton::GenerateSkel;

/// Data frames of one call; the kernel makes 64 at a time. An even number of rounds over all flows.
const FRAMES: u32 = 8192;
/// Every other data frame is acknowledged.
const ACKS: u32 = FRAMES / 2;
/// Calls of a visit that count; one more goes before them, so that caches and flows are warm.
const CALLS: u32 = 4;
/// BPF_F_TEST_XDP_LIVE_FRAMES (include/uapi/linux/bpf.h).
const LIVE_FRAMES: u32 = 2;
/// Out of reach of one processor: HTB never holds a packet back.
const RATE: &str = "100gbit";
/// Far more than waits here.
const LIMIT: &str = "4000000";

/// A router that could not be measured.
#[derive(Debug, Error)]
pub enum RouterError {
    /// The hosts could not be built.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The law's programs could not be loaded or attached.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The generator does not run here.
    #[error("the packet generator could not {what}: {source}; it takes Linux 5.18")]
    Generator {
        /// What failed.
        what: &'static str,
        /// Why.
        source: libbpf_rs::Error,
    },
    /// Not all packets came out of the router as they should.
    #[error("of {sent} {what} that were sent into the router {left} came out; nothing may be concluded")]
    Lost {
        /// Which.
        what: &'static str,
        /// Packets in.
        sent: u64,
        /// Packets out.
        left: u64,
    },
}

/// Processor time for a frame, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    /// For data through the queue.
    pub(super) data_ns: f64,
    /// For an acknowledgement in the other direction, where no queue is.
    pub(super) ack_ns: f64,
}

impl Visit {
    /// For each data packet.
    pub(super) fn data(&self) -> f64 {
        self.data_ns
    }

    /// For each packet of either direction, one acknowledgement to two data packets.
    pub(super) fn both(&self) -> f64 {
        (self.data_ns * f64::from(FRAMES) + self.ack_ns * f64::from(ACKS)) / f64::from(FRAMES + ACKS)
    }
}

/// Two visits in a row, in whichever order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    /// The router alone.
    pub(super) without: Visit,
    /// With the law.
    pub(super) with: Visit,
}

/// All that was measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// What making a data frame and giving it back takes, in nanoseconds: it is part of every visit.
    pub(super) generator: Vec<f64>,
    /// The router.
    pub(super) pairs: Vec<Pair>,
}

/// Measures pairs of visits for `seconds`, with a table for `flows`. `progress` hears which part is done. Stops early when
/// `stop` is set.
///
/// # Errors
/// When the router cannot be built, the kernel has no live frames, or packets were lost.
pub(super) fn run(
    flows: u32,
    seconds: Duration,
    stop: &AtomicBool,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Measured, RouterError> {
    let topology = Topology::build_forwarding(&TopologySpec::default(), &[])?;
    let (device, other) = (&topology.bottleneck_client_iface, &topology.bottleneck_server_iface);
    topology.bottleneck.tc(&[
        format!("qdisc add dev {device} root handle 57e1: htb default 2"),
        format!("class add dev {device} parent 57e1: classid 57e1:ffff htb rate {RATE} quantum 200000"),
        format!("class add dev {device} parent 57e1:ffff classid 57e1:1 htb rate {RATE} quantum 200000"),
        format!("qdisc add dev {device} parent 57e1:1 handle 57e2: bfifo limit {LIMIT}"),
        format!("class add dev {device} parent 57e1:ffff classid 57e1:2 htb rate {RATE} quantum 200000"),
        format!("qdisc add dev {device} parent 57e1:2 handle 57e3: bfifo limit {LIMIT}"),
    ])?;
    let measured = topology.bottleneck.enter(|| {
        let mut storage = MaybeUninit::uninit();
        let router = Router::new(&topology, flows, &mut storage)?;
        let mut measured = Measured::default();
        let began = now(libc::CLOCK_MONOTONIC);
        let whole = seconds.as_nanos() as f64;
        while !stop.load(Ordering::Relaxed) {
            let done = (now(libc::CLOCK_MONOTONIC) - began) / whole;
            if done >= 1.0 && !measured.pairs.is_empty() {
                break;
            }
            progress(done.min(1.0));
            measured.generator.push(router.idle()?);
            // The order alternates, so that neither always comes second.
            measured.pairs.push(if measured.pairs.len().is_multiple_of(2) {
                let without = router.visit(false)?;
                Pair { without, with: router.visit(true)? }
            } else {
                let with = router.visit(true)?;
                Pair { with, without: router.visit(false)? }
            });
        }
        let visits = 2 * measured.pairs.len() as u64;
        router.check("data packets", device, visits * u64::from((CALLS + 1) * FRAMES))?;
        router.check("acknowledgements", other, visits * u64::from((CALLS + 1) * ACKS))?;
        Ok::<_, RouterError>((measured, visits))
    })?;
    let (measured, visits) = measured?;
    let (sent, left) = (visits * u64::from((CALLS + 1) * FRAMES), standard(&topology.bottleneck, device)?);
    if left != sent {
        return Err(RouterError::Lost { what: "data packets, in the standard class,", sent, left });
    }
    Ok(measured)
}

/// A direction's frames and where they come in.
struct Source {
    frame: Vec<u8>,
    /// `struct xdp_md`: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
    context: [u8; 24],
}

impl Source {
    fn new(mut frame: Vec<u8>, to: &str, from: &str, ifindex: u32) -> Self {
        for (at, address) in [(0, to), (6, from)] {
            for (byte, text) in frame[at..at + 6].iter_mut().zip(address.split(':')) {
                *byte = u8::from_str_radix(text, 16).unwrap_or_default();
            }
        }
        let mut context = [0; 24];
        context[4..8].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
        context[12..16].copy_from_slice(&ifindex.to_ne_bytes());
        Self { frame, context }
    }
}

struct Router<'o> {
    generator: GenerateSkel<'o>,
    programs: Programs,
    places: [Place; 2],
    data: Source,
    acks: Source,
    _edges: Vec<Link>,
}

impl<'o> Router<'o> {
    /// Prepares the router's interfaces; in its namespace.
    fn new(
        topology: &Topology,
        flows: u32,
        storage: &'o mut MaybeUninit<libbpf_rs::OpenObject>,
    ) -> Result<Self, RouterError> {
        let failed = |what| move |source| RouterError::Generator { what, source };
        let [server_mac, client_mac] = topology.bottleneck_macs();
        let (server_side, _) = identify(&topology.bottleneck_server_iface)?;
        let (client_side, netns) = identify(&topology.bottleneck_client_iface)?;
        let data = Source::new(tcp(0), &server_mac, &client_mac, server_side);
        let acks = Source::new(tcp_ack(0), &client_mac, &server_mac, client_side);

        let mut open = skeleton::GenerateSkelBuilder::default().open(storage).map_err(failed("be opened"))?;
        if let Some(bss) = open.maps.bss_data.as_deref_mut() {
            bss.envelopes.data.copy_from_slice(&data.frame[..ENVELOPE]);
            bss.envelopes.acks.copy_from_slice(&acks.frame[..ENVELOPE]);
        }
        let generator = open.load().map_err(failed("be loaded"))?;
        let mut edges = Vec::new();
        // An interface takes frames in only if it has a program of its own. It gets the one that makes them: of a program that
        // sits nowhere the kernel rewrites its dispatcher before and after each run, and waits for all processors.
        for (program, ifindex) in [(&generator.progs.data, server_side), (&generator.progs.acks, client_side)]
        {
            let link = program.attach_xdp(ifindex as i32);
            edges.push(link.map_err(failed("prepare an interface"))?);
        }
        let swallow = generator.progs.swallow.as_fd();
        for (host, interface) in
            [(&topology.server, &topology.server_iface), (&topology.client, &topology.client_iface)]
        {
            host.enter(|| {
                let (ifindex, _) = identify(interface)?;
                let mut hook = TcHookBuilder::new(swallow).ifindex(ifindex as i32).hook(TC_INGRESS);
                let attached = hook.create().and_then(|mut hook| hook.attach());
                attached.map(drop).map_err(failed("take packets in at the far end"))
            })??;
        }
        Ok(Self {
            generator,
            programs: Programs::load(&ProgramConfig::new(Params::default(), flows, client_side, netns))?,
            places: [
                Place { role: Role::Reverse, ifindex: client_side, side: Side::Ingress },
                Place { role: Role::Forward, ifindex: client_side, side: Side::Egress },
            ],
            data,
            acks,
            _edges: edges,
        })
    }

    /// Runs a program for frames of `source`, and hands back the processor time for one, in nanoseconds.
    fn send(
        &self,
        program: &libbpf_rs::ProgramMut<'_>,
        source: &Source,
        frames: u32,
    ) -> Result<f64, RouterError> {
        let mut context = source.context;
        let before = now(libc::CLOCK_THREAD_CPUTIME_ID);
        program
            .test_run(ProgramInput {
                context_in: Some(&mut context),
                data_in: Some(&source.frame),
                flags: LIVE_FRAMES,
                repeat: frames,
                ..ProgramInput::default()
            })
            .map_err(|source| RouterError::Generator { what: "send", source })?;
        Ok((now(libc::CLOCK_THREAD_CPUTIME_ID) - before) / f64::from(frames))
    }

    /// The generator by itself.
    fn idle(&self) -> Result<f64, RouterError> {
        self.send(&self.generator.progs.nothing, &self.data, FRAMES)
    }

    fn visit(&self, with_law: bool) -> Result<Visit, RouterError> {
        let _held = if with_law { Some(self.programs.hold(&self.places)?) } else { None };
        let mut visit = Visit { data_ns: 0.0, ack_ns: 0.0 };
        for call in 0..=CALLS {
            let data = self.send(&self.generator.progs.data, &self.data, FRAMES)?;
            let acks = self.send(&self.generator.progs.acks, &self.acks, ACKS)?;
            if call > 0 {
                visit.data_ns += data / f64::from(CALLS);
                visit.ack_ns += acks / f64::from(CALLS);
            }
        }
        Ok(visit)
    }

    /// Whether all that was sent left by an interface of the calling thread's namespace.
    fn check(&self, what: &'static str, interface: &str, sent: u64) -> Result<(), RouterError> {
        let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
        let line =
            table.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'));
        // Behind eight columns of what was received: bytes, packets.
        let left = line.unwrap_or_default().split_whitespace().nth(9).and_then(|count| count.parse().ok());
        let left = left.unwrap_or(0);
        if left == sent { Ok(()) } else { Err(RouterError::Lost { what, sent, left }) }
    }
}

/// Packets that left the standard queue.
fn standard(namespace: &Namespace, device: &str) -> Result<u64, HostError> {
    let output = namespace
        .command("tc")?
        .args(["-s", "-j", "qdisc", "show", "dev", device])
        .output()
        .map_err(|source| HostError::Program { program: "tc".to_owned(), source })?;
    let qdiscs: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let queue = qdiscs.iter().find(|qdisc| qdisc["handle"] == "57e3:");
    Ok(queue.and_then(|queue| queue["packets"].as_u64()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use weir_core::Duration;

    use super::super::frames::tcp;
    use super::{ACKS, FRAMES, Source, Visit, run};

    #[test]
    fn frames_are_addressed_to_the_router() {
        let source = Source::new(tcp(0), "02:57:45:49:52:02", "02:57:45:49:52:03", 7);
        assert_eq!(source.frame[..6], [2, 0x57, 0x45, 0x49, 0x52, 2]);
        assert_eq!(source.frame[6..12], [2, 0x57, 0x45, 0x49, 0x52, 3]);
        assert_eq!(source.frame[12..], tcp(0)[12..]);
        assert_eq!(source.context[4..8], 1514u32.to_ne_bytes());
        assert_eq!(source.context[12..16], 7u32.to_ne_bytes());
    }

    #[test]
    fn both_directions_weigh_as_their_packets() {
        assert_eq!(FRAMES, 2 * ACKS);
        assert_eq!(Visit { data_ns: 900.0, ack_ns: 600.0 }.both(), 800.0);
    }

    #[test]
    fn every_packet_comes_out_with_and_without_the_law() {
        // SAFETY: geteuid reads the caller's id and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!("skipped: needs root");
            return;
        }
        let measured = run(1024, Duration::from_millis(1), &AtomicBool::new(false), &|_| ()).unwrap();
        let pair = measured.pairs[0];
        for visit in [pair.without, pair.with] {
            // Making a frame is part of forwarding it.
            assert!(visit.data_ns > measured.generator[0] && visit.ack_ns > 0.0, "{measured:?}");
        }
        let stopped = run(1024, Duration::from_secs(60), &AtomicBool::new(true), &|_| ()).unwrap();
        assert!(stopped.pairs.is_empty());
    }
}
