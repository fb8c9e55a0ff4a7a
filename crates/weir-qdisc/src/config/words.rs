//! Disciplines as a line of words, in iproute2's order and with its words: `codel limit 1000p target 5ms ecn`. A `crq`
//! takes the words of its queues after `standard` and `responsive`. Unlike `tc`, a repeated word is an error, limits
//! have units, and an unknown word is answered with the nearest known one.
//!
//! The words become the entries of a table, which the discipline's own `Deserialize` reads: a line and a table cannot
//! mean different things.

use std::str::FromStr;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;
use weir_core::words::hint;

use super::{ConfigError, Keys, QdiscConfig, Word};
use crate::keys::Form;

pub(super) fn unknown(word: &str, what: impl Into<String>, known: &[&str]) -> ConfigError {
    ConfigError::Unknown { word: word.to_owned(), what: what.into(), hint: hint(word, known) }
}

/// Accepts the keys of all kinds.
pub(super) fn check_key(key: &str) -> Result<(), ConfigError> {
    let mut known = vec!["kind"];
    for word in QdiscConfig::kinds().into_iter().filter_map(QdiscConfig::words_of).flatten() {
        if !known.contains(&word.key) {
            known.push(word.key);
        }
    }
    if known.contains(&key) { Ok(()) } else { Err(unknown(key, "key of a queue discipline", &known)) }
}

impl FromStr for QdiscConfig {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let Some((kind, rest)) = words.split_first() else {
            return Err(ConfigError::Empty(Self::kinds().join(", ")));
        };
        // `codel:ecn,target=5ms`, as in other programs' configurations.
        if kind.split_once(':').is_some_and(|(kind, _)| Self::KINDS.contains(&kind)) {
            let new = text.replace([':', ',', '='], " ");
            let new = new.split_whitespace().collect::<Vec<_>>().join(" ");
            return Err(ConfigError::Spelling { old: text.to_owned(), new });
        }
        Self::from_words(kind, rest)
    }
}

/// The words of a kind; none if it is not known.
pub(super) fn of_kind(kind: &str) -> &'static [Word] {
    QdiscConfig::words_of(kind).unwrap_or_default()
}

/// Reads the words after `kind`.
pub(super) fn read<K: Keys>(kind: &str, rest: &[&str]) -> Result<K, ConfigError> {
    K::deserialize(Table { entries: entries(kind, K::WORDS, rest)?.into_iter(), value: None })
}

/// The keys that the words after `kind` name.
pub(super) fn named(kind: &str, rest: &[&str]) -> Result<Vec<&'static str>, ConfigError> {
    Ok(entries(kind, of_kind(kind), rest)?.into_iter().map(|(key, _)| key).collect())
}

/// The word that stands for a key of `kind` that is on or off.
pub(super) fn flag(kind: &str, key: &str, value: bool) -> Result<&'static str, ConfigError> {
    let known = of_kind(kind);
    let word = known.iter().find(|known| known.key == key && known.form == Form::Flag(value));
    // Where there is no word for off, off is what it is without one.
    match word {
        Some(word) => Ok(word.word),
        None if !value && known.iter().any(|known| known.key == key && known.form == Form::Flag(true)) => {
            Ok("")
        }
        None => Err(not_a_word(kind, key, known)),
    }
}

fn not_a_word(kind: &str, word: &str, known: &[Word]) -> ConfigError {
    let known: Vec<&str> = known.iter().map(|known| known.word).collect();
    unknown(word, format!("word of {kind}"), &known)
}

/// The words after `kind` as the entries of a table.
fn entries<'a>(
    kind: &str,
    known: &'static [Word],
    rest: &'a [&'a str],
) -> Result<Vec<(&'static str, Given<'a>)>, ConfigError> {
    let mut words = Words { words: known, rest, entries: Vec::new() };
    while let Some((word, rest)) = words.rest.split_first() {
        let Some(known) = known.iter().find(|known| known.word == *word) else {
            return Err(not_a_word(kind, word, known));
        };
        words.rest = rest;
        words.take(known)?;
    }
    Ok(words.entries)
}

/// What stands in a line for the value of a key.
#[derive(Clone, Debug)]
enum Given<'a> {
    Flag(bool),
    /// The word and its value.
    Value(&'static str, &'a str),
    /// A whole discipline.
    Section(String),
}

/// Words that are left to read, and what was read.
struct Words<'a> {
    words: &'static [Word],
    rest: &'a [&'a str],
    entries: Vec<(&'static str, Given<'a>)>,
}

impl Words<'_> {
    fn take(&mut self, word: &Word) -> Result<(), ConfigError> {
        if self.entries.iter().any(|(key, _)| *key == word.key) {
            return Err(ConfigError::Repeated { word: word.key.to_owned() });
        }
        let missing = |example| ConfigError::MissingValue { word: word.word.to_owned(), example };
        let given = match word.form {
            Form::Flag(value) => Given::Flag(value),
            Form::Value(example) => {
                let (value, rest) = self.rest.split_first().ok_or_else(|| missing(example))?;
                self.rest = rest;
                Given::Value(word.word, value)
            }
            Form::Section(example) => {
                let (section, rest) = self.rest.split_at(self.section());
                if section.is_empty() {
                    return Err(missing(example));
                }
                self.rest = rest;
                Given::Section(section.join(" "))
            }
        };
        self.entries.push((word.key, given));
        Ok(())
    }

    /// How many of the words that follow belong to the discipline inside: all up to the next that is this one's and not
    /// also the other's.
    fn section(&self) -> usize {
        let ours = |word: &str| self.words.iter().any(|known| known.word == word);
        let theirs = self.rest.first().map_or(&[][..], |kind| of_kind(kind));
        self.rest
            .iter()
            .position(|word| ours(word) && !theirs.iter().any(|known| known.word == *word))
            .unwrap_or(self.rest.len())
    }
}

/// Entries as a table.
struct Table<'a, I> {
    entries: I,
    value: Option<Given<'a>>,
}

impl<'a, 'de, I: Iterator<Item = (&'static str, Given<'a>)>> Deserializer<'de> for Table<'a, I> {
    type Error = ConfigError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        visitor.visit_map(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'a, 'de, I: Iterator<Item = (&'static str, Given<'a>)>> MapAccess<'de> for Table<'a, I> {
    type Error = ConfigError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ConfigError> {
        let Some((key, given)) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some(given);
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ConfigError> {
        let given = self.value.take().unwrap_or(Given::Flag(false));
        seed.deserialize(given.clone()).map_err(|error| given.explain(error))
    }
}

impl Given<'_> {
    /// Says of which word a value could not be read.
    fn explain(self, error: ConfigError) -> ConfigError {
        let Self::Value(word, value) = self else {
            return error;
        };
        let text = error.to_string();
        match text.strip_prefix(&format!("'{value}' is not ")) {
            Some(expected) => ConfigError::value(&format!("{word} {value}"), expected),
            None => ConfigError::Read(format!("{word} {value}: {text}")),
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Flag(true) => "true",
            Self::Flag(false) => "false",
            Self::Value(_, value) => value,
            Self::Section(words) => words,
        }
    }
}

/// Reads values from their text, of the type that is asked for.
macro_rules! from_text {
    ($($deserialize:ident $visit:ident $type:ty, $expected:literal;)*) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
            match self.text().parse::<$type>() {
                Ok(value) => visitor.$visit(value),
                Err(_) => Err(ConfigError::value(self.text(), $expected)),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Given<'_> {
    type Error = ConfigError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        match self {
            Self::Flag(value) => visitor.visit_bool(value),
            _ => visitor.visit_str(self.text()),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ConfigError> {
        visitor.visit_newtype_struct(self)
    }

    from_text! {
        deserialize_bool visit_bool bool, "true or false";
        deserialize_u8 visit_u64 u64, "a whole number";
        deserialize_u16 visit_u64 u64, "a whole number";
        deserialize_u32 visit_u64 u64, "a whole number";
        deserialize_u64 visit_u64 u64, "a whole number";
        deserialize_f64 visit_f64 f64, "a number";
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u128 f32 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        enum identifier ignored_any
    }
}
