//! The keys of `codel`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use weir_core::Duration;

use super::{CeThreshold, Codel, CodelConfig, KernelVariant};
use crate::keys::{BuildContext, ConfigError, Keys, Word, join, write_unusual};
use crate::limit::serde_as_words;
use crate::{Limit, Qdisc};

/// Keys of `kind = "codel"`; see [`CodelConfig`] for their meaning and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CodelKeys {
    /// Acceptable standing sojourn time.
    pub target: Duration,
    /// How long the sojourn time must stay above `target` before the first drop.
    pub interval: Duration,
    /// In packets, bytes or BDP.
    pub limit: Limit,
    /// Mark rather than drop where the sender takes part in ECN.
    pub ecn: bool,
    /// Marks all packets that waited longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ce_threshold: Option<Duration>,
    /// `ce_threshold` holds for ECT(1) only.
    pub ce_threshold_ect1: bool,
    /// Which kernel's details to follow: `6.12` or `7.2`.
    pub kernel: KernelVariant,
}

impl Default for CodelKeys {
    fn default() -> Self {
        let kernel = CodelConfig::default();
        Self {
            target: kernel.target,
            interval: kernel.interval,
            limit: Limit::Packets(1000),
            ecn: kernel.ecn,
            ce_threshold: None,
            ce_threshold_ect1: false,
            kernel: kernel.kernel,
        }
    }
}

/// One tick of CoDel's clock: shorter times are none to it.
const TICK: Duration = Duration::from_nanos(1024);
/// Sixteen intervals must stay below half the range of CoDel's 32-bit clock.
const LONGEST: Duration = Duration::from_secs(120);

impl CodelKeys {
    /// The parameters on a given link.
    ///
    /// # Errors
    ///
    /// As [`QdiscConfig::build`](crate::QdiscConfig::build).
    pub fn resolve(&self, context: &BuildContext) -> Result<CodelConfig, ConfigError> {
        for (key, value) in [("target", self.target), ("interval", self.interval)] {
            if value < TICK {
                return Err(ConfigError::TooShort { key, value });
            }
        }
        let threshold = self.ce_threshold.unwrap_or_default();
        for (key, value) in
            [("target", self.target), ("interval", self.interval), ("ce_threshold", threshold)]
        {
            if value > LONGEST {
                return Err(ConfigError::TooLong { key, value, longest: LONGEST });
            }
        }
        if self.ce_threshold_ect1 && self.ce_threshold.is_none() {
            let reason = "there is no ce_threshold that could hold for ECT(1) only; give one, such as 1ms";
            return Err(ConfigError::refused("ce_threshold_ect1", reason));
        }
        Ok(CodelConfig {
            target: self.target,
            interval: self.interval,
            limit: context.queue_limit("limit", self.limit)?,
            ecn: self.ecn,
            ce_threshold: self
                .ce_threshold
                .map(|above| CeThreshold { above, ect1_only: self.ce_threshold_ect1 }),
            mtu: context.mtu,
            kernel: self.kernel,
        })
    }
}

/// The words of the law, wherever it stands; `kernel` is another.
pub(crate) const LAW_WORDS: [Word; 6] = [
    Word::value("target", "5ms"),
    Word::value("interval", "100ms"),
    Word::flag("ecn"),
    Word::no("noecn", "ecn"),
    Word::value("ce_threshold", "1ms"),
    Word::flag("ce_threshold_ect1"),
];

impl Keys for CodelKeys {
    const WORDS: &'static [Word] =
        &join::<1, 7, 8>([Word::value("limit", "1000p")], join(LAW_WORDS, [Word::value("kernel", "7.2")]));

    fn target(&self, _rtt: Duration) -> Option<Duration> {
        Some(self.target)
    }

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        Ok(Box::new(Codel::new(self.resolve(context)?)))
    }

    fn marks(&self) -> bool {
        self.ecn
    }
}

impl CodelKeys {
    /// Describes the threshold, if there is one.
    pub(crate) fn describe_threshold(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(above) = self.ce_threshold else { return Ok(()) };
        write!(f, " ce_threshold {above}{}", if self.ce_threshold_ect1 { " ect1" } else { "" })
    }
}

impl fmt::Display for CodelKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::default();
        write!(f, "codel {}/{}", self.target, self.interval)?;
        write_unusual(f, "limit", &self.limit, &usual.limit)?;
        f.write_str(if self.ecn { " ecn" } else { "" })?;
        self.describe_threshold(f)?;
        write_unusual(f, "kernel", &self.kernel, &usual.kernel)
    }
}

impl FromStr for KernelVariant {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "6.12" => Ok(Self::Linux6_12),
            "7.2" => Ok(Self::Linux7_2),
            _ => Err(ConfigError::value(text, "a kernel whose CoDel is known: 6.12 or 7.2")),
        }
    }
}

impl fmt::Display for KernelVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Linux6_12 => "6.12",
            Self::Linux7_2 => "7.2",
        })
    }
}

serde_as_words!(KernelVariant);
