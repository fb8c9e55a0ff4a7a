//! `weir bench`.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use serde::Serialize;
use weir_bench::{Bench, Line, law, link, sim};
use weir_core::Duration;

use super::progress::Progress;
use crate::cli::{BenchArgs, BenchCommand};
use crate::talk;

/// Measures, and prints the table.
pub(crate) fn run(command: &BenchCommand) -> anyhow::Result<ExitCode> {
    match command {
        BenchCommand::Link(args) => measure("bench link", args, link::run),
        BenchCommand::Law(args) => measure("bench law", args, law::run),
        BenchCommand::Sim(args) => measure("bench sim", args, sim::run),
    }
}

/// What a benchmark reports of its progress: how much is done, of how much, and what is next.
type Listener<'a> = &'a (dyn Fn(usize, usize, &str) + Sync);

fn measure<Row, Error>(
    name: &str,
    args: &BenchArgs,
    bench: fn(Duration, &AtomicBool, Listener<'_>) -> Result<Bench<Row>, Error>,
) -> anyhow::Result<ExitCode>
where
    Row: Line + Serialize,
    Error: std::error::Error + Send + Sync + 'static,
{
    let stop = talk::stop_flag()?;
    let progress = Progress::new(name);
    let bench = bench(Duration::from_secs(args.seconds.max(1)), &stop, &|done, total, next| {
        progress.show(done as f64 / total as f64, None, next);
    })
    .context("the benchmark could not run; `weir doctor` says what is missing")?;
    drop(progress);
    if args.json {
        talk::print_json(&bench)?;
    } else {
        talk::print(bench.table().trim_end())?;
    }
    Ok(if talk::is_stopped(&stop) { ExitCode::from(talk::INTERRUPTED) } else { ExitCode::SUCCESS })
}
