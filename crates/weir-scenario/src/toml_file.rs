//! Files that say in TOML what to do: scenarios, suites, sweeps. Everything else in this crate works on text.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "files are read here and nowhere else"
)]

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::de::DeserializeOwned;
use thiserror::Error;
use weir_core::Bytes;

use crate::toml_place::key_at;
use crate::with_nearest_key;

/// A file that cannot be read or understood.
#[derive(Debug, Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is not TOML, or has other keys than it may have. The message shows line and column.
    #[error("{path}: {message}")]
    Syntax {
        /// The file.
        path: String,
        /// What the parser says, with the nearest known key.
        message: String,
        /// The same without line and column, for a text that nobody sees.
        words: String,
        /// The key that it is about, such as `flow.0.rate`; empty if that is the whole of the text.
        key: String,
    },
}

/// The longest file: room for a sweep with a million values.
const LONGEST: u64 = 16 << 20;

/// The text of a file.
///
/// # Errors
/// If it cannot be read, is too long, or is not text.
pub fn read(path: &Path) -> Result<String, FileError> {
    let failed = |source| FileError::Read { path: path.display().to_string(), source };
    File::open(path).and_then(|file| read_text(file, LONGEST)).map_err(failed)
}

/// The text of a regular file of at most `most` bytes. A device or a pipe is not even opened: that may block, or do
/// something.
///
/// # Errors
/// If it cannot be read, is no regular file, is too long, or is not text.
pub(crate) fn read_regular(path: &Path, most: u64) -> io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    read_text(File::open(path)?, most)
}

/// The text of a file of at most `most` bytes. It may be a pipe.
fn read_text(file: File, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    if file.take(most + 1).read_to_end(&mut bytes)? as u64 > most {
        let what = format!("it is longer than the {} that are read; name another file", Bytes(most));
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    let no_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not text; name another file");
    String::from_utf8(bytes).map_err(no_text)
}

/// What `text` says; errors call it `path`.
pub fn parse<T: DeserializeOwned>(text: &str, path: &str) -> Result<T, FileError> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        // What the whole of the text lacks has an empty place.
        let place = error.span().filter(|span| !span.is_empty());
        FileError::Syntax {
            path: path.to_owned(),
            message: with_nearest_key(&error.to_string()),
            words: with_nearest_key(error.message()),
            key: place.and_then(|span| key_at(text, span.start)).unwrap_or_default(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{FileError, parse};
    use crate::Scenario;

    #[test]
    fn an_error_names_the_key_that_it_is_about() {
        for (text, about) in [
            ("[[flow]]\nstack = 'tcp'\n", ""),
            ("[bottleneck]\nrate = '10mbit'\nqdisc = 'pfifo'\n", "bottleneck"),
            ("[scenario.bottleneck]\nrate = '10mbit'\n", "scenario"),
            ("[bottleneck]\nrate = 1e7\nrtt = '20ms'\nqdisc = 'pfifo'\n", "bottleneck.rate"),
        ] {
            let error = parse::<Scenario>(text, "it").unwrap_err();
            let FileError::Syntax { key, words, message, .. } = &error else { panic!("{error}") };
            assert_eq!(key, about, "{error}");
            assert!(
                message.contains("line") && !words.contains("line") && message.contains(words),
                "{error}"
            );
        }
    }
}
