//! Round trips by timestamps: a sender and a receiver on a path, of which the law sees what passes somewhere on it.

use std::collections::{BTreeMap, BTreeSet};

use weir_core::{Duration, Time};

use crate::law_testing::{Heard, paper};
use crate::testing::{Segment, ethernet, ipv4, reverse_with, tcp};
use crate::{Direction, Law, Params, ParsedPacket, Preset, Start, parse};

const SEGMENT: u32 = 1000;
/// Where the sender's numbers begin, so that they wrap.
const SEQ: u32 = u32::MAX - 40_000;
const BACK: u32 = 7000;

fn robust() -> Params {
    Params::preset(Preset::Robust)
}

/// One way of data at a constant rate; every second segment is acknowledged, and each beyond a hole.
#[derive(Clone)]
struct Path {
    rtt: Duration,
    /// How much of the way from the sender to the receiver lies before the bottleneck.
    position: f64,
    /// Between two segments.
    gap: Duration,
    /// Sender and receiver have timestamps.
    stamped: [bool; 2],
    /// The receiver's clock at the beginning, and how many nanoseconds one of its milliseconds is.
    clock: u32,
    tick: u64,
    /// One segment in so many round trips is lost behind the bottleneck, and sent again after so many.
    lost: Option<(u32, u32)>,
    rounds: u32,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            rtt: Duration::from_millis(50),
            position: 0.5,
            gap: Duration::from_micros(500),
            stamped: [true; 2],
            clock: 1000,
            tick: 1_000_000,
            lost: None,
            rounds: 60,
        }
    }
}

/// What passes the bottleneck. A test changes it before the law sees it, or adds to it.
#[derive(Clone, Debug)]
struct Passing {
    direction: Direction,
    seq: u32,
    ack: u32,
    payload: usize,
    /// TSval and TSecr.
    stamps: Option<(u32, u32)>,
    /// A SACK block.
    block: Option<(u32, u32)>,
}

impl Passing {
    fn parsed(&self) -> ParsedPacket {
        let mut options = Vec::new();
        if let Some((value, echo)) = self.stamps {
            options.extend([1, 1, 8, 10]);
            options.extend(value.to_be_bytes());
            options.extend(echo.to_be_bytes());
        }
        if let Some((from, to)) = self.block {
            options.extend([1, 1, 5, 10]);
            options.extend(from.to_be_bytes());
            options.extend(to.to_be_bytes());
        }
        let (seq, ack, payload) = (self.seq, self.ack, self.payload);
        let segment = Segment { ports: (443, 50_000), seq, ack, flags: 0x10, options, payload };
        match self.direction {
            Direction::Forward => parse(&ethernet(0x0800, &ipv4(6, 0, &tcp(&segment))), Start::Ethernet),
            Direction::Reverse => reverse_with(&segment),
        }
    }
}

enum Event {
    Send {
        number: u32,
        again: bool,
    },
    Passes(Passing),
    Received {
        number: u32,
    },
    /// An acknowledgement with this timestamp comes to the sender.
    Heard(u32),
}

#[derive(Default)]
struct Agenda(BTreeMap<(Time, u32), Event>, u32);

impl Agenda {
    fn add(&mut self, at: Time, event: Event) {
        self.1 += 1;
        self.0.insert((at, self.1), event);
    }
}

impl Path {
    fn stamp(&self, now: Time) -> u32 {
        self.clock.wrapping_add((now.as_nanos() / self.tick) as u32)
    }

    /// Runs it under a law. `attack` may change what passes, and says what else does so just before.
    fn run_with(&self, params: Params, attack: &mut dyn FnMut(&mut Passing, Time) -> Vec<Passing>) -> Ran {
        let one_way = Duration::from_nanos(self.rtt.as_nanos() / 2);
        let before = one_way.scale(self.position);
        let behind = one_way - before;
        let per_round = (self.rtt.as_nanos() / self.gap.as_nanos()) as u32;
        let (mut law, mut heard, mut agenda) = (Law::new(params, 4), Heard::default(), Agenda::default());
        // The handshake's.
        let (mut echo, mut next, mut unacked) = (self.clock, 0, 0);
        let mut beyond = BTreeSet::new();
        for number in 0..self.rounds * per_round {
            agenda.add(
                Time::ZERO + Duration::from_nanos(self.gap.as_nanos() * u64::from(number)),
                Event::Send { number, again: false },
            );
        }
        while let Some(((now, _), event)) = agenda.0.pop_first() {
            match event {
                Event::Send { number, again } => {
                    let lost = self.lost.filter(|(every, _)| number % (every * per_round) == 7);
                    let stamps = self.stamped[0].then_some((self.stamp(now), echo));
                    let seq = SEQ.wrapping_add(number * SEGMENT);
                    let payload = SEGMENT as usize;
                    let direction = Direction::Forward;
                    let segment = Passing { direction, seq, ack: BACK, payload, stamps, block: None };
                    agenda.add(now + before, Event::Passes(segment));
                    match lost {
                        Some((_, after)) if !again => {
                            let later = now + Duration::from_nanos(self.rtt.as_nanos() * u64::from(after));
                            agenda.add(later, Event::Send { number, again: true });
                        }
                        _ => agenda.add(now + one_way, Event::Received { number }),
                    }
                }
                Event::Received { number } => {
                    beyond.insert(number);
                    let had_hole = beyond.len() > 1;
                    while beyond.remove(&next) {
                        next += 1;
                    }
                    unacked += 1;
                    if unacked < 2 && !had_hole && beyond.is_empty() {
                        continue;
                    }
                    unacked = 0;
                    let end = |number: u32| SEQ.wrapping_add(number * SEGMENT);
                    let block = beyond.last().map(|last| (end(next + 1), end(last + 1)));
                    let stamps = self.stamped[1].then_some((self.stamp(now), 1));
                    let direction = Direction::Reverse;
                    let ack = Passing { direction, seq: BACK, ack: end(next), payload: 0, stamps, block };
                    agenda.add(now + behind, Event::Passes(ack));
                    agenda.add(now + one_way, Event::Heard(self.stamp(now)));
                }
                Event::Heard(value) => echo = value,
                Event::Passes(mut passing) => {
                    let more = attack(&mut passing, now);
                    for passing in more.iter().chain([&passing]) {
                        let packet = passing.parsed();
                        let flow = law.lookup(&packet, passing.direction, now);
                        law.arrival(flow, &packet, passing.direction, now, &mut heard);
                    }
                }
            }
        }
        let millis = |length: Duration| length.as_nanos() as f64 / 1e6;
        let cycles = heard.cycles.iter().skip(1).map(|end| millis(end.duration)).collect();
        let counted = law.flows().map(|(_, view)| view.packets).sum();
        Ran { cycles, counted }
    }

    fn run(&self, params: Params) -> Ran {
        self.run_with(params, &mut |_, _| Vec::new())
    }
}

/// The lengths of whole cycles in milliseconds, and the packets that counted.
#[derive(Debug, PartialEq)]
struct Ran {
    cycles: Vec<f64>,
    counted: u64,
}

impl Ran {
    fn all_within(&self, least: f64, most: f64) -> bool {
        self.cycles.len() > 20 && self.cycles.iter().all(|length| (least..=most).contains(length))
    }

    fn mean(&self) -> f64 {
        self.cycles.iter().sum::<f64>() / self.cycles.len() as f64
    }
}

#[test]
fn one_way_data_have_whole_round_trips_wherever_the_bottleneck_is() {
    for position in [0.05, 0.5, 0.95] {
        for lost in [None, Some((10, 1)), Some((10, 3))] {
            let path = Path { position, lost, ..Path::default() };
            let ran = path.run(robust());
            println!(
                "at {position}, lost {lost:?}: {:.1} ms in the mean of {}",
                ran.mean(),
                ran.cycles.len()
            );
            assert!(ran.all_within(45.0, 55.0), "{position} {lost:?} {ran:?}");
            // Repairs lie far behind by the time that they pass, and count.
            let repairs = u64::from(path.rounds / 10) * u64::from(lost.is_some());
            assert_eq!(ran.counted, u64::from(path.rounds) * 100 + repairs, "{position} {lost:?}");
        }
        // The half of it behind the bottleneck, stretched by holes.
        let half = 50.0 * (1.0 - position);
        let ran = Path { position, ..Path::default() }.run(paper());
        assert!(ran.all_within(half - 0.5, half + 1.5), "{position} {ran:?}");
        let ran = Path { position, lost: Some((10, 3)), ..Path::default() }.run(paper());
        assert!(ran.cycles.iter().any(|length| *length > half + 100.0), "{position} {ran:?}");
    }
}

#[test]
fn without_timestamps_there_are_half_cycles() {
    for position in [0.05, 0.5, 0.95] {
        let by_numbers = Params { timestamp_cycles: false, ..robust() };
        let path = Path { position, ..Path::default() };
        let halves = path.run(by_numbers);
        for stamped in [[false, false], [true, false], [false, true]] {
            let path = Path { stamped, ..path.clone() };
            assert_eq!(path.run(robust()), halves, "{stamped:?}");
        }
    }
}

#[test]
fn a_hole_stretches_no_cycle_without_timestamps_either() {
    for after in [1, 3] {
        let path = Path { stamped: [false; 2], lost: Some((10, after)), ..Path::default() };
        let ran = path.run(robust());
        assert!(ran.all_within(24.5, 27.0), "{ran:?}");
    }
}

#[test]
fn clocks_wrap() {
    let usual = Path::default().run(robust());
    for clock in [u32::MAX - 300, 0x7fff_ff00, 0xffff_ffff, 0] {
        assert_eq!(Path { clock, ..Path::default() }.run(robust()), usual, "{clock:x}");
    }
}

#[test]
fn short_round_trips_are_whole_ones() {
    for micros in [300, 700, 1000, 1900, 2500, 3100, 3900, 5300, 8100, 20_000] {
        for position in [0.05, 0.5, 0.95] {
            let rtt = Duration::from_micros(micros);
            let gap = Duration::from_nanos(rtt.as_nanos() / 20);
            let ran = Path { rtt, gap, position, rounds: 400, ..Path::default() }.run(robust());
            let rtt = micros as f64 / 1e3;
            // Less by the clock's tick at most, more by that and what acknowledgements wait; below four milliseconds
            // never less. The first one does not know yet how long they are.
            let later = Ran { cycles: ran.cycles[1..].to_vec(), ..ran };
            let least = if micros < 3000 { rtt } else { rtt - 1.0 };
            println!("{rtt} ms at {position}: {:.2} ms in the mean", later.mean());
            assert!(later.all_within(least, rtt + 1.3 + rtt / 8.0), "{rtt} ms at {position}: {later:?}");
        }
    }
}

#[test]
fn coarse_and_fine_clocks() {
    // One that counts microseconds, and two that count ten milliseconds.
    for (tick, least, most) in [(1_000, 49.5, 51.5), (4_000_000, 45.9, 51.5), (10_000_000, 39.9, 51.5)] {
        let ran = Path { tick, ..Path::default() }.run(robust());
        assert!(ran.all_within(least, most), "{tick} {ran:?}");
    }
}

#[test]
fn an_old_timestamp_takes_no_half_away() {
    // Each packet is acknowledged as soon as it has passed, with a timestamp that was echoed long ago, or the oldest
    // that is not.
    for (old, least) in [(1000, 24.0), (0x8000_0000, 24.0), (0, 24.0)] {
        let mut last = None;
        let ran = Path::default().run_with(robust(), &mut |passing, _| match passing.direction {
            Direction::Reverse => {
                last = passing.stamps;
                Vec::new()
            }
            Direction::Forward => {
                let Some((value, _)) = last else { return Vec::new() };
                let end = passing.seq;
                let stamps = Some((value.wrapping_sub(old), 1));
                let direction = Direction::Reverse;
                vec![Passing { direction, seq: BACK, ack: end, payload: 0, stamps, block: None }]
            }
        });
        println!("acknowledged as they pass, {old} too old: {:.1} ms in the mean", ran.mean());
        assert!(ran.all_within(least, 27.0), "{old}: {ran:?}");
    }
}

#[test]
fn a_timestamp_far_ahead_freezes_no_cycles_for_ever() {
    // Once at 1 s a receiver's timestamp, or one that an observer has made up, is a year ahead.
    for ahead in [40_000, 0x7fff_ffff, 0x8000_0000] {
        let mut forged = false;
        let ran = Path { rounds: 120, ..Path::default() }.run_with(robust(), &mut |passing, now| {
            if !forged && passing.direction == Direction::Reverse && now.as_nanos() > 1_000_000_000 {
                forged = true;
                let (value, echo) = passing.stamps.unwrap();
                let stamps = Some((value.wrapping_add(ahead), echo));
                return vec![Passing { stamps, ..passing.clone() }];
            }
            Vec::new()
        });
        // What it takes for cycles to begin anew, at most; the first after that is not whole.
        assert!(ran.cycles.len() > 120 - 16, "{ahead:x} {}", ran.cycles.len());
        assert!(ran.cycles[ran.cycles.len() - 80..].iter().all(|length| (45.0..55.0).contains(length)));
    }
}

#[test]
fn an_echo_far_ahead_gains_what_no_timestamps_do() {
    let by_numbers = Path::default().run(Params { timestamp_cycles: false, ..robust() });
    let ran = Path::default().run_with(robust(), &mut |passing, _| {
        if passing.direction == Direction::Forward {
            passing.stamps = passing.stamps.map(|(value, echo)| (value, echo.wrapping_add(0x1000_0000)));
        }
        Vec::new()
    });
    assert!(by_numbers.all_within(25.0, 27.0) && ran.all_within(25.0, 27.0), "{ran:?}");
    // Nor does a receiver whose clock stands still.
    let ran = Path { tick: u64::MAX, ..Path::default() }.run(robust());
    assert!(ran.all_within(25.0, 27.0), "{ran:?}");
}

#[test]
fn a_packet_without_its_flows_timestamps_completes_nothing() {
    // Pure acknowledgements of what has just passed, bare of options, in a flow that has shown some.
    let mut packets = 0;
    let ran = Path::default().run_with(robust(), &mut |passing, _| {
        packets += 1;
        if passing.direction == Direction::Reverse || packets < 400 {
            return Vec::new();
        }
        let (direction, ack) = (Direction::Reverse, passing.seq);
        vec![Passing { direction, seq: BACK, ack, payload: 0, stamps: None, block: None }]
    });
    assert!(ran.all_within(24.0, 55.0), "{ran:?}");
    // Nor a segment: the sender's next one does.
    let mut segments = 0;
    let ran = Path::default().run_with(robust(), &mut |passing, _| {
        if passing.direction == Direction::Forward {
            segments += 1;
            if segments > 200 && segments % 2 == 0 {
                passing.stamps = None;
            }
        }
        Vec::new()
    });
    assert!(ran.all_within(45.0, 55.0), "{ran:?}");
}
