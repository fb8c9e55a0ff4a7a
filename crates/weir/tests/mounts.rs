//! Where programs are pinned must outlive the command that pins them. `ip netns exec` has mounts of its own, which end
//! with it, and is refused; mounts of a container, of a service or of a shell are not.

#![allow(clippy::disallowed_methods, reason = "commands of real hosts are started")]

mod wire;

use std::process::{Command, Output};

use weir_testkit::skip::is_root;
use wire::{Wire, apart, stderr, stdout, words};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
const UP: &str = "up dev lo rate 20mbit queues bfifo/bfifo flows 64";

/// A network namespace with a name.
struct Named(String);

impl Named {
    fn new() -> Self {
        let named = Self(format!("weir-mounts-{}", std::process::id()));
        let added = run("ip", &format!("netns add {}", named.0));
        assert!(added.status.success(), "{}", stderr(&added));
        named
    }

    /// As operators are used to.
    fn exec(&self, line: &str) -> Output {
        run("ip", &format!("netns exec {} {line}", self.0))
    }

    /// As they are told to.
    fn nsenter(&self, line: &str) -> Output {
        run("nsenter", &format!("--net=/run/netns/{} {line}", self.0))
    }

    /// The queues, and the journals and pins of the mounts that the test has.
    fn state(&self) -> String {
        let list = |folder: &str| {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
            names.sort();
            format!("{names:?}")
        };
        let queues = stdout(&self.nsenter("tc class show dev lo"));
        let roots = stdout(&self.nsenter("tc qdisc show dev lo"));
        let roots = roots.split(" direct_packets_stat").next().unwrap();
        format!("{queues}{roots}{}{}", list("/run/weir"), list("/sys/fs/bpf/weir"))
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        run("ip", &format!("netns del {}", self.0));
    }
}

fn run(program: &str, line: &str) -> Output {
    Command::new(program).args(words(line)).output().unwrap()
}

fn must(output: &Output) {
    assert!(output.status.success(), "{}{}", stdout(output), stderr(output));
}

#[test]
fn ip_netns_exec_is_refused_with_the_command_that_works() {
    if !is_root() {
        return;
    }
    apart(true);
    let named = Named::new();
    let refused = |output: &Output, command: &str, before: &str| {
        let said = stderr(output);
        let remedy = format!("nsenter --net=/run/netns/{} weir {command}", named.0);
        assert!(said.contains(&remedy) && said.contains("ip netns exec"), "{command}: {said}");
        assert_eq!(output.status.code(), Some(1), "{command}: {said}");
        assert_eq!(named.state(), before, "{command}");
    };
    let clean = named.state();
    refused(&named.exec(&format!("{WEIR} {UP}")), "up", &clean);
    refused(&named.exec(&format!("{WEIR} {UP} --dry-run")), "up", &clean);
    refused(&named.exec(&format!("{WEIR} down dev lo")), "down", &clean);

    must(&named.nsenter(&format!("{WEIR} {UP}")));
    let standing = named.state();
    assert_ne!(standing, clean);
    refused(&named.exec(&format!("{WEIR} down dev lo")), "down", &standing);
    refused(&named.exec(&format!("{WEIR} down --all")), "down", &standing);
    refused(&named.exec(&format!("{WEIR} reload dev lo rate 30mbit")), "reload", &standing);
    // A shell there holds these mounts for as long as it lasts, and no longer.
    let shell = Command::new("ip")
        .args(["netns", "exec", &named.0, "sh", "-c", &format!("{WEIR} {UP} sharing 1:2; exit $?")])
        .output();
    refused(&shell.unwrap(), "up", &standing);
    // What cannot be seen from there is not said to be gone.
    let shown = named.exec(&format!("{WEIR} show"));
    let all = stdout(&shown) + &stderr(&shown);
    assert!(all.contains(&format!("nsenter --net=/run/netns/{} weir show", named.0)), "{all}");
    assert!(!all.contains("is not attached") && !all.contains("weir reload"), "{all}");

    let shown = named.nsenter(&format!("{WEIR} show"));
    must(&shown);
    assert!(stdout(&shown).contains("lo egress: up"), "{}", stdout(&shown));
    must(&named.nsenter(&format!("{WEIR} down dev lo")));
    assert_eq!(named.state(), clean);
}

/// Runs a script in mounts and processes of its own, as in a container that has the network of `wire`.
fn contained(wire: &Wire, script: &[&str]) -> Output {
    let mut command = wire.near.command("unshare").unwrap();
    command.args(["--mount", "--pid", "--fork", "--mount-proc"]).args(script);
    command.output().unwrap()
}

#[test]
fn a_container_keeps_its_own_bpffs() {
    if !is_root() {
        return;
    }
    apart(false);
    let wire = Wire::new().unwrap();
    let clean = wire.everything();
    let line = UP.replace("dev lo", "dev w0");
    for mount in ["true", "mount -t bpf bpf /sys/fs/bpf"] {
        let script = format!(
            "set -e; {mount}; {WEIR} {line}; {WEIR} show; {WEIR} reload dev w0 rate 30mbit; {WEIR} show; \
             {WEIR} down dev w0"
        );
        let output = contained(&wire, &["sh", "-c", &script]);
        must(&output);
        assert_eq!(stdout(&output).matches("w0 egress: up").count(), 2, "{}", stdout(&output));
        assert!(!stderr(&output).contains("mounts"), "{}", stderr(&output));
        wire.assert_as(&clean, mount);
    }
}

#[test]
fn a_command_alone_in_its_mounts_is_refused_unless_its_bpffs_was_there() {
    if !is_root() {
        return;
    }
    let line = UP.replace("dev lo", "dev w0");
    let command: Vec<&str> = [WEIR].into_iter().chain(words(&line)).collect();
    apart(false);
    let wire = Wire::new().unwrap();
    let clean = wire.everything();
    let output = contained(&wire, &command);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("/sys/fs/bpf") && said.contains("mount -t bpf bpf /sys/fs/bpf"), "{said}");
    wire.assert_as(&clean, "refused");
    // As a sandbox of systemd has it: mounts of its own, in which bpffs is that of all others.
    let mounted = run("mount", "-t bpf bpf /sys/fs/bpf");
    must(&mounted);
    must(&contained(&wire, &command));
    let shown = stdout(&wire.must("show"));
    assert!(shown.contains("w0 egress: up"), "{shown}");
    wire.must("down w0");
    wire.assert_as(&clean, "down");
}
