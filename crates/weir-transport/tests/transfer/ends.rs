//! A receiver and a sender, and what goes well or is refused.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver as Channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use weir_core::Random;
use weir_fq::catalog::Names;
use weir_fq::{Finding, Verdict};
use weir_transport::{
    Error, Fingerprint, Identity, Notice, Peer, ProbeJob, Qlog, Receiver, ReceiverOptions, SendJob,
    SendProgress, Sent, Trust, probe, send,
};

/// Where receivers and relays listen.
pub(crate) const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A folder with a receiver's certificate, its files, and a sender's.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("there")).unwrap();
        Self { folder }
    }

    pub(crate) fn there(&self) -> PathBuf {
        self.folder.path().join("there")
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity::load_or_make(&self.folder.path().join("identity.pem")).unwrap()
    }

    /// A receiver at a port, and its notices.
    pub(crate) fn receiver(&self, port: u16) -> (Receiver, Channel<Notice>) {
        self.receiver_at(SocketAddr::new(HOME, port)).unwrap()
    }

    pub(crate) fn receiver_at(&self, listen: SocketAddr) -> Result<(Receiver, Channel<Notice>), Error> {
        let (tell, told) = mpsc::channel();
        let tell = Mutex::new(tell);
        let options = ReceiverOptions {
            listen,
            identity: self.identity(),
            folder: Some(self.there()),
            largest: 1 << 40,
        };
        let listener = Arc::new(move |notice| drop(tell.lock().unwrap().send(notice)));
        Receiver::start(options, listener).map(|receiver| (receiver, told))
    }

    /// A file of noise.
    pub(crate) fn file(&self, bytes: usize) -> PathBuf {
        let path = self.folder.path().join("file.bin");
        fs::write(&path, noise(bytes)).unwrap();
        path
    }

    pub(crate) fn trust(&self) -> Trust {
        Trust::Fingerprint(self.identity().fingerprint())
    }
}

pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut random: Random = weir_core::Seed { seed: 5, run: 0 }.stream("noise");
    let mut noise: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|_| random.next_u64().to_ne_bytes()).collect();
    noise.truncate(bytes);
    noise
}

fn names(detector: &str) -> Names {
    Names { detector: detector.into(), shared: "cubic".into(), fair: None, again: None }
}

/// Sends a file by the detector `trains` until it is stopped, and tells `watch` how far it is.
pub(crate) fn send_until(
    path: &Path,
    address: SocketAddr,
    trust: Trust,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&SendProgress),
) -> Result<Sent, Error> {
    let peer = Peer::new(address, trust);
    send(&mut SendJob {
        path,
        name: "file.bin",
        peer: &peer,
        connection: &mut || names("trains").connection(&peer.setup(), peer.spacing).unwrap(),
        patience: Duration::from_secs(20),
        stop,
        watch,
    })
}

pub(crate) fn send_file(path: &Path, address: SocketAddr, trust: Trust) -> Result<Sent, Error> {
    send_until(path, address, trust, &AtomicBool::new(false), &mut |_| ())
}

#[test]
fn a_file_arrives_intact_over_both_sub_flows() {
    const BYTES: usize = 20_000_000;
    let place = Place::new();
    let (receiver, notices) = place.receiver(0);
    let path = place.file(BYTES);
    let sent = send_file(&path, receiver.address(), place.trust()).unwrap();
    assert_eq!((sent.size, sent.had, sent.connections), (BYTES as u64, 0, 1));
    assert!(fs::read(place.there().join("file.bin")).unwrap() == fs::read(&path).unwrap());
    assert_eq!(fs::read_dir(place.there()).unwrap().count(), 1, "nothing is left beside it");
    let [light, heavy] = &sent.findings.sent;
    assert!(*light > 0 && *heavy > 0, "{:?}", sent.findings);
    assert!(sent.findings.decided.is_some() && sent.names.0 == "trains" && sent.names.1.is_some());
    let mut notices = notices.try_iter();
    assert!(matches!(notices.next(), Some(Notice::Begins { had: 0, .. })));
    assert!(matches!(notices.last(), Some(Notice::Arrived { digest, .. }) if digest == sent.digest));
    eprintln!("{} bytes in {:?}; {:?}", sent.size, sent.took, sent.findings);

    // Once more: it is there.
    let again = send_file(&path, receiver.address(), place.trust()).unwrap();
    assert_eq!((again.had, &again.digest), (BYTES as u64, &sent.digest));
    // Another of the same name is not written over it.
    fs::write(&path, "something else").unwrap();
    let error = send_file(&path, receiver.address(), place.trust()).unwrap_err();
    assert!(matches!(&error, Error::Refused(why) if why.contains("another file")), "{error}");
    assert_eq!(fs::metadata(place.there().join("file.bin")).unwrap().len(), BYTES as u64);
}

#[test]
fn a_detection_is_written_as_qlog() {
    let place = Place::new();
    let (receiver, _notices) = place.receiver(0);
    let log = place.folder.path().join("events.sqlog");
    let mut peer = Peer::new(receiver.address(), place.trust());
    peer.qlog = Some(Qlog::create(&log).unwrap());
    let sent = send(&mut SendJob {
        path: &place.file(3_000_000),
        name: "file.bin",
        peer: &peer,
        connection: &mut || names("trains").connection(&peer.setup(), peer.spacing).unwrap(),
        patience: Duration::ZERO,
        stop: &AtomicBool::new(false),
        watch: &mut |_| (),
    })
    .unwrap();
    drop(peer);
    let text = fs::read_to_string(&log).unwrap();
    let records: Vec<Value> = text
        .split('\u{1e}')
        .skip(1)
        .map(|record| serde_json::from_str(record.strip_suffix('\n').unwrap()).unwrap())
        .collect();
    let (head, events) = records.split_first().unwrap();
    assert_eq!(head["file_schema"], "urn:ietf:params:qlog:file:sequential");
    let named = |name: &str| -> Vec<&Value> { events.iter().filter(|event| event["name"] == name).collect() };
    assert_eq!(named("weir:detection_began").len() as u64, sent.findings.detections);
    let [ended, ..] = named("weir:detection_ended")[..] else { panic!("it has not ended: {text}") };
    assert_eq!(ended["data"]["confidence"], sent.findings.verdict.confidence);
    assert_eq!(named("weir:controller_chosen")[0]["data"]["controller"], sent.names.1.unwrap());
    let trains = named("weir:train_weighed");
    assert!(!trains.is_empty() && trains.iter().all(|train| train["data"]["packets"].as_u64() > Some(0)));
    // What the detector asked for was sent, and what of it arrived was sent before.
    let [sent, arrived] = ["sent", "arrived"].map(|what| named(&format!("weir:packet_{what}")));
    assert!(sent.len() > 10 && !arrived.is_empty());
    for event in arrived {
        let of = |other: &&&Value| {
            ["sub_flow", "number"].iter().all(|key| other["data"][*key] == event["data"][*key])
        };
        if let Some(sent) = sent.iter().find(of) {
            assert!(sent["time"].as_f64() <= event["time"].as_f64(), "{event}");
        }
    }
}

#[test]
fn small_and_empty_files_arrive() {
    for bytes in [0, 1, 5000] {
        let place = Place::new();
        let (receiver, _notices) = place.receiver(0);
        let path = place.file(bytes);
        let sent = send_file(&path, receiver.address(), place.trust()).unwrap();
        assert_eq!(sent.size, bytes as u64);
        assert_eq!(fs::read(place.there().join("file.bin")).unwrap(), noise(bytes));
    }
}

#[test]
fn addresses_of_both_families_do() {
    for (listen, to) in [("[::1]:0", "::1"), ("[::]:0", "127.0.0.1"), ("0.0.0.0:0", "127.0.0.1")] {
        let place = Place::new();
        let Ok((receiver, _notices)) = place.receiver_at(listen.parse().unwrap()) else {
            weir_testkit::skip::skip("ipv6", "a receiver at an address of IPv6");
            continue;
        };
        let address = SocketAddr::new(to.parse().unwrap(), receiver.address().port());
        let sent = send_file(&place.file(300_000), address, place.trust()).unwrap();
        assert!(fs::read(place.there().join("file.bin")).unwrap() == noise(300_000), "{listen}");
        assert_eq!(sent.connections, 1);
    }
}

#[test]
fn one_address_has_a_few_connections_at_most() {
    const MOST: usize = 4;
    let place = Place::new();
    let (receiver, _notices) = place.receiver(0);
    let peer = Peer::new(receiver.address(), place.trust());
    let (stop, (tell, told)) = (AtomicBool::new(false), mpsc::channel());
    let look = |stop: &AtomicBool, watch: &mut dyn FnMut()| {
        probe(ProbeJob {
            peer: &peer,
            detector: Box::new(weir_fq::Trains::default()),
            again: Some(weir_core::Duration::from_secs(60)),
            patience: Duration::from_secs(60),
            stop,
            watch: &mut |_| {
                watch();
                true
            },
        })
    };
    std::thread::scope(|scope| {
        for _ in 0..MOST {
            let (look, stop, tell) = (&look, &stop, tell.clone());
            scope.spawn(move || assert_eq!(look(stop, &mut || tell.send(()).unwrap()), Err(Error::Stopped)));
        }
        (0..MOST).for_each(|_| told.recv_timeout(Duration::from_secs(60)).unwrap());
        let error = look(&AtomicBool::new(false), &mut || ()).unwrap_err();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(matches!(error, Error::Refused(_)), "{error}");
    });
}

#[test]
fn a_wrong_fingerprint_is_refused_with_both() {
    let place = Place::new();
    let (receiver, _notices) = place.receiver(0);
    let wrong: Fingerprint = "17".repeat(32).parse().unwrap();
    let path = place.file(10);
    let error = send_file(&path, receiver.address(), Trust::Fingerprint(wrong)).unwrap_err();
    let found = place.identity().fingerprint();
    assert_eq!(error, Error::Fingerprint { expected: wrong, found });
    let words = error.to_string();
    assert!(words.contains(&wrong.to_string()) && words.contains(&found.to_string()), "{words}");
    assert_eq!(fs::read_dir(place.there()).unwrap().count(), 0);
}

#[test]
fn an_authority_vouches_for_a_name() {
    let place = Place::new();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = rcgen::CertifiedIssuer::self_signed(params, key).unwrap();
    let own = rcgen::KeyPair::generate().unwrap();
    let signed = rcgen::CertificateParams::new(vec!["receiver.example".to_owned()]).unwrap();
    let signed = signed.signed_by(&own, &authority).unwrap();
    let at = |name: &str| place.folder.path().join(name);
    fs::write(at("identity.pem"), signed.pem() + &own.serialize_pem()).unwrap();
    fs::write(at("ca.pem"), authority.pem()).unwrap();
    let (receiver, _notices) = place.receiver(0);
    let path = place.file(5000);
    let mut peer = Peer::new(receiver.address(), Trust::Authorities(at("ca.pem")));
    for (name, works) in [("receiver.example", true), ("other.example", false)] {
        peer.name = Some(name.to_owned());
        let result = send(&mut SendJob {
            path: &path,
            name: "file.bin",
            peer: &peer,
            connection: &mut || names("trains").connection(&peer.setup(), peer.spacing).unwrap(),
            patience: Duration::ZERO,
            stop: &AtomicBool::new(false),
            watch: &mut |_| (),
        });
        assert_eq!(result.is_ok(), works, "{name}: {result:?}");
        if let Err(error) = result {
            assert!(error.to_string().contains("certificate"), "{error}");
        }
    }
}

#[test]
fn nobody_there_is_told_at_once() {
    let place = Place::new();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let began = std::time::Instant::now();
    let error = send_file(&place.file(10), address, place.trust()).unwrap_err();
    assert_eq!(error, Error::Nobody(address));
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_path_is_probed() {
    let place = Place::new();
    let (receiver, notices) = place.receiver(0);
    let mut found = Vec::new();
    let peer = Peer::new(receiver.address(), place.trust());
    probe(ProbeJob {
        peer: &peer,
        detector: Box::new(weir_fq::Trains::default()),
        again: Some(weir_core::Duration::from_millis(300)),
        patience: Duration::from_secs(30),
        stop: &AtomicBool::new(false),
        watch: &mut |probed| {
            found.push(probed.clone());
            found.len() < 3
        },
    })
    .unwrap();
    assert_eq!(found.iter().map(|probed| probed.findings.detections).collect::<Vec<_>>(), [1, 2, 3]);
    for probed in &found {
        eprintln!("{probed:?}");
        // The loopback interface has no bottleneck: nothing can be said for sure, least of all that it is fair-queued.
        let Verdict { finding, .. } = probed.findings.verdict;
        assert_ne!(finding, Finding::FairQueued);
        assert!(probed.findings.min_rtt.is_some_and(|rtt| rtt < weir_core::Duration::from_millis(200)));
    }
    let Ok(Notice::Probed { bytes, .. }) = notices.recv_timeout(Duration::from_secs(10)) else {
        panic!("the receiver has not noticed");
    };
    assert!(bytes > 10_000, "{bytes}");
}
