//! Nothing outlives a topology: neither when it is dropped nor when its process is killed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use weir_core::{Bytes, Duration as SimDuration};
use weir_testbed::host::{Namespace, Topology, TopologySpec};
use weir_testbed::traffic::{Amount, Control, FlowSpec, QuicSpec, TcpSpec, Traffic, Transfer};

use weir_testkit::skip::root_and_turn;

/// Set in the process that is to be killed.
const CHILD: &str = "WEIR_TEST_BUILD_AND_WAIT";

fn inode(namespace: &Namespace) -> u64 {
    namespace.enter(|| fs::metadata("/proc/thread-self/ns/net").unwrap().ino()).unwrap()
}

/// The network namespaces among `wanted` that anything on this machine still holds: a thread that is inside, an open
/// file descriptor, or a mount.
fn held(wanted: &BTreeSet<u64>) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    let mut note = |target: &str| {
        let number = target.strip_prefix("net:[").and_then(|rest| rest.strip_suffix(']'));
        found.extend(number.and_then(|number| number.parse::<u64>().ok()));
    };
    let entries = |path: String| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    for process in entries("/proc".into()).filter(|path| path.join("task").exists()) {
        for task in entries(process.join("task").display().to_string()) {
            if let Ok(target) = fs::read_link(task.join("ns/net")) {
                note(&target.to_string_lossy());
            }
        }
        for fd in entries(process.join("fd").display().to_string()) {
            if let Ok(target) = fs::read_link(fd) {
                note(&target.to_string_lossy());
            }
        }
    }
    for word in fs::read_to_string("/proc/self/mountinfo").unwrap().split_whitespace() {
        note(word);
    }
    found.intersection(wanted).copied().collect()
}

/// The interfaces of the namespace that this test runs in.
fn interfaces() -> BTreeSet<String> {
    let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    table.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
}

fn named_namespaces() -> String {
    let output = Command::new("ip").args(["netns", "list"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn assert_gone(wanted: &BTreeSet<u64>) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !held(wanted).is_empty() {
        assert!(Instant::now() < deadline, "still held: {:?}", held(wanted));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn inodes(topology: &Topology) -> BTreeSet<u64> {
    [&topology.server, &topology.bottleneck, &topology.client].map(inode).into()
}

#[test]
fn dropping_a_topology_removes_it() {
    let Some(_turn) = root_and_turn() else { return };
    let before = (interfaces(), named_namespaces());
    let topology = Topology::build(&TopologySpec::default()).unwrap();
    let mine = inodes(&topology);
    assert_eq!(mine.len(), 3);
    assert_eq!(held(&mine), mine, "the scan must be able to see them");
    assert_eq!((interfaces(), named_namespaces()), before, "nothing appears outside");
    drop(topology);
    assert_gone(&mine);
    assert_eq!((interfaces(), named_namespaces()), before);
}

#[test]
fn killing_the_process_removes_its_topology() {
    if std::env::var_os(CHILD).is_some() {
        return;
    }
    let Some(_turn) = root_and_turn() else { return };
    let before = (interfaces(), named_namespaces());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "cleanup::child_builds_and_waits", "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mine: BTreeSet<u64> = loop {
        let line = lines.next().expect("the child says which namespaces it made").unwrap();
        if let Some(numbers) = line.split_once("namespaces ").map(|(_, numbers)| numbers) {
            break numbers.split_whitespace().map(|number| number.parse().unwrap()).collect();
        }
    };
    assert_eq!(held(&mine), mine);
    assert_eq!((interfaces(), named_namespaces()), before);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_gone(&mine);
    assert_eq!((interfaces(), named_namespaces()), before);
}

/// Does nothing by itself; [`killing_the_process_removes_its_topology`] runs it in a process of its own.
#[test]
fn child_builds_and_waits() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let topology = Topology::build_forwarding(&TopologySpec::default(), &[]).unwrap();
    let control = Control::default();
    let kinds = [
        Traffic::Tcp(TcpSpec {
            controller: "cubic".into(),
            registered: None,
            two_way: true,
            receive_window: None,
        }),
        Traffic::Quic(QuicSpec::new("cubic")),
    ];
    // Killed in the middle of its work, with sockets open and threads inside.
    let _flows = kinds.map(|traffic| {
        let spec = FlowSpec {
            name: "long".into(),
            server: (topology.server_addr(0), 5000).into(),
            client: (topology.client_addr(0), 6000).into(),
            start: SimDuration::ZERO,
            amount: Amount::Bytes(Bytes(1 << 40)),
            ecn: false,
            traffic,
        };
        Transfer::launch(&spec, &topology.server, &topology.client, &control).unwrap()
    });
    std::thread::sleep(Duration::from_millis(200));
    let numbers: Vec<String> = inodes(&topology).iter().map(u64::to_string).collect();
    println!("namespaces {}", numbers.join(" "));
    std::thread::sleep(Duration::from_secs(60));
}
