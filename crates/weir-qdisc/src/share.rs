//! Who sends next when two or three queues share a link: the arithmetic of CRQ's sharing, without the queues.
//!
//! Work-conserving sharing is deficit round robin with the quantum taken down to a byte: of the queues that wait, the
//! one that has had least for its weight sends next, and what it got too much is kept against it. The hard split is
//! that of the CRQ prototype, whose HTB classes have no common parent and so cannot borrow (`net/sched/sch_htb.c`):
//! each queue has a bucket that is filled by what it sends and leaks at its share of the rate. Unlike HTB, which rounds
//! rates to a multiplication and a shift, the buckets are exact: they count in units of 1 bit x 1 ns / (sum of
//! weights), in which both what is sent and what leaks are whole numbers.

use std::cmp::{Ordering, Reverse};

use weir_core::{Duration, QueueChoice, Rate, Time};

/// Queues at most.
const MOST: usize = QueueChoice::ALL.len();

/// The weights of the queues, in lowest terms; 0 for a queue that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weights([u32; MOST]);

impl Weights {
    /// Those of the standard, the responsive and, if not 0, the ECN-responsive queue.
    pub(crate) fn new(weights: [u32; MOST]) -> Self {
        let divisor = weights.into_iter().fold(0, gcd).max(1);
        Self(weights.map(|weight| weight / divisor))
    }

    pub(crate) fn of(self, queue: QueueChoice) -> u32 {
        self.0[queue as usize]
    }

    pub(crate) fn sum(self) -> u64 {
        self.0.into_iter().map(u64::from).sum()
    }

    /// A queue's share of `rate`, rounded down to whole bits per second.
    pub(crate) fn share(self, rate: Rate, queue: QueueChoice) -> Rate {
        let bits =
            u128::from(rate.bits_per_sec()) * u128::from(self.of(queue)) / u128::from(self.sum().max(1));
        Rate::from_bits_per_sec(bits as u64)
    }

    fn exists(self, queue: QueueChoice) -> bool {
        self.of(queue) > 0
    }

    /// The product of the other queues' weights.
    fn others(self, queue: QueueChoice) -> u128 {
        let others = QueueChoice::ALL.into_iter().filter(|other| *other != queue && self.exists(*other));
        others.map(|other| u128::from(self.of(other))).product()
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Work-conserving sharing by weight.
#[derive(Clone, Debug)]
pub(crate) struct Balance {
    weights: Weights,
    /// Bytes that a queue has had x weights of the others, by how much it is ahead of the one that has had least. Never
    /// more than one packet's.
    ahead: [u128; MOST],
}

impl Balance {
    pub(crate) fn new(weights: Weights) -> Self {
        Self { weights, ahead: [0; MOST] }
    }

    /// In which order the queues go, given which of them wait. A tie goes to the one of the higher number.
    ///
    /// An idle queue's claim lapses, so it cannot save up for a burst; its debt of at most a packet stays.
    pub(crate) fn order(&mut self, waits: [bool; MOST]) -> [QueueChoice; MOST] {
        let ahead = &mut self.ahead;
        let waiting = (0..MOST).filter(|queue| waits[*queue]).map(|queue| ahead[queue]).min();
        let claim = waiting.unwrap_or_else(|| ahead.iter().copied().max().unwrap_or_default());
        for (ahead, waits) in ahead.iter_mut().zip(waits) {
            if !waits {
                *ahead = (*ahead).max(claim);
            }
        }
        let least = ahead.iter().copied().min().unwrap_or_default();
        ahead.iter_mut().for_each(|ahead| *ahead -= least);
        let mut order = QueueChoice::ALL;
        order.sort_unstable_by_key(|queue| (ahead[*queue as usize], Reverse(*queue as usize)));
        order
    }

    pub(crate) fn sent(&mut self, queue: QueueChoice, bytes: u32) {
        self.ahead[queue as usize] += u128::from(bytes) * self.weights.others(queue);
    }
}

/// One queue's bucket in a hard split: full of credit, that is empty of what was sent, at the start.
#[derive(Clone, Debug)]
struct Bucket {
    /// What was sent and has not leaked, as of `as_of`.
    level: u128,
    as_of: Time,
    /// What leaks in a nanosecond.
    leak: u128,
    weight: u128,
}

impl Bucket {
    fn level(&self, now: Time) -> u128 {
        let leaked = self.leak.saturating_mul(u128::from(now.since(self.as_of).as_nanos()));
        self.level.saturating_sub(leaked)
    }
}

/// A hard split: shapers that lend each other nothing.
#[derive(Clone, Debug)]
pub(crate) struct HardSplit {
    buckets: [Bucket; MOST],
    /// A queue may send while its level is at most this: then one more packet of the MTU makes a burst.
    ready_at: u128,
    /// What a wire byte adds to a level.
    per_byte: u128,
}

impl HardSplit {
    /// Shares of `rate` by weight. `burst` bytes may leave at once after a pause; at least one `mtu`.
    pub(crate) fn new(weights: Weights, rate: Rate, burst: u32, mtu: u32) -> Self {
        let per_byte = 8_000_000_000 * u128::from(weights.sum());
        let bucket = |queue| {
            let weight = u128::from(weights.of(queue));
            Bucket { level: 0, as_of: Time::ZERO, leak: u128::from(rate.bits_per_sec()) * weight, weight }
        };
        Self {
            buckets: QueueChoice::ALL.map(bucket),
            ready_at: u128::from(burst.saturating_sub(mtu)) * per_byte,
            per_byte,
        }
    }

    /// In which order the queues go if all may send: first the one that would soonest lose credit by waiting. At full
    /// load it is this order (earliest deadline first) that lets all get their exact shares through one link. A tie
    /// goes to the one of the higher number, queues that do not exist go last.
    pub(crate) fn order(&self, now: Time) -> [QueueChoice; MOST] {
        let mut order = QueueChoice::ALL;
        order.sort_unstable_by(|one, two| {
            let (first, second) = (&self.buckets[*one as usize], &self.buckets[*two as usize]);
            let deadline = match (first.weight, second.weight) {
                (0, 0) => Ordering::Equal,
                (0, _) => Ordering::Greater,
                (_, 0) => Ordering::Less,
                (of_first, of_second) => first
                    .level(now)
                    .saturating_mul(of_second)
                    .cmp(&second.level(now).saturating_mul(of_first)),
            };
            deadline.then_with(|| (*two as usize).cmp(&(*one as usize)))
        });
        order
    }

    pub(crate) fn may_send(&self, queue: QueueChoice, now: Time) -> bool {
        self.buckets[queue as usize].level(now) <= self.ready_at
    }

    /// When `queue` may send next: `now`, or the first nanosecond at which [`may_send`](Self::may_send) holds.
    pub(crate) fn ready(&self, queue: QueueChoice, now: Time) -> Time {
        let bucket = &self.buckets[queue as usize];
        let excess = bucket.level(now).saturating_sub(self.ready_at);
        if excess == 0 {
            return now;
        }
        let wait = excess.checked_div(bucket.leak).map_or(u128::MAX, |_| excess.div_ceil(bucket.leak));
        now + Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    pub(crate) fn sent(&mut self, queue: QueueChoice, now: Time, bytes: u32) {
        let bucket = &mut self.buckets[queue as usize];
        bucket.level = bucket.level(now) + u128::from(bytes) * self.per_byte;
        bucket.as_of = now;
    }
}

#[cfg(test)]
mod tests {
    use super::{Balance, HardSplit, Weights};
    use weir_core::{QueueChoice, QueueChoice::*, Rate, Time};

    #[test]
    fn weights_are_reduced_and_share_a_rate() {
        let weights = Weights::new([30, 70, 0]);
        assert_eq!((weights.of(Standard), weights.of(Responsive), weights.sum()), (3, 7, 10));
        assert_eq!(
            weights.share(Rate::from_bits_per_sec(1_000_000_005), Responsive).bits_per_sec(),
            700_000_003
        );
        assert_eq!(Weights::new([u32::MAX, u32::MAX, 0]).sum(), 2);
    }

    #[test]
    fn an_idle_queue_saves_nothing_up() {
        let mut balance = Balance::new(Weights::new([1, 1, 0]));
        for _ in 0..100 {
            balance.order([true, false, false]);
            balance.sent(Standard, 1500);
        }
        // One packet ahead, not a hundred: the responsive queue goes first once, then they take turns.
        let order: Vec<_> = (0..4)
            .map(|_| {
                let order = balance.order([true, true, false]);
                let first = order.into_iter().find(|queue| *queue != EcnResponsive).unwrap();
                balance.sent(first, 1500);
                first
            })
            .collect();
        assert_eq!(order, [Responsive, Responsive, Standard, Responsive]);
    }

    #[test]
    fn a_full_bucket_lets_one_burst_go() {
        // 8 Mbit/s split 1:1 is one byte per 2 us and queue.
        let mut split =
            HardSplit::new(Weights::new([5, 5, 0]), Rate::from_bits_per_sec(8_000_000), 3000, 1500);
        let now = Time::ZERO;
        for _ in 0..2 {
            assert!(split.may_send(Standard, now));
            split.sent(Standard, now, 1500);
        }
        assert!(!split.may_send(Standard, now));
        assert!(split.may_send(Responsive, now));
        let ready = split.ready(Standard, now);
        assert_eq!(ready, Time::from_nanos(1500 * 2000));
        assert!(split.may_send(Standard, ready));
        assert!(!split.may_send(Standard, Time::from_nanos(ready.as_nanos() - 1)));
        assert_eq!(split.order(now), [Responsive, Standard, EcnResponsive]);
    }

    #[test]
    fn three_queues_get_their_weights() {
        let weights = Weights::new([10, 20, 50]);
        let rate = Rate::from_bits_per_sec(8_000_000);
        let shares = QueueChoice::ALL.map(|queue| weights.share(rate, queue).bits_per_sec());
        assert_eq!(shares, [1_000_000, 2_000_000, 5_000_000]);
        let mut balance = Balance::new(weights);
        let mut split = HardSplit::new(weights, rate, 2000, 1000);
        let (mut shared, mut hard) = ([0; 3], [0; 3]);
        for packet in 0..8_000 {
            let first = balance.order([true; 3])[0];
            balance.sent(first, 1000);
            shared[first as usize] += 1;
            // A packet takes the link 1 ms.
            let now = Time::from_nanos(packet * 1_000_000);
            let first = split.order(now).into_iter().find(|queue| split.may_send(*queue, now));
            let first = first.expect("earliest deadline first fills the link");
            split.sent(first, now, 1000);
            hard[first as usize] += 1;
        }
        assert_eq!(shared, [1_000, 2_000, 5_000]);
        for (got, want) in hard.into_iter().zip([1_000_i32, 2_000, 5_000]) {
            assert!((got - want).abs() <= 2, "{hard:?}");
        }
    }

    #[test]
    fn of_three_queues_an_idle_one_neither_saves_nor_loses() {
        let mut balance = Balance::new(Weights::new([1, 1, 1]));
        for _ in 0..100 {
            let order = balance.order([true, false, true]);
            let first = order.into_iter().find(|queue| *queue != Responsive).unwrap();
            balance.sent(first, 1500);
        }
        let order: Vec<_> = (0..6)
            .map(|_| {
                let first = balance.order([true; 3])[0];
                balance.sent(first, 1500);
                first
            })
            .collect();
        for queue in QueueChoice::ALL {
            // Two each; who was a packet ahead before has one less.
            let turns = order.iter().filter(|first| **first == queue).count();
            assert!((1..=3).contains(&turns), "{order:?}");
        }
    }
}
