//! `weir down`.

use std::ops::ControlFlow;
use std::process::ExitCode;

use weir_kernel::Down;

use crate::cli::DownArgs;
use crate::talk;
use crate::up::{Told, failed, print_lines, tell};

/// Takes Weir off, or says what that would do.
pub(crate) fn run(args: &DownArgs) -> anyhow::Result<ExitCode> {
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    let device = match (words.as_slice(), args.dev.as_deref()) {
        (["dev", device] | [device], None) => Some(*device),
        ([], Some(device)) => Some(device),
        ([], None) => None,
        _ => return Ok(talk::wrong(&"give one interface, as in weir down dev eth0")),
    };
    if device.is_some() == args.all {
        return Ok(talk::wrong(&"give an interface, as in weir down dev eth0, or --all"));
    }
    let mut go_on = |_: &_| ControlFlow::Continue(());
    let done = match (args.output.dry_run, device) {
        (true, device) => weir_kernel::plan_down(device),
        (false, Some(device)) => weir_kernel::down(device, &mut go_on),
        (false, None) => weir_kernel::down_all(&mut go_on),
    };
    match done {
        Ok(done) => tell_all(args, device, &done),
        Err(error) => Ok(failed(&error)),
    }
}

fn tell_all(args: &DownArgs, device: Option<&str>, done: &Down) -> anyhow::Result<ExitCode> {
    let names = match device {
        Some(device) => device.to_owned(),
        None => done.devices.join(", "),
    };
    for warning in &done.warnings {
        talk::say!("weir: warning: {warning}");
    }
    if args.output.json {
        talk::print_json(&Told { device: &names, steps: tell(&done.steps), warnings: &done.warnings })?;
    } else if args.output.dry_run {
        print_lines(&done.steps)?;
    } else if done.steps.is_empty() {
        let of = device.map(|device| format!("{device}: ")).unwrap_or_default();
        talk::say!("{of}nothing to take off");
    } else {
        talk::say!("{names}: as before weir up");
    }
    Ok(ExitCode::SUCCESS)
}
