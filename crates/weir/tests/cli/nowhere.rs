//! Where nobody can get what was printed: standard output is closed, or the disk behind it is full.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::{stderr, text, weir, write_scenario};

const VIRTUAL: &str = r#"
[bottleneck]
rate = "20mbit"
rtt = "5ms"
qdisc = "codel"
[[flow]]
stack = "tcp"
controller = "cubic"
bytes = "50kb"
"#;

/// Runs the command with its standard output closed.
fn closed(arguments: &[&str]) -> Output {
    let script = ["-c", "exec \"$0\" \"$@\" >&-", env!("CARGO_BIN_EXE_weir")];
    Command::new("sh").args(script).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn onto(file: File, arguments: &[&str]) -> Output {
    weir().args(arguments).stdout(file).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap()
}

#[test]
fn what_cannot_be_printed_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_scenario(folder.path(), "virtual.toml", VIRTUAL);
    let out = folder.path().join("out");
    // A capture of no packets: the section header of pcapng alone.
    let section = [0x0a0d_0d0au32, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28];
    let capture: PathBuf = folder.path().join("empty.pcapng");
    std::fs::write(&capture, section.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>()).unwrap();
    for arguments in [
        ["figure", "list"].as_slice(),
        &["--help"],
        &["run", "--help"],
        &["help", "run"],
        &["--version"],
        &["completions", "bash"],
        &["show", "--json"],
        &["doctor"],
        &["assess", text(&capture), "--json"],
        &["run", text(&path), "--on", "sim", "--out", text(&out)],
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        for (ended, says) in [(closed(arguments), "is closed"), (onto(full, arguments), "No space left")] {
            let said = stderr(&ended);
            assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {said}");
            assert!(said.contains("weir: cannot write to standard output: "), "{arguments:?}: {said}");
            assert!(said.contains(says), "{arguments:?}: {said}");
        }
    }
    assert!(out.join("run.json").exists(), "what a run has measured is on the disk");
    // Thrown away is not lost, whichever way it was opened.
    for read in [false, true] {
        let null = File::options().read(read).write(true).open("/dev/null").unwrap();
        let ended = onto(null, &["figure", "list"]);
        assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
    }
    // Nothing to print, nothing lost.
    let ended = closed(&["vm", "remove", "9.9", "--cache", text(&out)]);
    assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
}

/// Talk that nobody hears is no failure.
#[test]
fn a_closed_standard_error_changes_nothing() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let ended = weir().args(["show", "--json", "dev", "lo"]).stderr(full).output().unwrap();
    assert_eq!((ended.status.code(), ended.stdout.as_slice()), (Some(0), b"[]\n".as_slice()), "{ended:?}");
}
