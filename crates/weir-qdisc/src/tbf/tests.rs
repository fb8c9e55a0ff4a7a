use super::{ByteTime, Tbf, TbfConfig, TbfKeys};
use crate::Qdisc;
use crate::keys::BuildContext;
use weir_core::{DropReason, Duration, Event, EventKind, FlowId, Packet, Rate, Seed, Time};

const GBIT: Rate = Rate::from_bits_per_sec(1_000_000_000);

fn tbf(burst: u32, late: u64) -> Tbf {
    Tbf::new(TbfConfig { rate: GBIT, burst, limit: 10_000_000, late: Duration::from_nanos(late) })
}

/// Packets of 1514 bytes that a device without end takes in 10 ms from a queue that never runs empty.
fn taken(queue: &mut Tbf) -> u64 {
    for id in 0..3000 {
        queue.enqueue(Packet::new(id, FlowId(0), 1514, Time::ZERO), Time::ZERO, &mut ());
    }
    let (mut now, mut taken) = (Time::ZERO, 0);
    while let Some(ready) = queue.next_ready(now).filter(|ready| *ready < Time::from_nanos(10_000_000)) {
        now = ready;
        assert!(queue.dequeue(now, &mut ()).is_some(), "not ready when it said so");
        taken += 1;
    }
    taken
}

#[test]
fn a_limit_in_time_or_bdp_is_at_the_rate_at_which_the_queue_empties() {
    let link = BuildContext { rate: GBIT, rtt: Duration::from_millis(40), mtu: 1514, seed: Seed::default() };
    let slower = Some(Rate::from_bits_per_sec(10_000_000));
    let faster = Some(Rate::from_bits_per_sec(2_000_000_000));
    for (rate, limit, bytes) in [
        (slower, "20ms", 25_000),
        (slower, "0.5bdp", 25_000),
        (slower, "30000b", 30_000),
        (faster, "20ms", 2_500_000),
        (None, "20ms", 2_500_000),
    ] {
        let keys = TbfKeys { rate, limit: limit.parse().unwrap(), ..TbfKeys::default() };
        assert_eq!(keys.resolve(&link).unwrap().limit, bytes, "{rate:?} {limit}");
    }
}

#[test]
fn a_byte_takes_what_the_kernel_says() {
    for (bits, bytes, nanos) in [
        (1_000_000_000, 1514, 12_112),
        (640_000_000, 1514, 18_925),
        (8, 1, 1_000_000_000),
        (3_000_000, 7, 18_666),
    ] {
        assert_eq!(ByteTime::new(Rate::from_bits_per_sec(bits)).of(bytes), nanos, "{bits}");
    }
    // 10^9 / 125,000,000 is 8, which 28 shifts bring to 2^31.
    assert_eq!(ByteTime::new(GBIT), ByteTime { multiplier: 1 << 31, shift: 28 });
}

#[test]
fn a_bucket_of_one_packet_loses_every_late_wake_up() {
    // 12.112 us a packet: 826 in 10 ms. With 6.8 us more it is 529: 640 Mbit/s.
    assert_eq!(taken(&mut tbf(1514, 0)), 826);
    assert_eq!(taken(&mut tbf(1514, 6_800)), 529);
    // A bucket of two packets makes up for it: no more than the burst itself is gained.
    assert_eq!(taken(&mut tbf(3028, 6_800)), 826 + 1);
    assert_eq!(taken(&mut tbf(100_000, 6_800)), 826 + 65);
}

#[test]
fn a_packet_that_arrives_ends_a_wait_whose_time_has_come() {
    let packet = |id, at| Packet::new(id, FlowId(0), 1514, Time::from_nanos(at));
    let mut queue = tbf(1514, 6_800);
    queue.enqueue(packet(0, 0), Time::ZERO, &mut ());
    queue.enqueue(packet(1, 0), Time::ZERO, &mut ());
    assert!(queue.dequeue(Time::ZERO, &mut ()).is_some());
    assert_eq!(queue.next_ready(Time::ZERO), Some(Time::from_nanos(12_112 + 6_800)));
    // Too early: it changes nothing.
    queue.enqueue(packet(2, 9_000), Time::from_nanos(9_000), &mut ());
    assert!(queue.dequeue(Time::from_nanos(9_000), &mut ()).is_none());
    assert_eq!(queue.next_ready(Time::from_nanos(9_000)), Some(Time::from_nanos(12_112 + 6_800)));
    queue.enqueue(packet(3, 13_000), Time::from_nanos(13_000), &mut ());
    assert_eq!(queue.dequeue(Time::from_nanos(13_000), &mut ()).map(|packet| packet.id), Some(1));
    assert_eq!(queue.waits(), 2);
}

#[test]
fn longer_packets_than_the_bucket_never_pass_and_super_packets_pay_for_all_segments() {
    let mut queue = tbf(1514, 0);
    let mut events: Vec<Event> = Vec::new();
    queue.enqueue(Packet::new(0, FlowId(0), 1515, Time::ZERO), Time::ZERO, &mut events);
    assert_eq!(events[0].kind, EventKind::Drop(DropReason::Overflow));
    let large = Packet { segments: 10, ..Packet::new(1, FlowId(0), 15_140, Time::ZERO) };
    queue.enqueue(large, Time::ZERO, &mut events);
    queue.enqueue(Packet::new(2, FlowId(0), 1514, Time::ZERO), Time::ZERO, &mut events);
    assert_eq!(queue.dequeue(Time::ZERO, &mut events).map(|packet| packet.id), Some(1));
    assert_eq!(queue.next_ready(Time::ZERO), Some(Time::from_nanos(10 * 12_112)));
}
