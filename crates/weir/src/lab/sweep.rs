//! `weir sweep`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use weir_study::sweep::{self, FailedCell, ShardResult, Summary, Sweep, SweepMeta, SweptKey, Taken};
use weir_study::{CELLS, Options};
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
        return dry_run(args, &sweep, &out);
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
    if let Some(shard) = args.shard {
        let result = sweep::run_shard(&sweep, shard, &options)?;
        drop(progress);
        return shard_end(args, &result, &out, &stop);
    }
    take(args, &sweep, &out)?;
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
    let ended = Ended {
        cells: meta.cells,
        reused: result.reused,
        damaged: result.damaged,
        missing: meta.missing_cells,
        doubtful: meta.doubtful_cells,
        failed: &meta.failed_cells,
        says_why: "of the table says why",
    };
    Ok(ended.say(&stop))
}

/// Says what came of a shard: its cells are kept, and there is no table.
fn shard_end(
    args: &SweepArgs,
    result: &ShardResult,
    out: &Path,
    stop: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    if args.json {
        talk::print_json(result)?;
    } else {
        let ShardResult { name, shard, cells, of_cells, missing_cells, .. } = result;
        let (done, kept) = (cells - missing_cells, out.join(CELLS));
        let kept = kept.display();
        talk::print(&format!(
            "Shard {shard} of '{name}': {done} of its {cells} cells are kept in {kept}; all shards are {of_cells} cells"
        ))?;
    }
    let ended = Ended {
        cells: result.cells,
        reused: result.reused,
        damaged: result.damaged,
        missing: result.missing_cells,
        doubtful: result.doubtful_cells,
        failed: &result.failed_cells,
        says_why: "of the table will say why",
    };
    Ok(ended.say(stop))
}

/// Takes what other commands have kept.
fn take(args: &SweepArgs, sweep: &Sweep, out: &Path) -> anyhow::Result<()> {
    for Taken { from, taken, damaged, others } in sweep.take(&args.take, out)? {
        let from = from.display();
        talk::say!("weir: took {taken} results from {from}");
        if damaged > 0 {
            talk::say!(
                "weir: {damaged} results in {from} are not as they were written; they were left there"
            );
        }
        if others > 0 {
            talk::say!("weir: {others} results in {from} are of no cell of this sweep; they were left there");
        }
    }
    Ok(())
}

/// How a sweep or a shard has ended.
struct Ended<'a> {
    cells: usize,
    reused: usize,
    damaged: usize,
    missing: usize,
    doubtful: usize,
    failed: &'a [FailedCell],
    says_why: &'static str,
}

impl Ended<'_> {
    /// Says what a reader must know.
    fn say(&self, stop: &AtomicBool) -> ExitCode {
        let Self { cells, reused, damaged, missing, doubtful, failed, says_why } = *self;
        if reused > 0 {
            talk::say!("weir: {reused} of {cells} cells had their result from an earlier command");
        }
        if damaged > 0 {
            let what = "cells had a stored result that is not as it was written; they ran again";
            talk::say!("weir: {damaged} of {cells} {what}");
        }
        if doubtful > 0 {
            talk::say!(
                "weir: warning: {doubtful} of {cells} cells are doubtful; column `warnings` {says_why}"
            );
        }
        for failed in failed.iter().take(TOLD) {
            talk::say!("weir: cell {} failed ({}): {}", failed.cell, failed.what, failed.error);
        }
        if !failed.is_empty() {
            let (count, remedy) = (failed.len(), "--retry-failed runs them again");
            talk::say!("weir: {count} of {cells} cells failed; column `error` {says_why}; {remedy}");
        }
        if missing > 0 {
            let remedy = "the same command goes on from here";
            talk::say!("weir: {missing} of {cells} cells are missing; {remedy}");
        }
        if talk::is_stopped(stop) {
            ExitCode::from(talk::INTERRUPTED)
        } else if !failed.is_empty() {
            ExitCode::FAILURE
        } else if doubtful > 0 {
            ExitCode::from(DOUBTFUL)
        } else {
            ExitCode::SUCCESS
        }
    }
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
    /// Which part of them, if not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard_cells: Option<usize>,
    /// Cells that have a result: of the shard, or of all.
    cells_done: usize,
    out: PathBuf,
}

fn dry_run(args: &SweepArgs, sweep: &Sweep, out: &Path) -> anyhow::Result<ExitCode> {
    let cells = args.shard.map_or_else(|| (0..sweep.cells()).collect(), |shard| sweep.shard(shard));
    let plan = Plan {
        name: sweep.name().to_owned(),
        world: sweep.world().name(),
        keys: sweep.keys(),
        combinations: sweep.combinations(),
        repeat: sweep.repeat(),
        cells: sweep.cells(),
        shard: args.shard.map(|shard| shard.to_string()),
        shard_cells: args.shard.map(|_| cells.len()),
        cells_done: sweep.done(&cells, out, &args.take),
        out: out.to_owned(),
    };
    if args.json {
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
    let shard = match (plan.shard, plan.shard_cells) {
        (Some(shard), Some(own)) => format!("shard {shard} is {own} of them, of which "),
        _ => String::new(),
    };
    let beside = if args.take.is_empty() { "" } else { " or where --take looks" };
    talk::print(&format!(
        "{combinations} combinations x {repeat} runs = {cells} cells in world {world}; {shard}{cells_done} have a \
         result in {to}{beside}"
    ))?;
    Ok(ExitCode::SUCCESS)
}
