//! The systematic evaluation of the fair-queuing paper: what a flow alone gets from 125 fair-queued links, and how long
//! its packets travel.

use serde::Deserialize;
use weir_core::{Duration, Rate};

use super::setting::{FlowKind, scaled, scenario};
use super::{About, Cell, Findings, Job, OfRuns, Place, Plan, Statement, by_name, mean};
use weir_report::result::RunResult;
use weir_scenario::Flow;
use weir_testbed::traffic::Stack;

/// How near a mean must be to the paper's.
const TOLERANCE: f64 = 0.15;
/// What a frame has beside its IP packet.
const ETHERNET: u64 = 14;

/// The figure's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Systematic {
    about: About,
    rates: Vec<Rate>,
    delays: Vec<Duration>,
    buffers: Vec<u32>,
    duration: Duration,
    runs: u32,
    system: Vec<System>,
}

/// What sends in a variant, and what is said of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct System {
    variant: String,
    stack: Stack,
    controller: String,
    /// Of fair queuing, if it looks for it.
    #[serde(default)]
    detector: String,
    /// The paper's means over all links; none of what the paper does not have.
    paper: Option<Means>,
    /// What it is to keep: the least throughput, the longest round trip and the largest loss.
    bounds: Option<Means>,
}

/// Means over all links.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Means {
    /// Mbit/s of IP packets, those that come twice included, as the paper counts.
    throughput: f64,
    /// Milliseconds.
    rtt: f64,
    /// Percent of packets; the paper does not give it.
    loss: Option<f64>,
}

/// What one of [`Means`] came to in each run.
struct Measured {
    name: &'static str,
    unit: &'static str,
    runs: Vec<f64>,
}

/// A link.
#[derive(Clone, Copy)]
struct Link {
    rate: Rate,
    delay: Duration,
    buffer: u32,
}

impl Link {
    fn labels(self) -> [String; 3] {
        [self.rate.to_string(), self.delay.to_string(), format!("{} packets", self.buffer)]
    }
}

impl Systematic {
    fn links(&self) -> impl Iterator<Item = Link> {
        self.rates.iter().flat_map(move |&rate| {
            self.delays
                .iter()
                .flat_map(move |&delay| self.buffers.iter().map(move |&buffer| Link { rate, delay, buffer }))
        })
    }

    fn runs(&self, plan: &Plan) -> u32 {
        plan.runs.unwrap_or(self.runs)
    }

    fn system(&self, plan: &Plan) -> &System {
        self.system.iter().find(|system| system.variant == plan.variant).unwrap_or(&self.system[0])
    }
}

fn job_name(link: Link, run: u32) -> String {
    format!("{}, run {run}", link.labels().join(", "))
}

impl OfRuns for Systematic {
    fn about(&self) -> &About {
        &self.about
    }

    fn jobs(&self, plan: &Plan) -> Vec<Job> {
        let variant = self.about.variant(&plan.variant);
        let system = self.system(plan);
        // The kernel's own has a fast path or none, by its version.
        let fq = if matches!(plan.world.name(), "kernel" | "vm") { "fq" } else { "fq nofast_path" };
        let kind = FlowKind {
            name: "flow".to_owned(),
            stack: system.stack,
            controller: system.controller.clone(),
            pattern: Default::default(),
        };
        self.links()
            .flat_map(|link| (0..self.runs(plan)).map(move |run| (link, run)))
            .map(|(link, run)| {
                let name = job_name(link, run);
                let flow = Flow {
                    bytes: None,
                    duration: Some(self.duration),
                    detector: system.detector.clone(),
                    ..kind.flow(1, false)
                };
                let queue = format!("{fq} flow_limit {}p", link.buffer);
                let queue = queue.parse().expect("fq and its limit are known");
                let on = (scaled(plan.quick, link.rate, 0).0, link.delay, queue);
                Job {
                    scenario: scenario(&name, (variant, plan.seed), on, vec![flow], self.duration * 2),
                    name,
                    run: u64::from(run),
                }
            })
            .collect()
    }

    fn reduce(&self, plan: &Plan, jobs: &[Job], results: &[Result<RunResult, String>]) -> Findings {
        let known = by_name(jobs, results);
        let mut cells = Vec::new();
        let mut measured: [Vec<Vec<f64>>; 3] =
            std::array::from_fn(|_| vec![Vec::new(); self.runs(plan) as usize]);
        for link in self.links() {
            let labels = link.labels();
            let at = Place::new(&self.about, labels.each_ref().map(String::as_str));
            let mut cell = Cell::at(at);
            let mut of_cell: [Vec<f64>; 3] = Default::default();
            for run in 0..self.runs(plan) {
                match known.get(job_name(link, run).as_str()) {
                    Some(Ok(result)) => {
                        // Of both sub-flows, if there are two.
                        let bytes: u64 = result.flows.iter().map(|flow| flow.received_bytes).sum();
                        cell.runs.push(bytes as f64 * 8.0 / self.duration.as_secs_f64() / 1e6);
                        let values = [self.throughput(result), rtt(result), loss(result)];
                        for ((all, of_cell), value) in measured.iter_mut().zip(&mut of_cell).zip(values) {
                            all[run as usize].extend(value);
                            of_cell.extend(value);
                        }
                    }
                    Some(Err(error)) => cell.notes.push(format!("run {run}: {error}")),
                    None => continue,
                }
            }
            let keys = ["throughput_mbps", "rtt_ms", "loss_percent"];
            let means = keys.into_iter().zip(of_cell.iter().map(|values| mean(values)));
            cell.more = means.filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
            if !(cell.runs.is_empty() && cell.notes.is_empty()) {
                cells.push(cell.averaged());
            }
        }
        // What is said is of all links, at full rate.
        let links = self.links().count();
        let is_whole = !plan.quick && measured[0].iter().all(|run| run.len() == links);
        let statements = if is_whole { self.statements(plan, &measured) } else { Vec::new() };
        Findings { cells, statements, ..Findings::default() }
    }
}

impl Systematic {
    /// What is said of a system, beside the means over all links of each run: throughput, round trip and loss.
    fn statements(&self, plan: &Plan, measured: &[Vec<Vec<f64>>; 3]) -> Vec<Statement> {
        let system = self.system(plan);
        let words = [("throughput", "Mbit/s"), ("round trip", "ms"), ("loss", "%")];
        let of = |means: &Means| [Some(means.throughput), Some(means.rtt), means.loss];
        let runs = |index: usize| measured[index].iter().filter_map(|run| mean(run)).collect();
        let measured = words.into_iter().enumerate();
        let measured: Vec<_> =
            measured.map(|(index, (name, unit))| Measured { name, unit, runs: runs(index) }).collect();
        let said = |means: &Option<Means>| means.as_ref().map(of).unwrap_or_default();
        let papers = measured.iter().zip(said(&system.paper)).filter_map(|(it, paper)| it.near(paper?));
        let bounds = measured.iter().zip(said(&system.bounds)).enumerate();
        let bounds = bounds.filter_map(|(index, (it, bound))| it.within(bound?, index == 0));
        papers.chain(bounds).collect()
    }

    /// In Mbit/s of IP packets that left the bottleneck, until the last of them did.
    fn throughput(&self, result: &RunResult) -> Option<f64> {
        let queue = result.queues.first()?;
        let bytes = queue.departed_bytes - ETHERNET * queue.departed;
        Some(bytes as f64 * 8.0 / result.series.end_s.max(self.duration.as_secs_f64()) / 1e6)
    }
}

impl Measured {
    /// Beside a mean that the paper gives.
    fn near(&self, paper: f64) -> Option<Statement> {
        let value = mean(&self.runs)?;
        let Self { name, unit, .. } = self;
        Some(Statement {
            text: format!("Mean {name} over all links, within {:.0} %", TOLERANCE * 100.0),
            paper: format!("{paper} {unit}"),
            measured: self.words(value),
            verdict: ((value / paper - 1.0).abs() <= TOLERANCE).into(),
            ..Statement::default()
        })
    }

    /// Beside a bound, of which more or less is better.
    fn within(&self, bound: f64, more_is_better: bool) -> Option<Statement> {
        let value = mean(&self.runs)?;
        let Self { name, unit, .. } = self;
        let side = if more_is_better { "least" } else { "most" };
        Some(Statement {
            text: format!("Mean {name} over all links: at {side} {bound} {unit}"),
            paper: "nothing of it".to_owned(),
            measured: self.words(value),
            verdict: if more_is_better { value >= bound } else { value <= bound }.into(),
            ..Statement::default()
        })
    }

    fn words(&self, value: f64) -> String {
        let unit = self.unit;
        let ends = self.runs.iter().copied().reduce(f64::min).zip(self.runs.iter().copied().reduce(f64::max));
        match ends {
            Some((least, most)) if self.runs.len() > 1 => {
                format!("{value:.2} {unit}; {least:.2} to {most:.2} in {} runs", self.runs.len())
            }
            _ => format!("{value:.2} {unit}"),
        }
    }
}

/// The mean round trip of a run's packets in milliseconds: the path's, the wait in the queue, and the sending of a full
/// packet. It is the same measure for whatever sends.
fn rtt(result: &RunResult) -> Option<f64> {
    let bottleneck = &result.meta.scenario.bottleneck;
    let queue = result.queues.first()?.sojourn_ns.mean()? / 1e6;
    let sending = bottleneck.rate.time_for(u64::from(weir_core::FULL_PACKET));
    Some((bottleneck.rtt + sending).as_millis_f64() + queue)
}

/// The share of a run's packets that the queue dropped, in percent.
fn loss(result: &RunResult) -> Option<f64> {
    let queue = result.queues.first()?;
    let dropped = (queue.dropped + queue.overflowed) as f64;
    let offered = queue.departed as f64 + dropped;
    (offered > 0.0).then(|| 100.0 * dropped / offered)
}
