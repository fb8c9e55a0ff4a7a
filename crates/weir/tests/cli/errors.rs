//! What is wrong is found before anything runs, named with its place, and leaves no file.

use std::process::Output;

use crate::{SHORT, output, stderr, text, write_scenario};
use weir_testkit::skip::root_and_turn;

/// Runs a scenario that cannot run: exit code 1, nothing on standard output, nothing on disk.
fn refused(scenario: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = write_scenario(folder.path(), "bad.toml", scenario);
    let out = folder.path().join("out");
    let ran = output(&["run", text(&path), "--out", text(&out)]);
    assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(1), b"".as_slice()), "{ran:?}");
    assert!(!out.exists(), "a run that never began has made {}", out.display());
    let said = stderr(&ran);
    assert!(said.starts_with("weir: ") && said.contains("bad.toml"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

#[test]
fn a_bad_scenario_names_the_place_and_the_remedy() {
    for (from, to, says) in [
        ("stack = \"udp\"", "stak = \"udp\"", ["line 11", "did you mean `stack`?"]),
        ("stack = \"udp\"", "stack = \"sctp\"", ["line 11", "`quic`"]),
        ("cubic", "cubik", ["flow 1 ('TCP cubik'): controller", "did you mean 'cubic'"]),
        ("cubic", "cubik", ["bad.toml: line 8: ", "known are"]),
        ("rate = \"20mbit\"", "rate = \"0mbit\"", ["bad.toml: line 3: bottleneck.rate: ", "such as 10mbit"]),
        ("limit 1bdp", "limit 1000b", ["bad.toml: line 5: bottleneck.qdisc: ", "1514"]),
        ("rate = \"20mbit\"", "rate = \"20mbits\"", ["line 3", "10mbit"]),
        ("rate = \"20mbit\"", "", ["bottleneck.rate: is missing or 0", "line 2"]),
        ("\"5ms\"", "5", ["line 4", "ms"]),
        ("bfifo limit 1bdp", "bfifo limit 1bpd", ["line 5", "1bpd"]),
        ("bfifo", "netem", ["line 5", "codel"]),
        ("bytes = \"500kb\"", "bytes = 0", ["flow 1 ('TCP cubic'): bytes", "at least 1 byte"]),
        ("bytes = \"500kb\"", "", ["'bytes' or 'duration'", "flow"]),
        ("rate = \"2mbit\"", "", ["flow 2 ('UDP'): rate", "50mbit"]),
        ("rate = \"2mbit\"", "rate = \"2mbit\"\ncount = 3000", ["flow.count", "at most 2000"]),
        ("[bottleneck]", "[measure]\ninterval = \"1us\"\n[bottleneck]", ["measure.interval", "at least 1ms"]),
        ("[bottleneck]", "[[bottleneck]", ["line 2", "TOML"]),
    ] {
        let bad = SHORT.replacen(from, to, 1);
        assert_ne!(bad, SHORT);
        let said = refused(&bad);
        for words in says {
            assert!(said.contains(words), "{from} -> {to}: no {words:?} in {said}");
        }
    }
    refused("");
    refused("\0\u{feff}[[");
}

#[test]
fn a_controller_that_only_the_simulator_has_is_refused_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_scenario(folder.path(), "copa.toml", &SHORT.replacen("cubic", "copa", 1));
    let out = folder.path().join("out");
    let ran = output(&["run", text(&path), "--out", text(&out)]);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    assert!(stderr(&ran).contains("controller") && stderr(&ran).contains("--on sim"), "{ran:?}");
    let ran = output(&["run", text(&path), "--on", "sim", "--out", text(&out)]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
}

#[test]
fn a_cause_is_told_once() {
    let said = stderr(&output(&["run", "/no/such.toml"]));
    assert!(said.contains("/no/such.toml"), "{said}");
    assert_eq!(said.matches("No such file").count(), 1, "{said}");
    let said = stderr(&output(&["assess", "/no/such.pcapng"]));
    assert_eq!(said.matches("No such file").count(), 1, "{said}");
}

#[test]
fn all_scenarios_are_checked_before_the_first_runs() {
    let folder = tempfile::tempdir().unwrap();
    let good = write_scenario(folder.path(), "good.toml", SHORT);
    let bad = write_scenario(folder.path(), "bad.toml", &SHORT.replace("cubic", "cubik"));
    let out = folder.path().join("out");
    let ran = output(&["run", text(&good), text(&bad), "--out", text(&out)]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(!out.exists() && stderr(&ran).contains("bad.toml"), "{}", stderr(&ran));
}

#[test]
fn a_place_that_cannot_be_written_is_told_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_scenario(folder.path(), "long.toml", &SHORT.replace("500kb", "500mb"));
    let blocked = folder.path().join("long.toml/out");
    for arguments in [
        ["run", text(&path), "--out", text(&blocked)].as_slice(),
        &["figure", "run", "crq/4", "--quick", "--out", text(&blocked)],
    ] {
        let begun = std::time::Instant::now();
        let ran = output(arguments);
        assert_eq!(ran.status.code(), Some(1), "{ran:?}");
        let said = stderr(&ran);
        assert!(said.contains(text(&blocked)) && said.contains("directory"), "{said}");
        // The scenario takes more than three minutes.
        assert!(begun.elapsed().as_secs() < 10);
    }
}

fn code(ran: &Output) -> Option<i32> {
    ran.status.code()
}

#[test]
fn misspelt_figures_cells_and_variants_get_the_right_ones() {
    let ran = output(&["figure", "run", "crq-5"]);
    assert_eq!(code(&ran), Some(1));
    assert!(stderr(&ran).contains("did you mean 'crq/5'?"), "{}", stderr(&ran));
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let ran = output(&["figure", "run", "crq/4", "--quick", "--only", "no such cell", "--out", text(&out)]);
    assert_eq!(code(&ran), Some(1));
    assert!(stderr(&ran).contains("no such cell") && stderr(&ran).contains("--only"), "{}", stderr(&ran));
    let ran = output(&["figure", "run", "crq/4", "--variant", "papre", "--out", text(&out)]);
    assert_eq!(code(&ran), Some(1));
    assert!(stderr(&ran).contains("'papre'; it has paper"), "{}", stderr(&ran));
    assert!(!out.exists());
}

#[test]
fn a_wrong_command_line_is_exit_code_2() {
    for arguments in [
        ["nosuch"].as_slice(),
        &[],
        &["run"],
        &["run", "x.toml", "--io", "fast"],
        &["run", "x.toml", "--on", "moon"],
        &["run", "x.toml", "--seed", "many"],
        &["assess", "x.pcap", "--preset", "papers"],
        &["assess", "x.pcap", "--set", "no_such=1"],
        &["figure", "run"],
        &["completions"],
    ] {
        let ran = output(arguments);
        assert_eq!(code(&ran), Some(2), "{arguments:?}: {ran:?}");
        assert!(!ran.stderr.is_empty() && ran.stdout.is_empty(), "{arguments:?}: {ran:?}");
    }
    for (arguments, wants) in [
        (["run", "x.toml", "--on", "sim", "--kernel", "6.1"].as_slice(), "--kernel"),
        (&["run", "x.toml", "--kernel", "6.1"], "--on vm"),
        (&["suite", "run", "rfc7928", "--kernel", "6.1"], "--on vm"),
        (&["figure", "run", "crq/4", "--on", "sim", "--kernel", "6.1"], "--on vm"),
        (&["run", "x.toml", "--on", "sim", "--io", "xdp"], "--io"),
        (&["run", "x.toml", "--on", "vm", "--io", "packet-socket"], "--on emu or --on kernel"),
    ] {
        let ran = output(arguments);
        assert!(code(&ran) == Some(2) && stderr(&ran).contains(wants), "{arguments:?}: {ran:?}");
    }
    assert!(stderr(&output(&["figur"])).contains("'figure'"), "a slip of the pen gets the nearest command");
}

#[test]
fn what_is_no_capture_is_said_to_be_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_scenario(folder.path(), "text.pcap", "this is no capture at all");
    let ran = output(&["assess", text(&path)]);
    assert_eq!((code(&ran), ran.stdout.as_slice()), (Some(1), b"".as_slice()), "{ran:?}");
    assert!(stderr(&ran).contains("text.pcap"), "{}", stderr(&ran));
}

/// Names come from files of others: they must not lead out of the folder of results.
#[test]
fn a_scenario_name_is_no_way_out_of_the_results() {
    let Some(_turn) = root_and_turn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let path = write_scenario(&inside, "odd.toml", &format!("name = \"..\"\n{SHORT}"));
    let ran = crate::weir().args(["run", text(&path)]).current_dir(&inside).output().unwrap();
    crate::assert_ran(&ran);
    let made: Vec<_> =
        std::fs::read_dir(inside.join("results")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(made.len(), 1, "one folder below results: {made:?}");
    assert!(!inside.join("run.json").exists());
    assert!(!inside.join("results/run.json").exists());
}
