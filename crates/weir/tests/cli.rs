//! The command as its users meet it: words, exit codes, files, signals.
//!
//! What needs root prints why it does nothing without it.

#![allow(clippy::disallowed_methods, reason = "the command is timed and killed")]

#[path = "cli/disk.rs"]
mod disk;
#[path = "cli/ends.rs"]
mod ends;
#[path = "cli/errors.rs"]
mod errors;
#[path = "cli/limits.rs"]
mod limits;
#[path = "cli/nowhere.rs"]
mod nowhere;
#[path = "cli/unprivileged.rs"]
mod unprivileged;
#[path = "cli/words.rs"]
mod words;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Cubic for a fraction of a second, and UDP beside it.
const SHORT: &str = r#"
[bottleneck]
rate = "20mbit"
rtt = "5ms"
qdisc = "bfifo limit 1bdp"
[[flow]]
stack = "tcp"
controller = "cubic"
bytes = "500kb"
[[flow]]
stack = "udp"
rate = "2mbit"
"#;

fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

fn output(arguments: &[&str]) -> Output {
    weir().args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Writes a scenario into `folder`.
fn write_scenario(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Done, or done with doubts: on a busy machine packets may leave late, which is for the report to say.
fn assert_ran(output: &Output) {
    let code = output.status.code();
    assert!(code == Some(0) || code == Some(3) && stderr(output).contains("warning"), "{output:?}");
}
