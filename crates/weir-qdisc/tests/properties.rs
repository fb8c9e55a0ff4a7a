//! What holds for every discipline under any arrivals: packets are neither lost nor invented nor reordered within a
//! queue, events tell the truth about the backlog, shares are kept, and a link is never idle without reason.

mod support;

use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{FileFailurePersistence, TestRunner};
use support::{Arrival, drive};
use weir_core::{
    Audit, Backlog, Duration, Ecn, Event, EventKind, EventSink, FlowId, Packet, QueueChoice, QueueId, Rate,
    RateMeter, Seed, Time,
};
use weir_qdisc::{BuildContext, Qdisc, QdiscConfig};

const MTU: u32 = 1514;

fn arrivals(longest: u32) -> impl Strategy<Value = Vec<Arrival>> {
    let gap = prop_oneof![4 => Just(0), 4 => 0..500_000u64, 2 => 0..3_000_000u64, 1 => 0..200_000_000u64];
    let flow = prop_oneof![9 => (0..4u32).prop_map(FlowId), 1 => Just(FlowId::NONE)];
    let bytes = prop_oneof![3 => Just(MTU), 2 => 64..=MTU, 1 => MTU..=longest];
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    let choice = prop::sample::select(&QueueChoice::ALL);
    let arrival = (gap, flow, bytes, ecn, choice).prop_map(|(gap, flow, bytes, ecn, choice)| Arrival {
        gap,
        flow,
        bytes,
        ecn,
        choice,
    });
    prop::collection::vec(arrival, 1..400)
}

fn rate() -> impl Strategy<Value = Rate> {
    prop_oneof![Just(10_000_000), 500_000..100_000_000u64].prop_map(Rate::from_bits_per_sec)
}

/// A discipline that holds packets back by itself.
fn shaped() -> impl Strategy<Value = String> {
    (MTU..90_000, 64_000..200_000u32, 0..50_000u64, 100_000..200_000_000u64).prop_map(
        |(limit, burst, late, rate)| {
            format!("tbf limit {limit}b burst {burst}b late {late}ns rate {rate}bit")
        },
    )
}

fn single() -> impl Strategy<Value = String> {
    let time = |most: u64| prop_oneof![Just(1024), 1024..most];
    let limit =
        prop_oneof![(1..60u32).prop_map(|n| format!("{n}p")), (MTU..90_000).prop_map(|n| format!("{n}b"))];
    let ce = prop_oneof![
        Just(String::new()),
        (0..5_000_000u64).prop_map(|above| format!(" ce_threshold {above}ns")),
        (0..5_000_000u64).prop_map(|above| format!(" ce_threshold {above}ns ce_threshold_ect1")),
    ];
    let codel = (limit, time(5_000_000), time(50_000_000), any::<bool>(), any::<bool>(), ce).prop_map(
        |(limit, target, interval, ecn, old, ce)| {
            let (ecn, kernel) = (if ecn { "ecn" } else { "noecn" }, if old { "6.12" } else { "7.2" });
            format!("codel limit {limit} target {target}ns interval {interval}ns {ecn} kernel {kernel}{ce}")
        },
    );
    prop_oneof![
        4 => fair(),
        1 => (1..60u32).prop_map(|limit| format!("pfifo limit {limit}p")),
        1 => (MTU..90_000).prop_map(|limit| format!("bfifo limit {limit}b")),
        2 => codel,
        1 => step(),
        1 => red(),
        1 => pie(),
        1 => pi2(),
        1 => curvy_red(),
    ]
}

/// Disciplines that distinguish flows, with limits that are met.
fn fair() -> impl Strategy<Value = String> {
    let (limit, flows, quantum) = (1..60u32, 1..8u32, 256..6000u32);
    let fq_codel = (1..60u32, MTU..90_000, 1..20u32, 1024..5_000_000u64, 1024..50_000_000u64, any::<bool>());
    prop_oneof![
        (limit.clone(), flows.clone(), 1..6000u32).prop_map(|(limit, flows, quantum)| format!(
            "drr limit {limit}p flows {flows} quantum {quantum}b"
        )),
        (fq_codel, flows.clone(), quantum.clone()).prop_map(
            |((limit, memory, batch, target, interval, ecn), flows, quantum)| {
                let ecn = if ecn { "ecn" } else { "noecn" };
                format!(
                    "fq_codel limit {limit}p memory_limit {memory}b drop_batch {batch} flows {flows} \
                     quantum {quantum}b target {target}ns interval {interval}ns {ecn}"
                )
            }
        ),
        (limit, 1..20u32, flows, quantum, 0..15_000u32, flags(&["nofast_path"])).prop_map(
            |(limit, own, flows, quantum, initial, path)| {
                format!(
                    "fq limit {limit}p flow_limit {own}p flows {flows} quantum {quantum}b \
                     initial_quantum {initial}b ce_threshold 1ms {path}"
                )
            }
        ),
        (1..60u32, 1..8u32, 1..5_000u32, 1..20_000u32, flags(&["ecn", "bytemode"])).prop_map(
            |(limit, flows, target, tupdate, flags)| {
                format!(
                    "fq_pie limit {limit}p flows {flows} target {target}us tupdate {tupdate}us burst 1ms alpha 2 \
                     beta 20 {flags}"
                )
            }
        ),
        (1_000..50_000_000u64, MTU..90_000, any::<bool>()).prop_map(|(rtt, memory, unlimited)| {
            let unlimited = if unlimited { " unlimited" } else { "" };
            format!("cake rtt {rtt}ns memory_limit {memory}b{unlimited}")
        }),
        csaqm(),
    ]
}

fn csaqm() -> impl Strategy<Value = String> {
    (0..5_000_000u64, 1_000..10_000_000u64, 1..60u32, any::<bool>()).prop_map(
        |(target, update, limit, buckets)| {
            let edge = if buckets { "buckets" } else { "rate" };
            format!("csaqm target {target}ns update {update}ns limit {limit}p edge {edge}")
        },
    )
}

fn packets() -> impl Strategy<Value = String> {
    (1..60u32).prop_map(|limit| format!("limit {limit}p"))
}

fn flags(all: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::subsequence(all, 0..=all.len()).prop_map(|flags| flags.join(" "))
}

fn step() -> impl Strategy<Value = String> {
    let threshold = prop_oneof![
        (0..30u32).prop_map(|packets| format!("{packets}p")),
        (0..40_000u32).prop_map(|bytes| format!("{bytes}b")),
        (0..3_000u32).prop_map(|us| format!("{us}us")),
    ];
    (threshold, packets(), flags(&["drop"]))
        .prop_map(|(threshold, limit, flags)| format!("step threshold {threshold} {limit} {flags}"))
}

fn red() -> impl Strategy<Value = String> {
    let ecn = prop_oneof![Just(""), Just("ecn"), Just("ecn nodrop")];
    let flags = flags(&["harddrop", "adaptive"]);
    (1..10u32, 0..20u32, 0..=10u32, ecn, flags).prop_map(|(min, more, tenths, ecn, flags)| {
        let (max, burst) = (min + more, 2 * min);
        format!(
            "red min {min}000b max {max}000b burst {burst} probability {} limit 60kb {ecn} {flags}",
            f64::from(tenths) / 10.0
        )
    })
}

fn pi2() -> impl Strategy<Value = String> {
    let times = (0..5_000u32, 1..20_000u32);
    (times, 1..200u8, packets(), flags(&["decay", "scalable any"])).prop_map(
        |((target, tupdate), coupling, limit, flags)| {
            format!(
                "pi2 target {target}us tupdate {tupdate}us alpha 5 beta 50 coupling {} {limit} {flags}",
                f64::from(coupling) / 10.0
            )
        },
    )
}

fn curvy_red() -> impl Strategy<Value = String> {
    let ranges = (1..50u32, 1..20u32, 0..8u8);
    (ranges, packets(), flags(&["ecn", "scalable any", "curviness 4"])).prop_map(
        |((classic, scalable, ewma), limit, flags)| {
            format!("curvy_red range {classic}ms range_scalable {scalable}ms ewma {ewma} {limit} {flags}")
        },
    )
}

/// Disciplines of two queues that no crq takes.
fn dual() -> impl Strategy<Value = String> {
    let curvy = (
        1..50u32,
        1..20u32,
        0..8u8,
        packets(),
        flags(&[
            "variant rfc9332",
            "scalable any",
            "tshift 5ms",
            "curviness 1",
            "curviness_l 2",
            "l4s_limit 3p",
        ]),
    )
        .prop_map(|(c, l, ewma, limit, flags)| {
            format!("dualq_curvy range_c {c}ms range_l {l}ms ewma {ewma} {limit} {flags}")
        });
    let times = (0..5_000u32, 1..20_000u32);
    let pi2_flags = flags(&[
        "variant rfc9332",
        "scalable any",
        "overflow",
        "step 2p",
        "c_protection 50",
        "l4s_limit 5kb",
    ]);
    let pi2 = (times, 1..20u8, packets(), pi2_flags).prop_map(|((target, tupdate), coupling, limit, flags)| {
        format!("dualpi2 target {target}us tupdate {tupdate}us alpha 5 beta 50 coupling {coupling} {limit} {flags}")
    });
    prop_oneof![curvy, pi2]
}

fn pie() -> impl Strategy<Value = String> {
    let times = (1..5_000u32, 1..20_000u32, 0..20u32);
    (times, packets(), pie_flags()).prop_map(|((target, tupdate, burst), limit, flags)| {
        format!("pie target {target}us tupdate {tupdate}us burst {burst}ms alpha 2 beta 20 {limit} {flags}")
    })
}

/// RFC 8033's own variant has no estimator of the departure rate.
fn pie_flags() -> impl Strategy<Value = String> {
    let one = prop_oneof![Just(""), Just("variant rfc8033"), Just("dq_rate_estimator")];
    (flags(&["ecn", "bytemode"]), one).prop_map(|(flags, one)| format!("{flags} {one}"))
}

fn weights() -> impl Strategy<Value = String> {
    prop_oneof![Just("equal".to_owned()), (1..20u32, 1..20u32).prop_map(|(a, b)| format!("{a}:{b}"))]
}

fn crq(split: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let queues = prop_oneof![
        (single(), single())
            .prop_map(|(standard, responsive)| format!("standard {standard} responsive {responsive}")),
        (marking(), single(), marking()).prop_map(|(standard, responsive, ecn)| format!(
            "standard {standard} responsive {responsive} ecn_responsive {ecn}"
        )),
    ];
    let more = flags(&["challenge 10ms"]);
    (queues, split, any::<bool>(), more).prop_map(|(queues, split, drain, more)| {
        let switching = if drain { "drain" } else { "immediate" };
        // Weights of two queues say nothing of a third.
        let three = queues.contains("ecn_responsive");
        let split = split.split(' ').map(|word| match word.split_once(':') {
            Some((one, other)) if three => format!("{one}:{other}:{one}"),
            _ => word.to_owned(),
        });
        format!("crq {queues} {} switching {switching} {more}", split.collect::<Vec<_>>().join(" "))
    })
}

/// Disciplines that mark, as a standard queue beside an ECN-responsive one has to.
fn marking() -> impl Strategy<Value = String> {
    prop_oneof![step(), pi2(), Just("codel ecn target 1ms interval 10ms limit 40p".to_owned())]
}

fn shared() -> impl Strategy<Value = String> {
    prop_oneof![
        weights().prop_map(|weights| format!("sharing {weights} split shared")),
        Just("sharing strict split shared".to_owned()),
        Just("sharing flows split shared".to_owned()),
    ]
}

fn hard() -> impl Strategy<Value = String> {
    (weights(), 1..6u32).prop_map(|(weights, burst)| format!("sharing {weights} split hard burst {burst}p"))
}

fn build(words: &str, rate: Rate) -> Box<dyn Qdisc> {
    let link = BuildContext { rate, rtt: Duration::from_millis(20), mtu: MTU, seed: Seed::default() };
    words.parse::<QdiscConfig>().unwrap().build(&link).unwrap()
}

/// Asks in vain, time and again, before each arrival at an empty queue.
struct Asked {
    queue: Box<dyn Qdisc>,
    last: Time,
}

impl Qdisc for Asked {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        if self.queue.backlog().packets == 0 {
            for part in 1..=7 {
                let at = self.last + now.since(self.last) * part / 7;
                assert!(self.queue.dequeue(at, events).is_none());
            }
        }
        self.last = now;
        self.queue.enqueue(packet, now, events);
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        self.last = now;
        self.queue.dequeue(now, events)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}

/// Replays the events against their own claims. Returns what is left in the queues, by packet.
fn replay(events: &[Event]) -> HashMap<u64, (QueueId, FlowId)> {
    let mut held = HashMap::new();
    let mut backlogs: HashMap<QueueId, Backlog> = HashMap::new();
    let mut marked = Vec::new();
    let mut last = Time::ZERO;
    for event in events {
        let (id, bytes) = (event.packet.id, u64::from(event.packet.wire_bytes));
        let backlog = backlogs.entry(event.queue).or_default();
        assert!(event.time >= last, "events in the order of time");
        last = event.time;
        match event.kind {
            EventKind::Enqueue => {
                assert!(
                    held.insert(id, (event.queue, event.packet.flow)).is_none(),
                    "packet {id} came twice"
                );
                backlog.packets += 1;
                backlog.bytes += bytes;
            }
            EventKind::Drop(reason) if reason.on_arrival() => {
                assert!(!held.contains_key(&id), "packet {id} dropped at the door after it came in");
            }
            EventKind::Dequeue | EventKind::Drop(_) => {
                assert_eq!(held.remove(&id), Some((event.queue, event.packet.flow)), "packet {id} left");
                assert_eq!(event.sojourn, event.time.since(event.packet.arrived));
                backlog.packets -= 1;
                backlog.bytes -= bytes;
                if event.kind == EventKind::Dequeue {
                    let was_marked = marked.contains(&id);
                    assert_eq!(event.packet.ecn == Ecn::Ce, was_marked || event.packet.ecn_in == Ecn::Ce);
                    assert!(event.packet.ecn == event.packet.ecn_in || was_marked);
                }
            }
            EventKind::Mark(_) => {
                assert!(held.contains_key(&id) && event.packet.ecn == Ecn::Ce);
                assert_ne!(event.packet.ecn_in, Ecn::NotEct);
                marked.push(id);
            }
        }
        assert_eq!(event.backlog, *backlog, "{event:?}");
    }
    held
}

/// Conservation, order and truth of the events; the queue must end with what the events left in it.
fn sound(queue: &dyn Qdisc, events: &[Event], offered: usize) {
    let mut audit = Audit::default();
    events.iter().for_each(|event| audit.event(event));
    let held = replay(events);
    assert_eq!(queue.backlog().packets as usize, held.len());
    let report = audit.report(held.values().map(|(_, flow)| *flow));
    assert!(report.holds(), "{report:?}");
    assert_eq!(report.total.arrived, offered as u64);
}

fn departures(events: &[Event]) -> impl Iterator<Item = &Event> {
    events.iter().filter(|event| event.kind == EventKind::Dequeue)
}

/// A discipline that is registered but not among the random ones would pass all of this untested.
#[test]
fn every_kind_is_among_the_random_ones() {
    let mut runner = TestRunner::deterministic();
    let all = prop_oneof![single(), shaped(), dual(), crq(hard())];
    let seen: BTreeSet<String> = (0..2000)
        .map(|_| all.new_tree(&mut runner).unwrap().current())
        .map(|words| words.parse::<QdiscConfig>().unwrap().kind().to_owned())
        .collect();
    assert_eq!(seen, QdiscConfig::KINDS.iter().map(|kind| (*kind).to_owned()).collect());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    /// `drive` itself checks that a queue with a backlog hands out a packet when it said it would.
    #[test]
    fn every_packet_leaves_once_and_in_order(
        words in prop_oneof![2 => single(), 1 => shaped(), 2 => dual(), 1 => crq(shared()), 1 => crq(hard())],
        arrivals in arrivals(64_000),
        rate in rate(),
        to_the_end in any::<bool>(),
    ) {
        let mut queue = build(&words, rate);
        let (events, _) = drive(&mut *queue, rate, &arrivals, to_the_end);
        sound(&*queue, &events, arrivals.len());
        if to_the_end {
            prop_assert_eq!(queue.backlog(), Backlog::default());
            prop_assert_eq!(queue.next_ready(Time::MAX), None);
        }
    }

    #[test]
    fn a_work_conserving_link_is_never_idle_with_a_backlog(
        words in prop_oneof![2 => single(), 2 => dual(), 1 => crq(shared())],
        arrivals in arrivals(MTU),
        rate in rate(),
    ) {
        let mut queue = build(&words, rate);
        let (events, _) = drive(&mut *queue, rate, &arrivals, true);
        // Each packet leaves when it came or when the link was done with the packet before, whichever is later. With
        // an AQM that emptied the queue, the link waits for an arrival, which is the former.
        let (mut free, mut remainder) = (Time::ZERO, 0);
        for event in departures(&events) {
            prop_assert_eq!(event.time, event.packet.arrived.max(free));
            free = event.time + rate.serialize(event.packet.wire_bytes.into(), &mut remainder);
        }
    }

    #[test]
    fn a_hard_split_is_never_exceeded(
        standard in 1..20u32,
        responsive in 1..20u32,
        burst in 1..6u32,
        drain in any::<bool>(),
        queues in (single(), single()),
        arrivals in arrivals(9_000),
        unit in 10_000..5_000_000u64,
        from in 0..2_000_000u64,
    ) {
        let rate = Rate::from_bits_per_sec(unit * u64::from(standard + responsive));
        let switching = if drain { "drain" } else { "immediate" };
        let mut queue = build(&format!(
            "crq standard {} responsive {} sharing {standard}:{responsive} split hard burst {burst}p switching {switching}",
            queues.0, queues.1
        ), rate);
        // Once over the link, and once by a taker that always takes all it can get from `from` on.
        for link in [rate, Rate::from_bits_per_sec(u64::MAX / 16)] {
            let mut arrivals = arrivals.clone();
            arrivals[0].gap += from;
            let (events, _) = drive(&mut *queue, link, &arrivals, true);
            for (id, weight) in [(QueueId(0), standard), (QueueId(1), responsive)] {
                let share = Rate::from_bits_per_sec(unit * u64::from(weight));
                let mut meter = RateMeter::new(share);
                let (mut packets, mut longest) = (0, MTU);
                for event in departures(&events).filter(|event| event.queue == id) {
                    meter.sent(event.time, event.packet.wire_bytes.into());
                    packets += 1;
                    longest = longest.max(event.packet.wire_bytes);
                }
                // The meter rounds each packet's time up to a nanosecond.
                let rounding = 2 + packets * share.bits_per_sec() / 8_000_000_000;
                let most = u64::from(burst * MTU + longest - MTU) + rounding;
                prop_assert!(meter.highest() <= most, "{} > {most} in {id:?}", meter.highest());
            }
            queue = build(&format!(
                "crq standard {} responsive {} sharing {standard}:{responsive} split hard burst {burst}p",
                queues.0, queues.1
            ), rate);
        }
    }

    /// A link may ask an empty queue as often as it likes: timers that run late come to the same as timers on time.
    /// (Not so in CoDel, which takes a question in vain for the end of congestion, and where flows take turns and an
    /// empty one is found out by asking.)
    #[test]
    fn asking_an_empty_queue_changes_nothing(
        words in prop_oneof![step(), red(), pie(), pi2(), curvy_red(), csaqm(), dual()],
        arrivals in arrivals(MTU),
        rate in rate(),
    ) {
        let (plain, _) = drive(&mut *build(&words, rate), rate, &arrivals, true);
        let mut asked = Asked { queue: build(&words, rate), last: Time::ZERO };
        let (events, _) = drive(&mut asked, rate, &arrivals, true);
        prop_assert_eq!(plain, events);
    }

    /// At any moment under saturation a queue has had its share to within a packet; work-conserving and hard alike.
    #[test]
    fn shares_under_saturation_are_within_a_packet(
        standard in 1..50u32,
        responsive in 1..50u32,
        hard in any::<bool>(),
        sizes in prop::collection::vec((64..=MTU, 64..=MTU), 300),
        unit in 10_000..5_000_000u64,
    ) {
        let weights = u64::from(standard + responsive);
        let rate = Rate::from_bits_per_sec(unit * weights);
        let split = if hard { "hard" } else { "shared" };
        let mut queue = build(&format!(
            "crq standard pfifo responsive pfifo sharing {standard}:{responsive} split {split}"
        ), rate);
        for (id, (first, second)) in sizes.into_iter().enumerate() {
            for (bytes, choice) in [(first, QueueChoice::Standard), (second, QueueChoice::Responsive)] {
                let packet = weir_core::Packet::new(id as u64, FlowId(choice as u32), bytes, Time::ZERO);
                queue.enqueue(weir_core::Packet { choice, ..packet }, Time::ZERO, &mut ());
            }
        }
        let (mut sent, mut now, mut remainder) = ([0u64; 2], Time::ZERO, 0);
        let mut left = [300u32; 2];
        while left.iter().all(|left| *left > 0) {
            // The link is never idle: in a hard split, too, there is always one queue behind its share.
            prop_assert_eq!(queue.next_ready(now), Some(now));
            let packet = queue.dequeue(now, &mut ()).unwrap();
            sent[packet.choice as usize] += u64::from(packet.wire_bytes);
            left[packet.choice as usize] -= 1;
            now += rate.serialize(packet.wire_bytes.into(), &mut remainder);
            let total: u64 = sent.iter().sum();
            for (sent, weight) in sent.iter().zip([standard, responsive]) {
                let off = (sent * weights).abs_diff(total * u64::from(weight));
                // A hard split starts with full buckets, which let a queue be a burst ahead, of two packets.
                let most = u64::from(MTU) * if hard { 2 } else { 1 };
                prop_assert!(off <= most * weights, "{off} of {} after {total} bytes", most * weights);
            }
        }
    }

    /// A queue that always waits gets its full share of a hard split, though the other uses its own in bursts.
    #[test]
    fn a_saturated_queue_of_a_hard_split_is_never_late(
        standard in 1..50u32,
        responsive in 1..50u32,
        unit in 10_000..5_000_000u64,
        pairs in prop::collection::vec(0..200u64, 30),
        saturated in prop_oneof![Just(QueueChoice::Standard), Just(QueueChoice::Responsive)],
    ) {
        let rate = Rate::from_bits_per_sec(unit * u64::from(standard + responsive));
        let mut queue = build(&format!(
            "crq standard pfifo responsive pfifo sharing {standard}:{responsive} split hard"
        ), rate);
        let arrival = |gap, choice| Arrival { gap, flow: FlowId(choice as u32), bytes: MTU, ecn: Ecn::NotEct, choice };
        let mut arrivals = vec![arrival(0, saturated); 600];
        let (burst, weight) = match saturated {
            QueueChoice::Standard => (QueueChoice::Responsive, standard),
            _ => (QueueChoice::Standard, responsive),
        };
        let packet_time = rate.time_for(MTU.into()).as_nanos();
        for gap in pairs {
            arrivals.push(arrival(gap * packet_time, burst));
            arrivals.push(arrival(0, burst));
        }
        let (events, _) = drive(&mut *queue, rate, &arrivals, true);
        let share = Rate::from_bits_per_sec(unit * u64::from(weight));
        for (sent, event) in (0..).zip(departures(&events).filter(|event| event.packet.choice == saturated)) {
            // One packet of the other queue may be on the link when the turn comes. And at time zero, when both buckets
            // are full, the other may go first: a full bucket gathers nothing meanwhile, so all that follows is later
            // by that packet.
            let latest = share.time_for(sent * u64::from(MTU)).as_nanos() + 2 * packet_time + 1;
            prop_assert!(event.time.as_nanos() <= latest, "packet {sent} at {:?}, not {latest}", event.time);
        }
    }

    #[test]
    fn draining_keeps_every_flow_in_order_across_queues(
        words in (single(), single(), prop_oneof![shared(), hard()]),
        arrivals in arrivals(MTU),
        rate in rate(),
    ) {
        let (standard, responsive, split) = words;
        let words = format!("crq standard {standard} responsive {responsive} {split} switching drain");
        let mut queue = build(&words, rate);
        let (events, _) = drive(&mut *queue, rate, &arrivals, true);
        let mut last: HashMap<FlowId, u64> = HashMap::new();
        for event in departures(&events).filter(|event| event.packet.flow != FlowId::NONE) {
            let before = last.insert(event.packet.flow, event.packet.id);
            prop_assert!(before.is_none_or(|before| before < event.packet.id), "{:?} overtaken", event.packet);
        }
    }
}
