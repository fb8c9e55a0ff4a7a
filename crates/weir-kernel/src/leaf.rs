//! The queues under HTB: which kinds make sense there, and the words that `tc` takes for them.
//!
//! Names, options and defaults are the kernel's (net/sched/sch_*.c, tc-codel(8) and its kin), with two differences: a limit
//! has a unit, and whether a queue marks is always said, so that changing a queue never keeps an option from before. A
//! queue's options are spelled out only where they were given; the rest is the kernel's default.

use std::fmt;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use weir_core::{Duration, Rate, full_packet};
use weir_qdisc::Limit;

use super::setup::SetupError;
use super::words::nearest;

/// What a queue's limits are reckoned by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reckoning {
    /// The queue's share of the rate.
    pub rate: Rate,
    /// The round-trip time of limits in BDP.
    pub rtt: Duration,
    /// The MTU of the interface, in bytes.
    pub mtu: u32,
}

impl Reckoning {
    /// Wire bytes of a full packet.
    fn full_packet(self) -> u64 {
        full_packet(self.mtu).into()
    }

    /// How many packets of the MTU make up so many bytes.
    fn packets(self, bytes: u64) -> u64 {
        bytes / u64::from(self.mtu.max(1))
    }
}

/// A kind of queue discipline that may stand under one of the two classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeafKind {
    /// CoDel (RFC 8289).
    Codel,
    /// Flow queues with CoDel (RFC 8290).
    FqCodel,
    /// PIE (RFC 8033).
    Pie,
    /// Flow queues with PIE.
    FqPie,
    /// Random early detection, its thresholds chosen by `tc` from the limit.
    Red,
    /// Flow queues with pacing.
    Fq,
    /// CAKE with its own shaper off: HTB shapes.
    Cake,
    /// Drop-tail, limited in packets.
    Pfifo,
    /// Drop-tail, limited in bytes.
    Bfifo,
}

/// What a queue's limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Packets,
    Bytes,
}

impl LeafKind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Codel,
        Self::FqCodel,
        Self::Pie,
        Self::FqPie,
        Self::Red,
        Self::Fq,
        Self::Cake,
        Self::Pfifo,
        Self::Bfifo,
    ];

    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Codel => "codel",
            Self::FqCodel => "fq_codel",
            Self::Pie => "pie",
            Self::FqPie => "fq_pie",
            Self::Red => "red",
            Self::Fq => "fq",
            Self::Cake => "cake",
            Self::Pfifo => "pfifo",
            Self::Bfifo => "bfifo",
        }
    }

    /// The kernel module that has it, for messages. The FIFOs are never a module.
    pub fn module(self) -> Option<String> {
        (!matches!(self, Self::Pfifo | Self::Bfifo)).then(|| format!("sch_{}", self.name()))
    }

    /// Whether `ecn` and `noecn` are words of it.
    pub fn can_mark(self) -> bool {
        matches!(self, Self::Codel | Self::FqCodel | Self::Pie | Self::FqPie | Self::Red)
    }

    /// Whether it keeps the MTU that the interface had when the queue was made (`codel_init`, `fq_codel_init`,
    /// `fq_init`, `fq_pie_init`). The others count no MTU, or ask for it with each packet (`pie_drop_early`); CAKE's
    /// counts for its own shaper alone.
    pub(super) fn keeps_mtu(self) -> bool {
        matches!(self, Self::Codel | Self::FqCodel | Self::Fq | Self::FqPie)
    }

    /// Whether it marks when nothing is said: the kernel's default (`fq_codel_init` sets it; CAKE has no choice).
    fn marks_unasked(self) -> bool {
        matches!(self, Self::FqCodel | Self::Cake)
    }

    fn unit(self) -> Option<Unit> {
        match self {
            Self::Bfifo | Self::Red => Some(Unit::Bytes),
            Self::Cake => None,
            _ => Some(Unit::Packets),
        }
    }

    fn takes(self, option: &str) -> bool {
        match option {
            "limit" => self.unit().is_some(),
            "target" => matches!(self, Self::Codel | Self::FqCodel | Self::Pie | Self::FqPie),
            "interval" => matches!(self, Self::Codel | Self::FqCodel),
            "ecn" => self.can_mark(),
            _ => false,
        }
    }

    fn options(self) -> Vec<&'static str> {
        OPTIONS.iter().copied().filter(|option| self.takes(option)).collect()
    }
}

/// The names of all options.
const OPTIONS: &[&str] = &["limit", "target", "interval", "ecn"];

impl FromStr for LeafKind {
    type Err = SetupError;

    fn from_str(text: &str) -> Result<Self, SetupError> {
        let names: Vec<&str> = Self::ALL.iter().map(|kind| kind.name()).collect();
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| SetupError::unknown(text, "queue that can stand under HTB", nearest(text, &names)))
    }
}

impl fmt::Display for LeafKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One of the two queues.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Leaf {
    /// Its kind.
    pub kind: LeafKind,
    /// How much it may hold; the kernel's default if not given, for byte FIFOs and RED one BDP of its share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Acceptable standing delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Duration>,
    /// How long the delay must stand above `target` before the first drop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// Marks rather than drops where the sender takes part in ECN; the kernel's default if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
}

/// A leaf as a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeafTable {
    kind: LeafKind,
    limit: Option<Limit>,
    target: Option<Duration>,
    interval: Option<Duration>,
    ecn: Option<bool>,
}

impl<'de> Deserialize<'de> for Leaf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Leaf;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a queue such as \"codel:ecn,target=5ms\" or a table with 'kind'")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Leaf, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Leaf, A::Error> {
                let LeafTable { kind, limit, target, interval, ecn } =
                    LeafTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Leaf { kind, limit, target, interval, ecn })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl From<LeafKind> for Leaf {
    fn from(kind: LeafKind) -> Self {
        Self { kind, limit: None, target: None, interval: None, ecn: None }
    }
}

impl FromStr for Leaf {
    type Err = SetupError;

    /// `codel` or `codel:ecn,target=5ms,limit=1000p`.
    fn from_str(text: &str) -> Result<Self, SetupError> {
        let (kind, options) = text.split_once(':').unwrap_or((text, ""));
        let mut leaf = Self::from(kind.parse::<LeafKind>()?);
        for option in options.split(',').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let bad = |error: &dyn fmt::Display| SetupError::value(&format!("{name} of {kind}"), error);
            match name {
                "limit" => leaf.limit = Some(value.parse().map_err(|error| bad(&error))?),
                "target" => leaf.target = Some(value.parse().map_err(|error| bad(&error))?),
                "interval" => leaf.interval = Some(value.parse().map_err(|error| bad(&error))?),
                "ecn" if value.is_empty() => leaf.ecn = Some(true),
                "noecn" if value.is_empty() => leaf.ecn = Some(false),
                "ecn" | "noecn" => return Err(bad(&format!("write {name} alone, without '={value}'"))),
                _ => {
                    let mut known = leaf.kind.options();
                    known.extend(leaf.kind.can_mark().then_some("noecn"));
                    return Err(SetupError::unknown(
                        name,
                        &format!("option of {kind}"),
                        nearest(name, &known),
                    ));
                }
            }
        }
        leaf.check()?;
        Ok(leaf)
    }
}

impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = Vec::new();
        options.extend(self.limit.map(|limit| format!("limit={limit}")));
        options.extend(self.target.map(|target| format!("target={target}")));
        options.extend(self.interval.map(|interval| format!("interval={interval}")));
        options.extend(self.ecn.map(|ecn| if ecn { "ecn" } else { "noecn" }.to_owned()));
        match options.is_empty() {
            true => write!(f, "{}", self.kind),
            false => write!(f, "{}:{}", self.kind, options.join(",")),
        }
    }
}

impl Leaf {
    /// Whether it may put CE on a packet.
    pub fn marks(&self) -> bool {
        self.ecn.unwrap_or(self.kind.marks_unasked())
    }

    /// Whether all options are of its kind and in its unit.
    ///
    /// # Errors
    /// Names the option that is not.
    pub fn check(&self) -> Result<(), SetupError> {
        let given = [
            ("limit", self.limit.is_some()),
            ("target", self.target.is_some()),
            ("interval", self.interval.is_some()),
            ("ecn", self.ecn.is_some()),
        ];
        for (option, given) in given {
            if given && !self.kind.takes(option) {
                return Err(SetupError::unknown(
                    option,
                    &format!("option of {}", self.kind),
                    nearest(option, &self.kind.options()),
                ));
            }
        }
        match (self.kind.unit(), self.limit) {
            (Some(Unit::Packets), Some(Limit::Bytes(_))) => Err(SetupError::value(
                "limit",
                &format!("{} counts packets: write 1000p or 0.5bdp", self.kind),
            )),
            (Some(Unit::Bytes), Some(Limit::Packets(_))) => {
                Err(SetupError::value("limit", &format!("{} counts bytes: write 64kb or 0.5bdp", self.kind)))
            }
            _ => Ok(()),
        }
    }

    /// Whether every option that was given is given again: then `tc qdisc change` leads from here to there, and the queue
    /// stays.
    pub(super) fn is_kept_by(&self, next: &Self) -> bool {
        self.kind == next.kind
            // These compute their options together at the start.
            && !matches!(self.kind, LeafKind::Red | LeafKind::Cake)
            && (self.limit.is_none() || next.limit.is_some())
            && (self.target.is_none() || next.target.is_some())
            && (self.interval.is_none() || next.interval.is_some())
    }

    /// What the kernel is to be told of the limit; `None` leaves it to the kernel.
    fn limit_at(&self, by: Reckoning) -> Result<Option<u64>, SetupError> {
        let Some(unit) = self.kind.unit() else { return Ok(None) };
        let limit = match (self.limit, unit) {
            (Some(limit), _) => limit,
            (None, Unit::Bytes) => Limit::Bdp(1.0),
            (None, Unit::Packets) => return Ok(None),
        };
        let (value, least, sort) = match limit {
            Limit::Packets(packets) => (u64::from(packets), 1, "packets"),
            Limit::Bytes(bytes) => (bytes.0, by.full_packet(), "bytes"),
            Limit::Time(time) => match (by.rate.bytes_in(time).0, unit) {
                (bytes, Unit::Bytes) => (bytes, by.full_packet(), "bytes"),
                (bytes, Unit::Packets) => (by.packets(bytes), 1, "packets"),
            },
            Limit::Bdp(factor) => {
                let bytes = (by.rate.bytes_in(by.rtt).0 as f64 * factor) as u64;
                match unit {
                    // A default is never less than two packets; what was asked for is checked.
                    Unit::Bytes if self.limit.is_none() => {
                        (bytes.max(2 * by.full_packet()), by.full_packet(), "bytes")
                    }
                    Unit::Bytes => (bytes, by.full_packet(), "bytes"),
                    Unit::Packets => (by.packets(bytes), 1, "packets"),
                }
            }
        };
        if value < least || value > u64::from(u32::MAX) {
            return Err(SetupError::value(
                "limit",
                &format!(
                    "{limit} of a {} at {} and MTU {} is {value} {sort}; use {least} to {}",
                    self.kind,
                    by.rate,
                    by.mtu,
                    u32::MAX
                ),
            ));
        }
        Ok(Some(value))
    }

    /// How many bytes it may hold, if it counts bytes and the limit is one it can have.
    pub(super) fn bytes_at(&self, by: Reckoning) -> Option<u64> {
        let counts_bytes = self.kind.unit() == Some(Unit::Bytes);
        counts_bytes.then(|| self.limit_at(by).ok().flatten()).flatten()
    }

    /// The words that `tc` takes after `handle H:`.
    ///
    /// # Errors
    /// When the limit holds no full packet.
    pub fn words(&self, by: Reckoning) -> Result<String, SetupError> {
        let mut words = self.kind.name().to_owned();
        match self.kind {
            LeafKind::Cake => words += " unlimited",
            _ => {
                if let Some(limit) = self.limit_at(by)? {
                    words += &format!(" limit {limit}");
                }
            }
        }
        if self.kind == LeafKind::Red {
            // RED's clock and mean need a packet size and the rate; tc derives both thresholds from the limit.
            words += &format!(" avpkt 1000 bandwidth {}bit", by.rate.bits_per_sec());
        }
        for (name, value) in [("target", self.target), ("interval", self.interval)] {
            if let Some(value) = value {
                // iproute2 reads times down to nanoseconds but its codel keeps microseconds.
                words += &format!(" {name} {}us", value.as_nanos().div_ceil(1000));
            }
        }
        if self.kind.can_mark() {
            let says_no = self.kind != LeafKind::Red;
            words += match self.marks() {
                true => " ecn",
                false if says_no => " noecn",
                false => "",
            };
        }
        Ok(words)
    }
}

/// The two queues.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Queues {
    /// For flows that do not answer, or whose answer is not known, and for all that is no flow.
    pub standard: Leaf,
    /// For flows that answer to congestion.
    pub responsive: Leaf,
}

impl Default for Queues {
    /// The paper's first combination is drop-tail and CoDel; on a live link CoDel in both keeps delay low in both.
    fn default() -> Self {
        Self { standard: LeafKind::Codel.into(), responsive: LeafKind::Codel.into() }
    }
}

impl FromStr for Queues {
    type Err = SetupError;

    /// `STANDARD/RESPONSIVE`.
    fn from_str(text: &str) -> Result<Self, SetupError> {
        let Some((standard, responsive)) = text.split_once('/') else {
            return Err(SetupError::value(
                "queues",
                &format!("'{text}' is not STANDARD/RESPONSIVE, such as bfifo/codel or codel:ecn/codel:ecn"),
            ));
        };
        Ok(Self { standard: standard.parse()?, responsive: responsive.parse()? })
    }
}

impl fmt::Display for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.standard, self.responsive)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueuesTable {
    standard: Leaf,
    responsive: Leaf,
}

impl<'de> Deserialize<'de> for Queues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Queues;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("queues such as \"bfifo/codel\" or a table with 'standard' and 'responsive'")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Queues, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Queues, A::Error> {
                let QueuesTable { standard, responsive } =
                    QueuesTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Queues { standard, responsive })
            }
        }
        deserializer.deserialize_any(Either)
    }
}
