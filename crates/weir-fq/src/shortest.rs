//! A minimum over time that costs no memory for samples: of the present half of [`WINDOW`] and of the last one. It
//! forgets a value after half of the window at the earliest and the whole at the latest, so that a path that has become
//! longer is soon known to be.

use weir_core::{Duration, Time};

/// Shortest delays and round trips are of the last so long.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);

/// The smallest value of [`WINDOW`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shortest<T> {
    /// Of the present half and of the last one.
    halves: [Option<T>; 2],
    /// When the present half began.
    since: Time,
}

impl<T: Copy + Ord> Shortest<T> {
    /// Takes note of a value at `now`, and returns the smallest.
    pub(crate) fn saw(&mut self, now: Time, value: T) -> T {
        if now.since(self.since) > WINDOW / 2 {
            self.halves = [None, self.halves[0]];
            self.since = now;
        }
        self.halves[0] = Some(self.halves[0].map_or(value, |shortest| shortest.min(value)));
        self.get().unwrap_or(value)
    }

    /// The smallest; none before the first value.
    pub(crate) fn get(&self) -> Option<T> {
        self.halves.into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use weir_core::{Duration, Time};

    use super::Shortest;

    #[test]
    fn a_minimum_lives_for_half_the_window_to_the_whole() {
        let mut shortest = Shortest::default();
        let at = |second| Time::ZERO + Duration::from_secs(second);
        assert_eq!(shortest.get(), None);
        let seen = [(1, 7), (2, 3), (4, 9), (6, 8), (10, 5), (12, 6), (18, 9)];
        let smallest = seen.map(|(second, value)| shortest.saw(at(second), value));
        assert_eq!(smallest, [7, 3, 3, 3, 3, 5, 6]);
        assert_eq!(shortest.get(), Some(6));
    }
}
