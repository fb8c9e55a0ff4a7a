//! Limits, bursts and turns on interfaces whose MTU is not Ethernet's, or changes: full packets fit, and what is up
//! says when it is for another MTU.

#[path = "world/live.rs"]
mod live;

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use live::{down, said, setup, up};
use weir_kernel as kernel;
use weir_testkit::world::{SERVER, World};

/// The bottleneck's address on the way to the server.
const HERE: &str = "10.99.0.9";

/// The bottleneck with an address on `to-s`, the interface that is shaped.
fn world() -> Option<World> {
    let world = World::new()?;
    world.bottleneck.sh(&format!("ip addr add {HERE}/24 dev to-s"));
    Some(world)
}

fn devices_and_queues() -> String {
    said("ip -o link show; tc qdisc show; tc class show dev to-s")
}

#[allow(clippy::disallowed_methods)]
fn pause(milliseconds: u64) {
    std::thread::sleep(std::time::Duration::from_millis(milliseconds));
}

/// Datagrams of `length` bytes that reach the server and come back, of three.
fn large_datagrams(world: &World, length: usize) -> usize {
    let far = world.server.enter(|| UdpSocket::bind((SERVER, 0)).unwrap());
    let near = world.bottleneck.enter(|| UdpSocket::bind((HERE, 0)).unwrap());
    for socket in [&far, &near] {
        // Far more than three of them take at 1 Mbit/s.
        socket.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
    }
    near.connect(far.local_addr().unwrap()).unwrap();
    let mut bytes = vec![0; 1 << 16];
    let mut crosses = || {
        near.send(&vec![7; length]).unwrap();
        let Ok((length, from)) = far.recv_from(&mut bytes) else { return false };
        far.send_to(&bytes[..length], from).unwrap();
        near.recv(&mut bytes).is_ok_and(|received| received == length)
    };
    (0..3).filter(|_| crosses()).count()
}

fn set_mtu(world: &World, mtu: u32) {
    world.bottleneck.sh(&format!("ip link set to-s mtu {mtu}"));
    world.server.sh(&format!("ip link set s mtu {mtu}"));
}

/// The numbers that follow `word` in the lines of a plan.
fn numbers(done: &kernel::Up, word: &str) -> Vec<u64> {
    let lines: String = done.steps.iter().map(|step| format!("{step}\n")).collect();
    let words: Vec<&str> = lines.split_whitespace().collect();
    let values = words.windows(2).filter(|pair| pair[0] == word);
    values.map(|pair| pair[1].trim_end_matches('b').parse().unwrap()).collect()
}

#[test]
fn a_full_packet_of_the_interface_fits() {
    let Some(world) = world() else { return };
    // Half of it for each queue: one BDP at 100 ms is 6250 bytes.
    let words = "to-s rate 1mbit queues bfifo/bfifo split hard";
    set_mtu(&world, 9000);
    world.bottleneck.enter(move || up(words).unwrap());
    assert_eq!(large_datagrams(&world, 8000), 3, "of 8000 bytes");
    world.bottleneck.enter(|| drop(down("to-s")));
    for mtu in [576, 1280, 1500, 9000, 65_535] {
        set_mtu(&world, mtu);
        world.bottleneck.enter(move || {
            let planned = kernel::plan(&setup(words)).unwrap();
            let full = u64::from(mtu) + 14;
            for (word, least) in
                [("burst", 2 * full), ("cburst", 2 * full), ("quantum", full), ("limit", 2 * full)]
            {
                let numbers = numbers(&planned, word);
                assert!(numbers.len() >= 2, "{word} at MTU {mtu}");
                assert!(numbers.iter().all(|number| *number >= least), "{word} at MTU {mtu}: {numbers:?}");
            }
        });
    }
}

#[test]
fn new_flows_of_full_packets_get_through_beside_a_flood() {
    let Some(world) = world() else { return };
    set_mtu(&world, 9000);
    world.bottleneck.enter(|| up("to-s rate 1mbit queues bfifo/bfifo split hard").unwrap());
    // At more than ten times the rate; each new flow has one packet.
    let stop = Arc::new(AtomicBool::new(false));
    let sink = world.server.enter(|| UdpSocket::bind((SERVER, 9)).unwrap());
    let target = world.server.enter(|| UdpSocket::bind((SERVER, 0)).unwrap());
    let flood = world.bottleneck.enter(|| UdpSocket::bind((HERE, 0)).unwrap());
    flood.connect(sink.local_addr().unwrap()).unwrap();
    let stopped = stop.clone();
    let flooding = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            // What does not fit is refused here and there; that is what a flood is for.
            let _ = flood.send(&[1; 8000]);
            pause(5);
        }
    });
    target.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
    let to = target.local_addr().unwrap();
    world.bottleneck.enter(move || {
        for _ in 0..200 {
            let flow = UdpSocket::bind((HERE, 0)).unwrap();
            let _ = flow.send_to(&[2; 8000], to);
            pause(10);
        }
    });
    stop.store(true, Ordering::Relaxed);
    flooding.join().unwrap();
    let mut bytes = vec![0; 1 << 16];
    let arrived = std::iter::from_fn(|| target.recv(&mut bytes).ok()).count();
    println!("{arrived} of 200 new flows got through beside the flood");
    assert!(arrived > 0);
}

#[test]
fn a_changed_mtu_is_told_and_followed() {
    let Some(world) = world() else { return };
    let before = world.bottleneck.enter(devices_and_queues);
    let words = "to-s rate 1mbit queues bfifo/bfifo direction both split hard";
    let faults = || {
        let all = kernel::instances().unwrap().into_iter().flat_map(|instance| instance.faults);
        all.map(|fault| (fault.what, fault.remedy)).collect::<Vec<_>>()
    };
    world.bottleneck.enter(move || {
        up(words).unwrap();
        assert_eq!(faults(), []);
    });
    for (mtu, former) in [(9000, 1500), (1280, 9000), (1500, 1280)] {
        set_mtu(&world, mtu);
        world.bottleneck.enter(move || {
            let told = faults();
            assert_eq!(told.len(), 2, "one for each direction: {told:?}");
            for (what, remedy) in told {
                assert!(what.contains(&format!("MTU of to-s is {mtu}")), "{what}");
                assert!(what.contains(&former.to_string()), "{what}");
                assert_eq!(remedy, "weir reload dev to-s");
            }
            assert!(!up(words).unwrap().steps.is_empty());
            assert_eq!(faults(), []);
            let links = said("ip -o link show type ifb");
            assert!(links.contains(&format!("mtu {mtu} ")), "{links}");
            assert_eq!(up(words).unwrap().steps, []);
        });
        let length = mtu as usize - 28;
        assert_eq!(large_datagrams(&world, length), 3, "of {length} bytes");
    }
    world.bottleneck.enter(move || {
        down("to-s");
        assert_eq!(devices_and_queues(), before);
    });
}

#[test]
fn a_limit_holds_a_packet_of_the_interface() {
    let Some(world) = world() else { return };
    set_mtu(&world, 9000);
    world.bottleneck.enter(|| {
        let before = devices_and_queues();
        for (queues, named) in
            [("standard bfifo limit 4000b", "limit: 4000b"), ("responsive bfifo limit 1bdp", "limit: 1bdp")]
        {
            let error = up(&format!("to-s rate 1mbit {queues}")).unwrap_err().to_string();
            for part in [named, "9014", "MTU 9000"] {
                assert!(error.contains(part), "no '{part}' in: {error}");
            }
        }
        assert_eq!(devices_and_queues(), before);
    });
    set_mtu(&world, 576);
    world
        .bottleneck
        .enter(|| up("to-s rate 1mbit standard bfifo limit 700b responsive bfifo").map(drop).unwrap());
    assert_eq!(large_datagrams(&world, 548), 3);
}
