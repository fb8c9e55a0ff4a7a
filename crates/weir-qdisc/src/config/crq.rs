//! The keys of `crq`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use weir_core::{Bytes, Duration, QueueChoice, Seed};

use super::{BfifoConfig, BuildContext, CodelKeys, ConfigError, Keys, QdiscConfig, Word};
use crate::crq::{Challenges, Crq, CrqConfig, Sharing, Split, Switching};
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
    /// The queue of flows that answer to marks; `None` to treat them as responsive if marks are the main signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn_responsive: Option<QdiscConfig>,
    /// How the link is divided: `equal`, `flows`, `strict` or weights `STANDARD:RESPONSIVE` or
    /// `STANDARD:RESPONSIVE:ECN_RESPONSIVE`.
    pub sharing: Sharing,
    /// Whether unused shares are lent: `hard` (no) or `shared`.
    pub split: SplitKind,
    /// What a queue of a hard split may send at once after a pause, in packets or bytes; two packets by default.
    pub burst: Limit,
    /// How flows change queues: `immediate` or `drain`.
    pub switching: Switching,
    /// Flows are challenged once in this time on the average; `None` for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub challenge: Option<Duration>,
}

/// Closer challenges would leave no flow any rate, and longer ones no verdict.
const CHALLENGES: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);

impl Default for CrqKeys {
    fn default() -> Self {
        Self {
            standard: QdiscConfig::Bfifo(BfifoConfig::default()),
            responsive: QdiscConfig::Codel(CodelKeys { limit: Limit::Bdp(1.0), ..CodelKeys::default() }),
            ecn_responsive: None,
            sharing: Sharing::default(),
            split: SplitKind::default(),
            burst: Limit::Packets(2),
            switching: Switching::default(),
            challenge: None,
        }
    }
}

impl CrqKeys {
    /// How many queues there are.
    pub const fn queues(&self) -> usize {
        if self.ecn_responsive.is_some() { 3 } else { 2 }
    }

    /// Builds the queues as their own type, with [`Crq::counters`] in reach. Each child is built for its own share of
    /// the rate, or for the whole rate with strict priority.
    ///
    /// # Errors
    ///
    /// As [`QdiscConfig::build`] for the children, and: a child of several queues (`crq`), a weight of zero or of no
    /// queue, strict priority with a hard split, a burst below one packet, in BDP or with a shared split, an ECN-responsive
    /// queue beside a standard one without marks.
    pub fn build(&self, context: &BuildContext) -> Result<Crq, ConfigError> {
        let split = match self.split {
            SplitKind::Shared if self.burst != Self::default().burst => {
                let reason = "with split shared no queue has a bucket; leave it out, or use split hard";
                return Err(ConfigError::refused("burst", reason));
            }
            SplitKind::Shared => Split::Shared,
            SplitKind::Hard => {
                Split::Hard { rate: context.rate, burst: self.resolve_burst(context)?, mtu: context.mtu }
            }
        };
        let child = |config: &QdiscConfig, queue, key| {
            if config.queue_names().len() > 1 {
                return Err(ConfigError::NestedQueues { key });
            }
            let rate = self.sharing.rate_of(queue, self.queues(), context.rate)?;
            if rate.bits_per_sec() == 0 && context.rate.bits_per_sec() > 0 {
                let reason = format!(
                    "{} leaves the {key} queue less than 1 bit/s of {}; give weights that are nearer to each other",
                    self.sharing, context.rate
                );
                return Err(ConfigError::refused("sharing", reason));
            }
            let own = BuildContext {
                rate,
                // Two children of one kind must not draw the same numbers.
                seed: Seed { seed: context.seed.stream(key).next_u64(), ..context.seed },
                ..*context
            };
            config.build(&own).map_err(|error| ConfigError::Child { key, error: Box::new(error) })
        };
        let config = CrqConfig { sharing: self.sharing, split, switching: self.switching, mtu: context.mtu };
        let challenges = self.challenges(context)?;
        let challenging = |crq: Crq| match challenges {
            Some(challenges) => crq.challenging(challenges),
            None => crq,
        };
        let standard = child(&self.standard, QueueChoice::Standard, "standard")?;
        let responsive = child(&self.responsive, QueueChoice::Responsive, "responsive")?;
        let Some(ecn_responsive) = &self.ecn_responsive else {
            return Crq::new(config, standard, responsive).map(challenging);
        };
        for (queue, key) in [(&self.standard, "standard"), (ecn_responsive, "ecn_responsive")] {
            if !queue.marks() {
                let reason = "with ecn_responsive, this queue must mark, such as codel ecn: only so flows are found, and \
                              found again, to answer to marks";
                return Err(ConfigError::refused(key, reason));
            }
        }
        let ecn_responsive = child(ecn_responsive, QueueChoice::EcnResponsive, "ecn_responsive")?;
        Crq::with_ecn_responsive(config, standard, responsive, ecn_responsive).map(challenging)
    }

    fn challenges(&self, context: &BuildContext) -> Result<Option<Challenges>, ConfigError> {
        let Some(mean) = self.challenge else { return Ok(None) };
        if !CHALLENGES.contains(&mean) {
            let reason =
                format!("{mean} is not from {} to {}; give such as 1s", CHALLENGES.start(), CHALLENGES.end());
            return Err(ConfigError::refused("challenge", reason));
        }
        Ok(Some(Challenges::new(mean, self.marks(), context.seed.stream("challenge"))))
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
        Word::section("ecn_responsive", "codel ecn"),
        Word::value("sharing", "equal"),
        Word::value("split", "shared"),
        Word::value("burst", "2p"),
        Word::value("switching", "drain"),
        Word::value("challenge", "1s"),
    ];

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        Ok(Box::new(Self::build(self, context)?))
    }

    fn marks(&self) -> bool {
        [&self.standard, &self.responsive].into_iter().chain(&self.ecn_responsive).all(QdiscConfig::marks)
    }

    fn may_reorder(&self) -> bool {
        [&self.standard, &self.responsive]
            .into_iter()
            .chain(&self.ecn_responsive)
            .any(QdiscConfig::may_reorder)
    }

    fn queue_names(&self) -> &'static [&'static str] {
        &["standard", "responsive", "ecn-responsive"][..self.queues()]
    }
}

impl fmt::Display for CrqKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "crq(standard {}, responsive {}, ", self.standard, self.responsive)?;
        if let Some(queue) = &self.ecn_responsive {
            write!(f, "ecn-responsive {queue}, ")?;
        }
        match self.sharing {
            Sharing::StrictPriority => f.write_str("strict priority")?,
            Sharing::Flows => f.write_str("by flows")?,
            Sharing::Equal if self.queues() > 2 => write!(f, "split {} equal", self.split)?,
            Sharing::Equal => write!(f, "split {} 50:50", self.split)?,
            Sharing::Weighted { .. } => write!(f, "split {} {}", self.split, self.sharing)?,
        }
        if self.split == SplitKind::Hard && self.burst != Limit::Packets(2) {
            write!(f, " burst {}", self.burst)?;
        }
        if self.switching == Switching::Drain {
            f.write_str(", drain")?;
        }
        if let Some(mean) = self.challenge {
            write!(f, ", challenge {mean}")?;
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
            "flows" => Ok(Self::Flows),
            _ if text.split('/').all(|weight| weight.parse::<u32>().is_ok()) && text.contains('/') => {
                Err(ConfigError::Spelling { old: text.to_owned(), new: text.replace('/', ":") })
            }
            _ => {
                let weights: Option<Vec<u32>> = text.split(':').map(|weight| weight.parse().ok()).collect();
                match weights.as_deref() {
                    Some(&[standard, responsive]) => {
                        Ok(Self::Weighted { standard, responsive, ecn_responsive: 0 })
                    }
                    Some(&[standard, responsive, ecn_responsive]) => {
                        Ok(Self::Weighted { standard, responsive, ecn_responsive })
                    }
                    _ => Err(ConfigError::value(
                        text,
                        "'equal', 'flows', 'strict' or weights STANDARD:RESPONSIVE such as 30:70, with ecn_responsive three",
                    )),
                }
            }
        }
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equal => f.write_str("equal"),
            Self::Weighted { standard, responsive, ecn_responsive: 0 } => {
                write!(f, "{standard}:{responsive}")
            }
            Self::Weighted { standard, responsive, ecn_responsive } => {
                write!(f, "{standard}:{responsive}:{ecn_responsive}")
            }
            Self::StrictPriority => f.write_str("strict"),
            Self::Flows => f.write_str("flows"),
        }
    }
}

impl FromStr for SplitKind {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "hard" => Ok(Self::Hard),
            "shared" => Ok(Self::Shared),
            "borrow" => Err(ConfigError::Spelling { old: text.to_owned(), new: "shared".to_owned() }),
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
