//! Senders that do not answer to congestion: a fixed window, and a constant rate.

use weir_core::{Rate, Time};

use crate::{Ack, Controller, EcnUse};

/// Keeps the same number of bytes in flight, whatever happens.
#[derive(Clone, Copy, Debug)]
pub struct FixedWindow {
    bytes: u64,
    ecn: EcnUse,
}

impl FixedWindow {
    /// `bytes` of payload in flight.
    pub const fn new(bytes: u64, ecn: EcnUse) -> Self {
        Self { bytes, ecn }
    }
}

impl Controller for FixedWindow {
    fn name(&self) -> &'static str {
        "fixed-window"
    }

    fn on_ack(&mut self, _: &Ack) {}

    fn on_timeout(&mut self, _: Time, _: u64) {}

    fn window(&self) -> u64 {
        self.bytes
    }

    fn ecn(&self) -> EcnUse {
        self.ecn
    }
}

/// Sends at one rate, whatever happens.
#[derive(Clone, Copy, Debug)]
pub struct ConstantRate {
    rate: Rate,
    ecn: EcnUse,
}

impl ConstantRate {
    /// `rate` of payload.
    pub const fn new(rate: Rate, ecn: EcnUse) -> Self {
        Self { rate, ecn }
    }
}

impl Controller for ConstantRate {
    fn name(&self) -> &'static str {
        "constant-rate"
    }

    fn on_ack(&mut self, _: &Ack) {}

    fn on_timeout(&mut self, _: Time, _: u64) {}

    fn window(&self) -> u64 {
        u64::MAX
    }

    fn pacing(&self) -> Option<Rate> {
        Some(self.rate)
    }

    fn ecn(&self) -> EcnUse {
        self.ecn
    }
}
