//! The bottleneck in virtual time: exact delays and departures, decisions that do not depend on when the thread wakes
//! up, conservation, and the bound on bursts.

mod packets;

use std::any::Any;
use std::collections::VecDeque;

use packets::udp;
use proptest::prelude::*;
use weir_core::{
    Backlog, Bytes, DropReason, Duration, Ecn, Event, EventKind, EventSink, FlowId, MarkReason, Packet,
    QueueId, Rate, Time,
};
use weir_law::{Direction, FlowKey, Law, LawSink, Params, Start, parse};
use weir_link::{Departure, Finished, FramePool, Observer, Pipeline, PipelineConfig, Unobserved};
use weir_qdisc::Qdisc;

const RATE: Rate = Rate::from_bits_per_sec(8_000_000);

/// A FIFO that drops at a limit, drops what waited long, marks what waited a while, and can hold packets back.
struct Aqm {
    queue: VecDeque<Packet>,
    limit: usize,
    mark: Duration,
    drop: Duration,
    /// Packets leave on multiples of this time only.
    grid: Option<u64>,
}

impl Aqm {
    fn fifo() -> Self {
        Self { queue: VecDeque::new(), limit: 1000, mark: Duration::MAX, drop: Duration::MAX, grid: None }
    }

    fn say(&self, kind: EventKind, packet: Packet, now: Time, events: &mut dyn EventSink) {
        let sojourn = now.since(packet.arrived);
        events.event(&Event { time: now, kind, packet, queue: QueueId(0), sojourn, backlog: self.backlog() });
    }
}

impl Qdisc for Aqm {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        if self.queue.len() >= self.limit {
            return self.say(EventKind::Drop(DropReason::Overflow), packet, now, events);
        }
        self.queue.push_back(packet);
        self.say(EventKind::Enqueue, packet, now, events);
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        if self.grid.is_some_and(|grid| !now.as_nanos().is_multiple_of(grid)) {
            return None;
        }
        while let Some(mut packet) = self.queue.pop_front() {
            let sojourn = now.since(packet.arrived);
            if sojourn > self.drop {
                self.say(EventKind::Drop(DropReason::Aqm), packet, now, events);
                continue;
            }
            if sojourn > self.mark && packet.ecn.is_capable() {
                packet.ecn = Ecn::Ce;
                self.say(EventKind::Mark(MarkReason::Aqm), packet, now, events);
            }
            self.say(EventKind::Dequeue, packet, now, events);
            return Some(packet);
        }
        None
    }

    fn next_ready(&self, now: Time) -> Option<Time> {
        let next = self.grid.map_or(now, |grid| Time::from_nanos(now.as_nanos().next_multiple_of(grid)));
        (!self.queue.is_empty()).then_some(next)
    }

    fn backlog(&self) -> Backlog {
        let bytes = self.queue.iter().map(|packet| u64::from(packet.wire_bytes)).sum();
        Backlog { packets: self.queue.len() as u32, bytes }
    }
}

/// Writes down what it hears.
#[derive(Default)]
struct Log {
    events: Vec<(u64, EventKind, u64)>,
    flows: Vec<(FlowId, FlowKey)>,
    received: usize,
    departed: Vec<(Vec<u8>, Time)>,
}

impl EventSink for Log {
    fn event(&mut self, event: &Event) {
        self.events.push((event.time.as_nanos(), event.kind, event.packet.id));
    }
}
impl LawSink for Log {}
impl Observer for Log {
    fn received(&mut self, _: &[u8], _: Direction, _: Time) {
        self.received += 1;
    }
    fn new_flow(&mut self, flow: FlowId, key: &FlowKey, _: Time) {
        self.flows.push((flow, *key));
    }
    fn departed(&mut self, _: &Departure, frame: &[u8], real: Time) {
        self.departed.push((frame.to_vec(), real));
    }
}

fn config(forward: Duration, reverse: Duration) -> PipelineConfig {
    PipelineConfig {
        rate: RATE,
        burst: Some(Bytes(10_000)),
        overhead: 0,
        law: None,
        delays: Box::new(move |_, _| (forward, reverse)),
        frames: 1024,
    }
}

fn millis(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

/// Feeds packets and advances to their end, on time. Returns (direction, due time in us, frame bytes).
struct Bench {
    pipeline: Pipeline,
    pool: FramePool,
    out: Vec<Departure>,
    left: Vec<(Direction, u64, Vec<u8>)>,
}

impl Bench {
    fn new(config: PipelineConfig, qdisc: Aqm, observer: Box<dyn Observer>) -> Self {
        Self {
            pipeline: Pipeline::new(config, Box::new(qdisc), observer),
            pool: FramePool::new(1024).unwrap(),
            out: Vec::with_capacity(4),
            left: vec![],
        }
    }

    fn receive(&mut self, bytes: &[u8], direction: Direction, now: Time) {
        let frame = self.pool.insert(bytes).unwrap();
        self.pipeline.receive(frame, bytes, direction, now);
    }

    /// Everything due at `now`, and its departure `after` that.
    fn advance(&mut self, now: Time, after: Duration) {
        loop {
            let more = self.pipeline.advance(now, &mut self.pool, &mut self.out);
            self.pipeline.departed(&self.out, now + after, &self.pool);
            for departure in self.out.drain(..) {
                let bytes = self.pool.bytes(departure.frame()).to_vec();
                self.left.push((departure.direction, departure.due.as_nanos() / 1000, bytes));
                self.pool.free(departure.frame());
            }
            if !more {
                return;
            }
        }
    }

    fn on_time(&mut self, until: Time) {
        while let Some(next) = self.pipeline.next_wake().filter(|next| *next <= until) {
            self.advance(next, Duration::ZERO);
        }
    }

    fn finish(mut self) -> Finished {
        let finished = self.pipeline.finish(&mut self.pool);
        assert_eq!(self.pool.available(), self.pool.capacity(), "frames were lost");
        assert!(finished.report.holds(), "{:#?}", finished.report);
        finished
    }
}

#[test]
fn delays_and_serialisation_are_exact() {
    let mut bench = Bench::new(
        config(Duration::from_millis(5), Duration::from_millis(3)),
        Aqm::fifo(),
        Box::new(Unobserved),
    );
    let packet = udp(1, Ecn::NotEct, 1000);
    // Two at once, one while the link is idle again, and one back.
    bench.receive(&packet, Direction::Forward, millis(1));
    bench.receive(&packet, Direction::Forward, millis(1));
    bench.receive(&packet, Direction::Reverse, millis(1));
    bench.receive(&packet, Direction::Forward, millis(20));
    bench.on_time(millis(100));
    let left: Vec<_> = bench.left.iter().map(|(direction, due, _)| (*direction, *due)).collect();
    let (forward, reverse) = (Direction::Forward, Direction::Reverse);
    assert_eq!(left, [(reverse, 4_000), (forward, 7_000), (forward, 8_000), (forward, 26_000)]);
    let report = bench.finish().report;
    assert_eq!((report.forward.sent, report.reverse.sent), (3, 1));
    assert_eq!((report.lateness.max_ns, report.late_loss), (0, Duration::ZERO));
    assert_eq!(report.flows.len(), 1);
    assert_eq!(report.flows[0].count.departed_bytes, 3000);
}

#[test]
fn flows_have_their_own_delays_and_are_asked_once() {
    let (asked, calls) = std::sync::mpsc::channel();
    let delays = Box::new(move |key: Option<&FlowKey>, flow: FlowId| {
        asked.send((key.copied(), flow)).unwrap();
        let long = key.is_some_and(|key| key.low.port() == 2 || key.high.port() == 2);
        (Duration::from_millis(if long { 50 } else { 10 }), Duration::ZERO)
    });
    let mut bench = Bench::new(
        PipelineConfig { delays, ..config(Duration::ZERO, Duration::ZERO) },
        Aqm::fifo(),
        Box::new(Log::default()),
    );
    for _ in 0..3 {
        bench.receive(&udp(2, Ecn::NotEct, 100), Direction::Forward, Time::ZERO);
        bench.receive(&udp(1, Ecn::NotEct, 100), Direction::Forward, Time::ZERO);
    }
    // What is no flow takes the delay that was chosen for none.
    bench.receive(&[0xff; 60], Direction::Forward, Time::ZERO);
    bench.on_time(millis(1000));
    let due: Vec<_> = bench.left.iter().map(|(_, due, _)| due / 10_000).collect();
    assert_eq!(due, [1, 1, 1, 1, 5, 5, 5]);
    let calls: Vec<_> = calls.try_iter().collect();
    assert_eq!(calls.iter().map(|(_, flow)| *flow).collect::<Vec<_>>(), [FlowId::NONE, FlowId(0), FlowId(1)]);
    let any: Box<dyn Any> = bench.finish().observer;
    let log = any.downcast::<Log>().unwrap();
    assert_eq!((log.received, log.flows.len(), log.departed.len()), (7, 2, 7));
    assert_eq!(log.flows[0].0, FlowId(0));
}

#[test]
fn marks_are_written_into_the_packet() {
    let aqm = Aqm { mark: Duration::from_micros(1500), ..Aqm::fifo() };
    let mut bench = Bench::new(config(Duration::ZERO, Duration::ZERO), aqm, Box::new(Unobserved));
    for n in 0..4 {
        let ecn = if n == 3 { Ecn::NotEct } else { Ecn::Ect1 };
        bench.receive(&udp(1, ecn, 1000), Direction::Forward, Time::ZERO);
    }
    bench.on_time(millis(10));
    let ecn: Vec<_> = bench.left.iter().map(|(_, _, bytes)| parse(bytes, Start::Ethernet).ecn()).collect();
    assert_eq!(ecn, [Ecn::Ect1, Ecn::Ect1, Ecn::Ce, Ecn::NotEct]);
    for (_, _, bytes) in &bench.left {
        assert_eq!(packets::header_sum(bytes), 0xffff, "the IPv4 header checksum is wrong");
    }
    let report = bench.finish().report;
    assert_eq!((report.audit.total.marked, report.unwritable_marks), (1, 0));
}

#[test]
fn the_law_hears_of_drops_in_the_cycle_of_the_packet() {
    let aqm = Aqm { drop: Duration::from_micros(2500), ..Aqm::fifo() };
    let law = Some(Law::new(Params::default(), 16));
    let config = PipelineConfig { law, ..config(Duration::ZERO, Duration::ZERO) };
    let mut bench = Bench::new(config, aqm, Box::new(Unobserved));
    for n in 0..10u32 {
        bench.receive(&packets::tcp(443, 1000, 1 + n * 946, 946), Direction::Forward, Time::ZERO);
    }
    bench.on_time(millis(50));
    let finished = bench.finish();
    // Dequeued at 0, 1 and 2 ms; at 3 ms the other seven have waited too long.
    assert_eq!((finished.report.forward.sent, finished.report.forward.dropped), (3, 7));
    let law = finished.law.unwrap();
    assert_eq!(law.len(), 1);
    let losses: u32 = (0..4).filter_map(|age| law.booked(FlowId(0), age)).map(|signals| signals.loss).sum();
    assert_eq!(losses, 7);
    assert_eq!(finished.report.flows[0].count.dropped, 7);
}

#[test]
fn a_discipline_may_hold_packets_back() {
    let aqm = Aqm { grid: Some(10_000_000), ..Aqm::fifo() };
    let mut bench = Bench::new(config(Duration::ZERO, Duration::ZERO), aqm, Box::new(Unobserved));
    for at in [1, 2, 15] {
        bench.receive(&udp(1, Ecn::NotEct, 1000), Direction::Forward, millis(at));
    }
    bench.on_time(millis(100));
    let due: Vec<_> = bench.left.iter().map(|(_, due, _)| *due).collect();
    assert_eq!(due, [11_000, 21_000, 31_000]);
    bench.finish();
}

#[test]
fn a_thread_that_slept_makes_up_for_a_burst_and_no_more() {
    let mut bench = Bench::new(config(Duration::ZERO, Duration::ZERO), Aqm::fifo(), Box::new(Unobserved));
    for _ in 0..500 {
        bench.receive(&udp(1, Ecn::NotEct, 1000), Direction::Forward, Time::ZERO);
    }
    // Three long sleeps; each brings the burst of 10 packets, to which one may come, and everything else is on time.
    for at in [100, 200, 300] {
        bench.advance(millis(at), Duration::from_micros(30));
        let before = bench.left.len();
        bench.advance(millis(at), Duration::from_micros(30));
        assert_eq!(bench.left.len(), before);
    }
    assert!((30..=36).contains(&bench.left.len()), "{}", bench.left.len());
    bench.on_time(millis(5000));
    let report = bench.finish().report;
    assert_eq!(report.forward.sent, 500);
    assert!(report.burst_highest <= 11_001 && report.burst_highest > 9_000, "{}", report.burst_highest);
    let lost = report.late_loss.as_millis_f64();
    assert!((250.0..300.0).contains(&lost), "{lost}");
    assert!(report.lateness.max_ns >= 9_000_000, "{:?}", report.lateness);
}

#[test]
fn leftovers_are_accounted_for() {
    // Everything is somewhere else: delay line, queue, link, held, handed out and not confirmed.
    let mut bench = Bench::new(
        config(Duration::from_millis(5), Duration::from_millis(5)),
        Aqm::fifo(),
        Box::new(Unobserved),
    );
    for at in [0, 0, 0, 9] {
        bench.receive(&udp(1, Ecn::NotEct, 1000), Direction::Forward, millis(at));
        bench.receive(&udp(1, Ecn::NotEct, 1000), Direction::Reverse, millis(at));
    }
    bench.advance(millis(6), Duration::ZERO);
    let report = bench.finish().report;
    assert_eq!((report.forward.received, report.forward.sent, report.forward.unsent), (4, 1, 3));
    assert_eq!((report.reverse.received, report.reverse.sent, report.reverse.unsent), (4, 3, 1));
    assert_eq!((report.delayed, report.transmitting, report.audit.still_queued), ([1, 1], 1, 1));
}

/// One arrival: gap to the one before in microseconds, flow, length, whether forward.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u16, usize, bool)>> {
    prop::collection::vec((0u64..3000, 1u16..5, 60usize..1500, any::<bool>()), 1..300)
}

/// What came out, when, with which codepoint, and what the queue said.
type Outcome = (Vec<(Direction, u64, u8)>, Vec<(u64, EventKind, u64)>);

fn play(arrivals: &[(u64, u16, usize, bool)], late: &[u64]) -> Outcome {
    let delays = Box::new(|key: Option<&FlowKey>, _: FlowId| {
        let port = key.map_or(0, |key| key.low.port().min(key.high.port()));
        (Duration::from_micros(u64::from(port) * 700), Duration::from_micros(u64::from(port) * 300))
    });
    let aqm = Aqm {
        limit: 30,
        mark: Duration::from_micros(2_000),
        drop: Duration::from_micros(9_000),
        ..Aqm::fifo()
    };
    // A burst of 20 ms: later than any wake-up here, so no capacity is lost.
    let config =
        PipelineConfig { burst: Some(Bytes(20_000)), delays, ..config(Duration::ZERO, Duration::ZERO) };
    let mut bench = Bench::new(config, aqm, Box::new(Log::default()));
    let mut late = late.iter().copied().cycle();
    let mut now = Time::ZERO;
    for (gap, flow, length, forward) in arrivals {
        let next = now + Duration::from_micros(*gap);
        // Wake-ups are late by up to a few milliseconds, but never later than the next arrival is read.
        while let Some(wake) = bench.pipeline.next_wake().filter(|wake| *wake < next) {
            let wake =
                (wake + Duration::from_micros(late.next().unwrap_or(0))).min(next - Duration::from_nanos(1));
            bench.advance(wake, Duration::ZERO);
        }
        now = next;
        let direction = if *forward { Direction::Forward } else { Direction::Reverse };
        bench.receive(&udp(*flow, Ecn::Ect0, *length), direction, now);
    }
    bench.on_time(Time::ZERO + Duration::from_secs(100));
    let left = std::mem::take(&mut bench.left);
    let left = left
        .into_iter()
        .map(|(direction, due, bytes)| (direction, due, parse(&bytes, Start::Ethernet).ecn().bits()));
    let any: Box<dyn Any> = bench.finish().observer;
    (left.collect(), any.downcast::<Log>().unwrap().events)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Decisions and departures are those of an exact link, however late the thread wakes up.
    #[test]
    fn lateness_changes_no_decision(arrivals in arrivals(), late in prop::collection::vec(0u64..4000, 1..50)) {
        prop_assert_eq!(play(&arrivals, &[0]), play(&arrivals, &late));
    }

    /// Whatever comes whenever, nothing is lost or invented, and no burst exceeds the bound. (`finish` checks.)
    #[test]
    fn everything_balances(
        packets in prop::collection::vec((0u64..5_000_000, 14usize..1500, any::<bool>(), 0u64..20_000), 1..200),
    ) {
        let aqm = Aqm { limit: 20, drop: Duration::from_millis(5), ..Aqm::fifo() };
        let config = PipelineConfig {
            burst: Some(Bytes(3_000)),
            ..config(Duration::from_millis(1), Duration::from_millis(2))
        };
        let mut bench = Bench::new(config, aqm, Box::new(Unobserved));
        let mut now = Time::ZERO;
        for (n, (gap, length, forward, after)) in packets.iter().enumerate() {
            now += Duration::from_nanos(*gap);
            let direction = if *forward { Direction::Forward } else { Direction::Reverse };
            bench.receive(&udp(n as u16 % 7, Ecn::NotEct, *length)[..*length], direction, now);
            if n % 3 == 0 {
                bench.advance(now, Duration::from_nanos(*after));
                now += Duration::from_nanos(*after);
            }
        }
        let received = packets.len() as u64;
        let report = bench.finish().report;
        prop_assert_eq!(report.forward.received + report.reverse.received, received);
    }
}
