//! The programs in the kernel against the same lines run natively: the same packets at the same times, then every byte
//! of the table and every counter is the same, and every packet was sent to the same queue.

mod pair;
#[path = "world/pins.rs"]
mod pins;

use std::fs::File;

use pair::Pair;
use pins::Pins;
use weir_assess::capture::CaptureReader;
use weir_law::live::LiveCounters;
use weir_law::{Direction, MainSignal, Params, Preset, Signal, Start, Tie, parse};

/// Random packets in all, over all settings.
const PACKETS: usize = 1_000_000;
/// Flows of the tables: few, so that buckets fill up.
const FLOWS: u32 = 64;

/// SplitMix64 (Steele, Lea, Flood 2014), for the same packets in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A flow of the generator: so much state that acknowledgements and spin bits make sense often enough.
#[derive(Clone, Copy)]
struct Flow {
    number: u16,
    udp: bool,
    v6: bool,
    tagged: bool,
    next: u32,
    acknowledged: u32,
    reverse: u32,
    spin: bool,
    /// Of the receiver, and what of it the sender echoes.
    clock: u32,
    echo: u32,
}

impl Flow {
    fn new(number: u16, random: &mut Random) -> Self {
        let start = if random.one_in(3) { u32::MAX - 20_000 } else { random.next() as u32 };
        Self {
            number,
            udp: number.is_multiple_of(3),
            v6: number % 4 == 1,
            tagged: number % 7 == 2,
            next: start,
            acknowledged: start,
            reverse: random.next() as u32,
            spin: false,
            clock: if random.one_in(3) { u32::MAX - 2000 } else { random.next() as u32 },
            echo: 0,
        }
    }

    /// A frame of it in a direction.
    fn frame(&mut self, random: &mut Random, reverse: bool) -> Vec<u8> {
        let transport = if self.udp { self.datagram(random, reverse) } else { self.segment(random, reverse) };
        let protocol = if self.udp { 17 } else { 6 };
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        if self.tagged {
            frame.extend([0x81, 0, 0, 5]);
        }
        let ecn = if random.one_in(20) { 3 } else { (self.number % 3) as u8 };
        let ends = [self.number.to_be_bytes(), [200, 1]];
        let (from, to) = if reverse { (ends[1], ends[0]) } else { (ends[0], ends[1]) };
        if self.v6 {
            frame.extend([0x86, 0xdd, 0x60, ecn << 4, 0, 0]);
            frame.extend((transport.len() as u16).to_be_bytes());
            frame.extend([protocol, 64]);
            for end in [from, to] {
                frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                frame.extend(end);
            }
        } else {
            frame.extend([8, 0, 0x45, ecn]);
            frame.extend(((20 + transport.len()) as u16).to_be_bytes());
            let fragment = if random.one_in(500) { 0x20 | random.below(2) as u8 } else { 0 };
            frame.extend([
                0, 1, fragment, 0, 64, protocol, 0, 0, 10, 0, from[0], from[1], 10, 0, to[0], to[1],
            ]);
        }
        frame.extend(transport);
        if random.one_in(50) {
            let at = random.below(frame.len() as u64) as usize;
            frame[at] ^= 1 << random.below(8);
        }
        if random.one_in(50) {
            frame.truncate(14 + random.below(frame.len() as u64 - 14) as usize);
        }
        frame
    }

    fn segment(&mut self, random: &mut Random, reverse: bool) -> Vec<u8> {
        let ports = [5000 + self.number, 80];
        let (from, to) = if reverse { (ports[1], ports[0]) } else { (ports[0], ports[1]) };
        let payload = match (reverse, random.below(10)) {
            (false, 0) => 0,
            (false, _) => 1400,
            (true, 0) => 300,
            (true, _) => 0,
        };
        let lag = if random.one_in(8) { random.below(6) as u32 * 1400 } else { 0 };
        let (seq, ack) = if reverse {
            self.acknowledged = self.next.wrapping_sub(lag);
            (self.reverse, self.acknowledged)
        } else {
            (self.next.wrapping_sub(lag), self.reverse)
        };
        let moved = if reverse { &mut self.reverse } else { &mut self.next };
        if lag == 0 || reverse {
            *moved = moved.wrapping_add(payload);
        }
        let flags = match random.below(400) {
            0 => 0x02,
            1 => 0x12,
            2 => 0x11,
            3 => 0x04,
            _ => 0x10,
        };
        let sack = reverse && random.one_in(4);
        let mut segment = Vec::with_capacity(1500);
        segment.extend(from.to_be_bytes());
        segment.extend(to.to_be_bytes());
        segment.extend(seq.to_be_bytes());
        segment.extend(ack.to_be_bytes());
        // Some without timestamps, and some with them in another place.
        let (bare, odd) = (random.one_in(40), random.one_in(20));
        let words = 5 + if bare { 0 } else { 3 } + if sack { 3 } else { 0 };
        segment.extend([words << 4, flags, 1, 0xf4, 0, 0, 0, 0]);
        if !bare {
            self.clock = self.clock.wrapping_add(random.below(3) as u32);
            let stamps = if reverse { [self.clock, 5] } else { [5, self.echo] };
            if !reverse && random.one_in(3) {
                self.echo = self.clock.wrapping_sub(random.below(3) as u32);
            }
            segment.extend(if odd { [8, 10].iter() } else { [1, 1, 8, 10].iter() });
            segment.extend(stamps.map(u32::to_be_bytes).concat());
            segment.extend(if odd { [1, 1].iter() } else { [].iter() });
        }
        if sack {
            segment.extend([1, 1, 5, 10]);
            segment.extend(ack.wrapping_add(1400).to_be_bytes());
            segment.extend(self.next.to_be_bytes());
        }
        segment.resize(segment.len() + payload as usize, 0);
        segment
    }

    fn datagram(&mut self, random: &mut Random, reverse: bool) -> Vec<u8> {
        let ports = [6000 + self.number, 443];
        let (from, to) = if reverse { (ports[1], ports[0]) } else { (ports[0], ports[1]) };
        if random.one_in(12) {
            self.spin = !self.spin;
        }
        let short = 0x40 | u8::from(self.spin) << 5;
        let payload = match random.below(60) {
            // An Initial of version 1 with empty connection IDs and token, alone or with a short header behind it.
            0 => {
                let length = 100;
                let mut initial = vec![0xc0, 0, 0, 0, 1, 0, 0, 0, 0x40, length];
                initial.resize(10 + length as usize, 7);
                if random.one_in(2) {
                    initial.push(short);
                }
                initial.resize(1200, 0);
                initial
            }
            // A Handshake packet, then a short header.
            1 => {
                let mut handshake = vec![0xe0, 0, 0, 0, 1, 0, 0, 0x40, 50];
                handshake.resize(9 + 50, 7);
                handshake.push(short);
                handshake.resize(700, 0);
                handshake
            }
            2 => vec![0; 200],
            _ => {
                let greased = short & 0x20 | random.below(0x20) as u8;
                let mut packet = vec![if random.one_in(4) { greased } else { short }];
                packet.resize(if reverse { 40 } else { 1200 }, 9);
                packet
            }
        };
        let mut datagram = Vec::with_capacity(8 + payload.len());
        datagram.extend(from.to_be_bytes());
        datagram.extend(to.to_be_bytes());
        datagram.extend(((8 + payload.len()) as u16).to_be_bytes());
        datagram.extend([0, 0]);
        datagram.extend(payload);
        datagram
    }
}

/// Settings by chance, all of them legal.
fn any_params(random: &mut Random) -> Params {
    let mut flag = || random.one_in(2);
    let base = Params::preset(match (flag(), flag()) {
        (true, _) => Preset::Robust,
        (_, true) => Preset::Paper,
        _ => Preset::Comsys,
    });
    Params {
        spin_from_accepted: flag(),
        first_spin_counts: flag(),
        coalesced_spin: flag(),
        long_header_counts: flag(),
        quic_needs_initial: flag(),
        full_cycles: flag(),
        modular_sequence: flag(),
        marker_needs_data: flag(),
        second_marker_on_match: flag(),
        sack_completes_half: flag(),
        first_bytes_count: flag(),
        skip_first_cycle: flag(),
        min_window_on_signalled: flag(),
        min_window_inclusive: flag(),
        wide_arithmetic: flag(),
        book_by_packet: flag(),
        byte_counters: flag(),
        count_segments: flag(),
        count_arriving_ce: flag(),
        udp_bytes_from_frame: flag(),
        reset_on_switch: flag(),
        reset_on_open: flag(),
        full_parser: flag(),
        key_has_protocol: flag(),
        ignore_optimistic_acks: flag(),
        plausible_sequence: flag(),
        lapse_round_trips: if flag() { 2 } else { base.lapse_round_trips },
        verdict_lapses: flag(),
        votes_kept: if flag() { 8 } else { base.votes_kept },
        spin_needs_reverse: flag(),
        loss_without_ecn: flag(),
        timestamp_cycles: flag(),
        cycle_guard: flag(),
        main_signal: if flag() { MainSignal::Ecn } else { MainSignal::Loss },
        tie: if flag() { Tie::Keep } else { Tie::Unresponsive },
        spin_debounce: if flag() { 1 } else { 3 },
        ..base
    }
}

/// How random packets come.
struct Traffic {
    /// Flows that the table has room for.
    flows: u32,
    count: usize,
    seed: u64,
    /// Packets between two pauses, in the mean.
    pause: u64,
    /// Laws that take over, at equal distances.
    then: Vec<Params>,
}

/// Packets of many flows with signals on some, both ways through one pair. Returns what the kernel counted.
fn random_packets(name: &str, params: Params, traffic: &Traffic) -> Option<LiveCounters> {
    let mut pair = Pair::new(params, traffic.flows)?;
    let mut random = Random(traffic.seed);
    // More flows than the table has room for, most of the packets from a few.
    let mut flows: Vec<Flow> = (0..600).map(|number| Flow::new(number, &mut random)).collect();
    let mut time = 1_000_000_000;
    let mut queued: Vec<(Vec<u8>, u32)> = Vec::new();
    let pins = (!traffic.then.is_empty()).then(|| Pins::new("laws"));
    let share = traffic.count / (traffic.then.len() + 1);
    for number in 0..traffic.count {
        if let (Some(pins), true) = (&pins, number > 0 && number.is_multiple_of(share)) {
            pair.change_law(traffic.then[number / share - 1], &pins.0);
            pair.compare(name);
        }
        time += random.below(300_000);
        // A pause in which what is idle may go.
        if random.one_in(traffic.pause) {
            time += random.below(400) * 1_000_000_000;
        }
        let busy = if random.one_in(10) { flows.len() } else { 40 };
        let flow = &mut flows[random.below(busy as u64) as usize];
        let reverse = random.one_in(3);
        let mut frame = flow.frame(&mut random, reverse);
        if random.one_in(200) {
            frame = (0..14 + random.below(100)).map(|_| random.next() as u8).collect();
        }
        let direction = if reverse { Direction::Reverse } else { Direction::Forward };
        match pair.packet(&frame, direction, time) {
            Some(found) if !reverse => queued.push((frame, found.cycle.0)),
            _ => {}
        }
        if queued.len() > 30 {
            let at = random.below(queued.len() as u64) as usize;
            let (frame, cycle) = queued.swap_remove(at);
            if random.one_in(15) {
                let signal = if random.one_in(2) { Signal::Loss } else { Signal::Mark };
                pair.signal(&frame, cycle, signal, 1 + random.below(44) as u16);
            }
        }
    }
    pair.compare(name);
    let counters = pair.counters();
    println!("{name}: {} cycles ended, {} flows, {counters:?}", pair.cycles, pair.native.len());
    Some(counters)
}

#[test]
fn a_million_random_packets_leave_the_same_tables() {
    let mut random = Random(1);
    let mut laws = vec![
        ("paper".to_owned(), Params::preset(Preset::Paper)),
        ("comsys".to_owned(), Params::preset(Preset::Comsys)),
        ("robust".to_owned(), Params::preset(Preset::Robust)),
        ("robust, marks".to_owned(), Params::preset(Preset::Robust).with_main_signal(MainSignal::Ecn)),
        ("paper, marks".to_owned(), Params::default().with_main_signal(MainSignal::Ecn)),
    ];
    laws.extend((0..7).map(|number| (format!("settings {number}"), any_params(&mut random))));
    let share = PACKETS / laws.len();
    // The work is the kernel's; two at a time on the usual two processors.
    let halves = laws.split_at(laws.len() / 2);
    std::thread::scope(|scope| {
        for half in [halves.0, halves.1] {
            scope.spawn(move || {
                for (number, (name, params)) in half.iter().enumerate() {
                    let seed = number as u64 + half.len() as u64 * 1000;
                    let traffic =
                        Traffic { flows: FLOWS, count: share, seed, pause: 20_000, then: Vec::new() };
                    let Some(counters) = random_packets(name, *params, &traffic) else { return };
                    assert!(
                        counters.admitted > 20 && counters.loss_packets > 0,
                        "{name}: nothing was tested"
                    );
                }
            });
        }
    });
}

/// `weir reload` with another law: new programs on the tables that are there.
#[test]
fn laws_that_take_over_leave_the_same_tables() {
    let paper = Params::preset(Preset::Paper);
    let bytes = Params { byte_counters: true, ..paper };
    let mut random = Random(2);
    let mut then = vec![bytes, paper, Params::preset(Preset::Comsys)];
    then.extend((0..4).map(|_| any_params(&mut random)));
    let traffic = Traffic { flows: FLOWS, count: 80_000, seed: 5, pause: 20_000, then };
    let Some(counters) = random_packets("laws in turn", paper, &traffic) else { return };
    assert!(counters.admitted > 20 && counters.loss_packets > 0 && counters.switched > 0, "{counters:?}");
}

/// One bucket for six hundred flows, and pauses so often that what has an entry is idle by and by: everything that the
/// table counts happens, but that two processors meet.
#[test]
fn a_table_too_small_reaches_every_counter() {
    let paper = Params::preset(Preset::Paper);
    let comsys = Params::preset(Preset::Comsys);
    let laws = [("paper", paper), ("marks", paper.with_main_signal(MainSignal::Ecn)), ("comsys", comsys)];
    for (seed, (name, params)) in laws.into_iter().enumerate() {
        let traffic = Traffic { flows: 8, count: 60_000, seed: seed as u64, pause: 1000, then: Vec::new() };
        let Some(counters) = random_packets(&format!("tiny, {name}"), params, &traffic) else { return };
        let LiveCounters { tcp, quic, udp, other, not_ip, fragment, truncated, malformed, .. } = counters;
        let LiveCounters { to_standard, to_responsive, loss_packets, mark_packets, .. } = counters;
        let LiveCounters { admitted, expired, evicted, full, waiting_full, switched, .. } = counters;
        let LiveCounters { ambiguous, arrived_ce, unowned_signals, .. } = counters;
        let kinds =
            [tcp, quic, udp, other, not_ip, fragment, truncated, malformed, to_standard, to_responsive];
        assert!(kinds.iter().all(|kind| kind.packets > 0), "{name}: {counters:?}");
        let table = [admitted, expired, evicted, full, waiting_full, switched];
        let others = [ambiguous, arrived_ce, loss_packets, mark_packets, unowned_signals];
        assert!(table.iter().chain(&others).all(|count| *count > 0), "{name}: {counters:?}");
        // The prototype neither knows of new connections nor in which cycle a packet came.
        assert_eq!(counters.reopened > 0, params.reset_on_open, "{name}: {counters:?}");
        assert_eq!(counters.late_signals > 0, params.book_by_packet, "{name}: {counters:?}");
        assert_eq!(counters.contended, 0, "{name}");
    }
}

/// The shipped capture, with its drops signalled as the scenario's queue would: every hundredth packet of a flow.
#[test]
fn the_shipped_capture_leaves_the_same_table() {
    for preset in [Preset::Paper, Preset::Comsys] {
        let Some(mut pair) = Pair::new(Params::preset(preset), FLOWS) else { return };
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/capture.pcapng");
        let mut reader = CaptureReader::new(File::open(path).unwrap()).unwrap();
        let mut count = 0u32;
        while let Some(captured) = reader.next().unwrap() {
            let Some((bytes, wire, _)) = captured.view() else { continue };
            // A test run wants whole packets; what the capture cut off was payload.
            let mut frame = bytes.to_vec();
            frame.resize(wire.min(60_000) as usize, 0);
            let Some(source) = parse(&frame, Start::Ethernet).source() else { continue };
            let direction = if from_server(source) { Direction::Forward } else { Direction::Reverse };
            let cycle = pair.packet(&frame, direction, captured.time.as_nanos()).unwrap().cycle.0;
            count += 1;
            if direction == Direction::Forward && count.is_multiple_of(100) {
                pair.signal(&frame, cycle, Signal::Loss, 1);
            }
        }
        assert!(count > 1000 && pair.cycles > 10, "{count} packets, {} cycles", pair.cycles);
        pair.compare(&format!("{preset:?}"));
        println!("{preset:?}: {count} packets, {} cycles, {:?}", pair.cycles, pair.native.counters());
    }
}

/// In the demonstration the client is 10.77.2.1, and the servers are in other networks.
fn from_server(source: std::net::SocketAddr) -> bool {
    matches!(source.ip(), std::net::IpAddr::V4(address) if address.octets()[2] != 2)
}
