//! A router of the kernel, with and without the law's programs before its queue, at the same time in the same tree.
//!
//! The generator is the kernel's own: BPF_PROG_TEST_RUN with live frames (Linux 5.18) makes 64 frames at a time and
//! puts them on the wire to the router's interface. From there on they take the way of every forwarded packet: the
//! interface's driver polls (NAPI) and merges what belongs together (GRO, on as the drivers of network cards have it),
//! then routing, the hook before the queue, HTB, bfifo, the interface. At its far end they are consumed. All of it
//! happens in the calling thread, for what the driver defers runs as soon as the generator lets it. There is no sender
//! that could wait for a socket, no receiver that could be late, no acknowledgement that sets a pace: the thread's
//! processor time is the router's and the generator's, whatever else the machine does.
//!
//! Both arms are the same router: the programs are attached for one visit and gone for the next. The visits alternate
//! every few hundredths of a second, and each pair is compared by itself, so that a slower moment of the machine
//! strikes both. All packets take the standard class, by the law's word or by HTB's default, and every one has to come
//! out.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{
    MapCore, MapFlags, MapHandle, ProgramInput, ProgramMut, TC_INGRESS, TcHookBuilder, Xdp, XdpFlags,
};
use thiserror::Error;
use weir_core::{Duration, Rate};
use weir_kernel::attach::{Place, Side};
use weir_kernel::{
    Direction, KernelError, Keys, Leaf, ProgramConfig, Programs, QueueKeys, Role, Setup, SetupError, identify,
};
use weir_law::Params;
use weir_netdev::iproute::Discipline;
use weir_netdev::offload::{self, OffloadError};

use super::frames::{ENVELOPE, sum, tcp, tcp_ack};
use super::now;
use weir_testbed::host::{HostError, Topology, TopologySpec};

#[allow(missing_docs, unreachable_pub, dead_code, unsafe_op_in_unsafe_fn, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/generate.skel.rs"));
}

use skeleton::GenerateSkel;

/// Flows of the generator.
const FLOWS: u32 = 64;
/// Data frames of one call; the kernel makes 64 at a time. A whole number of rounds over all flows.
const FRAMES: u32 = 8192;
/// Every other data frame is acknowledged.
const ACKS: u32 = FRAMES / 2;
/// Calls of a visit that count; one more goes before them, so that caches and flows are warm.
const CALLS: u32 = 4;
/// BPF_F_TEST_XDP_LIVE_FRAMES (include/uapi/linux/bpf.h).
const LIVE_FRAMES: u32 = 2;
/// Every namespace's first interface.
const LOOPBACK: i32 = 1;
/// Out of reach of one processor: HTB never holds a packet back.
const RATE: Rate = Rate::from_bits_per_sec(100_000_000_000);
/// Far more than waits here.
const QUEUE: &str = "bfifo limit 4000kb";

/// A router that could not be measured.
#[derive(Debug, Error)]
pub enum RouterError {
    /// The hosts could not be built.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The law's programs could not be loaded or attached.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The kernel's queues cannot be as they are meant to be.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// An interface does not merge what it receives.
    #[error(transparent)]
    Offload(#[from] OffloadError),
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

/// What comes to the router.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    /// The row's name, and that of the one with the law.
    pub(super) names: [&'static str; 2],
    /// Data packets of a flow in a row: what a sender's segmentation leaves behind, and what GRO merges.
    train: u32,
    /// Whether every second data packet is acknowledged, in the direction where no queue is.
    acknowledged: bool,
}

/// All that the router is measured with.
pub(super) const TRAFFIC: [Traffic; 4] = [
    Traffic { names: ["forwarding", "forwarding, law"], train: 1, acknowledged: false },
    Traffic { names: ["forwarding both", "forwarding both, law"], train: 1, acknowledged: true },
    Traffic { names: ["forwarding 4 in a row", "forwarding 4 in a row, law"], train: 4, acknowledged: false },
    Traffic {
        names: ["forwarding 16 in a row", "forwarding 16 in a row, law"],
        train: 16,
        acknowledged: false,
    },
];

/// Processor time for a packet in two visits after each other, in whichever order, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    /// The router alone.
    pub(super) without: f64,
    /// With the law.
    pub(super) with: f64,
}

/// All that was measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// What making a data frame and giving it back takes, in nanoseconds: it is part of every visit.
    pub(super) generator: Vec<f64>,
    /// The router, with each traffic.
    pub(super) pairs: [Vec<Pair>; TRAFFIC.len()],
    /// Data packets that went through the router, and as how many after merging: so often the law looks.
    pub(super) packets: u64,
    pub(super) looks: u64,
}

/// Measures pairs of visits for `seconds`, with a table for `flows`. `progress` hears which part is done. Stops early
/// when `stop` is set.
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
    topology.bottleneck.tc(&tree(device)?)?;
    let measured = topology.bottleneck.enter(|| {
        stay();
        let mut storage = MaybeUninit::uninit();
        let mut router = Router::new(&topology, flows, &mut storage)?;
        let mut measured = Measured::default();
        let began = now(libc::CLOCK_MONOTONIC);
        let whole = seconds.as_nanos() as f64;
        for round in 0.. {
            let done = (now(libc::CLOCK_MONOTONIC) - began) / whole;
            if stop.load(Ordering::Relaxed) || done >= 1.0 && round > 0 {
                break;
            }
            progress(done.min(1.0));
            measured.generator.push(router.idle()?);
            for (traffic, pairs) in TRAFFIC.iter().zip(&mut measured.pairs) {
                // The order alternates, so that neither always comes second.
                pairs.push(if round % 2 == 0 {
                    let without = router.visit(traffic, false)?;
                    Pair { without, with: router.visit(traffic, true)? }
                } else {
                    let with = router.visit(traffic, true)?;
                    Pair { with, without: router.visit(traffic, false)? }
                });
            }
        }
        let sent = router.acks.sent;
        let left = left_by(other);
        if left != sent {
            return Err(RouterError::Lost { what: "acknowledgements", sent, left });
        }
        (measured.packets, measured.looks) = (router.data.sent, left_by(device));
        Ok::<_, RouterError>(measured)
    })?;
    let measured = measured?;
    // Counts what a merged packet carries.
    let disciplines = topology.bottleneck.disciplines(device)?;
    let standard = Discipline::with_handle(&disciplines, "57e3:");
    let (sent, left) = (measured.packets, standard.map_or(0, |queue| queue.number("packets")));
    if left != sent {
        return Err(RouterError::Lost { what: "data packets, in the standard class,", sent, left });
    }
    Ok(measured)
}

/// The lines of the tree that `weir up` installs, with queues that never fill.
fn tree(device: &str) -> Result<Vec<String>, RouterError> {
    let queue: Leaf = QUEUE.parse().map_err(SetupError::from)?;
    let queues = QueueKeys { standard: Some(queue.clone()), responsive: Some(queue) };
    let keys =
        Keys { dev: Some(device.to_owned()), rate: Some(RATE), queues: Some(queues), ..Keys::default() };
    Ok(Setup::from_keys(keys)?.tree(Direction::Egress)?.lines(device))
}

/// Keeps the calling thread on its processor: what the router's driver deferred waits where it was deferred, and frames
/// of another processor would pile up behind it.
fn stay() {
    // SAFETY: the set lives on this stack and has the length that is passed; zeros are an empty one. A failure leaves
    // the thread where it may be, which the count of packets shows.
    unsafe {
        let mut processors: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(usize::try_from(libc::sched_getcpu()).unwrap_or(0), &mut processors);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const processors);
    }
}

/// A direction's frames.
struct Source {
    frame: Vec<u8>,
    sent: u64,
}

impl Source {
    fn new(mut frame: Vec<u8>, to: &str, from: &str) -> Self {
        for (at, address) in [(0, to), (6, from)] {
            for (byte, text) in frame[at..at + 6].iter_mut().zip(address.split(':')) {
                *byte = u8::from_str_radix(text, 16).unwrap_or_default();
            }
        }
        Self { frame, sent: 0 }
    }

    /// The sum of the pseudo header and the TCP header but for ports, number and checksum, of a direction whose number
    /// is at `number` in the TCP header. The payload is zeros.
    fn sum(&self, number: usize) -> u32 {
        let segment = &self.frame[ENVELOPE..];
        let header = &segment[..usize::from(segment[12] >> 4) * 4];
        let other = if number == 4 { 8 } else { 4 };
        sum(&self.frame[26..34])
            + 6
            + segment.len() as u32
            + sum(&header[other..other + 4])
            + sum(&header[12..16])
            + sum(&header[18..])
    }

    /// Runs a program for frames of this kind, and hands back the processor time for all, in nanoseconds.
    fn run(&self, program: &ProgramMut<'_>, frames: u32) -> Result<f64, RouterError> {
        let before = now(libc::CLOCK_THREAD_CPUTIME_ID);
        program
            .test_run(ProgramInput {
                data_in: Some(&self.frame),
                flags: LIVE_FRAMES,
                repeat: frames,
                ..ProgramInput::default()
            })
            .map_err(|source| RouterError::Generator { what: "send", source })?;
        Ok(now(libc::CLOCK_THREAD_CPUTIME_ID) - before)
    }

    /// As [`Source::run`] where the frames go to the router.
    fn send(&mut self, program: &ProgramMut<'_>, frames: u32) -> Result<f64, RouterError> {
        self.sent += u64::from(frames);
        self.run(program, frames)
    }
}

struct Router<'o> {
    generator: GenerateSkel<'o>,
    programs: Programs,
    places: [Place; 2],
    data: Source,
    acks: Source,
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
        let (client_side, netns) = identify(&topology.bottleneck_client_iface)?;
        let data = Source::new(tcp(0), &server_mac, &client_mac);
        let acks = Source::new(tcp_ack(0), &client_mac, &server_mac);

        let mut open = skeleton::GenerateSkelBuilder::default().open(storage).map_err(failed("be opened"))?;
        if let Some(bss) = open.maps.bss_data.as_deref_mut() {
            bss.envelopes.data.copy_from_slice(&data.frame[..ENVELOPE]);
            bss.envelopes.acks.copy_from_slice(&acks.frame[..ENVELOPE]);
            (bss.sums.data, bss.sums.acks) = (data.sum(4), acks.sum(8));
        }
        let generator = open.load().map_err(failed("be loaded"))?;
        let wires = generator.maps.wires.info().map_err(failed("be asked for its map"))?.info.id;
        let swallow = generator.progs.swallow.as_fd();
        for (wire, host, interface, near, program) in [
            (
                0u32,
                &topology.server,
                &topology.server_iface,
                &topology.bottleneck_server_iface,
                &generator.progs.data,
            ),
            (
                1,
                &topology.client,
                &topology.client_iface,
                &topology.bottleneck_client_iface,
                &generator.progs.acks,
            ),
        ] {
            offload::merge(near)?;
            let program = program.as_fd();
            host.enter(|| {
                let (ifindex, _) = identify(interface)?;
                let map = MapHandle::from_map_id(wires);
                map.and_then(|map| map.update(&wire.to_ne_bytes(), &ifindex.to_ne_bytes(), MapFlags::ANY))
                    .map_err(failed("find the router's interface"))?;
                // Of a program that sits nowhere the kernel rewrites its dispatcher before and after each run, and
                // waits for all processors; so it sits where nothing passes.
                let parked = Xdp::new(program).attach(LOOPBACK, XdpFlags::SKB_MODE);
                parked.map_err(failed("be attached to lo"))?;
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
        })
    }

    /// The generator by itself. Nothing of what it makes arrives, so it is not of the connections that the law watches.
    fn idle(&mut self) -> Result<f64, RouterError> {
        if let Some(bss) = self.generator.maps.bss_data.as_deref_mut() {
            bss.watched = 0;
        }
        Ok(self.data.run(&self.generator.progs.nothing, FRAMES)? / f64::from(FRAMES))
    }

    fn visit(&mut self, traffic: &Traffic, with_law: bool) -> Result<f64, RouterError> {
        let _held = if with_law { Some(self.programs.hold(&self.places)?) } else { None };
        if let Some(bss) = self.generator.maps.bss_data.as_deref_mut() {
            (bss.train, bss.watched) = (traffic.train, u32::from(with_law));
        }
        let acks = if traffic.acknowledged { ACKS } else { 0 };
        let mut time = 0.0;
        for call in 0..=CALLS {
            let mut spent = self.data.send(&self.generator.progs.data, FRAMES)?;
            if acks > 0 {
                spent += self.acks.send(&self.generator.progs.acks, acks)?;
            } else {
                // Or more and more would seem to be in flight. These do not count.
                self.catch_up(true);
                self.acks.send(&self.generator.progs.acks, FLOWS)?;
                self.catch_up(false);
            }
            if call > 0 {
                time += spent;
            }
        }
        Ok(time / f64::from(CALLS * (FRAMES + acks)))
    }

    /// Whether ACKs are of all that was sent.
    fn catch_up(&mut self, whether: bool) {
        if let Some(bss) = self.generator.maps.bss_data.as_deref_mut() {
            bss.catch_up = whether.into();
        }
    }
}

/// Packets that left by an interface of the calling thread's namespace, a merged one once.
fn left_by(interface: &str) -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'));
    // Behind eight columns of what was received: bytes, packets.
    line.unwrap_or_default().split_whitespace().nth(9).and_then(|count| count.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use weir_core::Duration;

    use super::super::frames::{sum, tcp, tcp_ack};
    use super::{ACKS, FLOWS, FRAMES, Source, TRAFFIC, run};

    #[test]
    fn frames_are_addressed_to_the_router() {
        let source = Source::new(tcp(0), "02:57:45:49:52:02", "02:57:45:49:52:03");
        assert_eq!(source.frame[..6], [2, 0x57, 0x45, 0x49, 0x52, 2]);
        assert_eq!(source.frame[6..12], [2, 0x57, 0x45, 0x49, 0x52, 3]);
        assert_eq!(source.frame[12..], tcp(0)[12..]);
    }

    #[test]
    fn what_the_generator_adds_completes_the_sum() {
        for (frame, number) in [(tcp(5), 4), (tcp_ack(5), 8)] {
            let segment = &frame[34..];
            // Ports and number; the checksum itself is still zero.
            let added = sum(&segment[..4]) + sum(&segment[number..number + 4]);
            let pseudo = sum(&frame[26..34]) + 6 + segment.len() as u32;
            let source = Source::new(frame.clone(), "", "");
            assert_eq!(source.sum(number) + added, pseudo + sum(segment));
        }
    }

    #[test]
    fn calls_are_whole_rounds() {
        assert_eq!(FRAMES, 2 * ACKS);
        for traffic in TRAFFIC {
            assert_eq!(FRAMES % (FLOWS * traffic.train), 0);
        }
    }

    #[test]
    fn every_packet_comes_out_with_and_without_the_law() {
        if !weir_testkit::skip::is_root() {
            return;
        }
        let measured = run(1024, Duration::from_millis(1), &AtomicBool::new(false), &|_| ()).unwrap();
        for pairs in &measured.pairs {
            assert!(pairs[0].with > 0.0 && pairs[0].without > 0.0, "{measured:?}");
        }
        // Making a frame is part of forwarding it.
        assert!(measured.pairs[0][0].without > measured.generator[0], "{measured:?}");
        // Of four equal parts two are never merged, one by fours, one by sixteens; a late poll may split a train.
        let merged = measured.looks as f64 / measured.packets as f64;
        assert!((0.57..0.7).contains(&merged), "{measured:?}");
        let stopped = run(1024, Duration::from_secs(60), &AtomicBool::new(true), &|_| ()).unwrap();
        assert!(stopped.pairs.iter().all(Vec::is_empty));
    }
}
