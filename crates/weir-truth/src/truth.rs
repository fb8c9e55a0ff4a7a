//! What a sender is by construction: the truth that verdicts of the law are held against.

use serde::{Deserialize, Serialize};
use weir_law::Verdict;

/// Kinds of senders by what they do when they are told of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Additive increase, multiplicative decrease: Reno, Cubic.
    Aimd,
    /// A decrease by the share of marks: DCTCP, Prague.
    Scalable,
    /// BBR that answers losses and, where it uses ECN, marks: versions 2 and 3.
    Bbr,
    /// BBR that does not: version 1.
    Bbr1,
    /// Copa.
    Copa,
    /// PCC Allegro and Vivace.
    Pcc,
    /// Nothing changes with congestion: a fixed window, a constant rate.
    Unresponsive,
    /// The same, made to look as if something did.
    Adversary,
    /// Datagrams at a constant rate, which the law never judges.
    Udp,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Aimd,
        Self::Scalable,
        Self::Bbr,
        Self::Bbr1,
        Self::Copa,
        Self::Pcc,
        Self::Unresponsive,
        Self::Adversary,
        Self::Udp,
    ];

    /// The word in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aimd => "aimd",
            Self::Scalable => "scalable",
            Self::Bbr => "bbr",
            Self::Bbr1 => "bbr1",
            Self::Copa => "copa",
            Self::Pcc => "pcc",
            Self::Unresponsive => "unresponsive",
            Self::Adversary => "adversary",
            Self::Udp => "udp",
        }
    }

    /// The class of a controller by its name; none of one that no mix has.
    pub fn of(controller: &str) -> Option<Self> {
        Some(match controller.split_whitespace().next().unwrap_or_default() {
            "reno" | "cubic" | "cubic-rfc9438" => Self::Aimd,
            "dctcp" | "dctcp-rfc8257" | "dctcp-linux318" | "prague" | "prague-2022" => Self::Scalable,
            "bbr2" | "bbr3" | "bbr2-ecn" | "bbr3-ecn" => Self::Bbr,
            "bbr1" => Self::Bbr1,
            "copa" => Self::Copa,
            "pcc-allegro" | "pcc-vivace" => Self::Pcc,
            "fixed-window" | "constant-rate" => Self::Unresponsive,
            "saw-tooth" | "dip" | "dip-3" | "dip-4" | "evader" => Self::Adversary,
            "" => Self::Udp,
            _ => return None,
        })
    }

    /// The verdict that is right by construction; none where a policy has to say.
    pub const fn right(self) -> Option<Verdict> {
        match self {
            Self::Aimd | Self::Scalable => Some(Verdict::Responsive),
            Self::Unresponsive | Self::Adversary => Some(Verdict::Unresponsive),
            Self::Bbr | Self::Bbr1 | Self::Copa | Self::Pcc | Self::Udp => None,
        }
    }
}

/// The classes that rows have, in their order.
pub fn classes() -> impl Iterator<Item = &'static str> {
    Class::ALL.iter().map(|class| class.name()).filter(|name| *name != "udp").chain(["meek"])
}
