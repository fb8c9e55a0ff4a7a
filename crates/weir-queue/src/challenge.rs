//! Finds the flows of a low-latency queue that do not give way. CRQ section V names it as future work for L4S; the test
//! is Weir's own, and needs neither headers nor round-trip times. Its rules:
//!
//! 1. A flow's rate is what arrives of it in windows of 100 ms, whatever becomes of it behind.
//! 2. While the queue marks at least two packets in a window, the flow with the highest rate that is not at rest is
//!    *tried*, one at a time, from 1/32 of the link's rate, a quarter of an equal share of it, and five full packets on.
//! 3. For a second all its packets are marked; then for a second and a half those in the first half of each window are
//!    dropped, and every other one in the second half.
//! 4. As soon as it has fallen by 30 % over two windows, it is *acquitted* and rests for 10 s, later 20, 40 and 80. What
//!    it has fallen from is its rate before the trial, or the mean of that second if it is higher: a trial may begin in a
//!    trough.
//! 5. If it has not by the end, it is *demoted*: its packets go elsewhere, where they harm nobody.
//! 6. A demoted flow that keeps below half of that rate for 5 s comes back, later for 10, 20, 40 and 80.
//!
//! Why this is fair to flows that answer in their own ways: a scalable sender (RFC 9331 section 4.3) under full marking
//! falls by 30 % within four to eight round trips, BBRv3 within ten or so, as its share of marks has to pass through an
//! average first. One that ignores marks (BBRv3 beyond 5 ms) answers losses, but by the best rate that it has seen
//! delivered in a round trip: what is not dropped whole has to be thinned evenly. One at its least window cannot send less
//! per round trip; but on short paths its repetitions fall into the same 50 ms, and it waits for its time-out. One that
//! others have pushed to its least window on a long path has not much of the link: four packets in a window (BBR) over
//! 100 ms. The trial lasts 25 round trips of 100 ms.
//!
//! What it does not find: flows below those shares, flows that feign an answer while they are tried, and flows that
//! pulse so that every trial falls into a pause.

use weir_core::{Duration, FlowId, Rate, Time};

/// The length of a window.
const WINDOW: Duration = Duration::from_millis(100);
/// Windows of a trial in which all packets are marked.
const MARKING: u32 = 10;
/// Windows after these in which packets are dropped as well.
const DROPPING: u32 = 15;
/// All packets in the first part of these windows are dropped, of this length.
const DEAF: Duration = Duration::from_millis(50);
/// Per cent of its rate that a flow must not keep.
const KEPT: u64 = 70;
/// The queue is congested if it marks so many packets in a window: a scalable flow in equilibrium has two marks in a
/// round trip, whatever its rate (RFC 9332 section 2.1).
const MARKS: u32 = 2;
/// Flows below the link's rate over this are left alone...
const LEAST_SHARE: u64 = 32;
/// ... and those below an equal share of it over this...
const LEAST_PART: u64 = 4;
/// ... and those with fewer bytes in a window: five full packets, one more than BBR's least window.
const LEAST_BYTES: u64 = 5 * 1514;
/// Windows of rest after the first acquittal, doubled up to three times.
const REST: u32 = 100;
/// Windows that a demoted flow must keep calm to come back, doubled up to four times.
const CALM: u32 = 50;
/// Flows in a row of the table, in one of which a flow finds its place or has none.
const WAYS: usize = 4;
/// Rows of the table.
const ROWS: usize = 1024;
/// Windows of silence after which a flow's place may be given to another; of a demoted flow ten times as many.
const FORGOTTEN: u32 = 100;

/// What is to be done with an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Nothing special.
    Pass,
    /// Its flow is tried: mark it.
    Mark,
    /// Its flow is tried: drop it.
    Drop,
    /// Its flow is demoted.
    Demote,
}

/// What became of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Its trial began.
    Tried,
    /// It gave way.
    Acquitted,
    /// It did not.
    Demoted,
    /// It was demoted and has come back.
    Restored,
}

/// What is known of a flow.
#[derive(Clone, Copy, Debug)]
struct Seen {
    flow: FlowId,
    /// The window that `bytes` counts.
    window: u32,
    bytes: u64,
    /// Bytes of the window before.
    before: u64,
    /// It is not tried before this window.
    rests_until: u32,
    /// The rate in bytes per window with which it was demoted; zero if it is not.
    demoted: u64,
    /// Windows in a row in which it was calm while demoted.
    calm: u32,
    acquittals: u8,
    demotions: u8,
}

const NOBODY: Seen = Seen {
    flow: FlowId::NONE,
    window: 0,
    bytes: 0,
    before: 0,
    rests_until: 0,
    demoted: 0,
    calm: 0,
    acquittals: 0,
    demotions: 0,
};

impl Seen {
    /// Goes on to `window`.
    fn roll(&mut self, window: u32) {
        let passed = window.saturating_sub(self.window);
        if passed == 0 {
            return;
        }
        if self.demoted > 0 {
            let is_calm = self.bytes < self.demoted / 2;
            self.calm = if is_calm { self.calm.saturating_add(passed) } else { passed - 1 };
        }
        self.before = if passed == 1 { self.bytes } else { 0 };
        self.bytes = 0;
        self.window = window;
    }

    /// Whether the place may be given to another flow.
    fn is_forgotten(&self, window: u32) -> bool {
        let patience = if self.demoted > 0 { 10 * FORGOTTEN } else { FORGOTTEN };
        self.flow == FlowId::NONE || window.saturating_sub(self.window) > patience
    }
}

/// A flow that is tried.
#[derive(Clone, Copy, Debug)]
struct Trial {
    place: usize,
    /// The window in which it began.
    began: u32,
    /// Bytes per window that it sent at the beginning.
    rate: u64,
    /// Bytes that it sent while it was marked and nothing dropped.
    marked: u64,
    /// Packets since losses began.
    packets: u64,
}

/// The flows of a queue and the one that is tried. Its table has room for 4096 flows, in rows of four; a flow that
/// finds its row full of flows heard of in the last 10 s (100 s if demoted) is not watched, and passes.
#[derive(Clone, Debug)]
pub struct Challenge {
    seen: Box<[Seen]>,
    window: u32,
    /// Bytes of the link in a window.
    link: u64,
    /// Flows heard of in this window.
    active: u64,
    /// The flow with most bytes in this window that may be tried.
    largest: Option<(usize, u64)>,
    trial: Option<Trial>,
    /// Packets that the queue marked in this window.
    marks: u32,
}

impl Challenge {
    /// For the queue of a link of `rate`.
    pub fn new(rate: Rate) -> Self {
        Self {
            seen: vec![NOBODY; WAYS * ROWS].into(),
            window: 0,
            link: rate.bytes_in(WINDOW).0,
            active: 0,
            largest: None,
            trial: None,
            marks: 0,
        }
    }

    /// A packet arrives. Says what to do with it, and to `found` what has become of flows since the last one.
    pub fn arrives(
        &mut self,
        flow: FlowId,
        wire_bytes: u32,
        now: Time,
        found: &mut dyn FnMut(FlowId, Finding),
    ) -> Treatment {
        self.advance(now, found);
        let Some(place) = self.place(flow) else { return Treatment::Pass };
        let window = self.window;
        let seen = &mut self.seen[place];
        seen.roll(window);
        self.active += u64::from(seen.bytes == 0);
        seen.bytes += u64::from(wire_bytes);
        if seen.demoted > 0 {
            if seen.calm < CALM << seen.demotions.saturating_sub(1).min(4) {
                return Treatment::Demote;
            }
            seen.demoted = 0;
            found(flow, Finding::Restored);
        }
        if let Some(trial) = self.trial.as_mut().filter(|trial| trial.place == place) {
            if window.saturating_sub(trial.began) < MARKING {
                return Treatment::Mark;
            }
            trial.packets += 1;
            let is_deaf = now.as_nanos() % WINDOW.as_nanos() < DEAF.as_nanos();
            return if is_deaf || trial.packets % 2 == 0 { Treatment::Drop } else { Treatment::Mark };
        }
        let is_larger = self.largest.is_none_or(|(_, bytes)| seen.bytes > bytes);
        if is_larger && seen.rests_until <= window && seen.before > 0 {
            self.largest = Some((place, seen.bytes));
        }
        Treatment::Pass
    }

    /// The queue has marked a packet on its own account, or dropped one instead.
    pub const fn marked(&mut self) {
        self.marks = self.marks.saturating_add(1);
    }

    /// Whether packets of a flow are marked as they leave.
    pub fn is_tried(&self, flow: FlowId) -> bool {
        self.trial.is_some_and(|trial| self.seen[trial.place].flow == flow)
    }

    /// Whether a flow is demoted.
    pub fn is_demoted(&self, flow: FlowId) -> bool {
        let row = Self::row(flow);
        self.seen[row..row + WAYS].iter().any(|seen| seen.flow == flow && seen.demoted > 0)
    }

    fn row(flow: FlowId) -> usize {
        // Numbers of flows count up: neighbours come into different rows.
        (flow.0 as usize % ROWS) * WAYS
    }

    /// The place of a flow, which may be one that another has left.
    fn place(&mut self, flow: FlowId) -> Option<usize> {
        if flow == FlowId::NONE {
            return None;
        }
        let row = Self::row(flow);
        let places = row..row + WAYS;
        if let Some(known) = places.clone().find(|place| self.seen[*place].flow == flow) {
            return Some(known);
        }
        let (window, trial) = (self.window, self.trial);
        let is_free = |place: &usize| {
            self.seen[*place].is_forgotten(window) && trial.is_none_or(|trial| trial.place != *place)
        };
        let free = places.into_iter().find(is_free)?;
        self.seen[free] = Seen { flow, window, ..NOBODY };
        // Whoever was there is not the largest any more.
        self.largest = self.largest.filter(|(place, _)| *place != free);
        Some(free)
    }

    /// Ends all windows before that of `now`.
    fn advance(&mut self, now: Time, found: &mut dyn FnMut(FlowId, Finding)) {
        let window = (now.as_nanos() / WINDOW.as_nanos()) as u32;
        if window == self.window {
            return;
        }
        let is_congested = self.marks >= MARKS;
        match self.trial {
            Some(trial) => self.judge(trial, window, found),
            None if is_congested && window == self.window + 1 => self.accuse(window, found),
            None => {}
        }
        self.window = window;
        self.largest = None;
        (self.marks, self.active) = (0, 0);
    }

    /// Begins the trial of the largest flow with `window`.
    fn accuse(&mut self, window: u32, found: &mut dyn FnMut(FlowId, Finding)) {
        let Some((place, _)) = self.largest else { return };
        let seen = &self.seen[place];
        let rate = seen.bytes.max(seen.before);
        let equal = self.link / self.active.max(1);
        if rate >= (self.link / LEAST_SHARE).max(equal / LEAST_PART).max(LEAST_BYTES) {
            self.trial = Some(Trial { place, began: window, rate, marked: 0, packets: 0 });
            found(seen.flow, Finding::Tried);
        }
    }

    /// Looks at the flow that is tried, as `window` begins.
    fn judge(&mut self, mut trial: Trial, window: u32, found: &mut dyn FnMut(FlowId, Finding)) {
        let seen = &mut self.seen[trial.place];
        seen.roll(window - 1);
        let elapsed = window - trial.began;
        if elapsed <= MARKING {
            trial.marked += seen.bytes;
            self.trial = Some(trial);
        } else {
            trial.rate = trial.rate.max(trial.marked / u64::from(MARKING));
        }
        if elapsed >= 2 && (seen.bytes + seen.before) * 100 < 2 * KEPT * trial.rate {
            seen.rests_until = window + (REST << seen.acquittals.min(3));
            seen.acquittals = seen.acquittals.saturating_add(1);
            self.trial = None;
            found(seen.flow, Finding::Acquitted);
        } else if elapsed >= MARKING + DROPPING {
            (seen.demoted, seen.calm) = (trial.rate, 0);
            seen.demotions = seen.demotions.saturating_add(1);
            self.trial = None;
            found(seen.flow, Finding::Demoted);
        }
    }
}

#[cfg(test)]
mod tests;
