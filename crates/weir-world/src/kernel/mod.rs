//! World `kernel`: the kernel's own queues under HTB, between the same hosts and with the same flows as in world `emu`.
//!
//! The bottleneck's namespace routes; HTB and the scenario's queues stand on its interface towards the client
//! ([`tree`]). Packets are single frames, as in world `emu`. What happens to them is heard from the kernel's
//! tracepoints ([`measure`], `bpf/measure.bpf.c`) and reported to the same recorder ([`watcher`]), so that tables and
//! reports are the same. `docs/model/worlds.md` says what differs. With `bottleneck.super_packets` hosts hand over
//! super-packets, which queues may cut up, and packets are not followed: what `tc` counts stands in for that.

pub(crate) mod counters;
mod delays;
mod health;
mod inside;
mod late;
mod law;
mod measure;
mod packets;
mod schedule;
mod tree;
mod watcher;

use std::io;
use std::sync::{Arc, OnceLock};

use thiserror::Error;
use weir_core::{Duration, Seed};
use weir_kernel::{KernelError, identify};

use crate::capture::Capture;
use crate::dctcp::Dctcp;
use crate::gather;
use crate::real::{
    StopOnDrop, check_followed, check_real, join, launch, port, since, time_zero, topology_spec, watch,
};
use crate::record::Recorder;
use crate::run::{Ended, RunError, RunOptions};
use crate::world::{Clock, KERNEL, World};
use weir_report::result::RunResult;
use weir_scenario::{Refusal, Scenario};
use weir_testbed::host::{HostError, Topology};
use weir_testbed::interfaces;
use weir_testbed::traffic::Control;

use delays::Delays;
use late::Late;
use law::Classifier;
use measure::{Device, Listener};
use tree::Tree;

/// The longest wait for the queues to empty once the flows have ended.
const DRAIN: Duration = Duration::from_secs(1);
/// How often they are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Why the kernel's queues could not be set up or measured.
#[derive(Debug, Error)]
pub enum KernelWorldError {
    /// The scenario asks for what the kernel's queues have not.
    #[error("{key}: {message}")]
    Cannot {
        /// The scenario's key.
        key: String,
        /// What is not to be had and what is.
        message: String,
    },
    /// The running kernel lacks queue disciplines.
    #[error(
        "bottleneck.qdisc: this kernel has no {kinds}; run the scenario under one that has it with --on vm, or with \
         --on emu"
    )]
    Missing {
        /// Their names.
        kinds: String,
    },
    /// A namespace, `ip` or `tc` failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The measuring program failed.
    #[error(
        "the program that measures the kernel's queues cannot {what}: {message}; it takes root and a kernel with BTF \
         (`weir doctor` looks), or use --on emu"
    )]
    Measure {
        /// What failed.
        what: &'static str,
        /// What the kernel said.
        message: String,
    },
    /// The program that makes wake-ups late failed.
    #[error(
        "the program that makes a tbf's wake-ups late cannot {what}: {message}; it takes root and a kernel with BTF \
         (`weir doctor` looks), or leave out 'late'"
    )]
    Late {
        /// What failed.
        what: &'static str,
        /// What the kernel said.
        message: String,
    },
    /// The classifier could not be loaded or attached.
    #[error("the classifier: {0}; or use --on emu")]
    Classifier(#[from] KernelError),
    /// A thread could not be started.
    #[error("no thread can be started: {source}; end other programs")]
    Thread {
        /// What the kernel said.
        source: io::Error,
    },
    /// The listening thread panicked: a fault of the program.
    #[error("the listener stopped unexpectedly; this is a fault of weir")]
    Panic,
}

impl From<KernelWorldError> for RunError {
    fn from(error: KernelWorldError) -> Self {
        Self::of_world(error)
    }
}

/// The world.
pub(crate) struct Kernel;

impl World for Kernel {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn clock(&self) -> Clock {
        Clock::Real
    }

    fn check(&self, scenario: &Scenario) -> Result<(), Refusal> {
        check_real(scenario)?;
        check_followed(scenario)?;
        match Tree::of(scenario).and_then(|_| late::asked(scenario)) {
            Ok(_) => Ok(()),
            Err(KernelWorldError::Cannot { key, message }) => Err(Refusal { key, message }),
            Err(other) => Err(Refusal::new("bottleneck.qdisc", other.to_string())),
        }
    }

    fn run(&self, scenario: &Scenario, options: &RunOptions) -> Result<RunResult, RunError> {
        run(scenario, options)
    }
}

/// Runs `scenario` on the kernel's queues.
fn run(scenario: &Scenario, options: &RunOptions) -> Result<RunResult, RunError> {
    let tree = Tree::of(scenario)?;
    let missing = counters::missing(&tree.kinds)?;
    if !missing.is_empty() {
        return Err(KernelWorldError::Missing { kinds: missing.join(", ") }.into());
    }
    let flows = scenario.flows_of_run(Seed { seed: scenario.seed, run: options.run });
    let spec = topology_spec(scenario, &flows);
    let topology = Topology::build_forwarding(&spec, &[])?;
    // A killed run has left journals, but no interfaces to restore. One that cannot be read is somebody else's.
    let _ = weir_netdev::offload::recover();
    let is_followed = !scenario.bottleneck.super_packets;
    let _offloads = if is_followed { interfaces::prepare(&topology)? } else { Vec::new() };
    let device = &topology.bottleneck_client_iface;
    topology.bottleneck.tc(&tree.lines(device))?;
    let began = Arc::new(OnceLock::new());
    let capture =
        options.pcap.as_ref().map(|target| Capture::start(target, Arc::clone(&began))).transpose()?;
    let (capture, tap) = capture.unzip();

    let mut delays = Delays::build(scenario, &topology, options)?;
    let params = scenario.law_params().map_err(RunError::Scenario)?;
    let ports = (0..flows.len()).map(port).collect();
    let interface =
        |name: &str| topology.bottleneck.enter(|| identify(name))?.map_err(KernelWorldError::from);
    let (index, namespace) = interface(device)?;
    let captured = tap.as_ref().map(|_| interface(&topology.bottleneck_server_iface)).transpose()?;
    let measured = Device { index, captured: captured.map(|(index, _)| index), namespace, is_followed };
    let _late = Late::start(late::asked(scenario)?, index, namespace)?;
    let recorder = Recorder::new(ports, tree.queues, scenario.measure.interval, &params, tap)
        .measuring(&scenario.measure);
    let classifier = Classifier::start(scenario, &tree, &topology)?;
    let mut listener = Listener::start(scenario, &tree, measured, classifier.events()?, recorder)?;
    // Flows end when `control` is dropped at the latest, the threads when theirs are: also where `?` leaves early.
    let control = StopOnDrop(Control::held());
    let dctcp = Dctcp::of(&flows)?;
    let running = launch(scenario, &flows, &dctcp, &topology, &control.0, options.run)?;
    let (start, since_1970) = time_zero();
    began.get_or_init(|| since_1970);
    listener.begin_at(start);
    delays.begin_at(start);
    control.0.begin_at(start);
    let failed = || listener.is_finished() || delays.is_finished();
    let cut_short = watch(scenario, &flows, &running, &failed, options, start);
    let stopped = since(start);
    control.0.stop();
    let joined = join(flows, running, stopped);
    let packets = if is_followed { "" } else { ", super-packets" };
    let io = format!("kernel htb{packets}, {}{}", delays.describe(), dctcp.note());
    let delayed = delays.stop()?;
    drain(&listener);
    let qdiscs = topology.bottleneck.disciplines(device)?;
    let wall = since(start);
    let root = counters::root(&qdiscs);
    let mut heard = listener.stop(root.map(|root| root.queued))?;
    if !is_followed {
        counters::fill(&mut heard.books.recorder.queues, &tree, &qdiscs);
    }
    let law_counters = classifier.counters()?;
    let host_drops = interfaces::host_drops(&topology)?;

    let missed = heard.books.recorder.tap.take().map_or(0, |tap| tap.missed);
    capture.map(Capture::finish).transpose()?;
    let ended = Ended {
        io,
        flows: joined.flows,
        detections: joined.detections,
        health: if is_followed {
            health::of(scenario, &tree, &heard, delayed.as_ref(), root)
        } else {
            health::counted(scenario, &heard, delayed.as_ref(), root)
        },
        law_counters,
        qdiscs: qdiscs.into_iter().map(|one| one.0.into()).collect(),
        started_unix_s: Some(since_1970.as_secs()),
        wall,
        cut_short,
        capture_missed: missed,
        host_drops,
        ..Ended::new(KERNEL, heard.books.recorder, Seed { seed: scenario.seed, run: options.run })
    };
    Ok(gather::result(scenario, ended))
}

/// Waits until the queues are empty, so that their counters and what was heard can be compared.
#[allow(clippy::disallowed_methods, reason = "the kernel's queues empty in real time")]
fn drain(listener: &Listener) {
    let mut empty = 0;
    for _ in 0..DRAIN.as_nanos() / LOOK.as_nanos() {
        std::thread::sleep(LOOK.to_std());
        empty = if listener.inside() == 0 { empty + 1 } else { 0 };
        if empty == 3 {
            return;
        }
    }
}
