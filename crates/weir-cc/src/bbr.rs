//! What the versions of BBR share: units, pacing, the bandwidth-delay product, the estimate of aggregated
//! acknowledgements (`net/ipv4/tcp_bbr.c`, all versions).

use weir_core::{Duration, Rate, Time};

use crate::{Ack, RateSample};

/// Bandwidths are in packets per microsecond, times 2^24.
pub(crate) const BW_SCALE: u32 = 24;
/// One packet per microsecond.
pub(crate) const BW_UNIT: u64 = 1 << BW_SCALE;
/// Gains are in units of 1/256.
pub(crate) const UNIT: u64 = 256;
/// Fewest packets in flight.
pub(crate) const MIN_WINDOW: u32 = 4;
/// No bound.
pub(crate) const NONE: u32 = u32::MAX;
/// Pacing stays this many percent below the estimate.
const MARGIN: u64 = 1;
/// `GSO_LEGACY_MAX_SIZE`.
pub(crate) const GSO_MAX: u64 = 65_536;
/// `MAX_TCP_HEADER` on a 64-bit kernel.
pub(crate) const MAX_HEADER: u64 = 320;

pub(crate) fn micros(time: Time) -> u64 {
    time.as_nanos() / 1_000
}

pub(crate) fn micros_of(duration: Duration) -> u64 {
    duration.as_nanos() / 1_000
}

/// Whole packets of `bytes` in flight.
pub(crate) fn packets(bytes: u64, mss: u32) -> u32 {
    bytes.div_ceil(u64::from(mss)).min(u64::from(u32::MAX)) as u32
}

/// `bw` times `gain` in bytes per second, `margin` percent lower; at least 1.
pub(crate) fn bytes_per_second(bw: u64, gain: u64, mss: u32, margin: u64) -> u64 {
    let rate = (u128::from(bw) * u128::from(mss) * u128::from(gain)) >> 8;
    let rate = (rate * u128::from(1_000_000 / 100 * (100 - margin))) >> BW_SCALE;
    rate.clamp(1, u128::from(u64::MAX / 8)) as u64
}

/// What the sender is paced at, in bytes per second.
pub(crate) fn pacing(bw: u64, gain: u64, mss: u32) -> u64 {
    bytes_per_second(bw, gain, mss, MARGIN)
}

pub(crate) fn rate(bytes_per_second: u64) -> Rate {
    Rate::from_bits_per_sec(bytes_per_second.saturating_mul(8))
}

/// Packets that `bw` carries in `us` microseconds times `gain`, rounded up.
pub(crate) fn bdp(bw: u64, us: u64, gain: u64) -> u32 {
    let product = (u128::from(bw) * u128::from(us) * u128::from(gain)) >> 8;
    product.div_ceil(u128::from(BW_UNIT)).min(u128::from(1u32 << 26)) as u32
}

/// How many packets more than expected were acknowledged in a while: what must be in flight beyond the product to
/// bridge the silence before an aggregate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Aggregation {
    /// Maxima of two windows of rounds.
    extra: [u32; 2],
    window: usize,
    rounds: u32,
    epoch_us: u64,
    epoch_acked: u64,
}

impl Aggregation {
    /// Rounds of a window.
    const ROUNDS: u32 = 5;
    /// An epoch of this many packets ends.
    const LARGEST_EPOCH: u64 = 1 << 20;
    /// No more is added than the bandwidth carries in this time.
    const LONGEST_US: u64 = 100_000;

    /// A silence ended.
    pub(crate) fn restart(&mut self, now: Time) {
        (self.epoch_us, self.epoch_acked) = (micros(now), 0);
    }

    /// Takes note of an acknowledgement; a window lasts one round while `short`.
    pub(crate) fn update(&mut self, ack: &Ack, bw: u64, round_start: bool, short: bool, window: u32) {
        if round_start {
            self.rounds = (self.rounds + 1).min(31);
            if self.rounds >= if short { 1 } else { Self::ROUNDS } {
                self.rounds = 0;
                self.window = 1 - self.window;
                self.extra[self.window] = 0;
            }
        }
        let acked = u64::from(ack.delivered.packets);
        let elapsed = micros(ack.now).saturating_sub(self.epoch_us);
        let mut expected = ((u128::from(bw) * u128::from(elapsed)) >> BW_SCALE) as u64;
        if self.epoch_acked <= expected || self.epoch_acked + acked >= Self::LARGEST_EPOCH {
            self.restart(ack.now);
            expected = 0;
        }
        self.epoch_acked = (self.epoch_acked + acked).min(Self::LARGEST_EPOCH - 1);
        let extra = (self.epoch_acked - expected).min(u64::from(window)) as u32;
        self.extra[self.window] = self.extra[self.window].max(extra);
    }

    /// Packets to add to the window.
    pub(crate) fn budget(&self, bw: u64) -> u32 {
        let most = ((u128::from(bw) * u128::from(Self::LONGEST_US)) >> BW_SCALE).min(u128::from(NONE));
        self.extra[0].max(self.extra[1]).min(most as u32)
    }
}

/// Rate samples taken while the controller itself kept the rate low count as limited by the application.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limited {
    from: u64,
    until: u64,
}

impl Limited {
    /// What is in flight now, and all before it is delivered, is limited.
    pub(crate) fn extend(&mut self, total_delivered: u64, in_flight: u32) {
        if total_delivered > self.until {
            self.from = total_delivered;
        }
        self.until = (total_delivered + u64::from(in_flight)).max(1);
    }

    pub(crate) fn covers(&self, sample: &RateSample) -> bool {
        sample.app_limited || (self.from..=self.until).contains(&sample.prior_delivered) && self.until > 0
    }
}

#[cfg(test)]
mod tests {
    use super::{BW_UNIT, UNIT, bdp, pacing};

    #[test]
    fn units_are_the_kernels() {
        // 1 Gbit/s of 1448-byte payload: 0.08633 packets per microsecond.
        let bw = BW_UNIT * 125 / 1448;
        assert_eq!(pacing(bw, UNIT, 1448), 123_749_966);
        assert_eq!(bdp(bw, 10_000, UNIT), 864);
        assert_eq!(bdp(bw, 10_000, 2 * UNIT), 1_727);
        // Rounded up, so that a tiny product does not stop the flow.
        assert_eq!(bdp(1, 1, UNIT), 1);
    }
}
