//! Makes a hunt: search, confirm, shrink, score, write.

use weir_report::output::{self, Folder};
use weir_report::page;
use weir_scenario::Scenario;
use weir_world::{ALL, RunOptions, SIM};

use crate::draft::Draft;
use crate::evaluate::{Evaluator, Value};
use crate::gene::Gene;
use crate::shrink::{Bound, Found};
use crate::{GeneResult, Hunt, HuntError, HuntResult, plain};
use weir_study::Options;

/// Candidates that are looked at again after the search, since a single run may flatter.
const FINALISTS: usize = 5;
/// Runs that the least scenario is scored by.
const SCORED: u64 = 10;
/// The first of these: none that anything was chosen by.
const FRESH: u64 = 1000;
/// Failures that are kept by their words.
const TOLD: usize = 10;

/// What has been tried.
struct Tried {
    draft: Draft,
    value: Value,
}

/// Makes a hunt. Results go into the folder of the options: `hunt.json`, `evaluations.csv`, and the least scenario,
/// `minimal.toml` and its report in `minimal/`. When stopped, what has ended is kept, and the same hunt in the same
/// folder goes on from there. `command` is what the metadata call the command.
///
/// # Errors
/// If runs cannot be made, results cannot be written, or no candidate has what is looked for.
pub fn run(hunt: &Hunt, options: &Options, command: &str) -> Result<HuntResult, HuntError> {
    let run = RunOptions { large: hunt.large, ..options.run.clone() };
    let options = Options { run, ..options.clone() };
    let total = hunt.evaluations * hunt.repeat as usize + FINALISTS * hunt.confirm as usize + SCORED as usize;
    let mut evaluator = Evaluator::new(hunt, &options, total);
    let middle = hunt.draft(&[]);
    let neutral = evaluator.values(&hunt.scenarios(&[middle.neutral()]), 0..hunt.confirm)?;
    let neutral = neutral.and_then(|values| values[0].mean());
    let mut tried: Vec<Tried> = Vec::new();
    search(hunt, &mut evaluator, &mut tried)?;
    let mut result = HuntResult {
        name: hunt.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command.to_owned(),
        objective: hunt.objective.clone(),
        search: hunt.search,
        seed: hunt.seed,
        wanted: hunt.evaluations,
        evaluations: tried.len(),
        neutral,
        history: history(hunt, &tried),
        genes: Vec::new(),
        found: None,
        minimal: None,
        without: Vec::new(),
        failed: failed(&tried),
        refused: Vec::new(),
        interrupted: false,
        file: hunt.texts.sweep.clone(),
        scenario: None,
        reused: 0,
        damaged: 0,
    };
    if let Some((found, least)) = reduce(hunt, &mut evaluator, &tried, neutral)? {
        let scenario = hunt.scenario(&least.draft)?;
        result.genes = genes(hunt, &found.draft, &least.draft);
        result.found = Some(found.spread);
        let whole = hunt.scenario(&found.draft)?;
        let dropped = least.draft.without.iter().map(|place| whole.flows[*place].label());
        result.without = dropped.collect();
        if !evaluator.is_stopped() {
            let scored = evaluator.values(&[Ok(scenario.clone())], FRESH..FRESH + SCORED)?;
            result.minimal = scored.and_then(|values| values[0].spread().copied());
        }
        write_least(hunt, &options, &mut result, scenario)?;
    }
    result.interrupted = evaluator.is_stopped();
    (result.reused, result.damaged) = (evaluator.made.reused, evaluator.made.damaged);
    if result.found.is_none() && !result.interrupted {
        return Err(HuntError::Nothing { objective: hunt.objective.words(), why: reason(&tried) });
    }
    let json = serde_json::to_string_pretty(&result).expect("plain data");
    let table = table(hunt, &tried);
    output::write_together(&options.out, &[("evaluations.csv", &table), ("hunt.json", &json)])?;
    Ok(result)
}

/// Tries as many candidates as the hunt has, or until it is stopped.
fn search(hunt: &Hunt, evaluator: &mut Evaluator<'_>, tried: &mut Vec<Tried>) -> Result<(), HuntError> {
    let mut failure = None;
    let mut best: Option<f64> = None;
    let mut ask = |points: &[Vec<f64>]| {
        let room = hunt.evaluations - tried.len();
        let drafts: Vec<Draft> = points.iter().take(room).map(|point| hunt.draft(point)).collect();
        let values = match evaluator.values(&hunt.scenarios(&drafts), 0..hunt.repeat) {
            Ok(values) => values?,
            Err(error) => {
                failure = Some(error);
                return None;
            }
        };
        let scores: Vec<Option<f64>> =
            values.iter().map(|value| value.mean().map(|mean| hunt.objective.score(mean))).collect();
        best = scores.iter().flatten().copied().chain(best).reduce(f64::max);
        if let Some(best) = best {
            // The sign of a score goes as it came.
            evaluator.note =
                format!("worst {} so far: {:.4}", hunt.objective.measure, hunt.objective.score(best));
        }
        tried.extend(drafts.into_iter().zip(values).map(|(draft, value)| Tried { draft, value }));
        (tried.len() < hunt.evaluations).then_some(scores)
    };
    hunt.search.run(hunt.coordinates().count(), hunt.seed, &mut ask);
    match failure {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// The worst that was found, and what is left of it.
fn reduce(
    hunt: &Hunt,
    evaluator: &mut Evaluator<'_>,
    tried: &[Tried],
    neutral: Option<f64>,
) -> Result<Option<(Found, Found)>, HuntError> {
    let score = |spread: &weir_study::sweep::Spread| hunt.objective.score(spread.mean);
    let mut ranked: Vec<(&Draft, f64)> =
        tried.iter().filter_map(|one| Some((&one.draft, score(one.value.spread()?)))).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let median = ranked.get(ranked.len() / 2).map(|(_, score)| hunt.objective.score(*score));
    let mut finalists: Vec<Draft> = Vec::new();
    for (draft, _) in &ranked {
        if finalists.len() < FINALISTS && !finalists.contains(draft) {
            finalists.push((*draft).clone());
        }
    }
    if evaluator.is_stopped() {
        return Ok(None);
    }
    let Some(values) = evaluator.values(&hunt.scenarios(&finalists), 0..hunt.confirm)? else {
        return Ok(None);
    };
    let all = finalists.into_iter().zip(values);
    let measured = all.filter_map(|(draft, value)| Some(Found { draft, spread: *value.spread()? }));
    let Some(found) = measured.max_by(|a, b| score(&a.spread).total_cmp(&score(&b.spread))) else {
        return Ok(None);
    };
    evaluator.note = "shrinking".to_owned();
    let neutral = neutral.or(median).unwrap_or(found.spread.mean);
    let bound = Bound::new(hunt, found.spread.mean, neutral);
    let least = hunt.shrink(found.clone(), &bound, evaluator)?;
    Ok(Some((found, least)))
}

/// Writes the least scenario and its report.
fn write_least(
    hunt: &Hunt,
    options: &Options,
    result: &mut HuntResult,
    mut scenario: Scenario,
) -> Result<(), HuntError> {
    scenario.name = format!("{}, minimal", hunt.name);
    let others = ALL.into_iter().filter(|world| world.name() != SIM.name());
    for world in others {
        if let Err(refusal) = weir_world::check(&scenario, world, true) {
            result.refused.push((world.name().to_owned(), refusal.to_string()));
        }
    }
    let mut head = vec![format!("Found by `weir hunt`: {}.", hunt.objective.words())];
    if let Some(spread) = &result.minimal {
        head.push(format!(
            "Over {} runs {:.4} +- {:.4} (95 %), from {:.4} to {:.4}; the scenario of the hunt's file {}.",
            spread.runs,
            spread.mean,
            spread.ci95,
            spread.min,
            spread.max,
            result.neutral.map_or("has none".to_owned(), |neutral| format!("has {neutral:.4}")),
        ));
    }
    let text = plain::text(&scenario, &head);
    output::write_together(&options.out, &[("minimal.toml", &text)])?;
    result.scenario = Some(text);
    if result.minimal.is_some() {
        let run = RunOptions { world: SIM, ..options.run.clone() };
        if let Ok(made) = weir_world::run(&scenario, &run) {
            let dir = options.out.join("minimal");
            Folder::new(&dir).write(&made)?;
            output::write_page(&dir.join("report.html"), &page::html(&[(&scenario.name, &made)]))?;
        }
    }
    Ok(())
}

fn history(hunt: &Hunt, tried: &[Tried]) -> Vec<(usize, f64)> {
    let mut history: Vec<(usize, f64)> = Vec::new();
    for (place, one) in tried.iter().enumerate() {
        let Some(mean) = one.value.mean() else { continue };
        let score = |value: f64| hunt.objective.score(value);
        if history.last().is_none_or(|(_, best)| score(mean) > score(*best)) {
            history.push((place + 1, mean));
        }
    }
    history
}

fn genes(hunt: &Hunt, found: &Draft, least: &Draft) -> Vec<GeneResult> {
    let one = |(index, gene): (usize, &Gene)| GeneResult {
        key: gene.key.name.clone(),
        found: gene.value(&found.alleles[index]).label,
        minimal: (!least.dropped[index]).then(|| gene.value(&least.alleles[index]).label),
    };
    hunt.genes.iter().enumerate().map(one).collect()
}

/// What went wrong in candidates that failed, each once.
fn failed(tried: &[Tried]) -> Vec<String> {
    let mut failed: Vec<String> = Vec::new();
    for one in tried {
        if let Value::Failed(why) = &one.value
            && failed.len() < TOLD
            && !failed.contains(why)
        {
            failed.push(why.clone());
        }
    }
    failed
}

/// Why there is nothing.
fn reason(tried: &[Tried]) -> String {
    let why = tried.iter().find_map(|one| match &one.value {
        Value::Failed(why) | Value::Impossible(why) => Some(why.clone()),
        _ => None,
    });
    why.unwrap_or_else(|| {
        "it could be measured in none; look for something else, or widen the genes".to_owned()
    })
}

/// All candidates in their order: `evaluations.csv`.
fn table(hunt: &Hunt, tried: &[Tried]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let keys = hunt.genes.iter().map(|gene| gene.key.name.as_str());
    let head: Vec<&str> =
        ["evaluation"].into_iter().chain(keys).chain([hunt.objective.measure.as_str(), "error"]).collect();
    let mut write = |row: Vec<String>| writer.write_record(row).expect("memory takes all");
    write(head.into_iter().map(str::to_owned).collect());
    for (place, one) in tried.iter().enumerate() {
        let mut row = vec![(place + 1).to_string()];
        row.extend(
            hunt.genes.iter().zip(&one.draft.alleles).map(|(gene, alleles)| gene.value(alleles).label),
        );
        row.push(one.value.mean().map(|mean| mean.to_string()).unwrap_or_default());
        row.push(match &one.value {
            Value::Failed(why) | Value::Impossible(why) => why.clone(),
            _ => String::new(),
        });
        write(row);
    }
    let bytes = writer.into_inner().expect("memory takes all");
    String::from_utf8(bytes).expect("all that was written is text")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use weir_scenario::Scenario;
    use weir_world::RunOptions;

    use super::run;
    use crate::{Hunt, HuntResult, Plan};
    use weir_study::Options;

    /// The shorter the buffer and the longer the path, the less is used; jitter, name and the other flow are nothing to
    /// it, or little.
    const HUNT: &str = r#"
evaluations = 40
confirm = 2
[objective]
measure = "utilisation"
[genes]
"bottleneck.rtt" = { from = "10ms", to = "200ms", log = true }
"bottleneck.qdisc.limit" = { from = "2p", to = "100p", log = true }
"flow.1.rate" = ["10kbit", "11kbit"]
[scenario.bottleneck]
rate = "5mbit"
rtt = "10ms"
qdisc = "pfifo limit 100p"
[[scenario.flow]]
name = "bulk"
stack = "tcp"
controller = "reno"
start_spread = "100ms"
duration = "4s"
[[scenario.flow]]
stack = "udp"
rate = "10kbit"
"#;

    fn make(out: &Path, jobs: usize, stop_after: usize) -> HuntResult {
        let hunt = Hunt::parse(HUNT.to_owned(), Path::new("h.toml"), &Plan::default()).unwrap();
        let (stop, shown) = (AtomicBool::new(false), AtomicUsize::new(0));
        let progress = |_| {
            if shown.fetch_add(1, Ordering::Relaxed) >= stop_after {
                stop.store(true, Ordering::Relaxed);
            }
        };
        let options =
            Options { jobs: Some(jobs), progress: &progress, ..Options::new(out, RunOptions::new(&stop)) };
        run(&hunt, &options, "test").unwrap()
    }

    #[test]
    fn a_hunt_finds_shrinks_and_is_the_same_however_it_ran() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        let whole = make(&one, 1, usize::MAX);
        let (neutral, minimal) = (whole.neutral.unwrap(), whole.minimal.unwrap());
        assert!(minimal.mean < 0.5 * neutral, "{} of {neutral}", minimal.mean);
        let kept: Vec<&str> =
            whole.genes.iter().filter(|gene| gene.minimal.is_some()).map(|gene| gene.key.as_str()).collect();
        assert!(kept.contains(&"bottleneck.qdisc.limit"), "{kept:?}");
        assert!(!kept.contains(&"flow.1.rate"), "{kept:?}");
        assert_eq!(whole.without, ["UDP"]);
        let scenario = Scenario::load(&one.join("minimal.toml")).unwrap();
        assert_eq!(scenario.flows.len(), 1);
        assert!(one.join("minimal/report.html").is_file());

        let stopped = make(&two, 2, 15);
        assert!(stopped.interrupted && stopped.evaluations < whole.evaluations, "{}", stopped.evaluations);
        let resumed = make(&two, 2, usize::MAX);
        assert!(resumed.reused > 0, "nothing was there");
        for file in ["evaluations.csv", "minimal.toml"] {
            assert!(fs::read(one.join(file)).unwrap() == fs::read(two.join(file)).unwrap(), "{file} differs");
        }
        let again = make(&two, 2, usize::MAX);
        assert_eq!((again.minimal, again.history), (whole.minimal, whole.history));
    }
}
