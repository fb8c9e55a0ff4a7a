//! What was declared lost and has not arrived since, and how long the kernel's TCP recovers from it (`lost_out` and
//! `high_seq` of `net/ipv4/tcp_input.c`).

use std::collections::VecDeque;

/// Packets of the stream, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Missing {
    line: VecDeque<u64>,
    /// Recovery lasts until the stream has arrived up to here.
    until: u64,
}

impl Missing {
    pub(super) fn count(&self) -> u32 {
        self.line.len() as u32
    }

    /// Whether a stream that has arrived up to `una` is still being repaired.
    pub(super) fn recovers(&self, una: u64) -> bool {
        una < self.until
    }

    /// A packet is declared lost; the stream has arrived up to `una` and was sent up to `next`.
    pub(super) fn lose(&mut self, sequence: u64, una: u64, next: u64) {
        if let Err(place) = self.line.binary_search(&sequence) {
            self.line.insert(place, sequence);
        }
        self.go_on(una, next);
    }

    /// All that was sent, up to `next`, is held lost: that is to be repaired, whatever was before.
    pub(super) fn time_out(&mut self, next: u64) {
        self.until = next;
    }

    /// A packet has arrived.
    #[inline]
    pub(super) fn found(&mut self, sequence: u64) {
        if !self.line.is_empty()
            && let Ok(place) = self.line.binary_search(&sequence)
        {
            self.line.remove(place);
        }
    }

    /// The stream has arrived up to `una`.
    #[inline]
    pub(super) fn advance(&mut self, una: u64, next: u64) {
        while self.line.front().is_some_and(|sequence| *sequence < una) {
            self.line.pop_front();
        }
        self.go_on(una, next);
    }

    /// A recovery that ends with something missing is followed by the next.
    #[inline]
    fn go_on(&mut self, una: u64, next: u64) {
        if una >= self.until && !self.line.is_empty() {
            self.until = next;
        }
    }

    pub(super) fn fit(&mut self) {
        self.line.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::Missing;

    #[test]
    fn a_recovery_goes_on_while_something_is_missing() {
        let mut missing = Missing::default();
        missing.lose(3, 3, 10);
        assert!(missing.recovers(3));
        // Lost a second time it is still one packet; another of what was sent meanwhile.
        missing.lose(3, 3, 12);
        missing.lose(11, 3, 14);
        assert_eq!(missing.count(), 2);
        missing.found(3);
        missing.advance(11, 15);
        // The first recovery was to end at 10; packet 11 begins the next, up to 15.
        assert_eq!((missing.count(), missing.recovers(14), missing.recovers(15)), (1, true, false));
        missing.advance(16, 16);
        assert_eq!((missing.count(), missing.recovers(16)), (0, false));
    }
}
