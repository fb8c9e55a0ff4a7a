//! How often detectors of fair queuing are right, over the grid of the fair-queuing paper; how long they take, and what
//! they lose.

use std::collections::BTreeMap;

use serde::Deserialize;
use weir_core::{Duration, Rate, wilson};

use super::setting::{FlowKind, scaled, scenario};
use super::{About, Cell, Findings, Job, OfRuns, Place, Plan, Statement, by_name, mean};
use weir_report::result::{DetectionResult, RunResult};
use weir_scenario::{Flow, Scenario};
use weir_testbed::traffic::Stack;

/// How near accuracies must be to the paper's, in points.
const TOLERANCE: f64 = 2.0;
/// The bins of series, which nobody looks at here.
const INTERVAL: Duration = Duration::from_secs(1);

/// The figure's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Accuracy {
    about: About,
    rates: Vec<Rate>,
    delays: Vec<Duration>,
    buffers: Vec<u32>,
    lead: Duration,
    duration: Duration,
    runs: u32,
    shared: f64,
    fair: f64,
    overall: f64,
    bottleneck: Vec<Bottleneck>,
    detector: Vec<Detector>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bottleneck {
    name: String,
    /// The queue, up to its buffer.
    words: String,
    fair: bool,
    /// Whether the paper has numbers of it. Only then does it count in statements.
    is_papers: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Detector {
    name: String,
    /// In a shared queue.
    controller: String,
    /// Whether the paper's numbers are of it.
    is_papers: bool,
}

/// A cell: one detector, queue and buffer, alone or beside a Cubic, over all rates and delays.
#[derive(Clone, Copy)]
struct Spot<'a> {
    detector: &'a Detector,
    bottleneck: &'a Bottleneck,
    is_alone: bool,
    buffer: u32,
}

impl Spot<'_> {
    fn labels(&self) -> [String; 4] {
        let cross = if self.is_alone { "alone" } else { "Cubic" };
        let packets = format!("{} packets", self.buffer);
        [self.detector.name.clone(), self.bottleneck.name.clone(), cross.to_owned(), packets]
    }

    fn job_name(&self, rate: Rate, delay: Duration, run: u32) -> String {
        format!("{}, {rate}, {delay}, run {run}", self.labels().join(", "))
    }
}

impl Accuracy {
    fn spots(&self) -> impl Iterator<Item = Spot<'_>> {
        self.detector.iter().flat_map(move |detector| {
            self.bottleneck.iter().flat_map(move |bottleneck| {
                [true, false].into_iter().flat_map(move |is_alone| {
                    self.buffers.iter().map(move |&buffer| Spot { detector, bottleneck, is_alone, buffer })
                })
            })
        })
    }

    /// The links of a cell, each so many times.
    fn links(&self, plan: &Plan) -> impl Iterator<Item = (Rate, Duration, u32)> {
        let runs = plan.runs_of(self.runs, 1);
        self.rates.iter().flat_map(move |&rate| {
            self.delays.iter().flat_map(move |&delay| (0..runs).map(move |run| (rate, delay, run)))
        })
    }

    fn scenario(&self, plan: &Plan, spot: &Spot, rate: Rate, delay: Duration, name: &str) -> Scenario {
        let kind = |name: &str, stack, controller: &str| {
            let kind = FlowKind {
                name: name.to_owned(),
                stack,
                controller: controller.to_owned(),
                pattern: Default::default(),
            };
            Flow { bytes: None, ..kind.flow(1, false) }
        };
        let start = if spot.is_alone { Duration::ZERO } else { self.lead };
        let detecting = Flow {
            detector: spot.detector.name.clone(),
            start,
            duration: Some(self.duration),
            ..kind("detecting", Stack::Quic, &spot.detector.controller)
        };
        let cross = (!spot.is_alone).then(|| kind("cross", Stack::Tcp, "cubic"));
        let queue = format!("{} {}p", spot.bottleneck.words, spot.buffer);
        let queue = queue.parse().expect("the words of a figure's queue are known");
        let link = (scaled(plan.quick, rate, 0).0, delay, queue);
        let flows = cross.into_iter().chain([detecting]).collect();
        let limit = self.lead + self.duration * 2;
        let mut made = scenario(name, (self.about.variant(&plan.variant), plan.seed), link, flows, limit);
        made.measure.interval = INTERVAL;
        made
    }
}

impl OfRuns for Accuracy {
    fn about(&self) -> &About {
        &self.about
    }

    fn jobs(&self, plan: &Plan) -> Vec<Job> {
        self.spots()
            .flat_map(|spot| {
                self.links(plan).map(move |(rate, delay, run)| {
                    let name = spot.job_name(rate, delay, run);
                    let scenario = self.scenario(plan, &spot, rate, delay, &name);
                    Job { name, scenario, run: u64::from(run) }
                })
            })
            .collect()
    }

    fn reduce(&self, plan: &Plan, jobs: &[Job], results: &[Result<RunResult, String>]) -> Findings {
        let known = by_name(jobs, results);
        let mut cells = Vec::new();
        let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
        for spot in self.spots() {
            let labels = spot.labels();
            let at = Place::new(&self.about, labels.each_ref().map(String::as_str));
            let paper = if spot.bottleneck.fair { self.fair } else { self.shared };
            let mut cell = Cell {
                paper: (spot.detector.is_papers && spot.bottleneck.is_papers).then_some(paper),
                ..Cell::at(at)
            };
            let mut here = Tally::default();
            for (rate, delay, run) in self.links(plan) {
                let Some(result) = known.get(spot.job_name(rate, delay, run).as_str()) else { continue };
                let place = format!("{rate}, {delay}, run {run}");
                match result {
                    Ok(result) => {
                        let Some(found) = result.detections.first() else { continue };
                        if let Some(wrong) = here.add(found, spot.bottleneck.fair) {
                            cell.notes.push(format!("{place}: {wrong}"));
                        }
                    }
                    Err(error) => cell.notes.push(format!("{place}: {error}")),
                }
            }
            if here.runs > 0 {
                cell.measured = Some(here.accuracy());
                cell.more = here.values();
                cells.push(cell);
            }
            if spot.bottleneck.is_papers {
                tallies.entry(&spot.detector.name).or_default().merge(here);
            }
        }
        // What is said of a detector is of all its runs, at full rate: alone and beside another flow.
        let papers = self.bottleneck.iter().filter(|bottleneck| bottleneck.is_papers).count();
        let all = 2 * self.buffers.len() * papers * self.links(plan).count();
        tallies.retain(|_, tally| !plan.quick && tally.runs as usize == all);
        let statements = self.statements(&tallies);
        Findings { cells, statements, ..Findings::default() }
    }
}

impl Accuracy {
    fn statements(&self, tallies: &BTreeMap<&str, Tally>) -> Vec<Statement> {
        let of = |name: &str| tallies.get(name);
        let mut statements = Vec::new();
        for detector in self.detector.iter() {
            let Some(tally) = of(&detector.name) else { continue };
            let accuracy = tally.accuracy();
            statements.push(Statement {
                text: if detector.is_papers {
                    format!("{}: right overall, within {TOLERANCE} points", detector.name)
                } else {
                    format!("{}: right overall, not less than the paper's", detector.name)
                },
                paper: format!("{} %", self.overall),
                measured: format!("{accuracy:.2} % of {} runs", tally.runs),
                verdict: (accuracy >= self.overall - if detector.is_papers { TOLERANCE } else { 0.0 }
                    && (!detector.is_papers || accuracy <= self.overall + TOLERANCE))
                    .into(),
                ..Statement::default()
            });
        }
        if let (Some(published), Some(trains)) = (of("published"), of("trains")) {
            let (theirs, ours) = (published.median_s(), trains.median_s());
            statements.push(Statement {
                text: "trains: median time to the verdict, at most half of published's".to_owned(),
                paper: format!("{theirs:.3} s here"),
                measured: format!("{ours:.3} s"),
                verdict: (ours <= theirs / 2.0).into(),
                ..Statement::default()
            });
            let (theirs, ours) = (published.mean_lost(), trains.mean_lost());
            statements.push(Statement {
                text: "trains: packets lost until then, in the mean at most a twentieth".to_owned(),
                paper: format!("{theirs:.1} here"),
                measured: format!("{ours:.1}"),
                verdict: (ours <= theirs / 20.0).into(),
                ..Statement::default()
            });
        }
        statements
    }
}

/// What came of a number of runs.
#[derive(Clone, Debug, Default)]
struct Tally {
    runs: u32,
    right: u32,
    unknown: u32,
    times: Vec<f64>,
    lost: Vec<f64>,
}

impl Tally {
    /// Counts a run; what was found, if it is wrong.
    fn add(&mut self, found: &DetectionResult, is_fair: bool) -> Option<String> {
        let finding = found.first_finding.as_deref().unwrap_or("unknown");
        self.runs += 1;
        self.lost.push(found.first_lost as f64);
        self.times.extend(found.first_s);
        let right = finding == if is_fair { "fair-queued" } else { "shared" };
        self.right += u32::from(right);
        self.unknown += u32::from(finding == "unknown");
        (!right).then(|| finding.to_owned())
    }

    fn merge(&mut self, other: Self) {
        self.runs += other.runs;
        self.right += other.right;
        self.unknown += other.unknown;
        self.times.extend(other.times);
        self.lost.extend(other.lost);
    }

    fn accuracy(&self) -> f64 {
        100.0 * f64::from(self.right) / f64::from(self.runs.max(1))
    }

    /// Half the width of Wilson's interval of the accuracy at 95 %, in points.
    fn ci95(&self) -> f64 {
        let (low, high) = wilson(self.right.into(), self.runs.into());
        50.0 * (high - low)
    }

    fn median_s(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
    }

    fn mean_lost(&self) -> f64 {
        mean(&self.lost).unwrap_or(f64::NAN)
    }

    fn values(&self) -> BTreeMap<String, f64> {
        [
            ("accuracy", self.accuracy()),
            ("unknown", 100.0 * f64::from(self.unknown) / f64::from(self.runs.max(1))),
            ("ci95", self.ci95()),
            ("median_s", self.median_s()),
            ("packets_lost", self.mean_lost()),
            ("detections", f64::from(self.runs)),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn intervals_are_wilsons() {
        let tally = Tally { runs: 100, right: 98, ..Tally::default() };
        // 93.0 to 99.4 %.
        assert!((tally.ci95() - 3.22).abs() < 0.05, "{}", tally.ci95());
        assert_eq!(tally.accuracy(), 98.0);
    }
}
