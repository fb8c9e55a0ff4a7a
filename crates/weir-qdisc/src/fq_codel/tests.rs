use super::{FqCodel, FqCodelConfig};
use crate::Qdisc;
use weir_core::{
    Backlog, DropReason, Duration, Ecn, Event, EventKind, FlowId, MarkReason, Packet, Seed, Time,
};

const EVICTED: EventKind = EventKind::Drop(DropReason::Evicted);
const AQM: EventKind = EventKind::Drop(DropReason::Aqm);

fn fq_codel(config: FqCodelConfig) -> FqCodel {
    FqCodel::new(config, Seed::default().stream("fq_codel"))
}

fn millis(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

/// Offers packets of (flow, bytes) at time zero, with ids from zero.
fn offer(queue: &mut FqCodel, packets: impl IntoIterator<Item = (u32, u32)>) -> Vec<Event> {
    let mut events = Vec::new();
    for (id, (flow, bytes)) in packets.into_iter().enumerate() {
        queue.enqueue(Packet::new(id as u64, FlowId(flow), bytes, Time::ZERO), Time::ZERO, &mut events);
    }
    events
}

fn ids(events: &[Event], kind: EventKind) -> Vec<u64> {
    events.iter().filter(|event| event.kind == kind).map(|event| event.packet.id).collect()
}

#[test]
fn the_defaults_are_the_kernels() {
    let config = FqCodelConfig::default();
    assert_eq!((config.limit, config.flows, config.quantum), (10_240, 1024, 1514));
    assert_eq!((config.memory_limit, config.drop_batch, config.ecn), (33_554_432, 64, true));
}

#[test]
fn a_new_flow_goes_before_the_backlog_of_others() {
    let mut queue = fq_codel(FqCodelConfig::default());
    offer(&mut queue, [(1, 1514), (1, 1514), (1, 1514), (2, 1514), (2, 1514)]);
    let mut next = || queue.dequeue(Time::ZERO, &mut ()).map(|packet| packet.id);
    // Both flows are new: one quantum each, in the order in which they came.
    assert_eq!([next(), next(), next()], [Some(0), Some(3), Some(1)]);
    // A third flow has nothing queued, so it goes first; its second packet is within its quantum.
    let late = |id, bytes| Packet::new(id, FlowId(3), bytes, Time::ZERO);
    queue.enqueue(late(10, 700), Time::ZERO, &mut ());
    queue.enqueue(late(11, 800), Time::ZERO, &mut ());
    queue.enqueue(late(12, 800), Time::ZERO, &mut ());
    let order: Vec<_> =
        std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut ())).map(|packet| packet.id).collect();
    // The third is not: 700 + 800 leave 14 bytes, which allow one packet more and put it 786 in debt.
    assert_eq!(order, [10, 11, 12, 4, 2]);
}

#[test]
fn a_full_queue_drops_half_of_the_fattest_flow() {
    let config = FqCodelConfig { limit: 20, ..FqCodelConfig::default() };
    let mut queue = fq_codel(config);
    // Flow 1 has more packets, flow 2 more bytes. The packet that is too many is flow 3's, and stays.
    let packets = (0..14).map(|_| (1, 100)).chain((0..6).map(|_| (2, 1000))).chain([(3, 60)]);
    let events = offer(&mut queue, packets);
    assert_eq!(ids(&events, EventKind::Enqueue).len(), 21);
    assert_eq!(ids(&events, EVICTED), [14, 15, 16], "from the head, until half of the 6000 bytes are gone");
    assert_eq!(queue.backlog(), Backlog { packets: 18, bytes: 1400 + 3000 + 60 });
    let counts: Vec<_> = queue.flows.iter().map(|flow| flow.law.count).filter(|count| *count > 0).collect();
    assert_eq!(counts, [3], "the drops make the flow's law stricter");
}

#[test]
fn a_batch_bounds_the_drops_and_the_last_packet_can_go() {
    let config = FqCodelConfig { limit: 200, ..FqCodelConfig::default() };
    let events = offer(&mut fq_codel(config), (0..201).map(|_| (1, 1000)));
    assert!(ids(&events, EVICTED).into_iter().eq(0..64));
    let one = FqCodelConfig { drop_batch: 1, ..config };
    assert_eq!(ids(&offer(&mut fq_codel(one), (0..203).map(|_| (1, 1000))), EVICTED), [0, 1, 2]);
    // With room for nothing even a lone packet goes, as the kernel's do-while does.
    let none = FqCodelConfig { limit: 0, ..config };
    let mut queue = fq_codel(none);
    assert_eq!(ids(&offer(&mut queue, [(1, 1000)]), EVICTED), [0]);
    assert!(queue.dequeue(Time::ZERO, &mut ()).is_none());
}

#[test]
fn too_many_bytes_are_too_many_too() {
    let config = FqCodelConfig { memory_limit: 10_000, ..FqCodelConfig::default() };
    let events = offer(&mut fq_codel(config), (0..11).map(|_| (1, 1000)));
    // 11000 bytes, of which half are 5500: six packets.
    assert!(ids(&events, EVICTED).into_iter().eq(0..6));
}

#[test]
fn each_flow_has_a_law_but_all_share_its_backlog() {
    for (others, dropped) in [(0, false), (1, true)] {
        let mut queue = fq_codel(FqCodelConfig { ecn: false, ..FqCodelConfig::default() });
        // Flow 1 has two small packets; the other flow a packet and `others` more.
        offer(&mut queue, [(1, 100), (1, 100)].into_iter().chain((0..=others).map(|_| (2, 1000))));
        let mut events: Vec<Event> = Vec::new();
        // Above target for longer than an interval.
        for at in [10, 150, 150, 150, 150] {
            queue.dequeue(millis(at), &mut events);
        }
        // With 2000 bytes of the other flow waiting, flow 1's last packet goes; with less than an MTU it stays.
        assert_eq!(ids(&events, AQM).contains(&1), dropped, "{others}");
    }
}

#[test]
fn senders_that_use_ecn_are_marked() {
    let mut queue = fq_codel(FqCodelConfig::default());
    for id in 0..4 {
        let packet = Packet::new(id, FlowId(1), 1514, Time::ZERO).with_ecn(Ecn::Ect0);
        queue.enqueue(packet, Time::ZERO, &mut ());
    }
    let mut events: Vec<Event> = Vec::new();
    queue.dequeue(millis(10), &mut events);
    let packet = queue.dequeue(millis(150), &mut events).unwrap();
    assert_eq!((packet.id, packet.ecn), (1, Ecn::Ce));
    assert_eq!(ids(&events, EventKind::Mark(MarkReason::Aqm)), [1]);
    assert!(ids(&events, AQM).is_empty());
}

#[test]
fn flows_that_collide_are_one_flow() {
    let mut queue = fq_codel(FqCodelConfig { flows: 1, ..FqCodelConfig::default() });
    offer(&mut queue, [(1, 1514), (1, 1514), (2, 100), (7, 100)]);
    let order: Vec<_> =
        std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut ())).map(|packet| packet.id).collect();
    assert_eq!(order, [0, 1, 2, 3]);
}

#[test]
fn packets_of_no_flow_are_one_flow() {
    let mut queue = fq_codel(FqCodelConfig::default());
    offer(&mut queue, [(u32::MAX, 1514), (u32::MAX, 1514), (1, 1514)]);
    let order: Vec<_> =
        std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut ())).map(|packet| packet.id).collect();
    assert_eq!(order, [0, 2, 1]);
}
