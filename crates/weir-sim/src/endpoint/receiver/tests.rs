use weir_core::Seed;

use super::{AckFrame, Arriving, Data, Duration, Feedback, Receiver, ReceiverConfig, Time};

fn data(number: u64, sequence: u64) -> Data {
    Data { number, sequence, reduced: false, spin: false }
}

fn config(feedback: Feedback) -> ReceiverConfig {
    ReceiverConfig { quick: 0, feedback, ..ReceiverConfig::default() }
}

fn acks(receiver: &mut Receiver, at: u64, data: Data, marked: bool) -> Vec<(u64, u64, bool)> {
    burst(receiver, at, data, 1, 1000, marked)
}

fn burst(
    receiver: &mut Receiver,
    at: u64,
    data: Data,
    segments: u16,
    payload: u32,
    marked: bool,
) -> Vec<(u64, u64, bool)> {
    let mut out = Vec::new();
    let now = Time::from_nanos(at);
    let packet = Arriving { handle: data.pack(), segments, payload, size: 1000, marked, sent: now };
    let mut reply = |ack: AckFrame| out.push((ack.ranges[0].1, ack.next, ack.echo));
    if receiver.tells_apart(marked) {
        reply(receiver.acknowledge(now));
    }
    if receiver.receive(now, packet) {
        reply(receiver.acknowledge(now));
    }
    out
}

#[test]
fn every_second_packet_and_at_once_after_a_gap() {
    let mut receiver = Receiver::new(config(Feedback::Classic));
    assert_eq!(acks(&mut receiver, 0, data(0, 0), false), []);
    assert_eq!(receiver.due(), Time::ZERO + Duration::from_millis(40));
    assert_eq!(acks(&mut receiver, 1, data(1, 1), false), [(2, 2, false)]);
    assert_eq!(receiver.due(), Time::MAX);
    // Packet 2 is lost; each that follows is acknowledged until it has come again.
    assert_eq!(acks(&mut receiver, 2, data(3, 3), false), [(4, 2, false)]);
    assert_eq!(acks(&mut receiver, 3, data(4, 4), false), [(5, 2, false)]);
    assert_eq!(acks(&mut receiver, 4, data(5, 2), false), [(6, 5, false)]);
    assert_eq!((receiver.bytes, receiver.packets), (5000, 5));
    assert_eq!(acks(&mut receiver, 5, data(6, 5), false), []);
}

#[test]
fn packets_after_a_long_gap_or_a_needless_one_are_acknowledged_one_by_one() {
    let idle = Duration::from_millis(210);
    let mut receiver = Receiver::new(ReceiverConfig { quick: 3, idle, ..config(Feedback::Classic) });
    let mut now = Time::ZERO;
    // Whether each of the packets from `number` on, `first` of the stream on, is acknowledged at once.
    let mut told = |gap: Duration, number: u64, first: u64, count: u64| -> Vec<bool> {
        now += gap;
        let at = now.as_nanos();
        (0..count)
            .map(|i| !acks(&mut receiver, at + i, data(number + i, first + i), false).is_empty())
            .collect()
    };
    let (soon, often, by_pairs) = (Duration::from_millis(1), [true; 3], [false, true, false]);
    assert_eq!(told(soon, 0, 0, 6), [often, by_pairs].concat());
    assert_eq!(told(soon, 6, 6, 1), [true], "the pair's other");
    // The gap begins with the newest packet, and not the timeout itself but more ends it.
    assert_eq!(told(idle, 7, 7, 2), [false, true]);
    assert_eq!(told(idle + soon, 9, 9, 6), [often, by_pairs].concat());
    // The last of the stream comes again: itself at once, and three after it.
    assert_eq!(told(soon, 15, 14, 1), [true]);
    assert_eq!(told(soon, 16, 15, 6), [often, by_pairs].concat());
    // What fills a gap is no needless one.
    assert_eq!(told(soon, 23, 22, 1), [true]);
    assert_eq!(told(soon, 24, 21, 1), [true]);
    assert_eq!(told(soon, 25, 23, 2), [false, true]);
}

#[test]
fn a_super_packet_is_acknowledged_once_and_its_mark_counts_for_all_segments() {
    let mut receiver = Receiver::new(config(Feedback::Counted));
    assert_eq!(burst(&mut receiver, 0, data(0, 0), 10, 9_400, false), [(10, 10, false)]);
    assert_eq!((receiver.packets, receiver.bytes, receiver.ce), (10, 9_400, 0));
    assert_eq!(burst(&mut receiver, 1, data(10, 10), 3, 3_000, true), [(13, 13, false)]);
    assert_eq!(receiver.ce, 3);
    // Again, for nothing.
    assert_eq!(burst(&mut receiver, 2, data(13, 9), 2, 2_000, false).len(), 1);
    assert_eq!(receiver.bytes, 12_400);
}

#[test]
fn what_comes_close_together_is_acknowledged_together() {
    let gro = Duration::from_micros(50);
    let mut receiver = Receiver::new(ReceiverConfig { gro, ..config(Feedback::Classic) });
    for number in 0..5 {
        assert_eq!(acks(&mut receiver, number * 1_000, data(number, number), false), []);
    }
    assert_eq!(receiver.due(), Time::from_nanos(50_000));
    assert_eq!(receiver.acknowledge(receiver.due()).next, 5);
    // One alone still waits for a second, or for its delay.
    assert_eq!(acks(&mut receiver, 60_000, data(5, 5), false), []);
    assert_eq!(receiver.due(), Time::from_nanos(40_060_000));
    assert_eq!(acks(&mut receiver, 70_000, data(6, 6), false), []);
    assert_eq!(receiver.due(), Time::from_nanos(110_000));
    // A gap is reported at once.
    assert_eq!(acks(&mut receiver, 80_000, data(8, 8), false), [(9, 7, false)]);
}

#[test]
fn beyond_a_gap_packets_are_told_of_together_after_the_first_three() {
    let mut receiver = Receiver::new(config(Feedback::Classic));
    assert_eq!(acks(&mut receiver, 0, data(0, 0), false), []);
    // Packet 1 is lost. The first acknowledgement reports packet 0 as well.
    for number in 2..5 {
        assert_eq!(acks(&mut receiver, number, data(number, number), false), [(number + 1, 1, false)]);
    }
    assert_eq!(acks(&mut receiver, 5, data(5, 5), false), []);
    assert_eq!(receiver.due(), Time::from_nanos(1_000_005));
    assert_eq!(acks(&mut receiver, 600_000, data(6, 6), false), []);
    // The second does not put it off.
    assert_eq!(receiver.due(), Time::from_nanos(1_000_005));
    assert_eq!(receiver.acknowledge(receiver.due()).ranges[0], (2, 7));
    // Packet 8 is lost too: the gap is the same. That it moves is reported at once.
    assert_eq!(acks(&mut receiver, 2_000_000, data(8, 8), false), []);
    assert_eq!(acks(&mut receiver, 2_000_001, data(9, 1), false), [(10, 7, false)]);
    for number in 10..14 {
        let told = acks(&mut receiver, 2_100_000, data(number, number - 1), false).len();
        assert_eq!(told, usize::from(number < 13));
    }
    assert_eq!(receiver.due(), Time::from_nanos(3_100_000));
    // It is filled, and that ends the waiting.
    assert_eq!(acks(&mut receiver, 2_200_000, data(14, 7), false), [(15, 13, false)]);
    assert_eq!(receiver.due(), Time::MAX);
}

#[test]
fn a_short_path_waits_for_a_third_of_its_round_trip_and_quic_not_at_all() {
    let compress = |micros| ReceiverConfig::tcp(Feedback::Classic, Duration::from_micros(micros)).compress;
    assert_eq!((compress(100), compress(20_000)), (Duration::from_micros(33), Duration::from_millis(1)));
    let mut receiver = Receiver::new(ReceiverConfig::quic(Feedback::Counted));
    for number in 1..8 {
        assert_eq!(acks(&mut receiver, number, data(number, number), false).len(), 1);
    }
}

#[test]
fn classic_marks_are_echoed_until_answered() {
    let mut receiver = Receiver::new(ReceiverConfig { every: 1, ..config(Feedback::Classic) });
    assert_eq!(acks(&mut receiver, 0, data(0, 0), true), [(1, 1, true)]);
    assert_eq!(acks(&mut receiver, 1, data(1, 1), false), [(2, 2, true)]);
    let answer = Data { reduced: true, ..data(2, 2) };
    assert_eq!(acks(&mut receiver, 2, answer, false), [(3, 3, false)]);
}

#[test]
fn an_answer_is_acknowledged_at_once() {
    for feedback in [Feedback::Classic, Feedback::Dctcp] {
        let mut receiver = Receiver::new(config(feedback));
        assert_eq!(acks(&mut receiver, 0, data(0, 0), false), []);
        assert_eq!(acks(&mut receiver, 1, data(1, 1), false), [(2, 2, false)]);
        let answer = Data { reduced: true, ..data(2, 2) };
        assert_eq!(acks(&mut receiver, 2, answer, false), [(3, 3, false)]);
        assert_eq!(acks(&mut receiver, 3, data(3, 3), false), [], "only itself");
    }
}

#[test]
fn dctcp_tells_marked_packets_from_others() {
    let mut receiver = Receiver::new(config(Feedback::Dctcp));
    assert_eq!(acks(&mut receiver, 0, data(0, 0), false), []);
    // The packet that was held back is acknowledged without the echo, the one that is marked at once.
    assert_eq!(acks(&mut receiver, 1, data(1, 1), true), [(1, 1, false), (2, 2, true)]);
    assert_eq!(acks(&mut receiver, 2, data(2, 2), true), []);
    assert_eq!(acks(&mut receiver, 3, data(3, 3), false), [(3, 3, true), (4, 4, false)]);
    assert_eq!(acks(&mut receiver, 4, data(4, 4), false), []);
    assert_eq!(acks(&mut receiver, 5, data(5, 5), false), [(6, 6, false)]);
}

#[test]
fn reordered_packets_join_their_ranges() {
    let mut receiver = Receiver::new(config(Feedback::Counted));
    for number in [0, 1, 5, 3, 2, 4] {
        acks(&mut receiver, number, data(number, number), false);
    }
    let ack = receiver.acknowledge(Time::from_nanos(9));
    assert_eq!((ack.ranges, ack.next), ([(0, 6), (0, 0), (0, 0), (0, 0)], 6));
    // More gaps than ranges: the oldest is forgotten, and what comes again changes nothing.
    for number in [10, 20, 30, 40, 25, 25, 31] {
        acks(&mut receiver, number, data(number, number), false);
    }
    let ack = receiver.acknowledge(Time::from_nanos(99));
    assert_eq!(ack.ranges, [(40, 41), (30, 32), (25, 26), (20, 21)]);
}

#[test]
fn accurate_ecn_tells_at_once_where_marking_begins_and_ends() {
    let mut receiver = Receiver::new(config(Feedback::AccEcn));
    let marks = [false, false, true, true, true, false, false, false, true, false];
    let told: Vec<_> =
        (0..).zip(marks).map(|(i, marked)| acks(&mut receiver, i, data(i, i), marked)).collect();
    // By pairs, but at once where a mark is unlike the one before; then pairs begin anew. It never echoes.
    let expected = [0, 2, 3, 0, 5, 6, 0, 8, 9, 10];
    for (told, next) in told.iter().zip(expected) {
        assert_eq!(*told, if next == 0 { vec![] } else { vec![(next, next, false)] }, "{next}");
    }
    assert_eq!((receiver.ce, receiver.echo), (4, false));
}

#[test]
fn a_mark_of_quic_does_not_end_what_is_taken_together() {
    let gro = Duration::from_micros(150);
    let mut receiver = Receiver::new(ReceiverConfig { gro, ..config(Feedback::Counted) });
    // The second packet comes within the time; both are acknowledged at its end, with the mark of the first.
    assert_eq!(acks(&mut receiver, 0, data(0, 0), true), []);
    assert_eq!(acks(&mut receiver, 121_000, data(1, 1), false), []);
    assert_eq!(receiver.due(), Time::ZERO + gro);
    let ack = receiver.acknowledge(receiver.due());
    assert_eq!((ack.ranges[0], ack.ce), ((0, 2), 1));
    // One that comes behind a gap is reported at once all the same.
    assert_eq!(acks(&mut receiver, 200_000, data(3, 3), true), [(4, 2, false)]);
}

/// A receiver that keeps notes takes no packet the short way.
#[test]
fn the_short_way_leads_where_the_long_one_does() {
    let mut random = Seed::default().stream("short way");
    let all = [Feedback::Classic, Feedback::Dctcp, Feedback::Counted, Feedback::AccEcn];
    for (round, feedback) in all.into_iter().cycle().take(64).enumerate() {
        let gro = Duration::from_micros([0, 20][round / 4 % 2]);
        let compress = Duration::from_micros([0, 300][round / 8 % 2]);
        let config = ReceiverConfig { gro, compress, quick: 5, ..config(feedback) };
        let (mut short, mut long) = (Receiver::new(config), Receiver::new(config));
        long.keep_notes();
        let (mut now, mut number, mut sequence) = (Time::ZERO, 0, 0);
        let mut again = Vec::new();
        for _ in 0..2_000 {
            now += Duration::from_nanos(random.below(60_000));
            for receiver in [&mut short, &mut long] {
                if receiver.due() <= now {
                    receiver.acknowledge(now);
                }
            }
            let segments = if random.below(10) == 0 { 3 } else { 1 };
            let lost = if segments == 1 && random.below(3) == 0 { again.pop() } else { None };
            let first = lost.unwrap_or(sequence);
            let data = Data {
                number,
                sequence: first,
                reduced: random.below(50) == 0,
                spin: now.as_nanos() >> 18 & 1 == 1,
            };
            number += u64::from(segments);
            sequence += if lost.is_none() { u64::from(segments) } else { 0 };
            if random.below(30) == 0 {
                // Lost, with all its segments; the last comes again.
                again.push(first + u64::from(segments) - 1);
                continue;
            }
            let payload = 1000 * u32::from(segments) - random.below(2) as u32 * 300;
            let marked = random.below(20) == 0;
            let packet = Arriving { handle: data.pack(), segments, payload, size: 1000, marked, sent: now };
            let [one, other] = [&mut short, &mut long].map(|receiver| {
                let mut frames = Vec::new();
                if receiver.tells_apart(marked) {
                    frames.push(receiver.acknowledge(now));
                }
                if receiver.receive(now, packet) {
                    frames.push(receiver.acknowledge(now));
                }
                format!("{frames:?} {:?} {} {}", receiver.due(), receiver.bytes, receiver.packets)
            });
            assert_eq!(one, other, "{config:?} {packet:?}");
        }
    }
}
