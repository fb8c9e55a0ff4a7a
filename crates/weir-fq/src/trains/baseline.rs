//! What adjacent pairs tell of the path: by how much the sub-flows' delays differ, how long a packet takes, and how far
//! arrivals scatter. A pair is a packet of each sub-flow at one time; every other pair has the light packet first, so that the
//! time that the second packet waits for the first cancels. The sub-flows' own shortest delays would not do: with cross
//! traffic each is the best of another sample.

use weir_core::{Duration, Time};

use super::{nanos, signed};
use crate::SubFlow;

/// Pairs at most: the first round and one further, for a path whose delays scatter.
pub(super) const MOST_PAIRS: usize = 20;

/// Of a scatter that few pairs show, the guard is a larger multiple. Two delays that vary evenly by up to J differ by up to 2 J;
/// of fifteen such pairs the largest difference is below 0.4 of that in 1 of 800 cases.
const GUARD: f64 = 2.5;
/// So many complete pairs show how far arrivals scatter.
const ENOUGH: usize = 12;
/// Sub-flows whose delays differ by more than this and three packet times do not share a path.
const APART: Duration = Duration::from_millis(1);

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
    /// Arrivals scatter by more than half the least guard.
    pub(super) noisy: bool,
    /// The sub-flows take different paths.
    pub(super) apart: bool,
}

/// The pairs so far.
#[derive(Clone, Debug)]
pub(super) struct Baseline {
    pairs: Vec<Pair>,
}

impl Baseline {
    pub(super) fn new() -> Self {
        Self { pairs: Vec::with_capacity(MOST_PAIRS) }
    }

    /// Pairs that were begun.
    pub(super) fn len(&self) -> usize {
        self.pairs.len()
    }

    /// The sub-flow that goes first in the next pair.
    pub(super) fn first(&self) -> SubFlow {
        if self.pairs.len().is_multiple_of(2) { SubFlow::Heavy } else { SubFlow::Light }
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
    pub(super) fn path(&self, floor: Duration) -> Path {
        let mut by_kind = [[0; MOST_PAIRS]; 2];
        let mut counts = [0; 2];
        for pair in &self.pairs {
            let [Some(light), Some(heavy)] = pair.at else { continue };
            let kind = pair.first.index();
            by_kind[kind][counts[kind]] = signed(light, pair.sent[0]) - signed(heavy, pair.sent[1]);
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
        let mut scatter = [0; MOST_PAIRS];
        let mut complete = 0;
        for kind in 0..2 {
            for difference in &by_kind[kind][..counts[kind]] {
                scatter[complete] = (difference - medians[kind]).abs();
                complete += 1;
            }
        }
        let scatter = &mut scatter[..complete];
        scatter.sort_unstable();
        // A packet that some path delays on its own is one of many, jitter shows in all.
        let worst = scatter[complete - 1 - complete / 8];
        let few = if complete < ENOUGH { 1.5 } else { 1.0 };
        let guard = floor.max((worst as f64 * GUARD * few) as i64);
        let apart = offset.abs() > nanos(APART).max(3 * packet) + worst;
        Path { offset, guard, packet, known: true, noisy: worst > floor / 2, apart }
    }

    /// Whether further pairs would help.
    pub(super) fn wants_more(&self, path: &Path) -> bool {
        (path.noisy || !path.known) && self.pairs.len() < ENOUGH
    }
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
        assert!(!path.known && baseline.wants_more(&path));
    }
}
