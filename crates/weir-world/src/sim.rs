//! World `sim`: the scenario in virtual time. Queue disciplines and law are those of the other worlds, endpoints are
//! weir-sim's with weir-cc's controllers. The same seed gives the same result, on any machine.

pub(crate) mod cost;
mod trace;
mod watcher;
mod wiretap;
mod workloads;

use std::sync::atomic::Ordering;

use weir_cc::Setup;
use weir_core::{Duration, FlowId, Seed, Time};
use weir_law::Law;
use weir_sim::headers::{Transport, Wire};
use weir_sim::{Amount, FASTEST_DATAGRAMS, FlowSpec, HopId, Kind, MOST_ARRIVALS, Network};

use crate::detect;
use crate::gather;
use crate::real::{port, window, without_kernel};
use crate::record::Recorder;
use crate::run::{Cost, Ended, LAW_CAPACITY, Progress, RunError, RunOptions};
use crate::world::{Clock, SIM, World};
pub(crate) use cost::affordable;
use watcher::Watcher;
use weir_report::result::{DetectionResult, Health, RunResult};
use weir_scenario::{Direction, Flow, Pattern, Scenario, Workload};
use weir_scenario::{Hosts, Refusal};
use weir_testbed::traffic::{self, RttSample, Stack};
use wiretap::Wiretap;

/// How often, in virtual time, progress is reported and an interrupt is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// The world.
pub(crate) struct Sim;

impl World for Sim {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn clock(&self) -> Clock {
        Clock::Virtual
    }

    fn check(&self, scenario: &Scenario) -> Result<(), Refusal> {
        without_kernel(scenario)?;
        check(scenario)
    }

    fn affordable(&self, scenario: &Scenario) -> Result<(), Refusal> {
        affordable(scenario, &Cost::MOST)
    }

    fn run(&self, scenario: &Scenario, options: &RunOptions) -> Result<RunResult, RunError> {
        run(scenario, options)
    }
}

/// Runs `scenario` in virtual time.
fn run(scenario: &Scenario, options: &RunOptions) -> Result<RunResult, RunError> {
    let flows = scenario.flows_of_run(Seed { seed: scenario.seed, run: options.run });
    let params = scenario.law_params().map_err(RunError::Scenario)?;
    let queues = scenario.queue_names().iter().map(Vec::len).sum();
    let ports = (0..flows.len()).map(port).chain(scenario.workloads.iter().map(|_| 0)).collect();
    let connections: u32 = scenario.workloads.iter().map(Workload::most_connections).sum();
    let recorder = Recorder::new(ports, queues, scenario.measure.interval, &params, None)
        .measuring(&scenario.measure)
        .watching(scenario.bottleneck.qdisc.queue_names())
        .keeping_cycles(options.cycles);
    let asked = scenario.bottleneck.qdisc.asks_law();
    let law = (options.verdicts || options.cycles || asked)
        .then(|| Law::new(params, LAW_CAPACITY.max(flows.len() + connections as usize)));
    let stacks = scenario.workloads.iter().map(|workload| transport(workload.stack)).collect();
    let watcher = Watcher::new(recorder, law, Wiretap::create(options)?, flows.len(), stacks);
    let seed = Seed { seed: scenario.seed, run: options.run };
    let mut network = Network::new(seed, watcher);
    let Built { bottleneck, ids, detections } = build(scenario, &flows, seed, &mut network)?;
    let added = workloads::add(&mut network, scenario, bottleneck)
        .map_err(|error| RunError::Scenario(error.to_string()))?;
    let cut_short = advance(&mut network, scenario, options);

    let end = network.now();
    let results = flows
        .iter()
        .zip(&ids)
        .map(|(flow, id)| {
            let asked = network.asked(*id);
            flow_result(flow, &network.flow(*id), asked, network.ignores_marks_beyond(*id), end)
        })
        .collect::<Vec<_>>();
    let done = scenario
        .workloads
        .iter()
        .zip(&added)
        .map(|(workload, id)| workloads::result(workload, &scenario.measure, &network.workload(*id), end))
        .collect();
    let workload_ends = added.iter().map(|id| network.workload(*id).ended).collect();
    let cut_workloads = scenario
        .workloads
        .iter()
        .zip(&added)
        .filter(|(workload, id)| workload.has_end() && !network.workload(**id).done)
        .map(|(workload, _)| workload.label().to_owned())
        .collect();
    let left: Vec<_> = network.hops().map(|hop| network.drain_hop(hop)).collect();
    let mut watcher = network.into_observer();
    watcher.tap.take().map_or(Ok(()), |tap| tap.finish())?;
    let mut health = Health::default();
    for ((audit, left), (qdisc, _)) in watcher.audits().zip(left).zip(scenario.qdiscs()) {
        let audit = audit.report(left);
        health.arrived += audit.total.arrived;
        health.departed += audit.total.departed;
        health.dropped += audit.total.dropped;
        health.still_queued += audit.still_queued;
        health.unaccounted += audit.unbalanced.iter().map(|(_, missing)| missing.abs()).sum::<i64>();
        health.overtaken += audit.overtaken;
        health.warnings.extend(gather::audit_faults(&audit, qdisc.may_reorder()));
    }
    let ended = Ended {
        io: "virtual time".to_owned(),
        flows: flows.into_iter().zip(results).collect(),
        workloads: done,
        workload_ends,
        detections: detections.iter().map(|(flow, shared)| detection(flow, shared, end)).collect(),
        health,
        law_counters: watcher.law().map_or_else(Vec::new, |law| gather::named(&law.counters())),
        wall: end.since(Time::ZERO),
        cut_short,
        cut_workloads,
        ..Ended::new(SIM, Box::new(watcher.recorder), seed)
    };
    Ok(gather::result(scenario, ended))
}

/// What would never end, or nearly so, and controllers that are not known.
fn check(scenario: &Scenario) -> Result<(), Refusal> {
    for (index, flow) in scenario.flows.iter().enumerate() {
        let fail = |key: &str, message: String| Err(Refusal::new(format!("flow.{index}.{key}"), message));
        let up = flow.direction == Direction::Up && flow.stack != Stack::Udp;
        if up && flow.bytes.is_none() && !scenario.is_bounded_up(flow) {
            let message = "in virtual time nothing bounds what it sends upwards; give it bytes, or [bottleneck.reverse] a rate";
            return fail("direction", message.to_owned());
        }
        let name = match flow.stack {
            Stack::Udp if flow.rate.is_some_and(|rate| rate > FASTEST_DATAGRAMS) => {
                let message =
                    format!("datagrams at more than {FASTEST_DATAGRAMS} come less than a nanosecond apart");
                return fail("rate", format!("{message}; lower it"));
            }
            Stack::Udp => continue,
            Stack::Tcp | Stack::Quic => traffic::catalogue_name(&flow.controller),
        };
        if let Err(error) = weir_cc::find(name) {
            return fail("controller", error.to_string());
        }
    }
    for (index, workload) in scenario.workloads.iter().enumerate() {
        let (arrivals, _) = workload.offered(scenario.bottleneck.rate);
        if arrivals > MOST_ARRIVALS {
            let key = if workload.load.is_some() { "load" } else { "arrivals" };
            let message = format!(
                "{arrivals:.1e} requests per second are more than {MOST_ARRIVALS:.0e}, one in a nanosecond"
            );
            return Err(Refusal::new(format!("workload.{index}.{key}"), format!("{message}; lower it")));
        }
        if workload.rate.is_some_and(|rate| rate > FASTEST_DATAGRAMS) {
            let message =
                format!("datagrams at more than {FASTEST_DATAGRAMS} come less than a nanosecond apart");
            return Err(Refusal::new(format!("workload.{index}.rate"), format!("{message}; lower it")));
        }
    }
    Ok(())
}

/// What the network calls the links and flows of a scenario.
struct Built {
    bottleneck: HopId,
    ids: Vec<FlowId>,
    /// Connections that look for fair queuing, by the names of their flows.
    detections: Vec<(String, weir_fq::Shared)>,
}

/// Adds links and flows.
fn build(
    scenario: &Scenario,
    flows: &[Flow],
    seed: Seed,
    network: &mut Network<Watcher>,
) -> Result<Built, RunError> {
    let mut firsts = scenario.queue_names().into_iter().scan(0, |first, names| {
        let this = *first;
        *first += names.len();
        Some(this)
    });
    let mut links = Vec::new();
    for (place, link) in scenario.build_links().map_err(RunError::Scenario)?.into_iter().enumerate() {
        let hop = network.add_hop(link.forward);
        links.push(hop);
        let back = link.reverse.map(|reverse| network.add_back(hop, reverse));
        network.impair_back(hop, link.impairment);
        for queue in [Some(hop), back].into_iter().flatten() {
            network.observer_mut().add_queue(queue, place, firsts.next().unwrap_or(0), flows.len());
        }
    }
    let hosts = Hosts::of(flows);
    let mut ids = Vec::new();
    let mut detections = Vec::new();
    let mut heavy = None;
    for (index, flow) in flows.iter().enumerate() {
        let refused = |message: String| RunError::Scenario(format!("flow '{}': {message}", flow.name));
        let places = scenario.path(flow).map_err(refused)?;
        let path: Vec<HopId> = places.iter().map(|place| links[*place]).collect();
        let spec =
            spec(scenario, flow, hosts.at(index), &path).map_err(|error| refused(error.to_string()))?;
        let wire = Wire::new(transport(flow.stack), flow.direction == Direction::Up, port(index), index);
        // Those of its links before the bottleneck and those behind.
        let mut sides = places.splitn(2, |place| *place == 0);
        let mut delay = || {
            let side = sides.next().unwrap_or_default();
            side.iter().fold(Duration::ZERO, |sum, place| sum + scenario.links[place - 1].delay)
        };
        let passes = places.contains(&0).then(|| [delay(), delay()]);
        let counts = if passes.is_some() { links[0] } else { path[0] };
        network.observer_mut().expect(wire, counts, passes);
        if let Some(names) = flow.detection() {
            // The light sub-flow comes next.
            heavy = Some((names, spec, flow.name.clone(), setup(flow, index, seed)));
            continue;
        }
        let Some((names, first, name, setup)) = heavy.take() else {
            ids.push(network.add_flow(spec).map_err(|error| refused(error.to_string()))?);
            continue;
        };
        let shared = names.connection(&setup, Duration::ZERO).map_err(|error| refused(error.to_string()))?;
        let shared = weir_fq::Shared::new(shared);
        ids.extend(network.add_twins(first, spec, &shared).map_err(|error| refused(error.to_string()))?);
        detections.push((name, shared));
    }
    Ok(Built { bottleneck: links[0], ids, detections })
}

/// With what the detector and the controllers of a flow begin; their draws are its own.
fn setup(flow: &Flow, index: usize, seed: Seed) -> Setup {
    /// Payload bytes of a QUIC packet, as the simulator's endpoints send it.
    const MSS: u32 = 1425;
    Setup {
        mss: MSS,
        initial_window: flow.end_options().initial_window,
        random: seed.stream(&format!("detector {index}")),
        rate: None,
    }
}

/// What a connection has found out when the run ended.
fn detection(flow: &str, shared: &weir_fq::Shared, end: Time) -> DetectionResult {
    let connection = shared.lock();
    let names = [connection.detector(), connection.controller().unwrap_or_default()];
    detect::result(flow, names, connection.findings(), end)
}

fn transport(stack: Stack) -> Transport {
    match stack {
        Stack::Tcp => Transport::Tcp,
        Stack::Quic => Transport::Quic,
        Stack::Udp => Transport::Udp,
    }
}

fn spec(
    scenario: &Scenario,
    flow: &Flow,
    [server, client]: [usize; 2],
    path: &[HopId],
) -> Result<FlowSpec, weir_sim::SpecError> {
    let kind = match flow.stack {
        Stack::Tcp => Kind::Tcp(traffic::catalogue_name(&flow.controller).to_owned()),
        Stack::Quic => Kind::Quic(traffic::catalogue_name(&flow.controller).to_owned()),
        Stack::Udp => Kind::Datagrams(flow.rate.unwrap_or_default()),
    };
    let rtt = flow.rtt.unwrap_or(scenario.bottleneck.rtt);
    let whole = rtt + scenario.link_delay(flow) * 2;
    // Data flows one and a half round trips after a handshake begins; UDP needs none.
    let ahead = match flow.stack {
        Stack::Udp => Duration::ZERO,
        // Behind the SYN comes what is simulated.
        Stack::Tcp if flow.syn_fin == Some(true) => whole / 2,
        Stack::Tcp | Stack::Quic => whole + whole / 2,
    };
    let amount = match (flow.bytes, flow.duration) {
        (Some(bytes), _) => Amount::Bytes(bytes.0),
        (None, Some(duration)) => Amount::Time(duration),
        (None, None) => Amount::Endless,
    };
    // As in the other worlds, a server has one address for flows with ECN and one for those without.
    let server = 1 + 2 * server + usize::from(flow.ecn);
    let made = FlowSpec::new(kind, path, rtt)?;
    let made = match flow.remark {
        Some(remark) => made.remark(remark.codepoint()),
        None => made,
    };
    let made = match flow.bursts {
        Some(every) => made.bursts(every, scenario.bottleneck.rate),
        None => made,
    };
    let window = flow.receive_window.map_or(u64::MAX, |window| window.0).min(window(scenario).0);
    Ok(made
        .hosts([server as u16, 1 + client as u16])
        .ecn(flow.ecn)
        .ends(flow.end_options())
        .up(flow.direction == Direction::Up)
        .two_way(flow.pattern == Pattern::TwoWay)
        .window(window)
        .start(flow.start + ahead)
        .position(scenario.bottleneck.position)
        .amount(amount))
}

#[allow(clippy::disallowed_methods, reason = "progress and cost are of real time")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Lets time pass until all flows that have an end have reached it. Returns why the run ended before.
fn advance(
    network: &mut Network<Watcher>,
    scenario: &Scenario,
    options: &RunOptions,
) -> Option<&'static str> {
    let began = now();
    let end = Time::ZERO + scenario.measure.timeout;
    let ends = scenario.has_end();
    loop {
        let at = (network.now() + LOOK).min(end);
        if network.run_until_done(at) && ends {
            return None;
        }
        if at >= end {
            return Some("timeout");
        }
        // What could not be written is reported when the files are completed.
        let is_in_vain = network.observer().tap.as_deref().is_some_and(Wiretap::has_failed);
        if is_in_vain || options.stop.load(Ordering::Relaxed) {
            return Some("interrupted");
        }
        let done = at.as_secs_f64() / scenario.measure.timeout.as_secs_f64();
        let spent = now().saturating_duration_since(began);
        (options.progress)(Progress { done, left: Some(spent.mul_f64((1.0 - done) / done.max(1e-6))) });
    }
}

fn flow_result(
    flow: &Flow,
    report: &weir_sim::FlowReport,
    started: Option<Time>,
    ignores_marks_beyond: Option<Duration>,
    end: Time,
) -> traffic::FlowResult {
    let rtt_of = |sample: &weir_sim::Sample| RttSample {
        time: sample.time,
        rtt_us: sample.rtt.as_nanos() / 1000,
        cwnd_bytes: sample.window,
        delivered_bytes: sample.delivered,
        lost_packets: sample.lost,
        congestion_events: sample.marked,
    };
    let limited = flow.bytes.is_some() || flow.duration.is_some();
    // As in the other worlds: a client that wants data for a time has had them so long after it asked.
    let had = started.zip(flow.duration.filter(|_| flow.bytes.is_none() && flow.stack != Stack::Udp));
    let finished = match (report.finished, had) {
        (Some(stopped), Some((started, duration))) => Some(stopped.min(started + duration)),
        (finished, _) => finished.or((!limited).then_some(end)),
    };
    // A client waits for no datagrams: nobody has asked for so many.
    let completes = flow.bytes.is_some() && flow.stack != Stack::Udp;
    let completed = report.finished.filter(|_| completes);
    traffic::FlowResult {
        name: flow.name.clone(),
        stack: flow.stack,
        controller: (flow.stack != Stack::Udp).then(|| flow.controller.clone()),
        handshake: None,
        started,
        finished: finished.or(Some(end)),
        fct: completed.zip(started).map(|(completed, started)| completed.since(started)),
        bytes: report.bytes,
        complete: !limited || report.finished.is_some(),
        ecn: Some(flow.ecn),
        samples: report.samples.iter().map(rtt_of).collect(),
        spin: None,
        udp: None,
        ignored_marks_beyond: ignores_marks_beyond.filter(|_| report.marked > 0),
        detection: None,
        error: None,
    }
}
