//! A path for the tests of [`Trains`](super::Trains): one link behind queues of several kinds, cross traffic, a delay
//! that may scatter and may differ between the sub-flows, and news of each packet that arrives.

use std::collections::VecDeque;

use weir_core::{Duration, Random, Time};

use crate::{Detector, Outcome, Packet, SubFlow};

/// What holds packets in front of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One queue.
    Fifo,
    /// By turns of a packet, each flow with a limit.
    Turns,
    /// As Linux's `fq`: a fast path of 8 packets, ten MTUs of credit for a new flow, then turns of two; new flows
    /// first.
    Credit,
    /// By turns; a packet that waited longer than this is dropped at the head every so often, as CoDel does.
    HeadDrop,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) kind: Kind,
    /// Packets that a queue holds besides the one on the link.
    pub(super) limit: usize,
    pub(super) packet: Duration,
    pub(super) rtt: Duration,
    /// Each packet comes by up to so much later, the heavy one's share of it only.
    pub(super) jitter: Duration,
    /// By how much the light sub-flow's path is shorter.
    pub(super) offset: Duration,
    /// Flows besides, and the share of the link that they ask for together, in percent.
    pub(super) cross: usize,
    pub(super) load: u64,
    /// Of a thousand packets that arrive, lost on the way.
    pub(super) lost: u64,
    /// Packets that a link which has rested sends at once, as a token bucket lets it.
    pub(super) bucket: u64,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    packet: Option<Packet>,
    came: Time,
}

/// Bytes of a packet and of Ethernet's largest, for the credit.
const BYTES: i64 = 1494;
const MTU: i64 = 1514;

#[derive(Clone, Debug, Default)]
struct Flow {
    queue: VecDeque<Queued>,
    credit: i64,
    /// In the list of new flows, or of old ones.
    listed: bool,
}

pub(super) struct Link {
    path: Path,
    random: Random,
    now: Time,
    /// The light one, the heavy one, and the others.
    flows: Vec<Flow>,
    /// Of the FIFO, and of the fast path.
    shared: VecDeque<(usize, Queued)>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    on_link: Option<(Time, Option<Packet>)>,
    /// When what was sent so far will be paid for.
    paid: Time,
    /// When each cross flow's next packet comes.
    comes: Vec<Time>,
    news: Vec<(Time, Time, Packet)>,
    numbers: [u64; 2],
    last_drop: Time,
    /// What would arrive between two of these times does so at the second.
    stalls: Vec<(Time, Time)>,
    pub(super) sent: [u64; 2],
    pub(super) dropped: [u64; 2],
}

impl Link {
    pub(super) fn new(path: Path, mut random: Random) -> Self {
        let now = Time::ZERO + Duration::from_secs(1);
        let flow = Flow { credit: 10 * MTU, ..Flow::default() };
        let mut link = Self {
            path,
            now,
            flows: vec![flow; 2 + path.cross],
            shared: VecDeque::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            on_link: None,
            paid: Time::ZERO,
            comes: (0..path.cross).map(|_| now + Duration::from_nanos(random.below(1_000_000))).collect(),
            news: Vec::new(),
            numbers: [0; 2],
            last_drop: Time::ZERO,
            stalls: Vec::new(),
            sent: [0; 2],
            dropped: [0; 2],
            random,
        };
        // The cross traffic has a while to fill what it fills.
        link.pass(now + path.packet * 400);
        link
    }

    /// The far end does nothing for a `time` that begins `after` the end of its last stall, or after now.
    pub(super) fn stall(&mut self, after: Duration, time: Duration) {
        let from = self.stalls.last().map_or(self.now, |stall| stall.1) + after;
        self.stalls.push((from, from + time));
    }

    /// Runs a detection to its end.
    pub(super) fn detect(&mut self, detector: &mut dyn Detector) -> Outcome {
        detector.begin(self.now, self.path.rtt);
        loop {
            if let Some(outcome) = detector.outcome() {
                assert!(detector.next().is_none() && detector.timer().is_none(), "it asks for nothing more");
                return outcome;
            }
            let timer = detector.timer().expect("a detection has a deadline").max(self.now);
            let departure = detector.next().map(|next| (next.at.max(self.now), next.sub_flow));
            let due = departure.map_or(timer, |(at, _)| at.min(timer));
            if let Some(place) = self.next_news(due) {
                let (now, at, packet) = self.news.remove(place);
                self.now = now;
                // The receiver's clock is an hour behind.
                detector.on_arrival(now, &packet, at + Duration::from_secs(3600));
                continue;
            }
            self.pass(due);
            match departure {
                Some((at, sub_flow)) if at <= timer => detector.on_sent(&self.send(sub_flow)),
                _ => detector.on_timer(due),
            }
        }
    }

    /// Lets time pass in which the detector rests.
    pub(super) fn rest(&mut self, time: Duration) {
        self.pass(self.now + time);
        self.news.clear();
    }

    pub(super) fn change(&mut self, kind: Kind) {
        assert!(self.flows.iter().all(|flow| flow.queue.is_empty()), "change it when it is empty");
        self.path.kind = kind;
    }

    /// The earliest news up to `due`, once everything has happened that may make some.
    fn next_news(&mut self, due: Time) -> Option<usize> {
        loop {
            let earliest = self.news.iter().enumerate().min_by_key(|(_, news)| news.0);
            let earliest = earliest.map(|(place, news)| (place, news.0)).filter(|(_, at)| *at <= due);
            let until = earliest.map_or(due, |(_, at)| at);
            match self.next_event().filter(|at| *at <= until) {
                Some(at) => self.happen(at),
                None => return earliest.map(|(place, _)| place),
            }
        }
    }

    fn next_event(&self) -> Option<Time> {
        self.comes.iter().copied().chain(self.on_link.map(|(at, _)| at)).min()
    }

    fn pass(&mut self, until: Time) {
        while let Some(at) = self.next_event().filter(|at| *at <= until) {
            self.happen(at);
        }
        self.now = self.now.max(until);
    }

    fn happen(&mut self, at: Time) {
        self.now = at;
        if self.on_link.is_some_and(|(done, _)| done == at) {
            if let Some((_, Some(packet))) = self.on_link.take() {
                self.arrive(packet);
            }
            return self.serve();
        }
        let Some(place) = self.comes.iter().position(|comes| *comes == at) else { return };
        let gap = self.path.packet.as_nanos() * 100 * self.path.cross as u64 / self.path.load.max(1);
        self.comes[place] = at + Duration::from_nanos(gap / 2 + self.random.below(gap) + 1);
        self.enqueue(2 + place, None);
    }

    fn arrive(&mut self, packet: Packet) {
        if self.random.below(1000) < self.path.lost {
            return;
        }
        let jitter = Duration::from_nanos(self.random.below(self.path.jitter.as_nanos() + 1));
        let offset = if packet.sub_flow == SubFlow::Light { self.path.offset } else { Duration::ZERO };
        let at = self.now + self.path.rtt / 2 + jitter - offset;
        let stall = self.stalls.iter().find(|(from, until)| (*from..*until).contains(&at));
        let at = stall.map_or(at, |(_, until)| *until);
        self.news.push((at.max(self.now) + self.path.rtt / 2, at, packet));
    }

    fn send(&mut self, sub_flow: SubFlow) -> Packet {
        let index = sub_flow.index();
        let packet = Packet {
            sub_flow,
            number: self.numbers[index],
            order: self.sent.iter().sum(),
            sent: self.now,
            bytes: 1425,
        };
        self.numbers[index] += 1;
        self.sent[index] += 1;
        self.enqueue(index, Some(packet));
        packet
    }

    fn enqueue(&mut self, flow: usize, packet: Option<Packet>) {
        let queued = Queued { packet, came: self.now };
        let waits = self.flows.iter().any(|flow| !flow.queue.is_empty());
        let fast = self.path.kind == Kind::Credit && !waits && self.shared.len() < 8;
        let full = match self.path.kind {
            Kind::Fifo => self.shared.len() >= self.path.limit && self.on_link.is_some(),
            _ if fast => false,
            _ => self.flows[flow].queue.len() >= self.path.limit,
        };
        if full {
            if let Some(packet) = packet {
                self.dropped[packet.sub_flow.index()] += 1;
            }
        } else if fast || self.path.kind == Kind::Fifo {
            self.shared.push_back((flow, queued));
        } else {
            self.flows[flow].queue.push_back(queued);
            if !self.flows[flow].listed {
                self.flows[flow].listed = true;
                let list = if self.path.kind == Kind::Credit { &mut self.new } else { &mut self.old };
                list.push_back(flow);
            }
        }
        if self.on_link.is_none() {
            self.serve();
        }
    }

    fn serve(&mut self) {
        let next = self.shared.pop_front().map(|(_, queued)| queued).or_else(|| self.by_turns());
        self.on_link = next.map(|queued| {
            let rested = Time::ZERO + self.now.since(Time::ZERO + self.path.packet * self.path.bucket);
            self.paid = self.paid.max(rested) + self.path.packet;
            (self.paid.max(self.now + Duration::from_micros(1)), queued.packet)
        });
    }

    fn by_turns(&mut self) -> Option<Queued> {
        loop {
            let new = !self.new.is_empty();
            let list = if new { &mut self.new } else { &mut self.old };
            let flow = *list.front()?;
            let state = &mut self.flows[flow];
            if self.path.kind != Kind::Credit {
                list.pop_front();
                let queued = state.queue.pop_front()?;
                state.listed = !state.queue.is_empty();
                if state.listed {
                    list.push_back(flow);
                }
                let late = self.now.since(queued.came) > Duration::from_millis(5) && state.listed;
                let due = self.now.since(self.last_drop) > Duration::from_millis(30);
                if self.path.kind == Kind::HeadDrop && late && due {
                    self.last_drop = self.now;
                    self.dropped[1] += u64::from(queued.packet.is_some());
                    continue;
                }
                return Some(queued);
            }
            if state.credit > 0
                && let Some(queued) = state.queue.pop_front()
            {
                state.credit -= BYTES;
                return Some(queued);
            }
            list.pop_front();
            if state.credit <= 0 {
                state.credit += 2 * MTU;
            } else if state.queue.is_empty() && !new {
                state.listed = false;
                continue;
            }
            self.old.push_back(flow);
        }
    }
}
