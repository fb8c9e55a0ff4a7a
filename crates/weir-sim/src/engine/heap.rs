//! What happens next: a heap with four children a node, ordered by time and, at equal times, by who asked first. A link and
//! each flow have at most a few entries here, since whatever is on its way in order waits in a line of its own, so the heap
//! stays small enough for the fastest cache.

use weir_core::Time;

/// Children of a node: four fit a cache line and halve the depth of a binary heap.
const CHILDREN: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    /// Time in the upper half, order of asking in the lower: one comparison decides.
    key: u128,
    what: T,
}

/// Things to come.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    entries: Vec<Entry<T>>,
    asked: u64,
}

impl<T: Copy> Agenda<T> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::with_capacity(64), asked: 0 }
    }

    /// Puts `what` down for `at`.
    pub(crate) fn add(&mut self, at: Time, what: T) {
        let key = u128::from(at.as_nanos()) << 64 | u128::from(self.asked);
        self.asked += 1;
        let entry = Entry { key, what };
        let mut hole = self.entries.len();
        self.entries.push(entry);
        while hole > 0 {
            let parent = (hole - 1) / CHILDREN;
            if self.entries[parent].key < key {
                break;
            }
            self.entries[hole] = self.entries[parent];
            hole = parent;
        }
        self.entries[hole] = entry;
    }

    /// When the next thing is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.entries.first().map(|entry| Time::from_nanos((entry.key >> 64) as u64))
    }

    /// Takes the next thing.
    pub(crate) fn take(&mut self) -> Option<(Time, T)> {
        let first = *self.entries.first()?;
        let last = self.entries.pop()?;
        let count = self.entries.len();
        if count > 0 {
            let mut hole = 0;
            loop {
                let begin = hole * CHILDREN + 1;
                if begin >= count {
                    break;
                }
                let end = (begin + CHILDREN).min(count);
                let mut least = begin;
                for child in begin + 1..end {
                    if self.entries[child].key < self.entries[least].key {
                        least = child;
                    }
                }
                if last.key < self.entries[least].key {
                    break;
                }
                self.entries[hole] = self.entries[least];
                hole = least;
            }
            self.entries[hole] = last;
        }
        Some((Time::from_nanos((first.key >> 64) as u64), first.what))
    }
}

#[cfg(test)]
mod tests {
    use super::Agenda;
    use weir_core::{Seed, Time};

    #[test]
    fn comes_in_order_of_time_and_then_of_asking() {
        let mut random = Seed::default().stream("agenda");
        let mut agenda = Agenda::new();
        let mut expected = Vec::new();
        for order in 0..5_000_u32 {
            let at = random.below(300);
            agenda.add(Time::from_nanos(at), order);
            expected.push((at, order));
        }
        expected.sort_unstable();
        for (at, order) in expected {
            assert_eq!(agenda.next(), Some(Time::from_nanos(at)));
            assert_eq!(agenda.take(), Some((Time::from_nanos(at), order)));
        }
        assert_eq!(agenda.take(), None);
    }
}
