//! Listens to a running bottleneck and keeps what the results are made of: counts, histograms, samples over time, every
//! judgement with its inputs, and optionally the packets.

use std::any::Any;
use std::sync::mpsc::SyncSender;

use weir_core::{
    DropReason, Duration, Event, EventKind, EventSink, FlowId, Histogram, QueueChoice, QueueId, Time,
};
use weir_law::{
    Assessment, ChoiceCause, ChoiceChange, Class, CycleEnd, Direction, FlowKey, FlowView, LawSink, Params,
    Verdict,
};
use weir_link::{Departure, Observer};

use weir_report::result::{FlowBin, QueueBin};
use weir_scenario::Measure;

use crate::cycles::Cycles;
use crate::standing::{Rule, Stands};

/// Headers that a capture keeps of each packet: enough for the longest that the law reads.
pub(crate) const SNAPLEN: usize = 160;

/// A packet on its way to the capture file.
#[derive(Clone, Copy)]
pub(crate) struct Captured {
    pub(crate) time: Time,
    pub(crate) direction: Direction,
    pub(crate) length: u32,
    pub(crate) kept: u16,
    pub(crate) bytes: [u8; SNAPLEN],
}

/// Packets for the capture file, through a ring of fixed size: a slow disk loses packets from the capture (and says
/// so), never from the run.
pub(crate) struct Tap {
    pub(crate) to: SyncSender<Captured>,
    pub(crate) missed: u64,
}

/// One queue so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueRecord {
    pub(crate) sojourn: Histogram,
    pub(crate) departed: u64,
    pub(crate) departed_bytes: u64,
    pub(crate) overflowed: u64,
    pub(crate) dropped: u64,
    pub(crate) marked: u64,
    pub(crate) bins: Vec<QueueBin>,
}

/// One flow so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowRecord {
    pub(crate) id: Option<FlowId>,
    pub(crate) packets: u64,
    pub(crate) responsive_packets: u64,
    pub(crate) demoted_packets: u64,
    /// Whether its last packet entered the queue of demoted flows.
    is_demoted: bool,
    pub(crate) dropped: u64,
    pub(crate) marked: u64,
    /// Wire bytes that left the queue.
    pub(crate) departed_bytes: u64,
    /// How long its packets that left had waited.
    pub(crate) sojourn: Histogram,
    pub(crate) cycles: u64,
    pub(crate) responsive_cycles: u64,
    /// Cycles that had ended before the one whose end brought the first verdict.
    pub(crate) cycles_before_verdict: Option<u64>,
    pub(crate) assessments: u64,
    pub(crate) class: Class,
    pub(crate) bins: Vec<FlowBin>,
    first: Option<Time>,
    last: Time,
    /// Since when it has stood as responsive without a break.
    responsive_since: Option<Time>,
    responsive_time: Duration,
    pub(crate) stands: Stands,
}

impl FlowRecord {
    /// Share of the time from its first packet to its last in which it stood as responsive.
    pub(crate) fn responsive_time_share(&self) -> f64 {
        let Some(first) = self.first else { return 0.0 };
        let open = self.responsive_since.map_or(Duration::ZERO, |since| self.last.since(since));
        let life = self.last.since(first);
        if life == Duration::ZERO {
            0.0
        } else {
            (self.responsive_time + open).as_secs_f64() / life.as_secs_f64()
        }
    }
}

/// The listener of one run.
pub(crate) struct Recorder {
    interval: Duration,
    /// What totals count: from, to.
    window: (Time, Time),
    rule: Rule,
    /// The port that identifies each of the scenario's flows, in their order.
    ports: Vec<u16>,
    /// The scenario's flow behind each `FlowId`.
    known: Vec<Option<u32>>,
    pub(crate) queues: Vec<QueueRecord>,
    pub(crate) flows: Vec<FlowRecord>,
    pub(crate) assessments: Vec<Assessment>,
    pub(crate) choices: Vec<ChoiceChange>,
    /// Every cycle, if they are asked for.
    pub(crate) cycles: Option<Cycles>,
    /// Whether a cycle has ended since [`has_news`](Self::has_news) was asked.
    news: bool,
    /// The bottleneck's queue of demoted flows, if it has one.
    demoted: Option<QueueId>,
    /// When flows came into that queue (true) and left it again.
    pub(crate) demotions: Vec<(Time, FlowId, bool)>,
    /// How late packets left the link, in nanoseconds.
    pub(crate) lateness: Histogram,
    pub(crate) tap: Option<Tap>,
}

impl Recorder {
    /// A listener for flows that are distinguished by `ports` (0 for a record that flows are [booked](Self::book) to),
    /// with `queues` queues and bins of `interval`.
    pub(crate) fn new(
        ports: Vec<u16>,
        queues: usize,
        interval: Duration,
        params: &Params,
        tap: Option<Tap>,
    ) -> Self {
        Self {
            interval,
            window: (Time::ZERO, Time::MAX),
            rule: Rule::new(params),
            known: Vec::with_capacity(ports.len() + 64),
            queues: vec![QueueRecord::default(); queues],
            flows: vec![FlowRecord::default(); ports.len()],
            ports,
            // Room for a long run: one judgement per cycle at most.
            assessments: Vec::with_capacity(1 << 16),
            choices: Vec::with_capacity(1 << 10),
            cycles: None,
            news: false,
            demoted: None,
            demotions: Vec::with_capacity(1 << 10),
            lateness: Histogram::new(),
            tap,
        }
    }

    /// The same, counting in totals only what happens in the measuring window. Series, the law's judgements and the
    /// times of flows are of the whole run.
    pub(crate) fn measuring(mut self, measure: &Measure) -> Self {
        let to = measure.to.map_or(Time::MAX, |to| Time::ZERO + to);
        self.window = (Time::ZERO + measure.from, to);
        self
    }

    /// The same, noting who enters the queue that is called `demoted`; `names` are those of the bottleneck's queues.
    pub(crate) fn watching(mut self, names: &[&str]) -> Self {
        let place = names.iter().position(|name| *name == "demoted");
        self.demoted = place.and_then(|place| Some(QueueId(u8::try_from(place).ok()?)));
        self
    }

    /// The same, keeping every cycle if `wanted`.
    pub(crate) fn keeping_cycles(mut self, wanted: bool) -> Self {
        self.cycles = wanted.then(Cycles::default);
        self
    }

    /// Whether the law may think otherwise of a flow than when this was last asked. Whoever has the law then
    /// [shows](Self::look) it.
    pub(crate) fn has_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// What the law thinks of a flow now.
    pub(crate) fn look(&mut self, flow: FlowId, view: &FlowView, now: Time) {
        let rule = self.rule;
        if let Some(record) = self.flow(flow) {
            record.stands.is_seen(rule, view, now);
        }
    }

    fn counts(&self, time: Time) -> bool {
        self.window.0 <= time && time < self.window.1
    }

    /// The recorder that a finished bottleneck hands back.
    pub(crate) fn from_observer(observer: Box<dyn Observer>) -> Option<Box<Self>> {
        (observer as Box<dyn Any>).downcast().ok()
    }

    /// Books a flow to the record at `index`.
    pub(crate) fn book(&mut self, flow: FlowId, index: usize) {
        *bin_at(&mut self.known, flow.0 as usize) = Some(index as u32);
    }

    /// Books a flow to the scenario's flow that has one of its ports, if there is one.
    pub(crate) fn recognise(&mut self, flow: FlowId, key: &FlowKey) {
        let index = self.ports.iter().position(|port| key.low.port() == *port || key.high.port() == *port);
        *bin_at(&mut self.known, flow.0 as usize) = index.map(|index| index as u32);
        if let Some(index) = index {
            self.flows[index].id = Some(flow);
        }
    }

    /// The scenario's flow behind `flow`, if it is one of the scenario's.
    pub(crate) fn index(&self, flow: FlowId) -> Option<usize> {
        self.known.get(flow.0 as usize).copied().flatten().map(|index| index as usize)
    }

    fn flow(&mut self, flow: FlowId) -> Option<&mut FlowRecord> {
        let index = self.index(flow)?;
        self.flows.get_mut(index)
    }

    fn bin(&self, time: Time) -> usize {
        (time.as_nanos() / self.interval.as_nanos()) as usize
    }
}

/// The bin at `index`; bins that nothing fell into are empty.
fn bin_at<T: Clone + Default>(bins: &mut Vec<T>, index: usize) -> &mut T {
    if index >= bins.len() {
        bins.resize(index + 1, T::default());
    }
    &mut bins[index]
}

impl Recorder {
    /// Books an event to its queue, of a link whose queues are numbered from `first`.
    pub(crate) fn queue_event(&mut self, first: usize, event: &Event) {
        let index = self.bin(event.time);
        let packet = &event.packet;
        let counts = self.counts(event.time);
        if let Some(queue) = self.queues.get_mut(first + usize::from(event.queue.0)) {
            let bin = bin_at(&mut queue.bins, index);
            bin.backlog_max_bytes = bin.backlog_max_bytes.max(event.backlog.bytes);
            match event.kind {
                EventKind::Enqueue => {}
                EventKind::Dequeue => {
                    bin.departed += 1;
                    bin.sojourn_sum_ns += event.sojourn.as_nanos();
                    bin.sojourn_max_ns = bin.sojourn_max_ns.max(event.sojourn.as_nanos());
                    if counts {
                        queue.departed += 1;
                        queue.departed_bytes += u64::from(packet.wire_bytes);
                        queue.sojourn.record(event.sojourn.as_nanos());
                    }
                }
                EventKind::Drop(reason) => {
                    bin.dropped += 1;
                    match reason {
                        DropReason::Overflow | DropReason::Evicted => queue.overflowed += u64::from(counts),
                        DropReason::Aqm | DropReason::Early | DropReason::Challenge => {
                            queue.dropped += u64::from(counts);
                        }
                    }
                }
                EventKind::Mark(_) => {
                    bin.marked += 1;
                    queue.marked += u64::from(counts);
                }
            }
        }
    }

    /// Books an event to its flow.
    pub(crate) fn flow_event(&mut self, event: &Event) {
        let index = self.bin(event.time);
        let packet = &event.packet;
        let counts = self.counts(event.time);
        let is_demoted = self.demoted == Some(event.queue);
        if let Some(cycles) = &mut self.cycles {
            cycles.event(event);
        }
        let Some(flow) = self.index(packet.flow).and_then(|index| self.flows.get_mut(index)) else { return };
        flow.stands.event(event);
        let arrives = match event.kind {
            EventKind::Enqueue => true,
            EventKind::Drop(reason) => reason.on_arrival(),
            EventKind::Dequeue | EventKind::Mark(_) => false,
        };
        if arrives {
            flow.packets += u64::from(counts);
            let responsive = event.queue.0 != QueueChoice::Standard as u8;
            flow.responsive_packets += u64::from(counts && responsive);
            flow.demoted_packets += u64::from(counts && is_demoted);
            if is_demoted != flow.is_demoted {
                flow.is_demoted = is_demoted;
                self.demotions.push((event.time, packet.flow, is_demoted));
            }
            flow.first.get_or_insert(event.time);
            flow.last = event.time;
        }
        match event.kind {
            EventKind::Drop(_) => {
                flow.dropped += u64::from(counts);
                bin_at(&mut flow.bins, index).dropped += 1;
            }
            EventKind::Mark(_) => {
                flow.marked += u64::from(counts);
                bin_at(&mut flow.bins, index).marked += 1;
            }
            EventKind::Dequeue => {
                bin_at(&mut flow.bins, index).departed_bytes += u64::from(packet.wire_bytes);
                if counts {
                    flow.departed_bytes += u64::from(packet.wire_bytes);
                    flow.sojourn.record(event.sojourn.as_nanos());
                }
            }
            EventKind::Enqueue => {}
        }
    }
}

impl EventSink for Recorder {
    fn event(&mut self, event: &Event) {
        self.queue_event(0, event);
        self.flow_event(event);
    }
}

impl LawSink for Recorder {
    fn cycle(&mut self, end: &CycleEnd) {
        let rule = self.rule;
        let Some(index) = self.index(end.flow) else { return };
        self.news = true;
        if let Some(cycles) = &mut self.cycles {
            cycles.cycle(end, index);
        }
        let Some(flow) = self.flows.get_mut(index) else { return };
        let verdict = rule.by_main(flow.class);
        flow.cycles += 1;
        flow.responsive_cycles += u64::from(verdict == Verdict::Responsive);
    }

    fn assessment(&mut self, assessment: &Assessment) {
        self.assessments.push(*assessment);
        let rule = self.rule;
        let (before, after) = (rule.by_main(assessment.class_before), rule.by_main(assessment.class_after));
        let time = assessment.time;
        let Some(flow) = self.flow(assessment.flow) else { return };
        flow.assessments += 1;
        flow.class = assessment.class_after;
        flow.stands.is_found(rule, assessment.class_after, time);
        // The cycle whose end brought this judgement was counted with the class before.
        let (was, is) = (before == Verdict::Responsive, after == Verdict::Responsive);
        flow.responsive_cycles = (flow.responsive_cycles + u64::from(is)).saturating_sub(u64::from(was));
        if after != Verdict::Unclassified {
            let ended = flow.cycles;
            flow.cycles_before_verdict.get_or_insert(ended.saturating_sub(1));
        }
        match (is, flow.responsive_since) {
            (true, None) => flow.responsive_since = Some(time),
            (false, Some(since)) => {
                flow.responsive_time = flow.responsive_time + time.since(since);
                flow.responsive_since = None;
            }
            _ => {}
        }
    }

    fn choice(&mut self, change: &ChoiceChange) {
        self.choices.push(*change);
        let rule = self.rule;
        if let (ChoiceCause::Opened | ChoiceCause::Lapsed, Some(flow)) =
            (change.cause, self.flow(change.flow))
        {
            flow.stands.is_found(rule, Class::default(), change.time);
        }
    }
}

impl Observer for Recorder {
    fn new_flow(&mut self, flow: FlowId, key: &FlowKey, _now: Time) {
        self.recognise(flow, key);
    }

    fn departed(&mut self, departure: &Departure, frame: &[u8], real: Time) {
        if departure.direction == Direction::Forward {
            self.lateness.record(real.since(departure.due).as_nanos());
        }
        let Some(tap) = &mut self.tap else { return };
        let kept = frame.len().min(SNAPLEN);
        let mut bytes = [0; SNAPLEN];
        bytes[..kept].copy_from_slice(&frame[..kept]);
        let captured = Captured {
            time: real,
            direction: departure.direction,
            length: frame.len() as u32,
            kept: kept as u16,
            bytes,
        };
        tap.missed += u64::from(tap.to.try_send(captured).is_err());
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use weir_core::{
        Backlog, CycleId, DropReason, Duration, Event, EventKind, EventSink, FlowId, MarkReason, Packet,
        QueueId, Time,
    };
    use weir_law::{FlowKey, Params};
    use weir_link::Observer;

    use super::{Measure, Recorder};

    #[test]
    fn packets_are_booked_to_the_flow_with_the_port() {
        let mut recorder =
            Recorder::new(vec![7001, 7002], 1, Duration::from_millis(10), &Params::default(), None);
        let end = |port| SocketAddr::from(([10, 0, 0, 1], port));
        recorder.new_flow(FlowId(3), &FlowKey { protocol: 6, low: end(7002), high: end(40_000) }, Time::ZERO);
        let mut event = Event {
            time: Time::from_nanos(25_000_000),
            kind: EventKind::Enqueue,
            packet: Packet { cycle: CycleId(0), ..Packet::new(1, FlowId(3), 1514, Time::ZERO) },
            queue: QueueId(0),
            sojourn: Duration::ZERO,
            backlog: Backlog { packets: 1, bytes: 1514 },
        };
        recorder.event(&event);
        event.kind = EventKind::Dequeue;
        event.sojourn = Duration::from_millis(4);
        recorder.event(&event);
        event.packet.flow = FlowId(0);
        recorder.event(&event);
        assert_eq!((recorder.flows[0].packets, recorder.flows[1].packets), (0, 1));
        assert_eq!(recorder.flows[1].bins.len(), 3);
        assert_eq!(recorder.flows[1].bins[2].departed_bytes, 1514);
        assert_eq!((recorder.queues[0].departed, recorder.queues[0].sojourn.count()), (2, 2));
        assert_eq!(recorder.queues[0].bins[2].sojourn_max_ns, 4_000_000);
        assert_eq!(
            (recorder.flows[1].departed_bytes, recorder.flows[1].sojourn.max()),
            (1514, Some(4_000_000))
        );
    }

    #[test]
    fn totals_count_the_measuring_window_and_bins_the_whole_run() {
        let ms = |millis: u64| Duration::from_millis(millis);
        let measure = Measure { from: ms(20), to: Some(ms(30)), ..Measure::new() };
        let mut recorder = Recorder::new(vec![0], 1, ms(10), &Params::default(), None).measuring(&measure);
        recorder.book(FlowId(0), 0);
        for at in [19_999_999, 20_000_000, 29_999_999, 30_000_000] {
            for kind in [
                EventKind::Enqueue,
                EventKind::Dequeue,
                EventKind::Mark(MarkReason::Aqm),
                EventKind::Drop(DropReason::Aqm),
                EventKind::Drop(DropReason::Overflow),
            ] {
                recorder.event(&Event {
                    time: Time::from_nanos(at),
                    kind,
                    packet: Packet::new(1, FlowId(0), 1000, Time::ZERO),
                    queue: QueueId(0),
                    sojourn: ms(1),
                    backlog: Backlog::default(),
                });
            }
        }
        let (flow, queue) = (&recorder.flows[0], &recorder.queues[0]);
        // The overflow is an arrival, too.
        assert_eq!((flow.packets, flow.dropped, flow.marked, flow.departed_bytes), (4, 4, 2, 2000));
        assert_eq!((queue.departed, queue.departed_bytes, queue.sojourn.count()), (2, 2000, 2));
        assert_eq!((queue.dropped, queue.overflowed, queue.marked), (2, 2, 2));
        let bins: Vec<u64> = flow.bins.iter().map(|bin| bin.departed_bytes).collect();
        assert_eq!(bins, [0, 1000, 2000, 1000]);
        assert_eq!(queue.bins.iter().map(|bin| bin.marked).collect::<Vec<_>>(), [0, 1, 2, 1]);
    }
}
