//! Rules for a congestion window in packets: what an additive-increase multiplicative-decrease controller is, apart
//! from what its transport does around a reduction. The kernel's counterpart is `struct tcp_congestion_ops` with
//! `tcp_slow_start()` and `tcp_cong_avoid_ai()` (`net/ipv4/tcp_cong.c`), in the same integers.

use crate::{Ack, EcnUse};
use weir_core::Time;

/// What a sender answers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// Packets were lost.
    Loss,
    /// Packets were marked CE.
    Mark,
    /// The retransmission timer fired.
    Timeout,
}

/// A congestion window in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Packets that may be in flight (`snd_cwnd`).
    pub packets: u32,
    /// Below it the window grows by slow start (`snd_ssthresh`).
    pub threshold: u32,
    /// Packets acknowledged towards the next increase (`snd_cwnd_cnt`).
    pub credit: u32,
}

/// No threshold yet (`TCP_INFINITE_SSTHRESH`).
pub(crate) const NO_THRESHOLD: u32 = 0x7fff_ffff;
/// A bound that no window passes; it keeps products of windows within 64 bits.
const LARGEST: u32 = 1 << 26;

impl Window {
    /// A window of `packets` (at least 1) that grows by slow start.
    pub fn new(packets: u32) -> Self {
        Self { packets: packets.max(1), threshold: NO_THRESHOLD, credit: 0 }
    }

    /// Whether the window grows by slow start.
    pub fn in_slow_start(&self) -> bool {
        self.packets < self.threshold
    }

    /// Grows by what was acknowledged up to the threshold, and hands back what is left for congestion avoidance.
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let grown = self.packets.saturating_add(acked).min(self.threshold);
        let left = acked - (grown - self.packets);
        self.packets = grown.min(LARGEST);
        left
    }

    /// Grows by one packet for every `per` (at least 1) acknowledged.
    pub fn avoid(&mut self, per: u32, acked: u32) {
        let per = per.max(1);
        // As the kernel: credit that was saved for a slower increase counts once.
        if self.credit >= per {
            self.credit = 0;
            self.packets = (self.packets + 1).min(LARGEST);
        }
        self.credit += acked;
        if self.credit >= per {
            let steps = self.credit / per;
            self.credit -= steps * per;
            self.packets = self.packets.saturating_add(steps).min(LARGEST);
        }
    }
}

/// By how much a window grows and shrinks.
pub trait WindowRule: Send + Sync {
    /// What it is called in scenarios.
    fn name(&self) -> &'static str;

    /// How its packets take part in ECN.
    fn ecn(&self) -> EcnUse;

    /// Sees every acknowledgement before anything else happens, also while the window is being reduced.
    fn observe(&mut self, _ack: &Ack, _window: &mut Window) {}

    /// Grows the window for `acked` packets. Not called while the window is being reduced, nor when it did not bound
    /// what was sent.
    fn grow(&mut self, window: &mut Window, acked: u32, ack: &Ack);

    /// The threshold (and, once the reduction is done, window) in packets after `signal`; at least 2.
    fn reduce(&mut self, window: &Window, signal: Signal, now: Time) -> u32;

    /// A loss while the reduction for a mark is under way; `None` to go on with that one.
    fn reduce_again(&mut self, _window: &Window, _now: Time) -> Option<u32> {
        None
    }

    /// A timeout was answered, by a reduction or in the midst of one.
    fn time_out(&mut self, _now: Time) {}

    /// Sending begins again after a pause from `since` in which the application had nothing to send.
    fn resume(&mut self, _since: Time, _now: Time) {}
}
