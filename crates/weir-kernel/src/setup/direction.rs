//! Which ways through an interface are shaped.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::SetupError;

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
    #[must_use]
    pub const fn name(self) -> &'static str {
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
