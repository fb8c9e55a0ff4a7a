//! Queue disciplines as configurations name them: a TOML table with `kind`, or a line of words in iproute2's order
//! (`codel ecn target 1ms limit 1000p`). iproute2's defaults come from the kernel and the device; here they are the
//! kernel's, except that drop-tail in bytes and the children of CRQ are sized as in the paper, to their BDP.

mod describe;
mod error;
mod words;

pub use error::ConfigError;

use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{DeserializeSeed, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_core::{Bytes, Duration, QueueChoice, Rate};

use crate::limit::serde_as_words;
use crate::{
    Bfifo, CeThreshold, Codel, CodelConfig, Crq, CrqConfig, KernelVariant, Limit, Pfifo, Qdisc, QueueLimit,
    Sharing, Split, Switching,
};

/// The link that a discipline is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildContext {
    /// The link's rate.
    pub rate: Rate,
    /// The round-trip time without queueing, by which a BDP is reckoned.
    pub rtt: Duration,
    /// Wire bytes of the longest ordinary packet: 1514 on Ethernet.
    pub mtu: u32,
}

/// A queue discipline, not yet built.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", remote = "Self")]
pub enum QdiscConfig {
    /// Drop-tail, limited in packets.
    Pfifo(PfifoConfig),
    /// Drop-tail, limited in bytes.
    Bfifo(BfifoConfig),
    /// CoDel.
    Codel(CodelKeys),
    /// The dual queue of CRQ.
    Crq(Box<CrqKeys>),
}

/// Keys of `kind = "pfifo"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PfifoConfig {
    /// In packets or BDP; 1000 packets unless told (the usual `txqueuelen`).
    pub limit: Limit,
}

/// Keys of `kind = "bfifo"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BfifoConfig {
    /// In bytes or BDP; one BDP unless told (CRQ section IV-A).
    pub limit: Limit,
}

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

serde_as_words!(Sharing, SplitKind, Switching, KernelVariant);

/// One tick of CoDel's clock: shorter times are none to it.
const TICK: Duration = Duration::from_nanos(1024);
/// Sixteen intervals must stay below half the range of CoDel's 32-bit clock.
const LONGEST: Duration = Duration::from_secs(120);

impl QdiscConfig {
    /// Builds the discipline, empty.
    ///
    /// # Errors
    ///
    /// A rate of zero, a limit below one packet or in a unit that the discipline cannot count, a target or interval
    /// below one tick (1024 ns) or above two minutes, and what [`CrqKeys::build`] names.
    pub fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        if context.rate.bits_per_sec() == 0 {
            return Err(ConfigError::ZeroRate);
        }
        Ok(match self {
            Self::Pfifo(keys) => Box::new(Pfifo::new(keys.resolve(context)?)),
            Self::Bfifo(keys) => Box::new(Bfifo::new(keys.resolve(context)?)),
            Self::Codel(keys) => Box::new(Codel::new(keys.resolve(context)?)),
            Self::Crq(keys) => Box::new(keys.build(context)?),
        })
    }
}

impl PfifoConfig {
    /// The limit in packets on a given link.
    ///
    /// # Errors
    ///
    /// As [`QdiscConfig::build`].
    pub fn resolve(&self, context: &BuildContext) -> Result<u32, ConfigError> {
        packet_limit(self.limit, "pfifo", "bfifo", context)
    }
}

impl BfifoConfig {
    /// The limit in wire bytes on a given link.
    ///
    /// # Errors
    ///
    /// As [`QdiscConfig::build`].
    pub fn resolve(&self, context: &BuildContext) -> Result<u64, ConfigError> {
        byte_limit(self.limit, "bfifo", "pfifo", context)
    }
}

impl CodelKeys {
    /// The parameters on a given link.
    ///
    /// # Errors
    ///
    /// As [`QdiscConfig::build`].
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
        let limit = match self.limit {
            Limit::Bytes(_) => QueueLimit::Bytes(byte_limit(self.limit, "codel", "codel", context)?),
            _ => QueueLimit::Packets(packet_limit(self.limit, "codel", "codel", context)?),
        };
        Ok(CodelConfig {
            target: self.target,
            interval: self.interval,
            limit,
            ecn: self.ecn,
            ce_threshold: self
                .ce_threshold
                .map(|above| CeThreshold { above, ect1_only: self.ce_threshold_ect1 }),
            mtu: context.mtu,
            kernel: self.kernel,
        })
    }
}

impl CrqKeys {
    /// Builds the dual queue as its own type, with [`Crq::counters`] in reach. Each child is built for its own share
    /// of the rate, or for the whole rate with strict priority.
    ///
    /// # Errors
    ///
    /// As [`QdiscConfig::build`] for the children, and: a child that is itself a `crq`, a weight of zero, strict
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
            if let QdiscConfig::Crq(_) = config {
                return Err(ConfigError::NestedCrq { key });
            }
            let own = BuildContext { rate: self.sharing.rate_of(queue, context.rate), ..*context };
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
            Limit::Bdp(_) => return Err(ConfigError::BurstUnit { burst: self.burst }),
        };
        if bytes < u64::from(context.mtu) {
            return Err(ConfigError::BurstTooSmall { burst: bytes, mtu: context.mtu });
        }
        Ok(u32::try_from(bytes).unwrap_or(u32::MAX))
    }
}

fn byte_limit(
    limit: Limit,
    kind: &'static str,
    instead: &'static str,
    on: &BuildContext,
) -> Result<u64, ConfigError> {
    let bytes = limit.bytes(on.rate, on.rtt).ok_or(ConfigError::LimitUnit { kind, limit, instead })?;
    if bytes < u64::from(on.mtu) {
        return Err(ConfigError::LimitTooSmall { limit, bytes, mtu: on.mtu });
    }
    Ok(bytes)
}

fn packet_limit(
    limit: Limit,
    kind: &'static str,
    instead: &'static str,
    on: &BuildContext,
) -> Result<u32, ConfigError> {
    let packets = limit.packets(on.rate, on.rtt).ok_or(ConfigError::LimitUnit { kind, limit, instead })?;
    let bytes = limit.bytes(on.rate, on.rtt);
    if packets == 0 || bytes.is_some_and(|bytes| bytes < u64::from(on.mtu)) {
        return Err(ConfigError::LimitTooSmall { limit, bytes: bytes.unwrap_or(0), mtu: on.mtu });
    }
    Ok(packets)
}

impl Serialize for QdiscConfig {
    /// Always as a table.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for QdiscConfig {
    /// From a table or from a line of words.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrTable)
    }
}

struct TextOrTable;

impl<'de> Visitor<'de> for TextOrTable {
    type Value = QdiscConfig;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a queue discipline: words such as \"codel ecn\", or a table with a kind")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<QdiscConfig, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<QdiscConfig, A::Error> {
        QdiscConfig::deserialize(MapAccessDeserializer::new(KnownKeys(map)))
    }
}

/// Lets only keys through that some discipline has, so that a slip is answered with the key that was meant. That a key
/// belongs to another discipline is found out by the derived code behind it.
struct KnownKeys<A>(A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for KnownKeys<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some(key) = self.0.next_key::<String>()? else {
            return Ok(None);
        };
        words::check_key(&key).map_err(serde::de::Error::custom)?;
        seed.deserialize(StringDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.0.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests;
