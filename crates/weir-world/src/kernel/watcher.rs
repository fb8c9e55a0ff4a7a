//! Turns what the kernel reports of packets into the events that every other part of Weir works on, and keeps the
//! books: conservation, order, the bound on the rate, lateness.
//!
//! Not every step is announced: some virtual machines run a few of the kernel's interrupts without its tracepoints.
//! Where the queue is a FIFO, a packet that came before one that has left is gone as well; it is taken to have left
//! when an exact link would have sent it. One that leaves without having come came with the one before it. Both are
//! counted as unheard.

use std::collections::{HashMap, VecDeque};

use weir_core::{
    Audit, AuditReport, DropReason, Duration, Ecn, Event, EventKind, EventSink, FlowId, MarkReason, Packet,
    QueueChoice, QueueId, RateMeter, Time,
};
use weir_law::live::LiveEvent;
use weir_law::{Direction, FlowKey, Start, parse_cut};
use weir_link::Observer;
use weir_netdev::Clock;

use super::inside::{Inside, Waiting};
use super::packets::{Measured, What};
use super::schedule::Schedule;
use super::tree::{RESPONSIVE, Tree};
use crate::record::{Captured, Recorder, SNAPLEN};
use weir_scenario::Scenario;

/// Packets are numbered in steps, so that one whose arrival went unheard can get a number in between.
const STRIDE: u64 = 1 << 16;

/// Newer kernels free what an AQM drops only after the packet behind it has left. Records wait this long, so that such
/// a drop is distinguished from a departure that goes unheard.
const GRACE: Duration = Duration::from_millis(1);

/// What the watcher found besides the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Oddities {
    /// Records that make no sense after those before: others were lost.
    pub(super) inexplicable: u64,
    /// Arrivals and departures that were not announced.
    pub(super) unheard: u64,
    /// Super-packets, which HTB and the queues count otherwise than the emulator.
    pub(super) super_packets: u64,
}

/// The books of a run.
pub(super) struct Books {
    pub(super) recorder: Box<Recorder>,
    pub(super) audit: AuditReport,
    /// The largest burst above the rate, in wire bytes.
    pub(super) burst: u64,
    /// The largest packet, in wire bytes.
    pub(super) largest: u64,
    pub(super) lost_bytes: u64,
    pub(super) oddities: Oddities,
}

/// Follows the queues of one device.
pub(super) struct Watcher {
    clock: Clock,
    /// What the kernel's clock showed at time zero.
    origin: Time,
    recorder: Box<Recorder>,
    flows: HashMap<FlowKey, FlowId>,
    /// Records that are not worked off yet, by the kernel's time.
    ahead: VecDeque<(u64, Vec<u8>)>,
    /// Packets that these say were dropped inside, and when.
    announced: HashMap<u64, Time>,
    /// What the queues hold.
    inside: Inside,
    /// When a packet last left.
    last_left: Time,
    /// The packet that left each queue last.
    last: [Option<Packet>; 2],
    queues: usize,
    overhead: u32,
    next_id: u64,
    audit: Audit,
    meter: RateMeter,
    largest: u32,
    tree: Tree,
    schedules: Vec<Schedule>,
    oddities: Oddities,
}

impl Watcher {
    /// A watcher that reports to `recorder`; `clock` is the run's.
    pub(super) fn new(scenario: &Scenario, tree: &Tree, recorder: Box<Recorder>, clock: Clock) -> Self {
        Self {
            clock,
            origin: origin(clock),
            recorder,
            flows: HashMap::with_capacity(1024),
            ahead: VecDeque::with_capacity(1 << 10),
            announced: HashMap::new(),
            inside: Inside::default(),
            last_left: Time::ZERO,
            last: [None; 2],
            queues: tree.queues,
            overhead: scenario.bottleneck.overhead,
            next_id: 0,
            audit: Audit::with_capacity(1024),
            meter: RateMeter::new(scenario.bottleneck.rate),
            largest: 0,
            schedules: tree.domains.iter().map(|domain| Schedule::new(domain.rate, domain.burst)).collect(),
            tree: tree.clone(),
            oddities: Oddities::default(),
        }
    }

    /// Takes a record of `bpf/measure.bpf.c`.
    pub(super) fn record(&mut self, bytes: &[u8]) {
        let Some(measured) = Measured::read(bytes) else {
            self.oddities.inexplicable += 1;
            return;
        };
        if measured.what == What::Dropped {
            self.announced.insert(measured.id, self.clock.at_monotonic(measured.time));
        }
        self.ahead.push_back((measured.time, bytes.to_vec()));
        self.work_off(measured.time.saturating_sub(GRACE.as_nanos()));
    }

    /// Works off what has waited long enough, though nothing newer has come.
    pub(super) fn catch_up(&mut self) {
        let now = self.origin.as_nanos() + self.clock.now().as_nanos();
        self.work_off(now.saturating_sub(GRACE.as_nanos()));
    }

    /// Works off the records from before `until` of the kernel's clock.
    fn work_off(&mut self, until: u64) {
        while self.ahead.front().is_some_and(|(time, _)| *time <= until) {
            let Some((time, bytes)) = self.ahead.pop_front() else { return };
            let Some(measured) = Measured::read(&bytes) else { return };
            let now = self.clock.at_monotonic(time);
            match measured.what {
                What::Enqueued => self.enqueued(&measured, now),
                What::Left => self.left(&measured, now),
                What::Refused => {
                    let waiting = self.arrival(&measured, now);
                    let early = self.tree.early[usize::from(waiting.queue.0)];
                    let reason = if early { DropReason::Early } else { DropReason::Overflow };
                    self.event(EventKind::Drop(reason), &waiting, now, Duration::ZERO);
                }
                What::Dropped => self.dropped(&measured, now),
                What::Other => self.capture(Direction::Reverse, &measured, now),
            }
        }
    }

    /// Takes a record of the classifier: a cycle has ended.
    pub(super) fn cycle(&mut self, bytes: &[u8]) {
        let Some(event) = LiveEvent::from_bytes(bytes) else {
            self.oddities.inexplicable += 1;
            return;
        };
        let now = self.clock.at_monotonic(event.time.as_nanos());
        let flow = self.flow(&event.key, now);
        event.report(flow, self.origin, &mut *self.recorder);
    }

    /// The number of a flow; a new one is announced.
    fn flow(&mut self, key: &FlowKey, now: Time) -> FlowId {
        if let Some(flow) = self.flows.get(key) {
            return *flow;
        }
        let flow = FlowId(self.flows.len() as u32);
        self.flows.insert(*key, flow);
        self.recorder.new_flow(flow, key, now);
        flow
    }

    /// Packets in the queues.
    pub(super) fn inside(&self) -> u64 {
        self.inside.len() as u64
    }

    /// Ends the run. Packets that are still in the queues stay there, unless the kernel says that it holds none.
    pub(super) fn finish(mut self, kernel_holds: Option<u64>) -> Books {
        self.work_off(u64::MAX);
        if kernel_holds == Some(0) {
            for queue in [QueueId(0), QueueId(1)] {
                while let Some(waiting) = self.inside.first(queue) {
                    self.inside.remove(queue, waiting.packet.id);
                    self.departed_unheard(waiting, None);
                }
            }
        }
        Books {
            audit: self.audit.report(self.inside.iter().map(|waiting| waiting.packet.flow)),
            recorder: self.recorder,
            burst: self.meter.highest(),
            largest: u64::from(self.largest),
            lost_bytes: self.schedules.iter().map(Schedule::lost_bytes).sum(),
            oddities: self.oddities,
        }
    }

    fn arrival(&mut self, measured: &Measured, now: Time) -> Waiting {
        let parsed = parse_cut(measured.headers, measured.length, Start::Ethernet);
        let flow = parsed.flow_key().map_or(FlowId::NONE, |key| self.flow(&key, now));
        let choice =
            if measured.minor == RESPONSIVE { QueueChoice::Responsive } else { QueueChoice::Standard };
        self.oddities.super_packets += u64::from(measured.segments > 1);
        let packet = Packet {
            segments: measured.segments.max(1),
            choice,
            ..Packet::new(self.next_id, flow, measured.length + self.overhead, now)
                .with_ecn(Ecn::from_bits(measured.ecn))
        };
        self.next_id += STRIDE;
        let queue = if self.queues == 1 { 0 } else { choice as u8 };
        Waiting { id: measured.id, packet, queue: QueueId(queue) }
    }

    fn enqueued(&mut self, measured: &Measured, now: Time) {
        // The buffer is used again: the packet that was in it has left, and in a FIFO those before it.
        if let Some(waiting) = self.take(measured.id, now) {
            self.departed_unheard(waiting, Some(now));
        }
        let waiting = self.arrival(measured, now);
        self.inside.push(waiting);
        self.schedule(waiting.queue).arrived(now);
        self.event(EventKind::Enqueue, &waiting, now, Duration::ZERO);
    }

    fn left(&mut self, measured: &Measured, now: Time) {
        self.leave_before(measured.id, now);
        let waiting = match self.take(measured.id, now) {
            Some(waiting) => waiting,
            None => self.came_unheard(measured, now),
        };
        self.departure(waiting, Ecn::from_bits(measured.ecn), now);
        self.capture(Direction::Forward, measured, now);
    }

    fn dropped(&mut self, measured: &Measured, now: Time) {
        if self.announced.remove(&measured.id).is_none() {
            // Worked off already, before the packet that left after it.
            return;
        }
        let waiting = match self.take(measured.id, now) {
            Some(waiting) => waiting,
            None => self.came_unheard(measured, now),
        };
        self.drop_inside(&waiting, now);
    }

    fn drop_inside(&mut self, waiting: &Waiting, now: Time) {
        self.schedule(waiting.queue).dropped();
        let sojourn = now.since(waiting.packet.arrived);
        self.event(EventKind::Drop(DropReason::Aqm), waiting, now, sojourn);
    }

    /// Takes a packet out of its queue, in a FIFO after all that came before it.
    fn take(&mut self, id: u64, now: Time) -> Option<Waiting> {
        let Waiting { queue, packet, .. } = self.inside.get(id)?;
        while self.is_in_order(queue)
            && let Some(first) = self.inside.first(queue)
            && first.packet.id != packet.id
        {
            self.go_before(first, now);
        }
        self.inside.remove(queue, packet.id)
    }

    /// Lets those leave that came before a packet of their own flow which leaves now: flow queues keep the order of
    /// each flow.
    fn leave_before(&mut self, id: u64, now: Time) {
        let Some(Waiting { queue, packet, .. }) = self.inside.get(id) else { return };
        if self.is_in_order(queue) || packet.flow == FlowId::NONE {
            return;
        }
        while let Some(before) = self.inside.first_of(queue, packet.flow)
            && before.packet.id != packet.id
        {
            self.go_before(before, now);
        }
    }

    /// Whether a queue is a FIFO.
    fn is_in_order(&self, queue: QueueId) -> bool {
        self.tree.in_order[usize::from(queue.0)]
    }

    /// Takes out a packet that has to be gone by now: dropped, if so it was said, or else sent.
    fn go_before(&mut self, before: Waiting, now: Time) {
        self.inside.remove(before.queue, before.packet.id);
        match self.announced.remove(&before.id) {
            Some(dropped) => self.drop_inside(&before, dropped),
            None => self.departed_unheard(before, Some(now)),
        }
    }

    /// Lets a packet that is about to leave come before.
    fn came_unheard(&mut self, measured: &Measured, now: Time) -> Waiting {
        self.oddities.unheard += 1;
        let mut waiting = self.arrival(measured, now);
        // The mark that it may have got cannot be distinguished from one that it came with.
        let before = self.last[usize::from(waiting.queue.0)];
        let came = before.map_or(Time::ZERO, |before| before.arrived);
        let came = came.max(self.schedule(waiting.queue).since()).min(now);
        waiting.packet.arrived = came;
        // Its place in the order is behind that one, and before any that came later.
        waiting.packet.id = before.map_or(0, |before| before.id + 1);
        self.schedule(waiting.queue).arrived(came);
        self.event(EventKind::Enqueue, &waiting, came, Duration::ZERO);
        waiting
    }

    /// Lets a packet leave when an exact link would have sent it, but not after `latest`.
    fn departed_unheard(&mut self, waiting: Waiting, latest: Option<Time>) {
        self.oddities.unheard += 1;
        let due = self.schedule(waiting.queue).due().max(waiting.packet.arrived).max(self.last_left);
        self.departure(waiting, waiting.packet.ecn, latest.map_or(due, |latest| due.min(latest)));
    }

    fn departure(&mut self, mut waiting: Waiting, ecn: Ecn, now: Time) {
        let bytes = waiting.packet.wire_bytes;
        let sojourn = now.since(waiting.packet.arrived);
        waiting.packet.ecn = ecn;
        if ecn == Ecn::Ce && waiting.packet.ecn_in != Ecn::Ce {
            self.event(EventKind::Mark(MarkReason::Aqm), &waiting, now, sojourn);
        }
        self.event(EventKind::Dequeue, &waiting, now, sojourn);
        let late = self.schedule(waiting.queue).left(u64::from(bytes), now);
        self.recorder.lateness.record(late.as_nanos());
        self.meter.sent(now, u64::from(bytes));
        self.largest = self.largest.max(bytes);
        self.last_left = self.last_left.max(now);
        self.last[usize::from(waiting.queue.0)] = Some(waiting.packet);
    }

    fn schedule(&mut self, queue: QueueId) -> &mut Schedule {
        let domain = self.tree.domain_of(usize::from(queue.0));
        &mut self.schedules[domain]
    }

    fn event(&mut self, kind: EventKind, waiting: &Waiting, time: Time, sojourn: Duration) {
        let Waiting { packet, queue, .. } = *waiting;
        let event = Event { time, kind, packet, queue, sojourn, backlog: self.inside.backlog(queue) };
        self.audit.event(&event);
        self.recorder.event(&event);
    }

    fn capture(&mut self, direction: Direction, measured: &Measured, time: Time) {
        let Some(tap) = &mut self.recorder.tap else { return };
        let kept = measured.headers.len().min(SNAPLEN);
        let mut bytes = [0; SNAPLEN];
        bytes[..kept].copy_from_slice(&measured.headers[..kept]);
        let captured = Captured { time, direction, length: measured.length, kept: kept as u16, bytes };
        tap.missed += u64::from(tap.to.try_send(captured).is_err());
    }
}

/// What the kernel's clock showed at time zero of `clock`.
fn origin(clock: Clock) -> Time {
    const LATE: u64 = 1 << 62;
    Time::from_nanos(LATE - clock.at_monotonic(LATE).as_nanos())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a clock needs a start")]
mod tests;
