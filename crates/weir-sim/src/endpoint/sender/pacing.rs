//! When a sender lets packets go that its window has room for.

use weir_core::{Duration, Rate, Time};

use super::{Bunching, Recovery, Sender};

const LARGEST_BURST: u64 = 65_536;
/// A window is spread over the round trip at so much more than a window each, and in bursts so long and of so many packets
/// at least and at most, unless that takes longer than the last one says: as noq-proto 1.4 has it (`pacing.rs`).
const SPREAD: [u128; 2] = [5, 4];
/// `net.ipv4.tcp_pacing_ss_ratio` and `tcp_pacing_ca_ratio`.
const FQ_START: [u128; 2] = [2, 1];
const FQ: [u128; 2] = [6, 5];
const SPREAD_BURST: Duration = Duration::from_millis(2);
const SPREAD_PACKETS: [u64; 2] = [10, 256];
const SPREAD_LONGEST: Duration = Duration::from_millis(10);
/// The tenth packet of a TCP connection is the first that others wait for.
pub(super) const UNPACED: u32 = 9;

impl Sender {
    /// The rate at which it paces payload.
    #[inline]
    pub(super) fn pacing(&self) -> Option<Rate> {
        let most = Some(self.config.max_rate).filter(|rate| *rate < Rate::MAX);
        let own = self.controller.pacing().or_else(|| self.spread());
        own.into_iter().chain(most).min()
    }

    /// The rate at which a window is spread over a round trip, if it is and once one is known.
    fn spread(&self) -> Option<Rate> {
        let [times, per] = match self.config.bunching {
            Bunching::Spread => SPREAD,
            Bunching::Fq if self.delivery.lost() + self.delivery.marked() > 0 => FQ,
            Bunching::Fq => FQ_START,
            Bunching::AtOnce | Bunching::Defer => return None,
        };
        let rtt = self.rtt.smoothed.as_nanos();
        let bits = u128::from(self.controller.window()) * 8 * times / per;
        let rate = (bits * 1_000_000_000).checked_div(u128::from(rtt))?;
        Some(Rate::from_bits_per_sec(u64::try_from(rate).unwrap_or(u64::MAX)))
    }

    /// Bytes of a burst at `rate`.
    fn burst(&self, rate: Rate) -> u64 {
        let mss = u64::from(self.config.mss);
        if self.config.bunching == Bunching::Spread && self.controller.pacing().is_none() {
            let [least, most] = SPREAD_PACKETS.map(|packets| packets * mss);
            let longest = rate.bytes_in(SPREAD_LONGEST).0.max(mss);
            return rate.bytes_in(SPREAD_BURST).0.clamp(least, most).min(longest);
        }
        let lasts = self.controller.burst().unwrap_or(self.config.burst);
        let least = u64::from(self.config.min_burst) * mss;
        rate.bytes_in(lasts).0.clamp(least, LARGEST_BURST.max(least))
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
            self.burst_left = match self.config.autosize {
                true => u64::from(self.autosized()) * u64::from(self.config.mss),
                false => self.burst(rate),
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
