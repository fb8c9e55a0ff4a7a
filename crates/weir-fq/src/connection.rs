//! A connection of two sub-flows: detects, chooses a controller, and looks again.

use weir_cc::{Ack, Controller, Count, EcnUse, Sent, Timeout};
use weir_core::{Duration, Rate, Time};

use crate::flying::Flying;
use crate::lookout::Lookout;
use crate::{Departure, Detector, Finding, Isolation, Outcome, Packet, SubFlow, Testimony, Verdict};

/// A window that holds nothing back. noq's own pacer is off for windows above `u32::MAX`.
const OPEN: u64 = 1 << 40;

/// By what a controller is made.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    /// How the detection ended.
    pub outcome: Outcome,
    /// The round trip over which it is to keep the outcome's rate: the shortest so far, or the present one where a
    /// queue turned out to be shared; zero if none is known.
    pub rtt: Duration,
}

/// Makes the controller of the heavy sub-flow for what was found.
pub type Choose = Box<dyn FnMut(&Chosen) -> Box<dyn Controller> + Send + Sync>;

/// How a connection detects and what it does then.
pub struct Options {
    /// By which it finds out.
    pub detector: Box<dyn Detector>,
    /// What it chooses by the outcome. Asked again only when fair queuing is found, or is no longer.
    pub choose: Choose,
    /// So long after a detection it begins the next, up to four times as long where a lookout is kept and what was
    /// found is confirmed; none: one detection is all.
    pub again: Option<Duration>,
    /// Watches a queue that was found to be its own: if it is not, nothing is held found, and a detection begins at
    /// once. With it and [`again`](Self::again) the light sub-flow looks out for changes too, by a packet now and then.
    pub isolation: Option<Isolation>,
    /// How its packets take part in ECN, whatever the chosen controller says.
    pub ecn: EcnUse,
}

/// What a connection has found out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// The newest verdict; unknown until the first detection has ended.
    pub verdict: Verdict,
    /// When the first detection began.
    pub began: Option<Time>,
    /// When it ended.
    pub decided: Option<Time>,
    /// Packets that were sent until then, by sub-flow.
    pub sent: [u64; 2],
    /// Of these, lost.
    pub lost: u64,
    /// Each change of the finding, with its time; the first detection's is the first.
    pub changes: Vec<(Time, Finding)>,
    /// Detections that have ended.
    pub detections: u64,
    /// How often somebody else was in a queue that had been found to be the connection's own.
    pub alarms: u64,
    /// The rate at which the newest detection lets the connection go on; none if nothing is known of it.
    pub rate: Option<Rate>,
    /// The shortest round trip when it ended; none if none is known.
    pub min_rtt: Option<Duration>,
}

/// With each confirmation the time until the next detection doubles, so often at most: what is watched needs to be
/// asked less.
const DOUBLINGS: u32 = 2;

/// Bytes of a full packet.
const PACKET: u64 = 1500;

enum Stage {
    /// Nothing was sent yet.
    Idle,
    Detecting,
    /// The next detection begins then.
    Resting(Time),
}

/// A connection of two sub-flows.
pub struct Connection {
    options: Options,
    stage: Stage,
    handshake: Duration,
    min_rtt: Duration,
    /// The sub-flow that may send one packet now, because the detector asks for it.
    open: Option<SubFlow>,
    /// Of the heavy sub-flow, once something was found.
    controller: Option<Box<dyn Controller>>,
    findings: Findings,
    flying: [Flying; 2],
    order: u64,
    /// Looks out for changes, with [`Options::isolation`]; whether it has asked for this detection.
    lookout: Lookout,
    asked: bool,
    /// When the first and the last heavy packet were sent of the newest bursts that the detector asked for, the newest
    /// first; whether the next begins another.
    probes: [Option<(Time, Time)>; 2],
    probed: bool,
    /// What the last detection has found.
    held: Finding,
    /// Detections in a row that have confirmed what was found.
    confirmed: u32,
}

impl Connection {
    /// A connection that begins. The detection starts with the first timer, which is due at once.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            stage: Stage::Idle,
            handshake: Duration::ZERO,
            min_rtt: Duration::MAX,
            open: None,
            controller: None,
            findings: Findings::default(),
            flying: Default::default(),
            order: 0,
            lookout: Lookout::default(),
            asked: false,
            probes: [None; 2],
            probed: true,
            held: Finding::Unknown,
            confirmed: 0,
        }
    }

    /// What was found out so far.
    pub const fn findings(&self) -> &Findings {
        &self.findings
    }

    /// The detector's name.
    pub fn detector(&self) -> &'static str {
        self.options.detector.name()
    }

    /// Whether a detection is under way.
    pub const fn is_detecting(&self) -> bool {
        matches!(self.stage, Stage::Detecting)
    }

    /// What each train of the newest detection has said, for detectors that have trains.
    pub fn testimony(&self) -> Vec<Testimony> {
        self.options.detector.testimony()
    }

    /// The name of the controller that was chosen; none before.
    pub fn controller(&self) -> Option<&'static str> {
        self.controller.as_ref().map(|controller| controller.name())
    }

    /// The handshake of a sub-flow took `rtt`.
    pub fn on_handshake(&mut self, rtt: Duration) {
        self.handshake = rtt;
        self.min_rtt = self.min_rtt.min(rtt);
    }

    /// The host hears of arrivals when its turn comes ([`Detector::distrust_silence`]).
    pub fn distrust_silence(&mut self) {
        self.options.detector.distrust_silence();
    }

    /// A packet of a sub-flow was sent. Packets are numbered by these calls.
    pub fn on_sent(&mut self, sub_flow: SubFlow, sent: &Sent) {
        let flying = &mut self.flying[sub_flow.index()];
        let (number, order) = (flying.next(), self.order);
        let packet = Packet { sub_flow, number, order, sent: sent.now, bytes: sent.bytes };
        flying.push(packet);
        self.order += 1;
        if self.findings.decided.is_none() {
            self.findings.sent[sub_flow.index()] += 1;
        }
        if matches!(self.stage, Stage::Detecting) {
            if self.open == Some(sub_flow) {
                self.probes_with(sub_flow, sent.now);
            }
            self.options.detector.on_sent(&packet);
        }
        if sub_flow == SubFlow::Light {
            self.lookout.on_sent(sent.now);
        } else if let Some(controller) = &mut self.controller {
            controller.on_sent(sent);
            if let Some(isolation) = &mut self.options.isolation {
                isolation.on_sent(sent);
            }
        }
        self.go_on(sent.now);
    }

    /// The sender learns at `now` that the packet of this number has arrived, at `at` by the receiver's clock.
    pub fn on_arrival(&mut self, now: Time, sub_flow: SubFlow, number: u64, at: Time) {
        let Some(packet) = self.flying[sub_flow.index()].take(number) else { return };
        if matches!(self.stage, Stage::Detecting) {
            self.options.detector.on_arrival(now, &packet, at);
            self.go_on(now);
        } else if self.looks_out() {
            let fair = self.findings.verdict.finding == Finding::FairQueued;
            if self.lookout.on_arrival(now, &packet, at, fair) {
                self.asked = true;
                let rate = self.options.isolation.as_ref().and_then(Isolation::rate).filter(|_| fair);
                self.doubt(now, rate, now.since(packet.sent));
                self.go_on(now);
            }
        }
    }

    /// The host has processed an acknowledgement of a sub-flow, or declared packets of it lost.
    pub fn on_ack(&mut self, sub_flow: SubFlow, ack: &Ack) {
        if ack.min_rtt < self.min_rtt {
            self.min_rtt = ack.min_rtt;
        }
        if self.findings.decided.is_none_or(|decided| ack.lost_sent <= decided) {
            self.findings.lost += u64::from(ack.lost.packets);
        }
        if sub_flow == SubFlow::Heavy
            && let Some(controller) = &mut self.controller
        {
            let fair = self.findings.verdict.finding == Finding::FairQueued;
            let mut probes = self.probes.iter().flatten().filter(|_| fair && ack.lost.packets > 0);
            if probes.any(|(first, last)| (*first..=*last).contains(&ack.lost_sent)) {
                // In a queue of its own, a burst of the detector says what the queue holds, not what the controller's
                // rate was. In a shared one, others suffer from it: it is answered to as any loss.
                controller.on_ack(&Ack { lost: Count::default(), missing: 0, loss: None, ..*ack });
            } else {
                controller.on_ack(ack);
            }
            self.watch(ack);
        }
        self.go_on(ack.now);
    }

    /// The retransmission timer of a sub-flow has fired.
    pub fn on_timeout(&mut self, sub_flow: SubFlow, timeout: &Timeout) {
        if sub_flow == SubFlow::Heavy
            && let Some(controller) = &mut self.controller
        {
            controller.on_timeout(timeout);
        }
        self.go_on(timeout.now);
    }

    /// Bytes that a sub-flow may have in flight.
    pub fn window(&self, sub_flow: SubFlow) -> u64 {
        match (&self.controller, sub_flow) {
            _ if self.open == Some(sub_flow) => OPEN,
            // The packets of a train go alone.
            (Some(controller), SubFlow::Heavy) if !self.detects() => controller.window(),
            _ => 0,
        }
    }

    /// The rate of a sub-flow's payload; none while single packets are let through.
    pub fn pacing(&self, sub_flow: SubFlow) -> Option<Rate> {
        match (&self.controller, sub_flow) {
            (Some(controller), SubFlow::Heavy) if self.open != Some(sub_flow) => controller.pacing(),
            _ => None,
        }
    }

    /// How long a paced burst of a sub-flow may last.
    pub fn burst(&self, sub_flow: SubFlow) -> Option<Duration> {
        let controller = self.controller.as_ref().filter(|_| sub_flow == SubFlow::Heavy)?;
        controller.burst()
    }

    /// What a late host may make up for at once in a sub-flow.
    pub fn made_up(&self, sub_flow: SubFlow) -> Option<Duration> {
        let controller = self.controller.as_ref().filter(|_| sub_flow == SubFlow::Heavy)?;
        controller.made_up()
    }

    /// How packets take part in ECN.
    pub const fn ecn(&self) -> EcnUse {
        self.options.ecn
    }

    /// When the host must call [`on_timer`](Self::on_timer) for a sub-flow at the latest.
    pub fn timer(&self, sub_flow: SubFlow) -> Option<Time> {
        let departure = self.departure().filter(|next| next.sub_flow == sub_flow && self.open.is_none());
        let departure = departure.map(|next| next.at);
        if sub_flow == SubFlow::Light {
            return departure;
        }
        let stage = match self.stage {
            Stage::Idle => Some(Time::ZERO),
            Stage::Detecting => self.options.detector.timer(),
            Stage::Resting(until) => Some(until).filter(|until| *until < Time::MAX),
        };
        let controller = self.controller.as_ref().and_then(|controller| controller.timer());
        [departure, stage, controller].into_iter().flatten().min()
    }

    /// Time has passed: some timer may be due.
    pub fn on_timer(&mut self, now: Time) {
        match self.stage {
            Stage::Idle => {
                self.findings.began = Some(now);
                self.begin(now, self.handshake);
            }
            Stage::Resting(until) if until <= now => self.begin(now, self.min_rtt),
            Stage::Detecting if self.options.detector.timer().is_some_and(|due| due <= now) => {
                self.options.detector.on_timer(now);
            }
            Stage::Detecting | Stage::Resting(_) => {}
        }
        if let Some(controller) = &mut self.controller
            && controller.timer().is_some_and(|due| due <= now)
        {
            controller.on_timer(now);
        }
        self.go_on(now);
    }

    /// There is no second sub-flow, or it has failed, so that nothing can be found out: the connection goes on as in a
    /// shared queue, and does not look again.
    pub fn give_up(&mut self, now: Time) {
        self.findings.began.get_or_insert(now);
        self.options.again = None;
        if !matches!(self.stage, Stage::Resting(_)) || self.findings.verdict.finding != Finding::Unknown {
            self.settle(now, Outcome { verdict: Verdict::default(), rate: None });
        }
        self.go_on(now);
    }

    fn begin(&mut self, now: Time, rtt: Duration) {
        self.stage = Stage::Detecting;
        self.options.detector.begin(now, rtt);
    }

    /// A packet was sent that the detector asked for. A light one ends a burst.
    fn probes_with(&mut self, sub_flow: SubFlow, now: Time) {
        if sub_flow == SubFlow::Light {
            self.probed = true;
        } else if std::mem::take(&mut self.probed) {
            self.probes = [Some((now, now)), self.probes[0]];
        } else if let Some((_, last)) = &mut self.probes[0] {
            *last = now;
        }
    }

    /// The packet that the detector or the lookout asks for.
    pub fn departure(&self) -> Option<Departure> {
        match self.stage {
            Stage::Detecting => self.options.detector.next(),
            Stage::Resting(_) if self.looks_out() => {
                Some(Departure { sub_flow: SubFlow::Light, at: self.lookout.next() })
            }
            Stage::Resting(_) | Stage::Idle => None,
        }
    }

    /// Whether the detector asks for a packet.
    fn detects(&self) -> bool {
        matches!(self.stage, Stage::Detecting) && self.options.detector.next().is_some()
    }

    const fn looks_out(&self) -> bool {
        self.options.isolation.is_some() && self.options.again.is_some()
    }

    /// Sees whether the detection has ended, and which sub-flow may send.
    fn go_on(&mut self, now: Time) {
        if matches!(self.stage, Stage::Detecting)
            && let Some(outcome) = self.options.detector.outcome()
        {
            self.settle(now, outcome);
        }
        self.open = self.departure().filter(|next| next.at <= now).map(|next| next.sub_flow);
    }

    /// Sees whether a queue that was found to be its own is so.
    fn watch(&mut self, ack: &Ack) {
        let rests = matches!(self.stage, Stage::Resting(_));
        let Some(isolation) = &mut self.options.isolation else { return };
        if self.findings.verdict.finding != Finding::FairQueued {
            isolation.leave();
        } else if !rests {
            isolation.restart();
        } else if isolation.on_ack(ack) {
            let rate = isolation.rate();
            self.doubt(ack.now, rate, ack.rtt.unwrap_or(self.min_rtt));
        }
    }

    /// What was found may not be so any more: begins a detection, until whose end fair queuing is not held found.
    fn doubt(&mut self, now: Time, rate: Option<Rate>, rtt: Duration) {
        if self.findings.verdict.finding == Finding::FairQueued {
            self.findings.alarms += 1;
            // To keep its rate in a queue that others fill it needs what is in flight with the queue.
            self.adopt(now, Outcome { verdict: Verdict::default(), rate }, rtt);
        }
        self.options.detector.forget();
        self.begin(now, self.min_rtt);
    }

    fn settle(&mut self, now: Time, mut outcome: Outcome) {
        let finding = outcome.verdict.finding;
        let changed = finding != std::mem::replace(&mut self.held, finding);
        let same = finding != Finding::Unknown && !changed;
        self.confirmed = if same && self.looks_out() { self.confirmed + 1 } else { 0 };
        let longer = 1 << self.confirmed.min(DOUBLINGS);
        let mut until = self.options.again.map_or(Time::MAX, |again| now + again * longer);
        let isolation = self.options.isolation.as_ref().filter(|isolation| !isolation.believes(now));
        if let Some(isolation) = isolation.filter(|_| outcome.verdict.finding == Finding::FairQueued) {
            outcome.verdict = Verdict::default();
            until = until.min(isolation.doubts_until());
        }
        self.findings.detections += 1;
        self.findings.decided.get_or_insert(now);
        let packet = outcome.rate.map_or(Duration::ZERO, |rate| rate.time_for(PACKET));
        self.lookout.rest(now, self.min_rtt, packet, std::mem::take(&mut self.asked), changed);
        self.adopt(now, outcome, if self.min_rtt == Duration::MAX { Duration::ZERO } else { self.min_rtt });
        self.stage = Stage::Resting(until);
    }

    /// Goes on by what was found. A controller that begins may have in flight what its rate is in `rtt`.
    fn adopt(&mut self, now: Time, outcome: Outcome, rtt: Duration) {
        let fair = |finding| finding == Finding::FairQueued;
        let turned = fair(self.findings.verdict.finding) != fair(outcome.verdict.finding);
        let findings = &mut self.findings;
        let changed = findings.changes.last().is_none_or(|(_, last)| *last != outcome.verdict.finding);
        findings.verdict = outcome.verdict;
        findings.rate = outcome.rate;
        findings.min_rtt = Some(self.min_rtt).filter(|rtt| *rtt != Duration::MAX);
        if changed {
            findings.changes.push((now, outcome.verdict.finding));
        }
        if turned || self.controller.is_none() {
            self.controller = Some((self.options.choose)(&Chosen { outcome, rtt }));
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_cc::{EcnUse, FixedWindow};
    use weir_core::Time;

    use super::{Connection, Options};
    use crate::{Finding, SubFlow, Trains};

    #[test]
    fn a_connection_that_gives_up_goes_on_as_in_a_shared_queue() {
        let mut connection = Connection::new(Options {
            detector: Box::new(Trains::default()),
            choose: Box::new(|_| Box::new(FixedWindow::new(7, EcnUse::Off))),
            again: Some(weir_core::Duration::from_secs(1)),
            isolation: None,
            ecn: EcnUse::Off,
        });
        let at = |second| Time::ZERO + weir_core::Duration::from_secs(second);
        connection.on_timer(at(1));
        assert_eq!(connection.controller(), None);
        connection.give_up(at(2));
        let found = connection.findings().clone();
        assert_eq!((found.verdict.finding, found.decided), (Finding::Unknown, Some(at(2))));
        assert_eq!(SubFlow::BOTH.map(|sub_flow| connection.window(sub_flow)), [0, 7]);
        // It looks no more, and to give up again changes nothing.
        connection.on_timer(at(9));
        connection.give_up(at(10));
        assert_eq!((connection.findings(), connection.timer(SubFlow::Heavy)), (&found, None));
    }
}
