//! Which packets of the stream have arrived.

use std::collections::VecDeque;

use super::notes::Blocks;

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

    /// Whether something has arrived beyond a gap.
    pub(crate) fn has_gap(&self) -> bool {
        !self.beyond.is_empty()
    }

    fn has(&self, number: u64) -> bool {
        let word = |number: u64| (number / 64).checked_sub(self.next / 64);
        number < self.next
            || word(number)
                .and_then(|at| self.beyond.get(at as usize))
                .is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// The runs beyond the first gap: that of `newest` first, then the highest.
    pub(crate) fn blocks(&self, newest: u64) -> Blocks {
        let mut blocks = Blocks::default();
        let run = |last: u64| {
            let first = (self.next..last).rev().take_while(|number| self.has(*number)).last().unwrap_or(last);
            let end = (last + 1..).take_while(|number| self.has(*number)).last().unwrap_or(last) + 1;
            (first, end)
        };
        let mut count = 0;
        if newest > self.next && self.has(newest) {
            blocks[0] = run(newest);
            count = 1;
        }
        let mut number = self.next / 64 * 64 + self.beyond.len() as u64 * 64;
        while count < blocks.len() && number > self.next {
            number -= 1;
            if self.has(number) {
                let found = run(number);
                number = found.0;
                if found.1 > self.next && found != blocks[0] {
                    blocks[count] = found;
                    count += 1;
                }
            }
        }
        blocks
    }

    /// Adds a number; returns whether it is new.
    #[inline]
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        if number == self.next && self.beyond.is_empty() {
            self.next += 1;
            return true;
        }
        self.insert_beyond(number)
    }

    /// The same where there are gaps.
    fn insert_beyond(&mut self, number: u64) -> bool {
        if number < self.next {
            return false;
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
    fn blocks_are_the_runs_beyond_the_gap() {
        let mut arrived = Arrived::default();
        for number in [0, 1, 4, 5, 9, 70, 71, 130] {
            arrived.insert(number);
        }
        assert_eq!(arrived.blocks(5), [(4, 6), (130, 131), (70, 72)]);
        assert_eq!(arrived.blocks(130), [(130, 131), (70, 72), (9, 10)]);
        assert_eq!(arrived.blocks(1), [(130, 131), (70, 72), (9, 10)]);
        for number in [2, 3, 6, 7, 8] {
            arrived.insert(number);
        }
        assert_eq!((arrived.next(), arrived.blocks(8)), (10, [(130, 131), (70, 72), (0, 0)]));
    }

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
