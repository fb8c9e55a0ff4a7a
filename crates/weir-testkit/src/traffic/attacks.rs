//! Attacks on a live table: what outsiders, senders and receivers can do to it. They run against any [`Table`].

use weir_core::{Duration, QueueChoice, Seed, Time};
use weir_law::{Direction, Signal};

use super::{ACK, Carrier, Frame, Peer, SEGMENT, Table, end, quic_frame, tcp_frame};

pub const START: Time = Time::from_nanos(3_000_000_000_000);
pub const FORWARD: Direction = Direction::Forward;
pub const REVERSE: Direction = Direction::Reverse;

/// Packets of an attack, and how long it lasts.
pub const PACKETS: u64 = 1_000_000;
const MINUTE: u64 = 60_000_000_000;

pub fn peer(carrier: Carrier, number: u32) -> Peer {
    Peer::new(carrier, end(false, number, 443), end(false, 0x20_0000 + number, 50_000))
}

pub fn both() -> [Carrier; 2] {
    [Carrier::Tcp, Carrier::Quic]
}

/// `count` flows with verdicts, half TCP and half QUIC.
pub fn established(live: &mut impl Table, count: u32) -> (Vec<Peer>, Time) {
    let mut now = START;
    let mut peers: Vec<Peer> = (0..count).map(|number| peer(both()[number as usize % 2], number)).collect();
    for peer in &mut peers {
        now = peer.earn(live, now, Duration::from_millis(50));
    }
    (peers, now)
}

/// What became of fifty flows that began while an attack went on.
pub struct Arrivals {
    /// Round trips of 50 ms until the first packet that had an entry; sorted.
    pub rounds: Vec<u64>,
    /// The fifty flows that were there before.
    pub old: Vec<Peer>,
}

/// A minute of `attack`, called for each of a million packets, beside fifty flows of [`established`], of which each has
/// a round trip per second, and fifty new ones, one per second, that send ten segments per round trip of 50 ms.
pub fn under_attack<T: Table>(live: &mut T, attack: &mut dyn FnMut(&mut T, u64, Time)) -> Arrivals {
    let (mut old, begin) = established(live, 50);
    let memory = live.memory();
    let mut waiting: Vec<(Peer, u64)> = Vec::new();
    let mut rounds = Vec::new();
    for packet in 0..PACKETS {
        let now = begin + Duration::from_nanos(packet * (MINUTE / PACKETS));
        attack(live, packet, now);
        // 50 ms are 833 packets of the attack.
        let round = packet / 833;
        match packet % 833 {
            0 => {
                if round % 20 == 0 {
                    for peer in &mut old {
                        let found = peer.cycle(live, 10 * SEGMENT, SEGMENT, &[], now);
                        assert_eq!((found.known, found.choice), (true, QueueChoice::Responsive), "{peer:?}");
                    }
                    let number = (round / 20) as u32;
                    if number < 50 {
                        waiting.push((peer(both()[number as usize % 2], 1000 + number), round));
                    }
                    live.check();
                }
                for (peer, _) in &mut waiting {
                    peer.spin = !peer.spin;
                    for _ in 0..10 {
                        let data = peer.data_frame(SEGMENT);
                        live.arrive(&data, FORWARD, now);
                    }
                }
            }
            832 => waiting.retain(|(peer, first)| {
                live.arrive(&peer.answer_frame(), REVERSE, now);
                let known = live.knows(&peer.answer_frame());
                if known {
                    rounds.push(round - first + 1);
                }
                !known
            }),
            _ => {}
        }
    }
    assert_eq!(live.memory(), memory);
    let (taken, capacity) = live.taken();
    assert!(taken <= capacity);
    rounds.sort_unstable();
    Arrivals { rounds, old }
}

/// The only packet of a forged flow.
pub fn forged(packet: u64) -> Frame {
    let (from, to) = (end(false, 0x40_0000 + packet as u32, 443), end(false, 9, 50_000));
    if packet.is_multiple_of(2) {
        tcp_frame(from, to, (1, 1), ACK, SEGMENT)
    } else {
        quic_frame(from, to, packet % 4 == 1, 1200)
    }
}

/// Forged flows of five packets and a forged answer.
pub fn forged_with_answers(packet: u64) -> (Frame, Direction) {
    let (from, to) = (end(false, 0x40_0000 + (packet / 6) as u32, 443), end(false, 9, 50_000));
    if packet % 6 == 5 {
        return (tcp_frame(to, from, (1, 1), ACK, 0), REVERSE);
    }
    (tcp_frame(from, to, (1, 1), ACK, SEGMENT), FORWARD)
}

/// Newcomers under siege, one every half second, and for how long each tries.
pub const NEWCOMERS: u32 = 90;
const TRIES: u64 = 300;

/// An attack of `per_second` packets, called with the number of each: `warm_up` seconds alone, then beside
/// [`NEWCOMERS`] flows that send ten segments per round trip of 50 ms. Returns the round trips until the entry of each
/// that got one, sorted.
pub fn besieged<T: Table>(
    live: &mut T,
    per_second: u64,
    warm_up: u64,
    attack: &mut dyn FnMut(&mut T, u64, Time),
) -> Vec<u64> {
    let at = |nanos: u64| START + Duration::from_nanos(nanos);
    let (mut packet, mut rounds) = (0, Vec::new());
    let mut waiting: Vec<(Peer, u64)> = Vec::new();
    let mut attack_until = |live: &mut T, nanos: u64| {
        while packet * 1_000_000_000 / per_second < nanos {
            attack(live, packet, at(packet * 1_000_000_000 / per_second));
            packet += 1;
        }
    };
    for round in 0..u64::from(NEWCOMERS) * 10 + TRIES {
        let begin = warm_up * 1_000_000_000 + round * 50_000_000;
        attack_until(live, begin);
        if round.is_multiple_of(10) && round / 10 < u64::from(NEWCOMERS) {
            let number = (round / 10) as u32;
            waiting.push((peer(both()[number as usize % 2], 1000 + number), round));
        }
        for (peer, _) in &mut waiting {
            peer.spin = !peer.spin;
            for _ in 0..10 {
                let data = peer.data_frame(SEGMENT);
                live.arrive(&data, FORWARD, at(begin));
            }
        }
        attack_until(live, begin + 49_000_000);
        waiting.retain(|(peer, first)| {
            live.arrive(&peer.answer_frame(), REVERSE, at(begin + 49_000_000));
            let known = live.knows(&peer.answer_frame());
            if known {
                rounds.push(round - first + 1);
            }
            !known && round - first < TRIES
        });
    }
    rounds.sort_unstable();
    rounds
}

/// Two hosts that answer each other from many ports: forward and reverse packet of flow `number`.
fn accomplices(number: u64, payload: u32) -> [Frame; 2] {
    let host = end(false, 9, 1024 + (number % 50_000) as u16);
    let server = end(false, 0x40_0000 + (number / 50_000) as u32, 4433);
    [tcp_frame(server, host, (1, 1), ACK, payload), tcp_frame(host, server, (1, 1), ACK, 0)]
}

/// Packets that refresh `flows` answered flows in turn, each with one byte of payload: in the first turn a packet of
/// each direction, then one of either in turn.
pub fn refreshed(packet: u64, flows: u64) -> (Frame, Direction) {
    let (number, reverse) = if packet < 2 * flows {
        (packet / 2, packet % 2 == 1)
    } else {
        (packet % flows, packet / flows % 2 == 1)
    };
    let [forward, back] = accomplices(number, 1);
    if reverse { (back, REVERSE) } else { (forward, FORWARD) }
}

/// Five segments and an answer of each of `flows` flows, which earn them an entry, and then one byte of each in turn.
pub fn entered(packet: u64, flows: u64) -> (Frame, Direction) {
    let (number, within) = if packet < 6 * flows { (packet / 6, packet % 6) } else { (packet % flows, 6) };
    let [forward, back] = accomplices(number, if within < 5 { SEGMENT } else { 1 });
    if within == 5 { (back, REVERSE) } else { (forward, FORWARD) }
}

/// Full segments of `flows` flows in turn, and an answer to every eighth.
pub fn insistent(packet: u64, flows: u64) -> (Frame, Direction) {
    let [forward, back] = accomplices(packet % flows, SEGMENT);
    if packet / flows % 8 == 1 { (back, REVERSE) } else { (forward, FORWARD) }
}

/// A flow of constant rate whose spin bit is random, and which loses one packet in `one_in`. `beside` runs before each
/// of its packets, one a millisecond.
pub fn random_spin<T: Table>(
    live: &mut T,
    seed: u64,
    one_in: u64,
    beside: &mut dyn FnMut(&mut T, u64),
) -> Peer {
    let mut random = Seed { seed, run: 0 }.stream("spin");
    let mut one = peer(Carrier::Quic, 1);
    for packet in 0..5000 {
        beside(live, packet);
        let now = START + Duration::from_millis(packet);
        one.spin = random.below(2) == 0;
        let data = one.data_frame(1200);
        let found = live.arrive(&data, FORWARD, now);
        if found.known && random.below(one_in) == 0 {
            live.tell(&data, found.cycle, Signal::Loss, 1);
        }
        if packet % 20 == 0 {
            live.arrive(&one.answer_frame(), REVERSE, now);
        }
    }
    one
}

/// Round trips of 100 ms with ten segments each, spread evenly. After each a receiver claims sixty thousand bytes more.
/// Returns the lengths of the cycles in milliseconds.
pub fn optimistic_acks(live: &mut impl Table) -> Vec<u64> {
    let mut one = peer(Carrier::Tcp, 1);
    let mut lengths = Vec::new();
    for packet in 0..1000u64 {
        let now = START + Duration::from_millis(packet * 10);
        if packet % 10 == 0 {
            live.arrive(&one.answer_frame(), REVERSE, now);
        }
        let found = live.arrive(&one.data_frame(SEGMENT), FORWARD, now);
        lengths.extend(found.ended.map(|(end, _)| end.duration.as_nanos() / 1_000_000));
        let claim = one.seq.wrapping_add(60_000);
        live.arrive(&tcp_frame(one.to, one.from, (one.ack, claim), ACK, 0), REVERSE, now);
    }
    lengths
}

/// A flow that halves after each loss, and has no way to hear of its marks.
pub fn bleached_marks(live: &mut impl Table) -> Peer {
    let mut one = peer(Carrier::Quic, 1);
    for round in 0..40u64 {
        let now = START + Duration::from_millis(round * 50);
        let (window, signals): (u32, &[Signal]) = match round % 6 {
            1 => (20, &[Signal::Loss]),
            2 | 3 => (10, if round % 6 == 2 { &[Signal::Mark] } else { &[] }),
            _ => (10, &[]),
        };
        one.cycle(live, window * SEGMENT, SEGMENT, signals, now);
    }
    one
}
