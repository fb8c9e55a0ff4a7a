//! Where files are written: never through a link into another's file, and on a full disk all or none.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use crate::{SHORT, output, stderr, text, write_scenario};

/// All files of a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries
        .map(|path| (text(&path).rsplit('/').next().unwrap().to_owned(), fs::read(&path).unwrap()))
        .collect()
}

#[test]
fn no_file_of_a_run_is_written_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_scenario(folder.path(), "short.toml", SHORT);
    let out = folder.path().join("out");
    let run = ["run", text(&path), "--on", "sim", "--pcap", "--trace", "--out", text(&out)];
    assert_eq!(output(&run).status.code(), Some(0));
    let before = files(&out);
    let foreign = folder.path().join("foreign");
    fs::write(&foreign, "foreign").unwrap();
    for name in before.keys() {
        fs::remove_file(out.join(name)).unwrap();
        symlink(&foreign, out.join(name)).unwrap();
    }
    let ran = output(&run);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert_eq!(fs::read_to_string(&foreign).unwrap(), "foreign");
    assert!(files(&out) == before, "the files differ from those of the first run");
    for name in before.keys() {
        assert!(out.join(name).symlink_metadata().unwrap().is_file(), "{name}");
    }
}

/// Runs `script` with a file system of its own of 400 kB at `$1`, which nobody else sees. `$2` is the command, `$3` a
/// scenario, `$4` another; what is at `$1` in the end is copied to `$5`.
fn on_a_small_disk(folder: &Path, script: &str, scenarios: [&Path; 2]) -> Output {
    let (disk, copy) = (folder.join("disk"), folder.join("copy"));
    fs::create_dir(&disk).unwrap();
    let whole = format!(
        "mount --make-rprivate / && mount -t tmpfs -o size=400k tmpfs \"$1\" || exit 99\n\
         {script}\nend=$?\ncp -a \"$1\" \"$5\"\nexit $end"
    );
    Command::new("unshare")
        .args(["-m", "sh", "-c", &whole, "sh", text(&disk), env!("CARGO_BIN_EXE_weir")])
        .args(scenarios)
        .arg(&copy)
        .output()
        .unwrap()
}

#[test]
fn a_full_disk_leaves_the_files_of_the_run_before() {
    if !weir_testkit::skip::is_root() {
        return;
    }
    // What does not fit is the first time a table, the second time the trace.
    for (name, life, flag) in
        [("tables", "duration = \"500s\"", ""), ("trace", "duration = \"20s\"", "--trace")]
    {
        let folder = tempfile::tempdir().unwrap();
        let small = write_scenario(folder.path(), "small.toml", SHORT);
        let large = SHORT.replacen("bytes = \"500kb\"", life, 1).replacen("20mbit", "1mbit", 1);
        let large = large.replacen("1bdp", "20kb", 1);
        let large = large.replacen("[bottleneck]", "[measure]\ntimeout = \"1000s\"\n[bottleneck]", 1);
        let large = write_scenario(folder.path(), "large.toml", &large);
        let script = format!(
            "\"$2\" run \"$3\" --on sim --out \"$1/out\" >/dev/null || exit 98\n\
             \"$2\" run \"$4\" --on sim --out \"$1/out\" {flag}\nend=$?\n\
             \"$2\" run \"$4\" --on sim --out \"$1/deep/new\" {flag} 2>/dev/null && exit 97\n(exit $end)"
        );
        let ran = on_a_small_disk(folder.path(), &script, [&small, &large]);
        assert_eq!(ran.status.code(), Some(1), "{name}: {ran:?}");
        let said = stderr(&ran);
        assert!(said.contains("No space left on device") && said.contains("/out/"), "{name}: {said}");
        assert!(!said.contains(".part"), "{name}: {said}");

        let alone = folder.path().join("alone");
        let again = output(&["run", text(&small), "--on", "sim", "--out", text(&alone)]);
        assert_eq!(again.status.code(), Some(0));
        let (kept, whole) = (files(&folder.path().join("copy/out")), files(&alone));
        let differ: Vec<_> = whole.iter().filter(|(name, text)| kept.get(*name) != Some(text)).collect();
        let differ: Vec<_> = differ.iter().map(|(name, _)| name).collect();
        assert!(differ.is_empty() && kept.len() == whole.len(), "{name}: {differ:?} of {:?}", kept.keys());
        assert!(!folder.path().join("copy/deep").exists(), "{name}: a folder without a result is left");
    }
}
