//! A flood of forged packets on a real interface, beside a TCP connection that has earned its verdict.

#[path = "world/pins.rs"]
mod pins;
#[path = "world/queue.rs"]
mod queue;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use pins::Pins;
use queue::{attach_to, identity};
use weir_core::QueueChoice;
use weir_kernel::{ProgramConfig, Programs, Snapshot};
use weir_law::live::LiveFlow;
use weir_law::{Params, Verdict};
use weir_testkit::world::{CLIENT, SERVER, World};

/// Forged packets, half SYNs and half datagrams that look like QUIC.
const FORGED: u32 = 200_000;

/// The bottleneck is a bridge; its queue is at `to-c`. Full it holds a packet for 24 ms, which is the round trip, and a
/// connection loses about twice a second.
const BOTTLENECK: &str = "ip link add br0 type bridge; ip link set br0 up; \
    ip link set to-s master br0; ip link set to-c master br0; \
    tc qdisc add dev to-c root handle 57e1: htb default 2; \
    tc class add dev to-c parent 57e1: classid 57e1:ffff htb rate 20mbit ceil 20mbit burst 16k; \
    tc class add dev to-c parent 57e1:ffff classid 57e1:1 htb rate 10mbit ceil 20mbit burst 16k; \
    tc class add dev to-c parent 57e1:ffff classid 57e1:2 htb rate 10mbit ceil 20mbit burst 16k; \
    tc qdisc add dev to-c parent 57e1:1 handle 57e2: bfifo limit 60kb; \
    tc qdisc add dev to-c parent 57e1:2 handle 57e3: bfifo limit 60kb";

/// Programs at the queue, with a table so small that a flood could fill it at once.
fn classify() -> (Pins, Programs) {
    let (ifindex, netns) = identity("to-c");
    let pins = Pins::new("flood");
    let programs = Programs::load(&ProgramConfig::new(Params::default(), 64, ifindex, netns)).unwrap();
    let programs = attach_to(programs, &pins.0);
    (pins, programs)
}

/// How the connection sends.
const FULL: u8 = 0;
const GENTLE: u8 = 1;
const END: u8 = 2;

/// Sends as fast as it can, or 1 kB each 2 ms: less than half of what its queue is sure of.
fn sender(port: u16, how: &AtomicU8) {
    let mut stream = TcpStream::connect((CLIENT, port)).unwrap();
    stream.set_nodelay(true).unwrap();
    loop {
        match how.load(Ordering::Relaxed) {
            FULL => stream.write_all(&[1; 1 << 15]).unwrap(),
            GENTLE => {
                stream.write_all(&[1; 1024]).unwrap();
                std::thread::park_timeout(Duration::from_millis(2));
            }
            _ => return,
        }
    }
}

/// The Internet checksum (RFC 1071).
fn checksum(words: &[u8]) -> [u8; 2] {
    let sum: u32 = words.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
}

/// A packet of its own flow from an address of 198.18.0.0/15 (RFC 2544), which the client routes back to the server: it
/// answers each SYN with a reset, and datagrams with ICMP.
fn forged(number: u32, to: [u8; 6]) -> Vec<u8> {
    let client: Ipv4Addr = CLIENT.parse().unwrap();
    let from = Ipv4Addr::from(0xc612_0000 | number & 0x1_ffff);
    let is_tcp = number.is_multiple_of(2);
    let port = (1024 + (number >> 17) as u16).to_be_bytes();
    let mut transport = vec![port[0], port[1], 0, 9];
    if is_tcp {
        transport.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0x20, 0, 0, 0, 0, 0]);
        let mut pseudo = [from.octets(), client.octets()].concat();
        pseudo.extend([0, 6, 0, 20]);
        pseudo.extend(&transport);
        transport[16..18].copy_from_slice(&checksum(&pseudo));
    } else {
        transport.extend([0, 208, 0, 0]);
        transport.extend([0x40; 200]);
    }
    let length = (20 + transport.len() as u16).to_be_bytes();
    let mut header = vec![0x45, 2, length[0], length[1], 0, 0, 0, 0, 64, if is_tcp { 6 } else { 17 }, 0, 0];
    header.extend(from.octets());
    header.extend(client.octets());
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum);
    [&to[..], &[2, 0, 0, 0, 0, 9, 8, 0], &header, &transport].concat()
}

/// Sends all of them from the server's interface.
fn flood(to: [u8; 6]) {
    // SAFETY: makes a socket, which the descriptor then owns.
    let socket = unsafe {
        let raw = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
        assert!(raw >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(raw)
    };
    let (ifindex, _) = identity("s");
    // SAFETY: zeros are a valid address of any family.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = ifindex as i32;
    for number in 0..FORGED {
        let frame = forged(number, to);
        // SAFETY: frame and address are readable for the lengths that are passed.
        let sent = unsafe {
            libc::sendto(
                socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const address).cast(),
                size_of_val(&address) as u32,
            )
        };
        // A full queue of the server's own is no fault of the bottleneck.
        let full = std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOBUFS);
        assert!(sent == frame.len() as isize || full, "{}", std::io::Error::last_os_error());
    }
}

/// A connection from the server to the client.
struct Connection {
    port: u16,
    how: Arc<AtomicU8>,
    ends: [std::thread::JoinHandle<()>; 2],
}

impl Connection {
    fn new(world: &World, port: u16) -> Self {
        let listener = world.client.enter(move || TcpListener::bind((CLIENT, port)).unwrap());
        let receiver = world.client.spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut buffer = vec![0; 1 << 16];
            while let Ok(1..) = stream.read(&mut buffer) {}
        });
        let how = Arc::new(AtomicU8::new(FULL));
        let told = Arc::clone(&how);
        let sender = world.server.spawn(move || sender(port, &told));
        Self { port, how, ends: [sender, receiver] }
    }

    /// It as the programs know it, once `wanted` of it; `None` if not so within five seconds.
    fn until(&self, snapshot: &Snapshot, wanted: impl Fn(&LiveFlow) -> bool) -> Option<LiveFlow> {
        (0..50).find_map(|_| {
            std::thread::park_timeout(Duration::from_millis(100));
            let flows = snapshot.flows().unwrap();
            flows.into_iter().find(|flow| flow.destination.port() == self.port && wanted(flow))
        })
    }

    /// Its state once it has earned its verdict and sends so little that nothing changes it. On a busy machine what a
    /// connection loses comes in bursts, by which not each is found responsive.
    fn earn(&self, snapshot: &Snapshot) -> Option<LiveFlow> {
        let responsive = |flow: &LiveFlow| flow.class.loss == Verdict::Responsive;
        self.until(snapshot, responsive)?;
        self.how.store(GENTLE, Ordering::Relaxed);
        // What was lost before is judged when this is over.
        std::thread::park_timeout(Duration::from_millis(500));
        self.until(snapshot, |_| true).filter(responsive)
    }

    fn end(self) {
        self.how.store(END, Ordering::Relaxed);
        self.ends.into_iter().for_each(|end| end.join().unwrap());
    }
}

#[test]
fn a_flood_beside_a_connection_changes_nothing_of_it() {
    let Some(world) = World::new() else { return };
    world.bottleneck.sh(BOTTLENECK);
    world.server.sh("ethtool -K s tso off gso off; ip neigh flush all");
    world.client.sh(&format!("ip route add default via {SERVER}"));
    let (pins, _programs) = world.bottleneck.enter(classify);
    let snapshot = Snapshot::open(&pins.0).unwrap();
    let to = world.client.enter(hardware_address);
    let mut earned = None;
    for port in 80..90 {
        let connection = Connection::new(&world, port);
        if let Some(before) = connection.earn(&snapshot) {
            earned = Some((connection, before));
            break;
        }
        connection.end();
    }
    let (connection, before) = earned.expect("a verdict of one in ten");
    let flows = snapshot.flows().unwrap().len();
    let counted = snapshot.counters().unwrap();
    world.server.enter(move || flood(to));
    let after = connection.until(&snapshot, |flow| flow.cycles > before.cycles + 20).expect("it goes on");
    connection.end();

    println!("{before:?}\n{after:?}");
    assert_eq!((after.class, after.choice), (before.class, QueueChoice::Responsive));
    let counters = snapshot.counters().unwrap();
    println!("{counters:?}");
    let seen = counters.quic.packets - counted.quic.packets;
    assert!(seen > u64::from(FORGED) * 4 / 10, "only {seen} datagrams came by");
    assert!(counters.tcp.packets - counted.tcp.packets > u64::from(FORGED) * 4 / 10, "{counters:?}");
    // The forged flows have no entry, although the client answered them, and nobody lost one to them.
    assert_eq!(snapshot.flows().unwrap().len(), flows);
    assert_eq!((counters.admitted, counters.evicted), (flows as u64, 0));
}

/// That of the client's interface.
fn hardware_address() -> [u8; 6] {
    let output = std::process::Command::new("ip").args(["-j", "link", "show", "dev", "c"]).output().unwrap();
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = all[0]["address"].as_str().unwrap();
    let octets: Vec<u8> = text.split(':').map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect();
    octets.try_into().unwrap()
}
