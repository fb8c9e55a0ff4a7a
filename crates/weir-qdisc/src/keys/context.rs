//! The link that a discipline is built for, and the limits that follow from it.

use weir_core::{Bytes, Duration, Rate, Seed};

use super::ConfigError;
use crate::{Limit, QueueLimit};

/// The link that a discipline is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildContext {
    /// The link's rate.
    pub rate: Rate,
    /// The round-trip time without queueing, from which a BDP is computed.
    pub rtt: Duration,
    /// Wire bytes of the longest ordinary packet: 1514 on Ethernet.
    pub mtu: u32,
    /// Where disciplines that draw random numbers take their streams from, each by its own name.
    pub seed: Seed,
}

/// Above a million bytes a round is no round any more (`fq_pie` has the same bound in the kernel).
const MOST_QUANTUM: u64 = 1 << 20;

impl BuildContext {
    fn too_small(&self, key: &'static str, limit: Limit, bytes: u64, example: Limit) -> ConfigError {
        ConfigError::LimitTooSmall { key, limit, bytes, mtu: self.mtu, example }
    }

    /// A limit in wire bytes, for a discipline of `kind`; `instead` is the one that counts packets. `key` is for
    /// messages.
    pub(crate) fn byte_limit(
        &self,
        key: &'static str,
        limit: Limit,
        kind: &'static str,
        instead: &'static str,
    ) -> Result<u64, ConfigError> {
        let bytes =
            limit.bytes(self.rate, self.rtt).ok_or(ConfigError::LimitUnit { kind, limit, instead })?;
        if bytes < u64::from(self.mtu) {
            return Err(self.too_small(key, limit, bytes, Limit::Bytes(Bytes(10 * u64::from(self.mtu)))));
        }
        Ok(bytes)
    }

    /// Bytes of IP in the longest ordinary packet, by which a BDP is counted in packets.
    fn packet(&self) -> u32 {
        self.mtu.saturating_sub(weir_core::full_packet(0))
    }

    /// A limit in packets, for a discipline of `kind`; `instead` is the one that counts bytes. `key` is for messages.
    pub(crate) fn packet_limit(
        &self,
        key: &'static str,
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
            return Err(self.too_small(key, limit, bytes.unwrap_or(0), Limit::Packets(10)));
        }
        Ok(packets)
    }

    /// Wire bytes that a flow may send at once, `usual` by default; at least `least`.
    ///
    /// # Errors
    /// Names `key` where the bytes are out of range.
    pub fn quantum(
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

    /// The limit in packets of a discipline of `kind` that counts nothing else, and of which no other kind counts
    /// bytes; `key` is for messages.
    ///
    /// # Errors
    ///
    /// A limit in bytes, or below one packet.
    pub fn packets(&self, key: &'static str, limit: Limit, kind: &'static str) -> Result<u32, ConfigError> {
        if let Limit::Bytes(_) = limit {
            let reason = format!("a {kind} counts packets, not {limit}; give packets such as 1000p, or bdp");
            return Err(ConfigError::refused(key, reason));
        }
        self.packet_limit(key, limit, kind, kind)
    }

    /// A limit of a discipline that counts in either unit; a BDP is counted in packets, a time in bytes. `key` is for
    /// messages.
    pub(crate) fn queue_limit(&self, key: &'static str, limit: Limit) -> Result<QueueLimit, ConfigError> {
        Ok(match limit {
            Limit::Bytes(_) | Limit::Time(_) => QueueLimit::Bytes(self.byte_limit(key, limit, key, key)?),
            Limit::Packets(_) | Limit::Bdp(_) => {
                QueueLimit::Packets(self.packet_limit(key, limit, key, key)?)
            }
        })
    }
}
