//! A path for unit tests of detectors: a link with a rate behind one queue or behind two that are served by turns, a
//! delay, and an answer to every packet.

use std::collections::VecDeque;

use weir_core::{Duration, Time};

use crate::{Detector, Outcome, Packet, SubFlow};

pub(crate) const MSS: u32 = 1448;
/// What a packet has besides its payload.
const HEADERS: u64 = 66;

/// What holds packets in front of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    Shared,
    /// One for each sub-flow, served by turns.
    Fair,
}

pub(crate) struct Toy {
    queue: Queue,
    /// Packets that may wait in a queue.
    limit: usize,
    /// Nanoseconds that the link needs for a packet.
    per_packet: u64,
    rtt: Duration,
    now: Time,
    waiting: [VecDeque<Packet>; 2],
    last_served: usize,
    on_link: Option<(Time, Packet)>,
    /// Arrived: when the sender learns of it, and when that was by the receiver's clock.
    answers: VecDeque<(Time, Time, Packet)>,
    /// Every so often, the other host does nothing for so long.
    stalls: Option<[Duration; 2]>,
    numbers: [u64; 2],
    /// By sub-flow.
    pub(crate) sent: [u64; 2],
    pub(crate) lost: [u64; 2],
}

impl Toy {
    /// A link of `mbit` Mbit/s with a round trip of `rtt_ms` and room for `limit` packets in a queue.
    pub(crate) fn new(queue: Queue, mbit: u64, rtt_ms: u64, limit: usize) -> Self {
        Self {
            queue,
            limit,
            per_packet: (u64::from(MSS) + HEADERS) * 8_000 / mbit,
            rtt: Duration::from_millis(rtt_ms),
            now: Time::from_nanos(1),
            waiting: Default::default(),
            last_served: 0,
            on_link: None,
            answers: VecDeque::new(),
            stalls: None,
            numbers: [0; 2],
            sent: [0; 2],
            lost: [0; 2],
        }
    }

    /// The other host answers nothing at the end of each `every`, for so long.
    pub(crate) fn stalling(self, every: Duration, long: Duration) -> Self {
        Self { stalls: Some([every, long]), ..self }
    }

    /// When an answer comes that would come then if the other host did not stall.
    fn answered(&self, at: Time) -> Time {
        let Some([every, long]) = self.stalls.map(|stalls| stalls.map(Duration::as_nanos)) else { return at };
        let into = at.as_nanos() % every;
        if into < every - long { at } else { at + Duration::from_nanos(every - into) }
    }

    /// Time of the path.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Runs a detection to its end, and says how it ended.
    pub(crate) fn detect(&mut self, detector: &mut dyn Detector) -> Outcome {
        detector.begin(self.now, self.rtt);
        loop {
            if let Some(outcome) = detector.outcome() {
                return outcome;
            }
            self.step(detector);
        }
    }

    /// What happens next.
    fn step(&mut self, detector: &mut dyn Detector) {
        let far = Time::MAX;
        let answer = self.answers.front().map_or(far, |(told, ..)| *told);
        let link = self.on_link.map_or(far, |(at, _)| at);
        let timer = detector.timer().map_or(far, |at| at.max(self.now));
        let departure = detector.next().map_or(far, |next| next.at.max(self.now));
        self.now = answer.min(link).min(timer).min(departure);
        assert!(self.now < far, "{} waits for ever", detector.name());
        if self.now == answer {
            if let Some((_, at, packet)) = self.answers.pop_front() {
                detector.on_arrival(self.now, &packet, at);
            }
        } else if self.now == link {
            if let Some((_, packet)) = self.on_link.take() {
                let answer = self.now + self.rtt;
                // The receiver's clock is an hour ahead.
                let at = answer - self.rtt / 2 + Duration::from_secs(3600);
                self.answers.push_back((self.answered(answer), at, packet));
            }
            self.serve();
        } else if self.now == timer {
            detector.on_timer(self.now);
            assert!(detector.timer() != Some(timer), "the timer of {} stands still", detector.name());
        } else if let Some(next) = detector.next() {
            detector.on_sent(&self.send(next.sub_flow));
        }
    }

    fn send(&mut self, sub_flow: SubFlow) -> Packet {
        let index = sub_flow.index();
        let number = self.numbers[index];
        self.numbers[index] += 1;
        let packet = Packet { sub_flow, number, order: self.sent.iter().sum(), sent: self.now, bytes: MSS };
        self.sent[index] += 1;
        let queue = if self.queue == Queue::Fair { index } else { 0 };
        if self.on_link.is_some() && self.waiting[queue].len() >= self.limit {
            self.lost[index] += 1;
        } else {
            self.waiting[queue].push_back(packet);
            if self.on_link.is_none() {
                self.serve();
            }
        }
        packet
    }

    fn serve(&mut self) {
        let other = 1 - self.last_served;
        let queue = if self.waiting[other].is_empty() { self.last_served } else { other };
        if let Some(packet) = self.waiting[queue].pop_front() {
            self.last_served = queue;
            self.on_link = Some((self.now + Duration::from_nanos(self.per_packet), packet));
        }
    }
}
