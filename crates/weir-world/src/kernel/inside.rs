//! What the kernel's queues hold: packets in the order in which they came, found by what the kernel knows them by.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weir_core::{Backlog, FlowId, Packet, QueueId};

/// A packet in a queue.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    /// By which the kernel knows it.
    pub(super) id: u64,
    /// Its number grows from the front of a queue to the back.
    pub(super) packet: Packet,
    pub(super) queue: QueueId,
}

/// All packets in the queues of a device.
#[derive(Default)]
pub(super) struct Inside {
    queues: [BTreeMap<u64, Waiting>; 2],
    /// The queue and the number of each packet, by what the kernel knows it by.
    places: HashMap<u64, (QueueId, u64)>,
    /// The numbers of each flow's packets, in order.
    flows: BTreeSet<(QueueId, FlowId, u64)>,
    backlogs: [Backlog; 2],
}

impl Inside {
    /// Puts a packet at the back of its queue.
    pub(super) fn push(&mut self, waiting: Waiting) {
        let Waiting { id, packet, queue } = waiting;
        self.queues[usize::from(queue.0)].insert(packet.id, waiting);
        self.places.insert(id, (queue, packet.id));
        self.flows.insert((queue, packet.flow, packet.id));
        let backlog = &mut self.backlogs[usize::from(queue.0)];
        backlog.packets += 1;
        backlog.bytes += u64::from(packet.wire_bytes);
    }

    /// Takes the packet with a number out of a queue.
    pub(super) fn remove(&mut self, queue: QueueId, number: u64) -> Option<Waiting> {
        let waiting = self.queues[usize::from(queue.0)].remove(&number)?;
        self.places.remove(&waiting.id);
        self.flows.remove(&(queue, waiting.packet.flow, number));
        let backlog = &mut self.backlogs[usize::from(queue.0)];
        backlog.packets -= 1;
        backlog.bytes -= u64::from(waiting.packet.wire_bytes);
        Some(waiting)
    }

    /// The packet that the kernel knows by `id`.
    pub(super) fn get(&self, id: u64) -> Option<Waiting> {
        let (queue, number) = self.places.get(&id)?;
        self.queues[usize::from(queue.0)].get(number).copied()
    }

    /// The first packet of a queue.
    pub(super) fn first(&self, queue: QueueId) -> Option<Waiting> {
        self.queues[usize::from(queue.0)].first_key_value().map(|(_, waiting)| *waiting)
    }

    /// The first packet of a flow in a queue.
    pub(super) fn first_of(&self, queue: QueueId, flow: FlowId) -> Option<Waiting> {
        let (_, _, number) = self.flows.range((queue, flow, 0)..=(queue, flow, u64::MAX)).next()?;
        self.queues[usize::from(queue.0)].get(number).copied()
    }

    pub(super) fn backlog(&self, queue: QueueId) -> Backlog {
        self.backlogs[usize::from(queue.0)]
    }

    /// How many packets wait in all queues.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// All packets, in no order that means anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.queues.iter().flat_map(BTreeMap::values)
    }
}
