//! The flow table: a fixed number of entries found by key, all memory taken at the start.
//!
//! Open addressing over indexes into dense entries, so that a [`FlowId`] is an array index and is never used for
//! another key. Entries are never evicted. Where the prototype's map falls silent when full, this one counts.

use std::hash::{DefaultHasher, Hasher};

use weir_core::FlowId;

use crate::ffi;

/// A lookup looks at no more slots than this, so that chosen keys cannot make it slow.
const MAX_PROBES: usize = 128;

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: ffi::Key,
    /// Whether forward packets go from the key's low end to its high end.
    pub(crate) ascending: bool,
    /// The protocol of the first packet; the key has none where the law does not distinguish protocols.
    pub(crate) protocol: u8,
    /// When its last forward packet arrived, in nanoseconds.
    pub(crate) last_seen: u64,
    pub(crate) flow: ffi::Flow,
}

#[derive(Clone, Debug)]
pub(crate) struct Table {
    slots: Vec<u32>,
    entries: Vec<Entry>,
    capacity: usize,
    seed: u64,
}

/// What a lookup found.
pub(crate) enum Found {
    Entry(FlowId),
    /// No entry, and where it would go.
    Free(usize),
    Full,
}

impl Table {
    /// Room for `capacity` flows. Slots are half empty at most full, so probes stay short.
    pub(crate) fn new(capacity: usize, seed: u64) -> Self {
        let capacity = capacity.min(1 << 30);
        let slots = (capacity * 2).next_power_of_two().max(2);
        Self { slots: vec![u32::MAX; slots], entries: Vec::with_capacity(capacity), capacity, seed }
    }

    fn hash(&self, key: &ffi::Key) -> usize {
        // One write of whole words is cheaper by some 260 instructions than one for each part.
        let mut words = [0; 48];
        words[..8].copy_from_slice(&self.seed.to_ne_bytes());
        words[8..24].copy_from_slice(&key.low);
        words[24..40].copy_from_slice(&key.high);
        words[40..42].copy_from_slice(&key.low_port.to_ne_bytes());
        words[42..44].copy_from_slice(&key.high_port.to_ne_bytes());
        words[44] = key.protocol;
        let mut hasher = DefaultHasher::new();
        hasher.write(&words);
        hasher.finish() as usize
    }

    pub(crate) fn find(&self, key: &ffi::Key) -> Found {
        let mask = self.slots.len() - 1;
        let start = self.hash(key);
        for probe in 0..MAX_PROBES.min(self.slots.len()) {
            let slot = start.wrapping_add(probe) & mask;
            match self.slots[slot] {
                u32::MAX if self.entries.len() < self.capacity => return Found::Free(slot),
                u32::MAX => return Found::Full,
                index if self.entries[index as usize].key == *key => return Found::Entry(FlowId(index)),
                _ => {}
            }
        }
        Found::Full
    }

    /// Makes an entry in the free slot that [`Table::find`] gave for this key.
    pub(crate) fn insert(&mut self, slot: usize, key: ffi::Key, ascending: bool, protocol: u8) -> FlowId {
        let index = self.entries.len() as u32;
        let flow = ffi::Flow::default();
        self.entries.push(Entry { key, ascending, protocol, last_seen: 0, flow });
        self.slots[slot] = index;
        FlowId(index)
    }

    pub(crate) fn get(&self, flow: FlowId) -> Option<&Entry> {
        self.entries.get(flow.0 as usize)
    }

    pub(crate) fn get_mut(&mut self, flow: FlowId) -> Option<&mut Entry> {
        self.entries.get_mut(flow.0 as usize)
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}
