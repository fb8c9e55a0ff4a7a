//! `weir up`, `reload` and `down` as operators meet them: what a dry run prints, what slips are answered with.

mod wire;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use wire::{Wire, stderr, stdout, words};

fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

#[test]
fn queues_too_small_for_super_packets_are_warned_of() {
    let Some(wire) = Wire::new() else { return };
    let line = "up w0 rate 100mbit standard bfifo limit 64kb responsive bfifo limit 300kb";
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

/// What a dry run prints where no bpffs is mounted.
const MOUNT: &str = "mount -t bpf bpf /sys/fs/bpf\n";

#[test]
fn a_dry_run_prints_the_lines_and_changes_nothing() {
    let Some(wire) = Wire::new() else { return };
    let before = wire.everything();
    let dry =
        wire.must("up w0 --rate 500mbit standard bfifo responsive codel ecn --direction both --dry-run");
    assert_eq!(stderr(&dry), "");
    wire.assert_as(&before, "dry run");
    // Other tests mount it at any moment.
    let lines = stdout(&dry).replace(MOUNT, "");
    let inode = std::fs::metadata(wire.near.path()).unwrap().ino();
    let index = wire.said("ip -o link show w0").split(':').next().unwrap().to_owned();
    let expected =
        include_str!("up/dry-run.txt").replace("NETNS", &inode.to_string()).replace("IFINDEX", &index);
    assert_eq!(lines, expected);
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
    let asked = as_nobody("up w0 rate 500mbit standard bfifo responsive codel ecn direction both --dry-run");
    assert_eq!((stdout(&asked).replace(MOUNT, ""), stderr(&asked)), (lines, String::new()));
    let tried = as_nobody("up w0 rate 500mbit queues bfifo/bfifo");
    assert_eq!(tried.status.code(), Some(1));
    assert!(
        stderr(&tried).contains("CAP_NET_ADMIN") && stderr(&tried).contains("as root"),
        "{}",
        stderr(&tried)
    );
    wire.assert_as(&before, "a user without privileges");
    // Where nobody else may look at what is pinned, its steps would be guesses; where he may, they are those of root.
    wire.must("up w0 rate 500mbit queues bfifo/bfifo limit 1mb flows 64");
    let mut look = wire.near.command("setpriv").unwrap();
    look.args(["--reuid=65534", "--regid=65534", "--clear-groups", "ls", "/sys/fs/bpf/weir"]);
    let may_look = look.output().unwrap().status.success();
    for line in ["up w0 rate 500mbit queues bfifo/bfifo limit 1mb flows 64", "reload w0", "down w0"] {
        let (asked, root) =
            (as_nobody(&format!("{line} --dry-run")), wire.must(&format!("{line} --dry-run")));
        let is_told = stderr(&asked).contains("/sys/fs/bpf cannot be read without privileges");
        assert!(is_told || may_look && stdout(&asked) == stdout(&root), "{line}: {asked:?}");
        assert!(!stderr(&root).contains("privileges"), "{line}");
    }
    wire.must("down w0");
}

#[test]
fn the_printed_lines_are_the_ones_that_work() {
    let Some(wire) = Wire::new() else { return };
    let line = "up w0 rate 30mbit standard bfifo responsive pfifo limit 99p split shared sharing 20:80";
    let dry = wire.must(&format!("{line} --dry-run"));
    let text = stdout(&dry);
    let lines = text.lines().filter(|line| line.starts_with("tc ") && !line.ends_with(" clsact"));
    let script: Vec<String> = lines.map(str::to_owned).collect();
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

/// One exit code for whatever is wrong with what the file says, as for the words.
#[test]
fn a_mistake_in_the_file_ends_as_one_in_the_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lo.toml");
    let good = "rate = \"50mbit\"\n";
    for (text, says) in [
        ("rate = \n", "lo.toml, line 1: "),
        ("rate = \"50mbit\n", "lo.toml, line 1: "),
        ("rat = \"50mbit\"\n", "did you mean 'rate'?"),
        ("rate = 50\n", "rate: 50bit is not from"),
        ("rate = [50]\n", "lo.toml, line 1: "),
        ("rate = \"50mbits\"\n", "50mbits"),
        ("rate = \"1kbit\"\n", "rate: 1kbit is not from"),
        ("flows = 3\nrate = \"50mbit\"\n", "flows: 3 is not from"),
        ("", "no rate is given"),
        ("rate = \"50mbit\"\ningress_rate = \"50mbit\"\n", "ingress_rate: "),
        ("rate = \"50mbit\"\n[law]\npreset = \"papers\"\n", "papers"),
        ("rate = \"50mbit\"\n[law]\nspin_debounce = 99\n", "1 to 16"),
        ("rate = \"50mbit\"\nqueues = \"bfifo limit 100b/codel\"\n", "limit: 100b"),
        ("rate = \"50mbit\"\n[queues]\nstandard = \"netem\"\n", "netem"),
    ] {
        std::fs::write(&path, text).unwrap();
        for command in ["up", "reload"] {
            let mut weir = weir();
            let output = weir.args([command, "--config"]).arg(&path).args(["dev", "lo"]).output().unwrap();
            // What a reload misses first is something to change.
            let unmade = command == "reload" && output.status.code() == Some(1);
            if unmade && stderr(&output).contains("nothing is up on lo") {
                continue;
            }
            assert_eq!(output.status.code(), Some(2), "{command}, {text:?}: {}", stderr(&output));
            assert!(stderr(&output).contains(says), "{command}, {text:?}: {}", stderr(&output));
        }
    }
    std::fs::write(&path, b"rate = \"50mbit\"\n# \xe9\n").unwrap();
    let output = weir().args(["up", "dev", "lo", "--config"]).arg(&path).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("lo.toml, line 2: this is not UTF-8"), "{}", stderr(&output));
    // What is wrong with the machine is another matter.
    std::fs::write(&path, good).unwrap();
    let output = weir().args(["up", "dev", "no-such", "--config"]).arg(&path).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
}

/// Without descriptors nothing can be started, which installing it would not mend.
#[test]
fn a_program_that_cannot_start_is_not_said_to_be_missing() {
    let Some(wire) = Wire::new() else { return };
    wire.must("up w0 rate 20mbit queues bfifo/bfifo flows 64");
    let with = |most: u32, line: &str| {
        let mut command = wire.near.command("sh").unwrap();
        command.args(["-c", &format!("ulimit -n {most}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_weir")]);
        command.args(words(line)).output().unwrap()
    };
    for line in ["show dev w0", "up w0 rate 30mbit queues bfifo/bfifo flows 64", "reload dev w0 rate 40mbit"]
    {
        let mut told = 0;
        for most in 3..24 {
            let said = stderr(&with(most, line));
            told += usize::from(said.contains("cannot run 't") || said.contains("cannot run tc"));
            assert!(!said.contains("install"), "{line} with {most} descriptors: {said}");
            assert!(!said.contains("cannot run") || said.contains("ulimit -n"), "{line} with {most}: {said}");
        }
        assert!(told > 0, "{line} was never short of descriptors for tc");
    }
    wire.must("down w0");
    if !cfg!(feature = "lab") {
        return;
    }
    let mut told = 0;
    for most in 6..24 {
        let Ok(checks) =
            serde_json::from_slice::<Vec<serde_json::Value>>(&with(most, "doctor --json").stdout)
        else {
            continue;
        };
        for check in checks {
            let is_short = check["detail"].as_str().unwrap().contains("(os error 24)");
            told += usize::from(is_short);
            assert!(!is_short || check["fix"].as_str().unwrap().contains("ulimit -n"), "{most}: {check}");
            // It is there: the tests use it.
            assert!(!check["fix"].as_str().unwrap_or_default().contains("iproute2"), "{most}: {check}");
        }
    }
    assert!(told > 0, "doctor was never short of descriptors");
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
        ("reload lo splt hard", 2, "'splt' is not a word of weir reload; did you mean 'split'?"),
        ("top --json dev", 2, "as in: weir top dev eth0"),
        ("show flow", 2, "did you mean 'flows'?"),
        ("show no-such", 1, "there is no interface 'no-such' here; there are lo"),
        ("show dev no-such", 1, "there is no interface 'no-such' here; there are lo"),
        ("show flows dev no-such --json", 1, "there is no interface 'no-such' here; there are lo"),
        ("top --json dev no-such", 1, "there is no interface 'no-such' here; there are lo"),
    ] {
        let output = weir().args(words(line)).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{line}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{line}");
    }
}

#[test]
fn rates_in_bytes_per_second_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lo.toml");
    let file = path.to_str().unwrap();
    std::fs::write(&path, "rate = \"1.5MBps\"\n").unwrap();
    let warned = |line: &str| {
        let output = weir().args(words(line)).output().unwrap();
        assert!(output.status.success(), "{line}: {}", stderr(&output));
        (stdout(&output), stderr(&output))
    };
    for (line, written, bits, meant) in [
        ("up lo rate 100mbps --dry-run", "rate: 100mbps", "800mbit", "100mbit"),
        ("up lo --rate 20Kbps --dry-run", "rate: 20Kbps", "160kbit", "20kbit"),
        (
            "up lo rate 1mbit direction both ingress_rate 2gbps --dry-run",
            "ingress_rate: 2gbps",
            "16gbit",
            "2gbit",
        ),
        (&format!("up --config {file} dev lo --dry-run"), "rate: 1.5MBps", "12mbit", "1.5mbit"),
    ] {
        let (_, said) = warned(line);
        for part in ["weir: warning: ", written, bits, "bytes per second", &format!("'{meant}'")] {
            assert!(said.contains(part), "no '{part}' in: {said}");
        }
        assert_eq!(said.matches("bytes per second").count(), 1, "{said}");
    }
    // It is what tc makes of it.
    assert!(warned("up lo rate 100mbps --dry-run").0.contains("htb rate 800000000bit"));
    // What the words say goes over the file, which is not meant then.
    for line in ["up lo rate 100mbit --dry-run", &format!("up --config {file} dev lo rate 5mbit --dry-run")] {
        assert!(!warned(line).1.contains("bytes per second"), "{line}");
    }
}

/// What HTB's leaf classes have sent by their own rate, and what by borrowing, in packets.
fn borrowed(wire: &Wire) -> (u64, u64) {
    let said = wire.said("tc -s class show dev w0");
    let of_leaves = said.split("class htb").filter(|class| class.contains(" leaf "));
    of_leaves.fold((0, 0), |sum, class| {
        let count = |word: &str| -> u64 {
            let rest = class.split(word).nth(1).unwrap_or_else(|| panic!("no {word} in {said}"));
            rest.split_whitespace().next().unwrap().parse().unwrap()
        };
        (sum.0 + count("lended:"), sum.1 + count("borrowed:"))
    })
}

#[test]
#[allow(clippy::disallowed_methods, reason = "two transfers on the real clock are compared")]
fn a_lone_download_gets_the_whole_rate() {
    let Some(wire) = Wire::new() else { return };
    let transfer = |line: &str| {
        wire.must(line);
        let start = std::time::Instant::now();
        wire.transfer(2_000_000, true);
        let took = start.elapsed();
        let (own, borrowed) = borrowed(&wire);
        wire.must("down w0");
        println!("{line}: {took:?}, {own} packets by a class's own rate, {borrowed} borrowed");
        (took, own, borrowed)
    };
    let line = "up w0 rate 8mbit standard bfifo limit 200kb responsive bfifo limit 200kb";
    let (lent, own, borrowed) = transfer(line);
    assert!(borrowed * 4 > own + borrowed, "{borrowed} of {} packets were borrowed", own + borrowed);
    let (kept, _, none) = transfer(&format!("{line} split hard"));
    assert_eq!(none, 0);
    // It takes twice as long at half the rate.
    assert!(
        kept.as_secs_f64() > 1.5 * lent.as_secs_f64(),
        "{kept:?} with shares kept, {lent:?} with shares lent"
    );
    // The word that scenarios have for it.
    assert!(transfer(&format!("{line} split shared")).2 > 0);
}

#[test]
fn a_changed_mtu_is_shown_and_reloaded() {
    let Some(wire) = Wire::new() else { return };
    wire.must("up w0 rate 1mbit queues bfifo/bfifo direction both");
    wire.near.ip(&["link set w0 mtu 9000".to_owned()]).unwrap();
    let shown = wire.weir("show", None);
    assert_eq!(shown.status.code(), Some(1));
    assert_eq!(stdout(&shown).matches("FAULT the MTU of w0 is 9000").count(), 2, "{}", stdout(&shown));
    assert_eq!(stdout(&shown).matches("mend: weir reload dev w0").count(), 2, "{}", stdout(&shown));
    wire.must("reload dev w0");
    assert!(stdout(&wire.must("show")).contains("w0 egress: up"));
    assert!(wire.said("tc qdisc show dev w0").contains("limit 18028b"));
    // A limit of 12 packets of 1500 bytes is two of 9000, and none of 65535.
    wire.must("reload dev w0 limit 18028b");
    wire.near.ip(&["link set w0 mtu 65535".to_owned()]).unwrap();
    let refused = wire.weir("reload dev w0", None);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("limit: 18028b") && stderr(&refused).contains("65549"), "{refused:?}");
    wire.must("down w0");
}
