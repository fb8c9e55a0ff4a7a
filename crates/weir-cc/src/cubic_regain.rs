//! CUBIC that regains a share it has lost: while the window is below three fifths of its peak, a loss takes less of it,
//! and behind one it comes back sooner. For a flow that finds its queue to be shared after it had one of its own.
//!
//! Two CUBICs in a short queue lose at different times, and the one that loses twice in a row has little for as long as
//! the cubic function takes to come back: on 3 to 10 Mbit/s, and with 40 packets of queue, for 5 to 12 s.
//!
//! | | near the peak | below three fifths of it |
//! |---|---|---|
//! | what a reduction leaves | 717/1024 | 922/1024 |
//! | C until the next reduction | 0.4 | 51: K is five times shorter |
//!
//! The peak is the largest window since slow start. Each reduction takes a quarter of what the peak is above the window
//! from it, so that a flow that can have no more, since others have come, is an ordinary CUBIC after a few.

use weir_core::Time;

use crate::cubic::Shape;
use crate::{Ack, Cubic, EcnUse, Signal, Window, WindowRule};

/// Of what the peak is above the window, a reduction takes one part in so many from it.
const FORGETS: u32 = 4;

/// CUBIC with a memory of its share.
#[derive(Clone, Debug)]
pub struct CubicRegain {
    cubic: Cubic,
    /// In packets.
    peak: u32,
}

impl CubicRegain {
    /// The rule around `cubic`.
    pub const fn new(cubic: Cubic) -> Self {
        Self { cubic, peak: 0 }
    }

    fn is_low(&self, packets: u32) -> bool {
        u64::from(packets) * 5 < u64::from(self.peak) * 3
    }

    fn shape(&self, packets: u32) -> Shape {
        if self.is_low(packets) { Shape::Steep } else { Shape::Linux }
    }
}

impl WindowRule for CubicRegain {
    fn name(&self) -> &'static str {
        "cubic-regain"
    }

    fn ecn(&self) -> EcnUse {
        self.cubic.ecn()
    }

    fn observe(&mut self, ack: &Ack, window: &mut Window) {
        self.cubic.observe(ack, window);
    }

    fn grow(&mut self, window: &mut Window, acked: u32, ack: &Ack) {
        self.cubic.grow(window, acked, ack);
        self.peak = self.peak.max(window.packets);
    }

    fn reduce(&mut self, window: &Window, signal: Signal, now: Time) -> u32 {
        self.peak = self.peak.max(window.packets);
        self.peak -= (self.peak - window.packets) / FORGETS;
        self.cubic.set_shape(self.shape(window.packets));
        let threshold = self.cubic.reduce(window, signal, now);
        if window.in_slow_start() {
            // It goes beyond what there is.
            self.peak = threshold;
        }
        self.cubic.set_shape(self.shape(threshold));
        threshold
    }

    fn time_out(&mut self, now: Time) {
        self.cubic.time_out(now);
    }

    fn resume(&mut self, since: Time, now: Time) {
        self.cubic.resume(since, now);
    }
}

#[cfg(test)]
mod tests {
    use weir_core::{Duration, Time};

    use super::CubicRegain;
    use crate::testing::{MSS, Path, setup};
    use crate::{Controller, Cubic, EcnUse, Rfc9002, Signal, Window, WindowRule};

    fn regain() -> CubicRegain {
        CubicRegain::new(Cubic::new(EcnUse::Off, MSS))
    }

    fn window(packets: u32) -> Window {
        Window { packets, threshold: packets, credit: 0 }
    }

    /// The window after so many round trips of 200 ms without a loss, behind some with one.
    fn after<R: WindowRule>(rule: R, losses: u32, rounds: u32) -> u64 {
        let mut controller = Rfc9002::new(rule, &setup());
        let mut path = Path::new(200);
        for _ in 0..3 {
            path.round(&mut controller, |_| false);
        }
        for _ in 0..losses {
            path.round(&mut controller, |index| index == 3);
        }
        for _ in 0..rounds {
            path.round(&mut controller, |_| false);
        }
        controller.window()
    }

    #[test]
    fn near_the_peak_it_is_cubic() {
        for rounds in 0..60 {
            let cubic = after(Cubic::new(EcnUse::Off, MSS), 4, rounds);
            assert_eq!(after(regain(), 4, rounds), cubic, "after {rounds} round trips");
        }
    }

    #[test]
    fn far_below_the_peak_it_is_back_sooner() {
        let cubic = || Cubic::new(EcnUse::Off, MSS);
        let (peak, low) = (after(cubic(), 1, 0), after(cubic(), 8, 0));
        assert!(low * 2 < peak, "{low} of {peak}");
        assert!(after(regain(), 8, 0) > low);
        let back = |window: &dyn Fn(u32) -> u64| (0..400).find(|rounds| window(*rounds) * 10 >= peak * 9);
        let [own, plain] =
            [back(&|rounds| after(regain(), 8, rounds)), back(&|rounds| after(cubic(), 8, rounds))];
        let (own, plain) = (own.expect("it is back"), plain.unwrap_or(400));
        assert!(own * 2 < plain, "{own} and {plain} round trips");
    }

    #[test]
    fn a_share_that_does_not_come_back_is_forgotten() {
        let mut rule = regain();
        let now = Time::ZERO + Duration::from_secs(1);
        assert_eq!(rule.reduce(&window(100), Signal::Loss, now), 70);
        let low: Vec<_> = (0..6)
            .map(|_| {
                rule.reduce(&window(40), Signal::Loss, now);
                rule.is_low(40)
            })
            .collect();
        assert_eq!(low[..2], [true; 2], "the peak is 85, and 73");
        assert_eq!(low[2..], [false; 4], "64 and less");
    }

    #[test]
    fn slow_start_is_no_share() {
        let mut rule = regain();
        let slow = Window { packets: 100, threshold: u32::MAX, credit: 0 };
        assert_eq!(rule.reduce(&slow, Signal::Loss, Time::ZERO), 70);
        assert_eq!((rule.peak, rule.is_low(42), rule.is_low(41)), (70, false, true));
    }
}
