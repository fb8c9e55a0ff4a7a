//! The two queues of a tree, as they are wanted and as far as they were said.

use std::fmt;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::leaf::Leaf;
use super::setup::SetupError;

/// The two queues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queues {
    /// For flows that do not answer, or whose answer is not known, and for all that is no flow.
    pub standard: Leaf,
    /// For flows that answer to congestion.
    pub responsive: Leaf,
}

impl Queues {
    /// Both, with their names.
    #[must_use]
    pub const fn named(&self) -> [(&'static str, &Leaf); 2] {
        [("standard", &self.standard), ("responsive", &self.responsive)]
    }
}

impl fmt::Display for Queues {
    /// As words of `weir up`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "standard {} responsive {}", self.standard, self.responsive)
    }
}

/// Of either queue what was said: both in a text `STANDARD/RESPONSIVE` such as `bfifo limit 1bdp/codel ecn`, or each by
/// itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueueKeys {
    /// The standard queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard: Option<Leaf>,
    /// The responsive queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub responsive: Option<Leaf>,
}

impl QueueKeys {
    /// These, and where they say nothing, those below.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self { standard: self.standard.or(below.standard), responsive: self.responsive.or(below.responsive) }
    }
}

impl FromStr for QueueKeys {
    type Err = SetupError;

    /// `STANDARD/RESPONSIVE`.
    fn from_str(text: &str) -> Result<Self, SetupError> {
        let Some((standard, responsive)) = text.split_once('/') else {
            let problem = format!(
                "'{text}' is not STANDARD/RESPONSIVE, such as bfifo/codel or 'bfifo limit 1bdp/codel ecn'; \
                 one by itself is given as 'standard {text}'"
            );
            return Err(SetupError::value("queues", &problem));
        };
        let leaf = |text: &str| text.parse().map(Some).map_err(|error| SetupError::value("queues", &error));
        Ok(Self { standard: leaf(standard)?, responsive: leaf(responsive)? })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueuesTable {
    standard: Option<Leaf>,
    responsive: Option<Leaf>,
}

impl<'de> Deserialize<'de> for QueueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = QueueKeys;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("queues such as \"bfifo/codel\" or a table with 'standard' and 'responsive'")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<QueueKeys, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<QueueKeys, E> {
                Ok(QueueKeys::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<QueueKeys, A::Error> {
                let QueuesTable { standard, responsive } =
                    QueuesTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(QueueKeys { standard, responsive })
            }
        }
        deserializer.deserialize_any(Either)
    }
}
