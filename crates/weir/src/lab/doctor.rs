//! `weir doctor`.

use std::process::ExitCode;

use weir_bench::doctor::{Check, Status, WORLDS, can_run, examine};

use crate::cli::DoctorArgs;
use crate::talk;

/// Prints what this host can do, and what would mend the rest.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let checks = examine();
    let able: Vec<&str> =
        WORLDS.into_iter().map(|(world, _)| world).filter(|world| can_run(&checks, world)).collect();
    if args.json {
        talk::print_json(&checks)?;
    } else {
        talk::print(&words(&checks, &able))?;
    }
    Ok(if able.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn words(checks: &[Check], able: &[&str]) -> String {
    let mut text = String::new();
    for (world, what) in WORLDS {
        text += &format!("World {world} ({what})\n");
        for check in checks.iter().filter(|check| check.world == world) {
            let status = match check.status {
                Status::Ok => "ok",
                Status::Limited => "limited",
                Status::Missing => "MISSING",
            };
            text += &format!("  {status:<8} {:<24} {}\n", check.name, check.detail);
            if let Some(fix) = &check.fix {
                text += &format!("  {:<8} {:<24} fix: {fix}\n", "", "");
            }
        }
        text += "\n";
    }
    text += &match able {
        [] => "No world can run here; weir assess can.".to_owned(),
        ["emu", ..] => format!("weir run works here. Worlds that can run: {}.", able.join(", ")),
        _ => format!("Worlds that can run here: {}.", able.join(", ")),
    };
    text
}
