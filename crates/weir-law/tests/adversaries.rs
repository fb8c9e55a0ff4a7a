//! What blind outsiders, observers and cheats can do to the law of a flow that has an entry
//! (docs/model/adversaries.md). Every attack runs beside honest flows, and every test says what the attack buys.

#[path = "adversaries/early.rs"]
mod early;
#[path = "adversaries/honest.rs"]
mod honest;

use weir_core::{Duration, QueueChoice, Random, Seed};
use weir_law::{Params, ParsedPacket, Signal, Verdict};

use honest::{RTT, Told, honest, laws, live, live_under, nobody};
use weir_testkit::traffic::attacks::{FORWARD, REVERSE, START, peer, random_spin};
use weir_testkit::traffic::{ACK, Carrier, Peer, SEGMENT, SYN, initial, quic, send, tcp};

fn random(name: &str) -> Random {
    Seed { seed: 13, run: 0 }.stream(name)
}

/// A forward segment of the flow that somebody made up.
fn forged(one: &Peer, seq: u32) -> ParsedPacket {
    tcp(one.from, one.to, (seq, one.ack), ACK, SEGMENT)
}

#[test]
fn a_blind_segment_stops_no_cycles() {
    let mut random = random("blind");
    for (name, how) in [("a segment", 0), ("two, half of the numbers apart", 1), ("an acknowledgement", 2)] {
        let mut harmed = 0;
        for number in 0..400 {
            let mut live = live(64);
            let mut one = peer(Carrier::Tcp, number);
            one.seq = random.next_u64() as u32;
            let (_, now) = honest(&mut live, &mut one, START, 30, &mut nobody);
            let at = random.next_u64() as u32;
            match how {
                0 => _ = send(&mut live, &forged(&one, at), FORWARD, now),
                1 => {
                    send(&mut live, &forged(&one, at), FORWARD, now);
                    send(&mut live, &forged(&one, at.wrapping_add(1 << 31)), FORWARD, now);
                }
                _ => _ = send(&mut live, &tcp(one.to, one.from, (one.ack, at), ACK, 0), REVERSE, now),
            }
            let (told, _) = honest(&mut live, &mut one, now, 30, &mut nobody);
            harmed += usize::from(!(28..=32).contains(&told.cycles));
        }
        println!("{name}: {harmed} of 400 flows have other cycles than their thirty");
        assert_eq!(harmed, 0, "{name}");
    }
}

#[test]
fn a_flow_under_blind_fire_is_judged_all_the_same() {
    let mut random = random("fire");
    let (mut least, mut responsive) = (f64::MAX, 0);
    for number in 0..20 {
        let mut live = live(64);
        let mut one = peer(Carrier::Tcp, number);
        // From its first packet on, three forged segments and acknowledgements for each four of its packets.
        let (told, _) = honest(&mut live, &mut one, START, 600, &mut |live, one, _, now| {
            if random.below(4) == 0 {
                return;
            }
            let at = random.next_u64() as u32;
            send(live, &forged(one, at), FORWARD, now);
            send(live, &tcp(one.to, one.from, (one.ack, at), ACK, 0), REVERSE, now);
        });
        least = least.min(told.share());
        responsive += usize::from(told.share() > 0.6);
    }
    println!("blind fire: {responsive} of 20 responsive, least share {least:.2}");
    assert_eq!(responsive, 20, "{least}");
}

#[test]
fn forged_drops_are_not_the_flows() {
    let mut random = random("drops");
    let mut live = live(64);
    let mut one = peer(Carrier::Tcp, 1);
    let mut last = u32::MAX;
    let (told, _) = honest(&mut live, &mut one, START, 4000, &mut |live, one, round, now| {
        if round % 3 == 0 && round != last {
            last = round;
            let packet = forged(one, random.next_u64() as u32);
            let found = send(live, &packet, FORWARD, now);
            live.signal(&packet, found.cycle, Signal::Loss, 1);
        }
    });
    println!("forged drops: responsive {:.3}", told.share());
    assert!(told.share() > 0.95, "{told:?}");
}

/// The share that twenty honest QUIC flows have of the responsive queue, and their cycles per round trip, where an
/// outsider's packets are dropped. `comes` is called before each packet of a flow with the number of its round trip
/// and whether it begins that, and returns whether one of the outsider's packets comes first.
fn under_forged_drops(law: Params, comes: &mut dyn FnMut(u32, bool, &mut Random) -> bool) -> (f64, f64) {
    let mut random = random("quic drops");
    let mut sum = Told::default();
    for number in 0..20 {
        let mut live = live_under(law, 64);
        let mut one = peer(Carrier::Quic, number);
        let mut last = u32::MAX;
        let (told, _) = honest(&mut live, &mut one, START, 1200, &mut |live, one, round, now| {
            if comes(round, round != last, &mut random) {
                let packet = quic(one.from, one.to, random.below(2) == 0, 1200);
                let found = send(live, &packet, FORWARD, now);
                live.signal(&packet, found.cycle, Signal::Loss, 1);
            }
            last = round;
        });
        sum.packets += told.packets;
        sum.responsive += told.responsive;
        sum.cycles += live.flow_of(&one.answer()).unwrap().cycles as usize;
    }
    (sum.share(), sum.cycles as f64 / (20.0 * 1200.0))
}

#[test]
fn forged_drops_of_quic_are_the_flows() {
    // A limit of any law that judges by what passes: a short header shows nothing that the other direction would bear
    // out. The flow has a loss of its own every sixth round trip.
    for (name, law) in laws() {
        for every in [3, 1] {
            let begin = under_forged_drops(law, &mut |round, first, _| first && round % every == 0);
            // A round trip has seventeen packets.
            let any = under_forged_drops(law, &mut |_, _, random| random.below(17 * u64::from(every)) == 0);
            println!(
                "{name}, QUIC, one forged drop in {every} round trips: responsive {:.3} and {:.2} cycles a round trip \
                 where they begin, {:.3} and {:.2} at random moments",
                begin.0, begin.1, any.0, any.1
            );
            // Who judges by all cycles sees a flow that does not answer to signals that it never got.
            let most = if law.whole_conduct { 0.1 } else { 1.0 };
            let least = if law.whole_conduct { 0.0 } else { 0.3 };
            assert!(begin.0 < 0.02 && (least..=most).contains(&any.0), "{begin:?} {any:?}");
        }
    }
}

#[test]
fn a_forged_syn_resets_nothing() {
    let mut random = random("syn");
    for carrier in [Carrier::Tcp, Carrier::Quic] {
        let mut live = live(64);
        let mut one = peer(carrier, 1);
        let (_, now) = honest(&mut live, &mut one, START, 60, &mut nobody);
        let mut last = 0;
        // One in every second of twenty.
        let (told, _) = honest(&mut live, &mut one, now, 400, &mut |live, one, round, now| {
            if round / 20 != last {
                last = round / 20;
                let packet = match carrier {
                    Carrier::Tcp => tcp(one.from, one.to, (random.next_u64() as u32, 0), SYN, 0),
                    Carrier::Quic => initial(one.from, one.to, 1200),
                };
                send(live, &packet, FORWARD, now);
                if carrier == Carrier::Tcp {
                    let packet = tcp(one.to, one.from, (random.next_u64() as u32, 0), SYN, 0);
                    send(live, &packet, REVERSE, now);
                }
            }
        });
        println!("forged opening, {carrier:?}: responsive {:.3}, {} cycles", told.share(), told.cycles);
        assert!(told.share() > 0.99 && told.cycles >= 398, "{carrier:?} {told:?}");
        assert_eq!(live.counters().reopened, 0);
    }
}

#[test]
fn a_new_connection_on_an_old_entry_begins_anew() {
    for carrier in [Carrier::Tcp, Carrier::Quic] {
        let mut live = live(64);
        let mut one = peer(carrier, 1);
        let (told, now) = honest(&mut live, &mut one, START, 60, &mut nobody);
        assert!(told.responsive > 0);
        if carrier == Carrier::Tcp {
            (one.seq, one.ack) = (0x8765_4321, 0x1234_5678);
            send(&mut live, &tcp(one.from, one.to, (one.seq, 0), SYN, 0), FORWARD, now);
            one.seq += 1;
            send(&mut live, &tcp(one.to, one.from, (one.ack, one.seq), SYN | ACK, 0), REVERSE, now);
            // Once more: a retransmission of the same answer.
            send(&mut live, &tcp(one.to, one.from, (one.ack, one.seq), SYN | ACK, 0), REVERSE, now);
            one.ack += 1;
        } else {
            send(&mut live, &initial(one.from, one.to, 1200), FORWARD, now);
            send(&mut live, &initial(one.to, one.from, 1200), REVERSE, now);
        }
        assert_eq!(live.counters().reopened, 1, "{carrier:?}");
        let (told, _) = honest(&mut live, &mut one, now, 60, &mut nobody);
        assert!(told.share() < 0.95, "{carrier:?}: it earns its verdict anew, {told:?}");
        assert!(told.share() > 0.6 && told.cycles >= 57, "{carrier:?} {told:?}");
    }
}

#[test]
fn a_verdict_lapses_where_no_cycle_ends() {
    for carrier in [Carrier::Tcp, Carrier::Quic] {
        let mut live = live(64);
        let mut one = peer(carrier, 1);
        let (told, mut now) = honest(&mut live, &mut one, START, 100, &mut nobody);
        assert!(told.responsive > 0);
        // From here on the spin bit stands still, or nothing is acknowledged; every tenth packet is lost.
        let mut favoured = 0;
        for packet in 0..100_000 {
            let data = one.data(SEGMENT);
            let found = send(&mut live, &data, FORWARD, now);
            favoured += usize::from(found.choice == QueueChoice::Responsive);
            if packet % 10 == 0 {
                live.signal(&data, found.cycle, Signal::Loss, 1);
            }
            now += Duration::from_micros(588);
        }
        // 85 packets a round trip.
        println!("{carrier:?} without cycles: {favoured} packets favoured");
        assert!(favoured < 12 * 85, "{carrier:?}: {favoured}");
        assert_eq!(live.flow_of(&one.answer()).unwrap().class.loss, Verdict::Unclassified);
    }
}

#[test]
fn silence_costs_no_verdict() {
    for carrier in [Carrier::Tcp, Carrier::Quic] {
        let mut live = live(64);
        let mut one = peer(carrier, 1);
        let (_, mut now) = honest(&mut live, &mut one, START, 60, &mut nobody);
        // A round trip of data every ten seconds, and one request of a packet after each of them.
        for _ in 0..20 {
            now += Duration::from_secs(10);
            let (told, later) = honest(&mut live, &mut one, now, 1, &mut nobody);
            assert_eq!(told.responsive, told.packets, "{carrier:?}");
            now = later + Duration::from_secs(1);
            assert_eq!(send(&mut live, &one.data(100), FORWARD, now).choice, QueueChoice::Responsive);
            send(&mut live, &one.answer(), REVERSE, now + RTT);
        }
    }
}

#[test]
fn cycles_go_on_after_a_jump() {
    // A gap of a hundred megabytes, as of a flow that went another way for a while; and a round trip ten times as long.
    let mut live = live(64);
    let mut one = peer(Carrier::Tcp, 1);
    let (_, now) = honest(&mut live, &mut one, START, 60, &mut nobody);
    one.seq = one.seq.wrapping_add(100_000_000);
    let (told, _) = honest(&mut live, &mut one, now, 60, &mut nobody);
    println!("after a jump: {told:?}");
    assert!(told.cycles >= 40, "{told:?}");
}

#[test]
fn votes_fade() {
    let mut live = live(64);
    let mut one = peer(Carrier::Quic, 1);
    // Nine hundred honest answers...
    let (told, mut now) = honest(&mut live, &mut one, START, 5400, &mut nobody);
    assert!(told.share() > 0.95);
    // ...buy how many round trips of constant rate under loss?
    let mut bought = 0;
    loop {
        one.spin = !one.spin;
        let mut choice = QueueChoice::Standard;
        for packet in 0..12 {
            let data = one.data(SEGMENT);
            let found = send(&mut live, &data, FORWARD, now);
            choice = found.choice;
            if packet == 0 {
                live.signal(&data, found.cycle, Signal::Loss, 1);
            }
            now += Duration::from_millis(4);
        }
        send(&mut live, &one.answer(), REVERSE, now);
        if choice == QueueChoice::Standard || bought == 2000 {
            break;
        }
        bought += 1;
    }
    println!("900 good votes buy {bought} round trips");
    assert!(bought <= 40, "{bought}");
}

/// Round trips of constant rate under loss that two hundred honest ones buy, where they last `lengths` in turn.
fn bought_in_round_trips_of(lengths: &[u64]) -> usize {
    let mut live = live(64);
    let mut one = peer(Carrier::Quic, 1);
    let (told, mut now) = honest(&mut live, &mut one, START, 200, &mut nobody);
    assert!(told.share() > 0.5);
    (0..2000)
        .take_while(|round| {
            one.spin = !one.spin;
            let gap = Duration::from_millis(lengths[round % lengths.len()] / 12);
            let mut choice = QueueChoice::Standard;
            for packet in 0..12 {
                let data = one.data(SEGMENT);
                let found = send(&mut live, &data, FORWARD, now);
                choice = found.choice;
                if packet == 0 {
                    live.signal(&data, found.cycle, Signal::Loss, 1);
                }
                now += gap;
            }
            send(&mut live, &one.answer(), REVERSE, now);
            choice != QueueChoice::Standard
        })
        .count()
}

#[test]
fn nobody_keeps_a_verdict_by_long_round_trips() {
    // A cycle that is many times as long as usual is a pause, by which nobody is judged; but not if most are.
    for lengths in [&[48][..], &[480], &[48, 480], &[48, 48, 480]] {
        let bought = bought_in_round_trips_of(lengths);
        println!("constant rate in round trips of {lengths:?} ms: {bought} favoured");
        assert!(bought <= 120, "{lengths:?}: {bought}");
    }
}

#[test]
fn forged_spin_bits_make_no_cycles_of_their_own() {
    let mut live = live(64);
    let mut one = peer(Carrier::Quic, 1);
    let mut at = 0;
    let (told, _) = honest(&mut live, &mut one, START, 600, &mut |live, one, _, now| {
        at += 1;
        if at % 7 == 0 {
            // Small ones, twice a round trip or more, with the other value than the flow's.
            send(live, &quic(one.from, one.to, !one.spin, 30), FORWARD, now);
        }
    });
    let cycles = live.flow_of(&one.answer()).unwrap().cycles;
    println!("forged spin: {cycles} cycles in 600 round trips, responsive {:.3}", told.share());
    assert!((590..=600).contains(&cycles) && told.share() > 0.9, "{cycles} {told:?}");
}

#[test]
fn who_sees_the_numbers_can_forge_losses() {
    // A limit of any law that judges by what passes: a segment that continues the flow is the flow's, and when the
    // queue drops it, its sender knows nothing of it. The flow has a loss of its own every sixth round trip.
    for every in [3, 1] {
        let mut live = live(64);
        let mut one = peer(Carrier::Tcp, 1);
        let mut last = u32::MAX;
        let (told, _) = honest(&mut live, &mut one, START, 4000, &mut |live, one, round, now| {
            if round % every == 0 && round != last {
                last = round;
                let packet = forged(one, one.seq);
                let found = send(live, &packet, FORWARD, now);
                live.signal(&packet, found.cycle, Signal::Loss, 1);
            }
        });
        println!("one drop in {every} round trips by who sees the numbers: responsive {:.3}", told.share());
        // Cycles go on all the same.
        assert!(told.cycles > 3900, "{told:?}");
    }
}

#[test]
fn who_sees_the_numbers_moves_an_edge_by_a_window_at_most() {
    let mut live = live(64);
    let mut one = peer(Carrier::Tcp, 1);
    let (_, now) = honest(&mut live, &mut one, START, 60, &mut nobody);
    // One segment at the far end of what is believed, once a second.
    let mut last = 0;
    let (told, _) = honest(&mut live, &mut one, now, 2000, &mut |live, one, round, now| {
        if round / 20 != last {
            last = round / 20;
            send(live, &forged(one, one.seq.wrapping_add(0xffff)), FORWARD, now);
        }
    });
    let cycles = told.cycles;
    println!(
        "edges pushed ahead once in 20 round trips: {cycles} cycles of 2000, responsive {:.3}",
        told.share()
    );
    // 66 kB are the data of two and a half round trips.
    assert!((1600..2000).contains(&cycles), "{told:?}");
}

#[test]
fn a_random_spin_bit_needs_a_receiver_that_goes_along() {
    // The receiver of `random_spin` echoes the random bit every twenty milliseconds.
    let favoured = (0..60)
        .filter(|seed| {
            let mut live = live(8);
            let one = random_spin(&mut live, *seed, 20, &mut |_, _| ());
            live.flow_of(&one.answer()).unwrap().class.loss == Verdict::Responsive
        })
        .count();
    println!("random spin: {favoured} of 60 responsive");
    // Without one there are no cycles to be judged by.
    let mut live = live(8);
    let mut one = peer(Carrier::Quic, 1);
    let mut random = random("spin");
    for packet in 0..5000 {
        let now = START + Duration::from_millis(packet);
        one.spin = random.below(2) == 0;
        let data = one.data(1200);
        let found = send(&mut live, &data, FORWARD, now);
        live.signal(&data, found.cycle, Signal::Loss, 1);
        send(&mut live, &quic(one.to, one.from, false, 40), REVERSE, now);
    }
    assert_eq!(live.flow_of(&one.answer()).unwrap().cycles, 0);
}
