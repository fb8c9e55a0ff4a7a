//! What the law says happened: ended cycles, assessments with all their inputs, changes of queue.

use serde::{Deserialize, Serialize};
use weir_core::{Bytes, CycleId, Duration, FlowId, QueueChoice, Time};

use crate::ffi;

/// The kinds of congestion signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Signal {
    /// The bottleneck dropped a packet.
    Loss,
    /// The bottleneck set CE on a packet.
    Mark,
}

impl Signal {
    pub(crate) const fn raw(self) -> u32 {
        match self {
            Self::Loss => 0,
            Self::Mark => 1,
        }
    }
}

/// One value for each kind of signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct SignalPair<T> {
    /// For losses.
    pub loss: T,
    /// For CE marks.
    pub mark: T,
}

/// What a flow has been found to be for one kind of signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Not judged yet.
    #[default]
    Unclassified,
    /// The majority of votes found a smaller window two cycles after a signal.
    Responsive,
    /// The majority did not.
    Unresponsive,
}

impl Verdict {
    /// As JSON has it: `responsive`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unclassified => "unclassified",
            Self::Responsive => "responsive",
            Self::Unresponsive => "unresponsive",
        }
    }

    pub(crate) const fn from_raw(raw: u8) -> Self {
        match raw {
            1 => Self::Responsive,
            2 => Self::Unresponsive,
            _ => Self::Unclassified,
        }
    }
}

/// Both verdicts: one of nine states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Class {
    /// Verdict by CE marks.
    pub ecn: Verdict,
    /// Verdict by losses.
    pub loss: Verdict,
}

impl Class {
    /// The state's number, `3 * ecn + loss`, 0..=8, with unclassified 0, responsive 1, unresponsive 2.
    pub const fn index(self) -> u8 {
        3 * self.ecn as u8 + self.loss as u8
    }

    /// The state with this number; `None` above 8.
    pub const fn from_index(index: u8) -> Option<Self> {
        if index > 8 {
            return None;
        }
        Some(Self { ecn: Verdict::from_raw(index / 3), loss: Verdict::from_raw(index % 3) })
    }

    pub(crate) const fn from_raw(raw: u8) -> Self {
        Self { ecn: Verdict::from_raw(raw / 3), loss: Verdict::from_raw(raw % 3) }
    }
}

/// Votes on one kind of signal that still count: all since the flow's connection was first seen, or since its verdict
/// lapsed, but for what [`Params::votes_kept`](crate::Params::votes_kept) lets fade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Votes {
    /// Judgements that found a response.
    pub responsive: u32,
    /// Judgements that found none.
    pub unresponsive: u32,
}

impl Votes {
    pub(crate) const fn from_raw(raw: [u32; 2]) -> Self {
        Self { responsive: raw[0], unresponsive: raw[1] }
    }

    pub(crate) fn kept(raw: [u16; 2]) -> Self {
        Self::from_raw(raw.map(u32::from))
    }
}

/// What came of the end of a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// The cycle two before had no signal: nothing to judge.
    #[default]
    NoSignal,
    /// At least one vote was cast.
    Voted,
    /// There was a signal, but the window was below the minimum.
    SmallWindow,
    /// There was a signal, but in the first cycle, whose window is not known in full.
    PartialCycle,
}

/// A cycle that ended. The packet that showed its end belongs to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CycleEnd {
    /// The flow.
    pub flow: FlowId,
    /// When it ended.
    pub time: Time,
    /// Which cycle.
    pub cycle: CycleId,
    /// How long it lasted.
    pub duration: Duration,
    /// Payload bytes that arrived in it.
    pub window: Bytes,
    /// Packets that arrived in it.
    pub packets: u32,
    /// Signals booked to it so far; packets that are still queued can add to them.
    pub signals: SignalPair<u32>,
    /// Whether it was the flow's first, whose beginning was not seen.
    pub first: bool,
    /// What its end meant for the verdict.
    pub judgement: Judgement,
}

/// A judgement that was made, with all its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Assessment {
    /// The flow.
    pub flow: FlowId,
    /// When.
    pub time: Time,
    /// The cycle n that ended.
    pub cycle: CycleId,
    /// The cycle n-2 that had the signals.
    pub signalled: CycleId,
    /// W\[n\].
    pub window: Bytes,
    /// W\[n-1\], for the record; it does not count.
    pub window_between: Bytes,
    /// W\[n-2\].
    pub window_signalled: Bytes,
    /// Signals in cycle n-2.
    pub signals: SignalPair<u32>,
    /// The votes that were cast: `Unclassified` for a kind without signals.
    pub vote: SignalPair<Verdict>,
    /// All votes, these included.
    pub votes: SignalPair<Votes>,
    /// State before.
    pub class_before: Class,
    /// State after.
    pub class_after: Class,
}

/// A flow has earned the other queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ChoiceChange {
    /// The flow.
    pub flow: FlowId,
    /// When.
    pub time: Time,
    /// The first cycle in the new queue.
    pub cycle: CycleId,
    /// The old queue.
    pub from: QueueChoice,
    /// The new queue.
    pub to: QueueChoice,
    /// What caused it.
    pub cause: ChoiceCause,
}

/// Why a flow goes to another queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChoiceCause {
    /// A vote.
    Vote,
    /// A new connection on the same addresses and ports.
    Opened,
    /// Its verdict ended for want of cycles.
    Lapsed,
}

/// Hears what the law finds. Called on the packet path: implementors neither block nor allocate per packet.
pub trait LawSink {
    /// A cycle ended. Comes before the assessment that it may have caused.
    fn cycle(&mut self, _end: &CycleEnd) {}
    /// A judgement was made.
    fn assessment(&mut self, _assessment: &Assessment) {}
    /// A flow has earned the other queue. Comes after the assessment that caused it.
    fn choice(&mut self, _change: &ChoiceChange) {}
}

impl LawSink for () {}

impl<S: LawSink + ?Sized> LawSink for &mut S {
    fn cycle(&mut self, end: &CycleEnd) {
        (**self).cycle(end);
    }
    fn assessment(&mut self, assessment: &Assessment) {
        (**self).assessment(assessment);
    }
    fn choice(&mut self, change: &ChoiceChange) {
        (**self).choice(change);
    }
}

pub(crate) const fn choice_from_raw(raw: u8) -> QueueChoice {
    match raw {
        1 => QueueChoice::Responsive,
        2 => QueueChoice::EcnResponsive,
        _ => QueueChoice::Standard,
    }
}

impl CycleEnd {
    pub(crate) fn from_raw(flow: FlowId, raw: &ffi::Outcome) -> Self {
        let (end, time) = (&raw.end, Time::from_nanos(raw.end.ended));
        Self {
            flow,
            time,
            cycle: CycleId(end.cycle),
            duration: time.since(Time::from_nanos(end.started)),
            window: Bytes(end.window.into()),
            packets: end.packets,
            signals: SignalPair { loss: end.losses, mark: end.marks },
            first: end.first != 0,
            judgement: match raw.assessed.judgement {
                1 => Judgement::Voted,
                2 => Judgement::SmallWindow,
                3 => Judgement::PartialCycle,
                _ => Judgement::NoSignal,
            },
        }
    }
}

impl Assessment {
    pub(crate) fn from_raw(flow: FlowId, time: Time, raw: &ffi::Assessment) -> Self {
        Self {
            flow,
            time,
            cycle: CycleId(raw.cycle),
            signalled: CycleId(raw.cycle.wrapping_sub(2)),
            window: Bytes(raw.window.into()),
            window_between: Bytes(raw.window_between.into()),
            window_signalled: Bytes(raw.window_signalled.into()),
            signals: SignalPair { loss: raw.signals[0], mark: raw.signals[1] },
            vote: SignalPair { loss: Verdict::from_raw(raw.vote[0]), mark: Verdict::from_raw(raw.vote[1]) },
            votes: SignalPair { loss: Votes::from_raw(raw.votes[0]), mark: Votes::from_raw(raw.votes[1]) },
            class_before: Class::from_raw(raw.class_before),
            class_after: Class::from_raw(raw.class_after),
        }
    }
}
