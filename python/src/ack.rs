//! What a Python controller is told of an acknowledgement.

use pyo3::prelude::*;
use weir_core::Duration;

/// An acknowledgement.
#[pyclass(frozen, module = "weirnet", name = "Ack")]
pub(crate) struct Ack {
    ack: weir_cc::Ack,
    is_congestion: bool,
}

impl Ack {
    /// `is_congestion` is whether a controller that answers once per round trip answers now.
    pub(crate) fn new(ack: weir_cc::Ack, is_congestion: bool) -> Self {
        Self { ack, is_congestion }
    }
}

#[pymethods]
impl Ack {
    /// When, in seconds.
    #[getter]
    fn now_s(&self) -> f64 {
        self.ack.now.as_nanos() as f64 / 1e9
    }

    /// Packets newly delivered.
    #[getter]
    fn delivered(&self) -> u32 {
        self.ack.delivered.packets
    }

    /// Their payload bytes.
    #[getter]
    fn delivered_bytes(&self) -> u64 {
        self.ack.delivered.bytes
    }

    /// Packets newly declared lost.
    #[getter]
    fn lost(&self) -> u32 {
        self.ack.lost.packets
    }

    /// Packets newly delivered with a mark.
    #[getter]
    fn marked(&self) -> u32 {
        self.ack.ce.packets
    }

    /// The first loss or mark since a round trip: what came before is answered already.
    #[getter]
    fn is_congestion(&self) -> bool {
        self.is_congestion
    }

    /// The round-trip time in seconds; None if it could not be measured.
    #[getter]
    fn rtt_s(&self) -> Option<f64> {
        self.ack.rtt.map(seconds)
    }

    /// Smoothed, by RFC 6298; 0 before the first sample.
    #[getter]
    fn smoothed_rtt_s(&self) -> f64 {
        seconds(self.ack.smoothed_rtt)
    }

    /// The shortest of the connection; None before the first sample.
    #[getter]
    fn min_rtt_s(&self) -> Option<f64> {
        (self.ack.min_rtt != Duration::MAX).then(|| seconds(self.ack.min_rtt))
    }

    /// Payload bytes in flight after this acknowledgement.
    #[getter]
    fn in_flight_bytes(&self) -> u64 {
        self.ack.in_flight
    }

    /// The rate of delivery in bit/s over the last round trip; None if it could not be measured.
    #[getter]
    fn rate_bps(&self) -> Option<f64> {
        let rate = self.ack.rate?;
        let interval = seconds(rate.interval);
        (interval > 0.0).then(|| rate.delivered.bytes as f64 * 8.0 / interval)
    }

    /// Whether the window, and not the application or pacing, has bounded what was sent.
    #[getter]
    fn is_window_limited(&self) -> bool {
        self.ack.window_limited
    }

    /// Packets delivered in the connection so far.
    #[getter]
    fn total_delivered(&self) -> u64 {
        self.ack.total_delivered
    }

    /// Packets lost in the connection so far.
    #[getter]
    fn total_lost(&self) -> u64 {
        self.ack.total_lost
    }

    fn __repr__(&self) -> String {
        let (now, delivered, lost, marked) = (self.now_s(), self.delivered(), self.lost(), self.marked());
        format!("<weirnet.Ack at {now} s: {delivered} delivered, {lost} lost, {marked} marked>")
    }
}

pub(crate) fn seconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e9
}
