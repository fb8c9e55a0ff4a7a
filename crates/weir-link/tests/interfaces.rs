//! The bottleneck on real interfaces: kernel endpoints in namespaces on both sides of it, AF_XDP and packet sockets
//! compared, interfaces that vanish, and processes that are killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use weir_core::{Duration, Rate, Time};
use weir_law::{Law, Params};
use weir_link::{IoError, IoKind, Link, LinkConfig, PipelineConfig, RunReport, RunResult, Unobserved};
use weir_netdev::offload;
use weir_qdisc::{Codel, CodelConfig};
use weir_testkit::world::{CLIENT, SERVER, World};

const FORWARD: Duration = Duration::from_millis(5);
const REVERSE: Duration = Duration::from_millis(3);
const PATHS: [IoKind; 2] = [IoKind::Xdp, IoKind::PacketSocket];

struct Running {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<RunResult, IoError>>,
    _guards: Vec<offload::OffloadGuard>,
}

/// Starts a bottleneck with CoDel that marks.
fn start(world: &World, io: IoKind, rate: Rate) -> Running {
    use offload::{Role, prepare};
    let guards = vec![
        world.server.enter(|| prepare("s", Role::Host).unwrap()),
        world.client.enter(|| prepare("c", Role::Host).unwrap()),
        world.bottleneck.enter(|| prepare("to-s", Role::Bottleneck).unwrap()),
        world.bottleneck.enter(|| prepare("to-c", Role::Bottleneck).unwrap()),
    ];
    let stop = Arc::new(AtomicBool::new(false));
    let (ready, opened) = std::sync::mpsc::channel();
    let stopped = stop.clone();
    let thread = world.bottleneck.spawn(move || {
        let link = Link::open(LinkConfig { io, frames: 8192, ..LinkConfig::between("to-s", "to-c") })?;
        ready.send(()).unwrap();
        let pipeline = PipelineConfig {
            rate,
            burst: None,
            overhead: 0,
            law: Some(Law::new(Params::default(), 100)),
            delays: Box::new(|_, _| (FORWARD, REVERSE)),
            frames: 0,
        };
        let qdisc = Codel::new(CodelConfig { ecn: true, ..CodelConfig::default() });
        link.run(pipeline, Box::new(qdisc), Box::new(Unobserved), &stopped)
    });
    if opened.recv().is_err() {
        panic!("the link does not open: {:?}", thread.join().unwrap().err());
    }
    Running { stop, thread, _guards: guards }
}

impl Running {
    fn finish(self) -> RunReport {
        self.stop.store(true, Ordering::Relaxed);
        let report = self.thread.join().unwrap().unwrap().report;
        assert!(report.holds(), "{report:#?}");
        report
    }
}

/// A call that a signal may have interrupted: with a time limit the kernel does not go on by itself (signal(7)).
fn patiently<T>(mut call: impl FnMut() -> std::io::Result<T>) -> T {
    loop {
        match call() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            result => return result.unwrap(),
        }
    }
}

/// 100 datagrams there and back. Returns the round-trip times, smallest first.
#[allow(clippy::disallowed_methods)]
fn echo(world: &World) -> Vec<std::time::Duration> {
    let client = world.client.enter(|| UdpSocket::bind((CLIENT, 7)).unwrap());
    let server = world.server.enter(|| UdpSocket::bind((SERVER, 9)).unwrap());
    for socket in [&client, &server] {
        socket.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    }
    let echo = std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        for _ in 0..100 {
            let (length, from) = patiently(|| client.recv_from(&mut bytes));
            client.send_to(&bytes[..length], from).unwrap();
        }
    });
    let mut times: Vec<_> = (0..100u8)
        .map(|n| {
            let sent = Instant::now();
            let packet = vec![n; 958];
            server.send_to(&packet, (CLIENT, 7)).unwrap();
            let mut bytes = [0; 2048];
            let length = patiently(|| server.recv(&mut bytes));
            assert_eq!(bytes[..length], packet, "a datagram was changed");
            sent.elapsed()
        })
        .collect();
    echo.join().unwrap();
    times.sort();
    times
}

#[test]
fn both_paths_delay_exactly_and_change_nothing() {
    let mut counts = vec![];
    for io in PATHS {
        let Some(world) = World::new() else { return };
        let running = start(&world, io, "10mbit".parse().unwrap());
        let times = echo(&world);
        let report = running.finish();
        // 1000 bytes at 10 Mbit/s are 800 us; back they pay no rate.
        let least = (FORWARD + REVERSE + Duration::from_micros(800)).to_std();
        assert!(times[0] >= least, "{io:?}: {:?} < {least:?}", times[0]);
        // Later than the delay by what the link says of itself, and by as much again as threads of the ends wait.
        let late = std::time::Duration::from_nanos(report.pipeline.lateness.max_ns);
        assert!(times[50] < (least + late) * 2, "{io:?}: half the packets were later than {:?}", times[50]);
        let flow = report.pipeline.flows.iter().find(|flow| flow.key.starts_with("udp")).unwrap();
        counts.push((flow.count.arrived, flow.count.departed, flow.count.departed_bytes));
        println!(
            "{}: median {:?}, least {:?}, {:?}",
            report.path, times[50], times[0], report.pipeline.lateness
        );
    }
    assert_eq!(counts[0], (100, 100, 100_000));
    assert_eq!(counts[0], counts[1]);
}

/// A counter of `/proc/net/netstat` in the namespace of the calling thread.
fn netstat(name: &str) -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let lines: Vec<_> = table.lines().collect();
    let values = lines.chunks(2).flat_map(|pair| pair[0].split_whitespace().zip(pair[1].split_whitespace()));
    values.into_iter().find(|(key, _)| *key == name).unwrap().1.parse().unwrap()
}

#[test]
fn every_mark_arrives_in_a_packet_that_tcp_accepts() {
    const BYTES: usize = 6_000_000;
    for io in PATHS {
        let Some(world) = World::new() else { return };
        for host in [&world.server, &world.client] {
            host.sh("cd /proc/sys/net/ipv4; echo 1 >tcp_ecn; echo reno >tcp_congestion_control");
        }
        // So slow that there are a dozen marks, and some of them on a machine that is late.
        let running = start(&world, io, "20mbit".parse().unwrap());
        let listener = world.server.enter(|| TcpListener::bind((SERVER, 80)).unwrap());
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let bytes: Vec<u8> = (0..BYTES).map(|n| ((n * n) >> 8) as u8).collect();
            socket.write_all(&bytes).unwrap();
        });
        let received = world.client.enter(|| {
            let mut socket = TcpStream::connect((SERVER, 80)).unwrap();
            let mut bytes = vec![];
            socket.read_to_end(&mut bytes).unwrap();
            bytes
        });
        server.join().unwrap();
        assert_eq!(received.len(), BYTES);
        assert!(
            received.iter().enumerate().all(|(n, byte)| *byte == ((n * n) >> 8) as u8),
            "{io:?}: bytes changed"
        );
        let report = running.finish();
        let arrived_marked = world.client.enter(|| netstat("InCEPkts"));
        let bad_checksums = world.client.enter(|| netstat("InCsumErrors"));
        println!(
            "{}: {} marks, {:?}",
            report.path, report.pipeline.audit.total.marked, report.pipeline.lateness
        );
        assert!(report.pipeline.audit.total.marked > 3, "{report:#?}");
        assert_eq!(report.pipeline.unwritable_marks, 0);
        assert_eq!(arrived_marked, report.pipeline.audit.total.marked, "{io:?}");
        assert_eq!(bad_checksums, 0, "{io:?}");
    }
}

#[test]
fn an_interface_that_vanishes_ends_the_run_with_its_name() {
    for io in PATHS {
        let Some(world) = World::new() else { return };
        let running = start(&world, io, "10mbit".parse().unwrap());
        world.bottleneck.sh("ip link del to-c");
        let error = running.thread.join().unwrap().err().expect("the run goes on without its interface");
        assert!(matches!(&error, IoError::Vanished(name) if name == "to-c"), "{io:?}: {error}");
    }
}

#[test]
fn a_missing_interface_is_named() {
    let Some(world) = World::new() else { return };
    for io in [IoKind::Auto, IoKind::Xdp, IoKind::PacketSocket] {
        let error = world.bottleneck.enter(move || {
            Link::open(LinkConfig { io, frames: 256, ..LinkConfig::between("to-s", "nowhere") })
                .err()
                .unwrap()
        });
        assert!(error.to_string().contains("'nowhere'"), "{error}");
    }
}

#[test]
fn every_receive_queue_is_served() {
    let Some(world) = World::new() else { return };
    for (host, name, address) in [(&world.server, "s", SERVER), (&world.client, "c", CLIENT)] {
        world.bottleneck.sh(&format!(
            "ip link del to-{name}; ip link add to-{name} numrxqueues 20 numtxqueues 20 type veth peer name {name} \
             numrxqueues 20 numtxqueues 20 netns {}; ip link set to-{name} up",
            host.path()
        ));
        host.sh(&format!("ip addr add {address}/24 dev {name}; ip link set {name} up"));
    }
    let running = start(&world, IoKind::Xdp, "10mbit".parse().unwrap());
    echo(&world);
    running.finish();
}

/// Frames of a queue that has no socket would pass by the bottleneck.
#[test]
fn an_interface_of_too_many_queues_is_refused() {
    let Some(world) = World::new() else { return };
    world
        .bottleneck
        .sh("ip link add wide numrxqueues 65 numtxqueues 65 type veth peer name other; ip link set wide up");
    let open = |io| {
        let config = LinkConfig { io, frames: 256, ..LinkConfig::between("to-s", "wide") };
        world.bottleneck.enter(move || Link::open(config).map(|_| ()).map_err(|error| error.to_string()))
    };
    let error = open(IoKind::Xdp).unwrap_err();
    assert!(error.contains("'wide' has 65 receive queues") && error.contains("ethtool -L wide"), "{error}");
    open(IoKind::Auto).unwrap();
}

#[test]
fn offloads_come_back_whichever_namespace_the_guard_is_dropped_in() {
    let Some(world) = World::new() else { return };
    let (before, guard, during) = world.server.enter(|| {
        let before = offload::read("s").unwrap();
        let guard = offload::prepare("s", offload::Role::Host).unwrap();
        (before, guard, offload::read("s").unwrap())
    });
    assert!(before["tx-tcp-segmentation"] && before["tx-checksum-ip-generic"]);
    assert!(
        !during["tx-tcp-segmentation"] && !during["tx-checksum-ip-generic"] && !during["tx-udp-segmentation"]
    );
    world.client.enter(move || drop(guard));
    assert_eq!(world.server.enter(|| offload::read("s").unwrap()), before);
}

/// Not a test: what the tests below start as a process of its own and kill.
#[test]
#[ignore = "runs only as a child of the tests that kill it"]
fn child() {
    let _guard = offload::prepare("s", offload::Role::Host);
    let _link =
        Link::open(LinkConfig { io: IoKind::Xdp, frames: 256, ..LinkConfig::between("to-s", "to-c") });
    println!("\nready");
    std::thread::park();
}

fn killed_child() {
    let mut child: Child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "ready"), "the child did not get ready");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_killed_process_leaves_offloads_that_recover_puts_back() {
    let Some(world) = World::new() else { return };
    let (before, after_kill, recovered, after, again) = world.server.enter(|| {
        let before = offload::read("s").unwrap();
        killed_child();
        let after_kill = offload::read("s").unwrap();
        let recovered = offload::recover().unwrap();
        (before, after_kill, recovered, offload::read("s").unwrap(), offload::recover().unwrap())
    });
    assert_ne!(before, after_kill, "the child changed nothing");
    assert_eq!(recovered, ["s"]);
    assert_eq!(before, after);
    assert!(again.is_empty(), "a journal stayed behind");
}

#[test]
fn a_killed_process_leaves_no_xdp_program() {
    let Some(world) = World::new() else { return };
    let show = || {
        let output = Command::new("ip").args(["-details", "link"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let (during, after) = world.bottleneck.enter(move || {
        let link =
            Link::open(LinkConfig { io: IoKind::Xdp, frames: 256, ..LinkConfig::between("to-s", "to-c") });
        let during = show();
        drop(link);
        killed_child();
        // Programs are freed after a grace period.
        let mut after = show();
        for _ in 0..100 {
            if !after.contains("prog/xdp") {
                break;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(20));
            after = show();
        }
        (during, after)
    });
    assert_eq!(during.matches("prog/xdp").count(), 2, "{during}");
    assert!(!after.contains("prog/xdp"), "{after}");
}

#[test]
fn time_zero_is_shared() {
    let Some(world) = World::new() else { return };
    let running = start(&world, IoKind::Auto, "10mbit".parse().unwrap());
    let report = running.finish();
    assert!(report.wall > Duration::ZERO && report.path.starts_with("xdp"), "{report:#?}");
    assert_eq!(
        report.pipeline.forward.received,
        report.pipeline.forward.sent + report.pipeline.forward.unsent
    );
    assert_eq!(Time::ZERO.as_nanos(), 0);
}
