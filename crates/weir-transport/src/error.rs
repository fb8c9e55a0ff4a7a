//! What can go wrong between two ends.

use std::net::SocketAddr;
use std::time::Duration;

use noq_proto::{ConnectionError, TransportErrorCode};
use thiserror::Error;

use crate::identity::Fingerprint;
use crate::streams::STOPPED;

/// Why an end could not begin or go on. It says what to change, where that is known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// A socket or a thread could not be had.
    #[error("{0}")]
    Local(String),
    /// The receiver's certificate or key is of no use.
    #[error("cannot use the certificate: {0}")]
    Identity(String),
    /// What the sender is to trust is of no use.
    #[error("cannot tell whom to trust: {0}")]
    Trust(String),
    /// The receiver has another certificate than the one that is expected.
    #[error(
        "the receiver is not the one you trust: its certificate has the fingerprint {found}, not {expected}; if it \
         was made anew, take the fingerprint that the receiver prints"
    )]
    Fingerprint {
        /// The trusted one.
        expected: Fingerprint,
        /// The receiver's.
        found: Fingerprint,
    },
    /// Nobody answers.
    #[error("{0} does not answer; is the receiver running, and is UDP let through?")]
    Silent(SocketAddr),
    /// Nobody listens at that port.
    #[error("nobody listens at {0}; start the receiver there first")]
    Nobody(SocketAddr),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Lost(String),
    /// The other end has closed it.
    #[error("the other end closed the connection: {0}")]
    Closed(String),
    /// The other end does not keep to the messages.
    #[error("the other end does not speak as it should: {0}")]
    Message(String),
    /// The other end does not want what was asked for.
    #[error("the receiver refused: {0}")]
    Refused(String),
    /// A file could not be read or written.
    #[error("{0}")]
    File(String),
    /// A look at a path took longer than it may.
    #[error("after {0:?} it is still not found out whether the bottleneck is fair-queued; give it more time")]
    Slow(Duration),
    /// It was stopped from here.
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// Why a connection with `remote` was lost.
    pub(crate) fn of_connection(reason: &ConnectionError, remote: SocketAddr, was_up: bool) -> Self {
        match reason {
            ConnectionError::ApplicationClosed(close) if close.error_code == STOPPED => {
                Self::Lost("the other end was stopped".to_owned())
            }
            ConnectionError::ApplicationClosed(close) => {
                Self::Closed(readable(&String::from_utf8_lossy(&close.reason)))
            }
            ConnectionError::ConnectionClosed(close)
                if close.error_code == TransportErrorCode::CONNECTION_REFUSED =>
            {
                Self::Refused("it has as many connections as it takes".to_owned())
            }
            ConnectionError::TimedOut if !was_up => Self::Silent(remote),
            ConnectionError::TimedOut => Self::Lost(format!("nothing was heard from {remote} for a while")),
            ConnectionError::LocallyClosed => Self::Stopped,
            other => Self::Lost(readable(&other.to_string())),
        }
    }
}

/// Words of the other end without what would speak to a terminal, and not too many.
pub(crate) fn readable(words: &str) -> String {
    words.chars().filter(|letter| !letter.is_control()).take(300).collect()
}
