//! What a discipline says of its keys, so that tables, words, descriptions and construction follow from one definition:
//! the `Deserialize` of the type gives the names, types and defaults, and [`Keys::WORDS`] how a line of words maps to
//! them.

mod context;
mod error;

use std::fmt::{self, Debug, Display};

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_core::Duration;

use crate::Qdisc;

pub use context::BuildContext;
pub use error::ConfigError;

/// The keys of one kind of discipline.
///
/// `Display` describes them in one line, for people: the kind and what was chosen, and of the rest only what is not the
/// default. The `Deserialize` must take every key as optional and refuse unknown ones
/// (`#[serde(deny_unknown_fields, default)]`).
pub trait Keys: Default + Clone + PartialEq + Debug + Display + Serialize + DeserializeOwned {
    /// The words that stand for the keys in a line, and so all the keys.
    const WORDS: &'static [Word];

    /// Builds the discipline, empty.
    ///
    /// # Errors
    ///
    /// What [`QdiscConfig::build`](crate::config::QdiscConfig::build) lists.
    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError>;

    /// Whether every queue answers congestion with marks where it can, so that the packets that it drops nevertheless
    /// say little about congestion.
    fn marks(&self) -> bool {
        false
    }

    /// Whether packets of a flow may overtake others of it inside one of its queues.
    fn may_reorder(&self) -> bool {
        false
    }

    /// The queueing delay that it aims at on a path with this round-trip time; none if its keys name none in time.
    fn target(&self, _rtt: Duration) -> Option<Duration> {
        None
    }

    /// The queues that the discipline's events are about, in the order of their [`QueueId`](weir_core::QueueId).
    fn queue_names(&self) -> &'static [&'static str] {
        &["queue"]
    }
}

/// A word in a line of words, and the key that it gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    pub(super) word: &'static str,
    pub(super) key: &'static str,
    pub(super) form: Form,
}

/// The words of two lists, for disciplines that share some.
pub(crate) const fn join<const A: usize, const B: usize, const N: usize>(
    first: [Word; A],
    second: [Word; B],
) -> [Word; N] {
    assert!(A + B == N);
    let mut all = [Word::flag(""); N];
    let mut index = 0;
    while index < N {
        all[index] = if index < A { first[index] } else { second[index - A] };
        index += 1;
    }
    all
}

/// A number of queues that the kernel takes too.
pub(crate) fn checked_flows(flows: u32) -> Result<u32, ConfigError> {
    if (1..=65_536).contains(&flows) {
        Ok(flows)
    } else {
        Err(ConfigError::refused("flows", format!("{flows} queues are not from 1 to 65536")))
    }
}

/// Writes ` key value`, unless the value is the `usual` one.
pub(crate) fn write_unusual<T: PartialEq + Display>(
    f: &mut fmt::Formatter<'_>,
    key: &str,
    value: &T,
    usual: &T,
) -> fmt::Result {
    if value == usual { Ok(()) } else { write!(f, " {key} {value}") }
}

/// What a word says of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The next word is the value, such as this one.
    Value(&'static str),
    /// The words of a discipline follow, such as these.
    Section(&'static str),
    /// The word alone is the value.
    Flag(bool),
}

impl Word {
    /// `key VALUE`, for instance with the value `example`.
    pub const fn value(key: &'static str, example: &'static str) -> Self {
        Self { word: key, key, form: Form::Value(example) }
    }

    /// `key` and the words of a discipline, for instance those of `example`.
    pub const fn section(key: &'static str, example: &'static str) -> Self {
        Self { word: key, key, form: Form::Section(example) }
    }

    /// `key` alone, which makes it true.
    pub const fn flag(key: &'static str) -> Self {
        Self { word: key, key, form: Form::Flag(true) }
    }

    /// How many words it takes in a line with its value; a discipline counts as one.
    pub(super) const fn words(&self) -> usize {
        match self.form {
            Form::Flag(_) => 1,
            Form::Value(_) | Form::Section(_) => 2,
        }
    }

    /// `word` alone, which makes `key` false: `noecn`.
    pub const fn no(word: &'static str, key: &'static str) -> Self {
        Self { word, key, form: Form::Flag(false) }
    }
}

/// A discipline whose keys are many is boxed in [`QdiscConfig`](crate::config::QdiscConfig).
impl<K: Keys> Keys for Box<K> {
    const WORDS: &'static [Word] = K::WORDS;

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        K::build(self, context)
    }

    fn marks(&self) -> bool {
        K::marks(self)
    }

    fn may_reorder(&self) -> bool {
        K::may_reorder(self)
    }

    fn target(&self, rtt: Duration) -> Option<Duration> {
        K::target(self, rtt)
    }

    fn queue_names(&self) -> &'static [&'static str] {
        K::queue_names(self)
    }
}
