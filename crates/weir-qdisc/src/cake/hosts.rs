//! Which queue of CAKE a flow gets and who its hosts are: set-associative hashing and the counts of bulk flows by host
//! (`cake_hash` in `net/sched/sch_cake.c`, as amended in 6.13 to count only in modes that use the counts).

use weir_core::{FlowId, Packet};

use crate::limit::choice;
use weir_queue::FlowHash;

/// Queues, and places for hosts (`CAKE_QUEUES`).
pub(super) const QUEUES: usize = 1024;
/// Queues among which a flow may choose (`CAKE_SET_WAYS`).
const WAYS: usize = 8;

choice! {
    /// Which hosts count for a flow's share, beside the flow itself (`CAKE_FLOW_*`).
    pub enum HostIsolation ("'triple-isolate', 'dual-srchost', 'dual-dsthost' or 'flows'") {
        /// Both: the busier of a flow's hosts decides (the kernel's default).
        #[default]
        "triple-isolate" => Triple,
        /// Flows of one source share what their source gets.
        "dual-srchost" => Source,
        /// Flows to one destination likewise.
        "dual-dsthost" => Destination,
        /// None: each flow counts for itself.
        "flows" => Flows,
    }
}

impl HostIsolation {
    /// Whether source and destination hosts are distinguished.
    fn sides(self) -> [bool; 2] {
        [matches!(self, Self::Source | Self::Triple), matches!(self, Self::Destination | Self::Triple)]
    }
}

/// A place for a host: one number a side.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    tag: [u32; 2],
    bulk_flows: [u16; 2],
}

/// What is known of a queue's flow.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    tag: u32,
    /// Places of its source and destination hosts.
    hosts: [u16; 2],
}

/// State of a queue that the choice depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// In no list: free for another flow.
    Free,
    /// Reserved for its flow.
    Reserved,
    /// Reserved and counted with its hosts.
    Bulk,
}

/// Flows and hosts by hash.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    places: Vec<Place>,
    hosts: Vec<Host>,
    hash: FlowHash,
    isolation: HostIsolation,
}

/// The places of one set, beginning with that of `hash`.
fn ways(hash: u32) -> impl Iterator<Item = usize> {
    let place = hash as usize % QUEUES;
    let (inner, outer) = (place % WAYS, place - place % WAYS);
    (0..WAYS).map(move |way| outer + (inner + way) % WAYS)
}

impl Hosts {
    pub(super) fn new(isolation: HostIsolation, hash: FlowHash) -> Self {
        Self { places: vec![Place::default(); QUEUES], hosts: vec![Host::default(); QUEUES], hash, isolation }
    }

    /// The queue of a packet's flow, reserved for it from now on. `used` returns the state of a queue. Flows that find
    /// no place in their set share the queue that their hash names.
    pub(super) fn queue(&mut self, packet: &Packet, used: impl Fn(usize) -> Use) -> usize {
        let hash = self.hash.of(packet.flow);
        let direct = hash as usize % QUEUES;
        if self.places[direct].tag == hash && used(direct) != Use::Free {
            return direct;
        }
        let reserved = ways(hash).find(|queue| self.places[*queue].tag == hash);
        let queue = match reserved {
            Some(queue) if used(queue) != Use::Free => return queue,
            Some(queue) => queue,
            None => ways(hash).find(|queue| used(*queue) == Use::Free).unwrap_or(direct),
        };
        let bulk = used(queue) == Use::Bulk;
        if bulk {
            self.count(queue, false);
        }
        self.places[queue].tag = hash;
        for (side, told_apart) in self.isolation.sides().into_iter().enumerate() {
            if told_apart {
                let host = self.host(packet.hosts[side], side);
                self.places[queue].hosts[side] = host as u16;
            }
        }
        if bulk {
            self.count(queue, true);
        }
        queue
    }

    /// The place of a host: its own, or one without bulk flows, or that of another host.
    fn host(&mut self, host: u16, side: usize) -> usize {
        // Away from the flows' numbers, so that a flow and a host of one number do not fall together.
        let hash = self.hash.of(FlowId(0xffff_0000 ^ u32::from(host)));
        let direct = hash as usize % QUEUES;
        let mut places = ways(hash);
        let place = places
            .find(|place| self.hosts[*place].tag[side] == hash)
            .or_else(|| ways(hash).find(|place| self.hosts[*place].bulk_flows[side] == 0))
            .unwrap_or(direct);
        self.hosts[place].tag[side] = hash;
        place
    }

    /// The flow of `queue` became a bulk flow, or ceased to be one.
    pub(super) fn count(&mut self, queue: usize, more: bool) {
        for (side, told_apart) in self.isolation.sides().into_iter().enumerate() {
            let flows = &mut self.hosts[usize::from(self.places[queue].hosts[side])].bulk_flows[side];
            if told_apart {
                *flows = if more { *flows + 1 } else { flows.saturating_sub(1) };
            }
        }
    }

    /// Bulk flows with which the flow of `queue` shares its busier host, at least one.
    pub(super) fn load(&self, queue: usize) -> u16 {
        let place = self.places[queue];
        let sides = self.isolation.sides();
        let of = |side: usize| {
            if sides[side] { self.hosts[usize::from(place.hosts[side])].bulk_flows[side] } else { 0 }
        };
        of(0).max(of(1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{HostIsolation, Hosts, QUEUES, Use, WAYS};
    use weir_core::{FlowId, Packet, Seed, Time};
    use weir_queue::FlowHash;

    fn hosts(isolation: HostIsolation) -> Hosts {
        Hosts::new(isolation, FlowHash::new(&mut Seed::default().stream("cake")))
    }

    fn packet(flow: u32, hosts: [u16; 2]) -> Packet {
        Packet { hosts, ..Packet::new(0, FlowId(flow), 1000, Time::ZERO) }
    }

    /// Flows of one set, as many as are asked for.
    fn one_set(hosts: &Hosts, flows: usize) -> Vec<u32> {
        let set = |flow: u32| hosts.hash.of(FlowId(flow)) as usize % QUEUES / WAYS;
        (0..).filter(|flow| set(*flow) == set(0)).take(flows).collect()
    }

    #[test]
    fn eight_flows_of_a_set_have_a_queue_each_and_the_ninth_shares() {
        let mut hosts = hosts(HostIsolation::Triple);
        let flows = one_set(&hosts, 9);
        let mut used: HashSet<usize> = HashSet::new();
        for flow in &flows[..8] {
            let queue = hosts.queue(&packet(*flow, [1, 2]), |queue| {
                if used.contains(&queue) { Use::Reserved } else { Use::Free }
            });
            assert!(used.insert(queue), "flow {flow} shares queue {queue}");
        }
        let ninth = hosts.queue(&packet(flows[8], [1, 2]), |_| Use::Reserved);
        assert_eq!(ninth, hosts.hash.of(FlowId(flows[8])) as usize % QUEUES);
        assert!(used.contains(&ninth));
        // The others still find theirs; a queue that was left is found by tag too.
        let again = hosts.queue(&packet(flows[0], [1, 2]), |_| Use::Reserved);
        assert!(used.contains(&again));
        assert_eq!(hosts.queue(&packet(flows[0], [1, 2]), |_| Use::Free), again);
    }

    #[test]
    fn the_busier_host_decides_the_load() {
        for (isolation, expected) in [
            (HostIsolation::Flows, [1, 1, 1]),
            (HostIsolation::Source, [3, 3, 1]),
            (HostIsolation::Destination, [2, 2, 2]),
            (HostIsolation::Triple, [3, 3, 2]),
        ] {
            let mut hosts = hosts(isolation);
            // Source 1 has three flows, source 2 one; destinations 5 and 6 have two flows each.
            let queues = [(0, [1, 5]), (1, [1, 6]), (2, [2, 6]), (3, [1, 5])]
                .map(|(flow, ends)| hosts.queue(&packet(flow, ends), |_| Use::Free));
            for queue in queues {
                hosts.count(queue, true);
            }
            assert_eq!([0, 1, 2].map(|flow| hosts.load(queues[flow])), expected, "{isolation:?}");
            hosts.count(queues[3], false);
            hosts.count(queues[1], false);
            assert_eq!(hosts.load(queues[0]), 1);
        }
    }

    #[test]
    fn a_collision_takes_the_count_along() {
        let mut hosts = hosts(HostIsolation::Source);
        let flows = one_set(&hosts, 2);
        let queue = hosts.queue(&packet(flows[0], [1, 0]), |_| Use::Free);
        hosts.count(queue, true);
        // The other flow of the set finds all queues in use as bulk queues, and takes over the queue that its hash
        // names.
        let own = hosts.hash.of(FlowId(flows[1])) as usize % QUEUES;
        hosts.count(own, true);
        assert_eq!(hosts.queue(&packet(flows[1], [1, 0]), |_| Use::Bulk), own);
        assert_eq!(hosts.load(own), 2);
    }
}
