//! Timers of a host that counts them in ticks, as Linux does: late by up to a tick or two while they are short, by up
//! to some seventh where they are long.
//!
//! | source | here |
//! |---|---|
//! | `usecs_to_jiffies` rounds up | the same |
//! | the wheel: 63 ticks at one tick's precision, the next 441 at eight, then 64, 512 and so on, each rounded up past the next boundary (`calc_wheel_index`, `kernel/time/timer.c`) | the same, without an end |
//! | a tail probe, and the wait for reordered packets, last two ticks longer (`TCP_TIMEOUT_MIN`) | [`Ticks::LEAST`] |
//! | ticks of a host begin when it has booted | all hosts' begin at zero |

use std::num::NonZeroU16;

use weir_core::{Duration, Time};

/// Ticks on the finest level of the wheel.
const FINEST: u64 = 63;
/// Ticks of a level in one of the level above, as a power of two.
const LEVEL: u32 = 3;

/// The ticks of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// In a second.
    hz: NonZeroU16,
}

impl Ticks {
    /// Ticks that some of TCP's timers wait at least.
    pub(super) const LEAST: u64 = 2;

    /// `hz` ticks a second (`CONFIG_HZ`); none of zero.
    pub fn per_second(hz: u16) -> Option<Self> {
        NonZeroU16::new(hz).map(|hz| Self { hz })
    }

    /// How long one lasts.
    fn nanos(self) -> u64 {
        1_000_000_000 / u64::from(self.hz.get())
    }

    /// How long so many ticks last.
    pub(super) fn last(self, ticks: u64) -> Duration {
        Duration::from_nanos(self.nanos()) * ticks
    }

    /// When a timer fires that is set at `from` to `wait`.
    pub(super) fn fires(self, from: Time, wait: Duration) -> Time {
        let ticks = wait.as_nanos().div_ceil(self.nanos());
        let expires = from.as_nanos() / self.nanos() + ticks;
        let mut shift = 0;
        while ticks >= FINEST << shift {
            shift += LEVEL;
        }
        let slot = (expires >> shift) + 1;
        Time::from_nanos((slot << shift).saturating_mul(self.nanos()))
    }
}

#[cfg(test)]
mod tests {
    use super::Ticks;
    use weir_core::{Duration, Time};

    fn millis(from: u64, wait: u64) -> u64 {
        let ticks = Ticks::per_second(250).unwrap();
        let from = Time::ZERO + Duration::from_millis(from);
        let fires = ticks.fires(from, Duration::from_millis(wait));
        assert!(fires > from + Duration::from_millis(wait), "never early");
        fires.as_nanos() / 1_000_000
    }

    #[test]
    fn timers_fire_at_the_tick_behind_their_time() {
        // The tick at which they are due is taken for one that has begun.
        assert_eq!([millis(0, 200), millis(1, 200), millis(3, 201), millis(4, 248)], [204, 204, 208, 256]);
    }

    #[test]
    fn long_timers_are_rounded_to_the_next_slot_of_their_level() {
        // From 63 ticks of 4 ms on in steps of 32 ms, from 504 on in steps of 256 ms.
        assert_eq!([millis(0, 252), millis(0, 256), millis(0, 416), millis(4, 412)], [256, 288, 448, 448]);
        assert_eq!([millis(0, 2012), millis(0, 2016), millis(0, 6400)], [2016, 2048, 6656]);
    }

    #[test]
    fn none_are_counted_at_no_frequency() {
        assert_eq!(Ticks::per_second(0), None);
    }
}
