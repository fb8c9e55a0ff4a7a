//! `up` on interfaces that are no Ethernet cards: tunnels without an Ethernet header, bridges, and such as come and go.

#[path = "world/live.rs"]
mod live;
#[path = "world/tunnel.rs"]
mod tunnel;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use live::{down, quietly, said, sent_by, up};
use tunnel::{FAR, NEAR, Tunnel};
use weir_kernel::{self as kernel, Direction, Snapshot};
use weir_testkit::world::{Namespace, World};

/// Sends so many bytes by TCP.
fn transfer(from: &Namespace, to: &Namespace, address: &'static str, bytes: usize) {
    let listener = to.enter(move || TcpListener::bind((address, 0)).unwrap());
    let target = listener.local_addr().unwrap();
    let reader = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; 1 << 16];
        std::iter::from_fn(|| stream.read(&mut buffer).ok().filter(|read| *read > 0)).sum::<usize>()
    });
    let mut stream = from.enter(move || TcpStream::connect(target).unwrap());
    stream.write_all(&vec![0; bytes]).unwrap();
    drop(stream);
    assert_eq!(reader.join().unwrap(), bytes);
}

/// TCP both ways and echoes through a tunnel without Ethernet headers, both directions shaped; the law knows the flows.
#[test]
fn a_tunnel_is_shaped_both_ways() {
    let Some(world) = World::new() else { return };
    let tunnel = Tunnel::new(&world.bottleneck, &world.server);
    world.bottleneck.enter(|| {
        up("t0 rate 30mbit ingress_rate 20mbit queues bfifo/bfifo direction both flows 64").unwrap();
    });
    const BYTES: usize = 2_000_000;
    transfer(&world.bottleneck, &world.server, FAR, BYTES);
    transfer(&world.server, &world.bottleneck, NEAR, BYTES);
    assert_eq!(world.server.enter(|| tunnel::echoes(NEAR, 10)), 10);
    world.bottleneck.enter(|| {
        let instances = kernel::instances().unwrap();
        assert_eq!(instances.len(), 2);
        for instance in &instances {
            assert_eq!(instance.faults, []);
            let snapshot = Snapshot::open(&instance.pins).unwrap();
            let counters = snapshot.counters().unwrap();
            let way = instance.direction;
            // Data one way, acknowledgements the other.
            assert!(counters.tcp.packets as usize > BYTES / 1460, "{way}: {counters:?}");
            assert!(counters.admitted > 0, "{way}: {counters:?}");
            assert!(!snapshot.flows().unwrap().is_empty(), "{way}");
            let least = if way == Direction::Ingress { BYTES / 1460 + 10 } else { BYTES / 1460 };
            assert!(sent_by(&instance.queue_device) as usize > least, "{way}");
        }
        down("t0");
        assert_eq!(kernel::instances().unwrap(), []);
        assert!(!said("ip -o link show").contains("ifb"));
        assert!(!said("tc qdisc show dev t0").contains("clsact"));
    });
    transfer(&world.server, &world.bottleneck, NEAR, BYTES);
    drop(tunnel);
}

/// Frames between the ports of a bridge do not come by its qdisc.
#[test]
fn a_bridge_is_told_to_shape_no_bridged_traffic() {
    let Some(world) = World::new() else { return };
    world.bottleneck.enter(|| {
        quietly(
            "ip link add br0 type bridge; ip link set to-s master br0; ip link set to-c master br0; ip link set br0 up; \
             ip link add lone type bridge; ip link set lone up",
        );
        for direction in ["egress", "ingress", "both"] {
            let words = format!("br0 rate 100mbit queues bfifo/bfifo flows 64 direction {direction}");
            let warnings = up(&words).unwrap().warnings;
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            for part in ["br0 is a bridge", "to-s", "to-c", "weir up dev to-"] {
                assert!(warnings[0].contains(part), "no '{part}' in {warnings:?}");
            }
            down("br0");
        }
        let words = "lone rate 100mbit queues bfifo/bfifo flows 64";
        assert!(up(words).unwrap().warnings[0].contains("lone is a bridge"));
        down("lone");
        assert_eq!(up(&words.replace("lone", "to-s")).unwrap().warnings, Vec::<String>::new());
        down("to-s");
    });
}
