//! Disciplines of other crates: registered at run time, by their kind and the type of their keys. From then on words,
//! tables, descriptions and errors know them as they know those of this crate. What a registered discipline costs more
//! is paid where configurations are read and built; its packets meet the same [`Qdisc`].

use std::any::Any;
use std::fmt::{self, Debug, Display};
use std::sync::{PoisonError, RwLock};

use serde::ser::{Error as _, SerializeMap};
use serde::{Serialize, Serializer};
use thiserror::Error;

use super::{BuildContext, ConfigError, Keys, QdiscConfig, Word, words};
use weir_core::Duration;

use crate::Qdisc;

/// A kind that cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RegisterError {
    /// There is one of this kind.
    #[error("there is a queue discipline '{0}' already; register each once, by a name of its own")]
    Taken(&'static str),
    /// No word could name it.
    #[error("'{0}' cannot name a queue discipline; use lower-case letters, digits, '_' and '-'")]
    Name(&'static str),
}

/// Reads the words after a kind.
type FromWords = fn(&'static str, &[&str]) -> Result<Box<dyn AnyKeys>, ConfigError>;

/// What is known of a registered kind.
struct Entry {
    kind: &'static str,
    words: &'static [Word],
    from_words: FromWords,
    from_table: fn(toml::Table) -> Result<Box<dyn AnyKeys>, toml::de::Error>,
}

static ENTRIES: RwLock<Vec<&'static Entry>> = RwLock::new(Vec::new());

/// Makes a discipline known as `kind`, for the rest of the program's life.
///
/// # Errors
///
/// If there is one of that kind, or no word can be called so.
pub fn register<K: Keys + Send + Sync + 'static>(kind: &'static str) -> Result<(), RegisterError> {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    if kind.is_empty() || !kind.bytes().all(letter) {
        return Err(RegisterError::Name(kind));
    }
    let mut entries = ENTRIES.write().unwrap_or_else(PoisonError::into_inner);
    if QdiscConfig::KINDS.contains(&kind) || entries.iter().any(|entry| entry.kind == kind) {
        return Err(RegisterError::Taken(kind));
    }
    entries.push(Box::leak(Box::new(Entry {
        kind,
        words: K::WORDS,
        from_words: |kind, rest| Ok(Box::new(words::read::<K>(kind, rest)?)),
        from_table: |table| Ok(Box::new(table.try_into::<K>()?)),
    })));
    Ok(())
}

/// Copies the list, which is short, so that no lock is held while a discipline's code runs.
fn entries() -> Vec<&'static Entry> {
    ENTRIES.read().unwrap_or_else(PoisonError::into_inner).clone()
}

fn find(kind: &str) -> Option<&'static Entry> {
    entries().into_iter().find(|entry| entry.kind == kind)
}

/// The registered kinds with their words, in the order in which they were registered.
pub(super) fn kinds() -> impl Iterator<Item = (&'static str, &'static [Word])> {
    entries().into_iter().map(|entry| (entry.kind, entry.words))
}

/// From the words after its kind, if that is registered.
pub(super) fn from_words(kind: &str, rest: &[&str]) -> Option<Result<Registered, ConfigError>> {
    let entry = find(kind)?;
    Some((entry.from_words)(entry.kind, rest).map(|keys| Registered { kind: entry.kind, keys }))
}

/// From a table whose `kind` is registered; else the table is handed back.
pub(super) fn from_table(mut table: toml::Table) -> Result<Result<Registered, toml::de::Error>, toml::Table> {
    let Some(entry) = table.get("kind").and_then(|kind| find(kind.as_str()?)) else { return Err(table) };
    table.remove("kind");
    Ok((entry.from_table)(table).map(|keys| Registered { kind: entry.kind, keys }))
}

/// The configuration of a registered discipline.
pub struct Registered {
    kind: &'static str,
    pub(super) keys: Box<dyn AnyKeys>,
}

impl Registered {
    /// As tables and words name it.
    pub const fn kind(&self) -> &'static str {
        self.kind
    }

    /// The keys, if they are of this type: that with which the kind was registered.
    pub fn keys<K: Keys + 'static>(&self) -> Option<&K> {
        self.keys.any().downcast_ref()
    }
}

impl Clone for Registered {
    fn clone(&self) -> Self {
        Self { kind: self.kind, keys: self.keys.copy() }
    }
}

impl PartialEq for Registered {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.keys.is(&*other.keys)
    }
}

impl Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Debug::fmt(&self.keys, f)
    }
}

impl Display for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.keys, f)
    }
}

impl Serialize for Registered {
    /// As the tables of other disciplines: the kind, and all keys.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let keys = self.keys.table().map_err(S::Error::custom)?;
        let mut map = serializer.serialize_map(Some(1 + keys.len()))?;
        map.serialize_entry("kind", self.kind)?;
        for (key, value) in &keys {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// [`Keys`] of any type.
pub(super) trait AnyKeys: Debug + Display + Send + Sync {
    fn any(&self) -> &dyn Any;
    fn is(&self, other: &dyn AnyKeys) -> bool;
    fn copy(&self) -> Box<dyn AnyKeys>;
    fn table(&self) -> Result<toml::Table, toml::ser::Error>;
    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError>;
    fn marks(&self) -> bool;
    fn may_reorder(&self) -> bool;
    fn target(&self, rtt: Duration) -> Option<Duration>;
    fn queue_names(&self) -> &'static [&'static str];
}

impl<K: Keys + Send + Sync + 'static> AnyKeys for K {
    fn any(&self) -> &dyn Any {
        self
    }

    fn is(&self, other: &dyn AnyKeys) -> bool {
        other.any().downcast_ref() == Some(self)
    }

    fn copy(&self) -> Box<dyn AnyKeys> {
        Box::new(self.clone())
    }

    fn table(&self) -> Result<toml::Table, toml::ser::Error> {
        toml::Table::try_from(self)
    }

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        Keys::build(self, context)
    }

    fn marks(&self) -> bool {
        Keys::marks(self)
    }

    fn may_reorder(&self) -> bool {
        Keys::may_reorder(self)
    }

    fn target(&self, rtt: Duration) -> Option<Duration> {
        Keys::target(self, rtt)
    }

    fn queue_names(&self) -> &'static [&'static str] {
        Keys::queue_names(self)
    }
}
