//! Of all numbers that a blind outsider may guess, how many a TCP flow believes, and what becomes of its cycles then
//! (docs/model/adversaries.md).

use crate::ffi::{self, Flow, Packet};
use crate::testing::{forward, reverse};
use crate::{Params, Preset};

/// Payload of a segment, and how many are in flight: 100 kB.
const SEGMENT: u32 = 1000;
const FLIGHT: u32 = 100;
/// Where an honest sender begins, and the receiver's own number. What is in flight later lies across the wrap.
const SEQ: u32 = 0u32.wrapping_sub(250 * SEGMENT);
const BACK: u32 = 0x0000_2000;
/// Half of the stretch, around the next segment's number, of which each number is tried.
const AROUND: u32 = 1 << 18;
/// Of the others one in so many is.
const STRIDE: usize = 1021;
/// `WEIR_SEQUENCE_SLACK`.
const SLACK: u32 = 0x10000;

fn laws() -> [(&'static str, ffi::Params); 2] {
    [("paper", Preset::Paper), ("robust", Preset::Robust)]
        .map(|(name, preset)| (name, Params::preset(preset).to_raw()))
}

/// A sender that has [`FLIGHT`] segments in flight, each acknowledged by itself.
#[derive(Clone, Copy)]
struct Sender {
    flow: Flow,
    sent: u32,
    segment: Packet,
    ack: Packet,
}

impl Sender {
    /// After `segments` of them.
    fn after(law: &ffi::Params, segments: u32) -> Self {
        let segment = *forward(SEQ, BACK, SEGMENT as usize).raw();
        let mut sender = Self { flow: Flow::default(), sent: 0, segment, ack: *reverse(BACK, SEQ, 0).raw() };
        for _ in 0..segments {
            sender.step(law);
        }
        sender
    }

    /// The number of the next segment.
    fn next(&self) -> u32 {
        SEQ.wrapping_add(self.sent * SEGMENT)
    }

    /// The next segment and an acknowledgement. Returns whether it ended a cycle.
    fn step(&mut self, law: &ffi::Params) -> bool {
        self.segment.tcp_seq = self.next();
        let ended = ffi::forward(law, &mut self.flow, &self.segment, 0).ended != 0;
        self.sent += 1;
        if self.sent > FLIGHT {
            self.ack.tcp_ack = self.next().wrapping_sub(FLIGHT * SEGMENT);
            ffi::reverse(law, &mut self.flow, &self.ack);
        }
        ended
    }

    /// The same with a forged segment of number `seq`. Returns how many cycles that ended, if it is the flow's.
    fn with(mut self, law: &ffi::Params, seq: u32) -> Option<(Self, u32)> {
        let found = ffi::forward(law, &mut self.flow, &Packet { tcp_seq: seq, ..self.segment }, 0);
        (found.cycle == self.flow.cycle).then_some((self, found.ended.into()))
    }

    /// Segments until `count` more cycles have ended.
    fn until_cycles_end(mut self, law: &ffi::Params, count: u32) -> u32 {
        let (mut segments, mut ended) = (0, 0);
        while ended < count {
            ended += u32::from(self.step(law));
            segments += 1;
        }
        segments
    }
}

/// How many of the 2^32 numbers are believed: each number around `at` is tried, and of the others as many as show
/// that they are not.
fn believed(at: u32, believes: &mut dyn FnMut(u32) -> bool) -> u32 {
    let mut far = (AROUND..u32::MAX - AROUND).step_by(STRIDE).map(|offset| at.wrapping_add(offset));
    assert_eq!(far.find(|number| believes(*number)), None, "far from {at}");
    (0..2 * AROUND).map(|offset| u32::from(believes(at.wrapping_sub(AROUND).wrapping_add(offset)))).sum()
}

fn one_in(count: u32) -> f64 {
    2f64.powi(32) / f64::from(count)
}

#[test]
fn few_blind_numbers_are_believed() {
    for (name, law) in laws() {
        let sender = Sender::after(&law, 320);
        let (at, flight) = (sender.next(), FLIGHT * SEGMENT);
        assert_eq!(at.wrapping_sub(sender.flow.highest_ack), flight);
        let counted = believed(at, &mut |seq| sender.with(&law, seq).is_some());
        let ahead = believed(at, &mut |seq| {
            sender.with(&law, seq).is_some_and(|(flow, _)| flow.flow.right_edge != sender.flow.right_edge)
        });
        let acks = believed(at, &mut |number| {
            let mut flow = sender.flow;
            ffi::reverse(&law, &mut flow, &Packet { tcp_ack: number, ..sender.ack });
            flow != sender.flow
        });
        println!(
            "{name}, {flight} bytes in flight: {counted} segments are counted, one in {:.0}; {ahead} move the edge, \
             one in {:.0}; {acks} acknowledgements say anything, one in {:.0}",
            one_in(counted),
            one_in(ahead),
            one_in(acks)
        );
        assert_eq!((counted, ahead), (flight + 2 * SLACK + 1, SLACK + SEGMENT));
        assert_eq!(acks, flight + if law.ignore_optimistic_acks == 0 { SLACK } else { 0 });
    }
}

#[test]
fn a_believed_number_holds_cycles_up_until_the_data_catch_up() {
    for (name, law) in laws() {
        let (mut tried, mut late, mut longest) = (0, 0, 0);
        // Each phase of a cycle.
        for sent in 320..320 + FLIGHT {
            let sender = Sender::after(&law, sent);
            for offset in (0..2 * AROUND).step_by(STRIDE) {
                let seq = sender.next().wrapping_sub(AROUND).wrapping_add(offset);
                let Some((forged, ended)) = sender.with(&law, seq) else { continue };
                // The end of this cycle and of the next, which may wait for the forged one.
                let delays = [1, 2].map(|count| {
                    let usual = sender.until_cycles_end(&law, count);
                    forged.until_cycles_end(&law, count - ended).saturating_sub(usual)
                });
                let delay = delays[0].max(delays[1]);
                tried += 1;
                late += u32::from(delay > 0);
                longest = longest.max(delay);
            }
        }
        println!(
            "{name}: {late} of {tried} believed segments hold cycles up, for {longest} segments at most"
        );
        assert!(late > 0 && longest <= SLACK.div_ceil(SEGMENT), "{late} {longest}");
    }
}
