//! The keys of `csaqm`.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_core::{Bytes, Duration, Rate};

use super::{BUFFER, Csaqm, CsaqmConfig};
use crate::edge::{EdgeKind, HIGHEST};
use crate::keys::{BuildContext, ConfigError, Keys, Word};
use crate::limit::choice;
use crate::{Limit, Qdisc};

choice! {
    /// Where values come from: the configured form of [`CsaqmConfig::edge`].
    pub enum EdgeWord ("'rate', 'buckets' or 'none'") {
        /// [`EdgeKind::Rate`] at this queue.
        #[default]
        "rate" => Rate,
        /// [`EdgeKind::Buckets`] at this queue.
        "buckets" => Buckets,
        /// Packets come with values, or have none.
        "none" => None,
    }
}

/// Keys of `kind = "csaqm"`; see [`CsaqmConfig`] for their meaning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CsaqmKeys {
    /// The delay above which packets are marked.
    pub target: Duration,
    /// How often the threshold is computed.
    pub update: Duration,
    /// In packets, bytes or BDP; 500 ms of the rate by default, at least one full packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// How packets without a value are valued: `rate`, `buckets` or `none`.
    pub edge: EdgeWord,
    /// Over which time an edge of random rates measures, or what its buckets hold.
    pub edge_time: Duration,
}

impl Default for CsaqmKeys {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            update: Duration::from_millis(5),
            limit: None,
            edge: EdgeWord::default(),
            edge_time: Duration::from_millis(50),
        }
    }
}

const LONGEST: Duration = Duration::from_secs(4);

impl CsaqmKeys {
    /// The parameters on a given link.
    ///
    /// # Errors
    ///
    /// As [`QdiscConfig::build`](crate::QdiscConfig::build).
    pub fn resolve(&self, context: &BuildContext) -> Result<CsaqmConfig, ConfigError> {
        for (key, value) in [("update", self.update), ("edge_time", self.edge_time)] {
            if value < Duration::from_micros(1) || value > LONGEST {
                return Err(ConfigError::refused(key, format!("{value} is not from 1us to {LONGEST}")));
            }
        }
        if self.edge == EdgeWord::None && self.edge_time != Self::default().edge_time {
            let reason = "with edge none there is no edge here; leave it out, or use edge rate or buckets";
            return Err(ConfigError::refused("edge_time", reason));
        }
        // Where an equal share of two flows is above all levels, their packets have the least value alike.
        if self.edge == EdgeWord::Buckets && context.rate.bits_per_sec() > 2 * HIGHEST {
            let highest = Rate::from_bits_per_sec(HIGHEST);
            return Err(ConfigError::refused(
                "edge",
                format!(
                    "buckets tells rates apart up to {highest}, too few for a link of {}; use rate",
                    context.rate
                ),
            ));
        }
        let usual = Limit::Bytes(Bytes(context.rate.bytes_in(BUFFER).0.max(u64::from(context.mtu))));
        Ok(CsaqmConfig {
            target: self.target,
            update: self.update,
            limit: context.queue_limit("limit", self.limit.unwrap_or(usual))?,
            edge: match self.edge {
                EdgeWord::Rate => Some(EdgeKind::Rate(self.edge_time)),
                EdgeWord::Buckets => Some(EdgeKind::Buckets(self.edge_time)),
                EdgeWord::None => None,
            },
            ..CsaqmConfig::paper(context.rate)
        })
    }
}

impl Keys for CsaqmKeys {
    const WORDS: &'static [Word] = &[
        Word::value("target", "5ms"),
        Word::value("update", "5ms"),
        Word::value("limit", "1bdp"),
        Word::value("edge", "rate"),
        Word::value("edge_time", "50ms"),
    ];

    fn target(&self, _rtt: Duration) -> Option<Duration> {
        Some(self.target)
    }

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        Ok(Box::new(Csaqm::new(self.resolve(context)?, context.seed.stream("csaqm"))))
    }

    fn marks(&self) -> bool {
        true
    }
}

impl fmt::Display for CsaqmKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::default();
        write!(f, "csaqm {}", self.target)?;
        if self.update != usual.update {
            write!(f, " update {}", self.update)?;
        }
        if let Some(limit) = self.limit {
            write!(f, " limit {limit}")?;
        }
        if self.edge != usual.edge {
            write!(f, " edge {}", self.edge)?;
        }
        if self.edge_time != usual.edge_time {
            write!(f, " edge_time {}", self.edge_time)?;
        }
        Ok(())
    }
}
