//! Files over `weir_transport` beside noq's own bulk transfer, taking turns over the same link: two network namespaces and
//! between them a bridge whose way to the receiver the kernel's tbf holds at a rate. Needs root.
//!
//! `cargo run --release -p weirnet-transport --example beside_noq -- RATE MEGABYTES ROUNDS`, by default `1gbit 500 5`.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "measures on the real clock, and tells")]

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq::rustls::pki_types::PrivatePkcs8KeyDer;
use noq::rustls::{self, RootCertStore};
use noq::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig, VarInt};
use weir_fq::catalog::Names;
use weir_testkit::world::{CLIENT, World};
use weir_transport::{
    DATAGRAM, Fingerprint, Identity, Peer, Receiver, ReceiverOptions, SendJob, Trust, send,
};

/// What one transfer took.
#[derive(Clone, Copy)]
struct Took {
    seconds: f64,
    /// Of the processors, of both ends.
    busy: f64,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rate = arguments.next().unwrap_or_else(|| "1gbit".to_owned());
    let mut number = |usual: usize| arguments.next().map_or(usual, |text| text.parse().expect("a number"));
    let (megabytes, rounds) = (number(500), number(5));
    let world = World::new().expect("root, for network namespaces");
    world.bottleneck.sh("ip link add br0 type bridge; ip link set br0 up");
    world.bottleneck.sh("ip link set to-s master br0; ip link set to-c master br0");
    world.bottleneck.sh(&format!("tc qdisc add dev to-c root tbf rate {rate} burst 256kb limit 1mb"));
    // In memory: a disk is not what is compared.
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let path = folder.path().join("file.bin");
    std::fs::write(&path, vec![7; megabytes * 1_000_000]).expect("room in memory");

    println!("{:<12} {:>14} {:>14}", "", "Mbit/s good", "CPU s per GB");
    let mut all: [Vec<Took>; 2] = Default::default();
    for _ in 0..rounds {
        for (name, took) in
            [("noq", noq(&world, megabytes)), ("weir send", weir(&world, folder.path(), &path))]
        {
            show(name, megabytes, took);
            all[usize::from(name != "noq")].push(took);
        }
    }
    for (name, took) in ["noq", "weir send"].iter().zip(&mut all) {
        let mut median = |of: fn(&Took) -> f64| {
            took.sort_by(|one, other| of(one).total_cmp(&of(other)));
            of(&took[took.len() / 2])
        };
        let took = Took { seconds: median(|took| took.seconds), busy: median(|took| took.busy) };
        show(&format!("{name} *"), megabytes, took);
    }
    println!("* medians");
}

fn show(name: &str, megabytes: usize, took: Took) {
    let (good, busy) = (megabytes as f64 * 8.0 / took.seconds, took.busy * 1000.0 / megabytes as f64);
    println!("{name:<12} {good:>14.1} {busy:>14.2}");
}

/// Processor time of this process, in seconds.
fn busy() -> f64 {
    // SAFETY: plain data, for which zeros are valid; the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn measure(transfer: impl FnOnce()) -> Took {
    let (began, before) = (Instant::now(), busy());
    transfer();
    Took { seconds: began.elapsed().as_secs_f64(), busy: busy() - before }
}

/// A file, as `weir send` and `weir recv` do it.
fn weir(world: &World, folder: &std::path::Path, path: &std::path::Path) -> Took {
    let there = folder.join("there");
    std::fs::create_dir(&there).expect("a folder");
    let identity = || Identity::load_or_make(&folder.join("identity.pem")).expect("a certificate");
    let fingerprint: Fingerprint = identity().fingerprint();
    let options = ReceiverOptions {
        listen: SocketAddr::new(CLIENT.parse().expect("an address"), 0),
        identity: identity(),
        folder: Some(there.clone()),
        largest: u64::MAX,
    };
    let receiver =
        world.client.enter(move || Receiver::start(options, Arc::new(|_| ())).expect("a receiver"));
    let peer = Peer::new(receiver.address(), Trust::Fingerprint(fingerprint));
    let path = path.to_owned();
    let took = world.server.enter(move || {
        let (began, mut whole) = (Instant::now(), Duration::ZERO);
        let took = measure(|| {
            let names =
                Names { detector: "trains".into(), shared: "cubic-regain".into(), fair: None, again: None };
            let sent = send(&mut SendJob {
                path: &path,
                name: "file.bin",
                peer: &peer,
                connection: &mut || names.connection(&peer.setup(), peer.spacing).expect("known names"),
                patience: Duration::ZERO,
                stop: &AtomicBool::new(false),
                watch: &mut |_| whole = began.elapsed(),
            });
            sent.expect("a file that arrives");
        });
        // As with noq: until the other end has said that it has everything, which it is told last.
        Took { seconds: whole.as_secs_f64(), ..took }
    });
    drop(receiver);
    std::fs::remove_dir_all(there).expect("a folder that was made");
    took
}

/// As many bytes over a connection and a stream of noq, as its own benchmark has it.
fn noq(world: &World, megabytes: usize) -> Took {
    let made = rcgen::generate_simple_self_signed(vec!["weir.invalid".to_owned()]).expect("a certificate");
    let (certificate, key) = (made.cert.der().clone(), made.signing_key.serialize_der());
    let provider = || Arc::new(rustls::crypto::ring::default_provider());
    let transport = || {
        let mut config = TransportConfig::default();
        config.initial_mtu(DATAGRAM).min_mtu(DATAGRAM).mtu_discovery_config(None);
        // Its windows are the usual ones: with larger ones, losses make more gaps in a stream than noq allows.
        Arc::new(config)
    };
    let bind = || {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        for name in [libc::SO_RCVBUF, libc::SO_SNDBUF] {
            let value: libc::c_int = 4 << 20;
            let (at, size) = ((&raw const value).cast(), size_of_val(&value) as libc::socklen_t);
            // SAFETY: pointer and length are of a whole integer.
            unsafe {
                libc::setsockopt(std::os::fd::AsRawFd::as_raw_fd(&socket), libc::SOL_SOCKET, name, at, size)
            };
        }
        socket
    };
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");

    let (tell, told) = mpsc::channel();
    let server_certificate = certificate.clone();
    let receiving = world.client.spawn(move || {
        let tls = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|tls| {
                tls.with_no_client_auth()
                    .with_single_cert(vec![server_certificate], PrivatePkcs8KeyDer::from(key).into())
            })
            .expect("a server's cryptography");
        let mut config =
            ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).expect("TLS 1.3")));
        config.transport_config(transport());
        runtime().block_on(async {
            let endpoint =
                Endpoint::new(EndpointConfig::default(), Some(config), bind(), Arc::new(TokioRuntime))
                    .expect("an endpoint");
            tell.send(endpoint.local_addr().expect("an address").port()).expect("somebody who waits");
            let connection = endpoint.accept().await.expect("a sender").await.expect("a connection");
            let mut stream = connection.accept_uni().await.expect("a stream");
            let mut read = 0;
            while let Some(chunk) = stream.read_chunk(usize::MAX).await.expect("bytes") {
                read += chunk.len();
            }
            assert_eq!(read, megabytes * 1_000_000);
            connection.close(VarInt::from_u32(0), b"done");
            endpoint.wait_idle().await;
        });
    });
    let port = told.recv().expect("a receiver");
    let took = world.server.enter(move || {
        let mut roots = RootCertStore::empty();
        roots.add(certificate).expect("a certificate");
        let tls = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("TLS 1.3")));
        config.transport_config(transport());
        let runtime = runtime();
        let mut endpoint = None;
        let took = measure(|| {
            runtime.block_on(async {
                let new = Endpoint::new(EndpointConfig::default(), None, bind(), Arc::new(TokioRuntime));
                let endpoint = endpoint.insert(new.expect("an endpoint"));
                let address = SocketAddr::new(CLIENT.parse().expect("an address"), port);
                let connecting = endpoint.connect_with(config, address, "weir.invalid").expect("a peer");
                let connection = connecting.await.expect("a connection");
                let mut stream = connection.open_uni().await.expect("a stream");
                let chunk = vec![7; 1_000_000];
                for _ in 0..megabytes {
                    stream.write_all(&chunk).await.expect("bytes that go");
                }
                stream.finish().expect("an end");
                let _ = connection.closed().await;
            });
        });
        runtime.block_on(async { endpoint.expect("an endpoint").wait_idle().await });
        took
    });
    receiving.join().expect("a receiver that ends well");
    took
}
