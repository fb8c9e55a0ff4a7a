//! Drop-tail queues limited in time: no packet waits longer, and none is dropped that would not have.

mod support;

use proptest::prelude::*;
use support::{Arrival, drive};
use weir_core::{Duration, Ecn, EventKind, FlowId, QueueChoice, Rate, Seed};
use weir_qdisc::{BuildContext, QdiscConfig};

const MTU: u32 = 1514;

proptest! {
    #[test]
    fn a_packet_is_dropped_if_and_only_if_it_would_wait_longer(
        mbit in 1..200u64,
        limit_us in 15_000..100_000u64,
        packets in prop::collection::vec((prop_oneof![3 => Just(0), 1 => 0..3_000_000u64], 64..=MTU), 1..600),
    ) {
        let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
        let limit = Duration::from_micros(limit_us);
        let link = BuildContext { rate, rtt: Duration::from_millis(20), mtu: MTU, seed: Seed::default() };
        let mut queue = format!("bfifo limit {limit_us}us").parse::<QdiscConfig>().unwrap().build(&link).unwrap();
        let arrivals: Vec<_> = packets
            .into_iter()
            .map(|(gap, bytes)| Arrival { gap, flow: FlowId(0), bytes, ecn: Ecn::NotEct, choice: QueueChoice::Standard })
            .collect();
        let (events, _) = drive(&mut *queue, rate, &arrivals, true);
        // The packet that the link sends meanwhile is not in the queue.
        let on_the_link = rate.time_for(MTU.into());
        for event in &events {
            match event.kind {
                EventKind::Drop(_) => {
                    let with = event.backlog.bytes + u64::from(event.packet.wire_bytes);
                    prop_assert!(rate.time_for(with) >= limit, "{with} bytes at {rate}, limit {limit}");
                }
                EventKind::Dequeue => {
                    let own = rate.time_for(event.packet.wire_bytes.into());
                    prop_assert!(event.sojourn + own <= limit + on_the_link + Duration::from_nanos(2), "{:?}", event);
                }
                _ => {}
            }
        }
    }
}

#[test]
fn the_rate_is_the_queues_own_share() {
    let link = BuildContext {
        rate: Rate::from_bits_per_sec(16_000_000),
        rtt: Duration::from_millis(20),
        mtu: MTU,
        seed: Seed::default(),
    };
    // Half of 16 Mbit/s for 20 ms are 20000 bytes: thirteen packets of 1514, or of 1500.
    for (words, most) in [("bfifo limit 20ms", 13), ("pfifo limit 20ms", 13)] {
        let words = format!("crq standard {words} responsive codel split shared");
        let mut queue = words.parse::<QdiscConfig>().unwrap().build(&link).unwrap();
        for id in 0..100 {
            let packet = weir_core::Packet::new(id, FlowId(0), MTU, weir_core::Time::ZERO);
            queue.enqueue(packet, weir_core::Time::ZERO, &mut ());
        }
        assert_eq!(queue.backlog().packets, most, "{words}");
    }
}
