//! What is wanted as far as it was said, by words, by flags or in a TOML file; what was said last goes over the rest.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use weir_core::{Duration, Rate};
use weir_law::{MainSignal, Params, Preset};
use weir_qdisc::config::SplitKind;
use weir_qdisc::{Limit, Sharing};

use super::queues::QueueKeys;
use super::setup::{Directions, SetupError};
use super::words::nearest;

/// The preset on a live interface, where flows have reason to cheat and others can forge.
pub const DEFAULT_PRESET: Preset = Preset::Robust;

/// Parameters of the law as they were given: a preset ([`DEFAULT_PRESET`] if none) and what differs from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LawKeys(serde_json::Map<String, serde_json::Value>);

impl LawKeys {
    /// Sets one parameter, or `preset`.
    ///
    /// # Errors
    /// When there is no such parameter or it does not take the value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SetupError> {
        // Numbers and booleans as such, all else is text.
        let value = serde_json::from_str(value)
            .ok()
            .filter(|value: &serde_json::Value| value.is_number() || value.is_boolean())
            .unwrap_or_else(|| value.into());
        self.0.insert(name.to_owned(), value);
        self.check()
    }

    /// Whether there are such parameters and they take these values.
    ///
    /// # Errors
    /// Names the first that is wrong, and what it may be.
    pub fn check(&self) -> Result<(), SetupError> {
        self.params(MainSignal::Loss).map(drop)
    }

    fn over(mut self, mut below: Self) -> Self {
        below.0.append(&mut self.0);
        below
    }

    /// All parameters. Which signal leads is `main_signal` unless it was given.
    ///
    /// # Errors
    /// Names the parameter that is unknown or out of range.
    pub fn params(&self, main_signal: MainSignal) -> Result<Params, SetupError> {
        for name in self.0.keys().filter(|name| *name != "preset") {
            if !Params::FIELDS.contains(&name.as_str()) {
                return Err(SetupError::unknown(name, "parameter of the law", nearest(name, Params::FIELDS)));
            }
        }
        let given = self.clone().over(Self::from(DEFAULT_PRESET));
        let refused = |error: serde_json::Error| {
            let told = self.0.iter().find_map(|(name, value)| {
                let said = alone(name, value.clone()).err()?;
                Some(SetupError::value(name, &refusal(name, value, &said)))
            });
            // Else they are right each, but not together.
            told.unwrap_or_else(|| SetupError::value("law", &error))
        };
        let params: Params = serde_json::from_value(given.0.into()).map_err(refused)?;
        if params.main_signal == MainSignal::Both {
            return Err(SetupError::value("main_signal", &"both needs a third queue; give loss or ecn"));
        }
        Ok(if self.0.contains_key("main_signal") { params } else { params.with_main_signal(main_signal) })
    }
}

impl From<Preset> for LawKeys {
    fn from(preset: Preset) -> Self {
        let name = serde_json::to_value(preset).unwrap_or_default();
        Self([("preset".to_owned(), name)].into_iter().collect())
    }
}

/// Whether a parameter takes a value, all others being as they are by themselves.
fn alone(name: &str, value: serde_json::Value) -> Result<Params, String> {
    let table = serde_json::Map::from_iter([(name.to_owned(), value)]);
    serde_json::from_value(table.into()).map_err(|error: serde_json::Error| error.to_string())
}

/// Why a parameter does not take a value; `said` is what its reader said.
fn refusal(name: &str, value: &serde_json::Value, said: &str) -> String {
    let value = value.as_str().map_or_else(|| value.to_string(), |text| format!("'{text}'"));
    let may_be = match name {
        "preset" => Some("robust, paper or comsys".to_owned()),
        _ if alone(name, true.into()).is_ok() => Some("true or false".to_owned()),
        _ => range(name),
    };
    may_be.map_or_else(|| said.to_owned(), |may_be| format!("{value} is not {may_be}"))
}

/// What a parameter that is a number may be: what its reader says of numbers that it cannot be, which the type bounds
/// where nothing else does.
fn range(name: &str) -> Option<String> {
    let types = [u64::from(u32::MAX), u16::MAX.into(), u8::MAX.into()];
    let told = types.into_iter().chain([1, 0]).find_map(|number| {
        let said = alone(name, number.into()).err()?;
        Some(said.split_once("use ")?.1.to_owned())
    });
    let of_type = || types.into_iter().find(|most| alone(name, (*most).into()).is_ok());
    told.or_else(|| of_type().map(|most| format!("a whole number from 0 to {most}")))
}

/// What is wanted, as far as it was said. The keys of the file are these fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Keys {
    /// The interface.
    pub dev: Option<String>,
    /// The rate of the link.
    pub rate: Option<Rate>,
    /// The rate of what is received, where it is another.
    pub ingress_rate: Option<Rate>,
    /// Which ways are shaped.
    pub direction: Option<Directions>,
    /// The two queues.
    pub queues: Option<QueueKeys>,
    /// Whether they mark, for all that can and do not say it themselves.
    pub ecn: Option<bool>,
    /// Their limit, for those that do not say it themselves.
    pub limit: Option<Limit>,
    /// The round-trip time of limits in BDP.
    pub rtt: Option<Duration>,
    /// Whether a queue may use what the other leaves.
    pub split: Option<SplitKind>,
    /// How the rate is divided.
    pub sharing: Option<Sharing>,
    /// The law.
    pub law: LawKeys,
    /// How many flows are remembered in each direction.
    pub flows: Option<u32>,
    /// A classless qdisc of somebody else may be put aside until `weir down`.
    pub replace: Option<bool>,
}

impl Keys {
    /// The keys of the file, for messages.
    pub const NAMES: &[&str] = &[
        "dev",
        "rate",
        "ingress_rate",
        "direction",
        "queues",
        "ecn",
        "limit",
        "rtt",
        "split",
        "sharing",
        "law",
        "flows",
        "replace",
    ];

    /// Takes one word with its value; an empty value for words that stand alone.
    ///
    /// # Errors
    /// When the value cannot be read.
    pub fn put(&mut self, word: &str, value: &str) -> Result<(), SetupError> {
        fn read<T: FromStr<Err: fmt::Display>>(word: &str, value: &str) -> Result<Option<T>, SetupError> {
            value.parse().map(Some).map_err(|error: T::Err| {
                let text = error.to_string();
                // Some errors name the word already.
                SetupError::value(word, text.strip_prefix(&format!("{word}: ")).unwrap_or(&text))
            })
        }
        match word {
            "dev" => self.dev = Some(value.to_owned()),
            "rate" => self.rate = read(word, value)?,
            "ingress_rate" => self.ingress_rate = read(word, value)?,
            "direction" => self.direction = read(word, value)?,
            "queues" => {
                // One that was said by itself stands; said twice it is refused before.
                let both: Option<QueueKeys> = read(word, value)?;
                self.queues = both.map(|both| self.queues.take().unwrap_or_default().over(both));
            }
            "standard" => self.queues.get_or_insert_default().standard = read(word, value)?,
            "responsive" => self.queues.get_or_insert_default().responsive = read(word, value)?,
            "ecn" => self.ecn = Some(true),
            "noecn" => self.ecn = Some(false),
            "limit" => self.limit = read(word, value)?,
            "rtt" => self.rtt = read(word, value)?,
            "split" => self.split = read(word, value)?,
            "sharing" => self.sharing = read(word, value)?,
            "share" => {
                let problem = format!("'share {value}' is written 'sharing {}'", value.replace('/', ":"));
                return Err(SetupError::value(word, &problem));
            }
            "preset" => self.law.set("preset", value)?,
            "set" => {
                let Some((name, value)) = value.split_once('=') else {
                    let problem = format!("'{value}': write NAME=VALUE, such as lapse_round_trips=16");
                    return Err(SetupError::value("set", &problem));
                };
                self.law.set(name.trim(), value.trim())?;
            }
            "flows" => {
                let problem =
                    |_| SetupError::value(word, &format!("'{value}' is not a number such as 65536"));
                self.flows = Some(value.parse().map_err(problem)?);
            }
            "replace" => self.replace = Some(true),
            _ => return Err(SetupError::unknown(word, "word of weir up", nearest(word, Self::NAMES))),
        }
        Ok(())
    }

    /// These, and where they say nothing, those below.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            dev: self.dev.or(below.dev),
            rate: self.rate.or(below.rate),
            ingress_rate: self.ingress_rate.or(below.ingress_rate),
            direction: self.direction.or(below.direction),
            queues: match (self.queues, below.queues) {
                (Some(above), Some(below)) => Some(above.over(below)),
                (above, below) => above.or(below),
            },
            ecn: self.ecn.or(below.ecn),
            limit: self.limit.or(below.limit),
            rtt: self.rtt.or(below.rtt),
            split: self.split.or(below.split),
            sharing: self.sharing.or(below.sharing),
            law: self.law.over(below.law),
            flows: self.flows.or(below.flows),
            replace: self.replace.or(below.replace),
        }
    }
}
