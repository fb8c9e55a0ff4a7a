//! What can be wrong with what is wanted. Every message names the word or key and says what to change.

use std::fmt;

use thiserror::Error;
use weir_core::Rate;
use weir_qdisc::ConfigError;

use crate::leaf::LeafError;

/// What is wrong with the words, the file or the values in them.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A word, kind or option that is not known.
    #[error("'{word}' is not {what}{hint}")]
    Unknown {
        /// As written.
        word: String,
        /// What was expected there, with its article.
        what: String,
        /// What was probably meant.
        hint: String,
    },
    /// A value that cannot be read or used.
    #[error("{key}: {problem}")]
    Value {
        /// The word or key.
        key: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A queue that the kernel cannot have on this link.
    #[error("{queue} queue: {error} (at {rate} and MTU {mtu})")]
    Queue {
        /// `standard` or `responsive`.
        queue: &'static str,
        /// What is wrong with it.
        error: LeafError,
        /// Its share of the rate.
        rate: Rate,
        /// The MTU of the interface, in bytes.
        mtu: u32,
    },
    /// The same word twice.
    #[error("'{word}' is given twice; leave one out")]
    Repeated {
        /// The word.
        word: String,
    },
    /// A word at the end that takes a value.
    #[error("'{word}' needs a value after it, such as '{word} {example}'")]
    NoValue {
        /// The word.
        word: String,
        /// A value.
        example: &'static str,
    },
    /// Something without which nothing can be set up.
    #[error("no {what} is given; add {example}")]
    Missing {
        /// What.
        what: &'static str,
        /// How.
        example: &'static str,
    },
}

impl From<ConfigError> for SetupError {
    fn from(error: ConfigError) -> Self {
        Self::value("queues", &error)
    }
}

impl SetupError {
    pub(crate) fn unknown(word: &str, what: &str, hint: String) -> Self {
        let article = if what.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
        Self::Unknown { word: word.to_owned(), what: format!("{article} {what}"), hint }
    }

    pub(crate) fn value(key: &str, problem: &(impl fmt::Display + ?Sized)) -> Self {
        Self::Value { key: key.to_owned(), problem: problem.to_string() }
    }
}
