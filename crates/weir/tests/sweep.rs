//! `weir sweep` as its users meet it: the same bytes however it ran, nothing lost when it is killed or interrupted, and
//! nothing begun that cannot be finished.

#![allow(clippy::disallowed_methods, reason = "the command is killed under way")]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Sixteen cells of two flows; a random discipline, so that the seed shows.
const SWEEP: &str = r#"
name = "a test"
repeat = 2

[sweep]
"bottleneck.rtt" = { from = "10ms", to = "20ms", factor = 2 }
"bottleneck.qdisc" = ["pie ecn", "dualpi2"]

[[zip]]
"flow.0.controller" = ["reno", "dctcp"]
"flow.0.ecn" = [false, true]

[scenario.bottleneck]
rate = "20mbit"
rtt = "5ms"
qdisc = "pie"

[[scenario.flow]]
stack = "tcp"
controller = "reno"
duration = "DURATION"

[[scenario.flow]]
name = "beside"
stack = "tcp"
controller = "cubic"
duration = "DURATION"
"#;

const CELLS: usize = 16;

fn weir(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments);
    command
}

fn write(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("s.toml");
    fs::write(&path, text).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The results of whole cells in `out`.
fn cells(out: &Path) -> Vec<PathBuf> {
    let Ok(folders) = fs::read_dir(out.join("cells")) else { return Vec::new() };
    let files = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
    let files = files.map(|file| file.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|kind| kind == "json")).collect()
}

#[test]
fn one_job_and_two_write_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &SWEEP.replace("DURATION", "500ms"));
    let mut made = Vec::new();
    for jobs in ["1", "2"] {
        let out = folder.path().join(jobs);
        let ran = weir(&["sweep", text(&path), "--out", text(&out), "--jobs", jobs]).output().unwrap();
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
        let file = |name: &str| fs::read(out.join(name)).unwrap();
        let mut meta: serde_json::Value = serde_json::from_slice(&file("sweep.json")).unwrap();
        assert_eq!(meta["cells"], CELLS);
        assert!(meta["command"].as_str().unwrap().contains("--jobs"), "{meta}");
        meta["command"] = serde_json::Value::Null;
        made.push((file("sweep.csv"), file("sweep.parquet"), file("sweep.html"), meta));
        let said = String::from_utf8(ran.stdout).unwrap().replace(&format!("{}/", out.display()), "");
        assert!(said.contains("goodput beside") && said.contains("\u{b1}"), "{said}");
    }
    assert!(made[0] == made[1], "one job and two differ");
    let table = String::from_utf8(made[0].0.clone()).unwrap();
    let columns = table.lines().next().unwrap();
    assert!(
        columns.starts_with(
            "cell,bottleneck.rtt_ms,bottleneck.qdisc,flow.0.controller,flow.0.ecn,run,flow_index,flow,"
        ),
        "{columns}"
    );
    assert_eq!(table.lines().count(), 1 + 2 * CELLS);
    let meta = &made[0].3;
    assert_eq!(meta["columns"].as_array().unwrap().len(), columns.split(',').count());
    assert_eq!(&made[0].1[..4], b"PAR1");
}

#[test]
fn a_sweep_that_is_killed_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &SWEEP.replace("DURATION", "30s"));
    let (out, whole) = (folder.path().join("killed"), folder.path().join("whole"));
    let mut running = weir(&["sweep", text(&path), "--out", text(&out), "--jobs", "2"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while cells(&out).len() < 3 {
        assert!(begun.elapsed() < Duration::from_secs(120), "no cell ends");
        std::thread::sleep(Duration::from_millis(2));
    }
    // SIGKILL.
    running.kill().unwrap();
    running.wait().unwrap();
    let kept = cells(&out);
    assert!((3..CELLS).contains(&kept.len()), "{} cells of {CELLS}", kept.len());
    assert!(!out.join("sweep.csv").exists());
    let written = |file: &PathBuf| fs::metadata(file).unwrap().modified().unwrap();
    let times: Vec<_> = kept.iter().map(written).collect();

    let again = weir(&["sweep", text(&path), "--out", text(&out)]).output().unwrap();
    assert_eq!(again.status.code(), Some(0), "{again:?}");
    let says = format!("{} of {CELLS} cells had their result from an earlier command", kept.len());
    assert!(stderr(&again).contains(&says), "{says}: {}", stderr(&again));
    assert_eq!(cells(&out).len(), CELLS);
    assert_eq!(kept.iter().map(written).collect::<Vec<_>>(), times, "a cell ran twice");

    let ran = weir(&["sweep", text(&path), "--out", text(&whole)]).output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    for name in ["sweep.csv", "sweep.parquet"] {
        assert!(fs::read(out.join(name)).unwrap() == fs::read(whole.join(name)).unwrap(), "{name} differs");
    }
}

#[test]
fn a_cell_that_was_changed_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &SWEEP.replace("DURATION", "500ms"));
    let out = folder.path().join("out");
    let sweep = || weir(&["sweep", text(&path), "--out", text(&out)]).output().unwrap();
    let table = || fs::read_to_string(out.join("sweep.csv")).unwrap();
    assert_eq!(sweep().status.code(), Some(0));
    let before = table();
    // One cell says something else, and one is another's.
    let mut all = cells(&out);
    all.sort();
    let cell = fs::read_to_string(&all[0]).unwrap();
    let (begin, rest) = cell.split_once("\"received_bytes\":").unwrap();
    fs::write(&all[0], format!("{begin}\"received_bytes\":9{rest}")).unwrap();
    fs::copy(&all[2], &all[1]).unwrap();
    let again = sweep();
    assert_eq!(again.status.code(), Some(0), "{again:?}");
    assert!(table() == before, "a changed cell is in the table");
    let said = stderr(&again);
    assert!(said.contains("2 of 16 cells had a stored result that is not as it was written"), "{said}");
    assert!(said.contains("14 of 16 cells had their result"), "{said}");
    let last = sweep();
    assert!(stderr(&last).contains("16 of 16 cells had their result"), "{last:?}");
}

#[test]
fn a_link_with_a_trace_follows_it_in_a_sweep_too() {
    let folder = tempfile::tempdir().unwrap();
    // 1.2 Mbit/s; the rate is only what the queue computes with.
    let slow: String = (1..100).map(|line| format!("{}\n", 10 * line)).collect();
    fs::write(folder.path().join("slow.trace"), &slow).unwrap();
    let text_of =
        SWEEP.replace("DURATION", "2s").replace("qdisc = \"pie\"", "qdisc = \"pie\"\ntrace = \"slow.trace\"");
    let path = write(folder.path(), &text_of);
    let out = folder.path().join("out");
    let sweep = || {
        let ran = weir(&["sweep", text(&path), "--out", text(&out)]).output().unwrap();
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
        let table = fs::read_to_string(out.join("sweep.csv")).unwrap();
        let mut rows = table.lines().map(|row| row.split(','));
        let place = rows.next().unwrap().position(|name| name == "link_departed_bytes").unwrap();
        let most = rows.map(|mut row| row.nth(place).unwrap().parse::<u64>().unwrap()).max().unwrap();
        (most, stderr(&ran))
    };
    let (most, _) = sweep();
    assert!(most < 400_000, "{most} bytes in 2 s: the link has taken no notice of its trace");
    // Another trace under the same name is another link.
    let fast: String = (1..1000).map(|line| format!("{line}\n")).collect();
    fs::write(folder.path().join("slow.trace"), fast).unwrap();
    let (most, said) = sweep();
    assert!(most > 1_000_000 && !said.contains("had their result"), "{most} {said}");
}

/// Starts a sweep of long cells and waits until two of them have ended. `hangups` says whether it hears of SIGHUP: a
/// command that `nohup` has started does not.
fn under_way(path: &Path, out: &Path, hangups: bool) -> Child {
    let arguments = ["sweep", text(path), "--out", text(out), "--jobs", "1", "--json"];
    let mut command = weir(&arguments);
    let action = if hangups { libc::SIG_DFL } else { libc::SIG_IGN };
    // SAFETY: safe between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::signal(libc::SIGHUP, action);
            Ok(())
        })
    };
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while cells(out).len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(120), "no cell ends");
        std::thread::sleep(Duration::from_millis(2));
    }
    running
}

fn signal(process: &Child, signal: libc::c_int) {
    // SAFETY: a signal to a process that this test has started and not waited for.
    unsafe { libc::kill(process.id() as i32, signal) };
}

#[test]
fn an_interrupt_keeps_what_has_ended_and_says_how_to_go_on() {
    for number in [libc::SIGINT, libc::SIGHUP] {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), &SWEEP.replace("DURATION", "60s"));
        let out = folder.path().join("out");
        let running = under_way(&path, &out, true);
        signal(&running, number);
        // The kernel sends one, and the shell another.
        if number == libc::SIGHUP {
            (0..3).for_each(|_| signal(&running, number));
        }
        let ended = running.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(130), "{ended:?}");
        let kept = cells(&out).len();
        assert!((2..CELLS).contains(&kept), "{kept}");
        let meta: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!(meta["missing_cells"], CELLS - kept);
        assert!(stderr(&ended).contains("goes on from here"), "{}", stderr(&ended));
        assert_eq!(fs::read_to_string(out.join("sweep.csv")).unwrap().lines().count(), 1 + 2 * kept);
    }
}

#[test]
fn a_sweep_that_is_to_outlive_its_terminal_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &SWEEP.replace("DURATION", "5s"));
    let out = folder.path().join("out");
    let running = under_way(&path, &out, false);
    signal(&running, libc::SIGHUP);
    let ended = running.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), cells(&out).len()), (Some(0), CELLS), "{ended:?}");
}

#[test]
fn a_dry_run_counts_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &SWEEP.replace("DURATION", "100ms"));
    let out = folder.path().join("out");
    let arguments = ["sweep", text(&path), "--out", text(&out), "--dry-run"];
    let plan = weir(&arguments).output().unwrap();
    assert_eq!(plan.status.code(), Some(0), "{plan:?}");
    let said = String::from_utf8(plan.stdout).unwrap();
    assert!(
        said.contains("bottleneck.rtt: 10ms, 20ms") && said.contains("8 combinations x 2 runs = 16 cells"),
        "{said}"
    );
    assert!(!out.exists());
    weir(&arguments[..4]).output().unwrap();
    let plan = weir(&arguments).arg("--json").output().unwrap();
    let plan: serde_json::Value = serde_json::from_slice(&plan.stdout).unwrap();
    assert_eq!((plan["cells"].as_u64(), plan["cells_done"].as_u64()), (Some(16), Some(16)));
}

#[test]
fn what_is_wrong_is_refused_before_anything_runs() {
    for (from, to, says) in [
        ("\"dctcp\"", "\"dctpc\"", ["line 10: ", "did you mean 'dctcp'"]),
        ("rate = \"20mbit\"", "rate = \"0mbit\"", ["line 14: ", "such as 10mbit"]),
        ("\"pie ecn\"", "\"bfifo limit 100b\"", ["line 7: ", "bottleneck.qdisc: "]),
        ("factor = 2", "factor = 1.00000000001", ["line 6: ", "--max-cells"]),
        ("repeat = 2", "repaet = 2", ["line 3: ", "did you mean `repeat`?"]),
        ("\"bottleneck.rtt\"", "\"botleneck.rtt\"", ["line 6: ", "did you mean `bottleneck`?"]),
        ("repeat = 2", "world = \"kernel\"", ["line 7: ", "bottleneck.qdisc"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let bad = SWEEP.replacen(from, to, 1).replace("DURATION", "1s");
        let path = write(folder.path(), &bad);
        let out = folder.path().join("out");
        let ran = weir(&["sweep", text(&path), "--out", text(&out)]).output().unwrap();
        assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(1), b"".as_slice()), "{ran:?}");
        let said = stderr(&ran);
        assert!(said.starts_with("weir: ") && said.contains("s.toml: "), "{said}");
        for words in says {
            assert!(said.contains(words), "{from} -> {to}: no {words:?} in {said}");
        }
        assert!(!out.exists(), "a sweep that never began has made {}", out.display());
    }
}

#[test]
fn on_real_packets_no_more_cells_go_on_at_a_time_than_fit() {
    let folder = tempfile::tempdir().unwrap();
    let on_emu = SWEEP
        .replace("DURATION", "100ms")
        .replace("\"dctcp\"", "\"cubic\"")
        .replace("repeat = 2", "world = \"emu\"");
    let path = write(folder.path(), &on_emu);
    let out = folder.path().join("out");
    let ran = weir(&["sweep", text(&path), "--out", text(&out), "--jobs", "10000"]).output().unwrap();
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    assert!(stderr(&ran).contains("disturb each other's packets"), "{}", stderr(&ran));
    assert!(!out.exists());
}

/// Runs `weir sweep` of `path` with these words, and expects that exit code.
fn sweep(path: &Path, words: &[&str], code: i32) -> Output {
    let ran = weir(&[&["sweep", text(path)], words].concat()).output().unwrap();
    assert_eq!(ran.status.code(), Some(code), "{ran:?}");
    ran
}

/// What a sweep has written that depends on nothing but its cells.
fn written(out: &Path) -> Vec<Vec<u8>> {
    let names = ["sweep.csv", "sweep.parquet", "means.csv", "sweep.html"];
    names.iter().map(|name| fs::read(out.join(name)).unwrap()).collect()
}

#[test]
fn shards_make_the_table_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &SWEEP.replace("DURATION", "500ms"));
    let at = |name: &str| folder.path().join(name);
    sweep(&path, &["--out", text(&at("whole")), "--jobs", "1"], 0);
    let mut kept = 0;
    for shard in 1..=3 {
        let out = at(&format!("part {shard}"));
        let shard = format!("{shard}/3");
        let words = ["--out", text(&out), "--shard", &shard];
        let plan = sweep(&path, &[&words[..], &["--dry-run", "--json"]].concat(), 0);
        let plan: serde_json::Value = serde_json::from_slice(&plan.stdout).unwrap();
        let ran = sweep(&path, &[&words[..], &["--json"]].concat(), 0);
        let ran: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!((&ran["shard"], &ran["of_cells"]), (&shard.as_str().into(), &CELLS.into()));
        assert_eq!((&ran["cells"], ran["missing_cells"].as_u64()), (&plan["shard_cells"], Some(0)));
        assert_eq!(ran["cells"].as_u64(), Some(cells(&out).len() as u64));
        assert!(!out.join("sweep.csv").exists(), "a part has a table");
        kept += cells(&out).len();
        let again = sweep(&path, &words, 0);
        assert!(stderr(&again).contains("cells had their result from an earlier command"), "{again:?}");
    }
    assert_eq!(kept, CELLS);
    let parts = [at("part 1"), at("part 2"), at("part 3")];
    let parts: Vec<&str> = parts.iter().map(|part| text(part)).collect();
    let merged = at("merged");
    let words = [&["--out", text(&merged), "--take"], &parts[..]].concat();
    let plan = sweep(&path, &[&words[..], &["--dry-run"]].concat(), 0);
    let plan = String::from_utf8(plan.stdout).unwrap();
    assert!(plan.contains("= 16 cells in world sim; 16 have a result in"), "{plan}");
    assert!(!merged.exists());
    let ran = sweep(&path, &words, 0);
    assert!(stderr(&ran).contains("16 of 16 cells had their result"), "{ran:?}");
    assert!(written(&merged) == written(&at("whole")), "parts make another table");

    // One folder for all is as good.
    let shared = at("shared");
    for shard in ["1/2", "2/2"] {
        sweep(&path, &["--out", text(&shared), "--shard", shard], 0);
    }
    let ran = sweep(&path, &["--out", text(&shared)], 0);
    assert!(stderr(&ran).contains("16 of 16 cells had their result"), "{ran:?}");
    assert!(written(&shared) == written(&at("whole")), "a shared folder makes another table");
    // More shards than cells: some have none.
    let none = sweep(&path, &["--out", text(&at("none")), "--shard", "40/40"], 0);
    assert!(String::from_utf8_lossy(&none.stdout).contains("0 of its 0 cells"), "{none:?}");
    sweep(&path, &["--out", text(&merged), "--take", text(&at("none"))], 0);
}

#[test]
fn what_is_no_shard_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &SWEEP.replace("DURATION", "100ms"));
    for (shard, says) in [
        ("0/4", "they are 1/4 to 4/4"),
        ("5/4", "no shard 5 of 4"),
        ("4", "write I/N"),
        ("x/y", "write I/N"),
        ("1/0", "N is 1 at least"),
    ] {
        let ran = sweep(&path, &["--shard", shard], 2);
        assert!(stderr(&ran).contains("--shard") && stderr(&ran).contains(says), "{shard}: {ran:?}");
    }
    let ran = sweep(&path, &["--shard", "1/2", "--take", "x"], 2);
    assert!(stderr(&ran).contains("--take"), "{ran:?}");
}

#[test]
fn what_is_taken_was_made_by_this_program_of_this_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &SWEEP.replace("DURATION", "100ms"));
    let at = |name: &str| folder.path().join(name);
    let (part, out) = (at("part"), at("out"));
    let take = |path: &Path, code: i32| sweep(path, &["--out", text(&out), "--take", text(&part)], code);
    let ran = take(&path, 1);
    assert!(stderr(&ran).contains("--take") && stderr(&ran).contains("no folder cells"), "{ran:?}");
    sweep(&path, &["--out", text(&part), "--shard", "1/2"], 0);
    let of_part = cells(&part);
    assert_eq!(of_part.len(), CELLS / 2);

    // Another file.
    let other = folder.path().join("other.toml");
    fs::write(&other, SWEEP.replace("DURATION", "200ms")).unwrap();
    let ran = take(&other, 1);
    assert!(stderr(&ran).contains("none of its 8 results is of a cell of this sweep"), "{ran:?}");
    assert!(!out.exists(), "nothing was begun");

    // One file is damaged, one is another's. The rest is taken.
    let text_of = fs::read(&of_part[0]).unwrap();
    fs::write(&of_part[0], &text_of[..text_of.len() / 2]).unwrap();
    fs::copy(&of_part[1], part.join("cells/00000000.json")).unwrap();
    fs::create_dir_all(part.join("cells/00")).unwrap();
    fs::copy(&of_part[1], part.join("cells/00").join(format!("{}.json", "0".repeat(64)))).unwrap();
    let ran = take(&path, 0);
    for says in [
        "took 7 results from",
        "1 results in",
        "not as they were written",
        "are of no cell of this sweep",
        "7 of 16 cells had",
    ] {
        assert!(stderr(&ran).contains(says), "{says}: {}", stderr(&ran));
    }
    sweep(&path, &["--out", text(&at("whole"))], 0);
    assert!(written(&out) == written(&at("whole")), "the tables differ");

    // Another program.
    let strange = at("strange");
    for file in &of_part[1..] {
        let cell = fs::read_to_string(file).unwrap();
        let (begin, rest) = cell.split_once("\"weir\":\"").unwrap();
        let to = strange
            .join(file.strip_prefix(&part).unwrap())
            .with_file_name(format!("{}.json", "f".repeat(64)));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, format!("{begin}\"weir\":\"9.9 {rest}")).unwrap();
    }
    let ran = sweep(&path, &["--out", text(&at("new")), "--take", text(&strange)], 1);
    assert!(
        stderr(&ran).contains("another program, weir 9.9 ") && stderr(&ran).contains("and this is weir"),
        "{ran:?}"
    );
}
