//! The state of a workload and of the connections that work for it.

use std::collections::VecDeque;

use weir_core::{Duration, Random, Seed, Time};

use super::{Pattern, Request, WorkloadReport, WorkloadSpec};

/// What a connection does for a workload.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) workload: u32,
    /// Requests that are under way: which, and how many bytes the receiver has in all when it is done.
    goals: VecDeque<(usize, u64)>,
    /// Bytes that the sender will be asked for next; of an on-off source, those that it had sent before.
    pub(crate) asked: u64,
    /// Whether the request opens its connection with a SYN-ACK, and closes it with a FIN of its own.
    pub(crate) control: [bool; 2],
    /// Bytes of its streams so far that were SYN-ACKs and FINs.
    pub(crate) control_bytes: u64,
    /// The time of being on that has not ended.
    pub(crate) current: Option<usize>,
    /// It has carried a request before.
    pub(crate) used: bool,
    /// It waits for work.
    pub(crate) free: bool,
    /// Thinking, or times of on and off.
    pub(crate) times: Random,
    player: Player,
}

/// A player's buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Player {
    /// What it held at `looked`.
    held: Duration,
    looked: Time,
    plays: bool,
}

impl Task {
    pub(crate) fn new(workload: u32, times: Random) -> Self {
        Self {
            workload,
            goals: VecDeque::new(),
            asked: 0,
            control: [false; 2],
            control_bytes: 0,
            current: None,
            used: false,
            free: false,
            times,
            player: Player::default(),
        }
    }

    /// Whether all that was asked for has arrived.
    pub(crate) fn is_idle(&self) -> bool {
        self.goals.is_empty()
    }

    /// The receiver will have `goal` bytes when `request` is done.
    pub(crate) fn expect(&mut self, request: usize, goal: u64) {
        self.goals.push_back((request, goal));
    }

    /// The bytes at which all that is under way is done; what the receiver has if there is nothing.
    pub(crate) fn goal(&self, received: u64) -> u64 {
        self.goals.back().map_or(received, |(_, goal)| *goal)
    }

    /// A request that is done now that the receiver has `received` bytes.
    pub(crate) fn done(&mut self, received: u64) -> Option<usize> {
        let (request, goal) = *self.goals.front()?;
        (goal <= received).then(|| {
            self.goals.pop_front();
            request
        })
    }
}

/// A workload.
pub(crate) struct Workload {
    pub(crate) spec: WorkloadSpec,
    pub(crate) began: Time,
    arrivals: Random,
    sizes: Random,
    controllers: Random,
    seed: Seed,
    /// Connections that wait for work.
    pub(crate) idle: Vec<u32>,
    /// Requests that wait for a connection.
    pub(crate) waiting: VecDeque<usize>,
    pub(crate) connections: u32,
    requests: Vec<Request>,
    /// Requests that have not arrived in full.
    open: u64,
    /// Users who will ask again, or a crowd that will.
    pub(crate) asking: u32,
    /// When the last of those that have come to an end did so.
    last: Time,
    waited: u64,
    stalls: u64,
    stalled: Duration,
    /// It has reported that it is done.
    pub(crate) told: bool,
}

impl Workload {
    pub(crate) fn new(spec: WorkloadSpec, began: Time, index: usize, seed: Seed) -> Self {
        let stream = |what| seed.stream(&format!("workload {index} {what}"));
        Self {
            spec,
            began,
            arrivals: stream("arrivals"),
            sizes: stream("sizes"),
            controllers: stream("controllers"),
            seed,
            idle: Vec::new(),
            waiting: VecDeque::new(),
            connections: 0,
            requests: Vec::new(),
            open: 0,
            asking: 0,
            last: Time::ZERO,
            waited: 0,
            stalls: 0,
            stalled: Duration::ZERO,
            told: false,
        }
    }

    pub(crate) fn report(&self) -> WorkloadReport<'_> {
        let Self { requests, connections, waited, stalls, stalled, .. } = self;
        WorkloadReport {
            requests,
            received: 0,
            done: self.is_done(),
            ended: self.ended(),
            connections: *connections,
            waited: *waited,
            stalls: *stalls,
            stalled: *stalled,
        }
    }

    /// Whether it comes to an end by itself.
    pub(crate) fn is_limited(&self) -> bool {
        self.spec.length.is_some() || self.spec.requests.is_some()
    }

    /// Whether nothing will be asked for and all that was has come.
    pub(crate) fn is_done(&self) -> bool {
        self.asking == 0 && self.open == 0
    }

    /// When it was over; none while it is not, or if it has no end.
    fn ended(&self) -> Option<Time> {
        if !self.is_limited() || !self.is_done() {
            return None;
        }
        let has_all = self.spec.requests.is_some_and(|count| self.requests.len() as u64 >= count);
        // Until its time is up somebody might have asked.
        let time = self.spec.length.filter(|_| !has_all).map_or(Time::ZERO, |length| self.began + length);
        Some(self.last.max(time))
    }

    /// Whether something may still be asked for at `time`.
    pub(crate) fn asks_at(&self, time: Time) -> bool {
        self.spec.length.is_none_or(|length| time < self.began + length)
            && self.spec.requests.is_none_or(|count| (self.requests.len() as u64) < count)
    }

    /// Time until the next of the crowd comes, who come at `rate` per second.
    pub(crate) fn gap(&mut self, rate: f64) -> Duration {
        Duration::from_secs(1).scale(super::exponential(&mut self.arrivals) / rate)
    }

    /// Notes a request of now.
    pub(crate) fn ask(&mut self, now: Time) -> usize {
        let bytes = match self.spec.pattern {
            Pattern::Poisson { size, .. } | Pattern::Requests { size, .. } => size.draw(&mut self.sizes),
            Pattern::Video { segment, bitrate, .. } => bitrate.bytes_in(segment).0.max(1),
            Pattern::OnOff { .. } => 0,
        };
        self.requests.push(Request { start: now, bytes, finished: None });
        self.open += 1;
        self.requests.len() - 1
    }

    pub(crate) fn bytes(&self, request: usize) -> u64 {
        self.requests[request].bytes
    }

    /// An on-off source has sent so much.
    pub(crate) fn sent(&mut self, request: usize, bytes: u64) {
        self.requests[request].bytes = bytes;
    }

    /// A request has arrived in full; or datagrams, for whose arrival nobody waits, have been sent.
    pub(crate) fn finish(&mut self, request: usize, at: Time) {
        self.last = self.last.max(at);
        if !matches!(self.spec.pattern, Pattern::OnOff { .. }) {
            self.requests[request].finished = Some(at);
        }
        self.open -= 1;
    }

    pub(crate) fn wait(&mut self, request: usize) {
        self.waiting.push_back(request);
        self.waited += 1;
    }

    /// What a new controller draws from.
    pub(crate) fn controller_draws(&mut self) -> Random {
        Seed { seed: self.controllers.next_u64(), ..self.seed }.stream("controller")
    }

    /// What a connection draws from: its own losses and marks, and its user's times.
    pub(crate) fn connection_draws(&self, index: usize, connection: u32) -> [Random; 2] {
        ["", " times"]
            .map(|what| self.seed.stream(&format!("workload {index} connection {connection}{what}")))
    }

    /// A player has a further segment at `at`. Returns when it has room for the next one.
    pub(crate) fn watch(&mut self, task: &mut Task, at: Time) -> Time {
        let Pattern::Video { segment, buffer, .. } = self.spec.pattern else { return at };
        let player = &mut task.player;
        if player.plays {
            let shown = at.since(player.looked);
            if shown > player.held {
                self.stalls += 1;
                self.stalled = self.stalled + (shown - player.held);
            }
            // Durations stop at zero.
            player.held = player.held - shown;
        }
        *player = Player { held: player.held + segment, looked: at, plays: true };
        at + (player.held + segment - buffer.max(segment))
    }
}
