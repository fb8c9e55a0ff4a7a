//! When a sender lets packets go that its window has room for.

use weir_core::{Duration, Rate, Time};

use super::{Recovery, Sender};

const LARGEST_BURST: u64 = 65_536;
/// The tenth packet of a TCP connection is the first that others wait for.
pub(super) const UNPACED: u32 = 9;

impl Sender {
    /// The rate at which it paces payload.
    #[inline]
    pub(super) fn pacing(&self) -> Option<Rate> {
        let most = Some(self.config.max_rate).filter(|rate| *rate < Rate::MAX);
        self.controller.pacing().into_iter().chain(most).min()
    }

    /// Whether pacing at `rate` lets `bytes` go now.
    #[inline]
    pub(super) fn pace(&mut self, now: Time, bytes: u32, rate: Rate) -> bool {
        if self.unpaced > 0 {
            self.unpaced -= 1;
            self.next_send = now;
            return true;
        }
        if self.burst_left < u64::from(bytes) {
            if now < self.next_send {
                return false;
            }
            let lasts = self.controller.burst().unwrap_or(self.config.burst);
            let least = u64::from(self.config.min_burst) * u64::from(self.config.mss);
            let burst = rate.bytes_in(lasts).0.clamp(least, LARGEST_BURST.max(least));
            self.burst_left = match self.config.autosize {
                true => u64::from(self.autosized()) * u64::from(self.config.mss),
                false => burst,
            };
            self.late = match self.config.recovery {
                Recovery::Tcp => now.since(self.next_send),
                Recovery::Quic => Duration::ZERO,
            };
            // The next burst may begin when this one would have ended at the rate.
            self.next_send = now;
        }
        self.burst_left -= u64::from(bytes);
        let rate = rate.bits_per_sec().max(1);
        let took = u128::from(bytes) * 8_000_000_000 / u128::from(rate);
        let took = Duration::from_nanos(u64::try_from(took).unwrap_or(u64::MAX));
        let credit = self.late.min(took / 2);
        self.late = self.late - credit;
        self.next_send += took - credit;
        true
    }

    /// When [`poll`](Self::poll) is worth another try for pacing's sake, if nothing else happens.
    #[inline]
    pub(crate) fn paced_until(&self, now: Time) -> Option<Time> {
        let waits = self.next < self.writes.end() || !self.again.is_empty();
        (waits
            && self.next_send > now
            && self.burst_left < u64::from(self.config.mss)
            && self.pacing().is_some()
            && self.in_flight + u64::from(self.config.mss)
                <= self.controller.window().min(self.config.window))
        .then_some(self.next_send)
    }
}
