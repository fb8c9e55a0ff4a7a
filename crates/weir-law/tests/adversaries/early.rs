//! Acknowledgements of data that passed the bottleneck and have not arrived. An observer behind it forges them, in
//! packets that the sender's host throws away (a wrong checksum will do); or the receiver sends them, which knows
//! what is under way ("optimistic ACKs": Savage et al., "TCP Congestion Control with a Misbehaving Receiver", CCR
//! 1999).
//!
//! Limits of a law that takes acknowledgements for arrivals, not wishes: the tests say how far they go.

use std::collections::VecDeque;

use weir_core::{Duration, QueueChoice, Time};
use weir_law::live::LiveTable;
use weir_law::{Judgement, Params, Signal};

use crate::honest::{RTT, honest, laws, live_under, nobody};
use weir_testkit::traffic::attacks::{FORWARD, REVERSE, START, peer};
use weir_testkit::traffic::{ACK, Carrier, Peer, SEGMENT, send, tcp};

/// Nanoseconds as milliseconds per one of `count`.
fn millis_each(from: Time, to: Time, count: usize) -> f64 {
    (to.as_nanos() - from.as_nanos()) as f64 / 1e6 / count as f64
}

/// Ends of data on their way, and when they passed.
#[derive(Default)]
struct Passed(VecDeque<(Time, u32)>);

impl Passed {
    /// The next that passed `after` ago or earlier.
    fn arrived(&mut self, after: Duration, now: Time) -> Option<u32> {
        self.0.front().is_some_and(|(at, _)| *at + after <= now).then(|| self.0.pop_front().unwrap().1)
    }
}

/// Acknowledges each packet of a flow a while after it passed. To be called before each packet of the flow.
struct Early {
    after: Duration,
    passed: Passed,
    last: Option<Time>,
}

impl Early {
    fn after(after: Duration) -> Self {
        Self { after, passed: Passed::default(), last: None }
    }

    fn run(&mut self, live: &mut LiveTable, one: &Peer, now: Time) {
        self.passed.0.extend(self.last.map(|at| (at, one.seq)));
        self.last = Some(now);
        while let Some(end) = self.passed.arrived(self.after, now) {
            send(live, &tcp(one.to, one.from, (one.ack, end), ACK, 0), REVERSE, now);
        }
    }
}

#[test]
fn an_observer_chooses_how_long_the_cycles_of_a_download_are() {
    for (name, law) in laws() {
        for (after, conduct) in [(0, 0), (0, 60), (10, 0), (10, 60), (20, 0)] {
            let mut live = live_under(law, 64);
            let mut one = peer(Carrier::Tcp, 1);
            let (_, begin) = honest(&mut live, &mut one, START, conduct, &mut nobody);
            let mut early = Early::after(Duration::from_millis(after));
            let (told, end) = honest(&mut live, &mut one, begin, 2000, &mut |live, one, _, now| {
                early.run(live, one, now);
            });
            let (length, share) = (millis_each(begin, end, told.cycles), told.share());
            println!(
                "{name}: acknowledged {after} ms after it passed, after {conduct} round trips in peace: cycles of \
                 {length:.1} ms, responsive {share:.3}"
            );
            match (after, conduct) {
                // A packet each: too little to be judged by. What the flow was, it stays.
                (0, 0) => assert!(length < 3.0 && told.responsive == 0, "{told:?}"),
                // The judge judges by cycles however small they are; the guard makes the first ones longer.
                (0, _) if law.whole_conduct => assert!(length < 3.1 && share < 0.1, "{told:?}"),
                (0, _) => assert!(length < 3.1 && told.responsive == told.packets, "{told:?}"),
                // Two cycles after a signal the flow has not heard of it; the judge waits for five.
                (10, _) if law.whole_conduct => assert!(length < 12.0 && share > 0.9, "{told:?}"),
                (10, _) => assert!(length < 12.0 && share < 0.07, "{told:?}"),
                _ => assert!(length < 22.0 && share > 0.95, "{told:?}"),
            }
        }
    }
}

/// The mean length of cycles in milliseconds where the receiver sends data too: a segment each millisecond there, one
/// each two milliseconds back, and half of the round trip on each side of the bottleneck. `forge` has the number that
/// forged acknowledgements of what has just passed come with, given that of the receiver's next segment.
fn two_way_cycle(law: Params, forge: Option<fn(u32) -> u32>) -> f64 {
    let side = Duration::from_nanos(RTT.as_nanos() / 2);
    let mut live = live_under(law, 64);
    let mut one = peer(Carrier::Tcp, 1);
    // What passed in either direction, and the receiver's next number.
    let (mut there, mut back, mut next) = (Passed::default(), Passed::default(), one.ack);
    let (mut cycles, mut begin, mut now) = (0, START, START);
    let mut arrived = one.seq;
    for packet in 0..20_000 {
        while let Some(end) = back.arrived(side, now) {
            one.ack = end;
        }
        while let Some(end) = there.arrived(side, now) {
            arrived = end;
        }
        let found = send(&mut live, &one.data(SEGMENT), FORWARD, now);
        there.0.push_back((now, one.seq));
        if packet == 1000 {
            (cycles, begin) = (0, now);
        }
        cycles += usize::from(found.ended.is_some());
        if let Some(forge) = forge {
            send(&mut live, &tcp(one.to, one.from, (forge(next), one.seq), ACK, 0), REVERSE, now);
        }
        if packet % 2 == 0 {
            send(&mut live, &tcp(one.to, one.from, (next, arrived), ACK, 100), REVERSE, now);
            next = next.wrapping_add(100);
            back.0.push_back((now, next));
        }
        now += Duration::from_millis(1);
    }
    millis_each(begin, now, cycles)
}

#[test]
fn an_observer_takes_halves_of_a_cycle() {
    for (name, law) in laws() {
        let honest = two_way_cycle(law, None);
        // As the receiver would number it, and as it numbered what the sender has acknowledged long ago.
        let (next, old) = (
            two_way_cycle(law, Some(|next| next)),
            two_way_cycle(law, Some(|next| next.wrapping_sub(10_000))),
        );
        println!(
            "{name}, data both ways: cycles of {honest:.1} ms, forged {next:.1} ms, with an old number {old:.1} ms"
        );
        assert!((49.0..51.0).contains(&honest) && (23.0..26.0).contains(&next), "{honest} {next}");
        // The second half goes by the newest number that has come by, where the law notes it.
        let kept = law.timestamp_cycles;
        assert!(if kept { (23.0..26.0).contains(&old) } else { old < 1.1 }, "{old}");
    }
}

/// What a sender got that does not answer.
#[derive(Debug, PartialEq)]
struct Bought {
    favoured: usize,
    votes: usize,
    /// Mean length of its cycles in milliseconds.
    cycle: f64,
}

/// A hundred thousand packets of constant rate, one in ten lost, after `conduct` round trips of good conduct.
/// `answer` comes before each of them.
fn constant_rate(law: Params, conduct: u32, answer: &mut dyn FnMut(&mut LiveTable, &Peer, Time)) -> Bought {
    let mut live = live_under(law, 64);
    let mut one = peer(Carrier::Tcp, 1);
    let (_, begin) = honest(&mut live, &mut one, START, conduct, &mut nobody);
    let (mut favoured, mut votes, mut cycles, mut now) = (0, 0, 0, begin);
    for packet in 0..100_000 {
        answer(&mut live, &one, now);
        let data = one.data(SEGMENT);
        let found = send(&mut live, &data, FORWARD, now);
        favoured += usize::from(found.choice == QueueChoice::Responsive);
        cycles += usize::from(found.ended.is_some());
        votes += usize::from(found.ended.is_some_and(|(end, _)| end.judgement == Judgement::Voted));
        if packet % 10 == 0 {
            live.signal(&data, found.cycle, Signal::Loss, 1);
        }
        // The mean of the honest flow.
        now += Duration::from_nanos(RTT.as_nanos() / 17);
    }
    Bought { favoured, votes, cycle: millis_each(begin, now, cycles) }
}

#[test]
fn a_receiver_keeps_an_earned_verdict_for_a_sender_that_does_not_answer() {
    for (name, law) in laws() {
        let mut late = Early::after(Duration::from_nanos(RTT.as_nanos() * 9 / 10));
        let arrived = constant_rate(law, 100, &mut |live, one, now| late.run(live, one, now));
        let at_once = |conduct| {
            constant_rate(law, conduct, &mut |live, one, now| {
                send(live, &one.answer(), REVERSE, now);
            })
        };
        let (earned, never) = (at_once(100), at_once(0));
        println!(
            "{name}: of 100,000 packets at constant rate {} are favoured if acknowledged as they arrive, {} as they \
             pass ({} votes, cycles of {:.1} ms), {} without a verdict before",
            arrived.favoured, earned.favoured, earned.votes, earned.cycle, never.favoured
        );
        assert!(arrived.favoured < 1000 && arrived.votes > 5000, "{arrived:?}");
        if law.whole_conduct {
            assert!(earned.favoured < 2000 && earned.votes > 5000, "{earned:?}");
        } else {
            assert!(earned.favoured == 100_000 && earned.votes == 0, "{earned:?}");
            assert_eq!(never.votes, 0);
        }
        assert_eq!(never.favoured, 0);
    }
}

#[test]
fn a_receiver_that_chooses_cycles_earns_a_verdict_where_two_are_compared() {
    // Two long cycles and two short ones: most signals are in long ones, and two later comes a short one. An answer
    // ends each, so that long ones take answers that are held back, and short ones such as come early.
    for (how, cycles) in [("early", [15, 15, 1, 1]), ("held back", [30, 30, 15, 15])] {
        for (name, law) in laws() {
            let (mut turn, mut packets) = (0, 0);
            let bought = constant_rate(law, 0, &mut |live, one, now| {
                packets += 1;
                if packets == cycles[turn] {
                    (turn, packets) = ((turn + 1) % cycles.len(), 0);
                    send(live, &one.answer(), REVERSE, now);
                }
            });
            println!("{name}: acknowledgements {how}, cycles of {cycles:?} packets: {bought:?}");
            if law.whole_conduct {
                assert!(bought.favoured < 1000, "{bought:?}");
            } else {
                let least = if how == "early" { 99_000 } else { 40_000 };
                assert!(bought.favoured > least, "{bought:?}");
            }
        }
    }
}
