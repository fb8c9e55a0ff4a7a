//! In what the paper and its program differ, and what they leave open.

use weir_core::{Duration, Random, Rate};

/// How the time to a sub-flow's next packet is drawn. Without jitter, flows of which one has a multiple of the other's
/// rate fall in step at a full queue, and always the same one loses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Jitter {
    /// It is not: each gap is that of the rate.
    None,
    /// Gaps of the rate times a number between these.
    Rate(f64, f64),
    /// The rate's gap times a number between these.
    Gap(f64, f64),
}

impl Jitter {
    /// The time from one packet of `mss` bytes to the next, at `rate` bits per second.
    pub(super) fn gap(self, rate: f64, mss: u32, random: &mut Random) -> Duration {
        let mut draw = |least: f64, most: f64| least + (most - least) * random.unit();
        let factor = match self {
            Self::None => 1.0,
            Self::Rate(least, most) => 1.0 / draw(least, most),
            Self::Gap(least, most) => draw(least, most),
        };
        Duration::from_nanos((f64::from(mss) * 8e9 / rate * factor).max(1.0) as u64)
    }
}

/// When a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Each sub-flow has an interval of its own, of which it awaits all feedback; a round pairs the newest results of
    /// both.
    Feedback,
    /// When its time is over, for both at once; the feedback comes while the next ones run.
    Clock,
}

/// What is compared of the two sub-flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The share of a round's bytes that was not lost.
    Losses,
    /// The rate at which a round's packets arrived, by the receiver's clock, over the rate at which they were sent.
    Rates,
}

/// Parameters of [`Doubling`](super::Doubling).
#[derive(Clone, Debug, PartialEq)]
pub struct DoublingParams {
    /// What it is called.
    pub name: &'static str,
    /// The light sub-flow's rate of payload to begin with; the heavy one's is twice that.
    pub first_rate: Rate,
    /// The heavy one's rate does not grow beyond it.
    pub most: Rate,
    /// How gaps are drawn.
    pub jitter: Jitter,
    /// When a round ends.
    pub pace: Pace,
    /// Length of an interval, in mean round trips.
    pub round_trips: f64,
    /// So many packets of a sub-flow may overtake one in flight; when one more does, it is lost.
    pub reordering: u64,
    /// What SRTT begins at, and half of that RTTVAR; none: at the handshake's, as RFC 6298 has it.
    pub first_rtt: Option<Duration>,
    /// After a loss the next packet carries its data; that one is then only lost by the timer.
    pub again_by_timer: bool,
    /// The round of a sub-flow's first loss, in which the queue fills, is thrown away and repeated.
    pub fills_first: bool,
    /// Rates do not double after a round in which a loss was learnt of. The clock doubles them once more before it is;
    /// where feedback is awaited, a heavy sub-flow that loses alone goes on to do so.
    pub holds: bool,
    /// What is compared.
    pub measure: Measure,
    /// Light over heavy; above it is fair queuing.
    pub cut_off: f64,
    /// So long after its begin a detection ends without a finding.
    pub deadline: Duration,
}

impl DoublingParams {
    /// The program.
    pub const PUBLISHED: Self = Self {
        name: "published",
        first_rate: Rate::from_bits_per_sec(1_000_000),
        // What a path without losses would otherwise be sent in 10 s has no end. The program's timers end far below.
        most: Rate::from_bits_per_sec(10_000_000_000),
        jitter: Jitter::Rate(0.5, 2.0),
        pace: Pace::Feedback,
        round_trips: 1.5,
        reordering: 0,
        first_rtt: Some(Duration::from_secs(10)),
        again_by_timer: true,
        fills_first: true,
        holds: false,
        measure: Measure::Losses,
        cut_off: 1.5,
        deadline: Duration::from_secs(10),
    };

    /// The paper's text; losses as in RFC 9002 (packet threshold 3).
    pub const PAPER: Self = Self {
        name: "paper",
        jitter: Jitter::Gap(0.5, 1.5),
        pace: Pace::Clock,
        round_trips: 1.0,
        reordering: 2,
        first_rtt: None,
        again_by_timer: false,
        fills_first: false,
        holds: true,
        measure: Measure::Rates,
        ..Self::PUBLISHED
    };
}
