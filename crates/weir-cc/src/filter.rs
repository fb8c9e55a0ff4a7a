//! A running maximum over a window of time or rounds in constant space (Kathleen Nichols' algorithm; the kernel's
//! `lib/win_minmax.c` keeps the same three samples): the best of the window, and the best of what came after it, twice.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    at: u64,
    value: u64,
}

/// The largest value of the last `window` steps of some counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MaxFilter {
    best: [Sample; 3],
}

impl MaxFilter {
    /// The maximum.
    pub(crate) const fn get(&self) -> u64 {
        self.best[0].value
    }

    /// Takes note of `value` at step `at`, and returns the maximum of the `window` steps before.
    pub(crate) fn update(&mut self, window: u64, at: u64, value: u64) -> u64 {
        let sample = Sample { at, value };
        if value >= self.best[0].value || at.wrapping_sub(self.best[2].at) > window {
            self.best = [sample; 3];
            return value;
        }
        if value >= self.best[1].value {
            (self.best[1], self.best[2]) = (sample, sample);
        } else if value >= self.best[2].value {
            self.best[2] = sample;
        }
        self.age(window, sample);
        self.get()
    }

    /// Lets the successors step up when the best is too old, or looks for new ones when they are as old as it is.
    fn age(&mut self, window: u64, sample: Sample) {
        let age = sample.at - self.best[0].at;
        if age > window {
            self.best = [self.best[1], self.best[2], sample];
            if sample.at - self.best[0].at > window {
                self.best = [self.best[1], self.best[2], sample];
            }
        } else if self.best[1].at == self.best[0].at && age > window / 4 {
            (self.best[1], self.best[2]) = (sample, sample);
        } else if self.best[2].at == self.best[1].at && age > window / 2 {
            self.best[2] = sample;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MaxFilter;
    use crate::testing::random;

    #[test]
    fn a_maximum_lives_for_its_window() {
        let mut filter = MaxFilter::default();
        assert_eq!(filter.update(10, 0, 100), 100);
        for at in 1..=10 {
            assert_eq!(filter.update(10, at, 50 + at), 100, "at {at}");
        }
        assert_eq!(filter.update(10, 11, 40), 60);
    }

    #[test]
    fn it_never_exceeds_the_true_maximum_and_is_never_below_the_newest() {
        let mut random = random("filter");
        let mut filter = MaxFilter::default();
        let mut values = Vec::new();
        for at in 0..2_000 {
            let value = random.below(1_000);
            values.push(value);
            let got = filter.update(10, at, value);
            let since = values.len().saturating_sub(11);
            let truth = values[since..].iter().copied().max().unwrap();
            assert!(got <= truth && got >= value, "at {at}: {got}, truth {truth}");
        }
    }
}
