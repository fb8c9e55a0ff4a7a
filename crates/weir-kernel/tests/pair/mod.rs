//! The programs in the kernel and the same lines run natively, side by side: each packet goes through both and has to
//! be sent to the same queue, and at any time every byte of both tables is the same.
#![allow(dead_code)] // Each test file uses some of it.

use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::rc::Rc;

use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapCore, MapFlags, MapHandle, RingBuffer, RingBufferBuilder};
use weir_core::{CycleId, FlowId, QueueChoice, Time};
use weir_kernel::{HTB_HANDLE, ProgramConfig, Programs, Role, Snapshot, TestPacket};
use weir_law::live::{
    LiveConfig, LiveCounters, LiveEvent, LiveFlow, LiveOutcome, LiveTable, SEED_WORDS, flows_of, open_seed,
    version_of,
};
use weir_law::{Assessment, CycleEnd, Direction, Judgement, LawSink, Params, Signal, Start, parse};

/// Candidates of a line (`WEIR_CANDIDATES` of `bpf/table_state.h`) and the bytes of each, which begin with its tag.
const CANDIDATES: usize = 4;
const CANDIDATE_BYTES: usize = 12;

/// The secret of both hash functions.
const SEED: [u64; SEED_WORDS] = open_seed(0x5eed);

/// Shorter frames can end within an IP header.
pub(crate) const SHORTEST: usize = 14 + 40;

/// Ended cycles after which the ring of events is emptied; it holds some thousand.
const HEARD: usize = 200;

/// Ended cycles and the judgements on them.
#[derive(Debug, Default, PartialEq)]
struct Ended {
    cycles: Vec<CycleEnd>,
    judgements: Vec<Assessment>,
}

impl LawSink for Ended {
    fn cycle(&mut self, end: &CycleEnd) {
        self.cycles.push(*end);
    }

    fn assessment(&mut self, assessment: &Assessment) {
        self.judgements.push(*assessment);
    }
}

/// Both at once.
pub(crate) struct Pair {
    pub(crate) native: LiveTable,
    programs: Programs,
    snapshot: Snapshot,
    maps: Vec<MapHandle>,
    events: RingBuffer<'static>,
    ended: Ended,
    told: Rc<RefCell<Ended>>,
    /// Cycles that ended.
    pub(crate) cycles: usize,
    /// Packets by direction: forward, reverse.
    put: [u64; 2],
}

impl Pair {
    /// `None`, with the reason printed, where programs cannot be loaded.
    pub(crate) fn new(params: Params, flows: u32) -> Option<Self> {
        if !weir_testkit::skip::is_root() {
            return None;
        }
        let config = ProgramConfig {
            seed: Some(SEED),
            events: true,
            test_clock: true,
            ..ProgramConfig::new(params, flows, 1, 1)
        };
        let programs = Programs::load(&config).unwrap_or_else(|error| panic!("{error}"));
        let native = LiveTable::new(params, &LiveConfig { seed: SEED, ..LiveConfig::new(&params, flows) });
        assert_eq!(native.capacity(), programs.capacity() as usize);
        let snapshot = Snapshot::of(&programs).unwrap();
        let maps = maps_of(&programs);
        let told = Rc::new(RefCell::new(Ended::default()));
        let into = Rc::clone(&told);
        let mut events = RingBufferBuilder::new();
        let ring = programs.events_ring().unwrap();
        events
            .add(&ring, move |record| {
                let event = LiveEvent::from_bytes(record).expect("a record of this length");
                event.report(FlowId::NONE, Time::ZERO, &mut *into.borrow_mut());
                0
            })
            .unwrap();
        let events = events.build().unwrap();
        let (ended, cycles, put) = (Ended::default(), 0, [0; 2]);
        Some(Self { native, programs, snapshot, maps, events, ended, told, cycles, put })
    }

    /// Another law takes over: new programs on the maps that are pinned in `pins`, or will be.
    pub(crate) fn change_law(&mut self, params: Params, pins: &Path) {
        self.listen();
        self.programs.pin(pins).unwrap();
        let config = ProgramConfig { params, ..self.programs.config().clone() };
        self.programs = Programs::reuse(pins, &config).unwrap_or_else(|error| panic!("{error}"));
        self.native.change_law(params);
        self.snapshot = Snapshot::of(&self.programs).unwrap();
        self.maps = maps_of(&self.programs);
    }

    /// One frame through both; `None` where the kernel's test run takes no such packet (since 6.18 none that ends
    /// within its IP header).
    pub(crate) fn packet(&mut self, frame: &[u8], direction: Direction, time: u64) -> Option<LiveOutcome> {
        self.packet_of(&TestPacket { frame, time, ..TestPacket::default() }, direction)
    }

    /// The same, for packets that are segments still in one.
    pub(crate) fn packet_of(&mut self, packet: &TestPacket<'_>, direction: Direction) -> Option<LiveOutcome> {
        let role = if direction == Direction::Forward { Role::Forward } else { Role::Reverse };
        let (frame, time) = (packet.frame, packet.time);
        let result = match self.programs.test_run(role, packet, 1) {
            Err(_) if frame.len() < SHORTEST => return None,
            result => result.unwrap(),
        };
        assert_eq!(result.verdict, -1);
        self.put[usize::from(direction == Direction::Reverse)] += 1;
        let parsed = parse(frame, Start::Ethernet);
        let outcome = self.native.arrival(&parsed, frame.len() as u32, direction, Time::from_nanos(time));
        let class = match (direction, outcome.choice) {
            (Direction::Reverse, _) => 0,
            (_, QueueChoice::Responsive) => HTB_HANDLE | 1,
            (_, QueueChoice::Standard) => HTB_HANDLE | 2,
            (_, QueueChoice::EcnResponsive) => unreachable!("no law here knows a third queue"),
        };
        assert_eq!(result.priority, class, "{parsed:?} {direction:?} at {time}: {outcome:?}");
        if let Some((end, assessment)) = outcome.ended {
            self.cycles += 1;
            self.ended.cycle(&end);
            if end.judgement == Judgement::Voted {
                self.ended.assessment(&assessment);
            }
            if self.ended.cycles.len() > HEARD {
                self.listen();
            }
        }
        Some(outcome)
    }

    /// Books a signal on a packet in both.
    pub(crate) fn signal(&mut self, frame: &[u8], cycle: u32, signal: Signal, segments: u16) {
        let parsed = parse(frame, Start::Ethernet);
        self.native.signal(&parsed, CycleId(cycle & 0x7fff), signal, segments);
        let packet = TestPacket { frame, segments: segments.into(), ..Default::default() };
        let stamp = (cycle & 0x7fff) as u16;
        self.programs.test_signal(&packet, stamp, signal == Signal::Mark).unwrap();
    }

    /// Compares what has ended since the last time.
    fn listen(&mut self) {
        self.events.consume().unwrap();
        assert_eq!(self.told.take(), std::mem::take(&mut self.ended));
    }

    /// The flows in the kernel's table.
    pub(crate) fn flows(&self) -> Vec<LiveFlow> {
        self.snapshot.flows().unwrap()
    }

    /// The kernel's counters.
    pub(crate) fn counters(&self) -> LiveCounters {
        self.snapshot.counters().unwrap()
    }

    /// Candidates that wait in the kernel, and places for them.
    pub(crate) fn candidates(&self) -> (usize, usize) {
        let waiting = self.waiting();
        let lines = waiting.max_entries();
        let tags = (0..lines).flat_map(|index| {
            let line = waiting_line(waiting, index);
            (0..CANDIDATES)
                .map(|number| number * CANDIDATE_BYTES)
                .map(move |at| line[at..at + 4] != [0; 4])
                .collect::<Vec<_>>()
        });
        (tags.filter(|taken| *taken).count(), lines as usize * CANDIDATES)
    }

    /// The map of candidates, which only the programs use.
    fn waiting(&self) -> &MapHandle {
        self.maps.iter().find(|map| map.name() == "waiting").expect("a map of candidates")
    }

    /// What the kernel says its maps take, in bytes (`memlock` of proc_pid_fdinfo(5)).
    pub(crate) fn memory(&self) -> usize {
        let bytes = |map: &MapHandle| -> usize {
            let path = format!("/proc/self/fdinfo/{}", map.as_fd().as_raw_fd());
            let about = std::fs::read_to_string(path).unwrap();
            let line = about.lines().find_map(|line| line.strip_prefix("memlock:")).expect("a size");
            line.trim().parse().unwrap()
        };
        self.maps.iter().map(bytes).sum()
    }

    /// Compares every byte of both tables and all counters. Nobody is within a bucket, no packet found one taken, and
    /// each packet was counted once.
    pub(crate) fn compare_bytes(&mut self, name: &str) {
        for index in 0..self.native.capacity() as u32 / 8 {
            let (mut kernel, mut native) =
                (self.snapshot.bucket(index).unwrap(), self.native.bucket_bytes(index as usize));
            let version = version_of(&kernel).unwrap();
            assert!(version.is_multiple_of(2), "{name}: bucket {index} was not given back");
            assert_eq!(kernel[4..8], [0; 4], "{name}: bucket {index} was contended");
            // The version counts writers, of which there are none natively.
            kernel[..8].fill(0);
            native[..8].fill(0);
            if kernel != native {
                let params = self.native.params();
                let both = [&kernel, &native].map(|bucket| flows_of(bucket, params, 0));
                let at = kernel.iter().zip(&native).position(|(a, b)| a != b).unwrap();
                panic!(
                    "{name}: bucket {index} differs at byte {at}: {:?} {:?}; kernel, native: {both:?}",
                    &kernel[at - at % 8..at - at % 8 + 8],
                    &native[at - at % 8..at - at % 8 + 8]
                );
            }
            let kernel = waiting_line(self.waiting(), index);
            assert_eq!(kernel, self.native.waiting_bytes(index as usize), "{name}: candidates of {index}");
        }
        let words = self.snapshot.counter_words().unwrap();
        assert_eq!(words, self.native.counter_words(), "{name}: counters");
        assert_eq!(words[..8].iter().sum::<u64>(), self.put[0] + self.put[1], "{name}: packets by kind");
        assert_eq!(words[16] + words[17], self.put[0], "{name}: by queue");
        self.listen();
    }

    /// Compares all there is.
    pub(crate) fn compare(&mut self, name: &str) {
        self.compare_bytes(name);
        // What is shown of a flow is what the native table says of it.
        assert_eq!(self.flows(), self.native.flows().collect::<Vec<_>>(), "{name}");
        assert_eq!(self.counters(), self.native.counters(), "{name}");
    }
}

fn waiting_line(map: &MapHandle, index: u32) -> Vec<u8> {
    map.lookup(&index.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap()
}

/// All maps of the program before the queue.
fn maps_of(programs: &Programs) -> Vec<MapHandle> {
    let forward = programs.costs().unwrap().into_iter().find(|cost| cost.name == "forward").unwrap();
    let with_maps = ProgInfoQueryOptions::default().include_map_ids(true);
    let program = ProgInfoIter::with_query_opts(with_maps).find(|program| program.id == forward.id).unwrap();
    program.map_ids.iter().map(|id| MapHandle::from_map_id(*id).unwrap()).collect()
}
