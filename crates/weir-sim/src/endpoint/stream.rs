//! Which packets of the stream have arrived.

use std::collections::VecDeque;

/// A set of packet numbers that is nearly always "all below one number".
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrived {
    /// All below have arrived.
    next: u64,
    /// Bits for those from `next / 64 * 64` on.
    beyond: VecDeque<u64>,
}

impl Arrived {
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Adds a number; tells whether it is new.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        if number < self.next {
            return false;
        }
        if number == self.next && self.beyond.is_empty() {
            self.next += 1;
            return true;
        }
        let word = (number / 64 - self.next / 64) as usize;
        if word >= self.beyond.len() {
            self.beyond.resize(word + 1, 0);
        }
        let bit = 1 << (number % 64);
        if self.beyond[word] & bit != 0 {
            return false;
        }
        self.beyond[word] |= bit;
        while let Some(first) = self.beyond.front().copied() {
            if first >> (self.next % 64) & 1 == 0 {
                break;
            }
            self.next += 1;
            if self.next.is_multiple_of(64) {
                self.beyond.pop_front();
            }
        }
        // Nothing is held beyond the first gap: back to the short way.
        if self.beyond.len() == 1 && self.beyond[0] >> (self.next % 64) == 0 {
            self.beyond.clear();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Arrived;
    use std::collections::BTreeSet;
    use weir_core::Seed;

    #[test]
    fn holds_what_was_put_in() {
        let mut random = Seed::default().stream("arrived");
        let (mut arrived, mut model) = (Arrived::default(), BTreeSet::new());
        for round in 0..20_000_u64 {
            // Around the front, with gaps that are filled late.
            let number = (round / 2).saturating_sub(40) + random.below(80);
            assert_eq!(arrived.insert(number), model.insert(number), "{number}");
            let mut next = arrived.next();
            assert!(!model.contains(&next));
            next = next.saturating_sub(1);
            assert!(next == 0 || model.contains(&next));
        }
        assert_eq!((0..arrived.next()).filter(|number| !model.contains(number)).count(), 0);
    }
}
