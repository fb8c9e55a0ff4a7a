//! Disciplines as a line of words, in iproute2's order and with its words: `codel limit 1000p target 5ms ecn`. A `crq`
//! takes the words of its queues after `standard` and `responsive`. Unlike `tc`, a repeated word is an error, limits
//! have units, and an unknown word is answered with the nearest known one.

use std::str::FromStr;

use super::{BfifoConfig, CodelKeys, ConfigError, CrqKeys, PfifoConfig, QdiscConfig, SplitKind};
use crate::{KernelVariant, Sharing, Switching};

const KINDS: &[&str] = &["pfifo", "bfifo", "codel", "crq"];
const FIFO_WORDS: &[&str] = &["limit"];
const CODEL_WORDS: &[&str] =
    &["limit", "target", "interval", "ecn", "noecn", "ce_threshold", "ce_threshold_ect1", "kernel"];
const CRQ_WORDS: &[&str] = &["standard", "responsive", "sharing", "split", "burst", "switching"];

/// Below this similarity (Jaro-Winkler) no word is near enough to be what was meant.
const NEAR: f64 = 0.75;

fn unknown(word: &str, what: impl Into<String>, known: &[&str]) -> ConfigError {
    let nearest = known
        .iter()
        .map(|known| (strsim::jaro_winkler(&word.to_ascii_lowercase(), known), *known))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(similarity, _)| *similarity >= NEAR);
    let hint = match nearest {
        Some((_, known)) => format!("; did you mean '{known}'?"),
        None => format!("; known are {}", known.join(", ")),
    };
    ConfigError::Unknown { word: word.to_owned(), what: what.into(), hint }
}

/// Accepts the keys of all kinds.
pub(super) fn check_key(key: &str) -> Result<(), ConfigError> {
    let known: Vec<&str> = ["kind"].iter().chain(CODEL_WORDS).chain(CRQ_WORDS).copied().collect();
    // `noecn` is a word only: as a key it is `ecn = false`.
    if known.contains(&key) && key != "noecn" {
        Ok(())
    } else {
        Err(unknown(key, "key of a queue discipline", &known))
    }
}

/// Words that are left to read.
struct Words<'a> {
    kind: &'a str,
    rest: &'a [&'a str],
    seen: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Result<Option<&'a str>, ConfigError> {
        let Some((word, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        self.rest = rest;
        let key = if *word == "noecn" { "ecn" } else { word };
        if self.seen.contains(&key) {
            return Err(ConfigError::Repeated { word: key.to_owned() });
        }
        self.seen.push(key);
        Ok(Some(word))
    }

    fn value<T: FromStr<Err: std::fmt::Display>>(
        &mut self,
        word: &str,
        example: &'static str,
    ) -> Result<T, ConfigError> {
        let Some((value, rest)) = self.rest.split_first() else {
            return Err(ConfigError::MissingValue { word: word.to_owned(), example });
        };
        self.rest = rest;
        value.parse().map_err(|error: T::Err| {
            let text = error.to_string();
            let expected = text.strip_prefix(&format!("'{value}' is not ")).unwrap_or(&text);
            ConfigError::value(&format!("{word} {value}"), expected)
        })
    }

    /// The words up to the next that belongs to the crq itself.
    fn section(&mut self, word: &str) -> Result<QdiscConfig, ConfigError> {
        let end = self.rest.iter().position(|word| CRQ_WORDS.contains(word)).unwrap_or(self.rest.len());
        let (section, rest) = self.rest.split_at(end);
        self.rest = rest;
        if section.is_empty() {
            return Err(ConfigError::MissingValue { word: word.to_owned(), example: "codel ecn" });
        }
        parse(section)
    }

    fn unknown(&self, word: &str, known: &[&str]) -> ConfigError {
        unknown(word, format!("word of {}", self.kind), known)
    }
}

fn parse(words: &[&str]) -> Result<QdiscConfig, ConfigError> {
    let Some((kind, rest)) = words.split_first() else {
        return Err(ConfigError::Empty(KINDS.join(", ")));
    };
    let mut words = Words { kind, rest, seen: Vec::new() };
    Ok(match *kind {
        "pfifo" => {
            let mut keys = PfifoConfig::default();
            while let Some(word) = words.next()? {
                match word {
                    "limit" => keys.limit = words.value(word, "1000p")?,
                    _ => return Err(words.unknown(word, FIFO_WORDS)),
                }
            }
            QdiscConfig::Pfifo(keys)
        }
        "bfifo" => {
            let mut keys = BfifoConfig::default();
            while let Some(word) = words.next()? {
                match word {
                    "limit" => keys.limit = words.value(word, "1bdp")?,
                    _ => return Err(words.unknown(word, FIFO_WORDS)),
                }
            }
            QdiscConfig::Bfifo(keys)
        }
        "codel" => {
            let mut keys = CodelKeys::default();
            while let Some(word) = words.next()? {
                match word {
                    "limit" => keys.limit = words.value(word, "1000p")?,
                    "target" => keys.target = words.value(word, "5ms")?,
                    "interval" => keys.interval = words.value(word, "100ms")?,
                    "ecn" => keys.ecn = true,
                    "noecn" => keys.ecn = false,
                    "ce_threshold" => keys.ce_threshold = Some(words.value(word, "1ms")?),
                    "ce_threshold_ect1" => keys.ce_threshold_ect1 = true,
                    "kernel" => keys.kernel = words.value(word, "7.2")?,
                    _ => return Err(words.unknown(word, CODEL_WORDS)),
                }
            }
            QdiscConfig::Codel(keys)
        }
        "crq" => {
            let mut keys = CrqKeys::default();
            while let Some(word) = words.next()? {
                match word {
                    "standard" => keys.standard = words.section(word)?,
                    "responsive" => keys.responsive = words.section(word)?,
                    "sharing" => keys.sharing = words.value(word, "equal")?,
                    "split" => keys.split = words.value(word, "shared")?,
                    "burst" => keys.burst = words.value(word, "2p")?,
                    "switching" => keys.switching = words.value(word, "drain")?,
                    _ => return Err(words.unknown(word, CRQ_WORDS)),
                }
            }
            QdiscConfig::Crq(Box::new(keys))
        }
        _ => return Err(unknown(kind, "queue discipline", KINDS)),
    })
}

impl FromStr for QdiscConfig {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        parse(&text.split_whitespace().collect::<Vec<_>>())
    }
}

impl FromStr for Sharing {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "equal" => Ok(Self::Equal),
            "strict" => Ok(Self::StrictPriority),
            _ => text
                .split_once(':')
                .and_then(|(standard, responsive)| {
                    Some(Self::Weighted {
                        standard: standard.parse().ok()?,
                        responsive: responsive.parse().ok()?,
                    })
                })
                .ok_or_else(|| {
                    ConfigError::value(text, "'equal', 'strict' or weights STANDARD:RESPONSIVE such as 30:70")
                }),
        }
    }
}

impl FromStr for SplitKind {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "hard" => Ok(Self::Hard),
            "shared" => Ok(Self::Shared),
            _ => Err(ConfigError::value(
                text,
                "'hard' (each queue keeps to its share) or 'shared' (work-conserving)",
            )),
        }
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

impl FromStr for KernelVariant {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "6.12" => Ok(Self::Linux6_12),
            "7.2" => Ok(Self::Linux7_2),
            _ => Err(ConfigError::value(text, "a kernel whose CoDel is known: 6.12 or 7.2")),
        }
    }
}
