//! `weir run`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use weir_link::IoKind;
use weir_report::output::{self, Folder};
use weir_report::page;
use weir_report::result::RunResult;
use weir_report::summary;
use weir_scenario::Scenario;
use weir_world::{self as world, RunOptions};

use super::progress::{self, DOUBTFUL, Progress};
use super::rates;
use crate::cli::{Io, RunArgs, World};
use crate::talk;

/// Runs the scenarios one after the other, writes their results and compares them.
pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let scenarios = load(args)?;
    for scenario in &scenarios {
        output::check_writable(&folder(args, &scenarios, scenario))?;
    }
    let stop = talk::stop_flag()?;
    let mut results = Vec::new();
    for scenario in &scenarios {
        if talk::is_stopped(&stop) {
            break;
        }
        results.push(run_one(args, scenario, &folder(args, &scenarios, scenario), &stop)?);
    }
    let labelled: Vec<(&str, &RunResult)> =
        results.iter().map(|result| (result.meta.scenario.name.as_str(), result)).collect();
    let page = out(args, &scenarios).join("report.html");
    output::write_page(&page, &page::html(&labelled))?;
    if args.json {
        match results.as_slice() {
            [one] => talk::print_json(one)?,
            several => talk::print_json(&several)?,
        }
    } else {
        talk::print(&summary::text(&labelled))?;
        talk::print(&format!("Report: {}", page.display()))?;
    }
    let mut doubtful = false;
    for result in &results {
        for warning in &result.health.warnings {
            doubtful = true;
            talk::say!("weir: warning: {}: {warning}", result.meta.scenario.name);
        }
    }
    Ok(if talk::is_stopped(&stop) {
        ExitCode::from(talk::INTERRUPTED)
    } else if doubtful {
        ExitCode::from(DOUBTFUL)
    } else {
        ExitCode::SUCCESS
    })
}

/// Reads all scenarios before anything runs.
fn load(args: &RunArgs) -> anyhow::Result<Vec<Scenario>> {
    let mut scenarios = Vec::new();
    for path in &args.scenarios {
        let scenario = Scenario::load_with(
            path,
            |scenario| {
                scenario.seed = args.seed.unwrap_or(scenario.seed);
                scenario.measure.pcap |= args.pcap;
                scenario.measure.trace |= args.trace;
            },
            |scenario| world::check(scenario, args.place.world.into(), args.large),
        )?;
        rates::warn_of_scenario(path);
        anyhow::ensure!(
            scenarios.iter().all(|other: &Scenario| folder_name(other) != folder_name(&scenario)),
            "{}: another scenario is called '{}' too; give one of them another name",
            path.display(),
            scenario.name
        );
        scenarios.push(scenario);
    }
    Ok(scenarios)
}

fn run_one(
    args: &RunArgs,
    scenario: &Scenario,
    folder: &Path,
    stop: &std::sync::atomic::AtomicBool,
) -> anyhow::Result<RunResult> {
    let progress = Progress::new(&scenario.name);
    let mut folder = Folder::new(folder);
    let options = RunOptions {
        world: args.place.world.into(),
        kernel: args.place.kernel.clone(),
        run: args.run,
        io: match args.io {
            Io::Auto => IoKind::Auto,
            Io::Xdp => IoKind::Xdp,
            Io::PacketSocket => IoKind::PacketSocket,
        },
        pcap: scenario.measure.pcap.then(|| folder.target("packets.pcapng")),
        trace: scenario.measure.trace.then(|| folder.target("packets.tr")),
        large: args.large,
        progress: &|now| progress.show(now.done, now.left, ""),
        ..RunOptions::new(stop)
    };
    let result = world::run(scenario, &options).with_context(|| format!("scenario '{}'", scenario.name))?;
    folder.write(&result)?;
    Ok(result)
}

impl From<World> for &'static dyn world::World {
    fn from(world: World) -> Self {
        match world {
            World::Emu => world::EMU,
            World::Kernel => world::KERNEL,
            World::Vm => world::VM,
            World::Sim => world::SIM,
        }
    }
}

/// Where everything goes.
fn out(args: &RunArgs, scenarios: &[Scenario]) -> PathBuf {
    let name = || Path::new("results").join(scenarios.first().map(folder_name).unwrap_or_default());
    args.out.clone().unwrap_or_else(name)
}

/// Where one scenario's results go: the folder itself if it is the only one, else a folder of its own inside.
fn folder(args: &RunArgs, scenarios: &[Scenario], scenario: &Scenario) -> PathBuf {
    let out = out(args, scenarios);
    if scenarios.len() == 1 { out } else { out.join(folder_name(scenario)) }
}

/// A scenario's name as a folder's.
fn folder_name(scenario: &Scenario) -> String {
    progress::folder_name(&scenario.name)
}
