//! PIE, proportional integral controller enhanced: drops or marks arrivals with a probability that a controller moves
//! at every `tupdate`, by how far the queueing delay is from `target` and whether it grows. Sources: RFC 8033, and the
//! kernel's `include/net/pie.h` and `net/sched/sch_pie.c`, which differ ([`PieVariant`]).
//!
//! | reference | here |
//! |---|---|
//! | a timer every `tupdate` | at the next arrival or departure, for each tick that has passed ([`Timer`]): the same, as PIE's state changes only then |
//! | kernel: `tupdate` in jiffies (15 ms is 16 ms with 250 Hz); the first half a second after the queue was made | to the nanosecond; from the start, as of a queue that is older than its traffic |
//! | kernel: clock of 64 ns, probability in 56 bits, alpha and beta in sixteenths | the same |
//! | kernel: the probability passes 2^56 - 1, as its sum is checked for an overflow of 64 bits only; under overload it then takes seconds to come back | the same |
//! | kernel: burst allowance counts departures' time; RFC: `T_UPDATE` at each update | each as there |
//! | kernel: idle decay by 1/64; RFC: by 2 % | each as there |
//! | RFC: real numbers | `f64` |
//! | delay from the departure rate (RFC section 5.2, `dq_rate_estimator`; the only way until Linux 5.5) or from timestamps | timestamps, the kernel's default; with `dq_rate_estimator` in the variant `kernel` by the rate |
//! | RFC: inactive until a third of the buffer is full (section 5.3, optional) | not offered; the kernel has none |
//! | `bytemode`: small packets are dropped less | the same, in both |
//! | ECN: marks while the probability is at most 10 %, drops above | the same |
//! | tail drop at the limit resets the accumulated probability | the same |

pub(crate) mod kernel;
mod rfc8033;

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_core::{Backlog, DropReason, Duration, EventKind, EventSink, MarkReason, Packet, Random, Time};

use crate::keys::{BuildContext, ConfigError, Keys, Word, join, write_unusual};
use crate::limit::choice;
use crate::{Limit, Qdisc};
use weir_queue::Ring;
use weir_queue::Timer;

choice! {
    /// Whose PIE.
    pub enum PieVariant ("'kernel' or 'rfc8033'") {
        /// Linux, in its integers.
        #[default]
        "kernel" => Kernel,
        /// RFC 8033, in real numbers.
        "rfc8033" => Rfc8033,
    }
}

/// Keys of `kind = "pie"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PieKeys {
    /// The queueing delay that the controller aims at (`QDELAY_REF`).
    pub target: Duration,
    /// Time between updates of the probability (`T_UPDATE`).
    pub tupdate: Duration,
    /// Gain by the distance from the target, in Hz. The kernel counts it in sixteenths.
    pub alpha: f64,
    /// Gain by the growth of the delay, in Hz. The kernel counts it in sixteenths.
    pub beta: f64,
    /// How long a burst into an idle queue is let through (`MAX_BURST`).
    pub burst: Duration,
    /// In packets, bytes or BDP.
    pub limit: Limit,
    /// Mark rather than drop where the sender takes part in ECN, while the probability is at most 10 %.
    pub ecn: bool,
    /// Scale the probability with the length of the packet.
    pub bytemode: bool,
    /// The delay is what waits over an average of the departure rate, as Linux had it before time stamps. Of the
    /// variant `kernel`.
    pub dq_rate_estimator: bool,
    /// Whose PIE: `kernel` or `rfc8033`.
    pub variant: PieVariant,
}

impl Default for PieKeys {
    /// RFC 8033 section 4 and `pie_params_init`, which agree.
    fn default() -> Self {
        Self {
            target: Duration::from_millis(15),
            tupdate: Duration::from_millis(15),
            alpha: 0.125,
            beta: 1.25,
            burst: Duration::from_millis(150),
            limit: Limit::Packets(1000),
            ecn: false,
            bytemode: false,
            dq_rate_estimator: false,
            variant: PieVariant::default(),
        }
    }
}

impl PieKeys {
    /// Refuses times and gains that the controller cannot work with.
    ///
    /// # Errors
    /// Names the key and its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        for (key, value) in [("target", self.target), ("tupdate", self.tupdate)] {
            if !(Duration::from_micros(1)..=Duration::from_secs(10)).contains(&value) {
                return Err(ConfigError::refused(key, format!("{value} is not from 1us to 10s")));
            }
        }
        for (key, value) in [("alpha", self.alpha), ("beta", self.beta)] {
            if !(0.0..=32.0).contains(&value) {
                return Err(ConfigError::refused(key, format!("{value} is not from 0 to 32 Hz")));
            }
        }
        Ok(())
    }
}

/// The words of a controller, wherever it stands.
pub(crate) const CONTROL_WORDS: [Word; 8] = [
    Word::value("target", "15ms"),
    Word::value("tupdate", "15ms"),
    Word::value("alpha", "0.125"),
    Word::value("beta", "1.25"),
    Word::value("burst", "150ms"),
    Word::flag("ecn"),
    Word::no("noecn", "ecn"),
    Word::flag("bytemode"),
];

impl Keys for PieKeys {
    const WORDS: &'static [Word] = &join::<1, 10, 11>(
        [Word::value("limit", "1000p")],
        join(CONTROL_WORDS, [Word::flag("dq_rate_estimator"), Word::value("variant", "rfc8033")]),
    );

    fn target(&self, _rtt: Duration) -> Option<Duration> {
        Some(self.target)
    }

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        self.check()?;
        if self.dq_rate_estimator && self.variant == PieVariant::Rfc8033 {
            return Err(ConfigError::refused(
                "dq_rate_estimator",
                "the variant rfc8033 has none; remove one",
            ));
        }
        let ring = Ring::new(context.queue_limit("limit", self.limit)?);
        let (mtu, random) = (context.mtu, context.seed.stream("pie"));
        let timer = Timer::new(self.tupdate, self.tupdate);
        Ok(match self.variant {
            PieVariant::Kernel => {
                Box::new(Pie { ring, law: kernel::KernelPie::new(self, mtu), timer, random, ecn: self.ecn })
            }
            PieVariant::Rfc8033 => {
                Box::new(Pie { ring, law: rfc8033::Rfc8033Pie::new(self, mtu), timer, random, ecn: self.ecn })
            }
        })
    }

    fn marks(&self) -> bool {
        self.ecn
    }
}

impl PieKeys {
    /// Describes a controller in a discipline of `kind`; `between` is what that has to say of its queue.
    pub(crate) fn describe(
        &self,
        f: &mut fmt::Formatter<'_>,
        kind: &str,
        between: impl FnOnce(&mut fmt::Formatter<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let usual = Self::default();
        write!(f, "{kind} {}", self.target)?;
        write_unusual(f, "tupdate", &self.tupdate, &usual.tupdate)?;
        write_unusual(f, "burst", &self.burst, &usual.burst)?;
        write_unusual(f, "alpha", &self.alpha, &usual.alpha)?;
        write_unusual(f, "beta", &self.beta, &usual.beta)?;
        between(f)?;
        f.write_str(if self.ecn { " ecn" } else { "" })?;
        f.write_str(if self.bytemode { " bytemode" } else { "" })
    }
}

impl fmt::Display for PieKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::default();
        self.describe(f, "pie", |f| write_unusual(f, "limit", &self.limit, &usual.limit))?;
        f.write_str(if self.dq_rate_estimator { " dq_rate_estimator" } else { "" })?;
        if self.variant != usual.variant {
            write!(f, " {}", self.variant)?;
        }
        Ok(())
    }
}

/// The controller of one variant, for one queue or for each of many.
pub(crate) trait Control: Clone + PartialEq + Send {
    /// Whether to drop or mark an arrival at a queue of `backlog` bytes.
    fn drops(&mut self, backlog: u64, wire_bytes: u32, random: &mut Random) -> bool;

    /// Whether the probability is low enough to mark rather than drop.
    fn may_mark(&self) -> bool;

    /// A packet was dropped on arrival, for whatever reason.
    fn dropped(&mut self);

    /// A packet of `wire_bytes` left after `sojourn` at `now`; `backlog` bytes stay.
    fn departed(&mut self, sojourn: Duration, now: Time, backlog: u64, wire_bytes: u32);

    /// Moves the probability. `backlog` bytes wait.
    fn update(&mut self, backlog: u64);
}

/// A PIE queue.
#[derive(Clone, Debug)]
struct Pie<C> {
    ring: Ring,
    law: C,
    timer: Timer,
    random: Random,
    ecn: bool,
}

impl<C: Control> Pie<C> {
    fn run_timer(&mut self, now: Time) {
        let backlog = self.ring.backlog().bytes;
        self.timer.run(now, |_| {
            let before = self.law.clone();
            self.law.update(backlog);
            self.law == before
        });
    }
}

impl<C: Control> Qdisc for Pie<C> {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        self.run_timer(now);
        if !self.ring.accepts(packet.wire_bytes) {
            self.law.dropped();
            return self.ring.refuse(packet, DropReason::Overflow, now, events);
        }
        let mut mark = None;
        if self.law.drops(self.ring.backlog().bytes, packet.wire_bytes, &mut self.random) {
            if !(self.ecn && self.law.may_mark() && packet.ecn.is_capable()) {
                self.law.dropped();
                return self.ring.refuse(packet, DropReason::Early, now, events);
            }
            mark = Some(MarkReason::Aqm);
        }
        self.ring.offer_marked(packet, mark, now, events);
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        self.run_timer(now);
        let packet = self.ring.pop()?;
        self.law.departed(now.since(packet.arrived), now, self.ring.backlog().bytes, packet.wire_bytes);
        self.ring.report(EventKind::Dequeue, &packet, now, events);
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.ring.backlog()
    }
}

#[cfg(test)]
mod tests;
