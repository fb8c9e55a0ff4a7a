//! A command killed at any step leaves traffic flowing and an interface that `weir down` puts back, or `weir up`
//! completes.
//!
//! Points are before and behind each step (`WEIR_KILL_AT`). With `WEIR_STRIDE=2` in the environment only those behind
//! each step are tried: for emulated processors, on which the verifier is slow.

mod wire;

use std::os::unix::process::ExitStatusExt;
use std::thread;

use weir_testkit::skip::is_root;
use wire::{Wire, apart, stderr, stdout};

/// Workers of one test. Most of the time goes to the kernel's verifier, which works on as many processors.
const WORKERS: u64 = 2;

const FIRST: &str = "up w0 rate 100mbit queues bfifo/bfifo direction both flows 64";
const EGRESS: &str = "up w0 rate 100mbit queues bfifo/bfifo flows 64";

/// Has workers try the points in turn, each on a wire of its own on which `sh` has run `prepare`, until `at`, given a
/// point, says that the command came to its end before it. Returns how many points there are.
fn everywhere(prepare: &str, at: impl Fn(&Wire, &str, u64) -> bool + Sync) -> u64 {
    if !is_root() {
        return u64::MAX;
    }
    let stride: u64 = std::env::var("WEIR_STRIDE").map_or(1, |stride| stride.parse().unwrap());
    let work = |worker: u64| {
        apart(true);
        let wire = Wire::new().unwrap();
        assert_eq!(wire.said(prepare), "", "{prepare}");
        let clean = wire.everything();
        let mut points =
            (stride - 1..).step_by(stride as usize).skip(worker as usize).step_by(WORKERS as usize);
        points.find(|point| at(&wire, &clean, *point)).unwrap()
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(move || work(worker))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).min().unwrap()
    })
}

/// Kills `weir line` at each point in turn, from the state that `before` makes. Each time traffic flows, and
/// `weir down` leads back.
fn kill_everywhere(prepare: &str, before: &[&str], line: &str) {
    let points = everywhere(prepare, |wire, clean, point| {
        for line in before {
            wire.must(line);
        }
        let output = wire.weir(line, Some(point));
        let when = format!("weir {line} killed at {point}");
        if output.status.success() {
            wire.must("down dev w0");
            wire.assert_as(clean, line);
            return true;
        }
        assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{when}: {}", stderr(&output));
        assert!(wire.crosses(), "{when}: no traffic\n{}", wire.everything());
        wire.must("down dev w0");
        wire.assert_as(clean, &when);
        assert!(wire.crosses(), "{when}, then weir down: no traffic");
        false
    });
    println!("{line}: {points} points");
    assert!(points > 10, "{points}");
}

#[test]
fn up_is_undone_by_down() {
    kill_everywhere("", &[], FIRST);
}

#[test]
fn a_change_is_undone_by_down() {
    kill_everywhere(
        "",
        &[FIRST],
        "up w0 rate 50mbit standard pfifo responsive bfifo limit 100kb split hard flows 128 set mss=1000",
    );
}

#[test]
fn a_reload_is_undone_by_down() {
    kill_everywhere("", &[FIRST], "reload w0 rate 200mbit set min_window_segments=2");
}

#[test]
fn down_is_completed_by_another() {
    let first = format!("{FIRST} replace");
    kill_everywhere("tc qdisc add dev w0 root handle 12: bfifo limit 77777", &[&first], "down dev w0");
}

/// HTB makes the kernel raise a length of zero.
#[test]
fn a_queue_length_of_zero_comes_back() {
    kill_everywhere("ip link set w0 txqueuelen 0", &[EGRESS], "down dev w0");
}

#[test]
fn a_change_of_the_table_is_completed_by_another() {
    let line = EGRESS.replace("flows 64", "flows 128");
    let points = everywhere("", |wire, _, point| {
        wire.must(EGRESS);
        let killed = !wire.weir(&line, Some(point)).status.success();
        wire.must(&line);
        let shown: serde_json::Value = serde_json::from_str(&stdout(&wire.must("show --json"))).unwrap();
        assert_eq!(shown[0]["flow_table"]["capacity"], 128, "killed at {point}: {shown}");
        wire.must("down w0");
        !killed
    });
    assert!(points > 10, "{points}");
}

#[test]
fn up_is_completed_by_another() {
    let line = "up w0 rate 100mbit queues bfifo/pfifo direction both flows 64 replace";
    let points = everywhere("tc qdisc add dev w0 root handle 12: pfifo limit 77", |wire, clean, point| {
        let output = wire.weir(line, Some(point));
        if output.status.success() {
            assert!(wire.everything().contains("57e2:"));
            wire.must("down --all");
            wire.assert_as(clean, "down --all");
            return true;
        }
        assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{point}: {}", stderr(&output));
        wire.must(line);
        assert!(wire.crosses(), "{point}");
        let faults = wire.must(&format!("{line} --dry-run"));
        assert_eq!(stdout(&faults), "# nothing to do\n", "{point}");
        wire.must("down w0");
        wire.assert_as(clean, &format!("killed at {point}, up, down"));
        false
    });
    assert!(points > 20, "{points}");
}
