//! A virtual link that drives a discipline, and arrival patterns. For tests only.
#![allow(dead_code)]

use weir_core::{
    DropReason, Duration, Ecn, Event, EventKind, EventSink, FlowId, Histogram, Packet, QueueChoice, Rate,
    Time,
};
use weir_qdisc::Qdisc;

/// A packet that arrives `gap` nanoseconds after the one before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) gap: u64,
    pub(crate) flow: FlowId,
    pub(crate) bytes: u32,
    pub(crate) ecn: Ecn,
    pub(crate) choice: QueueChoice,
}

/// Offers the arrivals to `queue` and serialises what it hands out at `rate`, until all is sent (or, if `drain` is
/// false, until the last arrival). Returns all events and when the link was last busy.
///
/// Panics where the discipline breaks its word: no packet though `next_ready` promised one and it still has a backlog.
pub(crate) fn drive(
    queue: &mut dyn Qdisc,
    rate: Rate,
    arrivals: &[Arrival],
    drain: bool,
) -> (Vec<Event>, Time) {
    let mut events: Vec<Event> = Vec::new();
    let (mut free, mut clock, mut remainder) = (Time::ZERO, Time::ZERO, 0);
    let mut coming = arrivals.iter().scan(Time::ZERO, |at, arrival| {
        *at += Duration::from_nanos(arrival.gap);
        Some((*at, *arrival))
    });
    let mut next = coming.next();
    for id in 0.. {
        let until = next.map_or(Time::MAX, |(at, _)| at);
        // The link first sends what it can before the next arrival.
        while let Some(ready) =
            queue.next_ready(clock).map(|ready| ready.max(free)).filter(|ready| *ready < until)
        {
            if next.is_none() && !drain {
                break;
            }
            assert!(ready >= clock, "ready in the past");
            clock = ready;
            match queue.dequeue(clock, &mut events) {
                Some(packet) => free = clock + rate.serialize(u64::from(packet.wire_bytes), &mut remainder),
                None => assert!(
                    queue.next_ready(clock).is_none_or(|again| again > clock),
                    "idle at {clock:?} with {:?}",
                    queue.backlog()
                ),
            }
        }
        let Some((at, arrival)) = next else { break };
        clock = clock.max(at);
        let packet = Packet { choice: arrival.choice, ..Packet::new(id, arrival.flow, arrival.bytes, at) };
        queue.enqueue(packet.with_ecn(arrival.ecn), at, &mut events);
        next = coming.next();
    }
    (events, free)
}

/// Drops, marks and sojourn times of what departed.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) sent: u64,
    pub(crate) aqm_drops: u64,
    pub(crate) overflows: u64,
    pub(crate) marks: u64,
    pub(crate) sojourn: Histogram,
}

impl EventSink for Tally {
    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::Enqueue => {}
            EventKind::Dequeue => {
                self.sent += 1;
                self.sojourn.record(event.sojourn.as_nanos());
            }
            EventKind::Drop(DropReason::Overflow | DropReason::Evicted) => self.overflows += 1,
            EventKind::Drop(_) => self.aqm_drops += 1,
            EventKind::Mark(_) => self.marks += 1,
        }
    }
}

impl Tally {
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut tally = Self::default();
        events.iter().for_each(|event| tally.event(event));
        tally
    }
}

/// Packets of `bytes` for ten seconds at the rate (bit/s) that `rate_at` gives for a time in nanoseconds; 0 skips a ms.
fn pattern(bytes: u32, ecn: Ecn, rate_at: impl Fn(u64) -> u64) -> Vec<Arrival> {
    let (mut now, mut last, mut arrivals) = (0, 0, Vec::new());
    while now < 10_000_000_000 {
        let rate = rate_at(now);
        if rate == 0 {
            now += 1_000_000;
            continue;
        }
        arrivals.push(Arrival {
            gap: now - last,
            flow: FlowId(0),
            bytes,
            ecn,
            choice: QueueChoice::Standard,
        });
        last = now;
        now += u64::from(bytes) * 8_000_000_000 / rate;
    }
    arrivals
}

/// The fixed patterns by name, each with the rate of its link. No sender in them answers to drops.
pub(crate) fn patterns(ecn: Ecn) -> Vec<(&'static str, Rate, Vec<Arrival>)> {
    let link = Rate::from_bits_per_sec(10_000_000);
    let on_off = |now: u64| if now % 500_000_000 < 200_000_000 { 20_000_000 } else { 0 };
    let growing = |now: u64| 9_000_000 + now / 2_500;
    // Six packets at once, then exactly what the link carries: they never leave the queue.
    let standing = |now: u64| if now < 10_000 { 1_000_000_000 } else { 1_000_000 };
    vec![
        ("constant 12 mbit", link, pattern(1514, ecn, |_| 12_000_000)),
        ("on-off 20 mbit", link, pattern(1514, ecn, on_off)),
        ("growing 9-13 mbit", link, pattern(1514, ecn, growing)),
        ("small 10.5 mbit", link, pattern(214, ecn, |_| 10_500_000)),
        ("standing 1 mbit", Rate::from_bits_per_sec(1_000_000), pattern(214, ecn, standing)),
    ]
}
