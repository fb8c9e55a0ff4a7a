//! A sender that knows the law and wants to be judged responsive while it takes more than its part: what the attacks of
//! [`adversary`](crate::Dip) do, as numbers that a search can turn. It begins as they do, with slow start, and takes the
//! window at the first signal for the path's.
//!
//! | attack | parameters |
//! |---|---|
//! | dips where the law looks | `depth`, `lag`, `hold`, and `growth` or at once back to `ceiling` |
//! | a clone of AIMD, only greedier | `depth 10 growth 8 ceiling 0` |
//! | answers now and then | `every` |
//! | its own slow saw-tooth | `swing`, `period` |
//! | windows at random | `noise` |
//! | more than the path has room for | `ceiling` above 100 |

use weir_core::{Random, Rate, Time};

use crate::adversary::Opening;
use crate::{Ack, Controller, EcnUse, Setup, Timeout};

/// What an [`Evader`] does. In scenarios they are words behind its name: `evader depth 20 hold 2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvaderParams {
    /// What it gives way by after a signal, in percent of its window, 0 to 100.
    pub depth: u32,
    /// Round trips from the one in which it hears of the signal to the one in which it gives way; 0 is the next.
    pub lag: u32,
    /// Round trips that it stays down.
    pub hold: u32,
    /// Packets that it grows by in a round trip until it is at the ceiling; 0 to be there at once.
    pub growth: u32,
    /// The largest window, in percent of the one that it has found, 0 to 10000; 0 for none.
    pub ceiling: u32,
    /// The least window, in packets.
    pub floor: u32,
    /// It answers one signal in so many; 0 for none.
    pub every: u32,
    /// Each round trip has a window of its own, by up to so many percent smaller or larger, 0 to 100.
    pub noise: u32,
    /// A saw-tooth of its own: it ends so many percent lower than it begins, 0 to 100.
    pub swing: u32,
    /// Round trips of that saw-tooth.
    pub period: u32,
    /// It is paced at so many percent of its window in a round trip; 0 to send as the window allows.
    pub pace: u32,
}

impl Default for EvaderParams {
    /// The dip that CRQ asks for, two round trips after the signal.
    fn default() -> Self {
        Self {
            depth: 15,
            lag: 0,
            hold: 1,
            growth: 0,
            ceiling: 100,
            floor: 2,
            every: 1,
            noise: 0,
            swing: 0,
            period: 40,
            pace: 0,
        }
    }
}

/// Words, and the largest value of each.
const WORDS: [(&str, u32); 11] = [
    ("depth", 100),
    ("lag", 1_000),
    ("hold", 1_000),
    ("growth", 100_000),
    ("ceiling", 10_000),
    ("floor", 100_000),
    ("every", 1_000_000),
    ("noise", 100),
    ("swing", 100),
    ("period", 1_000_000),
    ("pace", 10_000),
];

impl EvaderParams {
    /// The defaults but for what is in `words`: names and numbers in turn, such as `depth 20 hold 2`.
    ///
    /// # Errors
    ///
    /// In words: an unknown name, no number, or one that is too large.
    pub fn parse(words: &str) -> Result<Self, String> {
        let mut params = Self::default();
        let mut words = words.split_whitespace();
        while let Some(word) = words.next() {
            let Some((name, most)) = WORDS.into_iter().find(|(name, _)| *name == word) else {
                let hint = weir_core::words::hint(word, WORDS.into_iter().map(|(name, _)| name));
                return Err(format!("'{word}' is no parameter of it{hint}"));
            };
            let value = words.next().and_then(|value| value.parse().ok()).filter(|value| *value <= most);
            let value = value.ok_or_else(|| format!("{name} takes a whole number up to {most}"))?;
            *params.field(name) = value;
        }
        Ok(params)
    }

    fn field(&mut self, name: &str) -> &mut u32 {
        match name {
            "depth" => &mut self.depth,
            "lag" => &mut self.lag,
            "hold" => &mut self.hold,
            "growth" => &mut self.growth,
            "ceiling" => &mut self.ceiling,
            "floor" => &mut self.floor,
            "every" => &mut self.every,
            "noise" => &mut self.noise,
            "swing" => &mut self.swing,
            "period" => &mut self.period,
            _ => &mut self.pace,
        }
    }
}

/// The sender.
#[derive(Clone, Debug)]
pub struct Evader {
    params: EvaderParams,
    opening: Opening,
    random: Random,
    /// Packets, before noise and swing.
    base: u32,
    /// Round trips until it gives way, if it is going to.
    until: Option<u32>,
    /// Round trips that it stays down.
    down: u32,
    signals: u32,
    /// In this round trip.
    heard: bool,
    rounds: u32,
    round_began: Option<Time>,
    /// Nanoseconds.
    round_trip: Option<u64>,
}

impl Evader {
    /// A connection that begins.
    pub fn new(params: EvaderParams, ecn: EcnUse, setup: &Setup) -> Self {
        Self {
            params,
            opening: Opening::new(ecn, setup),
            random: setup.random.clone(),
            base: 0,
            until: None,
            down: 0,
            signals: 0,
            heard: false,
            rounds: 0,
            round_began: None,
            round_trip: None,
        }
    }

    fn ceiling(&self, found: u32) -> u32 {
        let percent = u64::from(self.params.ceiling);
        if percent == 0 { 1 << 24 } else { ((u64::from(found) * percent / 100) as u32).max(self.floor()) }
    }

    fn floor(&self) -> u32 {
        self.params.floor.max(1)
    }

    /// A signal came; further ones in the round trip, or until it is answered, are part of the same.
    fn hear(&mut self) {
        if self.until.is_none() && self.down == 0 && !std::mem::replace(&mut self.heard, true) {
            self.signals = (self.signals + 1) % self.params.every.max(1);
            if self.params.every > 0 && self.signals == 0 {
                self.until = Some(self.params.lag);
            }
        }
    }

    /// The next round trip begins.
    fn advance(&mut self, found: u32) {
        self.heard = false;
        match self.until {
            Some(0) => {
                let kept = u64::from(self.base) * u64::from(100 - self.params.depth.min(100)) / 100;
                self.base = (kept as u32).max(self.floor());
                self.until = None;
                self.down = self.params.hold;
            }
            Some(rounds) => self.until = Some(rounds - 1),
            None => {}
        }
        if self.down > 0 {
            self.down -= 1;
        } else {
            let ceiling = self.ceiling(found);
            self.base = match self.params.growth {
                0 => ceiling,
                growth => (self.base + growth).min(ceiling),
            };
        }
        self.opening.window = self.shaped();
    }

    /// The window with noise and its own saw-tooth.
    fn shaped(&mut self) -> u32 {
        let base = i64::from(self.base);
        let noise = i64::from(self.params.noise.min(100));
        let draw = self.random.below(2 * noise as u64 + 1) as i64 - noise;
        self.rounds = (self.rounds + 1) % self.params.period.max(1);
        let swung =
            u64::from(self.params.swing) * u64::from(self.rounds) / u64::from(self.params.period.max(1));
        let percent = (100 + draw - swung as i64).max(0);
        u32::try_from(base * percent / 100).unwrap_or(1 << 24).clamp(self.floor(), 1 << 24)
    }
}

impl Controller for Evader {
    fn name(&self) -> &'static str {
        "evader"
    }

    fn on_ack(&mut self, ack: &Ack) {
        let begins = self.opening.round(ack);
        if begins {
            let began = self.round_began.replace(ack.now);
            self.round_trip = began.map(|began| ack.now.since(began).as_nanos().max(1)).or(self.round_trip);
        }
        let Some(found) = self.opening.found else {
            self.opening.seek(ack);
            self.base = self.opening.window;
            return;
        };
        if self.opening.signalled(ack) {
            self.hear();
        }
        if begins {
            self.advance(found);
        }
    }

    fn on_timeout(&mut self, _: &Timeout) {}

    fn window(&self) -> u64 {
        self.opening.bytes()
    }

    fn pacing(&self) -> Option<Rate> {
        let round_trip = self.round_trip.filter(|_| self.params.pace > 0)?;
        let bits = u128::from(self.window()) * 8 * u128::from(self.params.pace) * 10_000_000;
        Some(Rate::from_bits_per_sec(u64::try_from(bits / u128::from(round_trip)).unwrap_or(u64::MAX).max(1)))
    }

    fn ecn(&self) -> EcnUse {
        self.opening.ecn
    }
}

#[cfg(test)]
mod tests {
    use super::{Evader, EvaderParams};
    use crate::EcnUse;
    use crate::testing::setup;

    /// The windows of a sender that has found 100 packets, round trip by round trip, with a signal in some.
    fn windows(words: &str, rounds: usize, signals: impl Fn(usize) -> bool) -> Vec<u32> {
        let params = EvaderParams::parse(words).unwrap();
        let mut sender = Evader::new(params, EcnUse::Classic, &setup());
        sender.opening.found = Some(100);
        sender.base = 100;
        let round = |round| {
            sender.advance(100);
            if signals(round) {
                sender.hear();
                sender.hear();
            }
            sender.opening.window
        };
        (0..rounds).map(round).collect()
    }

    #[test]
    fn it_gives_way_as_deep_as_late_and_as_long_as_it_is_told() {
        assert_eq!(windows("", 4, |round| round == 1), [100, 100, 85, 100]);
        assert_eq!(windows("depth 40 hold 3", 7, |round| round == 1), [100, 100, 60, 60, 60, 100, 100]);
        assert_eq!(windows("depth 40 lag 2", 6, |round| round == 1), [100, 100, 100, 100, 60, 100]);
        assert_eq!(windows("depth 100 floor 7", 4, |round| round == 1), [100, 100, 7, 100]);
    }

    #[test]
    fn growth_is_by_the_round_up_to_the_ceiling() {
        let signal = |round| round == 2;
        assert_eq!(
            windows("depth 50 growth 20 ceiling 150", 9, signal),
            [120, 140, 150, 75, 95, 115, 135, 150, 150]
        );
        assert_eq!(windows("depth 10 growth 8 ceiling 0", 5, signal), [108, 116, 124, 111, 119]);
    }

    #[test]
    fn it_answers_one_signal_in_so_many() {
        let answers = |words: &str| {
            let windows = windows(words, 64, |round| round % 4 == 0);
            windows.iter().filter(|window| **window < 100).count()
        };
        assert_eq!([answers("every 0"), answers("every 1"), answers("every 4")], [0, 16, 4]);
    }

    #[test]
    fn its_own_rhythm_and_its_noise_need_no_signal() {
        assert_eq!(windows("swing 50 period 5", 6, |_| false), [90, 80, 70, 60, 100, 90]);
        let noisy = windows("noise 20", 400, |_| false);
        let (least, most) = (noisy.iter().min().unwrap(), noisy.iter().max().unwrap());
        assert_eq!((*least, *most), (80, 120));
        let mean = noisy.iter().sum::<u32>() / 400;
        assert!((98..=102).contains(&mean), "{mean}");
    }

    #[test]
    fn wrong_words_are_named() {
        for (words, wrong) in [
            ("depht 3", "did you mean 'depth'"),
            ("depth", "depth takes a whole number up to 100"),
            ("depth 101", "up to 100"),
            ("hold -1", "hold takes"),
        ] {
            let error = EvaderParams::parse(words).unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
