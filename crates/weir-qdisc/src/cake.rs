//! CAKE's queue: fair among hosts and among the flows of a host, with [COBALT](cobalt) for each flow. Source: the
//! kernel's `net/sched/sch_cake.c` with `besteffort`, without its shaper (Weir's links shape); T. Høiland-Jørgensen,
//! D. Täht and J. Morton, "Piece of CAKE", IEEE LANMAN 2018.
//!
//! | kernel | here |
//! |---|---|
//! | 1024 queues in sets of 8; a flow takes a free queue of its set, or shares the one its hash names | the same |
//! | a hash of the 5-tuple, and one of each address | a keyed hash of [`Packet::flow`], and of the numbers in [`Packet::hosts`] |
//! | `triple-isolate`, `dual-srchost`, `dual-dsthost`, `flows` | [`HostIsolation`]; `nat`, `srchost`, `dsthost`, `hosts` and `flowblind` are left out |
//! | quantum divided by the bulk flows of the busier host, dithered | the same |
//! | sparse, bulk and decaying flows (DRR++ with a rest) | the same |
//! | `bandwidth`: target, interval and quantum follow from it; `unlimited` | `rate`, which shapes nothing |
//! | up to 8 tins by DSCP (`diffserv3`) | one tin |
//! | shaper, `overhead`, `mpu`, `atm`, `ingress`, `autorate`, `ack-filter`, `wash` | left out |
//! | `split-gso` | left out: a super-packet is one packet with one decision |
//! | memory: four times rate x interval of `truesize`, at least 4 MiB, at most 10240 MTUs | the same, in wire bytes, which are less |
//! | over memory: packets from the head of the longest queue, found by a heap | the same, found by search; first of equals |
//! | the last packet of a queue is never dropped by the AQM | the same |

mod cobalt;
mod hosts;
mod keys;

pub use hosts::HostIsolation;
pub use keys::CakeKeys;

use weir_core::{
    Backlog, DropReason, Duration, EventKind, EventSink, MarkReason, Packet, Random, Rate, Time,
};

use crate::Qdisc;
use cobalt::{Cobalt, CobaltParams};
use hosts::{Hosts, QUEUES, Use};
use weir_queue::FlowHash;
use weir_queue::{Fifo, Store};
use weir_queue::{Links, List};

/// Parameters of [`Cake`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CakeConfig {
    /// The rate of the link behind, from which target, interval, quantum and memory follow; `None` as `unlimited`.
    /// Nothing is shaped to it.
    pub rate: Option<Rate>,
    /// The round-trip time that is expected (kernel default 100 ms). The target is a twentieth of it.
    pub rtt: Duration,
    /// Which hosts count for a flow's share.
    pub isolation: HostIsolation,
    /// Wire bytes in all queues together; if `None`, computed from the rate (10240 MTUs without a rate).
    pub memory_limit: Option<u64>,
    /// Wire bytes of the longest ordinary packet: 1514 on Ethernet.
    pub mtu: u32,
}

impl Default for CakeConfig {
    /// The kernel's defaults (`cake_init`) on Ethernet, with `besteffort`.
    fn default() -> Self {
        Self {
            rate: None,
            rtt: Duration::from_millis(100),
            isolation: HostIsolation::default(),
            memory_limit: None,
            mtu: weir_core::FULL_PACKET,
        }
    }
}

impl CakeConfig {
    fn params(&self) -> CobaltParams {
        let mtu_time = self.rate.map_or(Duration::ZERO, |rate| rate.time_for(self.mtu.into()));
        CobaltParams::new(self.rtt, self.rtt / 20, mtu_time)
    }

    /// Wire bytes a round: the bytes of 1/4096 s at the rate, within 300 and 1514 (`cake_set_rate`).
    fn quantum(&self) -> u32 {
        let bytes_per_second = self.rate.map_or(u64::MAX, |rate| rate.bits_per_sec() / 8);
        (bytes_per_second >> 12).clamp(300, 1514) as u32
    }

    fn memory(&self) -> u64 {
        let most = 10_240 * u64::from(self.mtu);
        self.memory_limit.unwrap_or_else(|| match self.rate {
            // The interval here is the expected round trip, not the one that a slow link stretches.
            Some(rate) => rate.bytes_in(self.rtt * 4).0.max(4 << 20).min(most),
            None => most,
        })
    }
}

/// Which rotation a flow is in (`CAKE_SET_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Set {
    /// None: the queue is free.
    #[default]
    None,
    /// The new flows, before all others.
    Sparse,
    /// Among the bulk flows, where its deficit is counted, but empty when it came there: it counts as sparse.
    SparseWait,
    /// The flows that have a backlog.
    Bulk,
    /// Empty, but its AQM is not at rest yet.
    Decaying,
}

/// The rotations: new, old and decaying flows.
const NEW: usize = 0;
const OLD: usize = 1;
const DECAYING: usize = 2;

impl Set {
    fn rotation(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Sparse => Some(NEW),
            Self::SparseWait | Self::Bulk => Some(OLD),
            Self::Decaying => Some(DECAYING),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Flow {
    queue: Fifo,
    aqm: Cobalt,
    deficit: i64,
    set: Set,
}

/// CAKE's queue.
#[derive(Clone, Debug)]
pub struct Cake {
    store: Store,
    flows: Vec<Flow>,
    links: Links,
    /// Those of [`Set::rotation`].
    rotations: [List; 3],
    hosts: Hosts,
    params: CobaltParams,
    quantum: u32,
    memory: u64,
    random: Random,
}

impl Cake {
    /// Empty queues; `random` gives the key of the hash, and BLUE and the dithering their draws.
    pub fn new(config: CakeConfig, mut random: Random) -> Self {
        let hash = FlowHash::new(&mut random);
        Self {
            store: Store::new(usize::try_from(config.memory() / 1024).unwrap_or(usize::MAX)),
            flows: vec![Flow::default(); QUEUES],
            links: Links::new(QUEUES),
            rotations: [List::default(); 3],
            hosts: Hosts::new(config.isolation, hash),
            params: config.params(),
            quantum: config.quantum(),
            memory: config.memory(),
            random,
        }
    }

    /// A flow's quantum: its part of its busier host's. The dithering keeps the remainder of the division on average.
    fn share(&mut self, index: usize) -> i64 {
        let part = 65_535 / u64::from(self.hosts.load(index));
        let dither = self.random.next_u64() >> 48;
        ((u64::from(self.quantum) * part + dither) >> 16) as i64
    }

    /// Takes a flow out of its list and puts it at the end of the list of `set`, keeping count of its hosts' flows.
    fn move_to(&mut self, index: usize, set: Set) {
        let before = std::mem::replace(&mut self.flows[index].set, set);
        if let Some(rotation) = before.rotation() {
            self.links.remove(&mut self.rotations[rotation], index);
        }
        if let Some(rotation) = set.rotation() {
            self.links.append(&mut self.rotations[rotation], index);
        }
        if (before == Set::Bulk) != (set == Set::Bulk) {
            self.hosts.count(index, set == Set::Bulk);
        }
    }

    /// Drops the packet at the head of the longest queue.
    fn make_room(&mut self, now: Time, events: &mut dyn EventSink) {
        // Backwards, because the last of equals wins a `max_by_key`.
        let longest = self.flows.iter_mut().rev().max_by_key(|flow| {
            let Backlog { packets, bytes } = flow.queue.backlog();
            (bytes, packets)
        });
        let Some(flow) = longest else { return };
        if let Some(packet) = self.store.pop(&mut flow.queue) {
            flow.aqm.overflowed(&self.params, now);
            self.store.report(EventKind::Drop(DropReason::Evicted), &packet, now, events);
        }
    }

    /// The flow whose turn it is. One decaying flow is looked after in each dequeue, and any if there is nothing else.
    fn turn(&mut self, looked_after: &mut bool) -> Option<usize> {
        loop {
            let [new, old, decaying] = self.rotations.map(|list| list.first());
            let first = if *looked_after { None } else { decaying };
            *looked_after = true;
            let index = first.or(new).or(old).or(decaying)?;
            if self.flows[index].deficit > 0 {
                return Some(index);
            }
            let flow = &self.flows[index];
            let set = match flow.set {
                Set::Sparse if flow.queue.is_empty() => Set::SparseWait,
                Set::Sparse => Set::Bulk,
                set => set,
            };
            self.move_to(index, set);
            self.flows[index].deficit += self.share(index);
        }
    }

    /// The packet that the flow sends next, past its AQM. `None` if its queue is empty.
    fn take(&mut self, index: usize, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        let Flow { queue, aqm, .. } = &mut self.flows[index];
        loop {
            let mut packet = self.store.pop(queue)?;
            let verdict = aqm.judge(&self.params, &mut packet, now, &mut self.random);
            if verdict.marked {
                self.store.report(EventKind::Mark(MarkReason::Aqm), &packet, now, events);
            }
            if !verdict.drop || queue.is_empty() {
                return Some(packet);
            }
            self.store.report(EventKind::Drop(DropReason::Aqm), &packet, now, events);
        }
    }
}

impl Qdisc for Cake {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        let flows = &self.flows;
        let index = self.hosts.queue(&packet, |queue| match flows[queue].set {
            Set::None => Use::Free,
            Set::Bulk => Use::Bulk,
            Set::Sparse | Set::SparseWait | Set::Decaying => Use::Reserved,
        });
        self.store.push(&mut self.flows[index].queue, packet, now, events);
        match self.flows[index].set {
            Set::None | Set::Decaying => {
                self.move_to(index, Set::Sparse);
                self.flows[index].deficit = self.share(index);
            }
            Set::SparseWait => {
                // It stays where it is in the rotation.
                self.flows[index].set = Set::Bulk;
                self.hosts.count(index, true);
            }
            Set::Sparse | Set::Bulk => {}
        }
        while self.store.backlog().bytes > self.memory {
            self.make_room(now, events);
        }
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        let mut looked_after = false;
        while self.store.backlog().packets > 0 {
            let index = self.turn(&mut looked_after)?;
            if let Some(packet) = self.take(index, now, events) {
                self.flows[index].deficit -= i64::from(packet.wire_bytes);
                self.store.report(EventKind::Dequeue, &packet, now, events);
                return Some(packet);
            }
            let aqm = &mut self.flows[index].aqm;
            aqm.found_empty(&self.params, now);
            let set = if aqm.at_rest(now) { Set::None } else { Set::Decaying };
            self.move_to(index, set);
        }
        None
    }

    fn backlog(&self) -> Backlog {
        self.store.backlog()
    }
}

#[cfg(test)]
mod tests;
