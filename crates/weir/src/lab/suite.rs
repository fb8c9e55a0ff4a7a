//! `weir suite`.

use std::path::PathBuf;
use std::process::ExitCode;

use weir_study::Options;
use weir_study::suite::{self, Plan};
use weir_world::RunOptions;

use super::progress::{Progress, batch_end};
use crate::cli::SuiteRunArgs;
use crate::talk;

/// Lists the suites.
pub(crate) fn list(json: bool) -> anyhow::Result<ExitCode> {
    let suites = suite::all()?;
    if json {
        let all: Vec<_> = suites
            .iter()
            .map(|suite| serde_json::json!({ "id": suite.id, "about": suite.about, "scenarios": suite.scenarios }))
            .collect();
        talk::print_json(&all)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for suite in suites {
        text += &format!("{:<10} {}\n{:<10} from {}\n", suite.id, suite.about.title, "", suite.about.source);
        text += &format!("{:<10} over {}\n", "", suite.about.qdiscs.join("; "));
        for entry in &suite.about.entries {
            text += &format!("{:<10}   {:<26} {}\n", "", entry.section, entry.title);
        }
    }
    talk::print(text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a suite.
pub(crate) fn run(args: &SuiteRunArgs) -> anyhow::Result<ExitCode> {
    let suite = suite::find(&args.suite)?;
    let plan = Plan {
        world: args.place.world.into(),
        qdiscs: args.qdiscs.clone(),
        only: args.only.clone(),
        seed: args.seed,
        run: args.run,
        large: args.large,
    };
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from("results").join(&suite.id));
    weir_report::output::check_writable(&out)?;
    let stop = talk::stop_flag()?;
    let progress = Progress::new(&suite.id);
    let options = Options {
        out: out.clone(),
        jobs: args.jobs,
        retry_failed: true,
        run: RunOptions { kernel: args.place.kernel.clone(), large: args.large, ..RunOptions::new(&stop) },
        progress: &|now| progress.show_runs(&now),
    };
    let result = suite::run(&suite, &plan, &options)?;
    drop(progress);
    if args.json {
        talk::print_json(&result)?;
    } else {
        talk::print(&result.table)?;
        talk::print(&format!("Plots and tables: {}", out.join("suite.html").display()))?;
    }
    Ok(batch_end(&out, [result.continued, result.damaged, result.missing], &result.warnings, &stop))
}
