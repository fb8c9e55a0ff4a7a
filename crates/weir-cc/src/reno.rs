//! Reno: one packet more per round trip, half the window after a loss or mark (RFC 5681; the kernel's `tcp_reno_*` in
//! `net/ipv4/tcp_cong.c`, with the same integers). QUIC's NewReno (RFC 9002 section 7) is this rule in [`Rfc9002`].
//!
//! | kernel | here |
//! |---|---|
//! | window counted in segments, `snd_cwnd_cnt` | the same |
//! | slow start by the number of packets acknowledged, no limit per ACK (RFC 3465 with L unbounded) | the same |
//! | `max(cwnd / 2, 2)` | the same |
//!
//! [`Rfc9002`]: crate::Rfc9002

use weir_core::Time;

use crate::{Ack, EcnUse, Signal, Window, WindowRule};

/// Reno's rule.
#[derive(Clone, Copy, Debug)]
pub struct Reno {
    ecn: EcnUse,
}

impl Reno {
    /// The rule for a sender that takes part in ECN as `ecn` says.
    pub const fn new(ecn: EcnUse) -> Self {
        Self { ecn }
    }
}

impl WindowRule for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    fn ecn(&self) -> EcnUse {
        self.ecn
    }

    fn grow(&mut self, window: &mut Window, acked: u32, _ack: &Ack) {
        let mut acked = acked;
        if window.in_slow_start() {
            acked = window.slow_start(acked);
        }
        if acked > 0 {
            window.avoid(window.packets, acked);
        }
    }

    fn reduce(&mut self, window: &Window, _signal: Signal, _now: Time) -> u32 {
        (window.packets / 2).max(2)
    }
}
