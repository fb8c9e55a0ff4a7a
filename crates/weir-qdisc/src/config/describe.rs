//! Disciplines in one line, for people: what was chosen, and of the rest only what is not the default. In the manner of
//! `tc qdisc show`, which prints every parameter.

use std::fmt;

use super::{CodelKeys, CrqKeys, QdiscConfig, SplitKind};
use crate::{KernelVariant, Limit, Sharing, Switching};

impl fmt::Display for QdiscConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pfifo(keys) => write!(f, "pfifo {}", keys.limit),
            Self::Bfifo(keys) => write!(f, "bfifo {}", keys.limit),
            Self::Codel(keys) => keys.fmt(f),
            Self::Crq(keys) => keys.fmt(f),
        }
    }
}

impl fmt::Display for CodelKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::default();
        write!(f, "codel {}/{}", self.target, self.interval)?;
        if self.limit != usual.limit {
            write!(f, " limit {}", self.limit)?;
        }
        if self.ecn {
            f.write_str(" ecn")?;
        }
        if let Some(above) = self.ce_threshold {
            write!(f, " ce_threshold {above}")?;
            if self.ce_threshold_ect1 {
                f.write_str(" ect1")?;
            }
        }
        if self.kernel != usual.kernel {
            write!(f, " kernel {}", self.kernel)?;
        }
        Ok(())
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

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equal => f.write_str("equal"),
            Self::Weighted { standard, responsive } => write!(f, "{standard}:{responsive}"),
            Self::StrictPriority => f.write_str("strict"),
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

impl fmt::Display for Switching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Immediate => "immediate",
            Self::Drain => "drain",
        })
    }
}

impl fmt::Display for KernelVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Linux6_12 => "6.12",
            Self::Linux7_2 => "7.2",
        })
    }
}
