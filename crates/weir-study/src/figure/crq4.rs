//! CRQ figure 4: how often single flows stand as responsive, at a drop-tail queue and at CoDel with drop and with ECN.
//!
//! The paper prints points without numbers, so its column holds what its text says of each group of points.

use serde::Deserialize;
use weir_core::{Duration, Rate};

use super::setting::{FlowKind, scenario, uses_ecn};
use super::{About, Cell, Findings, Job, OfRuns, Place, Plan, Statement, Verdict, by_name};
use weir_report::result::RunResult;

/// The figure's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Crq4 {
    about: About,
    rate: Rate,
    bytes: u64,
    rtts: Vec<Duration>,
    runs: u32,
    flow: Vec<FlowKind>,
    queue: Vec<Queue>,
    says: Vec<Says>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Queue {
    name: String,
}

/// What the paper's text says of a cell.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Says {
    queue: String,
    flow: String,
    rtt: Option<Duration>,
    verdict: String,
}

/// A cell and the runs that fill it.
struct Spot<'a> {
    queue: &'a str,
    rtt: Duration,
    kind: &'a FlowKind,
}

impl Crq4 {
    fn spots(&self) -> impl Iterator<Item = Spot<'_>> {
        self.queue.iter().flat_map(move |queue| {
            self.rtts.iter().flat_map(move |rtt| {
                self.flow.iter().map(move |kind| Spot { queue: &queue.name, rtt: *rtt, kind })
            })
        })
    }

    fn says(&self, spot: &Spot) -> Option<String> {
        self.says
            .iter()
            .find(|says| {
                says.queue == spot.queue
                    && says.flow == spot.kind.name
                    && says.rtt.is_none_or(|rtt| rtt == spot.rtt)
            })
            .map(|says| says.verdict.clone())
    }
}

fn job_name(spot: &Spot, run: u32) -> String {
    format!("{}, {}, {}, run {run}", spot.queue, spot.rtt, spot.kind.name)
}

impl OfRuns for Crq4 {
    fn about(&self) -> &About {
        &self.about
    }

    fn jobs(&self, plan: &Plan) -> Vec<Job> {
        let variant = self.about.variant(&plan.variant);
        let (rate, bytes) = variant.scaled(plan.quick, self.rate, self.bytes);
        // Ten times as long as the bytes take alone: a flow that needs longer is starved.
        let timeout = rate.time_for(bytes) * 10;
        self.spots()
            .flat_map(|spot| {
                (0..plan.runs_of(self.runs, 1))
                    .map(move |run| (run, job_name(&spot, run), spot.queue, spot.rtt, spot.kind))
            })
            .map(|(run, name, queue, rtt, kind)| {
                let flows = vec![kind.flow(bytes, uses_ecn(queue))];
                let link = (rate, rtt, variant.queue(queue, plan.world.name()));
                Job {
                    scenario: scenario(&name, (variant, plan.seed), link, flows, timeout),
                    name,
                    run: u64::from(run),
                }
            })
            .collect()
    }

    fn reduce(&self, plan: &Plan, jobs: &[Job], results: &[Result<RunResult, String>]) -> Findings {
        let known = by_name(jobs, results);
        let mut cells = Vec::new();
        for spot in self.spots() {
            let labels = [&spot.kind.name, spot.queue, &spot.rtt.to_string()];
            let at = Place::new(&self.about, labels);
            let mut cell = Cell { paper_says: self.says(&spot), ..Cell::at(at) };
            let mut planned = false;
            for run in 0..plan.runs_of(self.runs, 1) {
                let Some(result) = known.get(job_name(&spot, run).as_str()) else { continue };
                planned = true;
                match result {
                    Ok(result) => {
                        let flow = &result.flows[0];
                        match flow.responsive_cycles {
                            Some(share) => cell.runs.push(share * 100.0),
                            None => cell.notes.push(format!("run {run}: no cycle was seen")),
                        }
                        if flow.assessments == 0 {
                            cell.notes.push(format!("run {run}: never assessed"));
                        }
                        if flow.fct_s.is_none() {
                            cell.notes.push(format!("run {run}: the flow did not complete"));
                        }
                    }
                    Err(error) => cell.notes.push(format!("run {run}: {error}")),
                }
            }
            if planned {
                cells.push(cell.averaged());
            }
        }
        let statements = cells.iter().filter_map(statement).collect();
        Findings { cells, statements, ..Findings::default() }
    }
}

/// The paper's word on a cell, put to the test: "responsive" is a mean score of at least 75, "unresponsive" at most 25.
fn statement(cell: &Cell) -> Option<Statement> {
    let says = cell.paper_says.as_ref()?;
    let spread = cell.spread()?;
    let verdict = match says.as_str() {
        "responsive" => Verdict::of(&spread, Some(75.0), None),
        "unresponsive" => Verdict::of(&spread, None, Some(25.0)),
        _ => return None,
    };
    Some(Statement {
        text: format!("{} at {}, stands as {says}", cell.place.row(), cell.place.column().join(", ")),
        paper: says.clone(),
        measured: format!("score {:.0}", spread.mean),
        verdict,
        interval: spread.interval(),
        ..Statement::default()
    })
}
