//! Checks that hold for every bottleneck at all times, made on every run: no packet is lost or invented, no packet of a
//! flow overtakes another inside one queue, the output is never faster than the link.

use serde::Serialize;

use crate::{DropReason, Event, EventKind, EventSink, FlowId, QueueId, Rate, Time};

/// Counts of one flow's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlowCount {
    /// Offered to the queue.
    pub arrived: u64,
    /// Left towards the link.
    pub departed: u64,
    /// Dropped, for whatever reason.
    pub dropped: u64,
    /// Of the dropped: the queue was full, and the packet was refused or evicted.
    pub overflowed: u64,
    /// Marked CE by this bottleneck.
    pub marked: u64,
    /// Wire bytes that left.
    pub departed_bytes: u64,
}

impl FlowCount {
    /// Packets that must still be in the queue. Negative when more left than came.
    pub fn queued(&self) -> i64 {
        self.arrived as i64 - self.departed as i64 - self.dropped as i64
    }

    fn add(&mut self, other: &Self) {
        self.arrived += other.arrived;
        self.departed += other.departed;
        self.dropped += other.dropped;
        self.overflowed += other.overflowed;
        self.marked += other.marked;
        self.departed_bytes += other.departed_bytes;
    }
}

/// What the audit found. All is well when [`holds`](AuditReport::holds).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    /// The sum over all flows.
    pub total: FlowCount,
    /// Packets that the queue says it still holds at the end.
    pub still_queued: u64,
    /// Flows whose packets in are not packets out, dropped and still queued, and by how many packets.
    pub unbalanced: Vec<(FlowId, i64)>,
    /// Packets that left a queue after a later packet of their flow had left the same queue.
    pub overtaken: u64,
}

impl AuditReport {
    /// Whether conservation and order held for every flow.
    pub fn holds(&self) -> bool {
        self.unbalanced.is_empty() && self.overtaken == 0
    }
}

#[derive(Clone, Debug, Default)]
struct FlowAudit {
    count: FlowCount,
    /// Per queue: 1 + the id of the last packet that left it.
    last: [u64; 4],
}

/// Follows the events of one queue discipline.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    flows: Vec<FlowAudit>,
    untracked: FlowAudit,
    overtaken: u64,
}

impl Audit {
    /// An audit with room for `flows` flows before it must allocate.
    pub fn with_capacity(flows: usize) -> Self {
        Self { flows: Vec::with_capacity(flows), ..Self::default() }
    }

    /// Counts of one flow; zeros for a flow that was never seen.
    pub fn flow(&self, flow: FlowId) -> FlowCount {
        if flow == FlowId::NONE {
            return self.untracked.count;
        }
        self.flows.get(flow.0 as usize).map(|audit| audit.count).unwrap_or_default()
    }

    /// The verdict, given the packets of each flow that are still queued (an iterator over what the queue holds).
    pub fn report(&self, still_queued: impl IntoIterator<Item = FlowId>) -> AuditReport {
        let mut queued = vec![0i64; self.flows.len() + 1];
        let slot = |flow: FlowId| (flow.0 as usize).min(self.flows.len());
        let mut still = 0;
        for flow in still_queued {
            queued[slot(flow)] += 1;
            still += 1;
        }
        let mut report =
            AuditReport { still_queued: still, overtaken: self.overtaken, ..AuditReport::default() };
        let ids = (0..self.flows.len() as u32).map(FlowId).chain([FlowId::NONE]);
        for (id, audit) in ids.zip(self.flows.iter().chain([&self.untracked])) {
            report.total.add(&audit.count);
            let missing = audit.count.queued() - queued[slot(id)];
            if missing != 0 {
                report.unbalanced.push((id, missing));
            }
        }
        report
    }

    fn entry(&mut self, flow: FlowId) -> &mut FlowAudit {
        if flow == FlowId::NONE {
            return &mut self.untracked;
        }
        let index = flow.0 as usize;
        if index >= self.flows.len() {
            self.flows.resize_with(index + 1, FlowAudit::default);
        }
        &mut self.flows[index]
    }

    fn left(&mut self, flow: FlowId, queue: QueueId, id: u64) {
        // Untracked packets are of no one flow, so they have no order to keep.
        if flow == FlowId::NONE {
            return;
        }
        let entry = self.entry(flow);
        let last = &mut entry.last[usize::from(queue.0) % 4];
        if id < *last {
            self.overtaken += 1;
        } else {
            *last = id + 1;
        }
    }
}

impl EventSink for Audit {
    fn event(&mut self, event: &Event) {
        let packet = &event.packet;
        let count = &mut self.entry(packet.flow).count;
        match event.kind {
            EventKind::Enqueue => count.arrived += 1,
            EventKind::Dequeue => {
                count.departed += 1;
                count.departed_bytes += u64::from(packet.wire_bytes);
                self.left(packet.flow, event.queue, packet.id);
            }
            EventKind::Drop(reason) => {
                count.dropped += 1;
                // A packet refused at the door was offered too, though it never was in the queue.
                count.arrived += u64::from(reason.on_arrival());
                count.overflowed += u64::from(matches!(reason, DropReason::Overflow | DropReason::Evicted));
            }
            EventKind::Mark(_) => count.marked += 1,
        }
    }
}

/// Measures the largest burst above a rate: the highest level of a bucket that fills with what is sent and leaks at the
/// link's rate. At most one burst plus one packet means that no window, however long or short, carried more than
/// rate x window + burst.
#[derive(Clone, Debug)]
pub struct RateMeter {
    rate: Rate,
    last: Time,
    level: u64,
    highest: u64,
}

impl RateMeter {
    /// A meter of a link of `rate`.
    pub fn new(rate: Rate) -> Self {
        Self { rate, last: Time::ZERO, level: 0, highest: 0 }
    }

    /// Takes note of `bytes` that left at `now`.
    pub fn sent(&mut self, now: Time, bytes: u64) {
        let leaked = self.rate.bytes_in(now.since(self.last)).0;
        // Leak only whole bytes, and only for time that is accounted for, so that many short gaps are not lost.
        if leaked > 0 {
            self.level = self.level.saturating_sub(leaked);
            self.last = if self.level == 0 { now } else { self.last + self.rate.time_for(leaked) };
        }
        self.level += bytes;
        self.highest = self.highest.max(self.level);
    }

    /// The largest burst above the rate so far, in bytes.
    pub fn highest(&self) -> u64 {
        self.highest
    }
}

#[cfg(test)]
mod tests {
    use super::{Audit, RateMeter};
    use crate::{
        Backlog, DropReason, Duration, Event, EventKind, EventSink, FlowId, Packet, QueueId, Rate, Time,
    };

    fn event(kind: EventKind, id: u64, flow: u32) -> Event {
        Event {
            time: Time::ZERO,
            kind,
            packet: Packet::new(id, FlowId(flow), 100, Time::ZERO),
            queue: QueueId(0),
            sojourn: Duration::ZERO,
            backlog: Backlog::default(),
        }
    }

    #[test]
    fn a_sound_queue_passes() {
        let mut audit = Audit::default();
        for id in 0..4 {
            audit.event(&event(EventKind::Enqueue, id, 0));
        }
        audit.event(&event(EventKind::Drop(DropReason::Overflow), 4, 0));
        audit.event(&event(EventKind::Drop(DropReason::Early), 5, 0));
        audit.event(&event(EventKind::Drop(DropReason::Aqm), 0, 0));
        audit.event(&event(EventKind::Drop(DropReason::Evicted), 1, 0));
        audit.event(&event(EventKind::Dequeue, 2, 0));
        let report = audit.report([FlowId(0)]);
        assert!(report.holds(), "{report:?}");
        assert_eq!((report.total.arrived, report.total.departed, report.total.dropped), (6, 1, 4));
        assert_eq!(report.total.overflowed, 2);
    }

    #[test]
    fn lost_invented_and_overtaking_packets_are_found() {
        let mut audit = Audit::default();
        for id in 0..3 {
            audit.event(&event(EventKind::Enqueue, id, 1));
        }
        audit.event(&event(EventKind::Dequeue, 2, 1));
        audit.event(&event(EventKind::Dequeue, 0, 1));
        let report = audit.report([]);
        assert_eq!(report.unbalanced, [(FlowId(1), 1)]);
        assert_eq!(report.overtaken, 1);
        audit.event(&event(EventKind::Dequeue, 7, 0));
        assert_eq!(audit.report([FlowId(1)]).unbalanced, [(FlowId(0), -1)]);
    }

    #[test]
    fn the_meter_sees_bursts_in_any_window() {
        let rate = Rate::from_bits_per_sec(8_000_000);
        let mut meter = RateMeter::new(rate);
        let mut now = Time::from_nanos(5);
        for _ in 0..1000 {
            meter.sent(now, 1000);
            now += Duration::from_nanos(1_000_000);
        }
        assert!(meter.highest() <= 1001, "{}", meter.highest());
        (0..5).for_each(|_| meter.sent(now, 1000));
        assert_eq!(meter.highest(), 5000);
    }
}
