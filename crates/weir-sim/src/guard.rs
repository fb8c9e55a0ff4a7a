//! Stops a controller whose rule has run away: by an overflow, say, its window lets out packets without end, or its
//! timer never moves on. Neither needs an end of virtual time to exhaust a machine's memory or patience.
//!
//! It stands between a sender and its controller, so that whoever has none pays nothing.

use std::sync::{Arc, OnceLock};

use thiserror::Error;
use weir_cc::{Ack, Controller, EcnUse, Sent, Timeout};
use weir_core::{Duration, Rate, Time};

/// Packets in flight that no rule needs beyond what its path holds: a window of 1.5 GB.
const MOST_PACKETS: u64 = 1 << 20;
/// Multiples of what the path holds that may be in flight on top, for links so fast that the number above is little.
const MOST_PATHS: u64 = 16;
/// Wake-ups within [`WHILE`] that no rule needs: 10 ns apart, a packet's time at 1 Tbit/s.
const MOST_WAKES: u32 = 100_000;
const WHILE: Duration = Duration::from_millis(1);

/// What a controller did that no simulation can go on with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Runaway {
    /// It lets out packets without end.
    #[error(
        "the controller '{name}' has {packets} packets in flight on a path that holds {path}: its window() returned \
         {window} bytes{}; look for an overflow where its rule sets the window",
        pacing.map_or_else(|| ", its pacing() None".to_owned(), |rate| format!(", its pacing() {rate}"))
    )]
    Window {
        /// The controller.
        name: &'static str,
        /// Packets in flight.
        packets: u64,
        /// Packets that are sent in a round trip at the link's rate.
        path: u64,
        /// What it returned last.
        window: u64,
        /// See `window`.
        pacing: Option<Rate>,
    },
    /// It wants to be woken without end.
    #[error(
        "the controller '{name}' was woken {MOST_WAKES} times in {WHILE} of virtual time: at {} its timer() returned \
         {}; let it return a time that is still to come, or None once on_timer() has done what was due",
        now.since(Time::ZERO), timer.since(Time::ZERO)
    )]
    Timer {
        /// The controller.
        name: &'static str,
        /// When.
        now: Time,
        /// What it returned last.
        timer: Time,
    },
}

/// Says what a controller did, once it has.
pub(crate) type Told = Arc<OnceLock<Runaway>>;

/// A controller that is watched. Once it has run away, it lets nothing go any more.
pub(crate) struct Guard {
    controller: Box<dyn Controller>,
    told: Told,
    mss: u64,
    /// Packets that the path holds.
    path: u64,
    /// Bytes in flight that are too many.
    most: u64,
    wakes: u32,
    wakes_since: Time,
}

impl Guard {
    /// Watches a controller, for packets of `mss` bytes over a path of `rate` and `rtt`.
    pub(crate) fn new(
        controller: Box<dyn Controller>,
        mss: u32,
        rate: Rate,
        rtt: Duration,
        told: &Told,
    ) -> Self {
        let mss = u64::from(mss.max(1));
        let path = rate.bytes_in(rtt).0 / mss;
        let most = path.saturating_mul(MOST_PATHS).saturating_add(MOST_PACKETS).saturating_mul(mss);
        let told = Arc::clone(told);
        Self { controller, told, mss, path, most, wakes: 0, wakes_since: Time::ZERO }
    }

    fn has_run_away(&self) -> bool {
        self.told.get().is_some()
    }
}

impl Controller for Guard {
    fn name(&self) -> &'static str {
        self.controller.name()
    }
    fn on_handshake(&mut self, rtt: Duration) {
        self.controller.on_handshake(rtt);
    }
    fn on_max_rate(&mut self, rate: Rate) {
        self.controller.on_max_rate(rate);
    }
    fn on_sent(&mut self, sent: &Sent) {
        if sent.in_flight > self.most {
            let _ = self.told.set(Runaway::Window {
                name: self.controller.name(),
                packets: sent.in_flight / self.mss,
                path: self.path,
                window: self.controller.window(),
                pacing: self.controller.pacing(),
            });
        }
        self.controller.on_sent(sent);
    }
    fn on_ack(&mut self, ack: &Ack) {
        self.controller.on_ack(ack);
    }
    fn on_timeout(&mut self, timeout: &Timeout) {
        self.controller.on_timeout(timeout);
    }
    fn window(&self) -> u64 {
        if self.has_run_away() { 0 } else { self.controller.window() }
    }
    fn pacing(&self) -> Option<Rate> {
        self.controller.pacing()
    }
    fn burst(&self) -> Option<Duration> {
        self.controller.burst()
    }
    fn made_up(&self) -> Option<Duration> {
        self.controller.made_up()
    }
    fn ecn(&self) -> EcnUse {
        self.controller.ecn()
    }
    fn ignores_marks_beyond(&self) -> Option<Duration> {
        self.controller.ignores_marks_beyond()
    }
    fn timer(&self) -> Option<Time> {
        if self.has_run_away() { None } else { self.controller.timer() }
    }
    fn on_timer(&mut self, now: Time) {
        self.controller.on_timer(now);
        if now.since(self.wakes_since) >= WHILE {
            (self.wakes, self.wakes_since) = (0, now);
        }
        self.wakes += 1;
        if self.wakes >= MOST_WAKES {
            let (name, timer) = (self.controller.name(), self.controller.timer().unwrap_or(now));
            let _ = self.told.set(Runaway::Timer { name, now, timer });
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_cc::{Ack, Controller, EcnUse, Linux, Rfc9002, Setup, Signal, Timeout, Window, WindowRule};
    use weir_core::{Duration, Rate, Time};

    use super::Runaway;
    use crate::{Share, ShareError};

    /// Returns the same always.
    struct Same {
        window: u64,
        pacing: Option<Rate>,
        /// So long after it was woken last.
        timer: Option<Duration>,
        woken: Time,
    }

    impl Controller for Same {
        fn name(&self) -> &'static str {
            "same"
        }
        fn on_ack(&mut self, _: &Ack) {}
        fn on_timeout(&mut self, _: &Timeout) {}
        fn window(&self) -> u64 {
            self.window
        }
        fn pacing(&self) -> Option<Rate> {
            self.pacing
        }
        fn timer(&self) -> Option<Time> {
            self.timer.map(|timer| self.woken + timer)
        }
        fn on_timer(&mut self, now: Time) {
            self.woken = now;
        }
    }

    const SAME: Same = Same { window: 1 << 16, pacing: None, timer: None, woken: Time::ZERO };

    /// Sets the window to the same always.
    struct Rule {
        grows: u32,
        reduces: u32,
    }

    impl WindowRule for Rule {
        fn name(&self) -> &'static str {
            "rule"
        }
        fn ecn(&self) -> EcnUse {
            EcnUse::Off
        }
        fn grow(&mut self, window: &mut Window, acked: u32, _: &Ack) {
            window.packets = if self.grows > 0 { self.grows } else { window.packets + acked };
        }
        fn reduce(&mut self, _: &Window, _: Signal, _: Time) -> u32 {
            self.reduces
        }
    }

    fn run(make: impl FnOnce(&Setup) -> Box<dyn Controller> + 'static) -> Result<String, ShareError> {
        let share = Share::new("20mbit", "20ms", "codel").own(make).tcp("cubic");
        share.run("3s").map(|shared| shared.to_string())
    }

    #[test]
    fn a_window_without_end_is_told_by_its_controller_and_number() {
        let fast = Rate::from_bits_per_sec(1_000_000_000_000);
        let runs: [(&str, u64, Result<String, ShareError>); 4] = [
            ("same", u64::MAX, run(|_| Box::new(Same { window: u64::MAX, ..SAME }))),
            ("same", 1 << 40, run(move |_| Box::new(Same { window: 1 << 40, pacing: Some(fast), ..SAME }))),
            ("rule", 0, run(|setup| Box::new(Linux::new(Rule { grows: u32::MAX, reduces: 2 }, setup)))),
            ("rule", 0, run(|setup| Box::new(Rfc9002::new(Rule { grows: 0, reduces: u32::MAX }, setup)))),
        ];
        for (expected, returned, result) in runs {
            let error = result.unwrap_err();
            let ShareError::Runaway(Runaway::Window { name, packets, path, window, .. }) = error else {
                panic!("{error}")
            };
            // 50 kB are 34 packets.
            assert_eq!((name, path), (expected, 34), "{error}");
            assert!(packets > 1 << 20 && window >= returned.max(1 << 30), "{error}");
            assert!(error.to_string().contains(&format!("window() returned {window} bytes")), "{error}");
        }
    }

    #[test]
    fn a_timer_that_does_not_move_on_is_told_by_its_controller_and_time() {
        for timer in [0, 1, 9] {
            let timer = Some(Duration::from_nanos(timer));
            let error = run(move |_| Box::new(Same { timer, ..SAME })).unwrap_err();
            assert!(matches!(error, ShareError::Runaway(Runaway::Timer { name: "same", .. })), "{error}");
            assert!(error.to_string().contains("timer() returned"), "{error}");
        }
    }

    #[test]
    fn nothing_is_said_of_large_windows_nor_of_frequent_timers() {
        let slow = Some(Rate::from_bits_per_sec(15_000_000));
        let often = Some(Duration::from_micros(2));
        for own in [
            Same { window: u64::MAX, pacing: slow, ..SAME },
            Same { window: 1 << 26, ..SAME },
            Same { timer: often, ..SAME },
        ] {
            run(|_| Box::new(own)).unwrap();
        }
    }
}
