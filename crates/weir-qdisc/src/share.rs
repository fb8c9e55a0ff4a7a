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

/// By how much each queue is ahead of the one that has had least: bytes over a weight, in some unit.
#[derive(Clone, Debug, Default)]
struct Lead {
    ahead: [u128; MOST],
    /// What the one that has had least has had.
    least: u128,
}

impl Lead {
    /// In which order the queues go, given which of them wait. A tie goes to the one of the higher number.
    ///
    /// An idle queue's claim lapses, so it cannot save up for a burst; its debt of at most a packet stays.
    fn order(&mut self, waits: [bool; MOST]) -> [QueueChoice; MOST] {
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
        self.least = self.least.wrapping_add(least);
        let mut order = QueueChoice::ALL;
        order.sort_unstable_by_key(|queue| (ahead[*queue as usize], Reverse(*queue as usize)));
        order
    }
}

/// Work-conserving sharing by weight.
#[derive(Clone, Debug)]
pub(crate) struct Balance {
    weights: Weights,
    /// In bytes x weights of the other queues. Never more than one packet's.
    lead: Lead,
}

impl Balance {
    pub(crate) fn new(weights: Weights) -> Self {
        Self { weights, lead: Lead::default() }
    }

    /// As [`Lead::order`].
    pub(crate) fn order(&mut self, waits: [bool; MOST]) -> [QueueChoice; MOST] {
        self.lead.order(waits)
    }

    pub(crate) fn sent(&mut self, queue: QueueChoice, bytes: u32) {
        self.lead.ahead[queue as usize] += u128::from(bytes) * self.weights.others(queue);
    }
}

/// How finely rounds are counted.
pub(crate) const ROUND_BITS: u32 = 12;

/// Work-conserving sharing by weights that change from packet to packet: at any moment the queues are served in
/// proportion to them, as by a generalised processor sharing whose virtual time runs by them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByFlows {
    /// In bytes / weight, of which [`UNIT`](Self::UNIT) is one.
    lead: Lead,
    /// What the divisions left, in the same over the weight.
    rest: [u128; MOST],
}

impl ByFlows {
    const UNIT: u32 = 32;

    /// As [`Lead::order`].
    pub(crate) fn order(&mut self, waits: [bool; MOST]) -> [QueueChoice; MOST] {
        self.lead.order(waits)
    }

    /// Bytes over weight that have been served to all that wait, in parts of 2^[`ROUND_BITS`].
    pub(crate) fn round(&mut self, waits: [bool; MOST]) -> u64 {
        self.lead.order(waits);
        (self.lead.least >> (Self::UNIT - ROUND_BITS)) as u64
    }

    /// `weight` is what the queue had as the packet left it; 0 counts as 1.
    pub(crate) fn sent(&mut self, queue: QueueChoice, bytes: u32, weight: u64) {
        let weight = u128::from(weight.max(1));
        let (lead, rest) = (&mut self.lead.ahead[queue as usize], &mut self.rest[queue as usize]);
        let cost = (u128::from(bytes) << Self::UNIT) + *rest;
        *lead += cost / weight;
        *rest = cost % weight;
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
mod tests;
