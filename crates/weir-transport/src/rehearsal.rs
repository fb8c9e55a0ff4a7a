//! Both ends without sockets, threads or a clock: what goes over the network is passed by hand, so that tests and fuzzers
//! can lose it, change it, or make it up. Also what an end that has the keys can do: change frames before they are
//! encrypted.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use noq_proto::FourTuple;
use weir_core::{Random, Seed};
use weir_fq::Shared;
use weir_fq::catalog::Names;

use crate::clock::now;
use crate::connect::{Connecting, DATAGRAM, Peer, receiver, sender};
use crate::departures::Timing;
use crate::endpoint::{Answer, Endpoint};
use crate::identity::{Expected, Identity, Trust};
use crate::messages::{Message, Talk};
use crate::partial::check_name;
use crate::pipe::{Chunk, Waker};
use crate::streams::Conversation;
use crate::{frames, report};

/// Changes the frames of a packet before it is encrypted; their number stays.
pub type Tamper = Box<dyn FnMut(&mut [u8])>;

thread_local! {
    static TAMPER: RefCell<Option<Tamper>> = const { RefCell::new(None) };
}

/// A packet of the handshake or behind it is about to be encrypted.
pub(crate) fn tamper(frames: &mut [u8]) {
    TAMPER.with_borrow_mut(|tamper| {
        if let Some(tamper) = tamper {
            tamper(frames);
        }
    });
}

/// A datagram between two ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Where it comes from, or seems to.
    pub from: SocketAddr,
    /// Where it goes.
    pub to: SocketAddr,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// A receiver, and senders that connect to it.
pub struct Rehearsal {
    now: Instant,
    waker: Waker,
    peer: Peer,
    receiver: Endpoint,
    accepted: mpsc::Receiver<Conversation>,
    talks: Vec<Talk>,
    senders: Vec<Sender>,
    sent: Vec<Datagram>,
    begun: u16,
    random: Random,
    expected: Expected,
}

struct Sender {
    endpoint: Endpoint,
    /// Of the heavy sub-flow, and of the light one.
    addresses: [SocketAddr; 2],
    talk: Talk,
    shared: Shared,
}

/// Where the receiver is.
pub const RECEIVER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 1)), 9347);
/// Bulk data that a sender has to send at a time.
const CHUNK: usize = 16 << 10;

impl Rehearsal {
    /// A receiver to which nobody has connected yet.
    pub fn new(seed: u64) -> Self {
        let (now, waker, identity) =
            (now(), Waker::new().expect("a waker"), Identity::make().expect("a certificate"));
        let (tell, accepted) = mpsc::channel();
        let accept = Box::new(move |_, conversation| drop(tell.send(conversation)));
        let peer = Peer::new(RECEIVER, Trust::Fingerprint(identity.fingerprint()));
        Self {
            now,
            receiver: receiver(&identity, DATAGRAM, accept, waker.clone(), now).expect("a receiver"),
            expected: Expected::new(&peer.trust).expect("a sender's cryptography"),
            waker,
            peer,
            accepted,
            talks: Vec::new(),
            senders: Vec::new(),
            sent: Vec::new(),
            begun: 0,
            random: Seed { seed, run: 0 }.stream("rehearsal"),
        }
    }

    /// Another sender begins to connect; of several, each is at an address of its own. One that has a file, or one that
    /// probes.
    pub fn connect(&mut self, probes: bool) {
        let names = Names { detector: "trains".into(), shared: "cubic".into(), fair: None, again: None };
        let setup = weir_cc::Setup { random: self.random.clone(), ..self.peer.setup() };
        let connection = names.connection(&setup, self.peer.spacing).expect("names that are known");
        let (waker, timing) = (self.waker.clone(), Arc::new(Timing::thread()));
        let Connecting { endpoint, conversation, shared, .. } =
            sender(&self.peer, connection, &self.expected, waker, &timing, self.now).expect("a sender");
        self.begun = self.begun.wrapping_add(1);
        let [high, low] = self.begun.to_be_bytes();
        let addresses = [5000, 5001].map(|port| SocketAddr::from(([203, 0, high, low], port)));
        let talk = Talk::new(conversation);
        let first =
            if probes { Message::Probe } else { Message::File { name: "file".into(), size: 1 << 30 } };
        let _ = talk.say(&first);
        self.senders.push(Sender { endpoint, addresses, talk, shared });
    }

    /// Time passes.
    pub fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    /// Time passes until an end has something to do, but not more than so much.
    pub fn wait_for_timer(&mut self, most: Duration) {
        let ends = self.senders.iter().map(|sender| &sender.endpoint).chain([&self.receiver]);
        let due = ends.filter_map(Endpoint::timer).map(|(due, _)| due).min();
        self.now = due.map_or(self.now + most, |due| due.clamp(self.now, self.now + most));
    }

    /// Both applications read and write, both ends do what is due, and give what they send. Frames of the receiver, and
    /// of the senders, are changed before they are encrypted if that is wanted.
    pub fn play(&mut self, mut of_receiver: Option<Tamper>, mut of_senders: Option<Tamper>) -> Vec<Datagram> {
        self.apply();
        let now = self.now;
        let mut buffer = Vec::with_capacity(2048);
        TAMPER.set(of_receiver.take());
        self.receiver.drive(now);
        while let Some((handle, transmit)) = self.receiver.transmit(now, &mut buffer) {
            self.receiver.departing(handle, now);
            let bytes = buffer[..transmit.size].to_vec();
            self.sent.push(Datagram { from: RECEIVER, to: transmit.destination, bytes });
            buffer.clear();
        }
        TAMPER.set(of_senders.take());
        let label = Endpoint::label(RECEIVER);
        for sender in &mut self.senders {
            sender.endpoint.drive(now);
            while let Some((handle, transmit)) = sender.endpoint.transmit(now, &mut buffer) {
                sender.endpoint.departing(handle, now);
                let from = sender.addresses[usize::from(transmit.src_ip == Some(label))];
                let bytes = buffer[..transmit.size].to_vec();
                self.sent.push(Datagram { from, to: transmit.destination, bytes });
                buffer.clear();
            }
        }
        TAMPER.set(None);
        self.senders.retain(|sender| !sender.endpoint.is_empty());
        std::mem::take(&mut self.sent)
    }

    /// What the applications would do: the senders write, the receiver reads, both hear what the other says.
    fn apply(&mut self) {
        for conversation in self.accepted.try_iter() {
            self.talks.push(Talk::new(conversation));
        }
        self.talks.retain_mut(|talk| {
            while let Chunk::Bytes(_) = talk.conversation.bulk.take() {}
            match talk.hear_for(Duration::ZERO) {
                Ok(Some(Message::File { name, .. })) if check_name(&name).is_ok() => {
                    talk.say(&Message::Have { bytes: 0, digest: [0; 32] }).is_ok()
                }
                Ok(Some(Message::Probe)) => talk.say(&Message::Go).is_ok(),
                Ok(Some(Message::From { .. }) | None) => true,
                Ok(Some(_)) | Err(_) => {
                    talk.conversation.close("no");
                    false
                }
            }
        });
        for sender in &mut self.senders {
            let conversation = &sender.talk.conversation;
            while !conversation.is_over() && conversation.bulk.room() > 3 << 20 {
                let _ = conversation.bulk.write(Bytes::from(vec![7; CHUNK]));
            }
            match sender.talk.hear_for(Duration::ZERO) {
                Ok(Some(Message::Have { .. })) => drop(sender.talk.say(&Message::From { bytes: 0 })),
                Ok(_) => {}
                Err(_) => sender.talk.conversation.close("no"),
            }
            let _ = sender.shared.lock().findings().clone();
        }
    }

    /// A datagram arrives at whoever it goes to. What answers it at once is among what [`play`](Self::play) gives next.
    pub fn deliver(&mut self, datagram: &Datagram) {
        let now = self.now;
        let (endpoint, local) = if datagram.to == RECEIVER {
            (&mut self.receiver, Some(RECEIVER.ip()))
        } else if datagram.from != RECEIVER {
            // A sender's sockets are connected: the kernel gives them what the receiver sends, and nothing else.
            return;
        } else {
            let place = |sender: &Sender| sender.addresses.iter().position(|address| *address == datagram.to);
            let Some((sender, place)) =
                self.senders.iter_mut().find_map(|sender| place(sender).map(|place| (sender, place)))
            else {
                return;
            };
            (&mut sender.endpoint, (place == 1).then(|| Endpoint::label(RECEIVER)))
        };
        let mut buffer = Vec::new();
        let path = FourTuple::new(datagram.from, local);
        let bytes = BytesMut::from(&datagram.bytes[..]);
        if let Answer::Send(transmit) = endpoint.on_datagram(now, now, path, None, bytes, &mut buffer) {
            let bytes = buffer[..transmit.size].to_vec();
            self.sent.push(Datagram { from: datagram.to, to: transmit.destination, bytes });
        }
    }

    /// All senders go without a word.
    pub fn leave(&mut self) {
        self.senders.clear();
    }

    /// Connections that the receiver has.
    pub fn connections(&self) -> usize {
        self.receiver.connections()
    }

    /// Senders that are still there, and of these, connected ones.
    pub fn senders(&self) -> [usize; 2] {
        let connected = |sender: &&Sender| sender.talk.conversation.is_connected();
        [self.senders.len(), self.senders.iter().filter(connected).count()]
    }
}

/// What reads bytes of the other end reads these: frames, reports, messages, names.
pub fn parse(bytes: &[u8]) {
    frames::look(bytes, |_| ());
    for arrival in report::read(bytes) {
        assert!(usize::from(arrival.path) < report::PATHS);
    }
    if let [kind, fields @ ..] = bytes
        && let Some(message) = Message::decode(*kind, fields)
        && let Message::File { name, .. } = &message
        && check_name(name).is_ok()
    {
        let path = std::path::Path::new("/folder").join(name);
        assert_eq!(path.parent(), Some(std::path::Path::new("/folder")), "{name:?} escapes");
    }
}
