//! Looks, without a packet of its own, whether the heavy sub-flow's queue is its own. Behind fair queuing its delay q
//! obeys dq/dt = r / s - 1, r being the rate at which it sends and s its share: whoever sends less than is delivered
//! sees the queue shrink. Where it does not within two round trips, somebody else is in it: the bottleneck has changed,
//! or the queue that grows is not the one that was found fair.
//!
//! A share that becomes less step by step looks alike, when another flow begins. The price of such an error is a
//! detection more.

use weir_cc::{Ack, Sent};
use weir_core::{Duration, Rate, Time};

use crate::shortest::Shortest;

/// A queue below this says nothing, nor does one of less than so many packets.
const LEAST_QUEUE: Duration = Duration::from_millis(2);
const LEAST_PACKETS: u64 = 3;
/// Rounds that are looked at: a queue, and the two round trips after it.
const ROUNDS: usize = 3;
/// So often in a row: once may be a flow that begins and takes its share step by step.
const IN_A_ROW: u32 = 2;
/// In percent of what was delivered, how much less has to be sent.
const LESS: u64 = 95;
/// Of what the queue should have shrunk by, so much has to be seen: one in this many.
const SEEN: u64 = 4;
/// An alarm so soon after another, or within so many round trips: fair queuing was found in between, but it is not what
/// counts (the queue that grows is another), and is not believed for a while.
const SOON: Duration = Duration::from_secs(2);
const SOON_ROUNDS: u64 = 20;
/// How long at first; twice that with each further alarm.
const DOUBT: Duration = Duration::from_secs(10);
/// Times that a pause doubles at most.
pub(crate) const DOUBLINGS: u32 = 3;
/// Rounds of which the fastest tells what the flow had for itself.
const KNOWN: usize = 20;
/// What it goes on with of that in a queue that others share, in tenths: what Cubic keeps after a loss.
const KEPT: u64 = 7;
/// But not more than so many times what the newest rounds brought: the bottleneck may have become far narrower.
const MOST: u64 = 4;

/// A round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    began: Time,
    length: Duration,
    sent: u64,
    delivered: u64,
    packets: u64,
    /// The shortest round-trip time in it.
    rtt: Duration,
}

impl Round {
    /// Bytes per second.
    fn per_second(&self, bytes: u64) -> u64 {
        let nanos = u128::from(self.length.as_nanos().max(1));
        (u128::from(bytes) * 1_000_000_000 / nanos) as u64
    }
}

/// By how much a queue shrinks whose flow's share is so many bytes per second, if what was sent in these rounds was
/// less.
fn shrinking(share: u64, rounds: &[Round]) -> Duration {
    let length: u64 = rounds.iter().map(|round| round.length.as_nanos()).sum();
    let sent: u64 = rounds.iter().map(|round| round.sent).sum();
    let carried = u128::from(share) * u128::from(length) / 1_000_000_000;
    let missing = carried.saturating_sub(u128::from(sent));
    Duration::from_nanos((missing * 1_000_000_000 / u128::from(share.max(1))) as u64)
}

/// Watches a queue that was found to be the connection's own.
#[derive(Clone, Debug, Default)]
pub struct Isolation {
    now: Round,
    /// Ended, the newest last.
    rounds: [Round; ROUNDS],
    count: usize,
    /// The round ends when a packet arrives that was sent when so many had been delivered.
    end: u64,
    /// Round trips.
    shortest: Shortest<Duration>,
    in_a_row: u32,
    alarms: u32,
    last_alarm: Option<Time>,
    doubts_until: Time,
    /// Bytes per second that were delivered in each of the last rounds.
    known: [u64; KNOWN],
}

impl Isolation {
    /// Begins to watch anew: what was sent and heard until now does not count.
    pub fn restart(&mut self) {
        (self.count, self.in_a_row, self.now, self.end) = (0, 0, Round::default(), 0);
    }

    /// The queue is not the flow's own any more.
    pub fn leave(&mut self) {
        self.restart();
        self.known = [0; KNOWN];
    }

    /// The sub-flow has sent a packet.
    pub fn on_sent(&mut self, sent: &Sent) {
        self.now.sent += u64::from(sent.bytes);
    }

    /// The sub-flow has heard. Tells whether somebody else is in its queue.
    pub fn on_ack(&mut self, ack: &Ack) -> bool {
        if let Some(rtt) = ack.rtt {
            self.shortest.saw(ack.now, rtt);
            self.now.rtt = if self.now.packets == 0 { rtt } else { self.now.rtt.min(rtt) };
        }
        if ack.delivered.packets == 0 || ack.rtt.is_none() && self.now.packets == 0 {
            return false;
        }
        self.now.delivered += ack.delivered.bytes;
        self.now.packets += u64::from(ack.delivered.packets);
        if self.now.began == Time::ZERO {
            // Nothing was counted from here on.
            self.now = Round { began: ack.now, ..Round::default() };
            self.end = ack.total_delivered;
            return false;
        }
        if ack.rate.is_some_and(|sample| sample.prior_delivered < self.end)
            || self.now.packets < LEAST_PACKETS
        {
            return false;
        }
        let round = Round { length: ack.now.since(self.now.began), ..self.now };
        self.now = Round { began: ack.now, ..Round::default() };
        self.end = ack.total_delivered;
        self.rounds.rotate_left(1);
        self.rounds[ROUNDS - 1] = round;
        self.known.rotate_left(1);
        self.known[KNOWN - 1] = round.per_second(round.delivered);
        self.count += 1;
        let shared = self.count >= ROUNDS && self.is_shared();
        self.in_a_row = if shared { self.in_a_row + 1 } else { 0 };
        let alarm = self.in_a_row >= IN_A_ROW;
        if alarm {
            self.in_a_row = 0;
            self.alarm(ack.now);
        }
        alarm
    }

    /// Whether what is found is to be believed: not for a while after alarms that followed each other.
    pub fn believes(&self, now: Time) -> bool {
        now >= self.doubts_until
    }

    /// Until when it is not.
    pub const fn doubts_until(&self) -> Time {
        self.doubts_until
    }

    /// The rate of payload to go on with in a queue that others share; none before the first round. What the newest
    /// rounds brought is often far less than a fair part, as whoever keeps queues short is pushed aside there.
    pub fn rate(&self) -> Option<Rate> {
        let newest = &self.rounds[ROUNDS - self.count.min(ROUNDS)..];
        let length = newest.iter().map(|round| round.length.as_nanos()).sum();
        let delivered = newest.iter().map(|round| round.delivered).sum();
        let all = Round { length: Duration::from_nanos(length), ..Round::default() };
        let newest = all.per_second(delivered);
        let known = self.known.iter().max().copied().unwrap_or(0);
        let rate = (known / 10 * KEPT).clamp(newest, newest.saturating_mul(MOST));
        (length > 0).then(|| Rate::from_bits_per_sec(rate.saturating_mul(8)))
    }

    fn is_shared(&self) -> bool {
        let [before, middle, last] = self.rounds;
        let Some(shortest) = self.shortest.get() else { return false };
        let [queue, left] = [before, last].map(|round| round.rtt - shortest);
        let share = before.per_second(before.delivered);
        let packet = Duration::from_nanos(before.length.as_nanos() / before.packets.max(1));
        if queue < LEAST_QUEUE.max(packet * LEAST_PACKETS) {
            return false;
        }
        if [middle, last].iter().any(|round| round.per_second(round.sent) > share / 100 * LESS) {
            return false;
        }
        let shrinks = shrinking(share, &[middle, last]).min(queue);
        if shrinks < packet || left + shrinks / SEEN <= queue {
            return false;
        }
        // Where the share became less, the queue grows first; but then it shrinks by what the lesser share is more than
        // is sent.
        let shrinks = shrinking(middle.per_second(middle.delivered), &[last]);
        last.rtt + shrinks / SEEN > middle.rtt || shrinks < packet
    }

    fn alarm(&mut self, now: Time) {
        let soon = SOON.max(self.rounds[ROUNDS - 1].rtt * SOON_ROUNDS);
        // A doubt that has just ended counts as one alarm.
        let since = self.last_alarm.map(|last| now.since(last.max(self.doubts_until)));
        self.alarms = if since.is_some_and(|since| since < soon) { self.alarms + 1 } else { 0 };
        self.last_alarm = Some(now);
        if self.alarms > 0 {
            self.doubts_until = now + DOUBT * (1 << (self.alarms - 1).min(DOUBLINGS));
        }
    }
}
