//! A run that is interrupted writes what it has; one that is killed leaves nothing that the next does not clear away.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{SHORT, assert_ran, output, stderr, text, weir, write_scenario};
use weir_testkit::skip::root_and_turn;

const LONG: &str = r#"
[bottleneck]
rate = "10mbit"
rtt = "5ms"
qdisc = { kind = "crq" }
[[flow]]
name = "cubic"
stack = "tcp"
controller = "cubic"
bytes = "100mb"
[[flow]]
name = "quic"
stack = "quic"
controller = "cubic"
duration = "60s"
[[flow]]
name = "later"
stack = "tcp"
controller = "reno"
bytes = "1mb"
start = "50s"
[[flow]]
name = "udp"
stack = "udp"
rate = "3mbit"
"#;

/// From the signal to the end. It takes about 0.2 s; the runs themselves would take half a
/// minute and more.
const AT_ONCE: Duration = Duration::from_secs(6);

/// What a run could leave on the machine, but for what other processes have at the same time.
fn outside() -> (BTreeSet<String>, String) {
    let table = fs::read_to_string("/proc/net/dev").unwrap();
    let interfaces =
        table.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect();
    let named = Command::new("ip").args(["netns", "list"]).output().unwrap();
    (interfaces, String::from_utf8(named.stdout).unwrap())
}

/// The journals of a process.
fn journals(pid: u32) -> Vec<String> {
    let names = fs::read_dir("/run/weir").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let own = format!("offload-{pid}-");
    names.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with(&own)).collect()
}

/// The network namespaces that a process is in or holds, as `/proc` calls them.
fn namespaces(process: &Path) -> BTreeSet<String> {
    let entries = |folder: &str| fs::read_dir(process.join(folder)).into_iter().flatten().flatten();
    let threads = entries("task").map(|entry| entry.path().join("ns/net"));
    let descriptors = entries("fd").map(|entry| entry.path());
    threads
        .chain(descriptors)
        .filter_map(|path| Some(fs::read_link(path).ok()?.to_string_lossy().into_owned()))
        .filter(|target| target.starts_with("net:["))
        .collect()
}

fn held_by_anyone() -> BTreeSet<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes.filter(|path| path.join("task").exists()).flat_map(|path| namespaces(&path)).collect()
}

/// A run under way, and the namespaces that it has made.
struct Running {
    child: Child,
    made: BTreeSet<String>,
}

impl Running {
    /// Starts a long run and waits until its flows have sent for a while.
    fn start(folder: &Path) -> Self {
        let path = write_scenario(folder, "long.toml", LONG);
        let mut command = weir();
        command.args(["run", text(&path), "--out", text(&folder.join("out"))]);
        // SAFETY: safe between fork and exec. Tests may run where hangups are ignored, as under nohup(1).
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                Ok(())
            })
        };
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while journals(child.id()).len() < 4 {
            assert!(Instant::now() < deadline, "the run has not begun: {:?}", child.try_wait());
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(800));
        assert!(child.try_wait().unwrap().is_none(), "it must still run");
        let own = namespaces(Path::new("/proc/self"));
        let process = format!("/proc/{}", child.id());
        let made: BTreeSet<_> = namespaces(Path::new(&process)).difference(&own).cloned().collect();
        assert_eq!(made.len(), 3, "server, bottleneck, client");
        Self { child, made }
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: takes no pointers; the child is ours and not waited for yet.
        assert_eq!(unsafe { libc::kill(self.child.id() as libc::pid_t, signal) }, 0);
    }

    /// Waits for the end, and until the kernel has taken the namespaces down.
    fn end(self) -> (Output, Duration) {
        let begun = Instant::now();
        let ended = self.child.wait_with_output().unwrap();
        let took = begun.elapsed();
        let deadline = Instant::now() + Duration::from_secs(5);
        while !self.made.is_disjoint(&held_by_anyone()) {
            assert!(Instant::now() < deadline, "namespaces are still held: {:?}", self.made);
            std::thread::sleep(Duration::from_millis(20));
        }
        (ended, took)
    }
}

#[test]
fn an_interrupted_run_writes_what_it_has_and_leaves_nothing() {
    let Some(_turn) = root_and_turn() else { return };
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let folder = tempfile::tempdir().unwrap();
        let before = outside();
        let running = Running::start(folder.path());
        let pid = running.child.id();
        assert_eq!(outside(), before, "nothing shows outside");
        running.signal(signal);
        let (ended, took) = running.end();
        assert_eq!(ended.status.code(), Some(130), "{ended:?}");
        println!("ended {took:?} after the signal");
        assert!(took < AT_ONCE, "{took:?}");
        assert_eq!((outside(), journals(pid)), (before, Vec::new()));
        let written = fs::read(folder.path().join("out/run.json")).unwrap();
        let result: Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(result["meta"]["cut_short"], "interrupted");
        assert!(result["flows"][0]["received_bytes"].as_u64().unwrap() > 0);
        assert_eq!(result["flows"][2]["received_bytes"], 0, "it had not set out");
        for file in ["report.html", "flows.csv", "queue_series.csv"] {
            assert!(folder.path().join("out").join(file).exists(), "{file}");
        }
        let parts = fs::read_dir(folder.path().join("out")).unwrap().flatten();
        assert_eq!(parts.filter(|entry| entry.file_name().to_string_lossy().ends_with(".part")).count(), 0);
        assert!(String::from_utf8_lossy(&ended.stdout).contains("report.html"));
        // Cut off is no fault of a flow; of the machine's, only the constant-rate sender can speak.
        for name in ["cubic", "quic", "later"] {
            assert!(!stderr(&ended).contains(&format!("flow '{name}'")), "{}", stderr(&ended));
        }
    }
}

#[test]
fn a_killed_run_leaves_nothing_that_the_next_does_not_clear() {
    let Some(_turn) = root_and_turn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let before = outside();
    let running = Running::start(folder.path());
    let pid = running.child.id();
    running.signal(libc::SIGKILL);
    let (ended, _) = running.end();
    assert_eq!(ended.status.code(), None, "ended by the signal");
    assert_eq!(outside(), before);
    assert!(!folder.path().join("out").exists(), "no half results");
    assert_eq!(journals(pid).len(), 4, "the dead process could not remove its journals");

    let path = write_scenario(folder.path(), "short.toml", SHORT);
    let ran = output(&["run", text(&path), "--out", text(&folder.path().join("next"))]);
    assert_ran(&ran);
    assert_eq!(journals(pid), Vec::<String>::new());
    assert_eq!(outside(), before);
}

#[test]
fn an_interrupted_figure_ends_at_once_and_keeps_its_page() {
    let Some(_turn) = root_and_turn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let only = "drop-tail, 5ms, TCP Cubic (u)";
    let mut child = weir()
        .args(["figure", "run", "crq/4", "--quick", "--only", only, "--json", "--out", text(folder.path())])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while journals(child.id()).len() < 4 {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "the figure has not begun");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Past the setting up, within which nobody looks for the signal.
    std::thread::sleep(Duration::from_millis(800));
    let begun = Instant::now();
    // SAFETY: takes no pointers; the child is ours and not waited for yet.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) }, 0);
    let pid = child.id();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    assert_eq!(journals(pid), Vec::<String>::new());
    let figure: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(
        (&figure["figure"], &figure["world"], &figure["seed"]),
        (&"crq/4".into(), &"emu".into(), &1.into())
    );
    assert!(figure["rows"].as_array().is_some() && figure["statements"].as_array().is_some());
    assert!(stderr(&ended).contains("interrupted"), "{}", stderr(&ended));
    assert!(folder.path().join("figure.json").exists() && folder.path().join("figure.html").exists());
}
