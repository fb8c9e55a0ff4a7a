//! Losses, and ends that are killed.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_transport::{Error, Notice};

use crate::ends::{Place, noise, send_file, send_until};
use crate::relay::Relay;

#[test]
fn a_file_survives_losses() {
    const BYTES: usize = 3_000_000;
    let place = Place::new();
    let (receiver, _notices) = place.receiver(0);
    let relay = Relay::start(receiver.address(), 100);
    let sent = send_file(&place.file(BYTES), relay.address, place.trust()).unwrap();
    assert!(fs::read(place.there().join("file.bin")).unwrap() == noise(BYTES));
    let [heavy, light] = sent.ports.map(|port| relay.count(port));
    assert!(relay.lost.load(Ordering::Relaxed) > 10);
    // Both carried data, and the heavy one the most.
    assert!(heavy.1 > BYTES as u64 && light.1 > 4_000 && light.1 < heavy.1 / 10, "{heavy:?} {light:?}");
    eprintln!("lost {}; {:?}; {:?}", relay.lost.load(Ordering::Relaxed), sent.took, sent.findings);
}

#[test]
fn a_receiver_that_is_started_anew_goes_on() {
    const BYTES: usize = 60_000_000;
    let place = Place::new();
    let (receiver, notices) = place.receiver(0);
    let (address, path) = (receiver.address(), place.file(BYTES));
    let mut receivers = vec![(receiver, notices)];
    let mut at = None;
    let sent = send_until(&path, address, place.trust(), &AtomicBool::new(false), &mut |progress| {
        if progress.written > 5_000_000 && at.is_none() {
            at = Some(progress.written);
            receivers.clear();
            receivers.push(place.receiver(address.port()));
        }
    });
    let sent = sent.unwrap();
    assert_eq!((sent.had, sent.connections), (0, 2));
    assert!(fs::read(place.there().join("file.bin")).unwrap() == noise(BYTES));
    let Some(Notice::Begins { had, .. }) = receivers[0].1.try_iter().next() else {
        panic!("it has not begun")
    };
    assert!(had >= at.unwrap(), "{had} were there, {at:?} had been told");
    eprintln!("{:?}; {had} bytes were there", sent.took);
}

#[test]
fn a_sender_that_is_started_anew_goes_on() {
    const BYTES: usize = 60_000_000;
    let place = Place::new();
    let (receiver, _notices) = place.receiver(0);
    let (address, path) = (receiver.address(), place.file(BYTES));
    let stop = AtomicBool::new(false);
    let stopped = send_until(&path, address, place.trust(), &stop, &mut |progress| {
        stop.fetch_or(progress.written > 5_000_000, Ordering::Relaxed);
    });
    assert_eq!(stopped.unwrap_err(), Error::Stopped);
    assert!(!place.there().join("file.bin").exists());
    let sent = send_file(&path, address, place.trust()).unwrap();
    assert!(sent.had >= 5_000_000, "{sent:?}");
    assert!(fs::read(place.there().join("file.bin")).unwrap() == noise(BYTES));
}

#[test]
fn a_part_of_another_file_is_sent_anew() {
    let place = Place::new();
    let (receiver, notices) = place.receiver(0);
    fs::write(place.there().join(".file.bin.weir-part"), vec![7; 5000]).unwrap();
    let sent = send_file(&place.file(100_000), receiver.address(), place.trust()).unwrap();
    assert_eq!(sent.had, 0);
    assert!(fs::read(place.there().join("file.bin")).unwrap() == noise(100_000));
    assert!(matches!(notices.try_iter().next(), Some(Notice::Begins { had: 0, .. })));
}
