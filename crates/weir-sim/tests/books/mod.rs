//! Keeps the books of each queue of a network: what must hold in any of them.

use std::collections::HashMap;

use weir_core::{Audit, Duration, Event, EventKind, EventSink, FlowId, Packet, Rate, RateMeter, Time};
use weir_sim::{HopId, Observer};

/// Of one queue and its link.
pub(crate) struct Book {
    pub(crate) audit: Audit,
    pub(crate) meter: RateMeter,
    /// Bytes times nanoseconds in the queue, by the backlog and by sojourn times.
    pub(crate) area: f64,
    pub(crate) sojourns: f64,
    backlog: u64,
    changed: Time,
    busy_end: Time,
    pub(crate) idled_with_backlog: u32,
    arrivals: HashMap<u64, (Time, u32)>,
    /// Packets and wire bytes that left, with their times.
    pub(crate) left: Vec<(Time, FlowId, u32)>,
}

impl Book {
    /// Of a link of `rate`.
    pub(crate) fn new(rate: Rate) -> Self {
        Self {
            audit: Audit::with_capacity(8),
            meter: RateMeter::new(rate),
            area: 0.0,
            sojourns: 0.0,
            backlog: 0,
            changed: Time::ZERO,
            busy_end: Time::ZERO,
            idled_with_backlog: 0,
            arrivals: HashMap::new(),
            left: Vec::new(),
        }
    }

    fn event(&mut self, event: &Event) {
        self.audit.event(event);
        self.area += self.backlog as f64 * event.time.since(self.changed).as_nanos() as f64;
        self.changed = event.time;
        let packet = &event.packet;
        match event.kind {
            EventKind::Enqueue => {
                self.backlog += u64::from(packet.wire_bytes);
                self.arrivals.insert(packet.id, (event.time, packet.wire_bytes));
            }
            EventKind::Dequeue | EventKind::Drop(_) => {
                if let Some((at, bytes)) = self.arrivals.remove(&packet.id) {
                    self.backlog -= u64::from(bytes);
                    self.sojourns += f64::from(bytes) * event.time.since(at).as_nanos() as f64;
                }
            }
            EventKind::Mark(_) => {}
        }
        if event.kind == EventKind::Dequeue {
            // The link was free from the end of the packet before until now: was there anything to send meanwhile?
            let waited = event.time.since(self.busy_end);
            if waited > Duration::ZERO && event.sojourn > Duration::ZERO {
                self.idled_with_backlog += 1;
            }
        }
    }

    /// Checks conservation, order within flows and Little's law, given the flows of the packets that are still queued.
    pub(crate) fn check(&self, still_queued: Vec<FlowId>, what: &str) {
        let report = self.audit.report(still_queued);
        assert!(report.holds(), "{what}: {:?}, {} overtaken", report.unbalanced, report.overtaken);
        // Bytes that are still queued have not handed in their time yet.
        let ratio = self.sojourns / self.area;
        assert!(self.area == 0.0 || (0.97..=1.03).contains(&ratio), "{what}: {ratio}");
    }

    /// The same, and that the link keeps to its rate and is never idle with a backlog.
    pub(crate) fn check_link(&self, still_queued: Vec<FlowId>, what: &str) {
        self.check(still_queued, what);
        assert!(self.meter.highest() <= 1514, "{what}: {} bytes above the rate", self.meter.highest());
        assert_eq!(self.idled_with_backlog, 0, "{what}");
    }
}

/// Of all queues of a network, in the order in which they were added.
pub(crate) struct Books(pub(crate) Vec<Book>);

impl Observer for Books {
    fn event(&mut self, hop: HopId, event: &Event) {
        self.0[hop.index()].event(event);
    }

    fn departed(&mut self, hop: HopId, packet: &Packet, now: Time) {
        let book = &mut self.0[hop.index()];
        book.busy_end = now;
        book.meter.sent(now, u64::from(packet.wire_bytes));
        book.left.push((now, packet.flow, packet.wire_bytes));
    }
}
