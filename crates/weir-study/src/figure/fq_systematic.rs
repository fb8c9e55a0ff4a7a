//! The systematic evaluation of the fair-queuing paper: what a flow alone gets from 125 fair-queued links, and how long
//! its packets travel.

use serde::Deserialize;
use weir_core::{Duration, Rate};

use super::setting::{FlowKind, scaled, scenario};
use super::{About, Cell, Figure, Findings, Job, Place, Plan, Statement, mean};
use weir_report::result::RunResult;
use weir_scenario::Flow;
use weir_testbed::traffic::Stack;

const SETTING: &str = include_str!("../../figures/fq/systematic/figure.toml");

/// How near a mean must be to the paper's.
const TOLERANCE: f64 = 0.15;

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

/// What sends in a variant, and what the paper has of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct System {
    variant: String,
    stack: Stack,
    controller: String,
    /// Of fair queuing, if it looks for it.
    #[serde(default)]
    detector: String,
    throughput: f64,
    rtt: f64,
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
    /// The figure as its file has it.
    ///
    /// # Panics
    /// If the file that is built in is wrong; the tests load it.
    pub(super) fn load() -> Self {
        toml::from_str(SETTING).expect("figures/fq/systematic/figure.toml is sound")
    }

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

impl Figure for Systematic {
    fn about(&self) -> &About {
        &self.about
    }

    fn jobs(&self, plan: &Plan) -> Vec<Job> {
        let variant = self.about.variant(&plan.variant);
        let system = self.system(plan);
        let kind = FlowKind {
            name: "flow".to_owned(),
            stack: system.stack,
            controller: system.controller.clone(),
            pattern: Default::default(),
        };
        self.links()
            .flat_map(|link| (0..self.runs(plan)).map(move |run| (link, run, job_name(link, run))))
            .filter(|(_, _, name)| plan.only.as_ref().is_none_or(|only| name.contains(only.as_str())))
            .map(|(link, run, name)| {
                let flow = Flow {
                    bytes: None,
                    duration: Some(self.duration),
                    detector: system.detector.clone(),
                    ..kind.flow(1, false)
                };
                let queue = format!("fq flow_limit {}p", link.buffer);
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
        let mut cells = Vec::new();
        let (mut rtts, mut losses) = (Vec::new(), Vec::new());
        for link in self.links() {
            let labels = link.labels();
            let at = Place::new(&self.about, labels.each_ref().map(String::as_str));
            let mut cell = Cell::at(at);
            for run in 0..self.runs(plan) {
                let name = job_name(link, run);
                match jobs.iter().position(|job| job.name == name).map(|index| &results[index]) {
                    Some(Ok(result)) => {
                        // Of both sub-flows, if there are two.
                        let bytes: u64 = result.flows.iter().map(|flow| flow.received_bytes).sum();
                        cell.runs.push(bytes as f64 * 8.0 / self.duration.as_secs_f64() / 1e6);
                        losses.extend(loss(result));
                        rtts.extend(rtt(result));
                    }
                    Some(Err(error)) => cell.notes.push(format!("run {run}: {error}")),
                    None => continue,
                }
            }
            if !(cell.runs.is_empty() && cell.notes.is_empty()) {
                cells.push(cell.averaged());
            }
        }
        let goodput: Vec<f64> = cells.iter().filter_map(|cell| cell.measured).collect();
        // The paper's means are over all links, at full rate.
        let whole = !plan.quick && goodput.len() == self.links().count();
        let means = mean(&goodput).zip(mean(&rtts)).zip(mean(&losses)).filter(|_| whole);
        let system = self.system(plan);
        let statements = means.map_or_else(Vec::new, |((goodput, rtt), loss)| {
            let mut rtt = statement("Mean round trip over all links", "ms", system.rtt, rtt);
            rtt.measured += &format!("; {loss:.2} % of packets lost");
            vec![statement("Mean throughput over all links", "Mbit/s", system.throughput, goodput), rtt]
        });
        Findings { cells, statements }
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

fn statement(text: &str, unit: &str, paper: f64, measured: f64) -> Statement {
    Statement {
        text: format!("{text}, within {:.0} %", TOLERANCE * 100.0),
        paper: format!("{paper} {unit}"),
        measured: format!("{measured:.1} {unit}"),
        holds: (measured / paper - 1.0).abs() <= TOLERANCE,
    }
}
