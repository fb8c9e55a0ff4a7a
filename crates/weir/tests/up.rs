//! `weir up`, `reload` and `down` as operators meet them: what a dry run prints, what slips are answered with, and that a
//! command killed at any step leaves traffic flowing and an interface that `weir down` puts back.

#![allow(clippy::disallowed_methods, reason = "the command is timed and killed")]

use std::net::UdpSocket;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::time::Duration;

use weir_lab::host::Namespace;

const NEAR: &str = "10.77.0.1";
const FAR: &str = "10.77.0.2";
const DATAGRAMS: u8 = 20;

fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Two hosts and a wire: `w0` here is what Weir is put on.
struct Wire {
    near: Namespace,
    far: Namespace,
}

impl Wire {
    fn new() -> Option<Self> {
        // SAFETY: asks for a number.
        if unsafe { libc::geteuid() } != 0 {
            println!("skipped: network namespaces need root");
            return None;
        }
        let wire = Self { near: Namespace::create("near").unwrap(), far: Namespace::create("far").unwrap() };
        wire.near.sysctl("net.ipv6.conf.all.disable_ipv6", "1").unwrap();
        wire.near.sysctl("net.ipv6.conf.default.disable_ipv6", "1").unwrap();
        let lines = [
            format!("link add w0 type veth peer name w1 netns {}", wire.far.path()),
            format!("addr add {NEAR}/24 dev w0"),
            "link set w0 up".to_owned(),
        ];
        wire.near.ip(&lines).unwrap();
        wire.far.ip(&[format!("addr add {FAR}/24 dev w1"), "link set w1 up".to_owned()]).unwrap();
        assert!(wire.crosses(), "there is a wire");
        Some(wire)
    }

    fn weir(&self, line: &str, kill_at: Option<u64>) -> Output {
        let mut command = self.near.command(env!("CARGO_BIN_EXE_weir")).unwrap();
        if let Some(point) = kill_at {
            command.env("WEIR_KILL_AT", point.to_string());
        }
        command.args(words(line)).output().unwrap()
    }

    fn must(&self, line: &str) -> Output {
        let output = self.weir(line, None);
        assert!(output.status.success(), "weir {line}: {}", stderr(&output));
        output
    }

    fn said(&self, line: &str) -> String {
        let output = self.near.command("sh").unwrap().args(["-c", line]).output().unwrap();
        stdout(&output) + &stderr(&output)
    }

    /// Datagrams to the far host and back, one after the other. Every one must return.
    fn crosses(&self) -> bool {
        let near = self.near.enter(|| UdpSocket::bind((NEAR, 0)).unwrap()).unwrap();
        let far = self.far.enter(|| UdpSocket::bind((FAR, 0)).unwrap()).unwrap();
        let to = far.local_addr().unwrap();
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        }
        let mut bytes = [0; 64];
        (0..DATAGRAMS).all(|number| {
            near.send_to(&[number; 40], to).unwrap();
            let Ok((length, from)) = far.recv_from(&mut bytes) else { return false };
            far.send_to(&bytes[..length], from).unwrap();
            near.recv(&mut bytes).is_ok_and(|length| bytes[..length] == [number; 40])
        })
    }

    /// Files of the near namespace in a folder.
    fn files(&self, folder: &str) -> Vec<String> {
        let inode = std::fs::metadata(self.near.path()).unwrap().ino().to_string();
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.contains(&inode)).collect();
        names.sort();
        names
    }

    /// Everything that Weir could change.
    fn everything(&self) -> String {
        let mut all = self.said(
            "ip -d -o link show; ip -o addr show; tc qdisc show; tc class show dev w0; \
             tc filter show dev w0 ingress; tc filter show dev w0 egress",
        );
        for side in [TCX_INGRESS, TCX_EGRESS] {
            let programs = self.near.enter(|| tcx_programs("w0", side)).unwrap();
            all += &format!("tcx {side}: {programs}\n");
        }
        all += &format!("{:?} {:?}", self.files("/run/weir"), self.files("/sys/fs/bpf/weir"));
        all
    }

    /// All is as it was. What was just unpinned is taken off when the kernel has time for it.
    fn assert_as(&self, before: &str, when: &str) {
        for _ in 0..200 {
            if self.everything() == before {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(self.everything(), before, "{when}");
    }
}

/// `BPF_TCX_INGRESS` and `BPF_TCX_EGRESS` (linux/bpf.h).
const TCX_INGRESS: u32 = 46;
const TCX_EGRESS: u32 = 47;

/// How many programs sit at a side of an interface by TCX.
fn tcx_programs(device: &str, side: u32) -> u32 {
    const BPF_PROG_QUERY: libc::c_long = 16;
    let name = std::ffi::CString::new(device).unwrap();
    // SAFETY: the name is terminated.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    // `union bpf_attr`, `query`: interface, side, flags, flags, array of ids, its length, then nothing.
    let mut query = [index, side, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: the query is readable and writable for its length and asks for no array.
    let asked = unsafe {
        libc::syscall(libc::SYS_bpf, BPF_PROG_QUERY, query.as_mut_ptr(), std::mem::size_of_val(&query))
    };
    if asked == 0 { query[6] } else { 0 }
}

/// Kills `weir line` at each point in turn, from the state that `prepare` makes. Each time traffic flows, and `weir down`
/// leads back to `clean`. Returns how many points there are.
fn kill_everywhere(wire: &Wire, clean: &str, prepare: &[&str], line: &str) -> u64 {
    let mut point = 0;
    loop {
        for line in prepare {
            wire.must(line);
        }
        let output = wire.weir(line, Some(point));
        let when = format!("weir {line} killed at {point}");
        if output.status.success() {
            wire.must("down dev w0");
            wire.assert_as(clean, line);
            return point;
        }
        assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{when}: {}", stderr(&output));
        assert!(wire.crosses(), "{when}: no traffic\n{}", wire.everything());
        wire.must("down dev w0");
        wire.assert_as(clean, &when);
        assert!(wire.crosses(), "{when}, then weir down: no traffic");
        point += 1;
    }
}

#[test]
fn killed_at_any_step_of_up_down_undoes_it() {
    let Some(wire) = Wire::new() else { return };
    let clean = wire.everything();
    let points = kill_everywhere(&wire, &clean, &[], "up w0 rate 100mbit queues bfifo/bfifo direction both");
    assert!(points > 20, "{points}");
    println!("up: {points} points");
}

#[test]
fn killed_at_any_step_of_a_change_down_undoes_all() {
    let Some(wire) = Wire::new() else { return };
    let clean = wire.everything();
    let first = "up w0 rate 100mbit queues bfifo/bfifo direction both";
    for line in [
        "up w0 rate 50mbit queues pfifo/bfifo:limit=100kb split borrow flows 128 set mss=1000",
        "reload w0 rate 200mbit set min_window_segments=2",
    ] {
        let points = kill_everywhere(&wire, &clean, &[first], line);
        println!("{line}: {points} points");
        assert!(points > 10, "{points}");
    }
}

#[test]
fn killed_at_any_step_of_down_another_goes_on() {
    let Some(wire) = Wire::new() else { return };
    wire.near.tc(&["qdisc add dev w0 root handle 12: bfifo limit 77777".to_owned()]).unwrap();
    let clean = wire.everything();
    let first = "up w0 rate 100mbit queues bfifo/bfifo direction both replace";
    let points = kill_everywhere(&wire, &clean, &[first], "down dev w0");
    println!("down: {points} points");
    assert!(points > 10, "{points}");
}

#[test]
fn killed_up_can_be_followed_by_up() {
    let Some(wire) = Wire::new() else { return };
    wire.near.tc(&["qdisc add dev w0 root handle 12: pfifo limit 77".to_owned()]).unwrap();
    let clean = wire.everything();
    let line = "up w0 rate 100mbit queues bfifo/pfifo direction both replace";
    let mut point = 0;
    let whole = loop {
        let output = wire.weir(line, Some(point));
        if output.status.success() {
            break wire.everything();
        }
        wire.must(line);
        assert!(wire.crosses(), "{point}");
        let faults = wire.must("up w0 rate 100mbit queues bfifo/pfifo direction both replace --dry-run");
        assert_eq!(stdout(&faults), "# nothing to do\n", "{point}");
        wire.must("down w0");
        wire.assert_as(&clean, &format!("killed at {point}, up, down"));
        point += 1;
    };
    assert!(whole.contains("57e2:") && point > 20);
    wire.must("down --all");
    wire.assert_as(&clean, "down --all");
}

#[test]
fn queues_too_small_for_super_packets_are_warned_of() {
    let Some(wire) = Wire::new() else { return };
    let line = "up w0 rate 100mbit queues bfifo:limit=64kb/codel";
    let dry = wire.must(&format!("{line} --dry-run"));
    assert!(
        stderr(&dry).contains("weir: warning: the standard queue (egress) is a bfifo of 65536 bytes"),
        "{dry:?}"
    );
    assert!(stderr(&dry).contains("ethtool -K w0 gso off tso off"), "{dry:?}");
    assert!(stdout(&dry).contains("bfifo limit 65536"), "{dry:?}");
    let up = wire.must(line);
    assert!(stderr(&up).contains("65536 bytes"), "{up:?}");
    // The remedy that it names helps.
    let off = wire.near.command("ethtool").unwrap().args(["-K", "w0", "gso", "off", "tso", "off"]).output();
    let off = off.unwrap();
    assert!(off.status.success(), "{off:?}");
    assert!(!stderr(&wire.must(&format!("{line} --dry-run"))).contains("super-packets"));
    wire.must("down w0");
}

#[test]
fn a_dry_run_prints_the_lines_and_changes_nothing() {
    let Some(wire) = Wire::new() else { return };
    let before = wire.everything();
    let dry = wire.must("up w0 --rate 500mbit --queues bfifo/codel:ecn --direction both --dry-run");
    assert_eq!(stderr(&dry), "");
    wire.assert_as(&before, "dry run");
    let lines = stdout(&dry);
    let inode = std::fs::metadata(wire.near.path()).unwrap().ino();
    let index = wire.said("ip -o link show w0").split(':').next().unwrap().to_owned();
    let expected =
        include_str!("up/dry-run.txt").replace("NETNS", &inode.to_string()).replace("IFINDEX", &index);
    // Where no bpffs is mounted, that comes first.
    assert_eq!(lines.replace("mount -t bpf bpf /sys/fs/bpf\n", ""), expected);
    // Only root may do it, but anybody may ask. Others may not look where the command was built.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = folder.path().join("weir");
    std::fs::copy(env!("CARGO_BIN_EXE_weir"), &copy).unwrap();
    let as_nobody = |line: &str| {
        let mut command = wire.near.command("setpriv").unwrap();
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy).args(words(line));
        command.output().unwrap()
    };
    let asked = as_nobody("up w0 rate 500mbit queues bfifo/codel:ecn direction both --dry-run");
    assert_eq!((stdout(&asked), stderr(&asked)), (lines, String::new()));
    let tried = as_nobody("up w0 rate 500mbit queues bfifo/bfifo");
    assert_eq!(tried.status.code(), Some(1));
    assert!(
        stderr(&tried).contains("CAP_NET_ADMIN") && stderr(&tried).contains("as root"),
        "{}",
        stderr(&tried)
    );
    wire.assert_as(&before, "a user without privileges");
}

#[test]
fn the_printed_lines_are_the_ones_that_work() {
    let Some(wire) = Wire::new() else { return };
    let line = "up w0 rate 30mbit queues bfifo/pfifo:limit=99p split borrow share 20/80";
    let dry = wire.must(&format!("{line} --dry-run"));
    let script: Vec<String> =
        stdout(&dry).lines().filter(|line| line.starts_with("tc ")).map(str::to_owned).collect();
    assert_eq!(script.len(), 6, "{script:?}");
    let trees = |wire: &Wire| wire.said("tc qdisc show dev w0; tc class show dev w0");
    assert_eq!(wire.said(&script.join("\n")), "");
    let by_hand = trees(&wire);
    wire.said("tc qdisc del dev w0 root");
    wire.must(line);
    assert_eq!(trees(&wire), by_hand);
    wire.must("down w0");
}

#[test]
fn a_file_says_what_the_words_do_not() {
    let Some(wire) = Wire::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w0.toml");
    let example = include_str!("../../../examples/router/crq.toml");
    std::fs::write(&path, example).unwrap();
    let file = path.to_str().unwrap();
    let dry = |line: &str| stdout(&wire.must(&format!("up --config {file} dev w0 --dry-run {line}")));
    let whole = dry("");
    assert!(whole.contains("tc qdisc add dev w0 root") && whole.contains("htb rate"), "{whole}");
    assert!(dry("--rate 12345kbit").contains("rate 12345000bit"), "flags go over the file");
    assert!(dry("rate 12345kbit").contains("rate 12345000bit"), "words go over the file");
    for (from, to, says) in [
        ("rate = ", "rat = ", ["line", "did you mean 'rate'?"]),
        ("direction = ", "direktion = ", ["line", "did you mean 'direction'?"]),
        (
            "[law]",
            "[law]\nmin_window_segmens = 3",
            ["min_window_segmens", "did you mean 'min_window_segments'?"],
        ),
    ] {
        let bad = example.replacen(from, to, 1);
        assert_ne!(bad, example, "{from}");
        std::fs::write(&path, bad).unwrap();
        let output = wire.weir(&format!("up --config {file} dev w0 --dry-run"), None);
        assert!(!output.status.success());
        for words in says {
            assert!(stderr(&output).contains(words), "{to}: {}", stderr(&output));
        }
    }
}

#[test]
fn slips_are_answered_with_what_was_meant() {
    for (line, code, says) in [
        ("up", 2, "no device is given"),
        ("up eth0", 2, "no rate is given; add 'rate 500mbit'"),
        ("up eth0 rat 5mbit", 2, "did you mean 'rate'?"),
        ("up eth0 --rate 5mbits", 2, "rate: '5mbits' is not a rate"),
        ("up eth0 --rate 5mbit rate 6mbit", 2, "'rate' is given twice"),
        ("up eth0 --rate 5mbit --set mss", 2, "write NAME=VALUE"),
        ("up eth0 --rate 5mbit --queues codel", 2, "STANDARD/RESPONSIVE"),
        ("up no-such rate 5mbit", 1, "there is no interface 'no-such' here"),
        ("up --config /no/such.toml", 1, "/no/such.toml"),
        ("down", 2, "or --all"),
        ("down lo --all", 2, "or --all"),
        ("down a b", 2, "give one interface"),
        ("reload", 2, "no device is given"),
        ("reload lo rate 5mbit", 1, "nothing is up on lo"),
    ] {
        let output = weir().args(words(line)).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{line}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{line}");
    }
}
