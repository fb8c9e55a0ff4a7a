//! The two queues of a coupled dual-queue AQM under one limit: Classic (0) and L4S (1). RFC 9332 section 2.4: the
//! buffer is shared, so that neither queue can be starved of memory by a fixed division. The L4S queue can have a limit
//! of its own besides, which no source has: a bound of its delay that holds whatever its senders do.

use weir_core::{Backlog, DropReason, EventSink, Packet, QueueId, Time};

use crate::Limit;
use crate::keys::{BuildContext, ConfigError};
use crate::pi2::Scalable;
use weir_queue::{QueueLimit, Ring};

/// The names of the queues, in the order of their ids.
pub(crate) const NAMES: &[&str] = &["classic", "l4s"];

/// Full packets that the L4S queue holds at least where its limit is a time: on slow links a shorter one would drop
/// what any sender keeps in flight.
const LEAST: u64 = 4;

#[derive(Clone, Debug)]
pub(crate) struct Dual {
    pub(crate) classic: Ring,
    pub(crate) l4s: Ring,
    limit: QueueLimit,
    scalable: Scalable,
}

impl Dual {
    /// Both queues hold up to `limit` together, and the L4S queue up to `l4s_limit` of it, if one is given.
    pub(crate) fn new(limit: QueueLimit, l4s_limit: Option<QueueLimit>, scalable: Scalable) -> Self {
        Self {
            classic: Ring::of_queue(QueueId(0), limit),
            l4s: Ring::of_queue(QueueId(1), l4s_limit.unwrap_or(limit)),
            limit,
            scalable,
        }
    }

    /// The limit of the L4S queue as `given`; a time is what the link sends in it, at least four full packets.
    pub(crate) fn l4s_limit(
        given: Option<Limit>,
        context: &BuildContext,
    ) -> Result<Option<QueueLimit>, ConfigError> {
        let resolve = |limit| match limit {
            Limit::Time(time) => {
                let bytes = context.rate.bytes_in(time).0;
                Ok(QueueLimit::Bytes(bytes.max(LEAST * u64::from(context.mtu))))
            }
            limit => context.queue_limit("l4s_limit", limit),
        };
        given.map(resolve).transpose()
    }

    /// Whether a packet belongs into the L4S queue, by the codepoint it came with.
    pub(crate) const fn is_l4s(&self, packet: &Packet) -> bool {
        self.scalable.is(packet.ecn_in)
    }

    pub(crate) fn ring(&self, is_l4s: bool) -> &Ring {
        if is_l4s { &self.l4s } else { &self.classic }
    }

    pub(crate) fn ring_mut(&mut self, is_l4s: bool) -> &mut Ring {
        if is_l4s { &mut self.l4s } else { &mut self.classic }
    }

    /// Whether both queues together leave room for a packet.
    pub(crate) fn accepts(&self, wire_bytes: u32) -> bool {
        let backlog = self.backlog();
        match self.limit {
            QueueLimit::Packets(limit) => backlog.packets < limit,
            // As in a single ring, a packet of no bytes counts as one.
            QueueLimit::Bytes(limit) => {
                backlog.bytes.saturating_add(u64::from(wire_bytes)) <= limit
                    && u64::from(backlog.packets) < limit
            }
        }
    }

    /// Takes the packet at the tail of its queue or drops it, and says which.
    pub(crate) fn offer(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        let is_l4s = self.is_l4s(&packet);
        if self.accepts(packet.wire_bytes) {
            self.ring_mut(is_l4s).offer(packet, now, events);
        } else {
            self.ring(is_l4s).refuse(packet, DropReason::Overflow, now, events);
        }
    }

    pub(crate) fn backlog(&self) -> Backlog {
        let (classic, l4s) = (self.classic.backlog(), self.l4s.backlog());
        Backlog { packets: classic.packets + l4s.packets, bytes: classic.bytes + l4s.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::Dual;
    use crate::keys::BuildContext;
    use crate::pi2::Scalable;
    use weir_core::{DropReason, Duration, Ecn, Event, EventKind, FlowId, Packet, QueueId, Rate, Seed, Time};
    use weir_queue::QueueLimit;

    #[test]
    fn codepoints_choose_the_queue_and_both_share_the_limit() {
        let mut dual = Dual::new(QueueLimit::Bytes(4000), None, Scalable::Ect1);
        let mut events: Vec<Event> = Vec::new();
        for (id, ecn) in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce, Ecn::Ect1].into_iter().enumerate() {
            let packet = Packet::new(id as u64, FlowId(0), 1000, Time::ZERO).with_ecn(ecn);
            dual.offer(packet, Time::ZERO, &mut events);
        }
        let queues: Vec<_> = events.iter().map(|event| (event.queue, event.kind)).collect();
        let enqueued = |queue| (QueueId(queue), EventKind::Enqueue);
        let dropped = (QueueId(1), EventKind::Drop(DropReason::Overflow));
        assert_eq!(queues, [enqueued(0), enqueued(0), enqueued(1), enqueued(1), dropped]);
        assert_eq!((dual.backlog().packets, dual.l4s.backlog().bytes), (4, 2000));
    }

    #[test]
    fn the_l4s_queues_own_limit_leaves_the_classic_queue_the_rest() {
        let mut dual = Dual::new(QueueLimit::Packets(6), Some(QueueLimit::Bytes(2000)), Scalable::Ect1);
        let mut events: Vec<Event> = Vec::new();
        for id in 0..10 {
            let ecn = if id % 2 == 0 { Ecn::Ect1 } else { Ecn::NotEct };
            dual.offer(Packet::new(id, FlowId(0), 1000, Time::ZERO).with_ecn(ecn), Time::ZERO, &mut events);
        }
        assert_eq!((dual.l4s.backlog().packets, dual.classic.backlog().packets), (2, 4));
        let dropped = |event: &&Event| event.kind == EventKind::Drop(DropReason::Overflow);
        let queues: Vec<_> = events.iter().filter(dropped).map(|event| event.queue.0).collect();
        // The third, fourth and fifth of the L4S queue, and the last for both limits.
        assert_eq!(queues, [1, 1, 1, 0]);
    }

    #[test]
    fn a_time_is_at_least_four_full_packets() {
        let link = |rate: &str| BuildContext {
            rate: rate.parse::<Rate>().unwrap(),
            rtt: Duration::from_millis(20),
            mtu: 1514,
            seed: Seed::default(),
        };
        let limit = |words: &str, rate| Dual::l4s_limit(Some(words.parse().unwrap()), &link(rate));
        assert_eq!(limit("1.5ms", "40mbit"), Ok(Some(QueueLimit::Bytes(7500))));
        assert_eq!(limit("1.5ms", "10mbit"), Ok(Some(QueueLimit::Bytes(6056))));
        assert_eq!(limit("3p", "10mbit"), Ok(Some(QueueLimit::Packets(3))));
        assert!(limit("100b", "10mbit").is_err());
        assert_eq!(Dual::l4s_limit(None, &link("10mbit")), Ok(None));
    }
}
