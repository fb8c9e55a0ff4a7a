//! The keys of `fq`.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_core::{Bytes, Duration};

use super::{Fq, FqConfig};
use crate::keys::checked_flows;
use crate::keys::{BuildContext, ConfigError, Keys, Word};
use crate::{Limit, Qdisc};

/// Keys of `kind = "fq"`; see [`FqConfig`] for their meaning and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FqKeys {
    /// Of all flows together, in packets or BDP.
    pub limit: Limit,
    /// Of one flow, in packets or BDP.
    pub flow_limit: Limit,
    /// Credit for a turn; two MTUs with header by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantum: Option<Bytes>,
    /// Credit with which a flow begins; ten MTUs with header by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_quantum: Option<Bytes>,
    /// After how long a rest a flow has at least one quantum again.
    pub refill_delay: Duration,
    /// Queues that flows are hashed into.
    pub flows: u32,
    /// Marks all packets that waited longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ce_threshold: Option<Duration>,
    /// Few packets share a queue in front while no flow has a backlog, as since Linux 6.7.
    pub fast_path: bool,
}

impl Default for FqKeys {
    fn default() -> Self {
        let usual = FqConfig::default();
        Self {
            limit: Limit::Packets(usual.limit),
            flow_limit: Limit::Packets(usual.flow_limit),
            quantum: None,
            initial_quantum: None,
            refill_delay: usual.refill_delay,
            flows: usual.flows,
            ce_threshold: None,
            fast_path: usual.fast_path,
        }
    }
}

impl FqKeys {
    /// The parameters on a given link.
    ///
    /// # Errors
    ///
    /// As [`QdiscConfig::build`](crate::QdiscConfig::build).
    pub fn resolve(&self, context: &BuildContext) -> Result<FqConfig, ConfigError> {
        Ok(FqConfig {
            limit: context.packets("limit", self.limit, "fq")?,
            flow_limit: context.packets("flow_limit", self.flow_limit, "fq")?,
            quantum: context.quantum("quantum", self.quantum, context.mtu.saturating_mul(2), 1)?,
            initial_quantum: context.quantum(
                "initial_quantum",
                self.initial_quantum,
                context.mtu.saturating_mul(10),
                0,
            )?,
            refill_delay: self.refill_delay,
            flows: checked_flows(self.flows)?,
            ce_threshold: self.ce_threshold,
            fast_path: self.fast_path,
        })
    }
}

impl Keys for FqKeys {
    const WORDS: &'static [Word] = &[
        Word::value("limit", "10000p"),
        Word::value("flow_limit", "100p"),
        Word::value("quantum", "3028b"),
        Word::value("initial_quantum", "15140b"),
        Word::value("refill_delay", "40ms"),
        Word::value("flows", "1024"),
        Word::value("ce_threshold", "1ms"),
        Word::flag("fast_path"),
        Word::no("nofast_path", "fast_path"),
    ];

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        Ok(Box::new(Fq::new(self.resolve(context)?, context.seed.stream("fq"))))
    }
}

impl fmt::Display for FqKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::default();
        f.write_str("fq")?;
        for (key, limit, usual) in
            [("limit", self.limit, usual.limit), ("flow_limit", self.flow_limit, usual.flow_limit)]
        {
            if limit != usual {
                write!(f, " {key} {limit}")?;
            }
        }
        for (key, quantum) in [("quantum", self.quantum), ("initial_quantum", self.initial_quantum)] {
            if let Some(quantum) = quantum {
                write!(f, " {key} {quantum}")?;
            }
        }
        if self.refill_delay != usual.refill_delay {
            write!(f, " refill_delay {}", self.refill_delay)?;
        }
        if self.flows != usual.flows {
            write!(f, " flows {}", self.flows)?;
        }
        if let Some(above) = self.ce_threshold {
            write!(f, " ce_threshold {above}")?;
        }
        if !self.fast_path {
            f.write_str(" nofast_path")?;
        }
        Ok(())
    }
}
