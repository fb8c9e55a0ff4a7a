//! Departure times that the kernel keeps: over a pair of interfaces whose sending one has `fq` or `etf`, packets arrive as
//! far apart as a detector has asked for. Arrivals are stamped by the receiver's kernel.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, mpsc};

use weir_core::{Duration, Rate, Time};
use weir_fq::{Departure, Detector, Finding, Outcome, Packet, SubFlow, Verdict};
use weir_testkit::skip::skip;
use weir_testkit::world::World;
use weir_transport::{
    Departed, Departures, Identity, Peer, ProbeJob, Receiver, ReceiverOptions, Trust, probe,
};

/// Packets, and the time from one to the next.
const PACKETS: usize = 200;
const APART: Duration = Duration::from_micros(1_500);
/// By so much half of the intervals may differ from that: far less than the thread of a busy host is late by.
const USUAL: i64 = 60_000;

/// Asks for packets at even times, and keeps when they arrived.
struct Even {
    next: Time,
    left: usize,
    sent: Vec<(u64, Time)>,
    arrived: Arc<Mutex<Vec<(u64, Time, Time)>>>,
    over: bool,
}

impl Detector for Even {
    fn name(&self) -> &'static str {
        "even"
    }

    fn begin(&mut self, now: Time, _: Duration) {
        self.next = now + Duration::from_millis(5);
    }

    fn next(&self) -> Option<Departure> {
        (self.left > 0).then_some(Departure { sub_flow: SubFlow::Heavy, at: self.next })
    }

    fn on_sent(&mut self, packet: &Packet) {
        if packet.sub_flow == SubFlow::Heavy && self.left > 0 && self.next <= packet.sent {
            self.sent.push((packet.number, packet.sent));
            self.left -= 1;
            self.next += APART;
        }
    }

    fn on_arrival(&mut self, _: Time, packet: &Packet, at: Time) {
        if self.sent.iter().any(|(number, _)| *number == packet.number) {
            self.arrived.lock().unwrap().push((packet.number, packet.sent, at));
        }
    }

    fn timer(&self) -> Option<Time> {
        (self.left == 0 && !self.over).then(|| self.next + Duration::from_millis(100))
    }

    fn on_timer(&mut self, now: Time) {
        self.over |= self.timer().is_some_and(|due| due <= now);
    }

    fn outcome(&self) -> Option<Outcome> {
        let verdict = Verdict { finding: Finding::Unknown, confidence: 0.0, why: "" };
        self.over.then_some(Outcome { verdict, rate: None::<Rate> })
    }
}

/// Two hosts on one link, the sender's qdisc being `qdisc`; none without root or that qdisc. Neighbours are known, as
/// `etf` drops whatever asks for them.
fn link(qdisc: &str) -> Option<World> {
    let world = World::new()?;
    world.server.sh(&format!(
        "ip link add name wire address 02:00:00:00:00:01 type veth peer name wire address 02:00:00:00:00:02 netns {}",
        world.client.path()
    ));
    for (host, own, other) in [(&world.server, 1, 2), (&world.client, 2, 1)] {
        host.sh(&format!(
            "ip addr add 10.98.0.{own}/24 dev wire; ip link set wire up; \
             ip neigh add 10.98.0.{other} lladdr 02:00:00:00:00:0{other} dev wire nud permanent"
        ));
    }
    let line = format!("tc qdisc replace dev wire root {qdisc}");
    let output =
        world.server.enter(move || Command::new("sh").args(["-c", &line]).output().expect("a shell"));
    if !output.status.success() {
        let name = qdisc.split(' ').next().unwrap_or(qdisc);
        skip(name, &String::from_utf8_lossy(&output.stderr));
        return None;
    }
    Some(world)
}

/// Sends the packets: who let them go, and each one's time of sending and of arrival.
fn pass(world: &World, departures: Departures) -> (Departed, Vec<(u64, Time, Time)>) {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::load_or_make(&folder.path().join("identity.pem")).unwrap();
    let trust = Trust::Fingerprint(identity.fingerprint());
    let listen: SocketAddr = "10.98.0.2:0".parse().unwrap();
    let options = ReceiverOptions { listen, identity, folder: None, largest: 0 };
    let receiver = world.client.enter(move || Receiver::start(options, Arc::new(|_| ())).unwrap());
    let mut peer = Peer::new(receiver.address(), trust);
    peer.departures = departures;
    let arrived = Arc::new(Mutex::new(Vec::with_capacity(PACKETS)));
    let detector = Even {
        next: Time::ZERO,
        left: PACKETS,
        sent: Vec::with_capacity(PACKETS),
        arrived: Arc::clone(&arrived),
        over: false,
    };
    let (tell, told) = mpsc::channel();
    world.server.enter(move || {
        probe(ProbeJob {
            peer: &peer,
            detector: Box::new(detector),
            again: None,
            patience: std::time::Duration::from_secs(60),
            stop: &AtomicBool::new(false),
            watch: &mut |probed| tell.send(probed.departed.clone()).is_ok(),
        })
        .unwrap();
    });
    let departed = told.recv().unwrap();
    let mut arrived = std::mem::take(&mut *arrived.lock().unwrap());
    arrived.sort_unstable();
    (departed, arrived)
}

/// By how much intervals between arrivals differ from those between times of sending: of half of them, and of 9 in 10.
fn off(arrived: &[(u64, Time, Time)]) -> [i64; 2] {
    let signed = |one: Time, other: Time| one.as_nanos() as i64 - other.as_nanos() as i64;
    let mut off: Vec<i64> = arrived
        .windows(2)
        .map(|pair| (signed(pair[1].2, pair[0].2) - signed(pair[1].1, pair[0].1)).abs())
        .collect();
    off.sort_unstable();
    [off[off.len() / 2], off[off.len() * 9 / 10]]
}

fn keeps_times(qdisc: &str, by: &str) {
    let Some(world) = link(qdisc) else { return };
    let (departed, arrived) = pass(&world, Departures::Kernel);
    assert_eq!(departed.by, by, "{departed:?}");
    assert!(arrived.len() >= PACKETS * 95 / 100, "{} arrived, {departed:?}", arrived.len());
    let asked = arrived.windows(2).filter(|pair| pair[1].1.since(pair[0].1) == APART).count();
    let [half, most] = off(&arrived);
    println!(
        "{qdisc}: {} arrived, {asked} on time, off by {half} and {most} ns; {departed:?}",
        arrived.len()
    );
    assert!(asked > arrived.len() * 3 / 4, "{asked} of {} left when they were asked for", arrived.len());
    assert!(half < USUAL, "half are off by {half} ns, 9 in 10 by {most} ns");
}

#[test]
fn fq_keeps_times() {
    keeps_times("fq", "fq");
}

#[test]
fn etf_keeps_times() {
    keeps_times("etf clockid CLOCK_TAI delta 200000", "etf");
}

#[test]
fn the_thread_is_left_to_it() {
    for qdisc in
        ["fq", "etf clockid CLOCK_TAI delta 200000", "etf clockid CLOCK_TAI delta 200000 deadline_mode"]
    {
        let Some(world) = link(qdisc) else { continue };
        let (departed, arrived) = pass(&world, Departures::Thread);
        assert_eq!(departed.by, "thread");
        assert!(arrived.len() >= PACKETS * 95 / 100, "{qdisc}: {} arrived, {departed:?}", arrived.len());
    }
}
