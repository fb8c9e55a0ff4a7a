//! What adjacent pairs tell of the path: by how much the sub-flows' delays differ, how long a packet takes, and how far
//! arrivals scatter. A pair is a packet of each sub-flow at one time; every other pair has the light packet first, so
//! that the time that the second packet waits for the first cancels. The sub-flows' own shortest delays would not do:
//! with cross traffic each is the best of another sample.

use weir_core::{Duration, Time};

use super::{nanos, signed};
use crate::SubFlow;

/// Pairs at most: the first round and further ones, for a path whose delays scatter.
pub(super) const MOST_PAIRS: usize = 24;

/// Of a scatter that few pairs show, the guard is a larger multiple. Two delays that vary evenly by up to J differ by
/// up to 2 J; of fifteen such pairs the largest difference is below 0.4 of that in 1 of 800 cases.
const GUARD: f64 = 2.5;
/// So many complete pairs show how far arrivals scatter.
const ENOUGH: usize = 9;
/// Rounds at most.
const MOST_ROUNDS: usize = 4;
/// Sub-flows whose delays differ by more than this and three packet times do not share a path.
const APART: Duration = Duration::from_millis(1);
/// Between pairs at most.
const FAR_APART: Duration = Duration::from_millis(250);

/// A packet of each sub-flow at one time.
#[derive(Clone, Copy, Debug)]
struct Pair {
    first: SubFlow,
    number: [Option<u64>; 2],
    sent: [Time; 2],
    at: [Option<Time>; 2],
}

/// What pairs tell. Times are nanoseconds, and may be below zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Path {
    /// The light sub-flow's delay less the heavy one's.
    pub(super) offset: i64,
    /// What two packets in order may seem to be out of order by.
    pub(super) guard: i64,
    /// How long the bottleneck takes for a packet.
    pub(super) packet: i64,
    /// Pairs of both kinds have arrived: the offset is known.
    pub(super) known: bool,
    /// Arrivals scatter so much that it counts beside the least guard and packet times.
    pub(super) noisy: bool,
    /// The standard deviation of the difference of two arrivals.
    pub(super) scatter: i64,
    /// The largest of what they were off by, single late packets left out.
    pub(super) worst: i64,
    /// The sub-flows take different paths.
    pub(super) apart: bool,
}

/// The pairs so far.
#[derive(Clone, Debug)]
pub(super) struct Baseline {
    pairs: Vec<Pair>,
    /// Where each round begins, and which is the newest.
    begins: [usize; MOST_ROUNDS],
    round: usize,
}

impl Baseline {
    pub(super) fn new() -> Self {
        Self { pairs: Vec::with_capacity(MOST_PAIRS), begins: [0; MOST_ROUNDS], round: 0 }
    }

    /// Pairs that were begun.
    pub(super) fn len(&self) -> usize {
        self.pairs.len()
    }

    /// The sub-flow that goes first in the next pair: in the first round first the heavy one, in the next the light
    /// one.
    pub(super) fn first(&self) -> SubFlow {
        let odd = (self.pairs.len() - self.begins[self.round] + self.round) % 2 == 1;
        if odd { SubFlow::Light } else { SubFlow::Heavy }
    }

    /// A packet of the newest pair was sent; the first begins it.
    pub(super) fn on_sent(&mut self, sub_flow: SubFlow, number: u64, sent: Time, begins: bool) {
        if begins {
            self.pairs.push(Pair { first: sub_flow, number: [None; 2], sent: [sent; 2], at: [None; 2] });
        }
        if let Some(pair) = self.pairs.last_mut() {
            pair.number[sub_flow.index()] = Some(number);
            pair.sent[sub_flow.index()] = sent;
        }
    }

    /// A packet has arrived. Tells whether it is one of a pair's.
    pub(super) fn on_arrival(&mut self, sub_flow: SubFlow, number: u64, at: Time) -> bool {
        let index = sub_flow.index();
        let pair = self.pairs.iter_mut().find(|pair| pair.number[index] == Some(number));
        pair.map(|pair| pair.at[index] = Some(at)).is_some()
    }

    /// Whether all packets of all pairs have arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.pairs.iter().all(|pair| pair.at.iter().all(Option::is_some))
    }

    /// What the pairs tell; `floor` is the least guard.
    ///
    /// Behind fair queuing pairs that meet each other leave by turns, whichever packet was sent first. That looks like
    /// an offset or like scatter, but not alike in two rounds of which one begins with the heavy and one with the light
    /// packet. In a shared queue pairs that meet do not disturb each other.
    pub(super) fn path(&self, floor: Duration) -> Path {
        let all = path(&self.pairs, floor);
        let newest = path(&self.pairs[self.begins[self.round]..], floor);
        if self.round == 0 || !newest.known {
            return all;
        }
        let turned = |round: usize| {
            let earlier = path(&self.pairs[self.begins[round]..self.begins[round + 1]], floor);
            earlier.known && earlier.apart && opposite(earlier.offset, newest.offset)
        };
        if newest.apart && (0..self.round).any(turned) {
            return Path { offset: 0, packet: newest.offset.abs(), noisy: false, apart: false, ..newest };
        }
        if !all.known || newest.scatter < all.scatter / 2 { newest } else { all }
    }

    /// Whether so few pairs are complete that the scatter is a guess.
    pub(super) fn is_short(&self) -> bool {
        self.pairs.iter().filter_map(Pair::difference).count() < ENOUGH && self.round + 1 < MOST_ROUNDS
    }

    /// Whether further pairs would help, and how far apart: a slow bottleneck is to be done with one before the next
    /// comes.
    pub(super) fn wants_more(&self, path: &Path) -> Option<Duration> {
        let complete = self.pairs.iter().filter_map(Pair::difference);
        let unsure = path.apart || !path.known || path.noisy;
        let enough = complete.clone().count() >= ENOUGH && !path.apart;
        if !unsure || self.round + 1 == MOST_ROUNDS || (self.round > 0 && enough) {
            return None;
        }
        // The longest time from one pair's arrival to the next's is what the bottleneck needs for a pair, if these met.
        let ends = self.pairs.iter().filter_map(|pair| pair.at[0].max(pair.at[1]));
        let gaps = ends.clone().zip(ends.skip(1)).map(|(one, next)| next.since(one));
        let widest = complete.map(i64::unsigned_abs).max().map_or(Duration::ZERO, Duration::from_nanos);
        let between = gaps.max().unwrap_or(FAR_APART / 8).max(widest) * 2;
        (self.pairs.len() < MOST_PAIRS).then(|| between.min(FAR_APART))
    }

    /// The pairs that follow are a round of their own.
    pub(super) fn begin_round(&mut self) {
        self.round = (self.round + 1).min(MOST_ROUNDS - 1);
        self.begins[self.round] = self.pairs.len();
    }
}

/// Whether two numbers are alike but for their signs.
fn opposite(one: i64, other: i64) -> bool {
    one.signum() == -other.signum() && (one + other).abs() <= one.abs() / 8
}

impl Pair {
    /// The light packet's delay less the heavy one's.
    fn difference(&self) -> Option<i64> {
        let [Some(light), Some(heavy)] = self.at else { return None };
        Some(signed(light, self.sent[0]) - signed(heavy, self.sent[1]))
    }
}

fn path(pairs: &[Pair], floor: Duration) -> Path {
    let mut by_kind = [[0; MOST_PAIRS]; 2];
    let mut counts = [0; 2];
    for (pair, difference) in pairs.iter().filter_map(|pair| Some((pair, pair.difference()?))) {
        let kind = pair.first.index();
        by_kind[kind][counts[kind]] = difference;
        counts[kind] += 1;
    }
    let floor = nanos(floor);
    let [light_first, heavy_first] = [0, 1].map(|kind| median(&mut by_kind[kind][..counts[kind]]));
    let (Some(light_first), Some(heavy_first)) = (light_first, heavy_first) else {
        return Path { guard: floor, ..Path::default() };
    };
    let offset = (light_first + heavy_first) / 2;
    let packet = ((heavy_first - light_first) / 2).max(0);
    let medians = [light_first, heavy_first];
    let mut off = [0; MOST_PAIRS];
    let mut complete = 0;
    for kind in 0..2 {
        for difference in &by_kind[kind][..counts[kind]] {
            off[complete] = (difference - medians[kind]).abs();
            complete += 1;
        }
    }
    // A packet that some path delays on its own is one of many, jitter shows in all.
    let off = &mut off[..complete];
    off.sort_unstable();
    let off = &off[..complete - complete / 8];
    let worst = off.last().copied().unwrap_or(0);
    let squares: f64 = off.iter().map(|off| (*off as f64).powi(2)).sum();
    // Two of them went into the medians.
    let freedom = off.len().saturating_sub(2).max(1);
    let few = if complete < ENOUGH { 1.5 } else { 1.0 };
    let scatter = (few * (squares / freedom as f64).sqrt()) as i64;
    let guard = floor.max((worst as f64 * GUARD * few) as i64);
    let apart = offset.abs() > nanos(APART).max(3 * packet) + worst;
    let noisy = worst > floor.max(packet) / 2;
    // What noise alone may be is none.
    let doubt = 2.0 * scatter as f64 / (complete as f64).sqrt();
    let offset = if noisy && (offset.abs() as f64) < doubt && !apart { 0 } else { offset };
    // A link that sends several packets at once brings some pairs together and others not, which looks like an offset.
    let guard = if 2 * offset.abs() > packet { guard.max(offset.abs()) } else { guard };
    Path { offset, guard, packet, known: true, noisy, scatter, worst, apart }
}

/// The middle of some numbers; of an even count the mean of the two in the middle. Sorts them.
pub(super) fn median(numbers: &mut [i64]) -> Option<i64> {
    numbers.sort_unstable();
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(numbers[middle]),
        _ => Some((numbers[middle - 1] + numbers[middle]) / 2),
    }
}

#[cfg(test)]
mod tests {
    use super::{Baseline, median};
    use crate::SubFlow;
    use weir_core::{Duration, Seed, Time};

    const FLOOR: Duration = Duration::from_micros(100);

    /// Pairs 10 ms apart over a FIFO with `packet` for a packet; `late` says by how much a packet comes late.
    fn pairs(count: u64, packet: Duration, mut late: impl FnMut(SubFlow) -> Duration) -> Baseline {
        let mut baseline = Baseline::new();
        for number in 0..count {
            let sent = Time::ZERO + Duration::from_millis(10) * number;
            let first = baseline.first();
            let second = if first == SubFlow::Heavy { SubFlow::Light } else { SubFlow::Heavy };
            for (place, sub_flow) in [first, second].into_iter().enumerate() {
                baseline.on_sent(sub_flow, number, sent, place == 0);
                let at = sent + Duration::from_millis(50) + packet * (place as u64 + 1) + late(sub_flow);
                assert!(baseline.on_arrival(sub_flow, number, at));
            }
        }
        baseline
    }

    #[test]
    fn the_middle_of_numbers() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3, -1, 2]), Some(2));
        assert_eq!(median(&mut [4, 1]), Some(2));
    }

    #[test]
    fn waiting_for_each_other_cancels() {
        let packet = Duration::from_millis(2);
        let path = pairs(5, packet, |_| Duration::ZERO).path(FLOOR);
        assert_eq!((path.offset, path.packet, path.guard), (0, 2_000_000, 100_000));
        assert!(path.known && !path.noisy && !path.apart);
    }

    #[test]
    fn an_offset_of_three_milliseconds_is_another_path() {
        let late = |by| move |sub_flow| if sub_flow == SubFlow::Heavy { by } else { Duration::ZERO };
        let packet = Duration::from_micros(240);
        let path = pairs(5, packet, late(Duration::from_millis(3))).path(FLOOR);
        assert!(path.apart, "{path:?}");
        let path = pairs(5, packet, late(Duration::from_micros(700))).path(FLOOR);
        assert_eq!((path.offset, path.apart), (-700_000, false));
    }

    #[test]
    fn the_guard_exceeds_what_jitter_can_do() {
        for run in 0..200 {
            let mut random = Seed { seed: 7, run }.stream("jitter");
            let jitter = Duration::from_millis(1);
            let baseline = pairs(15, Duration::from_micros(12), |_| {
                Duration::from_nanos(random.below(2 * jitter.as_nanos()))
            });
            let path = baseline.path(FLOOR);
            assert!(path.noisy && !path.apart);
            assert!(path.guard > 1_500_000, "run {run}: {}", path.guard);
        }
    }

    #[test]
    fn one_delayed_packet_of_many_is_not_jitter() {
        let mut count = 0;
        let baseline = pairs(15, Duration::from_millis(1), |_| {
            count += 1;
            Duration::from_millis(if count == 9 { 5 } else { 0 })
        });
        assert!(!baseline.path(FLOOR).noisy);
    }

    #[test]
    fn lost_packets_leave_the_offset_unknown() {
        let mut baseline = Baseline::new();
        baseline.on_sent(SubFlow::Heavy, 0, Time::ZERO, true);
        baseline.on_sent(SubFlow::Light, 0, Time::ZERO, false);
        assert!(!baseline.on_arrival(SubFlow::Heavy, 7, Time::ZERO));
        assert!(baseline.on_arrival(SubFlow::Heavy, 0, Time::from_nanos(1)));
        assert!(!baseline.is_complete() && !baseline.path(FLOOR).known);
        assert!(baseline.on_arrival(SubFlow::Light, 0, Time::from_nanos(2)));
        assert!(baseline.is_complete());
        let path = baseline.path(FLOOR);
        assert!(!path.known && baseline.wants_more(&path).is_some());
    }
}
