//! What is wanted of one interface: rate, direction, the two queues, how the link is divided, and the law. It comes from
//! words, flags or a TOML file ([`Keys`]) and is complete and checked as [`Setup`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weir_core::{Duration, ETHERNET_MTU, Rate, full_packet};
use weir_law::{MainSignal, Params};

use super::keys::Keys;
use super::leaf::{Leaf, Queues, Reckoning};

/// Flows that are remembered unless told otherwise.
pub const DEFAULT_FLOWS: u32 = 65_536;
/// Round-trip time by which limits in BDP are reckoned unless told otherwise.
pub const DEFAULT_RTT: Duration = Duration::from_millis(100);
/// The least MTU of a link that carries IPv4, in bytes (RFC 791).
const LEAST_MTU: u32 = 68;
/// Below this a full packet takes more than a second and a half.
const LOWEST_RATE: Rate = Rate::from_bits_per_sec(8_000);
/// Above this a burst of one millisecond overflows HTB's 32-bit token times on some kernels, and no test was ever made.
const HIGHEST_RATE: Rate = Rate::from_bits_per_sec(400_000_000_000);

/// What is wrong with the words, the file or the values in them.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A word, kind or option that is not known.
    #[error("'{word}' is not {what}{hint}")]
    Unknown {
        /// As written.
        word: String,
        /// What was expected there, with its article.
        what: String,
        /// What was probably meant.
        hint: String,
    },
    /// A value that cannot be read or used.
    #[error("{key}: {problem}")]
    Value {
        /// The word or key.
        key: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// The same word twice.
    #[error("'{word}' is given twice; leave one out")]
    Repeated {
        /// The word.
        word: String,
    },
    /// A word at the end that takes a value.
    #[error("'{word}' needs a value after it, such as '{word} {example}'")]
    NoValue {
        /// The word.
        word: String,
        /// A value.
        example: &'static str,
    },
    /// Something without which nothing can be set up.
    #[error("no {what} is given; add {example}")]
    Missing {
        /// What.
        what: &'static str,
        /// How.
        example: &'static str,
    },
}

impl SetupError {
    pub(super) fn unknown(word: &str, what: &str, hint: String) -> Self {
        let article = if what.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
        Self::Unknown { word: word.to_owned(), what: format!("{article} {what}"), hint }
    }

    pub(super) fn value(key: &str, problem: &(impl fmt::Display + ?Sized)) -> Self {
        Self::Value { key: key.to_owned(), problem: problem.to_string() }
    }
}

/// A way through the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// What the interface sends.
    Egress,
    /// What the interface receives.
    Ingress,
}

impl Direction {
    /// `egress` or `ingress`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Egress => "egress",
            Self::Ingress => "ingress",
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which ways are shaped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Directions {
    /// What the interface sends.
    #[default]
    Egress,
    /// What the interface receives.
    Ingress,
    /// Both, each with queues and flows of its own.
    Both,
}

impl Directions {
    /// One by one.
    pub fn each(self) -> &'static [Direction] {
        match self {
            Self::Egress => &[Direction::Egress],
            Self::Ingress => &[Direction::Ingress],
            Self::Both => &[Direction::Egress, Direction::Ingress],
        }
    }
}

impl FromStr for Directions {
    type Err = SetupError;

    fn from_str(text: &str) -> Result<Self, SetupError> {
        match text {
            "egress" => Ok(Self::Egress),
            "ingress" => Ok(Self::Ingress),
            "both" => Ok(Self::Both),
            _ => Err(SetupError::value("direction", &format!("'{text}' is not egress, ingress or both"))),
        }
    }
}

impl fmt::Display for Directions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Egress => "egress",
            Self::Ingress => "ingress",
            Self::Both => "both",
        })
    }
}

/// Whether a queue may use what the other leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkSplit {
    /// Each queue keeps to its share, as in the paper's prototype.
    Hard,
    /// A queue that has more to send may use what the other leaves, up to the whole link; each is sure of its share.
    /// Not the paper's: with hard shares a lone flow has half of the link.
    #[default]
    #[serde(alias = "shared")]
    Borrow,
}

impl FromStr for LinkSplit {
    type Err = SetupError;

    fn from_str(text: &str) -> Result<Self, SetupError> {
        match text {
            "hard" => Ok(Self::Hard),
            // The word of scenarios.
            "borrow" | "shared" => Ok(Self::Borrow),
            _ => Err(SetupError::value(
                "split",
                &format!(
                    "'{text}' is not hard (each queue keeps to its share) or borrow (it may use what is left)"
                ),
            )),
        }
    }
}

impl fmt::Display for LinkSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hard => "hard",
            Self::Borrow => "borrow",
        })
    }
}

/// How the rate is divided between the two queues, by weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Share {
    /// Of the standard queue, 1 to 1000.
    pub standard: u32,
    /// Of the responsive queue, 1 to 1000.
    pub responsive: u32,
}

impl Default for Share {
    fn default() -> Self {
        Self { standard: 50, responsive: 50 }
    }
}

impl FromStr for Share {
    type Err = SetupError;

    fn from_str(text: &str) -> Result<Self, SetupError> {
        let weight = |text: &str| text.parse().ok().filter(|weight| (1..=1000).contains(weight));
        text.split_once('/')
            .and_then(|(standard, responsive)| {
                Some(Self { standard: weight(standard)?, responsive: weight(responsive)? })
            })
            .ok_or_else(|| {
                let problem =
                    format!("'{text}' is not STANDARD/RESPONSIVE in weights from 1 to 1000, such as 50/50");
                SetupError::value("share", &problem)
            })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.standard, self.responsive)
    }
}

impl From<Share> for String {
    fn from(share: Share) -> Self {
        share.to_string()
    }
}

impl TryFrom<String> for Share {
    type Error = SetupError;

    fn try_from(text: String) -> Result<Self, SetupError> {
        text.parse()
    }
}

/// The longest packet that IP has, and a header (RFC 791, RFC 8200): a larger MTU makes no longer packets.
const LARGEST_MTU: u32 = 65_536;

fn ethernet_mtu() -> u32 {
    ETHERNET_MTU
}

/// What is wanted, complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The interface.
    pub device: String,
    /// The rate of what is sent, and of what is received unless `ingress_rate` says another.
    pub rate: Rate,
    /// The rate of what is received.
    pub ingress_rate: Rate,
    /// Which ways are shaped.
    pub direction: Directions,
    /// The two queues.
    pub queues: Queues,
    /// The round-trip time of limits in BDP.
    pub rtt: Duration,
    /// The MTU by which limits, bursts and turns are reckoned, in bytes: the interface's once it is known.
    #[serde(default = "ethernet_mtu")]
    pub mtu: u32,
    /// Whether a queue may use what the other leaves.
    pub split: LinkSplit,
    /// How the rate is divided.
    pub share: Share,
    /// The parameters of the law. ECN leads where both queues mark, loss otherwise (CRQ section III-B.1), unless
    /// `main_signal` was given.
    pub law: Params,
    /// How many flows are remembered in each direction.
    pub flows: u32,
    /// A classless qdisc of somebody else may be put aside until `weir down`.
    pub replace: bool,
    /// What was said, so that a reload can say less.
    pub keys: Keys,
}

impl Setup {
    /// A setup of `device` at `rate` with all else as by default.
    ///
    /// # Errors
    /// As [`Setup::from_keys`].
    pub fn new(device: &str, rate: Rate) -> Result<Self, SetupError> {
        Self::from_keys(Keys { dev: Some(device.to_owned()), rate: Some(rate), ..Keys::default() })
    }

    /// Fills in what was not said and checks all of it.
    ///
    /// # Errors
    /// Names the key to change.
    pub fn from_keys(keys: Keys) -> Result<Self, SetupError> {
        let device = keys.dev.clone().ok_or(SetupError::Missing { what: "device", example: "'dev eth0'" })?;
        if device.is_empty() || device.len() > 15 || device.contains(['/', ' ', '\n', '\t']) {
            return Err(SetupError::value("dev", &format!("'{device}' cannot be the name of an interface")));
        }
        let direction = keys.direction.unwrap_or_default();
        let rate = match (keys.rate, direction) {
            (None, Directions::Ingress) => keys.ingress_rate,
            (rate, _) => rate,
        }
        .ok_or(SetupError::Missing {
            what: "rate",
            example: "'rate 500mbit', a little less than the link's own",
        })?;
        if direction == Directions::Egress && keys.ingress_rate.is_some() {
            let problem = "only what is sent is shaped; add 'direction both' or leave ingress_rate out";
            return Err(SetupError::value("ingress_rate", problem));
        }
        let ingress_rate = keys.ingress_rate.unwrap_or(rate);
        for (key, rate) in [("rate", rate), ("ingress_rate", ingress_rate)] {
            if rate < LOWEST_RATE || rate > HIGHEST_RATE {
                let problem = format!("{rate} is not from {LOWEST_RATE} to {HIGHEST_RATE}");
                return Err(SetupError::value(key, &problem));
            }
        }
        let queues = queues(&keys)?;
        let both_mark = queues.standard.marks() && queues.responsive.marks();
        let law = keys.law.params(if both_mark { MainSignal::Ecn } else { MainSignal::Loss })?;
        let flows = keys.flows.unwrap_or(DEFAULT_FLOWS);
        if !(64..=1 << 24).contains(&flows) {
            return Err(SetupError::value("flows", &format!("{flows} is not from 64 to 16777216")));
        }
        let setup = Self {
            device,
            rate,
            ingress_rate,
            direction,
            queues,
            rtt: keys.rtt.unwrap_or(DEFAULT_RTT),
            mtu: ETHERNET_MTU,
            split: keys.split.unwrap_or_default(),
            share: keys.share.unwrap_or_default(),
            law,
            flows,
            replace: keys.replace.unwrap_or_default(),
            keys,
        };
        // What no interface can have is found without one.
        Self { mtu: LEAST_MTU, ..setup.clone() }.check_limits()?;
        Ok(setup)
    }

    /// The same on an interface with this MTU.
    ///
    /// # Errors
    /// Names a limit that holds no full packet of it.
    pub fn with_mtu(self, mtu: u32) -> Result<Self, SetupError> {
        let setup = Self { mtu: mtu.min(LARGEST_MTU), ..self };
        setup.check_limits()?;
        Ok(setup)
    }

    fn check_limits(&self) -> Result<(), SetupError> {
        for direction in self.direction.each() {
            let (standard, responsive) = self.shares(*direction);
            self.queues.standard.words(self.reckoning(standard))?;
            self.queues.responsive.words(self.reckoning(responsive))?;
        }
        Ok(())
    }

    /// Whether all is reckoned by the MTU that the interface has.
    pub(super) fn is_for_mtu(&self, mtu: u32) -> bool {
        self.mtu == mtu.min(LARGEST_MTU)
    }

    /// What the limits of a queue with this share of the rate are reckoned by.
    pub(super) fn reckoning(&self, rate: Rate) -> Reckoning {
        Reckoning { rate, rtt: self.rtt, mtu: self.mtu }
    }

    /// Wire bytes of a full packet.
    pub(super) fn full_packet(&self) -> u64 {
        full_packet(self.mtu).into()
    }

    /// The whole rate of a direction.
    pub fn rate_of(&self, direction: Direction) -> Rate {
        match direction {
            Direction::Egress => self.rate,
            Direction::Ingress => self.ingress_rate,
        }
    }

    /// The rates of the standard and of the responsive queue.
    pub fn shares(&self, direction: Direction) -> (Rate, Rate) {
        let bits = self.rate_of(direction).bits_per_sec();
        let Share { standard, responsive } = self.share;
        let of_standard =
            u128::from(bits) * u128::from(standard) / (u128::from(standard) + u128::from(responsive));
        let of_standard = (of_standard as u64).max(1);
        (Rate::from_bits_per_sec(of_standard), Rate::from_bits_per_sec(bits - of_standard))
    }

    /// Whether a queue may put CE on a packet.
    pub fn can_mark(&self) -> bool {
        self.queues.standard.marks() || self.queues.responsive.marks()
    }
}

/// The two queues with what holds for both.
fn queues(keys: &Keys) -> Result<Queues, SetupError> {
    let mut queues = keys.queues.clone().unwrap_or_default();
    let can_mark = |leaf: &Leaf| leaf.kind.can_mark();
    if keys.ecn.is_some() && !can_mark(&queues.standard) && !can_mark(&queues.responsive) {
        let problem = format!("neither queue of {queues} can mark; use codel, fq_codel, pie, fq_pie or red");
        return Err(SetupError::value("ecn", &problem));
    }
    for leaf in [&mut queues.standard, &mut queues.responsive] {
        if leaf.kind.can_mark() {
            leaf.ecn = leaf.ecn.or(keys.ecn);
        }
        leaf.limit = leaf.limit.or(keys.limit);
        leaf.check()?;
    }
    Ok(queues)
}

#[cfg(test)]
mod tests {
    use super::{Direction, LinkSplit, Setup};
    use crate::keys::Keys;
    use crate::words;
    use weir_law::MainSignal;

    fn setup(line: &str) -> Setup {
        Setup::from_keys(words::parse(&line.split(' ').collect::<Vec<_>>()).unwrap()).unwrap()
    }

    fn refusal(line: &str) -> String {
        let keys = words::parse(&line.split(' ').collect::<Vec<_>>()).unwrap();
        Setup::from_keys(keys).unwrap_err().to_string()
    }

    #[test]
    fn a_setup_survives_its_journal() {
        for line in [
            "eth0 rate 500mbit",
            "eth0 rate 10gbit direction both ingress_rate 1gbit queues bfifo:limit=1bdp/fq_codel share 30/70 split borrow",
            "eth0 rate 50mbit preset comsys set mss=1460 set tie=keep set full_cycles=true flows 1000 ecn replace",
        ] {
            let setup = setup(line);
            let text = serde_json::to_string(&setup).unwrap();
            assert_eq!(serde_json::from_str::<Setup>(&text).unwrap(), setup, "{text}");
        }
    }

    #[test]
    fn both_queues_must_mark_for_ecn_to_lead() {
        let main = |line: &str| setup(line).law.main_signal;
        assert_eq!(main("eth0 rate 1mbit queues codel/codel ecn"), MainSignal::Ecn);
        assert_eq!(main("eth0 rate 1mbit queues fq_codel/fq_codel"), MainSignal::Ecn);
        assert_eq!(main("eth0 rate 1mbit queues codel/codel"), MainSignal::Loss);
        assert_eq!(main("eth0 rate 1mbit queues bfifo/codel ecn"), MainSignal::Loss);
        assert_eq!(main("eth0 rate 1mbit ecn set main_signal=loss"), MainSignal::Loss);
        assert!(setup("eth0 rate 1mbit queues bfifo/codel ecn").can_mark());
        assert!(!setup("eth0 rate 1mbit queues fq_codel:noecn/codel").can_mark());
    }

    #[test]
    fn shares_add_up_to_the_rate() {
        let setup = setup("eth0 rate 1000003bit share 1/2 direction both ingress_rate 1mbit");
        for direction in [Direction::Egress, Direction::Ingress] {
            let (standard, responsive) = setup.shares(direction);
            let all = standard.bits_per_sec() + responsive.bits_per_sec();
            assert_eq!(all, setup.rate_of(direction).bits_per_sec());
        }
    }

    #[test]
    fn shares_are_lent_unless_told_otherwise() {
        for line in ["eth0 rate 1mbit", "eth0 rate 1mbit split borrow", "eth0 rate 1mbit split shared"] {
            assert_eq!(setup(line).split, LinkSplit::Borrow, "{line}");
        }
        assert_eq!(setup("eth0 rate 1mbit split hard").split, LinkSplit::Hard);
    }

    #[test]
    fn limits_are_of_the_interface() {
        let setup = setup("eth0 rate 1mbit queues bfifo:limit=1400b/pfifo:limit=1bdp");
        let error = setup.clone().with_mtu(1500).unwrap_err().to_string();
        assert_eq!(
            error,
            "limit: 1400b of a bfifo at 500kbit and MTU 1500 is 1400 bytes; use 1514 to 4294967295"
        );
        let small = setup.clone().with_mtu(1280).unwrap();
        assert_eq!(small.mtu, 1280);
        // 6250 bytes are no packet of 9000.
        let packets = |mtu| {
            let setup = Setup { mtu, ..setup.clone() };
            setup.queues.responsive.words(setup.reckoning(setup.shares(Direction::Egress).1))
        };
        assert_eq!(packets(576).unwrap(), "pfifo limit 10");
        assert!(packets(9000).unwrap_err().to_string().contains("is 0 packets; use 1 to"));
    }

    #[test]
    fn an_mtu_beyond_what_ip_fills_is_that() {
        let setup = setup("eth0 rate 1mbit").with_mtu(u32::MAX).unwrap();
        assert_eq!(setup.full_packet(), 65_550);
    }

    #[test]
    fn flags_go_over_the_file() {
        let below = Keys {
            rate: Some("1mbit".parse().unwrap()),
            dev: Some("eth9".into()),
            flows: Some(100),
            ..Keys::default()
        };
        let above = words::parse(&["eth0", "rate", "2mbit", "set", "mss=1000"]).unwrap();
        let keys = above.over(below);
        assert_eq!((keys.dev.as_deref(), keys.flows), (Some("eth0"), Some(100)));
        let setup = Setup::from_keys(keys).unwrap();
        assert_eq!((setup.rate, setup.law.mss), ("2mbit".parse().unwrap(), 1000));
    }

    #[test]
    fn what_cannot_work_is_refused_by_key() {
        for (line, says) in [
            ("eth0", "no rate is given"),
            ("rate 1mbit", "no device is given"),
            ("eth0 rate 1kbit", "rate: 1kbit is not from 8kbit"),
            ("a/b rate 1mbit", "dev: 'a/b' cannot be the name"),
            ("eth0 rate 1mbit ingress_rate 1mbit", "ingress_rate: only what is sent is shaped"),
            ("eth0 rate 1mbit queues bfifo/pfifo ecn", "ecn: neither queue"),
            ("eth0 rate 1mbit flows 3", "flows: 3 is not"),
            ("eth0 rate 1mbit queues bfifo/codel limit 10p", "limit: bfifo counts bytes"),
            ("eth0 rate 1mbit queues bfifo:limit=80b/codel", "limit: 80b of a bfifo"),
            ("eth0 rate 1mbit queues cake/codel limit 10p", "'limit' is not an option of cake"),
        ] {
            let said = refusal(line);
            assert!(said.contains(says), "{line}: {said}");
        }
    }
}
