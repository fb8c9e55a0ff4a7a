//! The queues under HTB: which kinds may stand there, and what is to be known of each.
//!
//! A queue is written as in scenarios, `codel ecn target 5ms limit 1000p`: the kernel's kinds are a subset of
//! weir-qdisc's, and the words and defaults are those of its configuration. What `tc` is given for them is in
//! `leaf/words.rs`.

mod words;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;
use weir_core::{Bytes, FULL_PACKET, Rate, Seed, full_packet};
use weir_qdisc::Limit;
use weir_qdisc::config::{BuildContext, ConfigError, GivenQdisc, QdiscConfig};

use super::setup::{DEFAULT_RTT, LEAST_MTU};
use super::words::nearest;

/// A kind of queue discipline that may stand under one of the two classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeafKind {
    /// CoDel (RFC 8289).
    Codel,
    /// Flow queues with CoDel (RFC 8290).
    FqCodel,
    /// PIE (RFC 8033).
    Pie,
    /// Flow queues with PIE.
    FqPie,
    /// Random early detection.
    Red,
    /// Flow queues with credits.
    Fq,
    /// CAKE with its own shaper off: HTB shapes.
    Cake,
    /// Drop-tail, limited in packets.
    Pfifo,
    /// Drop-tail, limited in bytes.
    Bfifo,
    /// A token bucket before drop-tail.
    Tbf,
}

/// What is to be known of a kind.
struct Row {
    kind: LeafKind,
    /// The kernel's name, and weir-qdisc's.
    name: &'static str,
    /// The kernel's build option.
    option: &'static str,
    /// Packets leave it in the order in which they came, whatever their flows.
    in_order: bool,
    /// Its AQM refuses packets on arrival, so that a refusal need not mean that it is full.
    early: bool,
    /// It drops packets that it dequeues.
    dequeues: bool,
    /// It keeps the MTU that the interface had when it was made (`codel_init`, `fq_codel_init`, `fq_init`,
    /// `fq_pie_init`), as does a bucket of one packet. The others count no MTU, or read it for each packet (`pie_drop_early`); CAKE's counts for its
    /// own shaper alone.
    keeps_mtu: bool,
    /// Its options can be changed one by one; RED and CAKE compute theirs together at the start.
    changes: bool,
}

const fn row(kind: LeafKind, name: &'static str, option: &'static str) -> Row {
    Row { kind, name, option, in_order: true, early: false, dequeues: false, keeps_mtu: false, changes: true }
}

/// All kinds, in the order of [`LeafKind`].
const TABLE: [Row; 10] = [
    Row { dequeues: true, keeps_mtu: true, ..row(LeafKind::Codel, "codel", "CONFIG_NET_SCH_CODEL") },
    Row {
        in_order: false,
        dequeues: true,
        keeps_mtu: true,
        ..row(LeafKind::FqCodel, "fq_codel", "CONFIG_NET_SCH_FQ_CODEL")
    },
    Row { early: true, ..row(LeafKind::Pie, "pie", "CONFIG_NET_SCH_PIE") },
    Row {
        in_order: false,
        early: true,
        keeps_mtu: true,
        ..row(LeafKind::FqPie, "fq_pie", "CONFIG_NET_SCH_FQ_PIE")
    },
    Row { early: true, changes: false, ..row(LeafKind::Red, "red", "CONFIG_NET_SCH_RED") },
    Row { in_order: false, keeps_mtu: true, ..row(LeafKind::Fq, "fq", "CONFIG_NET_SCH_FQ") },
    Row {
        in_order: false,
        dequeues: true,
        changes: false,
        ..row(LeafKind::Cake, "cake", "CONFIG_NET_SCH_CAKE")
    },
    row(LeafKind::Pfifo, "pfifo", "CONFIG_NET_SCHED"),
    row(LeafKind::Bfifo, "bfifo", "CONFIG_NET_SCHED"),
    Row { keeps_mtu: true, ..row(LeafKind::Tbf, "tbf", "CONFIG_NET_SCH_TBF") },
];

impl LeafKind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Codel,
        Self::FqCodel,
        Self::Pie,
        Self::FqPie,
        Self::Red,
        Self::Fq,
        Self::Cake,
        Self::Pfifo,
        Self::Bfifo,
        Self::Tbf,
    ];

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The kernel's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The kernel module that has it, for messages. The FIFOs are never a module.
    #[must_use]
    pub fn module(self) -> Option<String> {
        (!matches!(self, Self::Pfifo | Self::Bfifo)).then(|| format!("sch_{}", self.name()))
    }

    /// Words that `tc` takes for it, the kind first, as on a link of 10 Mbit/s with what is set by default: to find out
    /// if a kernel has it.
    #[must_use]
    pub fn trial(self) -> String {
        let needed = if self == Self::Cake { " unlimited" } else { "" };
        let leaf = format!("{self}{needed}").parse::<Leaf>().ok();
        let words = leaf.and_then(|leaf| leaf.queue().words(&usual()).ok());
        words.unwrap_or_else(|| self.name().to_owned())
    }

    /// The option of the kernel's build that brings it, for messages.
    #[must_use]
    pub fn build_option(self) -> &'static str {
        self.row().option
    }

    /// Whether packets leave it in the order in which they came, whatever their flows.
    #[must_use]
    pub fn is_in_order(self) -> bool {
        self.row().in_order
    }

    /// Whether its AQM refuses packets on arrival, so that a refusal need not mean that it is full.
    #[must_use]
    pub fn refuses_early(self) -> bool {
        self.row().early
    }

    /// Whether it may drop a packet that it dequeues; the others refuse packets on arrival, or drop what they have to
    /// make room.
    #[must_use]
    pub fn drops_on_dequeue(self) -> bool {
        self.row().dequeues
    }

    pub(super) fn keeps_mtu(self) -> bool {
        self.row().keeps_mtu
    }
}

/// A link of 10 Mbit/s.
fn usual() -> BuildContext {
    BuildContext {
        rate: Rate::from_bits_per_sec(10_000_000),
        rtt: DEFAULT_RTT,
        mtu: FULL_PACKET,
        seed: Seed::default(),
    }
}

impl FromStr for LeafKind {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let names: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
        let row = TABLE.iter().find(|row| row.name == text);
        row.map(|row| row.kind).ok_or_else(|| ConfigError::Unknown {
            word: text.to_owned(),
            what: "queue of the kernel".to_owned(),
            hint: nearest(text, &names),
        })
    }
}

impl fmt::Display for LeafKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why the kernel cannot have a queue as it is configured.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{message}", if .key.is_empty() { String::new() } else { format!("{key}: ") })]
pub struct LeafError {
    /// The key of the queue; empty where `message` names it, or the whole queue is meant.
    pub key: &'static str,
    /// What is wrong, and what to give instead.
    pub message: String,
}

/// A queue as the tree takes it: any configuration whose kind the kernel has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue<'a> {
    kind: LeafKind,
    config: &'a QdiscConfig,
    /// Whether the limit was chosen; where it was not, one in bytes is at least two packets.
    limited: bool,
}

impl<'a> Queue<'a> {
    /// The queue of a configuration, whose limit is as good as chosen.
    ///
    /// # Errors
    /// When the kind is none of [`LeafKind::ALL`].
    pub fn of(config: &'a QdiscConfig) -> Result<Self, ConfigError> {
        Ok(Self { kind: config.kind().parse()?, config, limited: true })
    }

    /// Its kind.
    #[must_use]
    pub const fn kind(self) -> LeafKind {
        self.kind
    }

    /// Whether it may put CE on a packet.
    #[must_use]
    pub fn can_mark(self) -> bool {
        match self.config {
            QdiscConfig::Codel(keys) => keys.ecn || keys.ce_threshold.is_some(),
            QdiscConfig::FqCodel(keys) => keys.ecn || keys.ce_threshold.is_some(),
            QdiscConfig::Fq(keys) => keys.ce_threshold.is_some(),
            other => other.marks(),
        }
    }

    /// Whether `tc qdisc change` leads from this queue to `next`, so that what is queued stays: the kernel keeps an
    /// option that a change does not name, and takes no other number of flow queues.
    pub(super) fn changes_to(self, next: Self) -> bool {
        let thresholds = |config: &QdiscConfig| match config {
            QdiscConfig::Codel(keys) => keys.ce_threshold.is_some(),
            QdiscConfig::FqCodel(keys) => keys.ce_threshold.is_some(),
            QdiscConfig::Fq(keys) => keys.ce_threshold.is_some(),
            _ => false,
        };
        let flows = |config: &QdiscConfig| match config {
            QdiscConfig::FqCodel(keys) => (keys.flows != words::FLOWS).then_some(keys.flows),
            QdiscConfig::FqPie(keys) => (keys.flows != words::FLOWS).then_some(keys.flows),
            _ => None,
        };
        self.kind == next.kind
            && self.kind.row().changes
            && (!thresholds(self.config) || thresholds(next.config))
            && flows(self.config).is_none()
            && flows(next.config).is_none()
    }
}

/// One of the two queues as it was given: `codel ecn target 5ms`.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    kind: LeafKind,
    given: GivenQdisc,
}

impl Leaf {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> LeafKind {
        self.kind
    }

    /// As the tree takes it.
    #[must_use]
    pub fn queue(&self) -> Queue<'_> {
        Queue { kind: self.kind, config: self.given.config(), limited: self.given.names("limit") }
    }

    /// As it was given.
    pub(super) fn config(&self) -> &QdiscConfig {
        self.given.config()
    }

    /// Whether the kind has a key, such as `ecn`.
    pub(super) fn has(&self, key: &str) -> bool {
        self.given.has(key)
    }

    /// Whether it was given a key, such as `limit`.
    pub(super) fn names(&self, key: &str) -> bool {
        self.given.names(key)
    }

    /// The same with `words`, unless they name a key that is named.
    pub(super) fn or(self, key: &str, words: &str) -> Result<Self, ConfigError> {
        if self.given.names(key) { Ok(self) } else { Ok(Self { given: self.given.with(words)?, ..self }) }
    }

    /// The same with `limit`, unless it names one; `None` where no interface can have that.
    pub(super) fn limited(&self, limit: Limit) -> Option<Self> {
        let limited = self.clone().or("limit", &format!("limit {limit}")).ok()?;
        let context = BuildContext { mtu: full_packet(LEAST_MTU), ..usual() };
        limited.queue().words(&context).is_ok().then_some(limited)
    }

    /// The words with another limit in bytes.
    pub(super) fn with_limit(&self, bytes: u64) -> String {
        let limit = format!("limit {}", Bytes(bytes));
        match self.given.names("limit") {
            false => format!("{self} {limit}"),
            true => {
                let line = self.to_string();
                let words: Vec<&str> = line.split(' ').collect();
                let at = words.iter().position(|word| *word == "limit").unwrap_or(words.len());
                [&words[..at], &[limit.as_str()], &words[words.len().min(at + 2)..]].concat().join(" ")
            }
        }
    }
}

impl TryFrom<GivenQdisc> for Leaf {
    type Error = ConfigError;

    fn try_from(given: GivenQdisc) -> Result<Self, ConfigError> {
        Ok(Self { kind: given.config().kind().parse()?, given })
    }
}

impl FromStr for Leaf {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        // Of the kernel's kinds, not of all, is the nearest.
        let kind = text.split_whitespace().next().unwrap_or_default();
        if !kind.contains(':') {
            kind.parse::<LeafKind>()?;
        }
        text.parse::<GivenQdisc>()?.try_into()
    }
}

impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.given.fmt(f)
    }
}

impl Serialize for Leaf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.given.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Leaf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        GivenQdisc::deserialize(deserializer)?.try_into().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::{Leaf, LeafKind, TABLE};
    use weir_qdisc::QdiscConfig;

    fn leaf(line: &str) -> Leaf {
        line.parse().unwrap()
    }

    #[test]
    fn the_table_is_in_order_and_of_kinds_that_can_be_configured() {
        for (row, kind) in TABLE.iter().zip(LeafKind::ALL) {
            assert_eq!((row.kind, kind.name()), (kind, row.name));
            assert!(QdiscConfig::KINDS.contains(&row.name));
            assert_eq!(row.name.parse::<LeafKind>(), Ok(kind));
            // With all that is needed, which is more than the name.
            assert!(kind.trial().len() > kind.name().len() && kind.trial().starts_with(kind.name()));
        }
    }

    #[test]
    fn a_change_keeps_the_queue_where_it_leads_there() {
        for (from, to, changes) in [
            ("codel", "codel ecn target 1ms", true),
            ("codel ce_threshold 1ms", "codel", false),
            ("codel ce_threshold 1ms", "codel ce_threshold 2ms", true),
            ("codel", "fq_codel", false),
            ("fq_codel", "fq_codel target 1ms", true),
            ("fq_codel", "fq_codel flows 64", false),
            ("red", "red", false),
        ] {
            assert_eq!(leaf(from).queue().changes_to(leaf(to).queue()), changes, "{from} to {to}");
        }
    }

    #[test]
    fn a_limit_takes_the_place_of_another() {
        assert_eq!(leaf("bfifo").with_limit(131_072), "bfifo limit 128kb");
        assert_eq!(leaf("red limit 9kb ecn").with_limit(131_071), "red limit 131071b ecn");
    }

    #[test]
    fn other_queues_are_answered_with_those_of_the_kernel() {
        for (line, says) in [
            ("step", "'step' is not a queue of the kernel; known are codel, fq_codel"),
            ("coddel", "'coddel' is not a queue of the kernel; did you mean 'codel'?"),
            ("codel:ecn,limit=10p", "'codel:ecn,limit=10p' is written 'codel ecn limit 10p'"),
        ] {
            let error = line.parse::<Leaf>().unwrap_err().to_string();
            assert!(error.starts_with(says), "{error}");
        }
    }
}
