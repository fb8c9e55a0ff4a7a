//! `weir hunt`.

use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use weir_hunt::{self as hunt, Hunt, HuntResult, Outline, Plan};
use weir_report::summary::{render, table};
use weir_study::Options;

use weir_world::RunOptions;

use super::progress::{Progress, folder_name};
use crate::cli::{HuntArgs, Search};
use crate::talk;

/// Makes a hunt, or says what it would try.
pub(crate) fn run(args: &HuntArgs) -> anyhow::Result<ExitCode> {
    let plan = Plan {
        search: args.search.map(Into::into),
        seed: args.seed,
        evaluations: args.evaluations.map(|count| count as usize),
        large: args.large,
    };
    let hunt = Hunt::load(&args.file, &plan)?;
    let out = args.out.clone().unwrap_or_else(|| Path::new("results").join(folder_name(hunt.name())));
    if args.dry_run {
        return dry_run(&hunt.outline(), &out, args.json);
    }
    let stop = talk::stop_flag()?;
    let progress = Progress::new(hunt.name());
    let options = Options {
        out: out.clone(),
        jobs: args.jobs.map(|jobs| jobs as usize),
        retry_failed: false,
        run: RunOptions::new(&stop),
        progress: &|now| progress.show_runs(&now),
    };
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let result = hunt::run(&hunt, &options, &command)?;
    drop(progress);
    if args.json {
        talk::print_json(&Printed {
            result: &result,
            commands: commands(&result, &out),
            scenario: &result.scenario,
        })?;
    } else {
        talk::print(&text(&result, &out))?;
    }
    if result.reused > 0 {
        talk::say!("weir: {} runs had their result from an earlier command", result.reused);
    }
    if result.damaged > 0 {
        let what = "runs had a stored result that is not as it was written; they ran again";
        talk::say!("weir: {} {what}", result.damaged);
    }
    for why in &result.failed {
        talk::say!("weir: a candidate failed: {why}; evaluations.csv has it");
    }
    if result.interrupted {
        let Outline { evaluations, .. } = hunt.outline();
        let far = format!("stopped after {} of {evaluations} candidates", result.evaluations);
        talk::say!("weir: {far}; the same command goes on from here");
        return Ok(ExitCode::from(talk::INTERRUPTED));
    }
    Ok(ExitCode::SUCCESS)
}

impl From<Search> for hunt::Search {
    fn from(search: Search) -> Self {
        match search {
            Search::CmaEs => Self::CmaEs,
            Search::Random => Self::Random,
        }
    }
}

/// What `--json` prints: `hunt.json`, the least scenario, and how to run it.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    result: &'a HuntResult,
    commands: Vec<String>,
    scenario: &'a Option<String>,
}

/// How the least scenario runs here and on Linux.
fn commands(result: &HuntResult, out: &Path) -> Vec<String> {
    let file = out.join("minimal.toml");
    let can = |world: &str| !result.refused.iter().any(|(refused, _)| refused == world);
    let worlds = ["sim", "vm"].into_iter().filter(|world| can(world));
    worlds.map(|world| format!("weir run {} --on {world}", file.display())).collect()
}

fn text(result: &HuntResult, out: &Path) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "none".to_owned(), |value| format!("{value:.4}"));
    let objective = result.objective.words();
    let mut text = format!("{}: {objective}, {} candidates tried\n", result.name, result.evaluations);
    let mut numbers = table(&["", "measured", "runs", "+- (95 %)", "from", "to"]);
    let mut row = |what: &str, spread: &Option<_>| {
        let Some(weir_study::sweep::Spread { runs, mean, ci95, min, max, .. }) = spread else { return };
        let cells = [
            format!("{mean:.4}"),
            runs.to_string(),
            format!("{ci95:.4}"),
            format!("{min:.4}"),
            format!("{max:.4}"),
        ];
        numbers.add_row([what.to_owned()].into_iter().chain(cells));
    };
    row("worst found", &result.found);
    row("minimal scenario", &result.minimal);
    text += &format!("{}\n", render(&numbers));
    text += &format!("The scenario as it stands in the file: {}\n", number(result.neutral));
    if result.found.is_none() {
        return text + &format!("Worst so far: {}", number(result.history.last().map(|(_, value)| *value)));
    }
    let mut genes = table(&["gene", "worst found", "minimal"]);
    for gene in &result.genes {
        let minimal = gene.minimal.as_deref().unwrap_or("as in the file");
        // A list has its entries below each other.
        let cell = |label: &str| label.replace("\", ", "\",\n");
        genes.add_row([gene.key.clone(), cell(&gene.found), cell(minimal)]);
    }
    text += &format!("{}\n", render(&genes));
    if !result.without.is_empty() {
        text += &format!("The minimal scenario does without: {}\n", result.without.join(", "));
    }
    text += &format!("Scenario: {}\n", out.join("minimal.toml").display());
    if result.minimal.is_some() {
        text += &format!("Report: {}\n", out.join("minimal/report.html").display());
    }
    for command in commands(result, out) {
        text += &format!("  {command}\n");
    }
    if let Some((_, why)) = result.refused.iter().find(|(world, _)| world == "vm") {
        text += &format!("It cannot run on Linux: {why}\n");
    }
    text.trim_end().to_owned()
}

fn dry_run(outline: &Outline, out: &Path, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        talk::print_json(outline)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Outline { objective, search, seed, evaluations, repeat, genes, .. } = outline;
    for (key, numbers) in genes {
        let many = if *numbers == 1 { String::new() } else { format!(" ({numbers} numbers)") };
        talk::print(&format!("{key}{many}"))?;
    }
    talk::print(&format!(
        "{}: {evaluations} candidates x {repeat} runs by {} search, seed {seed}, into {}",
        objective.words(),
        search.name(),
        out.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}
