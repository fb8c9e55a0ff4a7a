//! A router's bottleneck from `weir up` to `weir down`: the shipped example, both directions, two interfaces at once,
//! with the capabilities of the shipped unit, and where no bpffs is mounted.

#![allow(clippy::disallowed_methods, reason = "what the kernel reports later is waited for")]

mod wire;

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use weir_testkit::skip::is_root;
use wire::{Wire, apart, stderr, stdout};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/router/crq.toml");
const UNIT: &str = include_str!("../../../tools/systemd/weir@.service");

fn shown(wire: &Wire) -> Vec<Value> {
    let text = stdout(&wire.must("show --json"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn names(shown: &[Value]) -> Vec<(&str, &str)> {
    shown.iter().map(|one| (one["device"].as_str().unwrap(), one["direction"].as_str().unwrap())).collect()
}

#[test]
fn the_example_shapes_both_directions_of_two_interfaces() {
    if !is_root() {
        return;
    }
    apart(true);
    let wire = Wire::new().unwrap();
    wire.near.ip(&["link add x0 type veth peer name x1".to_owned(), "link set x0 up".to_owned()]).unwrap();
    // The kernel reports some time later that nobody is at the other end.
    while !wire.said("ip -o link show x0").contains("LOWERLAYERDOWN") {
        std::thread::sleep(Duration::from_millis(10));
    }
    let clean = wire.everything();
    wire.must(&format!("up --config {EXAMPLE} dev w0 rate 20mbit ingress_rate 30mbit"));
    for to_far in [true, false] {
        wire.transfer(2_000_000, to_far);
    }
    let one = shown(&wire);
    assert_eq!(names(&one), [("w0", "egress"), ("w0", "ingress")]);
    for (shown, rate) in one.iter().zip([20_000_000, 30_000_000]) {
        assert_eq!((&shown["state"], &shown["faults"]), (&"up".into(), &Value::Array(Vec::new())), "{shown}");
        assert_eq!(shown["rate_bits_per_second"], rate);
        let queues = shown["queues"].as_array().unwrap();
        let bytes: u64 = queues.iter().map(|queue| queue["bytes"].as_u64().unwrap()).sum();
        assert!(bytes > 2_000_000, "{shown}");
        assert!(shown["flow_table"]["flows"].as_u64() > Some(0), "{shown}");
        // Acknowledgements of the other direction close cycles.
        assert!(shown["counters"]["admitted"].as_u64() > Some(0), "{shown}");
    }
    let words = stdout(&wire.must("show"));
    for part in ["w0 egress: up", "w0 ingress: up", "rate 20mbit", "rate 30mbit"] {
        assert!(words.contains(part), "no '{part}' in {words}");
    }

    wire.must("up x0 rate 10mbit queues bfifo/pfifo flows 64");
    let three = [("w0", "egress"), ("w0", "ingress"), ("x0", "egress")];
    assert_eq!(names(&shown(&wire)), three);
    assert!(stdout(&wire.must("show")).contains("x0 egress: up"));
    assert_eq!(
        names(&serde_json::from_slice::<Vec<Value>>(&wire.must("show --json dev x0").stdout).unwrap()),
        [three[2]]
    );
    let lines = stdout(&wire.must("top --json --count 2 --interval 100ms"));
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(names(&lines), [three, three].concat());

    wire.must("down dev x0");
    assert_eq!(names(&shown(&wire)), three[..2]);
    wire.must("down --all");
    wire.assert_as(&clean, "down --all");
    assert!(wire.crosses());
}

/// Where programs are filters, Weir's stand beside those of others.
#[test]
fn filters_of_others_stay() {
    if !is_root() {
        return;
    }
    apart(true);
    let wire = Wire::new().unwrap();
    // Both kinds match all and go on; a kernel may lack the one or the other.
    let put = |kind: &str, goes_on: &str| {
        let theirs = ["ingress", "egress"]
            .map(|side| format!("filter add dev w0 {side} prio 10 protocol all {kind} {goes_on}"));
        wire.near.tc(&theirs)
    };
    wire.near.tc(&["qdisc add dev w0 clsact".to_owned()]).unwrap();
    wire.near.ip(&["link add ifb7 type ifb".to_owned(), "link set ifb7 up".to_owned()]).unwrap();
    put("matchall", "action continue")
        .or_else(|_| put("u32 match u32 0 0", "action mirred egress mirror dev ifb7 continue"))
        .unwrap();
    let clean = wire.everything();
    let line = "up w0 rate 20mbit queues bfifo/bfifo direction both flows 64";
    let dry = stdout(&wire.must(&format!("{line} --dry-run")));
    wire.must(line);
    let filters = wire.said("tc filter show dev w0 ingress");
    let ingress = shown(&wire).into_iter().find(|shown| shown["direction"] == "ingress").unwrap();
    let programs = ingress["programs"].as_array().unwrap();
    let redirect = programs.iter().find(|one| one["what"] == "redirect at the ingress of w0").unwrap();
    let redirected = "tc filter add dev w0 ingress prio 65535 handle ::fff protocol all u32 match u32 0 0 skip_hw action \
                      mirred egress redirect dev weir";
    // One says what is to be done, one what was done, one what is there.
    assert_eq!(redirect["hook"], "clsact");
    assert!(filters.contains("Egress Redirect to device weir"), "{filters}");
    assert!(dry.contains(redirected), "{dry}");
    let standing = wire.everything();
    assert!(wire.crosses());
    for to_far in [true, false] {
        wire.transfer(200_000, to_far);
    }
    wire.must("reload w0 rate 30mbit set min_window_segments=2");
    assert!(wire.crosses());
    assert_eq!(wire.said("tc filter show dev w0 ingress").lines().count(), filters.lines().count());
    // The IFB device that it was pointed at goes; another takes its place.
    let ifb = redirect_target(&filters);
    wire.near.ip(&[format!("link del {ifb}")]).unwrap();
    wire.must("reload w0");
    assert!(wire.crosses(), "{standing}\n{}", wire.everything());
    wire.must("down w0");
    wire.assert_as(&clean, "down");
    assert!(wire.crosses());
}

const TO_AND_FRO: &str = "rate 20mbit queues bfifo/bfifo direction both flows 64";

fn put_in(wire: &Wire, device: &str) {
    wire.near.ip(&[format!("link add {device} type veth peer name {device}-far")]).unwrap();
    wire.near.ip(&[format!("link set {device} up"), format!("link set {device}-far up")]).unwrap();
}

/// IFB devices, journals and folders of pins.
fn kept(wire: &Wire) -> (usize, usize, usize) {
    let ifbs = wire.said("ip -o link show type ifb").lines().count();
    (ifbs, wire.files("/run/weir").len(), wire.files("/sys/fs/bpf/weir").len())
}

/// The faults that `weir show` reports and the commands that it names, each once.
fn told(wire: &Wire) -> Vec<(String, String)> {
    let output = wire.weir("show --json", None);
    let shown: Vec<Value> = serde_json::from_str(&stdout(&output)).unwrap();
    let all = shown.iter().flat_map(|one| one["faults"].as_array().unwrap());
    let text = |fault: &Value, key: &str| fault[key].as_str().unwrap().to_owned();
    let mut faults: Vec<_> = all.map(|fault| (text(fault, "what"), text(fault, "remedy"))).collect();
    faults.dedup();
    assert_eq!(output.status.success(), faults.is_empty(), "{faults:?}");
    faults
}

/// Dial-up links, tunnels and USB devices go and come back under the same name as other interfaces.
#[test]
fn an_interface_that_comes_back_finds_nothing_left() {
    if !is_root() {
        return;
    }
    apart(true);
    let wire = Wire::new().unwrap();
    let clean = wire.everything();
    for _ in 0..4 {
        put_in(&wire, "p0");
        wire.must(&format!("up p0 {TO_AND_FRO}"));
        assert_eq!(kept(&wire), (1, 1, 2), "of the one that is there");
        assert_eq!(told(&wire), []);
        wire.near.ip(&["link del p0".to_owned()]).unwrap();
    }
    assert_eq!(told(&wire).len(), 1);
    // Any up or down removes what is left of those that are gone.
    wire.must(&format!("up w0 {TO_AND_FRO}"));
    assert_eq!(kept(&wire), (1, 1, 2));
    wire.must("down w0");
    wire.assert_as(&clean, "up and down elsewhere");

    // Back, and not up: down by the name that both have.
    put_in(&wire, "p0");
    wire.must(&format!("up p0 {TO_AND_FRO}"));
    wire.near.ip(&["link del p0".to_owned()]).unwrap();
    put_in(&wire, "p0");
    let faults = told(&wire);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0].1, "weir down dev p0");
    wire.must("down dev p0");
    assert_eq!(kept(&wire), (0, 0, 0));
    wire.near.ip(&["link del p0".to_owned()]).unwrap();
    wire.assert_as(&clean, "down by name");
}

/// What is left of one interface does not endanger the one that has its name now.
#[test]
fn the_remedy_for_a_lost_interface_spares_its_successor() {
    if !is_root() {
        return;
    }
    apart(true);
    let wire = Wire::new().unwrap();
    let clean = wire.everything();
    for device in ["p0", "p1"] {
        put_in(&wire, device);
        wire.must(&format!("up {device} {TO_AND_FRO}"));
    }
    let lines = ["link del p0", "link set p1 down", "link set p1 name p0", "link set p0 up"];
    wire.near.ip(&lines.map(str::to_owned)).unwrap();
    let living = wire.said("tc class show dev p0");
    assert!(living.contains("htb"), "{living}");
    let faults = told(&wire);
    assert_eq!(faults.len(), 1, "{faults:?}");
    let (what, remedy) = &faults[0];
    assert!(what.contains("p0 is gone"), "{what}");
    assert_eq!(remedy, "weir reload dev p0");
    wire.must(remedy.strip_prefix("weir ").unwrap());
    assert_eq!(told(&wire), [], "after {remedy}");
    assert_eq!(wire.said("tc class show dev p0"), living, "after {remedy}");
    assert_eq!(kept(&wire), (1, 1, 2));
    wire.must("down dev p0");
    assert_eq!(kept(&wire), (0, 0, 0));
    wire.near.ip(&["link del p0".to_owned()]).unwrap();
    wire.assert_as(&clean, "all gone");
}

/// The device that Weir's filter names.
fn redirect_target(filters: &str) -> String {
    let name = filters.split("Egress Redirect to device ").nth(1).unwrap();
    name.split(')').next().unwrap().to_owned()
}

#[test]
fn the_units_capabilities_are_enough() {
    if !is_root() {
        return;
    }
    let set = UNIT.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let set: Vec<String> = set
        .split_whitespace()
        .map(|name| format!("+{}", name.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    apart(true);
    let wire = Wire::new().unwrap();
    let clean = wire.everything();
    let bounding = format!("--bounding-set=-all,{}", set.join(","));
    let weir = |line: &str| {
        let mut command = wire.near.command("setpriv").unwrap();
        command.args(["--no-new-privs", &bounding, env!("CARGO_BIN_EXE_weir")]).args(wire::words(line));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{line}: {}", stderr(&output));
        stdout(&output)
    };
    weir("up dev w0 rate 20mbit queues bfifo/bfifo direction both flows 64");
    assert!(wire.crosses());
    assert!(weir("show").contains("w0 ingress: up"));
    weir("show flows");
    weir("reload dev w0 rate 30mbit queues bfifo/bfifo direction both flows 64 set mss=1000");
    weir("down dev w0");
    wire.assert_as(&clean, "down");
}

/// Whether bpffs is mounted at its place, as the calling thread sees it.
fn is_mounted() -> bool {
    let mounts = std::fs::read_to_string("/proc/thread-self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == Some("/sys/fs/bpf"))
}

#[test]
fn bpffs_goes_with_the_last_that_needs_it() {
    if !is_root() {
        return;
    }
    apart(false);
    let wire = Wire::new().unwrap();
    wire.near.ip(&["link add x0 type veth peer name x1".to_owned(), "link set x0 up".to_owned()]).unwrap();
    let (w0, x0) =
        ("up w0 rate 20mbit queues bfifo/bfifo flows 64", "up x0 rate 20mbit queues bfifo/bfifo flows 64");
    assert!(!is_mounted());
    wire.must(w0);
    assert!(is_mounted());
    wire.must("down w0");
    assert!(!is_mounted(), "weir up mounted it");

    // The first that needs it is not the last.
    wire.must(w0);
    wire.must(x0);
    wire.must("down w0");
    assert!(is_mounted() && names(&shown(&wire)) == [("x0", "egress")], "x0 still needs it");
    wire.must("down x0");
    assert!(!is_mounted(), "nobody needs it");

    // What is somebody else's stays: a pin, or the mount itself.
    wire.must(w0);
    std::fs::create_dir("/sys/fs/bpf/theirs").unwrap();
    wire.must("down w0");
    assert!(is_mounted());
    std::fs::remove_dir("/sys/fs/bpf/theirs").unwrap();
    wire.must(w0);
    wire.must("down w0");
    assert!(is_mounted(), "it was there before weir up");

    // Somebody stands in it.
    assert!(Command::new("umount").arg("/sys/fs/bpf").status().unwrap().success());
    wire.must(w0);
    let mut busy = Command::new("sleep").arg("60").current_dir("/sys/fs/bpf").spawn().unwrap();
    wire.must("down w0");
    assert!(is_mounted());
    busy.kill().unwrap();
    busy.wait().unwrap();
}
