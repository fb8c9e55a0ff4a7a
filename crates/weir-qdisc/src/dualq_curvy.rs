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
//! | curviness u: random numbers that a packet is compared with | classic 2, L4S 1; with ECN-Cubic in the L4S queue (section 7.2, experiment 6) 2 there, over half the slope | classic 2, L4S 1 | `curviness`, `curviness_l` |
//! | `minTh` | none | printed as "500 ms", at which nothing would ever be dropped: taken as a slip for 500 us | `min_th` |
//! | ECT(0) in the classic queue | dropped | marked | each as there |
//! | buffer | 1000 packets | 250 ms at the rate | each as there |
//! | buffer of the L4S queue alone | none | none | none, or `l4s_limit` |
//! | L4S by | Diffserv or ECT(1) | ECT(1) and CE | ECT(1) and CE, or with `scalable any` all that take part in ECN |
//! | overload | L4S has priority; classic may starve | not in appendix B | the same: the limit alone |
//!
//! The sources leave open when `lq.len` and `lq.time` are read: here after the packet is taken, and of that packet.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_core::{
    Backlog, Bytes, DropReason, Duration, EventKind, EventSink, MarkReason, Packet, Random, Time,
};

use crate::curve::{Smoothed, exceeds, ramp};
use crate::curvy_red::{check_curve, check_curviness};
use crate::dual::{Dual, NAMES};
use crate::keys::{BuildContext, ConfigError, Keys, Word};
use crate::limit::choice;
use crate::pi2::Scalable;
use crate::protect::{self, Protected};
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
    /// The exponent u of the classic curve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub curviness: Option<u8>,
    /// The exponent of the L4S curve: 2 where classic senders that take part in ECN have the L4S queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub curviness_l: Option<u8>,
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
    /// Of the L4S queue alone, in packets, bytes, BDP or time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l4s_limit: Option<Limit>,
    /// Demotes L4S flows that do not answer to marks, to a queue with so many per cent of the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protect: Option<u8>,
}

/// With nothing left open.
#[derive(Clone, Debug)]
struct Params {
    range_c: Duration,
    range_l: Duration,
    ewma: u8,
    curviness: u8,
    curviness_l: u8,
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
            curviness: self.curviness.unwrap_or(2),
            curviness_l: self.curviness_l.unwrap_or(1),
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
        Word::value("curviness", "2"),
        Word::value("curviness_l", "1"),
        Word::value("threshold", "5p"),
        Word::value("min_th", "500us"),
        Word::value("tshift", "50ms"),
        Word::value("scalable", "any"),
        Word::value("l4s_limit", "1.5ms"),
        Word::value("protect", "5"),
    ];

    fn target(&self, rtt: Duration) -> Option<Duration> {
        self.threshold?.delay(rtt)
    }

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        let params = self.resolve(context);
        check_curve(&[("range_c", params.range_c), ("range_l", params.range_l)], params.ewma)?;
        check_curviness("curviness", params.curviness)?;
        check_curviness("curviness_l", params.curviness_l)?;
        let usual = match self.variant {
            CurvyVariant::Paper => Limit::Packets(1000),
            CurvyVariant::Rfc9332 => {
                let bytes = context.rate.bytes_in(Duration::from_millis(250));
                Limit::Bytes(Bytes(bytes.0.max(u64::from(context.mtu))))
            }
        };
        let limit = context.queue_limit("limit", self.limit.unwrap_or(usual))?;
        let dual = Box::new(DualqCurvy {
            dual: Dual::new(limit, Dual::l4s_limit(self.l4s_limit, context)?, self.scalable),
            smoothed: Smoothed::default(),
            random: context.seed.stream("dualq_curvy"),
            params,
        });
        match self.protect {
            None => Ok(dual),
            Some(share) => Protected::over(dual, self.scalable, share, context),
        }
    }

    fn marks(&self) -> bool {
        self.variant == CurvyVariant::Rfc9332
    }

    fn queue_names(&self) -> &'static [&'static str] {
        if self.protect.is_some() { protect::NAMES } else { NAMES }
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
        let numbers = [("ewma", self.ewma), ("curviness", self.curviness), ("curviness_l", self.curviness_l)];
        for (key, number) in numbers {
            if let Some(number) = number {
                write!(f, " {key} {number}")?;
            }
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
        if let Some(limit) = self.l4s_limit {
            write!(f, " l4s_limit {limit}")?;
        }
        if let Some(share) = self.protect {
            write!(f, " protect {share}")?;
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
        exceeds(part, params.curviness_l, &mut self.random).then_some(MarkReason::Aqm)
    }

    /// Whether a classic packet that has been taken is picked.
    fn picks_classic(&mut self, packet: &Packet, now: Time) -> bool {
        let smoothed = self.smoothed.add(now.since(packet.arrived), self.params.ewma);
        let part = ramp(smoothed, self.params.min_th, self.params.range_c);
        exceeds(part, self.params.curviness, &mut self.random)
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
mod tests;
