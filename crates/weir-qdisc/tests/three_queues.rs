//! CRQ with a queue of its own for flows that answer to marks: what holds of the shares of two queues holds of three.

mod support;

use proptest::prelude::*;
use support::{Arrival, drive};
use weir_core::{
    Duration, Ecn, EventKind, FlowId, Packet, QueueChoice, QueueId, Rate, RateMeter, Seed, Time,
};
use weir_qdisc::{BuildContext, Qdisc, QdiscConfig};

const MTU: u32 = 1514;

fn build(words: &str, rate: Rate) -> Box<dyn Qdisc> {
    let link = BuildContext { rate, rtt: Duration::from_millis(20), mtu: MTU, seed: Seed::default() };
    words.parse::<QdiscConfig>().unwrap().build(&link).unwrap()
}

fn crq(weights: [u32; 3], rest: &str, rate: Rate) -> Box<dyn Qdisc> {
    // No threshold is reached: only the sharing is looked at.
    let queue = "step threshold 100000p limit 1000p";
    let [standard, responsive, ecn] = weights;
    build(
        &format!(
            "crq standard {queue} responsive pfifo ecn_responsive {queue} \
             sharing {standard}:{responsive}:{ecn} {rest}"
        ),
        rate,
    )
}

fn weights() -> impl Strategy<Value = [u32; 3]> {
    [1..50u32, 1..50, 1..50]
}

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let gap = prop_oneof![4 => Just(0), 4 => 0..500_000u64, 1 => 0..200_000_000u64];
    let arrival =
        (gap, 64..=MTU, prop::sample::select(&QueueChoice::ALL)).prop_map(|(gap, bytes, choice)| Arrival {
            gap,
            flow: FlowId(choice as u32),
            bytes,
            ecn: Ecn::Ect0,
            choice,
        });
    prop::collection::vec(arrival, 1..400)
}

proptest! {
    #[test]
    fn no_queue_exceeds_its_hard_share(
        weights in weights(),
        burst in 1..6u32,
        arrivals in arrivals(),
        unit in 10_000..1_000_000u64,
    ) {
        let rate = Rate::from_bits_per_sec(unit * u64::from(weights.iter().sum::<u32>()));
        // A taker that always takes all it can get.
        let greedy = Rate::from_bits_per_sec(u64::MAX / 16);
        let mut queue = crq(weights, &format!("split hard burst {burst}p"), rate);
        let (events, _) = drive(&mut *queue, greedy, &arrivals, true);
        let mut sent = 0;
        for (id, weight) in (0..).zip(weights) {
            let share = Rate::from_bits_per_sec(unit * u64::from(weight));
            let mut meter = RateMeter::new(share);
            let mut packets = 0;
            let of_queue = events.iter().filter(|event| event.kind == EventKind::Dequeue && event.queue == QueueId(id));
            for event in of_queue {
                meter.sent(event.time, event.packet.wire_bytes.into());
                packets += 1;
            }
            // The meter rounds each packet's time up to a nanosecond.
            let most = u64::from(burst * MTU) + 2 + packets * share.bits_per_sec() / 8_000_000_000;
            prop_assert!(meter.highest() <= most, "{} > {most} in {id}", meter.highest());
            sent += packets;
        }
        prop_assert_eq!(sent, arrivals.len() as u64);
    }

    /// Ahead of its share a queue is by a packet at most (a hard one by its burst), and so behind by what the two
    /// others are ahead.
    #[test]
    fn shares_under_saturation_are_within_two_packets(
        weights in weights(),
        hard in any::<bool>(),
        sizes in prop::collection::vec([64..=MTU, 64..=MTU, 64..=MTU], 300),
        unit in 10_000..1_000_000u64,
    ) {
        let sum = u64::from(weights.iter().sum::<u32>());
        let rate = Rate::from_bits_per_sec(unit * sum);
        let mut queue = crq(weights, if hard { "split hard burst 3p" } else { "split shared" }, rate);
        for (id, sizes) in sizes.into_iter().enumerate() {
            for (bytes, choice) in sizes.into_iter().zip(QueueChoice::ALL) {
                let packet = Packet::new(id as u64, FlowId(choice as u32), bytes, Time::ZERO);
                queue.enqueue(Packet { choice, ..packet }, Time::ZERO, &mut ());
            }
        }
        let (mut sent, mut now, mut remainder) = ([0u64; 3], Time::ZERO, 0);
        let mut left = [300u32; 3];
        while left.iter().all(|left| *left > 0) {
            prop_assert_eq!(queue.next_ready(now), Some(now), "the link idles");
            let packet = queue.dequeue(now, &mut ()).unwrap();
            sent[packet.choice as usize] += u64::from(packet.wire_bytes);
            left[packet.choice as usize] -= 1;
            now += rate.serialize(packet.wire_bytes.into(), &mut remainder);
            let total: u64 = sent.iter().sum();
            let ahead = u64::from(MTU) * if hard { 3 } else { 1 };
            for (sent, weight) in sent.iter().zip(weights) {
                let (has, share) = (sent * sum, total * u64::from(weight));
                prop_assert!(has <= share + ahead * sum, "{sent} of {total} at {weight} of {sum}");
                prop_assert!(has + 2 * ahead * sum >= share, "{sent} of {total} at {weight} of {sum}");
            }
        }
    }

    #[test]
    fn draining_keeps_every_flow_in_order(arrivals in arrivals(), one_flow in any::<bool>()) {
        let rate = Rate::from_bits_per_sec(10_000_000);
        let mut queue = crq([3, 1, 2], "split shared switching drain", rate);
        let mut arrivals = arrivals;
        for (index, arrival) in arrivals.iter_mut().enumerate() {
            // Flows whose verdict changes with every packet.
            arrival.flow = FlowId(if one_flow { 0 } else { index as u32 % 3 });
        }
        let (events, _) = drive(&mut *queue, rate, &arrivals, true);
        let mut last = [None; 3];
        for event in events.iter().filter(|event| event.kind == EventKind::Dequeue) {
            let before = last[event.packet.flow.0 as usize].replace(event.packet.id);
            prop_assert!(before.is_none_or(|before| before < event.packet.id), "{:?} overtaken", event.packet);
        }
    }
}

#[test]
fn a_queue_that_cannot_find_out_who_answers_to_marks_is_refused() {
    let link = BuildContext {
        rate: Rate::from_bits_per_sec(10_000_000),
        rtt: Duration::from_millis(20),
        mtu: MTU,
        seed: Seed::default(),
    };
    let error = |words: &str| words.parse::<QdiscConfig>().unwrap().build(&link).err().unwrap().to_string();
    let said = error("crq ecn_responsive codel ecn");
    assert!(said.contains("standard") && said.contains("codel ecn"), "{said}");
    let said = error("crq standard codel ecn ecn_responsive codel");
    assert!(said.contains("ecn_responsive"), "{said}");
    let said = error("crq standard codel ecn ecn_responsive codel ecn sharing 30:70");
    assert!(said.contains("30:30:40"), "{said}");
    let said = error("crq standard codel ecn ecn_responsive dualpi2");
    assert!(said.contains("single queue"), "{said}");
    let words = "crq standard codel ecn ecn_responsive codel ecn sharing 1:2:3";
    let config: QdiscConfig = words.parse().unwrap();
    assert_eq!(config.queue_names(), ["standard", "responsive", "ecn-responsive"]);
    assert!(config.to_string().contains("ecn-responsive codel"), "{config}");
    assert!(config.build(&link).is_ok());
}
