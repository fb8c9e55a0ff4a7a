//! The guard against cycles that are far too short, on flows whose ends choose how long they are.

use weir_core::{Duration, FlowId, QueueChoice, Time};

use crate::law_testing::Heard;
use crate::testing::{forward, reverse, short};
use crate::{Direction, Law, Params, ParsedPacket, Preset, Signal};

/// Between two packets.
const GAP: u64 = 500_000;

fn robust() -> Params {
    Params::preset(Preset::Robust)
}

#[derive(Clone, Copy, PartialEq)]
enum Carrier {
    Quic,
    Tcp,
}

/// A flow and its law.
struct Bench {
    carrier: Carrier,
    law: Law,
    heard: Heard,
    now: Time,
    spin: bool,
    seq: u32,
}

impl Bench {
    fn new(carrier: Carrier, params: Params) -> Self {
        let law = Law::new(params, 4);
        Self { carrier, law, heard: Heard::default(), now: Time::ZERO, spin: false, seq: 1 }
    }

    fn pass(&mut self, packet: &ParsedPacket, direction: Direction) {
        let flow = self.law.lookup(packet, direction, self.now);
        self.law.arrival(flow, packet, direction, self.now, &mut self.heard);
    }

    /// A round trip of so many milliseconds by what the ends show. Returns the lengths of the cycles that ended in it.
    fn round(&mut self, millis: f64) -> Vec<f64> {
        let before = self.heard.cycles.len();
        self.spin = !self.spin;
        for _ in 0..((millis * 1e6) as u64 / GAP).max(1) {
            let data = match self.carrier {
                Carrier::Quic => short(self.spin, 1200),
                Carrier::Tcp => forward(self.seq, 1, 1200),
            };
            self.seq = self.seq.wrapping_add(1200);
            self.pass(&data, Direction::Forward);
            self.now += Duration::from_nanos(GAP);
        }
        let answer = match self.carrier {
            Carrier::Quic => short(self.spin, 40),
            Carrier::Tcp => reverse(1, self.seq, 0),
        };
        self.pass(&answer, Direction::Reverse);
        self.heard.cycles[before..].iter().map(|end| end.duration.as_nanos() as f64 / 1e6).collect()
    }

    fn rounds(&mut self, count: usize, millis: f64) -> Vec<f64> {
        (0..count).flat_map(|_| self.round(millis)).collect()
    }
}

#[test]
fn cycles_do_not_become_far_too_short_at_once() {
    for carrier in [Carrier::Quic, Carrier::Tcp] {
        let after = |params: Params| {
            let mut bench = Bench::new(carrier, params);
            bench.rounds(30, 50.0);
            bench.rounds(4000, 1.0)
        };
        let cycles = after(robust());
        assert!(cycles[1] >= 24.0 && cycles[1..30].iter().all(|length| *length >= 16.0), "{cycles:?}");
        // As a window that shrinks with them looks like an answer, they shrink by a tenth in two at most, and what
        // the packets' own distance is.
        let shrinks = |three: &[f64]| three[2] < three[0] * 0.9 - 1.0;
        assert!(!cycles[1..100].windows(3).any(shrinks), "{cycles:?}");
        println!(
            "{} at first, {} after 60, {} after 200, {} after 400",
            cycles[1], cycles[60], cycles[200], cycles[400]
        );
        let unguarded = after(Params { cycle_guard: false, ..robust() });
        assert!(unguarded[1..].iter().all(|length| *length < 1.1), "{unguarded:?}");
    }
}

#[test]
fn honest_round_trips_may_vary() {
    for carrier in [Carrier::Quic, Carrier::Tcp] {
        for lengths in [[50.0, 80.0, 30.0, 45.0], [20.0, 200.0, 20.0, 60.0], [4.0, 6.0, 5.0, 40.0]] {
            let run = |cycle_guard: bool| -> Vec<f64> {
                let mut bench = Bench::new(carrier, Params { cycle_guard, ..robust() });
                let mut cycles = bench.rounds(1, lengths[0]);
                for _ in 0..200 {
                    cycles.extend(lengths.iter().flat_map(|length| bench.round(*length)));
                }
                cycles
            };
            assert_eq!(run(true), run(false), "{lengths:?}");
        }
    }
}

#[test]
fn a_path_that_becomes_short_is_believed_after_a_while() {
    for carrier in [Carrier::Quic, Carrier::Tcp] {
        // A full queue drains; and a flow that had pauses in each of its first cycles goes on without.
        for (first, then, most) in [(160.0, 20.0, 10.0), (1000.0, 20.0, 10.0), (1000.0, 5.0, 12.0)] {
            let mut bench = Bench::new(carrier, robust());
            bench.rounds(30, first);
            let begin = bench.now;
            let mut whole = 0;
            while whole < 20 {
                let cycles = bench.round(then);
                let honest = cycles.iter().all(|length| *length <= then + 0.6);
                whole = if honest { whole + cycles.len() } else { 0 };
                let took = bench.now.since(begin).as_nanos() as f64 / 1e9;
                assert!(took < most, "{first} ms, then {then}: {cycles:?} after {took} s");
            }
        }
    }
}

#[test]
fn it_learns_anew_when_the_queue_changes_and_when_cycles_lapse() {
    // A loss, and half of the window two round trips later: the flow goes to the other queue, with a shorter path.
    let mut bench = Bench::new(Carrier::Quic, Params { whole_conduct: false, ..robust() });
    bench.rounds(30, 50.0);
    let cycle = bench.law.flow(FlowId(0)).unwrap().cycle;
    bench.law.signal(FlowId(0), cycle, Signal::Loss, 1, bench.now);
    bench.rounds(2, 30.0);
    bench.rounds(2, 5.0);
    assert_eq!(bench.law.flow(FlowId(0)).unwrap().choice, QueueChoice::Responsive);
    let cycles = bench.rounds(40, 5.0);
    assert!(cycles.iter().all(|length| *length < 5.6), "{cycles:?}");
    // A lapse: eight round trips and more without the end of a cycle.
    let mut bench = Bench::new(Carrier::Quic, robust());
    bench.rounds(30, 50.0);
    bench.spin = !bench.spin;
    for _ in 0..2000 {
        let data = short(bench.spin, 1200);
        bench.pass(&data, Direction::Forward);
        bench.now += Duration::from_nanos(GAP);
    }
    let cycles = bench.rounds(40, 5.0);
    assert!(cycles[2..].iter().all(|length| *length < 5.6), "{cycles:?}");
}
