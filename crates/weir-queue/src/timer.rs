//! A periodic timer for code without a clock: what was due is done when somebody next calls. A queue changes only in
//! calls, so this comes to the same as a timer that fires on time: each tick sees the queue as it was at its moment.
//! A tick at the very time of a call comes before the call.

use weir_core::{Duration, Time};

/// Ticks every `period`.
#[derive(Clone, Debug)]
pub struct Timer {
    next: Time,
    period: Duration,
}

impl Timer {
    /// A timer that first ticks at `first` after time zero. `period` is above zero.
    pub const fn new(first: Duration, period: Duration) -> Self {
        Self { next: Time::from_nanos(first.as_nanos()), period }
    }

    /// Runs `tick` for every tick up to `now`, with its time. A tick that returns true has found that all that follow
    /// until the next call would do the same: then only the last of them is run, so that a call after a long pause does
    /// no more work than it takes the controller to come to rest.
    pub fn run(&mut self, now: Time, mut tick: impl FnMut(Time) -> bool) {
        while self.next <= now {
            let at_rest = tick(self.next);
            self.next += self.period;
            if at_rest && self.next <= now {
                let skipped = now.since(self.next).as_nanos() / self.period.as_nanos();
                self.next += self.period * skipped;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Timer;
    use weir_core::{Duration, Time};

    #[test]
    fn ticks_come_in_time_and_rest_is_skipped() {
        let mut timer = Timer::new(Duration::from_nanos(5), Duration::from_nanos(10));
        let mut seen = Vec::new();
        let mut run = |now, rest_from: u64| {
            timer.run(Time::from_nanos(now), |at| {
                seen.push(at.as_nanos());
                at.as_nanos() >= rest_from
            });
        };
        run(4, 0);
        run(25, u64::MAX);
        run(1_000, 35);
        run(1_004, 0);
        run(1_005, u64::MAX);
        assert_eq!(seen, [5, 15, 25, 35, 995, 1005]);
    }
}
