//! TCP flows over one queue, looked at as the measurements under Linux were.

use std::collections::VecDeque;

use weir_core::{Duration, Event, EventKind, Seed, Time};
use weir_sim::{EndOptions, FlowSpec, HopId, HopSpec, Impairment, Network, Observer};

/// Before anything is counted.
const WARM_UP: Duration = Duration::from_secs(10);
/// Between looks at the first packet of a queue.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) struct Scene {
    pub(crate) rate: &'static str,
    pub(crate) qdisc: &'static str,
    /// Controllers and round-trip times in ms.
    pub(crate) flows: Vec<(&'static str, u64)>,
    /// Whether packets wait for others to go with.
    pub(crate) defer: bool,
    /// Hosts as the authors of DualPI2 seem to have had: a packet comes up to so much sooner or later, and `fq` paces
    /// Cubic packet by packet.
    pub(crate) jitter: Option<Duration>,
    pub(crate) seconds: u64,
}

/// What came of it. Queues are in the order of the discipline: of a dual queue the Classic one first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Goodput of each flow in Mbit/s.
    pub(crate) rates: Vec<f64>,
    /// Mean age of the first packet in ms, 0 where there was none.
    pub(crate) head: [f64; 2],
    /// Mean wait of the packets that left, in ms.
    pub(crate) waited: [f64; 2],
    /// Of the packets of flows that can be marked, per cent.
    pub(crate) marked: f64,
    /// Of the packets of flows that cannot, per cent.
    pub(crate) dropped: f64,
}

/// The packets that wait, and what happened since the warm-up.
#[derive(Default)]
struct Queues {
    waiting: [VecDeque<(u64, Time)>; 2],
    /// Number and sum of waits in ns.
    waits: [(u64, u64); 2],
    marks: u64,
    markable: u64,
    drops: u64,
    droppable: u64,
}

impl Observer for Queues {
    fn event(&mut self, _: HopId, event: &Event) {
        let queue = usize::from(event.queue.0 & 1);
        let counts = event.time >= Time::ZERO + WARM_UP;
        let capable = event.packet.ecn.is_capable();
        match event.kind {
            EventKind::Enqueue => self.waiting[queue].push_back((event.packet.id, event.time)),
            EventKind::Dequeue | EventKind::Drop(_) => {
                let id = event.packet.id;
                if let Some(place) = self.waiting[queue].iter().position(|(waits, _)| *waits == id) {
                    self.waiting[queue].remove(place);
                }
                if counts {
                    self.markable += u64::from(capable);
                    self.droppable += u64::from(!capable);
                }
            }
            EventKind::Mark(_) => {}
        }
        if !counts {
            return;
        }
        match event.kind {
            EventKind::Dequeue => {
                self.waits[queue].0 += 1;
                self.waits[queue].1 += event.sojourn.as_nanos();
            }
            EventKind::Drop(_) => self.drops += u64::from(!capable),
            EventKind::Mark(_) => self.marks += 1,
            EventKind::Enqueue => {}
        }
    }
}

impl Scene {
    fn run(&self, run: u64) -> Seen {
        let mut network = Network::new(Seed { seed: 1, run }, Queues::default());
        let rtt = Duration::from_millis(self.flows[0].1);
        let hop = HopSpec::new(self.rate.parse().unwrap(), self.qdisc.parse().unwrap(), rtt).unwrap();
        let jitter = self.jitter.unwrap_or(Duration::ZERO);
        let hop = network.add_hop(hop.impairment(Impairment { jitter, ..Impairment::default() }));
        let flows: Vec<_> = self
            .flows
            .iter()
            .map(|(name, rtt)| {
                let spec = FlowSpec::tcp(name, hop, Duration::from_millis(*rtt)).unwrap();
                let usual = EndOptions { defer: self.defer, ..EndOptions::default() };
                let host_fq = self.jitter.is_some() && *name == "cubic";
                let min_burst = if host_fq { 1 } else { usual.min_burst };
                let ends = EndOptions { host_fq, min_burst, ..usual };
                network.add_flow(spec.ends(ends)).unwrap()
            })
            .collect();
        network.run_until(Time::ZERO + WARM_UP);
        let before: Vec<u64> = flows.iter().map(|flow| network.flow(*flow).bytes).collect();
        let looks = self.seconds * 10;
        let mut seen = Seen::default();
        for look in 1..=looks {
            network.run_until(Time::ZERO + WARM_UP + LOOK * look);
            for (queue, sum) in network.observer().waiting.iter().zip(&mut seen.head) {
                let age = queue.front().map_or(Duration::ZERO, |(_, since)| network.now().since(*since));
                *sum += age.as_millis_f64() / looks as f64;
            }
        }
        let mbit = |(flow, before): (&_, &u64)| {
            (network.flow(*flow).bytes - before) as f64 * 8.0 / self.seconds as f64 / 1e6
        };
        seen.rates = flows.iter().zip(&before).map(mbit).collect();
        let queues = network.observer();
        let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        seen.marked = share(queues.marks, queues.markable);
        seen.dropped = share(queues.drops, queues.droppable);
        seen.waited = queues.waits.map(|(count, sum)| sum as f64 / count.max(1) as f64 / 1e6);
        seen
    }

    /// Means over so many runs with draws of their own.
    pub(crate) fn mean_of(&self, runs: u64) -> Seen {
        let mut mean = Seen { rates: vec![0.0; self.flows.len()], ..Seen::default() };
        for run in 0..runs {
            let seen = self.run(run);
            let add = |sum: &mut f64, value: f64| *sum += value / runs as f64;
            mean.rates.iter_mut().zip(seen.rates).for_each(|(sum, value)| add(sum, value));
            mean.head.iter_mut().zip(seen.head).for_each(|(sum, value)| add(sum, value));
            mean.waited.iter_mut().zip(seen.waited).for_each(|(sum, value)| add(sum, value));
            add(&mut mean.marked, seen.marked);
            add(&mut mean.dropped, seen.dropped);
        }
        mean
    }
}
