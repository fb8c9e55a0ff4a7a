//! `weir send`, `recv`, `probe` and `serve-probe` as their users meet them: on the loopback interface, killed, and
//! through bottlenecks with and without fair queuing between two hosts.

#![allow(clippy::disallowed_methods, reason = "programs run and are killed on the real clock")]

#[path = "send/bottleneck.rs"]
mod bottleneck;
#[path = "send/rough.rs"]
mod rough;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use bottleneck::Bottleneck;
use serde_json::Value;
use weir_core::Seed;
use weir_testkit::skip::root_and_turn;
use weir_testkit::world::{CLIENT, Namespace, World};

fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

/// A receiver that runs until it is dropped, which kills it.
struct Receiver {
    child: Child,
    out: BufReader<ChildStdout>,
    address: String,
    fingerprint: String,
}

impl Receiver {
    fn start(mut command: Command) -> Self {
        let mut child = command.arg("--json").stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let listens = event(&mut out);
        let text = |key: &str| listens[key].as_str().unwrap().to_owned();
        Self { address: text("address"), fingerprint: text("fingerprint"), child, out }
    }

    fn event(&mut self) -> Value {
        event(&mut self.out)
    }
}

fn event(out: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder with a receiver's files in `in`.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.at("in")).unwrap();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, verb: &str, listen: &str) -> Command {
        let mut command = weir();
        command.args([verb, "--listen", listen, "--identity"]).arg(self.at("identity.pem"));
        if verb == "recv" {
            command.arg("--dir").arg(self.at("in"));
        }
        command
    }

    fn recv(&self, listen: &str) -> Receiver {
        Receiver::start(self.command("recv", listen))
    }

    /// A file of noise.
    fn file(&self, bytes: usize) -> PathBuf {
        let mut random = Seed { seed: 9, run: 0 }.stream("file");
        let noise: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|_| random.next_u64().to_ne_bytes()).collect();
        fs::write(self.at("file.bin"), &noise[..bytes]).unwrap();
        self.at("file.bin")
    }

    fn part(&self) -> u64 {
        fs::metadata(self.at("in/.file.bin.weir-part")).map_or(0, |part| part.len())
    }

    fn wait_for_part(&self, bytes: u64) {
        // Ten minutes: a file of a gigabyte through a bottleneck takes some.
        for _ in 0..200_000 {
            if self.part() >= bytes {
                return;
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        panic!("only {} bytes have arrived", self.part());
    }

    fn assert_same(&self) {
        assert!(fs::read(self.at("file.bin")).unwrap() == fs::read(self.at("in/file.bin")).unwrap());
        assert_eq!(fs::read_dir(self.at("in")).unwrap().count(), 1);
    }
}

fn send(file: &Path, receiver: &Receiver) -> Command {
    send_to(file, &receiver.address, receiver)
}

/// Sends to a receiver that is reached at this address.
fn send_to(file: &Path, address: &str, receiver: &Receiver) -> Command {
    let mut command = weir();
    command.arg("send").arg(file).args([address, "--fingerprint", &receiver.fingerprint, "--json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn json(output: &Output) -> Value {
    let words = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {words}"))
}

const BYTES: usize = 100_000_000;

#[test]
fn a_file_goes_on_after_the_receiver_was_killed() {
    let place = Place::new();
    let file = place.file(BYTES);
    let receiver = place.recv("127.0.0.1:0");
    let sender = send(&file, &receiver).spawn().unwrap();
    place.wait_for_part(5_000_000);
    let (address, had) = (receiver.address.clone(), place.part());
    drop(receiver);
    assert!(place.part() < BYTES as u64, "all of it had arrived");
    let mut receiver = place.recv(&address);
    let sent = json(&sender.wait_with_output().unwrap());
    assert_eq!((&sent["connections"], &sent["bytes"]), (&2.into(), &BYTES.into()));
    place.assert_same();
    let (begins, arrived) = (receiver.event(), receiver.event());
    assert!(begins["event"] == "begins" && begins["had_bytes"].as_u64().unwrap() >= had, "{begins}");
    assert!(arrived["event"] == "arrived" && arrived["sha256"] == sent["sha256"], "{arrived}");
}

#[test]
fn a_file_goes_on_after_the_sender_was_killed() {
    let place = Place::new();
    let file = place.file(BYTES);
    let receiver = place.recv("127.0.0.1:0");
    let mut sender = send(&file, &receiver).spawn().unwrap();
    place.wait_for_part(5_000_000);
    sender.kill().unwrap();
    sender.wait().unwrap();
    let had = place.part();
    assert!(had < BYTES as u64, "all of it had arrived");
    // The receiver notices after a while that nobody is there, and then takes the rest from the next.
    let again = json(&send(&file, &receiver).output().unwrap());
    assert!(again["had_bytes"].as_u64().unwrap() >= had, "{again}");
    place.assert_same();
}

#[test]
fn whom_to_trust_must_be_said_and_be_right() {
    let place = Place::new();
    let file = place.file(100);
    let receiver = place.recv("127.0.0.1:0");
    let silent = weir().arg("send").arg(&file).arg(&receiver.address).output().unwrap();
    assert_eq!(silent.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&silent.stderr).contains("--fingerprint"));
    let name = ["--fingerprint", &receiver.fingerprint, "--server-name", "host.example"];
    let idle = weir().arg("send").arg(&file).arg(&receiver.address).args(name).output().unwrap();
    assert_eq!(idle.status.code(), Some(2), "a name counts where an authority vouches for it");
    let wrong = "0f".repeat(32);
    let mistaken =
        weir().arg("send").arg(&file).args([&receiver.address, "--fingerprint", &wrong]).output().unwrap();
    assert_eq!(mistaken.status.code(), Some(1));
    let words = String::from_utf8_lossy(&mistaken.stderr).into_owned();
    assert!(words.contains(&wrong) && words.contains(&receiver.fingerprint), "{words}");
    assert_eq!(fs::read_dir(place.at("in")).unwrap().count(), 0);
}

#[test]
fn a_sender_to_whom_nobody_answers_can_be_interrupted() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let host = silent.local_addr().unwrap().to_string();
    let mut command = weir();
    command.args(["probe", &host, "--fingerprint", &"0f".repeat(32)]).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    silent.recv(&mut [0; 2000]).unwrap();
    // SAFETY: the child has not been waited for, so the number is its.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) }, 0);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn one_file_ends_a_receiver_that_waits_for_one() {
    let place = Place::new();
    let mut command = place.command("recv", "127.0.0.1:0");
    command.arg("--once");
    let mut receiver = Receiver::start(command);
    let sent = json(&send(&place.file(100_000), &receiver).output().unwrap());
    assert_eq!(sent["name"], "file.bin");
    assert!(receiver.child.wait().unwrap().success());
    place.assert_same();
}

#[test]
fn one_that_serves_probes_takes_no_files() {
    let place = Place::new();
    let mut receiver = Receiver::start(place.command("serve-probe", "127.0.0.1:0"));
    let output = send(&place.file(100), &receiver).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("takes no files"));
    assert_eq!(receiver.event()["event"], "failed");
    let found = probe(&receiver, &[]);
    assert_ne!(found["finding"], "fair-queued", "the loopback interface has no queue: {found}");
    assert_eq!(receiver.event()["event"], "probed");
}

fn probe(receiver: &Receiver, more: &[&str]) -> Value {
    let host = [&receiver.address[..], "--fingerprint", &receiver.fingerprint, "--json"];
    json(&weir().arg("probe").args(host).args(more).output().unwrap())
}

/// Runs a command in a namespace.
fn inside(namespace: &Namespace, mut command: Command) -> Output {
    namespace.enter(move || command.output().unwrap())
}

#[test]
fn fair_queuing_is_told_from_a_shared_queue_on_real_packets() {
    let Some(_turn) = root_and_turn() else { return };
    const LOOKS: usize = 3;
    for (qdisc, is_fair) in [("fq_codel", true), ("fq", true), ("pfifo limit 50p", false), ("codel", false)] {
        let Some(world) = World::new() else { return };
        let bottleneck = Bottleneck::start(&world, qdisc, "20mbit", "10ms");
        let place = Place::new();
        let command = place.command("serve-probe", &format!("{CLIENT}:9347"));
        let receiver = world.client.enter(move || Receiver::start(command));
        let found: Vec<Value> = (0..LOOKS)
            .map(|_| {
                let mut command = weir();
                command.args(["probe", &receiver.address, "--fingerprint", &receiver.fingerprint, "--json"]);
                json(&inside(&world.server, command))
            })
            .collect();
        let of = |word: &str| found.iter().filter(|found| found["finding"] == word).count();
        let right = if is_fair { "fair-queued" } else { "shared" };
        eprintln!("{qdisc}: {} of {LOOKS} right; {}", of(right), found[0]);
        // A machine that is busy may make a look come to nothing, but not to the opposite.
        assert!(of(right) >= 1 && of(right) + of("unknown") == LOOKS, "{qdisc}: {found:#?}");
        let rtt = found.iter().filter_map(|found| found["min_rtt_ms"].as_f64()).fold(f64::MAX, f64::min);
        assert!(rtt >= 20.0, "{rtt} ms");
        bottleneck.finish();
    }
}

#[test]
fn a_file_goes_through_a_bottleneck_at_its_rate() {
    let Some(_turn) = root_and_turn() else { return };
    for (qdisc, controllers) in
        [("fq_codel", ["share", "cubic-regain"]), ("pfifo limit 50p", ["cubic-regain"; 2])]
    {
        let Some(world) = World::new() else { return };
        let bottleneck = Bottleneck::start(&world, qdisc, "20mbit", "5ms");
        let place = Place::new();
        let command = place.command("recv", &format!("{CLIENT}:9347"));
        let receiver = world.client.enter(move || Receiver::start(command));
        let sent = json(&inside(&world.server, send(&place.file(10_000_000), &receiver)));
        place.assert_same();
        let seconds = sent["took_s"].as_f64().unwrap();
        eprintln!("{qdisc}: {seconds:.2} s; {sent}");
        // 80 Mbit of user data at 20 Mbit/s.
        assert!(seconds > 4.0, "faster than the bottleneck: {seconds} s");
        assert!(controllers.contains(&sent["controller"].as_str().unwrap()), "{sent}");
        assert!(sent["path"]["light_packets"].as_u64().unwrap() > 0, "{sent}");
        bottleneck.finish();
    }
}

#[test]
fn busy_processors_make_no_wrong_finding() {
    let Some(_turn) = root_and_turn() else { return };
    const LOOKS: usize = 4;
    for (qdisc, wrong) in [("fq_codel", "shared"), ("pfifo limit 50p", "fair-queued")] {
        let Some(world) = World::new() else { return };
        let bottleneck = Bottleneck::start(&world, qdisc, "20mbit", "10ms");
        let place = Place::new();
        let command = place.command("serve-probe", &format!("{CLIENT}:9347"));
        let receiver = world.client.enter(move || Receiver::start(command));
        let stop = std::sync::atomic::AtomicBool::new(false);
        let found: Vec<Value> = std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
                scope.spawn(|| {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let look = |_| {
                let mut command = weir();
                command.args(["probe", &receiver.address, "--fingerprint", &receiver.fingerprint, "--json"]);
                inside(&world.server, command)
            };
            let looks: Vec<Output> = (0..LOOKS).map(look).collect();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            looks.iter().map(json).collect()
        });
        let words: Vec<_> = found.iter().map(|found| &found["finding"]).collect();
        eprintln!("{qdisc}: {words:?}");
        // Nothing may be found out, but nothing wrong. The queue itself may be late, so its books are not looked at.
        assert!(words.iter().all(|word| *word != wrong), "{qdisc}: {found:#?}");
        drop(bottleneck);
    }
}
