//! The keys of the drop-tail queues.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Bfifo, Pfifo};
use crate::keys::{BuildContext, ConfigError, Keys, Word};
use crate::{Limit, Qdisc};

/// Keys of `kind = "pfifo"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PfifoConfig {
    /// In packets or BDP; 1000 packets by default (the usual `txqueuelen`).
    pub limit: Limit,
}

/// Keys of `kind = "bfifo"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BfifoConfig {
    /// In bytes or BDP; one BDP by default (CRQ section IV-A).
    pub limit: Limit,
}

impl Default for PfifoConfig {
    fn default() -> Self {
        Self { limit: Limit::Packets(1000) }
    }
}

impl Default for BfifoConfig {
    fn default() -> Self {
        Self { limit: Limit::Bdp(1.0) }
    }
}

impl PfifoConfig {
    /// The limit in packets on a given link.
    ///
    /// # Errors
    ///
    /// As [`QdiscConfig::build`](crate::QdiscConfig::build).
    pub fn resolve(&self, context: &BuildContext) -> Result<u32, ConfigError> {
        context.packet_limit("limit", self.limit, "pfifo", "bfifo")
    }
}

impl BfifoConfig {
    /// The limit in wire bytes on a given link.
    ///
    /// # Errors
    ///
    /// As [`QdiscConfig::build`](crate::QdiscConfig::build).
    pub fn resolve(&self, context: &BuildContext) -> Result<u64, ConfigError> {
        context.byte_limit("limit", self.limit, "bfifo", "pfifo")
    }
}

impl Keys for PfifoConfig {
    const WORDS: &'static [Word] = &[Word::value("limit", "1000p")];

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        Ok(Box::new(Pfifo::new(self.resolve(context)?)))
    }
}

impl Keys for BfifoConfig {
    const WORDS: &'static [Word] = &[Word::value("limit", "1bdp")];

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        Ok(Box::new(Bfifo::new(self.resolve(context)?)))
    }
}

impl fmt::Display for PfifoConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pfifo {}", self.limit)
    }
}

impl fmt::Display for BfifoConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bfifo {}", self.limit)
    }
}
