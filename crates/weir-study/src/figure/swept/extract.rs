//! What is kept of a run of a swept figure: its numbers, how its queue delays are distributed, and its requests. Runs
//! have no folders: a figure has thousands.

use serde::{Deserialize, Serialize};
use weir_core::Histogram;
use weir_report::result::RunResult;
use weir_scenario::Scenario;
use weir_world::{RunOptions, World};

use super::file::Measure;
use crate::engine::{Job, Keeper, List, Made, Options, Origin, Store, StudyError};
use crate::sweep::{APART, Numbers, numbers};

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
        let groups = scenario.groups().into_iter().map(|group| (group.flows().collect(), group.name));
        let workloads = result.workloads.iter().enumerate();
        let workloads = workloads.map(|(index, one)| (vec![result.flows.len() + index], one.name.clone()));
        let mut delays = Vec::new();
        for (places, name) in groups.chain(workloads) {
            let mut all = Histogram::new();
            places.iter().filter_map(|row| result.flow_sojourn_ns.get(*row)).for_each(|one| all.merge(one));
            if all.count() > 0 {
                delays.push((name, all));
            }
        }
        let requests = result.workloads.iter().filter(|_| job.run.is_multiple_of(APART)).map(|workload| {
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

    /// The same times `scale`, over another number if one is given.
    pub(super) fn scaled(&self, of: &str, measure: &str, scale: f64, over: Option<&Measure>) -> Option<f64> {
        let own = self.number(of, measure)? * scale;
        let Some(over) = over else { return Some(own) };
        let other = self.number(&over.of, &over.measure)? * over.scale;
        (other != 0.0).then(|| own / other)
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
    // An extract has no verdicts.
    let run = RunOptions { verdicts: false, ..options.run.clone() };
    let options = Options { retry_failed: true, run, ..options.clone() };
    let (extracts, made) =
        List::new(jobs, &origin, ToExtract).make(&Store::beside(&options.out), &options)?;
    Ok((extracts.into_iter().map(|extract| extract.map_err(|unknown| unknown.to_string())).collect(), made))
}

/// Keeps an extract of each run in the store, and nothing elsewhere.
struct ToExtract;

impl Keeper for ToExtract {
    type Kept = Extract;
    type Known = Extract;

    fn keep(&self, jobs: &[&Job], result: RunResult) -> Result<(Extract, Extract), StudyError> {
        let extract = Extract::of(jobs[0], &result);
        Ok((extract.clone(), extract))
    }

    fn recall(&self, _: &[&Job], kept: Extract) -> Option<Extract> {
        Some(kept)
    }
}
