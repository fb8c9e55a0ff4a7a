//! The keys of `crq`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use weir_core::{Bytes, QueueChoice, Seed};

use super::{Crq, CrqConfig, Sharing, Split, Switching};
use crate::config::{BfifoConfig, BuildContext, CodelKeys, ConfigError, Keys, QdiscConfig, Word};
use crate::limit::serde_as_words;
use crate::{Limit, Qdisc};

/// Whether unused shares are lent: the configured form of [`Split`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SplitKind {
    /// [`Split::Hard`], as in the paper's prototype.
    #[default]
    Hard,
    /// [`Split::Shared`].
    Shared,
}

/// Keys of `kind = "crq"`. The defaults are the paper's first combination (CRQ section III-B.2): drop-tail for standard
/// traffic, CoDel with drops for responsive, half the link each, nothing lent, queues of one BDP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CrqKeys {
    /// The standard queue.
    pub standard: QdiscConfig,
    /// The responsive queue.
    pub responsive: QdiscConfig,
    /// How the link is divided: `equal`, `strict` or weights `STANDARD:RESPONSIVE`.
    pub sharing: Sharing,
    /// Whether unused shares are lent: `hard` (no) or `shared`.
    pub split: SplitKind,
    /// What a queue of a hard split may send at once after a pause, in packets or bytes; two packets unless told.
    pub burst: Limit,
    /// How flows change queues: `immediate` or `drain`.
    pub switching: Switching,
}

impl Default for CrqKeys {
    fn default() -> Self {
        Self {
            standard: QdiscConfig::Bfifo(BfifoConfig::default()),
            responsive: QdiscConfig::Codel(CodelKeys { limit: Limit::Bdp(1.0), ..CodelKeys::default() }),
            sharing: Sharing::default(),
            split: SplitKind::default(),
            burst: Limit::Packets(2),
            switching: Switching::default(),
        }
    }
}

impl CrqKeys {
    /// Builds the dual queue as its own type, with [`Crq::counters`] in reach. Each child is built for its own share
    /// of the rate, or for the whole rate with strict priority.
    ///
    /// # Errors
    ///
    /// As [`QdiscConfig::build`] for the children, and: a child of several queues (`crq`), a weight of zero, strict
    /// priority with a hard split, a burst below one packet or in BDP.
    pub fn build(&self, context: &BuildContext) -> Result<Crq, ConfigError> {
        if let Sharing::Weighted { standard, responsive } = self.sharing
            && (standard == 0 || responsive == 0)
        {
            return Err(ConfigError::ZeroWeight { standard, responsive });
        }
        let split = match self.split {
            SplitKind::Shared => Split::Shared,
            SplitKind::Hard => {
                Split::Hard { rate: context.rate, burst: self.resolve_burst(context)?, mtu: context.mtu }
            }
        };
        let child = |config: &QdiscConfig, queue, key| {
            if config.queue_names().len() > 1 {
                return Err(ConfigError::NestedQueues { key });
            }
            let own = BuildContext {
                rate: self.sharing.rate_of(queue, context.rate),
                // Two children of one kind must not draw the same numbers.
                seed: Seed { seed: context.seed.stream(key).next_u64(), ..context.seed },
                ..*context
            };
            config.build(&own).map_err(|error| ConfigError::Child { key, error: Box::new(error) })
        };
        Crq::new(
            CrqConfig { sharing: self.sharing, split, switching: self.switching },
            child(&self.standard, QueueChoice::Standard, "standard")?,
            child(&self.responsive, QueueChoice::Responsive, "responsive")?,
        )
    }

    /// What a queue of a hard split may send at once after a pause, in wire bytes on a given link.
    ///
    /// # Errors
    ///
    /// If it is below one packet or given in BDP.
    pub fn resolve_burst(&self, context: &BuildContext) -> Result<u32, ConfigError> {
        let bytes = match self.burst {
            Limit::Packets(packets) => u64::from(packets) * u64::from(context.mtu),
            Limit::Bytes(Bytes(bytes)) => bytes,
            Limit::Bdp(_) | Limit::Time(_) => {
                let reason = format!("give packets such as 2p or bytes such as 3kb, not {}", self.burst);
                return Err(ConfigError::refused("burst", reason));
            }
        };
        if bytes < u64::from(context.mtu) {
            return Err(ConfigError::BurstTooSmall { burst: bytes, mtu: context.mtu });
        }
        Ok(u32::try_from(bytes).unwrap_or(u32::MAX))
    }
}

impl Keys for CrqKeys {
    const WORDS: &'static [Word] = &[
        Word::section("standard", "codel ecn"),
        Word::section("responsive", "codel ecn"),
        Word::value("sharing", "equal"),
        Word::value("split", "shared"),
        Word::value("burst", "2p"),
        Word::value("switching", "drain"),
    ];

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        Ok(Box::new(Self::build(self, context)?))
    }

    fn marks(&self) -> bool {
        self.standard.marks() && self.responsive.marks()
    }

    fn queue_names(&self) -> &'static [&'static str] {
        &["standard", "responsive"]
    }
}

impl fmt::Display for CrqKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "crq(standard {}, responsive {}, ", self.standard, self.responsive)?;
        match self.sharing {
            Sharing::StrictPriority => f.write_str("strict priority")?,
            Sharing::Equal => write!(f, "split {} 50:50", self.split)?,
            Sharing::Weighted { .. } => write!(f, "split {} {}", self.split, self.sharing)?,
        }
        if self.split == SplitKind::Hard && self.burst != Limit::Packets(2) {
            write!(f, " burst {}", self.burst)?;
        }
        if self.switching == Switching::Drain {
            f.write_str(", drain")?;
        }
        f.write_str(")")
    }
}

impl FromStr for Sharing {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "equal" => Ok(Self::Equal),
            "strict" => Ok(Self::StrictPriority),
            _ => text
                .split_once(':')
                .and_then(|(standard, responsive)| {
                    Some(Self::Weighted {
                        standard: standard.parse().ok()?,
                        responsive: responsive.parse().ok()?,
                    })
                })
                .ok_or_else(|| {
                    ConfigError::value(text, "'equal', 'strict' or weights STANDARD:RESPONSIVE such as 30:70")
                }),
        }
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equal => f.write_str("equal"),
            Self::Weighted { standard, responsive } => write!(f, "{standard}:{responsive}"),
            Self::StrictPriority => f.write_str("strict"),
        }
    }
}

impl FromStr for SplitKind {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "hard" => Ok(Self::Hard),
            "shared" => Ok(Self::Shared),
            _ => Err(ConfigError::value(
                text,
                "'hard' (each queue keeps to its share) or 'shared' (work-conserving)",
            )),
        }
    }
}

impl fmt::Display for SplitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hard => "hard",
            Self::Shared => "shared",
        })
    }
}

impl FromStr for Switching {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "immediate" => Ok(Self::Immediate),
            "drain" => Ok(Self::Drain),
            _ => Err(ConfigError::value(text, "'immediate' or 'drain'")),
        }
    }
}

impl fmt::Display for Switching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Immediate => "immediate",
            Self::Drain => "drain",
        })
    }
}

serde_as_words!(Sharing, SplitKind, Switching);
