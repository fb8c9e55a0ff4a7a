//! Curvy RED in a single queue: drops or marks departures with the square of the smoothed queueing delay over a range,
//! and marks those of scalable senders in proportion to the delay of the moment. Source: B. Briscoe, "Insights from
//! Curvy RED (Random Early Detection)", 2015; the two halves of Algorithm 1 of the DualQ paper ("Data Centre to the
//! Home"), which is where its parameters come from.
//!
//! | reference | here |
//! |---|---|
//! | classic: dropped if `Q << S` exceeds the larger of two random numbers | the same; 2^-S seconds are `range` |
//! | the number of random numbers is the curviness u | `curviness`, two unless given: the square |
//! | Q: moving average of the sojourn times of departures, weight 2^-f | the same |
//! | scalable: marked if `q << S_L` exceeds one random number; q is the age of the head of the classic queue | the sojourn time of the packet itself, as there is but one queue |
//! | classic packets are dropped | with `ecn` ECT(0) is marked |
//! | a drop lets the next packet be judged at once | the same |

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_core::{Backlog, DropReason, Duration, EventKind, EventSink, MarkReason, Packet, Random, Time};

use crate::curve::{Smoothed, exceeds, ramp};
use crate::keys::{BuildContext, ConfigError, Keys, Word};
use crate::pi2::Scalable;
use crate::{Limit, Qdisc};
use weir_queue::Ring;

/// Keys of `kind = "curvy_red"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CurvyRedKeys {
    /// The smoothed delay at which every classic packet is dropped: 2^-S_C seconds.
    pub range: Duration,
    /// The delay at which every scalable packet is marked: 2^-S_L seconds.
    pub range_scalable: Duration,
    /// Weight of the average, as a power of 1/2.
    pub ewma: u8,
    /// The exponent u of the curve of classic packets.
    pub curviness: u8,
    /// Mark rather than drop ECT(0).
    pub ecn: bool,
    /// Which packets are scalable: `ect1` or `any`.
    pub scalable: Scalable,
    /// In packets, bytes or BDP.
    pub limit: Limit,
}

impl Default for CurvyRedKeys {
    /// The DualQ paper, table 1: S_C = 1, S_L = 4, f = 5, 1000 packets.
    fn default() -> Self {
        Self {
            range: Duration::from_millis(500),
            range_scalable: Duration::from_micros(62_500),
            ewma: 5,
            curviness: 2,
            ecn: false,
            scalable: Scalable::default(),
            limit: Limit::Packets(1000),
        }
    }
}

/// Refuses an exponent of nothing, and one that nobody can tell from a step.
pub(crate) fn check_curviness(key: &'static str, curviness: u8) -> Result<(), ConfigError> {
    if !(1..=16).contains(&curviness) {
        return Err(ConfigError::refused(key, format!("{curviness} is not from 1 (a line) to 16")));
    }
    Ok(())
}

/// Refuses a line that ends where it begins and an average that never moves.
pub(crate) fn check_curve(ranges: &[(&'static str, Duration)], ewma: u8) -> Result<(), ConfigError> {
    for (key, range) in ranges {
        if !(Duration::from_micros(1)..=Duration::from_secs(100)).contains(range) {
            return Err(ConfigError::refused(key, format!("{range} is not from 1us to 100s")));
        }
    }
    // The average is in whole nanoseconds, and does not follow a delay that is less than 2^ewma of them above it.
    if ewma > 20 {
        let reason = format!("2^-{ewma} is too small a weight for an average in nanoseconds; give 0 to 20");
        return Err(ConfigError::refused("ewma", reason));
    }
    Ok(())
}

impl Keys for CurvyRedKeys {
    const WORDS: &'static [Word] = &[
        Word::value("limit", "1000p"),
        Word::value("range", "500ms"),
        Word::value("range_scalable", "62.5ms"),
        Word::value("ewma", "5"),
        Word::value("curviness", "2"),
        Word::flag("ecn"),
        Word::no("noecn", "ecn"),
        Word::value("scalable", "any"),
    ];

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        check_curve(&[("range", self.range), ("range_scalable", self.range_scalable)], self.ewma)?;
        check_curviness("curviness", self.curviness)?;
        Ok(Box::new(CurvyRed {
            ring: Ring::new(context.queue_limit("limit", self.limit)?),
            smoothed: Smoothed::default(),
            random: context.seed.stream("curvy_red"),
            keys: self.clone(),
        }))
    }

    fn marks(&self) -> bool {
        self.ecn
    }
}

impl fmt::Display for CurvyRedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::default();
        write!(f, "curvy_red {}/{}", self.range, self.range_scalable)?;
        if self.ewma != usual.ewma {
            write!(f, " ewma {}", self.ewma)?;
        }
        if self.curviness != usual.curviness {
            write!(f, " curviness {}", self.curviness)?;
        }
        if self.scalable != usual.scalable {
            write!(f, " scalable {}", self.scalable)?;
        }
        if self.limit != usual.limit {
            write!(f, " limit {}", self.limit)?;
        }
        f.write_str(if self.ecn { " ecn" } else { "" })
    }
}

/// A queue under Curvy RED.
#[derive(Clone, Debug)]
struct CurvyRed {
    ring: Ring,
    smoothed: Smoothed,
    random: Random,
    keys: CurvyRedKeys,
}

impl Qdisc for CurvyRed {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        self.ring.offer(packet, now, events);
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        loop {
            let mut packet = self.ring.pop()?;
            let delay = now.since(packet.arrived);
            let smoothed = self.smoothed.add(delay, self.keys.ewma);
            let picked = if self.keys.scalable.is(packet.ecn) {
                exceeds(ramp(delay, Duration::ZERO, self.keys.range_scalable), 1, &mut self.random)
            } else {
                exceeds(
                    ramp(smoothed, Duration::ZERO, self.keys.range),
                    self.keys.curviness,
                    &mut self.random,
                )
            };
            if picked {
                let scalable = self.keys.scalable.is(packet.ecn);
                if !(scalable || self.keys.ecn && packet.ecn.is_capable()) {
                    self.ring.report(EventKind::Drop(DropReason::Aqm), &packet, now, events);
                    continue;
                }
                self.ring.mark(&mut packet, MarkReason::Aqm, now, events);
            }
            self.ring.report(EventKind::Dequeue, &packet, now, events);
            return Some(packet);
        }
    }

    fn backlog(&self) -> Backlog {
        self.ring.backlog()
    }
}

#[cfg(test)]
mod tests {
    use crate::config::QdiscConfig;
    use crate::keys::BuildContext;
    use weir_core::{Duration, Ecn, Event, EventKind, FlowId, Packet, Rate, Seed, Time};

    /// Shares of marks and drops among packets that all wait `ms`.
    fn shares(words: &str, ecn: Ecn, ms: u64) -> (f64, f64) {
        let rate = Rate::from_bits_per_sec(100_000_000);
        let link = BuildContext { rate, rtt: Duration::from_millis(10), mtu: 1514, seed: Seed::default() };
        let mut queue = words.parse::<QdiscConfig>().unwrap().build(&link).unwrap();
        let mut events: Vec<Event> = Vec::new();
        for id in 0..200_000u64 {
            let arrival = Time::from_nanos(id * 1_000_000_000);
            queue.enqueue(Packet::new(id, FlowId(0), 1514, arrival).with_ecn(ecn), arrival, &mut events);
            queue.dequeue(arrival + Duration::from_millis(ms), &mut events);
            if id == 1000 {
                // The average has settled.
                events.clear();
            }
        }
        let share = |kind: fn(EventKind) -> bool| {
            events.iter().filter(|event| kind(event.kind)).count() as f64 / 198_999.0
        };
        (share(|kind| matches!(kind, EventKind::Mark(_))), share(|kind| matches!(kind, EventKind::Drop(_))))
    }

    #[test]
    fn classic_is_the_square_and_scalable_the_line() {
        // 100 ms are 4 % of drops; 20 ms are 32 % of marks.
        let (marks, drops) = shares("curvy_red", Ecn::NotEct, 100);
        assert!(marks == 0.0 && (0.038..0.042).contains(&drops), "{drops}");
        assert_eq!(shares("curvy_red", Ecn::Ect0, 100).0, 0.0);
        let (marks, drops) = shares("curvy_red ecn", Ecn::Ect0, 100);
        assert!(drops == 0.0 && (0.038..0.042).contains(&marks), "{marks}");
        let (marks, drops) = shares("curvy_red", Ecn::Ect1, 20);
        assert!(drops == 0.0 && (0.315..0.325).contains(&marks), "{marks}");
        assert_eq!(shares("curvy_red scalable any", Ecn::Ect0, 63), (1.0, 0.0));
        assert_eq!(shares("curvy_red range 50ms", Ecn::NotEct, 51), (0.0, 1.0));
    }
}
