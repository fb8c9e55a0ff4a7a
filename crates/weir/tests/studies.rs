//! Suites and figures as their users meet them: nothing lost when they are killed, and no more side by side than fits.

#![allow(clippy::disallowed_methods, reason = "the command is killed under way")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn weir(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments);
    command
}

/// The stored results in `out`.
fn cells(out: &Path) -> Vec<PathBuf> {
    let Ok(folders) = fs::read_dir(out.join("cells")) else { return Vec::new() };
    let files = folders.flatten().filter_map(|folder| fs::read_dir(folder.path()).ok()).flatten();
    let files = files.flatten().map(|file| file.path());
    files.filter(|file| file.extension().is_some_and(|kind| kind == "json")).collect()
}

/// Kills a command after two of its runs, and makes it again. Returns what the second says, and the bytes of the runs
/// that it found, with those that a command makes which was never killed.
fn killed(arguments: &[&str], all: usize) -> (Value, usize) {
    let folder = tempfile::tempdir().unwrap();
    let (out, whole) = (folder.path().join("killed"), folder.path().join("whole"));
    let command = |out: &Path| {
        let mut command = weir(arguments);
        command.args(["--json", "--out", out.to_str().unwrap()]);
        command
    };
    let mut running =
        command(&out).args(["--jobs", "1"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while cells(&out).len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(300), "no run ends");
        std::thread::sleep(Duration::from_millis(2));
    }
    // SIGKILL.
    running.kill().unwrap();
    running.wait().unwrap();
    let kept = cells(&out).len();
    assert!((2..all).contains(&kept), "{kept} of {all}");

    let again = command(&out).output().unwrap();
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(said.contains(&format!("{kept} runs were made by an earlier command")), "{said}");
    assert!(!out.join("cells").exists(), "a batch that is complete keeps no list");
    let never = command(&whole).output().unwrap();
    assert_eq!(again.status.code(), never.status.code(), "{said}");
    let runs = |out: &Path| {
        let folders = fs::read_dir(out.join("runs")).unwrap().map(|entry| entry.unwrap().path());
        let mut tables: Vec<_> = folders
            .map(|run| (run.file_name().unwrap().to_owned(), fs::read(run.join("run.json")).unwrap()))
            .collect();
        tables.sort();
        tables
    };
    assert!(runs(&out) == runs(&whole), "a run that was made again differs");
    (serde_json::from_slice(&again.stdout).unwrap(), kept)
}

#[test]
fn a_suite_that_is_killed_goes_on_where_it_was() {
    let (suite, kept) =
        killed(&["suite", "run", "worlds", "--qdisc", "pfifo limit 50p", "--qdisc", "codel"], 10);
    assert_eq!(suite["continued"], kept);
    assert!(suite["rows"].as_array().unwrap().iter().all(|row| row["failed"].is_null()), "{suite}");
}

#[test]
fn a_figure_that_is_killed_goes_on_where_it_was() {
    let (figure, kept) =
        killed(&["figure", "run", "crq/4", "--quick", "--on", "sim", "--only", "drop-tail, 5ms"], 6);
    assert_eq!(figure["continued"], kept);
    let rows = figure["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    assert!(rows.iter().all(|row| row["measured"].is_number()), "{figure}");
    let keys: Vec<&str> = rows[0].as_object().unwrap().keys().map(String::as_str).collect();
    let known = ["row", "column", "rtt", "paper", "paper_says", "measured", "runs", "notes"];
    assert!(keys.len() == known.len() && known.iter().all(|key| keys.contains(key)), "{keys:?}");
}

#[test]
fn no_more_runs_go_on_at_a_time_than_fit_on_the_real_clock() {
    for arguments in [["figure", "run", "crq/4"], ["suite", "run", "worlds"]] {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let ran =
            weir(&arguments).args(["--on", "emu", "--jobs", "10000", "--out"]).arg(&out).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(1), "{said}");
        assert!(said.contains("disturb each other's packets; give at most --jobs "), "{said}");
        assert!(!out.exists());
    }
}
