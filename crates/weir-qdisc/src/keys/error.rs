//! What can be wrong with the configuration of a queue discipline. Every message names the key and says what to
//! change; the analogue in `tc` is a usage text or `RTNETLINK answers: Invalid argument`.

use thiserror::Error;
use weir_core::Duration;

use crate::{Limit, Sharing};

/// Why a configuration cannot be read or built.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The link has no rate.
    #[error("rate: a queue before a link of rate 0 never empties; give a rate such as 10mbit")]
    ZeroRate,
    /// Not one full-size packet fits.
    #[error(
        "{key}: {limit} is {bytes} bytes here, less than one packet of {mtu}; give more, such as {example}"
    )]
    LimitTooSmall {
        /// Which.
        key: &'static str,
        /// As configured.
        limit: Limit,
        /// What it comes to on this link.
        bytes: u64,
        /// Wire bytes of the longest ordinary packet.
        mtu: u32,
        /// Ten packets, in a unit that the discipline counts.
        example: Limit,
    },
    /// The discipline cannot count in the unit of its limit.
    #[error(
        "limit: a {kind} cannot be limited to {limit}; use a {instead}, or give the limit in its unit or in bdp"
    )]
    LimitUnit {
        /// The discipline.
        kind: &'static str,
        /// As configured.
        limit: Limit,
        /// The discipline that counts in that unit.
        instead: &'static str,
    },
    /// A time of zero, or so short that CoDel's clock cannot distinguish it from zero.
    #[error(
        "{key}: {value} is shorter than a tick of CoDel's clock; give at least 1024ns, the kernel's own are 5ms and 100ms"
    )]
    TooShort {
        /// Which.
        key: &'static str,
        /// As configured.
        value: Duration,
    },
    /// A time that CoDel's 32-bit clock cannot compare.
    #[error("{key}: {value} is too long for CoDel's clock; give at most {longest}")]
    TooLong {
        /// Which.
        key: &'static str,
        /// As configured.
        value: Duration,
        /// The most that is allowed.
        longest: Duration,
    },
    /// A queue that would never send.
    #[error(
        "sharing: a weight of {standard}:{responsive} leaves a queue without any rate; give weights from 1"
    )]
    ZeroWeight {
        /// Of the standard queue.
        standard: u32,
        /// Of the responsive queue.
        responsive: u32,
    },
    /// A discipline of several queues inside a dual queue.
    #[error("{key}: a queue of a crq must be a single queue, such as bfifo or codel")]
    NestedQueues {
        /// `standard` or `responsive`.
        key: &'static str,
    },
    /// A hard split keeps fixed shares apart.
    #[error(
        "split: with sharing {0} there are no fixed shares to keep apart; use split shared, or sharing equal or by weights"
    )]
    NoFixedShares(Sharing),
    /// A burst in which no packet fits.
    #[error(
        "burst: {burst} bytes are less than one packet of {mtu}; give at least 1p, or 2p for full shares"
    )]
    BurstTooSmall {
        /// In bytes.
        burst: u64,
        /// Wire bytes of the longest ordinary packet.
        mtu: u32,
    },
    /// An error in one of the two queues of a crq.
    #[error("{key}: {error}")]
    Child {
        /// `standard` or `responsive`.
        key: &'static str,
        /// What is wrong there.
        error: Box<ConfigError>,
    },
    /// A word or key that is not known.
    #[error("'{word}' is not a {what}{hint}")]
    Unknown {
        /// As written.
        word: String,
        /// What was expected there.
        what: String,
        /// The nearest known word, or all of them.
        hint: String,
    },
    /// A word at the end that should have been followed by a value.
    #[error("'{word}' needs a value after it, such as '{word} {example}'")]
    MissingValue {
        /// The word.
        word: String,
        /// A value.
        example: &'static str,
    },
    /// The same word twice.
    #[error("'{word}' is given twice; leave one out")]
    Repeated {
        /// The word.
        word: String,
    },
    /// Another program's way to write it.
    #[error("'{old}' is written '{new}'")]
    Spelling {
        /// As written.
        old: String,
        /// As it is to be written.
        new: String,
    },
    /// A value that could not be read.
    #[error("'{value}' is not {expected}")]
    Value {
        /// As written.
        value: String,
        /// What would have been right.
        expected: String,
    },
    /// A value of a key that the discipline cannot work with.
    #[error("{key}: {reason}")]
    Refused {
        /// Which.
        key: &'static str,
        /// What is wrong, and what to give instead.
        reason: String,
    },
    /// What the type of a key said of its text.
    #[error("{0}")]
    Read(String),
    /// No words at all.
    #[error("no queue discipline is named; give one of {0}")]
    Empty(String),
}

impl ConfigError {
    pub(crate) fn value(value: &str, expected: impl Into<String>) -> Self {
        Self::Value { value: value.to_owned(), expected: expected.into() }
    }

    pub(crate) fn refused(key: &'static str, reason: impl Into<String>) -> Self {
        Self::Refused { key, reason: reason.into() }
    }
}

impl serde::de::Error for ConfigError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::Read(message.to_string())
    }
}
