//! PI2, single queue: a PI controller moves p', arrivals of scalable senders are marked with k p', all others marked or
//! dropped with p'^2, by two coins. Sources: K. De Schepper et al., "PI2: A Linearized AQM for both Classic and
//! Scalable TCP", CoNEXT 2016, and its qdisc (`sch_pi2.c` of github.com/olgabo/dualpi2); the parameters of the paper
//! "On the Incompatibility of Scalable Congestion Controls over the Internet" are the defaults.
//!
//! | original qdisc | here |
//! |---|---|
//! | probability of the scalable side, divided by k for the classic | p' of the classic side, multiplied by k for the scalable, as in the kernel's `sch_dualpi2.c` |
//! | alpha 0.625, beta 6.25 Hz on the scalable side, target 20 ms, `tupdate` 30 ms | alpha 0.16, beta 3.2 Hz on p', target 15 ms, `tupdate` 10 ms; the original's are `target 20ms tupdate 30ms alpha 0.3125 beta 3.125 decay` |
//! | alpha and beta in sixteenths | in the integers of `sch_dualpi2.c` |
//! | a timer every `tupdate`, in jiffies | at the next arrival or departure, for each tick that has passed, with the delay of its moment ([`Timer`]): the same, to the nanosecond |
//! | delay from the departure rate | age of the packet at the head, as in `sch_dualpi2.c` |
//! | acts on arrival; not while less than two full packets wait | the same |
//! | p' x 0.98 at each update while idle | with `decay` |
//! | all ECN-capable packets are scalable | with `scalable any`; by default only ECT(1) and CE (RFC 9331), ECT(0) is classic and marked |
//! | no answer to senders that do not answer, but the limit | the same |

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_core::{Backlog, DropReason, Duration, Ecn, EventSink, MarkReason, Packet, Random, Time};

use crate::keys::{BuildContext, ConfigError, Keys, Word};
use crate::limit::choice;
use crate::pi::{ONE, Pi, roll};
use crate::{Limit, Qdisc};
use weir_queue::Ring;
use weir_queue::Timer;

choice! {
    /// Which packets come from scalable senders.
    pub enum Scalable ("'ect1' (RFC 9331) or 'any' (all that take part in ECN)") {
        /// ECT(1) and CE (RFC 9331).
        #[default]
        "ect1" => Ect1,
        /// All but Not-ECT.
        "any" => Any,
    }
}

impl Scalable {
    /// Whether a packet with this codepoint is one.
    pub(crate) const fn is(self, ecn: Ecn) -> bool {
        match self {
            Self::Ect1 => matches!(ecn, Ecn::Ect1 | Ecn::Ce),
            Self::Any => ecn.is_capable(),
        }
    }
}

/// Keys of `kind = "pi2"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pi2Keys {
    /// The queueing delay that the controller aims at.
    pub target: Duration,
    /// Time between updates of p'.
    pub tupdate: Duration,
    /// Gain by the distance from the target, in Hz.
    pub alpha: f64,
    /// Gain by the growth of the delay, in Hz.
    pub beta: f64,
    /// The coupling factor k: scalable packets are marked with k p'. Counted in 2^-16.
    pub coupling: f64,
    /// Which packets are scalable: `ect1` or `any`.
    pub scalable: Scalable,
    /// p' falls by 2 % at each update while the queue is idle.
    pub decay: bool,
    /// In packets, bytes or BDP.
    pub limit: Limit,
}

impl Default for Pi2Keys {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(15),
            tupdate: Duration::from_millis(10),
            alpha: 0.16,
            beta: 3.2,
            coupling: 2.0,
            scalable: Scalable::default(),
            decay: false,
            limit: Limit::Packets(1000),
        }
    }
}

/// Refuses what a PI controller cannot work with.
pub(crate) fn check_controller(
    target: Duration,
    tupdate: Duration,
    alpha: f64,
    beta: f64,
    coupling: f64,
) -> Result<(), ConfigError> {
    if !(Duration::ZERO..=Duration::from_secs(10)).contains(&target) {
        return Err(ConfigError::refused("target", format!("{target} is more than 10s")));
    }
    if !(Duration::from_micros(1)..=Duration::from_secs(10)).contains(&tupdate) {
        return Err(ConfigError::refused("tupdate", format!("{tupdate} is not from 1us to 10s")));
    }
    for (key, value) in [("alpha", alpha), ("beta", beta)] {
        if !(0.0..=1000.0).contains(&value) {
            return Err(ConfigError::refused(key, format!("{value} is not from 0 to 1000 Hz")));
        }
    }
    // Below a hundredth scalable traffic would hardly be marked at all.
    if !(0.01..=255.0).contains(&coupling) {
        return Err(ConfigError::refused("coupling", format!("{coupling} is not from 0.01 to 255")));
    }
    Ok(())
}

impl Keys for Pi2Keys {
    const WORDS: &'static [Word] = &[
        Word::value("limit", "1000p"),
        Word::value("target", "15ms"),
        Word::value("tupdate", "10ms"),
        Word::value("alpha", "0.16"),
        Word::value("beta", "3.2"),
        Word::value("coupling", "2"),
        Word::value("scalable", "any"),
        Word::flag("decay"),
    ];

    fn target(&self, _rtt: Duration) -> Option<Duration> {
        Some(self.target)
    }

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        check_controller(self.target, self.tupdate, self.alpha, self.beta, self.coupling)?;
        Ok(Box::new(Pi2 {
            ring: Ring::new(context.queue_limit("limit", self.limit)?),
            pi: Pi::new(self.target, self.alpha, self.beta, ONE),
            timer: Timer::new(self.tupdate, self.tupdate),
            random: context.seed.stream("pi2"),
            mtu: u64::from(context.mtu),
            coupling: (self.coupling * f64::from(COUPLING_ONE)).round() as u64,
            scalable: self.scalable,
            decay: self.decay,
        }))
    }

    fn marks(&self) -> bool {
        true
    }
}

impl fmt::Display for Pi2Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::default();
        write!(f, "pi2 {}", self.target)?;
        if self.tupdate != usual.tupdate {
            write!(f, " tupdate {}", self.tupdate)?;
        }
        for (key, value, usual) in [("alpha", self.alpha, usual.alpha), ("beta", self.beta, usual.beta)] {
            if value != usual {
                write!(f, " {key} {value}")?;
            }
        }
        if self.coupling != usual.coupling {
            write!(f, " coupling {}", self.coupling)?;
        }
        if self.scalable != usual.scalable {
            write!(f, " scalable {}", self.scalable)?;
        }
        if self.limit != usual.limit {
            write!(f, " limit {}", self.limit)?;
        }
        f.write_str(if self.decay { " decay" } else { "" })
    }
}

/// A coupling factor of 1, as the queue counts it.
const COUPLING_ONE: u32 = 1 << 16;

/// A PI2 queue.
#[derive(Clone, Debug)]
struct Pi2 {
    ring: Ring,
    pi: Pi,
    timer: Timer,
    random: Random,
    mtu: u64,
    coupling: u64,
    scalable: Scalable,
    decay: bool,
}

impl Pi2 {
    fn run_timer(&mut self, now: Time) {
        let (pi, ring, decay) = (&mut self.pi, &self.ring, self.decay);
        self.timer.run(now, |at| {
            let was_idle = pi.was_idle();
            let delay = ring.head_age(at);
            let mut at_rest = pi.update(delay);
            if decay && was_idle && delay == Duration::ZERO {
                at_rest &= pi.prob == 0;
                pi.prob = (u64::from(pi.prob) * 98 / 100) as u32;
            }
            at_rest
        });
    }

    /// Whether the law picks an arrival.
    fn picks(&mut self, ecn: Ecn) -> bool {
        if self.ring.backlog().bytes < 2 * self.mtu {
            return false;
        }
        let prob = self.pi.prob;
        if self.scalable.is(ecn) {
            let coupled = u64::from(prob) * self.coupling / u64::from(COUPLING_ONE);
            roll(&mut self.random, coupled.min(u64::from(ONE)) as u32)
        } else {
            roll(&mut self.random, prob) && roll(&mut self.random, prob)
        }
    }
}

impl Qdisc for Pi2 {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        self.run_timer(now);
        let picked = self.ring.accepts(packet.wire_bytes) && self.picks(packet.ecn);
        if picked && !packet.ecn.is_capable() {
            return self.ring.refuse(packet, DropReason::Early, now, events);
        }
        self.ring.offer_marked(packet, picked.then_some(MarkReason::Aqm), now, events);
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        self.run_timer(now);
        self.ring.depart(now, events)
    }

    fn backlog(&self) -> Backlog {
        self.ring.backlog()
    }
}

#[cfg(test)]
mod tests {
    use super::{COUPLING_ONE, ONE, Pi2};
    use crate::Qdisc;
    use crate::pi::Pi;
    use crate::pi2::{Pi2Keys, Scalable};
    use weir_core::{Duration, Ecn, Event, EventKind, FlowId, Packet, Seed, Time};
    use weir_queue::Timer;
    use weir_queue::{QueueLimit, Ring};

    fn pi2(prob: u32, scalable: Scalable, decay: bool) -> Pi2 {
        let keys = Pi2Keys::default();
        let mut pi = Pi::new(keys.target, keys.alpha, keys.beta, ONE);
        pi.prob = prob;
        Pi2 {
            ring: Ring::new(QueueLimit::Packets(1_000_000)),
            pi,
            timer: Timer::new(keys.tupdate, keys.tupdate),
            random: Seed::default().stream("test"),
            mtu: 1514,
            coupling: 2 * u64::from(COUPLING_ONE),
            scalable,
            decay,
        }
    }

    /// The share of a hundred thousand arrivals that is marked, and that is dropped.
    fn shares(prob: f64, scalable: Scalable, ecn: Ecn) -> (f64, f64) {
        let mut queue = pi2((prob * f64::from(ONE)) as u32, scalable, false);
        let mut events: Vec<Event> = Vec::new();
        for id in 0..100_000 {
            let packet = Packet::new(id, FlowId(0), 1514, Time::ZERO).with_ecn(ecn);
            queue.enqueue(packet, Time::ZERO, &mut events);
        }
        let share =
            |kind: fn(EventKind) -> bool| events.iter().filter(|event| kind(event.kind)).count() as f64 / 1e5;
        (share(|kind| matches!(kind, EventKind::Mark(_))), share(|kind| matches!(kind, EventKind::Drop(_))))
    }

    #[test]
    fn scalable_traffic_is_marked_linearly_and_classic_by_the_square() {
        let near = |got: f64, expected: f64| assert!((got - expected).abs() < 0.005, "{got}, not {expected}");
        for prob in [0.05, 0.2, 0.4] {
            let (marks, drops) = shares(prob, Scalable::Ect1, Ecn::Ect1);
            near(marks, 2.0 * prob);
            near(drops, 0.0);
            let (marks, drops) = shares(prob, Scalable::Ect1, Ecn::Ect0);
            near(marks, prob * prob);
            near(drops, 0.0);
            near(shares(prob, Scalable::Any, Ecn::Ect0).0, 2.0 * prob);
            let (marks, drops) = shares(prob, Scalable::Any, Ecn::NotEct);
            near(marks, 0.0);
            near(drops, prob * prob);
        }
        near(shares(0.7, Scalable::Ect1, Ecn::Ect1).0, 1.0);
    }

    #[test]
    fn the_coupling_factor_may_have_a_fraction() {
        // k* of the paper on equal rates: 1.64 R_C / R_L.
        let words = "pi2 coupling 1.64".parse::<crate::config::QdiscConfig>().unwrap();
        assert_eq!(words.to_string(), "pi2 15ms coupling 1.64");
        let mut queue = pi2(ONE / 4, Scalable::Ect1, false);
        queue.coupling = (1.64 * f64::from(COUPLING_ONE)).round() as u64;
        let mut events: Vec<Event> = Vec::new();
        for id in 0..100_000 {
            let packet = Packet::new(id, FlowId(0), 1514, Time::ZERO).with_ecn(Ecn::Ect1);
            queue.enqueue(packet, Time::ZERO, &mut events);
        }
        let marks = events.iter().filter(|event| matches!(event.kind, EventKind::Mark(_))).count();
        assert!((40_500..41_500).contains(&marks), "{marks}, not 0.41");
    }

    #[test]
    fn updates_see_the_queue_as_it_was_at_their_time() {
        let ms = |millis: u64| Time::from_nanos(millis * 1_000_000);
        let mut queue = pi2(0, Scalable::Ect1, false);
        let packet = |id| Packet::new(id, FlowId(0), 1514, Time::ZERO);
        queue.enqueue(packet(0), ms(4), &mut ());
        queue.enqueue(packet(1), ms(25), &mut ());
        queue.dequeue(ms(48), &mut ());
        // A controller with a timer: heads of 6, 16, 26 and 36 ms at 10, 20, 30 and 40 ms; then 25 ms at 50.
        let mut timed = Pi::new(Duration::from_millis(15), 0.16, 3.2, ONE);
        for age in [6, 16, 26, 36] {
            timed.update(Duration::from_millis(age));
        }
        assert_eq!(queue.pi, timed);
        queue.dequeue(ms(51), &mut ());
        timed.update(Duration::from_millis(25));
        assert_eq!(queue.pi, timed);
        // A long pause comes to the same as all its updates.
        queue.dequeue(ms(1_000_000), &mut ());
        (60..=1_000_000).step_by(10).for_each(|_| {
            timed.update(Duration::ZERO);
        });
        assert_eq!(queue.pi, timed);
    }

    #[test]
    fn decay_adds_two_per_cent_while_idle() {
        let mut queue = pi2(ONE / 2, Scalable::Ect1, true);
        queue.dequeue(Time::from_nanos(10_000_000), &mut ());
        let mut plain = pi2(ONE / 2, Scalable::Ect1, false);
        plain.dequeue(Time::from_nanos(10_000_000), &mut ());
        assert_eq!(u64::from(queue.pi.prob), u64::from(plain.pi.prob) * 98 / 100);
    }
}
