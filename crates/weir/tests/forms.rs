//! With the lab and without it: what the command offers, and what it answers to the verbs it lacks.

use std::process::{Command, Output};

/// The verbs of the feature `lab`.
const LAB: &[&str] = &["run", "sweep", "suite", "figure", "vm", "bench", "doctor"];
/// What a router needs.
const ROUTER: &[&str] = &["assess", "up", "down", "reload", "show", "top", "completions", "man"];

fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn help_lists_the_verbs_that_are_there() {
    let help = text(&weir(&["--help"]).stdout);
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let listed: Vec<&str> =
        commands.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next()).collect();
    for verb in ROUTER {
        assert!(listed.contains(verb), "{help}");
    }
    for verb in LAB {
        assert_eq!(listed.contains(verb), cfg!(feature = "lab"), "{verb}: {help}");
    }
}

#[cfg(not(feature = "lab"))]
#[test]
fn a_verb_of_the_lab_is_answered_with_what_to_build() {
    for verb in LAB {
        let ended = weir(&[verb, "some.toml"]);
        assert_eq!(ended.status.code(), Some(2), "{verb}");
        let said = text(&ended.stderr);
        assert!(said.contains(verb) && said.contains("cargo build"), "{said}");
    }
    let said = text(&weir(&["rum"]).stderr);
    assert!(!said.contains("cargo build"), "a word that is no verb anywhere: {said}");
}
