//! Figure `law/policy`: each sender alone gets signals by lot from some moment on. Nothing else changes, so what its
//! rate does then is its answer.

use std::collections::BTreeMap;

use serde::Deserialize;
use weir_core::{Duration, Rate};
use weir_report::result::RunResult;
use weir_scenario::{Bottleneck, Flow, Measure, Scenario};
use weir_testbed::traffic::Stack;
use weir_truth::lottery;
use weir_truth::policy::{Demand, Policy};
use weir_truth::tables::{self, Grid};
use weir_truth::truth::Class;

use crate::figure::{About, Cell, Findings, Job, OfRuns, Place, Plan, Statement, Verdict};
use weir_report::spread::Spread;

const INTERVAL: Duration = Duration::from_secs(1);

/// The figure's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::figure) struct Asked {
    about: About,
    rate: Rate,
    rtt: Duration,
    limit: String,
    /// The round trip with a full queue.
    longest: Duration,
    from: Duration,
    around: u32,
    constant: Rate,
    runs: u32,
    loss: Vec<f64>,
    ecn: Vec<f64>,
    controllers: Vec<String>,
    #[serde(skip, default = "Policy::load")]
    policy: Policy,
}

/// One question.
#[derive(Clone, Copy)]
struct Question<'a> {
    controller: &'a str,
    signal: &'static str,
    /// Of packets with a signal.
    percent: f64,
    run: u32,
}

impl Question<'_> {
    fn name(&self) -> String {
        format!("{}, {}, {} %, run {}", self.controller, self.signal, self.percent, self.run)
    }
}

/// Whether a controller is asked by marks: one that takes part in ECN, or is not told that it should not.
fn hears(controller: &str, signal: &str) -> bool {
    signal == "loss" || !matches!(controller, "bbr2" | "bbr3")
}

impl Asked {
    fn shares(&self, signal: &str) -> &[f64] {
        if signal == "ecn" { &self.ecn } else { &self.loss }
    }

    fn demand(&self, signal: &str) -> &Demand {
        self.policy.demand(signal).expect("the policy asks for an answer to losses and to marks")
    }

    fn runs(&self, plan: &Plan) -> u32 {
        plan.runs_of(self.runs, 2)
    }

    /// Each controller and signal that it is asked by.
    fn pairs(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let both = |controller: &'_ String| -> Vec<&'static str> {
            ["loss", "ecn"].into_iter().filter(|signal| hears(controller, signal)).collect()
        };
        self.controllers.iter().flat_map(move |controller| {
            both(controller).into_iter().map(move |signal| (controller.as_str(), signal))
        })
    }

    fn questions(&self, plan: &Plan) -> Vec<Question<'_>> {
        let mut all = Vec::new();
        for (controller, signal) in self.pairs() {
            for percent in [0.0].iter().chain(self.shares(signal)) {
                let of = |run| Question { controller, signal, percent: *percent, run };
                all.extend((0..self.runs(plan)).map(of));
            }
        }
        all
    }

    fn scenario(&self, plan: &Plan, question: &Question) -> Scenario {
        let demand = self.demand(question.signal);
        let at = self.from + demand.time(self.longest);
        let around = self.longest * u64::from(self.around);
        let length = at + around;
        let ecn = if question.signal == "ecn" { " ecn" } else { "" };
        let ppm = (question.percent * 1e4).round() as u32;
        let words = format!("{} ppm {ppm} from {}{ecn} limit {}", lottery::KIND, self.from, self.limit);
        let stack = if question.run.is_multiple_of(2) { Stack::Tcp } else { Stack::Quic };
        let flow = Flow {
            name: "asked".to_owned(),
            controller: question.controller.to_owned(),
            duration: Some(length),
            ecn: question.signal == "ecn",
            max_rate: (question.controller == "constant-rate").then_some(self.constant),
            ..Flow::of(stack)
        };
        Scenario {
            name: question.name(),
            seed: plan.seed,
            bottleneck: Bottleneck::new(
                self.rate,
                self.rtt,
                words.parse().expect("the words of the lottery are known"),
            ),
            law: toml::Table::new(),
            links: Vec::new(),
            flows: vec![flow],
            workloads: Vec::new(),
            measure: Measure {
                interval: INTERVAL,
                from: at - around,
                to: Some(length),
                timeout: length + INTERVAL,
                ..Measure::default()
            },
        }
    }
}

/// What the sender offered to the queue in the measuring window: what left it, and what was dropped there.
fn rate(result: &RunResult) -> Option<f64> {
    let flow = result.flows.first()?;
    let passed = flow.packets.checked_sub(flow.dropped).filter(|passed| *passed > 0)?;
    Some(flow.throughput_bps * flow.packets as f64 / passed as f64)
}

impl OfRuns for Asked {
    fn about(&self) -> &About {
        &self.about
    }

    fn jobs(&self, plan: &Plan) -> Vec<Job> {
        let job = |question: Question| Job {
            name: question.name(),
            scenario: self.scenario(plan, &question),
            // The same draws with signals and without.
            run: u64::from(question.run),
        };
        self.questions(plan).into_iter().map(job).collect()
    }

    fn reduce(&self, plan: &Plan, jobs: &[Job], results: &[Result<RunResult, String>]) -> Findings {
        let known: BTreeMap<&str, f64> = jobs
            .iter()
            .zip(results)
            .filter_map(|(job, result)| Some((job.name.as_str(), rate(result.as_ref().ok()?)?)))
            .collect();
        let ratio = |question: Question| {
            let with = known.get(question.name().as_str())?;
            let without = known.get(Question { percent: 0.0, ..question }.name().as_str())?;
            (*without > 0.0).then(|| with / without)
        };
        let (mut cells, mut statements) = (Vec::new(), Vec::new());
        for (controller, signal) in self.pairs() {
            for percent in self.shares(signal) {
                let runs = (0..self.runs(plan))
                    .filter_map(|run| ratio(Question { controller, signal, percent: *percent, run }));
                let percent_word = percent.to_string();
                let mut cell = Cell::at(Place::new(&self.about, [controller, signal, percent_word.as_str()]));
                cell.runs = runs.collect();
                let Some(spread) = Spread::of(&cell.runs) else { continue };
                cell.more.insert("ci95".to_owned(), spread.ci95);
                let demand = self.demand(signal);
                if demand.percent == *percent {
                    statements.extend(self.statement(controller, signal, &spread));
                }
                cells.push(cell.averaged());
            }
        }
        let grids: Vec<Grid> = ["loss", "ecn"].into_iter().map(|signal| self.grid(signal, &cells)).collect();
        Findings { html: tables::html(&grids), text: tables::text(&grids), cells, statements }
    }
}

impl Asked {
    /// Whether a controller is by measurement what its construction or the policy's table says.
    fn statement(&self, controller: &str, signal: &'static str, spread: &Spread) -> Option<Statement> {
        let demand = self.demand(signal);
        let by_construction = Class::of(controller)?.right();
        let right = by_construction.or_else(|| self.policy.right(controller, signal))?;
        let bounds = match right {
            weir_law::Verdict::Responsive => (None, Some(demand.rate)),
            _ => (Some(demand.rate), None),
        };
        let why = if by_construction.is_some() { "by construction" } else { "by the policy's table" };
        Some(Statement {
            text: format!(
                "{controller} with {} % {}: its rate {} round trips later",
                demand.percent,
                if signal == "ecn" { "marks" } else { "losses" },
                demand.round_trips
            ),
            paper: match right {
                weir_law::Verdict::Responsive => format!("at most {} of that without, {why}", demand.rate),
                _ => format!("more than {} of that without, {why}", demand.rate),
            },
            measured: format!("{:.2} ± {:.2}", spread.mean, spread.ci95),
            verdict: Verdict::of(spread, bounds.0, bounds.1),
            interval: Some([spread.mean - spread.ci95, spread.mean + spread.ci95]),
            ..Statement::default()
        })
    }

    /// A row for each controller, with what the policy makes of it.
    fn grid(&self, signal: &'static str, cells: &[Cell]) -> Grid {
        let demand = self.demand(signal);
        let shares = self.shares(signal);
        let rows = self.pairs().filter(|(_, of)| *of == signal).filter_map(|(controller, _)| {
            let at = |percent: &f64| {
                let percent = percent.to_string();
                let is = |cell: &&Cell| cell.place.labels().eq([controller, signal, percent.as_str()]);
                cells.iter().find(is)
            };
            let decides = at(&demand.percent)?.measured?;
            let rate = |percent: &f64| {
                at(percent).and_then(|cell| Some((cell.measured?, cell.more.get("ci95").copied()?)))
            };
            let words = |(rate, ci95): (f64, f64)| format!("{rate:.2} ± {ci95:.2}");
            let columns = shares.iter().map(|percent| rate(percent).map_or("-".to_owned(), words));
            let verdict = demand.verdict(decides).name().to_owned();
            Some(std::iter::once(controller.to_owned()).chain(columns).chain([verdict]).collect())
        });
        let what = if signal == "ecn" { "marked" } else { "lost" };
        Grid {
            title: format!(
                "Rate {} round trips after so many percent were {what}, of that without",
                demand.round_trips
            ),
            header: std::iter::once("controller".to_owned())
                .chain(shares.iter().map(|percent| format!("{percent} %")))
                .chain([format!("at most {} at {} %?", demand.rate, demand.percent)])
                .collect(),
            rows: rows.collect(),
        }
    }
}
