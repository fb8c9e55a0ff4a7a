//! Figures 2 to 7 of the fair-queuing paper: throughput and round trip over time of Cubic and of a delay-based flow, of
//! each alone, of both in one queue, and of both behind a fair queue.
//!
//! One file for all: what they differ in is in their `figure.toml`, sentences of the paper's text included. The paper
//! has no numbers of these runs, so they are read off its curves, which are lines in the PDFs of its sources
//! (CN-TU/PCC-Uspace 6e3f6d6, `paper/figures/plots`); what runs for how long is from `src/test.py` there.

use serde::Deserialize;
use weir_core::{Duration, Rate};
use weir_qdisc::QdiscConfig;

use super::setting::{FlowKind, scaled, scenario};
use super::{About, Cell, Findings, Job, OfRuns, Place, Plan, Statement, built_in, by_name, mean};
use weir_report::result::{FlowBin, RunResult, Series};
use weir_scenario::Flow;
use weir_testbed::traffic::Stack;

/// What the light sub-flow of a flow is called besides the flow's name.
const LIGHT: &str = " light";
/// What sampling times lose in floating point must not move a bin.
const EDGE_S: f64 = 1e-6;

/// All six.
pub(super) fn load() -> impl Iterator<Item = OverTime> {
    (2..=7).map(|number| built_in(&format!("fq/{number}")))
}

/// A figure's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OverTime {
    about: About,
    rate: Rate,
    rtt: Duration,
    queue: QdiscConfig,
    /// How long Cubic is alone before the other flow sets out in the same run; without it each has a run of its own.
    lead: Option<Duration>,
    duration: Duration,
    runs: u32,
    /// The one that the figure is about first.
    flow: Vec<Shown>,
    /// What sends in the place of the delay-based flow, by variant; not in a figure of Cubic alone.
    #[serde(default)]
    system: Vec<System>,
    claim: Vec<Claim>,
}

/// One of the two flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Who {
    /// The kernel's Cubic.
    Cubic,
    /// The delay-based one, or what a variant has in its place.
    Delay,
}

/// A flow that has a cell, and what the paper's curves have of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shown {
    who: Who,
    /// In Mbit/s.
    throughput: f64,
    /// The mean in milliseconds.
    rtt: f64,
    /// The longest.
    rtt_max: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct System {
    variant: String,
    name: String,
    controller: String,
    /// Of fair queuing, if it looks for it.
    #[serde(default)]
    detector: String,
    /// Whether the paper's numbers are of it.
    is_papers: bool,
}

/// A sentence of the paper as bounds of a number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    text: String,
    paper: String,
    measure: Measure,
    of: Who,
    /// The number is `of` over this one.
    over: Option<Who>,
    /// The part of the time that counts, from when all flows of the run send.
    from: Option<Duration>,
    to: Option<Duration>,
    least: Option<f64>,
    most: Option<f64>,
    /// The variants of which it is said; all if empty.
    #[serde(default)]
    variants: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
enum Measure {
    /// Mbit/s of wire bytes as they leave the bottleneck, of both sub-flows if there are two.
    Throughput,
    /// The mean round trip in milliseconds, as the sender smooths it.
    Rtt,
    /// The share of time in percent in which the round trip is longer.
    Slow { beyond: Duration },
}

impl Measure {
    /// Of the flow called `name`, from one time of the run to another; none if there is nothing to measure.
    fn of(self, result: &RunResult, name: &str, span: (f64, f64)) -> Option<f64> {
        match self {
            Self::Throughput => {
                let flows = result.series_names().zip(&result.series.flows);
                let parts = flows.filter(|(flow, _)| is_part(flow, name)).map(|(_, bins)| bins);
                throughput(&result.series, parts, span)
            }
            Self::Rtt => mean(&round_trips(result, name, span)),
            Self::Slow { beyond } => {
                let all = round_trips(result, name, span);
                let slow = all.iter().filter(|rtt| **rtt > beyond.as_millis_f64()).count();
                (!all.is_empty()).then(|| 100.0 * slow as f64 / all.len() as f64)
            }
        }
    }

    fn write(self, value: f64) -> String {
        match self {
            Self::Throughput => format!("{value:.2} Mbit/s"),
            Self::Rtt => format!("{value:.1} ms"),
            Self::Slow { .. } => format!("{value:.1} % of the time"),
        }
    }
}

/// Of these flows together, in Mbit/s; none if no bin of the run is within the span.
fn throughput<'a>(
    series: &Series,
    flows: impl Iterator<Item = &'a Vec<FlowBin>>,
    (from_s, to_s): (f64, f64),
) -> Option<f64> {
    let is_in =
        |bin: &usize| series.begin_s(*bin) >= from_s - EDGE_S && series.begin_s(*bin + 1) <= to_s + EDGE_S;
    let first = (0..series.bins()).find(is_in)?;
    let count = (first..series.bins()).take_while(is_in).count();
    let bytes: u64 =
        flows.flat_map(|bins| bins.iter().skip(first).take(count)).map(|bin| bin.departed_bytes).sum();
    Some(bytes as f64 * 8.0 / series.span_s(first, first + count) / 1e6)
}

/// The samples of a flow, of its heavy sub-flow if there are two, in milliseconds.
fn round_trips(result: &RunResult, name: &str, (from_s, to_s): (f64, f64)) -> Vec<f64> {
    let of_flow = result.flows.iter().zip(&result.series.rtt).find(|(flow, _)| flow.name == name);
    let samples = of_flow.map_or(&[][..], |(_, samples)| samples);
    samples.iter().filter(|(at, _)| (from_s..=to_s).contains(at)).map(|(_, rtt)| *rtt).collect()
}

/// Whether a flow of a run is the one called `name`, or its light sub-flow.
fn is_part(flow: &str, name: &str) -> bool {
    flow == name || flow.strip_suffix(LIGHT) == Some(name)
}

impl OverTime {
    fn system(&self, plan: &Plan) -> Option<&System> {
        self.system.iter().find(|system| system.variant == plan.variant)
    }

    /// What the flow is called.
    fn name(&self, plan: &Plan, who: Who) -> &str {
        match who {
            Who::Cubic => "Cubic",
            Who::Delay => self.system(plan).map_or("delay-based", |system| &system.name),
        }
    }

    /// Who sends in the same run: both, or one.
    fn beside(&self, who: Who) -> Vec<Who> {
        if self.lead.is_some() { vec![Who::Cubic, Who::Delay] } else { vec![who] }
    }

    fn job_name(&self, plan: &Plan, who: Who, run: u32) -> String {
        let names: Vec<&str> = self.beside(who).into_iter().map(|who| self.name(plan, who)).collect();
        format!("{}, run {run}", names.join(", "))
    }

    fn runs(&self, plan: &Plan) -> std::ops::Range<u32> {
        0..plan.runs.unwrap_or(self.runs)
    }

    fn sender(&self, plan: &Plan, who: Who) -> Flow {
        let lead = self.lead.unwrap_or_default();
        let system = self.system(plan).filter(|_| who == Who::Delay);
        let kind = FlowKind {
            name: self.name(plan, who).to_owned(),
            stack: system.map_or(Stack::Tcp, |_| Stack::Quic),
            controller: system.map_or("cubic", |system| &system.controller).to_owned(),
            pattern: Default::default(),
        };
        let (start, duration) = match who {
            Who::Cubic => (Duration::ZERO, lead + self.duration),
            Who::Delay => (lead, self.duration),
        };
        Flow {
            bytes: None,
            duration: Some(duration),
            start,
            detector: system.map_or_else(String::new, |system| system.detector.clone()),
            ..kind.flow(1, false)
        }
    }

    /// The part of a run between two times from when all its flows send; the whole of that if there are none.
    fn span(&self, from: Option<Duration>, to: Option<Duration>) -> (f64, f64) {
        let lead = self.lead.unwrap_or_default();
        let at = |after: Duration| (lead + after).as_secs_f64();
        (at(from.unwrap_or_default()), at(to.unwrap_or(self.duration)))
    }

    fn cell(&self, plan: &Plan, shown: &Shown, results: &[(u32, &Result<RunResult, String>)]) -> Cell {
        let name = self.name(plan, shown.who);
        let is_papers = self.system(plan).is_none_or(|system| system.is_papers);
        let mut cell = Cell {
            paper: is_papers.then_some(shown.throughput),
            ..Cell::at(Place::new(&self.about, [name]))
        };
        let (mut rtts, mut longest, mut goodput) = (Vec::new(), Vec::new(), Vec::new());
        let span = self.span(None, None);
        for (run, result) in results {
            let result = match result {
                Ok(result) => result,
                Err(error) => {
                    cell.notes.push(format!("run {run}: {error}"));
                    continue;
                }
            };
            cell.runs.extend(Measure::Throughput.of(result, name, span));
            rtts.extend(Measure::Rtt.of(result, name, span));
            longest.extend(round_trips(result, name, span).into_iter().reduce(f64::max));
            let parts = result.flows.iter().filter(|flow| is_part(&flow.name, name));
            goodput.push(parts.map(|flow| flow.goodput_bps).sum::<f64>() / 1e6);
            cell.notes.extend(finding(result, name).map(|text| format!("run {run}: {text}")));
            if cell.over_time.is_none() {
                cell.over_time = Some(result.of_flows(|flow| is_part(flow, name)));
            }
        }
        let ours =
            [("rtt_ms", mean(&rtts)), ("rtt_max_ms", mean(&longest)), ("goodput_mbps", mean(&goodput))];
        let papers = [("paper_rtt_ms", shown.rtt), ("paper_rtt_max_ms", shown.rtt_max)];
        let papers = papers.map(|(key, value)| (key, is_papers.then_some(value)));
        cell.more = ours
            .into_iter()
            .chain(papers)
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect();
        let rtt = |key: &str, most: &str| {
            let of = |key| cell.more.get(key).map(|rtt| format!("{rtt:.1} ms"));
            Some(format!("{} in the mean, {} at most", of(key)?, of(most)?))
        };
        let papers = rtt("paper_rtt_ms", "paper_rtt_max_ms")
            .map_or_else(String::new, |text| format!(" (paper: {text})"));
        let note = rtt("rtt_ms", "rtt_max_ms").map(|text| format!("round trip {text}{papers}"));
        cell.notes.extend(note);
        cell.averaged()
    }

    /// The sentence put to the test; none if it is not about this variant, or a run is missing.
    fn statement(&self, plan: &Plan, claim: &Claim, of: impl Fn(Who) -> Vec<f64>) -> Option<Statement> {
        if !(claim.variants.is_empty() || claim.variants.contains(&plan.variant)) {
            return None;
        }
        let measure = claim.measure;
        let value = mean(&of(claim.of))?;
        let (number, measured) = match claim.over {
            None => (value, measure.write(value)),
            Some(other) => {
                let other = mean(&of(other))?;
                let ratio = value / other;
                (ratio, format!("{ratio:.2} times: {} and {}", measure.write(value), measure.write(other)))
            }
        };
        Some(Statement {
            text: claim.text.clone(),
            paper: claim.paper.clone(),
            measured,
            verdict: (claim.least.is_none_or(|least| number >= least)
                && claim.most.is_none_or(|most| number <= most))
            .into(),
            ..Statement::default()
        })
    }
}

/// What a flow with a detector found, and at what cost.
fn finding(result: &RunResult, name: &str) -> Option<String> {
    let found = result.detections.iter().find(|found| found.flow == name)?;
    let first = match (&found.first_finding, found.first_s) {
        (Some(finding), Some(after)) => format!("found {finding} after {after:.2} s"),
        _ => "found nothing".to_owned(),
    };
    Some(format!(
        "{first}, with {} of {} packets lost until then; at the end {}, controller {}",
        found.first_lost, found.first_sent, found.finding, found.controller
    ))
}

impl OfRuns for OverTime {
    fn about(&self) -> &About {
        &self.about
    }

    fn jobs(&self, plan: &Plan) -> Vec<Job> {
        let variant = self.about.variant(&plan.variant);
        let mut sides: Vec<Vec<Who>> = self.flow.iter().map(|shown| self.beside(shown.who)).collect();
        sides.dedup();
        let rate = scaled(plan.quick, self.rate, 0).0;
        sides
            .into_iter()
            .flat_map(|side| self.runs(plan).map(move |run| (side.clone(), run)))
            .map(|(side, run)| {
                let name = self.job_name(plan, side[0], run);
                let flows = side.into_iter().map(|who| self.sender(plan, who)).collect();
                let link = (rate, self.rtt, self.queue.clone());
                let limit = (self.lead.unwrap_or_default() + self.duration) * 2;
                Job {
                    scenario: scenario(&name, (variant, plan.seed), link, flows, limit),
                    name,
                    run: u64::from(run),
                }
            })
            .collect()
    }

    fn reduce(&self, plan: &Plan, jobs: &[Job], results: &[Result<RunResult, String>]) -> Findings {
        let known = by_name(jobs, results);
        let of = |who| -> Vec<(u32, &Result<RunResult, String>)> {
            let runs = self.runs(plan);
            runs.filter_map(|run| Some((run, *known.get(self.job_name(plan, who, run).as_str())?))).collect()
        };
        let planned =
            self.flow.iter().map(|shown| (shown, of(shown.who))).filter(|(_, runs)| !runs.is_empty());
        let cells = planned.map(|(shown, runs)| self.cell(plan, shown, &runs)).collect();
        let statement = |claim: &Claim| {
            let span = self.span(claim.from, claim.to);
            self.statement(plan, claim, |who| {
                let name = self.name(plan, who);
                let runs = of(who).into_iter().filter_map(|(_, result)| result.as_ref().ok());
                runs.filter_map(|result| claim.measure.of(result, name, span)).collect()
            })
        };
        // The paper's sentences are about links at full rate.
        let claims = self.claim.iter().filter(|_| !plan.quick);
        Findings { cells, statements: claims.filter_map(statement).collect(), ..Findings::default() }
    }
}

#[cfg(test)]
#[path = "fq_over_time_tests.rs"]
mod tests;
