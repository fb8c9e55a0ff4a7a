//! World `sim`: the scenario in virtual time. Queue disciplines and law are those of the other worlds, endpoints are
//! weir-sim's with weir-cc's controllers. The same seed gives the same result, on any machine.

mod headers;
mod trace;
mod wire;
mod wiretap;
mod workloads;

use std::sync::atomic::Ordering;

use weir_core::{Audit, Duration, Ecn, Event, EventKind, EventSink, FlowId, Packet, Seed, Time};
use weir_law::{Direction, Law, Signal, Start, parse_cut};
use weir_link::Observer as _;
use weir_sim::{Amount, Carried, FlowSpec, HopId, HopSpec, Kind, Network, Observer, Opening};

use crate::gather;
use crate::host::Hosts;
use crate::record::Recorder;
use crate::result::{Health, RunResult};
use crate::run::{Ended, LAW_CAPACITY, Progress, RunError, RunOptions, World, port};
use crate::scenario::{self, FULL_PACKET, Flow, Pattern, Scenario};
use crate::traffic::{self, RttSample, Stack};
use wire::Wire;
use wiretap::Wiretap;

/// How often, in virtual time, progress is told and an interrupt is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Gives every packet to the law and to the recorder, as the bottleneck of the other worlds does.
struct Watcher {
    recorder: Recorder,
    audit: Audit,
    law: Law,
    wires: Vec<Wire>,
    /// The law's number of each flow.
    judged: Vec<FlowId>,
    /// Flows of the scenario, before those of its workloads.
    flows: usize,
    /// The workloads' stacks.
    stacks: Vec<Stack>,
    tap: Option<Box<Wiretap>>,
}

impl Watcher {
    fn judge(
        &mut self,
        flow: FlowId,
        parsed: &weir_law::ParsedPacket,
        direction: Direction,
        now: Time,
    ) -> weir_law::Stamp {
        let id = self.law.lookup(parsed, direction, now);
        self.judged[flow.0 as usize] = id;
        let mut sink = weir_link::Renamed(&mut self.recorder, flow);
        self.law.arrival(id, parsed, direction, now, &mut sink)
    }
}

impl Observer for Watcher {
    fn event(&mut self, hop: HopId, event: &Event) {
        if let Some(tap) = &mut self.tap {
            tap.event(hop.index(), event, &self.wires[event.packet.flow.0 as usize]);
        }
        self.audit.event(event);
        self.recorder.event(event);
        let packet = &event.packet;
        let signal = match event.kind {
            EventKind::Drop(_) => Signal::Loss,
            // A packet that came with CE has its signal from somebody else.
            EventKind::Mark(_) if packet.ecn_in != Ecn::Ce => Signal::Mark,
            _ => return,
        };
        let flow = self.judged[packet.flow.0 as usize];
        self.law.signal(flow, packet.cycle, signal, packet.segments, event.time);
    }

    fn arriving(&mut self, _: HopId, packet: &mut Packet, carried: &Carried) {
        let wire = self.wires[packet.flow.0 as usize];
        let parsed = wire.data(carried, packet);
        let stamp = self.judge(packet.flow, &parsed, Direction::Forward, packet.arrived);
        packet.cycle = stamp.cycle;
        packet.choice = stamp.choice;
        if let Some(tap) = &mut self.tap {
            tap.arriving(packet, carried);
        }
    }

    fn departed(&mut self, hop: HopId, packet: &Packet, now: Time) {
        if let Some(tap) = &mut self.tap {
            tap.departed(hop.index(), packet, now, &self.wires[packet.flow.0 as usize]);
        }
    }

    fn opening(&mut self, opening: &Opening) {
        let flow = opening.flow;
        if let Some(workload) = opening.workload {
            let (index, stack) = (flow.0 as usize, self.stacks[workload.index()]);
            if index >= self.wires.len() {
                self.wires.resize(index + 1, Wire::new(stack, 0, 0));
                self.judged.resize(index + 1, FlowId::NONE);
            }
            self.wires[index] = Wire::new(stack, port(index), index);
            self.recorder.book(flow, self.flows + workload.index());
        }
        let wire = self.wires[flow.0 as usize];
        let carried = Carried { flow, ..Carried::default() };
        let packet = Packet::new(0, flow, FULL_PACKET as u32, opening.now);
        if let Some(key) = wire.data(&carried, &packet).flow_key()
            && opening.workload.is_none()
        {
            self.recorder.new_flow(flow, &key, opening.now);
        }
        if let Some([syn, answer]) = wire.handshake(opening.offset as u32) {
            self.judge(flow, &syn, Direction::Reverse, opening.now);
            self.judge(flow, &answer, Direction::Forward, opening.now);
        }
        if wire.stack() == Stack::Quic && opening.workload.is_some() {
            // So that the law does not take one request's connection for the next one's.
            for (down, direction) in [(false, Direction::Reverse), (true, Direction::Forward)] {
                let initial = headers::initial(&wire, down);
                let parsed = parse_cut(initial.bytes(), initial.length, Start::Ethernet);
                self.judge(flow, &parsed, direction, opening.now);
            }
        }
        if let Some(tap) = &mut self.tap {
            tap.opens(opening, &wire);
        }
    }

    fn watches_headers(&self) -> bool {
        self.tap.is_some()
    }

    fn watches_return(&self) -> bool {
        true
    }

    fn returning(&mut self, carried: &Carried, now: Time) {
        let parsed = self.wires[carried.flow.0 as usize].acknowledgement(carried);
        self.judge(carried.flow, &parsed, Direction::Reverse, now);
        if let Some(tap) = &mut self.tap {
            tap.returning(carried, now, &self.wires[carried.flow.0 as usize]);
        }
    }
}

/// Runs `scenario` in virtual time.
pub(crate) fn run(scenario: &Scenario, options: &RunOptions) -> Result<RunResult, RunError> {
    let flows = scenario.expanded_flows();
    let params = scenario.law_params().map_err(RunError::Scenario)?;
    let bottleneck = &scenario.bottleneck;
    let queues = bottleneck.qdisc.queue_names().len();
    let ports = (0..flows.len()).map(port).chain(scenario.workloads.iter().map(|_| 0)).collect();
    let connections: u32 = scenario.workloads.iter().map(scenario::Workload::most_connections).sum();
    let watcher = Watcher {
        recorder: Recorder::new(ports, queues, scenario.measure.interval, params.main_signal, None),
        audit: Audit::with_capacity(flows.len()),
        law: Law::new(params, LAW_CAPACITY.max(flows.len() + connections as usize)),
        wires: flows
            .iter()
            .enumerate()
            .map(|(index, flow)| Wire::new(flow.stack, port(index), index))
            .collect(),
        judged: vec![FlowId::NONE; flows.len()],
        flows: flows.len(),
        stacks: scenario.workloads.iter().map(|workload| workload.stack).collect(),
        tap: Wiretap::create(options)?.map(Box::new),
    };

    let seed = Seed { seed: scenario.seed, run: options.run };
    let mut network = Network::new(seed, watcher);
    let refused = |error: weir_sim::SpecError| RunError::Scenario(error.to_string());
    let hop = HopSpec::new(bottleneck.rate, bottleneck.qdisc.clone(), bottleneck.rtt)
        .map_err(|error| RunError::Scenario(format!("bottleneck.qdisc: {error}")))?;
    let hop = network.add_hop(hop);
    let hosts = Hosts::of(&flows);
    for (index, flow) in flows.iter().enumerate() {
        network.add_flow(spec(scenario, flow, hosts.at(index), hop).map_err(refused)?).map_err(refused)?;
    }
    let added = workloads::add(&mut network, scenario, hop).map_err(refused)?;
    let cut_short = advance(&mut network, scenario, options);

    let end = network.now();
    let results = flows
        .iter()
        .enumerate()
        .map(|(index, flow)| flow_result(flow, &network.flow(FlowId(index as u32)), end))
        .collect::<Vec<_>>();
    let done = scenario
        .workloads
        .iter()
        .zip(&added)
        .map(|(workload, id)| workloads::result(workload, &network.workload(*id), end))
        .collect();
    let cut_workloads = scenario
        .workloads
        .iter()
        .zip(&added)
        .filter(|(workload, id)| workload.has_end() && !network.workload(**id).done)
        .map(|(workload, _)| workload.label().to_owned())
        .collect();
    let left = network.drain();
    let mut watcher = network.into_observer();
    watcher.tap.take().map_or(Ok(()), |tap| tap.finish())?;
    let audit = watcher.audit.report(left);
    let mut health = Health {
        arrived: audit.total.arrived,
        departed: audit.total.departed,
        dropped: audit.total.dropped,
        still_queued: audit.still_queued,
        unaccounted: audit.unbalanced.iter().map(|(_, missing)| missing.abs()).sum(),
        overtaken: audit.overtaken,
        ..Health::default()
    };
    if !audit.holds() {
        health.warnings.push(format!(
            "packets are not accounted for: {:?}, {} overtaken",
            audit.unbalanced, audit.overtaken
        ));
    }
    let ended = Ended {
        world: World::Sim,
        io: "virtual time".to_owned(),
        flows: flows.into_iter().zip(results).collect(),
        workloads: done,
        recorder: Box::new(watcher.recorder),
        health,
        law_counters: gather::named(&watcher.law.counters()),
        qdiscs: Vec::new(),
        seed,
        started_unix_s: 0,
        wall: end.since(Time::ZERO),
        cut_short,
        cut_workloads,
        capture_missed: 0,
        host_drops: 0,
    };
    Ok(gather::result(scenario, ended))
}

/// What this world cannot do yet, by the key that asks for it.
pub(crate) fn check(scenario: &Scenario) -> Result<(), (String, String)> {
    for (index, flow) in scenario.flows.iter().enumerate() {
        let cannot = |key: &str, what: &str| {
            Err((format!("flow.{index}.{key}"), format!("world sim has no {what} yet; use --on emu")))
        };
        if flow.pattern == Pattern::TwoWay {
            return cannot("pattern", "two-way flows");
        }
        if flow.direction == scenario::Direction::Up {
            return cannot("direction", "upward flows");
        }
        let name = &flow.controller;
        if flow.stack != Stack::Udp
            && let Err(error) = weir_cc::find(name)
        {
            return Err((format!("flow.{index}.controller"), error.to_string()));
        }
    }
    Ok(())
}

fn spec(
    scenario: &Scenario,
    flow: &Flow,
    [server, client]: [usize; 2],
    hop: HopId,
) -> Result<FlowSpec, weir_sim::SpecError> {
    let kind = match flow.stack {
        Stack::Tcp => Kind::Tcp(flow.controller.clone()),
        Stack::Quic => Kind::Quic(traffic::catalogue_name(&flow.controller).to_owned()),
        Stack::Udp => Kind::Datagrams(flow.rate.unwrap_or_default()),
    };
    let rtt = flow.rtt.unwrap_or(scenario.bottleneck.rtt);
    // Data flows one and a half round trips after a handshake begins; UDP needs none.
    let ahead = if flow.stack == Stack::Udp { Duration::ZERO } else { rtt + rtt / 2 };
    let amount = match (flow.bytes, flow.duration) {
        (Some(bytes), _) => Amount::Bytes(bytes.0),
        (None, Some(duration)) => Amount::Time(duration),
        (None, None) => Amount::Endless,
    };
    // As in the other worlds, a server has one address for flows with ECN and one for those without.
    let server = 1 + 2 * server + usize::from(flow.ecn);
    Ok(FlowSpec::new(kind, &[hop], rtt)?
        .hosts([server as u16, 1 + client as u16])
        .ecn(flow.ecn)
        .ends(flow.end_options())
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
        if options.stop.load(Ordering::Relaxed) {
            return Some("interrupted");
        }
        let done = at.as_secs_f64() / scenario.measure.timeout.as_secs_f64();
        let spent = now().saturating_duration_since(began);
        (options.progress)(Progress { done, left: Some(spent.mul_f64((1.0 - done) / done.max(1e-6))) });
    }
}

fn flow_result(flow: &Flow, report: &weir_sim::FlowReport, end: Time) -> traffic::FlowResult {
    let rtt_of = |sample: &weir_sim::Sample| RttSample {
        time: sample.time,
        rtt_us: sample.rtt.as_nanos() / 1000,
        cwnd_bytes: sample.window,
        delivered_bytes: sample.delivered,
        lost_packets: sample.lost,
        congestion_events: sample.marked,
    };
    let limited = flow.bytes.is_some() || flow.duration.is_some();
    let finished = report.finished.or((!limited).then_some(end));
    let started = report.started;
    traffic::FlowResult {
        name: flow.name.clone(),
        stack: flow.stack,
        controller: (flow.stack != Stack::Udp).then(|| flow.controller.clone()),
        handshake: None,
        started,
        finished: finished.or(Some(end)),
        fct: flow.bytes.and(report.finished).zip(started).map(|(finished, started)| finished.since(started)),
        bytes: report.bytes,
        complete: !limited || report.finished.is_some(),
        ecn: Some(flow.ecn),
        samples: report.samples.iter().map(rtt_of).collect(),
        spin: None,
        udp: None,
        error: None,
    }
}
