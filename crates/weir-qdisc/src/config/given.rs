//! A discipline as it was given: its configuration, and which keys were named. Who fills in what was not said, or
//! changes one key of a line, has to know the difference between a value that was chosen and the same one by default.

use std::fmt;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ConfigError, QdiscConfig, words};

/// A discipline with the words that gave it. Two are equal if they have the same words in the same order.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenQdisc {
    config: QdiscConfig,
    /// The line, words apart by one space.
    line: String,
    named: Vec<&'static str>,
}

impl GivenQdisc {
    /// The configuration, complete.
    #[must_use]
    pub const fn config(&self) -> &QdiscConfig {
        &self.config
    }

    /// Whether a key was named, such as `limit`; `noecn` names `ecn`.
    #[must_use]
    pub fn names(&self, key: &str) -> bool {
        self.named.contains(&key)
    }

    /// Whether the kind has a key.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        words::of_kind(self.config.kind()).iter().any(|word| word.key == key)
    }

    /// The same with further words: `limit 64kb`, `noecn`.
    ///
    /// # Errors
    /// When they are not the kind's, or name a key that was named.
    pub fn with(&self, words: &str) -> Result<Self, ConfigError> {
        format!("{} {words}", self.line).parse()
    }

    /// How many of `words`, the first of which is a kind, are its line: all up to the first that is none of the kind's,
    /// and the values of those that take one. All of them if the kind is not known.
    #[must_use]
    pub fn length(words: &[&str]) -> usize {
        let Some((kind, rest)) = words.split_first() else { return 0 };
        if !QdiscConfig::KINDS.contains(kind) {
            return words.len();
        }
        let known = words::of_kind(kind);
        let mut length = 0;
        while let Some(word) = rest.get(length).and_then(|word| known.iter().find(|one| one.word == *word)) {
            length += word.words();
        }
        words.len().min(1 + length)
    }
}

impl FromStr for GivenQdisc {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let config: QdiscConfig = text.parse()?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let named = words::named(config.kind(), &words[1..])?;
        Ok(Self { config, line: words.join(" "), named })
    }
}

impl fmt::Display for GivenQdisc {
    /// The line, which reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl Serialize for GivenQdisc {
    /// As a line.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GivenQdisc {
    /// From a line, or from a table with `kind`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LineOrTable)
    }
}

struct LineOrTable;

/// A value of a table.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Flag(bool),
    Whole(u64),
    Number(f64),
    Text(String),
    Nothing(()),
}

impl<'de> Visitor<'de> for LineOrTable {
    type Value = GivenQdisc;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a queue discipline: words such as \"codel ecn\", or a table with a kind")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<GivenQdisc, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<GivenQdisc, A::Error> {
        let mut table: Vec<(String, Value)> =
            Entries::deserialize(MapAccessDeserializer::new(map)).map(|entries| entries.0)?;
        let kind = table.iter().position(|(key, _)| key == "kind");
        let Some((_, Value::Text(kind))) = kind.map(|at| table.remove(at)) else {
            return Err(A::Error::missing_field("kind"));
        };
        let mut line = kind.clone();
        for (key, value) in table {
            words::check_key(&key).map_err(A::Error::custom)?;
            let value = match value {
                Value::Nothing(()) => continue,
                Value::Flag(flag) => {
                    let word = words::flag(&kind, &key, flag);
                    line += &format!(" {}", word.map_err(A::Error::custom)?);
                    continue;
                }
                Value::Whole(number) => number.to_string(),
                Value::Number(number) => number.to_string(),
                // `2 bdp` is a value, and two words.
                Value::Text(text) => text.split_whitespace().collect(),
            };
            line += &format!(" {key} {value}");
        }
        line.parse().map_err(A::Error::custom)
    }
}

/// The entries of a table in its order.
struct Entries(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

#[cfg(test)]
mod tests {
    use super::GivenQdisc;

    fn given(line: &str) -> GivenQdisc {
        line.parse().unwrap()
    }

    #[test]
    fn what_was_named_is_known() {
        let codel = given("codel  noecn target 5ms");
        assert_eq!(codel.to_string(), "codel noecn target 5ms");
        assert_eq!(["ecn", "target", "limit"].map(|key| codel.names(key)), [true, true, false]);
        assert_eq!(["ecn", "noecn", "flows"].map(|key| codel.has(key)), [true, false, false]);
        assert_eq!(codel.with("limit 10p").unwrap(), given("codel noecn target 5ms limit 10p"));
        assert!(codel.with("ecn").unwrap_err().to_string().contains("twice"));
        assert!(given("bfifo").with("ecn").unwrap_err().to_string().contains("not a word of bfifo"));
    }

    #[test]
    fn a_table_is_a_line() {
        #[derive(serde::Deserialize)]
        struct File {
            q: GivenQdisc,
        }
        let read = |text: &str| toml::from_str::<File>(text).map(|file| file.q);
        assert_eq!(
            read("q = {kind = 'codel', target = '5ms', ecn = true}").unwrap(),
            given("codel ecn target 5ms")
        );
        assert_eq!(read("q = {kind = 'codel', ecn = false}").unwrap(), given("codel noecn"));
        assert_eq!(read("q = {flows = 64, kind = 'fq_codel'}").unwrap(), given("fq_codel flows 64"));
        for text in ["q = 'bfifo limit 1bdp'", "q = {kind = 'bfifo', limit = '1 bdp'}"] {
            assert_eq!(read(text).unwrap(), given("bfifo limit 1bdp"));
        }
        for (text, says) in [
            ("q = {limit = '5p'}", "missing field `kind`"),
            ("q = {kind = 'codel', tagret = '5ms'}", "did you mean 'target'?"),
            ("q = {kind = 'bfifo', ecn = true}", "'ecn' is not a word of bfifo"),
            ("q = {kind = 'fq_codel', ecn = 7}", "'7' is not a word of fq_codel"),
            ("q = 'codel:ecn,target=5ms'", "'codel:ecn,target=5ms' is written 'codel ecn target 5ms'"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn a_line_ends_where_the_words_of_its_kind_do() {
        for (text, length) in [
            ("", 0),
            ("codel", 1),
            ("codel ecn target 5ms split hard", 4),
            ("cake isolation flows flows 64", 3),
            ("bfifo limit", 2),
            ("codle ecn split hard", 4),
        ] {
            assert_eq!(GivenQdisc::length(&text.split_whitespace().collect::<Vec<_>>()), length, "{text}");
        }
    }
}
