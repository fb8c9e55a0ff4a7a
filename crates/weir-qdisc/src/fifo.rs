//! Drop-tail queues: `Pfifo` counts packets, `Bfifo` wire bytes. The rules are the kernel's (`net/sched/sch_fifo.c`): a
//! `pfifo` takes a packet while it holds fewer than its limit, a `bfifo` takes it if the backlog with it stays within
//! the limit. Differences: the kernel takes its default limit from the device (`txqueuelen` packets), here
//! [`QdiscConfig`](crate::QdiscConfig) gives it; the CRQ prototype's "drop-tail" is a `tbf` with a bucket of one
//! packet, which is a `Bfifo` only where no wake-up is late ([`Tbf`](crate::Tbf)).

mod keys;

pub use keys::{BfifoConfig, PfifoConfig};

use weir_core::{Backlog, EventSink, Packet, Time};

use crate::Qdisc;
use weir_queue::{QueueLimit, Ring};

/// A drop-tail queue limited in packets (`pfifo`).
#[derive(Clone, Debug)]
pub struct Pfifo(Ring);

/// A drop-tail queue limited in wire bytes (`bfifo`).
#[derive(Clone, Debug)]
pub struct Bfifo(Ring);

impl Pfifo {
    /// A queue of at most `limit` packets. With a limit of zero every packet is dropped.
    pub fn new(limit: u32) -> Self {
        Self(Ring::new(QueueLimit::Packets(limit)))
    }
}

impl Bfifo {
    /// A queue of at most `limit` wire bytes. Packets longer than the limit are always dropped.
    pub fn new(limit: u64) -> Self {
        Self(Ring::new(QueueLimit::Bytes(limit)))
    }
}

macro_rules! drop_tail {
    ($($fifo:ty),*) => {$(
        impl Qdisc for $fifo {
            fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
                self.0.offer(packet, now, events);
            }

            fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
                self.0.depart(now, events)
            }

            fn backlog(&self) -> Backlog {
                self.0.backlog()
            }
        }
    )*};
}
drop_tail!(Pfifo, Bfifo);

#[cfg(test)]
mod tests {
    use super::{Bfifo, Pfifo};
    use crate::Qdisc;
    use weir_core::{DropReason, Duration, Event, EventKind, FlowId, Packet, Time};

    fn offer(queue: &mut dyn Qdisc, id: u64, bytes: u32) -> EventKind {
        let mut events: Vec<Event> = Vec::new();
        let now = Time::from_nanos(id * 10);
        queue.enqueue(Packet::new(id, FlowId(0), bytes, now), now, &mut events);
        assert_eq!(events.len(), 1);
        events[0].kind
    }

    const OVERFLOW: EventKind = EventKind::Drop(DropReason::Overflow);

    #[test]
    fn a_packet_limit_counts_packets() {
        let mut queue = Pfifo::new(2);
        assert_eq!(offer(&mut queue, 0, 1), EventKind::Enqueue);
        assert_eq!(offer(&mut queue, 1, 60_000), EventKind::Enqueue);
        assert_eq!(offer(&mut queue, 2, 1), OVERFLOW);
        assert_eq!((queue.backlog().packets, queue.backlog().bytes), (2, 60_001));
    }

    #[test]
    fn a_byte_limit_may_be_filled_to_the_last_byte() {
        let mut queue = Bfifo::new(3000);
        assert_eq!(offer(&mut queue, 0, 1500), EventKind::Enqueue);
        assert_eq!(offer(&mut queue, 1, 1501), OVERFLOW);
        assert_eq!(offer(&mut queue, 2, 1500), EventKind::Enqueue);
        assert_eq!(offer(&mut queue, 3, 1), OVERFLOW);
        assert_eq!(queue.backlog().bytes, 3000);
    }

    #[test]
    fn departures_carry_sojourn_time_and_what_stays_behind() {
        let mut queue = Bfifo::new(10_000);
        offer(&mut queue, 1, 100);
        offer(&mut queue, 2, 200);
        let mut events: Vec<Event> = Vec::new();
        let packet = queue.dequeue(Time::from_nanos(1010), &mut events).unwrap();
        assert_eq!((packet.id, packet.arrived), (1, Time::from_nanos(10)));
        assert_eq!((events[0].kind, events[0].sojourn), (EventKind::Dequeue, Duration::from_nanos(1000)));
        assert_eq!((events[0].backlog.packets, events[0].backlog.bytes), (1, 200));
        assert_eq!(queue.next_ready(Time::from_nanos(1010)), Some(Time::from_nanos(1010)));
        queue.dequeue(Time::from_nanos(2000), &mut events).unwrap();
        assert!(queue.dequeue(Time::from_nanos(3000), &mut events).is_none());
        assert_eq!((events.len(), queue.next_ready(Time::from_nanos(3000))), (2, None));
    }

    #[test]
    fn zero_limits_and_empty_packets_stay_bounded() {
        assert_eq!(offer(&mut Pfifo::new(0), 0, 1), OVERFLOW);
        assert_eq!(offer(&mut Bfifo::new(0), 0, 0), OVERFLOW);
        let mut queue = Bfifo::new(5);
        let taken = (0..100).filter(|id| offer(&mut queue, *id, 0) == EventKind::Enqueue).count();
        assert_eq!(taken, 5);
    }
}
