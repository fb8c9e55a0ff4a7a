//! The weir command.

mod assess;
mod bench;
mod cli;
mod doctor;
mod figure;
mod generate;
mod run;
mod talk;

use std::process::ExitCode;

use clap::Parser;

use cli::{BenchCommand, Cli, Command, FigureCommand};

fn main() -> ExitCode {
    let outcome = match &Cli::parse().command {
        Command::Run(args) => run::run(args),
        Command::Assess(args) => assess::run(args),
        Command::Figure(FigureCommand::List { json }) => figure::list(*json),
        Command::Figure(FigureCommand::Run(args)) => figure::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Bench(BenchCommand::Link(args)) => bench::link(args),
        Command::Completions { shell } => generate::completions(*shell),
        Command::Man { dir } => generate::man(dir),
    };
    outcome.unwrap_or_else(|error| talk::failed(&error))
}
