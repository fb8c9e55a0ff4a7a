//! Detects fair queuing by what becomes of a light packet that is sent right behind a short train of heavy ones: in a
//! shared queue it can overtake none of them, behind fair queuing it overtakes all that wait. All packets carry user
//! data.
//!
//! A first round of adjacent pairs tells the offset and scatter of the sub-flows' delays ([`baseline`]). Then there is
//! one train per round trip; what each says ([`evidence`]) adds up until the sum is certain enough. Not after so many
//! trains or so much time: unknown.
//!
//! A detection later in the connection sends trains alone, and begins with what the last one found, as far as that may
//! still hold: bottlenecks are taken to change once in [`TrainsParams::change`].

mod baseline;
mod evidence;
#[cfg(test)]
mod link;
mod params;
#[cfg(test)]
mod tests;
mod train;

use weir_core::{Duration, Rate, Time};

use crate::{Departure, Detector, Finding, Outcome, Packet, SubFlow, Testimony, Verdict};
use baseline::{Baseline, MOST_PAIRS, Path};
use evidence::{Evidence, is_plain, share};
pub use params::TrainsParams;
use train::{Car, Train};

/// Packets that Linux's `fq` lets pass in order while no flow has a backlog: the one that is being sent, and eight
/// (`fq_fastpath_check`, `net/sched/sch_fq.c`).
const FAST_PATH: usize = 9;
/// Packets that it then serves of a new flow before its turn ends, if they are of QUIC's usual size (`initial_quantum`
/// of 10 MTU).
const NEW_FLOW: usize = 11;
/// The same of a flow that is not new (`quantum` of 2 MTU).
const TURN: usize = 2;
/// Heavy packets beyond all that by which all is said that can be.
const NEEDED: usize = 5;
/// Spaced trains in which nothing has waited, after which no further one is tried.
const IN_VAIN: usize = 2;

/// What goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// Not begun, or over.
    Rest,
    /// A packet of a pair, the first or the second.
    Pair { sub_flow: SubFlow, begins: bool, at: Time },
    /// Heavy packets of the newest train, so many more.
    Heavy { left: usize, at: Time },
    /// The light packet behind them.
    Light { at: Time },
    /// News of pairs.
    AwaitPairs,
    /// News of the newest train.
    AwaitTrain,
}

/// The detector `trains`.
#[derive(Clone, Debug)]
pub struct Trains {
    params: TrainsParams,
    plan: Plan,
    began: Time,
    baseline: Baseline,
    /// Pairs that there are to be with this round, and the time between them.
    rounds_pairs: usize,
    between_pairs: Duration,
    path: Path,
    trains: Vec<Train>,
    /// Time between packets at the bottleneck, as the trains of the last detection that had some have shown it.
    spacing_before: Option<Duration>,
    /// What each train says, and whether it is closed.
    evidence: Vec<Evidence>,
    closed: usize,
    /// The shortest time from sending to arrival by the two clocks, of the light and the heavy sub-flow.
    least: [i64; 2],
    /// The shortest and the longest time from sending to its news.
    shortest_news: Duration,
    longest_news: Duration,
    last_sent: Time,
    last_news: Time,
    /// The longest time between arrivals of a train.
    longest_gap: Duration,
    /// Heavy packets of earlier detections that have used up what a new flow may send in one turn.
    credit_used: usize,
    /// Log-odds of fair queuing when this detection began, and at the end of the last one.
    prior: f64,
    posterior: f64,
    ended: Option<Time>,
    found: Finding,
    /// What was found before this detection is not to be counted on.
    doubtful: bool,
    outcome: Option<Outcome>,
}

impl Default for Trains {
    fn default() -> Self {
        Self::new(TrainsParams::default())
    }
}

impl Trains {
    /// A detector for one connection.
    pub fn new(params: TrainsParams) -> Self {
        Self {
            params,
            plan: Plan::Rest,
            began: Time::ZERO,
            baseline: Baseline::new(),
            rounds_pairs: 0,
            between_pairs: Duration::ZERO,
            path: Path::default(),
            trains: Vec::with_capacity(params.trains.max(params.trains_again)),
            spacing_before: None,
            evidence: Vec::with_capacity(params.trains.max(params.trains_again)),
            closed: 0,
            least: [i64::MAX; 2],
            shortest_news: Duration::MAX,
            longest_news: Duration::ZERO,
            last_sent: Time::ZERO,
            last_news: Time::ZERO,
            longest_gap: Duration::ZERO,
            credit_used: 0,
            prior: 0.0,
            posterior: 0.0,
            ended: None,
            found: Finding::Unknown,
            doubtful: false,
            outcome: None,
        }
    }

    /// Log-odds of fair queuing by all that was heard, in nats.
    pub fn log_odds(&self) -> f64 {
        self.prior + self.evidence.iter().map(Evidence::sum).sum::<f64>()
    }

    /// Trains that this detection has sent, the one under way included.
    pub fn trains(&self) -> usize {
        self.trains.len()
    }

    fn is_first(&self) -> bool {
        self.ended.is_none()
    }

    /// The shortest time from sending to arrival over the heavy sub-flow's path.
    fn least(&self) -> i64 {
        let [light, heavy] = self.least;
        if self.path.known && light < i64::MAX { heavy.min(light - self.path.offset) } else { heavy }
    }

    fn next_pair(&mut self, at: Time) {
        self.plan = Plan::Pair { sub_flow: self.baseline.first(), begins: true, at };
    }

    /// Time between packets at the bottleneck, as the trains show it.
    fn spacing_of_trains(&self) -> Option<Duration> {
        let mut trains = self.trains.iter().rev();
        if self.path.noisy {
            trains.find_map(Train::even_spacing).and_then(positive)
        } else {
            trains.find_map(Train::spacing)
        }
    }

    /// Time between packets at the bottleneck, as far as is known. Pairs come last: a token bucket lets both packets
    /// of one through at once, and they then show what is far shorter.
    fn spacing(&self) -> Option<Duration> {
        let of_pairs = || positive(self.path.packet).filter(|_| !self.path.noisy);
        self.spacing_of_trains().or(self.spacing_before).or_else(of_pairs)
    }

    /// Heavy packets at the head of the next train that stay in order also behind fair queuing: if the link is idle,
    /// and if it is in use.
    fn heads(&self) -> [usize; 2] {
        let used = |train: &Train| train.arrived().count().saturating_sub(FAST_PATH);
        let used = self.credit_used + self.trains.iter().map(used).sum::<usize>();
        let idle = FAST_PATH + NEW_FLOW.saturating_sub(used).max(TURN);
        let busy = self.trains.iter().filter(|train| train.met_others());
        let used = self.credit_used + busy.map(|train| train.arrived().count()).sum::<usize>();
        [idle, NEW_FLOW.saturating_sub(used).max(TURN) + 1]
    }

    /// Heavy packets of the next train.
    fn size(&self, head: usize) -> usize {
        let params = &self.params;
        let fill = if self.path.noisy { params.fill * 2 } else { params.fill };
        let fills = match self.spacing().map(Duration::as_nanos) {
            None => params.most,
            Some(spacing) => (fill.as_nanos() / spacing.max(1)).min(params.longest as u64) as usize,
        };
        // Beyond the guard on either side, or what exceeds all scatter, there have to be some that say something.
        let guard = if self.path.noisy { 4 * self.path.scatter } else { 2 * self.path.guard };
        let guards = self.spacing().map_or(0, |spacing| guard.max(0) as u64 / spacing.as_nanos().max(1));
        let usual = head + NEEDED + fills.min(guards as usize);
        // Of spaced packets some leave while the others come.
        let apart = params.spacing.as_nanos();
        let usual = match self.spacing().map(Duration::as_nanos) {
            Some(spacing) if spacing > apart => (usual as u64 * spacing / (spacing - apart)) as usize,
            _ => usual,
        };
        let size = match (self.trains.last(), self.evidence.last()) {
            // Just so many that as many are lost as are needed.
            (Some(last), _) if last.missing() > 1 => {
                let behind = last.behind_last();
                let single = last.first_missing() < behind && last.arrived().count() * 8 > behind * 7;
                (if single { behind } else { last.first_missing() }) + NEEDED
            }
            (Some(last), Some(evidence)) if evidence.sum().abs() < 1.0 => {
                let most =
                    if last.is_bunched(&self.path) { params.longest / 2 } else { params.most.max(fills) };
                usual.max((last.heavies.len() * 3 / 2).min(most))
            }
            _ => usual,
        };
        let begins = self.trains.is_empty() && self.spacing_before.is_none();
        let size = if begins { size.min(params.first) } else { size };
        size.clamp(NEEDED + 1, params.longest.max(NEEDED + 1))
    }

    fn next_train(&mut self, at: Time) {
        let heads = self.heads();
        let size = self.size(heads[0]);
        self.trains.push(Train::new(size, heads));
        self.evidence.push(Evidence::default());
        self.plan = Plan::Heavy { left: size, at };
    }

    /// When what has not arrived is taken for lost.
    fn patience(&self) -> Time {
        let longest = self.longest_news;
        if self.last_news <= self.began || self.longest_news == Duration::ZERO {
            // Nothing was heard: the handshake alone tells how long that may take.
            return self.last_sent + self.shortest_news * 3 + Duration::from_millis(200);
        }
        let due = self.last_sent + longest + longest / 4 + Duration::from_millis(10);
        let pause = (self.shortest_news / 4).max(self.longest_gap * 4).max(Duration::from_millis(5));
        due.max(self.last_news + pause)
    }

    /// Looks at what is known of a train.
    fn weigh(&mut self, index: usize) {
        // A path of which nothing is heard at all says nothing of its queues.
        let heard = self.least.iter().any(|least| *least < i64::MAX);
        let least = self.least();
        let mut evidence =
            if heard { Evidence::of(&self.trains[index], &self.path, least) } else { Evidence::default() };
        if index >= self.proved() {
            evidence.loss = evidence.loss.max(0.0);
        }
        self.evidence[index] = evidence;
    }

    /// Trains whose losses are proved: something has arrived that was sent later. All that is missing of the others may
    /// be late, as it is while a host on the way has no processor to run on.
    fn proved(&self) -> usize {
        self.trains.iter().rposition(Train::is_heard).unwrap_or(0)
    }

    /// Begins another round of pairs.
    fn ask_pairs(&mut self, now: Time, between: Duration) {
        self.between_pairs = between;
        self.baseline.begin_round();
        self.rounds_pairs = (self.baseline.len() + self.params.pairs + 1).min(MOST_PAIRS);
        self.next_pair(now);
    }

    fn close_pairs(&mut self, now: Time) {
        self.path = self.baseline.path(self.params.guard);
        let more = self.baseline.wants_more(&self.path).filter(|_| self.params.pairs > 0);
        if let Some(between) = more {
            self.ask_pairs(now, between);
        } else if self.path.apart {
            self.finish(now, Finding::Unknown);
        } else if self.trains.is_empty() {
            self.next_train(now);
        } else {
            self.close_train(now);
        }
    }

    /// The pairs' own packet time may be scatter alone; a train shows it better. Tells whether what was thought clear
    /// is noisy.
    fn sees_noise(&mut self) -> bool {
        let Some(spacing) = self.trains.last().and_then(Train::even_spacing) else { return false };
        let was = std::mem::replace(&mut self.path.noisy, true);
        self.path.noisy =
            was || self.path.known && 2 * self.path.worst > spacing.max(nanos(self.params.guard));
        !was && self.path.noisy
    }

    fn close_train(&mut self, now: Time) {
        self.closed = self.trains.len();
        if self.sees_noise() && self.is_first() && self.baseline.is_short() {
            return self.ask_pairs(now, self.params.guard.max(Duration::from_millis(5)));
        }
        for index in 0..self.closed {
            self.weigh(index);
        }
        let odds = self.log_odds();
        let certain = self.params.certain;
        let leave = if self.found == Finding::Unknown { certain } else { self.params.leave };
        let most =
            if self.is_first() || self.doubtful { self.params.trains } else { self.params.trains_again };
        if odds >= certain {
            self.finish(now, Finding::FairQueued);
        } else if odds <= -leave {
            self.finish(now, Finding::Shared);
        } else if self.trains.len() < most && !self.is_in_vain() {
            self.next_train(now);
        } else {
            self.give_up(now);
        }
    }

    /// Whether the path takes packets as fast as the host lets them go, where it keeps them apart: several trains that
    /// could have said something have said nothing, and have grown so little of a queue that the longest train would
    /// not make one either.
    fn is_in_vain(&self) -> bool {
        let vain = |(train, evidence): (&Train, &Evidence)| {
            let packets = train.heavies.len();
            let (Some(first), Some(last)) = (train.heavies.first(), train.heavies.last()) else {
                return false;
            };
            let spacing = last.sent.since(first.sent).as_nanos() / packets as u64;
            // Wider apart than the host needs, for a short buffer: that train was not to make a queue.
            if spacing > 2 * self.params.spacing.as_nanos() {
                return false;
            }
            // A train fills no more of a queue than that.
            let Some(longest) = self.params.fill.as_nanos().checked_div(spacing) else { return false };
            let most = self.params.guard.as_nanos() * packets as u64 / longest.max(1);
            let is_even = train.growth().is_some_and(|growth| growth.unsigned_abs() <= most);
            is_even && packets >= train.head() + NEEDED && *evidence == Evidence::default()
        };
        self.trains.iter().zip(&self.evidence).filter(|train| vain(*train)).count() >= IN_VAIN
    }

    /// Trains or time are used up.
    fn give_up(&mut self, now: Time) {
        let losses: f64 = self.evidence.iter().map(|evidence| evidence.loss).sum();
        let heard = self.least.iter().any(|least| *least < i64::MAX);
        let share = if heard { share(&self.trains[..self.proved()]) } else { 0.0 };
        let odds = self.log_odds() - losses + share;
        let certain = self.params.certain;
        let finding = match self.found {
            _ if odds >= certain => Finding::FairQueued,
            _ if odds <= -certain => Finding::Shared,
            // What was found is kept while more speaks for it than against it.
            Finding::FairQueued if self.log_odds() > 0.0 => Finding::FairQueued,
            Finding::Shared if self.log_odds() < 0.0 => Finding::Shared,
            _ => Finding::Unknown,
        };
        self.finish(now, finding);
    }

    fn finish(&mut self, now: Time, finding: Finding) {
        self.posterior = self.log_odds();
        self.spacing_before = self.spacing_of_trains().or(self.spacing_before);
        self.found = finding;
        self.ended = Some(now);
        self.doubtful = false;
        self.plan = Plan::Rest;
        let verdict = match finding {
            Finding::Unknown => Verdict::default(),
            _ => Verdict { finding, confidence: sigmoid(self.posterior.abs()), why: self.why(finding) },
        };
        self.outcome = Some(Outcome { verdict, rate: self.rate(finding) });
    }

    /// The signal that weighed most for `finding`.
    fn why(&self, finding: Finding) -> &'static str {
        let sign = if finding == Finding::FairQueued { 1.0 } else { -1.0 };
        let sum = |signal: fn(&Evidence) -> f64| sign * self.evidence.iter().map(signal).sum::<f64>();
        let signals =
            [("order", sum(|one| one.order)), ("loss", sum(|one| one.loss)), ("delay", sum(|one| one.delay))];
        let most = signals.into_iter().max_by(|one, other| one.1.total_cmp(&other.1));
        most.filter(|(_, nats)| *nats > 0.0).map_or("share", |(signal, _)| signal)
    }

    /// Behind fair queuing the rate at which the newest train with enough arrivals came through; else what slow start
    /// would have reached.
    fn rate(&self, finding: Finding) -> Option<Rate> {
        let trains = || self.trains.iter().rev();
        if finding == Finding::FairQueued {
            let best = trains().find(|train| train.arrived().count() >= 4);
            let packet = Duration::from_nanos(self.path.packet.max(0) as u64);
            let rate = |train: &Train| train.rate(packet);
            return best.and_then(rate).or_else(|| trains().find_map(rate));
        }
        let train = trains().max_by_key(|train| train.arrived().count())?;
        let bytes: u64 = train.arrived().map(|(car, _)| u64::from(car.bytes)).sum();
        let round = self.longest_news.as_nanos();
        let bits = u128::from(bytes) * 8_000_000_000 / u128::from(round.max(1));
        (bytes > 0 && round > 0).then(|| Rate::from_bits_per_sec(u64::try_from(bits).unwrap_or(u64::MAX)))
    }
}

impl Detector for Trains {
    fn name(&self) -> &'static str {
        "trains"
    }

    fn begin(&mut self, now: Time, rtt: Duration) {
        if let Some(ended) = self.ended {
            let passed = now.since(ended).as_secs_f64() / self.params.change.as_secs_f64().max(1e-9);
            // A chain of two states that changes from either to the other once in that time.
            let fair = 0.5 + (sigmoid(self.posterior) - 0.5) * libm::exp(-2.0 * passed);
            self.prior = libm::log(fair / (1.0 - fair));
            // The controller's packets have done so.
            self.credit_used = NEW_FLOW;
        }
        self.outcome = None;
        self.began = now;
        self.last_sent = now;
        self.last_news = Time::ZERO;
        self.least = [i64::MAX; 2];
        self.trains.clear();
        self.evidence.clear();
        self.closed = 0;
        self.shortest_news = self.shortest_news.min(rtt.max(Duration::from_nanos(1)));
        self.longest_news = Duration::ZERO;
        if self.is_first() && self.params.pairs > 0 {
            self.rounds_pairs = self.params.pairs.min(MOST_PAIRS);
            // All of them within half a round trip, but not so near that they meet on most paths. Inside a building,
            // where a round trip takes less than a millisecond, links are fast. Zero is one that is not known.
            let usual = Duration::from_millis(5);
            let least = if rtt > Duration::ZERO { usual.min(rtt * 4) } else { usual };
            self.between_pairs = (rtt / 16).max(least).min(Duration::from_millis(20));
            self.next_pair(now);
        } else if self.path.apart {
            self.finish(now, Finding::Unknown);
        } else {
            self.next_train(now);
        }
    }

    fn forget(&mut self) {
        (self.posterior, self.found, self.doubtful) = (0.0, Finding::Unknown, true);
    }

    fn next(&self) -> Option<Departure> {
        match self.plan {
            Plan::Pair { sub_flow, at, .. } => Some(Departure { sub_flow, at }),
            Plan::Heavy { at, .. } => Some(Departure { sub_flow: SubFlow::Heavy, at }),
            Plan::Light { at } => Some(Departure { sub_flow: SubFlow::Light, at }),
            Plan::Rest | Plan::AwaitPairs | Plan::AwaitTrain => None,
        }
    }

    fn on_sent(&mut self, packet: &Packet) {
        let &Packet { sub_flow, number, sent, bytes, .. } = packet;
        let car = Car { number, sent, bytes, at: None };
        match self.plan {
            Plan::Pair { sub_flow: asked, begins, at } if asked == sub_flow => {
                self.last_sent = sent;
                self.baseline.on_sent(sub_flow, number, sent, begins);
                let other = if sub_flow == SubFlow::Heavy { SubFlow::Light } else { SubFlow::Heavy };
                if begins {
                    self.plan = Plan::Pair { sub_flow: other, begins: false, at: sent };
                } else if self.baseline.len() < self.rounds_pairs {
                    self.next_pair((at + self.between_pairs).max(sent));
                } else {
                    self.plan = Plan::AwaitPairs;
                }
            }
            Plan::Heavy { left, .. } if sub_flow == SubFlow::Heavy => {
                self.last_sent = sent;
                if let Some(train) = self.trains.last_mut() {
                    train.heavies.push(car);
                }
                self.plan = match left {
                    0 | 1 => Plan::Light { at: sent },
                    _ => Plan::Heavy { left: left - 1, at: sent + self.params.spacing },
                };
            }
            Plan::Light { .. } if sub_flow == SubFlow::Light => {
                self.last_sent = sent;
                if let Some(train) = self.trains.last_mut() {
                    train.light = Some(car);
                }
                self.plan = Plan::AwaitTrain;
            }
            // What the host sends of its own accord, or the controller between trains, is part of no train.
            _ => {}
        }
    }

    fn on_arrival(&mut self, now: Time, packet: &Packet, at: Time) {
        let &Packet { sub_flow, number, sent, .. } = packet;
        let took = now.since(sent);
        let index = sub_flow.index();
        self.least[index] = self.least[index].min(signed(at, sent));
        let mut known = self.is_first() && self.baseline.on_arrival(sub_flow, number, at);
        if !known {
            let trains = self.trains.iter_mut().enumerate().rev();
            let found = trains.filter_map(|(index, train)| {
                let before = train.arrived().map(|(_, at)| at).max();
                let found = match sub_flow {
                    SubFlow::Heavy => train.heavy_arrived(number, at),
                    SubFlow::Light => train.light_arrived(number, at),
                };
                found.then_some((index, before))
            });
            let found = { found }.next();
            if let Some((train, before)) = found {
                known = true;
                if let (SubFlow::Heavy, Some(before)) = (sub_flow, before) {
                    self.longest_gap = self.longest_gap.max(at.since(before));
                }
                // It was taken for lost too early.
                if train < self.closed {
                    self.weigh(train);
                }
            }
        }
        if !known {
            return;
        }
        self.last_news = now;
        self.shortest_news = self.shortest_news.min(took);
        self.longest_news = self.longest_news.max(took);
        match self.plan {
            Plan::AwaitPairs if self.baseline.is_complete() => self.close_pairs(now),
            Plan::AwaitTrain => {
                let Some(train) = self.trains.last_mut() else { return };
                if is_plain(train, &self.path) {
                    train.cut();
                    self.close_train(now);
                } else if train.is_complete() {
                    self.close_train(now);
                }
            }
            _ => {}
        }
    }

    fn timer(&self) -> Option<Time> {
        let deadline = self.began + self.params.deadline;
        match self.plan {
            Plan::Rest => None,
            Plan::AwaitPairs | Plan::AwaitTrain => Some(self.patience().min(deadline)),
            Plan::Pair { .. } | Plan::Heavy { .. } | Plan::Light { .. } => Some(deadline),
        }
    }

    fn on_timer(&mut self, now: Time) {
        let due = self.patience() <= now;
        match self.plan {
            Plan::Rest => {}
            _ if self.began + self.params.deadline <= now => self.give_up(now),
            Plan::AwaitPairs if due => self.close_pairs(now),
            Plan::AwaitTrain if due => self.close_train(now),
            _ => {}
        }
    }

    fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    fn testimony(&self) -> Vec<Testimony> {
        let said = |(train, evidence): (&Train, &Evidence)| Testimony {
            packets: train.heavies.len() as u32,
            arrived: train.arrived().count() as u32,
            light_arrived: train.light.is_some_and(|light| light.at.is_some()),
            order: evidence.order,
            loss: evidence.loss,
            delay: evidence.delay,
        };
        self.trains.iter().zip(&self.evidence).map(said).collect()
    }
}

/// A duration in signed nanoseconds; never so long that it would not fit.
fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX / 4)
}

/// A time that is known: zero and less say nothing.
fn positive(nanos: i64) -> Option<Duration> {
    (nanos > 0).then(|| Duration::from_nanos(nanos as u64))
}

/// `at` less `since`, which may be later.
fn signed(at: Time, since: Time) -> i64 {
    at.as_nanos() as i64 - since.as_nanos() as i64
}

/// The probability of log-odds.
fn sigmoid(nats: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-nats))
}
