//! Datagrams that no honest sender sends.

use std::collections::HashMap;
use std::fs;
use std::net::UdpSocket;
use std::time::Duration;

use weir_core::{Random, Seed};
use weir_testkit::relay::{Relay, Rough};

use crate::ends::{HOME, Place, noise, send_file};

/// Datagrams that are sent.
const MANY: usize = 100_000;

/// Mutates a datagram that was once heard, or makes one up.
fn mutate(heard: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut datagram = match random.choose(heard) {
        Some(heard) if random.below(8) > 0 => heard.clone(),
        _ => (0..random.below(1500)).map(|_| random.next_u64() as u8).collect(),
    };
    for _ in 0..random.below(6) {
        let length = datagram.len() as u64;
        match random.below(4) {
            0 => datagram.truncate(random.below(length + 1) as usize),
            1 if length > 0 => datagram[random.below(length) as usize] = random.next_u64() as u8,
            2 if length > 0 => datagram[random.below(length.min(30)) as usize] ^= 1 << random.below(8),
            _ => datagram.extend((0..random.below(100)).map(|_| random.next_u64() as u8)),
        }
    }
    datagram.truncate(1500);
    datagram
}

#[test]
fn hostile_datagrams_neither_crash_nor_amplify() {
    let place = Place::new();
    let (receiver, _notices) = place.receiver(0);
    let path = place.file(200_000);
    // What an honest sender sends, as material.
    let heard = {
        let relay = Relay::start(HOME, receiver.address(), Rough::default());
        send_file(&path, relay.address, place.trust()).unwrap();
        relay.heard()
    };
    assert!(heard.len() > 100 && heard.iter().any(|datagram| datagram[0] & 0x80 != 0));

    let mut random = Seed { seed: 3, run: 0 }.stream("hostile");
    let sockets: Vec<UdpSocket> = (0..4).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let mut sent: HashMap<usize, u64> = HashMap::new();
    let mut answered = [0_u64; 4];
    let mut answers = 0;
    let mut listen = |sockets: &[UdpSocket], wait: Option<Duration>| {
        for (socket, answered) in sockets.iter().zip(&mut answered) {
            socket.set_nonblocking(wait.is_none()).unwrap();
            socket.set_read_timeout(wait).unwrap();
            let mut buffer = [0; 2048];
            while let Ok(length) = socket.recv(&mut buffer) {
                *answered += length as u64;
                answers += 1;
            }
        }
    };
    for n in 0..MANY {
        let datagram = mutate(&heard, &mut random);
        let index = n % sockets.len();
        if sockets[index].send_to(&datagram, receiver.address()).is_ok() {
            *sent.entry(index).or_default() += datagram.len() as u64;
        }
        if n % 64 == 0 {
            listen(&sockets, None);
        }
    }
    listen(&sockets, Some(Duration::from_millis(500)));
    assert!(answers > 0, "not one got as far as to be answered");
    for (index, answered) in answered.iter().enumerate() {
        assert!(*answered <= sent[&index], "{answered} bytes for {}", sent[&index]);
    }
    eprintln!("{MANY} datagrams, {answers} answers: {answered:?} bytes for {sent:?}");

    // It still does what it is there for.
    fs::remove_file(place.there().join("file.bin")).unwrap();
    send_file(&path, receiver.address(), place.trust()).unwrap();
    assert!(fs::read(place.there().join("file.bin")).unwrap() == noise(200_000));
}
