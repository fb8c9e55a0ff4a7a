//! Every stored input through its target, as the fuzzer runs it. What it once found stays found.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use weir_fuzz::TARGETS;

/// Bytes of all stored inputs together, at most.
const MOST_BYTES: u64 = 1 << 20;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

#[test]
fn stored_inputs_break_nothing() {
    for target in TARGETS {
        let mut inputs = files(&root().join("corpus").join(target.name));
        assert!(inputs.len() >= 10, "{}: only {} stored inputs", target.name, inputs.len());
        // The fuzzer begins with these too.
        match target.name {
            "scenario" => inputs.extend(files(&root().join("../examples"))),
            "sweep" => inputs.extend(files(&root().join("../examples/sweeps"))),
            _ => {}
        }
        for path in inputs {
            let input = fs::read(&path).unwrap();
            assert!(catch_unwind(|| (target.run)(&input)).is_ok(), "{}: {}", target.name, path.display());
        }
    }
}

#[test]
fn the_corpus_is_small_and_of_known_targets() {
    let mut bytes = 0;
    for entry in fs::read_dir(root().join("corpus")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap();
        assert!(TARGETS.iter().any(|target| target.name == name), "corpus/{name} is of no target");
        bytes += files(&folder).iter().map(|path| path.metadata().unwrap().len()).sum::<u64>();
    }
    assert!(bytes <= MOST_BYTES, "{bytes} bytes of inputs; keep what others do not cover");
}

#[test]
fn the_script_names_all_targets() {
    let script = fs::read_to_string(root().join("../tools/fuzz.sh")).unwrap();
    let line = script.lines().find(|line| line.contains("|| set --")).unwrap();
    let named: Vec<_> = line.split("set -- ").nth(1).unwrap().split(' ').collect();
    assert_eq!(named, TARGETS.iter().map(|target| target.name).collect::<Vec<_>>());
}
