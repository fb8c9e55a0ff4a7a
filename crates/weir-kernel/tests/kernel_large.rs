//! Packets beyond what a test run takes (3.7 kB), on a live interface: jumbo frames and super-packets, most of whose
//! bytes lie in other pages. To the byte, the law counts what was sent.

#[path = "world/pins.rs"]
mod pins;
#[path = "world/queue.rs"]
mod queue;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use pins::Pins;
use queue::{attach_to, identity};
use weir_kernel::{ProgramConfig, Programs, Snapshot};
use weir_law::Params;
use weir_law::live::{LiveFlow, Transport};
use weir_testkit::world::{CLIENT, SERVER, World};

/// The bottleneck is a bridge; the programs are at `to-c`, which has no queue: nothing is lost.
const BRIDGE: &str = "ip link set to-s mtu 9000; ip link set to-c mtu 9000; ip link add br0 mtu 9000 type bridge; \
                      ip link set br0 up; ip link set to-s master br0; ip link set to-c master br0";

fn watch(name: &'static str) -> Option<(World, Pins, Programs)> {
    let world = World::new()?;
    world.bottleneck.sh(BRIDGE);
    world.server.sh("ip link set s mtu 9000");
    world.client.sh("ip link set c mtu 9000");
    let (pins, programs) = world.bottleneck.enter(|| {
        let (ifindex, netns) = identity("to-c");
        let pins = Pins::new(name);
        let programs = Programs::load(&ProgramConfig::new(Params::default(), 64, ifindex, netns)).unwrap();
        let programs = attach_to(programs, &pins.0);
        (pins, programs)
    });
    Some((world, pins, programs))
}

/// The only flow of a transport.
fn flow(pins: &Pins, transport: Transport) -> LiveFlow {
    let flows = Snapshot::open(&pins.0).unwrap().flows().unwrap();
    let mut flows = flows.into_iter().filter(|flow| flow.transport == transport);
    let flow = flows.next().expect("an entry");
    assert_eq!(flows.next(), None);
    flow
}

/// A QUIC-like exchange in which each datagram is answered, and the spin bit changes with every fourth. `segment` is
/// what a super-packet is cut into.
fn datagrams(world: &World, pins: &Pins, length: usize, segment: Option<u16>) {
    let pieces = segment.map_or(1, |segment| length.div_ceil(usize::from(segment)));
    let client = world.client.enter(|| UdpSocket::bind((CLIENT, 443)).unwrap());
    let server = world.server.enter(|| UdpSocket::bind((SERVER, 4433)).unwrap());
    for socket in [&client, &server] {
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    }
    server.connect((CLIENT, 443)).unwrap();
    if let Some(segment) = segment {
        let value = libc::c_int::from(segment);
        // SAFETY: the value is an int of the stated size.
        let result = unsafe {
            let length = size_of_val(&value) as u32;
            let option = std::ptr::from_ref(&value).cast();
            libc::setsockopt(server.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, option, length)
        };
        assert_eq!(result, 0);
    }
    let exchange = |rounds: u32| {
        let mut buffer = vec![0; 1 << 16];
        for round in 0..rounds {
            let first = 0x40 | u8::from(round / 4 % 2 == 1) << 5;
            assert_eq!(server.send(&vec![first; length]).unwrap(), length);
            let received: usize = (0..pieces).map(|_| client.recv(&mut buffer).unwrap()).sum();
            assert_eq!(received, length);
            client.send_to(&[first; 40], (SERVER, 4433)).unwrap();
            server.recv(&mut buffer).unwrap();
        }
    };
    exchange(8);
    let before = flow(pins, Transport::Quic);
    exchange(16);
    let after = flow(pins, Transport::Quic);
    assert_eq!((after.bytes.0 - before.bytes.0, after.packets - before.packets), (16 * length as u64, 16));
    assert_eq!(after.cycles - before.cycles, 4);
    // Four of them make a round trip of this sender's.
    assert_eq!(after.windows[1..].iter().map(|window| window.0).collect::<Vec<_>>(), [4 * length as u64; 2]);
}

#[test]
fn a_jumbo_datagram_counts_whole() {
    let Some((world, pins, _programs)) = watch("jumbo") else { return };
    // 9000 less the headers.
    datagrams(&world, &pins, 8972, None);
}

#[test]
fn a_super_packet_of_datagrams_counts_whole() {
    let Some((world, pins, _programs)) = watch("super") else { return };
    datagrams(&world, &pins, 46 * 1400, Some(1400));
}

#[test]
fn tcps_super_packets_count_whole() {
    const BYTES: usize = 8 << 20;
    let Some((world, pins, _programs)) = watch("tcp") else { return };
    let listener = world.client.enter(|| TcpListener::bind((CLIENT, 80)).unwrap());
    let mut sender = world.server.enter(|| TcpStream::connect((CLIENT, 80)).unwrap());
    let mut receiver = listener.accept().unwrap().0;
    let mut transfer = |bytes: usize| {
        std::thread::scope(|scope| {
            scope.spawn(|| sender.write_all(&vec![7; bytes]).unwrap());
            receiver.read_exact(&mut vec![0; bytes]).unwrap();
        });
        flow(&pins, Transport::Tcp)
    };
    let before = transfer(1 << 20);
    let after = transfer(BYTES);
    let (bytes, packets) = (after.bytes.0 - before.bytes.0, after.packets - before.packets);
    println!("{bytes} bytes in {packets} packets, {} cycles", after.cycles);
    // A timer that fires early on a busy machine sends a super-packet twice.
    let twice = bytes.checked_sub(BYTES as u64).expect("not less than was sent");
    assert!(twice <= 4 * 65_536, "{twice} bytes too many");
    assert!(packets < BYTES as u64 / 20_000, "{packets} packets are no super-packets");
    assert!(after.cycles > before.cycles, "{after:?}");
}
