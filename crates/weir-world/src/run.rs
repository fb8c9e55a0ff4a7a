//! Runs a scenario in any world: its options, what it is checked for, what can go wrong, and what a world hands over
//! when it has ended.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use thiserror::Error;
use weir_core::{Duration, Seed, Time};
use weir_link::IoKind;
use weir_report::output::Target;
use weir_report::pcapng::PcapngError;
use weir_report::result::{DetectionResult, Health, RunResult, WorkloadResult};
use weir_scenario::{Flow, Refusal, Scenario};
use weir_testbed::traffic;

use crate::record::Recorder;
use crate::sim;
use crate::world::{EMU, World};

/// Flows that the law keeps state for: all that a scenario can have, and room for strays.
pub(crate) const LAW_CAPACITY: usize = 4_096;
/// A run that could not be made or finished.
#[derive(Debug, Error)]
pub enum RunError {
    /// The scenario asks for what cannot be.
    #[error("{0}")]
    Scenario(String),
    /// The world could not set up what the run needs, or lost it.
    #[error(transparent)]
    World(Box<dyn std::error::Error + Send + Sync>),
    /// The capture or the trace could not be written.
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

impl RunError {
    /// What a world failed at.
    pub fn of_world(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::World(Box::new(error))
    }
}

/// How to run a scenario.
#[derive(Clone)]
pub struct RunOptions<'a> {
    /// Where to run it.
    pub world: &'static dyn World,
    /// The number of the run under the scenario's seed.
    pub run: u64,
    /// How packets are read and written in user space.
    pub io: IoKind,
    /// The kernel of a micro-VM, `6.1`; the newest of the cache if none is named.
    pub kernel: Option<String>,
    /// Thousandths of a processor for the bottleneck's thread; see [`weir_link::LinkConfig::share`].
    pub share: u32,
    /// Where the capture goes, if one is wanted.
    pub pcap: Option<Target>,
    /// Where the trace goes, if one is wanted. World `sim` only.
    pub trace: Option<Target>,
    /// Runs in world `sim` also what is estimated to cost more than [`Cost::MOST`].
    pub large: bool,
    /// Keeps every cycle of every flow. World `sim` only.
    pub cycles: bool,
    /// The law judges flows also where no queue discipline asks for it. Without that, the result has no verdicts, and a
    /// run takes about a third less time. World `sim` only.
    pub verdicts: bool,
    /// Ends the run early; what was measured until then is the result.
    pub stop: &'a AtomicBool,
    /// Called now and then with how far the run is.
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
            world: EMU,
            run: 0,
            io: IoKind::Auto,
            kernel: None,
            share: weir_link::DEFAULT_SHARE,
            pcap: None,
            trace: None,
            large: false,
            cycles: false,
            verdicts: true,
            stop,
            progress: &|_| {},
        }
    }
}

/// What is known of a run once it has ended.
pub(crate) struct Ended {
    pub(crate) world: &'static dyn World,
    /// How packets were moved and queued, in a line.
    pub(crate) io: String,
    pub(crate) flows: Vec<(Flow, traffic::FlowResult)>,
    /// The workloads, without what the bottleneck did to their packets, which is in the recorder behind the flows.
    pub(crate) workloads: Vec<WorkloadResult>,
    /// When each of them was over; none of those that lived as long as the run.
    pub(crate) workload_ends: Vec<Option<Time>>,
    /// What flows found out about fair queuing.
    pub(crate) detections: Vec<DetectionResult>,
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

impl Ended {
    /// Of a run that measured nothing but what `recorder` has, took no time, and was not cut short. Worlds set the
    /// rest.
    pub(crate) fn new(world: &'static dyn World, recorder: Box<Recorder>, seed: Seed) -> Self {
        Self {
            world,
            io: String::new(),
            flows: Vec::new(),
            workloads: Vec::new(),
            workload_ends: Vec::new(),
            detections: Vec::new(),
            recorder,
            health: Health::default(),
            law_counters: Vec::new(),
            qdiscs: Vec::new(),
            seed,
            started_unix_s: None,
            wall: Duration::ZERO,
            cut_short: None,
            cut_workloads: Vec::new(),
            capture_missed: 0,
            host_drops: 0,
        }
    }
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
    /// The most that a run costs unless a [larger one](RunOptions::large) is asked for: hours on one core, tables that
    /// a program can still read, the memory and the disk of a small machine.
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

/// Runs `scenario` in the world that `options` names, if that has what it asks for. Everything that is made for it on
/// the host is gone when this returns, and when the process is killed.
///
/// # Errors
/// As [`World::check`], [`World::affordable`] and [`World::run`].
pub fn run(scenario: &Scenario, options: &RunOptions) -> Result<RunResult, RunError> {
    check(scenario, options.world, options.large).map_err(|Refusal { key, message }| {
        RunError::Scenario(format!("{}: {message}", scenario.said_of_run(&key)))
    })?;
    options.world.run(scenario, options)
}

/// Whether `world` has what `scenario` asks for and, unless the run may be `large`, whether it costs no more than it
/// may.
///
/// # Errors
/// The first key that cannot be.
pub fn check(scenario: &Scenario, world: &dyn World, large: bool) -> Result<(), Refusal> {
    world.check(scenario)?;
    if large { Ok(()) } else { world.affordable(scenario) }
}
