use super::{Crq, CrqConfig, CrqCounters, Sharing, Split, Switching};
use crate::keys::ConfigError;
use crate::{Pfifo, Qdisc};
use weir_core::{
    DropReason, Event, EventKind, FlowId, Packet, QueueChoice, QueueChoice::*, QueueId, Rate, Time,
};

fn crq(sharing: Sharing, split: Split, switching: Switching, limit: u32) -> Result<Crq, ConfigError> {
    let config = CrqConfig { sharing, split, switching, mtu: 1000 };
    Crq::new(config, Box::new(Pfifo::new(limit)), Box::new(Pfifo::new(limit)))
}

fn packet(id: u64, flow: FlowId, choice: QueueChoice) -> Packet {
    Packet { choice, ..Packet::new(id, flow, 1000, Time::ZERO) }
}

fn drain(queue: &mut Crq) -> Vec<u64> {
    std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut ())).map(|packet| packet.id).collect()
}

#[test]
fn switching_at_once_may_reorder_and_draining_may_not() {
    for (switching, expected, counters) in [
        (Switching::Immediate, [2, 3, 0, 1], CrqCounters { switches: 1, held_back: 0 }),
        (Switching::Drain, [0, 1, 2, 3], CrqCounters { switches: 0, held_back: 2 }),
    ] {
        let mut queue = crq(Sharing::StrictPriority, Split::Shared, switching, 10).unwrap();
        for (id, choice) in [Standard, Standard, Responsive, Responsive].into_iter().enumerate() {
            queue.enqueue(packet(id as u64, FlowId(3), choice), Time::ZERO, &mut ());
        }
        assert_eq!(drain(&mut queue), expected, "{switching:?}");
        assert_eq!(queue.counters(), counters);
        // The old queue is empty now, so both put the next packet into the new one.
        queue.enqueue(packet(9, FlowId(3), Responsive), Time::ZERO, &mut ());
        assert_eq!(queue.queue_backlog(Responsive).packets, 1);
        assert_eq!(queue.counters().switches, 1);
    }
}

#[test]
fn a_packet_refused_at_the_door_does_not_hold_its_flow() {
    let mut queue = crq(Sharing::Equal, Split::Shared, Switching::Drain, 1).unwrap();
    let mut events: Vec<Event> = Vec::new();
    queue.enqueue(packet(0, FlowId(0), Standard), Time::ZERO, &mut events);
    queue.enqueue(packet(1, FlowId(1), Standard), Time::ZERO, &mut events);
    assert_eq!(events[1].kind, EventKind::Drop(DropReason::Overflow));
    queue.enqueue(packet(2, FlowId(1), Responsive), Time::ZERO, &mut events);
    assert_eq!((events[2].kind, events[2].queue), (EventKind::Enqueue, QueueId(1)));
    assert_eq!(queue.counters(), CrqCounters { switches: 1, held_back: 0 });
}

#[test]
fn packets_of_no_flow_are_standard() {
    let mut queue = crq(Sharing::Equal, Split::Shared, Switching::Drain, 5).unwrap();
    for flow in [FlowId::NONE, FlowId(u32::MAX - 1)] {
        queue.enqueue(packet(0, flow, Responsive), Time::ZERO, &mut ());
    }
    assert_eq!((queue.queue_backlog(Standard).packets, queue.backlog().packets), (2, 2));
    assert_eq!(queue.counters(), CrqCounters::default());
}

#[test]
fn contradictions_are_refused() {
    let hard = |rate, burst| Split::Hard { rate: Rate::from_bits_per_sec(rate), burst, mtu: 1514 };
    let now = Switching::Immediate;
    let error = |sharing, split| crq(sharing, split, now, 1).err().unwrap().to_string();
    assert!(error(Sharing::StrictPriority, hard(1, 1514)).contains("split"));
    assert!(error(Sharing::Equal, hard(0, 1514)).contains("rate"));
    assert!(error(Sharing::Equal, hard(1, 1513)).contains("burst"));
    assert!(
        error(Sharing::Weighted { standard: 0, responsive: 2, ecn_responsive: 0 }, Split::Shared)
            .contains("weight")
    );
    assert!(crq(Sharing::Equal, hard(1, 1514), now, 1).is_ok());
}

#[test]
fn flows_that_answer_to_marks_have_a_queue_of_their_own_if_there_is_one() {
    let fifo = || Box::new(Pfifo::new(10));
    let config = CrqConfig {
        sharing: Sharing::Equal,
        split: Split::Shared,
        switching: Switching::Immediate,
        mtu: 1000,
    };
    let two = Crq::new(config, fifo(), fifo()).unwrap();
    let three = Crq::with_ecn_responsive(config, fifo(), fifo(), fifo()).unwrap();
    for (mut queue, queues) in [(two, [0, 1, 1]), (three, [0, 1, 2])] {
        let mut events: Vec<Event> = Vec::new();
        for (id, choice) in QueueChoice::ALL.into_iter().enumerate() {
            queue.enqueue(packet(id as u64, FlowId(id as u32), choice), Time::ZERO, &mut events);
        }
        assert_eq!(events.iter().map(|event| event.queue.0).collect::<Vec<_>>(), queues);
        for choice in QueueChoice::ALL {
            let holds = queues.iter().filter(|queue| **queue == choice as u8).count();
            assert_eq!(queue.queue_backlog(choice).packets as usize, holds);
        }
        assert_eq!(queue.backlog().packets, 3);
        assert_eq!(drain(&mut queue).len(), 3);
    }
    let weighted = Sharing::Weighted { standard: 1, responsive: 1, ecn_responsive: 0 };
    let config = CrqConfig { sharing: weighted, ..config };
    let error = Crq::with_ecn_responsive(config, fifo(), fifo(), fifo()).err().unwrap().to_string();
    assert!(error.contains("1:1") && error.contains("30:30:40"), "{error}");
    let three = Sharing::Weighted { standard: 1, responsive: 1, ecn_responsive: 2 };
    assert!(crq(three, Split::Shared, Switching::Immediate, 1).err().unwrap().to_string().contains("30:70"));
}

#[test]
fn a_hard_split_says_when_to_come_back() {
    let split = Split::Hard { rate: Rate::from_bits_per_sec(8_000_000), burst: 2000, mtu: 1000 };
    let mut queue = crq(Sharing::Equal, split, Switching::Immediate, 10).unwrap();
    for id in 0..3 {
        queue.enqueue(packet(id, FlowId(0), Standard), Time::ZERO, &mut ());
    }
    assert_eq!(drain(&mut queue), [0, 1]);
    // 1000 bytes at 4 Mbit/s, with the responsive half idle and not lent.
    let ready = queue.next_ready(Time::ZERO).unwrap();
    assert_eq!(ready, Time::from_nanos(2_000_000));
    assert!(queue.dequeue(Time::from_nanos(1_999_999), &mut ()).is_none());
    assert_eq!(queue.dequeue(ready, &mut ()).unwrap().id, 2);
    assert_eq!(queue.next_ready(ready), None);
}
