//! The two sub-flows of a connection as noq's paths: each path has the gate of one sub-flow as its congestion
//! controller.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use noq_proto::congestion::{Controller, ControllerFactory};
use weir_cc::{Ack, EcnUse, Timeout};
use weir_core::{Duration, Rate, Time};
use weir_fq::{Gate, Shared, SubFlow};

use crate::bridge::{Bridge, INITIAL, Make};
use crate::clock::Clock;
use crate::door::Door;
use crate::marks::Marks;

/// What makes the bridges of both paths. The first path is the heavy sub-flow's, all later ones are the light one's:
/// noq makes the bridge of a path when the path is opened.
pub(crate) struct Gates {
    paths: [Arc<GatedPath>; 2],
    built: AtomicUsize,
    clock: Clock,
}

impl Gates {
    /// For one connection. Until `begun` is set, packets go as from any new QUIC connection, and the detection rests.
    pub(crate) fn new(shared: &Shared, begun: &Arc<AtomicBool>, marks: &Marks, clock: Clock) -> Self {
        let path = |sub_flow| {
            Arc::new(GatedPath {
                shared: shared.clone(),
                sub_flow,
                begun: Arc::clone(begun),
                marks: marks.clone(),
                door: Arc::default(),
            })
        };
        Self { paths: [path(SubFlow::Light), path(SubFlow::Heavy)], built: AtomicUsize::new(0), clock }
    }

    /// The door of a sub-flow's path.
    pub(crate) fn door(&self, sub_flow: SubFlow) -> &Arc<Door> {
        &self.paths[sub_flow.index()].door
    }
}

impl ControllerFactory for Gates {
    fn build(self: Arc<Self>, _: Instant, mtu: u16) -> Box<dyn Controller> {
        let sub_flow = match self.built.fetch_add(1, Ordering::Relaxed) {
            0 => SubFlow::Heavy,
            _ => SubFlow::Light,
        };
        let path: Arc<dyn Make> = self.paths[sub_flow.index()].clone();
        Box::new(Bridge::new(path, self.clock, mtu))
    }
}

struct GatedPath {
    shared: Shared,
    sub_flow: SubFlow,
    begun: Arc<AtomicBool>,
    marks: Marks,
    door: Arc<Door>,
}

impl Make for GatedPath {
    fn make(&self, mss: u16) -> Box<dyn weir_cc::Controller> {
        let gate = self.shared.gate(self.sub_flow);
        Box::new(HeldGate {
            gate,
            begun: Arc::clone(&self.begun),
            initial: u64::from(INITIAL) * u64::from(mss),
        })
    }

    fn marks(&self) -> &Marks {
        &self.marks
    }

    fn door(&self) -> Option<&Arc<Door>> {
        Some(&self.door)
    }
}

/// A gate that the host drives: it tells the connection itself what was sent, when that happens, and when timers are
/// due.
struct HeldGate {
    gate: Gate,
    begun: Arc<AtomicBool>,
    /// The window until the detection begins.
    initial: u64,
}

impl HeldGate {
    fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }
}

impl weir_cc::Controller for HeldGate {
    fn name(&self) -> &'static str {
        self.gate.name()
    }

    fn on_ack(&mut self, ack: &Ack) {
        if self.has_begun() {
            self.gate.on_ack(ack);
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        if self.has_begun() {
            self.gate.on_timeout(timeout);
        }
    }

    fn window(&self) -> u64 {
        if self.has_begun() { self.gate.window() } else { self.initial }
    }

    fn pacing(&self) -> Option<Rate> {
        self.gate.pacing()
    }

    fn burst(&self) -> Option<Duration> {
        self.gate.burst()
    }

    fn ecn(&self) -> EcnUse {
        self.gate.ecn()
    }
}

/// noq's numbers of a path's packets, which have gaps, by the numbers of [`weir_fq::Packet`], which have none.
#[derive(Default)]
pub(crate) struct Ledger {
    /// What the connection calls the first.
    first: u64,
    numbers: VecDeque<u64>,
}

impl Ledger {
    /// As many as [`weir_fq::Connection`] remembers.
    const MOST: usize = 1 << 16;

    /// The next packet of the sub-flow has this number on its path; what the connection calls it.
    pub(crate) fn push(&mut self, number: u64) -> u64 {
        if self.numbers.len() == Self::MOST {
            self.numbers.pop_front();
            self.first += 1;
        }
        self.numbers.push_back(number);
        self.first + self.numbers.len() as u64 - 1
    }

    /// What the connection calls the packet of this number; none if it is not one of the sub-flow's, or too old.
    pub(crate) fn find(&self, number: u64) -> Option<u64> {
        let index = self.numbers.binary_search(&number).ok()?;
        Some(self.first + index as u64)
    }
}

/// When the next packet of a path may go at a rate.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    next: Time,
}

impl Pace {
    /// What a host that woke up late may make up for at once, if the controller does not say: so much time or so many
    /// packets (RFC 9002 section 7.7 holds an initial window for harmless), but no more than so much time. noq's pacer
    /// has the same numbers.
    const BURST: Duration = Duration::from_millis(2);
    const PACKETS: u64 = INITIAL as u64;
    const LONGEST: Duration = Duration::from_millis(10);
    /// What it may make up for in any case, as one packet: sleeps end late by tens of microseconds, on a busy host by
    /// some hundreds. More would go in one burst whenever the window, not the rate, has held packets back, and a short
    /// buffer would lose it.
    const GRAIN: Duration = Duration::from_micros(250);

    /// When the next packet may go.
    pub(crate) const fn next(&self) -> Time {
        self.next
    }

    /// A packet of `bytes` went at `now`, of a path of this rate, in bursts of this length; `made_up` is what the
    /// controller lets a late host make up for.
    pub(crate) fn pass(
        &mut self,
        now: Time,
        bytes: u64,
        rate: Option<Rate>,
        burst: Option<Duration>,
        made_up: Option<Duration>,
    ) {
        let Some(rate) = rate else { return };
        let late = match made_up {
            Some(made_up) => made_up.max(rate.time_for(bytes)).max(Self::GRAIN),
            None => burst.unwrap_or(Self::BURST).max(rate.time_for(bytes * Self::PACKETS).min(Self::LONGEST)),
        };
        self.next = self.next.max(Time::ZERO + now.since(Time::ZERO + late)) + rate.time_for(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use noq_proto::congestion::ControllerFactory;
    use weir_core::{Duration, Rate, Time};
    use weir_fq::{Connection, Shared, SubFlow};

    use super::{Gates, Ledger, Pace};
    use crate::clock::{Clock, now};
    use crate::loopback_tests::{Turns, options};
    use crate::marks::Marks;

    #[test]
    fn numbers_with_gaps_are_found() {
        let mut ledger = Ledger::default();
        for number in [3, 4, 6, 9] {
            ledger.push(number);
        }
        assert_eq!([3, 6, 9].map(|number| ledger.find(number)), [Some(0), Some(2), Some(3)]);
        assert_eq!([0, 5, 10].map(|number| ledger.find(number)), [None; 3]);
        for number in 10..10 + Ledger::MOST as u64 {
            ledger.push(number);
        }
        assert_eq!((ledger.find(9), ledger.find(10)), (None, Some(4)));
    }

    /// noq asks for the window before it makes a packet, but not for a probe: only what a gate could have held back is to
    /// be blamed on the gate.
    #[test]
    fn what_noq_sends_without_asking_is_told_apart() {
        let (detector, _told) = Turns::new(4);
        let shared = Shared::new(Connection::new(options(Box::new(detector), "cubic")));
        let (begun, start) = (Arc::new(AtomicBool::new(true)), now());
        let gates = Arc::new(Gates::new(&shared, &begun, &Marks::default(), Clock::new(start)));
        let mut bridge = Arc::clone(&gates).build(start, 1200);
        let door = gates.door(SubFlow::Heavy);
        door.set_shut(false);
        let mut made = |number, asks: bool, is_full: bool| {
            if asks {
                bridge.window();
            }
            if is_full {
                bridge.on_cwnd_limited();
            }
            bridge.on_packet_sent(start, 1200, number);
            door.take().map(|passed| (passed.number, passed.forced))
        };
        assert_eq!(made(0, false, false), Some((0, true)));
        assert_eq!(made(1, true, false), Some((1, false)));
        assert_eq!(made(2, false, false), Some((2, true)));
        // The window is full, and yet a probe goes.
        assert_eq!(made(3, true, true), Some((3, true)));
        // What was asked before the host looked again counts no more.
        bridge.window();
        door.set_shut(false);
        bridge.on_packet_sent(start, 1200, 4);
        assert_eq!(door.take().map(|passed| passed.forced), Some(true));
    }

    #[test]
    fn a_late_host_makes_up_for_one_burst() {
        // 1250 bytes last a millisecond, and ten packets ten; at the other rate 10 us, and a burst is as long as is
        // said.
        let [slow, fast] = [10_000_000, 1_000_000_000].map(|bits| Some(Rate::from_bits_per_sec(bits)));
        let at = |micros| Time::ZERO + Duration::from_micros(micros);
        let mut pace = Pace::default();
        for (now, next) in [(100_000, 91_000), (100_000, 92_000), (101_000, 93_000), (150_000, 141_000)] {
            pace.pass(at(now), 1250, slow, None, None);
            assert_eq!(pace.next(), at(next), "at {now} us");
        }
        for (burst, next) in [(None, 198_010), (Some(5_000), 198_020), (Some(50), 199_910)] {
            pace.pass(at(200_000), 1250, fast, burst.map(Duration::from_micros), None);
            assert_eq!(pace.next(), at(next), "{burst:?}");
        }
        pace.pass(at(300_000), 1250, None, None, None);
        assert_eq!(pace.next(), at(199_910));
    }

    #[test]
    fn where_nothing_may_be_made_up_a_late_host_catches_up_by_one_packet() {
        let rate = Some(Rate::from_bits_per_sec(10_000_000));
        let at = |micros| Time::ZERO + Duration::from_micros(micros);
        let mut pace = Pace::default();
        // A millisecond each; the second is 0.1 ms late, the third 0.9 ms, the fourth 8 ms.
        for (now, next) in [(100_000, 100_000), (100_100, 101_000), (101_900, 102_000), (110_000, 110_000)] {
            pace.pass(at(now), 1250, rate, None, Some(Duration::ZERO));
            assert_eq!(pace.next(), at(next), "at {now} us");
        }
    }
}
