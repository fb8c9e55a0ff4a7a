//! Copa: the rate is the reciprocal of the queueing delay times delta, approached with growing steps. Beside flows that
//! fill the queue it competes: delta is then found by AIMD. Arun and Balakrishnan, "Copa: Practical Delay-Based
//! Congestion Control for the Internet", NSDI 2018.
//!
//! | paper | here |
//! |---|---|
//! | target rate 1 / (delta dq), dq = standing RTT (minimum over half a smoothed RTT) - minimum over 10 s (section 2.1) | the same; the minima by the filter of three samples |
//! | each packet moves the window by v / (delta cwnd) towards the target (2.1) | the same |
//! | velocity v: doubles once per window after three in one direction, 1 after a turn (2.1) | the same, and no more than a doubling of the window per round trip |
//! | slow start: double per round trip until the rate passes the target (2.1) | the same, checked at every packet |
//! | pacing at 2 cwnd / standing RTT (2.1) | the same |
//! | competes while the queue was not nearly empty within 5 RTTs: never below a tenth of the swing between the longest RTT and the shortest (2.2) | the same; RTTs are cut from the smoothed RTT, the present one counts with them, and those of slow start do not. The longest is that of the same RTTs (paper: of four) |
//! | competing: 1 / delta grows by 1 an RTT, and halves in one with a loss; delta is at most the default's (2.2) | the same, once per window |
//! | losses ignored in the default mode; timeouts not described | the same; a timeout begins anew with 2 packets |

use weir_core::{Duration, Rate};

use crate::filter::MaxFilter;
use crate::{Ack, Controller, EcnUse, Setup, Timeout};

/// delta of the default mode.
const DELTA: f64 = 0.5;
const MINIMUM: f64 = 2.0;
const MIN_RTT_WINDOW: u64 = 10_000_000_000;
/// Round trips within which a queue that Copa has for itself is nearly empty once.
const SWING: usize = 5;
/// What is left of a swing in a queue that is nearly empty.
const NEARLY_EMPTY: f64 = 0.1;
/// Windows in one direction before the velocity grows.
const PATIENCE: u32 = 3;

/// A minimum over time.
#[derive(Clone, Copy, Debug, Default)]
struct MinFilter(MaxFilter);

impl MinFilter {
    fn update(&mut self, window: u64, now: u64, value: u64) -> u64 {
        !self.0.update(window, now, !value)
    }
}

/// The shortest and longest round-trip times of the last few round trips, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Swing {
    past: [(u64, u64); SWING],
    known: usize,
    began: u64,
    present: Option<(u64, u64)>,
}

impl Swing {
    fn sample(&mut self, now: u64, rtt: u64, smoothed: u64) {
        match &mut self.present {
            Some((shortest, longest)) if now - self.began < smoothed => {
                *shortest = (*shortest).min(rtt);
                *longest = (*longest).max(rtt);
            }
            present => {
                if let Some(over) = present.replace((rtt, rtt)) {
                    self.past.rotate_right(1);
                    self.past[0] = over;
                    self.known = (self.known + 1).min(SWING);
                }
                self.began = now;
            }
        }
    }

    /// Whether the queue was nearly empty once, `shortest` being the round-trip time without one; `None` before all
    /// round trips are known.
    fn nearly_emptied(&self, shortest: u64) -> Option<bool> {
        let present = self.present.filter(|_| self.known == SWING)?;
        let (least, most) =
            self.past.iter().fold(present, |(least, most), (low, high)| (least.min(*low), most.max(*high)));
        let empty = NEARLY_EMPTY * most.saturating_sub(shortest) as f64;
        Some((least.saturating_sub(shortest) as f64) < empty || most <= shortest)
    }
}

/// Copa.
#[derive(Clone, Debug)]
pub struct Copa {
    mss: u32,
    ecn: EcnUse,
    delta: f64,
    competes: bool,
    swing: Swing,
    lost: bool,
    window: f64,
    velocity: f64,
    growing: bool,
    same_direction: u32,
    slow_start: bool,
    shortest: MinFilter,
    standing: MinFilter,
    standing_rtt: Duration,
    round_end: u64,
    round_window: f64,
}

impl Copa {
    /// A connection that begins. `ecn` only says what its packets carry; it does not answer to marks.
    pub fn new(ecn: EcnUse, setup: &Setup) -> Self {
        let window = f64::from(setup.initial_window.max(2));
        Self {
            mss: setup.mss.max(1),
            ecn,
            delta: DELTA,
            competes: false,
            swing: Swing::default(),
            lost: false,
            window,
            velocity: 1.0,
            growing: true,
            same_direction: 0,
            slow_start: true,
            shortest: MinFilter::default(),
            standing: MinFilter::default(),
            standing_rtt: Duration::ZERO,
            round_end: 0,
            round_window: window,
        }
    }

    /// Whether it competes with flows that fill the queue.
    pub const fn competes(&self) -> bool {
        self.competes
    }

    fn choose_mode(&mut self, shortest: u64) {
        let lost = std::mem::take(&mut self.lost);
        match self.swing.nearly_emptied(shortest) {
            Some(false) if !self.competes => {
                self.competes = true;
                self.delta = DELTA;
            }
            Some(false) if lost => self.delta = (2.0 * self.delta).min(DELTA),
            Some(false) => self.delta = 1.0 / (1.0 / self.delta + 1.0),
            Some(true) | None => {
                self.competes = false;
                self.delta = DELTA;
            }
        }
    }

    fn new_round(&mut self, ack: &Ack) {
        self.round_end = ack.next;
        let grew = self.window > self.round_window;
        if grew == self.growing {
            self.same_direction += 1;
            if self.same_direction >= PATIENCE {
                self.velocity *= 2.0;
            }
        } else {
            self.turn(grew);
        }
        self.velocity = self.velocity.min((self.delta * self.window).max(1.0));
        self.round_window = self.window;
    }

    fn turn(&mut self, growing: bool) {
        self.growing = growing;
        self.velocity = 1.0;
        self.same_direction = 0;
    }
}

impl Controller for Copa {
    fn name(&self) -> &'static str {
        "copa"
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.lost |= ack.lost.packets > 0;
        let (Some(rtt), true) = (ack.rtt, ack.delivered.packets > 0) else { return };
        let now = ack.now.as_nanos();
        let shortest = self.shortest.update(MIN_RTT_WINDOW, now, rtt.as_nanos());
        let standing = self.standing.update(ack.smoothed_rtt.as_nanos() / 2, now, rtt.as_nanos());
        self.standing_rtt = Duration::from_nanos(standing);
        let queueing = standing.saturating_sub(shortest);
        if !self.slow_start {
            self.swing.sample(now, rtt.as_nanos(), ack.smoothed_rtt.as_nanos());
        }

        // cwnd / standing <= 1 / (delta dq), without a division by a queue of zero.
        let below = self.window * self.delta * queueing as f64 <= standing as f64;
        let acked = f64::from(ack.delivered.packets);
        if self.slow_start {
            if below {
                self.window += acked;
            } else {
                self.slow_start = false;
                self.turn(false);
            }
        } else {
            if below != self.growing && self.velocity > 1.0 {
                self.turn(below);
            }
            let step = acked * self.velocity / (self.delta * self.window);
            self.window = (self.window + if below { step } else { -step }).max(MINIMUM);
        }
        self.window = self.window.min(f64::from(1 << 26));
        if ack.una >= self.round_end {
            self.new_round(ack);
            self.choose_mode(shortest);
        }
    }

    fn on_timeout(&mut self, _: &Timeout) {
        self.window = MINIMUM;
        self.slow_start = true;
        self.swing = Swing::default();
        self.competes = false;
        self.delta = DELTA;
        self.turn(true);
    }

    fn window(&self) -> u64 {
        self.window as u64 * u64::from(self.mss)
    }

    fn pacing(&self) -> Option<Rate> {
        let seconds = self.standing_rtt.as_secs_f64();
        if seconds == 0.0 {
            return None;
        }
        Some(Rate::from_bits_per_sec((2.0 * self.window * f64::from(self.mss) * 8.0 / seconds) as u64))
    }

    fn ecn(&self) -> EcnUse {
        self.ecn
    }
}

#[cfg(test)]
mod tests {
    use super::{Copa, SWING, Swing};
    use crate::EcnUse;
    use crate::testing::{Path, setup};
    use weir_core::Duration;

    #[test]
    fn alone_it_hardly_ever_competes() {
        for (rtt_ms, rate, buffer) in
            [(20, 2_000, 80), (40, 860, 69), (50, 4_000, 10_000), (100, 5_000, 10_000)]
        {
            let mut copa = Copa::new(EcnUse::Off, &setup());
            let mut path = Path::bottleneck(rtt_ms, rate, buffer);
            path.rate_over(&mut copa, Duration::from_secs(15));
            let mut competed = 0;
            for _ in 0..2_000 {
                path.rate_over(&mut copa, Duration::from_millis(10));
                competed += u32::from(copa.competes());
            }
            assert!(competed < 200, "{rtt_ms} {rate}: {competed} of 2000 looks");
        }
    }

    #[test]
    fn a_queue_is_nearly_empty_below_a_tenth_of_its_swing() {
        let mut swing = Swing::default();
        let mut now = 0;
        let mut round = |swing: &mut Swing, low: u64, high: u64| {
            swing.sample(now, low, 100);
            swing.sample(now + 50, high, 100);
            now += 100;
        };
        for _ in 0..SWING {
            round(&mut swing, 130, 200);
            assert_eq!(swing.nearly_emptied(100), None);
        }
        round(&mut swing, 130, 200);
        assert_eq!(swing.nearly_emptied(100), Some(false));
        round(&mut swing, 109, 200);
        // The present round trip and five before it.
        for _ in 0..=SWING {
            assert_eq!(swing.nearly_emptied(100), Some(true));
            round(&mut swing, 130, 200);
        }
        assert_eq!(swing.nearly_emptied(100), Some(false));
    }

    #[test]
    fn alone_it_keeps_a_few_packets_waiting() {
        // In equilibrium 1/delta = 2 packets wait on average, and the window swings around that, by more on
        // longer paths as the velocity grows (paper section 3).
        for (rtt_ms, rate) in [(20, 2_000), (50, 4_000), (100, 10_000)] {
            let mut copa = Copa::new(EcnUse::Off, &setup());
            let mut path = Path::bottleneck(rtt_ms, rate, 10_000);
            path.rate_over(&mut copa, Duration::from_secs(15));
            (path.rtt_sum, path.rtt_count) = (0, 0);
            let reached = path.rate_over(&mut copa, Duration::from_secs(20));
            let waiting = (path.mean_rtt() - rtt_ms as f64) / 1e3 * rate as f64;
            assert!(reached > 0.95 * rate as f64, "{rtt_ms} {rate}: {reached}");
            let bdp = rtt_ms as f64 / 1e3 * rate as f64;
            assert!((0.5..8.0 + 0.05 * bdp).contains(&waiting), "{rtt_ms} {rate}: {waiting}");
        }
    }
}
