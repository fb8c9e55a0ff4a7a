//! The PI controller of PI2 and DualPI2: one probability p', moved by how far the queueing delay is from the target and
//! how it changed. Scalable traffic is marked with k p', classic traffic with p'^2. Source: the kernel's
//! `net/sched/sch_dualpi2.c` (`calculate_probability`), in the same integers; K. De Schepper et al., "PI2",
//! CoNEXT 2016.
//!
//! Unlike there, a step of more than the whole range of p' saturates; the kernel cuts it to 32 bits (a delay that grows
//! by more than 0.3 s between two updates).

use weir_core::{Duration, Random};

/// A probability of one (`MAX_PROB`).
pub(crate) const ONE: u32 = u32::MAX;
/// Gains are in units of 2^-32 for so many nanoseconds (`ALPHA_BETA_GRANULARITY`), as a shift.
const GRANULARITY: u32 = 6;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pi {
    /// p', of `ONE`.
    pub(crate) prob: u32,
    /// The delay at the last update, in nanoseconds.
    last: u64,
    target: u64,
    alpha: u32,
    beta: u32,
    /// What p' is kept to.
    most: u32,
}

/// A gain in Hz as the kernel holds it: rounded to a 256th, then in units of 2^-32 for 64 ns.
fn gain(hertz: f64) -> u32 {
    let netlink = (hertz * 256.0).round() as u64;
    (((netlink * u64::from(ONE)) >> (8 - GRANULARITY)) / 1_000_000_000) as u32
}

impl Pi {
    /// A controller with gains in Hz from 0 to 1000.
    pub(crate) fn new(target: Duration, alpha: f64, beta: f64, most: u32) -> Self {
        Self { prob: 0, last: 0, target: target.as_nanos(), alpha: gain(alpha), beta: gain(beta), most }
    }

    /// Moves p' for a queueing delay. Returns whether it is at rest: the same would follow from the same delay, or, at
    /// the upper end, from any longer one.
    pub(crate) fn update(&mut self, delay: Duration) -> bool {
        let before = self.clone();
        let delay = delay.as_nanos();
        let far = i128::from(delay) - i128::from(self.target);
        let growth = i128::from(delay) - i128::from(self.last);
        let delta = far * i128::from(self.alpha) + growth * i128::from(self.beta);
        let prob = i128::from(self.prob) + delta / (1 << GRANULARITY);
        self.prob = prob.clamp(0, i128::from(self.most)) as u32;
        self.last = delay;
        *self == before || (self.prob == self.most && before.prob == self.most && delay >= self.target)
    }

    /// Whether the delay has been zero at the last update.
    pub(crate) fn was_idle(&self) -> bool {
        self.last == 0
    }
}

/// A coin that falls on true with a probability of `prob` (`dualpi2_roll`; 2^-32 more, so zero is not quite never).
pub(crate) fn roll(random: &mut Random, prob: u32) -> bool {
    (random.next_u64() >> 32) as u32 <= prob
}

#[cfg(test)]
mod tests {
    use super::{ONE, Pi, gain, roll};
    use weir_core::{Duration, Seed};

    #[test]
    fn the_default_gains_are_the_kernels_integers() {
        assert_eq!((gain(0.16), gain(3.2)), (44, 879));
        assert_eq!((gain(0.15625), gain(3.1953125)), (42, 878));
    }

    #[test]
    fn updates_by_hand() {
        let ms = Duration::from_millis;
        let mut pi = Pi::new(ms(15), 0.16, 3.2, ONE);
        // (20 - 15) ms x 44 / 64 + 20 ms x 879 / 64.
        pi.update(ms(20));
        assert_eq!(u64::from(pi.prob), (5_000_000 * 44 + 20_000_000 * 879) / 64);
        let first = u64::from(pi.prob);
        // Below target and falling; the kernel rounds the step towards zero.
        pi.update(ms(14));
        assert_eq!(u64::from(pi.prob), first - (1_000_000 * 44 + 6_000_000 * 879) / 64);
        assert!(!pi.was_idle());
        while pi.prob > 0 {
            pi.update(ms(0));
        }
        assert!(pi.update(ms(0)) && pi.was_idle());
        // A jump by a second is more than the whole range, and stays at its end.
        assert!(!pi.update(ms(1000)));
        assert_eq!(pi.prob, ONE);
        assert!(pi.update(ms(1016)));
    }

    #[test]
    fn coins_are_fair() {
        let mut random = Seed::default().stream("test");
        let count = (0..100_000).filter(|_| roll(&mut random, ONE / 4)).count();
        assert!((24_500..25_500).contains(&count), "{count}");
        assert!((0..1000).all(|_| roll(&mut random, ONE)));
    }
}
