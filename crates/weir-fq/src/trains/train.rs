//! A train: some heavy packets, a light one behind them, and what became of each.

use weir_core::{Duration, Rate, Time};

use super::baseline::{Path, median};
use super::{FAST_PATH, signed};

/// A packet of a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Car {
    /// Its number in its sub-flow.
    pub(super) number: u64,
    /// When it was sent.
    pub(super) sent: Time,
    /// Its payload bytes.
    pub(super) bytes: u32,
    /// When it arrived, by the receiver's clock; none if it is lost or on its way.
    pub(super) at: Option<Time>,
}

/// A train that is being sent or was sent.
#[derive(Clone, Debug)]
pub(super) struct Train {
    /// The heavy packets in the order in which they were sent.
    pub(super) heavies: Vec<Car>,
    /// The packet behind them.
    pub(super) light: Option<Car>,
    /// Heavy packets at its head that may stay in order behind fair queuing too: if it came to an idle link, and if
    /// others had packets in the queue.
    heads: [usize; 2],
}

impl Train {
    /// A train of up to `heavies` heavy packets.
    pub(super) fn new(heavies: usize, heads: [usize; 2]) -> Self {
        Self { heavies: Vec::with_capacity(heavies), light: None, heads }
    }

    /// Takes note of the arrival of a heavy packet; false if it is none of the train's.
    pub(super) fn heavy_arrived(&mut self, number: u64, at: Time) -> bool {
        // The numbers go up, though not by one where the host sent something in between.
        let Ok(index) = self.heavies.binary_search_by_key(&number, |car| car.number) else { return false };
        self.heavies[index].at = Some(at);
        true
    }

    /// The same of the light packet.
    pub(super) fn light_arrived(&mut self, number: u64, at: Time) -> bool {
        let light = self.light.as_mut().filter(|light| light.number == number);
        light.map(|light| light.at = Some(at)).is_some()
    }

    /// Whether it lost packets at once, so that the queue was in use when it came.
    pub(super) fn met_others(&self) -> bool {
        self.heavies.iter().take(FAST_PATH).filter(|car| car.at.is_none()).count() > 1
    }

    /// Heavy packets at its head that may stay in order behind fair queuing too.
    pub(super) fn head(&self) -> usize {
        self.heads[usize::from(self.met_others())]
    }

    /// Whether every packet has arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.light.is_some_and(|light| light.at.is_some()) && self.heavies.iter().all(|car| car.at.is_some())
    }

    /// Whether any packet has arrived.
    pub(super) fn is_heard(&self) -> bool {
        self.light.is_some_and(|light| light.at.is_some()) || self.arrived().next().is_some()
    }

    /// Whether the light packet came in one bunch with some heavy ones, as a link brings them that sends several at
    /// once.
    pub(super) fn is_bunched(&self, path: &Path) -> bool {
        const BUNCH: usize = 4;
        let Some(light) = self.light.and_then(|light| light.at) else { return false };
        let light = signed(light, Time::ZERO) - path.offset;
        let near = |at: Time| (signed(at, Time::ZERO) - light).abs() <= path.guard;
        self.arrived().filter(|(_, at)| near(*at)).count() >= BUNCH
    }

    /// Leaves out the heavy packets behind the last that has arrived.
    pub(super) fn cut(&mut self) {
        self.heavies.truncate(self.behind_last());
    }

    /// Heavy packets that have arrived, as numbers and arrivals go.
    pub(super) fn arrived(&self) -> impl DoubleEndedIterator<Item = (&Car, Time)> {
        self.heavies.iter().filter_map(|car| Some((car, car.at?)))
    }

    /// Heavy packets that have not arrived.
    pub(super) fn missing(&self) -> usize {
        self.heavies.len() - self.arrived().count()
    }

    /// The place of the first that has not arrived; their number if all have.
    pub(super) fn first_missing(&self) -> usize {
        self.heavies.iter().position(|car| car.at.is_none()).unwrap_or(self.heavies.len())
    }

    /// The place behind the last that has arrived; zero if none has.
    pub(super) fn behind_last(&self) -> usize {
        self.heavies.iter().rposition(|car| car.at.is_some()).map_or(0, |last| last + 1)
    }

    /// The time between the arrivals of heavy packets: of all behind the head, or if these are too few of all.
    pub(super) fn spacing(&self) -> Option<Duration> {
        let (span, packets, _) = self.span()?;
        Some(span / packets)
    }

    /// The time between the arrivals of heavy packets, in nanoseconds, from the middle of the first and of the last
    /// few: as good as it gets where each arrival scatters.
    pub(super) fn even_spacing(&self) -> Option<i64> {
        const FEW: usize = 5;
        let places = || (0..self.heavies.len()).filter_map(|place| Some((place, self.heavies[place].at?)));
        let middle = |cars: &mut dyn Iterator<Item = (usize, Time)>| {
            let (mut places, mut times, mut count) = ([0; FEW], [0; FEW], 0);
            for (place, at) in cars.take(FEW) {
                (places[count], times[count]) = (place as i64, signed(at, Time::ZERO));
                count += 1;
            }
            Some((median(&mut places[..count])?, median(&mut times[..count])?))
        };
        let ((head, begin), (tail, end)) = (middle(&mut places())?, middle(&mut places().rev())?);
        (tail > head).then(|| ((end - begin) / (tail - head)).max(0))
    }

    /// By how much longer than the first few heavy packets the last few were on their way, in nanoseconds: how far a
    /// queue has grown, if the train has met or made one. None of a train that has lost packets.
    pub(super) fn growth(&self) -> Option<i64> {
        const FEW: usize = 5;
        if !self.is_complete() || self.heavies.len() < 2 * FEW {
            return None;
        }
        let middle = |cars: &[Car]| {
            let mut delays = [0; FEW];
            for (delay, car) in delays.iter_mut().zip(cars) {
                *delay = signed(car.at?, car.sent);
            }
            median(&mut delays)
        };
        Some(middle(&self.heavies[self.heavies.len() - FEW..])? - middle(&self.heavies[..FEW])?)
    }

    /// The rate of payload at which heavy packets arrived, without the time that the light one took among them;
    /// `packet` is how long the bottleneck takes for one, or less.
    pub(super) fn rate(&self, packet: Duration) -> Option<Rate> {
        let (span, packets, bytes) = self.span()?;
        let last = self.arrived().map(|(_, at)| at).max()?;
        let within = |at: Time| at < last && at + span > last;
        let light = self.light.and_then(|light| light.at).is_some_and(within);
        let span = if light { span - packet.min(span / (packets + 1)) } else { span };
        let bits = u128::from(bytes) * 8_000_000_000 / u128::from(span.as_nanos().max(1));
        Some(Rate::from_bits_per_sec(u64::try_from(bits).unwrap_or(u64::MAX)))
    }

    /// The time from the first to the last arrival, and what arrived in it.
    fn span(&self) -> Option<(Duration, u64, u64)> {
        let behind_head = self.heavies.get(self.head()..).unwrap_or_default();
        let enough = behind_head.iter().filter(|car| car.at.is_some()).count() >= 3;
        let cars = if enough { behind_head } else { &self.heavies[..] };
        let mut arrived = cars.iter().filter_map(|car| Some((car.at?, car.bytes)));
        let (mut first, first_bytes) = arrived.next()?;
        let (mut last, mut packets, mut bytes, mut head) = (first, 0, 0, u64::from(first_bytes));
        for (at, more) in arrived {
            packets += 1;
            bytes += u64::from(more);
            last = last.max(at);
            if at < first {
                // Overtaken on the way: the bytes of the earliest one do not count.
                (bytes, first) = (bytes + head - u64::from(more), at);
                head = u64::from(more);
            }
        }
        (packets > 0 && last > first).then(|| (last.since(first), packets, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::{Car, Train};
    use weir_core::{Duration, Rate, Time};

    fn train(head: usize, arrivals: &[Option<u64>]) -> Train {
        let mut train = Train::new(arrivals.len(), [head; 2]);
        train.heavies.extend(arrivals.iter().zip(10..).map(|(at, number)| Car {
            number,
            sent: Time::ZERO,
            bytes: 1250,
            at: at.map(|ms| Time::ZERO + Duration::from_millis(ms)),
        }));
        train
    }

    #[test]
    fn dispersion_is_what_arrived_after_the_first() {
        // 1250 bytes in 2 ms are 5 Mbit/s.
        let even = train(0, &[Some(10), Some(12), Some(14), Some(16)]);
        assert_eq!(even.rate(Duration::ZERO), Some(Rate::from_bits_per_sec(5_000_000)));
        assert_eq!(even.spacing(), Some(Duration::from_millis(2)));
        // The order of arrivals does not matter, losses at the end do not either.
        let mixed = train(0, &[Some(12), Some(10), Some(16), Some(14), None, None]);
        assert_eq!(mixed.rate(Duration::ZERO), even.rate(Duration::ZERO));
        assert_eq!((mixed.missing(), even.missing()), (2, 0));
        assert_eq!(train(0, &[Some(12), None]).rate(Duration::ZERO), None);
    }

    #[test]
    fn the_light_packets_own_time_is_not_the_heavy_ones() {
        let mut train = train(0, &[Some(10), Some(12), Some(16), Some(18)]);
        let packet = Duration::from_millis(2);
        assert_eq!(train.rate(packet), Some(Rate::from_bits_per_sec(3_750_000)));
        let at = Some(Time::ZERO + Duration::from_millis(14));
        train.light = Some(Car { number: 0, sent: Time::ZERO, bytes: 1250, at });
        assert_eq!(train.rate(packet), Some(Rate::from_bits_per_sec(5_000_000)));
        // What is said to be longer than it can be counts as a packet like the others.
        assert_eq!(train.rate(packet * 9), train.rate(packet));
    }

    #[test]
    fn what_a_new_flow_sends_at_once_does_not_count() {
        let credited = train(3, &[Some(10), Some(11), Some(12), Some(14), Some(18), Some(22)]);
        assert_eq!(credited.spacing(), Some(Duration::from_millis(4)));
        let few = train(3, &[Some(10), Some(12), Some(14), Some(16)]);
        assert_eq!(few.spacing(), Some(Duration::from_millis(2)));
    }

    #[test]
    fn what_is_cut_off_is_not_missing() {
        let mut train = train(0, &[Some(10), None, Some(12), None, None]);
        assert_eq!((train.missing(), train.first_missing()), (3, 1));
        train.cut();
        assert_eq!((train.heavies.len(), train.missing()), (3, 1));
    }

    #[test]
    fn a_queue_grows_by_what_the_last_wait_longer() {
        let sent_apart = |between: u64, arrivals: &[Option<u64>]| {
            let mut train = train(0, arrivals);
            for (car, place) in train.heavies.iter_mut().zip(0..) {
                car.sent = Time::ZERO + Duration::from_millis(between * place);
            }
            let (number, sent, bytes) = (0, Time::ZERO, 1250);
            train.light = Some(Car { number, sent, bytes, at: Some(sent) });
            train
        };
        let arrivals: Vec<_> = (0..20).map(|place| Some(10 + 3 * place)).collect();
        assert_eq!(sent_apart(3, &arrivals).growth(), Some(0));
        assert_eq!(sent_apart(2, &arrivals).growth(), Some(15_000_000));
        assert_eq!(sent_apart(4, &arrivals).growth(), Some(-15_000_000));
        assert_eq!(sent_apart(3, &arrivals[..9]).growth(), None, "too short");
        let mut lossy = arrivals;
        lossy[7] = None;
        assert_eq!(sent_apart(3, &lossy).growth(), None);
    }

    #[test]
    fn packets_are_known_by_their_numbers() {
        let mut train = train(0, &[None, None]);
        train.heavies[1].number = 17;
        assert!(!train.heavy_arrived(11, Time::ZERO) && !train.light_arrived(11, Time::ZERO));
        assert!(train.heavy_arrived(17, Time::ZERO) && train.heavy_arrived(10, Time::ZERO));
        assert!(!train.is_complete());
        train.light = Some(Car { number: 3, sent: Time::ZERO, bytes: 1250, at: None });
        assert!(!train.light_arrived(2, Time::ZERO) && train.light_arrived(3, Time::ZERO));
        assert!(train.is_complete());
    }
}
