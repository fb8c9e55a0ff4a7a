//! DCTCP: the window shrinks by half the share of packets that were marked. Two forms: the kernel's rule in three
//! [versions](DctcpVersion), and RFC 8257 as a sender of its own that goes on growing while it reduces.
//!
//! | `net/ipv4/tcp_dctcp.c` | here, [`Dctcp`] |
//! |---|---|
//! | alpha of 1024, begins at 1024; gain 1/16: `alpha -= min_not_zero(alpha, alpha >> 4)`, then `+ (ce << 6) / delivered` once `snd_una` passes the `snd_nxt` of the last time | the same |
//! | counts segments delivered (5.4 counted bytes) | segments |
//! | `max(cwnd - (cwnd * alpha >> 11), 2)`: no cut while `cwnd * alpha < 2048` | the same |
//! | a loss or timeout halves the window, also during CWR | the same |
//! | grows as Reno, but not in CWR ([`Linux`](crate::Linux)) | the same |
//! | receiver: two states, an ACK at each change of CE | [`EcnUse::Accurate`] asks the transport for it |
//! | falls back to Reno if ECN was not negotiated | never: virtual paths negotiate what is asked for |
//!
//! | the same file of Linux 3.18 | here, [`DctcpVersion::Linux318`] |
//! |---|---|
//! | counts bytes that `snd_una` advances, a full packet for an acknowledgement that repeats it, ECE by the acknowledgement | packets, which makes the same share of full packets |
//! | `alpha -= alpha >> 4`: below 16 it stands still | the same |
//! | a loss cuts by alpha / 2 as a mark does, and not at all if a reduction is under way | the same; a timeout begins with one packet below that threshold |
//!
//! | RFC 8257 | here, [`Dctcp8257`] |
//! |---|---|
//! | alpha by bytes, begins at 1, gain 1/16, updated once per window (section 3.3) | the same, in real numbers |
//! | cwnd = cwnd (1 - alpha / 2), at once, once per window of data | the same |
//! | growth by every acknowledgement without ECE, also of the window in which it reduced (RFC 3168 section 6.1.2 forbids it only for ACKs with ECE) | the same |
//! | loss as in conventional TCP (3.5) | half, once per window; a timeout: one packet |

use weir_core::Time;

use crate::{Ack, Controller, EcnUse, Setup, Signal, Timeout, Window, WindowRule};

/// alpha is in units of 1/1024.
const ALPHA_BITS: u32 = 10;
const MAX_ALPHA: u32 = 1 << ALPHA_BITS;
/// The gain is 1/16.
const SHIFT: u32 = 4;

/// Whose rule of the kernel's kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DctcpVersion {
    /// Linux since 5.1.
    #[default]
    Linux,
    /// Linux 3.18, of the time of the DualQ paper: a loss is answered by alpha / 2, which is nothing where nothing is
    /// marked.
    Linux318,
    /// The rule of today, for which a loss is none: its window does not shrink. A timeout begins with one packet, as the
    /// transport has nothing in flight.
    IgnoresLoss,
}

/// The kernel's rule.
#[derive(Clone, Copy, Debug)]
pub struct Dctcp {
    version: DctcpVersion,
    una: u64,
    alpha: u32,
    delivered: u32,
    marked: u32,
    round_end: u64,
}

impl Dctcp {
    /// The rule, for a connection that begins.
    pub const fn new() -> Self {
        Self::version(DctcpVersion::Linux)
    }

    /// The rule of that version, for a connection that begins.
    pub const fn version(version: DctcpVersion) -> Self {
        Self { version, una: 0, alpha: MAX_ALPHA, delivered: 0, marked: 0, round_end: 0 }
    }

    fn by_alpha(&self, packets: u32) -> u32 {
        let cut = (u64::from(packets) * u64::from(self.alpha)) >> (ALPHA_BITS + 1);
        (packets - cut as u32).max(2)
    }

    /// The estimate of the share of marked packets, of 1024.
    pub const fn alpha(&self) -> u32 {
        self.alpha
    }

    fn update(&mut self) {
        let decayed = self.alpha >> SHIFT;
        // Below 16 the decay would stand still; it goes to zero instead.
        let snaps = decayed == 0 && self.version != DctcpVersion::Linux318;
        self.alpha -= if snaps { self.alpha } else { decayed };
        if self.marked > 0 {
            let share = (u64::from(self.marked) << (ALPHA_BITS - SHIFT)) / u64::from(self.delivered.max(1));
            self.alpha = (self.alpha + share as u32).min(MAX_ALPHA);
        }
    }
}

impl Default for Dctcp {
    fn default() -> Self {
        Self::new()
    }
}

impl WindowRule for Dctcp {
    fn name(&self) -> &'static str {
        match self.version {
            DctcpVersion::Linux => "dctcp",
            DctcpVersion::Linux318 => "dctcp-linux318",
            DctcpVersion::IgnoresLoss => "dctcp-ignores-loss",
        }
    }

    fn ecn(&self) -> EcnUse {
        EcnUse::Accurate
    }

    fn observe(&mut self, ack: &Ack, _window: &mut Window) {
        if self.version == DctcpVersion::Linux318 {
            let advance = (ack.una - self.una.min(ack.una)).min(u64::from(u32::MAX)) as u32;
            let acked = advance.max(u32::from(ack.delivered.packets > 0));
            self.delivered += acked;
            self.marked += if ack.ce.packets > 0 { acked } else { 0 };
        } else {
            self.delivered += ack.delivered.packets;
            self.marked += ack.ce.packets;
        }
        self.una = ack.una;
        if ack.una >= self.round_end {
            self.update();
            (self.delivered, self.marked, self.round_end) = (0, 0, ack.next);
        }
    }

    fn grow(&mut self, window: &mut Window, acked: u32, _ack: &Ack) {
        let acked = if window.in_slow_start() { window.slow_start(acked) } else { acked };
        if acked > 0 {
            window.avoid(window.packets, acked);
        }
    }

    fn reduce(&mut self, window: &Window, signal: Signal, _now: Time) -> u32 {
        let packets = window.packets;
        match (signal, self.version) {
            (Signal::Mark, _) | (_, DctcpVersion::Linux318) => self.by_alpha(packets),
            (Signal::Loss | Signal::Timeout, DctcpVersion::Linux) => (packets / 2).max(2),
            (Signal::Loss | Signal::Timeout, DctcpVersion::IgnoresLoss) => packets,
        }
    }

    fn reduce_again(&mut self, window: &Window, _now: Time) -> Option<u32> {
        (self.version == DctcpVersion::Linux).then(|| (window.packets / 2).max(2))
    }
}

/// RFC 8257.
#[derive(Clone, Copy, Debug)]
pub struct Dctcp8257 {
    mss: u32,
    /// The window in packets, with its fraction.
    window: f64,
    threshold: f64,
    alpha: f64,
    acked: u64,
    marked: u64,
    round_end: u64,
    /// Until the stream has arrived up to here, marks and losses belong to a reduction that was made.
    reduced_until: u64,
    next: u64,
}

impl Dctcp8257 {
    /// A connection that begins.
    pub fn new(setup: &Setup) -> Self {
        Self {
            mss: setup.mss.max(1),
            window: f64::from(setup.initial_window.max(1)),
            threshold: f64::MAX,
            alpha: 1.0,
            acked: 0,
            marked: 0,
            round_end: 0,
            reduced_until: 0,
            next: 0,
        }
    }

    /// The estimate of the share of marked bytes.
    pub const fn alpha(&self) -> f64 {
        self.alpha
    }

    fn reduce(&mut self, factor: f64) {
        self.window = (self.window * factor).max(2.0);
        self.threshold = self.window;
        self.reduced_until = self.next;
    }
}

impl Controller for Dctcp8257 {
    fn name(&self) -> &'static str {
        "dctcp-rfc8257"
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.next = ack.next;
        self.acked += ack.delivered.bytes;
        self.marked += ack.ce.bytes;
        if ack.una > self.round_end && self.acked > 0 {
            let share = self.marked as f64 / self.acked as f64;
            self.alpha += (share - self.alpha) / 16.0;
            (self.acked, self.marked, self.round_end) = (0, 0, ack.next);
        }
        // The packet before it was sent before the window shrank.
        let reacts = ack.una > self.reduced_until;
        if reacts && ack.lost.packets > 0 {
            self.reduce(0.5);
        } else if reacts && ack.ce.packets > 0 {
            self.reduce(1.0 - self.alpha / 2.0);
        }
        let clean = f64::from(ack.delivered.packets - ack.ce.packets.min(ack.delivered.packets));
        if ack.window_limited {
            self.window += if self.window < self.threshold { clean } else { clean / self.window };
            self.window = self.window.min(f64::from(1 << 26));
        }
    }

    fn on_timeout(&mut self, _: &Timeout) {
        self.reduce(0.5);
        self.window = 1.0;
    }

    fn window(&self) -> u64 {
        self.window as u64 * u64::from(self.mss)
    }

    fn ecn(&self) -> EcnUse {
        EcnUse::Accurate
    }
}

#[cfg(test)]
mod tests {
    use super::{Dctcp, Dctcp8257, DctcpVersion};
    use crate::testing::{Path, setup};
    use crate::{Controller, Linux, Signal, Window, WindowRule};
    use weir_core::{Duration, Time};

    #[test]
    fn alpha_moves_in_the_kernels_integers() {
        let mut dctcp = Dctcp { alpha: 1024, delivered: 100, ..Dctcp::new() };
        dctcp.update();
        assert_eq!(dctcp.alpha, 960);
        // A quarter marked: 960 - 60 + (25 << 6) / 100.
        dctcp.marked = 25;
        dctcp.update();
        assert_eq!(dctcp.alpha, 916);
        // Small values snap to zero; a share below 1/64 is lost in the integers.
        let small = Dctcp { alpha: 15, delivered: 100, marked: 1, ..Dctcp::new() };
        dctcp = small;
        dctcp.update();
        assert_eq!(dctcp.alpha, 0);
        // In 3.18 they stand still.
        dctcp = Dctcp { version: DctcpVersion::Linux318, ..small };
        dctcp.update();
        assert_eq!(dctcp.alpha, 15);
        dctcp = Dctcp { alpha: 1020, delivered: 10, marked: 10, ..Dctcp::new() };
        dctcp.update();
        assert_eq!(dctcp.alpha, 1021);
    }

    #[test]
    fn alpha_holds_at_a_sixteenth_of_the_share_once_it_is_below_16() {
        let settled = |version, alpha| {
            let mut dctcp = Dctcp { version, alpha, ..Dctcp::new() };
            for _ in 0..500 {
                (dctcp.delivered, dctcp.marked) = (100, 9);
                dctcp.update();
            }
            dctcp.alpha
        };
        let linux = |alpha| settled(DctcpVersion::Linux, alpha);
        assert_eq!((linux(15), linux(16), linux(1024)), (5, 80, 95));
        assert_eq!(settled(DctcpVersion::Linux318, 0), 80);
    }

    #[test]
    fn the_cut_is_truncated_and_losses_halve() {
        let window = |packets| Window { packets, threshold: packets, credit: 0 };
        let mut dctcp = Dctcp { alpha: 512, ..Dctcp::new() };
        assert_eq!(dctcp.reduce(&window(100), Signal::Mark, Time::ZERO), 75);
        dctcp.alpha = 20;
        assert_eq!(dctcp.reduce(&window(102), Signal::Mark, Time::ZERO), 102);
        assert_eq!(dctcp.reduce(&window(103), Signal::Mark, Time::ZERO), 102);
        assert_eq!(dctcp.reduce(&window(100), Signal::Loss, Time::ZERO), 50);
        assert_eq!(dctcp.reduce_again(&window(60), Time::ZERO), Some(30));
    }

    #[test]
    fn versions_answer_a_loss_by_alpha_or_not_at_all() {
        let window = Window { packets: 100, threshold: 100, credit: 0 };
        let of = |version| Dctcp { alpha: 512, ..Dctcp::version(version) };
        let mut old = of(DctcpVersion::Linux318);
        for signal in [Signal::Mark, Signal::Loss, Signal::Timeout] {
            assert_eq!(old.reduce(&window, signal, Time::ZERO), 75);
        }
        assert_eq!(old.reduce_again(&window, Time::ZERO), None);
        old.alpha = 0;
        assert_eq!(old.reduce(&window, Signal::Loss, Time::ZERO), 100, "no mark, no answer");
        let mut deaf = of(DctcpVersion::IgnoresLoss);
        assert_eq!(deaf.reduce(&window, Signal::Mark, Time::ZERO), 75);
        assert_eq!(deaf.reduce(&window, Signal::Loss, Time::ZERO), 100);
        assert_eq!(deaf.reduce_again(&window, Time::ZERO), None);
    }

    #[test]
    fn under_losses_alone_the_versions_fall_behind_or_not() {
        // One packet in fifty is lost; nothing is marked.
        let window = |version| {
            let mut controller = Linux::new(Dctcp::version(version), &setup());
            let mut path = Path::new(20);
            for _ in 0..60 {
                path.round(&mut controller, |index| index % 50 == 49);
            }
            controller.packets().packets
        };
        let [new, old, deaf] =
            [DctcpVersion::Linux, DctcpVersion::Linux318, DctcpVersion::IgnoresLoss].map(window);
        println!("{new} {old} {deaf}");
        assert!(new < 40 && old > new + new / 2 && deaf > old + old / 2, "{new} {old} {deaf}");
    }

    #[test]
    fn a_window_that_is_marked_to_its_last_packet_shrinks_once() {
        let mut dctcp = Dctcp8257 { window: 40.0, threshold: 40.0, alpha: 0.5, ..Dctcp8257::new(&setup()) };
        Path::new(20).marked_round(&mut dctcp, |_| false, |_| true);
        // By half of alpha, which the first mark has made a sixteenth of the way to 1.
        assert_eq!(dctcp.window, 40.0 * (1.0 - (0.5 + 0.5 / 16.0) / 2.0));
    }

    #[test]
    fn on_a_step_the_queue_stays_at_the_threshold() {
        // 100 Mbit/s of full packets, 10 ms: a BDP of 86 packets; marks from 20 on.
        let controllers: [Box<dyn Controller>; 2] =
            [Box::new(Linux::new(Dctcp::new(), &setup())), Box::new(Dctcp8257::new(&setup()))];
        for mut controller in controllers {
            let mut path = Path::bottleneck(10, 8_633, 1000).marking_from(20);
            path.rate_over(&mut *controller, Duration::from_secs(2));
            (path.rtt_sum, path.rtt_count) = (0, 0);
            let rate = path.rate_over(&mut *controller, Duration::from_secs(5));
            let queue = (path.mean_rtt() - 10.0) * 8.633;
            assert!(rate > 8_450.0, "{}: {rate}", controller.name());
            assert!((10.0..25.0).contains(&queue), "{}: {queue}", controller.name());
            assert_eq!(path.lost(), 0);
        }
    }
}
