//! A path of one round trip for unit tests: what is sent in a round is acknowledged, packet by packet, in the next.

use weir_core::{Duration, Random, Seed, Time};

use crate::{Ack, Controller, Count, RateSample, Sent, Setup};

pub(crate) const MSS: u32 = 1448;

pub(crate) fn random(name: &str) -> Random {
    Seed::default().stream(name)
}

pub(crate) fn setup() -> Setup {
    Setup { mss: MSS, initial_window: 10, random: random("test") }
}

/// A path with a constant round-trip time and no limit of its rate.
pub(crate) struct Path {
    now: Time,
    rtt: Duration,
    /// Packets of the stream: numbers that wait for their acknowledgement, with when they were sent.
    flying: Vec<(u64, Time)>,
    next: u64,
    delivered: u64,
    lost: u64,
    /// Lost and sent again in the next round.
    again: Vec<u64>,
}

impl Path {
    pub(crate) fn new(rtt_ms: u64) -> Self {
        Self {
            now: Time::from_nanos(1),
            rtt: Duration::from_millis(rtt_ms),
            flying: Vec::new(),
            next: 0,
            delivered: 0,
            lost: 0,
            again: Vec::new(),
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Sends what the window allows beside `others` packets that are in flight already.
    fn send(&mut self, controller: &mut dyn Controller, others: usize, into: &mut Vec<(u64, Time)>) {
        let mss = u64::from(MSS);
        while (others + into.len() + 1) as u64 * mss <= controller.window() {
            let number = self.again.pop().unwrap_or_else(|| {
                self.next += 1;
                self.next - 1
            });
            let in_flight = (others + into.len() + 1) as u64 * mss;
            into.push((number, self.now));
            let sent = Sent { now: self.now, bytes: MSS, in_flight, restarts: in_flight == mss };
            controller.on_sent(&sent);
        }
    }

    /// One round trip: the packets in flight are acknowledged or, as `lost` says of their index, lost (found out with the
    /// third packet after). Returns how many packets were sent meanwhile.
    pub(crate) fn round(&mut self, controller: &mut dyn Controller, lost: impl Fn(usize) -> bool) -> usize {
        self.marked_round(controller, lost, |_| false)
    }

    /// The same, with marks.
    pub(crate) fn marked_round(
        &mut self,
        controller: &mut dyn Controller,
        lost: impl Fn(usize) -> bool,
        marked: impl Fn(usize) -> bool,
    ) -> usize {
        let mut sent = Vec::new();
        self.send(controller, self.flying.len(), &mut sent);
        let mut round = std::mem::take(&mut self.flying);
        round.append(&mut sent);
        let began = self.now;
        let mut waiting = round.len() as u64;
        let mut hidden: Vec<(usize, u64)> = Vec::new();
        let step = Duration::from_nanos(self.rtt.as_nanos() / (round.len() as u64 + 1));
        for (index, (number, sent_at)) in round.iter().copied().enumerate() {
            self.now = began + self.rtt + step * index as u64;
            if lost(index) {
                hidden.push((index, number));
                continue;
            }
            let mss = u64::from(MSS);
            let prior_in_flight = (waiting + sent.len() as u64) * mss;
            waiting -= 1;
            self.delivered += 1;
            let mut missing = Count::default();
            hidden.retain(|(at, number)| {
                let found = index >= at + 3 || index + 1 == round.len();
                if found {
                    missing.add(MSS);
                    self.again.push(*number);
                }
                !found
            });
            waiting -= u64::from(missing.packets);
            self.lost += u64::from(missing.packets);
            let ce = u32::from(marked(index));
            // Everything up to the first hole has arrived.
            let hole = hidden.iter().map(|(_, number)| *number).chain(self.again.iter().copied()).min();
            let ack = Ack {
                now: self.now,
                delivered: Count { packets: 1, bytes: mss },
                ce: Count { packets: ce, bytes: u64::from(ce) * mss },
                echo: ce > 0,
                lost: missing,
                lost_sent: sent_at,
                delivered_sent: sent_at,
                rtt: Some(self.rtt),
                smoothed_rtt: self.rtt,
                min_rtt: self.rtt,
                in_flight: (waiting + sent.len() as u64) * mss,
                prior_in_flight,
                window_limited: true,
                una: hole.unwrap_or(number + 1).min(number + 1),
                next: self.next,
                total_delivered: self.delivered,
                total_lost: self.lost,
                rate: Some(RateSample {
                    delivered: Count { packets: round.len() as u32, bytes: round.len() as u64 * mss },
                    interval: self.rtt,
                    prior_delivered: self.delivered - 1 - index.min(self.delivered as usize - 1) as u64,
                    delivered_ce: ce,
                    lost: missing.packets,
                    in_flight_at_send: round.len() as u64 * mss,
                    app_limited: false,
                }),
                app_limited: false,
            };
            controller.on_ack(&ack);
            self.send(controller, waiting as usize, &mut sent);
        }
        self.flying = sent;
        self.flying.len()
    }
}
