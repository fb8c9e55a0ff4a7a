//! Queue disciplines as configurations name them: a TOML table with `kind`, or a line of words in iproute2's order
//! (`codel ecn target 1ms limit 1000p`). iproute2's defaults come from the kernel and the device; here they are the
//! kernel's, except that drop-tail in bytes and the children of CRQ are sized as in the paper, to their BDP.
//!
//! Each discipline defines its keys beside itself, as a type that implements [`Keys`]; `config/registry.rs` lists them.
//! Those of other crates are made known by [`register`].

mod error;
mod given;
mod keys;
mod registered;
mod registry;
mod table;
mod words;

pub use crate::cake::CakeKeys;
pub use crate::codel::CodelKeys;
pub use crate::crq::{CrqKeys, SplitKind};
pub use crate::csaqm::{CsaqmKeys, EdgeWord};
pub use crate::curvy_red::CurvyRedKeys;
pub use crate::drr::DrrKeys;
pub use crate::dualpi2::{DualPi2Keys, DualPi2Variant};
pub use crate::dualq_curvy::{CurvyVariant, DualqCurvyKeys};
pub use crate::fifo::{BfifoConfig, PfifoConfig};
pub use crate::fq::FqKeys;
pub use crate::fq_codel::FqCodelKeys;
pub use crate::fq_pie::FqPieKeys;
pub use crate::pi2::{Pi2Keys, Scalable};
pub use crate::pie::{PieKeys, PieVariant};
pub use crate::red::RedKeys;
pub use crate::step::{StepKeys, Threshold};
pub use error::ConfigError;
pub use given::GivenQdisc;
pub use keys::{Keys, Word};
pub(crate) use keys::{join, write_unusual};
pub use registered::{RegisterError, Registered, register};
pub use registry::QdiscConfig;

use weir_core::{Bytes, Duration, Rate, Seed};

use crate::{Limit, QueueLimit};

/// The link that a discipline is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildContext {
    /// The link's rate.
    pub rate: Rate,
    /// The round-trip time without queueing, by which a BDP is reckoned.
    pub rtt: Duration,
    /// Wire bytes of the longest ordinary packet: 1514 on Ethernet.
    pub mtu: u32,
    /// Where disciplines that draw random numbers take their streams from, each by its own name.
    pub seed: Seed,
}

/// Above a million bytes a round is no round any more (`fq_pie` has the same bound in the kernel).
const MOST_QUANTUM: u64 = 1 << 20;

impl BuildContext {
    /// A limit in wire bytes, for a discipline of `kind`; `instead` is the one that counts packets.
    pub(crate) fn byte_limit(
        &self,
        limit: Limit,
        kind: &'static str,
        instead: &'static str,
    ) -> Result<u64, ConfigError> {
        let bytes =
            limit.bytes(self.rate, self.rtt).ok_or(ConfigError::LimitUnit { kind, limit, instead })?;
        if bytes < u64::from(self.mtu) {
            return Err(ConfigError::LimitTooSmall { limit, bytes, mtu: self.mtu });
        }
        Ok(bytes)
    }

    /// Bytes of IP in the longest ordinary packet, by which a BDP is counted in packets.
    fn packet(&self) -> u32 {
        self.mtu.saturating_sub(weir_core::full_packet(0))
    }

    /// A limit in packets, for a discipline of `kind`; `instead` is the one that counts bytes.
    pub(crate) fn packet_limit(
        &self,
        limit: Limit,
        kind: &'static str,
        instead: &'static str,
    ) -> Result<u32, ConfigError> {
        let packets = limit.packets(self.rate, self.rtt, self.packet()).ok_or(ConfigError::LimitUnit {
            kind,
            limit,
            instead,
        })?;
        let bytes = limit.bytes(self.rate, self.rtt);
        if packets == 0 || bytes.is_some_and(|bytes| bytes < u64::from(self.mtu)) {
            return Err(ConfigError::LimitTooSmall { limit, bytes: bytes.unwrap_or(0), mtu: self.mtu });
        }
        Ok(packets)
    }

    /// Wire bytes that a flow may send at once, `usual` unless told; at least `least`.
    pub(crate) fn quantum(
        &self,
        key: &'static str,
        given: Option<Bytes>,
        usual: u32,
        least: u32,
    ) -> Result<u32, ConfigError> {
        let Some(Bytes(bytes)) = given else { return Ok(usual.max(least)) };
        let range = u64::from(least)..=MOST_QUANTUM;
        if !range.contains(&bytes) {
            return Err(ConfigError::refused(
                key,
                format!("{bytes} bytes are not from {least} to {MOST_QUANTUM}"),
            ));
        }
        Ok(bytes as u32)
    }

    /// The limit in packets of a discipline of `kind` that counts nothing else, and of which no other kind counts bytes;
    /// `key` is for messages.
    ///
    /// # Errors
    ///
    /// A limit in bytes, or below one packet.
    pub fn packets(&self, key: &'static str, limit: Limit, kind: &'static str) -> Result<u32, ConfigError> {
        if let Limit::Bytes(_) = limit {
            let reason = format!("a {kind} counts packets, not {limit}; give packets such as 1000p, or bdp");
            return Err(ConfigError::refused(key, reason));
        }
        self.packet_limit(limit, kind, kind)
    }

    /// A limit for a discipline of `kind` that counts in either unit; a BDP is counted in packets, a time in bytes.
    pub(crate) fn queue_limit(&self, limit: Limit, kind: &'static str) -> Result<QueueLimit, ConfigError> {
        Ok(match limit {
            Limit::Bytes(_) | Limit::Time(_) => QueueLimit::Bytes(self.byte_limit(limit, kind, kind)?),
            Limit::Packets(_) | Limit::Bdp(_) => QueueLimit::Packets(self.packet_limit(limit, kind, kind)?),
        })
    }
}

#[cfg(test)]
mod tests;
