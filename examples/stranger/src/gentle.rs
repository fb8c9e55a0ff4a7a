//! Reno that keeps 70 percent of its window after a signal, where RFC 5681 keeps half.

use weir_cc::{Ack, EcnUse, Signal, Window, WindowRule};
use weir_core::Time;

/// The rule.
#[derive(Clone, Copy, Debug)]
pub struct Gentle;

impl WindowRule for Gentle {
    fn name(&self) -> &'static str {
        "gentle"
    }

    fn ecn(&self) -> EcnUse {
        EcnUse::Off
    }

    fn grow(&mut self, window: &mut Window, acked: u32, _: &Ack) {
        let left = if window.in_slow_start() { window.slow_start(acked) } else { acked };
        window.avoid(window.packets, left);
    }

    fn reduce(&mut self, window: &Window, _: Signal, _: Time) -> u32 {
        (window.packets * 7 / 10).max(2)
    }
}
