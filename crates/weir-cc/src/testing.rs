//! A path for unit tests: one sender, one queue with a rate and a buffer, one round-trip time, an acknowledgement for
//! every packet. What becomes of a packet is asked of the test when it arrives.

use std::collections::VecDeque;

use weir_core::{Duration, Random, Seed, Time};

use crate::{Ack, Controller, Count, LossSample, RateSample, Sent, Setup, Timeout};

pub(crate) const MSS: u32 = 1448;

pub(crate) fn random(name: &str) -> Random {
    Seed::default().stream(name)
}

pub(crate) fn setup() -> Setup {
    Setup { mss: MSS, initial_window: 10, random: random("test"), rate: None }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Arrives,
    Marked,
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Flying {
    number: u64,
    /// Counts transmissions.
    order: u64,
    sent: Time,
    arrives: Time,
    /// The queue was full.
    dropped: bool,
    /// The queue was longer than the marking threshold.
    marked: bool,
    again: bool,
    in_flight: u64,
    lost_before: u64,
    // Of the delivery rate estimator, when it was sent.
    first_sent: Time,
    delivered: u64,
    delivered_ce: u64,
    delivered_at: Time,
}

pub(crate) struct Path {
    now: Time,
    rtt: Duration,
    /// Nanoseconds the queue needs for one packet.
    per_packet: u64,
    /// Packets that may wait.
    buffer: u64,
    /// Packets that wait from which on packets are marked.
    mark_from: u64,
    /// What each packet may take longer by, in nanoseconds, and who draws it. Packets keep their order.
    scatter: Option<(u64, Random)>,
    /// The first packet is a small one, which takes no time at the queue and 3 % less on the way.
    begins_small: bool,
    idle_from: Time,
    flying: VecDeque<Flying>,
    missing: VecDeque<Flying>,
    again: VecDeque<u64>,
    /// From `una` on: what has arrived.
    arrived: VecDeque<bool>,
    una: u64,
    next: u64,
    order: u64,
    in_flight: u64,
    delivered: u64,
    delivered_ce: u64,
    lost: u64,
    /// Declared lost and not arrived since.
    lost_out: u32,
    first_sent: Time,
    delivered_at: Time,
    smoothed: u64,
    min_rtt: Duration,
    may_send_at: Time,
    // `tcp_cwnd_validate`: whether the window was full within the last round trip.
    window_limited: bool,
    most_in_flight: u64,
    usage_until: u64,
    /// Sum and number of the round-trip times, and timeouts, since the test last set them to zero.
    pub(crate) rtt_sum: u64,
    pub(crate) rtt_count: u64,
    pub(crate) timeouts: u64,
}

impl Path {
    /// A constant round-trip time and in effect no limit of the rate (a packet takes 10 ns).
    pub(crate) fn new(rtt_ms: u64) -> Self {
        let start = Time::from_nanos(1);
        Self {
            now: start,
            rtt: Duration::from_millis(rtt_ms),
            per_packet: 10,
            buffer: u64::MAX,
            mark_from: u64::MAX,
            scatter: None,
            begins_small: false,
            idle_from: start,
            flying: VecDeque::new(),
            missing: VecDeque::new(),
            again: VecDeque::new(),
            arrived: VecDeque::new(),
            una: 0,
            next: 0,
            order: 0,
            in_flight: 0,
            delivered: 0,
            delivered_ce: 0,
            lost: 0,
            lost_out: 0,
            first_sent: start,
            delivered_at: start,
            smoothed: 0,
            min_rtt: Duration::MAX,
            may_send_at: start,
            window_limited: false,
            most_in_flight: 0,
            usage_until: 0,
            rtt_sum: 0,
            rtt_count: 0,
            timeouts: 0,
        }
    }

    /// The first packet has 100 bytes, and the others are full.
    pub(crate) fn beginning_small(mut self) -> Self {
        self.begins_small = true;
        self
    }

    /// Each packet takes up to so much longer.
    pub(crate) fn scattered(mut self, milliseconds: u64) -> Self {
        self.scatter = Some((milliseconds * 1_000_000, random("scatter")));
        self
    }

    /// A path of 20 ms on which `controller` has had three round trips of slow start, from 10 packets to 80.
    pub(crate) fn grown(controller: &mut dyn Controller) -> Self {
        let mut path = Self::new(20);
        for _ in 0..3 {
            path.round(controller, |_| false);
        }
        path
    }

    /// A bottleneck of `packets_per_second` with room for `buffer` packets.
    pub(crate) fn bottleneck(rtt_ms: u64, packets_per_second: u64, buffer: u64) -> Self {
        Self { per_packet: 1_000_000_000 / packets_per_second, buffer, ..Self::new(rtt_ms) }
    }

    /// The same queue, marking packets that find `packets` or more waiting.
    pub(crate) fn marking_from(mut self, packets: u64) -> Self {
        self.mark_from = packets;
        self
    }

    /// The same path for a flow that begins later.
    pub(crate) fn beginning_at(mut self, second: u64) -> Self {
        let start = self.now + Duration::from_secs(second);
        self.now = start;
        self.idle_from = start;
        self.first_sent = start;
        self.delivered_at = start;
        self.may_send_at = start;
        self
    }

    /// What a controller is told if the retransmission timer fires.
    pub(crate) fn timeout(&self) -> Timeout {
        Timeout { now: self.now, in_flight: self.in_flight * u64::from(MSS), next: self.next }
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    pub(crate) fn set_rate(&mut self, packets_per_second: u64) {
        self.per_packet = 1_000_000_000 / packets_per_second;
    }

    pub(crate) fn set_rtt(&mut self, rtt_ms: u64) {
        self.rtt = Duration::from_millis(rtt_ms);
    }

    /// Mean round-trip time in milliseconds since `rtt_sum` and `rtt_count` were set to zero.
    pub(crate) fn mean_rtt(&self) -> f64 {
        self.rtt_sum as f64 / self.rtt_count.max(1) as f64 / 1e6
    }

    fn send(&mut self, controller: &mut dyn Controller) {
        let again = self.again.pop_front();
        let number = again.unwrap_or(self.next);
        if again.is_none() {
            self.next += 1;
            self.arrived.push_back(false);
        }
        if self.in_flight == 0 {
            (self.first_sent, self.delivered_at) = (self.now, self.now);
        }
        self.in_flight += 1;
        self.order += 1;
        let waiting = self.idle_from.since(self.now).as_nanos() / self.per_packet;
        let dropped = waiting >= self.buffer;
        if !dropped {
            self.idle_from = self.idle_from.max(self.now) + Duration::from_nanos(self.per_packet);
        }
        let later = self.scatter.as_mut().map_or(0, |(most, draws)| draws.below(*most));
        let before = self.flying.back().map_or(Time::ZERO, |packet| packet.arrives);
        self.flying.push_back(Flying {
            number,
            order: self.order,
            sent: self.now,
            arrives: (self.idle_from + self.rtt + Duration::from_nanos(later)).max(before),
            dropped,
            marked: waiting >= self.mark_from,
            again: again.is_some(),
            in_flight: self.in_flight,
            lost_before: self.lost,
            first_sent: self.first_sent,
            delivered: self.delivered,
            delivered_ce: self.delivered_ce,
            delivered_at: self.delivered_at,
        });
        if let Some(rate) = controller.pacing() {
            self.may_send_at = self.may_send_at.max(self.now) + rate.time_for(u64::from(MSS));
        }
        let in_flight = self.in_flight * u64::from(MSS);
        let restarts = self.in_flight == 1;
        controller.on_sent(&Sent { now: self.now, bytes: MSS, in_flight, restarts });
        self.validate(controller);
    }

    fn validate(&mut self, controller: &dyn Controller) {
        let full = !self.fits(controller);
        let more = !self.window_limited && self.in_flight > self.most_in_flight;
        if full || more || self.una >= self.usage_until {
            self.window_limited = full;
            self.most_in_flight = self.in_flight;
            self.usage_until = self.next;
        }
    }

    fn fits(&self, controller: &dyn Controller) -> bool {
        (self.in_flight + 1) * u64::from(MSS) <= controller.window()
    }

    /// Sends what the controller lets out until the next packet arrives; then hands in its acknowledgement.
    pub(crate) fn step(&mut self, controller: &mut dyn Controller, fate: &mut dyn FnMut() -> Fate) {
        loop {
            let arrives = self.flying.front().map_or(Time::MAX, |packet| packet.arrives);
            let send = if self.fits(controller) { self.now.max(self.may_send_at) } else { Time::MAX };
            let timer = controller.timer().map_or(Time::MAX, |at| at.max(self.now));
            if timer < Time::MAX && timer <= send && timer <= arrives {
                self.now = timer;
                controller.on_timer(timer);
                assert!(controller.timer() != Some(timer), "the timer of {} stands still", controller.name());
            } else if send < Time::MAX && send <= arrives {
                self.now = send;
                self.send(controller);
            } else if arrives < Time::MAX {
                self.now = arrives;
                return self.arrival(controller, fate);
            } else {
                self.time_out(controller);
            }
        }
    }

    fn time_out(&mut self, controller: &mut dyn Controller) {
        self.now += Duration::from_nanos(200_000_000.max(2 * self.smoothed));
        self.lost += self.missing.len() as u64;
        self.lost_out += self.missing.iter().filter(|packet| !packet.again).count() as u32;
        self.in_flight -= self.missing.len() as u64;
        self.again.extend(self.missing.drain(..).map(|packet| packet.number));
        self.timeouts += 1;
        controller.on_timeout(&self.timeout());
        assert!(self.fits(controller), "{} is stuck", controller.name());
    }

    fn arrival(&mut self, controller: &mut dyn Controller, fate: &mut dyn FnMut() -> Fate) {
        let Some(packet) = self.flying.pop_front() else { return };
        let fate = if packet.dropped { Fate::Lost } else { fate() };
        if fate == Fate::Lost {
            self.missing.push_back(packet);
            return;
        }
        let mss = u64::from(MSS);
        self.validate(controller);
        let prior_in_flight = self.in_flight * mss;
        let ce = u32::from(fate == Fate::Marked || packet.marked);
        self.in_flight -= 1;
        self.delivered += 1;
        self.lost_out -= u32::from(packet.again);
        self.delivered_ce += u64::from(ce);
        if let Some(arrived) = self.arrived.get_mut((packet.number - self.una) as usize) {
            *arrived = true;
        }
        while self.arrived.front() == Some(&true) {
            self.arrived.pop_front();
            self.una += 1;
        }
        let is_small = std::mem::take(&mut self.begins_small);
        let rtt = if is_small { self.rtt / 100 * 97 } else { self.now.since(packet.sent) };
        let nanos = rtt.as_nanos();
        self.smoothed = if self.smoothed == 0 { nanos } else { (7 * self.smoothed + nanos) / 8 };
        self.min_rtt = self.min_rtt.min(rtt);
        self.rtt_sum += nanos;
        self.rtt_count += 1;

        let mut lost = Count::default();
        let mut last_lost: Option<Flying> = None;
        while let Some(front) = self.missing.front().copied() {
            // Three later packets, or nothing more to wait for.
            if front.order + 3 > packet.order && !self.flying.is_empty() {
                break;
            }
            self.missing.pop_front();
            lost.add(MSS);
            self.lost += 1;
            self.lost_out += u32::from(!front.again);
            self.in_flight -= 1;
            self.again.push_back(front.number);
            last_lost = Some(front);
        }

        let interval = packet.sent.since(packet.first_sent).max(self.now.since(packet.delivered_at));
        let delivered = self.delivered - packet.delivered;
        self.first_sent = packet.sent;
        self.delivered_at = self.now;
        let ack = Ack {
            now: self.now,
            delivered: Count { packets: 1, bytes: if is_small { 100 } else { mss } },
            ce: Count { packets: ce, bytes: u64::from(ce) * mss },
            echo: ce > 0,
            lost,
            missing: self.lost_out,
            lost_sent: last_lost.map_or(Time::ZERO, |lost| lost.sent),
            loss: last_lost.map(|lost| LossSample {
                in_flight_at_send: lost.in_flight * mss,
                lost: (self.lost - lost.lost_before) as u32,
                app_limited: false,
            }),
            delivered_sent: packet.sent,
            rtt: (!packet.again).then_some(rtt),
            smoothed_rtt: Duration::from_nanos(self.smoothed),
            min_rtt: self.min_rtt,
            in_flight: self.in_flight * mss,
            prior_in_flight,
            window_limited: self.window_limited,
            una: self.una,
            next: self.next,
            total_delivered: self.delivered,
            total_lost: self.lost,
            rate: Some(RateSample {
                delivered: Count { packets: delivered as u32, bytes: delivered * mss },
                interval,
                prior_delivered: packet.delivered,
                delivered_ce: (self.delivered_ce - packet.delivered_ce) as u32,
                lost: (self.lost - packet.lost_before) as u32,
                in_flight_at_send: packet.in_flight * mss,
                app_limited: false,
            }),
            app_limited: false,
        };
        controller.on_ack(&ack);
    }

    /// Lets out what the window allows now, and then acknowledges the packets in flight or, as `lost` says of their
    /// index, loses them. Returns how many packets are in flight at the end. For controllers without pacing.
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
        while self.fits(controller) {
            self.send(controller);
        }
        for index in 0..self.flying.len() {
            let fate = match (lost(index), marked(index)) {
                (true, _) => Fate::Lost,
                (false, true) => Fate::Marked,
                (false, false) => Fate::Arrives,
            };
            self.step(controller, &mut || fate);
        }
        while self.fits(controller) {
            self.send(controller);
        }
        self.flying.len()
    }

    /// Runs for `duration`.
    pub(crate) fn run(
        &mut self,
        controller: &mut dyn Controller,
        duration: Duration,
        fate: &mut dyn FnMut() -> Fate,
    ) {
        let end = self.now + duration;
        while self.now < end {
            self.step(controller, fate);
        }
    }

    /// Runs for `duration` without losses but those of the queue; returns packets delivered per second.
    pub(crate) fn rate_over(&mut self, controller: &mut dyn Controller, duration: Duration) -> f64 {
        let (before, began) = (self.delivered, self.now);
        self.run(controller, duration, &mut || Fate::Arrives);
        (self.delivered - before) as f64 / self.now.since(began).as_secs_f64()
    }

    /// The mean number of packets in flight (by Little's law) while `packets` are delivered after `warm_up`; each draws
    /// its fate.
    pub(crate) fn mean_window(
        &mut self,
        controller: &mut dyn Controller,
        warm_up: u64,
        packets: u64,
        fate: &mut dyn FnMut() -> Fate,
    ) -> f64 {
        while self.delivered < warm_up {
            self.step(controller, fate);
        }
        let (before, began) = (self.delivered, self.now);
        while self.delivered - before < packets {
            self.step(controller, fate);
        }
        let rate = (self.delivered - before) as f64 / self.now.since(began).as_secs_f64();
        rate * self.rtt.as_secs_f64()
    }
}
