//! What holds of a live table at any time.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use weir_core::QueueChoice;
use weir_law::live::{Count, LiveCounters, LiveFlow, LiveTable, WAITING_BYTES};
use weir_law::{Direction, MainSignal, Signal, Verdict, Votes};

/// What was done to the table, to be compared with what it says.
pub(super) struct Checks {
    steps: u32,
    bytes: usize,
    capacity: usize,
    all: Count,
    forward: Count,
    signals: [(u64, u64); 2],
    /// The last cycle seen of each flow, by its ends.
    cycles: HashMap<(SocketAddr, SocketAddr, u8), u32>,
}

impl Checks {
    pub(super) fn new(table: &LiveTable) -> Self {
        Self {
            steps: 0,
            bytes: table.bytes(),
            capacity: table.capacity(),
            all: Count::default(),
            forward: Count::default(),
            signals: [(0, 0); 2],
            cycles: HashMap::new(),
        }
    }

    pub(super) fn arrives(&mut self, wire: u32, direction: Direction) {
        let add = |count: &mut Count| {
            count.packets += 1;
            count.bytes += u64::from(wire);
        };
        add(&mut self.all);
        if direction == Direction::Forward {
            add(&mut self.forward);
        }
    }

    pub(super) fn signals(&mut self, signal: Signal, segments: u16) {
        let (packets, weight) = &mut self.signals[usize::from(signal == Signal::Mark)];
        *packets += 1;
        *weight += u64::from(segments);
    }

    /// Another law begins cycles anew.
    pub(super) fn forget_cycles(&mut self) {
        self.cycles.clear();
    }

    /// Of one flow.
    pub(super) fn flow(&mut self, flow: &LiveFlow) {
        for (verdict, votes) in [(flow.class.loss, flow.votes.loss), (flow.class.ecn, flow.votes.mark)] {
            assert!(
                verdict == Verdict::Unclassified || cast(&votes) > 0,
                "a verdict without a vote: {flow:?}"
            );
        }
        assert!(flow.packets > 0 || flow.bytes.0 == 0, "bytes without packets: {flow:?}");
    }

    /// Of the table as a whole, now and then: it takes longer than a packet.
    pub(super) fn stepped(&mut self, table: &LiveTable) {
        self.steps += 1;
        if self.steps.is_multiple_of(8) {
            self.whole(table);
        }
    }

    /// Of the table as a whole at the end.
    pub(super) fn end(&mut self, table: &LiveTable) {
        self.whole(table);
        assert!(table.filter_is_exact(), "the filter of plain UDP");
    }

    fn whole(&mut self, table: &LiveTable) {
        assert_eq!((table.bytes(), table.capacity()), (self.bytes, self.capacity), "its memory is fixed");
        let counters = table.counters();
        assert_eq!(table.len() as u64, counters.admitted - counters.evicted, "entries: {counters:?}");
        self.counters(&counters);
        let main = table.params().main_signal;
        let mut ends = HashSet::new();
        let mut seen = HashMap::new();
        for flow in table.flows() {
            let protocol = if table.params().key_has_protocol { flow.key.protocol } else { 0 };
            let name = (flow.key.low, flow.key.high, protocol);
            assert!(ends.insert(name), "two entries of one key: {flow:?}");
            // Of flows that are Not-ECT losses may decide where marks do of others.
            let (decides, may) = match (main, flow.class.ecn) {
                (MainSignal::Ecn, Verdict::Unclassified) if table.params().loss_without_ecn => {
                    (Verdict::Unclassified, flow.class.loss)
                }
                (MainSignal::Ecn, ecn) => (ecn, ecn),
                _ => (flow.class.loss, flow.class.loss),
            };
            let is_responsive = flow.choice == QueueChoice::Responsive;
            assert!(
                is_responsive || decides != Verdict::Responsive,
                "a verdict that gives no queue: {flow:?}"
            );
            assert!(
                !is_responsive || may == Verdict::Responsive,
                "a queue that the verdict does not give: {flow:?}"
            );
            self.flow(&flow);
            // While the entry lasts. An evicted one begins at 0 again.
            if let Some(before) = self.cycles.get(&name).filter(|_| counters.evicted == 0) {
                assert!(flow.cycle.0 >= *before, "a cycle that comes again: {before} before {flow:?}");
            }
            seen.insert(name, flow.cycle.0);
        }
        self.cycles = seen;
        candidates(table);
    }

    fn counters(&self, counters: &LiveCounters) {
        let sum = |counts: &[Count]| {
            counts.iter().fold(Count::default(), |sum, count| Count {
                packets: sum.packets + count.packets,
                bytes: sum.bytes + count.bytes,
            })
        };
        let LiveCounters { tcp, quic, udp, other, not_ip, fragment, truncated, malformed, .. } = *counters;
        assert_eq!(sum(&[tcp, quic, udp, other, not_ip, fragment, truncated, malformed]), self.all);
        assert_eq!(sum(&[counters.to_standard, counters.to_responsive]), self.forward);
        let signals = [
            (counters.loss_packets, counters.loss_segments),
            (counters.mark_packets, counters.mark_segments),
        ];
        assert_eq!(signals, self.signals);
        assert!(counters.unowned_signals <= self.signals[0].0 + self.signals[1].0);
        assert_eq!(counters.contended, 0, "nobody else is at it");
    }
}

fn cast(votes: &Votes) -> u32 {
    votes.responsive | votes.unresponsive
}

/// A flow waits at one place.
fn candidates(table: &LiveTable) {
    for line in 0..table.capacity() / 8 {
        let bytes = table.waiting_bytes(line);
        assert_eq!(bytes.len(), WAITING_BYTES);
        let mut tags: Vec<u32> = bytes
            .chunks_exact(WAITING_BYTES / 4)
            .map(|at| u32::from_ne_bytes([at[0], at[1], at[2], at[3]]))
            .collect();
        tags.retain(|tag| *tag != 0);
        tags.sort_unstable();
        assert!(tags.windows(2).all(|pair| pair[0] != pair[1]), "two candidates of one flow: {tags:?}");
    }
}
