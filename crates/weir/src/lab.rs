//! What measures: scenarios, sweeps, hunts, suites, figures, benchmarks and micro-VMs. The feature `lab`; a router does
//! without.

mod bench;
mod doctor;
mod figure;
mod hunt;
mod progress;
mod rates;
mod run;
mod suite;
mod sweep;
mod vm;

use std::process::ExitCode;

use crate::cli::{FigureCommand, LabCommand, SuiteCommand};
use crate::talk;

/// Does what one of the lab's verbs asks for.
pub(crate) fn run(command: &LabCommand) -> anyhow::Result<ExitCode> {
    if let Some(slip) = command.idle_flag() {
        return Ok(talk::wrong(&slip));
    }
    match command {
        LabCommand::Run(args) => run::run(args),
        LabCommand::Sweep(args) => sweep::run(args),
        LabCommand::Hunt(args) => hunt::run(args),
        LabCommand::Suite(SuiteCommand::List { json }) => suite::list(*json),
        LabCommand::Suite(SuiteCommand::Run(args)) => suite::run(args),
        LabCommand::Figure(FigureCommand::List { json }) => figure::list(*json),
        LabCommand::Figure(FigureCommand::Run(args)) => figure::run(args),
        LabCommand::Vm(command) => vm::run(command),
        LabCommand::Bench(command) => bench::run(command),
        LabCommand::Doctor(args) => doctor::run(args),
    }
}
