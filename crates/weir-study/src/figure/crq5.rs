//! CRQ figure 5: the FCT score of responsive flows beside unresponsive UDP, one queue against CRQ's two.
//!
//! Every configuration of queues runs once per flow kind and round-trip time; the four columns of the paper are pairs
//! of these runs, so that one baseline serves all the columns that it stands in.

use std::collections::BTreeMap;

use serde::Deserialize;
use weir_core::{Duration, Rate, Seed};
use weir_qdisc::Switching;
use weir_qdisc::config::{CrqKeys, QdiscConfig};

use super::setting::{FlowKind, scenario, uses_ecn};
use super::{About, Cell, Findings, Job, OfRuns, Place, Plan, Statement, Variant, Verdict, by_name, mean};
use weir_report::result::{RunResult, fct_score};
use weir_report::spread::Spread;
use weir_scenario::Flow;
use weir_testbed::traffic::Stack;

/// The figure's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Crq5 {
    about: About,
    rate: Rate,
    bytes: u64,
    rtts: Vec<Duration>,
    runs: u32,
    udp_share: f64,
    udp_start: Duration,
    mixes: Mixes,
    flow: Vec<FlowKind>,
    pair: Vec<Pair>,
    published: BTreeMap<String, Vec<f64>>,
}

/// The row of many flows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mixes {
    name: String,
    flows: u32,
    bytes: u64,
    mixes: u32,
}

/// A column: one queue against two.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    name: String,
    baseline: String,
    responsive: String,
    standard: String,
}

impl Pair {
    fn system(&self) -> String {
        format!("CRQ {}/{}", self.responsive, self.standard)
    }
}

impl Crq5 {
    fn runs(&self, plan: &Plan, row: &str) -> u32 {
        let full = if row == self.mixes.name { self.mixes.mixes } else { self.runs };
        plan.runs_of(full, 1)
    }

    fn row_names(&self) -> impl Iterator<Item = &str> {
        self.flow.iter().map(|kind| kind.name.as_str()).chain([self.mixes.name.as_str()])
    }

    /// The responsive flows of a row in one run. Random mixes are drawn from (seed, run) alone, so that the baseline
    /// and CRQ face the same flows.
    fn flows(&self, plan: &Plan, row: &str, run: u32, ecn: bool) -> Vec<Flow> {
        let variant = self.about.variant(&plan.variant);
        let flow = |kind: &FlowKind, bytes| {
            let bytes = variant.scaled(plan.quick, self.rate, bytes).1;
            let receive_window = variant.receive_window.filter(|_| kind.stack == Stack::Tcp);
            Flow { receive_window, ..kind.flow(bytes, ecn) }
        };
        if let Some(kind) = self.flow.iter().find(|kind| kind.name == row) {
            return vec![flow(kind, self.bytes)];
        }
        let mut draw = Seed { seed: plan.seed, run: u64::from(run) }.stream("crq/5 mixes");
        (1..=self.mixes.flows)
            .filter_map(|number| {
                let kind = draw.choose(&self.flow)?;
                let flow = flow(kind, self.mixes.bytes);
                Some(Flow { name: format!("{number}. {}", kind.name), ..flow })
            })
            .collect()
    }

    fn job(&self, plan: &Plan, queues: &Queues, rtt: Duration, row: &str, run: u32) -> Job {
        let variant = self.about.variant(&plan.variant);
        let rate = variant.scaled(plan.quick, self.rate, 0).0;
        let mut flows = self.flows(plan, row, run, queues.ecn);
        let total: u64 = flows.iter().filter_map(|flow| flow.bytes).map(|bytes| bytes.0).sum();
        let load = if queues.is_crq && !variant.equal_load { self.udp_share / 2.0 } else { self.udp_share };
        // The paper splits the load in two with many flows: one UDP flow per server.
        let count = if flows.len() == 1 { 1 } else { 2 };
        flows.push(Flow {
            name: "UDP".to_owned(),
            stack: Stack::Udp,
            controller: String::new(),
            bytes: None,
            start: self.udp_start,
            ecn: false,
            rate: Some(rate.scale(load / f64::from(count))),
            bursts: variant.bursts,
            count,
            ..self.flow[0].flow(1, false)
        });
        // Twelve times as long as the bytes take alone: a flow that needs longer is starved.
        let timeout = rate.time_for(total) * 12;
        let name = job_name(&queues.name, rtt, row, run);
        let is_codel = matches!(queues.config, QdiscConfig::Codel(_));
        let passes = variant.codel_link.filter(|_| is_codel).unwrap_or(rate);
        let link = (passes, rtt, queues.config.clone());
        let mut scenario = scenario(&name, (variant, plan.seed), link, flows, timeout);
        scenario.bottleneck.super_packets =
            variant.super_packets && matches!(plan.world.name(), "kernel" | "vm");
        Job { scenario, name, run: u64::from(run) }
    }

    /// The distinct configurations of queues that the columns compare.
    fn queues(&self, variant: &Variant, world: &str) -> Vec<Queues> {
        let queue = |name: &str| variant.queue(name, world);
        let mut queues: Vec<Queues> = Vec::new();
        let mut add = |name: String, config: QdiscConfig, ecn, is_crq| {
            if queues.iter().all(|known| known.name != name) {
                queues.push(Queues { name, config, ecn, is_crq });
            }
        };
        for pair in &self.pair {
            let ecn = uses_ecn(&pair.baseline);
            add(pair.baseline.clone(), queue(&pair.baseline), ecn, false);
            // The paper's, if the variant does not say otherwise: half of the link each, nothing lent; flows change
            // queues at once (CRQ section III-B.4).
            let crq = variant.crq().unwrap_or_else(|| {
                QdiscConfig::Crq(Box::new(CrqKeys {
                    standard: queue(&pair.standard),
                    responsive: queue(&pair.responsive),
                    sharing: variant.sharing,
                    split: variant.split,
                    switching: Switching::Immediate,
                    ..CrqKeys::default()
                }))
            });
            add(pair.system(), crq, ecn, true);
        }
        queues
    }
}

struct Queues {
    name: String,
    config: QdiscConfig,
    ecn: bool,
    is_crq: bool,
}

fn job_name(queues: &str, rtt: Duration, row: &str, run: u32) -> String {
    format!("{queues}, {rtt}, {row}, run {run}")
}

impl OfRuns for Crq5 {
    fn about(&self) -> &About {
        &self.about
    }

    fn jobs(&self, plan: &Plan) -> Vec<Job> {
        let mut jobs = Vec::new();
        for queues in self.queues(self.about.variant(&plan.variant), plan.world.name()) {
            for rtt in &self.rtts {
                for row in self.row_names() {
                    jobs.extend((0..self.runs(plan, row)).map(|run| self.job(plan, &queues, *rtt, row, run)));
                }
            }
        }
        jobs
    }

    fn reduce(&self, plan: &Plan, jobs: &[Job], results: &[Result<RunResult, String>]) -> Findings {
        let known = by_name(jobs, results);
        let find = |queues: &str, rtt, row: &str, run| known.get(job_name(queues, rtt, row, run).as_str());
        let mut cells = Vec::new();
        for row in self.row_names() {
            for (pair_index, pair) in self.pair.iter().enumerate() {
                for (rtt_index, rtt) in self.rtts.iter().enumerate() {
                    let published = self.published.get(row);
                    let paper = published
                        .and_then(|values| values.get(pair_index * self.rtts.len() + rtt_index).copied());
                    let at = Place::new(&self.about, [row, &pair.name, &rtt.to_string()]);
                    let mut cell = Cell { paper, ..Cell::at(at) };
                    for run in 0..self.runs(plan, row) {
                        let (Some(baseline), Some(system)) =
                            (find(&pair.baseline, *rtt, row, run), find(&pair.system(), *rtt, row, run))
                        else {
                            continue;
                        };
                        match (baseline, system) {
                            (Ok(baseline), Ok(system)) => add(&mut cell, baseline, system, run),
                            (Err(error), _) | (_, Err(error)) => {
                                cell.notes.push(format!("run {run}: {error}"))
                            }
                        }
                    }
                    cells.push(cell.averaged());
                }
            }
        }
        let statements = statements(&cells);
        // What was not asked for has neither.
        cells.retain(|cell| !(cell.runs.is_empty() && cell.notes.is_empty()));
        Findings { cells, statements, ..Findings::default() }
    }
}

/// Adds the mean score over the responsive flows of a run. A flow that was cut off counts with the time it had: its
/// score is a bound, and the cell says so.
fn add(cell: &mut Cell, baseline: &RunResult, system: &RunResult, run: u32) {
    let mut scores = Vec::new();
    let mut unfinished = 0;
    for (before, after) in baseline.flows.iter().zip(&system.flows).filter(|(flow, _)| flow.stack != "udp") {
        unfinished += u32::from(before.fct_s.is_none()) + u32::from(after.fct_s.is_none());
        let time = |flow: &weir_report::result::FlowResult, of: &RunResult| {
            flow.fct_s.unwrap_or(of.meta.wall_s - flow.start_s)
        };
        scores.push(fct_score(time(before, baseline), time(after, system)));
    }
    if unfinished > 0 {
        let note = "flows were cut off at the timeout; the score is a bound";
        cell.notes.push(format!("run {run}: {unfinished} {note}"));
        cell.is_bound = true;
    }
    cell.runs.extend(mean(&scores));
}

/// What a mean score must be at least, and may be at most.
type Bounds = [Option<f64>; 2];

/// A score is above zero where flows complete sooner, and zero at parity.
const SOONER: Bounds = [Some(f64::MIN_POSITIVE), None];

/// And below it where they complete later.
const LATER: Bounds = [None, Some(-f64::MIN_POSITIVE)];

/// The paper's takeaways, and whether Cubic and the mixes gain against drop-tail what the paper has.
fn statements(cells: &[Cell]) -> Vec<Statement> {
    let of = |rows: &[&str], column: &[&str]| -> Vec<&Cell> {
        let is_of =
            |cell: &&Cell| rows.contains(&cell.place.row()) && cell.place.column().starts_with(column);
        cells.iter().filter(is_of).collect()
    };
    let mut statements = Vec::new();
    let mut state = |text: &str, paper: &str, cells: Vec<&Cell>, bounds: fn(&Cell) -> Bounds| {
        let spreads: Vec<Option<Spread>> = cells.iter().map(|cell| cell.spread()).collect();
        if spreads.iter().any(Option::is_some) {
            // A setting that was not made may be the one where it does not hold.
            let verdicts = spreads.iter().zip(cells).map(|(spread, cell)| {
                let [least, most] = bounds(cell);
                spread.map_or(Verdict::CannotTell, |spread| Verdict::of(&spread, least, most))
            });
            let words = |spread: &Option<Spread>| spread.map_or("-".to_owned(), |spread| spread.words(2));
            statements.push(Statement {
                text: text.to_owned(),
                paper: paper.to_owned(),
                verdict: Verdict::of_all(verdicts),
                measured: spreads.iter().map(words).collect::<Vec<_>>().join(", "),
                ..Statement::default()
            });
        }
    };
    state(
        "TCP Cubic (u) completes sooner with CRQ in every setting",
        "all > 0",
        of(&["TCP Cubic (u)"], &[]),
        |_| SOONER,
    );
    state(
        "Many flows complete sooner with CRQ in every setting",
        "all > 0",
        of(&["Multiple flows"], &[]),
        |_| SOONER,
    );
    state(
        "Against drop-tail at 5 ms every kind of flow completes sooner with CRQ",
        "0.16 to 0.76",
        cells.iter().filter(|cell| cell.place.column() == ["DT, CoDel/DT", "5ms"]).collect(),
        |_| SOONER,
    );
    let near = of(&["TCP Cubic (u)", "TCP Cubic (b)", "Multiple flows"], &["DT, CoDel/DT"]);
    state(
        "Against drop-tail TCP Cubic and many flows gain as much as the paper has, within 0.1",
        &papers(&near),
        near,
        // Without a number of the paper's nothing can be told: no number is within a bound that is none.
        |cell| [-0.1, 0.1].map(|off| Some(cell.paper.unwrap_or(f64::NAN) + off)),
    );
    state(
        "TCP BBR loses where ECN decides, at 5 ms",
        "-0.45, -0.44",
        of(&["TCP BBR (u)", "TCP BBR (b)"], &["CoDel ECN", "5ms"]),
        |_| LATER,
    );
    statements
}

fn papers(cells: &[&Cell]) -> String {
    let scores: Vec<String> = cells.iter().filter_map(|cell| Some(format!("{:.2}", cell.paper?))).collect();
    scores.join(", ")
}

#[cfg(test)]
#[path = "crq5_tests.rs"]
mod tests;
