//! Queue disciplines without I/O: packets, time and randomness are passed in; packets and events come out. The same
//! code queues real packets in user space and virtual ones in the simulator.
//!
//! To add a discipline: write one file with a type that implements [`Qdisc`] and one for its keys that implements
//! [`config::Keys`], and enter it in `config/registry.rs`; from another crate, call [`config::register`].

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod config;
pub mod edge;

mod cake;
mod codel;
mod crq;
mod csaqm;
mod curve;
mod curvy_red;
mod drr;
mod dual;
mod dualpi2;
mod dualq_curvy;
mod fifo;
mod fq;
mod fq_codel;
mod fq_pie;
mod keys;
mod limit;
mod pi;
mod pi2;
mod pie;
mod protect;
mod red;
mod share;
mod step;
mod tbf;

pub use cake::{Cake, CakeConfig, HostIsolation};
pub use codel::{CeThreshold, Codel, CodelConfig, KernelVariant};
pub use config::{BuildContext, ConfigError, QdiscConfig};
pub use crq::{Challenges, Crq, CrqConfig, CrqCounters, Sharing, Split, Switching};
pub use csaqm::{Csaqm, CsaqmConfig};
pub use drr::{Drr, DrrConfig};
pub use fifo::{Bfifo, Pfifo};
pub use fq::{Fq, FqConfig};
pub use fq_codel::{FqCodel, FqCodelConfig};
pub use limit::Limit;
pub use tbf::{Tbf, TbfConfig};

pub use weir_queue::{Qdisc, QueueLimit};
