//! What a flow may set at its two ends, and what only the simulator's ends can do.

use crate::Refusal;
use weir_core::Duration;
use weir_sim::{EndOptions, LARGEST_GSO};

use super::{Flow, Scenario};
use weir_testbed::traffic::Stack;

/// RFC 5681 section 4.2: an acknowledgement must come within 500 ms.
const LONGEST_ACK_DELAY: Duration = Duration::from_millis(500);
/// Longer than any network card or kernel keeps packets together.
const LONGEST_GRO: Duration = Duration::from_millis(100);

impl Flow {
    /// The keys that are given of what only the simulator's ends, or its paths, can do.
    fn given_of_simulator(&self) -> impl Iterator<Item = &'static str> {
        self.given_ends().chain(self.remark.map(|_| "remark"))
    }

    /// The keys of the two ends that are given.
    fn given_ends(&self) -> impl Iterator<Item = &'static str> {
        let keys = [
            ("gso", self.gso.is_some()),
            ("initial_window", self.initial_window.is_some()),
            ("max_rate", self.max_rate.is_some()),
            ("min_burst", self.min_burst.is_some()),
            ("defer", self.defer.is_some()),
            ("ack_every", self.ack_every.is_some()),
            ("ack_delay", self.ack_delay.is_some()),
            ("gro", self.gro.is_some()),
        ];
        keys.into_iter().filter(|(_, given)| *given).map(|(key, _)| key)
    }

    pub(super) fn check_ends(&self) -> Result<(), Refusal> {
        let fail = |key: &str, message: String| Err(Refusal::new(key, message));
        if self.gso.is_some_and(|segments| !(1..=u32::from(LARGEST_GSO)).contains(&segments)) {
            return fail(
                "gso",
                format!("must lie between 1 and {LARGEST_GSO}, what an IPv4 packet can hold"),
            );
        }
        if self.initial_window == Some(0) {
            return fail("initial_window", "must be at least 1 packet".to_owned());
        }
        if self.min_burst == Some(0) {
            return fail("min_burst", "must be at least 1 packet".to_owned());
        }
        if self.defer == Some(true) && self.stack == Stack::Quic {
            return fail("defer", "only TCP flows have it; remove the key".to_owned());
        }
        if self.max_rate.is_some_and(|rate| rate.bits_per_sec() == 0) {
            return fail("max_rate", "must be above 0, such as 40mbit".to_owned());
        }
        if self.ack_every == Some(0) {
            return fail("ack_every", "must be at least 1 packet".to_owned());
        }
        if self.ack_delay.is_some_and(|delay| delay > LONGEST_ACK_DELAY) {
            return fail("ack_delay", format!("must be at most {LONGEST_ACK_DELAY} (RFC 5681)"));
        }
        if self.gro.is_some_and(|time| time > LONGEST_GRO) {
            return fail("gro", format!("must be at most {LONGEST_GRO}; real hosts take well under 1ms"));
        }
        match self.given_ends().next().filter(|_| self.stack == Stack::Udp) {
            Some(key) => fail(key, "only TCP and QUIC flows have it; remove the key".to_owned()),
            None => Ok(()),
        }
    }

    /// The options of the simulator's ends.
    pub fn end_options(&self) -> EndOptions {
        let usual = EndOptions::default();
        EndOptions {
            gso: self.gso.map_or(usual.gso, |segments| segments as u16),
            initial_window: self.initial_window.unwrap_or(usual.initial_window),
            min_burst: self.min_burst.unwrap_or(usual.min_burst),
            defer: self.defer.unwrap_or(usual.defer),
            max_rate: self.max_rate,
            ack_every: self.ack_every,
            ack_delay: self.ack_delay,
            gro: self.gro.unwrap_or(usual.gro),
        }
    }
}

impl Scenario {
    /// What only world `sim` can do of what is asked for: the key, as [`said`](Self::said) takes it.
    pub fn needs_simulator(&self) -> Option<String> {
        let of_flow = |(index, flow): (usize, &Flow)| {
            flow.given_of_simulator().next().map(|key| format!("flow.{index}.{key}"))
        };
        let workload = || (!self.workloads.is_empty()).then(|| "workload.0".to_owned());
        let trace = || self.measure.trace.then(|| "measure.trace".to_owned());
        let ends = || self.flows.iter().enumerate().find_map(of_flow);
        self.given_path().or_else(ends).or_else(workload).or_else(trace)
    }
}
