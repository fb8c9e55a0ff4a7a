//! The command for a user who is not root: runs say what is missing, the rest works.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::{SHORT, stderr, stdout, text, write_scenario};

/// The user and group `nobody` of Debian and most others; any that is not root will do.
const NOBODY: u32 = 65_534;

/// A folder that anybody can read, with a copy of the command: where it was built others may not look.
struct Place {
    folder: TempDir,
    weir: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let weir = folder.path().join("weir");
        // By a process of its own: a file open for writing here would be so in children that other tests start
        // meanwhile, and could not be executed.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_weir")).arg(&weir).status().unwrap();
        assert!(copied.success());
        fs::set_permissions(&weir, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder, weir }
    }

    fn output(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.weir);
        if is_root() {
            // The standard library drops root's supplementary groups with the user.
            command.uid(NOBODY).gid(NOBODY);
        }
        // Kernels that somebody has fetched would let the world vm run without rights.
        command.env("WEIR_VM_CACHE", self.folder.path().join("kernels"));
        command.args(arguments).current_dir("/").output().unwrap()
    }
}

#[test]
fn a_user_without_rights_is_told_what_to_do_and_can_assess() {
    let place = Place::new();
    let scenario = write_scenario(place.folder.path(), "short.toml", SHORT);

    // Results could go there, so that what is missing is the right to make networks.
    let writable = place.folder.path().join("writable");
    fs::create_dir(&writable).unwrap();
    fs::set_permissions(&writable, fs::Permissions::from_mode(0o777)).unwrap();
    let out = writable.join("out");
    let ran = place.output(&["run", text(&scenario), "--out", text(&out)]);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    assert!(stderr(&ran).contains("root"), "{}", stderr(&ran));
    assert_eq!(stderr(&ran).matches("not permitted").count(), 1, "{}", stderr(&ran));
    assert!(!out.exists(), "a run that never began has made {}", out.display());

    if is_root() {
        let closed = place.folder.path().join("closed/out");
        let ran = place.output(&["run", text(&scenario), "--out", text(&closed)]);
        assert_eq!(ran.status.code(), Some(1), "{ran:?}");
        assert!(
            stderr(&ran).contains(text(&closed)) && stderr(&ran).contains("Permission denied"),
            "{}",
            stderr(&ran)
        );
    }

    let ran = place.output(&["doctor"]);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let said = stdout(&ran);
    assert!(said.contains("MISSING") && said.contains("fix: ") && said.contains("weir assess can"), "{said}");
    let ran = place.output(&["doctor", "--json"]);
    let checks: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let missing: Vec<_> =
        checks.as_array().unwrap().iter().filter(|check| check["status"] == "missing").collect();
    assert!(!missing.is_empty());
    assert!(
        missing.iter().all(|check| check["fix"].as_str().is_some_and(|fix| !fix.is_empty())),
        "{missing:?}"
    );

    for arguments in [["figure", "list"], ["completions", "fish"]] {
        assert_eq!(place.output(&arguments).status.code(), Some(0), "{arguments:?}");
    }

    // A capture of no packets: the section header of pcapng alone.
    let section: Vec<u8> = [0x0a0d_0d0au32, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    let capture = place.folder.path().join("empty.pcapng");
    fs::write(&capture, section).unwrap();
    let ran = place.output(&["assess", text(&capture), "--json"]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((&report["counters"]["packets"], &report["error"]), (&0.into(), &Value::Null));
}

/// Without rights every run on real packets fails: cells that fail are recorded, reported, and run again only when
/// asked for.
#[test]
fn a_sweep_records_the_cells_that_fail() {
    let place = Place::new();
    let sweep =
        "scenario = \"short.toml\"\nworld = \"emu\"\n[sweep]\n\"bottleneck.rtt\" = [\"5ms\", \"10ms\"]\n";
    write_scenario(place.folder.path(), "short.toml", SHORT);
    let path = write_scenario(place.folder.path(), "sweep.toml", sweep);
    let writable = place.folder.path().join("writable");
    fs::create_dir(&writable).unwrap();
    fs::set_permissions(&writable, fs::Permissions::from_mode(0o777)).unwrap();
    let out = writable.join("out");
    let arguments = ["sweep", text(&path), "--out", text(&out)];
    for (more, reused) in [(None, false), (None, true), (Some("--retry-failed"), false)] {
        let ran = place.output(&arguments.into_iter().chain(more).collect::<Vec<_>>());
        assert_eq!(ran.status.code(), Some(1), "{ran:?}");
        let said = stderr(&ran);
        assert!(
            said.contains("2 of 2 cells failed") && said.contains("bottleneck.rtt = 10ms, run 0"),
            "{said}"
        );
        assert_eq!(said.contains("2 of 2 cells had their result"), reused, "{said}");
        let table = fs::read_to_string(out.join("sweep.csv")).unwrap();
        assert_eq!(table.lines().count(), 3, "{table}");
        assert!(table.lines().skip(1).all(|row| row.contains("root")), "{table}");
        let meta: Value = serde_json::from_slice(&fs::read(out.join("sweep.json")).unwrap()).unwrap();
        assert_eq!(meta["failed_cells"].as_array().unwrap().len(), 2);
    }
}

/// Whether this process is root; either way the test runs.
fn is_root() -> bool {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
