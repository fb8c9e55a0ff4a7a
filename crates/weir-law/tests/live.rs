//! The live flow table: who gets an entry, who keeps it, and that its law is the capture reader's. What attackers can
//! do is in attacks.rs.

use weir_core::{Bytes, CycleId, Duration, FlowId, QueueChoice, Random, Seed, Time};
use weir_law::live::{Count, LiveConfig, LiveTable, Transport};
use weir_law::{Direction, Law, Params, ParsedPacket, Preset, Signal, Start, Verdict, parse, parse_cut};

use weir_testkit::traffic::attacks::{FORWARD, REVERSE, START, both, peer};
use weir_testkit::traffic::{
    ACK, Carrier, FIN, Peer, RST, SEGMENT, SYN, end, initial, send, table, tcp, tcp_frame,
};

fn after(seconds: u64) -> Time {
    START + Duration::from_secs(seconds)
}

/// A flow like any: data, control packets, nonsense.
fn any_packet(random: &mut Random, peer: &mut Peer) -> (ParsedPacket, Direction) {
    let flags = [SYN, SYN | ACK, FIN | ACK, RST, 0, ACK];
    let near = |random: &mut Random, of: u32| of.wrapping_add(random.below(8000) as u32).wrapping_sub(4000);
    if peer.carrier == Carrier::Quic {
        peer.spin ^= random.below(6) == 0;
        return match random.below(40) {
            0 => (initial(peer.from, peer.to, 1200), FORWARD),
            1 => (initial(peer.to, peer.from, 1200), REVERSE),
            2..9 => (peer.answer(), REVERSE),
            _ => (peer.data(1 + random.below(9000) as u32), FORWARD),
        };
    }
    match random.below(40) {
        0 => {
            let (seq, ack) = (near(random, peer.seq), near(random, peer.ack));
            let payload = random.below(2) as u32 * SEGMENT;
            (tcp(peer.from, peer.to, (seq, ack), *random.choose(&flags).unwrap(), payload), FORWARD)
        }
        1 => {
            let (seq, ack) = (near(random, peer.ack), near(random, peer.seq));
            (tcp(peer.to, peer.from, (seq, ack), *random.choose(&flags).unwrap(), 0), REVERSE)
        }
        2..12 => {
            let answer = peer.answer();
            if random.below(4) == 0 {
                peer.ack = peer.ack.wrapping_add(100);
            }
            (answer, REVERSE)
        }
        _ => (peer.data(random.below(9000) as u32), FORWARD),
    }
}

#[test]
fn without_admission_and_expiry_it_is_the_capture_readers_law() {
    for (preset, run) in [(Preset::Paper, 0), (Preset::Paper, 1), (Preset::Comsys, 0), (Preset::Comsys, 1)] {
        let params = Params::preset(preset);
        let open = LiveConfig { admit_bytes: 0, admit_reverse: false, ..LiveConfig::new(&params, 256) };
        let (mut live, mut law) = (LiveTable::new(params, &open), Law::new(params, 64));
        let mut random = Seed { seed: 5, run }.stream("equality");
        let mut peers: Vec<Peer> = (0..12u32)
            .map(|i| {
                let (carrier, v6) = (if i % 2 == 0 { Carrier::Tcp } else { Carrier::Quic }, i % 3 == 0);
                let mut peer = Peer::new(carrier, end(v6, i % 5, 443), end(v6, 100 + i, 50_000));
                peer.seq = 0u32.wrapping_sub(200_000 * i);
                peer
            })
            .collect();
        let mut sent: Vec<(ParsedPacket, FlowId, CycleId)> = Vec::new();
        let (mut now, mut ended, mut choices, mut signals) = (START, 0, [0u32; 2], 0);
        for _ in 0..60_000 {
            now += Duration::from_micros(random.below(3000));
            let index = random.below(peers.len() as u64) as usize;
            let (packet, direction) = any_packet(&mut random, &mut peers[index]);
            let found = send(&mut live, &packet, direction, now);
            let flow = law.lookup(&packet, direction, now);
            let stamp = law.arrival(flow, &packet, direction, now, &mut ());
            if direction == FORWARD {
                assert_eq!(found.choice, stamp.choice);
                choices[usize::from(found.choice == QueueChoice::Responsive)] += 1;
                ended += u32::from(found.ended.is_some());
                if found.known {
                    assert_eq!(found.cycle, stamp.cycle);
                    sent.push((packet, flow, stamp.cycle));
                }
            }
            if random.below(12) == 0 && !sent.is_empty() {
                let back = random.below(sent.len().min(60) as u64) as usize;
                let (packet, flow, cycle) = sent[sent.len() - 1 - back];
                let signal = if random.below(2) == 0 { Signal::Loss } else { Signal::Mark };
                let segments = 1 + random.below(128) as u16;
                live.signal(&packet, cycle, signal, segments);
                law.signal(flow, cycle, signal, segments, now);
                signals += 1;
            }
            let (Some(ours), Some(theirs)) = (live.flow_of(&packet), law.flow(flow)) else { continue };
            assert_eq!(
                (ours.key, ours.source, ours.destination),
                (theirs.key, theirs.source, theirs.destination)
            );
            assert_eq!((ours.class, ours.choice, ours.votes), (theirs.class, theirs.choice, theirs.votes));
            assert_eq!(
                (ours.cycle, ours.cycles, ours.windows),
                (theirs.cycle, theirs.cycles, theirs.windows)
            );
            assert_eq!((ours.bytes, ours.packets, ours.rtt), (theirs.bytes, theirs.packets, theirs.rtt));
            assert_eq!(ours.withheld, theirs.withheld as u16);
        }
        let counters = live.counters();
        assert_eq!(counters.loss_packets + counters.mark_packets, signals);
        assert_eq!((counters.unowned_signals, counters.expired, counters.evicted), (0, 0, 0));
        assert_eq!(counters.reopened, law.counters().reopened);
        assert_eq!(counters.late_signals > 0, law.counters().late_signals > 0);
        // The comparison saw what it is for.
        assert!(ended > 1000 && choices[0] > 1000 && choices[1] > 500, "{preset:?} {ended} {choices:?}");
    }
}

#[test]
fn only_an_answered_flow_with_payload_gets_an_entry() {
    for carrier in both() {
        let (mut live, mut one) = (table(64), peer(carrier, 1));
        for _ in 0..100 {
            assert!(!send(&mut live, &one.data(1400), FORWARD, START).known);
        }
        assert!(live.is_empty(), "one direction is not enough");
        send(&mut live, &one.answer(), REVERSE, START);
        assert!(send(&mut live, &one.data(1400), FORWARD, START).known);

        // An answer before all payload: in at 6000 bytes.
        let (mut live, mut one) = (table(64), peer(carrier, 2));
        assert!(!send(&mut live, &one.data(1500), FORWARD, START).known);
        send(&mut live, &one.answer(), REVERSE, START);
        let known =
            [1500, 1500, 1499, 1, 1].map(|bytes| send(&mut live, &one.data(bytes), FORWARD, START).known);
        assert_eq!(known, [false, false, false, true, true]);
        assert_eq!((live.len(), live.counters().admitted), (1, 1));
        let flow = live.flow_of(&one.answer()).unwrap();
        assert_eq!((flow.source, flow.destination), (one.from, one.to));
        assert_eq!(flow.transport == Transport::Quic, carrier == Carrier::Quic);
    }
}

#[test]
fn the_prototypes_settings_admit_too() {
    let params = Params::preset(Preset::Comsys);
    for carrier in both() {
        let mut live = LiveTable::new(params, &LiveConfig::new(&params, 64));
        let mut one = peer(carrier, 1);
        one.cycle(&mut live, 5 * SEGMENT, SEGMENT, &[], START);
        let flow = live.flow_of(&one.answer()).expect("its key has no protocol, but an answer it has");
        assert_eq!(flow.transport == Transport::Quic, carrier == Carrier::Quic);
        let idle = if carrier == Carrier::Quic { 60 } else { 300 };
        assert_eq!((live.reclaimable(after(idle)), live.reclaimable(after(idle + 1))), (0, 1));
    }
}

#[test]
fn a_candidate_past_its_time_begins_anew() {
    // 5999 bytes keep a place for 2.5 s; then it may be silent for 30 s more, or 5 s where nobody answered.
    for (answered, silence) in [(true, 32), (false, 7)] {
        for (seconds, known) in [(silence, true), (silence + 1, false)] {
            let (mut live, mut one) = (table(64), peer(Carrier::Tcp, 1));
            send(&mut live, &one.data(5999), FORWARD, START);
            if answered {
                send(&mut live, &one.answer(), REVERSE, START);
            }
            send(&mut live, &one.data(1), FORWARD, after(seconds));
            send(&mut live, &one.answer(), REVERSE, after(seconds));
            assert_eq!(live.len(), usize::from(known), "{answered} {seconds}");
        }
    }
}

/// A table of one line, in which `count` flows wait that were answered and sent `payload` bytes each.
fn line(count: u32, payload: u32) -> (LiveTable, Vec<Peer>) {
    let mut live = table(8);
    let mut peers: Vec<Peer> = (0..count).map(|number| peer(Carrier::Tcp, number)).collect();
    for peer in &mut peers {
        send(&mut live, &peer.data(payload), FORWARD, START);
        send(&mut live, &peer.answer(), REVERSE, START);
    }
    (live, peers)
}

#[test]
fn a_place_is_kept_by_payload_and_not_by_packets() {
    // 2400 bytes pay for a second, whatever is said meanwhile.
    for (milliseconds, free) in [(990, false), (1010, true)] {
        let (mut live, peers) = line(4, 2400);
        for millisecond in 0..milliseconds {
            for peer in &peers {
                send(&mut live, &peer.answer(), REVERSE, START + Duration::from_millis(millisecond));
            }
        }
        let now = START + Duration::from_millis(milliseconds);
        let mut late = peer(Carrier::Tcp, 99);
        send(&mut live, &late.data(1), FORWARD, now);
        assert_eq!(live.counters().waiting_full, u64::from(!free));
        if free {
            send(&mut live, &late.answer(), REVERSE, now);
            assert!(send(&mut live, &late.data(5999), FORWARD, now).known);
        }
    }
}

#[test]
fn a_newcomer_takes_the_place_that_is_paid_for_the_least() {
    let (mut live, mut peers) = line(4, 3000);
    send(&mut live, &peers[0].data(100), FORWARD, START);
    send(&mut live, &peers[2].data(1000), FORWARD, START);
    send(&mut live, &peers[3].data(1000), FORWARD, START);
    // The second has 3000 bytes. As many of others are needed, whoever they come from.
    let mut late: Vec<Peer> = (90..93).map(|number| peer(Carrier::Tcp, number)).collect();
    for one in &mut late {
        send(&mut live, &one.data(990), FORWARD, START);
    }
    assert_eq!(live.counters().waiting_full, 3);
    send(&mut live, &late[0].data(990), FORWARD, START);
    send(&mut live, &late[0].answer(), REVERSE, START);
    assert_eq!(live.counters().waiting_full, 3);
    assert!(send(&mut live, &late[0].data(5010), FORWARD, START).known, "its last packet counts in full");
    // It left its place. The others still have theirs, and the second has none.
    assert!(send(&mut live, &peers[0].data(2900), FORWARD, START).known);
    assert!(send(&mut live, &peers[2].data(2000), FORWARD, START).known);
    assert!(send(&mut live, &peers[3].data(2000), FORWARD, START).known);
    assert!(!send(&mut live, &peers[1].data(3000), FORWARD, START).known);
}

#[test]
fn an_outsider_pushes_out_nobody_who_was_answered() {
    let (mut live, mut peers) = line(3, 1200);
    for number in 0..10_000 {
        send(&mut live, &peer(Carrier::Tcp, 1000 + number).data(60_000), FORWARD, START);
    }
    for one in &mut peers {
        assert!(send(&mut live, &one.data(4800), FORWARD, START).known);
    }
}

/// One bucket of eight flows without a verdict.
fn unjudged() -> (LiveTable, Vec<Peer>) {
    let mut live = table(8);
    let mut peers: Vec<Peer> = (0..8).map(|number| peer(both()[number as usize % 2], number)).collect();
    for peer in &mut peers {
        peer.cycle(&mut live, 5 * SEGMENT, SEGMENT, &[], START);
    }
    assert_eq!(live.len(), 8);
    (live, peers)
}

/// Whether a flow that sends 6000 bytes a tenth of a second gets an entry within twenty where those that have one send
/// `payload` bytes each meanwhile.
fn gets_in(payload: u32) -> bool {
    let (mut live, mut peers) = unjudged();
    let mut late = peer(Carrier::Tcp, 99);
    for round in 1..=20 {
        let now = START + Duration::from_millis(100 * round);
        for peer in &mut peers {
            send(&mut live, &peer.data(payload), FORWARD, now);
        }
        if late.cycle(&mut live, 6000, 1500, &[], now + Duration::from_millis(50)).known {
            return true;
        }
    }
    assert!(live.counters().full > 60);
    assert_eq!((live.len(), live.counters().evicted), (8, 0));
    false
}

#[test]
fn an_entry_without_a_verdict_is_for_who_sends_more() {
    assert_eq!([1, 1500, 4000, 6100, 9000].map(gets_in), [true, true, true, false, false]);
}

#[test]
fn who_wants_an_entry_takes_that_of_the_longest_silence() {
    let (mut live, mut peers) = unjudged();
    let mut now = START;
    for number in [0, 1, 2, 3, 4, 6, 7] {
        now += Duration::from_millis(300);
        send(&mut live, &peers[number].data(1), FORWARD, now);
    }
    let mut late = peer(Carrier::Tcp, 99);
    late.cycle(&mut live, 6000, 1500, &[], now);
    let known = [1500; 5].map(|payload| send(&mut live, &late.data(payload), FORWARD, now).known);
    // In units of 16 bytes four such packets are a little less than 6000.
    assert_eq!(known, [false, false, false, false, true]);
    let gone: Vec<usize> = (0..8).filter(|number| live.flow_of(&peers[*number].answer()).is_none()).collect();
    assert_eq!((gone, live.len(), live.counters().evicted), (vec![5], 8, 1));
}

#[test]
fn a_closed_flow_makes_room_unless_data_follow() {
    // One bucket, filled with flows that have earned their verdict.
    for (flags, revive) in [(FIN | ACK, false), (RST, false), (FIN | ACK, true), (RST, true)] {
        let mut live = table(8);
        let mut now = START;
        let mut peers: Vec<Peer> = (0..8).map(|number| peer(Carrier::Tcp, number)).collect();
        for peer in &mut peers {
            now = peer.earn(&mut live, now, Duration::from_millis(50));
        }
        let closed = &mut peers[3];
        send(&mut live, &tcp(closed.from, closed.to, (closed.seq, closed.ack), flags, 0), FORWARD, now);
        assert!(live.flow_of(&closed.answer()).unwrap().closing);
        if revive {
            send(&mut live, &closed.data(100), FORWARD, now);
            assert!(!live.flow_of(&closed.answer()).unwrap().closing);
        }
        let mut late = peer(Carrier::Tcp, 99);
        for (wait, known) in [(9, false), (11, !revive)] {
            let time = now + Duration::from_secs(wait);
            late.cycle(&mut live, 5 * SEGMENT, SEGMENT, &[], time);
            assert_eq!(send(&mut live, &late.data(SEGMENT), FORWARD, time).known, known, "{flags} {wait}");
        }
        assert_eq!(live.counters().evicted, u64::from(!revive));
        assert_eq!(live.flow_of(&peers[3].answer()).is_some(), revive);
        assert_eq!(live.len(), 8);
    }
}

#[test]
fn an_idle_flow_begins_anew() {
    for (carrier, idle) in [(Carrier::Tcp, 300), (Carrier::Quic, 60)] {
        let (mut live, mut one) = (table(64), peer(carrier, 1));
        let now = one.earn(&mut live, START, Duration::from_millis(50));
        let before = now + Duration::from_secs(idle - 1);
        assert_eq!(send(&mut live, &one.data(100), FORWARD, before).choice, QueueChoice::Responsive);
        let behind = before + Duration::from_secs(idle + 1);
        assert_eq!(live.reclaimable(behind), 1);
        let found = send(&mut live, &one.data(100), FORWARD, behind);
        assert_eq!((found.known, found.choice), (true, QueueChoice::Standard));
        let flow = live.flow_of(&one.answer()).unwrap();
        assert_eq!((flow.class.loss, flow.cycles), (Verdict::Unclassified, 0));
        assert_eq!((live.counters().expired, live.len(), live.reclaimable(behind)), (1, 1, 0));
    }
}

#[test]
fn a_used_four_tuple_does_not_inherit() {
    // Whichever end opens it.
    for (from, to) in [(FORWARD, REVERSE), (REVERSE, FORWARD)] {
        let (mut live, mut one) = (table(64), peer(Carrier::Tcp, 1));
        let now = one.earn(&mut live, START, Duration::from_millis(50));
        let (client, server) = if from == FORWARD { (one.from, one.to) } else { (one.to, one.from) };
        send(&mut live, &tcp(client, server, (77, 0), SYN, 0), from, now);
        send(&mut live, &tcp(server, client, (0x5000_0000, 78), SYN | ACK, 0), to, now);
        let flow = live.flow_of(&one.answer()).unwrap();
        assert_eq!((flow.choice, flow.class.loss), (QueueChoice::Standard, Verdict::Unclassified));
        assert_eq!(live.counters().reopened, 1);
    }
    let (mut live, mut one) = (table(64), peer(Carrier::Quic, 1));
    let now = one.earn(&mut live, START, Duration::from_millis(50));
    send(&mut live, &initial(one.to, one.from, 1200), REVERSE, now);
    assert_eq!(send(&mut live, &initial(one.from, one.to, 1200), FORWARD, now).choice, QueueChoice::Standard);
    assert_eq!((live.len(), live.counters().reopened), (1, 1));
}

#[test]
fn signals_of_the_old_connection_do_not_reach_the_new_one() {
    let (mut live, mut one) = (table(64), peer(Carrier::Tcp, 1));
    let now = one.earn(&mut live, START, Duration::from_millis(50));
    let old = one.data(SEGMENT);
    let stamp = send(&mut live, &old, FORWARD, now).cycle;
    let later = now + Duration::from_secs(301);
    send(&mut live, &one.data(SEGMENT), FORWARD, later);
    live.signal(&old, stamp, Signal::Loss, 1);
    send(&mut live, &one.data(SEGMENT), FORWARD, later);
    let flow = live.flow_of(&old).unwrap();
    assert_eq!((flow.signals.loss, flow.late_signals, live.counters().late_signals), ([0; 3], 1, 1));
}

/// What another law counted is nothing that this one could read: counters of signals lie elsewhere, cycles are others.
#[test]
fn another_law_keeps_verdicts_and_counts_anew() {
    let round = Duration::from_millis(50);
    for (carrier, book_by_packet) in both().into_iter().flat_map(|one| [(one, true), (one, false)]) {
        let mut live = table(64);
        let mut one = peer(carrier, 1);
        let mut now = one.earn(&mut live, START, round);
        let mut rounds = |live: &mut LiveTable, lost: &[Signal], count: u32| {
            for _ in 0..count {
                one.cycle(live, 10 * SEGMENT, SEGMENT, lost, now);
                now += round;
            }
            live.flows().next().unwrap()
        };
        // The former law would soon find that these change nothing in what is sent.
        let before = rounds(&mut live, &[Signal::Loss, Signal::Mark], 3);
        assert!(before.signals.loss[1..] == [1, 1] && before.windows[2] > Bytes(0), "{before:?}");
        live.change_law(Params { byte_counters: true, book_by_packet, ..Params::default() });
        let shown = live.flows().next().unwrap();
        assert_eq!((shown.windows, shown.signals.loss, shown.signals.mark), ([Bytes(0); 3], [0; 3], [0; 3]));
        assert_eq!((shown.class, shown.votes, shown.choice), (before.class, before.votes, before.choice));
        let after = rounds(&mut live, &[], 6);
        assert_eq!((after.class, after.votes, after.choice), (before.class, before.votes, before.choice));
        assert_eq!((after.bytes > before.bytes, after.withheld), (true, before.withheld));
        // What happens from now on is judged.
        rounds(&mut live, &[Signal::Loss], 1);
        let judged = rounds(&mut live, &[], 4);
        let votes = judged.votes.loss;
        assert_eq!(votes.unresponsive, before.votes.loss.unresponsive + 1);
        assert_eq!(votes.responsive, before.votes.loss.responsive);
    }
}

#[test]
fn a_full_bucket_keeps_what_it_has() {
    let mut live = table(8);
    let mut now = START;
    let mut peers: Vec<Peer> = (0..8).map(|number| peer(both()[number as usize % 2], number)).collect();
    for peer in &mut peers {
        now = peer.earn(&mut live, now, Duration::from_millis(50));
    }
    let before = live.counters();
    let mut late = peer(Carrier::Tcp, 77);
    for _ in 0..20 {
        now += Duration::from_millis(50);
        assert!(!late.cycle(&mut live, 5 * SEGMENT, SEGMENT, &[], now).known);
    }
    assert!(live.counters().full > before.full);
    for peer in &mut peers {
        assert_eq!(send(&mut live, &peer.data(100), FORWARD, now).choice, QueueChoice::Responsive);
    }
    assert_eq!((live.len(), live.counters().evicted), (8, 0));
    // Fit as it is, it gets the next place at its next packet.
    let free = now + Duration::from_secs(61);
    for peer in peers.iter_mut().filter(|peer| peer.carrier == Carrier::Tcp) {
        send(&mut live, &peer.data(100), FORWARD, free);
    }
    send(&mut live, &late.data(5 * SEGMENT), FORWARD, free);
    send(&mut live, &late.answer(), REVERSE, free);
    assert!(send(&mut live, &late.data(1), FORWARD, free).known);
    assert_eq!(live.counters().evicted, 1);
}

#[test]
fn fragments_are_not_judged() {
    let (mut live, mut one) = (table(8), peer(Carrier::Tcp, 1));
    let now = one.earn(&mut live, START, Duration::from_millis(50));
    let (mut frame, wire) = tcp_frame(one.from, one.to, (one.seq, one.ack), ACK, SEGMENT);
    let before = live.flow_of(&one.answer()).unwrap();
    for offset in [0x2000u16, 0x2010, 0x0020] {
        frame[6..8].copy_from_slice(&offset.to_be_bytes());
        let piece = parse_cut(&frame, wire, Start::Ip);
        let found = send(&mut live, &piece, FORWARD, now);
        assert_eq!((found.known, found.choice), (false, QueueChoice::Standard));
        live.signal(&piece, CycleId(0), Signal::Loss, 1);
    }
    let after = live.flow_of(&one.answer()).unwrap();
    assert_eq!(
        (after.packets, after.bytes, after.choice),
        (before.packets, before.bytes, QueueChoice::Responsive)
    );
    let counters = live.counters();
    assert_eq!((counters.ambiguous, counters.unowned_signals), (3, 3));
}

#[test]
fn large_packets_count_in_full() {
    let (mut live, mut one) = (table(8), peer(Carrier::Tcp, 1));
    one.cycle(&mut live, 5 * SEGMENT, SEGMENT, &[], START);
    let mut cycle = |live: &mut LiveTable, payloads: &[u32], segments: u16| {
        for payload in payloads {
            let (frame, wire) = tcp_frame(one.from, one.to, (one.seq, one.ack), ACK, *payload);
            one.seq = one.seq.wrapping_add(*payload);
            let packet = parse_cut(&frame, wire, Start::Ip);
            let found = send(live, &packet, FORWARD, START);
            live.signal(&packet, found.cycle, Signal::Loss, segments);
        }
        send(live, &one.answer(), REVERSE, START);
        live.flow_of(&one.answer()).unwrap()
    };
    cycle(&mut live, &[1000], 1);
    // Jumbo frames; a full GSO super-packet; BIG TCP, whose IP header says no length.
    for (payloads, segments) in [(&[8960, 8960, 8960][..], 1), (&[64_240, 64_240], 44), (&[180_000], 124)] {
        let flow = cycle(&mut live, payloads, segments);
        assert_eq!(flow.windows[0], Bytes(payloads.iter().map(|bytes| u64::from(*bytes)).sum()));
        assert_eq!(flow.signals.loss[0], u32::from(segments) * payloads.len() as u32);
    }
    assert_eq!(live.counters().loss_segments, 1 + 3 + 88 + 124);
}

#[test]
fn what_is_no_flow_goes_by_the_standard_queue_and_is_counted() {
    let mut live = table(8);
    let (mut bad, wire) = tcp_frame(end(false, 1, 1), end(false, 2, 2), (1, 1), ACK, 100);
    bad[9] = 1;
    for frame in [&bad[..], &[0x45, 0, 0], &[0x15]] {
        let found = live.arrival(&parse(frame, Start::Ip), wire, FORWARD, START);
        assert_eq!((found.known, found.choice), (false, QueueChoice::Standard));
    }
    let counters = live.counters();
    let (packets, bytes) = (1, u64::from(wire));
    let one = Count { packets, bytes };
    assert_eq!((counters.other, counters.truncated, counters.not_ip), (one, one, one));
    let all = Count { packets: 3 * packets, bytes: 3 * bytes };
    assert_eq!((counters.to_standard, counters.to_responsive, live.len()), (all, Count::default(), 0));
}
