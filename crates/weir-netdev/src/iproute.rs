//! `ip` and `tc` of iproute2, run and read: lines that are run in one process, and the statistics of queue disciplines
//! that `tc` prints as JSON.
//!
//! Both take the command as the caller made it, so that the network namespace is the caller's choice: that of the
//! calling thread with `Command::new("tc")`, or another one.

mod discipline;

use std::io::{self, Write};
use std::process::{Command, Stdio};

use thiserror::Error;

use crate::remedy;
pub use discipline::Discipline;

/// Lines that were not run, or not all.
#[derive(Debug, Error)]
pub enum BatchError {
    /// The program cannot be run.
    #[error("cannot run '{program}': {source}{}", remedy::to_start(.source))]
    Program {
        /// `ip` or `tc`.
        program: String,
        /// Why it did not start.
        source: io::Error,
    },
    /// The program refused a line; those before it were run.
    #[error("'{program} {line}' failed: {message}")]
    Line {
        /// `ip` or `tc`.
        program: String,
        /// The line, without the program's name.
        line: String,
        /// What the program printed.
        message: String,
    },
}

/// Statistics that cannot be read.
#[derive(Debug, Error)]
pub enum StatisticsError {
    /// `tc` cannot be run.
    #[error("cannot run 'tc': {source}{}", remedy::to_start(.source))]
    Program {
        /// Why it did not start.
        source: io::Error,
    },
    /// `tc` refused.
    #[error("`tc -s -j qdisc show dev {device}` failed: {message}")]
    Refused {
        /// The interface.
        device: String,
        /// What `tc` printed.
        message: String,
    },
    /// What it printed is no JSON of disciplines.
    #[error(
        "`tc -s -j qdisc show dev {device}` printed what cannot be read: {message}; install a current iproute2"
    )]
    Unreadable {
        /// The interface.
        device: String,
        /// What is wrong, and what `tc` printed besides.
        message: String,
    },
}

/// Runs lines (without the program's name) with `command`, an `ip` or `tc` that may have options of its own, in one
/// process; stops at the first that fails. Without lines nothing is run.
///
/// # Errors
/// When the program does not start, or refuses a line.
pub fn batch(mut command: Command, lines: &[String]) -> Result<(), BatchError> {
    if lines.is_empty() {
        return Ok(());
    }
    let program = command.get_program().to_string_lossy().into_owned();
    let missing = |source| BatchError::Program { program: program.clone(), source };
    let mut child = command
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(missing)?;
    let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
    // A program that stops at a bad line closes its end before all is written: the reason is in its message, not in the
    // error of the pipe.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().map_err(missing)?;
    if output.status.success() {
        return Ok(());
    }
    let (line, message) = failed_line(&String::from_utf8_lossy(&output.stderr), lines);
    Err(BatchError::Line { program, line, message })
}

/// What iproute2 prints ends with `Command failed -:N`, N counting lines from one; the reason stands before it.
fn failed_line(said: &str, lines: &[String]) -> (String, String) {
    let number = said.lines().find_map(|line| line.strip_prefix("Command failed -:"));
    let at = number.and_then(|number| number.trim().parse::<usize>().ok()?.checked_sub(1));
    let line = at.and_then(|at| lines.get(at)).map_or("-batch -", String::as_str);
    let reason: Vec<&str> = said
        .lines()
        .filter(|line| !line.starts_with("Command failed"))
        .map(|line| line.strip_prefix("Error: ").unwrap_or(line))
        .collect();
    (line.to_owned(), reason.join("; "))
}

/// The disciplines of `device` with what they counted, by `command`, which is a `tc`. `None` if there is no such
/// interface.
///
/// # Errors
/// When `tc` does not start, refuses, or prints what cannot be read.
pub fn disciplines(mut command: Command, device: &str) -> Result<Option<Vec<Discipline>>, StatisticsError> {
    let output = command
        .args(["-s", "-j", "qdisc", "show", "dev", device])
        .output()
        .map_err(|source| StatisticsError::Program { source })?;
    let said = String::from_utf8_lossy(&output.stderr);
    let device = device.to_owned();
    if output.status.success() {
        return Discipline::parse(&output.stdout).map(Some).map_err(|error| StatisticsError::Unreadable {
            device,
            message: format!("{error}; {}", said.trim()),
        });
    }
    if said.contains("Cannot find device") {
        return Ok(None);
    }
    Err(StatisticsError::Refused { device, message: said.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{BatchError, batch, failed_line};

    #[test]
    fn the_failing_line_is_found() {
        let lines = ["link add a type veth".to_owned(), "link set b up".to_owned()];
        let (line, message) = failed_line("Cannot find device \"b\"\nCommand failed -:2\n", &lines);
        assert_eq!((line.as_str(), message.as_str()), ("link set b up", "Cannot find device \"b\""));
        let (line, message) = failed_line("Error: Unknown qdisc.\nhint\nCommand failed -:1\n", &lines);
        assert_eq!((line.as_str(), message.as_str()), ("link add a type veth", "Unknown qdisc.; hint"));
        assert_eq!(failed_line("odd\nCommand failed -:9\n", &lines).0, "-batch -");
        assert_eq!(failed_line("odd", &lines), ("-batch -".to_owned(), "odd".to_owned()));
    }

    #[test]
    fn a_program_that_is_missing_is_named() {
        batch(Command::new("/no/such/tc"), &[]).unwrap();
        let error = batch(Command::new("/no/such/tc"), &["qdisc show".to_owned()]).unwrap_err();
        assert!(matches!(&error, BatchError::Program { program, .. } if program == "/no/such/tc"), "{error}");
        assert!(error.to_string().contains("install iproute2"), "{error}");
    }
}
