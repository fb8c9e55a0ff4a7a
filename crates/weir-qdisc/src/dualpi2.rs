//! DualPI2: the coupled dual queue with a PI controller. Classic traffic is dropped or marked with p'^2, L4S traffic
//! marked with the larger of k p' and a shallow threshold of its own. Sources: the kernel's `net/sched/sch_dualpi2.c`
//! (Linux 6.17) and RFC 9332 appendix A, which differ ([`DualPi2Variant`]).
//!
//! | | kernel | RFC 9332 appendix A | here |
//! |---|---|---|---|
//! | timer | every `tupdate`, 16 ms | 15 ms | at the next arrival or departure, for each tick that has passed, with the delays of its moment ([`Timer`]): the same |
//! | delay for PI | the older of the two heads | the same | the same |
//! | p' | 32 bits, alpha 41/256 and beta 819/256 Hz in the integers 44 and 879 | real; 0.15 and 3 Hz | each as there; a step beyond the range saturates, where the kernel cuts it to 32 bits |
//! | randomness | one or two coins of 32 bits | counters that add p up (`recur`) | each as there |
//! | L4S threshold | step: sojourn strictly above 1 ms, or packets that stay behind; not for what is not ECN-capable: dropped | line from 800 us to 1.2 ms; not while it was the only packet in its queue | each as there; a `step` in the RFC variant replaces the line |
//! | L4S marks by coupling and threshold | both count | the larger probability | one mark: the coupling's where both are due |
//! | L4S delay that is compared | of the packet itself | `lq.time()` after the packet is taken | of the packet itself |
//! | a k p' above one | marks every L4S packet that is not dropped | adds up in the same counter as p_C, so that more is dropped | as the kernel in both |
//! | while less than two full packets wait in all | no drops and no coupled marks | - | each as there |
//! | scheduler | credit: 10 % of the bytes to Classic; starts with L4S | any; weights 1:15 recommended | that credit, with 10:90 or 1:15 |
//! | credit is reset | when the link asks and finds both empty | | when a packet meets both empty |
//! | overload, k p' > 1 | Classic is dropped, ECN or not; L4S is dropped with p'^2 and otherwise marked | the same, Classic from p_C >= 1/k^2 | each as there |
//! | `drop_overload` off | p' ends at 1/k | - | in both |
//! | `drop_early` | on arrival | - | not offered: departure |
//! | limit | 10000 packets, and memory of twice as many full ones | 250 ms at the rate | each as there, without memory |
//! | `min_qlen_step`, filters, `split_gso` | | | not offered |
//! | limit of the L4S queue alone | none | none | none, or `l4s_limit` |

mod kernel;
mod rfc9332;

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_core::{Backlog, Bytes, DropReason, Duration, EventKind, EventSink, MarkReason, Packet, Time};

use crate::dual::{Dual, NAMES};
use crate::keys::{BuildContext, ConfigError, Keys, Word};
use crate::limit::choice;
use crate::pi2::{Scalable, check_controller};
use crate::protect::{self, Protected};
use crate::step::Threshold;
use crate::{Limit, Qdisc};
use weir_queue::Timer;

choice! {
    /// Whose DualPI2.
    pub enum DualPi2Variant ("'kernel' or 'rfc9332' (appendix A)") {
        /// Linux, in its integers.
        #[default]
        "kernel" => Kernel,
        /// RFC 9332 appendix A, in real numbers.
        "rfc9332" => Rfc9332,
    }
}

/// Keys of `kind = "dualpi2"`. Those without a value are the variant's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DualPi2Keys {
    /// Whose: `kernel` or `rfc9332`.
    pub variant: DualPi2Variant,
    /// The queueing delay of the Classic queue that the controller aims at.
    pub target: Duration,
    /// Time between updates of p'.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tupdate: Option<Duration>,
    /// Gain by the distance from the target, in Hz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// Gain by the growth of the delay, in Hz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta: Option<f64>,
    /// The coupling factor k.
    pub coupling: u8,
    /// Where the L4S queue marks on its own account, in packets or time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<Threshold>,
    /// Per cent of the bytes that the Classic queue gets at least while both wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub c_protection: Option<u8>,
    /// Drop on overload; otherwise p' ends where all L4S packets are marked, and the limit drops.
    pub drop_overload: bool,
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

impl Default for DualPi2Keys {
    fn default() -> Self {
        Self {
            variant: DualPi2Variant::default(),
            target: Duration::from_millis(15),
            tupdate: None,
            alpha: None,
            beta: None,
            coupling: 2,
            step: None,
            c_protection: None,
            drop_overload: true,
            scalable: Scalable::default(),
            limit: None,
            l4s_limit: None,
            protect: None,
        }
    }
}

/// The longest round-trip time that RFC 9332 computes its gains for (`RTT_max`), in seconds.
const RTT_MAX: f64 = 0.1;

impl Keys for DualPi2Keys {
    const WORDS: &'static [Word] = &[
        Word::value("variant", "rfc9332"),
        Word::value("limit", "10000p"),
        Word::value("target", "15ms"),
        Word::value("tupdate", "16ms"),
        Word::value("alpha", "0.16"),
        Word::value("beta", "3.2"),
        Word::value("coupling", "2"),
        Word::value("step", "1ms"),
        Word::value("c_protection", "10"),
        Word::flag("drop_overload"),
        Word::no("overflow", "drop_overload"),
        Word::value("scalable", "any"),
        Word::value("l4s_limit", "1.5ms"),
        Word::value("protect", "5"),
    ];

    fn target(&self, _rtt: Duration) -> Option<Duration> {
        Some(self.target)
    }

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        let is_kernel = self.variant == DualPi2Variant::Kernel;
        let usual_tupdate = if is_kernel {
            Duration::from_millis(16)
        } else {
            self.target.min(Duration::from_secs(1).scale(RTT_MAX / 3.0)).max(Duration::from_micros(1))
        };
        let tupdate = self.tupdate.unwrap_or(usual_tupdate);
        let usual_gains = if is_kernel {
            (0.16, 3.2)
        } else {
            (0.1 * tupdate.as_secs_f64() / (RTT_MAX * RTT_MAX), 0.3 / RTT_MAX)
        };
        let gains = (self.alpha.unwrap_or(usual_gains.0), self.beta.unwrap_or(usual_gains.1));
        if self.coupling == 0 {
            // A number of the kernel's in eight bits, where that of pi2 is any.
            return Err(ConfigError::refused("coupling", "0 is not a whole number from 1 to 255".to_owned()));
        }
        check_controller(self.target, tupdate, gains.0, gains.1, f64::from(self.coupling))?;
        let weights = match self.c_protection {
            Some(percent) if percent > 100 => {
                return Err(ConfigError::refused("c_protection", format!("{percent} is more than 100 %")));
            }
            Some(percent) => (percent, 100 - percent),
            None if is_kernel => (10, 90),
            None => (1, 15),
        };
        let usual = if is_kernel {
            Limit::Packets(10_000)
        } else {
            let bytes = context.rate.bytes_in(Duration::from_millis(250)).0;
            Limit::Bytes(Bytes(bytes.max(u64::from(context.mtu))))
        };
        let limit = context.queue_limit("limit", self.limit.unwrap_or(usual))?;
        let dual = Dual::new(limit, Dual::l4s_limit(self.l4s_limit, context)?, self.scalable);
        let timer = Timer::new(tupdate, tupdate);
        let credit = Credit::new(weights, context.mtu);
        let dual: Box<dyn Qdisc> = if is_kernel {
            let random = context.seed.stream("dualpi2");
            Box::new(DualPi2 {
                dual,
                timer,
                credit,
                law: kernel::KernelDualPi2::new(self, gains, random, context),
            })
        } else {
            Box::new(DualPi2 { dual, timer, credit, law: rfc9332::Rfc9332DualPi2::new(self, gains, context) })
        };
        match self.protect {
            None => Ok(dual),
            Some(share) => Protected::over(dual, self.scalable, share, context),
        }
    }

    fn marks(&self) -> bool {
        true
    }

    fn queue_names(&self) -> &'static [&'static str] {
        if self.protect.is_some() { protect::NAMES } else { NAMES }
    }
}

impl fmt::Display for DualPi2Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::default();
        write!(f, "dualpi2 {}", self.target)?;
        if self.variant != usual.variant {
            write!(f, " {}", self.variant)?;
        }
        if let Some(tupdate) = self.tupdate {
            write!(f, " tupdate {tupdate}")?;
        }
        for (key, value) in [("alpha", self.alpha), ("beta", self.beta)] {
            if let Some(value) = value {
                write!(f, " {key} {value}")?;
            }
        }
        if self.coupling != usual.coupling {
            write!(f, " coupling {}", self.coupling)?;
        }
        if let Some(step) = self.step {
            write!(f, " step {step}")?;
        }
        if let Some(percent) = self.c_protection {
            write!(f, " c_protection {percent}")?;
        }
        if self.scalable != usual.scalable {
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
        f.write_str(if self.drop_overload { "" } else { " overflow" })
    }
}

/// Weighted round robin by a credit of bytes (`c_protection`): above zero it is the Classic queue's turn.
#[derive(Clone, Debug)]
struct Credit {
    bytes: i64,
    start: i64,
    classic: i64,
    l4s: i64,
}

impl Credit {
    fn new((classic, l4s): (u8, u8), mtu: u32) -> Self {
        let (classic, l4s) = (i64::from(classic), i64::from(l4s));
        let start = i64::from(mtu) * (classic - l4s);
        Self { bytes: start, start, classic, l4s }
    }

    fn is_classics_turn(&self) -> bool {
        self.bytes > 0
    }

    /// One queue sent while the other had to wait.
    fn sent(&mut self, is_l4s: bool, wire_bytes: u32) {
        let weight = if is_l4s { self.classic } else { -self.l4s };
        self.bytes += weight * i64::from(wire_bytes);
    }
}

/// What a law decides on a packet that has been taken from its queue.
enum Decision {
    Drop,
    Send,
    /// Marked, for one reason even where there are two.
    Mark(MarkReason),
}

/// The controller and the probabilities of one variant.
trait Decide: Clone + Send {
    /// Moves p' by the age of the older head. Returns whether it is at rest; see [`Timer::run`].
    fn update(&mut self, delay: Duration) -> bool;

    /// Judges an L4S packet that waited `sojourn`. `queues` is what stays.
    fn l4s(&mut self, packet: &Packet, sojourn: Duration, queues: &Dual) -> Decision;

    /// Judges a Classic packet. `queues` is what stays.
    fn classic(&mut self, packet: &Packet, queues: &Dual) -> Decision;
}

/// A DualPI2.
#[derive(Clone, Debug)]
struct DualPi2<L> {
    dual: Dual,
    timer: Timer,
    credit: Credit,
    law: L,
}

impl<L: Decide> DualPi2<L> {
    fn run_timer(&mut self, now: Time) {
        let (dual, law) = (&self.dual, &mut self.law);
        self.timer.run(now, |at| law.update(dual.classic.head_age(at).max(dual.l4s.head_age(at))));
    }
}

impl<L: Decide> Qdisc for DualPi2<L> {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        self.run_timer(now);
        if self.dual.backlog().packets == 0 {
            self.credit.bytes = self.credit.start;
        }
        self.dual.offer(packet, now, events);
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        self.run_timer(now);
        loop {
            let waits = |is_l4s| self.dual.ring(is_l4s).backlog().packets > 0;
            let is_l4s = waits(true) && !(waits(false) && self.credit.is_classics_turn());
            let mut packet = self.dual.ring_mut(is_l4s).pop()?;
            let sojourn = now.since(packet.arrived);
            let decision = if is_l4s {
                self.law.l4s(&packet, sojourn, &self.dual)
            } else {
                self.law.classic(&packet, &self.dual)
            };
            let ring = self.dual.ring(is_l4s);
            match decision {
                Decision::Drop => {
                    ring.report(EventKind::Drop(DropReason::Aqm), &packet, now, events);
                    continue;
                }
                Decision::Send => {}
                Decision::Mark(reason) => ring.mark(&mut packet, reason, now, events),
            }
            if self.dual.ring(!is_l4s).backlog().packets > 0 {
                self.credit.sent(is_l4s, packet.wire_bytes);
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
