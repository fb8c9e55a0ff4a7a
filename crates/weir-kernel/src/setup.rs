//! What is wanted of one interface: rate, direction, the two queues, how the link is divided, and the law. It comes
//! from words, flags or a TOML file ([`Keys`]) and is complete and checked as [`Setup`].

mod direction;
mod error;

use serde::{Deserialize, Serialize};
use weir_core::{Duration, ETHERNET_MTU, Rate};
use weir_law::live::LiveConfig;
use weir_law::{MainSignal, Params};
use weir_qdisc::Sharing;
use weir_qdisc::config::SplitKind;

use super::keys::Keys;
use super::leaf::Leaf;
use super::queues::Queues;
use super::tree::{Shape, Tree};

pub use direction::{Direction, Directions};
pub use error::SetupError;

/// Flows that are remembered unless another number is given.
pub const DEFAULT_FLOWS: u32 = 65_536;
/// Round-trip time by which limits in BDP are computed unless another is given.
pub const DEFAULT_RTT: Duration = Duration::from_millis(100);
/// Unless said otherwise a queue may use what the other leaves. Not the paper's choice, nor that of scenarios: with
/// hard shares a lone flow has half of the link.
pub const DEFAULT_SPLIT: SplitKind = SplitKind::Shared;
/// Both queues unless others are given: the paper's first combination is drop-tail and CoDel; on a live link CoDel in
/// both keeps delay low in both.
pub(super) const DEFAULT_QUEUE: &str = "codel";
/// The least MTU of a link that carries IPv4, in bytes (RFC 791).
pub(super) const LEAST_MTU: u32 = 68;
/// Below this a full packet takes more than a second and a half.
const LOWEST_RATE: Rate = Rate::from_bits_per_sec(8_000);
/// A byte per second.
const LOWEST_CLASS: Rate = Rate::from_bits_per_sec(8);
/// Above this a burst of one millisecond overflows HTB's 32-bit token times on some kernels, and no test was ever made.
const HIGHEST_RATE: Rate = Rate::from_bits_per_sec(400_000_000_000);
/// The largest weight of a queue: with more the other one's turns would be shorter than a packet.
const LARGEST_WEIGHT: u32 = 1000;

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
    /// The MTU by which limits, bursts and turns are computed, in bytes: the interface's once it is known.
    #[serde(default = "ethernet_mtu")]
    pub mtu: u32,
    /// Whether a queue may use what the other leaves.
    pub split: SplitKind,
    /// How the rate is divided.
    pub sharing: Sharing,
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
        let (sharing, split) = (keys.sharing.unwrap_or_default(), keys.split.unwrap_or(DEFAULT_SPLIT));
        check_sharing(sharing, split)?;
        let both_mark = queues.standard.queue().can_mark() && queues.responsive.queue().can_mark();
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
            split,
            sharing,
            law,
            flows,
            replace: keys.replace.unwrap_or_default(),
            keys,
        };
        setup.check_classes()?;
        // What no interface can have is found without one, but the remedy is for a usual one.
        let possible = Self { mtu: LEAST_MTU, ..setup.clone() }.check_limits();
        possible.or_else(|error| setup.check_limits().and(Err(error)))?;
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

    /// `tc` gives the kernel whole bytes per second, and takes none for no rate.
    fn check_classes(&self) -> Result<(), SetupError> {
        for direction in self.direction.each() {
            let [standard, responsive] = self.assured(*direction);
            for (queue, own) in [("standard", standard), ("responsive", responsive)] {
                if own < LOWEST_CLASS {
                    let problem = format!(
                        "'{}' of rate {} leaves the {queue} queue {own}, less than the {LOWEST_CLASS} that HTB counts; \
                         give a higher rate or weights that are nearer to each other",
                        self.sharing,
                        self.rate_of(*direction)
                    );
                    return Err(SetupError::value("sharing", &problem));
                }
            }
        }
        Ok(())
    }

    fn check_limits(&self) -> Result<(), SetupError> {
        for direction in self.direction.each() {
            self.tree(*direction)?;
        }
        Ok(())
    }

    /// The tree of one direction.
    ///
    /// # Errors
    /// Names a queue that the kernel cannot have at this rate and MTU.
    pub fn tree(&self, direction: Direction) -> Result<Tree<'_>, SetupError> {
        Ok(Tree::of(&self.shape(direction))?)
    }

    /// What the tree of one direction is made of.
    #[must_use]
    pub fn shape(&self, direction: Direction) -> Shape<'_> {
        let Queues { standard, responsive } = &self.queues;
        Shape {
            rtt: self.rtt,
            mtu: self.mtu,
            ..Shape::two(
                self.rate_of(direction),
                [standard.queue(), responsive.queue()],
                self.sharing,
                self.split,
            )
        }
    }

    /// Whether all is computed for this MTU, which the interface has.
    pub(super) fn is_for_mtu(&self, mtu: u32) -> bool {
        self.mtu == mtu.min(LARGEST_MTU)
    }

    /// The whole rate of a direction.
    pub fn rate_of(&self, direction: Direction) -> Rate {
        match direction {
            Direction::Egress => self.rate,
            Direction::Ingress => self.ingress_rate,
        }
    }

    /// What the standard and the responsive queue have when both are busy.
    #[must_use]
    pub fn shares(&self, direction: Direction) -> [Rate; 2] {
        self.shape(direction).shares()
    }

    /// What the classes of the standard and of the responsive queue are sure of.
    #[must_use]
    pub fn assured(&self, direction: Direction) -> [Rate; 2] {
        self.shape(direction).assured()
    }

    /// Flows that a table of `flows` has room for.
    pub(super) fn capacity(&self) -> u32 {
        LiveConfig::new(&self.law, self.flows).capacity()
    }

    /// Whether a queue may put CE on a packet.
    #[must_use]
    pub fn can_mark(&self) -> bool {
        self.queues.named().iter().any(|(_, leaf)| leaf.queue().can_mark())
    }
}

/// Two queues, each with a weight that the tree can keep.
fn check_sharing(sharing: Sharing, split: SplitKind) -> Result<(), SetupError> {
    match sharing {
        Sharing::Equal => Ok(()),
        Sharing::StrictPriority if split == SplitKind::Hard => {
            Err(SetupError::value("split", "strict priority has no shares to keep apart; use split shared"))
        }
        Sharing::StrictPriority => Ok(()),
        Sharing::Flows => Err(SetupError::value(
            "sharing",
            "the weights of HTB's classes do not follow flows; give equal or weights such as 50:50, with fq_codel in both \
             queues for shares by flow within each",
        )),
        Sharing::Weighted { standard, responsive, ecn_responsive: 0 }
            if (1..=LARGEST_WEIGHT).contains(&standard) && (1..=LARGEST_WEIGHT).contains(&responsive) =>
        {
            Ok(())
        }
        Sharing::Weighted { .. } => {
            let problem = format!(
                "'{sharing}' is not STANDARD:RESPONSIVE in weights from 1 to {LARGEST_WEIGHT}, such as 50:50"
            );
            Err(SetupError::value("sharing", &problem))
        }
    }
}

/// The two queues with what holds for both.
fn queues(keys: &Keys) -> Result<Queues, SetupError> {
    let given = keys.queues.clone().unwrap_or_default();
    let leaf = |key: &str, given: Option<Leaf>| -> Result<Leaf, SetupError> {
        let bad = |error: weir_qdisc::ConfigError| SetupError::value(key, &error);
        let mut leaf = given.map_or_else(|| DEFAULT_QUEUE.parse().map_err(bad), Ok)?;
        if let Some(ecn) = keys.ecn.filter(|_| leaf.has("ecn")) {
            leaf = leaf.or("ecn", if ecn { "ecn" } else { "noecn" }).map_err(bad)?;
        }
        match keys.limit {
            Some(limit) => leaf.or("limit", &format!("limit {limit}")).map_err(bad),
            None => Ok(leaf),
        }
    };
    let queues = Queues {
        standard: leaf("standard", given.standard)?,
        responsive: leaf("responsive", given.responsive)?,
    };
    if keys.ecn.is_some() && !queues.named().iter().any(|(_, leaf)| leaf.has("ecn")) {
        let problem =
            format!("neither queue of '{queues}' can mark; use codel, fq_codel, pie, fq_pie or red");
        return Err(SetupError::value("ecn", &problem));
    }
    Ok(queues)
}

#[cfg(test)]
mod tests;
