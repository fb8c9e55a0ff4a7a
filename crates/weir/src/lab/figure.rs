//! `weir figure`.

use std::path::PathBuf;
use std::process::ExitCode;

use weir_study::Options;
use weir_study::figure::{self, Plan};
use weir_world::RunOptions;

use super::progress::{Progress, batch_end};
use crate::cli::FigureRunArgs;
use crate::talk;

/// Lists the figures.
pub(crate) fn list(json: bool) -> anyhow::Result<ExitCode> {
    let about: Vec<_> = figure::all().iter().map(|figure| figure.about().clone()).collect();
    if json {
        talk::print_json(&about)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for figure in about {
        text += &format!("{:<8} {}\n", figure.id, figure.title);
        text += &format!(
            "{:<8} worlds: {}; {}; from {}\n",
            "",
            figure.worlds.join(", "),
            figure.state,
            figure.paper
        );
        for variant in figure.variants {
            text += &format!("{:<8} --variant {:<12} {}\n", "", variant.name, variant.says);
        }
    }
    talk::print(text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Makes a figure.
pub(crate) fn run(args: &FigureRunArgs) -> anyhow::Result<ExitCode> {
    let figure = figure::find(&args.id).map_err(anyhow::Error::msg)?;
    let plan = Plan {
        world: args.place.world.into(),
        variant: args.variant.clone().unwrap_or_else(|| figure.about().variants[0].name.clone()),
        quick: args.quick,
        runs: args.runs,
        seed: args.seed,
        only: args.only.clone(),
    };
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from("results").join(args.id.replace('/', "-")));
    weir_report::output::check_writable(&out)?;
    let stop = talk::stop_flag()?;
    let progress = Progress::new(&args.id);
    let options = Options {
        out: out.clone(),
        jobs: args.jobs,
        retry_failed: true,
        run: RunOptions { kernel: args.place.kernel.clone(), ..RunOptions::new(&stop) },
        progress: &|now| progress.show_runs(&now),
    };
    let result = figure::run(figure.as_ref(), &plan, &options)?;
    drop(progress);
    if args.json {
        talk::print_json(&result)?;
    } else {
        talk::print(&result.table)?;
        for statement in &result.statements {
            let holds = if statement.holds { "holds" } else { "DOES NOT HOLD" };
            talk::print(&format!(
                "{holds}: {} (paper: {}; measured: {})",
                statement.text, statement.paper, statement.measured
            ))?;
        }
        talk::print(&format!("Plot and tables: {}", out.join("figure.html").display()))?;
    }
    Ok(batch_end(&out, [result.continued, result.damaged, result.missing], &result.warnings, &stop))
}
