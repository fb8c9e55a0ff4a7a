//! A flow under test: packets go in by hand, what the law says is kept.

use weir_core::{CycleId, Duration, FlowId, QueueChoice, Time};

use crate::testing::{Segment, forward, reverse, reverse_with, short};
use crate::{
    Assessment, ChoiceChange, CycleEnd, Direction, FlowView, Law, LawSink, Params, ParsedPacket, Preset,
    Signal, Stamp,
};

#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) cycles: Vec<CycleEnd>,
    pub(crate) assessments: Vec<Assessment>,
    pub(crate) changes: Vec<ChoiceChange>,
}

impl LawSink for Heard {
    fn cycle(&mut self, end: &CycleEnd) {
        self.cycles.push(*end);
    }
    fn assessment(&mut self, assessment: &Assessment) {
        self.assessments.push(*assessment);
    }
    fn choice(&mut self, change: &ChoiceChange) {
        self.changes.push(*change);
    }
}

pub(crate) struct Bench {
    pub(crate) law: Law,
    pub(crate) heard: Heard,
    pub(crate) now: Time,
    spin: bool,
}

pub(crate) fn paper() -> Params {
    Params::preset(Preset::Paper)
}

pub(crate) fn comsys() -> Params {
    Params::preset(Preset::Comsys)
}

impl Bench {
    pub(crate) fn new(params: Params) -> Self {
        Self { law: Law::new(params, 16), heard: Heard::default(), now: Time::ZERO, spin: false }
    }

    /// One packet; a millisecond passes before it.
    pub(crate) fn packet(&mut self, packet: &ParsedPacket, direction: Direction) -> (FlowId, Stamp) {
        self.now += Duration::from_millis(1);
        let flow = self.law.lookup(packet, direction, self.now);
        (flow, self.law.arrival(flow, packet, direction, self.now, &mut self.heard))
    }

    pub(crate) fn fwd(&mut self, seq: u32, ack: u32, payload: usize) -> Stamp {
        self.packet(&forward(seq, ack, payload), Direction::Forward).1
    }

    pub(crate) fn rev(&mut self, seq: u32, ack: u32, payload: usize) {
        self.packet(&reverse(seq, ack, payload), Direction::Reverse);
    }

    pub(crate) fn rev_with(&mut self, segment: &Segment) {
        self.packet(&reverse_with(segment), Direction::Reverse);
    }

    pub(crate) fn quic(&mut self, spin: bool, payload: usize) -> Stamp {
        self.packet(&short(spin, payload), Direction::Forward).1
    }

    pub(crate) fn signal(&mut self, cycle: CycleId, signal: Signal, segments: u16) {
        self.law.signal(FlowId(0), cycle, signal, segments, self.now);
    }

    /// A QUIC cycle of one packet with `window` bytes and the opposite spin, given `signals`.
    pub(crate) fn cycle(&mut self, window: usize, signals: &[Signal]) -> Stamp {
        self.spin = !self.spin;
        let stamp = self.quic(self.spin, window);
        for signal in signals {
            self.signal(stamp.cycle, *signal, 1);
        }
        stamp
    }

    /// Cycles with these windows; a signal in each whose window is in `signalled`. The first, partial cycle comes free.
    pub(crate) fn windows(&mut self, windows: &[usize], signal: Signal, signalled: &[usize]) {
        for window in windows {
            let signals = [signal];
            self.cycle(*window, if signalled.contains(window) { &signals } else { &[] });
        }
    }

    pub(crate) fn view(&self) -> FlowView {
        self.law.flow(FlowId(0)).expect("a flow")
    }

    pub(crate) fn choice(&self) -> QueueChoice {
        self.view().choice
    }

    /// How many cycles ended so far.
    pub(crate) fn ended(&self) -> usize {
        self.heard.cycles.len()
    }
}
