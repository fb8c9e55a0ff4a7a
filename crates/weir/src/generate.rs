//! Completions and man pages, from the one definition of the command line.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::talk;

/// Prints a shell's completion script.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "weir", &mut script);
    talk::print(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes man pages for the command and each subcommand into `dir`.
pub(crate) fn man(dir: &Path) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    clap_mangen::generate_to(Cli::command(), dir)
        .with_context(|| format!("cannot write man pages to {}", dir.display()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use crate::cli::Cli;

    #[test]
    fn the_command_line_is_sound_and_documented() {
        let mut command = Cli::command();
        command.build();
        command.clone().debug_assert();
        fn visit(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{} has no description", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} has no help", argument.get_id());
            }
            command.get_subcommands().filter(|sub| sub.get_name() != "help").for_each(visit);
        }
        visit(&command);
    }
}
