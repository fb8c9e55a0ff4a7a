//! CoDel, controlled delay: drops or marks at departure once packets have waited longer than `target` for a whole
//! `interval`, at intervals that shrink with the square root of the number of drops. Source: the kernel's
//! `include/net/codel.h`, `include/net/codel_impl.h` and `net/sched/sch_codel.c`, in the same integers; RFC 8289 is the
//! specification, from which the kernel departs (see `docs/qdisc/codel.md`).
//!
//! | kernel | here |
//! |---|---|
//! | clock of 1024 ns ticks in 32 bits, compared by signed difference | the same, derived from `now` |
//! | `target`, `interval`, `ce_threshold` in us over netlink, then `>> 10` | nanoseconds, `>> 10`: the same for whole us |
//! | enqueue time in the `skb` control block, truncated to ticks | [`Packet::arrived`], set at enqueue, truncated when compared |
//! | `1/sqrt(count)` in 16 bits, one Newton step a count | the same |
//! | no drop while the rest of the backlog is at most the device's MTU with header | the same, `mtu` |
//! | drops may start strictly after `first_above_time`; 0 means "not above" | the same, with the accidental 0 |
//! | 6.12: any number of drops in one dequeue; 7.2: at most 256, steps of at least one tick | [`KernelVariant`] |
//! | packet limit at enqueue, tail drop | the same, or a byte limit |
//! | `INET_ECN_set_ce`: an arriving CE counts as marked | the same: `Mark` with `ecn_in` CE, no drop |
//! | `ce_threshold` after the drop law; a packet that the law has just marked counts again (`ce_mark`) | the same: a second `Mark`, reason `CeThreshold` |
//! | `ce_threshold_selector` only in `fq_codel` | [`CeThreshold::ect1_only`] here as well |
//! | one decision a super-packet | the same; `segments` tells how many it hit |
//! | counters in the `xstats` | events |

mod keys;

pub use keys::CodelKeys;

use weir_core::{Backlog, DropReason, Duration, Ecn, EventKind, EventSink, MarkReason, Packet, Time};

use crate::Qdisc;
use crate::ring::{QueueLimit, Ring};

/// Nanoseconds in a tick, as a shift (`CODEL_SHIFT`).
const TICK_SHIFT: u32 = 10;
/// Bits by which the stored 16-bit reciprocal root is short of Q0.32 (`REC_INV_SQRT_SHIFT`).
const ROOT_SHIFT: u32 = 16;

/// The kernel whose details are followed; both share all else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KernelVariant {
    /// Linux 6.12 and the years before: unlimited drops in one dequeue, and an interval so short that
    /// `interval / sqrt(count)` is less than a tick drops all that is due at once.
    Linux6_12,
    /// Linux 7.2: at most 256 drops in one dequeue, and drops at least one tick apart.
    #[default]
    Linux7_2,
}

impl KernelVariant {
    /// Drops that one dequeue may make; `None` when there is no bound.
    pub const fn max_drops_per_dequeue(self) -> Option<u32> {
        match self {
            Self::Linux6_12 => None,
            Self::Linux7_2 => Some(256),
        }
    }

    /// The shortest time between two drops, in ticks of 1024 ns.
    pub const fn min_step_ticks(self) -> u32 {
        match self {
            Self::Linux6_12 => 0,
            Self::Linux7_2 => 1,
        }
    }
}

/// A shallow marking threshold beside the control law (`ce_threshold`), meant for DCTCP-like senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CeThreshold {
    /// Packets that have waited longer than this are marked if they can be. At least one tick (1024 ns) longer, in
    /// fact: both times are truncated to ticks and the comparison is strict.
    pub above: Duration,
    /// Mark ECT(1) only (the kernel's selector 1 with mask 3); otherwise ECT(0), ECT(1) and CE.
    pub ect1_only: bool,
}

/// Parameters of [`Codel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelConfig {
    /// Acceptable standing sojourn time (kernel default 5 ms). Truncated to ticks of 1024 ns: 5 ms are 4882 ticks.
    pub target: Duration,
    /// How long the sojourn time must stay above `target` before the first drop (kernel default 100 ms). May be
    /// shorter than `target`, as in the CRQ prototype (10 us and 100 us).
    pub interval: Duration,
    /// Where the queue overflows (kernel default 1000 packets).
    pub limit: QueueLimit,
    /// Mark packets of ECN-capable senders where others are dropped (kernel default off for `codel`).
    pub ecn: bool,
    /// The shallow marking threshold; none by default. Works without `ecn`.
    pub ce_threshold: Option<CeThreshold>,
    /// Nothing is dropped while the rest of the queue holds at most this many wire bytes (`psched_mtu`: the device's
    /// MTU and its link-layer header, 1514 on Ethernet).
    pub mtu: u32,
    /// Which kernel's details to follow.
    pub kernel: KernelVariant,
}

impl Default for CodelConfig {
    /// The kernel's defaults (`codel_params_init`, `DEFAULT_CODEL_LIMIT`) on Ethernet.
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            limit: QueueLimit::Packets(1000),
            ecn: false,
            ce_threshold: None,
            mtu: 1514,
            kernel: KernelVariant::default(),
        }
    }
}

/// The state of the control law (`struct codel_vars`).
#[derive(Clone, Copy, Debug, Default)]
struct Law {
    /// Drops and marks since the dropping state began; wraps.
    count: u32,
    /// `count` as it was when the dropping state last began.
    last_count: u32,
    dropping: bool,
    /// 1/sqrt(count) in Q0.16.
    root: u16,
    /// When drops may begin; 0 while the delay is below target.
    first_above: u32,
    drop_next: u32,
    /// Sojourn time of the packet last looked at.
    delay: u32,
}

/// Whether tick `a` is later than tick `b`, around the wrap every 73 minutes.
fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// The kernel's clock: the low 32 bits of the time in units of 1024 ns.
fn ticks(now: Time) -> u32 {
    (now.as_nanos() >> TICK_SHIFT) as u32
}

/// A duration in ticks, truncated and limited to what signed differences can tell apart.
fn duration_ticks(duration: Duration) -> u32 {
    (duration.as_nanos() >> TICK_SHIFT).min(i32::MAX as u64) as u32
}

impl Law {
    /// One Newton step of 1/sqrt(count): `r = r/2 * (3 - count * r^2)`, in Q0.32 and then cut to 16 bits.
    fn newton_step(&mut self) {
        let root = u64::from(self.root) << ROOT_SHIFT;
        let square = (root * root) >> 32;
        let rest = (3u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(square));
        // A quarter now and a half later, so that the product stays within 64 bits.
        let next = (rest >> 2).wrapping_mul(root) >> 31;
        self.root = ((next as u32) >> ROOT_SHIFT) as u16;
    }
}

/// A CoDel queue.
#[derive(Clone, Debug)]
pub struct Codel {
    ring: Ring,
    law: Law,
    target: u32,
    interval: u32,
    mtu: u64,
    ecn: bool,
    ce_threshold: Option<(u32, bool)>,
    kernel: KernelVariant,
}

impl Codel {
    /// An empty queue. Any parameters work; [`QdiscConfig`](crate::QdiscConfig) refuses those that make no sense.
    pub fn new(config: CodelConfig) -> Self {
        Self {
            ring: Ring::new(config.limit),
            law: Law::default(),
            target: duration_ticks(config.target),
            interval: duration_ticks(config.interval),
            mtu: u64::from(config.mtu),
            ecn: config.ecn,
            ce_threshold: config.ce_threshold.map(|at| (duration_ticks(at.above), at.ect1_only)),
            kernel: config.kernel,
        }
    }

    /// When the drop after the one at `from` is due.
    fn control_law(&self, from: u32) -> u32 {
        let root = u64::from(self.law.root) << ROOT_SHIFT;
        let step = ((u64::from(self.interval) * root) >> 32) as u32;
        from.wrapping_add(step.max(self.kernel.min_step_ticks()))
    }

    /// Whether the delay has been above target for long enough to drop `packet`, which has left the ring.
    fn should_drop(&mut self, packet: Option<&Packet>, now: u32) -> bool {
        let Some(packet) = packet else {
            self.law.first_above = 0;
            return false;
        };
        self.law.delay = now.wrapping_sub(ticks(packet.arrived));
        if before(self.law.delay, self.target) || self.ring.backlog().bytes <= self.mtu {
            self.law.first_above = 0;
            return false;
        }
        if self.law.first_above == 0 {
            self.law.first_above = now.wrapping_add(self.interval);
            return false;
        }
        after(now, self.law.first_above)
    }

    /// Marks the packet for the control law if ECN is on and its sender takes part.
    fn mark(&self, packet: &mut Packet, now: Time, events: &mut dyn EventSink) -> bool {
        let markable = self.ecn && packet.ecn.is_capable();
        if markable {
            packet.ecn = Ecn::Ce;
            self.ring.report(EventKind::Mark(MarkReason::Aqm), packet, now, events);
        }
        markable
    }

    /// Drops `packet` and takes the next from the ring.
    fn drop_and_next(&mut self, packet: &Packet, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        self.ring.report(EventKind::Drop(DropReason::Aqm), packet, now, events);
        self.ring.pop()
    }

    /// In the dropping state: all drops that are due, or one mark. Hands back the packet to send.
    fn drop_what_is_due(
        &mut self,
        mut packet: Packet,
        now: Time,
        events: &mut dyn EventSink,
    ) -> Option<Packet> {
        let tick = ticks(now);
        let mut drops = 0;
        while self.law.dropping && !before(tick, self.law.drop_next) {
            if Some(drops) == self.kernel.max_drops_per_dequeue() {
                self.law.drop_next = self.control_law(tick);
                break;
            }
            self.law.count = self.law.count.wrapping_add(1);
            self.law.newton_step();
            if self.mark(&mut packet, now, events) {
                self.law.drop_next = self.control_law(self.law.drop_next);
                break;
            }
            let next = self.drop_and_next(&packet, now, events);
            drops += 1;
            self.law.dropping = self.should_drop(next.as_ref(), tick);
            packet = next?;
            if self.law.dropping {
                self.law.drop_next = self.control_law(self.law.drop_next);
            }
        }
        Some(packet)
    }

    /// Begins the dropping state with one drop or mark. Hands back the packet to send.
    fn begin_dropping(
        &mut self,
        mut packet: Packet,
        now: Time,
        events: &mut dyn EventSink,
    ) -> Option<Packet> {
        let tick = ticks(now);
        let head = if self.mark(&mut packet, now, events) {
            Some(packet)
        } else {
            let next = self.drop_and_next(&packet, now, events);
            // For its side effects: the verdict on the next packet waits for the next dequeue.
            self.should_drop(next.as_ref(), tick);
            next
        };
        let law = &mut self.law;
        law.dropping = true;
        let delta = law.count.wrapping_sub(law.last_count);
        // Back soon after the last episode: go on from the drop rate that was enough then.
        if delta > 1 && before(tick.wrapping_sub(law.drop_next), self.interval.wrapping_mul(16)) {
            law.count = delta;
            law.newton_step();
        } else {
            law.count = 1;
            law.root = u16::MAX;
        }
        law.last_count = law.count;
        self.law.drop_next = self.control_law(tick);
        head
    }
}

impl Qdisc for Codel {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        self.ring.offer(packet, now, events);
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        let Some(packet) = self.ring.pop() else {
            self.law.dropping = false;
            return None;
        };
        let drop = self.should_drop(Some(&packet), ticks(now));
        let mut packet = match (self.law.dropping, drop) {
            (true, true) => self.drop_what_is_due(packet, now, events),
            (true, false) => {
                self.law.dropping = false;
                Some(packet)
            }
            (false, true) => self.begin_dropping(packet, now, events),
            (false, false) => Some(packet),
        }?;
        if let Some((above, ect1_only)) = self.ce_threshold
            && after(self.law.delay, above)
            && (if ect1_only { packet.ecn == Ecn::Ect1 } else { packet.ecn.is_capable() })
        {
            packet.ecn = Ecn::Ce;
            self.ring.report(EventKind::Mark(MarkReason::CeThreshold), &packet, now, events);
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
