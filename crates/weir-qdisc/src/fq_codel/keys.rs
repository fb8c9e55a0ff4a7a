//! The keys of `fq_codel`.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_core::{Bytes, Duration};

use super::{FqCodel, FqCodelConfig, MIN_QUANTUM};
use crate::codel::CodelKeys;
use crate::codel::LAW_WORDS;
use crate::keys::checked_flows;
use crate::keys::{BuildContext, ConfigError, Keys, Word, join, write_unusual};
use crate::{KernelVariant, Limit, Qdisc};

/// Keys of `kind = "fq_codel"`; see [`FqCodelConfig`] for their meaning and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FqCodelKeys {
    /// Of all queues together, in packets or BDP.
    pub limit: Limit,
    /// Queues that flows are hashed into.
    pub flows: u32,
    /// What a flow may send in a round; the link's MTU with header by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantum: Option<Bytes>,
    /// Acceptable standing sojourn time.
    pub target: Duration,
    /// How long the sojourn time must stay above `target` before the first drop.
    pub interval: Duration,
    /// Mark rather than drop where the sender takes part in ECN.
    pub ecn: bool,
    /// Marks all packets that waited longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ce_threshold: Option<Duration>,
    /// `ce_threshold` holds for ECT(1) only.
    pub ce_threshold_ect1: bool,
    /// Wire bytes in all queues together.
    pub memory_limit: Bytes,
    /// Packets dropped at most for each that is one too many.
    pub drop_batch: u32,
    /// Which kernel's CoDel to follow: `6.12` or `7.2`.
    pub kernel: KernelVariant,
}

impl Default for FqCodelKeys {
    fn default() -> Self {
        let usual = FqCodelConfig::default();
        Self {
            limit: Limit::Packets(usual.limit),
            flows: usual.flows,
            quantum: None,
            target: usual.target,
            interval: usual.interval,
            ecn: usual.ecn,
            ce_threshold: None,
            ce_threshold_ect1: false,
            memory_limit: Bytes(usual.memory_limit),
            drop_batch: usual.drop_batch,
            kernel: usual.kernel,
        }
    }
}

impl FqCodelKeys {
    /// Those of each flow's CoDel, whose own limit is never met.
    fn codel(&self) -> CodelKeys {
        CodelKeys {
            target: self.target,
            interval: self.interval,
            limit: Limit::Packets(1),
            ecn: self.ecn,
            ce_threshold: self.ce_threshold,
            ce_threshold_ect1: self.ce_threshold_ect1,
            kernel: self.kernel,
        }
    }

    /// The parameters on a given link.
    ///
    /// # Errors
    ///
    /// As [`QdiscConfig::build`](crate::QdiscConfig::build).
    pub fn resolve(&self, context: &BuildContext) -> Result<FqCodelConfig, ConfigError> {
        let codel = self.codel().resolve(context)?;
        if self.drop_batch == 0 {
            return Err(ConfigError::refused("drop_batch", "0 packets make no room; give at least 1"));
        }
        if self.memory_limit.0 < u64::from(context.mtu) {
            return Err(ConfigError::refused(
                "memory_limit",
                format!("{} is less than one packet of {}; give more", self.memory_limit, context.mtu),
            ));
        }
        Ok(FqCodelConfig {
            limit: context.packets("limit", self.limit, "fq_codel")?,
            flows: checked_flows(self.flows)?,
            quantum: context.quantum("quantum", self.quantum, context.mtu, MIN_QUANTUM)?,
            target: codel.target,
            interval: codel.interval,
            ecn: codel.ecn,
            ce_threshold: codel.ce_threshold,
            memory_limit: self.memory_limit.0,
            drop_batch: self.drop_batch,
            mtu: context.mtu,
            kernel: codel.kernel,
        })
    }
}

impl Keys for FqCodelKeys {
    const WORDS: &'static [Word] = &join::<3, 9, 12>(
        [Word::value("limit", "10240p"), Word::value("flows", "1024"), Word::value("quantum", "1514b")],
        join(
            LAW_WORDS,
            [
                Word::value("memory_limit", "32mb"),
                Word::value("drop_batch", "64"),
                Word::value("kernel", "7.2"),
            ],
        ),
    );

    fn target(&self, _rtt: Duration) -> Option<Duration> {
        Some(self.target)
    }

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        Ok(Box::new(FqCodel::new(self.resolve(context)?, context.seed.stream("fq_codel"))))
    }

    fn marks(&self) -> bool {
        self.ecn
    }
}

impl fmt::Display for FqCodelKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::default();
        write!(f, "fq_codel {}/{}", self.target, self.interval)?;
        write_unusual(f, "limit", &self.limit, &usual.limit)?;
        write_unusual(f, "flows", &self.flows, &usual.flows)?;
        if let Some(quantum) = self.quantum {
            write!(f, " quantum {quantum}")?;
        }
        f.write_str(if self.ecn { "" } else { " noecn" })?;
        self.codel().describe_threshold(f)?;
        write_unusual(f, "memory_limit", &self.memory_limit, &usual.memory_limit)?;
        write_unusual(f, "drop_batch", &self.drop_batch, &usual.drop_batch)?;
        write_unusual(f, "kernel", &self.kernel, &usual.kernel)
    }
}
