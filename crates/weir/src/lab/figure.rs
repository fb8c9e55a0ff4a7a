//! `weir figure`.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use weir_report::summary::{render, table};
use weir_study::Options;
use weir_study::figure::{self, Figure, Outline, Plan, Verdict};
use weir_world::{RunOptions, World};

use super::progress::{DOUBTFUL, Progress, batch_end};
use crate::cli::FigureRunArgs;
use crate::talk;

/// Lists the figures.
pub(crate) fn list(json: bool) -> anyhow::Result<ExitCode> {
    let about: Vec<_> = figure::all().iter().map(|figure| figure.about().clone()).collect();
    if json {
        talk::print_json(&about)?;
        return Ok(ExitCode::SUCCESS);
    }
    let wide = about.iter().map(|figure| figure.id.len()).max().unwrap_or(0);
    let variants = about.iter().flat_map(|figure| &figure.variants);
    let wide_variant = variants.map(|variant| variant.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for figure in about {
        text += &format!("{:<wide$} {}\n", figure.id, figure.title);
        text += &format!(
            "{:<wide$} worlds: {}; {}; from {}\n",
            "",
            figure.worlds.join(", "),
            figure.state,
            figure.paper
        );
        for variant in figure.variants {
            let worlds = match variant.worlds.as_slice() {
                [] => String::new(),
                some => format!("; worlds: {}", some.join(", ")),
            };
            let (name, says) = (&variant.name, &variant.says);
            text += &format!("{:<wide$} --variant {name:<wide_variant$} {says}{worlds}\n", "");
        }
    }
    talk::print(text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// The plan of a figure.
fn plan(args: &FigureRunArgs, figure: &dyn Figure) -> Plan {
    let world: &'static dyn World = args.place.world.into();
    Plan {
        world,
        variant: args.variant.clone().unwrap_or_else(|| figure.about().variant_in(world.name()).name.clone()),
        quick: args.quick,
        runs: args.runs,
        seed: args.seed,
        only: args.only.clone(),
    }
}

/// Makes a figure, or all.
pub(crate) fn run(args: &FigureRunArgs) -> anyhow::Result<ExitCode> {
    if args.id == "all" {
        return run_all(args);
    }
    let figure = figure::find(&args.id).map_err(anyhow::Error::msg)?;
    let plan = plan(args, figure.as_ref());
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
            let verdict = match statement.verdict {
                Verdict::DoesNot => "DOES NOT HOLD",
                other => other.words(),
            };
            talk::print(&format!(
                "{verdict}: {} (paper: {}; measured: {})",
                statement.text, statement.paper, statement.measured
            ))?;
            if let Some(cause) = &statement.cause {
                let then = cause.verdict.words();
                talk::print(&format!("  cause: {}; measured then: {}; {then}", cause.text, cause.measured))?;
            }
        }
        talk::print(&format!("Plot and tables: {}", out.join("figure.html").display()))?;
    }
    Ok(batch_end(&out, [result.continued, result.damaged, result.missing], &result.warnings, &stop))
}

/// Makes all figures that can be made in the world, each into a folder of its own, and goes on behind those that an
/// earlier command has made whole with the same build and the same options.
fn run_all(args: &FigureRunArgs) -> anyhow::Result<ExitCode> {
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from("results/figures"));
    weir_report::output::check_writable(&out)?;
    let stop = talk::stop_flag()?;
    let mut rows: Vec<Row> = Vec::new();
    for figure in figure::all() {
        let about = figure.about();
        let plan = plan(args, figure.as_ref());
        let has_variant = about.variants.iter().any(|variant| variant.name == plan.variant);
        let worlds = about.worlds_of(about.variant(&plan.variant));
        let has_world = worlds.iter().any(|world| world == plan.world.name());
        if !has_variant || !has_world || figure.jobs(&plan).is_empty() {
            continue;
        }
        let progress = Progress::new(&about.id);
        let options = Options {
            out: out.join(about.id.replace('/', "-")),
            jobs: args.jobs,
            retry_failed: true,
            run: RunOptions { kernel: args.place.kernel.clone(), ..RunOptions::new(&stop) },
            progress: &|now| progress.show_runs(&now),
        };
        let outline = match figure::made(figure.as_ref(), &plan, &options)? {
            Some(outline) => outline,
            None => Outline::from(&figure::run(figure.as_ref(), &plan, &options)?),
        };
        let Outline { verdicts: [holds, does_not, cannot_tell], took_s, missing, warnings } = outline;
        let figure = about.id.clone();
        rows.push(Row { figure, holds, does_not, cannot_tell, missing, warnings, took_s });
        if talk::is_stopped(&stop) {
            break;
        }
    }
    anyhow::ensure!(
        !rows.is_empty(),
        "no figure has such a variant and such cells in this world; `weir figure list` shows all"
    );
    if args.json {
        talk::print_json(&rows)?;
    } else {
        let mut table = table(&["figure", "holds", "does not", "cannot tell", "missing", "warnings", "time"]);
        for row in &rows {
            let counts = [row.holds, row.does_not, row.cannot_tell, row.missing, row.warnings];
            let counts = counts.map(|count| count.to_string());
            let time = format!("{:.1} s", row.took_s);
            table.add_row(std::iter::once(row.figure.clone()).chain(counts).chain([time]));
        }
        talk::print(&render(&table))?;
        talk::print(&format!("Each has a page: {}", out.join("FIGURE/figure.html").display()))?;
    }
    if talk::is_stopped(&stop) {
        talk::say!("weir: stopped; the same command goes on from here");
    }
    let doubtful = rows.iter().any(|row| row.warnings + row.missing > 0);
    Ok(match (talk::is_stopped(&stop), doubtful) {
        (true, _) => ExitCode::from(talk::INTERRUPTED),
        (false, false) => ExitCode::SUCCESS,
        (false, true) => ExitCode::from(DOUBTFUL),
    })
}

/// A figure in the table of all.
#[derive(Serialize)]
struct Row {
    figure: String,
    holds: usize,
    does_not: usize,
    cannot_tell: usize,
    missing: usize,
    warnings: usize,
    took_s: f64,
}
