//! The oracle: Linux's CoDel as one plain state machine over a list of packets, written for the tests alone from the
//! kernel's documented behaviour (include/net/codel.h, include/net/codel_impl.h, net/sched/sch_codel.c). It shares no
//! line with the crate's discipline, keeps every step it takes, counts how often it came to each edge of the rule, and
//! can be made to slip in one place, which shows whether a pattern would have noticed.

use std::collections::VecDeque;

use weir_core::Ecn;

use crate::reached::{Edge, Reached};
use crate::slips::Slip;

/// Which kernel's rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// 6.12: the law's step may be zero ticks, one dequeue may drop without end.
    V6_12,
    /// 7.2: the law steps at least one tick, one dequeue drops at most 256 packets in the dropping state.
    V7_2,
}

/// A parameter set: nanoseconds, bytes, packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Params {
    pub(crate) kernel: Kernel,
    pub(crate) target: u64,
    pub(crate) interval: u64,
    pub(crate) ce_threshold: Option<Threshold>,
    pub(crate) ecn: bool,
    pub(crate) mtu: u32,
    pub(crate) limit: u32,
}

/// The shallow marking threshold: for every ECN-capable packet, or (the kernel's mask 3, selector 1 on the traffic
/// class) for those whose codepoint is ECT(1) at that moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threshold {
    pub(crate) nanos: u64,
    pub(crate) ect1_only: bool,
}

/// What became of a packet in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Taken into the queue.
    Taken,
    /// Refused: the queue was at its limit.
    Overflowed,
    /// Dropped by the control law.
    Dropped,
    /// Codepoint changed to CE by the control law.
    Marked,
    /// Codepoint changed to CE by the shallow threshold.
    ThresholdMarked,
    /// Handed out.
    Passed,
}

/// One decision about one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The call, counted over arrivals and dequeues, in which it happened.
    pub(crate) call: u32,
    pub(crate) act: Act,
    pub(crate) id: u64,
    /// Codepoint after the step.
    pub(crate) ecn: Ecn,
    /// Nanoseconds since arrival.
    pub(crate) sojourn: u64,
    /// Packets and bytes in the queue after the step.
    pub(crate) backlog: (u32, u64),
}

/// The kernel's clock: the low 32 bits of the count of 1024 ns.
pub(crate) fn ticks(nanos: u64) -> u32 {
    (nanos >> 10) as u32
}

/// Serial-number distance from `b` to `a` (RFC 1982): positive if `a` is the later.
fn distance(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b) as i32
}

/// One Newton iteration towards 1/sqrt(`count`) from the Q0.16 value `inverse`.
pub(crate) fn newton(inverse: u16, count: u32) -> u16 {
    (newton_q32(u32::from(inverse) << 16, count) >> 16) as u16
}

fn newton_q32(x: u32, count: u32) -> u32 {
    let x = u64::from(x);
    let square = (x * x) >> 32;
    let three_minus = (3u64 << 32).wrapping_sub(u64::from(count).wrapping_mul(square));
    ((three_minus >> 2).wrapping_mul(x) >> 31) as u32
}

/// `interval / sqrt(count)` in ticks, from the Q0.16 inverse square root.
pub(crate) fn law_step(interval: u32, inverse: u16) -> u32 {
    ((u64::from(interval) * (u64::from(inverse) << 16)) >> 32) as u32
}

#[derive(Clone, Copy, Debug)]
struct Held {
    id: u64,
    arrived: u64,
    len: u32,
    ecn: Ecn,
}

/// The oracle.
#[derive(Clone, Debug)]
pub(crate) struct KernelCodel {
    pub(crate) params: Params,
    pub(crate) reached: Reached,
    slip: Option<Slip>,
    target: u32,
    interval: u32,
    threshold: u32,
    queue: VecDeque<Held>,
    bytes: u64,
    largest: u32,
    calls: u32,
    next_id: u64,
    now: u64,
    count: u32,
    last_count: u32,
    dropping: bool,
    /// Q0.32; the low 16 bits are zero unless the slip keeps them.
    inverse: u32,
    first_above: u32,
    /// Whether `first_above` holds a time; the rule has no such flag and reads a time of zero as none.
    above: bool,
    drop_next: u32,
    delay: u32,
}

impl KernelCodel {
    pub(crate) fn new(params: Params, slip: Option<Slip>) -> Self {
        let rounding = if slip == Some(Slip::SettingsRounded) { 512 } else { 0 };
        Self {
            params,
            reached: Reached::default(),
            slip,
            target: ticks(params.target + rounding),
            interval: ticks(params.interval + rounding),
            threshold: params.ce_threshold.map_or(0, |threshold| ticks(threshold.nanos + rounding)),
            queue: VecDeque::new(),
            bytes: 0,
            largest: 0,
            calls: 0,
            next_id: 0,
            now: 0,
            count: 0,
            last_count: 0,
            dropping: false,
            inverse: 0,
            first_above: 0,
            above: false,
            drop_next: 0,
            delay: 0,
        }
    }

    /// A packet of `len` bytes comes at `now` nanoseconds. Ids count arrivals from zero.
    pub(crate) fn arrive(&mut self, now: u64, len: u32, ecn: Ecn, steps: &mut Vec<Step>) {
        self.enter_call(now);
        let packet = Held { id: self.next_id, arrived: now, len, ecn };
        self.next_id += 1;
        let limit = match self.slip {
            Some(Slip::LimitOneMore) => self.params.limit + 1,
            Some(Slip::LimitOneLess) => self.params.limit.saturating_sub(1),
            _ => self.params.limit,
        };
        let act = if (self.queue.len() as u64) < u64::from(limit) {
            self.queue.push_back(packet);
            self.bytes += u64::from(len);
            Act::Taken
        } else {
            self.reached.when(Edge::Overflow, true);
            Act::Overflowed
        };
        self.note(act, &packet, steps);
        self.calls += 1;
    }

    /// The link asks for a packet at `now` nanoseconds. Returns the length of the one it gets.
    pub(crate) fn ask(&mut self, now: u64, steps: &mut Vec<Step>) -> Option<u32> {
        self.enter_call(now);
        let passed = self.choose(steps);
        if let Some(packet) = &passed {
            self.note(Act::Passed, packet, steps);
        }
        self.calls += 1;
        passed.map(|packet| packet.len)
    }

    /// Packets in the queue.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// The points in time, in ticks, at which the rule may next change its mind, given that it is asked before then.
    pub(crate) fn edges(&self) -> [Option<u32>; 7] {
        let head = self.queue.front().map(|packet| ticks(packet.arrived));
        let interval = self.interval;
        [
            head.map(|at| at.wrapping_add(self.target)),
            head.filter(|_| self.params.ce_threshold.is_some()).map(|at| at.wrapping_add(self.threshold)),
            (self.first_above != 0).then_some(self.first_above),
            self.dropping.then_some(self.drop_next),
            self.dropping.then(|| self.last_due_in_one_call()),
            (self.count > 0).then(|| self.drop_next.wrapping_add(interval.wrapping_mul(16))),
            // From here, one interval on is tick zero, which the rule takes for "not above".
            Some(interval.wrapping_neg()),
        ]
    }

    /// When the 256th drop from now on is due.
    fn last_due_in_one_call(&self) -> u32 {
        let mut ahead = self.clone();
        for _ in 1..256 {
            ahead.count = ahead.count.wrapping_add(1);
            ahead.refine();
            ahead.drop_next = ahead.law(ahead.drop_next);
        }
        ahead.drop_next
    }

    fn enter_call(&mut self, now: u64) {
        assert!(now >= self.now, "time goes back in the pattern");
        self.reached.when(Edge::ClockWrap, self.now >> 42 != now >> 42);
        self.now = now;
    }

    fn choose(&mut self, steps: &mut Vec<Step>) -> Option<Held> {
        let now = ticks(self.now);
        let Some(packet) = self.pop() else {
            self.dropping = false;
            // The 7.x kernels also forget `first_above` here. It is zero already in a queue of its own: the last packet
            // out leaves no backlog, and a backlog within one MTU clears it.
            self.first_above = 0;
            self.above = false;
            return None;
        };
        let over = self.over(Some(&packet), now);
        let first_delay = self.delay;
        let survivor = match (self.dropping, over) {
            (true, true) => self.keep_dropping(packet, now, steps),
            (false, true) => self.begin_dropping(packet, now, steps),
            (_, false) => {
                self.dropping = false;
                Some(packet)
            }
        };
        let mut packet = survivor?;
        let delay = if self.is(Slip::ThresholdOfFirstPacket) { first_delay } else { self.delay };
        // The kernel writes "no threshold" as 2^31 - 1 ticks, and so marks what has waited for 36 to 73 minutes even
        // then. That follows from the encoding, not from the rule: here, as in the crate, none is none.
        if let Some(threshold) = self.params.ce_threshold {
            let beyond = distance(delay, self.threshold);
            self.reached.when(Edge::OnThreshold, beyond == 0);
            let selected = !threshold.ect1_only || packet.ecn == Ecn::Ect1 || self.is(Slip::SelectorIgnored);
            if (beyond > 0 || (beyond == 0 && self.is(Slip::ThresholdInclusive))) && selected {
                if self.capable(packet.ecn) {
                    self.mark(Act::ThresholdMarked, &mut packet, steps);
                } else if self.is(Slip::ThresholdDropsOthers) {
                    self.note(Act::Dropped, &packet, steps);
                    return None;
                }
            }
        }
        Some(packet)
    }

    /// The dropping state holds and the head is over target: drops or marks what is due.
    fn keep_dropping(&mut self, packet: Held, now: u32, steps: &mut Vec<Step>) -> Option<Held> {
        let cap = match (self.params.kernel, self.slip) {
            (Kernel::V6_12, _) | (_, Some(Slip::NoCap)) => u32::MAX,
            (_, Some(Slip::CapOneLess)) => 255,
            (_, Some(Slip::CapOneMore)) => 257,
            _ => 256,
        };
        let mut at_hand = Some(packet);
        let mut dropped = 0;
        while self.dropping && self.due(now) {
            let mut packet = at_hand?;
            if dropped == cap {
                self.reached.when(Edge::Cap, true);
                if !self.is(Slip::CapKeepsDropNext) {
                    self.drop_next = self.law(now);
                }
                return Some(packet);
            }
            let capable = self.params.ecn && self.capable(packet.ecn) && !self.is(Slip::EcnIgnored);
            if !(capable && self.is(Slip::MarkedPacketNotCounted)) {
                self.count = self.count.wrapping_add(1);
                self.refine();
            }
            if capable {
                self.mark(Act::Marked, &mut packet, steps);
                self.drop_next = self.law(if self.is(Slip::LawFromNow) { now } else { self.drop_next });
                self.dropping = !self.is(Slip::MarkLeavesDropping);
                return Some(packet);
            }
            self.note(Act::Dropped, &packet, steps);
            self.reached.when(Edge::Drop, true);
            dropped += 1;
            self.reached.when(Edge::SecondDrop, dropped == 2);
            at_hand = self.pop();
            if self.over(at_hand.as_ref(), now) {
                self.drop_next = self.law(if self.is(Slip::LawFromNow) { now } else { self.drop_next });
            } else {
                self.reached.when(Edge::LeftBetweenDrops, true);
                self.dropping = false;
            }
            if self.is(Slip::CapBeforeItIsExceeded) && self.dropping && dropped == cap {
                self.drop_next = self.law(now);
            }
            if self.is(Slip::OneDropPerDequeue) {
                break;
            }
        }
        at_hand
    }

    /// The head has been over target for an interval: marks or drops it and enters the dropping state.
    fn begin_dropping(&mut self, mut packet: Held, now: u32, steps: &mut Vec<Step>) -> Option<Held> {
        let survivor = if self.params.ecn && self.capable(packet.ecn) && !self.is(Slip::EcnIgnored) {
            self.mark(Act::Marked, &mut packet, steps);
            Some(packet)
        } else {
            self.note(Act::Dropped, &packet, steps);
            self.reached.when(Edge::Drop, true);
            let next = self.pop();
            if !self.is(Slip::NoRetestAfterFirstDrop) {
                self.over(next.as_ref(), now);
            }
            next
        };
        self.reached.when(Edge::Entry, true);
        self.dropping = true;

        let grown = self.count.wrapping_sub(self.last_count);
        let window = self.interval.wrapping_mul(if self.is(Slip::MemoryOf15Intervals) { 15 } else { 16 });
        let beyond = distance(now.wrapping_sub(self.drop_next), window);
        let recent = beyond < 0 || (beyond == 0 && self.is(Slip::MemoryToTheLastTick));
        self.reached.when(Edge::OnMemoryEnd, beyond == 0 && grown > 1);
        let enough = grown > 1 || (grown == 1 && self.is(Slip::MemoryOfDeltaOne));
        if enough && recent && !self.is(Slip::NoMemory) {
            self.reached.when(Edge::EntryWithMemory, true);
            if !self.is(Slip::MemoryOfWholeCount) {
                self.count = grown;
            }
            if !self.is(Slip::NewtonNotOnReentry) {
                self.refine();
            }
        } else {
            self.reached.when(Edge::MemoryExpired, enough);
            self.count = 1;
            self.inverse = 0xffff << 16;
        }
        if !self.is(Slip::LastCountNotKept) {
            self.last_count = self.count;
        }
        self.drop_next = self.law(now);
        survivor
    }

    /// Whether the rule allows a drop of this head: the delay has been at target or more for longer than an interval.
    fn over(&mut self, head: Option<&Held>, now: u32) -> bool {
        let Some(head) = head else {
            self.first_above = 0;
            self.above = false;
            return false;
        };
        self.largest = self.largest.max(head.len);
        self.delay = if self.is(Slip::SojournInNanoseconds) {
            ticks(self.now - head.arrived)
        } else {
            now.wrapping_sub(ticks(head.arrived))
        };
        let below = match self.slip {
            Some(Slip::TargetCountsAsBelow) => distance(self.delay, self.target) <= 0,
            Some(Slip::UnsignedTimes) => self.delay < self.target,
            _ => distance(self.delay, self.target) < 0,
        };
        let short = match self.slip {
            Some(Slip::BacklogOfOneMtuCounts) => self.bytes < u64::from(self.params.mtu),
            Some(Slip::BacklogWithThePacketAtHand) => {
                self.bytes + u64::from(head.len) <= u64::from(self.params.mtu)
            }
            Some(Slip::BacklogOfLargestPacket) => self.bytes <= u64::from(self.largest),
            _ => self.bytes <= u64::from(self.params.mtu),
        };
        self.reached.when(Edge::OnTarget, self.delay == self.target);
        self.reached.when(Edge::OnMtu, self.bytes == u64::from(self.params.mtu));
        if below || short {
            self.first_above = 0;
            self.above = false;
            return false;
        }
        let unset = if self.is(Slip::TickZeroIsATime) { !self.above } else { self.first_above == 0 };
        if unset {
            self.first_above = now.wrapping_add(self.interval);
            self.above = true;
            self.reached.when(Edge::FirstAboveIsTickZero, self.first_above == 0);
            return false;
        }
        self.reached.when(Edge::OnFirstAbove, now == self.first_above);
        match self.slip {
            Some(Slip::AboveFromTheFirstTick) => distance(now, self.first_above) >= 0,
            Some(Slip::UnsignedTimes) => now > self.first_above,
            _ => distance(now, self.first_above) > 0,
        }
    }

    /// Whether the next drop or mark is due.
    fn due(&mut self, now: u32) -> bool {
        self.reached.when(Edge::OnDropNext, now == self.drop_next);
        match self.slip {
            Some(Slip::DropNextStrictlyPassed) => distance(now, self.drop_next) > 0,
            Some(Slip::UnsignedTimes) => now >= self.drop_next,
            _ => distance(now, self.drop_next) >= 0,
        }
    }

    /// The control law: `interval / sqrt(count)` after `from`.
    fn law(&mut self, from: u32) -> u32 {
        let step = ((u64::from(self.interval) * u64::from(self.inverse)) >> 32) as u32;
        self.reached.when(Edge::StepOfZero, step == 0);
        let least = match (self.params.kernel, self.slip) {
            (_, Some(Slip::StepMayBeZero)) => 0,
            (_, Some(Slip::StepAtLeastOne)) | (Kernel::V7_2, _) => 1,
            (Kernel::V6_12, _) => 0,
        };
        from.wrapping_add(step.max(least))
    }

    fn refine(&mut self) {
        let (count, short) = (self.count, self.inverse & 0xffff_0000);
        self.inverse = match self.slip {
            Some(Slip::ExactSquareRoot) => {
                (65_536.0 / f64::from(count).sqrt()).floor().min(65_535.0) as u32 * 65_536
            }
            Some(Slip::NewtonTwice) => {
                newton_q32(newton_q32(short, count) & 0xffff_0000, count) & 0xffff_0000
            }
            Some(Slip::NewtonKeeps32Bits) => newton_q32(self.inverse, count),
            _ => newton_q32(short, count) & 0xffff_0000,
        };
    }

    fn capable(&self, ecn: Ecn) -> bool {
        match ecn {
            Ecn::NotEct => false,
            Ecn::Ect0 => true,
            Ecn::Ect1 => !self.is(Slip::Ect1IsNotCapable),
            // Already CE: counts as marked, so it is neither dropped nor changed.
            Ecn::Ce => !self.is(Slip::CeIsNotCapable),
        }
    }

    fn mark(&mut self, act: Act, packet: &mut Held, steps: &mut Vec<Step>) {
        self.reached.when(Edge::AlreadyCe, packet.ecn == Ecn::Ce);
        packet.ecn = Ecn::Ce;
        match act {
            Act::ThresholdMarked => self.reached.when(Edge::ThresholdMark, true),
            _ => self.reached.when(Edge::Mark, true),
        }
        self.note(act, packet, steps);
    }

    fn note(&self, act: Act, packet: &Held, steps: &mut Vec<Step>) {
        // A marked packet is in the queue until it is passed; a convention of the events, not of the rule.
        let (packets, bytes) = match act {
            Act::Marked | Act::ThresholdMarked => (1, u64::from(packet.len)),
            Act::Taken | Act::Overflowed | Act::Dropped | Act::Passed => (0, 0),
        };
        steps.push(Step {
            call: self.calls,
            act,
            id: packet.id,
            ecn: packet.ecn,
            sojourn: self.now - packet.arrived,
            backlog: (self.queue.len() as u32 + packets, self.bytes + bytes),
        });
    }

    fn pop(&mut self) -> Option<Held> {
        let packet = self.queue.pop_front()?;
        self.bytes -= u64::from(packet.len);
        Some(packet)
    }

    fn is(&self, slip: Slip) -> bool {
        self.slip == Some(slip)
    }
}
