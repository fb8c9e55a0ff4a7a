//! Figure `law/accuracy`: how often the law is right about flows of which it is known what they are, how long it takes,
//! and what it makes of each class.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;
use weir_law::Preset;
use weir_report::result::RunResult;
use weir_truth::alike::Alike;
use weir_truth::lone::lone;
use weir_truth::mix::mix;
use weir_truth::policy::Policy;
use weir_truth::real::real;
use weir_truth::seen::{Case, Flow, Seen, mixed, of_run, word};
use weir_truth::tally::Tally;
use weir_truth::truth::classes;
use weir_truth::{grid, tables};
use weir_world::Clock;

use crate::figure::{About, Cell, Findings, Job, OfRuns, Place, Plan, Statement, Verdict, by_name};

/// The first mix that is not for fitting, under seed 1.
const CHECK: u64 = 1_000_000;

/// The figure's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::figure) struct Accuracy {
    about: About,
    presets: Vec<Preset>,
    judged: Preset,
    mixes: Mixes,
    /// Of real packets.
    real: Mixes,
    target: Target,
    #[serde(skip, default = "Policy::load")]
    policy: Policy,
}

/// How many mixes there are.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mixes {
    full: u32,
    quick: u32,
}

/// What is asked of the law, in percent unless it says otherwise.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    answering: f64,
    bbr: f64,
    unresponsive: f64,
    /// At most.
    unclassified: f64,
    /// At most.
    round_trips: f64,
    right_time: f64,
    /// Of flows on real packets, those with the verdict that they have in world `sim`.
    alike: f64,
    /// In each part of the flows that has `cell_flows` or more.
    cell: f64,
    cell_flows: u64,
}

impl Accuracy {
    /// The presets that a variant is about.
    fn presets_of(&self, variant: &str) -> Vec<Preset> {
        match variant {
            "grid" | "real" | "paced" | "alone" => vec![self.judged],
            _ => self.presets.clone(),
        }
    }

    fn cases(&self, plan: &Plan) -> Vec<Case> {
        match plan.variant.as_str() {
            "grid" => grid::cases(self.judged, word(self.judged), plan.seed, plan.quick),
            variant => {
                let mixes = if variant == "real" { self.real } else { self.mixes };
                let count = u64::from(plan.runs_of(mixes.full, mixes.quick));
                let first = if variant == "fit" { 0 } else { CHECK }
                    + plan.seed.saturating_sub(1) * u64::from(mixes.full);
                let draw = match variant {
                    "lone" => lone,
                    "real" => real,
                    "alone" => |number, preset| lone(number, preset).alone(),
                    "paced" => |number, preset| mix(number, preset).paced(),
                    _ => mix,
                };
                let presets = self.presets_of(variant);
                let numbers = first..first + count;
                numbers
                    .flat_map(|number| {
                        presets.iter().map(move |preset| mixed(draw(number, *preset), *preset))
                    })
                    .collect()
            }
        }
    }
}

impl OfRuns for Accuracy {
    fn about(&self) -> &About {
        &self.about
    }

    fn jobs(&self, plan: &Plan) -> Vec<Job> {
        let job = |case: Case| Job { name: case.name, scenario: case.scenario, run: 0 };
        self.cases(plan).into_iter().map(job).collect()
    }

    fn reduce(&self, plan: &Plan, jobs: &[Job], results: &[Result<RunResult, String>]) -> Findings {
        let known = by_name(jobs, results);
        let mut flows = Vec::new();
        for (run, case) in self.cases(plan).iter().enumerate() {
            let Some(Ok(result)) = known.get(case.name.as_str()) else { continue };
            flows.extend(of_run(case, result, &self.policy).into_iter().map(|seen| Flow {
                preset: case.preset,
                queue: case.queue.clone(),
                run,
                seen,
            }));
        }
        let presets: Vec<&'static str> = self.presets_of(&plan.variant).into_iter().map(word).collect();
        let cells = presets.iter().flat_map(|preset| self.cells(preset, &flows)).collect();
        let tables = tables::all(&presets, &flows);
        let statements = self.statements(&flows);
        let html = tables::chart(&presets, &flows) + &tables::html(&tables);
        Findings { cells, statements, html, text: tables::text(&tables) }
    }

    fn is_beside_sim(&self, plan: &Plan) -> bool {
        plan.world.clock() != Clock::Virtual
    }

    fn beside_sim(
        &self,
        plan: &Plan,
        jobs: &[Job],
        [here, there]: [&[Result<RunResult, String>]; 2],
    ) -> Vec<Statement> {
        let (here, there) = (by_name(jobs, here), by_name(jobs, there));
        let (mut alike, mut all, mut doubtful) = (Alike::default(), Alike::default(), 0);
        for case in &self.cases(plan) {
            let name = case.name.as_str();
            let Some(Ok(here)) = here.get(name) else { continue };
            // Where it warns, neither packets nor queue were those of the scenario.
            let is_sound = here.health.warnings.is_empty();
            doubtful += usize::from(!is_sound);
            let Some(Ok(there)) = there.get(name) else { continue };
            all.compare(case, here, there, &self.policy);
            if is_sound {
                alike.compare(case, here, there, &self.policy);
            }
        }
        let what = "flows have the verdicts that they have in world sim (there)".to_owned();
        let mut words = alike.words();
        if doubtful > 0 {
            let _ = write!(
                words,
                "; {doubtful} mixes with warnings do not count: with them {}",
                all.tally.words()
            );
        }
        let statement = at_least(what, self.target.alike, &alike.tally, words);
        Vec::from_iter((alike.tally.flows > 0).then_some(statement))
    }
}

impl Accuracy {
    fn cells(&self, preset: &str, flows: &[Flow]) -> Vec<Cell> {
        let mut cells = Vec::new();
        for class in classes() {
            for signal in ["loss", "ecn", "both"] {
                let here: Vec<&Flow> = flows
                    .iter()
                    .filter(|flow| flow.preset == preset && flow.seen.class == class)
                    .filter(|flow| signal == "both" || flow.seen.signal == signal)
                    .collect();
                if here.is_empty() {
                    continue;
                }
                let tally = Tally::of(here.iter().map(|flow| &flow.seen));
                let mut by_run: BTreeMap<usize, Vec<&Seen>> = BTreeMap::new();
                here.iter().for_each(|flow| by_run.entry(flow.run).or_default().push(&flow.seen));
                let of_run = |seen: &Vec<&Seen>| {
                    let tally = Tally::of(seen.iter().copied());
                    tally.percent(tally.right)
                };
                cells.push(Cell {
                    measured: Some(tally.percent(tally.right)),
                    runs: by_run.values().map(of_run).collect(),
                    more: tally.values(),
                    ..Cell::at(Place::new(&self.about, [preset, class, signal]))
                });
            }
        }
        cells
    }

    fn statements(&self, flows: &[Flow]) -> Vec<Statement> {
        let judged = word(self.judged);
        let of = |wanted: &[&str]| {
            let is = |flow: &&Flow| flow.preset == judged && wanted.contains(&flow.seen.class);
            flows.iter().filter(is).map(|flow| &flow.seen).collect::<Vec<_>>()
        };
        let target = &self.target;
        let mut statements = Vec::new();
        for (what, class, least) in [
            ("flows with AIMD", "aimd", target.answering),
            ("flows with scalable control", "scalable", target.answering),
            ("flows with BBR 2 and 3", "bbr", target.bbr),
            ("flows that answer nothing", "unresponsive", target.unresponsive),
            ("adversaries", "adversary", target.unresponsive),
        ] {
            let tally = Tally::of(of(&[class]));
            statements.push(at_least(format!("{judged}: {what}: right"), least, &tally, tally.words()));
        }
        let known = ["aimd", "scalable", "bbr", "unresponsive", "adversary"];
        let tally = Tally::of(of(&known));
        statements.push(Statement {
            text: format!("{judged}: flows that stay unclassified"),
            paper: format!("at most {} %", target.unclassified),
            measured: format!("{:.1} % of {}", tally.percent(tally.unclassified()), tally.flows),
            verdict: Verdict::within(tally.interval(tally.unclassified()), None, Some(target.unclassified)),
            interval: Some(tally.interval(tally.unclassified())),
            ..Statement::default()
        });
        let words =
            |number: Option<f64>, unit: &str| number.map_or("-".to_owned(), |it| format!("{it:.1}{unit}"));
        let round_trips = tally.round_trips();
        statements.push(Statement {
            text: format!("{judged}: median time from the first signal to the first right verdict"),
            paper: format!("at most {} round trips", target.round_trips),
            measured: words(round_trips, ""),
            verdict: round_trips.map_or(Verdict::CannotTell, |it| (it <= target.round_trips).into()),
            ..Statement::default()
        });
        let right_time = tally.right_time();
        statements.push(Statement {
            text: format!("{judged}: share of the time with a verdict in which it is right"),
            paper: format!("at least {} %", target.right_time),
            measured: words(right_time, " %"),
            verdict: right_time.map_or(Verdict::CannotTell, |it| (it >= target.right_time).into()),
            ..Statement::default()
        });
        statements.push(self.weakest(flows, &known));
        statements
    }

    /// Whether there is a part of the flows, by controller, queue or transport, in which the law is often wrong.
    fn weakest(&self, flows: &[Flow], known: &[&str]) -> Statement {
        let judged = word(self.judged);
        let cell_flows = self.target.cell_flows;
        let is_known = |flow: &&Flow| flow.preset == judged && known.contains(&flow.seen.class);
        let words = tables::weakest(flows.iter().filter(is_known), cell_flows, self.target.cell);
        Statement {
            text: format!(
                "{judged}: no controller, queue or transport with {cell_flows} flows or more is judged right less often"
            ),
            paper: format!("than {} %", self.target.cell),
            measured: if words.is_empty() { "none".to_owned() } else { words.join("; ") },
            // No part of fewer flows has so many.
            verdict: match flows.iter().filter(is_known).count() as u64 >= cell_flows {
                true => words.is_empty().into(),
                false => Verdict::CannotTell,
            },
            ..Statement::default()
        }
    }
}

/// That so many percent of the flows are right.
fn at_least(text: String, least: f64, tally: &Tally, measured: String) -> Statement {
    Statement {
        text,
        paper: format!("at least {least} %"),
        measured,
        verdict: Verdict::within(tally.interval(tally.right), Some(least), None),
        interval: Some(tally.interval(tally.right)),
        ..Statement::default()
    }
}
