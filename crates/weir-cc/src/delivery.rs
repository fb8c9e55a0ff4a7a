//! What a sender has to keep to tell its controller how fast packets are delivered (delivery rate estimation,
//! `draft-cheng-iccrg-delivery-rate-estimation`; the kernel's `net/ipv4/tcp_rate.c`): counts of the connection, and of
//! each packet the counts at the moment it was sent.

use weir_core::{Duration, Time};

use crate::{Count, LossSample, RateSample};

/// The counts when a packet was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// When.
    pub sent: Time,
    in_flight: u64,
    then: Delivery,
}

/// The counts of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    delivered: u64,
    delivered_bytes: u64,
    delivered_ce: u64,
    /// When something was delivered last.
    delivered_at: Time,
    /// When the packet was sent that was delivered last.
    first_sent: Time,
    lost: u64,
    /// Until so many packets are delivered, the application and not the window holds the sender back; 0 if it does not.
    app_limited: u64,
}

impl Delivery {
    /// Packets delivered so far.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Their payload bytes.
    pub const fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// Packets declared lost so far.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// A packet is sent; with it `in_flight` payload bytes are under way, and `restarts` if it is alone.
    pub fn send(&mut self, now: Time, in_flight: u64, restarts: bool) -> Stamp {
        let mut stamp = Stamp::default();
        self.stamp(&mut stamp, now, in_flight, restarts);
        stamp
    }

    /// The same, written where it stays.
    #[inline]
    pub fn stamp(&mut self, stamp: &mut Stamp, now: Time, in_flight: u64, restarts: bool) {
        if restarts {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        stamp.sent = now;
        stamp.in_flight = in_flight;
        stamp.then = *self;
    }

    /// There is nothing to send though the window is open, with `in_flight` packets under way: what is sent until they
    /// are delivered says little of the path.
    pub fn limit_by_application(&mut self, in_flight: u64) {
        self.app_limited = (self.delivered + in_flight).max(1);
    }

    /// Packets of the connection that were marked so far.
    pub const fn marked(&self) -> u64 {
        self.delivered_ce
    }

    /// Packets were delivered, `ce` of them marked.
    pub fn deliver(&mut self, packets: Count, ce: u32) {
        self.delivered += u64::from(packets.packets);
        self.delivered_bytes += packets.bytes;
        self.delivered_ce += u64::from(ce);
        if self.delivered > self.app_limited {
            self.app_limited = 0;
        }
    }

    /// The delivery rate, by the packet that was sent last among those just [delivered](Self::deliver); `None` if it
    /// was measured over less than the `shortest` round-trip time: it may then be that of a burst of acknowledgements.
    #[inline]
    pub fn sample(&mut self, now: Time, newest: &Stamp, shortest: Duration) -> Option<RateSample> {
        let then = &newest.then;
        let interval = newest.sent.since(then.first_sent).max(now.since(then.delivered_at));
        (self.delivered_at, self.first_sent) = (now, newest.sent);
        (interval >= shortest && interval > Duration::ZERO).then(|| RateSample {
            delivered: Count {
                packets: (self.delivered - then.delivered) as u32,
                bytes: self.delivered_bytes - then.delivered_bytes,
            },
            interval,
            prior_delivered: then.delivered,
            delivered_ce: (self.delivered_ce - then.delivered_ce) as u32,
            lost: (self.lost - then.lost) as u32,
            in_flight_at_send: newest.in_flight,
            app_limited: then.app_limited > 0,
        })
    }

    /// A packet is declared lost.
    pub fn lose(&mut self, packet: &Stamp) -> LossSample {
        self.lost += 1;
        LossSample {
            in_flight_at_send: packet.in_flight,
            lost: (self.lost - packet.then.lost) as u32,
            app_limited: packet.then.app_limited > 0,
        }
    }

    /// A packet is declared lost of which nothing is known.
    pub fn lose_unknown(&mut self) {
        self.lost += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::Delivery;
    use crate::Count;
    use weir_core::{Duration, Time};

    const ONE: Count = Count { packets: 1, bytes: 1000 };

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn the_longer_of_sending_and_acknowledging_counts() {
        let mut path = Delivery::default();
        // Two packets sent 4 ms apart, acknowledged 1 ms apart: the sending was slower.
        let first = path.send(at(0), 1000, true);
        let second = path.send(at(4), 2000, false);
        path.deliver(ONE, 0);
        assert_eq!(path.sample(at(20), &first, Duration::ZERO).unwrap().interval, Duration::from_millis(20));
        let third = path.send(at(20), 2000, false);
        path.deliver(ONE, 1);
        let sample = path.sample(at(21), &second, Duration::from_millis(4)).unwrap();
        assert_eq!(
            (sample.delivered, sample.interval),
            (Count { packets: 2, bytes: 2000 }, Duration::from_millis(21))
        );
        assert_eq!((sample.delivered_ce, sample.in_flight_at_send), (1, 2000));
        path.deliver(ONE, 0);
        // Sent 16 ms after the packet before, and heard of within 5 ms of a delivery.
        let sample = path.sample(at(25), &third, Duration::from_millis(4)).unwrap();
        assert_eq!((sample.interval, sample.prior_delivered), (Duration::from_millis(20), 1));
        assert!(path.sample(at(25), &third, Duration::from_millis(21)).is_none());
    }

    #[test]
    fn packets_sent_while_the_application_holds_back_are_told() {
        let mut path = Delivery::default();
        let before = path.send(at(0), 1000, true);
        path.limit_by_application(1);
        let held_back = path.send(at(1), 2000, false);
        path.deliver(ONE, 0);
        assert!(!path.sample(at(9), &before, Duration::ZERO).unwrap().app_limited);
        path.deliver(ONE, 0);
        assert!(path.sample(at(10), &held_back, Duration::ZERO).unwrap().app_limited);
        assert!(path.lose(&held_back).app_limited);
        // All that was under way has arrived: the window bounds it again.
        let after = path.send(at(11), 1000, true);
        assert!(!path.lose(&after).app_limited);
        assert_eq!(path.lost(), 2);
    }
}
