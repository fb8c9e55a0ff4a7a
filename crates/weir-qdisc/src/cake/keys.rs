//! The keys of `cake`.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_core::{Bytes, Duration};

use super::{Cake, CakeConfig, HostIsolation};
use crate::Qdisc;
use crate::keys::{BuildContext, ConfigError, Keys, Word};

/// Keys of `kind = "cake"`; see [`CakeConfig`] for their meaning and defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CakeKeys {
    /// The round-trip time that is expected; 100 ms by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Duration>,
    /// Which hosts count for a flow's share: `triple-isolate`, `dual-srchost`, `dual-dsthost` or `flows`.
    pub isolation: HostIsolation,
    /// Wire bytes in all queues together; from the rate by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<Bytes>,
    /// Take the link's rate for unknown, as without `bandwidth`.
    pub unlimited: bool,
}

/// Long enough for CoDel's arithmetic with 32 bits of nanoseconds.
const LONGEST: Duration = Duration::from_secs(4);

impl CakeKeys {
    /// The parameters on a given link.
    ///
    /// # Errors
    ///
    /// As [`QdiscConfig::build`](crate::QdiscConfig::build).
    pub fn resolve(&self, context: &BuildContext) -> Result<CakeConfig, ConfigError> {
        let usual = CakeConfig::default();
        let rtt = self.rtt.unwrap_or(usual.rtt);
        if rtt < Duration::from_micros(1) || rtt > LONGEST {
            return Err(ConfigError::refused("rtt", format!("{rtt} is not from 1us to {LONGEST}")));
        }
        if let Some(memory) = self.memory_limit
            && memory.0 < u64::from(context.mtu)
        {
            return Err(ConfigError::refused(
                "memory_limit",
                format!("{memory} is less than one packet of {}; give more", context.mtu),
            ));
        }
        Ok(CakeConfig {
            rate: (!self.unlimited).then_some(context.rate),
            rtt,
            isolation: self.isolation,
            memory_limit: self.memory_limit.map(|memory| memory.0),
            mtu: context.mtu,
        })
    }
}

impl Keys for CakeKeys {
    const WORDS: &'static [Word] = &[
        Word::value("rtt", "100ms"),
        Word::value("isolation", "triple-isolate"),
        Word::value("memory_limit", "4mb"),
        Word::flag("unlimited"),
    ];

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        Ok(Box::new(Cake::new(self.resolve(context)?, context.seed.stream("cake"))))
    }

    fn marks(&self) -> bool {
        true
    }

    fn may_reorder(&self) -> bool {
        true
    }
}

impl fmt::Display for CakeKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cake")?;
        if let Some(rtt) = self.rtt {
            write!(f, " rtt {rtt}")?;
        }
        if self.isolation != HostIsolation::default() {
            write!(f, " {}", self.isolation)?;
        }
        if let Some(memory) = self.memory_limit {
            write!(f, " memory_limit {memory}")?;
        }
        f.write_str(if self.unlimited { " unlimited" } else { "" })
    }
}
