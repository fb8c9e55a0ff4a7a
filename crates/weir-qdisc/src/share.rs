//! Who sends next when two queues share a link: the arithmetic of CRQ's sharing, without the queues.
//!
//! Work-conserving sharing is deficit round robin with the quantum taken down to a byte: of two queues that wait, the
//! one that has had less for its weight sends next, and what it got too much is kept against it. The hard split is
//! that of the CRQ prototype, whose two HTB classes have no common parent and so cannot borrow (`net/sched/sch_htb.c`):
//! each queue has a bucket that is filled by what it sends and leaks at its share of the rate. Unlike HTB, which rounds
//! rates to a multiplication and a shift, the buckets are exact: they count in units of 1 bit x 1 ns / (sum of
//! weights), in which both what is sent and what leaks are whole numbers.

use weir_core::{Duration, QueueChoice, Rate, Time};

/// The two weights, standard and responsive, in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weights([u32; 2]);

impl Weights {
    /// Both must be above zero.
    pub(crate) fn new(standard: u32, responsive: u32) -> Self {
        let divisor = gcd(standard, responsive).max(1);
        Self([standard / divisor, responsive / divisor])
    }

    pub(crate) fn of(self, queue: QueueChoice) -> u32 {
        self.0[queue as usize]
    }

    pub(crate) fn sum(self) -> u64 {
        u64::from(self.0[0]) + u64::from(self.0[1])
    }

    /// A queue's share of `rate`, rounded down to whole bits per second.
    pub(crate) fn share(self, rate: Rate, queue: QueueChoice) -> Rate {
        let bits =
            u128::from(rate.bits_per_sec()) * u128::from(self.of(queue)) / u128::from(self.sum().max(1));
        Rate::from_bits_per_sec(bits as u64)
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The queue beside `queue`.
pub(crate) fn other(queue: QueueChoice) -> QueueChoice {
    match queue {
        QueueChoice::Standard => QueueChoice::Responsive,
        QueueChoice::Responsive => QueueChoice::Standard,
    }
}

/// Work-conserving sharing by weight.
#[derive(Clone, Debug)]
pub(crate) struct Balance {
    weights: Weights,
    /// Bytes that the standard queue has had x weight of the other, less bytes that the responsive queue has had x
    /// weight of the other: above zero while the standard queue is ahead. Never more than one packet either way.
    lead: i128,
}

impl Balance {
    pub(crate) fn new(weights: Weights) -> Self {
        Self { weights, lead: 0 }
    }

    /// Which queue goes first, given which of them wait. A tie goes to the responsive queue.
    ///
    /// An idle queue's claim lapses, so it cannot save up for a burst; its debt of at most a packet stays.
    pub(crate) fn first(&mut self, standard_waits: bool, responsive_waits: bool) -> QueueChoice {
        if !standard_waits {
            self.lead = self.lead.max(0);
        }
        if !responsive_waits {
            self.lead = self.lead.min(0);
        }
        if self.lead < 0 { QueueChoice::Standard } else { QueueChoice::Responsive }
    }

    pub(crate) fn sent(&mut self, queue: QueueChoice, bytes: u32) {
        let gain = i128::from(bytes) * i128::from(self.weights.of(other(queue)));
        match queue {
            QueueChoice::Standard => self.lead += gain,
            QueueChoice::Responsive => self.lead -= gain,
        }
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

/// A hard split: two shapers that lend each other nothing.
#[derive(Clone, Debug)]
pub(crate) struct HardSplit {
    buckets: [Bucket; 2],
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
            buckets: [bucket(QueueChoice::Standard), bucket(QueueChoice::Responsive)],
            ready_at: u128::from(burst.saturating_sub(mtu)) * per_byte,
            per_byte,
        }
    }

    /// Which queue goes first if both may send: the one that would sooner lose credit by waiting. At full load it is
    /// this order (earliest deadline first) that lets both get their exact shares through one link.
    pub(crate) fn first(&self, now: Time) -> QueueChoice {
        let [standard, responsive] = &self.buckets;
        let standard_lasts = standard.level(now).saturating_mul(responsive.weight);
        let responsive_lasts = responsive.level(now).saturating_mul(standard.weight);
        if standard_lasts < responsive_lasts { QueueChoice::Standard } else { QueueChoice::Responsive }
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
    use weir_core::{QueueChoice::*, Rate, Time};

    #[test]
    fn weights_are_reduced_and_share_a_rate() {
        let weights = Weights::new(30, 70);
        assert_eq!((weights.of(Standard), weights.of(Responsive), weights.sum()), (3, 7, 10));
        assert_eq!(
            weights.share(Rate::from_bits_per_sec(1_000_000_005), Responsive).bits_per_sec(),
            700_000_003
        );
        assert_eq!(Weights::new(u32::MAX, u32::MAX).sum(), 2);
    }

    #[test]
    fn an_idle_queue_saves_nothing_up() {
        let mut balance = Balance::new(Weights::new(1, 1));
        for _ in 0..100 {
            balance.first(true, false);
            balance.sent(Standard, 1500);
        }
        // One packet ahead, not a hundred: the responsive queue goes first once, then they take turns.
        let order: Vec<_> = (0..4)
            .map(|_| {
                let first = balance.first(true, true);
                balance.sent(first, 1500);
                first
            })
            .collect();
        assert_eq!(order, [Responsive, Responsive, Standard, Responsive]);
    }

    #[test]
    fn a_full_bucket_lets_one_burst_go() {
        // 8 Mbit/s split 1:1 is one byte per 2 us and queue.
        let mut split = HardSplit::new(Weights::new(5, 5), Rate::from_bits_per_sec(8_000_000), 3000, 1500);
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
        assert_eq!(split.first(now), Responsive);
    }
}
