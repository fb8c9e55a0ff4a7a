//! The weir command.

mod assess;
mod cli;
mod down;
mod file;
mod generate;
#[cfg(feature = "lab")]
mod lab;
mod rates;
mod reload;
#[cfg(feature = "send")]
mod send;
mod show;
mod talk;
mod top;
mod up;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let outcome = match Cli::try_parse() {
        Ok(asked) => run(&asked.command),
        Err(said) => cli::absent(&said).map_or_else(|| talk::answer(&said), |verb| Ok(talk::wrong(&verb))),
    };
    outcome.unwrap_or_else(|error| talk::failed(&error))
}

fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        #[cfg(feature = "lab")]
        Command::Lab(command) => lab::run(command),
        #[cfg(feature = "send")]
        Command::Send(command) => send::run(command),
        Command::Assess(args) => assess::run(args),
        Command::Up(args) => up::run(args),
        Command::Down(args) => down::run(args),
        Command::Reload(args) => reload::run(args),
        Command::Show(args) => show::run(args),
        Command::Top(args) => top::run(args),
        Command::Completions { shell } => generate::completions(*shell),
        Command::Man { dir } => generate::man(dir),
    }
}
