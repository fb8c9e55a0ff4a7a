//! The arithmetic of Curvy RED: probabilities as straight lines of the queueing delay, compared with one random number
//! for scalable traffic and with the larger of two for classic traffic, which squares them. So many random numbers are
//! the curviness u, the exponent of the curve. Source: the DualQ paper ("Data Centre to the Home"), sections 2.2 and 5,
//! figure 3 and Algorithm 1; RFC 9332 appendix B.
//!
//! The sources scale by powers of two of a second, so that a line ends at 2^-S seconds; here that end is given as a
//! time.

use weir_core::{Duration, Random};

/// A probability of one.
const ONE: u64 = 1 << 32;

/// How far `delay` is along a line from 0 at `from` to 1 at `from + range`, in units of 2^-32. `range` is above zero.
pub(crate) fn ramp(delay: Duration, from: Duration, range: Duration) -> u64 {
    let above = u128::from(delay.as_nanos().saturating_sub(from.as_nanos()));
    let part = (above << 32) / u128::from(range.as_nanos());
    part.min(u128::from(ONE)) as u64
}

fn draw(random: &mut Random) -> u64 {
    random.next_u64() >> 32
}

/// True with a probability of `part` to the power of `curviness`: if it exceeds so many random numbers.
pub(crate) fn exceeds(part: u64, curviness: u8, random: &mut Random) -> bool {
    // All are drawn, so that a packet takes as many draws whatever comes out.
    (0..curviness).fold(true, |above, _| (part > draw(random)) & above)
}

/// The smoothed delay of the classic queue: an exponentially weighted moving average over departures (`Q_C`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Smoothed {
    nanos: i64,
}

impl Smoothed {
    /// Takes a departure with a weight of 2^-`shift` and returns the average.
    pub(crate) fn add(&mut self, delay: Duration, shift: u8) -> Duration {
        let sample = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
        self.nanos += (sample - self.nanos) >> shift;
        self.get()
    }

    pub(crate) fn get(&self) -> Duration {
        Duration::from_nanos(self.nanos.max(0) as u64)
    }
}

#[cfg(test)]
mod tests;
