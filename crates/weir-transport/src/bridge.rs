//! weir-cc's controllers over noq: from noq's callbacks it makes the acknowledgements that those controllers take.
//!
//! | weir-cc's transport | over noq |
//! |---|---|
//! | payload bytes | bytes of whole QUIC packets, as noq counts the window |
//! | one [`Ack`] reports what was delivered, marked and lost | two: noq declares losses once it is done with what was delivered |
//! | round-trip time of the newest packet | the same, the receiver's delay of acknowledgements included |
//! | marks, counted | [`Marks`]; noq's own word that there were some is not used |
//! | the stream is delivered up to `una`, sent up to `next` | packets, each of which is sent but once: up to the oldest under way, or that was until this report of losses |
//! | timeout | persistent congestion (RFC 9002 section 7.6) |
//! | no pacing | noq always paces: without a rate at 5/4 of a window per round trip |
//! | pacing in bursts of a millisecond | noq's bursts: 2 ms at the rate, at least 10 packets unless these take over 10 ms |
//! | a window of less than a packet | one packet: noq would never send again |
//! | a flow is limited by its window if that held a packet back | if its application has more to send: noq's pacer may keep it below its window for good (RFC 9002 section 7.8) |
//! | timers of controllers | looked at with every packet sent and acknowledged |
//!
//! With a [`Door`] the host paces instead: noq's pacer is off, and nothing of the rows on pacing, windows of less than
//! a packet, and timers holds.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use weir_cc::{
    Ack, Choice, Count, Delivery, EcnUse, Entry, Family, LossSample, Rtt, Sent, Setup, Stamp, Timeout,
};
use weir_core::{Duration, Random, Time};

use crate::clock::Clock;
use crate::door::Door;
use crate::marks::Marks;

/// By which the paths of a connection get controllers of [`weir_cc::catalog`], under noq's pacer.
#[derive(Clone)]
pub struct Factory {
    /// Which controller.
    pub entry: &'static Entry,
    /// Whether the flow asks for ECN.
    pub ecn: bool,
    /// For the controllers' draws.
    pub random: Random,
    /// What the receiver tells of marks.
    pub marks: Marks,
}

impl Factory {
    /// How its packets take part in ECN.
    pub fn ecn_use(&self) -> EcnUse {
        self.make(1).ecn()
    }
}

impl Make for Factory {
    fn make(&self, mss: u16) -> Box<dyn weir_cc::Controller> {
        let setup =
            Setup { mss: u32::from(mss), initial_window: INITIAL, random: self.random.clone(), rate: None };
        self.entry.make(&Choice { family: Family::Quic, ecn: self.ecn }, &setup)
    }

    fn marks(&self) -> &Marks {
        &self.marks
    }

    fn door(&self) -> Option<&Arc<Door>> {
        None
    }
}

/// What a path begins with, and begins with again when it has moved.
pub(crate) trait Make: Send + Sync {
    /// A controller for packets of `mss` bytes.
    fn make(&self, mss: u16) -> Box<dyn weir_cc::Controller>;

    /// What the receiver tells of marks on the path.
    fn marks(&self) -> &Marks;

    /// By which the host lets packets go at times of its own; none leaves that to noq's pacer.
    fn door(&self) -> Option<&Arc<Door>>;
}

/// The initial window in packets (RFC 9002 section 7.2).
pub(crate) const INITIAL: u32 = 10;
/// A window that holds nothing back; noq's pacer is off for windows above `u32::MAX`.
const OPEN: u64 = 1 << 40;
/// A batch that noq hands to the kernel at once lasts a millisecond at the rate (the kernel's `tcp_tso_autosize`), but
/// is at least two packets and at most 64 kB.
const BATCH: Duration = Duration::from_millis(1);
const LARGEST_BATCH: u64 = 65_536;

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(Bridge::new(self, Clock::new(now), mtu))
    }
}

/// A packet under way.
#[derive(Clone, Copy)]
struct Flying {
    /// Its number; each of QUIC's packet number spaces counts from 0, and noq does not tell which it is.
    number: u64,
    at: Instant,
    bytes: u64,
    stamp: Stamp,
    /// Neither acknowledged nor lost.
    open: bool,
}

/// A controller as noq sees it.
pub(crate) struct Bridge {
    make: Arc<dyn Make>,
    clock: Clock,
    mtu: u16,
    controller: Box<dyn weir_cc::Controller>,
    delivery: Delivery,
    rtt: Rtt,
    /// Packets in the order in which they were sent. The first of them was the `first`-th of the connection.
    flying: VecDeque<Flying>,
    first: u64,
    /// The newest that was acknowledged, counted in this order.
    newest: Option<u64>,
    in_flight: u64,
    /// With a door, the window bounds what is sent up to this packet.
    limited_until: u64,
    marks_seen: u64,
    /// What this acknowledgement brings: packets, and the newest of them.
    delivered: Count,
    newly: Option<(u64, Stamp)>,
    /// What was declared lost since the last report, and of the newest of it: when it was sent, what was then.
    lost: Count,
    lost_sample: Option<(Time, LossSample)>,
    /// The oldest packet of all before they were declared lost.
    lost_from: Option<u64>,
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = self.controller.window();
        f.debug_struct("Bridge")
            .field("controller", &self.controller.name())
            .field("window", &window)
            .finish()
    }
}

impl Bridge {
    /// A bridge for a path of packets of `mtu` bytes, whose controller is told times of `clock`.
    pub(crate) fn new(make: Arc<dyn Make>, clock: Clock, mtu: u16) -> Self {
        Self {
            controller: make.make(mtu),
            make,
            clock,
            mtu,
            delivery: Delivery::default(),
            rtt: Rtt::default(),
            flying: VecDeque::new(),
            first: 0,
            newest: None,
            in_flight: 0,
            limited_until: 0,
            marks_seen: 0,
            delivered: Count::default(),
            newly: None,
            lost: Count::default(),
            lost_sample: None,
            lost_from: None,
        }
    }

    /// Packets sent so far.
    fn next(&self) -> u64 {
        self.first + self.flying.len() as u64
    }

    fn wake(&mut self, now: Time) {
        if self.controller.timer().is_some_and(|due| due <= now) {
            self.controller.on_timer(now);
        }
    }

    /// Of the packets just delivered, the marks that have not been reported to the controller.
    fn new_marks(&mut self) -> Count {
        let count = self.make.marks().count();
        let new = count.saturating_sub(self.marks_seen);
        self.marks_seen = self.marks_seen.max(count);
        let packets = u32::try_from(new).unwrap_or(u32::MAX).min(self.delivered.packets);
        Count { packets, bytes: (u64::from(packets) * u64::from(self.mtu)).min(self.delivered.bytes) }
    }

    /// Reports what was delivered and lost to the controller; one of the two is nothing.
    fn report(&mut self, now: Time, prior_in_flight: u64, app_limited: bool) {
        // A loss found by a timer comes without an ACK frame.
        let ce = if self.delivered.packets > 0 { self.new_marks() } else { Count::default() };
        let (delivered, newly) = (std::mem::take(&mut self.delivered), self.newly.take());
        let (lost, sample) = (std::mem::take(&mut self.lost), self.lost_sample.take());
        self.delivery.deliver(delivered, ce.packets);
        let mut rtt = None;
        if let Some((index, stamp)) = newly
            && self.newest.is_none_or(|newest| index > newest)
        {
            self.newest = Some(index);
            let sample = now.since(stamp.sent);
            self.rtt.sample(sample);
            rtt = Some(sample);
        }
        let rate = newly.and_then(|(_, stamp)| self.delivery.sample(now, &stamp, self.rtt.shortest));
        self.forget(newly.map_or(Time::ZERO, |(_, stamp)| stamp.sent));
        self.controller.on_ack(&Ack {
            now,
            delivered,
            ce,
            echo: ce.packets > 0,
            lost,
            missing: lost.packets,
            lost_sent: sample.map_or(Time::ZERO, |(sent, _)| sent),
            loss: sample.map(|(_, sample)| sample),
            delivered_sent: newly.map_or(Time::ZERO, |(_, stamp)| stamp.sent),
            rtt,
            smoothed_rtt: self.rtt.smoothed,
            min_rtt: self.rtt.shortest,
            in_flight: self.in_flight,
            prior_in_flight,
            window_limited: newly.is_some_and(|(index, _)| match self.make.door() {
                None => !app_limited,
                Some(_) => index < self.limited_until,
            }),
            una: self.lost_from.take().unwrap_or(self.first).min(self.first),
            next: self.next(),
            total_delivered: self.delivery.delivered(),
            total_lost: self.delivery.lost(),
            rate,
            app_limited,
        });
    }

    /// A packet arrived.
    fn deliver(&mut self, sent: Instant, bytes: u64, number: u64) {
        self.delivered.packets += 1;
        self.delivered.bytes += bytes;
        // Packets are found by when they were sent, which unlike their number is in order and of all spaces.
        let from = self.flying.partition_point(|packet| packet.at < sent);
        let found = self.take(from, |packet| packet.number == number && packet.at == sent);
        if let Some((index, packet)) = found
            && self.newly.is_none_or(|(newest, _)| index > newest)
        {
            self.newly = Some((index, packet.stamp));
        }
    }

    /// Drops what is no longer under way from the front: acknowledged, lost, or so much older than what is acknowledged
    /// that noq must have dropped it silently, with the keys of the handshake.
    fn forget(&mut self, newest: Time) {
        let patience = (self.rtt.smoothed * 2).max(Duration::from_millis(20));
        while self
            .flying
            .front()
            .is_some_and(|packet| !packet.open || newest.since(packet.stamp.sent) > patience)
        {
            self.flying.pop_front();
            self.first += 1;
        }
    }

    /// Takes the packet under way that satisfies `is` and lies at `from` or behind, and its place.
    fn take(&mut self, from: usize, is: impl Fn(&Flying) -> bool) -> Option<(u64, Flying)> {
        let ahead = self.flying.iter().skip(from).position(|packet| packet.open && is(packet))?;
        let packet = &mut self.flying[from + ahead];
        packet.open = false;
        Some((self.first + (from + ahead) as u64, *packet))
    }
}

impl Controller for Bridge {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, number: u64) {
        let (at, bytes) = (now, u64::from(bytes));
        let now = self.clock.time(at);
        self.wake(now);
        let restarts = self.in_flight == 0;
        self.in_flight += bytes;
        let stamp = self.delivery.send(now, self.in_flight, restarts);
        self.flying.push_back(Flying { number, at, bytes, stamp, open: true });
        let sent = Sent { now, bytes: bytes as u32, in_flight: self.in_flight, restarts };
        match self.make.door() {
            // The host tells the controller, when it hands the packet to the network.
            Some(door) => door.pass(number, sent),
            None => self.controller.on_sent(&sent),
        }
    }

    fn on_cwnd_limited(&mut self) {
        // A door is shut for the sake of time, which is not the window's doing.
        if self.make.door().is_some_and(|door| !door.knock()) {
            self.limited_until = self.next();
        }
    }

    fn on_ack(&mut self, _: Instant, sent: Instant, bytes: u64, number: u64, _: bool, _: &RttEstimator) {
        self.deliver(sent, bytes, number);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _: Option<u64>) {
        let prior = std::mem::replace(&mut self.in_flight, in_flight);
        if self.delivered.packets == 0 {
            return;
        }
        let now = self.clock.time(now);
        self.wake(now);
        if app_limited {
            self.delivery.limit_by_application(in_flight.div_ceil(u64::from(self.mtu)));
        }
        self.report(now, prior, app_limited);
    }

    fn on_packet_lost(&mut self, bytes: u16, number: u64, _: Instant) {
        let bytes = u64::from(bytes);
        if bytes == 0 {
            // Only acknowledgements: not under way as the window counts.
            return;
        }
        self.lost.packets += 1;
        self.lost.bytes += bytes;
        self.in_flight = self.in_flight.saturating_sub(bytes);
        match self.take(0, |packet| packet.number == number && packet.bytes == bytes) {
            Some((index, packet)) => {
                self.lost_from = Some(self.lost_from.map_or(index, |from| from.min(index)));
                self.lost_sample = Some((packet.stamp.sent, self.delivery.lose(&packet.stamp)));
            }
            None => self.delivery.lose_unknown(),
        }
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent: bool,
        is_ecn: bool,
        _: u64,
        _: u64,
    ) {
        if is_ecn {
            return;
        }
        let (now, sent) = (self.clock.time(now), self.clock.time(sent));
        let prior = self.in_flight + self.lost.bytes;
        if let Some((newest, _)) = &mut self.lost_sample {
            *newest = sent;
        }
        self.report(now, prior, false);
        if is_persistent {
            let timeout = Timeout { now, in_flight: self.in_flight, next: self.next() };
            self.controller.on_timeout(&timeout);
        }
    }

    fn on_mtu_update(&mut self, _: u16) {
        // Datagrams are of one size for the whole flow.
    }

    fn window(&self) -> u64 {
        let window = self.controller.window();
        match self.make.door() {
            None => window.max(u64::from(self.mtu)),
            // noq holds a window of nothing for a mistake.
            Some(door) if door.ask() => 1,
            Some(_) => window.max(1),
        }
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        if self.make.door().is_some() {
            metrics.congestion_window = OPEN;
            return metrics;
        }
        metrics.congestion_window = self.window();
        if let Some(rate) = self.controller.pacing() {
            let least = 2 * u64::from(self.mtu);
            metrics.pacing_rate = Some((rate.bits_per_sec() / 8).max(1));
            metrics.send_quantum = Some(rate.bytes_in(BATCH).0.clamp(least, LARGEST_BATCH.max(least)));
        }
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        // For a new path, about which nothing is known (RFC 9000 section 9.4).
        Box::new(Self::new(Arc::clone(&self.make), self.clock, self.mtu))
    }

    fn initial_window(&self) -> u64 {
        u64::from(INITIAL) * u64::from(self.mtu)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noq_proto::congestion::Controller;
    use weir_core::{Duration, Seed, Time};

    use super::{Bridge, Factory};
    use crate::clock::Clock;
    use crate::marks::Marks;

    /// A pacer can keep a flow below its window. Slow start goes on all the same, unless the application has nothing to
    /// send.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "noq's times have no other beginning")]
    fn a_flow_that_its_pacer_keeps_below_its_window_is_not_limited_by_its_application() {
        let entry = weir_cc::find("cubic").unwrap();
        let grown = |app_limited: bool| {
            let random = Seed { seed: 1, run: 0 }.stream("test");
            let factory = Factory { entry, ecn: false, random, marks: Marks::default() };
            let began = std::time::Instant::now();
            let at = |ms: u64| began + std::time::Duration::from_millis(ms);
            let mut bridge = Bridge::new(Arc::new(factory), Clock::new(began), 1200);
            let before = bridge.window();
            for number in 0..8 {
                bridge.on_packet_sent(at(2 * number), 1200, number);
            }
            for number in 0..8 {
                bridge.deliver(at(2 * number), 1200, number);
                bridge.on_end_acks(at(20 + 2 * number), (7 - number) * 1200, app_limited, Some(number));
            }
            (bridge.window() - before) / 1200
        };
        assert_eq!((grown(false), grown(true)), (8, 0));
    }

    /// noq never says what became of a handshake's packet whose keys are gone. Rounds of controllers end once the
    /// oldest packet under way is a later one: such a packet must not be that for long.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "noq's times have no other beginning")]
    fn a_packet_of_the_handshake_that_nobody_acknowledges_holds_up_no_round() {
        let entry = weir_cc::find("cubic").unwrap();
        let random = Seed { seed: 1, run: 0 }.stream("test");
        let factory = Factory { entry, ecn: false, random, marks: Marks::default() };
        let began = std::time::Instant::now();
        let at = |ms: u64| began + std::time::Duration::from_millis(ms);
        let mut bridge = Bridge::new(Arc::new(factory), Clock::new(began), 1200);
        bridge.on_packet_sent(at(0), 1200, 0);
        for number in 0..6 {
            bridge.on_packet_sent(at(20 + number * 10), 1200, number);
        }
        bridge.rtt.sample(Duration::from_millis(20));
        for (number, oldest) in [(0, 0), (1, 0), (2, 0), (3, 5), (4, 6), (5, 7)] {
            let index =
                bridge.take(0, |packet| packet.number == number && packet.at > at(0)).map(|(index, _)| index);
            assert_eq!(index, Some(number + 1));
            bridge.forget(Time::ZERO + Duration::from_millis(20 + number * 10));
            assert_eq!(bridge.first, oldest, "with packet {number} acknowledged");
        }
    }
}
