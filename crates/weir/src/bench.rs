//! `weir bench`.

use std::process::ExitCode;

use anyhow::Context;
use weir_lab::{bench_law, bench_link};

use crate::cli::{BenchLawArgs, BenchLinkArgs};
use crate::talk;

/// Measures the paths through the user-space bottleneck beside the kernel's forwarding.
pub(crate) fn link(args: &BenchLinkArgs) -> anyhow::Result<ExitCode> {
    let stop = talk::stop_flag()?;
    let progress = talk::Progress::new("bench link");
    let bench =
        bench_link::run(weir_core::Duration::from_secs(args.seconds.max(1)), &stop, &|done, total, name| {
            progress.show(done as f64 / total as f64, None, name);
        })
        .context("the benchmark could not run; `weir doctor` tells what is missing")?;
    drop(progress);
    if args.json {
        talk::print_json(&bench)?;
    } else {
        talk::print(&bench.table())?;
    }
    Ok(if talk::is_stopped(&stop) { ExitCode::from(talk::INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// Measures the law in the kernel.
pub(crate) fn law(args: &BenchLawArgs) -> anyhow::Result<ExitCode> {
    let stop = talk::stop_flag()?;
    let progress = talk::Progress::new("bench law");
    let bench =
        bench_law::run(weir_core::Duration::from_secs(args.seconds.max(1)), &stop, &|done, total, name| {
            progress.show(done as f64 / total as f64, None, name);
        })
        .context("the benchmark could not run; `weir doctor` tells what is missing")?;
    drop(progress);
    if args.json {
        talk::print_json(&bench)?;
    } else {
        talk::print(&bench.table())?;
    }
    Ok(if talk::is_stopped(&stop) { ExitCode::from(talk::INTERRUPTED) } else { ExitCode::SUCCESS })
}
