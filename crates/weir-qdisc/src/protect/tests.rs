use super::{DEMOTED, L4S, OWED, Protected};
use crate::Qdisc;
use crate::config::QdiscConfig;
use crate::keys::BuildContext;
use crate::pi2::Scalable;
use weir_core::{
    Backlog, DropReason, Duration, Ecn, Event, EventKind, EventSink, FlowId, MarkReason, Packet, Rate, Seed,
    Time,
};
use weir_queue::{Challenge, QueueLimit, Ring};

const LINK: BuildContext = BuildContext {
    rate: Rate::from_bits_per_sec(12_000_000),
    rtt: Duration::from_millis(20),
    mtu: 1514,
    seed: Seed { seed: 1, run: 0 },
};

/// Two flows of 1500 bytes on a link of 1000 packets per second: flow 0 at its own rate, whatever comes, and flow 1
/// with a window of one packet that it sends when the last has left, and that is silent for a second after a loss. Flow 2 is
/// Not-ECT.
fn run(words: &str, seconds: u64) -> Vec<Event> {
    let mut queue = words.parse::<QdiscConfig>().unwrap().build(&LINK).unwrap();
    let mut events: Vec<Event> = Vec::new();
    let packet = |id, flow, ecn, now| Packet::new(id, FlowId(flow), 1500, now).with_ecn(ecn);
    let (mut waits, mut silent_until) = (false, 0);
    for millisecond in 0..seconds * 1000 {
        let now = Time::ZERO + Duration::from_millis(millisecond);
        let seen = events.len();
        // 800 packets a second.
        if millisecond % 5 != 0 {
            queue.enqueue(packet(4 * millisecond, 0, Ecn::Ect1, now), now, &mut events);
        }
        if !waits && millisecond >= silent_until {
            queue.enqueue(packet(4 * millisecond + 1, 1, Ecn::Ect1, now), now, &mut events);
            waits = true;
        }
        if millisecond % 20 == 0 {
            queue.enqueue(packet(4 * millisecond + 2, 2, Ecn::NotEct, now), now, &mut events);
        }
        if let Some(left) = queue.dequeue(now, &mut events) {
            let last = events.last().unwrap();
            assert_eq!((last.kind, last.packet), (EventKind::Dequeue, left));
            waits &= left.flow != FlowId(1);
        }
        let is_lost =
            |event: &Event| event.packet.flow == FlowId(1) && matches!(event.kind, EventKind::Drop(_));
        if events[seen..].iter().any(is_lost) {
            (waits, silent_until) = (false, millisecond + 1000);
        }
    }
    events
}

fn bytes(events: &[Event], flow: u32, kind: EventKind, from: Time) -> u64 {
    let wanted =
        |event: &&Event| event.packet.flow == FlowId(flow) && event.kind == kind && event.time >= from;
    events.iter().filter(wanted).map(|event| u64::from(event.packet.wire_bytes)).sum()
}

#[test]
fn who_keeps_its_rate_is_left_with_the_share_of_the_demoted_queue() {
    for dual in ["dualpi2", "dualpi2 variant rfc9332", "dualq_curvy"] {
        let events = run(&format!("{dual} protect 10"), 20);
        let first = events.iter().find(|event| event.queue == DEMOTED).unwrap();
        assert_eq!(first.packet.flow, FlowId(0), "{dual}");
        assert!((Time::from_nanos(2_000_000_000)..Time::from_nanos(6_000_000_000)).contains(&first.time));
        assert!(events.iter().all(|event| event.queue != DEMOTED || event.packet.flow == FlowId(0)));
        let after = first.time + Duration::from_secs(1);
        let seconds = Time::from_nanos(20_000_000_000).since(after).as_secs_f64();
        let rate = |flow| bytes(&events, flow, EventKind::Dequeue, after) as f64 / seconds / 1.5e6;
        // Its share, and what is idle while the other one is silent.
        assert!((0.09..0.25).contains(&rate(0)), "{dual}: {}", rate(0));
        assert!(rate(1) > 0.65, "{dual}: {}", rate(1));
        // Of what no longer fits, the tail is dropped in the demoted queue.
        let dropped = bytes(&events, 0, EventKind::Drop(DropReason::Overflow), after) as f64;
        assert!((dropped / seconds / 1.5e6 + rate(0) - 0.8).abs() < 0.02, "{dual}: {dropped}");
        // Without protection it has its rate.
        let events = run(dual, 20);
        assert!(bytes(&events, 0, EventKind::Dequeue, Time::ZERO) > 7 * 20 * 150_000, "{dual}");
    }
}

#[test]
fn a_flow_that_is_tried_leaves_with_marks_and_loses_packets_at_the_door() {
    let events = run("dualq_curvy protect 10", 5);
    let demoted = events.iter().position(|event| event.queue == DEMOTED).unwrap();
    let tried = &events[..demoted];
    let refused = EventKind::Drop(DropReason::Early);
    let lost = bytes(tried, 0, refused, Time::ZERO) / 1500;
    // Three of four, of 800 packets a second for a second and a half.
    assert!((880..=920).contains(&lost), "{lost}");
    // The other one gives way to a loss at the latest.
    assert!(bytes(&events, 1, refused, Time::ZERO) <= 1500);
    // In the two seconds before, each packet of it that left had a mark just before.
    let from = events[demoted].time - Duration::from_secs(2);
    let mut left = 0;
    for (index, event) in tried.iter().enumerate() {
        let is_it = event.kind == EventKind::Dequeue && event.packet.flow == FlowId(0) && event.time >= from;
        if is_it {
            let mark = &tried[index - 1];
            assert_eq!((mark.packet, event.packet.ecn), (event.packet, Ecn::Ce));
            assert!(matches!(mark.kind, EventKind::Mark(MarkReason::Aqm | MarkReason::CeThreshold)));
            assert_eq!((mark.queue, mark.backlog.packets), (L4S, event.backlog.packets + 1));
            left += 1;
        }
    }
    assert!(left > 300, "{left}");
}

/// A limit below the threshold leaves nothing to mark: what the L4S queue has no room for is its congestion then.
#[test]
fn losses_at_the_l4s_queues_own_limit_lead_to_a_trial_as_marks_do() {
    let config: QdiscConfig = "dualq_curvy threshold 100p protect 10 l4s_limit 5p".parse().unwrap();
    let mut queue = config.build(&LINK).unwrap();
    let mut events: Vec<Event> = Vec::new();
    // A fifth more than the link sends.
    for tick in 0..5 * 1200 {
        let now = Time::ZERO + Duration::from_millis(tick) * 5 / 6;
        queue.enqueue(Packet::new(tick, FlowId(0), 1500, now).with_ecn(Ecn::Ect1), now, &mut events);
        if tick % 6 > 0 {
            queue.dequeue(now, &mut events);
        }
    }
    let first = events.iter().position(|event| event.queue == DEMOTED).unwrap();
    let is_threshold = |event: &Event| event.kind == EventKind::Mark(MarkReason::CeThreshold);
    assert!(!events[..first].iter().any(is_threshold));
}

/// A dual queue that is protected, with a tenth for the demoted queue.
fn protected(dual: Box<dyn Qdisc>) -> Protected {
    Protected {
        dual,
        scalable: Scalable::Ect1,
        demoted: Ring::of_queue(DEMOTED, QueueLimit::Packets(20)),
        share: 10,
        credit: 0,
        patience: OWED * 100 * 1500,
        challenge: Challenge::new(LINK.rate),
        l4s: Backlog::default(),
    }
}

/// After how many packets of the dual queue the demoted queue has its turns, while both always wait and packets of the
/// dual queue carry `l4s`.
fn turns(l4s: Ecn) -> Vec<u64> {
    let mut queue = protected("dualq_curvy".parse::<QdiscConfig>().unwrap().build(&LINK).unwrap());
    let packet = |id, flow, ecn| Packet::new(id, FlowId(flow), 1500, Time::ZERO).with_ecn(ecn);
    for id in 0..20 {
        queue.demoted.offer(packet(id, 0, Ecn::Ect1), Time::ZERO, &mut ());
    }
    queue.enqueue(packet(20, 1, l4s), Time::ZERO, &mut ());
    let (mut before, mut turns) = (0, Vec::new());
    for id in 21..200 {
        queue.enqueue(packet(id, 1, l4s), Time::ZERO, &mut ());
        match queue.dequeue(Time::ZERO, &mut ()).unwrap().flow {
            FlowId(0) => turns.push(before),
            _ => before += 1,
        }
    }
    turns
}

#[test]
fn the_demoted_queue_waits_for_the_l4s_queue_until_it_is_owed_four_packets() {
    // A tenth of the link: a packet is owed every nine of the dual queue, four and a bit every forty.
    let every_nine_from = |first: u64, seen: Vec<u64>| {
        assert!(
            seen.len() > 10 && seen.iter().copied().eq((first..).step_by(9).take(seen.len())),
            "{seen:?}"
        );
    };
    every_nine_from(1, turns(Ecn::NotEct));
    every_nine_from(41, turns(Ecn::Ect1));
}

/// Drops all it has when it is asked for a packet.
struct Dropping(Backlog);

impl Qdisc for Dropping {
    fn enqueue(&mut self, packet: Packet, _: Time, _: &mut dyn EventSink) {
        self.0 = Backlog { packets: self.0.packets + 1, bytes: self.0.bytes + u64::from(packet.wire_bytes) };
    }

    fn dequeue(&mut self, _: Time, _: &mut dyn EventSink) -> Option<Packet> {
        self.0 = Backlog::default();
        None
    }

    fn backlog(&self) -> Backlog {
        self.0
    }
}

#[test]
fn what_the_demoted_queue_sends_in_place_of_the_other_is_charged_to_it() {
    let mut queue = protected(Box::new(Dropping(Backlog::default())));
    let packet = |id, flow| Packet::new(id, FlowId(flow), 1500, Time::ZERO).with_ecn(Ecn::Ect1);
    queue.demoted.offer(packet(0, 0), Time::ZERO, &mut ());
    queue.enqueue(packet(1, 1), Time::ZERO, &mut ());
    assert_eq!(queue.dequeue(Time::ZERO, &mut ()).map(|packet| packet.id), Some(0));
    assert_eq!(queue.credit, -90 * 1500);
}

#[test]
fn shares_out_of_range_are_refused_and_the_queues_have_names() {
    for words in ["dualpi2 protect 0", "dualq_curvy protect 51"] {
        let error = words.parse::<QdiscConfig>().unwrap().build(&LINK).err().unwrap().to_string();
        assert!(error.contains("protect"), "{error}");
    }
    let config: QdiscConfig = "dualpi2 protect 5".parse().unwrap();
    assert_eq!(config.queue_names(), ["classic", "l4s", "demoted"]);
    assert_eq!(config.to_string(), "dualpi2 15ms protect 5");
    assert_eq!("dualq_curvy".parse::<QdiscConfig>().unwrap().queue_names(), ["classic", "l4s"]);
}
