//! How much a train says for fair queuing: the logarithm of how many times more likely its outcome is behind fair
//! queuing than in a shared queue, in nats. Four signals:
//!
//! | signal | behind fair queuing | in a shared queue |
//! |---|---|---|
//! | order | the light packet overtakes the heavy ones that wait | it overtakes none |
//! | loss | the heavy flow's queue overflows, the light packet finds its own empty | both find the same full queue |
//! | delay | the light packet waits for its turn alone | as long as the heavy one before it |
//! | share | over all trains, of the light packets more arrive | of both sub-flows equally many |
//!
//! Order and delay look at the same thing, packet by packet or in time; the stronger one counts. Share is loss over all
//! trains together and takes its place if no train decided ([`share`]).
//!
//! The error rates behind the weights:
//!
//! | outcome | fair | shared | nats | why |
//! |---|---|---|---|---|
//! | the last three or more overtaken | 0.95 | 0.002 | +5 at most | paths that reorder do so to some packets, rarely to the last three of a train |
//! | the last one or two overtaken by far | 0.3 | 0.02 | +2.7 | one reordered packet looks like that |
//! | in order behind four or more that waited | 0.015 | 0.9 | -4 | the light packet was held up elsewhere, by just as long |
//! | in order behind two or three | 0.12 | 0.9 | -2 | turns of more than one packet |
//! | light packet lost, those before it too | 0.04 | their share | -3.2 at most | loss at random |
//! | the same, but of those before it a quarter arrived | 0.7 of their share | their share | -0.4 | `fq_codel` on slow links drops of all flows |
//! | light packet arrived, those before it did not | 0.97 | their share | +4 at most | a place that came free just then |
//!
//! No single train moves the sum by more than 5 nats, so that none decides alone at a threshold of 7.

use weir_core::Time;

use super::baseline::{Path, median};
use super::train::Train;
use super::{nanos, signed};

/// What one train adds at most.
const MOST: f64 = 5.0;
/// One or two overtaken, by more than scatter and turns explain.
const OVERTOOK_FEW: f64 = 2.7;
/// In order behind at least [`WAITED`] that waited.
const IN_ORDER: f64 = -4.0;
/// In order behind two or three.
const IN_ORDER_FEW: f64 = -2.0;
/// Packets behind which being in order says all it can.
const WAITED: usize = 4;
/// Overtaken packets, of those that have arrived, by which it is plain.
const PLAIN: usize = 6;
/// Packets at the end of a train that stand for it.
const LAST: usize = 5;
/// By how many standard deviations of a difference one even jitter can be off at most.
const JITTER: f64 = 1.23;
/// Packets that a flow which is not new sends in a turn.
const TURN: usize = 2;
/// Overtaken packets that are no accident.
const OVERTAKEN: usize = 3;
/// The light packet arrives behind fair queuing though the heavy flow loses.
const ARRIVES: f64 = 0.97;
/// The light packet is lost behind fair queuing.
const LOST: f64 = 0.04;
/// The light packet's chance of loss behind fair queuing if the heavy flow loses here and there, as a part of its.
const HERE_AND_THERE: f64 = 0.7;
/// A loss among so many or more packets is a single one.
const FEW_OF: usize = 8;
/// Added to the packets of the tail that arrived, and twice to all: with what is between Laplace's 1 and 0, few losses
/// say little.
const PRIOR: f64 = 0.2;
const MOST_BY_ARRIVAL: f64 = 4.0;

/// The signals' contributions, in nats.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Evidence {
    pub(super) order: f64,
    pub(super) loss: f64,
    pub(super) delay: f64,
}

impl Evidence {
    /// The sum, within what a train may add.
    pub(super) fn sum(&self) -> f64 {
        (self.order + self.loss + self.delay).clamp(-MOST, MOST)
    }

    /// What `train` says, of whose path `path` is known; `least` is the shortest time from sending to arrival, by
    /// clocks that run apart.
    pub(super) fn of(train: &Train, path: &Path, least: i64) -> Self {
        let Some(light) = train.light else { return Self::default() };
        let loss = loss(train, light.at.is_some());
        let Some(at) = light.at else { return Self { loss, ..Self::default() } };
        let (order, delay) = match path {
            Path { known: false, .. } => (0.0, 0.0),
            Path { noisy: true, .. } => (0.0, lean(train, path, least, light.sent, at)),
            _ => order(train, path, least, light.sent, at),
        };
        Self { order, loss, delay }
    }
}

/// Whether the light packet has overtaken so many that the rest of the train needs not be waited for.
pub(super) fn is_plain(train: &Train, path: &Path) -> bool {
    let Some(at) = train.light.and_then(|light| light.at) else { return false };
    let late = signed(at, Time::ZERO) - path.offset + path.guard;
    let arrivals = train.arrived().map(|(_, arrival)| signed(arrival, Time::ZERO));
    path.known && !path.noisy && arrivals.rev().take_while(|arrival| *arrival > late).count() >= PLAIN
}

/// Order and delay of a light packet that was sent at `sent` and arrived at `at`.
fn order(train: &Train, path: &Path, least: i64, sent: Time, at: Time) -> (f64, f64) {
    // The light packet's arrival, as if it had taken the heavy one's path.
    let at = signed(at, Time::ZERO) - path.offset;
    let arrivals = || train.arrived().map(|(_, arrival)| signed(arrival, Time::ZERO));
    let (Some(last), Some(newest)) = (arrivals().max(), train.heavies.last()) else { return (0.0, 0.0) };
    // Only an unbroken row of the last ones: what is late on its own stands anywhere.
    let overtaken = arrivals().rev().take_while(|arrival| *arrival > at + path.guard).count();
    if overtaken >= OVERTAKEN {
        return (MOST, 0.0);
    }
    let spacing = train.spacing().map_or(path.packet, nanos);
    if overtaken > 0 {
        let far = last - at > 2 * path.guard.max(spacing).max(path.packet);
        return (0.0, if far { OVERTOOK_FEW } else { 0.0 });
    }
    // In a shared queue nothing comes between it and the packet before it, so it is one packet time behind.
    let behind = at - last - signed(sent, newest.sent);
    if behind > 2 * spacing + path.guard {
        return (0.0, 0.0);
    }
    // Behind fair queuing it is there by then: after a packet that is being sent, one of each other flow, and jitter.
    let expected = signed(sent, Time::ZERO) + least + 2 * spacing + path.guard;
    let waited = train.heavies.iter().skip(train.head()).filter_map(|car| car.at);
    // What came with it in one bunch was served with it, in whichever order. Bunches may have been what the offset was
    // taken from.
    let apart = expected + path.guard..at.min(at + path.offset) - path.guard;
    let waited = waited.filter(|arrival| apart.contains(&signed(*arrival, Time::ZERO))).count();
    let waited = waited.min(beyond(train, signed(sent, Time::ZERO) + least + path.guard));
    match waited {
        WAITED.. => (IN_ORDER, 0.0),
        2.. => (IN_ORDER_FEW, 0.0),
        _ => (0.0, 0.0),
    }
}

/// Delay where arrivals scatter too much for their order to say anything: whether the light packet came nearer to its
/// place behind the last heavy ones, or to its place before all that waited.
fn lean(train: &Train, path: &Path, least: i64, sent: Time, at: Time) -> f64 {
    let at = signed(at, Time::ZERO) - path.offset;
    let mut last = [0; LAST];
    let mut count = 0;
    for (_, arrival) in train.arrived().rev().take(LAST) {
        last[count] = signed(arrival, Time::ZERO);
        count += 1;
    }
    let (Some(last), true) = (median(&mut last[..count]), path.scatter > 0) else { return 0.0 };
    let scatter = path.scatter as f64;
    let spacing = train.even_spacing().unwrap_or(path.packet);
    // Behind fair queuing it comes between the place of a new flow's first packet, and one behind all that may go
    // before it. The shortest delay is as much shorter than usual as jitter allows.
    let usual = least + (JITTER * scatter) as i64;
    let first = last - (signed(sent, Time::ZERO) + usual);
    let beyond = beyond(train, signed(sent, Time::ZERO) + least);
    let behind = beyond.saturating_sub(TURN) as i64 * spacing;
    let [first, latest] = [first, behind.min(first - 2 * spacing)].map(|time| time.max(0) as f64 / scatter);
    // Where jitter keeps a flow's order, the last of a train are as late as the latest of it.
    let shared = JITTER;
    let seen = (last - at) as f64 / scatter;
    let nats = far(seen - shared) - far(latest - seen) - far(seen - first);
    if latest < shared || beyond < WAITED { nats.clamp(0.0, MOST) } else { nats.clamp(IN_ORDER, MOST) }
}

/// Heavy packets that still waited when the light one came, `came` being when it would have arrived at once, and that
/// could all be overtaken: what a fair queue may keep in order before does not count, one of which is being sent.
fn beyond(train: &Train, came: i64) -> usize {
    let waited = train.arrived().filter(|(_, arrival)| signed(*arrival, Time::ZERO) > came).count();
    (waited + 1).saturating_sub(train.head())
}

/// Nats against a place that is so many standard deviations off: of a normal distribution, but with heavy tails.
fn far(off: f64) -> f64 {
    let off = off.max(0.0);
    if off < 2.0 { off * off / 2.0 } else { 2.0 * (off - 1.0) }
}

/// Losses of the tail, which begins with the first lost packet, against the fate of the light packet behind it.
fn loss(train: &Train, arrived: bool) -> f64 {
    let first = train.first_missing();
    let tail = &train.heavies[first..];
    if tail.is_empty() {
        return 0.0;
    }
    let row = train.heavies.len() - train.behind_last();
    let few = train.missing() - row <= train.behind_last() / FEW_OF;
    if !arrived && row >= OVERTAKEN && few {
        // Where the queue was full to the end, what was lost singly before is another matter.
        return contrast(0, row, arrived);
    }
    let survived = tail.iter().filter(|car| car.at.is_some()).count();
    contrast(survived, tail.len(), arrived)
}

/// The weight of one light packet's fate where `survived` of `sent` heavy packets did.
fn contrast(survived: usize, sent: usize, arrived: bool) -> f64 {
    let share = (survived as f64 + PRIOR) / (sent as f64 + 2.0 * PRIOR);
    if arrived {
        return libm::log(ARRIVES / share).min(MOST_BY_ARRIVAL);
    }
    // An AQM that drops here and there may do so to each flow of a fair queue. A queue that is full leaves nothing
    // through.
    let fair =
        if survived > 0 && 4 * survived >= sent { LOST.max(HERE_AND_THERE * (1.0 - share)) } else { LOST };
    libm::log(fair / (1.0 - share)).min(0.0)
}

/// Loss over all trains together: the light packets' fates, if each heavy packet's chance were that of all behind the
/// first loss of their trains. Says more than the trains one by one where each loses little.
pub(super) fn share(trains: &[Train]) -> f64 {
    let tails = trains.iter().filter(|train| train.light.is_some()).filter_map(|train| {
        let first = train.heavies.iter().position(|car| car.at.is_none())?;
        Some((&train.heavies[first..], train.light?.at.is_some()))
    });
    let (survived, sent) = tails.clone().fold((0, 0), |(survived, sent), (tail, _)| {
        (survived + tail.iter().filter(|car| car.at.is_some()).count(), sent + tail.len())
    });
    tails.map(|(_, arrived)| contrast(survived, sent, arrived)).sum()
}

#[cfg(test)]
mod tests {
    use super::super::train::Car;
    use super::{Evidence, Path, Train, share};
    use weir_core::{Duration, Time};

    const PATH: Path = Path {
        offset: 0,
        guard: 100_000,
        packet: 1_000_000,
        known: true,
        noisy: false,
        scatter: 0,
        worst: 0,
        apart: false,
    };
    /// Delay of the path without its queue.
    const LEAST: i64 = 50_000_000;

    /// Heavy packets sent at 1 s, and the light packet at once behind them; arrivals in ms after [`LEAST`].
    fn train(head: usize, heavies: &[Option<u64>], light: Option<u64>) -> Train {
        let sent = Time::ZERO + Duration::from_secs(1);
        let car = |number, ms: Option<u64>| Car {
            number,
            sent,
            bytes: 1425,
            at: ms.map(|ms| sent + Duration::from_millis(50 + ms)),
        };
        let mut train = Train::new(heavies.len(), [head; 2]);
        train.heavies = heavies.iter().zip(0..).map(|(ms, number)| car(number, *ms)).collect();
        train.light = Some(car(0, light));
        train
    }

    fn queued(count: u64) -> Vec<Option<u64>> {
        (1..=count).map(Some).collect()
    }

    fn fair(count: u64, light: u64) -> Vec<Option<u64>> {
        (1..=count).map(|place| Some(if place < light { place } else { place + 1 })).collect()
    }

    #[test]
    fn overtaking_speaks_for_fair_queuing() {
        let evidence = Evidence::of(&train(0, &fair(8, 2), Some(2)), &PATH, LEAST);
        assert_eq!(evidence, Evidence { order: 5.0, loss: 0.0, delay: 0.0 });
        // Not where the guard is longer than the train.
        let guarded = Path { guard: 20_000_000, ..PATH };
        assert_eq!(Evidence::of(&train(0, &fair(8, 2), Some(2)), &guarded, LEAST), Evidence::default());
    }

    #[test]
    fn order_behind_a_queue_speaks_for_one_queue() {
        assert_eq!(Evidence::of(&train(0, &queued(8), Some(9)), &PATH, LEAST).order, -4.0);
        assert_eq!(Evidence::of(&train(0, &queued(5), Some(6)), &PATH, LEAST).order, -2.0);
        // Behind the credit of a new flow it says nothing.
        assert_eq!(Evidence::of(&train(8, &queued(8), Some(9)), &PATH, LEAST).order, 0.0);
        // A packet far behind was held up elsewhere.
        assert_eq!(Evidence::of(&train(0, &queued(8), Some(19)), &PATH, LEAST).order, 0.0);
        // Without a queue there is nothing to overtake.
        let no_queue = vec![Some(1); 8];
        assert_eq!(Evidence::of(&train(0, &no_queue, Some(1)), &PATH, LEAST), Evidence::default());
    }

    #[test]
    fn single_late_packets_are_not_overtaken() {
        let mut late = queued(12);
        for index in [3, 7, 9] {
            late[index] = Some(30);
        }
        let evidence = Evidence::of(&train(0, &late, Some(13)), &PATH, LEAST);
        assert!(evidence.sum() < -1.0, "{evidence:?}");
        late[11] = Some(30);
        let evidence = Evidence::of(&train(0, &late, Some(13)), &PATH, LEAST);
        assert!(evidence.sum() < 3.0, "{evidence:?}");
    }

    #[test]
    fn an_unknown_offset_leaves_losses_only() {
        let unknown = Path { known: false, ..PATH };
        assert_eq!(Evidence::of(&train(0, &fair(8, 2), Some(2)), &unknown, LEAST), Evidence::default());
    }

    #[test]
    fn a_buffer_of_one_packet_is_told_by_loss() {
        let mut tail = vec![None; 8];
        (tail[0], tail[1]) = (Some(1), Some(2));
        let survived = Evidence::of(&train(0, &tail, Some(3)), &PATH, LEAST);
        assert!(survived.loss > 3.0 && survived.order == 0.0, "{survived:?}");
        let lost = Evidence::of(&train(0, &tail, None), &PATH, LEAST);
        assert!(lost.loss < -3.0, "{lost:?}");
    }

    #[test]
    fn a_random_loss_says_little() {
        let mut one = queued(8);
        one[2] = None;
        let evidence = Evidence::of(&train(0, &one, Some(9)), &PATH, LEAST);
        assert!(evidence.loss.abs() < 0.3 && evidence.order < -1.0, "{evidence:?}");
        assert_eq!(Evidence::of(&train(0, &queued(8), None), &PATH, LEAST), Evidence::default());
    }

    #[test]
    fn small_contrasts_add_up() {
        // A third of the heavy packets behind the first loss arrives, and each light one.
        let pattern = [None, Some(2), None, None, Some(5), None];
        let trains: Vec<_> = (0..6).map(|_| train(0, &pattern, Some(6))).collect();
        assert!(share(&trains) > 5.0, "{}", share(&trains));
        let lost: Vec<_> = (0..6).map(|index| train(0, &pattern, (index < 2).then_some(6))).collect();
        assert!(share(&lost) < 1.0, "{}", share(&lost));
        assert_eq!(share(&[]), 0.0);
    }
}
