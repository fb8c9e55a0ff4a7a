//! `weir sweep`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use weir_study::Options;
use weir_study::sweep::{self, Summary, Sweep, SweepMeta, SweptKey};
use weir_world::RunOptions;

use super::progress::{DOUBTFUL, Progress, folder_name};
use crate::cli::SweepArgs;
use crate::talk;

/// Failed cells that are reported one by one; the table has all.
const TOLD: usize = 10;

/// Runs a sweep, or says what it would run.
pub(crate) fn run(args: &SweepArgs) -> anyhow::Result<ExitCode> {
    let sweep = Sweep::load(&args.file, args.max_cells, args.large)?;
    let out = args.out.clone().unwrap_or_else(|| Path::new("results").join(folder_name(sweep.name())));
    if args.dry_run {
        return dry_run(&sweep, &out, args.json);
    }
    let stop = talk::stop_flag()?;
    let progress = Progress::new(sweep.name());
    let options = Options {
        out: out.clone(),
        jobs: args.jobs.map(|jobs| jobs as usize),
        retry_failed: args.retry_failed,
        run: RunOptions::new(&stop),
        progress: &|now| progress.show_runs(&now),
    };
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let result = sweep::run(&sweep, &options, &command)?;
    drop(progress);
    if args.json {
        talk::print_json(&Printed { meta: &result.meta, summary: &result.summaries })?;
    } else {
        talk::print(&result.table)?;
        talk::print(&format!("Plots and tables: {}", out.join("sweep.html").display()))?;
    }
    let meta = &result.meta;
    if result.reused > 0 {
        talk::say!(
            "weir: {} of {} cells had their result from an earlier command",
            result.reused,
            meta.cells
        );
    }
    if result.damaged > 0 {
        let what = "cells had a stored result that is not as it was written; they ran again";
        eprintln!("weir: {} of {} {what}", result.damaged, meta.cells);
    }
    if meta.doubtful_cells > 0 {
        let column = "column `warnings` of the table says why";
        talk::say!("weir: warning: {} of {} cells are doubtful; {column}", meta.doubtful_cells, meta.cells);
    }
    for failed in meta.failed_cells.iter().take(TOLD) {
        talk::say!("weir: cell {} failed ({}): {}", failed.cell, failed.what, failed.error);
    }
    if !meta.failed_cells.is_empty() {
        let (count, remedy) = (meta.failed_cells.len(), "--retry-failed runs them again");
        talk::say!(
            "weir: {count} of {} cells failed; column `error` of the table says why; {remedy}",
            meta.cells
        );
    }
    if meta.missing_cells > 0 {
        let remedy = "the same command goes on from here";
        talk::say!("weir: {} of {} cells are missing; {remedy}", meta.missing_cells, meta.cells);
    }
    Ok(if talk::is_stopped(&stop) {
        ExitCode::from(talk::INTERRUPTED)
    } else if !meta.failed_cells.is_empty() {
        ExitCode::FAILURE
    } else if meta.doubtful_cells > 0 {
        ExitCode::from(DOUBTFUL)
    } else {
        ExitCode::SUCCESS
    })
}

/// What `--json` prints: `sweep.json` and the means.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    meta: &'a SweepMeta,
    summary: &'a [Summary],
}

/// What would run.
#[derive(Serialize)]
struct Plan {
    name: String,
    world: &'static str,
    keys: Vec<SweptKey>,
    combinations: usize,
    repeat: u64,
    cells: usize,
    cells_done: usize,
    out: PathBuf,
}

fn dry_run(sweep: &Sweep, out: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let plan = Plan {
        name: sweep.name().to_owned(),
        world: sweep.world().name(),
        keys: sweep.keys(),
        combinations: sweep.combinations(),
        repeat: sweep.repeat(),
        cells: sweep.cells(),
        cells_done: sweep.done(out),
        out: out.to_owned(),
    };
    if json {
        talk::print_json(&plan)?;
        return Ok(ExitCode::SUCCESS);
    }
    for key in &plan.keys {
        let together = plan.keys.iter().filter(|other| other.axis == key.axis).count() > 1;
        let zip = if together { format!(" (zip {})", key.axis) } else { String::new() };
        talk::print(&format!("{}{zip}: {}", key.key, key.values.join(", ")))?;
    }
    let Plan { world, combinations, repeat, cells, cells_done, .. } = plan;
    let to = plan.out.display();
    talk::print(&format!(
        "{combinations} combinations x {repeat} runs = {cells} cells in world {world}; {cells_done} have a result in {to}"
    ))?;
    Ok(ExitCode::SUCCESS)
}
