//! A host between both ends, which may lose, delay and hear datagrams.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_core::Seed;

/// Datagrams and their bytes, by the sender's port.
type Counts = HashMap<u16, (u64, u64)>;

pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    counts: Arc<Mutex<Counts>>,
    pub(crate) lost: Arc<AtomicU64>,
    heard: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// Datagrams from senders that are kept.
const KEPT: usize = 500;

impl Relay {
    /// Passes datagrams on to the receiver and back, and loses one of `one_in`, in both directions.
    pub(crate) fn start(receiver: SocketAddr, one_in: u64) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = front.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (counts, lost): (Arc<Mutex<Counts>>, Arc<AtomicU64>) = Default::default();
        front.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut relay = Self {
            address,
            stop: Arc::clone(&stop),
            threads: Vec::new(),
            counts: Arc::clone(&counts),
            lost,
            heard: Arc::default(),
        };
        let heard = Arc::clone(&relay.heard);
        let lost = Arc::clone(&relay.lost);
        let thread = std::thread::spawn(move || {
            let mut backs: HashMap<SocketAddr, (UdpSocket, JoinHandle<()>)> = HashMap::new();
            let mut random = Seed { seed: 1, run: 0 }.stream("forward");
            let mut buffer = [0; 2048];
            while !stop.load(Ordering::Relaxed) {
                let Ok((length, from)) = front.recv_from(&mut buffer) else { continue };
                let (back, _) = backs.entry(from).or_insert_with(|| {
                    let back = UdpSocket::bind("127.0.0.1:0").unwrap();
                    back.connect(receiver).unwrap();
                    back.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                    let (answers, front) = (back.try_clone().unwrap(), front.try_clone().unwrap());
                    let (stop, lost) = (Arc::clone(&stop), Arc::clone(&lost));
                    let thread = std::thread::spawn(move || {
                        let mut random = Seed { seed: 2, run: u64::from(from.port()) }.stream("back");
                        let mut buffer = [0; 2048];
                        while !stop.load(Ordering::Relaxed) {
                            let Ok(length) = answers.recv(&mut buffer) else { continue };
                            if random.below(one_in) == 0 {
                                lost.fetch_add(1, Ordering::Relaxed);
                            } else {
                                let _ = front.send_to(&buffer[..length], from);
                            }
                        }
                    });
                    (back, thread)
                });
                if random.below(one_in) == 0 {
                    lost.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                let mut counts = counts.lock().unwrap();
                let count = counts.entry(from.port()).or_default();
                (count.0, count.1) = (count.0 + 1, count.1 + length as u64);
                drop(counts);
                let mut heard = heard.lock().unwrap();
                if heard.len() < KEPT {
                    heard.push(buffer[..length].to_vec());
                }
                drop(heard);
                let _ = back.send(&buffer[..length]);
            }
            backs.into_values().for_each(|(_, thread)| thread.join().unwrap());
        });
        relay.threads.push(thread);
        relay
    }

    /// The first datagrams that came from senders.
    pub(crate) fn heard(&self) -> Vec<Vec<u8>> {
        self.heard.lock().unwrap().clone()
    }

    /// What has come from a port.
    pub(crate) fn count(&self, port: u16) -> (u64, u64) {
        self.counts.lock().unwrap().get(&port).copied().unwrap_or_default()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}
