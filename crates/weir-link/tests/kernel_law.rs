//! The programs in the kernel against the same lines run natively: the same packets at the same times, then every byte of
//! the table and every counter is the same, and every packet was sent to the same queue.

use std::fs::File;

use weir_core::{QueueChoice, Time};
use weir_law::capture::CaptureReader;
use weir_law::live::{LiveConfig, LiveTable, SEED_WORDS, flows_of, open_seed};
use weir_law::{Direction, MainSignal, Params, Preset, Signal, Start, Tie, parse};
use weir_link::kernel::{Events, HTB_HANDLE, ProgramConfig, Programs, Role, Snapshot, TestPacket};

/// Random packets in all, over all settings.
const PACKETS: usize = 1_000_000;
/// Flows of the tables: few, so that buckets fill up.
const FLOWS: u32 = 64;
/// The secret of both hash functions.
const SEED: [u64; SEED_WORDS] = open_seed(0x5eed);

/// Shorter frames can end within an IP header.
const SHORTEST: usize = 14 + 40;

/// Both at once.
struct Pair {
    native: LiveTable,
    programs: Programs,
    snapshot: Snapshot,
    events: Events,
    ended: usize,
    told: usize,
}

impl Pair {
    fn new(params: Params) -> Option<Self> {
        // SAFETY: asks for a number.
        if unsafe { libc::geteuid() } != 0 {
            println!("skipped: loading eBPF programs needs root");
            return None;
        }
        let config = ProgramConfig {
            seed: Some(SEED),
            events: true,
            test_clock: true,
            ..ProgramConfig::new(params, FLOWS, 1, 1)
        };
        let programs = Programs::load(&config).unwrap_or_else(|error| panic!("{error}"));
        let native = LiveTable::new(params, &LiveConfig { seed: SEED, ..LiveConfig::new(&params, FLOWS) });
        assert_eq!(native.capacity(), programs.capacity() as usize);
        let snapshot = Snapshot::of(&programs).unwrap();
        let events = Events::of(&programs).unwrap();
        Some(Self { native, programs, snapshot, events, ended: 0, told: 0 })
    }

    /// One packet through both. Returns the stamp's cycle; `None` where the kernel's test run takes no such packet (since
    /// 6.18 none that ends within its IP header).
    fn packet(&mut self, frame: &[u8], direction: Direction, time: u64) -> Option<u32> {
        let role = if direction == Direction::Forward { Role::Forward } else { Role::Reverse };
        let packet = TestPacket { frame, time, ..TestPacket::default() };
        let result = match self.programs.test_run(role, &packet, 1) {
            Err(_) if frame.len() < SHORTEST => return None,
            result => result.unwrap(),
        };
        assert_eq!(result.verdict, -1);
        let parsed = parse(frame, Start::Ethernet);
        let outcome = self.native.arrival(&parsed, frame.len() as u32, direction, Time::from_nanos(time));
        let class = match (direction, outcome.choice) {
            (Direction::Reverse, _) => 0,
            (_, QueueChoice::Responsive) => HTB_HANDLE | 1,
            (_, QueueChoice::Standard) => HTB_HANDLE | 2,
        };
        assert_eq!(result.priority, class, "{parsed:?} {direction:?} at {time}: {outcome:?}");
        self.ended += usize::from(outcome.ended.is_some());
        Some(outcome.cycle.0)
    }

    fn signal(&mut self, frame: &[u8], cycle: u32, signal: Signal, segments: u16) {
        let parsed = parse(frame, Start::Ethernet);
        self.native.signal(&parsed, weir_core::CycleId(cycle & 0x7fff), signal, segments);
        let packet = TestPacket { frame, segments: segments.into(), ..Default::default() };
        let stamp = (cycle & 0x7fff) as u16;
        self.programs.test_signal(&packet, stamp, signal == Signal::Mark).unwrap();
    }

    fn listen(&mut self) {
        self.told += self.events.poll(std::time::Duration::ZERO).unwrap().len();
    }

    /// Compares all there is.
    fn compare(&mut self, name: &str) {
        for index in 0..FLOWS / 8 {
            let (mut kernel, mut native) =
                (self.snapshot.bucket(index).unwrap(), self.native.bucket_bytes(index as usize));
            // The version counts writers, of which there are none natively.
            kernel[..8].fill(0);
            native[..8].fill(0);
            if kernel != native {
                let params = self.native.params();
                let both = [&kernel, &native].map(|bucket| flows_of(bucket, params));
                let at = kernel.iter().zip(&native).position(|(a, b)| a != b).unwrap();
                panic!(
                    "{name}: bucket {index} differs at byte {at}: {:?} {:?}; kernel, native: {both:?}",
                    &kernel[at - at % 8..at - at % 8 + 8],
                    &native[at - at % 8..at - at % 8 + 8]
                );
            }
        }
        assert_eq!(self.snapshot.counter_words().unwrap(), self.native.counter_words(), "{name}: counters");
        self.listen();
        assert_eq!(self.told, self.ended, "{name}: events");
        self.compare_views(name);
    }

    /// What is shown of a flow is what the native table says of it.
    fn compare_views(&self, name: &str) {
        let (shown, known) = (self.snapshot.flows().unwrap(), self.native.flows());
        let mut count = 0;
        for flow in known {
            let view = shown.iter().find(|view| view.key == flow.key).expect("shown too");
            assert_eq!((view.source, view.destination), (flow.source, flow.destination), "{name}");
            assert_eq!((view.class, view.choice), (flow.class, flow.choice), "{name}: {}", flow.key);
            assert_eq!((view.cycle, view.cycles), (flow.cycle.0, flow.cycles), "{name}");
            assert_eq!((view.bytes, view.packets), (flow.bytes.0, flow.packets), "{name}");
            assert_eq!(view.windows.map(u64::from), flow.windows.map(|window| window.0), "{name}");
            assert_eq!((view.signals, view.votes), (flow.signals, flow.votes), "{name}");
            assert_eq!((view.late_signals, view.withheld), (flow.late_signals, flow.withheld), "{name}");
            assert_eq!(view.closing, flow.closing, "{name}");
            let rtt = view.rtt.map(|rtt| rtt.as_nanos() as u64);
            assert_eq!(rtt, flow.rtt.map(|rtt| rtt.as_nanos()), "{name}");
            count += 1;
        }
        assert_eq!(shown.len(), count, "{name}");
    }
}

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
        segment.extend([if sack { 0xb0 } else { 0x80 }, flags, 1, 0xf4, 0, 0, 0, 0]);
        segment.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
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
                let mut packet = vec![short];
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
    let base = Params::preset(if flag() { Preset::Paper } else { Preset::Comsys });
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
        main_signal: if flag() { MainSignal::Ecn } else { MainSignal::Loss },
        tie: if flag() { Tie::Keep } else { Tie::Unresponsive },
        spin_debounce: if flag() { 1 } else { 3 },
        ..base
    }
}

/// `count` packets of many flows with signals on some, both ways through one pair.
fn random_packets(name: &str, params: Params, count: usize, seed: u64) {
    let Some(mut pair) = Pair::new(params) else { return };
    let mut random = Random(seed);
    // More flows than the table has room for, most of the packets from a few.
    let mut flows: Vec<Flow> = (0..600).map(|number| Flow::new(number, &mut random)).collect();
    let mut time = 1_000_000_000;
    let mut queued: Vec<(Vec<u8>, u32)> = Vec::new();
    for step in 0..count {
        time += random.below(300_000);
        // A pause in which what is idle may go.
        if random.one_in(20_000) {
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
            Some(cycle) if !reverse => queued.push((frame, cycle)),
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
        if step.is_multiple_of(500) {
            pair.listen();
        }
    }
    pair.compare(name);
    let counters = pair.native.counters();
    println!("{name}: {} cycles ended, {} flows, {counters:?}", pair.ended, pair.native.len());
    assert!(counters.admitted > 20 && counters.loss_packets > 0, "{name}: nothing was tested");
}

#[test]
fn a_million_random_packets_leave_the_same_tables() {
    let mut random = Random(1);
    let mut laws = vec![
        ("paper".to_owned(), Params::preset(Preset::Paper)),
        ("comsys".to_owned(), Params::preset(Preset::Comsys)),
        ("paper, marks".to_owned(), Params::default().with_main_signal(MainSignal::Ecn)),
    ];
    laws.extend((0..7).map(|number| (format!("settings {number}"), any_params(&mut random))));
    let share = PACKETS / laws.len();
    // The work is the kernel's; two at a time on the usual two processors.
    let halves = laws.split_at(laws.len() / 2);
    std::thread::scope(|scope| {
        for half in [halves.0, halves.1] {
            scope.spawn(move || {
                for (seed, (name, params)) in half.iter().enumerate() {
                    random_packets(name, *params, share, seed as u64 + half.len() as u64 * 1000);
                }
            });
        }
    });
}

/// The shipped capture, with its drops told as the scenario's queue would: every hundredth packet of a flow.
#[test]
fn the_shipped_capture_leaves_the_same_table() {
    for preset in [Preset::Paper, Preset::Comsys] {
        let Some(mut pair) = Pair::new(Params::preset(preset)) else { return };
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
            let cycle = pair.packet(&frame, direction, captured.time.as_nanos()).unwrap();
            count += 1;
            if direction == Direction::Forward && count.is_multiple_of(100) {
                pair.signal(&frame, cycle, Signal::Loss, 1);
            }
            if count.is_multiple_of(500) {
                pair.listen();
            }
        }
        assert!(count > 1000 && pair.ended > 10, "{count} packets, {} cycles", pair.ended);
        pair.compare(&format!("{preset:?}"));
        println!("{preset:?}: {count} packets, {} cycles, {:?}", pair.ended, pair.native.counters());
    }
}

/// In the demonstration the client is 10.77.2.1, and the servers are in other networks.
fn from_server(source: std::net::SocketAddr) -> bool {
    matches!(source.ip(), std::net::IpAddr::V4(address) if address.octets()[2] != 2)
}
