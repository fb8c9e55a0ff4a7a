//! How tests write times, rates, links and flows.
#![allow(dead_code, reason = "each test file uses some of it")]

use weir_core::{Duration, Rate, Time};
use weir_sim::{FlowSpec, HopId, HopSpec, Kind};

pub(crate) fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

/// So many milliseconds after the start.
pub(crate) fn at(number: u64) -> Time {
    Time::ZERO + ms(number)
}

pub(crate) fn rate(text: &str) -> Rate {
    text.parse().unwrap()
}

/// A link whose sizes in `bdp` are of 20 ms.
pub(crate) fn hop(link: &str, qdisc: &str) -> HopSpec {
    HopSpec::new(rate(link), qdisc.parse().unwrap(), ms(20)).unwrap()
}

/// `rtt` is in milliseconds.
pub(crate) fn tcp(name: &str, path: &[HopId], rtt: u64) -> FlowSpec {
    FlowSpec::new(Kind::Tcp(name.to_owned()), path, ms(rtt)).unwrap()
}
