//! A bottleneck in virtual time: the same queue disciplines and controllers as in the other worlds, with links and
//! endpoints that exist only as numbers. The same seed gives the same bytes, whatever the machine.
//!
//! ```
//! use weir_core::{Duration, Seed};
//! use weir_sim::{FlowSpec, HopSpec, Network};
//!
//! let rate = "20mbit".parse().unwrap();
//! let rtt: Duration = "20ms".parse().unwrap();
//! let mut network = Network::new(Seed::default(), ());
//! let hop = network.add_hop(HopSpec::new(rate, "codel".parse().unwrap(), rtt)?);
//! let one = network.add_flow(FlowSpec::tcp("reno", hop, rtt)?)?;
//! let other = network.add_flow(FlowSpec::tcp("reno", hop, rtt)?)?;
//! network.run_until(weir_core::Time::ZERO + Duration::from_secs(20));
//! let (one, other) = (network.flow(one).bytes as f64, network.flow(other).bytes as f64);
//! assert!(one / other > 0.8 && one / other < 1.25, "two alike share alike: {one} {other}");
//! # Ok::<(), weir_sim::SpecError>(())
//! ```

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod aggregates;
mod endpoint;
mod engine;
mod flow;
mod guard;
pub mod headers;
mod hop;
mod impairment;
mod judge;
mod line;
mod network;
mod observer;
mod pace;
mod replay;
mod route;
pub mod share;
mod steps;
mod trace;
mod treatment;
mod twins;
mod workload;

pub use aggregates::Aggregates;
pub use endpoint::{
    Bunching, EndOptions, Feedback, LARGEST_GSO, ReceiverConfig, Recovery, SenderConfig, Ticks,
};
pub use flow::{Amount, FASTEST_DATAGRAMS, FlowId, FlowReport, FlowSpec, Kind, Sample, SpecError};
pub use guard::Runaway;
pub use hop::{HopId, HopReport, HopSpec};
pub use impairment::Impairment;
pub use judge::Judge;
pub use network::Network;
pub use observer::{Carried, Observer, Opening, Way};
pub use share::{Share, ShareError, Shared};
pub use steps::{RateSteps, StepsError};
pub use trace::{OPPORTUNITY_BYTES, Trace, TraceError};
pub use workload::{MOST_ARRIVALS, Pattern, Request, Size, Span, WorkloadId, WorkloadReport, WorkloadSpec};
