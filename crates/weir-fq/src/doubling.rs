//! The detector of the paper: two sub-flows, one at twice the rate of the other, double their rates until both lose
//! packets; then the shares that got through tell whether one queue holds them. Bachl, Fabini and Zseby, "Detecting
//! Fair Queuing for Better Congestion Control" (arXiv 2010.08362), section III-A, and its program (CN-TU/PCC-Uspace,
//! 6e3f6d6), which differs. In what they differ is in [`DoublingParams`]; its presets are the detectors `paper` and
//! `published`.
//!
//! | what | paper | program | here |
//! |---|---|---|---|
//! | rates to begin with | "some", flow 2 twice flow 1 | 1 and 2 Mbit/s, 1500 bytes to a gap | `first_rate`; payload rates, the MSS to a gap |
//! | gap to the next packet | 0.5 to 1.5 of the nominal | at 0.5 to 2 of the rate, so 8 % faster in the mean | `jitter` |
//! | lateness of the sender | - | made good in full | made good if within 10 ms |
//! | a round | a round trip | 1.5 mean round trips and the feedback of all their packets | `pace`, `round_trips` |
//! | mean round trip | - | an EWMA of each flow, 1/4 the newest | the same |
//! | fewest packets of a round | - | two, of a flow; less are thrown away | `published`: the same |
//! | what is lost | - | what a later packet of the flow overtook, at once | `reordering` |
//! | a lost tail | - | after 2 SRTT + 4 RTTVAR, which begin at 10 and 5 s | `first_rtt`; of a host that [distrusts silence](Detector::distrust_silence), by the clock of what arrives: once a packet has arrived, of either flow, that was sent so much later |
//! | lost data | - | goes first; lost once more, only the timer tells | `again_by_timer`: the packets after a loss are taken for such |
//! | a flow's first loss | - | its round, in which the queue fills, is thrown away and repeated at the same rates | `fills_first` |
//! | only one flow has lost | rates double "if no packet loss occurred" | they double | `holds` |
//! | measure | receiving rate over sending rate | 1 - loss, as the sender counts it | `measure` |
//! | verdict | flow 1's over flow 2's above 1.5: fair queuing | the same | `cut_off` |
//! | never both lost | - | goes on for ever; its experiments end after 10 s, and leave the run out | `deadline`: unknown |
//! | largest rate | - | none | `most` |
//! | the rate to go on at | - | the sum of the goodputs of that round, on flow 1 | the same, on the heavy sub-flow |
//! | the light flow's data | reassembled | thrown away | the host's: both carry data |
//! | confidence | - | - | that of the paper's experiments, 0.98 |
//!
//! Both published versions of the paper (Springer's and the authors' newer one) have the same algorithm.
//!
//! Times at which an interval of the program can end are those of its events: an acknowledgement, or a loss. If all
//! packets of an interval have arrived before its end, the next event ends it; the program then takes rates from memory
//! that was never written, here they are those measured.

mod interval;
mod lane;
mod params;

#[cfg(test)]
mod tests;

use weir_core::{Duration, Random, Rate, Time};

pub use params::{DoublingParams, Jitter, Measure, Pace};

use crate::{Departure, Detector, Finding, Outcome, Packet, SubFlow, Verdict};
use interval::Measured;
use lane::{Lane, Report};

/// The share of both verdicts that was right in the paper's experiments (section VI-C). The rule itself has no doubts.
const ACCURACY: f64 = 0.98;

/// The detector of the paper.
#[derive(Clone, Debug)]
pub struct Doubling {
    params: DoublingParams,
    mss: u32,
    random: Random,
    lanes: [Lane; 2],
    deadline: Time,
    /// When the round ends, where the clock ends it.
    round_ends: Option<Time>,
    outcome: Option<Outcome>,
    /// Nothing is sent before the first detection begins.
    begun: bool,
    /// If silence is distrusted: when the newest packet was sent that is known to have arrived. Timers for lost packets
    /// then go by it, as a host that is late hears of both late.
    heard: Option<Time>,
}

impl Doubling {
    /// One with these parameters, for packets of `mss` bytes of payload; `random` is for its jitter.
    pub fn new(params: DoublingParams, mss: u32, random: Random) -> Self {
        Self {
            lanes: [Lane::new(&params), Lane::new(&params)],
            params,
            mss: mss.max(1),
            random,
            deadline: Time::MAX,
            round_ends: None,
            outcome: None,
            begun: false,
            heard: None,
        }
    }

    fn works(&self) -> bool {
        self.begun && self.outcome.is_none()
    }

    /// Ends a round of the program's, if both sub-flows have a result since the last.
    fn pair(&mut self) {
        if !self.lanes.iter().all(|lane| lane.fresh) {
            return;
        }
        for lane in &mut self.lanes {
            lane.fresh = false;
        }
        if let [Some(Report::Measured(light)), Some(Report::Measured(heavy))] =
            [0, 1].map(|index| self.lanes[index].report)
        {
            let filled = !self.params.fills_first || self.lanes.iter().all(|lane| lane.has_lost);
            if filled && light.lost && heavy.lost {
                return self.decide(&light, &heavy);
            }
            self.double(light.lost || heavy.lost);
        }
        for lane in &mut self.lanes {
            lane.forget_intervals();
        }
    }

    /// Ends rounds of the paper's of which all is known.
    fn close_rounds(&mut self) {
        while self.works() {
            let [light, heavy] = &mut self.lanes;
            if !(light.knows_oldest() && heavy.knows_oldest()) {
                return;
            }
            let (Some(light), Some(heavy)) = (light.take_oldest(), heavy.take_oldest()) else { return };
            if light.lost && heavy.lost {
                self.decide(&light, &heavy);
            }
        }
    }

    /// Where the clock ends rounds: ends this one if it is time, and begins the next.
    fn tick(&mut self, now: Time) {
        if self.round_ends.is_some_and(|end| now < end) {
            return;
        }
        let Some(rtt) = self.lanes.iter().filter_map(|lane| lane.mean_rtt()).max() else { return };
        if self.round_ends.is_some() {
            let lost = self.lanes.iter().any(|lane| lane.lost_in_round);
            self.double(lost);
        }
        let end = now + rtt.scale(self.params.round_trips).max(Duration::from_nanos(1));
        self.round_ends = Some(end);
        for lane in &mut self.lanes {
            lane.lost_in_round = false;
            lane.open_interval(end);
        }
    }

    fn double(&mut self, lost: bool) {
        let most = self.params.most.bits_per_sec() as f64;
        let full = self.lanes[SubFlow::Heavy.index()].rate * 2.0 > most;
        if full || lost && self.params.holds {
            return;
        }
        for lane in &mut self.lanes {
            lane.rate *= 2.0;
        }
    }

    fn decide(&mut self, light: &Measured, heavy: &Measured) {
        let measure = self.params.measure;
        let ratio = light.share(measure) / heavy.share(measure);
        // Where nothing got through there is no number, which is above nothing.
        let finding = if ratio > self.params.cut_off { Finding::FairQueued } else { Finding::Shared };
        let why = match measure {
            Measure::Losses => "loss",
            Measure::Rates => "share",
        };
        let rate = Rate::from_bits_per_sec((light.goodput(measure) + heavy.goodput(measure)) as u64);
        self.end(Verdict { finding, confidence: ACCURACY, why }, Some(rate));
    }

    fn give_up(&mut self) {
        let measure = self.params.measure;
        let known = self.lanes.iter().filter_map(|lane| match lane.report {
            Some(Report::Measured(measured)) => Some(measured.goodput(measure)),
            _ => None,
        });
        let rate = Rate::from_bits_per_sec(known.sum::<f64>() as u64);
        self.end(Verdict::default(), Some(rate));
    }

    fn end(&mut self, verdict: Verdict, rate: Option<Rate>) {
        self.outcome = Some(Outcome { verdict, rate: rate.filter(|rate| *rate > Rate::default()) });
    }

    /// Packets of which nothing was heard for so long are lost.
    fn lose_tails(&mut self, now: Time) {
        for lane in &mut self.lanes {
            lane.lose_tail(&self.params, now, self.heard.unwrap_or(now));
        }
    }

    fn go_on(&mut self, now: Time) {
        match self.params.pace {
            Pace::Feedback => self.pair(),
            Pace::Clock => {
                self.close_rounds();
                if self.works() {
                    self.tick(now);
                }
            }
        }
    }
}

impl Detector for Doubling {
    fn name(&self) -> &'static str {
        self.params.name
    }

    fn distrust_silence(&mut self) {
        self.heard.get_or_insert(Time::ZERO);
    }

    fn begin(&mut self, now: Time, rtt: Duration) {
        self.begun = true;
        self.outcome = None;
        self.round_ends = None;
        self.deadline = now + self.params.deadline;
        let first = self.params.first_rate.bits_per_sec() as f64;
        for (lane, rate) in self.lanes.iter_mut().zip([first, 2.0 * first]) {
            lane.begin(now, rate);
        }
        if self.params.first_rtt.is_none() && rtt > Duration::ZERO {
            for lane in &mut self.lanes {
                lane.sample(rtt);
            }
        }
        self.go_on(now);
    }

    fn next(&self) -> Option<Departure> {
        let [light, heavy] = [&self.lanes[0], &self.lanes[1]].map(|lane| lane.due);
        let (sub_flow, at) = if heavy < light { (SubFlow::Heavy, heavy) } else { (SubFlow::Light, light) };
        self.works().then_some(Departure { sub_flow, at })
    }

    fn on_sent(&mut self, packet: &Packet) {
        let lane = &mut self.lanes[packet.sub_flow.index()];
        if packet.sent >= lane.due {
            let gap = self.params.jitter.gap(lane.rate, self.mss, &mut self.random);
            lane.schedule(packet.sent, gap);
        }
        lane.on_sent(&self.params, packet);
    }

    fn on_arrival(&mut self, now: Time, packet: &Packet, at: Time) {
        if self.works() {
            self.lanes[packet.sub_flow.index()].on_arrival(&self.params, now, packet, at);
            if let Some(heard) = &mut self.heard {
                *heard = packet.sent.max(*heard);
                self.lose_tails(now);
            }
            self.go_on(now);
        }
    }

    fn timer(&self) -> Option<Time> {
        let tails = self.lanes.iter().filter_map(Lane::tail_due).filter(|_| self.heard.is_none());
        let all = tails.chain(self.round_ends).chain([self.deadline]);
        all.min().filter(|_| self.works())
    }

    fn on_timer(&mut self, now: Time) {
        if !self.works() {
            return;
        }
        self.lose_tails(now);
        self.go_on(now);
        if self.works() && now >= self.deadline {
            self.give_up();
        }
    }

    fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }
}
