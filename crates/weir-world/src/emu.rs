//! World `emu`: a queue in user space between two hosts of the kernel's network.

use std::sync::{Arc, OnceLock};

use weir_core::Seed;
use weir_law::Law;
use weir_link::{LinkConfig, PipelineConfig};

use crate::capture::Capture;
use crate::dctcp::Dctcp;
use crate::gather;
use crate::link_thread::{RunningLink, frames, step};
use crate::real::{
    StopOnDrop, check_real, delays, join, launch, port, since, time_zero, topology_spec, watch,
    without_kernel,
};
use crate::record::{Recorder, Tap};
use crate::run::{Ended, LAW_CAPACITY, RunError, RunOptions};
use crate::world::{Clock, EMU, World};
use weir_report::result::RunResult;
use weir_scenario::{Refusal, Scenario};
use weir_testbed::host::Topology;
use weir_testbed::interfaces;
use weir_testbed::traffic::Control;

/// The world.
pub(crate) struct Emu;

impl World for Emu {
    fn name(&self) -> &'static str {
        "emu"
    }

    fn clock(&self) -> Clock {
        Clock::Real
    }

    fn check(&self, scenario: &Scenario) -> Result<(), Refusal> {
        without_kernel(scenario)?;
        check_real(scenario)
    }

    fn run(&self, scenario: &Scenario, options: &RunOptions) -> Result<RunResult, RunError> {
        run(scenario, options)
    }
}

/// Runs `scenario` with the bottleneck in user space.
fn run(scenario: &Scenario, options: &RunOptions) -> Result<RunResult, RunError> {
    let flows = scenario.flows_of_run(Seed { seed: scenario.seed, run: options.run });
    let spec = topology_spec(scenario, &flows);
    let topology = Topology::build(&spec)?;
    // A killed run has left journals, but no interfaces to restore. One that cannot be read is somebody else's.
    let _ = weir_netdev::offload::recover();
    let _offloads = interfaces::prepare(&topology)?;
    let began = Arc::new(OnceLock::new());
    let capture =
        options.pcap.as_ref().map(|target| Capture::start(target, Arc::clone(&began))).transpose()?;
    let (capture, tap) = capture.unzip();

    let mut link = prepare(scenario, &topology, options, tap)?;
    // Flows end when `control` is dropped at the latest, the bottleneck when `link` is: also where `?` leaves early.
    let control = StopOnDrop(Control::held());
    let dctcp = Dctcp::of(&flows)?;
    let running = launch(scenario, &flows, &dctcp, &topology, &control.0, options.run)?;
    let (start, since_1970) = time_zero();
    began.get_or_init(|| since_1970);
    link.begin_at(start);
    control.0.begin_at(start);
    let cut_short = watch(scenario, &flows, &running, &|| link.is_finished(), options, start);
    let stopped = since(start);
    control.0.stop();
    let joined = join(flows, running, stopped);
    let finished = link.stop()?;
    let host_drops = interfaces::host_drops(&topology)?;
    let wall = since(start);

    let mut recorder = Recorder::from_observer(finished.observer).ok_or(RunError::Panic("recorder"))?;
    let missed = recorder.tap.take().map_or(0, |tap| tap.missed);
    capture.map(Capture::finish).transpose()?;
    let report = finished.report;
    let ended = Ended {
        io: format!("{}, {} scheduling{}", report.path, report.scheduling, dctcp.note()),
        flows: joined.flows,
        detections: joined.detections,
        health: gather::emulator_health(scenario, &report, &recorder),
        law_counters: finished.law.map_or_else(Vec::new, |law| gather::named(&law.counters())),
        started_unix_s: Some(since_1970.as_secs()),
        wall,
        cut_short,
        capture_missed: missed,
        host_drops,
        ..Ended::new(EMU, recorder, Seed { seed: scenario.seed, run: options.run })
    };
    Ok(gather::result(scenario, ended))
}

/// Opens the bottleneck's interfaces.
fn prepare(
    scenario: &Scenario,
    topology: &Topology,
    options: &RunOptions,
    tap: Option<Tap>,
) -> Result<RunningLink, RunError> {
    let bottleneck = &scenario.bottleneck;
    let params = scenario.law_params().map_err(RunError::Scenario)?;
    let qdisc = bottleneck
        .qdisc
        .build(&scenario.build_context(options.run))
        .map_err(|error| RunError::Scenario(format!("bottleneck.qdisc: {error}")))?;
    let queues = bottleneck.qdisc.queue_names().len();
    let flows = scenario.flows_of_run(Seed { seed: scenario.seed, run: options.run });
    let ports = (0..flows.len()).map(port).collect();
    let recorder = Recorder::new(ports, queues, scenario.measure.interval, &params, tap)
        .measuring(&scenario.measure)
        .watching(scenario.bottleneck.qdisc.queue_names());
    let config = LinkConfig {
        io: options.io,
        share: Some(options.share),
        step: step(scenario),
        frames: frames(scenario),
        ..LinkConfig::between(&topology.bottleneck_server_iface, &topology.bottleneck_client_iface)
    };
    let pipeline = PipelineConfig {
        rate: bottleneck.rate,
        burst: bottleneck.burst,
        overhead: bottleneck.overhead,
        law: Some(Law::new(params, LAW_CAPACITY)),
        delays: delays(scenario, &flows),
        frames: config.frames,
    };
    RunningLink::prepare(&topology.bottleneck, config, pipeline, qdisc, Box::new(recorder))
}
