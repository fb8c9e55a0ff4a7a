//! The weir command.

mod assess;
mod bench;
mod cli;
mod doctor;
mod down;
mod figure;
mod generate;
mod rates;
mod reload;
mod run;
mod show;
mod suite;
mod sweep;
mod talk;
mod top;
mod up;
mod vm;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command, FigureCommand, SuiteCommand};

fn main() -> ExitCode {
    let outcome = match Cli::try_parse() {
        Ok(asked) => run(&asked.command),
        Err(said) => talk::answer(&said),
    };
    outcome.unwrap_or_else(|error| talk::failed(&error))
}

fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => run::run(args),
        Command::Assess(args) => assess::run(args),
        Command::Up(args) => up::run(args),
        Command::Down(args) => down::run(args),
        Command::Reload(args) => reload::run(args),
        Command::Figure(FigureCommand::List { json }) => figure::list(*json),
        Command::Figure(FigureCommand::Run(args)) => figure::run(args),
        Command::Sweep(args) => sweep::run(args),
        Command::Suite(SuiteCommand::List { json }) => suite::list(*json),
        Command::Suite(SuiteCommand::Run(args)) => suite::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Show(args) => show::run(args),
        Command::Top(args) => top::run(args),
        Command::Bench(command) => bench::run(command),
        Command::Vm(command) => vm::run(command),
        Command::Completions { shell } => generate::completions(*shell),
        Command::Man { dir } => generate::man(dir),
    }
}
