//! CoDel's control law by itself, for one queue or for each of many: which packet a queue hands out next, and which it
//! drops or marks on the way. The table in [`codel`](super) says how it relates to the kernel's
//! (`codel_dequeue` in `include/net/codel_impl.h`).

use weir_core::{DropReason, Duration, Ecn, EventKind, EventSink, MarkReason, Packet, Time};

use super::{CodelConfig, KernelVariant};

/// Nanoseconds in a tick, as a shift (`CODEL_SHIFT`).
const TICK_SHIFT: u32 = 10;
/// Bits by which the stored 16-bit reciprocal root is short of Q0.32 (`REC_INV_SQRT_SHIFT`).
const ROOT_SHIFT: u32 = 16;

/// The queue that a law watches.
pub(crate) trait Source {
    /// The packet at the head.
    fn head(&self) -> Option<&Packet>;

    /// Takes the packet at the head, silently.
    fn pop(&mut self) -> Option<Packet>;

    /// What the law takes for the backlog, in wire bytes, with the packet at the head.
    fn backlog_bytes(&self) -> u64;

    /// Reports what the law did to a packet that has left the queue.
    fn report(&self, kind: EventKind, packet: &Packet, now: Time, events: &mut dyn EventSink);

    /// Takes the packet at the head and reports its departure.
    fn depart(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        let packet = self.pop()?;
        self.report(EventKind::Dequeue, &packet, now, events);
        Some(packet)
    }
}

/// Parameters of the law in its own units (`struct codel_params`).
#[derive(Clone, Debug)]
pub(crate) struct Params {
    target: u32,
    interval: u32,
    mtu: u64,
    ecn: bool,
    ce_threshold: Option<(u32, bool)>,
    kernel: KernelVariant,
}

impl Params {
    /// Of a configuration, all but its limit.
    pub(crate) fn new(config: &CodelConfig) -> Self {
        Self {
            target: duration_ticks(config.target),
            interval: duration_ticks(config.interval),
            mtu: u64::from(config.mtu),
            ecn: config.ecn,
            ce_threshold: config.ce_threshold.map(|at| (duration_ticks(at.above), at.ect1_only)),
            kernel: config.kernel,
        }
    }

    /// Marks the packet for the control law if ECN is on and its sender takes part.
    fn mark(&self, packet: &mut Packet, source: &impl Source, now: Time, events: &mut dyn EventSink) -> bool {
        let markable = self.ecn && packet.ecn.is_capable();
        if markable {
            packet.ecn = Ecn::Ce;
            source.report(EventKind::Mark(MarkReason::Aqm), packet, now, events);
        }
        markable
    }
}

/// The state of the control law (`struct codel_vars`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ControlLaw {
    /// Drops and marks since the dropping state began; wraps.
    pub(crate) count: u32,
    /// `count` as it was when the dropping state last began.
    pub(super) last_count: u32,
    pub(super) dropping: bool,
    /// 1/sqrt(count) in Q0.16.
    pub(super) root: u16,
    /// When drops may begin; 0 while the delay is below target.
    pub(super) first_above: u32,
    pub(super) drop_next: u32,
    /// Sojourn time of the packet last looked at.
    pub(super) delay: u32,
}

/// Whether tick `a` is later than tick `b`, around the wrap every 73 minutes.
pub(super) fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

pub(super) fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// The kernel's clock: the low 32 bits of the time in units of 1024 ns.
fn ticks(now: Time) -> u32 {
    (now.as_nanos() >> TICK_SHIFT) as u32
}

/// A duration in ticks, truncated and limited to what signed differences can distinguish.
pub(super) fn duration_ticks(duration: Duration) -> u32 {
    (duration.as_nanos() >> TICK_SHIFT).min(i32::MAX as u64) as u32
}

impl ControlLaw {
    /// One Newton step of 1/sqrt(count): `r = r/2 * (3 - count * r^2)`, in Q0.32 and then cut to 16 bits.
    pub(super) fn newton_step(&mut self) {
        let root = u64::from(self.root) << ROOT_SHIFT;
        let square = (root * root) >> 32;
        let rest = (3u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(square));
        // A quarter now and a half later, so that the product stays within 64 bits.
        let next = (rest >> 2).wrapping_mul(root) >> 31;
        self.root = ((next as u32) >> ROOT_SHIFT) as u16;
    }

    /// When the drop after the one at `from` is due.
    pub(super) fn control_law(&self, params: &Params, from: u32) -> u32 {
        let root = u64::from(self.root) << ROOT_SHIFT;
        let step = ((u64::from(params.interval) * root) >> 32) as u32;
        from.wrapping_add(step.max(params.kernel.min_step_ticks()))
    }

    /// Counts drops that were made beside the law, so that its next are closer together (`fq_codel_drop`).
    pub(crate) fn count_drops(&mut self, drops: u32) {
        self.count = self.count.wrapping_add(drops);
    }

    /// Whether the delay has been above target for long enough to drop the packet at the head.
    fn should_drop(&mut self, params: &Params, source: &impl Source, now: u32) -> bool {
        let Some(head) = source.head() else {
            self.first_above = 0;
            return false;
        };
        self.delay = now.wrapping_sub(ticks(head.arrived));
        let behind = source.backlog_bytes() - u64::from(head.wire_bytes);
        if before(self.delay, params.target) || behind <= params.mtu {
            self.first_above = 0;
            return false;
        }
        if self.first_above == 0 {
            self.first_above = now.wrapping_add(params.interval);
            return false;
        }
        after(now, self.first_above)
    }

    /// In the dropping state: all drops that are due, or one mark. Hands back the packet to send.
    fn drop_what_is_due(
        &mut self,
        params: &Params,
        source: &mut impl Source,
        now: Time,
        events: &mut dyn EventSink,
    ) -> Option<Packet> {
        let tick = ticks(now);
        let mut packet = source.pop()?;
        let mut drops = 0;
        while self.dropping && !before(tick, self.drop_next) {
            if Some(drops) == params.kernel.max_drops_per_dequeue() {
                self.drop_next = self.control_law(params, tick);
                break;
            }
            self.count = self.count.wrapping_add(1);
            self.newton_step();
            if params.mark(&mut packet, source, now, events) {
                self.drop_next = self.control_law(params, self.drop_next);
                break;
            }
            source.report(EventKind::Drop(DropReason::Aqm), &packet, now, events);
            drops += 1;
            self.dropping = self.should_drop(params, source, tick);
            packet = source.pop()?;
            if self.dropping {
                self.drop_next = self.control_law(params, self.drop_next);
            }
        }
        Some(packet)
    }

    /// Begins the dropping state with one drop or mark. Hands back the packet to send.
    fn begin_dropping(
        &mut self,
        params: &Params,
        source: &mut impl Source,
        now: Time,
        events: &mut dyn EventSink,
    ) -> Option<Packet> {
        let tick = ticks(now);
        let mut packet = source.pop()?;
        let head = if params.mark(&mut packet, source, now, events) {
            Some(packet)
        } else {
            source.report(EventKind::Drop(DropReason::Aqm), &packet, now, events);
            // For its side effects: the verdict on the next packet waits for the next dequeue.
            self.should_drop(params, source, tick);
            source.pop()
        };
        self.dropping = true;
        let delta = self.count.wrapping_sub(self.last_count);
        // Back soon after the last episode: go on from the drop rate that was enough then.
        if delta > 1 && before(tick.wrapping_sub(self.drop_next), params.interval.wrapping_mul(16)) {
            self.count = delta;
            self.newton_step();
        } else {
            self.count = 1;
            self.root = u16::MAX;
        }
        self.last_count = self.count;
        self.drop_next = self.control_law(params, tick);
        head
    }

    /// The packet to send, marked where it must be; its departure is reported. `None` if the queue is empty, perhaps
    /// because its last packets were dropped.
    #[inline]
    pub(crate) fn dequeue(
        &mut self,
        params: &Params,
        source: &mut impl Source,
        now: Time,
        events: &mut dyn EventSink,
    ) -> Option<Packet> {
        if source.head().is_none() {
            self.dropping = false;
            return None;
        }
        let tick = ticks(now);
        let is_due = if !self.should_drop(params, source, tick) {
            self.dropping = false;
            false
        } else {
            !self.dropping || !before(tick, self.drop_next)
        };
        if is_due || params.ce_threshold.is_some() {
            self.intervene(params, source, is_due, now, events)
        } else {
            source.depart(now, events)
        }
    }

    /// What seldom is in the way of packets: drops and marks of the law if one `is_due`, and the shallow threshold.
    #[cold]
    fn intervene(
        &mut self,
        params: &Params,
        source: &mut impl Source,
        is_due: bool,
        now: Time,
        events: &mut dyn EventSink,
    ) -> Option<Packet> {
        let mut packet = match (is_due, self.dropping) {
            (false, _) => source.pop(),
            (true, false) => self.begin_dropping(params, source, now, events),
            (true, true) => self.drop_what_is_due(params, source, now, events),
        }?;
        if let Some((above, ect1_only)) = params.ce_threshold
            && after(self.delay, above)
            && (if ect1_only { packet.ecn == Ecn::Ect1 } else { packet.ecn.is_capable() })
        {
            packet.ecn = Ecn::Ce;
            source.report(EventKind::Mark(MarkReason::CeThreshold), &packet, now, events);
        }
        source.report(EventKind::Dequeue, &packet, now, events);
        Some(packet)
    }
}
