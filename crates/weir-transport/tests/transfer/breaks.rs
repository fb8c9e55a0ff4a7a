//! Losses, and ends that are killed.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_testkit::relay::{Relay, Rough};
use weir_transport::{Error, Notice, SendProgress};

use crate::ends::{HOME, Place, noise, send_file, send_until};

#[test]
fn a_file_survives_losses() {
    const BYTES: usize = 3_000_000;
    let place = Place::new();
    let (receiver, _notices) = place.receiver(0);
    let relay = Relay::start(HOME, receiver.address(), Rough { lose: Some(100), hold: None });
    let sent = send_file(&place.file(BYTES), relay.address, place.trust()).unwrap();
    assert!(fs::read(place.there().join("file.bin")).unwrap() == noise(BYTES));
    let [heavy, light] = sent.ports.map(|port| relay.count(port));
    let (lost, _) = relay.lost_and_held();
    assert!(lost > 10);
    // Both carried data, and the heavy one the most.
    assert!(heavy.1 > BYTES as u64 && light.1 > 4_000 && light.1 < heavy.1 / 10, "{heavy:?} {light:?}");
    eprintln!("lost {lost}; {:?}; {:?}", sent.took, sent.findings);
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

#[test]
fn what_is_lost_goes_before_what_is_new() {
    const BYTES: usize = 4_000_000;
    let place = Place::new();
    let (receiver, _notices) = place.receiver(0);
    let relay = Relay::start(HOME, receiver.address(), Rough { lose: Some(100), hold: None });
    relay.lengthen(Duration::from_millis(5));
    let (began, mut news) = (Instant::now(), vec![Instant::now()]);
    let mut written = 0;
    let watch = &mut |progress: &SendProgress| {
        if progress.written != written {
            written = progress.written;
            news.push(Instant::now());
        }
    };
    send_until(&place.file(BYTES), relay.address, place.trust(), &AtomicBool::new(false), watch).unwrap();
    // Otherwise the receiver could write little before the sender has sent all that it may have under way.
    let gap = news.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(gap * 2 < began.elapsed(), "nothing was written for {gap:?} of {:?}", began.elapsed());
}
