//! Arrival and dequeue patterns that lead CoDel to every edge of its rule: load of many shapes through a link that may
//! stall, close to every wrap of the tick clock, in part with dequeues aimed at the tick at which a decision turns.

use weir_core::{Ecn, Random, Seed};

use crate::model::{Kernel, KernelCodel, Params, Threshold, ticks};

/// One call on the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// A packet of `len` bytes arrives.
    Arrive { at: u64, len: u32, ecn: Ecn },
    /// The link asks for a packet.
    Ask { at: u64 },
}

/// A parameter set and a sequence of calls.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) shape: Shape,
    pub(crate) params: Params,
    pub(crate) ops: Vec<Op>,
}

/// How packets come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Exponential gaps.
    Poisson,
    /// Batches at one instant.
    Bursts,
    /// Overload and silence in turn.
    OnOff,
    /// Load from half to three times the link's rate.
    SlowRise,
    /// A fitting load, then ten times as much.
    SuddenOverload,
    /// Overloads with pauses around sixteen intervals.
    IdleGaps,
    /// A deep queue whose link stands still for many intervals.
    DeepStalls,
    /// Pauses of half an hour to three hours: the clock goes half or all the way round.
    ClockRounds,
}

const SHAPES: [Shape; 8] = [
    Shape::Poisson,
    Shape::Bursts,
    Shape::OnOff,
    Shape::SlowRise,
    Shape::SuddenOverload,
    Shape::IdleGaps,
    Shape::DeepStalls,
    Shape::ClockRounds,
];

/// After this many nanoseconds the 32-bit clock of 1024 ns is back where it was (73 minutes).
const CLOCK_ROUND: u64 = 1 << 42;
const MINUTE: u64 = 60_000_000_000;

/// Pattern number `index` under `seed`, for `kernel`.
pub(crate) fn pattern(seed: u64, index: u64, kernel: Kernel) -> Pattern {
    let mut random = Seed { seed, run: index }.stream("codel pattern");
    let shape = SHAPES[(index % SHAPES.len() as u64) as usize];
    let params = params(shape, kernel, &mut random);
    // How long the link takes for a middling packet, from 1/300 to 1/2 of an interval.
    let service = (params.interval as f64 * libm::exp(-random.unit() * 5.0) / 2.0).clamp(200.0, 1e10);
    let lengths = Lengths::draw(&mut random);
    let codepoints = Codepoints::draw(&mut random);
    let count = match shape {
        Shape::DeepStalls => 600 + random.below(1_400),
        _ => 60 + random.below(500),
    };
    let offsets = arrivals(shape, params.interval, service, count, &mut random);
    let packets: Vec<(u64, u32, Ecn)> = {
        let base = start(offsets.last().copied().unwrap_or(0), &mut random);
        let mut draw = |at| (base + at, lengths.draw_one(&mut random), codepoints.draw_one(&mut random));
        offsets.into_iter().map(&mut draw).collect()
    };
    let ops = through_link(shape, params, service / lengths.mean(), &packets, &mut random);
    Pattern { shape, params, ops }
}

fn one<T: Copy>(random: &mut Random, items: &[T]) -> T {
    items[random.below(items.len() as u64) as usize]
}

fn chance(random: &mut Random, probability: f64) -> bool {
    random.unit() < probability
}

fn params(shape: Shape, kernel: Kernel, random: &mut Random) -> Params {
    let (target, interval) = match random.below(16) {
        0..=5 => (5_000_000, 100_000_000),
        6..=9 => (1_000_000, 20_000_000),
        10..=12 => (100_000, 10_000),
        13 | 14 => (random.below(5_000_000), random.below(50_000_000)),
        // Up to half the clock's round, beyond which the kernel's comparisons change sign: far outside sense, but here
        // sixteen intervals and sums of times wrap.
        _ => (random.below(1 << 31) * 1_000, random.below(1 << 31) * 1_000),
    };
    let ce_threshold = chance(random, 0.4).then(|| {
        let nanos = one(random, &[1_024, target / 2, target, 2 * target, interval, 1_000_000]);
        Threshold { nanos: nanos.min(CLOCK_ROUND / 2 - 1), ect1_only: chance(random, 0.4) }
    });
    let limit = match shape {
        Shape::DeepStalls => one(random, &[300, 1_000, 10_000]),
        _ => one(random, &[0, 1, 3, 20, 100, 1_000, 1_000, 1_000, 10_000]),
    };
    let mtu = one(random, &[1_514, 1_514, 1_514, 1_514, 0, 600, 9_014]);
    Params { kernel, target, interval, ce_threshold, ecn: chance(random, 0.5), mtu, limit }
}

/// The mix of packet sizes.
#[derive(Clone, Copy)]
enum Lengths {
    Fixed(u32),
    Uniform,
    SmallAndFull,
    SuperPackets,
}

impl Lengths {
    fn draw(random: &mut Random) -> Self {
        let fixed = [Self::Fixed(1_514), Self::Fixed(757), Self::Fixed(64)];
        let mixed = [Self::Uniform, Self::SmallAndFull, Self::SuperPackets];
        if chance(random, 0.5) { one(random, &fixed) } else { one(random, &mixed) }
    }

    fn draw_one(self, random: &mut Random) -> u32 {
        match self {
            Self::Fixed(length) => length,
            Self::Uniform => 64 + random.below(1_451) as u32,
            Self::SmallAndFull => one(random, &[64, 1_514]),
            Self::SuperPackets => one(random, &[66, 1_514, 1_514, 14_494, 65_226, 65_536]),
        }
    }

    fn mean(self) -> f64 {
        match self {
            Self::Fixed(length) => f64::from(length),
            Self::Uniform | Self::SmallAndFull => 789.0,
            Self::SuperPackets => 24_725.0,
        }
    }
}

/// The mix of codepoints.
#[derive(Clone, Copy)]
enum Codepoints {
    Only(Ecn),
    Any,
    MostlyNotEct,
    MostlyEct0,
}

impl Codepoints {
    fn draw(random: &mut Random) -> Self {
        let only = [Ecn::NotEct, Ecn::NotEct, Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce].map(Self::Only);
        let mixed = [Self::Any, Self::MostlyNotEct, Self::MostlyEct0];
        if chance(random, 0.55) { one(random, &only) } else { one(random, &mixed) }
    }

    fn draw_one(self, random: &mut Random) -> Ecn {
        let any = Ecn::from_bits(random.below(4) as u8);
        let mostly = |ecn, random: &mut Random| if chance(random, 0.9) { ecn } else { any };
        match self {
            Self::Only(ecn) => ecn,
            Self::Any => any,
            Self::MostlyNotEct => mostly(Ecn::NotEct, random),
            Self::MostlyEct0 => mostly(Ecn::Ect0, random),
        }
    }
}

/// Where the pattern starts: at zero, anywhere, or so that a wrap or the sign change of the clock falls inside it.
fn start(span: u64, random: &mut Random) -> u64 {
    let rounds = random.below(4);
    match random.below(4) {
        0 => 0,
        1 => random.below(1 << 45),
        2 => ((rounds + 1) * CLOCK_ROUND).saturating_sub(random.below(span.max(1))),
        _ => (rounds * CLOCK_ROUND + CLOCK_ROUND / 2).saturating_sub(random.below(span.max(1))),
    }
}

/// Arrival times in nanoseconds from the start, in order.
fn arrivals(shape: Shape, interval: u64, service: f64, count: u64, random: &mut Random) -> Vec<u64> {
    let exponential = |random: &mut Random| -libm::log(1.0 - random.unit());
    let load = 0.6 + 3.0 * random.unit();
    let batch = 2 + random.below(80);
    let mut at = 0.0;
    let mut times = Vec::with_capacity(count as usize);
    for i in 0..count {
        let done = i as f64 / count as f64;
        let new_batch = i % batch == 0;
        at += match shape {
            Shape::Poisson => exponential(random) * service / load,
            Shape::Bursts if new_batch => exponential(random) * service * batch as f64 / load,
            Shape::Bursts => 0.0,
            Shape::OnOff if new_batch => exponential(random) * service * batch as f64,
            Shape::OnOff => service / (1.0 + load),
            Shape::SlowRise => service / (0.5 + 2.5 * done),
            Shape::SuddenOverload if done < 0.2 => exponential(random) * service / 0.7,
            Shape::SuddenOverload => service / 10.0,
            Shape::IdleGaps if new_batch => {
                interval as f64 * one(random, &[1.0, 8.0, 14.0, 16.0, 18.0, 40.0])
            }
            Shape::IdleGaps => service / (1.5 + load),
            Shape::DeepStalls => service / (1.0 + 4.0 * load),
            Shape::ClockRounds if new_batch => (MINUTE * (30 + random.below(150))) as f64,
            Shape::ClockRounds => service / (1.5 + load),
        };
        times.push(at as u64);
    }
    times
}

/// The calls that a link makes which takes `per_byte` nanoseconds for a byte, now and then stalls, and in some patterns
/// comes back at just the tick at which the oracle turns.
fn through_link(
    shape: Shape,
    params: Params,
    per_byte: f64,
    packets: &[(u64, u32, Ecn)],
    random: &mut Random,
) -> Vec<Op> {
    let aim = one(random, &[0.0, 0.0, 0.1, 0.4]);
    let stall = match shape {
        Shape::DeepStalls => 0.02,
        _ => one(random, &[0.0, 0.0, 0.03]),
    };
    let poll_when_empty = chance(random, 0.7);
    let drain = chance(random, 0.8);
    let mut oracle = KernelCodel::new(params, None);
    let mut steps = Vec::new();
    let mut ops = Vec::with_capacity(packets.len() * 2);
    let mut free = packets.first().map_or(0, |packet| packet.0);
    let mut now = free;
    let mut next = packets.iter().copied().peekable();
    loop {
        let ask_at = free.max(now);
        let arrival = next.peek().copied();
        let arrival_first = match arrival {
            Some((at, ..)) => oracle.queued() == 0 || at < ask_at || (at == ask_at && chance(random, 0.5)),
            None => false,
        };
        if let (true, Some((at, len, ecn))) = (arrival_first, arrival) {
            if oracle.queued() == 0 && poll_when_empty && at > ask_at {
                oracle.ask(ask_at, &mut steps);
                ops.push(Op::Ask { at: ask_at });
            }
            next.next();
            now = at;
            oracle.arrive(at, len, ecn, &mut steps);
            ops.push(Op::Arrive { at, len, ecn });
            continue;
        }
        if oracle.queued() == 0 || (arrival.is_none() && !drain) {
            break;
        }
        now = ask_at;
        let sent = oracle.ask(now, &mut steps);
        ops.push(Op::Ask { at: now });
        free = now + (f64::from(sent.unwrap_or(0)) * per_byte) as u64;
        if shape == Shape::ClockRounds && chance(random, 0.01) {
            free += MINUTE * random.below(100);
        } else if chance(random, stall) {
            let most = if shape == Shape::DeepStalls { 60.0 } else { 30.0 };
            free += (params.interval as f64 * most * random.unit() * random.unit()) as u64;
        } else if chance(random, aim) {
            free = aimed(&oracle, now, params.interval, random).unwrap_or(free);
        }
    }
    ops
}

/// A point in time within a tick of one at which the oracle may turn, if one lies in the next sixty intervals.
fn aimed(oracle: &KernelCodel, now: u64, interval: u64, random: &mut Random) -> Option<u64> {
    let edge = one(random, &oracle.edges())?;
    let distance = u64::from(edge.wrapping_sub(ticks(now)));
    let near = distance > 0 && distance <= (60 * interval.max(500_000)) >> 10;
    let aside = one(random, &[1, 1, 1, 0, 2]);
    near.then(|| (((now >> 10) + distance + aside - 1) << 10) + random.below(1_024)).map(|at| at.max(now))
}
