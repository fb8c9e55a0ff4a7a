use super::{Csaqm, CsaqmConfig, CsaqmKeys, Values};
use crate::edge::{EdgeKind, value_of};
use crate::keys::BuildContext;
use crate::{Qdisc, QueueLimit};
use weir_core::{DropReason, Duration, Ecn, Event, EventKind, FlowId, MarkReason, Packet, Rate, Seed, Time};

const LINK: Rate = Rate::from_bits_per_sec(40_000_000);
const ROUND: Duration = Duration::from_millis(20);

fn csaqm(config: CsaqmConfig) -> Csaqm {
    Csaqm::new(config, Seed::default().stream("csaqm"))
}

fn config(target: u64, edge: Option<EdgeKind>) -> CsaqmConfig {
    CsaqmConfig { target: Duration::from_millis(target), edge, ..CsaqmConfig::paper(LINK) }
}

#[test]
fn the_usual_limit_holds_a_packet_however_slow_the_link() {
    let limit = |rate| {
        let rate = Rate::from_bits_per_sec(rate);
        let link = BuildContext { rate, rtt: ROUND, mtu: 1514, seed: Seed::default() };
        CsaqmKeys::default().resolve(&link).unwrap().limit
    };
    assert_eq!(limit(24_000), QueueLimit::Bytes(1514));
    assert_eq!(limit(40_000), QueueLimit::Bytes(2500));
}

/// A sender of packets of one size, as fast as its rate; once a round it answers marks and drops.
#[derive(Clone)]
struct Sender {
    rate: u64,
    bytes: u32,
    ecn: Ecn,
    /// What it adds to its rate each round, and by what share of the share of marks and drops it lowers it.
    answer: Option<(u64, f64)>,
    next: Time,
    round: [u64; 2],
    sent: u64,
    marked: u64,
    dropped: u64,
}

fn sender(mbit: u64, bytes: u32, ecn: Ecn) -> Sender {
    Sender {
        rate: mbit * 1_000_000,
        bytes,
        ecn,
        answer: None,
        next: Time::ZERO,
        round: [0; 2],
        sent: 0,
        marked: 0,
        dropped: 0,
    }
}

/// Runs the senders over the link for `seconds` after two of warming up. Returns the thresholds at the end of each 5
/// ms.
fn run(queue: &mut Csaqm, senders: &mut [Sender], seconds: u64) -> Vec<u16> {
    let (warm, end) = (Time::ZERO + Duration::from_secs(2), Time::ZERO + Duration::from_secs(2 + seconds));
    let (mut free, mut remainder, mut id) = (Time::ZERO, 0, 0);
    let (mut next_round, mut next_sample, mut thresholds) = (Time::ZERO + ROUND, warm, Vec::new());
    let mut now = Time::ZERO;
    let mut events: Vec<Event> = Vec::new();
    let mut random = Seed::default().stream("values");
    while now < end {
        let index = (0..senders.len()).min_by_key(|index| senders[*index].next).unwrap();
        let departure = queue.next_ready(now).map(|ready| ready.max(free));
        now = departure.unwrap_or(Time::MAX).min(senders[index].next);
        if departure == Some(now) {
            if let Some(packet) = queue.dequeue(now, &mut events) {
                free = now + LINK.serialize(packet.wire_bytes.into(), &mut remainder);
            }
        } else {
            let sender = &mut senders[index];
            let packet = Packet::new(id, FlowId(index as u32), sender.bytes, now).with_ecn(sender.ecn);
            // Without an edge, values that say nothing of the flow: all are marked alike.
            let value = if queue.edge.is_some() { 0 } else { 1 + random.below(60_000) as u16 };
            queue.enqueue(Packet { value, ..packet }, now, &mut events);
            id += 1;
            sender.next += Rate::from_bits_per_sec(sender.rate).time_for(sender.bytes.into());
        }
        for event in events.drain(..) {
            let sender = &mut senders[event.packet.flow.0 as usize];
            let counts = u64::from(now >= warm);
            match event.kind {
                EventKind::Dequeue => {
                    sender.sent += counts * u64::from(sender.bytes);
                    sender.round[0] += 1;
                }
                EventKind::Mark(_) => {
                    sender.marked += counts;
                    sender.round[1] += 1;
                }
                EventKind::Drop(_) => {
                    sender.dropped += counts;
                    sender.round[0] += 1;
                    sender.round[1] += 1;
                }
                EventKind::Enqueue => {}
            }
        }
        if now >= next_round {
            next_round += ROUND;
            for sender in senders.iter_mut() {
                let [all, marked] = std::mem::take(&mut sender.round);
                if let Some((add, cut)) = sender.answer {
                    let share = if all == 0 { 0.0 } else { marked as f64 / all as f64 };
                    sender.rate = (sender.rate as f64 * (1.0 - cut * share)) as u64 + add;
                }
            }
        }
        if now >= next_sample {
            next_sample += Duration::from_millis(5);
            thresholds.push(queue.threshold());
        }
    }
    thresholds
}

fn mbits(sender: &Sender, seconds: u64) -> f64 {
    sender.sent as f64 * 8e-6 / seconds as f64
}

const EDGES: [EdgeKind; 2] =
    [EdgeKind::Rate(Duration::from_millis(50)), EdgeKind::Buckets(Duration::from_millis(50))];

#[test]
fn flows_below_their_share_are_neither_marked_nor_dropped() {
    for edge in EDGES {
        let mut queue = csaqm(config(5, Some(edge)));
        // 2 and 4 Mbit/s leave 17 each to the two that want more and do not answer.
        let mut senders = [
            sender(2, 300, Ecn::Ect1),
            sender(4, 1514, Ecn::NotEct),
            sender(40, 1514, Ecn::NotEct),
            sender(60, 500, Ecn::NotEct),
        ];
        run(&mut queue, &mut senders, 5);
        for (index, expected) in [2.0, 4.0, 17.0, 17.0].into_iter().enumerate() {
            let got = mbits(&senders[index], 5);
            assert!((got / expected - 1.0).abs() < 0.08, "{edge:?}: {got} for {expected}");
        }
        assert_eq!((senders[0].marked, senders[0].dropped, senders[1].dropped), (0, 0, 0), "{edge:?}");
        assert!(senders[2].dropped > 0 && senders[3].dropped > 0);
    }
}

/// Jain's index of what four senders get that answer in different ways, and all of it in Mbit/s.
fn mixed(ecn: Ecn, mix: [(u64, f64); 4], edge: Option<EdgeKind>) -> (f64, f64) {
    let mut queue = csaqm(config(20, edge));
    let mut senders = mix.map(|answer| Sender { answer: Some(answer), ..sender(5, 1514, ecn) });
    senders[3].bytes = 700;
    run(&mut queue, &mut senders, 20);
    let rates = senders.map(|sender| mbits(&sender, 20));
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(a, b), rate| (a + rate, b + rate * rate));
    (sum * sum / (4.0 * squares), sum)
}

#[test]
fn senders_that_answer_losses_in_different_ways_get_equal_rates() {
    // What is sent too much is dropped where it is above the fair rate, whatever each sender makes of it.
    let mix = [(100_000, 0.2), (600_000, 0.2), (1_000_000, 0.1), (300_000, 0.3)];
    for edge in EDGES {
        let (jain, sum) = mixed(Ecn::NotEct, mix, Some(edge));
        println!("loss {edge:?} {jain} {sum}");
        assert!(jain > 0.99 && sum > 39.0, "{edge:?}: {jain} of {sum}");
    }
}

#[test]
fn senders_that_answer_marks_in_different_ways_get_similar_rates() {
    // Where all are marked alike, rates are as add / cut: 1 to 33.
    let mix = [(10_000, 1.0), (30_000, 0.5), (100_000, 0.3), (20_000, 0.7)];
    let (alike, _) = mixed(Ecn::Ect1, mix, None);
    println!("alike {alike}");
    assert!(alike < 0.6, "{alike}");
    for edge in EDGES {
        let (jain, sum) = mixed(Ecn::Ect1, mix, Some(edge));
        println!("marks {edge:?} {jain} {sum}");
        assert!(jain > 0.95 && sum > 37.0, "{edge:?}: {jain} of {sum}");
    }
}

#[test]
fn the_threshold_is_stable_and_says_the_fair_rate() {
    let mut queue = csaqm(config(20, Some(EDGES[0])));
    let mut senders = [20, 30, 40, 50].map(|mbit| sender(mbit, 1514, Ecn::NotEct));
    let mut thresholds = run(&mut queue, &mut senders, 10);
    thresholds.sort_unstable();
    let fair = value_of(Rate::from_bits_per_sec(10_000_000));
    let (low, middle, high) = (
        thresholds[thresholds.len() / 20],
        thresholds[thresholds.len() / 2],
        thresholds[thresholds.len() * 19 / 20],
    );
    // In steps of 1/2048 octave: 5 % is 144.
    assert!(middle.abs_diff(fair) < 144, "{middle} for {fair}");
    assert!(high - low < 2048, "{low} to {high}: within a factor of two");
}

#[test]
fn only_the_order_of_values_matters() {
    let maps: [fn(u16) -> u16; 3] =
        [|value| value, |value| value + 60_000, |value| (value / 10) * 300 + value % 10 + 1];
    let decisions = maps.map(|map| {
        let mut queue = csaqm(config(5, None));
        let mut random = Seed::default().stream("values");
        let mut events: Vec<Event> = Vec::new();
        for id in 0..5000u64 {
            // 60 Mbit/s, every third packet with ECN.
            let now = Time::from_nanos(id * 200_000);
            let ecn = if id % 3 == 0 { Ecn::Ect0 } else { Ecn::NotEct };
            let value = map(1 + random.below(2000) as u16);
            let packet = Packet { value, ..Packet::new(id, FlowId(0), 1500, now) }.with_ecn(ecn);
            queue.enqueue(packet, now, &mut events);
            if id % 3 != 2 {
                queue.dequeue(now, &mut events);
            }
        }
        events.into_iter().map(|event| (event.kind, event.packet.id)).collect::<Vec<_>>()
    });
    let marks = |kind: EventKind| decisions[0].iter().filter(|(other, _)| *other == kind).count();
    assert!(marks(EventKind::Mark(MarkReason::Aqm)) > 100);
    assert!(marks(EventKind::Drop(DropReason::Aqm)) > 100);
    assert!(decisions[1] == decisions[0] && decisions[2] == decisions[0]);
}

#[test]
fn the_threshold_leaves_the_target_unmarked() {
    let mut values = Values::new();
    for value in [10, 20, 300, 300, 65_535] {
        values.add(&Packet { value, ..Packet::new(0, FlowId(0), 100, Time::ZERO) });
    }
    let thresholds = [0, 1, 100, 101, 300, 301, 400, 401, 500, 501].map(|bytes| values.threshold(bytes));
    assert_eq!(thresholds, [65_535, 65_535, 65_535, 300, 300, 20, 20, 10, 10, 0]);
}

#[test]
fn updates_come_every_5_ms_and_an_uncongested_queue_marks_nothing() {
    // 1000 bytes at a target of 1 ms and 8 Mbit/s.
    let mut queue = csaqm(CsaqmConfig {
        rate: Rate::from_bits_per_sec(8_000_000),
        limit: QueueLimit::Packets(4),
        ..config(1, None)
    });
    let mut events: Vec<Event> = Vec::new();
    let mut offer = |queue: &mut Csaqm, millis, value| {
        let now = Time::ZERO + Duration::from_millis(millis);
        let packet = Packet { value, ..Packet::new(u64::from(value), FlowId(0), 500, now) };
        queue.enqueue(packet, now, &mut events);
        queue.threshold()
    };
    assert_eq!([offer(&mut queue, 0, 10), offer(&mut queue, 5, 20)], [0, 0]);
    // At 10 ms as many bytes wait as the target allows; at 14 ms more, but that shows only at 15 ms.
    assert_eq!([offer(&mut queue, 10, 30), offer(&mut queue, 14, 40), offer(&mut queue, 17, 50)], [0, 0, 30]);
    assert_eq!(events.last().unwrap().kind, EventKind::Drop(DropReason::Overflow));
    events.clear();
    let packet = queue.dequeue(Time::ZERO + Duration::from_millis(18), &mut events);
    assert_eq!(packet.map(|packet| packet.id), Some(30));
    let drops = events.iter().filter(|event| event.kind == EventKind::Drop(DropReason::Aqm)).count();
    assert_eq!((drops, queue.backlog().bytes), (2, 500));
}
