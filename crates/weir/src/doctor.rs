//! `weir doctor`.

use std::process::ExitCode;

use weir_lab::doctor::{Status, can_emulate, examine};

use crate::cli::DoctorArgs;
use crate::talk;

/// Prints what this host can do, and what would mend the rest.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let checks = examine();
    let able = can_emulate(&checks);
    if args.json {
        talk::print_json(&checks)?;
    } else {
        let mut text = String::from("World emu (real packets, queue in user space)\n");
        for check in &checks {
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
        text += if able { "weir run works here." } else { "weir run cannot work here; weir assess can." };
        talk::print(&text)?;
    }
    Ok(if able { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
