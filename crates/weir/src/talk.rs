//! How the command speaks: data on standard output, talk on standard error, and a reader who has gone is no failure.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use weir_lab::batch::{BatchProgress, UNFINISHED};
use weir_lab::vm::scenarios::{PROGRESS_LINES, progress_line};

/// The result is doubtful.
pub(crate) const DOUBTFUL: u8 = 3;
/// Ended by a signal, as shells number it for SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// Prints data. A closed pipe (`weir ... | head`) ends the command quietly.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => Ok(written?),
    }
}

/// Prints a value as JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print(&serde_json::to_string_pretty(value)?)
}

/// Says why the command failed.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("weir: {}", story(error));
    ExitCode::FAILURE
}

/// The error and its causes, each once: most of the libraries' messages hold their cause already.
fn story(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |said, cause| match said.as_str() {
        "" => cause,
        earlier if earlier.contains(&cause) => said,
        _ => format!("{said}: {cause}"),
    })
}

/// A flag that the first Ctrl-C (or SIGTERM) sets; the second ends the process at once.
pub(crate) fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, i32::from(INTERRUPTED), Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Whether Ctrl-C was pressed.
pub(crate) fn is_stopped(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

/// A progress bar with the time left; nothing where standard error is not a terminal. Lines that a program can read where
/// one asks for them, as a micro-VM's host does.
pub(crate) struct Progress {
    bar: ProgressBar,
    lines: bool,
}

impl Progress {
    /// A bar for work called `name`.
    pub(crate) fn new(name: &str) -> Self {
        let bar = if io::stderr().is_terminal() { ProgressBar::new(1000) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{prefix} {wide_bar} {percent:>3}%  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(name.to_owned());
        Self { bar, lines: std::env::var_os(PROGRESS_LINES).is_some() }
    }

    /// Shows how far the work is, 0 to 1, and how long it will still take.
    pub(crate) fn show(&self, done: f64, left: Option<Duration>, note: &str) {
        let permille = (done.clamp(0.0, 1.0) * 1000.0) as u64;
        if self.lines && permille != self.bar.position() {
            eprintln!("{}", progress_line(done, left));
        }
        self.bar.set_position(permille);
        let left = left.map(|left| format!("{} s left", left.as_secs())).unwrap_or_default();
        self.bar.set_message(if note.is_empty() { left } else { format!("{left}  {note}") });
    }
}

impl Progress {
    /// Shows how far a batch of runs is.
    pub(crate) fn show_runs(&self, now: &BatchProgress) {
        let note = format!("{}/{} runs; {}", now.done, now.total, now.last);
        self.show(now.done as f64 / now.total as f64, now.left, &note);
    }
}

/// Tells what a reader must know of a batch whose files are in `out`, and how it ended.
pub(crate) fn batch_end(out: &Path, continued: usize, warnings: &[String], stop: &AtomicBool) -> ExitCode {
    if continued > 0 {
        eprintln!("weir: {continued} runs are those of an earlier command that was not finished");
    }
    for warning in warnings {
        eprintln!("weir: warning: {warning}");
    }
    let list = out.join(UNFINISHED);
    if list.exists() {
        let what = "runs are missing; the same command makes those, or all again without";
        eprintln!("weir: {what} {}", list.display());
    }
    match (is_stopped(stop), warnings.is_empty()) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(DOUBTFUL),
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::story;

    #[test]
    fn a_cause_is_told_once() {
        let cause = || std::io::Error::other("no room");
        let inner = anyhow::Error::new(cause()).context("cannot write x: no room; make some");
        assert_eq!(story(&inner), "cannot write x: no room; make some");
        let outer: anyhow::Result<()> = Err(cause()).context("cannot write x").context("scenario 'y'");
        assert_eq!(story(&outer.unwrap_err()), "scenario 'y': cannot write x: no room");
    }
}
