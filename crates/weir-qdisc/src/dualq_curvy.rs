//! The coupled dual queue with Curvy RED: scalable traffic in a queue of its own with hardly any delay, its marking
//! coupled to the delay of the classic queue so that both kinds get equal rates. Sources: the DualQ paper ("Data Centre
//! to the Home"), Algorithm 1, and RFC 9332 appendix B, which differ ([`CurvyVariant`]).
//!
//! | | paper | RFC 9332 appendix B | here |
//! |---|---|---|---|
//! | scheduler | strict priority for L4S | time-shifted FIFO, 50 ms | each as there |
//! | L4S: threshold `T` | packets that stay in the queue, strictly above 5 | sojourn time, strictly above 1 ms | each as there, either unit |
//! | L4S: coupling | age of the classic head, unsmoothed | smoothed delay, less `minTh` | each as there |
//! | ends of the lines | 500 ms and 62.5 ms (k = 2^3) | 500 ms and 250 ms (k' = 1) | times rather than powers of two |
//! | classic: square of the smoothed delay, weight 1/32 | yes | less `minTh` | the same |
//! | `minTh` | none | printed as "500 ms", at which nothing would ever be dropped: taken as a slip for 500 us | `min_th` |
//! | ECT(0) in the classic queue | dropped | marked | each as there |
//! | buffer | 1000 packets | 250 ms at the rate | each as there |
//! | L4S by | Diffserv or ECT(1) | ECT(1) and CE | ECT(1) and CE, or with `scalable any` all that take part in ECN |
//! | overload | L4S has priority; classic may starve | not in appendix B | the same: the limit alone |
//!
//! The sources leave open when `lq.len` and `lq.time` are read: here after the packet is taken, and of that packet.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_core::{
    Backlog, Bytes, DropReason, Duration, EventKind, EventSink, MarkReason, Packet, Random, Time,
};

use crate::curve::{Smoothed, exceeds_one, exceeds_two, ramp};
use crate::curvy_red::check_curve;
use crate::dual::{Dual, NAMES};
use crate::keys::{BuildContext, ConfigError, Keys, Word};
use crate::limit::choice;
use crate::pi2::Scalable;
use crate::step::Above;
use crate::step::Threshold;
use crate::{Limit, Qdisc};

choice! {
    /// Whose coupled Curvy RED.
    pub enum CurvyVariant ("'paper' (Algorithm 1) or 'rfc9332' (appendix B)") {
        /// Algorithm 1 of the DualQ paper.
        #[default]
        "paper" => Paper,
        /// RFC 9332 appendix B.
        "rfc9332" => Rfc9332,
    }
}

/// Keys of `kind = "dualq_curvy"`. Those without a value are the variant's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DualqCurvyKeys {
    /// Whose: `paper` or `rfc9332`.
    pub variant: CurvyVariant,
    /// The smoothed delay (above `min_th`) at which every classic packet is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_c: Option<Duration>,
    /// The delay of the classic queue (above `min_th`) at which every L4S packet is marked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_l: Option<Duration>,
    /// Weight of the average, as a power of 1/2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ewma: Option<u8>,
    /// Where the L4S queue marks on its own account (`T`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Threshold>,
    /// Delay of the classic queue below which nothing is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_th: Option<Duration>,
    /// How much longer a classic packet must have waited than an L4S packet to go first; strict priority for L4S if
    /// none is given and the variant has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tshift: Option<Duration>,
    /// Which packets go to the L4S queue: `ect1` or `any`.
    pub scalable: Scalable,
    /// Of both queues together, in packets, bytes or BDP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

/// With nothing left open.
#[derive(Clone, Debug)]
struct Params {
    range_c: Duration,
    range_l: Duration,
    ewma: u8,
    above: Above,
    min_th: Duration,
    tshift: Option<Duration>,
    smoothed_coupling: bool,
    ecn: bool,
}

impl DualqCurvyKeys {
    fn resolve(&self, context: &BuildContext) -> Params {
        let is_paper = self.variant == CurvyVariant::Paper;
        let (range_l, threshold, min_th, tshift) = if is_paper {
            let packets = Threshold::Queue(Limit::Packets(5));
            (Duration::from_micros(62_500), packets, Duration::ZERO, None)
        } else {
            let time = Threshold::Sojourn(Duration::from_millis(1));
            (Duration::from_millis(250), time, Duration::from_micros(500), Some(Duration::from_millis(50)))
        };
        Params {
            range_c: self.range_c.unwrap_or(Duration::from_millis(500)),
            range_l: self.range_l.unwrap_or(range_l),
            ewma: self.ewma.unwrap_or(5),
            above: self.threshold.unwrap_or(threshold).resolve(context),
            min_th: self.min_th.unwrap_or(min_th),
            tshift: self.tshift.or(tshift),
            smoothed_coupling: !is_paper,
            ecn: !is_paper,
        }
    }
}

impl Keys for DualqCurvyKeys {
    const WORDS: &'static [Word] = &[
        Word::value("variant", "rfc9332"),
        Word::value("limit", "1000p"),
        Word::value("range_c", "500ms"),
        Word::value("range_l", "62.5ms"),
        Word::value("ewma", "5"),
        Word::value("threshold", "5p"),
        Word::value("min_th", "500us"),
        Word::value("tshift", "50ms"),
        Word::value("scalable", "any"),
    ];

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        let params = self.resolve(context);
        check_curve(&[("range_c", params.range_c), ("range_l", params.range_l)], params.ewma)?;
        let usual = match self.variant {
            CurvyVariant::Paper => Limit::Packets(1000),
            CurvyVariant::Rfc9332 => {
                let bytes = context.rate.bytes_in(Duration::from_millis(250));
                Limit::Bytes(Bytes(bytes.0.max(u64::from(context.mtu))))
            }
        };
        let limit = context.queue_limit(self.limit.unwrap_or(usual), "dualq_curvy")?;
        Ok(Box::new(DualqCurvy {
            dual: Dual::new(limit, self.scalable),
            smoothed: Smoothed::default(),
            random: context.seed.stream("dualq_curvy"),
            params,
        }))
    }

    fn marks(&self) -> bool {
        self.variant == CurvyVariant::Rfc9332
    }

    fn queue_names(&self) -> &'static [&'static str] {
        NAMES
    }
}

impl fmt::Display for DualqCurvyKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dualq_curvy {}", self.variant)?;
        let times = [
            ("range_c", self.range_c),
            ("range_l", self.range_l),
            ("min_th", self.min_th),
            ("tshift", self.tshift),
        ];
        for (key, time) in times {
            if let Some(time) = time {
                write!(f, " {key} {time}")?;
            }
        }
        if let Some(ewma) = self.ewma {
            write!(f, " ewma {ewma}")?;
        }
        if let Some(threshold) = self.threshold {
            write!(f, " threshold {threshold}")?;
        }
        if self.scalable != Scalable::default() {
            write!(f, " scalable {}", self.scalable)?;
        }
        if let Some(limit) = self.limit {
            write!(f, " limit {limit}")?;
        }
        Ok(())
    }
}

/// A coupled dual queue with Curvy RED.
#[derive(Clone, Debug)]
struct DualqCurvy {
    dual: Dual,
    /// `Q_C`.
    smoothed: Smoothed,
    random: Random,
    params: Params,
}

impl DualqCurvy {
    fn l4s_goes_first(&self, now: Time) -> bool {
        let (classic, l4s) = (&self.dual.classic, &self.dual.l4s);
        if l4s.backlog().packets == 0 || classic.backlog().packets == 0 {
            return l4s.backlog().packets > 0;
        }
        self.params.tshift.is_none_or(|shift| l4s.head_age(now) + shift >= classic.head_age(now))
    }

    /// Why an L4S packet that has been taken is marked, if it is.
    fn l4s_mark(&mut self, packet: &Packet, now: Time) -> Option<MarkReason> {
        let params = &self.params;
        let is_above = match params.above {
            Above::Sojourn(most) => now.since(packet.arrived) > most,
            above => above.is_queue_above(self.dual.l4s.backlog()),
        };
        if is_above {
            return Some(MarkReason::CeThreshold);
        }
        let delay =
            if params.smoothed_coupling { self.smoothed.get() } else { self.dual.classic.head_age(now) };
        let part = ramp(delay, params.min_th, params.range_l);
        exceeds_one(part, &mut self.random).then_some(MarkReason::Aqm)
    }

    /// Whether a classic packet that has been taken is picked.
    fn picks_classic(&mut self, packet: &Packet, now: Time) -> bool {
        let smoothed = self.smoothed.add(now.since(packet.arrived), self.params.ewma);
        let part = ramp(smoothed, self.params.min_th, self.params.range_c);
        exceeds_two(part, &mut self.random)
    }
}

impl Qdisc for DualqCurvy {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        self.dual.offer(packet, now, events);
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        loop {
            let is_l4s = self.l4s_goes_first(now);
            let mut packet = self.dual.ring_mut(is_l4s).pop()?;
            let mark = if is_l4s {
                self.l4s_mark(&packet, now)
            } else if !self.picks_classic(&packet, now) {
                None
            } else if self.params.ecn && packet.ecn.is_capable() {
                Some(MarkReason::Aqm)
            } else {
                self.dual.classic.report(EventKind::Drop(DropReason::Aqm), &packet, now, events);
                continue;
            };
            let ring = self.dual.ring(is_l4s);
            if let Some(reason) = mark {
                ring.mark(&mut packet, reason, now, events);
            }
            ring.report(EventKind::Dequeue, &packet, now, events);
            return Some(packet);
        }
    }

    fn backlog(&self) -> Backlog {
        self.dual.backlog()
    }
}

#[cfg(test)]
mod tests {
    use crate::Qdisc;
    use crate::config::QdiscConfig;
    use crate::keys::BuildContext;
    use weir_core::{Duration, Ecn, Event, EventKind, FlowId, MarkReason, Packet, Rate, Seed, Time};

    fn build(words: &str) -> Box<dyn Qdisc> {
        let rate = Rate::from_bits_per_sec(100_000_000);
        let link = BuildContext { rate, rtt: Duration::from_millis(10), mtu: 1514, seed: Seed::default() };
        words.parse::<QdiscConfig>().unwrap().build(&link).unwrap()
    }

    fn offer(queue: &mut dyn Qdisc, id: u64, ecn: Ecn, at: Time) {
        queue.enqueue(Packet::new(id, FlowId(0), 1514, at).with_ecn(ecn), at, &mut ());
    }

    /// The share of L4S packets that is marked, each while a classic packet has stood at the head for `ms`, and the
    /// share of classic packets that is dropped after `ms`.
    fn coupled(words: &str, ms: u64) -> (f64, f64) {
        let mut queue = build(words);
        let mut events: Vec<Event> = Vec::new();
        for round in 0..100_000u64 {
            let from = Time::from_nanos(round * 10_000_000_000);
            let to = from + Duration::from_millis(ms);
            offer(&mut *queue, round, Ecn::NotEct, from);
            offer(&mut *queue, round, Ecn::Ect1, to);
            let start = events.len();
            while queue.dequeue(to, &mut events).is_some() {}
            if round < 1000 {
                // Until the average has settled.
                events.truncate(start);
            }
        }
        let share = |kind: fn(EventKind) -> bool| {
            events.iter().filter(|event| kind(event.kind)).count() as f64 / 99_000.0
        };
        (
            share(|kind| kind == EventKind::Mark(MarkReason::Aqm)),
            share(|kind| matches!(kind, EventKind::Drop(_))),
        )
    }

    #[test]
    fn worked_points_of_the_paper() {
        for (ms, marks, drops) in [(20, 0.32, 0.0016), (50, 0.8, 0.01), (63, 1.0, 0.0159), (100, 1.0, 0.04)] {
            let (marked, dropped) = coupled("dualq_curvy", ms);
            assert!((marked - marks).abs() < 0.006, "{ms} ms: {marked}");
            assert!((dropped - drops).abs() < 0.002, "{ms} ms: {dropped}");
        }
    }

    #[test]
    fn worked_points_of_rfc_9332() {
        // (q - 0.5 ms) / 250 ms, and the square of half of it: p_C = (p_CL / k)^2 with k = 2. Beyond the time shift the
        // classic packet goes first, which changes neither.
        for (ms, marks) in [(20, 0.078), (50, 0.198), (100, 0.398), (251, 1.0)] {
            let (marked, dropped) = coupled("dualq_curvy variant rfc9332", ms);
            assert!((marked - marks).abs() < 0.006, "{ms} ms: {marked}");
            assert!((dropped - (marks / 2.0) * (marks / 2.0)).abs() < 0.004, "{ms} ms: {dropped}");
        }
    }

    #[test]
    fn schedulers_differ() {
        let first = |words, classic_ms, l4s_ms| {
            let mut queue = build(words);
            let now = Time::ZERO + Duration::from_secs(1);
            offer(&mut *queue, 0, Ecn::NotEct, now - Duration::from_millis(classic_ms));
            offer(&mut *queue, 1, Ecn::Ect1, now - Duration::from_millis(l4s_ms));
            queue.dequeue(now, &mut ()).unwrap().id
        };
        assert_eq!(first("dualq_curvy", 400, 1), 1);
        assert_eq!(first("dualq_curvy variant rfc9332", 50, 0), 1);
        assert_eq!(first("dualq_curvy variant rfc9332", 51, 0), 0);
        assert_eq!(first("dualq_curvy tshift 10ms", 51, 2), 0);
    }

    #[test]
    fn the_l4s_queue_marks_above_its_own_threshold() {
        let marks = |words, gap_us: u64| {
            let mut queue = build(words);
            let mut events: Vec<Event> = Vec::new();
            for id in 0..8 {
                offer(&mut *queue, id, Ecn::Ect1, Time::ZERO);
            }
            for step in 0..8 {
                queue.dequeue(Time::from_nanos(step * gap_us * 1000), &mut events);
            }
            let marks = events.iter().filter(|event| event.kind == EventKind::Mark(MarkReason::CeThreshold));
            marks.map(|event| event.packet.id).collect::<Vec<_>>()
        };
        // Seven and six packets stay behind the first two, five behind the third.
        assert_eq!(marks("dualq_curvy", 1), [0, 1]);
        assert_eq!(marks("dualq_curvy variant rfc9332", 200), [6, 7]);
    }
}
