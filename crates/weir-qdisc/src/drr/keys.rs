//! The keys of `drr`.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_core::Bytes;

use super::{Drr, DrrConfig};
use crate::keys::checked_flows;
use crate::keys::{BuildContext, ConfigError, Keys, Word};
use crate::{Limit, Qdisc};

/// Keys of `kind = "drr"`; see [`DrrConfig`] for their meaning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DrrKeys {
    /// Of one flow, in packets or BDP.
    pub limit: Limit,
    /// What a flow may send in a round; the link's MTU with header by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantum: Option<Bytes>,
    /// Queues that flows are hashed into.
    pub flows: u32,
}

impl Default for DrrKeys {
    fn default() -> Self {
        let usual = DrrConfig::default();
        Self { limit: Limit::Packets(usual.limit), quantum: None, flows: usual.flows }
    }
}

impl DrrKeys {
    /// The parameters on a given link.
    ///
    /// # Errors
    ///
    /// As [`QdiscConfig::build`](crate::QdiscConfig::build).
    pub fn resolve(&self, context: &BuildContext) -> Result<DrrConfig, ConfigError> {
        Ok(DrrConfig {
            quantum: context.quantum("quantum", self.quantum, context.mtu, 1)?,
            limit: context.packets("limit", self.limit, "drr")?,
            flows: checked_flows(self.flows)?,
        })
    }
}

impl Keys for DrrKeys {
    const WORDS: &'static [Word] =
        &[Word::value("limit", "1000p"), Word::value("quantum", "1514b"), Word::value("flows", "1024")];

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        Ok(Box::new(Drr::new(self.resolve(context)?, context.seed.stream("drr"))))
    }
}

impl fmt::Display for DrrKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::default();
        f.write_str("drr")?;
        if self.limit != usual.limit {
            write!(f, " limit {}", self.limit)?;
        }
        if let Some(quantum) = self.quantum {
            write!(f, " quantum {quantum}")?;
        }
        if self.flows != usual.flows {
            write!(f, " flows {}", self.flows)?;
        }
        Ok(())
    }
}
