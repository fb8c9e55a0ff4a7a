//! A queue that gives signals by lot: from a moment on each packet that comes is dropped, or marked, with the same
//! probability, whatever the queue holds. What a sender does then has no other cause, so this tells whether it answers.
//! No queue of a network does that; figure `law/policy` asks senders with it.

use std::fmt;
use std::sync::Once;

use serde::{Deserialize, Serialize};
use weir_core::{Backlog, Bytes, DropReason, Duration, EventSink, MarkReason, Packet, Random, Time};
use weir_qdisc::config::{Keys, Word};
use weir_qdisc::{BuildContext, ConfigError, Limit, Qdisc};
use weir_queue::{QueueLimit, Ring};

/// As scenarios name it.
pub const KIND: &str = "lottery";

/// Makes the queue known to scenarios. More than one call does no harm.
///
/// # Panics
/// If another crate has taken the name.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        weir_qdisc::config::register::<LotteryKeys>(KIND).expect("no other crate has a lottery");
    });
}

/// Keys of `kind = "lottery"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LotteryKeys {
    /// Of a million packets so many get a signal.
    pub ppm: u32,
    /// From this time of the run on.
    pub from: Duration,
    /// Marks rather than drops what can be marked.
    pub ecn: bool,
    /// Where it is full; what does not fit is dropped.
    pub limit: Limit,
}

impl Default for LotteryKeys {
    fn default() -> Self {
        Self { ppm: 0, from: Duration::ZERO, ecn: false, limit: Limit::Bytes(Bytes(1 << 20)) }
    }
}

impl Keys for LotteryKeys {
    const WORDS: &'static [Word] = &[
        Word::value("ppm", "10000"),
        Word::value("from", "10s"),
        Word::flag("ecn"),
        Word::value("limit", "100p"),
    ];

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        if self.ppm > 1_000_000 {
            return Err(ConfigError::Refused { key: "ppm", reason: "must be at most a million".to_owned() });
        }
        let limit = match self.limit {
            Limit::Packets(packets) => QueueLimit::Packets(packets),
            limit => QueueLimit::Bytes(limit.bytes(context.rate, context.rtt).unwrap_or(1 << 20)),
        };
        Ok(Box::new(Lottery {
            ring: Ring::new(limit),
            ppm: self.ppm,
            from: Time::ZERO + self.from,
            ecn: self.ecn,
            random: context.seed.stream(KIND),
        }))
    }

    fn marks(&self) -> bool {
        self.ecn
    }
}

impl fmt::Display for LotteryKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.ecn { "marked" } else { "dropped" };
        write!(f, "lottery: {} of a million {what} from {}, limit {}", self.ppm, self.from, self.limit)
    }
}

#[derive(Clone, Debug)]
struct Lottery {
    ring: Ring,
    ppm: u32,
    from: Time,
    ecn: bool,
    random: Random,
}

impl Qdisc for Lottery {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        // A packet draws before the time too, so that runs with and without signals have the same draws.
        let is_drawn = self.random.below(1_000_000) < u64::from(self.ppm) && now >= self.from;
        match (is_drawn, self.ecn && packet.ecn.is_capable()) {
            (true, false) => self.ring.refuse(packet, DropReason::Early, now, events),
            (true, true) => self.ring.offer_marked(packet, Some(MarkReason::Aqm), now, events),
            (false, _) => self.ring.offer_marked(packet, None, now, events),
        }
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        self.ring.depart(now, events)
    }

    fn backlog(&self) -> Backlog {
        self.ring.backlog()
    }
}

#[cfg(test)]
mod tests {
    use weir_core::{Duration, Ecn, EventKind, FlowId, Packet, Rate, Seed, Time};
    use weir_qdisc::BuildContext;
    use weir_qdisc::config::Keys;

    use super::LotteryKeys;

    fn signals(ecn: bool, second: u64) -> [u32; 2] {
        let keys = LotteryKeys { ppm: 50_000, from: Duration::from_secs(1), ecn, ..LotteryKeys::default() };
        let context = BuildContext {
            rate: Rate::from_bits_per_sec(1_000_000),
            rtt: Duration::from_millis(10),
            mtu: 1514,
            seed: Seed::default(),
        };
        let mut queue = keys.build(&context).unwrap();
        let mut counts = [0; 2];
        let now = Time::ZERO + Duration::from_secs(second);
        for number in 0..20_000 {
            let packet = Packet::new(number, FlowId(0), 100, now).with_ecn(Ecn::Ect0);
            let mut events = Vec::new();
            queue.enqueue(packet, now, &mut events);
            for event in &events {
                match event.kind {
                    EventKind::Drop(_) => counts[0] += 1,
                    EventKind::Mark(_) => counts[1] += 1,
                    EventKind::Enqueue | EventKind::Dequeue => {}
                }
            }
            queue.dequeue(now, &mut ());
        }
        counts
    }

    #[test]
    fn a_share_of_packets_gets_signals_from_the_moment_on() {
        assert_eq!(signals(false, 0), [0, 0]);
        let ([dropped, none], [no, marked]) = (signals(false, 1), signals(true, 2));
        assert_eq!((none, no), (0, 0));
        // 1000 expected, 31 standard deviation.
        assert!((850..1_150).contains(&dropped) && (850..1_150).contains(&marked), "{dropped}, {marked}");
    }
}
