//! Queue disciplines as configurations name them: a TOML table with `kind`, or a line of words in iproute2's order
//! (`codel ecn target 1ms limit 1000p`). iproute2's defaults come from the kernel and the device; here they are the
//! kernel's, except that drop-tail in bytes and the children of CRQ are sized as in the paper, to their BDP.
//!
//! Each discipline defines its keys beside itself, as a type that implements [`Keys`]; `config/registry.rs` lists them.
//! Those of other crates are made known by [`register`].

mod crq;
mod given;
mod registered;
mod registry;
mod table;
mod words;

pub use crate::cake::CakeKeys;
pub use crate::codel::CodelKeys;
pub use crate::csaqm::{CsaqmKeys, EdgeWord};
pub use crate::curvy_red::CurvyRedKeys;
pub use crate::drr::DrrKeys;
pub use crate::dualpi2::{DualPi2Keys, DualPi2Variant};
pub use crate::dualq_curvy::{CurvyVariant, DualqCurvyKeys};
pub use crate::fifo::{BfifoConfig, PfifoConfig};
pub use crate::fq::FqKeys;
pub use crate::fq_codel::FqCodelKeys;
pub use crate::fq_pie::FqPieKeys;
pub use crate::keys::{BuildContext, ConfigError, Keys, Word};
pub use crate::pi2::{Pi2Keys, Scalable};
pub use crate::pie::{PieKeys, PieVariant};
pub use crate::red::RedKeys;
pub use crate::step::{StepKeys, Threshold};
pub use crate::tbf::TbfKeys;
pub use crq::{CrqKeys, SplitKind};
pub use given::GivenQdisc;
pub use registered::{RegisterError, Registered, register};
pub use registry::QdiscConfig;

#[cfg(test)]
mod tests;
