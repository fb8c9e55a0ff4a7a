//! What the detector keeps of a sub-flow: its rate and next departure, its packets in flight and how their loss is
//! told, its intervals and their newest result.

use std::collections::VecDeque;

use weir_core::{Duration, Time};

use super::interval::{Interval, Measured};
use super::{DoublingParams, Pace};
use crate::Packet;

/// Lateness that a sender makes good with shorter gaps.
const LATENESS: Duration = Duration::from_millis(10);

/// The result of an interval.
#[derive(Clone, Copy, Debug)]
pub(super) enum Report {
    /// In place of one that was thrown away.
    Nothing,
    Measured(Measured),
}

#[derive(Clone, Copy, Debug)]
struct Flying {
    sent: Time,
    bytes: u32,
    /// Counts intervals; none if it belongs to none.
    interval: Option<u64>,
    /// Supposed to carry the data of a lost one.
    again: bool,
    known: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Lane {
    /// Bits of payload per second.
    pub(super) rate: f64,
    /// When its next packet departs.
    pub(super) due: Time,
    /// The newest result, and whether it is newer than the last round.
    pub(super) report: Option<Report>,
    pub(super) fresh: bool,
    /// Since the detection began.
    pub(super) has_lost: bool,
    pub(super) lost_in_round: bool,
    /// In nanoseconds: of the round trip, as the tail's timer and the length of intervals have it.
    smoothed: Option<f64>,
    variation: f64,
    mean: Option<f64>,
    /// In order of number; the first is not known to have arrived or to be lost.
    flying: VecDeque<Flying>,
    first: u64,
    /// What was sent for the first time before this number has arrived, or is lost.
    judged: u64,
    /// Lost packets whose data was not sent again.
    owed: u64,
    intervals: VecDeque<Interval>,
    first_interval: u64,
}

impl Lane {
    pub(super) fn new(params: &DoublingParams) -> Self {
        let smoothed = params.first_rtt.map(|rtt| rtt.as_nanos() as f64);
        Self {
            rate: 0.0,
            due: Time::ZERO,
            report: None,
            fresh: false,
            has_lost: false,
            lost_in_round: false,
            smoothed,
            variation: smoothed.unwrap_or_default() / 2.0,
            mean: None,
            flying: VecDeque::new(),
            first: 0,
            judged: 0,
            owed: 0,
            intervals: VecDeque::new(),
            first_interval: 0,
        }
    }

    /// A detection begins; what is known of the round trip stays.
    pub(super) fn begin(&mut self, now: Time, rate: f64) {
        (self.rate, self.due) = (rate, now);
        (self.report, self.fresh, self.has_lost, self.lost_in_round) = (None, false, false, false);
        self.flying.clear();
        self.owed = 0;
        self.forget_intervals();
    }

    pub(super) fn schedule(&mut self, now: Time, gap: Duration) {
        self.due = self.due.max(now - LATENESS) + gap;
    }

    pub(super) fn mean_rtt(&self) -> Option<Duration> {
        self.mean.map(|mean| Duration::from_nanos(mean as u64))
    }

    /// The round trip of a packet.
    pub(super) fn sample(&mut self, rtt: Duration) {
        let rtt = rtt.as_nanos() as f64;
        let smoothed = match self.smoothed {
            None => {
                self.variation = rtt / 2.0;
                rtt
            }
            Some(smoothed) => {
                let smoothed = (7.0 * smoothed + rtt) / 8.0;
                self.variation = (7.0 * self.variation + (rtt - smoothed).abs()) / 8.0;
                smoothed
            }
        };
        self.smoothed = Some(smoothed);
        self.mean = Some(self.mean.map_or(rtt, |mean| (3.0 * mean + rtt) / 4.0));
    }

    /// When the oldest packet in flight is lost for want of news.
    pub(super) fn tail_due(&self) -> Option<Time> {
        let patience = 2.0 * self.smoothed? + 4.0 * self.variation;
        Some(self.flying.front()?.sent + Duration::from_nanos(patience as u64))
    }

    /// Packets sent from now on belong to a new interval.
    pub(super) fn open_interval(&mut self, end: Time) {
        self.intervals.push_back(Interval::new(end, self.rate));
    }

    pub(super) fn forget_intervals(&mut self) {
        self.first_interval += self.intervals.len() as u64;
        self.intervals.clear();
    }

    fn pop_interval(&mut self) -> Option<Interval> {
        let interval = self.intervals.pop_front()?;
        self.first_interval += 1;
        Some(interval)
    }

    /// Whether all is known of the oldest interval, and another runs.
    pub(super) fn knows_oldest(&self) -> bool {
        self.intervals.len() > 1 && self.intervals.front().is_some_and(Interval::is_known)
    }

    /// The result of that one.
    pub(super) fn take_oldest(&mut self) -> Option<Measured> {
        let measured = self.pop_interval()?.measured();
        self.report = Some(Report::Measured(measured));
        Some(measured)
    }

    pub(super) fn on_sent(&mut self, params: &DoublingParams, packet: &Packet) {
        let now = packet.sent;
        if params.pace == Pace::Feedback
            && self.intervals.is_empty()
            && let Some(rtt) = self.mean_rtt()
        {
            self.open_interval(now + rtt.scale(params.round_trips));
        }
        let mut belongs = None;
        let newest = self.first_interval + self.intervals.len() as u64;
        if let Some(interval) = self.intervals.back_mut()
            && (params.pace == Pace::Clock || now <= interval.end)
        {
            interval.on_sent(packet.bytes, now);
            belongs = Some(newest - 1);
        }
        let again = params.again_by_timer && self.owed > 0;
        self.owed -= u64::from(again);
        if self.flying.is_empty() {
            self.first = packet.number;
        }
        self.flying.push_back(Flying {
            sent: now,
            bytes: packet.bytes,
            interval: belongs,
            again,
            known: false,
        });
    }

    pub(super) fn on_arrival(&mut self, params: &DoublingParams, now: Time, packet: &Packet, at: Time) {
        self.sample(now.since(packet.sent));
        let Some(flying) = self.flying_at(packet.number).filter(|flying| !flying.known) else { return };
        if !flying.again {
            self.overtaken(params, now, packet.number);
        }
        self.learn(params, now, packet.number, Some(at));
        self.tidy();
    }

    /// The oldest packets in flight are lost that were due until then.
    pub(super) fn lose_tail(&mut self, params: &DoublingParams, now: Time, until: Time) {
        while self.tail_due().is_some_and(|due| due <= until) {
            let first = self.first;
            let reported = self.learn(params, now, first, None);
            self.after_loss(params, reported);
            self.tidy();
        }
    }

    fn flying_at(&self, number: u64) -> Option<Flying> {
        self.flying.get(usize::try_from(number.checked_sub(self.first)?).ok()?).copied()
    }

    /// A packet has arrived: those that should have come before it are lost.
    fn overtaken(&mut self, params: &DoublingParams, now: Time, arrived: u64) {
        let until = arrived.saturating_sub(params.reordering);
        let (mut lost, mut reported) = (false, false);
        for number in self.judged.max(self.first)..until {
            if self.flying_at(number).is_some_and(|flying| !flying.known && !flying.again) {
                reported |= self.learn(params, now, number, None);
                lost = true;
            }
        }
        self.judged = self.judged.max(until);
        if lost {
            self.after_loss(params, reported);
        }
    }

    /// A first loss takes the interval with it, unless that has just ended.
    fn after_loss(&mut self, params: &DoublingParams, reported: bool) {
        self.lost_in_round = true;
        if params.fills_first && !self.has_lost {
            self.forget_intervals();
            if !reported {
                self.post(Report::Nothing);
            }
        }
        self.has_lost = true;
    }

    /// It is known that a packet has arrived, or (none) that it is lost. Whether that has brought a result.
    fn learn(&mut self, params: &DoublingParams, now: Time, number: u64, arrived: Option<Time>) -> bool {
        // What was known before this packet was heard of ends an interval, too.
        let mut reported = params.pace == Pace::Feedback && self.end_interval(now, true);
        let index = (number - self.first) as usize;
        let Some(flying) = self.flying.get_mut(index) else { return reported };
        flying.known = true;
        self.owed += u64::from(arrived.is_none());
        if let Some(serial) = flying.interval.and_then(|serial| serial.checked_sub(self.first_interval))
            && let Some(interval) = self.intervals.get_mut(serial as usize)
        {
            match arrived {
                Some(at) => interval.on_arrival(flying.bytes, at),
                None => interval.on_loss(flying.bytes),
            }
        }
        reported |= params.pace == Pace::Feedback && self.end_interval(now, false);
        reported
    }

    /// Ends the interval if its time is over and all is known. A lone packet has no rate, which the program minds
    /// unless all was known before.
    fn end_interval(&mut self, now: Time, before: bool) -> bool {
        if !self.intervals.front().is_some_and(|interval| now >= interval.end && interval.is_known()) {
            return false;
        }
        let Some(interval) = self.pop_interval() else { return false };
        let counts = before || interval.has_length();
        if counts {
            self.post(Report::Measured(interval.measured()));
        }
        counts
    }

    fn post(&mut self, report: Report) {
        (self.report, self.fresh) = (Some(report), true);
    }

    fn tidy(&mut self) {
        while self.flying.front().is_some_and(|flying| flying.known) {
            self.flying.pop_front();
            self.first += 1;
        }
    }
}
