//! A connection over the loopback interface, from pipe to pipe.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;

use bytes::Bytes;
use serde_json::Value;
use weir_cc::catalog;
use weir_cc::{Choice, EcnUse, Family, Setup};
use weir_core::{Duration, Rate, Seed, Time};
use weir_fq::{Connection, Departure, Detector, Finding, Options, Outcome, Packet, SubFlow, Verdict};

use crate::connect::{DATAGRAM, Peer, Sending, connect, listen};
use crate::identity::{Identity, Trust};
use crate::qlog::Qlog;
use crate::run::Running;
use crate::streams::Conversation;

/// Sends packets by turns, a millisecond apart, and keeps what it is told.
pub(crate) struct Turns {
    left: u32,
    next: Time,
    log: mpsc::Sender<Told>,
    over: bool,
}

/// What it is told.
#[derive(Debug)]
pub(crate) enum Told {
    /// That silence is no sign of a loss.
    Distrusts,
    /// And whether it was asked for, which a probe for a lost tail or a sign of life is not ([`forced`]).
    Sent(Packet, Option<Departure>),
    Arrived(Packet, Time),
}

impl Turns {
    const APART: Duration = Duration::from_millis(1);

    pub(crate) fn new(count: u32) -> (Self, mpsc::Receiver<Told>) {
        let (log, told) = mpsc::channel();
        (Self { left: count, next: Time::ZERO, log, over: false }, told)
    }
}

impl Detector for Turns {
    fn name(&self) -> &'static str {
        "turns"
    }

    fn distrust_silence(&mut self) {
        let _ = self.log.send(Told::Distrusts);
    }

    fn begin(&mut self, now: Time, rtt: Duration) {
        assert!(rtt > Duration::ZERO);
        self.next = now;
    }

    fn next(&self) -> Option<Departure> {
        let sub_flow = if self.left.is_multiple_of(2) { SubFlow::Heavy } else { SubFlow::Light };
        (self.left > 0).then_some(Departure { sub_flow, at: self.next })
    }

    fn on_sent(&mut self, packet: &Packet) {
        let asked = self.next().filter(|next| next.sub_flow == packet.sub_flow && next.at <= packet.sent);
        let _ = self.log.send(Told::Sent(*packet, asked));
        if asked.is_some() {
            self.left -= 1;
            self.next = packet.sent + Self::APART;
        }
    }

    fn on_arrival(&mut self, _: Time, packet: &Packet, at: Time) {
        let _ = self.log.send(Told::Arrived(*packet, at));
    }

    fn timer(&self) -> Option<Time> {
        (self.left == 0 && !self.over).then(|| self.next + Duration::from_millis(100))
    }

    fn on_timer(&mut self, now: Time) {
        self.over |= self.timer().is_some_and(|due| due <= now);
    }

    fn outcome(&self) -> Option<Outcome> {
        let verdict = Verdict { finding: Finding::FairQueued, confidence: 1.0, why: "order" };
        self.over.then_some(Outcome { verdict, rate: None::<Rate> })
    }
}

pub(crate) fn options(detector: Box<dyn Detector>, controller: &'static str) -> Options {
    let entry = catalog::find(controller).unwrap();
    let choose = move |_: &weir_fq::Chosen| {
        let setup = Setup {
            mss: u32::from(DATAGRAM),
            initial_window: 10,
            random: Seed::default().stream("test"),
            rate: None,
        };
        entry.make(&Choice { family: Family::Quic, ecn: false }, &setup)
    };
    Options { detector, choose: Box::new(choose), again: None, isolation: None, ecn: EcnUse::Off }
}

pub(crate) struct Pair {
    pub(crate) sending: Sending,
    pub(crate) receiving: Conversation,
    pub(crate) from: SocketAddr,
    pub(crate) _server: Running,
    /// The sender's qlog is in it.
    pub(crate) folder: tempfile::TempDir,
}

/// Connects two ends on the loopback interface.
pub(crate) fn pair(options: Options) -> Pair {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::load_or_make(&folder.path().join("identity.pem")).unwrap();
    let (accepted, accepts) = mpsc::channel();
    let accept = Box::new(move |from, conversation| accepted.send((from, conversation)).unwrap());
    let (server, at) = listen("127.0.0.1:0".parse().unwrap(), &identity, DATAGRAM, accept).unwrap();
    let trust = Trust::Fingerprint(identity.fingerprint());
    let qlog = Some(Qlog::create(&folder.path().join(QLOG)).unwrap());
    let peer = Peer { qlog, ..Peer::new(at, trust) };
    let sending = connect(&peer, Connection::new(options), &|| false).unwrap();
    let (from, receiving) = accepts.recv().unwrap();
    Pair { sending, receiving, from, _server: server, folder }
}

const QLOG: &str = "qlog";

/// Packets of the first detection that QUIC had to send at once, by sub-flow and number.
fn forced(folder: &Path) -> HashSet<(SubFlow, u64)> {
    let text = std::fs::read_to_string(folder.join(QLOG)).unwrap();
    let events = text.split('\u{1e}').skip(1).map(|event| serde_json::from_str::<Value>(event).unwrap());
    let data = events.filter(|event| event["name"] == "weir:packet_sent").map(|event| event["data"].clone());
    data.filter(|data| data["forced"] == true)
        .map(|data| {
            let sub_flow = if data["sub_flow"] == "heavy" { SubFlow::Heavy } else { SubFlow::Light };
            (sub_flow, data["number"].as_u64().unwrap())
        })
        .collect()
}

/// The n-th kilobyte of a transfer.
fn kilobyte(n: u32) -> Bytes {
    (0..1024_u32).map(|byte| (n.wrapping_mul(31).wrapping_add(byte) >> 3) as u8).collect()
}

#[test]
fn bytes_arrive_in_order_over_both_sub_flows() {
    const KILOBYTES: u32 = 5_000;
    const TURNS: u32 = 40;
    let (detector, told) = Turns::new(TURNS);
    let pair = pair(options(Box::new(detector), "cubic"));
    assert_eq!(pair.from.port(), pair.sending.ports[0]);
    let Pair { sending, receiving, .. } = &pair;

    sending.conversation.say.write(Bytes::from_static(b"hello")).unwrap();
    assert_eq!(receiving.hear.read().unwrap().as_deref(), Some(&b"hello"[..]));
    receiving.say.write(Bytes::from_static(b"hello, too")).unwrap();
    assert_eq!(sending.conversation.hear.read().unwrap().as_deref(), Some(&b"hello, too"[..]));

    let bulk = sending.conversation.bulk.clone();
    let writer = std::thread::spawn(move || {
        (0..KILOBYTES).for_each(|n| bulk.write(kilobyte(n)).unwrap());
        bulk.finish();
    });
    let (mut read, mut expected) = (0_usize, (0..KILOBYTES).flat_map(kilobyte));
    while read < KILOBYTES as usize * 1024 {
        let chunk = receiving.bulk.read().unwrap().unwrap();
        assert!(chunk.iter().all(|byte| expected.next() == Some(*byte)), "at {read}");
        read += chunk.len();
    }
    writer.join().unwrap();

    let findings = sending.shared.lock().findings().clone();
    assert_eq!(findings.verdict.finding, Finding::FairQueued);
    assert!(findings.sent.iter().all(|sent| *sent >= u64::from(TURNS) / 2), "{findings:?}");
    check_times(told.try_iter(), TURNS, &forced(pair.folder.path()));
}

/// Packets went when they were asked for, and arrived afterwards, in order of their departure. Nothing else went but
/// those that QUIC sends at once: probes, of which a receiver that the machine lets wait gets many.
fn check_times(mut told: impl Iterator<Item = Told>, turns: u32, forced: &HashSet<(SubFlow, u64)>) {
    let (mut late, mut probes, mut unasked, mut arrived) = (Vec::new(), 0, Vec::new(), Vec::new());
    assert!(matches!(told.next(), Some(Told::Distrusts)), "a detector must know that reports come late");
    for told in told {
        match told {
            Told::Distrusts => panic!("told twice"),
            Told::Sent(packet, Some(departure)) => late.push(packet.sent.since(departure.at)),
            Told::Sent(packet, None) if forced.contains(&(packet.sub_flow, packet.number)) => probes += 1,
            Told::Sent(packet, None) => unasked.push(packet),
            Told::Arrived(packet, at) => arrived.push((packet.order, at, packet.sent)),
        }
    }
    assert!(late.len() == turns as usize, "{} went when asked for", late.len());
    assert!(unasked.is_empty(), "went through a shut gate: {unasked:?}");
    // Nothing is lost on the loopback interface, and all arrivals but the last ones are told before the detection is
    // over.
    assert!(arrived.len() + 2 >= turns as usize, "{} arrived", arrived.len());
    arrived.sort();
    assert!(arrived.is_sorted_by_key(|(_, at, _)| *at), "{arrived:?}");
    // The clocks run apart by what the endpoints began apart, but at one pace.
    let offsets: Vec<i64> =
        arrived.iter().map(|(_, at, sent)| at.as_nanos() as i64 - sent.as_nanos() as i64).collect();
    let spread = offsets.iter().max().unwrap() - offsets.iter().min().unwrap();
    late.sort();
    let most = late[late.len() / 2];
    eprintln!("late by {most} at the median; {probes} probes; transit times differ by {spread} ns");
}
