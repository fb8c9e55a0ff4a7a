//! STEP: marks every packet that meets a queue above a threshold, and no other. The reference AQM of DCTCP (M. Alizadeh
//! et al., SIGCOMM 2010), as in the paper "On the Incompatibility of Scalable Congestion Controls over
//! the Internet": all incoming packets are marked while the queue is above L_target.
//!
//! | reference | here |
//! |---|---|
//! | marks on arrival while the queue is above L_target (the paper, in bytes; DCTCP's K in packets) | [`Threshold::Queue`]: the queue before the packet, strictly above |
//! | RED with min = max and weight 1, by which routers do it, marks from `min` on | strictly above; give one byte less for RED's rule |
//! | `ce_threshold` of the kernel's `fq_codel`, by which hosts do it: sojourn time at departure, strictly above, in ticks of 1024 ns | [`Threshold::Sojourn`], in nanoseconds |
//! | a packet that cannot be marked passes (DCTCP), or is dropped where it would be marked (RED) | passes, or with `drop` is dropped |
//! | an arriving CE counts as marked (`INET_ECN_set_ce`) | the same |

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use weir_core::{Backlog, DropReason, Duration, EventKind, EventSink, MarkReason, Packet, Time};

use crate::keys::{BuildContext, ConfigError, Keys, Word};
use crate::limit::serde_as_words;
use crate::{Limit, Qdisc};
use weir_queue::{QueueLimit, Ring};

/// Where a step marks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// On arrival, while the queue holds more than this: `65p`, `64kb`, `0.17bdp` (a BDP is counted in bytes).
    Queue(Limit),
    /// At departure, packets that waited longer than this: `1ms`.
    Sojourn(Duration),
}

impl FromStr for Threshold {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        if let Ok(time) = text.parse() {
            return Ok(Self::Sojourn(time));
        }
        text.parse()
            .map(Self::Queue)
            .map_err(|_| ConfigError::value(text, "a threshold such as 1ms, 65p (packets), 64kb or 0.17bdp"))
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(limit) => limit.fmt(f),
            Self::Sojourn(time) => time.fmt(f),
        }
    }
}

serde_as_words!(Threshold);

/// A threshold in the units of one link.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Above {
    Packets(u32),
    Bytes(u64),
    Sojourn(Duration),
}

impl Threshold {
    /// The delay at which it marks, if it is a time or a part of the bandwidth-delay product.
    pub(crate) fn delay(self, rtt: Duration) -> Option<Duration> {
        match self {
            Self::Sojourn(time) => Some(time),
            Self::Queue(Limit::Bdp(part)) => Some(rtt.scale(part)),
            Self::Queue(_) => None,
        }
    }

    pub(crate) fn resolve(self, context: &BuildContext) -> Above {
        match self {
            Self::Sojourn(time) => Above::Sojourn(time),
            Self::Queue(Limit::Packets(packets)) => Above::Packets(packets),
            Self::Queue(limit) => Above::Bytes(limit.bytes(context.rate, context.rtt).unwrap_or_default()),
        }
    }
}

impl Above {
    /// Whether a queue is above the threshold; never for one in time.
    pub(crate) fn is_queue_above(self, backlog: Backlog) -> bool {
        match self {
            Self::Packets(packets) => backlog.packets > packets,
            Self::Bytes(bytes) => backlog.bytes > bytes,
            Self::Sojourn(_) => false,
        }
    }
}

/// Keys of `kind = "step"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StepKeys {
    /// Where it marks; 1 ms of sojourn time by default (the step of DualPI2's L4S queue).
    pub threshold: Threshold,
    /// In packets, bytes or BDP.
    pub limit: Limit,
    /// Drops packets that cannot be marked where others are.
    pub drop: bool,
}

impl Default for StepKeys {
    fn default() -> Self {
        Self {
            threshold: Threshold::Sojourn(Duration::from_millis(1)),
            limit: Limit::Packets(1000),
            drop: false,
        }
    }
}

impl Keys for StepKeys {
    const WORDS: &'static [Word] =
        &[Word::value("threshold", "0.17bdp"), Word::value("limit", "1000p"), Word::flag("drop")];

    fn target(&self, rtt: Duration) -> Option<Duration> {
        self.threshold.delay(rtt)
    }

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        let limit = context.queue_limit("limit", self.limit)?;
        Ok(Box::new(Step::new(self.threshold.resolve(context), limit, self.drop)))
    }

    fn marks(&self) -> bool {
        true
    }
}

impl fmt::Display for StepKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}", self.threshold)?;
        if self.limit != Self::default().limit {
            write!(f, " limit {}", self.limit)?;
        }
        f.write_str(if self.drop { " drop" } else { "" })
    }
}

/// A STEP queue.
#[derive(Clone, Debug)]
struct Step {
    ring: Ring,
    above: Above,
    drop: bool,
}

impl Step {
    fn new(above: Above, limit: QueueLimit, drop: bool) -> Self {
        Self { ring: Ring::new(limit), above, drop }
    }
}

impl Qdisc for Step {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        let is_above = self.above.is_queue_above(self.ring.backlog());
        if is_above && self.drop && !packet.ecn.is_capable() {
            return self.ring.refuse(packet, DropReason::Early, now, events);
        }
        let mark = (is_above && packet.ecn.is_capable()).then_some(MarkReason::CeThreshold);
        self.ring.offer_marked(packet, mark, now, events);
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        loop {
            let mut packet = self.ring.pop()?;
            if let Above::Sojourn(most) = self.above
                && now.since(packet.arrived) > most
            {
                if packet.ecn.is_capable() {
                    self.ring.mark(&mut packet, MarkReason::CeThreshold, now, events);
                } else if self.drop {
                    self.ring.report(EventKind::Drop(DropReason::Aqm), &packet, now, events);
                    continue;
                }
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

    /// Offers ten packets of 1000 bytes at once, then takes one each 100 us; what happened to which.
    fn ten(words: &str, ecn: Ecn) -> Vec<(u64, EventKind)> {
        let context = BuildContext {
            rate: Rate::from_bits_per_sec(80_000_000),
            rtt: Duration::from_millis(1),
            mtu: 1000,
            seed: Seed::default(),
        };
        let mut queue = words.parse::<QdiscConfig>().unwrap().build(&context).unwrap();
        let mut events: Vec<Event> = Vec::new();
        for id in 0..10 {
            let packet = Packet::new(id, FlowId(0), 1000, Time::ZERO).with_ecn(ecn);
            queue.enqueue(packet, Time::ZERO, &mut events);
        }
        for step in 0..10 {
            queue.dequeue(Time::from_nanos(step * 100_000), &mut events);
        }
        events
            .iter()
            .filter(|event| !matches!(event.kind, EventKind::Enqueue | EventKind::Dequeue))
            .map(|event| (event.packet.id, event.kind))
            .collect()
    }

    fn hit(words: &str, ecn: Ecn) -> Vec<u64> {
        ten(words, ecn).into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn on_arrival_the_queue_before_the_packet_counts() {
        // The packet that meets four packets (4000 bytes) is not above four, the one that meets five is.
        assert_eq!(hit("step threshold 4p", Ecn::Ect0), [5, 6, 7, 8, 9]);
        assert_eq!(hit("step threshold 4000b", Ecn::Ect1), [5, 6, 7, 8, 9]);
        assert_eq!(hit("step threshold 3999b", Ecn::Ect1), [4, 5, 6, 7, 8, 9]);
        // 80 Mbit/s in 1 ms are 10 kB.
        assert_eq!(hit("step threshold 0.4bdp", Ecn::Ect1), [5, 6, 7, 8, 9]);
        assert!(ten("step threshold 4p", Ecn::Ce).iter().all(|(_, kind)| matches!(kind, EventKind::Mark(_))));
    }

    #[test]
    fn at_departure_the_sojourn_time_counts() {
        assert_eq!(hit("step threshold 400us", Ecn::Ect0), [5, 6, 7, 8, 9]);
        assert_eq!(hit("step threshold 399999ns", Ecn::Ect0), [4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn what_cannot_be_marked_passes_or_is_dropped() {
        use weir_core::DropReason::{Aqm, Early};
        assert_eq!(hit("step threshold 4p", Ecn::NotEct), [0; 0]);
        let early: Vec<_> = (5..10).map(|id| (id, EventKind::Drop(Early))).collect();
        assert_eq!(ten("step threshold 4p drop", Ecn::NotEct), early);
        // Each drop lets the next packet go at once, which is as old.
        let late: Vec<_> = (5..10).map(|id| (id, EventKind::Drop(Aqm))).collect();
        assert_eq!(ten("step threshold 400us drop", Ecn::NotEct), late);
    }
}
