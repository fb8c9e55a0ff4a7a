//! When a sender waits although its window has room: until more can go at once, so that segmentation offload pays.
//!
//! | `tcp_tso_should_defer`, `tcp_tso_autosize` (`net/ipv4/tcp_output.c`) | here |
//! |---|---|
//! | the same without the second term before Linux 5.19 | with [`SenderConfig::autosize`](super::SenderConfig::autosize) |
//! | goes as soon as a super-packet of 1/1024 s at the pacing rate is full, and 64 kB / 2^(shortest round trip / 512 us) more | the same; 2 to 45 segments |
//! | the pacing rate of who does not pace: 1.2 windows a smoothed round trip, two in slow start (`tcp_update_pacing_rate`) | 1.2: the sender does not know the threshold |
//! | or a third of the window is free (`tcp_tso_win_divisor`) | the same |
//! | or all that there is to send may go | the same |
//! | or the last write was more than a millisecond ago | the same |
//! | or the next acknowledgement, a smoothed round trip after the oldest packet in flight, is further away than 1 ms or half a round trip, whichever is shorter (Linux 6.18; half a round trip before) | the same |
//! | or the sender is in Recovery or Loss | while what was found lost has not arrived |

use weir_core::{Duration, Time};

use super::Sender;

/// `sk_gso_max_size`, which a connection begins with.
const GSO_MAX: u64 = 65_536;
const LARGEST: u32 = 45;
/// `sysctl_tcp_min_tso_segs`.
const LEAST: u32 = 2;
/// Windows sent in 1/1024 s at 1.2 windows a round trip, for a round trip of a nanosecond.
const PACING: u64 = 1_200_000_000 >> 10;
const WINDOW_DIVISOR: u64 = 3;
const RECENT: Duration = Duration::from_millis(1);
const SOON: Duration = Duration::from_millis(1);

impl Sender {
    /// Whether the next packet, which the window lets go, waits for others.
    #[inline(always)]
    pub(super) fn waits_for_more(&mut self, now: Time, window: u64) -> bool {
        if self.together > 0 {
            self.together -= 1;
            return false;
        }
        let mss = u64::from(self.config.mss);
        let window = window.min(self.config.window);
        let free = window.saturating_sub(self.in_flight);
        let full = self.super_packet(window) * mss;
        let left = self.writes.end() - self.next;
        let goes = free >= full
            || free >= left.saturating_mul(mss)
            || free.saturating_mul(WINDOW_DIVISOR) >= window
            || self.missing.recovers(self.una)
            || self.is_out_of_step(now);
        if goes {
            self.together = (free.min(full) as u32 / self.config.mss).saturating_sub(1);
        }
        !goes
    }

    /// Segments of a super-packet by `tcp_tso_autosize` of Linux 5.4, 2 to 45: 1/1024 s at the pacing rate, or as long
    /// as the controller says (`tso_segs`).
    pub(super) fn autosized(&self) -> u32 {
        let bytes = match (self.pacing(), self.controller.burst()) {
            (Some(rate), Some(lasts)) => rate.bytes_in(lasts).0,
            (Some(rate), None) => (rate.bits_per_sec() / 8) >> 10,
            (None, _) => {
                let window = self.controller.window().min(self.config.window);
                window.saturating_mul(PACING) / self.oldest_rtt.as_nanos().max(1)
            }
        };
        (bytes.min(GSO_MAX) as u32 / self.config.mss).clamp(LEAST, LARGEST)
    }

    /// Segments of a full super-packet.
    fn super_packet(&self, window: u64) -> u64 {
        if self.config.autosize {
            return u64::from(self.autosized());
        }
        let paced = window.saturating_mul(PACING) / self.oldest_rtt.as_nanos().max(1);
        let near = GSO_MAX >> (self.rtt.shortest.as_nanos() / 512_000).min(32);
        let bytes = paced.saturating_add(near).min(GSO_MAX);
        u64::from((bytes as u32 / self.config.mss).clamp(LEAST, LARGEST))
    }

    /// Whether nothing was sent for a while, or no acknowledgement will come for a while.
    fn is_out_of_step(&self, now: Time) -> bool {
        let sent_at = |number| self.sent.get(number).map(|packet| packet.stamp.sent);
        let end = self.sent.end();
        let last = end.checked_sub(1).and_then(sent_at);
        if last.is_none_or(|last| now.since(last) > RECENT) {
            return true;
        }
        let oldest = (self.doubted.max(self.sent.first())..end).find(|number| self.sent.is_flying(*number));
        let smoothed = self.oldest_rtt;
        oldest.and_then(sent_at).is_none_or(|sent| sent + smoothed > now + SOON.min(smoothed / 2))
    }
}
