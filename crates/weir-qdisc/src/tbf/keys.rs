//! The keys of `tbf`.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_core::{Bytes, Duration, Rate};

use super::{Tbf, TbfConfig};
use crate::keys::{BuildContext, ConfigError, Keys, Word, write_unusual};
use crate::{Limit, Qdisc};

/// A later wake-up is a stalled machine, not a timer.
const LATEST: Duration = Duration::from_secs(1);

/// Keys of `kind = "tbf"`; see [`TbfConfig`] for their meaning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TbfKeys {
    /// The link's rate by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// In wire bytes; one full packet by default, as in the CRQ prototype.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Bytes>,
    /// In bytes, BDP or time at `rate`, or at the link's where that is lower; one BDP by default.
    pub limit: Limit,
    /// How much later than asked for each wake-up comes.
    pub late: Duration,
}

impl Default for TbfKeys {
    fn default() -> Self {
        Self { rate: None, burst: None, limit: Limit::Bdp(1.0), late: Duration::ZERO }
    }
}

impl TbfKeys {
    /// The link as what waits sees it: no faster than `rate`.
    pub fn link(&self, context: &BuildContext) -> BuildContext {
        let rate = self.rate.map_or(context.rate, |rate| rate.min(context.rate));
        BuildContext { rate, ..*context }
    }

    /// The parameters on a given link.
    ///
    /// # Errors
    ///
    /// As [`QdiscConfig::build`](crate::QdiscConfig::build).
    pub fn resolve(&self, context: &BuildContext) -> Result<TbfConfig, ConfigError> {
        let rate = self.rate.unwrap_or(context.rate);
        if rate.bits_per_sec() < 8 {
            return Err(ConfigError::refused(
                "rate",
                format!("{rate} is less than a byte a second; give more"),
            ));
        }
        let burst = self.burst.map_or(u64::from(context.mtu), |burst| burst.0);
        if burst < u64::from(context.mtu) {
            let reason = format!("{burst} bytes let no packet of {} pass; give more", context.mtu);
            return Err(ConfigError::refused("burst", reason));
        }
        let burst = u32::try_from(burst).map_err(|_| {
            ConfigError::refused("burst", format!("{burst} bytes are more than {}", u32::MAX))
        })?;
        if self.late > LATEST {
            return Err(ConfigError::refused("late", format!("{} is longer than {LATEST}", self.late)));
        }
        let limit = self.link(context).byte_limit("limit", self.limit, "tbf", "pfifo")?;
        Ok(TbfConfig { rate, burst, limit, late: self.late })
    }
}

impl Keys for TbfKeys {
    const WORDS: &'static [Word] = &[
        Word::value("rate", "1gbit"),
        Word::value("burst", "1514b"),
        Word::value("limit", "1bdp"),
        Word::value("late", "5us"),
    ];

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        Ok(Box::new(Tbf::new(self.resolve(context)?)))
    }
}

impl fmt::Display for TbfKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tbf {}", self.limit)?;
        if let Some(rate) = self.rate {
            write!(f, " rate {rate}")?;
        }
        if let Some(burst) = self.burst {
            write!(f, " burst {burst}")?;
        }
        write_unusual(f, "late", &self.late, &Duration::ZERO)
    }
}
