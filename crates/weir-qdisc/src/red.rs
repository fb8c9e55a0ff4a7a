//! RED, random early detection: drops or marks arrivals with a probability that grows with the average queue length.
//! Source: the kernel's `include/net/red.h` and `net/sched/sch_red.c`, in the same integers; parameters that `tc`
//! computes (`tc/tc_red.c`) are computed here. S. Floyd and V. Jacobson, 1993; S. Floyd et al., "Adaptive RED", 2001.
//!
//! | kernel and `tc` | here |
//! |---|---|
//! | average in fixed point at `Wlog`, of the bytes before the arrival; a plain shift and add | the same, 64 bits |
//! | after a pause the average decays by a 256-entry table of shifts (`Stab`) and linearly below the first | the same |
//! | a pause begins when the link asks an empty queue | when a departure leaves it empty: one packet time earlier |
//! | `tc` fills the table in clock ticks of 64 ns, the kernel reads it by microseconds: the decay is 15.6 times too slow | the table is in microseconds |
//! | `tc` writes natural logarithms into that table of binary shifts | the same: the average decays by ln 2 more slowly than with arrivals |
//! | `bandwidth`, from which `tc` computes the decay: 10mbit by default | the link's rate |
//! | uniform spacing of drops: `qcount` arrivals since the last against a random number up to 1/max_P | the same |
//! | max_P for a byte between the thresholds is a whole number, at least 1 | the same from 100 on; below it a fraction, which may be 0 |
//! | from `max` on, every packet is dropped or marked; `ecn`, `harddrop`, `nodrop` | the same |
//! | `adaptive`: every 500 ms max_P + min(1 %, max_P / 4) or x 0.9, while the average leaves the middle fifth | the same ([`Timer`]) |
//! | min, max and 2^Wlog must fit into 32 bits together | no such bound |
//! | a child of any kind | drop-tail in bytes, `tc`'s default |
//! | a packet that is marked and then finds the child full counts as both | only as dropped |

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_core::{
    Backlog, DropReason, Duration, EventKind, EventSink, MarkReason, Packet, Random, Rate, Time,
};

use crate::keys::{BuildContext, ConfigError, Keys, Word};
use crate::{Limit, Qdisc};
use weir_queue::Timer;
use weir_queue::{QueueLimit, Ring};

/// How often `adaptive` looks (`HZ / 2`).
const ADAPT: Duration = Duration::from_millis(500);
/// One per cent of max_P's scale of 2^32 (`RED_ONE_PERCENT`): its least and its largest step in adaptive mode.
const PER_CENT: u32 = 42_949_673;
/// The least max_P for a byte that is a whole number: rounded down to it, a probability is lower by up to 1 %.
const LEAST_WHOLE: u32 = 100;
/// Entries of the table of idle decay (`RED_STAB_SIZE`).
const CELLS: usize = 256;

/// Keys of `kind = "red"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RedKeys {
    /// In bytes or BDP.
    pub limit: Limit,
    /// Average queue length from which packets are marked, in bytes or BDP; a third of `max` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Limit>,
    /// From which all are, in bytes or BDP; a quarter of `limit` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Limit>,
    /// The marking probability just below `max`.
    pub probability: f64,
    /// Bytes of an average packet, from which `burst` and the decay during pauses are computed.
    pub avpkt: u32,
    /// Packets that may come at once without being marked, which decides the weight of the average; (2 min + max) / 3
    /// by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Mark rather than drop where the sender takes part in ECN.
    pub ecn: bool,
    /// From `max` on, drop also what could be marked.
    pub harddrop: bool,
    /// With `ecn`: what cannot be marked passes.
    pub nodrop: bool,
    /// Adapt `probability` between 1 % and 50 %.
    pub adaptive: bool,
}

impl Default for RedKeys {
    fn default() -> Self {
        Self {
            limit: Limit::Bdp(1.0),
            min: None,
            max: None,
            probability: 0.02,
            avpkt: 1000,
            burst: None,
            ecn: false,
            harddrop: false,
            nodrop: false,
            adaptive: false,
        }
    }
}

impl Keys for RedKeys {
    const WORDS: &'static [Word] = &[
        Word::value("limit", "1bdp"),
        Word::value("min", "30kb"),
        Word::value("max", "90kb"),
        Word::value("probability", "0.02"),
        Word::value("avpkt", "1000"),
        Word::value("burst", "50"),
        Word::flag("ecn"),
        Word::no("noecn", "ecn"),
        Word::flag("harddrop"),
        Word::flag("nodrop"),
        Word::flag("adaptive"),
    ];

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        self.check()?;
        let limit = context.byte_limit("limit", self.limit, "red", "pie")?;
        let law = self.law(limit, context)?;
        Ok(Box::new(Red {
            ring: Ring::new(QueueLimit::Bytes(limit)),
            vars: Vars::default(),
            timer: self.adaptive.then(|| Timer::new(ADAPT, ADAPT)),
            random: context.seed.stream("red"),
            ecn: self.ecn,
            harddrop: self.harddrop,
            nodrop: self.nodrop,
            law,
        }))
    }

    fn marks(&self) -> bool {
        self.ecn
    }
}

impl RedKeys {
    /// Refuses words that contradict each other.
    ///
    /// # Errors
    /// Names the word.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.nodrop && !self.ecn {
            let reason = "without ecn nothing is marked; add ecn, or leave it out";
            return Err(ConfigError::refused("nodrop", reason));
        }
        Ok(())
    }

    fn law(&self, limit: u64, context: &BuildContext) -> Result<RedParams, ConfigError> {
        let bytes = |given: Option<Limit>, usual: u64, key| match given {
            None => Ok(usual),
            Some(given) => given.bytes(context.rate, context.rtt).ok_or_else(|| {
                ConfigError::refused(key, format!("give bytes such as 30kb or bdp, not {given}"))
            }),
        };
        let max = bytes(self.max, limit / 4, "max")?;
        let min = bytes(self.min, max / 3, "min")?;
        if max < min {
            return Err(ConfigError::refused("max", format!("{max} bytes are less than the {min} of min")));
        }
        if !(0.0..=1.0).contains(&self.probability) {
            return Err(ConfigError::refused("probability", "give a number from 0 to 1, such as 0.02"));
        }
        if self.avpkt == 0 {
            return Err(ConfigError::refused("avpkt", "give the bytes of an average packet, such as 1000"));
        }
        let avpkt = u64::from(self.avpkt);
        let usual = ((2 * min + max) / (3 * avpkt)).max(1 + min / avpkt);
        let burst = self.burst.unwrap_or_else(|| u32::try_from(usual).unwrap_or(u32::MAX));
        let wlog = weight(min, burst, self.avpkt).ok_or_else(|| {
            // With so small a min, the average of any burst but a single packet is above it.
            if min <= avpkt {
                let reason = format!(
                    "{min} bytes are not more than a packet of avpkt {avpkt}; give more (by default it is a third of max, \
                     and that a quarter of limit), or a smaller avpkt"
                );
                return ConfigError::refused("min", reason);
            }
            let instead = if u64::from(burst) * avpkt < min {
                format!("more, from {} on, or a smaller min", min.div_ceil(avpkt))
            } else {
                "fewer, or a larger min".to_owned()
            };
            let reason = format!(
                "no weight of the average bears {burst} packets of {avpkt} bytes with min {min}; give {instead}"
            );
            ConfigError::refused("burst", reason)
        })?;
        let max_p = (self.probability * 4_294_967_296.0) as u32;
        Ok(RedParams::new(min, max, wlog, max_p, idle_table(wlog, self.avpkt, context.rate)))
    }
}

impl fmt::Display for RedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::default();
        f.write_str("red")?;
        for (key, value) in [("min", self.min), ("max", self.max)] {
            if let Some(value) = value {
                write!(f, " {key} {value}")?;
            }
        }
        write!(f, " probability {}", self.probability)?;
        if self.limit != usual.limit {
            write!(f, " limit {}", self.limit)?;
        }
        if self.avpkt != usual.avpkt {
            write!(f, " avpkt {}", self.avpkt)?;
        }
        if let Some(burst) = self.burst {
            write!(f, " burst {burst}")?;
        }
        for (given, word) in [
            (self.ecn, " ecn"),
            (self.harddrop, " harddrop"),
            (self.nodrop, " nodrop"),
            (self.adaptive, " adaptive"),
        ] {
            f.write_str(if given { word } else { "" })?;
        }
        Ok(())
    }
}

/// The weight of the average as a power of 1/2 (`tc_red_eval_ewma`): the largest weight with which `burst` packets do
/// not lift the average from zero to `min`. `None` if they cannot but do so.
fn weight(min: u64, burst: u32, avpkt: u32) -> Option<u32> {
    let above = f64::from(burst) + 1.0 - min as f64 / f64::from(avpkt);
    if above < 1.0 {
        return None;
    }
    (1..32).find(|log| {
        let weight = 0.5f64.powi(*log as i32);
        above <= (1.0 - libm::pow(1.0 - weight, f64::from(burst))) / weight
    })
}

/// How far the average decays in a pause (`tc_red_eval_idle_damping`): shifts by pause, in cells of 2^log microseconds.
fn idle_table(wlog: u32, avpkt: u32, rate: Rate) -> ([u8; CELLS], u32) {
    let packet_us = rate.time_for(u64::from(avpkt)).as_nanos() as f64 / 1e3;
    let decay = -libm::log(1.0 - 0.5f64.powi(wlog as i32)) / packet_us;
    let longest = 31.0 / decay;
    let log = (0..31).find(|log| longest / f64::from(1u32 << log) < 512.0).unwrap_or(31);
    let mut table = [31; CELLS];
    for (cell, shift) in table.iter_mut().enumerate().take(CELLS - 1) {
        *shift = ((cell as f64) * f64::from(1u32 << log) * decay).min(31.0) as u8;
    }
    (table, log)
}

/// What does not change (`struct red_parms`), but for `max_p` in adaptive mode.
#[derive(Clone, Debug)]
struct RedParams {
    min: u64,
    max: u64,
    wlog: u32,
    /// In units of 2^-32.
    max_p: u32,
    /// max_P for each byte between the thresholds.
    max_p_per_byte: u32,
    idle: [u8; CELLS],
    cell_log: u32,
}

/// The average and the spacing of marks (`struct red_vars`).
#[derive(Clone, Debug, Default)]
struct Vars {
    /// Bytes, shifted left by `wlog`.
    average: u64,
    /// Arrivals between the thresholds since the last mark; `None` until there is one.
    since_mark: Option<u64>,
    /// After how many, multiplied by how far the average is above `min`, the next is due.
    random: u64,
    /// When the queue ran empty; time zero at first.
    idle_since: Time,
    is_busy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Pass,
    Probably,
    Surely,
}

impl RedParams {
    fn new(min: u64, max: u64, wlog: u32, max_p: u32, (idle, cell_log): ([u8; CELLS], u32)) -> Self {
        let per_byte = u64::from(max_p) / (max - min).max(1);
        Self { min, max, wlog, max_p, max_p_per_byte: per_byte as u32, idle, cell_log }
    }

    /// After how many arrivals, multiplied by the bytes above `min`, a mark is due; `max_p` is above zero.
    fn draw(&self, random: &mut Random) -> u64 {
        let drawn = random.next_u64() >> 32;
        if self.max_p_per_byte >= LEAST_WHOLE {
            return drawn / u64::from(self.max_p_per_byte);
        }
        let between = u128::from((self.max - self.min).max(1));
        u64::try_from(u128::from(drawn) * between / u128::from(self.max_p)).unwrap_or(u64::MAX)
    }

    /// The average as it is after a pause until `now`.
    fn after_pause(&self, vars: &Vars, now: Time) -> u64 {
        let most = 255u64 << self.cell_log;
        let us = (now.since(vars.idle_since).as_nanos() / 1000).min(most);
        let shift = self.idle[(us >> self.cell_log) as usize % CELLS];
        if shift > 0 {
            return vars.average >> shift;
        }
        let decayed = (u128::from(vars.average) * u128::from(us)) >> self.cell_log;
        vars.average - (vars.average >> 1).min(u64::try_from(decayed).unwrap_or(u64::MAX))
    }

    /// Takes an arrival at a queue of `backlog` bytes into the average.
    fn average(&self, vars: &mut Vars, backlog: u64, now: Time) {
        if vars.is_busy {
            vars.average = vars.average - (vars.average >> self.wlog) + backlog;
        } else {
            vars.average = self.after_pause(vars, now);
            vars.is_busy = true;
        }
    }

    fn action(&self, vars: &mut Vars, random: &mut Random) -> Action {
        if vars.average < self.min << self.wlog {
            vars.since_mark = None;
            return Action::Pass;
        }
        if vars.average >= self.max << self.wlog {
            vars.since_mark = None;
            return Action::Surely;
        }
        if self.max_p == 0 {
            return Action::Pass;
        }
        let Some(before) = vars.since_mark else {
            vars.since_mark = Some(0);
            vars.random = self.draw(random);
            return Action::Pass;
        };
        let since = before + 1;
        vars.since_mark = Some(since);
        let above = (vars.average - (self.min << self.wlog)) >> self.wlog;
        if above.saturating_mul(since) < vars.random {
            return Action::Pass;
        }
        vars.since_mark = Some(0);
        vars.random = self.draw(random);
        Action::Probably
    }

    /// Moves `max_p` so that the average stays in the middle fifth between the thresholds. Returns whether it is at
    /// rest: the same would happen at any later time without arrivals.
    fn adapt(&mut self, vars: &Vars, now: Time) -> bool {
        let average = if vars.is_busy { vars.average } else { self.after_pause(vars, now) } >> self.wlog;
        let between = (self.max - self.min).max(1);
        let (low, high) = (self.min + 2 * (between / 5), self.min + 3 * (between / 5));
        let before = self.max_p;
        if average > high && self.max_p <= 50 * PER_CENT {
            self.max_p += PER_CENT.min(self.max_p / 4);
        } else if average < low && self.max_p >= PER_CENT {
            self.max_p = self.max_p / 10 * 9;
        }
        let per_byte = (u64::from(self.max_p) + between / 2) / between;
        self.max_p_per_byte = per_byte as u32;
        self.max_p == before && (vars.is_busy || average < low)
    }
}

/// A RED queue.
#[derive(Clone, Debug)]
struct Red {
    ring: Ring,
    law: RedParams,
    vars: Vars,
    timer: Option<Timer>,
    random: Random,
    ecn: bool,
    harddrop: bool,
    nodrop: bool,
}

impl Red {
    fn run_timer(&mut self, now: Time) {
        if let Some(timer) = &mut self.timer {
            timer.run(now, |at| self.law.adapt(&self.vars, at));
        }
    }
}

impl Qdisc for Red {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        self.run_timer(now);
        self.law.average(&mut self.vars, self.ring.backlog().bytes, now);
        let action = self.law.action(&mut self.vars, &mut self.random);
        let mark = match action {
            Action::Pass => None,
            _ if !self.ecn || (action == Action::Surely && self.harddrop) => {
                return self.ring.refuse(packet, DropReason::Early, now, events);
            }
            _ if packet.ecn.is_capable() => Some(MarkReason::Aqm),
            _ if self.nodrop => None,
            _ => return self.ring.refuse(packet, DropReason::Early, now, events),
        };
        self.ring.offer_marked(packet, mark, now, events);
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        self.run_timer(now);
        let packet = self.ring.pop()?;
        if self.ring.backlog().packets == 0 {
            self.vars.is_busy = false;
            self.vars.idle_since = now;
        }
        self.ring.report(EventKind::Dequeue, &packet, now, events);
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.ring.backlog()
    }
}

#[cfg(test)]
mod tests;
