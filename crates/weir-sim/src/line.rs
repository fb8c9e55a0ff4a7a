//! What is on its way beside the packets that bear its numbers.

use std::collections::VecDeque;

/// Overtaken ones that are remembered, if any are: more than come between two packets in any network that reorders
/// sensibly.
const REMEMBERED: usize = 1024;

/// What is on its way, in the order of its numbers. One that arrives reports all that those before it reported.
#[derive(Clone, Debug)]
pub(crate) struct Line<T> {
    entries: VecDeque<(u64, T)>,
    /// Those with lower numbers have arrived or have been overtaken by one that has.
    arrived: u64,
    /// Of these, so many can still be looked up.
    remembered: usize,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), arrived: 0, remembered: 0 }
    }
}

impl<T: Copy> Line<T> {
    /// From now on some of those that were overtaken can be looked up.
    pub(crate) fn remember(&mut self) {
        self.remembered = REMEMBERED;
    }

    /// Whether it does.
    pub(crate) fn remembers(&self) -> bool {
        self.remembered > 0
    }

    /// One more sets out; its number is above all others.
    pub(crate) fn push(&mut self, number: u64, entry: T) {
        self.entries.push_back((number, entry));
    }

    /// The one with this number.
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        let place = self.entries.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(&self.entries[place].1)
    }

    /// The one with this number has arrived: it, if nothing has overtaken it.
    pub(crate) fn take(&mut self, number: u64) -> Option<T> {
        if number < self.arrived {
            return None;
        }
        self.arrived = number + 1;
        let taken = self.get(number).copied();
        let old = self.entries.partition_point(|(other, _)| *other <= number);
        self.entries.drain(..old.saturating_sub(self.remembered));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, REMEMBERED};

    #[test]
    fn what_was_overtaken_is_not_taken_but_may_be_looked_up() {
        for remembers in [false, true] {
            let mut line = Line::default();
            if remembers {
                line.remember();
            }
            for number in [1, 2, 4, 5] {
                line.push(number, number);
            }
            assert_eq!((line.take(2), line.take(1), line.take(3)), (Some(2), None, None));
            assert_eq!(
                [1, 2, 3, 4].map(|number| line.get(number).is_some()),
                [remembers, remembers, false, true]
            );
            assert_eq!(line.take(5), Some(5));
            for number in 6..5000 {
                line.push(number, number);
                assert_eq!(line.take(number), Some(number));
            }
            assert_eq!(line.entries.len(), if remembers { REMEMBERED } else { 0 });
        }
    }
}
