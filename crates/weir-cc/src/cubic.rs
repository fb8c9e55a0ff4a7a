//! CUBIC as the kernel has it: the window is a cubic function of the time since the last reduction, flat around the
//! window at which it happened; at least as fast as a TCP-friendly estimate; slow start ended by HyStart. The variant
//! of RFC 9438 is [`Cubic9438`](crate::Cubic9438).
//!
//! | `net/ipv4/tcp_cubic.c` | here |
//! |---|---|
//! | beta 717/1024, C 410/1024 (`bic_scale` 41), time in 2^-10 s out of jiffies | the same; jiffies of 1 ms (`CONFIG_HZ=1000`) |
//! | K by a table and one Newton step (0.195 % off on average) | the exact cube root, rounded down |
//! | the cubic function is evaluated at most once per jiffy, every HZ/32 if the window did not change | the same |
//! | before the first loss one packet more for at most 20 acknowledged; never more than one for 2 | the same |
//! | TCP-friendly region: an estimate that grows by one per 15/8 windows; no faster growth past the old window (RFC 9438 has it) | the same |
//! | fast convergence; a mark reduces as much as a loss | the same |
//! | HyStart: ACK train of spacing 2 ms, delay by min(16 ms, max(4 ms, delay / 8)) over 8 samples, from a window of 16 | the same |
//! | the train's threshold is half the smallest delay (plus at most 1 ms for big packets) without pacing, all of it with | the same; the sender does not pace |
//! | delays are ignored for a second after an epoch's begin | the same |
//! | the epoch moves with pauses of the application | the same |
//! | `bictcp_undo_cwnd` | none, as in [`Linux`](crate::Linux) |

use weir_core::{Duration, Time};

use crate::{Ack, EcnUse, Signal, Window, WindowRule};

/// Windows acknowledged per packet of the TCP-friendly estimate, of 8: `8 (1 + beta) / (3 (1 - beta))`.
const FRIENDLY: u64 = 8 * (1024 + Shape::Linux.beta()) / 3 / (1024 - Shape::Linux.beta());
/// Acknowledgements closer than this belong to one train.
const TRAIN_SPACING_US: u64 = 2_000;
/// Delays may grow by this much, however short they are.
const SHORTEST_GROWTH_US: u64 = 4_000;
/// Delay samples of a round before it is judged.
const MIN_SAMPLES: u32 = 8;
/// The largest packet the sender hands down (`sk_gso_max_size`).
const GSO_MAX: u64 = 65_536;

/// How far HyStart lets slow start go. ns-3 (`tcp-cubic.cc`) keeps account of rounds from the first on, lets a train
/// last for the whole of the smallest delay and delays double: 0, 0, 0 and 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HyStartLimits {
    /// Packets below which it does not look (`hystart_low_window`): 16.
    pub low_window: u16,
    /// A train of acknowledgements may last for the smallest delay halved so many times: 1.
    pub train_shift: u8,
    /// Delays may grow by the smallest one halved so many times, from 4 ms: 3.
    pub delay_shift: u8,
    /// And by no more milliseconds than this: 16.
    pub longest_ms: u16,
}

impl Default for HyStartLimits {
    fn default() -> Self {
        Self { low_window: 16, train_shift: 1, delay_shift: 3, longest_ms: 16 }
    }
}

/// How far the window is reduced, and how steep the function is by which it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The kernel's.
    Linux,
    /// Of [`CubicRegain`](crate::CubicRegain) far below its peak.
    Steep,
}

impl Shape {
    /// beta, of 1024.
    const fn beta(self) -> u64 {
        match self {
            Self::Linux => 717,
            Self::Steep => 922,
        }
    }

    /// C times ten for the kernel's nominal round trip of 100 ms, of 1024.
    const fn rtt_scale(self) -> u64 {
        match self {
            Self::Linux => 410,
            Self::Steep => 128 * 410,
        }
    }

    /// 1/C in units of (2^-10 s)^3 per packet.
    const fn cube_factor(self) -> u64 {
        (1 << 40) / self.rtt_scale()
    }
}

/// What HyStart knows of the present round trip.
#[derive(Clone, Copy, Debug, Default)]
struct HyStart {
    began_us: u64,
    last_ack_us: u64,
    end: u64,
    shortest_us: u64,
    samples: u32,
    found: bool,
}

/// The kernel's rule.
#[derive(Clone, Debug)]
pub struct Cubic {
    ecn: EcnUse,
    hystart: Option<HyStart>,
    limits: HyStartLimits,
    mss: u32,
    shape: Shape,
    /// Packets acknowledged per packet of growth (`cnt`).
    per: u32,
    last_max: u32,
    last_window: u32,
    last_ms: u64,
    origin: u32,
    /// Time from the epoch's begin to the origin, in 2^-10 s.
    k: u64,
    /// Smallest delay in microseconds; 0 if none is known.
    delay_us: u64,
    /// When the epoch began, in milliseconds.
    epoch_ms: Option<u64>,
    acked: u64,
    friendly: u32,
}

/// The cube root, rounded down.
fn cube_root(value: u64) -> u64 {
    let mut root = 0u64;
    for bit in (0..22).rev() {
        let candidate = root | 1 << bit;
        if u128::from(candidate).pow(3) <= u128::from(value) {
            root = candidate;
        }
    }
    root
}

fn millis(time: Time) -> u64 {
    time.as_nanos() / 1_000_000
}

impl Cubic {
    /// The rule for a sender with packets of `mss` payload bytes that takes part in ECN as `ecn` says; with HyStart, as
    /// is the kernel's default.
    pub fn new(ecn: EcnUse, mss: u32) -> Self {
        Self {
            ecn,
            hystart: Some(HyStart { shortest_us: u64::MAX, ..HyStart::default() }),
            limits: HyStartLimits::default(),
            mss,
            shape: Shape::Linux,
            per: 0,
            last_max: 0,
            last_window: 0,
            last_ms: 0,
            origin: 0,
            k: 0,
            delay_us: 0,
            epoch_ms: None,
            acked: 0,
            friendly: 0,
        }
    }

    /// The same without HyStart.
    pub fn without_hystart(self) -> Self {
        Self { hystart: None, ..self }
    }

    /// The same with other limits of HyStart.
    pub fn hystart(self, limits: HyStartLimits) -> Self {
        Self { limits, ..self }
    }

    /// From the next reduction on, and the growth behind it.
    pub(crate) const fn set_shape(&mut self, shape: Shape) {
        self.shape = shape;
    }

    /// How many packets must be acknowledged for one of growth (`bictcp_update`).
    fn update(&mut self, window: u32, acked: u32, now_ms: u64) {
        self.acked += u64::from(acked);
        if self.last_window == window && now_ms.saturating_sub(self.last_ms) <= 1000 / 32 {
            return;
        }
        if self.epoch_ms.is_none() || now_ms != self.last_ms {
            self.last_window = window;
            self.last_ms = now_ms;
            let epoch = match self.epoch_ms {
                Some(epoch) => epoch,
                None => self.begin_epoch(window, acked, now_ms),
            };
            self.follow(window, now_ms.saturating_sub(epoch));
        }
        let per_friendly = (u64::from(window) * FRIENDLY) >> 3;
        if self.acked > per_friendly && per_friendly > 0 {
            // As many as fit, and the remainder is more than none.
            let steps = (self.acked - 1) / per_friendly;
            self.acked -= steps * per_friendly;
            self.friendly = self.friendly.saturating_add(steps.min(u64::from(u32::MAX)) as u32);
        }
        if self.friendly > window {
            self.per = self.per.min(window / (self.friendly - window));
        }
        self.per = self.per.max(2);
    }

    fn begin_epoch(&mut self, window: u32, acked: u32, now_ms: u64) -> u64 {
        self.epoch_ms = Some(now_ms);
        self.acked = u64::from(acked);
        self.friendly = window;
        if self.last_max <= window {
            (self.k, self.origin) = (0, window);
        } else {
            self.k = cube_root(self.shape.cube_factor() * u64::from(self.last_max - window));
            self.origin = self.last_max;
        }
        now_ms
    }

    /// The cubic function, one smallest delay ahead.
    fn follow(&mut self, window: u32, since_epoch_ms: u64) {
        let t = ((since_epoch_ms + self.delay_us.div_ceil(1000)) << 10) / 1000;
        let off = t.abs_diff(self.k).min(1 << 30);
        let delta = (u128::from(self.shape.rtt_scale()) * u128::from(off).pow(3)) >> 40;
        let delta = delta.min(u128::from(u32::MAX)) as u32;
        let target =
            if t < self.k { self.origin.saturating_sub(delta) } else { self.origin.saturating_add(delta) };
        self.per = if target > window { window / (target - window) } else { window.saturating_mul(100) };
        if self.last_max == 0 {
            self.per = self.per.min(20);
        }
    }

    /// Whether slow start has gone far enough (`hystart_update`).
    fn enough(&mut self, ack: &Ack, delay_us: u64, window: u32) -> bool {
        let Some(state) = &mut self.hystart else { return false };
        let now_us = ack.now.as_nanos() / 1000;
        if ack.una > state.end {
            *state = HyStart {
                began_us: now_us,
                last_ack_us: now_us,
                end: ack.next,
                shortest_us: u64::MAX,
                ..*state
            };
            state.samples = 0;
        }
        if now_us.saturating_sub(state.last_ack_us) <= TRAIN_SPACING_US {
            state.last_ack_us = now_us;
            // The rate of the kernel's estimate: two windows a round trip in slow start.
            let bytes_twice = 2 * u64::from(window) * u64::from(self.mss);
            let big_packets_us = GSO_MAX * 4 * (ack.smoothed_rtt.as_nanos() / 1000) / bytes_twice.max(1);
            let threshold = (self.delay_us + big_packets_us.min(1000)) >> self.limits.train_shift;
            if now_us.saturating_sub(state.began_us) > threshold {
                state.found = true;
            }
        }
        state.shortest_us = state.shortest_us.min(delay_us);
        if state.samples < MIN_SAMPLES {
            state.samples += 1;
        } else {
            let longest_us = (u64::from(self.limits.longest_ms) * 1000).max(SHORTEST_GROWTH_US);
            let growth_us = (self.delay_us >> self.limits.delay_shift).clamp(SHORTEST_GROWTH_US, longest_us);
            state.found |= state.shortest_us > self.delay_us + growth_us;
        }
        state.found
    }
}

impl WindowRule for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn ecn(&self) -> EcnUse {
        self.ecn
    }

    fn observe(&mut self, ack: &Ack, window: &mut Window) {
        let Some(rtt) = ack.rtt else { return };
        if self.epoch_ms.is_some_and(|epoch| millis(ack.now).saturating_sub(epoch) < 1000) {
            return;
        }
        let delay = (rtt.as_nanos() / 1000).max(1);
        if self.delay_us == 0 || delay < self.delay_us {
            self.delay_us = delay;
        }
        let looking = self.hystart.is_some_and(|state| !state.found);
        if looking
            && window.in_slow_start()
            && window.packets >= u32::from(self.limits.low_window)
            && self.enough(ack, delay, window.packets)
        {
            window.threshold = window.packets;
        }
    }

    fn grow(&mut self, window: &mut Window, acked: u32, ack: &Ack) {
        let mut acked = acked;
        if window.in_slow_start() {
            acked = window.slow_start(acked);
            if acked == 0 {
                return;
            }
        }
        self.update(window.packets, acked, millis(ack.now));
        window.avoid(self.per, acked);
    }

    fn reduce(&mut self, window: &Window, _signal: Signal, _now: Time) -> u32 {
        let (packets, beta) = (window.packets, self.shape.beta());
        self.epoch_ms = None;
        self.last_max = if packets < self.last_max {
            (u64::from(packets) * (1024 + beta) / 2048) as u32
        } else {
            packets
        };
        ((u64::from(packets) * beta / 1024) as u32).max(2)
    }

    /// Forgets everything but its settings (`cubictcp_state`).
    fn time_out(&mut self, now: Time) {
        let now_us = now.as_nanos() / 1000;
        let hystart = self.hystart.map(|state| HyStart {
            began_us: now_us,
            last_ack_us: now_us,
            shortest_us: u64::MAX,
            end: state.end,
            ..HyStart::default()
        });
        *self = Self { hystart, limits: self.limits, shape: self.shape, ..Self::new(self.ecn, self.mss) };
    }

    fn resume(&mut self, since: Time, now: Time) {
        let pause = Duration::from_nanos(now.as_nanos().saturating_sub(since.as_nanos()));
        if let Some(epoch) = &mut self.epoch_ms {
            *epoch = (*epoch + pause.as_nanos() / 1_000_000).min(millis(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cubic, FRIENDLY, Shape, cube_root};
    use crate::testing::{Fate, MSS, Path, setup};
    use crate::{EcnUse, Linux, Signal, Window, WindowRule};
    use weir_core::{Duration, Time};

    fn rule() -> Cubic {
        Cubic::new(EcnUse::Off, MSS)
    }

    fn window(packets: u32) -> Window {
        Window { packets, threshold: packets, credit: 0 }
    }

    #[test]
    fn constants_are_the_kernels() {
        assert_eq!(FRIENDLY, 15);
        assert_eq!(Shape::Linux.cube_factor(), 2_681_735_677);
        for value in [0, 1, 7, 8, 26, 27, 1_000_000, 999_999] {
            let root = cube_root(value);
            assert!(root.pow(3) <= value && (root + 1).pow(3) > value, "{value}: {root}");
        }
    }

    #[test]
    fn reductions_are_to_seven_tenths_with_fast_convergence() {
        let mut cubic = rule();
        assert_eq!(cubic.reduce(&window(1000), Signal::Loss, Time::ZERO), 700);
        assert_eq!(cubic.last_max, 1000);
        // Below the last maximum: 800 * 1741 / 2048.
        assert_eq!(cubic.reduce(&window(800), Signal::Loss, Time::ZERO), 560);
        assert_eq!(cubic.last_max, 680);
        assert_eq!(cubic.reduce(&window(2), Signal::Mark, Time::ZERO), 2);
    }

    #[test]
    fn the_window_is_back_after_k_and_then_grows_cubically() {
        let mut cubic = rule();
        cubic.reduce(&window(1000), Signal::Loss, Time::ZERO);
        cubic.update(700, 1, 10_000);
        // K = cbrt(300 / 0.4) = 9.086 s.
        assert_eq!(cubic.k, 9_300);
        assert!((cubic.k as f64 / 1024.0 - libm::cbrt(750.0)).abs() < 0.01);
        // At K the target is the old maximum; 10 s after, 0.4 * 10^3 more.
        cubic.follow(900, 9_083);
        assert_eq!(cubic.per, 900 / 100);
        cubic.follow(1000, 9_083 + 10_000);
        assert_eq!(cubic.per, 1000 / 400);
        // Far above the curve it stands nearly still.
        cubic.follow(2000, 9_083);
        assert_eq!(cubic.per, 200_000);
    }

    #[test]
    fn the_friendly_estimate_grows_by_one_per_fifteen_eighths_of_a_window() {
        let mut cubic = rule();
        cubic.reduce(&window(100), Signal::Loss, Time::ZERO);
        cubic.update(70, 1, 0);
        assert_eq!((cubic.friendly, cubic.acked), (70, 1));
        // 70 * 15 / 8 = 131 packets each.
        cubic.update(70, 131, 40);
        assert_eq!((cubic.friendly, cubic.acked), (71, 1));
        cubic.update(70, 262, 80);
        assert_eq!((cubic.friendly, cubic.acked), (73, 1));
        assert_eq!(cubic.per, 70 / 3);
    }

    #[test]
    fn hystart_leaves_slow_start_before_the_queue_overflows() {
        // 10 Mbit/s of full packets, 40 ms: a BDP of 35 packets, and 200 of buffer.
        for (rule, largest) in [(rule(), 100), (rule().without_hystart(), 300)] {
            let mut cubic = Linux::new(rule, &setup());
            let mut path = Path::bottleneck(40, 863, 200);
            path.run(&mut cubic, Duration::from_millis(600), &mut || Fate::Arrives);
            let reached = cubic.packets();
            if largest == 100 {
                assert!(!reached.in_slow_start() && path.lost() == 0, "{reached:?}");
                assert!((16..largest).contains(&reached.packets), "{reached:?}");
            } else {
                assert!(reached.in_slow_start() || path.lost() > 0, "{reached:?}");
            }
        }
    }

    #[test]
    fn a_timeout_forgets_the_maximum() {
        let mut cubic = rule();
        cubic.reduce(&window(1000), Signal::Loss, Time::ZERO);
        assert_eq!(cubic.reduce(&window(900), Signal::Timeout, Time::from_nanos(5)), 630);
        cubic.time_out(Time::from_nanos(5));
        assert_eq!((cubic.last_max, cubic.delay_us), (0, 0));
    }
}
