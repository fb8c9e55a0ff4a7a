//! How the command speaks: data on standard output, talk on standard error, and a reader who has gone is no failure.

#[cfg(any(feature = "lab", feature = "send"))]
mod bar;
mod output;
mod plain;

use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

#[cfg(any(feature = "lab", feature = "send"))]
pub(crate) use bar::Bar;
pub(crate) use plain::plain;
use plain::plain_json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Ended by a signal, as shells number it for SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// The command line, or the file that it names as configuration, is wrong.
pub(crate) const WRONG: u8 = 2;

/// Says something on standard error, in the words of `format!`.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::talk::speak(&format!($($words)*))
    };
}
pub(crate) use say;

/// Says something on standard error. That nobody hears it is no failure: the exit code speaks, too.
pub(crate) fn speak(text: &str) {
    say_as_is(&plain(text));
}

/// Passes on what a program has said, which may speak to the terminal.
pub(crate) fn say_as_is(text: &str) {
    let _ = io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}

/// Prints data. A closed pipe (`weir ... | head`) ends the command quietly.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_as_is(&plain(text))
}

/// Prints a value as JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print_encoded(&serde_json::to_string_pretty(value)?)
}

/// Prints JSON that was made already.
pub(crate) fn print_encoded(json: &str) -> anyhow::Result<()> {
    print_as_is(&plain_json(json))
}

/// Prints what a program has printed, which may speak to the terminal.
pub(crate) fn print_as_is(text: &str) -> anyhow::Result<()> {
    written(output::write(format!("{text}\n").as_bytes()))
}

/// Prints data as they come, where they may be many. For what holds no names from outside.
pub(crate) fn print_with(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    written(output::stream(write))
}

/// What becomes of the command after it has written, or could not.
fn written(result: io::Result<()>) -> anyhow::Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        // A terminal that was closed: the command ends as it was told to.
        Err(_) if STOP.get().is_some_and(|stop| is_stopped(stop)) => std::process::exit(INTERRUPTED.into()),
        Err(error) => Err(anyhow::anyhow!("cannot write to standard output: {error}")),
    }
}

/// Prints what the reader of the command line has to say: help that was asked for, or what is wrong.
pub(crate) fn answer(said: &clap::Error) -> anyhow::Result<ExitCode> {
    if !said.use_stderr() {
        written(output::is_open().and_then(|()| said.print()).and_then(|()| io::stdout().flush()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let words = said.to_string();
    match plain(&words) {
        // In colours, on a terminal.
        plain if plain == words => drop(said.print()),
        plain => say_as_is(plain.trim_end()),
    }
    Ok(ExitCode::from(WRONG))
}

/// Says what is wrong with the command line.
pub(crate) fn wrong(message: &impl std::fmt::Display) -> ExitCode {
    say!("weir: {message}");
    ExitCode::from(WRONG)
}

/// Says why the command failed.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    say!("weir: {}", story(error));
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

/// What [`stop_flag`] and [`lone_stop_flag`] have handed out.
static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// A flag that the first Ctrl-C, SIGTERM or SIGHUP sets; after it, Ctrl-C or SIGTERM ends the process at once. Another
/// SIGHUP does not: a terminal that is closed sends one itself, and its shell another.
pub(crate) fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = STOP.get_or_init(Arc::default);
    // These come first: a signal's actions run in the order that they were registered in.
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, i32::from(INTERRUPTED), Arc::clone(stop))?;
    }
    lone_stop_flag()
}

/// The same, but no second signal ends the process: for a command that has a terminal to put back.
pub(crate) fn lone_stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = STOP.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Whoever started this, such as nohup(1), may have had hangups ignored.
        if signal != SIGHUP || !is_ignored(SIGHUP) {
            signal_hook::flag::register(signal, Arc::clone(stop))?;
        }
    }
    Ok(Arc::clone(stop))
}

fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: changes nothing, and writes the action that is in force unless it fails.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Whether Ctrl-C was pressed, or another of these signals came.
pub(crate) fn is_stopped(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
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
