//! Datagrams that no honest end sends, at both ends: before, during and after handshakes; from strangers who change what
//! they heard, and from ends that change their frames before they encrypt them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use weir_core::{Random, Seed};
use weir_testkit::counting::{Counting, held};

use crate::rehearsal::{Datagram, RECEIVER, Rehearsal, Tamper, parse};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many, if not the usual number.
const MANY: &str = "WEIR_HOSTILE_DATAGRAMS";
const USUAL: u64 = 100_000;
/// One run each.
const SEEDS: [u64; 4] = [1, 2, 3, 4];
/// Senders that are there at once.
const SENDERS: usize = 6;
/// Datagrams of each direction that a stranger remembers.
const HEARD: usize = 300;
/// Between two looks at what is left when everybody has gone.
const EPISODE: u64 = 25_000;
/// The receiver's own bound (`docs/reference/probe.md`).
const MOST_CONNECTIONS: usize = 32;
/// Bytes that may stay behind: tables keep their room.
const LEFT: i64 = 2 << 20;
/// Bytes that an episode may hold: what [`SENDERS`] have under way at both ends, and as much again.
const MOST_BYTES: i64 = 512 << 20;

/// Changes some bytes, all of them in place.
fn change(bytes: &mut [u8], random: &mut Random) {
    for _ in 0..=random.below(6) {
        let length = bytes.len() as u64;
        if length == 0 {
            return;
        }
        // Headers and the first frames matter most.
        let near = if random.below(3) > 0 { length.min(40) } else { length };
        let place = random.below(near) as usize;
        match random.below(3) {
            0 => bytes[place] = random.next_u64() as u8,
            1 => bytes[place] ^= 1 << random.below(8),
            _ => bytes[place] = [0, 1, 0x3f, 0x40, 0x7f, 0x80, 0xbf, 0xc0, 0xff][random.below(9) as usize],
        }
    }
}

fn mutate(datagram: &mut Vec<u8>, random: &mut Random) {
    match random.below(10) {
        // As it was: a replay.
        0 => return,
        1 => datagram.truncate(random.below(datagram.len() as u64 + 1) as usize),
        2 => datagram.extend((0..random.below(100)).map(|_| random.next_u64() as u8)),
        3 => *datagram = (0..random.below(1500)).map(|_| random.next_u64() as u8).collect(),
        _ => {}
    }
    change(datagram, random);
    datagram.truncate(1500);
}

/// What a stranger does, and what is counted.
struct Stranger {
    random: Random,
    heard: [Vec<Datagram>; 2],
    /// Bytes to the receiver that seem to come from hosts which have never sent any, and bytes that these got for it.
    in_name_of: HashMap<SocketAddr, [u64; 2]>,
    answers: u64,
}

impl Stranger {
    fn listen(&mut self, datagram: &Datagram) {
        if datagram.from == RECEIVER
            && let Some(count) = self.in_name_of.get_mut(&datagram.to)
        {
            count[1] += datagram.bytes.len() as u64;
            self.answers += 1;
            assert!(count[1] <= 3 * count[0], "{} got {count:?}", datagram.to);
        }
        let heard = &mut self.heard[usize::from(datagram.from == RECEIVER)];
        if heard.len() < HEARD {
            heard.push(datagram.clone());
        } else {
            heard[self.random.below(HEARD as u64) as usize] = datagram.clone();
        }
    }

    fn make_up(&mut self) -> Datagram {
        let random = &mut self.random;
        let from_receiver = usize::from(random.below(3) == 0);
        let mut datagram = random.choose(&self.heard[from_receiver]).cloned().unwrap_or(Datagram {
            from: ([203, 0, 0, 1], 5000).into(),
            to: RECEIVER,
            bytes: Vec::new(),
        });
        mutate(&mut datagram.bytes, random);
        if datagram.to == RECEIVER && random.below(2) == 0 {
            datagram.from = ([192, 0, 2, random.below(4) as u8], 9).into();
            self.in_name_of.entry(datagram.from).or_default()[0] += datagram.bytes.len() as u64;
        } else if random.below(20) == 0 {
            datagram.from = ([192, 0, 2, 200], 9).into();
            if datagram.to == RECEIVER {
                self.in_name_of.entry(datagram.from).or_default()[0] += datagram.bytes.len() as u64;
            }
        }
        datagram
    }
}

/// Changes one packet of so many.
fn tamper(seed: u64, one_in: u64) -> Tamper {
    let mut random = Seed { seed, run: 1 }.stream("tamper");
    Box::new(move |frames| {
        if random.below(one_in) == 0 {
            change(frames, &mut random);
        }
    })
}

fn run(seed: u64, many: u64) {
    let mut rehearsal = Rehearsal::new(seed);
    let random = Seed { seed, run: 0 }.stream("hostile");
    let mut stranger = Stranger { random, heard: Default::default(), in_name_of: HashMap::new(), answers: 0 };
    let (mut sent, mut rounds, mut most, mut connected) = (0, 0_u64, 0, 0);
    let mut left = None;
    while sent < many {
        let until = (sent + EPISODE).min(many);
        while sent < until {
            rounds += 1;
            let draw = |random: &mut Random, one_in| random.below(one_in) == 0;
            if rehearsal.senders()[0] < SENDERS && draw(&mut stranger.random, 8) {
                rehearsal.connect(draw(&mut stranger.random, 3));
            }
            let of_receiver = draw(&mut stranger.random, 6).then(|| tamper(seed ^ rounds, 5));
            let of_senders = draw(&mut stranger.random, 3).then(|| tamper(seed ^ rounds << 8, 5));
            for datagram in rehearsal.play(of_receiver, of_senders) {
                stranger.listen(&datagram);
                if stranger.random.below(20) > 0 {
                    rehearsal.deliver(&datagram);
                }
            }
            for _ in 0..50 {
                let datagram = stranger.make_up();
                rehearsal.deliver(&datagram);
                sent += 1;
            }
            match stranger.random.below(2000) {
                0 => rehearsal.wait(Duration::from_secs(20)),
                1..50 => rehearsal.wait(Duration::from_millis(50)),
                _ => rehearsal.wait_for_timer(Duration::from_millis(2)),
            }
            most = most.max(rehearsal.connections());
            connected = connected.max(rehearsal.senders()[1]);
            assert!(rehearsal.connections() <= MOST_CONNECTIONS);
            assert!(held() < MOST_BYTES, "{} bytes are held", held());
        }
        // Everybody goes, and nothing may stay behind.
        rehearsal.leave();
        for _ in 0..200 {
            rehearsal.wait_for_timer(Duration::from_secs(1));
            rehearsal.play(None, None);
        }
        assert_eq!((rehearsal.connections(), rehearsal.senders()), (0, [0, 0]));
        let before = *left.get_or_insert(held());
        assert!(held() < before + LEFT, "{} bytes, and {before} before", held());
    }
    assert!(connected > 0 && stranger.answers > 0, "nothing got far: {connected} {}", stranger.answers);
    eprintln!(
        "seed {seed}: {sent} datagrams in {rounds} rounds; {most} connections at once, {connected} of them up; \
         {} answers to strangers; {} bytes stay",
        stranger.answers,
        held()
    );
}

#[test]
fn hostile_datagrams_break_nothing() {
    let many = std::env::var(MANY).map_or(USUAL, |text| text.parse().unwrap());
    for seed in SEEDS {
        run(seed, many / SEEDS.len() as u64);
    }
}

#[test]
fn what_the_other_end_says_is_read_or_refused() {
    let mut random = Seed { seed: 7, run: 0 }.stream("said");
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..random.below(80)).map(|_| random.next_u64() as u8).collect();
        if let Some(kind) = bytes.first_mut() {
            *kind %= 12;
        }
        parse(&bytes);
    }
}

#[test]
fn without_strangers_a_rehearsal_goes_well() {
    let mut rehearsal = Rehearsal::new(1);
    rehearsal.connect(false);
    let mut bytes = 0;
    for _ in 0..2000 {
        for datagram in rehearsal.play(None, None) {
            bytes += datagram.bytes.len();
            rehearsal.deliver(&datagram);
        }
        rehearsal.wait_for_timer(Duration::from_millis(5));
    }
    assert_eq!((rehearsal.connections(), rehearsal.senders()), (1, [1, 1]));
    assert!(bytes > 1_000_000, "{bytes}");
}
