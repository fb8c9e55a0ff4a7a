//! The law joined to a queue's events: which flow and which cycle a drop or a mark goes to, and under which number.

use weir_core::{
    Backlog, CycleId, DropReason, Duration, Ecn, Event, EventKind, EventSink, FlowId, MarkReason, Packet,
    QueueChoice, QueueId, Time,
};

use crate::law_testing::{Heard, paper};
use crate::testing::{ethernet, forward, reverse};
use crate::{Direction, Law, Params, Start, Watch, parse};

/// The bottleneck's number of the flow of [`forward`]; the law's is 0.
const OURS: FlowId = FlowId(7);

fn event(kind: EventKind, packet: Packet) -> Event {
    Event {
        time: packet.arrived,
        kind,
        packet,
        queue: QueueId(0),
        sojourn: Duration::ZERO,
        backlog: Backlog::default(),
    }
}

const DROP: EventKind = EventKind::Drop(DropReason::Overflow);
const MARK: EventKind = EventKind::Mark(MarkReason::Aqm);

/// A watch whose flow sends a window of packets each round trip and has all of them acknowledged.
struct Rounds {
    watch: Watch,
    heard: Heard,
    now: Time,
    seq: u32,
}

impl Rounds {
    fn new(params: Params) -> Self {
        Self { watch: Watch::new(Law::new(params, 16)), heard: Heard::default(), now: Time::ZERO, seq: 1 }
    }

    /// A round trip of `window` packets; their stamps.
    fn round(&mut self, window: u32) -> Vec<Packet> {
        let sent = (0..window)
            .map(|_| {
                self.now += Duration::from_millis(1);
                let mut packet = Packet::new(0, OURS, 1054, self.now);
                self.watch.arriving(&mut packet, &forward(self.seq, 1, 1000), &mut self.heard);
                self.seq += 1000;
                packet
            })
            .collect();
        self.now += Duration::from_millis(20);
        let answer = reverse(1, self.seq, 0);
        self.watch.passing(OURS, &answer, Direction::Reverse, self.now, &mut self.heard);
        sent
    }
}

#[test]
fn what_the_law_finds_has_the_number_of_the_bottleneck() {
    let mut rounds = Rounds::new(paper());
    for _ in 0..4 {
        rounds.round(10);
    }
    let sent = rounds.round(10);
    rounds.watch.event(&event(DROP, sent[9]));
    // Two cycles later the window is half of that in which the packet was dropped.
    for window in [10, 5, 5] {
        rounds.round(window);
    }
    let [assessment] = &rounds.heard.assessments[..] else { panic!("{:?}", rounds.heard.assessments) };
    assert_eq!((assessment.flow, assessment.signalled, assessment.signals.loss), (OURS, sent[9].cycle, 1));
    assert!(rounds.heard.cycles.iter().all(|end| end.flow == OURS));
    let [change] = &rounds.heard.changes[..] else { panic!("{:?}", rounds.heard.changes) };
    assert_eq!((change.flow, change.to), (OURS, QueueChoice::Responsive));
    assert!(rounds.round(5).iter().all(|packet| packet.choice == QueueChoice::Responsive));
    let view = rounds.watch.flow(OURS).unwrap();
    assert_eq!((view.choice, view.late_signals), (QueueChoice::Responsive, 0));
    assert_eq!((rounds.watch.flow(FlowId(0)), rounds.watch.flow(FlowId::NONE)), (None, None));
    assert_eq!(rounds.watch.into_law().flow(FlowId(0)).map(|view| view.cycle), Some(view.cycle));
}

#[test]
fn only_signals_of_this_queue_are_booked_and_to_the_stamped_cycle() {
    let mut rounds = Rounds::new(paper());
    let sent = rounds.round(10);
    let booked = |rounds: &Rounds| rounds.watch.law().booked(FlowId(0), 0).unwrap();
    rounds.watch.event(&event(EventKind::Enqueue, sent[0]));
    rounds.watch.event(&event(EventKind::Dequeue, sent[0]));
    // It came with CE: another queue's signal.
    rounds.watch.event(&event(MARK, Packet { ecn_in: Ecn::Ce, ecn: Ecn::Ce, ..sent[1] }));
    assert_eq!((booked(&rounds).loss, booked(&rounds).mark), (0, 0));
    rounds.watch.event(&event(MARK, Packet { ecn_in: Ecn::Ect0, ecn: Ecn::Ce, segments: 44, ..sent[1] }));
    rounds.watch.event(&event(DROP, sent[2]));
    assert_eq!((booked(&rounds).loss, booked(&rounds).mark), (1, 44));

    for _ in 0..6 {
        rounds.round(10);
    }
    rounds.watch.event(&event(DROP, sent[3]));
    assert_eq!(rounds.watch.law().counters().late_signals, 1);
    assert_eq!(rounds.watch.flow(OURS).unwrap().late_signals, 1);
}

#[test]
fn a_packet_of_no_flow_is_standard_and_its_signals_are_counted() {
    let mut watch = Watch::new(Law::new(paper(), 16));
    // ARP.
    let other = parse(&ethernet(0x0806, &[0; 46]), Start::Ethernet);
    for flow in [FlowId(3), FlowId::NONE] {
        let stamped = Packet {
            cycle: CycleId(9),
            choice: QueueChoice::Responsive,
            ..Packet::new(0, flow, 60, Time::ZERO)
        };
        let mut packet = stamped;
        watch.arriving(&mut packet, &other, &mut ());
        assert_eq!((packet.cycle, packet.choice), (CycleId(0), QueueChoice::Standard));
        watch.event(&event(DROP, packet));
    }
    assert_eq!((watch.law().counters().untracked_signals, watch.law().len()), (2, 0));
}
