//! Senders that do not answer to congestion: a fixed window, and a constant rate. Both are given, or found by slow start
//! up to the first signal, as the [adversaries](crate::SawTooth) find theirs.

use weir_core::Rate;

use crate::adversary::Opening;
use crate::{Ack, Controller, EcnUse, Setup, Timeout};

/// Keeps the same number of bytes in flight, whatever happens.
#[derive(Clone, Copy, Debug)]
pub struct FixedWindow(Kept);

#[derive(Clone, Copy, Debug)]
enum Kept {
    Given { bytes: u64, ecn: EcnUse },
    Found(Opening),
}

impl FixedWindow {
    /// `bytes` of payload in flight.
    pub const fn new(bytes: u64, ecn: EcnUse) -> Self {
        Self(Kept::Given { bytes, ecn })
    }

    /// A connection that begins; half of the window at its first signal is kept.
    pub fn seeking(ecn: EcnUse, setup: &Setup) -> Self {
        Self(Kept::Found(Opening::new(ecn, setup)))
    }
}

impl Controller for FixedWindow {
    fn name(&self) -> &'static str {
        "fixed-window"
    }

    fn on_ack(&mut self, ack: &Ack) {
        if let Kept::Found(opening) = &mut self.0
            && opening.found.is_none()
        {
            opening.seek(ack);
        }
    }

    fn on_timeout(&mut self, _: &Timeout) {}

    fn window(&self) -> u64 {
        match &self.0 {
            Kept::Given { bytes, .. } => *bytes,
            Kept::Found(opening) => opening.bytes(),
        }
    }

    fn ecn(&self) -> EcnUse {
        match &self.0 {
            Kept::Given { ecn, .. } => *ecn,
            Kept::Found(opening) => opening.ecn,
        }
    }
}

/// Sends at one rate, whatever happens.
#[derive(Clone, Copy, Debug)]
pub struct ConstantRate {
    rate: Option<Rate>,
    /// What looks for the rate.
    opening: Option<Opening>,
    ecn: EcnUse,
}

impl ConstantRate {
    /// `rate` of payload.
    pub const fn new(rate: Rate, ecn: EcnUse) -> Self {
        Self { rate: Some(rate), opening: None, ecn }
    }

    /// A connection that begins. If the transport has a limit for pacing, that is the rate; else it is the one that half
    /// the window at the first signal made.
    pub fn seeking(ecn: EcnUse, setup: &Setup) -> Self {
        Self { rate: None, opening: Some(Opening::new(ecn, setup)), ecn }
    }
}

impl Controller for ConstantRate {
    fn name(&self) -> &'static str {
        "constant-rate"
    }

    fn on_max_rate(&mut self, rate: Rate) {
        if self.opening.is_some() {
            self.rate = Some(rate);
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        let (None, Some(opening)) = (self.rate, &mut self.opening) else { return };
        opening.seek(ack);
        if opening.found.is_some() {
            let round = ack.smoothed_rtt.as_nanos().max(1);
            let bits = u128::from(opening.bytes()) * 8_000_000_000 / u128::from(round);
            self.rate = Some(Rate::from_bits_per_sec(u64::try_from(bits).unwrap_or(u64::MAX).max(1)));
        }
    }

    fn on_timeout(&mut self, _: &Timeout) {}

    fn window(&self) -> u64 {
        match (self.rate, &self.opening) {
            (None, Some(opening)) => opening.bytes(),
            _ => u64::MAX,
        }
    }

    fn pacing(&self) -> Option<Rate> {
        self.rate
    }

    fn ecn(&self) -> EcnUse {
        self.ecn
    }
}

#[cfg(test)]
mod tests {
    use super::{ConstantRate, FixedWindow};
    use crate::testing::{Fate, Path, setup};
    use crate::{Controller, EcnUse};
    use weir_core::{Duration, Rate};

    #[test]
    fn what_was_found_stays_whatever_happens() {
        let both: [Box<dyn Controller>; 2] = [
            Box::new(FixedWindow::seeking(EcnUse::Classic, &setup())),
            Box::new(ConstantRate::seeking(EcnUse::Classic, &setup())),
        ];
        for mut sender in both {
            let mut path = Path::bottleneck(20, 2_000, 20);
            path.run(&mut *sender, Duration::from_secs(2), &mut || Fate::Arrives);
            let found = (sender.window(), sender.pacing());
            // More than the ten packets it began with, and no more than path and queue hold together.
            let window = found.1.map_or(found.0, |rate| rate.bytes_in(Duration::from_millis(20)).0);
            assert!((15_000..=90_000).contains(&window), "{}: {window}", sender.name());
            path.run(&mut *sender, Duration::from_secs(2), &mut || Fate::Marked);
            sender.on_timeout(&path.timeout());
            assert_eq!(found, (sender.window(), sender.pacing()), "{}", sender.name());
        }
    }

    #[test]
    fn a_limit_of_the_transport_is_the_rate() {
        let rate = Rate::from_bits_per_sec(3_000_000);
        let mut sender = ConstantRate::seeking(EcnUse::Off, &setup());
        sender.on_max_rate(rate);
        assert_eq!((sender.pacing(), sender.window()), (Some(rate), u64::MAX));
        let mut given = ConstantRate::new(rate, EcnUse::Off);
        given.on_max_rate(Rate::from_bits_per_sec(1_000_000));
        assert_eq!(given.pacing(), Some(rate));
    }
}
