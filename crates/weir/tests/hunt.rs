//! `weir hunt` as its users meet it: it says what would run, goes on where it was interrupted, and names what is wrong.

#![allow(clippy::disallowed_methods, reason = "the command is interrupted under way")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Ten times more than is worth waiting for.
const HUNT: &str = r#"
evaluations = EVALUATIONS
confirm = 2
[objective]
measure = "utilisation"
[genes]
"bottleneck.qdisc.limit" = { from = "2p", to = "100p", log = true }
[scenario.bottleneck]
rate = "5mbit"
rtt = "100ms"
qdisc = "pfifo limit 100p"
[[scenario.flow]]
name = "bulk"
stack = "tcp"
controller = "reno"
start_spread = "100ms"
duration = "3s"
"#;

fn weir(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments);
    command
}

fn write(folder: &Path, evaluations: u32) -> PathBuf {
    let path = folder.join("h.toml");
    fs::write(&path, HUNT.replace("EVALUATIONS", &evaluations.to_string())).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn cells(out: &Path) -> usize {
    let folders = fs::read_dir(out.join("cells")).into_iter().flatten().flatten();
    folders.filter_map(|folder| fs::read_dir(folder.path()).ok()).map(Iterator::count).sum()
}

#[test]
fn an_interrupted_hunt_says_how_to_go_on_and_does() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (write(folder.path(), 100_000), folder.path().join("out"));
    let arguments = ["hunt", text(&path), "--out", text(&out), "--jobs", "2"];
    let running = weir(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while cells(&out) < 20 {
        assert!(begun.elapsed() < Duration::from_secs(300), "no run ends");
        std::thread::sleep(Duration::from_millis(5));
    }
    // SAFETY: sends a signal to a process that this test has started.
    assert_eq!(unsafe { libc::kill(i32::try_from(running.id()).unwrap(), libc::SIGINT) }, 0);
    let ended = running.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", said(&ended));
    assert!(said(&ended).contains("the same command goes on from here"), "{}", said(&ended));

    write(folder.path(), 30);
    let again = weir(&arguments).arg("--json").output().unwrap();
    assert_eq!(again.status.code(), Some(0), "{}", said(&again));
    assert!(said(&again).contains("had their result from an earlier command"), "{}", said(&again));
    let result: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((result["evaluations"].as_u64(), result["interrupted"].as_bool()), (Some(30), Some(false)));
    assert!(result["commands"].to_string().contains("--on vm"), "{}", result["commands"]);
    let minimal =
        weir(&["run", text(&out.join("minimal.toml")), "--on", "sim", "--out", text(&out.join("run"))]);
    let minimal = { minimal }.output().unwrap();
    assert_eq!(minimal.status.code(), Some(0), "{}", said(&minimal));
}

#[test]
fn a_dry_run_says_what_would_be_tried_and_an_error_what_to_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), 40);
    let dry = weir(&["hunt", text(&path), "--dry-run", "--seed", "7"]).output().unwrap();
    let words = String::from_utf8(dry.stdout).unwrap();
    assert!(words.contains("40 candidates x 1 runs by cma-es search, seed 7"), "{words}");
    let wrong = fs::read_to_string(&path).unwrap().replace("to = \"100p\"", "to = \"1p\"");
    fs::write(&path, wrong).unwrap();
    let output = weir(&["hunt", text(&path)]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("h.toml: line 7") && said(&output).contains("`to` above `from`"),
        "{}",
        said(&output)
    );
}
