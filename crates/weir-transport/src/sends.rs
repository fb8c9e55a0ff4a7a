//! The sending end of a connection: its two sub-flows, and when their packets may go.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration as StdDuration, Instant};

use noq_proto::{Connection, FourTuple, PathEvent, PathId, PathStatus};
use weir_core::{Duration, Ecn, Histogram, Rate, Time};
use weir_fq::{Shared, SubFlow};

use crate::arrivals::path_of;
use crate::clock::Clock;
use crate::departures::Timing;
use crate::door::Passed;
use crate::gates::{Gates, Ledger, Pace};
use crate::load::{Look, Looks};
use crate::qlog::ConnectionLog;
use crate::report;

/// How long the second path may take to be opened; without it there is nothing to detect.
const SECOND: StdDuration = StdDuration::from_secs(3);
/// How often it is tried: the receiver's connection identifiers for it come a little after the handshake. Each attempt
/// that comes too early makes noq ask for them, so it must not be tried with every packet.
const TRY: StdDuration = StdDuration::from_millis(5);

/// The sending end.
pub(crate) struct Sends {
    shared: Shared,
    gates: Arc<Gates>,
    begun: Arc<AtomicBool>,
    clock: Clock,
    paths: [Path; 2],
    second: Second,
    /// Single packets go at least so far apart: none before that time.
    spacing: Duration,
    single: Time,
    /// What noq takes for this host's address on the second path.
    label: IpAddr,
    log: Option<ConnectionLog>,
    late: Late,
    timing: Arc<Timing>,
    looks: Looks,
    /// When the next look is due.
    look: Option<Instant>,
}

/// How late the packets left that a detector had asked for, in nanoseconds.
pub(crate) type Late = Arc<Mutex<Histogram>>;

#[derive(Default)]
struct Path {
    /// None until it can carry data.
    id: Option<PathId>,
    ledger: Ledger,
    pace: Pace,
    rate: Option<Rate>,
    burst: Option<Duration>,
    made_up: Option<Duration>,
    /// A detector has asked for one packet.
    is_single: bool,
    /// When it was to go.
    due: Time,
}

/// How the second path comes into being.
enum Second {
    /// The connection is not up yet.
    Waits,
    /// It is tried to open at one time, and no longer than until the other.
    Opens(Instant, Instant),
    /// It is being validated, no longer than until then.
    Validates(Instant),
    /// It can carry data, or there will be none.
    Settled,
}

impl Sends {
    pub(crate) fn new(
        shared: Shared,
        gates: Arc<Gates>,
        begun: Arc<AtomicBool>,
        clock: Clock,
        spacing: Duration,
        label: IpAddr,
        looks: Looks,
    ) -> Self {
        let (paths, second, single) = (Default::default(), Second::Waits, Time::ZERO);
        let (log, late, look) = (None, Late::default(), None);
        let timing = Arc::new(Timing::thread());
        Self {
            shared,
            gates,
            begun,
            clock,
            paths,
            second,
            spacing,
            single,
            label,
            log,
            late,
            timing,
            looks,
            look,
        }
    }

    /// What it does is written down there.
    pub(crate) fn watched(self, log: Option<ConnectionLog>, late: Late) -> Self {
        Self { log, late, ..self }
    }

    /// That is who lets packets go at their times.
    pub(crate) fn timed(self, timing: &Arc<Timing>) -> Self {
        Self { timing: Arc::clone(timing), ..self }
    }

    /// The connection is up.
    pub(crate) fn on_connected(&mut self, now: Instant) {
        self.paths[SubFlow::Heavy.index()].id = Some(PathId::ZERO);
        self.second = Second::Opens(now, now + SECOND);
    }

    /// Something happened to a path.
    pub(crate) fn on_path(&mut self, event: &PathEvent, now: Instant) {
        let light = &mut self.paths[SubFlow::Light.index()];
        match event {
            PathEvent::Established { id, .. } if *id != PathId::ZERO => {
                light.id = Some(*id);
                self.second = Second::Settled;
            }
            PathEvent::Abandoned { id, .. } if *id != PathId::ZERO => {
                let was_there = light.id.take().is_some();
                if let Second::Validates(until) = self.second {
                    self.second = Second::Opens(now + TRY, until);
                } else if was_there && self.has_begun() {
                    self.shared.lock().give_up(self.clock.time(now));
                }
            }
            _ => {}
        }
    }

    /// Whether the second path can carry data; none while that is not settled.
    fn has_second(&self) -> Option<bool> {
        matches!(self.second, Second::Settled).then(|| self.paths[SubFlow::Light.index()].id.is_some())
    }

    /// Reports of arrivals have come.
    pub(crate) fn on_report(&mut self, now: Instant, bytes: &[u8]) {
        let now = self.clock.time(now);
        for arrival in report::read(bytes) {
            let path = path_of(arrival.path);
            for sub_flow in SubFlow::BOTH {
                let known = &self.paths[sub_flow.index()];
                if known.id == Some(path)
                    && let Some(number) = known.ledger.find(arrival.number)
                {
                    let mut shared = self.shared.lock();
                    if let Some(log) = self.log.as_ref().filter(|_| shared.is_detecting()) {
                        log.arrived(now, sub_flow, number, arrival.at);
                    }
                    shared.on_arrival(now, sub_flow, number, arrival.at);
                }
            }
        }
    }

    fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// Does what is due: opens the second path, begins the detection once there is user data, wakes the detector.
    pub(crate) fn drive(&mut self, connection: &mut Connection, has_bulk: bool, now: Instant) {
        match self.second {
            Second::Opens(due, until) if due <= now => {
                let Ok(first) = connection.network_path(PathId::ZERO) else { return };
                let second = FourTuple::new(first.remote(), Some(self.label));
                self.second = match connection.open_path(second, PathStatus::Available, now) {
                    Ok(_) => Second::Validates(until),
                    Err(_) if now < until => Second::Opens(now + TRY, until),
                    Err(_) => Second::Settled,
                };
            }
            Second::Validates(until) if until <= now => self.second = Second::Settled,
            _ => {}
        }
        self.look(connection, now);
        if let Some(has_second) = self.has_second()
            && has_bulk
            && !self.has_begun()
        {
            // Reports are some time apart, and either end's thread may have to wait for its turn.
            self.shared.lock().distrust_silence();
            if let Some(rtt) = connection.rtt(PathId::ZERO) {
                self.shared.lock().on_handshake(rtt.into());
            }
            self.begun.store(true, Ordering::Relaxed);
            if !has_second {
                self.shared.lock().give_up(self.clock.time(now));
            }
        }
        if self.has_begun() {
            let now = self.clock.time(now);
            self.wake(now + self.ahead());
            if let Some(log) = &mut self.log {
                log.look(now, &self.shared.lock());
            }
        }
    }

    /// Keeps what others know of the paths up to date.
    fn look(&mut self, connection: &mut Connection, now: Instant) {
        /// Nobody looks more often.
        const APART: StdDuration = StdDuration::from_millis(5);
        if self.look.is_some_and(|due| now < due) {
            return;
        }
        for sub_flow in SubFlow::BOTH {
            let stats = self.paths[sub_flow.index()].id.and_then(|id| connection.path_stats(id));
            let Some(stats) = stats else { continue };
            let look = Look {
                rtt: stats.rtt,
                sent_bytes: stats.sent_bytes,
                lost_bytes: stats.lost_bytes,
                lost_packets: stats.lost_packets,
                congestion_events: stats.congestion_events,
            };
            self.looks.set(sub_flow, look);
        }
        // Until then somebody may wait for it.
        if self.has_second().is_some() {
            self.looks.settle();
            self.look = Some(now + APART);
        }
    }

    /// How long before its time the next packet is to be handed over; zero if none has a time.
    fn ahead(&self) -> Duration {
        let ahead = self.timing.ahead();
        if ahead > Duration::ZERO && self.shared.lock().departure().is_some() {
            ahead
        } else {
            Duration::ZERO
        }
    }

    /// Wakes what is due of the detector and the controller.
    fn wake(&self, now: Time) {
        /// More at one time would be a fault of theirs, which must not stop the thread.
        const MOST: usize = 16;
        let mut shared = self.shared.lock();
        for _ in 0..MOST {
            let due =
                SubFlow::BOTH.iter().any(|sub_flow| shared.timer(*sub_flow).is_some_and(|due| due <= now));
            if !due {
                break;
            }
            shared.on_timer(now);
        }
    }

    /// Opens and shuts the doors of both paths, before noq is asked for a packet.
    pub(crate) fn prepare(&mut self, connection: &Connection, now: Instant) {
        /// Bits per second; no window is so small that its rate would not count as one.
        const SLOWEST: u64 = 8_000;
        /// Windows above this are those of single packets, unless there is a rate: some controllers go by that alone.
        const LARGEST: u64 = u32::MAX as u64;
        let (has_begun, now, ahead) = (self.has_begun(), self.clock.time(now), self.timing.ahead());
        for sub_flow in SubFlow::BOTH {
            let path = &mut self.paths[sub_flow.index()];
            (path.rate, path.is_single) = (None, false);
            if has_begun && let Some(id) = path.id {
                let shared = self.shared.lock();
                let (window, rate) = (shared.window(sub_flow), shared.pacing(sub_flow));
                (path.burst, path.made_up) = (shared.burst(sub_flow), shared.made_up(sub_flow));
                path.due = shared.departure().map_or(now, |next| next.at).max(self.single);
                drop(shared);
                let by_window = || {
                    // RFC 9002 section 7.7: a little faster than a window per round trip.
                    let rtt = connection.rtt(id).filter(|rtt| !rtt.is_zero())?;
                    let bits = u128::from(window) * 10 * 1_000_000_000 / rtt.as_nanos();
                    Some(Rate::from_bits_per_sec(u64::try_from(bits).ok()?.max(SLOWEST)))
                };
                path.is_single = window > LARGEST && rate.is_none();
                path.rate = if window == 0 || path.is_single { None } else { rate.or_else(by_window) };
            }
            let is_early = if path.is_single {
                now + ahead < self.single
            } else {
                path.rate.is_some() && now < path.pace.next()
            };
            self.gates.door(sub_flow).set_shut(is_early);
        }
    }

    /// The packet that noq has made is handed to the network now; its time, if that matters: it must go alone.
    pub(crate) fn departing(&mut self, now: Instant) -> Option<Instant> {
        let mut alone = None;
        let now = self.clock.time(now);
        let is_kernel = self.timing.ahead() > Duration::ZERO;
        for sub_flow in SubFlow::BOTH {
            let Some(Passed { number, mut sent, forced }) = self.gates.door(sub_flow).take() else {
                continue;
            };
            if !self.has_begun() {
                continue;
            }
            let path = &mut self.paths[sub_flow.index()];
            // The kernel keeps to the time that was asked for.
            let now = if is_kernel && path.is_single { now.max(path.due) } else { now };
            sent.now = now;
            let detects = {
                let mut shared = self.shared.lock();
                let detects = shared.is_detecting();
                shared.on_sent(sub_flow, &sent);
                detects
            };
            let number = path.ledger.push(number);
            if let Some(log) = self.log.as_ref().filter(|_| path.is_single || forced && detects) {
                log.sent(sub_flow, number, now, sent.bytes, forced);
            }
            if path.is_single {
                if !is_kernel {
                    let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
                    late.record(now.since(path.due).as_nanos());
                }
                self.single = now + self.spacing;
                alone = Some(self.clock.instant(now));
            }
            path.pace.pass(now, u64::from(sent.bytes), path.rate, path.burst, path.made_up);
        }
        alone
    }

    /// The codepoint of its packets.
    pub(crate) fn ecn(&self) -> Ecn {
        self.shared.lock().ecn().codepoint()
    }

    /// When [`drive`](Self::drive) must be called at the latest, and whether to the microsecond.
    pub(crate) fn timer(&self) -> Option<(Instant, bool)> {
        let second = match self.second {
            Second::Opens(due, _) => Some(due),
            Second::Validates(until) => Some(until),
            Second::Waits | Second::Settled => None,
        };
        let mut next = second.map(|due| (due, false));
        let mut add = |due: Option<Time>, is_exact| {
            let due = due.map(|due| (self.clock.instant(due), is_exact));
            next = [next, due].into_iter().flatten().min();
        };
        if self.has_begun() {
            let ahead = self.ahead();
            let early = |due: Time| Time::ZERO + due.since(Time::ZERO + ahead);
            let is_exact = ahead == Duration::ZERO;
            let shared = self.shared.lock();
            for sub_flow in SubFlow::BOTH {
                add(shared.timer(sub_flow).map(early), is_exact);
                let path = &self.paths[sub_flow.index()];
                let next = if path.is_single { early(self.single) } else { path.pace.next() };
                add(self.gates.door(sub_flow).is_wanted().then_some(next), path.is_single && is_exact);
            }
        }
        next
    }
}
