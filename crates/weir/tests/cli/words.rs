//! What the command prints: help, lists, JSON, completions, man pages; and a reader who leaves.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::{SHORT, assert_ran, output, stderr, stdout, text, weir, write_scenario};
use weir_testkit::skip::root_and_turn;

const COMMANDS: &[&str] = &[
    "run",
    "assess",
    "up",
    "down",
    "reload",
    "sweep",
    "hunt",
    "suite",
    "suite list",
    "suite run",
    "figure",
    "figure list",
    "figure run",
    "doctor",
    "show",
    "top",
    "send",
    "recv",
    "probe",
    "serve-probe",
    "bench",
    "bench link",
    "bench law",
    "bench sim",
    "completions",
    "man",
    "vm",
    "vm fetch",
    "vm list",
    "vm run",
    "vm remove",
];

fn json(output: &std::process::Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stdout(output)))
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in COMMANDS {
        let mut arguments: Vec<&str> = command.split(' ').collect();
        arguments.push("--help");
        let shown = output(&arguments);
        assert_eq!(shown.status.code(), Some(0), "{command}");
        let help = stdout(&shown);
        let example = help.split_once("Example").map(|(_, rest)| rest).unwrap_or_default();
        assert!(
            example.contains(&format!("weir {}", command.split(' ').next().unwrap())),
            "{command}: {help}"
        );
    }
    // No command is missing in the list above.
    let help = stdout(&output(&["--help"]));
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let listed: Vec<_> =
        listed.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next()).collect();
    for command in listed.iter().filter(|command| **command != "help") {
        assert!(COMMANDS.contains(command), "{command}");
    }
    for line in ["  0  done", "  1  it failed", "  2  the command line", "  3  it ran", "  130  interrupted"]
    {
        assert!(help.contains(line), "{help}");
    }
}

#[test]
fn figures_are_listed_for_eyes_and_as_json() {
    let list = json(&output(&["figure", "list", "--json"]));
    let figures = list.as_array().unwrap();
    assert!(figures.len() >= 2);
    let plain = stdout(&output(&["figure", "list"]));
    for figure in figures {
        for field in ["id", "paper", "state", "title"] {
            assert!(figure[field].as_str().is_some_and(|value| !value.is_empty()), "{field} of {figure}");
        }
        // What takes minutes in virtual time may be made there alone.
        assert!(figure["worlds"].as_array().is_some_and(|worlds| worlds.contains(&"sim".into())), "{figure}");
        assert!(plain.contains(figure["id"].as_str().unwrap()), "{plain}");
    }
    let ids: Vec<_> = figures.iter().map(|figure| figure["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&"crq/4") && ids.contains(&"crq/5"), "{ids:?}");
}

#[test]
fn doctor_says_the_same_in_words_and_json() {
    let shown = output(&["doctor", "--json"]);
    let checks = json(&shown);
    let checks = checks.as_array().unwrap();
    let words = stdout(&output(&["doctor"]));
    let worlds = ["emu", "kernel", "vm"];
    let mut able = worlds.to_vec();
    for check in checks {
        let status = check["status"].as_str().unwrap();
        assert!(["ok", "limited", "missing"].contains(&status), "{check}");
        let world = check["world"].as_str().unwrap();
        assert!(worlds.contains(&world), "{check}");
        if status == "missing" {
            able.retain(|able| *able != world);
        }
        assert!(words.contains(check["name"].as_str().unwrap()), "{words}");
    }
    assert_eq!(shown.status.code(), Some(i32::from(able.is_empty())));
    assert_eq!(words.contains("weir run works here"), able.contains(&"emu"), "{words}");
}

#[test]
fn completions_and_man_pages_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let shown = output(&["completions", shell]);
        assert_eq!(shown.status.code(), Some(0));
        let script = stdout(&shown);
        for word in ["assess", "figure", "doctor", "--seed"] {
            let in_shell = if shell == "fish" { word.trim_start_matches("--") } else { word };
            assert!(script.contains(in_shell), "{shell} lacks {word}");
        }
    }
    assert_eq!(output(&["completions", "csh"]).status.code(), Some(2));
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("new/man1");
    assert_eq!(output(&["man", text(&dir)]).status.code(), Some(0));
    let mut expected: Vec<String> =
        COMMANDS.iter().map(|command| format!("weir-{}.1", command.replace(' ', "-"))).collect();
    expected.push("weir.1".to_owned());
    for page in expected {
        let page = std::fs::read_to_string(dir.join(&page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{page}");
    }
}

#[test]
fn a_reader_who_has_gone_is_no_failure() {
    for arguments in
        [["figure", "list", "--json"].as_slice(), &["completions", "bash"], &["doctor"], &["run", "--help"]]
    {
        let mut child = weir().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Closes the only reading end before anything can have been written, or in the middle.
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let healthy =
            ended.status.code() == Some(0) || (arguments == ["doctor"] && ended.status.code() == Some(1));
        assert!(healthy && ended.stderr.is_empty(), "{arguments:?}: {ended:?}");
    }
    // As in `| head -1`: the first line arrives, the rest finds nobody.
    let mut child = weir().args(["completions", "zsh"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("#compdef weir"), "{first}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_run_prints_one_json_object_and_writes_its_files() {
    let Some(_turn) = root_and_turn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = write_scenario(folder.path(), "short one.toml", SHORT);
    let out = folder.path().join("out");
    let ran =
        output(&["run", text(&path), "--out", text(&out), "--json", "--seed", "9", "--run", "4", "--pcap"]);
    assert_ran(&ran);
    let result = json(&ran);
    for field in ["meta", "flows", "queues", "health", "law_counters"] {
        assert!(!result[field].is_null(), "{field}");
    }
    assert_eq!(result["meta"]["world"], "emu");
    assert_eq!(
        result["meta"]["scenario"]["name"], "short one",
        "the file's name stands in for a missing one"
    );
    assert_eq!((&result["meta"]["seed"]["seed"], &result["meta"]["seed"]["run"]), (&9.into(), &4.into()));
    assert_eq!(result["flows"][0]["received_bytes"], 500 * 1024);
    assert_eq!(result["health"]["unaccounted"], 0);
    let files: Value = serde_json::from_slice(&std::fs::read(out.join("run.json")).unwrap()).unwrap();
    assert_eq!(files, result, "printed and written are the same");
    for (table, column, rows) in [
        ("flows.csv", "flow,stack,controller", 2),
        ("queues.csv", "queue,departed_packets", 1),
        ("queue_series.csv", "time_s,queue", 2),
        ("flow_series.csv", "time_s,flow,throughput_bps", 4),
        ("sojourn.csv", "queue,upper_ns,count", 2),
        ("rtt.csv", "time_s,flow,rtt_ms", 2),
        ("assessments.csv", "time_s,flow,signal", 0),
        ("choices.csv", "time_s,flow,queue", 0),
    ] {
        let table_text = std::fs::read_to_string(out.join(table)).unwrap();
        assert!(table_text.starts_with(column), "{table}: {table_text}");
        assert!(table_text.lines().count() > rows, "{table}");
    }
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.starts_with("<!") && page.contains("short one"));
    // The scenario that is stored runs again.
    let stored = toml::to_string(&result["meta"]["scenario"]).unwrap();
    weir_scenario::Scenario::parse(&stored, "stored").unwrap();
    // And the capture is one that `weir assess` takes.
    let assessed = output(&["assess", text(&out.join("packets.pcapng")), "--json"]);
    assert_eq!(assessed.status.code(), Some(0), "{}", stderr(&assessed));
    let flows = &json(&assessed)["flows"];
    assert_eq!(flows.as_array().map(Vec::len), Some(2), "{flows}");
}

#[test]
fn several_scenarios_are_compared() {
    let Some(_turn) = root_and_turn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let one = write_scenario(folder.path(), "one.toml", SHORT);
    let two =
        write_scenario(folder.path(), "two.toml", &SHORT.replace("bfifo limit 1bdp", "codel limit 1bdp"));
    let out = folder.path().join("out");
    let ran = output(&["run", text(&one), text(&two), "--out", text(&out)]);
    assert_ran(&ran);
    let said = stdout(&ran);
    assert!(said.contains("FCT one") && said.contains("FCT two") && said.contains("FCT score"), "{said}");
    for file in ["report.html", "one/run.json", "one/report.html", "two/run.json", "two/flows.csv"] {
        assert!(out.join(file).exists(), "{file}");
    }
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("one") && page.contains("two"));
    // Two of one name would overwrite each other.
    let clash = output(&["run", text(&one), text(&one), "--out", text(&out)]);
    assert_eq!(clash.status.code(), Some(1));
    assert!(stderr(&clash).contains("another name"), "{}", stderr(&clash));
}
