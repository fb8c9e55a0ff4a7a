//! What is kept of a run of a swept figure: its numbers, how its queue delays are distributed, and its requests. Runs
//! have no folders: a figure has thousands.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use weir_core::{Histogram, Rate};
use weir_report::result::RunResult;
use weir_scenario::Scenario;
use weir_world::World;

use crate::engine::{self, Address, Job, Kept, Made, Options, Origin, Outcome, Store, Study, StudyError};
use crate::sweep::{Numbers, numbers};

/// Requests of a workload that are kept to be drawn.
const REQUESTS: usize = 400;

/// What is kept of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Extract {
    pub(super) numbers: Numbers,
    /// Queue delay in nanoseconds, of each `[[flow]]` and each workload.
    pub(super) delays: Vec<(String, Histogram)>,
    /// Bytes and seconds of requests of each workload; of the first run only.
    #[serde(default)]
    pub(super) requests: Vec<(String, Vec<(u64, f64)>)>,
    pub(super) warnings: Vec<String>,
}

impl Extract {
    fn of(job: &Job, result: &RunResult) -> Self {
        let scenario: &Scenario = &job.scenario;
        let counts = scenario.flows.iter().map(|flow| (flow.label(), flow.count as usize));
        let workloads = result.workloads.iter().map(|workload| (workload.name.clone(), 1));
        let mut histograms = result.flow_sojourn_ns.iter();
        let mut delays = Vec::new();
        for (name, count) in counts.chain(workloads) {
            let mut all = Histogram::new();
            histograms.by_ref().take(count).for_each(|one| all.merge(one));
            if all.count() > 0 {
                delays.push((name, all));
            }
        }
        let requests = result.workloads.iter().filter(|_| job.run == 0).map(|workload| {
            let ended: Vec<(u64, f64)> =
                workload.list.iter().filter_map(|row| Some((row.bytes, row.fct_s?))).collect();
            // Every so many of them, so that all sizes are there as often as in all.
            let step = ended.len().div_ceil(REQUESTS).max(1);
            (workload.name.clone(), ended.into_iter().step_by(step).collect())
        });
        Self {
            numbers: numbers(scenario, result),
            delays,
            requests: requests.collect(),
            warnings: result.health.warnings.clone(),
        }
    }

    /// The number called `measure` of `of`.
    pub(super) fn number(&self, of: &str, measure: &str) -> Option<f64> {
        self.numbers.iter().find(|(whose, name, _)| whose == of && name == measure).map(|(.., value)| *value)
    }
}

/// What has come of all jobs: one extract for each, or why there is none.
pub(super) type Extracts = Vec<Result<Extract, String>>;

/// Makes the runs that have no result in the folder, nor in that of another figure beside it.
pub(super) fn make(
    jobs: &[Job],
    world: &'static dyn World,
    options: &Options,
) -> Result<(Extracts, Made), StudyError> {
    let origin = Origin::new(world, options.run.kernel.as_deref())?;
    let address = |job: &Job| engine::address(&origin.describe(&job.scenario), job.run);
    let addresses: Vec<Address> = jobs.iter().map(address).collect();
    let mut same = HashMap::<Address, Vec<usize>>::new();
    for (index, address) in addresses.iter().enumerate() {
        same.entry(*address).or_default().push(index);
    }
    let found = jobs.iter().map(|_| Mutex::new(None)).collect();
    let runs = Runs { jobs, origin, addresses, same, found };
    let store = Store::beside(&options.out);
    let options = Options { retry_failed: true, ..options.clone() };
    let made = engine::run(&runs, &store, &options)?;
    let Runs { addresses, found, .. } = runs;
    let extracts = found.into_iter().zip(&addresses).map(|(found, address)| {
        let found = found.into_inner().unwrap_or_else(|poison| poison.into_inner());
        found.ok_or_else(|| match store.read::<Extract>(address) {
            Kept::Whole(Outcome::Failed(error)) => error,
            _ => "interrupted before it ended".to_owned(),
        })
    });
    Ok((extracts.collect(), made))
}

/// The jobs, and what is known of each.
struct Runs<'a> {
    jobs: &'a [Job],
    origin: Origin,
    addresses: Vec<Address>,
    /// The jobs of each address, mostly one.
    same: HashMap<Address, Vec<usize>>,
    found: Vec<Mutex<Option<Extract>>>,
}

impl Runs<'_> {
    fn remember(&self, index: usize, extract: &Extract) {
        for index in &self.same[&self.addresses[index]] {
            let mut slot = self.found[*index].lock().unwrap_or_else(|poison| poison.into_inner());
            *slot = Some(extract.clone());
        }
    }
}

impl Study for Runs<'_> {
    type Kept = Extract;
    type Error = StudyError;

    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn count(&self) -> usize {
        self.jobs.len()
    }

    fn address(&self, index: usize) -> &Address {
        &self.addresses[index]
    }

    fn fastest(&self) -> Rate {
        self.jobs.iter().map(|job| job.scenario.bottleneck.rate).max().unwrap_or_default()
    }

    fn job(&self, index: usize) -> Result<Cow<'_, Job>, StudyError> {
        Ok(Cow::Borrowed(&self.jobs[index]))
    }

    fn keep(&self, index: usize, job: &Job, result: RunResult) -> Result<Extract, StudyError> {
        let extract = Extract::of(job, &result);
        self.remember(index, &extract);
        Ok(extract)
    }

    fn recall(&self, index: usize, kept: Extract) -> bool {
        self.remember(index, &kept);
        true
    }
}
