//! Senders that want to be taken for responsive without giving way: what a law of responsiveness must see through. Both
//! begin like Reno, so that they find the size of the bottleneck, and ignore every signal after the first.
//!
//! | attack | here |
//! |---|---|
//! | a clone of AIMD without reaction: it draws Reno's saw-tooth, but in its own time | [`SawTooth`] |
//! | dips where the law looks: full rate but in the one round trip that is assessed after a signal (CRQ section III-A compares the window of the signal's cycle with the one two cycles later, which must be below 0.9 of it) | [`Dip`] |

use crate::{Ack, Controller, EcnUse, Setup, Timeout};

/// Slow start until the first signal, which senders that answer nothing begin with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    mss: u32,
    pub(crate) ecn: EcnUse,
    pub(crate) window: u32,
    /// Half the window at the first signal, once there was one.
    pub(crate) found: Option<u32>,
    round_end: u64,
}

impl Opening {
    pub(crate) fn new(ecn: EcnUse, setup: &Setup) -> Self {
        let window = setup.initial_window.max(2);
        Self { mss: setup.mss.max(1), ecn, window, found: None, round_end: 0 }
    }

    /// Whether a round trip begins with this acknowledgement.
    pub(crate) fn round(&mut self, ack: &Ack) -> bool {
        let begins = ack.una >= self.round_end;
        if begins {
            self.round_end = ack.next;
        }
        begins
    }

    pub(crate) fn signalled(&self, ack: &Ack) -> bool {
        ack.lost.packets > 0 || self.ecn != EcnUse::Off && ack.ce.packets > 0
    }

    pub(crate) fn seek(&mut self, ack: &Ack) {
        if self.signalled(ack) {
            // Slow start overshoots twofold.
            self.window = (self.window / 2).max(2);
            self.found = Some(self.window);
        } else if ack.window_limited {
            self.window = self.window.saturating_add(ack.delivered.packets).min(1 << 24);
        }
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.window as u64 * self.mss as u64
    }
}

/// Reno's saw-tooth between half of the window it found and one and a half times of it, whatever happens.
#[derive(Clone, Copy, Debug)]
pub struct SawTooth(Opening);

impl SawTooth {
    /// A connection that begins.
    pub fn new(ecn: EcnUse, setup: &Setup) -> Self {
        Self(Opening::new(ecn, setup))
    }
}

impl Controller for SawTooth {
    fn name(&self) -> &'static str {
        "saw-tooth"
    }

    fn on_ack(&mut self, ack: &Ack) {
        let begins = self.0.round(ack);
        match self.0.found {
            None => self.0.seek(ack),
            Some(found) if begins => {
                let top = found + found / 2;
                self.0.window = if self.0.window >= top { (top / 3).max(2) } else { self.0.window + 1 };
            }
            Some(_) => {}
        }
    }

    fn on_timeout(&mut self, _: &Timeout) {}

    fn window(&self) -> u64 {
        self.0.bytes()
    }

    fn ecn(&self) -> EcnUse {
        self.0.ecn
    }
}

/// How the dips are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DipParams {
    /// Round trips from the one that was signalled to the dip: 2, where CRQ looks; at least 2.
    pub lag: u32,
    /// What is left of the window in the dip, in percent: 85, as CRQ asks for less than 90.
    pub percent: u32,
}

impl Default for DipParams {
    fn default() -> Self {
        Self { lag: 2, percent: 85 }
    }
}

/// A fixed window that dips for one round trip where the law will look.
#[derive(Clone, Copy, Debug)]
pub struct Dip {
    params: DipParams,
    opening: Opening,
    /// Rounds to go until the dip; further signals meanwhile are part of the same.
    until: Option<u32>,
}

impl Dip {
    /// A connection that begins.
    pub fn new(params: DipParams, ecn: EcnUse, setup: &Setup) -> Self {
        Self { params, opening: Opening::new(ecn, setup), until: None }
    }
}

impl Controller for Dip {
    fn name(&self) -> &'static str {
        match self.params.lag {
            3 => "dip-3",
            4 => "dip-4",
            _ => "dip",
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        let begins = self.opening.round(ack);
        let Some(found) = self.opening.found else { return self.opening.seek(ack) };
        if begins {
            self.opening.window = found;
            self.until = match self.until {
                Some(rounds) if rounds > 1 => Some(rounds - 1),
                Some(_) => {
                    let dip = u64::from(found) * u64::from(self.params.percent) / 100;
                    self.opening.window = (dip as u32).max(1);
                    None
                }
                None => None,
            };
        }
        if self.until.is_none() && self.opening.signalled(ack) {
            // The signal was put on the cycle before the one that is being sent.
            self.until = Some(self.params.lag.saturating_sub(1).max(1));
        }
    }

    fn on_timeout(&mut self, _: &Timeout) {}

    fn window(&self) -> u64 {
        self.opening.bytes()
    }

    fn ecn(&self) -> EcnUse {
        self.opening.ecn
    }
}

#[cfg(test)]
mod tests {
    use super::{Dip, DipParams, SawTooth};
    use crate::testing::{Fate, Path, setup};
    use crate::{Controller, EcnUse};
    use weir_core::Duration;

    #[test]
    fn the_saw_tooth_runs_in_its_own_time() {
        let windows = [false, true].map(|signals| {
            let mut sender = SawTooth::new(EcnUse::Classic, &setup());
            let mut path = Path::new(20);
            path.round(&mut sender, |_| false);
            path.marked_round(&mut sender, |_| false, |index| index == 5);
            (0..100)
                .map(|_| {
                    path.marked_round(&mut sender, |_| false, |index| signals && index == 0);
                    sender.window()
                })
                .collect::<Vec<_>>()
        });
        assert_eq!(windows[0], windows[1], "marks make no difference");
        let (least, most) = (windows[0].iter().min().unwrap(), windows[0].iter().max().unwrap());
        assert!(most >= &(2 * least), "{least} to {most}");
    }

    #[test]
    fn the_dip_is_in_the_round_after_the_signal_is_heard_and_one_round_long() {
        let mut sender = Dip::new(DipParams::default(), EcnUse::Classic, &setup());
        let mut path = Path::new(20);
        path.round(&mut sender, |_| false);
        path.marked_round(&mut sender, |_| false, |index| index == 5);
        let found = sender.opening.found.unwrap();
        for _ in 0..4 {
            path.round(&mut sender, |_| false);
        }
        let windows: Vec<_> = (0..8)
            .map(|round| {
                path.marked_round(&mut sender, |_| false, |index| round == 1 && index == 3);
                sender.opening.window
            })
            .collect();
        let dip = found * 85 / 100;
        assert_eq!(windows.iter().filter(|window| **window == dip).count(), 1, "{windows:?}");
        assert_eq!(windows[1], dip, "{windows:?}");
        assert_eq!(windows[7], found);
    }

    #[test]
    fn a_full_buffer_does_not_slow_either() {
        let both: [Box<dyn Controller>; 2] = [
            Box::new(SawTooth::new(EcnUse::Off, &setup())),
            Box::new(Dip::new(DipParams::default(), EcnUse::Off, &setup())),
        ];
        for mut sender in both {
            let mut path = Path::bottleneck(20, 2_000, 20);
            path.rate_over(&mut *sender, Duration::from_secs(2));
            let before = sender.window();
            path.run(&mut *sender, Duration::from_secs(2), &mut || Fate::Marked);
            assert!(sender.window() * 2 > before, "{}", sender.name());
        }
    }
}
