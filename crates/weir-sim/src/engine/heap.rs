//! What happens next: a heap with four children a node, ordered by time and, at equal times, by who asked first. A link
//! and each flow have at most a few entries here, since whatever is on its way in order waits in a line of its own, so
//! the heap stays small enough for the fastest cache.
//!
//! Most of what is put down is the end of the packet that a link has just begun to send, which comes next or nearly so.
//! Two things keep it off the heap's longer ways: one entry waits beside the heap as long as nothing earlier comes, and
//! what is taken from the heap leaves a hole at its top, which the next entry fills from there.

use weir_core::Time;

/// Children of a node: four fit two cache lines and halve the depth of a binary heap.
const CHILDREN: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    at: Time,
    /// Order of asking.
    order: u64,
    what: T,
}

impl<T> Entry<T> {
    /// Time in the upper half, order in the lower: one comparison decides.
    fn key(&self) -> u128 {
        u128::from(self.at.as_nanos()) << 64 | u128::from(self.order)
    }
}

/// Things to come.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    entries: Vec<Entry<T>>,
    /// Beside the heap.
    aside: Option<Entry<T>>,
    asked: u64,
    /// The heap's first entry was taken.
    hollow: bool,
}

impl<T: Copy> Agenda<T> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::with_capacity(64), aside: None, asked: 0, hollow: false }
    }

    /// Puts `what` down for `at`.
    #[inline]
    pub(crate) fn add(&mut self, at: Time, what: T) {
        let order = self.asked;
        self.asked += 1;
        match &mut self.aside {
            None => self.aside = Some(Entry { at, order, what }),
            // It was asked later: only an earlier time comes before the other.
            Some(aside) if at < aside.at => {
                let later = std::mem::replace(aside, Entry { at, order, what });
                self.push(later);
            }
            Some(_) => self.push(Entry { at, order, what }),
        }
    }

    /// Takes the next thing if it is due until `latest`.
    #[inline]
    pub(crate) fn take(&mut self, latest: Time) -> Option<(Time, T)> {
        if self.hollow {
            self.close();
        }
        let first = self.entries.first();
        if let Some(aside) = &self.aside
            && first.is_none_or(|first| aside.key() < first.key())
        {
            return if aside.at <= latest {
                self.aside.take().map(|entry| (entry.at, entry.what))
            } else {
                None
            };
        }
        let first = first?;
        if first.at > latest {
            return None;
        }
        self.hollow = true;
        Some((first.at, first.what))
    }

    /// Fills the hole at the top from the heap itself: nothing was put down since.
    #[cold]
    fn close(&mut self) {
        self.hollow = false;
        if let Some(last) = self.entries.pop()
            && !self.entries.is_empty()
        {
            self.sink(last);
        }
    }

    /// Puts an entry onto the heap.
    fn push(&mut self, entry: Entry<T>) {
        if self.hollow {
            self.hollow = false;
            self.sink(entry);
            return;
        }
        let mut hole = self.entries.len();
        self.entries.push(entry);
        while hole > 0 {
            let parent = (hole - 1) / CHILDREN;
            if self.entries[parent].key() < entry.key() {
                break;
            }
            self.entries[hole] = self.entries[parent];
            hole = parent;
        }
        self.entries[hole] = entry;
    }

    /// Puts an entry into the hole at the top, and lets it go down to its place.
    fn sink(&mut self, entry: Entry<T>) {
        let entries = self.entries.as_mut_slice();
        let mut hole = 0;
        loop {
            let begin = hole * CHILDREN + 1;
            let least = if let Some([a, b, c, d]) = entries.get(begin..begin + CHILDREN) {
                let (left, low) = if b.key() < a.key() { (1, b.key()) } else { (0, a.key()) };
                let (right, high) = if d.key() < c.key() { (3, d.key()) } else { (2, c.key()) };
                begin + if high < low { right } else { left }
            } else {
                match (begin..entries.len()).min_by_key(|child| entries[*child].key()) {
                    Some(child) => child,
                    None => break,
                }
            };
            if entry.key() < entries[least].key() {
                break;
            }
            entries[hole] = entries[least];
            hole = least;
        }
        entries[hole] = entry;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
            if at > 0 {
                assert_eq!(agenda.take(Time::from_nanos(at - 1)), None);
            }
            assert_eq!(agenda.take(Time::from_nanos(at)), Some((Time::from_nanos(at), order)));
        }
        assert_eq!(agenda.take(Time::MAX), None);
    }

    #[test]
    fn keeps_its_order_while_things_come_and_go() {
        let mut random = Seed::default().stream("agenda");
        let mut agenda = Agenda::new();
        let mut expected = BTreeSet::new();
        let mut now = 0;
        for order in 0..20_000_u64 {
            // Sometimes several are put down between two that are taken, sometimes none.
            if random.below(5) < 3 || expected.is_empty() {
                let at = now + random.below(40);
                agenda.add(Time::from_nanos(at), order);
                expected.insert((at, order));
            } else {
                let (at, order) = expected.pop_first().unwrap();
                now = at;
                assert_eq!(agenda.take(Time::MAX), Some((Time::from_nanos(at), order)));
            }
        }
    }
}
