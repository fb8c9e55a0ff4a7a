//! `weir up`, `reload` and `down` as operators meet them: what a dry run prints, what slips are answered with.

mod wire;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use weir_link::kernel::attach::Hook;
use wire::{Wire, stderr, stdout, words};

fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

#[test]
fn queues_too_small_for_super_packets_are_warned_of() {
    let Some(wire) = Wire::new() else { return };
    let line = "up w0 rate 100mbit queues bfifo:limit=64kb/bfifo:limit=300kb";
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
    let mut expected = include_str!("up/dry-run.txt").to_owned();
    if Hook::of_this_kernel() == Hook::Clsact {
        expected = expected.replace(
            "# eBPF: attaches redirect at the ingress of w0\n",
            "tc filter add dev w0 ingress prio 59 handle 0x57e1 protocol all matchall skip_hw action mirred egress \
             redirect dev weirIFINDEX\n",
        );
    }
    let expected = expected.replace("NETNS", &inode.to_string()).replace("IFINDEX", &index);
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
    // Where programs are filters, they bring a clsact of their own.
    let trees = |wire: &Wire| wire.said("tc qdisc show dev w0 | grep -v clsact; tc class show dev w0");
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
