//! Looks out for a bottleneck that changes its kind, by one light packet now and then while no detection is under way.
//! It carries user data, and meets no train of its own connection:
//!
//! | found | what the light packets show | why |
//! |---|---|---|
//! | fair-queued | [`IN_A_ROW`] in a row wait for long, and so do heavy ones | behind fair queuing a sub-flow that sends so little waits for nobody |
//! | not fair-queued | two in a row overtake [`OVERTAKEN`] heavy ones or more | in a shared queue they overtake none |
//! | not fair-queued | [`IN_A_ROW`] in a row hardly wait, after others that did | the queue that was shared is gone |
//!
//! What it sees decides nothing: a detection begins. If that finds what had been found, the next waits for longer.

use weir_core::{Duration, Time};

use crate::isolation::DOUBLINGS;
use crate::shortest::Shortest;
use crate::{Packet, SubFlow};

/// Between light packets, and at least a round trip.
const PERIOD: Duration = Duration::from_millis(200);
/// A wait below this, or below what so many heavy packets take, is nobody's queue.
const LEAST_WAIT: i64 = 5_000_000;
const LEAST_PACKETS: i64 = 4;
/// Light packets in a row that have to show the same.
const IN_A_ROW: u32 = 3;
/// Heavy packets that are overtaken by more than chance, each by more than this.
const OVERTAKEN: u32 = 3;
const GUARD: i64 = 1_000_000;
/// A wait of less than one part in so many of the usual one is hardly any.
const HARDLY: i64 = 4;
/// Of the usual wait, the weight of a new one is one part in so many.
const WEIGHT: i64 = 8;
/// After a detection that found what had been found, the next is not before this; twice as long with each further one.
const PAUSE: Duration = Duration::from_secs(2);

/// Delays of a sub-flow, in nanoseconds, by two clocks that run apart.
#[derive(Clone, Copy, Debug, Default)]
struct Delays {
    shortest: Shortest<i64>,
    /// By how much the newest is longer than the shortest.
    wait: i64,
}

impl Delays {
    fn saw(&mut self, now: Time, delay: i64) {
        self.wait = delay - self.shortest.saw(now, delay);
    }
}

/// Looks out while the connection rests between detections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookout {
    next: Time,
    period: Duration,
    delays: [Delays; 2],
    /// The longest wait behind a fair queue.
    longest: i64,
    /// The newest light packet that has arrived, and heavy ones that it has overtaken.
    light: Option<(u64, i64)>,
    overtaken: u32,
    /// Light packets in a row that overtook, that waited, and that hardly did.
    in_a_row: [u32; 3],
    /// What a light packet usually waits.
    usual: i64,
    quiet_until: Time,
    errors: u32,
}

impl Lookout {
    /// A detection has ended at `now` by which a heavy packet takes so long; `asked` says whether it was begun by what
    /// was seen here, `changed` whether it found something else.
    pub(crate) fn rest(&mut self, now: Time, rtt: Duration, packet: Duration, asked: bool, changed: bool) {
        self.period = PERIOD.max(rtt);
        self.longest = LEAST_WAIT.max(packet.as_nanos() as i64 * LEAST_PACKETS);
        self.next = now + self.period;
        (self.light, self.overtaken, self.in_a_row) = (None, 0, [0; 3]);
        if changed {
            self.errors = 0;
            // Waits of another queue say nothing of this one's.
            (self.usual, self.quiet_until) = (0, now);
        } else if asked {
            self.quiet_until = now + PAUSE * (1 << self.errors.min(DOUBLINGS));
            self.errors += 1;
        }
    }

    /// When the next light packet goes.
    pub(crate) const fn next(&self) -> Time {
        self.next
    }

    /// A light packet was sent.
    pub(crate) fn on_sent(&mut self, now: Time) {
        self.next = now + self.period;
    }

    /// A packet has arrived at `at` by the receiver's clock; `fair` says what is held found. Tells whether to detect.
    pub(crate) fn on_arrival(&mut self, now: Time, packet: &Packet, at: Time, fair: bool) -> bool {
        let at = at.as_nanos() as i64;
        self.delays[packet.sub_flow.index()].saw(now, at - packet.sent.as_nanos() as i64);
        match packet.sub_flow {
            SubFlow::Heavy => {
                if self.light.is_some_and(|(order, light)| packet.order < order && at > light + GUARD) {
                    self.overtaken += 1;
                }
                let alarm = !fair && self.overtaken >= OVERTAKEN && self.in_a_row[0] > 0;
                alarm && now >= self.quiet_until
            }
            SubFlow::Light => {
                let [light, heavy] = self.delays.map(|delays| delays.wait);
                let waits = light >= self.longest && heavy >= light / 2;
                let hardly = self.usual >= LEAST_WAIT && light < self.usual / HARDLY;
                let overtook = self.overtaken >= OVERTAKEN;
                for (count, is) in self.in_a_row.iter_mut().zip([overtook, waits, hardly]) {
                    *count = if is { *count + 1 } else { 0 };
                }
                self.usual += (light - self.usual) / WEIGHT;
                (self.light, self.overtaken) = (Some((packet.order, at)), 0);
                let [_, waits, hardly] = self.in_a_row.map(|count| count >= IN_A_ROW);
                now >= self.quiet_until && if fair { waits } else { hardly }
            }
        }
    }
}
