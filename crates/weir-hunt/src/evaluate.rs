//! Scores of candidates: each runs under one or several run numbers, by the engine of many runs, and what a run came to
//! is kept under its address. So what was computed once is not computed again, by this command or a later one.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_report::result::RunResult;
use weir_scenario::Scenario;

use crate::Hunt;
use crate::objective::{Objective, numbers};
use weir_study::engine::{self, Address, Each, Keeper, List, Made, Store, Unknown};
use weir_study::sweep::Spread;
use weir_study::sweep::grammar::Numbers;
use weir_study::{Job, Options, Progress, StudyError};

/// What is kept of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    numbers: Numbers,
}

/// What came of a candidate.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// The objective over the runs in which it could be measured.
    Measured(Spread),
    /// No run has the number that is looked for.
    Nothing,
    /// A run failed, and why.
    Failed(String),
    /// The scenario cannot be, and why.
    Impossible(String),
}

impl Value {
    pub(crate) fn spread(&self) -> Option<&Spread> {
        match self {
            Self::Measured(spread) => Some(spread),
            _ => None,
        }
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        self.spread().map(|spread| spread.mean)
    }
}

/// Runs candidates and counts.
pub(crate) struct Evaluator<'a> {
    hunt: &'a Hunt,
    options: &'a Options<'a>,
    store: Store,
    seen: HashMap<Address, Result<Seen, String>>,
    /// Runs that an earlier command had made, or that were damaged since.
    pub(crate) made: Made,
    /// Runs that are asked for in all, as far as that is known.
    pub(crate) total: usize,
    done: usize,
    /// Time spent on runs that were not there.
    spent: Duration,
    fresh: usize,
    /// What the progress says.
    pub(crate) note: String,
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(hunt: &'a Hunt, options: &'a Options<'a>, total: usize) -> Self {
        Self {
            hunt,
            options,
            store: Store::new(&options.out),
            seen: HashMap::new(),
            made: Made::default(),
            total,
            done: 0,
            spent: Duration::ZERO,
            fresh: 0,
            note: String::new(),
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.options.run.stop.load(Ordering::Relaxed)
    }

    /// What candidates come to under these run numbers; none if the command was interrupted.
    pub(crate) fn values(
        &mut self,
        scenarios: &[Result<Scenario, String>],
        runs: Range<u64>,
    ) -> Result<Option<Vec<Value>>, StudyError> {
        // Those of which nothing is known yet.
        let (mut jobs, mut asked) = (Vec::new(), Vec::<Address>::new());
        let mut places: Vec<Vec<Address>> = Vec::new();
        for scenario in scenarios {
            let Ok(scenario) = scenario else {
                places.push(Vec::new());
                continue;
            };
            let described = self.hunt.origin.describe(scenario);
            let addresses: Vec<Address> =
                runs.clone().map(|run| engine::address::<Seen>(&described, run)).collect();
            for (run, address) in runs.clone().zip(&addresses) {
                if !self.seen.contains_key(address) && !asked.contains(address) {
                    asked.push(*address);
                    jobs.push(Job { name: String::new(), scenario: scenario.clone(), run });
                }
            }
            places.push(addresses);
        }
        let made = self.make(&jobs)?;
        self.done += scenarios.len() * runs.clone().count();
        for (address, seen) in asked.into_iter().zip(made) {
            let seen = match seen {
                Ok(seen) => Ok(seen),
                Err(Unknown::Failed(error)) => Err(error),
                Err(Unknown::Interrupted) => return Ok(None),
            };
            self.seen.insert(address, seen);
        }
        let of = |(scenario, addresses): (&Result<Scenario, String>, &Vec<Address>)| match scenario {
            Err(why) => Value::Impossible(why.clone()),
            Ok(_) => value(&self.hunt.objective, addresses.iter().map(|address| &self.seen[address])),
        };
        Ok(Some(scenarios.iter().zip(&places).map(of).collect()))
    }

    fn make(&mut self, jobs: &[Job]) -> Result<Each<Seen>, StudyError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let begun = engine::now();
        let show = |now: Progress| (self.options.progress)(self.progress(&now, begun));
        let options = Options { progress: &show, retry_failed: false, ..self.options.clone() };
        let (seen, made) = List::new(jobs, &self.hunt.origin, ToNumbers).make(&self.store, &options)?;
        self.made.reused += made.reused;
        self.made.damaged += made.damaged;
        let fresh = jobs.len() - made.reused;
        if fresh > 0 {
            self.fresh += fresh;
            self.spent += engine::now().saturating_duration_since(begun);
        }
        Ok(seen)
    }

    /// How far the whole hunt is, where a batch has come so far.
    fn progress(&self, batch: &Progress, begun: Instant) -> Progress {
        let done = self.done + batch.done;
        let total = self.total.max(done);
        let spent = self.spent + engine::now().saturating_duration_since(begun);
        let fresh = self.fresh + batch.done;
        let left = (fresh > 0).then(|| spent.mul_f64((total - done) as f64 / fresh as f64));
        Progress { done, total, left, last: self.note.clone() }
    }
}

fn value<'s>(objective: &Objective, runs: impl Iterator<Item = &'s Result<Seen, String>>) -> Value {
    let mut values = Vec::new();
    for run in runs {
        match run {
            Err(error) => return Value::Failed(error.clone()),
            Ok(seen) => values.extend(objective.of(&seen.numbers)),
        }
    }
    Spread::of(&values).map_or(Value::Nothing, Value::Measured)
}

/// Keeps the numbers of each run in the store, and nothing elsewhere.
struct ToNumbers;

impl Keeper for ToNumbers {
    type Kept = Seen;
    type Known = Seen;

    fn keep(&self, jobs: &[&Job], result: RunResult) -> Result<(Seen, Seen), StudyError> {
        let seen = Seen { numbers: numbers(&jobs[0].scenario, &result) };
        // As it will be read again, which may differ in the last bit.
        let text = serde_json::to_string(&seen).expect("plain data");
        let read = serde_json::from_str(&text).expect("what was written");
        Ok((seen, read))
    }

    fn recall(&self, _: &[&Job], seen: Seen) -> Option<Seen> {
        Some(seen)
    }
}
